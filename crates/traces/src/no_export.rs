//! The interface of the export in a build without it.

use std::convert::Infallible;
use std::sync::Arc;

use tls::ClientTls;

use crate::options::{ExportOptions, InvalidSetting};
use crate::queue::WaitingSpans;

/// The thread that exports, which this build does not have.
#[derive(Debug)]
pub struct ExportThread(Infallible);

/// Refuses: this build has no export.
///
/// # Errors
/// Always.
pub fn start(
    _options: &ExportOptions,
    _tls: Arc<ClientTls>,
    _waiting: WaitingSpans,
) -> Result<ExportThread, InvalidSetting> {
    Err(InvalidSetting("this build exports no traces; build it with the feature traces".into()))
}

impl ExportThread {
    /// Ends the thread.
    pub fn stop(self) {
        match self.0 {}
    }
}
