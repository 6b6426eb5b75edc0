//! Interrupts from the keyboard: an interrupted run cleans up its processes and files.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::error::HarnessError;

static SEEN: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Interval at which a pause checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Reports whether the user has interrupted the run.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for interrupts, termination and the loss of the terminal, on one thread per process.
    #[must_use]
    pub fn listen() -> Self {
        Self(Arc::clone(SEEN.get_or_init(Self::start)))
    }

    fn start() -> Arc<AtomicBool> {
        let seen = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&seen);
        // Without the thread, a signal ends the process at once.
        let _ = std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                runtime.block_on(signalled());
                flag.store(true, Ordering::Relaxed);
            }
        });
        seen
    }

    /// Whether any listener of this process has received a signal.
    pub fn seen_by_any_listener() -> bool {
        SEEN.get().is_some_and(|seen| seen.load(Ordering::Relaxed))
    }

    /// Whether a signal was received.
    #[must_use]
    pub fn seen(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails if a signal was received.
    pub fn check(&self) -> Result<(), HarnessError> {
        if self.seen() { Err(HarnessError::Interrupted) } else { Ok(()) }
    }

    /// Pauses for this time, or until a signal is received.
    pub fn pause(&self, time: Duration) -> Result<(), HarnessError> {
        std::thread::sleep(time);
        self.check()
    }
}

/// Ends the program soon after an interrupt, for work that cannot check for one. Calls `clean_up`
/// first.
pub fn end_when_interrupted(clean_up: impl FnOnce() + Send + 'static) {
    let interrupt = Interrupt::listen();
    let watch = move || {
        while !interrupt.seen() {
            std::thread::sleep(POLL_INTERVAL);
        }
        clean_up();
        eprintln!("upesi: {}", HarnessError::Interrupted);
        std::process::exit(1);
    };
    // Without the thread, the next signal ends the program.
    let _ = std::thread::Builder::new().name("interrupted".to_owned()).spawn(watch);
}

async fn signalled() {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    match kinds.map(signal) {
        [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        }
        _ => std::future::pending().await,
    }
}
