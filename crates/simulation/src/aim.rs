//! How runs reach the outcomes of changes.
//!
//! Each change declares how each of its outcomes is reached ([`Reach`]). An omitted outcome does
//! not compile. The [`outcomes`](crate::workload::outcomes) workload asks for the aims.

mod enrolments;
mod erasures;
mod funds;
mod liquidity;
mod operators;
mod proposals;
mod reference_data;
mod scheme;
mod settlement;

use ledger::{
    AccountId, Activate, AdminOutcome, AssignParties, Change, Configure, Currency, DropDeadLetter,
    FormerOwner, FspName, NoticeId, Outcome, PartyBinding, PartyChangeForm, Redeliver,
    RegisterParties, State,
};

use crate::transfers::{Actors, GHOST};
use crate::workload::outcomes::OutcomeWorkload;

/// Why runs do not reach an outcome that they could reach.
const UNAIMED: &str =
    "the kernel's scenarios reach it; another aim would change the runs of all seeds";

/// How runs reach an outcome of a change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    /// The outcome workload asks for these changes.
    Aim(Aim),
    /// The outcome workload's aim at this outcome of another change, which picks one of several
    /// changes.
    SharedAim,
    /// Reached by the other workloads, or by an aim at another outcome, without aiming at this one.
    Chance,
    /// Runs do not reach it, or only rarely, for this reason.
    Nothing(&'static str),
}

/// The changes to ask for, as far as the hub's state lets them have the outcome.
pub(crate) type Aim = fn(&mut Situation<'_>) -> Vec<Change>;

/// How runs reach each outcome of a change.
pub(crate) type Reached = &'static [(AdminOutcome, By)];

/// Declares how runs reach the outcomes of a change.
pub(crate) trait Reach {
    /// For each declared outcome, in the declared order.
    const REACHED: Reached;
}

/// The situation in which the outcome workload asks.
pub(crate) struct Situation<'a> {
    pub(crate) outcome_workload: &'a mut OutcomeWorkload,
    pub(crate) actors: &'a Actors,
    /// The state of the hub, while it is up.
    pub(crate) state: Option<&'a State>,
    /// A participant, drawn.
    pub(crate) name: FspName,
}

impl Situation<'_> {
    /// A currency that every participant has.
    pub(crate) fn currency(&self) -> Currency {
        self.actors.currency(0)
    }

    /// A currency that no participant has.
    pub(crate) fn unused_currency(&self) -> Currency {
        Currency::parse("XTS").expect("three letters")
    }

    /// A name that no participant has.
    pub(crate) fn ghost(&self) -> FspName {
        self.actors.name(GHOST)
    }

    /// POSITION and SETTLEMENT of a participant, in [`Self::currency`].
    pub(crate) fn accounts_in(&self, name: &FspName) -> Option<(AccountId, AccountId)> {
        let (_, participant) = self.state?.registry().find(name)?;
        participant
            .accounts_in(self.currency())
            .map(|accounts| (accounts.position, accounts.settlement))
    }
}

/// Demands of every change how its outcomes are reached.
macro_rules! reach_each {
    ($($change:ident),*) => {
        /// How the outcomes of all changes are reached.
        const ALL: &[Reached] = &[$(<ledger::$change as Reach>::REACHED),*];

        $( const _: () = assert!(
            names(<ledger::$change as Reach>::REACHED, ledger::$change::DECLARATION.outcomes),
            concat!(
                stringify!($change),
                ": `REACHED` must name each of its declared outcomes, in their order",
            ),
        ); )*
    };
}
ledger::for_each_change!(reach_each);

/// Whether these are the declared outcomes, in their order; panics when one shares an aim that no
/// change has.
const fn names(reached: Reached, declared: &[AdminOutcome]) -> bool {
    let mut at = 0;
    while at < reached.len() && at < declared.len() {
        let (outcome, by) = reached[at];
        match by {
            By::Aim(_) | By::Chance => (),
            By::SharedAim => assert!(is_aimed_at(outcome), "no change has the aim to be shared"),
            By::Nothing(reason) => assert!(!reason.is_empty(), "the reason is missing"),
        }
        if outcome as u16 != declared[at] as u16 {
            return false;
        }
        at += 1;
    }
    reached.len() == declared.len()
}

/// Whether a change has an aim at the outcome.
const fn is_aimed_at(outcome: AdminOutcome) -> bool {
    let mut change = 0;
    while change < ALL.len() {
        let mut at = 0;
        while at < ALL[change].len() {
            let (reached, by) = ALL[change][at];
            if reached as u16 == outcome as u16 && matches!(by, By::Aim(_)) {
                return true;
            }
            at += 1;
        }
        change += 1;
    }
    false
}

/// The name of each change, with each outcome that runs reach.
pub fn reachable() -> impl Iterator<Item = (&'static str, Outcome)> {
    ALL.iter().zip(Change::DECLARATIONS).flat_map(|(reached, declared)| {
        let reached = reached.iter().filter(|(_, by)| !matches!(by, By::Nothing(_)));
        reached.map(|(outcome, _)| (declared.name, outcome.outcome()))
    })
}

/// The aims of all changes, each with its outcome, in order of declaration.
pub(crate) fn all() -> impl Iterator<Item = (AdminOutcome, Aim)> {
    ALL.iter().copied().flatten().filter_map(|(outcome, by)| match by {
        By::Aim(aim) => Some((*outcome, *aim)),
        By::SharedAim | By::Chance | By::Nothing(_) => None,
    })
}

impl Reach for Configure {
    const REACHED: Reached = &[(AdminOutcome::Accepted, By::Chance)];
}

impl Reach for Activate {
    const REACHED: Reached = &[
        (
            AdminOutcome::RulesVersionRefused,
            By::Aim(|it| {
                let rules_version = it.outcome_workload.random.pick(&[0, 1, u32::MAX]);
                vec![Activate { rules_version }.into()]
            }),
        ),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for RegisterParties {
    const REACHED: Reached = &[
        (AdminOutcome::ParticipantNotFound, By::Aim(|_| vec![registration("unknown")])),
        (AdminOutcome::Accepted, By::Aim(|_| vec![RegisterParties { parties: Vec::new() }.into()])),
    ];
}

impl Reach for AssignParties {
    const REACHED: Reached = &[
        (
            AdminOutcome::ParticipantNotFound,
            By::Aim(|situation| vec![assignment(situation, Some("unknown"))]),
        ),
        (AdminOutcome::Accepted, By::Aim(|situation| vec![assignment(situation, None)])),
    ];
}

/// An operator's change that takes an identifier from every participant.
fn assignment(situation: &Situation<'_>, fsp: Option<&str>) -> Change {
    let participants = situation.state.into_iter().flat_map(|state| state.registry().iter());
    let former = participants.map(|(_, it)| FormerOwner { party: 0, fsp: it.name }).collect();
    let parties = fsp.map(party_of).into_iter().collect();
    AssignParties { form: PartyChangeForm::Batch, parties, former }.into()
}

fn registration(fsp: &str) -> Change {
    RegisterParties { parties: vec![party_of(fsp)] }.into()
}

fn party_of(fsp: &str) -> PartyBinding {
    PartyBinding {
        id_type: "MSISDN".to_owned(),
        id: "1".to_owned(),
        sub_id: None,
        currency: None,
        fsp: FspName::new(fsp).expect("a name"),
    }
}

impl Reach for DropDeadLetter {
    const REACHED: Reached = &[
        (
            AdminOutcome::DeadLetterNotFound,
            By::Aim(|_| vec![DropDeadLetter { notice: NoticeId(u64::MAX) }.into()]),
        ),
        (
            AdminOutcome::Accepted,
            By::Aim(|situation| {
                let letter = situation.state.and_then(|state| state.dead_letters().next());
                letter
                    .map(|letter| DropDeadLetter { notice: letter.notice.id }.into())
                    .into_iter()
                    .collect()
            }),
        ),
    ];
}

impl Reach for Redeliver {
    const REACHED: Reached = &[
        (
            AdminOutcome::DeadLetterNotFound,
            By::Aim(|_| vec![Redeliver { notice: NoticeId(u64::MAX) }.into()]),
        ),
        (AdminOutcome::Accepted, By::Chance),
    ];
}
