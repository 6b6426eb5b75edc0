//! Bodies of the oracle API, which account lookup services and directories of parties speak
//! (`GET`, `POST`, `PUT`, `DELETE /participants/{Type}/{ID}`; hub-semantics 6.2).
//!
//! An oracle's answer is data from outside: it is bounded and checked as a whole, and one wrong
//! entry makes all of it invalid.

use std::borrow::Cow;

use ledger::{Currency, FspName, PartyBinding};
use serde::{Deserialize, Serialize};

use crate::body::FSP_ID_CHARS_MAX;
use crate::{
    DESCRIPTION_CHARS_MAX, ErrorCode, IDENTIFIER_CHARS_MAX, is_identifier, is_known_currency,
};

/// Maximum number of entries of an answer.
pub const ORACLE_ENTRIES_MAX: usize = 64;
/// Maximum number of parties of one batch to an oracle.
pub const ORACLE_BATCH_MAX: usize = 500;

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
        if self.fsp_id.chars().any(char::is_control) {
            return Err("an fspId has control characters");
        }
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

/// The body of a batch of registrations at an oracle.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Batch<'a> {
    request_id: &'a str,
    party_list: Vec<BatchParty<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<&'a str>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchParty<'a> {
    #[serde(borrow)]
    party_id_type: Cow<'a, str>,
    #[serde(borrow)]
    party_identifier: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    party_sub_id_or_type: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    fsp_id: Option<Cow<'a, str>>,
}

/// Renders the body of `POST /participants`, of at most [`ORACLE_BATCH_MAX`] parties.
#[must_use]
pub fn batch(request: &str, parties: &[&PartyBinding], currency: Option<Currency>) -> Vec<u8> {
    let party = |party: &&'_ PartyBinding| BatchParty {
        party_id_type: party.id_type.clone().into(),
        party_identifier: party.id.clone().into(),
        party_sub_id_or_type: party.sub_id.clone().map(Into::into),
        fsp_id: Some(party.fsp.as_str().to_owned().into()),
    };
    let party_list = parties.iter().map(party).collect();
    let currency = currency.as_ref().map(Currency::as_str);
    serde_json::to_vec(&Batch { request_id: request, party_list, currency }).unwrap_or_default()
}

/// The result of one party of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OracleResult {
    /// `partyIdType`, `partyIdentifier` and `partySubIdOrType`.
    pub party: (String, String, Option<String>),
    /// `errorInformation`.
    pub error: Option<(ErrorCode, String)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawResults<'a> {
    #[serde(borrow)]
    party_list: Vec<RawResult<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawResult<'a> {
    #[serde(borrow)]
    party_id: BatchParty<'a>,
    #[serde(borrow, default)]
    error_information: Option<RawError<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawError<'a> {
    #[serde(borrow)]
    error_code: Cow<'a, str>,
    #[serde(borrow)]
    error_description: Cow<'a, str>,
}

/// Parses the answer to a batch. A code that the hub does not forward becomes 3003.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse_batch_results(body: &[u8]) -> Result<Vec<OracleResult>, &'static str> {
    let list: RawResults<'_> =
        serde_json::from_slice(body).map_err(|_| "it is not a JSON object with a partyList")?;
    if ORACLE_BATCH_MAX < list.party_list.len() {
        return Err("its partyList has too many entries");
    }
    let result = |result: RawResult<'_>| {
        let BatchParty { party_id_type, party_identifier, party_sub_id_or_type, .. } =
            result.party_id;
        let sub_id = party_sub_id_or_type.map(Cow::into_owned);
        OracleResult {
            party: (party_id_type.into_owned(), party_identifier.into_owned(), sub_id),
            error: result.error_information.map(RawError::read),
        }
    };
    Ok(list.party_list.into_iter().map(result).collect())
}

impl RawError<'_> {
    fn read(self) -> (ErrorCode, String) {
        let code = ErrorCode::parse(&self.error_code).filter(|code| code.is_accepted());
        let description = self.error_description.chars().take(DESCRIPTION_CHARS_MAX).collect();
        (code.unwrap_or(ErrorCode::ADD_PARTY), description)
    }
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
            (r#"[{"fspId":"a\r\nX: b"}]"#, Err("an fspId has control characters")),
            (r#"[{"fspId":"\u001b[2Ja"}]"#, Err("an fspId has control characters")),
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
    fn batches_have_a_result_for_each_party() {
        let fsp = FspName::new("dfsp1").expect("a name");
        let party = PartyBinding {
            id_type: "ALIAS".into(),
            id: "shop".into(),
            sub_id: Some("TILL".into()),
            currency: None,
            fsp,
        };
        assert_eq!(
            String::from_utf8_lossy(&batch("r", &[&party], Currency::parse("USD"))),
            r#"{"requestId":"r","partyList":[{"partyIdType":"ALIAS","partyIdentifier":"shop","#
                .to_owned()
                + r#""partySubIdOrType":"TILL","fspId":"dfsp1"}],"currency":"USD"}"#
        );
        let answer = r#"{"partyList":[
            {"partyId":{"partyIdType":"ALIAS","partyIdentifier":"shop","partySubIdOrType":"TILL"}},
            {"partyId":{"partyIdType":"ALIAS","partyIdentifier":"b"},
             "errorInformation":{"errorCode":"3204","errorDescription":"no"}},
            {"partyId":{"partyIdType":"ALIAS","partyIdentifier":"c"},
             "errorInformation":{"errorCode":"9999","errorDescription":"no"}}]}"#;
        let found = parse_batch_results(answer.as_bytes()).expect("an answer");
        let errors: Vec<_> = found.iter().map(|it| it.error.as_ref().map(|it| it.0)).collect();
        assert_eq!(errors, [None, Some(ErrorCode::PARTY_NOT_FOUND), Some(ErrorCode::ADD_PARTY)]);
        assert_eq!(found[0].party, ("ALIAS".into(), "shop".into(), Some("TILL".into())));
        for wrong in ["{}", r#"{"partyList":[{}]}"#, r#"{"partyList":[{"partyId":1}]}"#] {
            assert!(parse_batch_results(wrong.as_bytes()).is_err(), "{wrong}");
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
