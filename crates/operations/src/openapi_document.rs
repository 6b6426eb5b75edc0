//! The admin API as an OpenAPI document, generated from the declared routes (`route`), and
//! served: `GET /openapi/{fspiop,admin}.json` and the page `GET /documents`.
//!
//! `tests/api/document.rs` plays every described rule against the real handlers. Codes of changes
//! come from the table of outcomes (`outcome_errors`), schemas of bodies and responses from types.
//!
//! Costs: documents are generated on the first request and kept in memory: 300 KB.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use bytes::Bytes;
use fspiop::ErrorCode;
use openapi::schema::reference;
use openapi::{Access, Api, ApiResponse, Body, Operation, Parameter, ParameterLocation};
use serde_json::{Value, json};

use crate::auth::{ACTOR_BYTES_MAX, REASON_BYTES_MAX};
use crate::dry_runs::NAME_BYTES_MAX;
use crate::four_eyes::group_of;
use crate::outcome_errors::{from_outcome, repeated};
use crate::permissions::Permission;
use crate::proposals::ProposalResponse;
use crate::request::AdminRequest;
use crate::response::{AdminResponse as Response, HandlerResult};
use crate::route::{ALL, ParameterInfo, Resource, Route, RouteKind, SuccessResponse, routes};
use crate::schema::{self, AnyObject, Content, Schema, any_text, unnamed_response};

routes! {
    "/openapi/fspiop.json" {
        read GET fspiopDocument = fspiop_json, "Show the OpenAPI document of the FSPIOP API" {
            responses: [200: AnyObject = "The document."],
        }
    }
    "/openapi/admin.json" {
        read GET adminDocument = admin_json, "Show the OpenAPI document of this API" {
            responses: [200: AnyObject = "The document."],
        }
    }
    "/documents" {
        read GET documents = page, "Show both APIs as an HTML page" {
            responses: [200: Page = "The page."],
        }
    }
}

const TEXT: &str = "\
For operators: onboarding, public keys, accounts and funds, caps, settlement, oracles, dead \
letters, health.\n\n\
A **change** requires the bearer token of the data directory, unless the configuration disables \
it; so do {guarded}. Other read requests need no token. A change is recorded, synced and decided \
before its response is sent. `X-Actor` and `X-Reason` are recorded with it.\n\n\
Where **operators have roles** (`admin.auth = \"roles\"`), every request requires a token of an \
operator (`POST /tokens`), and the permission in `x-required-permission`; otherwise it gets 401 or \
403. The operator's name is recorded instead of `X-Actor`.\n\n\
A **dry run** answers changes of windows, settlements and fee rules as it would, and records \
nothing. Its requests carry the same `X-Dry-Run`, a name of 1 to 64 visible characters, and the \
token. The first one copies the state, and each sees the changes of those before it. A dry run \
ends with `DELETE /dryRuns/{name}`, or 60 s after its last request; more than 4 at a time get \
503. A request that cannot be part of a dry run gets 400 with 3100.\n\n\
The `Host` must be a name of the loopback interface or a configured one, and an `Origin`, if any, \
a configured one; otherwise the request gets 403. `HEAD` is answered like `GET` without the body. \
A path that is not in this document gets 404 with 3002, an undefined method on a path 405 with \
3000. A request that is not HTTP, has a line end without CR in its head, or repeats \
`Authorization`, `Content-Type`, `X-Actor`, `X-Reason` or `X-Dry-Run` gets 400 with 3101; a \
request with too large a head gets 400 with 3104. The connection is closed in both cases. A \
`Content-Encoding` \
other than `identity` gets 415.\n\n\
**Errors** carry `errorInformation` for the first failure only. An unknown participant gets 400 \
with 3200. Limits or an oracle that already exist get 500 with 2001. Both are as in the reference \
hub, because clients compare them. After too many requests without a valid token, responses are \
delayed or are 429.\n\n\
A boolean may be sent as a string. A decimal may be sent as a string: at most 18 digits, 4 of them \
after the point.";

/// The document of the admin API.
#[must_use]
pub fn admin() -> Value {
    let api = Api {
        title: "Upesi admin API",
        text: TEXT.replace("{guarded}", &guarded()),
        server: "http://127.0.0.1:3001",
        tags: vec![
            ("participants", "Participants and their endpoints."),
            ("parties", "The directory of parties and the FSPs that serve them."),
            ("keys", "Public keys that verify signatures."),
            ("caps", "Net debit caps."),
            ("accounts", "Accounts, positions, funds in and funds out."),
            ("settlement", "Settlement models, windows and settlements."),
            ("operators", "Operators of this API, their roles and tokens."),
            ("oracles", "A registry of oracles. The hub does not call them."),
            ("delivery", "Notices owed, those without an endpoint, and dead letters."),
            ("measurement", "Timing of individual transfers."),
            ("hub", "The hub itself: enumerations, health, metrics, documents."),
        ],
        schemas: schemas(),
        operations: operations(),
    };
    api.document()
}

/// The read requests that require the token.
fn guarded() -> String {
    let requests: Vec<_> = guarded_requests().map(|request| format!("`{request}`")).collect();
    let (last, others) = requests.split_last().expect("some requests are guarded");
    format!("{} and {last}", others.join(", "))
}

fn guarded_requests() -> impl Iterator<Item = String> {
    let resources = ALL.iter().flat_map(|(_, resources)| *resources);
    let routes = resources.flat_map(|it| it.routes.iter().map(move |route| (it.path, route)));
    let guarded = routes.filter(|(_, route)| route.kind == RouteKind::Read && !route.is_open);
    guarded.map(|(path, route)| format!("{} {path}", route.verb))
}

/// Every named schema: the shared ones, and those of bodies and responses.
fn schemas() -> Vec<(String, Value)> {
    let mut named = BTreeMap::new();
    let resources = ALL.iter().flat_map(|(_, resources)| *resources);
    for route in resources.flat_map(|resource| resource.routes) {
        let bodies = route.body.iter().map(|body| body.schema);
        let responses = route.responses.iter().filter_map(|response| match response.content {
            Content::One(of)
            | Content::List(of)
            | Content::OneOrAll(of)
            | Content::OneOrText(of, _) => Some(of),
            Content::Nothing | Content::Other(..) => None,
        });
        named.extend(bodies.chain(responses));
    }
    let own = named.into_iter().map(|(name, schema)| (name.to_owned(), schema()));
    schema::shared_schemas().into_iter().chain(own).collect()
}

/// Every operation of the admin API.
fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    for (tag, resources) in ALL {
        for resource in *resources {
            all.extend(resource.routes.iter().map(|route| operation(tag, resource, route)));
        }
    }
    all
}

/// `GET /openapi/fspiop.json`.
async fn fspiop_json(_: &AdminRequest<'_>) -> HandlerResult {
    static TEXT: LazyLock<Bytes> =
        LazyLock::new(|| openapi::text(&openapi::fspiop::document()).into());
    Ok(Response::document(Bytes::clone(&TEXT)))
}

/// `GET /openapi/admin.json`.
async fn admin_json(_: &AdminRequest<'_>) -> HandlerResult {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| openapi::text(&admin()).into());
    Ok(Response::document(Bytes::clone(&TEXT)))
}

/// `GET /documents`: both documents as one page.
async fn page(_: &AdminRequest<'_>) -> HandlerResult {
    static PAGE: LazyLock<Bytes> = LazyLock::new(|| {
        let (switch, admin) = (openapi::fspiop::document(), admin());
        let documents = [("fspiop", &switch), ("admin", &admin)];
        openapi::html::render("Upesi: its APIs", &documents).into()
    });
    Ok(Response::page(Bytes::clone(&PAGE)))
}

unnamed_response! {
    /// A document of HTML.
    struct Page = "text/html", any_text()
}

/// The operation of a route.
fn operation(tag: &'static str, resource: &Resource, route: &Route) -> Operation {
    let proposed = is_proposable(route).then(|| {
        let text = "Proposed, where the change needs a second operator (`/fourEyes`).";
        ApiResponse::json(202, text, reference(ProposalResponse::NAME))
    });
    let responses = route.responses.iter().map(response).chain(proposed);
    let refusals = refusals(resource, route).into_iter();
    let refusals = refusals.map(|(status, codes)| ApiResponse::refusal(status, codes));
    Operation {
        method: route.verb.to_ascii_lowercase(),
        path: resource.path.to_owned(),
        tag,
        id: route.id.to_owned(),
        summary: route.summary.to_owned(),
        text: route.text.to_owned(),
        parameters: parameters(resource, route),
        body: route.body.map(|body| Body {
            media: vec!["application/json".to_owned()],
            schema: reference(body.schema.0),
            example: (route.example)(),
            is_required: body.is_required,
        }),
        responses: responses.chain(refusals).collect(),
        callbacks: Vec::new(),
        permission: route.permission.map(Permission::name),
        unmasks: route.unmasks.map(Permission::name),
        access: match route {
            Route { is_anonymous: true, .. } => Access::Open,
            Route { is_open: true, .. } => Access::Optional,
            _ => Access::Token,
        },
    }
}

/// Whether a change of the route can be proposed. A route that already answers 202 has no body in
/// its description, which allows any.
fn is_proposable(route: &Route) -> bool {
    let mut declared = route.records.into_iter().chain(route.or_records);
    let is_listed = |declared| group_of(declared).is_some();
    declared.any(is_listed) && route.responses.iter().all(|response| response.status != 202)
}

fn parameters(resource: &Resource, route: &Route) -> Vec<Parameter> {
    let mut all: Vec<_> =
        resource.parameters.iter().map(|info| parameter(info, ParameterLocation::Path)).collect();
    if let Some((name, example)) = route.path_example {
        let named = all.iter_mut().filter(|parameter| parameter.name == name);
        named.for_each(|parameter| parameter.example = Some(json!(example)));
    }
    if route.kind == RouteKind::Change {
        let actor = "Name of the requester; recorded with the change.";
        all.push(header("X-Actor", actor, 0..=ACTOR_BYTES_MAX));
        all.push(header(
            "X-Reason",
            "Reason of the change; recorded with it.",
            0..=REASON_BYTES_MAX,
        ));
    }
    if route.dry_run {
        let text = "Name of a dry run, which records nothing. Requires the token.";
        all.push(header("X-Dry-Run", text, 1..=NAME_BYTES_MAX));
    }
    all.extend(route.query.iter().map(|info| parameter(info, ParameterLocation::Query)));
    if route.needs_accept {
        all.push(Parameter { required: true, ..parameter(&ACCEPT, ParameterLocation::Header) });
    }
    all
}

/// An optional header, which is described once.
fn header(name: &str, text: &str, bytes: RangeInclusive<usize>) -> Parameter {
    let (least, most) = bytes.into_inner();
    let mut schema = json!({"type": "string", "maxLength": most});
    if least != 0 {
        schema["minLength"] = json!(least);
    }
    Parameter {
        name: name.to_owned(),
        location: ParameterLocation::Header,
        required: false,
        text: format!("{text} At most {most} bytes."),
        schema,
        example: None,
        shared: Some(name.to_owned()),
    }
}

const ACCEPT: ParameterInfo = ParameterInfo {
    name: "Accept",
    text: "Any list of media ranges.",
    schema: any_text,
    example: Some("\"application/json\""),
};

fn parameter(info: &ParameterInfo, location: ParameterLocation) -> Parameter {
    Parameter {
        name: info.name.to_owned(),
        location,
        required: location == ParameterLocation::Path,
        text: info.text.to_owned(),
        schema: (info.schema)(),
        example: info.example.map(value),
        shared: None,
    }
}

fn response(shows: &SuccessResponse) -> ApiResponse {
    let list = |name: &str| schema::list_of(reference(name));
    let schema = match shows.content {
        Content::Nothing => return ApiResponse::empty(shows.status, shows.text),
        Content::One((name, _)) => reference(name),
        Content::List((name, _)) => list(name),
        Content::OneOrAll((name, _)) => json!({"anyOf": [
            list(name),
            reference(name),
            {"type": "object", "additionalProperties": false},
        ]}),
        Content::OneOrText((name, _), media) => {
            let mut response = ApiResponse::json(shows.status, shows.text, reference(name));
            let texts = media.iter().map(|media| ((*media).to_owned(), schema::any_text()));
            response.content.extend(texts);
            return response;
        }
        Content::Other(media, schema) => {
            let content = vec![(media.to_owned(), schema())];
            return ApiResponse { content, ..ApiResponse::empty(shows.status, shows.text) };
        }
    };
    ApiResponse::json(shows.status, shows.text, schema)
}

/// The codes of every refusal, by status.
fn refusals(resource: &Resource, route: &Route) -> BTreeMap<u16, Vec<ErrorCode>> {
    let mut all = vec![
        (403, ErrorCode::GENERIC_CLIENT),
        // A coded body.
        (415, ErrorCode::MALFORMED_SYNTAX),
        (503, ErrorCode::SERVICE_UNAVAILABLE),
    ];
    if !resource.parameters.is_empty() {
        // A path with an empty or non-UTF-8 identifier is unknown.
        all.push((404, ErrorCode::UNKNOWN_URI));
    }
    // The first two without a valid token, the third if the token's file cannot be read.
    all.extend([
        (401, ErrorCode::GENERIC_CLIENT),
        (429, ErrorCode::GENERIC_CLIENT),
        (500, ErrorCode::INTERNAL_SERVER),
    ]);
    if !route.is_open || route.dry_run {
        all.extend([
            // An `X-Actor` or `X-Reason` that is too long, or two of a header.
            (400, ErrorCode::VALIDATION),
            (400, ErrorCode::MALFORMED_SYNTAX),
        ]);
    }
    if route.kind != RouteKind::Read {
        all.extend([
            (400, ErrorCode::MALFORMED_SYNTAX),
            (400, ErrorCode::TOO_LARGE_PAYLOAD),
            (408, ErrorCode::GENERIC_CLIENT),
        ]);
    }
    if route.needs_accept {
        all.extend([(400, ErrorCode::MISSING_ELEMENT), (400, ErrorCode::MALFORMED_SYNTAX)]);
    }
    if let Some(body) = route.body {
        all.push((400, ErrorCode::MISSING_ELEMENT));
        all.extend(body.is_closed.then_some((400, ErrorCode::TOO_MANY_ELEMENTS)));
    }
    let mut ends: Vec<_> = route
        .records
        .into_iter()
        .chain(route.or_records)
        .flat_map(|it| it.outcomes)
        .filter_map(|it| from_outcome(*it))
        .collect();
    if route.kind == RouteKind::Change {
        ends.push(repeated());
    }
    all.extend(ends.iter().map(|refusal| (refusal.status.as_u16(), refusal.code)));
    let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    for (status, code) in all.iter().chain(route.refusals) {
        by_status.entry(*status).or_default().push(*code);
    }
    by_status
}

/// A declared example.
fn value(json: &str) -> Value {
    serde_json::from_str(json).expect("an example is JSON")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn examples_conform_and_names_are_unlike() {
        let document = admin();
        let mut names = BTreeSet::new();
        for operation in operations() {
            assert!(names.insert(operation.id.clone()), "{} twice", operation.id);
            if let Some(body) = &operation.body {
                let fault = openapi::validate::fault(&document, &body.schema, &body.example);
                assert_eq!(fault, None, "{}", operation.id);
            }
        }
    }

    #[test]
    fn the_manuals_name_every_guarded_request() {
        for manual in ["compatibility.md", "configuration.md", "operating/install.md"] {
            let path = format!("{}/../../docs/{manual}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(path).expect("a manual");
            for request in guarded_requests() {
                assert!(text.contains(&format!("`{request}`")), "{manual} lacks {request}");
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
