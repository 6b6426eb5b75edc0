//! The messages of two FSPs in a transfer, written without a hub: `POST /transfers` of the payer
//! and `PUT /transfers/{id}` of the payee, as written by [`crate::Simulator`].
//!
//! All data is generated from a seed: ids, names of the parties, numbers, amounts. Packet,
//! condition and fulfilment match as for any simulated FSP. The cost is some microseconds per
//! transfer, with constant memory.

use fspiop::ilp::{Payment, Secret, base64_length, condition, push_base64, push_packet};
use ledger::{Amount, Currency, TransferId};

use crate::ids::{hexadecimal, push_id};
use crate::message::{Envelope, PartiesText, TransferRequest, Writer, push, push_transaction};
use crate::simulator::SimulatorOptions;

/// Maximum length of texts of a transaction, in characters.
const TEXT_MAX: usize = 128;
/// Maximum amount, in hundredths of the currency's unit; the minimum is 1.
const CENTS_MAX: u64 = 10_000;
/// Approximate bytes of a `POST /transfers` body without the transaction.
const REST_BYTES: usize = 325;

/// Writes the messages of transfers between any of its FSPs.
pub struct PairWriter {
    fsps: Vec<Fsp>,
    currency: Currency,
    body_bytes: usize,
    random: u64,
    scratch: Vec<u8>,
}

/// Both messages of one transfer, each with its HTTP head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessagePair {
    /// The transfer.
    pub id: TransferId,
    /// `POST /transfers`, from the payer to the hub.
    pub prepare: Vec<u8>,
    /// `PUT /transfers/{id}`, from the payee to the hub.
    pub fulfil: Vec<u8>,
}

struct Fsp {
    name: String,
    writer: Writer,
    secret: Secret,
}

impl PairWriter {
    /// A writer for transfers between these FSPs, at least two, in the currency of the first one.
    /// Bodies of `POST /transfers` are padded to about `body_bytes`; their minimum is about 1,000
    /// bytes.
    ///
    /// # Panics
    ///
    /// With fewer than two FSPs.
    #[must_use]
    pub fn new(fsps: &[SimulatorOptions], body_bytes: usize, seed: u64) -> Self {
        assert!(2 <= fsps.len(), "a transfer has a payer and a payee");
        let one = |options: &SimulatorOptions| Fsp {
            name: options.name.clone(),
            writer: Writer::new(options, seed),
            secret: Secret::of(&options.name),
        };
        Self {
            currency: fsps[0].currency,
            fsps: fsps.iter().map(one).collect(),
            body_bytes,
            random: seed,
            scratch: Vec::new(),
        }
    }

    /// Writes the messages of the next transfer, at `now_millis` since the epoch.
    pub fn write(&mut self, now_millis: u64) -> MessagePair {
        let (payer, payee) = self.pair();
        let id = self.draw_id();
        let amount = Amount::from_units(i128::from(1 + self.below(CENTS_MAX)) * 100);
        let amount_text = amount.to_string();
        let packet = self.packet(id, (payer, payee), (amount, &amount_text));
        let fulfilment = self.fsps[payee].secret.fulfilment(packet.as_bytes());
        let mut digest = Vec::with_capacity(43);
        push_base64(&mut digest, &condition(&fulfilment));
        let mut trace = [0; 32];
        hexadecimal(&self.draw_bytes(), &mut trace);
        let (payer_name, payee_name) =
            (self.fsps[payer].name.clone(), self.fsps[payee].name.clone());
        let to = |destination| Envelope {
            destination: Some(destination),
            trace: Some(&trace),
            tracestate: None,
            now_millis,
        };
        let request = TransferRequest {
            transfer: id,
            payee_fsp: &payee_name,
            amount: &amount_text,
            packet: &packet,
            condition: std::str::from_utf8(&digest).expect("base64 is ASCII"),
        };
        let (mut prepare, mut fulfil) = (Vec::with_capacity(2_048), Vec::with_capacity(1_024));
        self.fsps[payer].writer.post_transfer(&mut prepare, &request, &to(&payee_name));
        let writer = &mut self.fsps[payee].writer;
        writer.put_transfer(&mut fulfil, id, &fulfilment, now_millis, &to(&payer_name));
        MessagePair { id, prepare, fulfil }
    }

    /// The packet's text, padded so that the body has the requested length.
    fn packet(
        &mut self,
        id: TransferId,
        (payer, payee): (usize, usize),
        (amount, amount_text): (Amount, &str),
    ) -> String {
        let (payer_text, payee_text) = (self.party(payer), self.party(payee));
        let (mut quote_id, mut transaction_id) = (Vec::new(), Vec::new());
        push_id(&mut quote_id, self.draw_id());
        push_id(&mut transaction_id, id);
        let text = |bytes| String::from_utf8(bytes).expect("an id is ASCII");
        let parties = PartiesText { payer: &payer_text, payee: &payee_text };
        let mut transaction = Vec::with_capacity(self.body_bytes);
        push_transaction(
            &mut transaction,
            &text(quote_id),
            &text(transaction_id),
            &parties,
            (amount_text, self.currency),
        );
        // The transaction is text in the packet, and the packet is text in the body.
        let base = REST_BYTES + base64_length(base64_length(transaction.len()));
        self.fill(&mut transaction, self.body_bytes.saturating_sub(base) * 9 / 16);
        let mut account = Vec::with_capacity(40);
        let number = self.number().to_string();
        push(&mut account, &["g.", &self.fsps[payee].name, ".msisdn.", &number]);
        let payment = Payment {
            amount,
            currency: self.currency,
            account: &account,
            transaction: &transaction,
        };
        let mut packet = Vec::with_capacity(self.body_bytes);
        push_packet(&mut packet, &mut self.scratch, &payment);
        text(packet)
    }

    /// A party as a member of a transaction.
    fn party(&mut self, fsp: usize) -> String {
        let (number, fsp) = (self.number(), self.fsps[fsp].name.clone());
        format!(
            "{{\"partyIdInfo\":{{\"partyIdType\":\"MSISDN\",\"partyIdentifier\":\"{number}\",\
             \"fspId\":\"{fsp}\"}}}}"
        )
    }

    /// Adds a note, and extensions if it is too short: `bytes` of random names in total.
    fn fill(&mut self, transaction: &mut Vec<u8>, bytes: usize) {
        let end = transaction.len() + bytes;
        if end < transaction.len() + 16 {
            return;
        }
        let closing = transaction.pop();
        debug_assert_eq!(closing, Some(b'}'), "a transaction is an object");
        push(transaction, &[r#","note":""#]);
        self.words(transaction, end.saturating_sub(2));
        push(transaction, &[r#"""#]);
        let mut separator = r#","extensionList":{"extension":["#;
        while transaction.len() + 48 < end {
            push(transaction, &[separator, r#"{"key":"remittance","value":""#]);
            self.words(transaction, end.saturating_sub(6));
            push(transaction, &[r#""}"#]);
            separator = ",";
        }
        push(transaction, &[if separator == "," { "]}}" } else { "}" }]);
    }

    /// Adds names up to a length, limited by the maximum of one text.
    fn words(&mut self, out: &mut Vec<u8>, end: usize) {
        let end = end.min(out.len() + TEXT_MAX);
        while out.len() < end {
            let name = self.name();
            push(out, &[&name, " "]);
        }
        out.truncate(end);
    }

    fn pair(&mut self) -> (usize, usize) {
        let count = self.fsps.len() as u64;
        let payer = self.below(count);
        let payee = (payer + 1 + self.below(count - 1)) % count;
        (payer as usize, payee as usize)
    }

    /// A neutral made-up name of three syllables.
    fn name(&mut self) -> String {
        const SYLLABLES: [&str; 32] = [
            "a", "ba", "chi", "da", "e", "fa", "ga", "ha", "i", "ja", "ka", "li", "ma", "ni", "o",
            "pe", "ra", "sa", "ti", "u", "vu", "wa", "ya", "zu", "be", "de", "ku", "lo", "mi",
            "no", "re", "so",
        ];
        let mut name = String::with_capacity(10);
        for _ in 0..3 {
            name.push_str(SYLLABLES[self.below(SYLLABLES.len() as u64) as usize]);
        }
        name[..1].make_ascii_uppercase();
        name
    }

    fn number(&mut self) -> u64 {
        25_500_000_000 + self.below(10_000_000_000)
    }

    /// A UUID of version 4.
    fn draw_id(&mut self) -> TransferId {
        let mut bytes = [0; 17];
        bytes[1..].copy_from_slice(&self.draw_bytes());
        bytes[7] = bytes[7] & 0x0f | 0x40;
        bytes[9] = bytes[9] & 0x3f | 0x80;
        TransferId::from_bytes(bytes).expect("form 0 is a UUID")
    }

    fn draw_bytes(&mut self) -> [u8; 16] {
        (u128::from(self.draw()) << 64 | u128::from(self.draw())).to_be_bytes()
    }

    fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    /// The next pseudo-random number (splitmix64).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::request;

    fn options(name: &str) -> SimulatorOptions {
        let currency = Currency::parse("USD").expect("a currency");
        SimulatorOptions::new(name, currency, ([127, 0, 0, 1], 4_000).into())
    }

    fn correspondence(body_bytes: usize, seed: u64) -> PairWriter {
        PairWriter::new(&["fsp1", "fsp2", "fsp3"].map(options), body_bytes, seed)
    }

    #[test]
    fn bodies_have_about_the_requested_length() {
        for (asked, range) in
            [(0, 900..1_100), (1_024, 990..1_080), (1_500, 1_450..1_550), (3_300, 3_200..3_400)]
        {
            let mut letters = correspondence(asked, 7);
            for _ in 0..50 {
                let letters = letters.write(1_900_000_000_000);
                let read = request(&letters.prepare).expect("HTTP").expect("whole");
                assert!(range.contains(&read.body.len()), "{asked}: {}", read.body.len());
                let body: serde_json::Value = serde_json::from_slice(&read.body).expect("JSON");
                assert_eq!(body["transferId"], letters.id.to_string());
                let path = format!("/transfers/{}", letters.id);
                assert_eq!(request(&letters.fulfil).expect("HTTP").expect("whole").path, path);
            }
        }
    }

    #[test]
    fn transactions_are_objects_with_texts_of_valid_length() {
        use base64::Engine as _;
        use base64::engine::general_purpose::URL_SAFE_NO_PAD;
        let mut letters = correspondence(2_000, 1);
        for _ in 0..50 {
            let letters = letters.write(0);
            let read = request(&letters.prepare).expect("HTTP").expect("whole");
            let body: serde_json::Value = serde_json::from_slice(&read.body).expect("JSON");
            let packet = body["ilpPacket"].as_str().expect("a packet");
            let packet = URL_SAFE_NO_PAD.decode(packet).expect("base64url");
            // The transaction is text in the packet, and starts like its JSON.
            let start = packet.windows(7).position(|at| at == b"eyJhbW9").expect("a transaction");
            let text = &packet[start..packet.len() - 1];
            let transaction = URL_SAFE_NO_PAD.decode(text).expect("base64url");
            let read: serde_json::Value = serde_json::from_slice(&transaction).expect("JSON");
            assert!(read["note"].as_str().expect("a note").len() <= TEXT_MAX);
            let extensions = read["extensionList"]["extension"].as_array().expect("extensions");
            let value = |it: &serde_json::Value| it["value"].as_str().map_or(0, str::len);
            assert!(extensions.iter().all(|it| (1..=TEXT_MAX).contains(&value(it))), "{read}");
        }
    }

    #[test]
    fn messages_depend_only_on_the_seed() {
        let (mut one, mut same, mut other) =
            (correspondence(900, 1), correspondence(900, 1), correspondence(900, 2));
        let first = one.write(5);
        assert_eq!(first, same.write(5));
        assert_ne!(first.id, other.write(5).id);
        assert_ne!(first.id, one.write(5).id);
    }
}
