//! Permissions of the admin API, and the roles that grant them.
//!
//! Each route names its permission ([`crate::route::Route`]). A role is a set of permissions. The
//! built-in roles are declared here; operators can define others, which are stored on the log.

use ledger::OperatorBook;

/// The right to use a group of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Reads everything that another permission does not guard.
    Read,
    /// Changes participants, accounts, endpoints, parties and oracles; resends and drops dead
    /// letters; takes snapshots.
    Operate,
    /// Moves funds; changes caps, fee rules, models, windows and settlements.
    Finance,
    /// Changes keys, operators, roles and tokens.
    Security,
    /// Reads messages and explanations without masks, transaction objects, hashes of the state and
    /// the audit trail.
    Audit,
    /// Erases contents of messages, which cannot be undone.
    Erase,
}

impl Permission {
    /// All permissions, each with its name.
    pub(crate) const NAMED: [(&'static str, Self); 6] = [
        ("read", Self::Read),
        ("operate", Self::Operate),
        ("finance", Self::Finance),
        ("security", Self::Security),
        ("audit", Self::Audit),
        ("erase", Self::Erase),
    ];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        let found = Self::NAMED.iter().find(|(_, known)| *known == self);
        found.expect("every permission has a name").0
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, permission)| *permission)
    }
}

/// The built-in roles, which cannot be changed.
pub(crate) const BUILT_IN: [(&str, &[Permission]); 7] = [
    ("viewer", &[Permission::Read]),
    ("operator", &[Permission::Read, Permission::Operate]),
    ("finance", &[Permission::Read, Permission::Finance]),
    ("security", &[Permission::Read, Permission::Security]),
    ("auditor", &[Permission::Read, Permission::Audit]),
    ("privacy", &[Permission::Read, Permission::Erase]),
    (
        "admin",
        &[
            Permission::Read,
            Permission::Operate,
            Permission::Finance,
            Permission::Security,
            Permission::Audit,
            Permission::Erase,
        ],
    ),
];

/// Whether a role is built in.
pub(crate) fn is_built_in(role: &str) -> bool {
    BUILT_IN.iter().any(|(name, _)| *name == role)
}

/// Whether a role exists.
pub(crate) fn is_known(book: &OperatorBook, role: &str) -> bool {
    is_built_in(role) || book.role(role).is_some()
}

/// A set of permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Permissions(u8);

impl Permissions {
    /// All permissions.
    pub(crate) fn all() -> Self {
        Permission::NAMED.iter().map(|(_, permission)| *permission).collect()
    }

    /// The permissions that roles grant together. Unknown roles grant none: a role may have been
    /// removed since, and an unknown permission may be one of a newer program.
    pub(crate) fn of_roles(book: &OperatorBook, roles: &[String]) -> Self {
        let of_role = |role: &String| -> Self {
            if let Some((_, permissions)) = BUILT_IN.iter().find(|(name, _)| name == role) {
                return permissions.iter().copied().collect();
            }
            let defined = book.role(role).map_or(&[][..], |role| &role.permissions);
            defined.iter().filter_map(|name| Permission::from_name(name)).collect()
        };
        roles.iter().map(of_role).fold(Self::default(), |all, more| Self(all.0 | more.0))
    }

    /// The permissions of both sets.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether the set has a permission.
    pub(crate) const fn has(self, permission: Permission) -> bool {
        self.0 & (1 << permission as u8) != 0
    }

    /// Names of the permissions, in order of declaration.
    pub(crate) fn names(self) -> Vec<&'static str> {
        let held = Permission::NAMED.iter().filter(|(_, permission)| self.has(*permission));
        held.map(|(name, _)| *name).collect()
    }
}

impl FromIterator<Permission> for Permissions {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        Self(permissions.into_iter().fold(0, |set, permission| set | 1 << permission as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_grant_the_union_of_their_permissions() {
        let book = OperatorBook::default();
        for (roles, expected) in [
            (&[][..], &[][..]),
            (&["viewer"], &["read"]),
            (&["finance", "auditor"], &["read", "finance", "audit"]),
            (&["removed"], &[]),
            (&["removed", "operator"], &["read", "operate"]),
            (&["admin"], &["read", "operate", "finance", "security", "audit", "erase"]),
        ] {
            let roles: Vec<String> = roles.iter().map(|role| (*role).to_owned()).collect();
            assert_eq!(Permissions::of_roles(&book, &roles).names(), expected, "{roles:?}");
        }
        assert_eq!(Permissions::of_roles(&book, &["admin".to_owned()]), Permissions::all());
    }
}
