//! Events on Kafka: the section `[events]`.

use ::events::{EventKind, reference_topic};

use crate::config::settings::Events;
use crate::config::values::{Envelope, KindName};

impl Events {
    /// The topic of a kind in CloudEvents, or the one that replaces the reference's.
    pub(crate) fn topic_of(&self, kind: EventKind) -> Option<&str> {
        let own = self.topics.get(&KindName(kind)).map(String::as_str);
        own.or_else(|| (self.envelope == Envelope::CloudEvents).then_some(&*self.topic))
    }

    /// Whether recorded quotes are published.
    pub(super) fn publishes_quotes(&self) -> bool {
        self.kinds.contains(&KindName(EventKind::Quotes))
    }

    /// The topics of the events of the chosen kinds.
    fn event_topics(&self) -> impl Iterator<Item = &str> {
        let topic = move |kind: &KindName| self.topic_of(kind.0).unwrap_or(reference_topic(kind.0));
        self.kinds.iter().map(topic)
    }

    /// The first error about the settings.
    pub(super) fn fault(&self) -> Option<String> {
        let Some(brokers) = &self.brokers else { return self.access().fault() };
        if self.kinds.is_empty() {
            return Some("events.kinds is empty: name a kind, or remove events.brokers".into());
        }
        let topics = self.topics.values().chain([&self.topic, &self.counts_topic]);
        let all = topics.clone().map(String::as_str).chain(self.event_topics());
        if all.into_iter().any(|topic| topic == self.position_topic) {
            return Some("events.position_topic must not be a topic of events".into());
        }
        let topics = topics.chain([&self.position_topic]);
        let fault = topics.filter_map(|topic| address_fault(brokers, topic)).next();
        fault.or_else(|| self.access().fault())
    }
}

/// The error about brokers or the name of a topic.
#[cfg(feature = "kafka")]
fn address_fault(brokers: &str, topic: &str) -> Option<String> {
    let parsed = format!("kafka://{brokers}/{topic}").parse::<kafka::Address>();
    parsed.err().map(|error| format!("events.brokers or a topic in [events]: {error}"))
}

#[cfg(not(feature = "kafka"))]
fn address_fault(_brokers: &str, _topic: &str) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_settings_are_refused() {
        let brokers = "brokers = \"a:1,b:2\"\n";
        for (text, fault) in [
            (String::new(), ""),
            (brokers.into(), ""),
            (format!("{brokers}envelope = \"mojaloop\"\nkinds = [\"funds\"]"), ""),
            (format!("{brokers}topics = {{ positions = \"a.b\" }}"), ""),
            (format!("{brokers}kinds = []"), "events.kinds is empty"),
            (format!("{brokers}position_topic = \"upesi-events\""), "events.position_topic must"),
            (
                format!("{brokers}envelope = \"mojaloop\"\nposition_topic = \"topic-event-audit\""),
                "events.position_topic must",
            ),
            (format!("{brokers}ca = \"a\""), "events.ca, events.certificate and events.key are"),
            ("user = \"u\"".into(), "events.user and events.password_file belong together"),
        ] {
            let events: Events = toml::from_str(&text).expect("known words");
            let found = events.fault().unwrap_or_default();
            let is_right = found.contains(fault) && found.is_empty() == fault.is_empty();
            assert!(is_right, "{text}: {found}");
        }
        let wrong = toml::from_str::<Events>("kinds = [\"transfer\"]").expect_err("unknown");
        assert!(wrong.to_string().contains("expected transfers, funds"), "{wrong}");
    }

    #[cfg(feature = "kafka")]
    #[test]
    fn addresses_are_checked_before_the_start() {
        for (text, fault) in [
            ("brokers = \"a\"", "each broker must have the form host:port"),
            ("brokers = \"a:1\"\ntopic = \"two words\"", "a topic name has"),
            ("brokers = \"a:1\"\ntopics = { funds = \"\" }", "a topic name has"),
        ] {
            let events: Events = toml::from_str(text).expect("known words");
            let found = events.fault().unwrap_or_default();
            assert!(found.contains(fault), "{text}: {found}");
        }
    }
}
