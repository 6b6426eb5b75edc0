//! The ends of the certificates that participants have by enrolment, for metrics. The watcher reads
//! them once a second.
//!
//! Bounds: [`READ_MAX`] certificates are parsed at a time, and [`SHOWN_MAX`] are shown, those that
//! end first. A certificate that ended more than [`ENDED_SECONDS`] ago is left out, and so is that
//! of a disabled participant.

use std::collections::BTreeMap;
use std::sync::Arc;

use ledger::{FspName, LogIndex, State};
use metrics::{Labels, Number};
use tls::summarize;

/// Certificates that are parsed at a time.
const READ_MAX: usize = 100;
/// Certificates in the metrics.
const SHOWN_MAX: usize = 500;
/// Time for which an expired certificate is shown: its participant may use another one.
const ENDED_SECONDS: i64 = 7 * 86_400;

/// The newest certificate of each participant.
#[derive(Clone, Debug, Default)]
pub(crate) struct EnrolledCertificates(Arc<BTreeMap<FspName, Enrolled>>);

/// A certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Enrolled {
    /// The record that has it.
    record: LogIndex,
    /// Seconds since 1970 until which it is valid.
    expires: i64,
}

/// The newest certificates in the state, with the content of those that are not known.
#[derive(Debug, Default)]
pub(super) struct Newest {
    known: BTreeMap<FspName, Enrolled>,
    unknown: Vec<(FspName, LogIndex, Vec<u8>)>,
}

impl Newest {
    /// Those of the state.
    pub(super) fn of(state: &State, known: &EnrolledCertificates) -> Self {
        let mut newest = BTreeMap::new();
        for row in state.enrolments().iter() {
            let Some(end) = &row.end else { continue };
            let Some(certificate) = &end.certificate else { continue };
            let found = newest.entry(row.name).or_insert((end.record, certificate));
            if found.0 < end.record {
                *found = (end.record, certificate);
            }
        }
        let is_active = |name: &FspName| state.registry().find(name).is_some_and(|it| it.1.active);
        let mut these = Self::default();
        for (name, (record, certificate)) in newest.into_iter().filter(|(it, _)| is_active(it)) {
            match known.0.get(&name).filter(|it| it.record == record) {
                Some(same) => {
                    these.known.insert(name, *same);
                }
                None if these.unknown.len() < READ_MAX => {
                    these.unknown.push((name, record, certificate.clone()));
                }
                None => {}
            }
        }
        these
    }

    /// Parses the unknown ones.
    pub(super) fn read(mut self) -> EnrolledCertificates {
        for (name, record, certificate) in self.unknown {
            // The kernel does not parse certificates; one that is damaged has no end.
            let expires = summarize(&certificate).map_or(i64::MAX, |facts| facts.not_after);
            self.known.insert(name, Enrolled { record, expires });
        }
        EnrolledCertificates(Arc::new(self.known))
    }
}

impl EnrolledCertificates {
    /// The samples of the metric at a time, in seconds since 1970.
    pub(crate) fn samples(&self, now: i64) -> Vec<(Labels, Number)> {
        let is_shown = |it: &Enrolled| it.expires != i64::MAX && now - ENDED_SECONDS < it.expires;
        let mut shown: Vec<_> = self.0.iter().filter(|(_, it)| is_shown(it)).collect();
        shown.sort_by_key(|(_, it)| it.expires);
        let sample = |(name, it): (&FspName, &Enrolled)| {
            let labels = vec![
                ("listener", "enrolment".into()),
                ("kind", "certificate".into()),
                ("subject", name.to_string().into()),
            ];
            (labels, Number::Integer(it.expires.max(0).into()))
        };
        shown.into_iter().take(SHOWN_MAX).map(sample).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_end_first_are_shown() {
        let name = |number: usize| FspName::new(&format!("dfsp{number}")).expect("a name");
        let of =
            |number: usize| Enrolled { record: LogIndex(1), expires: 10_000_000 - number as i64 };
        let mut rows: BTreeMap<_, _> = (0..SHOWN_MAX + 10).map(|it| (name(it), of(it))).collect();
        rows.insert(name(9_000), Enrolled { record: LogIndex(1), expires: i64::MAX });
        let all = EnrolledCertificates(Arc::new(rows));
        let shown = all.samples(1_000_000);
        assert_eq!(shown.len(), SHOWN_MAX);
        let last = SHOWN_MAX + 9;
        assert_eq!(&*shown[0].0[2].1, format!("dfsp{last}"));
        assert_eq!(shown[0].1.to_string(), (10_000_000 - last).to_string());
        let ended = 10_000_000 + ENDED_SECONDS;
        assert_eq!(all.samples(ended - 1).len(), 1, "that of dfsp0");
        assert_eq!(all.samples(ended), []);
    }
}
