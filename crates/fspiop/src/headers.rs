//! The header checks of a request, in the order of the reference (hub-semantics 1.1).
//!
//! Order: caller identity, `Accept` (present, syntax, version), `Date` (present, form),
//! `Content-Type` (present, syntax, version), `Content-Encoding`, `FSPIOP-Source`,
//! `FSPIOP-Destination`. Only the first failure is reported. Valid headers cost no allocation. A
//! header that may occur once but occurs twice is refused first, because the two ends of a
//! connection might use different ones.

use http::header::{ACCEPT, CONTENT_ENCODING, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use ledger::FspName;

use crate::body::fsp_id;
use crate::error::{ErrorCode, Refusal};
use crate::media::{self, Acceptance};
use crate::route::Resource;
use crate::time::is_http_date;
use crate::trace::TraceContext;

/// `FSPIOP-Source`: the participant (or hub) that sent the message.
pub static FSPIOP_SOURCE: HeaderName = HeaderName::from_static("fspiop-source");
/// `FSPIOP-Destination`: the recipient, if the sender knows it.
pub static FSPIOP_DESTINATION: HeaderName = HeaderName::from_static("fspiop-destination");
/// `FSPIOP-Proxy`: the proxy that represents the source (inter-scheme).
pub static FSPIOP_PROXY: HeaderName = HeaderName::from_static("fspiop-proxy");
/// `FSPIOP-Signature`: JWS over protected header and body.
pub static FSPIOP_SIGNATURE: HeaderName = HeaderName::from_static("fspiop-signature");
/// `FSPIOP-URI`: path of the service, as signed.
pub static FSPIOP_URI: HeaderName = HeaderName::from_static("fspiop-uri");
/// `FSPIOP-HTTP-Method`: method of the call, as signed.
pub static FSPIOP_HTTP_METHOD: HeaderName = HeaderName::from_static("fspiop-http-method");
/// `traceparent` of W3C trace context.
pub static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// `tracestate` of W3C trace context.
pub static TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// `x-client-id`: the caller's identity, set by an ingress from its certificate or token.
pub static X_CLIENT_ID: HeaderName = HeaderName::from_static("x-client-id");

/// Maximum sum of header names and values, in bytes (DESIGN contract 10).
pub const HEADER_BYTES_MAX: usize = 64 * 1024;

const ACCEPT_UNSUPPORTED: &str = "The Client requested an unsupported version, see extension list \
                                  for supported version(s).";
const CONTENT_UNSUPPORTED: &str =
    "Client supplied a protocol version which is not supported by the server";

/// The rule for one header of a request.
#[derive(Debug)]
pub struct HeaderRule {
    /// The name.
    pub name: HeaderName,
    /// When it is required.
    pub presence: Presence,
    /// Whether a second line with this name is refused.
    pub once: bool,
    /// The form of its value.
    pub form: HeaderForm,
}

/// When a header is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// In every request.
    Required,
    /// In requests that expect a callback: not in PUT and PATCH.
    RequiredToAsk,
    /// Never.
    Optional,
}

impl Presence {
    /// Whether a request with this method needs the header.
    #[must_use]
    pub fn is_required(self, method: &Method) -> bool {
        match self {
            Self::Required => true,
            Self::RequiredToAsk => matches!(*method, Method::GET | Method::POST | Method::DELETE),
            Self::Optional => false,
        }
    }
}

/// The form of a header's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderForm {
    /// A list of media ranges, one of which includes the resource in a supported version.
    MediaRanges,
    /// The media type of the resource with a supported version of two digits.
    MediaType,
    /// The content coding `identity`.
    Identity,
    /// An HTTP date.
    Date,
    /// The name of a participant: 1 to 32 characters.
    Name,
    /// The same; an empty value counts as absent.
    NameOrEmpty,
    /// Any text.
    Any,
}

const fn rule(name: &'static str, presence: Presence, form: HeaderForm) -> HeaderRule {
    HeaderRule { name: HeaderName::from_static(name), presence, once: true, form }
}

const fn list(name: &'static str, presence: Presence, form: HeaderForm) -> HeaderRule {
    HeaderRule { name: HeaderName::from_static(name), presence, once: false, form }
}

/// Every header that is checked, in the order of the checks. A header that may occur once is
/// refused if it occurs twice.
pub static HEADER_RULES: [HeaderRule; 14] = [
    list("accept", Presence::RequiredToAsk, HeaderForm::MediaRanges),
    rule("content-type", Presence::Required, HeaderForm::MediaType),
    list("content-encoding", Presence::Optional, HeaderForm::Identity),
    rule("date", Presence::Required, HeaderForm::Date),
    rule("authorization", Presence::Optional, HeaderForm::Any),
    rule("fspiop-source", Presence::Required, HeaderForm::Name),
    rule("fspiop-destination", Presence::Optional, HeaderForm::NameOrEmpty),
    rule("fspiop-proxy", Presence::Optional, HeaderForm::NameOrEmpty),
    rule("fspiop-signature", Presence::Optional, HeaderForm::Any),
    rule("fspiop-encryption", Presence::Optional, HeaderForm::Any),
    rule("fspiop-uri", Presence::Optional, HeaderForm::Any),
    rule("fspiop-http-method", Presence::Optional, HeaderForm::Any),
    rule("traceparent", Presence::Optional, HeaderForm::Any),
    rule("x-client-id", Presence::Optional, HeaderForm::Any),
];

impl HeaderForm {
    /// The form as an ECMA 262 pattern, for requests about `resource`; `None` if any text is valid,
    /// or only the length counts.
    #[must_use]
    pub fn pattern(self, resource: &str) -> Option<String> {
        match self {
            Self::MediaRanges => Some(accept_pattern(resource)),
            Self::MediaType => {
                let version = version_pattern("1\\.0|1\\.1|2\\.0");
                let media = media_pattern(resource);
                Some(format!("^{media}{FOREIGN}*{BLANKS};{BLANKS}{version}{FOREIGN}*$"))
            }
            Self::Identity => Some(format!("^{}$", any_case("identity"))),
            Self::Date => Some(date_pattern()),
            Self::Name | Self::NameOrEmpty | Self::Any => None,
        }
    }
}

const BLANKS: &str = "[ \\t]*";
/// A parameter other than `version` and `q`, recognised by its first letter.
const FOREIGN: &str = "([ \\t]*;[ \\t]*([!#$%&'*+.^_`|~0-9A-PR-UW-Za-pr-uw-z-]\
    [!#$%&'*+.^_`|~0-9A-Za-z-]*=([!#$%&'*+.^_`|~0-9A-Za-z-]+|\"([ !#-\\[\\]-~]|\\\\[ -~])*\"))?)";
const WEIGHT: &str = "([ \\t]*;[ \\t]*[Qq]=(0(\\.[0-9]{0,3})?|1(\\.0{0,3})?))?";
const POSITIVE: &str = "([ \\t]*;[ \\t]*[Qq]=(0\\.[0-9]{0,2}[1-9]|1(\\.0{0,3})?))?";

fn accept_pattern(resource: &str) -> String {
    let token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
    let any = format!("{token}/{token}{FOREIGN}*{WEIGHT}");
    let version = version_pattern("1|2|1\\.0|1\\.1|2\\.0");
    let media = media_pattern(resource);
    let good = format!("{media}{FOREIGN}*({BLANKS};{BLANKS}{version})?{FOREIGN}*{POSITIVE}");
    format!("^({any}{BLANKS},{BLANKS})*{good}({BLANKS},{BLANKS}{any})*$")
}

fn media_pattern(resource: &str) -> String {
    let media = any_case(&format!("vnd.interoperability.{resource}+json"));
    format!("{}/{media}", any_case("application"))
}

/// The parameter with one of these values, quoted or not.
fn version_pattern(values: &str) -> String {
    format!("{}=(\"({values})\"|({values}))", any_case("version"))
}

/// A text in upper and lower case, as a pattern.
fn any_case(text: &str) -> String {
    let one = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' => {
            format!("[{}{}]", letter.to_ascii_uppercase(), letter.to_ascii_lowercase())
        }
        '.' | '+' => format!("\\{letter}"),
        _ => letter.to_string(),
    };
    text.chars().map(one).collect()
}

/// The pattern of a date. Whether the day exists is checked separately.
fn date_pattern() -> String {
    let day = "(Mon|Tue|Wed|Thu|Fri|Sat|Sun)";
    let long_day = "(Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)";
    let month = "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)";
    let two = "(0[1-9]|[12][0-9]|3[01])";
    let time = "([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)";
    format!(
        "^({day}, (0?[1-9]|[12][0-9]|3[01]) {month} [1-9][0-9]{{3}} {time} GMT\
         |{long_day}, {two}-{month}-[0-9]{{2}} {time} GMT\
         |{day} {month} ( [1-9]|{two}) {time} [1-9][0-9]{{3}})$"
    )
}

/// A supported protocol version, as written in `Content-Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// FSPIOP 1.0: a fulfil with RESERVED does not commit.
    V1_0,
    /// FSPIOP 1.1.
    V1_1,
    /// FSPIOP 2.0: adds ULIDs, conversion and a few optional members.
    V2_0,
}

impl Version {
    /// Key and value of each supported version in the extension list of a 406.
    const SUPPORTED: [(&'static str, &'static str); 3] = [("1", "0"), ("1", "1"), ("2", "0")];

    /// The version as written after `version=`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1_0 => "1.0",
            Self::V1_1 => "1.1",
            Self::V2_0 => "2.0",
        }
    }
}

/// The validated request headers that the hub uses.
#[derive(Clone, Copy, Debug)]
pub struct RequestHeaders<'a> {
    /// `FSPIOP-Source`.
    pub source: FspName,
    /// `FSPIOP-Destination`; `None` when absent or empty.
    pub destination: Option<FspName>,
    /// `FSPIOP-Proxy`; `None` when absent or empty.
    pub proxy: Option<FspName>,
    /// Version of the `Content-Type`.
    pub version: Version,
    /// Trace of the request; `None` if the header is absent or invalid, which is not an error.
    pub trace: Option<TraceContext>,
    /// `FSPIOP-Signature` as received, not verified here.
    pub signature: Option<&'a HeaderValue>,
}

/// Checks the headers of a request for `resource` (the first segment of the path, as written).
///
/// # Errors
/// The first failure in the order of the module documentation: 3100, 3101 or 3102 with 400, 3101
/// with 415, or 3001 with 406 and the supported versions.
pub fn check<'a>(
    headers: &'a HeaderMap,
    method: &Method,
    resource: &str,
) -> Result<RequestHeaders<'a>, Refusal> {
    check_singles(headers)?;
    let found = FoundHeaders::read(headers);
    found.check_identity()?;
    check_accept((headers, found.accept), method, resource)?;
    found.check_date(resource)?;
    let version = found.check_content_type(resource)?;
    if found.content_encoding.is_some() {
        check_content_encoding(headers)?;
    }
    let Some(source) = found.source else {
        return Err(Refusal::missing("/header must have required property 'fspiop-source'"));
    };
    Ok(RequestHeaders {
        source: fsp_name(source, "fspiop-source")?,
        destination: optional_name(found.destination, &FSPIOP_DESTINATION)?,
        proxy: optional_name(found.proxy, &FSPIOP_PROXY)?,
        version,
        trace: found.traceparent.and_then(|value| TraceContext::parse(value.as_bytes())),
        signature: found.signature,
    })
}

/// The first value of each header that is checked, found in one pass: a look-up costs a hash.
#[derive(Default)]
struct FoundHeaders<'a> {
    accept: Option<&'a HeaderValue>,
    client_id: Option<&'a HeaderValue>,
    content_encoding: Option<&'a HeaderValue>,
    content_type: Option<&'a HeaderValue>,
    date: Option<&'a HeaderValue>,
    destination: Option<&'a HeaderValue>,
    proxy: Option<&'a HeaderValue>,
    signature: Option<&'a HeaderValue>,
    source: Option<&'a HeaderValue>,
    traceparent: Option<&'a HeaderValue>,
}

impl<'a> FoundHeaders<'a> {
    fn read(headers: &'a HeaderMap) -> Self {
        let mut found = Self::default();
        for (name, value) in headers {
            let slot = match name.as_str() {
                "accept" => &mut found.accept,
                "content-encoding" => &mut found.content_encoding,
                "content-type" => &mut found.content_type,
                "date" => &mut found.date,
                "fspiop-destination" => &mut found.destination,
                "fspiop-proxy" => &mut found.proxy,
                "fspiop-signature" => &mut found.signature,
                "fspiop-source" => &mut found.source,
                "traceparent" => &mut found.traceparent,
                "x-client-id" => &mut found.client_id,
                _ => continue,
            };
            slot.get_or_insert(value);
        }
        found
    }

    /// Compares the sender named in a message with the identity established by a gateway.
    ///
    /// `FSPIOP-Proxy` is not considered: the hub has no proxy participants, so a proxy that is the
    /// caller could name any participant as the source.
    fn check_identity(&self) -> Result<(), Refusal> {
        match self.client_id.is_none() || self.source == self.client_id {
            true => Ok(()),
            false => Err(Refusal::invalid("Invalid fspiop-source header")),
        }
    }

    fn check_date(&self, resource: &str) -> Result<(), Refusal> {
        match self.date {
            None => Err(missing("Date", resource)),
            Some(date) if is_http_date(date.as_bytes()) => Ok(()),
            Some(_) => Err(Refusal::malformed("Invalid date header")),
        }
    }

    fn check_content_type(&self, resource: &str) -> Result<Version, Refusal> {
        let Some(content_type) = self.content_type else {
            return Err(missing("Content-Type", resource));
        };
        match media::content_version(content_type.as_bytes(), resource) {
            Some((b'1', b'0')) => Ok(Version::V1_0),
            Some((b'1', b'1')) => Ok(Version::V1_1),
            Some((b'2', b'0')) => Ok(Version::V2_0),
            Some(_) => Err(unsupported(CONTENT_UNSUPPORTED)),
            None => Err(Refusal::malformed("Invalid content-type header")),
        }
    }
}

fn check_singles(headers: &HeaderMap) -> Result<(), Refusal> {
    if headers.len() == headers.keys_len() {
        return Ok(());
    }
    let is_repeated =
        |rule: &&HeaderRule| rule.once && headers.get_all(&rule.name).iter().nth(1).is_some();
    match HEADER_RULES.iter().find(is_repeated).map(|rule| &rule.name) {
        Some(name) => Err(Refusal::malformed(&format!("Header {name} must not be repeated"))),
        None => Ok(()),
    }
}

fn check_accept(
    (headers, first): (&HeaderMap, Option<&HeaderValue>),
    method: &Method,
    resource: &str,
) -> Result<(), Refusal> {
    let acceptance = match headers.len() == headers.keys_len() {
        true => media::accept(first.map(HeaderValue::as_bytes).into_iter(), resource),
        false => {
            let lines = headers.get_all(ACCEPT).iter().map(HeaderValue::as_bytes);
            media::accept(lines, resource)
        }
    };
    match acceptance {
        Acceptance::Absent if Presence::RequiredToAsk.is_required(method) => {
            Err(missing("Accept", resource))
        }
        Acceptance::Absent | Acceptance::Supported => Ok(()),
        Acceptance::Unsupported => Err(unsupported(ACCEPT_UNSUPPORTED)),
        Acceptance::Malformed => Err(Refusal::malformed("Invalid accept header")),
    }
}

/// Refuses a message with an encoded body. The hub decodes no bodies, and a signature or hash over
/// the encoded bytes would belong to another message.
///
/// # Errors
/// 415 with 3101.
pub fn check_content_encoding(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut lines = headers.get_all(CONTENT_ENCODING).iter();
    match lines.all(|line| is_identity(line.as_bytes())) {
        true => Ok(()),
        false => {
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            let refusal = Refusal::malformed("Content-Encoding must be identity");
            Err(Refusal { status, ..refusal })
        }
    }
}

/// Whether a list of content codings leaves the body unchanged.
#[must_use]
pub fn is_identity(codings: &[u8]) -> bool {
    let mut codings = codings.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    codings.all(|coding| coding.is_empty() || coding.eq_ignore_ascii_case(b"identity"))
}

/// For quotes and bulk quotes, a missing header is reported in the words of the quoting service.
fn missing(name: &str, resource: &str) -> Refusal {
    if ![Resource::Quotes, Resource::BulkQuotes].map(Resource::as_str).contains(&resource) {
        return Refusal::missing(&format!("{name} is required"));
    }
    let name = name.to_ascii_lowercase();
    Refusal::missing(&format!("/header must have required property '{name}'"))
}

fn unsupported(sentence: &str) -> Refusal {
    let refusal = Refusal::new(ErrorCode::UNACCEPTABLE_VERSION, sentence);
    Refusal { extensions: Version::SUPPORTED.to_vec(), ..refusal }
}

fn optional_name(
    value: Option<&HeaderValue>,
    name: &HeaderName,
) -> Result<Option<FspName>, Refusal> {
    match value {
        Some(value) if !value.is_empty() => fsp_name(value, name.as_str()).map(Some),
        _ => Ok(None),
    }
}

fn fsp_name(value: &HeaderValue, header: &str) -> Result<FspName, Refusal> {
    let Ok(text) = std::str::from_utf8(value.as_bytes()) else {
        return Err(Refusal::malformed(&format!("Invalid {header} header")));
    };
    fsp_id(text).ok_or_else(|| {
        let bound = if text.is_empty() { "fewer than 1" } else { "more than 32" };
        Refusal::invalid(&format!("/header/{header} must NOT have {bound} characters"))
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{expect, expect_file};
    use proptest::prelude::*;

    use super::*;
    use crate::test_table;
    use crate::time::date_header;

    const MEDIA: &str = "application/vnd.interoperability.transfers+json";
    const DATED: &str = "Tue, 15 Nov 1994 08:12:31 GMT";

    /// Valid headers for a resource, with some set, added (`+name`) or removed (empty value).
    fn headers(resource: &str, changes: &[(&str, &str)]) -> HeaderMap {
        let media = MEDIA.replace("transfers", resource);
        let (accept, content) = (format!("{media};version=2"), format!("{media};version=2.0"));
        let good = [
            ("accept", &*accept),
            ("content-type", &content),
            ("date", DATED),
            ("fspiop-source", "payerfsp"),
        ];
        let mut headers = HeaderMap::new();
        for (name, value) in good.iter().chain(changes) {
            let plain = HeaderName::from_bytes(name.trim_start_matches('+').as_bytes());
            let plain = plain.expect("a header name");
            let text = HeaderValue::from_str(value).expect("a header value");
            match (name.starts_with('+'), value.is_empty()) {
                (true, _) => drop(headers.append(plain, text)),
                (false, true) => drop(headers.remove(plain)),
                (false, false) => drop(headers.insert(plain, text)),
            }
        }
        headers
    }

    fn outcome(method: &Method, resource: &str, changes: &[(&str, &str)]) -> String {
        match check(&headers(resource, changes), method, resource) {
            Ok(_) => "ok".to_owned(),
            Err(refusal) => refusal.to_string(),
        }
    }

    /// An input is a method, a resource, and the differences from valid headers. `{}` is the media
    /// type of transfers.
    #[test]
    fn headers_match_their_expected_verdicts() {
        test_table::check(&expect_file!["test_tables/headers.txt"], verdict);
    }

    fn verdict(request: &str) -> String {
        let request = request.replace("{}", MEDIA);
        let mut parts = request.split(" | ");
        let (method, resource) = test_table::first_word(parts.next().expect("a method"));
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let changes: Vec<_> =
            parts.map(|change| change.split_once(": ").expect("a name and a value")).collect();
        outcome(&method, resource, &changes)
    }

    /// A text that matches `pattern`, generated by proptest, which does not support anchors.
    fn matching(pattern: &str) -> impl Strategy<Value = String> + use<> {
        prop::string::string_regex(pattern.trim_start_matches('^').trim_end_matches('$'))
            .expect("the patterns of headers are plain")
    }

    proptest! {
        #[test]
        fn texts_matching_published_patterns_are_accepted(
            accept in matching(&HeaderForm::MediaRanges.pattern("transfers").expect("a pattern")),
            content in matching(&HeaderForm::MediaType.pattern("transfers").expect("a pattern")),
            moment in 0..253_402_300_800_000u64,
        ) {
            let date = date_header(moment);
            let date = date.to_str().expect("a date is ASCII");
            let changes = [("accept", &*accept), ("content-type", &*content), ("date", date)];
            prop_assert_eq!(outcome(&Method::POST, "transfers", &changes), "ok");
        }
    }

    #[test]
    fn published_presence_matches_the_check() {
        let values = |rule: &HeaderRule| match rule.form {
            HeaderForm::MediaRanges | HeaderForm::MediaType => "{};version=2.0",
            HeaderForm::Date => DATED,
            HeaderForm::Identity => "identity",
            HeaderForm::Name | HeaderForm::NameOrEmpty | HeaderForm::Any => "payerfsp",
        };
        for rule in &HEADER_RULES {
            let name = rule.name.as_str();
            for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
                let refused = outcome(&method, "transfers", &[(name, "")]) != "ok";
                assert_eq!(refused, rule.presence.is_required(&method), "{method} {name}");
            }
            let value = values(rule).replace("{}", MEDIA);
            let again = format!("+{name}");
            let twice = [(name, &*value), (&again, &value)];
            let twice = outcome(&Method::POST, "transfers", &twice);
            assert_eq!(twice.contains("must not be repeated"), rule.once, "{name}: {twice}");
        }
    }

    #[test]
    fn a_406_lists_the_supported_versions() {
        let headers = headers("transfers", &[("accept", &format!("{MEDIA};version=3"))]);
        let refusal = check(&headers, &Method::GET, "transfers").expect_err("unsupported");
        expect![[r#"{"errorInformation":{"errorCode":"3001","errorDescription":"Unacceptable version requested - The Client requested an unsupported version, see extension list for supported version(s).","extensionList":{"extension":[{"key":"1","value":"0"},{"key":"1","value":"1"},{"key":"2","value":"0"}]}}}"#]]
        .assert_eq(std::str::from_utf8(&refusal.body()).expect("UTF-8"));
    }

    #[test]
    fn check_returns_the_parsed_headers() {
        let content = format!("{MEDIA};version=1.0");
        let changes = [
            ("content-type", &*content),
            ("fspiop-destination", "payeefsp"),
            ("fspiop-signature", "{}"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("baggage", "a=b"),
            ("authorization", "NOT_APPLICABLE"),
        ];
        let headers = headers("transfers", &changes);
        let found = check(&headers, &Method::POST, "transfers").expect("good headers");
        assert_eq!(found.source.as_str(), "payerfsp");
        assert_eq!(found.destination.map(|name| name.to_string()), Some("payeefsp".to_owned()));
        assert_eq!(found.version, Version::V1_0);
        assert_eq!(found.trace.map(|trace| trace.trace_id[0]), Some(0x0a));
        assert!(found.signature.is_some() && found.proxy.is_none());
    }

    #[test]
    fn every_line_of_a_list_is_read() {
        let other = "application/json";
        let media = format!("{MEDIA};version=2");
        for lines in [[other, &media], [&media, other]] {
            let changes = [("accept", lines[0]), ("+accept", lines[1])];
            assert_eq!(outcome(&Method::POST, "transfers", &changes), "ok", "{lines:?}");
        }
        let codings = [("content-encoding", "identity"), ("+content-encoding", "gzip")];
        let refused = outcome(&Method::POST, "transfers", &codings);
        assert!(refused.contains("Content-Encoding"), "{refused}");
    }

    #[test]
    fn empty_destination_and_invalid_trace_are_absent() {
        let mut headers = headers("transfers", &[("traceparent", "nonsense")]);
        headers.insert("fspiop-destination", HeaderValue::from_static(""));
        let found = check(&headers, &Method::POST, "transfers").expect("good headers");
        assert!(found.destination.is_none() && found.trace.is_none());
    }
}
