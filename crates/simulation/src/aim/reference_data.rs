//! How runs reach the outcomes of changes of oracles, types of accounts and keys.

use ledger::{
    AddKey, AdminOutcome, Change, CreateLedgerAccountType, CreateOracle, DeleteOracle,
    ENDPOINTS_MAX, LEDGER_ACCOUNT_TYPES_MAX, LedgerAccountType, RemoveKey, SetEndpoint,
    UpdateOracle,
};

use super::{By, Reach, Reached, Situation};

/// Bursts of requests that fill a register, in a thousand: they are long.
const BURSTS_PER_MILLE: u32 = 400;

impl Reach for CreateOracle {
    const REACHED: Reached = &[
        (AdminOutcome::OracleExists, By::Chance),
        (AdminOutcome::RegistryFull, By::Nothing("a run is too short to fill the table")),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for UpdateOracle {
    const REACHED: Reached = &[
        (AdminOutcome::OracleNotFound, By::Chance),
        (AdminOutcome::OracleExists, By::Chance),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for DeleteOracle {
    const REACHED: Reached = &[(AdminOutcome::Accepted, By::Chance)];
}

impl Reach for CreateLedgerAccountType {
    const REACHED: Reached = &[
        (AdminOutcome::LedgerAccountTypeExists, By::Aim(|_| vec![account_type("HUB_FEE")])),
        (AdminOutcome::RegistryFull, By::Aim(fill_a_register)),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for AddKey {
    const REACHED: Reached = &[
        (AdminOutcome::ParticipantNotFound, By::Chance),
        (AdminOutcome::KeysFull, By::Chance),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for RemoveKey {
    const REACHED: Reached = &[
        (AdminOutcome::ParticipantNotFound, By::Chance),
        (AdminOutcome::KeyNotFound, By::Chance),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

/// More than a register holds: endpoints of one participant, or types of accounts.
fn fill_a_register(situation: &mut Situation<'_>) -> Vec<Change> {
    let name = situation.name;
    let random = &mut situation.outcome_workload.random;
    if !random.chance(BURSTS_PER_MILLE) {
        return Vec::new();
    }
    let numbered = |number| format!("TYPE_{number}");
    match random.chance(500) {
        true => {
            let value = "http://fsp";
            let types = (0..=ENDPOINTS_MAX).map(numbered);
            types
                .map(|endpoint| SetEndpoint { name, endpoint, value: value.into() }.into())
                .collect()
        }
        false => {
            let types = (0..=LEDGER_ACCOUNT_TYPES_MAX).map(numbered);
            types.map(|name| account_type(&name)).collect()
        }
    }
}

fn account_type(name: &str) -> Change {
    let (name, description) = (name.into(), "one more".into());
    let account_type = LedgerAccountType { name, description, active: true, settleable: false };
    CreateLedgerAccountType { account_type }.into()
}
