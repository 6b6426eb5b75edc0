//! An independent JSON parser (RFC 8259) that shares no code with the parsers under test.
//!
//! Unlike them it keeps the offset of each token, members with repeated names, and the digits of
//! numbers. It is made for bodies of a few kilobytes and is not fast.

use std::ops::Range;

/// Deepest nesting that is read. Deeper documents are not judged.
const DEPTH_MAX: usize = 100;

/// Why bytes are no document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonError {
    /// They end before the value does.
    Early,
    /// They are no JSON.
    Malformed,
    /// They are nested deeper than this reader goes.
    Deep,
}

/// A value and its place in the input.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) span: Range<usize>,
}

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// The text of a number, a boolean or `null`. A number with an exponent has no text.
    Scalar(Option<String>),
    Text(Text),
    List(Vec<Node>),
    Object(Vec<(Text, Node)>),
}

/// A text, decoded.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) text: String,
    /// Whether it holds half of a surrogate pair, which is not valid Unicode.
    pub(crate) is_broken: bool,
}

/// A parsed document.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) root: Node,
    /// The tokens in order: what is left of the bytes without insignificant whitespace.
    pub(crate) tokens: Vec<Range<usize>>,
}

impl Document {
    /// Reads one value and nothing after it but whitespace.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, JsonError> {
        let mut reader = Reader { bytes, at: 0, tokens: Vec::new() };
        let root = reader.value(0)?;
        reader.skip_blanks();
        if reader.at < bytes.len() {
            return Err(JsonError::Malformed);
        }
        Ok(Self { root, tokens: reader.tokens })
    }

    /// The tokens with `between(n)` before the n-th of them, and after the last.
    pub(crate) fn write(&self, bytes: &[u8], between: impl Fn(usize) -> &'static [u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for (at, token) in self.tokens.iter().enumerate() {
            out.extend_from_slice(between(at));
            out.extend_from_slice(&bytes[token.clone()]);
        }
        out.extend_from_slice(between(self.tokens.len()));
        out
    }
}

impl Node {
    /// The members of that name, of which there should be one.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &Node> {
        let members = match &self.value {
            Value::Object(members) => members.as_slice(),
            _ => &[],
        };
        members.iter().filter(move |(found, _)| found.text == name).map(|(_, node)| node)
    }

    /// The value at the end of a path of names.
    pub(crate) fn find(&self, path: &str) -> Option<&Node> {
        path.split('/').try_fold(self, |node, name| node.all(name).last())
    }

    /// The text at the end of a path of names, or the text of the scalar there.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        match &self.find(path)?.value {
            Value::Text(text) => Some(&text.text),
            Value::Scalar(text) => text.as_deref(),
            _ => None,
        }
    }

    /// The items of the list at the end of a path; none when it is no list.
    pub(crate) fn items(&self, path: &str) -> &[Node] {
        match self.find(path).map(|node| &node.value) {
            Some(Value::List(items)) => items,
            _ => &[],
        }
    }

    /// The values in it that hold no others, in their order.
    pub(crate) fn leaves(&self) -> Vec<&Node> {
        match &self.value {
            Value::List(items) => items.iter().flat_map(Node::leaves).collect(),
            Value::Object(members) => members.iter().flat_map(|(_, it)| it.leaves()).collect(),
            _ => vec![self],
        }
    }

    /// Whether `holds` of this value or of one inside it.
    pub(crate) fn any(&self, holds: &impl Fn(&Node) -> bool) -> bool {
        holds(self)
            || match &self.value {
                Value::List(items) => items.iter().any(|item| item.any(holds)),
                Value::Object(members) => members.iter().any(|(_, member)| member.any(holds)),
                _ => false,
            }
    }

    /// Whether an object in it repeats a member name.
    pub(crate) fn repeats(&self) -> bool {
        self.any(&|node| match &node.value {
            Value::Object(members) => {
                let mut names: Vec<&str> =
                    members.iter().map(|(name, _)| name.text.as_str()).collect();
                names.sort_unstable();
                names.windows(2).any(|pair| pair[0] == pair[1])
            }
            _ => false,
        })
    }

    /// Whether a text or a name in it holds half of a surrogate pair.
    pub(crate) fn has_broken_text(&self) -> bool {
        self.any(&|node| match &node.value {
            Value::Text(text) => text.is_broken,
            Value::Object(members) => members.iter().any(|(name, _)| name.is_broken),
            _ => false,
        })
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    tokens: Vec<Range<usize>>,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Node, JsonError> {
        if DEPTH_MAX < depth {
            return Err(JsonError::Deep);
        }
        self.skip_blanks();
        let start = self.at;
        let value = match self.peek()? {
            b'n' => self.word("null", "")?,
            b't' => self.word("true", "true")?,
            b'f' => self.word("false", "false")?,
            b'"' => Value::Text(self.text()?),
            b'[' => self.list(depth)?,
            b'{' => self.object(depth)?,
            b'-' | b'0'..=b'9' => self.number()?,
            _ => return Err(JsonError::Malformed),
        };
        Ok(Node { value, span: start..self.at })
    }

    fn list(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.mark(b'[')?;
        let mut items = Vec::new();
        self.skip_blanks();
        if self.peek()? == b']' {
            self.mark(b']')?;
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.skip_blanks();
            match self.peek()? {
                b',' => self.mark(b',')?,
                _ => break,
            }
        }
        self.mark(b']')?;
        Ok(Value::List(items))
    }

    fn object(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.mark(b'{')?;
        let mut members = Vec::new();
        self.skip_blanks();
        if self.peek()? == b'}' {
            self.mark(b'}')?;
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_blanks();
            let name = self.text()?;
            self.skip_blanks();
            self.mark(b':')?;
            members.push((name, self.value(depth + 1)?));
            self.skip_blanks();
            match self.peek()? {
                b',' => self.mark(b',')?,
                _ => break,
            }
        }
        self.mark(b'}')?;
        Ok(Value::Object(members))
    }

    fn text(&mut self) -> Result<Text, JsonError> {
        let start = self.at;
        if self.next()? != b'"' {
            return Err(JsonError::Malformed);
        }
        let mut units = Utf16::default();
        loop {
            let byte = self.next()?;
            match byte {
                b'"' => break,
                b'\\' => self.escape(&mut units)?,
                0..0x20 => return Err(JsonError::Malformed),
                _ => units.bytes.push(byte),
            }
        }
        self.tokens.push(start..self.at);
        units.finish()
    }

    fn escape(&mut self, units: &mut Utf16) -> Result<(), JsonError> {
        let plain = match self.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'u' => {
                let mut unit = 0;
                for _ in 0..4 {
                    let digit =
                        char::from(self.next()?).to_digit(16).ok_or(JsonError::Malformed)?;
                    unit = unit << 4 | digit as u16;
                }
                units.push(unit);
                return Ok(());
            }
            _ => return Err(JsonError::Malformed),
        };
        units.settle();
        units.bytes.push(plain);
        Ok(())
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        let start = self.at;
        if self.peek()? == b'-' {
            self.at += 1;
        }
        match self.peek()? {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek()?, b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        self.tokens.push(start..self.at);
        Ok(Value::Scalar(decimal(&self.bytes[start..self.at])))
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        if !self.peek()?.is_ascii_digit() {
            return Err(JsonError::Malformed);
        }
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        Ok(())
    }

    fn word(&mut self, word: &str, meaning: &str) -> Result<Value, JsonError> {
        let start = self.at;
        for expected in word.bytes() {
            if self.next()? != expected {
                return Err(JsonError::Malformed);
            }
        }
        self.tokens.push(start..self.at);
        Ok(Value::Scalar(Some(meaning.to_owned())))
    }

    fn mark(&mut self, mark: u8) -> Result<(), JsonError> {
        if self.next()? != mark {
            return Err(JsonError::Malformed);
        }
        self.tokens.push(self.at - 1..self.at);
        Ok(())
    }

    fn skip_blanks(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Result<u8, JsonError> {
        self.bytes.get(self.at).copied().ok_or(JsonError::Early)
    }

    fn next(&mut self) -> Result<u8, JsonError> {
        let byte = self.peek()?;
        self.at += 1;
        Ok(byte)
    }
}

/// A number as text, every digit of it but the zeros that close a fraction; zero has no sign.
fn decimal(number: &[u8]) -> Option<String> {
    let (mut text, mut kept, mut in_fraction) = (String::new(), 0, false);
    for byte in number {
        in_fraction |= *byte == b'.';
        text.push(char::from(*byte));
        match byte {
            b'e' | b'E' => return None,
            b'0' | b'.' if in_fraction => (),
            _ => kept = text.len(),
        }
    }
    text.truncate(kept);
    Some(if text == "-0" { "0".to_owned() } else { text })
}

/// Puts surrogates that come as two escapes together again.
#[derive(Default)]
struct Utf16 {
    bytes: Vec<u8>,
    high: Option<(u16, usize)>,
    is_broken: bool,
}

impl Utf16 {
    fn push(&mut self, unit: u16) {
        match (self.high.take(), unit) {
            (Some((high, at)), 0xdc00..=0xdfff) if at == self.bytes.len() => {
                let pair = char::decode_utf16([high, unit]).next().and_then(Result::ok);
                self.put(pair);
            }
            (earlier, 0xd800..=0xdbff) => {
                self.is_broken |= earlier.is_some();
                self.high = Some((unit, self.bytes.len()));
            }
            (earlier, _) => {
                self.is_broken |= earlier.is_some();
                self.put(char::from_u32(u32::from(unit)));
            }
        }
    }

    fn put(&mut self, character: Option<char>) {
        match character {
            Some(character) => {
                self.bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            None => self.is_broken = true,
        }
    }

    /// A half that waits for its other half does so in vain.
    fn settle(&mut self) {
        self.is_broken |= self.high.take().is_some();
    }

    fn finish(mut self) -> Result<Text, JsonError> {
        self.settle();
        let text = String::from_utf8(self.bytes).map_err(|_| JsonError::Malformed)?;
        Ok(Text { text, is_broken: self.is_broken })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_read_to_the_letter() {
        for (text, fault) in [
            (r#"{"a": [1, -0.5e+3, true, null, "x\u00e9\ud83d\ude00"]}"#, None),
            ("[]", None),
            (r#""\ud800""#, None),
            ("", Some(JsonError::Early)),
            ("  [1,", Some(JsonError::Early)),
            (r#"{"a":"b\"#, Some(JsonError::Early)),
            ("-", Some(JsonError::Early)),
            ("01", Some(JsonError::Malformed)),
            ("1.", Some(JsonError::Early)),
            ("1.e2", Some(JsonError::Malformed)),
            ("[1,]", Some(JsonError::Malformed)),
            ("{a:1}", Some(JsonError::Malformed)),
            ("\"a\tb\"", Some(JsonError::Malformed)),
            ("[] []", Some(JsonError::Malformed)),
            ("+1", Some(JsonError::Malformed)),
            ("NaN", Some(JsonError::Malformed)),
        ] {
            assert_eq!(Document::read(text.as_bytes()).err(), fault, "{text}");
        }
        assert_eq!(Document::read(b"\"\xff\"").err(), Some(JsonError::Malformed));
        assert_eq!(Document::read(&[b'['; 200]).err(), Some(JsonError::Deep));
    }

    #[test]
    fn numbers_keep_every_digit() {
        for (number, text) in [
            ("0", Some("0")),
            ("-0.00", Some("0")),
            ("100", Some("100")),
            ("100.00", Some("100")),
            ("-1.50", Some("-1.5")),
            ("0.0", Some("0")),
            ("10.010", Some("10.01")),
            ("100.00000000000000000001", Some("100.00000000000000000001")),
            ("123456789012345678901234567890", Some("123456789012345678901234567890")),
            ("1e2", None),
            ("1.0E-0", None),
        ] {
            assert_eq!(decimal(number.as_bytes()).as_deref(), text, "{number}");
        }
    }

    #[test]
    fn names_values_and_tokens_are_kept() {
        let bytes = br#" { "a" : {"b":"\ud83d\ude00"}, "\u0061": [ 2 ], "c": "\ude00" } "#;
        let document = Document::read(bytes).expect("JSON");
        assert_eq!(document.root.all("a").count(), 2);
        assert!(document.root.repeats() && document.root.has_broken_text());
        let text = document.root.all("a").next().and_then(|node| node.text("b"));
        assert_eq!(text, Some("\u{1f600}"));
        let compact = document.write(bytes, |_| b"");
        assert_eq!(compact, br#"{"a":{"b":"\ud83d\ude00"},"\u0061":[2],"c":"\ude00"}"#);
    }
}
