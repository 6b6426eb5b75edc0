//! Rotation of keys and erasure of contents, with a power cut in every operation of the disk.
//!
//! A small log of payments and a bulk transfer has segments in every form: archived, compressed,
//! plain and open. Then a node starts with a new master key, an erasure of their messages is
//! ordered, and a data key is made for each period, with one of its own for the contents of a
//! participant. If these are erased, its keys are destroyed. The power fails in one operation, the
//! node starts again and ends its work. That is repeated for every operation that changes the disk,
//! with and without encryption.
//!
//! # Checks after each power cut and at the end
//! - the chain, all outcomes and the whole state, by the model and the external view;
//! - each content is whole, or it is erased, was ordered to be and was not needed any more;
//! - the two messages of the bulk transfer are whole while it has not ended, or its result is owed;
//! - a directory whose master key was being changed opens with the two keys, and at the end with
//!   the new one alone;
//! - at the end no ordered content is left in any file or object, and no file is left over.
//!
//! The log, the keys and the erasures are those of the product; only its threads are missing.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use encryption::{Keyring, KeyringError, LocalKey, MasterKey, MasterKeys};
use journal::{
    ArchiveError, Destination, ErasureOrder, ErasureProgress, FileLog, LogOptions, MemoryDisk,
    OrderedErasures, ProgressObserver, Retention, TieredDisk, archive_segment, claim_for, due,
    needed_records,
};
use ledger::{
    Amount, BulkItem, BulkItemAnswer, BulkItemResult, BulkState, Change, Command, DeliveryResult,
    Erase, ErasureForm, FinishedDelivery, FspName, FulfilBulk, Fulfilment, FundsDirection, Genesis,
    LogIndex, MoveFunds, NoticeId, PrepareBulk, RecordRange, Stamp, TransferId,
};
use ports::{ClockReading, Disk, Log, OwnedPayload};
use record::frame::LogIdentity;
use sequencer::{Durability, Sequencer, Submission};
use sha2::{Digest as _, Sha256};

use crate::archive::{HubDisk, MemoryBlobs};
use crate::external_view::ExternalView;
use crate::parameters::{EPOCH_US, Parameters};
use crate::random::{Random, mix, spread16};
use crate::transfers::{Actors, MessageVariant, Request, TransferDraw, TransferPlan, administer};
use crate::workload::operator::{OperatorWorkload, request_hash};

/// Payments of a log.
const PAYMENTS: u32 = 8;
/// The first payments, which wait for their answers when the erasure is ordered.
const UNANSWERED: u32 = 2;
/// Items of the bulk transfer. The payee answers the first one, the other one expires.
const ITEMS: u32 = 2;
/// Time after which the payments and the bulk transfer have expired.
const LIFETIME_MS: u64 = 600_000;
/// Bytes by which a content is found.
const BEGINNING: usize = 12;
/// The fulfilment of the items.
const PREIMAGE: [u8; 32] = [7; 32];
const OPTIONS: LogOptions = LogOptions {
    segment_bytes: 4_000,
    verify: journal::Verify::Everything,
    tail_policy: journal::TailPolicy::Refuse,
    room_bytes: 700,
};

type Node = Sequencer<FileLog<HubDisk>>;

/// The power went off.
#[derive(Debug)]
struct PowerOff;

/// The number of power cuts, and of contents that were erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RewritingCounts {
    /// Operations of the disk in each of which the power failed once.
    pub power_cuts: u64,
    /// Power cuts that left the directory with data keys of both master keys.
    pub half_rotated: u64,
    /// Power cuts that left some contents erased and others not.
    pub half_erased: u64,
    /// Contents that had to wait for the end of a payment or a delivery.
    pub waited: u64,
    /// Contents erased at the end of each run.
    pub erased: u64,
    /// Data keys of the participant that were destroyed.
    pub destroyed: u64,
}

/// Rotates keys and erases contents, with a power cut in every operation in turn.
///
/// The order erases the contents of a range of records (`Before`), or those of one participant in
/// it (`Participant`).
///
/// # Panics
/// If anything is wrong.
#[must_use]
pub fn crash_rotation_and_erasure(
    seed: u64,
    encrypted: bool,
    form: ErasureForm,
) -> RewritingCounts {
    let written = Rewriting { form, ..Rewriting::write_log(seed, encrypted) };
    let mut counts = RewritingCounts::default();
    for operation in 1.. {
        let mut run = written.copy(mix(seed ^ operation));
        run.disk.crash_at(run.disk.operations() + operation);
        let ended = run.rewrite(&mut counts).is_ok();
        if ended && !run.disk.is_down() {
            run.check_end(&mut counts);
            break;
        }
        counts.power_cuts += 1;
        run.disk = run.disk.crash();
        run.check_after_cut(&mut counts);
        run.rewrite(&mut counts).expect("the power stays on");
        run.check_end(&mut counts);
    }
    counts
}

/// One directory, its archive, and the state that they should have.
struct Rewriting {
    disk: MemoryDisk,
    blobs: MemoryBlobs,
    external: ExternalView,
    encrypted: bool,
    /// Before the change of the master key.
    old: Arc<dyn MasterKey>,
    new: Arc<dyn MasterKey>,
    actors: Actors,
    plans: Vec<TransferPlan>,
    /// The contents of all messages, with their senders.
    contents: Vec<(LogIndex, FspName, Vec<u8>)>,
    /// The messages of the bulk transfer.
    of_bulk: Vec<LogIndex>,
    /// The form of the order.
    form: ErasureForm,
    /// The records whose contents are erased by the order.
    ordered: RecordRange,
    now_us: u64,
}

impl Rewriting {
    /// A log of payments; its oldest segments are archived and compressed.
    fn write_log(seed: u64, encrypted: bool) -> Self {
        let mut random = Random::new(mix(seed));
        let parameters = Parameters::draw(&mut random, PAYMENTS);
        let actors = Actors::new(random.next(), &parameters);
        let draw = |number| TransferDraw {
            number,
            now_ms: EPOCH_US / 1_000,
            lifetime_ms: (LIFETIME_MS, LIFETIME_MS),
            amount: (1, 1_000),
            odd_per_mille: 0,
        };
        let plans = (0..PAYMENTS).map(|it| TransferPlan::draw(&mut random, &actors, &draw(it)));
        let plans = plans.collect();
        let key = |byte| -> Arc<dyn MasterKey> { Arc::new(LocalKey::new(&[byte; 32])) };
        let mut run = Self {
            disk: MemoryDisk::new(seed),
            blobs: MemoryBlobs::new(seed, 0),
            external: ExternalView::new(1),
            encrypted,
            old: key(1),
            new: key(2),
            actors,
            plans,
            contents: Vec::new(),
            of_bulk: Vec::new(),
            form: ErasureForm::Before,
            ordered: RecordRange { first: LogIndex(0), last: LogIndex(0) },
            now_us: EPOCH_US,
        };
        run.make_payments(seed);
        run
    }

    fn make_payments(&mut self, seed: u64) {
        let (disk, _keys) = self.open(&self.old.clone(), None).expect("an empty disk opens");
        let identity = LogIdentity(spread16(seed));
        let log = FileLog::create(disk.clone(), identity, OPTIONS).expect("an empty disk");
        let mut node = Sequencer::open(log, 0, self.now(), &mut |_| {}).expect("an empty log");
        let hub = FspName::new("Hub").expect("a short name");
        let mut changes = OperatorWorkload::new(&self.actors).changes().to_vec();
        self.commit(&mut node, Command::Genesis(Genesis { seed: spread16(seed), hub }))
            .expect("on");
        changes.drain(..).for_each(|it| self.commit(&mut node, administer(&it)).expect("on"));
        for deposit in self.deposits(&node) {
            self.commit(&mut node, administer(&deposit)).expect("on");
        }
        self.ordered.first = LogIndex(node.state().log_index().0 + 1);
        for payment in 0..PAYMENTS {
            self.pay(&mut node, payment).expect("on");
            if UNANSWERED <= payment {
                self.respond(&mut node, payment).expect("on");
                self.deliver_all(&mut node).expect("on");
            }
        }
        self.begin_bulk(&mut node).expect("on");
        self.ordered.last = node.state().log_index();
        node.close().expect("on");
        let of_form = [Destination::BlobStore(&self.blobs), Destination::InPlace];
        claim_for(&disk, &self.blobs).expect("an empty archive");
        let retention = Retention { keep_segments: 0, closed_by: Stamp(u64::MAX) };
        for destination in of_form {
            for due in due(&disk, &retention, destination).expect("lists").iter().take(2) {
                archive_segment(&disk, due, destination, &mut |_| Ok(())).expect("moves");
            }
        }
    }

    fn deposits(&self, node: &Node) -> Vec<Change> {
        let participants = node.state().registry().iter();
        let accounts = participants.flat_map(|(_, it)| {
            it.by_currency.iter().map(move |accounts| (it.name, accounts.currency, accounts))
        });
        let deposits = accounts.zip(0..).map(|((name, currency, accounts), number)| {
            let mut bytes = [0; 17];
            bytes[1..].copy_from_slice(&spread16(self.actors.salt ^ 1 << 40 ^ number));
            let id = TransferId::from_bytes(bytes).expect("the first byte is that of a UUID");
            let (account, hash) = (accounts.settlement, request_hash(id, 0));
            let amount = Amount::from_units(1_000_000);
            let direction = FundsDirection::In;
            MoveFunds { id, name, account, direction, currency, amount, hash }.into()
        });
        deposits.collect()
    }

    /// The same directory and archive, independent of this one.
    fn copy(&self, seed: u64) -> Self {
        Self {
            disk: self.disk.copy(seed),
            blobs: self.blobs.copy(),
            external: self.external.clone(),
            encrypted: self.encrypted,
            old: Arc::clone(&self.old),
            new: Arc::clone(&self.new),
            actors: self.actors.clone(),
            plans: self.plans.clone(),
            contents: self.contents.clone(),
            of_bulk: self.of_bulk.clone(),
            form: self.form,
            ordered: self.ordered,
            now_us: self.now_us,
        }
    }

    /// The work that the power cut interrupts: from wherever it was, to its end.
    fn rewrite(&mut self, counts: &mut RewritingCounts) -> Result<(), PowerOff> {
        let (disk, keys) = self.open(&self.new.clone(), Some(self.old.clone()))?;
        if let Some(keys) = &keys {
            self.on(keys.rewrap())?;
            assert_eq!(keys.wrapped_by_others(), 0, "all keys are wrapped by the new master key");
        }
        let mut node = self.start(&disk)?;
        if node.state().erasures().count() == 0 {
            self.order(&mut node)?;
        }
        self.erase(&disk, &node, counts)?;
        self.new_period(keys.as_ref())?;
        for payment in 0..UNANSWERED {
            self.respond(&mut node, payment)?;
        }
        // The bulk transfer expires.
        self.now_us += LIFETIME_MS * 1_000;
        self.commit(&mut node, Command::Tick)?;
        self.deliver_all(&mut node)?;
        node.log().rotator()();
        self.commit(&mut node, Command::Tick)?;
        self.new_period(keys.as_ref())?;
        self.erase(&disk, &node, counts)?;
        if let Some(keys) = keys.filter(|_| self.form == ErasureForm::Participant) {
            node.log().rotator()();
            self.commit(&mut node, Command::Tick)?;
            self.destroy_keys(&disk, &keys, counts)?;
        }
        node.close().map_err(|error| self.off(&error))
    }

    /// A new period begins: the next frames have a new data key.
    fn new_period(&self, keys: Option<&Keyring<MemoryDisk>>) -> Result<(), PowerOff> {
        keys.map_or(Ok(()), |keys| self.on(keys.renew()).map(|_| ()))
    }

    /// Destroys the participant's keys that no content in a closed segment needs.
    fn destroy_keys(
        &self,
        disk: &HubDisk,
        keys: &Keyring<MemoryDisk>,
        counts: &mut RewritingCounts,
    ) -> Result<(), PowerOff> {
        let segments = disk.segments().map_err(|error| self.off(&error))?;
        let needed = journal::payload_keys(disk, &segments, &mut |_| Ok(()));
        let needed = needed.map_err(|error| self.off(&error))?;
        let mut replaced = keys.replaced_keys(&self.participant(), u64::MAX);
        replaced.retain(|key| !needed.contains(key));
        counts.destroyed += self.on(keys.destroy(&replaced))? as u64;
        Ok(())
    }

    /// Opens the directory.
    fn open(
        &self,
        current: &Arc<dyn MasterKey>,
        previous: Option<Arc<dyn MasterKey>>,
    ) -> Result<(HubDisk, Option<Keyring<MemoryDisk>>), PowerOff> {
        let tiered = TieredDisk::open(self.disk.clone()).map_err(|error| self.off(&error))?;
        tiered.mount(Arc::new(self.blobs.clone()));
        if !self.encrypted {
            return Ok((tiered, None));
        }
        let masters = MasterKeys { current: Arc::clone(current), previous };
        let own = vec![self.participant()];
        let keys = self.on(Keyring::with_participants(self.disk.clone(), masters, own))?;
        Ok((tiered.with_cipher(Some(Arc::new(keys.clone()))), Some(keys)))
    }

    /// A start replays the whole log; the external view compares every record and the state.
    fn start(&mut self, disk: &HubDisk) -> Result<Node, PowerOff> {
        let opened = FileLog::open(disk.clone(), OPTIONS);
        let (log, _) = opened.map_err(|error| self.off(&error))?;
        // A message that was not acknowledged may be lost.
        self.contents.retain(|(log_index, ..)| *log_index <= log.tail().end);
        let now = self.now();
        let mut reopening = self.external.reopen(log.tail().end.0, false);
        let opened = Sequencer::open(log, 0, now, &mut |applied| reopening.observe(applied));
        let down = self.disk.is_down();
        match opened {
            Ok(mut node) => {
                reopening.finish(&mut node);
                Ok(node)
            }
            Err(error) => {
                assert!(down, "the log does not replay: {error}");
                Err(PowerOff)
            }
        }
    }

    fn order(&mut self, node: &mut Node) -> Result<(), PowerOff> {
        let before = "2030-01-01T00:00:00.000Z";
        let (form, records) = (self.form, vec![self.ordered]);
        let subject = match form {
            ErasureForm::Participant => Erase::participant_subject(&self.participant(), before),
            _ => before.to_owned(),
        };
        let erase = Erase { form, subject, records, contents: 0 };
        self.commit(node, administer(&erase.into()))
    }

    /// A pass of the background job.
    fn erase(
        &self,
        disk: &HubDisk,
        node: &Node,
        counts: &mut RewritingCounts,
    ) -> Result<(), PowerOff> {
        let mut orders = OrderedErasures::default();
        for erasure in node.state().erasures().iter() {
            let read = node.log().reader().read(erasure.record).map_err(|it| self.off(&it))?;
            let read = read.expect("the order is durable");
            let command = record::command::read_fields(read.kind, read.version, &read.fields);
            let Ok(Command::Administer(administer)) = command else { panic!("no order") };
            let Change::Erase(erase) = administer.change else { panic!("no order") };
            orders.push(ErasureOrder { record: erasure.record, erase });
        }
        let failed = |error: ArchiveError| self.off(&error);
        let mut progress = ErasureProgress::load(disk.below()).map_err(|it| self.off(&it))?;
        let segments = disk.segments().map_err(|error| self.off(&error))?;
        let needed = needed_records(node.state());
        let (closer, mut go) = (node.log().closer(), |_| Ok(()));
        for due in orders.due(&segments, &progress) {
            let moved: &dyn Fn(LogIndex) = &|first| closer(first);
            let watch = (moved, &mut go as &mut ProgressObserver<'_>);
            let erased = orders.erase(disk, (&due, &needed), &mut progress, watch);
            erased.map_err(failed)?;
        }
        let segments = disk.segments().map_err(|error| self.off(&error))?;
        let remaining = orders.remaining(&segments, &progress);
        counts.waited += remaining.values().map(|it| it.waiting).sum::<u64>();
        let ends = needed.is_empty() && remaining.values().any(|it| 0 < it.segments);
        assert!(!ends || orders.touch_open(&segments[segments.len() - 1]), "{remaining:?}");
        let erased = self.erased(node);
        assert!(self.is_bulk_whole(node, &erased), "a message of the bulk transfer is needed");
        Ok(())
    }

    /// After a power cut: the log is sound, and each content is whole or erased as ordered.
    fn check_after_cut(&mut self, counts: &mut RewritingCounts) {
        let opened = self.open(&self.new.clone(), Some(self.old.clone()));
        let (disk, keys) = opened.expect("the two master keys open it");
        let by_others = keys.as_ref().map_or(0, Keyring::wrapped_by_others);
        counts.half_rotated += u64::from(0 < by_others);
        let node = self.start(&disk).expect("the power is on");
        let is_ordered = 0 < node.state().erasures().count();
        let needed = needed_records(node.state());
        let erased = self.erased(&node);
        let ordered: BTreeSet<_> = self.ordered().map(|(record, _)| record).collect();
        let wrong = |record: &&LogIndex| {
            !is_ordered || needed.contains(record) || !ordered.contains(record)
        };
        let wrong: Vec<_> = erased.iter().filter(wrong).collect();
        assert!(wrong.is_empty(), "erased without an order, or while needed: {wrong:?}");
        assert!(self.is_bulk_whole(&node, &erased), "a message of the bulk transfer is needed");
        let is_part = !erased.is_empty() && erased.len() < self.contents.len();
        counts.half_erased += u64::from(is_part);
        // The process ends without another word.
        drop(node);
        self.disk = self.disk.kill();
    }

    /// The messages whose contents are erased; all others are as they were sent.
    fn erased(&self, node: &Node) -> BTreeSet<LogIndex> {
        let reader = node.log().reader();
        let mut erased = BTreeSet::new();
        for (log_index, _, content) in &self.contents {
            let Some(read) = reader.read(*log_index).expect("a sound disk") else { continue };
            match read.payload {
                OwnedPayload::Stored(stored) => assert_eq!(&stored[..], content, "{log_index:?}"),
                OwnedPayload::Erased => _ = erased.insert(*log_index),
                OwnedPayload::None => panic!("{log_index:?} has lost its content"),
            }
        }
        erased
    }

    /// The erasure has ended, and the old master key is of no use any more.
    fn check_end(&mut self, counts: &mut RewritingCounts) {
        self.disk = self.disk.kill();
        let (disk, _) = self.open(&self.new.clone(), None).expect("the new master key opens it");
        let node = self.start(&disk).expect("the power is on");
        assert!(needed_records(node.state()).is_empty(), "no content is needed");
        let ordered = self.ordered().map(|(record, _)| record);
        assert_eq!(self.erased(&node), ordered.collect(), "erased contents");
        counts.erased += self.erased(&node).len() as u64;
        if self.encrypted {
            let masters = MasterKeys { current: Arc::clone(&self.old), previous: None };
            let refused = Keyring::open(self.disk.clone(), masters).expect_err("refused");
            assert!(matches!(refused, KeyringError::WrongMasterKey { .. }), "{refused}");
        }
        let names = self.disk.list().expect("lists");
        let is_left = |name: &&String| name.ends_with(".unfinished") || name.ends_with(".new");
        let left: Vec<_> = names.iter().filter(is_left).collect();
        assert!(left.is_empty(), "files are left: {left:?}");
        let beginnings: BTreeSet<_> = self.ordered().map(|(_, it)| &it[..BEGINNING]).collect();
        let files = names.iter().filter_map(|name| self.disk.content(name));
        for bytes in files.chain(self.blobs.contents()) {
            let found = bytes.windows(BEGINNING).find(|window| beginnings.contains(window));
            assert_eq!(found, None, "an ordered content is left");
        }
    }

    /// The participant of an order of that form.
    fn participant(&self) -> FspName {
        self.actors.name(self.plans[0].payer)
    }

    /// The contents that the order erases.
    fn ordered(&self) -> impl Iterator<Item = (LogIndex, &[u8])> {
        let one = (self.form == ErasureForm::Participant).then(|| self.participant());
        let is_ordered = move |record: LogIndex, sender: &FspName| {
            self.ordered.contains(record) && one.is_none_or(|one| one == *sender)
        };
        let contents = self.contents.iter().filter(move |it| is_ordered(it.0, &it.1));
        contents.map(|it| (it.0, &it.2[..]))
    }

    fn pay(&mut self, node: &mut Node, payment: u32) -> Result<(), PowerOff> {
        let plan = &self.plans[payment as usize];
        let message = MessageVariant::Prepare { transfer: payment, variant: 0 };
        let request = Request { from: plan.payer, message };
        let command = self.actors.prepare(plan, request);
        self.commit_message(node, command, request)
    }

    /// A bulk transfer with an answer for its first item.
    fn begin_bulk(&mut self, node: &mut Node) -> Result<(), PowerOff> {
        let (payer, payee) = (self.plans[0].payer, self.plans[0].payee);
        let asked = MessageVariant::PrepareBulk { bulk: 0, variant: 0 };
        let asked = Request { from: payer, message: asked };
        let bulk = PrepareBulk {
            id: self.bulk(),
            source: self.actors.name(payer),
            payer: self.actors.name(payer),
            payee: self.actors.name(payee),
            expiration_ms: EPOCH_US / 1_000 + LIFETIME_MS,
            hash: self.actors.hash(asked),
            trace: self.actors.trace(asked),
            items: (0..ITEMS).map(|item| self.item(item)).collect(),
        };
        self.of_bulk.push(LogIndex(node.state().log_index().0 + 1));
        self.commit_message(node, Command::PrepareBulk(Box::new(bulk)), asked)?;
        self.deliver_all(node)?;
        let answered = MessageVariant::RespondBulk { bulk: 0, variant: 0 };
        let answered = Request { from: payee, message: answered };
        let answer = BulkItemAnswer::Fulfilled(Fulfilment::Present(PREIMAGE));
        let answer = FulfilBulk {
            id: self.bulk(),
            source: self.actors.name(payee),
            destination: Some(self.actors.name(payer)),
            hash: self.actors.hash(answered),
            trace: self.actors.trace(answered),
            items: vec![BulkItemResult { id: self.item(0).id, answer }],
        };
        self.of_bulk.push(LogIndex(node.state().log_index().0 + 1));
        self.commit_message(node, Command::FulfilBulk(Box::new(answer)), answered)?;
        let view = node.state().bulk_view(&self.bulk()).expect("it was accepted");
        assert_eq!(view.state, BulkState::Processing, "an item is in flight");
        Ok(())
    }

    fn bulk(&self) -> TransferId {
        self.actors.id(PAYMENTS + ITEMS).as_bulk()
    }

    fn item(&self, number: u32) -> BulkItem {
        BulkItem {
            id: self.actors.id(PAYMENTS + number),
            currency: self.actors.currency(self.plans[0].currency),
            amount: Amount::from_units(1),
            condition: Sha256::digest(PREIMAGE).into(),
            fee_rule: None,
        }
    }

    /// Whether no message of the bulk transfer is erased, or none is needed any more.
    fn is_bulk_whole(&self, node: &Node, erased: &BTreeSet<LogIndex>) -> bool {
        let view = node.state().bulk_view(&self.bulk()).expect("it was accepted");
        let is_final = matches!(view.state, BulkState::Final(_));
        let is_owed = node.state().notices_owed().any(|it| it.transfer == Some(self.bulk()));
        is_final && !is_owed || !self.of_bulk.iter().any(|record| erased.contains(record))
    }

    fn respond(&mut self, node: &mut Node, payment: u32) -> Result<(), PowerOff> {
        let plan = &self.plans[payment as usize];
        let message = MessageVariant::Response { transfer: payment, variant: 0 };
        let request = Request { from: plan.payee, message };
        let command = self.actors.respond(plan, request);
        self.commit_message(node, command, request)
    }

    /// The participants have received everything.
    fn deliver_all(&mut self, node: &mut Node) -> Result<(), PowerOff> {
        let mut owed: Vec<NoticeId> = node.state().notices_owed().map(|it| it.id).collect();
        owed.sort_unstable();
        if owed.is_empty() {
            return Ok(());
        }
        owed.iter().for_each(|id| self.external.ended_quietly(*id, DeliveryResult::Delivered));
        let ends = owed.into_iter().map(|notice| FinishedDelivery {
            notice,
            result: DeliveryResult::Delivered,
            attempts: 1,
            status: 200,
            finished_ms: self.now_us / 1_000,
        });
        let command = Command::FinishDeliveries(ends.collect());
        self.commit(node, command)
    }

    fn commit_message(
        &mut self,
        node: &mut Node,
        command: Command,
        request: Request,
    ) -> Result<(), PowerOff> {
        let content = request.payload();
        let at = LogIndex(node.state().log_index().0 + 1);
        self.contents.push((at, self.actors.name(request.from), content.clone()));
        self.append(node, command, Some(&content))
    }

    fn commit(&mut self, node: &mut Node, command: Command) -> Result<(), PowerOff> {
        self.append(node, command, None)
    }

    fn append(
        &mut self,
        node: &mut Node,
        command: Command,
        content: Option<&[u8]>,
    ) -> Result<(), PowerOff> {
        let record = sequencer::encode(&command, content).expect("it fits a record");
        let durability = Durability::Synced;
        let mut waiting =
            VecDeque::from([Submission { command, record, durability, attached: () }]);
        let (mut batch, now) = (Vec::new(), self.now());
        let committed = node.commit(&mut waiting, &mut batch, now);
        let committed = committed.map_err(|error| self.off(&error))?;
        let records = batch.iter().map(|one| (&one.command, &one.record));
        self.external.committed(&committed, records, (node.state(), node.effects()));
        Ok(())
    }

    fn now(&mut self) -> ClockReading {
        self.now_us += 1_000;
        ClockReading { monotonic_us: self.now_us - EPOCH_US, wall: Stamp(self.now_us) }
    }

    /// The result, unless the power went off.
    fn on<T>(&self, result: Result<T, KeyringError>) -> Result<T, PowerOff> {
        result.map_err(|error| self.off(&error))
    }

    /// An error is no fault of the product if the power is off.
    #[track_caller]
    fn off(&self, error: &dyn std::fmt::Display) -> PowerOff {
        assert!(self.disk.is_down(), "{error}");
        PowerOff
    }
}
