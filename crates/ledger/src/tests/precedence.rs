//! Precedence of the checks of a prepare: whoever breaks two rules hears of the earlier one.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::scenario::last_outcome;
use crate::{Outcome, PrepareOutcome};

/// A way to break one rule: what happens before, and what the prepare itself has wrong.
struct Violation {
    outcome: Outcome,
    before: &'static str,
    words: &'static [(Word, &'static str)],
}

/// A part of the prepare; two violations that need the same part can not be combined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Source,
    Payer,
    Payee,
    Amount,
    Currency,
    Expiration,
}

use Word::*;

/// In the order of the checks.
const VIOLATIONS: [Violation; 17] = [
    violation(Outcome::SenderNotFound, "", &[(Source, "nobody")]),
    violation(Outcome::PrepareModified, "prepare t1 dfsp3 dfsp2 0 body=other", &[]),
    violation(Outcome::PrepareSourceNotPayer, "", &[(Source, "dfsp3")]),
    violation(Outcome::PrepareAmountPrecision, "", &[(Amount, "100000000000000.0001")]),
    violation(Outcome::PreparePayerNotFound, "", &[(Payer, "DFSP1")]),
    violation(Outcome::PreparePayerInactive, "participant-active dfsp1 off", &[]),
    violation(Outcome::PreparePayeeNotFound, "", &[(Payee, "no-one")]),
    violation(Outcome::PreparePayeeInactive, "participant-active dfsp2 off", &[(Payee, "dfsp2")]),
    violation(Outcome::PrepareExpirationPast, "", &[(Expiration, "4s")]),
    violation(Outcome::PreparePayerIsPayee, "", &[(Payee, "dfsp1")]),
    violation(Outcome::PreparePayerAccountNotFound, "", &[(Currency, "EUR")]),
    violation(Outcome::PreparePayerAccountInactive, "account-active dfsp1 POSITION.USD off", &[]),
    violation(Outcome::PreparePayeeAccountNotFound, "", &[(Payee, "eurofsp")]),
    violation(
        Outcome::PreparePayeeAccountInactive,
        "account-active dfsp2 POSITION.USD off",
        &[(Payee, "dfsp2")],
    ),
    violation(Outcome::PreparePayeeLaneFull, "settings lane=0", &[]),
    violation(
        Outcome::PrepareLiquidityInsufficient,
        "funds-out f5 dfsp1 SETTLEMENT.USD 1000 USD",
        &[],
    ),
    violation(Outcome::PrepareCapExceeded, "limit dfsp1 USD 1", &[]),
];

/// Pairs of neighbours that no prepare can break together.
const EXCLUSIVE: [(Outcome, Outcome); 6] = [
    // Nobody is unknown and switched off, or without an account and with one switched off.
    (Outcome::PreparePayerNotFound, Outcome::PreparePayerInactive),
    (Outcome::PreparePayeeNotFound, Outcome::PreparePayeeInactive),
    (Outcome::PreparePayerAccountNotFound, Outcome::PreparePayerAccountInactive),
    (Outcome::PreparePayeeAccountNotFound, Outcome::PreparePayeeAccountInactive),
    // A payee that is the payer has the payer's accounts, and is known if the payer is.
    (Outcome::PreparePayerNotFound, Outcome::PreparePayerIsPayee),
    (Outcome::PreparePayerIsPayee, Outcome::PreparePayeeAccountNotFound),
];

#[test]
fn the_earlier_of_two_broken_rules_is_the_outcome() {
    for (at, first) in VIOLATIONS.iter().enumerate() {
        assert_eq!(outcome_of(&[first]), first.outcome, "alone");
        for second in &VIOLATIONS[at + 1..] {
            if combinable(first, second) {
                let outcome = outcome_of(&[first, second]);
                assert_eq!(outcome, first.outcome, "together with {:?}", second.outcome);
            }
        }
    }
}

#[test]
fn every_pair_of_neighbours_is_combined_or_exclusive() {
    for pair in VIOLATIONS.windows(2) {
        let (first, second) = (&pair[0], &pair[1]);
        let exclusive = EXCLUSIVE.contains(&(first.outcome, second.outcome));
        assert!(
            combinable(first, second) || exclusive,
            "{:?} and {:?}",
            first.outcome,
            second.outcome
        );
    }
}

#[test]
fn violations_have_the_declared_order_of_the_outcomes() {
    let mut declared = PrepareOutcome::ALL.iter().map(|outcome| outcome.outcome());
    for violation in &VIOLATIONS {
        assert!(declared.any(|it| it == violation.outcome), "{:?}", violation.outcome);
    }
}

const fn violation(
    outcome: Outcome,
    before: &'static str,
    words: &'static [(Word, &'static str)],
) -> Violation {
    Violation { outcome, before, words }
}

fn combinable(first: &Violation, second: &Violation) -> bool {
    let shares = |(word, _): &(Word, &str)| second.words.iter().any(|(other, _)| other == word);
    !first.words.iter().any(shares) && !EXCLUSIVE.contains(&(first.outcome, second.outcome))
}

fn outcome_of(violations: &[&Violation]) -> Outcome {
    let before: Vec<&str> = violations.iter().map(|violation| violation.before).collect();
    let word = |word, default: &'static str| -> &'static str {
        let mut all = violations.iter().flat_map(|violation| violation.words);
        all.find(|(other, _)| *other == word).map_or(default, |(_, value)| *value)
    };
    let payer = word(Payer, "dfsp1");
    let prepare: String = format!(
        "prepare t1 {payer} {} {} source={} currency={} exp={}",
        word(Payee, "dfsp2"),
        word(Amount, "10"),
        word(Source, payer),
        word(Currency, "USD"),
        word(Expiration, "60s"),
    );
    last_outcome(&format!("{}\nat 5s\n{prepare}", before.join("\n")))
}
