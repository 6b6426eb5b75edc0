//! Mutual authentication of brokers and clients: certificates on both sides, and a password. Errors
//! are reported within seconds, and nothing is sent unencrypted instead.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use kafka_testkit::{Cluster, ClusterOptions, Secure};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::kafka::{play, prove};
use crate::support::namespaces::run;
use crate::support::scheme::Scheme;
use crate::support::switch::{Home, Ports, Printed};

const USER: &str = "upesi";
const PASSWORD: &str = "not-a-secret-outside-of-this-test";

#[test]
fn nodes_and_brokers_authenticate_each_other() {
    let directory = TempDir::new().unwrap();
    let files = Files::make(directory.path());
    let mut options = ClusterOptions::new(1, directory.path().join("brokers"));
    options.secure = Some(Secure {
        key_and_certificate: files.path("brokers.pem"),
        clients: files.path("ca.pem"),
        user: USER.to_owned(),
        password: PASSWORD.to_owned(),
    });
    let cluster = Cluster::start(options, &mut |line| println!("{line}")).unwrap();
    let home = |settings: &str, brokers: &str, node: &str| {
        let log = format!("kafka://{brokers}/scheme");
        Home::configured(settings).with_arguments(&["--log", &log, "--node", node])
    };
    let secure = cluster.secure_bootstrap();
    let right = files.settings("ca", "client", "password");

    let refused = |settings: &str, brokers: &str, expected: &[&str]| {
        let output_text = home(settings, brokers, "c").serve_in_vain(Ports::free()).fails();
        assert!(
            expected.iter().all(|part| output_text.contains(part)),
            "{expected:?}: {output_text}"
        );
        assert!(!output_text.contains(PASSWORD), "{output_text}");
    };
    let distrusted = "or this node rejected the other side";
    refused(
        &files.settings("ca", "client", "wrong-password"),
        secure,
        &[distrusted, "SCRAM-SHA-512"],
    );
    refused(
        &files.settings("other-ca", "client", "password"),
        secure,
        &[distrusted, "certificate verify failed"],
    );
    // TLS 1.3 reports this only after the connection was established.
    let stranger = files.settings("ca", "other-client", "password");
    refused(&stranger, secure, &["no broker of", "bad certificate"]);
    refused("", secure, &["no broker of", "take connections as `[kafka]`"]);
    refused(&right, cluster.bootstrap(), &["no broker of", "PLAINTEXT broker listener"]);

    let scheme = Scheme::at(home(&right, secure, "a"));
    let b_home = home(&right, secure, "b");
    let b = b_home.serve();
    play(&scheme, [scheme.switch.fspiop, b.fspiop], "10");
    play(&scheme, [b.fspiop, scheme.switch.fspiop], "10");
    scheme.positions("20", "-20");
    scheme.switch.stop(Signal::TERM);
    b.stop(Signal::TERM);
    prove(&[&scheme.home, &b_home]);
}

/// Keys, certificates and passwords in a directory.
struct Files {
    directory: PathBuf,
}

impl Files {
    fn make(directory: &Path) -> Self {
        let files = Self { directory: directory.to_owned() };
        for ca in ["ca", "other-ca"] {
            files.openssl(&format!(
                "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={ca} -keyout {ca}.key -out \
                 {ca}.pem"
            ));
        }
        files.certify("brokers", "ca");
        files.certify("client", "ca");
        files.certify("other-client", "other-ca");
        let read = |name: &str| fs::read_to_string(files.path(name)).unwrap();
        let both = read("brokers.key") + &read("brokers.crt");
        fs::write(files.path("brokers.pem"), both).unwrap();
        files.secret("password", &format!("{PASSWORD}\n"));
        files.secret("wrong-password", "another\n");
        files
    }

    /// Creates a key, and a certificate for it with a name of this machine.
    fn certify(&self, name: &str, ca: &str) {
        fs::write(self.path("names"), "subjectAltName=DNS:localhost,DNS:127.0.0.1,IP:127.0.0.1\n")
            .unwrap();
        self.openssl(&format!(
            "req -newkey rsa:2048 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {ca}.pem -CAkey {ca}.key -CAcreateserial -days 2 -extfile \
             names -out {name}.crt"
        ));
        fs::set_permissions(self.path(&format!("{name}.key")), Permissions::from_mode(0o600))
            .unwrap();
    }

    fn secret(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), Permissions::from_mode(0o600)).unwrap();
    }

    fn settings(&self, ca: &str, own: &str, password: &str) -> String {
        let path = |name: String| self.path(&name).display().to_string();
        let (ca, certificate) = (path(format!("{ca}.pem")), path(format!("{own}.crt")));
        let (key, password) = (path(format!("{own}.key")), path(password.to_owned()));
        format!(
            "[kafka]\ntls = true\nca = \"{ca}\"\ncertificate = \"{certificate}\"\n\
             key = \"{key}\"\nuser = \"{USER}\"\npassword_file = \"{password}\"\n"
        )
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Runs `openssl` in the directory.
    fn openssl(&self, arguments: &str) {
        let line = format!("cd '{}' && openssl {arguments}", self.directory.display());
        run("sh", &["-c", &line]);
    }
}
