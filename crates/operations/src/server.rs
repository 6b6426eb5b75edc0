//! The server: connections, their bounds, and the processing of a request.

use std::convert::Infallible;
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fspiop::admission::AdmissionLimits;
use fspiop::{ErrorCode, Refusal, bare};
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use identity::SecretsKey;
use ledger::OperatorBook;
use socket2::SockRef;
use tls::Rejected;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::address_limits::AddressUsage;
use crate::admin_requests::AdminRequestTimes;
use crate::audit::{self, AuditEntry, recorded_path};
use crate::audit_trail::AuditTrail;
use crate::auth::{self, Caller, Credential, PeerAddresses};
use crate::backend::{AdminBackend, ChangeAuthor};
use crate::client_socket::Wire;
use crate::connections::{ConnectionPermit, Connections};
use crate::console;
use crate::dry_runs::{self, DryRuns};
use crate::failed_tokens::{FailedTokens, FailureKind};
use crate::logins::Logins;
use crate::metrics::AdminCounters;
use crate::options::{AdminOptions, Auth, Limits};
use crate::oracle_api::{OracleApi, OracleResource};
use crate::probes;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, BARE_HEADERS, HandlerResult, ResponseBody};
use crate::route::{MatchedResource, Resource, Route};
use crate::status_stream::StatusFeed;

/// Maximum number of headers of a request.
const HEADERS_MAX: usize = 100;
/// Time for a client without TLS to read its refusal.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// Pause after `accept` failed, usually because no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the admin API until `shutdown` is ready, then waits for requests in progress.
///
/// A connection beyond the bounds of [`Limits`] evicts one that keeps the hub waiting. Without
/// such a connection, the new one is closed. Must run within a tokio runtime with time and I/O
/// enabled; uses one task per connection.
pub async fn serve(
    listener: TcpListener,
    backend: Arc<dyn AdminBackend>,
    options: AdminOptions,
    shutdown: impl Future,
) {
    listen(listener, Server::new(options, Surface::Admin(backend)), shutdown).await;
}

/// Serves the supervisors' probes in the same way, without a token: `GET /live`, `GET /startup`,
/// `GET /ready` and `GET /health` only. Without a backend the node is starting.
pub async fn serve_probes(
    listener: TcpListener,
    backend: Option<Arc<dyn AdminBackend>>,
    shutdown: impl Future,
) {
    let limits = Limits::of_probes();
    let options = AdminOptions { limits, ..AdminOptions::new(Auth::None) };
    listen(listener, Server::new(options, Surface::Probes(backend)), shutdown).await;
}

/// Serves the oracle API in the same way, without a token.
pub async fn serve_oracle_api(
    listener: TcpListener,
    backend: Arc<dyn AdminBackend>,
    options: AdminOptions,
    shutdown: impl Future,
) {
    let surface = Surface::Oracle(OracleApi::new(backend));
    listen(listener, Server::new(options, surface), shutdown).await;
}

/// Processes a request without a connection: all phases except HTTP parsing. `peer` is recorded as
/// the address of the author. Must run within a tokio runtime with time enabled.
pub async fn respond(
    backend: Arc<dyn AdminBackend>,
    options: AdminOptions,
    request: Request<Full<Bytes>>,
    peer: IpAddr,
) -> Response<Full<Bytes>> {
    let addresses = PeerAddresses { local: Ipv4Addr::LOCALHOST.into(), peer };
    let server = Server::new(options, Surface::Admin(backend));
    let response = server.respond(request, addresses, None).await;
    // A stream of events needs a connection.
    response.map(|body| match body {
        Either::Left(body) => body,
        Either::Right(_) => Full::default(),
    })
}

/// The service of a listener.
enum Surface {
    Admin(Arc<dyn AdminBackend>),
    /// `None` while the node starts.
    Probes(Option<Arc<dyn AdminBackend>>),
    Oracle(OracleApi),
}

struct Server {
    options: AdminOptions,
    surface: Surface,
    connections: Arc<Connections>,
    failed_tokens: Arc<FailedTokens>,
    failed_logins: Arc<FailedTokens>,
    request_times: AdminRequestTimes,
    dry_runs: DryRuns,
    status_feed: Arc<StatusFeed>,
    callers: CallerCounts,
    logins: Logins,
    audit_trail: Arc<AuditTrail>,
    addresses: AddressUsage,
}

/// Counts of authenticated requests.
#[derive(Default)]
struct CallerCounts {
    permissions_missing: AtomicU64,
    break_glass_uses: AtomicU64,
}

impl CallerCounts {
    fn count_missing_permission(&self) {
        self.permissions_missing.fetch_add(1, Ordering::Relaxed);
    }

    fn count_break_glass(&self) {
        self.break_glass_uses.fetch_add(1, Ordering::Relaxed);
    }
}

async fn listen(listener: TcpListener, server: Server, shutdown: impl Future) {
    let server = Arc::new(server);
    let (stop, stopped) = watch::channel(());
    let mut tasks = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next(), if !tasks.is_empty() => continue,
            _ = &mut shutdown => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(_) => {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(permit) = server.connections.admit(peer.ip()) else { continue };
        let (server, stopped) = (Arc::clone(&server), stopped.clone());
        tasks.spawn(async move {
            // A socket without a local address is already closed.
            if let Ok(local) = stream.local_addr() {
                let [local, peer] = [local, peer].map(|address| address.ip().to_canonical());
                let addresses = PeerAddresses { local, peer };
                open_connection(server, stream, addresses, (permit, stopped)).await;
            }
        });
        // Poll the connection once before others can evict it.
        tokio::task::yield_now().await;
    }
    drop(listener);
    drop(stop);
    let drained = async { while tasks.join_next().await.is_some() {} };
    // Tasks that have not ended by then are dropped with the set.
    server.status_feed.stop();
    let _ended = timeout(server.options.limits.shutdown_time, drained).await;
}

/// Makes the handshake of a connection if the listener uses TLS, and serves it.
async fn open_connection(
    server: Arc<Server>,
    stream: TcpStream,
    addresses: PeerAddresses,
    (permit, stopped): (ConnectionPermit, watch::Receiver<()>),
) {
    let limits = server.options.limits;
    if SockRef::from(&stream).set_tcp_user_timeout(Some(limits.write_time)).is_err() {
        return;
    }
    let Some(tls) = &server.options.tls else {
        return serve_connection(server, stream, addresses, (permit, stopped)).await;
    };
    let accepted = tokio::select! {
        accepted = tls.accept(stream, limits.header_time) => accepted,
        () = permit.evicted() => return tls.count_evicted(),
    };
    match accepted {
        Ok(accepted) => {
            let permit = (permit, stopped);
            serve_connection(Arc::clone(&server), accepted.stream, addresses, permit).await;
        }
        Err(Rejected { plain: Some(stream), .. }) => refuse_plain(stream).await,
        Err(_) => {}
    }
}

/// Answers a client that does not use TLS.
async fn refuse_plain(mut stream: TcpStream) {
    let refusal = Refusal::malformed("this port expects TLS; use https://");
    let response = bare::render(&refusal, &BARE_HEADERS);
    // A client that does not read it goes without.
    if stream.try_write(&response).is_ok() && stream.shutdown().await.is_ok() {
        let rest = &mut [0; 8 * 1024];
        let reading = async { while matches!(stream.read(rest).await, Ok(1..)) {} };
        let _in_time = timeout(REFUSAL_TIME, reading).await;
    }
}

async fn serve_connection(
    server: Arc<Server>,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    addresses: PeerAddresses,
    (permit, mut stopped): (ConnectionPermit, watch::Receiver<()>),
) {
    let limits = server.options.limits;
    let permit = &permit;
    let trail = Arc::clone(&server.audit_trail);
    let service = service_fn(move |request| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(server.respond(request, addresses, Some(permit)).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_headers(HEADERS_MAX)
        .max_header_size(limits.header_bytes)
        .serve_connection(Wire::new(stream), service);
    let mut connection = pin!(connection);
    let from = addresses.peer;
    // Errors of a connection concern only its client, except that malformed requests are audited.
    tokio::select! {
        ended = connection.as_mut() => return audit_malformed(&trail, ended, from),
        () = permit.evicted() => return,
        _dropped = stopped.changed() => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        _ended = connection => {}
        () = permit.evicted() => {}
    }
}

/// Writes the audit entry of a request that ended its connection, because it could not be read.
fn audit_malformed(trail: &AuditTrail, ended: hyper::Result<()>, from: IpAddr) {
    let Err(error) = ended else { return };
    if error.is_parse() {
        // Whatever the library answers, the socket makes 400 of it.
        audit::write_malformed(trail, from, StatusCode::BAD_REQUEST, &error);
    }
}

impl Server {
    fn new(options: AdminOptions, surface: Surface) -> Self {
        let Limits { connections: total, connections_per_address: per_address, .. } =
            options.limits;
        let connections = Connections::new(AdmissionLimits { total, per_address });
        let addresses = AddressUsage::new(options.address_limits);
        Self {
            options,
            surface,
            addresses,
            connections,
            failed_tokens: Arc::new(FailedTokens::new(FailureKind::Token)),
            failed_logins: Arc::new(FailedTokens::new(FailureKind::Login)),
            request_times: AdminRequestTimes::default(),
            dry_runs: DryRuns::default(),
            status_feed: Arc::default(),
            callers: CallerCounts::default(),
            logins: Logins::default(),
            audit_trail: Arc::default(),
        }
    }

    async fn respond<B>(
        &self,
        request: Request<B>,
        addresses: PeerAddresses,
        permit: Option<&ConnectionPermit>,
    ) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let (head, body) = request.into_parts();
        let checked =
            fspiop::request_head::check(&head).and_then(|()| auth::check_singles(&head.headers));
        if let Err(refusal) = checked {
            let mut response = AdminResponse::refusal(&refusal).into_response(None);
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            return response;
        }
        let backend = match &self.surface {
            Surface::Admin(backend) => backend,
            Surface::Probes(backend) => {
                let result = probes::reply(backend.as_deref(), &head);
                let response = result.unwrap_or_else(|refusal| AdminResponse::refusal(&refusal));
                return response.into_response(Some(probes::METHODS.to_owned()));
            }
            Surface::Oracle(api) => {
                return self.oracle(api, (&head, body), addresses, permit).await;
            }
        };
        if console::has(head.uri.path()) {
            return self.console(&head, addresses);
        }
        let began = Instant::now();
        let matched = Resource::find(head.uri.path());
        let audit = AuditEntry::default();
        let result = match self.addresses.begin(addresses.peer, began) {
            Ok(_begun) => {
                let matched = (matched.as_ref(), permit);
                self.handle(backend, (&head, &audit), body, matched, addresses).await
            }
            Err(refusal) => Err(refusal),
        };
        audit.write(&self.audit_trail, &head, addresses.peer, &result);
        let reads = (addresses.peer, self.options.audit_reads);
        if let Some(request) = audit.to_record(&head, reads, matched.as_ref(), &result) {
            self.audit_trail.record(backend, request);
        }
        let status = match &result {
            Ok(response) => response.status(),
            Err(refusal) => refusal.status,
        };
        let resource = matched.as_ref().map(|matched| matched.resource);
        self.request_times.record((&head.method, resource), began.elapsed(), status);
        match result {
            Ok(response) => response.into_response(None),
            Err(refusal) => {
                let allow = matched.map(|matched| matched.resource.allow());
                AdminResponse::refusal(&refusal).into_response(allow)
            }
        }
    }

    /// Answers a request to the oracle API.
    async fn oracle<B>(
        &self,
        api: &OracleApi,
        (head, body): (&Parts, B),
        PeerAddresses { local, peer }: PeerAddresses,
        permit: Option<&ConnectionPermit>,
    ) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let mut allow = None;
        let answer = async {
            let _begun = self.addresses.begin(peer, Instant::now())?;
            auth::check_origin(&self.options, head, local)?;
            let resource = OracleResource::find(head.uri.path())?;
            allow = Some(resource.methods().to_owned());
            fspiop::headers::check_content_encoding(&head.headers)?;
            let body = read_body(head, body, self.options.limits).await?;
            let _answering = permit.map(ConnectionPermit::begin_request);
            api.respond(resource, (head, &body), peer).await
        };
        let response = answer.await.unwrap_or_else(|refusal| {
            api.count_refused();
            AdminResponse::refusal(&refusal)
        });
        response.into_response(allow)
    }

    /// Answers a request for a file of the console, which needs no token.
    fn console(
        &self,
        head: &Parts,
        PeerAddresses { local, peer }: PeerAddresses,
    ) -> Response<ResponseBody> {
        let begun = self.addresses.begin(peer, Instant::now());
        let refused = begun.err().or_else(|| auth::check_origin(&self.options, head, local).err());
        match refused {
            Some(refusal) => AdminResponse::refusal(&refusal).into_response(None),
            None => console::respond(head),
        }
    }

    async fn handle<B>(
        &self,
        backend: &Arc<dyn AdminBackend>,
        (head, audit): (&Parts, &AuditEntry),
        body: B,
        (matched, permit): (Option<&MatchedResource>, Option<&ConnectionPermit>),
        PeerAddresses { local, peer }: PeerAddresses,
    ) -> HandlerResult
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        auth::check_origin(&self.options, head, local)?;
        let route = matched.and_then(|matched| matched.resource.route(&head.method));
        let dry_run = dry_runs::name(&head.headers)?;
        let needs_token = dry_run.is_some() || self.needs_token(route, &head.method);
        let (caller, identity) = match needs_token {
            true => self.identify(backend, (head, audit), peer).await?,
            false => (Caller::unrestricted(Credential::None), ChangeAuthor::default()),
        };
        let matched = matched.ok_or_else(Refusal::unknown_uri)?;
        let route = route.ok_or_else(Refusal::method_not_allowed)?;
        self.authorize(&caller, route, &backend.operators())?;
        fspiop::headers::check_content_encoding(&head.headers)?;
        let body = read_body(head, body, self.options.limits).await?;
        // From here on the client waits for the hub, and cannot be evicted.
        let _answering = permit.map(ConnectionPermit::begin_request);
        let trial = match &dry_run {
            Some(name) => {
                dry_runs::check(route, matched.resource.path)?;
                audit.is_dry_run(name);
                let key = (identity.actor.clone(), name.clone());
                Some(self.dry_runs.backend(Arc::clone(backend), key).await?)
            }
            None => None,
        };
        let request = AdminRequest {
            backend: trial.as_ref().map_or(&**backend, |trial| trial),
            hub: backend,
            status_feed: &self.status_feed,
            options: &self.options,
            counters: self.counters(),
            times: &self.request_times,
            dry_runs: &self.dry_runs,
            headers: &head.headers,
            path: &matched.values,
            query: head.uri.query().unwrap_or_default(),
            body,
            identity,
            caller: &caller,
            audit,
            target: head.uri.path(),
            proposed: OnceLock::new(),
            peer,
            logins: &self.logins,
            secrets: self.secrets(),
            route,
        };
        if route.needs_accept {
            request.must_accept()?;
        }
        // HEAD is handled as GET; the body is omitted when the response is written.
        let result = (route.handler)(&request).await;
        match request.proposed.into_inner().map_or(result, Ok) {
            Err(refusal) if refusal.status == StatusCode::UNAUTHORIZED => {
                Err(self.failed_logins.refuse(peer, refusal).await)
            }
            result => result,
        }
    }

    /// Whether a request needs a token. With roles, unknown paths need one, too.
    fn needs_token(&self, route: Option<&Route>, method: &Method) -> bool {
        let is_anonymous = route.is_some_and(|route| route.is_anonymous);
        let is_open = !matches!(self.options.auth, Auth::Roles(_))
            && auth::is_reading(method)
            && route.is_none_or(|route| route.is_open);
        !is_anonymous && !is_open
    }

    /// Refuses and counts a request without the permission of its route.
    fn authorize(
        &self,
        caller: &Caller,
        route: &Route,
        book: &OperatorBook,
    ) -> Result<(), Refusal> {
        let Some(permission) = route.permission else { return Ok(()) };
        caller.must_have(permission, book).inspect_err(|_| self.callers.count_missing_permission())
    }

    /// The key of secrets, where operators have roles.
    const fn secrets(&self) -> Option<&SecretsKey> {
        match self.options.auth {
            Auth::Roles(_) => self.options.secrets.as_ref(),
            Auth::Token(_) | Auth::None => None,
        }
    }

    /// Authenticates the request. A failure is counted, and its response may be delayed. A use of
    /// the break-glass token is counted and logged.
    async fn identify(
        &self,
        backend: &Arc<dyn AdminBackend>,
        (head, audit): (&Parts, &AuditEntry),
        peer: IpAddr,
    ) -> Result<(Caller, ChangeAuthor), Refusal> {
        match auth::identify(&self.options, &backend.operators(), head, peer).await {
            Err(refusal) if refusal.status == StatusCode::UNAUTHORIZED => {
                Err(self.failed_tokens.refuse(peer, refusal).await)
            }
            Err(refusal) => Err(refusal),
            Ok((caller, author)) => {
                audit.identified(&author);
                if let Credential::BreakGlass(_) = caller.credential {
                    self.callers.count_break_glass();
                    let (method, path) = (&head.method, recorded_path(head.uri.path()));
                    tracing::warn!(%method, path, from = %peer, "the break-glass token was used");
                }
                Ok((caller, author))
            }
        }
    }

    fn counters(&self) -> AdminCounters {
        AdminCounters {
            connections_evicted: self.connections.evicted(),
            connections_refused: self.connections.refused(),
            tokens_refused: self.failed_tokens.count() + self.failed_logins.count(),
            permissions_missing: self.callers.permissions_missing.load(Ordering::Relaxed),
            break_glass_uses: self.callers.break_glass_uses.load(Ordering::Relaxed),
            audit: self.audit_trail.counts(),
            addresses_refused: self.addresses.refused(),
        }
    }
}

/// Reads a JSON body within the limits on size and time. Reads have none.
async fn read_body<B>(head: &Parts, body: B, limits: Limits) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    if auth::is_reading(&head.method) {
        return Ok(Bytes::new());
    }
    let content_type = head.headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
    if !content_type.is_none_or(fspiop::media::is_json) {
        let detail = "Unsupported Media Type: the body must be application/json";
        return Err(Refusal::new(ErrorCode::MALFORMED_SYNTAX, detail));
    }
    let announced = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let announced = announced.and_then(|length| length.parse::<u64>().ok());
    if announced.is_some_and(|length| (limits.body_bytes as u64) < length) {
        return Err(Refusal::too_large());
    }
    match timeout(limits.body_time, Limited::new(body, limits.body_bytes).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::too_large()),
        Ok(Err(_)) => Err(Refusal::new(ErrorCode::MALFORMED_SYNTAX, "the body is incomplete")),
        Err(_elapsed) => {
            let refusal =
                Refusal::new(ErrorCode::GENERIC_CLIENT, "the body did not arrive in time");
            Err(Refusal { status: StatusCode::REQUEST_TIMEOUT, ..refusal })
        }
    }
}
