//! Why the program ends with a non-zero code.

/// One clear line for a person.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
