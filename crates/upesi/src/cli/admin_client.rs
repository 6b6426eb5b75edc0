//! Requests of a command to the admin API of a running switch.

use std::time::Duration;

use harness::Admin;
use serde_json::Value;

use crate::CliError;
use crate::cli::admin_address::AdminAddress;
use crate::cli::printable::printable;

/// The switch that a command talks to.
#[derive(clap::Args)]
pub(crate) struct AdminConnection {
    #[command(flatten)]
    switch: AdminAddress,
    /// Reason of a change, recorded with it.
    #[arg(long, value_name = "TEXT", global = true)]
    reason: Option<String>,
    /// Print the answer of the switch as JSON.
    #[arg(long, global = true)]
    json: bool,
}

impl AdminConnection {
    /// A client of the admin API that sends the reason.
    ///
    /// # Errors
    /// The address or the reason is invalid, or a file cannot be read.
    pub(crate) fn admin(&self) -> Result<Admin, CliError> {
        self.admin_because(self.reason())
    }

    fn admin_because(&self, reason: Option<&str>) -> Result<Admin, CliError> {
        let mut admin = self.switch.client()?;
        admin.with("accept", "application/json");
        if let Some(reason) = reason {
            if reason.chars().any(char::is_control) {
                return Err(CliError::new("--reason: contains a control character"));
            }
            admin.with("x-reason", reason);
        }
        Ok(admin)
    }

    /// A client that sends no other headers than the token.
    ///
    /// # Errors
    /// The address is invalid, or a file cannot be read.
    pub(crate) fn bare(&self) -> Result<Admin, CliError> {
        self.switch.client()
    }

    /// Whether the answer is printed as JSON.
    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    /// The reason of a change.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Prints the JSON of an answer, or a form for people.
    pub(crate) fn print(&self, json: &str, people: impl FnOnce()) {
        if self.json { println!("{json}") } else { people() }
    }
}

/// A client of the admin API.
pub(crate) struct AdminClient {
    admin: Admin,
}

/// An answer with a status below 300: its JSON, and its text.
pub(crate) struct AdminAnswer {
    pub(crate) value: Value,
    pub(crate) text: String,
    /// The sentence about the proposal, if a change with a secret was only proposed.
    pub(crate) proposed: Option<String>,
}

impl AdminAnswer {
    /// The end of a command whose change may have been proposed only.
    ///
    /// # Errors
    /// It was: the exit code is 3.
    pub(crate) fn finish(self) -> Result<(), CliError> {
        self.proposed.map_or(Ok(()), |text| Err(CliError::proposed(text)))
    }
}

impl AdminClient {
    pub(crate) fn new(connection: &AdminConnection) -> Result<Self, CliError> {
        let admin = connection.admin()?;
        Ok(Self { admin })
    }

    /// A client that sends this reason.
    ///
    /// # Errors
    /// As [`AdminConnection::admin`].
    pub(crate) fn because(connection: &AdminConnection, reason: &str) -> Result<Self, CliError> {
        Ok(Self { admin: connection.admin_because(Some(reason))? })
    }

    /// A client for commands that change nothing.
    ///
    /// # Errors
    /// The address is invalid, or a file cannot be read.
    pub(crate) fn at(switch: &AdminAddress) -> Result<Self, CliError> {
        Ok(Self { admin: switch.client()? })
    }

    /// Waits for each answer up to a time, instead of 20 s.
    pub(crate) fn waiting(self, within: Duration) -> Self {
        Self { admin: self.admin.waiting(within) }
    }

    /// # Errors
    /// The request fails, or its status is not below 300; the error quotes the description. A
    /// change that was only proposed is an error that names the proposal, unless the answer has a
    /// secret.
    pub(crate) fn call(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<AdminAnswer, CliError> {
        let (status, mut answer) = self.status_of(method, path, body)?;
        if let Some(text) = proposed(&answer.value).filter(|_| status == 202) {
            // A proposed secret is in this answer only: the command shows it first.
            match answer.value["token"].is_null() {
                true => return Err(CliError::proposed(text)),
                false => answer.proposed = Some(text),
            }
        }
        if status < 300 {
            return Ok(answer);
        }
        let described = answer.value["errorInformation"]["errorDescription"].as_str();
        let hint = if status == 401 {
            "; name the token file with --token, or log in with upesi login"
        } else {
            ""
        };
        let text = described.unwrap_or("no description");
        Err(CliError::new(format!("{method} {path}: status {status}: {text}{hint}")))
    }

    /// The answer, whatever its status.
    ///
    /// # Errors
    /// The request fails.
    pub(crate) fn status_of(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, AdminAnswer), CliError> {
        let body = body.map(Value::to_string);
        let answer = self.admin.call(method, path, body.as_deref())?;
        let value = serde_json::from_slice::<Value>(&answer.body).unwrap_or(Value::Null);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        Ok((answer.status, AdminAnswer { value, text, proposed: None }))
    }
}

/// The sentence about a proposal that a switch answered a change with.
pub(crate) fn proposed(answer: &Value) -> Option<String> {
    let id = answer["proposalId"].as_u64().filter(|_| answer["state"] == "OPEN")?;
    let until = answer["expirationDate"].as_str().unwrap_or_default();
    Some(format!(
        "proposed as {id}, not done yet; until {until} another operator can approve it with `upesi \
         proposal approve {id}`"
    ))
}

/// The entries of a list in an answer.
pub(crate) fn entries(answer: &Value) -> &[Value] {
    answer.as_array().map_or(&[], Vec::as_slice)
}

/// A member of an object as [`printable`] text; empty if it is absent.
pub(crate) fn member(value: &Value, name: &str) -> String {
    match &value[name] {
        Value::Null => String::new(),
        Value::String(text) => printable(text).into_owned(),
        Value::Array(items) => {
            let texts = items.iter().map(|item| printable(item.as_str().unwrap_or_default()));
            texts.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn open_proposals_are_announced() {
        let mut open = json!({"proposalId": 17, "state": "APPROVED"});
        assert_eq!(proposed(&open), None);
        open["state"] = json!("OPEN");
        let text = proposed(&open).expect("it is open");
        assert!(text.starts_with("proposed as 17, not done yet; until "), "{text}");
        assert_eq!(proposed(&json!({"id": 1})), None);
    }
}
