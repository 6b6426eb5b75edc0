//! Handling of signals.
//!
//! SIGINT, SIGTERM and SIGQUIT stop the switch in order. SIGHUP reloads the levels of messages,
//! the ratio of traces and the directory of keys, and opens the audit file again; the admin token
//! is read with each request anyway. SIGUSR1, SIGUSR2, SIGALRM and SIGIO are logged and ignored.
//! Unhandled, they and SIGHUP would end the process, so that a closed terminal or a tool of the
//! machine could stop a switch. The Rust runtime ignores SIGPIPE.

use std::future::poll_fn;
use std::process::exit;
use std::task::Poll;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::CliError;
use crate::serve::logging;

/// The handled signals.
pub(crate) struct Signals {
    stop: Vec<Signal>,
    hangup: Signal,
    ignored: Vec<(&'static str, Signal)>,
}

/// A received signal.
pub(crate) enum SignalRequest {
    /// Stop the switch.
    Stop,
    /// Reload what can be reloaded.
    Reload,
    /// Ignored: its name, and the reason.
    Ignored(&'static str, &'static str),
}

impl Signals {
    /// Waits for `waited`; `None` if a signal requests to stop first.
    pub(crate) async fn unless_stopped<T>(&mut self, waited: impl Future<Output = T>) -> Option<T> {
        let mut waited = std::pin::pin!(waited);
        loop {
            tokio::select! {
                request = self.next() => match request {
                    SignalRequest::Stop => return None,
                    SignalRequest::Reload => log_ignored("SIGHUP", "the switch is starting"),
                    SignalRequest::Ignored(name, why) => log_ignored(name, why),
                },
                done = &mut waited => return Some(done),
            }
        }
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> SignalRequest {
        let Self { stop, hangup, ignored } = self;
        poll_fn(|context| {
            if stop.iter_mut().any(|signal| signal.poll_recv(context).is_ready()) {
                return Poll::Ready(SignalRequest::Stop);
            }
            if hangup.poll_recv(context).is_ready() {
                return Poll::Ready(SignalRequest::Reload);
            }
            for (name, signal) in ignored.iter_mut() {
                if signal.poll_recv(context).is_ready() {
                    return Poll::Ready(SignalRequest::Ignored(
                        name,
                        "it has no effect on the switch",
                    ));
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Logs an ignored signal.
pub(crate) fn log_ignored(name: &str, why: &str) {
    tracing::info!(signal = name, "ignored: {why}");
}

/// Starts the runtime of this thread and takes over the signals.
fn start_runtime() -> Result<(Runtime, Signals), CliError> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new(format!("cannot start the admin thread: {error}")))?;
    let context = runtime.enter();
    let listen = |kind| {
        signal(kind).map_err(|error| CliError::new(format!("cannot listen for signals: {error}")))
    };
    let stop = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::quit()];
    let ignored = [
        ("SIGUSR1", SignalKind::user_defined1()),
        ("SIGUSR2", SignalKind::user_defined2()),
        ("SIGALRM", SignalKind::alarm()),
        ("SIGIO", SignalKind::io()),
    ];
    let ignored = ignored.into_iter().map(|(name, kind)| Ok((name, listen(kind)?)));
    let signals = Signals {
        stop: stop.into_iter().map(listen).collect::<Result<_, CliError>>()?,
        hangup: listen(SignalKind::hangup())?,
        ignored: ignored.collect::<Result<_, CliError>>()?,
    };
    drop(context);
    Ok((runtime, signals))
}

/// While this exists, a stop signal exits the process at once. The system does the same by default,
/// except for the first process of a container.
pub(crate) struct EarlySignals {
    until: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl EarlySignals {
    /// Starts a thread that handles the signals. An exit must be safe at any time.
    pub(crate) fn begin() -> Result<Self, CliError> {
        let (until, waited) = oneshot::channel();
        let (runtime, mut signals) = start_runtime()?;
        let watch = move || {
            if runtime.block_on(signals.unless_stopped(waited)).is_none() {
                tracing::info!("stopped by a signal before it was ready");
                logging::flush();
                exit(0);
            }
        };
        let thread = std::thread::Builder::new().name("early-signals".to_owned()).spawn(watch);
        let thread =
            thread.map_err(|error| CliError::new(format!("cannot start a thread: {error}")))?;
        Ok(Self { until: Some(until), thread: Some(thread) })
    }

    /// Ends the thread once signals reach the returned runtime.
    pub(crate) fn replaced(self) -> Result<(Runtime, Signals), CliError> {
        start_runtime()
    }
}

impl Drop for EarlySignals {
    /// Waits for the thread, after which another part may handle the signals.
    fn drop(&mut self) {
        drop(self.until.take());
        // The thread cannot fail.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}
