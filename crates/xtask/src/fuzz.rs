//! `cargo xtask fuzz`: the targets of crates/fuzzing under libFuzzer, each for its share
//! of CPU time, with a table at the end (docs/internals/fuzzing.md).
//!
//! A target runs in slices, because libFuzzer counts wall-clock time and a busy machine gives less
//! CPU time; bash's `time` reports the CPU time of a slice. All output is below
//! `fuzz/target` and `fuzz/corpus`, which git ignores.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use crate::proof_totals;

/// Seconds after which a slice ends and reports its progress.
const SLICE_SECONDS: u64 = 60;
/// Longest input, in bytes: bodies are a few kilobytes.
const INPUT_BYTES_MAX: usize = 16 * 1024;

const INSTALL: &str = "fuzzing needs a nightly compiler and cargo-fuzz:
    rustup toolchain install nightly --profile minimal
    cargo install cargo-fuzz --locked";

/// The targets to run, and for how long.
#[derive(clap::Args)]
pub(crate) struct FuzzOptions {
    /// Only this target; may be given several times. All of them otherwise.
    #[arg(long = "target", value_name = "NAME")]
    targets: Vec<String>,
    /// Minutes of processor time for each target.
    #[arg(long, default_value_t = 1.0, value_name = "N")]
    cpu_minutes: f64,
    /// Targets that run at once.
    #[arg(long, default_value_t = 1, value_name = "N")]
    jobs: usize,
    /// Adds inputs that reach new code to fuzz/seeds, for review and commit.
    #[arg(long)]
    keep: bool,
}

#[derive(Debug, Default, PartialEq)]
struct Outcome {
    executions: u64,
    cpu_seconds: f64,
    features: u64,
    crashes: u64,
}

struct Place {
    root: PathBuf,
    programs: PathBuf,
}

/// Builds the targets and runs them. Returns whether none crashed.
pub(crate) fn run(root: &Path, options: &FuzzOptions) -> bool {
    let all = match names(root) {
        Ok(all) => all,
        Err(error) => {
            eprintln!("{error}");
            return false;
        }
    };
    if let Some(unknown) = options.targets.iter().find(|name| !all.contains(name)) {
        eprintln!("no target is called {unknown}; there are: {}", all.join(", "));
        return false;
    }
    let chosen = match options.targets.is_empty() {
        true => least_fuzzed_first(all, &proof_totals::fuzzed(root)),
        false => options.targets.clone(),
    };
    let Some(programs) = build(root) else { return false };
    let place = Place { root: root.join("fuzz"), programs };
    let seconds = 60.0 * options.cpu_minutes;
    let waiting = Mutex::new(VecDeque::from(chosen.clone()));
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while let Some(name) = take(&waiting) {
                    let outcome = place.run(&name, seconds);
                    if outcome.crashes == 0 {
                        proof_totals::add_fuzz(root, &name, outcome.cpu_seconds);
                    }
                    if options.keep {
                        place.keep(&name);
                    }
                    done.lock().unwrap_or_else(|broken| broken.into_inner()).push((name, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|broken| broken.into_inner());
    done.sort_by_key(|(name, _)| chosen.iter().position(|chosen| chosen == name));
    print!("\n{}", table(&done));
    done.iter().all(|(_, outcome)| outcome.crashes == 0)
}

/// An interrupted run continues, the next time, with the targets that had the least time.
fn least_fuzzed_first(mut names: Vec<String>, seconds: &BTreeMap<String, f64>) -> Vec<String> {
    let had = |name: &String| seconds.get(name).copied().unwrap_or(0.0);
    names.sort_by(|one, other| had(one).total_cmp(&had(other)));
    names
}

fn take(waiting: &Mutex<VecDeque<String>>) -> Option<String> {
    waiting.lock().unwrap_or_else(|broken| broken.into_inner()).pop_front()
}

/// The programs that fuzz/Cargo.toml lists, in its order.
pub(crate) fn names(root: &Path) -> Result<Vec<String>, String> {
    let path = root.join("fuzz/Cargo.toml");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let manifest: toml::Table =
        text.parse().map_err(|error| format!("fuzz/Cargo.toml: {error}"))?;
    let programs = manifest.get("bin").and_then(toml::Value::as_array).into_iter().flatten();
    Ok(programs.filter_map(|program| Some(program.get("name")?.as_str()?.to_owned())).collect())
}

/// Builds all targets. Returns the directory of the programs, or `None` after printing the error.
fn build(root: &Path) -> Option<PathBuf> {
    let fuzz = |arguments: &[&str]| {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly", "cargo", "fuzz"]).args(arguments);
        command.current_dir(root.join("fuzz")).env_remove("CARGO").env_remove("CARGO_TARGET_DIR");
        command
    };
    let version = fuzz(&["--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        eprintln!("{INSTALL}");
        return None;
    }
    println!("building the targets (a few minutes the first time)");
    let target = root.join("fuzz/target");
    let built = fuzz(&["build", "--target-dir"]).arg(&target).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("the targets could not be built");
        return None;
    }
    // cargo-fuzz always names the platform, so that its programs are one level deeper.
    let platforms = fs::read_dir(&target).ok()?;
    let mut programs = platforms.filter_map(|entry| Some(entry.ok()?.path().join("release")));
    programs.find(|programs| programs.join("request").is_file())
}

impl Place {
    fn run(&self, name: &str, seconds: f64) -> Outcome {
        let mut whole = Outcome::default();
        while whole.cpu_seconds + 0.5 < seconds && whole.crashes == 0 {
            let rest = (seconds - whole.cpu_seconds).ceil() as u64;
            let slice = self.slice(name, rest.clamp(1, SLICE_SECONDS));
            whole.executions += slice.executions;
            // Not even started: the next one would not be either.
            whole.cpu_seconds += if slice.cpu_seconds == 0.0 { seconds } else { slice.cpu_seconds };
            whole.features = whole.features.max(slice.features);
            whole.crashes += slice.crashes;
            println!(
                "{name}: {} executions, {:.0} of {seconds:.0} s, {} features, {} crashes",
                whole.executions, whole.cpu_seconds, whole.features, whole.crashes
            );
        }
        whole
    }

    fn slice(&self, name: &str, seconds: u64) -> Outcome {
        let corpus = self.root.join("corpus").join(name);
        let artifacts = self.root.join("target/artifacts").join(name);
        for directory in [&corpus, &artifacts] {
            if let Err(error) = fs::create_dir_all(directory) {
                eprintln!("{}: {error}", directory.display());
            }
        }
        let output = Command::new("bash")
            .args(["-c", "TIMEFORMAT='cpu-seconds: %U %S'; time \"$@\"", "fuzz"])
            .arg(self.programs.join(name))
            .args([&corpus, &self.root.join("seeds").join(name)])
            .arg(format!("-dict={}", self.root.join("dictionary.txt").display()))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-max_len={INPUT_BYTES_MAX}"))
            .args(["-timeout=10", "-print_final_stats=1"])
            .stdout(Stdio::null())
            .output();
        let output = match output {
            Ok(output) => output,
            Err(error) => {
                eprintln!("{name} did not start: {error}");
                return Outcome { crashes: 1, ..Outcome::default() };
            }
        };
        let text = String::from_utf8_lossy(&output.stderr);
        let outcome = read(&text, output.status.success());
        if outcome.crashes != 0 {
            eprintln!("{}", last_lines(&text, 40));
            eprintln!("{name}: the input is below {}; give it to", artifacts.display());
            eprintln!("    {}", self.programs.join(name).display());
        }
        outcome
    }

    /// Adds to the seeds what reaches code that they do not.
    fn keep(&self, name: &str) {
        let merged = Command::new(self.programs.join(name))
            .arg("-merge=1")
            .args([self.root.join("seeds").join(name), self.root.join("corpus").join(name)])
            .stderr(Stdio::null())
            .status();
        if !merged.is_ok_and(|status| status.success()) {
            eprintln!("{name}: the corpus could not be merged into fuzz/seeds");
        }
    }
}

/// Output of libFuzzer and bash at the end of a slice.
fn read(text: &str, passed: bool) -> Outcome {
    let after = |line: &str, name: &str| -> Option<f64> {
        let rest = &line[line.find(name)? + name.len()..];
        rest.split_whitespace().next()?.parse().ok()
    };
    let last = |name: &str| text.lines().filter_map(|line| after(line, name)).next_back();
    let seconds = text.lines().filter_map(|line| line.strip_prefix("cpu-seconds: "));
    let seconds = seconds.flat_map(str::split_whitespace);
    Outcome {
        executions: last("stat::number_of_executed_units:").unwrap_or_default() as u64,
        cpu_seconds: seconds.filter_map(|part| part.parse::<f64>().ok()).sum(),
        features: last(" ft: ").unwrap_or_default() as u64,
        crashes: u64::from(!passed),
    }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

fn table(outcomes: &[(String, Outcome)]) -> String {
    let mut text = format!(
        "{:<14} {:>12} {:>11} {:>9} {:>7}\n",
        "target", "executions", "CPU seconds", "features", "crashes"
    );
    for (name, Outcome { executions, cpu_seconds, features, crashes }) in outcomes {
        text += &format!(
            "{name:<14} {executions:>12} {cpu_seconds:>11.1} {features:>9} {crashes:>7}\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libfuzzer_says_is_read() {
        let text = "#2\tINITED cov: 10 ft: 11 corp: 1/1b exec/s: 0 rss: 30Mb\n\
                    #9\tNEW    cov: 12 ft: 34 corp: 2/3b lim: 4 exec/s: 0 rss: 30Mb\n\
                    stat::number_of_executed_units: 1234\n\
                    cpu-seconds: 1.500 0.250\n";
        let expected = Outcome { executions: 1_234, cpu_seconds: 1.75, features: 34, crashes: 0 };
        assert_eq!(read(text, true), expected);
        assert_eq!(read("", false), Outcome { crashes: 1, ..Outcome::default() });
        assert_eq!(
            table(&[("request".to_owned(), expected)]),
            "target           executions CPU seconds  features crashes\n\
             request                1234         1.8        34       0\n"
        );
    }
}
