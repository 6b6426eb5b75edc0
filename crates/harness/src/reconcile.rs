//! Reconciliation at the end of a run. Each difference is described in one line.
//!
//! Positions are compared as changes since the start of the run, so that a data directory can be
//! reused. The switch's accounts and metrics are compared with the counts of the FSPs, and the
//! counts of each FSP with those of its counterparties.

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
/// Notices that are neither delivered nor given up.
pub const NOTICES_OWED: &str = "upesi_notices_owed";
/// Notices that were given up.
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

/// The hub's accounts and counters at one point in time.
pub struct Balances {
    pub accounts: BTreeMap<String, Vec<Account>>,
    pub metrics: Metrics,
}

/// A condition that a valid run must meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The statement that must hold.
    pub name: &'static str,
    /// The result; `null` if the check could not be made.
    pub passed: Option<bool>,
    /// The differences with both numbers, or the reason why the check could not be made.
    pub problems: Vec<String>,
}

/// The totals at the end of a run.
pub struct RunTotals<'a> {
    /// The balances before the first transfer; `None` if the hub's admin API is not known.
    pub before: Option<&'a Balances>,
    /// The balances after the last notice.
    pub after: Option<&'a Balances>,
    pub fsps: &'a [FspResult],
    /// The currency of the FSPs.
    pub currency: Currency,
    /// Units that succeeded.
    pub good: u64,
    pub failed: u64,
    /// The kind of units.
    pub scenario: Scenario,
    /// Whether missing metrics are a fault of the hub.
    pub metrics_needed: bool,
    pub style: Style,
    pub confirm_to_payee: bool,
    /// Amounts by which an operator has moved accounts, by account number.
    pub moved: &'a BTreeMap<u64, Amount>,
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

/// The check that fails when a run is void and the hub did not accept all messages.
pub const ACCEPTED: &str = "the hub accepted all messages";

/// The check that fails when a hub confuses requests.
pub const MATCHING: &str = "every response matched its request";
/// The checks that fail when callbacks are lost or duplicated.
pub const ARRIVED: &str = "each notice owed arrived, none contradicts";
pub const REACHED: &str = "the requests of payers reached payees";

/// Describes why the hub did not accept messages, if so.
pub fn not_taken(fsps: &[FspResult]) -> Option<Check> {
    let sum =
        |of: fn(&ConnectionCounts) -> u64| fsps.iter().map(|fsp| of(&fsp.connections)).sum::<u64>();
    let first = |of: fn(&FirstErrors) -> &String| {
        fsps.iter().map(|fsp| of(&fsp.first_errors)).find(|text| !text.is_empty())
    };
    let mut lines = Vec::new();
    if let Some(why) = first(|it| &it.unreachable) {
        let count = sum(|it| it.unreachable);
        lines.push(format!("{count} connections to the hub could not be opened, such as to {why}"));
    }
    if let Some(text) = first(|it| &it.unavailable) {
        let count = sum(|it| it.unavailable);
        lines.push(format!("{count} responses of the hub were errors, such as {text}"));
    }
    if let Some(why) = first(|it| &it.broken) {
        let count = sum(|it| it.broken);
        lines
            .push(format!("{count} connections to the hub broke during a request, such as: {why}"));
    }
    match (sum(|it| it.silent), sum(|it| it.answered)) {
        (0, _) => {}
        (silent, 0) => lines.push(format!("no response at the hub's address, {silent} times")),
        (silent, _) => lines.push(format!("{silent} messages had no response of the hub in time")),
    }
    (!lines.is_empty()).then(|| Check::of(ACCEPTED, lines))
}

/// Checks that every node shows the same accounts as `here`.
pub fn same_everywhere(here: &Balances, nodes: &[(String, Balances)]) -> Check {
    let differs = nodes.iter().filter(|(_, balances)| balances.accounts != here.accounts);
    let lines = differs.map(|(name, _)| format!("node {name} shows other accounts than node a"));
    Check::of("all nodes show the same accounts", lines.collect())
}

/// All problems of the failed checks, one line each.
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
    /// Makes all checks.
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
        checks
            .push(Check::of("both sides agree on the end of each transfer", each(Self::transfers)));
        checks.push(Check::of(ARRIVED, each(Self::notices)));
        checks.push(self.drivers());
        checks.push(Check::of(MATCHING, self.wrong()));
        let mut missing = self.prepares();
        missing.extend(self.questions());
        checks.push(Check::of(REACHED, missing));
        checks
    }

    /// Checks the hub's counters: no open work remains, and they agree with the FSPs.
    fn counters(&self, before: &Balances, after: &Balances, checks: &mut Vec<Check>) {
        let (quiet, balance, same) = (
            "nothing is in flight, owed or given up",
            "transfers in = committed + aborted + expired",
            "the hub's counters agree with the FSPs",
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

    /// Checks that drivers and FSPs counted the same commits, if their counts are comparable.
    fn drivers(&self) -> Check {
        let name = "drivers and FSPs counted the same";
        if !self.scenario.moves_money() {
            return Check::skipped(name, "units of this kind are not commits");
        }
        if self.failed > 0 {
            return Check::skipped(name, "failed units may have been committed");
        }
        let sent = self.total(|exchange| exchange.sent.committed).count;
        let seen = self.good * self.scenario.transfers();
        let wrong =
            (sent != seen).then(|| format!("the drivers saw {seen} commits, the FSPs {sent}"));
        Check::of(name, wrong.into_iter().collect())
    }

    /// Describes wrong responses and requests, with the first one.
    fn wrong(&self) -> Vec<String> {
        let all: u64 = self.fsps.iter().map(|fsp| fsp.wrong.count).sum();
        let first = self.fsps.iter().find(|fsp| fsp.wrong.count > 0);
        let described = first.map(|fsp| format!("{all} wrong, such as: {}", fsp.wrong.first));
        described.into_iter().collect()
    }

    /// Checks that payees gave the responses that payers received.
    fn questions(&self) -> Vec<String> {
        let sum = |of: fn(&FspResult) -> u64| self.fsps.iter().map(of).sum::<u64>();
        let asked = [
            (self.scenario.looks_up(), "look-ups", sum(|fsp| fsp.counts.lookups)),
            (self.scenario.quotes(), "quotes", sum(|fsp| fsp.counts.quotes)),
        ];
        let missing =
            asked.into_iter().filter(|(is_asked, _, received)| *is_asked && *received < self.good);
        let good = self.good;
        missing
            .map(|(_, what, received)| {
                format!("payers received {good} {what}, payees were asked for {received}")
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

    /// Checks that each position changed as its FSP counted, and that no amount is reserved.
    fn positions(&self, before: &Balances, after: &Balances) -> Vec<String> {
        let mut lines = Vec::new();
        for fsp in self.fsps {
            let position = |balances: &Balances| {
                account(balances.accounts.get(&fsp.name)?, "POSITION", self.currency).cloned()
            };
            let (Some(before), Some(after)) = (position(before), position(after)) else {
                let currency = self.currency;
                lines.push(format!("{} has no POSITION account in {currency}", fsp.name));
                continue;
            };
            let moved = self.moved.get(&after.id).map_or(0, |amount| amount.units());
            let counted = before.value.units() + fsp.position.units();
            let expected = Amount::from_units(counted + moved);
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
                    lines.push(format!("{open} transfers of {name} {way} {other} are not final"));
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

    /// Checks that every owed notice arrived, that none contradicts another, and that none is of an
    /// unknown transfer.
    fn notices(&self, fsp: &FspResult, lines: &mut Vec<String>) {
        let (name, counts) = (&fsp.name, &fsp.counts);
        let sum =
            |of: fn(&Exchange) -> u64| fsp.exchanges.iter().map(|(_, it)| of(it)).sum::<u64>();
        // Both sides get the result of a bulk.
        let is_bulk = matches!(self.scenario, Scenario::Bulk(_));
        let confirmed = self.style == Style::Reserved || self.confirm_to_payee || is_bulk;
        // A payee that resends its response is notified of the outcome, whether confirmations are
        // on or off.
        let repeated_outcomes = counts.confirmations.min(fsp.connections.resent);
        let confirmations =
            if confirmed { sum(|it| it.received.committed.count) } else { repeated_outcomes };
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
    let read = |balances: Option<&Balances>| balances?.metrics.get(EXPIRED);
    let expired =
        read(after).zip(read(before)).map_or(0, |(after, before)| (after - before) as u64);
    let sum = |of: fn(&dfsp::Counts) -> u64| held.fsps.iter().map(|fsp| of(&fsp.counts)).sum();
    let found: [(_, u64); 4] = [
        ("expired by the hub", expired),
        ("errors at payers", sum(|it| it.payer_errors)),
        ("of these with code 3303", held.failures.get(EXPIRED_ERROR).map_or(0, |count| count.0)),
        ("errors at payees", sum(|it| it.payee_errors)),
    ];
    let wrong = found.iter().filter(|(_, found)| *found != count);
    let problems = wrong.map(|(what, found)| format!("{what}: {found} instead of {count}"));
    Check::of("each held transfer expired and both sides were notified", problems.collect())
}

/// Checks that all accounts sum to zero per currency.
fn sums(after: &Balances) -> Vec<String> {
    let mut sums: BTreeMap<&str, i128> = BTreeMap::new();
    for account in after.accounts.values().flatten() {
        // A reservation has no counter-entry until the transfer ends.
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

/// Describes transfers in flight, and notices that are owed or were given up.
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

    fn balances(positions: [i128; 2], metrics: &str) -> Balances {
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

    /// Two FSPs; the first one paid the second one three times.
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
                connections: ConnectionCounts::default(),
                first_errors: FirstErrors::default(),
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

    /// Totals of three transfers that were confirmed to payees.
    fn totals<'a>(balances: Option<[&'a Balances; 2]>, fsps: &'a [FspResult]) -> RunTotals<'a> {
        RunTotals {
            before: balances.map(|[before, _]| before),
            after: balances.map(|[_, after]| after),
            fsps,
            currency: usd(),
            good: 3,
            failed: 0,
            scenario: Scenario::Transfer,
            metrics_needed: true,
            style: Style::Committed,
            confirm_to_payee: true,
            moved: const { &BTreeMap::new() },
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
        let before = balances([7, -7], NONE_YET);
        let (mut after, mut fsps) = (balances([37, -37], THREE), fsps());
        change(&mut after, &mut fsps);
        let totals = totals(Some([&before, &after]), &fsps);
        assert_eq!(differences(&totals.checks()), expected);
    }

    #[test]
    fn consistent_run_has_no_differences() {
        check(|_, _| {}, &[]);
    }

    #[test]
    fn reserved_amount_is_excluded_from_the_sum() {
        let mut after = balances([37, -37], QUIET);
        after.accounts.get_mut("a").expect("the account exists")[0].reserved =
            Amount::from_units(5);
        assert_eq!(sums(&after), Vec::<String>::new());
    }

    #[test]
    fn unexpected_confirmations_to_payees_have_a_hint() {
        let (before, after) = (balances([7, -7], NONE_YET), balances([37, -37], THREE));
        let fsps = fsps();
        let totals = totals(Some([&before, &after]), &fsps);
        let totals = RunTotals { confirm_to_payee: false, ..totals };
        let found = differences(&totals.checks());
        assert!(found.iter().any(|line| line.contains("use --confirm-to-payee")), "{found:?}");
    }

    #[test]
    fn spawned_hub_without_counters_fails() {
        check(
            |balances, _| {
                let kept = THREE.replace("upesi_transfers_committed_total", "committed");
                balances.metrics = Metrics::read(&kept);
            },
            &["the counters of transfers are missing in the hub's /metrics"],
        );
    }

    #[test]
    fn hub_that_posts_nothing_fails_for_pairs_in_both_directions() {
        let of = |route, count| Sum {
            count,
            amount: Amount::from_units(
                (0..count).map(|turn| crate::load::amount(route, turn).units()).sum(),
            ),
        };
        let flow = |sum| Flow { begun: sum, committed: sum, aborted: Sum::default() };
        // Even numbers: both directions were used equally often.
        for turns in [1, 2, 61, 500] {
            let (there, back) = (flow(of((0, 1), turns)), flow(of((1, 0), turns)));
            let mut fsps = fsps();
            fsps[0].exchanges[0].1 = Exchange { sent: there, received: back };
            fsps[1].exchanges[0].1 = Exchange { sent: back, received: there };
            let net = there.committed.amount.units() - back.committed.amount.units();
            fsps[0].position = Amount::from_units(net);
            fsps[1].position = Amount::from_units(-net);
            let (before, after) = (balances([7, -7], NONE_YET), balances([7, -7], THREE));
            let totals = totals(Some([&before, &after]), &fsps);
            let moved = totals.positions(&before, &after);
            assert_eq!(moved.len(), 2, "after {turns} turns: {moved:?}");
        }
    }

    #[test]
    fn position_is_read_in_the_currency_of_the_run() {
        check(
            |balances, _| {
                let accounts = balances.accounts.values_mut().filter(|it| it[0].kind == "POSITION");
                for accounts in accounts {
                    let other = account("POSITION", 0);
                    accounts.insert(0, Account { currency: "EUR".to_owned(), ..other });
                }
            },
            &[],
        );
    }

    #[test]
    fn not_taken_quotes_the_first_error_of_each_kind() {
        let mut fsps = fsps();
        assert_eq!(not_taken(&fsps), None);
        fsps[1].connections = ConnectionCounts { unreachable: 4, ..ConnectionCounts::default() };
        fsps[1].first_errors.unreachable = "127.0.0.1:9: Connection refused".to_owned();
        let problems = not_taken(&fsps).expect("a problem").problems;
        let expected = "4 connections to the hub could not be opened, such as to 127.0.0.1:9: \
                        Connection refused";
        assert_eq!(problems, [expected]);
        fsps[0].connections =
            ConnectionCounts { unavailable: 2, silent: 1, ..ConnectionCounts::default() };
        fsps[0].first_errors.unavailable = "503 the disk is full".to_owned();
        let problems = not_taken(&fsps).expect("a problem").problems;
        assert_eq!(problems.len(), 3);
        fsps[0].connections.broken = 7;
        fsps[0].first_errors.broken = "closed without a response".to_owned();
        let broken = not_taken(&fsps).expect("a problem").problems.remove(2);
        assert!(broken.starts_with("7 connections to the hub broke"), "{broken}");
        assert!(broken.ends_with("such as: closed without a response"), "{broken}");
        assert!(problems[1].contains("503 the disk is full"), "{problems:?}");
        assert!(problems[2].contains("no response at"), "{problems:?}");
    }

    #[test]
    fn hub_that_answers_for_payees_fails() {
        let mut fsps = fsps();
        fsps[1].counts.lookups = 3;
        let asked =
            |scenario, fsps: &[FspResult]| RunTotals { scenario, ..totals(None, fsps) }.questions();
        assert_eq!(asked(Scenario::Lookup, &fsps), [""; 0]);
        let expected = "payers received 3 quotes, payees were asked for 0";
        assert_eq!(asked(Scenario::Quote, &fsps), [expected]);
        fsps[1].counts.lookups = 2;
        assert_eq!(asked(Scenario::Whole, &fsps).len(), 2);
        assert_eq!(asked(Scenario::Transfer, &fsps), [""; 0]);
    }

    #[test]
    fn each_fault_has_its_line() {
        check(
            |balances, _| {
                balances.accounts.get_mut("a").expect("the account exists")[0].value = Amount::ZERO
            },
            &[
                "all accounts in USD sum to -0.0037 instead of 0",
                "POSITION of a is 0, its FSP counted 0.0037",
            ],
        );
        check(
            |balances, _| {
                balances.metrics = Metrics::read("upesi_notices_owed 2\nupesi_dead_letters 1")
            },
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
                "1 transfers of a to b are not final",
                "payers sent 4 prepares to the hub, payees received 3",
            ],
        );
        check(
            |_, fsps| {
                fsps[1].wrong =
                    dfsp::Contradictions { count: 2, first: "POST answered 200".to_owned() };
            },
            &["2 wrong, such as: POST answered 200"],
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
