//! Metrics: recording on the threads that serve transfers, and the formats that Prometheus reads.
//!
//! A metric is declared once, as a row of a [`metrics!`] table. A scrape reads the values of all
//! rows into [`Family`] values, and one of the three encoders writes them ([`Exposition`]): the
//! text format, OpenMetrics, or protobuf with native histograms.
//!
//! A [`Histogram`] or [`Counter`] belongs to one thread, which records without locks, without
//! read-modify-write instructions and without allocation. Scrapes add up the values of all threads.

mod counter;
mod exemplars;
mod exposition;
mod family;
mod histogram;
mod protobuf;
mod table;
mod text;

pub use counter::Counter;
pub use exemplars::{Exemplar, Exemplars};
pub use exposition::Exposition;
pub use family::{Family, HistogramValue, Labels, Number, Sample, Value};
pub use histogram::{CLASSIC_BOUNDS, Distribution, Histogram};
pub use table::{Metric, MetricFamily, MetricKind, MetricValue, Samples, collect};

/// Number of participants with series of their own: the first ones of the registry, without the
/// hub. The others share those of [`OTHER`].
pub const PARTICIPANTS_MAX: usize = 500;

/// The place of a participant among those with series of their own, by its index in the registry;
/// [`PARTICIPANTS_MAX`] for those of [`OTHER`]. Index 0 is the hub, which has no series.
#[must_use]
pub const fn participant_place(index: usize) -> usize {
    match index.saturating_sub(1) {
        place if place < PARTICIPANTS_MAX => place,
        _ => PARTICIPANTS_MAX,
    }
}

/// Value of the label `participant` of the series that several participants share.
pub const OTHER: &str = "other";

/// Value of the label `participant` for a participant. One whose name is [`OTHER`] gets a value
/// that no participant has as its name: two series with the same labels would make a scrape fail.
#[must_use]
pub fn participant_label(name: &str) -> &str {
    match name {
        OTHER => "other (participant)",
        name => name,
    }
}
