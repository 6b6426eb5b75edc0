//! Encrypted data directories: no file shows names, numbers or notes, everything works with the
//! key, and each wrong or missing key has its answer.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Signal;

use crate::support::message::Transfer;
use crate::support::scheme::Scheme;
use crate::support::switch::{Home, PROGRAM, Ports, Printed, finish};

/// A master key in a file.
struct KeyFile {
    directory: tempfile::TempDir,
}

impl KeyFile {
    fn new(digit: &str) -> Self {
        let file = Self { directory: tempfile::tempdir().unwrap() };
        fs::write(file.path(), digit.repeat(64)).unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).unwrap();
        file
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("master.key")
    }

    fn source(&self) -> String {
        format!("file:{}", self.path().display())
    }

    fn setting(&self) -> String {
        format!("[encryption]\nkey = \"{}\"\n", self.source())
    }
}

/// A stopped, encrypted scheme with a payment.
fn stopped(key: &KeyFile) -> (Home, Transfer) {
    let scheme = Scheme::configured(&key.setting());
    let transfer = scheme.pay("10");
    scheme.wait_until_delivered();
    scheme.switch.stop(Signal::TERM);
    (scheme.home, transfer)
}

fn offline(arguments: &[&str], data: &Path, key: Option<&str>) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).arg("--data").arg(data);
    command.args(key.iter().flat_map(|key| ["--encryption-key", key]));
    finish(command)
}

fn first_key(data: &Path) -> String {
    let text = fs::read_to_string(data.join("data.keys")).unwrap();
    text.lines().find_map(|line| line.strip_prefix("key ")).unwrap()[..16].to_owned()
}

#[test]
fn encrypted_log_is_served_verified_and_explained_with_its_key_alone() {
    let key = KeyFile::new("1");
    let (home, transfer) = stopped(&key);
    let data = home.data();
    home.serve().stop(Signal::TERM);
    let keys = fs::read_to_string(data.join("data.keys")).unwrap();
    assert_eq!(keys.matches("\nkey ").count(), 2, "a data key for each start: {keys}");
    for arguments in [&["verify"][..], &["explain", &transfer.id], &["replay"]] {
        offline(arguments, &data, Some(&key.source())).succeeds();
        let mut command = Command::new(PROGRAM);
        command.args(arguments).arg("--data").arg(&data);
        command.env("UPESI_ENCRYPTION_KEY", key.source());
        finish(command).succeeds();
        let refused = offline(arguments, &data, None).fails();
        let expected = format!(
            "00000000000000000001.segment at byte 512: it is encrypted with data key {}, and no \
             master key is given",
            first_key(&data)
        );
        assert!(refused.contains(&expected), "{arguments:?}: {refused}");
    }
}

/// The error of a start with these settings.
fn refusal(home: &Home, settings: &str) -> String {
    fs::write(home.configuration(), settings).unwrap();
    finish(home.command(Ports::free())).fails()
}

#[test]
fn a_start_with_a_wrong_or_missing_key_changes_nothing() {
    let (key, other) = (KeyFile::new("1"), KeyFile::new("2"));
    let (home, _) = stopped(&key);
    let data = home.data();
    let good = fs::read_to_string(home.configuration()).unwrap();
    let segment = data.join("00000000000000000001.segment");
    let before = fs::read(&segment).unwrap();
    let missing = refusal(&home, "");
    assert!(
        missing.contains("data.keys: this directory is encrypted with master key"),
        "{missing}"
    );
    let wrong = refusal(&home, &other.setting());
    assert!(wrong.contains("and the given master key is"), "{wrong}");
    fs::set_permissions(key.path(), fs::Permissions::from_mode(0o644)).unwrap();
    let open = refusal(&home, &good);
    assert!(open.contains("readable by all users"), "{open}");
    fs::set_permissions(key.path(), fs::Permissions::from_mode(0o600)).unwrap();
    let lost = refusal(&home, "[encryption]\nkey = \"file:/nowhere/master.key\"\n");
    assert!(lost.contains("encryption.key: /nowhere/master.key: No such file"), "{lost}");
    let odd = refusal(&home, &format!("[encryption]\nkey = \"{}\"\n", "1".repeat(64)));
    assert!(odd.contains("expected file:PATH") && !odd.contains("1111"), "{odd}");
    let keys = fs::read_to_string(data.join("data.keys")).unwrap();
    fs::write(data.join("data.keys"), keys.replace("set ", "sat ")).unwrap();
    let damaged = refusal(&home, &good);
    assert!(damaged.contains("data.keys is damaged (its checksum is wrong)"), "{damaged}");
    fs::remove_file(data.join("data.keys")).unwrap();
    let gone = refusal(&home, &good);
    assert!(gone.contains("which is not in data.keys; restore data.keys"), "{gone}");
    assert_eq!(fs::read(&segment).unwrap(), before, "nothing was changed");
    fs::write(data.join("data.keys"), keys).unwrap();
    home.serve().stop(Signal::TERM);
}

#[test]
fn encryption_can_be_turned_on_later() {
    let key = KeyFile::new("1");
    let scheme = Scheme::start();
    let transfer = scheme.pay("10");
    scheme.wait_until_delivered();
    scheme.switch.stop(Signal::TERM);
    let home = scheme.home;
    let settings = fs::read_to_string(home.configuration()).unwrap();
    fs::write(home.configuration(), settings + &key.setting()).unwrap();
    home.serve().stop(Signal::TERM);
    offline(&["verify"], &home.data(), Some(&key.source())).succeeds();
    offline(&["explain", &transfer.id], &home.data(), Some(&key.source())).succeeds();
}
