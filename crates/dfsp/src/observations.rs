//! The observations of an FSP, each notice counted once, and its expected position.
//!
//! The hub delivers at least once, so every notice is compared with the record of its transfer.
//! Records are kept in 64 small maps of unequal sizes. A map that grows moves only its own records,
//! and no two grow at the same time, so there are no long pauses. Beyond [`REMEMBERED_MAX`] the
//! oldest records are dropped. A later repeat of their notice counts as unknown.

use std::collections::{HashMap, VecDeque};

use ledger::{Amount, FspName, TransferId};

/// Transfers remembered per FSP.
pub const REMEMBERED_MAX: usize = 400_000;
/// Maximum number of open transfers for which an FSP is sure to keep each record until its end: the
/// small maps fill unevenly.
pub const OPEN_MAX: usize = REMEMBERED_MAX / 20 * 19;
const SHARDS: usize = 64;

/// A number of transfers and their total amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Transfers.
    pub count: u64,
    /// Their total amount.
    pub amount: Amount,
}

/// Transfers in one direction with one counterparty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// All transfers that began.
    pub begun: Sum,
    /// Committed transfers.
    pub committed: Sum,
    /// Transfers that ended without effect.
    pub aborted: Sum,
}

/// Transfers with one counterparty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Transfers that this FSP sent.
    pub sent: Flow,
    /// Transfers that this FSP received.
    pub received: Flow,
}

/// Messages by kind. Distinct counts increase once per transfer and kind.
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
    /// Repeated notices.
    pub repeated: u64,
    /// Notices that contradict an earlier one. A correct hub leaves this at 0.
    pub contradictions: u64,
    /// Error callbacks about responses of this payee that the hub could not deliver to the payer.
    pub undelivered: u64,
    /// Callbacks for transactions of this FSP that had already ended.
    pub late: u64,
    /// Callbacks for unknown objects, and unreadable ones.
    pub unknown: u64,
    /// Fulfilments as payer that do not meet the condition.
    pub wrong_fulfilments: u64,
    /// Callbacks of this FSP that the hub refused or did not answer.
    pub refused: u64,
    /// As payer: transfers that the hub refused at once (HTTP 4xx).
    pub rejected: u64,
    /// HTTP requests received.
    pub requests: u64,
}

/// Responses and requests that a correct hub does not send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contradictions {
    /// Their number.
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

/// The end of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Committed,
    Aborted,
}

/// This FSP's record of a transfer.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    pub(crate) role: Role,
    pub(crate) verdict: Option<Verdict>,
    /// As payee: the time of the fulfilment, in milliseconds since the epoch; 0 before.
    pub(crate) completed_millis: u64,
    /// As payer: the first bytes of the condition.
    promised: u64,
    seen: u8,
    counterparty: u16,
    amount: Amount,
}

const SEEN_COMMIT: u8 = 1;
const SEEN_ABORT: u8 = 2;

impl Observations {
    /// Transfers with each counterparty so far.
    #[must_use]
    pub fn exchanges(&self) -> &[(FspName, Exchange)] {
        &self.counterparties
    }

    /// Change of the position by all transfers known to be committed: sent minus received.
    #[must_use]
    pub fn position(&self) -> Amount {
        let units = self.counterparties.iter().map(|(_, exchange)| {
            exchange.sent.committed.amount.units() - exchange.received.committed.amount.units()
        });
        Amount::from_units(units.sum())
    }

    /// Responses and requests that do not match their request.
    #[must_use]
    pub fn wrong(&self) -> &Contradictions {
        &self.wrong
    }

    /// Records a response or a request that does not match.
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

    /// Records a new transfer; `false` if it is known already.
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

    /// Records a new transfer of which this FSP is the payer, with its condition.
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

    /// Records a fulfilment that does not meet the condition, if this FSP is the payer and knows
    /// the transfer. `met` is the condition that the fulfilment meets.
    pub(crate) fn fulfilled(&mut self, id: TransferId, met: Option<&[u8; 32]>) {
        let Some(record) = self.remembered.get(id) else { return };
        if record.role == Role::Payer && met.map(beginning) != Some(record.promised) {
            self.counts.wrong_fulfilments += 1;
        }
    }

    /// Records a notice of the hub about a transfer.
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

    /// Records the known or assumed end of a transfer. A later verdict replaces an earlier one.
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
    /// Beyond this number, the oldest record is dropped.
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
    /// The last shard has twice the size of the first, and sizes grow by a constant factor. A map
    /// doubles its capacity when it is full, so the shards grow at evenly distributed times.
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

    fn observations() -> Observations {
        let mut observations = Observations::default();
        assert!(observations.begin(id(1), Role::Payer, name("b"), Amount::from_units(70_000)));
        assert!(observations.begin(id(2), Role::Payee, name("b"), Amount::from_units(20_000)));
        observations
    }

    #[test]
    fn repeated_notice_counts_once() {
        let mut observations = observations();
        assert!(!observations.begin(id(1), Role::Payer, name("b"), Amount::from_units(70_000)));
        for _ in 0..3 {
            observations.notice(id(1), Verdict::Committed);
            observations.notice(id(2), Verdict::Committed);
        }
        assert_eq!(observations.position(), Amount::from_units(50_000));
        let counts = observations.counts;
        assert_eq!((counts.commits, counts.confirmations, counts.repeated), (1, 1, 4));
        assert_eq!(observations.exchanges()[0].1.sent.committed.count, 1);
    }

    #[test]
    fn abort_reverts_an_assumed_commit() {
        let mut observations = observations();
        observations.conclude(id(2), Verdict::Committed);
        assert_eq!(observations.position(), Amount::from_units(-20_000));
        observations.notice(id(2), Verdict::Aborted);
        assert_eq!(observations.position(), Amount::ZERO);
        assert_eq!((observations.counts.contradictions, observations.counts.payee_errors), (0, 1));
    }

    #[test]
    fn every_fulfilment_is_compared_with_the_condition() {
        let mut observations = Observations::default();
        observations.begin_paying(id(1), name("b"), Amount::from_units(1), &[7; 32]);
        observations.begin(id(2), Role::Payee, name("b"), Amount::from_units(1));
        observations.fulfilled(id(1), Some(&[7; 32]));
        observations.fulfilled(id(2), None);
        assert_eq!(observations.counts.wrong_fulfilments, 0);
        observations.fulfilled(id(1), Some(&[8; 32]));
        observations.fulfilled(id(1), None);
        assert_eq!(observations.counts.wrong_fulfilments, 2);
    }

    #[test]
    fn contradictions_and_unknown_transfers_only_count() {
        let mut observations = observations();
        observations.notice(id(1), Verdict::Committed);
        observations.notice(id(1), Verdict::Aborted);
        observations.notice(id(9), Verdict::Committed);
        assert_eq!(observations.position(), Amount::from_units(70_000));
        assert_eq!((observations.counts.contradictions, observations.counts.unknown), (1, 1));
    }

    #[test]
    fn maximum_of_open_transfers_is_remembered() {
        let scattered = |number: usize| {
            let mixed = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 16;
            let text = format!("00000000-0000-4000-8000-{mixed:012x}");
            TransferId::parse(&text).expect("an id")
        };
        let mut observations = Observations::default();
        for number in 0..OPEN_MAX {
            observations.begin(scattered(number), Role::Payer, name("b"), Amount::ZERO);
        }
        let forgotten = (0..OPEN_MAX)
            .filter(|number| observations.record(scattered(*number)).is_none())
            .count();
        assert_eq!(forgotten, 0);
    }

    #[test]
    fn oldest_transfers_are_dropped_at_the_limit() {
        let mut observations = observations();
        let mut number = 3;
        while observations.record(id(1)).is_some() {
            observations.begin(id(number), Role::Payer, name("b"), Amount::ZERO);
            number += 1;
            assert!(number < 4 * REMEMBERED_MAX as u32);
        }
        let kept: usize =
            observations.remembered.shards.iter().map(|shard| shard.records.len()).sum();
        assert!(kept <= REMEMBERED_MAX);
    }
}
