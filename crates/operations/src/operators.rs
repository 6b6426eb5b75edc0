//! `/operators`: people and services that use the admin API. An addition to the reference's API.
//!
//! Operators are records of the log, like every change: all nodes know the same ones. An operator
//! is never removed, because the log names it; it is disabled.

use fspiop::{ErrorCode, Refusal};
use ledger::{GRANTED_ROLES_MAX, Operator, OperatorBook, SetOperator};

use crate::auth::BREAK_GLASS;
use crate::body::{FLAG, Optional, Strings, body};
use crate::body_reader::refuse;
use crate::outcome_errors;
use crate::permissions::{self, Permissions};
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::Timestamp;
use crate::route::{Parameter, routes};
use crate::schema::{self, response_type};

/// Longest name of an operator or a role, in characters.
const NAME_CHARACTERS_MAX: usize = 64;
const NAME_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._@-]*$";
const NAME_FORM: &str =
    "must be 1 to 64 letters, digits or . _ @ - and begin with a letter or digit";

/// The operator in a path.
pub(crate) const NAME: Parameter<String> =
    Parameter::new("name", "The operator.", name_schema, |text| valid_name("name", text))
        .example("\"anna\"");

/// Names of roles in a body.
pub(crate) const ROLE_NAMES: Strings = Strings {
    length: 0..=GRANTED_ROLES_MAX,
    is_valid: is_name,
    form: NAME_FORM,
    schema: name_schema,
};

routes! {
    "/operators" {
        guarded GET listOperators = list, "List the operators" {
            responses: [200: Vec<OperatorResponse> = "Operators, in order of name."],
        }
    }
    "/operators/{name}" [NAME] {
        guarded GET showOperator = show, "Show an operator" {
            responses: [200: OperatorResponse = "The operator."],
            refusals: [400 VALIDATION, 400 ID_NOT_FOUND],
        }
        change PUT setOperator = set(NewOperator), "Add or change an operator" {
            permission: Security,
            records: SetOperator,
            text: "\
                Sets the roles of the operator, at most 16, and whether it may use this API. A \
                role that does not exist gets 3200. A disabled operator's tokens are refused from \
                the next request on. At most 1000 operators; an operator is never removed, because \
                the log names it. `break-glass` is reserved and gets 3100.",
            example: {"roles": ["operator", "auditor"]},
            responses: [200: OperatorResponse = "The operator after the change."],
            refusals: [400 VALIDATION, 400 ID_NOT_FOUND],
        }
    }
}

body! {
    Closed NewOperator {
        roles: Vec<String> = ROLE_NAMES,
        is_active: Option<bool> = Optional(FLAG),
    }
}

response_type! {
    /// An operator in a response.
    struct OperatorResponse as "Operator" {
        name: String,
        roles: Vec<String>,
        /// The permissions that the roles grant.
        permissions: Vec<&'static str>,
        is_active: bool,
        has_password: bool,
        has_second_factor: bool,
        tokens: usize,
        created_date: Timestamp,
    }
}

impl OperatorResponse {
    fn of(book: &OperatorBook, operator: &Operator) -> Self {
        Self {
            name: operator.name.clone(),
            roles: operator.roles.clone(),
            permissions: Permissions::of_roles(book, &operator.roles).names(),
            is_active: operator.active,
            has_password: !operator.password.is_empty(),
            has_second_factor: !operator.second_factor.is_empty(),
            tokens: book.tokens().filter(|token| token.operator == operator.name).count(),
            created_date: Timestamp(operator.created),
        }
    }
}

/// `GET /operators`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let all = request.query_state(|state| {
        let book = state.operators();
        book.operators().map(|operator| OperatorResponse::of(book, operator)).collect::<Vec<_>>()
    });
    Ok(AdminResponse::ok(&all.await?))
}

/// `GET /operators/{name}`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    let name = request.path(&NAME)?;
    let found = request.query_state(move |state| {
        let book = state.operators();
        book.operator(&name).map(|operator| OperatorResponse::of(book, operator))
    });
    Ok(AdminResponse::ok(&found.await?.ok_or_else(not_found)?))
}

/// `PUT /operators/{name}`.
async fn set(request: &AdminRequest<'_>, body: NewOperator) -> HandlerResult {
    let name = request.path(&NAME)?;
    if name.eq_ignore_ascii_case(BREAK_GLASS) {
        return Err(refuse(ErrorCode::VALIDATION, "name", "is reserved"));
    }
    let NewOperator { roles, is_active } = body;
    must_exist(request, &roles).await?;
    request.change(SetOperator { name, roles, active: is_active.unwrap_or(true) }).await?;
    show(request).await
}

/// Refuses roles that do not exist.
pub(crate) async fn must_exist(
    request: &AdminRequest<'_>,
    roles: &[String],
) -> Result<(), Refusal> {
    let named = roles.to_vec();
    let unknown = request.query_state(move |state| {
        let book = state.operators();
        named.into_iter().find(|role| !permissions::is_known(book, role))
    });
    unknown.await?.map_or(Ok(()), |role| {
        Err(refuse(ErrorCode::ID_NOT_FOUND, "roles", &format!("names the unknown role {role}")))
    })
}

/// A name of an operator or a role, for the member that holds it.
pub(crate) fn valid_name(member: &str, text: &str) -> Result<String, Refusal> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err(refuse(ErrorCode::VALIDATION, member, NAME_FORM)),
    }
}

pub(crate) fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte);
    (1..=NAME_CHARACTERS_MAX).contains(&text.len())
        && text.as_bytes()[0].is_ascii_alphanumeric()
        && text.bytes().all(is_inner)
}

pub(crate) fn name_schema() -> serde_json::Value {
    schema::pattern_text(1..=NAME_CHARACTERS_MAX, NAME_PATTERN)
}

pub(crate) fn not_found() -> Refusal {
    outcome_errors::of_result(ledger::AdminOutcome::OperatorNotFound)
}
