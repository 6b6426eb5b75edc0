//! Signals that end the program, and the one by which it reads keys again.

use std::process::exit;
use std::sync::Arc;
use std::thread::JoinHandle;

use jws::KeyDirectory;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::Failure;

/// The signals that end the program, and the one that reads the directory of keys again.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Only with such a directory: without one, a hang-up ends the program as everywhere.
    hangup: Option<(Signal, Arc<KeyDirectory>)>,
}

impl Signals {
    /// What comes of `waited`; `None` when a signal says to end before.
    pub(crate) async fn unless<T>(&mut self, waited: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            _ = self.interrupt.recv() => None,
            _ = self.terminate.recv() => None,
            done = waited => Some(done),
        }
    }

    /// Waits until keys are to be read again, for ever without a directory of them; `None` when a
    /// signal says to end.
    pub(crate) async fn next(&mut self) -> Option<Arc<KeyDirectory>> {
        let Self { interrupt, terminate, hangup } = self;
        let hangup = async {
            match hangup {
                None => std::future::pending().await,
                Some((signal, directory)) => {
                    // It ends only when the program does.
                    let _came = signal.recv().await;
                    Arc::clone(directory)
                }
            }
        };
        tokio::select! {
            _ = interrupt.recv() => None,
            _ = terminate.recv() => None,
            keys = hangup => Some(keys),
        }
    }
}

/// The runtime of this thread, and the signals, which from here on end nothing by themselves.
pub(crate) fn start_runtime(
    keys: Option<Arc<KeyDirectory>>,
) -> Result<(Runtime, Signals), Failure> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start the admin thread: {error}")))?;
    let context = runtime.enter();
    let listen = |kind| {
        signal(kind).map_err(|error| Failure::new(format!("cannot listen for signals: {error}")))
    };
    let interrupt = listen(SignalKind::interrupt())?;
    let terminate = listen(SignalKind::terminate())?;
    let hangup = match keys {
        None => None,
        Some(keys) => Some((listen(SignalKind::hangup())?, keys)),
    };
    let signals = Signals { interrupt, terminate, hangup };
    drop(context);
    Ok((runtime, signals))
}

/// As long as this lives a signal ends the program at once. The system does the same, but not for
/// the first process of a container.
pub(crate) struct Unready {
    until: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Unready {
    /// From here on. Whatever is done meanwhile must bear an end at any moment.
    pub(crate) fn begin() -> Result<Self, Failure> {
        let (until, waited) = oneshot::channel();
        let (runtime, mut signals) = start_runtime(None)?;
        let watch = move || {
            if runtime.block_on(signals.unless(waited)).is_none() {
                ports::tell("told to end before it was ready");
                exit(0);
            }
        };
        let thread = std::thread::Builder::new().name("opening".to_owned()).spawn(watch);
        let thread =
            thread.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
        Ok(Self { until: Some(until), thread: Some(thread) })
    }
}

impl Drop for Unready {
    /// Waits for the thread: from then on signals are somebody else's.
    fn drop(&mut self) {
        drop(self.until.take());
        // It does nothing that could fail.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}
