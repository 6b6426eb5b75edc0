//! The files of a listener: which are accepted, and the error of each that is not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::authority::{Authority, CertificateRequest, Issued, write_at_once};
use crate::{ClientCertificates, MinimumVersion, ReloadOutcome, ServerFiles, ServerTls};

struct Place {
    directory: tempfile::TempDir,
    authority: Authority,
    files: ServerFiles,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let authority = Authority::new("Test CA");
        let path = |name: &str| directory.path().join(name);
        let files = ServerFiles {
            section: "fspiop",
            certificate: path("hub.pem"),
            key: path("hub.key"),
            client_ca: Some(path("ca.pem")),
            client_certificates: ClientCertificates::Required,
            crl: None,
            ocsp: None,
            minimum: MinimumVersion::Tls13,
            protocols: &[b"http/1.1"],
        };
        let place = Self { directory, authority, files };
        place.write("ca.pem", &place.authority.pem());
        place.issue(-1..30);
        place
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn write(&self, name: &str, content: &str) {
        write_at_once(&self.path().join(name), content).expect("written");
    }

    fn issue(&self, valid_days: std::ops::Range<i64>) -> Issued {
        let request = CertificateRequest::new("hub", &["localhost"], 1);
        let issued = self.authority.issue(&CertificateRequest { valid_days, ..request });
        issued.write(self.path(), "hub").expect("written");
        issued
    }

    fn error(&self) -> String {
        let opened = ServerTls::open(self.files.clone());
        opened.err().map_or_else(String::new, |error| error.to_string())
    }
}

#[test]
fn each_unusable_file_has_its_error() {
    let place = Place::new();
    let check = |expected: &str| {
        let error = place.error();
        assert!(error.contains(expected), "{expected}: {error}");
        assert_eq!(error.is_empty(), expected.is_empty(), "{error}");
        assert!(!error.contains("BEGIN"), "{error}");
    };
    check("");
    place.issue(-30..-1);
    check("hub.pem: the certificate of CN=hub has expired");
    place.issue(1..30);
    check("hub.pem: the certificate of CN=hub is not valid yet");
    let issued = place.issue(-1..30);
    place.write("hub.key", &Authority::new("other").issue(&other()).key);
    check("fspiop.tls_key_file: ");
    check("is not the key of the certificate in");
    place.write("hub.key", "");
    check("hub.key: contains no PEM block of a private key");
    place.write("hub.key", &issued.key);
    let key = place.path().join("hub.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("set");
    check("private key readable by all users (mode 644)");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).expect("set");
    check("");
    place.write("ca.pem", "");
    check("fspiop.tls_client_ca_file: ");
    check("ca.pem: contains no certificate in PEM");
    place.write("ca.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    check("ca.pem: contains a damaged certificate");
    place.write("ca.pem", &"x".repeat((1 << 20) + 1));
    check("ca.pem: larger than 1048576 bytes");
    fs::remove_file(place.path().join("ca.pem")).expect("removed");
    check("ca.pem: No such file");
}

fn other() -> CertificateRequest {
    CertificateRequest::new("other", &["localhost"], 2)
}

#[test]
fn revocation_lists_are_checked() {
    let mut place = Place::new();
    place.files.crl = Some(place.path().join("crl.pem"));
    place.write("crl.pem", "");
    assert!(place.error().contains("contains no revocation list"), "{}", place.error());
    place.write("crl.pem", &place.authority.revocation_list(&[7]));
    let tls = ServerTls::open(place.files.clone()).expect("the files are good");
    let shown: Vec<_> = tls.status().iter().map(|it| (it.kind, it.subject.clone())).collect();
    let named = [("certificate", "CN=hub"), ("client_ca", "CN=Test CA"), ("crl", "CN=Test CA")];
    assert_eq!(shown, named.map(|(kind, name)| (kind, name.to_owned())));
}

#[test]
fn only_a_usable_change_replaces_the_files() {
    let place = Place::new();
    let tls = ServerTls::open(place.files.clone()).expect("the files are good");
    let reload = || tls.reload().map_err(|error| error.to_string());
    assert_eq!(reload(), Ok(ReloadOutcome::Unchanged));
    let before = tls.status();
    place.write("hub.pem", "");
    let error = reload().expect_err("it is empty");
    assert!(error.contains("fspiop.tls_certificate_file: "), "{error}");
    assert!(tls.has_failed() && tls.generation() == 0 && tls.status() == before);
    place.issue(-1..60);
    assert_eq!(reload(), Ok(ReloadOutcome::Replaced));
    assert!(!tls.has_failed() && tls.generation() == 1 && tls.status() != before);
}
