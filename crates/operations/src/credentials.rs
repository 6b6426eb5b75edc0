//! `/operators/{name}/password` and `/operators/{name}/secondFactor`: how an operator logs in.
//!
//! The log has a hash of the password, and the second factor encrypted. A changed credential ends
//! the sessions of the operator.

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use identity::{PASSWORD_CHARACTERS, TotpSecret};
use ledger::{SetPassword, SetSecondFactor};

use crate::body::{Custom, body};
use crate::operators::{self, NAME};
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;
use crate::schema::{self, response_type};

routes! {
    "/operators/{name}/password" [NAME] {
        change PUT setPassword = set_password(NewPassword), "Set the password of an operator" {
            permission: Security,
            records: SetPassword,
            text: "\
                12 to 128 characters. Ends the sessions of the operator. The log has an Argon2id \
                hash of the password.",
            example: {"password": "correct horse battery staple"},
            responses: [204: () = "Set."],
            refusals: [400 VALIDATION],
        }
        change DELETE removePassword = remove_password, "Remove the password of an operator" {
            permission: Security,
            records: SetPassword,
            text: "The operator can no longer log in, and its sessions end. Its tokens stay valid.",
            responses: [204: () = "Removed."],
            refusals: [400 VALIDATION],
        }
    }
    "/operators/{name}/secondFactor" [NAME] {
        change POST createSecondFactor = create_factor, "Create the second factor of an operator" {
            permission: Security,
            records: SetSecondFactor,
            text: "\
                The response contains the secret for an authenticator application (RFC 6238), \
                which cannot be shown again. Replaces an earlier one, and ends the sessions of the \
                operator. The log has the secret encrypted with the secrets key of the node. Only \
                where operators have roles; otherwise 3100. Needs no body.",
            responses: [201: SecondFactorResponse = "The secret."],
            refusals: [400 VALIDATION],
        }
        change DELETE removeSecondFactor = remove_factor, "Remove the second factor" {
            permission: Security,
            records: SetSecondFactor,
            text: "The operator logs in with its password only, and its sessions end.",
            responses: [204: () = "Removed."],
            refusals: [400 VALIDATION],
        }
    }
}

body! {
    Closed NewPassword {
        password: String = Custom {
            take: |reader, name| reader.text(name, PASSWORD_CHARACTERS),
            schema: || schema::text(*PASSWORD_CHARACTERS.start(), *PASSWORD_CHARACTERS.end()),
        },
    }
}

response_type! {
    /// The secret of a second factor.
    struct SecondFactorResponse as "SecondFactor" {
        /// In base32, to be typed into an application.
        secret: String,
        /// The same as the address of a QR code.
        uri: String,
    }
}

/// `PUT /operators/{name}/password`.
async fn set_password(request: &AdminRequest<'_>, body: NewPassword) -> HandlerResult {
    let operator = request.path(&NAME)?;
    // An unknown operator is refused before the password is computed.
    request.backend.operators().operator(&operator).ok_or_else(operators::not_found)?;
    let hash = request.logins.hash(request.peer, body.password).await?;
    request.change(SetPassword { operator, hash }).await?;
    Ok(AdminResponse::empty(StatusCode::NO_CONTENT))
}

/// `DELETE /operators/{name}/password`.
async fn remove_password(request: &AdminRequest<'_>) -> HandlerResult {
    let operator = request.path(&NAME)?;
    request.change(SetPassword { operator, hash: String::new() }).await?;
    Ok(AdminResponse::empty(StatusCode::NO_CONTENT))
}

/// `POST /operators/{name}/secondFactor`.
async fn create_factor(request: &AdminRequest<'_>) -> HandlerResult {
    let operator = request.path(&NAME)?;
    let failed = |error: identity::NoRandomBytes| {
        Refusal::new(ErrorCode::INTERNAL_SERVER, &error.to_string())
    };
    let created = TotpSecret::new().map_err(failed)?;
    let secret = request.secrets()?.seal(&operator, &created.0).map_err(failed)?;
    let response =
        SecondFactorResponse { secret: created.to_base32(), uri: created.to_uri(&operator) };
    request.change_with_secret(SetSecondFactor { operator, secret }, response.uri.clone()).await?;
    Ok(AdminResponse::json(StatusCode::CREATED, &response))
}

/// `DELETE /operators/{name}/secondFactor`.
async fn remove_factor(request: &AdminRequest<'_>) -> HandlerResult {
    let operator = request.path(&NAME)?;
    request.change(SetSecondFactor { operator, secret: Vec::new() }).await?;
    Ok(AdminResponse::empty(StatusCode::NO_CONTENT))
}
