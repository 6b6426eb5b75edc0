//! `upesi keys`: lists the data keys of an encrypted directory, and changes its master key.

use std::path::PathBuf;

use encryption::{KEY_FILE, KeyFile, Keyring};
use journal::RealDisk;
use ledger::Stamp;
use ports::DiskError;

use crate::CliError;
use crate::cli::stdout::moment;
use crate::cli::table::{Align, Table};
use crate::cli::units::counted;
use crate::config::Config;
use crate::data::encryption::{master_keys, previous_from};

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi keys list --data /var/lib/upesi
  upesi keys rewrap --data /var/lib/upesi --encryption-key file:/etc/upesi/new.key \\
      --previous-key file:/etc/upesi/old.key";

/// Arguments of `keys`.
#[derive(clap::Args)]
pub(crate) struct KeysArguments {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(clap::Subcommand)]
enum KeysCommand {
    /// List the data keys, oldest first. Needs no master key.
    List(ListArguments),
    /// Wrap all data keys with a new master key. Nothing else is rewritten.
    ///
    /// The switch must not be running. A crash leaves the old or the new form of data.keys.
    Rewrap(RewrapArguments),
}

#[derive(clap::Args)]
struct ListArguments {
    /// Data directory.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
}

#[derive(clap::Args)]
struct RewrapArguments {
    /// Data directory.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Configuration file with both keys, if they are not given otherwise.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Master key that wrapped the data keys: `file:PATH` or `env:NAME`.
    #[arg(long, value_name = "SOURCE")]
    previous_key: Option<String>,
}

pub(crate) fn keys(arguments: &KeysArguments) -> Result<(), CliError> {
    match &arguments.command {
        KeysCommand::List(arguments) => list(arguments),
        KeysCommand::Rewrap(arguments) => rewrap(arguments),
    }
}

fn list(arguments: &ListArguments) -> Result<(), CliError> {
    let failed = |what: String| CliError::new(format!("{}: {what}", arguments.data.display()));
    let disk = RealDisk::open_live(&arguments.data).map_err(|error| failed(error.to_string()))?;
    let file = KeyFile::read(&disk).map_err(|error| failed(error.to_string()))?;
    let Some(file) = file else {
        println!("{} is not encrypted: it has no {KEY_FILE}", arguments.data.display());
        return Ok(());
    };
    let columns = [("data key", Align::Left), ("made", Align::Left), ("master key", Align::Left)];
    let mut table = Table::new(columns);
    for key in &file.keys {
        table.add([key.id.to_string(), moment(Stamp(key.created_us)), key.master.clone()]);
    }
    println!("{table}");
    Ok(())
}

fn rewrap(arguments: &RewrapArguments) -> Result<(), CliError> {
    let data = arguments.data.display();
    let failed = |what: String| CliError::new(format!("{data}: {what}"));
    if !arguments.data.join(KEY_FILE).exists() {
        return Err(failed(format!("it has no {KEY_FILE}: it is not encrypted")));
    }
    let config = Config::read(arguments.config.as_deref())?;
    let masters = master_keys(Some(&config.encryption))?;
    let mut masters = masters.ok_or_else(|| {
        failed("no new master key is given; name it with --encryption-key".into())
    })?;
    if let Some(previous) = &arguments.previous_key {
        masters.previous = Some(previous_from(previous)?);
    }
    let disk = RealDisk::open(&arguments.data).map_err(|error| match error {
        DiskError::InUse(_) => {
            failed("a switch is running on this directory; stop it first".into())
        }
        error => failed(error.to_string()),
    })?;
    let name = masters.current.name().to_owned();
    let keyring = Keyring::open(disk, masters).map_err(|error| failed(error.to_string()))?;
    let rewrapped = keyring.rewrap().map_err(|error| failed(error.to_string()))?;
    let rewrapped = counted(rewrapped as u64, "data key");
    println!("{rewrapped} wrapped anew; all are wrapped by master key {name}");
    Ok(())
}
