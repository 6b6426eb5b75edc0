//! Sample messages: what a hub publishes about a prepare and a fulfil, with the sizes of the
//! samples in the published benchmark.

use prost::Message;
use serde_json::{Value, json};

use super::scenarios::Payload;

/// Sizes of the compact JSON in bytes.
const PREPARE_BYTES: usize = 4_508;
const FULFIL_BYTES: usize = 2_188;

/// A message in protobuf.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Audit {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) from: String,
    #[prost(string, tag = "3")]
    pub(crate) to: String,
    #[prost(string, tag = "4")]
    pub(crate) action: String,
    #[prost(string, tag = "5")]
    pub(crate) content: String,
}

/// One of the two kinds of messages, complete except for its id.
struct Sample {
    /// JSON before and after the id.
    before: String,
    after: String,
    audit: Audit,
}

/// The two samples. Message number `n` is a prepare if `n` is even.
pub(crate) struct Samples([Sample; 2]);

impl Samples {
    pub(crate) fn new() -> Self {
        Self([Sample::new("prepare", PREPARE_BYTES), Sample::new("fulfil", FULFIL_BYTES)])
    }

    fn of(&self, number: u64) -> &Sample {
        &self.0[usize::from(number % 2 == 1)]
    }

    /// The message with this kind of payload.
    pub(crate) fn of_kind(&self, payload: Payload, number: u64) -> Vec<u8> {
        match payload {
            Payload::Samples => self.json(number),
            Payload::Protobuf => self.protobuf(number),
            Payload::Bytes(bytes) => sized(bytes, number),
        }
    }

    /// The message as JSON.
    pub(crate) fn json(&self, number: u64) -> Vec<u8> {
        let sample = self.of(number);
        [sample.before.as_str(), &id(number), &sample.after].concat().into_bytes()
    }

    /// The message as protobuf.
    pub(crate) fn protobuf(&self, number: u64) -> Vec<u8> {
        let audit = Audit { id: id(number), ..self.of(number).audit.clone() };
        audit.encode_to_vec()
    }
}

/// The id of a message, of constant length.
pub(crate) fn id(number: u64) -> String {
    format!("b51ec534-ee48-4575-b6a9-{number:012}")
}

impl Sample {
    fn new(action: &str, bytes: usize) -> Self {
        let short = message(action, "");
        let filled = message(action, &"x".repeat(bytes - short.to_string().len()));
        let text = filled.to_string();
        let (before, after) = text.split_once(&id(0)).expect("the message has its id");
        let content = filled["content"].to_string();
        let audit = Audit {
            id: String::new(),
            from: "payerfsp".to_owned(),
            to: "payeefsp".to_owned(),
            action: action.to_owned(),
            content,
        };
        Self { before: before.to_owned(), after: after.to_owned(), audit }
    }
}

/// JSON of exactly this size, if it is large enough for an id.
fn sized(bytes: usize, number: u64) -> Vec<u8> {
    let (id, frame) = (id(number), r#"{"id":"","note":""}"#.len());
    let note = "x".repeat(bytes.saturating_sub(frame + id.len()));
    format!(r#"{{"id":"{id}","note":"{note}"}}"#).into_bytes()
}

/// The two samples of the published benchmark as JSON, with the id of message 0.
pub(crate) fn published() -> [Value; 2] {
    Samples::new().0.map(|sample| {
        let text = [sample.before.as_str(), &id(0), &sample.after].concat();
        serde_json::from_str(&text).expect("it was JSON")
    })
}

fn message(action: &str, note: &str) -> Value {
    json!({
        "id": id(0),
        "from": "payerfsp",
        "to": "payeefsp",
        "type": "application/json",
        "content": {
            "headers": {
                "content-type": "application/vnd.interoperability.transfers+json;version=1.1",
                "date": "Thu, 26 Nov 2026 12:00:00 GMT",
                "fspiop-source": "payerfsp",
                "fspiop-destination": "payeefsp",
            },
            "payload": {
                "amount": { "amount": "100", "currency": "USD" },
                "expiration": "2026-11-26T12:00:30.000Z",
                "note": note,
            },
        },
        "metadata": {
            "event": { "type": "audit", "action": action, "state": { "status": "success" } },
            "trace": { "service": "upesi", "traceId": "5af7651916cd43dd8448eb211c80319c" },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_the_published_sizes() {
        let samples = Samples::new();
        assert_eq!([0, 1].map(|number| samples.json(number).len()), [PREPARE_BYTES, FULFIL_BYTES]);
        let parsed: Value = serde_json::from_slice(&samples.json(7)).unwrap();
        assert_eq!(parsed["id"], id(7));
        let sized = samples.of_kind(Payload::Bytes(100), 7);
        assert_eq!(sized.len(), 100);
        let parsed: Value = serde_json::from_slice(&sized).unwrap();
        assert_eq!(parsed["id"], id(7));
        let audit = Audit::decode(samples.protobuf(7).as_slice()).unwrap();
        assert_eq!((audit.id, audit.action.as_str()), (id(7), "fulfil"));
    }
}
