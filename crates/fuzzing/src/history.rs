//! Histories: bytes say which commands come, in which batches and when; the kernel decides them.
//!
//! Phases: each command is decided alone, and what is said about it goes into an account of its
//! own (`Account`) that must agree with the kernel's books, positions, outbox and counters after
//! every one. When a batch ends, two further states decide it as a whole: one that keeps
//! everything, and one whose ended rows leave for a shelf and come back, and which is stored and
//! read back now and then. All three must say the same.
//!
//! Bounds: `ACTS_MAX` acts, few ids, parties and amounts, so that commands meet each other.

use std::collections::BTreeMap;

use ledger::{
    Abort, Account as Books, AccountId, Administer, Amount, Batch, Change, ChangeParties, Command,
    Configure, Counters, CreateParticipant, Currency, DeliveryResult, Digest, Effects, EndFundsOut,
    Ended, Eviction, FinishedDelivery, FspName, Fulfil, FulfilState, Fulfilment, FundsDirection,
    MoveFunds, Notice, NoticeId, NoticeKind, Outcome, ParticipantIndex, PartyBinding,
    PartyChangeForm, Position, Prepare, PrepareOutcome, Redeliver, SetAccountActive,
    SetInitialPositionAndLimits, SetLimit, SetParticipantActive, Settings, Stamp, State,
    TransferChange, TransferId,
};
use record::command::{FIELDS_VERSION, read_fields, write_fields};
use sha2::{Digest as _, Sha256};

use crate::{kernel, snapshot};

/// Acts of one input, at most.
const ACTS_MAX: usize = 256;
/// Transfers and movements of funds have ids below.
const IDS: u8 = 8;
/// The first two are there from the beginning, others may be created.
const NAMES: [&str; 5] = ["dfsp1", "dfsp2", "dfsp3", "nobody", "Hub"];
/// Amounts around the caps of 1,000 and the funds of 5,000, in ten-thousandths.
const UNITS: [i128; 12] = [
    0,
    1,
    9_999,
    10_000,
    2_500_000,
    5_000_000,
    9_999_999,
    10_000_000,
    10_000_001,
    50_000_000,
    50_000_001,
    10_i128.pow(18) + 1,
];
/// Milliseconds until a transfer ends by itself, and between batches.
const WAITS_MS: [u64; 8] = [0, 1, 2, 5, 50, 1_000, 60_000, 3_600_000];

/// A history; see the module.
pub fn history(data: &[u8]) {
    let mut script = Script(data);
    let mut worlds = Worlds::new();
    for _ in 0..ACTS_MAX {
        let Some(kind) = script.next() else { break };
        match kind % 16 {
            12 => worlds.end_batch(Some(WAITS_MS[script.below(WAITS_MS.len())])),
            13 => worlds.shelve(script.below(8), script.below(2) == 1),
            _ => {
                let command = command(kind % 16, &mut script, &worlds);
                worlds.decide(command);
            }
        }
    }
    worlds.end_batch(None);
    worlds.compare_in_full();
}

/// The input, byte by byte.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A number below `end`; 0 when the input is over.
    fn below(&mut self, end: usize) -> usize {
        usize::from(self.next().unwrap_or(0)) % end
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    /// Yes for seven values of eight, so that most acts are honest.
    fn usually(&mut self) -> bool {
        self.below(8) != 7
    }

    fn amount(&mut self) -> Amount {
        Amount::from_units(UNITS[self.below(UNITS.len())])
    }

    fn name(&mut self) -> FspName {
        name(self.below(NAMES.len()))
    }

    fn id(&mut self) -> u8 {
        self.below(usize::from(IDS)) as u8
    }
}

fn command(kind: u8, script: &mut Script<'_>, worlds: &Worlds) -> Command {
    match kind {
        0..=4 => Command::Prepare(Box::new(prepare(script, worlds.now_ms))),
        5..=7 => Command::Fulfil(Box::new(fulfil(script))),
        8 => Command::Abort(Box::new(abort(script))),
        9 | 15 => Command::FinishDeliveries(deliveries(script, &worlds.alone, worlds.now_ms)),
        10 => administer(change(script, &worlds.alone)),
        11 => Command::ChangeParties(Box::new(parties(script))),
        _ => Command::Tick,
    }
}

fn prepare(script: &mut Script<'_>, now_ms: u64) -> Prepare {
    let number = script.id();
    let payer = script.below(NAMES.len());
    let payee = script.below(NAMES.len());
    let source = if script.usually() { name(payer) } else { script.name() };
    let amount = script.amount();
    let expiration_ms = now_ms + WAITS_MS[script.below(WAITS_MS.len())];
    let currency = if script.usually() { "USD" } else { "EUR" };
    let body = format!("{payer} {payee} {amount} {currency} {}", script.below(2));
    Prepare {
        id: id(number),
        source,
        payer: name(payer),
        payee: name(payee),
        currency: Currency::parse(currency).expect("a currency"),
        amount,
        condition: Sha256::digest([number; 32]).into(),
        expiration_ms,
        hash: digest(&body),
        trace: [number; 16],
    }
}

fn fulfil(script: &mut Script<'_>) -> Fulfil {
    let number = script.id();
    let source = script.name();
    let destination = if script.usually() { None } else { Some(script.name()) };
    let states = [
        FulfilState::Committed,
        FulfilState::Reserved,
        FulfilState::ReservedUnderVersion10,
        FulfilState::Aborted,
    ];
    let state = states[script.below(16).saturating_sub(12).max(script.below(2))];
    let fulfilment = match script.below(8) {
        0 => Fulfilment::Absent,
        1 => Fulfilment::Undecodable,
        2 => Fulfilment::Present([255; 32]),
        _ => Fulfilment::Present([number; 32]),
    };
    let hash = digest(&format!("{state:?} {fulfilment:?} {}", script.below(2)));
    Fulfil { id: id(number), source, destination, state, fulfilment, hash, trace: [number; 16] }
}

fn abort(script: &mut Script<'_>) -> Abort {
    let number = script.id();
    let source = script.name();
    let destination = if script.usually() { None } else { Some(script.name()) };
    let code_is_known = script.usually();
    let hash = digest(&format!("{code_is_known} {}", script.below(2)));
    Abort { id: id(number), source, destination, code_is_known, hash, trace: [number; 16] }
}

/// Ends of up to eight deliveries: of notices that are owed, or of any number.
fn deliveries(script: &mut Script<'_>, state: &State, now_ms: u64) -> Vec<FinishedDelivery> {
    let mut owed: Vec<_> = state.notices_owed().map(|notice| notice.id).collect();
    owed.sort();
    use DeliveryResult::{Dead, Delivered, GivenUp, Withdrawn};
    let results = [Delivered, Dead, Withdrawn, GivenUp];
    let end = |script: &mut Script<'_>| {
        let at = script.below(64);
        let notice = owed.get(at).copied().unwrap_or(NoticeId(at as u64));
        let result = results[script.below(results.len())];
        FinishedDelivery { notice, result, attempts: 1, status: 200, finished_ms: now_ms }
    };
    (0..1 + script.below(8)).map(|_| end(script)).collect()
}

fn parties(script: &mut Script<'_>) -> ChangeParties {
    let (source, fsp) = (script.name(), script.name());
    let forms = [PartyChangeForm::Single, PartyChangeForm::Batch, PartyChangeForm::Delete];
    let form = forms[script.below(forms.len())];
    let id = script.below(4).to_string();
    let party =
        PartyBinding { id_type: "MSISDN".to_owned(), id, sub_id: None, currency: None, fsp };
    ChangeParties { source, form, parties: vec![party], trace: [0; 16] }
}

fn change(script: &mut Script<'_>, state: &State) -> Change {
    let name = script.name();
    let currency = Currency::parse("USD").expect("a currency");
    let [position, settlement] = holding(state, &name).unwrap_or([AccountId(9_999); 2]);
    match script.below(11) {
        0 | 1 => Change::MoveFunds(MoveFunds {
            id: id(script.id()),
            name,
            account: if script.usually() { settlement } else { position },
            direction: if script.flag() { FundsDirection::In } else { FundsDirection::Out },
            currency,
            amount: script.amount().max(Amount::from_units(1)),
            hash: digest(&script.below(2).to_string()),
        }),
        2 | 3 => Change::EndFundsOut(EndFundsOut {
            id: id(script.id()),
            name,
            account: settlement,
            commit: script.flag(),
            hash: digest(&script.below(2).to_string()),
        }),
        4 => Change::SetParticipantActive(SetParticipantActive { name, active: script.usually() }),
        5 => Change::SetAccountActive(SetAccountActive {
            name,
            account: position,
            active: script.usually(),
        }),
        6 => Change::SetLimit(SetLimit {
            name,
            currency,
            limit: script.amount(),
            alarm_percentage: Amount::from_units(100_000),
        }),
        7 => Change::Configure(Configure {
            settings: Settings {
                confirm_to_payee: script.flag(),
                on_us_transfers: script.flag(),
                put_aborted_aborts: script.flag(),
                funds_out_covers_position: script.flag(),
                lane_capacity: if script.usually() { 50_000 } else { 3 },
            },
        }),
        8 => Change::CreateParticipant(CreateParticipant { name, currency }),
        9 => Change::SetInitialPositionAndLimits(SetInitialPositionAndLimits {
            name,
            currency,
            limit: script.amount(),
            position: Amount::ZERO,
        }),
        _ => {
            let dead: Vec<_> = state.dead_letters().map(|dead| dead.notice.id).collect();
            let at = script.below(8);
            let notice = dead.get(at).copied().unwrap_or(NoticeId(at as u64));
            Change::Redeliver(Redeliver { notice })
        }
    }
}

fn administer(change: Change) -> Command {
    let (actor, reason) = ("operator".to_owned(), String::new());
    Command::Administer(Box::new(Administer { actor, reason, change }))
}

/// The same history, decided in three ways.
struct Worlds {
    now_ms: u64,
    /// Every command is a batch of its own.
    alone: State,
    account: Account,
    /// What [`Worlds::alone`] said about the batch at hand.
    said: Vec<(Command, Outcome)>,
    notices: Vec<Notice>,
    together: State,
    /// As together, but rows of ended transfers leave it.
    thin: State,
    shelf: BTreeMap<TransferId, Ended>,
}

impl Worlds {
    fn new() -> Self {
        let scheme = kernel::scheme();
        Self {
            now_ms: scheme.stamp().0.div_ceil(1_000),
            account: Account::of(&scheme),
            alone: scheme.clone(),
            said: Vec::new(),
            notices: Vec::new(),
            together: scheme.clone(),
            thin: scheme,
            shelf: BTreeMap::new(),
        }
    }

    fn decide(&mut self, command: Command) {
        assert_eq!(stored_and_read(&command), command);
        let effects = apply(&mut self.alone, [&command], self.now_ms);
        let outcome = effects.outcomes[0];
        self.account.take(&command, outcome, &effects.notices, &self.alone, self.now_ms);
        self.account.check(&self.alone);
        self.said.push((command, outcome));
        self.notices.extend(effects.notices);
    }

    /// Decides in the other two what was said in the first, and goes on in time.
    fn end_batch(&mut self, wait_ms: Option<u64>) {
        if !self.said.is_empty() {
            let commands: Vec<_> = self.said.iter().map(|(command, _)| command).collect();
            for id in commands.iter().flat_map(|command| command.rows()) {
                let row = self.shelf.get(id).filter(|_| !self.thin.is_hot(id));
                if let Some(row) = row.cloned() {
                    self.thin.thaw(row);
                }
            }
            let outcomes: Vec<_> = self.said.iter().map(|(_, outcome)| *outcome).collect();
            for state in [&mut self.together, &mut self.thin] {
                let effects = apply(state, commands.iter().copied(), self.now_ms);
                assert_eq!(effects.outcomes, outcomes, "{commands:?}");
                assert_eq!(effects.notices, self.notices, "{commands:?}");
            }
            assert_eq!(self.together.digest(), self.thin.digest());
        }
        self.said.clear();
        self.notices.clear();
        self.now_ms += wait_ms.unwrap_or(0);
    }

    /// Between two batches: rows leave, and the state is stored and read back.
    fn shelve(&mut self, rows_max: usize, store: bool) {
        self.end_batch(Some(0));
        let eviction =
            Eviction { visible: self.thin.position(), completed_before: Stamp(u64::MAX), rows_max };
        let shelf = &mut self.shelf;
        self.thin.evict(eviction, &mut |row| {
            shelf.insert(row.id, row.clone());
        });
        if store {
            self.thin = snapshot::again(&self.thin);
        }
    }

    fn compare_in_full(&mut self) {
        assert_eq!(self.together.hash(), self.thin.hash(), "where rows live changes nothing");
        for number in 0..IDS {
            let [one, other] = [&self.alone, &self.together].map(|state| state.view(&id(number)));
            assert_eq!(one, other, "{number}");
        }
        assert_eq!(self.alone.counters(), self.together.counters());
        for (one, other) in self.alone.books().iter().zip(self.together.books().iter()) {
            assert_eq!(figures(one), figures(other), "how commands are batched changes nothing");
        }
    }
}

fn apply<'a>(
    state: &mut State,
    commands: impl IntoIterator<Item = &'a Command>,
    now_ms: u64,
) -> Effects {
    let first = Position(state.position().0 + 1);
    let stamp = Stamp::from_millis(now_ms);
    let batch = Batch { first, stamp, node: 1, epoch: 1, sequence: first.0 };
    let mut effects = Effects::default();
    state.apply(&batch, commands, &mut effects);
    effects
}

fn stored_and_read(command: &Command) -> Command {
    let mut fields = Vec::new();
    write_fields(command, &mut fields);
    read_fields(command.number(), FIELDS_VERSION, &fields).expect("it was written")
}

fn figures(account: &Books) -> (AccountId, Amount, bool) {
    (account.id, account.value, account.active)
}

/// What was agreed between two participants.
#[derive(Clone, Debug)]
struct Deal {
    payer: FspName,
    payee: FspName,
    units: i128,
    expiration_ms: u64,
    end: Option<Outcome>,
}

/// What is known from commands, outcomes and notices alone.
#[derive(Default)]
struct Account {
    deals: BTreeMap<TransferId, Deal>,
    /// SETTLEMENT balances by name.
    settlement: BTreeMap<FspName, i128>,
    /// Outflows that are reserved.
    outflows: BTreeMap<TransferId, (FspName, i128)>,
    owed: BTreeMap<NoticeId, ParticipantIndex>,
    dead: BTreeMap<NoticeId, ParticipantIndex>,
    last: NoticeId,
    counters: Counters,
}

impl Account {
    /// Of a scheme in which nothing was transferred.
    fn of(scheme: &State) -> Self {
        let names = NAMES[..2].iter().map(|text| FspName::new(text).expect("a name"));
        let settlement = names
            .map(|name| {
                let [_, settlement] = holding(scheme, &name).expect("it was set up");
                (name, units(scheme, settlement))
            })
            .collect();
        let last = scheme.last_notice();
        Self { settlement, last, counters: *scheme.counters(), ..Self::default() }
    }

    fn take(
        &mut self,
        command: &Command,
        outcome: Outcome,
        notices: &[Notice],
        state: &State,
        now_ms: u64,
    ) {
        let last = self.last;
        self.take_notices(notices);
        self.take_expired(notices, last, now_ms);
        match command {
            Command::Prepare(prepare) => self.take_prepare(prepare, outcome, state, now_ms),
            Command::Fulfil(fulfil) => {
                if outcome == Outcome::Committed {
                    let right = Fulfilment::Present(secret_of(&fulfil.id));
                    assert_eq!(fulfil.fulfilment, right, "it meets the condition");
                }
                self.take_answer(&fulfil.id, &fulfil.source, outcome);
            }
            Command::Abort(abort) => self.take_answer(&abort.id, &abort.source, outcome),
            Command::FinishDeliveries(ends) => self.deliver(ends),
            Command::Administer(administer) if outcome == Outcome::Accepted => {
                self.take_change(&administer.change);
            }
            Command::Genesis(_)
            | Command::Tick
            | Command::ChangeParties(_)
            | Command::Administer(_) => {}
        }
        // A transfer may be reserved at the very moment at which it ends.
        self.take_expired(notices, last, now_ms);
        for notice in notices.iter().filter(|notice| is_expiry(notice, last)) {
            let deal = notice.transfer.and_then(|transfer| self.deals.get(&transfer));
            assert!(deal.is_some(), "{notice:?} of nothing");
        }
    }

    /// New notices have the next numbers; any other one was dead and is sent again.
    fn take_notices(&mut self, notices: &[Notice]) {
        for notice in notices {
            match notice.id <= self.last {
                true => assert_eq!(self.dead.remove(&notice.id), Some(notice.recipient)),
                false => {
                    self.last = NoticeId(self.last.0 + 1);
                    assert_eq!(notice.id, self.last, "numbers rise by one");
                }
            }
            let known = self.owed.insert(notice.id, notice.recipient);
            assert!(known.is_none() && notice.recipient != ParticipantIndex::HUB, "{notice:?}");
        }
    }

    /// Expiries have no command: the errors that the parties are told show them.
    fn take_expired(&mut self, notices: &[Notice], last: NoticeId, now_ms: u64) {
        for notice in notices.iter().filter(|notice| is_expiry(notice, last)) {
            let deal = notice.transfer.and_then(|transfer| self.deals.get_mut(&transfer));
            let Some(deal) = deal else { continue };
            assert!(deal.expiration_ms <= now_ms, "{deal:?} expired early");
            // Both sides are told.
            if deal.end != Some(Outcome::Expired) {
                assert_eq!(deal.end, None, "{deal:?} ended twice");
                deal.end = Some(Outcome::Expired);
                self.counters.expired += 1;
            }
        }
    }

    fn take_prepare(&mut self, prepare: &Prepare, outcome: Outcome, state: &State, now_ms: u64) {
        use PrepareOutcome::*;
        let outcome = PrepareOutcome::of(outcome).expect("a prepare has no other outcome");
        let Prepare { payer, payee, expiration_ms, .. } = *prepare;
        let units = prepare.amount.units();
        match outcome {
            SenderNotFound
            | PrepareModified
            | PrepareResentAborted
            | PrepareResentCommitted
            | PrepareResentReserved => return,
            PrepareReserved => {
                let (cap, cover) = self.room(&payer, state);
                let position = self.position(&payer) + units;
                assert!(position <= cap && position <= cover, "{prepare:?}: {position}");
                assert!(prepare.source.matches(&payer), "{prepare:?} is the payer's");
                assert!(now_ms <= expiration_ms, "{prepare:?} is in time");
                let (payer, payee) = (known(&payer), known(&payee));
                let deal = Deal { payer, payee, units, expiration_ms, end: None };
                let earlier = self.deals.insert(prepare.id, deal);
                assert!(earlier.is_none(), "{prepare:?} was reserved before");
                self.counters.reserved += 1;
                return;
            }
            PrepareCapExceeded | PrepareLiquidityInsufficient => {
                let (cap, cover) = self.room(&payer, state);
                let most = if outcome == PrepareCapExceeded { cap } else { cover };
                assert!(most < self.position(&payer) + units, "{prepare:?} had room");
            }
            PrepareSourceNotPayer
            | PrepareAmountPrecision
            | PreparePayerNotFound
            | PreparePayerInactive
            | PreparePayeeNotFound
            | PreparePayeeInactive
            | PrepareExpirationPast
            | PreparePayerIsPayee
            | PreparePayerAccountNotFound
            | PreparePayerAccountInactive
            | PreparePayeeAccountNotFound
            | PreparePayeeAccountInactive
            | PreparePayeeLaneFull => {}
        }
        self.counters.refused += 1;
    }

    /// Cap and cover.
    fn room(&self, name: &FspName, state: &State) -> (i128, i128) {
        let (_, participant) = state.register().find(name).expect("it has reserved");
        let usd = Currency::parse("USD").expect("a currency");
        let holding = participant.holding(usd).expect("it has accounts");
        let cap = holding.limit.map_or(0, |limit| limit.value.units());
        (cap, -self.settlement.get(&known(name)).copied().unwrap_or(0))
    }

    fn take_answer(&mut self, id: &TransferId, source: &FspName, outcome: Outcome) {
        use Outcome::{
            Aborted, AbortedByPut, AbortedWithUnknownCode, AnswerToStranger, Committed,
            FulfilmentInvalid,
        };
        let aborts =
            [Aborted, AbortedByPut, AbortedWithUnknownCode, AnswerToStranger, FulfilmentInvalid];
        if outcome != Committed && !aborts.contains(&outcome) {
            return;
        }
        let deal = self.deals.get_mut(id).expect("it was reserved");
        assert_eq!(deal.end, None, "{deal:?} ends again");
        assert!(deal.payee.matches(source), "{deal:?} is ended by its payee");
        deal.end = Some(outcome);
        let commits = outcome == Committed;
        let counters = &mut self.counters;
        *(if commits { &mut counters.committed } else { &mut counters.aborted }) += 1;
    }

    fn deliver(&mut self, ends: &[FinishedDelivery]) {
        for end in ends {
            let Some(recipient) = self.owed.remove(&end.notice) else { continue };
            match end.result {
                DeliveryResult::Delivered => self.counters.delivered += 1,
                DeliveryResult::GivenUp => self.counters.given_up += 1,
                DeliveryResult::Withdrawn => {}
                DeliveryResult::Dead => drop(self.dead.insert(end.notice, recipient)),
            }
        }
    }

    fn take_change(&mut self, change: &Change) {
        match change.about_transfer() {
            Some(TransferChange::MoveFunds(funds)) => {
                let units = funds.amount.units();
                let settlement = self.settlement.entry(known(&funds.name)).or_default();
                match funds.direction {
                    FundsDirection::In => *settlement -= units,
                    FundsDirection::Out => {
                        *settlement += units;
                        self.outflows.insert(funds.id, (known(&funds.name), units));
                    }
                }
            }
            Some(TransferChange::EndFundsOut(end)) => {
                let (name, units) = self.outflows.remove(&end.id).expect("it was reserved");
                if !end.commit {
                    *self.settlement.entry(name).or_default() -= units;
                }
            }
            Some(TransferChange::Redeliver(_)) | None => {}
        }
    }

    /// What was reserved or paid, less what was received.
    fn position(&self, name: &FspName) -> i128 {
        let mut position = 0;
        for deal in self.deals.values() {
            let committed = deal.end == Some(Outcome::Committed);
            if deal.payer.matches(name) && (committed || deal.end.is_none()) {
                position += deal.units;
            }
            if deal.payee.matches(name) && committed {
                position -= deal.units;
            }
        }
        position
    }

    fn check(&self, state: &State) {
        for (currency, sum) in state.books().sums() {
            assert_eq!(sum, Amount::ZERO, "{currency} does not sum to zero");
        }
        for text in &NAMES[..4] {
            let name = FspName::new(text).expect("a name");
            let Some([position, settlement]) = holding(state, &name) else { continue };
            assert_eq!(units(state, position), self.position(&name), "position of {text}");
            let expected = self.settlement.get(&name).copied().unwrap_or(0);
            assert_eq!(units(state, settlement), expected, "settlement of {text}");
        }
        let in_flight = self.deals.values().filter(|deal| deal.end.is_none()).count();
        assert_eq!(state.transfers_in_flight(), in_flight);
        assert!(state.next_deadline().is_none_or(|due| state.stamp() < due), "a deadline is past");
        assert_eq!(*state.counters(), self.counters);
        let owed: BTreeMap<_, _> =
            state.notices_owed().map(|notice| (notice.id, notice.recipient)).collect();
        assert_eq!(owed, self.owed);
        let dead: BTreeMap<_, _> =
            state.dead_letters().map(|dead| (dead.notice.id, dead.notice.recipient)).collect();
        assert_eq!(dead, self.dead);
    }
}

/// The error by which a party hears that its transfer has expired, for the first time.
fn is_expiry(notice: &Notice, last: NoticeId) -> bool {
    let says_so = notice.kind == NoticeKind::Error && notice.outcome == Outcome::Expired;
    last < notice.id && says_so
}

/// POSITION and SETTLEMENT of a participant.
fn holding(state: &State, name: &FspName) -> Option<[AccountId; 2]> {
    let (_, participant) = state.register().find(name)?;
    let holding = participant.holding(Currency::parse("USD").expect("a currency"))?;
    Some([holding.position, holding.settlement])
}

fn units(state: &State, account: AccountId) -> i128 {
    state.books().get(account).expect("an account").value.units()
}

fn name(number: usize) -> FspName {
    FspName::new(NAMES[number]).expect("a name")
}

/// A name as it was registered.
fn known(name: &FspName) -> FspName {
    let texts = NAMES.iter().map(|text| FspName::new(text).expect("a name"));
    texts.into_iter().find(|known| known.matches(name)).expect("one of ours")
}

fn id(number: u8) -> TransferId {
    TransferId::parse(&format!("{number:0>26}")).expect("digits are a ULID")
}

/// What a transfer's condition was made of.
fn secret_of(of: &TransferId) -> [u8; 32] {
    let number = (0..IDS).find(|number| id(*number) == *of).expect("one of ours");
    [number; 32]
}

fn digest(text: &str) -> Digest {
    Digest(*blake3::hash(text.as_bytes()).as_bytes())
}
