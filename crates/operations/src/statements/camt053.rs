//! Statements as ISO 20022 camt.053.001.08, bank to customer: one `Stmt` per account.
//!
//! Indicators are those of the account's owner: `DBIT` if it owes the amount (above zero in the
//! ledger), `CRDT` if it is owed. `OPBD` and `CLBD` are booked balances; `OPAV` and `CLAV` include
//! the reserved amounts. `ElctrncSeqNb` is the number of the last record. The times of creation are
//! those of the last record, so that equal statements have equal bytes.

use std::io;

use ledger::Amount;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use crate::responses::Timestamp;
use crate::statements::json::kind_name;
use crate::statements::statement::{
    AccountStatement, Balance, Entry, LogPoint, Statement, StatementError, StatementSubject, Total,
    sum,
};

const NAMESPACE: &str = "urn:iso:std:iso:20022:tech:xsd:camt.053.001.08";
/// Issuer of the codes of entries.
const ISSUER: &str = "Upesi";
/// Maximum number of digits of an amount.
const DIGITS_MAX: u32 = 18;
/// Longest identifier, in characters.
const ID_MAX: usize = 35;
/// Longest additional information, in characters.
const INFORMATION_MAX: usize = 500;

type Xml = Writer<Vec<u8>>;

/// Writes a statement.
pub(crate) fn write(statement: &Statement) -> Result<Vec<u8>, StatementError> {
    if statement.accounts.is_empty() {
        return Err(StatementError::Empty);
    }
    let totals: Vec<Total> =
        statement.accounts.iter().map(checked_total).collect::<Result<_, _>>()?;
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
    document(&mut xml, statement, &totals).expect("memory is writable");
    let mut bytes = xml.into_inner();
    bytes.push(b'\n');
    Ok(bytes)
}

/// The totals of an account, all of whose amounts the form can show.
fn checked_total(account: &AccountStatement) -> Result<Total, StatementError> {
    let mut total = Total::default();
    for entry in &account.entries {
        total.add(entry.amount)?;
    }
    let (opening, closing) = (available(account.opening)?, available(account.closing)?);
    let balances = [account.opening.booked, account.closing.booked, opening, closing];
    let sums = [total.debits, total.credits, total.net, sum(total.debits, total.credits)?];
    let amounts = account.entries.iter().map(|entry| entry.amount);
    let is_long = |amount: &Amount| DIGITS_MAX < amount.precision();
    match amounts.chain(balances).chain(sums).find(is_long) {
        Some(amount) => Err(StatementError::Digits(amount)),
        None => Ok(total),
    }
}

fn document(xml: &mut Xml, statement: &Statement, totals: &[Total]) -> io::Result<()> {
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let root = xml.create_element("Document").with_attribute(("xmlns", NAMESPACE));
    root.write_inner_content(|xml| {
        group(xml, "BkToCstmrStmt", |xml| {
            group(xml, "GrpHdr", |xml| {
                text(xml, "MsgId", &short(&identifier(statement), ID_MAX))?;
                text(xml, "CreDtTm", &moment(statement.to))
            })?;
            let accounts = statement.accounts.iter().zip(totals);
            accounts.into_iter().try_for_each(|(account, total)| {
                group(xml, "Stmt", |xml| account_statement(xml, statement, (account, total)))
            })
        })
    })?;
    Ok(())
}

/// Kind and number of the subject, and the range of the log: `window 3 1-14`.
fn identifier(statement: &Statement) -> String {
    let Statement { subject, from, to, .. } = statement;
    let (from, to) = (from.log_index.0, to.log_index.0);
    format!("{from}-{to} {} {}", subject.kind(), subject.id())
}

fn account_statement(
    xml: &mut Xml,
    statement: &Statement,
    (account, total): (&AccountStatement, &Total),
) -> io::Result<()> {
    let Statement { from, to, .. } = statement;
    let id = format!("{} {}", account.account.0, identifier(statement));
    text(xml, "Id", &short(&id, ID_MAX))?;
    text(xml, "ElctrncSeqNb", &to.log_index.0.to_string())?;
    text(xml, "CreDtTm", &moment(*to))?;
    group(xml, "FrToDt", |xml| {
        text(xml, "FrDtTm", &moment(*from))?;
        text(xml, "ToDtTm", &moment(*to))
    })?;
    owner(xml, account, &account_number(statement, account))?;
    let currency = account.currency.to_string();
    balances(xml, &currency, (account.opening, *from), ["OPBD", "OPAV"])?;
    balances(xml, &currency, (account.closing, *to), ["CLBD", "CLAV"])?;
    summary(xml, account, total)?;
    for entry in &account.entries {
        group(xml, "Ntry", |xml| entry_of(xml, &currency, entry))?;
    }
    text(xml, "AddtlStmtInf", &information(statement, account))
}

/// The number of the account. The sums of a window or settlement have a number of their own, so
/// that their balances are not read as those of the account.
fn account_number(statement: &Statement, account: &AccountStatement) -> String {
    let number = account.account.0;
    match &statement.subject {
        StatementSubject::Participant { .. } => number.to_string(),
        StatementSubject::Window { id, .. } => format!("{number}/window {}", id.0),
        StatementSubject::Settlement { id, .. } => format!("{number}/settlement {}", id.0),
    }
}

fn owner(xml: &mut Xml, account: &AccountStatement, number: &str) -> io::Result<()> {
    let kind = kind_name(account.kind);
    group(xml, "Acct", |xml| {
        group(xml, "Id", |xml| group(xml, "Othr", |xml| text(xml, "Id", number)))?;
        group(xml, "Tp", |xml| text(xml, "Prtry", kind))?;
        text(xml, "Ccy", &account.currency.to_string())?;
        group(xml, "Ownr", |xml| text(xml, "Nm", &account.participant))
    })
}

fn balances(
    xml: &mut Xml,
    currency: &str,
    (balance, at): (Balance, LogPoint),
    [booked, with_reserved]: [&str; 2],
) -> io::Result<()> {
    let all = available(balance).expect("it was computed before");
    for (code, amount) in [(booked, balance.booked), (with_reserved, all)] {
        group(xml, "Bal", |xml| {
            group(xml, "Tp", |xml| group(xml, "CdOrPrtry", |xml| text(xml, "Cd", code)))?;
            signed(xml, currency, amount)?;
            group(xml, "Dt", |xml| text(xml, "DtTm", &moment(at)))
        })?;
    }
    Ok(())
}

fn summary(xml: &mut Xml, account: &AccountStatement, total: &Total) -> io::Result<()> {
    let is_debit = |entry: &&Entry| Amount::ZERO < entry.amount;
    let debits = account.entries.iter().filter(is_debit).count();
    let all = account.entries.len();
    let sum_of_all = sum(total.debits, total.credits).expect("it was computed before");
    group(xml, "TxsSummry", |xml| {
        group(xml, "TtlNtries", |xml| {
            text(xml, "NbOfNtries", &all.to_string())?;
            text(xml, "Sum", &sum_of_all.to_string())?;
            group(xml, "TtlNetNtry", |xml| {
                text(xml, "Amt", &magnitude(total.net).to_string())?;
                text(xml, "CdtDbtInd", indicator(total.net))
            })
        })?;
        for (name, count, amount) in
            [("TtlCdtNtries", all - debits, total.credits), ("TtlDbtNtries", debits, total.debits)]
        {
            group(xml, name, |xml| {
                text(xml, "NbOfNtries", &count.to_string())?;
                text(xml, "Sum", &amount.to_string())
            })?;
        }
        Ok(())
    })
}

fn entry_of(xml: &mut Xml, currency: &str, entry: &Entry) -> io::Result<()> {
    signed(xml, currency, entry.amount)?;
    group(xml, "Sts", |xml| text(xml, "Cd", "BOOK"))?;
    group(xml, "BookgDt", |xml| text(xml, "DtTm", &moment(entry.at)))?;
    text(xml, "AcctSvcrRef", &format!("record {}", entry.at.log_index.0))?;
    group(xml, "BkTxCd", |xml| {
        group(xml, "Prtry", |xml| {
            text(xml, "Cd", &short(&entry.cause, ID_MAX))?;
            text(xml, "Issr", ISSUER)
        })
    })?;
    group(xml, "NtryDtls", |xml| details(xml, entry))?;
    text(xml, "AddtlNtryInf", &short(&description(entry), INFORMATION_MAX))
}

/// The transfer, without the hyphens of a UUID, which would be one character too long; or the
/// number of transfers.
fn details(xml: &mut Xml, entry: &Entry) -> io::Result<()> {
    match entry.transfer {
        None => group(xml, "Btch", |xml| text(xml, "NbOfTxs", &entry.count.to_string())),
        Some(id) => group(xml, "TxDtls", |xml| {
            group(xml, "Refs", |xml| text(xml, "TxId", &id.to_string().replace('-', "")))
        }),
    }
}

fn description(entry: &Entry) -> String {
    let mut words = vec![entry.cause.clone()];
    words.extend(entry.window.map(|id| format!("window {}", id.0)));
    words.extend(entry.settlement.map(|id| format!("settlement {}", id.0)));
    words.extend(entry.transfer.map(|id| format!("transfer {id}")));
    words.extend(entry.reference.as_ref().map(|reference| format!("reference {reference}")));
    words.join(", ")
}

fn information(statement: &Statement, account: &AccountStatement) -> String {
    let Statement { subject, from, to, .. } = statement;
    let (from, to) = (from.log_index.0, to.log_index.0);
    let mut text = format!("log index {from} to {to}; {} {}", subject.kind(), subject.id());
    if let Some(part) = &account.part {
        text += &format!("; state {}", part.state.name());
        if !part.external_reference.is_empty() {
            text += &format!("; reference {}", part.external_reference);
        }
    }
    short(&text, INFORMATION_MAX)
}

/// An amount without its sign, and the indicator.
fn signed(xml: &mut Xml, currency: &str, amount: Amount) -> io::Result<()> {
    let element = xml.create_element("Amt").with_attribute(("Ccy", currency));
    element.write_text_content(BytesText::new(&magnitude(amount).to_string()))?;
    text(xml, "CdtDbtInd", indicator(amount))
}

fn indicator(amount: Amount) -> &'static str {
    if Amount::ZERO < amount { "DBIT" } else { "CRDT" }
}

fn magnitude(amount: Amount) -> Amount {
    if amount < Amount::ZERO { -amount } else { amount }
}

fn available(balance: Balance) -> Result<Amount, StatementError> {
    sum(balance.booked, balance.reserved)
}

fn moment(at: LogPoint) -> String {
    Timestamp(at.stamp).to_string()
}

fn group(
    xml: &mut Xml,
    name: &str,
    content: impl FnOnce(&mut Xml) -> io::Result<()>,
) -> io::Result<()> {
    xml.create_element(name).write_inner_content(content).map(drop)
}

/// An element with a text, without characters that XML cannot have.
fn text(xml: &mut Xml, name: &str, content: &str) -> io::Result<()> {
    let is_foreign = |c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}');
    let content = content.replace(is_foreign, " ");
    xml.create_element(name).write_text_content(BytesText::new(&content)).map(drop)
}

/// At most this many characters of a text.
fn short(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}
