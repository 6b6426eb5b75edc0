//! Validates a value against a schema of a document.
//!
//! Supports the part of JSON Schema that our documents use, except patterns, which the tables of
//! `fspiop` compare with its own code. Recursion is as deep as the schema; our schemas are not
//! recursive.

use serde_json::Value;

/// The first error of `value`; `None` if it conforms.
#[must_use]
pub fn fault(document: &Value, schema: &Value, value: &Value) -> Option<String> {
    let schema = resolve(document, schema);
    let all = schema["allOf"].as_array().into_iter().flatten();
    if let Some(fault) = all.into_iter().find_map(|one| fault(document, one, value)) {
        return Some(fault);
    }
    if let Some(any) = schema["anyOf"].as_array()
        && any.iter().all(|one| fault(document, one, value).is_some())
    {
        return Some(format!("{value} matches none of the schemas"));
    }
    if value.is_null() && schema["nullable"] == true {
        return None;
    }
    if let Some(kind) = schema["type"].as_str()
        && !is_of_type(kind, value)
    {
        return Some(format!("{value} is not of type {kind}"));
    }
    if let Some(names) = schema["enum"].as_array()
        && !names.contains(value)
    {
        return Some(format!("{value} is not one of the values"));
    }
    match value {
        Value::String(text) => {
            bounds(schema, ["minLength", "maxLength"], text.chars().count(), "characters")
        }
        Value::Array(items) => bounds(schema, ["minItems", "maxItems"], items.len(), "items")
            .or_else(|| items.iter().find_map(|item| fault(document, &schema["items"], item))),
        Value::Object(members) => object_fault(document, schema, members),
        _ => None,
    }
}

/// Resolves a reference to its schema.
#[must_use]
pub fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|path| path.strip_prefix('#')) {
        Some(path) => document.pointer(path).map_or(schema, |found| resolve(document, found)),
        None => schema,
    }
}

fn object_fault(
    document: &Value,
    schema: &Value,
    members: &serde_json::Map<String, Value>,
) -> Option<String> {
    let required = schema["required"].as_array().into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if !members.contains_key(name) {
            return Some(format!("{name} is missing"));
        }
    }
    for (name, value) in members {
        match schema["properties"].get(name) {
            Some(one) => {
                if let Some(fault) = fault(document, one, value) {
                    return Some(format!("{name}: {fault}"));
                }
            }
            None if schema["additionalProperties"] == false => {
                return Some(format!("{name} is not described"));
            }
            None => (),
        }
    }
    None
}

fn is_of_type(kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

fn bounds(schema: &Value, names: [&str; 2], count: usize, unit: &str) -> Option<String> {
    let bound = |name: &str| schema[name].as_u64().map(|bound| bound as usize);
    let [least, most] = names.map(bound);
    let fits = least.is_none_or(|least| least <= count) && most.is_none_or(|most| count <= most);
    (!fits).then(|| format!("{count} {unit} are not within the bounds"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn faults_are_found() {
        let document = json!({"components": {"schemas": {"Name": {
            "type": "string", "minLength": 2, "maxLength": 3,
        }}}});
        let schema = json!({
            "type": "object",
            "required": ["name"],
            "additionalProperties": false,
            "properties": {
                "name": {"$ref": "#/components/schemas/Name"},
                "list": {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2},
                "any": {"anyOf": [{"type": "boolean"}, {"type": "integer"}]},
                "none": {"type": "string", "nullable": true},
            },
        });
        for (value, good) in [
            (json!({"name": "ab"}), true),
            (json!({"name": "ab", "list": [1, 2], "any": 7, "none": null}), true),
            (json!([]), false),
            (json!({}), false),
            (json!({"name": "a"}), false),
            (json!({"name": "abcd"}), false),
            (json!({"name": 1}), false),
            (json!({"name": "ab", "list": [3]}), false),
            (json!({"name": "ab", "list": [1, 1, 1]}), false),
            (json!({"name": "ab", "any": "x"}), false),
            (json!({"name": null}), false),
            (json!({"name": "ab", "other": 1}), false),
        ] {
            assert_eq!(fault(&document, &schema, &value).is_none(), good, "{value}");
        }
    }
}
