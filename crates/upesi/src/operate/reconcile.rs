//! `upesi reconcile`: compares the statement of the settlement bank with the movements of the
//! SETTLEMENT accounts.
//!
//! Costs: the statements of all participants, see [`crate::inspect::statements`]. A running switch
//! computes one after the other; with `--data` all come from one pass over the log.

mod bank;
mod bank_file;
mod camt053;
mod csv_file;
mod matching;
mod print;

use std::collections::BTreeMap;
use std::path::PathBuf;

use ledger::{Amount, Currency, FspName, Stamp};
use operations::{EntryDetail, ParticipantStatementRequest, StatementFormat, StatementPeriod};
use serde_json::Value;

use crate::CliError;
use crate::cli::stdout::{moment, print_json};
use crate::inspect::replay::Until;
use crate::inspect::statements::{compute_all_offline, participants_of};
use crate::operate::reconcile::bank::BankStatement;
use crate::operate::reconcile::matching::{
    Comparison, Holders, Movement, SettlementAccount, SwitchView, compare,
};
use crate::operate::statement::{StatementClient, query, times};

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi reconcile --bank statement.xml --token data/admin-token
  upesi reconcile --bank statement.csv --currency USD --from 2026-05-01T00:00:00Z \\
      --to 2026-05-02T00:00:00Z --data /var/lib/upesi
  upesi reconcile --bank statement.xml --account DE89370400440532013000=greenbank --json
Columns of a CSV file: date, reference, participant or account, amount, currency, and direction
(credit or debit). A row with the reference \"closing balance\" is one.
Exit codes: 0 equal, 1 differences, 2 a file that cannot be read.";

/// Arguments of `reconcile`.
#[derive(clap::Args)]
pub(crate) struct ReconcileArguments {
    /// Statement of the settlement bank: camt.053 of any version, or CSV.
    #[arg(long, value_name = "FILE")]
    bank: PathBuf,
    /// Account at the bank and its participant, such as DE12=greenbank (repeatable).
    ///
    /// Other accounts are known by the name of their owner, or by the number of the SETTLEMENT
    /// account.
    #[arg(long, value_name = "ACCOUNT=PARTICIPANT", value_parser = account_of)]
    account: Vec<(String, String)>,
    /// Only this currency.
    #[arg(long, value_name = "CODE", value_parser = super::statement::currency)]
    currency: Option<Currency>,
    /// First time of the period, such as 2026-05-01T00:00:00Z.
    #[arg(long, value_name = "TIME")]
    from: Option<Until>,
    /// Time before which the period ends.
    #[arg(long, value_name = "TIME")]
    to: Option<Until>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Address of the switch's admin API.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:3001")]
    admin: String,
    /// File with the admin token: admin-token in the data directory.
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// Read the log in this directory, instead of asking a switch. One may be running on it.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

fn account_of(text: &str) -> Result<(String, String), String> {
    let parts = text
        .split_once('=')
        .filter(|(account, name)| !account.is_empty() && FspName::new(name).is_some());
    let parts = parts.map(|(account, name)| (account.to_owned(), name.to_owned()));
    parts.ok_or_else(|| "expected ACCOUNT=PARTICIPANT".into())
}

pub(crate) fn reconcile(arguments: &ReconcileArguments) -> Result<(), CliError> {
    let (from, to) = times(arguments.from, arguments.to)?;
    let bank = selected(bank_file::read(&arguments.bank)?, arguments.currency, (from, to));
    let switch = arguments.switch_view((from, to))?;
    let named: BTreeMap<_, _> = arguments.account.iter().cloned().collect();
    let holders = Holders { named: &named, accounts: &switch.accounts };
    let comparison: Comparison = compare(&bank, &switch, &holders);
    match arguments.json {
        true => print_json(&comparison)?,
        false => print!("{comparison}"),
    }
    match comparison.differences() {
        0 => Ok(()),
        count => Err(CliError::new(format!("{}: {count} differences", arguments.bank.display()))),
    }
}

/// The bank's entries in a currency, whose dates are within the period.
fn selected(
    mut bank: BankStatement,
    currency: Option<Currency>,
    (from, to): (Option<Stamp>, Option<Stamp>),
) -> BankStatement {
    let day = |stamp: Stamp| moment(stamp)[..10].to_owned();
    let first = from.map(day);
    // The period ends before this time.
    let last = to.map(|to| day(Stamp(to.0.saturating_sub(1))));
    let is_wanted = |it: Currency| currency.is_none_or(|wanted| wanted == it);
    bank.closings.retain(|balance| is_wanted(balance.currency));
    bank.entries.retain(|entry| {
        is_wanted(entry.currency)
            && first.as_ref().is_none_or(|first| *first <= entry.date)
            && last.as_ref().is_none_or(|last| entry.date <= *last)
    });
    bank
}

impl ReconcileArguments {
    fn switch_view(
        &self,
        (from, to): (Option<Stamp>, Option<Stamp>),
    ) -> Result<SwitchView, CliError> {
        let period = StatementPeriod::Times { from, to };
        let request = |participant| ParticipantStatementRequest {
            participant,
            currency: self.currency,
            period,
            detail: EntryDetail::Summed,
        };
        let mut view = SwitchView::default();
        if let Some(data) = &self.data {
            let requests = participants_of(data)?.into_iter().map(request).collect();
            for statement in compute_all_offline(data, requests)? {
                let json = statement.write(StatementFormat::Json);
                let json = json.map_err(|error| CliError::new(error.to_string()))?;
                view.add(&super::statement::parsed(&json)?);
            }
            return Ok(view);
        }
        let mut client = StatementClient::at(&self.admin, self.token.as_deref())?;
        let participants = super::statement::parsed(&client.fetch("/participants")?)?;
        for participant in participants.as_array().into_iter().flatten() {
            let name = participant["name"].as_str().and_then(FspName::new);
            let Some(name) = name.filter(|_| has_settlement_account(participant)) else { continue };
            let path = query(&request(name), StatementFormat::Json);
            view.add(&super::statement::parsed(&client.fetch(&path)?)?);
        }
        Ok(view)
    }
}

fn has_settlement_account(participant: &Value) -> bool {
    let mut accounts = participant["accounts"].as_array().into_iter().flatten();
    accounts.any(|account| account["ledgerAccountType"] == SETTLEMENT)
}

/// The type of the accounts that are compared.
const SETTLEMENT: &str = "SETTLEMENT";

impl SwitchView {
    /// Adds the SETTLEMENT accounts of a statement.
    fn add(&mut self, statement: &Value) {
        let accounts = statement["accounts"].as_array().into_iter().flatten();
        for account in accounts.filter(|it| it["ledgerAccountType"] == SETTLEMENT) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (participant, currency) =
                (text(&account["participant"]), text(&account["currency"]));
            for entry in account["entries"].as_array().into_iter().flatten() {
                self.movements.push(Movement {
                    participant: participant.clone(),
                    currency: currency.clone(),
                    date: text(&entry["time"]).chars().take(10).collect(),
                    amount: -amount(&entry["amount"]),
                    cause: text(&entry["cause"]),
                    log_index: entry["logIndex"].as_u64().unwrap_or_default(),
                    transfer: entry["transferId"].as_str().map(str::to_owned),
                    reference: entry["externalReference"].as_str().map(str::to_owned),
                });
            }
            self.accounts.push(SettlementAccount {
                participant,
                account: account["accountId"].to_string(),
                currency,
                closing: -amount(&account["closing"]["booked"]),
            });
        }
    }
}

/// An amount of a statement, which is always a decimal.
fn amount(value: &Value) -> Amount {
    value.as_str().and_then(Amount::parse_decimal).unwrap_or_default()
}
