//! Requests to an OpenID provider.
//!
//! `https` only, or `http` to a loopback address: an attacker who changes the answer chooses the
//! keys.
//! Redirects are not followed. Bounds: [`TIME_MAX`] for a request, [`ANSWER_BYTES_MAX`] for its
//! answer.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::uri::Scheme;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tls::{ClientFiles, ClientTls, MinimumVersion};
use tokio::net::TcpStream;

use crate::key_set::KEY_SET_BYTES_MAX;

/// Maximum time of a request.
pub const TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum length of an answer, in bytes.
pub const ANSWER_BYTES_MAX: usize = KEY_SET_BYTES_MAX;

/// Why a provider gave no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProviderError(String);

impl ProviderError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// A client of OpenID providers.
#[derive(Clone, Debug)]
pub struct ProviderClient {
    tls: Option<Arc<ClientTls>>,
}

/// A form, and the header `Authorization` with it.
pub(crate) type Form = (String, Option<String>);

/// The address of a provider.
struct Address {
    uri: Uri,
    host: String,
    port: u16,
    is_tls: bool,
}

impl ProviderClient {
    /// A client that trusts the authorities in a PEM file, or those of the system.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn new(section: &'static str, ca: Option<PathBuf>) -> Result<Self, ProviderError> {
        if !tls::IS_AVAILABLE && ca.is_none() {
            return Ok(Self { tls: None });
        }
        let minimum = MinimumVersion::Tls12;
        let (certificate, ca_directory, crl) = (None, None, None);
        let protocols = &[];
        let files = ClientFiles { section, certificate, ca, ca_directory, crl, minimum, protocols };
        let tls = ClientTls::open(files).map_err(|error| ProviderError::new(error.to_string()))?;
        Ok(Self { tls: Some(Arc::new(tls)) })
    }

    /// The JSON document at a URL.
    ///
    /// # Errors
    /// In words, without the URL.
    pub async fn get(&self, url: &str) -> Result<Bytes, ProviderError> {
        let (status, body) = self.request(url, None).await?;
        match status {
            StatusCode::OK => Ok(body),
            status => Err(ProviderError::new(format!("answered {status}"))),
        }
    }

    /// The metadata of an issuer (OpenID Connect Discovery), whose `issuer` must be the same.
    ///
    /// # Errors
    /// In words.
    pub async fn discover(&self, issuer: &str) -> Result<Value, ProviderError> {
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let found = self.get(&url).await?;
        let found: Value = serde_json::from_slice(&found)
            .map_err(|_| ProviderError::new("the metadata of the issuer are not JSON"))?;
        match found.get("issuer").and_then(Value::as_str) == Some(issuer) {
            true => Ok(found),
            false => Err(ProviderError::new("the metadata are of another issuer")),
        }
    }

    /// Sends a form, or gets a document. Returns status and body.
    ///
    /// # Errors
    /// In words. An answer with an error status is not an error.
    pub(crate) async fn request(
        &self,
        url: &str,
        form: Option<Form>,
    ) -> Result<(StatusCode, Bytes), ProviderError> {
        let address = Address::parse(url)?;
        let answered = tokio::time::timeout(TIME_MAX, self.exchange(&address, form)).await;
        let late = || ProviderError::new(format!("no answer within {} s", TIME_MAX.as_secs()));
        answered.unwrap_or_else(|_| Err(late()))
    }

    async fn exchange(
        &self,
        address: &Address,
        form: Option<Form>,
    ) -> Result<(StatusCode, Bytes), ProviderError> {
        let stream = TcpStream::connect((&*address.host, address.port)).await;
        let stream = stream.map_err(|error| ProviderError::new(format!("no connection: {error}")));
        let (stream, request) = (stream?, address.request(form));
        if !address.is_tls {
            return exchange(TokioIo::new(stream), request).await;
        }
        let Some(tls) = &self.tls else {
            return Err(ProviderError::new("this build has no TLS; build it with the feature tls"));
        };
        let stream = tls.connect(("", &address.host), stream).await;
        let stream = stream.map_err(|fault| ProviderError::new(fault.text()))?;
        exchange(TokioIo::new(stream), request).await
    }
}

impl Address {
    fn parse(url: &str) -> Result<Self, ProviderError> {
        let invalid = |why: &str| ProviderError::new(format!("{url:?}: {why}"));
        let uri: Uri = url.parse().map_err(|_| invalid("not a URL"))?;
        let authority = uri.authority().ok_or_else(|| invalid("expected https://"))?;
        if authority.as_str().contains('@') {
            return Err(invalid("user names and passwords are not supported"));
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let is_loopback = host == "localhost"
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        let is_tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP && is_loopback => false,
            _ => return Err(invalid("expected https://, or http:// to a loopback address")),
        };
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Ok(Self { host, port, is_tls, uri })
    }

    fn request(&self, form: Option<Form>) -> Request<Full<Bytes>> {
        let target = self.uri.path_and_query().map_or("/", |target| target.as_str());
        let host = self.uri.authority().map_or("", |authority| authority.as_str());
        let (request, body) = match form {
            None => (Request::get(target), String::new()),
            Some((form, authorization)) => {
                let media = "application/x-www-form-urlencoded";
                let request = Request::post(target).header(CONTENT_TYPE, media);
                let request = match authorization {
                    Some(credentials) => request.header(AUTHORIZATION, credentials),
                    None => request,
                };
                (request, form)
            }
        };
        request
            .header(HOST, host)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("upesi/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(Bytes::from(body)))
            .expect("all parts were checked")
    }
}

/// Checks the form of a URL that this client can call.
///
/// # Errors
/// Why it cannot.
pub fn check_url(url: &str) -> Result<(), ProviderError> {
    Address::parse(url).map(drop)
}

async fn exchange(
    stream: impl Read + Write + Unpin,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), ProviderError> {
    let failed = |error: hyper::Error| ProviderError::new(format!("no answer: {error}"));
    let (mut sender, connection) = http1::handshake(stream).await.map_err(failed)?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(failed)?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| ProviderError::new(format!("no answer: {error}")))?;
        Ok((head.status, body.to_bytes()))
    };
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        ended = connection => match ended {
            Err(error) => Err(failed(error)),
            Ok(()) => answer.await,
        },
    }
}
