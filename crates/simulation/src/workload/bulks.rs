//! The bulk workload: payers that send bulk transfers, and payees that answer them.
//!
//! Items are ordinary, over the cover half-way, all over it, in an unknown currency, listed twice,
//! or transfers that the hub knows already. Payees commit all items, some, or none, answer for a
//! part or for an item that they do not have, abort, are late, or never answer. Both send their
//! messages again, also with another content, and ask for the state. Items are also addressed as
//! single transfers.
//!
//! The workload exists in some runs only, and has its own RNG stream. A run without it is the same,
//! event for event, as before the workload existed.

use ledger::{
    AbortBulk, Amount, BulkItem, BulkItemAnswer, BulkItemResult, BulkLookup, BulkState, Command,
    Currency, FulfilBulk, Fulfilment, Notice, NoticeKind, Outcome, PrepareBulk, TransferId,
};
use sha2::{Digest as _, Sha256};

use crate::event::Event;
use crate::parameters::SECOND;
use crate::random::{Arrivals, Random, mix, spread32};
use crate::simulation::SimulationRun;
use crate::transfers::{Actors, GHOST, MessageVariant, Request, number_of};
use crate::workload::fsp::RESENDS_MAX;

/// Separates the RNG stream of this workload from that of the run. With this number, no seed that
/// had found a bug before gets the workload, so those seeds still find it.
const STREAM: u64 = 0x0062_756c_6b13;
/// Runs with this workload, in a thousand.
const PER_MILLE: u32 = 300;
/// Numbers of bulk transfers begin here, beyond those of all transfer plans.
const BULKS_FIRST: u32 = 1 << 29;
/// Numbers of their items begin here.
pub(crate) const ITEMS_FIRST: u32 = 1 << 30;
const ITEMS_MAX: u64 = 6;

/// A bulk transfer as its parties intend it.
#[derive(Clone, Debug)]
pub(crate) struct BulkPlan {
    number: u32,
    payer: u8,
    payee: u8,
    /// Another FSP sends it.
    is_foreign: bool,
    expiration_ms: u64,
    items: Vec<BulkItem>,
    answer: BulkAnswer,
    /// The items that the payee was sent.
    accepted: Vec<TransferId>,
    payer_side: BulkParty,
    payee_side: BulkParty,
}

/// The knowledge and actions of one party.
#[derive(Clone, Copy, Debug, Default)]
struct BulkParty {
    /// The outcome that ended the bulk transfer.
    end: Option<Outcome>,
    involved: bool,
    answered: bool,
    resends: u8,
}

/// How the payee answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BulkAnswer {
    Commit,
    /// Some items are committed, others refused or given a wrong fulfilment.
    Mixed,
    /// For the first items only.
    Part,
    RefuseAll,
    UnknownItem,
    WrongDestination,
    Abort,
    AbortUnknownCode,
    Late,
    Silent,
}

const ANSWERS: [BulkAnswer; 13] = [
    BulkAnswer::Commit,
    BulkAnswer::Commit,
    BulkAnswer::Mixed,
    BulkAnswer::Mixed,
    BulkAnswer::Part,
    BulkAnswer::Part,
    BulkAnswer::RefuseAll,
    BulkAnswer::UnknownItem,
    BulkAnswer::WrongDestination,
    BulkAnswer::Abort,
    BulkAnswer::AbortUnknownCode,
    BulkAnswer::Late,
    BulkAnswer::Silent,
];

/// The bulk transfers of a run.
#[derive(Debug)]
pub(crate) struct BulkWorkload {
    random: Random,
    pub(crate) arrivals: Arrivals,
    pub(crate) plans: Vec<BulkPlan>,
    items: u32,
}

impl BulkWorkload {
    pub(crate) fn new(seed: u64, chaos_us: u64) -> Self {
        let mut random = Random::new(mix(seed ^ STREAM));
        let arrivals = Arrivals::draw(&mut random, PER_MILLE, (5, 25), chaos_us);
        Self { random, arrivals, plans: Vec::new(), items: 0 }
    }

    /// Whether a party does not know the end of some bulk transfer.
    pub(crate) fn is_waiting(&self) -> bool {
        self.plans.iter().any(|plan| {
            let is_waiting = |party: &BulkParty| party.involved && party.end.is_none();
            is_waiting(&plan.payer_side) || is_waiting(&plan.payee_side)
        })
    }
}

impl BulkPlan {
    fn id(&self, actors: &Actors) -> TransferId {
        actors.id(BULKS_FIRST + self.number).as_bulk()
    }

    /// The command that the hub's edge makes of the payer's message.
    fn prepare(&self, actors: &Actors, request: Request, variant: u8) -> Command {
        let mut items = self.items.clone();
        let more = Amount::from_units(i128::from(variant));
        items[0].amount = items[0].amount.checked_add(more).expect("amounts are small");
        let source = match self.is_foreign {
            true => self.payer.wrapping_add(1) % actors.fsps.len() as u8,
            false => request.from,
        };
        Command::PrepareBulk(Box::new(PrepareBulk {
            id: self.id(actors),
            source: actors.name(source),
            payer: actors.name(self.payer),
            payee: actors.name(self.payee),
            expiration_ms: self.expiration_ms,
            hash: actors.hash(request),
            trace: actors.trace(request),
            items,
        }))
    }

    /// The command that the hub's edge makes of the payee's message.
    fn respond(&self, actors: &Actors, request: Request) -> Command {
        let (id, source) = (self.id(actors), actors.name(request.from));
        let (hash, trace) = (actors.hash(request), actors.trace(request));
        let to = if self.answer == BulkAnswer::WrongDestination { GHOST } else { self.payer };
        let destination = Some(actors.name(to));
        if matches!(self.answer, BulkAnswer::Abort | BulkAnswer::AbortUnknownCode) {
            let code_is_known = self.answer == BulkAnswer::Abort;
            let abort = AbortBulk { id, source, destination, code_is_known, hash, trace };
            return Command::AbortBulk(Box::new(abort));
        }
        let fulfil =
            FulfilBulk { id, source, destination, hash, trace, items: self.results(actors) };
        Command::FulfilBulk(Box::new(fulfil))
    }

    fn results(&self, actors: &Actors) -> Vec<BulkItemResult> {
        let count = match self.answer {
            BulkAnswer::Part => self.accepted.len().div_ceil(2),
            _ => self.accepted.len(),
        };
        let result = |(place, id): (usize, &TransferId)| {
            let fulfilled = BulkItemAnswer::Fulfilled(Fulfilment::Present(preimage(actors, *id)));
            let answer = match (self.answer, place % 4) {
                (BulkAnswer::Mixed, 1) => BulkItemAnswer::Refused(true),
                (BulkAnswer::Mixed, 2) => BulkItemAnswer::Fulfilled(Fulfilment::Present([0; 32])),
                (BulkAnswer::RefuseAll, _) | (BulkAnswer::Mixed, 3) => {
                    BulkItemAnswer::Refused(false)
                }
                _ => fulfilled,
            };
            BulkItemResult { id: *id, answer }
        };
        let mut results: Vec<_> = self.accepted[..count].iter().enumerate().map(result).collect();
        if self.answer == BulkAnswer::UnknownItem {
            let id = actors.id(u32::MAX);
            results.push(BulkItemResult { id, answer: BulkItemAnswer::Refused(true) });
        }
        results
    }
}

/// The fulfilment of an item.
fn preimage(actors: &Actors, item: TransferId) -> [u8; 32] {
    spread32(actors.salt ^ u64::from(number_of(&item)).rotate_left(40))
}

impl SimulationRun {
    /// Schedules the next bulk transfer, if the run has this workload.
    pub(crate) fn schedule_bulks(&mut self) {
        if let Some(wait) = self.bulk_workload.arrivals.next(&mut self.bulk_workload.random) {
            self.env.after(wait, Event::Bulks);
        }
    }

    /// The next payer sends a bulk transfer.
    pub(crate) fn new_bulk(&mut self) {
        if self.env.calm {
            return;
        }
        let plan = self.draw_bulk();
        let (bulk, payer, fsps) = (plan.number, plan.payer, u64::from(self.env.parameters.fsps));
        self.bulk_workload.plans.push(plan);
        self.env.counts.bulks += 1;
        let message = MessageVariant::PrepareBulk { bulk, variant: 0 };
        self.env.send(Request { from: payer, message });
        let random = &mut self.bulk_workload.random;
        self.env.after(random.between((SECOND, 3 * SECOND)), Event::BulkPayerTimer(bulk));
        // An answer of any FSP, perhaps of the payee before it was sent the items.
        if random.chance(150) {
            let message = MessageVariant::RespondBulk { bulk, variant: 0 };
            let request = Request { from: random.below(fsps) as u8, message };
            self.env.after(random.below(SECOND), Event::Arrive(request));
        }
        self.schedule_bulks();
    }

    fn draw_bulk(&mut self) -> BulkPlan {
        let fsps = u64::from(self.env.parameters.fsps);
        let (least, most) = self.env.parameters.lifetime_ms;
        let random = &mut self.bulk_workload.random;
        let payer = random.below(fsps) as u8;
        let other = ((u64::from(payer) + 1 + random.below(fsps - 1)) % fsps) as u8;
        let lifetime_ms = random.between((least, most));
        let (mut payee, mut expiration_ms) = (other, self.env.true_ms() + lifetime_ms);
        let mut is_foreign = false;
        match random.below(30) {
            0 => payee = GHOST,
            1 => payee = payer,
            2 => expiration_ms -= lifetime_ms + 5,
            3 => is_foreign = true,
            _ => {}
        }
        let answer = random.pick(&ANSWERS);
        let items = self.draw_items();
        BulkPlan {
            number: self.bulk_workload.plans.len() as u32,
            payer,
            payee,
            is_foreign,
            expiration_ms,
            items,
            answer,
            accepted: Vec::new(),
            payer_side: BulkParty { involved: true, ..BulkParty::default() },
            payee_side: BulkParty::default(),
        }
    }

    fn draw_items(&mut self) -> Vec<BulkItem> {
        // Ordinary, over the cover half-way, or all over it.
        let random = &mut self.bulk_workload.random;
        let ends = self.env.parameters.amount;
        let (half, all) = (400_000_000, 3_000_000_000);
        let ends = random.pick(&[ends, ends, ends, (half, half), (all, all)]);
        let count = random.between((1, ITEMS_MAX));
        let mut items: Vec<BulkItem> = Vec::new();
        for _ in 0..count {
            let number = ITEMS_FIRST + self.bulk_workload.items;
            self.bulk_workload.items += 1;
            let random = &mut self.bulk_workload.random;
            let currency = match random.chance(50) {
                true => Currency::parse("XTS").expect("three letters"),
                false => random.pick(&self.actors.currencies),
            };
            let amount = Amount::from_units(i128::from(random.between(ends)));
            let (is_known, is_twice) = (random.chance(50), random.chance(50));
            let mut id = self.actors.id(number);
            if is_known {
                id = self.known_transfer().unwrap_or(id);
            } else if is_twice {
                id = items.first().map_or(id, |first| first.id);
            }
            let condition = Sha256::digest(preimage(&self.actors, id)).into();
            let fee_rule = self.actors.fee_rule(number);
            items.push(BulkItem { id, currency, amount, condition, fee_rule });
        }
        items
    }

    /// A transfer whose prepare was acknowledged.
    fn known_transfer(&mut self) -> Option<TransferId> {
        let number = self.bulk_workload.random.below(self.plans.len().max(1) as u64) as u32;
        let is_known = self.parties.get(number as usize)?.payer.acknowledged;
        is_known.then(|| self.actors.id(number))
    }

    /// The command of a message about a bulk transfer.
    pub(crate) fn bulk_command(&self, request: Request) -> Command {
        let plan = |bulk: u32| &self.bulk_workload.plans[bulk as usize];
        match request.message {
            MessageVariant::PrepareBulk { bulk, variant } => {
                plan(bulk).prepare(&self.actors, request, variant)
            }
            MessageVariant::RespondBulk { bulk, .. } => plan(bulk).respond(&self.actors, request),
            other => panic!("{other:?} is not about a bulk transfer"),
        }
    }

    /// A callback about a bulk transfer reaches an FSP.
    pub(crate) fn bulk_callback(&mut self, fsp: u8, notice: &Notice, source: Option<Request>) {
        let id = notice.transfer.expect("it is about a bulk transfer");
        let bulk = number_of(&id) - BULKS_FIRST;
        let is_about = |source: Request| match source.message {
            MessageVariant::PrepareBulk { bulk: about, .. } => about == bulk,
            MessageVariant::RespondBulk { bulk: about, .. } => {
                about == bulk && notice.kind != NoticeKind::BulkPrepare
            }
            _ => false,
        };
        assert!(source.is_none_or(is_about), "{notice:?} is made from {source:?}");
        let end = match notice.kind {
            NoticeKind::BulkPrepare => None,
            NoticeKind::BulkResult => Some(notice.outcome),
            NoticeKind::BulkError => Some(notice.outcome).filter(|outcome| ends_bulk(*outcome)),
            other => panic!("{other:?} is not about a bulk transfer"),
        };
        if notice.kind == NoticeKind::BulkPrepare {
            self.involve_bulk_payee(fsp, bulk, &id);
        }
        self.record_bulk_end(fsp, bulk, end);
    }

    fn involve_bulk_payee(&mut self, fsp: u8, bulk: u32, id: &TransferId) {
        let plan = &mut self.bulk_workload.plans[bulk as usize];
        assert_eq!(fsp, plan.payee, "the items go to the payee");
        if std::mem::replace(&mut plan.payee_side.involved, true) {
            return;
        }
        // The message lists the accepted items.
        plan.accepted = self.external.model.accepted_items(id).to_vec();
        assert!(!plan.accepted.is_empty(), "the payee is sent no bulk without items");
        let left = plan.expiration_ms.saturating_sub(self.env.true_ms()) * 1_000;
        let random = &mut self.bulk_workload.random;
        let wait = match plan.answer {
            BulkAnswer::Late => left + random.below(SECOND),
            BulkAnswer::Silent => left + 2 * SECOND,
            _ => random.between(self.env.parameters.think_us),
        };
        self.env.after(wait, Event::BulkPayeeTimer(bulk));
        if random.chance(200) {
            self.address_item(bulk);
        }
    }

    /// An item is addressed as a single transfer, by either party.
    fn address_item(&mut self, bulk: u32) {
        let plan = &self.bulk_workload.plans[bulk as usize];
        let (payer, payee, item) = (plan.payer, plan.payee, plan.items[0]);
        if self.bulk_workload.random.chance(500) {
            let command = self.unplanned_response(plan.accepted[0], payee);
            return self.send_unplanned(payee, command);
        }
        let parties = (self.actors.name(payer), self.actors.name(payee));
        let mut command = self.unplanned_prepare(parties, item.currency);
        if let Command::Prepare(prepare) = &mut command {
            prepare.id = self.bulk_workload.plans[bulk as usize].accepted[0];
        }
        self.send_unplanned(payer, command);
    }

    fn record_bulk_end(&mut self, fsp: u8, bulk: u32, end: Option<Outcome>) {
        let plan = &mut self.bulk_workload.plans[bulk as usize];
        let Some(end) = end else { return };
        let roles = [(plan.payer, &mut plan.payer_side), (plan.payee, &mut plan.payee_side)];
        let mut own = roles.into_iter().filter(|(party, _)| *party == fsp).peekable();
        assert!(own.peek().is_some(), "{fsp} is no party of bulk transfer {bulk}");
        for (_, party) in own {
            let known = *party.end.get_or_insert(end);
            assert_eq!(known, end, "FSP {fsp} is notified of two ends of bulk transfer {bulk}");
        }
    }

    /// A payer that does not know the end sends its message again, or asks.
    pub(crate) fn bulk_payer_timer(&mut self, bulk: u32) {
        let calm = self.env.calm;
        let plan = &mut self.bulk_workload.plans[bulk as usize];
        let (from, party) = (plan.payer, &mut plan.payer_side);
        if party.end.is_some() || (!calm && RESENDS_MAX <= party.resends) {
            return;
        }
        party.resends = party.resends.saturating_add(1);
        let resends = party.resends;
        let variant = self.variant();
        let message = match calm && resends.is_multiple_of(2) {
            true => MessageVariant::GetBulk { bulk },
            false => MessageVariant::PrepareBulk { bulk, variant },
        };
        self.env.send(Request { from, message });
        let wait = self.pause(resends);
        self.env.after(wait, Event::BulkPayerTimer(bulk));
    }

    /// A payee gives its answer, gives it again, or asks.
    pub(crate) fn bulk_payee_timer(&mut self, bulk: u32) {
        let calm = self.env.calm;
        let plan = &mut self.bulk_workload.plans[bulk as usize];
        let (from, is_silent) = (plan.payee, plan.answer == BulkAnswer::Silent);
        let party = &mut plan.payee_side;
        let is_first = !std::mem::replace(&mut party.answered, true);
        party.resends = party.resends.saturating_add(u8::from(!is_first));
        let (resends, is_tired) = (party.resends, RESENDS_MAX <= party.resends);
        if (party.end.is_some() && !is_first) || (is_tired && !calm) {
            return;
        }
        let variant = if is_first { 0 } else { self.variant() };
        let message = match is_silent || is_tired {
            true => MessageVariant::GetBulk { bulk },
            false => MessageVariant::RespondBulk { bulk, variant },
        };
        self.env.send(Request { from, message });
        let wait = self.pause(resends);
        self.env.after(wait, Event::BulkPayeeTimer(bulk));
    }

    /// `GET /bulkTransfers/{id}`: answered from the state at once.
    pub(crate) fn bulk_asked(&mut self, fsp: u8, bulk: u32) {
        let id = self.bulk_workload.plans[bulk as usize].id(&self.actors);
        let asker = self.actors.name(fsp);
        self.prefetch(&id);
        let Some(state) = self.state() else { return };
        match state.look_up_bulk(&asker, &id) {
            BulkLookup::Found(view) => {
                if let BulkState::Final(outcome) = view.state {
                    self.record_bulk_end(fsp, bulk, Some(outcome));
                }
            }
            found => {
                let is_known = self.external.model.has_bulk(&id);
                assert!(!is_known, "{asker} asked for {id} and got {found:?}");
            }
        }
    }

    /// After the faults have stopped, waiting parties ask.
    pub(crate) fn wake_bulk_parties(&mut self) {
        for bulk in 0..self.bulk_workload.plans.len() as u32 {
            let plan = &self.bulk_workload.plans[bulk as usize];
            let is_waiting = |party: &BulkParty| party.involved && party.end.is_none();
            let waiting = (is_waiting(&plan.payer_side), is_waiting(&plan.payee_side));
            let wait = self.bulk_workload.random.below(SECOND);
            if waiting.0 {
                self.env.after(wait, Event::BulkPayerTimer(bulk));
            }
            if waiting.1 {
                self.env.after(wait, Event::BulkPayeeTimer(bulk));
            }
        }
    }

    /// The belief of every party equals the kernel's state.
    pub(crate) fn check_bulk_agreement(&mut self) {
        for bulk in 0..self.bulk_workload.plans.len() {
            let id = self.bulk_workload.plans[bulk].id(&self.actors);
            self.prefetch(&id);
            let state = self.state().expect("a hub at rest is up");
            let view = state.bulk_view(&id).expect("the payer knows its end");
            let BulkState::Final(end) = view.state else { panic!("bulk transfer {bulk} is open") };
            let BulkPlan { payer_side, payee_side, .. } = &self.bulk_workload.plans[bulk];
            assert_eq!(payer_side.end, Some(end), "the payer's view of bulk transfer {bulk}");
            let is_right = payee_side.end.is_none_or(|known| known == end);
            assert!(is_right, "the payee's view of bulk transfer {bulk}: {payee_side:?}");
        }
    }
}

/// Whether a bulk transfer with this error has ended; others leave it as it is.
fn ends_bulk(error: Outcome) -> bool {
    use Outcome::*;
    !matches!(
        error,
        PrepareModified
            | ResponseTransferNotFound
            | ResponseNotFromPayee
            | ResponseModified
            | ResponseStateNotReserved
            | BulkItemNotFound
    )
}
