//! Pairs the entries of a bank with the movements of SETTLEMENT accounts.
//!
//! A pair has the same participant and currency. In order of preference it shares a reference and
//! the amount; a reference alone, and then the amounts differ; or amount and date. Each entry is in
//! one pair at most.

//!
//! Of an account's closing balances the last one is compared, with the deposit at the end of its
//! day (UTC) or at the end of the period, whichever is earlier.

use std::collections::{BTreeMap, HashMap};

use ledger::Amount;
use serde::Serialize;

use crate::operate::reconcile::bank::{BankBalance, BankEntry, BankStatement, Holder, SourceLine};

/// Texts of banks for an absent reference.
const NO_REFERENCE: [&str; 3] = ["", "notprovided", "nonref"];

/// The switch's view of the SETTLEMENT accounts.
#[derive(Debug, Default)]
pub(super) struct SwitchView {
    pub(super) movements: Vec<Movement>,
    pub(super) accounts: Vec<SettlementAccount>,
}

impl SwitchView {
    /// The deposit of an account at the end of a day of the period.
    fn deposit(&self, (participant, currency): (&str, &str), date: &str) -> Option<Amount> {
        let is_own = |name: &str, code: &str| name == participant && code == currency;
        let mut accounts = self.accounts.iter();
        let account = accounts.find(|it| is_own(&it.participant, &it.currency))?;
        let later = self.movements.iter();
        let later = later.filter(|it| is_own(&it.participant, &it.currency) && date < &*it.date);
        later.map(|it| -it.amount).try_fold(account.closing, Amount::checked_add)
    }
}

/// A movement of a SETTLEMENT account. Above zero, the deposit rises.
#[derive(Clone, Debug)]
pub(super) struct Movement {
    pub(super) participant: String,
    pub(super) currency: String,
    pub(super) date: String,
    pub(super) amount: Amount,
    pub(super) cause: String,
    pub(super) log_index: u64,
    pub(super) transfer: Option<String>,
    pub(super) reference: Option<String>,
}

/// A SETTLEMENT account with its deposit at the end of the period.
#[derive(Clone, Debug)]
pub(super) struct SettlementAccount {
    pub(super) participant: String,
    pub(super) account: String,
    pub(super) currency: String,
    pub(super) closing: Amount,
}

/// The result. Amounts are texts; above zero, the deposit rises.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Comparison {
    pub(super) both: Vec<Line>,
    pub(super) only_bank: Vec<Line>,
    pub(super) only_switch: Vec<Line>,
    pub(super) amounts_differ: Vec<Line>,
    pub(super) closing_balances_equal: Vec<BalanceLine>,
    pub(super) closing_balances_differ: Vec<BalanceLine>,
    /// The bank's statements of other accounts of the switch.
    pub(super) skipped: Vec<SkippedLine>,
}

/// A pair, or an entry without one.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    pub(super) participant: String,
    pub(super) currency: String,
    pub(super) date: String,
    #[serde(flatten)]
    pub(super) place: Option<BankLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bank_amount: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) log_index: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) switch_amount: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) cause: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) reference: String,
}

/// A line of a file of the bank.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BankLine {
    pub(super) bank_file: String,
    pub(super) bank_line: u64,
}

/// A statement that was not compared.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SkippedLine {
    pub(super) participant: String,
    pub(super) account: String,
    pub(super) ledger_account_type: String,
    #[serde(flatten)]
    pub(super) place: BankLine,
}

/// Closing balances of an account.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BalanceLine {
    pub(super) participant: String,
    pub(super) currency: String,
    /// The day of the bank's balance.
    pub(super) date: String,
    #[serde(flatten)]
    pub(super) place: BankLine,
    pub(super) bank: String,
    /// `None` if the switch has no such account.
    pub(super) switch: Option<String>,
}

impl Comparison {
    pub(super) const fn differences(&self) -> usize {
        self.only_bank.len()
            + self.only_switch.len()
            + self.amounts_differ.len()
            + self.closing_balances_differ.len()
    }
}

/// The participants of the bank's accounts.
pub(super) struct Holders<'a> {
    /// Numbers of accounts at the bank, as the operator named them.
    pub(super) named: &'a BTreeMap<String, String>,
    pub(super) accounts: &'a [SettlementAccount],
}

impl Holders<'_> {
    /// The name of the participant, or the words of the bank if it is unknown.
    pub(super) fn participant(&self, holder: &Holder, currency: &str) -> String {
        let Holder { participant, account } = holder;
        let named = account.as_ref().and_then(|account| self.named.get(account));
        let is_own = |it: &&SettlementAccount| {
            it.currency == currency && Some(&it.account) == account.as_ref()
        };
        let numbered = || self.accounts.iter().find(is_own).map(|it| &it.participant);
        let found = named.or(participant.as_ref()).or_else(numbered).or(account.as_ref());
        found.cloned().unwrap_or_default()
    }
}

/// The basis of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basis {
    ReferenceAndAmount,
    Reference,
    AmountAndDate,
}

/// The entries that have no pair yet, by participant, currency and a further key.
type Open = HashMap<(String, String, String), Vec<usize>>;

/// Compares a bank's statement with the switch. `files` are the names of the bank's files.
pub(super) fn compare(
    (bank, files): (&BankStatement, &[String]),
    switch: &SwitchView,
    holders: &Holders<'_>,
) -> Comparison {
    let place = |place: SourceLine| BankLine {
        bank_file: files[place.file].clone(),
        bank_line: place.line,
    };
    let name = |entry: &BankEntry| holders.participant(&entry.holder, &entry.currency.to_string());
    let names: Vec<_> = bank.entries.iter().map(name).collect();
    let mut pairs: Vec<Option<usize>> = vec![None; bank.entries.len()];
    let mut is_paired = vec![false; switch.movements.len()];
    let mut comparison = Comparison::default();
    for basis in [Basis::ReferenceAndAmount, Basis::Reference, Basis::AmountAndDate] {
        let mut open = open_movements(switch, basis, &is_paired);
        for (at, entry) in bank.entries.iter().enumerate() {
            if pairs[at].is_some() {
                continue;
            }
            let found = keys_of_entry(entry, basis).into_iter().find_map(|key| {
                let key = (names[at].clone(), entry.currency.to_string(), key);
                let candidates = open.get_mut(&key)?;
                candidates.retain(|movement| !is_paired[*movement]);
                candidates.first().copied()
            });
            if let Some(movement) = found {
                (pairs[at], is_paired[movement]) = (Some(movement), true);
                let line =
                    pair(&names[at], (entry, place(entry.place)), &switch.movements[movement]);
                match basis {
                    Basis::Reference => comparison.amounts_differ.push(line),
                    Basis::ReferenceAndAmount | Basis::AmountAndDate => comparison.both.push(line),
                }
            }
        }
    }
    let unpaired = pairs.iter().enumerate().filter(|(_, pair)| pair.is_none());
    let entries = unpaired.map(|(at, _)| (&names[at], &bank.entries[at]));
    comparison.only_bank =
        entries.map(|(name, entry)| of_entry(name, (entry, place(entry.place)))).collect();
    let rest = switch.movements.iter().zip(is_paired).filter(|(_, is_paired)| !is_paired);
    comparison.only_switch = rest.map(|(movement, _)| of_movement(movement)).collect();
    for balance in last_closings(bank, holders) {
        let line = compare_balance(balance, (switch, holders), place(balance.place));
        match line.switch.as_ref() == Some(&line.bank) {
            true => comparison.closing_balances_equal.push(line),
            false => comparison.closing_balances_differ.push(line),
        }
    }
    let skipped = bank.skipped.iter().map(|it| SkippedLine {
        participant: it.holder.participant.clone().unwrap_or_default(),
        account: it.holder.account.clone().unwrap_or_default(),
        ledger_account_type: it.kind.clone(),
        place: place(it.place),
    });
    comparison.skipped = skipped.collect();
    comparison
}

/// The last closing balance of each of the bank's accounts; of one day the last one read.
fn last_closings<'b>(bank: &'b BankStatement, holders: &Holders<'_>) -> Vec<&'b BankBalance> {
    let mut last: BTreeMap<_, &BankBalance> = BTreeMap::new();
    for balance in &bank.closings {
        let currency = balance.currency.to_string();
        let participant = holders.participant(&balance.holder, &currency);
        let key = (participant, currency, balance.holder.account.as_ref());
        let known = last.entry(key).or_insert(balance);
        if known.date <= balance.date {
            *known = balance;
        }
    }
    last.into_values().collect()
}

fn open_movements(switch: &SwitchView, basis: Basis, is_paired: &[bool]) -> Open {
    let mut open = Open::new();
    for (at, movement) in switch.movements.iter().enumerate().filter(|(at, _)| !is_paired[*at]) {
        for key in keys_of_movement(movement, basis) {
            let key = (movement.participant.clone(), movement.currency.clone(), key);
            open.entry(key).or_default().push(at);
        }
    }
    open
}

fn keys_of_entry(entry: &BankEntry, basis: Basis) -> Vec<String> {
    keys(basis, &entry.references, (entry.amount, &entry.date))
}

fn keys_of_movement(movement: &Movement, basis: Basis) -> Vec<String> {
    let references: Vec<_> =
        [&movement.reference, &movement.transfer].into_iter().flatten().cloned().collect();
    keys(basis, &references, (movement.amount, &movement.date))
}

fn keys(basis: Basis, references: &[String], (amount, date): (Amount, &str)) -> Vec<String> {
    let is_given = |text: &String| !NO_REFERENCE.contains(&text.as_str());
    let references = references.iter().map(|text| plain(text)).filter(is_given);
    match basis {
        Basis::ReferenceAndAmount => references.map(|text| format!("{amount} {text}")).collect(),
        Basis::Reference => references.collect(),
        Basis::AmountAndDate => vec![format!("{amount} {date}")],
    }
}

/// A reference without case and hyphens, which some forms of a UUID lack.
fn plain(reference: &str) -> String {
    reference.trim().to_lowercase().replace('-', "")
}

fn of_entry(participant: &str, (entry, place): (&BankEntry, BankLine)) -> Line {
    Line {
        participant: participant.to_owned(),
        currency: entry.currency.to_string(),
        date: entry.date.clone(),
        place: Some(place),
        bank_amount: Some(entry.amount.to_string()),
        reference: entry.references.first().cloned().unwrap_or_default(),
        ..Line::default()
    }
}

fn of_movement(movement: &Movement) -> Line {
    let reference = movement.reference.clone().filter(|text| !text.trim().is_empty());
    Line {
        participant: movement.participant.clone(),
        currency: movement.currency.clone(),
        date: movement.date.clone(),
        log_index: Some(movement.log_index),
        switch_amount: Some(movement.amount.to_string()),
        cause: movement.cause.clone(),
        reference: reference.or_else(|| movement.transfer.clone()).unwrap_or_default(),
        ..Line::default()
    }
}

fn pair(participant: &str, entry: (&BankEntry, BankLine), movement: &Movement) -> Line {
    let Line { place, bank_amount, .. } = of_entry(participant, entry);
    Line { place, bank_amount, ..of_movement(movement) }
}

fn compare_balance(
    balance: &BankBalance,
    (switch, holders): (&SwitchView, &Holders<'_>),
    place: BankLine,
) -> BalanceLine {
    let currency = balance.currency.to_string();
    let participant = holders.participant(&balance.holder, &currency);
    let switch = switch.deposit((&participant, &currency), &balance.date);
    BalanceLine {
        participant,
        currency,
        date: balance.date.clone(),
        place,
        bank: balance.amount.to_string(),
        switch: switch.map(|amount| amount.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::operate::reconcile::csv_file;

    fn movement(text: &str) -> Movement {
        let [date, reference, transfer, participant, amount] =
            text.split(',').collect::<Vec<_>>().try_into().unwrap();
        Movement {
            participant: participant.into(),
            currency: "USD".into(),
            date: date.into(),
            amount: Amount::parse_decimal(amount).unwrap(),
            cause: "funds".into(),
            log_index: 1,
            transfer: Some(transfer.into()),
            reference: Some(reference.into()),
        }
    }

    /// Compares the lines of a bank with movements.
    fn check(bank: &str, movements: &str, expected: Expect) {
        let heading = "date,reference,participant,account,amount,currency,direction\n";
        let bank = csv_file::parse(&format!("{heading}{bank}"), 0).unwrap();
        let account = SettlementAccount {
            participant: "a".into(),
            account: "7".into(),
            currency: "USD".into(),
            closing: Amount::parse_decimal("100").unwrap(),
        };
        let movements = movements.lines().map(movement).collect();
        let switch = SwitchView { movements, accounts: vec![account] };
        let named = BTreeMap::from([("IBAN1".to_owned(), "a".to_owned())]);
        let holders = Holders { named: &named, accounts: &switch.accounts };
        let found = compare((&bank, &["bank.csv".to_owned()]), &switch, &holders);
        let mut text = String::new();
        for (name, lines) in [
            ("both", &found.both),
            ("only bank", &found.only_bank),
            ("only switch", &found.only_switch),
            ("amounts differ", &found.amounts_differ),
        ] {
            for line in lines {
                let amounts = (&line.bank_amount, &line.switch_amount);
                let amounts = [amounts.0, amounts.1].map(|it| it.as_deref().unwrap_or("-"));
                text += &format!("{name}: {} {}\n", line.participant, amounts.join(" "));
            }
        }
        for (name, lines) in
            [("equal", &found.closing_balances_equal), ("differ", &found.closing_balances_differ)]
        {
            for line in lines {
                let BalanceLine { participant, date, bank, place, .. } = line;
                let (switch, at) = (line.switch.as_deref().unwrap_or("-"), place.bank_line);
                text += &format!("{name}: {participant} {date} {bank} {switch}, line {at}\n");
            }
        }
        expected.assert_eq(&text);
    }

    #[test]
    fn entries_are_paired_by_reference_then_by_amount_and_date() {
        check(
            "2026-05-01,advice 1,a,,10,USD,credit\n\
             2026-05-09,ab-cd,a,,3,USD,debit\n\
             2026-05-01,,,7,5,USD,credit\n\
             2026-05-01,,,IBAN1,6,USD,credit\n\
             2026-05-02,,a,,8,USD,credit\n\
             2026-05-01,advice 2,a,,20,USD,credit\n\
             2026-05-01,advice 1,b,,10,USD,credit\n\
             2026-05-01,,,unknown,1,USD,credit\n",
            "2026-05-01,ADVICE 1,t1,a,10\n\
             2026-05-01,none,abcd,a,-3\n\
             2026-05-01, ,t2,a,5\n\
             2026-05-01, ,t3,a,6\n\
             2026-05-01, ,t4,a,8\n\
             2026-05-01,advice 2,t5,a,21",
            expect![[r#"
                both: a 10 10
                both: a -3 -3
                both: a 5 5
                both: a 6 6
                only bank: a 8 -
                only bank: b 10 -
                only bank: unknown 1 -
                only switch: a - 8
                amounts differ: a 20 21
            "#]],
        );
    }

    #[test]
    fn equal_entries_are_paired_once_each() {
        check(
            "2026-05-01,x,a,,10,USD,credit\n2026-05-01,x,a,,10,USD,credit\n",
            "2026-05-01,x,t1,a,10",
            expect![[r#"
                both: a 10 10
                only bank: a 10 -
            "#]],
        );
    }

    #[test]
    fn the_last_closing_balance_is_compared_with_the_deposit_of_its_day() {
        check(
            "2026-05-02,closing balance,a,,70,USD,credit\n\
             2026-05-01,closing balance,a,,1,USD,credit\n\
             2026-05-02,closing balance,,7,70,USD,debit\n\
             2026-05-02,Closing balance,,7,99.5,USD,credit\n\
             2026-05-03,closing balance,,IBAN1,100,USD,credit\n\
             2026-05-02,closing balance,b,,1,USD,debit\n\
             2026-05-01,x,a,,70,USD,credit\n\
             2026-05-03,y,a,,30,USD,credit\n",
            "2026-05-01,x,t1,a,70\n2026-05-03,y,t2,a,30",
            expect![[r#"
                both: a 70 70
                both: a 30 30
                equal: a 2026-05-02 70 70, line 2
                equal: a 2026-05-03 100 100, line 6
                differ: a 2026-05-02 99.5 70, line 5
                differ: b 2026-05-02 -1 -, line 7
            "#]],
        );
    }
}
