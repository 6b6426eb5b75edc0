//! The processing of a request without sockets: path, headers, identifiers and body are checked,
//! the command is built, the headers are rewritten, and the result is stored.

use bytes::Bytes;
use fspiop::body::fsp_id;
use fspiop::forwarded_headers::{Forwarding, rewrite, strip};
use fspiop::headers::{
    FSPIOP_DESTINATION, FSPIOP_HTTP_METHOD, FSPIOP_PROXY, FSPIOP_SIGNATURE, FSPIOP_SOURCE,
    FSPIOP_URI, HEADER_BYTES_MAX, RequestHeaders, TRACEPARENT, TRACESTATE, is_identity,
};
use fspiop::time::is_http_date;
use fspiop::{
    Accepted, ExchangeRoute, Identifier, MatchedRoute, Refusal, Resource, Route, TraceContext,
    accept,
};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, DATE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use ledger::{Command, FspName};
use record::command::{FIELDS_VERSION, read_fields, write_fields};
use switch::{Envelope, command_of};

use crate::endpoint::check_segment;
use crate::{fixture, refusal, schema, stored};

/// Header lines of one request, as many as the server takes.
const HEADERS_MAX: usize = 128;

/// A request as text: a line with method and target, lines of headers, an empty line, the body.
/// Requests that the HTTP parser would refuse are skipped.
pub fn request(data: &[u8]) {
    let (head, body) = split(data);
    let Some((method, uri, headers)) = parse(head) else { return };
    let path = uri.path();
    let target = uri.path_and_query().map_or(path, PathAndQuery::as_str);
    let found = accept(&method, target, &headers);
    let again = accept(&method, target, &headers);
    assert_eq!(format!("{found:?}"), format!("{again:?}"), "the same head gives the same");
    match found {
        Err(refused) => check_refusal(&refused),
        Ok(Accepted::Health | Accepted::EndpointCache) => (),
        Ok(Accepted::Message { route, headers: found }) => {
            check_headers(&headers, &found);
            check_route(&method, &uri, &route);
            message(&method, path, &route, &found, &headers, body);
        }
    }
}

/// Head and body, which an empty line parts.
pub(crate) fn split(data: &[u8]) -> (&[u8], &[u8]) {
    let at = data.windows(2).position(|pair| pair == b"\n\n");
    at.map_or((data, b""), |at| (&data[..at], &data[at + 2..]))
}

fn parse(head: &[u8]) -> Option<(Method, Uri, HeaderMap)> {
    let mut lines = head.split(|byte| *byte == b'\n');
    let mut words = lines.next()?.splitn(2, |byte| *byte == b' ');
    let method = Method::from_bytes(words.next()?).ok()?;
    let uri = Uri::try_from(words.next()?).ok()?;
    let mut headers = HeaderMap::new();
    for line in lines.take(HEADERS_MAX) {
        let at = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..at]).ok()?;
        let value = HeaderValue::from_bytes(line[at + 1..].trim_ascii()).ok()?;
        headers.append(name, value);
    }
    let length: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    (length <= HEADER_BYTES_MAX).then_some((method, uri, headers))
}

fn check_refusal(refused: &Refusal) {
    refusal::check(refused);
    let code = refused.code.number();
    let expected = match refused.status.as_u16() {
        400 => (3100..=3103).contains(&code),
        404 => code == 3002,
        405 => code == 3000,
        415 => code == 3101,
        406 => code == 3001 && !refused.extensions.is_empty(),
        501 => code == 2002,
        _ => false,
    };
    assert!(expected, "a head is not refused like this: {refused}");
}

/// Each parsed value occurs in the request exactly once.
fn check_headers(headers: &HeaderMap, found: &RequestHeaders<'_>) {
    let only = |name: &HeaderName| {
        let mut values = headers.get_all(name).iter();
        let value = values.next().map(HeaderValue::as_bytes);
        assert!(values.next().is_none(), "{name} was accepted twice");
        value
    };
    let sent = |name| {
        let value = only(name).filter(|value| !value.is_empty())?;
        fsp_id(std::str::from_utf8(value).expect("a name is text"))
    };
    assert_eq!(sent(&FSPIOP_SOURCE), Some(found.source));
    assert_eq!(sent(&FSPIOP_DESTINATION), found.destination);
    assert_eq!(sent(&FSPIOP_PROXY), found.proxy);
    assert_eq!(only(&FSPIOP_SIGNATURE), found.signature.map(HeaderValue::as_bytes));
    let version = format!("version={}", found.version.as_str());
    let content_type = only(&CONTENT_TYPE).map(String::from_utf8_lossy).unwrap_or_default();
    let content_type = content_type.replace(['"', '\\'], "").to_ascii_lowercase();
    assert!(content_type.contains(&version));
    assert!(headers.get_all(CONTENT_ENCODING).iter().all(|it| is_identity(it.as_bytes())));
    only(&AUTHORIZATION);
    assert!(only(&DATE).is_some_and(is_http_date));
    let trace = only(&TRACEPARENT).and_then(TraceContext::parse);
    assert_eq!(trace.is_some(), found.trace.is_some());
}

/// Identifiers fill their segments, and the path leads back to the same route.
fn check_route(method: &Method, uri: &Uri, route: &Route<'_>) {
    let path = uri.path();
    for (name, identifier) in identifiers(route) {
        check_segment(name, identifier.raw);
        assert!(!matches!(&*identifier.text, "." | ".."), "{name} means another place");
        assert!((1..=128).contains(&identifier.text.chars().count()));
        let encoded = fspiop::percent_encode(&identifier.text);
        let encoded: Uri = format!("/{encoded}").parse().expect("it is fit for a path");
        assert_eq!(encoded.path().matches('/').count(), 1);
    }
    let _uri: Uri = path.parse().expect("a path is forwarded as it came");
    let Ok(MatchedRoute::Api(again)) = fspiop::find(method, path) else {
        panic!("the path has been found before");
    };
    assert_eq!(again.route(uri.query()).as_ref(), Ok(route));
    if let Route::TransfersGet(transfer)
    | Route::TransfersPut(transfer)
    | Route::TransfersError(transfer) = route
        && let Some(id) = transfer.id
    {
        assert_eq!(id.to_string(), transfer.name.text, "an id is its text");
    }
    if let Route::Exchange(ExchangeRoute { resource, id: Some(exchange), .. }) = route {
        let text = &exchange.name.text;
        let is_quote = matches!(resource, Resource::Quotes | Resource::BulkQuotes);
        let is_valid = schema::takes("CorrelationId", text);
        assert!(is_valid || !is_quote, "a quote's id has the form of one");
        assert_eq!(exchange.id.map(|id| id.to_string()), is_valid.then(|| text.to_string()));
    }
}

fn identifiers<'r, 'a>(route: &'r Route<'a>) -> Vec<(&'static str, &'r Identifier<'a>)> {
    match route {
        Route::ParticipantsGet(party)
        | Route::ParticipantsPost(party)
        | Route::ParticipantsPut(party)
        | Route::ParticipantsError(party)
        | Route::ParticipantsDelete(party)
        | Route::PartiesGet(party)
        | Route::PartiesPut(party)
        | Route::PartiesError(party) => {
            let sub_id = party.sub_id.as_ref().map(|sub_id| ("SubId", sub_id));
            [("ID", &party.id)].into_iter().chain(sub_id).collect()
        }
        Route::Exchange(route) => route.id.iter().map(|id| ("ID", &id.name)).collect(),
        Route::TransfersGet(path)
        | Route::TransfersPut(path)
        | Route::TransfersError(path)
        | Route::BulkTransfersGet(path)
        | Route::BulkTransfersPut(path)
        | Route::BulkTransfersError(path) => vec![("ID", &path.name)],
        Route::ParticipantsBatch
        | Route::TransfersPost
        | Route::BulkTransfersPost
        | Route::ServicesGet(_) => Vec::new(),
    }
}

fn message(
    method: &Method,
    path: &str,
    route: &Route<'_>,
    found: &RequestHeaders<'_>,
    headers: &HeaderMap,
    body: &[u8],
) {
    let trace = found.trace.unwrap_or(TraceContext::new([7; 16]));
    let envelope = Envelope {
        source: found.source,
        destination: found.destination,
        version: found.version,
        trace,
        through_proxy: found.proxy.is_some(),
    };
    let forwarded = forward(method, path, headers, trace, found.destination.as_ref());
    match command_of(route, &envelope, body, || None) {
        Err(refused) => check_refusal(&refused),
        Ok(None) => (),
        Ok(Some(command)) => check_command(&command, &envelope, &forwarded, body),
    }
    stored::stored_again(&forwarded, body);
}

/// Rewrites the headers and holds them against what a forwarded message keeps.
fn forward(
    method: &Method,
    path: &str,
    inbound: &HeaderMap,
    trace: TraceContext,
    destination: Option<&FspName>,
) -> HeaderMap {
    let with = Forwarding { method, path, destination, trace, span: 9, now_ms: 0 };
    let mut outgoing = inbound.clone();
    strip(&mut outgoing);
    rewrite(&mut outgoing, &with);
    for name in [&FSPIOP_SOURCE, &FSPIOP_SIGNATURE, &CONTENT_TYPE, &DATE, &FSPIOP_PROXY] {
        assert_eq!(outgoing.get(name), inbound.get(name), "{name} is forwarded as it came");
    }
    for name in [&FSPIOP_URI, &FSPIOP_HTTP_METHOD, &FSPIOP_DESTINATION] {
        if let Some(value) = inbound.get(name).filter(|value| !value.is_empty()) {
            assert_eq!(outgoing.get(name), Some(value), "{name} is forwarded as it came");
        }
    }
    for name in [
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "host",
        "content-length",
        "expect",
        "proxy-authorization",
    ] {
        assert!(!outgoing.contains_key(name), "{name} belongs to one connection");
    }
    for name in [
        "authorization",
        "cookie",
        "x-client-id",
        "x-forwarded-for",
        "x_forwarded_for",
        "forwarded",
        "via",
        "x-authorization",
    ] {
        assert!(!outgoing.contains_key(name), "{name} ends at the hub");
    }
    assert!(*method != Method::PUT || !outgoing.contains_key(ACCEPT), "no Accept on PUT");
    let parent = outgoing.get(&TRACEPARENT).map(HeaderValue::as_bytes);
    let parent = parent.and_then(TraceContext::parse).expect("a message belongs to a trace");
    let child = TraceContext { span_id: with.span, ..trace };
    assert_eq!(parent, child, "the trace continues with the hub's span as parent");
    assert!(outgoing.contains_key(&TRACESTATE));
    let mut again = outgoing.clone();
    strip(&mut again);
    rewrite(&mut again, &with);
    assert_eq!(again, outgoing, "a second rewrite changes nothing");
    outgoing
}

/// A command has the values of its message, fits into a record, and is read back from it.
fn check_command(command: &Command, envelope: &Envelope, headers: &HeaderMap, body: &[u8]) {
    let hash = fspiop::body_hash(body);
    let (source, trace) = match command {
        Command::Prepare(prepare) => {
            assert_eq!(prepare.hash.0, hash);
            (prepare.source, prepare.trace)
        }
        Command::Fulfil(fulfil) => {
            assert_eq!(fulfil.hash.0, hash);
            (fulfil.source, fulfil.trace)
        }
        Command::Abort(abort) => {
            assert_eq!(abort.hash.0, hash);
            (abort.source, abort.trace)
        }
        Command::PrepareBulk(bulk) => {
            assert_eq!(bulk.hash.0, hash);
            (bulk.source, bulk.trace)
        }
        Command::FulfilBulk(bulk) => {
            assert_eq!(bulk.hash.0, hash);
            (bulk.source, bulk.trace)
        }
        Command::AbortBulk(bulk) => {
            assert_eq!(bulk.hash.0, hash);
            (bulk.source, bulk.trace)
        }
        Command::ChangeParties(change) => (change.source, change.trace),
        other => panic!("no message becomes {other:?}"),
    };
    assert_eq!((source, trace), (envelope.source, envelope.trace.trace_id));
    let mut payload = Vec::new();
    fspiop::stored_message::encode(headers, body, &mut payload);
    assert!(fspiop::stored_message::decode(&Bytes::from(payload.clone())).is_ok());
    let record = sequencer::encode(command, Some(&payload));
    assert!(record.is_ok(), "a message within its bounds fits into a record");
    let mut fields = Vec::new();
    write_fields(command, &mut fields);
    let again = read_fields(command.number(), FIELDS_VERSION, &fields);
    assert_eq!(again.as_ref(), Ok(command), "a command is read back");
    // The kernel asserts its own invariants; a resend meets what the first one left.
    let mut kernel = fixture::scheme();
    for _ in 0..2 {
        kernel.decide(command);
    }
}
