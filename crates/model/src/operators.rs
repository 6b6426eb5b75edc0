//! The model of operators, their roles and tokens, as `docs/security/operators.md` has them.

use std::collections::BTreeMap;

use ledger::{
    Change, CreateToken, OPERATORS_MAX, Outcome, ROLES_MAX, RecordAudit, RemoveRole, RevokeToken,
    SetOperator, SetPassword, SetRole, SetSecondFactor, State, TOKENS_MAX,
};

use super::{Model, Predict};

/// The first version of the rules with operators.
pub(super) const OPERATOR_RULES: u32 = 4;

/// An operator: whether it is active, how often its sessions ended, and its credentials.
#[derive(Clone, Debug, Default)]
struct KnownOperator {
    active: bool,
    roles: Vec<String>,
    ended: u32,
    password: String,
    factor: Vec<u8>,
}

/// Operators, roles and tokens by name or id.
#[derive(Clone, Debug, Default)]
pub(super) struct Operators {
    roles: BTreeMap<String, Vec<String>>,
    operators: BTreeMap<String, KnownOperator>,
    tokens: BTreeMap<u64, CreateToken>,
}

impl Operators {
    /// Whether anyone besides the shared token may use the admin API.
    pub(super) fn has_active(&self) -> bool {
        self.operators.values().any(|it| it.active)
    }

    /// The state holds exactly the accepted entries.
    pub(super) fn compare(&self, state: &State) {
        let book = state.operators();
        let roles = book.roles().map(|role| (&role.name, &role.permissions));
        assert!(roles.eq(&self.roles), "roles: {book:?}, not {self:?}");
        let names = book.operators().map(|operator| &operator.name);
        assert!(names.eq(self.operators.keys()), "operators: {book:?}, not {self:?}");
        for operator in book.operators() {
            let known = &self.operators[&operator.name];
            assert_eq!(operator.roles, known.roles, "{}", operator.name);
            assert_eq!(operator.active, known.active, "{}", operator.name);
            assert_eq!(operator.generation, known.ended, "{}", operator.name);
            assert_eq!(operator.password, known.password, "{}", operator.name);
            assert_eq!(operator.second_factor, known.factor, "{}", operator.name);
        }
        let ids = book.tokens().map(|token| token.id.0);
        assert!(ids.eq(self.tokens.keys().copied()), "tokens: {book:?}, not {self:?}");
        for token in book.tokens() {
            let known = &self.tokens[&token.id.0];
            assert_eq!((&token.operator, &token.roles), (&known.operator, &known.roles));
            assert_eq!((token.hash, token.expires), (known.hash, known.expires));
        }
    }
}

impl Predict for SetRole {
    fn predict(&self, model: &mut Model) -> Outcome {
        let roles = &mut model.operators.roles;
        let is_new = !roles.contains_key(&self.role.name);
        if model.rules < OPERATOR_RULES || is_new && roles.len() == ROLES_MAX {
            return Outcome::RegistryFull;
        }
        roles.insert(self.role.name.clone(), self.role.permissions.clone());
        Outcome::Accepted
    }
}

impl Predict for RemoveRole {
    fn predict(&self, model: &mut Model) -> Outcome {
        let Operators { roles, operators, tokens } = &mut model.operators;
        if !roles.contains_key(&self.name) {
            return Outcome::RoleNotFound;
        }
        let has = |roles: &Vec<String>| roles.contains(&self.name);
        if operators.values().any(|it| has(&it.roles)) || tokens.values().any(|it| has(&it.roles)) {
            return Outcome::RoleInUse;
        }
        roles.remove(&self.name);
        Outcome::Accepted
    }
}

impl Predict for SetOperator {
    fn predict(&self, model: &mut Model) -> Outcome {
        let operators = &mut model.operators.operators;
        let is_new = !operators.contains_key(&self.name);
        if is_new && (model.rules < OPERATOR_RULES || operators.len() == OPERATORS_MAX) {
            return Outcome::RegistryFull;
        }
        let operator = operators.entry(self.name.clone()).or_default();
        if operator.active && !self.active {
            operator.ended += 1;
        }
        operator.active = self.active;
        operator.roles = self.roles.clone();
        Outcome::Accepted
    }
}

impl Predict for CreateToken {
    fn predict(&self, model: &mut Model) -> Outcome {
        let now = model.stamp;
        let Operators { operators, tokens, .. } = &mut model.operators;
        if !operators.contains_key(&self.operator) {
            return Outcome::OperatorNotFound;
        }
        if tokens.contains_key(&self.id.0) {
            return Outcome::TokenExists;
        }
        if TOKENS_MAX <= tokens.len() {
            tokens.retain(|_, token| token.expires > now);
            if TOKENS_MAX <= tokens.len() {
                return Outcome::RegistryFull;
            }
        }
        tokens.insert(self.id.0, self.clone());
        Outcome::Accepted
    }
}

impl Model {
    /// Whether the change leaves each operator at most the rights that it has.
    pub(super) fn only_takes_rights(&self, change: &Change) -> bool {
        let within = |new: &[String], old: &[String]| new.iter().all(|it| old.contains(it));
        let Operators { roles, operators, .. } = &self.operators;
        if let Change::SetOperator(it) = change {
            let Some(known) = operators.get(&it.name) else { return false };
            return within(&it.roles, &known.roles) && (known.active || !it.active);
        }
        if let Change::SetRole(it) = change {
            let known = roles.get(&it.role.name);
            return known.is_some_and(|known| within(&it.role.permissions, known));
        }
        if let Change::EndEnrolment(it) = change {
            return it.certificate.is_none();
        }
        let removes_password = |it: &SetPassword| it.hash.is_empty();
        matches!(change, Change::RemoveRole(_))
            || matches!(change, Change::SetPassword(it) if removes_password(it))
    }
}

/// Requests that made no change are recorded, whatever the state.
impl Predict for RecordAudit {
    fn predict(&self, _model: &mut Model) -> Outcome {
        Outcome::Accepted
    }
}

impl Predict for RevokeToken {
    fn predict(&self, model: &mut Model) -> Outcome {
        match model.operators.tokens.remove(&self.id.0) {
            None => Outcome::TokenNotFound,
            Some(_) => Outcome::Accepted,
        }
    }
}

impl Predict for SetPassword {
    fn predict(&self, model: &mut Model) -> Outcome {
        let Some(operator) = model.operators.operators.get_mut(&self.operator) else {
            return Outcome::OperatorNotFound;
        };
        operator.password = self.hash.clone();
        operator.ended += 1;
        Outcome::Accepted
    }
}

impl Predict for SetSecondFactor {
    fn predict(&self, model: &mut Model) -> Outcome {
        let Some(operator) = model.operators.operators.get_mut(&self.operator) else {
            return Outcome::OperatorNotFound;
        };
        operator.factor = self.secret.clone();
        operator.ended += 1;
        Outcome::Accepted
    }
}
