//! `upesi adapter`: the scheme adapter of one or more DFSPs.

use std::fs;
use std::path::{Path, PathBuf};

use adapter::config::CONFIG_BYTES_MAX;
use adapter::{Adapter, AdapterConfig};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::CliError;
use crate::cli::stdout::print_message;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi adapter --config adapter.toml
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
pub(crate) struct AdapterArguments {
    /// Configuration file, TOML.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Runs an adapter until a signal stops it.
pub(crate) fn adapter(arguments: &AdapterArguments) -> Result<(), CliError> {
    let config = read(&arguments.config)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::new(format!("adapter: {error}")))?;
    runtime.block_on(run(&config))
}

fn read(path: &Path) -> Result<AdapterConfig, CliError> {
    let failed = |why: String| CliError::new(format!("{}: {why}", path.display()));
    let length = fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
    if CONFIG_BYTES_MAX < length {
        return Err(failed(format!("longer than {CONFIG_BYTES_MAX} bytes")));
    }
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    AdapterConfig::parse(&text).map_err(failed)
}

async fn run(config: &AdapterConfig) -> Result<(), CliError> {
    let of_signal = |error: std::io::Error| CliError::new(format!("adapter: signals: {error}"));
    let mut stops = [
        signal(SignalKind::terminate()).map_err(of_signal)?,
        signal(SignalKind::interrupt()).map_err(of_signal)?,
    ];
    let adapter = Adapter::start(config).await;
    let adapter = adapter.map_err(|error| CliError::new(format!("adapter: {error}")))?;
    let addresses = adapter.addresses();
    let addresses = addresses.map_err(|error| CliError::new(format!("adapter: {error}")))?;
    if 0 < adapter.continued {
        print_message(format!("adapter: continuing {} transfers", adapter.continued));
    }
    print_message(format!(
        "adapter: ready; back ends on {}, hub on {}, health on {}",
        addresses.outbound, addresses.inbound, addresses.monitoring
    ));
    let [terminate, interrupt] = &mut stops;
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    adapter.run(stop).await;
    Ok(())
}
