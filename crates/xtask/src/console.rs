//! The operators' console: built from `console/`, compared with the files that the program embeds,
//! and tested in a browser.
//!
//! Needs node, npm and Chromium, and once a registry of npm. Building the program needs none of
//! them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::tools::{self, run, target};

/// The sources.
const DIRECTORY: &str = "console";
/// The files that the program embeds, within [`DIRECTORY`].
const BUILT: &str = "dist";
/// Programs that building needs, with their packages.
const BUILDERS: [(&str, &str); 2] = [("node", "nodejs"), ("npm", "npm")];
const BROWSER: (&str, &str) = ("chromium", "chromium");
const MEND: &str = "run `cargo xtask console`, and commit console/dist";

/// Writes the embedded files anew. Returns whether that succeeded.
pub(crate) fn build(root: &Path) -> bool {
    succeeds(build_into(root, &root.join(DIRECTORY).join(BUILT)))
}

/// Compares the embedded files with their sources, and tests the console of the switch that was
/// built here. Returns whether both succeeded.
pub(crate) fn check(root: &Path) -> bool {
    succeeds(compare(root).and_then(|()| test(root)))
}

fn succeeds(result: Result<(), String>) -> bool {
    result.inspect_err(|error| eprintln!("{error}")).is_ok()
}

fn build_into(root: &Path, output: &Path) -> Result<(), String> {
    tools::install_missing(&BUILDERS)?;
    run(npm(root).args(["ci", "--no-audit", "--no-fund", "--prefer-offline"]))?;
    run(npm(root).args(["run", "--silent", "check"]))?;
    run(npm(root).args(["run", "--silent", "build", "--"]).arg(output))
}

fn compare(root: &Path) -> Result<(), String> {
    let fresh = target(root).join(DIRECTORY);
    build_into(root, &fresh)?;
    let (built, committed) = (files(&fresh)?, files(&root.join(DIRECTORY).join(BUILT))?);
    let names = built.keys().chain(committed.keys());
    let mut differing: Vec<_> =
        names.filter(|name| built.get(*name) != committed.get(*name)).collect();
    differing.dedup();
    match &*differing {
        [] => Ok(()),
        names => {
            Err(format!("{DIRECTORY}/{BUILT} is not built from its sources: {names:?}; {MEND}"))
        }
    }
}

/// The files of a directory by their names.
fn files(directory: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let failed = |error| format!("{}: {error}", directory.display());
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        files.insert(name, fs::read(entry.path()).map_err(failed)?);
    }
    Ok(files)
}

fn test(root: &Path) -> Result<(), String> {
    tools::install_missing(&[BROWSER])?;
    let programs = target(root).join("debug");
    let mut tests = npm(root);
    tests.args(["run", "--silent", "test"]);
    run(tests.env("UPESI", programs.join("upesi")).env("UPESI_BENCH", programs.join("upesi-bench")))
}

fn npm(root: &Path) -> Command {
    let mut command = Command::new("npm");
    command.current_dir(root.join(DIRECTORY));
    command
}
