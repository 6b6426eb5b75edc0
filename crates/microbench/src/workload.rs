//! A scheme of participants and an endless sequence of transfers between them, the same in every
//! run.

use std::collections::VecDeque;

use ledger::{
    AccountKind, Administer, Amount, BulkItem, BulkItemAnswer, BulkItemResult, Change, Command,
    CreateHubAccount, CreateParticipant, Currency, DeliveryResult, Digest, FinishedDelivery,
    FspName, Fulfil, FulfilBulk, FulfilState, Fulfilment, FundsDirection, Genesis, MoveFunds,
    Notice, Prepare, PrepareBulk, SetInitialPositionAndLimits, State, TransferId,
};
use sha2::{Digest as _, Sha256};

/// An amount that no run can exceed, in ten-thousandths.
const UNLIMITED: i64 = 1_000_000_000_000_000_000;
/// Lifetime of a transfer from the wall-clock time at the start. No transfer expires during a run.
/// The deadlines are those of ten transfers per millisecond whose payers' clocks differ by some
/// milliseconds.
const EXPIRES_AFTER_MS: u64 = 86_400_000;

/// The distribution of transfers over participants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// All transfers go from one participant to one other.
    Hot,
    /// Payer and payee are drawn from a thousand participants.
    Uniform,
}

impl Spread {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot: 1 payer, 1 payee",
            Self::Uniform => "uniform: 1,000 participants",
        }
    }

    fn participants(self) -> usize {
        match self {
            Self::Hot => 2,
            Self::Uniform => 1_000,
        }
    }
}

/// Creates commands.
pub(crate) struct Workload {
    names: Vec<FspName>,
    spread: Spread,
    random: u64,
    made: u64,
    expiration_ms: u64,
    condition: [u8; 32],
}

impl Workload {
    pub(crate) fn new(spread: Spread, now_ms: u64) -> Self {
        let names = (0..spread.participants()).map(|number| name(&format!("dfsp{number:04}")));
        Self {
            names: names.collect(),
            spread,
            random: 0x5eed,
            made: 0,
            expiration_ms: now_ms + EXPIRES_AFTER_MS,
            condition: Sha256::digest(PREIMAGE).into(),
        }
    }

    /// Onboards the scheme: `apply` commits a batch and shows the resulting state.
    pub(crate) fn onboard(&self, mut apply: impl FnMut(Vec<Command>, &mut dyn FnMut(&State))) {
        let genesis = Genesis { seed: [7; 16], hub: name("CoreHub") };
        apply(vec![Command::Genesis(genesis)], &mut |_| {});
        let currency = currency();
        for kind in [AccountKind::HubReconciliation, AccountKind::HubMultilateralSettlement] {
            apply(
                vec![administer(Change::CreateHubAccount(CreateHubAccount { currency, kind }))],
                &mut |_| {},
            );
        }
        for name in self.names.iter().copied() {
            let (net_debit_cap, position) = (Amount::from_units(UNLIMITED.into()), Amount::ZERO);
            let create = Change::CreateParticipant(CreateParticipant { name, currency });
            let limits = Change::SetInitialPositionAndLimits(SetInitialPositionAndLimits {
                name,
                currency,
                net_debit_cap,
                position,
            });
            let mut account = None;
            apply(vec![administer(create), administer(limits)], &mut |state| {
                let found = state.registry().find(&name).expect("it was just created");
                account = found.1.accounts_in(currency).map(|holding| holding.settlement);
            });
            let funds = MoveFunds {
                hash: Digest([0; 32]),
                id: transfer_id(u64::MAX, self.random ^ u64::from(account.expect("created").0)),
                name,
                account: account.expect("created"),
                direction: FundsDirection::In,
                currency,
                amount: net_debit_cap,
            };
            apply(vec![administer(Change::MoveFunds(funds))], &mut |_| {});
        }
    }

    /// The next transfer: the command that reserves it and the one that commits it.
    pub(crate) fn next(&mut self) -> (Command, Command) {
        self.made += 1;
        let id = transfer_id(self.made, self.draw());
        let (payer, payee) = self.parties();
        let prepare = Prepare {
            id,
            source: payer,
            payer,
            payee,
            currency: currency(),
            amount: Amount::from_units(10_000),
            condition: self.condition,
            expiration_ms: self.expiration_ms,
            hash: digest(self.made, 1),
            trace: trace(self.made),
            fee_rule: None,
            quote_terms: None,
        };
        let fulfil = Fulfil {
            id,
            source: payee,
            destination: Some(payer),
            state: FulfilState::Committed,
            fulfilment: Fulfilment::Present(PREIMAGE),
            hash: digest(self.made, 2),
            trace: trace(self.made),
        };
        (Command::Prepare(Box::new(prepare)), Command::Fulfil(Box::new(fulfil)))
    }

    /// The next bulk between the first two participants: the command that reserves its items and
    /// the one that commits them.
    pub(crate) fn next_bulk(&mut self, items: u16) -> (Command, Command) {
        self.made += 1;
        let (number, random) = (self.made, self.draw());
        let id = transfer_id(number, random).as_bulk();
        let (payer, payee) = (self.names[0], self.names[1]);
        let ids: Vec<_> = (0..items)
            .map(|_| {
                self.made += 1;
                transfer_id(self.made, self.draw())
            })
            .collect();
        let item = |id: &TransferId| BulkItem {
            id: *id,
            currency: currency(),
            amount: Amount::from_units(10_000),
            condition: self.condition,
            fee_rule: None,
        };
        let prepare = PrepareBulk {
            id,
            source: payer,
            payer,
            payee,
            expiration_ms: self.expiration_ms,
            hash: digest(number, 1),
            trace: trace(number),
            items: ids.iter().map(item).collect(),
        };
        let answer = BulkItemAnswer::Fulfilled(Fulfilment::Present(PREIMAGE));
        let fulfil = FulfilBulk {
            id,
            source: payee,
            destination: Some(payer),
            hash: digest(number, 2),
            trace: trace(number),
            items: ids.iter().map(|id| BulkItemResult { id: *id, answer }).collect(),
        };
        (Command::PrepareBulk(Box::new(prepare)), Command::FulfilBulk(Box::new(fulfil)))
    }

    /// Batches of one size: one of prepares, then one of their fulfils, and so on.
    pub(crate) fn batches(&mut self, pairs: usize, size: usize) -> Vec<Vec<Command>> {
        let mut batches = Vec::new();
        for _ in 0..pairs / size {
            let (prepares, fulfils) = (0..size).map(|_| self.next()).unzip();
            batches.extend::<[Vec<Command>; 2]>([prepares, fulfils]);
        }
        batches
    }

    /// A sequence in which each fulfil follows its prepare after `delay` transfers.
    pub(crate) fn interleaved(&mut self, pairs: usize, delay: usize) -> Vec<Command> {
        let mut open = VecDeque::new();
        let mut row = Vec::with_capacity(2 * pairs);
        for _ in 0..pairs {
            let (prepare, fulfil) = self.next();
            row.push(prepare);
            open.push_back(fulfil);
            if delay < open.len() {
                row.extend(open.pop_front());
            }
        }
        row.extend(open);
        row
    }

    fn parties(&mut self) -> (FspName, FspName) {
        if self.spread == Spread::Hot {
            return (self.names[0], self.names[1]);
        }
        let count = self.names.len();
        let payer = self.draw() as usize % count;
        let payee = (payer + 1 + self.draw() as usize % (count - 1)) % count;
        (self.names[payer], self.names[payee])
    }

    /// The next pseudo-random number (splitmix64).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// The records of a hub after the notices of a batch were delivered.
pub(crate) fn delivered(notices: &[Notice]) -> Vec<FinishedDelivery> {
    let end = |notice: &Notice| FinishedDelivery {
        notice: notice.id,
        result: DeliveryResult::Delivered,
        attempts: 1,
        status: 202,
        finished_ms: notice.at.millis(),
    };
    notices.iter().map(end).collect()
}

pub(crate) fn name(text: &str) -> FspName {
    FspName::new(text).expect("a short text is a name")
}

fn currency() -> Currency {
    Currency::parse("USD").expect("three messages are a currency")
}

const PREIMAGE: [u8; 32] = [42; 32];

pub(crate) fn administer(change: Change) -> Command {
    let (actor, reason) = ("bench".into(), String::new());
    Command::Administer(Box::new(Administer { actor, reason, change }))
}

fn transfer_id(number: u64, random: u64) -> TransferId {
    let mut bytes = [0; 17];
    bytes[1..9].copy_from_slice(&random.to_be_bytes());
    bytes[9..].copy_from_slice(&number.to_be_bytes());
    TransferId::from_bytes(bytes).expect("the form of a UUID")
}

fn digest(number: u64, of: u8) -> Digest {
    let mut bytes = [of; 32];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Digest(bytes)
}

fn trace(number: u64) -> [u8; 16] {
    u128::from(number).to_le_bytes()
}
