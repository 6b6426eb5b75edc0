//! A real OpenID provider: tokens of participants by client credentials, of machines and people for
//! the admin API by `upesi login`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::json;

use crate::support::message::{Message, Transfer};
use crate::support::receivers::installed;
use crate::support::scheme::Scheme;
use crate::support::switch::{PROGRAM, Printed, finish};

pub(crate) const AUDIENCE: &str = "https://hub.example/";

/// The running provider.
pub(crate) struct Provider {
    child: Child,
    pub(crate) issuer: String,
    /// Open, because the provider writes notices.
    _output: BufReader<ChildStdout>,
}

impl Provider {
    /// A provider whose access tokens are valid for some seconds.
    pub(crate) fn start(lifetime: u32) -> Self {
        let mut child = Command::new("node")
            .arg(installed().join("provider.mjs"))
            .arg(json!({ "audience": AUDIENCE, "lifetime": lifetime }).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut issuer = String::new();
        while !issuer.starts_with("http") {
            issuer.clear();
            assert_ne!(output.read_line(&mut issuer).unwrap(), 0, "the provider has ended");
        }
        Self { child, issuer: issuer.trim().to_owned(), _output: output }
    }

    /// The access token of a client, from the provider's token endpoint.
    fn token(&self, client: &str) -> String {
        let secret = format!("secret%20of%20{client}%3A%20%25%26");
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--user"]);
        command.arg(format!("{client}:{secret}"));
        command.args(["--data", "grant_type=client_credentials&scope=fspiop"]);
        command.arg(format!("{}/token", self.issuer));
        let answer = finish(command).succeeds().out();
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        answer["access_token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Runs a login with a device code, which the person enters.
    fn log_in(&mut self, mut person: Command) {
        person.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut person = person.spawn().unwrap();
        let mut line = String::new();
        let mut complaints = BufReader::new(person.stderr.take().unwrap());
        complaints.read_line(&mut line).unwrap();
        let (_, code) =
            line.trim().split_once("enter the code ").unwrap_or_else(|| panic!("{line}"));
        self.enter(code);
        let output = person.wait_with_output().unwrap();
        let welcome = String::from_utf8_lossy(&output.stdout);
        complaints.read_to_string(&mut line).unwrap();
        assert!(welcome.starts_with("logged in as anna until 20"), "{welcome} {line}");
    }

    /// The person enters the code.
    fn enter(&mut self, code: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{code}").unwrap();
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

#[test]
fn tokens_of_a_real_provider_are_accepted() {
    let mut provider = Provider::start(300);
    let issuer = provider.issuer.clone();
    let settings = format!(
        "callers = \"token\"\ntoken_issuer = \"{issuer}\"\ntoken_audience = \"{AUDIENCE}\"\n\
         token_scopes = [\"fspiop\"]\n{}",
        admin_settings(&issuer)
    );
    let scheme = Scheme::configured(&settings);
    let [payer, payee] = ["payerfsp", "payeefsp"].map(|name| provider.token(name));
    let ask = |token: &str, message: Message| {
        let answer = scheme.ask(&message.with("authorization", &format!("Bearer {token}")));
        (answer.status, answer.text())
    };
    let transfer = Transfer::of("1");
    assert_eq!(ask(&payer, transfer.prepare()), (202, String::new()));
    scheme.wait_until_delivered();
    assert_eq!(ask(&payee, transfer.fulfil("COMMITTED")), (200, String::new()));
    assert_eq!(ask(&payee, Transfer::of("1").prepare()).0, 403);

    // A machine, and a person with a device code.
    let config = tempfile::tempdir().unwrap();
    let admin = format!("http://{}", scheme.switch.admin);
    let command = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).args(["--admin", &admin]).env("XDG_CONFIG_HOME", config.path());
        command
    };
    let login = ["login", "--issuer", &issuer, "--audience", AUDIENCE, "--client-id"];
    let mut machine = command(&[&login[..], &["robot"]].concat());
    machine.env("UPESI_CLIENT_SECRET", "secret of robot: %&");
    let welcome = finish(machine).succeeds().out();
    assert!(welcome.starts_with("logged in as robot until 20"), "{welcome}");
    let refused = finish(command(&["operator", "add", "bert", "--role", "viewer"])).fails();
    assert!(refused.contains("robot lacks the permission"), "{refused}");
    let mut wrong = command(&[&login[..], &["robot"]].concat());
    wrong.env("UPESI_CLIENT_SECRET", "another secret");
    let refused = finish(wrong).fails();
    assert!(refused.contains("invalid_client"), "{refused}");

    provider.log_in(command(&[&login[..], &["upesi", "--scope", "fspiop"]].concat()));
    finish(command(&["operator", "add", "bert", "--role", "viewer"])).succeeds();
}

/// Settings of the admin API for the tokens of a provider.
fn admin_settings(issuer: &str) -> String {
    format!(
        "[admin]\nauth = \"roles\"\noidc_issuer = \"{issuer}\"\noidc_audience = \"{AUDIENCE}\"\n\
         oidc_roles = [\"hub-admins=admin\", \"hub-viewers=viewer\"]\n"
    )
}

/// The token of a person ends after seconds. Commands renew it until the provider refuses.
#[test]
fn session_of_a_person_is_renewed_until_the_provider_ends_it() {
    let mut provider = Provider::start(20);
    let scheme = Scheme::configured(&admin_settings(&provider.issuer));
    let config = tempfile::tempdir().unwrap();
    let admin = format!("http://{}", scheme.switch.admin);
    let command = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).args(["--admin", &admin]).env("XDG_CONFIG_HOME", config.path());
        command
    };
    let issuer = provider.issuer.clone();
    let login = ["login", "--issuer", &issuer, "--audience", AUDIENCE, "--scope", "fspiop"];
    provider.log_in(command(&[&login[..], &["--client-id", "upesi"]].concat()));
    let session = config.path().join("upesi/sessions");
    let session = session.join(format!("127.0.0.1_{}", scheme.switch.admin.port()));
    let renewal =
        session.with_file_name(format!("127.0.0.1_{}.renewal", scheme.switch.admin.port()));
    let mode = fs::metadata(&renewal).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let read = || [&session, &renewal].map(|file| fs::read_to_string(file).unwrap());
    let list = || finish(command(&["operator", "list"]));

    // Each command renews a token that ends within 30 s, and both tokens change.
    let first = read();
    list().succeeds();
    let second = read();
    assert!(first[0] != second[0] && first[1] != second[1], "{first:?} {second:?}");
    // Two at a time renew it one after the other: a refresh token can be used once.
    std::thread::scope(|scope| {
        let both = [scope.spawn(list), scope.spawn(list)];
        both.into_iter().for_each(|output| drop(output.join().unwrap().succeeds()));
    });
    list().succeeds();

    // The provider ends the session. A valid token is used up. Then the command names
    // the login to repeat.
    let mut stored: serde_json::Value = serde_json::from_str(&read()[1]).unwrap();
    let mut revoke = Command::new("curl");
    revoke.args(["--silent", "--show-error", "--fail", "--data", "client_id=upesi", "--data"]);
    revoke.arg(format!("token={}", stored["refreshToken"].as_str().unwrap()));
    revoke.arg(format!("{issuer}/token/revocation"));
    finish(revoke).succeeds();
    list().succeeds();
    stored["expires"] = 0.into();
    fs::write(&renewal, stored.to_string()).unwrap();
    let refused = list().fails();
    assert!(refused.contains("the session has ended"), "{refused}");
    assert!(refused.contains("invalid_grant"), "{refused}");
    assert!(refused.contains(&format!("upesi login --issuer {issuer} --client-id")), "{refused}");

    // The provider is down: another text.
    drop(provider);
    let refused = list().fails();
    assert!(refused.contains("the session cannot be renewed"), "{refused}");
    finish(command(&["logout"])).succeeds();
    assert!(!session.exists() && !renewal.exists());
}
