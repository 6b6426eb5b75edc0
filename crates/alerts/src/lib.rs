//! Alerts about liquidity, sent to operators and participants as signed webhooks and e-mails.
//!
//! The kernel owes an alert until a record finishes it ([`ledger::Alert`]). A driver passes the
//! owed alerts to a [`Queue`], makes the attempts that are due with a [`Webhook`] and a
//! [`Mailer`], and records the alerts that [`Queue::finished`] returns. An alert is sent at least
//! once: after a crash it is sent again, with the same `webhook-id` and the same `Message-ID`.
//!
//! Bounds: the queue holds at most [`ledger::ALERTS_MAX`] alerts with [`Receiver::ALL`] each, and
//! [`ATTEMPTS_MAX`] attempts per [`Channel`] run at a time. An attempt takes at most [`TIMEOUT`].
#![warn(missing_docs)]

mod mail;
mod message;
mod queue;
mod webhook;

use std::time::Duration;

pub use mail::{MailOptions, MailTls, Mailer, SmtpLogin, check_address};
pub use message::AlertMessage;
pub use queue::{ATTEMPTS_MAX, Attempt, Channel, GivenUp, Queue, Receiver};
pub use webhook::{Webhook, WebhookSecret};

/// Whether this build can use TLS.
pub const HAS_TLS: bool = cfg!(feature = "tls");

/// Time limit of an attempt.
pub const TIMEOUT: Duration = Duration::from_secs(15);

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSetting(String);
