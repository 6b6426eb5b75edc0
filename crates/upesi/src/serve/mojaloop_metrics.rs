//! The reference's metrics, so that dashboards which were made for it show a switch as well.
//!
//! [`TABLE`](table::TABLE) declares each metric once, with the stage of the switch that it
//! measures. Two families of names follow from a row: with the prefix of the row's service, and
//! with the prefix that all services share. Both show the same values, which are computed during a
//! scrape.

mod row;
mod samples;
mod table;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use metrics::{Family, MetricFamily, Sample};

use self::row::ReferenceRow;
pub(crate) use self::row::{DecisionValues, ReferenceSources};
use self::table::TABLE;
use crate::config::MojaloopNames;

/// The names of a row under one setting.
struct NamedRow {
    row: &'static ReferenceRow,
    /// Names, each with the value of the label `serviceName`.
    names: Vec<(String, &'static str)>,
}

fn named_rows(names: MojaloopNames) -> Vec<NamedRow> {
    TABLE.iter().map(|row| NamedRow { row, names: row.names(names) }).collect()
}

static BOTH: LazyLock<Vec<NamedRow>> = LazyLock::new(|| named_rows(MojaloopNames::Both));
static PER_SERVICE: LazyLock<Vec<NamedRow>> =
    LazyLock::new(|| named_rows(MojaloopNames::PerService));
static COMMON: LazyLock<Vec<NamedRow>> = LazyLock::new(|| named_rows(MojaloopNames::Common));

/// The metrics under a setting.
pub(crate) fn collect(names: MojaloopNames, now: &ReferenceSources<'_>) -> Vec<Family> {
    let rows = match names {
        MojaloopNames::Both => &BOTH,
        MojaloopNames::PerService => &PER_SERVICE,
        MojaloopNames::Common => &COMMON,
        MojaloopNames::Off => return Vec::new(),
    };
    let mut families = Families::default();
    rows.iter().for_each(|named| families.add(named, (named.row.samples)(now)));
    families.families
}

/// Families in the order of the table. Rows with the same name share one.
#[derive(Default)]
struct Families {
    families: Vec<Family>,
    by_name: BTreeMap<&'static str, usize>,
}

impl Families {
    fn add(&mut self, named: &'static NamedRow, samples: Vec<Sample>) {
        if samples.is_empty() {
            return;
        }
        let is_declared = |name: &str| named.row.labels.contains(&name);
        let all = || samples.iter().flat_map(|sample| &sample.labels);
        debug_assert!(all().all(|(name, _)| is_declared(name)), "{:?}: {samples:?}", named.row);
        for (name, service_name) in &named.names {
            let with_service = samples.iter().cloned().map(|mut sample| {
                if !service_name.is_empty() {
                    sample.labels.insert(0, ("serviceName", Cow::Borrowed(*service_name)));
                }
                sample
            });
            self.family(name, named.row).samples.extend(with_service);
        }
    }

    fn family(&mut self, name: &'static str, row: &ReferenceRow) -> &mut Family {
        let at = *self.by_name.entry(name).or_insert_with(|| {
            let metric = MetricFamily { kind: row.kind, name, help: row.help };
            self.families.push(Family { metric, samples: Vec::new() });
            self.families.len() - 1
        });
        &mut self.families[at]
    }
}

#[cfg(test)]
mod tests;
