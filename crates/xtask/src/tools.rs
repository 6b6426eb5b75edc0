//! Shared helpers: running other programs, and installing missing ones.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The build directory.
pub(crate) fn target(root: &Path) -> PathBuf {
    root.join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Runs a program that must succeed.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} ended with {status}; see above")),
        Err(error) => Err(format!("{program} did not start: {error}")),
    }
}

/// The output of a program that must succeed, without the last line's end.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program} did not start: {error}"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} ended with {}: {error}", output.status));
    }
    let text = String::from_utf8(output.stdout).map_err(|error| format!("{program}: {error}"))?;
    Ok(text.trim_end_matches('\n').to_owned())
}

/// Installs the Debian packages of missing programs, which are given with their packages.
pub(crate) fn install_missing(programs: &[(&str, &str)]) -> Result<(), String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let exists =
        |name: &str| env::split_paths(&path).any(|directory| directory.join(name).exists());
    let missing = programs.iter().filter(|(program, _)| !exists(program));
    let packages: Vec<_> = missing.map(|(_, package)| *package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    println!("installing {} with apt-get", packages.join(", "));
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("-q");
        command
    };
    let install = || run(apt().args(["install", "-y", "--no-install-recommends"]).args(&packages));
    run(apt().arg("update")).and_then(|()| install()).map_err(|error| {
        format!("{error}\non Debian or Ubuntu: sudo apt-get install {}", packages.join(" "))
    })
}

/// Makes a Python environment below `kept` with the packages of a file, unless it exists. Returns
/// the directory of its programs.
pub(crate) fn python(kept: &Path, wanted: &Path) -> Result<PathBuf, String> {
    let environment = kept.join("python");
    let programs = environment.join("bin");
    let installed = kept.join("installed.txt");
    let text = fs::read_to_string(wanted).map_err(|error| format!("{wanted:?}: {error}"))?;
    if fs::read_to_string(&installed).ok().as_deref() == Some(&text) {
        return Ok(programs);
    }
    let names: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    println!("installing {} into {}", names.join(", "), environment.display());
    run(Command::new("python3").args(["-m", "venv"]).arg(&environment)).map_err(|error| {
        format!("{error}\non Debian or Ubuntu: sudo apt-get install python3-venv")
    })?;
    let mut pip = Command::new(programs.join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
    run(pip.arg(wanted))
        .map_err(|error| format!("{error}\nis PyPI, or a mirror of it, reachable?"))?;
    fs::write(&installed, text).map_err(|error| error.to_string())?;
    Ok(programs)
}
