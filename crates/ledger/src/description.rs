//! Stored values with the names of their fields, for readers of the audit trail.
//!
//! A description is derived from the declaration of a stored type, like its stored form. Values
//! that authenticate an operator are declared as [`Secret`](crate::field::Secret): a description
//! compares them, and never shows them.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;

use crate::ids::{ParticipantIndex, Stamp};

/// A stored value with the names of its fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Description {
    /// An optional value that is absent.
    Absent,
    /// A truth value.
    Flag(bool),
    /// A number.
    Number(u64),
    /// A text, or a value with a text of its own.
    Text(String),
    /// A time.
    Time(Stamp),
    /// A participant, by its place in the registry.
    Participant(ParticipantIndex),
    /// Values without names.
    List(Vec<Self>),
    /// Values with names.
    Fields(Vec<(&'static str, Self)>),
    /// A value that must not be shown.
    Secret(Box<Self>),
}

impl Description {
    /// The text of a value.
    pub(crate) fn text(value: impl Display) -> Self {
        Self::Text(value.to_string())
    }

    /// Bytes in hexadecimal digits.
    pub(crate) fn bytes(bytes: &[u8]) -> Self {
        const DIGITS: [u8; 16] = *b"0123456789abcdef";
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        Self::Text(digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect())
    }

    /// Two values: the fields of the second one after an id, or a list.
    pub(crate) fn pair(first: Self, second: Self) -> Self {
        match second {
            Self::Fields(mut fields) if !matches!(first, Self::Fields(_)) => {
                fields.insert(0, ("id", first));
                Self::Fields(fields)
            }
            second => Self::List([first, second].into()),
        }
    }

    /// A value that must not be shown, unless it is empty.
    pub(crate) fn secret(self) -> Self {
        match self {
            Self::Absent => Self::Absent,
            Self::Text(text) if text.is_empty() => Self::Text(text),
            shown => Self::Secret(Box::new(shown)),
        }
    }
}
