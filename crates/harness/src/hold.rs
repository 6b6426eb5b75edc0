//! Keeps a scheme running after its demonstration, so that a person can explore it.
//!
//! Two more FSPs make payments that fail, each for another reason. One of them has no server:
//! callbacks wait for it. Until an interrupt, a few payments per second move between two of the
//! simulated FSPs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dfsp::{MessagePair, PairWriter, SimulatorOptions};
use ledger::{Amount, Currency};
use serde_json::Value;

use crate::admin::Admin;
use crate::error::HarnessError;
use crate::interrupt::Interrupt;
use crate::onboarding::{FUNDS, onboard_fsp};
use crate::simulators::BoundFsp;

/// The payer of the failed payments. It has no server.
const PAYER: &str = "kiosk";
/// Their payee. Its callbacks go to a simulated FSP.
const PAYEE: &str = "market";
/// Net debit cap of the payer, in the currency's unit.
const PAYER_CAP: u64 = 60;
/// Largest amount of the payments within the cap.
const SMALL: u64 = 15;
/// An address at which nothing listens.
const NO_SERVER: &str = "127.0.0.1:9";
/// Lifetime of the failed payments.
const EXPIRATION: Duration = Duration::from_secs(4);
/// Pause between two payments.
const PAUSE: Duration = Duration::from_millis(200);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Messages that are written until one has the wanted payer and amount.
const DRAWS_MAX: usize = 10_000;

/// A running scheme.
pub(crate) struct HeldScheme<'a> {
    pub(crate) hub: SocketAddr,
    pub(crate) console: String,
    pub(crate) token: String,
    pub(crate) currency: Currency,
    /// The simulated FSPs, at least two.
    pub(crate) fsps: &'a [BoundFsp],
}

/// The end of a payment.
enum PaymentEnd {
    Unanswered,
    WrongFulfilment,
    Fulfilled,
}

impl HeldScheme<'_> {
    /// Makes the failed payments, prints what to try, and moves money until an interrupt.
    pub(crate) fn run(&self, admin: &mut Admin, interrupt: &Interrupt) -> Result<(), HarnessError> {
        self.add_participants(admin)?;
        let failed = self.fail()?;
        self.print(&failed);
        let names = [&*self.fsps[0].name, &*self.fsps[1].name];
        let mut writer = self.writer(names, Duration::from_secs(60));
        while interrupt.pause(PAUSE).is_ok() {
            let pair = writer.write(now_millis());
            self.send(&pair.prepare)?;
            self.send(&pair.fulfil)?;
        }
        Ok(())
    }

    fn add_participants(&self, admin: &mut Admin) -> Result<(), HarnessError> {
        let pattern = &self.fsps[0];
        for (name, cap) in [(PAYER, PAYER_CAP), (PAYEE, FUNDS)] {
            let mut fsp = BoundFsp { name: name.to_owned(), subscribers: 0..0, ..pattern.clone() };
            if name == PAYER {
                let server = pattern.address.to_string();
                for (_, value) in &mut fsp.endpoints {
                    *value = value.replace(&server, NO_SERVER);
                }
            }
            onboard_fsp(admin, self.currency, &fsp, cap)?;
        }
        Ok(())
    }

    /// Makes the payments. Returns their ids.
    fn fail(&self) -> Result<Vec<String>, HarnessError> {
        let mut writer = self.writer([PAYER, PAYEE], EXPIRATION);
        let small = Amount::ZERO..=units(SMALL);
        let large = units(PAYER_CAP + 1)..=units(FUNDS);
        let mut ids = Vec::new();
        for (amounts, end) in [
            (&large, PaymentEnd::Unanswered),
            (&small, PaymentEnd::Unanswered),
            (&small, PaymentEnd::WrongFulfilment),
            (&small, PaymentEnd::Fulfilled),
        ] {
            let drawn = (0..DRAWS_MAX).map(|_| writer.write(now_millis()));
            let found = drawn.into_iter().find(|pair| {
                amount_from(PAYER, &pair.prepare).is_some_and(|amount| amounts.contains(&amount))
            });
            let Some(MessagePair { id, prepare, fulfil }) = found else { continue };
            self.send(&prepare)?;
            match end {
                PaymentEnd::Unanswered => {}
                PaymentEnd::WrongFulfilment => self.send(&with_other_fulfilment(fulfil))?,
                PaymentEnd::Fulfilled => self.send(&fulfil)?,
            }
            ids.push(id.to_string());
        }
        Ok(ids)
    }

    fn writer(&self, names: [&str; 2], expiration_ahead: Duration) -> PairWriter {
        let options = names.map(|name| SimulatorOptions {
            expiration_ahead,
            ..SimulatorOptions::new(name, self.currency, self.hub)
        });
        PairWriter::new(&options, 0, now_millis())
    }

    /// Sends a message on a connection of its own. The hub must accept it.
    fn send(&self, message: &[u8]) -> Result<(), HarnessError> {
        let exchange = || {
            let mut stream = TcpStream::connect_timeout(&self.hub, ANSWER_WITHIN)?;
            stream.set_read_timeout(Some(ANSWER_WITHIN))?;
            stream.write_all(message)?;
            let mut status = [0; "HTTP/1.1 202".len()];
            stream.read_exact(&mut status).map(|()| status)
        };
        let status = exchange().map_err(|error| HarnessError::Hub(error.to_string()))?;
        match &status[9..] {
            b"200" | b"202" => Ok(()),
            status => {
                let status = String::from_utf8_lossy(status);
                Err(HarnessError::Hub(format!("answered a message of a payment with {status}")))
            }
        }
    }

    fn print(&self, failed: &[String]) {
        let Self { console, token, .. } = self;
        println!("\nThe scheme keeps running. Open its console:\n\n  {console}\n");
        println!("and log in with this token:\n\n  {token}\n");
        println!("Try: why did these payments of {PAYER} fail, and which one did not?\n");
        for id in failed {
            println!("  {console}#/transfers/{id}");
        }
        println!("\nPress Ctrl-C to stop it, verify its log and show the results.");
    }
}

fn units(count: u64) -> Amount {
    Amount::from_units(i128::from(count) * 10_000)
}

/// The amount of a `POST /transfers`, if this is its payer.
fn amount_from(payer: &str, message: &[u8]) -> Option<Amount> {
    let start = message.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let body: Value = serde_json::from_slice(&message[start..]).ok()?;
    let amount = body["amount"]["amount"].as_str().filter(|_| body["payerFsp"] == payer)?;
    Amount::parse_decimal(amount)
}

/// The same message with another first character of its fulfilment.
fn with_other_fulfilment(mut message: Vec<u8>) -> Vec<u8> {
    const MEMBER: &[u8] = b"\"fulfilment\":\"";
    if let Some(at) = message.windows(MEMBER.len()).position(|bytes| bytes == MEMBER) {
        let first = &mut message[at + MEMBER.len()];
        *first = if *first == b'A' { b'B' } else { b'A' };
    }
    message
}

fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or_default()
}
