//! Requests for access tokens: client credentials (RFC 6749) for machines, device codes (RFC 8628)
//! for people at a command line, authorization codes with PKCE (RFC 7636) for people at a browser.
//!
//! A client with a secret authenticates with HTTP Basic. Secrets are in no error text.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde_json::{Map, Value};

use crate::provider::{ProviderClient, ProviderError, check_url};

/// Longest time that a person has to enter a device code.
pub const DEVICE_TIME_MAX: Duration = Duration::from_secs(1_800);
/// Interval of asking for the token, unless the provider names another one.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Shortest and longest interval that is accepted from a provider.
const POLL_INTERVALS: std::ops::RangeInclusive<u64> = 1..=60;
const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Longest part of a provider's error in a text, in characters.
const SHOWN_MAX: usize = 200;

/// A client of a provider.
#[derive(Clone)]
pub struct TokenRequest {
    /// The provider's issuer.
    pub issuer: String,
    /// Name of the client.
    pub client_id: String,
    /// Its secret; a public client has none.
    pub client_secret: Option<String>,
    /// Requested scopes, with spaces between them.
    pub scope: Option<String>,
    /// Requested audience. A URI is sent as `resource` (RFC 8707), too.
    pub audience: Option<String>,
}

/// The tokens of a client or a person.
#[derive(Clone)]
pub struct ProviderTokens {
    /// The access token.
    pub access: String,
    /// The ID token of a person (OpenID Connect), which is not verified here.
    pub id: Option<String>,
    /// The token that renews it, if the provider gave one.
    pub refresh: Option<String>,
    /// How long the access token is valid; 0 if the provider names no time.
    pub lifetime: Duration,
}

/// Why an access token was not renewed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenewalError {
    /// The provider refused the refresh token: it has expired, or was revoked or used.
    #[error("{0}")]
    Ended(ProviderError),
    /// The provider cannot be reached, or gave no usable answer.
    #[error("{0}")]
    Failed(ProviderError),
}

/// The code that a person enters at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCode {
    /// Address of the page.
    pub verification_uri: String,
    /// The code to enter there.
    pub user_code: String,
}

/// The code that a browser brought back from the provider.
#[derive(Clone)]
pub struct AuthorizationCode {
    /// The code.
    pub code: String,
    /// The secret of which the browser sent the digest.
    pub verifier: String,
    /// The address to which the provider sent the browser.
    pub redirect_uri: String,
}

/// The addresses of a provider.
struct Endpoints {
    token: String,
    device: Option<String>,
}

impl ProviderClient {
    /// The access token of a client itself.
    ///
    /// # Errors
    /// In words.
    pub async fn client_token(
        &self,
        request: &TokenRequest,
    ) -> Result<ProviderTokens, ProviderError> {
        let endpoints = self.endpoints(request).await?;
        let mut form = request.form();
        form.push(("grant_type", "client_credentials".into()));
        let (status, answer) = self.send(&endpoints.token, request, form).await?;
        tokens_of(status, &answer)
    }

    /// New tokens for a refresh token, which the provider may replace.
    ///
    /// # Errors
    /// The provider refuses it, or gave no usable answer.
    pub async fn renewed_token(
        &self,
        request: &TokenRequest,
        refresh_token: &str,
    ) -> Result<ProviderTokens, RenewalError> {
        let endpoints = self.endpoints(request).await.map_err(RenewalError::Failed)?;
        let mut form = request.form();
        form.push(("grant_type", "refresh_token".into()));
        form.push(("refresh_token", refresh_token.to_owned()));
        let sent = self.send(&endpoints.token, request, form).await;
        let (status, answer) = sent.map_err(RenewalError::Failed)?;
        let tokens = tokens_of(status, &answer);
        tokens.map_err(|error| match status.is_client_error() {
            true => RenewalError::Ended(error),
            false => RenewalError::Failed(error),
        })
    }

    /// The access token of a person, who enters the code that `show` gets.
    ///
    /// # Errors
    /// In words: refused, expired, or the provider has no device codes.
    pub async fn device_token(
        &self,
        request: &TokenRequest,
        show: impl FnOnce(&DeviceCode),
    ) -> Result<ProviderTokens, ProviderError> {
        let endpoints = self.endpoints(request).await?;
        let missing = || ProviderError::new("the provider has no device codes");
        let device = endpoints.device.ok_or_else(missing)?;
        let (status, answer) = self.send(&device, request, request.form()).await?;
        if status != StatusCode::OK {
            return Err(failure(status, &answer));
        }
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        let code = text("device_code").ok_or_else(|| unreadable("device_code"))?.to_owned();
        let uri = text("verification_uri_complete").or_else(|| text("verification_uri"));
        show(&DeviceCode {
            verification_uri: uri.ok_or_else(|| unreadable("verification_uri"))?.to_owned(),
            user_code: text("user_code").ok_or_else(|| unreadable("user_code"))?.to_owned(),
        });
        let seconds = |name: &str| answer.get(name).and_then(Value::as_u64);
        let interval = seconds("interval").map_or(POLL_INTERVAL, |given| {
            Duration::from_secs(given.clamp(*POLL_INTERVALS.start(), *POLL_INTERVALS.end()))
        });
        let time = Duration::from_secs(seconds("expires_in").unwrap_or(u64::MAX));
        let polling = self.poll((&endpoints.token, request), &code, interval);
        let expired = || ProviderError::new("the code was not entered in time");
        tokio::time::timeout(time.min(DEVICE_TIME_MAX), polling).await.map_err(|_| expired())?
    }

    /// The address to which a browser goes to log in.
    ///
    /// # Errors
    /// In words.
    pub async fn authorization_url(&self, issuer: &str) -> Result<String, ProviderError> {
        let found = self.discover(issuer).await?;
        let url = found.get("authorization_endpoint").and_then(Value::as_str);
        let url = url.ok_or_else(|| ProviderError::new("the provider has no login of browsers"))?;
        check_url(url)?;
        Ok(url.to_owned())
    }

    /// The tokens of a person who logged in with a browser.
    ///
    /// # Errors
    /// In words.
    pub async fn code_tokens(
        &self,
        request: &TokenRequest,
        code: &AuthorizationCode,
    ) -> Result<ProviderTokens, ProviderError> {
        let endpoints = self.endpoints(request).await?;
        let mut form = request.form();
        form.extend([
            ("grant_type", "authorization_code".into()),
            ("code", code.code.clone()),
            ("code_verifier", code.verifier.clone()),
            ("redirect_uri", code.redirect_uri.clone()),
        ]);
        let (status, answer) = self.send(&endpoints.token, request, form).await?;
        tokens_of(status, &answer)
    }

    async fn poll(
        &self,
        (url, request): (&str, &TokenRequest),
        code: &str,
        mut interval: Duration,
    ) -> Result<ProviderTokens, ProviderError> {
        loop {
            tokio::time::sleep(interval).await;
            let form = vec![
                ("client_id", request.client_id.clone()),
                ("grant_type", DEVICE_GRANT.into()),
                ("device_code", code.to_owned()),
            ];
            let (status, answer) = self.send(url, request, form).await?;
            match answer.get("error").and_then(Value::as_str) {
                Some("authorization_pending") => {}
                Some("slow_down") => interval += POLL_INTERVAL,
                _ => return tokens_of(status, &answer),
            }
        }
    }

    async fn endpoints(&self, request: &TokenRequest) -> Result<Endpoints, ProviderError> {
        let found = self.discover(&request.issuer).await?;
        let text = |name: &str| found.get(name).and_then(Value::as_str).map(str::to_owned);
        let missing = || ProviderError::new("the metadata of the issuer have no token_endpoint");
        let token = text("token_endpoint").ok_or_else(missing)?;
        Ok(Endpoints { token, device: text("device_authorization_endpoint") })
    }

    async fn send(
        &self,
        url: &str,
        request: &TokenRequest,
        form: Vec<(&'static str, String)>,
    ) -> Result<(StatusCode, Map<String, Value>), ProviderError> {
        let form: Vec<_> =
            form.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        let (status, body) =
            self.request(url, Some((form.join("&"), request.authorization()))).await?;
        let body = serde_json::from_slice(&body).map_err(|_| {
            ProviderError::new(format!("answered {status} with a body that is not a JSON object"))
        })?;
        Ok((status, body))
    }
}

impl TokenRequest {
    fn form(&self) -> Vec<(&'static str, String)> {
        let mut form = vec![("client_id", self.client_id.clone())];
        form.extend(self.scope.clone().map(|scope| ("scope", scope)));
        if let Some(audience) = &self.audience {
            form.push(("audience", audience.clone()));
            if audience.contains(':') {
                form.push(("resource", audience.clone()));
            }
        }
        form
    }

    fn authorization(&self) -> Option<String> {
        let secret = self.client_secret.as_ref()?;
        let pair = format!("{}:{}", encode(&self.client_id), encode(secret));
        Some(format!("Basic {}", STANDARD.encode(pair)))
    }
}

/// A value of a form.
fn encode(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn tokens_of(
    status: StatusCode,
    answer: &Map<String, Value>,
) -> Result<ProviderTokens, ProviderError> {
    let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
    let seconds = answer.get("expires_in").and_then(Value::as_u64);
    match text("access_token") {
        Some(access) if status == StatusCode::OK => Ok(ProviderTokens {
            access,
            id: text("id_token"),
            refresh: text("refresh_token"),
            lifetime: Duration::from_secs(seconds.unwrap_or_default()),
        }),
        _ => Err(failure(status, answer)),
    }
}

fn failure(status: StatusCode, answer: &Map<String, Value>) -> ProviderError {
    let text = |name: &str| answer.get(name).and_then(Value::as_str);
    let described = [text("error"), text("error_description")].into_iter().flatten();
    let described = described.collect::<Vec<_>>().join(": ");
    let shown: String = described.chars().filter(|it| !it.is_control()).take(SHOWN_MAX).collect();
    ProviderError::new(format!("answered {status}: {shown}"))
}

fn unreadable(name: &str) -> ProviderError {
    ProviderError::new(format!("the answer of the provider has no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_forms_and_credentials_are_encoded() {
        let request = TokenRequest {
            issuer: String::new(),
            client_id: "a b".into(),
            client_secret: Some("p:%é".into()),
            scope: None,
            audience: Some("https://hub".into()),
        };
        // base64 of `a%20b:p%3A%25%C3%A9`.
        let expected = "Basic YSUyMGI6cCUzQSUyNSVDMyVBOQ==";
        assert_eq!(request.authorization().as_deref(), Some(expected));
        let names: Vec<_> = request.form().iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["client_id", "audience", "resource"]);
    }
}
