//! Compiles in the commit and the build profile, so that every result names both.
//!
//! Appends `-dirty` if sources differ from that commit. Runs again whenever a source, the index or
//! the head changes.

use std::path::Path;
use std::process::Command;

/// The sources of the program, relative to this crate.
const SOURCES: [&str; 3] = ["../../crates", "../../Cargo.toml", "../../Cargo.lock"];

fn main() {
    println!("cargo:rustc-env=UPESI_COMMIT={}", commit().unwrap_or_default());
    println!("cargo:rustc-env=UPESI_PROFILE={}", profile().unwrap_or_default());
    for name in ["HEAD", "index", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name]).unwrap_or_default();
        watch(&path);
    }
    SOURCES.into_iter().for_each(watch);
    watch("build.rs");
}

/// The name of the profile, which is a directory of the output path:
/// `<target>/<profile>/build/<package>/out`.
fn profile() -> Option<String> {
    let out = std::env::var("OUT_DIR").ok()?;
    let name = Path::new(&out).ancestors().nth(3)?.file_name()?.to_str()?;
    Some(if name == "debug" { "dev" } else { name }.to_owned())
}

/// Not known without git, or outside a checkout.
fn commit() -> Option<String> {
    let commit = git(&["describe", "--always", "--abbrev=12"])?;
    let status = ["--no-optional-locks", "status", "--porcelain", "--untracked-files=no", "--"];
    let changed = git(&[&status[..], &SOURCES].concat())?;
    Some(if changed.is_empty() { commit } else { commit + "-dirty" })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// A missing path would run this script at every build.
fn watch(path: &str) {
    if !path.is_empty() && Path::new(path).exists() {
        println!("cargo:rerun-if-changed={path}");
    }
}
