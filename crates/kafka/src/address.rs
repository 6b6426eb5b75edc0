//! Address of a log on Kafka: `kafka://host:port,host:port/topic`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Maximum length of a topic's name in Kafka.
const TOPIC_MAX: usize = 249;
const SCHEME: &str = "kafka://";
/// Maximum number of brokers in an address. Clients discover the other brokers from these.
const BROKERS_MAX: usize = 64;

/// Bootstrap brokers and a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `host:port,host:port`.
    pub brokers: String,
    /// The topic's name.
    pub topic: String,
}

/// Why an address is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid Kafka address: {0}; expected kafka://host:port,host:port/topic")]
pub struct AddressError(&'static str);

impl Address {
    /// Number of distinct brokers in the address.
    pub(crate) fn named(&self) -> usize {
        self.brokers.split(',').collect::<BTreeSet<_>>().len()
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let rest = text.strip_prefix(SCHEME).ok_or(AddressError("it must start with kafka://"))?;
        let (brokers, topic) =
            rest.split_once('/').ok_or(AddressError("the topic is missing after the brokers"))?;
        if BROKERS_MAX < brokers.split(',').count() {
            return Err(AddressError("too many brokers: a few suffice to find the others"));
        }
        if !brokers.split(',').all(is_broker) {
            return Err(AddressError("each broker must have the form host:port"));
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let is_path = [".", ".."].contains(&topic);
        let is_long = TOPIC_MAX < topic.len();
        if topic.is_empty() || is_path || is_long || !topic.chars().all(legal) {
            return Err(AddressError(
                "a topic name has 1 to 249 letters, digits, dots, underscores and hyphens, and \
                 more than dots alone",
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
            ("127.0.0.1:9092/upesi", "it must start with kafka://"),
            ("kafka://127.0.0.1:9092", "the topic is missing"),
            ("kafka:///upesi", "each broker must"),
            ("kafka://host/upesi", "each broker must"),
            ("kafka://host:0/upesi", "each broker must"),
            ("kafka://host:70000/upesi", "each broker must"),
            ("kafka://a:1,,b:2/upesi", "each broker must"),
            ("kafka://a:1/", "a topic name has"),
            ("kafka://a:1/two words", "a topic name has"),
            ("kafka://a:1/x/y", "a topic name has"),
            ("kafka://a:1/.", "a topic name has"),
            ("kafka://a:1/..", "a topic name has"),
            (&long, "a topic name has"),
        ] {
            let refused = text.parse::<Address>().expect_err(text).to_string();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
