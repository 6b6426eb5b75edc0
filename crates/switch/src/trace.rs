//! Records when this thread processed a transfer ([`node::stages`]). Costs one relaxed load per
//! trace point if tracing is off.

use std::sync::Arc;

use ledger::{Command, Notice, TransferId};
use node::latency_trace::{self, LatencyTrace, TracePoint, TraceSubject};

/// Records the trace points of one thread.
#[derive(Clone)]
pub(crate) struct Tracer {
    stages: Arc<LatencyTrace>,
    thread: usize,
}

/// The trace points of one request; empty unless tracing was on at its arrival.
#[derive(Default)]
pub(crate) struct RequestTrace(Option<Box<TracedBody>>);

struct TracedBody {
    tracer: Tracer,
    /// The transfer, once it is known.
    subject: Option<(TransferId, TraceSubject)>,
    /// Trace points from before that.
    early: Vec<(TracePoint, u64)>,
}

/// Times of a call, in nanoseconds of [`node::stages`]; zeros if tracing is off.
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

    /// Current time in nanoseconds; 0 if tracing is off.
    pub(crate) fn now_ns(&self) -> u64 {
        self.stages.now_ns().unwrap_or(0)
    }

    /// A request whose head was parsed just now, and whose last bytes were read at
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

    /// Records a trace point of a notice.
    pub(crate) fn notice(&self, notice: &Notice, moment: TracePoint) {
        if let Some(now) = self.stages.now_ns() {
            self.mark_notice(notice, [(moment, now)]);
        }
    }

    /// Records the response to a call with a notice.
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
    /// Records a trace point.
    pub(crate) fn mark(&mut self, moment: TracePoint) {
        if let Some(watched) = &mut self.0 {
            watched.early.push((moment, latency_trace::monotonic_ns()));
            watched.flush();
        }
    }

    /// Sets the command of the request.
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
