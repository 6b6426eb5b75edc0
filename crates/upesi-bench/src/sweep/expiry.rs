//! The expiry sweep: many reserved transfers expire at once while others continue.
//!
//! Two groups of simulators on separate threads run against one switch. The payees of the *holders*
//! never answer, and all transfers of the holders expire within the same interval. The *live* FSPs
//! make transfers at a constant rate before, during and after it.
//!
//! The run is one of [`harness::run`], with holders. A transfer counts in the interval if its
//! intended start lies in it, even if it ends later.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dfsp::{Expiry, SimulatorOptions};

use crate::bench::{report, unit_checks};
use crate::bench_report::ExpiryConfiguration;
use crate::options::BenchOptions;
use crate::sweep::ExpiryOptions;
use crate::sweep::plans::base;
use crate::sweep::report::{Step, SweepReport};
use crate::sweep::tables::Goal;
use harness::error::HarnessError;
use harness::histograms::Second;
use harness::hub::HubChoice;
use harness::options::{FspOptions, require};
use harness::pairs::Pairs;
use harness::report::Latency;
use harness::run::{Drive, Holders, Length, Measured, Setup, carry_out};
use harness::scenario::Scenario;
use harness::simulators::plan;
use harness::switch_process::{Confirm, SwitchCommand};

/// Measured seconds before the first and after the last expiration.
const AROUND: u32 = 10;
const AROUND_QUICK: u32 = 3;
/// Live transfers in flight above which new ones are dropped.
const BACKLOG: usize = 100_000;
/// Number of the first holder. The live FSPs have the usual numbers.
const FIRST_HOLDER: u64 = 401;
const BY_BEFORE: &str = "p99_while_expiring_by_before";

/// Makes the run.
///
/// # Errors
///
/// The run could not be set up.
pub(crate) fn expiry(
    options: &ExpiryOptions,
    command: &SwitchCommand,
) -> Result<SweepReport, HarnessError> {
    let size = Size::of(options)?;
    let command = command.clone().confirming(Confirm::Off);
    let plan = |hub: &[SocketAddr], moment| {
        let mut holders = plan(&size.holders, hub);
        holders.iter_mut().for_each(|holder| hold(holder, &size, moment));
        holders
    };
    let bench = size.load();
    let setup = Setup {
        scenario: Scenario::Transfer,
        fsps: &size.live,
        pairs: Pairs::Uniform,
        drive: Drive::Open { rate: size.rate, backlog: BACKLOG },
        length: Length::Time(Duration::from_secs_f64(bench.seconds)),
        warm_up: Duration::ZERO,
        stock: 0,
        lasts: None,
        hub: HubChoice::Spawn { command: &command, data: None },
        adjust: &|_, _| {},
        onboard: true,
        register: true,
        confirm_to_payee: false,
        holders: Some(size.holders(&plan)),
        hold: false,
        operator: None,
    };
    let mut measured = carry_out(&setup)?;
    measured.checks.extend(unit_checks(&measured));
    let facts = facts(&size, size.holders(&plan).expiring(), &measured);
    let goal = goal(&facts);
    let name = format!("{} expire, {}/s continue", size.count, size.rate);
    let mut result = report(Scenario::Transfer, &bench, &command, measured);
    let expiring = size.expiring_configuration();
    result.configuration["expiry"] = serde_json::to_value(expiring).expect("plain members");
    let step = Step { name, group: String::new(), at: 0.0, published: Vec::new(), result };
    let invalid_because: Vec<String> = step.problem().into_iter().collect();
    Ok(SweepReport {
        sweep: "expiry",
        question:
            "many reserved transfers expire within a second: how does this affect the latency of \
                   other transfers, and when have all parties been notified?"
                .to_owned(),
        valid: invalid_because.is_empty(),
        invalid_because,
        published: Vec::new(),
        facts,
        tables: Vec::new(),
        goals: vec![goal],
        steps: vec![step],
    })
}

/// How large the run is.
struct Size {
    count: usize,
    rate: f64,
    within: Duration,
    reserve: Duration,
    around: u32,
    live: FspOptions,
    holders: FspOptions,
}

impl Size {
    fn of(options: &ExpiryOptions) -> Result<Self, HarnessError> {
        let quick = options.output.quick;
        let (count, rate) =
            if quick { (2_000, options.rate.min(100.0)) } else { (options.count, options.rate) };
        let reserve = options.reserve.unwrap_or(5.0 + count as f64 / 2_000.0);
        require((1..=1_000_000).contains(&count), "--count: expected 1 to 1000000")?;
        require((1.0..=1e5).contains(&rate), "--rate: expected 1 to 100000 per second")?;
        require((0.0..=60.0).contains(&options.within), "--within: expected 0 to 60 seconds")?;
        require((1.0..=3_600.0).contains(&reserve), "--reserve: expected 1 to 3600 seconds")?;
        let live = base(quick).fsps;
        Ok(Self {
            count,
            rate,
            within: Duration::from_secs_f64(options.within),
            reserve: Duration::from_secs_f64(reserve),
            around: if quick { AROUND_QUICK } else { AROUND },
            holders: FspOptions { first: FIRST_HOLDER, ..live.clone() },
            live,
        })
    }
}

impl Size {
    /// The options of the live load.
    fn load(&self) -> BenchOptions {
        let around = 2.0 * f64::from(self.around);
        BenchOptions {
            rate: Some(self.rate),
            seconds: around + self.within.as_secs_f64(),
            count: None,
            backlog: BACKLOG,
            fsps: self.live.clone(),
            ..base(false)
        }
    }

    fn expiring_configuration(&self) -> ExpiryConfiguration {
        ExpiryConfiguration {
            count: self.count,
            within: self.within.as_secs_f64(),
            reserve: self.reserve.as_secs_f64(),
            around: self.around,
            first: FIRST_HOLDER,
        }
    }

    fn holders<'a>(
        &self,
        plan: &'a dyn Fn(&[SocketAddr], SystemTime) -> Vec<SimulatorOptions>,
    ) -> Holders<'a> {
        let (count, reserve, within) = (self.count, self.reserve, self.within);
        Holders { plan, count, reserve, within, around: self.around }
    }
}

/// Makes an FSP a payee that never answers and a payer whose transfers expire in the interval.
fn hold(holder: &mut SimulatorOptions, size: &Size, moment: SystemTime) {
    let from = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    holder.holds = true;
    holder.in_flight_max = holder.in_flight_max.max(size.count * 2);
    holder.expiry = Some(Expiry {
        from_millis: from.as_millis() as u64,
        millis: size.within.as_millis() as u64,
    });
}

/// The latency of live transfers rises little while others expire.
fn goal(facts: &BTreeMap<&'static str, f64>) -> Goal {
    let name = "p99 of live transfers that began while others expired, by the median of the \
                seconds before";
    Goal::new(name.to_owned(), facts.get(BY_BEFORE).copied(), [1.5, 1.1])
}

/// Latencies of the live transfers before, during and after the expirations.
fn facts(size: &Size, expiring: [u64; 2], measured: &Measured) -> BTreeMap<&'static str, f64> {
    let [from, to] = expiring.map(|second| second as usize);
    let live = &measured.result;
    let seconds = &live.seconds;
    let p99 = |part: &[Second]| part.iter().map(|second| second.p99_ms).collect::<Vec<_>>();
    let mut before = p99(&seconds[..from.min(seconds.len())]);
    let after = p99(&seconds[to.min(seconds.len())..]);
    before.sort_by(f64::total_cmp);
    let usual = before.get(before.len() / 2).copied().unwrap_or(0.0);
    let then = Latency::of(&live.steady.whole);
    let mut facts = BTreeMap::from([
        ("expired", size.count as f64),
        ("p99_before_median_second_ms", usual),
        ("p99_before_worst_second_ms", before.last().copied().unwrap_or(0.0)),
        ("p99_while_expiring_ms", then.p99),
        ("max_while_expiring_ms", then.max),
        ("p99_after_worst_second_ms", after.into_iter().fold(0.0, f64::max)),
    ]);
    if usual > 0.0 {
        facts.insert(BY_BEFORE, then.p99 / usual);
    }
    if let Some(elapsed) = measured.notified_after {
        facts.insert("all_told_after_s", elapsed.as_secs_f64());
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::SweepOutput;

    /// The results contain the options of this run, not the defaults of other runs.
    #[test]
    fn configuration_is_that_of_the_run() {
        for (quick, expected) in
            [(true, (7.0, 2_000, 6.0, 100.0)), (false, (21.0, 9_000, 9.5, 500.0))]
        {
            let output = SweepOutput { quick, json: None, report: None, program: None };
            let options =
                ExpiryOptions { count: 9_000, within: 1.0, rate: 500.0, reserve: None, output };
            let size = Size::of(&options).expect("these are valid");
            let (load, expiring) = (size.load(), size.expiring_configuration());
            assert_eq!(expiring.within, 1.0);
            let rate = load.rate.expect("it is an open loop");
            assert_eq!((load.seconds, expiring.count, expiring.reserve, rate), expected);
            assert_eq!((load.count, load.backlog), (None, BACKLOG));
        }
    }

    #[test]
    fn goal_compares_live_transfers_with_the_time_before() {
        for (ratio, verdict) in [(1.05, "aim reached"), (1.5, "must reached"), (1.6, "MISSED")] {
            assert_eq!(goal(&BTreeMap::from([(BY_BEFORE, ratio)])).verdict, verdict, "{ratio}");
        }
        assert_eq!(goal(&BTreeMap::new()).verdict, "not offered");
    }
}
