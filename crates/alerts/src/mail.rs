//! E-mails through an SMTP relay: plain text, one message per alert and receiver.

use std::error::Error;
#[cfg(feature = "tls")]
use std::path::Path;
use std::path::PathBuf;

use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::AsyncSmtpTransportBuilder;
use lettre::transport::smtp::authentication::Credentials;
#[cfg(feature = "tls")]
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Tokio1Executor};

use crate::{AlertMessage, InvalidSetting, TIMEOUT};

/// Encryption of the connection to the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailTls {
    /// None.
    Off,
    /// A plain connection that must become encrypted before anything is sent.
    StartTls,
    /// Encrypted from the first byte.
    On,
}

/// User name and password at the relay.
#[derive(Clone)]
pub struct SmtpLogin {
    /// The user name.
    pub user: String,
    /// The password.
    pub password: String,
}

/// The relay, and the sender of all e-mails.
#[derive(Clone)]
pub struct MailOptions {
    /// Host and port of the relay: `mail.example:587`.
    pub relay: String,
    /// Encryption.
    pub tls: MailTls,
    /// PEM file with the CA certificates for the relay; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// The login, if the relay needs one.
    pub login: Option<SmtpLogin>,
    /// Address of the sender.
    pub from: String,
}

/// Sends e-mails.
#[derive(Clone)]
pub struct Mailer {
    relay: AsyncSmtpTransport<Tokio1Executor>,
    from: Address,
}

impl Mailer {
    /// A sender of e-mails. Connects to nothing yet.
    ///
    /// # Errors
    /// [`InvalidSetting`] names the option.
    pub fn new(options: &MailOptions) -> Result<Self, InvalidSetting> {
        let (host, port) = host_and_port(&options.relay)?;
        let relay = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host);
        let mut relay = with_tls(relay.port(port).timeout(Some(TIMEOUT)), host, options)?;
        if let Some(SmtpLogin { user, password }) = &options.login {
            relay = relay.credentials(Credentials::new(user.clone(), password.clone()));
        }
        Ok(Self { relay: relay.build(), from: check_address(&options.from)? })
    }

    /// Sends an alert to each address, in one transaction with the relay, within [`TIMEOUT`].
    ///
    /// # Errors
    /// The reason in words. No address may have got the e-mail, or all.
    pub async fn send(&self, message: &AlertMessage, to: &[String]) -> Result<(), String> {
        let mail = self.mail(message, to)?;
        let sent = tokio::time::timeout(TIMEOUT, self.relay.send(mail)).await;
        let sent = sent.map_err(|_| format!("the relay needed over {} s", TIMEOUT.as_secs()))?;
        sent.map(drop).map_err(|error| with_causes(&error))
    }

    fn mail(&self, message: &AlertMessage, to: &[String]) -> Result<Message, String> {
        let mailbox = |address: Address| Mailbox::new(None, address);
        let domain = self.from.domain();
        let mut mail = Message::builder()
            .from(mailbox(self.from.clone()))
            .message_id(Some(format!("<{}@{domain}>", message.key())))
            .subject(message.subject())
            .header(ContentType::TEXT_PLAIN);
        for address in to {
            let address = check_address(address).map_err(|error| error.to_string())?;
            mail = mail.to(mailbox(address));
        }
        mail.body(message.text()).map_err(|error| error.to_string())
    }
}

/// Reads an e-mail address, without a display name.
///
/// # Errors
/// [`InvalidSetting`] quotes it.
pub fn check_address(text: &str) -> Result<Address, InvalidSetting> {
    let invalid = || InvalidSetting(format!("{text:?} is not an e-mail address"));
    text.parse().map_err(|_| invalid())
}

fn host_and_port(relay: &str) -> Result<(&str, u16), InvalidSetting> {
    let parts = relay.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let parts = parts.filter(|(host, port)| {
        let host = host.trim_matches(['[', ']']);
        !host.is_empty() && 0 < *port && host.chars().all(|c| c.is_ascii_graphic() && c != '/')
    });
    let parts = parts.map(|(host, port)| (host.trim_matches(['[', ']']), port));
    let invalid = || format!("{relay:?}: expected a host and a port, such as mail.example:587");
    parts.ok_or_else(|| InvalidSetting(invalid()))
}

#[cfg(feature = "tls")]
fn with_tls(
    relay: AsyncSmtpTransportBuilder,
    host: &str,
    options: &MailOptions,
) -> Result<AsyncSmtpTransportBuilder, InvalidSetting> {
    let mut parameters = TlsParameters::builder(host.to_owned());
    if let Some(ca) = &options.ca {
        parameters = parameters
            .certificate_store(CertificateStore::None)
            .add_root_certificate(certificate(ca)?);
    }
    let build = || parameters.build().map_err(|error| InvalidSetting(with_causes(&error)));
    Ok(match options.tls {
        MailTls::Off => relay,
        MailTls::StartTls => relay.tls(Tls::Required(build()?)),
        MailTls::On => relay.tls(Tls::Wrapper(build()?)),
    })
}

#[cfg(feature = "tls")]
fn certificate(path: &Path) -> Result<Certificate, InvalidSetting> {
    let failed = |why: String| InvalidSetting(format!("{}: {why}", path.display()));
    let pem = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    Certificate::from_pem(&pem).map_err(|error| failed(with_causes(&error)))
}

#[cfg(not(feature = "tls"))]
fn with_tls(
    relay: AsyncSmtpTransportBuilder,
    _host: &str,
    options: &MailOptions,
) -> Result<AsyncSmtpTransportBuilder, InvalidSetting> {
    if options.tls == MailTls::Off {
        return Ok(relay);
    }
    let what = "this build has no TLS; build it with the feature tls";
    Err(InvalidSetting(what.to_owned()))
}

/// An error with its causes in one line.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text += &format!(": {next}");
        }
        cause = error.source();
    }
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use ledger::AlertKind;

    use super::*;
    use crate::message::tests::message;

    fn mailer(relay: &str, from: &str) -> Result<Mailer, InvalidSetting> {
        let (relay, from) = (relay.to_owned(), from.to_owned());
        Mailer::new(&MailOptions { relay, tls: MailTls::Off, ca: None, login: None, from })
    }

    #[test]
    fn mail_is_plain_text_with_one_line_per_fact() {
        let mailer = mailer("127.0.0.1:25", "upesi@example.com").expect("valid");
        let message = message(AlertKind::ThresholdReached, "812", Some("1000"));
        let to = ["ops@example.com".to_owned(), "more@example.com".to_owned()];
        let mail = mailer.mail(&message, &to).expect("valid");
        let text = String::from_utf8(mail.formatted()).expect("ASCII");
        let lines = text.lines().filter(|line| !line.starts_with("Date: "));
        expect![[r#"
            From: upesi@example.com
            Message-ID: <alert-42-7@example.com>
            Subject: dfsp1: position is 81.2 % of the USD net debit cap
            Content-Type: text/plain; charset=utf-8
            To: ops@example.com, more@example.com
            Content-Transfer-Encoding: 7bit

            Alert:         alarm threshold reached
            Hub:           Hub
            Participant:   dfsp1
            Position:      812 USD
            Net debit cap: 1000 USD (81.2 % used)
            Time:          2026-01-01T10:00:00.011Z
            Log index:     42
            Alert id:      7"#]]
        .assert_eq(&lines.collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn headers_have_no_foreign_lines() {
        let mailer = mailer("127.0.0.1:25", "upesi@example.com").expect("valid");
        let mut message = message(AlertKind::ThresholdReached, "812", Some("1000"));
        message.participant = "é\r\nBcc: all@example.com".into();
        let mail = mailer.mail(&message, &["ops@example.com".to_owned()]).expect("valid");
        let text = String::from_utf8(mail.formatted()).expect("ASCII");
        let (head, _) = text.split_once("\r\n\r\n").expect("a body");
        assert!(!head.to_lowercase().contains("\nbcc"), "{head}");
        let addresses = ["ops@example.com\r\nRCPT TO:<all@example.com>".to_owned()];
        assert!(mailer.mail(&message, &addresses).is_err());
    }

    #[test]
    fn settings_are_checked() {
        for (relay, from, expected) in [
            ("mail.example:587", "a@example.com", ""),
            ("[::1]:25", "a@example.com", ""),
            ("mail.example", "a@example.com", "expected a host and a port"),
            ("mail.example:0", "a@example.com", "expected a host and a port"),
            (":25", "a@example.com", "expected a host and a port"),
            ("smtp://mail.example:25", "a@example.com", "expected a host and a port"),
            ("mail.example:587", "no-address", "\"no-address\" is not an e-mail address"),
        ] {
            let found = mailer(relay, from).err().map(|error| error.to_string());
            let found = found.unwrap_or_default();
            assert_eq!(found.is_empty(), expected.is_empty(), "{relay}: {found}");
            assert!(found.contains(expected), "{relay}: {found}");
        }
    }
}
