//! The error of a command.

/// Exit code of a command that fails.
const FAILURE: u8 = 1;

/// One line for the operator: `<object>: <what is wrong>[: <detail>][; <what to do>]`.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct CliError {
    text: String,
    code: u8,
}

impl CliError {
    /// An error with this text. The exit code is 1.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: FAILURE }
    }

    /// The same with another exit code.
    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    pub(crate) const fn code(&self) -> u8 {
        self.code
    }
}
