//! Long functions: only those in the ratchet file, which may only shrink, exceed 70 lines. Tests
//! are exempt, because a table of cases may have any length.

use std::collections::BTreeMap;

use super::Finding;
use super::tree::{SourceFile, Tree, closing_brace, line_of};

const LINES_MAX: usize = 70;
pub(crate) const RATCHET: &str = "crates/xtask/long-functions.txt";

const MEND_LONG: &str = "split it; only with a reason add it to crates/xtask/long-functions.txt";
const MEND_GROWN: &str = "split it: a listed function may only shrink";
const MEND_SHRUNK: &str = "lower the figure, so that it cannot grow back";
const MEND_GONE: &str = "remove the line";
const MEND_FORM: &str = "write path::function lines, or begin with # for a comment";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = BTreeMap::new();
    for file in tree.rust().filter(|file| !file.is_generated()) {
        let long = |found: &Function<'_>| LINES_MAX < found.lines && !file.is_test(found.line);
        for function in functions(file).into_iter().filter(long) {
            let key = format!("{}::{}", file.path, function.name);
            let longest = found.entry(key).or_insert((file, function));
            if longest.1.lines < function.lines {
                *longest = (file, function);
            }
        }
    }
    let text = tree.get(RATCHET).map_or("", |file| file.text.as_str());
    let mut findings = Vec::new();
    let mut listed = BTreeMap::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !is_comment(line)) {
        match entry(line) {
            Some((key, lines)) => drop(listed.insert(key, (index + 1, lines))),
            None => findings.push(Finding::new(RATCHET, index + 1, "not readable", MEND_FORM)),
        }
    }
    for (key, (file, function)) in &found {
        let Function { name, line, lines } = *function;
        let allowed = listed.get(key.as_str()).map(|(_, lines)| *lines);
        let (limit, mend) = allowed.map_or((LINES_MAX, MEND_LONG), |limit| (limit, MEND_GROWN));
        if limit < lines {
            let what = format!("function {name} has {lines} lines, {limit} at most");
            findings.push(Finding::new(&file.path, line, what, mend));
        }
    }
    for (key, (line, lines)) in listed {
        let mend = match found.get(key) {
            None => MEND_GONE,
            Some((_, function)) if function.lines < lines => MEND_SHRUNK,
            Some(_) => continue,
        };
        let now = found.get(key).map_or_else(
            || format!("{key} is gone or within {LINES_MAX} lines"),
            |(_, function)| format!("{key} has only {} lines now", function.lines),
        );
        findings.push(Finding::new(RATCHET, line, now, mend));
    }
    findings
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Function<'a> {
    name: &'a str,
    line: usize,
    lines: usize,
}

/// Every function with a body, also those inside others.
fn functions(file: &SourceFile) -> Vec<Function<'_>> {
    let code = file.code.as_str();
    let starts = code.match_indices("fn ").filter(|(at, _)| {
        !code[..*at].ends_with(|found: char| found.is_alphanumeric() || found == '_')
    });
    starts.filter_map(|(at, _)| function(code, at)).collect()
}

fn function(code: &str, at: usize) -> Option<Function<'_>> {
    let rest = code[at + 3..].trim_start();
    let len = rest.find(|found: char| !found.is_alphanumeric() && found != '_')?;
    if len == 0 {
        return None;
    }
    let open = body(code, at)?;
    let (first, last) = (line_of(code, at), line_of(code, closing_brace(code, open)?));
    Some(Function { name: &rest[..len], line: first, lines: last - first + 1 })
}

/// Start of the body: the first brace outside all brackets; `None` for a mere declaration.
fn body(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.checked_sub(1)?,
            b'{' if depth == 0 => return Some(at),
            b';' if depth == 0 => return None,
            _ => (),
        }
    }
    None
}

fn is_comment(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#')
}

fn entry(line: &str) -> Option<(&str, usize)> {
    let (key, lines) = line.split_once(' ')?;
    Some((key, lines.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    // {\n".repeat(lines - 2))
    }

    #[test]
    fn functions_are_measured_from_name_to_closing_brace() {
        let source = "trait T { fn declared(&self) -> [u8; 3]; }\n\
                      pub fn one<F: Fn(&str) -> u8>(f: F) -> u8 { f(\"}\") }\n\
                      fn outer(\n    a: u8,\n) -> u8\nwhere\n    u8: Copy,\n{\n\
                      \x20   fn inner() {}\n    a\n}\n\
                      type Call = fn (u8) -> u8;\n";
        let tree = Tree::of(&[("a.rs", source)]);
        let found: Vec<_> = functions(&tree.files[0])
            .into_iter()
            .map(|function| (function.name, function.line, function.lines))
            .collect();
        assert_eq!(found, [("one", 2, 1), ("outer", 3, 9), ("inner", 9, 1)]);
    }

    #[test]
    fn a_listed_function_may_only_shrink() {
        for (lines, ratchet, expected) in [
            (70, "", ""),
            (71, "", "a.rs:1: function big has 71 lines, 70 at most"),
            (80, "# Reasons.\na.rs::big 80", ""),
            (81, "a.rs::big 80", "a.rs:1: function big has 81 lines, 80 at most"),
            (
                79,
                "a.rs::big 80",
                "crates/xtask/long-functions.txt:1: a.rs::big has only 79 lines now",
            ),
            (
                70,
                "a.rs::big 80",
                "crates/xtask/long-functions.txt:1: a.rs::big is gone or within 70 lines",
            ),
            (70, "a.rs::big many", "crates/xtask/long-functions.txt:1: not readable"),
        ] {
            let tree = Tree::of(&[("a.rs", &long("big", lines)), (RATCHET, ratchet)]);
            let found: Vec<_> = check(&tree)
                .into_iter()
                .map(|finding| format!("{}:{}: {}", finding.path, finding.line, finding.what))
                .collect();
            let expected: Vec<_> = [expected].into_iter().filter(|what| !what.is_empty()).collect();
            assert_eq!(found, expected, "{lines} lines, {ratchet:?}");
        }
    }
}
