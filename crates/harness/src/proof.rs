//! What must be true when everything has ended; whatever is not becomes a line of text.
//!
//! Positions are compared as changes since the run began, so that a data directory can be used
//! again. The switch's word (accounts, metrics) is held against what the FSPs counted, and what
//! each FSP counted against its counterparty.

use std::collections::BTreeMap;

use dfsp::tally::Exchange;
use dfsp::{Style, Sum};
use ledger::Amount;

use crate::admin::{Account, Admin, Metrics};
use crate::error::HarnessError;
use crate::fleet::FspResult;

/// Transfers that are not final.
pub(crate) const IN_FLIGHT: &str = "upesi_transfers_in_flight";
/// Notices that are not delivered.
pub(crate) const NOTICES_OWED: &str = "upesi_notices_owed";
/// Notices given up.
pub(crate) const DEAD_LETTERS: &str = "upesi_dead_letters";
const HUB: &str = "Hub";
const LINES_MAX: usize = 50;

/// The switch's books and counters at one moment.
pub(crate) struct Books {
    pub(crate) accounts: BTreeMap<String, Vec<Account>>,
    pub(crate) metrics: Metrics,
}

/// All that is known at the end.
pub(crate) struct Evidence<'a> {
    pub(crate) before: &'a Books,
    pub(crate) after: &'a Books,
    pub(crate) fsps: &'a [FspResult],
    pub(crate) committed: u64,
    pub(crate) failed: u64,
    pub(crate) style: Style,
    pub(crate) confirm_to_payee: bool,
}

impl Books {
    /// Reads the accounts of the hub and of every participant, then the metrics.
    pub(crate) fn read(admin: &mut Admin) -> Result<Self, HarnessError> {
        let mut accounts = BTreeMap::from([(HUB.to_owned(), admin.accounts(HUB)?)]);
        for name in admin.participants()? {
            let of_participant = admin.accounts(&name)?;
            accounts.insert(name, of_participant);
        }
        Ok(Self { accounts, metrics: admin.metrics()? })
    }
}

impl Evidence<'_> {
    /// Everything that is not as it must be.
    pub(crate) fn differences(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.sums(&mut lines);
        self.positions(&mut lines);
        self.counters(&mut lines);
        for fsp in self.fsps {
            self.transfers(fsp, &mut lines);
            self.notices(fsp, &mut lines);
        }
        let sent = self.total(|exchange| exchange.sent.committed);
        if self.failed == 0 && sent.count != self.committed {
            lines.push(format!(
                "the drivers saw {} commits, the FSPs {}",
                self.committed, sent.count
            ));
        }
        let more = lines.len().saturating_sub(LINES_MAX);
        lines.truncate(LINES_MAX);
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        lines
    }

    /// Per currency all accounts sum to zero.
    fn sums(&self, lines: &mut Vec<String>) {
        let mut sums: BTreeMap<&str, i128> = BTreeMap::new();
        for account in self.after.accounts.values().flatten() {
            *sums.entry(&account.currency).or_default() +=
                account.value.units() + account.reserved.units();
        }
        for (currency, sum) in sums.into_iter().filter(|&(_, sum)| sum != 0) {
            let sum = Amount::from_units(sum);
            lines.push(format!("all accounts in {currency} sum to {sum} instead of 0"));
        }
    }

    /// Each position moved by what its FSP counted, and nothing is reserved.
    fn positions(&self, lines: &mut Vec<String>) {
        for fsp in self.fsps {
            let position = |books: &Books| {
                let accounts = books.accounts.get(&fsp.name)?;
                accounts.iter().find(|account| account.kind == "POSITION").cloned()
            };
            let (Some(before), Some(after)) = (position(self.before), position(self.after)) else {
                lines.push(format!("{} has no POSITION account", fsp.name));
                continue;
            };
            let expected = Amount::from_units(before.value.units() + fsp.position.units());
            if after.value != expected {
                lines.push(format!(
                    "POSITION of {} is {}, its FSP counted {expected}",
                    fsp.name, after.value
                ));
            }
            if after.reserved != Amount::ZERO {
                lines.push(format!("{} of {} is still reserved", after.reserved, fsp.name));
            }
        }
    }

    /// Nothing is in flight, owed or given up.
    fn counters(&self, lines: &mut Vec<String>) {
        for (name, before) in [
            (IN_FLIGHT, Some(0.0)),
            (NOTICES_OWED, Some(0.0)),
            (DEAD_LETTERS, self.before.metrics.get(DEAD_LETTERS)),
        ] {
            let after = self.after.metrics.get(name);
            if after.is_none() || after != before {
                let text =
                    |value: Option<f64>| value.map_or("missing".to_owned(), |it| it.to_string());
                lines.push(format!("{name} is {} instead of {}", text(after), text(before)));
            }
        }
    }

    /// Every transfer is final, and both sides say the same of it.
    fn transfers(&self, fsp: &FspResult, lines: &mut Vec<String>) {
        let name = &fsp.name;
        for (other, exchange) in &fsp.exchanges {
            for (flow, way) in [(&exchange.sent, "to"), (&exchange.received, "from")] {
                let ended = flow.committed.count + flow.aborted.count;
                if flow.begun.count != ended {
                    let open = flow.begun.count - ended;
                    lines.push(format!("{open} transfers of {name} {way} {other} have no end"));
                }
            }
            let received = self.exchange(other.as_str(), name).received;
            let sent = exchange.sent;
            if sent.committed != received.committed {
                lines.push(format!(
                    "{name} says it paid {other} {} in {} transfers, {other} says {} in {}",
                    sent.committed.amount,
                    sent.committed.count,
                    received.committed.amount,
                    received.committed.count
                ));
            }
        }
    }

    /// Every notice owed arrived, none contradicts another, none is a stranger's.
    fn notices(&self, fsp: &FspResult, lines: &mut Vec<String>) {
        let (name, counts) = (&fsp.name, &fsp.counts);
        let sum =
            |of: fn(&Exchange) -> u64| fsp.exchanges.iter().map(|(_, it)| of(it)).sum::<u64>();
        let confirmed = self.style == Style::Reserved || self.confirm_to_payee;
        let confirmations = if confirmed { sum(|it| it.received.committed.count) } else { 0 };
        for (what, seen, expected) in [
            ("commits heard as payer", counts.commits, sum(|it| it.sent.committed.count)),
            ("transfers received", counts.prepares, sum(|it| it.received.begun.count)),
            ("confirmations as payee", counts.confirmations, confirmations),
            ("contradictory notices", counts.contradictions, 0),
            ("unknown callbacks", counts.unknown, 0),
            ("wrong fulfilments", counts.wrong_fulfilments, 0),
            ("callbacks refused by the hub", counts.refused, 0),
        ] {
            if seen != expected {
                lines.push(format!("{name}: {what}: {seen} instead of {expected}"));
            }
        }
    }

    fn exchange(&self, name: &str, counterparty: &str) -> Exchange {
        let fsp = self.fsps.iter().find(|fsp| fsp.name == name);
        let exchanges = fsp.map_or(&[][..], |fsp| &fsp.exchanges);
        let found = exchanges.iter().find(|(other, _)| other.as_str() == counterparty);
        found.map_or_else(Exchange::default, |(_, exchange)| *exchange)
    }

    fn total(&self, of: fn(&Exchange) -> Sum) -> Sum {
        let mut total = Sum::default();
        for (_, exchange) in self.fsps.iter().flat_map(|fsp| &fsp.exchanges) {
            let sum = of(exchange);
            total.count += sum.count;
            total.amount = Amount::from_units(total.amount.units() + sum.amount.units());
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfsp::Counts;
    use dfsp::links::LinkCounts;
    use ledger::FspName;

    fn account(kind: &str, units: i128) -> Account {
        Account {
            id: 1,
            kind: kind.to_owned(),
            currency: "USD".to_owned(),
            value: Amount::from_units(units),
            reserved: Amount::ZERO,
        }
    }

    fn books(positions: [i128; 2], metrics: &str) -> Books {
        let funds = |position| vec![account("POSITION", position), account("SETTLEMENT", -50)];
        let hub = vec![account("HUB_RECONCILIATION", 100)];
        Books {
            accounts: BTreeMap::from([
                ("a".to_owned(), funds(positions[0])),
                ("b".to_owned(), funds(positions[1])),
                ("Hub".to_owned(), hub),
            ]),
            metrics: Metrics::read(metrics),
        }
    }

    /// Two FSPs of which the first paid the second three times.
    fn fsps() -> [FspResult; 2] {
        let sum = Sum { count: 3, amount: Amount::from_units(30) };
        let fsp = |name: &str, other: &str, change: fn(&mut Exchange, Sum)| {
            let mut exchange = Exchange::default();
            change(&mut exchange, sum);
            FspResult {
                name: name.to_owned(),
                position: Amount::from_units(
                    exchange.sent.committed.amount.units()
                        - exchange.received.committed.amount.units(),
                ),
                counts: Counts {
                    commits: exchange.sent.committed.count,
                    prepares: exchange.received.begun.count,
                    confirmations: exchange.received.committed.count,
                    ..Counts::default()
                },
                links: LinkCounts::default(),
                exchanges: vec![(FspName::new(other).expect("a name"), exchange)],
            }
        };
        [
            fsp("a", "b", |it, sum| (it.sent.begun, it.sent.committed) = (sum, sum)),
            fsp("b", "a", |it, sum| (it.received.begun, it.received.committed) = (sum, sum)),
        ]
    }

    const QUIET: &str = "upesi_transfers_in_flight 0\nupesi_notices_owed 0\nupesi_dead_letters 0\n";

    fn check(change: fn(&mut Books, &mut [FspResult; 2]), expected: &[&str]) {
        let before = books([7, -7], QUIET);
        let (mut after, mut fsps) = (books([37, -37], QUIET), fsps());
        change(&mut after, &mut fsps);
        let evidence = Evidence {
            before: &before,
            after: &after,
            fsps: &fsps,
            committed: 3,
            failed: 0,
            style: Style::Committed,
            confirm_to_payee: true,
        };
        assert_eq!(evidence.differences(), expected);
    }

    #[test]
    fn a_good_run_leaves_no_line() {
        check(|_, _| {}, &[]);
    }

    #[test]
    fn each_fault_is_named() {
        check(
            |books, _| books.accounts.get_mut("a").expect("it is there")[0].value = Amount::ZERO,
            &[
                "all accounts in USD sum to -0.0037 instead of 0",
                "POSITION of a is 0, its FSP counted 0.0037",
            ],
        );
        check(
            |books, _| books.metrics = Metrics::read("upesi_notices_owed 2\nupesi_dead_letters 1"),
            &[
                "upesi_transfers_in_flight is missing instead of 0",
                "upesi_notices_owed is 2 instead of 0",
                "upesi_dead_letters is 1 instead of 0",
            ],
        );
        check(
            |_, fsps| fsps[0].exchanges[0].1.sent.begun.count += 1,
            &["1 transfers of a to b have no end"],
        );
        check(
            |_, fsps| fsps[1].counts.confirmations = 2,
            &["b: confirmations as payee: 2 instead of 3"],
        );
        check(
            |_, fsps| fsps[1].exchanges[0].1.received.committed.amount = Amount::ZERO,
            &["a says it paid b 0.003 in 3 transfers, b says 0 in 3"],
        );
    }
}
