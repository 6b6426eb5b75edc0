//! House rules that no compiler checks.
//!
//! Each check is a pure function from the read files ([`Tree`], [`Workspace`]) to findings. A
//! finding names the file and line, the problem, and the remedy.

mod code;
mod codemap;
mod cycles;
mod dependencies;
mod functions;
mod lexer;
mod rings;
mod text_files;
mod tree;
mod wildcards;
mod words;
mod workspace;

use std::path::Path;

use tree::Tree;
use workspace::Workspace;

/// One breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// From 1; 0 when it is about the whole file.
    line: usize,
    what: String,
    mend: &'static str,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>, mend: &'static str) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), mend }
    }
}

/// Checks the repository and prints the findings. True if there is no finding.
pub(crate) fn run(root: &Path) -> bool {
    let found = check(root).inspect(|findings| print!("{}", report(findings)));
    let findings = found.inspect_err(|error| eprintln!("tidy: {error}"));
    findings.is_ok_and(|findings| findings.is_empty())
}

/// Lists the places of words that are counted and whose area, path or word contains the text.
pub(crate) fn list_words(root: &Path, text: &str) -> bool {
    let tree = Tree::read(root);
    succeeds(tree.map(|tree| print!("{}", words::list(&tree, text))))
}

/// Writes lower counts of words down.
pub(crate) fn lower_words(root: &Path) -> bool {
    succeeds(Tree::read(root).and_then(|tree| words::lower(root, &tree)))
}

fn succeeds(result: Result<(), String>) -> bool {
    result.inspect_err(|error| eprintln!("tidy: {error}")).is_ok()
}

fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let tree = Tree::read(root)?;
    let workspace = Workspace::read(root)?;
    let mut findings = [
        rings::check(&tree, &workspace),
        codemap::check(&tree, &workspace),
        code::check(&tree),
        cycles::check(&tree),
        functions::check(&tree),
        wildcards::check(&tree),
        words::check(&tree),
        dependencies::check(&tree, &workspace),
        text_files::check(&tree, |path| root.join(path).exists()),
    ]
    .concat();
    findings.sort();
    Ok(findings)
}

fn report(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { path, line, what, mend } in findings {
        text += &match line {
            0 => format!("{path}: {what}\n    mend: {mend}\n"),
            line => format!("{path}:{line}: {what}\n    mend: {mend}\n"),
        };
    }
    match findings.len() {
        0 => "tidy: nothing to mend\n".to_owned(),
        1 => text + "tidy: 1 finding\n",
        count => text + &format!("tidy: {count} findings\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_where_what_and_how_to_mend() {
        let findings = [
            Finding::new("a.rs", 3, "a tab", "use blanks"),
            Finding::new("Cargo.lock", 0, "too long", "remove"),
        ];
        assert_eq!(
            report(&findings),
            "a.rs:3: a tab\n    mend: use blanks\n\
             Cargo.lock: too long\n    mend: remove\ntidy: 2 findings\n"
        );
        assert_eq!(report(&[]), "tidy: nothing to mend\n");
    }
}
