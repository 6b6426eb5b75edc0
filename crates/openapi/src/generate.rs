//! Generates messages from a document, to test the running program: for each operation a valid
//! message from its examples, and for each described rule one message that breaks only that rule.
//!
//! A program conforms to its document if it accepts the valid messages, refuses the others, and
//! all responses are as described ([`response_fault`]).

use ::fspiop::percent_encode;
use serde_json::{Map, Value, json};

use crate::validate::{self, resolve};

/// Maximum length of a generated text that breaks a limit, in characters.
const LONG_MAX: u64 = 40_000;
/// Maximum number of generated items that break a limit.
const MANY_MAX: u64 = 32;

/// One operation with its messages.
#[derive(Debug)]
pub struct OperationMessages<'d> {
    /// Its `operationId`.
    pub id: &'d str,
    /// Its path, with the names of its parameters in braces.
    pub path: &'d str,
    /// Its description in the document.
    pub operation: &'d Value,
    /// Whether it needs the bearer token in every configuration with a token.
    pub needs_token: bool,
    /// The message of its examples.
    pub good: ExampleMessage,
    /// Messages that break one rule each.
    pub bad: Vec<ExampleMessage>,
}

/// A message.
#[derive(Clone, Debug)]
pub struct ExampleMessage {
    /// The rule that it breaks, or a label.
    pub what: String,
    /// Method in upper case.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers, in the order of the document.
    pub headers: Vec<(String, String)>,
    /// Media type and text.
    pub body: Option<(String, String)>,
}

/// All operations of a document, sorted by path and method.
#[must_use]
pub fn operations(document: &Value) -> Vec<OperationMessages<'_>> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let all = paths.flat_map(|(path, operations)| {
        let operations = operations.as_object().into_iter().flatten();
        operations.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    });
    all.map(|(path, method, operation)| played(document, path, method, operation)).collect()
}

/// The first undescribed part of a response: its status, its media type or its schema.
#[must_use]
pub fn response_fault(
    document: &Value,
    operation: &Value,
    status: u16,
    content_type: Option<&str>,
    body: &str,
) -> Option<String> {
    let Some(response) = operation["responses"].get(status.to_string()) else {
        return Some(format!("status {status} is not described"));
    };
    let response = resolve(document, response);
    let Some(all) = response["content"].as_object() else {
        return (!body.is_empty()).then(|| format!("{status} has a body: {body}"));
    };
    let essence = content_type.and_then(|text| text.split(';').next());
    let Some((media, content)) = all.iter().find(|(media, _)| essence == media.split(';').next())
    else {
        return Some(format!("{status} has the media type {content_type:?}"));
    };
    if media != "application/json" {
        return None;
    }
    match serde_json::from_str(body) {
        Ok(value) => validate::fault(document, &content["schema"], &value),
        Err(error) => Some(format!("{status} is not JSON: {error}")),
    }
}

/// A message whose parts can be made invalid one by one.
#[derive(Clone)]
struct Draft<'d> {
    method: &'d str,
    path: &'d str,
    /// Values by parameter, `None` where one is left out.
    values: Vec<(&'d Value, Option<String>)>,
    body: Option<(&'d str, Value)>,
}

fn played<'d>(
    document: &'d Value,
    path: &'d str,
    method: &'d str,
    operation: &'d Value,
) -> OperationMessages<'d> {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let parameters = parameters.map(|one| resolve(document, one));
    let values = parameters.map(|one| (one, one.get("example").map(plain))).collect();
    let content = operation["requestBody"]["content"].as_object();
    let usual = content.and_then(|content| {
        // The version that the header of the example names, or the only one.
        let sent = content.iter().find(|(media, _)| media.ends_with("1.1"));
        sent.or_else(|| content.iter().next())
    });
    let body = usual.map(|(media, entry)| (media.as_str(), entry["example"].clone()));
    let draft = Draft { method, path, values, body };
    let mut bad = bad_parameters(document, &draft);
    if let Some((_, entry)) = usual {
        bad.extend(bad_bodies(document, &draft, &entry["schema"]));
    }
    OperationMessages {
        id: operation["operationId"].as_str().unwrap_or_default(),
        path,
        operation,
        needs_token: matches!(operation["security"][0].as_object(), Some(it) if !it.is_empty()),
        good: draft.message("the example".to_owned()),
        bad,
    }
}

fn bad_parameters(document: &Value, draft: &Draft<'_>) -> Vec<ExampleMessage> {
    let mut out = Vec::new();
    for (at, (parameter, _)) in draft.values.iter().enumerate() {
        let name = parameter["name"].as_str().unwrap_or_default();
        let mut with = |what: &str, value: Option<String>| {
            let mut draft = draft.clone();
            draft.values[at].1 = value;
            out.push(draft.message(format!("{name} {what}")));
        };
        let is_in_path = parameter["in"] == "path";
        if parameter["required"] == true && !is_in_path {
            with("is missing", None);
        }
        let schema = resolve(document, &parameter["schema"]);
        for (what, value) in bad_scalars(schema) {
            let text = plain(&value);
            // A list is a text here, an empty segment another path, and no header has a control
            // character.
            if !value.is_array()
                && !text.is_empty()
                && (parameter["in"] != "header" || !text.contains('\u{1}'))
            {
                with(what, Some(text));
            }
        }
        if parameter["in"] == "header" && schema.get("pattern").is_some() {
            with("breaks its pattern", Some("broken".to_owned()));
        }
    }
    out
}

fn bad_bodies(document: &Value, draft: &Draft<'_>, schema: &Value) -> Vec<ExampleMessage> {
    let Some((media, good)) = &draft.body else { return Vec::new() };
    let with = |what: String, value: Value| {
        Draft { body: Some((media, value)), ..draft.clone() }.message(what)
    };
    let mut bad: Vec<ExampleMessage> = broken(document, schema, good)
        .into_iter()
        .map(|(what, value)| with(format!("body{what}"), value))
        .collect();
    let mut torn = draft.message("the body ends too early".to_owned());
    if let Some((_, text)) = &mut torn.body {
        text.pop();
    }
    bad.push(torn);
    bad
}

/// Values that break one rule of `schema` each, made from one that breaks none.
fn broken(document: &Value, schema: &Value, good: &Value) -> Vec<(String, Value)> {
    let schema = resolve(document, schema);
    let scalars = bad_scalars(schema).into_iter();
    let mut out: Vec<_> = scalars.map(|(what, value)| (format!(" {what}"), value)).collect();
    match good {
        Value::Object(members) => out.extend(broken_members(document, schema, members)),
        Value::Array(items) => {
            if let Some(most) = schema["maxItems"].as_u64().filter(|most| *most <= MANY_MAX) {
                let many = vec![items[0].clone(); most as usize + 1];
                out.push((" has too many items".to_owned(), many.into()));
            }
            if schema["minItems"].as_u64().is_some_and(|least| 0 < least) {
                out.push((" has no items".to_owned(), json!([])));
            }
            for (what, item) in broken(document, &schema["items"], &items[0]) {
                out.push((format!("[0]{what}"), json!([item])));
            }
        }
        _ => (),
    }
    out
}

fn broken_members(
    document: &Value,
    schema: &Value,
    members: &Map<String, Value>,
) -> Vec<(String, Value)> {
    let mut out = Vec::new();
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let mut fewer = members.clone();
        fewer.remove(name);
        out.push((format!(" lacks {name}"), fewer.into()));
    }
    if schema["additionalProperties"] == false {
        let mut more = members.clone();
        more.insert("notDescribed".to_owned(), json!(1));
        out.push((" has a member more".to_owned(), more.into()));
    }
    for (name, one) in schema["properties"].as_object().into_iter().flatten() {
        let bad = match members.get(name) {
            Some(good) => broken(document, one, good),
            None => {
                let scalars = bad_scalars(resolve(document, one)).into_iter();
                scalars.map(|(what, value)| (format!(" {what}"), value)).collect()
            }
        };
        for (what, value) in bad {
            let mut changed = members.clone();
            changed.insert(name.clone(), value);
            out.push((format!(".{name}{what}"), changed.into()));
        }
    }
    out
}

/// Values that break one rule of a schema each, independent of a valid value.
fn bad_scalars(schema: &Value) -> Vec<(&'static str, Value)> {
    let mut out = Vec::new();
    match schema["type"].as_str() {
        Some("string") => out.push(("is a list", json!([]))),
        Some("integer" | "number") => out.push(("is a word", json!("word"))),
        Some("boolean" | "array") => out.push(("is an object", json!({}))),
        Some("object") => out.push(("is a word", json!("word"))),
        _ if schema.get("anyOf").is_some() => {
            out.push(("is an object", json!({})));
            out.push(("matches none of the schemas", json!("word")));
        }
        _ => (),
    }
    if schema.get("enum").is_some() {
        out.push(("is not in the list", json!("NONE_OF_THEM")));
    }
    let least = schema["minLength"].as_u64().unwrap_or(0);
    if 0 < least {
        out.push(("is empty", json!("")));
    }
    if 1 < least {
        out.push(("is too short", json!("a".repeat(least as usize - 1))));
    }
    if let Some(most) = schema["maxLength"].as_u64().filter(|most| *most <= LONG_MAX) {
        out.push(("is too long", json!("a".repeat(most as usize + 1))));
    }
    if schema.get("pattern").is_some() {
        out.push(("breaks its pattern", json!("\u{1} ".repeat(least.max(1) as usize))));
    }
    if let Some(least) = schema["minimum"].as_i64() {
        out.push(("is below its bound", json!(least - 1)));
    }
    if let Some(most) = schema["maximum"].as_i64() {
        out.push(("is above its bound", json!(most + 1)));
    }
    out
}

impl Draft<'_> {
    fn message(&self, what: String) -> ExampleMessage {
        let mut path = self.path.to_owned();
        let mut query = String::new();
        let mut headers = Vec::new();
        for (parameter, value) in &self.values {
            let name = parameter["name"].as_str().unwrap_or_default();
            let Some(value) = value else { continue };
            match parameter["in"].as_str() {
                Some("path") => path = path.replace(&format!("{{{name}}}"), &escaped(value)),
                Some("query") => {
                    query.push(if query.is_empty() { '?' } else { '&' });
                    query += &format!("{name}={}", escaped(value));
                }
                _ => headers.push((name.to_owned(), value.clone())),
            }
        }
        let body =
            self.body.as_ref().map(|(media, value)| ((*media).to_owned(), value.to_string()));
        let method = self.method.to_ascii_uppercase();
        ExampleMessage { what, method, path: path + &query, headers, body }
    }
}

/// Fit for one segment of a path and for a query.
fn escaped(text: &str) -> String {
    percent_encode(text).replace('&', "%26").replace('+', "%2B")
}

/// The text of a value as a parameter.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_gives_good_and_bad_messages() {
        let document = crate::fspiop::document();
        let played = operations(&document);
        let post = played.iter().find(|played| played.id == "TransfersPost").expect("a route");
        assert_eq!(post.good.path, "/transfers");
        let whats: Vec<&str> = post.bad.iter().map(|message| message.what.as_str()).collect();
        for what in [
            "Date is missing",
            "Accept breaks its pattern",
            "FSPIOP-Source is too long",
            "body lacks transferId",
            "body.amount lacks currency",
            "body.amount.currency is not in the list",
            "body.amount.amount breaks its pattern",
            "body.payerFsp is too long",
            "body.extensionList is a word",
            "the body ends too early",
        ] {
            assert!(whats.contains(&what), "{what} is not among {whats:#?}");
        }
        let get = played.iter().find(|played| played.id == "PartiesGet").expect("a route");
        assert!(get.bad.iter().any(|message| message.path == "/parties/NONE_OF_THEM/27713803912"));
    }

    #[test]
    fn answers_that_are_not_described_are_found() {
        let document = crate::fspiop::document();
        let played = operations(&document);
        let get = played.iter().find(|played| played.id == "PartiesGet").expect("a route");
        let fault = |status, body: &str| {
            let media = Some("application/json; charset=utf-8");
            response_fault(&document, get.operation, status, media, body)
        };
        let refusal = |code: &str| {
            json!({"errorInformation": {"errorCode": code, "errorDescription": "x"}}).to_string()
        };
        assert_eq!(fault(202, ""), None);
        assert_eq!(fault(400, &refusal("3101")), None);
        assert!(fault(200, "").is_some());
        assert!(fault(202, "{}").is_some());
        assert!(fault(400, "").is_some());
        assert!(fault(400, &refusal("5100")).is_some(), "a code that is not described");
    }
}
