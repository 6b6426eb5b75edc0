//! Rings: dependencies point to the same or a lower ring, and the inner rings stay pure.

use super::Finding;
use super::tree::{SourceFile, Tree};
use super::workspace::{Member, Workspace};

/// The ring of each crate: the only place where it is written down for the machine.
const RINGS: &[(&str, Ring)] = &[
    ("ledger", Ring::Pure),
    ("record", Ring::Pure),
    ("fspiop", Ring::SansIo),
    ("model", Ring::SansIo),
    ("openapi", Ring::SansIo),
    ("ports", Ring::SansIo),
    ("sequencer", Ring::SansIo),
    ("delivery", Ring::SansIo),
    ("events", Ring::SansIo),
    ("adapter", Ring::Driver),
    ("alerts", Ring::Driver),
    ("blobs", Ring::Driver),
    ("encryption", Ring::Driver),
    ("journal", Ring::Driver),
    ("metrics", Ring::Driver),
    ("tls", Ring::Driver),
    ("traces", Ring::Driver),
    ("snapshots", Ring::Driver),
    ("jws", Ring::Driver),
    ("identity", Ring::Driver),
    ("kafka_testkit", Ring::Driver),
    ("kafka", Ring::Driver),
    ("store", Ring::Driver),
    ("stream", Ring::Driver),
    ("node", Ring::Driver),
    ("switch", Ring::Driver),
    ("operations", Ring::Driver),
    ("upesi", Ring::Assembly),
    ("upesi-bench", Ring::Assembly),
    ("dfsp", Ring::Assembly),
    ("harness", Ring::Assembly),
    ("waterfall", Ring::Assembly),
    ("microbench", Ring::Assembly),
    ("simulation", Ring::Assembly),
    ("conversations", Ring::Assembly),
    ("fuzzing", Ring::Assembly),
    ("testkit", Ring::Assembly),
    ("xtask", Ring::Assembly),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ring {
    Pure,
    SansIo,
    Driver,
    Assembly,
}

/// Outward arrows that only tests have, each with its reason. Shipped code follows none of them.
const TEST_ARROWS: [(&str, &str); 2] = [
    // The independent model predicts the kernel.
    ("ledger", "model"),
    // The log in memory and the log on disk are tested by the same contract suite.
    ("sequencer", "journal"),
];

/// The crate that only tests may use, those of every crate.
const TESTKIT: &str = "testkit";

/// Libraries that do I/O, read clocks or draw random numbers: for drivers and above.
const DRIVERS_ONLY: [&str; 12] = [
    "getrandom",
    "h2",
    "hyper",
    "hyper-util",
    "libc",
    "mio",
    "rand",
    "rdkafka",
    "rustix",
    "socket2",
    "tempfile",
    "tokio",
];

/// Paths that code of the inner rings never names, with how to do without.
const IMPURE: [(&str, &str); 9] = [
    ("std::fs", "go through the `Disk` port"),
    ("std::net", "leave it to a driver; for address types use core::net"),
    ("std::process", "leave it to a driver"),
    ("std::thread", "leave it to a driver"),
    ("std::env", "take it as an argument"),
    ("Instant::now", "take the moment as an argument"),
    ("SystemTime::now", "take the moment as an argument"),
    ("tokio", "decide here, perform in a driver"),
    ("rand", "take a seed as an argument"),
];

const MEND_ARROW: &str = "move the shared part inward, or pass it in as data or through a port";
const MEND_UNKNOWN: &str = "add the crate with its ring to crates/xtask/src/tidy/rings.rs";
const MEND_FLOAT: &str = "use integers with an explicit scale";

pub(crate) fn check(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in &workspace.members {
        match ring(&member.name) {
            None => {
                let what = format!("crate `{}` has no ring", member.name);
                findings.push(Finding::new(&member.manifest, 0, what, MEND_UNKNOWN));
            }
            Some(own) => findings.extend(arrows(member, own, tree)),
        }
    }
    for file in tree.rust() {
        match file.crate_name().and_then(ring) {
            Some(own @ (Ring::Pure | Ring::SansIo)) => findings.extend(purity(file, own)),
            Some(Ring::Driver | Ring::Assembly) | None => (),
        }
    }
    findings
}

fn ring(name: &str) -> Option<Ring> {
    RINGS.iter().find(|(known, _)| *known == name).map(|(_, ring)| *ring)
}

fn arrows(member: &Member, own: Ring, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for dependency in &member.dependencies {
        let arrow = (member.name.as_str(), dependency.name.as_str());
        let is_listed = TEST_ARROWS.contains(&arrow) || dependency.name == TESTKIT;
        let outward = ring(&dependency.name).is_some_and(|other| own < other)
            && !(dependency.for_tests && is_listed);
        let impure = own < Ring::Driver
            && !dependency.for_tests
            && DRIVERS_ONLY.contains(&dependency.name.as_str());
        if outward || impure {
            let line = line_of_dependency(tree, &member.manifest, &dependency.name);
            let what =
                format!("`{}` (ring {}) depends on `{}`", member.name, own as u8, dependency.name);
            findings.push(Finding::new(&member.manifest, line, what, MEND_ARROW));
        }
    }
    findings
}

fn line_of_dependency(tree: &Tree, manifest: &str, name: &str) -> usize {
    let text = tree.get(manifest).map_or("", |file| file.text.as_str());
    let names = |line: &str| line.split(['.', '=', ' ']).next() == Some(name);
    text.lines().position(names).map_or(0, |index| index + 1)
}

fn purity(file: &SourceFile, own: Ring) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_root = file.path.ends_with("/src/lib.rs");
    if own == Ring::Pure && is_root && !file.code.contains("#![no_std]") {
        let what = "a crate of ring 0 without #![no_std]";
        findings.push(Finding::new(&file.path, 1, what, "add #![no_std] and use core and alloc"));
    }
    for (line, code) in file.code_lines() {
        if words(code).any(is_float) {
            let what = "a float in ring 0 or 1";
            findings.push(Finding::new(&file.path, line, what, MEND_FLOAT));
        }
        if file.is_test(line) {
            continue;
        }
        for (path, mend) in IMPURE.into_iter().filter(|(path, _)| names_path(code, path)) {
            let what = format!("{path} in ring 0 or 1");
            findings.push(Finding::new(&file.path, line, what, mend));
        }
    }
    findings
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|found: char| !found.is_alphanumeric() && found != '_')
}

/// A float type, or a number with its suffix.
fn is_float(word: &str) -> bool {
    let digits = word.trim_end_matches("f32").trim_end_matches("f64");
    digits != word && digits.chars().all(|found| found.is_ascii_digit() || found == '_')
}

/// Whether a line names the path `a::b`, also as `a::{.., b, ..}`; of a single name, whether it
/// is used as a path.
fn names_path(code: &str, path: &str) -> bool {
    let Some((parent, name)) = path.split_once("::") else {
        return code.match_indices(path).any(|(at, _)| {
            is_whole(code, at, path.len()) && code[at + path.len()..].starts_with("::")
        });
    };
    let direct = code.match_indices(path).any(|(at, _)| is_whole(code, at, path.len()));
    let grouped = code.match_indices(parent).any(|(at, _)| {
        let rest = &code[at + parent.len()..];
        is_whole(code, at, parent.len())
            && rest.starts_with("::{")
            && rest.split(['{', ',', '}', ' ', ';']).any(|part| {
                part == name || part.strip_prefix(name).is_some_and(|more| more.starts_with("::"))
            })
    });
    direct || grouped
}

fn is_whole(code: &str, at: usize, len: usize) -> bool {
    let inside = |found: char| found.is_alphanumeric() || found == '_';
    !code[..at].ends_with(inside) && !code[at + len..].starts_with(inside)
}

#[cfg(test)]
mod tests {
    use super::super::workspace::Dependency;
    use super::*;

    fn member(name: &str, dependencies: &[(&str, bool)]) -> Member {
        let dependencies = dependencies.iter().map(|(name, for_tests)| Dependency {
            name: (*name).to_owned(),
            for_tests: *for_tests,
        });
        Member {
            name: name.to_owned(),
            manifest: format!("crates/{name}/Cargo.toml"),
            dependencies: dependencies.collect(),
        }
    }

    #[test]
    fn arrows_point_inward_only() {
        let manifest = "[dependencies]\nrecord.workspace = true\nswitch.workspace = true\n";
        let tree = Tree::of(&[("crates/delivery/Cargo.toml", manifest)]);
        let check_of = |name, dependencies: &[(&str, bool)]| {
            let members = vec![member(name, dependencies)];
            let workspace = Workspace { members, externals: Vec::new() };
            let found = check(&tree, &workspace).into_iter();
            found.map(|finding| (finding.line, finding.what)).collect::<Vec<_>>()
        };
        let expected = |line, what: &str| vec![(line, what.to_owned())];

        assert_eq!(check_of("delivery", &[("ledger", false), ("fspiop", false)]), []);
        assert_eq!(check_of("upesi", &[("switch", false), ("tokio", false)]), []);
        assert_eq!(check_of("delivery", &[("tempfile", true)]), [], "tests may do I/O");
        assert_eq!(check_of("sequencer", &[("journal", true)]), [], "a listed arrow of tests");
        assert_eq!(check_of("jws", &[("testkit", true)]), [], "the test kit");
        assert_eq!(
            check_of("jws", &[("testkit", false)]),
            expected(0, "`jws` (ring 2) depends on `testkit`")
        );
        assert_eq!(
            check_of("sequencer", &[("journal", false)]),
            expected(0, "`sequencer` (ring 1) depends on `journal`")
        );
        assert_eq!(
            check_of("delivery", &[("switch", false)]),
            expected(3, "`delivery` (ring 1) depends on `switch`")
        );
        assert_eq!(
            check_of("ledger", &[("ports", true)]),
            expected(0, "`ledger` (ring 0) depends on `ports`")
        );
        assert_eq!(
            check_of("record", &[("tokio", false)]),
            expected(0, "`record` (ring 0) depends on `tokio`")
        );
        assert_eq!(check_of("newcomer", &[]), expected(0, "crate `newcomer` has no ring"));
    }

    #[test]
    fn inner_rings_stay_pure() {
        for (line, expected) in [
            ("use std::fs;", "std::fs in ring 0 or 1"),
            ("use std::{collections::HashMap, net::TcpStream};", "std::net in ring 0 or 1"),
            ("use std::{io, fs};", "std::fs in ring 0 or 1"),
            ("let now = Instant::now();", "Instant::now in ring 0 or 1"),
            ("let now = std::time::SystemTime::now();", "SystemTime::now in ring 0 or 1"),
            ("tokio::spawn(x);", "tokio in ring 0 or 1"),
            ("let x: u8 = rand::random();", "rand in ring 0 or 1"),
            ("let x: f64 = y;", "a float in ring 0 or 1"),
            ("let x = 1_0f32;", "a float in ring 0 or 1"),
            ("// std::fs, f64", ""),
            ("let f64_like = leaf64 + operand::x;", ""),
            ("let x = \"tokio::spawn\";", ""),
            ("use core::net::IpAddr;", ""),
            ("#[cfg(test)] mod tests { use std::fs; }", ""),
        ] {
            let tree = Tree::of(&[("crates/ports/src/log.rs", line)]);
            let found = check(&tree, &Workspace::default());
            let what: Vec<_> = found.iter().map(|finding| finding.what.as_str()).collect();
            let expected: Vec<_> = [expected].into_iter().filter(|what| !what.is_empty()).collect();
            assert_eq!(what, expected, "{line}");
        }
    }

    #[test]
    fn only_the_pure_ring_is_without_std() {
        for (path, text, count) in [
            ("crates/ledger/src/lib.rs", "//! Kernel.\n", 1),
            ("crates/ledger/src/lib.rs", "//! Kernel.\n#![no_std]\n", 0),
            ("crates/ledger/src/lib.rs", "// #![no_std]\n", 1),
            ("crates/ledger/src/money.rs", "", 0),
            ("crates/delivery/src/lib.rs", "", 0),
            ("crates/switch/src/lib.rs", "use std::fs;", 0),
        ] {
            let tree = Tree::of(&[(path, text)]);
            assert_eq!(check(&tree, &Workspace::default()).len(), count, "{path} {text:?}");
        }
    }
}
