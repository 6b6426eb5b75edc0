//! Options of measurements, as `clap` arguments.

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use dfsp::Style;
use dfsp::observations::OPEN_MAX;
use harness::error::HarnessError;
use harness::faults::ClusterFault;
use harness::options::{
    FspOptions, NodesOptions, check_rate, check_seconds, count, require, standard,
};
use harness::pairs::{Pairs, SKEWED_MAX};
use harness::scenario::Scenario;
use serde::Serialize;

/// Options of a measurement of the load generator itself.
#[derive(Args, Clone, Debug)]
pub(crate) struct OverheadOptions {
    /// Duration of the measured part, in seconds.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Exchanges in flight.
    #[arg(long, default_value_t = 32)]
    pub concurrency: usize,
    /// Write the results as JSON to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub json: Option<Option<PathBuf>>,
}

impl OverheadOptions {
    pub(crate) fn check(&self) -> Result<(), HarnessError> {
        check_seconds(self.seconds)?;
        require((1..=1_000).contains(&self.concurrency), "--concurrency: expected 1 to 1000")
    }
}

/// Options of a measurement. The results contain them.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct BenchOptions {
    /// Duration of the measured part, in seconds.
    #[arg(long, default_value_t = 15.0, conflicts_with = "count")]
    pub seconds: f64,
    /// End the measured part after this number of units instead.
    #[arg(long, visible_alias = "transactions")]
    pub count: Option<u64>,
    /// Closed loop: units in flight.
    #[arg(long, default_value_t = 32)]
    pub concurrency: usize,
    /// Open loop: units to start per second, independent of responses.
    ///
    /// Latency counts from the intended start.
    #[arg(long, conflicts_with = "concurrency")]
    pub rate: Option<f64>,
    /// Open loop: units in flight above which new ones are dropped and counted.
    #[arg(long, default_value_t = 10_000)]
    pub backlog: usize,
    /// Load before the measured part, in seconds.
    #[arg(long, default_value_t = 1.0)]
    pub warmup: f64,
    /// Load distribution: uniform or skewed.
    ///
    /// uniform: pairs that pay each other. skewed: 70% from one payer, 49% to one payee, as in the
    /// published runs.
    #[arg(long, default_value = "uniform", value_parser = Pairs::from_str)]
    pub pairs: Pairs,
    /// Require a confirmation to payees that fulfil with COMMITTED.
    ///
    /// Published runs do not have it. A switch that this program starts is configured accordingly;
    /// with --hub, the option states how the hub is configured.
    #[arg(long)]
    pub confirm_to_payee: bool,
    /// Scenario fulfil: transfers to reserve before the run.
    ///
    /// Default: as many as --count or --rate can use; 100000 in a closed loop, which ends with the
    /// last of them.
    #[arg(long)]
    pub stock: Option<usize>,
    /// Data directory of the switch, kept after the run [default: temporary].
    #[arg(long, value_name = "DIR", conflicts_with = "hub")]
    pub data: Option<PathBuf>,
    /// Program of the switch [default: `upesi` next to this program].
    #[arg(long, value_name = "FILE", conflicts_with = "hub")]
    pub program: Option<PathBuf>,
    /// Measure a running hub at this FSPIOP address, such as http://127.0.0.1:4000.
    #[arg(long, value_name = "URL", conflicts_with = "nodes")]
    pub hub: Option<String>,
    /// Admin address of the hub, for onboarding and checks.
    #[arg(long, value_name = "URL", requires = "hub")]
    pub admin: Option<String>,
    /// File with the bearer token of the hub's admin API.
    #[arg(long, value_name = "FILE", requires = "admin")]
    #[serde(skip)]
    pub token: Option<PathBuf>,
    /// Process id of a hub on this machine, to measure its CPU time.
    #[arg(long, value_name = "PID", requires = "hub")]
    pub pid: Option<u32>,
    /// The hub already knows the FSPs, their endpoints and subscribers.
    #[arg(long, requires = "hub")]
    pub existing: bool,
    /// The hub already knows the subscribers; register only FSPs and endpoints.
    #[arg(long)]
    pub registered: bool,
    /// Address of this machine that the hub sends callbacks to.
    #[arg(long, default_value = "127.0.0.1")]
    pub listen: IpAddr,
    /// Port of the first FSP; the others follow. 0 selects free ports.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Write the results as JSON to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    #[serde(skip)]
    pub json: Option<Option<PathBuf>>,
    /// Write a report with charts to FILE, as one self-contained HTML page.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub report: Option<PathBuf>,
    /// Also measure a forward-only switch, and report the ratio (closed loop).
    ///
    /// Such a switch forwards transfers without recording or deciding them. It is measured before
    /// and after the run.
    #[arg(long, conflicts_with_all = ["hub", "confirm_to_payee", "nodes"])]
    pub ceiling: bool,
    /// Several nodes instead of one switch. One switch with its log in files is measured before and
    /// after, for half the time each; the ratio is reported for a closed loop.
    #[command(flatten)]
    #[serde(skip)]
    pub nodes: NodesOptions,
    /// With --nodes: inject these faults in the middle of the run, one after the other.
    ///
    /// node: kill -9 of a node. broker: kill -9 of a broker. pause: SIGSTOP for longer than the
    /// lease. cut: no network between a node and all brokers; only in `unshare --net`. Reports the
    /// outage of each fault.
    #[arg(long, value_name = "FAULTS", requires = "nodes", value_delimiter = ',',
        conflicts_with = "count", value_parser = ClusterFault::from_str)]
    #[serde(skip)]
    pub kill: Vec<ClusterFault>,
    /// With --nodes: upgrade the nodes to this build in the middle of the run.
    ///
    /// The nodes are stopped and restarted with the new program one after the other. Then its
    /// newest rules are activated.
    #[arg(long, value_name = "FILE", requires = "nodes", conflicts_with_all = ["kill", "count"])]
    #[serde(skip)]
    pub upgrade: Option<PathBuf>,
    /// The simulated FSPs.
    #[command(flatten)]
    #[serde(flatten)]
    pub fsps: FspOptions,
}

const BENCH_SECONDS_MAX: f64 = 86_400.0;
const STOCK_DEFAULT: usize = 100_000;
const STOCK_MAX: usize = 1_000_000;
const KILL_MIN_S: f64 = 10.0;

impl BenchOptions {
    /// Returns the defaults of the command line.
    #[must_use]
    pub(crate) fn standard() -> Self {
        standard()
    }

    /// Number of transfers to reserve for [`Scenario::Fulfil`].
    pub(crate) fn stock_for(&self, scenario: Scenario) -> usize {
        if scenario != Scenario::Fulfil {
            return 0;
        }
        let planned = match (self.count, self.rate) {
            (Some(count), _) => usize::try_from(count).unwrap_or(usize::MAX),
            // Each thread has its own share of the rate and of the stock.
            (None, Some(rate)) => (rate * self.seconds).ceil() as usize + self.fsps.threads,
            (None, None) => STOCK_DEFAULT,
        };
        self.stock.unwrap_or(planned)
    }

    /// Rejects a stock that would run out, because the measured load would differ from the
    /// requested one.
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
                "--stock {stock}: too small, {what} fulfils {needed}; raise --stock to that, or \
                 leave it out"
            ),
        )
    }

    /// Rejects more open transfers than the simulated FSPs can remember. They would report an
    /// unknown transfer at its end as a fault of the hub.
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

    /// Returns whether faults or an upgrade are injected during the run.
    pub(crate) fn has_faults(&self) -> bool {
        !self.kill.is_empty() || self.upgrade.is_some()
    }

    pub(crate) fn check(&self, scenario: Scenario) -> Result<(), HarnessError> {
        self.fsps.check()?;
        self.fsps.check_port(self.port)?;
        check_rate(self.rate)?;
        if let Some(pid) = self.pid {
            let is_there = Path::new(&format!("/proc/{pid}/stat")).exists();
            require(is_there, &format!("--pid: process {pid} does not exist on this machine"))?;
        }
        let skewed = self.pairs == Pairs::Skewed;
        let bare = matches!(scenario, Scenario::Transfer | Scenario::Prepare | Scenario::Whole)
            && self.fsps.style == Style::Committed;
        let stock = 1..=STOCK_MAX;
        for (fulfilled, problem) in [
            ((0.1..=BENCH_SECONDS_MAX).contains(&self.seconds), "--seconds: expected 0.1 to 86400"),
            ((1..=100_000).contains(&self.concurrency), "--concurrency: expected 1 to 100000"),
            ((1..=1_000_000).contains(&self.backlog), "--backlog: expected 1 to 1000000"),
            ((0.0..=3_600.0).contains(&self.warmup), "--warmup: expected 0 to 3600 seconds"),
            (self.count != Some(0), "--count: expected at least 1"),
            (
                scenario != Scenario::Fulfil || stock.contains(&self.stock_for(scenario)),
                "stock: expected 1 to 1000000 transfers; lower --stock, --count or --rate",
            ),
            (
                !skewed || (4..=SKEWED_MAX).contains(&self.fsps.fsps),
                "--pairs skewed: expected 4 to 64 --fsps",
            ),
            (!skewed || self.fsps.threads == 1, "--pairs skewed: expected --threads 1"),
            (
                !self.ceiling || bare,
                "--ceiling: only for transfer, prepare and whole with payees that answer COMMITTED",
            ),
            (
                !self.ceiling || self.rate.is_none(),
                "--ceiling: not with --rate; the ratio is meaningful only in a closed loop",
            ),
            (
                !self.has_faults() || KILL_MIN_S <= self.seconds,
                "--kill and --upgrade: expected --seconds of 10 or more",
            ),
            (
                self.hub.is_none() || self.admin.is_some() || self.existing,
                "--hub: requires --admin for onboarding, or --existing",
            ),
            (
                !self.existing || self.port != 0,
                "--existing: requires --port, the port of the first FSP as registered at the hub, \
                 and --listen if the address is not 127.0.0.1",
            ),
        ] {
            require(fulfilled, problem)?;
        }
        self.check_stock(scenario)?;
        self.check_memory(scenario)?;
        self.upgrade.as_deref().map_or(Ok(()), check_program)
    }
}

/// Rejects a program that could not be started later in the run.
fn check_program(path: &Path) -> Result<(), HarnessError> {
    let problem = match std::fs::metadata(path) {
        Err(error) => error.to_string(),
        Ok(found) if found.is_file() && found.mode() & 0o111 != 0 => return Ok(()),
        Ok(_) => "not an executable file".to_owned(),
    };
    Err(HarnessError::Options(format!("--upgrade {}: {problem}", path.display())))
}

/// Parses a count, or 0 for none.
pub(crate) fn count_or_none(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { count(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reason why options are rejected; empty if they are accepted.
    fn refusal(options: &BenchOptions, scenario: Scenario) -> String {
        options.check(scenario).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn load_that_cannot_be_sustained_is_refused() {
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
            // A stock that is too small.
            (counted(10), fulfil, &["--stock 10: too small, --count 100"]),
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
    fn upgrade_to_a_program_that_cannot_start_is_refused() {
        let problem = |path: &Path| {
            let upgrade = Some(path.to_owned());
            refusal(&BenchOptions { upgrade, ..BenchOptions::standard() }, Scenario::Transfer)
        };
        let missing = problem(Path::new("/nonexistent"));
        assert!(missing.contains("--upgrade /nonexistent: No such file"), "{missing}");
        let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        for path in [&*text, Path::new("/")] {
            assert!(problem(path).contains("not an executable file"), "{}", problem(path));
        }
        assert_eq!(problem(&std::env::current_exe().expect("this is a program")), "");
    }
}
