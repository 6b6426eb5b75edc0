//! Packages of a release: a static program in a tarball and in a Debian package, with the list of
//! all that it contains.
//!
//! Phases: build the program, with its dependencies listed inside (`cargo auditable`) and without
//! the paths of this machine; write the list as a CycloneDX document; pack both; write and sign the
//! checksums. All files depend on the commit alone: times are those of the commit. [`check`] shows
//! it by a second build in another directory, and installs the package into a new Debian.

mod clean_root;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::advisories;
use crate::ci::StepResult;
use crate::tools::{self, output, run, target};

const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// TLS to brokers is left out: it needs the system's OpenSSL.
const FEATURES: &str = "object-stores";
/// Tools of the release, with pinned versions.
const TOOLS: [(&str, &str); 2] = [("cargo-auditable", "0.7.7"), ("cargo-cyclonedx", "0.5.9")];
/// Their directory in the build directory.
pub(crate) const TOOLS_KEPT: &str = "release-tools";
const CHECKSUMS: &str = "SHA256SUMS";
/// Files of the tarball and the package besides programs: source, and place below `/`.
const FILES: [(&str, &str); 6] = [
    ("LICENSE", "usr/share/doc/upesi/copyright"),
    ("CHANGELOG.md", "usr/share/doc/upesi/CHANGELOG.md"),
    ("deploy/systemd/secure.conf", "usr/share/doc/upesi/secure.conf"),
    ("deploy/systemd/upesi-drill.service", "usr/lib/systemd/system/upesi-drill.service"),
    ("deploy/systemd/upesi-drill.timer", "usr/lib/systemd/system/upesi-drill.timer"),
    ("deploy/systemd/upesi.service", "usr/lib/systemd/system/upesi.service"),
];

/// Options of `package`.
#[derive(Args)]
pub(crate) struct PackageOptions {
    /// Directory of the files [default: target/packages].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Private Ed25519 key that signs the checksums: `openssl genpkey -algorithm ed25519`.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Make them with a key of its own, build again in another directory and compare, and install
    /// the package into a new Debian (needs root).
    #[arg(long, conflicts_with_all = ["out", "key"])]
    check: bool,
}

/// Makes the packages. Returns whether all went well.
pub(crate) fn run_command(root: &Path, options: &PackageOptions) -> bool {
    if options.check {
        return prove(root);
    }
    if advisories::check(root, advisories::is_required()) == StepResult::Failed {
        return report(Err("the packages have known vulnerabilities, or were not checked".into()));
    }
    let out = options.out.clone().unwrap_or_else(|| target(root).join("packages"));
    report(make(root, &out, options.key.as_deref()).map(drop))
}

/// Makes packages and checks them. Returns whether all is well.
pub(crate) fn prove(root: &Path) -> bool {
    let place = std::env::temp_dir().join(format!("upesi-package-{}", std::process::id()));
    let done = check(root, &place);
    let _left_for_the_system = fs::remove_dir_all(&place);
    report(done)
}

fn report(done: Result<(), String>) -> bool {
    if let Err(error) = &done {
        eprintln!("package: {error}");
    }
    done.is_ok()
}

/// A made release.
struct Release {
    /// The directory with its files.
    out: PathBuf,
    version: String,
    /// Time of the commit, in seconds since 1970.
    time: String,
}

impl Release {
    fn name(&self, ending: &str) -> PathBuf {
        self.out.join(format!("upesi-{}-{ending}", self.version))
    }

    fn tarball(&self) -> PathBuf {
        self.name("x86_64-linux.tar.gz")
    }

    fn contents(&self) -> PathBuf {
        self.name("cyclonedx.json")
    }

    fn debian(&self) -> PathBuf {
        self.out.join(format!("upesi_{}_amd64.deb", self.version))
    }

    /// The program, as it is packed.
    fn program(&self) -> PathBuf {
        self.out.join("tree/usr/bin/upesi")
    }

    fn files(&self) -> [PathBuf; 3] {
        [self.tarball(), self.debian(), self.contents()]
    }
}

fn make(root: &Path, out: &Path, key: Option<&Path>) -> Result<Release, String> {
    tools::install_missing(&[("dpkg-deb", "dpkg"), ("openssl", "openssl")])?;
    let tools = install_tools(root)?;
    fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let git = |arguments: &[&str]| output(Command::new("git").current_dir(root).args(arguments));
    if !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty() {
        return Err("there are changes that are not committed; a release is of a commit".into());
    }
    let time = git(&["log", "-1", "--format=%ct"])?;
    let release = Release { out: out.to_path_buf(), version: version(root)?, time };
    println!("package: building {} in {}", release.version, root.display());
    let program = build(root, &tools, &release)?;
    list_contents(root, &tools, &release)?;
    let tree = stage(root, &program, &release)?;
    pack(&tree, &release)?;
    sign(&release, key)?;
    for file in release.files() {
        println!("package: {}", file.display());
    }
    Ok(release)
}

/// The version of the workspace.
fn version(root: &Path) -> Result<String, String> {
    let text = fs::read_to_string(root.join("Cargo.toml")).map_err(|error| error.to_string())?;
    let manifest: toml::Table = text.parse().map_err(|error| format!("Cargo.toml: {error}"))?;
    let version = manifest["workspace"]["package"]["version"].as_str();
    version.map(str::to_owned).ok_or_else(|| "Cargo.toml: no version".to_owned())
}

/// Installs the tools into the build directory, once per version. Returns their directory.
fn install_tools(root: &Path) -> Result<PathBuf, String> {
    let kept = target(root).join(TOOLS_KEPT);
    for (name, version) in TOOLS {
        let mut cargo = Command::new("cargo");
        cargo.args(["install", "--quiet", "--locked", name, "--version", version, "--root"]);
        run(cargo.arg(&kept))?;
    }
    Ok(kept.join("bin"))
}

/// A command of cargo that finds the tools.
fn cargo(root: &Path, tools: &Path, release: &Release) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root);
    cargo.env("PATH", format!("{}:{path}", tools.display()));
    cargo.env("SOURCE_DATE_EPOCH", &release.time);
    cargo
}

/// Builds the program, linked statically, without paths of this machine. Returns its path.
fn build(root: &Path, tools: &Path, release: &Release) -> Result<PathBuf, String> {
    let home = std::env::var("CARGO_HOME")
        .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
        .map_err(|error| format!("HOME: {error}"))?;
    let built = target(root).join("release-build");
    let places = [(built.as_path(), "/build"), (root, "/upesi"), (Path::new(&home), "/cargo")];
    let mut rust = "-Ctarget-feature=+crt-static".to_owned();
    let mut c = String::new();
    for (place, name) in places {
        rust += &format!("\u{1f}--remap-path-prefix={}={name}", place.display());
        c += &format!(" -ffile-prefix-map={}={name}", place.display());
    }
    let mut cargo = cargo(root, tools, release);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", rust).env("CFLAGS", &c).env("CXXFLAGS", &c);
    cargo.env("CARGO_TARGET_DIR", &built).env("CARGO_PROFILE_DIST_STRIP", "symbols");
    cargo.args(["auditable", "build", "--locked", "--profile", "dist", "--target", TRIPLE]);
    run(cargo.args(["--package", "upesi", "--bin", "upesi", "--features", FEATURES]))?;
    Ok(built.join(TRIPLE).join("dist/upesi"))
}

/// Writes the list of all components, as CycloneDX 1.5.
fn list_contents(root: &Path, tools: &Path, release: &Release) -> Result<(), String> {
    let mut cargo = cargo(root, tools, release);
    cargo.args(["cyclonedx", "--format", "json", "--spec-version", "1.5", "--target", TRIPLE]);
    cargo.args(["--features", FEATURES, "--override-filename", "contents", "--manifest-path"]);
    run(cargo.arg("crates/upesi/Cargo.toml"))?;
    // The tool writes one next to each crate of the workspace that takes part.
    for entry in fs::read_dir(root.join("crates")).map_err(|error| error.to_string())?.flatten() {
        let written = entry.path().join("contents.json");
        if entry.file_name() == "upesi" {
            copy(&written, &release.contents(), 0o644)?;
        }
        let _absent_for_others = fs::remove_file(written);
    }
    without_path(root, &release.contents())
}

/// Replaces the path of the sources in the document.
fn without_path(root: &Path, file: &Path) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let text = text.replace(&root.display().to_string(), "/upesi");
    fs::write(file, text).map_err(|error| error.to_string())
}

/// Copies a file, whose directory is made, with the mode.
fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), String> {
    let failed = |error| format!("{} to {}: {error}", from.display(), to.display());
    fs::create_dir_all(to.parent().expect("a file is in a directory")).map_err(failed)?;
    fs::copy(from, to).map_err(failed)?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).map_err(failed)
}

/// Lays out the files as they are installed. Returns the directory.
fn stage(root: &Path, program: &Path, release: &Release) -> Result<PathBuf, String> {
    let tree = release.out.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree).map_err(|error| error.to_string())?;
    }
    copy(program, &tree.join("usr/bin/upesi"), 0o755)?;
    for (from, to) in FILES {
        copy(&root.join(from), &tree.join(to), 0o644)?;
    }
    copy(&release.contents(), &tree.join("usr/share/doc/upesi/cyclonedx.json"), 0o644)?;
    for unit in ["upesi.service", "upesi-drill.service"] {
        let file = tree.join("usr/lib/systemd/system").join(unit);
        let text = fs::read_to_string(&file).map_err(|error| error.to_string())?;
        fs::write(file, text.replace("/usr/local/bin/", "/usr/bin/"))
            .map_err(|error| error.to_string())?;
    }
    run(Command::new(program).arg("man").arg("--out").arg(tree.join("usr/share/man/man1")))?;
    for (shell, place) in [
        ("bash", "usr/share/bash-completion/completions/upesi"),
        ("zsh", "usr/share/zsh/vendor-completions/_upesi"),
        ("fish", "usr/share/fish/vendor_completions.d/upesi.fish"),
    ] {
        let text = output(Command::new(program).args(["completions", shell]))?;
        let file = tree.join(place);
        fs::create_dir_all(file.parent().expect("in a directory")).map_err(|it| it.to_string())?;
        fs::write(file, text + "\n").map_err(|error| error.to_string())?;
    }
    Ok(tree)
}

/// Packs the tree, as a tarball and as a Debian package.
fn pack(tree: &Path, release: &Release) -> Result<(), String> {
    let mut modes = Command::new("chmod");
    run(modes.args(["-R", "u=rwX,go=rX"]).arg(tree))?;
    let prefix = format!("s|^\\.|upesi-{}|", release.version);
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--transform", &prefix]);
    tar.arg(format!("--mtime=@{}", release.time)).args(["-I", "gzip -9n", "-cf"]);
    run(tar.arg(release.tarball()).arg("-C").arg(tree).arg("."))?;
    write_control(tree, release)?;
    let mut deb = Command::new("dpkg-deb");
    deb.env("SOURCE_DATE_EPOCH", &release.time).args(["--root-owner-group", "-Zxz", "--build"]);
    run(deb.arg(tree).arg(release.debian()))
}

/// Writes what dpkg needs.
fn write_control(tree: &Path, release: &Release) -> Result<(), String> {
    let control = tree.join("DEBIAN");
    fs::create_dir_all(&control).map_err(|error| error.to_string())?;
    let write = |name: &str, text: &str, mode| {
        let file = control.join(name);
        fs::write(&file, text).map_err(|error| error.to_string())?;
        fs::set_permissions(file, fs::Permissions::from_mode(mode))
            .map_err(|error| error.to_string())
    };
    write(
        "control",
        &include_str!("../../../deploy/debian/control").replace("@VERSION@", &release.version),
        0o644,
    )?;
    write("postinst", include_str!("../../../deploy/debian/postinst"), 0o755)?;
    write("prerm", include_str!("../../../deploy/debian/prerm"), 0o755)
}

/// Writes the checksums of all files, and their signature if there is a key.
fn sign(release: &Release, key: Option<&Path>) -> Result<(), String> {
    let names = release.files().map(|file| file.file_name().expect("a file").to_owned());
    let sums = output(Command::new("sha256sum").current_dir(&release.out).args(names))?;
    let listed = release.out.join(CHECKSUMS);
    fs::write(&listed, sums + "\n").map_err(|error| error.to_string())?;
    let Some(key) = key else {
        println!("package: the checksums are not signed; --key signs them");
        return Ok(());
    };
    let signature = release.out.join(format!("{CHECKSUMS}.sig"));
    let mut openssl = Command::new("openssl");
    openssl.args(["pkeyutl", "-sign", "-rawin", "-inkey"]).arg(key);
    run(openssl.arg("-in").arg(listed).arg("-out").arg(signature))
}

/// Makes a signed release in `place`, and fails unless all that is promised of it holds.
fn check(root: &Path, place: &Path) -> Result<(), String> {
    tools::install_missing(&[("debootstrap", "debootstrap"), ("objdump", "binutils")])?;
    fs::create_dir_all(place).map_err(|error| error.to_string())?;
    let (key, public) = (place.join("key.pem"), place.join("public.pem"));
    run(Command::new("openssl").args(["genpkey", "-algorithm", "ed25519", "-out"]).arg(&key))?;
    let mut pkey = Command::new("openssl");
    run(pkey.arg("pkey").arg("-in").arg(&key).args(["-pubout", "-out"]).arg(&public))?;
    let release = make(root, &place.join("first"), Some(&key))?;
    verify(&release, &public)?;
    let sections = output(Command::new("objdump").arg("-h").arg(release.program()))?;
    if !sections.contains(".dep-v0") {
        return Err("the program does not list its libraries".to_owned());
    }
    build_elsewhere(root, place, &release)?;
    clean_root::install(&place.join("root"), &release)
}

/// Verifies the files with the commands of docs/security/releases.md.
fn verify(release: &Release, public: &Path) -> Result<(), String> {
    let mut openssl = Command::new("openssl");
    openssl.current_dir(&release.out).args(["pkeyutl", "-verify", "-rawin", "-pubin", "-inkey"]);
    let signature = format!("{CHECKSUMS}.sig");
    run(openssl.arg(public).args(["-in", CHECKSUMS, "-sigfile", &signature]))?;
    run(Command::new("sha256sum").current_dir(&release.out).args(["--check", CHECKSUMS]))
}

/// Fails unless a clone in `place` gives the same files.
fn build_elsewhere(root: &Path, place: &Path, release: &Release) -> Result<(), String> {
    let clone = place.join("another-clone");
    run(Command::new("git").args(["clone", "--quiet"]).arg(root).arg(&clone))?;
    let shared = clone.join("target");
    fs::create_dir_all(&shared)
        .and_then(|()| symlink(target(root).join(TOOLS_KEPT), shared.join(TOOLS_KEPT)))
        .map_err(|error| error.to_string())?;
    let mut again = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    again.env("CARGO_MANIFEST_DIR", clone.join("crates/xtask")).env_remove("CARGO_TARGET_DIR");
    run(again.args(["package", "--out"]).arg(place.join("again")))?;
    for first in release.files() {
        let second = place.join("again").join(first.file_name().expect("a file"));
        run(Command::new("cmp").args([&first, &second])).map_err(|error| {
            format!("{} differs when built in another directory: {error}", first.display())
        })?;
    }
    println!("package: a second build in another directory gives the same files");
    Ok(())
}
