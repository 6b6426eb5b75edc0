//! Compares received messages with the expected ones.
//!
//! In a pattern, `{any}`, `{time}`, `{whole-time}`, `{http-date}`, `{number}` and `{uuid}` match
//! values that are not known beforehand. In JSON they may replace a value too, and `...` allows
//! further members of an object or further items of a list.

use serde_json::{Map, Value};

use crate::variables::placeholder;

const MORE: &str = "...";

/// The first difference between two JSON values.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Path of the member, `.a.0`; empty for the whole.
    pub(crate) path: String,
    pub(crate) expected: String,
    pub(crate) found: String,
}

/// Whether all of `text` matches `pattern`.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let Some(at) = find_placeholder(pattern) else { return pattern == text };
    let (before, tail) = pattern.split_at(at);
    let Some(text) = text.strip_prefix(before) else { return false };
    let name = placeholder(tail).unwrap_or_default();
    let rest = &tail[name.len() + 2..];
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    ends.into_iter().any(|end| is_a(name, &text[..end]) && matches(rest, &text[end..]))
}

/// The JSON of a pattern.
///
/// # Errors
/// The difference.
pub(crate) fn parse(pattern: &str) -> Result<Value, String> {
    serde_json::from_str(&quote(pattern)).map_err(|error| format!("not a JSON pattern: {error}"))
}

/// The first difference of `found` from the pattern.
pub(crate) fn compare(pattern: &Value, found: &Value) -> Option<Difference> {
    let differs = |expected: String| {
        Some(Difference { path: String::new(), expected, found: found.to_string() })
    };
    match (pattern, found) {
        (Value::String(pattern), Value::String(text)) if matches(pattern, text) => None,
        (Value::String(pattern), _) if pattern == "{any}" => None,
        (Value::String(pattern), Value::Number(_)) if pattern == "{number}" => None,
        (Value::Object(pattern), Value::Object(found)) => compare_objects(pattern, found),
        (Value::Array(pattern), Value::Array(found)) => compare_lists(pattern, found),
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => None,
        (Value::Bool(_) | Value::Null, _) if pattern == found => None,
        _ => differs(pattern.to_string()),
    }
}

fn compare_objects(pattern: &Map<String, Value>, found: &Map<String, Value>) -> Option<Difference> {
    for (name, pattern) in pattern.iter().filter(|(name, _)| *name != MORE) {
        let Some(value) = found.get(name) else {
            let found = Value::Object(found.clone()).to_string();
            let expected = format!("a member {name}: {pattern}");
            return Some(Difference { path: String::new(), expected, found });
        };
        if let Some(difference) = compare(pattern, value) {
            return Some(inside(name, difference));
        }
    }
    let extra = found.keys().find(|name| !pattern.contains_key(*name));
    match extra {
        Some(name) if !pattern.contains_key(MORE) => Some(Difference {
            path: format!(".{name}"),
            expected: "no such member".to_owned(),
            found: found[name].to_string(),
        }),
        _ => None,
    }
}

fn compare_lists(pattern: &[Value], found: &[Value]) -> Option<Difference> {
    let more = |value: &Value| value.as_str() == Some(MORE);
    let whole = |expected: String| {
        let found = Value::Array(found.to_vec()).to_string();
        Some(Difference { path: String::new(), expected, found })
    };
    if pattern.iter().any(more) {
        let missing = pattern
            .iter()
            .filter(|one| !more(one))
            .find(|one| !found.iter().any(|value| compare(one, value).is_none()));
        return missing.and_then(|one| whole(format!("an item {one}")));
    }
    if pattern.len() != found.len() {
        return whole(format!("{} items", pattern.len()));
    }
    let pairs = pattern.iter().zip(found).enumerate();
    pairs
        .filter_map(|(at, (one, value))| Some(inside(&at.to_string(), compare(one, value)?)))
        .next()
}

fn inside(name: &str, difference: Difference) -> Difference {
    Difference { path: format!(".{name}{}", difference.path), ..difference }
}

fn find_placeholder(pattern: &str) -> Option<usize> {
    pattern.match_indices('{').map(|(at, _)| at).find(|at| {
        placeholder(&pattern[*at..]).is_some_and(|name| crate::variables::MATCHERS.contains(&name))
    })
}

fn is_a(name: &str, text: &str) -> bool {
    let shaped = |shape: &str| {
        text.len() == shape.len()
            && text.bytes().zip(shape.bytes()).all(|(byte, shape)| match shape {
                b'9' => byte.is_ascii_digit(),
                b'f' => byte.is_ascii_hexdigit(),
                b'A' => byte.is_ascii_alphabetic(),
                shape => byte == shape,
            })
    };
    match name {
        "any" => true,
        "time" => shaped("9999-99-99T99:99:99.999Z"),
        "whole-time" => shaped("9999-99-99T99:99:99.000Z") && text.ends_with(".000Z"),
        "http-date" => shaped("AAA, 99 AAA 9999 99:99:99 AAA") && text.ends_with("GMT"),
        "number" => text.parse::<f64>().is_ok(),
        "uuid" => shaped("ffffffff-ffff-ffff-ffff-ffffffffffff"),
        _ => false,
    }
}

/// Puts quotation marks around placeholders for whole values, and makes a member or an item of
/// `...`.
fn quote(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut in_object = Vec::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let mut length = first.len_utf8();
        match first {
            '"' => {
                length = text_length(rest);
                out.push_str(&rest[..length]);
            }
            '{' if let Some(name) = placeholder(rest) => {
                length = name.len() + 2;
                out.push_str(&format!("\"{{{name}}}\""));
            }
            '.' if rest.starts_with(MORE) => {
                length = MORE.len();
                let is_member = in_object.last() == Some(&true);
                out.push_str(if is_member { "\"...\": 0" } else { "\"...\"" });
            }
            _ => {
                match first {
                    '{' => in_object.push(true),
                    '[' => in_object.push(false),
                    '}' | ']' => drop(in_object.pop()),
                    _ => (),
                }
                out.push(first);
            }
        }
        rest = &rest[length..];
    }
    out
}

/// Length of the JSON text at the beginning, with its quotation marks.
fn text_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => (),
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_matched_against_its_pattern() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("{any}", "", true),
            ("a{any}b{any}", "axxbyy", true),
            ("a{any}b", "axx", false),
            ("{time}", "2026-01-01T10:00:00.123Z", true),
            ("{whole-time}", "2026-01-01T10:00:00.123Z", false),
            ("{whole-time}", "2026-01-01T10:00:00.000Z", true),
            ("at {http-date}", "at Tue, 15 Nov 1994 08:12:31 GMT", true),
            ("{number}", "-1.5", true),
            ("{uuid}", "b51ec534-ee48-4575-b6a9-ead2955b8069", true),
            ("{other}", "x", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn values_are_matched_against_their_pattern() {
        for (pattern, found, expected) in [
            (r#"{"a": {any}}"#, r#"{"a": [1]}"#, ""),
            (r#"{"a": {number}}"#, r#"{"a": 1.5}"#, ""),
            (r#"{"a": {number}}"#, r#"{"a": "x"}"#, ".a"),
            (r#"{"a": 1}"#, r#"{"a": 1, "b": 2}"#, ".b"),
            (r#"{"a": 1, ...}"#, r#"{"a": 1, "b": 2}"#, ""),
            (r#"{...}"#, r#"{"a": 1}"#, ""),
            (r#"[..., {"a": 1}]"#, r#"[{"a": 2}, {"a": 1}]"#, ""),
            (r#"[{"a": 1}, {"a": 1}]"#, r#"[{"a": 1}, {"a": 2}]"#, ".1.a"),
            (r#"{"a": "x ... \" {any}"}"#, r#"{"a": "x ... \" y"}"#, ""),
            (r#"{"a": null}"#, r#"{"a": 0}"#, ".a"),
        ] {
            let pattern = parse(pattern).expect("a pattern");
            let found: Value = serde_json::from_str(found).expect("JSON");
            let path = compare(&pattern, &found).map_or(String::new(), |it| it.path);
            assert_eq!(path, expected, "{pattern} {found}");
        }
        let more = parse("[..., 3]").expect("a pattern");
        assert!(compare(&more, &Value::from(vec![1, 2])).is_some());
    }
}
