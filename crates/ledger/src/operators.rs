//! Operators of the admin API: their roles, their credentials and their tokens.
//!
//! The kernel stores what the admin API decides with. It knows neither the names of permissions
//! nor cryptography: permissions are texts, and credentials are hashes or encrypted bytes. No
//! secret is part of the state.
//!
//! Costs: a map entry per row. Bounds: [`ROLES_MAX`], [`OPERATORS_MAX`], [`TOKENS_MAX`].

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::field::{Bytes, List, Plain, SHORT, Secret, Text, stored};
use crate::ids::{Digest, OperatorTokenId, Stamp};

/// Maximum number of roles that operators have defined.
pub const ROLES_MAX: usize = 100;
/// Maximum number of operators. An operator is never removed.
pub const OPERATORS_MAX: usize = 1_000;
/// Maximum number of tokens. Expired ones are removed when one more is created.
pub const TOKENS_MAX: usize = 1_000;
/// Maximum number of permissions of a role.
pub const PERMISSIONS_MAX: usize = 32;
/// Maximum number of roles of an operator, and of a token.
pub const GRANTED_ROLES_MAX: usize = 16;

stored! {
    /// A named set of permissions.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct OperatorRole {
        /// Its name.
        pub name: String as Text<SHORT>,
        /// Names of permissions.
        pub permissions: Vec<String> as List<PERMISSIONS_MAX, Text<SHORT>>,
    }
}

stored! {
    /// A person or a service that uses the admin API.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Operator {
        /// Its name.
        pub name: String as Text<SHORT>,
        /// Names of its roles, built-in or defined.
        pub roles: Vec<String> as List<GRANTED_ROLES_MAX, Text<SHORT>>,
        /// Whether it may use the admin API.
        pub active: bool,
        /// Rises when its sessions end: it was disabled, or a credential was changed.
        pub generation: u32,
        /// Hash of its password; empty without one.
        pub password: String as Secret<Text<SHORT>>,
        /// Encrypted secret of its second factor; empty without one.
        pub second_factor: Vec<u8> as Secret<Bytes<SHORT>>,
        /// When it was added.
        pub created: Stamp,
    }
}

stored! {
    /// A token that authenticates an operator.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct OperatorToken {
        /// Its id, chosen at random by the admin API.
        pub id: OperatorTokenId,
        /// The operator.
        pub operator: String as Text<SHORT>,
        /// Roles to which the token is restricted; empty for all roles of the operator.
        pub roles: Vec<String> as List<GRANTED_ROLES_MAX, Text<SHORT>>,
        /// Hash of the secret.
        pub hash: Digest as Secret<Plain>,
        /// Purpose of the token.
        pub description: String as Text<SHORT>,
        /// When it was created.
        pub created: Stamp,
        /// From this time on it is refused.
        pub expires: Stamp,
    }
}

/// Roles, operators and tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorBook {
    pub(crate) roles: BTreeMap<String, OperatorRole>,
    pub(crate) operators: BTreeMap<String, Operator>,
    pub(crate) tokens: BTreeMap<OperatorTokenId, OperatorToken>,
}

impl OperatorBook {
    /// The defined roles, in order of name.
    pub fn roles(&self) -> impl Iterator<Item = &OperatorRole> {
        self.roles.values()
    }

    /// The defined role of this name.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<&OperatorRole> {
        self.roles.get(name)
    }

    /// The operators, in order of name.
    pub fn operators(&self) -> impl Iterator<Item = &Operator> {
        self.operators.values()
    }

    /// The operator of this name.
    #[must_use]
    pub fn operator(&self, name: &str) -> Option<&Operator> {
        self.operators.get(name)
    }

    /// The tokens, in order of id, expired ones included.
    pub fn tokens(&self) -> impl Iterator<Item = &OperatorToken> {
        self.tokens.values()
    }

    /// The token with this id, even if it has expired.
    #[must_use]
    pub fn token(&self, id: OperatorTokenId) -> Option<&OperatorToken> {
        self.tokens.get(&id)
    }

    /// Whether an operator or a token has a role.
    pub(crate) fn is_granted(&self, role: &str) -> bool {
        let mut of_operators = self.operators.values().flat_map(|it| &it.roles);
        let mut of_tokens = self.tokens.values().flat_map(|it| &it.roles);
        of_operators.any(|name| name == role) || of_tokens.any(|name| name == role)
    }
}
