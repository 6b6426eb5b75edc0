//! The error of a command.

/// One line for the operator: `<object>: <what is wrong>[: <detail>][; <what to do>]`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CliError(String);

impl CliError {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
