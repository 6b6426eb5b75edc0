//! Results as text for a terminal: the members of any report, and tables.

use std::fmt;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Width of the names in front of values.
const NAME_WIDTH: usize = 16;
/// Values that share a line end before this many characters.
const LINE_CHARS: usize = 80;
/// Longer lists are only in the JSON of the report.
const LIST_MAX: usize = 40;

/// The members of a report in their order, one per line, without those of `skip` and those without
/// a value. An object with `columns` and `rows` becomes a table.
///
/// # Panics
///
/// The report is not an object of plain members.
#[must_use]
pub fn fields(report: &impl Serialize, skip: &[&str]) -> String {
    let json = serde_json::to_string(report).expect("a report has only plain members");
    let node: Node = serde_json::from_str(&json).expect("JSON was just written");
    let Node::Object(mut members) = node else { panic!("a report is an object") };
    members.retain(|(name, _)| !skip.contains(&&**name));
    block(&members)
}

/// A table: the first column left-aligned, the others right-aligned.
#[must_use]
pub fn table<C: AsRef<str>>(columns: &[C], rows: &[Vec<String>]) -> String {
    let head = columns.iter().map(|column| column.as_ref().to_owned()).collect();
    let lines: Vec<&Vec<String>> = std::iter::once(&head).chain(rows).collect();
    let width = |at: usize| {
        let cells = lines.iter().filter_map(|line| line.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for line in lines {
        for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
            text += &if at == 0 { format!("  {cell:width$}") } else { format!("  {cell:>width$}") };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// A number with a suitable number of digits.
#[must_use]
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A number, or `-` for a missing value.
#[must_use]
pub fn cell(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), number)
}

/// JSON whose members keep their order.
enum Node {
    Null,
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

fn block(members: &[(String, Node)]) -> String {
    let mut text = String::new();
    for (name, node) in members {
        let lines = node.lines();
        for (at, line) in lines.iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            let gap = if name.len() < NAME_WIDTH { "" } else { " " };
            text += &format!("{name:NAME_WIDTH$}{gap}{line}\n");
        }
    }
    text
}

impl Node {
    fn lines(&self) -> Vec<String> {
        match self {
            Self::Null => Vec::new(),
            Self::Text(text) => wrap(text),
            Self::List(list) if LIST_MAX < list.len() || list.iter().any(Self::is_record) => {
                vec![format!("{} entries, see --json", list.len())]
            }
            Self::List(list) => list.iter().flat_map(Self::lines).collect(),
            Self::Object(members) => as_table(members).unwrap_or_else(|| wrap(&in_line(members))),
        }
    }

    fn list(&self) -> Option<&[Self]> {
        if let Self::List(list) = self { Some(list) } else { None }
    }

    /// Whether it is an object but not a table.
    fn is_record(&self) -> bool {
        matches!(self, Self::Object(members) if as_table(members).is_none())
    }

    /// The whole node in one cell.
    fn text(&self) -> String {
        if let Self::Null = self { "-".to_owned() } else { self.lines().join("; ") }
    }
}

/// Members with a value as `name value`; a line does not break between the two.
fn in_line(members: &[(String, Node)]) -> String {
    let shown = |(name, node): &(String, Node)| {
        let value = node.lines().join(" ");
        (!value.is_empty()).then(|| format!("{name}\u{a0}{value}"))
    };
    members.iter().filter_map(shown).collect::<Vec<_>>().join(", ")
}

fn wrap(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        let last = lines.last_mut().expect("there is one at least");
        let word = word.replace('\u{a0}', " ");
        if last.is_empty() {
            *last = word;
        } else if last.len() + word.len() < LINE_CHARS {
            *last = format!("{last} {word}");
        } else {
            lines.push(word);
        }
    }
    lines
}

/// A title and its table, if the members are those of a table.
fn as_table(members: &[(String, Node)]) -> Option<Vec<String>> {
    let member = |wanted: &str| members.iter().find(|(name, _)| name == wanted)?.1.list();
    let mut columns: Vec<String> = member("columns")?.iter().map(Node::text).collect();
    let rows: Vec<Vec<String>> = member("rows")?
        .iter()
        .map(|row| match row {
            Node::Object(cells) => {
                cells.iter().flat_map(|(_, cell)| match cell {
                    Node::List(figures) => figures.iter().map(Node::text).collect(),
                    other => vec![other.text()],
                })
            }
            .collect(),
            other => vec![other.text()],
        })
        .collect();
    if rows.iter().any(|row| columns.len() < row.len()) {
        columns.insert(0, String::new());
    }
    let titles = members.iter().filter_map(|(_, node)| match node {
        Node::Text(text) => Some(text.clone()),
        _ => None,
    });
    let shown = table(&columns, &rows);
    Some(titles.chain(shown.lines().map(str::to_owned)).collect())
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Text(if value { "yes" } else { "no" }.to_owned()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Text(number(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element()? {
            nodes.push(node);
        }
        Ok(Node::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = object.next_entry()? {
            members.push(member);
        }
        Ok(Node::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_tables_their_columns() {
        let json = serde_json::json!({"columns": ["stored", "rate/s"], "title": "by size",
            "rows": [{"case": "0.1M", "figures": [1234.5]}, {"case": "1M", "figures": [null]}]});
        #[derive(Serialize)]
        struct Report {
            zeta: f64,
            alpha: bool,
            missing: Option<u32>,
            left_out: u32,
            inside: [Option<(u32, &'static str)>; 1],
            table: serde_json::Value,
        }
        let inside = [Some((7, "x"))];
        let report =
            Report { zeta: 0.5, alpha: true, missing: None, left_out: 1, inside, table: json };
        let expected = "\
zeta            0.5000
alpha           yes
inside          7
                x
table           by size
                  stored  rate/s
                  0.1M      1234
                  1M           -
";
        assert_eq!(fields(&report, &["left_out"]), expected);
    }

    #[test]
    fn members_of_an_object_share_lines() {
        let long = "x".repeat(70);
        let report = serde_json::json!({"all": {"a": 1, "b": 0.25, "c": null, "d": long},
            "records": [{"a": 1}]});
        let records = "records         1 entries, see --json\n";
        let expected = format!("all             a 1, b 0.2500,\n{:16}d {long}\n{records}", "");
        assert_eq!(fields(&report, &[]), expected);
    }
}
