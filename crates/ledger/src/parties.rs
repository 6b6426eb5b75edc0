//! Entries of the party directory, as commands name them. The directory itself is a read model
//! outside the kernel.

use alloc::string::String;

use crate::field::{LONG, Optional, SHORT, Text, stored};
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
