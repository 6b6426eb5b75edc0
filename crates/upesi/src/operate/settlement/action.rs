//! One action of a command.

use serde_json::{Value, json};

/// One action of a command: a sentence for people, and the answer of the switch.
pub(super) struct Action {
    pub(super) text: String,
    pub(super) answer: Value,
}

impl Action {
    pub(super) fn new(text: impl Into<String>, answer: Value) -> Self {
        Self { text: text.into(), answer }
    }

    /// An action that a dry run leaves out.
    pub(super) fn planned(text: impl Into<String>) -> Self {
        let text = format!("would {}", text.into());
        Self { answer: json!({ "planned": text }), text }
    }

    /// A step that changes nothing.
    pub(super) fn unchanged(text: impl Into<String>) -> Self {
        let text = format!("nothing changed: {}", text.into());
        Self { answer: json!({ "unchanged": text }), text }
    }
}
