//! Commands that print a master key, such as those of a vault or a key management service.
//!
//! # Bounds
//! A command has [`TIME_MAX`], then it is killed with its children. At most [`OUTPUT_BYTES_MAX`]
//! bytes of each of its outputs are read.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::master_key::{LocalKey, MasterKeyError};

/// Longest run of a command.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Interval of the checks whether a command that closed its outputs has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum length of each output, in bytes.
const OUTPUT_BYTES_MAX: u64 = 4_096;
/// Number of characters of the standard error that are shown.
const SHOWN_CHARACTERS_MAX: usize = 300;

/// A program with its arguments.
pub(crate) struct KeyCommand {
    program: OsString,
    arguments: Vec<OsString>,
    time_max: Duration,
}

impl KeyCommand {
    /// Splits the text at spaces. Quotes have no meaning.
    pub(crate) fn parse(text: &str) -> Result<Self, MasterKeyError> {
        let mut words = text.split_ascii_whitespace().map(OsString::from);
        let program = words.next().ok_or_else(|| {
            MasterKeyError::Source("expected command:PROGRAM ARGUMENTS, without a shell".into())
        })?;
        Ok(Self { program, arguments: words.collect(), time_max: TIME_MAX })
    }

    /// Runs the command and returns its standard output.
    pub(crate) fn run(&self) -> Result<Vec<u8>, MasterKeyError> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| self.failure(error))?;
        let finished = self.finish(&mut child);
        if !matches!(finished, Ok((Some(_), ..))) {
            kill(&mut child);
        }
        let (status, output, errors) = finished.map_err(|error| self.failure(error))?;
        match status {
            None if OUTPUT_BYTES_MAX < output.len() as u64 => {
                Err(self.failure(format!("printed more than {OUTPUT_BYTES_MAX} bytes")))
            }
            None => {
                let after = format!("did not end within {} s", self.time_max.as_secs_f32());
                Err(self.failure(with_errors(&after, &errors)))
            }
            Some(status) if !status.success() => {
                Err(self.failure(with_errors(&status.to_string(), &errors)))
            }
            Some(_) => Ok(output),
        }
    }

    /// The key in the output: 64 hexadecimal digits, or 32 bytes in base64.
    pub(crate) fn parse_key(&self, output: &[u8]) -> Result<LocalKey, MasterKeyError> {
        let text = String::from_utf8_lossy(output);
        LocalKey::parse_printed(&text).map_err(|error| self.failure(error))
    }

    /// Reads both outputs until they are closed, then waits for the end. The status is absent if
    /// the time ran out or the output is too long.
    fn finish(&self, child: &mut Child) -> io::Result<(Option<ExitStatus>, Vec<u8>, Vec<u8>)> {
        let deadline = Instant::now() + self.time_max;
        let output = read(child.stdout.take())?;
        let errors = read(child.stderr.take())?;
        let (output, is_closed) = receive(&output, deadline);
        if !is_closed || OUTPUT_BYTES_MAX < output.len() as u64 {
            return Ok((None, output, receive(&errors, Instant::now()).0));
        }
        let (errors, _) = receive(&errors, deadline);
        loop {
            match child.try_wait()? {
                None if Instant::now() < deadline => thread::sleep(POLL_INTERVAL),
                status => return Ok((status, output, errors)),
            }
        }
    }

    fn failure(&self, what: impl std::fmt::Display) -> MasterKeyError {
        // The arguments may hold a secret, so that only the program is named.
        MasterKeyError::Source(format!("command {}: {what}", self.program.to_string_lossy()))
    }
}

/// Reads an output on a thread of its own: a child of the command may keep it open for ever.
fn read(stream: Option<impl Read + Send + 'static>) -> io::Result<Receiver<Vec<u8>>> {
    // A message has at least one byte, so that the reader never waits.
    let (sender, receiver) = sync_channel(OUTPUT_BYTES_MAX as usize + 1);
    if let Some(stream) = stream {
        thread::Builder::new().name("key-command".into()).spawn(|| forward(stream, sender))?;
    }
    Ok(receiver)
}

/// Sends the read bytes, at most one more than the limit. Bytes after it are read and dropped,
/// so that the command does not wait for a reader.
fn forward(mut stream: impl Read, sender: SyncSender<Vec<u8>>) {
    let mut left = OUTPUT_BYTES_MAX as usize + 1;
    let mut buffer = [0; 1_024];
    while let Ok(read) = stream.read(&mut buffer)
        && 0 < read
    {
        let kept = read.min(left);
        left -= kept;
        let is_gone = 0 < kept && sender.send(buffer[..kept].to_vec()).is_err();
        if is_gone || left == 0 {
            break;
        }
    }
}

/// Receives until the output is closed or the time runs out. Returns whether it is closed.
fn receive(output: &Receiver<Vec<u8>>, deadline: Instant) -> (Vec<u8>, bool) {
    let mut received = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match output.recv_timeout(left) {
            Ok(bytes) => received.extend(bytes),
            Err(RecvTimeoutError::Disconnected) => return (received, true),
            Err(RecvTimeoutError::Timeout) => return (received, false),
        }
    }
}

/// Kills the command and the children in its process group.
fn kill(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        // It may have ended meanwhile.
        let _ended = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ended = child.wait();
}

fn with_errors(what: &str, errors: &[u8]) -> String {
    let text = String::from_utf8_lossy(errors);
    let words: Vec<_> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|it| !it.is_control()).collect();
    match line.chars().count() {
        0 => what.to_owned(),
        count if SHOWN_CHARACTERS_MAX < count => {
            let shown: String = line.chars().take(SHOWN_CHARACTERS_MAX).collect();
            format!("{what}: {shown}…")
        }
        _ => format!("{what}: {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> KeyCommand {
        KeyCommand {
            program: "sh".into(),
            arguments: vec!["-c".into(), text.into()],
            time_max: TIME_MAX,
        }
    }

    fn error(command: &KeyCommand) -> String {
        let parsed = command.run().and_then(|output| command.parse_key(&output));
        parsed.expect_err("it fails").to_string()
    }

    #[test]
    fn a_command_prints_the_key_in_hexadecimal_or_base64() {
        use crate::MasterKey;
        let digits = "5a".repeat(32);
        let base64 = "WlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlo=";
        for printed in [&*digits, base64] {
            let command = KeyCommand::parse(&format!("printf {printed}")).expect("a command");
            let key = command.run().and_then(|it| command.parse_key(&it)).expect("a key");
            assert_eq!(key.name(), LocalKey::new(&[0x5a; 32]).name());
        }
    }

    #[test]
    fn no_shell_reads_the_command() {
        let command = KeyCommand::parse("echo $HOME ; false").expect("a command");
        assert_eq!(command.run().expect("runs"), b"$HOME ; false\n");
        assert!(KeyCommand::parse("  ").is_err());
    }

    #[test]
    fn failures_name_the_program_and_the_beginning_of_its_standard_error() {
        let failed = error(&script("echo sealed vault >&2; echo secret; exit 3"));
        assert_eq!(failed, "command sh: exit status: 3: sealed vault");
        let long = error(&script("yes error | head -c 100000 >&2; exit 1"));
        assert!(long.ends_with('…') && long.len() < 400, "{long}");
        let missing = error(&KeyCommand::parse("/nowhere/vault token=1").expect("a command"));
        assert!(missing.starts_with("command /nowhere/vault: No such file"), "{missing}");
        let odd = error(&script("echo 123 secret"));
        assert!(odd.contains("64 hexadecimal digits") && !odd.contains("secret"), "{odd}");
    }

    #[test]
    fn long_outputs_and_long_runs_are_stopped() {
        let long = error(&script("yes"));
        assert_eq!(long, "command sh: printed more than 4096 bytes");
        let time_max = Duration::from_millis(100);
        for text in ["echo slow >&2; sleep 600", "echo slow >&2; sleep 600 & sleep 600"] {
            let started = Instant::now();
            let late = error(&KeyCommand { time_max, ..script(text) });
            assert_eq!(late, "command sh: did not end within 0.1 s: slow");
            assert!(started.elapsed() < Duration::from_secs(300), "its children are killed");
        }
    }
}
