//! Messages that are not recorded: look-ups, quotes, and the hub's own answers to questions.
//! Each gets one attempt; when it fails, whoever sent the message hears of it (hub-semantics 2.1,
//! DESIGN contract 4).

use std::borrow::Cow;
use std::rc::Rc;

use bytes::Bytes;
use fspiop::body::ErrorInformation;
use fspiop::callback::{self, HubMessage};
use fspiop::endpoint::EndpointType;
use fspiop::forward::{Forwarding, rewrite};
use fspiop::headers::{TRACEPARENT, TRACESTATE};
use fspiop::reach::Target;
use fspiop::{ErrorCode, Refusal, Resource, TraceContext};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use ledger::{FspName, ParticipantIndex};
use node::View;
use tokio::task::spawn_local;

use crate::edge::Edge;
use crate::pool::{Answer, Failure, Letter};
use crate::server::Inbound;
use crate::signatures;

/// One recipient may have this part of all places for messages on their way.
const SHARES: usize = 8;

/// Names and values for an endpoint's template.
pub(crate) type Variables = Vec<(&'static str, String)>;

/// Which endpoint of which participant, by which call.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(crate) participant: ParticipantIndex,
    pub(crate) endpoint: EndpointType,
    pub(crate) method: Method,
    /// Path of the resource, with the query if there is one.
    pub(crate) path: String,
    pub(crate) variables: Variables,
}

/// A message on its way out.
pub(crate) struct Outgoing {
    pub(crate) to: Destination,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Who is told when it cannot be delivered, and how.
    pub(crate) on_failure: Option<Complaint>,
}

/// The error callback that a sender gets when its message could not be delivered.
pub(crate) struct Complaint {
    pub(crate) to: Destination,
    pub(crate) resource: Resource,
    pub(crate) trace: Trace,
    /// The code when the recipient has no endpoint.
    pub(crate) no_endpoint: ErrorCode,
}

/// The trace that a message of the hub's own belongs to: that of the message it answers.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) context: TraceContext,
    pub(crate) state: Option<HeaderValue>,
}

impl Trace {
    /// The trace of a message as it was received. A state without a valid parent belongs to none.
    pub(crate) fn of(inbound: &Inbound) -> Self {
        let parent = inbound.headers.get(&TRACEPARENT);
        let state = parent
            .and_then(|value| TraceContext::parse(value.as_bytes()))
            .and_then(|_| inbound.headers.get(&TRACESTATE).cloned());
        Self { context: inbound.envelope.trace, state }
    }
}

/// Why a message was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undelivered {
    NoEndpoint,
    Failed(Failure),
}

/// Sends a message on in the background; the caller answers at once that it was accepted.
///
/// # Errors
/// 503 when too many are on their way already.
pub(crate) fn start(edge: &Rc<Edge>, outgoing: Outgoing) -> Result<(), Refusal> {
    let Outgoing { to, headers, body, on_failure } = outgoing;
    begin(edge, to.participant)?;
    let (call, on_failure) = (call(edge, &to, headers, body), on_failure.map(Box::new));
    let to = to.participant;
    let edge = Rc::clone(edge);
    spawn_local(async move {
        carry(&edge, call, on_failure).await;
        end(&edge, to);
    });
    Ok(())
}

/// Sends a callback that the hub itself makes, in the background.
///
/// # Errors
/// 503 when too many messages are on their way already.
pub(crate) fn start_callback(edge: &Rc<Edge>, own: OwnMessage) -> Result<(), Refusal> {
    let to = own.to.participant;
    begin(edge, to)?;
    let edge = Rc::clone(edge);
    spawn_local(async move {
        if tell(&edge, own).await.is_none() {
            edge.counters.forwards_failed.add(1);
        }
        end(&edge, to);
    });
    Ok(())
}

/// Sends what the hub says in the place of a participant's message, in the background; when it
/// cannot be delivered, the sender of that message is told.
///
/// # Errors
/// 503 when too many messages are on their way already.
pub(crate) fn start_replacement(
    edge: &Rc<Edge>,
    own: OwnMessage,
    on_failure: Option<Complaint>,
) -> Result<(), Refusal> {
    let to = own.to.participant;
    begin(edge, to)?;
    let edge = Rc::clone(edge);
    spawn_local(async move {
        if let Some(result) = speak(&edge, own).await
            && is_failure(&result)
        {
            complain(&edge, result, on_failure.map(Box::new)).await;
        }
        end(&edge, to);
    });
    Ok(())
}

/// A callback that the hub itself makes.
pub(crate) struct OwnMessage {
    pub(crate) to: Destination,
    pub(crate) resource: Resource,
    pub(crate) trace: Trace,
    pub(crate) body: Bytes,
}

/// Headers of a message that the hub itself makes.
pub(crate) fn hub_headers(
    edge: &Edge,
    to: &Destination,
    resource: Resource,
    trace: &Trace,
) -> HeaderMap {
    let view = edge.view();
    let recipient = view.get(to.participant).map_or(view.hub, |member| member.name);
    let path = signed_path(edge, &view, to);
    callback::hub_headers(&HubMessage {
        resource,
        method: &to.method,
        path: &path,
        hub: &view.hub,
        recipient: &recipient,
        trace: trace.context,
        trace_state: trace.state.as_ref(),
        span: edge.unique(),
        now_ms: edge.wall_ms(),
    })
}

/// The path of a message of the hub's own as its signature covers it: with the query of the call,
/// which the registered address may have.
fn signed_path<'a>(edge: &Edge, view: &View, to: &'a Destination) -> Cow<'a, str> {
    let target = edge.addresses.borrow_mut().find(view, to.participant, to.endpoint).flatten();
    match target.filter(|target| target.path.contains('?')) {
        None => Cow::Borrowed(&*to.path),
        Some(target) => {
            let address = address(&target, to);
            let query = address.split_once('?').map_or("", |(_, query)| query);
            let path = to.path.split('?').next().unwrap_or_default();
            Cow::Owned(format!("{path}?{query}"))
        }
    }
}

fn address(target: &Target, to: &Destination) -> String {
    let variables: Vec<(&str, &str)> =
        to.variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    to.endpoint.address(&target.path, &variables, &to.path)
}

/// Makes a message's headers those of its forwarded form.
pub(crate) fn rewrite_headers(
    edge: &Edge,
    headers: &mut HeaderMap,
    call: (&Method, &str),
    trace: TraceContext,
    destination: Option<&FspName>,
) {
    let (method, path) = call;
    let now_ms = if headers.contains_key(http::header::DATE) { 0 } else { edge.wall_ms() };
    let span = edge.unique();
    rewrite(headers, &Forwarding { method, path, destination, trace, span, now_ms });
}

/// A message with its address, ready to be sent.
pub(crate) struct Call {
    target: Rc<Target>,
    letter: Letter,
}

impl Call {
    /// One attempt.
    pub(crate) async fn make(&mut self, edge: &Edge) -> Result<Answer, Undelivered> {
        let sent = edge.pools.send(&self.target.authority, &mut self.letter).await;
        sent.map_err(Undelivered::Failed)
    }
}

/// Addresses a message.
pub(crate) fn call(
    edge: &Edge,
    to: &Destination,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Call, Undelivered> {
    let view = edge.view();
    let target = edge.addresses.borrow_mut().find(&view, to.participant, to.endpoint);
    drop(view);
    let target = target.ok_or(Undelivered::NoEndpoint)?;
    let target = target.ok_or(Undelivered::Failed(Failure::Denied))?;
    let mut path = address(&target, to);
    if !path.starts_with('/') {
        path.insert(0, '/');
    }
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = to.method.clone();
    *request.uri_mut() = Uri::try_from(path).map_err(|_| Undelivered::Failed(Failure::Connect))?;
    *request.headers_mut() = headers;
    Ok(Call { target, letter: Letter::new(request) })
}

/// The only attempt: nobody will make another, so a connection that the peer is just closing must
/// not cost it.
async fn once(edge: &Edge, call: Result<Call, Undelivered>) -> Result<Answer, Undelivered> {
    let mut call = call?;
    call.letter.keep_spare();
    call.make(edge).await
}

fn is_failure(result: &Result<Answer, Undelivered>) -> bool {
    !result.as_ref().is_ok_and(|answer| answer.status.is_success())
}

/// One attempt, and the complaint when it fails.
async fn carry(
    edge: &Rc<Edge>,
    call: Result<Call, Undelivered>,
    on_failure: Option<Box<Complaint>>,
) {
    let result = once(edge, call).await;
    if is_failure(&result) {
        Box::pin(complain(edge, result, on_failure)).await;
    }
}

/// Counts a message that was not delivered, and tells its sender.
async fn complain(
    edge: &Rc<Edge>,
    result: Result<Answer, Undelivered>,
    on_failure: Option<Box<Complaint>>,
) {
    edge.counters.forwards_failed.add(1);
    let Some(complaint) = on_failure else { return };
    let (code, description) = explain(&result, &complaint);
    let body = callback::error(code, &description, &[]);
    let Complaint { to, resource, trace, .. } = *complaint;
    // The sender cannot be reached either: it will ask again.
    let _told = tell(edge, OwnMessage { to, resource, trace, body }).await;
}

/// Takes a place among the messages on their way. Nobody has more than a share of the places, so
/// that a recipient that says nothing leaves room for the others.
fn begin(edge: &Edge, to: ParticipantIndex) -> Result<(), Refusal> {
    let max = edge.options.forwards_max;
    let mut forwards = edge.forwards.borrow_mut();
    if !forwards.begin(to, max, max.div_ceil(SHARES)) {
        return Err(Refusal::unavailable());
    }
    edge.counters.forwards.add(1);
    Ok(())
}

fn end(edge: &Edge, to: ParticipantIndex) {
    edge.forwards.borrow_mut().end(to);
}

/// Messages on their way, in all and by recipient.
#[derive(Debug, Default)]
pub(crate) struct Forwards {
    all: usize,
    /// By the recipient's place in the register, which is small.
    each: Vec<usize>,
}

impl Forwards {
    pub(crate) fn is_empty(&self) -> bool {
        self.all == 0
    }

    /// Counts one more, unless that is too many in all or for its recipient.
    fn begin(&mut self, to: ParticipantIndex, max: usize, share: usize) -> bool {
        let place = to.0 as usize;
        if self.each.len() <= place {
            self.each.resize(place + 1, 0);
        }
        let takes = self.all < max && self.each[place] < share;
        self.all += usize::from(takes);
        self.each[place] += usize::from(takes);
        takes
    }

    fn end(&mut self, to: ParticipantIndex) {
        self.all -= 1;
        self.each[to.0 as usize] -= 1;
    }
}

/// One attempt to deliver a message of the hub's own; `None` when it failed.
async fn tell(edge: &Edge, own: OwnMessage) -> Option<()> {
    let answer = speak(edge, own).await?.ok()?;
    answer.status.is_success().then_some(())
}

/// One attempt to deliver a message of the hub's own, signed if such are; `None` when it could not
/// be signed.
async fn speak(edge: &Edge, own: OwnMessage) -> Option<Result<Answer, Undelivered>> {
    let headers = hub_headers(edge, &own.to, own.resource, &own.trace);
    let kind = (&own.to.method, own.resource);
    let (headers, body) = signatures::seal(edge, kind, headers, own.body).await?;
    Some(once(edge, call(edge, &own.to, headers, body)).await)
}

/// The error a sender hears: the one the peer answered with, or one for the way it failed
/// (hub-semantics 2.1).
fn explain(result: &Result<Answer, Undelivered>, complaint: &Complaint) -> (ErrorCode, String) {
    let is_not_found = result.as_ref().is_ok_and(|it| it.status == StatusCode::NOT_FOUND);
    if is_not_found && complaint.resource == Resource::Quotes {
        // As the reference, whatever the body says (Rulings of 2026-11-25).
        let code = ErrorCode::GENERIC_CLIENT;
        return (code, code.describe(""));
    }
    let said = result.as_ref().ok().and_then(|answer| ErrorInformation::parse(&answer.body).ok());
    if let Some(error) = said {
        let (code, description) = error.effective();
        return (code, description.into_owned());
    }
    let (code, detail) = match result {
        Err(Undelivered::NoEndpoint) => {
            (complaint.no_endpoint, "no endpoint is registered for this message")
        }
        Ok(_) if is_not_found => (ErrorCode::ID_NOT_FOUND, ""),
        Ok(Answer { status, .. }) if status.is_client_error() => (ErrorCode::GENERIC_CLIENT, ""),
        Ok(_) | Err(Undelivered::Failed(_)) => {
            (ErrorCode::DESTINATION_COMMUNICATION, "Failed to send HTTP request to host")
        }
    };
    (code, code.describe(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipient_has_a_share_of_the_places_and_no_more() {
        let (silent, other) = (ParticipantIndex(3), ParticipantIndex(0));
        let mut forwards = Forwards::default();
        let taken = (0..10).filter(|_| forwards.begin(silent, 8, 2)).count();
        assert_eq!(taken, 2, "its share");
        assert!(forwards.begin(other, 8, 2), "room is left for others");
        forwards.end(silent);
        assert!(forwards.begin(silent, 8, 2));
        let others = (10..20).filter(|&place| forwards.begin(ParticipantIndex(place), 8, 2));
        assert_eq!(others.count(), 5, "all places are taken");
        [silent, silent, other].into_iter().for_each(|it| forwards.end(it));
        (10..15).for_each(|place| forwards.end(ParticipantIndex(place)));
        assert!(forwards.is_empty());
    }
}
