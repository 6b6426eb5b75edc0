//! A real Prometheus and Alertmanager: those of the machine, or Debian's packages, fetched once and
//! unpacked without an installation.

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::{env, fs};

use serde_json::Value;
use tempfile::TempDir;
use testkit::http::{Client, Headers, PATIENCE, Request};

/// Debian's packages, and their programs that the tests run.
const PACKAGES: [&str; 2] = ["prometheus", "prometheus-alertmanager"];

/// Only one test fetches the packages.
static FETCHING: Mutex<()> = Mutex::new(());

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

/// A program of the packages.
pub(crate) fn program(name: &str) -> Command {
    Command::new(found(name).unwrap_or_else(|| fetched(name)))
}

/// The program of the machine.
fn found(name: &str) -> Option<PathBuf> {
    let directories = env::split_paths(&env::var_os("PATH")?).collect::<Vec<_>>();
    directories.into_iter().map(|directory| directory.join(name)).find(|path| path.is_file())
}

/// The program of the fetched packages.
fn fetched(name: &str) -> PathBuf {
    let _alone = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("monitoring");
    let program = directory.join("usr/bin").join(name);
    if !program.is_file() {
        fs::create_dir_all(&directory).unwrap();
        fetch_into(&directory);
    }
    program
}

fn fetch_into(directory: &Path) {
    let succeeds = |command: &mut Command| command.status().is_ok_and(|it| it.success());
    let mut download = Command::new("apt-get");
    download.args(["download", "--quiet"]).args(PACKAGES).current_dir(directory);
    if !succeeds(&mut download) {
        // The lists of packages may be missing or old.
        let update = "[ $(id -u) = 0 ] && apt-get update -q || sudo -n apt-get update -q";
        assert!(succeeds(Command::new("sh").args(["-c", update])), "install {PACKAGES:?}");
        assert!(succeeds(&mut download), "install {PACKAGES:?}");
    }
    for package in fs::read_dir(directory).unwrap() {
        let package = package.unwrap().path();
        if package.extension().is_some_and(|it| it == "deb") {
            let mut unpack = Command::new("dpkg-deb");
            assert!(succeeds(unpack.arg("--extract").arg(&package).arg(directory)));
            fs::remove_file(package).unwrap();
        }
    }
}
