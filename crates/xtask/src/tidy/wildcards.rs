//! No wildcard arm over commands, changes, outcomes, notice kinds or tables: a new one must be a
//! compile error wherever it is matched.
//!
//! A match counts when one of its patterns names a variant by the enum, and its last arm is `_ =>`
//! or `_ if`. Variants that are imported by name are not detected.

use super::Finding;
use super::tree::{Tree, line_of};

const ENUMS: [&str; 23] = [
    "Command::Genesis",
    "Command::Tick",
    "Command::Prepare",
    "Command::Fulfil",
    "Command::Abort",
    "Command::FinishDeliveries",
    "Command::ChangeParties",
    "Command::Administer",
    "Change::",
    "PostingChange::",
    "TransferChange::",
    "TransferMessage::",
    "Outcome::",
    "AdminOutcome::",
    "AnswerOutcome::",
    "ErrorOutcome::",
    "ExplainedOutcome::",
    "PartiesOutcome::",
    "PrepareOutcome::",
    "AnswerEnd::",
    "NoticeKind::",
    "StatePart::",
    "Table::",
];

const MEND: &str = "name the other variants, or match one of the narrower enums of the ledger";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        for (at, _) in file.code.match_indices("_ =>") {
            let is_arm = file.code[..at].ends_with(char::is_whitespace);
            let named = named_before(&file.code[..at]).filter(|_| is_arm);
            findings.extend(named.map(|name| {
                let what = format!("a wildcard arm over {}", name.trim_end_matches(':'));
                Finding::new(&file.path, line_of(&file.code, at), what, MEND)
            }));
        }
    }
    findings
}

/// The enum that an earlier pattern of the same match names; `code` ends before the last arm.
fn named_before(code: &str) -> Option<&'static str> {
    let (mut depth, mut end) = (0, None);
    for (at, byte) in code.bytes().enumerate().rev() {
        match byte {
            b'}' | b')' | b']' => depth += 1,
            b'{' | b'(' | b'[' if depth == 0 => return None,
            b'{' | b'(' | b'[' => depth -= 1,
            b'>' if depth == 0 && code[..at].ends_with('=') => end = Some(at - 1),
            _ => {}
        }
        // A brace ends the arm before, or a pattern of named fields.
        let ends_arm = |until: usize| !code[at + 1..until].trim().is_empty();
        let begins = at == 0
            || (depth == 0 && byte == b',')
            || (depth == 1 && byte == b'}' && end.is_some_and(ends_arm));
        if let Some(until) = end.filter(|_| begins || (depth == 0 && opens(code, at))) {
            let pattern = &code[at..until];
            if let Some(name) = ENUMS.iter().find(|name| names(pattern, name)) {
                return Some(name);
            }
            end = None;
        }
    }
    None
}

/// Whether the pattern that follows is the first of its match.
fn opens(code: &str, at: usize) -> bool {
    code[..at].ends_with('{')
}

fn names(pattern: &str, name: &str) -> bool {
    pattern.match_indices(name).any(|(at, _)| {
        !pattern[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_over_what_must_be_exhaustive_is_found() {
        for (source, expected) in [
            ("match it {\n    Change::A(a) => a,\n    _ => 0,\n}", 1),
            ("match it {\n    Change::A(a) => {\n        a\n    }\n    _ => 0,\n}", 1),
            (
                "match it {\n    Command::Tick | Command::Abort(_) => 1,\n    2 => 1,\n    _ => 0,\n}",
                1,
            ),
            ("match it {\n    NoticeKind::Error { .. } => 1,\n    _ => 0,\n}", 1),
            ("match it {\n    (1, Outcome::Expired) => 1,\n    _ => 0,\n}", 1),
            // Another enum, another match, a result.
            ("match it {\n    Command::Bench(_) => 1,\n    _ => 0,\n}", 0),
            ("match it {\n    Exchange::A => 1,\n    _ => 0,\n}", 0),
            ("match it {\n    A => match b { Change::A => 1, Change::B => 2 },\n    _ => 0,\n}", 0),
            ("match it {\n    1 => Outcome::Expired,\n    _ => Outcome::Aborted,\n}", 0),
            ("match it {\n    Change::A(_) => 0,\n    Change::B(_) => 1,\n}", 0),
        ] {
            let tree = Tree::of(&[("a.rs", source)]);
            assert_eq!(check(&tree).len(), expected, "{source}");
        }
    }
}
