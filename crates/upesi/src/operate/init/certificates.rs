//! Certificates of a test authority, or requests to the authority of the scheme.

use jws::Algorithm;
use tls::authority::{Authority, CertificateRequest, Issued, Purpose};

use super::{Files, InitArguments, new_key};
use crate::CliError;

/// Validity of the certificates of a test authority, in days.
const VALID_DAYS: i64 = 365;

impl Files {
    /// The certificates of the hub, or the requests for them.
    pub(super) fn certify(&mut self, arguments: &InitArguments) -> Result<(), CliError> {
        match arguments.csr {
            true => self.request(arguments),
            false => self.issue_all(arguments),
        }
    }

    /// Certificates of a test authority.
    fn issue_all(&mut self, arguments: &InitArguments) -> Result<(), CliError> {
        self.folder("tls")?;
        let authority = Authority::new(&format!("{} test authority", arguments.scheme));
        self.write("tls/ca.pem", &authority.pem(), "certificate of the test authority")?;
        self.write("tls/ca.key", &authority.key_pem(), "private key of the test authority")?;
        let hosts = arguments.certified_hosts();
        let server = certificate(&arguments.scheme, "hub", &hosts, 1).only_for(Purpose::Server);
        self.pair("server", &authority.issue(&server), "certificate of the listeners")?;
        let client = certificate(&arguments.scheme, "hub client", &[], 2);
        let client = client.only_for(Purpose::Client);
        self.pair("client", &authority.issue(&client), "certificate for calls to participants")?;
        if arguments.participant.is_empty() {
            return Ok(());
        }
        self.folder("participants")?;
        for (serial, name) in (3..).step_by(2).zip(&arguments.participant) {
            self.issue_to_participant(&authority, (name.as_str(), serial), arguments.keys.into())?;
        }
        Ok(())
    }

    /// The files that a participant gets.
    fn issue_to_participant(
        &mut self,
        authority: &Authority,
        (name, serial): (&str, u64),
        algorithm: Algorithm,
    ) -> Result<(), CliError> {
        let valid = |request: CertificateRequest| {
            authority.issue(&CertificateRequest { valid_days: -1..VALID_DAYS, ..request })
        };
        let client = CertificateRequest::new(name, &[], serial).only_for(Purpose::Client);
        let issued = valid(client);
        // Its name is not that of a participant: it cannot be taken for one.
        let (server, hosts) = (format!("{name} server"), ["localhost", "127.0.0.1"]);
        let server = CertificateRequest::new(&server, &hosts, serial + 1);
        let server = valid(server.only_for(Purpose::Server));
        let (private, public) = new_key(algorithm)?;
        let at = format!("participants/{name}");
        self.folder(&at)?;
        let file = |file: &str| format!("{at}/{file}");
        self.write(&file("certificate.pem"), &issued.certificate, "certificate of a participant")?;
        self.write(&file("certificate.key"), &issued.key, "its private key")?;
        let purpose = "certificate of its server on this machine";
        self.write(&file("server.pem"), &server.certificate, purpose)?;
        self.write(&file("server.key"), &server.key, "its private key")?;
        self.write(&file("signing.key"), &private, "private key: signs its messages")?;
        let public_file = format!("jws/participants/{name}.pem");
        self.write(&public_file, &public, "public key that verifies them")
    }

    /// Requests to the authority of a real scheme.
    fn request(&mut self, arguments: &InitArguments) -> Result<(), CliError> {
        self.folder("tls")?;
        let hosts = arguments.certified_hosts();
        let server = certificate(&arguments.scheme, "hub", &hosts, 1).only_for(Purpose::Server);
        let client = certificate(&arguments.scheme, "hub client", &[], 2);
        let (server, client) = (server.to_sign(), client.only_for(Purpose::Client).to_sign());
        for (name, (request, key)) in [("server", server), ("client", client)] {
            let file = |extension: &str| format!("tls/{name}.{extension}");
            self.write(&file("csr"), &request, "request to the scheme's authority")?;
            self.write(&file("key"), &key, "its private key")?;
        }
        Ok(())
    }

    fn pair(&mut self, name: &str, pair: &Issued, purpose: &'static str) -> Result<(), CliError> {
        self.write(&format!("tls/{name}.pem"), &pair.certificate, purpose)?;
        self.write(&format!("tls/{name}.key"), &pair.key, "its private key")
    }
}

fn certificate(scheme: &str, role: &str, hosts: &[&str], serial: u64) -> CertificateRequest {
    let mut request = CertificateRequest::new(&format!("{scheme} {role}"), hosts, serial);
    request.valid_days = -1..VALID_DAYS;
    request
}
