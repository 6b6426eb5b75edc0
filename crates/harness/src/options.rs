//! What a run can be told, as `clap` arguments.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use dfsp::{Behaviour, Style, Version};
use ledger::Currency;

use crate::error::HarnessError;

/// Options of a demonstration.
#[derive(Args, Clone, Debug)]
pub struct DemoOptions {
    /// Length of the measured part, in seconds.
    #[arg(long, default_value_t = 15.0)]
    pub seconds: f64,
    /// End the measured part after this many transactions instead.
    #[arg(long)]
    pub transactions: Option<u64>,
    /// Transactions in flight; without it the smallest number that reaches the highest rate.
    #[arg(long)]
    pub concurrency: Option<usize>,
    /// Start this many transactions a second whatever the answers (open loop); latency then counts
    /// from the intended start.
    #[arg(long, conflicts_with = "concurrency")]
    pub rate: Option<f64>,
    /// Write the results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Data directory of the switch, kept; without it a temporary one, removed at the end.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// What the FSPs are like.
    #[command(flatten)]
    pub fsps: FspOptions,
}

/// Options of simulated FSPs.
#[derive(Args, Clone, Debug)]
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
    pub currency: Currency,
    /// How payees fulfil: committed or reserved.
    #[arg(long, default_value = "committed", value_parser = Style::from_str)]
    pub style: Style,
    /// FSPIOP version in the headers: 1.1 or 2.0.
    #[arg(long, default_value = "1.1", value_parser = Version::from_str)]
    pub fspiop_version: Version,
    /// Longest life of a transaction, in seconds; after that it has failed.
    #[arg(long, default_value_t = 30.0)]
    pub timeout: f64,
    /// Behaviour of one FSP, such as fsp203=slow:500 (repeatable).
    #[arg(long, value_name = "FSP=BEHAVIOUR", value_parser = behaviour)]
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

/// Options of a run through a hub that only forwards.
#[derive(Args, Clone, Debug)]
pub struct BaselineOptions {
    /// Length of the measured part, in seconds.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Transactions in flight.
    #[arg(long, default_value_t = 64)]
    pub concurrency: usize,
    /// What the FSPs are like.
    #[command(flatten)]
    pub fsps: FspOptions,
}

const FSPS_MAX: usize = 1_000;
const THREADS_MAX: usize = 64;

impl FspOptions {
    /// Eight FSPs with the defaults of the command line.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            fsps: 8,
            first: 201,
            subscribers: 1_000,
            currency: Currency::parse("USD").expect("three capitals are a currency"),
            style: Style::default(),
            fspiop_version: Version::default(),
            timeout: 30.0,
            behaviour: Vec::new(),
            connections: 16,
            threads: 1,
        }
    }

    /// The name of the FSP at `index`, from 0.
    pub(crate) fn name(&self, index: usize) -> String {
        format!("fsp{}", self.first + index as u64)
    }

    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.timeout)
    }

    /// Refuses what cannot be run.
    pub(crate) fn check(&self) -> Result<(), HarnessError> {
        let even = self.fsps.is_multiple_of(2) && (2..=FSPS_MAX).contains(&self.fsps);
        require(even, "FSPs come in pairs: --fsps takes an even number from 2 to 1000")?;
        let threads = (1..=THREADS_MAX).contains(&self.threads) && self.threads * 2 <= self.fsps;
        require(threads, "--threads takes 1 to one per pair of FSPs")?;
        require((1..=90_000).contains(&self.subscribers), "--subscribers takes 1 to 90000")?;
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

impl DemoOptions {
    /// A run of the defaults of the command line.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            seconds: 15.0,
            transactions: None,
            concurrency: None,
            rate: None,
            json: None,
            data: None,
            fsps: FspOptions::standard(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), HarnessError> {
        self.fsps.check()?;
        check_seconds(self.seconds)?;
        check_rate(self.rate)?;
        let concurrency = self.concurrency.is_none_or(|it| (1..=100_000).contains(&it));
        require(concurrency, "--concurrency takes 1 to 100000")?;
        require(self.transactions != Some(0), "--transactions takes at least 1")
    }
}

impl SimulateOptions {
    pub(crate) fn check(&self) -> Result<(), HarnessError> {
        self.fsps.check()?;
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

fn require(fulfilled: bool, problem: &str) -> Result<(), HarnessError> {
    if fulfilled { Ok(()) } else { Err(HarnessError::Options(problem.to_owned())) }
}

fn currency(text: &str) -> Result<Currency, String> {
    Currency::parse(text).ok_or_else(|| format!("'{text}' is no currency code"))
}

fn behaviour(text: &str) -> Result<(String, Behaviour), String> {
    let (name, behaviour) = text.split_once('=').ok_or("expected FSP=BEHAVIOUR")?;
    let behaviour = behaviour.parse().map_err(|error: dfsp::BehaviourError| error.to_string())?;
    Ok((name.to_owned(), behaviour))
}
