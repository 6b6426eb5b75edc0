//! `upesi init`: the files of a new, secure scheme: keys, certificates and a configuration that has
//! everything on.

mod administrator;
#[cfg(feature = "tls")]
mod certificates;
mod configuration;

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jws::{Algorithm, SigningKey};
use ledger::FspName;
use serde::Serialize;

use crate::CliError;
use crate::cli::stdout::print_json;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi init --scheme sandbox --to sandbox --participant bank-a,bank-b
  upesi init --scheme sandbox --to sandbox --participant fsp1,fsp2 --local
  upesi init --scheme kes --to /etc/upesi --hosts hub.kes.example,10.0.0.5 --csr
Then:
  upesi check-config sandbox/upesi.toml
  upesi serve --data sandbox/data --config sandbox/upesi.toml
  upesi operator list --admin https://localhost:3001 --ca sandbox/tls/ca.pem \
    --token sandbox/administrator.token";

/// Longest name of a scheme, in bytes: it becomes part of the names in certificates.
const SCHEME_BYTES_MAX: usize = 40;
/// Longest name of a participant, in bytes, as the admin API accepts it.
const PARTICIPANT_BYTES_MAX: usize = 30;
/// The hub's name among the participants.
const HUB: &str = "Hub";
/// Hosts by which commands on this machine reach the admin API.
const LOCAL_HOSTS: [&str; 2] = ["localhost", "127.0.0.1"];

/// Arguments of `init`.
#[derive(clap::Args)]
pub(crate) struct InitArguments {
    /// Name of the scheme in certificates: 1 to 40 letters, digits, dots and hyphens.
    #[arg(long, value_name = "NAME", value_parser = scheme_name)]
    scheme: String,
    /// Directory for the files; it must not exist, or be empty.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Names and addresses by which participants and operators reach the switch.
    #[arg(long, value_name = "HOST,...", value_delimiter = ',', value_parser = host,
        default_values_t = LOCAL_HOSTS.map(str::to_owned))]
    hosts: Vec<String>,
    /// Write requests to the scheme's authority instead of making a test authority.
    #[arg(long, conflicts_with = "participant")]
    csr: bool,
    /// Name of the first administrator, who gets a token for 30 days.
    #[arg(long, value_name = "NAME", default_value = "administrator", value_parser = operator)]
    administrator: String,
    /// Participants that get a test certificate and a key for signatures.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = participant)]
    participant: Vec<FspName>,
    /// Listen on 127.0.0.1, for participants on this machine.
    #[arg(long, conflicts_with = "csr")]
    local: bool,
    /// Kind of the keys that sign messages.
    #[arg(long, value_name = "KIND", default_value = "rsa")]
    keys: KeyKind,
    /// Print the written files as JSON.
    #[arg(long)]
    json: bool,
}

impl InitArguments {
    /// Hosts of the listeners' certificate. If none is this machine, where the admin API listens, a
    /// test authority certifies it too.
    fn certified_hosts(&self) -> Vec<&str> {
        let mut hosts: Vec<_> = self.hosts.iter().map(String::as_str).collect();
        if !self.csr && !hosts.iter().any(|host| LOCAL_HOSTS.contains(host)) {
            hosts.extend(LOCAL_HOSTS);
        }
        hosts
    }

    /// Names of the admin API that it does not know by itself.
    fn admin_names(&self) -> Vec<&str> {
        let is_name = |host: &&str| *host != "localhost" && host.parse::<IpAddr>().is_err();
        self.hosts.iter().map(String::as_str).filter(is_name).collect()
    }
}

/// Kind of the keys that sign messages.
#[derive(Clone, Copy, clap::ValueEnum)]
enum KeyKind {
    /// RS256, which every participant verifies.
    Rsa,
    /// ES256, which takes a tenth of the time to sign and three times that to verify.
    P256,
}

impl From<KeyKind> for Algorithm {
    fn from(kind: KeyKind) -> Self {
        match kind {
            KeyKind::Rsa => Self::Rs256,
            KeyKind::P256 => Self::Es256,
        }
    }
}

fn scheme_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
    match (1..=SCHEME_BYTES_MAX).contains(&text.len()) && text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err("expected 1 to 40 letters, digits, dots and hyphens".to_owned()),
    }
}

fn participant(text: &str) -> Result<FspName, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_~-".contains(c);
    let is_name = (2..=PARTICIPANT_BYTES_MAX).contains(&text.len()) && text.chars().all(fits);
    let expected = "expected 2 to 30 letters, digits, hyphens, underscores and tildes";
    match FspName::new(text).filter(|_| is_name) {
        Some(_) if text.eq_ignore_ascii_case(HUB) => Err("the hub is not a participant".to_owned()),
        name => name.ok_or_else(|| expected.to_owned()),
    }
}

/// A DNS name or an IP address, as certificates have them.
fn host(text: &str) -> Result<String, String> {
    let is_label = |label: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
        (1..=63).contains(&label.len())
            && label.chars().all(fits)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last_is_name = text.rsplit('.').next().is_some_and(|last| last.parse::<u32>().is_err());
    let is_name = text.len() <= 253 && text.split('.').all(is_label) && last_is_name;
    match is_name || text.parse::<IpAddr>().is_ok() {
        true => Ok(text.to_owned()),
        false => Err("expected a DNS name or an IP address, without port".to_owned()),
    }
}

fn operator(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    let is_name = begins && text.len() <= 64 && text.chars().all(fits);
    match is_name && !text.eq_ignore_ascii_case("break-glass") {
        true => Ok(text.to_owned()),
        false => {
            Err("expected 1 to 64 letters, digits or . _ @ - after a letter or digit, and not \
                      break-glass"
                .to_owned())
        }
    }
}

/// The first name that occurs twice, without regard to case.
fn repeated<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let mut known = BTreeSet::new();
    names.into_iter().find(|name| !known.insert(name.to_ascii_lowercase()))
}

/// A written file and its purpose.
#[derive(Debug, Serialize)]
struct WrittenFile {
    file: PathBuf,
    purpose: &'static str,
}

/// Writes files below one directory.
struct Files {
    to: PathBuf,
    written: Vec<WrittenFile>,
}

pub(crate) fn init(arguments: &InitArguments) -> Result<(), CliError> {
    if !tls::IS_AVAILABLE {
        return Err(CliError::new(
            "this binary was built without TLS; build it with `cargo build --profile dist \
             --package upesi`",
        ));
    }
    if let Some(name) = repeated(arguments.participant.iter().map(FspName::as_str)) {
        return Err(CliError::new(format!("--participant: {name} occurs twice")));
    }
    if let Some(host) = repeated(arguments.hosts.iter().map(String::as_str)) {
        return Err(CliError::new(format!("--hosts: {host} occurs twice")));
    }
    let mut files = Files::create(&arguments.to)?;
    files.sign(arguments.keys.into())?;
    files.certify(arguments)?;
    files.folder("chain-heads")?;
    files.write(
        "master.key",
        &new_master_key()?,
        "master key: decrypts data; keep a copy apart",
    )?;
    let [data, key] = ["data", "master.key"].map(|name| files.to.join(name));
    let token = administrator::create(&data, &key, &arguments.administrator)?;
    files.write("administrator.token", &token, "token of the first administrator, for 30 days")?;
    let names = arguments.admin_names();
    let mut text = configuration::text(&arguments.scheme, &files.to, &names, arguments.local);
    if !arguments.csr {
        text += &configuration::enrolment(&files.to);
    }
    files.write("upesi.toml", &text, "configuration of the switch, with everything on")?;
    match arguments.json {
        true => print_json(&files.written),
        false => {
            files.print(arguments);
            Ok(())
        }
    }
}

impl Files {
    fn create(to: &Path) -> Result<Self, CliError> {
        let failed = |error: &dyn std::fmt::Display| {
            CliError::new(format!("--to {}: {error}", to.display()))
        };
        if fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(failed(&"not empty; nothing was written. Choose another directory"));
        }
        private_folder(to).map_err(|error| failed(&error))?;
        let to = to.canonicalize().map_err(|error| failed(&error))?;
        Ok(Self { to, written: Vec::new() })
    }

    fn folder(&self, name: &str) -> Result<(), CliError> {
        let path = self.to.join(name);
        private_folder(&path).map_err(|error| CliError::new(format!("{}: {error}", path.display())))
    }

    /// Writes a file that only its owner can read.
    fn write(&mut self, name: &str, text: &str, purpose: &'static str) -> Result<(), CliError> {
        let file = self.to.join(name);
        let failed = |error: io::Error| CliError::new(format!("{}: {error}", file.display()));
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file);
        let mut open = opened.map_err(failed)?;
        open.write_all(text.as_bytes()).and_then(|()| open.sync_all()).map_err(failed)?;
        self.written.push(WrittenFile { file, purpose });
        Ok(())
    }

    /// The hub's key for signatures, and the folder for those of participants.
    fn sign(&mut self, algorithm: Algorithm) -> Result<(), CliError> {
        self.folder("jws")?;
        self.folder("jws/participants")?;
        let (private, public) = new_key(algorithm)?;
        self.write("jws/hub.key", &private, "private key: signs the hub's messages")?;
        self.write("jws/hub.pem", &public, "public key of the hub, for participants")?;
        let (private, public) = new_key(algorithm)?;
        self.write("jws/chain-heads.key", &private, "private key: signs chain heads")?;
        self.write("jws/chain-heads.pem", &public, "public key, for the auditor")
    }

    #[cfg(not(feature = "tls"))]
    fn certify(&mut self, _: &InitArguments) -> Result<(), CliError> {
        unreachable!("checked before")
    }

    fn print(&self, arguments: &InitArguments) {
        for WrittenFile { file, purpose } in &self.written {
            println!("{:<48} {purpose}", file.display());
        }
        let to = self.to.display();
        println!();
        match arguments.csr {
            true => println!(
                "Send tls/server.csr and tls/client.csr to the scheme's authority. Put its answers \
                 into tls/server.pem and tls/client.pem, and the certificate of the authority into \
                 tls/ca.pem. Then:"
            ),
            false => println!(
                "The authority is for tests: a person with {to}/tls/ca.key can act as any \
                 participant. Next:"
            ),
        }
        println!("  upesi check-config {to}/upesi.toml");
        println!("  upesi serve --data {to}/data --config {to}/upesi.toml");
        println!(
            "Keep a copy of master.key apart from all copies of the data: without it, nothing in \
             {to}/data can be read. Commands that read the data need --encryption-key \
             file:{to}/master.key, such as upesi verify."
        );
        let hosts = arguments.certified_hosts();
        let local = hosts.iter().find(|host| LOCAL_HOSTS.contains(host));
        let host = local.or(hosts.first()).copied().unwrap_or("localhost");
        println!(
            "  upesi operator list --admin https://{host}:3001 --ca {to}/tls/ca.pem --token \
             {to}/administrator.token"
        );
        if local.is_none() {
            println!(
                "The admin API listens on 127.0.0.1: resolve {host} to it (/etc/hosts), or change \
                 admin.listen."
            );
        }
    }
}

fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// A new master key: 64 hexadecimal digits.
fn new_master_key() -> Result<String, CliError> {
    let mut key = [0_u8; 32];
    getrandom::fill(&mut key)
        .map_err(|error| CliError::new(format!("cannot make a master key: {error}")))?;
    Ok(key.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n")
}

/// A new private key, and its public key.
fn new_key(algorithm: Algorithm) -> Result<(String, String), CliError> {
    let failed = |error: jws::KeyError| CliError::new(format!("cannot make a key: {error}"));
    let private = SigningKey::generate(algorithm).map_err(failed)?;
    let key = SigningKey::from_pem(private.as_bytes()).map_err(failed)?;
    let public = key.verification_key().map_err(failed)?.to_pem();
    Ok((private, public))
}
