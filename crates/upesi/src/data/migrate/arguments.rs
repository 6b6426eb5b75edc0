//! Arguments of both commands.

use std::path::PathBuf;

/// Arguments of `export-log`.
#[derive(clap::Args)]
pub(crate) struct ExportArguments {
    /// Directory of the log. The switch must not be running on it.
    #[arg(long, value_name = "DIR")]
    pub(super) data: PathBuf,
    /// Destination topic: kafka://HOST:PORT,HOST:PORT/TOPIC, as for `serve`.
    #[arg(long, value_name = "URL")]
    pub(super) log: String,
    /// Configuration file (TOML) of the switch, for its [kafka] settings.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// Arguments of `import-log`.
#[derive(clap::Args)]
pub(crate) struct ImportArguments {
    /// Destination directory: empty, or the copy of a stopped node.
    #[arg(long, value_name = "DIR")]
    pub(super) data: PathBuf,
    /// Source topic: kafka://HOST:PORT,HOST:PORT/TOPIC, as for `serve`.
    #[arg(long, value_name = "URL")]
    pub(super) log: String,
    /// Configuration file (TOML) of the switch: [log], [store] and [kafka].
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Import a log that was already imported into another directory.
    ///
    /// Only if that directory is lost or was never served. Otherwise two switches would accept
    /// transfers for the same accounts.
    #[arg(long)]
    pub(super) again: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(super) json: bool,
}
