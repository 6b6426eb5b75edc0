//! How runs reach the outcomes of changes of windows and settlements: by the settlement workload
//! ([`crate::workload::settlement`]), which asks for right steps and wrong ones.

use ledger::{
    AbortSettlement, AdminOutcome, AdvanceSettlement, CloseWindow, CreateFeeRule, CreateSettlement,
    SetFeeRuleActive,
};

use super::{By, Reach, Reached};

const TOO_SHORT: &str = "a run is too short to fill the table";

impl Reach for CloseWindow {
    const REACHED: Reached = &[
        (AdminOutcome::WindowNotFound, By::Chance),
        (AdminOutcome::WindowNotOpen, By::Chance),
        (AdminOutcome::WindowEmpty, By::Chance),
        (AdminOutcome::RegistryFull, By::Nothing(TOO_SHORT)),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for CreateSettlement {
    const REACHED: Reached = &[
        (AdminOutcome::SettlementModelNotFound, By::Chance),
        (AdminOutcome::SettlementModelGross, By::Chance),
        (AdminOutcome::WindowsInapplicable, By::Chance),
        (AdminOutcome::RegistryFull, By::Nothing(TOO_SHORT)),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for AdvanceSettlement {
    const REACHED: Reached = &[
        (AdminOutcome::SettlementNotFound, By::Chance),
        (AdminOutcome::SettlementArchived, By::Chance),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for AbortSettlement {
    const REACHED: Reached = &[
        (AdminOutcome::SettlementNotFound, By::Chance),
        (AdminOutcome::SettlementArchived, By::Chance),
        (AdminOutcome::SettlementCommitted, By::Chance),
        (AdminOutcome::SettlementAccountCommitted, By::Chance),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for CreateFeeRule {
    const REACHED: Reached = &[
        (AdminOutcome::FeeRuleExists, By::Chance),
        (AdminOutcome::SettlementModelMissing, By::Chance),
        (AdminOutcome::RegistryFull, By::Nothing(TOO_SHORT)),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for SetFeeRuleActive {
    const REACHED: Reached =
        &[(AdminOutcome::FeeRuleNotFound, By::Chance), (AdminOutcome::Accepted, By::Chance)];
}
