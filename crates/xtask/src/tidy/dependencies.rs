//! Checks of dependencies: few, with a reason, from the registry, under an accepted licence.

use super::Finding;
use super::tree::Tree;
use super::workspace::{External, Workspace};

const PACKAGES_MAX: usize = 450;
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
const DECISION: &str = "docs/decisions/0001-dependencies.md";
const DENY: &str = "deny.toml";

/// Mirrored in deny.toml for users of cargo-deny; a test compares the two.
const LICENCES: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Zlib",
];

const MEND_LICENCE: &str = "use another crate, or write our own";
const MEND_SOURCE: &str = "use a release from crates.io";
const MEND_LOCK: &str = "remove a dependency or switch off its default features";
const MEND_REASON: &str = "add a row | `name` | what for | licence | why | to the decision";
const MEND_UNUSED: &str = "remove it until a crate needs it";
const MEND_STALE: &str = "remove the row";

pub(crate) fn check(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let mut findings: Vec<_> = workspace.externals.iter().flat_map(external).collect();
    findings.extend(lock(tree));
    findings.extend(reasons(tree));
    findings.extend(unused(tree, workspace));
    findings
}

fn external(package: &External) -> Vec<Finding> {
    let External { name, version, licence, source } = package;
    let mut findings = Vec::new();
    if !accepts(licence) {
        let what = format!("`{name}` {version} has the licence {licence:?}");
        findings.push(Finding::new("Cargo.lock", 0, what, MEND_LICENCE));
    }
    if source != REGISTRY {
        let what = format!("`{name}` {version} comes from {source}");
        findings.push(Finding::new("Cargo.lock", 0, what, MEND_SOURCE));
    }
    findings
}

/// Whether an SPDX expression leaves us a choice within [`LICENCES`]. The old form with a slash
/// means `OR`.
fn accepts(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
    let accepted = any_of(&mut words);
    accepted && words.is_empty()
}

/// `words` are in reverse, so that the next one is popped.
fn any_of(words: &mut Vec<&str>) -> bool {
    let mut accepted = all_of(words);
    while words.pop_if(|word| *word == "OR").is_some() {
        accepted |= all_of(words);
    }
    accepted
}

fn all_of(words: &mut Vec<&str>) -> bool {
    let mut accepted = one(words);
    while words.pop_if(|word| *word == "AND").is_some() {
        accepted &= one(words);
    }
    accepted
}

fn one(words: &mut Vec<&str>) -> bool {
    match words.pop() {
        Some("(") => {
            let accepted = any_of(words);
            words.pop() == Some(")") && accepted
        }
        Some(name) if words.last() == Some(&"WITH") => {
            words.pop();
            let exception = words.pop().unwrap_or_default();
            LICENCES.contains(&format!("{name} WITH {exception}").as_str())
        }
        Some(name) => LICENCES.contains(&name),
        None => false,
    }
}

fn lock(tree: &Tree) -> Option<Finding> {
    let text = &tree.get("Cargo.lock")?.text;
    let count = text.lines().filter(|line| *line == "[[package]]").count();
    let what = format!("{count} packages, fewer than {PACKAGES_MAX} wanted");
    (PACKAGES_MAX <= count).then(|| Finding::new("Cargo.lock", 0, what, MEND_LOCK))
}

/// Every direct dependency has its reason, and no reason outlives its dependency.
fn reasons(tree: &Tree) -> Vec<Finding> {
    let direct = direct(tree);
    let given = given(tree);
    let mut findings = Vec::new();
    for name in &direct {
        if !given.iter().any(|(_, _, given)| given == name) {
            let what = format!("`{name}` of [workspace.dependencies] has no reason");
            findings.push(Finding::new(DECISION, 0, what, MEND_REASON));
        }
    }
    for (path, line, name) in given.into_iter().filter(|(_, _, name)| !direct.contains(name)) {
        let what = format!("a reason for `{name}`, which is no direct dependency");
        findings.push(Finding::new(path, line, what, MEND_STALE));
    }
    findings
}

/// Dependencies that are declared and reviewed but that no crate takes.
fn unused(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let is_used = |name: &String| {
        let mut taken = workspace.members.iter().flat_map(|member| &member.dependencies);
        taken.any(|dependency| dependency.name == *name)
    };
    let unused = direct(tree).into_iter().filter(|name| !is_used(name));
    unused
        .map(|name| Finding::new("Cargo.toml", 0, format!("no crate takes `{name}`"), MEND_UNUSED))
        .collect()
}

/// Names in `[workspace.dependencies]` that are not ours.
fn direct(tree: &Tree) -> Vec<String> {
    let text = tree.get("Cargo.toml").map_or("", |file| file.text.as_str());
    let table = text.parse::<toml::Table>().unwrap_or_default();
    let listed = table.get("workspace").and_then(|value| value.get("dependencies"));
    let entries = listed.and_then(toml::Value::as_table).into_iter().flatten();
    let theirs = entries.filter(|(_, entry)| entry.get("path").is_none());
    theirs.map(|(name, _)| name.clone()).collect()
}

/// Rows of the decision's table, and lines `# name: reason` of deny.toml.
fn given(tree: &Tree) -> Vec<(&'static str, usize, String)> {
    let row = |line: &str| Some(line.strip_prefix("| `")?.split_once("` |")?.0.to_owned());
    let comment = |line: &str| {
        let (name, reason) = line.strip_prefix("# ")?.split_once(": ")?;
        (!reason.is_empty() && !name.contains(' ')).then(|| name.to_owned())
    };
    let rows =
        numbered(tree, DECISION).filter_map(|(line, text)| Some((DECISION, line, row(text)?)));
    let comments =
        numbered(tree, DENY).filter_map(|(line, text)| Some((DENY, line, comment(text)?)));
    rows.chain(comments).collect()
}

fn numbered<'a>(tree: &'a Tree, path: &str) -> impl Iterator<Item = (usize, &'a str)> {
    let text = tree.get(path).map_or("", |file| file.text.as_str());
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
mod tests {
    use super::super::workspace::{Dependency, Member};
    use super::*;

    #[test]
    fn licences_are_read_as_expressions() {
        for (expression, expected) in [
            ("MIT", true),
            ("MIT OR Apache-2.0", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0-only", false),
            ("GPL-3.0-only OR MIT", true),
            ("GPL-3.0-only AND MIT", false),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("(MIT OR Apache-2.0) AND OpenSSL", false),
            ("MIT AND (GPL-2.0 OR BSD-3-Clause)", true),
            ("Unlicense OR MIT", true),
            ("Unlicense", false),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
            ("GPL-2.0 WITH Classpath-exception-2.0", false),
            ("", false),
            ("MIT OR", true),
            ("MIT MIT", false),
            ("(MIT", false),
        ] {
            assert_eq!(accepts(expression), expected, "{expression:?}");
        }
    }

    #[test]
    fn deny_toml_accepts_the_same_licences() {
        let table: toml::Table =
            include_str!("../../../../deny.toml").parse().expect("deny.toml is TOML");
        let allowed = table["licenses"]["allow"].as_array().expect("a list of licences");
        let allowed: Vec<_> = allowed.iter().filter_map(toml::Value::as_str).collect();
        assert_eq!(allowed, LICENCES);
    }

    #[test]
    fn packages_come_from_the_registry_and_are_few() {
        let package = |source: &str| External {
            name: "bytes".to_owned(),
            version: "1.0.0".to_owned(),
            licence: "MIT".to_owned(),
            source: source.to_owned(),
        };
        assert_eq!(external(&package(REGISTRY)), []);
        assert_eq!(external(&package("git+https://example.org/bytes")).len(), 1);
        for (count, expected) in [(449, None), (450, Some("450 packages, fewer than 450 wanted"))] {
            let tree = Tree::of(&[("Cargo.lock", &"[[package]]\n".repeat(count))]);
            assert_eq!(lock(&tree).map(|finding| finding.what).as_deref(), expected);
        }
    }

    #[test]
    fn a_dependency_is_declared_when_a_crate_takes_it() {
        let manifest = "[workspace.dependencies]\nbytes = \"1\"\nclap = \"4\"\n";
        let tree = Tree::of(&[("Cargo.toml", manifest)]);
        let taken = Dependency { name: "bytes".to_owned(), for_tests: false };
        let member = Member {
            name: "switch".to_owned(),
            manifest: "crates/switch/Cargo.toml".to_owned(),
            dependencies: vec![taken],
        };
        let workspace = Workspace { members: vec![member], externals: Vec::new() };
        let found = unused(&tree, &workspace);
        let what: Vec<_> = found.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(what, ["no crate takes `clap`"]);
    }

    #[test]
    fn every_direct_dependency_has_a_reason() {
        let manifest = "[workspace.dependencies]\nledger = { path = \"crates/ledger\" }\n\
                        bytes = \"1\"\nclap = { version = \"4\" }\n";
        for (decision, deny, expected) in [
            ("| `bytes` | x |\n| `clap` | y |\n", "", vec![]),
            ("| `bytes` | x |\n", "# clap: arguments\n# Who may read: everyone\n", vec![]),
            (
                "| `bytes` | x |\n",
                "",
                vec![(0, "`clap` of [workspace.dependencies] has no reason")],
            ),
            (
                "| `bytes` | x |\n| `clap` | y |\n| `gone` | z |\n",
                "",
                vec![(3, "a reason for `gone`, which is no direct dependency")],
            ),
        ] {
            let tree = Tree::of(&[("Cargo.toml", manifest), (DECISION, decision), (DENY, deny)]);
            let found = reasons(&tree);
            let found: Vec<_> =
                found.iter().map(|finding| (finding.line, finding.what.as_str())).collect();
            assert_eq!(found, expected);
        }
    }
}
