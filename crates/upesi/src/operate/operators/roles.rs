//! `upesi role`: roles of operators.

use std::slice;

use serde_json::{Value, json};

use crate::CliError;
use crate::cli::admin_client::{AdminClient, AdminConnection, entries, member};
use crate::cli::table::{Align, Table};

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi role list
  upesi role set treasury --permission read --permission finance
  upesi role remove treasury

Permissions:
  read      all reads that another permission does not guard
  operate   participants, accounts, endpoints, parties, oracles, dead letters, snapshots
  finance   funds, caps, fee rules, settlement models, windows, settlements
  security  public keys, operators, roles, tokens
  audit     unmasked messages, transaction objects, hashes of the state, the audit trail";

/// Arguments of `role`.
#[derive(clap::Args)]
pub(crate) struct RoleArguments {
    #[command(subcommand)]
    command: RoleCommand,
    #[command(flatten)]
    connection: AdminConnection,
}

#[derive(clap::Subcommand)]
enum RoleCommand {
    /// List the built-in roles and the defined ones.
    List,
    /// Define a role, or replace its permissions for all who have it.
    Set(SetArguments),
    /// Remove a role that no operator and no token has.
    Remove(NameArgument),
}

#[derive(clap::Args)]
struct NameArgument {
    /// Name of the role.
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(clap::Args)]
struct SetArguments {
    #[command(flatten)]
    role: NameArgument,
    /// A permission; can be given several times.
    #[arg(long = "permission", value_name = "PERMISSION", required = true)]
    permissions: Vec<String>,
}

pub(crate) fn role(arguments: &RoleArguments) -> Result<(), CliError> {
    let RoleArguments { command, connection } = arguments;
    let mut client = AdminClient::new(connection)?;
    match command {
        RoleCommand::List => {
            let answer = client.call("GET", "/roles", None)?;
            connection.print(&answer.text, || print_roles(entries(&answer.value)));
        }
        RoleCommand::Set(SetArguments { role, permissions }) => {
            let body = json!({"permissions": permissions});
            let answer = client.call("PUT", &path(&role.name), Some(&body))?;
            connection.print(&answer.text, || print_roles(slice::from_ref(&answer.value)));
        }
        RoleCommand::Remove(NameArgument { name }) => {
            client.call("DELETE", &path(name), None)?;
            let removed = json!({"removed": name}).to_string();
            connection.print(&removed, || println!("removed role {name}"));
        }
    }
    Ok(())
}

fn path(name: &str) -> String {
    format!("/roles/{}", fspiop::percent_encode(name))
}

fn print_roles(roles: &[Value]) {
    let columns = [("role", Align::Left), ("permissions", Align::Left), ("", Align::Left)];
    let mut table = Table::new(columns);
    for role in roles {
        let is_built_in = role["isBuiltIn"] == json!(true);
        let kind = if is_built_in { "built in" } else { "" };
        table.add([member(role, "name"), member(role, "permissions"), kind.to_owned()]);
    }
    table.print();
}
