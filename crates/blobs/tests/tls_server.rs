//! Buckets of a server whose certificate is of an authority of one's own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use blobs::{BlobError, BlobStore, Location, get, put};
use tempfile::TempDir;
use tls::authority::{Authority, CertificateRequest};

const SECRET: &str = "a-secret-that-no-message-holds";

/// A server written in Python, which ends when this is dropped.
struct Server {
    child: Child,
    port: u16,
    root: TempDir,
}

impl Server {
    /// With a certificate of `ca.pem`. `other.pem` is another authority.
    fn start(request: &CertificateRequest) -> Self {
        let root = TempDir::new().expect("a directory");
        let (authority, other) = (Authority::new("Own CA"), Authority::new("Other CA"));
        fs::write(root.path().join("ca.pem"), authority.pem()).expect("writes it");
        fs::write(root.path().join("other.pem"), other.pem()).expect("writes it");
        let files = authority.issue(request).write(root.path(), "server").expect("writes it");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls_server.py");
        let mut child = Command::new("python3")
            .arg(script)
            .args([files.0, files.1])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python");
        let mut line = String::new();
        let output = child.stdout.take().expect("it is a pipe");
        BufReader::new(output).read_line(&mut line).expect("its port");
        let port = line.trim().parse().expect("its port");
        Self { child, port, root }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.root.path().join(file)
    }

    /// A bucket whose client trusts the authorities in a file, or those of the system.
    fn open(&self, authorities: Option<&str>) -> Result<Arc<dyn BlobStore>, BlobError> {
        let authorities = authorities.map(|file| self.path(file).display().to_string());
        let variables = [
            ("AWS_ENDPOINT", format!("https://localhost:{}", self.port)),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "key".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
            ("AWS_CA_BUNDLE", authorities.unwrap_or_default()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        Location::parse("s3://bucket/copy")?.open_in(variables.into_iter())
    }

    /// Whatever is done with the bucket fails with this text.
    #[track_caller]
    fn check_refused(&self, authorities: Option<&str>, what: &str) {
        let store = self.open(authorities).expect("no request yet");
        let named = format!("{what}: check AWS_ENDPOINT and AWS_CA_BUNDLE");
        let errors =
            [put(&*store, "a", b"x").expect_err("fails"), store.list("").expect_err("fails")];
        for error in errors {
            let error = error.to_string();
            assert!(error.starts_with("s3://bucket/copy: ") && error.ends_with(&named), "{error}");
            assert!(!error.contains(SECRET) && !error.contains('\n'), "{error}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // No test needs its data any more.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

fn request(host: &str) -> CertificateRequest {
    CertificateRequest::new("store", &[host], 1)
}

#[test]
fn a_bucket_of_an_own_authority_is_read_and_written() {
    let server = Server::start(&request("localhost"));
    let store = server.open(Some("ca.pem")).expect("a place");
    assert_eq!(store.length("a/b"), Ok(None));
    put(&*store, "a/b", b"over TLS").expect("it stores");
    assert_eq!(store.list(""), Ok(vec!["a".to_owned()]));
    let other = server.open(Some("ca.pem")).expect("a place");
    assert_eq!(get(&*other, "a/b", 10), Ok(b"over TLS".to_vec()));
    assert_eq!(other.remove("a/b"), Ok(()));
    assert_eq!(store.length("a/b"), Ok(None));
}

#[test]
fn wrong_certificates_of_a_bucket_are_refused_with_their_fault() {
    let untrusted = "TLS: the certificate was not issued by a trusted authority";
    let server = Server::start(&request("localhost"));
    server.check_refused(Some("other.pem"), untrusted);
    server.check_refused(None, untrusted);

    let server = Server::start(&request("elsewhere.example"));
    let wrong_name = "TLS: the certificate does not contain the name of the host";
    server.check_refused(Some("ca.pem"), wrong_name);

    let expired = CertificateRequest { valid_days: -30..-1, ..request("localhost") };
    Server::start(&expired).check_refused(Some("ca.pem"), "TLS: the certificate has expired");
}

#[test]
fn files_without_authorities_are_refused() {
    let server = Server::start(&request("localhost"));
    fs::write(server.path("empty.pem"), "").expect("writes it");
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    fs::write(server.path("broken.pem"), broken).expect("writes it");
    let cases = [
        ("missing.pem", "missing.pem: No such file or directory"),
        ("empty.pem", "empty.pem: no certificate in PEM"),
        ("server.key", "server.key: no certificate in PEM"),
    ];
    for (file, named) in cases {
        let error = server.open(Some(file)).err().map(|error| error.to_string());
        let error = error.unwrap_or_else(|| panic!("{file} is accepted"));
        assert!(error.contains("AWS_CA_BUNDLE: ") && error.contains(named), "{error}");
    }
    assert!(server.open(Some("broken.pem")).is_err(), "its only certificate cannot be parsed");
}
