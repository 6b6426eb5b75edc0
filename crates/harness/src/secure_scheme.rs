//! A scheme that `upesi init` has set up, used by the switch, by the FSPs and by the run itself.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use dfsp::SimulatorOptions;
use dfsp::security::{FspTls, Signatures};
use jws::{KeyRing, SigningKey, VerificationKey};
use ledger::FspName;
use tls::{ClientCertificates, ClientFiles, ClientTls, MinimumVersion, ServerFiles, ServerTls};

use crate::admin::authorities;
use crate::error::HarnessError;
use crate::switch_process::SwitchCommand;

/// Name of the hub in its messages.
const HUB: &str = "Hub";
/// ALPN: the hub calls an FSP over HTTP/1.1.
const PROTOCOLS: &[&[u8]] = &[b"http/1.1"];

/// Kind of the keys that sign messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SignatureKeys {
    /// RS256.
    Rsa,
    /// ES256.
    P256,
}

impl SignatureKeys {
    /// The value of `upesi init --keys`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rsa => "rsa",
            Self::P256 => "p256",
        }
    }
}

/// The directory that `upesi init` has written, with the keys of its FSPs.
pub struct SecureScheme {
    directory: PathBuf,
    admin: Arc<ClientTls>,
    fsps: HashMap<String, (FspTls, Signatures)>,
}

impl SecureScheme {
    /// Calls `upesi init` for a new scheme with these FSPs, and reads its files.
    ///
    /// # Errors
    /// The command failed, or a file cannot be used.
    pub fn create(
        program: &Path,
        directory: &Path,
        names: &[String],
        keys: SignatureKeys,
    ) -> Result<Self, HarnessError> {
        let mut init = Command::new(program);
        init.args(["init", "--scheme", "demo", "--json", "--to"]).arg(directory);
        init.args(["--keys", keys.as_str(), "--participant", &names.join(",")]);
        let output = init.stdin(Stdio::null()).output().map_err(HarnessError::file(program))?;
        if !output.status.success() {
            let problem = String::from_utf8_lossy(&output.stderr);
            return Err(HarnessError::Hub(format!("cannot be set up: {}", problem.trim())));
        }
        Self::open(directory, names)
    }

    /// Reads the files of a scheme.
    ///
    /// # Errors
    /// A file is missing or cannot be used.
    pub fn open(directory: &Path, names: &[String]) -> Result<Self, HarnessError> {
        let admin = authorities(Some(&directory.join("tls/ca.pem")))?;
        let participants = directory.join("jws/participants");
        let keys = KeyRing::load(&participants).map_err(unusable)?;
        let hub = VerificationKey::from_pem(&read(&directory.join("jws/hub.pem"))?);
        let hub = hub.map_err(unusable)?;
        let name = FspName::new(HUB).expect("a short name");
        let keys = keys.with(name, hub).map_err(unusable)?;
        let fsp = |name: &String| Ok((name.clone(), read_fsp(directory, name, &keys)?));
        let fsps = names.iter().map(fsp).collect::<Result<_, HarnessError>>()?;
        Ok(Self { directory: directory.to_owned(), admin, fsps })
    }

    /// The command that starts this scheme's switch.
    #[must_use]
    pub fn command(&self, command: &SwitchCommand) -> SwitchCommand {
        let mut command = command.clone();
        let configuration = self.directory.join("upesi.toml").into_os_string();
        command.serve.extend([OsString::from("--config"), configuration]);
        command.token_file = self.token_file();
        let key = self.directory.join("master.key");
        command.encryption_key = Some(format!("file:{}", key.display()));
        command.admin_tls = Some(Arc::clone(&self.admin));
        command
    }

    /// The data directory of the switch.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// The trusted authorities of its admin API.
    #[must_use]
    pub fn admin(&self) -> Arc<ClientTls> {
        Arc::clone(&self.admin)
    }

    /// The token of the first administrator.
    #[must_use]
    pub fn token_file(&self) -> PathBuf {
        self.directory.join("administrator.token")
    }

    /// Gives an FSP its certificate and its key, to call a hub with this host in its certificate.
    pub fn protect_for(&self, simulator: &mut SimulatorOptions, hub: &str) {
        self.protect(simulator);
        if let Some(tls) = &mut simulator.tls {
            tls.hub = Some(hub.into());
        }
    }

    /// Gives an FSP its certificate and its key.
    pub fn protect(&self, simulator: &mut SimulatorOptions) {
        let known = self.fsps.get(&simulator.name).cloned();
        (simulator.tls, simulator.signatures) = known.unzip();
    }
}

fn read_fsp(
    directory: &Path,
    name: &str,
    keys: &KeyRing,
) -> Result<(FspTls, Signatures), HarnessError> {
    let own = directory.join("participants").join(name);
    let pair = |name: &str| ["pem", "key"].map(|end| own.join(format!("{name}.{end}")));
    let ([certificate, key], [server, server_key]) = (pair("certificate"), pair("server"));
    let ca = Some(directory.join("tls/ca.pem"));
    let client = ClientTls::open(ClientFiles {
        section: "participant",
        certificate: Some((certificate, key)),
        ca: ca.clone(),
        ca_directory: None,
        crl: None,
        minimum: MinimumVersion::Tls13,
        protocols: &[],
    });
    let server = ServerTls::open(ServerFiles {
        section: "participant",
        certificate: server,
        key: server_key,
        client_ca: ca,
        client_certificates: ClientCertificates::Required,
        crl: None,
        ocsp: None,
        minimum: MinimumVersion::Tls13,
        protocols: PROTOCOLS,
    });
    let (client, server) = (client.map_err(unusable)?, server.map_err(unusable)?);
    let tls = FspTls { client: Arc::new(client), hub: None, server: Arc::new(server) };
    let key = SigningKey::from_pem(&read(&own.join("signing.key"))?).map_err(unusable)?;
    Ok((tls, Signatures { key: Arc::new(key), keys: keys.clone() }))
}

fn read(path: &Path) -> Result<Vec<u8>, HarnessError> {
    fs::read(path).map_err(HarnessError::file(path))
}

fn unusable(error: impl std::fmt::Display) -> HarnessError {
    HarnessError::Options(format!("the files of the scheme cannot be used: {error}"))
}
