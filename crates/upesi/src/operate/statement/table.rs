//! A statement as a table.

use std::fmt::Write;

use serde_json::Value;

use crate::cli::table::{Align, Table};

/// Renders a statement, given as the JSON of the admin API.
pub(super) fn render(statement: &Value) -> String {
    let mut text = heading(statement);
    for account in list(&statement["accounts"]) {
        let _written = write!(text, "\n{}", account_table(statement, account));
    }
    let _written = write!(text, "\n{}", totals(statement));
    text
}

fn heading(statement: &Value) -> String {
    let mut line = format!("statement of {} {}", word(statement, "kind"), word(statement, "id"));
    if let Some(state) = statement["state"].as_str() {
        line += &format!(", {state}");
    }
    let point = |name: &str| {
        let at = &statement[name];
        format!("{} ({})", at["logIndex"], word(at, "time"))
    };
    format!("{line}\nfrom record {} to record {}\n", point("from"), point("to"))
}

fn account_table(statement: &Value, account: &Value) -> String {
    let mut line = format!(
        "{}: {} {}, account {}",
        word(account, "participant"),
        word(account, "ledgerAccountType"),
        word(account, "currency"),
        account["accountId"]
    );
    for (name, before) in [("state", ""), ("externalReference", "reference ")] {
        if let Some(text) = account[name].as_str() {
            line += &format!(", {before}{text}");
        }
    }
    let mut table = Table::new([
        ("record", Align::Right),
        ("time", Align::Left),
        ("cause", Align::Left),
        ("count", Align::Right),
        ("window", Align::Right),
        ("amount", Align::Right),
        ("reserved", Align::Right),
        ("settlement", Align::Right),
        ("transfer", Align::Left),
        ("reference", Align::Left),
    ]);
    let [opening, closing] = match statement["kind"] == "participant" {
        true => ["opening balance", "closing balance"],
        false => ["begin of the sums", "net"],
    };
    table.add(balance(opening, &account["opening"]));
    for entry in list(&account["entries"]) {
        table.add([
            entry["logIndex"].to_string(),
            word(entry, "time"),
            word(entry, "cause"),
            entry["count"].to_string(),
            number(&entry["windowId"]),
            word(entry, "amount"),
            String::new(),
            number(&entry["settlementId"]),
            word(entry, "transferId"),
            word(entry, "externalReference"),
        ]);
    }
    table.add(balance(closing, &account["closing"]));
    format!("{line}\n{table}")
}

fn balance(name: &str, balance: &Value) -> [String; 10] {
    let mut row = [const { String::new() }; 10];
    row[2] = name.to_owned();
    row[5] = word(balance, "booked");
    row[6] = word(balance, "reserved");
    row
}

fn totals(statement: &Value) -> String {
    let mut table = Table::new([
        ("total", Align::Left),
        ("currency", Align::Left),
        ("debits", Align::Right),
        ("credits", Align::Right),
        ("net", Align::Right),
    ]);
    for total in list(&statement["totals"]) {
        table.add(
            ["ledgerAccountType", "currency", "debits", "credits", "net"]
                .map(|name| word(total, name)),
        );
    }
    table.to_string()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn word(value: &Value, member: &str) -> String {
    value[member].as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value) -> String {
    value.as_u64().map(|number| number.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_statement_is_shown_as_tables() {
        let time = "2026-01-01T10:00:00.000Z";
        let statement = json!({
            "kind": "settlement", "id": "1", "state": "SETTLED",
            "from": {"logIndex": 1, "time": time}, "to": {"logIndex": 23, "time": time},
            "accounts": [{
                "participant": "dfsp1", "accountId": 6, "ledgerAccountType": "POSITION",
                "currency": "USD", "state": "SETTLED", "externalReference": "advice 4711",
                "opening": {"booked": "0", "reserved": "0"},
                "entries": [{"cause": "transfers paid", "amount": "30.5", "count": 2,
                    "logIndex": 14, "time": time, "windowId": 1, "settlementId": 1,
                    "externalReference": "advice 4711"}],
                "closing": {"booked": "30.5", "reserved": "0"}
            }],
            "totals": [{"currency": "USD", "ledgerAccountType": "POSITION", "debits": "30.5",
                "credits": "30.5", "net": "0"}]
        });
        expect![[r#"
            statement of settlement 1, SETTLED
            from record 1 (2026-01-01T10:00:00.000Z) to record 23 (2026-01-01T10:00:00.000Z)

            dfsp1: POSITION USD, account 6, SETTLED, reference advice 4711
              record  time                      cause              count  window  amount  reserved  settlement  transfer  reference
                                                begin of the sums                      0         0
                  14  2026-01-01T10:00:00.000Z  transfers paid         2       1    30.5                     1            advice 4711
                                                net                                 30.5         0

              total     currency  debits  credits  net
              POSITION  USD         30.5     30.5    0
        "#]].assert_eq(&render(&statement));
    }
}
