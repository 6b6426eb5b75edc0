//! JSON Schema: the schemas that many routes share, and those of responses, which come from the
//! types that are serialized ([`response_type!`]).

use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::time::Duration;

use ledger::Stamp;
use openapi::schema::reference;
use serde_json::{Map, Value, json};

use crate::reports::ServiceStatus;

/// A schema with its name among those of the document.
pub(crate) type Component = (&'static str, fn() -> Value);

/// The body of a response.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    Nothing,
    One(Component),
    List(Component),
    /// See [`OneOrAll`].
    OneOrAll(Component),
    /// JSON, or a text of one of these media types.
    OneOrText(Component, &'static [&'static str]),
    /// A body of this media type, with an unnamed schema.
    Other(&'static str, fn() -> Value),
}

/// A list, or, with a parameter that selects one entry, that entry or an empty object.
pub(crate) struct OneOrAll<T>(PhantomData<T>);

/// A type of a response, or of a member of one.
pub(crate) trait Schema {
    /// Its name among the schemas of the document; empty if it has none.
    const NAME: &'static str = "";

    /// Its description as the body of a response.
    const CONTENT: Content = Content::One((Self::NAME, Self::schema));

    /// Its schema.
    fn schema() -> Value;

    /// Its schema as an optional member.
    fn member(may_be_left_out: bool) -> Value {
        let _same = may_be_left_out;
        Self::schema()
    }
}

/// Declares a response: a struct with its serialization and its schema. A member's schema is that
/// of its type, or the one after `=`. The schema follows the serde attributes `rename`, `skip`,
/// `skip_serializing_if` and `flatten`.
macro_rules! response_type {
    ($(#[$about:meta])* $vis:vis struct $name:ident $(<$life:lifetime>)? $(as $title:literal)? {
        $(
            $(#[doc = $doc:literal])*
            $(#[serde($($how:ident $(= $value:literal)?),*)])?
            $see:vis $member:ident: $type:ty $(= $schema:expr)?
        ),* $(,)?
    }) => {
        $(#[$about])*
        #[derive(Debug, serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        $vis struct $name $(<$life>)? {
            $(
                $(#[doc = $doc])*
                $(#[serde($($how $(= $value)?),*)])?
                $see $member: $type,
            )*
        }

        impl $(<$life>)? $crate::schema::Schema for $name $(<$life>)? {
            $(const NAME: &'static str = $title;)?

            fn schema() -> serde_json::Value {
                $crate::schema::serialized(&[$((
                    stringify!($member),
                    &[$($((stringify!($how), concat!($($value)?))),*)?],
                    $crate::schema::member!($type $(, $schema)?),
                )),*])
            }
        }
    };
}
pub(crate) use response_type;

/// The schema of a member of a [`response_type!`].
macro_rules! member {
    ($type:ty) => {
        <$type as $crate::schema::Schema>::member
    };
    ($type:ty, $schema:expr) => {
        |_| $schema
    };
}
pub(crate) use member;

/// Declares a response without a name in the document: its media type and its schema.
macro_rules! unnamed_response {
    ($(#[$about:meta])* $vis:vis struct $name:ident = $media:literal, $schema:expr) => {
        $(#[$about])*
        $vis struct $name;

        impl $crate::schema::Schema for $name {
            const CONTENT: $crate::schema::Content =
                $crate::schema::Content::Other($media, Self::schema);

            fn schema() -> serde_json::Value {
                $schema
            }
        }
    };
}
pub(crate) use unnamed_response;

/// The name of a member: the given one, or the Rust name in camel case.
pub(crate) fn json_name(member: &str, given: &[&str]) -> String {
    if let Some(name) = given.first() {
        return (*name).to_owned();
    }
    let mut words = member.split('_');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(1);
        name.extend([&first.to_ascii_uppercase(), rest]);
    }
    name
}

/// A member of a [`response_type!`]: its name in Rust, its attributes, and its schema as a function
/// of whether it is optional.
type Member<'m> = (&'m str, &'m [(&'m str, &'m str)], fn(bool) -> Value);

/// The schema of the object that serde writes for these members.
pub(crate) fn serialized(members: &[Member<'_>]) -> Value {
    let mut all = Vec::new();
    let mut flattened = Value::Null;
    for (name, attributes, schema) in members {
        let find = |how: &str| attributes.iter().find(|(known, _)| *known == how);
        let renamed = find("rename").map(|(_, name)| *name);
        let is_optional = find("skip_serializing_if").is_some();
        if find("flatten").is_some() {
            flattened = schema(false);
        } else if find("skip").is_none() {
            all.push((json_name(name, renamed.as_slice()), !is_optional, schema(is_optional)));
        }
    }
    let required = flattened["required"].as_array().cloned().unwrap_or_default();
    for (name, schema) in flattened["properties"].as_object().into_iter().flatten() {
        all.push((name.clone(), required.contains(&json!(name)), schema.clone()));
    }
    object(all, Extent::Closed)
}

/// Whether an object may have unknown members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Closed,
    Open,
}

/// An object: for each member its name, whether it is required, and its schema.
pub(crate) fn object(
    members: impl IntoIterator<Item = (String, bool, Value)>,
    extent: Extent,
) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, is_required, schema) in members {
        if is_required {
            required.push(name.clone());
        }
        properties.insert(name, schema);
    }
    let mut object = json!({"type": "object", "properties": properties});
    // JSON Schema does not allow an empty list.
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    if extent == Extent::Closed {
        object["additionalProperties"] = json!(false);
    }
    object
}

/// The named schemas that belong to no route: those of `fspiop` for errors, and those of members.
pub(crate) fn shared_schemas() -> Vec<(String, Value)> {
    let wanted = [
        "ErrorInformationObject",
        "ErrorInformation",
        "ErrorCode",
        "ErrorDescription",
        "ExtensionList",
        "Extension",
        "Currency",
    ];
    let mut all = openapi::schema::of_named_rules();
    all.retain(|(name, _)| wanted.contains(&name.as_str()));
    all.extend(member_schemas().map(|(name, schema)| (name.to_owned(), schema)));
    all
}

const TIMESTAMP_PATTERN: &str =
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$";
const TRANSFER_ID_PATTERN: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[1-7][0-9a-f]{3}\
    -[89ab][0-9a-f]{3}-[0-9a-f]{12}$|^[0-9A-HJKMNP-TV-Z]{26}$";
/// Texts without control characters.
pub(crate) const NO_CONTROLS: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$";

fn member_schemas() -> [(&'static str, Value); 8] {
    let decimal = |number: Value, sign: &str| {
        json!({
            "description": "At most 18 digits, 4 of them after the point.",
            "anyOf": [
                number,
                {"type": "string", "pattern": format!("^{sign}[0-9]{{1,18}}(\\.[0-9]{{1,4}})?$")},
            ],
        })
    };
    let above_zero = json!({"type": "number", "minimum": 0, "exclusiveMinimum": true});
    [
        (
            "Flag",
            json!({"anyOf": [
                {"type": "boolean"},
                {"type": "string", "pattern": "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"},
            ]}),
        ),
        ("Decimal", decimal(json!({"type": "number"}), "-?")),
        ("DecimalFromZero", decimal(json!({"type": "number", "minimum": 0}), "")),
        ("DecimalAboveZero", decimal(above_zero, "")),
        ("Number", json!({"type": "number", "description": "Exact: no digit is lost."})),
        ("Timestamp", json!({"type": "string", "pattern": TIMESTAMP_PATTERN})),
        ("Switch", json!({"type": "integer", "enum": [0, 1]})),
        (
            "TransferId",
            json!({
                "type": "string",
                "description": "A UUID of version 1 to 7 in lower case, or a ULID.",
                "pattern": TRANSFER_ID_PATTERN,
            }),
        ),
    ]
}

pub(crate) fn any_text() -> Value {
    json!({"type": "string"})
}

/// A text that is not empty.
pub(crate) fn some_text() -> Value {
    json!({"type": "string", "minLength": 1})
}

pub(crate) fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

pub(crate) fn text(least: usize, most: usize) -> Value {
    json!({"type": "string", "minLength": least, "maxLength": most})
}

/// A text that matches a pattern.
pub(crate) fn pattern_text(characters: RangeInclusive<usize>, pattern: &str) -> Value {
    let (least, most) = characters.into_inner();
    json!({"type": "string", "minLength": least, "maxLength": most, "pattern": pattern})
}

/// 32 bytes in hexadecimal.
pub(crate) fn hash() -> Value {
    pattern_text(64..=64, "^[0-9a-f]+$")
}

pub(crate) fn one_of(names: &[&str]) -> Value {
    json!({"type": "string", "enum": names})
}

/// The names of a choice.
pub(crate) fn names<'n, T>(choices: &[(&'n str, T)]) -> Vec<&'n str> {
    choices.iter().map(|(name, _)| *name).collect()
}

pub(crate) fn list_of(item: Value) -> Value {
    json!({"type": "array", "items": item})
}

pub(crate) fn currency() -> Value {
    reference("Currency")
}

pub(crate) fn currency_or_null() -> Value {
    let names = fspiop::known_currencies().map(Value::from).chain([Value::Null]);
    json!({"type": "string", "nullable": true, "enum": names.collect::<Vec<_>>()})
}

/// A date and time, less strict than the schema `Timestamp`.
pub(crate) fn date_time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

pub(crate) fn described(mut schema: Value, description: &str) -> Value {
    schema["description"] = description.into();
    schema
}

macro_rules! schemas {
    ($($type:ty => $schema:expr;)*) => {
        $(impl Schema for $type {
            fn schema() -> Value {
                $schema
            }
        })*
    };
}

schemas! {
    bool => json!({"type": "boolean"});
    u16 => count();
    u32 => count();
    u64 => count();
    usize => count();
    f64 => json!({"type": "number"});
    String => any_text();
    &str => any_text();
    Duration => count();
    Stamp => date_time();
    ServiceStatus => one_of(&["OK", "DOWN"]);
    crate::responses::Timestamp => reference("Timestamp");
    crate::responses::JsonNumber => reference("Number");
}

impl Schema for () {
    const CONTENT: Content = Content::Nothing;

    fn schema() -> Value {
        Value::Null
    }
}

unnamed_response! {
    /// A JSON response without a declared schema.
    pub(crate) struct AnyObject = "application/json", json!({"type": "object"})
}

impl<T: Schema> Schema for OneOrAll<T> {
    const CONTENT: Content = Content::OneOrAll((T::NAME, T::schema));

    fn schema() -> Value {
        T::schema()
    }
}

impl<T: Schema> Schema for Vec<T> {
    const CONTENT: Content = Content::List((T::NAME, T::schema));

    fn schema() -> Value {
        list_of(T::schema())
    }
}

impl<T: Schema> Schema for &T {
    fn schema() -> Value {
        T::schema()
    }
}

impl<T: Schema> Schema for &[T] {
    fn schema() -> Value {
        list_of(T::schema())
    }
}

impl<T: Schema> Schema for Option<T> {
    fn schema() -> Value {
        let mut schema = T::schema();
        schema["nullable"] = json!(true);
        schema
    }

    fn member(may_be_left_out: bool) -> Value {
        if may_be_left_out { T::schema() } else { Self::schema() }
    }
}

/// A version of the rules.
pub(crate) fn version() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": crate::body_reader::VERSION_MAX})
}
