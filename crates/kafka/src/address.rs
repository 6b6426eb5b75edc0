//! Where a log on Kafka is: `kafka://host:port,host:port/topic`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Longest name of a topic, as Kafka has it.
const TOPIC_MAX: usize = 249;
const SCHEME: &str = "kafka://";
/// Most brokers named in an address; others are learnt from these.
const BROKERS_MAX: usize = 64;

/// Brokers to ask first, and a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `host:port,host:port`.
    pub brokers: String,
    /// The topic's name.
    pub topic: String,
}

/// Why a text is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; an address reads kafka://host:port,host:port/topic")]
pub struct AddressError(&'static str);

impl Address {
    /// How many brokers are named, each counted once.
    pub(crate) fn named(&self) -> usize {
        self.brokers.split(',').collect::<BTreeSet<_>>().len()
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let rest = text.strip_prefix(SCHEME).ok_or(AddressError("it starts with kafka://"))?;
        let (brokers, topic) =
            rest.split_once('/').ok_or(AddressError("the topic is missing after the brokers"))?;
        if BROKERS_MAX < brokers.split(',').count() {
            return Err(AddressError("too many brokers: a few are enough to find the others"));
        }
        if !brokers.split(',').all(is_broker) {
            return Err(AddressError("each broker is a host, a colon and a port"));
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let is_path = [".", ".."].contains(&topic);
        let is_long = TOPIC_MAX < topic.len();
        if topic.is_empty() || is_path || is_long || !topic.chars().all(legal) {
            return Err(AddressError(
                "a topic is 1 to 249 letters, digits, dots, underscores and hyphens, and more than \
                 dots alone",
            ));
        }
        Ok(Self { brokers: brokers.to_owned(), topic: topic.to_owned() })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.brokers, self.topic)
    }
}

fn is_broker(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let legal = |c: char| c.is_ascii_alphanumeric() || ".-_[]:".contains(c);
    !host.is_empty() && host.chars().all(legal) && port.parse::<u16>().is_ok_and(|port| 0 < port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for text in [
            "kafka://127.0.0.1:9092/upesi",
            "kafka://a.example:9092,b-1.example:19092/upesi.log_1",
            "kafka://[::1]:9092/x",
        ] {
            assert_eq!(
                text.parse::<Address>().map(|address| address.to_string()).as_deref(),
                Ok(text)
            );
        }
    }

    #[test]
    fn brokers_are_counted_once() {
        for (text, named) in [("kafka://a:1/x", 1), ("kafka://a:1,b:1,a:2,b:1/x", 3)] {
            assert_eq!(text.parse::<Address>().map(|address| address.named()), Ok(named));
        }
    }

    #[test]
    fn anything_else_is_refused_with_its_reason() {
        let long = format!("kafka://a:1/{}", "x".repeat(250));
        for (text, reason) in [
            ("127.0.0.1:9092/upesi", "it starts with kafka://"),
            ("kafka://127.0.0.1:9092", "the topic is missing"),
            ("kafka:///upesi", "each broker is"),
            ("kafka://host/upesi", "each broker is"),
            ("kafka://host:0/upesi", "each broker is"),
            ("kafka://host:70000/upesi", "each broker is"),
            ("kafka://a:1,,b:2/upesi", "each broker is"),
            ("kafka://a:1/", "a topic is"),
            ("kafka://a:1/two words", "a topic is"),
            ("kafka://a:1/x/y", "a topic is"),
            ("kafka://a:1/.", "a topic is"),
            ("kafka://a:1/..", "a topic is"),
            (&long, "a topic is"),
        ] {
            let refused = text.parse::<Address>().expect_err(text).to_string();
            assert!(refused.starts_with(reason), "{text}: {refused}");
        }
    }
}
