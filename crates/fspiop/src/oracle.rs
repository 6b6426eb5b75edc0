//! Bodies of the oracle API, which account lookup services and directories of parties speak
//! (`GET`, `POST`, `PUT`, `DELETE /participants/{Type}/{ID}`; hub-semantics 6.2).
//!
//! An oracle's answer is data from outside: it is bounded and checked as a whole, and one wrong
//! entry makes all of it invalid.

use std::borrow::Cow;

use ledger::{Currency, FspName};
use serde::{Deserialize, Serialize};

use crate::body::FSP_ID_CHARS_MAX;
use crate::{IDENTIFIER_CHARS_MAX, is_identifier, is_known_currency};

/// Maximum number of entries of an answer.
pub const ORACLE_ENTRIES_MAX: usize = 64;

/// An entry of an oracle's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OracleEntry {
    /// `fspId`.
    pub fsp: FspName,
    /// `currency`.
    pub currency: Option<Currency>,
    /// `partySubIdOrType`.
    pub sub_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartyList<'a> {
    #[serde(borrow)]
    party_list: Vec<RawEntry<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEntry<'a> {
    #[serde(borrow)]
    fsp_id: Cow<'a, str>,
    #[serde(borrow, default)]
    currency: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    party_sub_id_or_type: Option<Cow<'a, str>>,
}

/// Parses `{"partyList": [{"fspId", "currency"?, "partySubIdOrType"?}]}`.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse_party_list(body: &[u8]) -> Result<Vec<OracleEntry>, &'static str> {
    let list: PartyList<'_> =
        serde_json::from_slice(body).map_err(|_| "it is not a JSON object with a partyList")?;
    if ORACLE_ENTRIES_MAX < list.party_list.len() {
        return Err("its partyList has too many entries");
    }
    list.party_list.into_iter().map(RawEntry::check).collect()
}

impl RawEntry<'_> {
    fn check(self) -> Result<OracleEntry, &'static str> {
        let fsp = FspName::new(&self.fsp_id)
            .filter(|_| self.fsp_id.chars().count() <= FSP_ID_CHARS_MAX)
            .ok_or("an fspId has not 1 to 32 characters")?;
        let currency = match self.currency.as_deref().filter(|code| !code.is_empty()) {
            None => None,
            Some(code) if is_known_currency(code) => Currency::parse(code),
            Some(_) => return Err("a currency is not a code of ISO 4217"),
        };
        let sub_id = self.party_sub_id_or_type.filter(|text| !text.is_empty());
        let fits = |text: &str| is_identifier(text) && text.chars().count() <= IDENTIFIER_CHARS_MAX;
        if sub_id.as_deref().is_some_and(|text| !fits(text)) {
            return Err("a partySubIdOrType has a wrong form");
        }
        Ok(OracleEntry { fsp, currency, sub_id: sub_id.map(Cow::into_owned) })
    }
}

/// The body of a registration at an oracle.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Registration<'a> {
    fsp_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    party_sub_id_or_type: Option<&'a str>,
}

/// Renders the body of `POST` and `PUT /participants/{Type}/{ID}`.
#[must_use]
pub fn registration(fsp: &FspName, currency: Option<Currency>, sub_id: Option<&str>) -> Vec<u8> {
    let currency = currency.as_ref().map(Currency::as_str);
    let body = Registration { fsp_id: fsp.as_str(), currency, party_sub_id_or_type: sub_id };
    serde_json::to_vec(&body).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_checked_as_a_whole() {
        let long = "x".repeat(33);
        let many = format!("[{}]", vec![r#"{"fspId":"a"}"#; ORACLE_ENTRIES_MAX + 1].join(","));
        for (list, expected) in [
            ("[]", Ok("")),
            (r#"[{"fspId":"dfsp1"}]"#, Ok("dfsp1 - -")),
            (r#"[{"fspId":"dfsp1","currency":"USD","x":1}]"#, Ok("dfsp1 USD -")),
            (
                r#"[{"fspId":"a","currency":""},{"fspId":"b","partySubIdOrType":"WORK"}]"#,
                Ok("a - -; b - WORK"),
            ),
            (r#"[{"fspId":""}]"#, Err("an fspId has not 1 to 32 characters")),
            (&*format!(r#"[{{"fspId":"{long}"}}]"#), Err("an fspId has not 1 to 32 characters")),
            (
                r#"[{"fspId":"a"},{"fspId":"b","currency":"usd"}]"#,
                Err("a currency is not a code of ISO 4217"),
            ),
            (
                r#"[{"fspId":"a","partySubIdOrType":"a b"}]"#,
                Err("a partySubIdOrType has a wrong form"),
            ),
            (r#"[{"currency":"USD"}]"#, Err("it is not a JSON object with a partyList")),
            (r#"{"fspId":"a"}"#, Err("it is not a JSON object with a partyList")),
            (&many, Err("its partyList has too many entries")),
        ] {
            let read = parse_party_list(format!(r#"{{"partyList":{list}}}"#).as_bytes());
            let read = read.map(|entries| {
                let text = |entry: &OracleEntry| {
                    let currency = entry.currency.map_or("-".to_owned(), |it| it.to_string());
                    format!("{} {currency} {}", entry.fsp, entry.sub_id.as_deref().unwrap_or("-"))
                };
                entries.iter().map(text).collect::<Vec<_>>().join("; ")
            });
            assert_eq!(read.as_deref(), expected.as_ref().map(|text| *text), "{list}");
        }
        for body in ["", "null", "[]", r#"{"partyList":1}"#, r#"{"partyList":[]} x"#] {
            assert!(parse_party_list(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn registrations_have_only_the_members_that_they_need() {
        let fsp = FspName::new("dfsp1").expect("a name");
        assert_eq!(registration(&fsp, None, None), br#"{"fspId":"dfsp1"}"#);
        assert_eq!(
            registration(&fsp, Currency::parse("USD"), Some("WORK")),
            br#"{"fspId":"dfsp1","currency":"USD","partySubIdOrType":"WORK"}"#
        );
    }
}
