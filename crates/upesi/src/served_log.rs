//! Where the log that is served is: in files, or on Kafka with a copy in files.
//!
//! Everything beside the sequencer (snapshots, the cold store, readers, `verify`, archives) works
//! on the files and knows nothing of Kafka. A switch without the feature `kafka` has the files
//! alone, and this is no more than a name for them.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use journal::{FileLog, OpenError, Options, RealDisk, Recovery, Tiered};
use ledger::Position;
use ports::{Log, LogError, RecordReader, Visitor};
use record::frame::{LogIdentity, Tail};

use crate::Failure;

/// Beside the files of a log that is the copy of a topic: the topic's name.
const MARKER: &str = "kafka-topic";

/// `--log` and `--node` of a switch.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct LogArguments {
    /// Keep the log on Kafka instead of in files alone: kafka://HOST:PORT,HOST:PORT/TOPIC. The
    /// topic is made if there is none, and refused if it could lose records. The data directory
    /// then holds a copy of it, and may be empty at the start.
    #[arg(long, value_name = "URL", requires = "node")]
    log: Option<String>,
    /// This node's name, with --log: up to 64 letters, digits and hyphens.
    #[arg(long, value_name = "NAME", requires = "log", value_parser = node_name)]
    node: Option<String>,
}

fn node_name(text: &str) -> Result<String, String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if (1..=64).contains(&text.len()) && text.chars().all(legal) {
        return Ok(text.to_owned());
    }
    Err("a node's name is 1 to 64 letters, digits and hyphens".into())
}

/// Where a log is.
#[derive(Clone, Debug, Default)]
pub(crate) enum Place {
    /// In the files of the data directory.
    #[default]
    Files,
    /// On Kafka; the data directory holds a copy.
    #[cfg(feature = "kafka")]
    Kafka {
        /// The topic.
        address: kafka::Address,
        /// This node's name.
        node: String,
    },
}

/// What was opened.
pub(crate) struct Served {
    pub(crate) log: ServedLog,
    /// What recovering the files found.
    pub(crate) recovery: Recovery,
    pub(crate) rival: Rival,
}

impl Place {
    /// What the arguments say.
    #[cfg(feature = "kafka")]
    pub(crate) fn of(arguments: &LogArguments) -> Result<Self, Failure> {
        match (&arguments.log, &arguments.node) {
            (Some(log), Some(node)) => {
                let address =
                    log.parse().map_err(|error| Failure::new(format!("--log: {error}")))?;
                Ok(Self::Kafka { address, node: node.clone() })
            }
            _ => Ok(Self::Files),
        }
    }

    /// What the arguments say.
    #[cfg(not(feature = "kafka"))]
    pub(crate) fn of(arguments: &LogArguments) -> Result<Self, Failure> {
        if arguments.log.is_some() {
            return Err(Failure::new(
                "--log: this binary was built without Kafka; build it with \
                 `cargo build --release --features kafka`",
            ));
        }
        Ok(Self::Files)
    }

    /// Whether other nodes can write to the log too.
    pub(crate) fn is_shared(&self) -> bool {
        !matches!(self, Self::Files)
    }

    /// The node's number in the log: 0 where there is only one; else made from its name.
    pub(crate) fn node(&self) -> u32 {
        match self {
            Self::Files => 0,
            #[cfg(feature = "kafka")]
            Self::Kafka { node, .. } => {
                use sha2::{Digest, Sha256};
                let digest = Sha256::digest(node.as_bytes());
                let number = digest.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                number.max(1)
            }
        }
    }

    /// Opens the log, or begins one with this identity.
    pub(crate) fn open(
        &self,
        data: &Path,
        disk: Tiered<RealDisk>,
        identity: LogIdentity,
        options: Options,
    ) -> Result<Served, Failure> {
        let failed = |what: String| Failure::new(format!("{}: {what}", data.display()));
        self.mark(data)?;
        match self {
            Self::Files => {
                let opened = FileLog::open_or_create(disk, identity, options);
                let (log, recovery) =
                    opened.map_err(|error: OpenError| failed(error.to_string()))?;
                Ok(Served { log: ServedLog::Files(log), recovery, rival: Rival::default() })
            }
            #[cfg(feature = "kafka")]
            Self::Kafka { address, node } => {
                let node = node.clone();
                let options = kafka::Options { node, patience: PATIENCE, identity, copy: options };
                let (log, report) = kafka::open(address, disk, &options)
                    .map_err(|error| Failure::new(error.to_string()))?;
                tell(address, &report);
                let rival = Rival(Some(log.overtaken()));
                let log = ServedLog::Kafka(Box::new(log));
                Ok(Served { log, recovery: report.copy, rival })
            }
        }
    }

    /// Makes sure that the copy of a topic is never continued on its own, nor as that of another.
    fn mark(&self, data: &Path) -> Result<(), Failure> {
        let path = data.join(MARKER);
        let cannot = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
        let marked = match fs::read_to_string(&path) {
            Ok(topic) => Some(topic),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(cannot(error)),
        };
        match (self, marked) {
            (Self::Files, None) => Ok(()),
            (Self::Files, Some(topic)) => Err(Failure::new(format!(
                "{} holds the copy of a log on Kafka, topic {topic}: name that with --log \
                 kafka://HOST:PORT/{topic} and --node, for what is recorded here alone would be \
                 lost",
                data.display()
            ))),
            #[cfg(feature = "kafka")]
            (Self::Kafka { address, .. }, Some(topic)) if topic != address.topic => {
                Err(Failure::new(format!(
                    "{} holds the copy of topic {topic}, and --log names {}",
                    data.display(),
                    address.topic
                )))
            }
            #[cfg(feature = "kafka")]
            (Self::Kafka { .. }, Some(_)) => Ok(()),
            #[cfg(feature = "kafka")]
            (Self::Kafka { address, .. }, None) => fs::write(&path, &address.topic).map_err(cannot),
        }
    }
}

/// How long brokers may take to answer at the start, and to acknowledge a batch. A broker that
/// died is noticed by the others after its session, 9 s unless they are set otherwise.
#[cfg(feature = "kafka")]
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

#[cfg(feature = "kafka")]
fn tell(address: &kafka::Address, report: &kafka::Report) {
    let kafka::Report { brokers, replicas, in_sync, fetched, late, .. } = report;
    let made = if report.created { ", made just now" } else { "" };
    println!(
        "upesi: the log is topic {}{made}: {brokers} brokers, {replicas} replicas, {in_sync} of \
         them have a record before it is acknowledged, in memory at least",
        address.topic
    );
    if *replicas == 1 {
        println!("upesi: ONE REPLICA: what is acknowledged is lost with its broker");
    }
    if 0 < *fetched {
        println!("upesi: fetched {fetched} records that the copy did not have");
    }
    if 0 < *late {
        println!("upesi: passed over {late} messages of nodes that had been replaced");
    }
}

/// Another node that has taken the log over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rival(#[cfg(feature = "kafka")] Option<kafka::Overtaken>);

impl Rival {
    /// Whether there is one: then this node must stop.
    pub(crate) fn is_ahead(&self) -> bool {
        #[cfg(feature = "kafka")]
        return self.0.as_ref().is_some_and(kafka::Overtaken::is_true);
        #[cfg(not(feature = "kafka"))]
        false
    }
}

/// The log that is served.
#[derive(Debug)]
pub(crate) enum ServedLog {
    Files(FileLog<Tiered<RealDisk>>),
    #[cfg(feature = "kafka")]
    Kafka(Box<kafka::KafkaLog<Tiered<RealDisk>>>),
}

impl ServedLog {
    /// Its files, for those who follow and read it.
    pub(crate) fn files(&self) -> &FileLog<Tiered<RealDisk>> {
        match self {
            Self::Files(log) => log,
            #[cfg(feature = "kafka")]
            Self::Kafka(log) => log.copy(),
        }
    }
}

impl Log for ServedLog {
    fn tail(&self) -> Tail {
        match self {
            Self::Files(log) => log.tail(),
            #[cfg(feature = "kafka")]
            Self::Kafka(log) => log.tail(),
        }
    }

    fn append(&mut self, frame: &[u8]) -> Result<(), LogError> {
        match self {
            Self::Files(log) => log.append(frame),
            #[cfg(feature = "kafka")]
            Self::Kafka(log) => log.append(frame),
        }
    }

    fn sync(&mut self) -> Result<(), LogError> {
        match self {
            Self::Files(log) => log.sync(),
            #[cfg(feature = "kafka")]
            Self::Kafka(log) => log.sync(),
        }
    }

    fn replay(&mut self, from: Position, visit: &mut Visitor<'_>) -> Result<(), LogError> {
        match self {
            Self::Files(log) => log.replay(from, visit),
            #[cfg(feature = "kafka")]
            Self::Kafka(log) => log.replay(from, visit),
        }
    }

    fn reader(&self) -> Arc<dyn RecordReader> {
        self.files().reader()
    }
}
