//! Counters and health of a consumer in the text format of Prometheus.

use std::fmt::Write as _;

use crate::consumer::Control;
use crate::health::{Counts, Health};

impl Control {
    /// Counters and health as metrics, each with the label `group`.
    pub fn metrics(&self, group: &str) -> String {
        text_of(&self.counts(), &self.health(), group)
    }
}

fn text_of(counts: &Counts, health: &Health, group: &str) -> String {
    let (partitions, lag) = match health {
        Health::Working { partitions, lag } => (Some(*partitions as i64), *lag),
        Health::WithoutPartitions => (Some(0), None),
        Health::Stalled { .. } | Health::Unreachable { .. } | Health::Ended => (None, None),
    };
    let count = |value: u64| i64::try_from(value).ok();
    let metrics = [
        ("handled_total", "counter", "Messages that handlers have processed.", {
            count(counts.handled)
        }),
        ("handler_calls_total", "counter", "Calls of handlers.", count(counts.calls)),
        ("handler_retries_total", "counter", "Calls that repeated a failed one.", {
            count(counts.retries)
        }),
        ("dead_letters_total", "counter", "Messages written to the dead-letter topic.", {
            count(counts.dead_letters)
        }),
        ("commits_total", "counter", "Requested commits.", count(counts.commits)),
        ("commit_failures_total", "counter", "Commits that failed.", {
            count(counts.commit_failures)
        }),
        ("rebalances_total", "counter", "Changes of the partitions.", count(counts.rebalances)),
        ("healthy", "gauge", "Whether the consumer makes progress.", {
            Some(health.is_good().into())
        }),
        ("partitions", "gauge", "Partitions of this consumer; absent if unknown.", partitions),
        ("lag", "gauge", "Messages that are not done; absent if unknown.", lag),
    ];
    let group = group.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    let mut text = String::new();
    for (name, kind, help, value) in metrics {
        let Some(value) = value else { continue };
        let name = format!("stream_consumer_{name}");
        write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n").expect("text grows");
        writeln!(text, "{name}{{group=\"{group}\"}} {value}").expect("text grows");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn unknown_values_are_absent() {
        let counts = Counts { handled: 7, ..Counts::default() };
        let well = Health::Working { partitions: 2, lag: Some(3) };
        let text = text_of(&counts, &well, "a\"b");
        assert!(text.contains("# TYPE stream_consumer_handled_total counter\n"), "{text}");
        for line in [
            "stream_consumer_handled_total{group=\"a\\\"b\"} 7\n",
            "stream_consumer_healthy{group=\"a\\\"b\"} 1\n",
            "stream_consumer_lag{group=\"a\\\"b\"} 3\n",
        ] {
            assert!(text.contains(line), "{line} {text}");
        }
        let stalled = Health::Stalled { since: Duration::ZERO, reason: String::new() };
        let text = text_of(&counts, &stalled, "g");
        assert!(text.contains("stream_consumer_healthy{group=\"g\"} 0\n"), "{text}");
        assert!(!text.contains("stream_consumer_lag"), "{text}");
    }
}
