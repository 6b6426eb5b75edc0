//! Erased contents of a log, compared with the orders that erased them.

use ledger::{Change, Command, Erase, FspName, LogIndex, State};
use serde::Serialize;

use crate::cli::stdout::moment;
use crate::inspect::verify::erased_ranges::{CompactRanges, RecordsOfKind};

/// Erased contents, and all orders of erasures.
#[derive(Default)]
pub(crate) struct ErasedContents {
    /// Records without their contents, as ranges of records with kinds of one class.
    erased: CompactRanges,
    /// All recorded orders, refused ones included.
    orders: Vec<Order>,
}

/// A recorded order.
struct Order {
    record: LogIndex,
    actor: String,
    reason: String,
    erase: Erase,
}

/// An erasure, and the contents that it erased.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ErasureProof {
    /// The record that ordered it.
    pub(crate) log_index: u64,
    pub(crate) ordered: String,
    pub(crate) by: String,
    pub(crate) reason: String,
    /// How its records were selected, and by which payment or time.
    pub(crate) form: &'static str,
    pub(crate) subject: String,
    /// Contents that are erased. One that several orders name counts once.
    pub(crate) contents_erased: u64,
}

impl ErasedContents {
    /// Notes a record whose contents are erased.
    pub(crate) fn note(&mut self, record: LogIndex, kind: u16) {
        let class = |of: u16| (Erase::is_erasable(of), Erase::is_registration(of));
        let is_same = |of: u16| class(of) == class(kind);
        match self.erased.last_mut() {
            Some(range) if range.last.0 + 1 == record.0 && is_same(range.kind) => {
                range.last = record;
            }
            _ => self.erased.push(RecordsOfKind { first: record, last: record, kind }),
        }
    }

    /// Notes a command, if it orders an erasure.
    pub(crate) fn read(&mut self, record: LogIndex, command: &Command) {
        let Command::Administer(administer) = command else { return };
        let Change::Erase(erase) = administer.change.decided() else { return };
        let (actor, reason) = (administer.actor.clone(), administer.reason.clone());
        self.orders.push(Order { record, actor, reason, erase: erase.clone() });
    }

    /// The accepted orders with the contents that they erased, or the first record whose contents
    /// are missing without an order. `is_from` reads a record, and decides whether its contents
    /// are a participant's; it is called for orders of a participant's contents only.
    pub(crate) fn check(
        &self,
        state: &State,
        is_from: &dyn Fn(LogIndex, &FspName) -> bool,
    ) -> Result<Vec<ErasureProof>, LogIndex> {
        let mut proofs = Vec::new();
        let mut accepted = Vec::new();
        for row in state.erasures().iter() {
            let Some(order) = self.orders.iter().find(|order| order.record == row.record) else {
                continue;
            };
            accepted.push(order);
            proofs.push(ErasureProof {
                log_index: row.record.0,
                ordered: moment(row.at),
                by: order.actor.clone(),
                reason: order.reason.clone(),
                form: order.erase.form.name(),
                subject: order.erase.subject.clone(),
                contents_erased: 0,
            });
        }
        // Neighbours were usually erased by one order.
        let mut last_by = 0;
        for RecordsOfKind { first, last, kind } in self.erased.iter() {
            for record in (first.0..=last.0).map(LogIndex) {
                let is_from = |name: &FspName| is_from(record, name);
                let erases = |order: &&Order| order.erase.erases(record, kind, is_from);
                if !accepted.get(last_by).is_some_and(erases) {
                    last_by = accepted.iter().position(erases).ok_or(record)?;
                }
                proofs[last_by].contents_erased += 1;
            }
        }
        Ok(proofs)
    }
}
