//! `upesi funds`: deposits and withdrawals of participants, through the admin API of a running
//! switch.

use ledger::{Amount, Currency, FspName, TransferId};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::CliError;
use crate::cli::admin_client::{AdminClient, AdminConnection, entries, member};
use crate::cli::admin_get::query_value;
use crate::cli::table::{Align, Table};
use crate::operate::apply::scheme::{amount_of, currency_of, participant_name};

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi funds in greenbank 500000 --reference 'advice 4711'
  upesi funds out greenbank 20000 --currency KES --reason 'withdrawal of 3 May'
  upesi funds list
  upesi funds commit b51ec534-ee48-4575-b6a9-000000000001 --reason 'paid out'
  upesi funds abort b51ec534-ee48-4575-b6a9-000000000001 --reason 'returned by the bank'
The same command with the same --id moves the funds once. A second `commit` changes nothing.";

/// Arguments of `funds`.
#[derive(clap::Args)]
pub(crate) struct FundsArguments {
    #[command(subcommand)]
    command: FundsCommand,
    #[command(flatten)]
    connection: AdminConnection,
}

#[derive(clap::Subcommand)]
enum FundsCommand {
    /// Record a deposit: the liquidity cover of the participant rises.
    In(MoveArguments),
    /// Reserve a withdrawal, which `commit` or `abort` ends.
    ///
    /// The cover of the participant falls at once. Refused if less is left than the participant
    /// owes.
    Out(MoveArguments),
    /// Commit a reserved withdrawal, once the bank has paid it.
    Commit(EndArguments),
    /// Abort a reserved withdrawal: the cover rises again.
    Abort(EndArguments),
    /// List reserved withdrawals, oldest first.
    List(ListArguments),
}

#[derive(clap::Args)]
struct MoveArguments {
    /// Name of the participant.
    #[arg(value_name = "NAME", value_parser = participant_name)]
    name: FspName,
    /// Amount, with at most four decimals.
    #[arg(value_name = "AMOUNT", value_parser = amount_of)]
    amount: Amount,
    /// Currency [default: the only one of the participant].
    #[arg(long, value_name = "CODE", value_parser = currency_of)]
    currency: Option<Currency>,
    /// Id of the movement, a lower-case UUID or a ULID [default: a new one].
    #[arg(long, value_name = "ID", value_parser = id_of)]
    id: Option<TransferId>,
    /// Reference of the bank, recorded with the reason.
    #[arg(long, value_name = "TEXT", default_value = "none")]
    reference: String,
}

#[derive(clap::Args)]
struct EndArguments {
    /// Id of the withdrawal, see `upesi funds list`.
    #[arg(value_name = "ID", value_parser = id_of)]
    id: TransferId,
}

#[derive(clap::Args)]
struct ListArguments {
    /// Only this participant.
    #[arg(long, value_name = "NAME")]
    participant: Option<String>,
}

/// A reserved withdrawal; amounts keep their digits.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FundsOut {
    transfer_id: String,
    participant: String,
    account_id: u32,
    currency: String,
    amount: Box<RawValue>,
    reserved_date: String,
    log_index: u64,
}

pub(crate) fn funds(arguments: &FundsArguments) -> Result<(), CliError> {
    let FundsArguments { command, connection } = arguments;
    let mut client = AdminClient::new(connection)?;
    match command {
        FundsCommand::In(movement) => {
            let id = begin(&mut client, connection, (movement, "recordFundsIn"))?;
            let MoveArguments { name, amount, .. } = movement;
            done(
                connection,
                (&id, name),
                &format!("recorded funds in of {amount} of {name}: {id}"),
            );
        }
        FundsCommand::Out(movement) => {
            let action = "recordFundsOutPrepareReserve";
            let id = begin(&mut client, connection, (movement, action))?;
            let MoveArguments { name, amount, .. } = movement;
            if find(&mut client, &id)?.is_none() {
                return Err(CliError::new(format!(
                    "{name}: the withdrawal of {amount} was refused, or {id} has ended; see \
                     `upesi liquidity --participant {name}`"
                )));
            }
            let text = format!(
                "reserved funds out of {amount} of {name}; end it with `upesi funds commit {id}` \
                 or `upesi funds abort {id}`"
            );
            done(connection, (&id, name), &text);
        }
        FundsCommand::Commit(EndArguments { id }) => {
            end(&mut client, connection, (id, "recordFundsOutCommit"))?;
        }
        FundsCommand::Abort(EndArguments { id }) => {
            end(&mut client, connection, (id, "recordFundsOutAbort"))?;
        }
        FundsCommand::List(ListArguments { participant }) => {
            let filter = participant.as_ref().map(|it| format!("?participant={}", query_value(it)));
            let path = format!("/fundsOut{}", filter.unwrap_or_default());
            let answer = client.call("GET", &path, None)?;
            let rows = rows(&answer.text)?;
            connection.print(&answer.text, || print_rows(rows));
        }
    }
    Ok(())
}

/// Requests a movement and returns its id.
fn begin(
    client: &mut AdminClient,
    connection: &AdminConnection,
    (movement, action): (&MoveArguments, &str),
) -> Result<TransferId, CliError> {
    let MoveArguments { name, amount, currency, id, reference } = movement;
    let id = id.map_or_else(new_id, Ok)?;
    let (account, currency) = settlement_account(client, name, *currency)?;
    let body = json!({
        "transferId": id.to_string(),
        "externalReference": reference,
        "action": action,
        "reason": connection.reason().unwrap_or("by the operator"),
        "amount": {"amount": amount.to_string(), "currency": currency},
    });
    client.call("POST", &format!("/participants/{name}/accounts/{account}"), Some(&body))?;
    Ok(id)
}

/// The SETTLEMENT account in a currency, or the only one.
fn settlement_account(
    client: &mut AdminClient,
    name: &FspName,
    currency: Option<Currency>,
) -> Result<(u64, String), CliError> {
    let path = format!("/participants/{name}/accounts");
    let answer = client.call("GET", &path, None)?.value;
    let accounts = answer.as_array().into_iter().flatten();
    let wanted = currency.as_ref().map(Currency::as_str);
    let found: Vec<_> = accounts
        .filter(|account| account["ledgerAccountType"] == "SETTLEMENT")
        .filter_map(|account| Some((account["id"].as_u64()?, account["currency"].as_str()?)))
        .filter(|(_, currency)| wanted.is_none_or(|wanted| wanted == *currency))
        .collect();
    match *found {
        [(id, currency)] => Ok((id, currency.to_owned())),
        [] => Err(CliError::new(format!("{name}: it has no SETTLEMENT account in that currency"))),
        _ => Err(CliError::new(format!("--currency: missing; {name} has several currencies"))),
    }
}

fn end(
    client: &mut AdminClient,
    connection: &AdminConnection,
    (id, action): (&TransferId, &str),
) -> Result<(), CliError> {
    let Some(FundsOut { participant, account_id, .. }) = find(client, id)? else {
        return repeated_end(client, connection, (id, action));
    };
    let path = format!("/participants/{participant}/accounts/{account_id}/transfers/{id}");
    let reason = connection.reason().unwrap_or("by the operator");
    client.call("PUT", &path, Some(&json!({"action": action, "reason": reason})))?;
    let verb = ended_as(action);
    done(connection, (id, &participant), &format!("{verb} funds out {id} of {participant}"));
    Ok(())
}

fn ended_as(action: &str) -> &'static str {
    if action == "recordFundsOutCommit" { "committed" } else { "aborted" }
}

/// The end of a withdrawal that is not reserved any more: it has succeeded if the withdrawal ended
/// like this before.
fn repeated_end(
    client: &mut AdminClient,
    connection: &AdminConnection,
    (id, action): (&TransferId, &str),
) -> Result<(), CliError> {
    let path = format!("/transfers/{id}/explanation");
    let (status, answer) = client.status_of("GET", &path, None)?;
    let end = earlier_end(&answer.value).filter(|_| status == 200);
    let Some(EarlierEnd { participant, verb, time }) = end else {
        return Err(CliError::new(format!("{id}: it is not a reserved withdrawal")));
    };
    if verb != ended_as(action) {
        return Err(CliError::new(format!(
            "{id}: nothing was changed; the withdrawal of {participant} was {verb} at {time}"
        )));
    }
    let text = format!("funds out {id} of {participant}: already {verb} at {time}; nothing to do");
    done(connection, (id, &participant), &text);
    Ok(())
}

/// How and when a withdrawal ended.
#[derive(Debug, PartialEq, Eq)]
struct EarlierEnd {
    participant: String,
    verb: &'static str,
    time: String,
}

/// The accepted end in the explanation of a withdrawal.
fn earlier_end(explanation: &Value) -> Option<EarlierEnd> {
    let is_accepted = |event: &&Value| event["decision"]["outcome"] == "Accepted";
    let mut ends = entries(&explanation["events"]).iter().filter(is_accepted).filter_map(|event| {
        let change = event["change"].as_str()?.strip_prefix("funds out of ")?;
        let (participant, end) = change.split_once(", ")?;
        let verb = if end.starts_with("commit") { "committed" } else { "aborted" };
        Some(EarlierEnd { participant: participant.to_owned(), verb, time: member(event, "time") })
    });
    ends.next_back()
}

fn find(client: &mut AdminClient, id: &TransferId) -> Result<Option<FundsOut>, CliError> {
    let rows = rows(&client.call("GET", "/fundsOut", None)?.text)?;
    Ok(rows.into_iter().find(|row| row.transfer_id == id.to_string()))
}

fn done(
    connection: &AdminConnection,
    (id, name): (&TransferId, &impl std::fmt::Display),
    text: &str,
) {
    let json = json!({"transferId": id.to_string(), "participant": name.to_string(), "done": text});
    connection.print(&json.to_string(), || println!("{text}"));
}

/// A random UUID.
fn new_id() -> Result<TransferId, CliError> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| CliError::new(error.to_string()))?;
    bytes[6] = 0x40 | bytes[6] & 0x0f;
    bytes[8] = 0x80 | bytes[8] & 0x3f;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    id_of(&parts.join("-")).map_err(CliError::new)
}

fn id_of(text: &str) -> Result<TransferId, String> {
    TransferId::parse(text).ok_or_else(|| "expected a lower-case UUID or a ULID".to_owned())
}

fn rows(text: &str) -> Result<Vec<FundsOut>, CliError> {
    serde_json::from_str(text)
        .map_err(|error| CliError::new(format!("the answer is not a list: {error}")))
}

fn print_rows(rows: Vec<FundsOut>) {
    let mut table = Table::new([
        ("transfer", Align::Left),
        ("participant", Align::Left),
        ("account", Align::Right),
        ("amount", Align::Right),
        ("currency", Align::Left),
        ("reserved", Align::Left),
        ("record", Align::Right),
    ]);
    for row in rows {
        table.add([
            row.transfer_id,
            row.participant,
            row.account_id.to_string(),
            row.amount.to_string(),
            row.currency,
            row.reserved_date,
            row.log_index.to_string(),
        ]);
    }
    table.print();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accepted_end_of_a_withdrawal_is_found() {
        let event = |change: &str, outcome: &str| json!({"time": "noon", "change": change, "decision": {"outcome": outcome}});
        let reserved = event("funds out, reservation: 5 USD of bank", "Accepted");
        let refused = event("funds out of bank, abort", "FundsOutNotReserved");
        let committed = event("funds out of bank, commit (approval of proposal 3)", "Accepted");
        let found = earlier_end(&json!({"events": [reserved, committed, refused]}));
        let (participant, time) = ("bank".to_owned(), "noon".to_owned());
        assert_eq!(found, Some(EarlierEnd { participant, verb: "committed", time }));
        assert_eq!(earlier_end(&json!({"events": [reserved, refused]})), None);
    }

    #[test]
    fn new_ids_are_valid_and_differ() {
        let [first, second] = [0, 1].map(|_| new_id().expect("random bytes"));
        assert_ne!(first, second);
    }
}
