//! Many reserved transfers expire at once while others go on: what the others feel.
//!
//! Two fleets on threads of their own run against one switch. The payees of the *holders* keep
//! what they receive and never answer, and all their transfers carry expirations within the same
//! stretch of time; the *live* FSPs make transfers at a constant rate before, in and after it.
//!
//! Phases: start and onboard, reserve, live load until some seconds before the moment, measure,
//! wait until both sides of each expired transfer have their error, let the live ones end, compare
//! all books, stop and verify. The measured part begins a whole number of seconds before the
//! moment, so that its seconds and those of the expiry fall together. Transfers belong to the
//! stretch of the expirations by their intended start: what stalls in it and ends after it counts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dfsp::{Expiry, SimulatorOptions};

use crate::admin::{Admin, Metrics};
use crate::bench::{report, unit_checks};
use crate::bench_report::Expiring;
use crate::child::{Confirm, SwitchCommand};
use crate::driver::{Load, Phase};
use crate::engine::{Measured, Trim};
use crate::error::HarnessError;
use crate::fleet::{FleetPlan, FleetResult, Fleets, plan};
use crate::hub::{Hub, HubChoice};
use crate::interrupt::Interrupt;
use crate::lanes::Pairs;
use crate::live::{Doing, Live};
use crate::machine::{Environment, environment, own_cpu};
use crate::onboarding::onboard;
use crate::options::{BenchOptions, FspOptions};
use crate::proof::{Books, Check, Evidence, IN_FLIGHT, NOTICES_OWED};
use crate::records::{Bounds, Second};
use crate::report::Latency;
use crate::scenario::Scenario;
use crate::sweep::ExpiryOptions;
use crate::sweep_plans::base;
use crate::sweep_report::{Step, SweepReport};
use crate::sweep_tables::Goal;

const POLL: Duration = Duration::from_millis(20);
/// Measured seconds before the moment and after the last expiration.
const AROUND: u32 = 10;
const AROUND_QUICK: u32 = 3;
/// Load before the measured part at least.
const WARM_UP: Duration = Duration::from_secs(1);
/// Live transfers in flight at which the next one is dropped.
const BACKLOG: usize = 100_000;
const DELIVERED_WITHIN: Duration = Duration::from_secs(120);
const QUIET_WITHIN: Duration = Duration::from_secs(60);
/// Number of the first holder; the live ones have the usual numbers.
const FIRST_HOLDER: u64 = 401;
const BY_BEFORE: &str = "p99_while_expiring_by_before";
const TOLD: &str = "transfer: error callback 3303";

/// Refuses options that make no sense.
pub(crate) fn check(options: &ExpiryOptions) -> Result<(), HarnessError> {
    Size::of(options).map(drop)
}

/// Makes the run.
///
/// # Errors
/// It could not be set up.
pub(crate) fn expiry(
    options: &ExpiryOptions,
    command: &SwitchCommand,
) -> Result<SweepReport, HarnessError> {
    let size = Size::of(options)?;
    let command = command.clone().confirming(Confirm::Off);
    let mut run = Run::start(&size, &command)?;
    let mut notes = Notes::default();
    let cut = run.measure(&size, &mut notes).err();
    let measured = run.finish(&size, &notes, cut, &command)?;
    let facts = facts(&size, &notes, &measured.result);
    let goal = goal(&facts);
    let name = format!("{} expire, {}/s go on", size.count, size.rate);
    let bench = size.load();
    let mut result = report(Scenario::Transfer, &bench, &command, measured);
    result.configuration.expiry = Some(size.expiring_configuration());
    let step = Step { name, group: String::new(), at: 0.0, published: Vec::new(), result };
    let invalid_because: Vec<String> = step.problem().into_iter().collect();
    Ok(SweepReport {
        sweep: "expiry",
        question: "many reserved transfers expire within a second: what do transfers feel that go \
                   on meanwhile, and when has everybody been told"
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
        let refuse = |text: &str| Err(HarnessError::Options(text.to_owned()));
        let quick = options.output.quick;
        let (count, rate) =
            if quick { (2_000, options.rate.min(100.0)) } else { (options.count, options.rate) };
        if !(1..=1_000_000).contains(&count) {
            return refuse("--count takes 1 to 1000000");
        }
        if !(1.0..=1e5).contains(&rate) {
            return refuse("--rate takes 1 to 100000 a second");
        }
        if !(0.0..=60.0).contains(&options.within) {
            return refuse("--within takes 0 to 60 seconds");
        }
        let reserve = options.reserve.unwrap_or(5.0 + count as f64 / 2_000.0);
        if !(1.0..=3_600.0).contains(&reserve) {
            return refuse("--reserve takes 1 to 3600 seconds");
        }
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
    /// The load that goes on, with the options that make it.
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

    fn expiring_configuration(&self) -> Expiring {
        Expiring {
            count: self.count,
            within: self.within.as_secs_f64(),
            reserve: self.reserve.as_secs_f64(),
            around: self.around,
            first: FIRST_HOLDER,
        }
    }

    /// First second of the measured part in which transfers expire, and the first after them.
    fn expiring(&self) -> [u64; 2] {
        let from = u64::from(self.around);
        [from, from + (self.within.as_secs_f64().ceil() as u64).max(1)]
    }

    fn trim(&self, seconds: f64) -> Trim {
        let [from, to] = self.expiring().map(|second| second as f64);
        Trim { first: from, last: (seconds - to).max(0.0), unit: "s" }
    }
}

/// Moments of the run, as far as it got.
#[derive(Default)]
struct Notes {
    /// From the moment until both sides of each transfer were told.
    told: Option<Duration>,
    start: Reading,
    end: Reading,
    seconds: f64,
}

/// Counters at one moment.
#[derive(Default)]
struct Reading {
    metrics: Metrics,
    figures: Option<crate::machine::ProcessFigures>,
    own_cpu: Duration,
    good: u64,
}

struct Run {
    interrupt: Interrupt,
    show: Live,
    hub: Hub,
    admin: Admin,
    environment: Environment,
    live: Fleets,
    holders: Fleets,
    before: Books,
    moment: SystemTime,
}

impl Run {
    /// Starts the switch and both fleets and makes them known to each other.
    fn start(size: &Size, command: &SwitchCommand) -> Result<Self, HarnessError> {
        let interrupt = Interrupt::listen();
        let mut show = Live::new();
        show.step("starting the switch");
        let hub = HubChoice::Spawn { command, data: None }.start(&mut |_| {})?;
        let environment = environment(hub.data());
        let around = Duration::from_secs(u64::from(size.around));
        let moment = SystemTime::now() + size.reserve + WARM_UP + around;
        let mut holders = plan(&size.holders, &hub.fspiop());
        holders.iter_mut().for_each(|holder| hold(holder, size, moment));
        let fleet = |scenario, load| FleetPlan {
            scenario,
            pairs: Pairs::Uniform,
            load,
            threads: 1,
            keeps_ends: false,
        };
        let holders = Fleets::start(&holders, fleet(Scenario::Fulfil, Load::Closed))?;
        let open = Load::Open { rate: size.rate, backlog: BACKLOG };
        let live = plan(&size.live, &hub.fspiop());
        let live = Fleets::start(&live, fleet(Scenario::Transfer, open))?;
        let mut admin = hub.admin()?.ok_or(HarnessError::Fleet)?;
        let all = [live.bound(), holders.bound()].concat();
        show.step(&format!("onboarding {} FSPs", all.len()));
        onboard(&mut admin, size.live.currency, &all, &interrupt)?;
        let before = Books::read(&mut admin)?;
        Ok(Self { interrupt, show, hub, admin, environment, live, holders, before, moment })
    }

    /// Reserves, loads, and waits until all is over.
    fn measure(&mut self, size: &Size, notes: &mut Notes) -> Result<(), HarnessError> {
        self.reserve(size)?;
        let begin = self.moment - Duration::from_secs(u64::from(size.around));
        self.live.set_phase(Phase::Warm);
        self.show.step("load on the others until shortly before the expirations");
        while let Ok(rest) = begin.duration_since(SystemTime::now()) {
            self.watch("warm up", rest.min(POLL))?;
        }
        let start = Instant::now();
        notes.start = self.reading();
        self.show.step("measuring");
        let [from, to] = size.expiring().map(Duration::from_secs);
        self.live.set_steady(Bounds::Time(from, to));
        self.live.set_phase(Phase::Measure);
        let measured = self.watch_expiry(size, notes);
        notes.end = self.reading();
        notes.seconds = start.elapsed().as_secs_f64();
        measured
    }

    fn reserve(&mut self, size: &Size) -> Result<(), HarnessError> {
        self.show.step(&format!("reserving {} transfers", size.count));
        self.holders.set_stock(size.count);
        self.holders.set_phase(Phase::Stock);
        let deadline = self.moment - WARM_UP - Duration::from_secs(u64::from(size.around));
        while self.holders.glance().stock < size.count {
            if SystemTime::now() > deadline {
                let stock = self.holders.glance().stock;
                return Err(HarnessError::Hub(format!(
                    "has reserved {stock} of {} transfers when load should begin: raise --reserve",
                    size.count
                )));
            }
            self.watch("reserve", POLL)?;
        }
        self.holders.set_phase(Phase::Idle);
        Ok(())
    }

    /// From some seconds before the moment until everybody was told, and some seconds more.
    fn watch_expiry(&mut self, size: &Size, notes: &mut Notes) -> Result<(), HarnessError> {
        let requests = self.holders.glance().requests;
        let owed = 2 * size.count as u64;
        let around = Duration::from_secs(u64::from(size.around));
        let least = self.moment + size.within + around;
        let last = least + DELIVERED_WITHIN;
        loop {
            let now = SystemTime::now();
            if notes.told.is_none() && self.holders.glance().requests >= requests + owed {
                notes.told = now.duration_since(self.moment).ok();
            }
            if least <= now && (notes.told.is_some() || last <= now) {
                return Ok(());
            }
            self.watch("measure", POLL)?;
        }
    }

    /// Lets the live load end.
    fn wait_for_quiet(&mut self) -> Result<(), HarnessError> {
        self.show.step("waiting for the last transfers and notices");
        let deadline = Instant::now() + QUIET_WITHIN;
        loop {
            let metrics = self.admin.metrics()?;
            let owed = |name| metrics.get(name).is_some_and(|value| value > 0.0);
            let glance = self.live.glance();
            let rest = glance.in_flight == 0 && glance.open == 0;
            if rest && !owed(IN_FLIGHT) && !owed(NOTICES_OWED) || Instant::now() > deadline {
                return Ok(());
            }
            self.watch("drain", POLL)?;
        }
    }

    fn watch(&mut self, what: &str, time: Duration) -> Result<(), HarnessError> {
        self.interrupt.pause(time)?;
        self.hub.check_alive()?;
        let mut glance = self.live.glance();
        if what == "reserve" {
            glance.good = self.holders.glance().stock as u64;
        }
        self.show.show(Doing::Part(what), &glance);
        Ok(())
    }

    fn reading(&mut self) -> Reading {
        Reading {
            // Missing metrics show in the checks.
            metrics: self.admin.metrics().unwrap_or_default(),
            figures: self.hub.figures(),
            own_cpu: own_cpu(),
            good: self.live.glance().good,
        }
    }

    /// Ends everything, compares the books and gives what was measured.
    fn finish(
        mut self,
        size: &Size,
        notes: &Notes,
        mut cut: Option<HarnessError>,
        command: &SwitchCommand,
    ) -> Result<Measured, HarnessError> {
        self.live.set_phase(Phase::Stop);
        if cut.is_none() {
            cut = self.wait_for_quiet().err();
        }
        let (result, held) = (self.live.collect()?, self.holders.collect()?);
        let glance = self.live.glance();
        let resident = self.hub.figures().map(|figures| figures.resident_bytes_max);
        let mut metrics_after = Metrics::default();
        let mut checks = Vec::new();
        match &cut {
            Some(error) => {
                checks.push(Check::failed("the run went to its end", error.to_string()));
                // What is in flight is given up with the switch.
                drop(self.hub.stop());
            }
            None => {
                let after = Books::read(&mut self.admin)?;
                checks = self.checks(size, &after, &result, &held);
                metrics_after = after.metrics;
                self.show.step("stopping the switch and verifying its log");
                checks.push(self.stop(command));
            }
        }
        let mut measured = Measured {
            began: None,
            seconds: notes.seconds,
            good: notes.end.good.saturating_sub(notes.start.good),
            good_in_all: glance.good,
            failed: glance.failed,
            dropped: glance.dropped,
            unstocked: 0,
            books_compared: cut.is_none(),
            backlog_max: glance.backlog_max,
            concurrency: None,
            hub: crate::engine::used(notes.start.figures, notes.end.figures),
            resident_bytes_max: resident,
            own_cpu: notes.end.own_cpu.saturating_sub(notes.start.own_cpu),
            metrics_at_start: notes.start.metrics.clone(),
            metrics_at_end: notes.end.metrics.clone(),
            metrics_after,
            result,
            trim: size.trim(notes.seconds),
            environment: self.environment,
            checks,
            nodes: None,
            cut,
        };
        measured.checks.extend(unit_checks(&measured));
        Ok(measured)
    }

    fn checks(
        &self,
        size: &Size,
        after: &Books,
        live: &FleetResult,
        held: &FleetResult,
    ) -> Vec<Check> {
        let glance = self.live.glance();
        let fsps: Vec<_> = live.fsps.iter().chain(&held.fsps).cloned().collect();
        let evidence = Evidence {
            before: Some(&self.before),
            after: Some(after),
            fsps: &fsps,
            currency: size.live.currency,
            good: glance.good,
            failed: glance.failed,
            scenario: Scenario::Transfer,
            metrics_needed: true,
            style: size.live.style,
            confirm_to_payee: false,
        };
        let mut checks = evidence.checks();
        checks.push(told_on_both_sides(size.count as u64, (&self.before, after), held));
        checks
    }

    fn stop(&mut self, command: &SwitchCommand) -> Check {
        let name = "the switch stopped and its log was verified";
        let stopped = self.hub.stop().map_err(|error| error.to_string());
        let data = self.hub.data().expect("a switch of ours has a directory");
        match stopped.and_then(|()| command.verify(data)) {
            Ok(_) => Check { name, passed: Some(true), problems: Vec::new() },
            Err(problem) => Check::failed(name, problem),
        }
    }
}

/// A payee that keeps what it receives, and a payer whose transfers expire then.
fn hold(holder: &mut SimulatorOptions, size: &Size, moment: SystemTime) {
    let from = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    holder.holds = true;
    holder.in_flight_max = holder.in_flight_max.max(size.count * 2);
    holder.expiry = Some(Expiry {
        from_millis: from.as_millis() as u64,
        millis: size.within.as_millis() as u64,
    });
}

/// Each expired by the hub's count, and told as such once to its payer and once to its payee.
fn told_on_both_sides(count: u64, (before, after): (&Books, &Books), held: &FleetResult) -> Check {
    let risen = |name: &str| Some(after.metrics.get(name)? - before.metrics.get(name)?);
    let expired = risen("upesi_transfers_expired_total").unwrap_or(0.0) as u64;
    let sum = |of: fn(&dfsp::Counts) -> u64| held.fsps.iter().map(|fsp| of(&fsp.counts)).sum();
    let (payers, payees): (u64, u64) = (sum(|it| it.payer_errors), sum(|it| it.payee_errors));
    let codes = held.failures.get(TOLD).map_or(0, |(count, _)| *count);
    let found = [
        ("expired by the hub", expired),
        ("errors at payers", payers),
        ("of these with code 3303", codes),
        ("errors at payees", payees),
    ];
    let wrong = found.iter().filter(|(_, found)| *found != count);
    let problems: Vec<String> =
        wrong.map(|(what, found)| format!("{what}: {found} instead of {count}")).collect();
    let name = "each transfer held expired and both sides were told";
    Check { name, passed: Some(problems.is_empty()), problems }
}

/// Expirations are felt little by those that go on.
fn goal(facts: &BTreeMap<&'static str, f64>) -> Goal {
    let name = "p99 of live transfers that began while others expired, by the median of the \
                seconds before";
    Goal::new(name.to_owned(), facts.get(BY_BEFORE).copied(), [1.5, 1.1])
}

/// What the live transfers felt before, in and after the stretch of the expirations.
fn facts(size: &Size, notes: &Notes, live: &FleetResult) -> BTreeMap<&'static str, f64> {
    let [from, to] = size.expiring().map(|second| second as usize);
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
    if let Some(told) = notes.told {
        facts.insert("all_told_after_s", told.as_secs_f64());
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::SweepOutput;

    /// What stands in the results is what was done, not what other runs do.
    #[test]
    fn the_configuration_is_that_of_the_run() {
        for (quick, expected) in
            [(true, (7.0, 2_000, 6.0, 100.0)), (false, (21.0, 9_000, 9.5, 500.0))]
        {
            let output = SweepOutput { quick, json: None, report: None, program: None };
            let options =
                ExpiryOptions { count: 9_000, within: 1.0, rate: 500.0, reserve: None, output };
            let size = Size::of(&options).expect("these make sense");
            let (load, expiring) = (size.load(), size.expiring_configuration());
            assert_eq!(expiring.within, 1.0);
            let rate = load.rate.expect("it is an open loop");
            assert_eq!((load.seconds, expiring.count, expiring.reserve, rate), expected);
            assert_eq!((load.count, load.backlog), (None, BACKLOG));
        }
    }

    #[test]
    fn the_goal_is_about_those_that_go_on() {
        for (ratio, verdict) in [(1.05, "aim reached"), (1.5, "must reached"), (1.6, "MISSED")] {
            assert_eq!(goal(&BTreeMap::from([(BY_BEFORE, ratio)])).verdict, verdict, "{ratio}");
        }
        assert_eq!(goal(&BTreeMap::new()).verdict, "not offered");
    }
}
