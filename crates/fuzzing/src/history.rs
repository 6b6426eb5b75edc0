//! Command histories: the input bytes choose commands, batches and times; the kernel decides them.
//!
//! Phases: each command is decided alone, and the independent model predicts its outcome, balances,
//! notices and counters. When a batch ends, two further states decide it as a whole: one that keeps
//! all rows, and one whose final rows are evicted and restored, and which is sometimes stored and
//! read back. All three must agree.
//!
//! Bounds: `ACTS_MAX` acts, few ids, parties and amounts, so that commands affect each other.

use std::collections::BTreeMap;

use ledger::{
    Abort, AbortBulk, AbortSettlement, Account as Books, AccountId, AccountKind, AccountStep,
    Administer, AdvanceSettlement, Amount, BulkItem, BulkItemAnswer, BulkItemResult, Change,
    ChangeParties, ChangeResult, CloseWindow, Command, Configure, CreateFeeRule, CreateParticipant,
    CreateSettlement, CreateSettlementModel, Currency, DeliveryResult, Digest, EndFundsOut,
    Eviction, Fee, FeeConditions, FeePayer, FeeRule, FeeRuleId, FinalTransfer, FinishedDelivery,
    FspName, Fulfil, FulfilBulk, FulfilState, Fulfilment, FundsDirection, LogIndex, MoveFunds,
    Notice, NoticeId, Outcome, PartyBinding, PartyChangeForm, Prepare, PrepareBulk, QuoteContent,
    QuoteOffer, RecordQuote, RecordQuoteAnswer, RecordRequestToPay, Redeliver, RequestState,
    RequestStatus, RequestStep, RequestTerms, Rounding, SetAccountActive, SetFeeRuleActive,
    SetInitialPositionAndLimits, SetLimit, SetParticipantActive, SetSettlementModelActive,
    Settings, SettlementId, SettlementModel, SettlementState, Stamp, State, TransferId, WindowId,
};
use record::command::{FIELDS_VERSION, read_fields, write_fields};
use sha2::{Digest as _, Sha256};

use crate::fixture::{self, ModelledKernel};
use crate::snapshot;

/// Acts of one input, at most.
const ACTS_MAX: usize = 256;
/// Transfers and movements of funds have ids below.
const IDS: u8 = 8;
/// The first two exist from the beginning, others may be created.
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
    let mut input = Input(data);
    let mut histories = Histories::new();
    for _ in 0..ACTS_MAX {
        let Some(kind) = input.next() else { break };
        match kind % 16 {
            12 => histories.end_batch(Some(WAITS_MS[input.below(WAITS_MS.len())])),
            13 => histories.evict(input.below(8), input.below(2) == 1),
            _ => {
                let command = command(kind % 16, &mut input, &histories);
                histories.decide(command);
            }
        }
    }
    histories.end_batch(None);
    histories.compare_in_full();
}

/// The input, byte by byte.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
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

fn command(kind: u8, input: &mut Input<'_>, histories: &Histories) -> Command {
    match kind {
        4 if input.flag() => Command::PrepareBulk(Box::new(prepare_bulk(input, histories.now_ms))),
        7 if input.flag() => Command::FulfilBulk(Box::new(fulfil_bulk(input))),
        8 if !input.usually() => Command::AbortBulk(Box::new(abort_bulk(input))),
        0..=4 => Command::Prepare(Box::new(prepare(input, histories.now_ms))),
        5..=7 => Command::Fulfil(Box::new(fulfil(input))),
        8 => Command::Abort(Box::new(abort(input))),
        9 | 15 => {
            Command::FinishDeliveries(deliveries(input, &histories.alone.state, histories.now_ms))
        }
        10 => administer(change(input, &histories.alone.state)),
        12 if !input.usually() => {
            Command::RecordRequestToPay(Box::new(request_to_pay(input, histories.now_ms)))
        }
        11 if input.flag() => Command::RecordQuote(Box::new(quote(input, histories.now_ms))),
        12 if input.flag() => Command::RecordQuoteAnswer(Box::new(quote_answer(input))),
        11 => Command::ChangeParties(Box::new(parties(input))),
        14 if input.usually() => administer(settle(input, &histories.alone.state)),
        _ => Command::Tick,
    }
}

fn prepare(input: &mut Input<'_>, now_ms: u64) -> Prepare {
    let number = input.id();
    let payer = input.below(NAMES.len());
    let payee = input.below(NAMES.len());
    let source = if input.usually() { name(payer) } else { input.name() };
    let amount = input.amount();
    let expiration_ms = now_ms + WAITS_MS[input.below(WAITS_MS.len())];
    let currency = if input.usually() { "USD" } else { "EUR" };
    let body = format!("{payer} {payee} {amount} {currency} {}", input.below(2));
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
        fee_rule: input.below(8).checked_sub(3).map(|number| FeeRuleId(number as u32)),
        quote_terms: None,
    }
}

fn fulfil(input: &mut Input<'_>) -> Fulfil {
    let number = input.id();
    let source = input.name();
    let destination = if input.usually() { None } else { Some(input.name()) };
    let states = [
        FulfilState::Committed,
        FulfilState::Reserved,
        FulfilState::ReservedUnderVersion10,
        FulfilState::Aborted,
    ];
    let state = states[input.below(16).saturating_sub(12).max(input.below(2))];
    let fulfilment = match input.below(8) {
        0 => Fulfilment::Absent,
        1 => Fulfilment::Undecodable,
        2 => Fulfilment::Present([255; 32]),
        _ => Fulfilment::Present([number; 32]),
    };
    let hash = digest(&format!("{state:?} {fulfilment:?} {}", input.below(2)));
    Fulfil { id: id(number), source, destination, state, fulfilment, hash, trace: [number; 16] }
}

fn abort(input: &mut Input<'_>) -> Abort {
    let number = input.id();
    let source = input.name();
    let destination = if input.usually() { None } else { Some(input.name()) };
    let code_is_known = input.usually();
    let hash = digest(&format!("{code_is_known} {}", input.below(2)));
    Abort { id: id(number), source, destination, code_is_known, hash, trace: [number; 16] }
}

fn prepare_bulk(input: &mut Input<'_>, now_ms: u64) -> PrepareBulk {
    let number = input.id() % 3;
    let (payer, payee) = (input.below(NAMES.len()), input.below(NAMES.len()));
    let source = if input.usually() { name(payer) } else { input.name() };
    let expiration_ms = now_ms + WAITS_MS[input.below(WAITS_MS.len())];
    let item = |input: &mut Input<'_>| {
        let number = input.id();
        BulkItem {
            id: id(number),
            currency: Currency::parse(if input.usually() { "USD" } else { "EUR" }).expect("one"),
            amount: input.amount(),
            condition: Sha256::digest([number; 32]).into(),
            fee_rule: input.below(8).checked_sub(3).map(|number| FeeRuleId(number as u32)),
        }
    };
    let items: Vec<_> = (0..input.below(5)).map(|_| item(input)).collect();
    let hash = digest(&format!("{payer} {payee} {}", input.below(2)));
    PrepareBulk {
        id: id(number).as_bulk(),
        source,
        payer: name(payer),
        payee: name(payee),
        expiration_ms,
        hash,
        trace: [number; 16],
        items,
    }
}

fn quote(input: &mut Input<'_>, now_ms: u64) -> RecordQuote {
    let (number, body) = (input.id(), input.below(2) as u8);
    let [expires_ms, keep_ms] = [(); 2].map(|()| WAITS_MS[input.below(WAITS_MS.len())]);
    RecordQuote {
        quote: id(number),
        transaction: id(number),
        source: input.name(),
        destination: input.name(),
        expiration_ms: input.flag().then_some(now_ms + expires_ms),
        keep_until_ms: now_ms + keep_ms,
        hash: Digest([body; 32]),
        trace: [number; 16],
        request: (body == 1).then(|| id(number)),
    }
}

fn request_to_pay(input: &mut Input<'_>, now_ms: u64) -> RecordRequestToPay {
    let (number, body) = (input.id(), input.below(7) as u8);
    let [expires_ms, keep_ms] = [(); 2].map(|()| WAITS_MS[input.below(WAITS_MS.len())]);
    let answer =
        |state| RequestStep::Answered(RequestStatus { state, transaction: Some(id(number)) });
    let step = match body {
        0..=2 => RequestStep::Requested(RequestTerms {
            destination: input.name(),
            expiration_ms: input.flag().then_some(now_ms + expires_ms),
            keep_until_ms: now_ms + keep_ms,
        }),
        3 => answer(RequestState::Pending),
        4 => answer(RequestState::Accepted),
        5 => answer(RequestState::Rejected),
        _ => RequestStep::Failed,
    };
    let (request, source) = (id(number), input.name());
    RecordRequestToPay { request, source, step, hash: Digest([body; 32]), trace: [number; 16] }
}

fn quote_answer(input: &mut Input<'_>) -> RecordQuoteAnswer {
    let (number, body) = (input.id(), input.below(3) as u8);
    let offer = QuoteOffer { terms: Digest([body; 32]), expiration_ms: 0 };
    RecordQuoteAnswer {
        quote: id(number),
        source: input.name(),
        content: if body == 2 { QuoteContent::Error } else { QuoteContent::Offer(offer) },
        hash: Digest([body; 32]),
        trace: [number; 16],
    }
}

fn fulfil_bulk(input: &mut Input<'_>) -> FulfilBulk {
    let AbortBulk { id: bulk, source, destination, hash, trace, .. } = abort_bulk(input);
    let item = |input: &mut Input<'_>| {
        let number = input.id();
        let answer = match input.below(8) {
            0 => BulkItemAnswer::Fulfilled(Fulfilment::Absent),
            1 => BulkItemAnswer::Refused(false),
            2 => BulkItemAnswer::Refused(true),
            _ => BulkItemAnswer::Fulfilled(Fulfilment::Present([number; 32])),
        };
        BulkItemResult { id: id(number), answer }
    };
    let items = (0..input.below(4)).map(|_| item(input)).collect();
    FulfilBulk { id: bulk, source, destination, hash, trace, items }
}

fn abort_bulk(input: &mut Input<'_>) -> AbortBulk {
    let Abort { id, source, destination, code_is_known, hash, trace } = abort(input);
    AbortBulk { id: id.as_bulk(), source, destination, code_is_known, hash, trace }
}

/// Ends of up to eight deliveries: of notices that are owed, or of any number.
fn deliveries(input: &mut Input<'_>, state: &State, now_ms: u64) -> Vec<FinishedDelivery> {
    let mut owed: Vec<_> = state.notices_owed().map(|notice| notice.id).collect();
    owed.sort();
    use DeliveryResult::{Dead, Delivered, GivenUp, Withdrawn};
    let results = [Delivered, Dead, Withdrawn, GivenUp];
    let end = |input: &mut Input<'_>| {
        let at = input.below(64);
        let notice = owed.get(at).copied().unwrap_or(NoticeId(at as u64));
        let result = results[input.below(results.len())];
        FinishedDelivery { notice, result, attempts: 1, status: 200, finished_ms: now_ms }
    };
    (0..1 + input.below(8)).map(|_| end(input)).collect()
}

fn parties(input: &mut Input<'_>) -> ChangeParties {
    let (source, fsp) = (input.name(), input.name());
    let forms = [PartyChangeForm::Single, PartyChangeForm::Batch, PartyChangeForm::Delete];
    let form = forms[input.below(forms.len())];
    let id = input.below(4).to_string();
    let party =
        PartyBinding { id_type: "MSISDN".to_owned(), id, sub_id: None, currency: None, fsp };
    ChangeParties { source, form, parties: vec![party], trace: [0; 16], rule: None }
}

fn change(input: &mut Input<'_>, state: &State) -> Change {
    let name = input.name();
    let currency = Currency::parse("USD").expect("a currency");
    let [position, settlement] = accounts_of(state, &name).unwrap_or([AccountId(9_999); 2]);
    match input.below(11) {
        0 | 1 => Change::MoveFunds(MoveFunds {
            id: id(input.id()),
            name,
            account: if input.usually() { settlement } else { position },
            direction: if input.flag() { FundsDirection::In } else { FundsDirection::Out },
            currency,
            amount: input.amount().max(Amount::from_units(1)),
            hash: digest(&input.below(2).to_string()),
        }),
        2 | 3 => Change::EndFundsOut(EndFundsOut {
            id: id(input.id()),
            name,
            account: settlement,
            commit: input.flag(),
            hash: digest(&input.below(2).to_string()),
        }),
        4 => SetParticipantActive { name, active: input.usually() }.into(),
        5 => SetAccountActive { name, account: position, active: input.usually() }.into(),
        6 => Change::SetLimit(SetLimit {
            name,
            currency,
            net_debit_cap: input.amount(),
            alarm_percentage: Amount::from_units(100_000),
        }),
        7 => Change::Configure(Configure {
            settings: Settings {
                confirm_to_payee: input.flag(),
                on_us_transfers: input.flag(),
                put_aborted_aborts: input.flag(),
                funds_out_covers_position: input.flag(),
                lane_capacity: if input.usually() { 50_000 } else { 3 },
            },
        }),
        8 => CreateParticipant { name, currency }.into(),
        9 => Change::SetInitialPositionAndLimits(SetInitialPositionAndLimits {
            name,
            currency,
            net_debit_cap: input.amount(),
            position: Amount::ZERO,
        }),
        _ => {
            let dead: Vec<_> = state.dead_letters().map(|dead| dead.notice.id).collect();
            let at = input.below(8);
            let notice = dead.get(at).copied().unwrap_or(NoticeId(at as u64));
            Redeliver { notice }.into()
        }
    }
}

/// Models that may be added; the first two exist from the beginning.
const MODELS: [&str; 7] =
    ["DEFAULTDEFERREDNET", "DEFERREDNETUSD", "PAIRS", "CGS", "PAIRSDEFAULT", "FEES", "NONE"];

/// A change of windows, settlements or their models, mostly about the newest ones.
fn settle(input: &mut Input<'_>, state: &State) -> Change {
    let numbers = state.settlement().numbers();
    let reason = || "fuzz".to_owned();
    match input.below(12) {
        0 => CreateSettlementModel { model: model(input) }.into(),
        1 => {
            let name = MODELS[input.below(MODELS.len())].to_owned();
            SetSettlementModelActive { name, active: input.flag() }.into()
        }
        2 | 3 => {
            let other = WindowId(input.below(4) as u32);
            let window = if other.0 == 3 { other } else { numbers.window };
            CloseWindow { window, reason: reason() }.into()
        }
        4 | 5 => {
            let model = MODELS[input.below(MODELS.len())].to_owned();
            let first = numbers.window.0.saturating_sub(input.below(4) as u32);
            let windows = (first..first + input.below(3) as u32).map(WindowId).collect();
            CreateSettlement { model, reason: reason(), windows }.into()
        }
        6 => AbortSettlement { settlement: settlement(input, state), reason: reason() }.into(),
        7 if input.usually() => CreateFeeRule { rule: Box::new(fee_rule(input)) }.into(),
        7 => {
            let rule = FeeRuleId(input.below(5) as u32);
            SetFeeRuleActive { rule, active: input.flag() }.into()
        }
        _ => advance(input, state),
    }
}

fn fee_rule(input: &mut Input<'_>) -> FeeRule {
    let fee = match input.flag() {
        true => Fee::Fixed { amount: input.amount() },
        false => Fee::Percentage {
            parts_per_million: [1, 6_000, 1_000_000][input.below(3)],
            decimals: input.below(5) as u32,
            rounding: Rounding::ALL[input.below(4)],
        },
    };
    FeeRule {
        name: input.below(5).to_string(),
        currency: input.flag().then(|| Currency::parse("USD").expect("a currency")),
        conditions: FeeConditions::default(),
        fee,
        payer: FeePayer::ALL[input.below(2)],
        active: input.usually(),
    }
}

fn model(input: &mut Input<'_>) -> SettlementModel {
    let at = 2 + input.below(4);
    if at == 5 {
        return SettlementModel {
            name: MODELS[at].to_owned(),
            net: true,
            multilateral: input.flag(),
            deferred: true,
            currency: None,
            liquidity_check: input.usually(),
            auto_position_reset: input.usually(),
            ledger_account: AccountKind::InterchangeFee,
            settlement_account: AccountKind::InterchangeFeeSettlement,
            active: input.usually(),
        };
    }
    let net = at != 3;
    let accounts = [
        AccountKind::Settlement,
        AccountKind::Settlement,
        AccountKind::Position,
        AccountKind::InterchangeFeeSettlement,
    ];
    SettlementModel {
        name: MODELS[at].to_owned(),
        net,
        multilateral: false,
        deferred: net || input.flag(),
        currency: (at != 4).then(|| Currency::parse("USD").expect("a currency")),
        liquidity_check: input.usually(),
        auto_position_reset: input.usually(),
        ledger_account: AccountKind::Position,
        settlement_account: accounts[input.below(accounts.len())],
        active: input.usually(),
    }
}

/// The newest settlement, or another one.
fn settlement(input: &mut Input<'_>, state: &State) -> SettlementId {
    let newest = state.settlement().numbers().settlement;
    if input.usually() { newest } else { SettlementId(input.below(5) as u32) }
}

/// Moves accounts of a settlement to its next state, or to another one.
fn advance(input: &mut Input<'_>, state: &State) -> Change {
    use SettlementState::*;
    let others = [
        PendingSettlement,
        PsTransfersRecorded,
        PsTransfersReserved,
        PsTransfersCommitted,
        Settling,
        Settled,
        Aborted,
    ];
    let settlement = settlement(input, state);
    let entry = state.settlement().settlement(settlement);
    let next = entry.and_then(|entry| entry.settlement.state.next());
    let to = if input.usually() { next } else { None };
    let to = to.unwrap_or_else(|| others[input.below(others.len())]);
    let rows = entry.map(|entry| entry.accounts.as_slice()).unwrap_or_default();
    let chosen = input.next().unwrap_or(0);
    let chosen = rows.iter().enumerate().filter(|(at, _)| chosen >> (at % 7) & 1 == 0);
    let mut accounts: Vec<_> = chosen.map(|(_, row)| row.account).collect();
    if !input.usually() {
        accounts.push(AccountId(input.below(16) as u32));
    }
    let owner = |account| state.accounts().get(account).map_or(0, |it| it.owner.0 + 1);
    let strange = u32::from(!input.usually());
    let step = |account| AccountStep {
        participant: owner(account) + strange,
        account,
        state: to,
        reason: to.name().to_owned(),
        external_reference: String::new(),
    };
    AdvanceSettlement { settlement, steps: accounts.into_iter().map(step).collect() }.into()
}

fn administer(change: Change) -> Command {
    let (actor, reason) = ("operator".to_owned(), String::new());
    Command::Administer(Box::new(Administer { actor, reason, change }))
}

/// The same history, decided in three ways.
struct Histories {
    now_ms: u64,
    /// Every command is a batch of its own.
    alone: ModelledKernel,
    /// Outcomes that [`Histories::alone`] gave for the current batch.
    decided: Vec<(Command, Outcome)>,
    notices: Vec<Notice>,
    results: Vec<(LogIndex, ChangeResult)>,
    together: State,
    /// Like `together`, but rows of final transfers are evicted.
    thin: State,
    evicted: BTreeMap<TransferId, FinalTransfer>,
}

impl Histories {
    fn new() -> Self {
        let scheme = fixture::scheme();
        Self {
            now_ms: scheme.state.stamp().0.div_ceil(1_000),
            decided: Vec::new(),
            notices: Vec::new(),
            results: Vec::new(),
            together: scheme.state.clone(),
            thin: scheme.state.clone(),
            alone: scheme,
            evicted: BTreeMap::new(),
        }
    }

    fn decide(&mut self, command: Command) {
        assert_eq!(stored_and_read(&command), command);
        let effects = self.alone.apply(&command, Stamp::from_millis(self.now_ms));
        self.decided.push((command, effects.outcomes[0]));
        self.notices.extend(effects.notices);
        self.results.extend(effects.results);
    }

    /// Decides the batch in the other two states, and advances the time.
    fn end_batch(&mut self, wait_ms: Option<u64>) {
        if !self.decided.is_empty() {
            let commands: Vec<_> = self.decided.iter().map(|(command, _)| command).collect();
            for id in commands.iter().flat_map(|command| command.rows()) {
                let row = self.evicted.get(id).filter(|_| !self.thin.is_hot(id));
                if let Some(row) = row.cloned() {
                    self.thin.restore_row(row);
                }
            }
            let outcomes: Vec<_> = self.decided.iter().map(|(_, outcome)| *outcome).collect();
            let stamp = Stamp::from_millis(self.now_ms);
            for state in [&mut self.together, &mut self.thin] {
                let effects = fixture::apply(state, commands.iter().copied(), stamp);
                assert_eq!(effects.outcomes, outcomes, "{commands:?}");
                assert_eq!(effects.notices, self.notices, "{commands:?}");
                assert_eq!(effects.results, self.results, "{commands:?}");
            }
            assert_eq!(self.together.digest(), self.thin.digest());
        }
        self.decided.clear();
        self.notices.clear();
        self.results.clear();
        self.now_ms += wait_ms.unwrap_or(0);
    }

    /// Between two batches: rows leave, and the state is stored and read back.
    fn evict(&mut self, rows_max: usize, store: bool) {
        self.end_batch(Some(0));
        let eviction = Eviction {
            visible: self.thin.log_index(),
            completed_before: Stamp(u64::MAX),
            rows_max,
        };
        let evicted = &mut self.evicted;
        self.thin.evict(eviction, &mut |row| {
            evicted.insert(row.id, row.clone());
        });
        if store {
            self.thin = snapshot::again(&self.thin);
        }
    }

    fn compare_in_full(&mut self) {
        self.alone.compare_in_full();
        let alone = &self.alone.state;
        assert_eq!(self.together.hash(), self.thin.hash(), "eviction changes no state");
        for number in 0..IDS {
            let [one, other] = [alone, &self.together].map(|state| state.view(&id(number)));
            assert_eq!(one, other, "{number}");
        }
        assert_eq!(alone.counters(), self.together.counters());
        for (one, other) in alone.accounts().iter().zip(self.together.accounts().iter()) {
            assert_eq!(figures(one), figures(other), "how commands are batched changes nothing");
        }
    }
}

fn stored_and_read(command: &Command) -> Command {
    let mut fields = Vec::new();
    write_fields(command, &mut fields);
    read_fields(command.number(), FIELDS_VERSION, &fields).expect("it was written")
}

fn figures(account: &Books) -> (AccountId, Amount, bool) {
    (account.id, account.value, account.active)
}

/// POSITION and SETTLEMENT of a participant.
fn accounts_of(state: &State, name: &FspName) -> Option<[AccountId; 2]> {
    let (_, participant) = state.registry().find(name)?;
    let accounts = participant.accounts_in(Currency::parse("USD").expect("a currency"))?;
    Some([accounts.position, accounts.settlement])
}

fn name(number: usize) -> FspName {
    FspName::new(NAMES[number]).expect("a name")
}

fn id(number: u8) -> TransferId {
    TransferId::parse(&format!("{number:0>26}")).expect("digits are a ULID")
}

fn digest(text: &str) -> Digest {
    Digest(*blake3::hash(text.as_bytes()).as_bytes())
}
