//! `POST /ledgerAccountTypes`: adds an account type. Accounts keep the kernel's own kinds
//! (hub-semantics 4.1).

use crate::accounts::AccountKind;
use crate::change::{CreateLedgerAccountType, LedgerAccountType};
use crate::context::{Context, Decide};
use crate::outcome::AdminOutcome;
use crate::registry::LEDGER_ACCOUNT_TYPES_MAX;

impl Decide for CreateLedgerAccountType {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let added = &self.account_type;
        let registry = &mut context.state.registry;
        let known = |known: &LedgerAccountType| known.name == added.name;
        if AccountKind::parse(&added.name).is_some() || registry.account_types().iter().any(known) {
            return AdminOutcome::LedgerAccountTypeExists;
        }
        if registry.account_types().len() == LEDGER_ACCOUNT_TYPES_MAX {
            return AdminOutcome::RegistryFull;
        }
        registry.add_account_type(added.clone());
        AdminOutcome::Accepted
    }
}
