//! Buckets of a server whose certificate is of an authority of one's own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use blobs::{BlobError, BlobStore, Location, get, put};
use tempfile::TempDir;
use tls::authority::{Authority, CertificateRequest};

/// In the form of Azure, base64.
const SECRET: &str = "YS1zZWNyZXQtdGhhdC1uby1tZXNzYWdlLWhvbGRz";

/// A key with which the client asks for no token of Google.
const GOOGLE_KEY: &str = "{\"disable_oauth\": true, \"client_email\": \"\", \
                           \"private_key\": \"\", \"private_key_id\": \"\"}";

/// The protocol of a bucket.
#[derive(Clone, Copy)]
enum Kind {
    S3,
    Google,
    Azure,
}

const KINDS: [Kind; 3] = [Kind::S3, Kind::Google, Kind::Azure];

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
    fn open(&self, kind: Kind, file: Option<&str>) -> Result<Arc<dyn BlobStore>, BlobError> {
        let endpoint = format!("https://localhost:{}", self.port);
        let authorities = file.map(|file| self.path(file).display().to_string());
        let authorities = authorities.unwrap_or_default();
        let text = str::to_owned;
        let (url, variables) = match kind {
            Kind::S3 => (
                "s3://bucket/copy",
                vec![
                    ("AWS_ENDPOINT", endpoint),
                    ("AWS_REGION", text("us-east-1")),
                    ("AWS_ACCESS_KEY_ID", text("key")),
                    ("AWS_SECRET_ACCESS_KEY", text(SECRET)),
                    ("AWS_CA_BUNDLE", authorities),
                ],
            ),
            Kind::Google => (
                "gs://bucket/copy",
                vec![
                    ("GOOGLE_BASE_URL", endpoint),
                    ("GOOGLE_SERVICE_ACCOUNT_KEY", text(GOOGLE_KEY)),
                    ("GOOGLE_CA_BUNDLE", authorities),
                ],
            ),
            Kind::Azure => (
                "az://bucket/copy",
                vec![
                    ("AZURE_STORAGE_ENDPOINT", endpoint),
                    ("AZURE_STORAGE_ACCOUNT_NAME", text("account")),
                    ("AZURE_STORAGE_ACCOUNT_KEY", text(SECRET)),
                    ("AZURE_CA_BUNDLE", authorities),
                ],
            ),
        };
        let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value));
        Location::parse(url)?.open_in(variables)
    }

    /// Whatever is done with the bucket fails with this text.
    #[track_caller]
    fn check_refused(&self, authorities: Option<&str>, what: &str) {
        for (kind, url, settings) in [
            (Kind::S3, "s3://bucket/copy: ", "AWS_ENDPOINT and AWS_CA_BUNDLE"),
            (Kind::Google, "gs://bucket/copy: ", "GOOGLE_BASE_URL and GOOGLE_CA_BUNDLE"),
            (Kind::Azure, "az://bucket/copy: ", "AZURE_STORAGE_ENDPOINT and AZURE_CA_BUNDLE"),
        ] {
            let store = self.open(kind, authorities).expect("no request yet");
            let named = format!("{what}: check {settings}");
            let errors =
                [put(&*store, "a", b"x").expect_err("fails"), store.list("").expect_err("fails")];
            for error in errors {
                let error = error.to_string();
                assert!(error.starts_with(url) && error.ends_with(&named), "{error}");
                assert!(!error.contains(SECRET) && !error.contains('\n'), "{error}");
            }
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
    for kind in KINDS {
        let store = server.open(kind, Some("ca.pem")).expect("a place");
        assert_eq!(store.length("a/b"), Ok(None));
        put(&*store, "a/b", b"over TLS").expect("it stores");
        assert_eq!(store.list(""), Ok(vec!["a".to_owned()]));
        let other = server.open(kind, Some("ca.pem")).expect("a place");
        assert_eq!(get(&*other, "a/b", 10), Ok(b"over TLS".to_vec()));
        assert_eq!(other.remove("a/b"), Ok(()));
        assert_eq!(store.length("a/b"), Ok(None));
    }
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
    for (kind, setting) in
        KINDS.into_iter().zip(["AWS_CA_BUNDLE: ", "GOOGLE_CA_BUNDLE: ", "AZURE_CA_BUNDLE: "])
    {
        for (file, named) in cases {
            let error = server.open(kind, Some(file)).err().map(|error| error.to_string());
            let error = error.unwrap_or_else(|| panic!("{file} is accepted"));
            assert!(error.contains(setting) && error.contains(named), "{error}");
        }
        assert!(server.open(kind, Some("broken.pem")).is_err(), "it cannot be parsed");
    }
}
