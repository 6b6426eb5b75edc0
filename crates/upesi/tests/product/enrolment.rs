//! Certificates of participants: requests of `openssl`, signed by the hub or elsewhere, with which
//! `curl` then calls the FSPIOP port.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::http::PATIENCE;

use crate::init::{NewScheme, operate};
use crate::support::switch::{Home, Printed, Switch, finish};

const CA: Option<&str> = Some("tls/ca.pem");

/// A running scheme with the participants bank-a and bank-b, which have no certificates.
struct Scheme {
    files: NewScheme,
    switch: Switch,
    _home: Home,
}

impl Scheme {
    fn start() -> Self {
        let files = NewScheme::new(&[]);
        let home = Home::new();
        let switch = home.started(files.serve());
        let scheme = Self { files, switch, _home: home };
        for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"] {
            let account = json!({ "currency": "USD", "type": kind });
            scheme.call("POST", "/participants/Hub/accounts", &account, 201);
        }
        for name in ["bank-a", "bank-b"] {
            let participant = json!({ "name": name, "currency": "USD" });
            scheme.call("POST", "/participants", &participant, 201);
        }
        scheme
    }

    /// A request to the admin API by `curl`, with the token of the administrator.
    fn call(&self, method: &str, path: &str, body: &Value, expected: u16) -> Value {
        let text = self.call_for_text(method, path, body, expected);
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    fn call_for_text(&self, method: &str, path: &str, body: &Value, expected: u16) -> String {
        let token = fs::read_to_string(self.files.file("administrator.token")).unwrap();
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--max-time", "20", "--write-out", " %{http_code}"]);
        curl.arg("--cacert").arg(self.files.file("tls/ca.pem")).args(["--request", method]);
        curl.arg("--header").arg(format!("Authorization: Bearer {}", token.trim_end()));
        if !body.is_null() {
            curl.args(["--json", &body.to_string()]);
        }
        curl.arg(format!("https://localhost:{}{path}", self.switch.admin.port()));
        let answer = finish(curl).succeeds().out();
        let (body, status) = answer.rsplit_once(' ').unwrap();
        assert_eq!(status, expected.to_string(), "{method} {path}: {body}");
        body.to_owned()
    }

    /// Waits until the metrics have the end of a participant's certificate, which is in this file.
    fn wait_for_expiry(&self, participant: &str, certificate: &str) {
        let end = openssl(&["x509", "-noout", "-enddate", "-in", certificate]);
        let mut date = Command::new("date");
        date.args(["+%s", "--date", end.trim().strip_prefix("notAfter=").unwrap()]);
        let seconds = finish(date).succeeds().out();
        let labels =
            format!("listener=\"enrolment\",kind=\"certificate\",subject=\"{participant}\"");
        let name = "upesi_certificate_expires_timestamp_seconds";
        let line = format!("{name}{{{labels}}} {}", seconds.trim());
        let deadline = Instant::now() + PATIENCE;
        let metrics = || self.call_for_text("GET", "/metrics", &Value::Null, 200);
        while !metrics().lines().any(|it| it == line) {
            assert!(Instant::now() < deadline, "there is no {line}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// `upesi certificate` with the token in this file.
    fn certificate(&self, token: &str, arguments: &[&str]) -> Output {
        self.upesi(token, &[&["certificate"], arguments].concat())
    }

    fn upesi(&self, token: &str, arguments: &[&str]) -> Output {
        let token = self.files.file(token).display().to_string();
        let admin = format!("https://localhost:{}", self.switch.admin.port());
        let arguments = [arguments, &["--token", &token]].concat();
        finish(operate(&self.files, &arguments, &admin, CA))
    }

    fn path(&self, name: &str) -> String {
        self.files.path(name).display().to_string()
    }

    /// A new key `NAME.key` and a request for it, `NAME.csr`.
    fn request(&self, name: &str, options: &[&str]) -> String {
        let (key, csr) = (self.path(&format!("{name}.key")), self.path(&format!("{name}.csr")));
        let form = ["req", "-new", "-noenc", "-keyout", &key, "-out", &csr];
        openssl(&[&form[..], options].concat());
        csr
    }

    /// Begins an enrolment, whose id is returned.
    fn begin(&self, participant: &str, csr: &str) -> String {
        let begun = self.certificate(TOKEN, &["request", participant, csr, "--json"]);
        begun.succeeds().json()["id"].to_string()
    }

    /// Asks for a party with a certificate and its key. Returns the answer and its status.
    fn look_up(&self, certificate: &str, key: &str, source: &str) -> String {
        let media = "application/vnd.interoperability.parties+json;version=1.1";
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--max-time", "20", "--write-out", " %{http_code}"]);
        curl.arg("--cacert").arg(self.files.file("tls/ca.pem"));
        curl.args(["--cert", certificate, "--key", key]);
        let source = format!("FSPIOP-Source: {source}");
        for header in [&*format!("Accept: {media}"), &format!("Content-Type: {media}"), &source] {
            curl.args(["--header", header]);
        }
        curl.args(["--header", "Date: Thu, 26 Nov 2026 19:00:00 GMT"]);
        let address = self.switch.fspiop.port();
        curl.arg(format!("https://localhost:{address}/parties/MSISDN/27713803912"));
        finish(curl).out()
    }

    fn stop(self) {
        self.switch.signal(Signal::TERM);
        assert!(self.switch.end().0.success());
    }
}

const TOKEN: &str = "administrator.token";

fn openssl(arguments: &[&str]) -> String {
    let mut openssl = Command::new("openssl");
    openssl.args(arguments);
    finish(openssl).succeeds().out()
}

#[test]
fn participant_calls_with_a_certificate_for_its_own_key() {
    let scheme = Scheme::start();
    for (name, key) in [
        ("rsa", &["-newkey", "rsa:2048"][..]),
        ("p256", &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]),
        ("p384", &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384", "-sha384"]),
    ] {
        let subject = "/C=KE/O=Bank A/CN=bank-a";
        let more = ["-subj", subject, "-addext", "subjectAltName=DNS:bank-b"];
        let csr = scheme.request(name, &[key, &more].concat());
        let id = scheme.begin("bank-a", &csr);
        assert_eq!(scheme.begin("bank-a", &csr), id, "the same request again");
        let open = scheme.certificate(TOKEN, &["list", "bank-a", "--state", "CSR_LOADED"]);
        assert!(open.succeeds().out().contains(&format!(" {id} ")), "{name}");
        let certificate = scheme.path(&format!("{name}.pem"));
        let signed = ["sign", "bank-a", &id, "--output", &certificate];
        let shown = scheme.certificate(TOKEN, &signed).succeeds().out();
        assert!(shown.contains("CERT_SIGNED"), "{shown}");

        let ca = scheme.files.file("tls/ca.pem").display().to_string();
        openssl(&["verify", "-purpose", "sslclient", "-x509_strict", "-CAfile", &ca, &certificate]);
        let text = openssl(&["x509", "-noout", "-text", "-in", &certificate]);
        assert!(text.contains("Subject: CN = bank-a\n"), "{text}");
        assert!(text.contains("TLS Web Client Authentication"), "{text}");
        for absent in ["TLS Web Server", "Subject Alternative Name", "CA:TRUE"] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }
        let key = scheme.path(&format!("{name}.key"));
        let answer = scheme.look_up(&certificate, &key, "bank-a");
        assert!(answer.ends_with(" 202"), "{name}: {answer}");
        let other = scheme.look_up(&certificate, &key, "bank-b");
        assert!(other.contains("the certificate is of bank-a"), "{name}: {other}");

        let again = scheme.certificate(TOKEN, &["sign", "bank-a", &id]).fails();
        assert!(again.contains("the enrolment was signed or rejected before"), "{again}");
        let other = scheme.certificate(TOKEN, &["show", "bank-b", &id]).fails();
        assert!(other.contains("enrolment not found"), "{other}");
    }
    scheme.stop();
}

#[test]
fn requests_that_cannot_be_signed_are_refused_with_the_reason() {
    let scheme = Scheme::start();
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let p256 = |subject| [&curve[..], &["-subj", subject]].concat();
    let good = scheme.request("good", &p256("/CN=bank-a"));
    let der = scheme.path("good.der");
    openssl(&["req", "-in", &good, "-outform", "DER", "-out", &der]);
    let mut bytes = fs::read(&der).unwrap();
    let at = bytes.windows(6).position(|it| it == b"bank-a").unwrap() + 5;
    bytes[at] = b'b';
    fs::write(&der, bytes).unwrap();
    let forged = scheme.path("forged.csr");
    openssl(&["req", "-inform", "DER", "-in", &der, "-out", &forged]);
    let empty = scheme.path("empty.csr");
    fs::write(&empty, "no request").unwrap();
    let rsa = |bits| ["-newkey", bits, "-subj", "/CN=bank-a"];
    let large: String = "x".repeat(4_200);
    let large = format!("subjectAltName=URI:{large}");
    let large = [&p256("/CN=bank-a")[..], &["-addext", &large]].concat();
    let name = "must have the common name \"bank-b\"";
    let key = "must have a key of RSA with 2048 to 8192 bits, of P-256 or of P-384";
    let signature = "must be signed with its own key, with SHA-256 or a longer hash";
    let sha1 = [&rsa("rsa:2048")[..], &["-sha1"]].concat();
    for (participant, csr, expected) in [
        ("bank-b", good, name),
        ("bank-b", forged, signature),
        ("bank-a", empty, "must be a certificate signing request in PEM"),
        ("bank-a", scheme.request("small", &rsa("rsa:1024")), key),
        ("bank-a", scheme.request("sha1", &sha1), signature),
        ("bank-a", scheme.request("none", &p256("/O=bank-a")), "must have one common name"),
        ("bank-a", scheme.request("two", &p256("/CN=bank-a/CN=bank-b")), "must have one common"),
        ("bank-a", scheme.request("ed", &["-newkey", "ed25519", "-subj", "/CN=bank-a"]), key),
        ("bank-a", scheme.request("large", &large), "has more than 4096 bytes"),
        ("bank-c", scheme.request("ghost", &p256("/CN=bank-c")), "participant not found"),
        ("Hub", scheme.request("hub", &p256("/CN=Hub")), "the hub's own certificates are set"),
    ] {
        let refused = scheme.certificate(TOKEN, &["request", participant, &csr]).fails();
        assert!(refused.contains(expected), "{csr}: {refused}");
    }
    for name in ["bank-a", "bank-b"] {
        let path = format!("/api/dfsps/{name}/enrollments/inbound");
        assert_eq!(scheme.call("GET", &path, &Value::Null, 200), json!([]));
    }
    for number in 0..5 {
        let csr = scheme.request(&format!("many{number}"), &p256("/CN=bank-a"));
        let begun = scheme.certificate(TOKEN, &["request", "bank-a", &csr]);
        match number {
            4 => assert!(begun.fails().contains("the participant has 4 open enrolments")),
            _ => drop(begun.succeeds()),
        }
    }
    scheme.stop();
}

#[test]
fn certificates_of_another_authority_are_checked_and_used() {
    let scheme = Scheme::start();
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let csr = scheme.request("a", &[&curve[..], &["-subj", "/CN=bank-a"]].concat());
    let id = scheme.begin("bank-a", &csr);
    let file = |name: &str| scheme.files.file(name).display().to_string();
    let (ca, ca_key) = (file("tls/ca.pem"), file("tls/ca.key"));
    let foreign = scheme.path("foreign.pem");
    let foreign_key = scheme.path("foreign.key");
    let authority = ["req", "-x509", "-noenc", "-subj", "/CN=other", "-keyout", &foreign_key];
    openssl(&[&authority[..], &["-out", &foreign], &curve].concat());
    let extensions = |name: &str, text: &str| -> PathBuf {
        let path = scheme.files.path(name);
        fs::write(&path, text).unwrap();
        path
    };
    let client = "extendedKeyUsage=clientAuth\n";
    let issue = |name: &str, csr: &str, more: (&str, &str, &str)| -> String {
        let (extension, ca, key) = more;
        let extension = extensions(&format!("{name}.ext"), extension).display().to_string();
        let out = scheme.path(&format!("{name}.pem"));
        let form = ["x509", "-req", "-days", "30", "-in", csr, "-out", &out];
        openssl(&[&form[..], &["-CA", ca, "-CAkey", key, "-extfile", &extension]].concat());
        out
    };
    let other = scheme.request("b", &[&curve[..], &["-subj", "/CN=bank-a"]].concat());
    let purpose = "must be for clients";
    for (name, csr, more, expected) in [
        ("server", &csr, ("extendedKeyUsage=serverAuth\n", &*ca, &*ca_key), purpose),
        ("any", &csr, ("keyUsage=digitalSignature\n", &*ca, &*ca_key), purpose),
        ("key", &other, (client, &*ca, &*ca_key), "is not of the key of the request"),
        ("ca", &csr, (client, &*foreign, &*foreign_key), "not issued by a trusted authority"),
        (
            "names",
            &csr,
            ("extendedKeyUsage=clientAuth\nsubjectAltName=DNS:bank-b\n", &*ca, &*ca_key),
            "and no other name",
        ),
    ] {
        let certificate = issue(name, csr, more);
        let refused = scheme.certificate(TOKEN, &["upload", "bank-a", &id, &certificate]).fails();
        assert!(refused.contains(expected), "{name}: {refused}");
    }
    let certificate = issue("good", &csr, (client, &ca, &ca_key));
    scheme.certificate(TOKEN, &["upload", "bank-a", &id, &certificate]).succeeds();
    let answer = scheme.look_up(&certificate, &scheme.path("a.key"), "bank-a");
    assert!(answer.ends_with(" 202"), "{answer}");
    let path = format!("/api/dfsps/bank-a/enrollments/inbound/{id}");
    let shown = scheme.call("GET", &path, &Value::Null, 200);
    assert_eq!(shown["state"], "CERT_SIGNED");
    assert_eq!(shown["certificate"], fs::read_to_string(&certificate).unwrap());
    scheme.wait_for_expiry("bank-a", &certificate);

    let authority = scheme.certificate(TOKEN, &["authority"]).succeeds().out();
    assert_eq!(authority, fs::read_to_string(&ca).unwrap());
    let hub = scheme.call("GET", "/api/hub/jwscerts", &Value::Null, 200);
    let key = fs::read_to_string(scheme.files.file("jws/hub.pem")).unwrap();
    assert_eq!(hub["publicKey"], key);
    let added = json!({ "publicKey": key, "createdAt": 1 });
    scheme.call("POST", "/api/dfsps/bank-b/jwscerts", &added, 200);
    let keys = scheme.call("GET", "/api/dfsps/jwscerts", &Value::Null, 200);
    let owners: Vec<_> = keys.as_array().unwrap().iter().map(|key| &key["dfspId"]).collect();
    assert_eq!(owners, ["Hub", "bank-b"]);
    scheme.stop();
}

/// With four eyes on keys, a signature is a proposal; a rejection never waits.
#[test]
fn signing_needs_a_second_operator_where_keys_do() {
    let scheme = Scheme::start();
    for name in ["benta", "operating"] {
        let role = if name == "benta" { "security" } else { "operator" };
        scheme.upesi(TOKEN, &["operator", "add", name, "--role", role]).succeeds();
        let output = scheme.files.file(name).display().to_string();
        scheme.upesi(TOKEN, &["token", "create", name, "--output", &output]).succeeds();
    }
    scheme.upesi(TOKEN, &["four-eyes", "set", "keys", "roles"]).succeeds();
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let csr = scheme.request("a", &[&curve[..], &["-subj", "/CN=bank-a"]].concat());
    let id = scheme.certificate("operating", &["request", "bank-a", &csr, "--json"]);
    let id = id.succeeds().json()["id"].to_string();
    let refused = scheme.certificate("operating", &["sign", "bank-a", &id]).fails();
    assert!(refused.contains("lacks the permission \"security\""), "{refused}");
    let proposed = scheme.certificate(TOKEN, &["sign", "bank-a", &id]);
    assert_eq!(proposed.status.code(), Some(3), "{}", proposed.err());
    assert!(proposed.err().contains("proposed as 1"), "{}", proposed.err());
    let state = || scheme.certificate(TOKEN, &["show", "bank-a", &id]).succeeds().out();
    assert!(state().contains("CSR_LOADED"), "{}", state());
    let shown = scheme.upesi("benta", &["proposal", "show", "1"]).succeeds().out();
    assert!(shown.contains(&format!("certificate for enrolment {id} of bank-a")), "{shown}");
    scheme.upesi("benta", &["proposal", "approve", "1"]).succeeds();
    assert!(state().contains("CERT_SIGNED"), "{}", state());
    let certificate = scheme.path("a.pem");
    scheme.certificate(TOKEN, &["show", "bank-a", &id, "--output", &certificate]).succeeds();
    let answer = scheme.look_up(&certificate, &scheme.path("a.key"), "bank-a");
    assert!(answer.ends_with(" 202"), "{answer}");

    let csr = scheme.request("b", &[&curve[..], &["-subj", "/CN=bank-b"]].concat());
    let id = scheme.begin("bank-b", &csr);
    let rejected = scheme.certificate("benta", &["reject", "bank-b", &id]).succeeds().out();
    assert!(rejected.contains("INVALID"), "{rejected}");
    scheme.stop();
}
