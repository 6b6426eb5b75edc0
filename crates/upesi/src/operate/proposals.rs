//! `upesi proposal` and `upesi four-eyes`: changes that need a second operator, on a running
//! switch, through its admin API.

use std::time::Duration;

use serde_json::{Value, json};

use crate::CliError;
use crate::cli::admin_client::{AdminClient, AdminConnection, entries, member};
use crate::cli::table::{Align, Table};

pub(crate) const PROPOSAL_EXAMPLES: &str = "\
Examples:
  upesi proposal list --token amina.token
  upesi proposal show 17 --token benta.token
  upesi proposal approve 17 --reason 'bank statement 4711' --token benta.token
  upesi proposal reject 17 --reason 'wrong amount' --token benta.token";

pub(crate) const FOUR_EYES_EXAMPLES: &str = "\
Examples:
  upesi four-eyes show --token amina.token
  upesi four-eyes set funds limits roles --token amina.token
  upesi four-eyes set --none --token amina.token";

const GROUPS: [&str; 10] = [
    "funds",
    "limits",
    "settlements",
    "models",
    "keys",
    "participants",
    "parties",
    "rules",
    "erasures",
    "roles",
];

/// Arguments of `proposal`.
#[derive(clap::Args)]
pub(crate) struct ProposalArguments {
    #[command(subcommand)]
    command: ProposalCommand,
    #[command(flatten)]
    connection: AdminConnection,
}

#[derive(clap::Subcommand)]
enum ProposalCommand {
    /// List proposed changes, newest first.
    List(ListArguments),
    /// Show a proposed change.
    Show(IdArgument),
    /// Approve a proposed change, which makes it.
    Approve(IdArgument),
    /// Reject a proposed change, or withdraw your own.
    Reject(IdArgument),
}

#[derive(clap::Args)]
struct ListArguments {
    /// Only proposals in this state.
    #[arg(long, value_name = "STATE", default_value = "OPEN",
        value_parser = ["OPEN", "EXPIRED", "APPROVED", "REJECTED", "WITHDRAWN", "ALL"])]
    state: String,
}

#[derive(clap::Args)]
struct IdArgument {
    /// Number of the proposal.
    #[arg(value_name = "PROPOSAL")]
    id: u32,
}

/// Arguments of `four-eyes`.
#[derive(clap::Args)]
pub(crate) struct FourEyesArguments {
    #[command(subcommand)]
    command: FourEyesCommand,
    #[command(flatten)]
    connection: AdminConnection,
}

#[derive(clap::Subcommand)]
enum FourEyesCommand {
    /// Show which changes need a second operator.
    Show,
    /// Choose which changes need a second operator.
    ///
    /// `roles` is required with every other group: who can add an operator alone could approve
    /// alone. While a group is listed, this is itself a change that needs a second operator.
    Set(SetArguments),
}

#[derive(clap::Args)]
struct SetArguments {
    /// Groups of changes.
    #[arg(value_name = "GROUP", required_unless_present = "none",
        value_parser = GROUPS)]
    groups: Vec<String>,
    /// No change needs a second operator.
    #[arg(long, conflicts_with = "groups")]
    none: bool,
}

/// Longest wait for an answer: the reason for a decision about an erasure is compared with the
/// messages.
const PATIENCE: Duration = Duration::from_mins(30);

pub(crate) fn proposal(arguments: &ProposalArguments) -> Result<(), CliError> {
    let connection = &arguments.connection;
    let mut client = AdminClient::new(connection)?.waiting(PATIENCE);
    let decision = |id: &u32, end: &str| format!("/proposals/{id}/{end}");
    let answer = match &arguments.command {
        ProposalCommand::List(ListArguments { state }) => {
            let filter = if state == "ALL" { String::new() } else { format!("?state={state}") };
            let answer = client.call("GET", &format!("/proposals{filter}"), None)?;
            connection.print(&answer.text, || print!("{}", list(&answer.value)));
            return Ok(());
        }
        ProposalCommand::Show(IdArgument { id }) => {
            client.call("GET", &format!("/proposals/{id}"), None)?
        }
        // The reason is in a header.
        ProposalCommand::Approve(IdArgument { id }) => {
            client.call("POST", &decision(id, "approve"), Some(&json!({})))?
        }
        ProposalCommand::Reject(IdArgument { id }) => {
            client.call("POST", &decision(id, "reject"), Some(&json!({})))?
        }
    };
    connection.print(&answer.text, || print!("{}", details(&answer.value)));
    Ok(())
}

pub(crate) fn four_eyes(arguments: &FourEyesArguments) -> Result<(), CliError> {
    let connection = &arguments.connection;
    let mut client = AdminClient::new(connection)?;
    let answer = match &arguments.command {
        FourEyesCommand::Show => client.call("GET", "/fourEyes", None)?,
        FourEyesCommand::Set(SetArguments { groups, .. }) => {
            client.call("PUT", "/fourEyes", Some(&json!({ "groups": groups })))?
        }
    };
    connection.print(&answer.text, || print!("{}", listed_groups(&answer.value)));
    Ok(())
}

fn list(answer: &Value) -> String {
    let all = entries(answer);
    if all.is_empty() {
        return "no such proposals\n".to_owned();
    }
    let mut table = Table::new([
        ("id", Align::Right),
        ("state", Align::Left),
        ("change", Align::Left),
        ("by", Align::Left),
        ("until", Align::Left),
        ("reason", Align::Left),
    ]);
    for it in all {
        table.add(
            ["proposalId", "state", "description", "proposedBy", "expirationDate", "reason"]
                .map(|name| member(it, name)),
        );
    }
    table.to_string()
}

fn details(answer: &Value) -> String {
    let mut lines = Vec::new();
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("  {name:<12}{value}\n"));
        }
    };
    add("proposal", format!("{}, {}", member(answer, "proposalId"), member(answer, "state")));
    add("change", member(answer, "description"));
    add("request", member(answer, "request"));
    add("reason", member(answer, "reason"));
    add(
        "proposed",
        format!("{} by {}", member(answer, "proposedDate"), member(answer, "proposedBy")),
    );
    add("open until", member(answer, "expirationDate"));
    add("permission", member(answer, "permission"));
    let decision = &answer["decision"];
    if !decision.is_null() {
        let decided = ["decidedDate", "decidedBy"].map(|name| member(decision, name));
        add("decided", format!("{} by {}", decided[0], decided[1]));
        add("because", member(decision, "reason"));
        let outcome = member(decision, "outcome");
        add(
            "result",
            match (decision["isMade"] == true, &*outcome) {
                (true, _) => format!("made: {outcome}"),
                // The decision was accepted, which was not an approval.
                (false, "Accepted") => "not made".to_owned(),
                (false, _) => format!("not made: {outcome}"),
            },
        );
    }
    lines.concat()
}

fn listed_groups(answer: &Value) -> String {
    let list = |name: &str| {
        let names = member(answer, name);
        if names.is_empty() { "none".to_owned() } else { names }
    };
    format!(
        "  groups          {}\n  changes         {}\n  open proposals  {}\n",
        list("groups"),
        list("changes"),
        member(answer, "openProposals")
    )
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn approved() -> Value {
        json!({
            "proposalId": 17, "state": "APPROVED", "change": "MoveFunds", "group": "funds",
            "permission": "finance",
            "description": "funds in: 1000 USD of dfsp1, account 4, transfer t",
            "request": "POST /participants/dfsp1/accounts/4", "reason": "advice 4711",
            "proposedBy": "amina", "proposedDate": "2026-01-01T10:00:00.000Z",
            "expirationDate": "2026-01-02T10:00:00.000Z", "logIndex": 40,
            "decision": {"decidedBy": "benta", "decidedDate": "2026-01-01T11:00:00.000Z",
                "reason": "bank statement", "outcome": "Accepted", "isMade": true, "logIndex": 41}
        })
    }

    #[test]
    fn proposals_are_shown_in_words() {
        let text = format!(".\n{}{}", list(&json!([approved()])), details(&approved()));
        expect![[r#"
            .
              id  state     change                                              by     until                     reason
              17  APPROVED  funds in: 1000 USD of dfsp1, account 4, transfer t  amina  2026-01-02T10:00:00.000Z  advice 4711
              proposal    17, APPROVED
              change      funds in: 1000 USD of dfsp1, account 4, transfer t
              request     POST /participants/dfsp1/accounts/4
              reason      advice 4711
              proposed    2026-01-01T10:00:00.000Z by amina
              open until  2026-01-02T10:00:00.000Z
              permission  finance
              decided     2026-01-01T11:00:00.000Z by benta
              because     bank statement
              result      made: Accepted
        "#]].assert_eq(&text);
        assert_eq!(list(&json!([])), "no such proposals\n");
    }

    #[test]
    fn withdrawn_proposal_has_no_outcome() {
        let mut answer = approved();
        answer["state"] = json!("WITHDRAWN");
        answer["decision"]["isMade"] = json!(false);
        assert!(details(&answer).ends_with("  result      not made\n"));
        answer["decision"]["outcome"] = json!("InsufficientFunds");
        assert!(details(&answer).ends_with("  result      not made: InsufficientFunds\n"));
    }

    #[test]
    fn lists_are_shown() {
        let text = listed_groups(&json!({"groups": ["funds", "roles"], "changes": [],
            "openProposals": 2}));
        assert_eq!(
            text,
            "  groups          funds, roles\n  changes         none\n  \
            open proposals  2\n"
        );
    }
}
