//! The first administrator of a new log.

use std::fs;
use std::path::Path;

use harness::switch_process::{SwitchProcess, own_program};
use harness::{Admin, AdminResponse, HarnessError, SwitchCommand};
use serde_json::{Value, json};

use crate::CliError;

/// Life of the first token, in seconds: 30 days.
const TOKEN_SECONDS: u32 = 30 * 24 * 3_600;

/// Creates the log, encrypted with a master key, an operator with the role `admin` and a token,
/// which is returned. A switch runs on free ports of the loopback interface meanwhile.
pub(super) fn create(data: &Path, key: &Path, name: &str) -> Result<String, CliError> {
    let failed = |error: HarnessError| {
        CliError::new(format!("the first administrator cannot be recorded: {error}"))
    };
    let mut command = SwitchCommand::standard(own_program().map_err(failed)?);
    command.encryption_key = Some(format!("file:{}", key.display()));
    let switch = SwitchProcess::start(&command, data).map_err(failed)?;
    let recorded = switch.admin().and_then(|mut admin| record(&mut admin, name));
    let stopped = switch.stop();
    let token = recorded.map_err(failed)?;
    stopped.map_err(failed)?;
    // Its output was for this command only.
    let log = data.join("switch.log");
    fs::remove_file(&log).map_err(|error| CliError::new(format!("{}: {error}", log.display())))?;
    Ok(token)
}

fn record(admin: &mut Admin, name: &str) -> Result<String, HarnessError> {
    let wrong = |what: &str, answer: &AdminResponse| {
        let body = String::from_utf8_lossy(&answer.body);
        HarnessError::Hub(format!("answered {} to {what}: {body}", answer.status))
    };
    let operator = json!({ "roles": ["admin"] }).to_string();
    let answer = admin.call("PUT", &format!("/operators/{name}"), Some(&operator))?;
    if answer.status != 200 {
        return Err(wrong("PUT /operators", &answer));
    }
    let token = json!({ "operator": name, "lifetimeSeconds": TOKEN_SECONDS }).to_string();
    let answer = admin.call("POST", "/tokens", Some(&token))?;
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let token = body["token"].as_str().map(str::to_owned);
    token.ok_or_else(|| wrong("POST /tokens", &answer))
}
