//! Authentication between a node and brokers: TLS, and a user with a password.
//!
//! Both need the feature `tls`, which links OpenSSL. Without it such settings are refused; nothing
//! falls back to plain text.

use std::fmt;
use std::path::PathBuf;

use rdkafka::ClientConfig;

use crate::OpenError;

/// Security settings of the brokers' listener. The default is plain text without authentication,
/// for a private network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// Encrypts the connection, and authenticates the brokers.
    pub tls: Option<Tls>,
    /// User of this client.
    pub login: Option<Login>,
}

/// Authentication of brokers. Their certificates must name their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// File with the CA certificates (PEM) that sign the brokers' certificates; `None` uses the
    /// system's.
    pub ca: Option<PathBuf>,
    /// Certificate and key of this client, if brokers require them.
    pub identity: Option<Identity>,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// File with the certificate (PEM) and its intermediate certificates.
    pub certificate: PathBuf,
    /// File with the unencrypted private key (PEM).
    pub key: PathBuf,
}

/// A user with a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The SASL mechanism.
    pub mechanism: Mechanism,
    /// The user name.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {:?}", self.user, self.mechanism)
    }
}

/// A SASL mechanism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mechanism {
    /// SCRAM with SHA-512: the password is proved and never sent.
    #[default]
    ScramSha512,
    /// SCRAM with SHA-256.
    ScramSha256,
    /// The password is sent, protected by TLS only.
    Plain,
}

impl Mechanism {
    /// Its name in Kafka.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ScramSha512 => "SCRAM-SHA-512",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::Plain => "PLAIN",
        }
    }
}

impl Security {
    /// Checks that this build supports the settings.
    ///
    /// # Errors
    /// [`OpenError::NoTls`].
    pub fn check(&self) -> Result<(), OpenError> {
        if self.is_missing() { Err(OpenError::NoTls) } else { Ok(()) }
    }

    /// Whether the settings need a feature that this build lacks.
    pub(crate) fn is_missing(&self) -> bool {
        !cfg!(feature = "tls") && *self != Self::default()
    }

    /// The security protocol's name in Kafka.
    const fn protocol(&self) -> &'static str {
        match (&self.tls, &self.login) {
            (None, None) => "plaintext",
            (Some(_), None) => "ssl",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), Some(_)) => "sasl_ssl",
        }
    }

    pub(crate) fn apply(&self, config: &mut ClientConfig) {
        config.set("security.protocol", self.protocol());
        if let Some(Tls { ca, identity }) = &self.tls {
            let ca = ca.as_ref().map(|path| ("ssl.ca.location", path));
            let own = identity.as_ref().map(|own| {
                [("ssl.certificate.location", &own.certificate), ("ssl.key.location", &own.key)]
            });
            for (name, path) in ca.into_iter().chain(own.into_iter().flatten()) {
                config.set(name, path.display().to_string());
            }
        }
        if let Some(Login { mechanism, user, password }) = &self.login {
            config
                .set("sasl.mechanism", mechanism.name())
                .set("sasl.username", user)
                .set("sasl.password", password);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> Login {
        Login { mechanism: Mechanism::Plain, user: "upesi".into(), password: "secret".into() }
    }

    fn applied(security: &Security) -> Vec<(String, String)> {
        let mut config = ClientConfig::new();
        security.apply(&mut config);
        // The map of all settings hides passwords.
        let names = config.config_map().into_keys().map(str::to_owned);
        let value = |name: &String| config.get(name).unwrap_or_default().to_owned();
        let mut all: Vec<_> = names.map(|name| (name.clone(), value(&name))).collect();
        all.sort_unstable();
        all
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn each_combination_has_its_protocol() {
        let plain = Security::default();
        assert_eq!(applied(&plain), pairs(&[("security.protocol", "plaintext")]));
        let own = Identity { certificate: "own.pem".into(), key: "own.key".into() };
        let tls = Tls { ca: Some("ca.pem".into()), identity: Some(own) };
        let whole = Security { tls: Some(tls), login: Some(login()) };
        let expected = [
            ("sasl.mechanism", "PLAIN"),
            ("sasl.password", "secret"),
            ("sasl.username", "upesi"),
            ("security.protocol", "sasl_ssl"),
            ("ssl.ca.location", "ca.pem"),
            ("ssl.certificate.location", "own.pem"),
            ("ssl.key.location", "own.key"),
        ];
        assert_eq!(applied(&whole), pairs(&expected));
        let tls = Security { tls: Some(Tls::default()), login: None };
        assert_eq!(applied(&tls), pairs(&[("security.protocol", "ssl")]));
    }

    #[test]
    fn a_password_is_never_shown() {
        let security = Security { tls: None, login: Some(login()) };
        assert!(!format!("{security:?}").contains("secret"), "{security:?}");
    }

    #[test]
    fn build_without_tls_refuses_security_settings() {
        assert!(!Security::default().is_missing());
        let tls = Security { tls: Some(Tls::default()), login: None };
        assert_eq!(tls.is_missing(), !cfg!(feature = "tls"));
    }
}
