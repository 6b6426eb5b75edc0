//! The enum of outcomes is complete, and every outcome occurs in the scenarios.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::scenario::play;
use super::scenarios;
use crate::Outcome;

/// An outcome that no scenario produces. It never answers a command: `look_up.txt` shows it as the
/// end of an outflow.
const SHOWN_ELSEWHERE: [Outcome; 1] = [Outcome::FundsOutAborted];

#[test]
fn list_of_outcomes_is_complete() {
    // A number that is not listed cannot be read back, so reading every number finds missing ones.
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
