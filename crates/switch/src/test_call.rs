//! A call of a participant's endpoint that an operator asks for. It is no message of FSPIOP and has
//! a connection of its own, apart from the traffic: `OPTIONS` of the path `/`, which changes
//! nothing at the participant.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use fspiop::egress_policy::{CallScheme, CallTarget, EgressPolicy, ForbiddenTarget};
use http::header::HOST;
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use ledger::FspName;
use tls::{ClientTls, HandshakeFault};
use tokio::net::{TcpStream, lookup_host};

use crate::call_stream::CallStream;
use crate::http2_calls::{Http2Connection, Http2Fault};

/// Time for a whole call, in seconds.
const SECONDS_MAX: u64 = 5;

/// Makes test calls, with the rules and certificates of the other calls.
#[derive(Clone, Copy, Debug)]
pub struct TestCaller<'a> {
    /// Which addresses may be called.
    pub policy: &'a EgressPolicy,
    /// TLS of calls; `None` in a program without TLS.
    pub tls: Option<&'a ClientTls>,
}

/// The answer to a test call. Any status shows that the endpoint answers.
#[derive(Clone, Copy, Debug)]
pub struct TestAnswer {
    /// The called address.
    pub address: SocketAddr,
    /// The status of the response.
    pub status: StatusCode,
}

/// The reason why a test call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum TestCallError {
    /// The value cannot be called.
    #[error("{0}")]
    Forbidden(ForbiddenTarget),
    /// The name cannot be resolved.
    #[error("the host name cannot be resolved: {0}")]
    Unresolved(io::Error),
    /// The configuration allows none of the addresses of the name.
    #[error("the configuration does not allow calls to its address; see [endpoints]")]
    Denied,
    /// No address accepts a connection.
    #[error("no connection to {0}: {1}")]
    Connect(SocketAddr, io::Error),
    /// The connection cannot be encrypted.
    #[error("TLS: {}", .0.text())]
    Tls(HandshakeFault),
    /// The response is not HTTP, or the connection was closed.
    #[error("no HTTP response: {0}")]
    NotHttp(hyper::Error),
    /// The same over HTTP/2.
    #[error("no HTTP response{}", .0.map_or_else(String::new, |reason| format!(": {reason}")))]
    NotHttp2(Option<&'static str>),
    /// The time is over.
    #[error("no response in {SECONDS_MAX} s")]
    TimedOut,
}

impl TestCaller<'_> {
    /// Calls the host of an endpoint.
    ///
    /// # Errors
    /// The first reason why there is no answer.
    pub async fn call(
        &self,
        participant: &FspName,
        value: &str,
    ) -> Result<TestAnswer, TestCallError> {
        let called = self.exchange(participant, value);
        let limit = Duration::from_secs(SECONDS_MAX);
        tokio::time::timeout(limit, called).await.unwrap_or(Err(TestCallError::TimedOut))
    }

    async fn exchange(
        &self,
        participant: &FspName,
        value: &str,
    ) -> Result<TestAnswer, TestCallError> {
        self.policy.check(value).map_err(TestCallError::Forbidden)?;
        let target = CallTarget::parse(value).map_err(TestCallError::Forbidden)?;
        let (stream, address) = self.connect(&target.authority).await?;
        let stream = match (target.scheme, self.tls) {
            (CallScheme::Http, _) => CallStream::Plain(stream),
            (CallScheme::Https, None) => {
                return Err(TestCallError::Forbidden(ForbiddenTarget::Encrypted));
            }
            (CallScheme::Https, Some(tls)) => {
                let host = target.authority.rsplit_once(':').map_or("", |(host, _)| host);
                let connecting = tls.connect((participant.as_str(), host), stream);
                CallStream::Tls(Box::new(connecting.await.map_err(TestCallError::Tls)?))
            }
        };
        let status = match stream.is_http2() {
            false => ask(stream, &target.authority).await.map_err(TestCallError::NotHttp)?,
            true => ask_http2(stream, &target.authority).await.map_err(TestCallError::NotHttp2)?,
        };
        Ok(TestAnswer { address, status })
    }

    /// Connects to the first allowed address that accepts.
    async fn connect(&self, authority: &str) -> Result<(TcpStream, SocketAddr), TestCallError> {
        let found = lookup_host(authority).await.map_err(TestCallError::Unresolved)?;
        let mut fault = TestCallError::Denied;
        for address in found.filter(|address| self.policy.allows_socket(*address)) {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    let here = stream.local_addr();
                    match here.is_ok_and(|here| self.policy.is_loop(here, address)) {
                        true => return Err(TestCallError::Denied),
                        false => return Ok((stream, address)),
                    }
                }
                Err(error) => fault = TestCallError::Connect(address, error),
            }
        }
        Err(fault)
    }
}

fn question(authority: &str) -> Request<Full<Bytes>> {
    let request = Request::builder().method(Method::OPTIONS).uri("/").header(HOST, authority);
    request.body(Full::default()).expect("a checked authority is a header")
}

async fn ask(stream: CallStream, authority: &str) -> hyper::Result<StatusCode> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut answer = pin!(sender.send_request(question(authority)));
    let response = tokio::select! {
        response = &mut answer => response,
        _ = connection => answer.await,
    };
    response.map(|response| response.status())
}

/// The error is the rule of HTTP/2 that the other side broke, if it did.
async fn ask_http2(
    stream: CallStream,
    authority: &str,
) -> Result<StatusCode, Option<&'static str>> {
    let host = HeaderValue::from_str(authority).map_err(|_| None)?;
    let connection = Http2Connection::open(stream, host).await.map_err(|_| None)?;
    let Some((sent, _body)) = connection.send(question(authority)) else {
        return Err(connection.fault().map(Http2Fault::text));
    };
    let mut sent = pin!(sent);
    let answered = poll_fn(move |context| {
        connection.turn(context);
        let response = ready!(sent.as_mut().poll(context));
        let status = response.map(|response| response.status());
        Poll::Ready(status.ok_or_else(|| connection.fault().map(Http2Fault::text)))
    });
    answered.await
}
