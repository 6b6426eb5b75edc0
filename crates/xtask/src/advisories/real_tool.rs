//! The real tool, with a database made here. The tool is installed if need be.

use std::fs;

use super::*;

const URL: &str = "https://advisories.test/db";

/// A directory with a database and the settings that name it.
struct Fixture {
    place: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let place = env::temp_dir().join(format!("upesi-real-advisories-{}", std::process::id()));
        let database = place.join("db");
        fs::create_dir_all(database.join("crates/serde_json")).expect("a directory");
        let fixture = Self { place };
        fixture.git(&["init", "--quiet", "--initial-branch", "main"]);
        let kept = fixture.place.join("kept");
        let settings = format!(
            "[advisories]\nyanked = \"deny\"\ndb-path = {:?}\ndb-urls = [{URL:?}]\n",
            kept.display().to_string()
        );
        fs::write(fixture.settings(), settings).expect("settings");
        fixture
    }

    fn settings(&self) -> PathBuf {
        self.place.join("deny.toml")
    }

    fn git(&self, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.current_dir(self.place.join("db")).args(["-c", "user.name=t", "-c", "user.email=t@t"]);
        tools::run(git.args(arguments)).expect("git");
    }

    /// Replaces the advisory about a crate of Cargo.lock.
    fn write_advisory(&self, patched: &str) {
        let text = format!(
            "```toml\n[advisory]\nid = \"RUSTSEC-2026-9999\"\npackage = \"serde_json\"\n\
             date = \"2026-01-01\"\n[versions]\npatched = [\"{patched}\"]\n```\n\n# A made-up \
             fault\n\nOf a test.\n"
        );
        let file = self.place.join("db/crates/serde_json/RUSTSEC-2026-9999.md");
        fs::write(file, text).expect("an advisory");
        self.git(&["add", "."]);
        self.git(&["commit", "--quiet", "--message", patched]);
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _left_for_the_system = fs::remove_dir_all(&self.place);
    }
}

fn tool(root: &Path) -> PathBuf {
    let target = tools::target(root);
    find_tool(&target).unwrap_or_else(|| {
        let mut cargo = Command::new("cargo");
        cargo.args(["install", "--quiet", "--locked", TOOL, "--version", "0.20.2", "--root"]);
        tools::run(cargo.arg(target.join(TOOLS_KEPT))).expect("it is installed");
        find_tool(&target).expect("it was installed")
    })
}

/// The database is a local repository in the place of the address.
#[test]
fn a_vulnerability_of_the_locked_packages_is_a_failure() {
    let root = crate::root();
    let (tool, fixture) = (tool(&root), Fixture::new());
    let settings = fixture.settings();
    let unreachable = check_with(&tool, &root, &settings);
    assert!(matches!(unreachable, StepResult::NotChecked(_)), "{unreachable:?}");
    fixture.write_advisory(">= 99.0.0");
    let local = format!("[url \"file://{}\"]\n", fixture.place.join("db").display());
    let config = fixture.place.join("gitconfig");
    fs::write(&config, local + &format!("insteadOf = {URL}\n")).expect("settings of git");
    let with_git = |tool: &Path| {
        let script = fixture.place.join(TOOL);
        let text = format!(
            "#!/bin/sh\nGIT_CONFIG_GLOBAL={:?} exec {:?} \"$@\"\n",
            config.display().to_string(),
            tool.display().to_string()
        );
        fs::write(&script, text).expect("a script");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&script, mode).expect("it is executable");
        script
    };
    let connected = with_git(&tool);
    assert_eq!(check_with(&connected, &root, &settings), StepResult::Failed);
    assert_eq!(check_with(&tool, &root, &settings), StepResult::Failed, "kept, without network");
    fixture.write_advisory(">= 1.0.0");
    assert_eq!(check_with(&connected, &root, &settings), StepResult::Passed);
    assert_eq!(check_with(&tool, &root, &settings), StepResult::Passed, "kept, without network");
}
