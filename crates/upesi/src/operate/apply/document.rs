//! A TOML or JSON file as a tree whose values know their lines.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and its line, from 1.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

/// A value. A number keeps its digits.
#[derive(Debug)]
pub(super) enum Value {
    Null,
    Text(String),
    Number(String),
    Flag(bool),
    List(Vec<Node>),
    /// Members by name. The line of a member is that of its name.
    Table(BTreeMap<String, Node>),
    /// A date or a time, which no field takes.
    Date,
}

/// A fault in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileFault {
    pub(super) line: usize,
    pub(super) text: String,
}

/// Parses TOML.
pub(super) fn from_toml(text: &str) -> Result<Node, FileFault> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        FileFault { line: line_at(text, at), text: error.message().to_owned() }
    })?;
    Ok(toml_table(text, 0, table.get_ref()))
}

/// Parses JSON.
pub(super) fn from_json(text: &str) -> Result<Node, FileFault> {
    let raw = serde_json::from_str::<&RawValue>(text);
    let raw = raw.map_err(|error| FileFault { line: error.line(), text: error.to_string() })?;
    Ok(json_node(text, raw))
}

fn toml_table(text: &str, start: usize, table: &DeTable<'_>) -> Node {
    let members = table.iter().map(|(name, value)| {
        let node = toml_node(text, value);
        let line = line_at(text, name.span().start);
        (name.get_ref().to_string(), Node { line, ..node })
    });
    Node { line: line_at(text, start), value: Value::Table(members.collect()) }
}

fn toml_node(text: &str, node: &Spanned<DeValue<'_>>) -> Node {
    let start = node.span().start;
    let value = match node.get_ref() {
        DeValue::String(value) => Value::Text(value.to_string()),
        DeValue::Integer(value) => Value::Number(value.to_string()),
        DeValue::Float(value) => Value::Number(value.as_str().to_owned()),
        DeValue::Boolean(value) => Value::Flag(*value),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(list) => {
            Value::List(list.iter().map(|value| toml_node(text, value)).collect())
        }
        DeValue::Table(table) => return toml_table(text, start, table),
    };
    Node { line: line_at(text, start), value }
}

fn json_node(text: &str, raw: &RawValue) -> Node {
    let part = raw.get();
    let line = line_of(text, part);
    let value = match part.as_bytes().first() {
        Some(b'{') => Value::Table(json_members(text, part)),
        Some(b'[') => {
            let list = parsed::<Vec<&RawValue>>(part);
            Value::List(list.into_iter().map(|value| json_node(text, value)).collect())
        }
        Some(b'"') => Value::Text(parsed(part)),
        Some(b't' | b'f') => Value::Flag(parsed(part)),
        Some(b'n') | None => Value::Null,
        Some(_) => Value::Number(part.to_owned()),
    };
    Node { line, value }
}

fn json_members(text: &str, part: &str) -> BTreeMap<String, Node> {
    let members = parsed::<BTreeMap<Cow<'_, str>, &RawValue>>(part);
    members.into_iter().map(|(name, value)| (name.into_owned(), json_node(text, value))).collect()
}

/// A part of a text that has been parsed as a whole before.
fn parsed<'t, T: Deserialize<'t>>(part: &'t str) -> T {
    serde_json::from_str(part).expect("a part of valid JSON is valid JSON of its kind")
}

/// The line of a part that lies in the text.
fn line_of(text: &str, part: &str) -> usize {
    line_at(text, part.as_ptr() as usize - text.as_ptr() as usize)
}

fn line_at(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(node: &Node, path: &str, found: &mut Vec<String>) {
        match &node.value {
            Value::Table(members) => {
                found.push(format!("{}: {path}", node.line));
                members.iter().for_each(|(name, it)| lines(it, &format!("{path}.{name}"), found));
            }
            Value::List(list) => {
                list.iter().for_each(|it| lines(it, &format!("{path}[]"), found));
            }
            value => found.push(format!("{}: {path} {value:?}", node.line)),
        }
    }

    fn all(node: &Node) -> Vec<String> {
        let mut found = Vec::new();
        lines(node, "", &mut found);
        found
    }

    #[test]
    fn every_value_has_its_line() {
        let toml = "[a]\nb = 1.50\nc = [\n  true,\n  { d = 'x' },\n]\n\n[[e]]\nf = 0x10\n";
        let expected = [
            "1: ",
            "1: .a",
            "2: .a.b Number(\"1.50\")",
            "4: .a.c[] Flag(true)",
            "5: .a.c[]",
            "5: .a.c[].d Text(\"x\")",
            "8: .e[]",
            "9: .e[].f Number(\"0x10\")",
        ];
        assert_eq!(all(&from_toml(toml).expect("valid")), expected);
        let json = "{\"a\": {\n\"b\": 1.50,\n\"c\": [true,\n {\"d\": \"x\\n\"}]},\n\"e\": null}";
        let expected = [
            "1: ",
            "1: .a",
            "2: .a.b Number(\"1.50\")",
            "3: .a.c[] Flag(true)",
            "4: .a.c[]",
            "4: .a.c[].d Text(\"x\\n\")",
            "5: .e Null",
        ];
        assert_eq!(all(&from_json(json).expect("valid")), expected);
    }

    #[test]
    fn syntax_errors_have_a_line() {
        let fault = from_toml("a = 1\nb = \n").expect_err("no value");
        assert_eq!(fault.line, 2, "{fault:?}");
        let fault = from_json("{\"a\": 1,\n}").expect_err("a comma too much");
        assert_eq!(fault.line, 2, "{fault:?}");
    }
}
