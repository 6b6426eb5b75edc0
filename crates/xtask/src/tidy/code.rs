//! Code that is forbidden in every Rust file of the repository.

use super::Finding;
use super::tree::{SourceFile, Tree};

const COLUMNS_MAX: usize = 100;

/// A piece of code that is banned, why, and how to mend it.
struct Ban {
    found: fn(&str) -> bool,
    what: &'static str,
    mend: &'static str,
}

const BANS: [Ban; 5] = [
    Ban {
        found: |code| is_attribute(code) && names_call(code, "allow"),
        what: "an allow attribute",
        mend: "use #[expect(.., reason = \"..\")]",
    },
    Ban {
        found: |code| is_attribute(code) && code.contains("[ignore"),
        what: "an ignored test",
        mend: "make it fast and certain, or move it to the steps of `cargo xtask nightly`",
    },
    Ban {
        found: |code| code.contains("todo!") || code.contains("unimplemented!"),
        what: "an unfinished place",
        mend: "finish it, or return an error",
    },
    Ban {
        found: |code| code.contains("unbounded_channel") || names_call(code, "unbounded"),
        what: "an unbounded channel",
        mend: "give it a bound and refuse at once when it is full",
    },
    Ban {
        found: names_std_channel,
        what: "an unbounded channel",
        mend: "use mpsc::sync_channel with a bound",
    },
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().flat_map(|file| bans(file).into_iter().chain(widths(file))).collect()
}

fn bans(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, code) in file.code_lines() {
        for ban in BANS.iter().filter(|ban| (ban.found)(code)) {
            findings.push(Finding::new(&file.path, line, ban.what, ban.mend));
        }
    }
    findings
}

fn widths(file: &SourceFile) -> Vec<Finding> {
    if file.is_generated() {
        return Vec::new();
    }
    let numbered = file.text.lines().zip(file.code.lines()).enumerate();
    numbered
        .map(|(index, (line, code))| (index + 1, line.chars().count(), code))
        .filter(|(_, columns, _)| COLUMNS_MAX < *columns)
        .filter(|(line, _, code)| !(file.is_test(*line) && is_text(code)))
        .map(|(line, columns, _)| {
            let what = format!("{columns} columns, {COLUMNS_MAX} at most");
            Finding::new(&file.path, line, what, "wrap it")
        })
        .collect()
}

/// A line of a test that is long only because of a text in it: an expected message, kept whole.
fn is_text(code: &str) -> bool {
    let words = code.split_whitespace().map(|word| word.chars().count() + 1);
    words.sum::<usize>() <= COLUMNS_MAX
}

fn is_attribute(code: &str) -> bool {
    code.contains("#[") || code.contains("#![")
}

fn names_call(code: &str, name: &str) -> bool {
    let inside = |found: char| found.is_alphanumeric() || found == '_';
    code.match_indices(name).any(|(at, _)| {
        let rest = &code[at + name.len()..];
        !code[..at].ends_with(inside) && (rest.starts_with('(') || rest.starts_with("::<"))
    })
}

/// `channel()` without a bound; a oneshot channel holds one message.
fn names_std_channel(code: &str) -> bool {
    code.match_indices("channel").any(|(at, name)| {
        let rest = &code[at + name.len()..];
        let arguments = match rest.strip_prefix("::<") {
            Some(generic) => generic.split_once(">(").map_or("", |(_, arguments)| arguments),
            None => rest.strip_prefix('(').unwrap_or(""),
        };
        let before = &code[..at];
        arguments.starts_with(')')
            && (before.ends_with("mpsc::") || before.ends_with(['=', ' ', '(']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_code_is_found_and_its_likes_are_not() {
        for (code, expected) in [
            ("#[allow(dead_code)]", "an allow attribute"),
            ("#![allow(clippy::all)]", "an allow attribute"),
            ("#[cfg_attr(test, allow(unused))]", "an allow attribute"),
            ("#[expect(dead_code, reason = \"allow(x)\")]", ""),
            ("self.allow(request)", ""),
            ("#[ignore]", "an ignored test"),
            ("#[ignore = \"slow\"]", "an ignored test"),
            ("// #[ignore]", ""),
            ("fn f() { todo!() }", "an unfinished place"),
            ("fn f() { unimplemented!() }", "an unfinished place"),
            ("let (a, b) = mpsc::unbounded_channel();", "an unbounded channel"),
            ("let (a, b) = flume::unbounded::<u8>();", "an unbounded channel"),
            ("let (a, b) = std::sync::mpsc::channel();", "an unbounded channel"),
            ("let (a, b) = channel::<u8>();", "an unbounded channel"),
            ("let (a, b) = mpsc::channel(64);", ""),
            ("let (a, b) = oneshot::channel();", ""),
            ("let (a, b) = mpsc::sync_channel(1);", ""),
        ] {
            let found = check(&Tree::of(&[("crates/switch/src/a.rs", code)]));
            let what: Vec<_> = found.iter().map(|finding| finding.what.as_str()).collect();
            let expected: Vec<_> = [expected].into_iter().filter(|what| !what.is_empty()).collect();
            assert_eq!(what, expected, "{code}");
        }
    }

    #[test]
    fn lines_are_counted_in_characters() {
        let wide = "é".repeat(101);
        let lines = format!("{}\n// {wide}\n", "é".repeat(100));
        let tree = Tree::of(&[("a.rs", &lines), ("b.md", &wide)]);
        let found = check(&tree);
        assert_eq!((found.len(), found[0].line), (1, 2));
        assert_eq!(found[0].what, "104 columns, 100 at most");
        let generated = format!("// @generated by xtask\n{wide}");
        assert_eq!(check(&Tree::of(&[("a.rs", &generated)])), []);
    }
}
