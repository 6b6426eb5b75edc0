//! Faults by rule: the rule files of the reference simulator, and four more events.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

/// Longest delay that a rule may cause, in milliseconds.
const DELAY_MS_MAX: u64 = 600_000;

/// A rule: conditions on path, method and body, and what happens then.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    #[serde(default)]
    conditions: Conditions,
    event: Event,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Conditions {
    all: Vec<Condition>,
    any: Vec<Condition>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    fact: Fact,
    operator: Operator,
    value: Value,
    /// Member of the body: `.amount`, `.to.idValue`.
    path: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Fact {
    Path,
    Method,
    Body,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Operator {
    Equal,
    NotEqual,
    In,
    NotIn,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", content = "params", rename_all = "SCREAMING_SNAKE_CASE")]
enum Event {
    /// This answer, right or wrong.
    #[serde(alias = "FIXED_RESPONSE")]
    FixedErrorResponse {
        #[serde(rename = "statusCode")]
        status: u16,
        #[serde(default)]
        body: Value,
    },
    /// The usual answer after this time.
    Slow { milliseconds: u64 },
    /// No answer.
    Silent {},
    /// The connection is closed.
    Dead {},
}

/// The effect of a rule on a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RuleEffect {
    Answer(u16, Value),
    Slow(Duration),
    Silent,
    Dead,
}

/// The rule that published tests expect: `POST /transfers` of 123 is refused with 4001.
pub(super) fn published() -> Vec<Rule> {
    let rule = json!({
        "conditions": { "all": [
            { "fact": "path", "operator": "equal", "value": "/transfers" },
            { "fact": "method", "operator": "equal", "value": "POST" },
            { "fact": "body", "operator": "equal", "value": "123", "path": ".amount" },
        ] },
        "event": { "type": "FIXED_ERROR_RESPONSE", "params": {
            "statusCode": 500,
            "body": { "statusCode": "4001", "message": "Payer FSP insufficient liquidity" },
        } },
    });
    vec![serde_json::from_value(rule).expect("the rule is valid")]
}

/// The fault of the first rule that matches a request.
pub(super) fn apply(rules: &[Rule], method: &str, path: &str, body: &Value) -> Option<RuleEffect> {
    let rule = rules.iter().find(|rule| rule.conditions.hold(method, path, body))?;
    Some(match &rule.event {
        Event::FixedErrorResponse { status, body } => RuleEffect::Answer(*status, body.clone()),
        Event::Slow { milliseconds } => {
            RuleEffect::Slow(Duration::from_millis((*milliseconds).min(DELAY_MS_MAX)))
        }
        Event::Silent {} => RuleEffect::Silent,
        Event::Dead {} => RuleEffect::Dead,
    })
}

impl Conditions {
    fn hold(&self, method: &str, path: &str, body: &Value) -> bool {
        let holds = |condition: &Condition| condition.holds(method, path, body);
        self.all.iter().all(holds) && (self.any.is_empty() || self.any.iter().any(holds))
    }
}

impl Condition {
    fn holds(&self, method: &str, path: &str, body: &Value) -> bool {
        let found = match self.fact {
            Fact::Path => Value::from(path),
            Fact::Method => Value::from(method),
            Fact::Body => {
                let member = self.path.as_deref().unwrap_or("");
                let pointer = member.trim_start_matches('$').replace('.', "/");
                body.pointer(&pointer).cloned().unwrap_or(Value::Null)
            }
        };
        let is_in = || self.value.as_array().is_some_and(|values| values.contains(&found));
        match self.operator {
            Operator::Equal => found == self.value,
            Operator::NotEqual => found != self.value,
            Operator::In => is_in(),
            Operator::NotIn => !is_in(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_rule_refuses_one_amount() {
        let rules = published();
        let found =
            |method, path, amount| apply(&rules, method, path, &json!({ "amount": amount }));
        let Some(RuleEffect::Answer(500, body)) = found("POST", "/transfers", "123") else {
            panic!()
        };
        assert_eq!(body["statusCode"], "4001");
        assert_eq!(found("POST", "/transfers", "124"), None);
        assert_eq!(found("POST", "/quoterequests", "123"), None);
    }

    #[test]
    fn faults_are_read_from_a_file() {
        let text = r#"[
            {"conditions": {"any": [{"fact": "path", "operator": "in", "value": ["/a", "/b"]}]},
             "event": {"type": "SLOW", "params": {"milliseconds": 5}}},
            {"conditions": {}, "event": {"type": "SILENT", "params": {}}}]"#;
        let rules: Vec<Rule> = serde_json::from_str(text).expect("valid");
        let slow = RuleEffect::Slow(Duration::from_millis(5));
        assert_eq!(apply(&rules, "GET", "/b", &Value::Null), Some(slow));
        assert_eq!(apply(&rules, "GET", "/c", &Value::Null), Some(RuleEffect::Silent));
    }
}
