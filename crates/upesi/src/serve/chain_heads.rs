//! Publishes signed chain heads ([`crate::data::chain_heads`]) while the switch runs.

use std::sync::Arc;

use journal::{BlobStore, DurableFrames, RealDisk, TieredDisk};
use ledger::LogIndex;

use crate::CliError;
use crate::config::Config;
use crate::data::chain_heads;
#[cfg(feature = "kafka")]
use crate::serve::log_backend::BROKER_TIMEOUT;
use crate::serve::signatures::SigningKeyFile;

/// Signs the end of the log and publishes it.
pub(super) struct Publisher {
    place: Option<Arc<dyn BlobStore>>,
    topic: Option<HeadsTopic>,
    key: SigningKeyFile,
    log: TieredDisk<RealDisk>,
    frames: DurableFrames<TieredDisk<RealDisk>>,
    published: LogIndex,
}

impl Publisher {
    /// The publisher to a store and to a topic, if one is configured, and a key.
    pub(super) fn open(
        place: Option<Arc<dyn BlobStore>>,
        config: &Config,
        log: &TieredDisk<RealDisk>,
        frames: DurableFrames<TieredDisk<RealDisk>>,
    ) -> Result<Option<Self>, CliError> {
        let topic = topic(config)?;
        let is_wanted = place.is_some() || topic.is_some();
        let Some((setting, path)) = config.chain_heads_key().filter(|_| is_wanted) else {
            return Ok(None);
        };
        let key = SigningKeyFile::open(setting, path)?;
        Ok(Some(Self { place, topic, key, log: log.clone(), frames, published: LogIndex(0) }))
    }

    /// Publishes the end of the log if records were added; returns the last published record.
    pub(super) fn publish(&mut self) -> Result<Option<LogIndex>, String> {
        // With an unusable file, the key read before signs, and the job reports the reason.
        let reloaded = self.key.reload().map_err(text);
        let end = self.frames.end();
        if end <= self.published {
            return reloaded.map(|_| None);
        }
        let tail = self.frames.tail_at(end).map_err(text)?;
        let tail = tail.ok_or("the end of the log cannot be read")?;
        let statement = chain_heads::sign(&self.key.keys().signing(), &tail).map_err(text)?;
        if let Some(place) = &self.place {
            journal::claim_for(&self.log, &**place).map_err(text)?;
            chain_heads::publish(&**place, &tail, &statement).map_err(text)?;
        }
        if let Some(topic) = &mut self.topic {
            topic.send(&chain_heads::message_key(&tail), statement.as_bytes())?;
        }
        self.published = end;
        reloaded.map(|_| Some(end))
    }
}

/// A topic for chain heads.
#[cfg(feature = "kafka")]
type HeadsTopic = kafka::MessageSender;

/// The configured topic.
#[cfg(feature = "kafka")]
fn topic(config: &Config) -> Result<Option<HeadsTopic>, CliError> {
    let Some(address) = &config.chain_heads.topic else { return Ok(None) };
    let failed = |error: String| CliError::new(format!("chain_heads.topic: {error}"));
    let address = address.parse::<kafka::Address>().map_err(|error| failed(error.to_string()))?;
    let options = kafka::TopicOptions {
        node: "chain-heads".into(),
        patience: BROKER_TIMEOUT,
        copy: journal::LogOptions::default(),
        security: config.kafka.access().security()?,
    };
    let sender = kafka::MessageSender::new(&address, &options);
    sender.map(Some).map_err(|error| failed(error.to_string()))
}

/// This build has no topics.
#[cfg(not(feature = "kafka"))]
struct HeadsTopic(std::convert::Infallible);

#[cfg(not(feature = "kafka"))]
impl HeadsTopic {
    fn send(&mut self, _key: &str, _message: &[u8]) -> Result<(), String> {
        match self.0 {}
    }
}

#[cfg(not(feature = "kafka"))]
fn topic(config: &Config) -> Result<Option<HeadsTopic>, CliError> {
    match &config.chain_heads.topic {
        None => Ok(None),
        Some(_) => Err(CliError::new(
            "chain_heads.topic: this binary was built without Kafka; build it with the feature \
             kafka",
        )),
    }
}

/// Checks the topic's address and the files for its brokers, without a connection.
pub(crate) fn check(config: &Config) -> Result<(), CliError> {
    topic(config).map(drop)
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
