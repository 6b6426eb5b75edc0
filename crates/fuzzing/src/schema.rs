//! A second, independent copy of the published body schemas (`schemas.json`), and a simple
//! validator.
//!
//! It is independent of the tables in `fspiop`. An intended difference from the published form has
//! its reason in a member `because`.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use regex_syntax::hir::{ClassUnicode, HirKind};
use serde_json::Value as Json;

use crate::json::{Node, Value};

/// The required type of a value.
#[derive(Debug)]
enum Rule {
    Text {
        characters: (usize, usize),
        patterns: Vec<Regex>,
        /// The required class of each character.
        class: Option<ClassUnicode>,
        names: Vec<String>,
        is_currency: bool,
    },
    Object {
        members: HashMap<String, Rule>,
        required: Vec<String>,
        closed: bool,
    },
    List {
        item: Box<Rule>,
        items: (usize, usize),
    },
}

/// The errors of a document.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Codes that a refusal may carry: one for each fault, for which comes first is not asked.
    pub(crate) codes: Vec<u16>,
    /// Codes of faults that may be there: whether they are is not known here.
    pub(crate) possible: Vec<u16>,
    /// Whether a member that the form declares is repeated.
    pub(crate) repeats_known: bool,
}

/// Characters that have no meaning yet, by the tables at hand. Those of the hub may be newer.
static UNASSIGNED: LazyLock<ClassUnicode> = LazyLock::new(|| class(r"\p{Cn}"));

static SCHEMAS: LazyLock<HashMap<String, Rule>> = LazyLock::new(|| {
    let all: Json = serde_json::from_str(include_str!("schemas.json")).expect("it is JSON");
    let all = all.as_object().expect("it is an object");
    all.keys().map(|name| (name.clone(), compile(&all[name], all))).collect()
});

/// Validates a document against the form of that name.
pub(crate) fn check(node: &Node, schema: &str) -> Findings {
    let mut findings = Findings::default();
    rule(schema).check(node, &mut findings);
    findings
}

/// Whether a text matches the form of that name.
pub(crate) fn takes(schema: &str, text: &str) -> bool {
    rule(schema).holds(text)
}

/// Names of the members at the top of a form.
pub(crate) fn members(schema: &str) -> impl Iterator<Item = &'static str> {
    match rule(schema) {
        Rule::Object { members, .. } => {
            let mut names: Vec<_> = members.keys().map(String::as_str).collect();
            names.sort_unstable();
            names.into_iter()
        }
        _ => Vec::new().into_iter(),
    }
}

fn rule(schema: &str) -> &'static Rule {
    SCHEMAS.get(schema).unwrap_or_else(|| panic!("schemas.json has no {schema}"))
}

impl Rule {
    fn check(&self, node: &Node, findings: &mut Findings) {
        match (self, &node.value) {
            (Self::Text { .. }, Value::Text(text)) => {
                if text.is_broken {
                    findings.codes.push(3101);
                } else {
                    self.check_text(&text.text, findings);
                }
            }
            (Self::Text { .. }, Value::Scalar(Some(text))) => self.check_text(text, findings),
            (Self::Object { members, required, closed }, Value::Object(found)) => {
                for name in required {
                    if node.all(name).next().is_none() {
                        findings.codes.push(3102);
                    }
                }
                for (name, value) in found {
                    match members.get(&name.text) {
                        Some(rule) => {
                            findings.repeats_known |= 1 < node.all(&name.text).count();
                            rule.check(value, findings);
                        }
                        None if *closed => findings.codes.push(3103),
                        None => (),
                    }
                }
            }
            (Self::List { item, items }, Value::List(found)) => {
                if found.len() < items.0 || items.1 < found.len() {
                    findings.codes.push(3100);
                }
                found.iter().for_each(|value| item.check(value, findings));
            }
            _ => findings.codes.push(3101),
        }
    }

    fn check_text(&self, text: &str, findings: &mut Findings) {
        if !self.holds(text) {
            findings.codes.push(3100);
        } else if matches!(self, Self::Text { class: Some(_), .. })
            && text.chars().any(|character| has(&UNASSIGNED, character))
        {
            findings.possible.push(3100);
        }
    }

    fn holds(&self, text: &str) -> bool {
        let Self::Text { characters, patterns, class, names, is_currency } = self else {
            return false;
        };
        let is_fit = |character| {
            class.as_ref().is_none_or(|it| has(it, character) || has(&UNASSIGNED, character))
        };
        let length = text.chars().count();
        characters.0 <= length
            && length <= characters.1
            && patterns.iter().all(|pattern| pattern.is_match(text))
            && text.chars().all(is_fit)
            && (names.is_empty() || names.iter().any(|name| name == text))
            && (!is_currency || fspiop::is_known_currency(text))
    }
}

fn compile(json: &Json, all: &serde_json::Map<String, Json>) -> Rule {
    if let Some(name) = json["is"].as_str() {
        return compile(&all[name], all);
    }
    let number = |name: &str, otherwise: usize| {
        json[name].as_u64().map_or(otherwise, |number| number as usize)
    };
    let texts = |name: &str| -> Vec<String> {
        let list = json[name].as_array().into_iter().flatten();
        list.map(|text| text.as_str().expect("a list of texts").to_owned()).collect()
    };
    match json["type"].as_str() {
        Some("text") => Rule::Text {
            characters: (number("least", 0), number("most", usize::MAX)),
            patterns: texts("patterns")
                .iter()
                // Published patterns are those of ECMAScript, whose digits are those of ASCII.
                .map(|pattern| pattern.replace(r"\d", "[0-9]"))
                .map(|pattern| Regex::new(&pattern).expect("a pattern"))
                .collect(),
            class: json["class"].as_str().map(class),
            names: texts("names"),
            is_currency: json["currency"] == true,
        },
        Some("list") => Rule::List {
            item: Box::new(compile(&json["item"], all)),
            items: (number("least", 0), number("most", usize::MAX)),
        },
        Some("object") => {
            let members = json["members"].as_object().into_iter().flatten();
            Rule::Object {
                members: members.map(|(name, rule)| (name.clone(), compile(rule, all))).collect(),
                required: texts("required"),
                closed: json["closed"] == true,
            }
        }
        other => panic!("schemas.json has the type {other:?}"),
    }
}

fn class(pattern: &str) -> ClassUnicode {
    let parsed = regex_syntax::parse(pattern).expect("a class of characters");
    match parsed.into_kind() {
        HirKind::Class(regex_syntax::hir::Class::Unicode(class)) => class,
        other => panic!("{pattern} is no class of characters: {other:?}"),
    }
}

fn has(class: &ClassUnicode, character: char) -> bool {
    class.iter().any(|range| (range.start()..=range.end()).contains(&character))
}
