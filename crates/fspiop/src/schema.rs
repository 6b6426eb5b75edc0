//! Rules for bodies, written as tables and evaluated in two ways.
//!
//! The fast walk reads the JSON text once, borrows captured texts, and stops at the first member
//! that breaks a rule, in the order of the text. Only then does the slow walk check the members in
//! the order of the rules (type, required members, members not allowed, then each member as
//! listed), so that the refusal names the same failure as the reference. Both walks use the same
//! tables; a test compares their verdicts.
//!
//! If a text is required, a number, a boolean or `null` is read as its text, like in the reference
//! (hub-semantics 1.3); see `text_of`. A body is only read that way if it fails otherwise.
//!
//! Bounds: the fast walk recurses only as deep as the tables. Both walks skip unknown members
//! without recursion or a copy, and keep at most one item more than a list may have.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::error::{ErrorCode, Refusal};

/// Maximum number of texts captured from one message.
const SLOTS: usize = 16;

/// The rule for a value.
pub enum Rule {
    /// A JSON text.
    Text(Text),
    /// A JSON object.
    Object(Shape),
    /// A JSON list.
    List(List),
}

/// A text: its length in characters, then its form.
pub struct Text {
    /// Minimum number of characters.
    pub least: usize,
    /// Maximum number of characters; `usize::MAX` if only the body is bounded.
    pub most: usize,
    /// Its form.
    pub form: Form,
}

/// The form of a text.
pub enum Form {
    /// Any text.
    Any,
    /// A text that satisfies `holds`; `pattern` describes it for the client.
    Pattern {
        /// In ECMA 262 syntax.
        pattern: &'static str,
        /// The same rule as code.
        holds: fn(&str) -> bool,
    },
    /// One of these names.
    OneOf(&'static [&'static str]),
    /// One of a larger set of names.
    Name {
        /// Whether a text is one of them.
        holds: fn(&str) -> bool,
        /// All of them.
        all: fn() -> Vec<&'static str>,
    },
}

/// An object.
pub struct Shape {
    /// The members that are checked.
    pub members: &'static [Member],
    /// Names of required members, in the order of the checks.
    pub required: &'static [&'static str],
    /// Whether unlisted members are refused.
    pub closed: bool,
}

/// A member of an object.
pub struct Member {
    /// Its name.
    pub name: &'static str,
    /// The rule for its value.
    pub rule: &'static Rule,
    pub(crate) capture: Capture,
}

/// The captured part of a member. Slots of nested members count from that of their object.
#[derive(Clone, Copy)]
pub(crate) enum Capture {
    /// Nothing, including nested members.
    No,
    /// The text, or the captures of nested members, from this slot on.
    At(usize),
    /// The raw JSON of the value, at this slot.
    Raw(usize),
}

/// A list of values with a common rule. Nothing is captured from it.
pub struct List {
    /// The rule for each value.
    pub item: &'static Rule,
    /// Minimum number of values.
    pub least: usize,
    /// Maximum number of values.
    pub most: usize,
}

/// Texts captured from a message, each in the slot of its member.
#[derive(Default)]
pub(crate) struct Captures<'de> {
    slots: [Option<Cow<'de, str>>; SLOTS],
}

impl<'de> Captures<'de> {
    /// Takes the text at `slot`; `None` if the message lacks the member.
    pub(crate) fn take(&mut self, slot: usize) -> Option<Cow<'de, str>> {
        self.slots[slot].take()
    }

    /// Parses the text at `slot`. The member is absent or valid.
    pub(crate) fn parse<T>(&self, slot: usize, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.slots[slot].as_deref().and_then(parse)
    }

    /// Parses the text of a required member at `slot`.
    pub(crate) fn require<T>(&self, slot: usize, parse: impl Fn(&str) -> Option<T>) -> T {
        self.parse(slot, parse).expect("a required member has met the rule that parses it")
    }
}

/// Checks `body` by `rule` and returns the captured texts.
///
/// # Errors
/// The first failure in the order of the rules: 3101 for a wrong type and for invalid JSON, 3102
/// for a missing member and for truncated JSON, 3103 for a member that is not allowed, 3100 for the
/// rest (hub-semantics 1.3).
pub(crate) fn check<'de>(body: &'de [u8], rule: &'static Rule) -> Result<Captures<'de>, Refusal> {
    // Checks the whole body, because skipped parts are not parsed; also cheaper than text by text.
    let Ok(text) = std::str::from_utf8(body) else {
        return Err(Refusal::malformed("/requestBody must be JSON"));
    };
    match walk(text, rule, Reading::Texts) {
        Ok(captures) => Ok(captures),
        Err(_) => check_again(text, rule),
    }
}

#[cold]
fn check_again<'de>(text: &'de str, rule: &'static Rule) -> Result<Captures<'de>, Refusal> {
    walk(text, rule, Reading::Scalars).map_err(|error| explain(text, rule, &error))
}

fn walk<'de>(
    text: &'de str,
    rule: &'static Rule,
    reading: Reading,
) -> Result<Captures<'de>, serde_json::Error> {
    let mut captures = Captures::default();
    let walk = Walk { rule, reading, slot: Some(0), captures: &mut captures };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    walk.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(captures)
}

/// Describes the failure of a body that the fast walk rejected.
fn explain(text: &str, rule: &'static Rule, error: &serde_json::Error) -> Refusal {
    let value: &RawValue = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) if error.is_eof() => {
            return Refusal::missing("/requestBody ends before its JSON does");
        }
        Err(_) => return Refusal::malformed("/requestBody must be JSON"),
    };
    let mut path = String::from("/requestBody");
    match fault(value.get(), rule, &mut path) {
        Some((code, message)) => Refusal::new(code, &format!("{path} {message}")),
        // Only a repeated name passes the slow walk, which sees the last of its values.
        None => {
            let said = error.to_string();
            let name = said.split('\'').nth(1).unwrap_or_default();
            Refusal::malformed(&format!("/requestBody must NOT repeat property '{name}'"))
        }
    }
}

/// The first failure of a value. `path` then leads to that value.
fn fault(raw: &str, rule: &'static Rule, path: &mut String) -> Option<(ErrorCode, String)> {
    match rule {
        Rule::Text(rule) => match text_of(raw) {
            Some(text) => rule.fault(&text),
            None => wrong_type("string"),
        },
        Rule::Object(shape) => match members_of(raw, shape) {
            Ok(members) => object_fault(&members, shape, path),
            Err(_) => wrong_type("object"),
        },
        Rule::List(list) => {
            let mut items = Vec::new();
            match read_items(raw, list.most, &mut items) {
                Err(_) if items.len() <= list.most => wrong_type("array"),
                _ => list_fault(&items, list, path),
            }
        }
    }
}

/// The members of an object that its shape has. Others are skipped: there may be very many.
struct Members<'a> {
    known: HashMap<&'static str, &'a RawValue>,
    has_others: bool,
}

fn members_of<'a>(raw: &'a str, shape: &'static Shape) -> Result<Members<'a>, serde_json::Error> {
    MembersOf { shape }.deserialize(&mut serde_json::Deserializer::from_str(raw))
}

struct MembersOf {
    shape: &'static Shape,
}

impl<'de> DeserializeSeed<'de> for MembersOf {
    type Value = Members<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MembersOf {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Members { known: HashMap::new(), has_others: false };
        while let Some(found) = map.next_key_seed(Key { shape: self.shape })? {
            match found {
                Some(at) => {
                    members.known.insert(self.shape.members[at].name, map.next_value()?);
                }
                None => {
                    members.has_others = true;
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(members)
    }
}

/// Reads the items of a JSON array and stops after one more than `most`: there may be very many.
///
/// # Errors
/// It is no array, or has more items. Those that were read are in `items`.
pub fn read_items<'a>(
    raw: &'a str,
    most: usize,
    items: &mut Vec<&'a RawValue>,
) -> Result<(), serde_json::Error> {
    serde_json::Deserializer::from_str(raw).deserialize_seq(ItemsOf { most, items })
}

struct ItemsOf<'i, 'de> {
    most: usize,
    items: &'i mut Vec<&'de RawValue>,
}

impl<'de> Visitor<'de> for ItemsOf<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element()? {
            self.items.push(item);
            if self.most < self.items.len() {
                return Err(A::Error::custom("a list is too long"));
            }
        }
        Ok(())
    }
}

fn object_fault(
    members: &Members<'_>,
    shape: &'static Shape,
    path: &mut String,
) -> Option<(ErrorCode, String)> {
    for name in shape.required {
        if !members.known.contains_key(*name) {
            let message = format!("must have required property '{name}'");
            return Some((ErrorCode::MISSING_ELEMENT, message));
        }
    }
    if shape.closed && members.has_others {
        let message = "must NOT have additional properties".to_owned();
        return Some((ErrorCode::TOO_MANY_ELEMENTS, message));
    }
    for member in shape.members {
        if let Some(value) = members.known.get(member.name) {
            let length = path.len();
            path.push('/');
            path.push_str(member.name);
            if let Some(fault) = fault(value.get(), member.rule, path) {
                return Some(fault);
            }
            path.truncate(length);
        }
    }
    None
}

fn list_fault(
    items: &[&RawValue],
    list: &'static List,
    path: &mut String,
) -> Option<(ErrorCode, String)> {
    if items.len() > list.most {
        return invalid(format!("must NOT have more than {} items", list.most));
    }
    if items.len() < list.least {
        return invalid(format!("must NOT have fewer than {} items", list.least));
    }
    for (at, item) in items.iter().enumerate() {
        let length = path.len();
        path.push_str(&format!("/{at}"));
        if let Some(fault) = fault(item.get(), list.item, path) {
            return Some(fault);
        }
        path.truncate(length);
    }
    None
}

fn wrong_type(name: &str) -> Option<(ErrorCode, String)> {
    Some((ErrorCode::MALFORMED_SYNTAX, format!("must be {name}")))
}

fn invalid(message: String) -> Option<(ErrorCode, String)> {
    Some((ErrorCode::VALIDATION, message))
}

impl Text {
    /// Whether the rule is met. Agrees with [`Text::fault`] and does not allocate.
    fn holds(&self, text: &str) -> bool {
        self.is_long_enough(text) && self.is_short_enough(text) && self.form.holds(text)
    }

    fn fault(&self, text: &str) -> Option<(ErrorCode, String)> {
        if !self.is_short_enough(text) {
            return invalid(format!("must NOT have more than {} characters", self.most));
        }
        if !self.is_long_enough(text) {
            return invalid(format!("must NOT have fewer than {} characters", self.least));
        }
        match &self.form {
            form if form.holds(text) => None,
            Form::Pattern { pattern, .. } => invalid(format!("must match pattern \"{pattern}\"")),
            _ => invalid("must be equal to one of the allowed values".to_owned()),
        }
    }

    fn is_short_enough(&self, text: &str) -> bool {
        text.len() <= self.most || text.chars().nth(self.most).is_none()
    }

    fn is_long_enough(&self, text: &str) -> bool {
        self.least == 0 || text.chars().nth(self.least - 1).is_some()
    }
}

impl Form {
    fn holds(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Pattern { holds, .. } | Self::Name { holds, .. } => holds(text),
            Self::OneOf(names) => names.contains(&text),
        }
    }
}

impl Shape {
    fn find(&self, name: &str) -> Option<usize> {
        self.members.iter().position(|member| member.name == name)
    }

    fn has_required(&self, seen: u32) -> bool {
        self.required.iter().all(|name| self.find(name).is_some_and(|at| seen & (1 << at) != 0))
    }
}

/// The values that are read as texts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Texts only, sufficient for nearly every message.
    Texts,
    /// All values that [`text_of`] reads as a text.
    Scalars,
}

/// The fast walk: checks one value while reading it.
struct Walk<'w, 'de> {
    rule: &'static Rule,
    reading: Reading,
    /// First slot of the value; `None` if nothing of it is captured.
    slot: Option<usize>,
    captures: &'w mut Captures<'de>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.rule {
            Rule::Text(_) if self.reading == Reading::Scalars => {
                let raw: &'de RawValue = Deserialize::deserialize(deserializer)?;
                match text_of(raw.get()) {
                    Some(text) if self.holds(&text) => {
                        self.capture(text);
                        Ok(())
                    }
                    _ => Err(D::Error::custom("a value is no text that meets its rule")),
                }
            }
            Rule::Text(_) => deserializer.deserialize_str(self),
            Rule::Object(_) => deserializer.deserialize_map(self),
            Rule::List(_) => deserializer.deserialize_seq(self),
        }
    }
}

impl<'de> Walk<'_, 'de> {
    fn holds(&self, text: &str) -> bool {
        matches!(self.rule, Rule::Text(rule) if rule.holds(text))
    }

    fn capture(self, text: Cow<'de, str>) {
        if let Some(slot) = self.slot {
            self.captures.slots[slot] = Some(text);
        }
    }

    fn member<A: MapAccess<'de>>(
        &mut self,
        member: &'static Member,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let (captures, reading) = (&mut *self.captures, self.reading);
        let at = |offset| self.slot.map(|slot| slot + offset);
        let slot = match member.capture {
            Capture::No => None,
            Capture::At(offset) => at(offset),
            Capture::Raw(offset) => {
                let raw: &'de RawValue = map.next_value()?;
                if let Some(slot) = at(offset) {
                    captures.slots[slot] = Some(Cow::Borrowed(raw.get()));
                }
                let mut inner = serde_json::Deserializer::from_str(raw.get());
                let walk = Walk { rule: member.rule, reading, slot: None, captures };
                return walk.deserialize(&mut inner).map_err(A::Error::custom);
            }
        };
        map.next_value_seed(Walk { rule: member.rule, reading, slot, captures })
    }
}

impl<'de> Visitor<'de> for Walk<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that meets its rule")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<(), E> {
        if !self.holds(text) {
            return Err(E::custom("a text breaks its rule"));
        }
        self.capture(Cow::Borrowed(text));
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        if !self.holds(text) {
            return Err(E::custom("a text breaks its rule"));
        }
        if self.slot.is_some() {
            self.capture(Cow::Owned(text.to_owned()));
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let Rule::Object(shape) = self.rule else {
            return Err(A::Error::custom("an object breaks its rule"));
        };
        let mut seen = 0u32;
        while let Some(found) = map.next_key_seed(Key { shape })? {
            let Some(at) = found else {
                if shape.closed {
                    return Err(A::Error::custom("a member is not allowed"));
                }
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let member = &shape.members[at];
            if seen & (1 << at) != 0 {
                return Err(A::Error::custom(format_args!("repeated '{}'", member.name)));
            }
            seen |= 1 << at;
            self.member(member, &mut map)?;
        }
        if shape.has_required(seen) {
            Ok(())
        } else {
            Err(A::Error::custom("a required member is missing"))
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Rule::List(list) = self.rule else {
            return Err(A::Error::custom("a list breaks its rule"));
        };
        let mut count = 0;
        let (captures, reading) = (self.captures, self.reading);
        let mut next =
            || items.next_element_seed(Walk { rule: list.item, reading, slot: None, captures });
        while next()?.is_some() {
            count += 1;
            if count > list.most {
                return Err(A::Error::custom("a list is too long"));
            }
        }
        if count < list.least {
            return Err(A::Error::custom("a list is too short"));
        }
        Ok(())
    }
}

/// Finds the member with a name.
struct Key {
    shape: &'static Shape,
}

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.shape.find(name))
    }
}

/// A JSON value as a text: a text itself, a number without trailing zeros, a boolean by its name,
/// `null` as the empty text. `None` for objects, lists, and numbers with an exponent.
pub(crate) fn text_of(raw: &str) -> Option<Cow<'_, str>> {
    match raw.as_bytes().first()? {
        b'"' => match serde_json::from_str::<&str>(raw) {
            Ok(text) => Some(Cow::Borrowed(text)),
            Err(_) => serde_json::from_str(raw).ok().map(Cow::Owned),
        },
        b'n' => Some(Cow::Borrowed("")),
        b't' | b'f' => Some(Cow::Borrowed(raw)),
        b'-' | b'0'..=b'9' if !raw.contains(['e', 'E']) => Some(Cow::Borrowed(decimal(raw))),
        _ => None,
    }
}

fn decimal(number: &str) -> &str {
    let short = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    if short == "-0" { "0" } else { short }
}

/// A text of a valid list that was captured raw: any value that [`text_of`] reads as a text.
#[derive(Debug)]
pub(crate) struct Scalar<'de>(pub(crate) Cow<'de, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: &'de RawValue = Deserialize::deserialize(deserializer)?;
        text_of(raw.get()).map(Self).ok_or_else(|| D::Error::custom("a value is no text"))
    }
}

/// The verdicts of both walks: whether the fast one accepts a body, and whether the slow one does
/// (`None` if the body is not valid JSON).
#[cfg(test)]
pub(crate) fn verdicts(body: &[u8], rule: &'static Rule) -> (bool, Option<bool>) {
    let slow = serde_json::from_slice::<&RawValue>(body)
        .ok()
        .map(|value| fault(value.get(), rule, &mut String::new()).is_none());
    (check(body, rule).is_ok(), slow)
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;
    use crate::test_table;

    #[test]
    fn reading_stops_after_the_first_item_too_many() {
        let long = format!("[{}1]", "1,".repeat(500_000));
        let mut items = Vec::new();
        assert!(read_items(&long, 16, &mut items).is_err());
        assert_eq!(items.len(), 17);
        assert!(items.capacity() <= 32, "{}", items.capacity());
    }

    #[test]
    fn members_that_a_shape_does_not_have_are_not_kept() {
        static NAME: Rule = Rule::Text(Text { least: 1, most: 9, form: Form::Any });
        static MEMBERS: [Member; 1] = [Member { name: "name", rule: &NAME, capture: Capture::No }];
        static SHAPE: Shape = Shape { members: &MEMBERS, required: &[], closed: true };
        let mut body = String::from("{\"name\":\"a\"");
        (0..500_000).for_each(|number| body.push_str(&format!(",\"{number}\":1")));
        body.push('}');
        let members = members_of(&body, &SHAPE).expect("an object");
        assert_eq!((members.known.len(), members.has_others), (1, true));
        assert!(members.known.capacity() <= 8, "{}", members.known.capacity());
    }

    #[test]
    fn values_match_their_expected_texts() {
        test_table::check(&expect_file!["test_tables/scalars.txt"], |json| {
            let found = text_of(json).map(Cow::into_owned);
            let scalar = serde_json::from_str::<Scalar<'_>>(json).ok();
            assert_eq!(scalar.map(|scalar| scalar.0.into_owned()), found, "{json}");
            found.map_or("none".to_owned(), |text| format!("{text:?}"))
        });
    }
}
