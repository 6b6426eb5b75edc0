//! The growth sweep: rate, latency, start, memory and disk of a switch with few and with many
//! stored transfers.
//!
//! Phases: (1) check for enough disk space; (2) fill a directory for each size; (3) time the
//! rebuild of the largest store, and measure the size of a compressed log; (4) kill each switch
//! with `kill -9` and time its start; (5) load the sizes in turn, round by round, so that a change
//! in the speed of the machine affects all of them; (6) stop each switch after its last round and
//! verify its log; (7) measure kernel, log and store without HTTP with `upesi-bench core`. All
//! switches run at the same time, one of them under load. Small directories are copied before each
//! round, since a round adds to them. The party directory is measured in the same rounds
//! ([`crate::sweep::aliases`]).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::de::IgnoredAny;

use crate::bench::run;
use crate::bench_report::{BenchReport, Durability};
use crate::options::BenchOptions;
use crate::sweep::GrowthOptions;
use crate::sweep::aliases::{self, ALIAS_BYTES, AliasSwitch};
use crate::sweep::disk_events::{DiskWatcher, SecondsByEvent};
use crate::sweep::offline::{OfflineFigures, core_rate};
use crate::sweep::plans::base;
use crate::sweep::report::{Step, SweepReport};
use crate::sweep::tables::{Goal, Row, Table};
use harness::error::HarnessError;
use harness::footprint::Footprint;
use harness::interrupt::Interrupt;
use harness::options::require;
use harness::proc_stats::free_bytes;
use harness::scenario::Scenario;
use harness::switch_process::{
    Confirm, SwitchCommand, SwitchProcess, own_program, run_json_command,
};

/// Upper bound of the disk space of a transfer with a body of 1 KB.
const TRANSFER_BYTES: u64 = 2_500;
/// Upper bound of the same, compressed or without bodies.
const PACKED_BYTES: u64 = 800;
/// Disk space of log and store for a transfer without bodies, while tables are merged.
const ALONE_BYTES: u64 = 1_000;
/// Maximum number of transfers whose log is compressed.
const PACKED_MAX: u64 = 1_000_000;
/// Maximum growth of a log in one second at the highest rate, and the number of such seconds per
/// configured second of a round: one run at that rate and two at half of it.
const ADDED_BYTES_PER_S: f64 = 45e6;
const ADDED_SECONDS: f64 = 2.0;
/// Disk space to leave free.
const FREE_BYTES: u64 = 2 << 30;
const FREE_BYTES_QUICK: u64 = 64 << 20;
/// Directories up to this size are copied before each round.
const COPIED_BYTES_MAX: u64 = 1 << 30;
/// Number of aliases that larger directories are compared with.
const FEW_ALIASES: u64 = 10_000;
const QUICK_ALIASES: [u64; 2] = [200, 2_000];
const IN_FLIGHT: usize = 256;
/// Longest run of look-ups, and minimum number of rounds. A single stall would otherwise decide the
/// p99.
const LOOK_UP_SECONDS_MAX: f64 = 30.0;
const LOOK_UP_ROUNDS: usize = 5;
/// Longest load before a switch is killed to time its start.
const BEFORE_KILL_SECONDS: f64 = 5.0;
/// Fraction of a run after which a snapshot is requested.
const SNAPSHOT_AT: f64 = 0.3;

/// Makes the runs.
///
/// # Errors
///
/// The options are invalid, the disk has too little space, or a switch does not start.
pub(crate) fn growth(
    options: &GrowthOptions,
    command: &SwitchCommand,
) -> Result<SweepReport, HarnessError> {
    let size = Extent::of(options)?;
    let command = command.clone().confirming(Confirm::Off);
    let directory = WorkDirectory::new(options.data.clone())?;
    size.check_room(&directory.path)?;
    let interrupt = Interrupt::listen();
    let mut switches = Vec::new();
    for stored in &size.sizes {
        interrupt.check()?;
        switches.push(SizedSwitch::fill(*stored, (&directory.path, size.segment_mib()), &command)?);
    }
    let offline =
        OfflineFigures::measure(&directory.path, (switches.last(), packable(&switches)), &command)?;
    for sized in &mut switches {
        interrupt.check()?;
        sized.begin(&size, &command)?;
    }
    let mut directories = Vec::new();
    for aliases in size.directories() {
        interrupt.check()?;
        let sized = AliasSwitch::take(aliases, &directory.path, (size.quick, &command))?;
        directories.push(sized);
    }
    let look_up = (size.seconds.min(LOOK_UP_SECONDS_MAX), size.quick);
    let lookups_per_s = match directories.first() {
        Some(sized) => (sized.top_rate(look_up, &command)? / 2.0).max(1.0),
        None => 0.0,
    };
    let mut invalid_because = Vec::new();
    for round in 1..=size.rounds {
        for sized in &mut switches {
            interrupt.check()?;
            eprintln!("round {round} of {}: {} stored transfers", size.rounds, short(sized.stored));
            sized.round(round, &size, &command)?;
            if round == size.rounds {
                invalid_because.extend(sized.end(directory.temporary, &command));
                invalid_because.extend(sized.problems());
            }
        }
    }
    let least = if size.quick { 1 } else { LOOK_UP_ROUNDS };
    for _ in 0..least.max(size.rounds) {
        for sized in &mut directories {
            interrupt.check()?;
            sized.round(lookups_per_s, look_up, &command)?;
        }
    }
    for sized in &mut directories {
        invalid_because.extend(sized.end(&command));
    }
    let largest = switches.last().map(|sized| core_rate(&directory.path, sized.stored));
    let core = largest.transpose().unwrap_or_else(|error| {
        // The other results remain valid if only this measurement fails.
        invalid_because.push(format!("measurement of kernel, log and store: {error}"));
        None
    });
    Ok(report(&switches, &directories, (&offline, core.flatten()), invalid_because))
}

/// The largest directory whose log is compressed.
fn packable(switches: &[SizedSwitch]) -> Option<&SizedSwitch> {
    switches.iter().rfind(|sized| sized.stored <= PACKED_MAX).or(switches.first())
}

/// How large the sweep is.
struct Extent {
    sizes: Vec<u64>,
    seconds: f64,
    rounds: usize,
    aliases: u64,
    quick: bool,
    /// Whether a directory is kept after its load.
    keeps: bool,
}

impl Extent {
    fn of(options: &GrowthOptions) -> Result<Self, HarnessError> {
        let quick = options.output.quick;
        let mut sizes = if quick { vec![500, 2_000] } else { options.sizes.clone() };
        sizes.sort_unstable();
        sizes.dedup();
        require(!sizes.is_empty(), "--sizes: expected at least one size, such as 0.1M,1M")?;
        require((0.5..=3_600.0).contains(&options.seconds), "--seconds: expected 0.5 to 3600")?;
        require((1..=100).contains(&options.rounds), "--rounds: expected 1 to 100")?;
        let (seconds, rounds) = if quick { (2.0, 1) } else { (options.seconds, options.rounds) };
        let aliases = if quick { options.aliases.min(QUICK_ALIASES[1]) } else { options.aliases };
        let few = if quick { QUICK_ALIASES[0] } else { FEW_ALIASES };
        require(
            aliases == 0 || (few < aliases && aliases <= 1_000_000_000),
            "--aliases: expected 0, or more than 10k and up to 1000M",
        )?;
        let keeps = options.data.is_some();
        Ok(Self { sizes, seconds, rounds, aliases, quick, keeps })
    }

    /// Length of the segments. A quick sweep has several of them, too.
    fn segment_mib(&self) -> u64 {
        if self.quick { 1 } else { 256 }
    }

    /// Numbers of aliases that are compared.
    fn directories(&self) -> Vec<u64> {
        match (self.aliases, self.quick) {
            (0, _) => Vec::new(),
            (many, true) => vec![QUICK_ALIASES[0], many],
            (many, false) => vec![FEW_ALIASES, many],
        }
    }

    /// Maximum disk space that the rounds add. With a single round, each directory is removed after
    /// its load unless it is kept.
    fn added_bytes(&self) -> u64 {
        let one = (self.seconds * ADDED_SECONDS * ADDED_BYTES_PER_S) as u64;
        let goes = self.rounds == 1 && !self.keeps;
        let at_once = if goes { 1 } else { self.rounds * self.sizes.len() };
        if self.quick { 0 } else { one * at_once as u64 }
    }

    /// Checks for enough free disk space. Existing directories count as allocated.
    fn check_room(&self, place: &Path) -> Result<(), HarnessError> {
        let missing = |stored: &u64| {
            let there = Footprint::of(&directory(place, *stored)).total();
            // Small ones exist twice.
            let copies = if stored * TRANSFER_BYTES <= COPIED_BYTES_MAX { 2 } else { 1 };
            (stored * TRANSFER_BYTES * copies).saturating_sub(there)
        };
        let rest = if self.quick { FREE_BYTES_QUICK } else { FREE_BYTES };
        let aliases = self.directories().iter().sum::<u64>() * ALIAS_BYTES;
        let packed = self.sizes.last().map_or(0, |stored| PACKED_MAX.min(*stored) * PACKED_BYTES);
        let filled = self.sizes.iter().map(missing).sum::<u64>();
        // The final measurement of kernel, log and store fills another directory. Directories that
        // are not kept have been removed by then.
        let largest = self.sizes.last().copied().unwrap_or_default();
        let alone = if self.keeps { largest * ALONE_BYTES } else { 0 };
        let needed = filled + self.added_bytes() + aliases + packed + alone + rest;
        let free = free_bytes(place)?;
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        let (needed_gb, free_gb, place) = (gigabytes(needed), gigabytes(free), place.display());
        let names: Vec<_> = self.sizes.iter().map(|stored| short(*stored)).collect();
        require(
            needed <= free,
            &format!(
                "directories of {} transfers, and of the aliases, need {needed_gb:.1} GB, but \
                 {place} has {free_gb:.1} GB free; choose smaller --sizes, or --data DIR on a \
                 larger disk",
                names.join(", ")
            ),
        )
    }
}

/// The directory of the sweep. A temporary one is removed at the end, also after a failure.
struct WorkDirectory {
    path: PathBuf,
    temporary: bool,
}

impl WorkDirectory {
    fn new(given: Option<PathBuf>) -> Result<Self, HarnessError> {
        let temporary = given.is_none();
        let own = || std::env::temp_dir().join(format!("upesi-growth-{}", std::process::id()));
        let path = given.unwrap_or_else(own);
        fs::create_dir_all(&path).map_err(HarnessError::file(&path))?;
        Ok(Self { path, temporary })
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        if self.temporary {
            // The system cleans up what cannot be removed here.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A directory of one size, its switch and its measurements.
pub(crate) struct SizedSwitch {
    pub(crate) stored: u64,
    /// The filled directory.
    pub(crate) data: PathBuf,
    /// The directory that the switch uses: the filled one or a copy.
    used: PathBuf,
    footprint: Footprint,
    ready: Duration,
    resident: u64,
    switch: Option<SwitchProcess>,
    closed: Vec<BenchReport>,
    half: Vec<BenchReport>,
    /// At half the rate, with a snapshot during the run.
    snapshot: Vec<BenchReport>,
    /// Seconds at half the rate.
    seconds: SecondsByEvent,
}

impl SizedSwitch {
    /// Fills the directory.
    fn fill(
        stored: u64,
        (place, segment_mib): (&Path, u64),
        command: &SwitchCommand,
    ) -> Result<Self, HarnessError> {
        let data = directory(place, stored);
        eprintln!("filling {} with {} transfers", data.display(), short(stored));
        fill(command, &data, stored, segment_mib)?;
        let footprint = Footprint::of(&data);
        let copied = footprint.total() <= COPIED_BYTES_MAX;
        let used = if copied { data.with_extension("copy") } else { data.clone() };
        Ok(Self {
            stored,
            data,
            used,
            footprint,
            ready: Duration::ZERO,
            resident: 0,
            switch: None,
            closed: Vec::new(),
            half: Vec::new(),
            snapshot: Vec::new(),
            seconds: SecondsByEvent::default(),
        })
    }

    /// Starts the switch, kills it right after a load, and times the next start.
    fn begin(&mut self, size: &Extent, command: &SwitchCommand) -> Result<(), HarnessError> {
        self.renew()?;
        eprintln!(
            "killing the switch with {} stored transfers and restarting it",
            short(self.stored)
        );
        let loaded = SwitchProcess::start(command, &self.used)?;
        let options = BenchOptions { concurrency: IN_FLIGHT, ..base(size.quick) };
        let seconds = size.seconds.min(BEFORE_KILL_SECONDS);
        load(&loaded, Load { scenario: Scenario::Transfer, options, seconds }, command)?;
        // Dropping the process kills it: the log is ahead of its last snapshot, and the store has
        // an open journal.
        drop(loaded);
        let switch = SwitchProcess::start(command, &self.used)?;
        self.ready = switch.ready_after;
        self.switch = Some(switch);
        self.restart(command)
    }

    /// Restores a copied directory to its filled state and restarts the switch.
    fn restart(&mut self, command: &SwitchCommand) -> Result<(), HarnessError> {
        if self.used != self.data {
            self.switch.take().map_or(Ok(()), SwitchProcess::stop)?;
            self.renew()?;
            self.switch = Some(SwitchProcess::start(command, &self.used)?);
        }
        Ok(())
    }

    /// Copies the filled directory again, if it is one that is copied.
    fn renew(&self) -> Result<(), HarnessError> {
        if self.used == self.data {
            return Ok(());
        }
        match fs::remove_dir_all(&self.used) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(HarnessError::file(&self.used)(error))
            }
            _ => copy(&self.data, &self.used),
        }
    }

    /// Measures the highest rate, the latency at half of it, and the same with a snapshot.
    fn round(
        &mut self,
        round: usize,
        size: &Extent,
        command: &SwitchCommand,
    ) -> Result<(), HarnessError> {
        if round > 1 {
            self.restart(command)?;
        }
        let options = BenchOptions { concurrency: IN_FLIGHT, ..base(size.quick) };
        let closed = self.bench(options, size, command)?;
        let rate = Some((closed.whole_run.rate_per_s / 2.0).max(1.0));
        self.closed.push(closed);
        self.restart(command)?;
        let at_half = || BenchOptions { rate, ..base(size.quick) };
        let half = self.watched(at_half(), size, command)?;
        self.half.push(half);
        self.restart(command)?;
        let switch = self.switch.as_ref().expect("the switch runs until the end");
        let request = SnapshotRequest::after(size.seconds * SNAPSHOT_AT, switch)?;
        let result = self.watched(at_half(), size, command)?;
        if request.end()? {
            self.snapshot.push(result);
        }
        Ok(())
    }

    fn bench(
        &self,
        options: BenchOptions,
        size: &Extent,
        command: &SwitchCommand,
    ) -> Result<BenchReport, HarnessError> {
        let switch = self.switch.as_ref().expect("the switch runs until the end");
        load(switch, Load { scenario: Scenario::Transfer, options, seconds: size.seconds }, command)
    }

    /// Makes a run and groups its seconds by the disk events of the switch.
    fn watched(
        &mut self,
        options: BenchOptions,
        size: &Extent,
        command: &SwitchCommand,
    ) -> Result<BenchReport, HarnessError> {
        let watcher = DiskWatcher::start(&self.used)?;
        let result = self.bench(options, size, command);
        let events = watcher.end();
        let result = result?;
        self.seconds.add(&result, &events);
        Ok(result)
    }

    /// Stops the switch and verifies its log. Returns a problem. Removes directories that are not
    /// needed any more.
    fn end(&mut self, is_temporary: bool, command: &SwitchCommand) -> Option<String> {
        eprintln!(
            "stopping the switch with {} stored transfers and verifying its log",
            short(self.stored)
        );
        let switch = self.switch.take()?;
        self.resident = switch.figures().resident_bytes;
        let stopped = switch.stop().map_err(|error| error.to_string());
        let problem = stopped.and_then(|()| command.verify(&self.used)).err();
        if is_temporary || self.used != self.data {
            // A copy is recreated when it is needed.
            let _ = fs::remove_dir_all(&self.used);
        }
        problem.map(|problem| format!("{} stored: {problem}", short(self.stored)))
    }

    fn problems(&self) -> Vec<String> {
        let runs = self.closed.iter().chain(&self.half).chain(&self.snapshot);
        let void = runs.filter(|run| !run.valid);
        let why = |run: &BenchReport| run.invalid_because.first().cloned().unwrap_or_default();
        void.map(|run| format!("{} stored: {}", short(self.stored), why(run))).collect()
    }

    fn rate(&self) -> Option<f64> {
        median(self.closed.iter().map(|run| run.whole_run.rate_per_s))
    }

    fn p99(runs: &[BenchReport]) -> Option<f64> {
        median(runs.iter().map(|run| run.whole_run.latency_ms.p99))
    }

    fn live_bytes(&self) -> f64 {
        let found = &self.footprint;
        (found.log + found.store + found.snapshots) as f64 / self.stored as f64
    }

    fn archived_bytes(&self, packed_share: f64) -> f64 {
        let found = &self.footprint;
        let log = found.log as f64 * packed_share;
        (log + (found.store + found.snapshots) as f64) / self.stored as f64
    }
}

/// Fills a directory with this program's own `preload`, which shows its progress.
fn fill(
    command: &SwitchCommand,
    data: &Path,
    stored: u64,
    segment_mib: u64,
) -> Result<(), HarnessError> {
    let what = format!("preload --total {stored} --segment-mib {segment_mib}");
    let switch = ["--program".as_ref(), command.program.as_os_str()];
    let arguments = [&["--data".as_ref(), data.as_os_str()], &switch[..]].concat();
    run_json_command::<IgnoredAny>(&own_program()?, &what, &arguments).map(drop)
}

/// The parameters of a run.
pub(crate) struct Load {
    pub(crate) scenario: Scenario,
    pub(crate) options: BenchOptions,
    pub(crate) seconds: f64,
}

/// Makes one run against a running switch.
pub(crate) fn load(
    switch: &SwitchProcess,
    Load { scenario, options, seconds }: Load,
    command: &SwitchCommand,
) -> Result<BenchReport, HarnessError> {
    let options = BenchOptions {
        seconds,
        hub: Some(format!("http://{}", switch.fspiop)),
        admin: Some(format!("http://{}", switch.admin)),
        token: Some(switch.token_file().to_owned()),
        pid: Some(switch.process()),
        ..options
    };
    let mut result = run(scenario, &options, command)?;
    // The run treats the switch as a remote hub of unknown durability.
    result.summary.durability.clone_from(&command.durability);
    result.durability_of = Durability::embedded();
    Ok(result)
}

/// Requests a snapshot during a run, unless the run ends earlier.
struct SnapshotRequest {
    thread: JoinHandle<Option<Result<u16, HarnessError>>>,
    /// Dropped when the run ends.
    under_way: SyncSender<()>,
}

impl SnapshotRequest {
    fn after(seconds: f64, switch: &SwitchProcess) -> Result<Self, HarnessError> {
        let mut admin = switch.admin()?;
        let (under_way, ended) = sync_channel(0);
        let take = move || match ended.recv_timeout(Duration::from_secs_f64(seconds)) {
            Err(RecvTimeoutError::Timeout) => {
                let asked = admin.call("POST", "/snapshots", None);
                Some(asked.map(|answered| answered.status))
            }
            _ => None,
        };
        let thread = thread::Builder::new().name("snapshot".to_owned()).spawn(take);
        Ok(Self { thread: thread.map_err(HarnessError::file("/snapshots"))?, under_way })
    }

    /// Returns whether a snapshot was taken.
    fn end(self) -> Result<bool, HarnessError> {
        drop(self.under_way);
        let asked = self.thread.join().map_err(|_| HarnessError::SimulatorsEnded)?;
        Ok(asked.transpose()?.is_some_and(|status| status < 300))
    }
}

fn directory(place: &Path, stored: u64) -> PathBuf {
    place.join(format!("stored-{stored}"))
}

/// Copies a directory, and syncs the copy before anything is measured.
fn copy(from: &Path, to: &Path) -> Result<(), HarnessError> {
    fs::create_dir_all(to).map_err(HarnessError::file(to))?;
    for entry in fs::read_dir(from).map_err(HarnessError::file(from))? {
        let entry = entry.map_err(HarnessError::file(from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy(&source, &target)?;
            continue;
        }
        let copied = fs::copy(&source, &target);
        let synced = copied.and_then(|_| fs::File::open(&target)?.sync_all());
        synced.map_err(HarnessError::file(&target))?;
    }
    Ok(())
}

fn report(
    switches: &[SizedSwitch],
    directories: &[AliasSwitch],
    (offline, core): (&OfflineFigures, Option<f64>),
    invalid_because: Vec<String>,
) -> SweepReport {
    let of = |sized: &SizedSwitch, (group, what), runs: &[BenchReport]| {
        let result = middle(runs)?.clone();
        let name = format!("{} stored, {what}", short(sized.stored));
        let at = sized.stored as f64 / 1e6;
        Some(Step { name, group: str::to_owned(group), at, published: Vec::new(), result })
    };
    let closed = ("256 in flight, by millions stored", "256 in flight");
    let half = ("half of the top rate, by millions stored", "half rate");
    let steps = switches.iter().filter_map(|sized| of(sized, closed, &sized.closed));
    let steps = steps.chain(switches.iter().filter_map(|sized| of(sized, half, &sized.half)));
    let asked = ("half of the top rate, a snapshot on the way", "half rate, with a snapshot");
    let steps = steps.chain(switches.iter().filter_map(|sized| of(sized, asked, &sized.snapshot)));
    let steps = steps.chain(directories.iter().filter_map(AliasSwitch::step)).collect();
    SweepReport {
        sweep: "growth",
        question: "transfers with few and with many stored: does the switch stay fast, and what \
                   does it need of memory, disk and time to start"
            .to_owned(),
        valid: invalid_because.is_empty(),
        invalid_because,
        published: Vec::new(),
        facts: Default::default(),
        tables: [table(switches)].into_iter().chain(aliases::table(directories)).collect(),
        goals: [goals(switches, offline, core), aliases::goals(directories)].concat(),
        steps,
    }
}

fn table(switches: &[SizedSwitch]) -> Table {
    let columns = [
        "stored",
        "rate/s",
        "relative",
        "p99 ms",
        "relative",
        "rotation",
        "compaction",
        "snapshot",
        "ready s",
        "RSS MB",
        "log B",
        "store B",
        "snap B",
    ];
    let first = switches.first();
    let rate = first.and_then(SizedSwitch::rate);
    let p99 = first.and_then(|sized| SizedSwitch::p99(&sized.half));
    let row = |sized: &SizedSwitch| {
        let each = |bytes: u64| Some(bytes as f64 / sized.stored as f64);
        let (own_rate, own_p99) = (sized.rate(), SizedSwitch::p99(&sized.half));
        let found = &sized.footprint;
        Row {
            name: short(sized.stored),
            figures: vec![
                own_rate,
                relative(own_rate, rate),
                own_p99,
                relative(own_p99, p99),
                sized.seconds.relative()[0],
                sized.seconds.relative()[1],
                sized.seconds.relative()[2],
                Some(sized.ready.as_secs_f64()),
                Some(sized.resident as f64 / 1e6),
                each(found.log),
                each(found.store),
                each(found.snapshots),
            ],
        }
    };
    Table {
        title:
            "by transfers stored before: top rate with 256 in flight, p99 at half of it, p99 of \
                the seconds with a rotation, with a flush or compaction and with a snapshot, each \
                against quiet ones (- if there were none), start after kill -9 in the middle of \
                work, memory after the load, bytes on disk for each transfer; medians of the \
                rounds"
                .to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: switches.iter().map(row).collect(),
    }
}

/// The limits were set for ten million stored against a hundred thousand.
fn goals(switches: &[SizedSwitch], offline: &OfflineFigures, core: Option<f64>) -> Vec<Goal> {
    let (Some(few), Some(many)) = (switches.first(), switches.last()) else { return Vec::new() };
    let against = format!("{} stored against {}", short(many.stored), short(few.stored));
    let with = |what: &str| format!("{what}, {} stored", short(many.stored));
    let p99 = SizedSwitch::p99(&many.half);
    let (ready, resident) = (many.ready.as_secs_f64(), many.resident as f64 / 1e6);
    let [rotation, compaction, snapshot] = many.seconds.relative();
    let archived = offline.packed_share.map(|share| many.archived_bytes(share));
    let quiet = |what: &str| with(&format!("p99 of seconds with a {what} against quiet ones"));
    let rate = relative(many.rate(), few.rate());
    let half = relative(p99, SizedSwitch::p99(&few.half));
    let goals = [
        (format!("transfer rate, {against}"), rate, [0.92, 0.98]),
        (format!("p99 at half the top rate, {against}"), half, [1.3, 1.05]),
        (quiet("snapshot"), snapshot, [1.5, 1.1]),
        (quiet("rotation"), rotation, [1.5, 1.1]),
        (quiet("compaction"), compaction, [1.5, 1.1]),
        (with("commands/s of kernel, log and store, without HTTP"), core, [350e3, 1e6]),
        (with("transfers/s when the store is rebuilt"), offline.rebuilt_per_s, [100e3, 300e3]),
        (with("s until ready after kill -9"), Some(ready), [15.0, 3.0]),
        (with("MB resident after the load"), Some(resident), [600.0, 300.0]),
        (with("bytes on disk a transfer, live"), Some(many.live_bytes()), [3_200.0, 2_200.0]),
        (with("bytes on disk a transfer, archived"), archived, [1_300.0, 800.0]),
    ];
    goals.into_iter().map(|(name, value, bounds)| Goal::new(name, value, bounds)).collect()
}

pub(crate) fn relative(value: Option<f64>, to: Option<f64>) -> Option<f64> {
    Some(value? / to.filter(|to| *to > 0.0)?)
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The run with the median p99.
pub(crate) fn middle(runs: &[BenchReport]) -> Option<&BenchReport> {
    let mut runs: Vec<_> = runs.iter().collect();
    runs.sort_by(|a, b| a.whole_run.latency_ms.p99.total_cmp(&b.whole_run.latency_ms.p99));
    runs.get(runs.len() / 2).copied()
}

/// Formats a count: `0.1M`, `250k`, `42`.
pub(crate) fn short(count: u64) -> String {
    match count {
        100_000.. => format!("{}M", count as f64 / 1e6),
        1_000.. => format!("{}k", count as f64 / 1e3),
        _ => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_parse_to_the_number_they_were_formatted_from() {
        for (count, text) in [
            (10_000_000, "10M"),
            (100_000, "0.1M"),
            (1_234_567, "1.234567M"),
            (2_500, "2.5k"),
            (42, "42"),
        ] {
            assert_eq!(short(count), text);
            assert_eq!(harness::options::count(text), Ok(count));
        }
    }

    #[test]
    fn median_is_one_of_the_values() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([].into_iter()), None);
        assert_eq!(relative(Some(3.0), Some(0.0)), None);
    }
}
