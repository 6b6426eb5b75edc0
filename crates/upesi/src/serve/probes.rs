//! Health probes: on a thread of their own while the node starts, then on the main thread.

use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::CliError;
use crate::serve::admin_backend::NodeBackend;

/// Answers probes while the log is opened, which blocks the main thread. Stops when it is dropped.
pub(super) struct StartingProbes {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl StartingProbes {
    /// Starts the thread.
    pub(super) fn serve(listener: &TcpListener) -> Result<Self, CliError> {
        let failed =
            |error: std::io::Error| CliError::new(format!("cannot answer health probes: {error}"));
        let listener = listener.try_clone().map_err(failed)?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (stop, stopped) = oneshot::channel();
        let work = move || {
            runtime.block_on(async {
                // A listener that cannot be used is reported when the main thread uses it.
                if let Ok(listener) = for_tokio(listener) {
                    operations::serve_probes(listener, None, stopped).await;
                }
            });
        };
        let thread = thread::Builder::new().name("probes".into()).spawn(work).map_err(failed)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for StartingProbes {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic was reported by its thread.
            let _ended = thread.join();
        }
    }
}

/// Serves health probes once the node has started, if they have a listener.
pub(super) fn serve(
    listener: Option<TcpListener>,
    backend: Arc<NodeBackend>,
    stopped: impl Future<Output = ()>,
) -> Result<impl Future<Output = ()>, CliError> {
    let listener = listener.map(for_tokio).transpose()?;
    Ok(async move {
        if let Some(listener) = listener {
            operations::serve_probes(listener, Some(backend), stopped).await;
        }
    })
}

/// A listener for the async runtime of the calling thread.
pub(super) fn for_tokio(listener: TcpListener) -> Result<tokio::net::TcpListener, CliError> {
    tokio::net::TcpListener::from_std(listener)
        .map_err(|error| CliError::new(format!("cannot serve the admin API: {error}")))
}
