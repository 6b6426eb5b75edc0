//! `upesi token`: tokens of operators.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::CliError;
use crate::cli::admin_client::{AdminClient, AdminConnection, entries, member};
use crate::cli::admin_get::query_value;
use crate::cli::table::{Align, Table};

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi token create anna --output ~/anna.token --token data/admin-token
  upesi token create reports --role viewer --days 30 --description 'nightly report'
  upesi token list --operator reports
  upesi token revoke 0123456789abcdef

To rotate a token, create the next one, use it, then revoke the old one.";

const SECONDS_PER_DAY: u32 = 24 * 3_600;

/// Arguments of `token`.
#[derive(clap::Args)]
pub(crate) struct TokenArguments {
    #[command(subcommand)]
    command: TokenCommand,
    #[command(flatten)]
    connection: AdminConnection,
}

#[derive(clap::Subcommand)]
enum TokenCommand {
    /// Create a token of an operator; its secret is shown once.
    Create(CreateArguments),
    /// List tokens without their secrets.
    List(ListArguments),
    /// Revoke a token: it is refused from the next request on.
    Revoke(RevokeArguments),
}

#[derive(clap::Args)]
struct CreateArguments {
    /// Name of the operator.
    #[arg(value_name = "OPERATOR")]
    operator: String,
    /// Role to which the token is restricted; can be given several times [default: all].
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// Lifetime of the token.
    #[arg(long, value_name = "DAYS", default_value_t = 90, value_parser = days())]
    days: u32,
    /// Purpose of the token.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Write the token to a new file that only you can read, instead of printing it.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn days() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=366)
}

#[derive(clap::Args)]
struct ListArguments {
    /// Only tokens of this operator.
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
}

#[derive(clap::Args)]
struct RevokeArguments {
    /// Id of the token.
    #[arg(value_name = "ID")]
    id: String,
}

pub(crate) fn token(arguments: &TokenArguments) -> Result<(), CliError> {
    let TokenArguments { command, connection } = arguments;
    let mut client = AdminClient::new(connection)?;
    match command {
        TokenCommand::Create(arguments) => return create(&mut client, connection, arguments),
        TokenCommand::List(ListArguments { operator }) => {
            let filter = operator.as_deref().map(query_value);
            let filter = filter.map(|name| format!("?operator={name}"));
            let path = format!("/tokens{}", filter.unwrap_or_default());
            let answer = client.call("GET", &path, None)?;
            connection.print(&answer.text, || print_tokens(entries(&answer.value)));
        }
        TokenCommand::Revoke(RevokeArguments { id }) => {
            client.call("DELETE", &format!("/tokens/{}", fspiop::percent_encode(id)), None)?;
            let revoked = json!({"revoked": id}).to_string();
            connection.print(&revoked, || println!("revoked token {id}"));
        }
    }
    Ok(())
}

/// The file is created before the token, so that no token is lost with its secret.
fn create(
    client: &mut AdminClient,
    connection: &AdminConnection,
    arguments: &CreateArguments,
) -> Result<(), CliError> {
    let CreateArguments { operator, roles, days, description, output } = arguments;
    let file = output.as_deref().map(new_private_file).transpose()?;
    let mut body = json!({
        "operator": operator,
        "roles": roles,
        "lifetimeSeconds": days * SECONDS_PER_DAY,
    });
    if let Some(description) = description {
        body["description"] = json!(description);
    }
    let created = client.call("POST", "/tokens", Some(&body)).inspect_err(|_| {
        if let Some(path) = output {
            let _nothing_is_in_it = std::fs::remove_file(path);
        }
    })?;
    let mut shown = created.value.clone();
    let secret = member(&shown, "token");
    let about = match created.proposed {
        Some(_) => format!("a token of {operator}, valid once its proposal is approved"),
        None => {
            let [id, expires] = ["id", "expirationDate"].map(|name| member(&shown, name));
            format!("token {id} of {operator}, which expires {expires}")
        }
    };
    if let (Some(mut file), Some(path)) = (file, output) {
        writeln!(file, "{secret}")
            .and_then(|()| file.sync_all())
            .map_err(|error| CliError::new(format!("{}: {error}", path.display())))?;
        shown["token"] = json!(path);
        connection.print(&shown.to_string(), || println!("{}: {about}", path.display()));
        return created.finish();
    }
    connection.print(&created.text, || {
        println!("{secret}");
        eprintln!("{about}; it is not shown again");
    });
    created.finish()
}

fn new_private_file(path: &Path) -> Result<std::fs::File, CliError> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened.map_err(|error| CliError::new(format!("{}: {error}", path.display())))
}

pub(super) fn print_tokens(tokens: &[Value]) {
    let mut table = Table::new([
        ("token", Align::Left),
        ("operator", Align::Left),
        ("only roles", Align::Left),
        ("expires", Align::Left),
        ("", Align::Left),
        ("description", Align::Left),
    ]);
    for token in tokens {
        let is_expired = token["isExpired"] == json!(true);
        table.add([
            member(token, "id"),
            member(token, "operator"),
            member(token, "roles"),
            member(token, "expirationDate"),
            if is_expired { "expired" } else { "" }.to_owned(),
            member(token, "description"),
        ]);
    }
    table.print();
}
