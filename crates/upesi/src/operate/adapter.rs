//! `upesi adapter`: the scheme adapter of one or more DFSPs, its checks, and a simulated back end.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use adapter::config::CONFIG_BYTES_MAX;
use adapter::doctor::{Finding, check};
use adapter::simulator::{Simulator, SimulatorOptions};
use adapter::{Adapter, AdapterConfig};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use crate::CliError;
use crate::cli::stdout::{print_json, print_message};
use crate::cli::units::counted;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi adapter --config adapter.toml
  upesi adapter doctor --config adapter.toml
  upesi adapter simulate --adapter http://127.0.0.1:4001
A minimal file:
  data = \"/var/lib/upesi-adapter\"
  [hub]
  url = \"http://hub.example:4000\"
  [[dfsp]]
  id = \"mybank\"
  backend = \"http://127.0.0.1:3000\"
  ilp_secret_file = \"/etc/upesi/ilp-secret\"
Back ends use port 4001, the hub port 4000, health and metrics port 4004.";

/// Arguments of `adapter`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct AdapterArguments {
    /// Configuration file, TOML.
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<AdapterCommand>,
}

#[derive(clap::Subcommand)]
enum AdapterCommand {
    /// Check the files and peers of a configuration, and name remedies.
    ///
    /// Files, certificates, the hub and its clock, access tokens, the registration of each DFSP,
    /// the key of the hub, the back ends and the data directory. The adapter may be running.
    /// Exit codes: 0 no problem, 1 at least one problem.
    Doctor(DoctorArguments),
    /// Run a simulated back end with the test API of the reference simulator.
    ///
    /// Parties are created with `POST /repository/parties`, payments with `POST /scenarios`.
    /// Rules from a file refuse, delay or drop requests. Everything is in memory.
    Simulate(SimulateArguments),
}

/// Arguments of `adapter doctor`.
#[derive(clap::Args)]
struct DoctorArguments {
    /// Configuration file, TOML.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of `adapter simulate`.
#[derive(clap::Args)]
struct SimulateArguments {
    /// Address of the API for the adapter.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3000")]
    backend: SocketAddr,
    /// Address of the test API.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3003")]
    test_api: SocketAddr,
    /// API for back ends of the adapter, for scenarios.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:4001")]
    adapter: String,
    /// Part of the amount that is the fee, rounded down to a whole number.
    #[arg(long, value_name = "DECIMAL", default_value = "0")]
    fee_multiplier: String,
    /// Rules, JSON [default: refuse transfers of 123 with 4001].
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
}

/// Carries out a command of adapters.
pub(crate) fn adapter(arguments: &AdapterArguments) -> Result<(), CliError> {
    match (&arguments.command, &arguments.config) {
        (Some(AdapterCommand::Doctor(arguments)), _) => doctor(arguments),
        (Some(AdapterCommand::Simulate(arguments)), _) => simulate(arguments),
        (None, Some(config)) => runtime()?.block_on(run(&read_config(config)?)),
        (None, None) => Err(CliError::new("adapter: --config is missing")),
    }
}

fn runtime() -> Result<Runtime, CliError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| CliError::new(format!("adapter: {error}")))
}

/// The text of a file of bounded length.
fn read(path: &Path) -> Result<String, CliError> {
    let failed = |why: String| CliError::new(format!("{}: {why}", path.display()));
    let length = fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
    if CONFIG_BYTES_MAX < length {
        return Err(failed(format!("longer than {CONFIG_BYTES_MAX} bytes")));
    }
    fs::read_to_string(path).map_err(|error| failed(error.to_string()))
}

fn read_config(path: &Path) -> Result<AdapterConfig, CliError> {
    let config = AdapterConfig::parse(&read(path)?);
    config.map_err(|why| CliError::new(format!("{}: {why}", path.display())))
}

async fn run(config: &AdapterConfig) -> Result<(), CliError> {
    let stop = stop_signal()?;
    let mut hangup = signal(SignalKind::hangup()).map_err(of_signal)?;
    let adapter = Adapter::start(config).await;
    let adapter = adapter.map_err(|error| CliError::new(format!("adapter: {error}")))?;
    let addresses = adapter.addresses();
    let addresses = addresses.map_err(|error| CliError::new(format!("adapter: {error}")))?;
    if 0 < adapter.continued {
        print_message(format!(
            "adapter: continuing {}",
            counted(adapter.continued as u64, "transfer")
        ));
    }
    print_message(format!(
        "adapter: ready; back ends on {}, hub on {}, health on {}",
        addresses.outbound, addresses.inbound, addresses.monitoring
    ));
    let files = adapter.tls_files();
    let reloads = tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let files = files.clone();
            // Files are read outside the thread that serves.
            if let Ok(reports) = tokio::task::spawn_blocking(move || files.reload()).await {
                reports.iter().for_each(|line| print_message(format!("adapter: {line}")));
            }
        }
    });
    adapter.run(stop).await;
    reloads.abort();
    Ok(())
}

fn of_signal(error: std::io::Error) -> CliError {
    CliError::new(format!("adapter: signals: {error}"))
}

/// Ready when the process is asked to stop.
fn stop_signal() -> Result<impl Future<Output = ()>, CliError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(of_signal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(of_signal)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

fn doctor(arguments: &DoctorArguments) -> Result<(), CliError> {
    let config = read_config(&arguments.config)?;
    let findings = runtime()?.block_on(check(&config));
    let problems = findings.iter().filter(|finding| !finding.is_good).count();
    if arguments.json {
        let rows: Vec<_> = findings.iter().map(shown).collect();
        print_json(&json!({ "problems": problems, "findings": rows }))?;
    } else {
        for finding in &findings {
            let mark = if finding.is_good { "ok     " } else { "problem" };
            println!("{mark} {}: {}", finding.check, finding.text);
        }
    }
    match problems {
        0 => Ok(()),
        count => Err(CliError::new(format!("adapter: {}", counted(count as u64, "problem")))),
    }
}

/// A finding as JSON.
fn shown(finding: &Finding) -> Value {
    let Finding { check, is_good, text } = finding;
    json!({ "check": check, "good": is_good, "text": text })
}

fn simulate(arguments: &SimulateArguments) -> Result<(), CliError> {
    let mut options = SimulatorOptions {
        backend: arguments.backend,
        test_api: arguments.test_api,
        adapter: arguments.adapter.clone(),
        fee_multiplier: arguments.fee_multiplier.clone(),
        ..SimulatorOptions::default()
    };
    if let Some(path) = &arguments.rules {
        let rules = serde_json::from_str(&read(path)?);
        options.rules =
            rules.map_err(|error| CliError::new(format!("{}: {error}", path.display())))?;
    }
    runtime()?.block_on(async {
        let stop = stop_signal()?;
        let of = |why: String| CliError::new(format!("adapter simulate: {why}"));
        let simulator = Simulator::start(options).await.map_err(of)?;
        let [backend, test_api] = simulator.addresses().map_err(|error| of(error.to_string()))?;
        print_message(format!("adapter: ready; back end on {backend}, test API on {test_api}"));
        simulator.run(stop).await;
        Ok(())
    })
}
