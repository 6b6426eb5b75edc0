//! Text files: links resolve, and there are no tabs and no unfinished work markers.

use super::Finding;
use super::tree::{SourceFile, Tree};

/// Put together here, so that this file does not contain them.
const LATER: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

const MEND_LINK: &str = "name a file of the repository, from the document's own place";
const MEND_TAB: &str = "use blanks";
const MEND_LATER: &str = "do it, or write down as a limit what is not done";

/// `exists` is asked with a path from the root.
pub(crate) fn check(tree: &Tree, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path != "Cargo.lock") {
        findings.extend(lines(file));
        if file.path.ends_with(".md") {
            findings.extend(links(file, &exists));
        }
    }
    findings
}

fn lines(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if line.contains('\t') {
            findings.push(Finding::new(&file.path, index + 1, "a tab", MEND_TAB));
        }
        let mut words = line.split(|found: char| !found.is_alphanumeric() && found != '_');
        if let Some(word) = words.find(|word| LATER.contains(word)) {
            let what = format!("the word {word}");
            findings.push(Finding::new(&file.path, index + 1, what, MEND_LATER));
        }
    }
    findings
}

fn links(file: &SourceFile, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fenced = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in targets(&without_code(line)) {
            if is_relative(&target) && !resolves(&file.path, &target, &exists) {
                let what = format!("the link to {target} leads nowhere");
                findings.push(Finding::new(&file.path, index + 1, what, MEND_LINK));
            }
        }
    }
    findings
}

/// The line without its text between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Targets of `[text](target)` and `[text]: target`.
fn targets(line: &str) -> Vec<String> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let reference = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
        .and_then(|(_, target)| target.split_whitespace().next());
    inline.chain(reference).map(str::to_owned).collect()
}

fn is_relative(target: &str) -> bool {
    let scheme = ["http://", "https://", "mailto:"];
    !target.starts_with('#') && !scheme.iter().any(|scheme| target.starts_with(scheme))
}

fn resolves(document: &str, target: &str, exists: impl Fn(&str) -> bool) -> bool {
    let path = target.split('#').next().unwrap_or_default();
    let mut place: Vec<&str> = document.split('/').collect();
    place.pop();
    for part in path.split('/') {
        match part {
            "" | "." => (),
            ".." if place.pop().is_none() => return false,
            ".." => (),
            part => place.push(part),
        }
    }
    exists(&place.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_of(path: &str, text: &str) -> Vec<(usize, String)> {
        let tree = Tree::of(&[(path, text)]);
        let known = ["README.md", "docs/guide.md", "docs", "crates/ledger/src/lib.rs"];
        let found = check(&tree, |path| known.contains(&path));
        found.into_iter().map(|finding| (finding.line, finding.what)).collect()
    }

    #[test]
    fn relative_links_lead_somewhere() {
        for (path, text, expected) in [
            ("README.md", "See [guide](docs/guide.md#start) and [docs](docs/).", ""),
            ("README.md", "See [it](docs/gone.md).", "docs/gone.md"),
            ("docs/guide.md", "Up [here](../README.md), [code](../crates/ledger/src/lib.rs)", ""),
            ("docs/guide.md", "Too far [up](../../README.md)", "../../README.md"),
            ("docs/guide.md", "[web](https://example.org), [mail](mailto:a@b), [part](#part)", ""),
            ("docs/guide.md", "Code `[a](b)` and\n```\n[a](b)\n```\n", ""),
            ("docs/guide.md", "[ref]: missing.md", "missing.md"),
            ("docs/guide.md", "[titled](gone.md \"a title\")", "gone.md"),
            ("docs/guide.rs", "// [a](b)", ""),
        ] {
            let found: Vec<_> = check_of(path, text).into_iter().map(|found| found.1).collect();
            let expected: Vec<_> = [expected]
                .iter()
                .filter(|target| !target.is_empty())
                .map(|target| format!("the link to {target} leads nowhere"))
                .collect();
            assert_eq!(found, expected, "{path}: {text}");
        }
    }

    #[test]
    fn nothing_is_left_for_later_and_no_line_has_tabs() {
        for later in LATER {
            let found = check_of("a.rs", &format!("fn f() {{}}\n// {later}: more\n"));
            assert_eq!(found, [(2, format!("the word {later}"))]);
        }
        assert_eq!(check_of("a.md", "a\n\tb"), [(2, "a tab".to_owned())]);
        assert_eq!(check_of("a.md", "a todo list, METODO, FIXMEUP"), []);
        assert_eq!(check_of("Cargo.lock", "\t"), []);
    }
}
