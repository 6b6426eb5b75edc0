//! `upesi-bench settlement`: windows are closed and settled while transfers run at full rate, or
//! one large window is settled by the kernel alone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use harness::Origin;
use harness::admin::{Admin, AdminResponse};
use harness::error::HarnessError;
use harness::histograms::Second;
use harness::interrupt::Interrupt;
use harness::options::{count, require};
use harness::output::{check_json, print_results};
use harness::reconcile::Check;
use harness::scenario::Scenario;
use harness::switch_process::SwitchCommand;
use ledger::Amount;
use serde::Serialize;
use serde_json::{Value, json};
use waterfall::text;

use crate::ProgressLine;
use crate::bench::{measure, report};
use crate::bench_report::BenchReport;
use crate::options::BenchOptions;
use crate::sweep::stored_transfers::median;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi-bench settlement --seconds 60 --concurrency 256
  upesi-bench settlement --closes 20 --seconds 120 --json closes.json
  upesi-bench settlement --window-transfers        ten million transfers in one window";

/// The default model, which each log has from the start.
const MODEL: &str = "DEFAULTDEFERREDNET";
const STATES: [&str; 4] =
    ["PS_TRANSFERS_RECORDED", "PS_TRANSFERS_RESERVED", "PS_TRANSFERS_COMMITTED", "SETTLED"];
/// Seconds before a close, and after it, that it is compared with.
const AROUND: u32 = 2;
/// Minimum interval of two closes, so that there are seconds without one in between.
const INTERVAL_MIN: Duration = Duration::from_secs(2);
/// Interval at which the operator checks whether to stop.
const POLL: Duration = Duration::from_millis(50);

/// Options of `settlement`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SettlementOptions {
    /// Number of windows to close and settle, at equal intervals of the measured part.
    ///
    /// The interval must be at least 2 seconds.
    #[arg(long, default_value_t = 5)]
    pub(crate) closes: u32,
    /// Settle one window of this many transfers by the kernel alone [default: 10M].
    #[arg(long, value_name = "COUNT", num_args = 0..=1, default_missing_value = "10M",
        value_parser = count)]
    pub(crate) window_transfers: Option<u64>,
    #[command(flatten)]
    pub(crate) run: BenchOptions,
}

/// A close and the settlement that follows it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Close {
    /// The window.
    window: u32,
    /// Start of the close, in seconds after the start of the measured part.
    at_s: f64,
    /// Transfers in the window.
    transfers: u64,
    /// Highest p99 of a second in which it was closed or settled, in milliseconds.
    p99_ms: Option<f64>,
    /// Mean p99 of the two seconds before and after, without those in which a window was closed.
    p99_around_ms: Option<f64>,
    /// The first divided by the second.
    ratio: Option<f64>,
    /// Duration of the call that closes the window.
    close_ms: f64,
    /// Duration of the call that creates the settlement.
    create_ms: f64,
    /// Duration of the calls that move all accounts, by state.
    steps_ms: [f64; 4],
}

/// A median and a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Ratios {
    median: f64,
    worst: f64,
    seconds: usize,
}

/// The results of a run with closes.
#[derive(Serialize)]
pub(crate) struct SettlementReport {
    /// The closes in the measured part.
    closes: Vec<Close>,
    /// p99 of the seconds of a close divided by that of the seconds around.
    p99_ratio: Option<Ratios>,
    /// The same ratio for seconds without a close: how much it varies by itself.
    p99_ratio_without_close: Option<Ratios>,
    /// The run.
    #[serde(flatten)]
    pub(crate) run: BenchReport,
}

/// The calls of one settlement, with their times.
struct Settled {
    began: Instant,
    ended: Instant,
    window: u32,
    transfers: u64,
    /// Close, create, and the four states.
    calls: [Duration; 6],
    /// Nets by account number.
    nets: BTreeMap<u64, Amount>,
}

/// Measures, prints the results, and writes the requested file.
///
/// # Errors
///
/// The options are invalid, the run could not be set up, or a file cannot be written.
pub(crate) fn bench(
    options: &SettlementOptions,
    command: &SwitchCommand,
) -> Result<SettlementReport, HarnessError> {
    options.check()?;
    let run = &options.run;
    check_json(run.json.as_ref())?;
    let settled = Mutex::new(Vec::new());
    let interval = options.interval();
    let operate = |mut admin: Admin| {
        let done = operate(&mut admin, options.closes, interval);
        let moved = moved(&done);
        *settled.lock().expect("no holder panics") = done;
        moved
    };
    let (own, mut measured) = measure(Scenario::Transfer, run, command, Some(&operate))?;
    let mut operator_problems = Vec::new();
    let mut all = Vec::new();
    for result in settled.into_inner().expect("no holder panics") {
        match result {
            Ok(one) => all.push(one),
            Err(error) => operator_problems.push(error.to_string()),
        }
    }
    if all.len() < options.closes as usize {
        let (done, wanted) = (all.len(), options.closes);
        operator_problems.push(format!("{done} of {wanted} windows were closed and settled"));
    }
    measured.checks.push(Check::of("each window was closed and settled", operator_problems));
    let failed = measured.failed;
    let failures = (0 < failed).then(|| format!("{failed} transfers failed, 0 expected"));
    measured.checks.push(Check::of("no transfer failed", failures.into_iter().collect()));
    let report = SettlementReport::of(&all, report(Scenario::Transfer, run, &own, measured));
    print_results(&report, run.json.as_ref())?;
    Ok(report)
}

/// Settles one window by the kernel alone, and prints the duration of each step.
///
/// # Errors
///
/// The results cannot be written.
pub(crate) fn settle_one(options: &SettlementOptions, transfers: u64) -> Result<(), HarnessError> {
    check_json(options.run.json.as_ref())?;
    let mut line = ProgressLine::default();
    let settled = microbench::settle_window(transfers, &mut |part| line.show(part));
    line.end();
    let steps = settled.steps.into_iter();
    let steps: Vec<_> = steps.map(|(name, took)| Step { name, ms: millis(took) }).collect();
    let report = WindowReport {
        transfers: settled.transfers,
        accounts: settled.accounts,
        total_ms: steps.iter().map(|step| step.ms).sum(),
        steps,
        origin: Origin::here(None),
    };
    print_results(&report, options.run.json.as_ref())
}

impl SettlementOptions {
    fn check(&self) -> Result<(), HarnessError> {
        let run = &self.run;
        let is_own = run.hub.is_none() && run.nodes.nodes.is_none() && !run.ceiling;
        require(is_own, "settlement: not with --hub, --nodes or --ceiling")?;
        require(run.count.is_none(), "settlement: not with --count; use --seconds")?;
        require(run.report.is_none(), "settlement: not with --report; use --json")?;
        require((1..=1_000).contains(&self.closes), "--closes: expected 1 to 1000")?;
        require(
            INTERVAL_MIN <= self.interval(),
            "--seconds: expected at least 2 seconds for each of --closes, and 2 more",
        )?;
        run.check(Scenario::Transfer)
    }

    fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.run.seconds / f64::from(self.closes + 1))
    }
}

/// Closes and settles windows at the end of each interval. Stops at the first error.
fn operate(
    admin: &mut Admin,
    closes: u32,
    interval: Duration,
) -> Vec<Result<Settled, HarnessError>> {
    let began = Instant::now();
    let mut done = Vec::new();
    for number in 1..=closes {
        let due = began + interval * number;
        while Instant::now() < due {
            if Interrupt::seen_by_any_listener() {
                return done;
            }
            thread::sleep(POLL.min(due.saturating_duration_since(Instant::now())));
        }
        let settled = settle(admin, number);
        let failed = settled.is_err();
        done.push(settled);
        if failed {
            return done;
        }
    }
    done
}

/// Closes a window and settles it in all steps.
fn settle(admin: &mut Admin, window: u32) -> Result<Settled, HarnessError> {
    let began = Instant::now();
    let close = json!({ "state": "CLOSED", "reason": "bench" });
    let path = format!("/v2/settlementWindows/{window}");
    let (_, closed) = timed(admin, "POST", &path, &close)?;
    let create = json!({
        "settlementModel": MODEL,
        "reason": "bench",
        "settlementWindows": [{ "id": window }],
    });
    let (created, took) = timed(admin, "POST", "/v2/settlements", &create)?;
    let mut calls = [closed, took, Duration::ZERO, Duration::ZERO, Duration::ZERO, Duration::ZERO];
    let settlement = parsed(&created)?;
    let path = format!("/v2/settlements/{}", settlement["id"]);
    for (call, state) in calls[2..].iter_mut().zip(STATES) {
        let (_, took) = timed(admin, "PUT", &path, &all_accounts(&settlement, state))?;
        *call = took;
    }
    let ended = Instant::now();
    let shown = parsed(&admin.must("GET", &path, None, &[200])?)?;
    if shown["state"] != "SETTLED" {
        return Err(HarnessError::Hub(format!("did not settle window {window}: {shown}")));
    }
    let (transfers, nets) = (transfers_in(admin, window)?, nets(&shown));
    Ok(Settled { began, ended, window, transfers, calls, nets })
}

fn nets(settlement: &Value) -> BTreeMap<u64, Amount> {
    let participants = settlement["participants"].as_array().into_iter().flatten();
    let accounts = participants.flat_map(|it| it["accounts"].as_array().into_iter().flatten());
    let net = |account: &Value| {
        let amount = account["netSettlementAmount"]["amount"].to_string();
        Some((account["id"].as_u64()?, Amount::parse_decimal(&amount)?))
    };
    accounts.filter_map(net).collect()
}

/// The amounts by which settlements have moved positions: each by its net, towards zero.
fn moved(settled: &[Result<Settled, HarnessError>]) -> BTreeMap<u64, Amount> {
    let mut moved = BTreeMap::<u64, i128>::new();
    for (account, net) in settled.iter().flatten().flat_map(|one| &one.nets) {
        *moved.entry(*account).or_default() -= net.units();
    }
    moved.into_iter().map(|(account, units)| (account, Amount::from_units(units))).collect()
}

fn all_accounts(settlement: &Value, state: &str) -> Value {
    let step = |account: &Value| json!({ "id": account["id"], "state": state, "reason": "bench" });
    let participants = settlement["participants"].as_array().into_iter().flatten();
    let participants = participants.map(|participant| {
        let accounts = participant["accounts"].as_array().into_iter().flatten().map(step);
        json!({ "id": participant["id"], "accounts": Value::from_iter(accounts) })
    });
    json!({ "participants": Value::from_iter(participants) })
}

/// The number of transfers in a closed window, by its statement: each is in two accounts.
fn transfers_in(admin: &mut Admin, window: u32) -> Result<u64, HarnessError> {
    let path = format!("/v2/settlementWindows/{window}/statement?format=json");
    let statement = parsed(&admin.must("GET", &path, None, &[200])?)?;
    let accounts = statement["accounts"].as_array().into_iter().flatten();
    let entries = accounts.flat_map(|it| it["entries"].as_array().into_iter().flatten());
    Ok(entries.filter_map(|entry| entry["count"].as_u64()).sum::<u64>() / 2)
}

fn timed(
    admin: &mut Admin,
    method: &str,
    path: &str,
    body: &Value,
) -> Result<(AdminResponse, Duration), HarnessError> {
    let body = body.to_string();
    let began = Instant::now();
    let answer = admin.must(method, path, Some(&body), &[200])?;
    Ok((answer, began.elapsed()))
}

fn parsed(answer: &AdminResponse) -> Result<Value, HarnessError> {
    serde_json::from_slice(&answer.body)
        .map_err(|error| HarnessError::Hub(format!("has an answer that cannot be read: {error}")))
}

impl SettlementReport {
    fn of(settled: &[Settled], run: BenchReport) -> Self {
        let seconds = &run.seconds_one_by_one;
        let after = |moment: Instant| {
            let began = run.began?;
            Some(moment.checked_duration_since(began)?.as_secs_f64())
        };
        let mut busy = Vec::new();
        let spans: Vec<_> = settled
            .iter()
            .filter_map(|one| Some((one, after(one.began)?, after(one.ended)?)))
            .collect();
        spans.iter().for_each(|(_, from, to)| busy.extend(*from as u32..=*to as u32));
        let closes: Vec<_> = spans
            .iter()
            .map(|(one, from, to)| Close::of(one, (*from, *to), (seconds, &busy)))
            .collect();
        let quiet = (0..seconds.len() as u32).filter(|second| {
            let near = second.saturating_sub(AROUND)..=second + AROUND;
            !near.into_iter().any(|it| busy.contains(&it))
        });
        let without = quiet.filter_map(|second| {
            let around = around(seconds, (second, second), &[second])?;
            Some(p99(seconds, second)? / around)
        });
        Self {
            p99_ratio: Ratios::of(closes.iter().filter_map(|close| close.ratio)),
            p99_ratio_without_close: Ratios::of(without),
            closes,
            run,
        }
    }
}

impl Close {
    fn of(one: &Settled, (from, to): (f64, f64), (seconds, busy): (&[Second], &[u32])) -> Self {
        let span = (from as u32, to as u32);
        let own = (span.0..=span.1).filter_map(|second| p99(seconds, second));
        let own = own.reduce(f64::max);
        let around = around(seconds, span, busy);
        let [close_ms, create_ms, steps_ms @ ..] = one.calls.map(millis);
        Self {
            window: one.window,
            at_s: from,
            transfers: one.transfers,
            p99_ms: own,
            p99_around_ms: around,
            ratio: own.zip(around).map(|(own, around)| own / around),
            close_ms,
            create_ms,
            steps_ms,
        }
    }

    fn settlement_ms(&self) -> f64 {
        self.close_ms + self.create_ms + self.steps_ms.iter().sum::<f64>()
    }
}

impl Ratios {
    fn of(ratios: impl Iterator<Item = f64>) -> Option<Self> {
        let all: Vec<_> = ratios.collect();
        let worst = all.iter().copied().reduce(f64::max)?;
        Some(Self { median: median(all.iter().copied())?, worst, seconds: all.len() })
    }
}

fn p99(seconds: &[Second], number: u32) -> Option<f64> {
    let second = seconds.iter().find(|second| second.second == number)?;
    (0 < second.ended).then_some(second.p99_ms)
}

/// Mean p99 of the seconds before and after, without those in which something was closed.
fn around(seconds: &[Second], (from, to): (u32, u32), busy: &[u32]) -> Option<f64> {
    let near = (from.saturating_sub(AROUND)..=to + AROUND).filter(|second| !busy.contains(second));
    let near: Vec<_> = near.filter_map(|second| p99(seconds, second)).collect();
    let mean = near.iter().sum::<f64>() / near.len() as f64;
    (0.0 < mean).then_some(mean)
}

fn millis(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

impl fmt::Display for SettlementReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = [
            "window",
            "at s",
            "transfers",
            "p99 ms",
            "around",
            "ratio",
            "close ms",
            "create",
            "recorded",
            "reserved",
            "committed",
            "settled",
            "total",
        ];
        let row = |close: &Close| {
            let [recorded, reserved, committed, settled] = close.steps_ms;
            let figures = [
                Some(close.at_s),
                Some(close.transfers as f64),
                close.p99_ms,
                close.p99_around_ms,
                close.ratio,
                Some(close.close_ms),
                Some(close.create_ms),
                Some(recorded),
                Some(reserved),
                Some(committed),
                Some(settled),
                Some(close.settlement_ms()),
            ];
            let figures = figures.map(text::cell);
            [close.window.to_string()].into_iter().chain(figures).collect::<Vec<_>>()
        };
        let rows: Vec<_> = self.closes.iter().map(row).collect();
        write!(f, "{}", text::table(&columns, &rows))?;
        for (name, ratios) in [
            ("p99 ratio of seconds with a close", self.p99_ratio),
            ("p99 ratio of seconds without one ", self.p99_ratio_without_close),
        ] {
            if let Some(Ratios { median, worst, seconds }) = ratios {
                writeln!(f, "{name}  median {median:.2}, worst {worst:.2}, of {seconds}")?;
            }
        }
        writeln!(f)?;
        self.run.fmt(f)
    }
}

/// The settlement of one window by the kernel alone.
#[derive(Serialize)]
struct WindowReport {
    /// Transfers in the window.
    transfers: u64,
    /// Accounts in the settlement.
    accounts: usize,
    /// Sum of all steps.
    total_ms: f64,
    steps: Vec<Step>,
    #[serde(flatten)]
    origin: Origin,
}

#[derive(Serialize)]
struct Step {
    name: &'static str,
    ms: f64,
}

impl fmt::Display for WindowReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = |step: &Step| vec![step.name.to_owned(), text::cell(Some(step.ms))];
        let rows: Vec<_> = self.steps.iter().map(step).collect();
        let (transfers, accounts) = (self.transfers, self.accounts);
        writeln!(f, "one window of {transfers} transfers, {accounts} accounts, kernel alone")?;
        write!(f, "{}", text::table(&["step", "ms"], &rows))?;
        writeln!(f, "total           {:.3} ms", self.total_ms)?;
        f.write_str(&text::fields(&self.origin, &[]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(p99: &[f64]) -> Vec<Second> {
        let second = |(at, p99): (usize, &f64)| Second {
            second: at as u32,
            ended: 10,
            p99_ms: *p99,
            ..Second::default()
        };
        p99.iter().enumerate().map(second).collect()
    }

    #[test]
    fn second_of_a_close_is_compared_with_those_around() {
        let now = Instant::now();
        let calls = [Duration::from_millis(1); 6];
        let one = Settled {
            began: now,
            ended: now,
            window: 1,
            transfers: 7,
            calls,
            nets: BTreeMap::new(),
        };
        let seconds = seconds(&[9.0, 2.0, 4.0, 6.0, 3.0, 2.0, 9.0]);
        for ((from, to), busy, own, around) in [
            ((3.2, 3.3), &[3][..], 6.0, 2.75),
            ((3.9, 4.1), &[3, 4], 6.0, 4.25),
            ((3.2, 3.3), &[3, 4], 6.0, 8.0 / 3.0),
        ] {
            let close = Close::of(&one, (from, to), (&seconds, busy));
            assert_eq!((close.p99_ms, close.p99_around_ms), (Some(own), Some(around)));
            assert_eq!(close.ratio, Some(own / around));
            assert!((close.settlement_ms() - 6.0).abs() < 1e-9);
        }
        let late = Close::of(&one, (9.5, 9.6), (&seconds, &[9]));
        assert_eq!((late.p99_ms, late.ratio), (None, None));
    }

    #[test]
    fn closes_that_are_too_close_are_refused() {
        let of = |closes, seconds| {
            let run = BenchOptions { seconds, ..BenchOptions::standard() };
            SettlementOptions { closes, window_transfers: None, run }.check()
        };
        assert!(of(5, 12.0).is_ok());
        assert!(of(5, 11.0).is_err());
        assert!(of(0, 29.0).is_err());
    }
}
