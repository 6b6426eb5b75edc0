//! Encrypted data directories: no file shows names, numbers or notes, everything works with the
//! key, and each wrong or missing key has its answer.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;

use crate::support::message::{Message, Transfer};
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, PROGRAM, Ports, Printed, finish};

/// A master key in a file.
pub(crate) struct KeyFile {
    directory: tempfile::TempDir,
}

impl KeyFile {
    pub(crate) fn new(digit: &str) -> Self {
        let file = Self { directory: tempfile::tempdir().unwrap() };
        fs::write(file.path(), digit.repeat(64)).unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).unwrap();
        file
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("master.key")
    }

    pub(crate) fn source(&self) -> String {
        format!("file:{}", self.path().display())
    }

    pub(crate) fn setting(&self) -> String {
        setting(&self.source())
    }

    /// The source of a command that prints the key, as the client of a vault does. It is sealed
    /// while the file `sealed` exists.
    fn command(&self) -> String {
        let (script, sealed) = (self.directory.path().join("vault.sh"), self.sealed());
        let text = format!(
            "if [ -e {0} ]; then echo the vault is sealed >&2; exit 2; fi\ncat \"$1\"\n",
            sealed.display()
        );
        fs::write(&script, text).unwrap();
        format!("command:sh {} {}", script.display(), self.path().display())
    }

    fn sealed(&self) -> PathBuf {
        self.directory.path().join("sealed")
    }
}

fn setting(source: &str) -> String {
    format!("[encryption]\nkey = \"{source}\"\n")
}

/// A stopped, encrypted scheme with a payment.
fn stopped(key: &KeyFile) -> (Home, Transfer) {
    let scheme = Scheme::configured(&key.setting());
    let transfer = scheme.pay("10");
    scheme.wait_until_delivered();
    scheme.switch.stop(Signal::TERM);
    (scheme.home, transfer)
}

pub(crate) fn offline(arguments: &[&str], data: &Path, key: Option<&str>) -> Output {
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
pub(crate) fn refusal(home: &Home, settings: &str) -> String {
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

const NAME: &str = "Amélie Ngũgĩ";
const NUMBER: &str = "254700000009";
const NOTE: &str = "rent of the house by the lake";

/// Directories of a scheme with a party and payments: data, archive, copy, restored copy.
struct Stored {
    _directory: tempfile::TempDir,
    home: Home,
    places: Vec<PathBuf>,
}

/// A payment with a name and a long note.
fn pay_with_note(scheme: &Scheme) -> Transfer {
    let transfer = Transfer::of("1");
    let prepare = transfer.prepare();
    let body = String::from_utf8(prepare.bytes().to_vec()).unwrap();
    let note = NOTE.repeat(2_000);
    let body = body.replace("\"unknown\":[1,2.50,null]", &format!("\"note\":\"{note}\""));
    scheme.send(&Message::new("POST", "/transfers", "payerfsp").body(body), 202);
    scheme.send(&transfer.fulfil("COMMITTED"), 200);
    transfer
}

/// Uses everything that stores something, and checks that it works.
fn store_everywhere(key: Option<&KeyFile>) -> Stored {
    let encryption = key.map(KeyFile::setting).unwrap_or_default();
    let source = key.map(KeyFile::source);
    let source = source.as_deref();
    let scheme = Scheme::configured(&format!("[log]\nsegment_mib = 1\n{encryption}"));
    let party = format!("/participants/MSISDN/{NUMBER}");
    let body = "{\"fspId\":\"payeefsp\",\"currency\":\"USD\"}";
    scheme.send(&Message::new("POST", &party, "payeefsp").body(body), 202);
    scheme.payee.wait("PUT", &party);
    let transfers: Vec<_> = (0..30).map(|_| pay_with_note(&scheme)).collect();
    scheme.wait_until_delivered();
    let Scheme { home, switch, payer, .. } = scheme;
    switch.stop(Signal::TERM);
    let data = home.data();
    offline(&["snapshot"], &data, source).succeeds();
    let switch = home.serve();
    let asked = Message::new("GET", &party, "payerfsp");
    let answer = testkit::http::Connection::open(switch.fspiop).unwrap();
    let answer = { answer }.exchange(&asked.render()).unwrap();
    assert_eq!(answer.status, 202, "{}", answer.text());
    assert!(payer.wait("PUT", &party).text().contains("payeefsp"), "the directory is read");
    Admin::new(&home, &switch).wait_for("upesi_notices_owed", |owed| owed == 0);
    switch.stop(Signal::TERM);

    for text in [NUMBER, NOTE] {
        let is_found = !files_with(&data, text).is_empty();
        assert_eq!(is_found, key.is_none(), "{text} is found without a key");
    }
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let url = |name: &str| format!("file://{}", place(name).display());
    for name in ["archive", "copy"] {
        fs::create_dir(place(name)).unwrap();
    }
    offline(&["archive", "--keep", "0", "--to", &url("archive")], &data, source).succeeds();
    offline(&["backup", "--to", &url("copy")], &data, source).succeeds();
    let restored = place("restored");
    if source.is_some() {
        let refused = offline(&["restore", "--from", &url("copy")], &restored, None).fails();
        assert!(refused.contains("copies do not contain the master key"), "{refused}");
        assert!(!restored.exists(), "nothing was written");
    }
    offline(&["restore", "--from", &url("copy")], &restored, source).succeeds();
    let plain_copy = place("plain-copy");
    offline(&["restore", "--from", restored.to_str().unwrap()], &plain_copy, source).succeeds();
    for data in [&data, &restored, &plain_copy] {
        offline(&["verify"], data, source).succeeds();
        let explained = offline(&["explain", &transfers[0].id], data, source).succeeds().out();
        assert!(explained.contains("COMMITTED"), "{explained}");
    }
    let places = vec![data, place("archive"), place("copy"), restored, plain_copy];
    Stored { _directory: directory, home, places }
}

/// The files below a directory that contain a text.
fn files_with(directory: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(text) {
            found.push(path);
        }
    }
    found
}

#[test]
fn no_file_shows_names_numbers_or_notes() {
    let key = KeyFile::new("1");
    let encrypted = store_everywhere(Some(&key));
    for place in &encrypted.places {
        for text in [NAME, NUMBER, NOTE] {
            assert_eq!(files_with(place, text), Vec::<PathBuf>::new(), "{text}");
        }
    }
    encrypted.home.serve().stop(Signal::TERM);
    // Finds them in the log.
    store_everywhere(None);
}

#[test]
fn the_master_key_changes_while_the_switch_is_stopped() {
    let (old, new) = (KeyFile::new("1"), KeyFile::new("2"));
    let (home, transfer) = stopped(&old);
    let data = home.data();
    let settings = fs::read_to_string(home.configuration()).unwrap();
    let changed = settings.replace(&old.setting(), &new.setting());
    let both = format!("{changed}previous_key = \"{}\"\n", old.source());
    fs::write(home.configuration(), &both).unwrap();
    let mut switch = home.starting();
    assert!(switch.is_ready());
    let half = "1 key of data.keys is wrapped by another master key: finish the change with";
    assert!(switch.greeting.contains(half), "{}", switch.greeting);
    let running = offline(&["keys", "rewrap"], &data, Some(&new.source())).fails();
    assert!(running.contains("a switch is running on this directory"), "{running}");
    switch.stop(Signal::TERM);
    let doctor = || {
        let mut command = Command::new(PROGRAM);
        command.args(["doctor", "--config"]).arg(home.configuration()).arg("--data").arg(&data);
        finish(command).out()
    };
    let with_file = format!("{both}[logging]\naudit_file = {:?}\n", data.with_extension("audit"));
    fs::write(home.configuration(), with_file).unwrap();
    let found = doctor();
    for expected in [
        "another one wraps 1 of 2 data keys in data.keys",
        "stop the switch; upesi keys rewrap --data ",
        "logging.audit_file ",
        "is not encrypted",
    ] {
        assert!(found.contains(expected), "{expected}: {found}");
    }
    let previous = old.source();
    let rewrap = ["keys", "rewrap", "--previous-key", &previous];
    let done = offline(&rewrap, &data, Some(&new.source())).succeeds().out();
    assert!(done.starts_with("1 data key wrapped anew"), "{done}");
    let listed = offline(&["keys", "list"], &data, None).succeeds().out();
    assert_eq!(listed.trim_end().lines().count(), 1 + 2, "{listed}");
    fs::write(home.configuration(), &changed).unwrap();
    let found = doctor();
    assert!(found.contains("2 data keys, wrapped by master key"), "{found}");
    assert!(!found.contains("not finished") && !found.contains("audit_file"), "{found}");
    home.serve().stop(Signal::TERM);
    offline(&["verify"], &data, Some(&new.source())).succeeds();
    offline(&["explain", &transfer.id], &data, Some(&new.source())).succeeds();
    let refused = offline(&["verify"], &data, Some(&old.source())).fails();
    assert!(refused.contains("and the given master key is"), "{refused}");
}

#[test]
fn a_command_gives_the_master_key() {
    let key = KeyFile::new("1");
    let scheme = Scheme::configured(&setting(&key.command()));
    let transfer = scheme.pay("10");
    scheme.wait_until_delivered();
    scheme.switch.stop(Signal::TERM);
    let home = scheme.home;
    home.serve().stop(Signal::TERM);
    for source in [key.command(), key.source()] {
        offline(&["verify"], &home.data(), Some(&source)).succeeds();
        offline(&["explain", &transfer.id], &home.data(), Some(&source)).succeeds();
    }
    fs::write(key.sealed(), "").unwrap();
    let sealed = refusal(&home, &setting(&key.command()));
    let expected = "encryption.key: command sh: exit status: 2: the vault is sealed";
    assert!(sealed.contains(expected), "{sealed}");
    let refused = offline(&["verify"], &home.data(), Some("command:false")).fails();
    assert!(refused.contains("--encryption-key: command false: exit status: 1"), "{refused}");
}

/// A command against the running switch of a scheme.
fn of_running(scheme: &Scheme, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).arg("--admin").arg(format!("http://{}", scheme.switch.admin));
    command.arg("--token").arg(scheme.home.data().join("admin-token"));
    finish(command)
}

fn count_of_keys(data: &Path) -> usize {
    let keys = fs::read_to_string(data.join("data.keys")).unwrap();
    keys.matches("\nkey ").count()
}

#[test]
fn data_keys_rotate_while_the_switch_serves_and_failures_are_seen() {
    let key = KeyFile::new("1");
    let scheme = Scheme::configured(&setting(&key.command()));
    let data = scheme.home.data();
    assert_eq!(scheme.admin.metric("upesi_encryption_failing"), 0);
    let before = scheme.pay("10");
    let rotated = of_running(&scheme, &["keys", "rotate"]).succeeds().out();
    assert!(rotated.starts_with("data key ") && rotated.contains("from now on"), "{rotated}");
    assert_eq!(count_of_keys(&data), 2);
    assert!(fs::read_to_string(data.join("data.keys")).unwrap().contains(&rotated[9..25]));
    let after = scheme.pay("10");

    // The source of the key is down, then has another key, then is back.
    fs::write(key.sealed(), "").unwrap();
    let refused = of_running(&scheme, &["keys", "rotate"]).fails();
    assert!(refused.contains("503") && refused.contains("no new data key"), "{refused}");
    assert_eq!(scheme.admin.metric("upesi_encryption_failing"), 1);
    for command in ["status", "doctor"] {
        let shown = of_running(&scheme, &[command]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains("encryption") && shown.contains("is sealed"), "{command}: {shown}");
    }
    scheme.pay("10");
    fs::remove_file(key.sealed()).unwrap();
    fs::write(key.path(), "2".repeat(64)).unwrap();
    of_running(&scheme, &["keys", "rotate"]).fails();
    let storage = scheme.admin.json("/storage")["encryption"]["failing"].to_string();
    assert!(storage.contains("its source has master key"), "{storage}");
    fs::write(key.path(), "1".repeat(64)).unwrap();

    // The file of data keys is lost, then damaged.
    fs::remove_file(data.join("data.keys")).unwrap();
    of_running(&scheme, &["keys", "rotate", "--json"]).succeeds();
    assert_eq!(scheme.admin.metric("upesi_encryption_failing"), 0);
    assert_eq!(count_of_keys(&data), 3, "the known keys were written again");
    let keys = fs::read_to_string(data.join("data.keys")).unwrap();
    fs::write(data.join("data.keys"), keys.replace("set ", "sat ")).unwrap();
    of_running(&scheme, &["keys", "rotate"]).fails();
    let storage = scheme.admin.json("/storage")["encryption"]["failing"].to_string();
    assert!(storage.contains("data.keys is damaged"), "{storage}");
    fs::write(data.join("data.keys"), keys).unwrap();

    scheme.wait_until_delivered();
    scheme.switch.signal(Signal::TERM);
    let (status, errors) = scheme.switch.end();
    assert!(status.success(), "{errors}");
    assert_eq!(errors.matches("failed; it is retried").count(), 1, "the second failure: {errors}");
    offline(&["keys", "rotate"], &data, Some(&key.source())).succeeds();
    assert_eq!(count_of_keys(&data), 4);
    offline(&["verify"], &data, Some(&key.source())).succeeds();
    for transfer in [before, after] {
        offline(&["explain", &transfer.id], &data, Some(&key.source())).succeeds();
    }
}

#[test]
fn a_switch_without_encryption_has_no_data_key_to_rotate() {
    let scheme = Scheme::start();
    let refused = of_running(&scheme, &["keys", "rotate"]).fails();
    assert!(refused.contains("the data directory is not encrypted"), "{refused}");
    scheme.switch.stop(Signal::TERM);
    let offline = offline(&["keys", "rotate"], &scheme.home.data(), None).fails();
    assert!(offline.contains("it is not encrypted"), "{offline}");
}

/// A copy without its data keys, and one whose data keys need the master key before a change.
#[test]
fn a_copy_without_its_keys_is_refused() {
    let (key, other) = (KeyFile::new("1"), KeyFile::new("2"));
    let (home, _) = stopped(&key);
    let data = home.data();
    let directory = tempfile::tempdir().unwrap();
    let (copy, restored) = (directory.path().join("copy"), directory.path().join("restored"));
    fs::create_dir(&copy).unwrap();
    let url = format!("file://{}", copy.display());
    let source = key.source();
    offline(&["backup", "--to", &url], &data, Some(&source)).succeeds();
    let restore = ["restore", "--from", &url];
    let wrong = offline(&restore, &restored, Some(&other.source())).fails();
    assert!(wrong.contains("and the given master key is"), "{wrong}");
    let plain = directory.path().join("plain");
    fs::create_dir(&plain).unwrap();
    for file in crate::support::switch::files(&data) {
        let name = file.file_name().unwrap();
        if name != "data.keys" && file.parent() == Some(&data) {
            fs::copy(&file, plain.join(name)).unwrap();
        }
    }
    let from = ["restore", "--from", plain.to_str().unwrap()];
    let lost = offline(&from, &directory.path().join("again"), Some(&source)).fails();
    assert!(lost.contains("which is not in data.keys"), "{lost}");
}

/// A token of SoftHSM, with keys that `openssl rand` would make.
struct Token {
    directory: tempfile::TempDir,
}

const PIN: &str = "4711";

impl Token {
    fn new() -> Self {
        let token = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir(token.path("tokens")).unwrap();
        let tokens = token.path("tokens");
        let configuration = format!("directories.tokendir = {}\n", tokens.display());
        fs::write(token.path("softhsm2.conf"), configuration).unwrap();
        token.write_pin(PIN);
        token.run(&["--init-token", "--free", "--label", "the vault", "--so-pin", "0815"]);
        token
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write_pin(&self, pin: &str) {
        fs::write(self.path("pin"), format!("{pin}\n")).unwrap();
        fs::set_permissions(self.path("pin"), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn run(&self, arguments: &[&str]) {
        let mut command = self.of(Command::new("softhsm2-util"));
        command.args(arguments).args(["--pin", PIN]);
        finish(command).succeeds();
    }

    fn of(&self, mut command: Command) -> Command {
        command.env("SOFTHSM2_CONF", self.path("softhsm2.conf"));
        command
    }

    /// Puts an AES key into the token.
    fn import(&self, label: &str, byte: u8) {
        self.import_as(label, byte, &format!("{byte:02x}"));
    }

    fn import_as(&self, label: &str, byte: u8, id: &str) {
        self.import_bytes(label, &[byte; 32], id);
    }

    fn import_bytes(&self, label: &str, bytes: &[u8], id: &str) {
        let file = self.path("key");
        fs::write(&file, bytes).unwrap();
        let file = file.to_str().unwrap();
        let names = ["--token", "the vault", "--label", label, "--id", id];
        self.run(&[&["--import", file, "--aes"][..], &names].concat());
    }

    fn uri(&self, object: &str) -> String {
        let pin = self.path("pin");
        format!(
            "pkcs11:token=the%20vault;{object}?module-path=/usr/lib/softhsm/libsofthsm2.so\
             &pin-source=file:{}",
            pin.display()
        )
    }

    fn offline(&self, arguments: &[&str], data: &Path, object: &str) -> Output {
        let mut command = self.of(Command::new(PROGRAM));
        command.args(arguments).arg("--data").arg(data);
        command.args(["--encryption-key", &self.uri(object)]);
        finish(command)
    }
}

#[test]
fn the_master_key_stays_in_its_token() {
    let token = Token::new();
    token.import("upesi", 1);
    token.import("other", 2);
    let home = Home::configured(&setting(&token.uri("object=upesi")));
    let switch = home.started(token.of(home.command(Ports::free())));
    let scheme = Scheme::over(home, switch);
    let transfer = scheme.pay("10");
    scheme.wait_until_delivered();
    scheme.switch.stop(Signal::TERM);
    let home = scheme.home;
    home.started(token.of(home.command(Ports::free()))).stop(Signal::TERM);
    let data = home.data();
    token.offline(&["explain", &transfer.id], &data, "object=upesi").succeeds();
    token.offline(&["verify"], &data, "id=%01;type=secret-key").succeeds();
    for (object, expected) in [
        ("object=missing", "the token has no AES key that fits the URI"),
        ("object=other", "and the given master key is pkcs11-"),
        ("serial=1;object=upesi", "no token fits the URI"),
    ] {
        let refused = token.offline(&["verify"], &data, object).fails();
        assert!(refused.contains(expected), "{object}: {refused}");
    }
    token.write_pin("1234");
    let refused = token.offline(&["verify"], &data, "object=upesi").fails();
    assert!(refused.contains("C_Login returned PinIncorrect"), "{refused}");
    assert!(!refused.contains("1234"), "{refused}");
    token.write_pin(PIN);
    // Label and id of another key can be the same, its wrapped keys cannot.
    let copy = Token::new();
    copy.import("upesi", 3);
    copy.import_as("upesi", 4, "01");
    let refused = copy.offline(&["verify"], &data, "id=%01").fails();
    assert!(refused.contains("it was wrapped by another master key"), "{refused}");
    let twice = copy.offline(&["verify"], &data, "object=upesi").fails();
    assert!(twice.contains("more than one AES key fits the URI"), "{twice}");
    copy.import_bytes("short", &[5; 16], "05");
    let short = copy.offline(&["verify"], &data, "object=short").fails();
    let expected = "key \"short\" is 16 bytes long; create an AES key of 32 bytes";
    assert!(short.contains(expected), "{short}");
}

/// A module that never returns from its first function.
#[test]
fn a_module_that_hangs_is_given_up() {
    let (home, _) = stopped(&KeyFile::new("1"));
    let directory = tempfile::tempdir().unwrap();
    let [source, module] = ["module.c", "module.so"].map(|name| directory.path().join(name));
    let text = "#include <unistd.h>\nint C_GetFunctionList(void **all) { for (;;) pause(); }\n";
    fs::write(&source, text).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).args([&module, &source]);
    finish(compiler).succeeds();
    let mut command = Command::new(PROGRAM);
    command.args(["verify", "--data"]).arg(home.data());
    let uri = format!("pkcs11:object=upesi?module-path={}", module.display());
    command.args(["--encryption-key", &uri]);
    let refused = finish(command).fails();
    assert!(refused.contains("no answer within 10 s; check module and token"), "{refused}");
}

/// A log on Kafka is not encrypted there: a start and a move to a topic state that, before they
/// reach a broker.
#[test]
fn topics_are_known_to_be_unencrypted() {
    let key = KeyFile::new("1");
    let log = "kafka://127.0.0.1:9/payments";
    let home = Home::configured(&key.setting()).with_arguments(&["--log", log, "--node", "a"]);
    let mut switch = home.starting();
    let printed = "ENCRYPTION: the local copy of the log is encrypted, the topic on Kafka is not";
    loop {
        let line = switch.next_line();
        assert!(!line.is_empty(), "it ended: {}", switch.complaints());
        if line.contains(printed) {
            break;
        }
    }
    drop(switch);

    let (home, _) = stopped(&key);
    let mut command = Command::new(PROGRAM);
    command.args(["export-log", "--log", log, "--encryption-key", &key.source(), "--data"]);
    command.arg(home.data()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut export = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(export.stderr.take().unwrap()).read_line(&mut line).unwrap();
    export.kill().unwrap();
    export.wait().unwrap();
    assert!(line.contains("ENCRYPTION: the topic will hold the log unencrypted"), "{line}");
}
