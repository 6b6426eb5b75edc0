//! The listeners of a switch and their addresses.

use std::net::{SocketAddr, TcpListener};

use crate::CliError;
use crate::config::Config;
use crate::serve::probes::StartingProbes;

/// The listeners of a switch.
pub(super) struct Listeners {
    pub(super) fspiop: switch::Listeners,
    pub(super) admin: TcpListener,
    pub(super) others: OtherListeners,
    /// Answers probes until the node has started.
    pub(super) starting: Option<StartingProbes>,
    pub(super) addresses: Addresses,
}

/// Listeners that may not be configured.
pub(super) struct OtherListeners {
    /// For health probes.
    pub(super) probes: Option<TcpListener>,
    /// For the oracle API.
    pub(super) oracle_api: Option<TcpListener>,
}

/// The addresses of the listeners.
pub(super) struct Addresses {
    pub(super) fspiop: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) probes: Option<SocketAddr>,
    pub(super) oracle_api: Option<SocketAddr>,
}

impl Listeners {
    pub(super) fn bind(config: &Config) -> Result<Self, CliError> {
        let admin = bind("admin", config.admin.listen)?;
        let fspiop = switch::bind(config.fspiop.listen, config.threads())
            .map_err(|error| cannot_listen("FSPIOP", config.fspiop.listen, &error))?;
        let probes = config.probes().map(|address| bind("health probes", address)).transpose()?;
        let oracle_api =
            config.oracle_api.listen.map(|address| bind("the oracle API", address)).transpose()?;
        let addresses = Addresses {
            fspiop: fspiop.address(),
            admin: address_of(&admin)?,
            probes: probes.as_ref().map(address_of).transpose()?,
            oracle_api: oracle_api.as_ref().map(address_of).transpose()?,
        };
        let starting = probes.as_ref().map(StartingProbes::serve).transpose()?;
        warn_about(&config.missing_protections());
        let others = OtherListeners { probes, oracle_api };
        Ok(Self { fspiop, admin, others, starting, addresses })
    }
}

impl Addresses {
    pub(super) fn all(&self) -> impl Iterator<Item = SocketAddr> {
        [self.fspiop, self.admin].into_iter().chain(self.probes).chain(self.oracle_api)
    }
}

fn warn_about(missing: &[&str]) {
    if !missing.is_empty() {
        tracing::warn!(
            missing = missing.join(", "),
            "participants on other machines are served without protection; `upesi init` writes a \
             configuration with all of it"
        );
    }
}

fn bind(what: &str, address: SocketAddr) -> Result<TcpListener, CliError> {
    let failed = |error| cannot_listen(what, address, &error);
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

fn cannot_listen(what: &str, address: SocketAddr, error: &std::io::Error) -> CliError {
    CliError::new(format!("cannot listen for {what} on {address}: {error}"))
}

fn address_of(listener: &TcpListener) -> Result<SocketAddr, CliError> {
    let failed = |error| CliError::new(format!("the admin listener has no address: {error}"));
    listener.local_addr().map_err(failed)
}
