//! The FSPIOP API as the hub serves it: routes, headers and bodies from the tables of `fspiop`,
//! words, codes, callbacks and examples from here.

use ::fspiop::body::FSP_ID_CHARS_MAX;
use ::fspiop::headers::{HEADER_RULES, HeaderForm, HeaderRule, Presence};
use ::fspiop::routes::{Operation as Asked, PLAIN_ROUTES, RouteRow, Segment};
use ::fspiop::schema::Rule;
use ::fspiop::{ErrorCode, IDENTIFIER_CHARS_MAX, IDENTIFIER_PATTERN, PartyIdType, Resource};
use http::Method;
use serde_json::{Value, json};

use crate::api::{Answer, Api, Body, Operation, Parameter, Place};
use crate::schema::{self, reference};
use descriptions::words;

mod callbacks;
mod descriptions;
mod examples;

const TEXT: &str = "\
Look-up, quotes and transfers between DFSPs. This document is made from the tables that the hub \
checks messages by.\n\n\
**Synchronous answers** only say whether a message was taken. A `202` or `200` for a transfer or a \
registration means: recorded and synced. Everything else comes by a call to the participant's own \
addresses; such calls stand under *callbacks*, with the name of the endpoint, as registered in the \
admin API, to which they go. An answer of 200 to 299 to a callback counts as delivered; a callback \
about a recorded message is sent again until it is.\n\n\
**Order of checks**: path, headers, identifiers of the path, signature, body, sender. Only the \
first failure is answered.\n\n\
**Refusals** carry `errorInformation`. A path that is not in this document is answered 404 with \
3002, another method on a path 405 with 3000. What is no HTTP, or could be read in two ways, is \
400 with 3101 (without `Host` 3102), and the connection is closed.\n\n\
**Bounds**: headers 65536 bytes and 100 lines, bodies of quotes and transfers 131072 bytes, other \
bodies 5242880 bytes; what is larger is refused with 400 and 3104, never with 413, headers over \
HTTP/2 with 431. Headers or a body that do not arrive in time are 408 with 3000. A connection too \
many, and whatever does not fit a full queue, is 503 with 2003: nothing has happened, and the same \
message may be sent again.\n\n\
**Signatures** (JWS) are demanded for the resources that the configuration names, by default none, \
on everything but `GET`: `RS256`, `RS384`, `RS512` or `ES256` by a key of the sender. A bad or \
missing one is 400 with 3105. A `DELETE` is signed over an empty body or over `{}`; the \
configuration may let unsigned ones pass. The hub signs what it makes itself if it is configured \
to; what it forwards keeps the sender's signature. HTTP/1.1 and, by prior knowledge, HTTP/2 are \
served on one port, without TLS.";

/// The document.
#[must_use]
pub fn document() -> Value {
    api().document()
}

/// The description behind the document.
#[must_use]
pub fn api() -> Api {
    let mut operations: Vec<Operation> =
        PLAIN_ROUTES.iter().map(|(method, word, asked)| plain(method, word, *asked)).collect();
    for resource in Resource::ALL {
        operations.extend(resource.routes().iter().map(|row| operation(resource, row)));
    }
    let mut schemas = schema::of_named_rules();
    schemas.extend(callbacks::schemas());
    Api {
        title: "Upesi FSPIOP API",
        text: TEXT.to_owned(),
        server: "http://127.0.0.1:4000",
        tags: vec![
            ("participants", "Which FSP serves a party: the hub's own directory."),
            ("parties", "Who a party is: forwarded to the FSP that knows."),
            ("quotes", "The terms of a transfer: forwarded, nothing is stored."),
            ("transfers", "Money on its way: recorded, decided, and told to both sides."),
            ("hub", "The hub itself."),
        ],
        schemas,
        operations,
    }
}

fn plain(method: &Method, word: &str, asked: Asked) -> Operation {
    let said = words(asked);
    let answers = match asked {
        Asked::Health => vec![
            Answer::json(200, "Every part works.", reference("Health")),
            Answer::json(502, "A part has stopped, or is stuck.", reference("Health")),
        ],
        _ => vec![Answer::empty(said.accepted.as_u16(), "Taken; there is nothing to do.")],
    };
    Operation {
        method: method.as_str().to_ascii_lowercase(),
        path: format!("/{word}"),
        tag: "hub",
        id: format!("{asked:?}"),
        summary: said.summary.into(),
        text: said.text.into(),
        parameters: Vec::new(),
        body: None,
        answers,
        calls: Vec::new(),
        role: None,
    }
}

fn operation(resource: Resource, row: &RouteRow) -> Operation {
    let said = words(row.operation);
    let has_sub_id = row.tail.contains(&Segment::Identifier("SubId"));
    let mut parameters = identifiers(row.operation, row.tail);
    parameters.extend(currency(row.operation));
    parameters.extend(headers(row.operation, &row.method, resource.as_str()));
    let rule = ::fspiop::body::rule_of(row.operation);
    let body = rule.map(|rule| Body {
        media: MEDIA_VERSIONS.map(|version| media(resource.as_str(), version)).to_vec(),
        schema: schema::of(rule),
        example: examples::of(row.operation),
    });
    Operation {
        method: row.method.as_str().to_ascii_lowercase(),
        path: row.template(resource),
        tag: resource.as_str(),
        id: format!("{:?}{}", row.operation, if has_sub_id { "WithSubId" } else { "" }),
        summary: said.summary.into(),
        text: said.text.into(),
        parameters,
        body,
        answers: answers(row, &said, rule),
        calls: callbacks::of(row.operation, has_sub_id),
        role: None,
    }
}

/// Versions that a body may have, the usual one first.
const MEDIA_VERSIONS: [&str; 3] = ["1.1", "1.0", "2.0"];

fn media(resource: &str, version: &str) -> String {
    format!("application/vnd.interoperability.{resource}+json;version={version}")
}

/// Every status, with the codes of each check that a request of this row goes through.
fn answers(
    row: &RouteRow,
    said: &descriptions::Description,
    rule: Option<&'static Rule>,
) -> Vec<Answer> {
    let mut faults = HEADER_CODES.to_vec();
    let mut answers = Vec::new();
    if row.operation.is_served() {
        answers.push(Answer::empty(said.accepted.as_u16(), said.taken));
        if row.tail.iter().any(|segment| matches!(segment, Segment::Identifier(_))) {
            faults.push(ErrorCode::MALFORMED_SYNTAX);
        }
        faults.push(ErrorCode::TOO_LARGE_PAYLOAD);
        if row.method != Method::GET {
            // Demanded where the configuration says so.
            faults.push(ErrorCode::INVALID_SIGNATURE);
        }
        faults.extend(rule.map(rule_codes).unwrap_or_default());
        faults.extend_from_slice(said.faults);
        answers.push(Answer::refusal(408, vec![ErrorCode::GENERIC_CLIENT]));
        answers.push(Answer::refusal(503, vec![ErrorCode::SERVICE_UNAVAILABLE]));
    } else {
        faults.push(ErrorCode::TOO_LARGE_PAYLOAD);
        answers.push(Answer::refusal(501, vec![ErrorCode::NOT_IMPLEMENTED]));
    }
    if row.tail.iter().any(|segment| matches!(segment, Segment::Identifier(_))) {
        // An empty identifier makes another path.
        answers.push(Answer::refusal(404, vec![ErrorCode::UNKNOWN_URI]));
    }
    answers.push(Answer::refusal(400, faults));
    answers.push(Answer::refusal(406, vec![ErrorCode::UNACCEPTABLE_VERSION]));
    answers.push(Answer::refusal(415, vec![ErrorCode::MALFORMED_SYNTAX]));
    answers
}

/// What the header checks refuse with 400.
const HEADER_CODES: [ErrorCode; 3] =
    [ErrorCode::VALIDATION, ErrorCode::MALFORMED_SYNTAX, ErrorCode::MISSING_ELEMENT];

/// What the check of a body refuses with; 3103 only where an object is closed.
fn rule_codes(rule: &'static Rule) -> Vec<ErrorCode> {
    let mut codes = HEADER_CODES.to_vec();
    if matches!(rule, Rule::Object(shape) if shape.closed) {
        codes.push(ErrorCode::TOO_MANY_ELEMENTS);
    }
    codes
}

fn identifiers(asked: Asked, tail: &[Segment]) -> Vec<Parameter> {
    let names = tail.iter().filter_map(|segment| match segment {
        Segment::Identifier(name) => Some(*name),
        Segment::Word(_) => None,
    });
    names.map(|name| identifier(asked, name)).collect()
}

fn identifier(asked: Asked, name: &str) -> Parameter {
    let plain = json!({
        "type": "string",
        "minLength": 1,
        "maxLength": IDENTIFIER_CHARS_MAX,
        "pattern": IDENTIFIER_PATTERN,
    });
    let (text, schema, example) = match (name, asked) {
        ("Type", _) => (
            "Kind of the identifier.",
            json!({"type": "string", "enum": PartyIdType::NAMES}),
            "MSISDN",
        ),
        ("SubId", _) => ("A further identifier within the party.", plain, "till-1"),
        (
            _,
            Asked::TransfersGet
            | Asked::TransfersPut
            | Asked::TransfersError
            | Asked::TransfersPatch,
        ) => (
            "The transfer. Any identifier is taken: one that is no id of a transfer is answered, \
             by callback, like the id of a transfer that does not exist.",
            plain,
            examples::TRANSFER_ID,
        ),
        (_, Asked::QuotesGet | Asked::QuotesPut | Asked::QuotesError) => {
            ("The quote, as the payer's FSP named it.", plain, examples::QUOTE_ID)
        }
        (_, Asked::ParticipantsBatchPut | Asked::ParticipantsBatchError) => {
            ("`requestId` of the batch.", plain, examples::QUOTE_ID)
        }
        _ => (
            "The identifier. MSISDN: up to 30 digits, with or without `+`; EMAIL: an address; \
             IBAN: two capitals, two digits, then 1 to 30 capitals or digits; other kinds: any \
             text.",
            plain,
            "27713803912",
        ),
    };
    Parameter {
        name: name.to_owned(),
        place: Place::Path,
        required: true,
        text: text.to_owned(),
        schema,
        example: Some(json!(example)),
        shared: None,
    }
}

/// The parameter of the query that narrows a request about a party.
fn currency(asked: Asked) -> Option<Parameter> {
    let (Asked::ParticipantsGet | Asked::ParticipantsDelete | Asked::PartiesGet) = asked else {
        return None;
    };
    let text = "Only a registration in this currency, or in none. At most once.";
    Some(Parameter {
        name: "currency".to_owned(),
        place: Place::Query,
        required: false,
        text: text.to_owned(),
        schema: reference("Currency"),
        example: None,
        shared: None,
    })
}

fn headers(asked: Asked, method: &Method, resource: &str) -> Vec<Parameter> {
    let mut headers: Vec<_> =
        HEADER_RULES.iter().map(|rule| header(rule, method, resource)).collect();
    if asked == Asked::QuotesPost {
        headers.iter_mut().filter(|it| it.name == "FSPIOP-Destination").for_each(require);
    }
    headers
}

/// A header that this operation alone cannot do without.
fn require(header: &mut Parameter) {
    header.required = true;
    header.schema["minLength"] = json!(1);
    header.shared = header.shared.take().map(|name| format!("{name}-required"));
}

fn header(rule: &HeaderRule, method: &Method, resource: &str) -> Parameter {
    let mut schema = json!({"type": "string"});
    if let Some(pattern) = rule.form.pattern(resource) {
        schema["pattern"] = json!(pattern);
    }
    let least = match rule.form {
        HeaderForm::Name => Some(1),
        HeaderForm::NameOrEmpty => Some(0),
        _ => None,
    };
    if let Some(least) = least {
        schema["minLength"] = json!(least);
        schema["maxLength"] = json!(FSP_ID_CHARS_MAX);
    }
    let text = header_text(rule.name.as_str());
    let example = match rule.form {
        HeaderForm::MediaRanges if rule.presence.is_required(method) => {
            Some(format!("application/vnd.interoperability.{resource}+json;version=1"))
        }
        HeaderForm::MediaType => Some(media(resource, MEDIA_VERSIONS[0])),
        HeaderForm::Date => Some("Tue, 15 Nov 1994 08:12:31 GMT".to_owned()),
        HeaderForm::Name => Some("payerfsp".to_owned()),
        HeaderForm::NameOrEmpty if rule.name == "fspiop-destination" => Some("payeefsp".to_owned()),
        _ => None,
    };
    let name = spelled(rule.name.as_str());
    let shared = match (rule.form.pattern(resource) == rule.form.pattern(""), rule.presence) {
        (true, _) => name.clone(),
        (false, Presence::RequiredToAsk) if !rule.presence.is_required(method) => {
            format!("{name}-{resource}-tolerated")
        }
        (false, _) => format!("{name}-{resource}"),
    };
    let once = if rule.once { " At most one line of it." } else { "" };
    Parameter {
        name,
        place: Place::Header,
        required: rule.presence.is_required(method),
        text: format!("{text}{once}"),
        schema,
        example: example.map(Value::from),
        shared: Some(shared),
    }
}

/// The name as people write it.
fn spelled(name: &str) -> String {
    let parts = name.split('-').map(|part| match part {
        "fspiop" | "uri" | "http" => part.to_ascii_uppercase(),
        _ => part[..1].to_ascii_uppercase() + &part[1..],
    });
    match name {
        "traceparent" => name.to_owned(),
        _ => parts.collect::<Vec<_>>().join("-"),
    }
}

fn header_text(name: &str) -> &'static str {
    match name {
        "accept" => {
            "Versions the sender understands; 1.0, 1.1, 2.0, 1 and 2 are known. A list of media \
             ranges by RFC 9110, in one line or several; the most specific range decides, and \
             `q=0` excludes. `*/*` and `application/*` are accepted, too. Tolerated on `PUT`, and \
             never forwarded there."
        }
        "content-type" => "Version of the message; asked for without a body, too.",
        "content-encoding" => "Bodies come as they are; any other coding is refused with 415.",
        "date" => {
            "When the message was made: a day that exists. The name of the day is not compared \
             with the date."
        }
        "authorization" => "Read by gateways only; neither forwarded nor stored.",
        "fspiop-source" => "Who made the message.",
        "fspiop-destination" => "Who the message is for, when the sender knows; empty is absent.",
        "fspiop-proxy" => "Proxy of another scheme that stands in for the source.",
        "fspiop-signature" => {
            "JWS over protected header and body; passed on as it came. Verified where the \
             configuration demands it, and then required on everything but `GET`."
        }
        "fspiop-encryption" => "What the sender encrypted, and how; passed on as it came.",
        "fspiop-uri" => "Path and query as signed; added when absent.",
        "fspiop-http-method" => "Method as signed; added when absent.",
        "traceparent" => "Trace context of W3C; the hub's calls join the trace.",
        "x-client-id" => {
            "Who a gateway found the caller to be. Must then be the source, also with \
             `FSPIOP-Proxy`. Where gateways are configured, it is ignored from any other address. \
             Neither forwarded nor stored."
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::validate;

    #[test]
    fn every_route_is_one_operation_and_every_operation_a_route() {
        let document = document();
        let mut described = BTreeSet::new();
        for (path, operations) in document["paths"].as_object().expect("paths") {
            for method in operations.as_object().expect("operations").keys() {
                described.insert(format!("{} {path}", method.to_ascii_uppercase()));
            }
        }
        for request in &described {
            let (method, path) = request.split_once(' ').expect("two words");
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            let path = path.replace("{Type}", "MSISDN").replace(['{', '}'], "");
            assert!(::fspiop::find(&method, &path).is_ok(), "{request} is not served");
        }
        // The other way round: whatever path is served is described.
        let words = ["participants", "parties", "quotes", "transfers", "health", "endpointcache"];
        let tails =
            ["", "/error", "/x", "/x/error", "/x/y", "/x/y/error", "/x/y/z", "/x/y/z/error"];
        let mut served = 0;
        for path in words.iter().flat_map(|word| tails.map(|tail| format!("/{word}{tail}"))) {
            for method in [Method::GET, Method::PUT, Method::POST, Method::DELETE, Method::PATCH] {
                if ::fspiop::find(&method, &path).is_err() {
                    continue;
                }
                served += 1;
                let fits = |request: &&String| matches(request, method.as_str(), &path);
                assert!(described.iter().any(|request| fits(&request)), "{method} {path}");
            }
        }
        assert!(described.len() <= served, "{} {served}", described.len());
    }

    fn matches(request: &str, method: &str, path: &str) -> bool {
        let Some((known, template)) = request.split_once(' ') else { return false };
        let pairs = template.split('/').zip(path.split('/'));
        known == method
            && template.split('/').count() == path.split('/').count()
            && pairs.into_iter().all(|(known, found)| known.starts_with('{') || known == found)
    }

    #[test]
    fn examples_conform_and_names_are_unlike() {
        let document = document();
        let mut names = BTreeSet::new();
        for operation in api().operations {
            assert!(names.insert(operation.id.clone()), "{} twice", operation.id);
            if let Some(body) = &operation.body {
                let fault = validate::fault(&document, &body.schema, &body.example);
                assert_eq!(fault, None, "{}", operation.id);
            }
            for call in &operation.calls {
                let Some(body) = &call.operation.body else { continue };
                let fault = validate::fault(&document, &body.schema, &body.example);
                assert_eq!(fault, None, "{} {}", operation.id, call.name);
            }
        }
    }

    #[test]
    fn headers_are_spelled_as_people_write_them() {
        let spelled: Vec<_> = HEADER_RULES.iter().map(|rule| spelled(rule.name.as_str())).collect();
        assert_eq!(
            spelled.join(" "),
            "Accept Content-Type Content-Encoding Date Authorization FSPIOP-Source FSPIOP-Destination FSPIOP-Proxy \
             FSPIOP-Signature FSPIOP-Encryption FSPIOP-URI FSPIOP-HTTP-Method traceparent X-Client-Id"
        );
        assert!(HEADER_RULES.iter().all(|rule| !header_text(rule.name.as_str()).is_empty()));
    }
}
