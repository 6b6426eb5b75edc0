//! Import cycles between the modules of one crate.
//!
//! Phases: find the modules of a crate (one per file), collect the paths that each of them names,
//! resolve every path to the module that defines the item, and find the modules that reach
//! themselves in the resulting graph. A path that names a re-export counts as a path to the
//! re-exported module. Code for tests does not count.
//!
//! An import that must close a cycle has its reason in a comment directly above, or on its line:
//! `// cycle: reason`. Such an import does not count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Finding;
use super::tree::{SourceFile, Tree, closing_brace, line_of};

const CRATES: [&str; 4] = ["ledger", "switch", "node", "upesi"];
const REASON: &str = "// cycle: ";

const MEND_CYCLE: &str = "move the shared types to a module of their own, or pass the value as an \
                          argument; only with a reason write `// cycle: reason` above the import";
const MEND_REASON: &str = "remove the comment";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in CRATES {
        let modules = Modules::of(tree, name);
        let graph = modules.graph(&mut findings);
        findings.extend(graph.cyclic().filter_map(|module| graph.finding(&modules, module)));
    }
    findings
}

/// The modules of one crate by their names from the root, which is `lib` or `main`.
struct Modules<'a> {
    each: BTreeMap<String, Module<'a>>,
    root: &'static str,
}

struct Module<'a> {
    file: &'a SourceFile,
    paths: Vec<Path>,
    /// Names that this module imports or re-exports, with their full paths.
    aliases: BTreeMap<String, Vec<String>>,
}

/// A path from the root of the crate, as it is named somewhere.
struct Path {
    segments: Vec<String>,
    line: usize,
    alias: Option<String>,
}

impl<'a> Modules<'a> {
    fn of(tree: &'a Tree, name: &str) -> Self {
        let under = format!("crates/{name}/src/");
        let files: Vec<_> = tree.rust().filter(|file| file.path.starts_with(&under)).collect();
        let root = match files.iter().any(|file| file.path == format!("{under}lib.rs")) {
            true => "lib",
            false => "main",
        };
        let named = files.into_iter().filter_map(|file| {
            let name = file.path.strip_prefix(&under)?.strip_suffix(".rs")?;
            let name = name.strip_suffix("/mod").unwrap_or(name).replace('/', "::");
            Some((name, file))
        });
        let named: BTreeMap<String, &SourceFile> = named.collect();
        let is_test = |name: &str| {
            let parts: Vec<_> = name.split("::").collect();
            (0..parts.len()).any(|at| {
                let parent = if at == 0 { root.to_owned() } else { parts[..at].join("::") };
                named.get(&parent).is_some_and(|file| declares_for_tests(file, parts[at]))
            })
        };
        let kept = named.iter().filter(|(name, file)| !file.is_test(1) && !is_test(name));
        let each = kept.map(|(name, file)| {
            let base = if name == root { "" } else { name };
            let children = named.keys().filter_map(|other| match base {
                "" => Some(other.as_str()).filter(|other| !other.contains("::")),
                _ => other.strip_prefix(base)?.strip_prefix("::"),
            });
            let paths = paths(file, base, &children.collect());
            let aliases =
                paths.iter().filter_map(|path| Some((path.alias.clone()?, path.segments.clone())));
            (name.clone(), Module { file, aliases: aliases.collect(), paths })
        });
        Self { each: each.collect(), root }
    }

    /// The module that defines what a path names.
    fn resolve(&self, segments: &[String], depth: usize) -> Option<&str> {
        let found = (1..=segments.len()).rev().find_map(|length| {
            let (name, _) = self.each.get_key_value(&segments[..length].join("::"))?;
            Some((name.as_str(), length))
        });
        let (module, length) = match found {
            Some(found) => found,
            None => (self.each.get_key_value(self.root)?.0.as_str(), 0),
        };
        let alias = segments.get(length).and_then(|name| self.each[module].aliases.get(name));
        match alias.filter(|path| depth < 8 && path[..] != segments[..=length]) {
            Some(path) => self.resolve(path, depth + 1),
            None => Some(module),
        }
    }

    fn graph(&self, findings: &mut Vec<Finding>) -> Graph {
        let mut edges: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
        let mut excused = Vec::new();
        for (name, module) in &self.each {
            let to = edges.entry(name.clone()).or_default();
            let lines: Vec<&str> = module.file.text.lines().collect();
            for path in &module.paths {
                let Some(target) = self.resolve(&path.segments, 0).filter(|it| it != name) else {
                    continue;
                };
                match reason(&lines, path.line) {
                    Some(line) => excused.push((name, target.to_owned(), line)),
                    None => drop(to.entry(target.to_owned()).or_insert(path.line)),
                }
            }
        }
        let graph = Graph { edges };
        let needed: BTreeSet<_> = excused
            .iter()
            .filter(|(name, target, _)| graph.way(target, name).is_some())
            .map(|(name, _, line)| (*name, *line))
            .collect();
        for (name, module) in &self.each {
            for line in reasons(module.file).filter(|line| !needed.contains(&(name, *line))) {
                let what = "the import below closes no cycle";
                findings.push(Finding::new(&module.file.path, line, what, MEND_REASON));
            }
        }
        graph
    }
}

/// Which module names which others, and on which line first.
struct Graph {
    edges: BTreeMap<String, BTreeMap<String, usize>>,
}

impl Graph {
    /// The shortest way from one module to another.
    fn way(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut before: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(module) = queue.pop_front() {
            for next in self.edges.get(module)?.keys() {
                if !before.contains_key(next.as_str()) {
                    before.insert(next, module);
                    queue.push_back(next);
                }
            }
            if before.contains_key(to) {
                break;
            }
        }
        let mut way = vec![to.to_owned()];
        let mut at = *before.get(to)?;
        while at != from {
            way.push(at.to_owned());
            at = before[at];
        }
        way.push(from.to_owned());
        way.reverse();
        Some(way)
    }

    /// The modules in cycles.
    fn cyclic(&self) -> impl Iterator<Item = &String> {
        self.edges.keys().filter(|module| self.way(module, module).is_some())
    }

    /// Shows the shortest cycle through a module.
    fn finding(&self, modules: &Modules<'_>, module: &str) -> Option<Finding> {
        let way = self.way(module, module)?;
        let mut shown = module.to_owned();
        for pair in way.windows(2) {
            shown += &format!(" -({})-> {}", self.edges[&pair[0]][&pair[1]], pair[1]);
        }
        let (line, what) = (self.edges[module][&way[1]], format!("import cycle: {shown}"));
        Some(Finding::new(&modules.each[module].file.path, line, what, MEND_CYCLE))
    }
}

/// Whether a file declares `mod child;` for tests only.
fn declares_for_tests(file: &SourceFile, child: &str) -> bool {
    let declaration = format!("mod {child};");
    let mut lines = file.code_lines();
    lines.any(|(line, code)| code.trim().ends_with(&declaration) && file.is_test(line))
}

/// The line of the comment that excuses an import, if there is one.
fn reason(lines: &[&str], line: usize) -> Option<usize> {
    if lines[line - 1].contains(REASON) {
        return Some(line);
    }
    let above = (1..line).rev().map(|number| (number, lines[number - 1].trim_start()));
    let mut comments = above.take_while(|(_, text)| text.starts_with("//"));
    comments.find(|(_, text)| text.starts_with(REASON)).map(|(number, _)| number)
}

fn reasons(file: &SourceFile) -> impl Iterator<Item = usize> {
    let lines = file.text.lines().zip(file.code.lines()).enumerate();
    lines
        .filter(|(_, (text, code))| text.contains(REASON) && !code.contains(REASON.trim()))
        .filter(|(_, (text, code))| text[..text.find("//").unwrap_or(0)].trim() == code.trim())
        .map(|(index, _)| index + 1)
}

/// A piece of code: a word, `::`, or one other character, and where it begins.
type Token<'a> = (&'a str, usize);

fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = code[at..].chars().next() {
        let is_word = |found: char| found.is_alphanumeric() || found == '_';
        let length = match first {
            _ if is_word(first) => {
                code[at..].find(|found| !is_word(found)).unwrap_or(code.len() - at)
            }
            ':' if code[at..].starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        if !first.is_whitespace() {
            tokens.push((&code[at..at + length], at));
        }
        at += length;
    }
    tokens
}

/// The paths into the crate that a file names outside tests. `base` is its module, `children` are
/// the modules declared in it.
fn paths(file: &SourceFile, base: &str, children: &BTreeSet<&str>) -> Vec<Path> {
    let code = file.code.as_str();
    let tokens = tokens(code);
    let inline = inline_modules(code, &tokens);
    let base: Vec<String> = base.split("::").filter(|it| !it.is_empty()).map(Into::into).collect();
    let mut paths = Vec::new();
    let mut imports_to = 0;
    let (mut line, mut seen) = (1, 0);
    for (index, (text, at)) in tokens.iter().enumerate() {
        line += code[seen..*at].matches('\n').count();
        seen = *at;
        if *text == "use" && !file.is_test(line) {
            imports_to = tokens.len();
        } else if *text == ";" {
            imports_to = 0;
        }
        let before = index.checked_sub(1).map_or("", |index| tokens[index].0);
        let is_path = tokens.get(index + 1).is_some_and(|next| next.0 == "::")
            || (0 < imports_to && children.contains(text));
        if !is_path || ["::", ".", "$"].contains(&before) && before != "$" || file.is_test(line) {
            continue;
        }
        let mut from = base.clone();
        from.extend(
            inline
                .iter()
                .filter(|(open, close)| open < at && at < close)
                .map(|_| String::from("?")),
        );
        let start = match *text {
            "crate" => Vec::new(),
            "self" => from,
            "super" => {
                from.pop();
                from
            }
            child if children.contains(child) => [from, vec![child.to_owned()]].concat(),
            _ => continue,
        };
        let mut leaves =
            Leaves { tokens: &tokens, code, imports: 0 < imports_to, paths: &mut paths };
        leaves.read(index + 1, start, text);
    }
    paths
}

/// Reads what follows the first word of a path, with its groups.
struct Leaves<'a> {
    tokens: &'a [Token<'a>],
    code: &'a str,
    imports: bool,
    paths: &'a mut Vec<Path>,
}

impl Leaves<'_> {
    fn text(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| token.0)
    }

    /// Reads on from `index`; gives the index after the path.
    fn read(&mut self, mut index: usize, mut segments: Vec<String>, last: &str) -> usize {
        let mut last = last.to_owned();
        let line = line_of(self.code, self.tokens[index - 1].1);
        while self.text(index) == "::" {
            let next = self.text(index + 1).to_owned();
            match next.as_str() {
                "{" if self.imports => {
                    index += 2;
                    while !["}", ""].contains(&self.text(index)) {
                        let word = self.text(index).to_owned();
                        index = match word.as_str() {
                            "," => index + 1,
                            "self" => self.read(index + 1, segments.clone(), &last),
                            _ => {
                                let path = [segments.clone(), vec![word.clone()]].concat();
                                self.read(index + 1, path, &word)
                            }
                        };
                    }
                    return index + 1;
                }
                "super" => drop(segments.pop()),
                _ if next.chars().all(|found| found.is_alphanumeric() || found == '_') => {
                    segments.push(next.clone());
                }
                _ => break,
            }
            last = next;
            index += 2;
        }
        let renamed = self.text(index) == "as";
        let alias = if renamed { self.text(index + 1).to_owned() } else { last };
        let alias = self.imports.then_some(alias);
        self.paths.push(Path { segments, line, alias });
        if renamed { index + 2 } else { index }
    }
}

/// Byte ranges of the bodies of inline modules.
fn inline_modules(code: &str, tokens: &[Token<'_>]) -> Vec<(usize, usize)> {
    let bodies = tokens.windows(3).filter(|found| found[0].0 == "mod" && found[2].0 == "{");
    bodies.filter_map(|found| Some((found[2].1, closing_brace(code, found[2].1)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings about a crate `switch` of these files, under `crates/switch/src`.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<_> =
            files.iter().map(|(name, _)| format!("crates/switch/src/{name}")).collect();
        let all: Vec<_> =
            paths.iter().zip(files).map(|(path, (_, text))| (path.as_str(), *text)).collect();
        let findings = check(&Tree::of(&all)).into_iter();
        findings
            .map(|finding| format!("{}:{} {}", finding.path, finding.line, finding.what))
            .collect()
    }

    /// The modules in cycles of these files.
    fn in_cycles(files: &[(&str, &str)]) -> Vec<String> {
        let name = |finding: String| {
            let shown = finding.split("import cycle: ").nth(1).unwrap_or(&finding).to_owned();
            shown.split(' ').next().unwrap_or_default().to_owned()
        };
        found(files).into_iter().map(name).collect()
    }

    #[test]
    fn a_cycle_is_shown_as_a_path_with_its_lines() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "\nuse crate::c;\n"),
            ("c.rs", "\n\nuse super::{b as other, a::{X, Y}};\n"),
        ];
        assert_eq!(
            found(&files),
            [
                "crates/switch/src/a.rs:1 import cycle: a -(1)-> b -(2)-> c -(3)-> a",
                "crates/switch/src/b.rs:2 import cycle: b -(2)-> c -(3)-> b",
                "crates/switch/src/c.rs:3 import cycle: c -(3)-> b -(2)-> c",
            ]
        );
    }

    #[test]
    fn every_form_of_a_path_counts_and_tests_do_not() {
        let lib = "mod a;\nmod b;\n";
        for (a, is_cycle) in [
            ("use crate::b;", true),
            ("use super::b::B;", true),
            ("use crate::{b::{self, B}};", true),
            ("use std::{io, fmt};\nuse super::{b as c};", true),
            ("fn f() -> super::b::B { todo() }", true),
            ("mod inner { fn f() { super::super::b::f() } }", true),
            ("fn f() { x.b::<u8>() }", false),
            ("/// crate::b\nfn f() { \"crate::b::f\"; other::b::f() }", false),
            ("#[cfg(test)]\nmod tests { use crate::b; }", false),
            ("#[cfg(test)]\nuse crate::b::B;", false),
        ] {
            let files = [("lib.rs", lib), ("a.rs", a), ("b.rs", "use crate::a::A;")];
            let expected: &[&str] = if is_cycle { &["a", "b"] } else { &[] };
            assert_eq!(in_cycles(&files), expected, "{a}");
        }
        let lib = "mod a;\n#[cfg(test)]\nmod b;\n";
        let files = [("lib.rs", lib), ("a.rs", "use crate::b;"), ("b.rs", "use crate::a;")];
        assert_eq!(in_cycles(&files), [""; 0], "a module for tests only");
    }

    #[test]
    fn a_re_export_leads_to_the_module_behind_it_and_the_root_is_a_module() {
        let lib = "mod a;\nmod b;\npub use a::A;\nfn f() { b::run() }\n";
        let of_b = |b| [("lib.rs", lib), ("a.rs", "struct A;"), ("b.rs", b)];
        assert_eq!(in_cycles(&of_b("use crate::A;")), [""; 0]);
        assert_eq!(in_cycles(&of_b("use crate::Defined;")), ["b", "lib"]);
        let nested = [
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod b;\nmod c;\nfn f() { b::f() }"),
            ("a/b.rs", "use super::c;"),
            ("a/c.rs", "use super::Defined;"),
        ];
        assert_eq!(in_cycles(&nested), ["a", "a::b", "a::c"]);
    }

    #[test]
    fn a_reason_excuses_an_import_that_closes_a_cycle_and_no_other() {
        let reason =
            "// cycle: a list and its items are one thing,\n// in two files.\nuse crate::b;";
        let files = |a, b| [("lib.rs", "mod a;\nmod b;"), ("a.rs", a), ("b.rs", b)];
        assert_eq!(found(&files(reason, "use crate::a;")), [""; 0]);
        assert_eq!(found(&files("use crate::b; // cycle: as well.", "use crate::a;")), [""; 0]);
        assert_eq!(
            found(&files(reason, "struct B;")),
            ["crates/switch/src/a.rs:1 the import below closes no cycle"]
        );
    }
}
