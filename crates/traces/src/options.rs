//! The collector that spans are sent to, and the names that the switch has there.

use std::str::FromStr;

/// Path of the traces at a collector that speaks OTLP over HTTP.
const HTTP_PATH: &str = "/v1/traces";

/// A setting that cannot be used, with the reason.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct InvalidSetting(pub String);

/// How spans are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportProtocol {
    /// OTLP as protobuf over HTTP/1.1.
    Http,
    /// OTLP over gRPC.
    Grpc,
}

impl FromStr for ExportProtocol {
    type Err = InvalidSetting;

    /// By the names of the OpenTelemetry specification.
    fn from_str(text: &str) -> Result<Self, InvalidSetting> {
        match text {
            "http/protobuf" => Ok(Self::Http),
            "grpc" => Ok(Self::Grpc),
            _ => Err(InvalidSetting(format!(
                "{text:?} is not supported; use \"http/protobuf\" or \"grpc\""
            ))),
        }
    }
}

/// The export of spans.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// URL of the collector, as [`ExportOptions::checked_endpoint`] returns it.
    pub endpoint: String,
    /// How spans are sent.
    pub protocol: ExportProtocol,
    /// Headers of each export, such as a token.
    pub headers: Vec<(String, String)>,
    /// `service.name` of all spans.
    pub service_name: String,
    /// `service.version`.
    pub service_version: &'static str,
    /// `service.instance.id`.
    pub instance: String,
    /// The clock of the spans, in nanoseconds.
    pub monotonic_ns: fn() -> u64,
}

impl ExportOptions {
    /// The URL of a collector, for HTTP with the path `/v1/traces` if it has none.
    ///
    /// # Errors
    /// [`InvalidSetting`]: not an absolute `http://` or `https://` URL, or one with a password.
    pub fn checked_endpoint(url: &str, protocol: ExportProtocol) -> Result<String, InvalidSetting> {
        let invalid = |why: &str| InvalidSetting(format!("{url:?}: {why}"));
        let expected = || invalid("expected http:// or https:// and a host");
        let (scheme, rest) = url.split_once("://").ok_or_else(expected)?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let is_visible = url.bytes().all(|byte| byte.is_ascii_graphic());
        if !["http", "https"].contains(&scheme) || !is_visible || authority.is_empty() {
            return Err(expected());
        }
        if authority.contains('@') {
            return Err(invalid("user names and passwords are not supported"));
        }
        let is_bare = matches!(rest.strip_prefix(authority), Some("" | "/"));
        Ok(match protocol {
            ExportProtocol::Http if is_bare => format!("{scheme}://{authority}{HTTP_PATH}"),
            _ => url.to_owned(),
        })
    }

    /// The headers in a text of lines `name: value`. Empty lines are ignored.
    ///
    /// # Errors
    /// [`InvalidSetting`] with the number of the line, without its content.
    pub fn headers_of(text: &str) -> Result<Vec<(String, String)>, InvalidSetting> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let parsed = lines.map(|(at, line)| {
            let invalid = || InvalidSetting(format!("line {}: expected name: value", at + 1));
            let (name, value) = line.split_once(':').ok_or_else(invalid)?;
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            let is_valid = !name.is_empty()
                && name.bytes().all(is_name)
                && value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
            is_valid.then(|| (name, value.to_owned())).ok_or_else(invalid)
        });
        parsed.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_checked() {
        use ExportProtocol::{Grpc, Http};
        let expected = "expected http:// or https:// and a host";
        for (url, protocol, result) in [
            ("http://otel:4318", Http, Ok("http://otel:4318/v1/traces")),
            ("http://otel:4318/", Http, Ok("http://otel:4318/v1/traces")),
            ("https://otel/own/path", Http, Ok("https://otel/own/path")),
            ("http://[::1]:4317", Grpc, Ok("http://[::1]:4317")),
            ("otel:4318", Http, Err(expected)),
            ("ftp://otel", Http, Err(expected)),
            ("http://", Grpc, Err(expected)),
            ("http://a b", Grpc, Err(expected)),
            ("http://user:secret@otel", Http, Err("passwords are not supported")),
        ] {
            let found = ExportOptions::checked_endpoint(url, protocol);
            match result {
                Ok(checked) => assert_eq!(found.as_deref(), Ok(checked), "{url}"),
                Err(why) => assert!(found.unwrap_err().0.contains(why), "{url}"),
            }
        }
    }

    #[test]
    fn headers_are_lines() {
        let read = |text| ExportOptions::headers_of(text);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read(""), Ok(Vec::new()));
        let two = Ok(vec![pair("authorization", "Basic a:b"), pair("x-scope", "")]);
        assert_eq!(read("Authorization: Basic a:b\n\nX-Scope:\n"), two);
        for text in ["secret", "a\n: secret", "x: \u{7}secret", "x y: secret"] {
            let error = read(text).unwrap_err().0;
            assert!(error.contains("expected name: value") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn protocols_have_the_names_of_the_specification() {
        assert_eq!("grpc".parse(), Ok(ExportProtocol::Grpc));
        assert_eq!("http/protobuf".parse(), Ok(ExportProtocol::Http));
        assert!("http/json".parse::<ExportProtocol>().is_err());
    }
}
