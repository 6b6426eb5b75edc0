//! How runs reach the outcomes of erasures.

use ledger::{AdminOutcome, Change, Erase, ErasureForm, LogIndex, RecordRange};

use super::{By, Reach, Reached};

impl Reach for Erase {
    const REACHED: Reached = &[
        (AdminOutcome::ErasureInvalid, By::Aim(|_| vec![erasure(u64::MAX)])),
        (AdminOutcome::RegistryFull, By::Nothing("a run is too short to fill the table")),
        (AdminOutcome::Accepted, By::Aim(|_| vec![erasure(1)])),
    ];
}

/// An erasure of the first records, up to this one.
fn erasure(last: u64) -> Change {
    let records = vec![RecordRange { first: LogIndex(1), last: LogIndex(last) }];
    let subject = "2026-01-01T00:00:00.000Z".to_owned();
    Erase { form: ErasureForm::Before, subject, records, contents: 0 }.into()
}
