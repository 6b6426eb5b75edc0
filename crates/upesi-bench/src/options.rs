//! Options of measurements, as `clap` arguments.

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use dfsp::Style;
use dfsp::observations::OPEN_MAX;
use harness::error::HarnessError;
use harness::faults::Fault;
use harness::options::{
    FspOptions, NodesOptions, check_rate, check_seconds, count, require, standard,
};
use harness::pairs::{Pairs, SKEWED_MAX};
use harness::scenario::Scenario;
use serde::Serialize;

/// Options of a measurement of the harness itself.
#[derive(Args, Clone, Debug)]
pub(crate) struct OverheadOptions {
    /// Length of the measured part, in seconds.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Exchanges in flight.
    #[arg(long, default_value_t = 32)]
    pub concurrency: usize,
    /// Write the results as JSON to this file, or without a name to the output.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub json: Option<Option<PathBuf>>,
}

impl OverheadOptions {
    pub(crate) fn check(&self) -> Result<(), HarnessError> {
        check_seconds(self.seconds)?;
        require((1..=1_000).contains(&self.concurrency), "--concurrency takes 1 to 1000")
    }
}

/// Options of a measurement; written into its results as what was set.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct BenchOptions {
    /// Length of the measured part, in seconds.
    #[arg(long, default_value_t = 15.0, conflicts_with = "count")]
    pub seconds: f64,
    /// End the measured part after this many units instead.
    #[arg(long, visible_alias = "transactions")]
    pub count: Option<u64>,
    /// Closed loop: units in flight.
    #[arg(long, default_value_t = 32)]
    pub concurrency: usize,
    /// Open loop: start this many units a second whatever the answers; latency counts from the
    /// intended start.
    #[arg(long, conflicts_with = "concurrency")]
    pub rate: Option<f64>,
    /// Open loop: units in flight at which the next one is dropped and counted.
    #[arg(long, default_value_t = 10_000)]
    pub backlog: usize,
    /// Load before the measured part, in seconds.
    #[arg(long, default_value_t = 1.0)]
    pub warmup: f64,
    /// How load is spread: uniform (pairs that pay each other), or skewed (70% from one payer, 49%
    /// into one payee, as in the published runs).
    #[arg(long, default_value = "uniform", value_parser = Pairs::from_str)]
    pub pairs: Pairs,
    /// Payees that fulfil with COMMITTED get a confirmation; published runs are without. A switch
    /// that is started is configured so; of another hub it says what is owed.
    #[arg(long)]
    pub confirm_to_payee: bool,
    /// Scenario fulfil: transfers reserved beforehand; without it as many as the run may need,
    /// and 100000 in closed loop, which ends with the last of them.
    #[arg(long)]
    pub stock: Option<usize>,
    /// Data directory of the switch, kept; without it a temporary one, removed at the end.
    #[arg(long, value_name = "DIR", conflicts_with = "hub")]
    pub data: Option<PathBuf>,
    /// Program of the switch, instead of the `upesi` next to this program.
    #[arg(long, value_name = "FILE", conflicts_with = "hub")]
    pub program: Option<PathBuf>,
    /// Measure the hub at this FSPIOP address instead, such as http://127.0.0.1:4000.
    #[arg(long, value_name = "URL", conflicts_with = "nodes")]
    pub hub: Option<String>,
    /// Its admin address, for onboarding and for the checks.
    #[arg(long, value_name = "URL", requires = "hub")]
    pub admin: Option<String>,
    /// File with the bearer token of its admin API.
    #[arg(long, value_name = "FILE", requires = "admin")]
    #[serde(skip)]
    pub token: Option<PathBuf>,
    /// Its process id, when it runs on this machine and its CPU time shall be counted.
    #[arg(long, value_name = "PID", requires = "hub")]
    pub pid: Option<u32>,
    /// The FSPs, their endpoints and subscribers are known to the hub already.
    #[arg(long, requires = "hub")]
    pub existing: bool,
    /// The subscribers are known to the hub already; the FSPs and their endpoints are made known.
    #[arg(long)]
    pub registered: bool,
    /// Address of this machine that the hub calls back.
    #[arg(long, default_value = "127.0.0.1")]
    pub listen: IpAddr,
    /// Port of the first FSP, the others follow; 0 takes free ones.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Write the results as JSON to this file, or without a name to the output.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    #[serde(skip)]
    pub json: Option<Option<PathBuf>>,
    /// Write a report with charts to this file: one page of HTML that needs nothing else.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub report: Option<PathBuf>,
    /// Before and after, measure a switch that forwards transfers without recording or deciding
    /// them, and tell the ratio to it. Closed loop only.
    #[arg(long, conflicts_with_all = ["hub", "confirm_to_payee", "nodes"])]
    pub ceiling: bool,
    /// Measure several nodes; before and after, for half of the time each, one switch with its log
    /// in files, and tell the ratio to it (closed loop only).
    #[command(flatten)]
    #[serde(skip)]
    pub nodes: NodesOptions,
    /// With --nodes: break this in the middle, mend it, and tell the outage: node (kill -9),
    /// broker (kill -9), pause (SIGSTOP for longer than the lease), cut (the network between a node
    /// and all brokers; only behind `unshare --net`). Several, with commas, one after the other.
    #[arg(long, value_name = "FAULTS", requires = "nodes", value_delimiter = ',',
        conflicts_with = "count", value_parser = Fault::from_str)]
    #[serde(skip)]
    pub kill: Vec<Fault>,
    /// With --nodes: upgrade them in the middle. One after the other leaves in order and starts
    /// again as this build of the switch; then its newest rules are activated.
    #[arg(long, value_name = "FILE", requires = "nodes", conflicts_with_all = ["kill", "count"])]
    #[serde(skip)]
    pub upgrade: Option<PathBuf>,
    /// What the FSPs are like.
    #[command(flatten)]
    #[serde(flatten)]
    pub fsps: FspOptions,
}

const BENCH_SECONDS_MAX: f64 = 86_400.0;
const STOCK_DEFAULT: usize = 100_000;
const STOCK_MAX: usize = 1_000_000;
const KILL_MIN_S: f64 = 10.0;

impl BenchOptions {
    /// The defaults of the command line.
    #[must_use]
    pub(crate) fn standard() -> Self {
        standard()
    }

    /// Transfers to lay in for [`Scenario::Fulfil`].
    pub(crate) fn stock_for(&self, scenario: Scenario) -> usize {
        if scenario != Scenario::Fulfil {
            return 0;
        }
        let planned = match (self.count, self.rate) {
            (Some(count), _) => usize::try_from(count).unwrap_or(usize::MAX),
            // Each thread has its own part of the rate and of the stock.
            (None, Some(rate)) => (rate * self.seconds).ceil() as usize + self.fsps.threads,
            (None, None) => STOCK_DEFAULT,
        };
        self.stock.unwrap_or(planned)
    }

    /// Refuses a stock that cannot last: what is measured would not be the load that was asked for.
    fn check_stock(&self, scenario: Scenario) -> Result<(), HarnessError> {
        let Some(stock) = self.stock.filter(|_| scenario == Scenario::Fulfil) else {
            return Ok(());
        };
        let (needed, what) = match (self.count, self.rate) {
            (Some(count), _) => (count as f64, format!("--count {count}")),
            (None, Some(rate)) => {
                let (needed, seconds) = ((rate * self.seconds).ceil(), self.seconds);
                (needed, format!("--rate {rate} for {seconds} s"))
            }
            (None, None) => return Ok(()),
        };
        require(
            needed <= stock as f64,
            &format!(
                "--stock {stock} does not last: {what} fulfils {needed}; raise --stock to that, or \
                 leave it out"
            ),
        )
    }

    /// Refuses more open transfers than the FSPs can remember: they would not know them at their
    /// end, and the hub would seem to be at fault.
    fn check_memory(&self, scenario: Scenario) -> Result<(), HarnessError> {
        let open = match (scenario, self.count, self.rate) {
            (Scenario::Fulfil, ..) => self.stock_for(scenario) as f64,
            // Payees fulfil after the measured part.
            (Scenario::Prepare, Some(count), _) => count as f64,
            (Scenario::Prepare, None, Some(rate)) => rate * (self.seconds + self.warmup),
            _ => return Ok(()),
        };
        let most = (OPEN_MAX as f64 / self.pairs.largest_share(self.fsps.fsps)).floor();
        if open <= most {
            return Ok(());
        }
        let (fsps, instead) = (
            self.fsps.fsps,
            if scenario == Scenario::Fulfil {
                "--stock, --count or --rate"
            } else {
                "--count, --rate or --seconds"
            },
        );
        let more = match self.pairs {
            Pairs::Uniform => "raise --fsps, or ",
            Pairs::Skewed => "",
        };
        Err(HarnessError::Options(format!(
            "{open} transfers would be open at once, and {fsps} simulated FSPs remember {most} of \
             them: {more}lower {instead}"
        )))
    }

    /// Whether something is done to the nodes on the way.
    pub(crate) fn is_disturbed(&self) -> bool {
        !self.kill.is_empty() || self.upgrade.is_some()
    }

    pub(crate) fn check(&self, scenario: Scenario) -> Result<(), HarnessError> {
        self.fsps.check()?;
        self.fsps.check_port(self.port)?;
        check_rate(self.rate)?;
        if let Some(pid) = self.pid {
            let is_there = Path::new(&format!("/proc/{pid}/stat")).exists();
            require(is_there, &format!("--pid: there is no process {pid} on this machine"))?;
        }
        let skewed = self.pairs == Pairs::Skewed;
        let bare = matches!(scenario, Scenario::Transfer | Scenario::Prepare | Scenario::Whole)
            && self.fsps.style == Style::Committed;
        let stock = 1..=STOCK_MAX;
        for (fulfilled, problem) in [
            ((0.1..=BENCH_SECONDS_MAX).contains(&self.seconds), "--seconds takes 0.1 to 86400"),
            ((1..=100_000).contains(&self.concurrency), "--concurrency takes 1 to 100000"),
            ((1..=1_000_000).contains(&self.backlog), "--backlog takes 1 to 1000000"),
            ((0.0..=3_600.0).contains(&self.warmup), "--warmup takes 0 to 3600 seconds"),
            (self.count != Some(0), "--count takes at least 1"),
            (
                scenario != Scenario::Fulfil || stock.contains(&self.stock_for(scenario)),
                "a stock of 1 to 1000000 transfers can be held: lower --stock, --count or --rate",
            ),
            (
                !skewed || (4..=SKEWED_MAX).contains(&self.fsps.fsps),
                "--pairs skewed takes 4 to 64 --fsps",
            ),
            (!skewed || self.fsps.threads == 1, "--pairs skewed takes one thread"),
            (
                !self.ceiling || bare,
                "--ceiling goes with transfer, prepare and whole, and payees that answer COMMITTED",
            ),
            (
                !self.ceiling || self.rate.is_none(),
                "--ceiling is the highest rate of a closed loop: beside --rate, which both would \
                 only follow, the ratio would say nothing; leave one of them out",
            ),
            (
                !self.is_disturbed() || KILL_MIN_S <= self.seconds,
                "--kill and --upgrade take --seconds of 10 or more",
            ),
            (
                self.hub.is_none() || self.admin.is_some() || self.existing,
                "--hub needs --admin for onboarding, or --existing",
            ),
            (
                !self.existing || self.port != 0,
                "--existing needs --port: the hub calls the FSPs it knows where they listened \
                 before; give the port of the first, and with --listen the address",
            ),
        ] {
            require(fulfilled, problem)?;
        }
        self.check_stock(scenario)?;
        self.check_memory(scenario)?;
        self.upgrade.as_deref().map_or(Ok(()), check_program)
    }
}

/// Refuses what could not be started when its time comes.
fn check_program(path: &Path) -> Result<(), HarnessError> {
    let problem = match std::fs::metadata(path) {
        Err(error) => error.to_string(),
        Ok(found) if found.is_file() && found.mode() & 0o111 != 0 => return Ok(()),
        Ok(_) => "not a file that can be executed".to_owned(),
    };
    Err(HarnessError::Options(format!("--upgrade {}: {problem}", path.display())))
}

/// The same, or 0 for none.
pub(crate) fn count_or_none(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { count(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why a measurement is refused; nothing when it is not.
    fn refusal(options: &BenchOptions, scenario: Scenario) -> String {
        options.check(scenario).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn loads_that_would_not_be_what_was_asked_for_are_refused() {
        let of = |fsps| {
            let fsps = FspOptions { fsps, ..FspOptions::standard() };
            BenchOptions { fsps, ..BenchOptions::standard() }
        };
        let stock = |fsps, stock| BenchOptions { stock: Some(stock), ..of(fsps) };
        let open = |rate, seconds, base| BenchOptions { rate: Some(rate), seconds, ..base };
        let counted = |count| BenchOptions { count: Some(100), ..stock(8, count) };
        let (fulfil, prepare, transfer) = (Scenario::Fulfil, Scenario::Prepare, Scenario::Transfer);
        for (options, scenario, expected) in [
            // More open transfers than the simulators remember.
            (stock(2, 450_000), fulfil, &["2 simulated FSPs remember 380000", "raise --fsps"][..]),
            (stock(2, 380_000), fulfil, &[]),
            (stock(4, 450_000), fulfil, &[]),
            (open(10_000.0, 60.0, of(2)), prepare, &["--seconds"]),
            (open(10_000.0, 60.0, of(2)), transfer, &[]),
            (of(2), prepare, &[]),
            // A stock that does not last.
            (counted(10), fulfil, &["--stock 10 does not last: --count 100"]),
            (counted(10), transfer, &[]),
            (counted(100), fulfil, &[]),
            (open(1e3, 5.0, stock(8, 10)), fulfil, &["--rate 1000 for 5 s fulfils 5000"]),
            (open(1e3, 5.0, stock(8, 5_000)), fulfil, &[]),
            (stock(8, 10), fulfil, &[]),
        ] {
            let problem = refusal(&options, scenario);
            let is_named = expected.iter().all(|part| problem.contains(part));
            assert!(is_named && problem.is_empty() == expected.is_empty(), "{problem}");
        }
        assert!(5_000 < open(1e3, 5.0, of(8)).stock_for(fulfil));
    }

    #[test]
    fn what_cannot_be_started_is_no_upgrade() {
        let said = |path: &Path| {
            let upgrade = Some(path.to_owned());
            refusal(&BenchOptions { upgrade, ..BenchOptions::standard() }, Scenario::Transfer)
        };
        let missing = said(Path::new("/nonexistent"));
        assert!(missing.contains("--upgrade /nonexistent: No such file"), "{missing}");
        let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        for path in [&*text, Path::new("/")] {
            assert!(said(path).contains("not a file that can be executed"), "{}", said(path));
        }
        assert_eq!(said(&std::env::current_exe().expect("this is a program")), "");
    }
}
