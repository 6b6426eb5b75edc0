//! The keys of the issuers of access tokens, read by a thread per issuer.

use std::sync::Arc;

use identity::{IssuerKeys, IssuerKeysThread, ProviderClient};
use metrics::{Labels, Number};

use crate::CliError;
use crate::config::{Config, Issuer};

/// The issuers, by the listener whose clients have their tokens.
#[derive(Debug, Default)]
pub(crate) struct Issuers {
    pub(super) fspiop: Option<IssuerKeys>,
    pub(super) admin: Option<IssuerKeys>,
    /// They end when this is dropped.
    threads: Vec<IssuerKeysThread>,
}

impl Issuers {
    /// Begins to read the keys. Does not wait for them: an issuer that is down prevents no start.
    pub(super) fn start(config: &Config) -> Result<Arc<Self>, CliError> {
        let mut issuers = Self::default();
        issuers.fspiop = issuers.begin("fspiop", config.fspiop_issuer())?;
        issuers.admin = issuers.begin("admin", config.admin_issuer())?;
        Ok(Arc::new(issuers))
    }

    fn begin(
        &mut self,
        section: &'static str,
        issuer: Option<Issuer>,
    ) -> Result<Option<IssuerKeys>, CliError> {
        let Some(issuer) = issuer else { return Ok(None) };
        let client = client(section, &issuer)?;
        let (keys, thread) = IssuerKeys::start(issuer.source, client)
            .map_err(|error| CliError::new(format!("cannot start a thread: {error}")))?;
        self.threads.push(thread);
        Ok(Some(keys))
    }

    fn all(&self) -> impl Iterator<Item = (&'static str, &IssuerKeys)> {
        let fspiop = self.fspiop.iter().map(|keys| ("fspiop", keys));
        fspiop.chain(self.admin.iter().map(|keys| ("admin", keys)))
    }

    /// Seconds since the keys were last read. An issuer that never answered has no sample.
    pub(super) fn ages(&self) -> Vec<(Labels, Number)> {
        let sample = |(listener, keys): (&'static str, &IssuerKeys)| {
            let seconds = keys.age()?.as_secs();
            Some((vec![("listener", listener.into())], Number::Integer(seconds.into())))
        };
        self.all().filter_map(sample).collect()
    }

    /// Whether the last read failed.
    pub(super) fn failures(&self) -> Vec<(Labels, Number)> {
        let sample = |(listener, keys): (&'static str, &IssuerKeys)| {
            (vec![("listener", listener.into())], Number::Integer(keys.has_failed().into()))
        };
        self.all().map(sample).collect()
    }
}

/// Checks the files of issuers as [`Issuers::start`] does, without a call.
pub(crate) fn check(config: &Config) -> Result<(), CliError> {
    let issuers = [("fspiop", config.fspiop_issuer()), ("admin", config.admin_issuer())];
    let mut found =
        issuers.iter().filter_map(|(section, issuer)| Some((*section, issuer.as_ref()?)));
    found.try_for_each(|(section, issuer)| client(section, issuer).map(drop))
}

fn client(section: &'static str, issuer: &Issuer) -> Result<ProviderClient, CliError> {
    let client = ProviderClient::new(section, issuer.ca.clone());
    client.map_err(|error| CliError::new(error.to_string()))
}
