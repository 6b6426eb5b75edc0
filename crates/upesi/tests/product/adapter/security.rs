//! Adapters that demand and present certificates, and access tokens of a real OpenID provider.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;
use tls::authority::{Authority, CertificateRequest};

use super::bank::{Bank, Scheme};
use super::payment;
use crate::support::switch::Home;

/// A scheme's authority, with the certificates of the hub and of both banks.
struct Pki {
    directory: TempDir,
    authority: Authority,
}

impl Pki {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let pki = Self { directory, authority: Authority::new("Scheme CA") };
        fs::write(pki.path("ca.pem"), pki.authority.pem()).unwrap();
        for (serial, name) in ["hub", "payerbank", "payeebank"].into_iter().enumerate() {
            pki.issue(name, &Self::request(name, serial as u64 + 1));
        }
        pki
    }

    fn request(name: &str, serial: u64) -> CertificateRequest {
        CertificateRequest::new(name, &["localhost", "127.0.0.1"], serial)
    }

    fn issue(&self, name: &str, request: &CertificateRequest) {
        self.authority.issue(request).write(self.directory.path(), name).unwrap();
    }

    fn path(&self, file: &str) -> String {
        self.directory.path().join(file).display().to_string()
    }

    /// A setting for each file of a name.
    fn files(&self, prefix: &str, ca: &str, name: &str) -> String {
        let path = |file: &str| self.path(file);
        format!(
            "{prefix}certificate_file = \"{}\"\n{prefix}key_file = \"{}\"\n\
             {prefix}{ca}_file = \"{}\"\n",
            path(&format!("{name}.pem")),
            path(&format!("{name}.key")),
            path("ca.pem"),
        )
    }

    fn scheme(&self) -> Scheme {
        let hub = format!(
            "callers = \"certificate\"\n{}[endpoints]\n{}",
            self.files("tls_", "client_ca", "hub"),
            self.files("tls_", "ca", "hub"),
        );
        Scheme::onboarded(Home::configured(&hub), "https", |hub| {
            ["payerbank", "payeebank"].map(|name| {
                let settings = format!(
                    "[hub.tls]\n{}[inbound_tls]\n{}",
                    self.files("", "ca", name),
                    self.files("", "client_ca", name),
                );
                Bank::start(name, hub, &settings, None)
            })
        })
    }

    /// Whether the server of a bank answers a client with the hub's certificate, or without one.
    fn is_answered(&self, server: SocketAddr, has_certificate: bool) -> bool {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--fail", "--cacert", &self.path("ca.pem")]);
        if has_certificate {
            curl.args(["--cert", &self.path("hub.pem"), "--key", &self.path("hub.key")]);
        }
        curl.arg(format!("https://{server}/health")).output().unwrap().status.success()
    }
}

/// Registers the party of [`payment`].
fn register(scheme: &Scheme) {
    let accounts = json!([{ "idType": "MSISDN", "idValue": "222", "currency": "USD" }]);
    let (status, answer) = scheme.payee.post("/accounts", &accounts);
    assert_eq!((status, &answer["currentState"]), (200, &json!("COMPLETED")), "{answer}");
}

fn pay(scheme: &Scheme, home: &str) {
    let (status, paid) = scheme.payer.post("/transfers", &payment(home, "1"));
    assert_eq!((status, &paid["currentState"]), (200, &json!("COMPLETED")), "{paid}");
}

/// Every leg has certificates on both sides. New files are used without a restart; files that
/// cannot be used change nothing.
#[test]
fn certificates_are_demanded_and_renewed() {
    let pki = Pki::new();
    let mut scheme = pki.scheme();
    register(&scheme);
    pay(&scheme, "home-1");
    assert!(pki.is_answered(scheme.payee.fspiop(), true));
    assert!(!pki.is_answered(scheme.payee.fspiop(), false));

    fs::write(pki.path("payerbank.pem"), "half a certificate").unwrap();
    scheme.payer.reload("hub.tls: hub.tls.");
    pay(&scheme, "home-2");
    let expired = CertificateRequest { valid_days: -30..-1, ..Pki::request("payerbank", 10) };
    pki.issue("payerbank", &expired);
    scheme.payer.reload("stay in use");
    pay(&scheme, "home-3");
    pki.issue("payerbank", &Pki::request("payerbank", 11));
    scheme.payer.reload("hub.tls: changed files are in use");
    pay(&scheme, "home-4");
    pki.issue("payeebank", &Pki::request("payeebank", 12));
    scheme.payee.reload("inbound_tls: changed files are in use");
    assert!(pki.is_answered(scheme.payee.fspiop(), true));
    pay(&scheme, "home-5");
    assert_eq!(scheme.admin.position("payerbank"), "5");
    scheme.end();
}

/// The hub accepts requests with an access token only. A token is renewed before it expires.
#[cfg(feature = "real-receivers")]
#[test]
fn access_tokens_are_requested_and_renewed() {
    use std::time::{Duration, Instant};

    use crate::openid::{AUDIENCE, Provider};

    const LIFE: Duration = Duration::from_secs(3);

    let provider = Provider::start(3);
    let issuer = &provider.issuer;
    let hub = format!(
        "callers = \"token\"\ntoken_issuer = \"{issuer}\"\ntoken_audience = \"{AUDIENCE}\"\n\
         token_scopes = [\"fspiop\"]\n"
    );
    let secrets = tempfile::tempdir().unwrap();
    let settings = |name: &str, secret: &str| {
        let file = secrets.path().join(name);
        fs::write(&file, secret).unwrap();
        format!(
            "[hub.oauth2]\ntoken_url = \"{issuer}/token\"\nclient_id = \"{name}\"\n\
             client_secret_file = \"{}\"\nscope = \"fspiop\"\n",
            file.display()
        )
    };
    let start = |name: &str, hub| {
        Bank::start(name, hub, &settings(name, &format!("secret of {name}: %&")), None)
    };
    let scheme = Scheme::onboarded(Home::configured(&hub), "http", |hub| {
        ["payerbank", "payeebank"].map(|name| start(name, hub))
    });
    register(&scheme);
    let begin = Instant::now();
    let mut count = 0;
    while begin.elapsed() < 2 * LIFE {
        count += 1;
        pay(&scheme, &format!("home-{count}"));
    }
    let wrong = settings("payerbank", "another secret");
    let stranger = Bank::start("payerbank", scheme.hub(), &wrong, None);
    let (status, error) = stranger.post("/transfers", &payment("home-0", "1"));
    assert_eq!((status, &error["statusCode"]), (500, &json!("1001")), "{error}");
    assert!(error.to_string().contains("access token"), "{error}");
    assert_eq!(scheme.admin.position("payerbank"), count.to_string());
    scheme.end();
}
