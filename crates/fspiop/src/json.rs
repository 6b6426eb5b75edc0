//! Writes compact JSON directly, so that keys are sorted and nothing is allocated twice.

use crate::error::first_chars;

/// Maximum number of entries of an extension list (hub-semantics 1.6).
pub(crate) const EXTENSIONS_MAX: usize = 16;
/// Maximum length of the key of an extension, in characters.
pub(crate) const EXTENSION_KEY_CHARS_MAX: usize = 32;
/// Maximum length of the value of an extension, in characters.
pub(crate) const EXTENSION_VALUE_CHARS_MAX: usize = 128;

/// Writes `text` as a JSON text with quotes. UTF-8 is not escaped.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(&mut *out, text).expect("writing a text to memory cannot fail");
}

/// Writes `{"extension":[{"key":…,"value":…},…]}`, truncated to the bounds of the schema.
pub(crate) fn write_extension_list(
    out: &mut Vec<u8>,
    entries: &[(impl AsRef<str>, impl AsRef<str>)],
) {
    let mut list = ObjectWriter::open(out);
    let out = list.member("extension");
    out.push(b'[');
    for (at, (key, value)) in entries.iter().take(EXTENSIONS_MAX).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let mut entry = ObjectWriter::open(out);
        entry.text("key", first_chars(key.as_ref(), EXTENSION_KEY_CHARS_MAX));
        entry.text("value", first_chars(value.as_ref(), EXTENSION_VALUE_CHARS_MAX));
        entry.close();
    }
    out.push(b']');
    list.close();
}

/// Writes an object member by member, with the commas.
pub(crate) struct ObjectWriter<'o> {
    out: &'o mut Vec<u8>,
    empty: bool,
}

impl<'o> ObjectWriter<'o> {
    /// Opens the object.
    pub(crate) fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    /// Writes the name of the next member, which must need no escapes. The caller writes its value.
    pub(crate) fn member(&mut self, name: &'static str) -> &mut Vec<u8> {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// Writes a member with a text.
    pub(crate) fn text(&mut self, name: &'static str, value: &str) {
        write_text(self.member(name), value);
    }

    /// Closes the object.
    pub(crate) fn close(self) {
        self.out.push(b'}');
    }
}
