//! What a run can be told, as `clap` arguments.

use std::fmt;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Command};
use dfsp::observations::OPEN_MAX;
use dfsp::{Behaviour, Style, Version};
use ledger::Currency;
use serde::{Serialize, Serializer};

use crate::error::HarnessError;
use crate::faults::{Act, Fault};
use crate::nodes::NodesPlan;
use crate::pairs::{Pairs, SKEWED_MAX};
use crate::scenario::Scenario;

/// Options of a demonstration.
#[derive(Args, Clone, Debug)]
pub struct DemoOptions {
    /// Length of the measured part, in seconds: 15 unless given, 40 with --nodes.
    #[arg(long)]
    pub seconds: Option<f64>,
    /// End the measured part after this many transactions instead.
    #[arg(long, conflicts_with = "nodes")]
    pub transactions: Option<u64>,
    /// Transactions in flight; without it the smallest number that reaches the highest rate.
    #[arg(long)]
    pub concurrency: Option<usize>,
    /// Start this many transactions a second whatever the answers (open loop); latency then counts
    /// from the intended start.
    #[arg(long, conflicts_with = "concurrency")]
    pub rate: Option<f64>,
    /// Write the results as JSON to this file, or without a name to the output.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub json: Option<Option<PathBuf>>,
    /// Data directory of the switch, kept; without it a temporary one, removed at the end.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Several nodes; a node and a broker are killed on the way.
    #[command(flatten)]
    pub nodes: NodesOptions,
    /// What the FSPs are like.
    #[command(flatten)]
    pub fsps: FspOptions,
}

/// Several nodes instead of one switch.
#[derive(Args, Clone, Debug)]
pub struct NodesOptions {
    /// Start this many nodes that share one log over Kafka, with brokers of their own, instead of
    /// one switch. Brokers need Java 17, and Maven the first time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=9))]
    pub nodes: Option<u32>,
    /// So many brokers, with --nodes.
    #[arg(long, value_name = "N", default_value_t = 3, requires = "nodes",
        value_parser = clap::value_parser!(u32).range(1..=9))]
    pub brokers: u32,
}

impl NodesOptions {
    /// One switch, no brokers.
    #[must_use]
    pub const fn none() -> Self {
        Self { nodes: None, brokers: 3 }
    }

    /// The nodes that are wanted, and what is done to them.
    pub(crate) fn plan(&self, acts: Vec<Act>) -> Option<NodesPlan> {
        Some(NodesPlan { nodes: self.nodes?, brokers: self.brokers, acts, next: None })
    }
}

/// Options of simulated FSPs; written into results as what was set.
#[derive(Args, Clone, Debug, Serialize)]
pub struct FspOptions {
    /// Number of FSPs, in pairs that pay each other.
    #[arg(long, default_value_t = 8)]
    pub fsps: usize,
    /// Number in the name of the first FSP.
    #[arg(long, default_value_t = 201)]
    pub first: u64,
    /// Subscribers per FSP.
    #[arg(long, default_value_t = 1_000)]
    pub subscribers: u64,
    /// Currency of all accounts.
    #[arg(long, default_value = "USD", value_parser = currency)]
    #[serde(serialize_with = "display")]
    pub currency: Currency,
    /// How payees fulfil: committed or reserved.
    #[arg(long, visible_alias = "payee", default_value = "committed",
        value_parser = Style::from_str)]
    #[serde(rename = "payee", serialize_with = "state")]
    pub style: Style,
    /// FSPIOP version in the headers: 1.1 or 2.0.
    #[arg(long, default_value = "1.1", value_parser = Version::from_str)]
    #[serde(serialize_with = "version")]
    pub fspiop_version: Version,
    /// Longest life of a transaction, in seconds; after that it has failed. A hub that confirms no
    /// registration for so long is given up.
    #[arg(long, default_value_t = 30.0)]
    pub timeout: f64,
    /// Behaviour of one FSP, such as fsp203=slow:500 (repeatable).
    #[arg(long, value_name = "FSP=BEHAVIOUR", value_parser = behaviour)]
    #[serde(serialize_with = "behaviours")]
    pub behaviour: Vec<(String, Behaviour)>,
    /// Connections from each FSP to the hub at most.
    #[arg(long, default_value_t = 16)]
    pub connections: usize,
    /// Threads for the simulators.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
}

/// Options of simulators that run against any hub.
#[derive(Args, Clone, Debug)]
pub struct SimulateOptions {
    /// The hub's FSPIOP address, such as http://127.0.0.1:4000.
    #[arg(long, value_name = "URL")]
    pub hub: String,
    /// The hub's admin address, such as http://127.0.0.1:3001.
    #[arg(long, value_name = "URL", required_unless_present = "no_onboard")]
    pub admin: Option<String>,
    /// File with the bearer token of the admin API.
    #[arg(long, value_name = "FILE")]
    pub token: Option<PathBuf>,
    /// Address of this machine that the hub calls back.
    #[arg(long, default_value = "127.0.0.1")]
    pub listen: IpAddr,
    /// Port of the first FSP, the others follow; 0 takes free ones.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// The FSPs and their subscribers are known to the hub already.
    #[arg(long)]
    pub no_onboard: bool,
    /// Transactions a second; without it the FSPs only answer.
    #[arg(long)]
    pub rate: Option<f64>,
    /// End after this many seconds; without it at an interrupt.
    #[arg(long)]
    pub seconds: Option<f64>,
    /// What the FSPs are like.
    #[command(flatten)]
    pub fsps: FspOptions,
}

/// Options of a measurement of the harness itself.
#[derive(Args, Clone, Debug)]
pub struct OverheadOptions {
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
pub struct BenchOptions {
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

/// Options of a command line on which nothing is said.
fn standard<O: Args>() -> O {
    let command = O::augment_args(Command::new("standard").no_binary_name(true));
    let matches = command.try_get_matches_from([""; 0]);
    matches.and_then(|matches| O::from_arg_matches(&matches)).expect("nothing is required")
}

fn display<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn state<S: Serializer>(style: &Style, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(style.state())
}

fn version<S: Serializer>(version: &Version, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(version.as_str())
}

fn behaviours<S: Serializer>(
    behaviours: &[(String, Behaviour)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(behaviours.iter().map(|(fsp, it)| format!("{fsp}={it:?}")))
}

const FSPS_MAX: usize = 1_000;
/// Subscribers of one FSP.
pub(crate) const SUBSCRIBERS_MAX: u64 = 90_000;
const BENCH_SECONDS_MAX: f64 = 86_400.0;
const STOCK_DEFAULT: usize = 100_000;
const STOCK_MAX: usize = 1_000_000;
const THREADS_MAX: usize = 64;

impl FspOptions {
    /// Eight FSPs with the defaults of the command line.
    #[must_use]
    pub fn standard() -> Self {
        standard()
    }

    /// The name of the FSP at `index`, from 0.
    pub(crate) fn name(&self, index: usize) -> String {
        format!("fsp{}", self.first + index as u64)
    }

    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.timeout)
    }

    /// Refuses a first port after which there are too few.
    fn check_port(&self, port: u16) -> Result<(), HarnessError> {
        let fits = port == 0 || usize::from(port) + self.fsps <= usize::from(u16::MAX) + 1;
        require(fits, "--port is too large for so many FSPs")
    }

    /// Refuses what cannot be run.
    pub(crate) fn check(&self) -> Result<(), HarnessError> {
        let even = self.fsps.is_multiple_of(2) && (2..=FSPS_MAX).contains(&self.fsps);
        require(even, "FSPs come in pairs: --fsps takes an even number from 2 to 1000")?;
        let threads = (1..=THREADS_MAX).contains(&self.threads) && self.threads * 2 <= self.fsps;
        require(threads, "--threads takes 1 to one per pair of FSPs")?;
        let subscribers = (1..=SUBSCRIBERS_MAX).contains(&self.subscribers);
        require(subscribers, "--subscribers takes 1 to 90000")?;
        require((1..=1_000).contains(&self.connections), "--connections takes 1 to 1000")?;
        require(self.first < 900_000, "--first is too large")?;
        require((0.1..=3_600.0).contains(&self.timeout), "--timeout takes 0.1 to 3600 seconds")?;
        let names: Vec<String> = (0..self.fsps).map(|index| self.name(index)).collect();
        for (name, _) in &self.behaviour {
            require(names.contains(name), "--behaviour names an FSP that is not simulated")?;
        }
        Ok(())
    }
}

const DEMO: Duration = Duration::from_secs(15);
const DEMO_NODES: Duration = Duration::from_secs(40);
/// So that there is something to see before and after each fault.
const DEMO_NODES_MIN: Duration = Duration::from_secs(15);
/// So that two replicas are left when one is killed.
const DEMO_BROKERS_MIN: u32 = 3;
const KILL_MIN_S: f64 = 10.0;

impl DemoOptions {
    /// Length of the measured part.
    pub(crate) fn length(&self) -> Duration {
        let usual = if self.nodes.nodes.is_some() { DEMO_NODES } else { DEMO };
        let given = self.seconds.filter(|seconds| (0.0..=1e9).contains(seconds));
        given.map_or(usual, Duration::from_secs_f64)
    }

    /// A run of the defaults of the command line.
    #[must_use]
    pub fn standard() -> Self {
        standard()
    }

    pub(crate) fn check(&self) -> Result<(), HarnessError> {
        self.fsps.check()?;
        check_seconds(self.length().as_secs_f64())?;
        let long_enough = self.nodes.nodes.is_none() || DEMO_NODES_MIN <= self.length();
        require(
            long_enough,
            "--seconds takes 15 or more with --nodes: a node and a broker are killed meanwhile",
        )?;
        require(
            self.nodes.nodes.is_none() || DEMO_BROKERS_MIN <= self.nodes.brokers,
            "demo takes --brokers of 3 or more: one is killed for good, and fewer could not go on \
             without it",
        )?;
        check_rate(self.rate)?;
        let concurrency = self.concurrency.is_none_or(|it| (1..=100_000).contains(&it));
        require(concurrency, "--concurrency takes 1 to 100000")?;
        require(self.transactions != Some(0), "--transactions takes at least 1")
    }
}

impl BenchOptions {
    /// The defaults of the command line.
    #[must_use]
    pub fn standard() -> Self {
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

impl SimulateOptions {
    pub(crate) fn check(&self) -> Result<(), HarnessError> {
        self.fsps.check()?;
        self.fsps.check_port(self.port)?;
        check_seconds(self.seconds.unwrap_or(1.0))?;
        check_rate(self.rate)
    }
}

pub(crate) fn check_seconds(seconds: f64) -> Result<(), HarnessError> {
    require((0.1..=1e6).contains(&seconds), "--seconds takes 0.1 to 1000000")
}

fn check_rate(rate: Option<f64>) -> Result<(), HarnessError> {
    let sensible = rate.is_none_or(|rate| (0.01..=1e6).contains(&rate));
    require(sensible, "--rate takes 0.01 to 1000000 a second")
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

pub(crate) fn require(fulfilled: bool, problem: &str) -> Result<(), HarnessError> {
    if fulfilled { Ok(()) } else { Err(HarnessError::Options(problem.to_owned())) }
}

fn currency(text: &str) -> Result<Currency, String> {
    Currency::parse(text).ok_or_else(|| format!("'{text}' is no currency code"))
}

/// A number of things: digits, with `k` or `M` for thousands and millions, as `10M` or `0.1M`.
///
/// # Errors
/// What is wrong with the text.
pub fn count(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no number such as 2500, 100k, 0.1M or 10M");
    let (digits, factor) = match text.strip_suffix(['k', 'M']) {
        Some(digits) if text.ends_with('k') => (digits, 1_000.0),
        Some(digits) => (digits, 1e6),
        None => (text, 1.0),
    };
    let plain = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    if digits.is_empty() || !digits.bytes().all(plain) {
        return Err(wrong());
    }
    let number = digits.parse::<f64>().map_err(|_| wrong())? * factor;
    let whole = (number - number.round()).abs() < 1e-6;
    if !whole || !(1.0..=1e12).contains(&number) {
        return Err(format!("{}: a whole number from 1 on", wrong()));
    }
    Ok(number.round() as u64)
}

/// The same, or 0 for none.
pub(crate) fn count_or_none(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { count(text) }
}

fn behaviour(text: &str) -> Result<(String, Behaviour), String> {
    let (name, behaviour) = text.split_once('=').ok_or("expected FSP=BEHAVIOUR")?;
    let behaviour = behaviour.parse().map_err(|error: dfsp::BehaviourError| error.to_string())?;
    Ok((name.to_owned(), behaviour))
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
    fn a_demonstration_that_would_not_outlive_a_broker_is_refused() {
        let said = |nodes, brokers| {
            let nodes = NodesOptions { nodes, brokers };
            let options = DemoOptions { nodes, ..DemoOptions::standard() };
            options.check().err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(said(None, 3), "");
        assert_eq!(said(Some(2), 3), "");
        for brokers in [1, 2] {
            let problem = said(Some(3), brokers);
            assert!(problem.contains("--brokers of 3 or more"), "{brokers}: {problem}");
        }
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
