//! The hash that distinguishes a resend from a changed message.

use memchr::memchr2;

/// Runs are collected here before they are hashed. Pretty-printed bodies have short runs, and each
/// call to the hasher has a fixed cost.
const GATHER_BYTES: usize = 1024;

/// BLAKE3 of the bytes of a JSON body without its insignificant whitespace.
///
/// Whitespace (space, tab, line feed, carriage return) outside texts is ignored. Everything else
/// counts, including the order of members and the spelling of numbers and escapes (Rulings,
/// Appendix B 3). One pass; a body without such whitespace is hashed in place. Invalid JSON has a
/// hash too. Bodies with equal hashes differ only in whitespace.
#[must_use]
pub fn body_hash(body: &[u8]) -> [u8; 32] {
    let Some(first) = next_insignificant(body, 0) else {
        return *blake3::hash(body).as_bytes();
    };
    let mut sink = Sink { hasher: blake3::Hasher::new(), gathered: [0; GATHER_BYTES], len: 0 };
    let mut start = 0;
    let mut end = first;
    loop {
        sink.take(&body[start..end]);
        start = end;
        while body.get(start).is_some_and(|byte| is_blank(*byte)) {
            start += 1;
        }
        if start == body.len() {
            return sink.finish();
        }
        end = next_insignificant(body, start).unwrap_or(body.len());
    }
}

struct Sink {
    hasher: blake3::Hasher,
    gathered: [u8; GATHER_BYTES],
    len: usize,
}

impl Sink {
    fn take(&mut self, run: &[u8]) {
        if self.len + run.len() > GATHER_BYTES {
            self.flush();
        }
        if run.len() > GATHER_BYTES {
            self.hasher.update(run);
            return;
        }
        self.gathered[self.len..self.len + run.len()].copy_from_slice(run);
        self.len += run.len();
    }

    fn flush(&mut self) {
        self.hasher.update(&self.gathered[..self.len]);
        self.len = 0;
    }

    fn finish(mut self) -> [u8; 32] {
        self.flush();
        *self.hasher.finalize().as_bytes()
    }
}

/// The next blank outside a text, from `at`, which is outside a text.
fn next_insignificant(body: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *body.get(at)? {
            b'"' => at = text_end(body, at + 1),
            byte if is_blank(byte) => return Some(at),
            _ => at += 1,
        }
    }
}

/// The index after the closing quote of the text entered at `at`, or the end.
fn text_end(body: &[u8], mut at: usize) -> usize {
    while let Some(found) = body.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if body[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    body.len()
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same rule, byte by byte.
    fn compact(body: &[u8]) -> Vec<u8> {
        let (mut inside, mut escaped) = (false, false);
        let mut out = Vec::new();
        for &byte in body {
            if inside || !is_blank(byte) {
                out.push(byte);
            }
            match byte {
                _ if escaped => escaped = false,
                b'\\' if inside => escaped = true,
                b'"' => inside = !inside,
                _ => {}
            }
        }
        out
    }

    #[test]
    fn whitespace_counts_inside_texts_only() {
        let plain = br#"{"a":"b c","d":[1,2]}"#;
        for same in
            ["{\"a\":\"b c\",\"d\":[1,2]}", " {\r\n\t\"a\" : \"b c\" , \"d\" : [ 1 , 2 ] } \n"]
        {
            assert_eq!(body_hash(same.as_bytes()), body_hash(plain), "{same}");
        }
        for other in [
            r#"{"a":"bc","d":[1,2]}"#,
            r#"{"a":"b  c","d":[1,2]}"#,
            r#"{"d":[1,2],"a":"b c"}"#,
            r#"{"a":"b\u0020c","d":[1,2]}"#,
            r#"{"a":"b c\"","d":[1,2]}"#,
            r#"{"a":"b c","d":[1,2.0]}"#,
        ] {
            assert_ne!(body_hash(other.as_bytes()), body_hash(plain), "{other}");
        }
        assert_eq!(body_hash(plain), *blake3::hash(plain).as_bytes());
    }

    proptest! {
        #[test]
        fn fast_hash_agrees_with_the_plain_one(
            parts in prop::collection::vec(
                prop_oneof![
                    "[ \\t\\r\\n]{1,3}", "\"", "\\\\", "[a-z:,{}]{1,4}", "\"[a-z \\\\\\\\]{0,2000}\"",
                ], 0..40),
        ) {
            let body = parts.concat().into_bytes();
            prop_assert_eq!(body_hash(&body), *blake3::hash(&compact(&body)).as_bytes());
        }

        #[test]
        fn any_bytes_hash(body in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(body_hash(&body), *blake3::hash(&compact(&body)).as_bytes());
        }
    }
}
