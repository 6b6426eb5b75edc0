//! The OpenAPI documents: regenerates them from the code, compares them with the published ones,
//! and plays them against a running switch and adapters.
//!
//! The last two need Python and npm. Packages from PyPI and npm go into `<target>/documents`, once,
//! with versions pinned next to the scripts in `crates/xtask/documents`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::tools::{self, run, target};

/// Directory of the documents.
const DIRECTORY: &str = "docs/openapi";
/// Directory of the scripts.
const SCRIPTS: &str = "crates/xtask/documents";
/// The APIs, by the names that `upesi openapi` knows.
const APIS: [&str; 2] = ["fspiop", "admin"];

/// Writes both documents. Returns whether that succeeded.
pub(crate) fn write(root: &Path) -> bool {
    said(APIS.iter().try_for_each(|api| write_one(root, api)))
}

/// Compares our documents with the published ones; every difference must be listed.
pub(crate) fn compare(root: &Path) -> bool {
    said(Tools::ready(root).and_then(|tools| {
        let ours = root.join(DIRECTORY);
        let list = root.join("docs/compatibility.md");
        let mut command = tools.script("compare.py");
        command.arg("--ours").arg(ours).arg("--published").arg(&tools.published);
        run(command.arg("--list").arg(list))
    }))
}

/// How the documents are played.
pub(crate) struct Play {
    /// For all documents together.
    pub(crate) seconds: u64,
    /// Which messages are made.
    pub(crate) seed: u64,
    /// Only documents whose name holds this.
    pub(crate) only: Option<String>,
}

/// Plays our documents and the published ones against a switch and adapters built here.
pub(crate) fn play(root: &Path, play: &Play) -> bool {
    said(Tools::ready(root).and_then(|tools| {
        run(cargo(root).args(["build", "--locked", "--package", "upesi"]))?;
        let mut command = tools.script("run.py");
        command.arg("--program").arg(target(root).join("debug/upesi"));
        command.arg("--documents").arg(root.join(DIRECTORY));
        command.arg("--published").arg(&tools.published);
        command.args(["--seconds", &play.seconds.to_string()]);
        command.args(["--seed", &play.seed.to_string()]);
        if let Some(only) = &play.only {
            command.args(["--only", only]);
        }
        run(&mut command)
    }))
}

/// The dependencies of the scripts, fetched.
struct Tools {
    python: PathBuf,
    scripts: PathBuf,
    published: PathBuf,
}

impl Tools {
    /// Makes an environment for Python and fetches the published documents, unless they exist.
    fn ready(root: &Path) -> Result<Self, String> {
        let kept = target(root).join("documents");
        let scripts = root.join(SCRIPTS);
        let python = tools::python(&kept, &scripts.join("requirements.txt"))?.join("python");
        let tools = Self { python, scripts, published: kept.join("published") };
        run(tools.script("fetch.py").arg(&tools.published))?;
        Ok(tools)
    }

    fn script(&self, name: &str) -> Command {
        let mut command = Command::new(&self.python);
        // Python writes no bytecode next to the scripts.
        command.env("PYTHONDONTWRITEBYTECODE", "1").arg(self.scripts.join(name));
        command
    }
}

fn write_one(root: &Path, api: &str) -> Result<(), String> {
    let output = cargo(root)
        .args(["run", "--quiet", "--locked", "--package", "upesi", "--", "openapi", api])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("`upesi openapi {api}` ended with {}", output.status));
    }
    let path = format!("{DIRECTORY}/{api}.json");
    fs::create_dir_all(root.join(DIRECTORY)).map_err(|error| format!("{DIRECTORY}: {error}"))?;
    fs::write(root.join(&path), output.stdout).map_err(|error| format!("{path}: {error}"))?;
    println!("wrote {path}");
    Ok(())
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

fn said(result: Result<(), String>) -> bool {
    if let Err(error) = &result {
        eprintln!("documents: {error}");
    }
    result.is_ok()
}
