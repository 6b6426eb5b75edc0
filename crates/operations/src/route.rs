//! Routes of the admin API (hub-semantics 4.1), declared once each.
//!
//! The module of a resource declares its paths with their parameters, and for each method a
//! [`Route`]: the permission that it needs, its query, its body, its answers and its handler
//! ([`routes!`]). From these declarations come the router, the header `Allow`, the check of the
//! token and the OpenAPI document. **A new route is one declaration there and one handler**; a new
//! module is one line in [`ALL`].
//!
//! Costs: a path is compared with every declared one, about 50.

use fspiop::{ErrorCode, Refusal};
use http::Method;
use ledger::ChangeDeclaration;
use serde_json::Value;

use crate::backend::BoxFuture;
use crate::body::BodyDescription;
use crate::permissions::Permission;
use crate::request::AdminRequest;
use crate::response::HandlerResult;
use crate::schema::{Content, any_text, some_text};
use crate::{
    accounts, audit_log, cluster, configuration, contents, credentials, data_keys, dead_letters,
    dry_runs, endpoint_cache, enrolments, enums, erasures, events, explanations, four_eyes, funds,
    identity, interchange_fee_rules, jws_certificates, keys, limits, liquidity, logins, metrics,
    monitoring, openapi_document, operators, oracles, outbox, participants, parties, proposals,
    provider_logins, roles, rules, settlement_models, settlement_windows, settlements, snapshots,
    statements, status, storage, tokens, trace_search, transactions, transfers, waterfall,
};

/// The resources of every module, with their group in the document.
pub(crate) const ALL: &[(&str, &[Resource])] = &[
    ("participants", participants::RESOURCES),
    ("parties", parties::RESOURCES),
    ("keys", keys::RESOURCES),
    ("keys", jws_certificates::RESOURCES),
    ("keys", enrolments::RESOURCES),
    ("caps", limits::RESOURCES),
    ("caps", liquidity::RESOURCES),
    ("accounts", accounts::RESOURCES),
    ("accounts", funds::RESOURCES),
    ("settlement", settlement_models::RESOURCES),
    ("settlement", settlement_windows::RESOURCES),
    ("settlement", settlements::RESOURCES),
    ("settlement", interchange_fee_rules::RESOURCES),
    ("settlement", statements::RESOURCES),
    ("accounts", statements::OF_PARTICIPANTS),
    ("oracles", oracles::RESOURCES),
    ("operators", operators::RESOURCES),
    ("operators", roles::RESOURCES),
    ("operators", tokens::RESOURCES),
    ("operators", identity::RESOURCES),
    ("operators", four_eyes::RESOURCES),
    ("operators", proposals::RESOURCES),
    ("operators", credentials::RESOURCES),
    ("operators", logins::RESOURCES),
    ("operators", provider_logins::RESOURCES),
    ("operators", audit_log::RESOURCES),
    ("hub", enums::RESOURCES),
    ("measurement", waterfall::RESOURCES),
    ("hub", snapshots::RESOURCES),
    ("hub", data_keys::RESOURCES),
    ("delivery", dead_letters::RESOURCES),
    ("delivery", outbox::RESOURCES),
    ("hub", transactions::RESOURCES),
    ("hub", transfers::RESOURCES),
    ("hub", explanations::RESOURCES),
    ("hub", contents::RESOURCES),
    ("hub", erasures::RESOURCES),
    ("hub", trace_search::RESOURCES),
    ("hub", events::RESOURCES),
    ("hub", dry_runs::RESOURCES),
    ("hub", endpoint_cache::RESOURCES),
    ("hub", monitoring::RESOURCES),
    ("hub", status::RESOURCES),
    ("hub", metrics::RESOURCES),
    ("hub", storage::RESOURCES),
    ("hub", configuration::RESOURCES),
    ("hub", cluster::RESOURCES),
    ("hub", rules::RESOURCES),
    ("hub", openapi_document::RESOURCES),
];

/// Changes that no route records, each with the reason.
const RECORDED_ELSEWHERE: &[(&ChangeDeclaration, &str)] = &[
    (&ledger::Configure::DECLARATION, "a start with other settings than those in force"),
    (&ledger::CheckLiquidity::DECLARATION, "a position that crosses its alarm threshold"),
    (&ledger::FinishAlerts::DECLARATION, "alerts that were sent"),
    (&ledger::RecordAudit::DECLARATION, "a request that made no change"),
    (&ledger::RegisterParties::DECLARATION, "an import by an earlier version"),
    (&ledger::Propose::DECLARATION, "a request for a change that needs a second operator"),
];

/// Requires a route for every change, at compile time.
macro_rules! recorded_each {
    ($($change:ident),*) => {
        $( const _: () = assert!(
            is_recorded(&ledger::$change::DECLARATION),
            concat!(stringify!($change), ": no route has `records: ", stringify!($change), "`"),
        ); )*
    };
}
ledger::for_each_change!(recorded_each);

/// Whether a route records the change, or it is recorded elsewhere.
const fn is_recorded(change: &ChangeDeclaration) -> bool {
    let mut elsewhere = 0;
    while elsewhere < RECORDED_ELSEWHERE.len() {
        if RECORDED_ELSEWHERE[elsewhere].0.number == change.number {
            return true;
        }
        elsewhere += 1;
    }
    let mut module = 0;
    while module < ALL.len() {
        let mut resource = 0;
        while resource < ALL[module].1.len() {
            if ALL[module].1[resource].records(change) {
                return true;
            }
            resource += 1;
        }
        module += 1;
    }
    false
}

/// The permission of the routes that record a change; `None` if no route does.
pub(crate) fn permission_of(change: &ChangeDeclaration) -> Option<Permission> {
    let resources = ALL.iter().flat_map(|(_, resources)| *resources);
    let mut routes = resources.flat_map(|resource| resource.routes);
    routes.find(|route| route.is_for(change)).and_then(|route| route.permission)
}

/// The kind of a route: read, order or change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteKind {
    /// Reads.
    Read,
    /// Starts an action that is not recorded.
    Action,
    /// Changes state by a record of the log.
    Change,
}

/// The description of a parameter.
#[derive(Debug)]
pub(crate) struct ParameterInfo {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    pub(crate) schema: fn() -> Value,
    /// An example value, as JSON; `None` if usual requests omit it.
    pub(crate) example: Option<&'static str>,
}

/// A parameter of a path or of a query, and the type that it is read as.
#[derive(Debug)]
pub(crate) struct Parameter<T> {
    pub(crate) info: ParameterInfo,
    pub(crate) read: fn(&str) -> Result<T, Refusal>,
}

impl<T> Parameter<T> {
    pub(crate) const fn new(
        name: &'static str,
        text: &'static str,
        schema: fn() -> Value,
        read: fn(&str) -> Result<T, Refusal>,
    ) -> Self {
        Self { info: ParameterInfo { name, text, schema, example: None }, read }
    }

    /// The same with an example value, as JSON.
    pub(crate) const fn example(mut self, example: &'static str) -> Self {
        self.info.example = Some(example);
        self
    }
}

impl Parameter<String> {
    /// A parameter that accepts any text.
    pub(crate) const fn text(name: &'static str, text: &'static str) -> Self {
        Self::new(name, text, any_text, |value| Ok(value.to_owned()))
    }

    /// The same, but not empty.
    pub(crate) const fn some_text(name: &'static str, text: &'static str) -> Self {
        Self::new(name, text, some_text, |value| Ok(value.to_owned()))
    }
}

/// A response that is not an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SuccessResponse {
    pub(crate) status: u16,
    pub(crate) text: &'static str,
    pub(crate) content: Content,
}

/// A handler.
pub(crate) type Handler = for<'a> fn(&'a AdminRequest<'a>) -> BoxFuture<'a, HandlerResult>;

/// A method on a path; made by [`routes!`].
#[derive(Clone, Copy)]
pub(crate) struct Route {
    /// Its method, `GET`, `POST`, `PUT` or `DELETE`; `HEAD` is allowed wherever `GET` is.
    pub(crate) verb: &'static str,
    pub(crate) kind: RouteKind,
    /// The permission that it requires where operators have roles; `None` for every operator.
    pub(crate) permission: Option<Permission>,
    /// The permission without which personal data in its answers are masked.
    pub(crate) unmasks: Option<Permission>,
    /// Whether it is open to every client where all operators share a token.
    pub(crate) is_open: bool,
    /// Whether it never needs a token.
    pub(crate) is_anonymous: bool,
    /// Its name in the document.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    /// Rules that a client must know; CommonMark.
    pub(crate) text: &'static str,
    pub(crate) query: &'static [&'static ParameterInfo],
    /// Whether the header `Accept` is required.
    pub(crate) needs_accept: bool,
    pub(crate) body: Option<BodyDescription>,
    /// An example body.
    pub(crate) example: fn() -> Value,
    /// A parameter of the path, with its example for this method.
    pub(crate) path_example: Option<(&'static str, &'static str)>,
    pub(crate) responses: &'static [SuccessResponse],
    /// The change that it records.
    pub(crate) records: Option<&'static ChangeDeclaration>,
    /// Another change that it records, depending on the body.
    pub(crate) or_records: Option<&'static ChangeDeclaration>,
    /// Whether it can be part of a dry run (`dry_runs`).
    pub(crate) dry_run: bool,
    /// Errors other than those of [`Self::records`] and of every route.
    pub(crate) refusals: &'static [(u16, ErrorCode)],
    pub(crate) handler: Handler,
}

impl Route {
    /// Reads without the shared token.
    pub(crate) const fn read(handler: Handler) -> Self {
        Self {
            verb: "",
            kind: RouteKind::Read,
            permission: Some(Permission::Read),
            unmasks: None,
            is_open: true,
            is_anonymous: false,
            id: "",
            summary: "",
            text: "",
            query: &[],
            needs_accept: false,
            body: None,
            example: || Value::Null,
            path_example: None,
            responses: &[],
            records: None,
            or_records: None,
            dry_run: false,
            refusals: &[],
            handler,
        }
    }

    /// Reads costly or personal data.
    pub(crate) const fn guarded(handler: Handler) -> Self {
        Self { is_open: false, ..Self::read(handler) }
    }

    /// Starts an action that is not recorded, without a token.
    pub(crate) const fn anonymous(handler: Handler) -> Self {
        let kind = RouteKind::Action;
        Self { kind, permission: None, is_anonymous: true, ..Self::read(handler) }
    }

    /// Starts an action that is not recorded.
    pub(crate) const fn action(handler: Handler) -> Self {
        let permission = Some(Permission::Operate);
        Self { kind: RouteKind::Action, permission, ..Self::guarded(handler) }
    }

    /// Changes state by a record of the log.
    pub(crate) const fn change(handler: Handler) -> Self {
        Self { kind: RouteKind::Change, ..Self::action(handler) }
    }

    /// Whether it records the change.
    pub(crate) const fn is_for(&self, change: &ChangeDeclaration) -> bool {
        let is_first = matches!(self.records, Some(it) if it.number == change.number);
        is_first || matches!(self.or_records, Some(it) if it.number == change.number)
    }
}

/// Declares the resources of a module as `RESOURCES`: each path with its parameters, and within it
/// the routes:
///
/// ```text
/// KIND METHOD name = handler(Body), "summary" { FIELD: value, ... }
/// ```
///
/// The kind is a constructor of [`Route`]: `read`, `guarded`, `anonymous`, `action` or
/// `change`. The
/// fields are those of [`Route`]. A handler is an async function of the [`AdminRequest`], and of
/// the body where there is one.
macro_rules! routes {
    ($($path:literal $([$($parameter:ident),*])? {
        $($kind:ident $verb:ident $id:ident = $handler:ident $(($body:ty))?, $summary:literal {
            $($field:ident: $value:tt),* $(,)?
        })*
    })*) => {
        pub(crate) const RESOURCES: &[$crate::route::Resource] = &[$(
            $crate::route::Resource::new(
                $path,
                &[$($(&$parameter.info),*)?],
                &[$($crate::route::Route {
                    verb: stringify!($verb),
                    id: stringify!($id),
                    summary: $summary,
                    body: $crate::route::body_description!($($body)?),
                    $($field: $crate::route::field!($field $value),)*
                    ..$crate::route::Route::$kind($crate::route::handler!($handler $($body)?))
                }),*],
            )
        ),*];
    };
}
pub(crate) use routes;

macro_rules! body_description {
    () => {
        None
    };
    ($body:ty) => {
        Some(<$body as $crate::body::Body>::DESCRIPTION)
    };
}
pub(crate) use body_description;

macro_rules! handler {
    ($handler:ident) => {
        |request| Box::pin($handler(request))
    };
    ($handler:ident $body:ty) => {
        |request| Box::pin(async move { $handler(request, request.body::<$body>()?).await })
    };
}
pub(crate) use handler;

/// The value of a field of [`Route`], as [`routes!`] spells it.
macro_rules! field {
    (permission None) => {
        None
    };
    (permission $permission:ident) => {
        Some($crate::permissions::Permission::$permission)
    };
    (unmasks $permission:ident) => {
        Some($crate::permissions::Permission::$permission)
    };
    (query [$($parameter:ident),*]) => {
        &[$(&$parameter.info),*]
    };
    (example $example:tt) => {
        || serde_json::json!($example)
    };
    (path_example ($name:literal = $example:literal)) => {
        Some(($name, $example))
    };
    (responses [$($status:literal: $type:ty = $text:literal),* $(,)?]) => {
        &[$($crate::route::SuccessResponse {
            status: $status,
            text: $text,
            content: <$type as $crate::schema::Schema>::CONTENT,
        }),*]
    };
    (records $change:ident) => {
        Some(&ledger::$change::DECLARATION)
    };
    (or_records $change:ident) => {
        Some(&ledger::$change::DECLARATION)
    };
    (refusals [$($status:literal $code:ident),*]) => {
        &[$(($status, fspiop::ErrorCode::$code)),*]
    };
    ($field:ident $value:tt) => {
        $value
    };
}
pub(crate) use field;

/// A path with its methods.
pub(crate) struct Resource {
    /// With `{name}` for each parameter.
    pub(crate) path: &'static str,
    pub(crate) parameters: &'static [&'static ParameterInfo],
    pub(crate) routes: &'static [Route],
}

/// The resource of a path, with the values of the path's parameters, decoded and otherwise
/// unchanged.
pub(crate) struct MatchedResource {
    pub(crate) resource: &'static Resource,
    pub(crate) values: Vec<(&'static str, String)>,
}

impl Resource {
    /// Declares a resource; does not compile if a parameter of the path is not described, or
    /// if a route that is not a change has `records`.
    pub(crate) const fn new(
        path: &'static str,
        parameters: &'static [&'static ParameterInfo],
        routes: &'static [Route],
    ) -> Self {
        assert!(describes(path, parameters), "the parameters are not those of the path");
        let mut at = 0;
        while at < routes.len() {
            let is_change = matches!(routes[at].kind, RouteKind::Change);
            let declared = (&routes[at].records, &routes[at].or_records);
            assert!(is_change || matches!(declared, (None, None)), "only a change has `records`");
            at += 1;
        }
        Self { path, parameters, routes }
    }

    /// Whether one of its routes records the change.
    const fn records(&self, change: &ChangeDeclaration) -> bool {
        let mut route = 0;
        while route < self.routes.len() {
            if self.routes[route].is_for(change) {
                return true;
            }
            route += 1;
        }
        false
    }

    /// The resource of a path; of two, the one with fewer parameters. `None` if the path is
    /// unknown.
    pub(crate) fn find(path: &str) -> Option<MatchedResource> {
        let segments = path.strip_prefix('/')?.split('/').take(SEGMENTS_MAX + 1).map(decode);
        let segments: Vec<String> = segments.collect::<Option<_>>()?;
        if segments.iter().any(String::is_empty) {
            return None;
        }
        let all = ALL.iter().flat_map(|(_, resources)| *resources);
        let all = all.filter_map(|resource| resource.found(&segments));
        all.min_by_key(|found| found.values.len())
    }

    fn found(&'static self, segments: &[String]) -> Option<MatchedResource> {
        let names = self.path.split('/').skip(1);
        if names.clone().count() != segments.len() {
            return None;
        }
        let mut values = Vec::new();
        for (name, segment) in names.zip(segments) {
            match name.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
                Some(name) => values.push((name, segment.clone())),
                None if name == segment => (),
                None => return None,
            }
        }
        Some(MatchedResource { resource: self, values })
    }

    /// The route of a method.
    pub(crate) fn route(&self, method: &Method) -> Option<&'static Route> {
        let verb = if *method == Method::HEAD { Method::GET.as_str() } else { method.as_str() };
        self.routes.iter().find(|route| route.verb == verb)
    }

    /// The header `Allow`.
    pub(crate) fn allow(&self) -> String {
        let names = self.routes.iter().map(|route| match route.verb {
            "GET" => "GET, HEAD",
            verb => verb,
        });
        names.collect::<Vec<_>>().join(", ")
    }
}

/// Maximum number of segments of a known path.
const SEGMENTS_MAX: usize = 7;

/// Whether the parameters of a path are these, in this order.
const fn describes(path: &str, parameters: &[&ParameterInfo]) -> bool {
    let path = path.as_bytes();
    let (mut at, mut known) = (0, 0);
    while at < path.len() {
        if path[at] == b'{' {
            if known == parameters.len() {
                return false;
            }
            let name = parameters[known].name.as_bytes();
            let mut letter = 0;
            while letter < name.len() {
                if path[at + 1 + letter] != name[letter] {
                    return false;
                }
                letter += 1;
            }
            if path[at + 1 + letter] != b'}' {
                return false;
            }
            known += 1;
        }
        at += 1;
    }
    known == parameters.len()
}

/// The value of the first query parameter with this name.
pub(crate) fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let (_, value) = pairs.find(|(key, _)| *key == name)?;
    decode(&value.replace('+', " "))
}

/// The parameters of a query in their order, without those that cannot be decoded.
pub(crate) fn parameters(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.filter_map(|(name, value)| Some((decode(name)?, decode(&value.replace('+', " "))?)))
}

/// Decodes percent-encoding; `None` if the result is not UTF-8 or an escape is incomplete.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => hexadecimal(bytes.next()?)? << 4 | hexadecimal(bytes.next()?)?,
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

fn hexadecimal(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart_and_decoded() {
        for (path, expected) in [
            ("/participants", Some("/participants")),
            ("/participants/", None),
            ("/participants/limits", Some("/participants/limits")),
            ("/participants/a%20b/accounts/7", Some("/participants/{name}/accounts/{id} a b 7")),
            ("/participants/a%2Fb/accounts/7", Some("/participants/{name}/accounts/{id} a/b 7")),
            ("/participants/%ff/accounts/7", None),
            ("/participants/%2/accounts/7", None),
            ("/participants/a/accounts/7/transfers/t/more", None),
            (
                "/v2/settlements/1/participants/2/accounts/3",
                Some("/v2/settlements/{sid}/participants/{pid}/accounts/{aid} 1 2 3"),
            ),
            ("/participants/a/b/c/d/e/f/g/h", None),
            ("/Participants", None),
            ("/", None),
            ("*", None),
        ] {
            let found = Resource::find(path).map(|found| {
                let values = found.values.iter().map(|(_, value)| format!(" {value}"));
                format!("{}{}", found.resource.path, values.collect::<String>())
            });
            assert_eq!(found.as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn parameters_are_found_by_name() {
        for (query, expected) in [
            ("", None),
            ("type", Some("")),
            ("type=a%26b+c", Some("a&b c")),
            ("kind=x&type=y&type=z", Some("y")),
            ("type=%", None),
        ] {
            assert_eq!(parameter(query, "type").as_deref(), expected, "{query}");
        }
    }
}
