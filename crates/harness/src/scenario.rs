//! The scenarios of a run: one part of a transaction, or all of it.

use std::fmt;

use dfsp::PaymentFlow;
use ledger::FspName;

/// The kind of unit that a run repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// From `POST /transfers` to the commit notice at the payer.
    Transfer,
    /// From `POST /transfers` to its receipt by the payee.
    Prepare,
    /// From the payee's `PUT /transfers/{id}` to the commit notice at the payer.
    Fulfil,
    /// From `GET /parties` to the party's callback.
    Lookup,
    /// From `POST /quotes` to the quote's callback.
    Quote,
    /// Look-up, quote and transfer, one after the other.
    Whole,
    /// From `POST /bulkTransfers` with this many items to its result at the payer.
    Bulk(u16),
}

impl Scenario {
    /// All scenarios of one payment, in the order of a table.
    pub const ALL: [Self; 6] =
        [Self::Transfer, Self::Prepare, Self::Fulfil, Self::Lookup, Self::Quote, Self::Whole];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.words()[0]
    }

    /// The name of the units in a table.
    #[must_use]
    pub const fn units(self) -> &'static str {
        self.words()[1]
    }

    /// The definition of one unit, and the start and end of its latency.
    #[must_use]
    pub const fn definition(self) -> &'static str {
        self.words()[2]
    }

    /// Name, name of the units, and definition of one.
    const fn words(self) -> [&'static str; 3] {
        match self {
            Self::Transfer => [
                "transfer",
                "transfers",
                "POST /transfers by the payer, POST to the payee, PUT by the payee, until the \
                 payer has the notice of the commit",
            ],
            Self::Prepare => [
                "prepare",
                "prepares",
                "POST /transfers by the payer until the payee has received it; answered 202 is \
                 shown apart; the payee fulfils after the measured part",
            ],
            Self::Fulfil => [
                "fulfil",
                "fulfilments",
                "PUT /transfers/{id} by the payee until the payer has the notice of the commit; \
                 the transfers were reserved before the measured part",
            ],
            Self::Lookup => [
                "lookup",
                "look-ups",
                "GET /parties by the payer, GET to the payee, PUT by the payee, until the payer \
                 has the party",
            ],
            Self::Quote => [
                "quote",
                "quotes",
                "POST /quotes by the payer, POST to the payee, PUT by the payee, until the payer \
                 has the quote",
            ],
            Self::Whole => [
                "whole",
                "whole transactions",
                "look-up, quote and transfer one after the other, until the payer has the notice \
                 of the commit",
            ],
            Self::Bulk(_) => [
                "bulk",
                "bulks",
                "POST /bulkTransfers by the payer, POST to the payee, PUT by the payee, until the \
                 payer has the result of each item",
            ],
        }
    }

    /// Whether the hub must know the subscribers.
    pub const fn looks_up(self) -> bool {
        matches!(self, Self::Lookup | Self::Whole)
    }

    /// Whether a quote is part of a unit.
    pub const fn quotes(self) -> bool {
        matches!(self, Self::Quote | Self::Whole)
    }

    /// Whether a successful unit is a committed transfer.
    pub const fn moves_money(self) -> bool {
        matches!(self, Self::Transfer | Self::Fulfil | Self::Whole | Self::Bulk(_))
    }

    /// Number of transfers in a unit that moves money.
    pub const fn transfers(self) -> u64 {
        match self {
            Self::Bulk(items) => items as u64,
            _ => 1,
        }
    }

    /// Whether payees hold transfers instead of answering them.
    pub const fn holds(self) -> bool {
        matches!(self, Self::Prepare | Self::Fulfil)
    }

    /// The part of a transaction that a payment to `payee` runs.
    pub const fn flow(self, payee: FspName) -> PaymentFlow {
        match self {
            Self::Transfer => PaymentFlow::Transfer(payee),
            Self::Prepare => PaymentFlow::Prepare(payee),
            Self::Fulfil => PaymentFlow::Fulfil(payee),
            Self::Lookup => PaymentFlow::Lookup,
            Self::Quote => PaymentFlow::Quote(payee),
            Self::Whole => PaymentFlow::Whole,
            Self::Bulk(items) => PaymentFlow::Bulk(payee, items),
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
