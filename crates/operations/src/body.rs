//! Bodies of requests, declared once each: from the members with their rules come the type that a
//! handler takes, the checks in the order of the members, and the JSON schema.

use std::marker::PhantomData;
use std::ops::RangeInclusive;

use fspiop::Refusal;
use ledger::{Amount, Currency, TransferId};
use openapi::schema::reference;
use serde_json::Value;

use crate::form::Form;
use crate::schema::{self, Component, Extent, NO_CONTROLS, names, one_of};

/// The form of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) schema: Component,
    /// Whether members that it does not know are refused.
    pub(crate) is_closed: bool,
}

/// The body of a request, or an object within one.
pub(crate) trait Body: Sized {
    const TAKEN: Taken;

    /// Reads the members.
    fn take(form: &mut Form<'_>) -> Result<Self, Refusal>;

    /// Reads the members, and refuses others where they are not allowed.
    fn read(mut form: Form<'_>) -> Result<Self, Refusal> {
        let body = Self::take(&mut form)?;
        if Self::TAKEN.is_closed {
            form.finish()?;
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
            const TAKEN: $crate::body::Taken = $crate::body::Taken {
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
            };

            fn take(form: &mut $crate::form::Form<'_>) -> Result<Self, fspiop::Refusal> {
                Ok(Self {
                    $($member: form.required(
                        &$crate::schema::json_name(stringify!($member), &[$($given)?]),
                        |form, name| $crate::body::Rule::take(&$rule, form, name),
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

/// What a member must be, and what it is read as.
pub(crate) trait Rule {
    type Value;

    /// Takes the member out; `None` when it is missing.
    fn take(&self, form: &mut Form<'_>, name: &str) -> Result<Option<Self::Value>, Refusal>;

    fn schema(&self) -> Value;

    fn is_required(&self) -> bool {
        true
    }
}

/// A member that may be missing.
pub(crate) struct Optional<R>(pub(crate) R);

impl<R: Rule> Rule for Optional<R> {
    type Value = Option<R::Value>;

    fn take(&self, form: &mut Form<'_>, name: &str) -> Result<Option<Self::Value>, Refusal> {
        self.0.take(form, name).map(Some)
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

    fn take(&self, form: &mut Form<'_>, name: &str) -> Result<Option<Self::Value>, Refusal> {
        self.0.take(form, name)
    }

    fn schema(&self) -> Value {
        schema::described(self.0.schema(), self.1)
    }
}

/// A rule made of two functions.
pub(crate) struct Custom<T> {
    pub(crate) take: fn(&mut Form<'_>, &str) -> Result<Option<T>, Refusal>,
    pub(crate) schema: fn() -> Value,
}

impl<T> Rule for Custom<T> {
    type Value = T;

    fn take(&self, form: &mut Form<'_>, name: &str) -> Result<Option<T>, Refusal> {
        (self.take)(form, name)
    }

    fn schema(&self) -> Value {
        (self.schema)()
    }
}

/// A boolean, or its name.
pub(crate) const FLAG: Custom<bool> =
    Custom { take: |form, name| form.flag(name), schema: || reference("Flag") };

/// A currency that the scheme can know.
pub(crate) const CURRENCY: Custom<Currency> =
    Custom { take: |form, name| form.currency(name), schema: schema::currency };

/// A plain decimal.
pub(crate) const DECIMAL: Custom<Amount> =
    Custom { take: |form, name| form.decimal(name), schema: || reference("Decimal") };

/// A decimal that is not below zero.
pub(crate) const DECIMAL_FROM_ZERO: Custom<Amount> = Custom {
    take: |form, name| form.decimal_from_zero(name),
    schema: || reference("DecimalFromZero"),
};

/// A decimal above zero.
pub(crate) const DECIMAL_ABOVE_ZERO: Custom<Amount> = Custom {
    take: |form, name| form.decimal_above_zero(name),
    schema: || reference("DecimalAboveZero"),
};

/// A number of a version, from 1.
pub(crate) const VERSION: Custom<u32> =
    Custom { take: |form, name| form.version(name), schema: schema::version };

/// The id of a transfer.
pub(crate) const TRANSFER_ID: Custom<TransferId> =
    Custom { take: |form, name| form.transfer_id(name), schema: schema::transfer_id };

/// A text of 1 to this many characters.
pub(crate) struct Text(pub(crate) usize);

impl Rule for Text {
    type Value = String;

    fn take(&self, form: &mut Form<'_>, name: &str) -> Result<Option<String>, Refusal> {
        form.text(name, 1..=self.0)
    }

    fn schema(&self) -> Value {
        schema::text(1, self.0)
    }
}

/// A text of so many characters, each of them fit; the pattern says the same.
pub(crate) struct Word(
    pub(crate) RangeInclusive<usize>,
    pub(crate) fn(char) -> bool,
    pub(crate) &'static str,
);

/// A text of 1 to this many characters without control characters.
pub(crate) const fn line(most: usize) -> Word {
    Word(1..=most, |character| !character.is_control(), NO_CONTROLS)
}

impl Rule for Word {
    type Value = String;

    fn take(&self, form: &mut Form<'_>, name: &str) -> Result<Option<String>, Refusal> {
        form.word(name, self.0.clone(), self.1)
    }

    fn schema(&self) -> Value {
        schema::word(self.0.clone(), self.2)
    }
}

/// One of some texts, as what it stands for.
pub(crate) struct Choice<T: 'static>(pub(crate) &'static [(&'static str, T)]);

impl<T: Copy> Rule for Choice<T> {
    type Value = T;

    fn take(&self, form: &mut Form<'_>, name: &str) -> Result<Option<T>, Refusal> {
        form.choice(name, self.0)
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

    fn take(&self, form: &mut Form<'_>, name: &str) -> Result<Option<B>, Refusal> {
        form.object(name)?.map(B::read).transpose()
    }

    fn schema(&self) -> Value {
        (B::TAKEN.schema.1)()
    }
}

body! {
    /// Switches something on or off.
    Closed Activity {
        is_active: bool = FLAG,
    }
}
