//! Arguments of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use journal::TailPolicy;

use crate::config::{LogFormat, LogLevels, ProbeListener};
use crate::serve::log_backend::LogArguments;
use crate::serve::slow_disk::SlownessArguments;
use crate::serve::watchdog::StallTarget;

/// Arguments of `serve`.
#[derive(clap::Args)]
pub(crate) struct ServeArguments {
    /// Directory of the log and of the admin token; created if missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Configuration file (TOML); every setting has a default.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Location of the log.
    #[command(flatten)]
    pub(crate) log: LogArguments,
    /// FSPIOP address, overrides `fspiop.listen`; port 0 picks a free port.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) fspiop: Option<SocketAddr>,
    /// Admin address, overrides `admin.listen`; port 0 picks a free port.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin: Option<SocketAddr>,
    /// Health address or `none`, overrides `health.listen`; port 0 picks a free port.
    #[arg(long, value_name = "ADDRESS", value_parser = probe_listener)]
    pub(crate) health: Option<ProbeListener>,
    /// Format of the messages on standard error, overrides `logging.format`.
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) log_format: Option<LogFormat>,
    /// Lowest level of messages, overrides `logging.level`: `warn`, `info,switch=debug`.
    ///
    /// The levels are `error`, `warn`, `info`, `debug`, `trace` and `off`. The audit trail is
    /// written at every level.
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevels>,
    /// Truncate a damaged log tail after the last valid record.
    ///
    /// Acknowledged records in the tail are lost and must be reconciled manually. Refused if a
    /// later record proves that the tail was durable. Use it once, and only if no backup has the
    /// tail.
    #[arg(long, conflicts_with = "log")]
    pub(crate) truncate_damaged_tail: bool,
    /// Simulation of a slower disk.
    #[command(flatten)]
    pub(crate) slowness: SlownessArguments,
    /// Stall a part of the switch once it is ready; only to test the watchdog.
    #[arg(long, value_name = "STAGE", hide = true, value_enum)]
    pub(crate) inject_stuck: Option<StallTarget>,
    /// Exit abruptly after N changes of the log's directory; only to test recovery.
    #[arg(long, value_name = "N", hide = true,
        value_parser = clap::value_parser!(u64).range(..u64::MAX))]
    pub(crate) inject_exit_after_disk_operations: Option<u64>,
}

impl ServeArguments {
    pub(crate) fn tail_policy(&self) -> TailPolicy {
        match self.truncate_damaged_tail {
            true => TailPolicy::Truncate,
            false => TailPolicy::Refuse,
        }
    }
}

fn probe_listener(text: &str) -> Result<ProbeListener, String> {
    ProbeListener::try_from(text.to_owned())
}
