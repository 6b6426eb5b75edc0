//! Which settings of a topic can lose records, or not hold them.

use std::fmt;

use record::frame::FRAME_BYTES_MAX;

/// What a message may take beyond its frame: Kafka's own headers.
const OVERHEAD_BYTES: usize = 1 << 10;

/// A topic must take messages of this many bytes at least: the largest frame there is.
pub const MESSAGE_BYTES_MIN: usize = FRAME_BYTES_MAX + OVERHEAD_BYTES;

/// Replicas that a topic needs where there are brokers enough.
const REPLICAS_WANTED: usize = 3;

/// What the brokers say of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Brokers in the cluster.
    pub(crate) brokers: usize,
    /// Partitions of the topic.
    pub(crate) partitions: usize,
    /// Replicas of its first partition.
    pub(crate) replicas: usize,
}

impl Layout {
    /// Replicas that a topic should have in a cluster of so many brokers.
    pub(crate) fn replicas_wanted(brokers: usize) -> usize {
        brokers.clamp(1, REPLICAS_WANTED)
    }

    /// Replicas that must have a record before it is acknowledged: a majority, so that the loss
    /// of a minority loses nothing.
    pub(crate) fn in_sync_wanted(replicas: usize) -> usize {
        replicas / 2 + 1
    }
}

/// The settings with which a topic is made, and which it must have; the two that are numbers may
/// be larger.
pub(crate) fn wanted(replicas: usize) -> [(&'static str, String); 7] {
    [
        (IN_SYNC, Layout::in_sync_wanted(replicas).to_string()),
        (MESSAGE_BYTES, MESSAGE_BYTES_MIN.to_string()),
        ("cleanup.policy", "delete".into()),
        ("retention.ms", "-1".into()),
        ("retention.bytes", "-1".into()),
        ("unclean.leader.election.enable", "false".into()),
        ("message.timestamp.type", "LogAppendTime".into()),
    ]
}

const IN_SYNC: &str = "min.insync.replicas";
const MESSAGE_BYTES: &str = "max.message.bytes";

/// A topic that is not safe, and how to make it so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Unsafe {
    topic: String,
    layout: Vec<String>,
    /// Setting, what it is, what it must be.
    settings: Vec<(String, String, String)>,
}

impl fmt::Display for Unsafe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topic {} is not safe for a log:", self.topic)?;
        for what in &self.layout {
            write!(f, " {what};")?;
        }
        for (name, is, must) in &self.settings {
            write!(f, " {name} is {is} and must be {must};")?;
        }
        if !self.layout.is_empty() {
            return f.write_str(
                " these cannot be changed by a setting: name a topic that does not exist, and it \
                 is made as it must be",
            );
        }
        let changes: Vec<_> =
            self.settings.iter().map(|(name, _, must)| format!("{name}={must}")).collect();
        write!(
            f,
            " change that with: kafka-configs.sh --bootstrap-server BROKER --alter --entity-type \
             topics --entity-name {} --add-config {}",
            self.topic,
            changes.join(",")
        )
    }
}

/// Holds a topic against what a log needs. `value` gives a setting of it.
///
/// # Errors
/// Everything that is wrong, at once.
pub(crate) fn check(
    topic: &str,
    layout: &Layout,
    value: impl Fn(&str) -> Option<String>,
) -> Result<(), Unsafe> {
    let mut wrong = Vec::new();
    if layout.partitions != 1 {
        wrong.push(format!("it has {} partitions, and a log is one", layout.partitions));
    }
    let replicas = Layout::replicas_wanted(layout.brokers);
    if layout.replicas < replicas {
        wrong.push(format!(
            "it has {} of the {replicas} replicas that {} brokers allow",
            layout.replicas, layout.brokers
        ));
    }
    let mut settings = Vec::new();
    for (name, must) in wanted(layout.replicas) {
        let is = value(name).unwrap_or_else(|| "unknown".into());
        let enough = || Some(must.parse::<u64>().ok()? <= is.parse::<u64>().ok()?);
        let numeric = [IN_SYNC, MESSAGE_BYTES].contains(&name);
        if is != must && !(numeric && enough() == Some(true)) {
            settings.push((name.to_owned(), is, must));
        }
    }
    if wrong.is_empty() && settings.is_empty() {
        return Ok(());
    }
    Err(Unsafe { topic: topic.to_owned(), layout: wrong, settings })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// Checks a topic that is right but for what is given.
    fn said(brokers: usize, partitions: usize, replicas: usize, change: (&str, &str)) -> String {
        let layout = Layout { brokers, partitions, replicas };
        let value = |name: &str| {
            let right = wanted(replicas).into_iter().find(|(known, _)| *known == name);
            if name == change.0 { Some(change.1.to_owned()) } else { Some(right?.1) }
        };
        match check("upesi", &layout, value) {
            Ok(()) => "safe".into(),
            Err(error) => error.to_string(),
        }
    }

    fn check_said(said: &str, expected: Expect) {
        expected.assert_eq(said);
    }

    #[test]
    fn what_a_log_needs_is_safe() {
        for (brokers, replicas) in [(1, 1), (2, 2), (3, 3), (5, 3), (5, 5)] {
            assert_eq!(said(brokers, 1, replicas, ("", "")), "safe", "{brokers} {replicas}");
        }
        assert_eq!(said(3, 1, 3, ("min.insync.replicas", "3")), "safe");
        assert_eq!(said(3, 1, 3, ("max.message.bytes", "104857600")), "safe");
    }

    #[test]
    fn what_could_lose_records_is_refused_with_what_to_do() {
        for (name, is) in [
            ("min.insync.replicas", "1"),
            ("max.message.bytes", "1048588"),
            ("cleanup.policy", "compact"),
            ("cleanup.policy", "compact,delete"),
            ("retention.ms", "604800000"),
            ("retention.bytes", "1000"),
            ("unclean.leader.election.enable", "true"),
            ("message.timestamp.type", "CreateTime"),
        ] {
            let said = said(3, 1, 3, (name, is));
            assert!(said.contains(&format!("{name} is {is} and must be ")), "{said}");
            assert!(said.contains(&format!("--entity-name upesi --add-config {name}=")), "{said}");
        }
        check_said(
            &said(3, 1, 3, ("retention.ms", "604800000")),
            expect![[
                r#"topic upesi is not safe for a log: retention.ms is 604800000 and must be -1; change that with: kafka-configs.sh --bootstrap-server BROKER --alter --entity-type topics --entity-name upesi --add-config retention.ms=-1"#
            ]],
        );
        check_said(
            &said(3, 4, 1, ("", "")),
            expect![[
                r#"topic upesi is not safe for a log: it has 4 partitions, and a log is one; it has 1 of the 3 replicas that 3 brokers allow; these cannot be changed by a setting: name a topic that does not exist, and it is made as it must be"#
            ]],
        );
    }
}
