//! The same scenarios with central-services-stream, the library of the reference, in Node.js.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stream::{Commit, Mode};
use upesi::CliError;

use super::play::Side;
use super::samples;
use super::scenarios::{ConsumerPart, Handling, Payload, Scenario};

/// Version of central-services-stream.
pub(crate) const VERSION: &str = "11.9.3";
const PACKAGES: &str = include_str!("reference/package.json");
const PROGRAM: &str = include_str!("reference/play.cjs");

/// The measured figures of a scenario.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct ReferencePlayed {
    pub(crate) producer: Side,
    pub(crate) consumer: Side,
    /// Messages that were handled more than once.
    pub(crate) repeated: u64,
    /// Sends that were refused because the library's queue was full.
    pub(crate) refused: u64,
}

/// The installed packages.
pub(crate) struct Reference {
    directory: PathBuf,
}

impl Reference {
    /// Installs the packages into the user's cache directory, if they are not there.
    pub(crate) fn install() -> Result<Self, CliError> {
        let name = format!("central-services-stream-{VERSION}");
        let directory = kafka_testkit::default_cache().with_file_name(name);
        let failed =
            |error: std::io::Error| CliError::new(format!("{}: {error}", directory.display()));
        fs::create_dir_all(&directory).map_err(failed)?;
        let installed = directory.join("installed");
        if fs::read_to_string(&installed).ok().as_deref() != Some(PACKAGES) {
            eprintln!(
                "installs central-services-stream {VERSION} into {}; its client library is \
                 compiled, which takes some minutes",
                directory.display()
            );
            fs::write(directory.join("package.json"), PACKAGES).map_err(failed)?;
            npm_install(&directory)?;
            fs::write(installed, PACKAGES).map_err(failed)?;
        }
        fs::write(directory.join("play.cjs"), PROGRAM).map_err(failed)?;
        Ok(Self { directory })
    }

    /// Plays a scenario on a topic that is there. `None` if the library has no equivalent.
    pub(crate) fn play(
        &self,
        scenario: &Scenario,
        (brokers, topic): (&str, &str),
        time: Duration,
    ) -> Result<Option<ReferencePlayed>, CliError> {
        if scenario.consumer.handling != Handling::Read {
            return Ok(None);
        }
        let mut settings = settings(scenario);
        settings["brokers"] = brokers.into();
        settings["topic"] = topic.into();
        settings["seconds"] = time.as_secs_f64().into();
        let result = self.directory.join(format!("{topic}.json"));
        let mut node = Command::new("node");
        node.arg("play.cjs").arg(settings.to_string()).arg(&result);
        node.current_dir(&self.directory).env("LOG_LEVEL", "error").stdin(Stdio::null());
        let output = node.output().map_err(|error| missing("node", &error))?;
        let text = fs::read_to_string(&result).unwrap_or_default();
        let _removed = fs::remove_file(&result);
        serde_json::from_str(&text).map(Some).map_err(|_| {
            let errors = String::from_utf8_lossy(&output.stderr);
            CliError::new(format!("{} with the reference: {}", scenario.name, errors.trim()))
        })
    }
}

fn npm_install(directory: &Path) -> Result<(), CliError> {
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--silent"]).current_dir(directory);
    let output = npm.stdin(Stdio::null()).output().map_err(|error| missing("npm", &error))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(CliError::new(format!("npm install in {}: {}", directory.display(), errors.trim())))
}

fn missing(program: &str, error: &std::io::Error) -> CliError {
    CliError::new(format!(
        "{program} does not start: {error}; --against reference needs Node.js 20 or later with \
         npm, and a C++ compiler the first time"
    ))
}

/// The scenario in the options of the library, as its own benchmark sets them.
fn settings(scenario: &Scenario) -> Value {
    let (producer, consumer) = (scenario.producer, scenario.consumer);
    let [first, second] = match producer.payload {
        Payload::Samples | Payload::Protobuf => samples::published(),
        Payload::Bytes(bytes) => {
            // The library adds its own members, about 160 bytes.
            let note = "x".repeat(bytes.saturating_sub(220));
            [(); 2].map(|()| json!({"from": "a", "to": "b", "type": "text", "content": note}))
        }
    };
    let is_single = consumer.singles.is_some();
    let timer = |otherwise: u64| if is_single { 10 } else { otherwise };
    json!({
        "samples": [first, second],
        "protobuf": producer.payload == Payload::Protobuf,
        "depth": producer.depth,
        "messages": producer.messages,
        "linger_ms": milliseconds(producer.linger),
        "poll_ms": milliseconds(producer.poll),
        "lz4": producer.lz4,
        "mode": mode(consumer),
        "batch": consumer.singles.unwrap_or(consumer.batch_max),
        "single": is_single,
        "recursive_ms": timer(100),
        "consume_ms": timer(1_000),
        "concurrency": consumer.concurrency,
        "sync": consumer.mode != Mode::Flow || consumer.commit == Commit::Sync,
        "commit": commit(consumer),
        "strategy": consumer.strategy,
    })
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn mode(consumer: ConsumerPart) -> u8 {
    match consumer.mode {
        Mode::Flow => 0,
        Mode::Poll { .. } => 1,
        Mode::Recursive => 2,
    }
}

fn commit(consumer: ConsumerPart) -> &'static str {
    match consumer.commit {
        Commit::Sync => "sync",
        Commit::Async => "async",
        Commit::Interval(_) => "auto",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::scenarios::SCENARIOS;

    #[test]
    fn options_are_those_of_the_published_benchmark() {
        let of = |name| settings(SCENARIOS.iter().find(|it| it.name == name).expect("it exists"));
        let first = of("s00-01");
        assert_eq!(first["recursive_ms"], 100);
        assert_eq!((&first["batch"], &first["sync"]), (&json!(1), &json!(true)));
        assert_eq!((&first["commit"], &first["depth"]), (&json!("sync"), &json!(1)));
        assert_eq!(of("s01")["commit"], "auto");
        assert_eq!(of("s03")["poll_ms"], 10);
        assert_eq!((&of("s06-02")["mode"], &of("s06-02")["sync"]), (&json!(0), &json!(false)));
        let by_ten = of("s07-03");
        assert_eq!((&by_ten["batch"], &by_ten["concurrency"]), (&json!(10), &json!(10)));
        assert_eq!((&by_ten["single"], &by_ten["consume_ms"]), (&json!(true), &json!(10)));
        assert_eq!((&of("s08")["batch"], &of("s08")["single"]), (&json!(10), &json!(false)));
        assert_eq!(of("s09")["protobuf"], true);
    }
}
