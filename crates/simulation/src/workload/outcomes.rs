//! The outcome workload: makes requests by the outcome that they should have, so that every outcome
//! of the kernel is aimed at, and injects faults that the parameters of a run do not.
//!
//! Changes declare how to ask for their outcomes ([`Reach`](crate::aim::Reach)); this module aims
//! at the outcomes of messages. A request may be lost, overtaken or refused, so an aim may miss; an
//! outcome that is asked for more than once is hit. Payers and payees reach the other outcomes of
//! messages by themselves.
//!
//! The workload has its own RNG stream, as the registry workload has. A run without it is the same
//! as before the workload existed. It also slows the disk down for a while, and opens corrupted
//! copies of the disk before a recovery (see [`corruption`](crate::corruption)).

use ledger::{
    Abort, Activate, AdminOutcome, Amount, Change, ChangeParties, Command, CreateParticipant,
    Currency, Digest, FormerOwner, FspName, Fulfil, FulfilState, Fulfilment, MoveFunds,
    PartyBinding, PartyChangeForm, PartyOwnership, PartyRule, Prepare, RULES_VERSION,
    SetInitialPositionAndLimits, TransferId,
};

use crate::aim::{self, Situation};
use crate::event::Event;
use crate::parameters::SECOND;
use crate::random::{Arrivals, Random, mix, spread16, spread32};
use crate::reduction::Removal;
use crate::simulation::SimulationRun;
use crate::transfers::{GHOST, MessageVariant, Request};

/// Separates the RNG stream of this workload. With this number, no seed that had found a bug before
/// gets the workload, so those seeds still find it.
const STREAM: u64 = 0x0065_7861_6d11;
/// Numbers of the workload's own transfers begin here, beyond those of all transfer plans.
const UNPLANNED_FIRST: u32 = 1 << 31;

/// Aim of one visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutcomeAim {
    /// The outcome of a change, by an aim of one of the changes that have it.
    Change(AdminOutcome),
    /// Some change that is accepted.
    Acceptance,
    /// The outcome of a message.
    Message(MessageOutcome),
}

/// Outcomes of messages that are aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageOutcome {
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

/// The first aims, in the order in which they are drawn: the seeds of regressions depend on it.
/// Aims of changes at other outcomes follow.
const FIRST_AIMS: [OutcomeAim; 35] = [
    OutcomeAim::Acceptance,
    OutcomeAim::Message(MessageOutcome::SenderNotFound),
    OutcomeAim::Message(MessageOutcome::PrepareModified),
    OutcomeAim::Message(MessageOutcome::PreparePayerNotFound),
    OutcomeAim::Message(MessageOutcome::PreparePayerAccountNotFound),
    OutcomeAim::Message(MessageOutcome::PreparePayeeAccountNotFound),
    OutcomeAim::Message(MessageOutcome::PreparePayeeAccountInactive),
    OutcomeAim::Message(MessageOutcome::PreparePayerIsPayee),
    OutcomeAim::Message(MessageOutcome::ResponseTransferNotFound),
    OutcomeAim::Message(MessageOutcome::ResponseNotFromPayee),
    OutcomeAim::Change(AdminOutcome::ParticipantNotFound),
    OutcomeAim::Change(AdminOutcome::ParticipantCurrencyExists),
    OutcomeAim::Change(AdminOutcome::HubAccountsMissing),
    OutcomeAim::Change(AdminOutcome::SettlementModelMissing),
    OutcomeAim::Change(AdminOutcome::AccountKindNotForHub),
    OutcomeAim::Change(AdminOutcome::AccountExists),
    OutcomeAim::Change(AdminOutcome::AccountNotFound),
    OutcomeAim::Change(AdminOutcome::AccountKindWrong),
    OutcomeAim::Change(AdminOutcome::AccountInactive),
    OutcomeAim::Change(AdminOutcome::ParticipantInactive),
    OutcomeAim::Change(AdminOutcome::LimitsExist),
    OutcomeAim::Change(AdminOutcome::LimitsMissing),
    OutcomeAim::Change(AdminOutcome::CurrencyMismatch),
    OutcomeAim::Change(AdminOutcome::SettlementModelExists),
    OutcomeAim::Change(AdminOutcome::SettlementModelNotFound),
    OutcomeAim::Change(AdminOutcome::FundsOutNotReserved),
    OutcomeAim::Change(AdminOutcome::FundsInsufficient),
    OutcomeAim::Change(AdminOutcome::Accepted),
    OutcomeAim::Change(AdminOutcome::FundsRepeated),
    OutcomeAim::Change(AdminOutcome::FundsModified),
    OutcomeAim::Change(AdminOutcome::DeadLetterNotFound),
    OutcomeAim::Change(AdminOutcome::RulesVersionRefused),
    OutcomeAim::Change(AdminOutcome::RegistryFull),
    OutcomeAim::Message(MessageOutcome::RegistrarNotFound),
    OutcomeAim::Change(AdminOutcome::LedgerAccountTypeExists),
];

/// The outcome workload of a run.
#[derive(Debug)]
pub(crate) struct OutcomeWorkload {
    pub(crate) random: Random,
    pub(crate) arrivals: Arrivals,
    aims: Vec<OutcomeAim>,
    /// Commands of its own that are no changes, and who sends them.
    unplanned: Vec<Command>,
    newcomers: u32,
    /// Ids given out.
    ids: u32,
}

impl OutcomeWorkload {
    pub(crate) fn new(seed: u64, chaos_us: u64) -> Self {
        let mut random = Random::new(mix(seed ^ STREAM));
        let arrivals = Arrivals::draw(&mut random, 600, (20, 150), chaos_us);
        let mut aims = FIRST_AIMS.to_vec();
        for (outcome, _) in aim::all() {
            if !aims.contains(&OutcomeAim::Change(outcome)) {
                aims.push(OutcomeAim::Change(outcome));
            }
        }
        Self { random, arrivals, aims, unplanned: Vec::new(), newcomers: 0, ids: 0 }
    }

    /// The command of a request of its own.
    pub(crate) fn unplanned_command(&self, number: u32) -> Command {
        self.unplanned[number as usize].clone()
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
        bytes[13..].copy_from_slice(&(UNPLANNED_FIRST + self.ids).to_le_bytes());
        self.ids += 1;
        TransferId::from_bytes(bytes).expect("the first byte is that of a UUID")
    }
}

impl SimulationRun {
    /// Schedules the next act, if the run has this workload.
    pub(crate) fn schedule_outcomes(&mut self) {
        if let Some(wait) = self.outcome_workload.arrivals.next(&mut self.outcome_workload.random) {
            self.env.after(wait, Event::Outcomes);
        }
    }

    pub(crate) fn run_outcome_step(&mut self) {
        if self.env.calm {
            return;
        }
        if self.hub.is_some() {
            let aim = self.outcome_workload.random.pick(&self.outcome_workload.aims);
            self.aim(aim);
        }
        if self.outcome_workload.random.chance(50) && !self.without.kinds.contains(&Removal::Slow) {
            self.slow_down();
        }
        self.schedule_outcomes();
    }

    /// The disk takes its time with every commit for a while.
    fn slow_down(&mut self) {
        let random = &mut self.outcome_workload.random;
        self.env.slow_us = random.between((5_000, SECOND / 4));
        self.env.slow_until = self.env.now + random.between((SECOND / 10, 3 * SECOND));
        self.env.counts.slow += 1;
    }

    /// Asks for what should have this outcome, as far as the hub's state lets it.
    fn aim(&mut self, aim: OutcomeAim) {
        match aim {
            OutcomeAim::Message(message) => {
                if let Some((from, command)) = self.unplanned_for(message) {
                    self.send_unplanned(from, command);
                }
            }
            OutcomeAim::Acceptance => self.aim_at_acceptance(),
            OutcomeAim::Change(outcome) => {
                self.changes_for(outcome).into_iter().for_each(|it| self.ask_for_change(it));
            }
        }
    }

    /// Changes that should have this outcome. The RNG decides only where several changes have an
    /// aim.
    fn changes_for(&mut self, outcome: AdminOutcome) -> Vec<Change> {
        let fsp = self.any_fsp();
        let mut situation = Situation {
            outcome_workload: &mut self.outcome_workload,
            actors: &self.actors,
            state: self.hub.as_ref().map(|hub| hub.sequencer().state()),
            name: self.actors.name(fsp),
        };
        let aims = aim::all().filter(|(other, _)| *other == outcome).map(|(_, aim)| aim);
        let aims: Vec<_> = aims.collect();
        let aim = match aims[..] {
            [only] => only,
            ref several => situation.outcome_workload.random.pick(several),
        };
        aim(&mut situation)
    }

    /// Sends a command that is no change of the operator's.
    pub(crate) fn send_unplanned(&mut self, from: u8, mut command: Command) {
        self.party_workload.conceal(command.named_parties_mut());
        let action = self.next_act_number();
        if self.without.acts.contains(&action) {
            return;
        }
        self.outcome_workload.unplanned.push(command);
        let number = self.outcome_workload.unplanned.len() as u32 - 1;
        self.env.send(Request { from, message: MessageVariant::Unplanned(number) });
    }

    /// Registers a party, confirms the rules, or lets a newcomer in for good, with a position
    /// from the start.
    fn aim_at_acceptance(&mut self) {
        match self.outcome_workload.random.below(3) {
            0 => {
                let from = self.any_fsp();
                let command = self.registration(from);
                self.send_unplanned(from, command);
            }
            1 => self.ask_for_change(Activate { rules_version: RULES_VERSION }.into()),
            _ => {
                let (name, currency) =
                    (self.outcome_workload.newcomer(true), self.actors.currency(0));
                let units = self.outcome_workload.random.below(2_000) as i128 - 1_000;
                self.ask_for_change(CreateParticipant { name, currency }.into());
                let (net_debit_cap, position) =
                    (Amount::from_units(1_000), Amount::from_units(units));
                let begin =
                    SetInitialPositionAndLimits { name, currency, net_debit_cap, position }.into();
                self.ask_for_change(begin);
            }
        }
    }

    /// A message by an FSP or by an unknown sender, and the sender.
    fn unplanned_for(&mut self, outcome: MessageOutcome) -> Option<(u8, Command)> {
        use MessageOutcome::*;
        let (from, to) = (self.any_fsp(), self.any_fsp());
        let other = (from + 1) % self.env.parameters.fsps;
        let (payer, payee) = (self.actors.name(from), self.actors.name(other));
        let first = self.actors.currency(0);
        Some(match outcome {
            SenderNotFound => (GHOST, self.unknown_sender_message((payer, payee), from)?),
            PreparePayerNotFound => {
                let upper_case = FspName::new(&payer.as_str().to_uppercase())?;
                (from, self.unplanned_prepare((upper_case, payee), first))
            }
            PreparePayerAccountNotFound => {
                (from, self.unplanned_prepare((payer, payee), Currency::parse("XTS")?))
            }
            PreparePayeeAccountNotFound => {
                let newcomer = self.outcome_workload.newcomer(false);
                (from, self.unplanned_prepare((payer, newcomer), self.actors.currency(1)))
            }
            PreparePayeeAccountInactive => {
                let newcomer = self.outcome_workload.newcomer(false);
                (from, self.unplanned_prepare((payer, newcomer), first))
            }
            PreparePayerIsPayee => {
                let upper_case = FspName::new(&payer.as_str().to_uppercase())?;
                (from, self.unplanned_prepare((payer, upper_case), first))
            }
            PrepareModified => {
                let known = self.any_funds_movement()?;
                let Command::Prepare(mut prepare) = self.unplanned_prepare((payer, payee), first)
                else {
                    return None;
                };
                prepare.id = known.id;
                (from, Command::Prepare(prepare))
            }
            ResponseTransferNotFound => {
                let id = self.outcome_workload.fresh_id();
                (from, self.unplanned_response(id, from))
            }
            ResponseNotFromPayee => {
                let id = self.any_funds_movement()?.id;
                (from, self.unplanned_response(id, from))
            }
            RegistrarNotFound => (GHOST, self.registration(to)),
        })
    }

    /// A message whose sender is not a participant, or names itself the hub: about a transfer of
    /// others, one that does not exist, or a movement of funds.
    fn unknown_sender_message(&mut self, parties: (FspName, FspName), from: u8) -> Option<Command> {
        let hub = FspName::new("HUB")?;
        let ghost = self.actors.name(GHOST);
        let source = self.outcome_workload.random.pick(&[ghost, ghost, hub]);
        let known = self.any_funds_movement().map(|funds| funds.id);
        let number = self.outcome_workload.random.below(self.plans.len().max(1) as u64) as u32;
        let fresh = self.outcome_workload.fresh_id();
        let id = self.outcome_workload.random.pick(&[
            fresh,
            self.actors.id(number),
            known.unwrap_or(fresh),
        ]);
        let mut command = match self.outcome_workload.random.chance(500) {
            true => self.unplanned_prepare(parties, self.actors.currency(0)),
            false => self.unplanned_response(id, from),
        };
        match &mut command {
            Command::Prepare(prepare) => (prepare.id, prepare.source) = (id, source),
            Command::Fulfil(fulfil) => fulfil.source = source,
            Command::Abort(abort) => abort.source = source,
            other => panic!("{other:?} is not planned"),
        }
        Some(command)
    }

    pub(crate) fn unplanned_prepare(
        &mut self,
        (payer, payee): (FspName, FspName),
        currency: Currency,
    ) -> Command {
        let id = self.outcome_workload.fresh_id();
        let random = &mut self.outcome_workload.random;
        Command::Prepare(Box::new(Prepare {
            id,
            source: payer,
            payer,
            payee,
            currency,
            amount: Amount::from_units(1),
            condition: [0; 32],
            expiration_ms: self.env.true_ms() + 1_000,
            hash: Digest(spread32(random.next())),
            trace: spread16(random.next()),
            fee_rule: None,
            quote_terms: None,
        }))
    }

    pub(crate) fn unplanned_response(&mut self, id: TransferId, from: u8) -> Command {
        let source = self.actors.name(from);
        let random = &mut self.outcome_workload.random;
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

    /// Registers a party: sent by the FSP, or in its name by an unknown sender.
    fn registration(&mut self, to: u8) -> Command {
        let from = if self.outcome_workload.random.chance(500) { to } else { GHOST };
        let number = self.outcome_workload.random.below(1_000);
        let binding = PartyBinding {
            id_type: "MSISDN".into(),
            id: format!("25{number}"),
            sub_id: None,
            currency: None,
            fsp: self.actors.name(to),
        };
        Command::ChangeParties(Box::new(ChangeParties {
            source: self.actors.name(from),
            form: PartyChangeForm::Single,
            parties: vec![binding],
            trace: spread16(number),
            rule: number.is_multiple_of(3).then(|| PartyRule {
                ownership: PartyOwnership::LatestWins,
                former: vec![FormerOwner { party: 0, fsp: self.actors.name(0) }],
            }),
        }))
    }

    fn any_fsp(&mut self) -> u8 {
        self.outcome_workload.random.below(u64::from(self.env.parameters.fsps)) as u8
    }

    /// A movement of funds that was asked for.
    fn any_funds_movement(&mut self) -> Option<MoveFunds> {
        let mut known = Vec::new();
        for change in self.operator.changes() {
            if let Change::MoveFunds(funds) = change {
                known.push(funds.clone());
            }
        }
        let at = self.outcome_workload.random.below(known.len().max(1) as u64) as usize;
        known.into_iter().nth(at)
    }
}
