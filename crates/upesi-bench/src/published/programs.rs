//! Child processes that print their addresses.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use harness::error::HarnessError;
use harness::proc_stats::{ProcessFigures, process_figures};

/// A running program. It is killed when this is dropped.
pub(super) struct Program {
    child: Child,
    /// Open, because the program may print more.
    stdout: BufReader<ChildStdout>,
    line: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only if it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    /// Starts a program and waits for its line with `ready`. Its errors go to a file.
    pub(super) fn start<A: AsRef<OsStr>>(
        program: &Path,
        arguments: &[A],
        errors: &Path,
    ) -> Result<Self, HarnessError> {
        let file = File::create(errors).map_err(HarnessError::file(errors))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            // An interrupt from the keyboard must reach only the run.
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .map_err(HarnessError::file(program))?;
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut started = Self { child, stdout, line: String::new() };
        while !started.line.contains("ready; ") {
            started.line.clear();
            let read = started.stdout.read_line(&mut started.line);
            if read.map_err(HarnessError::file(program))? == 0 {
                let why = std::fs::read_to_string(errors).unwrap_or_default();
                let what = arguments.first().map(|it| it.as_ref().to_string_lossy());
                return Err(HarnessError::Simulator {
                    fsp: what.unwrap_or_default().into_owned(),
                    problem: format!("ended: {}", why.trim()),
                });
            }
        }
        Ok(started)
    }

    /// The address after a label.
    pub(super) fn address(&self, label: &str) -> Result<SocketAddr, HarnessError> {
        let rest = self.line.split_once(label).map_or("", |(_, rest)| rest);
        let text = rest.split([',', '\n']).next().unwrap_or_default().trim();
        text.parse().map_err(|_| {
            HarnessError::Options(format!("no address after {label:?} in {:?}", self.line))
        })
    }

    /// CPU time and memory so far.
    pub(super) fn figures(&self) -> ProcessFigures {
        process_figures(self.child.id())
    }
}
