//! Notes when this thread touched a transfer ([`node::stages`]): the only place of the crate that
//! does. Costs one relaxed load per moment while not observed.

use std::sync::Arc;

use ledger::{Command, Notice, TransferId};
use node::latency_trace::{self, LatencyTrace, TracePoint, TraceSubject};

/// Leaves the marks of one thread.
#[derive(Clone)]
pub(crate) struct Tracer {
    stages: Arc<LatencyTrace>,
    thread: usize,
}

/// The moments of one request; empty unless it was observed on arrival.
#[derive(Default)]
pub(crate) struct RequestTrace(Option<Box<TracedBody>>);

struct TracedBody {
    tracer: Tracer,
    /// The transfer, once it is known.
    subject: Option<(TransferId, TraceSubject)>,
    /// Moments from before that.
    early: Vec<(TracePoint, u64)>,
}

/// When a call was made, in nanoseconds of [`node::stages`]; zeros when nobody watched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallTimes {
    pub(crate) connected_ns: u64,
    pub(crate) written_ns: u64,
}

impl Tracer {
    /// Of the I/O thread with this number.
    pub(crate) fn new(stages: &Arc<LatencyTrace>, number: usize) -> Self {
        Self { stages: Arc::clone(stages), thread: number + 1 }
    }

    /// Now, in nanoseconds; 0 when nobody watches.
    pub(crate) fn now_ns(&self) -> u64 {
        self.stages.now_ns().unwrap_or(0)
    }

    /// A request whose head was parsed just now, and of which something was last read at
    /// `heard_ns`.
    pub(crate) fn request(&self, heard_ns: u64) -> RequestTrace {
        let parsed_ns = self.now_ns();
        if parsed_ns == 0 {
            return RequestTrace(None);
        }
        let arrived_ns = if heard_ns == 0 { parsed_ns } else { heard_ns };
        let early = vec![(TracePoint::Arrived, arrived_ns), (TracePoint::Parsed, parsed_ns)];
        RequestTrace(Some(Box::new(TracedBody { tracer: self.clone(), subject: None, early })))
    }

    /// A moment of a notice that is now.
    pub(crate) fn notice(&self, notice: &Notice, moment: TracePoint) {
        if let Some(now) = self.stages.now_ns() {
            self.mark_notice(notice, [(moment, now)]);
        }
    }

    /// A call with a notice was answered just now.
    pub(crate) fn answered(&self, notice: &Notice, call: CallTimes) {
        if call.connected_ns != 0 {
            let moments = [
                (TracePoint::Connected, call.connected_ns),
                (TracePoint::Written, call.written_ns.max(call.connected_ns)),
                (TracePoint::Delivered, latency_trace::monotonic_ns()),
            ];
            self.mark_notice(notice, moments);
        }
    }

    fn mark_notice<const N: usize>(&self, notice: &Notice, moments: [(TracePoint, u64); N]) {
        if let Some(transfer) = notice.transfer {
            let what = TraceSubject::Sending(notice.kind, notice.recipient);
            self.stages.mark(self.thread, transfer, what, moments);
        }
    }
}

impl RequestTrace {
    /// A moment that is now.
    pub(crate) fn mark(&mut self, moment: TracePoint) {
        if let Some(watched) = &mut self.0 {
            watched.early.push((moment, latency_trace::monotonic_ns()));
            watched.flush();
        }
    }

    /// The request became this command.
    pub(crate) fn is_about(&mut self, command: &Command) {
        if let Some(watched) = &mut self.0 {
            watched.subject = latency_trace::inbound_of(command);
            watched.flush();
        }
    }
}

impl TracedBody {
    fn flush(&mut self) {
        if let Some((transfer, what)) = self.subject {
            let Tracer { stages, thread } = &self.tracer;
            stages.mark(*thread, transfer, what, self.early.drain(..));
        }
    }
}
