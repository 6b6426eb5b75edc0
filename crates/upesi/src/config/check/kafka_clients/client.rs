//! The settings of a client.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    Consumer,
    Producer,
}

/// When a consumer gives messages to its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Flow,
    Poll,
    Recursive,
}

/// The settings of a client.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// Path of its object in the file, such as `KAFKA.CONSUMER.TRANSFER.PREPARE`.
    pub(super) name: String,
    pub(super) role: Role,
    /// `None`: the library's defaults apply, all of them.
    pub(super) options: Option<Map<String, Value>>,
    /// `rdkafkaConf` and `topicConf`, with the names of librdkafka.
    pub(super) properties: BTreeMap<String, String>,
}

impl Client {
    pub(super) fn new(
        path: &str,
        members: &Map<String, Value>,
        properties: &Map<String, Value>,
    ) -> Self {
        let object = |name| members.get(name).and_then(Value::as_object);
        let options = object("options").cloned();
        let all = object("topicConf").into_iter().flatten().chain(properties);
        let properties: BTreeMap<_, _> =
            all.map(|(name, value)| (property_name(name), text(value))).collect();
        let has = |name| options.as_ref().is_some_and(|options| options.contains_key(name));
        let consumes = properties.contains_key("group.id")
            || ["mode", "batchSize", "consumeTimeout"].into_iter().any(has)
            || path.to_ascii_uppercase().contains("CONSUMER");
        let name = path.strip_suffix(".config").unwrap_or(path);
        let name = if name.is_empty() { "the client" } else { name }.to_owned();
        let role = if consumes { Role::Consumer } else { Role::Producer };
        Self { name, role, options, properties }
    }

    /// A property of librdkafka.
    pub(super) fn property(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str)
    }

    pub(super) fn number_of(&self, name: &str, default: u64) -> u64 {
        // librdkafka takes -1 as "all" or "none" for some; those have rules of their own.
        self.property(name).and_then(|value| value.parse().ok()).unwrap_or(default)
    }

    pub(super) fn is_true(&self, name: &str, default: bool) -> bool {
        self.property(name).map_or(default, |value| ["true", "t", "1"].contains(&value))
    }

    pub(super) fn option(&self, name: &str) -> Option<&Value> {
        self.options.as_ref()?.get(name)
    }

    /// A number among the options. The library's default counts only if there are no options.
    pub(super) fn option_number(&self, name: &str, default: u64) -> u64 {
        self.option(name).and_then(Value::as_u64).unwrap_or(default)
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.option(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn mode(&self) -> Mode {
        match self.options {
            None => Mode::Recursive,
            Some(_) => match self.option_number("mode", 0) {
                1 => Mode::Poll,
                2 => Mode::Recursive,
                _ => Mode::Flow,
            },
        }
    }

    pub(super) fn batch(&self) -> u64 {
        match self.mode() {
            Mode::Flow => 1,
            Mode::Poll | Mode::Recursive => self.option_number("batchSize", 1),
        }
    }
}

/// The name of a property in librdkafka: `groupId` is `group.id`.
fn property_name(name: &str) -> String {
    let mut dotted = String::with_capacity(name.len() + 4);
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            dotted.push('.');
        }
        dotted.push(character.to_ascii_lowercase());
    }
    dotted
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
