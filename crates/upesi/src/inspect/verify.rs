//! `upesi verify`: replays a whole log in one pass and compares it with independent accounts
//! ([`accounting`]). Changes nothing in the data directory.

pub(crate) mod accounting;
mod erased_ranges;
mod erasures;

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::mem;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::{
    Damage, LocatedFrame, LogWalk, MARK, OfflineReader, OpenError, TruncatedTail, advice_on,
};
use ledger::{ApplyStep, Effects, FspName, LogIndex, State};
use ports::{DiskError, RecordReader, StopReading, StoreError, byte_of};
use record::command::{is_from_participant, read_fields};
use record::frame::{LogIdentity, Payload, damaged_records};
use sequencer::{ColdTier, Replay, ReplayError, ReplayStart};
use serde::Serialize;
use store::{Disk, StoreOptions, WriteBehind};

use crate::CliError;
use crate::cli::stdout::{moment, print_json};
use crate::cli::units::{Count, counted};
use crate::data::restore::tail_after;
use crate::data::snapshot::{SnapshotChecks, SnapshotFault};
use crate::inspect::explain::fields_of;
use crate::inspect::offline::{OfflineLog, OpenFailure};
use crate::inspect::verify::accounting::{Audit, Figures, Finding, first_mismatch};
use crate::inspect::verify::erasures::{ErasedContents, ErasureProof};
use crate::operate::quarantine::{self, Notes, QuarantinedRecord};

/// Longest log, in records, whose growing data is kept in memory: at most 0.8 GB.
const RECORDS_IN_MEMORY: u64 = 4_000_000;
/// Directory for large temporary files without `$TMPDIR`: on a disk, unlike some `/tmp`.
const TEMPORARY: &str = "/var/tmp";
/// Advice for a log with valid frames and a wrong content.
const ADVICE: &str = "Nothing was changed; keep this directory, compare it with a copy of the log, \
                      and continue with a copy that verifies";
/// Time that a final transfer stays in memory with a scratch directory, by the log's stamps. Most
/// resends arrive within it.
const KEEP_FINAL: Duration = Duration::from_secs(1);
/// Maximum number of rows in the write queue of the scratch store.
const QUEUE_MAX: usize = 8_192;
/// Cache of the scratch store. Few rows are read again.
const CACHE_BYTES: u64 = 8 << 20;

/// The result for a valid log.
#[derive(Debug, Serialize)]
struct Proof {
    ok: bool,
    segments: usize,
    bytes: u64,
    batches: u64,
    records: u64,
    /// Batches whose recorded outcomes were reproduced. No frame confirms the last batch yet.
    batches_confirmed: u64,
    last_stamp: String,
    transfers_ended: usize,
    transfers_in_flight: usize,
    notices_owed: usize,
    dead_letters: usize,
    participants: usize,
    accounts: usize,
    #[serde(flatten)]
    figures: Figures,
    /// Quarantined records, with their notes in the log.
    quarantined: Vec<QuarantinedRecord>,
    /// Erasures, each with the contents that it erased.
    erasures: Vec<ErasureProof>,
    /// Snapshots that equal the replayed state.
    snapshots: u64,
    /// The log index in `durable.mark`; `None` without this file.
    durable_mark: Option<u64>,
    chain_head: String,
    outcome_digest: String,
    state_hash: String,
    seconds: f64,
    records_per_second: u64,
}

/// The result without a valid log: its first fault, or why it could not be verified.
#[derive(Debug, Serialize)]
struct Disproof {
    /// `None` if the log is neither verified nor faulty.
    ok: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<Box<LogFault>>,
    /// Why the log could not be verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Valid records before that.
    records: u64,
    seconds: f64,
}

/// The first fault of a log.
#[derive(Debug, Default, Serialize)]
struct LogFault {
    segment: Option<String>,
    offset: Option<u64>,
    /// The record, or the one expected at this byte.
    log_index: Option<u64>,
    transfer: Option<String>,
    what: String,
    /// The fault as one line.
    #[serde(skip)]
    line: String,
    /// Whether it is a failure of the scratch directory, not a fault of the log.
    #[serde(skip)]
    of_scratch: bool,
    /// Whether it is about one record, not about the batch.
    #[serde(skip)]
    is_of_record: bool,
    /// Whether its record is in an earlier frame than the one that showed it.
    #[serde(skip)]
    is_earlier: bool,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi verify --data /var/lib/upesi          result as a table
  upesi verify --data /var/lib/upesi --json   for scripts: ok, fault.segment, .offset, .log_index
A running switch locks its directory: stop it, or verify a copy of the directory.";

/// Arguments of `verify`.
#[derive(clap::Args)]
pub(crate) struct VerifyArguments {
    /// Directory of the log; read only. The switch must not be running on it.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Directory for temporary files, instead of memory.
    ///
    /// Uses about 300 bytes per transfer and takes 50 % longer. [default: memory up to 4 million
    /// records, then $TMPDIR or /var/tmp]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Print the result or the fault as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn verify(arguments: &VerifyArguments) -> Result<(), CliError> {
    let started = Instant::now();
    let VerifyFailure { fault, records, failure } = match prove(arguments, started) {
        Ok(proof) => return print(&proof, arguments.json),
        Err(failure) => failure,
    };
    if arguments.json {
        print_json(&Disproof {
            ok: fault.is_some().then_some(false),
            error: fault.is_none().then(|| failure.to_string()),
            fault,
            records,
            seconds: started.elapsed().as_secs_f64(),
        })?;
    }
    Err(failure)
}

/// Why a log is not verified.
struct VerifyFailure {
    /// The first fault; `None` if another error prevented the verification.
    fault: Option<Box<LogFault>>,
    /// Valid records before that.
    records: u64,
    failure: CliError,
}

impl From<CliError> for VerifyFailure {
    fn from(failure: CliError) -> Self {
        Self { fault: None, records: 0, failure }
    }
}

/// Reads the log from end to end.
fn prove(arguments: &VerifyArguments, started: Instant) -> Result<Proof, VerifyFailure> {
    let log = OfflineLog::open(&arguments.data).map_err(open_failure)?;
    let parent = scratch_for(log.records_about(), arguments.scratch.as_deref());
    let mark = journal::read_stored_mark(log.disk()).map_err(|error| log.failure(error))?;
    let scratch = parent.as_deref().map(Scratch::within).transpose()?;
    let mut pass = Pass::over(&log, parent.as_deref(), scratch.as_ref())?;
    let walked = pass.read()?;
    let checks = pass.close(&walked, mark)?;
    Ok(proof(&pass, &walked, checks, started))
}

/// Results of the checks after the replay.
struct FinalChecks {
    quarantined: Vec<QuarantinedRecord>,
    erasures: Vec<ErasureProof>,
    snapshots: u64,
    durable_mark: Option<u64>,
}

/// One pass over a log, with the data to compare it with.
struct Pass<'a> {
    log: &'a OfflineLog,
    /// Parent of the scratch directory.
    parent: Option<&'a Path>,
    replay: Replay,
    audit: Audit,
    erased: ErasedContents,
    notes: Notes,
    snapshots: SnapshotChecks,
}

impl<'a> Pass<'a> {
    fn over(
        log: &'a OfflineLog,
        parent: Option<&'a Path>,
        scratch: Option<&Scratch>,
    ) -> Result<Self, CliError> {
        let (cold, audit) = match scratch {
            Some(scratch) => (Some(scratch.cold_tier()?), Audit::with_file(scratch.list()?)),
            None => (None, Audit::default()),
        };
        let quarantine = quarantine::for_replay(&log.quarantined);
        let replay = Replay::from(ReplayStart { state: State::new(), quarantine, cold_tier: cold });
        let snapshots = SnapshotChecks::read(log.disk()).map_err(|error| log.failure(error))?;
        let (erased, notes) = Default::default();
        Ok(Self { log, parent, replay, audit, erased, notes, snapshots })
    }

    /// Reads every frame, up to the first fault.
    fn read(&mut self) -> Result<LogWalk, VerifyFailure> {
        let (mut fault, log) = (None, self.log);
        let walked = log.walk(&mut |placed| {
            self.step(placed).map_err(|error| {
                fault = Some(error);
                StopReading
            })
        });
        let next = LogIndex(self.replay.state().log_index().0 + 1);
        Err(match (fault, walked) {
            (Some(fault), _) if fault.of_scratch => self.scratch_failure(&fault.what),
            (Some(fault), _) => self.record_fault(*fault),
            (None, Ok(LogWalk { torn: Some(torn), tail, .. })) => {
                self.fault(LogFault::from_torn(&torn, tail.next()))
            }
            (None, Ok(walked)) => return Ok(walked),
            (None, Err(OpenError::Damaged(damage))) => {
                self.fault(LogFault::from_damage(&damage, log))
            }
            (None, Err(OpenError::Disk(DiskError::Damaged { file, offset, reason }))) => {
                self.fault(LogFault::from_file((file, offset), reason, next))
            }
            (None, Err(error)) => log.failure(error).into(),
        })
    }

    fn step(&mut self, placed: &LocatedFrame<'_>) -> Result<(), Box<LogFault>> {
        let Self { replay, audit, erased, notes, snapshots, .. } = self;
        notes.begin_batch(placed.frame.header().last());
        let mut records = placed.frame.records();
        for record in placed.frame.records().filter(|it| it.payload == Payload::Erased) {
            erased.note(record.log_index, record.kind);
        }
        let mut watch = |step: ApplyStep<'_>, state: &State, effects: &Effects| {
            if let ApplyStep::After(log_index, command, _) = step {
                notes.read(log_index, command);
                erased.read(log_index, command);
            }
            audit.watch(step, &mut records, state, effects);
        };
        let applied = replay.apply(placed.frame, &mut watch);
        applied.map_err(|error| Box::new(LogFault::from_replay(&error).seen_at(placed)))?;
        audit.close_batch(replay.state());
        match (audit.finding(), audit.failure()) {
            (Some(finding), _) => Err(Box::new(LogFault::from_finding(finding).seen_at(placed))),
            (None, Some(error)) => Err(Box::new(LogFault::from_list(error))),
            (None, None) => {
                snapshots.check(&tail_after(placed), replay.state());
                Ok(())
            }
        }
    }

    /// Makes the checks that need the whole log.
    fn close(
        &mut self,
        walked: &LogWalk,
        mark: journal::StoredMark,
    ) -> Result<FinalChecks, VerifyFailure> {
        let closed = self.audit.close(self.replay.state());
        let closed = closed.map_err(|error| LogFault::from_list(&error).what);
        let stored = self.replay.close().map_err(|error| LogFault::from_replay(&error).what);
        stored.and(closed).map_err(|what| self.scratch_failure(&what))?;
        let finding = self.audit.finding().cloned();
        let checked = self.notes.check(&self.log.quarantined, self.replay.state().log_index());
        let claimed = mem::take(&mut self.snapshots).close(&walked.tail);
        let finding = finding.or_else(|| self.missing_digest());
        let reader = OfflineReader::open(self.log.disk().clone());
        let is_from = |record: LogIndex, name: &FspName| {
            let read = reader.as_ref().ok().and_then(|reader| reader.read(record).ok().flatten());
            read.is_some_and(|read| is_from_participant(fields_of(&read), name))
        };
        let erasures = self.erased.check(self.replay.state(), &is_from);
        let finding = finding.or_else(|| erasures.as_ref().err().map(|at| without_order(*at)));
        let fault = match (finding, checked, claimed) {
            (Some(finding), ..) | (None, Err(finding), _) => {
                LogFault::from_finding(&finding).located(self.log, finding.log_index)
            }
            (None, Ok(_), Err(fault)) => LogFault::from_snapshot(&fault),
            (None, Ok(_), Ok(_)) if mark == journal::StoredMark::Damaged => {
                LogFault::from_damaged_mark()
            }
            (None, Ok(quarantined), Ok(snapshots)) => {
                let durable_mark = match mark {
                    journal::StoredMark::Durable(of, at) if of == walked.tail.identity => {
                        Some(at.0)
                    }
                    _ => None,
                };
                let erasures = erasures.unwrap_or_default();
                return Ok(FinalChecks { quarantined, erasures, snapshots, durable_mark });
            }
        };
        Err(self.fault(fault))
    }

    /// Reports a last frame without a digest of the decisions before it.
    fn missing_digest(&self) -> Option<Finding> {
        self.replay.last_frame_lacks_digest().then(|| Finding {
            log_index: self.replay.state().log_index(),
            transfer: None,
            what: "its frame, the last one, has no digest of the decisions before it".into(),
        })
    }

    /// The failure for a fault of one record, whose effect may show only in a later frame.
    fn record_fault(&self, fault: LogFault) -> VerifyFailure {
        let fault = match fault.log_index {
            Some(log_index) if fault.is_earlier => fault.located(self.log, LogIndex(log_index)),
            _ => fault,
        };
        let before = fault.log_index.map_or(u64::MAX, |log_index| log_index.saturating_sub(1));
        let failure = self.fault(fault);
        VerifyFailure { records: failure.records.min(before), ..failure }
    }

    fn fault(&self, fault: LogFault) -> VerifyFailure {
        let (records, failure) = (self.replay.records(), self.log.failure(&fault.line));
        VerifyFailure { fault: Some(Box::new(fault)), records, failure }
    }

    /// A failure of the scratch directory, which proves nothing about the log.
    fn scratch_failure(&self, why: &str) -> VerifyFailure {
        let scratch = self.parent.unwrap_or(Path::new("memory"));
        let records = self.replay.records();
        let failure = CliError::new(format!(
            "--scratch {}: {why}; the log is neither verified nor faulty: {} of its records were \
             read. Free space there or use another directory; verify needs about 300 bytes per \
             transfer",
            scratch.display(),
            Count(records)
        ));
        VerifyFailure { records, ..failure.into() }
    }
}

/// Contents that are missing although no order covers them.
fn without_order(log_index: LogIndex) -> Finding {
    let what = "its contents are erased, but no approved erasure names the record".into();
    Finding { log_index, transfer: None, what }
}

/// A damaged file that is needed to open the log is a fault of the log.
fn open_failure(error: OpenFailure) -> VerifyFailure {
    let fault = match error.error {
        Some(DiskError::Damaged { file, offset, reason }) => {
            Some(Box::new(LogFault::from_file((file, offset), reason, LogIndex(1))))
        }
        _ => None,
    };
    VerifyFailure { fault, records: 0, failure: error.failure }
}

/// Parent of the scratch directory: the requested one; otherwise, for a long log, the system's
/// directory for temporary files.
fn scratch_for(records: u64, requested: Option<&Path>) -> Option<PathBuf> {
    let is_long = RECORDS_IN_MEMORY < records;
    requested.map(Path::to_owned).or_else(|| is_long.then(temporary))
}

fn temporary() -> PathBuf {
    let usual = Path::new(TEMPORARY);
    match env::var_os("TMPDIR").is_none() && usual.is_dir() {
        true => usual.to_owned(),
        false => env::temp_dir(),
    }
}

/// A temporary directory for data that grows with the log.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn within(parent: &Path) -> Result<Self, CliError> {
        let path = parent.join(format!("upesi-verify-{}", std::process::id()));
        let created = DirBuilder::new().mode(0o700).create(&path);
        created.map_err(|error| Self::failure(&path, &error))?;
        Ok(Self { path })
    }

    /// Creates the store for final rows of the kernel.
    fn cold_tier(&self) -> Result<ColdTier, CliError> {
        let path = self.path.join("store");
        let options = StoreOptions { cache_bytes: CACHE_BYTES, ..StoreOptions::default() };
        let store = Disk::begin(&path, LogIdentity::default(), options);
        let store = store.map_err(|(StoreError::Failed(what) | StoreError::Damaged(what))| {
            CliError::new(format!("--scratch: the store: {what}"))
        })?;
        let queue = WriteBehind::start_silent(Arc::new(store), QUEUE_MAX);
        let queue = queue.map_err(|error| Self::failure(&path, &error))?;
        Ok(ColdTier::new(Box::new(queue), KEEP_FINAL).without_decisions())
    }

    /// Creates the file for the audit's list of transfers.
    fn list(&self) -> Result<File, CliError> {
        let path = self.path.join("transfers");
        let created = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        created.map_err(|error| Self::failure(&path, &error))
    }

    fn failure(path: &Path, error: &io::Error) -> CliError {
        CliError::new(format!("--scratch: {}: {error}", path.display()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("upesi: {}: cannot be removed: {error}", self.path.display());
        }
    }
}

impl LogFault {
    fn from_damage(damage: &Damage, log: &OfflineLog) -> Self {
        let fault = Self {
            segment: Some(damage.segment.clone()),
            offset: Some(damage.offset),
            log_index: Some(damage.log_index.0),
            what: damage.reason.to_string(),
            line: damage.to_string(),
            ..Self::default()
        };
        let frame = log.bytes_of_frame(&damage.segment, damage.offset);
        match first_mismatch(damaged_records(&frame.unwrap_or_default())) {
            None => fault,
            Some(finding) => fault.shown_in(&finding),
        }
    }

    /// Names the first wrong record of a damaged frame.
    fn shown_in(self, finding: &Finding) -> Self {
        let transfer = finding.transfer.map(|id| id.to_string());
        let of = transfer.as_ref().map_or(String::new(), |id| format!(", of transfer {id}"));
        let record = format!("record {}{of}: {}", finding.log_index.0, finding.what);
        Self {
            transfer,
            what: format!("{}; first wrong record: {record}", self.what),
            line: format!("{} First wrong record: {record}.", self.line),
            ..self
        }
    }

    /// Damage in a compressed or archived segment, which is read in blocks. Record `next` is in the
    /// damaged block or soon after it.
    fn from_file((file, offset): (String, Option<u64>), what: String, next: LogIndex) -> Self {
        let place = byte_of(&file, offset);
        let line = format!(
            "{place}: {what}; record {} is the first that was not read{}",
            next.0,
            advice_on(&file)
        );
        Self { segment: Some(file), offset, log_index: Some(next.0), what, line, ..Self::default() }
    }

    /// An incomplete frame at the end. `verify` does not repair it.
    fn from_torn(torn: &TruncatedTail, next: LogIndex) -> Self {
        let TruncatedTail { segment, offset, bytes, reason } = torn;
        let what = format!("the last {bytes} bytes are an incomplete frame: {reason}");
        let line = format!(
            "{segment} at byte {offset}, where record {} should start: {what}. After a crash this \
             is an unacknowledged write, which the next start removes; otherwise restore the file \
             from a copy",
            next.0
        );
        Self {
            segment: Some(segment.clone()),
            offset: Some(*offset),
            log_index: Some(next.0),
            what,
            line,
            ..Self::default()
        }
    }

    fn from_damaged_mark() -> Self {
        let what = "its checksum is wrong, so the durable end of the log is unknown".into();
        let line = format!(
            "{MARK}: {what}. The log is valid. To check whether its end is missing, compare the \
             last record and chain head with values stored elsewhere; a start compares them with \
             the snapshots and the cold store. The next start rewrites the file"
        );
        Self { segment: Some(MARK.into()), what, line, ..Self::default() }
    }

    fn from_snapshot(fault: &SnapshotFault) -> Self {
        let SnapshotFault { file, offset, log_index, line } = fault.clone();
        let (segment, log_index) = (Some(file), Some(log_index.0));
        Self { segment, offset, log_index, what: line.clone(), line, ..Self::default() }
    }

    fn from_replay(error: &ReplayError) -> Self {
        let log_index = match error {
            ReplayError::Log(_) | ReplayError::Store(_) => None,
            ReplayError::Unreadable { log_index, .. }
            | ReplayError::UnknownRules { log_index, .. }
            | ReplayError::InvariantBroken { log_index }
            | ReplayError::NotTheQuarantined { log_index }
            | ReplayError::Diverged { log_index }
            | ReplayError::Unconfirmed { log_index, .. } => Some(log_index.0),
        };
        let (what, of_scratch) = match error {
            ReplayError::Store(StoreError::Failed(what) | StoreError::Damaged(what)) => {
                (format!("the store: {what}"), true)
            }
            error => (error.to_string(), false),
        };
        let is_of_record =
            !matches!(error, ReplayError::Diverged { .. } | ReplayError::Unconfirmed { .. });
        Self { log_index, line: what.clone(), what, of_scratch, is_of_record, ..Self::default() }
    }

    fn from_list(error: &io::Error) -> Self {
        let what = format!("the list of transfers: {error}");
        Self { what, of_scratch: true, ..Self::default() }
    }

    fn from_finding(finding: &Finding) -> Self {
        let transfer = finding.transfer.map(|id| id.to_string());
        let about = transfer.as_ref().map_or(String::new(), |id| format!("transfer {id}: "));
        Self {
            log_index: Some(finding.log_index.0),
            line: format!("record {}: {about}{}. {ADVICE}", finding.log_index.0, finding.what),
            what: finding.what.clone(),
            transfer,
            ..Self::default()
        }
    }

    /// Adds the location of an earlier record, by another pass over the log.
    fn located(self, log: &OfflineLog, log_index: LogIndex) -> Self {
        let mut fault = Some(self);
        let mut found = None;
        let _read_before = log.walk(&mut |placed| match placed.frame.header().last() < log_index {
            true => Ok(()),
            false => {
                found = fault.take().map(|fault| fault.at(placed));
                Err(StopReading)
            }
        });
        found.or(fault).expect("it was moved once at most")
    }

    /// Adds the location of this frame, unless the record is in an earlier frame.
    fn seen_at(self, placed: &LocatedFrame<'_>) -> Self {
        let first = placed.frame.header().first.0;
        match self.log_index {
            Some(log_index) if log_index < first => Self { is_earlier: true, ..self },
            _ => self.at(placed),
        }
    }

    fn at(self, placed: &LocatedFrame<'_>) -> Self {
        let LocatedFrame { segment, offset, frame } = *placed;
        let mut records = frame.records();
        let record = records.find(|record| Some(record.log_index.0) == self.log_index);
        let command =
            record.and_then(|record| read_fields(record.kind, record.version, record.fields).ok());
        // A fault of a batch belongs to a record only if the batch has no other.
        let command = command.filter(|_| self.is_of_record || frame.header().count == 1);
        let of_record = command.and_then(|command| command.rows().next().map(ToString::to_string));
        let of = match (&self.transfer, &of_record) {
            (None, Some(id)) => format!(" (transfer {id})"),
            _ => String::new(),
        };
        Self {
            segment: Some(segment.to_owned()),
            offset: Some(offset),
            line: format!("{segment} at byte {offset}: {}{of}", self.line),
            transfer: self.transfer.or(of_record),
            ..self
        }
    }
}

fn proof(pass: &Pass<'_>, walked: &LogWalk, checks: FinalChecks, started: Instant) -> Proof {
    let Pass { replay, audit, .. } = pass;
    let FinalChecks { quarantined, erasures, snapshots, durable_mark } = checks;
    let state = replay.state();
    // Before the time is taken: hashing the state is part of the verification.
    let state_hash = state.hash().to_string();
    let seconds = started.elapsed().as_secs_f64();
    Proof {
        ok: true,
        segments: walked.segments,
        bytes: walked.bytes,
        batches: replay.batches(),
        records: replay.records(),
        batches_confirmed: replay.confirmed(),
        last_stamp: moment(state.stamp()),
        transfers_ended: state.final_transfer_count(),
        transfers_in_flight: state.reserved_transfer_count(),
        notices_owed: state.notices_owed_count(),
        dead_letters: state.dead_letter_count(),
        participants: state.registry().iter().count(),
        accounts: state.accounts().iter().count(),
        figures: audit.figures(),
        quarantined,
        erasures,
        snapshots,
        durable_mark,
        chain_head: walked.tail.chain.to_string(),
        outcome_digest: state.digest().to_string(),
        state_hash,
        seconds,
        records_per_second: (replay.records() as f64 / seconds) as u64,
    }
}

fn print(proof: &Proof, json: bool) -> Result<(), CliError> {
    if json {
        return print_json(proof);
    }
    let Figures { postings, reserved, committed, aborted, expired, .. } = proof.figures;
    let figures = &proof.figures;
    println!("verified in {:.1} s, {} records/s", proof.seconds, Count(proof.records_per_second));
    let segments = counted(proof.segments as u64, "segment");
    println!("  chain            unbroken, {segments}, head {}", proof.chain_head);
    println!(
        "  decisions        {} in {} replayed; recorded outcomes of {} confirmed, digest {}",
        counted(proof.records, "record"),
        counted(proof.batches, "batch"),
        counted(proof.batches_confirmed, "batch"),
        proof.outcome_digest
    );
    println!(
        "  messages         {} match their digests ({} erased); {} bodies match their records ({} \
         unreadable)",
        Count(figures.messages),
        Count(figures.messages_erased),
        Count(figures.bodies_compared),
        Count(figures.bodies_unreadable)
    );
    println!(
        "  accounts         {} equal the sums of their {} postings; each currency sums to zero \
         after every batch",
        proof.accounts,
        Count(postings)
    );
    println!(
        "  transfers        {} reserved within cover and cap: {} committed, {} aborted, {} \
         expired, {} in flight",
        Count(reserved),
        Count(committed),
        Count(aborted),
        Count(expired),
        Count(proof.transfers_in_flight as u64)
    );
    println!("  fulfilments      {} hash to their conditions", Count(figures.fulfilments_hashed));
    println!(
        "  notices          {}: {} delivered, {} withdrawn, {} given up, {} dead letters, {} \
         pending",
        Count(figures.notices),
        Count(figures.notices_delivered),
        Count(figures.notices_withdrawn),
        Count(figures.notices_given_up),
        Count(figures.notices_dead),
        Count(figures.notices_pending)
    );
    if 0 < figures.notices_dropped {
        println!("  dropped          {} dead letters", Count(figures.notices_dropped));
    }
    print_settlement(figures);
    for record in &proof.quarantined {
        println!("  quarantine       {record}");
    }
    print_erasures(&proof.erasures);
    match proof.durable_mark {
        Some(record) => println!("  end              reaches record {record} of {MARK}"),
        None => println!("  end              not checked: {MARK} is missing"),
    }
    if 0 < proof.snapshots {
        println!("  snapshots        {} equal the replayed states", proof.snapshots);
    }
    println!("  state hash       {}", proof.state_hash);
    Ok(())
}

fn print_erasures(erasures: &[ErasureProof]) {
    for ErasureProof { log_index, ordered, by, reason, contents_erased, .. } in erasures {
        println!(
            "  erased           {} by record {log_index} of {by}, {ordered}: {reason}",
            counted(*contents_erased, "message")
        );
    }
}

fn print_settlement(figures: &Figures) {
    println!(
        "  windows          {} closed with nets of zero, {} settled; {} transfers in windows, {} \
         settled at once",
        Count(figures.windows_closed),
        Count(figures.windows_settled),
        Count(figures.transfers_in_windows),
        Count(figures.settled_at_once)
    );
    println!(
        "  settlements      {}: {} settled and {} aborted with the hub's balance restored",
        Count(figures.settlements),
        Count(figures.settlements_settled),
        Count(figures.settlements_aborted)
    );
    if 0 < figures.fees {
        println!("  fees             {} posted with their transfers", Count(figures.fees));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_log_uses_a_scratch_directory() {
        let path = Path::new("/requested");
        for (records, requested, expected) in [
            (0, None, None),
            (RECORDS_IN_MEMORY, None, None),
            (RECORDS_IN_MEMORY + 1, None, Some(temporary())),
            (RECORDS_IN_MEMORY, Some(path), Some(path.to_owned())),
            (RECORDS_IN_MEMORY + 1, Some(path), Some(path.to_owned())),
        ] {
            assert_eq!(scratch_for(records, requested), expected, "{records} {requested:?}");
        }
    }
}
