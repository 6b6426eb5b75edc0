//! The results of all commands, in one enum. The refusals of changes are declared in `change`, next
//! to the changes.

// cycle: a macro with the refusals of changes, which are declared next to the changes
use crate::change::admin_outcomes;
use crate::field::numbered;

/// Declares [`Outcome`]: its own variants, then those of the changes.
macro_rules! outcomes {
    (
        { $(#[$attribute:meta])* pub enum $name:ident: $integer:ident { $($own:tt)* } }
        { $($of_changes:tt)* }
    ) => {
        numbered! {
            $(#[$attribute])*
            pub enum $name: $integer { $($own)* $($of_changes)* }
        }
    };
}

admin_outcomes! { outcomes {
    /// The kernel's decision about a command.
    ///
    /// Numbers are stored in outcome digests and final transfers and never reused. The variants of
    /// a prepare are in order of precedence: when several apply, the first one listed is the
    /// outcome (hub-semantics 3.3 to 3.6, with the rulings). Those of a change are in the order of
    /// its declaration.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Outcome: u16 {
        /// Applied.
        Accepted = 1,
        /// The same record was applied before (producer repeat); ignored.
        Repeated = 2,
        /// Transfer message from an unknown sender, checked before everything else; ignored: no row
        /// is stored and no notice is owed.
        SenderNotFound = 3,

        /// Prepare: same id, different content.
        PrepareModified = 10,
        /// Prepare: identical to a committed one; answered with the stored end.
        PrepareResentCommitted = 11,
        /// Prepare: identical to a refused or aborted one; answered with the stored end.
        PrepareResentAborted = 12,
        /// Prepare: identical to one in flight.
        PrepareResentReserved = 13,
        /// Prepare: `FSPIOP-Source` is not the payer.
        PrepareSourceNotPayer = 14,
        /// Prepare: more than 18 digits.
        PrepareAmountPrecision = 15,
        /// Prepare: payer unknown.
        PreparePayerNotFound = 16,
        /// Prepare: payer disabled.
        PreparePayerInactive = 17,
        /// Prepare: payee unknown.
        PreparePayeeNotFound = 18,
        /// Prepare: payee disabled.
        PreparePayeeInactive = 19,
        /// Prepare: expiration not in the future.
        PrepareExpirationPast = 20,
        /// Prepare: payer and payee are the same.
        PreparePayerIsPayee = 21,
        /// Prepare: payer has no POSITION account in the currency.
        PreparePayerAccountNotFound = 22,
        /// Prepare: that account is disabled.
        PreparePayerAccountInactive = 23,
        /// Prepare: payee has no POSITION account in the currency.
        PreparePayeeAccountNotFound = 24,
        /// Prepare: that account is disabled.
        PreparePayeeAccountInactive = 25,
        /// Prepare: too many notices are owed to the payee.
        PreparePayeeLaneFull = 26,
        /// Prepare: the payer's liquidity cover is too small.
        PrepareLiquidityInsufficient = 27,
        /// Prepare: the payer's net debit cap would be exceeded.
        PrepareCapExceeded = 28,
        /// Prepare: reserved.
        PrepareReserved = 29,

        /// Fulfil: RESERVED under version 1.0; left to time out.
        FulfilVersionIgnored = 40,
        /// Fulfil or abort: no such transfer.
        ResponseTransferNotFound = 41,
        /// Fulfil or abort: the sender is not the payee; the transfer is untouched.
        ResponseNotFromPayee = 42,
        /// Fulfil or abort: the payee addressed another FSP than the payer; aborted.
        ResponseNotToPayer = 43,
        /// Fulfil or abort: differs from the response already taken.
        ResponseModified = 44,
        /// Fulfil or abort: identical to the response already taken.
        ResponseResent = 45,
        /// Fulfil or abort: the transfer had expired; reported once.
        ResponseAfterExpiry = 46,
        /// Fulfil or abort: the transfer is not RESERVED.
        ResponseStateNotReserved = 47,
        /// Fulfil: ABORTED by PUT; left to time out.
        FulfilAbortedIgnored = 48,
        /// Fulfil: the fulfilment is missing or does not match the condition; aborted.
        FulfilmentInvalid = 49,
        /// Fulfil: committed.
        Committed = 50,

        /// Abort: the error code is not defined by the protocol; aborted nevertheless.
        AbortedWithUnknownCode = 60,
        /// Abort: aborted with the payee's own error.
        Aborted = 61,
        /// Fulfil: ABORTED by PUT, in a scheme that treats it as an abort.
        AbortedByPut = 62,

        /// A reserved transfer met its deadline.
        Expired = 70,

        /// Bulk: at least one item is reserved.
        BulkAccepted = 185,
        /// Bulk: no item is accepted, or the payee aborted all of them.
        BulkRejected = 186,
        /// Bulk: the payee has answered, and items are still in flight.
        BulkProcessing = 187,
        /// Bulk: no item is in flight any more.
        BulkCompleted = 188,
        /// Bulk: the payee answers an item that is not in flight in this bulk; nothing changes.
        BulkItemNotFound = 189,
        /// Fulfil or abort: the transfer is an item of a bulk, which is answered as a whole.
        ResponseOfBulkItem = 190,

        /// Quote: a request or an answer with a known id and other content.
        QuoteModified = 192,
        /// Answer to a quote: no such quote, or the sender is not the FSP that was asked. Prepare:
        /// the transaction has no quote with an offer.
        QuoteNotFound = 193,
        /// Quote: the expiration of the request has passed. Prepare: that of the offer has.
        QuoteExpired = 194,
        /// Prepare: amount, ILP packet, condition or parties differ from those of the quote.
        PrepareDiffersFromQuote = 195,

        /// Transaction request: a request with a known id and other content, or another answer
        /// after the final one.
        TransactionRequestModified = 196,
        /// Answer to a transaction request: no such request, or the sender was not asked.
        TransactionRequestNotFound = 197,
        /// Transaction request: its expiration has passed.
        TransactionRequestExpired = 198,

        /// Registration by an FSP that is not a participant.
        RegistrarNotFound = 100,
        /// Admin: a reserved outflow was returned. A result of the outflow, never of a command.
        FundsOutAborted = 101,
    }
} }

/// Declares families of outcomes: enums with a subset of the [`Outcome`]s and their numbers.
macro_rules! families {
    ($(
        $(#[$attribute:meta])*
        pub enum $family:ident { $($outcome:ident),* $(,)? }
    )*) => { $(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum $family {
            $(
                #[doc = concat!("[`Outcome::", stringify!($outcome), "`].")]
                $outcome = Outcome::$outcome as u16,
            )*
        }

        impl $family {
            /// All of the family, in order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$outcome),*];

            /// The same value as an [`Outcome`].
            #[must_use]
            pub const fn outcome(self) -> Outcome {
                match self {
                    $( Self::$outcome => Outcome::$outcome, )*
                }
            }

            /// The outcome as a member of this family; `None` if it belongs to another.
            #[must_use]
            pub const fn of(outcome: Outcome) -> Option<Self> {
                match outcome.number() {
                    $( number if number == Self::$outcome as u16 => Some(Self::$outcome), )*
                    _ => None,
                }
            }
        }

        impl From<$family> for Outcome {
            fn from(outcome: $family) -> Self {
                outcome.outcome()
            }
        }
    )* };
}

families! {
    /// Outcomes of a prepare, in order of precedence except for the last.
    pub enum PrepareOutcome {
        SenderNotFound, PrepareModified, PrepareResentCommitted, PrepareResentAborted,
        PrepareResentReserved, PrepareSourceNotPayer, PrepareAmountPrecision, PreparePayerNotFound,
        PreparePayerInactive, PreparePayeeNotFound, PreparePayeeInactive, PrepareExpirationPast,
        PreparePayerIsPayee, PreparePayerAccountNotFound, PreparePayerAccountInactive,
        PreparePayeeAccountNotFound, PreparePayeeAccountInactive, QuoteNotFound,
        PrepareDiffersFromQuote, QuoteExpired, PreparePayeeLaneFull, PrepareLiquidityInsufficient,
        PrepareCapExceeded, PrepareReserved,
    }

    /// Outcomes of a fulfil or an abort.
    pub enum ResponseOutcome {
        SenderNotFound, FulfilVersionIgnored, ResponseTransferNotFound, ResponseNotFromPayee,
        ResponseOfBulkItem, ResponseNotToPayer, ResponseModified, ResponseResent,
        ResponseAfterExpiry, ResponseStateNotReserved, FulfilAbortedIgnored, FulfilmentInvalid,
        Committed, AbortedWithUnknownCode, Aborted, AbortedByPut,
    }

    /// Outcomes of a bulk as a whole.
    pub enum BulkOutcome { BulkAccepted, BulkRejected, BulkProcessing, BulkCompleted }

    /// Ends of a reserved transfer by a fulfil or an abort.
    pub enum ResponseEnd {
        ResponseNotToPayer, FulfilmentInvalid, Committed, AbortedWithUnknownCode, Aborted,
        AbortedByPut,
    }

    /// Outcomes that a participant gets as an error, in a callback or in the response to a look-up.
    pub enum ErrorOutcome {
        PrepareModified, PrepareSourceNotPayer, PrepareAmountPrecision, PreparePayerNotFound,
        PreparePayerInactive, PreparePayeeNotFound, PreparePayeeInactive, PrepareExpirationPast,
        PreparePayerIsPayee, PreparePayerAccountNotFound, PreparePayerAccountInactive,
        PreparePayeeAccountNotFound, PreparePayeeAccountInactive, PreparePayeeLaneFull,
        PrepareLiquidityInsufficient, PrepareCapExceeded, ResponseTransferNotFound,
        ResponseNotFromPayee, ResponseNotToPayer, ResponseModified, ResponseAfterExpiry,
        ResponseStateNotReserved, FulfilmentInvalid, AbortedWithUnknownCode, Aborted, AbortedByPut,
        Expired, FundsInsufficient, FundsOutAborted, BulkItemNotFound, ResponseOfBulkItem,
        QuoteModified, QuoteNotFound, QuoteExpired, PrepareDiffersFromQuote,
        TransactionRequestModified, TransactionRequestNotFound, TransactionRequestExpired,
    }

    /// Outcomes of decisions about a transfer, a bulk or a movement of funds, which `explain`
    /// shows.
    pub enum ExplainedOutcome {
        Accepted, Repeated, SenderNotFound, PrepareModified, PrepareResentCommitted,
        PrepareResentAborted, PrepareResentReserved, PrepareSourceNotPayer, PrepareAmountPrecision,
        PreparePayerNotFound, PreparePayerInactive, PreparePayeeNotFound, PreparePayeeInactive,
        PrepareExpirationPast, PreparePayerIsPayee, PreparePayerAccountNotFound,
        PreparePayerAccountInactive, PreparePayeeAccountNotFound, PreparePayeeAccountInactive,
        PreparePayeeLaneFull, PrepareLiquidityInsufficient, PrepareCapExceeded, PrepareReserved,
        FulfilVersionIgnored, ResponseTransferNotFound, ResponseNotFromPayee, ResponseNotToPayer,
        ResponseModified, ResponseResent, ResponseAfterExpiry, ResponseStateNotReserved,
        FulfilAbortedIgnored, FulfilmentInvalid, Committed, AbortedWithUnknownCode, Aborted,
        AbortedByPut, Expired, ResponseOfBulkItem, BulkAccepted, BulkRejected, BulkProcessing,
        BulkCompleted, BulkItemNotFound,
        QuoteModified, QuoteNotFound, QuoteExpired, PrepareDiffersFromQuote,
        TransactionRequestModified, TransactionRequestNotFound, TransactionRequestExpired,
        ParticipantNotFound, HubAccountsMissing, AccountNotFound, AccountKindWrong, AccountInactive,
        CurrencyMismatch, FundsOutNotReserved, FundsInsufficient, DeadLetterNotFound, FundsRepeated,
        FundsModified, ParticipantInactive, FundsOutAborted,
        ApprovalRequired, ProposalNotFound, ProposalEnded, ProposalExpired, ProposerCannotApprove,
        ProposalDiffers,
    }

    /// Outcomes of a quote and of its answer, in order of precedence.
    pub enum QuoteOutcome { SenderNotFound, QuoteNotFound, QuoteModified, QuoteExpired, Accepted }

    /// Outcomes of a transaction request and of its answers, in order of precedence.
    pub enum TransactionRequestOutcome {
        SenderNotFound, TransactionRequestNotFound, TransactionRequestModified,
        TransactionRequestExpired, Accepted,
    }

    /// Outcomes of a change of the party directory.
    pub enum PartiesOutcome { Accepted, RegistrarNotFound }
}

/// Declares [`AdminOutcome`].
macro_rules! family_of_changes {
    ({} { $( $(#[$doc:meta])* $outcome:ident = $number:literal, )* }) => {
        families! {
            /// Outcomes of changes by operators.
            pub enum AdminOutcome { Accepted, $($outcome),* }
        }
    };
}

admin_outcomes! { family_of_changes {} }

impl PrepareOutcome {
    /// Whether the prepare is refused, which a participant gets as an error.
    #[must_use]
    pub const fn refuses(self) -> bool {
        !matches!(
            self,
            Self::SenderNotFound
                | Self::PrepareResentCommitted
                | Self::PrepareResentAborted
                | Self::PrepareResentReserved
                | Self::PrepareReserved
        )
    }

    /// Whether the prepare created a transfer, reserved or refused. Resends, modified requests and
    /// ignored prepares do not.
    #[must_use]
    pub const fn begins(self) -> bool {
        matches!(self, Self::PrepareReserved)
            || (self.refuses() && !matches!(self, Self::PrepareModified))
    }
}

impl QuoteOutcome {
    /// Whether the message is refused, which its sender gets as an error.
    #[must_use]
    pub const fn refuses(self) -> bool {
        matches!(self, Self::QuoteNotFound | Self::QuoteModified | Self::QuoteExpired)
    }
}

impl TransactionRequestOutcome {
    /// Whether the message is refused, which its sender gets as an error.
    #[must_use]
    pub const fn refuses(self) -> bool {
        matches!(
            self,
            Self::TransactionRequestNotFound
                | Self::TransactionRequestModified
                | Self::TransactionRequestExpired
        )
    }
}

impl ResponseOutcome {
    /// Whether it is reported to a participant as an error.
    #[must_use]
    pub const fn is_error(self) -> bool {
        !matches!(
            self,
            Self::SenderNotFound
                | Self::FulfilVersionIgnored
                | Self::ResponseResent
                | Self::FulfilAbortedIgnored
                | Self::Committed
        )
    }
}

/// Checks that a family is contained in [`ErrorOutcome`] and [`ExplainedOutcome`].
macro_rules! has_words {
    ($family:ident, $is_error:expr) => {
        const _: () = {
            let mut at = 0;
            while at < $family::ALL.len() {
                let one = $family::ALL[at];
                assert!(
                    !$is_error(one) || ErrorOutcome::of(one.outcome()).is_some(),
                    concat!("`ErrorOutcome` needs all errors of ", stringify!($family)),
                );
                assert!(
                    ExplainedOutcome::of(one.outcome()).is_some(),
                    concat!("`ExplainedOutcome` needs all of ", stringify!($family)),
                );
                at += 1;
            }
        };
    };
}

has_words!(PrepareOutcome, PrepareOutcome::refuses);
has_words!(ResponseOutcome, ResponseOutcome::is_error);
has_words!(QuoteOutcome, QuoteOutcome::refuses);
has_words!(TransactionRequestOutcome, TransactionRequestOutcome::refuses);

impl ResponseEnd {
    /// Whether the transfer is committed; it is aborted otherwise.
    #[must_use]
    pub const fn commits(self) -> bool {
        match self {
            Self::Committed => true,
            Self::ResponseNotToPayer
            | Self::FulfilmentInvalid
            | Self::AbortedWithUnknownCode
            | Self::Aborted
            | Self::AbortedByPut => false,
        }
    }
}

impl From<ResponseEnd> for ResponseOutcome {
    fn from(end: ResponseEnd) -> Self {
        match end {
            ResponseEnd::ResponseNotToPayer => Self::ResponseNotToPayer,
            ResponseEnd::FulfilmentInvalid => Self::FulfilmentInvalid,
            ResponseEnd::Committed => Self::Committed,
            ResponseEnd::AbortedWithUnknownCode => Self::AbortedWithUnknownCode,
            ResponseEnd::Aborted => Self::Aborted,
            ResponseEnd::AbortedByPut => Self::AbortedByPut,
        }
    }
}
