//! Arguments of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use journal::TailPolicy;

use crate::serve::log_backend::LogArguments;
use crate::serve::slow_disk::SlownessArguments;
use crate::serve::watchdog::Injected;

/// Arguments of `serve`.
#[derive(clap::Args)]
pub(crate) struct ServeArguments {
    /// Directory of the log and of the admin token; created when missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Configuration file (TOML); every setting has a default.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where the log is.
    #[command(flatten)]
    pub(crate) log: LogArguments,
    /// FSPIOP address, instead of the configured one; port 0 chooses a free one.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) fspiop: Option<SocketAddr>,
    /// Admin address, instead of the configured one; port 0 chooses a free one.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin: Option<SocketAddr>,
    /// Address of health probes, instead of the configured one; port 0 chooses a free one.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) health: Option<SocketAddr>,
    /// Once, if the end of the log is damaged and no copy has it: drop what is behind the last
    /// sound record. What was acknowledged there is lost, and must be settled by hand. What a later
    /// record says was durable is refused all the same.
    #[arg(long, conflicts_with = "log")]
    pub(crate) drop_damaged_end: bool,
    /// A slower disk.
    #[command(flatten)]
    pub(crate) slowness: SlownessArguments,
    /// Stop a part of the switch for ever once it is ready. Only to test who watches it.
    #[arg(long, value_name = "STAGE", hide = true, value_enum)]
    pub(crate) inject_stuck: Option<Injected>,
    /// End at once in the change of the log's directory that comes after so many. Only to prove
    /// that nothing acknowledged is lost by it.
    #[arg(long, value_name = "N", hide = true,
        value_parser = clap::value_parser!(u64).range(..u64::MAX))]
    pub(crate) inject_exit_after_disk_operations: Option<u64>,
}

impl ServeArguments {
    pub(crate) fn damaged_end(&self) -> TailPolicy {
        match self.drop_damaged_end {
            true => TailPolicy::Drop,
            false => TailPolicy::Refuse,
        }
    }
}
