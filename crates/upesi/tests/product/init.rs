//! `upesi init`: a new scheme with everything on, used by operator and participant.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::switch::{Home, PROGRAM, Ports, Printed, files, finish};

/// The files that `upesi init` wrote.
pub(crate) struct NewScheme(TempDir);

impl NewScheme {
    pub(crate) fn new(more: &[&str]) -> Self {
        let scheme = Self(tempfile::tempdir().unwrap());
        scheme.init(more).succeeds();
        scheme
    }

    fn init(&self, more: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(["init", "--scheme", "sandbox", "--to"]).arg(self.path("scheme"));
        command.args(more);
        finish(command)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path("scheme").join(name)
    }

    /// The source of the master key.
    pub(crate) fn master_key(&self) -> String {
        format!("file:{}", self.file("master.key").display())
    }

    pub(crate) fn serve(&self) -> Command {
        let Ports { fspiop, admin } = Ports::free();
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg("--data").arg(self.file("data"));
        command.arg("--config").arg(self.file("upesi.toml"));
        command.args(["--fspiop", &fspiop.to_string(), "--admin", &admin.to_string()]);
        command
    }

    /// Status and body of a request by `curl`.
    fn curl(&self, url: &str, client: Option<&str>, headers: &[&str]) -> String {
        let mut command = Command::new("curl");
        command.args(["--silent", "--max-time", "20", "--write-out", "%{http_code} "]);
        command.arg("--cacert").arg(self.file("tls/ca.pem"));
        if let Some(client) = client {
            let file = |end: &str| self.file(&format!("participants/{client}/certificate.{end}"));
            command.arg("--cert").arg(file("pem")).arg("--key").arg(file("key"));
        }
        command.args(headers.iter().flat_map(|header| ["--header", header]));
        let output = finish({
            command.arg(url);
            command
        });
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The written configuration is accepted without a warning, and the switch that it starts knows its
/// administrator, requires certificates, and signs its log.
#[test]
fn new_scheme_starts_with_everything_on() {
    let scheme = NewScheme::new(&["--participant", "bank-a,bank-b"]);
    for file in files(&scheme.path("scheme")) {
        assert!(mode(&file) == 0o600, "{}: {:o}", file.display(), mode(&file));
    }
    let mut check = Command::new(PROGRAM);
    check.arg("check-config").arg(scheme.file("upesi.toml")).arg("--json");
    let checked = finish(check).succeeds().json();
    assert_eq!(checked["warnings"], serde_json::json!([]), "{checked}");

    let home = Home::new();
    let switch = home.started(scheme.serve());
    let [fspiop, admin] = [switch.fspiop, switch.admin]
        .map(|address| format!("https://localhost:{}", address.port()));
    let token = fs::read_to_string(scheme.file("administrator.token")).unwrap();
    let token = format!("Authorization: Bearer {}", token.trim_end());
    let identity = scheme.curl(&format!("{admin}/identity"), None, &[&token]);
    assert!(identity.contains("\"administrator\"") && identity.ends_with("200 "), "{identity}");
    let refused = scheme.curl(&format!("{admin}/participants"), None, &[]);
    assert!(refused.ends_with("401 "), "{refused}");

    let media = "application/vnd.interoperability.parties+json;version=1.1";
    let headers = [
        &*format!("Accept: {media}"),
        &format!("Content-Type: {media}"),
        "Date: Thu, 26 Nov 2026 19:00:00 GMT",
        "FSPIOP-Source: bank-b",
    ];
    let party = format!("{fspiop}/parties/MSISDN/27713803912");
    assert_eq!(scheme.curl(&party, None, &headers), "000 ", "no certificate");
    let other = scheme.curl(&party, Some("bank-a"), &headers);
    assert!(other.contains("the certificate is of bank-a") && other.ends_with("403 "), "{other}");
    switch.signal(Signal::TERM);
    assert!(switch.end().0.success());

    let mut audit = Command::new(PROGRAM);
    audit.args(["audit", "verify", "--data"]).arg(scheme.file("data"));
    audit.args(["--encryption-key", &scheme.master_key()]);
    audit.arg("--heads").arg(scheme.file("chain-heads"));
    audit.arg("--key").arg(scheme.file("jws/chain-heads.pem"));
    finish(audit).succeeds();
    let trail = fs::read_to_string(scheme.file("audit.log")).unwrap();
    assert!(trail.contains("\"status\":401"), "{trail}");
}

/// A participant's certificate has its name only, and is for clients only. That of its server is
/// refused from a client.
#[test]
fn certificates_of_participants_are_for_one_purpose() {
    let scheme = NewScheme::new(&["--participant", "bank-a"]);
    let text = |file: &str| {
        let mut openssl = Command::new("openssl");
        openssl.args(["x509", "-noout", "-text", "-in"]).arg(scheme.file(file));
        finish(openssl).succeeds().out()
    };
    let (client, server) = ("TLS Web Client", "TLS Web Server");
    for (file, name, has, has_not) in [
        ("participants/bank-a/certificate.pem", "CN = bank-a\n", client, server),
        ("participants/bank-a/server.pem", "CN = bank-a server\n", server, client),
        ("tls/server.pem", "CN = sandbox hub\n", server, client),
        ("tls/client.pem", "CN = sandbox hub client\n", client, server),
    ] {
        let text = text(file);
        assert!(text.contains(name) && text.contains(has) && !text.contains(has_not), "{text}");
        let has_hosts = text.contains("Subject Alternative Name");
        assert_eq!(has_hosts, has == server, "{file}: {text}");
    }
    let home = Home::new();
    let switch = home.started(scheme.serve());
    let url = format!("https://localhost:{}/health", switch.fspiop.port());
    assert!(scheme.curl(&url, Some("bank-a"), &[]).ends_with("200 "));
    for end in ["pem", "key"] {
        let file = |name: &str| scheme.file(&format!("participants/bank-a/{name}.{end}"));
        fs::copy(file("server"), file("certificate")).unwrap();
    }
    assert_eq!(scheme.curl(&url, Some("bank-a"), &[]), "000 ");
    switch.signal(Signal::TERM);
    assert!(switch.end().0.success());
}

#[test]
fn requests_for_certificates_go_to_the_authority_of_the_scheme() {
    let scheme = NewScheme::new(&["--csr", "--hosts", "hub.example,10.0.0.5"]);
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-verify", "-noout", "-text", "-in"]).arg(scheme.file("tls/server.csr"));
    let output = finish(openssl).succeeds();
    let text = String::from_utf8_lossy(&output.stdout);
    for expected in ["CN = sandbox hub", "DNS:hub.example", "IP Address:10.0.0.5"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!scheme.file("tls/ca.key").exists());
    let refused = finish(scheme.serve()).fails();
    assert!(refused.contains("server.pem"), "it waits for the certificate: {refused}");
}

/// With other hosts than this machine, the printed command reaches the admin API, and so do its
/// other names.
#[test]
fn admin_api_is_reached_by_each_certified_host() {
    let directory = tempfile::tempdir().unwrap();
    let scheme = NewScheme(directory);
    let printed = scheme.init(&["--hosts", "hub.example,10.0.0.5"]).succeeds().out();
    let list = printed.lines().find(|line| line.contains("operator list")).unwrap();
    let home = Home::new();
    let switch = home.started(scheme.serve());
    let admin = format!("localhost:{}", switch.admin.port());
    let list = list.trim().replace("localhost:3001", &admin);
    let words: Vec<_> = list.split(' ').skip(1).collect();
    let mut command = Command::new(PROGRAM);
    command.args(&words).env_remove("UPESI_CA");
    assert!(finish(command).succeeds().out().contains("administrator"), "{list}");

    let mut curl = Command::new("curl");
    let (port, token) = (switch.admin.port(), scheme.file("administrator.token"));
    let token = fs::read_to_string(token).unwrap();
    curl.args(["--silent", "--max-time", "20", "--cacert"]).arg(scheme.file("tls/ca.pem"));
    curl.arg("--resolve").arg(format!("hub.example:{port}:127.0.0.1"));
    curl.arg("--header").arg(format!("Authorization: Bearer {}", token.trim_end()));
    curl.arg(format!("https://hub.example:{port}/identity"));
    let identity = finish(curl).succeeds().out();
    assert!(identity.contains("\"administrator\""), "{identity}");

    // The doctor is run without the address: it finds that a switch uses the directory.
    let mut doctor = Command::new(PROGRAM);
    doctor.args(["doctor", "--config"]).arg(scheme.file("upesi.toml"));
    doctor.args(["--admin", &format!("http://{admin}"), "--data"]).arg(scheme.file("data"));
    let found = finish(doctor).out();
    for expected in ["is in use, but its status cannot be read", "this port expects TLS"] {
        assert!(found.contains(expected), "{expected}: {found}");
    }
    assert!(!found.contains("end the other program"), "{found}");
    switch.signal(Signal::TERM);
    assert!(switch.end().0.success());
}

#[test]
fn nothing_is_overwritten_and_names_are_checked() {
    let scheme = NewScheme::new(&[]);
    let key = fs::read(scheme.file("jws/hub.key")).unwrap();
    let refused = scheme.init(&[]).fails();
    assert!(refused.contains("not empty; nothing was written"), "{refused}");
    assert_eq!(fs::read(scheme.file("jws/hub.key")).unwrap(), key);
    let long = "x".repeat(31);
    let label = format!("{}.example", "x".repeat(64));
    let name = "expected 2 to 30 letters, digits, hyphens, underscores and tildes";
    let host = "expected a DNS name or an IP address, without port";
    for (option, wrong, expected) in [
        ("--participant", "../bank", name),
        ("--participant", "a", name),
        ("--participant", "bank/a", name),
        ("--participant", "bänk", name),
        ("--participant", "bank-a,,bank-b", name),
        ("--participant", &long, name),
        ("--participant", "hub", "the hub is not a participant"),
        ("--participant", "bank-a,BANK-A", "--participant: BANK-A occurs twice"),
        ("--hosts", "", host),
        ("--hosts", "hub.example:4000", host),
        ("--hosts", "*.example", host),
        ("--hosts", "-hub.example", host),
        ("--hosts", "hub..example", host),
        ("--hosts", "300.1.1.1", host),
        ("--hosts", &label, host),
        ("--hosts", "hub.example,HUB.example", "--hosts: HUB.example occurs twice"),
        ("--administrator", "anna smith", "expected 1 to 64 letters"),
        ("--administrator", "Break-Glass", "and not break-glass"),
    ] {
        let to = scheme.path("refused");
        let mut command = Command::new(PROGRAM);
        command
            .args(["init", "--scheme", "sandbox", "--to"])
            .arg(&to)
            .arg(format!("{option}={wrong}"));
        let refused = finish(command).fails();
        assert!(refused.contains(expected), "{option} {wrong}: {refused}");
        assert!(!to.exists(), "{option} {wrong}");
    }
    assert!(scheme.init(&["--csr", "--participant", "bank-a"]).fails().contains("--csr"));
}

/// A command of an operator, whose sessions are kept below the scheme's directory.
pub(crate) fn operate(
    scheme: &NewScheme,
    arguments: &[&str],
    admin: &str,
    ca: Option<&str>,
) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).args(["--admin", admin]);
    command.env("XDG_CONFIG_HOME", scheme.path("config")).env_remove("UPESI_CA");
    if let Some(ca) = ca {
        command.arg("--ca").arg(scheme.file(ca));
    }
    command
}

/// Commands call the admin API over TLS: with the authority by option or variable, and after
/// `upesi login` without either.
#[test]
fn commands_trust_the_authority_of_the_scheme() {
    const CA: Option<&str> = Some("tls/ca.pem");
    let scheme = NewScheme::new(&["--hosts", "localhost"]);
    let home = Home::new();
    let switch = home.started(scheme.serve());
    let admin = format!("https://localhost:{}", switch.admin.port());
    let token = scheme.file("administrator.token").display().to_string();
    let list = ["operator", "list", "--token", &token];
    let listed = finish(operate(&scheme, &list, &admin, CA)).succeeds().out();
    assert!(listed.contains("administrator"), "{listed}");

    let untrusted = finish(operate(&scheme, &list, &admin, None)).fails();
    assert!(untrusted.contains("not issued by a trusted authority; use --ca FILE"), "{untrusted}");
    let address = format!("https://127.0.0.1:{}", switch.admin.port());
    let wrong = finish(operate(&scheme, &list, &address, CA)).fails();
    assert!(wrong.contains("TLS: the certificate does not contain the name"), "{wrong}");
    let plain = finish(operate(&scheme, &list, &admin.replace("https", "http"), CA)).fails();
    assert!(plain.contains("is not encrypted; use https://"), "{plain}");
    let damaged = finish(operate(&scheme, &list, &admin, Some("tls/ca.key"))).fails();
    assert!(damaged.contains("--ca: ") && damaged.contains("no certificate in PEM"), "{damaged}");
    let mut by_variable = operate(&scheme, &list, &admin, None);
    by_variable.env("UPESI_CA", scheme.file("tls/ca.pem"));
    finish(by_variable).succeeds();
    finish(operate(&scheme, &["health", "--token", &token], &admin, CA)).succeeds();

    let password = scheme.path("password");
    fs::write(&password, "correct horse battery staple\n").unwrap();
    let password = password.display().to_string();
    let set = ["operator", "password", "administrator", "--token", &token];
    let set = [&set[..], &["--password-file", &password]].concat();
    finish(operate(&scheme, &set, &admin, CA)).succeeds();
    let login = ["login", "administrator", "--password-file", &password];
    finish(operate(&scheme, &login, &admin, CA)).succeeds();
    finish(operate(&scheme, &["operator", "list"], &admin, None)).succeeds();
    finish(operate(&scheme, &["logout"], &admin, None)).succeeds();
    let forgotten = finish(operate(&scheme, &["health"], &admin, None)).fails();
    assert!(forgotten.contains("use --ca FILE"), "{forgotten}");
    switch.signal(Signal::TERM);
    assert!(switch.end().0.success());
}

/// Every kind of message that the hub makes itself is signed with the key that `init` wrote. Banks
/// written in Python provoke them over TLS, and openssl verifies them.
#[test]
fn every_message_of_the_hub_is_signed_with_the_key_of_init() {
    for keys in ["rsa", "p256"] {
        let banks = ["--participant", "bank-a,bank-b,bank-c", "--keys", keys];
        let scheme = NewScheme::new(&banks);
        let home = Home::new();
        let switch = home.started(scheme.serve());
        let mut banks = Command::new("python3");
        banks.args(["-c", include_str!("support/signed_scheme.py")]).arg(scheme.path("scheme"));
        banks.args([switch.fspiop, switch.admin].map(|address| address.port().to_string()));
        let output = finish(banks).succeeds();
        let kinds = String::from_utf8_lossy(&output.stdout);
        let expected = "\
bank-a PUT /authorizations/{id}/error 1
bank-a PUT /bulkQuotes/{id}/error 1
bank-a PUT /bulkTransfers/{id} 2
bank-a PUT /bulkTransfers/{id}/error 1
bank-a PUT /participants/MSISDN/123 1
bank-a PUT /participants/MSISDN/999/error 1
bank-a PUT /parties/MSISDN/999/error 1
bank-a PUT /quotes/{id}/error 1
bank-a PUT /transactionRequests/{id}/error 1
bank-a PUT /transactions/{id}/error 1
bank-a PUT /transfers/{id} 3
bank-a PUT /transfers/{id}/error 5
bank-b PATCH /transfers/{id} 1
bank-b POST /bulkTransfers 1
bank-b PUT /bulkTransfers/{id} 1
bank-b PUT /participants/MSISDN/123 1
bank-b PUT /participants/{id} 1
bank-b PUT /transfers/{id} 1
bank-b PUT /transfers/{id}/error 3
";
        assert_eq!(kinds, expected, "{keys}");
        switch.signal(Signal::TERM);
        assert!(switch.end().0.success());
    }
}

/// Simulated participants on another machine use the files that `upesi init` wrote.
#[test]
fn simulated_participants_use_their_certificates_and_keys() {
    let scheme = NewScheme::new(&["--participant", "fsp1,fsp2", "--local"]);
    let written = fs::read_to_string(scheme.file("upesi.toml")).unwrap();
    assert!(written.contains("listen = \"127.0.0.1:4000\""), "{written}");
    let home = Home::new();
    let switch = home.started(scheme.serve());
    let url = |address: std::net::SocketAddr| format!("https://127.0.0.1:{}", address.port());
    let simulate = |hub: &str| {
        let mut command = Command::new(PROGRAM);
        command.args(["simulate", "--fsps", "2", "--first", "1", "--concurrency", "2"]);
        command.args(["--transactions", "5", "--hub", hub, "--admin", &url(switch.admin)]);
        command.arg("--secure").arg(scheme.path("scheme"));
        finish(command)
    };
    let output = simulate(&url(switch.fspiop)).succeeds();
    assert!(output.out().contains("fsp1"), "{output:?}");
    assert!(output.err().contains("https://127.0.0.1:"), "{output:?}");
    let refused = simulate(&format!("http://{}", switch.fspiop)).fails();
    assert!(refused.contains("--hub: must begin with https:// with --secure"), "{refused}");
    switch.signal(Signal::TERM);
    assert!(switch.end().0.success());
}
