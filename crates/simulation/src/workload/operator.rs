//! The operator: onboards all participants, then keeps changing settings.

use ledger::{
    AccountKind, Amount, Change, Configure, CreateHubAccount, CreateParticipant, Digest,
    EndFundsOut, FundsDirection, MoveFunds, Redeliver, SetAccountActive,
    SetInitialPositionAndLimits, SetLimit, SetParticipantActive, Settings, TransferId,
};

use crate::event::Event;
use crate::parameters::SECOND;
use crate::random::{Random, spread16};
use crate::simulation::SimulationRun;
use crate::transfers::{Actors, MessageVariant, OPERATOR, Request};

/// How long the operator waits for an answer during the onboarding.
const PATIENCE_US: u64 = SECOND / 5;
const UNIT: i128 = 10_000;

/// All changes that the operator has asked for, and how far onboarding is.
#[derive(Debug)]
pub(crate) struct OperatorWorkload {
    changes: Vec<Change>,
    /// How many of the first changes belong to the onboarding.
    onboarding: u32,
    /// How many of them were answered.
    answered: u32,
    funded: bool,
    /// Outflows that were asked for and not ended.
    outflows: Vec<(u8, TransferId)>,
    /// Whom the operator has switched off.
    off: Vec<Change>,
}

impl OperatorWorkload {
    pub(crate) fn new(actors: &Actors) -> Self {
        let mut changes = Vec::new();
        for currency in actors.currencies.iter().copied() {
            let kinds = [AccountKind::HubReconciliation, AccountKind::HubMultilateralSettlement];
            changes.extend(
                kinds.map(|kind| Change::CreateHubAccount(CreateHubAccount { currency, kind })),
            );
        }
        for name in actors.fsps.iter().copied() {
            for currency in actors.currencies.iter().copied() {
                changes.push(CreateParticipant { name, currency }.into());
                let (net_debit_cap, position) = (Amount::from_units(60_000 * UNIT), Amount::ZERO);
                changes.push(
                    SetInitialPositionAndLimits { name, currency, net_debit_cap, position }.into(),
                );
            }
        }
        let onboarding = changes.len() as u32;
        let (outflows, off) = (Vec::new(), Vec::new());
        Self { changes, onboarding, answered: 0, funded: false, outflows, off }
    }

    pub(crate) fn change(&self, number: u32) -> &Change {
        &self.changes[number as usize]
    }

    /// Everything that was asked for, oldest first.
    pub(crate) fn changes(&self) -> &[Change] {
        &self.changes
    }

    fn add(&mut self, change: Change) -> u32 {
        self.changes.push(change);
        self.changes.len() as u32 - 1
    }
}

impl SimulationRun {
    /// The operator acts: repeats the current step of the onboarding, or requests a new change.
    pub(crate) fn run_operator_step(&mut self) {
        if self.operator.answered < self.operator.onboarding || !self.operator.funded {
            self.onboard_next();
            return self.env.after(PATIENCE_US, Event::Operator);
        }
        if self.env.calm {
            return;
        }
        if let Some(change) = self.next_change() {
            self.ask_for_change(change);
        }
        if let Some(mean) = self.env.parameters.operator_us {
            let wait = self.env.random.around(mean);
            self.env.after(wait, Event::Operator);
        }
    }

    /// An operator's change was answered; the next one of the onboarding may go.
    pub(crate) fn change_answered(&mut self, number: u32) {
        if number != self.operator.answered || self.operator.onboarding <= number {
            return;
        }
        self.operator.answered += 1;
        self.onboard_next();
    }

    /// Asks for a new change.
    pub(crate) fn ask_for_change(&mut self, mut change: Change) {
        self.party_workload.conceal(change.named_parties_mut());
        let act = self.next_act_number();
        if self.without.acts.contains(&act) {
            return;
        }
        let number = self.operator.add(change);
        self.ask_for(number);
    }

    /// Number of an act of any operator workload.
    pub(crate) fn next_act_number(&mut self) -> u32 {
        self.env.counts.acts += 1;
        self.env.counts.acts - 1
    }

    /// The next step of the onboarding.
    fn onboard_next(&mut self) {
        if self.operator.answered == self.operator.onboarding {
            match self.operator.funded {
                true => return self.begin_traffic(),
                false => self.fund_everybody(),
            }
        }
        if self.operator.answered < self.operator.onboarding {
            self.ask_for(self.operator.answered);
        }
    }

    fn ask_for(&mut self, number: u32) {
        self.env.send(Request { from: OPERATOR, message: MessageVariant::Change(number) });
    }

    /// The accounts exist: deposits follow, as the last part of the onboarding. The numbers of the
    /// accounts are read from the state, so this waits for the hub to be up.
    fn fund_everybody(&mut self) {
        if self.hub.is_none() {
            return;
        }
        self.operator.funded = true;
        for fsp in 0..self.env.parameters.fsps {
            for currency in 0..self.env.parameters.currencies {
                let units = self.env.random.between((20_000, 200_000));
                let funds = self.move_funds((fsp, currency), FundsDirection::In, units);
                funds.into_iter().for_each(|change| _ = self.operator.add(change));
            }
        }
        self.operator.onboarding = self.operator.changes.len() as u32;
    }

    fn next_change(&mut self) -> Option<Change> {
        let fsp = self.env.random.below(u64::from(self.env.parameters.fsps)) as u8;
        let currency = self.env.random.below(u64::from(self.env.parameters.currencies)) as u8;
        match self.env.random.below(11) {
            0 | 1 => Some(self.set_net_debit_cap(fsp, currency)),
            2 => self.move_funds((fsp, currency), FundsDirection::In, 5_000),
            3 => self.take_funds(fsp, currency),
            4 | 5 => self.end_outflow(),
            6 => self.switch_off(fsp, currency),
            7 | 8 => self.operator.off.pop(),
            9 => Some(Configure { settings: settings(&mut self.env.random) }.into()),
            _ => self.redeliver(),
        }
    }

    fn set_net_debit_cap(&mut self, fsp: u8, currency: u8) -> Change {
        let units = i128::from(self.env.random.between((0, 80_000)));
        Change::SetLimit(SetLimit {
            name: self.actors.name(fsp),
            currency: self.actors.currency(currency),
            net_debit_cap: Amount::from_units(units * UNIT),
            alarm_percentage: Amount::from_units(10 * UNIT),
        })
    }

    fn move_funds(
        &mut self,
        (fsp, currency): (u8, u8),
        direction: FundsDirection,
        units: u64,
    ) -> Option<Change> {
        let (name, currency) = (self.actors.name(fsp), self.actors.currency(currency));
        let (_, participant) = self.state()?.registry().find(&name)?;
        let account = participant.accounts_in(currency)?.settlement;
        let amount = Amount::from_units(i128::from(units) * UNIT);
        let mut bytes = [0; 17];
        bytes[1..].copy_from_slice(&spread16(self.env.random.next()));
        let id = TransferId::from_bytes(bytes)?;
        if direction == FundsDirection::Out {
            self.operator.outflows.push((fsp, id));
        }
        let hash = request_hash(id, 0);
        let funds = MoveFunds { id, name, account, direction, currency, amount, hash };
        Some(Change::MoveFunds(funds))
    }

    fn take_funds(&mut self, fsp: u8, currency: u8) -> Option<Change> {
        let units = self.env.random.between((1, 100_000));
        self.move_funds((fsp, currency), FundsDirection::Out, units)
    }

    fn end_outflow(&mut self) -> Option<Change> {
        let (fsp, id) = self.operator.outflows.pop()?;
        let asked = |change: &&Change| matches!(change, Change::MoveFunds(funds) if funds.id == id);
        let Some(Change::MoveFunds(funds)) = self.operator.changes.iter().find(asked) else {
            return None;
        };
        let (name, account) = (self.actors.name(fsp), funds.account);
        let commit = self.env.random.chance(500);
        let hash = request_hash(id, 1 + u8::from(commit));
        Some(EndFundsOut { id, name, account, commit, hash }.into())
    }

    fn switch_off(&mut self, fsp: u8, currency: u8) -> Option<Change> {
        let name = self.actors.name(fsp);
        if self.env.random.chance(500) {
            self.operator.off.push(SetParticipantActive { name, active: true }.into());
            return Some(SetParticipantActive { name, active: false }.into());
        }
        let (_, participant) = self.state()?.registry().find(&name)?;
        let account = participant.accounts_in(self.actors.currency(currency))?.position;
        self.operator.off.push(SetAccountActive { name, account, active: true }.into());
        Some(SetAccountActive { name, account, active: false }.into())
    }

    fn redeliver(&mut self) -> Option<Change> {
        let notice = self.state()?.dead_letters().last()?.notice.id;
        self.env.counts.redelivered += 1;
        Some(Redeliver { notice }.into())
    }
}

/// The operator asks for one thing with each id and action: those are its requests' digests.
pub(crate) fn request_hash(id: TransferId, action: u8) -> Digest {
    let mut digest = Digest([action; 32]);
    digest.0[..17].copy_from_slice(&id.to_bytes());
    digest
}

fn settings(random: &mut Random) -> Settings {
    Settings {
        confirm_to_payee: random.chance(700),
        on_us_transfers: random.chance(500),
        put_aborted_aborts: random.chance(500),
        funds_out_covers_position: random.chance(700),
        lane_capacity: random.pick(&[5, 100, 50_000, 50_000]),
    }
}
