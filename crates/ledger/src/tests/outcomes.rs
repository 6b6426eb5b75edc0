//! The enum of outcomes is complete, and every outcome occurs in the scenarios.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::scenario::play;
use super::scenarios;
use crate::Outcome;

/// Outcomes that no line of a scenario answers with. The first is never an answer:
/// `look_up.txt` shows it as the end of an outflow. The second takes the ten-thousandth
/// participant, the two-hundred-thousandth account, or the like: `properties::full_tables_refuse`
/// shows it.
const SHOWN_ELSEWHERE: [Outcome; 2] = [Outcome::FundsOutAborted, Outcome::RegisterFull];

#[test]
fn the_list_of_outcomes_has_no_gaps() {
    // A number that is not listed can not be read back; so what the list lacks is found by
    // reading every number there is.
    let readable = (0..=u16::MAX).filter_map(Outcome::from_number).count();
    assert_eq!(readable, Outcome::ALL.len());
    for outcome in Outcome::ALL.iter().copied() {
        assert_eq!(Outcome::from_number(outcome.number()), Some(outcome));
    }
}

#[test]
fn every_outcome_occurs_in_the_scenarios() {
    let seen: BTreeSet<Outcome> =
        scenarios::ALL.iter().flat_map(|text| play(text).outcomes).collect();
    let unseen: Vec<_> = Outcome::ALL.iter().filter(|outcome| !seen.contains(outcome)).collect();
    assert_eq!(unseen, SHOWN_ELSEWHERE.iter().collect::<Vec<_>>());
}
