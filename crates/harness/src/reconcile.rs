//! Reconciliation at the end of a run. Each difference becomes a line of text.
//!
//! Positions are compared as changes since the run began, so that a data directory can be used
//! again. The switch's accounts and metrics are compared with the counts of the FSPs, and the
//! counts of each FSP with those of its counterparty.

use std::collections::BTreeMap;

use dfsp::connections::{ConnectionCounts, FirstErrors};
use dfsp::observations::Exchange;
use dfsp::{Style, Sum};
use ledger::{Amount, Currency};
use serde::Serialize;

use crate::admin::{Account, Admin, Metrics};
use crate::error::HarnessError;
use crate::onboarding::account;
use crate::scenario::Scenario;
use crate::simulators::{FspResult, SimulatorResult};

/// Transfers that are not final.
pub const IN_FLIGHT: &str = "upesi_transfers_in_flight";
/// Notices that are not delivered.
pub const NOTICES_OWED: &str = "upesi_notices_owed";
/// Notices given up.
pub const DEAD_LETTERS: &str = "upesi_dead_letters";
const RESERVED: &str = "upesi_transfers_reserved_total";
const REFUSED: &str = "upesi_transfers_refused_total";
const COMMITTED: &str = "upesi_transfers_committed_total";
const ABORTED: &str = "upesi_transfers_aborted_total";
const EXPIRED: &str = "upesi_transfers_expired_total";
const EXPIRED_ERROR: &str = "transfer: error callback 3303";
const HUB: &str = "Hub";
const LINES_MAX: usize = 50;
const CONFIRMATIONS: &str = "confirmations as payee";
const CONFIRMS: &str = ": this hub confirms to payees; use --confirm-to-payee, or set \
                        transfers.confirm_to_payee = false there";

/// The switch's books and counters at one moment.
pub struct Balances {
    pub accounts: BTreeMap<String, Vec<Account>>,
    pub metrics: Metrics,
}

/// One thing that must be true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The statement that must hold.
    pub name: &'static str,
    /// Whether it is; `null` when it could not be looked at.
    pub passed: Option<bool>,
    /// The differences, with both numbers; or why the check could not be made.
    pub problems: Vec<String>,
}

/// All that is known at the end.
pub struct RunTotals<'a> {
    /// The books before the first transfer; `None` when the hub's admin API is not known.
    pub before: Option<&'a Balances>,
    /// The books after the last notice.
    pub after: Option<&'a Balances>,
    pub fsps: &'a [FspResult],
    /// The one that the FSPs deal in.
    pub currency: Currency,
    /// Units that ended well.
    pub good: u64,
    pub failed: u64,
    /// The kind of units.
    pub scenario: Scenario,
    /// Whether a hub without the metrics of this family is at fault.
    pub metrics_needed: bool,
    pub style: Style,
    pub confirm_to_payee: bool,
}

impl Balances {
    /// Reads the accounts of the hub and of every participant, then the metrics.
    pub fn read(admin: &mut Admin) -> Result<Self, HarnessError> {
        let mut accounts = BTreeMap::from([(HUB.to_owned(), admin.accounts(HUB)?)]);
        for name in admin.participants()? {
            let of_participant = admin.accounts(&name)?;
            accounts.insert(name, of_participant);
        }
        Ok(Self { accounts, metrics: admin.metrics()? })
    }
}

impl Check {
    pub fn of(name: &'static str, problems: Vec<String>) -> Self {
        Self { name, passed: Some(problems.is_empty()), problems }
    }

    /// A check that could not be made.
    pub fn skipped(name: &'static str, why: &str) -> Self {
        Self { name, passed: None, problems: vec![why.to_owned()] }
    }

    /// A check that failed.
    pub fn failed(name: &'static str, problem: String) -> Self {
        Self { name, passed: Some(false), problems: vec![problem] }
    }
}

/// The check that fails when a run is void and the hub did not take all that was sent.
pub const TAKEN: &str = "the hub accepted all messages";

/// The check that fails when a hub mixes something up.
pub const ASKED_FOR: &str = "no answer was another than asked for";
/// The checks that fail when callbacks are lost or doubled.
pub const ARRIVED: &str = "each notice owed arrived, none contradicts";
pub const REACHED: &str = "what payers asked for reached payees";

/// Reasons why the hub did not take messages, if any.
pub fn not_taken(fsps: &[FspResult]) -> Option<Check> {
    let sum = |of: fn(&ConnectionCounts) -> u64| fsps.iter().map(|fsp| of(&fsp.links)).sum::<u64>();
    let first = |of: fn(&FirstErrors) -> &String| {
        fsps.iter().map(|fsp| of(&fsp.troubles)).find(|text| !text.is_empty())
    };
    let mut lines = Vec::new();
    if let Some(why) = first(|it| &it.unreachable) {
        let count = sum(|it| it.unreachable);
        lines.push(format!("{count} connections to the hub could not be opened, such as to {why}"));
    }
    if let Some(said) = first(|it| &it.unavailable) {
        let count = sum(|it| it.unavailable);
        lines.push(format!("{count} answers of the hub were errors, such as {said}"));
    }
    if let Some(why) = first(|it| &it.broken) {
        let count = sum(|it| it.broken);
        lines.push(format!(
            "{count} connections to the hub broke when it was asked, such as: {why}"
        ));
    }
    match (sum(|it| it.silent), sum(|it| it.answered)) {
        (0, _) => {}
        (silent, 0) => lines.push(format!("no answer at the hub's address, {silent} times")),
        (silent, _) => lines.push(format!("{silent} messages had no answer of the hub in time")),
    }
    (!lines.is_empty()).then(|| Check::of(TAKEN, lines))
}

/// At rest every node shows the same accounts as `here`.
pub fn same_everywhere(here: &Balances, nodes: &[(String, Balances)]) -> Check {
    let differs = nodes.iter().filter(|(_, books)| books.accounts != here.accounts);
    let lines = differs.map(|(name, _)| format!("node {name} shows other accounts than node a"));
    Check::of("all nodes show the same accounts", lines.collect())
}

/// Everything that is not as it must be, one line each.
pub fn differences(checks: &[Check]) -> Vec<String> {
    let failed = checks.iter().filter(|check| check.passed == Some(false));
    let mut lines: Vec<String> = failed.flat_map(|check| check.problems.clone()).collect();
    let more = lines.len().saturating_sub(LINES_MAX);
    lines.truncate(LINES_MAX);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

impl RunTotals<'_> {
    /// Everything that must be true, and whether it is.
    pub fn checks(&self) -> Vec<Check> {
        let mut checks = Vec::new();
        match (self.before, self.after) {
            (Some(before), Some(after)) => {
                checks.push(Check::of("all accounts sum to zero", sums(after)));
                let moved = self.positions(before, after);
                checks.push(Check::of("positions moved as the FSPs counted", moved));
                self.counters(before, after, &mut checks);
            }
            _ => checks.push(Check::skipped("positions and counters", "no admin API was given")),
        }
        let each = |of: fn(&Self, &FspResult, &mut Vec<String>)| {
            let mut lines = Vec::new();
            self.fsps.iter().for_each(|fsp| of(self, fsp, &mut lines));
            lines
        };
        checks.push(Check::of("each transfer ended alike on both sides", each(Self::transfers)));
        checks.push(Check::of(ARRIVED, each(Self::notices)));
        checks.push(self.drivers());
        checks.push(Check::of(ASKED_FOR, self.wrong()));
        let mut unheard = self.prepares();
        unheard.extend(self.questions());
        checks.push(Check::of(REACHED, unheard));
        checks
    }

    /// Checks the hub's counters: nothing is left open, and they agree with the FSPs.
    fn counters(&self, before: &Balances, after: &Balances, checks: &mut Vec<Check>) {
        let (quiet, balance, same) = (
            "nothing is in flight, owed or given up",
            "transfers in = committed + aborted + expired",
            "the hub's counters say what the FSPs counted",
        );
        if !self.metrics_needed && after.metrics.get(IN_FLIGHT).is_none() {
            for name in [quiet, balance, same] {
                checks.push(Check::skipped(name, "this hub does not have the metrics for it"));
            }
            return;
        }
        checks.push(Check::of(quiet, leftovers(before, after)));
        let risen = |name: &str| Some(after.metrics.get(name)? - before.metrics.get(name)?);
        let (Some(reserved), Some(committed), Some(aborted), Some(expired)) =
            (risen(RESERVED), risen(COMMITTED), risen(ABORTED), risen(EXPIRED))
        else {
            let why = "the counters of transfers are missing in the hub's /metrics";
            checks.push(match self.metrics_needed {
                true => Check::failed(balance, why.to_owned()),
                false => Check::skipped(balance, why),
            });
            return;
        };
        let ended = committed + aborted + expired;
        let wrong = (reserved != ended).then(|| {
            format!(
                "{reserved} transfers came in, {ended} ended ({committed} committed, {aborted} \
                 aborted, {expired} expired)"
            )
        });
        checks.push(Check::of(balance, wrong.into_iter().collect()));
        let heard: u64 = self.fsps.iter().map(|fsp| fsp.counts.commits).sum();
        let received: u64 = self.fsps.iter().map(|fsp| fsp.counts.prepares).sum();
        let pairs = [
            ("committed by the hub", committed, "commits received by payers", heard),
            ("reserved by the hub", reserved, "prepares received by payees", received),
        ];
        let wrong = pairs.iter().filter(|pair| pair.1 != pair.3 as f64);
        let lines =
            wrong.map(|(hub, there, here, counted)| format!("{hub}: {there}, {here}: {counted}"));
        checks.push(Check::of(same, lines.collect()));
    }

    /// Drivers and FSPs counted the same commits, where their counts can be compared.
    fn drivers(&self) -> Check {
        let name = "drivers and FSPs counted the same";
        if !self.scenario.moves_money() {
            return Check::skipped(name, "units of this kind are no commits");
        }
        if self.failed > 0 {
            return Check::skipped(name, "units that failed may have been committed all the same");
        }
        let sent = self.total(|exchange| exchange.sent.committed).count;
        let wrong = (sent != self.good)
            .then(|| format!("the drivers saw {} commits, the FSPs {sent}", self.good));
        Check::of(name, wrong.into_iter().collect())
    }

    /// Answers that were not what an FSP had asked for; the first is quoted.
    fn wrong(&self) -> Vec<String> {
        let all: u64 = self.fsps.iter().map(|fsp| fsp.wrong.count).sum();
        let first = self.fsps.iter().find(|fsp| fsp.wrong.count > 0);
        let told = first.map(|fsp| format!("{all} wrong, such as: {}", fsp.wrong.first));
        told.into_iter().collect()
    }

    /// Checks that payees gave the answers that payers received.
    fn questions(&self) -> Vec<String> {
        let sum = |of: fn(&FspResult) -> u64| self.fsps.iter().map(of).sum::<u64>();
        let asked = [
            (self.scenario.looks_up(), "look-ups", sum(|fsp| fsp.counts.lookups)),
            (self.scenario.quotes(), "quotes", sum(|fsp| fsp.counts.quotes)),
        ];
        let missing =
            asked.into_iter().filter(|(is_asked, _, heard)| *is_asked && *heard < self.good);
        let good = self.good;
        missing
            .map(|(_, what, heard)| {
                format!("payers had {good} {what} answered, payees were asked for {heard}")
            })
            .collect()
    }

    /// Checks that payees received every prepare that the hub accepted.
    fn prepares(&self) -> Vec<String> {
        let sum = |of: fn(&FspResult) -> u64| self.fsps.iter().map(of).sum::<u64>();
        let begun = self.total(|exchange| exchange.sent.begun).count;
        let rejected = sum(|fsp| fsp.counts.rejected);
        let refused = match (self.before, self.after) {
            (Some(before), Some(after)) => {
                let risen = |name| Some(after.metrics.get(name)? - before.metrics.get(name)?);
                risen(REFUSED).unwrap_or(0.0) as u64
            }
            _ => 0,
        };
        let (expected, received) =
            (begun.saturating_sub(rejected + refused), sum(|fsp| fsp.counts.prepares));
        if expected == received {
            return Vec::new();
        }
        vec![format!("payers sent {expected} prepares to the hub, payees received {received}")]
    }

    /// Each position moved by what its FSP counted, and nothing is reserved.
    fn positions(&self, before: &Balances, after: &Balances) -> Vec<String> {
        let mut lines = Vec::new();
        for fsp in self.fsps {
            let position = |books: &Balances| {
                account(books.accounts.get(&fsp.name)?, "POSITION", self.currency).cloned()
            };
            let (Some(before), Some(after)) = (position(before), position(after)) else {
                let currency = self.currency;
                lines.push(format!("{} has no POSITION account in {currency}", fsp.name));
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
        lines
    }

    /// Checks that every transfer is final and that both sides agree on it.
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
                    "{name} paid {other} {} in {} transfers, {other} received {} in {}",
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
        // A payee that resends its answer is notified of the outcome, confirmed or not.
        let told_again = counts.confirmations.min(fsp.links.resent);
        let confirmations =
            if confirmed { sum(|it| it.received.committed.count) } else { told_again };
        for (what, seen, expected) in [
            ("commits received as payer", counts.commits, sum(|it| it.sent.committed.count)),
            ("transfers received", counts.prepares, sum(|it| it.received.begun.count)),
            (CONFIRMATIONS, counts.confirmations, confirmations),
            ("contradictory notices", counts.contradictions, 0),
            ("unknown callbacks", counts.unknown, 0),
            ("wrong fulfilments", counts.wrong_fulfilments, 0),
            ("callbacks refused by the hub", counts.refused, 0),
        ] {
            if seen != expected {
                let unasked = what == CONFIRMATIONS && !confirmed && expected < seen;
                let hint = if unasked { CONFIRMS } else { "" };
                lines.push(format!("{name}: {what}: {seen} instead of {expected}{hint}"));
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

/// Checks that `count` held transfers expired by the hub's counter, and that the payer and the
/// payee of each received one error.
pub fn check_expiries(
    count: u64,
    [before, after]: [Option<&Balances>; 2],
    held: &SimulatorResult,
) -> Check {
    let read = |books: Option<&Balances>| books?.metrics.get(EXPIRED);
    let expired =
        read(after).zip(read(before)).map_or(0, |(after, before)| (after - before) as u64);
    let sum = |of: fn(&dfsp::Counts) -> u64| held.fsps.iter().map(|fsp| of(&fsp.counts)).sum();
    let found: [(_, u64); 4] = [
        ("expired by the hub", expired),
        ("errors at payers", sum(|it| it.payer_errors)),
        ("of these with code 3303", held.failures.get(EXPIRED_ERROR).map_or(0, |told| told.0)),
        ("errors at payees", sum(|it| it.payee_errors)),
    ];
    let wrong = found.iter().filter(|(_, found)| *found != count);
    let problems = wrong.map(|(what, found)| format!("{what}: {found} instead of {count}"));
    Check::of("each transfer held expired and both sides were told", problems.collect())
}

/// Per currency all accounts sum to zero.
fn sums(after: &Balances) -> Vec<String> {
    let mut sums: BTreeMap<&str, i128> = BTreeMap::new();
    for account in after.accounts.values().flatten() {
        // A reservation is in no other account: it moves when the transfer ends.
        *sums.entry(&account.currency).or_default() += account.value.units();
    }
    let wrong = sums.into_iter().filter(|&(_, sum)| sum != 0);
    wrong
        .map(|(currency, sum)| {
            let sum = Amount::from_units(sum);
            format!("all accounts in {currency} sum to {sum} instead of 0")
        })
        .collect()
}

/// Transfers in flight, and notices owed or given up.
fn leftovers(before: &Balances, after: &Balances) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, wanted) in [
        (IN_FLIGHT, Some(0.0)),
        (NOTICES_OWED, Some(0.0)),
        (DEAD_LETTERS, before.metrics.get(DEAD_LETTERS)),
    ] {
        let found = after.metrics.get(name);
        if found.is_none() || found != wanted {
            let text = |value: Option<f64>| value.map_or("missing".to_owned(), |it| it.to_string());
            lines.push(format!("{name} is {} instead of {}", text(found), text(wanted)));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfsp::Counts;
    use dfsp::observations::Flow;
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

    fn books(positions: [i128; 2], metrics: &str) -> Balances {
        let funds = |position| vec![account("POSITION", position), account("SETTLEMENT", -50)];
        let hub = vec![account("HUB_RECONCILIATION", 100)];
        Balances {
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
                wrong: dfsp::Contradictions::default(),
                links: ConnectionCounts::default(),
                troubles: FirstErrors::default(),
                bodies: dfsp::Bodies::default(),
                exchanges: vec![(FspName::new(other).expect("a name"), exchange)],
            }
        };
        [
            fsp("a", "b", |it, sum| (it.sent.begun, it.sent.committed) = (sum, sum)),
            fsp("b", "a", |it, sum| (it.received.begun, it.received.committed) = (sum, sum)),
        ]
    }

    fn usd() -> Currency {
        Currency::parse("USD").expect("a currency")
    }

    /// Of three transfers that were confirmed to payees.
    fn evidence<'a>(books: Option<[&'a Balances; 2]>, fsps: &'a [FspResult]) -> RunTotals<'a> {
        RunTotals {
            before: books.map(|[before, _]| before),
            after: books.map(|[_, after]| after),
            fsps,
            currency: usd(),
            good: 3,
            failed: 0,
            scenario: Scenario::Transfer,
            metrics_needed: true,
            style: Style::Committed,
            confirm_to_payee: true,
        }
    }

    const QUIET: &str = "upesi_transfers_in_flight 0\nupesi_notices_owed 0\nupesi_dead_letters 0\n";
    const NONE_YET: &str = "upesi_transfers_in_flight 0\nupesi_notices_owed 0\n\
        upesi_dead_letters 0\nupesi_transfers_reserved_total 0\n\
        upesi_transfers_committed_total 0\nupesi_transfers_aborted_total 0\n\
        upesi_transfers_expired_total 0\n";
    const THREE: &str = "upesi_transfers_in_flight 0\nupesi_notices_owed 0\n\
        upesi_dead_letters 0\nupesi_transfers_reserved_total 3\n\
        upesi_transfers_committed_total 3\nupesi_transfers_aborted_total 0\n\
        upesi_transfers_expired_total 0\n";

    fn check(change: fn(&mut Balances, &mut [FspResult; 2]), expected: &[&str]) {
        let before = books([7, -7], NONE_YET);
        let (mut after, mut fsps) = (books([37, -37], THREE), fsps());
        change(&mut after, &mut fsps);
        let evidence = evidence(Some([&before, &after]), &fsps);
        assert_eq!(differences(&evidence.checks()), expected);
    }

    #[test]
    fn a_good_run_leaves_no_line() {
        check(|_, _| {}, &[]);
    }

    #[test]
    fn what_is_reserved_is_in_no_other_account() {
        let mut after = books([37, -37], QUIET);
        after.accounts.get_mut("a").expect("it is there")[0].reserved = Amount::from_units(5);
        assert_eq!(sums(&after), Vec::<String>::new());
    }

    #[test]
    fn a_hub_that_confirms_to_payees_is_told_from_one_at_fault() {
        let (before, after) = (books([7, -7], NONE_YET), books([37, -37], THREE));
        let fsps = fsps();
        let evidence = evidence(Some([&before, &after]), &fsps);
        let evidence = RunTotals { confirm_to_payee: false, ..evidence };
        let found = differences(&evidence.checks());
        assert!(found.iter().any(|line| line.contains("use --confirm-to-payee")), "{found:?}");
    }

    #[test]
    fn a_hub_of_ours_without_counters_is_at_fault() {
        check(
            |books, _| {
                let kept = THREE.replace("upesi_transfers_committed_total", "committed");
                books.metrics = Metrics::read(&kept);
            },
            &["the counters of transfers are missing in the hub's /metrics"],
        );
    }

    #[test]
    fn a_hub_that_posts_nothing_is_found_out_by_pairs_that_pay_each_other() {
        let of = |route, count| Sum {
            count,
            amount: Amount::from_units(
                (0..count).map(|turn| crate::load::amount(route, turn).units()).sum(),
            ),
        };
        let flow = |sum| Flow { begun: sum, committed: sum, aborted: Sum::default() };
        // Even numbers: as much was paid one way as the other.
        for turns in [1, 2, 61, 500] {
            let (there, back) = (flow(of((0, 1), turns)), flow(of((1, 0), turns)));
            let mut fsps = fsps();
            fsps[0].exchanges[0].1 = Exchange { sent: there, received: back };
            fsps[1].exchanges[0].1 = Exchange { sent: back, received: there };
            let net = there.committed.amount.units() - back.committed.amount.units();
            fsps[0].position = Amount::from_units(net);
            fsps[1].position = Amount::from_units(-net);
            let (before, after) = (books([7, -7], NONE_YET), books([7, -7], THREE));
            let evidence = evidence(Some([&before, &after]), &fsps);
            let moved = evidence.positions(&before, &after);
            assert_eq!(moved.len(), 2, "after {turns} turns: {moved:?}");
        }
    }

    #[test]
    fn a_position_is_that_of_the_currency_of_the_run() {
        check(
            |books, _| {
                let accounts = books.accounts.values_mut().filter(|it| it[0].kind == "POSITION");
                for accounts in accounts {
                    let other = account("POSITION", 0);
                    accounts.insert(0, Account { currency: "EUR".to_owned(), ..other });
                }
            },
            &[],
        );
    }

    #[test]
    fn what_kept_messages_from_the_hub_is_told_with_its_words() {
        let mut fsps = fsps();
        assert_eq!(not_taken(&fsps), None);
        fsps[1].links = ConnectionCounts { unreachable: 4, ..ConnectionCounts::default() };
        fsps[1].troubles.unreachable = "127.0.0.1:9: Connection refused".to_owned();
        let told = not_taken(&fsps).expect("it is told").problems;
        let expected = "4 connections to the hub could not be opened, such as to 127.0.0.1:9: \
                        Connection refused";
        assert_eq!(told, [expected]);
        fsps[0].links =
            ConnectionCounts { unavailable: 2, silent: 1, ..ConnectionCounts::default() };
        fsps[0].troubles.unavailable = "503 the disk is full".to_owned();
        let told = not_taken(&fsps).expect("it is told").problems;
        assert_eq!(told.len(), 3);
        fsps[0].links.broken = 7;
        fsps[0].troubles.broken = "it was closed without an answer".to_owned();
        let broken = not_taken(&fsps).expect("it is told").problems.remove(2);
        assert!(broken.starts_with("7 connections to the hub broke"), "{broken}");
        assert!(broken.ends_with("such as: it was closed without an answer"), "{broken}");
        assert!(told[1].contains("503 the disk is full") && told[2].contains("no answer at"));
    }

    #[test]
    fn a_hub_that_answers_for_payees_is_found_out() {
        let mut fsps = fsps();
        fsps[1].counts.lookups = 3;
        let asked = |scenario, fsps: &[FspResult]| {
            RunTotals { scenario, ..evidence(None, fsps) }.questions()
        };
        assert_eq!(asked(Scenario::Lookup, &fsps), [""; 0]);
        let said = "payers had 3 quotes answered, payees were asked for 0";
        assert_eq!(asked(Scenario::Quote, &fsps), [said]);
        fsps[1].counts.lookups = 2;
        assert_eq!(asked(Scenario::Whole, &fsps).len(), 2);
        assert_eq!(asked(Scenario::Transfer, &fsps), [""; 0]);
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
                "the counters of transfers are missing in the hub's /metrics",
            ],
        );
        check(
            |_, fsps| fsps[0].exchanges[0].1.sent.begun.count += 1,
            &[
                "1 transfers of a to b have no end",
                "payers sent 4 prepares to the hub, payees received 3",
            ],
        );
        check(
            |_, fsps| {
                fsps[1].wrong =
                    dfsp::Contradictions { count: 2, first: "POST told 200".to_owned() };
            },
            &["2 wrong, such as: POST told 200"],
        );
        check(
            |_, fsps| fsps[1].counts.confirmations = 2,
            &["b: confirmations as payee: 2 instead of 3"],
        );
        check(
            |_, fsps| fsps[1].exchanges[0].1.received.committed.amount = Amount::ZERO,
            &["a paid b 0.003 in 3 transfers, b received 0 in 3"],
        );
    }
}
