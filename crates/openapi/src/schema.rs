//! Converts the validation rules of bodies to JSON Schema.

use ::fspiop::schema::{Form, Rule, Text};
use serde_json::{Map, Value, json};

/// A reference to a schema of the document.
#[must_use]
pub fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The schemas of all rules that have a name.
#[must_use]
pub fn of_named_rules() -> Vec<(String, Value)> {
    let named = ::fspiop::body::NAMED_RULES.iter();
    named.map(|(name, rule)| ((*name).to_owned(), of_rule(rule))).collect()
}

/// The schema of a rule, as a reference where the rule has a name.
#[must_use]
pub fn of(rule: &'static Rule) -> Value {
    match ::fspiop::body::NAMED_RULES.iter().find(|(_, named)| std::ptr::eq(*named, rule)) {
        Some((name, _)) => reference(name),
        None => of_rule(rule),
    }
}

/// Names of persons. The published pattern, which the code checks, speaks of Unicode's properties,
/// which not every dialect knows; this one asks for less: beyond ASCII, all but controls.
const PERSON_NAME: &str = "^ *[A-Za-z0-9_.,'\\u00a1-\\uffff-][A-Za-z0-9_ .,'\\u00a0-\\uffff-]*$";

/// A pattern in the words that all dialects of regular expressions read the same way: `\d` means
/// the digits 0 to 9 here and more elsewhere.
#[must_use]
pub fn portable(pattern: &str) -> String {
    if pattern.contains("\\p{") {
        return PERSON_NAME.to_owned();
    }
    pattern.replace("[\\d]", "[0-9]").replace("\\d", "[0-9]").replace("9-_]", "9_-]")
}

fn of_rule(rule: &'static Rule) -> Value {
    match rule {
        Rule::Text(text) => of_text(text),
        Rule::List(list) => json!({
            "type": "array",
            "items": of(list.item),
            "minItems": list.least,
            "maxItems": list.most,
        }),
        Rule::Object(shape) => {
            let members: Map<String, Value> =
                shape.members.iter().map(|one| (one.name.to_owned(), of(one.rule))).collect();
            let mut out = json!({"type": "object"});
            if !members.is_empty() {
                out["properties"] = members.into();
            }
            if !shape.required.is_empty() {
                out["required"] = json!(shape.required);
            }
            if shape.closed {
                out["additionalProperties"] = json!(false);
            }
            out
        }
    }
}

fn of_text(text: &Text) -> Value {
    let mut out = json!({"type": "string"});
    if 0 < text.least {
        out["minLength"] = json!(text.least);
    }
    if text.most != usize::MAX {
        out["maxLength"] = json!(text.most);
    }
    match &text.form {
        Form::Any => (),
        Form::Pattern { pattern, .. } => out["pattern"] = json!(portable(pattern)),
        Form::OneOf(names) => out["enum"] = json!(names),
        Form::Name { all, .. } => out["enum"] = json!(all()),
    }
    out
}
