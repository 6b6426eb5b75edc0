//! The configuration file, TOML.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

pub use crate::ids::IdForm;
use crate::policy::Policy;

/// Longest configuration file in bytes.
pub const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of DFSPs of one process.
pub const DFSPS_MAX: usize = 100;

/// The configuration of an adapter.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterConfig {
    /// Directory of the store.
    pub data: PathBuf,
    /// Address of the API for back ends.
    #[serde(default = "outbound")]
    pub outbound: SocketAddr,
    /// Address of the API for the hub.
    #[serde(default = "inbound")]
    pub inbound: SocketAddr,
    /// Address of health and metrics.
    #[serde(default = "monitoring")]
    pub monitoring: SocketAddr,
    /// The hub.
    pub hub: HubConfig,
    /// TLS of the listener for the hub.
    pub inbound_tls: Option<InboundTlsConfig>,
    /// Bounds.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// The DFSPs. With more than one, all paths begin with `/NAME`.
    pub dfsp: Vec<DfspConfig>,
}

/// The hub and the calls to it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubConfig {
    /// Base URL for all resources.
    pub url: String,
    /// Base URL for parties, instead of `url`.
    pub parties_url: Option<String>,
    /// Base URL for quotes, instead of `url`.
    pub quotes_url: Option<String>,
    /// Base URL for transfers, instead of `url`.
    pub transfers_url: Option<String>,
    /// Name of the hub, which is also that of its key.
    #[serde(default = "hub_name")]
    pub name: String,
    /// Longest wait for the answer to one request, in seconds.
    #[serde(default = "request_seconds")]
    pub request_seconds: u64,
    /// Version of the messages: 1.0, 1.1 or 2.0.
    #[serde(default = "version")]
    pub version: String,
    /// TLS of calls to the hub.
    pub tls: Option<HubTlsConfig>,
    /// Access tokens for calls to the hub.
    pub oauth2: Option<Oauth2Config>,
}

impl HubConfig {
    /// A hub at an address, with the defaults.
    pub(crate) fn at(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            parties_url: None,
            quotes_url: None,
            transfers_url: None,
            name: hub_name(),
            request_seconds: request_seconds(),
            version: version(),
            tls: None,
            oauth2: None,
        }
    }
}

/// TLS of calls to the hub.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubTlsConfig {
    /// PEM: trusted authorities; without it, those of the system.
    pub ca_file: Option<PathBuf>,
    /// PEM: the client's certificate, for mutual TLS.
    pub certificate_file: Option<PathBuf>,
    /// PEM: its private key.
    pub key_file: Option<PathBuf>,
}

/// TLS of the listener for the hub.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InboundTlsConfig {
    /// PEM: the certificate.
    pub certificate_file: PathBuf,
    /// PEM: its private key.
    pub key_file: PathBuf,
    /// PEM: authorities of the hub's certificate, for mutual TLS.
    pub client_ca_file: Option<PathBuf>,
}

/// OAuth2 client credentials.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oauth2Config {
    /// URL of the token endpoint.
    pub token_url: String,
    /// Client id.
    pub client_id: String,
    /// File with the client's secret.
    pub client_secret_file: PathBuf,
    /// Scope, if the server needs one.
    pub scope: Option<String>,
    /// Longest time between two refreshes, in seconds.
    #[serde(default = "refresh_seconds")]
    pub refresh_seconds: u64,
}

/// Bounds of a process.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Connections of each listener.
    pub connections: usize,
    /// Transfers that are in progress at the same time, in each direction.
    pub transfers: usize,
    /// Days for which ended transfers stay in the store.
    pub keep_days: u64,
}

/// One DFSP.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DfspConfig {
    /// Name in the scheme.
    pub id: String,
    /// Base URL of its back end.
    pub backend: String,
    /// File with the secret of fulfilments; all adapters of the DFSP need the same one.
    pub ilp_secret_file: PathBuf,
    /// Signatures.
    pub jws: Option<JwsConfig>,
    /// Form of new ids.
    #[serde(default)]
    pub id_form: IdForm,
    /// Behaviour.
    #[serde(default)]
    pub flow: Policy,
    /// Calls of the back end.
    #[serde(default)]
    pub retry: RetryConfig,
}

/// Signatures of one DFSP.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JwsConfig {
    /// PEM: private key that signs messages.
    pub signing_key_file: Option<PathBuf>,
    /// Directory with the public keys of the hub and of all DFSPs, `NAME.pem`.
    pub keys_directory: Option<PathBuf>,
    /// Whether `PUT /parties` is signed.
    #[serde(default)]
    pub sign_put_parties: bool,
    /// Whether signatures of `PUT /parties` are verified.
    #[serde(default)]
    pub verify_put_parties: bool,
}

/// Repetitions of calls of the back end.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryConfig {
    /// Attempts; 1 for no repetition.
    pub attempts: u32,
    /// First pause, in milliseconds; it doubles with each attempt.
    pub first_pause_ms: u64,
    /// Longest pause, in milliseconds.
    pub longest_pause_ms: u64,
    /// Longest wait for an answer, in seconds.
    pub answer_seconds: u64,
}

fn outbound() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 4001))
}

fn inbound() -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], 4000))
}

fn monitoring() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 4004))
}

fn hub_name() -> String {
    "Hub".to_owned()
}

const fn request_seconds() -> u64 {
    10
}

const fn refresh_seconds() -> u64 {
    60
}

fn version() -> String {
    "2.0".to_owned()
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self { connections: 1_000, transfers: 10_000, keep_days: 30 }
    }
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self { attempts: 5, first_pause_ms: 1_000, longest_pause_ms: 10_000, answer_seconds: 65 }
    }
}

impl AdapterConfig {
    /// Parses a file and checks what its form does not.
    ///
    /// # Errors
    /// The first setting that is wrong, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        let hub = &self.hub;
        let urls = [Some(&hub.url), hub.parties_url.as_ref(), hub.quotes_url.as_ref()];
        for url in urls.into_iter().chain([hub.transfers_url.as_ref()]).flatten() {
            crate::http_client::Target::parse(url).map_err(|why| format!("hub: {why}"))?;
        }
        if !["1.0", "1.1", "2.0"].contains(&hub.version.as_str()) {
            return Err(format!("hub.version: expected 1.0, 1.1 or 2.0, not {:?}", hub.version));
        }
        if !(1..=DFSPS_MAX).contains(&self.dfsp.len()) {
            return Err(format!("dfsp: expected 1 to {DFSPS_MAX} of them"));
        }
        let limits = &self.limits;
        if limits.connections == 0 || limits.transfers == 0 || limits.keep_days == 0 {
            return Err("limits: every limit must be at least 1".to_owned());
        }
        self.dfsp.iter().try_for_each(DfspConfig::check)?;
        let mut names: Vec<_> = self.dfsp.iter().map(|dfsp| &dfsp.id).collect();
        names.sort();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("dfsp.id: {} is used twice", pair[0])),
            None => Ok(()),
        }
    }
}

impl DfspConfig {
    fn check(&self) -> Result<(), String> {
        let name = |why: &str| Err(format!("dfsp {:?}: {why}", self.id));
        if fspiop::body::fsp_id(&self.id).is_none() {
            return name("not a name of a DFSP");
        }
        if let Err(why) = crate::http_client::Target::parse(&self.backend) {
            return name(&format!("backend: {why}"));
        }
        if self.flow.multiple_parties_response && self.flow.auto_accept_party {
            return name("flow.multiple_parties_response needs auto_accept_party = false");
        }
        if self.retry.attempts == 0 {
            return name("retry.attempts must be at least 1");
        }
        Ok(())
    }

    /// Its settings for the machines.
    #[must_use]
    pub fn policy(&self) -> Policy {
        Policy { fsp_id: self.id.clone(), ..self.flow.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        data = "d"
        [hub]
        url = "http://127.0.0.1:4000"
        [[dfsp]]
        id = "bank"
        backend = "http://127.0.0.1:3000"
        ilp_secret_file = "secret"
    "#;

    #[test]
    fn a_small_file_has_the_defaults_of_the_reference() {
        let config = AdapterConfig::parse(SMALL).expect("valid");
        let policy = config.dfsp[0].policy();
        assert!(policy.auto_accept_party && policy.auto_accept_quotes && policy.check_ilp);
        assert_eq!((policy.expiry_ms, policy.timeout_ms), (20_000, 30_000));
        assert_eq!(config.inbound.port(), 4000);
    }

    #[test]
    fn wrong_settings_are_named() {
        for (from, to, expected) in [
            ("id = \"bank\"", "id = \"\"", "not a name of a DFSP"),
            ("http://127.0.0.1:4000", "ftp://x", "hub: "),
            ("data = \"d\"", "data = \"d\"\nother = 1", "other"),
            ("[hub]", "[hub]\nversion = \"3.0\"", "hub.version"),
            ("[hub]", "[limits]\ntransfers = 0\n[hub]", "limits"),
            ("secret\"\n", "secret\"\n[dfsp.flow]\nexpiry_seconds = 0\n", "expected 1 to 86400"),
            ("secret\"\n", "secret\"\n[dfsp.flow]\nfsp_id = \"b\"\n", "fsp_id"),
            (
                "secret\"\n",
                "secret\"\n[dfsp.flow]\nmultiple_parties_response = true\n",
                "auto_accept_party = false",
            ),
        ] {
            let error = AdapterConfig::parse(&SMALL.replace(from, to)).expect_err(to);
            assert!(error.contains(expected), "{error}");
        }
    }
}
