//! Counts of messages that the hub forwards without a record in its log: look-ups and quotes.
//!
//! They are measurements of a process, not decisions: they have no position, and those since the
//! last event are lost with the process.

use ledger::Stamp;
use serde::Serialize;

use crate::cloud_event::{EventWriter, SCHEMA, time_of};

/// The messages that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CountKind {
    /// Look-ups and their answers.
    Parties,
    /// Quotes and their answers.
    Quotes,
}

impl CountKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Parties, Self::Quotes];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parties => "parties",
            Self::Quotes => "quotes",
        }
    }
}

/// The counts of an interval.
#[derive(Clone, Debug)]
pub struct CountEvent {
    /// The messages that are counted.
    pub kind: CountKind,
    /// The id, unique among the counts of a log.
    pub id: String,
    /// The beginning of the interval.
    pub since: Stamp,
    /// The end of the interval.
    pub until: Stamp,
    /// The counts, without those that are zero.
    pub counts: Vec<MessageCount>,
}

/// Messages of one operation to one participant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageCount {
    /// The recipient, or `other` for those beyond the bound of single counts.
    pub recipient: String,
    /// Method and path of the operation.
    pub request: String,
    /// Messages that the recipient accepted.
    pub accepted: u64,
    /// Messages that it refused, or did not answer.
    pub failed: u64,
}

#[derive(Serialize)]
struct Counted<'a> {
    specversion: &'static str,
    id: &'a str,
    source: String,
    #[serde(rename = "type")]
    of_type: String,
    time: String,
    datacontenttype: &'static str,
    dataschema: &'static str,
    data: CountedData<'a>,
}

#[derive(Serialize)]
struct CountedData<'a> {
    since: String,
    until: String,
    counts: &'a [MessageCount],
}

impl EventWriter {
    /// Counts as one JSON object.
    ///
    /// # Panics
    /// Never: counts are always writable.
    #[must_use]
    pub fn counts(&self, event: &CountEvent) -> Vec<u8> {
        let counted = Counted {
            specversion: "1.0",
            id: &event.id,
            source: format!("{}/counts", self.source()),
            of_type: format!("upesi.{}.counted", event.kind.name()),
            time: time_of(event.until),
            datacontenttype: "application/json",
            dataschema: SCHEMA,
            data: CountedData {
                since: time_of(event.since),
                until: time_of(event.until),
                counts: &event.counts,
            },
        };
        serde_json::to_vec(&counted).expect("counts are always writable")
    }
}
