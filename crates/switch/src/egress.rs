//! Sends messages to participants.
//!
//! Unrecorded messages are look-ups, quotes, requests to pay, and the hub's own answers to queries.
//! Each gets one attempt. When it fails, the sender gets an error callback (hub-semantics 2.1,
//! DESIGN contract 4).
//!
//! **Shares.** A message in flight takes a slot of its recipient, and its error callback takes one
//! of the sender. The slots of a thread are divided by the rule of `share`, so that a recipient or
//! a sender that does not respond leaves slots for the others. While the circuit breaker of a
//! recipient is open (`breaker`), a message to it fails without an attempt.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use fspiop::body::ErrorInformation;
use fspiop::egress_policy::CallTarget;
use fspiop::forwarded_headers::{Forwarding, rewrite};
use fspiop::headers::TRACEPARENT;
use fspiop::hub_messages::{self, HubMessage};
use fspiop::{ErrorCode, Refusal, Resource, TraceContext};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use ledger::{FspName, Notice, ParticipantIndex};
use node::latency_trace::monotonic_ns;
use tokio::task::spawn_local;
use traces::{SpanIds, SpanStep};

use crate::breaker::{BreakerChange, Breakers};
use crate::destination::{Destination, ForwardCall, address, request_of};
use crate::directory::Directory;
use crate::failure::{Failure, SendError};
use crate::fair_share::Shares;
use crate::inbound::{Inbound, Trace};
use crate::lent_calls::LentCalls;
use crate::measurements::CallResult;
use crate::oracles::Oracles;
use crate::pool::{OutboundRequest, PeerResponse, Pools, RequestClass};
use crate::signatures::ThreadSignatures;
use crate::spans::CallSpan;
use crate::submitter::AcceptStatus;
use crate::thread::Thread;

/// The part of all slots for messages in flight that one participant may have.
const PARTS: usize = 8;

/// The error callback that a sender gets when its message is refused or could not be delivered.
pub(crate) struct FailureCallback {
    pub(crate) to: Destination,
    pub(crate) resource: Resource,
    pub(crate) trace: Trace,
    /// The code if the recipient has no endpoint.
    pub(crate) no_endpoint: ErrorCode,
}

impl FailureCallback {
    /// The callback with its reason.
    fn with(self, code: ErrorCode, description: &str) -> OwnMessage {
        let Self { to, resource, trace, .. } = self;
        OwnMessage { to, resource, trace, body: hub_messages::error(code, description, &[]) }
    }
}

/// A callback that the hub writes.
pub(crate) struct OwnMessage {
    pub(crate) to: Destination,
    pub(crate) resource: Resource,
    pub(crate) trace: Trace,
    pub(crate) body: Bytes,
}

/// Sends messages to participants from one thread.
pub(crate) struct Egress {
    pub(crate) thread: Rc<Thread>,
    pub(crate) directory: Rc<Directory>,
    pub(crate) oracles: Rc<Oracles>,
    signatures: Rc<ThreadSignatures>,
    pools: Pools,
    /// Shared by all threads.
    breakers: Arc<Breakers>,
    forwards: RefCell<Forwards>,
    shares: Shares,
    /// Calls that another thread makes, or that this one makes for others.
    pub(crate) lent: LentCalls,
}

impl Egress {
    pub(crate) fn new(
        (thread, directory, signatures): (&Rc<Thread>, &Rc<Directory>, &Rc<ThreadSignatures>),
        (pools, oracles, breakers): (Pools, Rc<Oracles>, Arc<Breakers>),
        forwards_max: usize,
        lent: LentCalls,
    ) -> Rc<Self> {
        Rc::new(Self {
            thread: Rc::clone(thread),
            directory: Rc::clone(directory),
            oracles,
            signatures: Rc::clone(signatures),
            pools,
            breakers,
            forwards: RefCell::default(),
            shares: Shares { all: forwards_max, most: forwards_max.div_ceil(PARTS) },
            lent,
        })
    }

    /// Forwards a message in the background; it is accepted at once. `named` is
    /// the destination if the sender omitted it.
    ///
    /// # Errors
    /// 503 if too many messages are in flight.
    pub(crate) fn forward(
        self: &Rc<Self>,
        inbound: Inbound,
        to: &Destination,
        named: Option<&FspName>,
        on_failure: FailureCallback,
    ) -> Result<AcceptStatus, Refusal> {
        let accepted = inbound.accepted();
        let Inbound { mut headers, body, envelope, span: request, .. } = inbound;
        let trace = (envelope.trace, self.thread.unique());
        self.rewrite_headers(&mut headers, (&to.method, &to.path), trace, named);
        let permit = ForwardPermit::take(self, to.participant, Some(&on_failure))?;
        let context = TraceContext { span_id: request.id, ..envelope.trace };
        let trace = (context, trace.1);
        let call = Box::new(ForwardCall { to: to.clone(), headers, body, trace });
        let on_failure = Box::new(on_failure);
        spawn_local(async move {
            let result = match permit.egress.lent.lend_forward(call) {
                Ok(lent) => lent.await,
                Err(call) => permit.egress.send_forward(*call).await,
            };
            let status = result.as_ref().ok().map(|answer| answer.status);
            if CallResult::of(status) == CallResult::Failed {
                Box::pin(send_failure_callback(permit, result, on_failure)).await;
            }
        });
        Ok(accepted.into())
    }

    /// The only attempt to forward a message.
    pub(crate) async fn send_forward(&self, call: ForwardCall) -> Result<PeerResponse, SendError> {
        let ForwardCall { to, headers, body, trace } = call;
        let began_ns = monotonic_ns();
        let call = self.address_message(&to, headers, body);
        let span = self.begin_span(trace, &to, &call);
        let leg = (to.participant, request_of(&to));
        let result = self.send_once(call).await;
        let ended = result.as_ref().map(|answer| answer.status);
        self.end_span(span, ended);
        self.thread.measurements.forwarded(leg, began_ns, ended);
        result
    }

    /// Accepts a message, and refuses it by callback.
    ///
    /// # Errors
    /// 503 if too many messages are in flight.
    pub(crate) fn refuse(
        self: &Rc<Self>,
        inbound: &Inbound,
        sender: FailureCallback,
        (code, description): (ErrorCode, String),
    ) -> Result<AcceptStatus, Refusal> {
        self.start_callback(sender.with(code, &description))?;
        Ok(inbound.accepted().into())
    }

    /// Sends a callback of the hub in the background.
    ///
    /// # Errors
    /// 503 if too many messages are in flight.
    pub(crate) fn start_callback(self: &Rc<Self>, own: OwnMessage) -> Result<(), Refusal> {
        let permit = ForwardPermit::take(self, own.to.participant, None)?;
        spawn_local(async move {
            if permit.egress.deliver_own(own).await.is_none() {
                permit.egress.thread.counters.forwards_failed.add(1);
            }
        });
        Ok(())
    }

    /// Sends a message of the hub in place of a participant's message, in the background. If it
    /// cannot be delivered, the sender of that message gets an error callback.
    ///
    /// # Errors
    /// 503 if too many messages are in flight.
    pub(crate) fn start_replacement(
        self: &Rc<Self>,
        own: OwnMessage,
        on_failure: FailureCallback,
    ) -> Result<(), Refusal> {
        let permit = ForwardPermit::take(self, own.to.participant, Some(&on_failure))?;
        spawn_local(async move {
            if let Some(result) = permit.egress.send_own(own).await
                && is_failure(&result)
            {
                send_failure_callback(permit, result, Box::new(on_failure)).await;
            }
        });
        Ok(())
    }

    /// Forwarded messages in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.forwards.borrow().all
    }

    /// Whether no message is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.forwards.borrow().is_empty() && self.oracles.is_idle()
    }

    /// Closes the connections whose request has timed out.
    pub(crate) fn sweep(&self) {
        self.pools.sweep();
        self.oracles.sweep();
    }

    /// Handles a change of a participant's addresses.
    pub(crate) fn address_changed(&self, participant: ParticipantIndex) {
        self.pools.address_changed(participant);
        self.report(participant, self.breakers.address_changed(participant));
    }

    /// Headers and body of a message of the hub, signed if the configuration requires it.
    /// `None` if it could not be signed. The trace comes with the id of the call's span.
    pub(crate) async fn signed(
        &self,
        (to, resource): (&Destination, Resource),
        trace: (&Trace, u64),
        body: Bytes,
    ) -> Option<(HeaderMap, Bytes)> {
        let headers = self.hub_headers(to, resource, trace);
        self.signatures.sign((to.participant, &to.method, resource), headers, body).await
    }

    fn hub_headers(
        &self,
        to: &Destination,
        resource: Resource,
        (trace, span): (&Trace, u64),
    ) -> HeaderMap {
        let view = self.directory.view();
        let recipient = view.get(to.participant).map_or(view.hub, |member| member.name);
        let path = self.signed_path(to);
        hub_messages::hub_headers(&HubMessage {
            resource,
            method: &to.method,
            path: &path,
            hub: &view.hub,
            recipient: &recipient,
            trace: trace.context,
            trace_state: trace.state.as_ref(),
            span,
            now_ms: self.thread.wall_ms(),
        })
    }

    /// The path of a message of the hub as its signature covers it: with the query of the
    /// call, which the registered address may have.
    fn signed_path<'a>(&self, to: &'a Destination) -> Cow<'a, str> {
        let target = self.directory.target(to.participant, to.endpoint).flatten();
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

    /// Rewrites a message's headers to their forwarded form.
    pub(crate) fn rewrite_headers(
        &self,
        headers: &mut HeaderMap,
        (method, path): (&Method, &str),
        (trace, span): (TraceContext, u64),
        destination: Option<&FspName>,
    ) {
        let is_dated = headers.contains_key(http::header::DATE);
        let now_ms = if is_dated { 0 } else { self.thread.wall_ms() };
        rewrite(headers, &Forwarding { method, path, destination, trace, span, now_ms });
    }

    /// Addresses a message.
    pub(crate) fn address_message(
        &self,
        to: &Destination,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<AddressedMessage, SendError> {
        let target = self.directory.target(to.participant, to.endpoint);
        let target = target.ok_or(SendError::NoEndpoint)?;
        let target = target.ok_or(SendError::Unusable)?;
        let mut path = address(&target, to);
        if !path.starts_with('/') {
            path.insert(0, '/');
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = to.method.clone();
        *request.uri_mut() = Uri::try_from(path).map_err(|_| SendError::Unusable)?;
        *request.headers_mut() = headers;
        let request = OutboundRequest::new(request);
        Ok(AddressedMessage { to: to.participant, target, request, parent: None })
    }

    /// One attempt. Any HTTP response shows that the participant responds.
    pub(crate) async fn send(
        &self,
        call: &mut AddressedMessage,
        usage: RequestClass,
    ) -> Result<PeerResponse, Failure> {
        let to = (call.to, &*call.target);
        let answer = self.pools.send(to, usage, &mut call.request).await?;
        self.report(call.to, self.breakers.answered(call.to));
        Ok(answer)
    }

    /// The only attempt, so it must not fail because the peer is just closing a connection. No
    /// attempt is made while the recipient's breaker is open.
    async fn send_once(
        &self,
        call: Result<AddressedMessage, SendError>,
    ) -> Result<PeerResponse, SendError> {
        let mut call = call?;
        let breaker_permit = self.breakers.admit(call.to, self.thread.moment());
        let breaker_permit = breaker_permit.ok_or(SendError::Failed(Failure::NotAnswering))?;
        call.request.keep_spare();
        let usage =
            if breaker_permit.is_probe() { RequestClass::Probe } else { RequestClass::Forward };
        let result = self.send(&mut call, usage).await;
        if result.as_ref().is_err_and(|failure| failure.is_silence()) {
            self.report(call.to, breaker_permit.failed(self.thread.moment()));
        }
        result.map_err(SendError::Failed)
    }

    /// One attempt to deliver a message of the hub; `None` if it failed.
    async fn deliver_own(&self, own: OwnMessage) -> Option<()> {
        let answer = self.send_own(own).await?.ok()?;
        answer.status.is_success().then_some(())
    }

    /// One attempt to deliver a message of the hub, signed if the configuration requires it; `None`
    /// if it could not be signed.
    async fn send_own(&self, own: OwnMessage) -> Option<Result<PeerResponse, SendError>> {
        let OwnMessage { to, resource, trace, body } = own;
        let span = self.thread.unique();
        let (headers, body) = self.signed((&to, resource), (&trace, span), body).await?;
        let call = self.address_message(&to, headers, body);
        let mut span = self.begin_span((trace.context, span), &to, &call);
        if let Some(span) = &mut span {
            // The hub's own error is the result of a refused or failed message.
            span.reports_failure = to.path.ends_with("/error");
        }
        let result = self.send_once(call).await;
        self.end_span(span, result.as_ref().map(|answer| answer.status));
        Some(result)
    }

    /// The span of a call; `None` if spans are not exported. The parent is in the trace.
    fn begin_span(
        &self,
        (trace, span): (TraceContext, u64),
        to: &Destination,
        call: &Result<AddressedMessage, SendError>,
    ) -> Option<Box<CallSpan>> {
        let spans = &self.thread.spans;
        spans.is_on().then(|| {
            let step = SpanStep::Forward(request_of(to).operation);
            let ids = SpanIds { trace: trace.trace_id, span, parent: trace.span_id };
            let target = call.as_ref().ok().map(|call| Rc::clone(&call.target));
            let is_sampled = spans.samples(&trace);
            let step = (step, to.subject);
            Box::new(CallSpan::new((ids, is_sampled), step, (to.participant, target)))
        })
    }

    /// The span of an attempt to deliver a notice, whose `traceparent` names the call. Without a
    /// parent it names the parent; the call then gets an id of its own.
    pub(crate) fn begin_attempt(
        &self,
        (notice, number): (&Notice, u32),
        call: &mut AddressedMessage,
    ) -> Option<Box<CallSpan>> {
        let spans = &self.thread.spans;
        if !spans.is_on() {
            return None;
        }
        let headers = call.request.headers_mut()?;
        let context = TraceContext::parse(headers.get(&TRACEPARENT)?.as_bytes())?;
        let is_sampled = spans.samples(&context);
        let (span, parent) = match call.parent {
            Some(parent) => (context.span_id, parent),
            None => (self.thread.unique(), context.span_id),
        };
        if is_sampled {
            headers.insert(&TRACEPARENT, context.child(span));
        }
        let ids = SpanIds { trace: context.trace_id, span, parent };
        let to = (call.to, Some(Rc::clone(&call.target)));
        Some(Box::new(CallSpan::of_notice((ids, is_sampled), notice, number, to)))
    }

    /// Writes the span of a call that has ended now.
    pub(crate) fn end_span(
        &self,
        span: Option<Box<CallSpan>>,
        result: Result<StatusCode, &SendError>,
    ) {
        if let Some(span) = span {
            let view = self.directory.view();
            let name = view.get(span.participant()).map(|member| member.name);
            self.thread.spans.call(*span, name, result);
        }
    }

    /// Informs the operator that a circuit breaker has opened or closed.
    fn report(&self, participant: ParticipantIndex, change: BreakerChange) {
        if change == BreakerChange::None {
            return;
        }
        let view = self.directory.view();
        let participant = view.get(participant).map_or("?", |member| member.name.as_str());
        match change {
            BreakerChange::None => {}
            BreakerChange::Opened => tracing::warn!(
                participant,
                "circuit breaker opened: no HTTP answer to several forwards in a row"
            ),
            BreakerChange::Closed => tracing::info!(participant, "circuit breaker closed"),
        }
    }
}

/// A message with its address, ready to be sent.
pub(crate) struct AddressedMessage {
    to: ParticipantIndex,
    target: Rc<CallTarget>,
    request: OutboundRequest,
    /// The parent of the call's span, if `traceparent` already names that span.
    pub(crate) parent: Option<u64>,
}

fn is_failure(result: &Result<PeerResponse, SendError>) -> bool {
    !result.as_ref().is_ok_and(|answer| answer.status.is_success())
}

/// Counts an undelivered message, and sends its sender the error callback, which takes over the
/// message's slot.
async fn send_failure_callback(
    mut permit: ForwardPermit,
    result: Result<PeerResponse, SendError>,
    failure_callback: Box<FailureCallback>,
) {
    permit.egress.thread.counters.forwards_failed.add(1);
    let (code, description) = error_of(&result, &failure_callback);
    permit.move_to(failure_callback.to.participant);
    // The sender cannot be reached either; it will retry.
    let _delivered = permit.egress.deliver_own(failure_callback.with(code, &description)).await;
}

/// A slot for a message in flight, until it is dropped.
struct ForwardPermit {
    egress: Rc<Egress>,
    to: ParticipantIndex,
}

impl ForwardPermit {
    /// Takes a slot of the recipient. The sender must have a free slot, too, for the error
    /// callback.
    fn take(
        egress: &Rc<Egress>,
        to: ParticipantIndex,
        on_failure: Option<&FailureCallback>,
    ) -> Result<Self, Refusal> {
        let sender = on_failure.map(|failure_callback| failure_callback.to.participant);
        if !egress.forwards.borrow_mut().begin(egress.shares, to, sender) {
            return Err(Refusal::unavailable());
        }
        egress.thread.counters.forwards.add(1);
        Ok(Self { egress: Rc::clone(egress), to })
    }

    /// Moves the slot to another participant.
    fn move_to(&mut self, to: ParticipantIndex) {
        self.egress.forwards.borrow_mut().move_slot(self.to, to);
        self.to = to;
    }
}

impl Drop for ForwardPermit {
    fn drop(&mut self) {
        self.egress.forwards.borrow_mut().end(self.to);
    }
}

/// Messages in flight, in total and by the participant that they wait for.
#[derive(Debug, Default)]
pub(crate) struct Forwards {
    all: usize,
    /// By index in the registry, which is small.
    each: Vec<usize>,
}

impl Forwards {
    pub(crate) fn is_empty(&self) -> bool {
        self.all == 0
    }

    /// Adds one, unless that exceeds the limit of its recipient or its sender.
    fn begin(
        &mut self,
        shares: Shares,
        to: ParticipantIndex,
        sender: Option<ParticipantIndex>,
    ) -> bool {
        let allows = |one: ParticipantIndex| {
            shares.allows(self.all, self.each.get(one.at()).copied().unwrap_or(0))
        };
        let takes = allows(to) && sender.is_none_or(allows);
        if takes {
            self.all += 1;
            *self.count(to) += 1;
        }
        takes
    }

    fn move_slot(&mut self, from: ParticipantIndex, to: ParticipantIndex) {
        *self.count(from) -= 1;
        *self.count(to) += 1;
    }

    fn end(&mut self, to: ParticipantIndex) {
        self.all -= 1;
        *self.count(to) -= 1;
    }

    fn count(&mut self, of: ParticipantIndex) -> &mut usize {
        if self.each.len() <= of.at() {
            self.each.resize(of.at() + 1, 0);
        }
        &mut self.each[of.at()]
    }
}

/// The error in the sender's callback: that of the peer's response, or one for the kind of failure
/// (hub-semantics 2.1).
fn error_of(
    result: &Result<PeerResponse, SendError>,
    failure_callback: &FailureCallback,
) -> (ErrorCode, String) {
    let is_not_found = result.as_ref().is_ok_and(|it| it.status == StatusCode::NOT_FOUND);
    if is_not_found && matches!(failure_callback.resource, Resource::Quotes | Resource::BulkQuotes)
    {
        // As in the reference, regardless of the body (Rulings of 2026-11-25).
        let code = ErrorCode::GENERIC_CLIENT;
        return (code, code.describe(""));
    }
    let error = result.as_ref().ok().and_then(|answer| ErrorInformation::parse(&answer.body).ok());
    if let Some(error) = error {
        let (code, description) = error.effective();
        return (code, description.into_owned());
    }
    let (code, detail) = match result {
        Err(SendError::NoEndpoint) => {
            (failure_callback.no_endpoint, "no endpoint is registered for this message")
        }
        Ok(_) if is_not_found => (ErrorCode::ID_NOT_FOUND, ""),
        Ok(PeerResponse { status, .. }) if status.is_client_error() => {
            (ErrorCode::GENERIC_CLIENT, "")
        }
        Err(SendError::Failed(Failure::NotAnswering)) => {
            (ErrorCode::DESTINATION_COMMUNICATION, "The recipient is not answering")
        }
        Ok(_) | Err(SendError::Failed(_) | SendError::Unusable) => {
            (ErrorCode::DESTINATION_COMMUNICATION, "Failed to send HTTP request to host")
        }
    };
    (code, code.describe(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: Shares = Shares { all: 64, most: 64 / PARTS };
    const SILENT: ParticipantIndex = ParticipantIndex(3);
    const SENDER: ParticipantIndex = ParticipantIndex(7);
    const OTHER: ParticipantIndex = ParticipantIndex(0);

    /// The number of 100 messages that get a slot.
    fn taken(forwards: &mut Forwards, to: ParticipantIndex, from: ParticipantIndex) -> usize {
        (0..100).filter(|_| forwards.begin(SHARES, to, Some(from))).count()
    }

    #[test]
    fn silent_recipients_leave_places_for_others() {
        let mut forwards = Forwards::default();
        for permit in 10..18 {
            assert!(0 < taken(&mut forwards, ParticipantIndex(permit), SENDER), "{permit}");
        }
        assert!(forwards.all < SHARES.all, "the rule leaves some free");
        assert!(0 < taken(&mut forwards, OTHER, SENDER), "another recipient finds room");
    }

    #[test]
    fn an_error_callback_takes_a_place_of_the_sender_and_frees_that_of_the_recipient() {
        let mut forwards = Forwards::default();
        let of_silent = taken(&mut forwards, SILENT, SENDER);
        assert_eq!(taken(&mut forwards, SILENT, OTHER), 0, "its share");
        (0..of_silent).for_each(|_| forwards.move_slot(SILENT, SENDER));
        assert!(!forwards.begin(SHARES, SILENT, Some(SENDER)), "the sender has its share");
        assert!(!forwards.begin(SHARES, SENDER, None), "as a recipient too");
        assert!(forwards.begin(SHARES, SILENT, Some(OTHER)), "others still reach the recipient");
        forwards.end(SILENT);
        (0..of_silent).for_each(|_| forwards.end(SENDER));
        assert!(forwards.is_empty());
        assert_eq!(forwards.each.iter().sum::<usize>(), 0);
    }
}
