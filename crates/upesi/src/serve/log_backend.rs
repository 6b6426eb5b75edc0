//! The log of a switch: in files, or on Kafka with a copy in files.
//!
//! All other parts (snapshots, the cold store, readers, `verify`, archives) use the files and do
//! not know Kafka. Without the feature `kafka` a log is always in files.

#[cfg(feature = "kafka")]
use std::fmt::Display;
use std::fs;
use std::io::ErrorKind;
#[cfg(feature = "kafka")]
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::Receiver;

#[cfg(feature = "kafka")]
use journal::Damage;
use journal::{FileLog, LogOptions, OpenError, RealDisk, Recovery, TieredDisk};
use ledger::FspName;
#[cfg(feature = "kafka")]
use ledger::Genesis;
use node::latency_trace::TracedLog;
use node::{Directory, InboxLimits, Mailboxes, Node, SystemClock};
#[cfg(feature = "kafka")]
use ports::Clock;
use record::frame::LogIdentity;
#[cfg(feature = "kafka")]
use sequencer::Quarantine;
use sequencer::Sequencer;
use switch::ForwardedMessage;

use crate::CliError;
#[cfg(feature = "kafka")]
use crate::cli::stdout::print_message;
use crate::config::Config;
use crate::data::layout::MARKER;
#[cfg(feature = "kafka")]
use crate::data::layout::has_segments;
use crate::serve::slow_disk::DelayedLog;

/// The log of a switch, with traced stages and an injected delay.
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

/// Location of a log.
#[derive(Clone, Debug, Default)]
pub(crate) enum LogLocation {
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
        /// Whether to create a missing log.
        creates: bool,
        /// TLS and authentication with the brokers.
        security: Box<kafka::Security>,
    },
}

/// An opened log.
pub(crate) struct OpenBackend {
    pub(crate) log: LogBackend,
    /// Result of the recovery of the files.
    pub(crate) recovery: Recovery,
    pub(crate) topic: Option<Topic>,
}

/// The topic of a copy.
#[cfg(feature = "kafka")]
pub(crate) struct Topic {
    pub(crate) address: kafka::Address,
    pub(crate) options: kafka::TopicOptions,
    pub(crate) next: i64,
    pub(crate) last: Option<sequencer::LastMessage>,
}

/// Without the feature `kafka`, no log has a topic.
#[cfg(not(feature = "kafka"))]
pub(crate) enum Topic {}

/// A started node. If it shares its log, the receiver gets a message once it is a member.
pub(crate) type RunningNode = (Node<ForwardedMessage>, Option<Receiver<()>>);

/// Parts that every node is started with.
pub(crate) struct NodeParts {
    pub(crate) clock: SystemClock,
    pub(crate) directory: Directory,
    pub(crate) mailboxes: Mailboxes<ForwardedMessage>,
}

impl NodeParts {
    /// Starts a node with its own log.
    pub(crate) fn start_standalone(
        self,
        sequencer: Sequencer<Log>,
    ) -> Result<RunningNode, CliError> {
        let Self { clock, directory, mailboxes } = self;
        let limits = InboxLimits::default();
        let node = node::start(sequencer, clock, directory, mailboxes, limits)
            .map_err(|error| CliError::new(format!("cannot start the sequencer: {error}")))?;
        Ok((node, None))
    }

    /// Starts a node that shares its log over a topic.
    #[cfg(feature = "kafka")]
    pub(crate) fn start_shared(
        self,
        sequencer: Sequencer<Log>,
        topic: Topic,
        (place, data, quarantine): (&LogLocation, &Path, Quarantine),
        begin: node::FirstCommands,
    ) -> Result<RunningNode, CliError> {
        let Self { clock, directory, mailboxes } = self;
        let Topic { address, options, next, last } = topic;
        let path = data.join(EPOCH_FILE);
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
                // Standard output may be closed.
                let _written = writeln!(std::io::stdout(), "upesi: {what}");
            },
        };
        let connect = |arrivals: node::Arrivals<ForwardedMessage>| {
            let sink = move |arrival| arrivals.push(arrival);
            kafka::TopicStream::start(&address, &options, next, sink)
                .map_err(|error| error.to_string())
        };
        let of_io = (mailboxes, InboxLimits::default());
        let context = (clock, directory);
        let node = node::ReplicatedNode::new(replica, next, context, of_io, node_options, connect);
        let started = node.map_err(CliError::new)?.start();
        let (node, ready) =
            started.map_err(|error| CliError::new(format!("cannot start a thread: {error}")))?;
        Ok((node, Some(ready)))
    }
}

/// File next to the copy: the node's number and its last epoch, which has ended once the directory
/// is locked.
#[cfg(feature = "kafka")]
pub(crate) const EPOCH_FILE: &str = "node-life";

#[cfg(feature = "kafka")]
fn former_epoch(path: &Path, node: u32) -> u32 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut words = text.split_whitespace().map(|word| word.parse::<u32>().ok());
    match (words.next().flatten(), words.next().flatten()) {
        (Some(number), Some(epoch)) if number == node => epoch,
        _ => 0,
    }
}

impl LogLocation {
    /// The location that the arguments name.
    #[cfg(feature = "kafka")]
    pub(crate) fn from_arguments(
        arguments: &LogArguments,
        config: &Config,
    ) -> Result<Self, CliError> {
        match (&arguments.log, &arguments.node) {
            (Some(log), Some(node)) => {
                let address =
                    log.parse().map_err(|error| CliError::new(format!("--log: {error}")))?;
                let security = Box::new(config.kafka.access().security()?);
                Ok(Self::Kafka { address, node: node.clone(), creates: true, security })
            }
            _ => Ok(Self::Files),
        }
    }

    /// The location that the arguments name.
    #[cfg(not(feature = "kafka"))]
    pub(crate) fn from_arguments(
        arguments: &LogArguments,
        _config: &Config,
    ) -> Result<Self, CliError> {
        if arguments.log.is_some() {
            return Err(CliError::new(
                "--log: this binary was built without Kafka; build it with \
                 `cargo build --profile dist`, without --no-default-features",
            ));
        }
        Ok(Self::Files)
    }

    /// The node's number in the log: a hash of its name, or 0 for a log in files.
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

    /// Opens the log, or creates one for this hub.
    pub(crate) fn open(
        &self,
        data: &Path,
        disk: TieredDisk<RealDisk>,
        hub: FspName,
        options: LogOptions,
    ) -> Result<OpenBackend, CliError> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|error| CliError::new(error.to_string()))?;
        let [identity, seed] = [&random[..16], &random[16..]]
            .map(|half| *half.first_chunk::<16>().expect("a half has sixteen bytes"));
        let identity = LogIdentity(identity);
        let failed = |what: String| CliError::new(format!("{}: {what}", data.display()));
        self.check_marker(data)?;
        match self {
            Self::Files => {
                let opened = FileLog::open_or_create(disk, identity, options);
                let (log, recovery) =
                    opened.map_err(|error: OpenError| failed(error.to_string()))?;
                let _first = (hub, seed);
                Ok(OpenBackend { log, recovery, topic: None })
            }
            #[cfg(feature = "kafka")]
            Self::Kafka { address, node, creates, security } => {
                let options = kafka::TopicOptions {
                    node: node.clone(),
                    patience: BROKER_TIMEOUT,
                    copy: options,
                    security: (**security).clone(),
                };
                let genesis = sequencer::GenesisMessage {
                    identity,
                    genesis: Genesis { seed, hub },
                    node: self.node(),
                    wall: SystemClock::new().now().wall,
                };
                let marker = data.join(MARKER);
                let is_marked = marker.exists();
                // If a copy exists, the topic existed and must not be created again.
                let is_copy = has_segments(data);
                let missing = match *creates && is_marked && !is_copy {
                    true => kafka::MissingLog::Create(&genesis),
                    false => kafka::MissingLog::Refuse,
                };
                let opened = kafka::open(address, disk, &options, missing)
                    .map_err(|error| refusal(&error, (data, address), (is_marked, is_copy)))?;
                if !is_marked {
                    fs::write(&marker, &address.topic)
                        .map_err(|error| CliError::new(format!("{}: {error}", marker.display())))?;
                }
                let kafka::ConnectedLog { copy, next, last, report } = opened;
                print_connected(address, &report);
                let topic = Topic { address: address.clone(), options, next, last };
                Ok(OpenBackend { log: copy, recovery: report.copy, topic: Some(topic) })
            }
        }
    }

    /// Checks the marker file, so that the copy of a topic is neither continued without its topic
    /// nor used with another topic.
    fn check_marker(&self, data: &Path) -> Result<(), CliError> {
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
                "{} holds the copy of a log on Kafka, topic {topic}: use --log \
                 kafka://HOST:PORT/{topic} and --node, because records written here alone would \
                 be lost",
                data.display()
            ))),
            #[cfg(feature = "kafka")]
            (Self::Kafka { address, .. }, Some(topic)) if topic == address.topic => Ok(()),
            #[cfg(feature = "kafka")]
            (Self::Kafka { address, .. }, Some(topic)) if has_segments(data) => {
                Err(CliError::new(format!(
                    "{} holds the copy of topic {topic}, but --log names {}: use that topic or \
                     another data directory",
                    data.display(),
                    address.topic
                )))
            }
            // A restored copy is compared with the topic first.
            #[cfg(feature = "kafka")]
            (Self::Kafka { .. }, None) if has_segments(data) => Ok(()),
            // An empty directory, or one left by a failed start with another topic.
            #[cfg(feature = "kafka")]
            (Self::Kafka { address, .. }, _) => fs::write(&path, &address.topic).map_err(cannot),
        }
    }
}

/// The error about a log that cannot be opened, with advice that depends on the directory.
#[cfg(feature = "kafka")]
fn refusal(
    error: &kafka::OpenError,
    (data, address): (&Path, &kafka::Address),
    (is_marked, is_copy): (bool, bool),
) -> CliError {
    let is_gone = matches!(error, kafka::OpenError::NoLog(_));
    let is_its_own = is_gone || matches!(error, kafka::OpenError::OtherLog { .. });
    let data = data.display();
    if is_marked && is_copy && is_gone {
        return CliError::new(format!(
            "{error}, but {data} holds a copy of one: the topic was deleted, or --log names other \
             brokers. Nothing was created. If the topic is lost, stop all nodes, find the longest \
             copy with `upesi verify`, and recreate the topic from it: `upesi restore --from \
             {data} --data NEW`, then `upesi export-log --data NEW --log {address}`"
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

/// The error about a damaged copy. A copy is not synced, and the topic has all of its records, so
/// it is replaced instead of repaired.
#[cfg(feature = "kafka")]
fn damaged_copy(damage: &Damage, data: &impl Display, address: &kafka::Address) -> CliError {
    let Damage { segment, offset, log_index, reason } = damage;
    let topic = &address.topic;
    CliError::new(format!(
        "the copy of topic {topic} in {data} is damaged in {segment} at byte {offset}, where \
         record {} should start: {reason}. Nothing was changed. A power failure can damage a \
         copy. Move the directory away and start with an empty one, which is filled from the \
         topic; --from with another node's directory or a backup takes less time",
        log_index.0
    ))
}

/// Time limit for answers of brokers at the start, and for the acknowledgement of a batch. Brokers
/// detect the loss of another broker after its session timeout, 9 s by default.
#[cfg(feature = "kafka")]
pub(crate) const BROKER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(20);

#[cfg(feature = "kafka")]
fn print_connected(address: &kafka::Address, report: &kafka::ConnectReport) {
    let kafka::ConnectReport { brokers, replicas, in_sync, behind: missing, .. } = report;
    let created = if report.created { ", just created" } else { "" };
    print_message(format_args!(
        "the log is topic {}{created}: {brokers} brokers, {replicas} replicas; a record is \
         acknowledged when {in_sync} replicas have it at least in memory",
        address.topic
    ));
    if *replicas == 1 {
        print_message("ONE REPLICA: acknowledged records are lost if its broker is lost");
    }
    if 0 < *missing {
        print_message(format_args!(
            "fetching {missing} messages that are missing in the local copy"
        ));
    }
}

/// A log in files, or the copy of a topic.
pub(crate) type LogBackend = FileLog<TieredDisk<RealDisk>>;
