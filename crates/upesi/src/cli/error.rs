//! The error of a command.

/// Exit code of a command that fails.
const FAILURE: u8 = 1;
/// Exit code of a command whose change was proposed, and waits for another operator.
const PROPOSED: u8 = 3;

/// One line for the operator: `<object>: <what is wrong>[: <detail>][; <what to do>]`.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct CliError {
    text: String,
    code: u8,
    /// It is a log message already.
    is_logged: bool,
}

impl CliError {
    /// An error with this text. The exit code is 1.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: FAILURE, is_logged: false }
    }

    /// A change that was proposed, and is not made yet. The exit code is 3.
    pub(crate) fn proposed(text: impl Into<String>) -> Self {
        Self::new(text).with_code(PROPOSED)
    }

    /// The same with another exit code.
    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// The same, after its text was logged as a message.
    pub(crate) fn logged(self) -> Self {
        tracing::error!(code = self.code, "{self}");
        Self { is_logged: true, ..self }
    }

    pub(crate) const fn is_logged(&self) -> bool {
        self.is_logged
    }

    pub(crate) const fn code(&self) -> u8 {
        self.code
    }
}
