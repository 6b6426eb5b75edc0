//! Entries of the party directory, as commands name them. The directory itself is a read model
//! outside the kernel.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::field::{LONG, List, Optional, SHORT, Text, numbered, stored};
use crate::ids::FspName;
use crate::money::Currency;

/// Maximum number of entries in one record (finished deliveries, changed parties).
pub const ENTRIES_MAX: usize = 10_000;

stored! {
    /// One entry of the party directory.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PartyBinding {
        /// Identifier type, for example `MSISDN`.
        pub id_type: String as Text<SHORT>,
        /// The identifier.
        pub id: String as Text<LONG>,
        /// Sub-identifier, when there is one.
        pub sub_id: Option<String> as Optional<Text<LONG>>,
        /// Currency of the binding, if it has one. In a release: the only currency in which the
        /// entry is released. A binding without a currency is released with any currency.
        pub currency: Option<Currency>,
        /// The FSP that serves the party.
        pub fsp: FspName,
    }
}

numbered! {
    /// The kind of request that a change of the directory answers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PartyChangeForm: u8 {
        /// `POST` or `PUT /participants/{Type}/{ID}[/{SubId}]`.
        Single = 1,
        /// `POST /participants`.
        Batch = 2,
        /// `DELETE /participants/{Type}/{ID}[/{SubId}]`.
        Delete = 3,
    }
}

numbered! {
    /// The FSPs that may change an entry of the directory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PartyOwnership: u8 {
        /// Only the FSP of the entry. Other FSPs may have entries in other currencies.
        OwnerPerCurrency = 1,
        /// Every FSP: the latest registration counts.
        LatestWins = 2,
        /// Only the FSP that has the identifier, in whatever currencies.
        OwnerOnly = 3,
    }
}

stored! {
    /// How the directory applies a change. Without it, a registration replaces all entries of its
    /// identifier.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PartyRule {
        /// The rule of the scheme at the time of the change.
        pub ownership: PartyOwnership,
        /// The FSPs that lose an entry by the change.
        pub former: Vec<FormerOwner> as List<ENTRIES_MAX>,
    }
}

stored! {
    /// An FSP that loses an entry of the party directory to another one, or to an operator.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FormerOwner {
        /// Position of the entry's identifier in the change.
        pub party: u16,
        /// The FSP.
        pub fsp: FspName,
    }
}

/// The distinct FSPs that lose an entry, in the order of their names.
pub(crate) fn distinct_fsps(former: &[FormerOwner]) -> BTreeSet<FspName> {
    former.iter().map(|owner| owner.fsp).collect()
}

/// A change of the party directory, as its read model applies it.
#[derive(Clone, Copy, Debug)]
pub struct PartyChangeView<'a> {
    /// The kind of request.
    pub form: PartyChangeForm,
    /// The entries.
    pub parties: &'a [PartyBinding],
    /// The sender; `None` for a change by an operator.
    pub source: Option<&'a FspName>,
    /// The rule; `None` in records that have none.
    pub ownership: Option<PartyOwnership>,
    /// The FSPs that lose an entry.
    pub former: &'a [FormerOwner],
}
