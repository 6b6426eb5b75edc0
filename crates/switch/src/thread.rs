//! Context of an I/O thread: its number, its clock, its counters.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use fspiop::TraceContext;
use node::SystemClock;
use node::latency_trace::LatencyTrace;
use ports::{Clock, ClockReading};

use crate::counters::Counters;
use crate::inbound::RequestSpan;
use crate::measurements::Measurements;
use crate::spans::SpanWriter;
use crate::trace::Tracer;

/// One I/O thread.
pub(crate) struct Thread {
    pub(crate) number: usize,
    pub(crate) counters: Arc<Counters>,
    pub(crate) measurements: Arc<Measurements>,
    pub(crate) tracer: Tracer,
    pub(crate) spans: SpanWriter,
    clock: SystemClock,
    random: Cell<u64>,
}

impl Thread {
    pub(crate) fn new(
        number: usize,
        (counters, measurements): (Arc<Counters>, Arc<Measurements>),
        (stages, spans): (&Arc<LatencyTrace>, SpanWriter),
        (clock, seed): (SystemClock, u64),
    ) -> Rc<Self> {
        let tracer = Tracer::new(stages, number);
        let random = Cell::new(seed);
        let thread = Self { number, counters, measurements, tracer, spans, clock, random };
        thread.compare_clocks();
        Rc::new(thread)
    }

    /// Lets measurements relate the monotonic clock to the wall clock, which may be set.
    pub(crate) fn compare_clocks(&self) {
        self.measurements.set_wall(self.now().wall);
    }

    pub(crate) fn now(&self) -> ClockReading {
        self.clock.now()
    }

    /// Monotonic time, for the delivery policy.
    pub(crate) fn moment(&self) -> delivery::MonotonicTime {
        delivery::MonotonicTime(self.now().monotonic_us)
    }

    /// Milliseconds since the epoch, by the wall clock.
    pub(crate) fn wall_ms(&self) -> u64 {
        self.now().wall.millis()
    }

    /// A unique number for a span or a trace, not secret (splitmix64).
    pub(crate) fn unique(&self) -> u64 {
        let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The hub's span of a message with this context.
    pub(crate) fn begin_span(&self, context: &TraceContext) -> RequestSpan {
        RequestSpan { id: self.unique(), is_sampled: self.spans.samples(context) }
    }

    /// A new trace for a message without one.
    pub(crate) fn new_trace(&self) -> TraceContext {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.unique().to_be_bytes());
        id[8..].copy_from_slice(&(self.unique() | 1).to_be_bytes());
        self.spans.new_trace(id)
    }
}
