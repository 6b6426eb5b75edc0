//! `upesi explain --messages`: the messages of a payment with headers and body, from a running
//! switch.

use std::fmt::{self, Display, Formatter};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::CliError;

/// The answer of `GET /transfers/{id}/messages`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Contents {
    masked: bool,
    messages: Vec<Content>,
    #[serde(default)]
    left_out: u64,
}

/// A message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    log_index: u64,
    request: String,
    sender: String,
    kept: String,
    headers: Vec<HeaderLine>,
    body: Option<Box<RawValue>>,
    text: Option<String>,
}

#[derive(Deserialize)]
struct HeaderLine {
    name: String,
    value: String,
}

impl Contents {
    /// # Errors
    /// The text is not such an answer.
    pub(crate) fn read(text: &str) -> Result<Self, CliError> {
        serde_json::from_str(text)
            .map_err(|error| CliError::new(format!("the answer has no messages: {error}")))
    }
}

impl Display for Contents {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "Messages")?;
        if self.masked {
            let needed = "the permission \"audit\" shows them completely";
            writeln!(f, "  personal data are masked; {needed}")?;
        }
        self.messages.iter().try_for_each(|message| write!(f, "\n{message}"))?;
        match self.left_out {
            0 => Ok(()),
            1 => writeln!(f, "\n  1 more message is left out"),
            count => writeln!(f, "\n  {count} more messages are left out"),
        }
    }
}

impl Display for Content {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { log_index, request, sender, kept, headers, body, text } = self;
        writeln!(f, "  record {log_index}: {request} from {sender}")?;
        if kept != "stored" {
            writeln!(f, "  message {kept}")?;
        }
        for HeaderLine { name, value } in headers {
            writeln!(f, "    {name}: {value}")?;
        }
        match (body, text) {
            (Some(body), _) => writeln!(f, "\n    {}", body.get().replace('\n', "\n    ")),
            (None, Some(text)) => writeln!(f, "\n    {}", text.replace('\n', "\n    ")),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_shown_as_they_were_sent() {
        let answer = r#"{"transferId":"t","masked":true,"leftOut":2,"messages":[
            {"logIndex":7,"request":"POST /transfers","sender":"a","kept":"stored",
             "headers":[{"name":"date","value":"today"}],"body":{"b":1.50,"a":"**"}},
            {"logIndex":9,"request":"PUT /transfers/{id}","sender":"b","kept":"erased",
             "headers":[]}]}"#;
        let shown = Contents::read(answer).expect("an answer").to_string();
        let expected = "\
Messages
  personal data are masked; the permission \"audit\" shows them completely

  record 7: POST /transfers from a
    date: today

    {\"b\":1.50,\"a\":\"**\"}

  record 9: PUT /transfers/{id} from b
  message erased

  2 more messages are left out
";
        assert_eq!(shown, expected);
    }
}
