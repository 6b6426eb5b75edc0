//! The switch as a child process: start, health check, stop, and verification of its log.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tls::ClientTls;

use crate::admin::Admin;
use crate::error::HarnessError;
use crate::footprint::Footprint;
use crate::interrupt::Interrupt;
use crate::proc_stats::{ProcessFigures, process_figures};

const HEALTHY_WITHIN: Duration = Duration::from_secs(30);
/// Lowest assumed rate at which a start reads its directory, in bytes per second.
const READ_BYTES_PER_S: u64 = 20_000_000;
const STOPPED_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
const LOG_TAIL_BYTES: usize = 2_000;
/// Last lines of a switch's output that are shown.
const LAST_LINES: usize = 3;
const CONFIGURATION: &str = "switch.toml";
/// Environment variable with the source of the master key.
const ENCRYPTION_KEY: &str = "UPESI_ENCRYPTION_KEY";

/// The command lines that start the switch and verify its log.
///
/// In the arguments, `{data}` is replaced by the data directory, `{fspiop}` and `{admin}` by the
/// addresses (`127.0.0.1:PORT`), `{fspiop_port}` and `{admin_port}` by their ports.
#[derive(Clone, Debug)]
pub struct SwitchCommand {
    /// The binary.
    pub program: PathBuf,
    /// Arguments that make it serve.
    pub serve: Vec<OsString>,
    /// Arguments that make it verify its log and print JSON with a member `ok`.
    pub verify: Vec<OsString>,
    /// The durability of a 202 response, for the report.
    pub durability: String,
    /// Whether its log is a topic whose replication is not known here.
    pub is_on_topic: bool,
    /// Whether payees that fulfil with COMMITTED get a confirmation.
    pub confirm_to_payee: bool,
    /// File with the bearer token of the admin API, in the data directory.
    pub token_file: PathBuf,
    /// The trusted authorities of the admin API, if it is called over TLS.
    pub admin_tls: Option<Arc<ClientTls>>,
    /// Source of the master key, if the data directory is encrypted.
    pub encryption_key: Option<String>,
    /// Text of a configuration file, written into the data directory; `{config}` in the
    /// arguments is replaced by its path.
    pub configuration: Option<String>,
}

/// Whether the hub notifies payees that fulfil with COMMITTED of the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirm {
    /// They do.
    On,
    /// They do not, as with the reference hub.
    Off,
}

/// A running switch; it is killed when this is dropped.
pub struct SwitchProcess {
    child: Child,
    pub fspiop: SocketAddr,
    pub admin: SocketAddr,
    admin_tls: Option<Arc<ClientTls>>,
    log: PathBuf,
    token: PathBuf,
    started: Instant,
    /// Longest time until it is healthy.
    within: Duration,
    /// Time from the start of the process until it was healthy.
    pub ready_after: Duration,
}

/// The path of this process's program.
pub fn own_program() -> Result<PathBuf, HarnessError> {
    std::env::current_exe().map_err(HarnessError::file(Path::new("this program's own file")))
}

/// Runs a command of a program, which may show progress, and parses the JSON that it prints.
pub fn run_json_command<T: DeserializeOwned>(
    program: &Path,
    what: &str,
    arguments: &[&OsStr],
) -> Result<T, HarnessError> {
    let output = Command::new(program)
        .args(what.split(' '))
        .arg("--json")
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(HarnessError::file(program))?;
    // A line about a replay may precede the JSON.
    let start = output.stdout.iter().position(|byte| *byte == b'{').unwrap_or_default();
    let read = serde_json::from_slice(&output.stdout[start..]).ok();
    read.filter(|_| output.status.success())
        .ok_or_else(|| HarnessError::Hub(format!("failed: {what}: {}", output.status)))
}

/// The error of a switch that could not be started. A missing program is reported with the command
/// that builds it.
fn not_started(program: &Path, error: io::Error) -> HarnessError {
    if error.kind() != io::ErrorKind::NotFound {
        return HarnessError::file(program)(error);
    }
    HarnessError::Switch(format!(
        "{} does not exist: build it with the profile of this program (`cargo build --profile dist \
         --package upesi --package upesi-bench`), or name another one with --program",
        program.display()
    ))
}

/// The output of `verify`.
#[derive(Debug, Deserialize)]
pub struct Verified {
    ok: bool,
    /// Number of records in the log, which is also the last log index.
    #[serde(default)]
    pub records: u64,
}

/// The output of `replay`.
#[derive(Debug, Deserialize)]
struct Replayed {
    state_hash: String,
}

impl SwitchCommand {
    /// The program `upesi` in the directory of this process's own program.
    pub fn sibling_program() -> Result<PathBuf, HarnessError> {
        Ok(own_program()?.with_file_name("upesi"))
    }

    /// The standard arguments of `program`: `serve --data {data} --fspiop {fspiop} --admin {admin}`
    /// and `verify --data {data} --json`, with sync before 202 and confirmations to payees.
    #[must_use]
    pub fn standard(program: impl Into<PathBuf>) -> Self {
        let arguments = |text: &str| text.split(' ').map(OsString::from).collect();
        Self {
            program: program.into(),
            serve: arguments("serve --data {data} --fspiop {fspiop} --admin {admin}"),
            verify: arguments("verify --data {data} --json"),
            durability: "fsync before 202".to_owned(),
            is_on_topic: false,
            confirm_to_payee: true,
            token_file: PathBuf::from("admin-token"),
            admin_tls: None,
            encryption_key: None,
            configuration: None,
        }
    }

    /// Sets whether payees that fulfil with COMMITTED get a confirmation.
    #[must_use]
    pub fn confirming(mut self, confirm: Confirm) -> Self {
        self.confirm_to_payee = confirm == Confirm::On;
        if self.confirm_to_payee {
            return self;
        }
        self.configured("[transfers]\nconfirm_to_payee = false\n")
    }

    /// Accepts bulks of up to this many items. Comes after [`Self::confirming`].
    #[must_use]
    pub fn with_bulk_items(self, items_max: u16) -> Self {
        let header = if self.confirm_to_payee { "[transfers]\n" } else { "" };
        self.configured(&format!("{header}bulk_items_max = {items_max}\n"))
    }

    /// Adds text to the configuration file.
    pub fn configured(mut self, text: &str) -> Self {
        if self.configuration.is_none() {
            self.serve.extend(["--config", "{config}"].map(OsString::from));
        }
        self.configuration.get_or_insert_default().push_str(text);
        self
    }

    /// The same program as a forward-only switch, which neither records nor decides transfers.
    #[must_use]
    pub fn forward_only(&self) -> Self {
        let mut command = self.clone();
        let serve = command.serve.iter_mut().find(|argument| *argument == "serve");
        serve.into_iter().for_each(|argument| *argument = "null-switch".into());
        command
    }

    /// The version and build profile that the program prints.
    pub fn version(&self) -> Option<String> {
        let output = Command::new(&self.program).arg("--version").output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Verifies the log in `data`. The error is the problem that `verify` found.
    pub fn verify(&self, data: &Path) -> Result<Verified, String> {
        let placeholders = Placeholders { data, fspiop: None, admin: None };
        let mut command = self.with_key();
        command.args(self.verify.iter().map(|argument| placeholders.fill(argument)));
        let output = command.output().map_err(|error| format!("verify: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        match serde_json::from_str::<Verified>(&text) {
            Ok(verified) if verified.ok && output.status.success() => Ok(verified),
            _ => {
                let errors = String::from_utf8_lossy(&output.stderr);
                Err(format!("verify: {} {} {}", output.status, text.trim(), errors.trim()))
            }
        }
    }

    /// The program, with the source of the master key in its environment.
    fn with_key(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.envs(self.encryption_key.iter().map(|source| (ENCRYPTION_KEY, source)));
        command
    }

    /// The state hash of the log in `data` at this log index.
    pub fn state_at(&self, data: &Path, log_index: u64) -> Result<String, String> {
        let mut command = self.with_key();
        command.arg("replay").arg("--data").arg(data);
        command.args(["--until", &log_index.to_string(), "--json"]);
        let output = command.output().map_err(|error| format!("replay: {error}"))?;
        match serde_json::from_slice::<Replayed>(&output.stdout) {
            Ok(replayed) if output.status.success() => Ok(replayed.state_hash),
            _ => {
                let errors = String::from_utf8_lossy(&output.stderr);
                Err(format!("replay: {} {}", output.status, errors.trim()))
            }
        }
    }
}

impl SwitchProcess {
    /// Starts the switch on two free ports and waits until it is healthy. If another program takes
    /// one of them first, it tries two others.
    pub fn start(command: &SwitchCommand, data: &Path) -> Result<Self, HarnessError> {
        for _ in 1..STARTS_MAX {
            match Self::start_once(command, data) {
                Err(HarnessError::Switch(problem)) if problem.contains(PORT_TAKEN) => {}
                other => return other,
            }
        }
        Self::start_once(command, data)
    }

    fn start_once(command: &SwitchCommand, data: &Path) -> Result<Self, HarnessError> {
        let addresses = free_addresses().map_err(HarnessError::file("127.0.0.1"))?;
        let mut switch = Self::begin(command, data, addresses)?;
        while !switch.is_healthy()? {
            // Reading a long log at the start takes minutes.
            if Interrupt::seen_by_any_listener() {
                return Err(HarnessError::Interrupted);
            }
            std::thread::sleep(POLL);
        }
        Ok(switch)
    }

    /// Starts the switch on these addresses, for FSPIOP and admin. Its output goes
    /// to `switch.log` in the data directory.
    pub fn begin(
        command: &SwitchCommand,
        data: &Path,
        [fspiop, admin]: [SocketAddr; 2],
    ) -> Result<Self, HarnessError> {
        let mut directory = DirBuilder::new();
        let made = directory.recursive(true).mode(0o700).create(data);
        made.map_err(HarnessError::file(data))?;
        let log = data.join("switch.log");
        let output = File::create(&log).map_err(HarnessError::file(&log))?;
        let errors = output.try_clone().map_err(HarnessError::file(&log))?;
        if let Some(text) = &command.configuration {
            let path = data.join(CONFIGURATION);
            std::fs::write(&path, text).map_err(HarnessError::file(&path))?;
        }
        let placeholders = Placeholders { data, fspiop: Some(fspiop), admin: Some(admin) };
        let stored = Footprint::of(data).total();
        let started = Instant::now();
        let child = command
            .with_key()
            .args(command.serve.iter().map(|argument| placeholders.fill(argument)))
            .stdin(Stdio::null())
            // An interrupt from the keyboard must reach only the run, which then stops the switch.
            .process_group(0)
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|error| not_started(&command.program, error))?;
        let token = data.join(&command.token_file);
        let ready_after = Duration::ZERO;
        let within = HEALTHY_WITHIN + Duration::from_secs(stored / READ_BYTES_PER_S);
        let admin_tls = command.admin_tls.clone();
        Ok(Self { child, fspiop, admin, admin_tls, log, token, started, within, ready_after })
    }

    /// A client of its admin API, with the token that it has written.
    pub fn admin(&self) -> Result<Admin, HarnessError> {
        let token = read_token(&self.token)?;
        Ok(self.admin_with(Some(token)))
    }

    fn admin_with(&self, token: Option<String>) -> Admin {
        let admin = Admin::new(self.admin, token);
        match &self.admin_tls {
            Some(tls) => admin.over_tls(Arc::clone(tls)),
            None => admin,
        }
    }

    /// The file with its bearer token.
    pub fn token_file(&self) -> &Path {
        &self.token
    }

    /// Its process id.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// CPU time and memory so far.
    pub fn figures(&self) -> ProcessFigures {
        process_figures(self.child.id())
    }

    /// Fails if the switch has exited.
    pub fn check_alive(&mut self) -> Result<(), HarnessError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.ended(status)),
            Err(error) => Err(HarnessError::Switch(format!("cannot be watched: {error}"))),
        }
    }

    /// Stops the switch and waits for its end.
    pub fn stop(mut self) -> Result<(), HarnessError> {
        self.check_alive()?;
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let id = id.ok_or_else(|| HarnessError::Switch("has no process id".to_owned()))?;
        kill_process(id, Signal::TERM)
            .map_err(|error| HarnessError::Switch(format!("cannot be stopped: {error}")))?;
        let deadline = Instant::now() + STOPPED_WITHIN;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(self.ended(status)),
                _ => std::thread::sleep(POLL),
            }
        }
        Err(HarnessError::Switch(format!("does not stop within {STOPPED_WITHIN:?}")))
    }

    /// Returns whether it is healthy. Fails if it has exited, or takes too long.
    pub fn is_healthy(&mut self) -> Result<bool, HarnessError> {
        self.check_alive()?;
        // With roles, the health of a switch is shown to operators only.
        let token = self.admin_tls.as_ref().and_then(|_| read_token(&self.token).ok());
        if self.admin_with(token).healthy() {
            self.ready_after = self.started.elapsed();
            return Ok(true);
        }
        if self.started.elapsed() < self.within {
            return Ok(false);
        }
        Err(HarnessError::Switch(format!("is not healthy within {:?}", self.within)))
    }

    /// Sends a signal. A process that has exited is ignored.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _gone = id.map(|id| kill_process(id, signal));
    }

    fn ended(&self, status: ExitStatus) -> HarnessError {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let tail = String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL_BYTES)..]);
        let words = tail.lines().map(str::trim);
        let is_shown = |line: &&str| !line.is_empty() && !line.contains("ready; FSPIOP on");
        let lines: Vec<&str> = words.filter(is_shown).collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        let colon = if last.is_empty() { "" } else { ": " };
        HarnessError::Switch(format!("ended with {status}{colon}{}", last.join("; ")))
    }
}

impl Drop for SwitchProcess {
    fn drop(&mut self) {
        // Both fail only if it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a bearer token, which is a single word.
pub fn read_token(path: &Path) -> Result<String, HarnessError> {
    let text = std::fs::read_to_string(path).map_err(HarnessError::file(path))?;
    checked_token(&path.display().to_string(), &text)
}

/// A token from a file or a variable, without white space around it.
pub(crate) fn checked_token(source: &str, text: &str) -> Result<String, HarnessError> {
    let token = text.trim();
    match !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(token.to_owned()),
        false => Err(HarnessError::Options(format!(
            "{source}: not a bearer token; a switch writes its token to admin-token in its data \
             directory"
        ))),
    }
}

struct Placeholders<'a> {
    data: &'a Path,
    fspiop: Option<SocketAddr>,
    admin: Option<SocketAddr>,
}

impl Placeholders<'_> {
    fn fill(&self, argument: &OsStr) -> OsString {
        if argument == "{config}" {
            return self.data.join(CONFIGURATION).into_os_string();
        }
        if argument == "{data}" {
            return self.data.as_os_str().to_owned();
        }
        let Some(text) = argument.to_str() else { return argument.to_owned() };
        let address =
            |address: Option<SocketAddr>| address.map_or(String::new(), |it| it.to_string());
        let port = |address: Option<SocketAddr>| address.map_or(0, |it| it.port()).to_string();
        text.replace("{data}", &self.data.to_string_lossy())
            .replace("{fspiop}", &address(self.fspiop))
            .replace("{admin}", &address(self.admin))
            .replace("{fspiop_port}", &port(self.fspiop))
            .replace("{admin_port}", &port(self.admin))
            .into()
    }
}

/// The system's message for a port in use, which listening programs print. Without its first
/// letter, whose case varies.
const PORT_TAKEN: &str = "ddress already in use";
/// Attempts to start a switch on free ports.
const STARTS_MAX: u32 = 5;

/// Two addresses that were free a moment ago.
pub fn free_addresses() -> io::Result<[SocketAddr; 2]> {
    let listeners = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    Ok([listeners[0].local_addr()?, listeners[1].local_addr()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_in_arguments_are_replaced() {
        let placeholders = Placeholders {
            data: Path::new("/data/x"),
            fspiop: Some(SocketAddr::from(([127, 0, 0, 1], 40))),
            admin: Some(SocketAddr::from(([127, 0, 0, 1], 41))),
        };
        for (argument, filled) in [
            ("{data}", "/data/x"),
            ("--data={data}", "--data=/data/x"),
            ("{fspiop}", "127.0.0.1:40"),
            ("--admin-port={admin_port}", "--admin-port=41"),
            ("--json", "--json"),
        ] {
            assert_eq!(placeholders.fill(OsStr::new(argument)), OsString::from(filled));
        }
    }

    #[test]
    fn token_is_one_word() {
        let path = std::env::temp_dir().join(format!("upesi-token-{}", std::process::id()));
        for (content, token) in [("abc\n", Some("abc")), ("a b", None), ("\n", None), ("ä", None)]
        {
            std::fs::write(&path, content).expect("written");
            let read = read_token(&path);
            assert_eq!(read.as_deref().ok(), token, "{content:?}");
            let names = |error: HarnessError| error.to_string().contains("not a bearer token");
            assert!(read.map_or_else(names, |_| true), "{content:?}");
        }
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn verification_requires_ok_and_exit_code_zero() {
        for (script, good) in [
            (r#"echo '{"ok":true,"records":3}'"#, true),
            (r#"echo '{"ok":false}'"#, false),
            (r#"echo '{"ok":true}'; exit 1"#, false),
            ("echo nothing", false),
        ] {
            let mut command = SwitchCommand::standard("/bin/sh");
            command.verify = vec!["-c".into(), script.into()];
            assert_eq!(command.verify(Path::new("/")).is_ok(), good, "{script}");
        }
    }

    #[test]
    fn early_exit_is_reported_with_the_last_lines_of_output() {
        let data = std::env::temp_dir().join(format!("harness-child-{}", std::process::id()));
        let mut command = SwitchCommand::standard("/bin/sh");
        command.serve = vec!["-c".into(), "echo no configuration >&2; exit 3".into()];
        let Err(HarnessError::Switch(problem)) = SwitchProcess::start(&command, &data) else {
            panic!("unexpectedly healthy");
        };
        assert!(problem.contains("no configuration") && problem.contains('3'), "{problem}");
        std::fs::remove_dir_all(&data).expect("removed");
    }

    #[test]
    fn start_is_retried_when_a_port_is_taken() {
        let data = std::env::temp_dir().join(format!("harness-ports-{}", std::process::id()));
        let tries = data.join("tries");
        let script = "echo 'cannot listen: Address already in use (os error 98)' >&2; exit 1";
        let mut command = SwitchCommand::standard("/bin/sh");
        command.serve = vec!["-c".into(), format!("echo >> {}; {script}", tries.display()).into()];
        let Err(HarnessError::Switch(last)) = SwitchProcess::start(&command, &data) else {
            panic!("unexpectedly healthy");
        };
        assert!(last.contains(PORT_TAKEN), "{last}");
        let tries = std::fs::read_to_string(&tries).expect("written");
        assert_eq!(tries.lines().count(), STARTS_MAX as usize);
        std::fs::remove_dir_all(&data).expect("removed");
    }
}
