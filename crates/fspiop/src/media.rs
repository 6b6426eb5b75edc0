//! Media types and `Accept` lists by the grammar of RFC 9110 (sections 5.6, 8.3 and 12.5.1).
//!
//! Type, subtype and names of parameters are compared without case. A value may be quoted,
//! parameters may come in any order, blanks and tabs may surround `;` and `,`, and parameters
//! other than `version` (and `q` in `Accept`) are ignored.
//!
//! Costs: no allocation. The usual form is compared in one pass; other forms are parsed.

const TYPE: &[u8] = b"application";
const SUBTYPE_PREFIX: &[u8] = b"vnd.interoperability.";
const SUBTYPE_SUFFIX: &[u8] = b"+json";
const USUAL_PREFIX: &[u8] = b"application/vnd.interoperability.";

/// The supported versions of a media type, as digits of major and minor.
const SUPPORTED: [(u8, u8); 3] = [(b'1', b'0'), (b'1', b'1'), (b'2', b'0')];

/// The value of the parameter `version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// No such parameter.
    Absent,
    /// `D`.
    Major(u8),
    /// `D.D`.
    Exact(u8, u8),
    /// Any other text.
    Other,
}

/// Result of the check of all `Accept` lines of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acceptance {
    /// There is no line.
    Absent,
    /// At least one supported version is acceptable.
    Supported,
    /// The media type is listed, but no supported version of it is acceptable.
    Unsupported,
    /// The list is malformed, or no range includes the media type.
    Malformed,
}

/// Whether a `Content-Type` is `application/json` or `application/*+json`, with any parameters;
/// false if the value is malformed.
#[must_use]
pub fn is_json(value: &[u8]) -> bool {
    let mut cursor = Cursor(value);
    cursor.skip_blanks();
    let Some(range) = cursor.range(Weight::Ignored) else { return false };
    let suffix = range.subtype.len().checked_sub(SUBTYPE_SUFFIX.len());
    let suffix = suffix.map(|at| &range.subtype[at..]);
    cursor.0.is_empty()
        && range.kind.eq_ignore_ascii_case(TYPE)
        && (range.subtype.eq_ignore_ascii_case(b"json")
            || suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case(SUBTYPE_SUFFIX)))
}

/// Whether lines of `Accept` are well-formed and contain at least one media range.
#[must_use]
pub fn is_accept_list<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut ranges = 0;
    let is_well_formed = lines.all(|line| read_list(line, |_| ranges += 1).is_some());
    is_well_formed && 0 < ranges
}

/// The digits of the version in a `Content-Type` for `resource`; `None` if the value is malformed,
/// names another media type or has no `D.D` version.
pub(crate) fn content_version(value: &[u8], resource: &str) -> Option<(u8, u8)> {
    let version = match parse_usual(value, resource) {
        Some(version) => version,
        None => {
            let mut cursor = Cursor(value);
            cursor.skip_blanks();
            let range = cursor.range(Weight::Ignored)?;
            if !cursor.0.is_empty() || !range.is_type_of(resource) {
                return None;
            }
            range.version
        }
    };
    match version {
        Version::Exact(major, minor) => Some((major, minor)),
        Version::Absent | Version::Major(_) | Version::Other => None,
    }
}

/// Evaluates the lines of `Accept` for `resource`. For each supported version, the most specific
/// matching range decides; a weight of 0 excludes it. One of several equally specific ranges is
/// enough.
pub(crate) fn accept<'a>(mut lines: impl Iterator<Item = &'a [u8]>, resource: &str) -> Acceptance {
    let Some(first) = lines.next() else { return Acceptance::Absent };
    let second = lines.next();
    if second.is_none()
        && let Some(version) = parse_usual(first, resource)
    {
        let is_supported = SUPPORTED.iter().any(|known| version.includes(*known));
        return if is_supported { Acceptance::Supported } else { Acceptance::Unsupported };
    }
    let mut decision = Decision::default();
    let mut all = [Some(first), second].into_iter().flatten().chain(lines);
    match all.try_for_each(|line| read_list(line, |range| decision.add(range, resource))) {
        None => Acceptance::Malformed,
        Some(()) => decision.result(),
    }
}

/// `application/vnd.interoperability.<resource>+json`, alone or with only the version, with at most
/// one blank on each side of the semicolon.
fn parse_usual(text: &[u8], resource: &str) -> Option<Version> {
    let rest = text
        .strip_prefix(USUAL_PREFIX)?
        .strip_prefix(resource.as_bytes())?
        .strip_prefix(SUBTYPE_SUFFIX)?;
    if rest.is_empty() {
        return Some(Version::Absent);
    }
    let rest = skip_blank(rest).strip_prefix(b";".as_slice())?;
    match Version::parse(skip_blank(rest).strip_prefix(b"version=".as_slice())?) {
        Version::Other => None,
        version => Some(version),
    }
}

fn skip_blank(text: &[u8]) -> &[u8] {
    text.strip_prefix(b" ".as_slice()).unwrap_or(text)
}

impl Version {
    fn parse(text: &[u8]) -> Self {
        match text {
            [major] if major.is_ascii_digit() => Self::Major(*major),
            [major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit() => {
                Self::Exact(*major, *minor)
            }
            _ => Self::Other,
        }
    }

    /// Parses a quoted value, after removing its escapes.
    fn parse_quoted(inside: &[u8]) -> Self {
        let mut text = [0; 3];
        let mut length = 0;
        let mut bytes = inside.iter();
        while let Some(byte) = bytes.next() {
            let byte = if *byte == b'\\' { bytes.next().unwrap_or(byte) } else { byte };
            let Some(place) = text.get_mut(length) else { return Self::Other };
            *place = *byte;
            length += 1;
        }
        Self::parse(&text[..length])
    }

    fn includes(self, (major, minor): (u8, u8)) -> bool {
        match self {
            Self::Absent => true,
            Self::Major(named) => named == major,
            Self::Exact(named, exact) => (named, exact) == (major, minor),
            Self::Other => false,
        }
    }

    /// A range with a more precise version precedes others of its type.
    const fn rank(self) -> u8 {
        match self {
            Self::Absent => 0,
            Self::Major(_) => 1,
            Self::Exact(..) | Self::Other => 2,
        }
    }
}

/// Passes the media ranges of one line to `take`; `None` if the line is malformed.
fn read_list<'a>(line: &'a [u8], mut take: impl FnMut(&Range<'a>)) -> Option<()> {
    let mut cursor = Cursor(line);
    loop {
        cursor.skip_blanks();
        // Empty elements are ignored (RFC 9110, 5.6.1.2).
        if !matches!(cursor.0.first(), None | Some(b',')) {
            take(&cursor.range(Weight::Read)?);
            cursor.skip_blanks();
        }
        match cursor.0.split_first() {
            None => return Some(()),
            Some((b',', rest)) => cursor.0 = rest,
            Some(_) => return None,
        }
    }
}

/// For each supported version: the rank of the most specific range so far, and whether it allows
/// the version.
#[derive(Debug, Default)]
struct Decision {
    best: [(u8, bool); SUPPORTED.len()],
    is_named: bool,
}

impl Decision {
    fn add(&mut self, range: &Range<'_>, resource: &str) {
        let type_rank = if range.is_type_of(resource) {
            3
        } else if range.is_wildcard_of(TYPE) {
            2
        } else if range.is_wildcard_of(b"*") {
            1
        } else {
            return;
        };
        self.is_named |= range.version != Version::Other;
        let rank = type_rank * 4 + range.version.rank();
        for (best, version) in self.best.iter_mut().zip(SUPPORTED) {
            if !range.version.includes(version) || rank < best.0 {
                continue;
            }
            let is_allowed = range.is_allowed || rank == best.0 && best.1;
            *best = (rank, is_allowed);
        }
    }

    fn result(&self) -> Acceptance {
        match self.best.iter().any(|(_, is_allowed)| *is_allowed) {
            true => Acceptance::Supported,
            false if self.is_named => Acceptance::Unsupported,
            false => Acceptance::Malformed,
        }
    }
}

/// A media type or media range.
#[derive(Debug)]
struct Range<'a> {
    kind: &'a [u8],
    subtype: &'a [u8],
    version: Version,
    /// Whether its weight is above 0.
    is_allowed: bool,
}

impl Range<'_> {
    fn is_type_of(&self, resource: &str) -> bool {
        let (before, after) = (SUBTYPE_PREFIX.len(), SUBTYPE_SUFFIX.len());
        self.kind.eq_ignore_ascii_case(TYPE)
            && self.subtype.len() == before + resource.len() + after
            && self.subtype[..before].eq_ignore_ascii_case(SUBTYPE_PREFIX)
            && self.subtype[before..][..resource.len()].eq_ignore_ascii_case(resource.as_bytes())
            && self.subtype[before + resource.len()..].eq_ignore_ascii_case(SUBTYPE_SUFFIX)
    }

    fn is_wildcard_of(&self, kind: &[u8]) -> bool {
        self.subtype == b"*" && self.kind.eq_ignore_ascii_case(kind)
    }
}

/// Whether the parameter `q` is a weight.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    Read,
    Ignored,
}

/// The rest of a header value.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// Reads `type/subtype` and its parameters.
    fn range(&mut self, weight: Weight) -> Option<Range<'a>> {
        let kind = self.token()?;
        self.expect(b'/')?;
        let subtype = self.token()?;
        let (mut version, mut q) = (None, None);
        while self.begins_parameter() {
            let Some((name, value)) = self.parameter()? else { continue };
            // Parsers differ on which of two parameters with the same name counts.
            let is_repeated = if name.eq_ignore_ascii_case(b"version") {
                version.replace(value.version()).is_some()
            } else if weight == Weight::Read && name.eq_ignore_ascii_case(b"q") {
                q.replace(value.is_positive_weight()?).is_some()
            } else {
                false
            };
            if is_repeated {
                return None;
            }
        }
        let (version, is_allowed) = (version.unwrap_or(Version::Absent), q.unwrap_or(true));
        Some(Range { kind, subtype, version, is_allowed })
    }

    fn begins_parameter(&mut self) -> bool {
        self.skip_blanks();
        self.expect(b';').is_some()
    }

    /// Reads a parameter after a semicolon: `Some(None)` if it is empty, `None` if it is malformed.
    fn parameter(&mut self) -> Option<Option<(&'a [u8], Value<'a>)>> {
        self.skip_blanks();
        if matches!(self.0.first(), None | Some(b';' | b',')) {
            return Some(None);
        }
        let name = self.token()?;
        self.expect(b'=')?;
        let value = match self.0.first() {
            Some(b'"') => Value::Quoted(self.quoted()?),
            _ => Value::Token(self.token()?),
        };
        Some(Some((name, value)))
    }

    fn token(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| !is_token(*byte)).unwrap_or(self.0.len());
        let (token, rest) = self.0.split_at(end);
        self.0 = rest;
        (!token.is_empty()).then_some(token)
    }

    /// The text between quotation marks, including escapes.
    fn quoted(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let mut at = 0;
        loop {
            match self.0.get(at)? {
                b'"' => break,
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        let inside = &self.0[..at];
        self.0 = &self.0[at + 1..];
        Some(inside)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte][..])?;
        Some(())
    }

    fn skip_blanks(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.0 {
            self.0 = rest;
        }
    }
}

/// The value of a parameter.
#[derive(Clone, Copy)]
enum Value<'a> {
    Token(&'a [u8]),
    Quoted(&'a [u8]),
}

impl Value<'_> {
    fn version(self) -> Version {
        match self {
            Self::Token(text) => Version::parse(text),
            Self::Quoted(inside) => Version::parse_quoted(inside),
        }
    }

    /// Whether a weight is above 0; `None` for an invalid weight (RFC 9110, 12.4.2).
    fn is_positive_weight(self) -> Option<bool> {
        let Self::Token([whole @ (b'0' | b'1'), fraction @ ..]) = self else { return None };
        let digits = match fraction {
            [] => fraction,
            [b'.', digits @ ..] if digits.len() <= 3 => digits,
            _ => return None,
        };
        let most = if *whole == b'1' { b'0' } else { b'9' };
        let is_weight = digits.iter().all(|digit| (b'0'..=most).contains(digit));
        is_weight.then(|| *whole == b'1' || digits.iter().any(|digit| *digit != b'0'))
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;
    use crate::test_table;

    const TRANSFERS: &str = "application/vnd.interoperability.transfers+json";

    /// An input is the kind and the lines of the header; `{}` is the media type of transfers.
    #[test]
    fn media_headers_match_their_expected_verdicts() {
        test_table::check(&expect_file!["test_tables/media.txt"], |input| {
            let input = input.replace("{}", TRANSFERS);
            let (kind, value) = test_table::first_word(&input);
            let lines = input.contains(' ').then(|| value.split(" | ")).into_iter().flatten();
            let lines = lines.map(str::as_bytes);
            match kind {
                "accept" => format!("{:?}", accept(lines, "transfers")),
                "type" => match content_version(value.as_bytes(), "transfers") {
                    Some((major, minor)) => format!("{}.{}", major as char, minor as char),
                    None => "none".to_owned(),
                },
                "json" => is_json(value.as_bytes()).to_string(),
                "list" => is_accept_list(lines).to_string(),
                other => panic!("{other:?} is not asked"),
            }
        });
    }

    proptest::proptest! {
        #[test]
        fn reading_never_panics(text in "(application|/|vnd.interoperability.transfers\\+json|;|,|=|\"|\\\\|version|q|[ -~é]){0,20}") {
            content_version(text.as_bytes(), "transfers");
            accept([text.as_bytes()].into_iter(), "transfers");
            let _json = is_json(text.as_bytes());
            let _list = is_accept_list([text.as_bytes()].into_iter());
        }
    }
}
