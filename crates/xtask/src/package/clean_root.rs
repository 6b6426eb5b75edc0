//! Installs the package into a new Debian, uses the program there, and removes it.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Release;
use crate::tools::{output, run};

const DEBIAN: &str = "bookworm";
/// Commands of an operator after the installation. A demonstration pays for real, with sync.
const STEPS: [&str; 5] = [
    "upesi --version",
    "su upesi -s /bin/sh -c 'upesi init --scheme kes --to ~/scheme --hosts localhost'",
    "upesi check-config /var/lib/upesi/scheme/upesi.toml",
    "su upesi -s /bin/sh -c 'cd && upesi demo --transactions 200 --data ~/demo'",
    "upesi verify --data /var/lib/upesi/demo",
];

/// Fails unless the package can be installed, used and removed. `root` is made, and removed.
pub(super) fn install(root: &Path, release: &Release) -> Result<(), String> {
    println!("package: installing into a new Debian {DEBIAN}");
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.args(["--variant=minbase", DEBIAN]).arg(root);
    output(&mut debootstrap)?;
    let in_root = |script: &str| {
        let mut chroot = Command::new("chroot");
        chroot.arg(root).args(["/bin/sh", "-ec", script]);
        run(&mut chroot).map_err(|error| format!("`{script}`: {error}"))
    };
    run(Command::new("mount").args(["-t", "proc", "proc"]).arg(root.join("proc")))?;
    let used = fs::copy(release.debian(), root.join("upesi.deb"))
        .map_err(|error| error.to_string())
        .and_then(|_| in_root("dpkg -i /upesi.deb"))
        .and_then(|()| STEPS.iter().try_for_each(|step| in_root(step)))
        .and_then(|()| {
            in_root("dpkg -r upesi; test ! -e /usr/bin/upesi; test -d /var/lib/upesi/demo")
        });
    let unmounted = run(Command::new("umount").arg(root.join("proc")));
    used.and(unmounted)?;
    println!("package: installed, used and removed; the data stay");
    Ok(())
}
