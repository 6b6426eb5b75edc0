//! Changes of a scheme that wait for a second operator: which were approved since the last run, and
//! which other changes wait for them.

use super::hub::{KnownHub, KnownProposal};
use super::steps::SchemeStep;
use crate::CliError;

/// The proposals of a hub, and the parts of the scheme that wait for them.
#[derive(Default)]
pub(super) struct Proposals {
    known: Vec<KnownProposal>,
    /// Object and text of each part that waits.
    waiting: Vec<(String, String)>,
}

impl Proposals {
    pub(super) fn read(hub: &mut KnownHub) -> Result<Self, CliError> {
        Ok(Self { known: hub.proposals()?, waiting: Vec::new() })
    }

    /// The approved proposals of parts that the hub has.
    pub(super) fn approved<'a>(&self, made: impl Iterator<Item = &'a SchemeStep>) -> Vec<u64> {
        let found = made.filter_map(|step| self.find_approved(&words_of(step)?));
        let mut found: Vec<_> = found.collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    fn find_approved(&self, words: &str) -> Option<u64> {
        let is_it =
            |it: &&KnownProposal| it.state == "APPROVED" && it.description.starts_with(words);
        self.known.iter().find(is_it).map(|it| it.proposal_id)
    }

    /// Notes that a part waits.
    pub(super) fn waits(&mut self, object: &str, wanted: &str) {
        self.waiting.push((object.to_owned(), wanted.to_owned()));
    }

    /// Whether a part depends on one that waits: everything of a participant on its accounts,
    /// accounts of participants on those of the hub, and a cap on the cap before.
    pub(super) fn must_wait(&self, object: &str, wanted: &str) -> bool {
        self.waiting.iter().any(|(waiting, part)| match waiting == object {
            true => part.starts_with(ACCOUNTS) || part.starts_with(CAP) && wanted.starts_with(CAP),
            false => wanted.starts_with(ACCOUNTS) && is_hub_account(part),
        })
    }
}

const ACCOUNTS: &str = "accounts in ";
const CAP: &str = "net debit cap ";
const FUNDS: &str = "funds in of ";
const ENDPOINT: &str = "FSPIOP_";
const KEY: &str = "public key ";

/// Whether a part is an account of the hub, such as `HUB_RECONCILIATION USD`.
fn is_hub_account(wanted: &str) -> bool {
    wanted.starts_with("HUB_")
}

/// The beginning of the description that the hub gives to the proposal of a step; `None` if its
/// changes are never recognised.
fn words_of(step: &SchemeStep) -> Option<String> {
    let (object, wanted) = (&step.object, &*step.wanted);
    if let Some(currency) = wanted.strip_prefix(ACCOUNTS) {
        return Some(format!("participant {object} in {currency}"));
    }
    if let Some(amount) = wanted.strip_prefix(FUNDS) {
        return Some(format!("funds in: {amount} of {object},"));
    }
    if let Some(id) = wanted.strip_prefix(KEY) {
        return Some(format!("public key {id} of {object}"));
    }
    if wanted.starts_with(ENDPOINT) {
        let (kind, value) = wanted.split_once(' ')?;
        return Some(format!("endpoint {kind} of {object}: {value}"));
    }
    if is_hub_account(wanted) {
        let (kind, currency) = wanted.split_once(' ')?;
        return Some(format!("hub account {kind} in {currency}"));
    }
    let (cap, alarm) = wanted.strip_prefix(CAP)?.split_once(", ")?;
    let (_, currency) = cap.split_once(' ')?;
    Some(match alarm.split_once(", initial position ") {
        Some((_, position)) => {
            format!("{CAP}{cap} and initial position {position} {currency} of {object}")
        }
        None => format!("{CAP}{cap} of {object}, {alarm}"),
    })
}

/// Numbers of proposals in words: `17`, `17 and 18`, `17, 18 and 19`.
pub(super) fn listed(ids: &[u64]) -> String {
    let texts: Vec<_> = ids.iter().map(u64::to_string).collect();
    let noun = if ids.len() == 1 { "proposal" } else { "proposals" };
    match &*texts {
        [] => String::new(),
        [one] => format!("{noun} {one}"),
        [most @ .., last] => format!("{noun} {} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::steps::Verdict;
    use super::*;

    #[test]
    fn steps_have_the_words_of_their_proposals() {
        for (wanted, expected) in [
            ("accounts in USD", Some("participant bank in USD")),
            (
                "net debit cap 100 USD, alarm at 10 %, initial position 0",
                Some("net debit cap 100 USD and initial position 0 USD of bank"),
            ),
            (
                "net debit cap 100 USD, alarm at 20 %",
                Some("net debit cap 100 USD of bank, alarm at 20 %"),
            ),
            ("funds in of 60 USD", Some("funds in: 60 USD of bank,")),
            (
                "FSPIOP_CALLBACK_URL_QUOTES http://b",
                Some("endpoint FSPIOP_CALLBACK_URL_QUOTES of bank: http://b"),
            ),
            ("public key ab12", Some("public key ab12 of bank")),
            ("HUB_RECONCILIATION USD", Some("hub account HUB_RECONCILIATION in USD")),
            ("enabled", None),
        ] {
            let step = SchemeStep {
                object: "bank".to_owned(),
                wanted: wanted.to_owned(),
                verdict: Verdict::Equal,
            };
            assert_eq!(words_of(&step).as_deref(), expected);
        }
    }

    #[test]
    fn parts_wait_for_those_that_they_need() {
        let mut proposals = Proposals::default();
        let needs = |proposals: &Proposals, parts: &[(&str, &str)]| {
            parts.iter().map(|(of, part)| proposals.must_wait(of, part)).collect::<Vec<_>>()
        };
        let parts = [
            ("bank", "net debit cap 1 USD, alarm at 20 %"),
            ("bank", "funds in of 60 USD"),
            ("other", "accounts in USD"),
            ("other", "net debit cap 1 USD, alarm at 20 %"),
        ];
        proposals.waits("bank", "net debit cap 1 USD, alarm at 10 %, initial position 0");
        assert_eq!(needs(&proposals, &parts), [true, false, false, false]);
        proposals.waits("bank", "accounts in USD");
        assert_eq!(needs(&proposals, &parts), [true, true, false, false]);
        proposals.waits("Hub", "HUB_RECONCILIATION USD");
        assert_eq!(needs(&proposals, &parts), [true, true, true, false]);
        proposals.waits("other", "accounts in USD");
        assert_eq!(needs(&proposals, &parts), [true, true, true, true]);
    }

    #[test]
    fn proposals_are_listed_in_words() {
        for (ids, expected) in [
            (&[17][..], "proposal 17"),
            (&[17, 18], "proposals 17 and 18"),
            (&[1, 2, 3], "proposals 1, 2 and 3"),
        ] {
            assert_eq!(listed(ids), expected);
        }
    }
}
