//! A process as a container runs it: its own network, a root directory that is read-only and holds
//! the program and libraries alone, mounts where they are asked for, a user that may do nothing.
//!
//! To be used within namespaces of the test's own ([`super::apart`]).

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use super::apart::run;
use super::switch::{PROGRAM, finish};

/// The user and the group of the image.
const NOBODY: u32 = 65_532;
/// Where the program is in the image.
const INSIDE: &str = "/usr/local/bin/upesi";
/// What a program that was linked dynamically needs of the machine.
const LIBRARIES: [&str; 3] = ["/lib", "/lib64", "/usr/lib"];

pub(crate) struct Container {
    directory: TempDir,
    /// Whether there are users beside root: not in every namespace.
    has_users: bool,
}

/// Something that is mounted.
pub(crate) enum Mount<'a> {
    /// A directory that can be written to, and stays.
    Data,
    /// A directory with one file, as a ConfigMap makes it.
    Text { name: &'a str, text: &'a str },
    /// The same as a Secret makes it: of root, for the pod's group to read.
    Secret { name: &'a str, text: &'a str },
}

impl Container {
    /// With these things mounted, each at its path.
    pub(crate) fn new(mounts: &[(&str, Mount<'_>)]) -> Self {
        run("ip", &["link", "set", "lo", "up"]);
        let users = fs::read_to_string("/proc/self/uid_map").unwrap();
        let has_users = users.split_whitespace().nth(2) != Some("1");
        let container = Self { directory: tempfile::tempdir().unwrap(), has_users };
        let root = container.root();
        fs::create_dir(&root).unwrap();
        // Who is not root must be able to pass through it.
        fs::set_permissions(container.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        run("mount", &["-t", "tmpfs", "-o", "mode=755", "none", text(&root)]);
        for library in LIBRARIES.iter().filter(|library| Path::new(library).exists()) {
            container.bind(Path::new(library), library);
        }
        let place = container.inside(INSIDE);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(&place, "").unwrap();
        run("mount", &["--bind", PROGRAM, text(&place)]);
        container.bind(Path::new("/proc"), "/proc");
        mounts.iter().for_each(|(at, mount)| container.mount(at, mount));
        run("mount", &["-o", "remount,ro", text(&root)]);
        container
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    /// A path of the container as the machine sees it.
    pub(crate) fn inside(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    fn bind(&self, from: &Path, at: &str) {
        let place = self.inside(at);
        fs::create_dir_all(&place).unwrap();
        run("mount", &["--rbind", text(from), text(&place)]);
    }

    fn mount(&self, at: &str, mount: &Mount<'_>) {
        let from = self.directory.path().join(at.replace('/', "-"));
        fs::create_dir(&from).unwrap();
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
            Mount::Secret { name, text } => {
                // Links, as kubelet makes them.
                fs::create_dir(from.join("..1")).unwrap();
                fs::write(from.join("..1").join(name), text).unwrap();
                own(&from.join("..1").join(name), 0, 0o440);
                own(&from.join("..1"), 0, 0o755);
                std::os::unix::fs::symlink("..1", from.join("..data")).unwrap();
                let link = Path::new("..data").join(name);
                std::os::unix::fs::symlink(link, from.join(name)).unwrap();
                own(&from, 0, 0o755);
            }
        }
        self.bind(&from, at);
        if !matches!(mount, Mount::Data) {
            run("mount", &["-o", "remount,bind,ro", text(&self.inside(at))]);
        }
    }

    /// The program with these arguments, and nothing of the environment.
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

    /// Makes sure that everything in a directory was made by the image's user.
    #[track_caller]
    pub(crate) fn belongs_to_nobody(&self, path: &str) {
        let files = super::switch::files(&self.inside(path));
        assert!(!files.is_empty());
        for file in files.iter().filter(|_| self.has_users) {
            let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(file).unwrap());
            assert_eq!(owner, NOBODY, "{}", file.display());
        }
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        finish(self.command(&arguments))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // The namespace ends with the test; but the directory can only go once nothing is there.
        let root = self.root();
        let _unmounted =
            Command::new("umount").args(["--recursive", "--lazy", text(&root)]).output();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}
