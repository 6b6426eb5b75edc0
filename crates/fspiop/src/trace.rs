//! W3C trace context: the id by which partners match a callback with their request.

use std::fmt;

use http::HeaderValue;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// The content of a `traceparent` header: the trace of a message, its parent, and its flags.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// Trace id; not zero in a parsed context.
    pub trace_id: [u8; 16],
    /// Id of the sender's span, the parent of the receiver's; 0 in a new trace.
    pub span_id: u64,
    /// Trace flags; bit 0 is "sampled".
    pub flags: u8,
}

/// The flag of a sampled trace.
const SAMPLED: u8 = 1;

impl TraceContext {
    /// A context for a message without one. `trace_id` is random, chosen by the caller.
    #[must_use]
    pub const fn new(trace_id: [u8; 16]) -> Self {
        Self { trace_id, span_id: 0, flags: SAMPLED }
    }

    /// Whether the sender may have recorded its span.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Whether it is of a message with a valid `traceparent`, not a new trace.
    #[must_use]
    pub const fn has_parent(&self) -> bool {
        self.span_id != 0
    }

    /// Parses `00-<trace>-<span>-<flags>`; later versions may carry more fields after these.
    ///
    /// `None` for a value that W3C calls invalid. The message is then treated like one without it.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (head, rest) = value.split_at_checked(55)?;
        let dashes = head[2] == b'-' && head[35] == b'-' && head[52] == b'-';
        let version: [u8; 1] = hex(&head[..2])?;
        let extended = version != [0] && rest.first() == Some(&b'-');
        if !dashes || version == [0xff] || !(rest.is_empty() || extended) {
            return None;
        }
        let trace_id: [u8; 16] = hex(&head[3..35])?;
        let span_id = u64::from_be_bytes(hex(&head[36..52])?);
        let [flags] = hex(&head[53..])?;
        (trace_id != [0; 16] && span_id != 0).then_some(Self { trace_id, span_id, flags })
    }

    /// The `traceparent` value of a child span with id `span`. A zero span, which W3C forbids, is
    /// written as 1.
    #[must_use]
    pub fn child(&self, span: u64) -> HeaderValue {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        put_hex(&mut text[3..35], &self.trace_id);
        put_hex(&mut text[36..52], &span.max(1).to_be_bytes());
        put_hex(&mut text[53..], &[self.flags]);
        HeaderValue::from_bytes(&text).expect("hexadecimal is visible ASCII")
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.trace_id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The `tracestate` value of a trace without another one: `upesi=<span>`.
pub(crate) fn state(span: u64) -> HeaderValue {
    let mut text = *b"upesi=0000000000000000";
    put_hex(&mut text[6..], &span.max(1).to_be_bytes());
    HeaderValue::from_bytes(&text).expect("hexadecimal is visible ASCII")
}

/// The value of each hexadecimal digit in lower case; 255 for any other byte.
static DIGITS: [u8; 256] = {
    let mut digits = [u8::MAX; 256];
    let mut value = 0;
    while value < 16 {
        digits[HEX[value] as usize] = value as u8;
        value += 1;
    }
    digits
};

fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let (pairs, _) = text.as_chunks::<2>();
    let (mut out, mut all) = ([0; N], 0);
    for (slot, pair) in out.iter_mut().zip(pairs) {
        let [high, low] = pair.map(|byte| DIGITS[usize::from(byte)]);
        *slot = high << 4 | low;
        all |= high | low;
    }
    (all < 16).then_some(out)
}

fn put_hex(slot: &mut [u8], bytes: &[u8]) {
    for (pair, byte) in slot.chunks_exact_mut(2).zip(bytes) {
        pair[0] = HEX[usize::from(byte >> 4)];
        pair[1] = HEX[usize::from(byte & 15)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_parse_as_w3c_says() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        for (text, valid) in [
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", true),
            ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", true),
            ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", true),
            ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01more", false),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", false),
            ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false),
            ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", false),
            ("00-00000000000000000000000000000000-b7ad6b7169203331-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", false),
            ("", false),
        ] {
            let context = TraceContext::parse(text.as_bytes());
            assert_eq!(
                context.map(|c| format!("{c:?}")),
                valid.then(|| trace.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn a_child_keeps_the_trace_and_the_flags() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03";
        let context = TraceContext::parse(parent.as_bytes()).expect(parent);
        let child = "00-0af7651916cd43dd8448eb211c80319c-00000000000000ff-03";
        assert_eq!(context.child(255), child);
        assert_eq!(context.child(0), child.replace("ff", "01"));
        assert_eq!((context.span_id, context.is_sampled()), (0xb7ad_6b71_6920_3331, true));
        assert_eq!(state(255), "upesi=00000000000000ff");
        assert_eq!(
            TraceContext::new([1; 16]).child(1),
            "00-01010101010101010101010101010101-0000000000000001-01"
        );
    }
}
