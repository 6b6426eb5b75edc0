//! Signals: those that end the program, and those that must not.
//!
//! SIGINT, SIGTERM and SIGQUIT end it in order. SIGHUP reads the directory of keys again; without
//! one there is nothing to read, for the admin token is read with each request. SIGHUP, SIGUSR1,
//! SIGUSR2, SIGALRM and SIGIO would end a process that does not know them, which a closed terminal
//! or a tool of the machine must not do to a switch: they are logged and change nothing. SIGPIPE is
//! ignored by the runtime of the language.

use std::future::poll_fn;
use std::process::exit;
use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;

use jws::KeyDirectory;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::CliError;

/// The signals that the program listens to.
pub(crate) struct Signals {
    ending: Vec<Signal>,
    hangup: Signal,
    keys: Option<Arc<KeyDirectory>>,
    ignored: Vec<(&'static str, Signal)>,
}

/// What a signal asks for.
pub(crate) enum StopRequest {
    /// The end of the program.
    End,
    /// The keys of this directory, read again.
    Reload(Arc<KeyDirectory>),
    /// Nothing: the signal's name, and why nothing follows from it.
    Nothing(&'static str, &'static str),
}

impl Signals {
    /// What comes of `waited`; `None` when a signal says to end before.
    pub(crate) async fn unless<T>(&mut self, waited: impl Future<Output = T>) -> Option<T> {
        let mut waited = std::pin::pin!(waited);
        loop {
            tokio::select! {
                asked = self.next() => match asked {
                    StopRequest::End => return None,
                    StopRequest::Reload(_) => tell_ignored("SIGHUP", "the switch is not ready yet"),
                    StopRequest::Nothing(name, why) => tell_ignored(name, why),
                },
                done = &mut waited => return Some(done),
            }
        }
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> StopRequest {
        let Self { ending, hangup, keys, ignored } = self;
        poll_fn(|context| {
            if ending.iter_mut().any(|signal| signal.poll_recv(context).is_ready()) {
                return Poll::Ready(StopRequest::End);
            }
            if hangup.poll_recv(context).is_ready() {
                return Poll::Ready(match keys {
                    Some(keys) => StopRequest::Reload(Arc::clone(keys)),
                    None => StopRequest::Nothing("SIGHUP", NOTHING_TO_READ),
                });
            }
            for (name, signal) in ignored.iter_mut() {
                if signal.poll_recv(context).is_ready() {
                    return Poll::Ready(StopRequest::Nothing(name, "it means nothing here"));
                }
            }
            Poll::Pending
        })
        .await
    }
}

const NOTHING_TO_READ: &str =
    "there is nothing to read again: jws.keys is not set, and the admin token is read each time";

/// Logs a signal that changes nothing.
pub(crate) fn tell_ignored(name: &str, why: &str) {
    ports::log_line(format_args!("{name} ignored: {why}"));
}

/// The runtime of this thread, and the signals, which from here on end nothing by themselves.
pub(crate) fn start_runtime(
    keys: Option<Arc<KeyDirectory>>,
) -> Result<(Runtime, Signals), CliError> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new(format!("cannot start the admin thread: {error}")))?;
    let context = runtime.enter();
    let listen = |kind| {
        signal(kind).map_err(|error| CliError::new(format!("cannot listen for signals: {error}")))
    };
    let ending = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::quit()];
    let ignored = [
        ("SIGUSR1", SignalKind::user_defined1()),
        ("SIGUSR2", SignalKind::user_defined2()),
        ("SIGALRM", SignalKind::alarm()),
        ("SIGIO", SignalKind::io()),
    ];
    let ignored = ignored.into_iter().map(|(name, kind)| Ok((name, listen(kind)?)));
    let signals = Signals {
        ending: ending.into_iter().map(listen).collect::<Result<_, CliError>>()?,
        hangup: listen(SignalKind::hangup())?,
        keys,
        ignored: ignored.collect::<Result<_, CliError>>()?,
    };
    drop(context);
    Ok((runtime, signals))
}

/// As long as this lives a signal ends the program at once. The system does the same, but not for
/// the first process of a container.
pub(crate) struct EarlySignals {
    until: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl EarlySignals {
    /// From here on. Whatever is done meanwhile must bear an end at any moment.
    pub(crate) fn begin() -> Result<Self, CliError> {
        let (until, waited) = oneshot::channel();
        let (runtime, mut signals) = start_runtime(None)?;
        let watch = move || {
            if runtime.block_on(signals.unless(waited)).is_none() {
                ports::log_line("stopped by a signal before it was ready");
                exit(0);
            }
        };
        let thread = std::thread::Builder::new().name("opening".to_owned()).spawn(watch);
        let thread =
            thread.map_err(|error| CliError::new(format!("cannot start a thread: {error}")))?;
        Ok(Self { until: Some(until), thread: Some(thread) })
    }
}

impl Drop for EarlySignals {
    /// Waits for the thread: from then on signals are somebody else's.
    fn drop(&mut self) {
        drop(self.until.take());
        // It does nothing that could fail.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}
