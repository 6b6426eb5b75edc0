//! `cargo xtask coverage`: line coverage of the kernel by its own tests and the simulator
//! (docs/internals/coverage.md).
//!
//! Only the crate `ledger` is compiled with counters. For that, this program wraps the compiler, so
//! that the rest of the build is unchanged. The counts of the three proofs are added up, a table is
//! printed, and the command fails if a line was never run.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::{proof_totals, tools};

/// Set for the compiler's calls, which come here.
const WRAPPING: &str = "UPESI_COVERAGE";
/// The crate that is looked at.
const SUBJECT: &str = "ledger";
/// Its source files, but for the scenarios, properties and models that try it.
const SOURCES: &str = "crates/ledger/src/";
const TRIALS: &str = "crates/ledger/src/tests/";
/// The start of a file's tests, in its last part.
const TESTS: &str = "#[cfg(test)]\nmod tests {";
/// Runs of the simulator.
const RUNS: &str = "40";

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
    let has = |name, value| arguments.windows(2).any(|two| two[0] == name && two[1] == value);
    let mut command = Command::new(compiler);
    command.args(&arguments).env_remove(WRAPPING);
    if has("--crate-name", SUBJECT) {
        command.arg("-Cinstrument-coverage");
    } else if has("--crate-type", "bin") {
        // The code that writes the counters at exit is linked only on request.
        command.arg("-Clink-arg=-Wl,-u,__llvm_profile_runtime");
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

/// Builds, runs and counts. Returns whether every line was run.
pub(crate) fn run(root: &Path) -> bool {
    let counted = measure(root).map(|[tests, simulated, all]| {
        print!("{}", table(&tests, &simulated, &all));
        missing(&all)
    });
    match counted {
        Ok(missing) if missing.is_empty() => true,
        Ok(missing) => {
            eprint!("\nnever run:\n{missing}");
            false
        }
        Err(error) => {
            eprintln!("coverage: {error}");
            false
        }
    }
}

/// Lines run by the tests; by them and the simulator; and by them, the simulator and the deliberate
/// bugs.
fn measure(root: &Path) -> Result<[Lines; 3], String> {
    let tools = tools()?;
    let place = tools::target(root).join("coverage");
    // Counts of an earlier run would be added.
    let _none_yet = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let simulation = ["build", "--package", "simulation", "--bin", "simulation"];
    let planted = [&simulation[..], &["--features", "planted-bugs"]].concat();
    let parts: [(&str, &[&str], &[&str]); 3] = [
        ("tests", &["test", "--package", SUBJECT, "--no-run"], &[]),
        ("simulation", &simulation, &["--seed", "1", "--runs", RUNS]),
        ("planted", &planted, &["--bugs"]),
    ];
    let (mut programs, mut sums) = (Vec::new(), Vec::new());
    for (name, building, arguments) in parts {
        for (number, built) in build(root, building)?.iter().enumerate() {
            // The next build has a program of the same name.
            let program = place.join(format!("{name}-{number}"));
            let kept = fs::copy(built, &program);
            kept.map_err(|error| format!("{}: {error}", program.display()))?;
            println!("{}", program.display());
            count(root, &program, arguments)?;
            programs.push(program);
        }
        let lines = parse(&export(&tools, &place, &programs)?);
        sums.push(without_tests(lines, &|file| fs::read_to_string(root.join(SOURCES).join(file))));
    }
    sums.try_into().map_err(|_| "three parts are counted".to_owned())
}

/// Directory of `llvm-profdata` and `llvm-cov`: those of the compiler, whose format they must know.
fn tools() -> Result<PathBuf, String> {
    let asked = Command::new("rustc").args(["--print", "target-libdir"]).output();
    let output = asked.map_err(|error| format!("rustc did not start: {error}"))?.stdout;
    let libraries = PathBuf::from(String::from_utf8_lossy(&output).trim());
    let tools = libraries.with_file_name("bin");
    if !tools.join("llvm-cov").exists() {
        println!("installing the compiler's own tools: rustup component add llvm-tools");
        tools::run(Command::new("rustup").args(["component", "add", "llvm-tools"]))?;
    }
    Ok(tools)
}

/// Builds programs with counters and returns their paths.
fn build(root: &Path, arguments: &[&str]) -> Result<Vec<PathBuf>, String> {
    let own = env::current_exe().map_err(|error| format!("this program's own file: {error}"))?;
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(arguments)
        .args(["--locked", "--message-format", "json-render-diagnostics"])
        .env("RUSTC_WORKSPACE_WRAPPER", own)
        .env(WRAPPING, "1")
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output();
    let built = built.map_err(|error| format!("cargo did not start: {error}"))?;
    if !built.status.success() {
        return Err(format!("cargo {} failed", arguments.join(" ")));
    }
    let output = String::from_utf8_lossy(&built.stdout);
    let programs = output.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    });
    Ok(programs.collect())
}

/// Runs a program as cargo runs a test; its counts go into a file next to it.
fn count(root: &Path, program: &Path, arguments: &[&str]) -> Result<(), String> {
    let own = root.join("crates").join(SUBJECT);
    let mut command = Command::new(program);
    command.args(arguments).env("CARGO_MANIFEST_DIR", &own).current_dir(&own);
    command.env("LLVM_PROFILE_FILE", program.with_extension("profraw"));
    succeed(command.env_remove(proof_totals::VARIABLE)).map(drop)
}

fn export(tools: &Path, place: &Path, programs: &[PathBuf]) -> Result<String, String> {
    let merged = place.join("merged.profdata");
    let counted = programs.iter().map(|program| program.with_extension("profraw"));
    let mut merge = Command::new(tools.join("llvm-profdata"));
    merge.args(["merge", "--sparse", "--output"]).arg(&merged).args(counted);
    succeed(&mut merge)?;
    let mut export = Command::new(tools.join("llvm-cov"));
    export.args(["export", "--format", "lcov", "--instr-profile"]).arg(&merged);
    for program in programs {
        export.arg("--object").arg(program);
    }
    succeed(&mut export)
}

/// Runs a program that must succeed, and returns its output.
fn succeed(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => Err(format!("{name} failed:\n{text}{}", String::from_utf8_lossy(&output.stderr))),
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

/// Leaves out what the tests in the last part of a file run.
fn without_tests(mut lines: Lines, read: &dyn Fn(&str) -> std::io::Result<String>) -> Lines {
    for (file, lines) in &mut lines {
        let text = read(file).unwrap_or_default();
        if let Some(at) = text.find(TESTS) {
            let before = text[..at].lines().count() as u32;
            lines.retain(|number, _| *number <= before);
        }
    }
    lines
}

fn table(tests: &Lines, simulated: &Lines, all: &Lines) -> String {
    let run = |lines: Option<&BTreeMap<u32, u64>>| {
        lines.map_or(0, |lines| lines.values().filter(|count| 0 < **count).count())
    };
    let line = |name: &str, row: [&dyn std::fmt::Display; 4]| {
        format!("{name:<36} {:>6} {:>9} {:>15} {:>17}\n", row[0], row[1], row[2], row[3])
    };
    let heads: [&dyn std::fmt::Display; 4] =
        [&"lines", &"by tests", &"and simulation", &"and planted bugs"];
    let mut text = line("file", heads);
    let mut sums = [0; 4];
    for (file, lines) in all {
        let of = [tests, simulated, all].map(|part| run(part.get(file)));
        let row = [lines.len(), of[0], of[1], of[2]];
        text += &line(file, row.each_ref().map(|count| count as _));
        sums.iter_mut().zip(row).for_each(|(sum, count)| *sum += count);
    }
    text + &line("all", sums.each_ref().map(|count| count as _))
}

/// The lines that nothing ran, a file a line.
fn missing(all: &Lines) -> String {
    let mut text = String::new();
    for (file, lines) in all {
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
                    SF:/x/crates/ledger/src/state.rs\nDA:1,2\nDA:3,0\nDA:7,0\nend_of_record\n";
        let source = |file: &str| {
            assert_eq!(file, "state.rs");
            Ok(format!("a\nb\nc\nd\n\n{TESTS}\n    fn f() {{}}\n}}\n"))
        };
        let all = without_tests(parse(text), &source);
        assert_eq!(missing(&all), "crates/ledger/src/state.rs: 3\n");
        let tests = parse("SF:crates/ledger/src/state.rs\nDA:2,5\n");
        let table = table(&tests, &tests, &all);
        let last = table.lines().last().expect("there is a sum");
        assert_eq!(last.split_whitespace().collect::<Vec<_>>(), ["all", "3", "1", "1", "2"]);
    }
}
