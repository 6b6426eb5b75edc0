//! `upesi serve`: opens the log, replays it, starts the threads, waits for a signal, stops.

pub(crate) mod admin_backend;
mod arguments;
pub(crate) mod background;
pub(crate) mod bare_node;
pub(crate) mod descriptors;
pub(crate) mod durable_mark_thread;
pub(crate) mod log_backend;
pub(crate) mod metrics;
pub(crate) mod open_store;
pub(crate) mod shutdown;
pub(crate) mod signals;
pub(crate) mod signatures;
pub(crate) mod slow_disk;
pub(crate) mod truncation;
pub(crate) mod watchdog;

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use fspiop::egress_policy::EgressPolicy;
use harness::Progress;
use journal::{
    DurableFrames, OpenError, Options, RealDisk, Recovery, TailPolicy, Tier, TieredDisk,
    TruncatedTail, Verify, advice_on,
};
use ledger::{Administer, Change, Command, Configure, FspName, Genesis, LogIndex, Settings, State};
use node::latency_trace::{LatencyTrace, TracedLog};
use node::{Directory, Handle, Node, SystemClock};
use operations::{AdminKeys, AdminOptions, Auth};
use ports::{Clock, ColdStore, Log as _, LogError, StoreError};
use sequencer::{Durability, Quarantine, ReplayError, ReplayStart, Sequencer, Submission};
use snapshots::{FrozenState, SnapshotEvent, SnapshotFile, SnapshotSource, Snapshotter};
use switch::{Message, Signatures, TransferMode};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};

use crate::CliError;
use crate::cli::stdout;
use crate::config::{self, Config, Probes};
use crate::data::layout::has_segments;
use crate::operate::quarantine::{self, Entry, Notes};
use crate::serve::admin_backend::{EXPLAINED_MAX, NodeBackend};
use crate::serve::background::{BackgroundJobs, Segments};
use crate::serve::descriptors::{connections_all, raise_limit};
use crate::serve::durable_mark_thread::DurableMarkThread;
use crate::serve::log_backend::{Log, NodeParts, OpenBackend, Place, RunningNode, Topic};
use crate::serve::shutdown::Deadline;
use crate::serve::signals::{EarlySignals, Signals, StopRequest, start_runtime, tell_ignored};
use crate::serve::signatures::Keys;
use crate::serve::slow_disk::{DelayedLog, SyncDelay};
use crate::serve::watchdog::{Injected, Watchdog};

pub(crate) use arguments::ServeArguments;

/// What a replay gives: who goes on from there, and what the log says of records set aside.
type Replayed = (Sequencer<Log>, Notes);

/// How often the main thread looks whether the log has stopped, or a stage is stuck.
const WATCH: Duration = Duration::from_millis(200);

/// Records between two looks at the clock during a replay.
const SHOWN_EVERY: u64 = 1_024;

/// What a stop gives requests under way, before what still holds it up is stuck: participants'
/// have 3 s of it, operators' all.
const CONNECTIONS: Duration = Duration::from_secs(5);
/// The same for what is being copied, archived or stored; a place may be far away.
const COPIES: Duration = Duration::from_secs(60);
/// The same for the sequencer: a node's last word has 5 s of it, the store's queue 10.
const SEQUENCER: Duration = Duration::from_secs(15);

/// How long the thread that takes snapshots waits for the sequencer's.
const ASIDE_PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn serve(arguments: &ServeArguments, decisions: TransferMode) -> Result<(), CliError> {
    let config = configuration(arguments)?;
    let place = Place::of(&arguments.log, &config)?;
    let clock = SystemClock::new();
    // Ports first: a second switch that is started by mistake ends at once.
    let Listeners { fspiop, admin, probes, addresses } = Listeners::bind(&config)?;
    let unready = EarlySignals::begin()?;
    begin_with_copy(arguments)?;
    let auth = admin_auth(&config, &arguments.data)?;
    let keys = Keys::open(&config)?;
    let slowness = SyncDelay::from_arguments(&arguments.slowness);
    arm_exit(arguments);
    let opening = Opening { slowness, place, tail_policy: arguments.tail_policy() };
    let Opened { sequencer, directory, following, segments, sharing, quarantined } =
        open(&config, &arguments.data, &opening, &clock)?;
    // Before anybody is served or told that it is ready: whoever sees that may end it.
    let (runtime, mut signals) = start_runtime(keys.admin.directory.clone())?;
    drop(unready);
    let reach = Arc::new(config.reach(addresses.all().collect()));
    let injected_stall = arguments.inject_stuck.and_then(Injected::injected_stall);
    let options = switch_options(&config, keys.signatures, &reach);
    let options = switch::Options { decisions, injected_stall, ..options };
    let (ports, mailboxes) = switch::prepare(fspiop, options, clock, seed()?);
    let starting = NodeParts { clock, directory, mailboxes };
    let of_node = (&config, &*arguments.data, &opening.place);
    let started = start_node(starting, sequencer, sharing, of_node)?;
    let Some(node) = when_joined(started, &runtime, &mut signals)? else { return Ok(()) };
    // Until the end of this function: the last note is of the last sync.
    let _marking = DurableMarkThread::start(following.disk.clone(), following.frames.clone())?;
    let follower = following.start(&config, node.handle(), tell)?;
    let (stop, stopping) = watch::channel(false);
    let traffic = ports.traffic();
    let running = ports
        .start(&node.handle(), stopping.clone())
        .map_err(|error| CliError::new(format!("cannot start an I/O thread: {error}")))?;
    let mut watchdog = Watchdog::new(&config.health, node.handle(), Arc::clone(&traffic), clock);
    let keeper =
        BackgroundJobs::start(&config, (&arguments.data, arguments.config.as_deref()), segments)?;
    let hub = Arc::new(NodeBackend {
        handle: node.handle(),
        traffic,
        snapshots: follower.handle(),
        clock,
        began: clock.now(),
        explaining: Arc::new(Semaphore::new(EXPLAINED_MAX)),
        quarantined: quarantined.into(),
        storage: Arc::clone(&keeper.storage),
    });
    warn(decisions, slowness);
    arguments.inject_stuck.iter().for_each(|injected| injected.break_node(&node.handle()));
    say_ready(&addresses);
    let options = admin_options(&config, auth, (keys.admin, reach));
    let ended = || {
        watchdog.look();
        node.has_ended() || running.has_ended()
    };
    let admin = AdminSide { listener: admin, probes, hub, options };
    let stuck = Duration::from_secs(config.health.stuck_seconds);
    let end = Stop { stop: &stop, stopping, patience: CONNECTIONS + stuck };
    let (waited, deadline) = runtime.block_on(run_admin(admin, signals, end, ended))?;
    let broken = running.has_ended() && !node.has_ended();
    running.join();
    drop(deadline);
    stop_copies(follower, keeper, stuck);
    stop_node(node, SEQUENCER + stuck)?;
    conclude(&waited, broken)
}

/// The configuration, with the addresses that the command line gives.
fn configuration(arguments: &ServeArguments) -> Result<Config, CliError> {
    let mut config = Config::read(arguments.config.as_deref())?;
    config.fspiop.listen = arguments.fspiop.unwrap_or(config.fspiop.listen);
    config.admin.listen = arguments.admin.unwrap_or(config.admin.listen);
    config.health.listen = arguments.health.map(Probes::At).or(config.health.listen);
    Ok(config)
}

/// The listeners of a switch.
struct Listeners {
    fspiop: switch::Listeners,
    admin: TcpListener,
    /// Of supervisors' probes, where they have one.
    probes: Option<TcpListener>,
    addresses: Addresses,
}

/// The addresses of the listeners.
struct Addresses {
    fspiop: SocketAddr,
    admin: SocketAddr,
    probes: Option<SocketAddr>,
}

impl Listeners {
    fn bind(config: &Config) -> Result<Self, CliError> {
        let admin = bind("admin", config.admin.listen)?;
        let fspiop = switch::bind(config.fspiop.listen, config.threads())
            .map_err(|error| cannot_listen("FSPIOP", config.fspiop.listen, &error))?;
        let probes = config.probes().map(|address| bind("health probes", address)).transpose()?;
        let addresses = Addresses {
            fspiop: fspiop.address(),
            admin: address_of(&admin)?,
            probes: probes.as_ref().map(address_of).transpose()?,
        };
        Ok(Self { fspiop, admin, probes, addresses })
    }
}

impl Addresses {
    fn all(&self) -> impl Iterator<Item = SocketAddr> {
        [self.fspiop, self.admin].into_iter().chain(self.probes)
    }
}

fn stop_copies(follower: Snapshotter, keeper: BackgroundJobs, stuck: Duration) {
    let _deadline = Deadline::begin("a copy, an archive or a snapshot", COPIES + stuck);
    follower.stop();
    keeper.stop();
}

fn stop_node(node: Node<Message>, patience: Duration) -> Result<(), CliError> {
    let _deadline = Deadline::begin("the sequencer", patience);
    node.stop().map_err(CliError::new)
}

fn address_of(listener: &TcpListener) -> Result<SocketAddr, CliError> {
    let failed = |error| CliError::new(format!("the admin listener has no address: {error}"));
    listener.local_addr().map_err(failed)
}

/// How the program ends, once everything has stopped.
fn conclude(waited: &Ending, broken: bool) -> Result<(), CliError> {
    match (waited, broken) {
        (Ending::Broken, true) => Err(CliError::new("an I/O thread ended; see above")),
        _ => Ok(()),
    }
}

/// What a node that shares its log begins its life with.
#[cfg_attr(not(feature = "kafka"), expect(dead_code, reason = "nobody shares a log there"))]
pub(crate) struct Sharing {
    pub(crate) topic: Topic,
    /// Records set aside of which the log does not say so.
    missing: Vec<Entry>,
    pub(crate) quarantine: Quarantine,
}

/// Starts the sequencer's thread.
#[cfg(feature = "kafka")]
fn start_node(
    starting: NodeParts,
    sequencer: Sequencer<Log>,
    sharing: Option<Sharing>,
    (config, data, place): (&Config, &Path, &Place),
) -> Result<RunningNode, CliError> {
    let Some(Sharing { topic, missing, quarantine }) = sharing else {
        return starting.alone(sequencer);
    };
    let (hub, settings) = (config.hub_name()?, config.settings());
    let begin = move |state: &State| {
        check_hub(state, hub).map_err(|failure| failure.to_string())?;
        Ok(first_commands(state, &settings, missing.iter()))
    };
    starting.shared(sequencer, topic, (place, data, quarantine), Box::new(begin))
}

/// Starts the sequencer's thread.
#[cfg(not(feature = "kafka"))]
fn start_node(
    starting: NodeParts,
    sequencer: Sequencer<Log>,
    _sharing: Option<Sharing>,
    _place: (&Config, &Path, &Place),
) -> Result<RunningNode, CliError> {
    starting.alone(sequencer)
}

/// The node, once it is one of several where there are several; none when somebody ended it before.
fn when_joined(
    (node, joining): RunningNode,
    runtime: &Runtime,
    signals: &mut Signals,
) -> Result<Option<node::Node<switch::Message>>, CliError> {
    let Some(joining) = joining else { return Ok(Some(node)) };
    if runtime.block_on(signals.unless(joined(&joining, &node))) == Some(true) {
        return Ok(Some(node));
    }
    node.stop().map_err(CliError::new)?;
    Ok(None)
}

/// Waits until a node is one of several. False when it will never be.
async fn joined(joining: &Receiver<()>, node: &node::Node<switch::Message>) -> bool {
    let mut look = tokio::time::interval(Duration::from_millis(20));
    loop {
        look.tick().await;
        match joining.try_recv() {
            Ok(()) => return true,
            Err(TryRecvError::Disconnected) => return false,
            Err(TryRecvError::Empty) if node.has_ended() => return false,
            Err(TryRecvError::Empty) => {}
        }
    }
}

/// A node's directory that holds nothing is made from a copy, if one is named; a restore that was
/// interrupted when it was whole is finished.
fn begin_with_copy(arguments: &ServeArguments) -> Result<(), CliError> {
    let data = &arguments.data;
    if crate::data::layout::put_in_place(data)? || has_segments(data) {
        return Ok(());
    }
    #[cfg(feature = "kafka")]
    if let Some(from) = &arguments.log.from {
        return crate::data::restore::begin(from, data);
    }
    crate::data::layout::refuse_unfinished(data)
}

/// For tests: has the process end in the midst of its work on the disk.
fn arm_exit(arguments: &ServeArguments) {
    if let Some(operations) = arguments.inject_exit_after_disk_operations {
        stdout::print_message(format_args!(
            "INJECTED: an end after {operations} changes of the disk; only to test"
        ));
        journal::exit_after_disk_operations(operations);
    }
}

/// Prints the addresses; programs that start a switch wait for the line that begins with `ready`.
fn say_ready(Addresses { fspiop, admin, probes }: &Addresses) {
    if let Some(probes) = probes {
        stdout::print_message(format_args!("health probes on http://{probes}"));
    }
    stdout::print_message(format_args!(
        "ready; FSPIOP on http://{fspiop}, admin on http://{admin}"
    ));
}

/// Says what makes this a switch for measurements only.
fn warn(decisions: TransferMode, slowness: Option<SyncDelay>) {
    if decisions == TransferMode::Null {
        stdout::print_message(
            "NULL SWITCH: transfers are neither recorded nor decided; only to measure",
        );
    }
    if let Some(slowness) = slowness {
        stdout::print_message(format_args!("INJECTED: {slowness}; only to measure"));
    }
    let rules = ledger::rules_known();
    if ledger::RULES_VERSION < rules {
        stdout::print_message(format_args!("INJECTED: rules up to version {rules}; only to test"));
    }
}

/// What the admin API is served from.
struct AdminSide {
    listener: TcpListener,
    /// Of supervisors' probes, where they have one.
    probes: Option<TcpListener>,
    hub: Arc<NodeBackend>,
    options: AdminOptions,
}

/// How everybody is told to stop, and how long that may take.
struct Stop<'a> {
    stop: &'a watch::Sender<bool>,
    stopping: watch::Receiver<bool>,
    patience: Duration,
}

/// Serves the admin API on this thread until a signal comes or the log stops. With the deadline
/// for all connections to end.
async fn run_admin(
    admin: AdminSide,
    signals: Signals,
    Stop { stop, stopping, patience }: Stop<'_>,
    mut ended: impl FnMut() -> bool,
) -> Result<(Ending, Deadline), CliError> {
    let AdminSide { listener, probes, hub, options } = admin;
    let probed = serve_probes(probes, Arc::clone(&hub), until_stopped(stopping.clone()))?;
    let admin = operations::serve(for_tokio(listener)?, hub, options, until_stopped(stopping));
    let end = async {
        let ending = wait_for_end(signals, &mut ended).await;
        stop.send_replace(true);
        (ending, Deadline::begin("a connection or its thread", patience))
    };
    let (_served, _probed, ended) = tokio::join!(admin, probed, end);
    Ok(ended)
}

/// Serves supervisors' probes, where they have a listener.
fn serve_probes(
    listener: Option<TcpListener>,
    hub: Arc<NodeBackend>,
    stopped: impl Future<Output = ()>,
) -> Result<impl Future<Output = ()>, CliError> {
    let listener = listener.map(for_tokio).transpose()?;
    Ok(async move {
        if let Some(listener) = listener {
            operations::serve_probes(listener, hub, stopped).await;
        }
    })
}

fn for_tokio(listener: TcpListener) -> Result<tokio::net::TcpListener, CliError> {
    tokio::net::TcpListener::from_std(listener)
        .map_err(|error| CliError::new(format!("cannot serve the admin API: {error}")))
}

/// Waits for the order to stop; a sender that was dropped is one.
async fn until_stopped(mut stopping: watch::Receiver<bool>) {
    let _stopped = stopping.wait_for(|stop| *stop).await;
}

/// Why serving ends.
enum Ending {
    /// Somebody said so.
    Signal,
    /// A thread ended by itself.
    Broken,
}

async fn wait_for_end(mut signals: Signals, mut ended: impl FnMut() -> bool) -> Ending {
    let mut watch = tokio::time::interval(WATCH);
    loop {
        tokio::select! {
            asked = signals.next() => match asked {
                StopRequest::End => return Ending::Signal,
                StopRequest::Reload(keys) => signatures::reload(keys).await,
                StopRequest::Nothing(name, why) => tell_ignored(name, why),
            },
            _ = watch.tick() => if ended() { return Ending::Broken },
        }
    }
}

/// Which log is opened, and how slow it is made.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    pub(crate) slowness: Option<SyncDelay>,
    pub(crate) place: Place,
    pub(crate) tail_policy: TailPolicy,
}

/// Opens the log of a directory, or begins one, and brings the state up to its end.
pub(crate) fn open(
    config: &Config,
    data: &Path,
    opening: &Opening,
    clock: &SystemClock,
) -> Result<Opened, CliError> {
    let failed = |what: String| CliError::new(format!("{}: {what}", data.display()));
    let place_of_log = &opening.place;
    let OpenedLog { disk, served, quarantined } = open_log(config, data, opening)?;
    let OpenBackend { log, recovery, topic } = served;
    report(&recovery, opening.tail_policy);
    report_places(&disk)?;
    let own = topic.is_none().then_some(opening.tail_policy);
    if let Some(tail_policy) = own {
        truncation::check_snapshots(&disk, &log.tail(), tail_policy).map_err(failed)?;
    }
    let segments = Segments { log: disk.clone(), closer: log.closer() };
    let started = Instant::now();
    let frames = log.frames();
    let log = DelayedLog::new(log, opening.slowness);
    let mut log = TracedLog::new(log, Arc::new(stages(config, place_of_log)));
    let place = open_store::Place::new(config, data, log.tail().identity);
    let mut store = place.open(&mut log, own)?;
    let stored = Some(store.mark().log_index);
    let found = snapshots::newest(&disk, &frames, stored, &mut snapshots::unpaced)
        .map_err(|error| failed(error.to_string()))?;
    for why in &found.passed_over {
        stdout::print_message(format_args!("passed over a snapshot: {why}"));
    }
    let mut from = found.start.as_ref().map_or(LogIndex(0), |start| start.tail.end);
    let mut before = found.start.as_ref().map(|start| start.file.clone());
    let state = found.start.map_or_else(State::new, |start| start.state);
    let recall = |from| {
        let mut notes = Notes::default();
        notes.recall(&frames, &quarantined, from);
        notes.unread.iter().for_each(|(log_index, error)| say_unread(*log_index, error));
        notes
    };
    let of = quarantine::of;
    let start = |state, cold_tier| ReplayStart { state, quarantine: of(&quarantined), cold_tier };
    let (begun, notes) = (start(state, Some(place.side(&store)?)), recall(from));
    let node = place_of_log.node();
    let mut replayed = replay(log, begun, notes, (node, clock));
    if let Err(failed) = replayed {
        let (log, error) = *failed;
        replayed = match error {
            // One that only cannot be written, as on a full disk, is not thrown away for that.
            ReplayError::Store(error @ StoreError::Damaged(_)) => {
                open_store::say(&error.to_string());
                drop(store);
                store = place.begin()?;
                (from, before) = (LogIndex(0), None);
                let begun = start(State::new(), Some(place.side(&store)?));
                replay(log, begun, recall(from), (node, clock))
            }
            error => Err(Box::new((log, error))),
        };
    }
    let (mut sequencer, notes) = replayed.map_err(|error| failed(told(&error.1)))?;
    if !recovery.created {
        say_replayed(from, sequencer.state().log_index().0 - from.0, started.elapsed());
    }
    let sharing = begin_or_share(&mut sequencer, (config, clock), (&notes, &quarantined), topic)?;
    sequencer.limit_batches(config.log.batch_records_max);
    let following = Following { disk, frames, before };
    let directory = Directory::new(store);
    Ok(Opened { sequencer, directory, following, segments, sharing, quarantined })
}

fn say_unread(log_index: LogIndex, error: &LogError) {
    stdout::print_message(format_args!(
        "record {} is quarantined; its note in the log was not compared with quarantine.json: \
         {error}",
        log_index.0
    ));
}

/// Why a log is not decided again, and what to do about it.
fn told(error: &ReplayError) -> String {
    match error {
        ReplayError::Log(LogError::Damaged { place, .. }) => {
            format!("{error}{}", advice_on(place))
        }
        error => error.to_string(),
    }
}

fn say_replayed(from: LogIndex, records: u64, took: Duration) {
    let replayed = format!("replayed {records} records in {:.1} s", took.as_secs_f64());
    match from {
        LogIndex(0) => stdout::print_message(format_args!("{replayed}")),
        LogIndex(from) => {
            stdout::print_message(format_args!(
                "continued from the snapshot of record {from} and {replayed}"
            ));
        }
    }
}

/// Where waterfalls are noted; one of several nodes has its own part of a transfer.
fn stages(config: &Config, place: &Place) -> LatencyTrace {
    let stages = LatencyTrace::new(config.threads());
    if 0 < place.node() { stages.with_peers() } else { stages }
}

/// Begins at once where the log is this node's alone. Where it is not, what it begins with waits
/// until it is one of the nodes.
fn begin_or_share(
    sequencer: &mut Sequencer<Log>,
    (config, clock): (&Config, &SystemClock),
    (notes, quarantined): (&Notes, &[Entry]),
    topic: Option<Topic>,
) -> Result<Option<Sharing>, CliError> {
    let missing = notes.missing(quarantined);
    let Some(topic) = topic else {
        notes.check_words(quarantined).map_err(CliError::new)?;
        begin(sequencer, config, clock, missing)?;
        return Ok(None);
    };
    let missing = missing.into_iter().cloned().collect();
    Ok(Some(Sharing { topic, missing, quarantine: quarantine::of(quarantined) }))
}

/// Decides the log again from a start on. With an error the log comes back.
fn replay(
    log: Log,
    start: ReplayStart,
    mut notes: Notes,
    (node, clock): (u32, &SystemClock),
) -> Result<Replayed, Box<(Log, ReplayError)>> {
    let now = clock.now();
    let (before, end) = (start.state.log_index().0, log.tail().end.0);
    let mut progress = Progress::new("records", Some(end.saturating_sub(before)));
    let sequencer = Sequencer::open_from(log, start, (node, now), &mut |applied| {
        let log_index = applied.record.log_index;
        notes.see(log_index, applied.command);
        if log_index.0.is_multiple_of(SHOWN_EVERY) {
            progress.show(log_index.0 - before);
        }
    });
    progress.end();
    Ok((sequencer?, notes))
}

/// A log that was gone through, and who can follow it.
pub(crate) struct Opened {
    pub(crate) sequencer: Sequencer<Log>,
    pub(crate) directory: Directory,
    pub(crate) following: Following,
    segments: Segments,
    pub(crate) sharing: Option<Sharing>,
    quarantined: Vec<Entry>,
}

/// What the thread that takes snapshots works with.
pub(crate) struct Following {
    pub(crate) disk: TieredDisk<RealDisk>,
    pub(crate) frames: DurableFrames<TieredDisk<RealDisk>>,
    /// The snapshot that the start went on from.
    before: Option<SnapshotFile>,
}

impl Following {
    /// Takes snapshots when they are due, and tells of them.
    pub(crate) fn start<M: Send + Sync + 'static>(
        self,
        config: &Config,
        node: Handle<M>,
        tell: fn(&SnapshotEvent),
    ) -> Result<Snapshotter, CliError> {
        let Self { disk, frames, before } = self;
        let store = node.store();
        let set_aside = Box::new(move || set_aside(&node));
        let followed = SnapshotSource { frames, store, before, set_aside };
        snapshots::follow(disk, followed, config.snapshots_due(), tell)
            .map_err(|error| CliError::new(format!("cannot start a thread: {error}")))
    }
}

/// Has the sequencer's thread set its state aside.
fn set_aside<M: Send + Sync + 'static>(node: &Handle<M>) -> Option<FrozenState> {
    let (sender, receiver) = sync_channel(1);
    let asked = node.ask_durable(move |tail, state| {
        // Whoever asked may have given up.
        let _sent = sender.send(FrozenState { tail: *tail, state: state.freeze() });
    });
    asked.ok()?;
    receiver.recv_timeout(ASIDE_PATIENCE).ok()
}

fn tell(news: &SnapshotEvent) {
    match news {
        SnapshotEvent::Taken(taken, took) => {
            for why in &taken.passed_over {
                say(&format!("removed a snapshot that is not good: {why}"));
            }
            say(&format!(
                "took the snapshot of record {}: {} MiB in {:.1} s",
                taken.file.log_index.0,
                taken.bytes.div_ceil(1 << 20),
                took.as_secs_f64()
            ));
        }
        SnapshotEvent::Failed(error) => say(&format!(
            "no snapshot was taken: {error}. The log is not touched by that; the next attempt \
             comes in a minute"
        )),
    }
}

/// A line for whoever still listens: the switch goes on when nobody does.
fn say(line: &str) {
    let _heard = writeln!(std::io::stdout(), "upesi: {line}");
}

/// A log that was recovered.
struct OpenedLog {
    disk: TieredDisk<RealDisk>,
    served: OpenBackend,
    quarantined: Vec<Entry>,
}

fn open_log(config: &Config, data: &Path, opening: &Opening) -> Result<OpenedLog, CliError> {
    let failed = |what: String| CliError::new(format!("{}: {what}", data.display()));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data)
        .map_err(|error| failed(format!("cannot create the data directory: {error}")))?;
    let disk = RealDisk::open(data).and_then(TieredDisk::open);
    let disk = disk.map_err(|error| failed(OpenError::from(error).to_string()))?;
    let options = Options {
        segment_bytes: config.log.segment_mib << 20,
        // The replay that follows reads and checks the rest, as far as no snapshot stands for it.
        verify: Verify::LastSegment,
        tail_policy: opening.tail_policy,
        ..Options::default()
    };
    let quarantined = quarantine::load(&disk).map_err(failed)?;
    if opening.place.node() == 0 {
        // One that was being begun counts: opening it tells what became of it.
        truncation::check_begins(&disk, data, has_segments(data)).map_err(failed)?;
    }
    let served = opening.place.open(data, disk.clone(), config.hub_name()?, options)?;
    Ok(OpenedLog { disk, served, quarantined })
}

fn report(recovery: &Recovery, tail_policy: TailPolicy) {
    let end = recovery.end.0;
    let (what, of_it) = match tail_policy {
        TailPolicy::Refuse => ("of an unfinished write ", "none of them was acknowledged"),
        TailPolicy::Truncate => ("", "acknowledged records among them must be reconciled manually"),
    };
    if let Some(TruncatedTail { segment, offset, bytes, reason }) = &recovery.dropped {
        stdout::print_message(format_args!(
            "truncated {segment} at byte {offset}: removed {bytes} bytes {what}({reason}); {of_it}"
        ));
    }
    if tail_policy == TailPolicy::Truncate {
        stdout::print_message(format_args!(
            "--truncate-damaged-tail: the log ends with record {end}"
        ));
    }
}

/// Says what a start reads, if not all of it is here as it was written.
fn report_places(disk: &TieredDisk<RealDisk>) -> Result<(), CliError> {
    let segments = disk.segments().map_err(|error| CliError::new(error.to_string()))?;
    let (mut plain, mut compressed, mut archived) = (0, 0, BTreeMap::<_, usize>::new());
    for segment in &segments {
        match &segment.tier {
            Tier::Plain => plain += 1,
            Tier::Compressed => compressed += 1,
            Tier::Archived(place) => *archived.entry(place).or_default() += 1,
        }
    }
    if plain < segments.len() {
        let away = archived.iter().map(|(place, count)| format!(", {count} from {place}"));
        let away: String = away.collect();
        stdout::print_message(format_args!(
            "reads {plain} segments here, {compressed} compressed here{away}"
        ));
    }
    Ok(())
}

/// What every log starts with, and what the configuration says now.
fn begin(
    sequencer: &mut Sequencer<Log>,
    config: &Config,
    clock: &SystemClock,
    quarantined: Vec<&Entry>,
) -> Result<(), CliError> {
    let mut first = VecDeque::new();
    let state = sequencer.state();
    if state.log_index().0 == 0 {
        let mut key = [0; 16];
        getrandom::fill(&mut key).map_err(|error| CliError::new(error.to_string()))?;
        let genesis = Genesis { seed: key, hub: config.hub_name()? };
        first.push_back(Command::Genesis(genesis));
    } else {
        check_hub(state, config.hub_name()?)?;
    }
    first.extend(first_commands(state, &config.settings(), quarantined.into_iter()));
    let mut waiting: VecDeque<_> = first
        .into_iter()
        .map(|command| Submission::without_payload(command, Durability::Synced, ()))
        .collect::<Result<_, _>>()
        .map_err(|error| CliError::new(error.to_string()))?;
    if !waiting.is_empty() {
        sequencer
            .commit(&mut waiting, &mut Vec::new(), clock.now())
            .map_err(|error| CliError::new(error.to_string()))?;
    }
    Ok(())
}

fn check_hub(state: &State, name: FspName) -> Result<(), CliError> {
    if *state.hub() == name {
        return Ok(());
    }
    Err(CliError::new(format!(
        "hub.name is {name}, but this log belongs to {}; a hub keeps its name for life",
        state.hub()
    )))
}

/// What quarantine and configuration say and the log does not.
fn first_commands<'a>(
    state: &State,
    settings: &Settings,
    quarantined: impl Iterator<Item = &'a Entry>,
) -> Vec<Command> {
    let mut first: Vec<_> = quarantined.map(|entry| entry.note(*state.settings())).collect();
    if state.settings() != settings {
        first.push(configure(*settings));
    }
    first
}

fn configure(settings: Settings) -> Command {
    Command::Administer(Box::new(Administer {
        actor: "configuration file".into(),
        reason: "settings differ from those in force".into(),
        change: Change::Configure(Configure { settings }),
    }))
}

fn switch_options(
    config: &Config,
    signatures: Signatures,
    reach: &Arc<EgressPolicy>,
) -> switch::Options {
    switch::Options {
        policy: config.policy(),
        pool: switch::PoolLimits {
            connect: Duration::from_millis(config.delivery.connect_timeout_ms),
            answer: Duration::from_millis(config.delivery.answer_timeout_ms),
            connections_all: connections_all(raise_limit(), config.threads()),
            ..switch::PoolLimits::default()
        },
        connections: config.connections(),
        gateways: config.gateways(),
        reach: Arc::clone(reach),
        expiration_max: config.transfers.expiration_max.map(|span| span.0),
        signatures,
        patience: Duration::from_secs(config.health.stuck_seconds),
        ..switch::Options::default()
    }
}

fn admin_auth(config: &Config, data: &Path) -> Result<Auth, CliError> {
    if config.admin.auth == config::Auth::None {
        return Ok(Auth::None);
    }
    if let Some(auth) = given_token(config)? {
        return Ok(auth);
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data)
        .map_err(|error| CliError::new(format!("{}: {error}", data.display())))?;
    let path = data.join("admin-token");
    operations::load_or_create_token(&path)
        .map(Auth::Token)
        .map_err(|error| CliError::new(format!("{}: {error}", path.display())))
}

/// The token that somebody else keeps, if that is how it is.
pub(crate) fn given_token(config: &Config) -> Result<Option<Auth>, CliError> {
    let Some(path) = &config.admin.token_file else { return Ok(None) };
    let failed = |error| CliError::new(format!("admin.token_file: {}: {error}", path.display()));
    operations::load_token(path).map(|token| Some(Auth::Token(token))).map_err(failed)
}

fn admin_options(
    config: &Config,
    auth: Auth,
    (keys, reach): (AdminKeys, Arc<EgressPolicy>),
) -> AdminOptions {
    AdminOptions {
        keys,
        hosts: config.admin.hosts.clone(),
        origins: config.admin.origins.clone(),
        reach,
        ..AdminOptions::new(auth)
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

fn seed() -> Result<u64, CliError> {
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).map_err(|error| CliError::new(error.to_string()))?;
    Ok(u64::from_le_bytes(seed))
}
