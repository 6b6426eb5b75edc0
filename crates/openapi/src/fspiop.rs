//! The FSPIOP API of the hub: routes, headers and bodies come from the tables of `fspiop`;
//! descriptions, codes, callbacks and examples are written here.

use ::fspiop::body::FSP_ID_CHARS_MAX;
use ::fspiop::headers::{HEADER_RULES, HeaderForm, HeaderRule, Presence};
use ::fspiop::route_table::{Operation as FspiopOperation, PLAIN_ROUTES, RouteRow, Segment};
use ::fspiop::schema::Rule;
use ::fspiop::{ErrorCode, IDENTIFIER_CHARS_MAX, IDENTIFIER_PATTERN, PartyIdType, Resource};
use http::Method;
use serde_json::{Value, json};

use crate::api::{Access, Api, ApiResponse, Body, Operation, Parameter, ParameterLocation};
use crate::schema::{self, reference};
use descriptions::describe;

mod callbacks;
mod descriptions;
mod examples;

const TEXT: &str = "\
Look-ups, quotes and transfers between DFSPs. This document is generated from the tables that the \
hub uses to check messages.\n\n\
**Synchronous responses** only report whether a message was accepted. `202` or `200` for a \
transfer or a registration means that it is recorded and synced. Results follow by a call to the \
participant's endpoint. These calls are listed under *callbacks*, with the name of the endpoint as \
registered in the admin API. A callback counts as delivered when its response is 200 to 299. A \
callback about a recorded message is retried until it is delivered.\n\n\
**Order of checks**: path, headers, identifiers in the path, signature, body, sender. The response \
reports the first failure only.\n\n\
**Errors** carry `errorInformation`. A path that is not in this document gets 404 with 3002, an \
undefined method on a path 405 with 3000. A request that is not HTTP, or is ambiguous, gets 400 \
with 3101 (3102 if `Host` is missing), and the connection is closed.\n\n\
**Limits**: headers 65536 bytes and 100 lines, bodies of quotes and transfers 131072 bytes, other \
bodies 5242880 bytes. A larger message gets 400 with 3104, never 413; larger headers over HTTP/2 \
get 431. Headers or a body that do not arrive in time get 408 with 3000. A connection beyond the \
limit, or a message for which a queue has no room, gets 503 with 2003: the message had no effect, \
and the sender may resend it unchanged.\n\n\
**Signatures** (JWS) are required for the resources that the configuration names, by default none, \
on every method except `GET`: `RS256`, `RS384`, `RS512` or `ES256` with a key of the sender. An \
invalid or missing signature gets 400 with 3105. A `DELETE` is signed over an empty body or over \
`{}`; the configuration may accept an unsigned `DELETE`. The hub signs its own messages if it is \
configured to sign; a forwarded message keeps the sender's signature. HTTP/1.1 and, by prior \
knowledge or ALPN, HTTP/2 are served on one port, with TLS if the configuration has a certificate.";

/// The document.
#[must_use]
pub fn document() -> Value {
    api().document()
}

/// The API that the document describes.
#[must_use]
pub fn api() -> Api {
    let mut operations: Vec<Operation> = PLAIN_ROUTES
        .iter()
        .map(|(method, word, operation)| plain(method, word, *operation))
        .collect();
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
            ("participants", "The hub's directory of parties and the FSPs that serve them."),
            ("parties", "Party look-ups, forwarded to the FSP that serves the party."),
            ("quotes", "Quotes, forwarded without being stored."),
            ("bulkTransfers", "Many transfers from one payer to one payee."),
            ("bulkQuotes", "Quotes of many transfers at once, forwarded without being stored."),
            ("transactionRequests", "Requests to pay, forwarded without being stored."),
            ("authorizations", "The payer's consent, forwarded without being stored."),
            ("transactions", "The state of a transaction, forwarded without being stored."),
            ("transfers", "Transfers: recorded, decided, and notified to both FSPs."),
            ("services", "The providers of services, from the hub's configuration."),
            ("hub", "The hub itself."),
        ],
        schemas,
        operations,
    }
}

fn plain(method: &Method, word: &str, operation: FspiopOperation) -> Operation {
    let description = describe(operation);
    let responses = match operation {
        FspiopOperation::Health => vec![
            ApiResponse::json(200, "All services are healthy.", reference("Health")),
            ApiResponse::json(
                502,
                "A service has stopped or makes no progress.",
                reference("Health"),
            ),
        ],
        _ => vec![ApiResponse::empty(description.accepted.as_u16(), "Accepted; nothing to do.")],
    };
    Operation {
        method: method.as_str().to_ascii_lowercase(),
        path: format!("/{word}"),
        tag: "hub",
        id: format!("{operation:?}"),
        summary: description.summary.into(),
        text: description.text.into(),
        parameters: Vec::new(),
        body: None,
        responses,
        callbacks: Vec::new(),
        access: Access::Open,
        permission: None,
        unmasks: None,
    }
}

fn operation(resource: Resource, row: &RouteRow) -> Operation {
    let description = describe(row.operation);
    let has_sub_id = row.tail.contains(&Segment::Identifier("SubId"));
    let has_pair = row.tail.contains(&Segment::Identifier("TargetCurrency"));
    let variant = match (has_sub_id, has_pair) {
        (true, _) => "WithSubId",
        (_, true) => "OfPair",
        _ => "",
    };
    let mut parameters = identifiers(row.operation, row.tail);
    parameters.extend(currency(row.operation));
    parameters.extend(authorization(row.operation));
    parameters.extend(headers(row.operation, &row.method, resource.as_str()));
    let rule = ::fspiop::body::rule_of(row.operation);
    let body = rule.map(|rule| Body {
        media: MEDIA_VERSIONS.map(|version| media(resource.as_str(), version)).to_vec(),
        schema: schema::of(rule),
        example: examples::of(row.operation),
        is_required: true,
    });
    Operation {
        method: row.method.as_str().to_ascii_lowercase(),
        path: row.template(resource),
        tag: resource.as_str(),
        id: format!("{:?}{variant}", row.operation),
        summary: description.summary.into(),
        text: description.text.into(),
        parameters,
        body,
        responses: responses(row, &description, rule),
        callbacks: match has_pair {
            true => callbacks::of_currency_pair(),
            false => callbacks::of(row.operation, has_sub_id),
        },
        access: Access::Open,
        permission: None,
        unmasks: None,
    }
}

/// Versions that a body may have, the usual one first.
const MEDIA_VERSIONS: [&str; 3] = ["1.1", "1.0", "2.0"];

fn media(resource: &str, version: &str) -> String {
    format!("application/vnd.interoperability.{resource}+json;version={version}")
}

/// Every status, with the error codes of each check that a request to this route passes.
fn responses(
    row: &RouteRow,
    description: &descriptions::Description,
    rule: Option<&'static Rule>,
) -> Vec<ApiResponse> {
    let mut errors = HEADER_CODES.to_vec();
    let mut responses = Vec::new();
    if row.operation.is_served() {
        responses
            .push(ApiResponse::empty(description.accepted.as_u16(), description.accepted_text));
        if row.tail.iter().any(|segment| matches!(segment, Segment::Identifier(_))) {
            errors.push(ErrorCode::MALFORMED_SYNTAX);
        }
        errors.push(ErrorCode::TOO_LARGE_PAYLOAD);
        if row.method != Method::GET {
            // Required for the resources that the configuration names.
            errors.push(ErrorCode::INVALID_SIGNATURE);
        }
        errors.extend(rule.map(rule_codes).unwrap_or_default());
        errors.extend_from_slice(description.errors);
        responses.push(ApiResponse::refusal(408, vec![ErrorCode::GENERIC_CLIENT]));
        responses.push(ApiResponse::refusal(503, vec![ErrorCode::SERVICE_UNAVAILABLE]));
    } else {
        errors.push(ErrorCode::TOO_LARGE_PAYLOAD);
        responses.push(ApiResponse::refusal(501, vec![ErrorCode::NOT_IMPLEMENTED]));
    }
    if row.tail.iter().any(|segment| matches!(segment, Segment::Identifier(_))) {
        // A path with an empty identifier is unknown.
        responses.push(ApiResponse::refusal(404, vec![ErrorCode::UNKNOWN_URI]));
    }
    responses.push(ApiResponse::refusal(400, errors));
    responses.push(ApiResponse::refusal(406, vec![ErrorCode::UNACCEPTABLE_VERSION]));
    responses.push(ApiResponse::refusal(415, vec![ErrorCode::MALFORMED_SYNTAX]));
    responses
}

/// Codes that the header checks answer with 400.
const HEADER_CODES: [ErrorCode; 3] =
    [ErrorCode::VALIDATION, ErrorCode::MALFORMED_SYNTAX, ErrorCode::MISSING_ELEMENT];

/// Codes that the body check answers with 400; 3103 only if the object is closed.
fn rule_codes(rule: &'static Rule) -> Vec<ErrorCode> {
    let mut codes = HEADER_CODES.to_vec();
    if matches!(rule, Rule::Object(shape) if shape.closed) {
        codes.push(ErrorCode::TOO_MANY_ELEMENTS);
    }
    codes
}

fn identifiers(operation: FspiopOperation, tail: &[Segment]) -> Vec<Parameter> {
    let names = tail.iter().filter_map(|segment| match segment {
        Segment::Identifier(name) => Some(*name),
        Segment::Word(_) => None,
    });
    names.map(|name| identifier(operation, name)).collect()
}

/// Whether a path names a transfer or a bulk transfer.
const fn names_transfer(operation: FspiopOperation) -> bool {
    matches!(
        operation,
        FspiopOperation::TransfersGet
            | FspiopOperation::TransfersPut
            | FspiopOperation::TransfersError
            | FspiopOperation::TransfersPatch
            | FspiopOperation::BulkTransfersGet
            | FspiopOperation::BulkTransfersPut
            | FspiopOperation::BulkTransfersError
    )
}

fn identifier(operation: FspiopOperation, name: &str) -> Parameter {
    let plain = json!({
        "type": "string",
        "minLength": 1,
        "maxLength": IDENTIFIER_CHARS_MAX,
        "pattern": IDENTIFIER_PATTERN,
    });
    let (text, schema, example) = match (name, operation) {
        ("Type", _) => (
            "Type of the identifier.",
            json!({"type": "string", "enum": PartyIdType::NAMES}),
            "MSISDN",
        ),
        ("SourceCurrency", _) => ("The currency to convert.", reference("Currency"), "USD"),
        ("TargetCurrency", _) => ("The currency that is wanted.", reference("Currency"), "KES"),
        ("SubId", _) => ("Sub-identifier within the party.", plain, "till-1"),
        (_, operation) if names_transfer(operation) => (
            "The transfer. Any identifier is accepted; one that is not a transfer id is treated as \
             the id of a transfer that does not exist.",
            plain,
            examples::TRANSFER_ID,
        ),
        (
            _,
            FspiopOperation::QuotesGet
            | FspiopOperation::QuotesPut
            | FspiopOperation::QuotesError
            | FspiopOperation::BulkQuotesGet
            | FspiopOperation::BulkQuotesPut
            | FspiopOperation::BulkQuotesError,
        ) => ("The quote id that the payer's FSP chose.", plain, examples::QUOTE_ID),
        (
            _,
            FspiopOperation::TransactionRequestsGet
            | FspiopOperation::TransactionRequestsPut
            | FspiopOperation::TransactionRequestsError
            | FspiopOperation::AuthorizationsGet
            | FspiopOperation::AuthorizationsPut
            | FspiopOperation::AuthorizationsError
            | FspiopOperation::TransactionsGet
            | FspiopOperation::TransactionsPut
            | FspiopOperation::TransactionsError,
        ) => ("The request or transaction. Any identifier is accepted.", plain, examples::QUOTE_ID),
        (_, FspiopOperation::ParticipantsBatchPut | FspiopOperation::ParticipantsBatchError) => {
            ("`requestId` of the batch.", plain, examples::QUOTE_ID)
        }
        _ => (
            "The identifier. MSISDN: up to 30 digits, with or without `+`. EMAIL: an address. \
             IBAN: two capitals, two digits, then 1 to 30 capitals or digits. Other types: any \
             text.",
            plain,
            "27713803912",
        ),
    };
    Parameter {
        name: name.to_owned(),
        location: ParameterLocation::Path,
        required: true,
        text: text.to_owned(),
        schema,
        example: Some(json!(example)),
        shared: None,
    }
}

/// The query parameter that restricts a request to a currency.
fn currency(operation: FspiopOperation) -> Option<Parameter> {
    let (FspiopOperation::ParticipantsGet
    | FspiopOperation::ParticipantsDelete
    | FspiopOperation::PartiesGet) = operation
    else {
        return None;
    };
    let text = "Only a registration in this currency or without a currency. At most once.";
    Some(Parameter {
        name: "currency".to_owned(),
        location: ParameterLocation::Query,
        required: false,
        text: text.to_owned(),
        schema: reference("Currency"),
        example: None,
        shared: None,
    })
}

/// The query of a request for an authorization, which is forwarded.
fn authorization(operation: FspiopOperation) -> Vec<Parameter> {
    if operation != FspiopOperation::AuthorizationsGet {
        return Vec::new();
    }
    let parameter = |(name, text, schema, example): (&str, &str, Value, &str)| Parameter {
        name: name.to_owned(),
        location: ParameterLocation::Query,
        required: true,
        text: text.to_owned(),
        schema,
        example: Some(json!(example)),
        shared: None,
    };
    [
        (
            "authenticationType",
            "How the payer authenticates.",
            reference("AuthenticationType"),
            "OTP",
        ),
        (
            "retriesLeft",
            "Attempts left, an integer.",
            json!({"type": "string", "pattern": "^-?[0-9]{1,9}$"}),
            "2",
        ),
        ("amount", "The amount that the payer will be charged.", reference("Amount"), "1500"),
        ("currency", "Its currency.", reference("Currency"), "XOF"),
    ]
    .map(parameter)
    .into()
}

fn headers(operation: FspiopOperation, method: &Method, resource: &str) -> Vec<Parameter> {
    let mut headers: Vec<_> =
        HEADER_RULES.iter().map(|rule| header(rule, method, resource)).collect();
    if matches!(operation, FspiopOperation::QuotesPost | FspiopOperation::BulkQuotesPost) {
        headers.iter_mut().filter(|it| it.name == "FSPIOP-Destination").for_each(require);
    }
    headers
}

/// Makes a header required for this operation.
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
    let once = if rule.once { " At most one line." } else { "" };
    Parameter {
        name,
        location: ParameterLocation::Header,
        required: rule.presence.is_required(method),
        text: format!("{text}{once}"),
        schema,
        example: example.map(Value::from),
        shared: Some(shared),
    }
}

/// The header name in its usual spelling.
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
            "Versions that the sender accepts; the hub knows 1.0, 1.1, 2.0, 1 and 2. A list of \
             media ranges (RFC 9110), in one line or several; the most specific range decides, \
             and `q=0` excludes. `*/*` and `application/*` are accepted, too. Allowed on `PUT`, \
             but not forwarded there."
        }
        "content-type" => "Version of the message; required without a body, too.",
        "content-encoding" => "Only `identity`; any other coding gets 415.",
        "date" => {
            "Date of the message: an existing day. The name of the weekday is not compared with \
             the date."
        }
        "authorization" => "For gateways only; neither forwarded nor stored.",
        "fspiop-source" => "Sender of the message.",
        "fspiop-destination" => "Recipient of the message, if known; empty means absent.",
        "fspiop-proxy" => "Proxy of another scheme that acts for the source.",
        "fspiop-signature" => {
            "JWS over protected header and body; forwarded unchanged. If the configuration \
             requires signatures, it is verified, and required on every method except `GET`."
        }
        "fspiop-encryption" => "Encrypted members and their algorithm; forwarded unchanged.",
        "fspiop-uri" => "Path and query as signed; added when absent.",
        "fspiop-http-method" => "Method as signed; added when absent.",
        "traceparent" => "W3C trace context; the hub's calls join the trace.",
        "x-client-id" => {
            "Caller as authenticated by a gateway. Must be equal to the source, also with \
             `FSPIOP-Proxy`. If gateways are configured, the header is ignored from any other \
             address. Neither forwarded nor stored."
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
        // Conversely, every served path is described.
        let words = [
            "participants",
            "parties",
            "quotes",
            "bulkQuotes",
            "bulkTransfers",
            "transactionRequests",
            "authorizations",
            "transactions",
            "transfers",
            "services",
            "health",
            "endpointcache",
        ];
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
    fn examples_conform_and_operation_ids_are_unique() {
        let document = document();
        let mut names = BTreeSet::new();
        for operation in api().operations {
            assert!(names.insert(operation.id.clone()), "{} twice", operation.id);
            if let Some(body) = &operation.body {
                let fault = validate::fault(&document, &body.schema, &body.example);
                assert_eq!(fault, None, "{}", operation.id);
            }
            for call in &operation.callbacks {
                let Some(body) = &call.operation.body else { continue };
                let fault = validate::fault(&document, &body.schema, &body.example);
                assert_eq!(fault, None, "{} {}", operation.id, call.name);
            }
        }
    }

    #[test]
    fn headers_have_their_usual_spelling() {
        let spelled: Vec<_> = HEADER_RULES.iter().map(|rule| spelled(rule.name.as_str())).collect();
        assert_eq!(
            spelled.join(" "),
            "Accept Content-Type Content-Encoding Date Authorization FSPIOP-Source FSPIOP-Destination FSPIOP-Proxy \
             FSPIOP-Signature FSPIOP-Encryption FSPIOP-URI FSPIOP-HTTP-Method traceparent X-Client-Id"
        );
        assert!(HEADER_RULES.iter().all(|rule| !header_text(rule.name.as_str()).is_empty()));
    }
}
