//! `upesi proposal` and `upesi four-eyes`: changes that need a second operator, on a running
//! switch, through its admin API.

use std::path::PathBuf;

use harness::Admin;
use serde_json::{Value, json};

use crate::CliError;
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

const GROUPS: [&str; 7] =
    ["funds", "limits", "settlements", "models", "keys", "participants", "roles"];

/// The running switch that a command calls.
#[derive(clap::Args)]
struct AdminAddress {
    /// Address of the switch's admin API.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:3001", global = true)]
    admin: String,
    /// File with your token as an operator.
    #[arg(long, value_name = "FILE", global = true)]
    token: Option<PathBuf>,
    /// Print the answer of the switch as JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// Arguments of `proposal`.
#[derive(clap::Args)]
pub(crate) struct ProposalArguments {
    #[command(subcommand)]
    command: ProposalCommand,
    #[command(flatten)]
    at: AdminAddress,
}

#[derive(clap::Subcommand)]
enum ProposalCommand {
    /// List proposed changes, newest first.
    List(ListArguments),
    /// Show a proposed change.
    Show(IdArgument),
    /// Approve a proposed change, which makes it.
    Approve(DecisionArguments),
    /// Reject a proposed change, or withdraw your own.
    Reject(DecisionArguments),
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

#[derive(clap::Args)]
struct DecisionArguments {
    #[command(flatten)]
    proposal: IdArgument,
    /// Reason, for the proposal and the audit trail.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Arguments of `four-eyes`.
#[derive(clap::Args)]
pub(crate) struct FourEyesArguments {
    #[command(subcommand)]
    command: FourEyesCommand,
    #[command(flatten)]
    at: AdminAddress,
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

pub(crate) fn proposal(arguments: &ProposalArguments) -> Result<(), CliError> {
    let mut api = Api::at(&arguments.at)?;
    match &arguments.command {
        ProposalCommand::List(ListArguments { state }) => {
            let filter = if state == "ALL" { String::new() } else { format!("?state={state}") };
            api.print("GET", &format!("/proposals{filter}"), None, print_list)
        }
        ProposalCommand::Show(IdArgument { id }) => {
            api.print("GET", &format!("/proposals/{id}"), None, print_proposal)
        }
        ProposalCommand::Approve(decision) => api.decide(decision, "approve"),
        ProposalCommand::Reject(decision) => api.decide(decision, "reject"),
    }
}

pub(crate) fn four_eyes(arguments: &FourEyesArguments) -> Result<(), CliError> {
    let mut api = Api::at(&arguments.at)?;
    match &arguments.command {
        FourEyesCommand::Show => api.print("GET", "/fourEyes", None, print_four_eyes),
        FourEyesCommand::Set(SetArguments { groups, .. }) => {
            let body = json!({ "groups": groups });
            api.print("PUT", "/fourEyes", Some(&body), |answer| match proposed(answer) {
                Some(text) => format!("{text}\n"),
                None => print_four_eyes(answer),
            })
        }
    }
}

/// The sentence about a proposal that a switch answered a change with.
pub(crate) fn proposed(answer: &Value) -> Option<String> {
    let id = answer["proposalId"].as_u64().filter(|_| answer["state"] == "OPEN")?;
    let until = answer["expirationDate"].as_str().unwrap_or_default();
    Some(format!(
        "proposed as {id}, not done yet; another operator approves it until {until} with `upesi \
         proposal approve {id}`"
    ))
}

struct Api<'a> {
    admin: Admin,
    has_token: bool,
    at: &'a AdminAddress,
}

impl<'a> Api<'a> {
    fn at(at: &'a AdminAddress) -> Result<Self, CliError> {
        let token = at.token.as_deref();
        let admin =
            Admin::at(&at.admin, token).map_err(|error| CliError::new(error.to_string()))?;
        Ok(Self { admin, has_token: token.is_some(), at })
    }

    fn decide(&mut self, decision: &DecisionArguments, end: &str) -> Result<(), CliError> {
        let path = format!("/proposals/{}/{end}", decision.proposal.id);
        let body = decision.reason.as_ref().map_or(json!({}), |reason| json!({"reason": reason}));
        self.print("POST", &path, Some(&body), print_proposal)
    }

    /// Prints the answer to a request, as the switch wrote it or in words.
    fn print(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        words: impl Fn(&Value) -> String,
    ) -> Result<(), CliError> {
        let body = body.map(Value::to_string);
        let answer = self.admin.call(method, path, body.as_deref());
        let answer = answer.map_err(|error| CliError::new(error.to_string()))?;
        let text = String::from_utf8_lossy(&answer.body);
        let value = serde_json::from_str::<Value>(&text).unwrap_or(Value::Null);
        if !(200..300).contains(&answer.status) {
            let described = value["errorInformation"]["errorDescription"].as_str();
            let is_unknown = answer.status == 401 && !self.has_token;
            let hint = if is_unknown { "; name the file of your token with --token" } else { "" };
            let text = described.unwrap_or("no description");
            let status = answer.status;
            return Err(CliError::new(format!("{method} {path}: status {status}: {text}{hint}")));
        }
        match self.at.json {
            true => println!("{text}"),
            false => print!("{}", words(&value)),
        }
        Ok(())
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn print_list(answer: &Value) -> String {
    let all = answer.as_array().map_or(&[][..], Vec::as_slice);
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
                .map(|member| text(&it[member])),
        );
    }
    table.to_string()
}

fn print_proposal(answer: &Value) -> String {
    let mut lines = Vec::new();
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("  {name:<12}{value}\n"));
        }
    };
    add("proposal", format!("{}, {}", text(&answer["proposalId"]), text(&answer["state"])));
    add("change", text(&answer["description"]));
    add("request", text(&answer["request"]));
    add("reason", text(&answer["reason"]));
    add(
        "proposed",
        format!("{} by {}", text(&answer["proposedDate"]), text(&answer["proposedBy"])),
    );
    add("open until", text(&answer["expirationDate"]));
    add("permission", text(&answer["permission"]));
    let decision = &answer["decision"];
    if !decision.is_null() {
        let decided = [&decision["decidedDate"], &decision["decidedBy"]].map(text);
        add("decided", format!("{} by {}", decided[0], decided[1]));
        add("because", text(&decision["reason"]));
        let result = if decision["isMade"] == true { "made" } else { "not made" };
        add("result", format!("{result}: {}", text(&decision["outcome"])));
    }
    lines.concat()
}

fn print_four_eyes(answer: &Value) -> String {
    let list = |member: &str| {
        let all = answer[member].as_array().map_or(&[][..], Vec::as_slice);
        let names: Vec<_> = all.iter().map(text).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    format!(
        "  groups          {}\n  changes         {}\n  open proposals  {}\n",
        list("groups"),
        list("changes"),
        text(&answer["openProposals"])
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
        let text =
            format!(".\n{}{}", print_list(&json!([approved()])), print_proposal(&approved()));
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
        assert_eq!(print_list(&json!([])), "no such proposals\n");
    }

    #[test]
    fn open_proposals_are_announced() {
        let mut open = approved();
        assert_eq!(proposed(&open), None);
        open["state"] = json!("OPEN");
        let text = proposed(&open).expect("it is open");
        assert!(text.starts_with("proposed as 17, not done yet; another operator"), "{text}");
        assert_eq!(proposed(&json!({"id": 1})), None);
    }

    #[test]
    fn lists_are_shown() {
        let text = print_four_eyes(&json!({"groups": ["funds", "roles"], "changes": [],
            "openProposals": 2}));
        assert_eq!(
            text,
            "  groups          funds, roles\n  changes         none\n  \
            open proposals  2\n"
        );
    }
}
