//! Reads a request's body member by member, with the errors of the reference's schemas
//! (hub-semantics 1.3): the first failure only, known members in declared order, unknown ones last.
//!
//! Numbers are read from their text and never become a float. A number or a boolean may be sent as
//! a string, because the reference converts those. Costs: one map entry per member. Bounds:
//! [`MEMBERS_MAX`] for an object; reading a list stops after the first item too many.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use fspiop::schema::read_items;
use fspiop::{ErrorCode, Refusal};
use ledger::Currency;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Highest version number.
pub(crate) const VERSION_MAX: u32 = 65_535;

/// Maximum number of members of an object. No request has half as many.
const MEMBERS_MAX: usize = 100;

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

    /// A member that is an array, uninterpreted. Of a longer array than the caller allows, the
    /// first `most + 1` items, so that the caller refuses its length.
    pub(crate) fn array(
        &mut self,
        name: &str,
        most: usize,
    ) -> Result<Option<Vec<&'a RawValue>>, Refusal> {
        let Some(raw) = self.members.remove(name) else { return Ok(None) };
        let mut items = Vec::new();
        match read_items(raw.get(), most, &mut items) {
            Err(_) if items.len() <= most => Err(self.malformed(name, "must be an array")),
            _ => Ok(Some(items)),
        }
    }

    /// A member that is an array of objects, with the length that its caller allows.
    pub(crate) fn objects(
        &mut self,
        name: &str,
        length: &RangeInclusive<usize>,
    ) -> Result<Option<Vec<BodyReader<'a>>>, Refusal> {
        let Some(items) = self.array(name, *length.end())? else { return Ok(None) };
        self.check_length(name, &items, length)?;
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
        let mut all = Vec::new();
        if Members(&mut all).read(raw).is_err() {
            return match all.len() <= MEMBERS_MAX {
                true => Err(refuse(ErrorCode::MALFORMED_SYNTAX, name, "must be of type object")),
                false => Err(too_many_members(name)),
            };
        }
        let mut reader = Self { prefix, members: BTreeMap::new() };
        for (name, value) in all {
            if reader.members.contains_key(&name) {
                return Err(reader.malformed(&name, "must not be repeated"));
            }
            reader.members.insert(name, value);
        }
        Ok(reader)
    }

    /// Refuses an array that is shorter or longer than allowed.
    pub(crate) fn check_length(
        &self,
        name: &str,
        items: &[&RawValue],
        length: &RangeInclusive<usize>,
    ) -> Result<(), Refusal> {
        if length.contains(&items.len()) {
            return Ok(());
        }
        let (least, most) = (length.start(), length.end());
        Err(self.invalid(name, &format!("must contain {least} to {most} items")))
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

/// Reads the members of an object in their order, including repeated names. It stops with an error
/// after one more than [`MEMBERS_MAX`].
struct Members<'m, 'de>(&'m mut Vec<(String, &'de RawValue)>);

impl<'de> Members<'_, 'de> {
    fn read(self, raw: &'de RawValue) -> serde_json::Result<()> {
        serde_json::Deserializer::from_str(raw.get()).deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(member) = map.next_entry()? {
            self.0.push(member);
            if MEMBERS_MAX < self.0.len() {
                return Err(A::Error::custom("an object has too many members"));
            }
        }
        Ok(())
    }
}

fn too_many_members(name: &str) -> Refusal {
    let what = format!("must have at most {MEMBERS_MAX} members");
    refuse(ErrorCode::TOO_MANY_ELEMENTS, name, &what)
}

/// A refusal that names the member or parameter at fault.
pub(crate) fn refuse(code: ErrorCode, name: &str, what: &str) -> Refusal {
    Refusal::new(code, &format!("\"{name}\" {what}"))
}

/// The currency of this code, if it is one.
pub(crate) fn known_currency(code: &str) -> Option<Currency> {
    Currency::parse(code).filter(|_| fspiop::is_known_currency(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(members: usize) -> String {
        let members = (0..members).map(|number| format!("\"{number}\":1")).collect::<Vec<_>>();
        format!("{{{}}}", members.join(","))
    }

    fn refusal(body: &str) -> String {
        let refusal = BodyReader::parse(body.as_bytes()).err().expect("a refusal");
        format!("{} {}", refusal.code, refusal.description)
    }

    #[test]
    fn reading_an_object_stops_after_the_first_member_too_many() {
        assert!(BodyReader::parse(object(MEMBERS_MAX).as_bytes()).is_ok());
        // A repeated name at the end would be refused with another text if it were read.
        let long = object(500_000).replace("\"499999\"", "\"499998\"");
        assert_eq!(
            refusal(&long),
            "3103 Too many elements - \"value\" must have at most 100 members"
        );
        let raw: &RawValue = serde_json::from_str(&long).expect("JSON");
        let mut all = Vec::new();
        assert!(Members(&mut all).read(raw).is_err());
        assert_eq!(all.len(), MEMBERS_MAX + 1);
    }

    #[test]
    fn reading_an_array_stops_after_the_first_item_too_many() {
        let body = format!("{{\"items\":[{}1]}}", "1,".repeat(500_000));
        let mut reader = BodyReader::parse(body.as_bytes()).expect("an object");
        let items = reader.array("items", 16).expect("an array").expect("present");
        assert_eq!(items.len(), 17);
        assert!(items.capacity() <= 32, "{}", items.capacity());
    }
}
