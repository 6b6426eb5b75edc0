//! The named steps of `ci` and `nightly`: the only list of what is run.
//!
//! Every step runs even when an earlier one failed, so that one run shows all failures.

use std::collections::VecDeque;
use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use toml::{Table, Value};

use crate::{advisories, console, counts, coverage, package, proof_totals, tidy, tools};

/// The steps of both commands, as data.
const STEPS: &str = include_str!("../steps.toml");
/// Fuzz targets, about: they share the time of their step.
const FUZZ_TARGETS: f64 = 24.0;
/// Cases of each property test per minute of the budget. Two cores make 100,000 cases a minute of
/// the heaviest one (the histories of `delivery`), and there are about ten of them.
const PROPERTY_CASES_PER_MINUTE: u64 = 10_000;

/// One thing that must hold.
pub(crate) struct CiStep {
    name: String,
    proves: String,
    work: Work,
    environment: Vec<(String, String)>,
}

enum Work {
    /// A call of cargo in the root.
    Cargo(Vec<String>),
    /// A script of the repository, run with bash.
    Script(String),
    /// A program of the build directory, and its arguments.
    Program(String, Vec<String>),
    /// A function of this program.
    Inside(Check),
}

/// A function of this program that is a step.
type Check = fn(&Path) -> StepResult;

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StepResult {
    Passed,
    Failed,
    /// The step needs something that this machine lacks, and a merge may pass without it: the
    /// reason and the remedy.
    NotChecked(String),
}

impl From<bool> for StepResult {
    fn from(passed: bool) -> Self {
        if passed { Self::Passed } else { Self::Failed }
    }
}

struct Outcome {
    name: String,
    proves: String,
    result: StepResult,
    took: Duration,
    /// The end of its output, if it failed and another program wrote it.
    ending: Vec<String>,
}

/// The last lines of a program's output.
#[derive(Clone, Default)]
struct LastLines(Arc<Mutex<VecDeque<String>>>);

/// Values of placeholders.
type Values = [(&'static str, String)];

/// Lines of a failed step that are shown again at the end, where they are found at once.
const ENDING_LINES: usize = 60;
/// Time after the end of a program within which its output must end too.
const OUTPUT_END: Duration = Duration::from_secs(5);

/// The features of tests with real counterparts. Steps with the same features share one build.
const REAL: &str = "--features kafka_testkit/real-brokers,kafka/real-brokers,stream/real-brokers,\
                    upesi/real-brokers,upesi/real-receivers,upesi/real-prometheus,\
                    upesi/real-collector";

/// The checks that a merge must pass.
pub(crate) fn ci() -> Vec<CiStep> {
    read("ci", &[("{real}", REAL.to_owned())])
}

/// Proofs whose strength grows with time; each takes its share of the budget, and its result is
/// added to the runs before ([`crate::proof_totals`]).
pub(crate) fn nightly(minutes: u32) -> Vec<CiStep> {
    let share = u64::from(minutes) * 60 / 5;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let values = [
        ("{share}", share.to_string()),
        ("{quarter}", (share / 4).to_string()),
        ("{minutes}", (share / 60).to_string()),
        ("{seed}", now.as_secs().to_string()),
        ("{cases}", (u64::from(minutes) * PROPERTY_CASES_PER_MINUTE).to_string()),
        ("{fuzz}", format!("{:.2}", f64::from(minutes) / 5.0 / FUZZ_TARGETS)),
    ];
    read("nightly", &values)
}

/// Builds the switch and the runner of golden conversations, and plays them; the arguments are
/// the runner's.
pub(crate) fn conversations(arguments: &[String]) -> Vec<CiStep> {
    let mut steps = ci();
    steps.retain(|step| ["switch", "conversations"].contains(&step.name.as_str()));
    if let Some(CiStep { work: Work::Program(_, all), .. }) = steps.last_mut() {
        all.extend_from_slice(arguments);
    }
    steps
}

/// The deterministic simulator, with its own arguments.
pub(crate) fn simulate(arguments: &[String]) -> Vec<CiStep> {
    let mut steps = nightly(0);
    steps.retain(|step| step.name == "simulation");
    for step in &mut steps {
        let Work::Cargo(all) = &mut step.work else { continue };
        all.truncate(1 + all.iter().position(|one| one == "--").unwrap_or(all.len()));
        all.extend_from_slice(arguments);
    }
    steps
}

/// Each deliberate bug is planted and must be caught.
pub(crate) fn bugs() -> Vec<CiStep> {
    let mut steps = nightly(0);
    steps.retain(|step| step.name == "bugs");
    steps
}

/// The steps of a list.
fn read(list: &str, values: &Values) -> Vec<CiStep> {
    let all: Table = STEPS.parse().expect("steps.toml is TOML");
    let entries = all[list].as_array().into_iter().flatten().filter_map(Value::as_table);
    let steps = entries.flat_map(|entry| match entry.get("each").and_then(Value::as_array) {
        None => vec![step(entry, values)],
        Some(each) => {
            let name = |one: &Value| ("{each}", one.as_str().unwrap_or_default().to_owned());
            each.iter().map(|one| step(entry, &[values, &[name(one)]].concat())).collect()
        }
    });
    steps.collect()
}

fn step(entry: &Table, values: &Values) -> CiStep {
    let fill = |text: &Value| {
        let text = text.as_str().expect("a text").to_owned();
        values.iter().fold(text, |text, (name, value)| text.replace(name, value))
    };
    let words = |text: String| text.split_whitespace().map(str::to_owned).collect();
    let kinds = ["cargo", "script", "program", "inside"];
    let kind = kinds.into_iter().find_map(|kind| Some((kind, fill(entry.get(kind)?))));
    let work = match kind {
        Some(("cargo", arguments)) => Work::Cargo(words(arguments)),
        Some(("script", path)) => Work::Script(path),
        Some(("program", name)) => Work::Program(name, Vec::new()),
        Some((_, name)) => Work::Inside(inside(&name)),
        None => panic!("a step has one of {kinds:?}: {entry}"),
    };
    let environment = entry.get("environment").and_then(Value::as_table).into_iter().flatten();
    let environment = environment.map(|(name, value)| (name.clone(), fill(value))).collect();
    let text = |name: &str| fill(entry.get(name).expect("a step has a name, and what it proves"));
    CiStep { name: text("name"), proves: text("proves"), work, environment }
}

fn inside(name: &str) -> Check {
    match name {
        "tidy" => |root| tidy::run(root).into(),
        "advisories" => |root| advisories::check(root, advisories::is_required()),
        "counts" => |root| counts::run(root, true).into(),
        "console" => |root| console::check(root).into(),
        "coverage" => |root| coverage::run(root).into(),
        "package" => |root| package::prove(root).into(),
        other => panic!("no step is called {other:?}"),
    }
}

/// Runs the steps in order and prints a table. Returns whether all passed.
pub(crate) fn run(root: &Path, steps: Vec<CiStep>) -> bool {
    let mut outcomes = Vec::new();
    for step in steps {
        println!("\n== {}: {}", step.name, step.proves);
        let start = Instant::now();
        let lines = LastLines::default();
        let result = perform(root, &step, &lines);
        let took = start.elapsed();
        let ending = if result == StepResult::Failed { lines.to_vec() } else { Vec::new() };
        outcomes.push(Outcome { name: step.name, proves: step.proves, result, took, ending });
    }
    print!("\n{}{}", endings(&outcomes), table(&outcomes));
    has_passed(&outcomes)
}

fn has_passed(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|outcome| outcome.result != StepResult::Failed)
}

fn perform(
    root: &Path,
    CiStep { work, environment, .. }: &CiStep,
    lines: &LastLines,
) -> StepResult {
    let target = tools::target(root).display().to_string();
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let (program, arguments) = match work {
        Work::Inside(check) => return check(root),
        Work::Cargo(arguments) => (cargo, arguments.clone()),
        Work::Script(path) => ("bash".into(), vec![path.clone()]),
        Work::Program(name, arguments) => (format!("{target}/{name}").into(), arguments.clone()),
    };
    let fill =
        |(name, value): &(String, String)| (name.clone(), value.replace("{target}", &target));
    let environment: Vec<_> = environment.iter().map(fill).collect();
    let shown = environment.iter().map(|(name, value)| format!("{name}={value:?} "));
    let name = Path::new(&program).file_name().unwrap_or(&program).display();
    println!("   {}{name} {}", shown.collect::<String>(), arguments.join(" "));
    let mut command = Command::new(&program);
    command.args(arguments).env(proof_totals::VARIABLE, proof_totals::path(root));
    command.envs(environment).current_dir(root);
    match status(&mut command, lines) {
        Ok(succeeded) => succeeded.into(),
        Err(error) => {
            eprintln!("{} did not start: {error}", program.display());
            StepResult::Failed
        }
    }
}

/// Runs a program, shows its output and keeps the end of it. Returns whether it succeeded.
fn status(command: &mut Command, lines: &LastLines) -> io::Result<bool> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (done, all) = mpsc::sync_channel(2);
    if let Some(output) = child.stdout.take() {
        lines.follow(output, io::stdout(), done.clone());
    }
    if let Some(errors) = child.stderr.take() {
        lines.follow(errors, io::stderr(), done);
    }
    let succeeded = child.wait()?.success();
    // A process that the program started and did not end may keep its output open.
    while all.recv_timeout(OUTPUT_END).is_ok() {}
    Ok(succeeded)
}

impl LastLines {
    /// Copies each line as soon as it is complete, on a thread, and reports the end.
    fn follow<R, W>(&self, input: R, mut output: W, done: SyncSender<()>)
    where
        R: Read + Send + 'static,
        W: Write + Send + 'static,
    {
        let lines = self.clone();
        thread::spawn(move || {
            for line in BufReader::new(input).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                // The program is not disturbed when the output of this one is closed.
                let _ = writeln!(output, "{line}").and_then(|()| output.flush());
                lines.push(line);
            }
            let _ = done.send(());
        });
    }

    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == ENDING_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn to_vec(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// The ends of the outputs of failed steps.
fn endings(outcomes: &[Outcome]) -> String {
    let shown = outcomes.iter().filter(|outcome| !outcome.ending.is_empty());
    let text = |Outcome { name, ending, .. }: &Outcome| {
        format!("== {name} failed; its last lines:\n{}\n\n", ending.join("\n"))
    };
    shown.map(text).collect()
}

fn table(outcomes: &[Outcome]) -> String {
    let total: Duration = outcomes.iter().map(|outcome| outcome.took).sum();
    let row = |name: &str, result: &str, took: &str, proves: &str| {
        format!("{name:<13} {result:<11} {took:>8}  {proves}").trim_end().to_owned() + "\n"
    };
    let mut text = row("step", "result", "seconds", "proves");
    let mut reasons = String::new();
    for Outcome { name, proves, result, took, .. } in outcomes {
        let result = match result {
            StepResult::Passed => "passed",
            StepResult::Failed => "FAILED",
            StepResult::NotChecked(reason) => {
                reasons += &format!("{name}: {reason}\n");
                "NOT CHECKED"
            }
        };
        text += &row(name, result, &seconds(*took), proves);
    }
    let result = if has_passed(outcomes) { "passed" } else { "FAILED" };
    text + &row("all", result, &seconds(total), "") + &reasons
}

fn seconds(took: Duration) -> String {
    format!("{}.{}", took.as_secs(), took.subsec_millis() / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, result: StepResult, millis: u64) -> Outcome {
        Outcome {
            name: name.to_owned(),
            proves: "a thing".to_owned(),
            result,
            took: Duration::from_millis(millis),
            ending: Vec::new(),
        }
    }

    #[test]
    fn the_table_shows_each_step_and_the_whole() {
        let outcomes =
            [outcome("one", StepResult::Passed, 1_250), outcome("two", StepResult::Failed, 12_000)];
        let expected = "step          result       seconds  proves\n\
                        one           passed           1.2  a thing\n\
                        two           FAILED          12.0  a thing\n\
                        all           FAILED          13.2\n";
        assert_eq!(table(&outcomes), expected);
        assert!(!has_passed(&outcomes));
    }

    #[test]
    fn the_table_shows_a_step_that_was_not_checked() {
        let left_out = StepResult::NotChecked("no network; connect it".to_owned());
        let outcomes =
            [outcome("one", left_out, 1_250), outcome("two", StepResult::Passed, 12_000)];
        let expected = "step          result       seconds  proves\n\
                        one           NOT CHECKED      1.2  a thing\n\
                        two           passed          12.0  a thing\n\
                        all           passed          13.2\n\
                        one: no network; connect it\n";
        assert_eq!(table(&outcomes), expected);
        assert!(has_passed(&outcomes));
    }

    #[test]
    fn the_end_of_a_failed_output_is_kept() {
        let mut command = Command::new("sh");
        // The two outputs arrive in any order.
        command.args(["-c", "seq 20; seq 100 >&2; echo broken >&2; exit 3"]);
        let lines = LastLines::default();
        assert!(!status(&mut command, &lines).expect("a shell starts"));
        let ending = lines.to_vec();
        assert_eq!(ending.len(), ENDING_LINES);
        assert!(ending.contains(&"100".to_owned()) && ending.contains(&"broken".to_owned()));
        let failed =
            Outcome { ending: vec!["a line".to_owned()], ..outcome("one", StepResult::Failed, 0) };
        assert_eq!(endings(&[failed]), "== one failed; its last lines:\na line\n\n");
    }

    #[test]
    fn every_step_has_its_own_name() {
        for steps in [ci(), nightly(1)] {
            let mut names: Vec<_> = steps.iter().map(|step| step.name.as_str()).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{names:?}");
        }
    }

    #[test]
    fn a_failed_step_does_not_stop_the_next() {
        let inside = |name: &str, work: Check| CiStep {
            name: name.to_owned(),
            proves: String::new(),
            work: Work::Inside(work),
            environment: Vec::new(),
        };
        let steps = vec![inside("bad", |_| false.into()), inside("good", |_| true.into())];
        assert!(!run(Path::new("."), steps));
        assert!(run(Path::new("."), vec![inside("good", |_| true.into())]));
    }
}
