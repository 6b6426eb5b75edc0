//! The bounded queue between the I/O threads and the thread that exports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::record::SpanRecord;
use crate::sampling::Sampling;

/// Spans that wait for their export; further ones are dropped. About 4 MiB.
pub const WAITING_MAX: usize = 16_384;

/// Counts of spans since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// Spans that the collector accepted.
    pub exported: u64,
    /// Spans that were dropped: too many waited, too many failed in one second, or an export
    /// failed.
    pub dropped: u64,
    /// Exports, of many spans each, that failed.
    pub exports_failed: u64,
}

/// The counters of [`SpanCounts`].
#[derive(Debug, Default)]
struct Counters {
    exported: AtomicU64,
    dropped: AtomicU64,
    exports_failed: AtomicU64,
}

/// The end of the queue into which the I/O threads write; each has a copy.
#[derive(Clone, Debug)]
pub struct SpanQueue {
    spans: SyncSender<SpanRecord>,
    sampling: Arc<Sampling>,
    counters: Arc<Counters>,
}

/// The end of the queue from which spans are exported.
#[derive(Debug)]
pub struct WaitingSpans {
    spans: Receiver<SpanRecord>,
    counters: Arc<Counters>,
}

/// A queue, and the sampling of all that write into it.
#[must_use]
pub fn queue(sampling: Sampling) -> (SpanQueue, WaitingSpans) {
    let (sender, receiver) = sync_channel(WAITING_MAX);
    let counters = Arc::<Counters>::default();
    let queue =
        SpanQueue { spans: sender, sampling: Arc::new(sampling), counters: Arc::clone(&counters) };
    (queue, WaitingSpans { spans: receiver, counters })
}

impl SpanQueue {
    /// Queues a span. It never blocks: with [`WAITING_MAX`] waiting, the span is dropped and
    /// counted.
    pub fn push(&self, span: SpanRecord) {
        if self.spans.try_send(span).is_err() {
            self.count_dropped(1);
        }
    }

    /// Counts spans that were not queued.
    pub fn count_dropped(&self, count: u64) {
        self.counters.dropped.fetch_add(count, Ordering::Relaxed);
    }

    /// The sampling.
    #[must_use]
    pub fn sampling(&self) -> &Sampling {
        &self.sampling
    }

    /// The counts since the start.
    #[must_use]
    pub fn counts(&self) -> SpanCounts {
        let Counters { exported, dropped, exports_failed } = &*self.counters;
        let [exported, dropped, exports_failed] =
            [exported, dropped, exports_failed].map(|counter| counter.load(Ordering::Relaxed));
        SpanCounts { exported, dropped, exports_failed }
    }
}

impl WaitingSpans {
    /// Takes up to `most` spans without waiting.
    #[must_use]
    pub fn take(&self, most: usize) -> Vec<SpanRecord> {
        self.spans.try_iter().take(most).collect()
    }

    /// Counts the end of an export of this number of spans.
    pub fn count_export(&self, spans: usize, result: ExportResult) {
        let spans = spans as u64;
        match result {
            ExportResult::Accepted => {
                self.counters.exported.fetch_add(spans, Ordering::Relaxed);
            }
            ExportResult::Failed => {
                self.counters.dropped.fetch_add(spans, Ordering::Relaxed);
                self.counters.exports_failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// The result of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportResult {
    /// The collector has the spans.
    Accepted,
    /// The spans are lost.
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{SpanIds, SpanStep};
    use crate::sampling::SampledFlag;

    #[test]
    fn full_queue_drops_and_counts() {
        let (queue, waiting) = queue(Sampling::new(1.0, SampledFlag::Ratio));
        let ids = SpanIds { trace: [1; 16], span: 2, parent: 0 };
        for _ in 0..WAITING_MAX + 3 {
            queue.push(SpanRecord::new(ids, SpanStep::Decide, (1, 2)));
        }
        assert_eq!(queue.counts(), SpanCounts { dropped: 3, ..SpanCounts::default() });
        assert_eq!(waiting.take(10).len(), 10);
        waiting.count_export(10, ExportResult::Accepted);
        assert_eq!(waiting.take(usize::MAX).len(), WAITING_MAX - 10);
        waiting.count_export(7, ExportResult::Failed);
        let expected = SpanCounts { exported: 10, dropped: 10, exports_failed: 1 };
        assert_eq!(queue.counts(), expected);
    }
}
