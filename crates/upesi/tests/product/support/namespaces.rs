//! Tests that need a separate file system or network. The test runs itself again in new namespaces,
//! which end with it, so that the machine is not changed.
//!
//! If the kernel does not allow namespaces, the test is skipped: it prints the reason and the
//! number of skipped tests. A missing tool is an error.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use testkit::http::PATIENCE;

use super::switch::finish_within;

/// Directories of administration tools, which not every PATH contains.
const MORE_PATH: &str = ":/usr/sbin:/sbin";
/// Exit code of a shell if the program does not exist.
const NO_PROGRAM: i32 = 127;

/// Set in the environment of the inner run.
const INSIDE: &str = "UPESI_TEST_APART";

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// The kernel features that a test needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// A mount namespace, and a small in-memory file system.
    Memory,
    /// A mount namespace, and a file system in an image, which only the real root may mount.
    Disk,
    /// A network namespace, with links out of it.
    Network,
    /// A network and a mount namespace, with a separate root directory.
    Container,
    /// A process namespace in which the test is the first process.
    Processes,
}

impl Need {
    fn namespaces(self) -> &'static [&'static str] {
        match self {
            Self::Memory | Self::Disk | Self::Processes => &["--mount"],
            Self::Network => &["--net"],
            Self::Container => &["--mount", "--net"],
        }
    }

    /// Checks that the needed namespaces can be created.
    fn probe(self) -> &'static str {
        match self {
            Self::Memory => "mount -t tmpfs none /tmp",
            Self::Disk => {
                "mount -t tmpfs none /tmp && truncate -s 8M /tmp/image \
                 && mkfs.ext4 -q -F /tmp/image && mkdir /tmp/there && mount /tmp/image /tmp/there"
            }
            Self::Processes => "unshare --pid --fork true",
            Self::Network => "ip link add one type veth peer name two && unshare --net true",
            Self::Container => {
                "ip link set lo up && mount -t tmpfs none /tmp && mkdir -p /tmp/a/usr/lib \
                 && mount --rbind /usr/lib /tmp/a/usr/lib && mount -o remount,ro /tmp \
                 && chroot / true"
            }
        }
    }
}

/// Runs `body` in new namespaces. `test` is the full name of the calling test.
pub(crate) fn apart(test: &str, need: Need, body: fn()) {
    apart_within(test, (need, PATIENCE), body);
}

/// Runs `body` in new namespaces, with a time limit.
pub(crate) fn apart_within(test: &str, (need, within): (Need, Duration), body: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let mut refusals = String::new();
    for user in [&[][..], &["--user", "--map-root-user"]] {
        let unshare = || {
            let mut command = Command::new("unshare");
            let path = std::env::var("PATH").unwrap_or_default() + MORE_PATH;
            command.args(user).args(need.namespaces()).env("PATH", path);
            command
        };
        let probe = unshare().args(["sh", "-c", need.probe()]).output();
        let probe = probe.expect("unshare is there: install util-linux");
        if !probe.status.success() {
            let refusal = String::from_utf8_lossy(&probe.stderr);
            let missing = probe.status.code() == Some(NO_PROGRAM);
            assert!(!missing, "install iproute2, e2fsprogs and mount: {refusal}");
            refusals += &format!("; {}", refusal.trim_end());
            continue;
        }
        let mut again = unshare();
        again.arg(std::env::current_exe().unwrap()).args([test, "--exact", "--nocapture"]);
        again.env(INSIDE, "1");
        let output = finish_within(again, within);
        let output_text = String::from_utf8_lossy(&output.stdout);
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{output_text}{complained}");
        assert!(output_text.contains("1 passed"), "{test} is not its name: {output_text}");
        return;
    }
    let skipped = 1 + SKIPPED.fetch_add(1, Ordering::SeqCst);
    let text = format!("SKIPPED ({skipped} so far): {test} needs {need:?}{refusals}");
    writeln!(std::io::stderr(), "{text}").expect("standard error is open");
}

/// A mounted file system. It is unmounted when this is dropped.
pub(crate) struct Mounted {
    at: PathBuf,
}

impl Mounted {
    /// An in-memory file system with this number of MiB.
    pub(crate) fn memory(at: &Path, mebibytes: u32) -> Self {
        std::fs::create_dir_all(at).unwrap();
        run("mount", &["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "none", text(at)]);
        Self { at: at.to_owned() }
    }

    /// The file system of an image, which becomes read-only at its first error.
    pub(crate) fn image(image: &Path, at: &Path) -> Self {
        std::fs::create_dir_all(at).unwrap();
        run("mount", &["-o", "loop,errors=remount-ro", text(image), text(at)]);
        Self { at: at.to_owned() }
    }

    /// Makes the file system read-only, as an error of the disk does.
    pub(crate) fn abort(&self) {
        run("mount", &["-o", "remount,abort", text(&self.at)]);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // After a failed test it may still be in use; the namespace ends with the test.
        let _unmounted = Command::new("umount").args(["--lazy", text(&self.at)]).output();
    }
}

/// Creates an empty file system in a file of this number of MiB.
pub(crate) fn make_image(image: &Path, mebibytes: u32) {
    run("truncate", &["-s", &format!("{mebibytes}M"), text(image)]);
    run("mkfs.ext4", &["-q", "-F", text(image)]);
}

/// Runs a command that must succeed.
#[track_caller]
pub(crate) fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let refusal = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {refusal}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}
