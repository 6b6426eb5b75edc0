//! Checks a topic's settings: which could lose records, or are too small for them.

use std::fmt;

use record::frame::FRAME_BYTES_MAX;

/// Maximum overhead of a message beyond its frame, in bytes: Kafka's headers.
const OVERHEAD_BYTES: usize = 1 << 10;

/// Minimum of a topic's maximum message size, in bytes: the largest frame.
pub const MESSAGE_BYTES_MIN: usize = FRAME_BYTES_MAX + OVERHEAD_BYTES;

/// Replicas that a topic needs in a cluster with enough brokers.
const REPLICAS_WANTED: usize = 3;

/// A topic's layout as the brokers describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicLayout {
    /// Ids of the live brokers.
    pub(crate) brokers: Vec<i32>,
    /// Number of brokers according to the address, including dead ones.
    pub(crate) named: usize,
    /// Partitions of the topic.
    pub(crate) partitions: usize,
    /// Ids of the brokers that have its first partition.
    pub(crate) replicas: Vec<i32>,
}

impl TopicLayout {
    /// Replicas that a topic should have in a cluster of this many brokers.
    pub(crate) fn replicas_wanted(brokers: usize) -> usize {
        brokers.clamp(1, REPLICAS_WANTED)
    }

    /// Replicas that must store a record before it is acknowledged: a majority, so that the loss of
    /// a minority loses no record.
    pub(crate) fn in_sync_wanted(replicas: usize) -> usize {
        replicas / 2 + 1
    }

    /// Whether a topic created now gets all replicas that the named brokers allow. A topic keeps
    /// the number of replicas with which it is created.
    pub(crate) fn may_be_created(alive: usize, named: usize) -> bool {
        Self::replicas_wanted(named) <= Self::replicas_wanted(alive)
    }

    fn has_one_partition(&self) -> bool {
        self.partitions == 1
    }

    /// Number of brokers, dead or alive.
    fn all(&self) -> usize {
        self.named.max(self.brokers.len())
    }

    fn wanted(&self) -> usize {
        Self::replicas_wanted(self.all())
    }

    fn has_enough_replicas(&self) -> bool {
        self.wanted() <= self.replicas.len()
    }

    /// Brokers that should have the topic: those that have it, then others, up to the wanted
    /// number.
    fn target_brokers(&self) -> String {
        let others = self.brokers.iter().filter(|broker| !self.replicas.contains(broker));
        let brokers = self.replicas.iter().chain(others).take(self.wanted());
        brokers.map(i32::to_string).collect::<Vec<_>>().join(",")
    }
}

/// The settings of a new topic, and the requirements for an existing one. The two numeric settings
/// may be larger.
pub(crate) fn wanted(replicas: usize) -> [(&'static str, String); 8] {
    [
        (IN_SYNC, TopicLayout::in_sync_wanted(replicas).to_string()),
        (MESSAGE_BYTES, MESSAGE_BYTES_MIN.to_string()),
        ("cleanup.policy", "delete".into()),
        ("retention.ms", "-1".into()),
        ("retention.bytes", "-1".into()),
        ("unclean.leader.election.enable", "false".into()),
        ("message.timestamp.type", "LogAppendTime".into()),
        // Brokers would decompress and recompress messages of other clients; no node could read
        // past one.
        ("compression.type", "uncompressed".into()),
    ]
}

const IN_SYNC: &str = "min.insync.replicas";
const MESSAGE_BYTES: &str = "max.message.bytes";

/// A topic with unsafe settings, and how to change them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnsafeTopic {
    topic: String,
    layout: TopicLayout,
    /// Setting, actual value, required value.
    settings: Vec<(String, String, String)>,
}

impl fmt::Display for UnsafeTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, layout, settings } = self;
        write!(f, "topic {topic} is not safe for a log:")?;
        if !layout.has_one_partition() {
            write!(f, " it has {} partitions, but a log needs exactly 1;", layout.partitions)?;
        }
        if !layout.has_enough_replicas() {
            let (is, wanted, brokers) = (layout.replicas.len(), layout.wanted(), layout.all());
            write!(f, " it has {is} of the {wanted} replicas that {brokers} brokers allow;")?;
        }
        for (name, is, must) in settings {
            write!(f, " {name} is {is} but must be {must};")?;
        }
        self.advise(f)
    }
}

impl UnsafeTopic {
    fn advise(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, layout, settings } = self;
        if !layout.has_one_partition() {
            return f.write_str(
                " partitions cannot be removed: name a topic that does not exist; it is created \
                 with the required settings",
            );
        }
        if !layout.has_enough_replicas() {
            if layout.brokers.len() < layout.wanted() {
                let (alive, all) = (layout.brokers.len(), layout.all());
                return write!(
                    f,
                    " only {alive} of {all} brokers answer: start the others, then start again to \
                     see how to add replicas"
                );
            }
            write!(
                f,
                " add replicas, which keeps its messages, with: \
                 kafka-reassign-partitions.sh --bootstrap-server BROKER --execute \
                 --reassignment-json-file FILE, where FILE holds \
                 {{\"version\":1,\"partitions\":[{{\"topic\":\"{topic}\",\"partition\":0,\
                 \"replicas\":[{}]}}]}}; when that is done,",
                layout.target_brokers()
            )?;
        }
        if settings.is_empty() {
            return f.write_str(" start again");
        }
        let changes: Vec<_> =
            settings.iter().map(|(name, _, must)| format!("{name}={must}")).collect();
        write!(
            f,
            " change the settings with: kafka-configs.sh --bootstrap-server BROKER --alter \
             --entity-type topics --entity-name {topic} --add-config {}",
            changes.join(",")
        )
    }
}

/// Checks a topic against the requirements of a log. `value` returns a setting of it.
///
/// # Errors
/// Everything that is wrong, in one error.
pub(crate) fn check(
    topic: &str,
    layout: &TopicLayout,
    value: impl Fn(&str) -> Option<String>,
) -> Result<(), UnsafeTopic> {
    let mut settings = Vec::new();
    // Judge by the replicas that it should have.
    for (name, must) in wanted(layout.wanted().max(layout.replicas.len())) {
        let is = value(name).unwrap_or_else(|| "unknown".into());
        let enough = || Some(must.parse::<u64>().ok()? <= is.parse::<u64>().ok()?);
        let numeric = [IN_SYNC, MESSAGE_BYTES].contains(&name);
        if is != must && !(numeric && enough() == Some(true)) {
            settings.push((name.to_owned(), is, must));
        }
    }
    if layout.has_one_partition() && layout.has_enough_replicas() && settings.is_empty() {
        return Ok(());
    }
    Err(UnsafeTopic { topic: topic.to_owned(), layout: layout.clone(), settings })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// Checks a topic that is safe except for the given values.
    fn check_topic(
        brokers: i32,
        partitions: usize,
        replicas: usize,
        change: (&str, &str),
    ) -> String {
        // The last brokers have it.
        let brokers: Vec<_> = (1..=brokers).collect();
        let (_, those) = brokers.split_at(brokers.len() - replicas);
        let layout = TopicLayout { replicas: those.to_vec(), brokers, named: 1, partitions };
        let value = |name: &str| {
            let right = wanted(replicas).into_iter().find(|(known, _)| *known == name);
            if name == change.0 { Some(change.1.to_owned()) } else { Some(right?.1) }
        };
        match check("upesi", &layout, value) {
            Ok(()) => "safe".into(),
            Err(error) => error.to_string(),
        }
    }

    fn check_text(text: &str, expected: Expect) {
        expected.assert_eq(text);
    }

    #[test]
    fn required_settings_are_safe() {
        for (brokers, replicas) in [(1, 1), (2, 2), (3, 3), (5, 3), (5, 5)] {
            assert_eq!(check_topic(brokers, 1, replicas, ("", "")), "safe", "{brokers} {replicas}");
        }
        assert_eq!(check_topic(3, 1, 3, ("min.insync.replicas", "3")), "safe");
        assert_eq!(check_topic(3, 1, 3, ("max.message.bytes", "104857600")), "safe");
    }

    /// A broker that is briefly away makes no topic unsafe.
    #[test]
    fn named_brokers_count_while_they_are_down() {
        let (brokers, replicas) = (vec![2, 3], vec![2, 3]);
        let two_of = |named| TopicLayout {
            brokers: brokers.clone(),
            named,
            replicas: replicas.clone(),
            partitions: 1,
        };
        let value = |name: &str| Some(wanted(2).into_iter().find(|(known, _)| *known == name)?.1);
        assert!(check("upesi", &two_of(2), value).is_ok());
        let error = check("upesi", &two_of(3), value).err().map(|error| error.to_string());
        let error = error.unwrap_or_default();
        assert!(error.contains("it has 2 of the 3 replicas that 3 brokers allow"), "{error}");
        assert!(error.contains("only 2 of 3 brokers answer: start the others"), "{error}");
    }

    #[test]
    fn new_topic_needs_enough_live_brokers() {
        let made = |alive, named| TopicLayout::may_be_created(alive, named);
        for (alive, named) in [(1, 1), (3, 1), (2, 2), (3, 3), (3, 5), (5, 5)] {
            assert!(made(alive, named), "{alive} of {named}");
        }
        for (alive, named) in [(1, 2), (1, 3), (2, 3), (2, 5)] {
            assert!(!made(alive, named), "{alive} of {named}");
        }
    }

    #[test]
    fn unsafe_settings_are_refused_with_the_remedy() {
        for (name, is) in [
            ("min.insync.replicas", "1"),
            ("max.message.bytes", "1048588"),
            ("cleanup.policy", "compact"),
            ("cleanup.policy", "compact,delete"),
            ("retention.ms", "604800000"),
            ("retention.bytes", "1000"),
            ("unclean.leader.election.enable", "true"),
            ("message.timestamp.type", "CreateTime"),
            ("compression.type", "producer"),
        ] {
            let text = check_topic(3, 1, 3, (name, is));
            assert!(text.contains(&format!("{name} is {is} but must be ")), "{text}");
            assert!(text.contains(&format!("--entity-name upesi --add-config {name}=")), "{text}");
        }
        check_text(
            &check_topic(3, 1, 3, ("retention.ms", "604800000")),
            expect![[
                r#"topic upesi is not safe for a log: retention.ms is 604800000 but must be -1; change the settings with: kafka-configs.sh --bootstrap-server BROKER --alter --entity-type topics --entity-name upesi --add-config retention.ms=-1"#
            ]],
        );
        check_text(
            &check_topic(3, 4, 3, ("", "")),
            expect![[
                r#"topic upesi is not safe for a log: it has 4 partitions, but a log needs exactly 1; partitions cannot be removed: name a topic that does not exist; it is created with the required settings"#
            ]],
        );
        check_text(
            &check_topic(3, 1, 2, ("", "")),
            expect![[
                r#"topic upesi is not safe for a log: it has 2 of the 3 replicas that 3 brokers allow; add replicas, which keeps its messages, with: kafka-reassign-partitions.sh --bootstrap-server BROKER --execute --reassignment-json-file FILE, where FILE holds {"version":1,"partitions":[{"topic":"upesi","partition":0,"replicas":[2,3,1]}]}; when that is done, start again"#
            ]],
        );
        check_text(
            &check_topic(5, 1, 1, ("", "")),
            expect![[
                r#"topic upesi is not safe for a log: it has 1 of the 3 replicas that 5 brokers allow; min.insync.replicas is 1 but must be 2; add replicas, which keeps its messages, with: kafka-reassign-partitions.sh --bootstrap-server BROKER --execute --reassignment-json-file FILE, where FILE holds {"version":1,"partitions":[{"topic":"upesi","partition":0,"replicas":[5,1,2]}]}; when that is done, change the settings with: kafka-configs.sh --bootstrap-server BROKER --alter --entity-type topics --entity-name upesi --add-config min.insync.replicas=2"#
            ]],
        );
    }
}
