//! The commands of the kernel. A command is well-formed: every field was parsed and checked at the
//! edge. The kernel decides whether it is *allowed*.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::change::Change;
use crate::field::{
    AtEnd, BeforeTerms, BulkId, LONG, List, NameOrEmpty, NonNegative, Text, choices, numbered,
    stored,
};
use crate::ids::{BULK_ITEMS_MAX, Digest, FeeRuleId, FspName, NoticeId, TransferId};
use crate::money::{Amount, Currency};
use crate::parties::{ENTRIES_MAX, PartyBinding, PartyChangeForm, PartyChangeView, PartyRule};
use crate::quote_content::QuoteContent;
use crate::request_content::RequestStep;

/// A W3C trace id, carried so that partners can correlate later messages of the hub.
pub type TraceId = [u8; 16];

choices! {
    /// One record of the log, as the kernel sees it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Command: u16 {
        /// The first record of every log.
        1 Genesis(Genesis),
        /// Time passed without another record.
        2 Tick,
        /// `POST /transfers`.
        3 Prepare(Box<Prepare>),
        /// `PUT /transfers/{id}`.
        4 Fulfil(Box<Fulfil>),
        /// `PUT /transfers/{id}/error`.
        5 Abort(Box<Abort>),
        /// Finished deliveries, in any order.
        6 FinishDeliveries(Vec<FinishedDelivery> as List<ENTRIES_MAX>),
        /// A party identifier is bound to an FSP, or released.
        7 ChangeParties(Box<ChangeParties>),
        /// A change by an operator.
        8 Administer(Box<Administer>),
        /// `POST /bulkTransfers`.
        9 PrepareBulk(Box<PrepareBulk>),
        /// `PUT /bulkTransfers/{id}`.
        10 FulfilBulk(Box<FulfilBulk>),
        /// `PUT /bulkTransfers/{id}/error`.
        11 AbortBulk(Box<AbortBulk>),
        /// `POST /quotes`, in schemes that record quotes.
        12 RecordQuote(Box<RecordQuote>),
        /// `PUT /quotes/{id}` and `PUT /quotes/{id}/error`, in schemes that record quotes.
        13 RecordQuoteAnswer(Box<RecordQuoteAnswer>),
        /// `POST /transactionRequests` and the answers to it, in schemes that record quotes.
        83 RecordRequestToPay(Box<RecordRequestToPay>),
    }
}

/// A command that is a message about a transfer.
#[derive(Clone, Copy, Debug)]
pub enum TransferMessage<'a> {
    /// `POST /transfers`.
    Prepare(&'a Prepare),
    /// `PUT /transfers/{id}`.
    Fulfil(&'a Fulfil),
    /// `PUT /transfers/{id}/error`.
    Abort(&'a Abort),
}

impl Command {
    /// The number of [`Command::FinishDeliveries`].
    pub const FINISH_DELIVERIES: u16 = 6;
    /// The number of [`Command::ChangeParties`].
    pub const CHANGE_PARTIES: u16 = 7;
    /// The number of [`Command::Administer`].
    pub const ADMINISTER: u16 = 8;
    /// The number of [`Command::PrepareBulk`].
    pub const PREPARE_BULK: u16 = 9;
    /// The number of [`Command::FulfilBulk`].
    pub const FULFIL_BULK: u16 = 10;
    /// The number of [`Command::AbortBulk`].
    pub const ABORT_BULK: u16 = 11;

    /// Whether a kind of commands is a message about a bulk transfer.
    #[must_use]
    pub const fn is_bulk(kind: u16) -> bool {
        matches!(kind, Self::PREPARE_BULK | Self::FULFIL_BULK | Self::ABORT_BULK)
    }

    /// The message about a transfer; `None` for every other command.
    #[must_use]
    pub fn message(&self) -> Option<TransferMessage<'_>> {
        match self {
            Self::Prepare(prepare) => Some(TransferMessage::Prepare(prepare)),
            Self::Fulfil(fulfil) => Some(TransferMessage::Fulfil(fulfil)),
            Self::Abort(abort) => Some(TransferMessage::Abort(abort)),
            Self::Genesis(_)
            | Self::Tick
            | Self::FinishDeliveries(_)
            | Self::ChangeParties(_)
            | Self::Administer(_)
            | Self::PrepareBulk(_)
            | Self::FulfilBulk(_)
            | Self::AbortBulk(_)
            | Self::RecordQuote(_)
            | Self::RecordQuoteAnswer(_)
            | Self::RecordRequestToPay(_) => None,
        }
    }

    /// `FSPIOP-Source` of a message about a transfer or a bulk transfer; `None` for every other
    /// command.
    #[must_use]
    pub fn payment_source(&self) -> Option<&FspName> {
        match self {
            Self::PrepareBulk(bulk) => Some(&bulk.source),
            Self::FulfilBulk(bulk) => Some(&bulk.source),
            Self::AbortBulk(bulk) => Some(&bulk.source),
            other => other.message().map(TransferMessage::source),
        }
    }

    /// `FSPIOP-Source` of a message of a participant; `None` for every other command.
    #[must_use]
    pub fn sender(&self) -> Option<&FspName> {
        match self {
            Self::ChangeParties(change) => Some(&change.source),
            Self::RecordQuote(quote) => Some(&quote.source),
            Self::RecordQuoteAnswer(answer) => Some(&answer.source),
            Self::RecordRequestToPay(request) => Some(&request.source),
            other => other.payment_source(),
        }
    }

    /// Whether the contents are a participant's: of a message that it sent, or of an operator's
    /// change, proposal or approval that registers or releases a party of it. The case of names is
    /// ignored, as for senders.
    #[must_use]
    pub fn is_from_participant(&self, name: &FspName) -> bool {
        match self {
            Self::Administer(administer) => administer.change.is_about_party_of(name),
            other => other.sender().is_some_and(|sender| sender.matches(name)),
        }
    }

    /// The participant that the contents belong to, if they belong to only one: see
    /// [`Command::is_from_participant`].
    #[must_use]
    pub fn contents_owner(&self) -> Option<&FspName> {
        match self {
            Self::Administer(administer) => administer.change.only_fsp_of_parties(),
            other => other.sender(),
        }
    }

    /// Number of transfers that it can decide about; the work of a batch is their sum.
    #[must_use]
    pub fn weight(&self) -> usize {
        match self {
            Self::PrepareBulk(bulk) => bulk.items.len(),
            // A PUT decides about the items that it names, an error about all of them.
            Self::FulfilBulk(bulk) => bulk.items.len(),
            Self::AbortBulk(_) => BULK_ITEMS_MAX,
            _ => 1,
        }
    }

    /// The change by an operator; `None` for every other command.
    #[must_use]
    pub fn change(&self) -> Option<&Change> {
        match self {
            Self::Administer(administer) => Some(&administer.change),
            Self::Genesis(_)
            | Self::Tick
            | Self::Prepare(_)
            | Self::Fulfil(_)
            | Self::Abort(_)
            | Self::FinishDeliveries(_)
            | Self::ChangeParties(_)
            | Self::PrepareBulk(_)
            | Self::FulfilBulk(_)
            | Self::AbortBulk(_)
            | Self::RecordQuote(_)
            | Self::RecordQuoteAnswer(_)
            | Self::RecordRequestToPay(_) => None,
        }
    }

    /// The entries of the party directory in its fields, or in those of a proposed change.
    #[must_use]
    pub fn named_parties(&self) -> &[PartyBinding] {
        if let Self::ChangeParties(change) = self {
            return &change.parties;
        }
        self.change().map(Change::named_parties).unwrap_or_default()
    }

    /// The same, to change them.
    pub fn named_parties_mut(&mut self) -> &mut [PartyBinding] {
        if let Self::ChangeParties(change) = self {
            return &mut change.parties;
        }
        let Self::Administer(administer) = self else { return &mut [] };
        administer.change.named_parties_mut()
    }

    /// The entries of the party directory that this command sets or releases, and the kind of
    /// request; `None` for every other command.
    #[must_use]
    pub fn party_change(&self) -> Option<PartyChangeView<'_>> {
        match self {
            Self::ChangeParties(change) => Some(change.view()),
            Self::Administer(administer) => administer.change.party_change(),
            Self::Genesis(_)
            | Self::Tick
            | Self::Prepare(_)
            | Self::Fulfil(_)
            | Self::Abort(_)
            | Self::FinishDeliveries(_)
            | Self::PrepareBulk(_)
            | Self::FulfilBulk(_)
            | Self::AbortBulk(_)
            | Self::RecordQuote(_)
            | Self::RecordQuoteAnswer(_)
            | Self::RecordRequestToPay(_) => None,
        }
    }

    /// The deliveries that ended; none for every other command.
    #[must_use]
    pub fn finished_deliveries(&self) -> &[FinishedDelivery] {
        match self {
            Self::FinishDeliveries(ends) => ends,
            Self::Genesis(_)
            | Self::Tick
            | Self::Prepare(_)
            | Self::Fulfil(_)
            | Self::Abort(_)
            | Self::ChangeParties(_)
            | Self::Administer(_)
            | Self::PrepareBulk(_)
            | Self::FulfilBulk(_)
            | Self::AbortBulk(_)
            | Self::RecordQuote(_)
            | Self::RecordQuoteAnswer(_)
            | Self::RecordRequestToPay(_) => &[],
        }
    }
}

impl<'a> TransferMessage<'a> {
    /// The transfer.
    #[must_use]
    pub const fn transfer(self) -> &'a TransferId {
        match self {
            Self::Prepare(prepare) => &prepare.id,
            Self::Fulfil(fulfil) => &fulfil.id,
            Self::Abort(abort) => &abort.id,
        }
    }

    /// `FSPIOP-Source`.
    #[must_use]
    pub const fn source(self) -> &'a FspName {
        match self {
            Self::Prepare(prepare) => &prepare.source,
            Self::Fulfil(fulfil) => &fulfil.source,
            Self::Abort(abort) => &abort.source,
        }
    }

    /// Digest of the body without insignificant white space.
    #[must_use]
    pub const fn hash(self) -> Digest {
        match self {
            Self::Prepare(prepare) => prepare.hash,
            Self::Fulfil(fulfil) => fulfil.hash,
            Self::Abort(abort) => abort.hash,
        }
    }
}

stored! {
    /// Parameters that are fixed for the whole log.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Genesis {
        /// Key of the kernel's hash maps: the same on every replica, not guessable by a client.
        pub seed: [u8; 16],
        /// The hub's own participant name.
        pub hub: FspName,
    }
}

stored! {
    /// The fields of `POST /transfers` that the ledger decides on.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Prepare {
        /// The transfer.
        pub id: TransferId,
        /// `FSPIOP-Source`.
        pub source: FspName,
        /// `payerFsp` of the body.
        pub payer: FspName,
        /// `payeeFsp` of the body.
        pub payee: FspName,
        /// Currency of the amount.
        pub currency: Currency,
        /// The amount; zero is allowed.
        pub amount: Amount as NonNegative,
        /// SHA-256 of the fulfilment that will commit the transfer.
        pub condition: [u8; 32],
        /// Deadline of the transfer, in milliseconds since the epoch.
        pub expiration_ms: u64,
        /// Digest of the body without insignificant white space.
        pub hash: Digest,
        /// Trace of the request.
        pub trace: TraceId,
        /// The first fee rule that matched the transaction in the ILP packet.
        pub fee_rule: Option<FeeRuleId> as BeforeTerms,
        /// Digest of the amount, the ILP packet and the condition, in schemes that compare them
        /// with the quote of the transaction.
        pub quote_terms: Option<Digest> as AtEnd,
    }
}

stored! {
    /// The fields of `PUT /transfers/{id}` that the ledger decides on.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Fulfil {
        /// The transfer.
        pub id: TransferId,
        /// `FSPIOP-Source`.
        pub source: FspName,
        /// `FSPIOP-Destination`, when it was sent.
        pub destination: Option<FspName> as NameOrEmpty,
        /// `transferState` of the body, interpreted for the version in the header.
        pub state: FulfilState,
        /// The fulfilment.
        pub fulfilment: Fulfilment,
        /// Digest of the body without insignificant white space.
        pub hash: Digest,
        /// Trace of the request.
        pub trace: TraceId,
    }
}

numbered! {
    /// The final state that the payee requests.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FulfilState: u8 {
        /// `COMMITTED` (or `RECEIVED`): the payer gets the payee's message unchanged.
        Committed = 1,
        /// `RESERVED`: the hub commits and notifies both.
        Reserved = 2,
        /// `RESERVED` under version 1.0, which lacks that state: accepted and left to time out.
        ReservedUnderVersion10 = 3,
        /// `ABORTED`.
        Aborted = 4,
    }
}

choices! {
    /// The fulfilment, as far as it could be parsed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Fulfilment: u8 {
        /// The body contains no fulfilment.
        0 Absent,
        /// Matches the pattern but is not 32 bytes.
        1 Undecodable,
        /// 32 bytes, to be hashed.
        2 Present([u8; 32]),
    }
}

stored! {
    /// The fields of `PUT /transfers/{id}/error` that the ledger decides on.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Abort {
        /// The transfer.
        pub id: TransferId,
        /// `FSPIOP-Source`.
        pub source: FspName,
        /// `FSPIOP-Destination`, when it was sent.
        pub destination: Option<FspName> as NameOrEmpty,
        /// Whether the error code is defined by the protocol or in its range for private use.
        pub code_is_known: bool,
        /// Digest of the body without insignificant white space.
        pub hash: Digest,
        /// Trace of the request.
        pub trace: TraceId,
    }
}

stored! {
    /// The fields of `POST /bulkTransfers` that the ledger decides on. Each item is a transfer.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PrepareBulk {
        /// The bulk transfer.
        pub id: TransferId as BulkId,
        /// `FSPIOP-Source`.
        pub source: FspName,
        /// `payerFsp` of the body.
        pub payer: FspName,
        /// `payeeFsp` of the body.
        pub payee: FspName,
        /// Deadline of all items, in milliseconds since the epoch.
        pub expiration_ms: u64,
        /// Digest of the body without insignificant white space.
        pub hash: Digest,
        /// Trace of the request.
        pub trace: TraceId,
        /// The items, in the order in which they are decided.
        pub items: Vec<BulkItem> as List<BULK_ITEMS_MAX>,
    }
}

stored! {
    /// An item of a [`PrepareBulk`]: the fields of a [`Prepare`] that the bulk does not have.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BulkItem {
        /// The transfer.
        pub id: TransferId,
        /// Currency of the amount.
        pub currency: Currency,
        /// The amount; zero is allowed.
        pub amount: Amount as NonNegative,
        /// SHA-256 of the fulfilment that will commit the transfer.
        pub condition: [u8; 32],
        /// The first fee rule that matched the transaction in the ILP packet.
        pub fee_rule: Option<FeeRuleId>,
    }
}

stored! {
    /// The fields of `PUT /bulkTransfers/{id}` that the ledger decides on.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FulfilBulk {
        /// The bulk transfer.
        pub id: TransferId as BulkId,
        /// `FSPIOP-Source`.
        pub source: FspName,
        /// `FSPIOP-Destination`, when it was sent.
        pub destination: Option<FspName> as NameOrEmpty,
        /// Digest of the body without insignificant white space.
        pub hash: Digest,
        /// Trace of the request.
        pub trace: TraceId,
        /// The results, in the order in which they are decided.
        pub items: Vec<BulkItemResult> as List<BULK_ITEMS_MAX>,
    }
}

stored! {
    /// The payee's result of an item.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BulkItemResult {
        /// The transfer.
        pub id: TransferId,
        /// The result.
        pub answer: BulkItemAnswer,
    }
}

choices! {
    /// The payee's answer about an item.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BulkItemAnswer: u8 {
        /// It has a fulfilment, or neither a fulfilment nor an error.
        1 Fulfilled(Fulfilment),
        /// It has an error. The error code is defined by the protocol, or in its range for private
        /// use, if this is true.
        2 Refused(bool),
    }
}

stored! {
    /// The fields of `PUT /bulkTransfers/{id}/error` that the ledger decides on.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AbortBulk {
        /// The bulk transfer.
        pub id: TransferId as BulkId,
        /// `FSPIOP-Source`.
        pub source: FspName,
        /// `FSPIOP-Destination`, when it was sent.
        pub destination: Option<FspName> as NameOrEmpty,
        /// Whether the error code is defined by the protocol or in its range for private use.
        pub code_is_known: bool,
        /// Digest of the body without insignificant white space.
        pub hash: Digest,
        /// Trace of the request.
        pub trace: TraceId,
    }
}

stored! {
    /// The fields of `POST /quotes` that the ledger decides on.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RecordQuote {
        /// `quoteId`.
        pub quote: TransferId,
        /// `transactionId`.
        pub transaction: TransferId,
        /// `FSPIOP-Source`.
        pub source: FspName,
        /// The FSP to which the message is forwarded.
        pub destination: FspName,
        /// `expiration` of the body, in milliseconds since the epoch.
        pub expiration_ms: Option<u64>,
        /// Until when the quote is kept, in milliseconds since the epoch.
        pub keep_until_ms: u64,
        /// Digest of the body without insignificant white space.
        pub hash: Digest,
        /// Trace of the request.
        pub trace: TraceId,
        /// `transactionRequestId`, if the quote follows a transaction request.
        pub request: Option<TransferId> as AtEnd,
    }
}

stored! {
    /// The fields of `PUT /quotes/{id}` and `PUT /quotes/{id}/error` that the ledger decides on.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RecordQuoteAnswer {
        /// The quote.
        pub quote: TransferId,
        /// `FSPIOP-Source`.
        pub source: FspName,
        /// The offer, or an error.
        pub content: QuoteContent,
        /// Digest of the body without insignificant white space.
        pub hash: Digest,
        /// Trace of the request.
        pub trace: TraceId,
    }
}

stored! {
    /// The fields of a message about a transaction request that the ledger decides on.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RecordRequestToPay {
        /// `transactionRequestId`.
        pub request: TransferId,
        /// `FSPIOP-Source`.
        pub source: FspName,
        /// The request, or an answer to it.
        pub step: RequestStep,
        /// Digest of the body without insignificant white space.
        pub hash: Digest,
        /// Trace of the message.
        pub trace: TraceId,
    }
}

stored! {
    /// The result of a delivery.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FinishedDelivery {
        /// The notice.
        pub notice: NoticeId,
        /// The result.
        pub result: DeliveryResult,
        /// Number of attempts, at most 65,535. 0 if it was withdrawn or its recipient never
        /// registered an address.
        pub attempts: u16,
        /// HTTP status of the last response, 0 if there was none.
        pub status: u16,
        /// Wall clock of the last attempt's end, in milliseconds since the epoch.
        pub finished_ms: u64,
    }
}

numbered! {
    /// The four results of a delivery.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum DeliveryResult: u8 {
        /// Acknowledged with 2xx.
        Delivered = 1,
        /// About a transfer, and permanently refused or out of time: a dead letter.
        Dead = 2,
        /// Never attempted and no longer needed.
        Withdrawn = 3,
        /// Not delivered, and not needed: an answer to a registration, or an attempted prepare of a
        /// transfer that is final. Not a dead letter.
        GivenUp = 4,
    }
}

stored! {
    /// Entries of the party directory to bind or to release. The directory itself is a read model
    /// outside the kernel. The kernel orders the changes and owes the answer.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ChangeParties {
        /// `FSPIOP-Source`, the recipient of the answer.
        pub source: FspName,
        /// The request, which determines the form of the answer.
        pub form: PartyChangeForm,
        /// The entries; at most 10,000.
        pub parties: Vec<PartyBinding> as List<ENTRIES_MAX>,
        /// Trace of the request.
        pub trace: TraceId,
        /// How the directory applies the change; `None` in older records.
        pub rule: Option<PartyRule> as AtEnd,
    }
}

impl ChangeParties {
    /// The change, as the directory applies it.
    #[must_use]
    pub fn view(&self) -> PartyChangeView<'_> {
        PartyChangeView {
            form: self.form,
            parties: &self.parties,
            source: Some(&self.source),
            ownership: self.rule.as_ref().map(|rule| rule.ownership),
            former: self.rule.as_ref().map_or(&[], |rule| &rule.former),
        }
    }
}

stored! {
    /// A change by an operator, with author and reason. Its time is the stamp of the batch.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Administer {
        /// The author, as authenticated by the admin API.
        pub actor: String as Text<LONG>,
        /// The reason, as given by the operator; may be empty.
        pub reason: String as Text<LONG>,
        /// The change.
        pub change: Change,
    }
}
