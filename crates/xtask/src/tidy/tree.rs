//! The text files of the repository, as input of the checks.

use std::fs;
use std::path::Path;

use super::lexer::scrub;

/// All text files under the root but those of [`DIRECTORIES_SKIPPED`].
pub(crate) struct Tree {
    pub(crate) files: Vec<SourceFile>,
}

/// One text file.
pub(crate) struct SourceFile {
    /// From the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// Rust only: the text with comments and literals blanked; else empty.
    pub(crate) code: String,
    /// Rust only: per line, whether it is compiled for tests only.
    pub(crate) test_lines: Vec<bool>,
}

const DIRECTORIES_SKIPPED: [&str; 3] = [".git", "node_modules", "target"];
const EXTENSIONS: [&str; 6] = ["rs", "md", "toml", "sh", "yml", "yaml"];
const NAMES: [&str; 3] = ["run", "Cargo.lock", "long-functions.txt"];

impl Tree {
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut files = Vec::new();
        walk(root, "", &mut files)?;
        files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(Self { files })
    }

    pub(crate) fn get(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| SourceFile::new(path, (*text).to_owned()));
        Self { files: files.collect() }
    }
}

impl SourceFile {
    fn new(path: &str, text: String) -> Self {
        let code = if path.ends_with(".rs") { scrub(&text) } else { String::new() };
        let test_lines = test_lines(path, &code);
        Self { path: path.to_owned(), text, code, test_lines }
    }

    /// The name of the crate it belongs to.
    pub(crate) fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// Lines of code with their numbers from 1.
    pub(crate) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.test_lines.get(line - 1).copied().unwrap_or(false)
    }

    pub(crate) fn is_generated(&self) -> bool {
        self.text.lines().take(5).any(|line| line.contains("@generated"))
    }
}

/// End of the bracket opened at byte `open` of blanked code.
pub(crate) fn closing_brace(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.checked_sub(1)?,
            _ => (),
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// The number, from 1, of the line that byte `at` is on.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count()
}

fn walk(root: &Path, under: &str, files: &mut Vec<SourceFile>) -> Result<(), String> {
    let directory = root.join(under);
    let failed = |error| format!("reading {}: {error}", directory.display());
    for entry in fs::read_dir(&directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if under.is_empty() { name.clone() } else { format!("{under}/{name}") };
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && !DIRECTORIES_SKIPPED.contains(&name.as_str()) {
            walk(root, &path, files)?;
        } else if kind.is_file() && (is_text(&name) || path.starts_with("conversations/")) {
            let text = fs::read_to_string(entry.path())
                .map_err(|error| format!("reading {path}: {error}"))?;
            files.push(SourceFile::new(&path, text));
        }
    }
    Ok(())
}

fn is_text(name: &str) -> bool {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    NAMES.contains(&name) || EXTENSIONS.contains(&extension)
}

fn test_lines(path: &str, code: &str) -> Vec<bool> {
    let all = ["/tests/", "/benches/", "/examples/"].iter().any(|part| path.contains(part))
        || path.ends_with("/tests.rs");
    let mut lines = vec![all; code.lines().count()];
    for (start, _) in code.match_indices("#[cfg(test)]") {
        let after = code[start..].find(['{', ';']).map(|offset| start + offset);
        let end = after.and_then(|at| match code.as_bytes()[at] {
            b'{' => closing_brace(code, at),
            _ => Some(at),
        });
        let last = line_of(code, end.unwrap_or(code.len())).min(lines.len());
        lines[line_of(code, start) - 1..last].fill(true);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_tests_only_are_known() {
        let source = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n";
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", source),
            ("crates/a/src/tests.rs", "fn d() {}\n"),
            ("crates/a/src/other.rs", "#[cfg(test)]\nmod tests;\nfn e() {}\n"),
        ]);
        let marks = tree.files.iter().map(|file| file.test_lines.clone()).collect::<Vec<_>>();
        let (no, yes) = (false, true);
        assert_eq!(marks, [vec![no, yes, yes, yes, yes, no], vec![yes], vec![yes, yes, no]]);
        assert_eq!(tree.files[0].crate_name(), Some("a"));
    }
}
