//! Reads a request's body member by member, with the errors of the reference's schemas
//! (hub-semantics 1.3): the first failure only, known members in declared order, unknown ones last.
//!
//! Numbers are read from their text and never become a float. A number or a boolean may be sent as
//! a string, because the reference converts those. Costs: one map entry per member; the limit on
//! the body's size bounds them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use fspiop::{ErrorCode, Refusal};
use ledger::Currency;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Highest version number.
pub(crate) const VERSION_MAX: u32 = 65_535;

/// Error text for an invalid currency.
pub(crate) const CURRENCY_FORM: &str = "must be an ISO 4217 currency code";

/// Error text for an invalid transfer id. The format is that of FSPIOP: no participant could query
/// an id of another format.
pub(crate) const TRANSFER_ID_FORM: &str = "must be a lower-case UUID or a ULID";

/// An object whose members are removed one by one.
pub(crate) struct BodyReader<'a> {
    /// Prefix of member names in errors: `limit.` for the members of `limit`.
    prefix: String,
    members: BTreeMap<String, &'a RawValue>,
}

impl<'a> BodyReader<'a> {
    /// Parses the body.
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, Refusal> {
        let raw: &RawValue = serde_json::from_slice(body)
            .map_err(|_| Refusal::new(ErrorCode::MALFORMED_SYNTAX, "the body is not valid JSON"))?;
        Self::of(raw, "value", String::new())
    }

    /// A required member.
    pub(crate) fn required<T>(
        &mut self,
        name: &str,
        take: impl FnOnce(&mut Self, &str) -> Result<Option<T>, Refusal>,
    ) -> Result<T, Refusal> {
        match take(self, name)? {
            Some(value) => Ok(value),
            None => Err(self.refuse(ErrorCode::MISSING_ELEMENT, name, "is required")),
        }
    }

    /// A string with a length in this range, in characters.
    pub(crate) fn text(
        &mut self,
        name: &str,
        characters: RangeInclusive<usize>,
    ) -> Result<Option<String>, Refusal> {
        let Some(raw) = self.members.remove(name) else { return Ok(None) };
        let Ok(text) = serde_json::from_str::<String>(raw.get()) else {
            return Err(self.malformed(name, "must be a string"));
        };
        let length = text.chars().count();
        if length == 0 && *characters.start() != 0 {
            return Err(self.refuse(
                ErrorCode::MISSING_ELEMENT,
                name,
                "is not allowed to be empty",
            ));
        }
        if !characters.contains(&length) {
            let (least, most) = characters.into_inner();
            return Err(self.invalid(name, &format!("must have {least} to {most} characters")));
        }
        Ok(Some(text))
    }

    /// The text of a member's value.
    pub(crate) fn raw(&mut self, name: &str) -> Option<&'a str> {
        self.members.remove(name).map(RawValue::get)
    }

    /// A member that is an object.
    pub(crate) fn object(&mut self, name: &str) -> Result<Option<BodyReader<'a>>, Refusal> {
        let Some(raw) = self.members.remove(name) else { return Ok(None) };
        let name = format!("{}{name}", self.prefix);
        BodyReader::of(raw, &name, format!("{name}.")).map(Some)
    }

    /// A member that is an array, uninterpreted.
    pub(crate) fn array(&mut self, name: &str) -> Result<Option<Vec<&'a RawValue>>, Refusal> {
        let Some(raw) = self.members.remove(name) else { return Ok(None) };
        match serde_json::from_str(raw.get()) {
            Ok(items) => Ok(Some(items)),
            Err(_) => Err(self.malformed(name, "must be an array")),
        }
    }

    /// A member that is an array of objects.
    pub(crate) fn objects(&mut self, name: &str) -> Result<Option<Vec<BodyReader<'a>>>, Refusal> {
        let Some(items) = self.array(name)? else { return Ok(None) };
        let reader = |(at, raw)| {
            let name = format!("{}{name}[{at}]", self.prefix);
            BodyReader::of(raw, &name, format!("{name}."))
        };
        items.into_iter().enumerate().map(reader).collect::<Result<_, _>>().map(Some)
    }

    /// Drops a member that is `null`.
    pub(crate) fn drop_null(&mut self, name: &str) {
        if self.members.get(name).is_some_and(|raw| raw.get() == "null") {
            self.members.remove(name);
        }
    }

    /// Refuses a member that no rule consumed.
    pub(crate) fn finish(self) -> Result<(), Refusal> {
        match self.members.keys().next() {
            None => Ok(()),
            Some(name) => Err(self.refuse(ErrorCode::TOO_MANY_ELEMENTS, name, "is not allowed")),
        }
    }

    /// The members of an object. A repeated name is refused: later readers of the recorded request
    /// could disagree about which of the two applies.
    pub(crate) fn of(raw: &'a RawValue, name: &str, prefix: String) -> Result<Self, Refusal> {
        let Members(all) = serde_json::from_str(raw.get())
            .map_err(|_| refuse(ErrorCode::MALFORMED_SYNTAX, name, "must be of type object"))?;
        let mut reader = Self { prefix, members: BTreeMap::new() };
        for (name, value) in all {
            if reader.members.contains_key(&name) {
                return Err(reader.malformed(&name, "must not be repeated"));
            }
            reader.members.insert(name, value);
        }
        Ok(reader)
    }

    pub(crate) fn malformed(&self, name: &str, what: &str) -> Refusal {
        self.refuse(ErrorCode::MALFORMED_SYNTAX, name, what)
    }

    pub(crate) fn invalid(&self, name: &str, what: &str) -> Refusal {
        self.refuse(ErrorCode::VALIDATION, name, what)
    }

    fn refuse(&self, code: ErrorCode, name: &str, what: &str) -> Refusal {
        refuse(code, &format!("{}{name}", self.prefix), what)
    }
}

/// The members of an object in their order, including repeated names.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(member) = map.next_entry()? {
                    all.push(member);
                }
                Ok(Members(all))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// A refusal that names the member or parameter at fault.
pub(crate) fn refuse(code: ErrorCode, name: &str, what: &str) -> Refusal {
    Refusal::new(code, &format!("\"{name}\" {what}"))
}

/// The currency of this code, if it is one.
pub(crate) fn known_currency(code: &str) -> Option<Currency> {
    Currency::parse(code).filter(|_| fspiop::is_known_currency(code))
}
