//! A real Prometheus and Alertmanager: those of the machine, or Debian's packages, fetched once and
//! unpacked without an installation.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::{env, fs};

/// Debian's packages, and their programs that the tests run.
const PACKAGES: [&str; 2] = ["prometheus", "prometheus-alertmanager"];

/// Only one test fetches the packages.
static FETCHING: Mutex<()> = Mutex::new(());

/// A program of the packages.
pub(crate) fn program(name: &str) -> Command {
    Command::new(found(name).unwrap_or_else(|| fetched(name)))
}

/// The program of the machine.
fn found(name: &str) -> Option<PathBuf> {
    let directories = env::split_paths(&env::var_os("PATH")?).collect::<Vec<_>>();
    directories.into_iter().map(|directory| directory.join(name)).find(|path| path.is_file())
}

/// The program of the fetched packages.
fn fetched(name: &str) -> PathBuf {
    let _alone = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("monitoring");
    let program = directory.join("usr/bin").join(name);
    if !program.is_file() {
        fs::create_dir_all(&directory).unwrap();
        fetch_into(&directory);
    }
    program
}

fn fetch_into(directory: &Path) {
    let succeeds = |command: &mut Command| command.status().is_ok_and(|it| it.success());
    let mut download = Command::new("apt-get");
    download.args(["download", "--quiet"]).args(PACKAGES).current_dir(directory);
    if !succeeds(&mut download) {
        // The lists of packages may be missing or old.
        let update = "[ $(id -u) = 0 ] && apt-get update -q || sudo -n apt-get update -q";
        assert!(succeeds(Command::new("sh").args(["-c", update])), "install {PACKAGES:?}");
        assert!(succeeds(&mut download), "install {PACKAGES:?}");
    }
    for package in fs::read_dir(directory).unwrap() {
        let package = package.unwrap().path();
        if package.extension().is_some_and(|it| it == "deb") {
            let mut unpack = Command::new("dpkg-deb");
            assert!(succeeds(unpack.arg("--extract").arg(&package).arg(directory)));
            fs::remove_file(package).unwrap();
        }
    }
}
