//! The hub as seen from outside, and the durability oracle.
//!
//! The external view observes the hub. It records the outcome at each log index, the acknowledged
//! records, and the fate of each notice. After a crash it compares the remaining log with these
//! records. It keeps its own count of each lane's window.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use ledger::{
    Change, Command, DeliveryResult, LogIndex, Notice, NoticeId, Outcome, Redeliver, Stamp, State,
};
use model::Model;
use ports::Log;
use record::frame::{EncodedRecord, Record};
use sequencer::{AppliedCommand, Committed, Sequencer};

use crate::balance::check_balance;
use crate::random::{mix, words};
use crate::transfers::number_of;

/// A record and what was decided about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DecidedRecord {
    content: u64,
    outcome: Outcome,
}

/// The fate of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoticeStage {
    Owed,
    InFlight,
    Ended(DeliveryResult),
}

#[derive(Clone, Copy, Debug)]
struct NoticeTrack {
    /// The last record of the batch that made it.
    made: u64,
    recipient: u32,
    /// None for an answer to a registration, which has no order among others.
    transfer: Option<u32>,
    stage: NoticeStage,
    received: bool,
    /// It was a dead letter once and is sent again.
    again: bool,
    /// It waited for an address once, and later ones did not wait for it.
    parked: bool,
    /// It ended while no attempt was under way.
    is_quiet: bool,
}

impl NoticeTrack {
    /// An attempt was made of which the log did not know when the hub crashed.
    fn holds_a_slot(&self) -> bool {
        match self.stage {
            NoticeStage::Owed => false,
            NoticeStage::InFlight => true,
            NoticeStage::Ended(_) => !self.is_quiet,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ExternalView {
    pub(crate) model: Model,
    /// A recovery that did not come to its end has taken the model along.
    model_is_lost: bool,
    window: u32,
    decided: Vec<DecidedRecord>,
    /// Records that are in the log a second time.
    duplicates: BTreeSet<u64>,
    /// Everything up to here was acknowledged.
    acknowledged_end: u64,
    tracks: Vec<NoticeTrack>,
    /// Per recipient: attempts under way, and ends whose record is not durable.
    open: BTreeMap<u32, u32>,
    unrecorded: VecDeque<(u64, Vec<u32>)>,
    /// The records that dropped a dead letter.
    dropped: Vec<u64>,
    /// The newest notice attempted, by recipient and transfer, and whether it is under way.
    newest: BTreeMap<(u32, u32), (NoticeId, bool)>,
}

impl ExternalView {
    pub(crate) fn new(window: u32) -> Self {
        Self { window, ..Self::default() }
    }

    /// A batch was committed.
    pub(crate) fn committed<'a>(
        &mut self,
        committed: &Committed,
        batch: impl Iterator<Item = (&'a Command, &'a EncodedRecord)>,
        (state, effects): (&State, &ledger::Effects),
    ) {
        let first = self.decided.len() as u64 + 1;
        assert_eq!(committed.first.0, first, "batches follow each other without a gap");
        self.model.begin(committed.stamp);
        for ((command, record), outcome) in batch.zip(&effects.outcomes) {
            let content = content_of_encoded(record);
            self.decided.push(DecidedRecord { content, outcome: *outcome });
            self.note_dropped((self.decided.len() as u64, command, *outcome));
            let predicted = self.model.decide(command);
            assert_eq!(*outcome, predicted, "the model disagrees on {command:?}");
            self.note_ends(command);
        }
        let last = self.decided.len() as u64;
        assert_eq!(state.log_index().0, last, "the state is as far as the log");
        for notice in &effects.notices {
            self.note_owed(notice, last);
        }
        self.model.compare(state, effects);
        check_balance(state);
        self.durable(committed.durable);
    }

    /// Everything up to here is durable.
    pub(crate) fn durable(&mut self, durable: LogIndex) {
        self.note_acknowledged(durable.0);
        self.recorded(durable.0);
    }

    /// A sender got the outcome of the record at `log_index`, or the log reported that all up to
    /// there is durable.
    pub(crate) fn note_acknowledged(&mut self, log_index: u64) {
        self.acknowledged_end = self.acknowledged_end.max(log_index);
    }

    /// These records repeat earlier ones, appended again by the node that wrote them. Decided
    /// records that were not durable may have been lost before; the repeated ones take their place.
    pub(crate) fn duplicated(&mut self, records: RangeInclusive<u64>) {
        let end = *records.start() - 1;
        if end < self.seen() {
            self.check_acknowledged(end, "after a crash");
            self.decided.truncate(end as usize);
            self.dropped.retain(|log_index| *log_index <= end);
            self.tracks.retain(|track| track.made <= end);
            self.model_is_lost = true;
        }
        self.duplicates.extend(records);
    }

    /// How many records are in the log a second time.
    pub(crate) fn duplicates(&self) -> u64 {
        self.duplicates.len() as u64
    }

    /// A log that ends here has all that was acknowledged.
    pub(crate) fn check_acknowledged(&self, end: u64, what: &str) {
        assert!(
            self.acknowledged_end <= end,
            "{what}: record {} was acknowledged, the log now ends at {end}",
            self.acknowledged_end
        );
    }

    /// A record that is read is the one that was decided, if it was.
    pub(crate) fn check_content(&self, record: &Record<'_>, what: &str) {
        let at = record.log_index.0 as usize - 1;
        let Some(decided) = self.decided.get(at) else { return };
        let same = decided.content == content_of_stored(record);
        assert!(same, "{what}: record {} is another", at + 1);
    }

    /// An attempt to deliver a notice begins; everything up to `durable` is synced.
    pub(crate) fn attempt(&mut self, id: NoticeId, durable: LogIndex) {
        let track = &mut self.tracks[at(id)];
        assert!(
            track.made <= durable.0,
            "{id:?} leaves the hub before record {} is durable: {durable:?}",
            track.made
        );
        assert_eq!(track.stage, NoticeStage::Owed, "{id:?} is attempted");
        (track.stage, track.is_quiet) = (NoticeStage::InFlight, false);
        let open = self.open.entry(track.recipient).or_default();
        *open += 1;
        assert!(*open <= self.window, "the window of lane {} is exceeded", track.recipient);
        let Some(transfer) = track.transfer else { return };
        let key = (track.recipient, transfer);
        let (newest, under_way) = self.newest.entry(key).or_insert((id, false));
        assert!(!*under_way, "{id:?} overtakes {newest:?}, which is under way");
        let may_be_late = track.again || track.parked;
        assert!(*newest <= id || may_be_late, "{id:?} is sent after {newest:?}");
        (*newest, *under_way) = (id.max(*newest), true);
    }

    /// The attempt ended; `end` unless another one follows.
    pub(crate) fn attempted(&mut self, id: NoticeId, end: Option<DeliveryResult>) {
        let track = &mut self.tracks[at(id)];
        assert_eq!(track.stage, NoticeStage::InFlight, "{id:?} was attempted");
        track.stage = end.map_or(NoticeStage::Owed, NoticeStage::Ended);
        assert!(
            end != Some(DeliveryResult::Delivered) || track.received,
            "{id:?} was delivered but never received"
        );
        if end.is_none() {
            *self.open.entry(track.recipient).or_default() -= 1;
        }
        let Some(transfer) = track.transfer else { return };
        let key = (track.recipient, transfer);
        self.newest.get_mut(&key).expect("it was attempted").1 = false;
    }

    /// There is no address for it.
    pub(crate) fn parked(&mut self, id: NoticeId) {
        self.tracks[at(id)].parked = true;
    }

    /// It was withdrawn, or its time was over, while no attempt was under way.
    pub(crate) fn ended_quietly(&mut self, id: NoticeId, end: DeliveryResult) {
        let track = &mut self.tracks[at(id)];
        assert_eq!(track.stage, NoticeStage::Owed, "{id:?} ends without an attempt");
        (track.stage, track.is_quiet) = (NoticeStage::Ended(end), true);
    }

    /// An FSP received a notice. False if it had it already.
    pub(crate) fn received(&mut self, id: NoticeId) -> bool {
        let track = &mut self.tracks[at(id)];
        !std::mem::replace(&mut track.received, true)
    }

    /// How many records were seen committed.
    pub(crate) fn seen(&self) -> u64 {
        self.decided.len() as u64
    }

    /// The log, which now ends at `end`, is opened again. If it has lost no record, the model
    /// continues and is compared with the result of the replay. Otherwise, or with
    /// `from_the_beginning`, the model follows the log from its first record.
    pub(crate) fn reopen(&mut self, end: u64, from_the_beginning: bool) -> Reopening<'_> {
        let seen = self.decided.len();
        let anew = from_the_beginning || self.model_is_lost || end < seen as u64;
        self.model_is_lost = true;
        let model = if anew { Model::default() } else { std::mem::take(&mut self.model) };
        let known = if anew { 0 } else { seen };
        Reopening { external: self, model, known, at: 0, stamp: None, seen }
    }

    /// Nothing is owed, and nothing that ever was owed is unaccounted for.
    pub(crate) fn check_rest(&self, sequencer: &mut Sequencer<impl Log>) {
        for (at, track) in self.tracks.iter().enumerate() {
            let ended = matches!(track.stage, NoticeStage::Ended(_));
            assert!(ended, "notice {} was never delivered nor given up: {track:?}", at + 1);
        }
        let is_dead =
            |track: &&NoticeTrack| track.stage == NoticeStage::Ended(DeliveryResult::Dead);
        let dead = self.tracks.iter().filter(is_dead).count();
        let left = sequencer.state().dead_letter_count();
        assert_eq!(left + self.dropped.len(), dead, "dead letters");
        compare_in_full(&self.model, sequencer);
    }

    fn note_owed(&mut self, notice: &Notice, made: u64) {
        let next = self.tracks.len();
        let again = at(notice.id) < next;
        assert!(at(notice.id) <= next, "notices are numbered without gaps");
        let mut track = NoticeTrack {
            made,
            recipient: notice.recipient.0,
            transfer: notice.transfer.as_ref().map(number_of),
            stage: NoticeStage::Owed,
            received: false,
            again,
            parked: false,
            is_quiet: false,
        };
        if again {
            let known = self.tracks[at(notice.id)];
            assert_eq!(
                known.stage,
                NoticeStage::Ended(DeliveryResult::Dead),
                "{notice:?} is owed again"
            );
            track.made = known.made;
            track.received = known.received;
            self.tracks[at(notice.id)] = track;
        } else {
            self.tracks.push(track);
        }
    }

    fn note_dropped(&mut self, (log_index, command, outcome): (u64, &Command, Outcome)) {
        if let Command::Administer(administer) = command
            && let Change::DropDeadLetter(_) = administer.change
            && outcome == Outcome::Accepted
        {
            self.dropped.push(log_index);
        }
    }

    fn note_ends(&mut self, command: &Command) {
        let Command::FinishDeliveries(ends) = command else { return };
        let tracks = ends.iter().map(|end| &self.tracks[at(end.notice)]);
        let lanes = tracks.filter(|track| !track.is_quiet).map(|track| track.recipient).collect();
        self.unrecorded.push_back((self.decided.len() as u64, lanes));
    }

    /// Ends recorded up to `durable` no longer count against their windows.
    fn recorded(&mut self, durable: u64) {
        while self.unrecorded.front().is_some_and(|(log_index, _)| *log_index <= durable) {
            let (_, lanes) = self.unrecorded.pop_front().expect("there is a front");
            for lane in lanes {
                *self.open.get_mut(&lane).expect("it was attempted") -= 1;
            }
        }
    }

    /// After a crash: what is owed is what was owed, and at most a window of it per lane was
    /// seen by its recipient already.
    fn reconcile(&mut self, state: &State, end: u64) {
        self.check_acknowledged(end, "after a crash");
        self.decided.truncate(end as usize);
        while self.tracks.last().is_some_and(|track| end < track.made) {
            self.tracks.pop();
        }
        let mut owed: Vec<_> = state.notices_owed().copied().collect();
        owed.sort_unstable_by_key(|notice| notice.id);
        let mut is_owed = vec![false; self.tracks.len()];
        let mut repeats: BTreeMap<u32, u32> = BTreeMap::new();
        for notice in &owed {
            if self.tracks.len() <= at(notice.id) {
                self.note_owed(notice, end);
                continue;
            }
            is_owed[at(notice.id)] = true;
            let track = &mut self.tracks[at(notice.id)];
            if track.holds_a_slot() {
                *repeats.entry(track.recipient).or_default() += 1;
            }
            track.stage = NoticeStage::Owed;
        }
        for (lane, count) in repeats {
            assert!(count <= self.window, "{count} notices of lane {lane} are repeated");
        }
        for (at, track) in self.tracks.iter().enumerate().take(is_owed.len()) {
            let has_ended = matches!(track.stage, NoticeStage::Ended(_));
            assert!(is_owed[at] || has_ended, "notice {} is owed no longer: {track:?}", at + 1);
        }
        self.open.clear();
        self.unrecorded.clear();
        self.newest.clear();
    }
}

/// Follows a log that is replayed.
pub(crate) struct Reopening<'a> {
    external: &'a mut ExternalView,
    model: Model,
    /// How many records the model knows already.
    known: usize,
    at: usize,
    stamp: Option<Stamp>,
    /// How many records were seen decided when they were written.
    seen: usize,
}

impl Reopening<'_> {
    pub(crate) fn observe(&mut self, applied: &AppliedCommand<'_>) {
        let log_index = self.at as u64 + 1;
        assert_eq!(applied.record.log_index.0, log_index, "a replay leaves nothing out");
        if self.known <= self.at {
            // Two batches with one stamp are one to the model: nothing falls due between them.
            if self.stamp != Some(applied.stamp) {
                self.stamp = Some(applied.stamp);
                self.model.begin(applied.stamp);
            }
            let predicted = match self.external.duplicates.contains(&log_index) {
                true => self.model.skip_repeated(),
                false => self.model.decide(applied.command),
            };
            let (outcome, command) = (applied.outcome, applied.command);
            assert_eq!(outcome, predicted, "the model disagrees on {command:?}");
        }
        let decided =
            DecidedRecord { content: content_of_stored(applied.record), outcome: applied.outcome };
        if self.at < self.seen {
            let before = self.external.decided[self.at];
            assert_eq!(decided, before, "record {log_index} is not what it was before the crash");
        } else {
            self.external.decided.push(decided);
            self.note_redelivered(applied);
            self.external.note_dropped((log_index, applied.command, applied.outcome));
        }
        self.at += 1;
    }

    /// A dead letter is owed again by a record that was never seen committed.
    fn note_redelivered(&mut self, applied: &AppliedCommand<'_>) {
        if let Command::Administer(administer) = applied.command
            && let Change::Redeliver(Redeliver { notice }) = administer.change
            && applied.outcome == Outcome::Accepted
        {
            let track = &mut self.external.tracks[at(notice)];
            (track.stage, track.again) = (NoticeStage::Owed, true);
        }
    }

    pub(crate) fn finish(self, sequencer: &mut Sequencer<impl Log>) {
        let log_index = sequencer.state().log_index();
        assert_eq!(log_index.0, self.at as u64, "the state is as far as the log");
        compare_in_full(&self.model, sequencer);
        self.external.model = self.model;
        self.external.model_is_lost = false;
        self.external.reconcile(sequencer.state(), self.at as u64);
    }
}

/// Compares every table of the state. Rows in the store are read first.
fn compare_in_full(model: &Model, sequencer: &mut Sequencer<impl Log>) {
    for id in model.ids() {
        sequencer.prefetch([id]).expect("a store in memory is read");
    }
    model.compare_in_full(sequencer.state());
}

fn at(id: NoticeId) -> usize {
    id.0 as usize - 1
}

fn content_of_stored(record: &Record<'_>) -> u64 {
    digest(&[record.fields, &record.payload_digest.0])
}

/// The same of a record not yet stored; the layout is that of `record::frame`.
fn content_of_encoded(record: &EncodedRecord) -> u64 {
    let bytes = record.as_bytes();
    let length = bytes[12..16].try_into().expect("four bytes");
    let fields = &bytes[20..20 + u32::from_le_bytes(length) as usize];
    digest(&[fields, &bytes[20 + fields.len()..52 + fields.len()]])
}

/// Half of its bits are set, without a pattern.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

fn digest(parts: &[&[u8]]) -> u64 {
    let mut sum = 0;
    for part in parts {
        sum = mix(sum ^ part.len() as u64);
        // Each step distinguishes any two words; the bits are spread with the next part.
        sum = words(part).fold(sum, |sum, word| (sum.rotate_left(23) ^ word).wrapping_mul(ODD));
    }
    sum
}
