//! The examiner: makes requests by the outcome that they should have, so that every outcome of
//! the kernel is aimed at, and breaks what the plan of a run does not.
//!
//! Changes declare how to ask for their outcomes ([`Reach`](crate::aim::Reach)); this module aims
//! at the outcomes of messages. A request may be lost, overtaken or refused, so an aim may miss; an
//! outcome that is asked for more than once is hit. Payers and payees reach the other outcomes of
//! messages by themselves.
//!
//! The examiner has dice of its own, as the clerk has: a run without one is the run that its seed
//! gave before there were examiners. It also makes the disk slow for a while, and lays damaged
//! copies of the disk before the recovery (see [`damage`](crate::damage)).

use ledger::{
    Abort, Activate, AdminOutcome, Amount, Change, ChangeParties, Command, CreateParticipant,
    Currency, Digest, FspName, Fulfil, FulfilState, Fulfilment, MoveFunds, PartyBinding,
    PartyChangeForm, Prepare, SetInitialPositionAndLimits, TransferId,
};

use crate::aim::{self, Situation};
use crate::event::Event;
use crate::parameters::SECOND;
use crate::random::{Arrivals, Random, mix, spread16, spread32};
use crate::reduction::Kind;
use crate::simulation_run::SimulationRun;
use crate::transfers::{GHOST, MessageVariant, Request};

/// What sets its dice apart. This number gives none of the seeds that found something an
/// examiner, so that they still find it.
const DICE: u64 = 0x0065_7861_6d11;
/// Numbers of the examiner's own transfers begin here, beyond those of all scripts.
pub(crate) const STRAY: u32 = 1 << 31;

/// Aim of one visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// The outcome of a change, by an aim of one of the changes that have it.
    Change(AdminOutcome),
    /// Some change that is accepted.
    Acceptance,
    /// The outcome of a message.
    Stray(Stray),
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
    ResponseTransferNotFound,
    ResponseNotFromPayee,
    RegistrarNotFound,
}

/// The first aims, in the order in which the dice number them: the seeds of regressions depend on
/// it. Aims of changes at other outcomes follow.
const FIRST_AIMS: [Aim; 35] = [
    Aim::Acceptance,
    Aim::Stray(Stray::SenderNotFound),
    Aim::Stray(Stray::PrepareModified),
    Aim::Stray(Stray::PreparePayerNotFound),
    Aim::Stray(Stray::PreparePayerAccountNotFound),
    Aim::Stray(Stray::PreparePayeeAccountNotFound),
    Aim::Stray(Stray::PreparePayeeAccountInactive),
    Aim::Stray(Stray::PreparePayerIsPayee),
    Aim::Stray(Stray::ResponseTransferNotFound),
    Aim::Stray(Stray::ResponseNotFromPayee),
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
    Aim::Change(AdminOutcome::Accepted),
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
pub(crate) struct OutcomeWorkload {
    pub(crate) random: Random,
    pub(crate) visits: Arrivals,
    aims: Vec<Aim>,
    /// Commands of its own that are no changes, and who sends them.
    strays: Vec<Command>,
    newcomers: u32,
    /// Ids given out.
    ids: u32,
}

impl OutcomeWorkload {
    pub(crate) fn new(seed: u64, chaos_us: u64) -> Self {
        let mut random = Random::new(mix(seed ^ DICE));
        let visits = Arrivals::draw(&mut random, 600, (20, 150), chaos_us);
        let mut aims = FIRST_AIMS.to_vec();
        for (outcome, _) in aim::all() {
            if !aims.contains(&Aim::Change(outcome)) {
                aims.push(Aim::Change(outcome));
            }
        }
        Self { random, visits, aims, strays: Vec::new(), newcomers: 0, ids: 0 }
    }

    /// The command of a request of its own.
    pub(crate) fn stray(&self, number: u32) -> Command {
        self.strays[number as usize].clone()
    }

    /// A participant that joins, or did: its number is below that of the next one.
    pub(crate) fn newcomer(&mut self, new: bool) -> FspName {
        self.newcomers += u32::from(new);
        let number = match new {
            true => u64::from(self.newcomers),
            false => self.random.between((1, u64::from(self.newcomers.max(1)))),
        };
        FspName::new(&format!("new{number}")).expect("a short name")
    }

    pub(crate) fn fresh_id(&mut self) -> TransferId {
        let mut bytes = [0; 17];
        bytes[1..].copy_from_slice(&spread16(self.random.next()));
        bytes[13..].copy_from_slice(&(STRAY + self.ids).to_le_bytes());
        self.ids += 1;
        TransferId::from_bytes(bytes).expect("the first byte is that of a UUID")
    }
}

impl SimulationRun {
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
            let aim = self.examiner.random.pick(&self.examiner.aims);
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
            Aim::Acceptance => self.aim_at_acceptance(),
            Aim::Change(outcome) => {
                self.changes_for(outcome).into_iter().for_each(|it| self.ask_for_change(it));
            }
        }
    }

    /// Changes that should end so. Dice decide only where several changes have an aim.
    fn changes_for(&mut self, outcome: AdminOutcome) -> Vec<Change> {
        let fsp = self.any_fsp();
        let mut situation = Situation {
            examiner: &mut self.examiner,
            cast: &self.cast,
            state: self.hub.as_ref().map(|hub| hub.sequencer().state()),
            name: self.cast.name(fsp),
        };
        let aims = aim::all().filter(|(other, _)| *other == outcome).map(|(_, aim)| aim);
        let aims: Vec<_> = aims.collect();
        let aim = match aims[..] {
            [only] => only,
            ref several => situation.examiner.random.pick(several),
        };
        aim(&mut situation)
    }

    /// Sends a command that is no change of the operator's.
    fn stray(&mut self, from: u8, command: Command) {
        let act = self.count_act();
        if self.without.acts.contains(&act) {
            return;
        }
        self.examiner.strays.push(command);
        let number = self.examiner.strays.len() as u32 - 1;
        self.desk.send(Request { from, what: MessageVariant::Stray(number) });
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
            1 => self.ask_for_change(Activate { rules_version: 1 }.into()),
            _ => {
                let (name, currency) = (self.examiner.newcomer(true), self.cast.currency(0));
                let units = self.examiner.random.below(2_000) as i128 - 1_000;
                self.ask_for_change(CreateParticipant { name, currency }.into());
                let (limit, position) = (Amount::from_units(1_000), Amount::from_units(units));
                let begin = SetInitialPositionAndLimits { name, currency, limit, position }.into();
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
            ResponseTransferNotFound => {
                let id = self.examiner.fresh_id();
                (from, self.stray_answer(id, from))
            }
            ResponseNotFromPayee => {
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

    fn any_fsp(&mut self) -> u8 {
        self.examiner.random.below(u64::from(self.desk.plan.fsps)) as u8
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
