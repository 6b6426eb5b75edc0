//! `POST /ledgerAccountTypes`: adds a name to the catalogue; accounts keep the kernel's own kinds
//! (hub-semantics 4.1).

use crate::accounts::AccountKind;
use crate::command::LedgerAccountType;
use crate::context::Context;
use crate::outcome::Outcome;
use crate::register::LEDGER_ACCOUNT_TYPES_MAX;

pub(super) fn create(context: &mut Context<'_>, added: &LedgerAccountType) -> Outcome {
    let register = &mut context.state.register;
    let known = |known: &LedgerAccountType| known.name == added.name;
    if AccountKind::parse(&added.name).is_some() || register.account_types().iter().any(known) {
        return Outcome::LedgerAccountTypeExists;
    }
    if register.account_types().len() == LEDGER_ACCOUNT_TYPES_MAX {
        return Outcome::RegisterFull;
    }
    register.add_account_type(added.clone());
    Outcome::Accepted
}
