//! Checks the files of `deploy` with the tools that read them.
//!
//! Phases: fetch the tools into `<target>/deployment`, once; render the chart for each topology and
//! compare it with `deploy/kubernetes`; validate it against the schemas of the oldest and the
//! newest supported Kubernetes; check that invalid values are refused; then check the compose file,
//! the Dockerfile, the systemd unit, the alert rules and the boards.
//!
//! Helm and the reader of rules are built from Go modules, the rest comes from PyPI. Versions are
//! pinned here and in `crates/xtask/deployment`. Nothing is deployed: that needs a cluster. The
//! tests of `upesi` prove that the program starts with the rendered files
//! (`upesi/tests/product/deployment.rs`).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::tools::{self, run, target};

const CHART: &str = "deploy/helm/upesi";
const VALUES: &str = "deploy/helm/topologies";
const RENDERED: &str = "deploy/kubernetes";
const BOARDS: &str = "deploy/grafana/dashboards";
const WANTED: &str = "crates/xtask/deployment";
/// Topologies whose rendering is kept.
const TOPOLOGIES: [&str; 3] = ["one", "cluster", "thousand"];
/// The oldest Kubernetes that the chart is for, and the newest one known.
const KUBERNETES: [&str; 2] = ["1.30", "1.37"];
const HELM: &str = "helm.sh/helm/v3/cmd/helm@v3.22.0";
/// Topology, the extra setting, and the text that the refusal must contain.
const REFUSED: [(&str, &str, &str); 7] = [
    ("one", "replicas=2", "a log in files has one node"),
    ("cluster", "admin.tokenSecret.name=", "several nodes need one admin token"),
    ("cluster", "secure.secretName=", "the Secret with the files of `upesi init`"),
    ("cluster", "end.pauseSeconds=50", "end.graceSeconds"),
    ("cluster", "replica=3", "replica"),
    ("cluster", "name=Upesi", "name"),
    ("cluster", "log.kafka.topic=a/b", "topic"),
];

/// Whether committed renderings are compared or written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RenderingMode {
    Compared,
    Written,
}

/// Runs all checks and prints the first error. Returns whether there was no error.
pub(crate) fn check(root: &Path, kept: RenderingMode) -> bool {
    let done = all(root, kept);
    if let Err(error) = &done {
        eprintln!("deployment: {error}");
    }
    done.is_ok()
}

fn all(root: &Path, kept: RenderingMode) -> Result<(), String> {
    let tools = Tools::ready(root)?;
    let mut rendered = Vec::new();
    for topology in TOPOLOGIES {
        let text = tools.render(&format!("{VALUES}/{topology}.yaml"), &["--skip-tests"])?;
        rendered.push(keep(root, topology, &text, kept)?);
    }
    let everything = tools.kept.join("everything.yaml");
    let text = tools.render(&format!("{WANTED}/everything.yaml"), &[])?;
    write(&everything, &text)?;
    rendered.push(everything);
    takes(root, &tools.kept.join("upesi.toml"), &text)?;
    for version in KUBERNETES {
        println!("deployment: what is rendered, against the schemas of Kubernetes {version}");
        let mut validate = tools.python_program("kubernetes-validate");
        validate.args(["--quiet", "--strict", "-k", version]).args(&rendered);
        run(&mut validate)?;
    }
    REFUSED.iter().try_for_each(|refused| tools.refuses(refused))?;
    println!("deployment: compose, the image, the rules of alerts");
    for profile in ["", "watch"] {
        let mut compose = tools.python_program("docker-compose");
        // An image built elsewhere is named by this variable; here it is unset.
        compose.env_remove("UPESI_IMAGE");
        compose.args(["--file", "deploy/compose/compose.yaml", "--profile", profile]);
        silent(compose.args(["config", "--quiet"]), "compose.yaml")?;
    }
    run(tools.python_program("hadolint").arg("deploy/container/Dockerfile"))?;
    run(Command::new(tools.kept.join("bin/rules"))
        .current_dir(root)
        .arg("deploy/prometheus/rules.yaml"))?;
    println!("deployment: the boards, with Grafana's own model");
    run(tools.python_program("python").arg(format!("{WANTED}/boards.py")).args(boards(root)?))?;
    unit(root, &tools.kept)
}

/// The files of the boards.
fn boards(root: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error| format!("{BOARDS}: {error}");
    let files = fs::read_dir(root.join(BOARDS)).map_err(failed)?;
    files.map(|file| Ok(file.map_err(failed)?.path())).collect()
}

/// Writes a rendering, or compares it with what is kept. Answers with its path.
fn keep(root: &Path, topology: &str, text: &str, kept: RenderingMode) -> Result<PathBuf, String> {
    let path = root.join(format!("{RENDERED}/{topology}.yaml"));
    let failed = |error| format!("{}: {error}", path.display());
    if kept == RenderingMode::Written {
        write(&path, text)?;
        println!("deployment: wrote {}", path.display());
    } else if fs::read_to_string(&path).map_err(failed)? != text {
        return Err(format!(
            "{RENDERED}/{topology}.yaml is not what the chart renders; cargo xtask deployment \
             --write writes it anew"
        ));
    }
    Ok(path)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Path at which the chart mounts the admin token.
const TOKEN: &str = "/run/upesi/admin-token";

/// Lets the program read the configuration in the rendered files: numbers, texts, booleans and
/// lists. The token that it names is a file here.
fn takes(root: &Path, file: &Path, rendered: &str) -> Result<(), String> {
    let lines = rendered.lines().skip_while(|line| *line != "  upesi.toml: |").skip(1);
    let lines: Vec<_> = lines.map_while(|line| line.strip_prefix("    ")).collect();
    let token = file.with_extension("token");
    write(&token, &"t".repeat(32))?;
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600))
        .map_err(|error| format!("{}: {error}", token.display()))?;
    write(file, &lines.join("\n").replace(TOKEN, &token.display().to_string()))?;
    println!("deployment: the configuration of {WANTED}/everything.yaml");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args(["run", "--quiet", "--locked", "--package", "upesi", "--"]);
    run(cargo.arg("check-config").arg(file).stdout(Stdio::null()))
}

/// Has systemd read the unit, where there is systemd. It looks for the program, so that is replaced
/// by one that every machine has.
fn unit(root: &Path, kept: &Path) -> Result<(), String> {
    let path = root.join("deploy/systemd/upesi.service");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let copy = kept.join("upesi.service");
    write(&copy, &text.replace("/usr/local/bin/upesi", "/bin/true"))?;
    let quiet =
        |command: &mut Command| command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if quiet(Command::new("systemd-analyze").arg("--version")).is_err() {
        println!("deployment: SKIPPED: the unit, for there is no systemd-analyze here");
        return Ok(());
    }
    println!("deployment: the unit");
    silent(Command::new("systemd-analyze").arg("verify").arg(&copy), "upesi.service")
}

/// Runs a program that reports errors but exits with 0: no line of its output may name the file.
fn silent(command: &mut Command, file: &str) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program} did not start: {error}"))?;
    let setting = String::from_utf8_lossy(&output.stderr);
    match output.status.success() && !setting.contains(file) {
        true => Ok(()),
        false => Err(format!("{program} ended with {}: {}", output.status, setting.trim_end())),
    }
}

/// The tools for the checks.
struct Tools {
    root: PathBuf,
    kept: PathBuf,
    python: PathBuf,
}

impl Tools {
    fn ready(root: &Path) -> Result<Self, String> {
        let kept = target(root).join("deployment");
        fs::create_dir_all(&kept).map_err(|error| format!("{}: {error}", kept.display()))?;
        let python = tools::python(&kept, &root.join(WANTED).join("requirements.txt"))?;
        let tools = Self { root: root.to_owned(), kept, python };
        let version = HELM.rsplit_once('@').map_or(HELM, |(_, version)| version);
        if !tools.kept.join(version).exists() {
            println!("building Helm {version} into {} (minutes)", tools.kept.display());
            run(tools.go(root).args(["install", HELM]))?;
            fs::write(tools.kept.join(version), "").map_err(|error| error.to_string())?;
        }
        run(tools.go(&root.join(WANTED).join("rules")).args(["install", "."]))?;
        Ok(tools)
    }

    /// Go, which puts what it builds among the tools.
    fn go(&self, directory: &Path) -> Command {
        let mut command = Command::new("go");
        command.current_dir(directory).env("GOBIN", self.kept.join("bin"));
        command
    }

    fn python_program(&self, name: &str) -> Command {
        let mut command = Command::new(self.python.join(name));
        command.current_dir(&self.root);
        command
    }

    fn template(&self, values: &str) -> Command {
        let mut helm = Command::new(self.kept.join("bin/helm"));
        helm.current_dir(&self.root).args(["template", "upesi", CHART, "--namespace", "upesi"]);
        helm.args(["--kube-version", KUBERNETES[0], "--values", values]);
        helm
    }

    /// The chart rendered with these values, after a check for unexpected content.
    fn render(&self, values: &str, more: &[&str]) -> Result<String, String> {
        println!("deployment: the chart with {values}");
        let mut lint = Command::new(self.kept.join("bin/helm"));
        lint.current_dir(&self.root).args(["lint", "--strict", "--quiet", "--values", values]);
        run(lint.arg(CHART))?;
        let output = self.template(values).args(more).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("helm did not start: {error}"))?;
        if !output.status.success() {
            return Err(format!("helm template ended with {}; see above", output.status));
        }
        String::from_utf8(output.stdout).map_err(|error| error.to_string())
    }

    fn refuses(&self, (topology, setting, named): &(&str, &str, &str)) -> Result<(), String> {
        let values = format!("{VALUES}/{topology}.yaml");
        let output = self.template(&values).args(["--set", setting]).output();
        let output = output.map_err(|error| format!("helm did not start: {error}"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        match !output.status.success() && text.contains(named) {
            true => Ok(()),
            false => Err(format!("{topology} with {setting} must be refused for {named}: {text}")),
        }
    }
}
