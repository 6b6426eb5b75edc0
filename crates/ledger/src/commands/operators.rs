//! `/roles`, `/operators`, `/tokens`: who may use the admin API.

use alloc::string::String;
use alloc::vec::Vec;

use crate::change::{
    CreateToken, RemoveRole, RevokeToken, SetOperator, SetPassword, SetRole, SetSecondFactor,
};
use crate::context::{Context, Decide};
use crate::operators::{
    OPERATORS_MAX, Operator, OperatorBook, OperatorToken, ROLES_MAX, TOKENS_MAX,
};
use crate::outcome::AdminOutcome;
use crate::rules::OPERATORS;

impl Decide for SetRole {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        // Earlier rules know no roles.
        let is_known = OPERATORS <= context.state.rules_version;
        let roles = &mut context.state.operators.roles;
        if !is_known || (roles.len() == ROLES_MAX && !roles.contains_key(&self.role.name)) {
            return AdminOutcome::RegistryFull;
        }
        roles.insert(self.role.name.clone(), self.role.clone());
        AdminOutcome::Accepted
    }
}

impl Decide for RemoveRole {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let book = &mut context.state.operators;
        if !book.roles.contains_key(&self.name) {
            return AdminOutcome::RoleNotFound;
        }
        if book.is_granted(&self.name) {
            return AdminOutcome::RoleInUse;
        }
        book.roles.remove(&self.name);
        AdminOutcome::Accepted
    }
}

impl Decide for SetOperator {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let (now, is_known) = (context.state.stamp, OPERATORS <= context.state.rules_version);
        let operators = &mut context.state.operators.operators;
        if let Some(operator) = operators.get_mut(&self.name) {
            operator.generation += u32::from(operator.active && !self.active);
            operator.roles.clone_from(&self.roles);
            operator.active = self.active;
            return AdminOutcome::Accepted;
        }
        if !is_known || operators.len() == OPERATORS_MAX {
            return AdminOutcome::RegistryFull;
        }
        let operator = Operator {
            name: self.name.clone(),
            roles: self.roles.clone(),
            active: self.active,
            generation: 0,
            password: String::new(),
            second_factor: Vec::new(),
            created: now,
        };
        operators.insert(self.name.clone(), operator);
        AdminOutcome::Accepted
    }
}

impl Decide for CreateToken {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let now = context.state.stamp;
        let OperatorBook { operators, tokens, .. } = &mut context.state.operators;
        if !operators.contains_key(&self.operator) {
            return AdminOutcome::OperatorNotFound;
        }
        if tokens.contains_key(&self.id) {
            return AdminOutcome::TokenExists;
        }
        if tokens.len() == TOKENS_MAX {
            tokens.retain(|_, token| now < token.expires);
        }
        if tokens.len() == TOKENS_MAX {
            return AdminOutcome::RegistryFull;
        }
        let token = OperatorToken {
            id: self.id,
            operator: self.operator.clone(),
            roles: self.roles.clone(),
            hash: self.hash,
            description: self.description.clone(),
            created: now,
            expires: self.expires,
        };
        tokens.insert(self.id, token);
        AdminOutcome::Accepted
    }
}

impl Decide for RevokeToken {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        match context.state.operators.tokens.remove(&self.id) {
            Some(_) => AdminOutcome::Accepted,
            None => AdminOutcome::TokenNotFound,
        }
    }
}

impl Decide for SetPassword {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        change_credential(context, &self.operator, |operator| {
            operator.password.clone_from(&self.hash);
        })
    }
}

impl Decide for SetSecondFactor {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        change_credential(context, &self.operator, |operator| {
            operator.second_factor.clone_from(&self.secret);
        })
    }
}

/// Changes a credential and ends the sessions of the operator.
fn change_credential(
    context: &mut Context<'_>,
    name: &str,
    change: impl FnOnce(&mut Operator),
) -> AdminOutcome {
    match context.state.operators.operators.get_mut(name) {
        None => AdminOutcome::OperatorNotFound,
        Some(operator) => {
            operator.generation += 1;
            change(operator);
            AdminOutcome::Accepted
        }
    }
}
