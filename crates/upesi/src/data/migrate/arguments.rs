//! Arguments of both commands.

use std::path::PathBuf;

/// Arguments of `export-log`.
#[derive(clap::Args)]
pub(crate) struct ExportArguments {
    /// Directory of the log. The switch must not be running on it.
    #[arg(long, value_name = "DIR")]
    pub(super) data: PathBuf,
    /// Where to: kafka://HOST:PORT,HOST:PORT/TOPIC, as for `serve`.
    #[arg(long, value_name = "URL")]
    pub(super) log: String,
    /// Configuration file (TOML) of the switch, for how brokers are known.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// Arguments of `import-log`.
#[derive(clap::Args)]
pub(crate) struct ImportArguments {
    /// The directory to make: empty, or the copy of a node that has ended.
    #[arg(long, value_name = "DIR")]
    pub(super) data: PathBuf,
    /// Where from: kafka://HOST:PORT,HOST:PORT/TOPIC, as for `serve`.
    #[arg(long, value_name = "URL")]
    pub(super) log: String,
    /// Configuration file (TOML) of the switch, for the lengths of segments, the store and how
    /// brokers are known.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Take the log though it has left the topic before, for another directory: that one is lost,
    /// or was never served. A scheme that goes on in two places has two truths.
    #[arg(long)]
    pub(super) again: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(super) json: bool,
}
