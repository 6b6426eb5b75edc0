//! The examiner: makes requests by the outcome that they should have, so that every outcome of
//! the kernel is aimed at, and breaks what the plan of a run does not.
//!
//! For each outcome in [`AIMS`] there is a way to ask for it, given what the hub holds at the
//! moment. Requests may be lost, overtaken or refused on the way, so an aim may miss; what is
//! asked for more than once is hit. The outcomes that payers, payees, the operator and the clerk
//! reach by themselves are not aimed at again.
//!
//! The examiner has dice of its own, as the clerk has: a run without one is the run that its seed
//! gave before there were examiners. It also makes the disk slow for a while, and lays damaged
//! copies of the disk before the recovery (see [`damage`](crate::damage)).

use ledger::{
    Abort, AccountId, AccountKind, Activate, AdminOutcome, Amount, Change, ChangeParties, Command,
    CreateHubAccount, CreateLedgerAccountType, CreateParticipant, CreateSettlementModel, Currency,
    Digest, EndFundsOut, FspName, Fulfil, FulfilState, Fulfilment, FundsDirection,
    LedgerAccountType, MoveFunds, PartyBinding, PartyChangeForm, Prepare, Redeliver,
    SetAccountActive, SetEndpoint, SetInitialPositionAndLimits, SetLimit, SetParticipantActive,
    SetSettlementModelActive, SettlementModel, TransferId,
};

use crate::event::Event;
use crate::plan::SECOND;
use crate::random::{Random, Visits, mix, spread16, spread32};
use crate::script::{GHOST, Request, What};
use crate::without::Kind;
use crate::world::World;

/// What sets its dice apart. This number gives none of the seeds that found something an
/// examiner, so that they still find it.
const DICE: u64 = 0x0065_7861_6d11;
/// Numbers of the examiner's own transfers begin here, beyond those of all scripts.
pub(crate) const STRAY: u32 = 1 << 31;
/// Bursts of requests that fill a register, in a thousand: they are long.
const BURSTS_PER_MILLE: u32 = 400;

/// What one visit aims at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// The outcome of a change.
    Change(AdminOutcome),
    /// The outcome of a message.
    Stray(Stray),
    /// The end of an outflow that is given back.
    FundsGivenBack,
}

/// Outcomes of messages that are aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stray {
    SenderNotFound,
    PrepareModified,
    PreparePayerNotFound,
    PreparePayerAccountNotFound,
    PreparePayeeAccountNotFound,
    PreparePayeeAccountInactive,
    PreparePayerIsPayee,
    AnswerTransferNotFound,
    AnswerFromStranger,
    RegistrarNotFound,
}

/// Requests about funds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Funds {
    CurrencyMismatch,
    AccountInactive,
    ParticipantInactive,
    OutNotReserved,
    Insufficient,
    GivenBack,
    Repeated,
    Modified,
}

/// What is aimed at.
const AIMS: [Aim; 35] = [
    Aim::Change(AdminOutcome::Accepted),
    Aim::Stray(Stray::SenderNotFound),
    Aim::Stray(Stray::PrepareModified),
    Aim::Stray(Stray::PreparePayerNotFound),
    Aim::Stray(Stray::PreparePayerAccountNotFound),
    Aim::Stray(Stray::PreparePayeeAccountNotFound),
    Aim::Stray(Stray::PreparePayeeAccountInactive),
    Aim::Stray(Stray::PreparePayerIsPayee),
    Aim::Stray(Stray::AnswerTransferNotFound),
    Aim::Stray(Stray::AnswerFromStranger),
    Aim::Change(AdminOutcome::ParticipantNotFound),
    Aim::Change(AdminOutcome::ParticipantCurrencyExists),
    Aim::Change(AdminOutcome::HubAccountsMissing),
    Aim::Change(AdminOutcome::SettlementModelMissing),
    Aim::Change(AdminOutcome::AccountKindNotForHub),
    Aim::Change(AdminOutcome::AccountExists),
    Aim::Change(AdminOutcome::AccountNotFound),
    Aim::Change(AdminOutcome::AccountKindWrong),
    Aim::Change(AdminOutcome::AccountInactive),
    Aim::Change(AdminOutcome::ParticipantInactive),
    Aim::Change(AdminOutcome::LimitsExist),
    Aim::Change(AdminOutcome::LimitsMissing),
    Aim::Change(AdminOutcome::CurrencyMismatch),
    Aim::Change(AdminOutcome::SettlementModelExists),
    Aim::Change(AdminOutcome::SettlementModelNotFound),
    Aim::Change(AdminOutcome::FundsOutNotReserved),
    Aim::Change(AdminOutcome::FundsInsufficient),
    Aim::FundsGivenBack,
    Aim::Change(AdminOutcome::FundsRepeated),
    Aim::Change(AdminOutcome::FundsModified),
    Aim::Change(AdminOutcome::DeadLetterNotFound),
    Aim::Change(AdminOutcome::RulesVersionRefused),
    Aim::Change(AdminOutcome::RegisterFull),
    Aim::Stray(Stray::RegistrarNotFound),
    Aim::Change(AdminOutcome::LedgerAccountTypeExists),
];

/// The examiner of a run.
#[derive(Debug)]
pub(crate) struct Examiner {
    pub(crate) random: Random,
    pub(crate) visits: Visits,
    /// Commands of its own that are no changes, and who sends them.
    strays: Vec<Command>,
    newcomers: u32,
    /// Ids given out.
    ids: u32,
}

impl Examiner {
    pub(crate) fn new(seed: u64, chaos_us: u64) -> Self {
        let mut random = Random::new(mix(seed ^ DICE));
        let visits = Visits::draw(&mut random, 600, (20, 150), chaos_us);
        Self { random, visits, strays: Vec::new(), newcomers: 0, ids: 0 }
    }

    /// The command of a request of its own.
    pub(crate) fn stray(&self, number: u32) -> Command {
        self.strays[number as usize].clone()
    }

    /// A participant that joins, or did: its number is below that of the next one.
    fn newcomer(&mut self, new: bool) -> FspName {
        self.newcomers += u32::from(new);
        let number = match new {
            true => u64::from(self.newcomers),
            false => self.random.between((1, u64::from(self.newcomers.max(1)))),
        };
        FspName::new(&format!("new{number}")).expect("a short name")
    }

    fn fresh_id(&mut self) -> TransferId {
        let mut bytes = [0; 17];
        bytes[1..].copy_from_slice(&spread16(self.random.next()));
        bytes[13..].copy_from_slice(&(STRAY + self.ids).to_le_bytes());
        self.ids += 1;
        TransferId::from_bytes(bytes).expect("the first byte is that of a UUID")
    }
}

impl World {
    /// The examiner comes in, if the run has one.
    pub(crate) fn seat_examiner(&mut self) {
        if let Some(wait) = self.examiner.visits.next(&mut self.examiner.random) {
            self.desk.after(wait, Event::Examine);
        }
    }

    pub(crate) fn examine(&mut self) {
        if self.desk.calm {
            return;
        }
        if self.hub.is_some() {
            let aim = self.examiner.random.pick(&AIMS);
            self.aim(aim);
        }
        if self.examiner.random.chance(50) && !self.without.kinds.contains(&Kind::Slow) {
            self.slow_down();
        }
        self.seat_examiner();
    }

    /// The disk takes its time with every commit for a while.
    fn slow_down(&mut self) {
        let random = &mut self.examiner.random;
        self.desk.slow_us = random.between((5_000, SECOND / 4));
        self.desk.slow_until = self.desk.now + random.between((SECOND / 10, 3 * SECOND));
        self.desk.tally.slow += 1;
    }

    /// Asks for what should have this outcome, as far as the hub's state lets it.
    fn aim(&mut self, aim: Aim) {
        match aim {
            Aim::Stray(stray) => {
                if let Some((from, command)) = self.stray_for(stray) {
                    self.stray(from, command);
                }
            }
            Aim::FundsGivenBack => {
                let fsp = self.any_fsp();
                let asked = self.funds_for(fsp, Funds::GivenBack);
                asked.into_iter().for_each(|it| self.ask_for_change(it));
            }
            Aim::Change(AdminOutcome::Accepted) => self.aim_at_acceptance(),
            Aim::Change(outcome) => {
                self.changes_for(outcome).into_iter().for_each(|it| self.ask_for_change(it));
            }
        }
    }

    /// Sends a command that is no change of the operator's.
    fn stray(&mut self, from: u8, command: Command) {
        let act = self.count_act();
        if self.without.acts.contains(&act) {
            return;
        }
        self.examiner.strays.push(command);
        let number = self.examiner.strays.len() as u32 - 1;
        self.desk.send(Request { from, what: What::Stray(number) });
    }

    /// Registers a party, confirms the rules, or lets a newcomer in for good, with a position
    /// from the start.
    fn aim_at_acceptance(&mut self) {
        match self.examiner.random.below(3) {
            0 => {
                let from = self.any_fsp();
                let command = self.registration(from);
                self.stray(from, command);
            }
            1 => self.ask_for_change(Change::Activate(Activate { rules_version: 1 })),
            _ => {
                let (name, currency) = (self.examiner.newcomer(true), self.cast.currency(0));
                let units = self.examiner.random.below(2_000) as i128 - 1_000;
                self.ask_for_change(Change::CreateParticipant(CreateParticipant {
                    name,
                    currency,
                }));
                let (limit, position) = (Amount::from_units(1_000), Amount::from_units(units));
                let begin = Change::SetInitialPositionAndLimits(SetInitialPositionAndLimits {
                    name,
                    currency,
                    limit,
                    position,
                });
                self.ask_for_change(begin);
            }
        }
    }

    /// A message by an FSP, or by nobody known, and who sends it.
    fn stray_for(&mut self, stray: Stray) -> Option<(u8, Command)> {
        use Stray::*;
        let (from, to) = (self.any_fsp(), self.any_fsp());
        let other = (from + 1) % self.desk.plan.fsps;
        let (payer, payee) = (self.cast.name(from), self.cast.name(other));
        let first = self.cast.currency(0);
        Some(match stray {
            SenderNotFound => (GHOST, self.ghostly((payer, payee), from)?),
            PreparePayerNotFound => {
                let shouting = FspName::new(&payer.as_str().to_uppercase())?;
                (from, self.stray_prepare((shouting, payee), first))
            }
            PreparePayerAccountNotFound => {
                (from, self.stray_prepare((payer, payee), Currency::parse("XTS")?))
            }
            PreparePayeeAccountNotFound => {
                let newcomer = self.examiner.newcomer(false);
                (from, self.stray_prepare((payer, newcomer), self.cast.currency(1)))
            }
            PreparePayeeAccountInactive => {
                let newcomer = self.examiner.newcomer(false);
                (from, self.stray_prepare((payer, newcomer), first))
            }
            PreparePayerIsPayee => {
                let shouting = FspName::new(&payer.as_str().to_uppercase())?;
                (from, self.stray_prepare((payer, shouting), first))
            }
            PrepareModified => {
                let known = self.some_funds()?;
                let Command::Prepare(mut prepare) = self.stray_prepare((payer, payee), first)
                else {
                    return None;
                };
                prepare.id = known.id;
                (from, Command::Prepare(prepare))
            }
            AnswerTransferNotFound => {
                let id = self.examiner.fresh_id();
                (from, self.stray_answer(id, from))
            }
            AnswerFromStranger => {
                let id = self.some_funds()?.id;
                (from, self.stray_answer(id, from))
            }
            RegistrarNotFound => (GHOST, self.registration(to)),
        })
    }

    /// A message whose sender is not a participant, or names itself the hub: about a transfer of
    /// others, one that does not exist, or a movement of funds.
    fn ghostly(&mut self, parties: (FspName, FspName), from: u8) -> Option<Command> {
        let hub = FspName::new("HUB")?;
        let ghost = self.cast.name(GHOST);
        let source = self.examiner.random.pick(&[ghost, ghost, hub]);
        let known = self.some_funds().map(|funds| funds.id);
        let number = self.examiner.random.below(self.scripts.len().max(1) as u64) as u32;
        let fresh = self.examiner.fresh_id();
        let id = self.examiner.random.pick(&[fresh, self.cast.id(number), known.unwrap_or(fresh)]);
        let mut command = match self.examiner.random.chance(500) {
            true => self.stray_prepare(parties, self.cast.currency(0)),
            false => self.stray_answer(id, from),
        };
        match &mut command {
            Command::Prepare(prepare) => (prepare.id, prepare.source) = (id, source),
            Command::Fulfil(fulfil) => fulfil.source = source,
            Command::Abort(abort) => abort.source = source,
            other => panic!("{other:?} is not stray"),
        }
        Some(command)
    }

    fn stray_prepare(&mut self, (payer, payee): (FspName, FspName), currency: Currency) -> Command {
        let id = self.examiner.fresh_id();
        let random = &mut self.examiner.random;
        Command::Prepare(Box::new(Prepare {
            id,
            source: payer,
            payer,
            payee,
            currency,
            amount: Amount::from_units(1),
            condition: [0; 32],
            expiration_ms: self.desk.true_ms() + 1_000,
            hash: Digest(spread32(random.next())),
            trace: spread16(random.next()),
        }))
    }

    fn stray_answer(&mut self, id: TransferId, from: u8) -> Command {
        let source = self.cast.name(from);
        let random = &mut self.examiner.random;
        let (hash, trace) = (Digest(spread32(random.next())), spread16(random.next()));
        let destination = None;
        match random.chance(500) {
            true => {
                let code_is_known = true;
                Command::Abort(Box::new(Abort {
                    id,
                    source,
                    destination,
                    code_is_known,
                    hash,
                    trace,
                }))
            }
            false => {
                let (state, fulfilment) = (FulfilState::Reserved, Fulfilment::Undecodable);
                let fulfil = Fulfil { id, source, destination, state, fulfilment, hash, trace };
                Command::Fulfil(Box::new(fulfil))
            }
        }
    }

    /// A party is registered: by the FSP, or in its name by nobody.
    fn registration(&mut self, to: u8) -> Command {
        let from = if self.examiner.random.chance(500) { to } else { GHOST };
        let number = self.examiner.random.below(1_000);
        let binding = PartyBinding {
            id_type: "MSISDN".into(),
            id: format!("25{number}"),
            sub_id: None,
            currency: None,
            fsp: self.cast.name(to),
        };
        Command::ChangeParties(Box::new(ChangeParties {
            source: self.cast.name(from),
            form: PartyChangeForm::Single,
            parties: vec![binding],
            trace: spread16(number),
        }))
    }

    /// Requests to move funds that should be refused so, or recognised.
    fn funds_for(&mut self, fsp: u8, aim: Funds) -> Vec<Change> {
        use Funds::*;
        let name = match [AccountInactive, ParticipantInactive].contains(&aim) {
            true => self.examiner.newcomer(false),
            false => self.cast.name(fsp),
        };
        let currency = self.cast.currency(0);
        let Some(held) = self.holding(&name, currency) else { return Vec::new() };
        let id = self.examiner.fresh_id();
        let hash = Digest(spread32(self.examiner.random.next()));
        let direction = match [Insufficient, GivenBack].contains(&aim) {
            true => FundsDirection::Out,
            false => FundsDirection::In,
        };
        let units = if aim == Insufficient { i128::from(u64::MAX) } else { 10_000 };
        let amount = Amount::from_units(units);
        let account = held.1;
        let funds = MoveFunds { id, name, account, direction, currency, amount, hash };
        let end = |commit| EndFundsOut { id, name, account, commit, hash };
        match aim {
            CurrencyMismatch => {
                let currency = Currency::parse("XTS").expect("three letters");
                vec![Change::MoveFunds(MoveFunds { currency, ..funds })]
            }
            Repeated => vec![Change::MoveFunds(funds.clone()), Change::MoveFunds(funds)],
            Modified => {
                let other = Digest(spread32(self.examiner.random.next()));
                let modified = MoveFunds { hash: other, ..funds.clone() };
                vec![Change::MoveFunds(funds), Change::MoveFunds(modified)]
            }
            ParticipantInactive => {
                let switch =
                    |active| Change::SetParticipantActive(SetParticipantActive { name, active });
                vec![switch(false), Change::MoveFunds(funds), switch(true)]
            }
            OutNotReserved => vec![Change::EndFundsOut(end(true))],
            GivenBack => vec![Change::MoveFunds(funds), Change::EndFundsOut(end(false))],
            AccountInactive | Insufficient => vec![Change::MoveFunds(funds)],
        }
    }

    /// Changes that should be refused so.
    fn changes_for(&mut self, outcome: AdminOutcome) -> Vec<Change> {
        use AdminOutcome::*;
        let (fsp, currency) = (self.any_fsp(), self.cast.currency(0));
        let (name, ghost) = (self.cast.name(fsp), self.cast.name(GHOST));
        let unused = Currency::parse("XTS").expect("three letters");
        match outcome {
            ParticipantNotFound => self.about_a_ghost(ghost),
            ParticipantCurrencyExists => {
                let shouting = FspName::new(&name.as_str().to_uppercase()).expect("as short");
                let hub = FspName::new("Hub").expect("a short name");
                let name = self.examiner.random.pick(&[name, shouting, hub]);
                vec![Change::CreateParticipant(CreateParticipant { name, currency })]
            }
            HubAccountsMissing => {
                let name = self.examiner.newcomer(true);
                vec![Change::CreateParticipant(CreateParticipant { name, currency: unused })]
            }
            SettlementModelMissing => self.toggle_the_model(currency),
            AccountKindNotForHub => {
                let kinds = [AccountKind::Position, AccountKind::InFlight];
                let kind = self.examiner.random.pick(&kinds);
                vec![Change::CreateHubAccount(CreateHubAccount { currency, kind })]
            }
            AccountExists => {
                let kind = AccountKind::HubFee;
                vec![Change::CreateHubAccount(CreateHubAccount { currency, kind })]
            }
            AccountNotFound => self.not_its_accounts(name, unused),
            AccountKindWrong => self.wrong_accounts(name, currency),
            LimitsExist => {
                let (limit, position) = (Amount::ZERO, Amount::from_units(7));
                vec![Change::SetInitialPositionAndLimits(SetInitialPositionAndLimits {
                    name,
                    currency,
                    limit,
                    position,
                })]
            }
            LimitsMissing => {
                let name = self.examiner.newcomer(true);
                let (limit, alarm_percentage) = (Amount::from_units(1), Amount::ZERO);
                let set = Change::SetLimit(SetLimit { name, currency, limit, alarm_percentage });
                vec![Change::CreateParticipant(CreateParticipant { name, currency }), set]
            }
            SettlementModelExists => {
                let model = model("FEES", AccountKind::InterchangeFee, Some(self.cast.currency(1)));
                vec![Change::CreateSettlementModel(CreateSettlementModel { model })]
            }
            SettlementModelNotFound => {
                vec![Change::SetSettlementModelActive(SetSettlementModelActive {
                    name: "NONE".into(),
                    active: true,
                })]
            }
            DeadLetterNotFound => {
                vec![Change::Redeliver(Redeliver { notice: ledger::NoticeId(u64::MAX) })]
            }
            RulesVersionRefused => {
                let rules_version = self.examiner.random.pick(&[0, 2, u32::MAX]);
                vec![Change::Activate(Activate { rules_version })]
            }
            RegisterFull => self.too_much(name),
            LedgerAccountTypeExists => {
                vec![Change::CreateLedgerAccountType(CreateLedgerAccountType {
                    account_type: account_type("HUB_FEE"),
                })]
            }
            CurrencyMismatch => self.funds_for(fsp, Funds::CurrencyMismatch),
            AccountInactive => self.funds_for(fsp, Funds::AccountInactive),
            ParticipantInactive => self.funds_for(fsp, Funds::ParticipantInactive),
            FundsOutNotReserved => self.funds_for(fsp, Funds::OutNotReserved),
            FundsInsufficient => self.funds_for(fsp, Funds::Insufficient),
            FundsRepeated => self.funds_for(fsp, Funds::Repeated),
            FundsModified => self.funds_for(fsp, Funds::Modified),
            // Aimed at apart, or reached by the clerk.
            Accepted | OracleExists | OracleNotFound | KeysFull | KeyNotFound => Vec::new(),
        }
    }

    fn about_a_ghost(&mut self, name: FspName) -> Vec<Change> {
        let (currency, account) = (self.cast.currency(0), AccountId(1));
        let (limit, id) = (Amount::ZERO, self.examiner.fresh_id());
        let direction = FundsDirection::In;
        let amount = Amount::from_units(1);
        let (commit, hash) = (true, Digest([7; 32]));
        let set = Change::SetEndpoint(SetEndpoint {
            name,
            endpoint: "T".into(),
            value: "http://g".into(),
        });
        let of = [
            Change::SetParticipantActive(SetParticipantActive { name, active: false }),
            Change::SetAccountActive(SetAccountActive { name, account, active: false }),
            Change::SetLimit(SetLimit { name, currency, limit, alarm_percentage: limit }),
            Change::SetInitialPositionAndLimits(SetInitialPositionAndLimits {
                name,
                currency,
                limit,
                position: limit,
            }),
            Change::MoveFunds(MoveFunds { id, name, account, direction, currency, amount, hash }),
            Change::EndFundsOut(EndFundsOut { id, name, account, commit, hash }),
            set,
        ];
        let at = self.examiner.random.below(of.len() as u64) as usize;
        of.into_iter().nth(at).into_iter().collect()
    }

    /// Switches the scheme's own settlement model off while somebody joins, and on again later.
    fn toggle_the_model(&mut self, currency: Currency) -> Vec<Change> {
        let own = self.state().and_then(|state| state.register().models().first().cloned());
        let Some(SettlementModel { name, active, .. }) = own else { return Vec::new() };
        let toggle =
            Change::SetSettlementModelActive(SetSettlementModelActive { name, active: !active });
        let join = Change::CreateParticipant(CreateParticipant {
            name: self.examiner.newcomer(true),
            currency,
        });
        if active { vec![toggle, join] } else { vec![join, toggle] }
    }

    fn not_its_accounts(&mut self, name: FspName, unused: Currency) -> Vec<Change> {
        let active = true;
        let account = self.examiner.random.pick(&[AccountId(0), AccountId(1), AccountId(u32::MAX)]);
        let (limit, position) = (Amount::ZERO, Amount::ZERO);
        match self.examiner.random.chance(500) {
            true => vec![Change::SetAccountActive(SetAccountActive { name, account, active })],
            false => vec![Change::SetInitialPositionAndLimits(SetInitialPositionAndLimits {
                name,
                currency: unused,
                limit,
                position,
            })],
        }
    }

    /// A SETTLEMENT where a POSITION is wanted, or the other way round.
    fn wrong_accounts(&mut self, name: FspName, currency: Currency) -> Vec<Change> {
        let Some((account, settlement)) = self.holding(&name, currency) else { return Vec::new() };
        let (id, hash) = (self.examiner.fresh_id(), Digest([7; 32]));
        let (direction, amount) = (FundsDirection::In, Amount::from_units(1));
        match self.examiner.random.below(3) {
            0 => vec![Change::SetAccountActive(SetAccountActive {
                name,
                account: settlement,
                active: false,
            })],
            1 => {
                let model = model("ODD", AccountKind::HubFee, None);
                vec![Change::CreateSettlementModel(CreateSettlementModel { model })]
            }
            _ => {
                let funds = MoveFunds { id, name, account, direction, currency, amount, hash };
                vec![Change::MoveFunds(funds)]
            }
        }
    }

    /// More than a register holds: endpoints of one participant, or types of accounts.
    fn too_much(&mut self, name: FspName) -> Vec<Change> {
        if !self.examiner.random.chance(BURSTS_PER_MILLE) {
            return Vec::new();
        }
        let endpoint = |number| {
            Change::SetEndpoint(SetEndpoint {
                name,
                endpoint: format!("TYPE_{number}"),
                value: "http://fsp".into(),
            })
        };
        match self.examiner.random.chance(500) {
            true => (0..=ledger::ENDPOINTS_MAX).map(endpoint).collect(),
            false => {
                let types = (0..=ledger::LEDGER_ACCOUNT_TYPES_MAX).map(|it| format!("TYPE_{it}"));
                types
                    .map(|it| {
                        Change::CreateLedgerAccountType(CreateLedgerAccountType {
                            account_type: account_type(&it),
                        })
                    })
                    .collect()
            }
        }
    }

    fn any_fsp(&mut self) -> u8 {
        self.examiner.random.below(u64::from(self.desk.plan.fsps)) as u8
    }

    /// POSITION and SETTLEMENT of a participant in a currency.
    fn holding(&self, name: &FspName, currency: Currency) -> Option<(AccountId, AccountId)> {
        let (_, participant) = self.state()?.register().find(name)?;
        participant.holding(currency).map(|held| (held.position, held.settlement))
    }

    /// A movement of funds that was asked for.
    fn some_funds(&mut self) -> Option<MoveFunds> {
        let mut known = Vec::new();
        for change in self.operator.changes() {
            if let Change::MoveFunds(funds) = change {
                known.push(funds.clone());
            }
        }
        let at = self.examiner.random.below(known.len().max(1) as u64) as usize;
        known.into_iter().nth(at)
    }
}

fn model(name: &str, ledger_account: AccountKind, currency: Option<Currency>) -> SettlementModel {
    SettlementModel {
        name: name.into(),
        net: true,
        multilateral: true,
        deferred: true,
        currency,
        liquidity_check: false,
        auto_position_reset: false,
        ledger_account,
        settlement_account: AccountKind::InterchangeFeeSettlement,
        active: true,
    }
}

fn account_type(name: &str) -> LedgerAccountType {
    let description = "one more".into();
    LedgerAccountType { name: name.into(), description, active: true, settleable: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clerk adds oracles and keys until they are refused.
    const OF_CLERK: [AdminOutcome; 4] = [
        AdminOutcome::OracleExists,
        AdminOutcome::OracleNotFound,
        AdminOutcome::KeysFull,
        AdminOutcome::KeyNotFound,
    ];

    #[test]
    fn every_outcome_of_a_change_is_aimed_at() {
        for outcome in AdminOutcome::ALL {
            let aimed = AIMS.contains(&Aim::Change(*outcome));
            assert_ne!(aimed, OF_CLERK.contains(outcome), "{outcome:?}");
        }
    }
}
