//! What can be asked of the kernel. A command is already well-formed: every field was parsed and
//! checked against its pattern at the edge; whether it is *allowed* is decided here.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::accounts::AccountKind;
use crate::field::{
    Bytes, LONG, Limited, List, Maybe, Moved, NameOrEmpty, SHORT, Text, choices, numbered, stored,
};
use crate::ids::{AccountId, Digest, FspName, NoticeId, OracleId, TransferId};
use crate::money::{Amount, Currency};
use crate::register::KEY_BYTES_MAX;

/// Entries of one record: deliveries finished together, parties changed together.
pub const ENTRIES_MAX: usize = 10_000;

/// A W3C trace id, carried so that whatever the hub says later can be matched by partners.
pub type TraceId = [u8; 16];

choices! {
    /// One record of the log, as the kernel sees it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Command: u16 {
        /// The first record of every log.
        1 Genesis(Genesis),
        /// Time passed with nothing else to record.
        2 Tick,
        /// `POST /transfers`.
        3 Prepare(Box<Prepare>),
        /// `PUT /transfers/{id}`.
        4 Fulfil(Box<Fulfil>),
        /// `PUT /transfers/{id}/error`.
        5 Abort(Box<Abort>),
        /// Deliveries that ended, in any order.
        6 FinishDeliveries(Vec<FinishedDelivery> as List<ENTRIES_MAX>),
        /// A party identifier is bound to an FSP, or released.
        7 ChangeParties(Box<ChangeParties>),
        /// A change by an operator.
        8 Administer(Box<Administer>),
    }
}

stored! {
    /// What is fixed for the life of a log.
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
        pub amount: Amount as Moved,
        /// SHA-256 of the fulfilment that will commit the transfer.
        pub condition: [u8; 32],
        /// When the transfer ends by itself, in milliseconds since the epoch.
        pub expiration_ms: u64,
        /// Digest of the body without insignificant white space.
        pub hash: Digest,
        /// Trace of the request.
        pub trace: TraceId,
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
        /// `transferState` of the body, with what the version header makes of it.
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
    /// What the payee asks for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FulfilState: u8 {
        /// `COMMITTED` (or `RECEIVED`): the payer hears the payee's own bytes.
        Committed = 1,
        /// `RESERVED`: the hub commits and tells both.
        Reserved = 2,
        /// `RESERVED` under version 1.0, which does not know it: accepted and left to time out.
        ReservedUnderVersion10 = 3,
        /// `ABORTED`.
        Aborted = 4,
    }
}

choices! {
    /// The fulfilment as far as it could be read.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Fulfilment: u8 {
        /// The body has none.
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
        /// Whether the error code is one the protocol defines or leaves to private use.
        pub code_is_known: bool,
        /// Digest of the body without insignificant white space.
        pub hash: Digest,
        /// Trace of the request.
        pub trace: TraceId,
    }
}

stored! {
    /// How a delivery ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FinishedDelivery {
        /// The notice.
        pub notice: NoticeId,
        /// Which of the four ends.
        pub result: DeliveryResult,
        /// Attempts made, 65,535 for more. 0 for a withdrawn one, and for one whose recipient never
        /// registered an address.
        pub attempts: u16,
        /// HTTP status of the last answer, 0 when there was none.
        pub status: u16,
        /// Wall clock of the last attempt's end, in milliseconds since the epoch.
        pub finished_ms: u64,
    }
}

numbered! {
    /// The four ends of a delivery.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum DeliveryResult: u8 {
        /// Answered 2xx.
        Delivered = 1,
        /// About a transfer, and refused for good or out of time: a dead letter.
        Dead = 2,
        /// Never attempted and no longer wanted.
        Withdrawn = 3,
        /// Not delivered, and nothing is lost with it: an answer to a registration, or an attempted
        /// prepare of a transfer that has ended since. No dead letter.
        GivenUp = 4,
    }
}

stored! {
    /// Entries of the party directory to bind or to release. The directory itself is a read model
    /// beside the kernel; the kernel orders the changes and owes the answer.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ChangeParties {
        /// `FSPIOP-Source`, to which the answer goes.
        pub source: FspName,
        /// Which message is answered, hence in which form.
        pub form: PartyChangeForm,
        /// The entries; at most 10,000.
        pub parties: Vec<PartyBinding> as List<ENTRIES_MAX>,
        /// Trace of the request.
        pub trace: TraceId,
    }
}

numbered! {
    /// The request that a change of the directory answers.
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

stored! {
    /// One entry of the party directory.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PartyBinding {
        /// Identifier type, for example `MSISDN`.
        pub id_type: String as Text<SHORT>,
        /// The identifier.
        pub id: String as Text<LONG>,
        /// Sub-identifier, when there is one.
        pub sub_id: Option<String> as Maybe<Text<LONG>>,
        /// Currency of the binding, when it is bound to one. In a release: the only currency in
        /// which the entry is released; a binding without a currency is released with any.
        pub currency: Option<Currency>,
        /// The FSP that serves the party.
        pub fsp: FspName,
    }
}

stored! {
    /// A change by an operator: who, why and what. When is the batch's stamp.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Administer {
        /// Who asked, as the admin API authenticated them.
        pub actor: String as Text<LONG>,
        /// Why, in the operator's words; may be empty.
        pub reason: String as Text<LONG>,
        /// What.
        pub change: Change,
    }
}

choices! {
    /// What an operator can change.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Change: u8 {
        /// Settings that decide about money or notices.
        1 Configure(Settings),
        /// From the next batch on, rules of this version decide.
        2 Activate {
            /// Version of the rules.
            rules_version: u32,
        },
        /// `POST /participants/Hub/accounts`.
        3 CreateHubAccount {
            /// Currency of the account.
            currency: Currency,
            /// `HUB_RECONCILIATION` or `HUB_MULTILATERAL_SETTLEMENT`.
            kind: AccountKind,
        },
        /// `POST /settlementModels`.
        4 CreateSettlementModel(SettlementModel),
        /// `PUT /settlementModels/{name}`.
        5 SetSettlementModelActive {
            /// The model.
            name: String as Text<SHORT>,
            /// Whether new participants get its accounts.
            active: bool,
        },
        /// `POST /participants`.
        6 CreateParticipant {
            /// The participant's name.
            name: FspName,
            /// Currency of its first, or next, pair of accounts.
            currency: Currency,
        },
        /// `PUT /participants/{name}`.
        7 SetParticipantActive {
            /// The participant.
            name: FspName,
            /// Whether it may send and receive.
            active: bool,
        },
        /// `PUT /participants/{name}/accounts/{id}`.
        8 SetAccountActive {
            /// The participant.
            name: FspName,
            /// The account; only POSITION accounts can be toggled.
            account: AccountId,
            /// Whether it may be used.
            active: bool,
        },
        /// `POST /participants/{name}/initialPositionAndLimits`.
        9 SetInitialPositionAndLimits {
            /// The participant.
            name: FspName,
            /// Currency of the accounts.
            currency: Currency,
            /// Net debit cap.
            limit: Amount as Limited,
            /// Position to start from, posted against a hub account.
            position: Amount as Limited,
        },
        /// `PUT /participants/{name}/limits`.
        10 SetLimit {
            /// The participant.
            name: FspName,
            /// Currency of the cap.
            currency: Currency,
            /// Net debit cap.
            limit: Amount as Limited,
            /// Share of the cap at which the operator is warned, in ten-thousandths of a percent.
            alarm_percentage: Amount as Limited,
        },
        /// `POST /participants/{name}/endpoints`: sets or overwrites.
        11 SetEndpoint {
            /// The participant.
            name: FspName,
            /// Endpoint type, for example `FSPIOP_CALLBACK_URL_TRANSFER_POST`.
            endpoint: String as Text<SHORT>,
            /// Template or base URL.
            value: String as Text<LONG>,
        },
        /// `POST /participants/{name}/keys`: one more public key by which its messages are
        /// verified.
        20 AddKey {
            /// The participant.
            name: FspName,
            /// SHA-256 of `key`.
            id: Digest,
            /// The `SubjectPublicKeyInfo`, in DER; at most
            /// [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX) bytes.
            key: Vec<u8> as Bytes<KEY_BYTES_MAX>,
        },
        /// `DELETE /participants/{name}/keys/{id}`.
        21 RemoveKey {
            /// The participant.
            name: FspName,
            /// The key.
            id: Digest,
        },
        /// `recordFundsIn`, `recordFundsOutPrepareReserve`.
        40 MoveFunds(MoveFunds),
        /// `recordFundsOutCommit`, `recordFundsOutAbort`.
        41 EndFundsOut(EndFundsOut),
        /// Sends a dead letter again.
        14 Redeliver {
            /// The notice.
            notice: NoticeId,
        },
        /// `POST /oracles`.
        42 CreateOracle(Oracle),
        /// `PUT /oracles/{id}`.
        43 UpdateOracle {
            /// The oracle.
            id: OracleId,
            /// What becomes of it.
            update: OracleUpdate,
        },
        /// `DELETE /oracles/{id}`.
        44 DeleteOracle {
            /// The oracle.
            id: OracleId,
        },
        /// `POST /ledgerAccountTypes`.
        45 CreateLedgerAccountType(LedgerAccountType),
    }
}

stored! {
    /// Settings that are part of the state, so that a replay decides as the live node did.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Settings {
        /// COMMITTED style: the payee also gets the final state from the hub.
        pub confirm_to_payee: bool,
        /// Payer and payee may be the same FSP.
        pub on_us_transfers: bool,
        /// `PUT /transfers/{id}` with ABORTED aborts, instead of being left to time out.
        pub put_aborted_aborts: bool,
        /// Funds out look at the position too, not only at the SETTLEMENT balance.
        pub funds_out_covers_position: bool,
        /// Notices owed to one FSP beyond which it gets no further prepares.
        pub lane_capacity: u32,
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            confirm_to_payee: true,
            on_us_transfers: false,
            put_aborted_aborts: false,
            funds_out_covers_position: true,
            lane_capacity: 50_000,
        }
    }
}

stored! {
    /// A settlement model, kept as a record until settlement itself uses it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SettlementModel {
        /// Name, 2 to 30 characters.
        pub name: String as Text<SHORT>,
        /// Whether it settles net (else gross).
        pub net: bool,
        /// Whether it settles with all participants at once (else pairwise).
        pub multilateral: bool,
        /// Whether it settles later (else with each transfer).
        pub deferred: bool,
        /// The only currency it serves; none makes it the default.
        pub currency: Option<Currency>,
        /// Raises a cap that a settlement would break.
        pub liquidity_check: bool,
        /// Settlement moves positions back towards zero.
        pub auto_position_reset: bool,
        /// Account type it settles.
        pub ledger_account: AccountKind,
        /// Account type that is the cover.
        pub settlement_account: AccountKind,
        /// Whether participants created from now on get its accounts.
        pub active: bool,
    }
}

stored! {
    /// Funds in, or the reservation of funds out.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct MoveFunds {
        /// The transfer that records the movement.
        pub id: TransferId,
        /// The participant.
        pub name: FspName,
        /// Its SETTLEMENT account.
        pub account: AccountId,
        /// In, or out.
        pub direction: FundsDirection,
        /// Currency of the amount.
        pub currency: Currency,
        /// The amount, above zero.
        pub amount: Amount as Moved,
        /// Digest of the request, by which a resend is distinguished from another movement under
        /// the same id.
        pub hash: Digest,
    }
}

numbered! {
    /// Which way funds move.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FundsDirection: u8 {
        /// Deposited with the scheme.
        In = 0,
        /// Taken out of the scheme.
        Out = 1,
    }
}

stored! {
    /// The end of a reserved outflow.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct EndFundsOut {
        /// The transfer that recorded the reservation.
        pub id: TransferId,
        /// The participant.
        pub name: FspName,
        /// Its SETTLEMENT account.
        pub account: AccountId,
        /// True commits, false gives the funds back.
        pub commit: bool,
        /// Digest of the request, as of [`MoveFunds::hash`].
        pub hash: Digest,
    }
}

stored! {
    /// A service that says which FSP serves a party, kept as a record (hub-semantics 6.1).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Oracle {
        /// Type of the identifiers that it knows, for example `MSISDN`.
        pub id_type: String as Text<SHORT>,
        /// Its base URL.
        pub endpoint: String as Text<LONG>,
        /// The only currency it serves, if it serves only one.
        pub currency: Option<Currency>,
        /// Whether it is asked when several of its type could be.
        pub default: bool,
    }
}

stored! {
    /// New values for members of an oracle; what is absent stays.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct OracleUpdate {
        /// Type of its identifiers.
        pub id_type: Option<String> as Maybe<Text<SHORT>>,
        /// Its base URL.
        pub endpoint: Option<String> as Maybe<Text<LONG>>,
        /// Its only currency.
        pub currency: Option<Currency>,
        /// Whether it is the default one.
        pub default: Option<bool>,
    }
}

stored! {
    /// A type of account beside the kernel's own: a name in the catalogue, under which no account
    /// is kept (hub-semantics 4.1).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LedgerAccountType {
        /// Name, 2 to 30 characters.
        pub name: String as Text<SHORT>,
        /// What it is for.
        pub description: String as Text<LONG>,
        /// Whether it is in use.
        pub active: bool,
        /// Whether a settlement model can settle it.
        pub settleable: bool,
    }
}
