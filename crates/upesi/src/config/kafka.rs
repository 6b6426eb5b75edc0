//! TLS and authentication with brokers, as the sections `[kafka]` and `[events]` configure them.

use std::path::PathBuf;

#[cfg(feature = "kafka")]
use crate::CliError;
#[cfg(feature = "kafka")]
use crate::config::secrets;
use crate::config::settings::{Events, Kafka};
use crate::config::values::Mechanism;

/// The settings of a section about connections to brokers.
pub(crate) struct BrokerAccess<'a> {
    section: &'static str,
    tls: bool,
    ca: &'a Option<PathBuf>,
    certificate: &'a Option<PathBuf>,
    key: &'a Option<PathBuf>,
    user: &'a Option<String>,
    password_file: &'a Option<PathBuf>,
    mechanism: Mechanism,
}

macro_rules! broker_access {
    ($($section:ident $name:literal),*) => {
        $(impl $section {
            /// Its settings about connections.
            pub(crate) const fn access(&self) -> BrokerAccess<'_> {
                BrokerAccess {
                    section: $name,
                    tls: self.tls,
                    ca: &self.ca,
                    certificate: &self.certificate,
                    key: &self.key,
                    user: &self.user,
                    password_file: &self.password_file,
                    mechanism: self.mechanism,
                }
            }
        })*
    };
}

broker_access!(Kafka "kafka", Events "events");

impl BrokerAccess<'_> {
    /// Whether a password is used on an unencrypted connection.
    pub(crate) fn is_unencrypted(&self) -> bool {
        self.user.is_some() && !self.tls
    }

    /// The section and its files of certificates, by their kind; no files without TLS.
    pub(crate) fn certificate_files(&self) -> (&'static str, Vec<(&'static str, PathBuf)>) {
        let files = [("ca", self.ca), ("certificate", self.certificate)];
        let files = files.into_iter().filter(|_| self.tls);
        (self.section, files.filter_map(|(kind, path)| Some((kind, path.clone()?))).collect())
    }

    /// The first contradiction between settings.
    pub(super) fn fault(&self) -> Option<String> {
        let has_files = self.ca.is_some() || self.certificate.is_some() || self.key.is_some();
        let faults = [
            (!self.tls && has_files, "_ca, _certificate and _key are for _tls = true"),
            (
                self.certificate.is_some() != self.key.is_some(),
                "_certificate and _key belong together: set both or none",
            ),
            (
                self.user.is_some() != self.password_file.is_some(),
                "_user and _password_file belong together: set both or none",
            ),
            (
                self.is_unencrypted() && self.mechanism == Mechanism::Plain,
                "_mechanism = \"PLAIN\" sends the password in clear text; set _tls",
            ),
        ];
        let fault = faults.iter().find(|(fault, _)| *fault);
        fault.map(|(_, text)| {
            let named = text.split(' ').map(|word| match word.strip_prefix('_') {
                Some(setting) => format!("{}.{setting}", self.section),
                None => word.to_owned(),
            });
            named.collect::<Vec<_>>().join(" ")
        })
    }

    /// The configured TLS and login, with the password from its file.
    #[cfg(feature = "kafka")]
    pub(crate) fn security(&self) -> Result<kafka::Security, CliError> {
        self.check_files()?;
        let identity = self.certificate.clone().zip(self.key.clone());
        let identity = identity.map(|(certificate, key)| kafka::Identity { certificate, key });
        let tls = self.tls.then(|| kafka::Tls { ca: self.ca.clone(), identity });
        let login = match (&self.user, &self.password_file) {
            (Some(user), Some(path)) => Some(kafka::Login {
                mechanism: self.mechanism.to_client(),
                user: user.clone(),
                password: secrets::one_line(&self.named("password_file"), path)?,
            }),
            _ => None,
        };
        Ok(kafka::Security { tls, login })
    }

    /// Checks the files at the start, because the client library reads them only when it connects.
    #[cfg(feature = "kafka")]
    fn check_files(&self) -> Result<(), CliError> {
        if let Some(key) = &self.key {
            secrets::check(&self.named("key"), key)?;
        }
        for (name, path) in [("ca", &self.ca), ("certificate", &self.certificate)] {
            let Some(path) = path else { continue };
            std::fs::File::open(path).map_err(|error| {
                CliError::new(format!("{}: {}: {error}", self.named(name), path.display()))
            })?;
        }
        Ok(())
    }

    #[cfg(feature = "kafka")]
    fn named(&self, setting: &str) -> String {
        format!("{}.{setting}", self.section)
    }
}

#[cfg(feature = "kafka")]
impl Mechanism {
    const fn to_client(self) -> kafka::Mechanism {
        match self {
            Self::ScramSha512 => kafka::Mechanism::ScramSha512,
            Self::ScramSha256 => kafka::Mechanism::ScramSha256,
            Self::Plain => kafka::Mechanism::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Kafka {
        toml::from_str(text).expect("known words")
    }

    #[test]
    fn incomplete_settings_are_refused() {
        let tls = "tls = true\n";
        for (text, fault) in [
            ("", ""),
            (tls, ""),
            ("tls = true\nca = \"a\"\ncertificate = \"b\"\nkey = \"c\"", ""),
            ("user = \"u\"\npassword_file = \"p\"", ""),
            ("tls = true\nuser = \"u\"\npassword_file = \"p\"\nmechanism = \"PLAIN\"", ""),
            ("ca = \"a\"", "are for kafka.tls = true"),
            ("tls = true\nkey = \"c\"", "kafka.certificate and kafka.key belong together"),
            ("user = \"u\"", "kafka.user and kafka.password_file belong together"),
            ("password_file = \"p\"", "kafka.user and kafka.password_file belong together"),
            ("user = \"u\"\npassword_file = \"p\"\nmechanism = \"PLAIN\"", "sends the password"),
        ] {
            let found = read(text).access().fault().unwrap_or_default();
            assert!(
                found.contains(fault) && found.is_empty() == fault.is_empty(),
                "{text}: {found}"
            );
        }
        let unknown = toml::from_str::<Kafka>("mechanism = \"GSSAPI\"").expect_err("unknown");
        assert!(unknown.to_string().contains("SCRAM-SHA-512"), "{unknown}");
    }

    #[cfg(feature = "kafka")]
    #[test]
    fn a_password_is_one_line_that_others_cannot_read() {
        use std::fs::{self, Permissions};
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("password");
        let kafka = Kafka {
            user: Some("upesi".into()),
            password_file: Some(path.clone()),
            ..Kafka::default()
        };
        let error =
            || kafka.access().security().err().map_or_else(String::new, |error| error.to_string());
        assert!(error().contains("kafka.password_file"), "{}", error());
        for (text, mode, expected) in [
            ("secret\n", 0o600, ""),
            ("with blanks ", 0o640, ""),
            ("secret", 0o644, "mode 644"),
            ("", 0o600, "one line"),
            ("two\nlines\n", 0o600, "one line"),
            (&*"x".repeat(1_025), 0o600, "one line"),
        ] {
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("set");
            assert!(error().contains(expected), "{text}: {}", error());
            assert_eq!(error().is_empty(), expected.is_empty(), "{text}: {}", error());
        }
        fs::write(&path, "with blanks \n").expect("written");
        let login = kafka.access().security().expect("it is read").login.expect("there is one");
        assert_eq!((&*login.user, &*login.password), ("upesi", "with blanks "));
    }

    #[cfg(feature = "kafka")]
    #[test]
    fn files_that_are_missing_are_named_before_any_broker_is_asked() {
        let kafka = read("tls = true\nca = \"/nowhere/ca.pem\"");
        let error = kafka.access().security().expect_err("it is missing").to_string();
        assert!(error.starts_with("kafka.ca: /nowhere/ca.pem: "), "{error}");
    }
}
