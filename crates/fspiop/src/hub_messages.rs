//! Messages from the hub: their headers, and their bodies as compact JSON with sorted keys.
//! Partners' validators reproduce a body only in this form (hub-semantics 1.7).
//!
//! Costs: one allocation per body and one map per set of headers. Names and ids are escaped if
//! necessary; extension lists are truncated to the bounds of the schema.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, DATE};
use http::{HeaderMap, HeaderValue, Method};
use ledger::{Currency, FspName};

use crate::body::Extension;
use crate::error::{self, DESCRIPTION_CHARS_MAX, ErrorCode};
use crate::forwarded_headers::{method_value, name_value};
use crate::headers::{
    FSPIOP_DESTINATION, FSPIOP_HTTP_METHOD, FSPIOP_SOURCE, FSPIOP_URI, TRACEPARENT, TRACESTATE,
};
use crate::json::{self, ObjectWriter};
use crate::route::{PartyIdType, Resource};
use crate::time::{date_header, date_time_whole_seconds};
use crate::trace::{self, TraceContext};

/// The parameters of a message from the hub.
#[derive(Clone, Copy, Debug)]
pub struct HubMessage<'a> {
    /// Resource, for the media type.
    pub resource: Resource,
    /// Method of the call: PUT, PATCH, or POST with an `Accept`.
    pub method: &'a Method,
    /// Path of the call, beginning with the resource: `/transfers/{ID}/error`.
    pub path: &'a str,
    /// Name of the hub.
    pub hub: &'a FspName,
    /// The recipient.
    pub recipient: &'a FspName,
    /// Trace of the message that is answered, or a new one.
    pub trace: TraceContext,
    /// `tracestate` of that message; if absent, the hub's own is written.
    pub trace_state: Option<&'a HeaderValue>,
    /// Id of the hub's span, not zero.
    pub span: u64,
    /// Time of sending, in milliseconds since 1970.
    pub now_ms: u64,
}

/// The headers of a message from the hub (hub-semantics 1.2; always version 2.0).
#[must_use]
pub fn hub_headers(message: &HubMessage<'_>) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(12);
    headers.insert(CONTENT_TYPE, content_type(message.resource));
    if message.method == Method::POST {
        headers.insert(ACCEPT, content_type(message.resource));
    }
    headers.insert(DATE, date_header(message.now_ms));
    headers.insert(&FSPIOP_SOURCE, name_value(message.hub));
    headers.insert(&FSPIOP_DESTINATION, name_value(message.recipient));
    if let Ok(path) = HeaderValue::from_str(message.path) {
        headers.insert(&FSPIOP_URI, path);
    }
    headers.insert(&FSPIOP_HTTP_METHOD, method_value(message.method));
    headers.insert(&TRACEPARENT, message.trace.child(message.span));
    let state = message.trace_state.cloned().unwrap_or_else(|| trace::state(message.span));
    headers.insert(&TRACESTATE, state);
    headers
}

/// The state of a transfer, for `PUT` and `PATCH /transfers/{ID}`.
#[derive(Clone, Copy, Debug)]
pub struct TransferNotice<'a> {
    /// The external name of the state: RECEIVED, RESERVED, COMMITTED or ABORTED.
    pub state: &'a str,
    /// Time of the final state, in milliseconds since 1970; written in whole seconds.
    pub completed_ms: Option<u64>,
    /// Fulfilment, in a PUT about a committed transfer; never in a PATCH.
    pub fulfilment: Option<&'a [u8; 32]>,
    /// Entries of the extension list; omitted if empty.
    pub extensions: &'a [Extension],
}

/// Renders the body of a notice about a transfer.
#[must_use]
pub fn transfer(notice: &TransferNotice<'_>) -> Bytes {
    let mut out = Vec::with_capacity(192);
    let mut object = ObjectWriter::open(&mut out);
    if let Some(completed) = notice.completed_ms {
        let text = object.member("completedTimestamp");
        text.push(b'"');
        text.extend_from_slice(&date_time_whole_seconds(completed));
        text.push(b'"');
    }
    if !notice.extensions.is_empty() {
        let entries: Vec<_> =
            notice.extensions.iter().map(|entry| (&*entry.key, &*entry.value)).collect();
        json::write_extension_list(object.member("extensionList"), &entries);
    }
    if let Some(fulfilment) = notice.fulfilment {
        object.text("fulfilment", &URL_SAFE_NO_PAD.encode(fulfilment));
    }
    object.text("transferState", notice.state);
    object.close();
    Bytes::from(out)
}

/// The extension with the cause of an abort: key `cause`, value `code: description`, truncated to
/// 128 characters (hub-semantics 3.9).
#[must_use]
pub fn cause(code: ErrorCode, description: &str) -> Extension {
    let text = format!("{code}: {description}");
    let value = error::first_chars(&text, DESCRIPTION_CHARS_MAX).to_owned();
    Extension { key: "cause".to_owned(), value }
}

/// Renders the body of a `PUT …/error`: code, complete description (see
/// [`ErrorCode::describe`]), and extensions, none for an empty slice.
#[must_use]
pub fn error(code: ErrorCode, description: &str, extensions: &[Extension]) -> Bytes {
    let entries: Vec<_> = extensions.iter().map(|entry| (&*entry.key, &*entry.value)).collect();
    error::error_body(code, description, &entries)
}

/// A party, as named in participants messages.
#[derive(Clone, Copy, Debug)]
pub struct PartyName<'a> {
    /// `partyIdType`.
    pub kind: PartyIdType,
    /// `partyIdentifier`.
    pub id: &'a str,
    /// `partySubIdOrType`.
    pub sub_id: Option<&'a str>,
    /// `fspId`.
    pub fsp: Option<&'a FspName>,
}

/// Renders the response to a look-up of a party's FSP, or to a removal: `{"fspId":…}`.
#[must_use]
pub fn participant(fsp: &FspName) -> Bytes {
    let mut out = Vec::with_capacity(48);
    let mut object = ObjectWriter::open(&mut out);
    object.text("fspId", fsp.as_str());
    object.close();
    Bytes::from(out)
}

/// Renders the response to a request for providers of a service: `{"providers":[…]}`.
#[must_use]
pub fn providers(names: &[FspName]) -> Bytes {
    let mut out = Vec::with_capacity(48);
    let mut object = ObjectWriter::open(&mut out);
    let list: Vec<_> = names.iter().map(FspName::as_str).collect();
    serde_json::to_writer(object.member("providers"), &list).expect("texts can be written");
    object.close();
    Bytes::from(out)
}

/// Renders the response to the registration of one party.
#[must_use]
pub fn participant_registered(party: &PartyName<'_>, currency: Option<Currency>) -> Bytes {
    party_list(std::iter::once(party), currency, |out, party| write_party(out, party))
}

/// The result for one party of a batch.
#[derive(Clone, Debug)]
pub struct BatchOutcome<'a> {
    /// The party as it was sent.
    pub party: PartyName<'a>,
    /// The reason for a refusal: code and complete description; `None` if it was registered.
    pub refused: Option<(ErrorCode, String)>,
}

/// Renders the response to a batch registration.
#[must_use]
pub fn batch_registered(outcomes: &[BatchOutcome<'_>], currency: Option<Currency>) -> Bytes {
    party_list(outcomes.iter(), currency, |out, outcome| {
        let mut object = ObjectWriter::open(out);
        if let Some((code, description)) = &outcome.refused {
            let entries: [(&str, &str); 0] = [];
            let out = object.member("errorInformation");
            error::write_error_information(out, *code, description, &entries);
        }
        write_party(object.member("partyId"), &outcome.party);
        object.close();
    })
}

fn party_list<T>(
    entries: impl Iterator<Item = T>,
    currency: Option<Currency>,
    write: impl Fn(&mut Vec<u8>, T),
) -> Bytes {
    let mut out = Vec::with_capacity(192);
    let mut object = ObjectWriter::open(&mut out);
    if let Some(currency) = currency {
        object.text("currency", currency.as_str());
    }
    let list = object.member("partyList");
    list.push(b'[');
    for (at, entry) in entries.enumerate() {
        if at > 0 {
            list.push(b',');
        }
        write(list, entry);
    }
    list.push(b']');
    object.close();
    Bytes::from(out)
}

fn write_party(out: &mut Vec<u8>, party: &PartyName<'_>) {
    let mut object = ObjectWriter::open(out);
    if let Some(fsp) = party.fsp {
        object.text("fspId", fsp.as_str());
    }
    object.text("partyIdType", party.kind.as_str());
    object.text("partyIdentifier", party.id);
    if let Some(sub_id) = party.sub_id {
        object.text("partySubIdOrType", sub_id);
    }
    object.close();
}

fn content_type(resource: Resource) -> HeaderValue {
    HeaderValue::from_static(match resource {
        Resource::Participants => "application/vnd.interoperability.participants+json;version=2.0",
        Resource::Parties => "application/vnd.interoperability.parties+json;version=2.0",
        Resource::Quotes => "application/vnd.interoperability.quotes+json;version=2.0",
        Resource::BulkQuotes => "application/vnd.interoperability.bulkQuotes+json;version=2.0",
        Resource::TransactionRequests => {
            "application/vnd.interoperability.transactionRequests+json;version=2.0"
        }
        Resource::Authorizations => {
            "application/vnd.interoperability.authorizations+json;version=2.0"
        }
        Resource::Transactions => "application/vnd.interoperability.transactions+json;version=2.0",
        Resource::BulkTransfers => {
            "application/vnd.interoperability.bulkTransfers+json;version=2.0"
        }
        Resource::Transfers => "application/vnd.interoperability.transfers+json;version=2.0",
        Resource::Services => "application/vnd.interoperability.services+json;version=2.0",
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::headers;

    /// Compares bodies, one per line.
    fn check(bodies: &[Bytes], expected: Expect) {
        let mut lines = String::new();
        for body in bodies {
            let text = std::str::from_utf8(body).expect("a body is UTF-8");
            let value: serde_json::Value = serde_json::from_str(text).expect("a body is JSON");
            let sorted = serde_json::to_string(&sorted(&value)).expect("a value is written");
            assert_eq!(sorted, text, "keys are sorted and nothing is spaced");
            lines += &format!("{text}\n");
        }
        expected.assert_eq(&lines);
    }

    /// The value with the keys of every object sorted, independent of the parser.
    fn sorted(value: &serde_json::Value) -> serde_json::Value {
        match value {
            serde_json::Value::Object(members) => {
                let mut members: Vec<_> =
                    members.iter().map(|(name, value)| (name.clone(), sorted(value))).collect();
                members.sort_by(|a, b| a.0.cmp(&b.0));
                serde_json::Value::Object(members.into_iter().collect())
            }
            serde_json::Value::Array(items) => items.iter().map(sorted).collect(),
            other => other.clone(),
        }
    }

    fn name(text: &str) -> FspName {
        FspName::new(text).expect("a name")
    }

    #[test]
    fn notices_about_a_transfer() {
        let committed = TransferNotice {
            state: "COMMITTED",
            completed_ms: Some(784_887_151_789),
            fulfilment: Some(&[0xff; 32]),
            extensions: &[],
        };
        let patch = TransferNotice { fulfilment: None, ..committed };
        let code = ErrorCode::VALIDATION;
        let cause = cause(code, &code.describe("invalid fulfilment"));
        let aborted = TransferNotice { state: "ABORTED", extensions: &[cause], ..patch };
        let reserved = TransferNotice { state: "RESERVED", completed_ms: None, ..patch };
        check(
            &[committed, patch, aborted, reserved].map(|notice| transfer(&notice)),
            expect![[r#"
                {"completedTimestamp":"1994-11-15T08:12:31.000Z","fulfilment":"__________________________________________8","transferState":"COMMITTED"}
                {"completedTimestamp":"1994-11-15T08:12:31.000Z","transferState":"COMMITTED"}
                {"completedTimestamp":"1994-11-15T08:12:31.000Z","extensionList":{"extension":[{"key":"cause","value":"3100: Generic validation error - invalid fulfilment"}]},"transferState":"ABORTED"}
                {"transferState":"RESERVED"}
            "#]],
        );
    }

    #[test]
    fn errors() {
        let expired = ErrorCode::TRANSFER_EXPIRED;
        let extension = Extension { key: "k".to_owned(), value: "v".to_owned() };
        check(
            &[error(expired, expired.name(), &[]), error(expired, "a \"b\"", &[extension])],
            expect![[r#"
                {"errorInformation":{"errorCode":"3303","errorDescription":"Transfer expired"}}
                {"errorInformation":{"errorCode":"3303","errorDescription":"a \"b\"","extensionList":{"extension":[{"key":"k","value":"v"}]}}}
            "#]],
        );
        assert_eq!(cause(expired, &"é".repeat(200)).value.chars().count(), 128);
    }

    #[test]
    fn answers_about_participants() {
        let fsp = name("bank \"é\"");
        let party = PartyName {
            kind: PartyIdType::Business,
            id: "acme",
            sub_id: Some("till"),
            fsp: Some(&fsp),
        };
        let plain = PartyName { kind: PartyIdType::Msisdn, id: "123", sub_id: None, fsp: None };
        let code = ErrorCode::PARTY_NOT_FOUND;
        let outcomes = [
            BatchOutcome { party, refused: None },
            BatchOutcome { party: plain, refused: Some((code, code.describe("no"))) },
        ];
        check(
            &[
                participant(&fsp),
                participant_registered(&party, Currency::parse("USD")),
                participant_registered(&plain, None),
                batch_registered(&outcomes, Currency::parse("XOF")),
                batch_registered(&[], None),
            ],
            expect![[r#"
                {"fspId":"bank \"é\""}
                {"currency":"USD","partyList":[{"fspId":"bank \"é\"","partyIdType":"BUSINESS","partyIdentifier":"acme","partySubIdOrType":"till"}]}
                {"partyList":[{"partyIdType":"MSISDN","partyIdentifier":"123"}]}
                {"currency":"XOF","partyList":[{"partyId":{"fspId":"bank \"é\"","partyIdType":"BUSINESS","partyIdentifier":"acme","partySubIdOrType":"till"}},{"errorInformation":{"errorCode":"3204","errorDescription":"Party not found - no"},"partyId":{"partyIdType":"MSISDN","partyIdentifier":"123"}}]}
                {"partyList":[]}
            "#]],
        );
    }

    #[test]
    fn hub_headers_are_complete_and_pass_the_own_check() {
        let (hub, recipient) = (name("Hub"), name("payerfsp"));
        let message = HubMessage {
            resource: Resource::Transfers,
            method: &Method::PUT,
            path: "/transfers/b51ec534-ee48-4575-b6a9-ead2955b8069",
            hub: &hub,
            recipient: &recipient,
            trace: TraceContext::new([0xab; 16]),
            trace_state: None,
            span: 0x1234,
            now_ms: 784_887_151_789,
        };
        let made = hub_headers(&message);
        let mut lines: Vec<_> = made
            .iter()
            .map(|(name, value)| format!("{name}: {}\n", value.to_str().expect("ASCII")))
            .collect();
        lines.sort();
        expect![[r#"
            content-type: application/vnd.interoperability.transfers+json;version=2.0
            date: Tue, 15 Nov 1994 08:12:31 GMT
            fspiop-destination: payerfsp
            fspiop-http-method: PUT
            fspiop-source: Hub
            fspiop-uri: /transfers/b51ec534-ee48-4575-b6a9-ead2955b8069
            traceparent: 00-abababababababababababababababab-0000000000001234-01
            tracestate: upesi=0000000000001234
        "#]]
        .assert_eq(&lines.concat());
        let read = headers::check(&made, &Method::PUT, "transfers").expect("good headers");
        assert_eq!((read.source, read.destination), (hub, Some(recipient)));

        let state = HeaderValue::from_static("vendor=1");
        let made = hub_headers(&HubMessage { trace_state: Some(&state), ..message });
        assert_eq!(made.get(&TRACESTATE), Some(&state));
    }

    #[test]
    fn every_resource_names_itself_in_its_media_type() {
        for resource in Resource::ALL {
            let expected =
                format!("application/vnd.interoperability.{}+json;version=2.0", resource.as_str());
            assert_eq!(content_type(resource), expected);
        }
    }
}
