//! Receivers of alerts: the section `[alerts]`.

use std::sync::Arc;
use std::time::Duration;

use alerts::{
    InvalidSetting, MailOptions, MailTls, Mailer, SmtpLogin, Webhook, WebhookSecret, check_address,
};
use tls::ClientTls;

use crate::CliError;
use crate::config::secrets;
use crate::config::settings::Alerts;
use crate::config::values::SmtpTls;

/// The receivers of the operator, ready to be called.
#[derive(Clone)]
pub(crate) struct AlertReceivers {
    pub(crate) webhook: Option<Webhook>,
    pub(crate) mailer: Option<Mailer>,
    /// Addresses of operators.
    pub(crate) mail_to: Vec<String>,
    /// The age at which an alert is given up.
    pub(crate) horizon: Duration,
}

impl Alerts {
    /// Whether webhooks leave this machine unencrypted.
    pub(super) fn has_plain_webhook(&self) -> bool {
        let authority = |url: &str| url.strip_prefix("http://").map(str::to_owned);
        let authority = self.webhook_url.as_deref().and_then(authority);
        authority.is_some_and(|authority| !is_local(&authority))
    }

    /// Whether e-mails leave this machine unencrypted.
    pub(super) fn has_plain_relay(&self) -> bool {
        let is_remote = self.smtp_relay.as_deref().is_some_and(|relay| !is_local(relay));
        is_remote && self.smtp_tls == SmtpTls::None
    }

    /// The first contradiction between settings.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let is_mail = self.smtp_relay.is_some();
        let faults = [
            (
                self.webhook_url.is_some() != self.webhook_secret_file.is_some(),
                "alerts.webhook_url and alerts.webhook_secret_file belong together: set both or \
                 none",
            ),
            (
                is_mail != self.mail_from.is_some(),
                "alerts.smtp_relay and alerts.mail_from belong together: set both or none",
            ),
            (
                !is_mail && !self.mail_to.is_empty(),
                "alerts.mail_to needs alerts.smtp_relay, the relay for e-mails",
            ),
            (
                self.smtp_user.is_some() != self.smtp_password_file.is_some(),
                "alerts.smtp_user and alerts.smtp_password_file belong together: set both or none",
            ),
            (
                self.smtp_user.is_some() && !is_mail,
                "alerts.smtp_user needs alerts.smtp_relay, the relay for e-mails",
            ),
            (
                self.smtp_user.is_some() && self.smtp_tls == SmtpTls::None,
                "alerts.smtp_tls = \"none\" sends the password in clear text; use \"starttls\" or \
                 \"tls\"",
            ),
        ];
        faults.iter().find(|(fault, _)| *fault).map(|(_, text)| *text)
    }

    /// Reads secrets, and checks addresses. Connects to nothing. A webhook with `https://` needs
    /// `tls`.
    pub(crate) fn receivers(
        &self,
        tls: Option<Arc<ClientTls>>,
    ) -> Result<AlertReceivers, CliError> {
        for address in &self.mail_to {
            check_address(address).map_err(named("alerts.mail_to"))?;
        }
        Ok(AlertReceivers {
            webhook: self.webhook(tls)?,
            mailer: self.mailer()?,
            mail_to: self.mail_to.clone(),
            horizon: Duration::from_secs(self.horizon_seconds),
        })
    }

    fn webhook(&self, tls: Option<Arc<ClientTls>>) -> Result<Option<Webhook>, CliError> {
        let Some((url, path)) = self.webhook_url.as_ref().zip(self.webhook_secret_file.as_ref())
        else {
            return Ok(None);
        };
        const SECRET: &str = "alerts.webhook_secret_file";
        let secret = secrets::one_line(SECRET, path)?;
        let secret = WebhookSecret::parse(&secret).map_err(named(SECRET))?;
        let webhook = Webhook::new(url, secret, tls);
        webhook.map(Some).map_err(named("alerts.webhook_url"))
    }

    fn mailer(&self) -> Result<Option<Mailer>, CliError> {
        let Some((relay, from)) = self.smtp_relay.as_ref().zip(self.mail_from.as_ref()) else {
            return Ok(None);
        };
        check_address(from).map_err(named("alerts.mail_from"))?;
        let options = MailOptions {
            relay: relay.clone(),
            tls: match self.smtp_tls {
                SmtpTls::None => MailTls::Off,
                SmtpTls::StartTls => MailTls::StartTls,
                SmtpTls::Tls => MailTls::On,
            },
            ca: self.ca.clone(),
            login: self.login()?,
            from: from.clone(),
        };
        Mailer::new(&options).map(Some).map_err(named("alerts.smtp_relay"))
    }

    fn login(&self) -> Result<Option<SmtpLogin>, CliError> {
        let login = self.smtp_user.as_ref().zip(self.smtp_password_file.as_ref());
        let read = login.map(|(user, path)| {
            let password = secrets::one_line("alerts.smtp_password_file", path)?;
            Ok(SmtpLogin { user: user.clone(), password })
        });
        read.transpose()
    }
}

/// Whether a host, with a port and a path or without, is a name of this machine.
fn is_local(host: &str) -> bool {
    ["127.", "localhost", "[::1]"].iter().any(|local| host.starts_with(local))
}

/// Adds the name of the setting to an error.
fn named(name: &'static str) -> impl Fn(InvalidSetting) -> CliError {
    move |error| CliError::new(format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn read(text: &str) -> Alerts {
        toml::from_str(text).expect("known words")
    }

    #[test]
    fn incomplete_settings_are_refused() {
        let mail = "smtp_relay = \"m:25\"\nmail_from = \"a@b.example\"\n";
        let login = "smtp_user = \"u\"\nsmtp_password_file = \"p\"\n";
        for (text, fault) in [
            (String::new(), ""),
            ("webhook_url = \"http://a/\"\nwebhook_secret_file = \"s\"".into(), ""),
            (mail.into(), ""),
            (format!("{mail}{login}mail_to = [\"o@b.example\"]"), ""),
            ("webhook_url = \"http://a/\"".into(), "alerts.webhook_url and"),
            ("webhook_secret_file = \"s\"".into(), "alerts.webhook_url and"),
            ("smtp_relay = \"m:25\"".into(), "alerts.smtp_relay and alerts.mail_from"),
            ("mail_from = \"a@b.example\"".into(), "alerts.smtp_relay and alerts.mail_from"),
            ("mail_to = [\"o@b.example\"]".into(), "alerts.mail_to needs"),
            (format!("{mail}smtp_user = \"u\""), "alerts.smtp_user and"),
            (login.into(), "alerts.smtp_user needs"),
            (format!("{mail}{login}smtp_tls = \"none\""), "clear text"),
        ] {
            let found = read(&text).fault().unwrap_or_default();
            let is_right = found.contains(fault) && found.is_empty() == fault.is_empty();
            assert!(is_right, "{text}: {found}");
        }
        let unknown = toml::from_str::<Alerts>("smtp_tls = \"ssl\"").expect_err("unknown");
        assert!(unknown.to_string().contains("starttls"), "{unknown}");
    }

    #[test]
    fn wrong_values_are_named_before_the_start() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = |name: &str, text: &str, mode: u32| {
            let path = directory.path().join(name);
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("set");
            path.display().to_string()
        };
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n";
        let good = file("good", secret, 0o600);
        let open = file("open", secret, 0o644);
        let wrong = file("wrong", "secret\n", 0o600);
        let hook = |url: &str, secret: &str| {
            format!("webhook_url = \"{url}\"\nwebhook_secret_file = \"{secret}\"\n")
        };
        let mail = |relay: &str, from: &str, to: &str| {
            let lines = format!("smtp_relay = \"{relay}\"\nmail_from = \"{from}\"\n");
            format!("{lines}mail_to = [\"{to}\"]\nsmtp_tls = \"none\"\n")
        };
        let (address, relay) = ("a@b.example", "mail.example:25");
        for (text, expected) in [
            (hook("http://a.example/x", &good) + &mail(relay, address, address), ""),
            (hook("http://a.example/x", "/nowhere"), "alerts.webhook_secret_file: /nowhere: "),
            (hook("http://a.example/x", &open), "mode 644"),
            (hook("http://a.example/x", &wrong), "alerts.webhook_secret_file: expected whsec_"),
            (hook("a.example", &good), "alerts.webhook_url: "),
            (mail("mail.example", address, address), "alerts.smtp_relay: "),
            (mail(relay, "no-address", address), "alerts.mail_from: "),
            (mail(relay, address, "no-address"), "alerts.mail_to: "),
        ] {
            let error = read(&text).receivers(None).err().map(|error| error.to_string());
            let error = error.unwrap_or_default();
            assert_eq!(error.is_empty(), expected.is_empty(), "{text}: {error}");
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
