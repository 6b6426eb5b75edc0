//! `upesi serve`: opens the log, replays it, starts the threads, waits for a signal, stops.

pub(crate) mod admin_backend;
mod arguments;
pub(crate) mod background;
pub(crate) mod bare_node;
#[cfg(test)]
mod boards;
pub(crate) mod certificates;
pub(crate) mod chain_heads;
pub(crate) mod content_scan;
pub(crate) mod data_keys;
pub(crate) mod descriptors;
pub(crate) mod durable_mark_thread;
pub(crate) mod erasure;
mod events;
pub(crate) mod identifiers;
pub(crate) mod issuers;
mod job_reporter;
pub(crate) mod liquidity;
mod listeners;
pub(crate) mod log_backend;
pub(crate) mod logging;
pub(crate) mod metrics;
mod mojaloop_metrics;
pub(crate) mod open_store;
pub(crate) mod party_search;
mod probes;
pub(crate) mod recent;
pub(crate) mod retention;
pub(crate) mod segments;
pub(crate) mod shutdown;
pub(crate) mod signals;
pub(crate) mod signatures;
pub(crate) mod slow_disk;
pub(crate) mod trace_export;
pub(crate) mod truncation;
pub(crate) mod watchdog;

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::net::TcpListener;
use std::num::NonZeroU32;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use ::events::{EventWriter, PersonalData};
use fspiop::egress_policy::EgressPolicy;
use harness::Progress;
use journal::{
    DurableFrames, OpenError, RealDisk, Recovery, TailPolicy, Tier, TieredDisk, TruncatedTail,
    Verify, advice_on,
};
use jws::KeyDirectory;
use ledger::{Administer, Change, Command, Configure, FspName, Genesis, LogIndex, Settings, State};
use node::latency_trace::{LatencyTrace, TracedLog};
use node::{Directory, Handle, Node, SystemClock};
use operations::{
    AddressLimits, AdminKeys, AdminOptions, AuditReads, Auth, EnrolmentOptions, SecretsKey, Token,
};
use ports::{Clock, ColdStore, Disk as _, Log as _, LogError, StoreError};
use rustix::fs::Mode;
use sequencer::{Durability, Quarantine, ReplayError, ReplayStart, Sequencer, Submission};
use snapshots::{FrozenState, SnapshotEvent, SnapshotFile, SnapshotSource, Snapshotter};
use switch::{ForwardedMessage, ListenerSecurity, Signatures, TransferMode};
use tls::ServerTls;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use traces::SpanQueue;

use crate::CliError;
use crate::cli::stdout;
use crate::cli::units::counted;
use crate::config::{self, AuditedReads, Config, LogFormat, Ownership};
use crate::data::encryption::{Access, DataKeys, unlock};
use crate::data::layout::has_segments;
use crate::inspect::live_replay::ReplaySource;
use crate::operate::quarantine::{self, Entry, Notes};
use crate::serve::admin_backend::{NodeBackend, ReadPermits};
use crate::serve::background::BackgroundJobs;
use crate::serve::certificates::{Certificates, RELOAD_INTERVAL, ReloadReason};
use crate::serve::descriptors::{connections_all, raise_limit};
use crate::serve::durable_mark_thread::DurableMarkThread;
use crate::serve::events::{EventPages, EventPublisher};
use crate::serve::issuers::Issuers;
use crate::serve::liquidity::LiquidityThread;
use crate::serve::listeners::{Addresses, Listeners, OtherListeners};
use crate::serve::log_backend::{Log, LogLocation, NodeParts, OpenBackend, RunningNode, Topic};
use crate::serve::logging::{FlushAtEnd, Logging};
use crate::serve::open_store::StorePaths;
use crate::serve::probes::{StartingProbes, for_tokio};
use crate::serve::segments::Segments;
use crate::serve::shutdown::{Deadline, until_stopped};
use crate::serve::signals::{EarlySignals, SignalRequest, Signals, log_ignored};
use crate::serve::signatures::Keys;
use crate::serve::slow_disk::{DelayedLog, SyncDelay};
use crate::serve::trace_export::TraceExport;
use crate::serve::watchdog::{StallTarget, Watchdog};

pub(crate) use arguments::ServeArguments;

/// Result of a replay: the sequencer, and the notes of the log about quarantined records.
type Replayed = (Sequencer<Log>, Notes);

/// Interval of the main thread's checks for a stopped log or a stuck stage.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);

/// Records between two updates of the progress during a replay.
const PROGRESS_RECORDS: u64 = 1_024;

/// Time that a stop gives to requests in progress: 3 s to those of participants, all to those of
/// operators.
const CONNECTIONS_STOP: Duration = Duration::from_secs(5);
/// Time that a stop gives to background jobs, whose destination may be remote.
const JOBS_STOP: Duration = Duration::from_secs(60);
/// Time that a stop gives to the sequencer: 5 s to the leave message of a node, 10 s to the store's
/// queue.
const SEQUENCER_STOP: Duration = Duration::from_secs(15);

/// Longest wait of the snapshot thread for the sequencer's thread.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn serve(
    arguments: &ServeArguments,
    transfer_mode: TransferMode,
) -> Result<(), CliError> {
    let _flush = FlushAtEnd;
    let config = match configuration(arguments) {
        Err(error) if arguments.log_format == Some(LogFormat::Json) => {
            let format = LogFormat::Json;
            Logging::start(&config::Logging { format, ..config::Logging::default() })?;
            return Err(error.logged());
        }
        read => read?,
    };
    let logging = Logging::start(&config.logging)?;
    let served = serve_logging(arguments, &config, (transfer_mode, &logging));
    logging.report_failures();
    match config.logging.format {
        LogFormat::Json => served.map_err(CliError::logged),
        LogFormat::Text => served,
    }
}

fn serve_logging(
    arguments: &ServeArguments,
    config: &Config,
    modes: (TransferMode, &Logging),
) -> Result<(), CliError> {
    let location = LogLocation::from_arguments(&arguments.log, config)?;
    arm_exit(arguments);
    let sync_delay = SyncDelay::from_arguments(&arguments.slowness);
    let options = LogOptions { sync_delay, location, tail_policy: arguments.tail_policy() };
    serve_at(&options, config, arguments, modes)
}

fn serve_at(
    options: &LogOptions,
    config: &Config,
    arguments: &ServeArguments,
    (transfer_mode, logging): (TransferMode, &Logging),
) -> Result<(), CliError> {
    let (clock, early_signals) = (SystemClock::new(), EarlySignals::begin()?);
    // Ports first: a second switch that is started by mistake exits at once.
    let Listeners { fspiop, admin, others, starting, addresses } = Listeners::bind(config)?;
    prepare_directory(arguments)?;
    let (certificates, issuers) = (Certificates::open(config)?, Issuers::start(config)?);
    let auth = admin_access(config, &arguments.data, (&certificates, &issuers))?;
    let keys = Keys::open(config, certificates.signing_key.as_ref())?;
    let alerts = certificates.receivers(config)?;
    let traces = &TraceExport::start(config, &certificates, addresses.fspiop)?;
    let OpenedNode { sequencer, directory, snapshots, segments, shared, quarantined } =
        open(config, &arguments.data, options, &clock)?;
    // Before the switch reports that it is ready, because a client may send a signal then.
    let (runtime, mut signals) = early_signals.replaced()?;
    let egress_policy = Arc::new(config.reach(addresses.all().collect()));
    let edge = (transfer_mode, keys.signatures, traces.queue(), &*issuers);
    let io_options = switch_options((config, arguments), edge, (&egress_policy, &certificates))?;
    let (ports, mailboxes) = switch::prepare(fspiop, io_options, clock, seed()?);
    let paths = (config, &*arguments.data, &options.location);
    let started = start_node(NodeParts { clock, directory, mailboxes }, sequencer, shared, paths)?;
    let Some(node) = when_joined(started, &runtime, &mut signals)? else { return Ok(()) };
    // Dropped at the end of this function, so that the last mark covers the last sync.
    let _durable_mark = DurableMarkThread::start(snapshots.disk.clone(), snapshots.frames.clone())?;
    let ((stop, stopping), replays) = (watch::channel(false), snapshots.replays());
    let (events, traffic) = (event_pages(config, &replays, stopping.clone())?, ports.traffic());
    let snapshotter = snapshots.start(config, node.handle(), log_snapshot)?;
    let publisher = EventPublisher::start(config, &node.handle(), (&replays, clock), &traffic)?;
    let running = ports.start(&node.handle(), stopping.clone()).map_err(no_io_thread)?;
    let mut watchdog = Watchdog::new(&config.health, node.handle(), Arc::clone(&traffic), clock);
    let jobs = BackgroundJobs::start(config, arguments, (segments, &replays, node.handle()))?;
    let backend = Arc::new(NodeBackend {
        handle: node.handle(),
        traffic,
        snapshots: snapshotter.handle(),
        clock,
        began: clock.now(),
        permits: ReadPermits::default(),
        replays,
        events,
        publishing: publisher.as_ref().map(EventPublisher::status),
        quarantined: quarantined.into(),
        background: jobs.status.clone(),
        liquidity: Arc::default(),
        mojaloop_names: config.metrics.mojaloop_names,
        certificates: Arc::clone(&certificates),
        issuers,
        configuration: config::check::report(arguments.config.as_deref(), config)?.into(),
    });
    let liquidity = LiquidityThread::start(Arc::clone(&backend), alerts, stopping.clone())?;
    announce(arguments, (transfer_mode, options), &node, (&addresses, starting, &certificates));
    let (settings, key_files) = ((arguments, config), keys.admin.directory.clone());
    let options = admin_options(config, auth, (keys.admin, egress_policy, &certificates));
    let reload = Reloadable { settings, logging, traces, keys: key_files, certificates };
    let has_ended = || {
        watchdog.check();
        node.has_ended() || running.has_ended() || liquidity.has_ended()
    };
    let admin = AdminServer { listener: admin, others, backend, options };
    let stuck = Duration::from_secs(config.health.stuck_seconds);
    let stop = StopControl { stop: &stop, stopping, timeout: CONNECTIONS_STOP + stuck };
    let (reason, limit) = runtime.block_on(run_admin(admin, (signals, reload), stop, has_ended))?;
    let is_broken = stop_threads(running, liquidity, limit) && !node.has_ended();
    stop_node(node, (snapshotter, jobs, publisher), stuck)?;
    result_of(&reason, is_broken)
}

/// Pages of events for readers of the admin API, who may see no personal data.
fn event_pages(
    config: &Config,
    replays: &ReplaySource,
    stopping: watch::Receiver<bool>,
) -> Result<Arc<EventPages>, CliError> {
    let (hub, identity) = (config.hub_name()?, replays.frames.identity().0);
    let writer = EventWriter::new(&hub, identity, PersonalData::Omitted);
    Ok(Arc::new(EventPages::new(writer, stopping)))
}

/// The configuration, with the addresses of the command line.
fn configuration(arguments: &ServeArguments) -> Result<Config, CliError> {
    let mut config = Config::read(arguments.config.as_deref())?;
    config.fspiop.listen = arguments.fspiop.unwrap_or(config.fspiop.listen);
    config.admin.listen = arguments.admin.unwrap_or(config.admin.listen);
    config.health.listen = arguments.health.or(config.health.listen);
    config.logging.format = arguments.log_format.unwrap_or(config.logging.format);
    if let Some(level) = &arguments.log_level {
        config.logging.level.clone_from(level);
    }
    Ok(config)
}

/// Returns whether one of the threads had ended by itself.
fn stop_threads(running: switch::Running, liquidity: LiquidityThread, deadline: Deadline) -> bool {
    let had_ended = running.has_ended() || liquidity.has_ended();
    running.join();
    liquidity.join();
    drop(deadline);
    had_ended
}

/// Stops the jobs on the log, then its node.
fn stop_node(
    node: Node<ForwardedMessage>,
    (snapshotter, jobs, publisher): (Snapshotter, BackgroundJobs, Option<EventPublisher>),
    stuck: Duration,
) -> Result<(), CliError> {
    let deadline = Deadline::begin("a copy, an archive or a snapshot", JOBS_STOP + stuck);
    publisher.into_iter().for_each(EventPublisher::stop);
    snapshotter.stop();
    jobs.stop();
    drop(deadline);
    let _deadline = Deadline::begin("the sequencer", SEQUENCER_STOP + stuck);
    node.stop().map_err(CliError::new)
}

/// The result of the program, once everything has stopped.
fn result_of(reason: &StopReason, is_broken: bool) -> Result<(), CliError> {
    match (reason, is_broken) {
        (StopReason::ThreadEnded, true) => Err(CliError::new("a thread ended; see above")),
        _ => Ok(()),
    }
}

/// Start parameters of a node that shares its log.
#[cfg_attr(not(feature = "kafka"), expect(dead_code, reason = "no node shares a log"))]
pub(crate) struct SharedLogParams {
    pub(crate) topic: Topic,
    /// Quarantined records without a note in the log.
    missing: Vec<Entry>,
    pub(crate) quarantine: Quarantine,
}

/// Starts the sequencer's thread.
#[cfg(feature = "kafka")]
fn start_node(
    parts: NodeParts,
    sequencer: Sequencer<Log>,
    shared: Option<SharedLogParams>,
    (config, data, location): (&Config, &Path, &LogLocation),
) -> Result<RunningNode, CliError> {
    let Some(SharedLogParams { topic, missing, quarantine }) = shared else {
        return parts.start_standalone(sequencer);
    };
    let (hub, settings) = (config.hub_name()?, config.settings());
    let begin = move |state: &State| {
        check_hub(state, hub).map_err(|failure| failure.to_string())?;
        Ok(first_commands(state, &settings, missing.iter()))
    };
    parts.start_shared(sequencer, topic, (location, data, quarantine), Box::new(begin))
}

/// Starts the sequencer's thread.
#[cfg(not(feature = "kafka"))]
fn start_node(
    parts: NodeParts,
    sequencer: Sequencer<Log>,
    _shared: Option<SharedLogParams>,
    _paths: (&Config, &Path, &LogLocation),
) -> Result<RunningNode, CliError> {
    parts.start_standalone(sequencer)
}

/// Waits until a node that shares its log is a member. Returns `None` if it was stopped before.
fn when_joined(
    (node, joining): RunningNode,
    runtime: &Runtime,
    signals: &mut Signals,
) -> Result<Option<node::Node<switch::ForwardedMessage>>, CliError> {
    let Some(joining) = joining else { return Ok(Some(node)) };
    if runtime.block_on(signals.unless_stopped(joined(&joining, &node))) == Some(true) {
        return Ok(Some(node));
    }
    node.stop().map_err(CliError::new)?;
    Ok(None)
}

/// Waits until a node is a member. Returns false if it has ended.
async fn joined(joining: &Receiver<()>, node: &node::Node<switch::ForwardedMessage>) -> bool {
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

/// Finishes a complete restore that was interrupted, and fills an empty directory from the copy
/// that `--from` names.
fn prepare_directory(arguments: &ServeArguments) -> Result<(), CliError> {
    // Files of libraries too, such as those of the cold store, are readable by their owner only.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
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

/// Makes the process exit after a number of disk operations, for tests.
fn arm_exit(arguments: &ServeArguments) {
    if let Some(operations) = arguments.inject_exit_after_disk_operations {
        stdout::print_message(format_args!(
            "INJECTED: exit after {operations} changes of the disk; only to test"
        ));
        journal::exit_after_disk_operations(operations);
    }
}

/// Injects the faults of tests, and prints that the switch is ready.
fn announce(
    arguments: &ServeArguments,
    (transfer_mode, options): (TransferMode, &LogOptions),
    node: &Node<ForwardedMessage>,
    (addresses, starting, certificates): (&Addresses, Option<StartingProbes>, &Certificates),
) {
    drop(starting);
    print_injected(transfer_mode, options.sync_delay);
    arguments.inject_stuck.iter().for_each(|target| target.stall_node(&node.handle()));
    print_ready(addresses, certificates);
}

/// Prints the addresses. Programs that start a switch wait for the line that begins with `ready`.
fn print_ready(
    Addresses { fspiop, admin, probes, oracle_api }: &Addresses,
    certificates: &Certificates,
) {
    if let Some(probes) = probes {
        stdout::print_message(format_args!("health probes on http://{probes}"));
    }
    if let Some(address) = oracle_api {
        let scheme = scheme(certificates.admin.is_some());
        stdout::print_message(format_args!("oracle API on {scheme}://{address}"));
    }
    stdout::print_message(format_args!(
        "ready; FSPIOP on {}://{fspiop}, admin on {}://{admin}",
        scheme(certificates.fspiop.is_some()),
        scheme(certificates.admin.is_some()),
    ));
}

fn scheme(uses_tls: bool) -> &'static str {
    if uses_tls { "https" } else { "http" }
}

/// Prints the options that make this a switch for tests or measurements only.
fn print_injected(transfer_mode: TransferMode, sync_delay: Option<SyncDelay>) {
    if transfer_mode == TransferMode::Passthrough {
        stdout::print_message(
            "NULL SWITCH: transfers are neither recorded nor decided; only to measure",
        );
    }
    if let Some(delay) = sync_delay {
        stdout::print_message(format_args!("INJECTED: {delay}; only to measure"));
    }
    let rules = ledger::rules_known();
    if ledger::RULES_VERSION < rules {
        stdout::print_message(format_args!("INJECTED: rules up to version {rules}; only to test"));
    }
}

/// Parts of the admin server.
struct AdminServer {
    listener: TcpListener,
    others: OtherListeners,
    backend: Arc<NodeBackend>,
    options: AdminOptions,
}

/// Serves the oracle API, if it has a listener.
fn serve_oracle_api(
    listener: Option<TcpListener>,
    backend: Arc<NodeBackend>,
    options: AdminOptions,
    stopped: impl Future<Output = ()>,
) -> Result<impl Future<Output = ()>, CliError> {
    let listener = listener.map(for_tokio).transpose()?;
    Ok(async move {
        if let Some(listener) = listener {
            operations::serve_oracle_api(listener, backend, options, stopped).await;
        }
    })
}

/// The parts that SIGHUP reloads.
struct Reloadable<'a> {
    /// The configuration is that of the start.
    settings: (&'a ServeArguments, &'a Config),
    logging: &'a Logging,
    traces: &'a TraceExport,
    keys: Option<Arc<KeyDirectory>>,
    certificates: Arc<Certificates>,
}

impl Reloadable<'_> {
    async fn reload(&self) {
        let (arguments, started) = self.settings;
        let read = configuration(arguments);
        match &read {
            Ok(config) => {
                self.logging.reload(&config.logging.level);
                self.traces.reload(config.traces.ratio.0);
                let settings = started.changed_until_restart(config);
                if !settings.is_empty() {
                    let settings = settings.join(", ");
                    tracing::warn!(settings, "changed settings take effect at the next start");
                }
            }
            Err(error) => {
                tracing::error!(%error, "cannot read the configuration; settings stay unchanged");
            }
        }
        if let Some(keys) = &self.keys {
            signatures::reload(Arc::clone(keys)).await;
        }
        self.certificates.reload(ReloadReason::Signal);
        if read.is_ok() {
            tracing::info!("reloaded the configuration on SIGHUP");
        }
    }
}

/// Signals all threads to stop, with a timeout.
struct StopControl<'a> {
    stop: &'a watch::Sender<bool>,
    stopping: watch::Receiver<bool>,
    timeout: Duration,
}

/// Serves the admin API on this thread until a signal arrives or the log stops. Returns the reason
/// and the deadline for all connections to end.
async fn run_admin(
    admin: AdminServer,
    (signals, reloadable): (Signals, Reloadable<'_>),
    StopControl { stop, stopping, timeout }: StopControl<'_>,
    mut has_ended: impl FnMut() -> bool,
) -> Result<(StopReason, Deadline), CliError> {
    let AdminServer { listener, others, backend, options } = admin;
    let OtherListeners { probes, oracle_api } = others;
    let probes = probes::serve(probes, Arc::clone(&backend), until_stopped(stopping.clone()))?;
    let until = until_stopped(stopping.clone());
    let oracle_api = serve_oracle_api(oracle_api, Arc::clone(&backend), options.clone(), until)?;
    let admin = operations::serve(for_tokio(listener)?, backend, options, until_stopped(stopping));
    let end = async {
        let reason = wait_for_stop(signals, &reloadable, &mut has_ended).await;
        stop.send_replace(true);
        (reason, Deadline::begin("a connection or its thread", timeout))
    };
    let (_admin, _probes, _oracle_api, ended) = tokio::join!(admin, probes, oracle_api, end);
    Ok(ended)
}

/// Why the switch stops.
enum StopReason {
    Signal,
    /// A thread ended by itself.
    ThreadEnded,
}

async fn wait_for_stop(
    mut signals: Signals,
    reloadable: &Reloadable<'_>,
    mut has_ended: impl FnMut() -> bool,
) -> StopReason {
    let mut watch = tokio::time::interval(WATCH_INTERVAL);
    let mut files = tokio::time::interval(RELOAD_INTERVAL);
    loop {
        tokio::select! {
            request = signals.next() => match request {
                SignalRequest::Stop => return StopReason::Signal,
                SignalRequest::Reload => reloadable.reload().await,
                SignalRequest::Ignored(name, why) => log_ignored(name, why),
            },
            _ = files.tick() => reloadable.certificates.reload(ReloadReason::Timer),
            _ = watch.tick() => {
                reloadable.logging.report_failures();
                if has_ended() {
                    return StopReason::ThreadEnded;
                }
            }
        }
    }
}

/// The log to open, and how.
#[derive(Debug, Default)]
pub(crate) struct LogOptions {
    pub(crate) sync_delay: Option<SyncDelay>,
    pub(crate) location: LogLocation,
    pub(crate) tail_policy: TailPolicy,
}

/// Opens or creates the log of a directory, and replays it to its end.
pub(crate) fn open(
    config: &Config,
    data: &Path,
    options: &LogOptions,
    clock: &SystemClock,
) -> Result<OpenedNode, CliError> {
    let failed = |what: String| CliError::new(format!("{}: {what}", data.display()));
    let location = &options.location;
    let OpenedLog { disk, backend, quarantined, keys } = open_log(config, data, options)?;
    let OpenBackend { log, recovery, topic } = backend;
    print_recovery(&recovery, options.tail_policy);
    print_tiers(&disk)?;
    let tail_policy = topic.is_none().then_some(options.tail_policy);
    if let Some(tail_policy) = tail_policy {
        truncation::check_snapshots(&disk, &log.tail(), tail_policy).map_err(failed)?;
    }
    let segments = Segments::new(disk.clone(), (log.closer(), log.rotator()), keys);
    let started = Instant::now();
    let frames = log.frames();
    let log = DelayedLog::new(log, options.sync_delay);
    let mut log = TracedLog::new(log, Arc::new(latency_trace(config, location)));
    let paths = StorePaths::new(config, data, log.tail().identity);
    let paths = paths.with_cipher(disk.cipher());
    let mut store = paths.open(&mut log, tail_policy)?;
    let stored = Some(store.mark().log_index);
    let newest = snapshots::find_newest(&disk, &frames, stored, &mut snapshots::unpaced)
        .map_err(|error| failed(error.to_string()))?;
    for why in &newest.skipped {
        stdout::print_message(format_args!("ignored an unusable snapshot: {why}"));
    }
    let mut from = newest.start.as_ref().map_or(LogIndex(0), |start| start.tail.end);
    let mut before = newest.start.as_ref().map(|start| start.file.clone());
    let state = newest.start.map_or_else(State::new, |start| start.state);
    let recall = |from| {
        let mut notes = Notes::default();
        notes.recall(&frames, &quarantined, from);
        notes.unread.iter().for_each(|(log_index, error)| print_unread(*log_index, error));
        notes
    };
    let quarantine = || quarantine::for_replay(&quarantined);
    let start = |state, cold_tier| ReplayStart { state, quarantine: quarantine(), cold_tier };
    let (first_start, notes) = (start(state, Some(paths.cold_tier(&store)?)), recall(from));
    let node = location.node();
    let mut replayed = replay(log, first_start, notes, (node, clock));
    if let Err(failed) = replayed {
        let (log, error) = *failed;
        replayed = match error {
            // A store that only cannot be written, as on a full disk, is kept.
            ReplayError::Store(error @ StoreError::Damaged(_)) => {
                open_store::print_rebuild(&error.to_string());
                drop(store);
                store = paths.create()?;
                (from, before) = (LogIndex(0), None);
                let second_start = start(State::new(), Some(paths.cold_tier(&store)?));
                replay(log, second_start, recall(from), (node, clock))
            }
            error => Err(Box::new((log, error))),
        };
    }
    let (mut sequencer, notes) =
        replayed.map_err(|error| failed(describe_replay_error(&error.1)))?;
    if !recovery.created {
        print_replayed(from, sequencer.state().log_index().0 - from.0, started.elapsed());
    }
    let shared = begin_or_share(&mut sequencer, (config, clock), (&notes, &quarantined), topic)?;
    sequencer.limit_batches(config.log.batch_records_max);
    let snapshots = SnapshotterParams { disk, frames, before, quarantine: quarantine() };
    let directory = Directory::new(store);
    Ok(OpenedNode { sequencer, directory, snapshots, segments, shared, quarantined })
}

fn no_io_thread(error: io::Error) -> CliError {
    CliError::new(format!("cannot start an I/O thread: {error}"))
}

fn print_unread(log_index: LogIndex, error: &LogError) {
    stdout::print_message(format_args!(
        "record {} is quarantined; its note in the log was not compared with quarantine.json: \
         {error}",
        log_index.0
    ));
}

/// The error of a replay, with advice.
fn describe_replay_error(error: &ReplayError) -> String {
    match error {
        ReplayError::Log(LogError::Damaged { place, .. }) => {
            format!("{error}{}", advice_on(place))
        }
        error => error.to_string(),
    }
}

fn print_replayed(from: LogIndex, records: u64, took: Duration) {
    let replayed =
        format!("replayed {} in {:.1} s", counted(records, "record"), took.as_secs_f64());
    match from {
        LogIndex(0) => stdout::print_message(format_args!("{replayed}")),
        LogIndex(from) => {
            stdout::print_message(format_args!(
                "continued from the snapshot of record {from} and {replayed}"
            ));
        }
    }
}

/// The recorder of waterfalls. A node that shares its log sees only its own part of a transfer.
fn latency_trace(config: &Config, location: &LogLocation) -> LatencyTrace {
    let trace = LatencyTrace::new(config.threads());
    if 0 < location.node() { trace.with_peers() } else { trace }
}

/// Writes the first commands of a log in files at once. Those of a shared log wait until this node
/// is a member.
fn begin_or_share(
    sequencer: &mut Sequencer<Log>,
    (config, clock): (&Config, &SystemClock),
    (notes, quarantined): (&Notes, &[Entry]),
    topic: Option<Topic>,
) -> Result<Option<SharedLogParams>, CliError> {
    let missing = notes.missing(quarantined);
    let Some(topic) = topic else {
        notes.check_texts(quarantined).map_err(CliError::new)?;
        begin(sequencer, config, clock, missing)?;
        return Ok(None);
    };
    let missing = missing.into_iter().cloned().collect();
    let quarantine = quarantine::for_replay(quarantined);
    Ok(Some(SharedLogParams { topic, missing, quarantine }))
}

/// Replays the log from a start. An error returns the log.
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
        notes.read(log_index, applied.command);
        if log_index.0.is_multiple_of(PROGRESS_RECORDS) {
            progress.show(log_index.0 - before);
        }
    });
    progress.end();
    Ok((sequencer?, notes))
}

/// A replayed log and its parts.
pub(crate) struct OpenedNode {
    pub(crate) sequencer: Sequencer<Log>,
    pub(crate) directory: Directory,
    pub(crate) snapshots: SnapshotterParams,
    segments: Segments,
    pub(crate) shared: Option<SharedLogParams>,
    quarantined: Vec<Entry>,
}

/// Parameters of the thread that takes snapshots.
pub(crate) struct SnapshotterParams {
    pub(crate) disk: TieredDisk<RealDisk>,
    pub(crate) frames: DurableFrames<TieredDisk<RealDisk>>,
    /// The snapshot that the start used.
    before: Option<SnapshotFile>,
    quarantine: Quarantine,
}

impl SnapshotterParams {
    /// The same log and snapshots, for replays.
    fn replays(&self) -> ReplaySource {
        let (disk, frames) = (self.disk.clone(), self.frames.clone());
        ReplaySource::new(disk, frames, self.quarantine.clone())
    }

    /// Starts the thread, which reports each snapshot.
    pub(crate) fn start<M: Send + Sync + 'static>(
        self,
        config: &Config,
        node: Handle<M>,
        report: fn(&SnapshotEvent),
    ) -> Result<Snapshotter, CliError> {
        let Self { disk, frames, before, .. } = self;
        let store = node.store();
        let freeze = Box::new(move || freeze_state(&node));
        let source = SnapshotSource { frames, store, before, freeze };
        snapshots::start_snapshotter(disk, source, config.snapshots_due(), report)
            .map_err(|error| CliError::new(format!("cannot start a thread: {error}")))
    }
}

/// Has the sequencer's thread freeze its state.
fn freeze_state<M: Send + Sync + 'static>(node: &Handle<M>) -> Option<FrozenState> {
    let (sender, receiver) = sync_channel(1);
    let asked = node.ask_durable(move |tail, state| {
        // The snapshot thread may have stopped waiting.
        let _sent = sender.send(FrozenState { tail: *tail, state: state.snapshot() });
    });
    asked.ok()?;
    receiver.recv_timeout(FREEZE_TIMEOUT).ok()
}

fn log_snapshot(event: &SnapshotEvent) {
    match event {
        SnapshotEvent::Taken(taken, took) => {
            for why in &taken.skipped {
                tracing::warn!(%why, "removed an unusable snapshot");
            }
            let (log_index, mib) = (taken.file.log_index.0, taken.bytes.div_ceil(1 << 20));
            tracing::info!(log_index, mib, seconds = took.as_secs_f64(), "took a snapshot");
        }
        SnapshotEvent::Failed(error) => tracing::error!(
            %error,
            "a snapshot failed. The log is not affected; the next attempt is in 1 min"
        ),
    }
}

/// A recovered log.
struct OpenedLog {
    disk: TieredDisk<RealDisk>,
    backend: OpenBackend,
    quarantined: Vec<Entry>,
    keys: Option<DataKeys>,
}

fn open_log(config: &Config, data: &Path, log: &LogOptions) -> Result<OpenedLog, CliError> {
    let failed = |what: String| CliError::new(format!("{}: {what}", data.display()));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data)
        .map_err(|error| failed(format!("cannot create the data directory: {error}")))?;
    let disk = RealDisk::open(data).and_then(TieredDisk::open);
    let disk = disk.map_err(|error| failed(OpenError::from(error).to_string()))?;
    let (disk, keys) = unlock(disk, Access::Write, Some(&config.encryption))?;
    if let Some(keys) = &keys {
        print_encryption(keys, &log.location);
    }
    let options = journal::LogOptions {
        segment_bytes: config.log.segment_mib << 20,
        // The replay reads and checks the other segments that no snapshot replaces.
        verify: Verify::LastSegment,
        tail_policy: log.tail_policy,
        ..journal::LogOptions::default()
    };
    let quarantined = quarantine::load(&disk).map_err(failed)?;
    if log.location.node() == 0 {
        // A log whose creation was interrupted counts; opening it reports its condition.
        truncation::check_begins(&disk, data, has_segments(data)).map_err(failed)?;
    }
    let backend = log.location.open(data, disk.clone(), config.hub_name()?, options)?;
    Ok(OpenedLog { disk, backend, quarantined, keys })
}

/// Prints what remains to be done about encryption.
fn print_encryption(keys: &DataKeys, location: &LogLocation) {
    let others = keys.wrapped_by_others();
    if 0 < others {
        stdout::print_message(format_args!(
            "{} of data.keys {} wrapped by another master key: finish the change with `upesi keys \
             rewrap`",
            counted(others as u64, "key"),
            if others == 1 { "is" } else { "are" }
        ));
    }
    if location.node() != 0 {
        stdout::print_message(
            "ENCRYPTION: the local copy of the log is encrypted, the topic on Kafka is not; \
             encrypt the disks of the brokers",
        );
    }
}

fn print_recovery(recovery: &Recovery, tail_policy: TailPolicy) {
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

/// Prints where segments are read from, unless all are uncompressed in the data directory.
fn print_tiers(disk: &TieredDisk<RealDisk>) -> Result<(), CliError> {
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
        let from_archives = archived.iter().map(|(place, count)| format!(", {count} from {place}"));
        let from_archives: String = from_archives.collect();
        stdout::print_message(format_args!(
            "reads {} here, {compressed} compressed here{from_archives}",
            counted(plain as u64, "segment")
        ));
    }
    Ok(())
}

/// Writes the first record of a new log, notes about quarantined records, and changed settings.
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
        "hub.name is {name}, but this log belongs to {}; the name of a hub cannot be changed",
        state.hub()
    )))
}

/// Notes about quarantined records and settings that the log does not have yet.
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
    (config, arguments): (&Config, &ServeArguments),
    (transfer_mode, signatures, spans, issuers): (
        TransferMode,
        Signatures,
        Option<SpanQueue>,
        &Issuers,
    ),
    (egress_policy, certificates): (&Arc<EgressPolicy>, &Certificates),
) -> Result<switch::IoThreadOptions, CliError> {
    Ok(switch::IoThreadOptions {
        helper_threads: config.helper_threads(),
        policy: config.policy(),
        pool: switch::PoolLimits {
            connect: Duration::from_millis(config.delivery.connect_timeout_ms),
            answer: Duration::from_millis(config.delivery.answer_timeout_ms),
            connections_all: connections_all(
                raise_limit(),
                config.threads() + config.helper_threads().count,
            ),
            ..switch::PoolLimits::default()
        },
        connections: config.connections(),
        participant_usage: switch::ParticipantUsage::new(config.participant_limits()),
        refusals_per_address: NonZeroU32::new(config.fspiop.refusals_per_address),
        gateways: config.gateways(),
        calls_tls: certificates.calls.clone(),
        security: ListenerSecurity {
            tls: certificates.fspiop.clone(),
            callers: config.callers(issuers.fspiop.as_ref()),
            handshake_rate: NonZeroU32::new(config.fspiop.tls_handshakes_per_address),
        },
        egress_policy: Arc::clone(egress_policy),
        expiration_max: config.transfers.expiration_max.map(|span| span.0),
        bulk_items_max: config.transfers.bulk_items_max as usize,
        quotes: config.quotes(),
        quote_rules: config.quote_rules()?,
        conversions: config.conversions(),
        ownership: match config.parties.ownership {
            Ownership::OwnerOnly => ledger::PartyOwnership::OwnerOnly,
            Ownership::OwnerPerCurrency => ledger::PartyOwnership::OwnerPerCurrency,
            Ownership::LatestWins => ledger::PartyOwnership::LatestWins,
        },
        oracles: config.oracles(),
        signatures,
        patience: Duration::from_secs(config.health.stuck_seconds),
        logs_requests: config.logging.access,
        histograms: config.metrics.histograms,
        transfer_mode,
        spans,
        injected_stall: arguments.inject_stuck.and_then(StallTarget::injected_stall),
        ..switch::IoThreadOptions::default()
    })
}

/// Authentication, key of secrets, TLS and provider of the admin API.
type AdminAccess =
    (Auth, Option<SecretsKey>, Option<Arc<ServerTls>>, Option<operations::ProviderOperators>);

fn admin_access(
    config: &Config,
    data: &Path,
    (certificates, issuers): (&Certificates, &Issuers),
) -> Result<AdminAccess, CliError> {
    let provider = config.provider_operators(issuers.admin.as_ref());
    let tls = certificates.admin.clone();
    Ok((admin_auth(config, data)?, secrets_key(config, data)?, tls, provider))
}

fn admin_auth(config: &Config, data: &Path) -> Result<Auth, CliError> {
    let with: fn(Token) -> Auth = match config.admin.auth {
        config::Auth::None => return Ok(Auth::None),
        config::Auth::Token => Auth::Token,
        config::Auth::Roles => Auth::Roles,
    };
    if let Some(token) = given_token(config)? {
        return Ok(with(token));
    }
    with_private_file(data, "admin-token", operations::load_or_create_token).map(with)
}

/// The key of sessions and second factors, where operators have roles.
fn secrets_key(config: &Config, data: &Path) -> Result<Option<SecretsKey>, CliError> {
    if config.admin.auth != config::Auth::Roles {
        return Ok(None);
    }
    let key = match given_secrets_key(config)? {
        Some(key) => key,
        None => {
            with_private_file(data, "admin-secrets-key", operations::load_or_create_secrets_key)?
        }
    };
    Ok(Some(key))
}

/// Reads or creates a file in the data directory, which is created if it is missing.
fn with_private_file<T>(
    data: &Path,
    name: &str,
    load: fn(&Path) -> io::Result<T>,
) -> Result<T, CliError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data)
        .map_err(|error| CliError::new(format!("{}: {error}", data.display())))?;
    let path = data.join(name);
    load(&path).map_err(|error| CliError::new(format!("{}: {error}", path.display())))
}

/// The key in `admin.secrets_key_file`, if configured.
pub(crate) fn given_secrets_key(config: &Config) -> Result<Option<SecretsKey>, CliError> {
    let Some(path) = &config.admin.secrets_key_file else { return Ok(None) };
    let failed =
        |error| CliError::new(format!("admin.secrets_key_file: {}: {error}", path.display()));
    operations::load_secrets_key(path).map(Some).map_err(failed)
}

/// The token in `admin.token_file`, if configured.
pub(crate) fn given_token(config: &Config) -> Result<Option<Token>, CliError> {
    let Some(path) = &config.admin.token_file else { return Ok(None) };
    let failed = |error| CliError::new(format!("admin.token_file: {}: {error}", path.display()));
    operations::load_token(path).map(Some).map_err(failed)
}

fn admin_options(
    config: &Config,
    (auth, secrets, tls, provider): AdminAccess,
    (keys, egress, certificates): (AdminKeys, Arc<EgressPolicy>, &Certificates),
) -> AdminOptions {
    AdminOptions {
        keys,
        hosts: config.admin.hosts.clone(),
        origins: config.admin.origins.clone(),
        egress,
        tls,
        proposal_time: Duration::from_secs(config.admin.proposal_seconds),
        address_limits: AddressLimits {
            rate: NonZeroU32::new(config.admin.address_rate_max),
            in_progress: NonZeroU32::new(config.admin.address_requests_max),
        },
        audit_reads: match config.admin.audit_reads {
            AuditedReads::None => AuditReads::None,
            AuditedReads::Sensitive => AuditReads::Sensitive,
            AuditedReads::All => AuditReads::All,
        },
        secrets,
        provider,
        enrolment: EnrolmentOptions {
            authority: certificates.authority.clone(),
            listener: certificates.fspiop.clone(),
            days: config.enrolment.days,
            name_pattern: config.fspiop.certificate_pattern.clone(),
        },
        ..AdminOptions::new(auth)
    }
}

fn seed() -> Result<u64, CliError> {
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).map_err(|error| CliError::new(error.to_string()))?;
    Ok(u64::from_le_bytes(seed))
}
