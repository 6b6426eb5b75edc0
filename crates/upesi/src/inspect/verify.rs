//! `upesi verify`: reads a whole log, decides everything again, and keeps an account of its own
//! ([`accounting`]). One pass; nothing in the data directory is changed.

pub(crate) mod accounting;

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::mem;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::{Damage, LocatedFrame, LogWalk, MARK, OpenError, TruncatedTail, advice_on};
use ledger::{ApplyStep, Effects, LogIndex, State};
use ports::{DiskError, StopReading, StoreError, byte_of};
use record::command::read_fields;
use record::frame::{LogIdentity, damaged_records};
use sequencer::{ColdTier, Replay, ReplayError, ReplayStart};
use serde::Serialize;
use store::{Disk, Options, WriteBehind};

use crate::CliError;
use crate::cli::stdout::{moment, print_json};
use crate::cli::units::Count;
use crate::data::restore::tail_after;
use crate::data::snapshot::{Claims, FalseClaim};
use crate::inspect::offline::{OfflineLog, OpenFailure};
use crate::inspect::verify::accounting::{Audit, Figures, Finding, first_untrue};
use crate::operate::quarantine::{self, Noted, Notes};

/// Beyond so many records, what grows with the log is not kept in memory: at most 0.8 GB come
/// before.
const RECORDS_IN_MEMORY: u64 = 4_000_000;
/// Where temporary files are that may be large, unless the environment says otherwise: on a disk,
/// which `/tmp` need not be.
const TEMPORARY: &str = "/var/tmp";
/// What to do about a log that is whole, and says what is not so.
const UNTRUE: &str = "Nothing was changed; keep this directory, compare it with a copy of the log, \
                      and continue with a copy that verifies";
/// How long a transfer that ended stays in memory, by the log's own time, where there is a scratch
/// directory: most resends come within it.
const KEEP: Duration = Duration::from_secs(1);
/// Rows that wait to be written there, and the cache for those that are read again: few are.
const QUEUE_MAX: usize = 8_192;
const CACHE_BYTES: u64 = 8 << 20;

/// What was proved.
#[derive(Debug, Serialize)]
struct Proof {
    ok: bool,
    segments: usize,
    bytes: u64,
    batches: u64,
    records: u64,
    /// Batches whose recorded outcomes were found again; none speaks of the last batch yet.
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
    /// Records that decide nothing, by whose word, and where the log says so.
    quarantined: Vec<Noted>,
    /// Snapshots that are the states which the log came to.
    snapshots: u64,
    /// The record up to which the log had to go, by `durable.mark`; none if there is no such file.
    durable_mark: Option<u64>,
    chain_head: String,
    outcome_digest: String,
    state_hash: String,
    seconds: f64,
    records_per_second: u64,
}

/// Where a log is not good, and how far it is; or that nothing is known of it, and why.
#[derive(Debug, Serialize)]
struct Disproof {
    /// `None` if the log is neither proved nor found wrong.
    ok: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<Box<Fault>>,
    /// What stood in the way of a proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    hindered: Option<String>,
    /// Records found good before that.
    records: u64,
    seconds: f64,
}

/// The first fault.
#[derive(Debug, Default, Serialize)]
struct Fault {
    segment: Option<String>,
    offset: Option<u64>,
    /// The record, or the one that should stand there.
    log_index: Option<u64>,
    transfer: Option<String>,
    what: String,
    /// The same as one line.
    #[serde(skip)]
    line: String,
    /// Whether it says nothing of the log, but of what was kept beside the proof.
    #[serde(skip)]
    of_scratch: bool,
    /// Whether it is about that record alone.
    #[serde(skip)]
    is_of_record: bool,
    /// Whether its record stands in a frame before the one in which it was seen.
    #[serde(skip)]
    is_behind: bool,
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
        Err(unproved) => unproved,
    };
    if arguments.json {
        print_json(&Disproof {
            ok: fault.is_some().then_some(false),
            hindered: fault.is_none().then(|| failure.to_string()),
            fault,
            records,
            seconds: started.elapsed().as_secs_f64(),
        })?;
    }
    Err(failure)
}

/// Why a log is not proved.
struct VerifyFailure {
    /// The first fault; `None` if something else stood in the way.
    fault: Option<Box<Fault>>,
    /// Records found good before.
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
    let log = OfflineLog::open(&arguments.data).map_err(unopened)?;
    let above = scratch_for(log.records_about(), arguments.scratch.as_deref());
    // Read first: beside a switch the log may grow meanwhile, and the mark with it.
    let mark = journal::read_stored_mark(log.disk()).map_err(|error| log.failure(error))?;
    let scratch = above.as_deref().map(Scratch::within).transpose()?;
    let mut pass = Pass::over(&log, above.as_deref(), scratch.as_ref())?;
    let walked = pass.read()?;
    let besides = pass.close(&walked, mark)?;
    Ok(proof(&pass, &walked, besides, started))
}

/// What of a proof the replay and the account do not know.
struct ProofContext {
    quarantined: Vec<Noted>,
    snapshots: u64,
    durable_mark: Option<u64>,
}

/// One pass over a log, with what is held against it.
struct Pass<'a> {
    log: &'a OfflineLog,
    /// Below which directory is kept what grows with the log.
    above: Option<&'a Path>,
    replay: Replay,
    audit: Audit,
    notes: Notes,
    claims: Claims,
}

impl<'a> Pass<'a> {
    fn over(
        log: &'a OfflineLog,
        above: Option<&'a Path>,
        scratch: Option<&Scratch>,
    ) -> Result<Self, CliError> {
        let (cold, audit) = match scratch {
            Some(scratch) => (Some(scratch.side()?), Audit::within(scratch.list()?)),
            None => (None, Audit::default()),
        };
        let quarantine = quarantine::of(&log.quarantined);
        let replay = Replay::from(ReplayStart { state: State::new(), quarantine, cold_tier: cold });
        let claims = Claims::read(log.disk()).map_err(|error| log.failure(error))?;
        Ok(Self { log, above, replay, audit, notes: Notes::default(), claims })
    }

    /// Every frame, up to the first fault.
    fn read(&mut self) -> Result<LogWalk, VerifyFailure> {
        let (mut fault, log) = (None, self.log);
        let walked = log.walk(&mut |placed| {
            self.step(placed).map_err(|found| {
                fault = Some(found);
                StopReading
            })
        });
        let next = LogIndex(self.replay.state().log_index().0 + 1);
        Err(match (fault, walked) {
            (Some(fault), _) if fault.of_scratch => self.unproved(&fault.what),
            (Some(fault), _) => self.disproved_by_record(*fault),
            (None, Ok(LogWalk { torn: Some(torn), tail, .. })) => {
                self.disproved(Fault::of_torn(&torn, tail.next()))
            }
            (None, Ok(walked)) => return Ok(walked),
            (None, Err(OpenError::Damaged(damage))) => {
                self.disproved(Fault::of_damage(&damage, log))
            }
            (None, Err(OpenError::Disk(DiskError::Damaged { file, offset, reason }))) => {
                self.disproved(Fault::of_file((file, offset), reason, next))
            }
            (None, Err(error)) => log.failure(error).into(),
        })
    }

    fn step(&mut self, placed: &LocatedFrame<'_>) -> Result<(), Box<Fault>> {
        let Self { replay, audit, notes, claims, .. } = self;
        notes.batch(placed.frame.header().last());
        let mut records = placed.frame.records();
        let mut watch = |moment: ApplyStep<'_>, state: &State, effects: &Effects| {
            if let ApplyStep::After(log_index, command, _) = moment {
                notes.see(log_index, command);
            }
            audit.watch(moment, &mut records, state, effects);
        };
        let applied = replay.apply(placed.frame, &mut watch);
        applied.map_err(|error| Box::new(Fault::of_replay(&error).seen_at(placed)))?;
        audit.close_batch(replay.state());
        match (audit.finding(), audit.failure()) {
            (Some(finding), _) => Err(Box::new(Fault::of_finding(finding).seen_at(placed))),
            (None, Some(error)) => Err(Box::new(Fault::of_list(error))),
            (None, None) => {
                claims.check(&tail_after(placed), replay.state());
                Ok(())
            }
        }
    }

    /// What shows only when all is read.
    fn close(
        &mut self,
        walked: &LogWalk,
        mark: journal::StoredMark,
    ) -> Result<ProofContext, VerifyFailure> {
        let closed = self.audit.close(self.replay.state());
        let closed = closed.map_err(|error| Fault::of_list(&error).what);
        let stored = self.replay.close().map_err(|error| Fault::of_replay(&error).what);
        stored.and(closed).map_err(|what| self.unproved(&what))?;
        let finding = self.audit.finding().cloned();
        let checked = self.notes.check(&self.log.quarantined, self.replay.state().log_index());
        let claimed = mem::take(&mut self.claims).close(&walked.tail);
        let finding = finding.or_else(|| self.silence());
        let fault = match (finding, checked, claimed) {
            (Some(finding), ..) | (None, Err(finding), _) => {
                Fault::of_finding(&finding).placed(self.log, finding.log_index)
            }
            (None, Ok(_), Err(untrue)) => Fault::of_snapshot(&untrue),
            (None, Ok(_), Ok(_)) if mark == journal::StoredMark::Damaged => Fault::of_mark(),
            (None, Ok(quarantined), Ok(snapshots)) => {
                let durable_mark = match mark {
                    journal::StoredMark::Durable(of, at) if of == walked.tail.identity => {
                        Some(at.0)
                    }
                    _ => None,
                };
                return Ok(ProofContext { quarantined, snapshots, durable_mark });
            }
        };
        Err(self.disproved(fault))
    }

    /// That the log's last frame leaves what was decided before it to be believed.
    fn silence(&self) -> Option<Finding> {
        self.replay.last_frame_lacks_digest().then(|| Finding {
            log_index: self.replay.state().log_index(),
            transfer: None,
            what: "its frame, the last one, has no digest of the decisions before it".into(),
        })
    }

    /// By a record that was decided; what it does may show only in the frame behind.
    fn disproved_by_record(&self, fault: Fault) -> VerifyFailure {
        let fault = match fault.log_index {
            Some(log_index) if fault.is_behind => fault.placed(self.log, LogIndex(log_index)),
            _ => fault,
        };
        let before = fault.log_index.map_or(u64::MAX, |log_index| log_index.saturating_sub(1));
        let unproved = self.disproved(fault);
        VerifyFailure { records: unproved.records.min(before), ..unproved }
    }

    fn disproved(&self, fault: Fault) -> VerifyFailure {
        let (records, failure) = (self.replay.records(), self.log.failure(&fault.line));
        VerifyFailure { fault: Some(Box::new(fault)), records, failure }
    }

    /// What was kept beside the proof let it down: that says nothing of the log.
    fn unproved(&self, why: &str) -> VerifyFailure {
        let scratch = self.above.unwrap_or(Path::new("memory"));
        let records = self.replay.records();
        let failure = CliError::new(format!(
            "--scratch {}: {why}. The log is neither proved nor found wrong; {records} of its \
             records were read. Make room there, or give another directory: it takes some 300 \
             bytes for every transfer",
            scratch.display()
        ));
        VerifyFailure { records, ..failure.into() }
    }
}

/// A file without which the log is not read may be damaged itself.
fn unopened(unopened: OpenFailure) -> VerifyFailure {
    let fault = match unopened.error {
        Some(DiskError::Damaged { file, offset, reason }) => {
            Some(Box::new(Fault::of_file((file, offset), reason, LogIndex(1))))
        }
        _ => None,
    };
    VerifyFailure { fault, records: 0, failure: unopened.failure }
}

/// Below which directory is kept what grows with the log: the one that was asked for, for a long
/// log the system's own, none for any other.
fn scratch_for(records: u64, asked: Option<&Path>) -> Option<PathBuf> {
    let is_long = RECORDS_IN_MEMORY < records;
    asked.map(Path::to_owned).or_else(|| is_long.then(temporary))
}

fn temporary() -> PathBuf {
    let usual = Path::new(TEMPORARY);
    match env::var_os("TMPDIR").is_none() && usual.is_dir() {
        true => usual.to_owned(),
        false => env::temp_dir(),
    }
}

/// A directory for what grows with the log, removed in the end.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn within(above: &Path) -> Result<Self, CliError> {
        let path = above.join(format!("upesi-verify-{}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Self::failure(&path, &error))?;
        Ok(Self { path })
    }

    /// Where the kernel's rows go.
    fn side(&self) -> Result<ColdTier, CliError> {
        let path = self.path.join("store");
        let options = Options { cache_bytes: CACHE_BYTES };
        let store = Disk::begin(&path, LogIdentity::default(), options);
        let store = store.map_err(|(StoreError::Failed(what) | StoreError::Damaged(what))| {
            CliError::new(format!("--scratch: the store: {what}"))
        })?;
        let behind = WriteBehind::start_silent(Arc::new(store), QUEUE_MAX);
        let behind = behind.map_err(|error| Self::failure(&path, &error))?;
        Ok(ColdTier::new(Box::new(behind), KEEP).without_decisions())
    }

    /// Where the account's own list goes.
    fn list(&self) -> Result<File, CliError> {
        let path = self.path.join("transfers");
        let made = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        made.map_err(|error| Self::failure(&path, &error))
    }

    fn failure(path: &Path, error: &io::Error) -> CliError {
        CliError::new(format!("--scratch: {}: {error}", path.display()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("upesi: {} was left: {error}", self.path.display());
        }
    }
}

impl Fault {
    fn of_damage(damage: &Damage, log: &OfflineLog) -> Self {
        let fault = Self {
            segment: Some(damage.segment.clone()),
            offset: Some(damage.offset),
            log_index: Some(damage.log_index.0),
            what: damage.reason.to_string(),
            line: damage.to_string(),
            ..Self::default()
        };
        let frame = log.bytes_of_frame(&damage.segment, damage.offset);
        match first_untrue(damaged_records(&frame.unwrap_or_default())) {
            None => fault,
            Some(finding) => fault.shown_in(&finding),
        }
    }

    /// In which record of a damaged frame it shows.
    fn shown_in(self, finding: &Finding) -> Self {
        let transfer = finding.transfer.map(|id| id.to_string());
        let of = transfer.as_ref().map_or(String::new(), |id| format!(", of transfer {id}"));
        let shown = format!("record {}{of}: {}", finding.log_index.0, finding.what);
        Self {
            transfer,
            what: format!("{}; it shows in {shown}", self.what),
            line: format!("{} It shows in {shown}.", self.line),
            ..self
        }
    }

    /// A segment that is kept in another form or place, read in blocks: `next` stands in the one
    /// that is damaged, or soon behind it.
    fn of_file((file, offset): (String, Option<u64>), what: String, next: LogIndex) -> Self {
        let place = byte_of(&file, offset);
        let line = format!(
            "{place}: {what}; record {} is the first that was not read{}",
            next.0,
            advice_on(&file)
        );
        Self { segment: Some(file), offset, log_index: Some(next.0), what, line, ..Self::default() }
    }

    /// Verifying repairs nothing and proves nothing about bytes it cannot read.
    fn of_torn(torn: &TruncatedTail, next: LogIndex) -> Self {
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

    fn of_mark() -> Self {
        let what = "its checksum is wrong, so the durable end of the log is unknown".into();
        let line = format!(
            "{MARK}: {what}. The log is valid. To check whether its end is missing, compare the \
             last record and chain head with noted ones; a start compares them with the snapshots \
             and the cold store. The next start rewrites the file"
        );
        Self { segment: Some(MARK.into()), what, line, ..Self::default() }
    }

    fn of_snapshot(untrue: &FalseClaim) -> Self {
        let FalseClaim { file, offset, log_index, line } = untrue.clone();
        let (segment, log_index) = (Some(file), Some(log_index.0));
        Self { segment, offset, log_index, what: line.clone(), line, ..Self::default() }
    }

    fn of_replay(error: &ReplayError) -> Self {
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

    fn of_list(error: &io::Error) -> Self {
        let what = format!("the list of transfers: {error}");
        Self { what, of_scratch: true, ..Self::default() }
    }

    fn of_finding(finding: &Finding) -> Self {
        let transfer = finding.transfer.map(|id| id.to_string());
        let about = transfer.as_ref().map_or(String::new(), |id| format!("transfer {id}: "));
        Self {
            log_index: Some(finding.log_index.0),
            line: format!("record {}: {about}{}. {UNTRUE}", finding.log_index.0, finding.what),
            what: finding.what.clone(),
            transfer,
            ..Self::default()
        }
    }

    /// At the frame with this record, which was passed long ago.
    fn placed(self, log: &OfflineLog, log_index: LogIndex) -> Self {
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

    /// Seen while this frame was decided: at it, unless its record stands in an earlier one.
    fn seen_at(self, placed: &LocatedFrame<'_>) -> Self {
        let first = placed.frame.header().first.0;
        match self.log_index {
            Some(log_index) if log_index < first => Self { is_behind: true, ..self },
            _ => self.at(placed),
        }
    }

    fn at(self, placed: &LocatedFrame<'_>) -> Self {
        let LocatedFrame { segment, offset, frame } = *placed;
        let mut records = frame.records();
        let record = records.find(|record| Some(record.log_index.0) == self.log_index);
        let command =
            record.and_then(|record| read_fields(record.kind, record.version, record.fields).ok());
        // What is told of a whole batch may be any record's, unless it has only one.
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

fn proof(pass: &Pass<'_>, walked: &LogWalk, besides: ProofContext, started: Instant) -> Proof {
    let Pass { replay, audit, .. } = pass;
    let ProofContext { quarantined, snapshots, durable_mark } = besides;
    let state = replay.state();
    // The hash of the state is part of the proof and of its time.
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
        transfers_ended: state.transfers_ended(),
        transfers_in_flight: state.transfers_in_flight(),
        notices_owed: state.notices_owed_count(),
        dead_letters: state.dead_letter_count(),
        participants: state.register().iter().count(),
        accounts: state.books().iter().count(),
        figures: audit.figures(),
        quarantined,
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
    println!("  chain            unbroken, {} segments, head {}", proof.segments, proof.chain_head);
    println!(
        "  decisions        {} records in {} batches replayed; recorded outcomes of {} batches \
         confirmed, digest {}",
        Count(proof.records),
        Count(proof.batches),
        Count(proof.batches_confirmed),
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
    for noted in &proof.quarantined {
        println!("  quarantine       {noted}");
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_not_kept_in_memory() {
        let asked = Path::new("/asked/for");
        for (records, asked, expected) in [
            (0, None, None),
            (RECORDS_IN_MEMORY, None, None),
            (RECORDS_IN_MEMORY + 1, None, Some(temporary())),
            (RECORDS_IN_MEMORY, Some(asked), Some(asked.to_owned())),
            (RECORDS_IN_MEMORY + 1, Some(asked), Some(asked.to_owned())),
        ] {
            assert_eq!(scratch_for(records, asked), expected, "{records} {asked:?}");
        }
    }
}
