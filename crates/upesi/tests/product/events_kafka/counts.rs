//! Counts of quotes and look-ups, which are not in the log.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::{PATIENCE, assert_all_published, committed, configuration, start_broker};
use crate::mojaloop_metrics::{party, quote};
use crate::support::scheme::Scheme;

const TOPIC: &str = "upesi-events-counts";

/// The sums of all counts, by type, recipient and request.
fn sums(events: &[Value]) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for event in events {
        for count in event["data"]["counts"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let key = [&event["type"], &count["recipient"], &count["request"]].map(text).join(" ");
            assert_eq!(count["failed"], 0, "{count}");
            *sums.entry(key).or_default() += count["accepted"].as_u64().unwrap();
        }
    }
    sums
}

#[test]
fn quotes_and_lookups_are_counted_per_participant_apart_from_events() {
    let directory = TempDir::new().unwrap();
    let cluster = start_broker(&directory);
    let scheme = Scheme::configured(&configuration(&cluster, "counts_every_seconds = 1\n"));
    for _ in 0..2 {
        quote(&scheme);
    }
    party(&scheme, "/MSISDN/254700000001");
    let expected = BTreeMap::from(
        [
            ("upesi.parties.counted payeefsp GET /parties/{Type}/{ID}", 1),
            ("upesi.parties.counted payerfsp PUT /parties/{Type}/{ID}", 1),
            ("upesi.parties.counted payerfsp PUT /parties/{Type}/{ID}/error", 1),
            ("upesi.quotes.counted payeefsp GET /quotes/{ID}", 2),
            ("upesi.quotes.counted payeefsp POST /quotes", 2),
            ("upesi.quotes.counted payerfsp PUT /quotes/{ID}", 2),
            ("upesi.quotes.counted payerfsp PUT /quotes/{ID}/error", 2),
        ]
        .map(|(key, count)| (key.to_owned(), count)),
    );
    let deadline = Instant::now() + PATIENCE;
    let events: Vec<Value> = loop {
        let read: Vec<_> =
            committed(&cluster, TOPIC).into_iter().map(|message| message.value).collect();
        if sums(&read) == expected {
            break read;
        }
        assert!(Instant::now() < deadline, "{:#?}", sums(&read));
        std::thread::sleep(Duration::from_millis(50));
    };
    let ids: BTreeSet<_> = events.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), events.len());
    for event in &events {
        assert_eq!(event["specversion"], "1.0");
        assert!(event["source"].as_str().unwrap().ends_with("/counts"), "{event}");
        assert!(event["data"]["since"].as_str() < event["data"]["until"].as_str(), "{event}");
    }
    // The topic of events has those of the log, and nothing else.
    assert_all_published(&cluster, &scheme.admin);
    scheme.end();
}
