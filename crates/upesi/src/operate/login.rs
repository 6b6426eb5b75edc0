//! `upesi login` and `upesi logout`: sessions with the admin API of a running switch.

mod provider;

use std::fs;
use std::path::{Path, PathBuf};

use harness::{Admin, session_file};
use serde_json::{Value, json};

use self::provider::{ProviderArguments, ProviderSession};
use crate::CliError;
use crate::cli::admin_address::{TlsFiles, authorities_file};
use crate::cli::admin_client::member;
use crate::cli::password;
use crate::cli::session::{remove, remove_session, store, store_session};

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi login anna
  upesi login anna --admin https://10.0.0.5:3001 --ca ca.pem --code 123456
  upesi login anna --password-file secret < /dev/null
  upesi login --issuer https://idp.example/realms/scheme --client-id upesi";

/// Arguments of `login`.
#[derive(clap::Args)]
pub(crate) struct LoginArguments {
    /// Name of the operator.
    #[arg(value_name = "NAME", required_unless_present = "issuer")]
    name: Option<String>,
    /// Address of the switch's admin API.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:3001")]
    admin: String,
    /// File with the password, instead of standard input.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    files: TlsFiles,
    /// Code of the authenticator application, if the operator has one.
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    #[command(flatten)]
    provider: ProviderArguments,
}

/// Arguments of `logout`.
#[derive(clap::Args)]
pub(crate) struct LogoutArguments {
    /// Address of the switch's admin API.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:3001")]
    admin: String,
}

pub(crate) fn login(arguments: &LoginArguments) -> Result<(), CliError> {
    let LoginArguments { name, admin, password_file, files, code, provider } = arguments;
    let file = file_for(admin)?;
    let Some(name) = name else {
        let issuer = provider.issuer.as_deref().unwrap_or_default();
        return keep_token(&provider.session(issuer)?, (admin, &file), files);
    };
    let password = password::read("password", password_file.as_deref())?;
    let mut body = json!({"name": name, "password": password});
    if let Some(code) = code {
        body["code"] = json!(code);
    }
    let mut client = files.apply(admin, Admin::without_token(admin)?)?;
    let answer = client.call("POST", "/login", Some(&body.to_string()))?;
    let value = serde_json::from_slice::<Value>(&answer.body).unwrap_or(Value::Null);
    if answer.status != 201 {
        return Err(refused(answer.status, &value));
    }
    let stored = store_session(&file, &member(&value, "token"), None);
    stored.map_err(|error| CliError::new(format!("{}: {error}", file.display())))?;
    remember_authorities(&file, files.ca(admin).as_deref())?;
    println!("logged in as {name} until {}", member(&value, "expirationDate"));
    Ok(())
}

/// Stores an access token, if the admin API accepts it.
fn keep_token(
    ProviderSession { token, renewal }: &ProviderSession,
    (admin, file): (&str, &Path),
    files: &TlsFiles,
) -> Result<(), CliError> {
    let mut client = files.apply(admin, Admin::with_token(admin, token.clone())?)?;
    let answer = client.call("GET", "/identity", None)?;
    let value = serde_json::from_slice::<Value>(&answer.body).unwrap_or(Value::Null);
    if answer.status != 200 {
        return Err(refused(answer.status, &value));
    }
    let stored = store_session(file, token, renewal.as_ref());
    stored.map_err(|error| CliError::new(format!("{}: {error}", file.display())))?;
    remember_authorities(file, files.ca(admin).as_deref())?;
    let (name, end) = (member(&value, "name"), member(&value, "expirationDate"));
    let renewed = if renewal.is_some() { "; later commands renew the token" } else { "" };
    println!("logged in as {name} until {end}{renewed}");
    Ok(())
}

fn refused(status: u16, answer: &Value) -> CliError {
    let described = answer["errorInformation"]["errorDescription"].as_str();
    CliError::new(format!("login: status {status}: {}", described.unwrap_or("no description")))
}

/// Deletes the stored token. The session itself ends at its time, or when the operator is disabled
/// or its password is changed.
pub(crate) fn logout(arguments: &LogoutArguments) -> Result<(), CliError> {
    let file = file_for(&arguments.admin)?;
    remember_authorities(&file, None)?;
    match remove_session(&file) {
        Ok(true) => println!("logged out of {}", arguments.admin),
        Ok(false) => println!("there is no session with {}", arguments.admin),
        Err(error) => return Err(CliError::new(format!("{}: {error}", file.display()))),
    }
    Ok(())
}

fn file_for(admin: &str) -> Result<PathBuf, CliError> {
    session_file(admin).ok_or_else(|| {
        CliError::new("set HOME or XDG_CONFIG_HOME: a session is stored below this directory")
    })
}

/// Copies the trusted authorities next to a session; without any, removes an earlier copy.
fn remember_authorities(session: &Path, ca: Option<&Path>) -> Result<(), CliError> {
    let Some(kept) = authorities_file(session) else { return Ok(()) };
    let done = match ca {
        Some(ca) if ca == kept => Ok(()),
        Some(ca) => fs::read_to_string(ca).and_then(|content| store(&kept, &content)),
        None => remove(&kept),
    };
    done.map_err(|error| CliError::new(format!("{}: {error}", kept.display())))
}
