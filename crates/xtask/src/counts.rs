//! Instructions per operation, counted by callgrind, which other load on the machine does not
//! affect.
//!
//! The example `counts` of `microbench` performs every operation a known number of times inside one
//! function; callgrind collects only there and dumps once per call. The committed table has the
//! last counts; `--check` reports counts that have moved since. Counts depend on the compiler, so
//! they are not part of the merge checks.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// Path of the table.
const TABLE: &str = "docs/performance/counts.md";
/// A count that moved by more than this many per thousand is reported.
const PER_MILLE_MAX: u64 = 30;
/// The function of the example inside which instructions are collected.
const COLLECTED: &str = "counts::collected";

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Count {
    group: String,
    operation: String,
    /// Instructions per operation.
    instructions: u64,
}

/// Counts, and writes the table or, with `check`, compares with it. Returns whether this succeeded.
pub(crate) fn run(root: &Path, check: bool) -> bool {
    match count(root).and_then(|counts| conclude(root, &counts, check)) {
        Ok(passed) => passed,
        Err(problem) => {
            eprintln!("counts: {problem}");
            false
        }
    }
}

fn conclude(root: &Path, counts: &[Count], check: bool) -> Result<bool, String> {
    let path = root.join(TABLE);
    let table = table(counts);
    print!("{table}");
    if !check {
        fs::write(&path, table).map_err(|error| format!("cannot write {TABLE}: {error}"))?;
        return Ok(true);
    }
    let before = fs::read_to_string(&path).map_err(|error| format!("no {TABLE}: {error}"))?;
    let moved = moved(&parse(&before), counts);
    moved.iter().for_each(|line| println!("{line}"));
    if moved.is_empty() {
        println!("No count moved by more than {} %.", PER_MILLE_MAX / 10);
    } else {
        println!("If this is meant, or the compiler is another one: cargo xtask counts");
    }
    Ok(moved.is_empty())
}

fn count(root: &Path) -> Result<Vec<Count>, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = [
        "build",
        "--profile",
        "dist",
        "--locked",
        "--package",
        "microbench",
        "--example",
        "counts",
    ];
    let built = Command::new(cargo).args(build).current_dir(root).status();
    if !built.map_err(|error| format!("cargo did not start: {error}"))?.success() {
        return Err("the example `counts` of microbench does not build".into());
    }
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let target = root.join(PathBuf::from(target));
    let dumps = target.join("counts");
    let fail = |error: std::io::Error| format!("cannot use {}: {error}", dumps.display());
    if dumps.exists() {
        fs::remove_dir_all(&dumps).map_err(fail)?;
    }
    fs::create_dir_all(&dumps).map_err(fail)?;
    let output = callgrind(&target.join("dist/examples/counts"), &dumps)?;
    output.lines().enumerate().map(|(at, line)| read(line, &dumps, at + 1)).collect()
}

/// Runs the example and returns its output: one line per dump.
fn callgrind(example: &Path, dumps: &Path) -> Result<String, String> {
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", dumps.join("dump").display()))
        .arg(format!("--toggle-collect={COLLECTED}"))
        .arg(format!("--dump-after={COLLECTED}"))
        .arg(example)
        .stderr(Stdio::null())
        .output();
    let output = output.map_err(|error| {
        format!("valgrind did not start ({error}); install it, on Debian: apt-get install valgrind")
    })?;
    if !output.status.success() {
        return Err("the example failed under valgrind; run it without to see why".into());
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

/// One line of the example with its dump.
fn read(line: &str, dumps: &Path, number: usize) -> Result<Count, String> {
    let mut parts = line.splitn(3, '\t');
    let (Some(group), Some(repeated), Some(operation)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err(format!("unexpected output of the example: {line:?}"));
    };
    let repeated: u64 =
        repeated.parse().map_err(|_| format!("unexpected output of the example: {line:?}"))?;
    let path = dumps.join(format!("dump.{number}"));
    let dump =
        fs::read_to_string(&path).map_err(|error| format!("no dump for {operation:?}: {error}"))?;
    let total = dump.lines().find_map(|line| line.strip_prefix("totals: "));
    let total: u64 = total
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| format!("{} has no totals", path.display()))?;
    Ok(Count { group: group.into(), operation: operation.into(), instructions: total / repeated })
}

const INTRODUCTION: &str = "\
# Instructions per operation

Written by `cargo xtask counts`; `cargo xtask counts --check` lists counts that moved by more
than 3 %. Counted by callgrind, so no other load on the machine moves a figure; another compiler
or processor does. Callgrind knows no AVX-512 and no SHA instructions: hashes, and with them a
fulfil, count for more here than they take.

| group | operation | instructions |
|---|---|---:|
";

fn table(counts: &[Count]) -> String {
    let mut text = INTRODUCTION.to_owned();
    for Count { group, operation, instructions } in counts {
        writeln!(text, "| {group} | {operation} | {instructions} |")
            .expect("writing to a string does not fail");
    }
    text
}

fn parse(table: &str) -> Vec<(String, u64)> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let (_group, operation, instructions) = (cells.next()?, cells.next()?, cells.next()?);
        Some((operation.to_owned(), instructions.trim_end_matches(" |").parse().ok()?))
    };
    table.lines().filter_map(row).collect()
}

/// Counts that moved too far, and added or removed ones, one line each.
fn moved(before: &[(String, u64)], after: &[Count]) -> Vec<String> {
    let mut lines = Vec::new();
    for count in after {
        let Some((name, was)) = before.iter().find(|(name, _)| *name == count.operation) else {
            lines.push(format!("{}: new", count.operation));
            continue;
        };
        let by = was.abs_diff(count.instructions);
        if by * 1_000 > was * PER_MILLE_MAX {
            lines.push(format!("{name}: {was} before, {} now", count.instructions));
        }
    }
    let gone = |name: &&String| after.iter().all(|count| count.operation != **name);
    lines.extend(
        before.iter().map(|(name, _)| name).filter(gone).map(|name| format!("{name}: gone")),
    );
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(operation: &str, instructions: u64) -> Count {
        Count { group: "codec".into(), operation: operation.into(), instructions }
    }

    #[test]
    fn a_table_is_read_back() {
        let text = table(&[count("one", 1_000), count("two", 20)]);
        assert!(text.ends_with("| codec | two | 20 |\n"), "{text}");
        assert_eq!(parse(&text), [("one".to_owned(), 1_000), ("two".to_owned(), 20)]);
    }

    #[test]
    fn only_what_moved_too_far_is_told() {
        let before = parse(&table(&[count("same", 1_000), count("gone", 1), count("far", 1_000)]));
        let after = [count("same", 1_030), count("far", 969), count("fresh", 1)];
        assert_eq!(
            moved(&before, &after),
            ["far: 1000 before, 969 now", "fresh: new", "gone: gone"]
        );
    }
}
