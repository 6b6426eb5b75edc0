//! The codemap names every crate and no other, and every crate takes the workspace's lints and
//! versions.

use super::Finding;
use super::tree::{SourceFile, Tree};
use super::workspace::Workspace;

const MAP: &str = "ARCHITECTURE.md";
const MEND_MISSING: &str = "add a row that begins with | `crates/<name>` | to its codemap table";
const MEND_STALE: &str = "remove or rename the row: the codemap never lies";

pub(crate) fn check(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    let rows = tree.get(MAP).map(rows).unwrap_or_default();
    let crates: Vec<_> = workspace
        .members
        .iter()
        .filter_map(|member| member.manifest.strip_suffix("/Cargo.toml"))
        .collect();
    for path in &crates {
        if !rows.iter().any(|(_, named)| named == path) {
            let what = format!("`{path}` is missing in the codemap");
            findings.push(Finding::new(MAP, 0, what, MEND_MISSING));
        }
    }
    for (line, named) in rows.into_iter().filter(|(_, named)| !crates.contains(named)) {
        let what = format!("the codemap names `{named}`, which is no crate");
        findings.push(Finding::new(MAP, line, what, MEND_STALE));
    }
    for member in &workspace.members {
        if let Some(file) = tree.get(&member.manifest) {
            findings.extend(manifest(file));
        }
    }
    findings
}

/// The crates in the first cells of tables.
fn rows(file: &SourceFile) -> Vec<(usize, &str)> {
    let cell = |line: &'_ str| -> Option<(usize, usize)> {
        let start = line.strip_prefix("| `")?;
        start.starts_with("crates/").then_some(())?;
        Some((3, start.find('`')? + 3))
    };
    let numbered = file.text.lines().enumerate();
    numbered
        .filter_map(|(index, line)| cell(line).map(|(start, end)| (index + 1, &line[start..end])))
        .collect()
}

fn manifest(file: &SourceFile) -> Vec<Finding> {
    let table = match file.text.parse::<toml::Table>() {
        Ok(table) => table,
        Err(error) => {
            let what = format!("not readable: {error}");
            return vec![Finding::new(&file.path, 0, what, "write valid TOML")];
        }
    };
    let mut findings = Vec::new();
    let inherits = |value: Option<&toml::Value>| {
        value.and_then(|value| value.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
    };
    if !inherits(table.get("lints")) {
        let mend = "add [lints] with workspace = true";
        findings.push(Finding::new(&file.path, 0, "the workspace's lints are not in force", mend));
    }
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let entries = table.get(section).and_then(toml::Value::as_table).into_iter().flatten();
        for (name, _) in entries.filter(|(_, entry)| !inherits(Some(entry))) {
            let what = format!("`{name}` has its own version");
            let mend = "state it in [workspace.dependencies] and write name.workspace = true";
            findings.push(Finding::new(&file.path, 0, what, mend));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::workspace::Member;
    use super::*;

    fn check_of(map: &str, manifest: &str) -> Vec<(usize, String)> {
        let tree = Tree::of(&[(MAP, map), ("crates/ledger/Cargo.toml", manifest)]);
        let members = vec![Member {
            name: "ledger".to_owned(),
            manifest: "crates/ledger/Cargo.toml".to_owned(),
            dependencies: Vec::new(),
        }];
        let workspace = Workspace { members, externals: Vec::new() };
        let found = check(&tree, &workspace).into_iter();
        found.map(|finding| (finding.line, finding.what)).collect()
    }

    #[test]
    fn the_map_and_the_tree_agree() {
        let manifest = "[lints]\nworkspace = true\n";
        let good = "| crate | what |\n|---|---|\n| `crates/ledger` | kernel |\n";
        assert_eq!(check_of(good, manifest), []);
        let missing = "| `ledger` | kernel |\n";
        let what = "`crates/ledger` is missing in the codemap".to_owned();
        assert_eq!(check_of(missing, manifest), [(0, what)]);
        let stale = format!("{good}| `crates/gone` | was |\n");
        let what = "the codemap names `crates/gone`, which is no crate".to_owned();
        assert_eq!(check_of(&stale, manifest), [(4, what)]);
    }

    #[test]
    fn manifests_take_lints_and_versions_from_the_workspace() {
        let map = "| `crates/ledger` | kernel |\n";
        for (manifest, expected) in [
            ("[lints]\nworkspace = true\n[dependencies]\nbytes.workspace = true\n", vec![]),
            ("", vec!["the workspace's lints are not in force"]),
            ("[lints.rust]\nunused = \"warn\"\n", vec!["the workspace's lints are not in force"]),
            (
                "[lints]\nworkspace = true\n[dev-dependencies]\nbytes = \"1\"\n",
                vec!["`bytes` has its own version"],
            ),
        ] {
            let found: Vec<_> = check_of(map, manifest).into_iter().map(|found| found.1).collect();
            assert_eq!(found, expected, "{manifest}");
        }
    }
}
