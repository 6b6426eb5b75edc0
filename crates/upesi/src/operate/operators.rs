//! `upesi operator`, `upesi role` and `upesi token`: who may use the admin API of a running switch.

pub(crate) mod roles;
pub(crate) mod tokens;

use std::path::PathBuf;
use std::slice;

use serde_json::{Value, json};

use crate::CliError;
use crate::cli::admin_client::{AdminAnswer, AdminClient, AdminConnection, entries, member};
use crate::cli::admin_get::query_value;
use crate::cli::password;
use crate::cli::table::{Align, Table};

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi operator add anna --role admin --token data/admin-token
  upesi operator list
  upesi operator roles anna --role operator --role auditor
  upesi operator password anna
  upesi operator disable anna --reason 'left the company'";

/// Arguments of `operator`.
#[derive(clap::Args)]
pub(crate) struct OperatorArguments {
    #[command(subcommand)]
    command: OperatorCommand,
    #[command(flatten)]
    connection: AdminConnection,
}

#[derive(clap::Subcommand)]
enum OperatorCommand {
    /// Add an operator; `upesi token create` then gives it a token.
    Add(RolesArguments),
    /// List operators with their roles and permissions.
    List,
    /// Show an operator and its tokens.
    Show(NameArgument),
    /// Replace the roles of an operator.
    Roles(RolesArguments),
    /// Disable an operator: its tokens are refused from the next request on.
    Disable(NameArgument),
    /// Enable a disabled operator; its tokens are valid again until they expire.
    Enable(NameArgument),
    /// Set or remove the password of an operator; its sessions end.
    Password(PasswordArguments),
    /// Create or remove the second factor of an operator; its sessions end.
    SecondFactor(SecondFactorArguments),
}

#[derive(clap::Args)]
struct NameArgument {
    /// Name of the operator.
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(clap::Args)]
struct PasswordArguments {
    #[command(flatten)]
    operator: NameArgument,
    /// File with the password, instead of standard input; 12 to 128 characters.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Remove the password: the operator can no longer log in.
    #[arg(long, conflicts_with = "password_file")]
    remove: bool,
}

#[derive(clap::Args)]
struct SecondFactorArguments {
    #[command(flatten)]
    operator: NameArgument,
    /// Remove the second factor: the operator logs in with its password only.
    #[arg(long)]
    remove: bool,
}

#[derive(clap::Args)]
struct RolesArguments {
    #[command(flatten)]
    operator: NameArgument,
    /// Name of a role, see `upesi role list`; can be given several times.
    #[arg(long = "role", value_name = "ROLE", required = true)]
    roles: Vec<String>,
}

pub(crate) fn operator(arguments: &OperatorArguments) -> Result<(), CliError> {
    let OperatorArguments { command, connection } = arguments;
    let mut client = AdminClient::new(connection)?;
    let answer = match command {
        OperatorCommand::List => {
            let answer = client.call("GET", "/operators", None)?;
            connection.print(&answer.text, || print_operators(entries(&answer.value)));
            return Ok(());
        }
        OperatorCommand::Show(name) => return show(&mut client, connection, &name.name),
        OperatorCommand::Add(arguments) => {
            let path = path(&arguments.operator.name);
            if client.status_of("GET", &path, None)?.0 == 200 {
                return Err(CliError::new(format!(
                    "operator {0} exists; change it with `upesi operator roles {0}`",
                    arguments.operator.name
                )));
            }
            client.call("PUT", &path, Some(&json!({"roles": arguments.roles})))?
        }
        OperatorCommand::Roles(arguments) => {
            let path = path(&arguments.operator.name);
            let known = client.call("GET", &path, None)?.value;
            let body = json!({"roles": arguments.roles, "isActive": known["isActive"]});
            client.call("PUT", &path, Some(&body))?
        }
        OperatorCommand::Password(arguments) => {
            return password(&mut client, connection, arguments);
        }
        OperatorCommand::SecondFactor(arguments) => {
            return second_factor(&mut client, connection, arguments);
        }
        OperatorCommand::Disable(name) => switch(&mut client, &name.name, false)?,
        OperatorCommand::Enable(name) => switch(&mut client, &name.name, true)?,
    };
    connection.print(&answer.text, || print_operators(slice::from_ref(&answer.value)));
    Ok(())
}

fn path(name: &str) -> String {
    format!("/operators/{}", fspiop::percent_encode(name))
}

fn switch(client: &mut AdminClient, name: &str, is_active: bool) -> Result<AdminAnswer, CliError> {
    let path = path(name);
    let known = client.call("GET", &path, None)?.value;
    client.call("PUT", &path, Some(&json!({"roles": known["roles"], "isActive": is_active})))
}

fn password(
    client: &mut AdminClient,
    connection: &AdminConnection,
    arguments: &PasswordArguments,
) -> Result<(), CliError> {
    let PasswordArguments { operator: NameArgument { name }, password_file, remove } = arguments;
    let path = format!("{}/password", path(name));
    let done = if *remove {
        client.call("DELETE", &path, None)?;
        format!("removed the password of {name}")
    } else {
        let password = password::read_new(password_file.as_deref())?;
        client.call("PUT", &path, Some(&json!({"password": password})))?;
        format!("set the password of {name}")
    };
    connection.print(&json!({"done": done}).to_string(), || println!("{done}"));
    Ok(())
}

fn second_factor(
    client: &mut AdminClient,
    connection: &AdminConnection,
    arguments: &SecondFactorArguments,
) -> Result<(), CliError> {
    let SecondFactorArguments { operator: NameArgument { name }, remove } = arguments;
    let path = format!("{}/secondFactor", path(name));
    if *remove {
        client.call("DELETE", &path, None)?;
        let done = format!("removed the second factor of {name}");
        connection.print(&json!({"done": done}).to_string(), || println!("{done}"));
        return Ok(());
    }
    let created = client.call("POST", &path, None)?;
    connection.print(&created.text, || {
        let shown = if created.proposed.is_some() { "token" } else { "uri" };
        println!("{}", member(&created.value, shown));
        eprintln!("type the secret into an authenticator application; it is not shown again");
    });
    created.finish()
}

fn show(
    client: &mut AdminClient,
    connection: &AdminConnection,
    name: &str,
) -> Result<(), CliError> {
    let operator = client.call("GET", &path(name), None)?.value;
    let filter = format!("/tokens?operator={}", query_value(name));
    let tokens = client.call("GET", &filter, None)?.value;
    let both = json!({"operator": operator, "tokens": tokens}).to_string();
    connection.print(&both, || {
        print_operators(slice::from_ref(&operator));
        println!();
        tokens::print_tokens(entries(&tokens));
    });
    Ok(())
}

fn print_operators(operators: &[Value]) {
    let mut table = Table::new([
        ("operator", Align::Left),
        ("roles", Align::Left),
        ("permissions", Align::Left),
        ("status", Align::Left),
        ("tokens", Align::Right),
        ("added", Align::Left),
    ]);
    for operator in operators {
        let is_active = operator["isActive"] == json!(true);
        table.add([
            member(operator, "name"),
            member(operator, "roles"),
            member(operator, "permissions"),
            if is_active { "active" } else { "disabled" }.to_owned(),
            member(operator, "tokens"),
            member(operator, "createdDate"),
        ]);
    }
    table.print();
}
