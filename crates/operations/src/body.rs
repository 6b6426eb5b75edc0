//! Request bodies, declared once each. The handler's argument type, the checks in member order and
//! the JSON schema are generated from the members and their rules.

use std::marker::PhantomData;
use std::ops::RangeInclusive;

use fspiop::Refusal;
use ledger::{Amount, Currency, PRECISION_MAX, TransferId};
use openapi::schema::reference;
use serde_json::{Value, json};

use crate::body_reader::{
    BodyReader, CURRENCY_FORM, TRANSFER_ID_FORM, VERSION_MAX, known_currency,
};
use crate::schema::{self, Component, Extent, NO_CONTROLS, names, one_of};

/// The description of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyDescription {
    pub(crate) schema: Component,
    /// Whether unknown members are refused.
    pub(crate) is_closed: bool,
    /// Whether a request without a body is refused.
    pub(crate) is_required: bool,
}

/// The body of a request, or an object within one.
pub(crate) trait Body: Sized {
    const DESCRIPTION: BodyDescription;

    /// Reads the members.
    fn take(reader: &mut BodyReader<'_>) -> Result<Self, Refusal>;

    /// Reads the body of a request.
    fn read_text(text: &[u8]) -> Result<Self, Refusal> {
        Self::read(BodyReader::parse(text)?)
    }

    /// Reads the members, and refuses unknown members of a closed body.
    fn read(mut reader: BodyReader<'_>) -> Result<Self, Refusal> {
        let body = Self::take(&mut reader)?;
        if Self::DESCRIPTION.is_closed {
            reader.finish()?;
        }
        Ok(body)
    }
}

/// Declares a [`Body`]: whether it is `Closed` or `Open` to further members, its name in the
/// document, and its members, each with a [`Rule`]. A member that is only checked begins with `_`.
macro_rules! body {
    ($(#[$about:meta])* $extent:ident $name:ident {
        $($(#[$doc:meta])* $member:ident $(as $given:literal)?: $type:ty = $rule:expr),* $(,)?
    }) => {
        $(#[$about])*
        pub(crate) struct $name {
            $($(#[$doc])* pub(crate) $member: $type),*
        }

        impl $crate::body::Body for $name {
            const DESCRIPTION: $crate::body::BodyDescription = $crate::body::BodyDescription {
                schema: (stringify!($name), || {
                    $crate::schema::object(
                        [$((
                            $crate::schema::json_name(stringify!($member), &[$($given)?]),
                            $crate::body::Rule::is_required(&$rule),
                            $crate::body::Rule::schema(&$rule),
                        )),*],
                        $crate::schema::Extent::$extent,
                    )
                }),
                is_closed: $crate::body::is_closed($crate::schema::Extent::$extent),
                is_required: true,
            };

            fn take(
                reader: &mut $crate::body_reader::BodyReader<'_>,
            ) -> Result<Self, fspiop::Refusal> {
                Ok(Self {
                    $($member: reader.required(
                        &$crate::schema::json_name(stringify!($member), &[$($given)?]),
                        |reader, name| $crate::body::Rule::take(&$rule, reader, name),
                    )?),*
                })
            }
        }
    };
}
pub(crate) use body;

pub(crate) const fn is_closed(extent: Extent) -> bool {
    matches!(extent, Extent::Closed)
}

/// A body that may be absent, which is as good as an empty object.
pub(crate) struct MaybeAbsent<B>(pub(crate) B);

impl<B: Body> Body for MaybeAbsent<B> {
    const DESCRIPTION: BodyDescription = BodyDescription { is_required: false, ..B::DESCRIPTION };

    fn read_text(text: &[u8]) -> Result<Self, Refusal> {
        B::read_text(if text.is_empty() { b"{}" } else { text }).map(Self)
    }

    fn take(reader: &mut BodyReader<'_>) -> Result<Self, Refusal> {
        B::take(reader).map(Self)
    }
}

/// The check of a member, its type, and its schema.
pub(crate) trait Rule {
    type Value;

    /// Removes and returns the member; `None` if it is missing.
    fn take(&self, reader: &mut BodyReader<'_>, name: &str)
    -> Result<Option<Self::Value>, Refusal>;

    fn schema(&self) -> Value;

    fn is_required(&self) -> bool {
        true
    }
}

/// An optional member.
pub(crate) struct Optional<R>(pub(crate) R);

impl<R: Rule> Rule for Optional<R> {
    type Value = Option<R::Value>;

    fn take(
        &self,
        reader: &mut BodyReader<'_>,
        name: &str,
    ) -> Result<Option<Self::Value>, Refusal> {
        self.0.take(reader, name).map(Some)
    }

    fn schema(&self) -> Value {
        self.0.schema()
    }

    fn is_required(&self) -> bool {
        false
    }
}

/// A rule with a description in the document.
pub(crate) struct Described<R>(pub(crate) R, pub(crate) &'static str);

impl<R: Rule> Rule for Described<R> {
    type Value = R::Value;

    fn take(
        &self,
        reader: &mut BodyReader<'_>,
        name: &str,
    ) -> Result<Option<Self::Value>, Refusal> {
        self.0.take(reader, name)
    }

    fn schema(&self) -> Value {
        schema::described(self.0.schema(), self.1)
    }
}

/// A rule made of two functions.
pub(crate) struct Custom<T> {
    pub(crate) take: fn(&mut BodyReader<'_>, &str) -> Result<Option<T>, Refusal>,
    pub(crate) schema: fn() -> Value,
}

impl<T> Rule for Custom<T> {
    type Value = T;

    fn take(&self, reader: &mut BodyReader<'_>, name: &str) -> Result<Option<T>, Refusal> {
        (self.take)(reader, name)
    }

    fn schema(&self) -> Value {
        (self.schema)()
    }
}

/// A boolean, or its name.
pub(crate) const FLAG: Custom<bool> = Custom {
    take: |reader, name| {
        let Some(text) = reader.raw(name) else { return Ok(None) };
        match text.trim_matches('"').to_ascii_lowercase().as_str() {
            "true" => Ok(Some(true)),
            "false" => Ok(Some(false)),
            _ => Err(reader.malformed(name, "must be a boolean")),
        }
    },
    schema: || reference("Flag"),
};

/// A currency code.
pub(crate) const CURRENCY: Custom<Currency> = Custom {
    take: |reader, name| {
        let Some(text) = reader.raw(name) else { return Ok(None) };
        let code = serde_json::from_str::<String>(text).unwrap_or_default();
        let known = known_currency(&code);
        known.map(Some).ok_or_else(|| reader.malformed(name, CURRENCY_FORM))
    },
    schema: schema::currency,
};

/// A currency code or null; any other string is an invalid value, not a malformed one.
pub(crate) const CURRENCY_OR_NULL: Custom<Currency> = Custom {
    take: |reader, name| {
        reader.drop_null(name);
        let Some(code) = reader.text(name, 1..=32)? else { return Ok(None) };
        known_currency(&code).map(Some).ok_or_else(|| reader.invalid(name, CURRENCY_FORM))
    },
    schema: schema::currency_or_null,
};

/// A version number, from 1.
pub(crate) const VERSION: Custom<u32> = Custom {
    take: |reader, name| {
        let Some(text) = reader.raw(name) else { return Ok(None) };
        match text.parse::<u32>() {
            Ok(version) if (1..=VERSION_MAX).contains(&version) => Ok(Some(version)),
            _ => Err(reader.malformed(name, "must be a whole number from 1 to 65535")),
        }
    },
    schema: schema::version,
};

/// The id of a transfer.
pub(crate) const TRANSFER_ID: Custom<TransferId> = Custom {
    take: |reader, name| {
        let Some(text) = reader.text(name, 1..=36)? else { return Ok(None) };
        let id = TransferId::parse(&text);
        id.map(Some).ok_or_else(|| reader.invalid(name, TRANSFER_ID_FORM))
    },
    schema: || reference("TransferId"),
};

/// A plain decimal, as a number or a string: at most 18 digits, 4 of them after the point.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decimal {
    Any,
    FromZero,
    AboveZero,
}

impl Rule for Decimal {
    type Value = Amount;

    fn take(&self, reader: &mut BodyReader<'_>, name: &str) -> Result<Option<Amount>, Refusal> {
        let Some(text) = reader.raw(name) else { return Ok(None) };
        let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        let numeral = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
        if text.is_empty() || !text.bytes().all(numeral) {
            return Err(reader.malformed(name, "must be a number"));
        }
        let amount = Amount::parse_decimal(text).filter(|it| it.precision() <= PRECISION_MAX);
        match (self, amount) {
            (_, None) => {
                Err(reader
                    .invalid(name, "must be a decimal of at most 18 digits, 4 after the point"))
            }
            (Self::FromZero, Some(amount)) if amount < Amount::ZERO => {
                Err(reader.invalid(name, "must be greater than or equal to 0"))
            }
            (Self::AboveZero, Some(amount)) if amount <= Amount::ZERO => {
                Err(reader.invalid(name, "must be a positive number"))
            }
            (_, amount) => Ok(amount),
        }
    }

    fn schema(&self) -> Value {
        reference(match self {
            Self::Any => "Decimal",
            Self::FromZero => "DecimalFromZero",
            Self::AboveZero => "DecimalAboveZero",
        })
    }
}

/// A string of 1 to this number of characters.
pub(crate) struct Text(pub(crate) usize);

impl Rule for Text {
    type Value = String;

    fn take(&self, reader: &mut BodyReader<'_>, name: &str) -> Result<Option<String>, Refusal> {
        reader.text(name, 1..=self.0)
    }

    fn schema(&self) -> Value {
        schema::text(1, self.0)
    }
}

/// A string of bounded length whose characters satisfy a predicate; the pattern is equivalent.
pub(crate) struct PatternText(
    pub(crate) RangeInclusive<usize>,
    pub(crate) fn(char) -> bool,
    pub(crate) &'static str,
);

/// A string of 1 to this number of characters without control characters.
pub(crate) const fn single_line(most: usize) -> PatternText {
    PatternText(1..=most, |character| !character.is_control(), NO_CONTROLS)
}

impl Rule for PatternText {
    type Value = String;

    fn take(&self, reader: &mut BodyReader<'_>, name: &str) -> Result<Option<String>, Refusal> {
        match reader.text(name, self.0.clone())? {
            Some(text) if !text.chars().all(self.1) => {
                Err(reader.invalid(name, "contains a character that is not allowed"))
            }
            text => Ok(text),
        }
    }

    fn schema(&self) -> Value {
        schema::pattern_text(self.0.clone(), self.2)
    }
}

/// One string of a list, read as the value next to it.
pub(crate) struct Choice<T: 'static>(pub(crate) &'static [(&'static str, T)]);

impl<T: Copy> Rule for Choice<T> {
    type Value = T;

    fn take(&self, reader: &mut BodyReader<'_>, name: &str) -> Result<Option<T>, Refusal> {
        let Some(raw) = reader.raw(name) else { return Ok(None) };
        let text = serde_json::from_str::<String>(raw).ok();
        match self.0.iter().find(|(choice, _)| Some(*choice) == text.as_deref()) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let known = names(self.0).join(", ");
                Err(reader.malformed(name, &format!("must be one of [{known}]")))
            }
        }
    }

    fn schema(&self) -> Value {
        one_of(&names(self.0))
    }
}

/// An object.
pub(crate) struct Object<B>(PhantomData<B>);

impl<B: Body> Object<B> {
    pub(crate) const RULE: Self = Self(PhantomData);
}

impl<B: Body> Rule for Object<B> {
    type Value = B;

    fn take(&self, reader: &mut BodyReader<'_>, name: &str) -> Result<Option<B>, Refusal> {
        reader.object(name)?.map(B::read).transpose()
    }

    fn schema(&self) -> Value {
        (B::DESCRIPTION.schema.1)()
    }
}

/// A list of objects, of this length.
pub(crate) struct List<B>(RangeInclusive<usize>, PhantomData<B>);

impl<B: Body> List<B> {
    pub(crate) const fn of(length: RangeInclusive<usize>) -> Self {
        Self(length, PhantomData)
    }
}

impl<B: Body> Rule for List<B> {
    type Value = Vec<B>;

    fn take(&self, form: &mut BodyReader<'_>, name: &str) -> Result<Option<Vec<B>>, Refusal> {
        let Some(items) = form.objects(name, &self.0)? else { return Ok(None) };
        items.into_iter().map(B::read).collect::<Result<_, _>>().map(Some)
    }

    fn schema(&self) -> Value {
        let mut schema = schema::list_of((B::DESCRIPTION.schema.1)());
        schema["minItems"] = (*self.0.start()).into();
        schema["maxItems"] = (*self.0.end()).into();
        schema
    }
}

/// A list of strings, of this length.
pub(crate) struct Strings {
    pub(crate) length: RangeInclusive<usize>,
    pub(crate) is_valid: fn(&str) -> bool,
    /// The form of an item, for refusals.
    pub(crate) form: &'static str,
    /// The schema of an item.
    pub(crate) schema: fn() -> Value,
}

impl Rule for Strings {
    type Value = Vec<String>;

    fn take(
        &self,
        reader: &mut BodyReader<'_>,
        name: &str,
    ) -> Result<Option<Vec<String>>, Refusal> {
        let Some(items) = reader.array(name, *self.length.end())? else { return Ok(None) };
        reader.check_length(name, &items, &self.length)?;
        let mut strings = Vec::with_capacity(items.len());
        for item in items {
            let Ok(text) = serde_json::from_str::<String>(item.get()) else {
                return Err(reader.malformed(name, "must be a list of strings"));
            };
            if !(self.is_valid)(&text) {
                return Err(
                    reader.invalid(name, &format!("has an invalid item; each {}", self.form))
                );
            }
            if strings.contains(&text) {
                return Err(reader.invalid(name, "has an item twice"));
            }
            strings.push(text);
        }
        Ok(Some(strings))
    }

    fn schema(&self) -> Value {
        let mut schema = schema::list_of((self.schema)());
        schema["minItems"] = (*self.length.start()).into();
        schema["maxItems"] = (*self.length.end()).into();
        schema["uniqueItems"] = true.into();
        schema
    }
}

/// The number of a window, settlement, participant or account, or its digits as a string.
pub(crate) const NUMBER: Custom<u32> = Custom {
    take: |form, name| {
        let Some(text) = form.raw(name) else { return Ok(None) };
        let digits = text.trim_matches('"');
        match digits.parse::<u32>() {
            Ok(number) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Some(number)),
            _ => Err(form.malformed(name, "must be an integer")),
        }
    },
    schema: || {
        json!({"anyOf": [
            {"type": "integer", "minimum": 0, "maximum": u32::MAX},
            {"type": "string", "pattern": "^[0-9]{1,9}$"},
        ]})
    },
};

/// A string of up to this number of characters, which may be empty.
pub(crate) struct AnyText(pub(crate) usize);

impl Rule for AnyText {
    type Value = String;

    fn take(&self, form: &mut BodyReader<'_>, name: &str) -> Result<Option<String>, Refusal> {
        form.text(name, 0..=self.0)
    }

    fn schema(&self) -> Value {
        schema::text(0, self.0)
    }
}

body! {
    /// Activates or deactivates something.
    Closed Activity {
        is_active: bool = FLAG,
    }
}
