//! The named steps of `ci` and `nightly`: the only list of what is run.
//!
//! Every step runs even when an earlier one failed, so that one run shows all that is wrong.

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::{counts, coverage, tally, tidy};

/// One thing that must hold.
pub(crate) struct Step {
    name: &'static str,
    proves: &'static str,
    work: Work,
}

enum Work {
    /// A call of cargo in the root.
    Cargo { arguments: Vec<String>, environment: Vec<(&'static str, String)> },
    /// A script of the repository, run with bash; `{target}` stands for the build directory.
    Script { path: &'static str, environment: Vec<(&'static str, String)> },
    /// A function of this program.
    Inside(fn(&Path) -> bool),
}

struct Outcome {
    name: &'static str,
    proves: &'static str,
    passed: bool,
    took: Duration,
}

/// What a merge must pass. Conformance checks join here as they come.
pub(crate) fn ci() -> Vec<Step> {
    let mut steps = vec![
        cargo("fmt", "one format", "fmt --all -- --check"),
        Step { name: "tidy", proves: "the rules of the house", work: Work::Inside(tidy::run) },
        cargo(
            "clippy",
            "no warning in any target",
            "clippy --workspace --all-targets --locked -- -D warnings",
        ),
        cargo(
            "bare",
            "no warning in the program without Kafka either",
            "clippy --package upesi --no-default-features --locked -- -D warnings",
        ),
        with(
            cargo("docs", "every link in the API docs", "doc --workspace --no-deps --locked"),
            "RUSTDOCFLAGS",
            "-D warnings".to_owned(),
        ),
        cargo("test", "all tests", "test --workspace --locked --no-fail-fast"),
        cargo(
            "hand-overs",
            "threads hand over in any order of their steps",
            "test --locked --package journal --package node --package store --features \
             journal/shuttle,node/shuttle,store/shuttle --lib handovers",
        ),
        cargo(
            "brokers",
            "the log on real Kafka brokers, installed if need be: its contract, and kills",
            "test --locked --no-fail-fast --package brokers --package kafka --features \
             brokers/real-brokers,kafka/real-brokers",
        ),
        cargo(
            "nodes",
            "three nodes over real brokers, one of which is killed; a scheme moves there and back",
            "test --locked --package upesi --features real-brokers --test product -- \
             kafka::three_nodes kafka_moving",
        ),
    ];
    steps.extend(conversations(&[]));
    steps.push(Step {
        name: "walk-through",
        proves: "every command and answer in docs/conversation.md",
        work: Work::Script {
            path: "docs/conversation/run.sh",
            environment: vec![("UPESI", "{target}/debug/upesi".to_owned())],
        },
    });
    steps
}

/// Builds the switch and the runner of golden conversations, and plays them; the arguments are
/// the runner's.
pub(crate) fn conversations(arguments: &[String]) -> [Step; 2] {
    let build = cargo(
        "switch",
        "the switch and its player are built",
        "build --locked --package upesi --package conversations",
    );
    let mut play = cargo(
        "conversations",
        "what participants and operators see",
        "run --locked --package conversations --",
    );
    if let Work::Cargo { arguments: all, .. } = &mut play.work {
        all.extend_from_slice(arguments);
    }
    [build, play]
}

/// Proofs whose strength grows with time; each takes its share of the budget, and what each came to
/// is added to the runs before ([`crate::tally`]).
pub(crate) fn nightly(minutes: u32) -> Vec<Step> {
    let share = u64::from(minutes) * 60 / 5;
    let itself = "run --quiet --locked --package xtask --";
    let fuzz_minutes = f64::from(minutes) / 5.0 / FUZZ_TARGETS;
    let mut steps = vec![
        with(
            cargo(
                "properties",
                "models agree, many cases",
                "test --workspace --release --locked --no-fail-fast --lib --bins --test model",
            ),
            "PROPTEST_CASES",
            (u64::from(minutes) * PROPERTY_CASES_PER_MINUTE).to_string(),
        ),
        simulate(&["--seed".into(), fresh_seed(), "--seconds".into(), share.to_string()]),
        simulate(&[
            "--cluster".into(),
            "--seed".into(),
            fresh_seed(),
            "--seconds".into(),
            (share / 4).to_string(),
        ]),
        bugs(),
        with(
            cargo(
                "kill",
                "kill -9, and an end in each change of the disk: nothing acknowledged is lost",
                "test --release --locked --package upesi --test product -- kill disk_operations",
            ),
            "UPESI_PROOF_SECONDS",
            share.to_string(),
        ),
        years(),
        with(
            cargo(
                "orders",
                "every order of six messages with a crash between each two",
                "test --release --locked --package sequencer --test orders",
            ),
            "ORDERS_DEPTH",
            "6".to_owned(),
        ),
    ];
    steps.extend(counted());
    steps.push(cargo(
        "laboratory",
        "the switch and the program that measures it are built",
        "build --release --locked --package upesi --package upesi-bench",
    ));
    steps.extend(SWEEPS.map(sweep));
    steps.extend(surroundings(itself, share));
    steps.extend([
        cargo(
            "schemathesis",
            "no answer that the API documents do not know",
            &format!("{itself} schemathesis --seconds {share} --seed {}", fresh_seed()),
        ),
        cargo(
            "mutants",
            "tests notice small changes of the kernel, the stored forms and the log",
            &format!("{itself} mutants --minutes {}", share / 60),
        ),
        cargo(
            "fuzz",
            "no bytes that come in break what must hold",
            &format!("run --locked --package xtask -- fuzz --cpu-minutes {fuzz_minutes:.2}"),
        ),
    ]);
    steps
}

/// What is counted rather than tried.
fn counted() -> [Step; 2] {
    [
        Step {
            name: "counts",
            proves: "no operation of the core takes more instructions than before",
            work: Work::Inside(|root| counts::run(root, true)),
        },
        Step {
            name: "coverage",
            proves: "tests and simulator run every line of the kernel",
            work: Work::Inside(coverage::run),
        },
    ]
}

/// What needs others: brokers, a server of objects, readers of documents and of charts.
fn surroundings(itself: &str, share: u64) -> [Step; 6] {
    [
        cargo(
            "scheme on brokers",
            "nodes over real brokers lose nothing when nodes, brokers and disks are lost or stop",
            "test --locked --package upesi --features real-brokers --test product -- kafka \
             --skip kafka_matrix",
        ),
        cargo(
            "brokers with TLS",
            "a node with certificates and a password; what is wrong with them is named",
            "test --locked --package upesi --features real-brokers,kafka-tls --test product -- \
             kafka_security",
        ),
        with(
            cargo(
                "faults",
                "every 2xx is in the log of each node, whatever is killed, stopped or cut off",
                "test --release --locked --package upesi --package upesi-bench --features \
                 upesi/real-brokers --test product --test program -- kafka_matrix",
            ),
            "UPESI_PROOF_SECONDS",
            share.to_string(),
        ),
        cargo(
            "object stores",
            "archives and copies in buckets of a real server that speaks S3, installed if need be",
            "test --locked --no-fail-fast --package places --package upesi --features \
             places/real-object-stores,upesi/real-object-stores --test real_server --test \
             directory --test product -- contract bucket cut away",
        ),
        cargo(
            "deployment",
            "what is deployed is what its readers take",
            &format!("{itself} deployment"),
        ),
        cargo(
            "published",
            "every difference from the published documents is listed",
            &format!("{itself} published"),
        ),
    ]
}

/// The published tables that `upesi-bench sweep` makes again.
const SWEEPS: [&str; 7] = ["coil", "batching", "million", "disk", "expiry", "growth", "hour"];

/// One of them, small.
fn sweep(name: &'static str) -> Step {
    let run = format!("run --release --locked --package upesi-bench -- sweep {name} --quick");
    cargo(name, "the runs of the field's table are valid", &run)
}

/// What ended long ago, at full size.
fn years() -> Step {
    let step = cargo(
        "years",
        "a million old transfers are answered as on the first day, and restored",
        "test --release --locked --package upesi --package upesi-bench --test product --test \
         program -- years --test-threads 1",
    );
    let step = with(step, "UPESI_PROOF_TRANSFERS", "1000000".to_owned());
    with(step, "UPESI_PROOF_IDS", "10000".to_owned())
}

/// The deterministic simulator, with its own arguments.
pub(crate) fn simulate(arguments: &[String]) -> Step {
    let run = "run --release --locked --package simulation --";
    let of_nodes = arguments.iter().any(|argument| argument == "--cluster");
    let name = if of_nodes { "model nodes" } else { "simulation" };
    let mut step = cargo(name, "invariants under faults, in virtual time", run);
    if let Work::Cargo { arguments: all, .. } = &mut step.work {
        all.extend_from_slice(arguments);
    }
    step
}

/// Each deliberate bug is planted and must be caught.
pub(crate) fn bugs() -> Step {
    cargo(
        "bugs",
        "the simulator catches every deliberate bug",
        "run --release --locked --package simulation --features planted-bugs -- --bugs",
    )
}

/// A seed unlike that of other nights: the time of day.
fn fresh_seed() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap_or_default().as_secs().to_string()
}

/// Fuzz targets, about: they share the time of their step.
const FUZZ_TARGETS: f64 = 24.0;

/// Cases of each property test per minute of the budget. Two cores make 100,000 cases a minute of
/// the heaviest one (the histories of `delivery`), and there are about ten of them.
const PROPERTY_CASES_PER_MINUTE: u64 = 10_000;

/// Runs the steps in order, prints a table, and says whether all passed.
pub(crate) fn run(root: &Path, steps: Vec<Step>) -> bool {
    let mut outcomes = Vec::new();
    for step in steps {
        println!("\n== {}: {}", step.name, step.proves);
        let start = Instant::now();
        let passed = perform(root, &step.work);
        outcomes.push(Outcome {
            name: step.name,
            proves: step.proves,
            passed,
            took: start.elapsed(),
        });
    }
    print!("\n{}", table(&outcomes));
    outcomes.iter().all(|outcome| outcome.passed)
}

fn cargo(name: &'static str, proves: &'static str, arguments: &str) -> Step {
    let arguments = arguments.split(' ').map(str::to_owned).collect();
    Step { name, proves, work: Work::Cargo { arguments, environment: Vec::new() } }
}

fn with(mut step: Step, variable: &'static str, value: String) -> Step {
    if let Work::Cargo { environment, .. } = &mut step.work {
        environment.push((variable, value));
    }
    step
}

fn perform(root: &Path, work: &Work) -> bool {
    match work {
        Work::Inside(check) => check(root),
        Work::Cargo { arguments, environment } => {
            let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            say("cargo", arguments, environment);
            start(root, Command::new(program).args(arguments), environment)
        }
        Work::Script { path, environment } => {
            let target = env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
            let target = root.join(target).display().to_string();
            let fill = |(name, value): &(&'static str, String)| {
                (*name, value.replace("{target}", &target))
            };
            let environment: Vec<_> = environment.iter().map(fill).collect();
            say("bash", &[(*path).to_owned()], &environment);
            start(root, Command::new("bash").arg(path), &environment)
        }
    }
}

fn say(program: &str, arguments: &[String], environment: &[(&'static str, String)]) {
    let said = environment.iter().map(|(name, value)| format!("{name}={value:?} "));
    println!("   {}{program} {}", said.collect::<String>(), arguments.join(" "));
}

fn start(root: &Path, command: &mut Command, environment: &[(&'static str, String)]) -> bool {
    let variables = environment.iter().map(|(name, value)| (name, value));
    command.env(tally::VARIABLE, tally::path(root));
    match command.envs(variables).current_dir(root).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("{:?} did not start: {error}", command.get_program());
            false
        }
    }
}

fn table(outcomes: &[Outcome]) -> String {
    let total: Duration = outcomes.iter().map(|outcome| outcome.took).sum();
    let mut text = format!("{:<13} {:<8} {:>8}  {}\n", "step", "result", "seconds", "proves");
    for Outcome { name, proves, passed, took } in outcomes {
        let result = if *passed { "passed" } else { "FAILED" };
        text += &format!("{name:<13} {result:<8} {:>8}  {proves}\n", seconds(*took));
    }
    let result = if outcomes.iter().all(|outcome| outcome.passed) { "passed" } else { "FAILED" };
    text + &format!("{:<13} {result:<8} {:>8}\n", "all", seconds(total))
}

fn seconds(took: Duration) -> String {
    format!("{}.{}", took.as_secs(), took.subsec_millis() / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_each_step_and_the_whole() {
        let outcome = |name, passed, millis| Outcome {
            name,
            proves: "a thing",
            passed,
            took: Duration::from_millis(millis),
        };
        let text = table(&[outcome("one", true, 1_250), outcome("two", false, 12_000)]);
        let expected = "step          result    seconds  proves\n\
                        one           passed        1.2  a thing\n\
                        two           FAILED       12.0  a thing\n\
                        all           FAILED       13.2\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn every_step_has_its_own_name() {
        for steps in [ci(), nightly(1)] {
            let mut names: Vec<_> = steps.iter().map(|step| step.name).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{names:?}");
        }
    }

    #[test]
    fn a_failed_step_does_not_stop_the_next() {
        let inside = |name, work| Step { name, proves: "", work: Work::Inside(work) };
        let steps = vec![inside("bad", |_| false), inside("good", |_| true)];
        assert!(!run(Path::new("."), steps));
        assert!(run(Path::new("."), vec![inside("good", |_| true)]));
    }
}
