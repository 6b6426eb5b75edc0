//! The index of requirements (`rows.txt`) and the conversations that cover each of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::parse::Conversation;

/// The rows of rows.txt, in order, with the headings between them.
pub(crate) struct Rows {
    lines: Vec<Line>,
}

enum Line {
    Heading(String),
    Row(String),
}

/// Rows by their name, with the files that cover them.
pub(crate) type Coverage<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

impl Rows {
    /// Reads rows.txt: `# heading`, `id "title"`, empty lines.
    pub(crate) fn read(text: &str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let lines = lines.map(|line| match line.strip_prefix('#') {
            Some(heading) => Line::Heading(heading.trim().to_owned()),
            None => Line::Row(line.to_owned()),
        });
        Self { lines: lines.collect() }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter_map(|line| match line {
            Line::Row(name) => Some(name.as_str()),
            Line::Heading(_) => None,
        })
    }

    /// Errors: duplicate rows, and rows of conversations that rows.txt does not list.
    pub(crate) fn faults(&self, conversations: &[Conversation]) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let twice = self.names().filter(|name| !seen.insert(*name));
        let mut faults: Vec<_> = twice.map(|name| format!("rows.txt: {name} twice")).collect();
        for conversation in conversations {
            for row in conversation.rows.iter().filter(|row| !seen.contains(row.name.as_str())) {
                let (file, line) = (&conversation.file, row.line);
                faults.push(format!("{file}:{line}: rows.txt has no row {}", row.name));
            }
        }
        faults
    }

    pub(crate) fn coverage<'a>(&'a self, conversations: &'a [Conversation]) -> Coverage<'a> {
        let mut coverage: Coverage<'_> = self.names().map(|name| (name, BTreeSet::new())).collect();
        for conversation in conversations {
            for row in &conversation.rows {
                if let Some(files) = coverage.get_mut(row.name.as_str()) {
                    files.insert(&conversation.file);
                }
            }
        }
        coverage
    }

    /// index.md.
    pub(crate) fn index(&self, conversations: &[Conversation]) -> String {
        let coverage = self.coverage(conversations);
        let mut text = "# Coverage by the conversations\n\nWritten by \
            `cargo xtask conversations --write-index`; do not edit.\n"
            .to_owned();
        for line in &self.lines {
            match line {
                Line::Heading(heading) => {
                    text += &format!("\n## {heading}\n\n| row | conversations |\n|---|---|\n");
                }
                Line::Row(name) => {
                    let files = coverage[name.as_str()].iter();
                    let links: Vec<_> = files.map(|file| format!("[{file}]({file})")).collect();
                    let name = name.replace('|', "\\|");
                    text += &format!("| {name} | {} |\n", links.join(", "));
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Row;

    fn conversation(file: &str, row: &str) -> Conversation {
        let rows = vec![Row { line: 2, name: row.to_owned() }];
        Conversation { file: file.to_owned(), rows, ..Conversation::default() }
    }

    #[test]
    fn rows_are_covered_or_not() {
        let rows = Rows::read("# One\n1.1 \"a\"\n\n1.2 \"b\"\n");
        let conversations = [conversation("x.txt", "1.1 \"a\""), conversation("y.txt", "9 \"z\"")];
        let coverage = rows.coverage(&conversations);
        assert!(coverage["1.1 \"a\""].contains("x.txt"));
        assert!(coverage["1.2 \"b\""].is_empty());
        assert_eq!(rows.faults(&conversations), ["y.txt:2: rows.txt has no row 9 \"z\""]);
        assert_eq!(Rows::read("a\na\n").faults(&[]), ["rows.txt: a twice"]);
        let index = rows.index(&conversations);
        assert!(index.contains("## One\n\n| row"), "{index}");
        assert!(index.contains("| 1.1 \"a\" | [x.txt](x.txt) |"), "{index}");
    }
}
