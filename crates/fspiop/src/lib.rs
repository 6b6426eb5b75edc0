//! The FSPIOP wire protocol, without I/O.
//!
//! Phases of one inbound message, each a function here, in the order of the reference:
//!
//! 1. [`accept`]: path and method are matched to a [`Route`], headers checked ([`headers::check`]),
//!    identifiers decoded and checked.
//! 2. [`body`]: the body is parsed and checked, one type per kind of message
//!    (`Prepare::parse(&bytes)`), and hashed by [`body_hash()`] for the duplicate check.
//! 3. [`forwarded_headers::strip`] removes headers that end at the hub,
//!    [`forwarded_headers::rewrite`] turns the inbound headers into those of the outgoing message,
//!    both in place. [`stored_message::encode`] writes the stored form of headers and body.
//! 4. [`hub_messages`]: headers and bodies of messages from the hub.
//!
//! Every failure is a [`Refusal`]: status, code and the JSON body of the synchronous response.
//!
//! Costs: a valid message is parsed in one pass over borrowed text and takes a few microseconds.
//! Only an invalid message is read a second time, to report the first rule that failed. Bounds: see
//! [`Resource::body_bytes_max`] and [`headers::HEADER_BYTES_MAX`]; the caller enforces them while
//! reading. No input causes a panic.

#![warn(missing_docs)]

pub mod admission;
pub mod bare;
pub mod body;
mod body_hash;
pub mod bulk;
mod currency;
pub mod egress_policy;
pub mod endpoint;
mod error;
pub mod forwarded_headers;
pub mod headers;
pub mod hub_messages;
pub mod ilp;
mod json;
pub mod line_ends;
pub mod media;
pub mod oracle;
mod query;
pub mod quote_rules;
mod quote_terms;
pub mod request_head;
mod route;
pub mod route_table;
pub mod schema;
pub mod stored_message;
#[cfg(test)]
mod test_table;
pub mod time;
mod trace;
mod transaction;

use http::{HeaderMap, Method};

pub use body_hash::body_hash;
pub use currency::{is_known_currency, known_currencies};
pub use error::{DESCRIPTION_CHARS_MAX, ErrorCode, Refusal, error_body};
pub use headers::{RequestHeaders, Version};
pub use quote_terms::quote_terms;
pub use route::{
    ApiRoute, BODY_BYTES_MAX, CurrencyPair, ExchangeId, ExchangeRoute, IDENTIFIER_CHARS_MAX,
    IDENTIFIER_PATTERN, Identifier, MatchedRoute, PartyIdType, PartyPath, Resource, Route,
    TRANSFER_BODY_BYTES_MAX, TransferPath, find, is_identifier, percent_encode,
};
pub use trace::TraceContext;
pub use transaction::Transaction;

/// A request with valid path, method, headers and identifiers.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every value is the large variant")]
pub enum Accepted<'a> {
    /// `GET /health`, which needs no headers.
    Health,
    /// `DELETE /endpointcache`, which needs no headers.
    EndpointCache,
    /// A message of the API.
    Message {
        /// The requested operation.
        route: Route<'a>,
        /// Its headers.
        headers: RequestHeaders<'a>,
    },
}

/// Checks a request except for its body: path and method, headers, identifiers.
///
/// `path` may include the query.
///
/// # Errors
/// The first failure, as reported by [`find`], [`headers::check`] and [`ApiRoute::route`].
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
