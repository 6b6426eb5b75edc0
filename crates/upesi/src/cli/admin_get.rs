//! One question to a running switch's admin API.

use std::path::Path;

use harness::{Admin, HarnessError};

use crate::CliError;

/// What `GET path` answers, when it is 200.
///
/// # Errors
///
/// Nobody answers at `admin`, or with another status: the failure quotes the answer.
pub(crate) fn ask(admin: &str, token: Option<&Path>, path: &str) -> Result<String, CliError> {
    let failed = |error: HarnessError| CliError::new(error.to_string());
    let mut admin = Admin::at(admin, token).map_err(failed)?;
    let answered = admin.call("GET", path, None).map_err(failed)?;
    let text = String::from_utf8_lossy(&answered.body).into_owned();
    match answered.status {
        200 => Ok(text),
        status => Err(CliError::new(format!("the switch answered {status} {text}"))),
    }
}
