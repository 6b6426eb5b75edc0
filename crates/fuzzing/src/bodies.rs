//! Bodies: one target for each form that `fspiop::body` reads.
//!
//! Properties of every form:
//!
//! - an accepted body is valid JSON (RFC 8259), has the published form, and repeats no member that
//!   is read; a refused body violates one of these, and the error code matches the violation;
//! - the fields have the values that a second reader finds: texts exactly, amounts through the
//!   ledger and back, times by another calendar;
//! - a number, a boolean or `null` is equivalent to its text, whether a text is expected or not;
//!   every digit counts (hub-semantics 1.3);
//! - the same bytes give the same result, and so does the same body with other whitespace;
//! - the hash that identifies resends ignores whitespace, and any other difference changes it;
//! - a member written a second time, escaped or not, is refused.

use std::fmt::Debug;

use fspiop::body::{
    BatchRegistration, ErrorInformation, Extension, Fulfil, Money, ParticipantRegistration,
    ParticipantUpdate, Prepare, Quote, QuoteResponse, check_party, fsp_id,
};
use fspiop::{BODY_BYTES_MAX, Refusal, TRANSFER_BODY_BYTES_MAX, body_hash};
use ledger::Amount;

use crate::json::{Document, JsonError, Node, Text, Value};
use crate::{refusal, schema};

/// Longest body for which all is asked; longer ones are only parsed.
const BYTES_MAX: usize = 64 * 1024;
/// Members that are written a second time, at most.
const REPEATS_MAX: usize = 16;

/// A form of bodies.
struct Form {
    schema: &'static str,
    bytes_max: usize,
    /// Parses the body, compares it with the second reader's result, and describes all of it.
    parse: fn(&[u8], Option<&Node>) -> Result<String, Refusal>,
}

/// `POST /transfers`.
pub fn prepare(data: &[u8]) {
    check(data, "prepare", TRANSFER_BODY_BYTES_MAX, |body, seen| {
        let found = Prepare::parse(body)?;
        if let Some(seen) = seen {
            same(seen, "transferId", found.transfer);
            same(seen, "payerFsp", found.payer);
            same(seen, "payeeFsp", found.payee);
            same_money(seen, "amount", Some(found.amount));
            let condition = seen.text("condition").map(decode_base64url);
            assert_eq!(condition.as_deref(), Some(&found.condition[..]), "condition");
            // 43 characters hold two bits more than 32 bytes have: they must be zero.
            assert_eq!(seen.text("condition"), Some(&*encode_base64url(&found.condition)));
            same_moment(seen, "expiration", Some(found.expiration_ms));
        }
        describe(&found)
    });
}

/// `PUT /transfers/{ID}`.
pub fn fulfil(data: &[u8]) {
    check(data, "fulfil", TRANSFER_BODY_BYTES_MAX, |body, seen| {
        let found = Fulfil::parse(body)?;
        if let Some(seen) = seen {
            same(seen, "transferState", found.state.as_str());
            same_moment(seen, "completedTimestamp", found.completed_ms);
            let fulfilment = seen.text("fulfilment").map(decode_base64url);
            assert_eq!(fulfilment.as_deref(), found.fulfilment.as_ref().map(|it| &it[..]));
            same_extensions(seen, "extensionList/extension", found.extension_list.as_deref());
        }
        // No moment of receipt makes the check of the time panic.
        for now_ms in [0, 1_700_000_000_000, u64::MAX] {
            let _verdict = found.check_completed(now_ms);
        }
        let extensions = found.extension_list.as_deref().map(Extension::list);
        describe(&(found.state, found.fulfilment, found.completed_ms, extensions))
    });
}

/// `PUT …/error`; of a quote, it is closed.
pub fn error(data: &[u8]) {
    check(data, "quote_error", BODY_BYTES_MAX, |body, _| {
        let found = ErrorInformation::parse_closed(body)?;
        let open =
            ErrorInformation::parse(body).expect("the open form takes what the closed one does");
        let extensions =
            [&found, &open].map(|it| it.extension_list.as_deref().map(Extension::list));
        assert_eq!((found.code, &found.description), (open.code, &open.description));
        assert_eq!(extensions[0], extensions[1]);
        describe(&(found.code, &found.description, &extensions[0]))
    });
    check(data, "error", BODY_BYTES_MAX, |body, seen| {
        let found = ErrorInformation::parse(body)?;
        if let Some(seen) = seen {
            same(seen, "errorInformation/errorCode", found.code);
            same(seen, "errorInformation/errorDescription", &found.description);
            let list = "errorInformation/extensionList/extension";
            same_extensions(seen, list, found.extension_list.as_deref());
        }
        let (code, description) = found.effective();
        assert!(code.is_accepted(), "a forwarded code is one of the scheme");
        assert!((1..=128).contains(&description.chars().count()));
        let extensions = found.extension_list.as_deref().map(Extension::list).unwrap_or_default();
        // A body that the hub would make of it is accepted by the hub itself.
        let own = fspiop::hub_messages::error(code, &description, &extensions);
        let again = ErrorInformation::parse(&own).expect("the hub's own bodies are sound");
        assert_eq!((again.code, &*again.description), (code, &*description));
        describe(&(found.code, &found.description, extensions))
    });
}

/// `POST /quotes`.
pub fn quote(data: &[u8]) {
    check(data, "quote", TRANSFER_BODY_BYTES_MAX, |body, seen| {
        let found = Quote::parse(body)?;
        if let Some(seen) = seen {
            same(seen, "quoteId", found.quote);
            same_option(seen, "payer/partyIdInfo/fspId", found.payer.as_ref());
            same_option(seen, "payee/partyIdInfo/fspId", found.payee.as_ref());
            same_money(seen, "amount", Some(found.amount));
            let items = seen.items("payer/supportedCurrencies").len();
            assert_eq!(items, found.payer_currencies.len(), "every currency is known");
        }
        describe(&found)
    });
}

/// `PUT /quotes/{ID}`.
pub fn quote_answer(data: &[u8]) {
    check(data, "quote_answer", TRANSFER_BODY_BYTES_MAX, |body, seen| {
        let found = QuoteResponse::parse(body)?;
        if let Some(seen) = seen {
            same_money(seen, "transferAmount", Some(found.transfer_amount));
            same_money(seen, "payeeReceiveAmount", found.receive_amount);
            same_moment(seen, "expiration", Some(found.expiration_ms));
        }
        describe(&(found, found.payee_currency()))
    });
}

/// `PUT /parties/{Type}/{ID}`.
pub fn party(data: &[u8]) {
    check(data, "party", BODY_BYTES_MAX, |body, _| check_party(body).map(|()| String::new()));
}

/// `POST /participants/{Type}/{ID}`.
pub fn registration(data: &[u8]) {
    check(data, "registration", BODY_BYTES_MAX, |body, seen| {
        let found = ParticipantRegistration::parse(body)?;
        if let Some(seen) = seen {
            same(seen, "fspId", found.fsp);
            same_option(seen, "currency", found.currency.as_ref());
        }
        describe(&found)
    });
}

/// `PUT /participants/{Type}/{ID}`.
pub fn update(data: &[u8]) {
    check(data, "update", BODY_BYTES_MAX, |body, seen| {
        let found = ParticipantUpdate::parse(body)?;
        if let Some(seen) = seen {
            same_option(seen, "fspId", found.fsp.as_ref());
            same_option(seen, "currency", found.currency.as_ref());
        }
        describe(&found)
    });
}

/// `POST /participants`.
pub fn batch(data: &[u8]) {
    check(data, "batch", BODY_BYTES_MAX, |body, seen| {
        let found = BatchRegistration::parse(body)?;
        if let Some(seen) = seen {
            same(seen, "requestId", &found.request);
            same_option(seen, "currency", found.currency.as_ref());
            let items = seen.items("partyList");
            assert_eq!(items.len(), found.parties.len(), "no party is lost");
            for (item, party) in items.iter().zip(&found.parties) {
                same(item, "partyIdType", party.kind.as_str());
                same(item, "partyIdentifier", &party.id);
                same_option(item, "partySubIdOrType", party.sub_id.as_ref());
                same_option(item, "fspId", party.fsp.as_ref());
            }
        }
        describe(&found)
    });
}

fn check(
    data: &[u8],
    schema: &'static str,
    bytes_max: usize,
    parse: fn(&[u8], Option<&Node>) -> Result<String, Refusal>,
) {
    let form = Form { schema, bytes_max, parse };
    if form.bytes_max < data.len() {
        return;
    }
    let document =
        if data.len() <= BYTES_MAX { Document::read(data) } else { Err(JsonError::Deep) };
    let seen = document.as_ref().ok().map(|document| &document.root);
    let found = (form.parse)(data, seen);
    assert_eq!(found, (form.parse)(data, None), "the same bytes give the same");
    if let Err(refused) = &found {
        refusal::check(refused);
        assert!(
            matches!(refused.code.number(), 3100..=3103),
            "bodies are refused with 3100 to 3103: {refused}"
        );
    }
    match document {
        Err(JsonError::Deep) => (),
        Err(fault) => form.check_no_document(data, fault, &found),
        Ok(document) => {
            form.check_verdict(&document, &found);
            form.check_whitespace(data, &document, &found);
            form.check_scalars(data, &document, &found);
            form.check_hash(data, &document);
            if found.is_ok() {
                form.check_repeats(data, &document);
            }
        }
    }
}

/// Whether the unused bits at the end of a condition differ from those of an encoded 32-byte hash.
fn is_no_hash(condition: &str) -> bool {
    let has_form = condition.len() == 43 && condition.bytes().all(|byte| DIGITS.contains(&byte));
    has_form && encode_base64url(&decode_base64url(condition)) != condition
}

impl Form {
    fn check_no_document(&self, data: &[u8], fault: JsonError, found: &Result<String, Refusal>) {
        let Err(refused) = found else {
            panic!("{} was accepted, but is no JSON: {fault:?}", self.schema);
        };
        let code = refused.code.number();
        match fault {
            // Something else may be wrong before the place where it ends.
            JsonError::Early if may_be_odd(data) => {
                assert!(matches!(code, 3101 | 3102), "{refused}")
            }
            // A number that ends where another digit must follow cannot be distinguished from a
            // wrong one.
            JsonError::Early if matches!(data.last(), Some(b'-' | b'+' | b'.' | b'e' | b'E')) => {
                assert!(matches!(code, 3101 | 3102), "{refused}");
            }
            JsonError::Early => assert_eq!(code, 3102, "{refused}"),
            // The four digits of an escape are checked when all of them are present.
            JsonError::Malformed if data[data.len().saturating_sub(5)..].contains(&b'\\') => {
                assert!(matches!(code, 3101 | 3102), "{refused}");
            }
            JsonError::Malformed | JsonError::Deep => assert_eq!(code, 3101, "{refused}"),
        }
    }

    fn check_verdict(&self, document: &Document, found: &Result<String, Refusal>) {
        let root = &document.root;
        let mut findings = schema::check(root, self.schema);
        // Apart from the form, parsers may refuse JSON that is valid but read in different ways.
        let is_odd = root.repeats() || root.has_broken_text();
        match found {
            Ok(_) => {
                assert!(findings.codes.is_empty(), "accepted against {:?}", findings.codes);
                assert!(!findings.repeats_known, "a member was accepted twice");
            }
            Err(refused) => {
                if is_odd {
                    findings.codes.push(3101);
                }
                findings.codes.append(&mut findings.possible);
                // A condition of the right form that no hash is written as.
                if self.schema == "prepare" && root.text("condition").is_some_and(is_no_hash) {
                    findings.codes.push(3100);
                }
                let code = refused.code.number();
                assert!(findings.codes.contains(&code), "{refused}, not {:?}", findings.codes);
            }
        }
    }

    fn check_whitespace(&self, data: &[u8], document: &Document, found: &Result<String, Refusal>) {
        let blanks: [&[u8]; 4] = [b"", b" ", b"\r\n\t", b"\n  "];
        for turn in [0, 1] {
            let body = document.write(data, |at| blanks[(at * turn + turn * 3) % 4]);
            assert_eq!(&(self.parse)(&body, None), found, "whitespace has no effect");
            assert_eq!(body_hash(&body), body_hash(data), "nor on the hash");
        }
    }

    /// Writes every scalar as its text, then every text as its scalar, if it has one.
    fn check_scalars(&self, data: &[u8], document: &Document, found: &Result<String, Refusal>) {
        let values = document.root.leaves();
        for spelled in [as_text, as_scalar] {
            let (mut body, mut from) = (Vec::with_capacity(data.len()), 0);
            for node in &values {
                let Some(spelled) = spelled(&node.value) else { continue };
                body.extend_from_slice(&data[from..node.span.start]);
                body.extend_from_slice(spelled.as_bytes());
                from = node.span.end;
            }
            if 0 < from {
                body.extend_from_slice(&data[from..]);
                assert_eq!(&(self.parse)(&body, None), found, "as good as its text");
            }
        }
    }

    fn check_hash(&self, data: &[u8], document: &Document) {
        let compact = document.write(data, |_| b"");
        let hash = body_hash(data);
        assert_eq!(hash, *blake3::hash(&compact).as_bytes(), "the hash is of the tokens");
        let Some(token) = document.tokens.get(data.len() % document.tokens.len()) else { return };
        let mut changed = data.to_vec();
        match changed[token.start] {
            // A blank within a text counts.
            b'"' => changed.insert(token.start + 1, b' '),
            byte => changed[token.start] = byte ^ 1,
        }
        assert_ne!(hash, body_hash(&changed), "another body has another hash");
    }

    /// Puts each member that is read in front once more, with another value.
    fn check_repeats(&self, data: &[u8], document: &Document) {
        let start = document.root.span.start + 1;
        for (at, name) in schema::members(self.schema).take(REPEATS_MAX).enumerate() {
            if document.root.all(name).next().is_none() {
                continue;
            }
            let spelled = match at % 2 {
                0 => name.to_owned(),
                _ => format!("\\u{:04x}{}", name.as_bytes()[0], &name[1..]),
            };
            let mut body = data[..start].to_vec();
            body.extend_from_slice(format!("\"{spelled}\":\"\",").as_bytes());
            body.extend_from_slice(&data[start..]);
            let twice = (self.parse)(&body, None);
            assert!(twice.is_err(), "{name} was accepted with two values");
        }
    }
}

/// Whether the bytes contain half of a surrogate pair, which JSON allows but parsers refuse.
fn may_be_odd(data: &[u8]) -> bool {
    let has = |pair: fn(u8, u8) -> bool| data.windows(2).any(|two| pair(two[0], two[1]));
    std::str::from_utf8(data).is_err() || has(|first, second| first == b'\\' && second == b'u')
}

/// A scalar as its text.
fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Scalar(Some(text)) => Some(format!("\"{text}\"")),
        _ => None,
    }
}

/// A text as its scalar.
fn as_scalar(value: &Value) -> Option<String> {
    let Value::Text(Text { text, is_broken: false }) = value else { return None };
    let spelled = if text.is_empty() { "null" } else { text.as_str() };
    match Document::read(spelled.as_bytes()).ok()?.root.value {
        Value::Scalar(Some(meaning)) if meaning == *text => Some(spelled.to_owned()),
        _ => None,
    }
}

fn describe(found: &impl Debug) -> Result<String, Refusal> {
    Ok(format!("{found:?}"))
}

fn same(seen: &Node, path: &str, found: impl ToString) {
    assert_eq!(as_read(seen, path), Some(found.to_string()), "{path}");
}

fn same_option(seen: &Node, path: &str, found: Option<&(impl ToString + ?Sized)>) {
    assert_eq!(as_read(seen, path), found.map(ToString::to_string), "{path}");
}

/// The text of a member; a name of an FSP as the hub reads it.
fn as_read(seen: &Node, path: &str) -> Option<String> {
    let text = seen.text(path)?;
    match path.to_ascii_lowercase().contains("fsp") {
        true => fsp_id(text).map(|name| name.to_string()),
        false => Some(text.to_owned()),
    }
}

fn same_money(seen: &Node, path: &str, found: Option<Money>) {
    same_option(seen, &format!("{path}/amount"), found.map(|money| money.amount).as_ref());
    same_option(seen, &format!("{path}/currency"), found.map(|money| money.currency).as_ref());
    if let Some(Money { amount, .. }) = found {
        assert_eq!(Amount::parse(&amount.to_string()), Some(amount), "an amount is its text");
        assert_eq!(Amount::parse_decimal(&amount.to_string()), Some(amount));
        assert!(Amount::ZERO <= amount);
    }
}

/// The time according to another calendar, that of jiff.
fn same_moment(seen: &Node, path: &str, found: Option<u64>) {
    let expected = seen.text(path).map(|text| {
        let moment: jiff::Timestamp = text.parse().expect("the pattern allows moments only");
        u64::try_from(moment.as_millisecond()).unwrap_or(0)
    });
    assert_eq!(expected, found, "{path}");
}

fn same_extensions(seen: &Node, path: &str, found: Option<&str>) {
    let expected: Vec<_> =
        seen.items(path).iter().map(|item| (item.text("key"), item.text("value"))).collect();
    let found = found.map(Extension::list).unwrap_or_default();
    let found: Vec<_> =
        found.iter().map(|entry| (Some(&*entry.key), Some(&*entry.value))).collect();
    assert_eq!(expected, found, "{path}");
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn decode_base64url(text: &str) -> Vec<u8> {
    let (mut out, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for byte in text.bytes() {
        let value = DIGITS.iter().position(|digit| *digit == byte).expect("the pattern holds");
        bits = bits << 6 | value as u32;
        held += 6;
        if 8 <= held {
            held -= 8;
            out.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    out
}

pub(crate) fn encode_base64url(bytes: &[u8]) -> String {
    let (mut out, mut bits, mut held) = (String::new(), 0u32, 0);
    for byte in bytes {
        bits = bits << 8 | u32::from(*byte);
        held += 8;
        while 6 <= held {
            held -= 6;
            out.push(char::from(DIGITS[(bits >> held) as usize & 63]));
        }
        bits &= (1 << held) - 1;
    }
    if 0 < held {
        out.push(char::from(DIGITS[(bits << (6 - held)) as usize & 63]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of the seeds that each test a rule: without this check, all of them could be
    /// refused for another reason. The error code, or the parsed value.
    #[test]
    fn seeds_reach_the_rule_they_stand_for() {
        let amount = |body: &[u8]| Prepare::parse(body).map(|it| it.amount.amount.to_string());
        for (name, expected) in [
            ("number", "1.5"),
            ("number-largest", "999999999999999999.9999"),
            ("number-negative-zero", "0"),
            ("number-close", "3100"),
            ("number-long", "3100"),
            ("number-exponent", "3101"),
            ("scalars", "3100"),
        ] {
            assert_eq!(outcome("prepare", name, amount), expected, "prepare/{name}");
        }
        let party = |body: &[u8]| check_party(body).map(|()| "accepted".to_owned());
        for (name, expected) in [
            ("usual", "accepted"),
            ("full", "accepted"),
            ("identifier-number", "accepted"),
            ("empty", "3102"),
            ("name-symbol", "3100"),
            ("name-half", "3100"),
            ("name-blank", "3100"),
            ("identifier-blank", "3100"),
            ("identifier-brace", "3100"),
            ("currency-long", "3100"),
        ] {
            assert_eq!(outcome("party", name, party), expected, "party/{name}");
        }
        let error = |body: &[u8]| ErrorInformation::parse(body).map(|it| it.description.into());
        let closed =
            |body: &[u8]| ErrorInformation::parse_closed(body).map(|it| it.description.into());
        for (name, open, of_quote) in
            [("numbers", "12.5", "12.5"), ("number", "3100", "3100"), ("open", "no", "3103")]
        {
            assert_eq!(outcome("error", name, error), open, "error/{name}");
            assert_eq!(outcome("error", name, closed), of_quote, "error/{name}");
        }
        let quote = |body: &[u8]| Quote::parse(body).map(|it| it.amount.amount.to_string());
        assert_eq!(outcome("quote", "numbers", quote), "100");
        assert_eq!(outcome("quote", "consent", quote), "3100");
    }

    fn outcome(
        target: &str,
        name: &str,
        parse: impl Fn(&[u8]) -> Result<String, Refusal>,
    ) -> String {
        let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");
        let seed = std::fs::read(format!("{seeds}/{target}/{name}")).expect("a seed");
        parse(&seed).unwrap_or_else(|refused| refused.code.number().to_string())
    }
}
