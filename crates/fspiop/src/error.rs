//! Error codes of the scheme, refusals, and the error body.
//!
//! The same body is used for synchronous responses and for `PUT …/error`. Costs: a code is two
//! bytes and copies; a [`Refusal`] allocates one text, only on the failing path. Bounds: a
//! description has 1 to [`DESCRIPTION_CHARS_MAX`] characters.

use std::fmt;

use bytes::Bytes;
use http::StatusCode;

use crate::json;

/// Maximum length of `errorDescription`, in characters; longer texts are truncated (hub-semantics
/// 1.4).
pub const DESCRIPTION_CHARS_MAX: usize = 128;

/// A four-digit FSPIOP error code, from the table or for private use (hub-semantics 1.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(u16);

macro_rules! error_codes {
    ($($constant:ident = $number:literal $name:literal;)*) => {
        impl ErrorCode {
            $(#[doc = concat!($number, ": ", $name, ".")]
            pub const $constant: Self = Self($number);)*

            /// Every code of the table, in ascending order.
            pub const ALL: &[Self] = &[$(Self($number)),*];
        }

        const fn name_in_table(number: u16) -> Option<&'static str> {
            match number {
                $($number => Some($name),)*
                _ => None,
            }
        }
    };
}

error_codes! {
    COMMUNICATION = 1000 "Communication error";
    DESTINATION_COMMUNICATION = 1001 "Destination communication error";
    GENERIC_SERVER = 2000 "Generic server error";
    INTERNAL_SERVER = 2001 "Internal server error";
    NOT_IMPLEMENTED = 2002 "Not implemented";
    SERVICE_UNAVAILABLE = 2003 "Service currently unavailable";
    SERVER_TIMED_OUT = 2004 "Server timed out";
    SERVER_BUSY = 2005 "Server busy";
    PARTY_RESOLUTION_FAILED = 2006 "Temporary party resolution failed";
    GENERIC_CLIENT = 3000 "Generic client error";
    UNACCEPTABLE_VERSION = 3001 "Unacceptable version requested";
    UNKNOWN_URI = 3002 "Unknown URI";
    ADD_PARTY = 3003 "Add Party information error";
    DELETE_PARTY = 3040 "Delete Party information error";
    VALIDATION = 3100 "Generic validation error";
    MALFORMED_SYNTAX = 3101 "Malformed syntax";
    MISSING_ELEMENT = 3102 "Missing mandatory element";
    TOO_MANY_ELEMENTS = 3103 "Too many elements";
    TOO_LARGE_PAYLOAD = 3104 "Too large payload";
    INVALID_SIGNATURE = 3105 "Invalid signature";
    MODIFIED_REQUEST = 3106 "Modified request";
    MISSING_EXTENSION = 3107 "Missing mandatory extension parameter";
    ID_NOT_FOUND = 3200 "Generic ID not found";
    DESTINATION_FSP = 3201 "Destination FSP Error";
    PAYER_FSP_NOT_FOUND = 3202 "Payer FSP ID not found";
    PAYEE_FSP_NOT_FOUND = 3203 "Payee FSP ID not found";
    PARTY_NOT_FOUND = 3204 "Party not found";
    QUOTE_NOT_FOUND = 3205 "Quote ID not found";
    TRANSACTION_REQUEST_NOT_FOUND = 3206 "Transaction request ID not found";
    TRANSACTION_NOT_FOUND = 3207 "Transaction ID not found";
    TRANSFER_NOT_FOUND = 3208 "Transfer ID not found";
    BULK_QUOTE_NOT_FOUND = 3209 "Bulk quote ID not found";
    BULK_TRANSFER_NOT_FOUND = 3210 "Bulk transfer ID not found";
    GENERIC_EXPIRED = 3300 "Generic expired error";
    TRANSACTION_REQUEST_EXPIRED = 3301 "Transaction request expired";
    QUOTE_EXPIRED = 3302 "Quote expired";
    TRANSFER_EXPIRED = 3303 "Transfer expired";
    GENERIC_PAYER = 4000 "Generic Payer error";
    PAYER_INSUFFICIENT_LIQUIDITY = 4001 "Payer FSP insufficient liquidity";
    GENERIC_PAYER_REJECTION = 4100 "Generic Payer rejection";
    PAYER_REJECTED_REQUEST = 4101 "Payer rejected transaction request";
    PAYER_UNSUPPORTED_TYPE = 4102 "Payer FSP unsupported transaction type";
    PAYER_UNSUPPORTED_CURRENCY = 4103 "Payer unsupported currency";
    PAYER_LIMIT = 4200 "Payer limit error";
    PAYER_PERMISSION = 4300 "Payer permission error";
    PAYER_BLOCKED = 4400 "Generic Payer blocked error";
    GENERIC_PAYEE = 5000 "Generic Payee error";
    PAYEE_INSUFFICIENT_LIQUIDITY = 5001 "Payee FSP insufficient liquidity";
    GENERIC_PAYEE_REJECTION = 5100 "Generic Payee rejection";
    PAYEE_REJECTED_QUOTE = 5101 "Payee rejected quote";
    PAYEE_UNSUPPORTED_TYPE = 5102 "Payee FSP unsupported transaction type";
    PAYEE_FSP_REJECTED_QUOTE = 5103 "Payee FSP rejected quote";
    PAYEE_REJECTED_TRANSACTION = 5104 "Payee rejected transaction";
    PAYEE_FSP_REJECTED_TRANSACTION = 5105 "Payee FSP rejected transaction";
    PAYEE_UNSUPPORTED_CURRENCY = 5106 "Payee unsupported currency";
    PAYEE_IDENTIFIER_INVALID = 5107 "Payee identifier no longer valid";
    PAYEE_LIMIT = 5200 "Payee limit error";
    PAYEE_PERMISSION = 5300 "Payee permission error";
    PAYEE_BLOCKED = 5400 "Generic Payee blocked error";
    GENERIC_SETTLEMENT = 6000 "Generic Settlement Error";
    GENERIC_THIRD_PARTY = 7000 "Generic third party error";
}

impl ErrorCode {
    /// Parses four digits, the first of them not zero. The code need not be in the table.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits: [u8; 4] = text.as_bytes().try_into().ok()?;
        if !digits.iter().all(u8::is_ascii_digit) || digits[0] == b'0' {
            return None;
        }
        Some(Self(digits.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'))))
    }

    /// The code as a number, 1000 to 9999.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Reads a stored number; `None` outside 1000 to 9999.
    #[must_use]
    pub const fn from_number(number: u16) -> Option<Self> {
        if 1_000 <= number && number <= 9_999 { Some(Self(number)) } else { None }
    }

    /// Whether the hub forwards the code: it is in the table, or its first two digits name a known
    /// group (private use). Other codes are replaced by 3100 (hub-semantics 1.5).
    #[must_use]
    pub const fn is_accepted(self) -> bool {
        name_in_table(self.0).is_some()
            || matches!(self.0 / 100, 10 | 20 | 30..=34 | 40..=44 | 50..=54 | 60)
            || matches!(self.0, 7100..=7109 | 7200..=7214 | 7300)
    }

    /// The standard text of the code, or of its group for a code of private use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match name_in_table(self.0) {
            Some(name) => name,
            None => match self.0 / 1_000 {
                1 => "Communication error",
                2 => "Generic server error",
                4 => "Generic Payer error",
                5 => "Generic Payee error",
                6 => "Generic Settlement Error",
                7 => "Generic third party error",
                _ => "Generic client error",
            },
        }
    }

    /// The HTTP status of a synchronous response with this code.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self.0 {
            2002 => StatusCode::NOT_IMPLEMENTED,
            1000..=1999 | 2003 | 2006 => StatusCode::SERVICE_UNAVAILABLE,
            2000..=2999 => StatusCode::INTERNAL_SERVER_ERROR,
            3001 => StatusCode::NOT_ACCEPTABLE,
            3002 => StatusCode::NOT_FOUND,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// The standard text, ` - `, then `detail`; truncated to [`DESCRIPTION_CHARS_MAX`] characters.
    #[must_use]
    pub fn describe(self, detail: &str) -> String {
        let name = self.name();
        if detail.is_empty() {
            return name.to_owned();
        }
        let mut text = String::with_capacity(name.len() + 3 + detail.len());
        text.push_str(name);
        text.push_str(" - ");
        text.push_str(detail);
        truncate_chars(&mut text, DESCRIPTION_CHARS_MAX);
        text
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A refused request without any effect: the synchronous error response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status}, {code}: {description}")]
pub struct Refusal {
    /// HTTP status of the response.
    pub status: StatusCode,
    /// FSPIOP code.
    pub code: ErrorCode,
    /// Complete `errorDescription`, at most [`DESCRIPTION_CHARS_MAX`] characters.
    pub description: String,
    /// Entries of the extension list; usually empty.
    pub extensions: Vec<(&'static str, &'static str)>,
    /// Value of the header `WWW-Authenticate`, if the credential is refused.
    pub challenge: Option<&'static str>,
}

impl Refusal {
    /// A refusal with the code's status, and its standard text followed by `detail`.
    #[must_use]
    pub fn new(code: ErrorCode, detail: &str) -> Self {
        let description = code.describe(detail);
        let (status, extensions) = (code.status(), Vec::new());
        Self { status, code, description, extensions, challenge: None }
    }

    /// 404, 3002: no resource has this path.
    #[must_use]
    pub fn unknown_uri() -> Self {
        Self::new(ErrorCode::UNKNOWN_URI, "")
    }

    /// 405, 3000: the resource exists but not with this method.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let refusal = Self::new(ErrorCode::GENERIC_CLIENT, "Method Not Allowed");
        Self { status: StatusCode::METHOD_NOT_ALLOWED, ..refusal }
    }

    /// 501, 2002: a published route that the hub does not serve.
    #[must_use]
    pub fn not_implemented() -> Self {
        Self::new(ErrorCode::NOT_IMPLEMENTED, "")
    }

    /// 503, 2003: full or shutting down. The request had no effect and may be sent again.
    #[must_use]
    pub fn unavailable() -> Self {
        Self::new(ErrorCode::SERVICE_UNAVAILABLE, "")
    }

    /// 503, 2003: the sender does not accept its callbacks. The request had no effect.
    #[must_use]
    pub fn owed() -> Self {
        let detail = "too many callbacks are owed to the sender, whose endpoint does not take them";
        Self::new(ErrorCode::SERVICE_UNAVAILABLE, detail)
    }

    /// 500, 2001: an internal error.
    #[must_use]
    pub fn internal(detail: &str) -> Self {
        Self::new(ErrorCode::INTERNAL_SERVER, detail)
    }

    /// 400, 3104: the body or the headers exceed their limit.
    #[must_use]
    pub fn too_large() -> Self {
        Self::new(ErrorCode::TOO_LARGE_PAYLOAD, "")
    }

    /// 400, 3100.
    pub(crate) fn invalid(detail: &str) -> Self {
        Self::new(ErrorCode::VALIDATION, detail)
    }

    /// 400, 3101.
    #[must_use]
    pub fn malformed(detail: &str) -> Self {
        Self::new(ErrorCode::MALFORMED_SYNTAX, detail)
    }

    /// 400, 3102.
    #[must_use]
    pub fn missing(detail: &str) -> Self {
        Self::new(ErrorCode::MISSING_ELEMENT, detail)
    }

    /// The JSON body of the response (hub-semantics 1.4).
    #[must_use]
    pub fn body(&self) -> Bytes {
        error_body(self.code, &self.description, &self.extensions)
    }
}

/// Renders `{"errorInformation":{…}}`, compact and with sorted keys, for a synchronous response or
/// a `PUT …/error` (hub-semantics 1.4).
///
/// `description` is used as it is (see [`ErrorCode::describe`]), but truncated to its bound. An
/// empty one becomes the code's name, because the schema requires at least one character. At most
/// 16 `extensions` are written, keys truncated to 32 and values to 128 characters.
#[must_use]
pub fn error_body(
    code: ErrorCode,
    description: &str,
    extensions: &[(impl AsRef<str>, impl AsRef<str>)],
) -> Bytes {
    let mut out = Vec::with_capacity(96 + description.len());
    out.extend_from_slice(br#"{"errorInformation":"#);
    write_error_information(&mut out, code, description, extensions);
    out.push(b'}');
    Bytes::from(out)
}

/// Appends the inner object of [`error_body`] to `out`.
pub(crate) fn write_error_information(
    out: &mut Vec<u8>,
    code: ErrorCode,
    description: &str,
    extensions: &[(impl AsRef<str>, impl AsRef<str>)],
) {
    let description = if description.is_empty() { code.name() } else { description };
    out.extend_from_slice(br#"{"errorCode":"#);
    json::write_text(out, &code.to_string());
    out.extend_from_slice(br#","errorDescription":"#);
    json::write_text(out, first_chars(description, DESCRIPTION_CHARS_MAX));
    if !extensions.is_empty() {
        out.extend_from_slice(br#","extensionList":"#);
        json::write_extension_list(out, extensions);
    }
    out.push(b'}');
}

/// The longest prefix of `text` with at most `chars` characters.
pub(crate) fn first_chars(text: &str, chars: usize) -> &str {
    if text.len() <= chars {
        return text;
    }
    match text.char_indices().nth(chars) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

fn truncate_chars(text: &mut String, chars: usize) {
    let end = first_chars(text, chars).len();
    text.truncate(end);
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn refusals_have_the_status_and_text_of_their_code() {
        let lines = [
            Refusal::unknown_uri(),
            Refusal::method_not_allowed(),
            Refusal::not_implemented(),
            Refusal::unavailable(),
            Refusal::internal("transfer not found"),
            Refusal::too_large(),
            Refusal::invalid("a \"quoted\"\n\u{1} \\ text"),
        ]
        .map(|refusal| {
            let body = refusal.body();
            serde_json::from_slice::<serde_json::Value>(&body).expect("a body is JSON");
            let text = std::str::from_utf8(&body).expect("a body is UTF-8");
            format!("{} {text}\n", refusal.status.as_u16())
        });
        expect![[r#"
            404 {"errorInformation":{"errorCode":"3002","errorDescription":"Unknown URI"}}
            405 {"errorInformation":{"errorCode":"3000","errorDescription":"Generic client error - Method Not Allowed"}}
            501 {"errorInformation":{"errorCode":"2002","errorDescription":"Not implemented"}}
            503 {"errorInformation":{"errorCode":"2003","errorDescription":"Service currently unavailable"}}
            500 {"errorInformation":{"errorCode":"2001","errorDescription":"Internal server error - transfer not found"}}
            400 {"errorInformation":{"errorCode":"3104","errorDescription":"Too large payload"}}
            400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - a \"quoted\"\n\u0001 \\ text"}}
        "#]]
        .assert_eq(&lines.concat());
    }

    #[test]
    fn descriptions_are_cut_to_128_characters_not_bytes() {
        let refusal = Refusal::invalid(&"é".repeat(200));
        assert_eq!(refusal.description.chars().count(), 128);
        let body = error_body(
            ErrorCode::VALIDATION,
            &"é".repeat(200),
            &[("k".repeat(40), "é".repeat(200))],
        );
        let value: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        let error = &value["errorInformation"];
        assert_eq!(error["errorDescription"].as_str().map(|text| text.chars().count()), Some(128));
        let extension = &error["extensionList"]["extension"][0];
        assert_eq!(extension["key"].as_str().map(str::len), Some(32));
        assert_eq!(extension["value"].as_str().map(|text| text.chars().count()), Some(128));
    }

    #[test]
    fn extension_lists_hold_sixteen_entries_and_descriptions_are_never_empty() {
        let body = error_body(ErrorCode::VALIDATION, "", &[("k", "v"); 20]);
        let value: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        let error = &value["errorInformation"];
        assert_eq!(error["errorDescription"], "Generic validation error");
        assert_eq!(error["extensionList"]["extension"].as_array().map(Vec::len), Some(16));
    }

    #[test]
    fn codes_parse_as_four_digits() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::parse(&code.to_string()), Some(*code));
            assert_eq!(ErrorCode::from_number(code.number()), Some(*code));
            assert!(code.is_accepted());
        }
        for text in ["", "310", "31000", "0100", "31O0", "+310", "３１００"] {
            assert_eq!(ErrorCode::parse(text), None, "{text}");
        }
    }

    #[test]
    fn private_codes_are_accepted_by_group() {
        for (text, accepted, name) in [
            ("3456", true, "Generic client error"),
            ("5499", true, "Generic Payee error"),
            ("6099", true, "Generic Settlement Error"),
            ("3500", false, "Generic client error"),
            ("1100", false, "Communication error"),
            ("5500", false, "Generic Payee error"),
            ("6100", false, "Generic Settlement Error"),
            ("7109", true, "Generic third party error"),
            ("7110", false, "Generic third party error"),
            ("9999", false, "Generic client error"),
        ] {
            let code = ErrorCode::parse(text).expect(text);
            assert_eq!((code.is_accepted(), code.name()), (accepted, name), "{text}");
        }
    }

    #[test]
    fn the_table_is_sorted_and_its_statuses_follow_the_groups() {
        assert!(ErrorCode::ALL.is_sorted());
        for (number, status) in [
            (1000, 503),
            (1001, 503),
            (2000, 500),
            (2001, 500),
            (2002, 501),
            (2003, 503),
            (2004, 500),
            (2005, 500),
            (2006, 503),
            (3000, 400),
            (3001, 406),
            (3002, 404),
            (3100, 400),
            (4200, 400),
            (5107, 400),
            (6000, 400),
            (7300, 400),
        ] {
            assert_eq!(ErrorCode(number).status().as_u16(), status, "{number}");
        }
    }
}
