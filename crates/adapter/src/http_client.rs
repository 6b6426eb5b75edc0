//! HTTP/1.1 calls over kept connections, with or without TLS.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tls::ClientTls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest body of an answer in bytes.
const BODY_BYTES_MAX: usize = 5 * 1024 * 1024;
/// Idle connections kept per authority.
const IDLE_MAX: usize = 64;

/// A base URL: scheme, authority and a path prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    is_tls: bool,
    host: String,
    port: u16,
    authority: String,
    /// Without a trailing slash.
    prefix: String,
}

impl Target {
    /// Parses `http://host[:port][/prefix]` or `https://...`.
    ///
    /// # Errors
    /// Why it is not one.
    pub fn parse(url: &str) -> Result<Self, String> {
        let invalid = |why: &str| format!("invalid URL {url:?}: {why}");
        let uri: http::Uri = url.parse().map_err(|_| invalid("not a URL"))?;
        let authority = uri.authority().ok_or_else(|| invalid("no host"))?;
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err(invalid("user names and queries are not supported"));
        }
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(invalid("expected http:// or https://")),
        };
        Ok(Self {
            is_tls,
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// The same with a longer prefix.
    #[must_use]
    pub fn join(&self, segment: &str) -> Self {
        Self { prefix: format!("{}/{segment}", self.prefix), ..self.clone() }
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// A call that got no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No connection: the request was not sent.
    #[error("cannot connect to {0}: {1}")]
    Unconnected(String, String),
    /// The request may have been received.
    #[error("no answer from {0}: {1}")]
    Unanswered(String, String),
}

type Sender = SendRequest<Full<Bytes>>;

/// Calls of one kind of peer.
#[derive(Debug)]
pub struct HttpClient {
    tls: Option<Arc<ClientTls>>,
    time: Duration,
    idle: Mutex<HashMap<String, Vec<Sender>>>,
}

impl HttpClient {
    /// A client; `time` limits each call.
    #[must_use]
    pub fn new(tls: Option<Arc<ClientTls>>, time: Duration) -> Self {
        Self { tls, time, idle: Mutex::default() }
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call(
        &self,
        target: &Target,
        (method, path): (Method, &str),
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Reply, CallError> {
        let host = HeaderValue::try_from(&target.authority)
            .map_err(|error| CallError::Unconnected(target.authority.clone(), error.to_string()))?;
        headers.insert(HOST, host);
        let path = format!("{}{path}", target.prefix);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| {
            CallError::Unconnected(target.authority.clone(), format!("invalid path {path:?}"))
        })?;
        *request.headers_mut() = headers;
        let unanswered = |why: String| CallError::Unanswered(target.authority.clone(), why);
        timeout(self.time, self.exchange(target, request))
            .await
            .unwrap_or_else(|_| Err(unanswered(format!("none within {} s", self.time.as_secs()))))
    }

    async fn exchange(
        &self,
        target: &Target,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Reply, CallError> {
        let unanswered = |error: String| CallError::Unanswered(target.authority.clone(), error);
        // A kept connection may have been closed by the peer: then the request was not sent.
        while let Some(mut sender) = self.take(target) {
            match sender.try_send_request(request).await {
                Ok(response) => return self.read(target, sender, response).await,
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(unanswered(error.into_error().to_string())),
                },
            }
        }
        let mut sender = self.connect(target).await?;
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| unanswered(error.to_string()))?;
        self.read(target, sender, response).await
    }

    async fn read(
        &self,
        target: &Target,
        sender: Sender,
        response: http::Response<hyper::body::Incoming>,
    ) -> Result<Reply, CallError> {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, BODY_BYTES_MAX)
            .collect()
            .await
            .map_err(|error| CallError::Unanswered(target.authority.clone(), error.to_string()))?;
        self.keep(target, sender);
        Ok(Reply { status: head.status, headers: head.headers, body: body.to_bytes() })
    }

    async fn connect(&self, target: &Target) -> Result<Sender, CallError> {
        let failed = |why: String| CallError::Unconnected(target.authority.clone(), why);
        let stream = TcpStream::connect((&*target.host, target.port)).await;
        let stream = stream.map_err(|error| failed(error.to_string()))?;
        stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
        if !target.is_tls {
            return open(stream).await.map_err(failed);
        }
        let tls = self.tls.as_ref().ok_or_else(|| failed("TLS is not configured".to_owned()))?;
        let stream = tls.connect(("", &target.host), stream).await;
        open(stream.map_err(|fault| failed(format!("TLS: {}", fault.text())))?)
            .await
            .map_err(failed)
    }

    fn take(&self, target: &Target) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.get_mut(&target.authority)?;
        loop {
            let sender = kept.pop()?;
            if sender.is_ready() {
                return Some(sender);
            }
        }
    }

    fn keep(&self, target: &Target, sender: Sender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.entry(target.authority.clone()).or_default();
        if kept.len() < IDLE_MAX && !sender.is_closed() {
            kept.push(sender);
        }
    }
}

/// Starts HTTP on a connection, whose task ends with it.
async fn open(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Sender, String> {
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        // The caller learns of an error from its own request.
        let _ended = connection.await;
    });
    Ok(sender)
}
