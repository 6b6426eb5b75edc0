//! Settings that lose messages, stop a client silently, or add latency.

use serde::Serialize;
use serde_json::Value;

use super::client::{Client, Mode, Role};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// The client cannot work.
    Error,
    /// Messages may be lost or late, or health is wrong.
    Warning,
}

impl Level {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Error => "error  ",
            Self::Warning => "warning",
        }
    }
}

/// A dangerous setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) setting: &'static str,
    pub(super) danger: &'static str,
    pub(super) instead: &'static str,
}

/// Longest timers that do not show in the latency of a payment.
const IDLE_MS_MAX: u64 = 10;
const FILL_MS_MAX: u64 = 50;
const LINGER_MS_MAX: u64 = 20;
/// Bounds of brokers by default (`group.min.session.timeout.ms`), and of a slow handler.
const SESSION_MS_MIN: u64 = 6_000;
const POLL_INTERVAL_MS_MIN: u64 = 60_000;

/// A condition and its finding.
type Rule = (fn(&Client) -> bool, Finding);

/// Builds a table: level, setting, condition, danger, and safer value.
macro_rules! rules {
    ($client:ident; $($level:ident $setting:literal if $applies:expr =>
        $danger:literal, $instead:literal;)*) => {
        &[$((
            |$client: &Client| $applies,
            Finding {
                level: Level::$level, setting: $setting, danger: $danger, instead: $instead,
            },
        ),)*]
    };
}

/// The findings about a client, in the order of their declaration.
pub(super) fn findings(client: &Client) -> Vec<Finding> {
    let rules = match client.role {
        Role::Consumer => CONSUMER,
        Role::Producer => PRODUCER,
    };
    let applying = rules.iter().filter(|(applies, _)| applies(client));
    applying.map(|(_, finding)| *finding).collect()
}

static CONSUMER: &[Rule] = rules! { client;
    // The client does not start.
    Error "mode" if client.option("mode").is_some_and(|mode| !is_up_to(mode, 2)) =>
        "must be 0 (flow), 1 (poll) or 2 (recursive)",
        "2";
    Error "batchSize" if client.options.is_some() && client.mode() != Mode::Flow
        && client.option("batchSize").and_then(Value::as_u64).unwrap_or(0) == 0 =>
        "must be a number from 1; it has no default if other options are given, and the consumer \
         throws at its start",
        "1, or more with a short consumeTimeout";
    Error "consumeTimeout" if is_no_number(client, "consumeTimeout") =>
        "is not a number of milliseconds",
        "10";
    Error "recursiveTimeout" if is_no_number(client, "recursiveTimeout") =>
        "is not a number of milliseconds",
        "1";
    Error "group.id" if client.property("group.id").is_none() =>
        "is missing: the client library refuses to subscribe",
        "a name that no other service uses";
    Error "offset_commit_cb" if client.property("offset_commit_cb") == Some("false") =>
        "the value false makes node-rdkafka throw: the consumer never starts, and its probes stay \
         green",
        "leave it out, or true";
    // Messages are lost.
    Warning "enable.auto.commit" if client.is_true("enable.auto.commit", true) =>
        "positions are committed as soon as messages are fetched: a failed handler or a crash \
         loses them",
        "false, and a commit after the handler; commitStrategy async keeps it fast";
    Warning "sync" if !client.is_set("sync") && client.mode() != Mode::Recursive
        && client.options.is_some() =>
        "handlers are not awaited: they overlap without bound and in any order",
        "true";
    Warning "auto.offset.reset" if resets_to_end(client) =>
        "a group without a committed position skips all messages that are there already",
        "earliest";
    Warning "syncSingleMessage" if client.is_set("syncSingleMessage")
        && 1 < client.batch() && 1 < client.option_number("syncConcurrency", 1) =>
        "the next fetch follows the last message of a batch, not the slowest: messages overlap, \
         and a commit covers earlier ones that still work",
        "batchSize 1, or order and commits by key";
    // The client stalls or is unstable.
    Warning "mode" if client.mode() == Mode::Flow && client.is_set("sync")
        && client.option("mode").is_none_or(|mode| is_up_to(mode, 2)) =>
        "flow with sync (flow is the default if options lack a mode) queues messages without \
         bound: a slow handler fills the memory",
        "2 (recursive), or a consumer that stops fetching while its handler works";
    Warning "mode" if client.mode() == Mode::Poll =>
        "each tick fetches although the last batch is not done: batches overlap, and with sync \
         their queue has no bound",
        "2 (recursive)";
    Warning "session.timeout.ms" if client.number_of("session.timeout.ms", 45_000)
        < SESSION_MS_MIN =>
        "shorter than brokers accept by default (6000), and than many a pause: each one moves the \
         partitions of the group",
        "45000";
    Warning "heartbeat.interval.ms" if client.property("heartbeat.interval.ms").is_some()
        && client.number_of("session.timeout.ms", 45_000)
        < 3 * client.number_of("heartbeat.interval.ms", 3_000) =>
        "more than a third of session.timeout.ms: one lost heartbeat moves the partitions",
        "a third of session.timeout.ms at most";
    Warning "max.poll.interval.ms" if client.number_of("max.poll.interval.ms", 300_000)
        < POLL_INTERVAL_MS_MIN =>
        "a handler that works longer is removed from the group, its work is repeated elsewhere",
        "300000; at least twice the longest run of a handler";
    Warning "statistics.interval.ms" if client.number_of("statistics.interval.ms", 0) == 0 =>
        "0 or missing: health counts brokers in the statistics, so it stays green when Kafka is \
         gone",
        "5000";
    Warning "allow.auto.create.topics" if client.is_true("allow.auto.create.topics", false) =>
        "a misspelt name makes a dead topic, and every new topic has the broker's default number \
         of partitions, often 1, for ever",
        "false, and topics created with their partitions";
    // Messages are late.
    Warning "recursiveTimeout" if client.mode() == Mode::Recursive
        && IDLE_MS_MAX < client.option_number("recursiveTimeout", 100) =>
        "a message that finds the consumer idle waits this long (100 by default)",
        "1";
    Warning "consumeTimeout" if client.mode() == Mode::Recursive && 1 < client.batch()
        && FILL_MS_MAX < client.option_number("consumeTimeout", 1_000) =>
        "a lone message waits this long for a full batch (1000 by default)",
        "10";
    Warning "syncConcurrency" if client.mode() == Mode::Recursive
        && !client.is_set("syncSingleMessage")
        && 1 < client.option_number("syncConcurrency", 1) =>
        "has no effect in recursive mode: a whole batch is one task",
        "1; more partitions or consumers for more work at a time";
    Warning "commitStrategy" if !client.is_true("enable.auto.commit", true)
        && client.option("commitStrategy").and_then(Value::as_str) != Some("async") =>
        "each message waits for its commit (sync is the default): about half of the rate, and the \
         event loop stops for each",
        "async, if messages that are delivered twice do no harm";
    Warning "fetch.min.bytes" if 1 < client.number_of("fetch.min.bytes", 1)
        && FILL_MS_MAX < client.number_of("fetch.wait.max.ms", 500) =>
        "brokers hold a fetch back for up to fetch.wait.max.ms (500 by default)",
        "1";
};

static PRODUCER: &[Rule] = rules! { client;
    Error "pollIntervalMs" if is_no_number(client, "pollIntervalMs") =>
        "must be an integer: the producer throws at its start",
        "50";
    Warning "request.required.acks" if ["0", "1"].contains(&acknowledgements(client)) =>
        "a message is acknowledged before its replicas have it: it is lost with its broker",
        "all, with min.insync.replicas 2 on the topic";
    Warning "enable.idempotence" if !client.is_true("enable.idempotence", false)
        && 1 < client.number_of("max.in.flight", 1_000_000)
        && 0 < client.number_of("message.send.max.retries", 2) =>
        "a retry can repeat a message and change the order",
        "true";
    Warning "sync" if !client.is_set("sync") =>
        "a send resolves when its message is queued: one that is lost later is not reported",
        "true, or delivery reports that the service reads";
    Warning "queue.buffering.max.ms" if LINGER_MS_MAX
        < client.number_of("queue.buffering.max.ms", client.number_of("linger.ms", 5)) =>
        "each message waits this long for others",
        "5 to 20 at high rates, 0 otherwise";
    Warning "queue.buffering.max.messages" if client.number_of("queue.buffering.max.messages",
        100_000) < 10_000 && !client.is_set("sync") =>
        "a burst beyond it is refused with `Local: Queue full`",
        "100000, and a bound on what the service sends at a time";
    Warning "allow.auto.create.topics" if client.is_true("allow.auto.create.topics", false) =>
        "a misspelt name makes a dead topic",
        "false";
};

fn is_up_to(value: &Value, largest: u64) -> bool {
    value.as_u64().is_some_and(|number| number <= largest)
}

fn is_no_number(client: &Client, option: &str) -> bool {
    client.option(option).is_some_and(|value| value.as_u64().is_none())
}

fn resets_to_end(client: &Client) -> bool {
    let reset = client.property("auto.offset.reset").unwrap_or("largest");
    !["earliest", "smallest", "beginning", "error"].contains(&reset)
}

fn acknowledgements(client: &Client) -> &str {
    client.property("request.required.acks").or(client.property("acks")).unwrap_or("-1")
}
