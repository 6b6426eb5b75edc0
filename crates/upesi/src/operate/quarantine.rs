//! `upesi quarantine`, and the file with the quarantined records
//! (docs/decisions/0016-quarantine.md).
//!
//! The file has the operator, the time, the reason and the digest of each record. The next start of
//! the switch first writes the same text to the log, so that the hash chain covers it. `verify`
//! compares both. A quarantined record has no effect in any replay.

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use journal::{DurableFrames, OpenError, RealDisk, TieredDisk};
use ledger::{Administer, Change, Command, Configure, Digest, LogIndex, Settings, Stamp};
use ports::{Disk, DiskError, DiskFile, LogError, StopReading};
use sequencer::{Quarantine, Replay, ReplayError};
use serde::{Deserialize, Serialize};

use crate::CliError;
use crate::cli::stdout::moment;
use crate::data::encryption::{Access, unlocked};
use crate::data::layout::refuse_without_log;
use crate::inspect::verify::accounting::{Finding, transfer_of};

const FILE: &str = "quarantine.json";
const NEW_FILE: &str = "quarantine.json.new";
/// Longest file, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Maximum number of quarantined records. More than one indicates a serious defect.
const ENTRIES_MAX: usize = 1_000;
const NAME_BYTES_MAX: usize = 200;
const REASON_BYTES_MAX: usize = 2_000;
/// Batches after a quarantined record within which the log has its note.
const BATCHES_TO_NOTE: u32 = 16;
const VERSION: u32 = 1;
/// Separates the subject of a note from its time and reason. Part of stored records.
const WAS_QUARANTINED: &str = " was quarantined at ";
/// Advice for a file that was changed.
const ADVICE: &str = "; the file was changed or belongs to another log: restore the one that \
                      `upesi quarantine` wrote from a backup";

/// Content of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct QuarantineFile {
    version: u32,
    records: Vec<Entry>,
}

/// A quarantined record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    #[serde(rename = "position")]
    log_index: u64,
    /// [`record::frame::Record::digest`], in hexadecimal.
    digest: String,
    by: String,
    reason: String,
    time: String,
}

impl Entry {
    /// The log index of the quarantined record.
    pub(crate) fn log_index(&self) -> LogIndex {
        LogIndex(self.log_index)
    }

    /// Operator, time and reason as text.
    pub(crate) fn by_whom(&self) -> String {
        let Self { by, reason, time, .. } = self;
        format!("quarantined by {by} at {time}: {reason}")
    }

    /// The subject of the note in the log.
    fn subject(&self) -> String {
        format!("record {} with digest {}", self.log_index, self.digest)
    }

    /// The text of the note in the log.
    fn note_text(&self) -> String {
        format!("{}{WAS_QUARANTINED}{}: {}", self.subject(), self.time, self.reason)
    }

    /// The note as a command: a change without effect that records the operator and the reason.
    pub(crate) fn note(&self, settings: Settings) -> Command {
        let (actor, reason) = (self.by.clone(), self.note_text());
        let change = Change::Configure(Configure { settings });
        Command::Administer(Box::new(Administer { actor, reason, change }))
    }
}

impl Display for Entry {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "record {} is skipped: {}", self.log_index, self.by_whom())
    }
}

/// A quarantined record and its note in the log.
#[derive(Debug, Serialize)]
pub(crate) struct QuarantinedRecord {
    #[serde(flatten)]
    entry: Entry,
    /// Log index of the note; `None` until the next start of the switch.
    #[serde(rename = "noted")]
    note: Option<u64>,
    /// An earlier note with another text, such as the note of another node.
    #[serde(skip_serializing_if = "Option::is_none")]
    earlier_note: Option<String>,
}

impl Display for QuarantinedRecord {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}; ", self.entry)?;
        match self.note {
            Some(note) => write!(f, "noted in record {note}")?,
            None => write!(f, "the next start will write a note to the log")?,
        }
        self.earlier_note.iter().try_for_each(|note| write!(f, "; earlier note: {note}"))
    }
}

/// A note in the log about a quarantined record.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LogNote {
    at: LogIndex,
    actor: String,
    text: String,
}

impl LogNote {
    fn is_of(&self, entry: &Entry) -> bool {
        self.actor == entry.by && self.text == entry.note_text()
    }
}

impl Display for LogNote {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "record {} by {}: {}", self.at.0, self.actor, self.text)
    }
}

/// The notes of a log about its quarantine.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// By subject ([`Entry::subject`]); without duplicates.
    by_subject: HashMap<String, Vec<LogNote>>,
    /// Records whose notes cannot be read, with the error. A start reported them before the
    /// snapshot was taken.
    pub(crate) unread: Vec<(LogIndex, LogError)>,
    /// The last record of each of the last two batches.
    last: LogIndex,
    before_last: LogIndex,
}

impl Notes {
    /// Begins a batch whose last record is `last`.
    pub(crate) fn begin_batch(&mut self, last: LogIndex) {
        (self.before_last, self.last) = (self.last, last);
    }

    /// Adds the note in a command, if it is one.
    pub(crate) fn read(&mut self, log_index: LogIndex, command: &Command) {
        let Command::Administer(administer) = command else { return };
        let Administer { actor, reason, change } = &**administer;
        let Some((subject, _)) = reason.split_once(WAS_QUARANTINED) else { return };
        if matches!(change, Change::Configure(_)) {
            let all = self.by_subject.entry(subject.to_owned()).or_default();
            if all.iter().all(|note| (&note.actor, &note.text) != (actor, reason)) {
                all.push(LogNote { at: log_index, actor: actor.clone(), text: reason.clone() });
                all.sort_by_key(|note| note.at);
            }
        }
    }

    /// Reads the notes in the records up to `until`, which a start does not replay. A note is in
    /// one of the first batches after its record, because a start writes it before anything else.
    /// It stays unknown if the archive is unreachable or a segment is damaged.
    pub(crate) fn recall(
        &mut self,
        frames: &DurableFrames<TieredDisk<RealDisk>>,
        entries: &[Entry],
        until: LogIndex,
    ) {
        for entry in entries.iter().filter(|entry| entry.log_index <= until.0) {
            let mut batches = 0;
            let read = frames.replay(LogIndex(entry.log_index), &mut |frame| {
                for record in frame.records() {
                    let read =
                        record::command::read_fields(record.kind, record.version, record.fields);
                    if let Ok(command) = read {
                        self.read(record.log_index, &command);
                    }
                }
                batches += 1;
                let wanted = batches < BATCHES_TO_NOTE && frame.header().last() < until;
                if wanted { Ok(()) } else { Err(StopReading) }
            });
            self.unread.extend(read.err().map(|error| (entry.log_index(), error)));
        }
    }

    /// The notes about the record of an entry, oldest first.
    fn all(&self, entry: &Entry) -> &[LogNote] {
        self.by_subject.get(&entry.subject()).map_or(&[], Vec::as_slice)
    }

    fn of(&self, entry: &Entry) -> Option<LogIndex> {
        self.all(entry).iter().find(|note| note.is_of(entry)).map(|note| note.at)
    }

    /// Compares the file with the notes in the log, if no other node writes to the log. A second
    /// note with another text is not added.
    pub(crate) fn check_texts(&self, entries: &[Entry]) -> Result<(), String> {
        let has_note = |entry: &Entry| self.of(entry).is_some();
        let other = |entry: &Entry| self.all(entry).first().filter(|_| !has_note(entry));
        match entries.iter().find_map(|entry| Some((entry, other(entry)?))) {
            Some((entry, note)) => Err(format!(
                "{FILE}: the entry of record {} differs from its note in the log, {note}{ADVICE}",
                entry.log_index
            )),
            None => Ok(()),
        }
    }

    /// The entries without a note in the log.
    pub(crate) fn missing<'a>(&self, entries: &'a [Entry]) -> Vec<&'a Entry> {
        let is_read = |entry: &Entry| self.unread.iter().all(|(at, _)| *at != entry.log_index());
        entries.iter().filter(|entry| self.of(entry).is_none() && is_read(entry)).collect()
    }

    /// Compares the file with the log, which ends with `end`: the record of every entry exists, and
    /// its note too unless nothing was written since.
    pub(crate) fn check(
        &self,
        entries: &[Entry],
        end: LogIndex,
    ) -> Result<Vec<QuarantinedRecord>, Finding> {
        let find = |entry: &Entry, what: &str| Finding {
            log_index: LogIndex(entry.log_index),
            transfer: None,
            what: format!("listed in {FILE}, but {what}"),
        };
        let mut records = Vec::new();
        for entry in entries {
            let at = self.of(entry).map(|log_index| log_index.0);
            if end.0 < entry.log_index {
                return Err(find(entry, "the log ends before it"));
            }
            if at.is_none() && entry.log_index <= self.before_last.0 {
                let what = "later records of the log have no note about it: the file was changed";
                let note = self.all(entry).first().map(|note| format!("; {note}"));
                return Err(find(entry, &format!("{what}{}", note.unwrap_or_default())));
            }
            let first = self.all(entry).first().filter(|note| !note.is_of(entry));
            let earlier_note = first.map(ToString::to_string);
            records.push(QuarantinedRecord { entry: entry.clone(), note: at, earlier_note });
        }
        Ok(records)
    }
}

/// Loads the quarantined records of a data directory.
pub(crate) fn load(disk: &impl Disk) -> Result<Vec<Entry>, String> {
    let file = match disk.open(FILE) {
        Err(DiskError::NotFound(_)) => return Ok(Vec::new()),
        opened => opened.map_err(|error| error.to_string())?,
    };
    let length = file.length().map_err(|error| error.to_string())?;
    if FILE_BYTES_MAX < length {
        return Err(format!("{FILE}: longer than {} MiB{ADVICE}", FILE_BYTES_MAX >> 20));
    }
    let mut bytes = vec![0; length as usize];
    let read = file.read_at(0, &mut bytes).map_err(|error| error.to_string())?;
    let content: QuarantineFile = serde_json::from_slice(&bytes[..read])
        .map_err(|error| format!("{FILE}: {error}{ADVICE}"))?;
    if content.version != VERSION || ENTRIES_MAX < content.records.len() {
        return Err(format!("{FILE}: unknown version, or more than {ENTRIES_MAX} records"));
    }
    match content.records.iter().find(|entry| digest_of(entry).is_none()) {
        Some(entry) => Err(format!("{FILE}: invalid digest of record {}{ADVICE}", entry.log_index)),
        None => Ok(content.records),
    }
}

/// The quarantined records in the form that a replay needs.
pub(crate) fn for_replay(entries: &[Entry]) -> Quarantine {
    let digests =
        entries.iter().filter_map(|entry| Some((LogIndex(entry.log_index), digest_of(entry)?)));
    Quarantine::of(digests)
}

fn digest_of(entry: &Entry) -> Option<Digest> {
    journal::parse_hexadecimal(&entry.digest).map(Digest)
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi verify --data /var/lib/upesi    names the record that breaks an invariant
  upesi quarantine 48211 --data /var/lib/upesi --by 'A. Odhiambo' --reason 'defect 512, agreed'
Copy the data directory first. The other records of the same batch take effect with the next start.
The batch was never acknowledged; participants get its results when they resend the messages.";

/// Arguments of `quarantine`.
#[derive(clap::Args)]
pub(crate) struct QuarantineArguments {
    /// Log index of the record, as named by the failed start.
    #[arg(value_name = "LOG_INDEX", value_parser = clap::value_parser!(u64).range(2..))]
    log_index: u64,
    /// Directory of the log. The switch must not be running on it.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Name of the operator, for the audit trail; at most 200 bytes.
    #[arg(long, value_name = "NAME")]
    by: String,
    /// Reason for the quarantine, for the audit trail; at most 2,000 bytes.
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(crate) fn quarantine(arguments: &QuarantineArguments) -> Result<(), CliError> {
    let place = arguments.data.display().to_string();
    let failed = |what: String| CliError::new(format!("{place}: {what}"));
    for (name, text, bytes_max) in
        [("--by", &arguments.by, NAME_BYTES_MAX), ("--reason", &arguments.reason, REASON_BYTES_MAX)]
    {
        let plain = !text.trim().is_empty() && !text.chars().any(char::is_control);
        if !plain || bytes_max < text.len() {
            let what = format!("{name}: expected one line of 1 to {bytes_max} bytes");
            return Err(CliError::new(what));
        }
    }
    refuse_without_log(&arguments.data)?;
    let disk = RealDisk::open(&arguments.data)
        .and_then(TieredDisk::open)
        .map_err(|error| failed(error.to_string()))?;
    let disk = unlocked(disk, Access::Read)?;
    let mut entries = load(&disk).map_err(failed)?;
    let wanted = LogIndex(arguments.log_index);
    let poison = match find_broken_record(&disk, for_replay(&entries)).map_err(failed)? {
        None => return Err(failed("the log replays to its end; nothing to quarantine".into())),
        Some(poison) if poison.log_index != wanted => {
            let what = format!(
                "the replay stops at record {}, not at record {}; nothing was quarantined",
                poison.log_index.0, wanted.0
            );
            return Err(failed(what));
        }
        Some(poison) => poison,
    };
    if entries.len() == ENTRIES_MAX {
        return Err(failed(format!("{FILE}: full with {ENTRIES_MAX} records")));
    }
    entries.push(Entry {
        log_index: wanted.0,
        digest: poison.digest.to_string(),
        by: arguments.by.clone(),
        reason: arguments.reason.clone(),
        time: now(),
    });
    // The later records must be valid, or the replay must stop at another record.
    let next = find_broken_record(&disk, for_replay(&entries)).map_err(failed)?;
    if next.as_ref().is_some_and(|next| next.log_index == wanted) {
        let what = "the replay stops there without this record too; nothing was quarantined";
        return Err(failed(what.into()));
    }
    store(&disk, entries).map_err(|error| failed(error.to_string()))?;
    println!("record {} ({}) is quarantined: it is skipped from now on", wanted.0, poison.what);
    match next {
        Some(next) => {
            println!("record {} ({}) breaks an invariant too", next.log_index.0, next.what)
        }
        None => {
            println!("the log replays to its end; `upesi verify` lists the quarantined records")
        }
    }
    Ok(())
}

/// A record that breaks an invariant.
struct BrokenRecord {
    log_index: LogIndex,
    digest: Digest,
    /// Kind and subject of the record, if it can be read.
    what: String,
}

/// Finds the first record that breaks an invariant.
///
/// # Errors
/// The replay stops for another reason.
fn find_broken_record(
    disk: &impl Disk,
    quarantine: Quarantine,
) -> Result<Option<BrokenRecord>, String> {
    let mut replay = Replay::without(quarantine);
    let mut stopped = None;
    let walked = journal::walk(disk, &mut |placed| {
        replay.apply(placed.frame, &mut |_, _, _| {}).map_err(|error| {
            stopped = Some(match error {
                ReplayError::InvariantBroken { log_index } => {
                    let record = placed.frame.record(log_index);
                    record.map(|record| broken_record(&record)).ok_or_else(|| error.to_string())
                }
                other => Err(other.to_string()),
            });
            StopReading
        })
    });
    match stopped {
        Some(stopped) => stopped.map(Some),
        None => walked.map(|_| None).map_err(|error: OpenError| error.to_string()),
    }
}

fn broken_record(record: &record::frame::Record<'_>) -> BrokenRecord {
    let read = record::command::read_fields(record.kind, record.version, record.fields);
    let command = read.as_ref().ok();
    let about = command.and_then(|command| match transfer_of(command) {
        Some(transfer) => Some(format!(", transfer {transfer}")),
        None => command.change().map(|change| format!(", {}", change.declaration().name)),
    });
    let what = format!("kind {}{}", record.kind, about.unwrap_or_default());
    BrokenRecord { log_index: record.log_index, digest: record.digest(), what }
}

/// Replaces the file atomically.
fn store(disk: &impl Disk, records: Vec<Entry>) -> Result<(), DiskError> {
    let content = QuarantineFile { version: VERSION, records };
    let text = serde_json::to_string_pretty(&content).expect("an entry is text and numbers") + "\n";
    match disk.remove(NEW_FILE) {
        Ok(()) | Err(DiskError::NotFound(_)) => {}
        Err(error) => return Err(error),
    }
    let file = disk.create(NEW_FILE)?;
    file.write_at(0, text.as_bytes())?;
    file.sync()?;
    disk.rename(NEW_FILE, FILE)?;
    disk.sync_directory()
}

fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    moment(Stamp(since.as_micros() as u64))
}
