//! `/tokens`: tokens of operators. An addition to the reference's API.
//!
//! The secret of a token is in one response and nowhere else: the log has its hash.

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{AdminOutcome, CreateToken, OperatorToken, OperatorTokenId, RevokeToken, Stamp};
use serde_json::json;

use crate::auth;
use crate::body::{Custom, Optional, body, single_line};
use crate::operator_token::{OperatorTokenText, id_text, parse_id};
use crate::operators::{self, ROLE_NAMES, name_schema, valid_name};
use crate::outcome_errors;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::Timestamp;
use crate::route::{Parameter, routes};
use crate::schema::{self, response_type};

/// Longest lifetime of a token, in seconds: 366 days.
const LIFETIME_SECONDS_MAX: u32 = 366 * 24 * 3_600;
/// Lifetime of a token unless stated: 90 days.
const LIFETIME_SECONDS: u32 = 90 * 24 * 3_600;
/// Longest description of a token, in characters.
const DESCRIPTION_CHARACTERS_MAX: usize = 60;

/// The token in a path. A text that cannot be an id names no token.
const ID: Parameter<Option<OperatorTokenId>> =
    Parameter::new("id", "The token's id, as the list shows it.", schema::some_text, |text| {
        Ok(parse_id(text))
    })
    .example("\"0123456789abcdef\"");

const OPERATOR: Parameter<String> =
    Parameter::new("operator", "Only tokens of this operator.", name_schema, |text| {
        valid_name("operator", text)
    });

routes! {
    "/tokens" {
        guarded GET listTokens = list, "List tokens of operators" {
            text: "Expired tokens are listed until they are revoked or their place is needed.",
            query: [OPERATOR],
            responses: [200: Vec<TokenResponse> = "Tokens, oldest first, without their secrets."],
            refusals: [400 VALIDATION],
        }
        change POST createToken = create(NewToken), "Create a token of an operator" {
            permission: Security,
            records: CreateToken,
            text: "\
                The response contains the secret, which cannot be shown again. An operator may \
                have several valid tokens: to rotate one, create the next, use it, then revoke the \
                old one. `roles` restricts the token to permissions of these roles that the \
                operator also has. It expires after `lifetimeSeconds`: 90 days unless stated, at \
                most 366. At most 1000 tokens; expired ones do not count.",
            example: {
                "operator": "anna",
                "roles": ["viewer"],
                "lifetimeSeconds": 2_592_000,
                "description": "nightly report"
            },
            responses: [201: NewTokenResponse = "The token with its secret."],
            refusals: [400 VALIDATION, 400 ID_NOT_FOUND],
        }
    }
    "/tokens/{id}" [ID] {
        change DELETE revokeToken = revoke, "Revoke a token" {
            permission: Security,
            records: RevokeToken,
            text: "The token is refused from the next request on, on every node.",
            responses: [204: () = "Revoked."],
        }
    }
}

body! {
    Closed NewToken {
        operator: String = Custom {
            take: |reader, name| match reader.text(name, 1..=64)? {
                Some(text) => valid_name(name, &text).map(Some),
                None => Ok(None),
            },
            schema: name_schema,
        },
        roles: Option<Vec<String>> = Optional(ROLE_NAMES),
        lifetime_seconds: Option<u32> = Optional(LIFETIME),
        description: Option<String> = Optional(single_line(DESCRIPTION_CHARACTERS_MAX)),
    }
}

const LIFETIME: Custom<u32> = Custom {
    take: |reader, name| {
        let Some(text) = reader.raw(name) else { return Ok(None) };
        match text.parse::<u32>() {
            Ok(seconds) if (1..=LIFETIME_SECONDS_MAX).contains(&seconds) => Ok(Some(seconds)),
            _ => Err(reader.malformed(name, "must be a whole number from 1 to 31622400")),
        }
    },
    schema: || json!({"type": "integer", "minimum": 1, "maximum": LIFETIME_SECONDS_MAX}),
};

response_type! {
    /// A token in a list.
    struct TokenResponse as "Token" {
        id: String,
        operator: String,
        /// Roles to which it is restricted; empty for all roles of the operator.
        roles: Vec<String>,
        description: String,
        created_date: Timestamp,
        expiration_date: Timestamp,
        is_expired: bool,
    }
}

response_type! {
    /// A new token.
    struct NewTokenResponse as "CreatedToken" {
        /// The secret: the bearer token.
        token: String,
        id: String,
        operator: String,
        roles: Vec<String>,
        description: String,
        expiration_date: Timestamp,
    }
}

impl TokenResponse {
    fn of(token: &OperatorToken, now: Stamp) -> Self {
        Self {
            id: id_text(token.id),
            operator: token.operator.clone(),
            roles: token.roles.clone(),
            description: token.description.clone(),
            created_date: Timestamp(token.created),
            expiration_date: Timestamp(token.expires),
            is_expired: token.expires <= now,
        }
    }
}

/// `GET /tokens`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let operator = request.query(&OPERATOR)?;
    let found = request.query_state(move |state| {
        let is_wanted =
            |token: &&OperatorToken| operator.as_ref().is_none_or(|name| *name == token.operator);
        state.operators().tokens().filter(is_wanted).cloned().collect::<Vec<_>>()
    });
    let mut tokens = found.await?;
    tokens.sort_by_key(|token| (token.created, token.id));
    let now = auth::now();
    let all: Vec<_> = tokens.iter().map(|token| TokenResponse::of(token, now)).collect();
    Ok(AdminResponse::ok(&all))
}

/// `POST /tokens`.
async fn create(request: &AdminRequest<'_>, body: NewToken) -> HandlerResult {
    let roles = body.roles.unwrap_or_default();
    operators::must_exist(request, &roles).await?;
    let secret = OperatorTokenText::new().map_err(|_| {
        Refusal::new(ErrorCode::INTERNAL_SERVER, "the operating system gives no random bytes")
    })?;
    let lifetime = body.lifetime_seconds.unwrap_or(LIFETIME_SECONDS);
    let expires = Stamp(auth::now().0 + u64::from(lifetime) * 1_000_000);
    let (operator, description) = (body.operator, body.description.unwrap_or_default());
    let change = CreateToken {
        id: secret.id,
        operator: operator.clone(),
        roles: roles.clone(),
        hash: secret.hash(),
        description: description.clone(),
        expires,
    };
    request.change_with_secret(change, secret.to_string()).await?;
    let created = NewTokenResponse {
        token: secret.to_string(),
        id: id_text(secret.id),
        operator,
        roles,
        description,
        expiration_date: Timestamp(expires),
    };
    Ok(AdminResponse::json(StatusCode::CREATED, &created))
}

/// `DELETE /tokens/{id}`.
async fn revoke(request: &AdminRequest<'_>) -> HandlerResult {
    let unknown = || outcome_errors::of_result(AdminOutcome::TokenNotFound);
    let id = request.path(&ID)?.ok_or_else(unknown)?;
    request.change(RevokeToken { id }).await?;
    Ok(AdminResponse::empty(StatusCode::NO_CONTENT))
}
