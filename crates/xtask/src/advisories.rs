//! Compares Cargo.lock with a database of vulnerabilities by `cargo deny check advisories`.
//!
//! The tool and its database come from outside. Without one of them the step prints that nothing
//! was checked and passes, unless it is required: `--require`, or [`REQUIRED`] set to 1, as for
//! releases.
//!
//! # Phases
//! 1. Fetch the database. It is kept in `~/.cargo/advisory-dbs`.
//! 2. Check. Without the network, a database that is kept is used: `deny.toml` limits its age.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ci::StepResult;
use crate::package::TOOLS_KEPT;
use crate::tools;

/// The variable that makes an unchecked database a failure.
const REQUIRED: &str = "UPESI_REQUIRE_ADVISORIES";
const TOOL: &str = "cargo-deny";
const INSTALL: &str = "cargo install cargo-deny --locked";
/// Seconds for the database. Some firewalls let a connection neither open nor fail.
const FETCH_SECONDS: &str = "120";
/// Last lines of the tool without findings, and with some.
const PASSED: &str = "advisories ok";
const FOUND: &str = "advisories FAILED";

/// A run of the tool.
#[derive(Debug)]
struct ToolRun {
    output: String,
    errors: String,
    succeeded: bool,
}

/// Whether an unchecked database is a failure.
pub(crate) fn is_required() -> bool {
    env::var_os(REQUIRED).is_some_and(|value| value == "1")
}

/// Checks the packages of Cargo.lock, and prints the findings.
pub(crate) fn check(root: &Path, required: bool) -> StepResult {
    let tool = find_tool(&tools::target(root));
    let result = match tool {
        Some(tool) => check_with(&tool, root, &root.join("deny.toml")),
        None => StepResult::NotChecked(not_checked("cargo-deny is not installed", INSTALL)),
    };
    report(result, required)
}

/// Prints why nothing was checked; a failure if the check is required.
fn report(result: StepResult, required: bool) -> StepResult {
    match result {
        StepResult::NotChecked(reason) if required => {
            eprintln!("advisories: {reason}. The check is required here");
            StepResult::Failed
        }
        StepResult::NotChecked(reason) => {
            println!("advisories: {reason}");
            StepResult::NotChecked(reason)
        }
        other => other,
    }
}

/// The line about advisories that were not checked.
fn not_checked(reason: &str, remedy: &str) -> String {
    format!("known vulnerabilities were NOT checked: {reason}; {remedy}")
}

/// The tool in the search path, or among the tools of a release.
fn find_tool(target: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let own = target.join(TOOLS_KEPT).join("bin");
    let mut places = env::split_paths(&path).chain([own]).map(|place| place.join(TOOL));
    places.find(|program| program.is_file())
}

fn check_with(tool: &Path, root: &Path, settings: &Path) -> StepResult {
    let run = |arguments: &[&str]| run_tool((tool, root, settings), arguments);
    let runs = run(&["fetch", "db"]).and_then(|fetched| {
        let offline = if fetched.succeeded { &[][..] } else { &["--offline"] };
        let check = ["check", "--hide-inclusion-graph", "advisories"];
        run(&[offline, &check].concat()).map(|checked| (fetched, checked))
    });
    match runs {
        Ok((fetched, checked)) => {
            let result = result_of(&fetched, &checked);
            if !matches!(result, StepResult::NotChecked(_)) {
                print!("{}{}", checked.errors, checked.output);
            }
            result
        }
        Err(error) => {
            eprintln!("advisories: {error}");
            StepResult::Failed
        }
    }
}

fn run_tool(
    (tool, root, settings): (&Path, &Path, &Path),
    arguments: &[&str],
) -> Result<ToolRun, String> {
    let mut command = Command::new("timeout");
    command.arg(FETCH_SECONDS).arg(tool).args(["deny", "--color", "never", "--all-features"]);
    command.arg("--config").arg(settings).args(arguments).current_dir(root);
    // Git must not wait for a password.
    command.env("GIT_TERMINAL_PROMPT", "0");
    let ended = command.output().map_err(|error| format!("{TOOL} did not start: {error}"))?;
    let [output, errors] =
        [ended.stdout, ended.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    Ok(ToolRun { output, errors, succeeded: ended.status.success() })
}

/// The result of the two runs.
fn result_of(fetched: &ToolRun, checked: &ToolRun) -> StepResult {
    if checked.succeeded && checked.output.contains(PASSED) {
        if !fetched.succeeded {
            println!("advisories: with the database that was kept: {}", reason_of(fetched));
        }
        return StepResult::Passed;
    }
    // An error of the tool's own: its settings or its arguments.
    let is_wrong = checked.errors.lines().any(|line| line.starts_with("error"));
    if fetched.succeeded || is_wrong || checked.output.contains(FOUND) {
        return StepResult::Failed;
    }
    let reason = format!("the database cannot be fetched: {}", reason_of(fetched));
    StepResult::NotChecked(not_checked(&reason, "connect this machine, or keep a database"))
}

/// The last line of the errors of a fetch, which is Git's.
fn reason_of(fetched: &ToolRun) -> &str {
    fetched.errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no answer in time")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(succeeded: bool, output: &str, errors: &str) -> ToolRun {
        ToolRun { output: output.to_owned(), errors: errors.to_owned(), succeeded }
    }

    fn unreachable() -> ToolRun {
        let errors = "2026-11-28 19:46:15 [ERROR] failed to fetch advisory database \
                      https://github.com/RustSec/advisory-db with cli: failed to clone\n\
                      error: RPC failed\n\
                      fatal: unable to access: Could not resolve host: github.com\n\n";
        ended(false, "", errors)
    }

    #[test]
    fn outcomes_of_the_tool_are_classified() {
        let fetched = ended(true, "", "");
        let passed = ended(true, "advisories ok\n", "");
        let found = ended(false, "advisories FAILED\n", "error[vulnerability]: A fault\n");
        let absent = "2026-11-28 19:46:40 [ERROR] failed to get 'FETCH_HEAD' metadata\nfatal: no";
        let absent = ended(false, "", absent);
        let settings = "error: advisory database url doesn't have a domain name\n";
        let settings = ended(false, "", settings);
        for (case, fetched, checked, expected) in [
            ("passed", &fetched, &passed, StepResult::Passed),
            ("found", &fetched, &found, StepResult::Failed),
            ("neither", &fetched, &absent, StepResult::Failed),
            ("kept", &unreachable(), &passed, StepResult::Passed),
            ("kept, found", &unreachable(), &found, StepResult::Failed),
            ("settings", &unreachable(), &settings, StepResult::Failed),
        ] {
            assert_eq!(result_of(fetched, checked), expected, "{case}");
        }
        let expected = "known vulnerabilities were NOT checked: the database cannot be fetched: \
                        fatal: unable to access: Could not resolve host: github.com; connect this \
                        machine, or keep a database";
        let result = result_of(&unreachable(), &absent);
        assert_eq!(result, StepResult::NotChecked(expected.to_owned()));
    }

    #[test]
    fn an_unchecked_database_fails_only_if_it_is_required() {
        let result = || StepResult::NotChecked("no tool".to_owned());
        assert_eq!(report(result(), false), result());
        assert_eq!(report(result(), true), StepResult::Failed);
        assert_eq!(report(StepResult::Passed, true), StepResult::Passed);
    }

    /// A program in the place of the tool: its arguments, its directory and its end are real.
    #[test]
    fn the_tool_is_run_offline_after_a_failed_fetch() {
        let place = env::temp_dir().join(format!("upesi-advisories-{}", std::process::id()));
        std::fs::create_dir_all(&place).expect("a directory");
        let tool = place.join(TOOL);
        let script = "#!/bin/sh\necho \"$@\" >> calls\ncase \"$*\" in\n\
                      *fetch*) echo 'fatal: no network' >&2; exit 1;;\n\
                      *) echo 'fatal: no database' >&2; exit 1;;\nesac\n";
        std::fs::write(&tool, script).expect("a script");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&tool, mode).expect("it is executable");
        let result = check_with(&tool, &place, Path::new("deny.toml"));
        let calls = std::fs::read_to_string(place.join("calls")).expect("it ran");
        std::fs::remove_dir_all(&place).expect("removed");
        assert!(matches!(&result, StepResult::NotChecked(it) if it.contains("fatal: no network")));
        let common = "deny --color never --all-features --config deny.toml";
        let expected = format!(
            "{common} fetch db\n{common} --offline check --hide-inclusion-graph advisories\n"
        );
        assert_eq!(calls, expected);
    }
}

#[cfg(all(test, feature = "real-advisories"))]
mod real_tool;
