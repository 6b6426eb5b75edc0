//! Export of traces: the section `[traces]`, and the environment variables of OpenTelemetry.

use std::io::Read;

use traces::{ExportOptions, ExportProtocol, InvalidSetting, Sampling};

use crate::CliError;
use crate::config::secrets;
use crate::config::settings::Traces;
use crate::config::values::{SampledFlag, TraceProtocol};

const ENDPOINT: &str = "traces.endpoint";
const HEADERS: &str = "traces.headers_file";
/// Longest file of headers, in bytes.
const HEADERS_MAX: u64 = 16 << 10;

/// A variable of the environment.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The variable, unless it is unset or empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Traces {
    /// The export, for an instance with this name; `None` if no collector is named. Reads the
    /// headers, and connects to nothing.
    pub(crate) fn export(
        &self,
        environment: Environment<'_>,
        instance: &str,
    ) -> Result<Option<ExportOptions>, CliError> {
        let protocol = self.protocol(environment)?;
        let Some(endpoint) = self.collector(environment, protocol)? else { return Ok(None) };
        let named = || environment("OTEL_SERVICE_NAME");
        Ok(Some(ExportOptions {
            endpoint,
            protocol,
            headers: self.headers()?,
            service_name: self.service_name.clone().or_else(named).unwrap_or("upesi".into()),
            service_version: env!("CARGO_PKG_VERSION"),
            instance: instance.to_owned(),
            monotonic_ns: node::latency_trace::monotonic_ns,
        }))
    }

    /// The sampling.
    pub(crate) fn sampling(&self) -> Sampling {
        let flag = match self.sampled_flag {
            SampledFlag::Ratio => traces::SampledFlag::Ratio,
            SampledFlag::Always => traces::SampledFlag::Always,
        };
        Sampling::new(self.ratio.0, flag)
    }

    fn protocol(&self, environment: Environment<'_>) -> Result<ExportProtocol, CliError> {
        match self.protocol {
            Some(TraceProtocol::Http) => return Ok(ExportProtocol::Http),
            Some(TraceProtocol::Grpc) => return Ok(ExportProtocol::Grpc),
            None => {}
        }
        for name in ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"] {
            if let Some(text) = environment(name) {
                return text.parse().map_err(named(name));
            }
        }
        Ok(ExportProtocol::Http)
    }

    /// The checked URL of the collector.
    fn collector(
        &self,
        environment: Environment<'_>,
        protocol: ExportProtocol,
    ) -> Result<Option<String>, CliError> {
        let names = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
        // A build without the export ignores variables that are meant for other programs.
        let given = || names.into_iter().filter(|_| traces::CAN_EXPORT);
        let of_variable = || given().find_map(|name| Some((name, environment(name)?)));
        let set = self.endpoint.clone().map(|url| (ENDPOINT, url));
        let Some((name, url)) = set.or_else(of_variable) else { return Ok(None) };
        if !traces::CAN_EXPORT {
            return Err(CliError::new(format!(
                "{name}: this build exports no traces; build it with the feature traces"
            )));
        }
        ExportOptions::checked_endpoint(&url, protocol).map(Some).map_err(named(name))
    }

    fn headers(&self) -> Result<Vec<(String, String)>, CliError> {
        let Some(path) = &self.headers_file else { return Ok(Vec::new()) };
        let mut text = String::new();
        let read = secrets::check(HEADERS, path)?.take(HEADERS_MAX + 1).read_to_string(&mut text);
        let failed = |what: &str| CliError::new(format!("{HEADERS}: {}: {what}", path.display()));
        read.map_err(|error| failed(&error.to_string()))?;
        if HEADERS_MAX < text.len() as u64 {
            return Err(failed("larger than 16 KiB"));
        }
        ExportOptions::headers_of(&text).map_err(|error| failed(&error.0))
    }
}

/// Adds the name of the setting or variable to an error.
fn named(name: &'static str) -> impl Fn(InvalidSetting) -> CliError {
    move |error| CliError::new(format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn parse(text: &str) -> Traces {
        toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// Endpoint, protocol and service.
    fn export(text: &str, variables: &[(&str, &str)]) -> Result<Option<String>, String> {
        let environment = |name: &str| {
            let found = variables.iter().find(|(known, _)| known == &name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let export = parse(text).export(&environment, "here");
        let export = export.map_err(|error| error.to_string())?;
        let shown =
            export.map(|it| format!("{} {:?} {}", it.endpoint, it.protocol, it.service_name));
        Ok(shown)
    }

    #[test]
    #[cfg(feature = "traces")]
    fn settings_precede_variables() {
        let endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let own = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        let protocol = "OTEL_EXPORTER_OTLP_PROTOCOL";
        let shown = |text: &str| Ok(Some(text.to_owned()));
        for (text, variables, expected) in [
            ("", &[][..], Ok(None)),
            ("ratio = 1\n", &[], Ok(None)),
            ("endpoint = \"http://a:1\"\n", &[], shown("http://a:1/v1/traces Http upesi")),
            (
                "endpoint = \"http://a:1\"\nprotocol = \"grpc\"\nservice_name = \"hub\"\n",
                &[(endpoint, "http://b:2"), ("OTEL_SERVICE_NAME", "other")],
                shown("http://a:1 Grpc hub"),
            ),
            (
                "",
                &[(endpoint, "http://b:2"), (own, "http://c:3"), ("OTEL_SERVICE_NAME", "other")],
                shown("http://c:3/v1/traces Http other"),
            ),
            ("", &[(endpoint, "http://b:2"), (protocol, "grpc")], shown("http://b:2 Grpc upesi")),
        ] {
            assert_eq!(export(text, variables), expected, "{text} {variables:?}");
        }
    }

    #[test]
    #[cfg(feature = "traces")]
    fn errors_name_their_source() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("headers");
        fs::write(&path, "no header").expect("a file");
        let file = format!("endpoint = \"http://a\"\nheaders_file = {path:?}\n");
        for (text, variables, expected) in [
            ("endpoint = \"a:1\"\n", &[][..], "traces.endpoint: \"a:1\": expected http://"),
            (
                "",
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", "b")],
                "OTEL_EXPORTER_OTLP_ENDPOINT: \"b\": expected http://",
            ),
            (
                "",
                &[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")],
                "OTEL_EXPORTER_OTLP_PROTOCOL: \"http/json\" is not supported",
            ),
            (&file, &[], "traces.headers_file: "),
        ] {
            let error = export(text, variables).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("permissions");
        let error = export(&file, &[]).expect_err("no header");
        assert!(error.ends_with("line 1: expected name: value"), "{error}");
        fs::write(&path, "authorization: Bearer x\n").expect("a file");
        assert!(export(&file, &[]).is_ok());
    }

    #[test]
    fn ratio_is_bounded() {
        for (text, valid) in
            [("0", true), ("0.5", true), ("1", true), ("1.01", false), ("-1", false)]
        {
            let parsed = toml::from_str::<Traces>(&format!("ratio = {text}\n"));
            assert_eq!(parsed.is_ok(), valid, "{text}");
        }
    }
}
