//! Real servers: Node.js with packages from npm, installed once. Here a webhook receiver and a mail
//! server.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::http::PATIENCE;

/// A secret after the specification of Standard Webhooks.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Directories with sources of programs of Node.js.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");

/// Received messages that a test has not read; with more, the receivers wait.
const LINES_MAX: usize = 1_000;

/// Only one test installs the packages.
static INSTALLING: Mutex<()> = Mutex::new(());

/// The running receivers. They end when this is dropped.
pub(crate) struct Receivers {
    child: Child,
    lines: Receiver<Value>,
    early: VecDeque<Value>,
    pub(crate) webhook: u16,
    pub(crate) smtp: u16,
}

impl Receivers {
    /// Starts the receivers with additional options.
    pub(crate) fn start(more: &Value) -> Self {
        let mut options = json!({ "webhookPort": 0, "secret": SECRET });
        for (name, value) in more.as_object().unwrap() {
            options[name] = value.clone();
        }
        let mut child = Command::new("node")
            .arg(installed().join("receivers.mjs"))
            .arg(options.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = sync_channel(LINES_MAX);
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines() {
                // The test may have ended.
                let _sent = sender.send(serde_json::from_str(&line.unwrap()).unwrap());
            }
        });
        let mut receivers = Self { child, lines, early: VecDeque::new(), webhook: 0, smtp: 0 };
        let ready = receivers.next("ready");
        let port = |name: &str| ready[name].as_u64().unwrap().try_into().unwrap();
        (receivers.webhook, receivers.smtp) = (port("webhook"), port("smtp"));
        receivers
    }

    /// The status of all later webhooks.
    pub(crate) fn answer(&mut self, status: u16) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{status}").unwrap();
    }

    /// The next webhook, whose signature must be valid.
    #[track_caller]
    pub(crate) fn webhook(&mut self) -> Value {
        let webhook = self.next("webhook");
        assert_eq!(webhook["error"], Value::Null, "{webhook}");
        webhook
    }

    /// The next e-mails, sorted by their recipients.
    #[track_caller]
    pub(crate) fn mails(&mut self, count: usize) -> Vec<Value> {
        let mut mails: Vec<_> = (0..count).map(|_| self.next("mail")).collect();
        mails.sort_by_key(|mail| mail["to"].to_string());
        mails
    }

    /// Asserts that nothing more has been received.
    #[track_caller]
    pub(crate) fn received_nothing_more(&mut self) {
        self.early.extend(self.lines.try_iter());
        assert_eq!(self.early, [] as [Value; 0]);
    }

    #[track_caller]
    fn next(&mut self, kind: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.early.iter().position(|it| it.get(kind).is_some()) {
                return self.early.remove(at).unwrap()[kind].take();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left.max(Duration::from_millis(1)));
            self.early.push_back(line.unwrap_or_else(|_| panic!("no {kind}: {:?}", self.early)));
        }
    }
}

impl Drop for Receivers {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// The directory with the packages and the programs of the receivers.
pub(crate) fn installed() -> PathBuf {
    install("receivers", &["receivers.mjs", "provider.mjs"])
}

/// Installs the packages of a directory of sources once, and copies its programs.
pub(crate) fn install(name: &str, programs: &[&str]) -> PathBuf {
    let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let source = |file: &str| fs::read_to_string(format!("{SOURCES}/{name}/{file}")).unwrap();
    let (package, marker) = (source("package.json"), directory.join("installed"));
    if fs::read_to_string(&marker).ok().as_ref() != Some(&package) {
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("package.json"), &package).unwrap();
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--silent", "--ignore-scripts"]);
        assert!(
            npm.current_dir(&directory).status().unwrap().success(),
            "npm install in {}",
            directory.display()
        );
        fs::write(marker, package).unwrap();
    }
    for program in programs {
        fs::write(directory.join(program), source(program)).unwrap();
    }
    directory
}
