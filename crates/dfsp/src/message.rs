//! Messages that an FSP writes: requests and callbacks of FSPIOP, each in one buffer.
//!
//! The head of each kind of message is prepared once per simulator; per message only the path, the
//! date, the destination, the trace and the length are added. PUT callbacks carry no `Accept`.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fspiop::ilp::push_base64;
use ledger::{Amount, Currency, TransferId};

use crate::clock::Clock;
use crate::ids::{TransactionId, hexadecimal, push_id};
use crate::security::{SignedParts, Signer};
use crate::simulator::{Expiry, SimulatorOptions, Version};

/// Writes the messages of one FSP.
pub(crate) struct Writer {
    pub(crate) clock: Clock,
    heads: [Head; KINDS],
    spans: u64,
    body: Vec<u8>,
    name: String,
    currency: Currency,
    committed: &'static str,
    expiration_ahead: Duration,
    expiry: Option<Expiry>,
    /// Number of transfers that have an expiration from `expiry`.
    expiring: u64,
    supported: bool,
    bodies: Bodies,
    signer: Option<Signer>,
}

/// Bodies written so far, except those of registrations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bodies {
    /// Messages with a body.
    pub count: u64,
    /// Their total length in bytes.
    pub bytes: u64,
}

/// The kinds of messages that an FSP sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MessageKind {
    GetParties,
    PutParties,
    PostQuotes,
    PutQuotes,
    PostTransfers,
    PutTransfers,
    PostParticipants,
    PostBulkTransfers,
    PutBulkTransfers,
}

const KINDS: usize = 9;

/// Places in a message that is being written.
struct HeadPlaces {
    path: Range<usize>,
    date: Range<usize>,
}

struct Head {
    method: &'static str,
    rest: Vec<u8>,
}

/// The destination of a message and its conversation.
#[derive(Clone, Copy)]
pub(crate) struct Envelope<'a> {
    pub(crate) destination: Option<&'a str>,
    pub(crate) trace: Option<&'a [u8]>,
    pub(crate) tracestate: Option<&'a str>,
    pub(crate) now_millis: u64,
}

/// A party of a transaction.
#[derive(Clone, Copy)]
pub(crate) struct Party<'a> {
    pub(crate) msisdn: &'a str,
    pub(crate) fsp: &'a str,
}

/// The fields of a quote request.
pub(crate) struct QuoteRequest<'a> {
    pub(crate) quote: TransferId,
    pub(crate) transfer: TransferId,
    pub(crate) payer: Party<'a>,
    pub(crate) payee: Party<'a>,
    pub(crate) amount: Amount,
}

/// The fields of a bulk transfer.
pub(crate) struct BulkRequest<'a> {
    pub(crate) bulk: TransactionId,
    pub(crate) items: u16,
    pub(crate) payee_fsp: &'a str,
    pub(crate) amount: Amount,
    /// Packet and condition of each item.
    pub(crate) packet: &'a str,
    pub(crate) condition: &'a str,
}

/// The fields of a transfer request.
pub(crate) struct TransferRequest<'a> {
    pub(crate) transfer: TransferId,
    pub(crate) payee_fsp: &'a str,
    pub(crate) amount: &'a str,
    pub(crate) packet: &'a str,
    pub(crate) condition: &'a str,
}

/// The fields of a quote response.
pub(crate) struct QuoteAnswer<'a> {
    pub(crate) path: &'a str,
    pub(crate) amount: &'a str,
    pub(crate) packet: &'a [u8],
    pub(crate) condition: &'a [u8; 32],
}

impl Writer {
    pub(crate) fn new(options: &SimulatorOptions, seed: u64) -> Self {
        let head =
            |method, resource: &str, accept: bool| Head::new(method, resource, accept, options);
        Self {
            clock: Clock::new(),
            heads: [
                head("GET ", "parties", true),
                head("PUT ", "parties", false),
                head("POST ", "quotes", true),
                head("PUT ", "quotes", false),
                head("POST ", "transfers", true),
                head("PUT ", "transfers", false),
                head("POST ", "participants", true),
                head("POST ", "bulkTransfers", true),
                head("PUT ", "bulkTransfers", false),
            ],
            spans: seed,
            body: Vec::with_capacity(4 * 1024),
            name: options.name.clone(),
            currency: options.currency,
            committed: options.style.state(),
            expiration_ahead: options.expiration_ahead,
            expiry: options.expiry,
            expiring: 0,
            supported: options.version == Version::V2_0,
            bodies: Bodies::default(),
            signer: options
                .signatures
                .as_ref()
                .map(|signatures| Signer::new(&options.name, Arc::clone(&signatures.key))),
        }
    }

    /// Bodies written so far.
    pub(crate) fn bodies(&self) -> Bodies {
        self.bodies
    }

    /// The last body written.
    pub(crate) fn last_body(&self) -> &[u8] {
        &self.body
    }

    /// GET /parties/MSISDN/{msisdn}
    pub(crate) fn get_party(&mut self, out: &mut Vec<u8>, msisdn: &str, envelope: &Envelope<'_>) {
        self.start(out, MessageKind::GetParties, &["/parties/MSISDN/", msisdn], envelope);
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// PUT of a found party, to the path of its request.
    pub(crate) fn put_party(
        &mut self,
        out: &mut Vec<u8>,
        path: &str,
        msisdn: &str,
        envelope: &Envelope<'_>,
    ) {
        self.body.clear();
        push(
            &mut self.body,
            &[
                r#"{"party":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":""#,
                msisdn,
                r#"","fspId":""#,
                &self.name,
                r#""},"name":"Subscriber "#,
                msisdn,
                r#"","personalInfo":{"complexName":{"firstName":"Amani","lastName":"Juma"},"#,
                r#""dateOfBirth":"1990-01-01"}"#,
            ],
        );
        if self.supported {
            let currency = self.currency.as_str();
            push(&mut self.body, &[r#","supportedCurrencies":[""#, currency, r#""]"#]);
        }
        push(&mut self.body, &["}}"]);
        self.finish(out, MessageKind::PutParties, &[path], envelope);
    }

    /// POST /quotes
    pub(crate) fn post_quote(
        &mut self,
        out: &mut Vec<u8>,
        quote: &QuoteRequest<'_>,
        envelope: &Envelope<'_>,
    ) {
        let body = &mut self.body;
        body.clear();
        push(body, &[r#"{"quoteId":""#]);
        push_id(body, quote.quote);
        push(body, &[r#"","transactionId":""#]);
        push_id(body, quote.transfer);
        push(body, &[r#"","payer":"#]);
        push_party(body, quote.payer);
        push(body, &[r#","payee":"#]);
        push_party(body, quote.payee);
        push(body, &[r#","amountType":"SEND","amount":"#]);
        push_money(body, self.currency, format_args!("{}", quote.amount));
        push(body, &[TRANSACTION_TYPE, r#","expiration":""#]);
        self.clock.push_expiration(body, envelope.now_millis, self.expiration_ahead);
        push(body, &[r#""}"#]);
        self.finish(out, MessageKind::PostQuotes, &["/quotes"], envelope);
    }

    /// PUT /quotes/{id}
    pub(crate) fn put_quote(
        &mut self,
        out: &mut Vec<u8>,
        answer: &QuoteAnswer<'_>,
        envelope: &Envelope<'_>,
    ) {
        let body = &mut self.body;
        let amount = format_args!("{}", answer.amount);
        body.clear();
        push(body, &[r#"{"transferAmount":"#]);
        push_money(body, self.currency, amount);
        push(body, &[r#","payeeReceiveAmount":"#]);
        push_money(body, self.currency, amount);
        push(body, &[r#","payeeFspFee":"#]);
        push_money(body, self.currency, format_args!("0"));
        push(body, &[r#","payeeFspCommission":"#]);
        push_money(body, self.currency, format_args!("0"));
        push(body, &[r#","expiration":""#]);
        self.clock.push_expiration(body, envelope.now_millis, self.expiration_ahead);
        push(body, &[r#"","ilpPacket":""#]);
        body.extend_from_slice(answer.packet);
        push(body, &[r#"","condition":""#]);
        push_base64(body, answer.condition);
        push(body, &[r#""}"#]);
        self.finish(out, MessageKind::PutQuotes, &["/quotes/", answer.path], envelope);
    }

    /// POST /transfers
    pub(crate) fn post_transfer(
        &mut self,
        out: &mut Vec<u8>,
        transfer: &TransferRequest<'_>,
        envelope: &Envelope<'_>,
    ) {
        let body = &mut self.body;
        body.clear();
        push(body, &[r#"{"transferId":""#]);
        push_id(body, transfer.transfer);
        push(body, &[r#"","payerFsp":""#, &self.name, r#"","payeeFsp":""#, transfer.payee_fsp]);
        push(body, &[r#"","amount":"#]);
        push_money(body, self.currency, format_args!("{}", transfer.amount));
        push(body, &[r#","ilpPacket":""#, transfer.packet, r#"","condition":""#]);
        push(body, &[transfer.condition, r#"","expiration":""#]);
        let (from, ahead) = match self.expiry {
            None => (envelope.now_millis, self.expiration_ahead),
            Some(expiry) => {
                self.expiring += 1;
                (expiry.of(self.expiring), Duration::ZERO)
            }
        };
        self.clock.push_expiration(body, from, ahead);
        push(body, &[r#""}"#]);
        self.finish(out, MessageKind::PostTransfers, &["/transfers"], envelope);
    }

    /// POST /bulkTransfers.
    pub(crate) fn post_bulk(
        &mut self,
        out: &mut Vec<u8>,
        bulk: &BulkRequest<'_>,
        envelope: &Envelope<'_>,
    ) {
        let body = &mut self.body;
        body.clear();
        push(body, &[r#"{"bulkTransferId":""#]);
        push_id(body, bulk.bulk.transfer());
        push(body, &[r#"","bulkQuoteId":""#]);
        push_id(body, bulk.bulk.quote());
        push(body, &[r#"","payerFsp":""#, &self.name, r#"","payeeFsp":""#, bulk.payee_fsp]);
        push(body, &[r#"","individualTransfers":["#]);
        for number in 1..=bulk.items {
            push(body, &[if number > 1 { "," } else { "" }, r#"{"transferId":""#]);
            push_id(body, bulk.bulk.item(number));
            push(body, &[r#"","transferAmount":"#]);
            push_money(body, self.currency, format_args!("{}", bulk.amount));
            push(body, &[r#","ilpPacket":""#, bulk.packet, r#"","condition":""#, bulk.condition]);
            push(body, &[r#""}"#]);
        }
        push(body, &[r#"],"expiration":""#]);
        self.clock.push_expiration(body, envelope.now_millis, self.expiration_ahead);
        push(body, &[r#""}"#]);
        self.finish(out, MessageKind::PostBulkTransfers, &["/bulkTransfers"], envelope);
    }

    /// PUT /bulkTransfers/{id} with a fulfilment, or an error of this code, for each item.
    pub(crate) fn put_bulk(
        &mut self,
        out: &mut Vec<u8>,
        bulk: &str,
        results: impl Iterator<Item = (TransferId, Result<[u8; 32], u16>)>,
        envelope: &Envelope<'_>,
    ) {
        let body = &mut self.body;
        body.clear();
        push(body, &[r#"{"completedTimestamp":""#]);
        self.clock.push_completed(body, envelope.now_millis);
        push(body, &[r#"","bulkTransferState":"COMPLETED","individualTransferResults":["#]);
        for (at, (transfer, result)) in results.enumerate() {
            push(body, &[if at > 0 { "," } else { "" }, r#"{"transferId":""#]);
            push_id(body, transfer);
            match result {
                Ok(fulfilment) => {
                    push(body, &[r#"","fulfilment":""#]);
                    push_base64(body, &fulfilment);
                    push(body, &[r#""}"#]);
                }
                Err(code) => {
                    push(body, &[r#"","#]);
                    push_error(body, code);
                    push(body, &["}"]);
                }
            }
        }
        push(body, &["]}"]);
        self.finish(out, MessageKind::PutBulkTransfers, &["/bulkTransfers/", bulk], envelope);
    }

    /// PUT /transfers/{id} with the fulfilment, as of `completed_millis`.
    pub(crate) fn put_transfer(
        &mut self,
        out: &mut Vec<u8>,
        transfer: TransferId,
        fulfilment: &[u8; 32],
        completed_millis: u64,
        envelope: &Envelope<'_>,
    ) {
        let body = &mut self.body;
        body.clear();
        push(body, &[r#"{"completedTimestamp":""#]);
        self.clock.push_completed(body, completed_millis);
        push(body, &[r#"","transferState":""#, self.committed, r#"","fulfilment":""#]);
        push_base64(body, fulfilment);
        push(body, &[r#""}"#]);
        let mut path = Vec::with_capacity(36);
        push_id(&mut path, transfer);
        let path = std::str::from_utf8(&path).expect("an id is ASCII");
        self.finish(out, MessageKind::PutTransfers, &["/transfers/", path], envelope);
    }

    /// PUT …/error with an FSPIOP code, to `path` and `/error`.
    pub(crate) fn put_error(
        &mut self,
        out: &mut Vec<u8>,
        kind: MessageKind,
        path: &[&str; 2],
        code: u16,
        envelope: &Envelope<'_>,
    ) {
        self.body.clear();
        push(&mut self.body, &["{"]);
        push_error(&mut self.body, code);
        push(&mut self.body, &["}"]);
        self.finish(out, kind, &[path[0], path[1], "/error"], envelope);
    }

    /// POST /participants/MSISDN/{msisdn}
    pub(crate) fn post_participant(
        &mut self,
        out: &mut Vec<u8>,
        msisdn: &str,
        envelope: &Envelope<'_>,
    ) {
        self.body.clear();
        let currency = self.currency;
        push(
            &mut self.body,
            &[r#"{"fspId":""#, &self.name, r#"","currency":""#, currency.as_str(), r#""}"#],
        );
        self.finish(
            out,
            MessageKind::PostParticipants,
            &["/participants/MSISDN/", msisdn],
            envelope,
        );
    }

    fn finish(
        &mut self,
        out: &mut Vec<u8>,
        kind: MessageKind,
        path: &[&str],
        envelope: &Envelope<'_>,
    ) {
        let head = self.start(out, kind, path, envelope);
        if let Some(signer) = &mut self.signer {
            let parts = SignedParts {
                method: self.heads[kind as usize].method.trim_end(),
                path: &out[head.path],
                destination: envelope.destination,
                date: &out[head.date],
            };
            let lines = signer.lines(&parts, &self.body);
            out.extend_from_slice(&lines);
        }
        if !matches!(kind, MessageKind::PostParticipants) {
            self.bodies.count += 1;
            self.bodies.bytes += self.body.len() as u64;
        }
        let mut digits = itoa::Buffer::new();
        push(out, &["\r\ncontent-length: ", digits.format(self.body.len()), "\r\n\r\n"]);
        out.extend_from_slice(&self.body);
    }

    /// Writes the head without its last two line breaks. Returns the places of path and date.
    fn start(
        &mut self,
        out: &mut Vec<u8>,
        kind: MessageKind,
        path: &[&str],
        envelope: &Envelope<'_>,
    ) -> HeadPlaces {
        let head = &self.heads[kind as usize];
        push(out, &[head.method]);
        let path_start = out.len();
        push(out, path);
        let path = path_start..out.len();
        out.extend_from_slice(&head.rest);
        let date_start = out.len();
        self.clock.push_date(out, envelope.now_millis);
        let places = HeadPlaces { path, date: date_start..out.len() };
        if let Some(destination) = envelope.destination {
            push(out, &["\r\nfspiop-destination: ", destination]);
        }
        if let Some(trace) = envelope.trace {
            self.spans = self.spans.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let mut span = [0; 16];
            hexadecimal(&self.spans.to_be_bytes(), &mut span);
            push(out, &["\r\ntraceparent: 00-"]);
            out.extend_from_slice(trace);
            out.push(b'-');
            out.extend_from_slice(&span);
            out.extend_from_slice(b"-01");
        }
        if let Some(tracestate) = envelope.tracestate {
            push(out, &["\r\ntracestate: ", tracestate]);
        }
        places
    }
}

impl Head {
    fn new(method: &'static str, resource: &str, accept: bool, options: &SimulatorOptions) -> Self {
        let version = options.version.as_str();
        let media = format!("application/vnd.interoperability.{resource}+json;version={version}");
        let accept = if accept { format!("accept: {media}\r\n") } else { String::new() };
        let rest = format!(
            " HTTP/1.1\r\nhost: {host}\r\ncontent-type: {media}\r\n{accept}\
             fspiop-source: {name}\r\ndate: ",
            host = options.hub,
            name = options.name,
        );
        Self { method, rest: rest.into_bytes() }
    }
}

/// Appends the transaction object of an ILP packet.
pub(crate) fn push_transaction(
    out: &mut Vec<u8>,
    quote_id: &str,
    transaction_id: &str,
    parties: &PartiesText<'_>,
    amount: (&str, Currency),
) {
    push(out, &[r#"{"amount":"#]);
    push_money(out, amount.1, format_args!("{}", amount.0));
    push(out, &[r#","payee":"#, parties.payee, r#","payer":"#, parties.payer]);
    push(out, &[r#","quoteId":""#, quote_id, r#"","transactionId":""#, transaction_id, r#"""#]);
    push(out, &[TRANSACTION_TYPE, "}"]);
}

/// Both parties as JSON text of the quote request.
pub(crate) struct PartiesText<'a> {
    pub(crate) payer: &'a str,
    pub(crate) payee: &'a str,
}

const TRANSACTION_TYPE: &str = concat!(
    r#","transactionType":{"initiator":"PAYER","initiatorType":"CONSUMER","#,
    r#""scenario":"TRANSFER"}"#
);

/// Appends texts one after the other.
pub(crate) fn push(out: &mut Vec<u8>, texts: &[&str]) {
    for text in texts {
        out.extend_from_slice(text.as_bytes());
    }
}

fn push_party(out: &mut Vec<u8>, party: Party<'_>) {
    push(
        out,
        &[
            r#"{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":""#,
            party.msisdn,
            r#"","fspId":""#,
            party.fsp,
            r#""}}"#,
        ],
    );
}

/// The member `errorInformation`.
fn push_error(out: &mut Vec<u8>, code: u16) {
    let mut digits = itoa::Buffer::new();
    let description = r#"","errorDescription":"Answer of a simulated FSP"}"#;
    push(out, &[r#""errorInformation":{"errorCode":""#, digits.format(code), description]);
}

fn push_money(out: &mut Vec<u8>, currency: Currency, amount: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    push(out, &[r#"{"amount":""#]);
    out.write_fmt(amount).expect("writing to a Vec cannot fail");
    push(out, &[r#"","currency":""#, currency.as_str(), r#""}"#]);
}
