//! The API documents under docs/openapi, written anew from the code.

use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

/// Where the documents are.
pub(crate) const DIRECTORY: &str = "docs/openapi";
/// The APIs, by the names that `upesi openapi` knows.
const APIS: [&str; 2] = ["fspiop", "admin"];

/// Writes both documents and says whether that went well.
pub(crate) fn write(root: &Path) -> bool {
    APIS.iter().all(|api| {
        let written = write_one(root, api);
        match &written {
            Ok(path) => println!("wrote {path}"),
            Err(error) => eprintln!("openapi: {error}"),
        }
        written.is_ok()
    })
}

fn write_one(root: &Path, api: &str) -> Result<String, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--locked", "--package", "upesi", "--", "openapi", api])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("`upesi openapi {api}` ended with {}", output.status));
    }
    let path = format!("{DIRECTORY}/{api}.json");
    fs::create_dir_all(root.join(DIRECTORY)).map_err(|error| format!("{DIRECTORY}: {error}"))?;
    fs::write(root.join(&path), output.stdout).map_err(|error| format!("{path}: {error}"))?;
    Ok(path)
}
