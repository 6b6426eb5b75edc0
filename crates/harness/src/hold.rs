//! Keeps a scheme running after its demonstration, so that a person can explore it.
//!
//! Two more FSPs make payments that fail, each for another reason. One of them has no server:
//! callbacks wait for it. Until an interrupt, a few payments per second move between two of the
//! simulated FSPs.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;
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
/// Their payee. Its server accepts callbacks and answers none.
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
    pub(crate) token_file: PathBuf,
    pub(crate) currency: Currency,
    /// The simulated FSPs, at least two.
    pub(crate) fsps: &'a [BoundFsp],
}

/// The end of a payment.
enum PaymentEnd {
    Unanswered,
    WrongFulfilment,
    Refused,
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
        let silent = serve_silently().map_err(|error| HarnessError::Hub(error.to_string()))?;
        for (name, cap, server) in
            [(PAYER, PAYER_CAP, NO_SERVER), (PAYEE, FUNDS, &*silent.to_string())]
        {
            let mut fsp = BoundFsp { name: name.to_owned(), subscribers: 0..0, ..pattern.clone() };
            for (_, value) in &mut fsp.endpoints {
                *value = value.replace(&pattern.address.to_string(), server);
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
            (&small, PaymentEnd::Refused),
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
                PaymentEnd::Refused => self.send(&refusal(&fulfil))?,
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
        let admin = console.trim_end_matches("/console/");
        println!("\nOr on the command line, in another terminal:\n");
        let token_file = self.token_file.display();
        let program = program();
        println!("  {program} transfer list --state aborted --admin {admin} --token {token_file}");
        println!("\nPress Ctrl-C to stop it, verify its log and show the results.");
    }
}

/// The command that starts this program in another terminal: its name if a search of `PATH` found
/// it, otherwise its file.
fn program() -> String {
    let name = env::args().next().unwrap_or_default();
    match env::current_exe() {
        Ok(file) if name.contains('/') => file.display().to_string(),
        _ => name,
    }
}

/// Starts a server that accepts every request and sends no message. It ends with the program.
fn serve_silently() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The connection ends with its first unreadable request.
            thread::spawn(move || drop(accept_all(&stream)));
        }
    });
    Ok(address)
}

/// Accepts the requests of one connection.
fn accept_all(mut stream: &TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let header = line.to_ascii_lowercase();
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
        }
        io::copy(&mut reader.by_ref().take(length), &mut io::sink())?;
        stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")?;
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

/// `PUT /transfers/{id}/error` instead of `PUT /transfers/{id}`: the payee refuses the payment.
fn refusal(fulfil: &[u8]) -> Vec<u8> {
    const BODY: &str =
        r#"{"errorInformation":{"errorCode":"5106","errorDescription":"account closed"}}"#;
    let text = String::from_utf8_lossy(fulfil);
    let head = text.split("\r\n\r\n").next().unwrap_or_default();
    let lines = head.split("\r\n").map(|line| match line.split_once(": ") {
        Some((name, _)) if name.eq_ignore_ascii_case("content-length") => {
            format!("{name}: {}", BODY.len())
        }
        Some(_) => line.to_owned(),
        None => line.replace(" HTTP/1.1", "/error HTTP/1.1"),
    });
    format!("{}\r\n\r\n{BODY}", lines.collect::<Vec<_>>().join("\r\n")).into_bytes()
}

fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or_default()
}
