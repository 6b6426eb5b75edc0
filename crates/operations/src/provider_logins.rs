//! `/login/provider`: the login of a browser at the OpenID provider of operators, with an
//! authorization code and PKCE.
//!
//! Phases: the console reads where to log in, makes a state, a nonce and a secret, and sends the
//! browser there with state, nonce and the digest of the secret. The provider sends the browser
//! back with a code and the state, which the console compares. The console sends code, secret and
//! nonce, and the switch exchanges them for an access token, which is a token like those of
//! `upesi login`. The switch stores nothing of it. The browser calls no other address than this
//! one.
//!
//! Checks: the redirect address is that of this console; the provider compares it, the secret's
//! digest and the client with those of the code, and takes a code once; the ID token is signed by
//! the provider for this client and has the nonce of this login.
//!
//! Bounds: those of all logins ([`crate::logins`]), and the time of a request to the provider.

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use identity::{AuthorizationCode, ProviderClient, ProviderError, TokenRequest, TokenRules};

use crate::auth::{is_console, now, unauthorized};
use crate::body::{Text, body};
use crate::provider_tokens::ProviderOperators;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;
use crate::schema::response_type;

/// Longest code, in characters.
const CODE_MAX: usize = 4_096;
/// Longest secret of PKCE (RFC 7636) and longest nonce, in characters.
const VERIFIER_MAX: usize = 128;
/// Longest address of the console, in characters.
const ADDRESS_MAX: usize = 2_048;

/// The client of the console at the provider.
#[derive(Clone)]
pub struct BrowserLogin {
    /// Requests to the provider.
    pub client: ProviderClient,
    /// Issuer, client, scopes and audience; without a secret.
    pub request: TokenRequest,
}

impl std::fmt::Debug for BrowserLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrowserLogin").finish_non_exhaustive()
    }
}

routes! {
    "/login/provider" {
        anonymous GET showProvider = show, "Show where a browser logs in" {
            text: "\
                The address of the OpenID provider and the client of the console there. Gets 3100 \
                if `admin.oidc_client_id` is not set.",
            responses: [200: ProviderResponse = "The provider."],
            refusals: [400 VALIDATION, 503 SERVICE_UNAVAILABLE],
        }
        anonymous POST logInAtProvider = log_in(ProviderLogin), "Log in with a code of a provider" {
            text: "\
                Exchanges an authorization code (OpenID Connect, PKCE with S256) for an access \
                token of the provider, which is the bearer token of further requests. The redirect \
                address must be that of this console. A code that the provider refuses, and an ID \
                token without the nonce, get 401.",
            example: {
                "code": "SplxlOBeZQQYbYS6WxSbIA",
                "codeVerifier": "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
                "nonce": "n-0S6_WzA2MjGpXRkLv8eYbQ",
                "redirectUri": "http://127.0.0.1:3001/console/"
            },
            responses: [201: ProviderTokenResponse = "The token."],
            refusals: [400 VALIDATION, 503 SERVICE_UNAVAILABLE],
        }
    }
}

body! {
    Closed ProviderLogin {
        code: String = Text(CODE_MAX),
        code_verifier: String = Text(VERIFIER_MAX),
        nonce: String = Text(VERIFIER_MAX),
        redirect_uri: String = Text(ADDRESS_MAX),
    }
}

response_type! {
    /// The provider of operators, for a browser.
    struct ProviderResponse as "LoginProvider" {
        /// Its name.
        host: String,
        authorization_url: String,
        client_id: String,
        scope: String,
        audience: String,
    }
}

response_type! {
    struct ProviderTokenResponse as "ProviderToken" {
        /// The bearer token.
        token: String,
    }
}

/// `GET /login/provider`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    let (provider, login) = provider(request)?;
    let _waiting = request.logins.wait(request.peer)?;
    let url = login.client.authorization_url(&login.request.issuer).await;
    let authorization_url = url.map_err(|error| {
        tracing::warn!(%error, "the OpenID provider of operators gave no usable answer");
        Refusal::new(ErrorCode::SERVICE_UNAVAILABLE, "the OpenID provider does not answer")
    })?;
    let TokenRequest { client_id, scope, audience, .. } = login.request.clone();
    Ok(AdminResponse::ok(&ProviderResponse {
        host: provider.host.to_string(),
        authorization_url,
        client_id,
        scope: scope.unwrap_or_default(),
        audience: audience.unwrap_or_default(),
    }))
}

/// `POST /login/provider`.
async fn log_in(request: &AdminRequest<'_>, body: ProviderLogin) -> HandlerResult {
    let (provider, login) = provider(request)?;
    let ProviderLogin { code, code_verifier: verifier, nonce, redirect_uri } = body;
    if !is_console(request.options, request.headers, &redirect_uri) {
        let detail = "redirectUri is not the address of this console";
        return Err(Refusal::new(ErrorCode::VALIDATION, detail));
    }
    let _waiting = request.logins.wait(request.peer)?;
    let code = AuthorizationCode { code, verifier, redirect_uri };
    let tokens = login.client.code_tokens(&login.request, &code).await;
    let tokens = tokens.map_err(|error: ProviderError| {
        unauthorized(&format!("the OpenID provider refused the code: {error}"))
    })?;
    check_id_token((provider, login), tokens.id.as_deref(), &nonce).await?;
    let response = ProviderTokenResponse { token: tokens.access };
    Ok(AdminResponse::json(StatusCode::CREATED, &response))
}

/// Refuses an ID token that the provider did not make for this client and this login.
async fn check_id_token(
    (provider, login): (&ProviderOperators, &BrowserLogin),
    token: Option<&str>,
    nonce: &str,
) -> Result<(), Refusal> {
    let token = token.ok_or_else(|| unauthorized("the OpenID provider gave no ID token"))?;
    let TokenRequest { issuer, client_id, .. } = login.request.clone();
    let rules = TokenRules { issuer, audience: client_id };
    let claims = provider.claims(&rules, token.as_bytes(), now()).await?;
    match claims.text("nonce") == Some(nonce) {
        true => Ok(()),
        false => Err(unauthorized("the ID token is of another login: its nonce differs")),
    }
}

/// The provider, and the console's client there.
fn provider<'a>(
    request: &'a AdminRequest<'_>,
) -> Result<(&'a ProviderOperators, &'a BrowserLogin), Refusal> {
    let provider = request.options.provider.as_ref();
    let login = provider.and_then(|it| Some((it, it.browser.as_ref()?)));
    let detail = "the console has no login at a provider; see admin.oidc_client_id";
    login.ok_or_else(|| Refusal::new(ErrorCode::VALIDATION, detail))
}
