//! A real Prometheus and Alertmanager: those of the machine, or Debian's packages, installed once.

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::{env, fs};

use serde_json::Value;
use tempfile::TempDir;
use testkit::http::{Client, Headers, PATIENCE, Request};

/// Debian's packages.
const PACKAGES: [&str; 2] = ["prometheus", "prometheus-alertmanager"];

/// Only one test installs the packages.
static INSTALLING: Mutex<()> = Mutex::new(());

/// Prometheus or Alertmanager, on a free port. It is killed when this is dropped.
pub(crate) struct Monitor {
    child: Child,
    pub(crate) address: SocketAddr,
    client: RefCell<Client>,
    _directory: TempDir,
}

impl Monitor {
    /// Prometheus with this configuration. It keeps exemplars; `features` are further ones.
    pub(crate) fn prometheus(configuration: &str, features: &str) -> Self {
        let mut command = program("prometheus");
        command.arg(format!("--enable-feature=exemplar-storage{features}"));
        Self::start(command, "--storage.tsdb.path", configuration)
    }

    /// Alertmanager with this configuration, alone.
    pub(crate) fn alertmanager(configuration: &str) -> Self {
        let mut command = program("prometheus-alertmanager");
        command.arg("--cluster.listen-address=");
        Self::start(command, "--storage.path", configuration)
    }

    fn start(mut command: Command, storage: &str, configuration: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("configuration.yaml");
        fs::write(&file, configuration).unwrap();
        command.arg("--web.listen-address=127.0.0.1:0").arg("--config.file").arg(file);
        command.arg(storage).arg(directory.path().join("data"));
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut messages = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut printed = String::new();
        let address = loop {
            let line = messages.next().unwrap_or_else(|| panic!("it ended: {printed}")).unwrap();
            if let Some((_, address)) = line.split_once("msg=\"Listening on\" address=") {
                break address.parse().unwrap();
            }
            printed += &format!("{line}\n");
        };
        // A full pipe would block the program.
        std::thread::spawn(move || messages.for_each(drop));
        let client = RefCell::new(Client::new(address, PATIENCE));
        Self { child, address, client, _directory: directory }
    }

    /// `data` of an answer of the API. `form` are the parameters.
    #[track_caller]
    pub(crate) fn ask(&self, path: &str, form: &[(&str, &str)]) -> Value {
        self.try_ask(path, form).unwrap_or_else(|error| panic!("{form:?}: {error}"))
    }

    /// The same, or the whole answer if it is an error.
    fn try_ask(&self, path: &str, form: &[(&str, &str)]) -> Result<Value, Value> {
        let form: Vec<_> =
            form.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let kind = ("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned());
        let method = if form.is_empty() { "GET" } else { "POST" }.to_owned();
        let (path, body) = (format!("/api/v1/{path}"), form.join("&").into_bytes());
        let request = Request { method, path, headers: Headers(vec![kind]), body };
        let answer = self.client.borrow_mut().call(&request).unwrap();
        let mut value: Value = serde_json::from_str(&answer.text()).unwrap();
        if value["status"] == "success" { Ok(value["data"].take()) } else { Err(value) }
    }

    /// The series that a query finds now.
    #[track_caller]
    pub(crate) fn query(&self, expression: &str) -> Vec<Value> {
        self.try_query(expression).unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// The same, or the answer to an expression that is not one of PromQL.
    pub(crate) fn try_query(&self, expression: &str) -> Result<Vec<Value>, Value> {
        let mut data = self.try_ask("query", &[("query", expression)])?;
        match data["result"].take() {
            Value::Array(found) if data["resultType"] == "vector" => Ok(found),
            other => Err(other),
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// Percent-encoded.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

/// A program of the packages, which are installed if the machine lacks it.
pub(crate) fn program(name: &str) -> Command {
    let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_installed(name) {
        let missing = format!("no {name}; as root: apt-get install {}", PACKAGES.join(" "));
        assert!(install() && is_installed(name), "{missing}");
    }
    Command::new(name)
}

fn is_installed(name: &str) -> bool {
    let directories = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&directories).any(|directory| directory.join(name).is_file())
}

/// Installs the packages as root, or with sudo when it asks for no password. Alertmanager reads
/// templates from a fixed path, so that it is not enough to unpack them.
fn install() -> bool {
    let install = format!(
        "as_root=; [ \"$(id -u)\" = 0 ] || as_root='sudo -n'; $as_root apt-get update -q; \
         $as_root env DEBIAN_FRONTEND=noninteractive \
         apt-get install -q -y --no-install-recommends {}",
        PACKAGES.join(" ")
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &install]).stdin(Stdio::null()).stdout(Stdio::null());
    shell.status().is_ok_and(|status| status.success())
}
