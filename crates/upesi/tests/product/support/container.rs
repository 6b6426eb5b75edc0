//! A process as in a container: a separate network, a read-only root directory with only the
//! program and libraries, the requested mounts, and an unprivileged user.
//!
//! Must be used inside the namespaces of the test ([`super::apart`]).

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use super::namespaces::run;
use super::switch::{PROGRAM, finish};

/// User and group id of the image.
const NOBODY: u32 = 65_532;
/// Path of the program in the image.
const INSIDE: &str = "/usr/local/bin/upesi";
/// Directories that a dynamically linked program needs.
const LIBRARIES: [&str; 3] = ["/lib", "/lib64", "/usr/lib"];

pub(crate) struct Container {
    directory: TempDir,
    /// Whether users other than root exist, which is not the case in every namespace.
    has_users: bool,
}

/// A mount of the container.
pub(crate) enum Mount<'a> {
    /// A writable, persistent directory.
    Data,
    /// A directory with one file, as of a ConfigMap.
    Text { name: &'a str, text: &'a str },
    /// A directory of files with their names, as of a Secret: owned by root, readable by the pod's
    /// group.
    Secret(&'a [(&'a str, String)]),
}

impl Container {
    /// A container with these mounts, each at its path.
    pub(crate) fn new(mounts: &[(&str, Mount<'_>)]) -> Self {
        run("ip", &["link", "set", "lo", "up"]);
        let users = fs::read_to_string("/proc/self/uid_map").unwrap();
        let has_users = users.split_whitespace().nth(2) != Some("1");
        let container = Self { directory: tempfile::tempdir().unwrap(), has_users };
        let root = container.root();
        fs::create_dir(&root).unwrap();
        // Other users must be able to traverse it.
        fs::set_permissions(container.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        run("mount", &["-t", "tmpfs", "-o", "mode=755", "none", text(&root)]);
        for library in LIBRARIES.iter().filter(|library| Path::new(library).exists()) {
            container.bind(Path::new(library), library);
        }
        for (from, at) in [(PROGRAM, INSIDE), ("/dev/null", "/dev/null")] {
            let place = container.inside(at);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(&place, "").unwrap();
            run("mount", &["--bind", from, text(&place)]);
        }
        container.bind(Path::new("/proc"), "/proc");
        for (at, mount) in mounts {
            let below = mounts.iter().filter_map(|(other, _)| other.strip_prefix(at));
            let below = below.filter_map(|path| path.strip_prefix('/'));
            container.mount(at, mount, below);
        }
        run("mount", &["-o", "remount,ro", text(&root)]);
        container
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    /// Path of a container file on the machine.
    pub(crate) fn inside(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    fn bind(&self, from: &Path, at: &str) {
        let place = self.inside(at);
        fs::create_dir_all(&place).unwrap();
        run("mount", &["--rbind", text(from), text(&place)]);
    }

    /// `below` has the places of mounts inside it.
    fn mount<'a>(&self, at: &str, mount: &Mount<'_>, below: impl Iterator<Item = &'a str>) {
        let from = self.directory.path().join(at.replace('/', "-"));
        fs::create_dir(&from).unwrap();
        below.for_each(|path| fs::create_dir_all(from.join(path)).unwrap());
        let own = |path: &Path, user: u32, mode: u32| {
            if self.has_users {
                chown(path, Some(user), Some(NOBODY)).unwrap();
            }
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        match mount {
            Mount::Data => own(&from, NOBODY, 0o2770),
            Mount::Text { name, text } => {
                fs::write(from.join(name), text).unwrap();
                own(&from.join(name), 0, 0o644);
                own(&from, 0, 0o755);
            }
            Mount::Secret(files) => {
                // Symbolic links, as created by kubelet.
                fs::create_dir(from.join("..1")).unwrap();
                own(&from.join("..1"), 0, 0o755);
                std::os::unix::fs::symlink("..1", from.join("..data")).unwrap();
                for (name, text) in *files {
                    fs::write(from.join("..1").join(name), text).unwrap();
                    own(&from.join("..1").join(name), 0, 0o440);
                    let link = Path::new("..data").join(name);
                    std::os::unix::fs::symlink(link, from.join(name)).unwrap();
                }
                own(&from, 0, 0o755);
            }
        }
        self.bind(&from, at);
        if !matches!(mount, Mount::Data) {
            run("mount", &["-o", "remount,bind,ro", text(&self.inside(at))]);
        }
    }

    /// The program with these arguments and an empty environment.
    pub(crate) fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new("chroot");
        if self.has_users {
            command.arg(format!("--userspec={NOBODY}:{NOBODY}")).arg("--groups=");
        }
        command.arg(self.root()).arg(INSIDE).args(arguments);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env_clear().env("PATH", path);
        command
    }

    /// Asserts that all files in a directory belong to the image's user.
    #[track_caller]
    pub(crate) fn belongs_to_nobody(&self, path: &str) {
        let files = super::switch::files(&self.inside(path));
        assert!(!files.is_empty());
        for file in files.iter().filter(|_| self.has_users) {
            let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(file).unwrap());
            assert_eq!(owner, NOBODY, "{}", file.display());
        }
    }

    /// Runs the program until it exits.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        finish(self.command(&arguments))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // The namespace ends with the test, but the directory can be removed only when nothing is
        // mounted.
        let root = self.root();
        let _unmounted =
            Command::new("umount").args(["--recursive", "--lazy", text(&root)]).output();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}
