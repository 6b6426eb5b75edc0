//! One run: reads the files, plays the conversations, and prints a table of results.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::hub::TestedHub;
use crate::index::{Coverage, Rows};
use crate::parse::{Conversation, parse};
use crate::runner::{Mismatch, RunContext, play};
use crate::unchanged::UnchangedCounts;

const ROWS: &str = "rows.txt";
const INDEX: &str = "index.md";

/// The conversations to play, and the hub to play them against.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The hub.
    pub target: Target,
    /// Directory with the conversations, rows.txt and index.md.
    pub directory: PathBuf,
    /// Files or directories to play, each with at least one conversation of `directory`;
    /// everything in `directory` when empty.
    pub paths: Vec<PathBuf>,
    /// Host under which the hub reaches the participants' servers.
    pub callback_host: String,
    /// Conversations at once; at least one.
    pub jobs: usize,
    /// Time within which a message must come.
    pub patience: Duration,
    /// Whether to write index.md; otherwise it must already be up to date.
    pub write_index: bool,
}

/// The hub under test.
#[derive(Clone, Debug)]
pub enum Target {
    /// A switch to start, by its binary.
    Switch(PathBuf),
    /// A running hub: addresses as `http://host:port`, and the file of the admin token.
    Hub {
        /// FSPIOP.
        fspiop: String,
        /// Admin API.
        admin: String,
        /// Bearer token of the admin API.
        token: Option<PathBuf>,
    },
}

/// The result of a run; printed as the table at the end.
#[derive(Debug, Default)]
pub struct Report {
    /// Counts by directory.
    groups: BTreeMap<String, Counts>,
    rows: usize,
    /// Rows that no conversation covers.
    uncovered: Vec<String>,
    /// Rows whose every conversation was skipped.
    skipped_rows: usize,
    /// Errors outside the conversations themselves.
    faults: Vec<String>,
    /// Refusals, and what they left unchanged.
    refusals: UnchangedCounts,
    took: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Report {
    /// Whether every conversation passed and every row is covered.
    #[must_use]
    pub fn passed(&self) -> bool {
        let failed: usize = self.groups.values().map(|counts| counts.failed).sum();
        failed == 0 && self.uncovered.is_empty() && self.faults.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |name: &str, counts: &Counts| {
            let Counts { passed, failed, skipped } = counts;
            format!("{name:<14} {passed:>7} {failed:>7} {skipped:>8}\n")
        };
        let mut all = Counts::default();
        writeln!(f, "\n{:<14} {:>7} {:>7} {:>8}", "conversations", "passed", "failed", "skipped")?;
        for (name, counts) in &self.groups {
            f.write_str(&line(name, counts))?;
            all.passed += counts.passed;
            all.failed += counts.failed;
            all.skipped += counts.skipped;
        }
        f.write_str(&line("all", &all))?;
        for row in &self.uncovered {
            writeln!(f, "no conversation covers {row}")?;
        }
        for fault in &self.faults {
            writeln!(f, "{fault}")?;
        }
        writeln!(f, "{}", self.refusals)?;
        let seconds = self.took.as_secs_f32();
        if self.rows == 0 {
            return writeln!(f, "{seconds:.1} s; rows are counted when everything is played");
        }
        let covered = self.rows - self.uncovered.len() - self.skipped_rows;
        write!(f, "{covered} of {} rows covered, ", self.rows)?;
        if 0 < self.skipped_rows {
            write!(f, "{} more by conversations that were skipped, ", self.skipped_rows)?;
        }
        writeln!(f, "{seconds:.1} s")
    }
}

/// Plays the conversations and prints each that differs, with the place and the difference.
///
/// # Errors
/// When the files cannot be read, a path names no conversation, or the hub cannot be reached.
pub fn run(options: &RunOptions) -> Result<Report, Failure> {
    let started = Instant::now();
    let rows = Rows::read(&read(&options.directory.join(ROWS))?);
    let all = read_all(&options.directory)?;
    let mut report = Report { faults: rows.faults(&all), ..Report::default() };
    let chosen = choose(options, &all)?;
    let coverage = rows.coverage(&all);
    if options.paths.is_empty() {
        report.rows = coverage.len();
        let uncovered = coverage.iter().filter(|(_, files)| files.is_empty());
        report.uncovered = uncovered.map(|(name, _)| (*name).to_owned()).collect();
        check_index(options, &rows.index(&all), &mut report)?;
    }
    let hub = TestedHub::open(&options.target, &[])?;
    let outcomes = play_all(options, (&hub, &report.refusals), &chosen);
    if let Err(failure) = hub.close() {
        report.faults.push(failure.to_string());
    }
    let mut skipped = BTreeSet::new();
    for (conversation, outcome) in chosen.iter().zip(outcomes) {
        let group = conversation.file.split('/').next().unwrap_or_default();
        let counts = report.groups.entry(group.to_owned()).or_default();
        match outcome {
            Outcome::Passed => counts.passed += 1,
            Outcome::Failed => counts.failed += 1,
            Outcome::Skipped => {
                counts.skipped += 1;
                skipped.insert(conversation.file.as_str());
            }
        }
    }
    if skipped.len() == chosen.len() {
        report.faults.push("nothing was played: these need a hub of their own, --switch".into());
    }
    report.skipped_rows = unplayed(&coverage, &skipped);
    report.took = started.elapsed();
    Ok(report)
}

#[derive(Clone, Copy, Debug)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

fn play_all(
    options: &RunOptions,
    (hub, tally): (&TestedHub, &UnchangedCounts),
    chosen: &[&Conversation],
) -> Vec<Outcome> {
    let quiet = RwLock::new(());
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(vec![Outcome::Skipped; chosen.len()]);
    thread::scope(|scope| {
        for _ in 0..options.jobs.clamp(1, 64) {
            scope.spawn(|| {
                while let Some(conversation) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = play_one(options, (hub, &quiet), (tally, conversation));
                    let at = chosen.iter().position(|one| std::ptr::eq(*one, *conversation));
                    let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(at) = at {
                        outcomes[at] = outcome;
                    }
                }
            });
        }
    });
    outcomes.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn play_one(
    options: &RunOptions,
    (shared, quiet): (&TestedHub, &RwLock<()>),
    (tally, conversation): (&UnchangedCounts, &Conversation),
) -> Outcome {
    let settings = conversation.settings.as_slice();
    let result = match (&options.target, conversation.own_hub) {
        (_, false) => play(&stage(options, (shared, quiet), tally), conversation),
        (Target::Hub { .. }, true) => return Outcome::Skipped,
        (Target::Switch(_), true) => {
            let own = |failure: Failure| Mismatch { line: 1, what: failure.to_string() };
            TestedHub::open(&options.target, settings).map_err(own).and_then(|hub| {
                let quiet = RwLock::new(());
                let played = play(&stage(options, (&hub, &quiet), tally), conversation);
                played.and(hub.close().map_err(own))
            })
        }
    };
    match result {
        Ok(()) => Outcome::Passed,
        Err(Mismatch { line, what }) => {
            let directory = options.directory.display();
            let file = &conversation.file;
            println!("{directory}/{file}:{line}: {}\n{what}\n", conversation.title);
            Outcome::Failed
        }
    }
}

fn stage<'a>(
    options: &'a RunOptions,
    (hub, quiet): (&'a TestedHub, &'a RwLock<()>),
    tally: &'a UnchangedCounts,
) -> RunContext<'a> {
    RunContext {
        hub,
        quiet,
        tally,
        callback_host: &options.callback_host,
        patience: options.patience,
    }
}

fn check_index(options: &RunOptions, index: &str, report: &mut Report) -> Result<(), Failure> {
    let path = options.directory.join(INDEX);
    if options.write_index {
        let failed = |error| Failure::new(format!("{}: {error}", path.display()));
        return fs::write(&path, index).map_err(failed);
    }
    if fs::read_to_string(&path).ok().as_deref() != Some(index) {
        report.faults.push(format!("{} is out of date: use --write-index", path.display()));
    }
    Ok(())
}

fn read_all(directory: &Path) -> Result<Vec<Conversation>, Failure> {
    let mut files = Vec::new();
    find(directory, &mut files)?;
    files.sort();
    let mut conversations = Vec::new();
    for path in files {
        let file = path.strip_prefix(directory).unwrap_or(&path).display().to_string();
        if file == ROWS {
            continue;
        }
        let parsed = parse(&file, &read(&path)?);
        conversations.push(parsed.map_err(|fault| {
            Failure::new(format!("{}:{}: {}", path.display(), fault.line, fault.what))
        })?);
    }
    Ok(conversations)
}

fn find(directory: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", directory.display()));
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "txt") {
            files.push(path);
        }
    }
    Ok(())
}

/// The conversations that the paths name. A path that names no conversation is an error, because
/// otherwise a typing error would look like success.
fn choose<'a>(
    options: &RunOptions,
    all: &'a [Conversation],
) -> Result<Vec<&'a Conversation>, Failure> {
    let directory = options.directory.as_path();
    if all.is_empty() {
        let text = format!("{}: there is no conversation in it", directory.display());
        return Err(Failure::new(text));
    }
    let real = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let mut chosen = vec![options.paths.is_empty(); all.len()];
    for path in &options.paths {
        let text = path.display();
        let wanted =
            fs::canonicalize(path).map_err(|error| Failure::new(format!("{text}: {error}")))?;
        let mut named = false;
        for (conversation, chosen) in all.iter().zip(&mut chosen) {
            if real.join(&conversation.file).starts_with(&wanted) {
                (named, *chosen) = (true, true);
            }
        }
        if !named {
            let directory = directory.display();
            let text = format!("{text}: there is no conversation of {directory} (--directory)");
            return Err(Failure::new(text));
        }
    }
    let chosen = all.iter().zip(chosen).filter(|(_, chosen)| *chosen);
    Ok(chosen.map(|(conversation, _)| conversation).collect())
}

/// Rows that are covered by nothing but conversations in `skipped`.
fn unplayed(coverage: &Coverage<'_>, skipped: &BTreeSet<&str>) -> usize {
    let unplayed = |files: &&BTreeSet<&str>| !files.is_empty() && files.is_subset(skipped);
    coverage.values().filter(unplayed).count()
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation(file: &str) -> Conversation {
        Conversation { file: file.to_owned(), ..Conversation::default() }
    }

    #[test]
    fn paths_that_name_no_conversation_are_errors() {
        let directory = tempfile::tempdir().expect("a directory");
        let inside = |name: &str| directory.path().join("all").join(name);
        for name in ["one", "two", "empty"] {
            fs::create_dir_all(inside(name)).expect("a directory");
        }
        let all = ["one/a.txt", "one/b.txt", "two/a.txt"].map(conversation);
        for one in &all {
            fs::write(inside(&one.file), "").expect("a file");
        }
        fs::write(directory.path().join("outside.txt"), "").expect("a file");
        let check = |paths: &[&str], expected: Result<&[&str], &str>| {
            let options = RunOptions {
                target: Target::Switch(PathBuf::new()),
                directory: directory.path().join("all"),
                paths: paths.iter().map(|path| inside(path)).collect(),
                callback_host: String::new(),
                jobs: 1,
                patience: Duration::ZERO,
                write_index: false,
            };
            let files = |chosen: Vec<&Conversation>| -> Vec<_> {
                chosen.iter().map(|one| one.file.clone()).collect()
            };
            match (choose(&options, &all).map(files), expected) {
                (Ok(chosen), Ok(expected)) => assert_eq!(chosen, expected, "{paths:?}"),
                (Err(failure), Err(path)) => {
                    let text = failure.to_string();
                    assert!(text.contains(&inside(path).display().to_string()), "{text}");
                }
                (chosen, _) => panic!("{paths:?}: {chosen:?}"),
            }
            assert!(choose(&options, &[]).is_err(), "nothing to play");
        };
        check(&[], Ok(&["one/a.txt", "one/b.txt", "two/a.txt"]));
        check(&["one"], Ok(&["one/a.txt", "one/b.txt"]));
        check(&["one/../two", "one/b.txt", "one/b.txt"], Ok(&["one/b.txt", "two/a.txt"]));
        check(&["one", "none.txt"], Err("none.txt"));
        check(&["one", "empty"], Err("empty"));
        check(&["../outside.txt"], Err("../outside.txt"));
    }

    #[test]
    fn rows_of_skipped_conversations_are_counted_apart() {
        let coverage: Coverage<'_> = [
            ("played", BTreeSet::from(["a.txt"])),
            ("played and skipped", BTreeSet::from(["a.txt", "b.txt"])),
            ("skipped", BTreeSet::from(["b.txt", "c.txt"])),
            ("uncovered", BTreeSet::new()),
        ]
        .into();
        let skipped = unplayed(&coverage, &BTreeSet::from(["b.txt", "c.txt"]));
        assert_eq!(skipped, 1);
        let uncovered = vec!["uncovered".to_owned()];
        let report =
            Report { rows: 4, uncovered, skipped_rows: skipped, ..Report::default() }.to_string();
        let last = "2 of 4 rows covered, 1 more by conversations that were skipped, 0.0 s\n";
        assert!(report.ends_with(last), "{report}");
    }
}
