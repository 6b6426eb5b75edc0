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
    /// They end when this is dropped.
    threads: Vec<IssuerKeysThread>,
}

impl Issuers {
    /// Begins to read the keys. Does not wait for them: an issuer that is down prevents no start.
    pub(super) fn start(config: &Config) -> Result<Arc<Self>, CliError> {
        let mut issuers = Self::default();
        if let Some(issuer) = config.fspiop_issuer() {
            let client = client("fspiop", &issuer)?;
            let (keys, thread) = IssuerKeys::start(issuer.source, client)
                .map_err(|error| CliError::new(format!("cannot start a thread: {error}")))?;
            issuers.fspiop = Some(keys);
            issuers.threads.push(thread);
        }
        Ok(Arc::new(issuers))
    }

    fn all(&self) -> impl Iterator<Item = (&'static str, &IssuerKeys)> {
        self.fspiop.iter().map(|keys| ("fspiop", keys))
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
    config.fspiop_issuer().map_or(Ok(()), |issuer| client("fspiop", &issuer).map(drop))
}

fn client(section: &'static str, issuer: &Issuer) -> Result<ProviderClient, CliError> {
    let client = ProviderClient::new(section, issuer.ca.clone());
    client.map_err(|error| CliError::new(error.to_string()))
}
