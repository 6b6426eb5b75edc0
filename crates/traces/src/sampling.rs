//! Head sampling: which payments are traced.

use std::sync::atomic::{AtomicU64, Ordering};

use fspiop::TraceContext;
use ledger::TraceId;

/// Number of values of the random part of a trace id: its low 56 bits, as W3C defines them.
const VALUES: u64 = 1 << 56;

/// The effect of the flag "sampled" that a participant sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampledFlag {
    /// The ratio selects among sampled traces too.
    Ratio,
    /// Every trace that a participant samples is exported.
    Always,
}

/// Selects traces by their id, so that all messages of a payment, and all nodes, agree.
///
/// A trace whose sender states that it is not sampled is never selected.
#[derive(Debug)]
pub struct Sampling {
    /// The smallest random part that is selected; [`VALUES`] selects none.
    threshold: AtomicU64,
    flag: SampledFlag,
}

impl Sampling {
    /// Selects this part of all traces, 0 to 1; values outside count as the nearest of these.
    #[must_use]
    pub fn new(ratio: f64, flag: SampledFlag) -> Self {
        Self { threshold: AtomicU64::new(threshold(ratio)), flag }
    }

    /// Changes the ratio, for all threads.
    pub fn set_ratio(&self, ratio: f64) {
        self.threshold.store(threshold(ratio), Ordering::Relaxed);
    }

    /// Whether the trace of a received or stored context is selected.
    #[must_use]
    pub fn continues(&self, context: &TraceContext) -> bool {
        context.is_sampled() && (self.flag == SampledFlag::Always || self.begins(&context.trace_id))
    }

    /// Whether a new trace is selected.
    #[must_use]
    pub fn begins(&self, trace: &TraceId) -> bool {
        let [.., a, b, c, d, e, f, g] = *trace;
        let random = u64::from_be_bytes([0, a, b, c, d, e, f, g]);
        self.threshold.load(Ordering::Relaxed) <= random
    }
}

/// As OpenTelemetry's consistent sampling: the values from `1 - ratio` on are selected.
fn threshold(ratio: f64) -> u64 {
    let selected = ratio.clamp(0.0, 1.0) * VALUES as f64;
    VALUES - (selected as u64).min(VALUES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids whose random part is this part of all values.
    fn id(part: f64) -> TraceId {
        let random = ((part * VALUES as f64) as u64).min(VALUES - 1);
        ((0xabcd_u128 << 112) | u128::from(random)).to_be_bytes()
    }

    #[test]
    fn ratio_selects_by_the_random_part_of_the_id() {
        for (ratio, part, expected) in [
            (0.0, 1.0, false),
            (0.01, 0.98, false),
            (0.01, 0.995, true),
            (0.5, 0.49, false),
            (0.5, 0.5, true),
            (1.0, 0.0, true),
            (7.0, 0.0, true),
            (-1.0, 1.0, false),
        ] {
            let sampling = Sampling::new(ratio, SampledFlag::Ratio);
            assert_eq!(sampling.begins(&id(part)), expected, "{ratio} {part}");
            let later = Sampling::new(0.3, SampledFlag::Ratio);
            later.set_ratio(ratio);
            assert_eq!(later.begins(&id(part)), expected, "{ratio} {part}");
        }
    }

    #[test]
    fn flag_of_a_participant_is_respected() {
        let (low, high) = (id(0.1), id(0.9));
        for (flag, trace_id, flags, expected) in [
            (SampledFlag::Ratio, high, 1, true),
            (SampledFlag::Ratio, low, 1, false),
            (SampledFlag::Ratio, high, 0, false),
            (SampledFlag::Always, low, 1, true),
            (SampledFlag::Always, low, 3, true),
            (SampledFlag::Always, high, 2, false),
        ] {
            let sampling = Sampling::new(0.5, flag);
            let context = TraceContext { trace_id, span_id: 1, flags };
            assert_eq!(sampling.continues(&context), expected, "{flag:?} {flags}");
        }
    }
}
