//! Escapes characters in lines of JSON that a terminal, an editor or a viewer would act on: control
//! characters beyond ASCII, line separators, and changes of the writing direction. JSON itself
//! allows them in texts.

use std::fmt::Write as _;
use std::io::{self, Write};

use tracing_subscriber::fmt::MakeWriter;

/// Writers whose lines are escaped.
pub(super) struct EscapedJson<M>(pub(super) M);

/// A writer. Each call of `write` is one complete line.
pub(super) struct EscapedLine<W>(W);

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for EscapedJson<M> {
    type Writer = EscapedLine<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        EscapedLine(self.0.make_writer())
    }
}

impl<W: Write> Write for EscapedLine<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match str::from_utf8(line) {
            Ok(text) if !line.is_ascii() => self.0.write_all(escape(text).as_bytes())?,
            _ => self.0.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The line with `\u` escapes, of which a reader of JSON makes the same characters.
fn escape(line: &str) -> String {
    let mut escaped = String::with_capacity(line.len() + 16);
    for letter in line.chars() {
        if letter.is_ascii() || letter.escape_debug().len() == 1 {
            escaped.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _written = write!(escaped, "\\u{unit:04x}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn only_invisible_characters_are_escaped() {
        let line = "{\"a\":\"caf\u{e9} \u{4eba} \u{9b}31m \u{2028} \u{202e}txt \u{e0001} \\n\"}";
        let escaped = escape(line);
        let expected = "{\"a\":\"caf\u{e9} \u{4eba} \\u009b31m \\u2028 \\u202etxt \
                        \\udb40\\udc01 \\n\"}";
        assert_eq!(escaped, expected);
        let [before, after] =
            [line, &escaped].map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        assert_eq!(before, after);
    }
}
