//! `/roles`: named sets of permissions. An addition to the reference's API.

use fspiop::{ErrorCode, Refusal};
use ledger::{AdminOutcome, OperatorRole, PERMISSIONS_MAX, RemoveRole, SetRole};
use serde_json::Value;

use crate::body::{Strings, body};
use crate::body_reader::refuse;
use crate::operators::{name_schema, valid_name};
use crate::outcome_errors;
use crate::permissions::{BUILT_IN, Permission, Permissions, is_built_in};
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::{Parameter, routes};
use crate::schema::{self, response_type};

const _: () = assert!(Permission::NAMED.len() <= PERMISSIONS_MAX, "a role can have all of them");

/// The role in a path.
const ROLE: Parameter<String> =
    Parameter::new("role", "The role.", name_schema, |text| valid_name("role", text))
        .example("\"treasury\"");

routes! {
    "/roles" {
        guarded GET listRoles = list, "List the roles" {
            responses: [200: Vec<RoleResponse> = "Built-in roles, then defined ones by name."],
        }
    }
    "/roles/{role}" [ROLE] {
        guarded GET showRole = show, "Show a role" {
            responses: [200: RoleResponse = "The role."],
            refusals: [400 VALIDATION, 400 ID_NOT_FOUND],
        }
        change PUT setRole = set(NewRole), "Define or change a role" {
            permission: Security,
            records: SetRole,
            text: "\
                A change applies to all who have the role, from the next request on. At most 100 \
                roles. The built-in roles cannot be changed; this gets 3100.",
            example: {"permissions": ["read", "finance"]},
            responses: [200: RoleResponse = "The role after the change."],
            refusals: [400 VALIDATION],
        }
        change DELETE removeRole = remove, "Remove a role" {
            permission: Security,
            records: RemoveRole,
            text: "Refused with 3100 while an operator or a token has the role.",
            responses: [204: () = "Removed."],
            refusals: [400 VALIDATION],
        }
    }
}

body! {
    Closed NewRole {
        permissions: Vec<String> = Strings {
            length: 0..=Permission::NAMED.len(),
            is_valid: |text| Permission::NAMED.iter().any(|(name, _)| *name == text),
            form: "must be read, operate, finance, security or audit",
            schema: permission_schema,
        },
    }
}

response_type! {
    /// A role in a response.
    struct RoleResponse as "Role" {
        name: String,
        permissions: Vec<String>,
        is_built_in: bool,
    }
}

fn permission_schema() -> Value {
    schema::one_of(&schema::names(&Permission::NAMED))
}

/// The built-in roles.
fn built_in() -> impl Iterator<Item = RoleResponse> {
    BUILT_IN.iter().map(|(name, granted)| {
        let permissions: Permissions = granted.iter().copied().collect();
        let permissions = permissions.names().into_iter().map(str::to_owned).collect();
        RoleResponse { name: (*name).to_owned(), permissions, is_built_in: true }
    })
}

impl From<&OperatorRole> for RoleResponse {
    fn from(role: &OperatorRole) -> Self {
        let (name, permissions) = (role.name.clone(), role.permissions.clone());
        Self { name, permissions, is_built_in: false }
    }
}

/// `GET /roles`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let defined = request
        .query_state(|state| state.operators().roles().map(RoleResponse::from).collect::<Vec<_>>());
    let all: Vec<_> = built_in().chain(defined.await?).collect();
    Ok(AdminResponse::ok(&all))
}

/// `GET /roles/{role}`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    let name = request.path(&ROLE)?;
    if let Some(role) = built_in().find(|role| role.name == name) {
        return Ok(AdminResponse::ok(&role));
    }
    let found =
        request.query_state(move |state| state.operators().role(&name).map(RoleResponse::from));
    let not_found = || outcome_errors::of_result(AdminOutcome::RoleNotFound);
    Ok(AdminResponse::ok(&found.await?.ok_or_else(not_found)?))
}

/// `PUT /roles/{role}`.
async fn set(request: &AdminRequest<'_>, body: NewRole) -> HandlerResult {
    let name = request.path(&ROLE)?;
    must_be_changeable(&name)?;
    let NewRole { permissions } = body;
    request.change(SetRole { role: OperatorRole { name, permissions } }).await?;
    show(request).await
}

/// `DELETE /roles/{role}`.
async fn remove(request: &AdminRequest<'_>) -> HandlerResult {
    let name = request.path(&ROLE)?;
    must_be_changeable(&name)?;
    request.change(RemoveRole { name }).await?;
    Ok(AdminResponse::empty(http::StatusCode::NO_CONTENT))
}

fn must_be_changeable(role: &str) -> Result<(), Refusal> {
    match is_built_in(role) {
        true => Err(refuse(ErrorCode::VALIDATION, "role", "is built in and cannot be changed")),
        false => Ok(()),
    }
}
