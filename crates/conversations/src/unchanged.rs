//! Checks that a refusal leaves the hub's state unchanged, and counts these checks.
//!
//! A synchronous refusal is bracketed by two readings while no other conversation sends: the hub's
//! log index and state hash, or all balances if a hub does not report those. A request of an
//! operator that the hub refuses advances the log by its own records only. An asynchronous refusal
//! is an error from the hub: balances are the same as before the message. If the error reports the
//! end of a reserved transfer, the payer has its amount back and no other balance moved.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::hub::{Account, StateHash};

/// A reading of a hub's state before or after a refusal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum HubReading {
    State(StateHash),
    Balances(Vec<Account>),
}

/// State of the hub after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterRefusal {
    /// Position and hash of the state are the same.
    Hash,
    /// The refusal is on record; but for that record all is the same.
    Recorded,
    /// The balances are the same; the hub reports nothing else.
    Balances,
    /// An error by callback; the balances are the same.
    Callback,
    /// An error by callback that ended a transfer: only its payer's position fell, by its amount.
    Ended,
}

/// Number of refusals by result, counted by several threads.
#[derive(Debug, Default)]
pub(crate) struct UnchangedCounts([AtomicUsize; 5]);

/// A transfer as far as its end moves money.
pub(crate) struct ReservedAmount {
    /// The payer's account.
    pub(crate) account: String,
    pub(crate) amount: String,
}

impl UnchangedCounts {
    pub(crate) fn count(&self, left: AfterRefusal) {
        self.0[left as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn of(&self, left: AfterRefusal) -> usize {
        self.0[left as usize].load(Ordering::Relaxed)
    }
}

impl fmt::Display for UnchangedCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} synchronous refusals left the state hash and the log unchanged, {} on record all \
             but the log",
            self.of(AfterRefusal::Hash),
            self.of(AfterRefusal::Recorded)
        )?;
        if self.of(AfterRefusal::Balances) != 0 {
            let count = self.of(AfterRefusal::Balances);
            writeln!(f, "{count} synchronous refusals left every balance: the hub has no /state")?;
        }
        write!(
            f,
            "{} asynchronous refusals left every balance, {} ended a transfer and gave back just \
             its amount",
            self.of(AfterRefusal::Callback),
            self.of(AfterRefusal::Ended)
        )
    }
}

impl HubReading {
    /// How this hub was left as it was; `None` when it was not. Only operators' requests are on
    /// record when they are refused.
    pub(crate) fn left(&self, after: &Self, of_operator: bool) -> Option<AfterRefusal> {
        match (self, after) {
            (Self::Balances(before), Self::Balances(after)) => {
                (before == after).then_some(AfterRefusal::Balances)
            }
            (Self::State(before), Self::State(after)) if before == after => {
                Some(AfterRefusal::Hash)
            }
            (Self::State(before), Self::State(after)) => {
                // The change if the hub records it, and the refusal in the audit trail.
                let own_records = before.log_index + 1..=before.log_index + 2;
                let recorded = of_operator
                    && own_records.contains(&after.log_index)
                    && before.content == after.content;
                recorded.then_some(AfterRefusal::Recorded)
            }
            _ => None,
        }
    }
}

/// Whether an error reports the end of a reserved transfer.
pub(crate) fn ends_transfer(error: &[u8]) -> bool {
    let error: Value = serde_json::from_slice(error).unwrap_or_default();
    let error = &error["errorInformation"];
    let description = error["errorDescription"].as_str().unwrap_or_default();
    let ends = [
        "invalid fulfilment",
        "does not match the transfer's payer",
        "header should match Payer FSP",
        "ABORTED",
        "undefined",
    ];
    error["errorCode"] == "3303" || ends.iter().any(|text| description.contains(text))
}

/// Whether only the payer's position differs, by the amount of the transfer.
pub(crate) fn is_amount_returned(
    before: &[Account],
    now: &[Account],
    reserved: &ReservedAmount,
) -> bool {
    let units = |text: &str| ten_thousandths(text);
    before.len() == now.len()
        && before.iter().zip(now).all(|(before, now)| {
            let expected = match before.id == reserved.account {
                true => units(&before.value).zip(units(&reserved.amount)).map(|(a, b)| a - b),
                false => units(&before.value),
            };
            before.id == now.id && expected.is_some() && expected == units(&now.value)
        })
}

/// The sum of amounts.
pub(crate) fn sum<'a>(amounts: impl Iterator<Item = &'a str>) -> Option<String> {
    let units = amounts.map(ten_thousandths).sum::<Option<i128>>()?;
    Some(format!("{}.{:04}", units / 10_000, units % 10_000))
}

/// A plain decimal of at most four places, exactly.
fn ten_thousandths(text: &str) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let units: i128 = format!("{whole}{part:0<4}").parse().ok()?;
    (part.len() <= 4).then_some(sign * units)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(id: &str, value: &str) -> Account {
        Account {
            id: id.to_owned(),
            kind: "POSITION".to_owned(),
            currency: "USD".to_owned(),
            value: value.to_owned(),
        }
    }

    #[test]
    fn only_the_payer_gets_its_amount_back() {
        let reserved = ReservedAmount { account: "1".to_owned(), amount: "12.5".to_owned() };
        let before = [account("1", "-0.0001"), account("2", "7")];
        for (payer, other, expected) in [
            ("-12.5001", "7", true),
            ("-12.5001", "7.0", true),
            ("-12.5", "7", false),
            ("-0.0001", "7", false),
            ("-12.5001", "7.0001", false),
        ] {
            let now = [account("1", payer), account("2", other)];
            assert_eq!(is_amount_returned(&before, &now, &reserved), expected, "{payer} {other}");
        }
        assert!(!is_amount_returned(&before, &before[..1], &reserved));
    }

    #[test]
    fn recorded_refusal_adds_at_most_two_records() {
        let state = |log_index, whole: &str, content: &str| {
            let (whole, content) = (whole.to_owned(), content.to_owned());
            HubReading::State(StateHash { log_index, whole, content })
        };
        let before = state(7, "a", "b");
        for (after, of_operator, expected) in [
            (state(7, "a", "b"), false, Some(AfterRefusal::Hash)),
            (state(7, "c", "b"), true, None),
            (state(8, "c", "b"), true, Some(AfterRefusal::Recorded)),
            (state(8, "c", "b"), false, None),
            (state(8, "c", "d"), true, None),
            (state(9, "c", "b"), true, Some(AfterRefusal::Recorded)),
            (state(10, "c", "b"), true, None),
            (HubReading::Balances(Vec::new()), true, None),
        ] {
            assert_eq!(before.left(&after, of_operator), expected, "{after:?}");
        }
    }
}
