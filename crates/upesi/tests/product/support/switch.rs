//! The real binary as a child process, with a separate directory.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use journal::RealDisk;
use ledger::Command::Prepare;
use record::command::read_fields;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::http::PATIENCE;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_upesi");
/// The measurement program, which is built next to the switch.
const LABORATORY: &str = "upesi-bench";
/// Two threads, so that a message is received by one and sent by the other, or by the helper thread,
/// which makes half of all calls. Final transfers are evicted immediately, so that resends and late
/// responses use the cold store.
const CONFIGURATION: &str = "[store]\nkeep_ended_seconds = 0\n[fspiop]\nthreads = 2\n\
                             helper_threads = 1\nbusy_percent = 0\n";
/// Polling interval of a process that is expected to exit.
const GLANCE: Duration = Duration::from_millis(5);

/// A command of the measurement program.
pub(crate) fn laboratory() -> Command {
    let program = Path::new(PROGRAM).with_file_name(LABORATORY);
    assert!(program.exists(), "missing: build it with `cargo build --package {LABORATORY}`");
    Command::new(program)
}

/// The program that provides a command.
pub(crate) fn program_of(command: &str) -> Command {
    match command {
        "preload" => laboratory(),
        _ => Command::new(PROGRAM),
    }
}

/// A data directory, with a configuration file next to it.
pub(crate) struct Home {
    directory: TempDir,
    /// Additional arguments of `serve`.
    more: Vec<String>,
}

/// A running switch. It is killed when this is dropped.
pub(crate) struct Switch {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr_file: PathBuf,
    pub(crate) fspiop: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// Its output before it was ready.
    pub(crate) greeting: String,
}

/// Addresses of a switch.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) fspiop: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Ports {
    pub(crate) fn free() -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self { fspiop: any, admin: any }
    }
}

impl Home {
    pub(crate) fn new() -> Self {
        Self::configured("")
    }

    /// With additional text in the configuration file.
    pub(crate) fn configured(more: &str) -> Self {
        Self::with(&format!("{CONFIGURATION}{more}"))
    }

    /// With this configuration file, without the tests' defaults.
    pub(crate) fn with(configuration: &str) -> Self {
        let home = Self { directory: tempfile::tempdir().unwrap(), more: Vec::new() };
        fs::write(home.configuration(), configuration).unwrap();
        home
    }

    /// With additional arguments of `serve`.
    pub(crate) fn with_arguments(mut self, arguments: &[&str]) -> Self {
        self.more.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// With a stage that will be stalled.
    pub(crate) fn with_stalled_stage(self, stage: &'static str) -> Self {
        self.with_arguments(&["--inject-stuck", stage])
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn configuration(&self) -> PathBuf {
        self.directory.path().join("upesi.toml")
    }

    pub(crate) fn token(&self) -> String {
        let token = fs::read_to_string(self.data().join("admin-token")).unwrap();
        token.trim_end().to_owned()
    }

    pub(crate) fn serve(&self) -> Switch {
        self.serve_on(Ports::free())
    }

    /// Starts the switch and waits until it reports that it is ready.
    pub(crate) fn serve_on(&self, ports: Ports) -> Switch {
        self.started(self.command(ports))
    }

    /// Runs a command that starts a switch, and waits until it is ready.
    pub(crate) fn started(&self, command: Command) -> Switch {
        let mut switch = self.spawned(command);
        let ready = switch.is_ready();
        assert!(ready, "it ended: {}{}", switch.greeting, switch.complaints());
        switch
    }

    /// Starts the switch without waiting for it.
    pub(crate) fn starting(&self) -> Switch {
        self.spawned(self.command(Ports::free()))
    }

    fn spawned(&self, mut command: Command) -> Switch {
        let stderr_file = self.directory.path().join("stderr");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&stderr_file).unwrap());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let Ports { fspiop, admin } = Ports::free();
        Switch { child, stdout, stderr_file, fspiop, admin, greeting: String::new() }
    }

    /// Starts a switch that exits at the given number of disk operations. Returns the running
    /// switch, or its exit status if it ended before it was ready.
    pub(crate) fn serve_until(&self, ports: Ports, operations: u64) -> Result<Switch, ExitStatus> {
        let mut command = self.command(ports);
        command.arg("--inject-exit-after-disk-operations").arg(operations.to_string());
        let mut switch = self.spawned(command);
        match switch.is_ready() {
            true => Ok(switch),
            false => Err(switch.end().0),
        }
    }

    /// Starts a switch that may refuse to start. Returns the reason.
    pub(crate) fn serve_or_not(&self) -> Result<Switch, String> {
        let mut switch = self.spawned(self.command(Ports::free()));
        match switch.is_ready() {
            true => Ok(switch),
            false => Err(switch.end().1),
        }
    }

    /// Starts a switch that must refuse to start.
    pub(crate) fn serve_in_vain(&self, ports: Ports) -> Output {
        finish(self.command(ports))
    }

    pub(crate) fn verify(&self) -> Output {
        self.offline(&["verify", "--json"])
    }

    /// Runs a command on the data directory.
    pub(crate) fn offline(&self, arguments: &[&str]) -> Output {
        let mut command = program_of(arguments[0]);
        command.args(arguments).arg("--data").arg(self.data());
        finish(command)
    }

    pub(crate) fn command(&self, ports: Ports) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg("--data").arg(self.data());
        command.arg("--config").arg(self.configuration());
        command.arg("--fspiop").arg(ports.fspiop.to_string());
        command.arg("--admin").arg(ports.admin.to_string());
        command.args(&self.more);
        command
    }
}

impl Switch {
    pub(crate) fn ports(&self) -> Ports {
        Ports { fspiop: self.fspiop, admin: self.admin }
    }

    /// Waits until it is ready; false if it exited before.
    pub(crate) fn is_ready(&mut self) -> bool {
        loop {
            let mut line = String::new();
            if self.stdout.read_line(&mut line).unwrap() == 0 {
                return false;
            }
            if let Some((fspiop, admin)) = testkit::addresses(&line) {
                (self.fspiop, self.admin) = (fspiop, admin);
                return true;
            }
            self.greeting += &line;
        }
    }

    /// The address of its health probes, as printed at the start.
    pub(crate) fn probes(&self) -> SocketAddr {
        let line = |line: &str| line.strip_prefix("upesi: health probes on http://")?.parse().ok();
        self.greeting.lines().find_map(line).expect("it has a listener for probes")
    }

    /// The next line of its output.
    pub(crate) fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("it has an id"), signal).unwrap();
    }

    /// Kills it with SIGKILL, and waits for its end.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        assert_eq!(self.complaints(), "", "nobody complained before the end");
    }

    #[cfg(feature = "counted-instructions")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops it. It must have reported only requests without a valid token.
    pub(crate) fn stop_after_refused_tokens(self, signal: Signal) {
        self.signal(signal);
        let (status, output_text) = self.end();
        assert!(status.success(), "{status}: {output_text}");
        let refused = |line: &str| line.contains("admin requests without a valid token");
        assert!(!output_text.is_empty() && output_text.lines().all(refused), "{output_text}");
    }

    /// Stops it. It must exit cleanly and without complaints.
    pub(crate) fn stop(self, signal: Signal) {
        self.signal(signal);
        let (status, output_text) = self.end();
        assert!(status.success(), "{status}: {output_text}");
        assert_eq!(output_text, "", "an orderly end is a silent one");
    }

    #[cfg(feature = "real-brokers")]
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end. Returns its standard error.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let mut rest = String::new();
                self.stdout.read_to_string(&mut rest).unwrap();
                return (status, self.complaints());
            }
            assert!(Instant::now() < deadline, "the switch does not end");
            std::thread::sleep(GLANCE);
        }
    }

    /// Waits until a text occurs `count` times in its standard error, since a thread of its own
    /// writes messages. Returns the standard error.
    #[track_caller]
    pub(crate) fn wait_for_messages(&self, text: &str, count: usize) -> String {
        self.wait_for(|| self.messages(), text, count)
    }

    /// Waits until one of its complaints contains a text. Returns the complaints.
    #[track_caller]
    pub(crate) fn wait_for_complaint(&self, text: &str) -> String {
        self.wait_for(|| self.complaints(), text, 1)
    }

    #[track_caller]
    fn wait_for(&self, read: impl Fn() -> String, text: &str, count: usize) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = read();
            if count <= found.matches(text).count() {
                return found;
            }
            assert!(Instant::now() < deadline, "{count} times {text:?}: {}", self.messages());
            std::thread::sleep(GLANCE);
        }
    }

    /// Its warnings and errors, without their times, and every line that is not a message.
    pub(crate) fn complaints(&self) -> String {
        let messages = self.messages();
        messages.lines().filter_map(complaint).flat_map(|line| [line, "\n"]).collect()
    }

    /// Its standard error.
    pub(crate) fn messages(&self) -> String {
        fs::read_to_string(&self.stderr_file).unwrap()
    }
}

/// A warning or an error without its time, or a line that is not a message.
fn complaint(line: &str) -> Option<&str> {
    // The disk of this machine is no fault of the switch, and tests may listen without protection.
    let usual = ["the disk of the log fills up", "are served without protection"];
    if usual.iter().any(|text| line.contains(text)) {
        return None;
    }
    let Some((time, message)) = line.split_once("Z ") else { return Some(line) };
    if !time.starts_with("20") {
        return Some(line);
    }
    let message = message.trim_start();
    let needs_nothing = ["INFO ", "DEBUG "].iter().any(|level| message.starts_with(level));
    (!needs_nothing).then_some(message)
}

impl Drop for Switch {
    fn drop(&mut self) {
        // It may have exited already.
        let _killed = self.child.kill();
        let _ended = self.child.wait();
        if std::thread::panicking() {
            let output_text = fs::read_to_string(&self.stderr_file).unwrap_or_default();
            eprintln!("standard error of the switch: {output_text}");
        }
    }
}

/// Quarantines the prepare of a transfer, which is in the log of `other`. Returns the record.
pub(crate) fn set_aside_in(home: &Home, other: &Home, transfer: &str) -> u64 {
    let mut found = None;
    let disk = RealDisk::open(&other.data()).unwrap();
    journal::walk(&disk, &mut |placed| {
        for record in placed.frame.records() {
            let command = read_fields(record.kind, record.version, record.fields).unwrap();
            if matches!(&command, Prepare(it) if it.id.to_string() == transfer) {
                found = Some((record.log_index.0, record.digest().to_string()));
            }
        }
        Ok(())
    })
    .unwrap();
    let (log_index, digest) = found.expect("the log holds the prepare");
    let (by, reason, time) = ("somebody", "here alone", "2026-01-01T00:00:00.000000Z");
    let entry = json!({
        "position": log_index, "digest": digest, "by": by, "reason": reason, "time": time
    });
    let sheet = json!({"version": 1, "records": [entry]});
    fs::write(home.data().join("quarantine.json"), sheet.to_string()).unwrap();
    log_index
}

/// All files of a directory and its subdirectories.
pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

/// Exit status and output of a command.
pub(crate) trait Printed: Sized {
    fn out(&self) -> String;
    fn err(&self) -> String;
    fn json(&self) -> Value;
    /// Asserts success.
    fn succeeds(self) -> Self;
    /// Asserts failure. Returns the standard error.
    fn fails(self) -> String;
}

impl Printed for Output {
    fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    #[track_caller]
    fn json(&self) -> Value {
        let text = self.out();
        serde_json::from_str(&text).unwrap_or_else(|it| panic!("{it}: {text} {}", self.err()))
    }

    #[track_caller]
    fn succeeds(self) -> Self {
        assert!(self.status.success(), "{}: {} {}", self.status, self.out(), self.err());
        self
    }

    #[track_caller]
    fn fails(self) -> String {
        assert!(!self.status.success(), "{} {}", self.out(), self.err());
        self.err()
    }
}

/// Runs a command that exits by itself.
pub(crate) fn finish(command: Command) -> Output {
    finish_within(command, PATIENCE)
}

/// Runs a command with a time limit. Its output fits a pipe.
pub(crate) fn finish_within(mut command: Command, within: Duration) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Read concurrently, since a full pipe would block the command.
    let (out, err) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let deadline = Instant::now() + within;
    let ended = |child: &mut Child| child.try_wait().unwrap();
    let status = loop {
        if let Some(status) = ended(&mut child) {
            break Some(status);
        }
        if deadline < Instant::now() {
            child.kill().unwrap();
            break None;
        }
        std::thread::sleep(GLANCE);
    };
    let [stdout, stderr] = [out, err].map(|reading| reading.join().unwrap());
    let Some(status) = status else {
        let output_text = String::from_utf8_lossy(&stderr);
        panic!("{command:?} does not end; it printed {} bytes and {output_text}", stdout.len());
    };
    Output { status, stdout, stderr }
}

/// The remaining output of a pipe.
fn drain(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    })
}
