//! Statements as JSON. Amounts are texts, so that no reader loses digits.

use ledger::{AccountKind, Amount, Currency};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::responses::Timestamp;
use crate::schema::{self, Content, Schema, response_type};
use crate::statements::statement::{
    AccountStatement, Balance, Entry, LogPoint, Statement, StatementError, Total,
};

/// The kinds of statements.
const KINDS: [&str; 3] = ["window", "settlement", "participant"];

/// An amount as a text.
#[derive(Clone, Copy, Debug)]
struct AmountText(Amount);

impl Serialize for AmountText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl Schema for AmountText {
    fn schema() -> Value {
        json!({"type": "string", "pattern": "^-?[0-9]+(\\.[0-9]{1,4})?$"})
    }
}

response_type! {
    /// A statement. Amounts have the signs of the ledger: above zero the account owes.
    pub(crate) struct StatementResponse as "Statement" {
        kind: &'static str = schema::one_of(&KINDS),
        /// Number of the window or settlement, or name of the participant.
        id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        state: Option<&'static str> = schema::any_text(),
        #[serde(skip_serializing_if = "Option::is_none")]
        settlement_model: Option<String>,
        /// The opening balances hold after this record,
        from: LogPointResponse,
        /// and the closing balances after this one.
        to: LogPointResponse,
        accounts: Vec<AccountStatementResponse>,
        totals: Vec<TotalResponse>,
    }
}

response_type! {
    /// A record of the log.
    struct LogPointResponse {
        log_index: u64,
        time: Timestamp,
    }
}

response_type! {
    /// An account in a statement.
    struct AccountStatementResponse {
        participant: String,
        account_id: u32,
        ledger_account_type: &'static str,
        currency: String = schema::currency(),
        opening: BalanceResponse,
        entries: Vec<EntryResponse>,
        closing: BalanceResponse,
        #[serde(skip_serializing_if = "Option::is_none")]
        state: Option<&'static str> = schema::any_text(),
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        external_reference: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        changed_date: Option<Timestamp>,
    }
}

response_type! {
    /// A balance. The sum is the balance in the ledger.
    struct BalanceResponse {
        booked: AmountText,
        reserved: AmountText,
    }
}

response_type! {
    /// A movement, or the sum of several with one cause.
    struct EntryResponse {
        cause: String,
        amount: AmountText,
        count: u64,
        /// The last record of the movements.
        log_index: u64,
        time: Timestamp,
        #[serde(skip_serializing_if = "Option::is_none")]
        window_id: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        settlement_id: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        transfer_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        external_reference: Option<String>,
    }
}

response_type! {
    /// The sums of the accounts of one type in one currency.
    struct TotalResponse {
        currency: String = schema::currency(),
        ledger_account_type: &'static str,
        debits: AmountText,
        credits: AmountText,
        net: AmountText,
    }
}

impl StatementResponse {
    pub(crate) fn of(statement: &Statement) -> Result<Self, StatementError> {
        let Statement { subject, from, to, accounts } = statement;
        let totals = statement.totals()?;
        let model = match subject {
            super::StatementSubject::Settlement { model, .. } => Some(model.clone()),
            _ => None,
        };
        Ok(Self {
            kind: subject.kind(),
            id: subject.id(),
            state: subject.state(),
            settlement_model: model,
            from: LogPointResponse::of(*from),
            to: LogPointResponse::of(*to),
            accounts: accounts.iter().map(AccountStatementResponse::of).collect(),
            totals: totals.iter().map(|(of, total)| TotalResponse::of(*of, total)).collect(),
        })
    }
}

/// A statement in any form.
pub(crate) struct AnyForm;

impl Schema for AnyForm {
    const CONTENT: Content = Content::OneOrText(
        (StatementResponse::NAME, StatementResponse::schema),
        &["text/csv", "application/xml"],
    );

    fn schema() -> Value {
        StatementResponse::schema()
    }
}

impl LogPointResponse {
    const fn of(at: LogPoint) -> Self {
        Self { log_index: at.log_index.0, time: Timestamp(at.stamp) }
    }
}

impl AccountStatementResponse {
    fn of(account: &AccountStatement) -> Self {
        let part = account.part.as_ref();
        let reference = part.map(|part| part.external_reference.clone());
        Self {
            participant: account.participant.clone(),
            account_id: account.account.0,
            ledger_account_type: kind_name(account.kind),
            currency: account.currency.to_string(),
            opening: BalanceResponse::of(account.opening),
            entries: account.entries.iter().map(EntryResponse::of).collect(),
            closing: BalanceResponse::of(account.closing),
            state: part.map(|part| part.state.name()),
            reason: part.map(|part| part.reason.clone()),
            external_reference: reference.filter(|text| !text.is_empty()),
            changed_date: part.map(|part| Timestamp(part.changed)),
        }
    }
}

impl BalanceResponse {
    const fn of(balance: Balance) -> Self {
        Self { booked: AmountText(balance.booked), reserved: AmountText(balance.reserved) }
    }
}

impl EntryResponse {
    fn of(entry: &Entry) -> Self {
        Self {
            cause: entry.cause.clone(),
            amount: AmountText(entry.amount),
            count: entry.count,
            log_index: entry.at.log_index.0,
            time: Timestamp(entry.at.stamp),
            window_id: entry.window.map(|id| id.0),
            settlement_id: entry.settlement.map(|id| id.0),
            transfer_id: entry.transfer.map(|id| id.to_string()),
            external_reference: entry.reference.clone(),
        }
    }
}

impl TotalResponse {
    fn of((currency, kind): (Currency, AccountKind), total: &Total) -> Self {
        Self {
            currency: currency.to_string(),
            ledger_account_type: kind_name(kind),
            debits: AmountText(total.debits),
            credits: AmountText(total.credits),
            net: AmountText(total.net),
        }
    }
}

/// The name of an account type. No statement has internal accounts.
pub(crate) fn kind_name(kind: AccountKind) -> &'static str {
    kind.name().unwrap_or("INTERNAL")
}
