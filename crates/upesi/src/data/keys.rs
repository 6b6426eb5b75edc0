//! `upesi keys`: lists the data keys of an encrypted directory, makes a new one, and changes its
//! master key.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use encryption::{KEY_FILE, KeyFile, Keyring, MasterKeys};
use journal::RealDisk;
use ledger::{FspName, Stamp};
use ports::DiskError;
use serde_json::{Value, json};

use crate::CliError;
use crate::cli::admin_client::{AdminClient, AdminConnection, member};
use crate::cli::stdout::{moment, print_json};
use crate::cli::table::{Align, Table};
use crate::cli::units::counted;
use crate::config::Config;
use crate::data::encryption::{master_keys, previous_from};

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi keys list --data /var/lib/upesi
  upesi keys rotate --token anna.token
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
    /// List the data keys, also destroyed ones, oldest first. Needs no master key.
    List(ListArguments),
    /// Make a new data key, which encrypts new contents.
    ///
    /// A running switch uses it at once. With --data, the directory of a stopped switch gets it,
    /// which shows that the master key can be used; the next start makes another one.
    Rotate(RotateArguments),
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
    /// Print the keys as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct RotateArguments {
    /// Data directory of a stopped switch [default: ask the running switch].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Configuration file with the master key, for --data.
    #[arg(long, value_name = "FILE", requires = "data")]
    config: Option<PathBuf>,
    #[command(flatten)]
    connection: AdminConnection,
}

#[derive(clap::Args)]
struct RewrapArguments {
    /// Data directory.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Configuration file with both keys, if they are not given otherwise.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Source of the master key that wrapped the data keys, as for --encryption-key.
    #[arg(long, value_name = "SOURCE")]
    previous_key: Option<String>,
}

pub(crate) fn keys(arguments: &KeysArguments) -> Result<(), CliError> {
    match &arguments.command {
        KeysCommand::List(arguments) => list(arguments),
        KeysCommand::Rotate(arguments) => rotate(arguments),
        KeysCommand::Rewrap(arguments) => rewrap(arguments),
    }
}

fn list(arguments: &ListArguments) -> Result<(), CliError> {
    let data = &arguments.data;
    let disk = RealDisk::open_live(data).map_err(|error| failed(data, error))?;
    let file = KeyFile::read(&disk).map_err(|error| failed(data, error))?;
    let Some(file) = file else {
        match arguments.json {
            true => print_json(&json!([]))?,
            false => println!("{} is not encrypted: it has no {KEY_FILE}", data.display()),
        }
        return Ok(());
    };
    if arguments.json {
        return print_json(&as_json(&file));
    }
    let columns = ["data key", "made", "master key", "participant", "destroyed"];
    let mut table = Table::new(columns.map(|column| (column, Align::Left)));
    let name = |name: Option<FspName>| name.map_or_else(|| "-".to_owned(), |it| it.to_string());
    for key in &file.keys {
        let made = moment(Stamp(key.created_us));
        let (id, master) = (key.id.to_string(), key.master.clone());
        table.add([id, made, master, name(key.participant), "-".to_owned()]);
    }
    for key in &file.destroyed {
        let [made, destroyed] = [key.created_us, key.destroyed_us].map(|it| moment(Stamp(it)));
        let (id, participant) = (key.id.to_string(), name(Some(key.participant)));
        table.add([id, made, "-".to_owned(), participant, destroyed]);
    }
    println!("{table}");
    Ok(())
}

fn as_json(file: &KeyFile) -> Value {
    let text = |name: Option<FspName>| name.map(|name| name.to_string());
    let keys = file.keys.iter().map(|key| {
        json!({
            "id": key.id.to_string(),
            "made": moment(Stamp(key.created_us)),
            "masterKey": key.master,
            "participant": text(key.participant),
        })
    });
    let destroyed = file.destroyed.iter().map(|key| {
        json!({
            "id": key.id.to_string(),
            "made": moment(Stamp(key.created_us)),
            "participant": text(Some(key.participant)),
            "destroyed": moment(Stamp(key.destroyed_us)),
        })
    });
    keys.chain(destroyed).collect()
}

fn rotate(arguments: &RotateArguments) -> Result<(), CliError> {
    let connection = &arguments.connection;
    let Some(data) = &arguments.data else {
        let answer = AdminClient::new(connection)?.call("POST", "/dataKeys", None)?;
        let [id, master] = ["id", "masterKey"].map(|name| member(&answer.value, name));
        connection.print(&answer.text, || {
            println!("data key {id}, wrapped by master key {master}, encrypts from now on");
        });
        return Ok(());
    };
    let masters = given_masters(data, arguments.config.as_deref())?;
    let keyring = open(data, masters)?;
    let id = keyring.renew().map_err(|error| failed(data, error))?;
    let master = keyring.master();
    if connection.is_json() {
        return print_json(&json!({"id": id.to_string(), "masterKey": master}));
    }
    println!(
        "data key {id} was made, wrapped by master key {master}; the next start makes another"
    );
    Ok(())
}

fn rewrap(arguments: &RewrapArguments) -> Result<(), CliError> {
    let data = &arguments.data;
    let mut masters = given_masters(data, arguments.config.as_deref())?;
    if let Some(previous) = &arguments.previous_key {
        masters.previous = Some(previous_from(previous)?);
    }
    let name = masters.current.name().to_owned();
    let rewrapped = open(data, masters)?.rewrap().map_err(|error| failed(data, error))?;
    let rewrapped = counted(rewrapped as u64, "data key");
    println!("{rewrapped} wrapped anew; all are wrapped by master key {name}");
    Ok(())
}

/// The master keys of an encrypted directory.
fn given_masters(data: &Path, config: Option<&Path>) -> Result<MasterKeys, CliError> {
    if !data.join(KEY_FILE).exists() {
        return Err(failed(data, format!("it has no {KEY_FILE}: it is not encrypted")));
    }
    let config = Config::read(config)?;
    let masters = master_keys(Some(&config.encryption))?;
    masters.ok_or_else(|| {
        failed(data, "no master key is given; name it with --encryption-key or --config")
    })
}

/// The data keys of a directory that no other process uses.
fn open(data: &Path, masters: MasterKeys) -> Result<Keyring<RealDisk>, CliError> {
    let disk = RealDisk::open(data).map_err(|error| match error {
        DiskError::InUse(_) => failed(data, "a switch is running on this directory; stop it first"),
        error => failed(data, error),
    })?;
    Keyring::open(disk, masters).map_err(|error| failed(data, error))
}

fn failed(data: &Path, what: impl Display) -> CliError {
    CliError::new(format!("{}: {what}", data.display()))
}
