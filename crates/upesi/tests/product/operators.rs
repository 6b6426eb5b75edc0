//! Operators, roles and tokens with the real program: commands, rotation, restarts, snapshots.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::Signal;
use testkit::http::{Client, Headers, PATIENCE, Request, Response};

use crate::support::switch::{Home, PROGRAM, Printed, Switch, files, finish};

/// A switch where operators have roles.
pub(crate) struct Office {
    pub(crate) home: Home,
    pub(crate) switch: Switch,
}

impl Office {
    fn start() -> Self {
        Self::configured("")
    }

    /// With more settings of the admin API.
    pub(crate) fn configured(more: &str) -> Self {
        let home = Home::configured(&format!("[admin]\nauth = \"roles\"\n{more}"));
        let switch = home.serve();
        Self { home, switch }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.configuration().with_file_name(name)
    }

    /// Runs a command with the token in a file.
    pub(crate) fn run(&self, token: &Path, arguments: &str) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(arguments.split(' '));
        command.arg("--admin").arg(format!("http://{}", self.switch.admin));
        command.arg("--token").arg(token);
        finish(command)
    }

    /// Runs a command with the break-glass token.
    fn run_as_root(&self, arguments: &str) -> Output {
        self.run(&self.home.data().join("admin-token"), arguments)
    }

    /// Adds an operator with a role, and creates a token in a file.
    pub(crate) fn add(&self, name: &str, role: &str) -> PathBuf {
        self.run_as_root(&format!("operator add {name} --role {role}")).succeeds();
        self.create_token(name, name)
    }

    fn create_token(&self, operator: &str, file: &str) -> PathBuf {
        let path = self.path(file);
        let arguments = format!("token create {operator} --output {}", path.display());
        self.run_as_root(&arguments).succeeds();
        path
    }

    /// Ends the switch, which has reported only refused tokens and logins, and uses of the break-glass
    /// token.
    pub(crate) fn end(self, signal: Signal) -> Home {
        let Self { home, switch } = self;
        switch.signal(signal);
        let (status, text) = switch.end();
        assert_eq!(status.success(), signal == Signal::TERM, "{status}: {text}");
        let expected = [
            "the break-glass token was used",
            "admin requests without a valid token",
            "admin failed logins",
        ];
        let is_expected = |line: &str| expected.iter().any(|it| line.contains(it));
        assert!(text.lines().all(is_expected), "{text}");
        home
    }

    pub(crate) fn restart(self, signal: Signal) -> Self {
        let home = self.end(signal);
        Self { switch: home.serve(), home }
    }

    fn status(&self, token: &Path, method: &str, path: &str) -> u16 {
        send(&mut Client::new(self.switch.admin, PATIENCE), &read(token), method, path).status
    }
}

/// Runs a command without a token, in a home directory of its own, with a text as standard input.
fn run_at_home(office: &Office, arguments: &str, input: &str) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments.split(' '));
    command.arg("--admin").arg(format!("http://{}", office.switch.admin));
    command.env("XDG_CONFIG_HOME", office.path("config"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

pub(crate) fn read(token: &Path) -> String {
    fs::read_to_string(token).unwrap().trim_end().to_owned()
}

fn send(client: &mut Client, token: &str, method: &str, path: &str) -> Response {
    let headers = [("host", "localhost"), ("authorization", &format!("Bearer {token}"))];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let (method, path, body) = (method.to_owned(), path.to_owned(), Vec::new());
    client.call(&Request { method, path, headers: Headers(headers.to_vec()), body }).unwrap()
}

/// The id of a token, which its text contains.
fn id_of(token: &Path) -> String {
    read(token).split('_').nth(1).unwrap().to_owned()
}

#[test]
fn operators_are_managed_with_commands() {
    let office = Office::start();
    let anna = office.add("anna", "admin");
    assert_eq!(fs::metadata(&anna).unwrap().permissions().mode() & 0o777, 0o600);
    let again = office.run(&anna, "operator add anna --role viewer").fails();
    assert!(again.contains("operator anna exists"), "{again}");
    office.run(&anna, "role set treasury --permission read --permission finance").succeeds();
    office.run(&anna, "operator add bert --role treasury --role viewer").succeeds();
    let listed = office.run(&anna, "operator list").succeeds().out();
    assert!(listed.contains("bert      treasury, viewer  read, finance"), "{listed}");
    let refused = office.run(&anna, "role remove treasury").fails();
    assert!(refused.contains("an operator or a token has the role"), "{refused}");
    let bert = office.create_token("bert", "bert");
    let refused = office.run(&bert, "operator list").succeeds().out();
    assert!(refused.contains("anna"), "{refused}");
    let refused = office.run(&bert, "operator disable anna").fails();
    assert!(refused.contains("bert lacks the permission \"security\""), "{refused}");
    let shown = office.run(&anna, "operator show bert --json").succeeds().json();
    assert_eq!(shown["operator"]["roles"], serde_json::json!(["treasury", "viewer"]));
    assert_eq!(shown["tokens"][0]["id"], id_of(&bert));
    office.run(&anna, "operator disable bert").succeeds();
    assert_eq!(office.status(&bert, "GET", "/participants"), 401);
    office.run(&anna, "operator enable bert").succeeds();
    assert_eq!(office.status(&bert, "GET", "/participants"), 200);
    office.run(&anna, "operator roles bert --role viewer").succeeds();
    office.run(&anna, "role remove treasury").succeeds();
    office.run(&anna, &format!("token revoke {}", id_of(&bert))).succeeds();
    assert_eq!(office.status(&bert, "GET", "/participants"), 401);
    let listed = office.run(&anna, "token list").succeeds().out();
    assert!(listed.contains(&id_of(&anna)) && !listed.contains(&id_of(&bert)), "{listed}");
    let existing = office.run(&anna, &format!("token create anna --output {}", anna.display()));
    assert!(existing.fails().contains("File exists"));
    let warned = office.switch.messages();
    assert!(warned.contains("the break-glass token was used"), "{warned}");
    office.end(Signal::TERM);
}

#[test]
fn a_token_survives_restarts_and_snapshots() {
    let office = Office::start();
    let anna = office.add("anna", "admin");
    office.run(&anna, "role set treasury --permission finance").succeeds();
    let office = office.restart(Signal::TERM);
    assert_eq!(office.status(&anna, "GET", "/roles/treasury"), 200);
    let home = office.end(Signal::TERM);
    home.offline(&["snapshot"]).succeeds();
    let office = Office { switch: home.serve(), home };
    assert_eq!(office.status(&anna, "GET", "/roles/treasury"), 200);
    office.run(&anna, &format!("token revoke {}", id_of(&anna))).succeeds();
    let office = office.restart(Signal::KILL);
    assert_eq!(office.status(&anna, "GET", "/roles/treasury"), 401);
    office.end(Signal::TERM).verify().succeeds();
}

#[test]
fn a_token_is_rotated_without_a_failed_request() {
    let office = Office::start();
    let first = office.add("reports", "viewer");
    let (current, done) = (std::sync::Mutex::new(read(&first)), AtomicBool::new(false));
    let address = office.switch.admin;
    let sent = thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut client = Client::new(address, PATIENCE);
            let mut sent = 0;
            while !done.load(Ordering::Relaxed) {
                // A request holds the lock, so that a token is revoked between two requests.
                let token = current.lock().unwrap();
                let answer = send(&mut client, &token, "GET", "/participants");
                assert_eq!(answer.status, 200, "after {sent}: {}", answer.text());
                sent += 1;
            }
            sent
        });
        let mut old = first;
        for round in 0..5 {
            let next = office.create_token("reports", &format!("next-{round}"));
            *current.lock().unwrap() = read(&next);
            office.run_as_root(&format!("token revoke {}", id_of(&old))).succeeds();
            assert_eq!(office.status(&old, "GET", "/participants"), 401);
            old = next;
        }
        done.store(true, Ordering::Relaxed);
        client.join().unwrap()
    });
    assert!(10 < sent, "{sent} requests");
    office.end(Signal::TERM);
}

#[test]
fn an_operator_logs_in_and_other_commands_use_the_session() {
    const PASSWORD: &str = "correct horse battery staple\n";
    let office = Office::start();
    let anna = office.add("anna", "security");
    let file = office.path("password");
    fs::write(&file, PASSWORD).unwrap();
    let set = format!("operator password anna --password-file {}", file.display());
    office.run(&anna, &set).succeeds();
    let refused = run_at_home(&office, "operator list", "").fails();
    assert!(refused.contains("log in with upesi login"), "{refused}");
    let wrong = run_at_home(&office, "login anna", "correct horse battery stapl\n").fails();
    assert!(wrong.contains("status 401: Generic client error - invalid name"), "{wrong}");
    let welcome = run_at_home(&office, "login anna", PASSWORD).succeeds().out();
    assert!(welcome.starts_with("logged in as anna until 20"), "{welcome}");
    let stored = office.path("config").join("upesi/sessions");
    let stored = fs::read_dir(stored).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::metadata(&stored).unwrap().permissions().mode() & 0o777, 0o600);
    let listed = run_at_home(&office, "operator list --json", "").succeeds().json();
    assert_eq!(listed[0]["hasPassword"], true);
    // The session is still valid after a restart, because the key is in a file.
    let session = office.path("session");
    fs::copy(&stored, &session).unwrap();
    let key = office.home.data().join("admin-secrets-key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let office = office.restart(Signal::TERM);
    assert_eq!(office.status(&session, "GET", "/operators"), 200);
    let factor = office.run(&anna, "operator second-factor anna").succeeds().out();
    assert!(factor.starts_with("otpauth://totp/Upesi:anna?secret="), "{factor}");
    assert_eq!(office.status(&session, "GET", "/operators"), 401);
    run_at_home(&office, "login anna", PASSWORD).fails();
    office.run(&anna, "operator second-factor anna --remove").succeeds();
    run_at_home(&office, "login anna --code 000000", PASSWORD).succeeds();
    let gone = run_at_home(&office, "logout", "").succeeds().out();
    assert!(gone.starts_with("logged out of http://127.0.0.1:"), "{gone}");
    run_at_home(&office, "operator list", "").fails();
    office.run(&anna, "operator password anna --remove").succeeds();
    run_at_home(&office, "login anna", PASSWORD).fails();
    // No file of the switch has the password.
    let home = office.end(Signal::TERM);
    for file in files(&home.data()) {
        let text = fs::read(&file).unwrap();
        let password = PASSWORD.trim_end().as_bytes();
        assert!(!text.windows(password.len()).any(|part| part == password), "{}", file.display());
    }
    home.verify().succeeds();
}
