//! Options of the admin API. The defaults are safe: only names of this machine are accepted as
//! `Host`, and a change requires the token.

use std::sync::Arc;
use std::time::Duration;

use fspiop::egress_policy::EgressPolicy;
use identity::SecretsKey;
use jws::{HubKeys, KeyDirectory};
use tls::ServerTls;

use crate::address_limits::AddressLimits;
use crate::enrolments::EnrolmentOptions;
use crate::provider_tokens::ProviderOperators;
use crate::token::Token;

/// Options of [`crate::serve`].
#[derive(Clone, Debug)]
pub struct AdminOptions {
    /// Authentication of requests.
    pub auth: Auth,
    /// Names or addresses, without port, that `Host` may have in addition to those of the loopback
    /// interface; compared without regard to ASCII case. Prevents DNS rebinding.
    pub hosts: Vec<String>,
    /// Origins (`https://console.example`) that a browser may send requests from. A request
    /// that carries any other `Origin` is refused; one without it is not from a web page.
    pub origins: Vec<String>,
    /// Prefix of the links in participants. The default is the reference's, because
    /// software is known to compare it.
    pub base_url: String,
    /// Which addresses may be registered as endpoints.
    pub egress: Arc<EgressPolicy>,
    /// Keys of signatures that are not in the registry.
    pub keys: AdminKeys,
    /// TLS of the listener; `None` for plain text.
    pub tls: Option<Arc<ServerTls>>,
    /// The key of sessions and of secrets on the log; passwords need it.
    pub secrets: Option<SecretsKey>,
    /// The provider of operators' access tokens, with [`Auth::Roles`].
    pub provider: Option<ProviderOperators>,
    /// Bounds on what a client can occupy.
    pub limits: Limits,
    /// Time for which a proposed change can be approved, at most 30 days.
    pub proposal_time: Duration,
    /// The reads that are recorded in the log.
    pub audit_reads: AuditReads,
    /// Bounds on the requests of one address.
    pub address_limits: AddressLimits,
    /// How participants get certificates.
    pub enrolment: EnrolmentOptions,
}

/// Keys of signatures that are not in the registry; none by default.
#[derive(Clone, Debug, Default)]
pub struct AdminKeys {
    /// The hub's own keys, whose public ones partners fetch.
    pub hub: Option<Arc<HubKeys>>,
    /// The directory of participants' keys.
    pub directory: Option<Arc<KeyDirectory>>,
}

impl AdminOptions {
    /// Answers to the names of the loopback interface only, and to no web page.
    #[must_use]
    pub fn new(auth: Auth) -> Self {
        Self {
            auth,
            hosts: Vec::new(),
            origins: Vec::new(),
            base_url: "http://central-ledger".into(),
            egress: Arc::default(),
            keys: AdminKeys::default(),
            tls: None,
            secrets: None,
            provider: None,
            limits: Limits::default(),
            proposal_time: Duration::from_secs(24 * 60 * 60),
            audit_reads: AuditReads::default(),
            address_limits: AddressLimits::default(),
            enrolment: EnrolmentOptions::default(),
        }
    }
}

/// The reads that are recorded in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditReads {
    /// Only those that are refused for their identity, permission or rate.
    None,
    /// Also those that need another permission than `read`, but for `/state`.
    #[default]
    Sensitive,
    /// All but `/metrics`, `/health` and `/state`.
    All,
}

/// Authentication of requests.
#[derive(Clone, Debug)]
pub enum Auth {
    /// The bearer token is required.
    Token(Token),
    /// A token of an operator with roles is required, for every request. The token in the file has
    /// all permissions; each use is logged and counted.
    Roles(Token),
    /// No authentication: for a network with a gateway in front.
    None,
}

/// Bounds on what clients of the admin API can occupy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of open connections. One more evicts a silent connection, or is closed if all
    /// of them have a request in progress.
    pub connections: usize,
    /// Maximum number from one address, or from one /64 network for IPv6.
    pub connections_per_address: usize,
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Bytes of request line and headers together, at least 8,192.
    pub header_bytes: usize,
    /// Maximum time for a connection to stay silent, before its first request or between two, or to
    /// send a request's headers.
    pub header_time: Duration,
    /// Maximum time for a body to arrive.
    pub body_time: Duration,
    /// Maximum time for a client to leave sent data unacknowledged.
    pub write_time: Duration,
    /// Maximum time for requests in progress to end after the shutdown began.
    pub shutdown_time: Duration,
}

impl Limits {
    /// Bounds of the listener for probes.
    #[must_use]
    pub fn of_probes() -> Self {
        Self { connections: 64, connections_per_address: 32, ..Self::default() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            connections_per_address: 64,
            body_bytes: 5 * 1024 * 1024,
            header_bytes: 64 * 1024,
            header_time: Duration::from_secs(5),
            body_time: Duration::from_secs(10),
            write_time: Duration::from_secs(10),
            shutdown_time: Duration::from_secs(5),
        }
    }
}
