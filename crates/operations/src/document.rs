//! The admin API described as data, and served: `GET /openapi/{fspiop,admin}.json` and the page
//! `GET /documents`.
//!
//! **A new route needs one thing here: its operation in `operations`**, in the file of its
//! resource under `document`. A test holds the list against the router, in both directions, and
//! `tests/api/document.rs` plays every described rule against the real handlers, so that a wrong
//! description fails as a missing one does. Codes of changes come from the table of outcomes
//! (`refusals`), bounds and names from the constants that the handlers check by.
//!
//! Costs: documents are made when they are first asked for, and kept: 300 KB.

use std::sync::LazyLock;

use bytes::Bytes;
use fspiop::ErrorCode;
use ledger::AdminOutcome;
use openapi::schema::reference;
use openapi::{Answer, Api, Body, Operation, Parameter, Place};
use serde_json::{Value, json};

use crate::answer::{Answer as Response, Reply};
use crate::guard::{ACTOR_BYTES_MAX, REASON_BYTES_MAX};
use crate::refusals::{of_outcome, repeated};

mod accounts;
mod caps;
mod catalogue;
mod hub;
mod keys;
mod oracles;
mod participants;
mod parties;
mod schemas;
mod settlement_models;
mod snapshots;
mod waterfall;

const TEXT: &str = "\
For operators: onboarding, public keys, accounts and funds, caps, settlement models, oracles, \
dead letters, health.\n\n\
A **change** needs the bearer token of the data directory, unless the configuration says \
otherwise; reading needs none, but for `/state` and `/transactions`. The answer to a change comes \
after it is recorded, synced and decided. `X-Actor` and `X-Reason` are recorded with it.\n\n\
The `Host` must be a name of the loopback interface or a configured one, and an `Origin`, if any, \
a configured one: else 403. `HEAD` is answered as `GET` without the body. A path that is not in \
this document is answered 404 with 3002, another method on a path 405 with 3000. A request that is \
not HTTP, has a line end without CR in its head, or repeats `Authorization`, `Content-Type`, \
`X-Actor` or `X-Reason` is 400 with 3101, one with too large a head 400 with 3104; then the \
connection ends. A `Content-Encoding` other than `identity` is 415.\n\n\
**Refusals** carry `errorInformation`, for the first failure only. An unknown participant is 400 \
with 3200, and limits or an oracle that exist already are 500 with 2001, both as the reference hub \
answers them: clients compare it. Many requests without a good token are answered late or 429.\n\n\
A flag may be sent as its name in a text, a decimal as text: at most 18 digits, 4 of them after \
the point.";

/// The document of the admin API.
#[must_use]
pub fn admin() -> Value {
    let api = Api {
        title: "Upesi admin API",
        text: TEXT.to_owned(),
        server: "http://127.0.0.1:3001",
        tags: vec![
            ("participants", "Who takes part, and where they are called."),
            ("parties", "Who serves which party."),
            ("keys", "Public keys by which signatures are verified."),
            ("caps", "Net debit caps."),
            ("accounts", "Accounts, positions, funds in and out."),
            ("settlement", "Settlement models; nothing settles yet."),
            ("oracles", "A registry of oracles; none is called."),
            ("delivery", "Notices that were given up."),
            ("measurement", "Where a transfer's time went."),
            ("hub", "The hub itself: names, health, figures, documents."),
        ],
        schemas: schemas::all(),
        operations: operations(),
    };
    api.document()
}

/// Every operation of the admin API.
fn operations() -> Vec<Operation> {
    [
        participants::operations(),
        parties::operations(),
        keys::operations(),
        caps::operations(),
        accounts::operations(),
        settlement_models::operations(),
        oracles::operations(),
        catalogue::operations(),
        waterfall::operations(),
        snapshots::operations(),
        hub::operations(),
    ]
    .concat()
}

/// `GET /openapi/fspiop.json`.
pub(crate) fn fspiop_json() -> Reply {
    static TEXT: LazyLock<Bytes> =
        LazyLock::new(|| openapi::text(&openapi::fspiop::document()).into());
    Ok(Response::document(Bytes::clone(&TEXT)))
}

/// `GET /openapi/admin.json`.
pub(crate) fn admin_json() -> Reply {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| openapi::text(&admin()).into());
    Ok(Response::document(Bytes::clone(&TEXT)))
}

/// `GET /documents`: both as one page.
pub(crate) fn page() -> Reply {
    static PAGE: LazyLock<Bytes> = LazyLock::new(|| {
        let (switch, admin) = (openapi::fspiop::document(), admin());
        let documents = [("fspiop", &switch), ("admin", &admin)];
        openapi::page::render("Upesi: its APIs", &documents).into()
    });
    Ok(Response::page(Bytes::clone(&PAGE)))
}

/// A question: what every one of them has.
fn question(path: &str, id: &str, tag: &'static str, summary: &str) -> Operation {
    let mut answers = vec![
        Answer::refusal(403, vec![ErrorCode::GENERIC_CLIENT]),
        // A coded body.
        Answer::refusal(415, vec![ErrorCode::MALFORMED_SYNTAX]),
        Answer::refusal(503, vec![ErrorCode::SERVICE_UNAVAILABLE]),
    ];
    let parameters = path_parameters(path);
    if !parameters.is_empty() {
        // An empty identifier, or one that is no UTF-8, makes a path that nothing has.
        answers.push(Answer::refusal(404, vec![ErrorCode::UNKNOWN_URI]));
    }
    Operation {
        method: "get".to_owned(),
        path: path.to_owned(),
        tag,
        id: id.to_owned(),
        summary: summary.to_owned(),
        text: String::new(),
        parameters,
        body: None,
        answers,
        calls: Vec::new(),
        needs_token: false,
    }
}

/// A change: what every one of them has.
fn change(method: &str, path: &str, id: &str, tag: &'static str, summary: &str) -> Operation {
    let mut operation = order(method, path, id, tag, summary);
    let told = [
        ("X-Actor", "Who asks; recorded with the change.", ACTOR_BYTES_MAX),
        ("X-Reason", "Why; recorded with the change.", REASON_BYTES_MAX),
    ];
    operation.parameters.extend(told.map(|(name, text, bytes)| Parameter {
        name: name.to_owned(),
        place: Place::Header,
        required: false,
        text: format!("{text} At most {bytes} bytes."),
        schema: json!({"type": "string", "maxLength": bytes}),
        example: None,
        shared: Some(name.to_owned()),
    }));
    let unavailable = repeated();
    let operation = operation.refuses(unavailable.status.as_u16(), &[unavailable.code]);
    operation.ends(&[AdminOutcome::RegisterFull])
}

/// What needs the token as a change does, and is not recorded.
fn order(method: &str, path: &str, id: &str, tag: &'static str, summary: &str) -> Operation {
    let mut operation = question(path, id, tag, summary).guarded();
    operation.method = method.to_owned();
    let body = [ErrorCode::MALFORMED_SYNTAX, ErrorCode::TOO_LARGE_PAYLOAD];
    operation.refuses(400, &body).refuses(408, &[ErrorCode::GENERIC_CLIENT])
}

/// What operations are made of, step by step.
trait Describe: Sized {
    /// Says more.
    fn says(self, text: &str) -> Self;
    /// Gives an identifier of the path another example.
    fn at(self, name: &str, example: &str) -> Self;
    /// Takes a query parameter.
    fn asks(self, name: &str, text: &str, schema: Value, example: Option<Value>) -> Self;
    /// Needs the header `Accept`.
    fn must_accept(self) -> Self;
    /// Needs the token.
    fn guarded(self) -> Self;
    /// Takes a body of this form, and nothing else in it.
    fn takes(self, schema: &str, example: Value) -> Self;
    /// Takes a body of this form, whatever else is in it.
    fn takes_with_more(self, schema: &str, example: Value) -> Self;
    /// Answers with this.
    fn answers(self, answer: Answer) -> Self;
    /// Refuses with these codes.
    fn refuses(self, status: u16, codes: &[ErrorCode]) -> Self;
    /// Can end in these outcomes of the kernel.
    fn ends(self, outcomes: &[AdminOutcome]) -> Self;
}

impl Describe for Operation {
    fn says(mut self, text: &str) -> Self {
        self.text = text.to_owned();
        self
    }

    fn at(mut self, name: &str, example: &str) -> Self {
        let mut named = self.parameters.iter_mut().filter(|parameter| parameter.name == name);
        if let Some(parameter) = named.next() {
            parameter.example = Some(json!(example));
        }
        self
    }

    fn asks(mut self, name: &str, text: &str, schema: Value, example: Option<Value>) -> Self {
        let (name, text) = (name.to_owned(), text.to_owned());
        let place = Place::Query;
        self.parameters.push(Parameter {
            name,
            place,
            required: false,
            text,
            schema,
            example,
            shared: None,
        });
        self
    }

    fn must_accept(mut self) -> Self {
        self.parameters.push(Parameter {
            name: "Accept".to_owned(),
            place: Place::Header,
            required: true,
            text: "Any list of media ranges.".to_owned(),
            schema: json!({"type": "string"}),
            example: Some(json!("application/json")),
            shared: None,
        });
        self.refuses(400, &[ErrorCode::MISSING_ELEMENT, ErrorCode::MALFORMED_SYNTAX])
    }

    fn guarded(mut self) -> Self {
        self.needs_token = true;
        self.refuses(401, &[ErrorCode::GENERIC_CLIENT])
            // Too many requests without a good token.
            .refuses(429, &[ErrorCode::GENERIC_CLIENT])
            // An `X-Actor` or `X-Reason` that is too long, or two of a header.
            .refuses(400, &[ErrorCode::VALIDATION, ErrorCode::MALFORMED_SYNTAX])
            // The token's file cannot be read.
            .refuses(500, &[ErrorCode::INTERNAL_SERVER])
    }

    fn takes(self, schema: &str, example: Value) -> Self {
        self.takes_with_more(schema, example).refuses(400, &[ErrorCode::TOO_MANY_ELEMENTS])
    }

    fn takes_with_more(mut self, schema: &str, example: Value) -> Self {
        let media = vec!["application/json".to_owned()];
        self.body = Some(Body { media, schema: reference(schema), example });
        self.refuses(400, &[ErrorCode::MISSING_ELEMENT])
    }

    fn answers(mut self, answer: Answer) -> Self {
        self.answers.push(answer);
        self
    }

    fn refuses(mut self, status: u16, codes: &[ErrorCode]) -> Self {
        let mut codes = codes.to_vec();
        if let Some(at) = self.answers.iter().position(|answer| answer.status == status) {
            codes.extend(self.answers.remove(at).codes);
        }
        self.answers.push(Answer::refusal(status, codes));
        self
    }

    fn ends(self, outcomes: &[AdminOutcome]) -> Self {
        let refusals = outcomes.iter().filter_map(|outcome| of_outcome(*outcome));
        refusals.fold(self, |operation, refusal| {
            operation.refuses(refusal.status.as_u16(), &[refusal.code])
        })
    }
}

/// The parameters that a path names.
fn path_parameters(path: &str) -> Vec<Parameter> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| path_parameter(path, name)).collect()
}

fn path_parameter(path: &str, name: &str) -> Parameter {
    let (text, schema, example) = match name {
        "id" if path.starts_with("/deadletters") => (
            "The dead letter, as the list shows it.",
            json!({"type": "integer", "minimum": 0}),
            json!(1),
        ),
        "id" if path.starts_with("/participants") => (
            "The account, as the list of accounts shows it.",
            json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}),
            json!(1),
        ),
        "id" if path.starts_with("/transactions") => {
            ("The transfer.", reference("TransferId"), json!(EXAMPLE_TRANSFER))
        }
        "id" if path.starts_with("/oracles") => (
            "The oracle's number, as the list shows it.",
            json!({"type": "string", "minLength": 1}),
            json!("1"),
        ),
        "key" => (
            "SHA-256 of the key, as the list shows it.",
            json!({"type": "string", "minLength": 1}),
            json!("0".repeat(64)),
        ),
        "transferId" if path.starts_with("/waterfall") || path.starts_with("/transfers") => {
            ("The transfer.", reference("TransferId"), json!(EXAMPLE_TRANSFER))
        }
        "transferId" => ("The outflow.", reference("TransferId"), json!(EXAMPLE_TRANSFER)),
        "name" if path.starts_with("/settlementModels") => {
            ("The model.", json!({"type": "string", "minLength": 1}), json!("DEFERREDNET"))
        }
        "Type" => (
            "The type of the identifier.",
            json!({"type": "string", "enum": fspiop::PartyIdType::NAMES}),
            json!("MSISDN"),
        ),
        "ID" => {
            ("The identifier.", json!({"type": "string", "minLength": 1}), json!("254700000001"))
        }
        "name" => (
            "The participant, or `Hub`.",
            json!({"type": "string", "minLength": 1}),
            json!("payerfsp"),
        ),
        _ => ("An identifier.", json!({"type": "string", "minLength": 1}), json!("1")),
    };
    Parameter {
        name: name.to_owned(),
        place: Place::Path,
        required: true,
        text: text.to_owned(),
        schema,
        example: Some(example),
        shared: None,
    }
}

/// The id of the transfer in examples.
const EXAMPLE_TRANSFER: &str = "b51ec534-ee48-4575-b6a9-ead2955b8069";

/// A list of values of one schema.
fn list(schema: &str) -> Value {
    json!({"type": "array", "items": reference(schema)})
}

/// A list, or with a parameter that names one of them that one, or an empty object.
fn one_or_all(schema: &str) -> Value {
    json!({"anyOf": [
        list(schema),
        reference(schema),
        {"type": "object", "additionalProperties": false},
    ]})
}

/// The query parameter `currency`.
const CURRENCY: &str = "Only this currency.";

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::resource::Resource;

    /// The names of the router's resources, as its source lists them.
    fn resources() -> BTreeSet<&'static str> {
        let source = include_str!("resource.rs");
        let (_, list) = source.split_once("enum Resource {\n").expect("the enumeration");
        let (list, _) = list.split_once("\n}").expect("its end");
        let names = list.lines().map(str::trim).filter(|line| !line.starts_with(['/', '#']));
        names.filter_map(|line| line.split([',', '(', ' ']).next()).collect()
    }

    /// A good value for each identifier of a path.
    fn filled(operation: &Operation) -> String {
        operation.parameters.iter().fold(operation.path.clone(), |path, parameter| {
            let example = parameter.example.clone().unwrap_or_default();
            let text = example.as_str().map_or_else(|| example.to_string(), str::to_owned);
            path.replace(&format!("{{{}}}", parameter.name), &text)
        })
    }

    #[test]
    fn every_route_is_one_operation_and_every_operation_a_route() {
        let mut described: BTreeMap<String, (BTreeSet<String>, &'static str)> = BTreeMap::new();
        for operation in operations() {
            let path = filled(&operation);
            let resource = Resource::parse(&path);
            let resource = resource.unwrap_or_else(|| panic!("{path} is described and not served"));
            let shown = format!("{resource:?}");
            let name = shown.split(['(', ' ']).next().expect("a name").to_owned();
            let entry = described.entry(name).or_insert((BTreeSet::new(), resource.methods()));
            let method = operation.method.to_ascii_uppercase();
            assert!(entry.0.insert(method), "{} {path} twice", operation.method);
        }
        for name in resources() {
            assert!(
                described.contains_key(name),
                "Resource::{name} has no operation: describe it in crates/operations/src/document"
            );
        }
        for (name, (methods, served)) in described {
            let served: BTreeSet<String> =
                served.split(", ").filter(|method| *method != "HEAD").map(str::to_owned).collect();
            assert_eq!(methods, served, "described and served methods of Resource::{name}");
        }
    }

    #[test]
    fn examples_conform_and_names_are_unlike() {
        let document = admin();
        let mut names = BTreeSet::new();
        for operation in operations() {
            assert!(names.insert(operation.id.clone()), "{} twice", operation.id);
            if let Some(body) = &operation.body {
                let fault = openapi::conform::fault(&document, &body.schema, &body.example);
                assert_eq!(fault, None, "{}", operation.id);
            }
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        for document in [admin(), openapi::fspiop::document()] {
            let text = document.to_string();
            for (at, _) in text.match_indices("\"$ref\":\"#") {
                let path = text[at + 9..].split('"').next().expect("an end");
                assert!(document.pointer(path).is_some(), "{path}");
            }
        }
    }
}
