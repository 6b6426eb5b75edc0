//! The content of an alert: JSON for webhooks, subject and text for e-mails.

use std::fmt::Write;

use ledger::{Alert, AlertKind, Amount, Stamp};
use serde::Serialize;
use serde_json::value::RawValue;

/// Ten-thousandths of a percent in the whole.
const WHOLE: i128 = 100 * 10_000;
/// Ten-thousandths of a percent in the step to which a percentage is rounded down: 0.01 %.
const STEP: i128 = 100;

/// An alert with the names that its text needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertMessage {
    /// The alert.
    pub alert: Alert,
    /// Name of the hub.
    pub hub: String,
    /// Name of the participant.
    pub participant: String,
}

/// The body of a webhook.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    id: u64,
    kind: &'static str,
    hub: &'a str,
    participant: &'a str,
    currency: String,
    position: Box<RawValue>,
    net_debit_cap: Option<Box<RawValue>>,
    percent: Option<Box<RawValue>>,
    at: String,
    log_index: u64,
}

impl AlertMessage {
    /// The same for each attempt: unique within a log.
    #[must_use]
    pub fn key(&self) -> String {
        format!("alert-{}-{}", self.alert.record.0, self.alert.id.0)
    }

    /// The body of a webhook, as JSON.
    #[must_use]
    pub fn json(&self) -> Vec<u8> {
        let alert = &self.alert;
        let body = Body {
            id: alert.id.0,
            kind: kind(alert.kind),
            hub: &self.hub,
            participant: &self.participant,
            currency: alert.currency.to_string(),
            position: number(alert.position),
            net_debit_cap: alert.net_debit_cap.map(number),
            percent: self.percent().map(number),
            at: date_time(alert.at),
            log_index: alert.record.0,
        };
        serde_json::to_vec(&body).expect("the body has no maps and no foreign types")
    }

    /// The subject of an e-mail: one line that states the fact.
    #[must_use]
    pub fn subject(&self) -> String {
        let Alert { kind, currency, position, net_debit_cap, .. } = self.alert;
        let name = &self.participant;
        let percent = self.percent().map_or_else(|| "all".into(), |percent| format!("{percent} %"));
        let cap = net_debit_cap.map_or_else(|| "unset".into(), |cap| format!("{cap} {currency}"));
        let subject = match kind {
            AlertKind::ThresholdReached => {
                format!("{name}: position is {percent} of the {currency} net debit cap")
            }
            AlertKind::ThresholdCleared => {
                format!("{name}: {currency} position is below the alarm threshold again")
            }
            AlertKind::NetDebitCapChanged => {
                format!("{name}: net debit cap is now {cap}")
            }
            AlertKind::SettlementPositionChange => {
                format!("{name}: settlement changed the position to {position} {currency}")
            }
        };
        one_line(&subject)
    }

    /// The text of an e-mail.
    #[must_use]
    pub fn text(&self) -> String {
        let Alert { position, net_debit_cap, at, record, .. } = self.alert;
        let currency = self.alert.currency;
        let cap = net_debit_cap.map_or_else(|| "not set".into(), |cap| format!("{cap} {currency}"));
        let percent = self.percent().map_or_else(String::new, |it| format!(" ({it} % used)"));
        let mut text = String::new();
        let lines = [
            ("Alert", kind(self.alert.kind).to_owned()),
            ("Hub", one_line(&self.hub)),
            ("Participant", one_line(&self.participant)),
            ("Position", format!("{position} {currency}")),
            ("Net debit cap", format!("{cap}{percent}")),
            ("Time", date_time(at)),
            ("Log index", record.0.to_string()),
            ("Alert id", self.alert.id.0.to_string()),
        ];
        for (name, value) in lines {
            writeln!(text, "{:<15}{value}", format!("{name}:")).expect("a string takes all text");
        }
        text
    }

    /// The position in percent of the net debit cap, rounded down to 0.01; 0 if the position is
    /// not positive, `None` without a positive cap.
    fn percent(&self) -> Option<Amount> {
        let cap = self.alert.net_debit_cap?.units();
        let position = self.alert.position.units().max(0);
        let share = position.checked_mul(WHOLE)?.checked_div(cap.max(0))?;
        Some(Amount::from_units(share / STEP * STEP))
    }
}

/// The kind in words.
const fn kind(kind: AlertKind) -> &'static str {
    match kind {
        AlertKind::ThresholdReached => "alarm threshold reached",
        AlertKind::ThresholdCleared => "alarm threshold cleared",
        AlertKind::NetDebitCapChanged => "net debit cap changed",
        AlertKind::SettlementPositionChange => "position changed by a settlement",
    }
}

/// An amount as a JSON number, exact.
fn number(amount: Amount) -> Box<RawValue> {
    RawValue::from_string(amount.to_string()).expect("the text of an amount is a JSON number")
}

/// `2026-01-01T10:00:00.000Z`.
fn date_time(stamp: Stamp) -> String {
    let seconds = fspiop::time::date_time_whole_seconds(stamp.millis());
    let whole = String::from_utf8_lossy(&seconds[..19]).into_owned();
    format!("{whole}.{:03}Z", stamp.millis() % 1_000)
}

/// The text without control characters, which could begin another line or header.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use expect_test::{Expect, expect};
    use ledger::{AlertId, Currency, LogIndex, ParticipantIndex};

    use super::*;

    pub(crate) fn message(kind: AlertKind, position: &str, cap: Option<&str>) -> AlertMessage {
        let amount = |text: &str| Amount::parse_decimal(text).expect("an amount");
        let alert = Alert {
            id: AlertId(7),
            kind,
            participant: ParticipantIndex(2),
            currency: Currency::parse("USD").expect("a currency"),
            position: amount(position),
            net_debit_cap: cap.map(amount),
            at: Stamp::from_millis(1_767_261_600_011),
            record: LogIndex(42),
        };
        AlertMessage { alert, hub: "Hub".into(), participant: "dfsp1".into() }
    }

    fn check(message: &AlertMessage, expected: Expect) {
        let json = String::from_utf8(message.json()).expect("JSON is text");
        expected.assert_eq(&format!("{}\n{json}\n{}", message.subject(), message.text()));
    }

    #[test]
    fn alerts_state_the_fact() {
        use AlertKind::*;
        check(
            &message(ThresholdReached, "812.3456", Some("1000")),
            expect![[r#"
            dfsp1: position is 81.23 % of the USD net debit cap
            {"id":7,"kind":"alarm threshold reached","hub":"Hub","participant":"dfsp1","currency":"USD","position":812.3456,"netDebitCap":1000,"percent":81.23,"at":"2026-01-01T10:00:00.011Z","logIndex":42}
            Alert:         alarm threshold reached
            Hub:           Hub
            Participant:   dfsp1
            Position:      812.3456 USD
            Net debit cap: 1000 USD (81.23 % used)
            Time:          2026-01-01T10:00:00.011Z
            Log index:     42
            Alert id:      7
        "#]],
        );
        check(
            &message(ThresholdCleared, "-5", Some("1000")),
            expect![[r#"
            dfsp1: USD position is below the alarm threshold again
            {"id":7,"kind":"alarm threshold cleared","hub":"Hub","participant":"dfsp1","currency":"USD","position":-5,"netDebitCap":1000,"percent":0,"at":"2026-01-01T10:00:00.011Z","logIndex":42}
            Alert:         alarm threshold cleared
            Hub:           Hub
            Participant:   dfsp1
            Position:      -5 USD
            Net debit cap: 1000 USD (0 % used)
            Time:          2026-01-01T10:00:00.011Z
            Log index:     42
            Alert id:      7
        "#]],
        );
        check(
            &message(NetDebitCapChanged, "0", Some("0")),
            expect![[r#"
            dfsp1: net debit cap is now 0 USD
            {"id":7,"kind":"net debit cap changed","hub":"Hub","participant":"dfsp1","currency":"USD","position":0,"netDebitCap":0,"percent":null,"at":"2026-01-01T10:00:00.011Z","logIndex":42}
            Alert:         net debit cap changed
            Hub:           Hub
            Participant:   dfsp1
            Position:      0 USD
            Net debit cap: 0 USD
            Time:          2026-01-01T10:00:00.011Z
            Log index:     42
            Alert id:      7
        "#]],
        );
        check(
            &message(SettlementPositionChange, "20.5", None),
            expect![[r#"
            dfsp1: settlement changed the position to 20.5 USD
            {"id":7,"kind":"position changed by a settlement","hub":"Hub","participant":"dfsp1","currency":"USD","position":20.5,"netDebitCap":null,"percent":null,"at":"2026-01-01T10:00:00.011Z","logIndex":42}
            Alert:         position changed by a settlement
            Hub:           Hub
            Participant:   dfsp1
            Position:      20.5 USD
            Net debit cap: not set
            Time:          2026-01-01T10:00:00.011Z
            Log index:     42
            Alert id:      7
        "#]],
        );
    }

    #[test]
    fn names_cannot_add_lines_or_headers() {
        let mut message = message(AlertKind::ThresholdReached, "1", Some("1"));
        message.participant = "dfsp1\r\nBcc: all@example.com\u{85}".into();
        let one = "dfsp1  Bcc: all@example.com : position is 100 % of the USD net debit cap";
        assert_eq!(message.subject(), one);
        assert_eq!(message.text().lines().count(), 8);
    }
}
