//! The form of the table: rows, their names in both families, and the sources of their values.

use std::sync::Arc;

use ledger::Stamp;
use metrics::{HistogramValue, Labels, MetricKind, Number, Sample, Value};
use node::{DecisionKind, DecisionTimes, StageTimes};
use operations::ProcessStatus;
use switch::TrafficTimes;

use crate::config::MojaloopNames;

/// A service of the reference, which has a prefix for the names of its metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// ML-API adapter.
    Ml,
    /// Central ledger.
    Cl,
    /// Account lookup service.
    Als,
    /// Quoting service.
    Qs,
    /// Each of these four services.
    Each,
    /// Every service, under a name without a prefix.
    Unprefixed,
}

/// The prefix that Helm charts and the white paper set for all services.
const COMMON: &str = "moja_";
/// Prefix and `serviceName` of each service's own process.
const PROCESSES: [(&str, &str); 4] = [
    ("moja_ml_", "ml-service"),
    ("moja_cl_", "central-service"),
    ("moja_als_", "account-lookup-service"),
    ("moja_qs_", "quoting-service"),
];
/// `serviceName` of the only process under the common prefix: a sum over the services must count
/// it once.
const OWN_NAME: &str = "upesi";

/// A metric of the reference: one row of the table.
#[derive(Debug)]
pub(crate) struct ReferenceRow {
    pub(crate) service: Service,
    /// The name without a prefix.
    pub(crate) name: &'static str,
    pub(crate) kind: MetricKind,
    /// The value of the label `serviceName`; empty if it depends on the sample or on the prefix.
    pub(crate) service_name: &'static str,
    /// The other labels. A sample may lack some of them.
    pub(crate) labels: &'static [&'static str],
    /// The stage of the switch that it measures, in one sentence.
    pub(crate) help: &'static str,
    /// Its samples; none before the stage has run.
    pub(crate) samples: fn(&ReferenceSources<'_>) -> Vec<Sample>,
}

impl ReferenceRow {
    /// Names and values of `serviceName` under a setting.
    pub(crate) fn names(&self, names: MojaloopNames) -> Vec<(String, &'static str)> {
        let wants = |one| names == one || names == MojaloopNames::Both;
        let mut found = Vec::new();
        if self.service == Service::Unprefixed {
            found.extend((names != MojaloopNames::Off).then(|| (self.name.to_owned(), "")));
            return found;
        }
        if wants(MojaloopNames::PerService) {
            found.extend(self.per_service());
        }
        if wants(MojaloopNames::Common) {
            let service_name =
                if self.service == Service::Each { OWN_NAME } else { self.service_name };
            found.push((format!("{COMMON}{}", self.name), service_name));
        }
        found.dedup();
        found
    }

    fn per_service(&self) -> Vec<(String, &'static str)> {
        let name = |prefix: &str| format!("{prefix}{}", self.name);
        let [ml, cl, als, qs] = PROCESSES.map(|(prefix, _)| prefix);
        let prefix = match self.service {
            Service::Ml => ml,
            Service::Cl => cl,
            Service::Als => als,
            Service::Qs => qs,
            Service::Each => {
                return PROCESSES.map(|(prefix, service)| (name(prefix), service)).to_vec();
            }
            Service::Unprefixed => return Vec::new(),
        };
        let mut names = vec![(name(prefix), self.service_name)];
        // The boards of the test harness leave out the repetition that its services have.
        if self.name.starts_with("ml_") {
            names.push((name(COMMON), self.service_name));
        }
        names
    }
}

/// The values that the samples are computed from.
pub(crate) struct ReferenceSources<'a> {
    pub(crate) times: &'a TrafficTimes,
    /// By [`DecisionKind`].
    pub(crate) decisions: [DecisionValues; DecisionKind::COUNT],
    /// Deciding batches.
    pub(crate) apply: &'a HistogramValue,
    pub(crate) process: ProcessStatus,
    pub(crate) started: Stamp,
}

/// [`DecisionTimes`] at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecisionValues {
    pub(crate) write: HistogramValue,
    pub(crate) apply: HistogramValue,
    pub(crate) total: HistogramValue,
}

impl DecisionValues {
    /// The values of all kinds.
    pub(crate) fn of(stages: &StageTimes) -> [Self; DecisionKind::COUNT] {
        let value = |histogram| {
            let mut value = HistogramValue::default();
            value.add(histogram);
            value
        };
        std::array::from_fn(|kind| {
            let DecisionTimes { write, apply, total } = &stages.decisions[kind];
            Self { write: value(write), apply: value(apply), total: value(total) }
        })
    }
}

/// A histogram with its labels.
pub(crate) fn histogram(labels: Labels, value: HistogramValue) -> Sample {
    Sample { labels, value: Value::Histogram(Arc::new(value)) }
}

/// A number with its labels.
pub(crate) fn number(labels: Labels, value: Number) -> Sample {
    Sample { labels, value: Value::Number(value) }
}
