//! Trace propagation: the headers `traceparent` and `tracestate` of W3C Trace Context.

use std::fmt::{self, Display, Formatter};
use std::hash::{BuildHasher, RandomState};

use crate::{ReceivedMessage, Record};

const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";

/// The trace that a message belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: u128,
    /// The span that has sent the message.
    span_id: u64,
    flags: u8,
    /// The values of vendors, as they arrived.
    state: Option<String>,
}

impl TraceContext {
    /// A new trace, without the flag `sampled` unless asked for.
    #[must_use]
    pub fn begin(is_sampled: bool) -> Self {
        let trace_id = u128::from(random()) << 64 | u128::from(random());
        Self { trace_id, span_id: random(), flags: is_sampled.into(), state: None }
    }

    /// Reads a header `traceparent`. `None` if it is not valid.
    #[must_use]
    pub fn parse(parent: &str) -> Option<Self> {
        let mut parts = parent.trim().split('-');
        let mut hex = |length: usize| {
            let part = parts.next().filter(|part| part.len() == length)?;
            let is_hex = part.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
            is_hex.then_some(part)
        };
        let (version, trace_id, span_id, flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
        // Later versions may have more parts.
        if version == "ff" || version == "00" && parts.next().is_some() {
            return None;
        }
        let trace_id = u128::from_str_radix(trace_id, 16).ok().filter(|id| *id != 0)?;
        let span_id = u64::from_str_radix(span_id, 16).ok().filter(|id| *id != 0)?;
        let flags = u8::from_str_radix(flags, 16).ok()? & 1;
        Some(Self { trace_id, span_id, flags, state: None })
    }

    /// The trace of a message that is being handled; `None` without a valid header.
    #[must_use]
    pub fn of(message: &ReceivedMessage<'_>) -> Option<Self> {
        let parsed = Self::parse(message.header(PARENT)?)?;
        Some(Self { state: message.header(STATE).map(str::to_owned), ..parsed })
    }

    /// The context of the next span of the same trace.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { span_id: random(), ..self.clone() }
    }

    /// Whether the trace is recorded.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }
}

impl Display for TraceContext {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

impl Record {
    /// The same in a trace. Its headers replace those of an earlier call.
    #[must_use]
    pub fn traced(mut self, context: &TraceContext) -> Self {
        self.headers.retain(|(name, _)| ![PARENT, STATE].contains(&name.as_str()));
        self.headers.push((PARENT.to_owned(), context.to_string().into_bytes()));
        if let Some(state) = &context.state {
            self.headers.push((STATE.to_owned(), state.clone().into_bytes()));
        }
        self
    }
}

/// A random number above zero. The standard library draws the keys of its hash maps.
fn random() -> u64 {
    RandomState::new().hash_one(0_u8).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT_TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn parents_are_read_as_written() {
        let context = TraceContext::parse(PARENT_TEXT).expect("valid");
        assert!(context.is_sampled());
        assert_eq!(context.to_string(), PARENT_TEXT);
        for text in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceContext::parse(text), None, "{text}");
        }
        let later = format!("01{}-more", &PARENT_TEXT[2..]);
        assert!(TraceContext::parse(&later).is_some());
    }

    #[test]
    fn children_stay_in_their_trace() {
        let parent = TraceContext::begin(true);
        let child = parent.child();
        assert_eq!((child.trace_id, child.flags), (parent.trace_id, 1));
        assert_ne!(child.span_id, parent.span_id);
        let record = Record::to("topic", Vec::new()).traced(&parent).traced(&child);
        assert_eq!(record.headers, [("traceparent".to_owned(), child.to_string().into_bytes())]);
    }
}
