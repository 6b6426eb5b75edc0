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

use std::path::PathBuf;

use ledger::{Amount, Currency, FspName, Stamp};
use operations::{EntryDetail, ParticipantStatementRequest, StatementFormat, StatementPeriod};
use serde_json::Value;

use crate::CliError;
use crate::cli::admin_address::AdminAddress;
use crate::cli::stdout::{moment, print_json};
use crate::cli::units::counted;
use crate::inspect::replay::Until;
use crate::inspect::statements::{compute_all_offline, participants_of};
use crate::operate::reconcile::bank::{BankStatement, Holder, NOT_COMPARED, SETTLEMENT};
use crate::operate::reconcile::matching::{
    Comparison, Holders, Movement, SettlementAccount, SwitchView, compare,
};
use crate::operate::statement::{StatementClient, query, times};

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi reconcile --bank statement.xml --token data/admin-token
  upesi reconcile --bank statement.csv --currency USD --from 2026-05-01T00:00:00Z \\
      --to 2026-05-02T00:00:00Z --data /var/lib/upesi
  upesi reconcile --bank monday.xml --bank tuesday.xml --participant greenbank \\
      --account DE89370400440532013000=greenbank --json
Columns of a CSV file: date, reference, participant or account, amount, currency, and direction
(credit or debit). A row with the reference \"closing balance\" is one.
Exit codes: 0 equal, 1 differences, 2 nothing was compared, as after a file that cannot be read.";

/// Arguments of `reconcile`.
#[derive(clap::Args)]
pub(crate) struct ReconcileArguments {
    /// Statement of the settlement bank: camt.053 of any version, or CSV (repeatable).
    #[arg(long, value_name = "FILE", required = true)]
    bank: Vec<PathBuf>,
    /// Account at the bank and its participant, such as DE12=greenbank (repeatable).
    ///
    /// Other accounts are known by the name of their owner, or by the number of the SETTLEMENT
    /// account.
    #[arg(long, value_name = "ACCOUNT=PARTICIPANT", value_parser = account_of)]
    account: Vec<(String, FspName)>,
    /// Only this participant (repeatable).
    #[arg(long, value_name = "NAME", value_parser = super::statement::participant_name)]
    participant: Vec<FspName>,
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
    #[command(flatten)]
    switch: AdminAddress,
    /// Read the log in this directory, instead of asking a switch. One may be running on it.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

fn account_of(text: &str) -> Result<(String, FspName), String> {
    let parts = text.split_once('=').filter(|(account, _)| !account.is_empty());
    let parts = parts.and_then(|(account, name)| Some((account.to_owned(), FspName::new(name)?)));
    parts.ok_or_else(|| "expected ACCOUNT=PARTICIPANT".into())
}

pub(crate) fn reconcile(arguments: &ReconcileArguments) -> Result<(), CliError> {
    let comparison = arguments.compare().map_err(|error| error.with_code(NOT_COMPARED))?;
    match arguments.json {
        true => print_json(&comparison)?,
        false => print!("{comparison}"),
    }
    match comparison.differences() {
        0 => Ok(()),
        count => {
            let differences = counted(count as u64, "difference");
            Err(CliError::new(format!("{}: {differences}", arguments.files().join(", "))))
        }
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
    let is_wanted = |it: Currency, date: &String| {
        currency.is_none_or(|wanted| wanted == it)
            && first.as_ref().is_none_or(|first| first <= date)
            && last.as_ref().is_none_or(|last| date <= last)
    };
    bank.closings.retain(|balance| is_wanted(balance.currency, &balance.date));
    bank.entries.retain(|entry| is_wanted(entry.currency, &entry.date));
    bank
}

impl ReconcileArguments {
    fn files(&self) -> Vec<String> {
        self.bank.iter().map(|path| path.display().to_string()).collect()
    }

    fn compare(&self) -> Result<Comparison, CliError> {
        let period = times(self.from, self.to)?;
        let mut bank = selected(bank_file::read_all(&self.bank)?, self.currency, period);
        let switch = self.switch_view(period)?;
        let named = self.account.iter();
        let named = named.map(|(account, name)| (account.clone(), name.to_string())).collect();
        let holders = Holders { named: &named, accounts: &switch.accounts };
        let is_wanted = |holder: &Holder, currency: Currency| {
            let name = holders.participant(holder, &currency.to_string());
            self.is_wanted(&name)
        };
        bank.closings.retain(|balance| is_wanted(&balance.holder, balance.currency));
        bank.entries.retain(|entry| is_wanted(&entry.holder, entry.currency));
        bank.skipped.retain(|it| self.is_wanted(it.holder.participant.as_deref().unwrap_or("")));
        Ok(compare((&bank, &self.files()), &switch, &holders))
    }

    fn is_wanted(&self, participant: &str) -> bool {
        self.participant.is_empty() || self.participant.iter().any(|it| it.as_str() == participant)
    }

    /// Refuses names in the arguments that are not among the participants.
    fn check_names(&self, known: &[FspName]) -> Result<(), CliError> {
        let accounts = self.account.iter();
        let accounts =
            accounts.map(|(account, name)| (format!("--account {account}={name}"), name));
        let names = self.participant.iter().map(|name| (format!("--participant {name}"), name));
        let unknown = accounts.chain(names).find(|(_, name)| !known.contains(name));
        match unknown {
            None => Ok(()),
            Some((option, name)) => {
                Err(CliError::new(format!("{option}: participant {name} not found")))
            }
        }
    }

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
            let known = participants_of(data)?;
            self.check_names(&known)?;
            let wanted = known.into_iter().filter(|name| self.is_wanted(name.as_str()));
            for statement in compute_all_offline(data, wanted.map(request).collect())? {
                let json = statement.write(StatementFormat::Json);
                let json = json.map_err(|error| CliError::new(error.to_string()))?;
                view.add(&super::statement::parsed(&json)?);
            }
            return Ok(view);
        }
        let mut client = StatementClient::at(&self.switch)?;
        let participants = super::statement::parsed(&client.fetch("/participants")?)?;
        let participants = participants.as_array().into_iter().flatten();
        let participants = participants.filter(|it| has_settlement_account(it));
        let known: Vec<_> =
            participants.filter_map(|it| it["name"].as_str().and_then(FspName::new)).collect();
        self.check_names(&known)?;
        for name in known.into_iter().filter(|name| self.is_wanted(name.as_str())) {
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
