//! A ratchet for words that plain English avoids, and for names that are too vague.
//!
//! `crates/xtask/words.toml` lists how often each word occurs in each area. The sum over all areas
//! may only fall. `cargo xtask tidy --lower` writes lower counts down, and `cargo xtask tidy
//! --words TEXT` lists the places.
//!
//! An area is the comments of a crate, its messages (string literals outside tests, and the doc
//! comments of files that declare command lines, which are help), its public types, a folder of
//! documents, or the conversations. Text in backticks and fenced code is not counted.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::Finding;
use super::tree::{SourceFile, Tree};

const RATCHET: &str = "crates/xtask/words.toml";

/// Words with their forms. A form of two words matches them in a row.
const BANNED: [(&str, &[&str]); 13] = [
    ("told", &["told", "tell", "tells"]),
    ("said", &["said", "say", "says"]),
    ("hears", &["hears", "hear", "heard"]),
    ("lets go", &["lets go", "let go"]),
    ("held against", &["held against"]),
    ("stands", &["stands", "stand", "stood"]),
    ("beside", &["beside"]),
    ("behind", &["behind"]),
    ("goes on", &["goes on", "go on", "went on", "going on"]),
    ("so many", &["so many"]),
    ("nobody", &["nobody", "somebody", "everybody", "whoever"]),
    ("he", &["he", "him", "his"]),
    ("is none", &["is none", "are none"]),
];

/// A sentence that begins with one of these and is not a question.
const HEADLESS: [&str; 4] = ["What", "Whoever", "Who", "Where"];

/// Names that a public type must not have: participles, adverbs, and nouns without their owner.
const NAMES: [&str; 58] = [
    "About",
    "Answer",
    "Arrived",
    "Aside",
    "Asked",
    "Attached",
    "Begun",
    "Behind",
    "Beside",
    "Brought",
    "Catalogue",
    "Chosen",
    "Comparing",
    "Course",
    "Decided",
    "Driven",
    "Due",
    "Edge",
    "Elsewhere",
    "Ended",
    "Ending",
    "Ends",
    "Fault",
    "Found",
    "Founding",
    "Given",
    "Handed",
    "Held",
    "Hub",
    "Injected",
    "Kept",
    "Kind",
    "Left",
    "Life",
    "Made",
    "Mark",
    "Message",
    "Noted",
    "Opened",
    "Opening",
    "Options",
    "Pace",
    "Passed",
    "Place",
    "Posting",
    "Published",
    "Reading",
    "Said",
    "Shown",
    "Started",
    "Stated",
    "Step",
    "Still",
    "Taken",
    "Tally",
    "Told",
    "Tried",
    "Watched",
];

const MEND_RISEN: &str = "write it in plain English; `cargo xtask tidy --words` lists the places";
const MEND_FORM: &str = "write [area] tables of \"word\" = count";

/// Counts by area and word.
type Counts = BTreeMap<String, BTreeMap<String, usize>>;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let counts = count(&places(tree));
    let allowed = match allowed(tree) {
        Ok(allowed) => allowed,
        Err(error) => return vec![Finding::new(RATCHET, 0, error, MEND_FORM)],
    };
    let before = sums(&allowed);
    let risen = sums(&counts).into_iter().filter_map(|(word, now)| {
        let allowed = before.get(word).copied().unwrap_or(0);
        let what = format!("`{word}` is there {now} times, {allowed} allowed");
        (allowed < now).then(|| Finding::new(RATCHET, 0, what, MEND_RISEN))
    });
    risen.collect()
}

/// Lists the places whose area, path or word contains the text.
pub(crate) fn list(tree: &Tree, text: &str) -> String {
    let places = places(tree);
    let found = places.iter().filter(|place| {
        [&place.area, &place.path, place.word].iter().any(|part| part.contains(text))
    });
    let lines: Vec<_> = found
        .map(|Place { area, path, line, word }| format!("{path}:{line}: `{word}` in {area}\n"))
        .collect();
    lines.concat() + &format!("{} places\n", lines.len())
}

/// Writes the present counts down. Counts may move between areas, but no word's sum may rise.
pub(crate) fn lower(root: &Path, tree: &Tree) -> Result<(), String> {
    let counts = count(&places(tree));
    let allowed = allowed(tree)?;
    let before = sums(&allowed);
    for (word, now) in &sums(&counts) {
        let before = before.get(word).unwrap_or(&0);
        if before < now {
            return Err(format!("`{word}` is there {now} times, {before} allowed: {MEND_RISEN}"));
        }
    }
    fs::write(root.join(RATCHET), written(&counts)).map_err(|error| format!("{RATCHET}: {error}"))
}

fn allowed(tree: &Tree) -> Result<Counts, String> {
    let text = tree.get(RATCHET).map_or("", |file| file.text.as_str());
    toml::from_str(text).map_err(|error| error.to_string())
}

fn sums(counts: &Counts) -> BTreeMap<&str, usize> {
    let mut sums = BTreeMap::new();
    for (word, count) in counts.values().flatten() {
        *sums.entry(word.as_str()).or_insert(0) += count;
    }
    sums
}

fn written(counts: &Counts) -> String {
    let mut text = "# How often each word may occur in each area. Written by `cargo xtask tidy \
                    --lower`.\n"
        .to_owned();
    for (area, words) in counts {
        text += &format!("\n[\"{area}\"]\n");
        text.extend(words.iter().map(|(word, count)| format!("\"{word}\" = {count}\n")));
    }
    text
}

/// One occurrence of a word.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    area: String,
    path: String,
    line: usize,
    word: &'static str,
}

fn count(places: &[Place]) -> Counts {
    let mut counts = Counts::new();
    for place in places {
        let words = counts.entry(place.area.clone()).or_default();
        *words.entry(place.word.to_owned()).or_insert(0) += 1;
    }
    counts
}

fn places(tree: &Tree) -> Vec<Place> {
    let mut places = Vec::new();
    for file in tree.files.iter().filter(|file| !file.path.ends_with("tidy/words.rs")) {
        for piece in pieces(file) {
            let words = piece.words();
            places.extend(words.into_iter().map(|(line, word)| Place {
                area: piece.area.clone(),
                path: file.path.clone(),
                line,
                word,
            }));
        }
        places.extend(names(file));
    }
    places
}

/// Public types with a name that is not allowed.
fn names(file: &SourceFile) -> Vec<Place> {
    let area = format!("public types of {}", file.crate_name().unwrap_or_default());
    let of_line = |(line, code): (usize, &str)| {
        let mut words = code.split_whitespace().skip_while(|word| !word.starts_with("pub")).skip(1);
        let kind = words.next()?;
        let rest = words.next().filter(|_| ["struct", "enum", "trait", "type"].contains(&kind))?;
        let name = rest.split(|found: char| !found.is_alphanumeric()).next()?;
        let word = NAMES.iter().find(|word| **word == name)?;
        Some(Place { area: area.clone(), path: file.path.clone(), line, word })
    };
    file.code_lines().filter_map(of_line).collect()
}

/// Text without a break: a paragraph, a run of comment lines, a string literal.
#[derive(Debug)]
struct Piece {
    area: String,
    line: usize,
    text: String,
    is_literal: bool,
}

impl Piece {
    fn new(area: &str, line: usize, text: String) -> Self {
        Self { area: area.to_owned(), line, text, is_literal: false }
    }

    /// Banned words and headless sentences, with their lines.
    fn words(&self) -> Vec<(usize, &'static str)> {
        let text = without_code(&self.text);
        let tokens = tokens(&text);
        let mut found = Vec::new();
        for at in 0..tokens.len() {
            let line = self.line + tokens[at].0;
            let matches = |form: &&str| {
                let mut ahead = tokens[at..].iter();
                form.split(' ').all(|word| {
                    ahead.next().is_some_and(|(_, token)| token.eq_ignore_ascii_case(word))
                })
            };
            for (word, _) in BANNED.iter().filter(|(_, forms)| forms.iter().any(matches)) {
                found.push((line, *word));
            }
        }
        for (at, sentence) in sentences(&text) {
            if self.is_headless(sentence, at == 0) {
                let line = text[..at].matches('\n').count();
                found.push((self.line + line, "headless sentence"));
            }
        }
        found
    }

    /// An error or a log line may begin with a small letter, and has no full stop.
    fn is_headless(&self, sentence: &str, is_first: bool) -> bool {
        let word = sentence.split(|found: char| !found.is_alphabetic()).next().unwrap_or_default();
        let begins = HEADLESS.iter().any(|headless| match self.is_literal && is_first {
            true => headless.eq_ignore_ascii_case(word),
            false => *headless == word,
        });
        let ends = match self.is_literal {
            true => !sentence.ends_with('?') && sentence.split_whitespace().nth(2).is_some(),
            false => sentence.ends_with('.'),
        };
        begins && ends
    }
}

/// The text with what stands between backticks replaced by nothing but its line ends.
fn without_code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(index, part)| match index % 2 {
        0 => part.to_owned(),
        _ => "\n".repeat(part.matches('\n').count()),
    });
    parts.collect::<Vec<_>>().join("`")
}

/// Words with the number of line ends before each.
fn tokens(text: &str) -> Vec<(usize, &str)> {
    let inside = |found: char| found.is_alphanumeric() || "-_'`".contains(found);
    text.lines()
        .enumerate()
        .flat_map(|(line, part)| {
            let words = part.split(move |found: char| !inside(found));
            words.filter(|word| !word.is_empty()).map(move |word| (line, word))
        })
        .collect()
}

/// Sentences, with where each begins and with the sign that ends it.
fn sentences(text: &str) -> Vec<(usize, &str)> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (at, sign) in text.char_indices() {
        let next = text[at + sign.len_utf8()..].chars().next();
        if ".?!:".contains(sign) && next.is_none_or(char::is_whitespace) {
            sentences.push((start, &text[start..=at]));
            start = at + 1;
        }
    }
    sentences.push((start, &text[start..]));
    let trimmed = sentences.into_iter().map(|(start, sentence)| {
        (start + sentence.len() - sentence.trim_start().len(), sentence.trim())
    });
    trimmed.filter(|(_, sentence)| !sentence.is_empty()).collect()
}

fn pieces(file: &SourceFile) -> Vec<Piece> {
    let path = file.path.as_str();
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "rs" => rust(file),
        "md" => paragraphs(&folder(path), &file.text),
        "txt" if path.starts_with("conversations/") => {
            let comments = file.text.lines().map(|line| line.strip_prefix('#').unwrap_or(""));
            paragraphs("conversations", &comments.collect::<Vec<_>>().join("\n"))
        }
        _ => Vec::new(),
    }
}

/// The documents at the root, or those of a folder of `docs`, or of another folder.
fn folder(path: &str) -> String {
    let folders: Vec<_> = path.rsplit_once('/').map_or("", |(at, _)| at).split('/').collect();
    match folders[..] {
        [""] => "documents".to_owned(),
        ["docs", folder, ..] => format!("docs/{folder}"),
        _ => folders[0].to_owned(),
    }
}

fn paragraphs(area: &str, text: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let (mut is_fenced, mut is_open) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        is_fenced ^= line.starts_with("```");
        let begins = |mark: char| "|#>-*".contains(mark) || mark.is_ascii_digit();
        let is_new = line.starts_with(begins) || !is_open;
        is_open = !is_fenced && !line.is_empty() && !line.starts_with("```");
        let line = line.trim_start_matches(|mark: char| begins(mark) || " .".contains(mark));
        match pieces.last_mut() {
            _ if !is_open => {}
            Some(last) if !is_new => last.text += &format!("\n{line}"),
            _ => pieces.extend(
                line.split('|').map(|cell| Piece::new(area, index + 1, cell.trim().to_owned())),
            ),
        }
    }
    pieces
}

/// Comments and, outside tests, string literals.
fn rust(file: &SourceFile) -> Vec<Piece> {
    let name = file.crate_name().unwrap_or_default();
    let (comments, messages) = (format!("comments in {name}"), format!("messages of {name}"));
    let is_help = file.code.contains("#[arg(") || file.code.contains("#[command(");
    let mut pieces: Vec<Piece> = Vec::new();
    let mut literal: Option<Piece> = None;
    let mut comment_before = 0;
    for (index, (text, code)) in file.text.lines().zip(file.code.lines()).enumerate() {
        let line = index + 1;
        let mut comment = String::new();
        let mut escaped = false;
        for (shown, kept) in text.chars().zip(code.chars()) {
            if kept == '"' {
                match literal.take() {
                    None => literal = Some(Piece::new(&messages, line, String::new())),
                    Some(piece) if !file.is_test(line) => {
                        pieces.push(Piece { is_literal: true, ..piece });
                    }
                    Some(_) => {}
                }
            } else if let Some(piece) = &mut literal {
                let is_sign = escaped || shown == '\\';
                escaped = shown == '\\' && !escaped;
                piece.text.push(if is_sign { ' ' } else { shown });
            } else if kept == ' ' && (shown != ' ' || !comment.is_empty()) {
                comment.push(shown);
            }
        }
        if let Some(piece) = &mut literal {
            piece.text.push('\n');
        }
        if comment.starts_with('/') {
            let area = if is_help && comment.starts_with("///") { &messages } else { &comments };
            let comment = comment.trim_start_matches(['/', '!']).trim();
            let follows = comment_before + 1 == line && !comment.is_empty();
            match pieces.last_mut().filter(|_| follows) {
                Some(last) => last.text += &format!("\n{comment}"),
                None => pieces.push(Piece::new(area, line, comment.to_owned())),
            }
            comment_before = if comment.is_empty() { 0 } else { line };
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let places = places(&Tree::of(&[(path, text)]));
        places.iter().map(|it| format!("{} {}: {}", it.line, it.area, it.word)).collect()
    }

    #[test]
    fn words_are_found_in_text_and_not_in_code() {
        let rust = "crates/a/src/lib.rs";
        for (path, text, expected) in [
            ("README.md", "It goes\non. A write-behind `told` queue.", "1 documents: goes on"),
            ("docs/operating/a.md", "| Told | x |\n\n```\ntold\n```\n", "1 docs/operating: told"),
            ("conversations/a.txt", "# It says no.\nsays 1\n", "1 conversations: said"),
            (rust, "fn told() {}\n\n/// One.\n// Nobody\nstruct A;", "4 comments in a: nobody"),
            (rust, "f(1, \"a\\\n  so many\");", "2 messages of a: so many"),
            (rust, "#[cfg(test)]\nmod tests { const A: &str = \"told\"; }", ""),
            (rust, "#[arg(long)]\n/// Beside it.\n a: u8,", "2 messages of a: beside"),
            (rust, "//! What it\n//! holds. Why.", "1 comments in a: headless sentence"),
            (rust, "//! What is it? Where\n//! it is. W", "1 comments in a: headless sentence"),
            (rust, "f(\"what it is: {a}\", 'x')", "1 messages of a: headless sentence"),
            (rust, "f(\"what\", \"who is it?\")", ""),
            (rust, "pub(crate) enum Told<A> {}\nstruct Held;", "1 public types of a: Told"),
            (rust, "pub struct ToldAll;", ""),
        ] {
            let expected: Vec<_> = [expected].into_iter().filter(|one| !one.is_empty()).collect();
            assert_eq!(found(path, text), expected, "{text}");
        }
    }

    #[test]
    fn a_count_may_only_fall_and_is_written_down() {
        let ratchet = "[documents]\nbeside = 1\n";
        for (text, expected) in [
            ("Beside.", ""),
            ("Beside, beside.", "`beside` is there 2 times, 1 allowed"),
            ("Next to it.", ""),
        ] {
            let tree = Tree::of(&[("README.md", text), (RATCHET, ratchet)]);
            let found: Vec<_> = check(&tree).into_iter().map(|finding| finding.what).collect();
            assert_eq!(found.concat(), expected, "{text}");
        }
        let broken = Tree::of(&[(RATCHET, "beside 1")]);
        assert_eq!(check(&broken)[0].mend, MEND_FORM);
        let counts = count(&places(&Tree::of(&[("README.md", "He. He.")])));
        assert_eq!(toml::from_str::<Counts>(&written(&counts)), Ok(counts));
    }
}
