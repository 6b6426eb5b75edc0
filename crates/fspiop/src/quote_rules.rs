//! Rules of a scheme for quotes: a quote is refused, or sent to another FSP, if conditions about it
//! hold (hub-semantics 2.4).
//!
//! The file is a JSON list of rules, in the form of the reference, which reads it with
//! `json-rules-engine`:
//!
//! ```json
//! [{
//!   "conditions": {"all": [
//!     {"fact": "payload", "path": "$.amount.currency", "operator": "notIn", "value": ["USD"]}
//!   ]},
//!   "event": {
//!     "type": "INVALID_QUOTE_REQUEST",
//!     "params": {"FSPIOPError": "PAYEE_UNSUPPORTED_CURRENCY", "message": "USD only"}
//!   }
//! }]
//! ```
//!
//! A file with anything unknown is refused as a whole, with the place. Costs: a few microseconds
//! per rule and quote. Bounds: [`RULES_MAX`] rules, [`DEPTH_MAX`] levels of conditions.

mod error_names;
mod json_path;
#[cfg(test)]
mod tests;
mod values;

use std::cmp::{Ordering, Reverse};
use std::fmt;

use http::{HeaderName, HeaderValue};
use ledger::{Currency, FspName};
use serde_json::{Map, Value, json};

use self::json_path::JsonPath;
use self::values::{compare, deeply_equal, same_scalar};
use crate::error::ErrorCode;

/// Maximum number of rules.
pub const RULES_MAX: usize = 1_000;
/// Maximum number of levels of `all`, `any` and `not`.
pub const DEPTH_MAX: usize = 16;

const INVALID_QUOTE_REQUEST: &str = "INVALID_QUOTE_REQUEST";
const INTERCEPT_QUOTE: &str = "INTERCEPT_QUOTE";
/// The value of the fact `operation` for `POST /quotes`.
const QUOTE_REQUEST: &str = "quoteRequest";
/// The facts. A condition about another one is refused.
const FACTS: [&str; 5] = ["operation", "payload", "headers", "payer", "payee"];
/// The fact whose parameters name another fact and a path from a document with that fact alone.
const JSON_PATH: &str = "json-path";

/// The rules of a scheme, those with a higher `priority` first.
#[derive(Clone, Debug)]
pub struct QuoteRules {
    rules: Vec<Rule>,
}

/// The decision of all rules about a quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleDecision {
    /// No rule applies.
    Forward,
    /// The first rule that refuses it.
    Refuse(ErrorCode, String),
    /// The only rule that sends it to another FSP.
    Reroute(Reroute),
    /// Several rules send it to another FSP.
    Ambiguous,
}

/// Another recipient of a quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reroute {
    /// The FSP that gets the quote.
    pub to: FspName,
    /// Headers that are added. Their names begin with `x-`.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// The facts that rules can compare.
#[derive(Clone, Debug)]
pub struct QuoteFacts {
    facts: Value,
}

#[derive(Clone, Debug)]
struct Rule {
    priority: u64,
    condition: Condition,
    decision: RuleDecision,
}

#[derive(Clone, Debug)]
enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    Compare(Comparison),
}

#[derive(Clone, Debug)]
struct Comparison {
    fact: Operand,
    operator: Operator,
    value: Operand,
}

#[derive(Clone, Debug)]
enum Operand {
    Value(Value),
    Fact {
        name: String,
        path: Option<JsonPath>,
        /// The path begins at a document with this fact alone, and the result is a list.
        of_json_path: bool,
    },
}

macro_rules! operators {
    ($($operator:ident = $name:literal,)*) => {
        #[derive(Clone, Copy, Debug)]
        enum Operator { $($operator),* }

        const OPERATORS: &[(&str, Operator)] = &[$(($name, Operator::$operator)),*];
    };
}

operators! {
    Equal = "equal",
    NotEqual = "notEqual",
    In = "in",
    NotIn = "notIn",
    Contains = "contains",
    DoesNotContain = "doesNotContain",
    LessThan = "lessThan",
    LessThanInclusive = "lessThanInclusive",
    GreaterThan = "greaterThan",
    GreaterThanInclusive = "greaterThanInclusive",
    DeepEqual = "deepEqual",
    NotDeepEqual = "notDeepEqual",
    IsArray = "isArray",
    IsObject = "isObject",
    IsString = "isString",
}

impl QuoteFacts {
    /// The facts about a `POST /quotes` whose body is valid, with the participants of
    /// [`participant_fact`].
    #[must_use]
    pub fn new(body: &[u8], headers: &http::HeaderMap, [payer, payee]: [Value; 2]) -> Self {
        let payload = serde_json::from_slice(body).unwrap_or_default();
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers: Map<_, _> =
            headers.iter().map(|(name, value)| (name.to_string(), text(value).into())).collect();
        let values = [QUOTE_REQUEST.into(), payload, headers.into(), payer, payee];
        let facts: Map<_, _> = FACTS.iter().map(ToString::to_string).zip(values).collect();
        Self { facts: facts.into() }
    }
}

/// A participant as rules see it: `name`, `isActive` and `accounts`, in the form of the admin API.
#[must_use]
pub fn participant_fact(name: &FspName, is_active: bool, accounts: &[(Currency, bool)]) -> Value {
    let account = |(currency, is_active): &(Currency, bool)| {
        json!({
            "ledgerAccountType": "POSITION",
            "currency": currency.as_str(),
            "isActive": u8::from(*is_active),
        })
    };
    let accounts: Vec<_> = accounts.iter().map(account).collect();
    json!({"name": name.as_str(), "isActive": u8::from(is_active), "accounts": accounts})
}

impl QuoteRules {
    /// Reads a file of rules.
    ///
    /// # Errors
    /// A text with the place of the first fault, such as `[2].conditions.all[0].operator`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let document: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let list = document.as_array().ok_or("expected a list of rules")?;
        if RULES_MAX < list.len() {
            return Err(format!("{} rules, at most {RULES_MAX}", list.len()));
        }
        let read = |(number, rule)| Rule::read(&Place::root(rule).element(number, rule));
        let mut rules = list.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
        rules.sort_by_key(|rule| Reverse(rule.priority));
        Ok(Self { rules })
    }

    /// Whether no rule can apply.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Compares a quote with all rules. A refusal comes before a reroute.
    #[must_use]
    pub fn decide(&self, facts: &QuoteFacts) -> RuleDecision {
        let mut reroutes = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.condition.holds(facts)) {
            match &rule.decision {
                RuleDecision::Reroute(reroute) => reroutes.push(reroute),
                decision => return decision.clone(),
            }
        }
        match &reroutes[..] {
            [] => RuleDecision::Forward,
            [one] => RuleDecision::Reroute((*one).clone()),
            _ => RuleDecision::Ambiguous,
        }
    }
}

impl Condition {
    fn holds(&self, facts: &QuoteFacts) -> bool {
        match self {
            Self::All(conditions) => conditions.iter().all(|one| one.holds(facts)),
            Self::Any(conditions) => conditions.iter().any(|one| one.holds(facts)),
            Self::Not(condition) => !condition.holds(facts),
            Self::Compare(Comparison { fact, operator, value }) => {
                operator.holds(fact.value(facts).as_ref(), value.value(facts).as_ref())
            }
        }
    }
}

impl Operand {
    /// The value; `None` if the path selects nothing.
    fn value(&self, facts: &QuoteFacts) -> Option<Value> {
        match self {
            Self::Value(value) => Some(value.clone()),
            Self::Fact { name, path: None, .. } => facts.facts.get(name).cloned(),
            Self::Fact { name, path: Some(path), of_json_path: true } => {
                let fact = facts.facts.get(name)?.clone();
                let document = Value::Object(Map::from_iter([(name.clone(), fact)]));
                Some(path.select(&document).into_iter().cloned().collect())
            }
            Self::Fact { name, path: Some(path), of_json_path: false } => {
                let found = path.select(facts.facts.get(name)?);
                match path.selects_several() {
                    true if found.is_empty() => None,
                    true => Some(found.into_iter().cloned().collect()),
                    false => found.first().copied().cloned(),
                }
            }
        }
    }
}

impl Operator {
    /// Whether it holds for the value of a fact and the value with which it is compared. Absent
    /// values equal each other only.
    fn holds(self, fact: Option<&Value>, value: Option<&Value>) -> bool {
        let order = || compare(fact?, value?);
        let elements = fact.and_then(Value::as_array);
        let contains = |list: &Vec<Value>| {
            value.is_some_and(|value| list.iter().any(|it| same_scalar(it, value)))
        };
        let is_in =
            || fact.is_some_and(|fact| list_of(value).iter().any(|it| same_scalar(it, fact)));
        let is_equal = || match (fact, value) {
            (Some(fact), Some(value)) => same_scalar(fact, value),
            (fact, value) => fact.is_none() && value.is_none(),
        };
        let is_deeply_equal = || match (fact, value) {
            (Some(fact), Some(value)) => deeply_equal(fact, value),
            (fact, value) => fact.is_none() && value.is_none(),
        };
        let is = |kind: fn(&Value) -> bool| {
            Some(fact.is_some_and(kind)) == value.and_then(Value::as_bool)
        };
        match self {
            Self::Equal => is_equal(),
            Self::NotEqual => !is_equal(),
            Self::In => is_in(),
            Self::NotIn => !is_in(),
            Self::Contains => elements.is_some_and(contains),
            Self::DoesNotContain => elements.is_some_and(|list| !contains(list)),
            Self::LessThan => order() == Some(Ordering::Less),
            Self::LessThanInclusive => order().is_some_and(Ordering::is_le),
            Self::GreaterThan => order() == Some(Ordering::Greater),
            Self::GreaterThanInclusive => order().is_some_and(Ordering::is_ge),
            Self::DeepEqual => is_deeply_equal(),
            Self::NotDeepEqual => !is_deeply_equal(),
            Self::IsArray => is(Value::is_array),
            Self::IsObject => is(Value::is_object),
            Self::IsString => is(Value::is_string),
        }
    }
}

/// The elements of a list; a single value is a list of one, and an absent one is empty.
fn list_of(value: Option<&Value>) -> &[Value] {
    match value {
        Some(Value::Array(elements)) => elements,
        Some(one) => std::slice::from_ref(one),
        None => &[],
    }
}

/// A value of the file, with its place.
struct Place<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Place<'a> {
    fn root(value: &'a Value) -> Self {
        Self { path: String::new(), value }
    }

    fn element(&self, number: usize, value: &'a Value) -> Self {
        Self { path: format!("{}[{number}]", self.path), value }
    }

    fn fault(&self, text: impl fmt::Display) -> String {
        format!("{}: {text}", self.path)
    }

    /// The members of an object that has no others than `known`.
    fn object(&self, known: &[&str]) -> Result<&'a Map<String, Value>, String> {
        let members = self.value.as_object().ok_or_else(|| self.fault("expected an object"))?;
        match members.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(self.fault(format_args!("unknown member {name:?}"))),
            None => Ok(members),
        }
    }

    fn member(&self, name: &str) -> Option<Self> {
        let value = self.value.get(name)?;
        Some(Self { path: format!("{}.{name}", self.path), value })
    }

    fn require(&self, name: &str) -> Result<Self, String> {
        self.member(name).ok_or_else(|| self.fault(format_args!("{name:?} is missing")))
    }

    fn text(&self) -> Result<&'a str, String> {
        self.value.as_str().ok_or_else(|| self.fault("expected a text"))
    }

    fn elements(&self) -> Result<Vec<Self>, String> {
        let list = self.value.as_array().ok_or_else(|| self.fault("expected a list"))?;
        Ok(list.iter().enumerate().map(|(number, value)| self.element(number, value)).collect())
    }
}

impl Rule {
    fn read(place: &Place<'_>) -> Result<Self, String> {
        place.object(&["conditions", "event", "priority", "name"])?;
        let conditions = place.require("conditions")?;
        if !["all", "any", "not"].iter().any(|kind| conditions.member(kind).is_some()) {
            return Err(conditions.fault("expected \"all\", \"any\" or \"not\""));
        }
        let priority = place.member("priority").map_or(Ok(1), |place| {
            let priority = place.value.as_u64().filter(|priority| *priority != 0);
            priority.ok_or_else(|| place.fault("expected a whole number from 1"))
        })?;
        Ok(Self {
            priority,
            condition: read_condition(&conditions, DEPTH_MAX)?,
            decision: read_event(&place.require("event")?)?,
        })
    }
}

fn read_condition(place: &Place<'_>, levels: usize) -> Result<Condition, String> {
    let Some(levels) = levels.checked_sub(1) else {
        return Err(place.fault(format_args!("more than {DEPTH_MAX} levels of conditions")));
    };
    let list = |place: Place<'_>| {
        let read = |one| read_condition(&one, levels);
        place.elements()?.into_iter().map(read).collect::<Result<Vec<_>, _>>()
    };
    if let Some(all) = place.member("all") {
        place.object(&["all", "priority", "name"])?;
        return list(all).map(Condition::All);
    }
    if let Some(any) = place.member("any") {
        place.object(&["any", "priority", "name"])?;
        return list(any).map(Condition::Any);
    }
    if let Some(not) = place.member("not") {
        place.object(&["not", "priority", "name"])?;
        return Ok(Condition::Not(Box::new(read_condition(&not, levels)?)));
    }
    place.object(&["fact", "path", "params", "operator", "value", "priority", "name"])?;
    let operator = place.require("operator")?;
    let name = operator.text()?;
    let found = OPERATORS.iter().find(|(known, _)| *known == name).map(|(_, found)| *found);
    let known = || OPERATORS.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ");
    let unknown = || operator.fault(format_args!("unknown operator {name:?}: use {}", known()));
    let value = place.require("value")?;
    Ok(Condition::Compare(Comparison {
        fact: read_fact(place)?,
        operator: found.ok_or_else(unknown)?,
        value: match value.member("fact") {
            Some(_) => {
                value.object(&["fact", "path", "params"])?;
                read_fact(&value)?
            }
            None => Operand::Value(value.value.clone()),
        },
    }))
}

/// The members `fact`, `path` and `params`.
fn read_fact(place: &Place<'_>) -> Result<Operand, String> {
    let fact = place.require("fact")?;
    if fact.text()? == JSON_PATH {
        let params = place.require("params")?;
        params.object(&["fact", "path"])?;
        let (name, path) = (params.require("fact")?, params.require("path")?);
        let path = Some(read_path(&path)?);
        return Ok(Operand::Fact { name: read_name(&name)?, path, of_json_path: true });
    }
    let path = place.member("path").map(|path| read_path(&path)).transpose()?;
    Ok(Operand::Fact { name: read_name(&fact)?, path, of_json_path: false })
}

fn read_path(place: &Place<'_>) -> Result<JsonPath, String> {
    JsonPath::parse(place.text()?).map_err(|error| place.fault(error))
}

fn read_name(place: &Place<'_>) -> Result<String, String> {
    let name = place.text()?;
    match FACTS.contains(&name) {
        true => Ok(name.to_owned()),
        false => {
            let known = FACTS.join(", ");
            Err(place.fault(format_args!("unknown fact {name:?}: use {known} or {JSON_PATH}")))
        }
    }
}

/// Parameters that only the reference's example has are accepted, and have no effect.
fn read_event(place: &Place<'_>) -> Result<RuleDecision, String> {
    place.object(&["type", "params"])?;
    let (kind, params) = (place.require("type")?, place.require("params")?);
    match kind.text()? {
        INVALID_QUOTE_REQUEST => {
            let error = params.require("FSPIOPError")?;
            let code = error_names::code_of(error.text()?).ok_or_else(|| {
                error.fault("expected a name of the reference, such as PAYER_ERROR, or four digits")
            })?;
            let message = params.require("message")?;
            Ok(RuleDecision::Refuse(code, code.describe(message.text()?)))
        }
        INTERCEPT_QUOTE => read_reroute(&params).map(RuleDecision::Reroute),
        other => Err(kind.fault(format_args!(
            "unknown type {other:?}: use {INVALID_QUOTE_REQUEST} or {INTERCEPT_QUOTE}"
        ))),
    }
}

fn read_reroute(params: &Place<'_>) -> Result<Reroute, String> {
    let to = params.require("rerouteToFsp")?;
    let name = FspName::new(to.text()?).ok_or_else(|| to.fault("expected the name of an FSP"))?;
    let mut headers = Vec::new();
    if let Some(added) = params.member("additionalHeaders") {
        let members = added.value.as_object().ok_or_else(|| added.fault("expected an object"))?;
        for name in members.keys() {
            headers.push(read_header(name, &added.require(name)?)?);
        }
    }
    Ok(Reroute { to: name, headers })
}

fn read_header(name: &str, place: &Place<'_>) -> Result<(HeaderName, HeaderValue), String> {
    let known = HeaderName::try_from(name).ok().filter(|name| name.as_str().starts_with("x-"));
    let name = known.ok_or_else(|| place.fault("expected a header whose name begins with x-"))?;
    let value = HeaderValue::try_from(place.text()?);
    Ok((name, value.map_err(|_| place.fault("expected the value of a header"))?))
}
