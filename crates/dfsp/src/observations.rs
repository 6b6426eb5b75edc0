//! The observations of an FSP, each notice counted once, and its expected position.
//!
//! The hub delivers at least once, so every notice is compared with the record of its transfer.
//! Records are kept in 64 small maps of unequal sizes: one that grows moves only its own, and no
//! two grow together, so that it never shows as a pause. The oldest are dropped beyond
//! [`REMEMBERED_MAX`]; a notice repeated later than that counts as unknown.

use std::collections::{HashMap, VecDeque};

use ledger::{Amount, FspName, TransferId};

/// Transfers remembered per FSP.
pub const REMEMBERED_MAX: usize = 400_000;
/// Transfers of one FSP that may be open at once so that it surely knows each at its end: the
/// small maps fill unevenly.
pub const OPEN_MAX: usize = REMEMBERED_MAX / 20 * 19;
const SHARDS: usize = 64;

/// A number of transfers and their amounts together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Transfers.
    pub count: u64,
    /// Their amounts.
    pub amount: Amount,
}

/// Transfers in one direction with one counterparty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Begun, whatever became of them.
    pub begun: Sum,
    /// Ended well.
    pub committed: Sum,
    /// Ended without effect.
    pub aborted: Sum,
}

/// Transfers with one counterparty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// This FSP paid.
    pub sent: Flow,
    /// This FSP was paid.
    pub received: Flow,
}

/// Messages counted by kind. Distinct counts rise once per transfer and kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Look-ups answered as payee.
    pub lookups: u64,
    /// Quotes answered as payee.
    pub quotes: u64,
    /// As payee: distinct POST /transfers.
    pub prepares: u64,
    /// As payee: distinct confirmations of a commit (PUT or PATCH).
    pub confirmations: u64,
    /// As payee: distinct notices of an abort.
    pub payee_errors: u64,
    /// As payer: distinct notices of a commit.
    pub commits: u64,
    /// As payer: distinct notices of an abort.
    pub payer_errors: u64,
    /// Notices that had been seen before.
    pub repeated: u64,
    /// Notices that contradict an earlier one. A correct hub leaves this at 0.
    pub contradictions: u64,
    /// Error callbacks about answers as payee that the hub could not deliver to the payer.
    pub undelivered: u64,
    /// Callbacks for transactions of this FSP that had ended before.
    pub late: u64,
    /// Callbacks that belong to nothing this FSP knows, or that it cannot read.
    pub unknown: u64,
    /// Fulfilments as payer that do not meet the condition.
    pub wrong_fulfilments: u64,
    /// Own callbacks that the hub refused or that got no answer.
    pub refused: u64,
    /// As payer: transfers that the hub refused at once (HTTP 4xx).
    pub rejected: u64,
    /// HTTP requests received.
    pub requests: u64,
}

/// Answers that a correct hub does not give.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contradictions {
    /// How many there were.
    pub count: u64,
    /// The problem of the first.
    pub first: String,
}

/// The observations of one FSP.
#[derive(Default)]
pub struct Observations {
    /// Messages by kind.
    pub counts: Counts,
    wrong: Contradictions,
    counterparties: Vec<(FspName, Exchange)>,
    remembered: Remembered,
}

/// The side of this FSP in a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Payer,
    Payee,
}

/// How a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Committed,
    Aborted,
}

/// A transfer as this FSP knows it.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    pub(crate) role: Role,
    pub(crate) verdict: Option<Verdict>,
    /// As payee: when it fulfilled, in milliseconds since the epoch; 0 before.
    pub(crate) completed_millis: u64,
    /// As payer: the beginning of the condition.
    promised: u64,
    seen: u8,
    counterparty: u16,
    amount: Amount,
}

const SEEN_COMMIT: u8 = 1;
const SEEN_ABORT: u8 = 2;

impl Observations {
    /// Transfers with each counterparty met so far.
    #[must_use]
    pub fn exchanges(&self) -> &[(FspName, Exchange)] {
        &self.counterparties
    }

    /// Change of the position by all transfers known to be committed: sent less received.
    #[must_use]
    pub fn position(&self) -> Amount {
        let units = self.counterparties.iter().map(|(_, exchange)| {
            exchange.sent.committed.amount.units() - exchange.received.committed.amount.units()
        });
        Amount::from_units(units.sum())
    }

    /// Answers and requests that are not what was asked for.
    #[must_use]
    pub fn wrong(&self) -> &Contradictions {
        &self.wrong
    }

    /// Takes note of an answer or a request that is not what was asked for.
    pub(crate) fn note_wrong(&mut self, what: std::fmt::Arguments<'_>) {
        if self.wrong.count == 0 {
            self.wrong.first = what.to_string();
        }
        self.wrong.count += 1;
    }

    /// The record of a transfer.
    pub(crate) fn record(&mut self, id: TransferId) -> Option<&mut Record> {
        self.remembered.get(id)
    }

    /// Takes note of a new transfer; `false` when it is known already.
    pub(crate) fn begin(
        &mut self,
        id: TransferId,
        role: Role,
        counterparty: FspName,
        amount: Amount,
    ) -> bool {
        if self.remembered.get(id).is_some() {
            return false;
        }
        let index = self.counterparty(counterparty);
        let record = Record {
            role,
            verdict: None,
            completed_millis: 0,
            promised: 0,
            seen: 0,
            counterparty: index as u16,
            amount,
        };
        self.remembered.insert(id, record);
        add(&mut self.flow(index, role).begun, amount);
        true
    }

    /// The same of a transfer that this FSP pays, under a condition.
    pub(crate) fn begin_paying(
        &mut self,
        id: TransferId,
        payee: FspName,
        amount: Amount,
        condition: &[u8; 32],
    ) {
        self.begin(id, Role::Payer, payee, amount);
        if let Some(record) = self.remembered.get(id) {
            record.promised = beginning(condition);
        }
    }

    /// Takes note of a fulfilment that does not meet the condition, by the condition that it meets,
    /// if this FSP pays and knows the transfer.
    pub(crate) fn fulfilled(&mut self, id: TransferId, met: Option<&[u8; 32]>) {
        let Some(record) = self.remembered.get(id) else { return };
        if record.role == Role::Payer && met.map(beginning) != Some(record.promised) {
            self.counts.wrong_fulfilments += 1;
        }
    }

    /// Takes note of the hub's word on a transfer.
    pub(crate) fn notice(&mut self, id: TransferId, verdict: Verdict) {
        let Some(record) = self.remembered.get(id) else {
            self.counts.unknown += 1;
            return;
        };
        let bit = match verdict {
            Verdict::Committed => SEEN_COMMIT,
            Verdict::Aborted => SEEN_ABORT,
        };
        let (before, role) = (record.seen, record.role);
        record.seen |= bit;
        if before & bit != 0 {
            self.counts.repeated += 1;
            return;
        }
        if before != 0 {
            self.counts.contradictions += 1;
            return;
        }
        let counter = match (role, verdict) {
            (Role::Payer, Verdict::Committed) => &mut self.counts.commits,
            (Role::Payer, Verdict::Aborted) => &mut self.counts.payer_errors,
            (Role::Payee, Verdict::Committed) => &mut self.counts.confirmations,
            (Role::Payee, Verdict::Aborted) => &mut self.counts.payee_errors,
        };
        *counter += 1;
        self.conclude(id, verdict);
    }

    /// Books what is known or assumed of a transfer's end; a later verdict replaces an earlier.
    pub(crate) fn conclude(&mut self, id: TransferId, verdict: Verdict) {
        let Some(record) = self.remembered.get(id) else { return };
        let before = record.verdict.replace(verdict);
        let (index, role, amount) = (usize::from(record.counterparty), record.role, record.amount);
        if before == Some(verdict) {
            return;
        }
        let flow = self.flow(index, role);
        if let Some(before) = before {
            let sum = flow.sum(before);
            sum.count -= 1;
            sum.amount = Amount::from_units(sum.amount.units() - amount.units());
        }
        add(flow.sum(verdict), amount);
    }

    fn counterparty(&mut self, name: FspName) -> usize {
        let known = self.counterparties.iter().position(|(other, _)| *other == name);
        known.unwrap_or_else(|| {
            self.counterparties.push((name, Exchange::default()));
            self.counterparties.len() - 1
        })
    }

    fn flow(&mut self, index: usize, role: Role) -> &mut Flow {
        let exchange = &mut self.counterparties[index].1;
        match role {
            Role::Payer => &mut exchange.sent,
            Role::Payee => &mut exchange.received,
        }
    }
}

impl Flow {
    fn sum(&mut self, verdict: Verdict) -> &mut Sum {
        match verdict {
            Verdict::Committed => &mut self.committed,
            Verdict::Aborted => &mut self.aborted,
        }
    }
}

fn beginning(condition: &[u8; 32]) -> u64 {
    u64::from_be_bytes(*condition.first_chunk().expect("it has 32 bytes"))
}

fn add(sum: &mut Sum, amount: Amount) {
    sum.count += 1;
    sum.amount = Amount::from_units(sum.amount.units() + amount.units());
}

struct Remembered {
    shards: Vec<Shard>,
}

#[derive(Default)]
struct Shard {
    /// Beyond them the oldest goes.
    records_max: usize,
    records: HashMap<TransferId, Record>,
    order: VecDeque<TransferId>,
}

impl Default for Remembered {
    fn default() -> Self {
        let edge = |at: usize| (at as f64 / SHARDS as f64).exp2();
        let shard = |at| {
            let share = edge(at + 1) - edge(at);
            Shard { records_max: (REMEMBERED_MAX as f64 * share) as usize, ..Shard::default() }
        };
        Self { shards: (0..SHARDS).map(shard).collect() }
    }
}

impl Remembered {
    /// The last shard gets twice as many as the first, and each as many times more as the one
    /// before: a map doubles, so their turns are spread evenly over the time until all have.
    fn shard(&mut self, id: TransferId) -> &mut Shard {
        let [.., high, low] = id.to_bytes();
        let part = f64::from(u16::from_be_bytes([high, low])) / 65_536.0;
        let at = ((1.0 + part).log2() * SHARDS as f64) as usize;
        &mut self.shards[at.min(SHARDS - 1)]
    }

    fn get(&mut self, id: TransferId) -> Option<&mut Record> {
        self.shard(id).records.get_mut(&id)
    }

    fn insert(&mut self, id: TransferId, record: Record) {
        let shard = self.shard(id);
        if shard.order.len() >= shard.records_max
            && let Some(oldest) = shard.order.pop_front()
        {
            shard.records.remove(&oldest);
        }
        shard.order.push_back(id);
        shard.records.insert(id, record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> TransferId {
        TransferId::parse(&format!("00000000-0000-4000-8000-{number:012}")).expect("an id")
    }

    fn name(text: &str) -> FspName {
        FspName::new(text).expect("a name")
    }

    fn tally() -> Observations {
        let mut tally = Observations::default();
        assert!(tally.begin(id(1), Role::Payer, name("b"), Amount::from_units(70_000)));
        assert!(tally.begin(id(2), Role::Payee, name("b"), Amount::from_units(20_000)));
        tally
    }

    #[test]
    fn a_repeated_notice_counts_once() {
        let mut tally = tally();
        assert!(!tally.begin(id(1), Role::Payer, name("b"), Amount::from_units(70_000)));
        for _ in 0..3 {
            tally.notice(id(1), Verdict::Committed);
            tally.notice(id(2), Verdict::Committed);
        }
        assert_eq!(tally.position(), Amount::from_units(50_000));
        let counts = tally.counts;
        assert_eq!((counts.commits, counts.confirmations, counts.repeated), (1, 1, 4));
        assert_eq!(tally.exchanges()[0].1.sent.committed.count, 1);
    }

    #[test]
    fn an_assumed_commit_is_taken_back_by_an_abort() {
        let mut tally = tally();
        tally.conclude(id(2), Verdict::Committed);
        assert_eq!(tally.position(), Amount::from_units(-20_000));
        tally.notice(id(2), Verdict::Aborted);
        assert_eq!(tally.position(), Amount::ZERO);
        assert_eq!((tally.counts.contradictions, tally.counts.payee_errors), (0, 1));
    }

    #[test]
    fn every_fulfilment_is_held_against_what_was_promised() {
        let mut tally = Observations::default();
        tally.begin_paying(id(1), name("b"), Amount::from_units(1), &[7; 32]);
        tally.begin(id(2), Role::Payee, name("b"), Amount::from_units(1));
        tally.fulfilled(id(1), Some(&[7; 32]));
        tally.fulfilled(id(2), None);
        assert_eq!(tally.counts.wrong_fulfilments, 0);
        tally.fulfilled(id(1), Some(&[8; 32]));
        tally.fulfilled(id(1), None);
        assert_eq!(tally.counts.wrong_fulfilments, 2);
    }

    #[test]
    fn contradictions_and_strangers_are_counted_and_change_nothing() {
        let mut tally = tally();
        tally.notice(id(1), Verdict::Committed);
        tally.notice(id(1), Verdict::Aborted);
        tally.notice(id(9), Verdict::Committed);
        assert_eq!(tally.position(), Amount::from_units(70_000));
        assert_eq!((tally.counts.contradictions, tally.counts.unknown), (1, 1));
    }

    #[test]
    fn as_many_as_may_be_open_are_all_remembered() {
        let scattered = |number: usize| {
            let mixed = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 16;
            let text = format!("00000000-0000-4000-8000-{mixed:012x}");
            TransferId::parse(&text).expect("an id")
        };
        let mut tally = Observations::default();
        for number in 0..OPEN_MAX {
            tally.begin(scattered(number), Role::Payer, name("b"), Amount::ZERO);
        }
        let forgotten =
            (0..OPEN_MAX).filter(|number| tally.record(scattered(*number)).is_none()).count();
        assert_eq!(forgotten, 0);
    }

    #[test]
    fn the_oldest_transfers_are_forgotten_at_the_bound() {
        let mut tally = tally();
        let mut number = 3;
        while tally.record(id(1)).is_some() {
            tally.begin(id(number), Role::Payer, name("b"), Amount::ZERO);
            number += 1;
            assert!(number < 4 * REMEMBERED_MAX as u32);
        }
        let kept: usize = tally.remembered.shards.iter().map(|shard| shard.records.len()).sum();
        assert!(kept <= REMEMBERED_MAX);
    }
}
