//! The wire protocol of FSPIOP, without input or output.
//!
//! Phases of one inbound message, each a function here, in the order the reference applies them:
//!
//! 1. [`accept`]: path and method to a [`Route`], headers checked ([`headers::check`]),
//!    identifiers decoded and checked.
//! 2. [`body`]: the body parsed and checked, one type per kind of message
//!    (`Prepare::parse(&bytes)`), and [`significant_hash`] for the duplicate check.
//! 3. [`forward::strip`] removes what ends at the hub, and [`forward::rewrite`] makes the inbound
//!    headers those of the outgoing message, both in place;
//!    [`payload::encode`] gives the form in which headers and body are stored.
//! 4. [`callback`]: headers and bodies of the messages the hub makes itself.
//!
//! Whatever fails is a [`Refusal`]: status, code and the JSON body of the synchronous answer.
//!
//! Costs: a good message is parsed in one pass over borrowed text and costs a few microseconds;
//! only a message that fails is looked at a second time, to word which rule failed first.
//! Bounds: see [`Resource::body_bytes_max`] and [`headers::HEADER_BYTES_MAX`]; the caller
//! enforces them while reading. Nothing here panics on any input.

#![warn(missing_docs)]

pub mod admission;
pub mod bare;
pub mod body;
mod body_hash;
mod currency;
pub mod egress_policy;
pub mod endpoint;
mod error;
pub mod forwarded_headers;
pub mod headers;
pub mod hub_messages;
mod json;
pub mod line_ends;
pub mod media;
mod query;
pub mod request_head;
mod route;
pub mod routes;
pub mod schema;
pub mod stored_message;
#[cfg(test)]
mod text;
pub mod time;
mod trace;

use http::{HeaderMap, Method};

pub use body_hash::body_hash;
pub use currency::{is_known_currency, known_currencies};
pub use error::{DESCRIPTION_CHARS_MAX, ErrorCode, Refusal, error_body};
pub use headers::{RequestHeaders, Version};
pub use route::{
    ApiRoute, BODY_BYTES_MAX, IDENTIFIER_CHARS_MAX, IDENTIFIER_PATTERN, Identifier, MatchedRoute,
    PartyIdType, PartyPath, Resource, Route, TRANSFER_BODY_BYTES_MAX, TransferPath, find,
    is_identifier, percent_encode,
};
pub use trace::TraceContext;

/// A request whose path, method, headers and identifiers are good.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every value is the large variant")]
pub enum Accepted<'a> {
    /// `GET /health`, for which no header is asked.
    Health,
    /// `DELETE /endpointcache`, for which no header is asked.
    EndpointCache,
    /// A message of the API.
    Message {
        /// What it asks for.
        route: Route<'a>,
        /// What its headers say.
        headers: RequestHeaders<'a>,
    },
}

/// Checks everything of a request but its body: path and method, headers, identifiers.
///
/// `path` may carry the query.
///
/// # Errors
/// The first failure, as [`find`], [`headers::check`] and [`ApiRoute::route`] word it.
pub fn accept<'a>(
    method: &Method,
    path: &'a str,
    headers: &'a HeaderMap,
) -> Result<Accepted<'a>, Refusal> {
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path, None),
    };
    let api = match find(method, path)? {
        MatchedRoute::Health => return Ok(Accepted::Health),
        MatchedRoute::EndpointCache => return Ok(Accepted::EndpointCache),
        MatchedRoute::Api(api) => api,
    };
    let headers = headers::check(headers, method, api.resource().as_str())?;
    Ok(Accepted::Message { route: api.route(query)?, headers })
}
