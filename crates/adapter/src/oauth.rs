//! Access tokens for the hub: OAuth2 client credentials (RFC 6749, 4.4).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;

use crate::http_client::{HttpClient, Target};

/// Tokens from one endpoint, kept until they expire.
pub(crate) struct TokenSource {
    http: Arc<HttpClient>,
    target: Target,
    credentials: HeaderValue,
    form: String,
    refresh: Duration,
    kept: Mutex<Option<(HeaderValue, Instant)>>,
    /// One request at a time.
    asking: tokio::sync::Mutex<()>,
}

impl TokenSource {
    /// Tokens for a client.
    ///
    /// # Errors
    /// A URL or a client id that cannot be used.
    pub(crate) fn new(
        http: Arc<HttpClient>,
        url: &str,
        (id, secret): (&str, &str),
        scope: Option<&str>,
        refresh: Duration,
    ) -> Result<Self, String> {
        let basic = STANDARD.encode(format!(
            "{}:{}",
            fspiop::percent_encode(id),
            fspiop::percent_encode(secret)
        ));
        let credentials = HeaderValue::try_from(format!("Basic {basic}"))
            .map_err(|_| "hub.oauth2: the client id cannot be sent".to_owned())?;
        let mut form = "grant_type=client_credentials".to_owned();
        if let Some(scope) = scope {
            form.push_str("&scope=");
            form.push_str(&fspiop::percent_encode(scope));
        }
        Ok(Self {
            http,
            target: Target::parse(url)?,
            credentials,
            form,
            refresh,
            kept: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        })
    }

    /// The value of `Authorization`.
    pub(crate) async fn token(&self) -> Result<HeaderValue, String> {
        if let Some(token) = self.current() {
            return Ok(token);
        }
        let _asking = self.asking.lock().await;
        if let Some(token) = self.current() {
            return Ok(token);
        }
        let (token, time) = self.request().await?;
        *self.kept() = Some((token.clone(), Instant::now() + time));
        Ok(token)
    }

    /// Forgets a token that the hub refused.
    pub(crate) fn discard(&self) {
        *self.kept() = None;
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Option<(HeaderValue, Instant)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> Option<HeaderValue> {
        let kept = self.kept();
        let (token, until) = kept.as_ref()?;
        (Instant::now() < *until).then(|| token.clone())
    }

    async fn request(&self) -> Result<(HeaderValue, Duration), String> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, self.credentials.clone());
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, form);
        let body = Bytes::from(self.form.clone());
        let reply = self.http.call(&self.target, (Method::POST, ""), headers, body).await;
        let reply = reply.map_err(|error| format!("access token: {error}"))?;
        if !reply.status.is_success() {
            return Err(format!("access token: the endpoint answered {}", reply.status));
        }
        let answer: Value = serde_json::from_slice(&reply.body)
            .map_err(|_| "access token: the answer is not JSON".to_owned())?;
        let token = answer["access_token"].as_str().unwrap_or_default();
        let value = HeaderValue::try_from(format!("Bearer {token}"));
        match value {
            Ok(mut value) if !token.is_empty() => {
                value.set_sensitive(true);
                let life = answer["expires_in"].as_u64().map_or(self.refresh, |seconds| {
                    // Renewed early, so that no request carries one that has just expired.
                    Duration::from_secs(seconds * 9 / 10)
                });
                Ok((value, life.min(self.refresh)))
            }
            _ => Err("access token: the answer has no usable access_token".to_owned()),
        }
    }
}
