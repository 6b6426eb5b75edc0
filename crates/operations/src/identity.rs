//! `GET /identity`: the sender of the request, as the admin API sees it.

use crate::auth::Credential;
use crate::operator_token::id_text;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::Timestamp;
use crate::route::routes;
use crate::schema::{self, response_type};

const CREDENTIALS: [&str; 6] =
    ["none", "shared token", "break-glass token", "token", "session", "provider token"];

routes! {
    "/identity" {
        guarded GET showIdentity = show, "Show who you are and what you may do" {
            permission: None,
            text: "Needs no permission.",
            responses: [200: IdentityResponse = "The sender of the request."],
        }
    }
}

response_type! {
    /// The sender of a request.
    struct IdentityResponse as "Identity" {
        /// The operator's name; absent for the shared token, and without authentication.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        credential: &'static str = schema::one_of(&CREDENTIALS),
        #[serde(skip_serializing_if = "Option::is_none")]
        token_id: Option<String>,
        roles: Vec<String>,
        permissions: Vec<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        expiration_date: Option<Timestamp>,
    }
}

/// `GET /identity`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    let caller = request.caller;
    let [none, shared, break_glass, own, session, provider] = CREDENTIALS;
    let (credential, token_id) = match &caller.credential {
        Credential::None => (none, None),
        Credential::Shared(_) => (shared, None),
        Credential::BreakGlass(_) => (break_glass, None),
        Credential::Token(id) => (own, Some(id_text(*id))),
        Credential::Session => (session, None),
        Credential::Provider(_) => (provider, None),
    };
    Ok(AdminResponse::ok(&IdentityResponse {
        name: caller.name.clone(),
        credential,
        token_id,
        roles: caller.roles.clone(),
        permissions: caller.permissions.names(),
        expiration_date: caller.expires.map(Timestamp),
    }))
}
