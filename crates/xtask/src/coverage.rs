//! `cargo xtask coverage`: which lines of the kernel its own tests and the simulator run
//! (docs/internals/coverage.md).
//!
//! Only the crate `ledger` is compiled with counters. This program puts itself between cargo and
//! the compiler for that, so that everything else is the same as in any other build and is not
//! built again. What the two kinds of proof counted is added up, a table is printed, and the
//! command fails if a line is left.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Set for the compiler's calls, which come here.
const WRAPPING: &str = "UPESI_COVERAGE";
/// The crate that is looked at.
const SUBJECT: &str = "ledger";
/// Its source files, but for the scenarios, properties and models that try it.
const SOURCES: &str = "crates/ledger/src/";
const TRIALS: &str = "crates/ledger/src/tests/";
/// Runs of the simulator.
const RUNS: &str = "40";

const INSTALL: &str = "coverage needs the compiler's own tools: rustup component add llvm-tools";

/// Lines and how often each was run, by file.
type Lines = BTreeMap<String, BTreeMap<u32, u64>>;

/// Whether this call is one of cargo's to the compiler.
pub(crate) fn is_compiling() -> bool {
    env::var_os(WRAPPING).is_some()
}

/// Hands a call to the compiler on, with counters for the subject.
pub(crate) fn compile() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let Some(compiler) = arguments.next() else { return ExitCode::FAILURE };
    let arguments: Vec<OsString> = arguments.collect();
    let is_subject = arguments.windows(2).any(|two| two[0] == "--crate-name" && two[1] == SUBJECT);
    let mut command = Command::new(compiler);
    command.args(&arguments).env_remove(WRAPPING);
    if is_subject {
        command.arg("-Cinstrument-coverage");
    }
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("the compiler cannot be started: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Builds, runs, counts, and says whether every line was run.
pub(crate) fn run(root: &Path) -> bool {
    let counted = measure(root).map(|(tests, both)| {
        print!("{}", table(&tests, &both));
        missing(&both)
    });
    match counted {
        Ok(missing) if missing.is_empty() => true,
        Ok(missing) => {
            eprint!("\nnever run:\n{missing}");
            false
        }
        Err(error) => {
            eprintln!("{error}");
            false
        }
    }
}

/// What the tests ran, and what tests and simulator ran together.
fn measure(root: &Path) -> Result<(Lines, Lines), String> {
    let tools = tools()?;
    let place = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let place = place.join("coverage");
    // What an earlier run counted would be added.
    let _none_yet = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let tests = build(root, &["test", "--package", SUBJECT, "--no-run"])?;
    let simulator = build(root, &["build", "--package", "simulation", "--bin", "simulation"])?;
    for (number, test) in tests.iter().enumerate() {
        count(root, test, &[], &place.join(format!("test-{number}.profraw")))?;
    }
    let of_tests = export(&tools, &place, &tests)?;
    let arguments = ["--seed", "1", "--runs", RUNS];
    for program in &simulator {
        count(root, program, &arguments, &place.join("simulation.profraw"))?;
    }
    let all: Vec<_> = tests.into_iter().chain(simulator).collect();
    Ok((of_tests, export(&tools, &place, &all)?))
}

/// Where `llvm-profdata` and `llvm-cov` are: with the compiler, whose format they must know.
fn tools() -> Result<PathBuf, String> {
    let asked = Command::new("rustc").args(["--print", "target-libdir"]).output();
    let said = asked.map_err(|error| format!("rustc cannot be started: {error}"))?.stdout;
    let libraries = PathBuf::from(String::from_utf8_lossy(&said).trim());
    let tools = libraries.with_file_name("bin");
    match tools.join("llvm-cov").exists() {
        true => Ok(tools),
        false => Err(INSTALL.to_owned()),
    }
}

/// Builds programs with counters in them, and says where they are.
fn build(root: &Path, arguments: &[&str]) -> Result<Vec<PathBuf>, String> {
    let own = env::current_exe().map_err(|error| format!("this program's own file: {error}"))?;
    let built = Command::new("cargo")
        .args(arguments)
        .args(["--locked", "--message-format", "json-render-diagnostics"])
        .env("RUSTC_WORKSPACE_WRAPPER", own)
        .env(WRAPPING, "1")
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output();
    let built = built.map_err(|error| format!("cargo cannot be started: {error}"))?;
    if !built.status.success() {
        return Err(format!("cargo {} failed", arguments.join(" ")));
    }
    let said = String::from_utf8_lossy(&built.stdout);
    let programs = said.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    });
    Ok(programs.collect())
}

fn count(root: &Path, program: &Path, arguments: &[&str], into: &Path) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(arguments).env("LLVM_PROFILE_FILE", into).current_dir(root.join("crates/ledger"));
    succeed(&mut command).map(drop)
}

fn export(tools: &Path, place: &Path, programs: &[PathBuf]) -> Result<Lines, String> {
    let merged = place.join("merged.profdata");
    let raw = fs::read_dir(place).map_err(|error| format!("{}: {error}", place.display()))?;
    let raw = raw.flatten().map(|entry| entry.path());
    let raw = raw.filter(|path| path.extension().is_some_and(|kind| kind == "profraw"));
    let mut merge = Command::new(tools.join("llvm-profdata"));
    merge.args(["merge", "--sparse", "--output"]).arg(&merged).args(raw);
    succeed(&mut merge)?;
    let mut export = Command::new(tools.join("llvm-cov"));
    export.args(["export", "--format", "lcov", "--instr-profile"]).arg(&merged);
    programs.iter().for_each(|program| drop(export.arg("--object").arg(program)));
    Ok(parse(&succeed(&mut export)?))
}

fn succeed(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Reads what `llvm-cov export --format lcov` writes, as far as it is about the kernel.
fn parse(text: &str) -> Lines {
    let mut lines = Lines::new();
    let mut file = None;
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            let at = path.find(SOURCES).filter(|at| !path[*at..].starts_with(TRIALS));
            file = at.map(|at| path[at + SOURCES.len()..].to_owned());
        }
        let data = line.strip_prefix("DA:").and_then(|data| data.split_once(','));
        if let (Some(file), Some((number, count))) = (&file, data) {
            let (Ok(number), Ok(count)) = (number.parse(), count.parse::<u64>()) else { continue };
            *lines.entry(file.clone()).or_default().entry(number).or_default() += count;
        }
    }
    lines
}

fn table(tests: &Lines, both: &Lines) -> String {
    let run = |lines: Option<&BTreeMap<u32, u64>>| {
        lines.map_or(0, |lines| lines.values().filter(|count| 0 < **count).count())
    };
    let mut text = format!("{:<36} {:>6} {:>9} {:>16}\n", "file", "lines", "by tests", "and simulation");
    let mut sums = [0; 3];
    for (file, lines) in both {
        let row = [lines.len(), run(tests.get(file)), run(Some(lines))];
        text += &format!("{file:<36} {:>6} {:>9} {:>16}\n", row[0], row[1], row[2]);
        sums.iter_mut().zip(row).for_each(|(sum, count)| *sum += count);
    }
    text += &format!("{:<36} {:>6} {:>9} {:>16}\n", "all", sums[0], sums[1], sums[2]);
    text
}

/// The lines that nothing ran, a file a line.
fn missing(both: &Lines) -> String {
    let mut text = String::new();
    for (file, lines) in both {
        let never = lines.iter().filter(|(_, count)| **count == 0);
        let numbers: Vec<_> = never.map(|(number, _)| number.to_string()).collect();
        if !numbers.is_empty() {
            text += &format!("{SOURCES}{file}: {}\n", numbers.join(" "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_programs_are_added_up_for_the_kernel_alone() {
        let text = "SF:/x/crates/ledger/src/state.rs\nDA:1,0\nDA:2,5\nDA:3,0\nend_of_record\n\
                    SF:/x/crates/ledger/src/tests/model.rs\nDA:1,0\nend_of_record\n\
                    SF:/x/crates/record/src/frame.rs\nDA:9,0\nend_of_record\n\
                    SF:/x/crates/ledger/src/state.rs\nDA:1,2\nDA:3,0\nend_of_record\n";
        let both = parse(text);
        assert_eq!(missing(&both), "crates/ledger/src/state.rs: 3\n");
        let table = table(&parse("SF:crates/ledger/src/state.rs\nDA:2,5\n"), &both);
        let last = table.lines().last().expect("there is a sum");
        assert_eq!(last.split_whitespace().collect::<Vec<_>>(), ["all", "3", "1", "2"]);
    }
}
