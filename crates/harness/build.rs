//! Compiles in which commit this is, so that every result says what was measured.

use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=12"]);
    println!("cargo:rustc-env=UPESI_COMMIT={}", commit.unwrap_or_default());
    // The head's log grows with every commit; without it nothing but this file is watched.
    match git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        Some(path) if std::path::Path::new(&path).exists() => {
            println!("cargo:rerun-if-changed={path}");
        }
        _ => println!("cargo:rerun-if-changed=build.rs"),
    }
}
