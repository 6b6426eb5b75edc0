//! The participant, endpoint and path of a message that the hub sends.

use std::borrow::Cow;
use std::slice;

use bytes::Bytes;
use fspiop::egress_policy::CallTarget;
use fspiop::endpoint::EndpointType;
use fspiop::{MatchedRoute, TraceContext};
use http::{HeaderMap, Method};
use ledger::ParticipantIndex;
use traces::SpanSubject;

use crate::measurements::RequestKind;

/// Names and values for an endpoint's template.
#[derive(Clone, Debug)]
pub(crate) enum Variables {
    None,
    /// Of a transfer, without an allocation for a list.
    One((&'static str, String)),
    /// At most [`VARIABLES_MAX`].
    List(Vec<(&'static str, String)>),
}

/// Maximum number of variables of a call: type, identifier and sub-identifier of a party.
const VARIABLES_MAX: usize = 3;

impl Variables {
    fn as_slice(&self) -> &[(&'static str, String)] {
        match self {
            Self::None => &[],
            Self::One(variable) => slice::from_ref(variable),
            Self::List(variables) => variables,
        }
    }
}

/// The participant, the endpoint and the method of a call.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(crate) participant: ParticipantIndex,
    pub(crate) endpoint: EndpointType,
    pub(crate) method: Method,
    /// Path of the resource, with the query if there is one.
    pub(crate) path: Cow<'static, str>,
    pub(crate) variables: Variables,
    /// The transfer or quote of the message, for its span.
    pub(crate) subject: Option<SpanSubject>,
}

/// A message of a participant in its forwarded form.
pub(crate) struct ForwardCall {
    pub(crate) to: Destination,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// With the id of the call's span.
    pub(crate) trace: (TraceContext, u64),
}

/// The request that a call repeats: its path is that of a route.
pub(crate) fn request_of(to: &Destination) -> RequestKind {
    let path = to.path.split('?').next().unwrap_or_default();
    match fspiop::find(&to.method, path) {
        Ok(MatchedRoute::Api(api)) => {
            RequestKind { operation: api.operation(), has_sub_id: api.has_sub_id() }
        }
        found => unreachable!("a call to {} {path}, found {found:?}", to.method),
    }
}

/// The path of the call at this target.
pub(crate) fn address(target: &CallTarget, to: &Destination) -> String {
    let (known, mut variables) = (to.variables.as_slice(), [("", ""); VARIABLES_MAX]);
    for (slot, (name, value)) in variables.iter_mut().zip(known) {
        *slot = (name, value);
    }
    let count = known.len().min(VARIABLES_MAX);
    to.endpoint.address(&target.path, &variables[..count], &to.path)
}
