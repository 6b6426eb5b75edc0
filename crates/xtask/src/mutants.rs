//! `cargo xtask mutants`: mutation tests of the kernel, the stored forms and the log. The tests of
//! a crate must detect every small change of its code (docs/internals/mutants.md).
//!
//! cargo-mutants makes the changes in a copy of the tree. A detected mutant is not tested again
//! until its line changes. Lists in the build directory record them, so that each run continues
//! from the previous one. `.cargo/mutants.toml` lists the exclusions with their reasons.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::tools;

/// The crates, in the order in which they have their turn.
const PACKAGES: [&str; 3] = ["ledger", "record", "journal"];
/// A turn that is shorter builds, and tries nothing.
const TURN_MIN: Duration = Duration::from_secs(120);
/// Time limit of a test in seconds; a changed loop may never end.
const TEST_SECONDS: &str = "15";
/// Random cases of each property: a change that few cases show is found by another night.
const CASES: &str = "48";

/// The mutants to test, and for how long.
#[derive(clap::Args)]
pub(crate) struct MutantOptions {
    /// Minutes for all of it; what is left is for the next run.
    #[arg(long, default_value_t = 30, value_name = "MINUTES")]
    minutes: u64,
    /// Only this crate; may be given several times.
    #[arg(long = "package", value_name = "NAME", value_parser = PACKAGES)]
    packages: Vec<String>,
    /// Only changes in this file, as crates/journal/src/scan.rs; may be given several times.
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<String>,
}

/// How the changes of a crate have come out, all runs together.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    all: usize,
    noticed: usize,
    missed: Vec<String>,
}

/// Tests mutants until the time is over. Returns whether all of them were detected.
pub(crate) fn run(root: &Path, options: &MutantOptions) -> bool {
    match try_all(root, options) {
        Ok(outcomes) => {
            print!("\n{}", table(&outcomes));
            outcomes.iter().all(|(_, outcome)| outcome.missed.is_empty())
        }
        Err(error) => {
            eprintln!("mutants: {error}");
            false
        }
    }
}

fn try_all(root: &Path, options: &MutantOptions) -> Result<Vec<(String, Outcome)>, String> {
    let tool = Tool::find(root)?;
    let end = Instant::now() + Duration::from_secs(60 * options.minutes);
    let chosen = match options.packages.is_empty() {
        true => PACKAGES.map(str::to_owned).to_vec(),
        false => options.packages.clone(),
    };
    let mut outcomes = Vec::new();
    for package in chosen {
        let left = end.saturating_duration_since(Instant::now());
        if TURN_MIN <= left {
            tool.turn((&package, &options.files), left)?;
        }
        let outcome = tool.outcome(&package)?;
        outcomes.push((package, outcome));
    }
    Ok(outcomes)
}

/// cargo-mutants, and where it works.
struct Tool<'a> {
    root: &'a Path,
    place: PathBuf,
    /// With its own directory in front.
    path: OsString,
}

impl<'a> Tool<'a> {
    /// Installs cargo-mutants below the build directory unless it exists.
    fn find(root: &'a Path) -> Result<Self, String> {
        let place = tools::target(root).join("mutants");
        let own = place.join("tools");
        let before = env::var_os("PATH").unwrap_or_default();
        let all = [own.join("bin")].into_iter().chain(env::split_paths(&before));
        let path = env::join_paths(all).map_err(|error| error.to_string())?;
        let tool = Self { root, place, path };
        let asked = tool.cargo(&["mutants", "--version"]).stdout(Stdio::null()).output();
        if !asked.is_ok_and(|output| output.status.success()) {
            println!("installing cargo-mutants into {}", own.display());
            let install = ["install", "cargo-mutants", "--locked", "--root"];
            tools::run(tool.cargo(&install).arg(&own))?;
        }
        Ok(tool)
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("cargo");
        command.args(arguments).current_dir(self.root).env("PATH", &self.path);
        command.env_remove("CARGO");
        command
    }

    fn lists(&self, package: &str) -> PathBuf {
        self.place.join(package)
    }

    /// Continues with a crate until the time is over; results so far are in its lists.
    fn turn(&self, (package, files): (&str, &[String]), left: Duration) -> Result<(), String> {
        let lists = self.lists(package);
        let failed = |error| format!("{}: {error}", lists.display());
        fs::create_dir_all(&lists).and_then(|()| keep_endless(&lists)).map_err(failed)?;
        println!("{package}: {} minutes at most", left.as_secs() / 60);
        let mut turn = Command::new("timeout");
        turn.args(["--signal", "INT", "--kill-after", "60", &left.as_secs().to_string()]);
        turn.args(["cargo", "mutants", "--package", package, "--iterate", "--output"]).arg(&lists);
        turn.args(["--timeout", TEST_SECONDS, "--colors", "never"]);
        turn.args(files.iter().flat_map(|file| ["--file", file]));
        turn.current_dir(self.root).env("PATH", &self.path).env_remove("CARGO");
        turn.env("CARGO_TARGET_DIR", self.place.join("build"));
        turn.env("CARGO_INCREMENTAL", "1").env("PROPTEST_CASES", CASES);
        // Tests run several times as fast, and the compiler takes no longer.
        turn.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
        // The end of the time is not a failure, so no trace is printed.
        turn.env("RUST_BACKTRACE", "0");
        let status = turn.status().map_err(|error| format!("timeout did not start: {error}"))?;
        match status.code() {
            // All noticed; some missed; some without end; the time was over.
            Some(0 | 2 | 3 | 124) => Ok(()),
            _ => Err(format!("cargo mutants ended with {status}; see above")),
        }
    }

    fn outcome(&self, package: &str) -> Result<Outcome, String> {
        let listed = self.cargo(&["mutants", "--list", "--package", package]).output();
        let listed = listed.map_err(|error| format!("cargo did not start: {error}"))?;
        let lists = self.lists(package).join("mutants.out");
        let read = |name: &str| fs::read_to_string(lists.join(name)).unwrap_or_default();
        Ok(sum(&String::from_utf8_lossy(&listed.stdout), &read))
    }
}

/// Changes that had no end are not tried again either: the tool itself leaves out only those that
/// tests noticed.
fn keep_endless(lists: &Path) -> io::Result<()> {
    let lists = lists.join("mutants.out");
    let endless = fs::read_to_string(lists.join("timeout.txt")).unwrap_or_default();
    if endless.is_empty() {
        return Ok(());
    }
    let before = lists.join("previously_caught.txt");
    fs::OpenOptions::new().create(true).append(true).open(before)?.write_all(endless.as_bytes())?;
    // They count once.
    fs::write(lists.join("timeout.txt"), "")
}

/// Totals of the lists for the present mutants; entries of changed lines do not count.
fn sum(listed: &str, read: &dyn Fn(&str) -> String) -> Outcome {
    let all: Vec<&str> = listed.lines().collect();
    let count = |name: &str| read(name).lines().filter(|line| all.contains(line)).count();
    let noticed = ["caught.txt", "previously_caught.txt", "unviable.txt", "timeout.txt"];
    let missed = read("missed.txt");
    let missed = missed.lines().filter(|line| all.contains(line)).map(str::to_owned);
    Outcome {
        all: all.len(),
        noticed: noticed.into_iter().map(count).sum(),
        missed: missed.collect(),
    }
}

fn table(outcomes: &[(String, Outcome)]) -> String {
    let mut text = format!(
        "{:<10} {:>8} {:>8} {:>8} {:>8}\n",
        "crate", "changes", "noticed", "missed", "left"
    );
    for (package, Outcome { all, noticed, missed }) in outcomes {
        let (count, left) = (missed.len(), all.saturating_sub(noticed + missed.len()));
        text += &format!("{package:<10} {all:>8} {noticed:>8} {count:>8} {left:>8}\n");
    }
    for missed in outcomes.iter().flat_map(|(_, outcome)| &outcome.missed) {
        text += &format!("not detected: {missed}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_had_no_end_is_not_tried_again() {
        let lists = env::temp_dir().join(format!("upesi-mutants-{}", std::process::id()));
        let at = |name: &str| lists.join("mutants.out").join(name);
        fs::create_dir_all(at("")).expect("makes it");
        fs::write(at("timeout.txt"), "a.rs:1:1: one\n").expect("writes");
        fs::write(at("previously_caught.txt"), "a.rs:2:1: two\n").expect("writes");
        for _ in 0..2 {
            keep_endless(&lists).expect("writes");
        }
        let kept = fs::read_to_string(at("previously_caught.txt")).expect("reads");
        fs::remove_dir_all(&lists).expect("removes");
        assert_eq!(kept, "a.rs:2:1: two\na.rs:1:1: one\n");
    }

    #[test]
    fn lists_of_all_runs_add_up() {
        let listed = "a.rs:1:1: one\na.rs:2:1: two\na.rs:3:1: three\na.rs:4:1: four\n";
        let read = |name: &str| {
            let text = match name {
                "caught.txt" => "a.rs:1:1: one\n",
                // The line was changed since.
                "previously_caught.txt" => "a.rs:9:1: nine\na.rs:2:1: two\n",
                "missed.txt" => "a.rs:3:1: three\na.rs:8:1: eight\n",
                _ => "",
            };
            text.to_owned()
        };
        let outcome = sum(listed, &read);
        let missed = vec!["a.rs:3:1: three".to_owned()];
        assert_eq!(outcome, Outcome { all: 4, noticed: 2, missed });
        assert_eq!(
            table(&[("ledger".to_owned(), outcome)]),
            "crate       changes  noticed   missed     left\n\
             ledger            4        2        1        1\n\
             not detected: a.rs:3:1: three\n"
        );
    }
}
