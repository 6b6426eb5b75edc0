//! Spans of payments, exported over OTLP to an OpenTelemetry collector.
//!
//! An I/O thread decides by the trace id whether a payment is traced ([`Sampling`]). If it is, the
//! thread writes a [`SpanRecord`] at the end of each step into a bounded queue ([`SpanQueue`]). One
//! thread takes spans from it and exports them in batches (`start`, with the feature `otlp`).
//!
//! **Costs.** An unsampled payment costs one comparison per message. A span costs one push into a
//! queue without a lock, and wakes no thread.
//!
//! **Bounds.** With [`WAITING_MAX`] spans waiting, or a collector that does not answer, spans are
//! dropped and counted. Payments never wait.
//!
//! The library's tracers are not used: their spans allocate and are built on the calling thread.
#![warn(missing_docs)]

#[cfg(feature = "otlp")]
mod export;
#[cfg(not(feature = "otlp"))]
#[path = "no_export.rs"]
mod export;
mod options;
mod queue;
mod record;
mod sampling;
#[cfg(feature = "otlp")]
mod span_data;

/// Whether this build can export spans.
pub const CAN_EXPORT: bool = cfg!(feature = "otlp");

pub use export::{ExportThread, start};
pub use options::{ExportOptions, ExportProtocol, InvalidSetting};
pub use queue::{ExportResult, SpanCounts, SpanQueue, WAITING_MAX, WaitingSpans, queue};
pub use record::{Peer, SpanError, SpanIds, SpanRecord, SpanStep, SpanSubject};
pub use sampling::{SampledFlag, Sampling};
