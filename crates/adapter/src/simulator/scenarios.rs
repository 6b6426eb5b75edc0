//! `POST /scenarios`: operations of the adapter's API, each with the results of earlier ones.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Map, Value, json};

use super::{Reply, error};
use crate::http_client::{HttpClient, Target};

/// Maximum number of scenarios of a request.
const SCENARIOS_MAX: usize = 100;

/// Runs scenarios in their order, up to the first that fails.
pub(super) async fn run(scenarios: &Value, http: &HttpClient, adapter: &Target) -> Reply {
    let Some(scenarios) = scenarios.as_array().filter(|all| all.len() <= SCENARIOS_MAX) else {
        return error(400, "7003", "Request was malformed");
    };
    let mut results = Map::new();
    for scenario in scenarios {
        let Some(name) = scenario["name"].as_str() else {
            return error(400, "7003", "Request was malformed");
        };
        let known = Value::from(results.clone());
        let body = filled(&scenario["body"], &known);
        let Some((method, path)) = operation(scenario, &known) else {
            return error(400, "7000", "Scenario operation isn't specified");
        };
        match call(http, adapter, (method, &path), &body).await {
            Ok(result) => results.insert(name.to_owned(), json!({ "result": result })),
            Err(failure) => {
                results.insert(name.to_owned(), json!({ "error": failure }));
                break;
            }
        };
    }
    (200, results.into())
}

fn operation(scenario: &Value, known: &Value) -> Option<(Method, String)> {
    Some(match scenario["operation"].as_str()? {
        "postTransfers" => (Method::POST, "/transfers".to_owned()),
        "putTransfers" => {
            let id = filled(&scenario["params"]["transferId"], known);
            (Method::PUT, format!("/transfers/{}", fspiop::percent_encode(id.as_str()?)))
        }
        "postBulkTransfers" => (Method::POST, "/bulkTransfers".to_owned()),
        "postBulkQuotes" => (Method::POST, "/bulkQuotes".to_owned()),
        _ => return None,
    })
}

async fn call(
    http: &HttpClient,
    adapter: &Target,
    request: (Method, &str),
    body: &Value,
) -> Result<Value, Value> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = Bytes::from(body.to_string());
    match http.call(adapter, request, headers, body).await {
        Ok(reply) => {
            let body = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
            if reply.status.is_success() { Ok(body) } else { Err(body) }
        }
        Err(error) => Err(json!({ "message": error.to_string() })),
    }
}

/// A value with its templates `{{name.result.member}}` replaced. A text that is one template
/// becomes the value itself.
fn filled(value: &Value, known: &Value) -> Value {
    match value {
        Value::String(text) => filled_text(text, known),
        Value::Array(items) => items.iter().map(|item| filled(item, known)).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), filled(value, known)));
            Value::Object(members.collect())
        }
        other => other.clone(),
    }
}

fn filled_text(text: &str, known: &Value) -> Value {
    let found = |path: &str| {
        let pointer = format!("/{}", path.trim().replace('.', "/"));
        known.pointer(&pointer).cloned()
    };
    let whole = text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
    if let Some(value) = whole.filter(|path| !path.contains("{{")).and_then(found) {
        return value;
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((path, left)) = after.split_once("}}") else { break };
        out.push_str(before);
        match found(path) {
            Some(Value::String(text)) => out.push_str(&text),
            Some(value) => out.push_str(&value.to_string()),
            None => out.push_str(&format!("{{{{{path}}}}}")),
        }
        rest = left;
    }
    out.push_str(rest);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_use_earlier_results() {
        let known = json!({ "one": { "result": { "transferId": "T", "n": 5 } } });
        let body = json!({
            "id": "{{one.result.transferId}}", "n": "{{one.result.n}}",
            "text": "a {{one.result.transferId}} b {{one.result.n}}", "missing": "{{two.x}}",
            "list": ["{{one.result.n}}"],
        });
        let expected = json!({
            "id": "T", "n": 5, "text": "a T b 5", "missing": "{{two.x}}", "list": [5],
        });
        assert_eq!(filled(&body, &known), expected);
    }

    #[test]
    fn operations_have_their_routes() {
        let known = json!({ "one": { "result": { "transferId": "T" } } });
        let scenario = json!({
            "operation": "putTransfers", "params": { "transferId": "{{one.result.transferId}}" },
        });
        assert_eq!(operation(&scenario, &known), Some((Method::PUT, "/transfers/T".to_owned())));
        assert_eq!(operation(&json!({ "operation": "other" }), &known), None);
    }
}
