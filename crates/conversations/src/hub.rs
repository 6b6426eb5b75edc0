//! The hub under test: started here, or running elsewhere; and the operator's calls to it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::http::{Client, Headers, Request, Response};

use crate::Failure;
use crate::defaults;
use crate::keys;
use crate::run::Target;
use crate::variables::{hexadecimal, random};

/// Maximum time for the hub to answer a request.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);
const START_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// A hub that answers.
pub(crate) struct TestedHub {
    pub(crate) fspiop: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) token: Option<String>,
    process: Option<Process>,
}

/// A switch that was started here.
struct Process {
    child: Child,
    program: PathBuf,
    data: PathBuf,
}

impl TestedHub {
    /// Starts or finds the hub, waits until it is healthy, and gives it its accounts in USD.
    /// `settings` are lines of the configuration file, `section.name = value`; only a switch that
    /// is started here can have any.
    pub(crate) fn open(target: &Target, settings: &[String]) -> Result<Self, Failure> {
        let hub = match target {
            Target::Switch(program) => Self::start(program, settings)?,
            Target::Hub { fspiop, admin, token } => Self {
                fspiop: resolve(fspiop)?,
                admin: resolve(admin)?,
                token: token.as_deref().map(read_token).transpose()?,
                process: None,
            },
        };
        hub.create_accounts("USD")?;
        Ok(hub)
    }

    /// Gives the hub the accounts that participants need in a currency. It may have them already.
    pub(crate) fn create_accounts(&self, currency: &str) -> Result<(), Failure> {
        let mut operator = self.operator();
        for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"] {
            let body = format!(r#"{{"currency": "{currency}", "type": "{kind}"}}"#);
            let answer = operator.call("POST", "/participants/Hub/accounts", &body);
            let answer = answer.map_err(|error| admin_api_error(self.admin, &error))?;
            if answer.status != 201 && answer.status != 400 {
                let text = String::from_utf8_lossy(&answer.body);
                let status = answer.status;
                return Err(Failure::new(format!("the hub's accounts: {status} {text}")));
            }
        }
        Ok(())
    }

    /// A client of the admin API that may change things.
    pub(crate) fn operator(&self) -> Operator {
        Operator { client: Client::new(self.admin, RESPONSE_TIMEOUT), token: self.token.clone() }
    }

    /// Stops the switch if it was started here, and has its log verified.
    pub(crate) fn close(mut self) -> Result<(), Failure> {
        match self.process.take() {
            Some(process) => process.stop(),
            None => Ok(()),
        }
    }

    fn start(program: &Path, settings: &[String]) -> Result<Self, Failure> {
        let name = format!("conversations-{}", hexadecimal(&random::<6>()));
        let data = std::env::temp_dir().join(name);
        let file = |error: io::Error| Failure::new(format!("{}: {error}", data.display()));
        DirBuilder::new().mode(0o700).create(&data).map_err(file)?;
        let config = data.join("upesi.toml");
        let settings = with_signing_key(settings, &data).map_err(file)?;
        fs::write(&config, tables(&settings)).map_err(file)?;
        let log = File::create(data.join("switch.log")).map_err(file)?;
        let errors = log.try_clone().map_err(file)?;
        let child = Command::new(program)
            .args(["serve", "--data"])
            .arg(&data)
            .arg("--config")
            .arg(&config)
            .args(["--fspiop", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(|error| Failure::new(format!("{}: {error}", program.display())))?;
        let mut process = Process { child, program: program.to_owned(), data };
        let (fspiop, admin) = process.wait_ready()?;
        let token = read_token(&process.data.join("admin-token"))?;
        Ok(Self { fspiop, admin, token: Some(token), process: Some(process) })
    }
}

impl Process {
    /// Waits until the switch prints its addresses: FSPIOP and the admin API.
    fn wait_ready(&mut self) -> Result<(SocketAddr, SocketAddr), Failure> {
        let deadline = Instant::now() + START_TIMEOUT;
        while Instant::now() < deadline {
            let words = self.read_log();
            if let Some(addresses) = words.lines().find_map(testkit::addresses) {
                return Ok(addresses);
            }
            if !matches!(self.child.try_wait(), Ok(None)) {
                return Err(Failure::new(format!("the switch ended: {words}")));
            }
            std::thread::sleep(POLL);
        }
        Err(Failure::new("the switch is not ready in time"))
    }

    fn stop(mut self) -> Result<(), Failure> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(id) = id {
            // It fails only when the switch has ended already, which is seen below.
            let _sent = kill_process(id, Signal::TERM);
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => break,
                Ok(None) if Instant::now() < deadline => std::thread::sleep(POLL),
                other => {
                    let words = self.read_log();
                    return Err(Failure::new(format!("the switch: {other:?}: {words}")));
                }
            }
        }
        let verify = Command::new(&self.program)
            .args(["verify", "--json", "--data"])
            .arg(&self.data)
            .output()
            .map_err(|error| Failure::new(format!("verify: {error}")))?;
        if !verify.status.success() {
            let output = String::from_utf8_lossy(&verify.stdout).into_owned();
            return Err(Failure::new(format!("the log does not verify: {output}")));
        }
        Ok(())
    }

    fn read_log(&self) -> String {
        fs::read_to_string(self.data.join("switch.log")).unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // All fail only when there is nothing left to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.data);
    }
}

/// A client of the admin API.
pub(crate) struct Operator {
    pub(crate) client: Client,
    token: Option<String>,
}

/// An account as the admin API shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Account {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) currency: String,
    /// The number as it is written.
    pub(crate) value: String,
}

/// The hub's report of its state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StateHash {
    /// Records in its log.
    pub(crate) log_index: u64,
    /// Hash of everything.
    pub(crate) whole: String,
    /// Hash of what does not change with a record that changes nothing.
    pub(crate) content: String,
}

impl Operator {
    /// The headers that every request of an operator has.
    pub(crate) fn headers(&self) -> Headers {
        let token = self.token.as_ref();
        let token = token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}")));
        let json = ("Content-Type".to_owned(), "application/json".to_owned());
        let accept = ("Accept".to_owned(), "application/json".to_owned());
        Headers(token.into_iter().chain([accept, json]).collect())
    }

    pub(crate) fn call(&mut self, method: &str, path: &str, body: &str) -> io::Result<Response> {
        let (method, path) = (method.to_owned(), path.to_owned());
        let request =
            Request { method, path, headers: self.headers(), body: body.as_bytes().to_vec() };
        self.client.call(&request)
    }

    /// The accounts of a participant; none when it does not exist.
    pub(crate) fn accounts(&mut self, name: &str) -> Result<Vec<Account>, String> {
        let path = format!("/participants/{name}/accounts");
        let answer = self.call("GET", &path, "").map_err(|error| error.to_string())?;
        let value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let text = |value: &Value, name: &str| match &value[name] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let accounts = value.as_array().into_iter().flatten().map(|one| Account {
            id: text(one, "id"),
            kind: text(one, "ledgerAccountType"),
            currency: text(one, "currency"),
            value: text(one, "value"),
        });
        Ok(accounts.collect())
    }

    /// Log index and state hash of the hub; `None` if the hub does not report them.
    pub(crate) fn state(&mut self) -> Option<StateHash> {
        let answer = self.call("GET", "/state", "").ok().filter(|answer| answer.status == 200)?;
        let value: Value = serde_json::from_slice(&answer.body).ok()?;
        Some(StateHash {
            log_index: value["logIndex"].as_u64()?,
            whole: value["stateHash"].as_str()?.to_owned(),
            content: value["contentHash"].as_str()?.to_owned(),
        })
    }

    /// Brings a participant into the scheme: accounts, a cap of 1000, funds of 5000, endpoints.
    pub(crate) fn onboard(
        &mut self,
        name: &str,
        currency: &str,
        base: Option<&str>,
    ) -> Result<(), String> {
        let of = |tail: &str| format!("/participants/{name}{tail}");
        let body = format!(r#"{{"name": "{name}", "currency": "{currency}"}}"#);
        self.post("/participants", &body, 201)?;
        let body = format!(
            r#"{{"currency": "{currency}", "limit": {{"type": "NET_DEBIT_CAP", "value": 1000}},
                "initialPosition": 0}}"#
        );
        self.post(&of("/initialPositionAndLimits"), &body, 201)?;
        let accounts = self.accounts(name)?;
        let wanted = |one: &&Account| one.kind == "SETTLEMENT" && one.currency == currency;
        let account = accounts.iter().find(wanted).ok_or("it has no SETTLEMENT account")?;
        let id = hexadecimal(&random::<16>());
        let id =
            format!("{}-{}-4{}-8{}-{}", &id[..8], &id[8..12], &id[13..16], &id[17..20], &id[20..]);
        let body = format!(
            r#"{{"transferId": "{id}", "externalReference": "start", "action": "recordFundsIn",
                "reason": "start", "amount": {{"amount": "5000", "currency": "{currency}"}}}}"#
        );
        self.post(&of(&format!("/accounts/{}", account.id)), &body, 202)?;
        let Some(base) = base else { return Ok(()) };
        for (kind, path) in defaults::endpoints() {
            let kind = format!("FSPIOP_CALLBACK_URL_{kind}");
            let body = format!(r#"{{"type": "{kind}", "value": "{base}{path}"}}"#);
            self.post(&of("/endpoints"), &body, 201)?;
        }
        Ok(())
    }

    fn post(&mut self, path: &str, body: &str, status: u16) -> Result<(), String> {
        let answer = self.call("POST", path, body).map_err(|error| error.to_string())?;
        match answer.status == status {
            true => Ok(()),
            false => {
                let text = String::from_utf8_lossy(&answer.body);
                Err(format!("POST {path}: {} {text}", answer.status))
            }
        }
    }
}

/// The settings with `{signing-key.rsa}` as the path of a file that holds that key.
fn with_signing_key(settings: &[String], data: &Path) -> io::Result<Vec<String>> {
    let mut filled = Vec::new();
    for setting in settings {
        let named = setting.split_once("{signing-key.").and_then(|(_, rest)| rest.split_once('}'));
        let Some((name, _)) = named else {
            filled.push(setting.clone());
            continue;
        };
        let path = data.join("hub.pem");
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(keys::pem(name, "private").map_err(io::Error::other)?.as_bytes())?;
        let path = path.display().to_string();
        filled.push(setting.replace(&format!("{{signing-key.{name}}}"), &path));
    }
    Ok(filled)
}

/// The configuration file: one table for each section.
fn tables(settings: &[String]) -> String {
    let mut settings: Vec<_> = settings.iter().filter_map(|line| line.split_once('.')).collect();
    settings.sort_unstable();
    let (mut text, mut current) = (String::new(), "");
    for (section, setting) in settings {
        if section != current {
            text += &format!("[{section}]\n");
            current = section;
        }
        text += &format!("{setting}\n");
    }
    text
}

fn read_token(path: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    Ok(text.trim().to_owned())
}

fn resolve(url: &str) -> Result<SocketAddr, Failure> {
    let authority = url.trim_start_matches("http://").trim_end_matches('/');
    let mut found = authority.to_socket_addrs().into_iter().flatten();
    found.next().ok_or_else(|| Failure::new(format!("{url}: http://host:port is meant")))
}

fn admin_api_error(address: SocketAddr, error: &io::Error) -> Failure {
    Failure::new(format!("the admin API on {address} does not answer: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_tables() {
        let settings = ["b.x = 1", "a.y = true", "b.a = 2"].map(str::to_owned);
        assert_eq!(tables(&settings), "[a]\ny = true\n[b]\na = 2\nx = 1\n");
    }
}
