//! Exports the spans of the I/O threads, if a collector is configured.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use tls::ClientTls;
use traces::{ExportOptions, SpanQueue};

use crate::CliError;
use crate::config::Config;
use crate::config::traces::variable;
use crate::serve::certificates::Certificates;

/// The export, which ends when this is dropped. Without a collector nothing runs.
#[derive(Default)]
pub(crate) struct TraceExport {
    queue: Option<SpanQueue>,
    thread: Option<traces::ExportThread>,
}

impl TraceExport {
    /// Starts the thread that exports, for a switch that listens on this address.
    pub(crate) fn start(
        config: &Config,
        certificates: &Certificates,
        fspiop: SocketAddr,
    ) -> Result<Self, CliError> {
        let options = config.traces.export(&variable, &instance(fspiop))?;
        match options.zip(certificates.traces.clone()) {
            None => Ok(Self::default()),
            Some((options, tls)) => Self::begin(config, &options, tls),
        }
    }

    fn begin(
        config: &Config,
        options: &ExportOptions,
        tls: Arc<ClientTls>,
    ) -> Result<Self, CliError> {
        let (queue, waiting) = traces::queue(config.traces.sampling());
        let thread = traces::start(options, tls, waiting)
            .map_err(|error| CliError::new(format!("cannot export traces: {error}")))?;
        tracing::info!(collector = options.endpoint, "exports traces");
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// The queue for the I/O threads.
    pub(crate) fn queue(&self) -> Option<SpanQueue> {
        self.queue.clone()
    }

    /// Takes over the ratio.
    pub(crate) fn reload(&self, ratio: f64) {
        self.queue.iter().for_each(|queue| queue.sampling().set_ratio(ratio));
    }
}

impl Drop for TraceExport {
    /// Exports the last spans, for up to 2 s.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.stop();
        }
    }
}

/// `service.instance.id`: this machine, and the port for participants.
fn instance(fspiop: SocketAddr) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), fspiop.port())
}
