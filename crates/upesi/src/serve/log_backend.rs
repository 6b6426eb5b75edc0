//! Where the log that is served is: in files, or on Kafka with a copy in files.
//!
//! Everything beside the sequencer (snapshots, the cold store, readers, `verify`, archives) works
//! on the files and knows nothing of Kafka. A switch without the feature `kafka` has the files
//! alone, and this is no more than a name for them.

#[cfg(feature = "kafka")]
use std::fmt::Display;
use std::fs;
use std::io::ErrorKind;
#[cfg(feature = "kafka")]
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

#[cfg(feature = "kafka")]
use journal::Damage;
use journal::{FileLog, OpenError, Options, RealDisk, Recovery, TieredDisk};
use ledger::FspName;
#[cfg(feature = "kafka")]
use ledger::Genesis;
use node::latency_trace::TracedLog;
use node::{Directory, InboxLimits, Mailbox, Node, SystemClock};
#[cfg(feature = "kafka")]
use ports::Clock;
use record::frame::LogIdentity;
#[cfg(feature = "kafka")]
use sequencer::Quarantine;
use sequencer::Sequencer;
use switch::Message;

use crate::CliError;
#[cfg(feature = "kafka")]
use crate::cli::stdout::print_message;
use crate::config::Config;
use crate::data::layout::MARKER;
#[cfg(feature = "kafka")]
use crate::data::layout::has_segments;
use crate::serve::slow_disk::DelayedLog;

/// The log of a switch, with its stages and its slowness noted.
pub(crate) type Log = TracedLog<DelayedLog<LogBackend>>;

/// `--log` and `--node` of a switch.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct LogArguments {
    /// Share the log over Kafka: kafka://HOST:PORT,HOST:PORT/TOPIC.
    ///
    /// Every node accepts any request. The callbacks to one participant are sent by one node. A
    /// missing topic is created once enough of the named brokers are up: as many as it needs
    /// replicas, at most three. A topic whose settings could lose records is rejected. The data
    /// directory holds a copy and may be empty at first.
    #[arg(long, value_name = "URL", requires = "node")]
    log: Option<String>,
    /// Start an empty data directory from this copy, as for `restore`; with --log.
    ///
    /// Needed when the topic has been trimmed. The missing records are read from the topic. A
    /// stopped node's directory is reused with its snapshots and store, without replay.
    #[arg(long, value_name = "URL|DIR", requires = "log")]
    pub(crate) from: Option<String>,
    /// Name of this node, with --log: up to 64 letters, digits and hyphens.
    ///
    /// Node names must be unique: a second node with the same name exits.
    #[arg(long, value_name = "NAME", requires = "log", value_parser = node_name)]
    node: Option<String>,
}

fn node_name(text: &str) -> Result<String, String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if (1..=64).contains(&text.len()) && text.chars().all(legal) {
        return Ok(text.to_owned());
    }
    Err("expected 1 to 64 letters, digits and hyphens".into())
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
        /// Whether a log is begun where there is none.
        begins: bool,
        /// How this node and the brokers know each other.
        security: Box<kafka::Security>,
    },
}

/// What was opened.
pub(crate) struct OpenBackend {
    pub(crate) log: LogBackend,
    /// What recovering the files found.
    pub(crate) recovery: Recovery,
    pub(crate) topic: Option<Topic>,
}

/// The topic behind a copy.
#[cfg(feature = "kafka")]
pub(crate) struct Topic {
    pub(crate) address: kafka::Address,
    pub(crate) options: kafka::Options,
    pub(crate) next: i64,
    pub(crate) last: Option<sequencer::LastMessage>,
}

/// There is none without the feature `kafka`.
#[cfg(not(feature = "kafka"))]
pub(crate) enum Topic {}

/// A node that was started; where it shares its log, who hears when it is one of the nodes.
pub(crate) type RunningNode = (Node<Message>, Option<Receiver<()>>);

/// What a node is started with, wherever its log is.
pub(crate) struct NodeParts {
    pub(crate) clock: SystemClock,
    pub(crate) directory: Directory,
    pub(crate) mailboxes: Vec<Arc<Mailbox<Message>>>,
}

impl NodeParts {
    /// Starts a node that has its log alone.
    pub(crate) fn alone(self, sequencer: Sequencer<Log>) -> Result<RunningNode, CliError> {
        let Self { clock, directory, mailboxes } = self;
        let limits = InboxLimits::default();
        let node = node::start(sequencer, clock, directory, mailboxes, limits)
            .map_err(|error| CliError::new(format!("cannot start the sequencer: {error}")))?;
        Ok((node, None))
    }

    /// Starts one of several nodes over a topic.
    #[cfg(feature = "kafka")]
    pub(crate) fn shared(
        self,
        sequencer: Sequencer<Log>,
        topic: Topic,
        (place, data, quarantine): (&Place, &Path, Quarantine),
        begin: node::FirstCommands,
    ) -> Result<RunningNode, CliError> {
        let Self { clock, directory, mailboxes } = self;
        let Topic { address, options, next, last } = topic;
        let path = data.join(LIFE);
        let node = place.node();
        let mut instance = [0; 8];
        getrandom::fill(&mut instance).map_err(|error| CliError::new(error.to_string()))?;
        let name = sequencer::NodeName {
            name: options.node.clone(),
            node,
            instance: u64::from_le_bytes(instance),
            ended: former_epoch(&path, node),
        };
        let replica = sequencer::Replica::new(sequencer, name, quarantine, last)
            .map_err(|error| CliError::new(error.to_string()))?;
        let node_options = node::ReplicatedNodeOptions {
            message: switch::message_of_payload,
            first_commands: begin,
            save_epoch: Box::new(move |epoch| {
                fs::write(&path, format!("{node} {epoch}\n"))
                    .map_err(|error| format!("{}: {error}", path.display()))
            }),
            log: |what| {
                // Nobody may listen any more.
                let _heard = writeln!(std::io::stdout(), "upesi: {what}");
            },
        };
        let connect = |arrivals: node::Arrivals<Message>| {
            let sink = move |arrival| arrivals.push(arrival);
            kafka::Stream::start(&address, &options, next, sink).map_err(|error| error.to_string())
        };
        let of_io = (mailboxes, InboxLimits::default());
        let beside = (clock, directory);
        let node = node::ReplicatedNode::new(replica, next, beside, of_io, node_options, connect);
        let started = node.map_err(CliError::new)?.start();
        let (node, ready) =
            started.map_err(|error| CliError::new(format!("cannot start a thread: {error}")))?;
        Ok((node, Some(ready)))
    }
}

/// Beside the copy: the node's number and its newest life, which has ended when the directory is
/// nobody else's.
#[cfg(feature = "kafka")]
pub(crate) const LIFE: &str = "node-life";

#[cfg(feature = "kafka")]
fn former_epoch(path: &Path, node: u32) -> u32 {
    let noted = fs::read_to_string(path).unwrap_or_default();
    let mut words = noted.split_whitespace().map(|word| word.parse::<u32>().ok());
    match (words.next().flatten(), words.next().flatten()) {
        (Some(number), Some(epoch)) if number == node => epoch,
        _ => 0,
    }
}

impl Place {
    /// What the arguments say.
    #[cfg(feature = "kafka")]
    pub(crate) fn of(arguments: &LogArguments, config: &Config) -> Result<Self, CliError> {
        match (&arguments.log, &arguments.node) {
            (Some(log), Some(node)) => {
                let address =
                    log.parse().map_err(|error| CliError::new(format!("--log: {error}")))?;
                let security = Box::new(config.kafka.security()?);
                Ok(Self::Kafka { address, node: node.clone(), begins: true, security })
            }
            _ => Ok(Self::Files),
        }
    }

    /// What the arguments say.
    #[cfg(not(feature = "kafka"))]
    pub(crate) fn of(arguments: &LogArguments, _config: &Config) -> Result<Self, CliError> {
        if arguments.log.is_some() {
            return Err(CliError::new(
                "--log: this binary was built without Kafka; build it with \
                 `cargo build --profile dist`, without --no-default-features",
            ));
        }
        Ok(Self::Files)
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

    /// Opens the log, or begins one of this hub.
    pub(crate) fn open(
        &self,
        data: &Path,
        disk: TieredDisk<RealDisk>,
        hub: FspName,
        options: Options,
    ) -> Result<OpenBackend, CliError> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|error| CliError::new(error.to_string()))?;
        let [identity, seed] = [&random[..16], &random[16..]]
            .map(|half| *half.first_chunk::<16>().expect("a half has sixteen bytes"));
        let identity = LogIdentity(identity);
        let failed = |what: String| CliError::new(format!("{}: {what}", data.display()));
        self.mark(data)?;
        match self {
            Self::Files => {
                let opened = FileLog::open_or_create(disk, identity, options);
                let (log, recovery) =
                    opened.map_err(|error: OpenError| failed(error.to_string()))?;
                let _first = (hub, seed);
                Ok(OpenBackend { log, recovery, topic: None })
            }
            #[cfg(feature = "kafka")]
            Self::Kafka { address, node, begins, security } => {
                let options = kafka::Options {
                    node: node.clone(),
                    patience: PATIENCE,
                    copy: options,
                    security: (**security).clone(),
                };
                let founding = sequencer::GenesisMessage {
                    identity,
                    genesis: Genesis { seed, hub },
                    node: self.node(),
                    wall: SystemClock::new().now().wall,
                };
                let marker = data.join(MARKER);
                let is_marked = marker.exists();
                // A topic whose copy is here was there: it is never begun anew.
                let is_copy = has_segments(data);
                let missing = match *begins && is_marked && !is_copy {
                    true => kafka::Missing::Begin(&founding),
                    false => kafka::Missing::Refuse,
                };
                let opened = kafka::open(address, disk, &options, missing)
                    .map_err(|error| refusal(&error, (data, address), (is_marked, is_copy)))?;
                if !is_marked {
                    fs::write(&marker, &address.topic)
                        .map_err(|error| CliError::new(format!("{}: {error}", marker.display())))?;
                }
                let kafka::ConnectedLog { copy, next, last, report } = opened;
                tell(address, &report);
                let topic = Topic { address: address.clone(), options, next, last };
                Ok(OpenBackend { log: copy, recovery: report.copy, topic: Some(topic) })
            }
        }
    }

    /// Makes sure that the copy of a topic is never continued on its own, nor as that of another.
    fn mark(&self, data: &Path) -> Result<(), CliError> {
        let path = data.join(MARKER);
        let cannot = |error: std::io::Error| CliError::new(format!("{}: {error}", path.display()));
        let marked = match fs::read_to_string(&path) {
            Ok(topic) => Some(topic),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(cannot(error)),
        };
        match (self, marked) {
            (Self::Files, None) => Ok(()),
            (Self::Files, Some(topic)) => Err(CliError::new(format!(
                "{} holds the copy of a log on Kafka, topic {topic}: name that with --log \
                 kafka://HOST:PORT/{topic} and --node, for what is recorded here alone would be \
                 lost",
                data.display()
            ))),
            #[cfg(feature = "kafka")]
            (Self::Kafka { address, .. }, Some(topic)) if topic == address.topic => Ok(()),
            #[cfg(feature = "kafka")]
            (Self::Kafka { address, .. }, Some(topic)) if has_segments(data) => {
                Err(CliError::new(format!(
                    "{} holds the copy of topic {topic}, and --log names {}: name that topic, or \
                     another data directory",
                    data.display(),
                    address.topic
                )))
            }
            // What was restored from a copy is held against the topic first.
            #[cfg(feature = "kafka")]
            (Self::Kafka { .. }, None) if has_segments(data) => Ok(()),
            // Nothing is here, or nothing came of a start with another topic.
            #[cfg(feature = "kafka")]
            (Self::Kafka { address, .. }, _) => fs::write(&path, &address.topic).map_err(cannot),
        }
    }
}

/// Why a log was not opened; with what to do about a directory that is not known to be a copy.
#[cfg(feature = "kafka")]
fn refusal(
    error: &kafka::OpenError,
    (data, address): (&Path, &kafka::Address),
    (is_marked, is_copy): (bool, bool),
) -> CliError {
    let is_gone = matches!(error, kafka::OpenError::NoLog(_));
    let is_its_own = is_gone || matches!(error, kafka::OpenError::Another { .. });
    let data = data.display();
    if is_marked && is_copy && is_gone {
        return CliError::new(format!(
            "{error}, and {data} holds a copy of one: the topic was deleted, or --log names other \
             brokers. Nothing was made. If the topic is gone, stop all nodes, find with `upesi \
             verify` whose copy is the longest, and make the topic again of that one: `upesi \
             restore --from {data} --data NEW`, then `upesi export-log --data NEW --log {address}`"
        ));
    }
    if let (true, kafka::OpenError::Copy(OpenError::Damaged(damage))) = (is_marked, error) {
        return damaged_copy(damage, &data, address);
    }
    if is_marked || !is_its_own {
        return CliError::new(error.to_string());
    }
    CliError::new(format!(
        "{error}. To move the log in {data} to a new topic: `upesi export-log --data {data} --log \
         {address}`"
    ))
}

/// A damaged copy is made again, never mended: it is synced by nobody, and the topic has all of it.
#[cfg(feature = "kafka")]
fn damaged_copy(damage: &Damage, data: &impl Display, address: &kafka::Address) -> CliError {
    let Damage { segment, offset, log_index, reason } = damage;
    let topic = &address.topic;
    CliError::new(format!(
        "the copy of topic {topic} in {data} is damaged in {segment} at byte {offset}, where \
         record {} should start: {reason}. Nothing was changed. After a loss of power that is no \
         wonder. Put the directory aside and start with an empty one, which is filled from the \
         topic; with --from and a copy of the log, as of another node's directory, that takes less \
         time",
        log_index.0
    ))
}

/// How long brokers may take to answer at the start, and to acknowledge a batch. A broker that
/// died is noticed by the others after its session, 9 s unless they are set otherwise.
#[cfg(feature = "kafka")]
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

#[cfg(feature = "kafka")]
fn tell(address: &kafka::Address, report: &kafka::ConnectReport) {
    let kafka::ConnectReport { brokers, replicas, in_sync, behind, .. } = report;
    let made = if report.created { ", made just now" } else { "" };
    print_message(format_args!(
        "the log is topic {}{made}: {brokers} brokers, {replicas} replicas, {in_sync} of them have \
         a record before it is acknowledged, in memory at least",
        address.topic
    ));
    if *replicas == 1 {
        print_message("ONE REPLICA: acknowledged records are lost if its broker is lost");
    }
    if 0 < *behind {
        print_message(format_args!(
            "fetching {behind} messages that are missing in the local copy"
        ));
    }
}

/// The log that is served: the log itself, or the copy of a topic.
pub(crate) type LogBackend = FileLog<TieredDisk<RealDisk>>;
