//! Finds the recorded messages that name a party, for [`crate::serve::erasure`].
//!
//! # Costs and bounds
//! One pass over the log. Bodies are parsed only if they contain the identifier, an ILP packet or
//! an escaped character. Memory: the found records and payments; a search ends at
//! [`FOUND_MAX`] payments or contents.

use std::collections::BTreeSet;

use bytes::Bytes;
use ledger::{Command, Erase, LogIndex, PartyBinding, TransferId, is_hashed_identifier};
use operations::PartyName;
use record::cold_rows::party_key;
use record::frame::{Frame, Payload, Record};
use record::party_names::PartyKey;
use serde_json::{Map, Value};

use crate::serve::identifiers::{contains, has_word, values_in_packet, without_sign};

/// Maximum number of payments, and of contents, of one search.
pub(crate) const FOUND_MAX: usize = 10_000;
/// A search, and its findings.
#[derive(Debug)]
pub(crate) struct PartySearch {
    party: PartyName,
    /// The identifier without the sign that look-ups ignore.
    text: String,
    key: PartyKey,
    /// The hash of the identifier.
    hash: String,
    /// Records with contents that name the party and can be erased.
    pub(crate) contents: BTreeSet<LogIndex>,
    /// The payments of these contents.
    pub(crate) payments: BTreeSet<TransferId>,
    /// Sub-identifiers with which the party was registered.
    pub(crate) sub_ids: BTreeSet<Option<String>>,
    /// Changes of the party directory with the identifier in clear in their fields.
    pub(crate) changes: u64,
}

impl PartySearch {
    pub(crate) fn new(party: PartyName, key: PartyKey) -> Self {
        let hash = key.hashed_id(&party.id_type, &party.id);
        let text = without_sign(&party.id).to_owned();
        let sub_ids = BTreeSet::from([party.sub_id.clone()]);
        let (contents, payments) = Default::default();
        Self { party, text, key, hash, contents, payments, sub_ids, changes: 0 }
    }

    /// Whether more was found than one order can erase.
    pub(crate) fn is_full(&self) -> bool {
        FOUND_MAX < self.payments.len() || FOUND_MAX < self.contents.len()
    }

    /// Examines the records of a frame.
    pub(crate) fn examine(&mut self, frame: &Frame<'_>) {
        for record in frame.records() {
            self.examine_record(&record);
        }
    }

    fn examine_record(&mut self, record: &Record<'_>) {
        let bindings = self.bindings_in(record);
        let is_bound = !bindings.is_empty();
        let is_clear = bindings.iter().any(|it| !is_hashed_identifier(&it.id));
        self.changes += u64::from(is_clear);
        self.sub_ids.extend(bindings.into_iter().map(|it| it.sub_id));
        let Payload::Stored(payload) = record.payload else { return };
        if !is_bound && !self.is_named_in(payload) {
            return;
        }
        if !Erase::is_erasable(record.kind) {
            return;
        }
        self.contents.insert(record.log_index);
        let read = record::command::read_fields(record.kind, record.version, record.fields);
        self.payments.extend(read.ok().and_then(|command| payment_of(&command)));
    }

    /// The party's entries in a change of the party directory.
    fn bindings_in(&self, record: &Record<'_>) -> Vec<PartyBinding> {
        let mut texts = [&self.text, &self.hash].into_iter();
        if !texts.any(|text| contains(record.fields, text.as_bytes())) {
            return Vec::new();
        }
        let read = record::command::read_fields(record.kind, record.version, record.fields);
        let Ok(command) = read else { return Vec::new() };
        let named = command.named_parties().iter();
        named.filter(|party| self.is_bound_by(party)).cloned().collect()
    }

    /// Whether an entry is the party's, in clear or with hashes.
    fn is_bound_by(&self, party: &PartyBinding) -> bool {
        let PartyBinding { id_type, id, sub_id, .. } = party;
        let PartyName { id_type: own_type, id: own, sub_id: own_sub } = &self.party;
        let row_key = |sub_id| self.key.row_key(id_type, id, sub_id);
        let is_sub = own_sub.is_none()
            || row_key(sub_id.as_deref()) == self.key.row_key(own_type, own, own_sub.as_deref());
        is_sub && row_key(None) == self.key.row_key(own_type, own, None)
    }

    /// Whether an identifier is that of the party. Without a sub-identifier, the party has all.
    fn is_party(&self, id_type: &str, id: &str, sub_id: Option<&str>) -> bool {
        let PartyName { id_type: own_type, id: own, sub_id: own_sub } = &self.party;
        let is_sub = own_sub.is_none() || own_sub.as_deref() == sub_id;
        is_sub && party_key(id_type, id, None) == party_key(own_type, own, None)
    }

    fn is_named_in(&self, payload: &[u8]) -> bool {
        let may_name = [self.text.as_bytes(), b"ilpPacket", b"\\"];
        if !may_name.iter().any(|text| contains(payload, text)) {
            return false;
        }
        let message = fspiop::stored_message::decode(&Bytes::copy_from_slice(payload));
        let Ok(message) = message else {
            return self.is_in_text(&String::from_utf8_lossy(payload));
        };
        let mut headers = message.headers.values();
        if headers.any(|value| self.is_in_text(&String::from_utf8_lossy(value.as_bytes()))) {
            return true;
        }
        match serde_json::from_slice::<Value>(&message.body) {
            Ok(body) => self.is_in_value("", &body),
            Err(_) => self.is_in_text(&String::from_utf8_lossy(&message.body)),
        }
    }

    fn is_in_value(&self, name: &str, value: &Value) -> bool {
        match value {
            Value::Object(members) => {
                let mut each = members.iter();
                self.is_party_object(members)
                    || each.any(|(name, value)| self.is_in_value(name, value))
            }
            Value::Array(items) => items.iter().any(|item| self.is_in_value(name, item)),
            Value::String(_) if ["partyIdentifier", "partySubIdOrType"].contains(&name) => false,
            Value::String(text) if name == "ilpPacket" => self.is_in_packet(text),
            Value::String(text) => self.is_in_text(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Whether an object identifies the party.
    fn is_party_object(&self, members: &Map<String, Value>) -> bool {
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        match (text("partyIdType"), text("partyIdentifier")) {
            (Some(id_type), Some(id)) => self.is_party(id_type, id, text("partySubIdOrType")),
            _ => false,
        }
    }

    /// Whether the packet's transaction object names the party.
    fn is_in_packet(&self, packet: &str) -> bool {
        values_in_packet(packet).iter().any(|value| self.is_in_value("", value))
    }

    /// Whether a free text has the identifier as a word.
    fn is_in_text(&self, text: &str) -> bool {
        self.party.sub_id.is_none() && has_word(text, &self.text)
    }
}

/// The id under which a message is recorded.
fn payment_of(command: &Command) -> Option<TransferId> {
    match command {
        Command::Prepare(it) => Some(it.id),
        Command::Fulfil(it) => Some(it.id),
        Command::Abort(it) => Some(it.id),
        Command::PrepareBulk(it) => Some(it.id),
        Command::FulfilBulk(it) => Some(it.id),
        Command::AbortBulk(it) => Some(it.id),
        other => other.exchange().copied(),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use http::HeaderMap;
    use serde_json::json;

    use super::*;
    use crate::serve::identifiers::PACKET;

    fn search(id: &str, sub_id: Option<&str>) -> PartySearch {
        let sub_id = sub_id.map(Into::into);
        let party = PartyName { id_type: "MSISDN".into(), id: id.into(), sub_id };
        PartySearch::new(party, PartyKey::of_seed(&[7; 16]))
    }

    fn is_named(search: &PartySearch, body: &[u8]) -> bool {
        let mut payload = Vec::new();
        fspiop::stored_message::encode(&HeaderMap::new(), body, &mut payload);
        search.is_named_in(&payload)
    }

    fn party(id_type: &str, id: &str, sub_id: &str) -> Value {
        json!({"payee": {"partyIdInfo":
            {"partyIdType": id_type, "partyIdentifier": id, "partySubIdOrType": sub_id}}})
    }

    #[test]
    fn parties_are_found_by_type_identifier_and_sub_identifier() {
        let all = search("+254700000001", None);
        let shop = search("254700000001", Some("shop"));
        for (value, of_all, of_shop) in [
            (party("MSISDN", "254700000001", "shop"), true, true),
            (party("MSISDN", "+254700000001", "till"), true, false),
            (party("ACCOUNT_ID", "254700000001", "shop"), false, false),
            (party("MSISDN", "2547000000012", "shop"), false, false),
            (json!({"note": "call +254700000001."}), true, false),
            (json!({"note": "call 12547000000019"}), false, false),
            (json!({"amount": 254_700_000_001_u64}), false, false),
        ] {
            let body = value.to_string();
            assert_eq!(is_named(&all, body.as_bytes()), of_all, "{body}");
            assert_eq!(is_named(&shop, body.as_bytes()), of_shop, "{body}");
        }
        assert!(is_named(&all, br#"{"note": "25470000000\u0031"}"#), "escaped");
        assert!(!is_named(&search("12", None), br#"{"note": "12"}"#), "too common");
    }

    #[test]
    fn parties_in_packets_are_found() {
        let data = party("MSISDN", "254700000001", "").to_string();
        let searched = search("254700000001", None);
        let other = search("254700000002", None);
        for data in [data.clone(), PACKET.encode(&data)] {
            let mut packet = b"\x01\x82\x01\x81\0\0\0\0\0\0\x04\xb0\x0fg.payee.a\x81".to_vec();
            packet.extend(data.as_bytes());
            let body = json!({"ilpPacket": PACKET.encode(packet)}).to_string();
            assert!(is_named(&searched, body.as_bytes()), "{body}");
            assert!(!is_named(&other, body.as_bytes()), "{body}");
        }
        assert!(!is_named(&searched, br#"{"ilpPacket": "!!"}"#));
    }

    /// With the byte that ends a packet of version 1, and an amount that has the byte of a brace.
    #[test]
    fn parties_in_whole_packets_are_found() {
        let data = party("MSISDN", "254700000001", "").to_string();
        let searched = search("254700000001", None);
        for (head, data) in
            [(0x7b, data.clone()), (0x7b, PACKET.encode(&data)), (0, PACKET.encode(&data))]
        {
            let contents = 8 + 1 + 9 + 3 + data.len() + 1;
            let mut packet = vec![1, 0x82, (contents >> 8) as u8, contents as u8];
            packet.extend([0, 0, 0, 0, 0, 0, head, head, 9]);
            packet.extend(b"g.payee.a");
            packet.extend([0x82, (data.len() >> 8) as u8, data.len() as u8]);
            packet.extend(data.as_bytes());
            packet.push(0);
            for kind in [1, 99] {
                packet[0] = kind;
                let body = json!({"ilpPacket": PACKET.encode(&packet)}).to_string();
                assert!(is_named(&searched, body.as_bytes()), "{kind} {head} {data}");
            }
        }
    }

    #[test]
    fn identifiers_with_an_escaped_slash_are_found() {
        let body = br#"{"note": "account 001\/7788990 is closed"}"#;
        assert!(is_named(&search("001/7788990", None), body));
    }
}
