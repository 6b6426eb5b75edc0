//! Command-line options of runs.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Command};
use dfsp::{Behaviour, Style, Version};
use ledger::Currency;
use serde::{Serialize, Serializer};

use crate::error::HarnessError;
use crate::faults::FaultStep;
use crate::nodes::NodesPlan;
use crate::secure_scheme::SignatureKeys;

/// Options of a demonstration.
#[derive(Args, Clone, Debug)]
pub struct DemoOptions {
    /// Duration of the measured part, in seconds [default: 15, or 40 with --nodes].
    #[arg(long)]
    pub seconds: Option<f64>,
    /// End the measured part after this number of transactions instead.
    #[arg(long, conflicts_with = "nodes")]
    pub transactions: Option<u64>,
    /// Transactions in flight [default: the smallest number with the highest rate].
    #[arg(long)]
    pub concurrency: Option<usize>,
    /// Open loop: transactions to start per second, independent of responses.
    ///
    /// Latency counts from the intended start.
    #[arg(long, conflicts_with = "concurrency")]
    pub rate: Option<f64>,
    /// Write the results as JSON to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub json: Option<Option<PathBuf>>,
    /// Data directory of the switch, kept after the run [default: temporary].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Keep the scheme running afterwards, and print the address of its console.
    ///
    /// Some payments that failed are waiting there. Ctrl-C stops the scheme.
    #[arg(long, conflicts_with_all = ["nodes", "secure"])]
    pub hold: bool,
    /// Run a secure scheme and a plain one in turns, and show the cost of security.
    ///
    /// `upesi init` sets up the secure scheme: TLS with certificates on both sides, signatures
    /// demanded and made, operators with roles, signed chain heads. KEYS sign the messages: rsa
    /// (RS256) or p256 (ES256). Three turns of both schemes run at their highest rates, then three
    /// turns of both at half of them. Each takes a third of --seconds.
    #[arg(long, value_name = "KEYS", num_args = 0..=1, default_missing_value = "rsa",
        conflicts_with_all = ["nodes", "transactions"])]
    pub secure: Option<SignatureKeys>,
    /// Several nodes. A node and a broker are killed during the run.
    #[command(flatten)]
    pub nodes: NodesOptions,
    /// Options of the simulated FSPs.
    #[command(flatten)]
    pub fsps: FspOptions,
}

/// Several nodes instead of one switch.
#[derive(Args, Clone, Debug)]
pub struct NodesOptions {
    /// Start this number of nodes on one shared log, with their own Kafka brokers.
    ///
    /// Replaces the single switch. Brokers need Java 17, and Maven the first time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=9))]
    pub nodes: Option<u32>,
    /// Number of Kafka brokers; with --nodes.
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

    /// Plans the nodes and the faults, if nodes were requested.
    pub fn plan(&self, fault_steps: Vec<FaultStep>) -> Option<NodesPlan> {
        Some(NodesPlan { nodes: self.nodes?, brokers: self.brokers, fault_steps, next: None })
    }
}

/// Options of simulated FSPs. Results contain them.
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
    /// Timeout of a transaction, in seconds.
    ///
    /// Also the longest wait for the hub to confirm a registration.
    #[arg(long, default_value_t = 30.0)]
    pub timeout: f64,
    /// Behaviour of one FSP, such as fsp203=slow:500 (repeatable).
    #[arg(long, value_name = "FSP=BEHAVIOUR", value_parser = behaviour)]
    #[serde(serialize_with = "behaviours")]
    pub behaviour: Vec<(String, Behaviour)>,
    /// Maximum number of connections from each FSP to the hub.
    #[arg(long, default_value_t = 16)]
    pub connections: usize,
    /// Threads for the simulators.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
}

/// Options of simulators that run against any hub.
#[derive(Args, Clone, Debug)]
pub struct SimulateOptions {
    /// FSPIOP address of the hub, such as http://127.0.0.1:4000.
    #[arg(long, value_name = "URL")]
    pub hub: String,
    /// Admin address of the hub, such as http://127.0.0.1:3001.
    #[arg(long, value_name = "URL", required_unless_present = "no_onboard")]
    pub admin: Option<String>,
    /// File with the bearer token of the admin API.
    #[arg(long, value_name = "FILE")]
    pub token: Option<PathBuf>,
    /// Directory of `upesi init` with certificates and keys of the FSPs.
    ///
    /// The FSPs then call the hub over TLS with their certificates, require its certificate, and
    /// sign their messages. Needs the folders participants, tls and jws, and, without --token,
    /// administrator.token. --hub and --admin begin with https://. The certificates of the FSPs
    /// are valid for localhost and 127.0.0.1.
    #[arg(long, value_name = "DIR")]
    pub secure: Option<PathBuf>,
    /// Address of this machine that the hub sends callbacks to.
    #[arg(long, default_value = "127.0.0.1")]
    pub listen: IpAddr,
    /// Port of the first FSP; the others follow. 0 selects free ports.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// The hub already knows the FSPs and their subscribers.
    #[arg(long)]
    pub no_onboard: bool,
    /// Transactions to start per second [default: the FSPs only answer].
    #[arg(long)]
    pub rate: Option<f64>,
    /// Transactions in flight, instead of a rate.
    #[arg(long, conflicts_with = "rate")]
    pub concurrency: Option<usize>,
    /// End after this number of seconds [default: at Ctrl-C].
    #[arg(long)]
    pub seconds: Option<f64>,
    /// End after this number of transactions; each of them must succeed.
    ///
    /// Requires --rate or --concurrency.
    #[arg(long, conflicts_with = "seconds")]
    pub transactions: Option<u64>,
    /// Options of the simulated FSPs.
    #[command(flatten)]
    pub fsps: FspOptions,
}

/// Returns the defaults of the command line.
pub fn standard<O: Args>() -> O {
    let command = O::augment_args(Command::new("standard").no_binary_name(true));
    let matches = command.try_get_matches_from([""; 0]);
    matches.and_then(|matches| O::from_arg_matches(&matches)).expect("no option is required")
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
pub const SUBSCRIBERS_MAX: u64 = 90_000;
const THREADS_MAX: usize = 64;

impl FspOptions {
    /// Eight FSPs with the defaults of the command line.
    #[must_use]
    pub fn standard() -> Self {
        standard()
    }

    /// The name of the FSP at `index`, from 0.
    pub fn name(&self, index: usize) -> String {
        format!("fsp{}", self.first + index as u64)
    }

    pub fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.timeout)
    }

    /// Rejects a first port with too few ports after it.
    pub fn check_port(&self, port: u16) -> Result<(), HarnessError> {
        let fits = port == 0 || usize::from(port) + self.fsps <= usize::from(u16::MAX) + 1;
        require(fits, "--port: too large for this number of --fsps")
    }

    /// Rejects invalid options.
    pub fn check(&self) -> Result<(), HarnessError> {
        let even = self.fsps.is_multiple_of(2) && (2..=FSPS_MAX).contains(&self.fsps);
        require(even, "--fsps: expected an even number from 2 to 1000")?;
        let threads = (1..=THREADS_MAX).contains(&self.threads) && self.threads * 2 <= self.fsps;
        require(threads, "--threads: expected 1 to half the number of --fsps")?;
        let subscribers = (1..=SUBSCRIBERS_MAX).contains(&self.subscribers);
        require(subscribers, "--subscribers: expected 1 to 90000")?;
        require((1..=1_000).contains(&self.connections), "--connections: expected 1 to 1000")?;
        require(self.first < 900_000, "--first: expected less than 900000")?;
        require(
            (0.1..=3_600.0).contains(&self.timeout),
            "--timeout: expected 0.1 to 3600 seconds",
        )?;
        let names: Vec<String> = (0..self.fsps).map(|index| self.name(index)).collect();
        for (name, _) in &self.behaviour {
            require(names.contains(name), "--behaviour: not the name of a simulated FSP")?;
        }
        Ok(())
    }
}

const DEMO: Duration = Duration::from_secs(15);
const DEMO_NODES: Duration = Duration::from_secs(40);
/// Minimum with several nodes, so that there is a time before and after each fault.
const DEMO_NODES_MIN: Duration = Duration::from_secs(15);
/// Minimum number of brokers, so that two replicas remain when one is killed.
const DEMO_BROKERS_MIN: u32 = 3;

impl DemoOptions {
    /// Duration of the measured part.
    pub fn length(&self) -> Duration {
        let usual = if self.nodes.nodes.is_some() { DEMO_NODES } else { DEMO };
        let given = self.seconds.filter(|seconds| (0.0..=1e9).contains(seconds));
        given.map_or(usual, Duration::from_secs_f64)
    }

    /// Returns the defaults of the command line.
    #[must_use]
    pub fn standard() -> Self {
        standard()
    }

    pub fn check(&self) -> Result<(), HarnessError> {
        self.fsps.check()?;
        check_seconds(self.length().as_secs_f64())?;
        let long_enough = self.nodes.nodes.is_none() || DEMO_NODES_MIN <= self.length();
        require(
            long_enough,
            "--seconds: expected 15 or more with --nodes, since a node and a broker are killed",
        )?;
        require(
            self.nodes.nodes.is_none() || DEMO_BROKERS_MIN <= self.nodes.brokers,
            "--brokers: expected 3 or more; one is killed for good, and fewer cannot continue \
             without it",
        )?;
        check_rate(self.rate)?;
        check_concurrency(self.concurrency)?;
        require(self.transactions != Some(0), "--transactions: expected at least 1")
    }
}

impl SimulateOptions {
    pub fn check(&self) -> Result<(), HarnessError> {
        self.fsps.check()?;
        self.fsps.check_port(self.port)?;
        check_seconds(self.seconds.unwrap_or(1.0))?;
        check_concurrency(self.concurrency)?;
        let pays = self.rate.is_some() || self.concurrency.is_some();
        require(
            self.transactions.is_none_or(|count| 0 < count && pays),
            "--transactions: expected at least 1, with --rate or --concurrency",
        )?;
        check_rate(self.rate)
    }
}

pub fn check_seconds(seconds: f64) -> Result<(), HarnessError> {
    require((0.1..=1e6).contains(&seconds), "--seconds: expected 0.1 to 1000000")
}

fn check_concurrency(concurrency: Option<usize>) -> Result<(), HarnessError> {
    let sensible = concurrency.is_none_or(|it| (1..=100_000).contains(&it));
    require(sensible, "--concurrency: expected 1 to 100000")
}

pub fn check_rate(rate: Option<f64>) -> Result<(), HarnessError> {
    let sensible = rate.is_none_or(|rate| (0.01..=1e6).contains(&rate));
    require(sensible, "--rate: expected 0.01 to 1000000 per second")
}

pub fn require(fulfilled: bool, problem: &str) -> Result<(), HarnessError> {
    if fulfilled { Ok(()) } else { Err(HarnessError::Options(problem.to_owned())) }
}

fn currency(text: &str) -> Result<Currency, String> {
    Currency::parse(text).ok_or_else(|| format!("invalid currency code '{text}'"))
}

/// Parses a count: digits, with `k` or `M` for thousands and millions, such as `10M` or `0.1M`.
///
/// # Errors
///
/// The text is not a count.
pub fn count(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!("invalid number '{text}': expected a count from 1, such as 2500, 100k, 0.1M or 10M")
    };
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
        return Err(wrong());
    }
    Ok(number.round() as u64)
}

fn behaviour(text: &str) -> Result<(String, Behaviour), String> {
    let (name, behaviour) = text.split_once('=').ok_or("expected FSP=BEHAVIOUR")?;
    let behaviour = behaviour.parse().map_err(|error: dfsp::BehaviourError| error.to_string())?;
    Ok((name.to_owned(), behaviour))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demonstration_with_too_few_brokers_is_refused() {
        let problem_of = |nodes, brokers| {
            let nodes = NodesOptions { nodes, brokers };
            let options = DemoOptions { nodes, ..DemoOptions::standard() };
            options.check().err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(problem_of(None, 3), "");
        assert_eq!(problem_of(Some(2), 3), "");
        for brokers in [1, 2] {
            let problem = problem_of(Some(3), brokers);
            assert!(problem.contains("--brokers: expected 3 or more"), "{brokers}: {problem}");
        }
    }
}
