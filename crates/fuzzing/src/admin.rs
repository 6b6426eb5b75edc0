//! The admin API without sockets: a sequence of requests, decided by the kernel.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use fspiop::body::ErrorInformation;
use http::header::{CONTENT_TYPE, HOST};
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use ledger::{
    Administer, ArchiveKind, ArchivedSettlement, ChangeReply, Command, NoticeId, OperatorBook,
    PartyBinding, Stamp, TransferId,
};
use operations::{
    AdminBackend, AdminOptions, Auth, BoxFuture, ExplanationOptions, Health, LogPoint,
    ParticipantStatementRequest, PrepareBody, ServiceStatus, StateQuery, Statement,
    StatementRefusal, StatementSubject, TransferTrace, Unavailable,
};
use record::command::{FIELDS_VERSION, read_fields, write_fields};
use tokio::runtime::{Builder, Runtime};

use crate::fixture::{self, ModelledKernel};
use crate::json::Document;

/// Requests of one input, at most.
const REQUESTS_MAX: usize = 16;
/// Source address of the admin API requests.
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

thread_local! {
    static RUNTIME: Runtime =
        Builder::new_current_thread().enable_time().build().expect("a runtime without sockets");
}

/// Requests as text, an empty line between them: a line with method and target, then the body.
///
/// Every answer is JSON or empty; no request makes the hub fail; every change it makes is read
/// back from its record, and the same requests get the same answers again.
pub fn admin(data: &[u8]) {
    let requests = requests(data);
    let hub = Arc::new(Kernel(Mutex::new(fixture::scheme())));
    let answers: Vec<_> = requests.iter().map(|request| ask(&hub, request)).collect();
    for ((request, _), (status, body)) in requests.iter().zip(&answers) {
        check_answer(request, *status, body);
    }
    let again = Arc::new(Kernel(Mutex::new(fixture::scheme())));
    for (request, answer) in requests.iter().zip(&answers) {
        let again = ask(&again, request);
        assert!(&again == answer, "{} got another answer: {}", request.0, again.0);
    }
    assert_eq!(
        hub.kernel().state.digest(),
        again.kernel().state.digest(),
        "and lead to the same state"
    );
}

/// Sets up the scheme that the targets begin with.
pub(crate) fn set_up(kernel: ModelledKernel) -> ModelledKernel {
    let requests = requests(include_bytes!("scheme.txt"));
    let hub = Arc::new(Kernel(Mutex::new(kernel)));
    for request in &requests {
        let (status, body) = ask(&hub, request);
        let body = String::from_utf8_lossy(&body);
        assert!((200..300).contains(&status), "{} {status} {body}", request.0);
    }
    hub.kernel().clone()
}

/// The line of a request, and its body.
type Ask = (String, Vec<u8>);

fn requests(data: &[u8]) -> Vec<Ask> {
    let mut rest = data;
    let mut found = Vec::new();
    while !rest.is_empty() && found.len() < REQUESTS_MAX {
        let end = rest.windows(2).position(|pair| pair == b"\n\n");
        let (request, after) = end.map_or((rest, &b""[..]), |at| (&rest[..at], &rest[at + 2..]));
        rest = after;
        let at = request.iter().position(|byte| *byte == b'\n').unwrap_or(request.len());
        let line = String::from_utf8_lossy(&request[..at]).into_owned();
        found.push((line, request.get(at + 1..).unwrap_or_default().to_vec()));
    }
    found
}

/// Status and body of the answer; 0 for what is no request to the parser of HTTP.
fn ask(hub: &Arc<Kernel>, (line, body): &Ask) -> (u16, Vec<u8>) {
    let Some(request) = request(line, body) else { return (0, Vec::new()) };
    let options = AdminOptions::new(Auth::None);
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let response: Response<Full<Bytes>> =
                operations::respond(Arc::<Kernel>::clone(hub), options, request, PEER).await;
            let (head, body) = response.into_parts();
            let is_json = head
                .headers
                .get(CONTENT_TYPE)
                .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
            // Metrics are text and contain processor times, so two responses differ.
            let body = if is_json { body } else { Full::default() };
            let body = body.collect().await.expect("it is in memory").to_bytes();
            (head.status.as_u16(), body.to_vec())
        })
    })
}

fn request(line: &str, body: &[u8]) -> Option<Request<Full<Bytes>>> {
    let (method, target) = line.split_once(' ')?;
    let method = Method::from_bytes(method.as_bytes()).ok()?;
    let target: Uri = target.parse().ok()?;
    let request = Request::builder().method(method).uri(target).header(HOST, "localhost");
    let request = request.header(CONTENT_TYPE, "application/json");
    request.body(Full::new(Bytes::copy_from_slice(body))).ok()
}

fn check_answer(request: &str, status: u16, body: &[u8]) {
    // 500 is a refusal here: what the reference answers to most of what an account does not allow
    // (hub-semantics 4.1, typical errors).
    let known = matches!(status, 0 | 200 | 201 | 202 | 204 | 400 | 403 | 404 | 405 | 500 | 501);
    assert!(known, "{request} was answered with {status}");
    if !body.is_empty() {
        let document = Document::read(body);
        assert!(document.is_ok_and(|document| !document.root.repeats()), "{request}: no JSON");
    }
    if 400 <= status {
        let result = ErrorInformation::parse(body);
        assert!(result.is_ok(), "{request}: {result:?}");
    }
}

/// The kernel without a log: every change is a batch of one.
struct Kernel(Mutex<ModelledKernel>);

impl Kernel {
    fn kernel(&self) -> MutexGuard<'_, ModelledKernel> {
        self.0.lock().expect("the lock is free")
    }

    fn record(&self, command: &Command) -> ChangeReply {
        let mut fields = Vec::new();
        write_fields(command, &mut fields);
        let again = read_fields(command.number(), FIELDS_VERSION, &fields);
        assert_eq!(again.as_ref(), Ok(command), "a change is read back");
        self.kernel().decide(command)
    }
}

impl AdminBackend for Kernel {
    fn administer(&self, change: Administer) -> BoxFuture<'_, Result<ChangeReply, Unavailable>> {
        Box::pin(async move { Ok(self.record(&Command::Administer(Box::new(change)))) })
    }

    /// The directory is no part of the kernel.
    fn find_party(
        &self,
        _: &str,
        _: &str,
        _: Option<&str>,
    ) -> Result<Vec<PartyBinding>, Unavailable> {
        Ok(Vec::new())
    }

    fn operators(&self) -> Arc<OperatorBook> {
        Arc::new(self.kernel().state.operators().clone())
    }

    fn query_state(&self, query: StateQuery) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(async move {
            query(&self.kernel().state);
            Ok(())
        })
    }

    /// No prepare was ever recorded here.
    fn prepare_body(
        &self,
        _: TransferId,
    ) -> BoxFuture<'_, Result<Option<PrepareBody>, Unavailable>> {
        Box::pin(async move { Ok(None) })
    }

    fn explanation(
        &self,
        _: TransferId,
        _: ExplanationOptions,
    ) -> BoxFuture<'_, Result<Option<Bytes>, Unavailable>> {
        Box::pin(async move { Ok(None) })
    }

    /// There is no log: the statement has no accounts.
    fn participant_statement(
        &self,
        request: ParticipantStatementRequest,
    ) -> BoxFuture<'_, Result<Result<Statement, StatementRefusal>, Unavailable>> {
        Box::pin(async move {
            let at = LogPoint::of(&self.kernel().state);
            let name = request.participant.to_string();
            let subject = StatementSubject::Participant { name };
            Ok(Ok(Statement { subject, from: at, to: at, accounts: Vec::new() }))
        })
    }

    /// Runs are too short for an archive.
    fn archived(
        &self,
        _: ArchiveKind,
        _: RangeInclusive<u32>,
    ) -> BoxFuture<'_, Result<Vec<ArchivedSettlement>, Unavailable>> {
        Box::pin(async move { Ok(Vec::new()) })
    }

    fn parked_notices(&self) -> BoxFuture<'_, Vec<NoticeId>> {
        Box::pin(async move { Vec::new() })
    }

    fn wait_reasons(&self, _: Vec<NoticeId>) -> BoxFuture<'_, HashMap<NoticeId, String>> {
        Box::pin(async move { HashMap::new() })
    }

    fn metrics(&self) -> Vec<metrics::Family> {
        Vec::new()
    }

    fn is_tracing(&self) -> bool {
        false
    }

    fn set_tracing(&self, _: bool) {}

    fn trace(&self, _: &TransferId) -> TransferTrace {
        TransferTrace::default()
    }

    fn health(&self) -> Health {
        Health {
            version: "0.1.0",
            started: Stamp(0),
            uptime: Duration::ZERO,
            datastore: ServiceStatus::Ok,
            broker: ServiceStatus::Ok,
            stuck: Vec::new(),
            stalled_lanes: operations::StalledLanes::default(),
            open_breakers: operations::OpenBreakers::default(),
        }
    }
}
