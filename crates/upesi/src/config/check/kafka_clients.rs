//! `check-config --kafka`: the settings of consumers and producers of central-services-stream, as
//! the services of the reference read them. Names each setting that loses messages, stops a client
//! silently or adds latency, and computes the longest time that a message waits in the client.
//!
//! A file may hold one client, or the whole configuration of a service: every object with
//! `rdkafkaConf` counts as a client.

mod client;
mod latency;
mod rules;

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use self::client::{Client, Role};
use self::latency::{Wait, waits};
use self::rules::{Finding, Level, findings};
use crate::CliError;
use crate::cli::units::counted;

/// Longest file, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The result for one client.
#[derive(Serialize)]
struct Report {
    client: String,
    role: Role,
    findings: Vec<Finding>,
    /// Times that a message may wait in the client, apart from broker and handler.
    waits: Vec<Wait>,
    longest_wait_ms: u64,
}

/// Checks a file; fails if a client could not work with its settings.
pub(super) fn check(file: &Path, json: bool) -> Result<(), CliError> {
    let failed = |problem: String| CliError::new(format!("{}: {problem}", file.display()));
    let bytes = fs::metadata(file).map_err(|error| failed(format!("cannot be read: {error}")))?;
    if FILE_BYTES_MAX < bytes.len() {
        return Err(failed(format!("is longer than {FILE_BYTES_MAX} bytes")));
    }
    let text = fs::read_to_string(file);
    let text = text.map_err(|error| failed(format!("cannot be read: {error}")))?;
    let document = serde_json::from_str(&text);
    let document: Value = document.map_err(|error| failed(format!("is not JSON: {error}")))?;
    let mut clients = Vec::new();
    collect("", &document, &mut clients);
    if clients.is_empty() {
        return Err(failed(
            "no client found: an object with the member `rdkafkaConf` was expected, and \
             `options` and `topicConf` next to it"
                .to_owned(),
        ));
    }
    let reports: Vec<_> = clients.iter().map(Report::of).collect();
    match json {
        true => println!("{}", serde_json::to_string_pretty(&reports).expect("plain data")),
        false => reports.iter().for_each(print),
    }
    let errors = reports.iter().flat_map(|report| &report.findings);
    match errors.filter(|finding| finding.level == Level::Error).count() {
        0 => Ok(()),
        errors => {
            let settings = counted(errors as u64, "setting");
            Err(failed(format!("{settings} with which a client cannot work")))
        }
    }
}

impl Report {
    fn of(client: &Client) -> Self {
        let (findings, waits) = (findings(client), waits(client));
        let longest_wait_ms = waits.iter().map(|wait| wait.milliseconds).sum();
        Self { client: client.name.clone(), role: client.role, findings, waits, longest_wait_ms }
    }
}

fn print(report: &Report) {
    let Report { client, role, findings, waits, longest_wait_ms } = report;
    let role = if *role == Role::Consumer { "consumer" } else { "producer" };
    println!("{client} ({role})\n");
    for Finding { level, setting, danger, instead } in findings {
        println!("   {} {setting}: {danger}\n       instead: {instead}", level.name());
    }
    if findings.is_empty() {
        println!("   nothing found");
    }
    println!("\n   a message waits in the client at most {longest_wait_ms} ms");
    for Wait { milliseconds, setting, when } in waits {
        println!("   {milliseconds:>9} ms  {setting}, {when}");
    }
    println!();
}

/// Adds the clients of a document, depth first. `path` is the name of `value`.
fn collect(path: &str, value: &Value, clients: &mut Vec<Client>) {
    let members = match value {
        Value::Object(members) => members,
        Value::Array(items) => {
            let named = items.iter().enumerate();
            return named.for_each(|(at, item)| collect(&format!("{path}[{at}]"), item, clients));
        }
        _ => return,
    };
    if let Some(Value::Object(properties)) = members.get("rdkafkaConf") {
        clients.push(Client::new(path, members, properties));
        return;
    }
    for (name, member) in members {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        collect(&path, member, clients);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn clients(document: &Value) -> Vec<Client> {
        let mut clients = Vec::new();
        collect("", document, &mut clients);
        clients
    }

    /// The settings of a consumer without a finding.
    fn sound() -> Value {
        json!({
            "options": {
                "mode": 2, "batchSize": 1, "recursiveTimeout": 1, "consumeTimeout": 10,
                "sync": true, "syncConcurrency": 1, "commitStrategy": "async",
            },
            "rdkafkaConf": {
                "groupId": "reports", "metadata.broker.list": "localhost:9092",
                "enable.auto.commit": false, "allow.auto.create.topics": false,
                "statistics.interval.ms": 5000,
            },
            "topicConf": {"auto.offset.reset": "earliest"},
        })
    }

    fn found(document: &Value) -> Vec<(Level, &'static str)> {
        let findings = findings(&clients(document)[0]);
        findings.iter().map(|finding| (finding.level, finding.setting)).collect()
    }

    #[test]
    fn clients_are_found_at_any_depth_and_named() {
        let service = json!({
            "PORT": 3000,
            "KAFKA": {
                "CONSUMER": {"TRANSFER": {"PREPARE": {"config": sound()}}},
                "PRODUCER": {"EVENT": {"config": {"rdkafkaConf": {"request.required.acks": 1}}}},
            },
            "others": [sound()],
        });
        let names: Vec<_> = clients(&service).into_iter().map(|it| (it.name, it.role)).collect();
        assert_eq!(
            names,
            [
                ("KAFKA.CONSUMER.TRANSFER.PREPARE".to_owned(), Role::Consumer),
                ("KAFKA.PRODUCER.EVENT".to_owned(), Role::Producer),
                ("others[0]".to_owned(), Role::Consumer),
            ]
        );
        let alone = clients(&sound());
        assert_eq!(alone[0].property("group.id"), Some("reports"));
        assert_eq!(alone[0].name, "the client");
    }

    #[test]
    fn sound_settings_have_no_finding_and_a_short_wait() {
        assert_eq!(found(&sound()), []);
        let report = Report::of(&clients(&sound())[0]);
        assert_eq!(report.longest_wait_ms, 1);
    }

    /// Each row: part, setting, value, and the finding that this value alone causes.
    #[test]
    fn each_rule_finds_its_setting() {
        let rows = [
            ("options", "batchSize", json!(0), (Level::Error, "batchSize")),
            ("options", "consumeTimeout", json!("soon"), (Level::Error, "consumeTimeout")),
            ("options", "mode", json!(7), (Level::Error, "mode")),
            ("options", "recursiveTimeout", json!(100), (Level::Warning, "recursiveTimeout")),
            ("options", "syncConcurrency", json!(4), (Level::Warning, "syncConcurrency")),
            ("options", "commitStrategy", json!("sync"), (Level::Warning, "commitStrategy")),
            ("rdkafkaConf", "enable.auto.commit", json!(true), (Level::Warning, AUTO)),
            ("rdkafkaConf", "statistics.interval.ms", json!(0), (Level::Warning, STATISTICS)),
            ("rdkafkaConf", "session.timeout.ms", json!(3000), (Level::Warning, SESSION)),
            ("rdkafkaConf", "max.poll.interval.ms", json!(5000), (Level::Warning, POLL)),
            ("rdkafkaConf", "allow.auto.create.topics", json!(true), (Level::Warning, CREATE)),
            ("rdkafkaConf", "offset_commit_cb", json!(false), (Level::Error, COMMIT_CALLBACK)),
            ("topicConf", "auto.offset.reset", json!("latest"), (Level::Warning, RESET)),
            ("rdkafkaConf", "fetch.min.bytes", json!(100_000), (Level::Warning, FETCH)),
        ];
        for (part, setting, value, expected) in rows {
            let mut document = sound();
            document[part][setting] = value;
            assert_eq!(found(&document), [expected], "{setting}");
        }
    }

    const AUTO: &str = "enable.auto.commit";
    const STATISTICS: &str = "statistics.interval.ms";
    const SESSION: &str = "session.timeout.ms";
    const POLL: &str = "max.poll.interval.ms";
    const CREATE: &str = "allow.auto.create.topics";
    const COMMIT_CALLBACK: &str = "offset_commit_cb";
    const RESET: &str = "auto.offset.reset";
    const FETCH: &str = "fetch.min.bytes";

    #[test]
    fn part_filled_batches_wait_for_the_consume_timeout() {
        let mut document = sound();
        document["options"]["batchSize"] = json!(20);
        document["options"]["consumeTimeout"] = json!(1000);
        assert_eq!(found(&document), [(Level::Warning, "consumeTimeout")]);
        let report = Report::of(&clients(&document)[0]);
        assert_eq!(report.longest_wait_ms, 1_001);
    }

    #[test]
    fn options_that_are_given_in_part_have_no_defaults() {
        let mut document = sound();
        document["options"].as_object_mut().unwrap().remove("batchSize");
        assert_eq!(found(&document), [(Level::Error, "batchSize")]);
        document["options"] = json!({"sync": true});
        assert_eq!(
            found(&document),
            [(Level::Warning, "mode"), (Level::Warning, "commitStrategy")],
            "flow, with an unbounded queue"
        );
        document.as_object_mut().unwrap().remove("options");
        let with_defaults = Report::of(&clients(&document)[0]);
        assert_eq!(with_defaults.longest_wait_ms, 100, "recursiveTimeout");
    }

    #[test]
    fn producers_have_rules_of_their_own() {
        let producer = |options: Value, properties: Value| json!({"options": options, "rdkafkaConf": properties});
        let durable = json!({"request.required.acks": "all", "enable.idempotence": true});
        let sound = producer(json!({"sync": true}), durable);
        assert_eq!(found(&sound), []);
        let risky = producer(json!({}), json!({"acks": 1, "queue.buffering.max.ms": 20}));
        assert_eq!(
            found(&risky),
            [
                (Level::Warning, "request.required.acks"),
                (Level::Warning, "enable.idempotence"),
                (Level::Warning, "sync"),
            ]
        );
        assert_eq!(Report::of(&clients(&risky)[0]).longest_wait_ms, 20);
    }
}
