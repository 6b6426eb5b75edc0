//! The changes that an operator can make. Each is declared once: number, name, fields with bounds,
//! the parts of the state that it touches, and its outcomes in order of precedence.
//! `admin_outcomes!` numbers their refusals.
//!
//! `changes!` derives the payload, its variant of [`Change`], the stored form and the generator for
//! property tests. `posts` and `about` add the change to [`PostingChange`] and [`TransferChange`],
//! which the auditor and `explain` match exhaustively. `for_each_change!` names all changes.
//! `commands` builds the dispatch from it, so a change without a decision does not compile.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::accounts::AccountKind;
use crate::alerts::ALERTS_MAX;
use crate::description::Description;
use crate::enrolments::{CERTIFICATE_BYTES_MAX, CSR_BYTES_MAX};
use crate::erasures::{ERASED_RANGES_MAX, ErasureForm, RecordRange};
use crate::fees::FeeRule;
use crate::field::{
    AtMost, BoundedAmount, ByteSink, Bytes, Chooser, Field, FieldError, Form, LONG, List,
    NonNegative, Optional, Plain, Reader, SHORT, Secret, Text, choices, numbered, stored,
};
use crate::ids::{
    ACCOUNTS_MAX, AccountId, AlertId, Digest, FeeRuleId, FspName, LogIndex, NoticeId,
    OperatorTokenId, OracleId, ProposalId, SettlementId, Stamp, TransferId, WindowId,
};
use crate::money::{Amount, Currency};
use crate::operators::{GRANTED_ROLES_MAX, OperatorRole};
use crate::outcome::{AdminOutcome, ExplainedOutcome};
use crate::parties::{
    ENTRIES_MAX, FormerOwner, PartyBinding, PartyChangeForm, PartyChangeView, PartyOwnership,
};
use crate::settlement::{SettlementState, WINDOWS_MAX};

/// A part of the state that a change can touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatePart {
    /// Settings in force.
    Settings,
    /// Version of the rules that decide.
    Rules,
    /// Participants, their activity, endpoints and keys.
    Participants,
    /// Net debit caps.
    Limits,
    /// Accounts and their activity.
    Accounts,
    /// Balances.
    Balances,
    /// Settlement models.
    SettlementModels,
    /// Transfers and movements of funds.
    Transfers,
    /// Notices owed, and dead letters.
    Notices,
    /// Oracles.
    Oracles,
    /// Account types added to the kernel's own.
    LedgerAccountTypes,
    /// Settlement windows.
    Windows,
    /// Settlements.
    Settlements,
    /// Alarms of liquidity, and alerts that are owed.
    Alerts,
    /// Rules for interchange fees.
    FeeRules,
    /// Operators of the admin API, their roles and tokens.
    Operators,
    /// Kinds of changes that need a second person, and proposals.
    Proposals,
    /// Enrolments: requests of participants for certificates.
    Enrolments,
    /// Recorded quotes.
    Quotes,
    /// Recorded transaction requests.
    TransactionRequests,
    /// Erasures of the contents of records.
    Erasures,
}

impl StatePart {
    /// Whether the switch keeps a view of this part, which it must renew after a change.
    #[must_use]
    pub const fn is_viewed(self) -> bool {
        match self {
            Self::Settings
            | Self::Rules
            | Self::Participants
            | Self::Accounts
            | Self::SettlementModels
            | Self::FeeRules
            | Self::Oracles
            | Self::Operators => true,
            Self::Limits
            | Self::Balances
            | Self::Transfers
            | Self::Notices
            | Self::LedgerAccountTypes
            | Self::Windows
            | Self::Settlements
            | Self::Alerts
            | Self::Proposals
            | Self::Enrolments
            | Self::Quotes
            | Self::TransactionRequests
            | Self::Erasures => false,
        }
    }
}

/// Longest public key, in bytes. A key of RSA with 8,192 bits takes half of it.
pub const KEY_BYTES_MAX: usize = 2_048;

/// Longest time for which a proposal is open, in seconds: 30 days.
pub const PROPOSAL_SECONDS_MAX: u32 = 30 * 24 * 60 * 60;
/// Longest text of a proposal, its reason or its request, in bytes.
pub const PROPOSAL_TEXT_MAX: usize = 8_192;

/// Longest text of a [`RecordAudit`], in bytes.
pub const AUDIT_TEXT_MAX: usize = SHORT;

/// The declaration of a change, without its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeDeclaration {
    /// Its name.
    pub name: &'static str,
    /// The number under which it is stored.
    pub number: u8,
    /// The parts of the state that it may touch.
    pub touches: &'static [StatePart],
    /// Its outcomes: when several apply, the first one listed is the outcome.
    pub outcomes: &'static [AdminOutcome],
    /// The first version of the rules that knows it. A program with older rules cannot read it.
    pub rules: u32,
}

/// Declares the changes, see the module documentation.
macro_rules! changes {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident: $integer:ident {
            $(
                $(#[$about:meta])*
                $number:literal $change:ident {
                    $( $(#[$doc:meta])* $field:ident: $type:ty $(as $form:ty)?, )*
                } touches [$($part:ident),* $(,)?] => [$($outcome:ident),* $(,)?]
                    $(posts $posts:literal)? $(about $about_what:literal)?
                    $(windows $windows:literal)? $(since $rules:literal)?,
            )*
        }
    ) => {
        choices! {
            $(#[$attribute])*
            pub enum $name: $integer {
                $( $(#[$about])* $number $change($change), )*
            }
        }

        stored! { $(
            $(#[$about])*
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub struct $change {
                $( $(#[$doc])* pub $field: $type $(as $form)?, )*
            }
        )* }

        impl $name {
            /// The declarations of all changes, in order.
            pub const DECLARATIONS: &'static [ChangeDeclaration] = &[$($change::DECLARATION),*];

            /// The declaration of this change.
            #[must_use]
            pub const fn declaration(&self) -> &'static ChangeDeclaration {
                match self {
                    $( Self::$change(_) => &$change::DECLARATION, )*
                }
            }

            /// The change as one that moves money; `None` for other changes.
            #[must_use]
            pub fn posting(&self) -> Option<PostingChange<'_>> {
                match self.decided() {
                    $( Self::$change(_change) => {
                        changes!(@subset PostingChange $change _change $($posts)?)
                    } )*
                }
            }

            /// The change as one of settlement windows; `None` for other changes.
            #[must_use]
            pub fn about_windows(&self) -> Option<WindowChange<'_>> {
                match self.decided() {
                    $( Self::$change(_change) => {
                        changes!(@subset WindowChange $change _change $($windows)?)
                    } )*
                }
            }

            /// The change as one about a transfer or a movement of funds; `None` for other changes.
            #[must_use]
            pub fn about_transfer(&self) -> Option<TransferChange<'_>> {
                match self.decided() {
                    $( Self::$change(_change) => {
                        changes!(@subset TransferChange $change _change $($about_what)?)
                    } )*
                }
            }
        }

        $( impl $change {
            /// The declaration of this change, without its fields.
            pub const DECLARATION: ChangeDeclaration = ChangeDeclaration {
                name: stringify!($change),
                number: $number,
                touches: &[$(StatePart::$part),*],
                outcomes: &[$(AdminOutcome::$outcome),*],
                rules: changes!(@since $($rules)?),
            };
        } )*

        /// The changes that move money. The auditor of `verify` posts each of them itself.
        #[derive(Clone, Copy, Debug)]
        pub enum PostingChange<'a> {
            $( $( #[doc = $posts] $change(&'a $change), )? )*
        }

        /// The changes about a transfer or a movement of funds. `explain` shows each of them.
        #[derive(Clone, Copy, Debug)]
        pub enum TransferChange<'a> {
            $( $( #[doc = $about_what] $change(&'a $change), )? )*
        }

        /// The changes that open and close windows, or take them into a settlement. The auditor of
        /// `verify` follows each of them.
        #[derive(Clone, Copy, Debug)]
        pub enum WindowChange<'a> {
            $( $( #[doc = $windows] $change(&'a $change), )? )*
        }

        $( const _: () = {
            let parts = &[$(StatePart::$part),*];
            let moves = changes!(@is $($posts)?);
            let is_about = changes!(@is $($about_what)?);
            assert!(
                names(parts, StatePart::Balances) == moves,
                concat!(stringify!($change), ": `touches [Balances]` and `posts` go together"),
            );
            assert!(
                is_about || !names(parts, StatePart::Transfers),
                concat!(stringify!($change), ": `touches [Transfers]` needs `about`"),
            );
            assert!(
                !is_about || are_explained($change::DECLARATION.outcomes),
                concat!(stringify!($change), ": `ExplainedOutcome` needs all its outcomes"),
            );
        }; )*

        $( impl From<$change> for $name {
            fn from(change: $change) -> Self {
                Self::$change(change)
            }
        } )*

        /// Passes the names of all changes to a macro.
        #[macro_export]
        macro_rules! for_each_change {
            ($with:ident) => {
                $with! { $($change),* }
            };
        }
        pub(crate) use for_each_change as each_change;
    };
    (@subset $subset:ident $change:ident $value:ident) => { None };
    (@subset $subset:ident $change:ident $value:ident $named:literal) => {
        Some($subset::$change($value))
    };
    (@since) => { 1 };
    (@since $rules:literal) => { $rules };
    (@is) => { false };
    (@is $named:literal) => { true };
}

/// The stored form of numbers of changes. Readers see the names.
pub struct ChangeNumbers;

impl Form<Vec<u8>> for ChangeNumbers {
    fn write(value: &Vec<u8>, to: &mut impl ByteSink) {
        Bytes::<SHORT>::write(value, to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Vec<u8>, FieldError> {
        Bytes::<SHORT>::read(from)
    }

    fn generate(chooser: &mut impl Chooser) -> Vec<u8> {
        Bytes::<SHORT>::generate(chooser)
    }

    fn describe(value: &Vec<u8>) -> Description {
        let listed = Change::TABLE.iter().filter(|(_, number)| value.contains(number));
        Description::List(listed.map(|(name, _)| Description::text(name)).collect())
    }
}

/// The stored form of a change that is proposed. Changes that no operator asks for, and changes of
/// proposals, are not in it: the form does not nest.
pub struct ProposableChange;

impl Form<Arc<Change>> for ProposableChange {
    fn write(value: &Arc<Change>, to: &mut impl ByteSink) {
        assert!(Change::is_proposable(value.number()), "{value:?} can be proposed");
        value.write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Arc<Change>, FieldError> {
        let number = u8::read(from)?;
        match Change::is_proposable(number) {
            true => Change::read_fields(number, from).map(Arc::new),
            false => Err(FieldError::Value),
        }
    }

    fn describe(value: &Arc<Change>) -> Description {
        value.describe()
    }

    fn generate(chooser: &mut impl Chooser) -> Arc<Change> {
        let numbers = Change::TABLE.iter().map(|(_, number)| *number);
        let numbers: Vec<u8> = numbers.filter(|number| Change::is_proposable(*number)).collect();
        let number = numbers[chooser.choose(numbers.len() as u64 - 1) as usize];
        Arc::new(Change::generate_fields(number, chooser))
    }
}

impl Change {
    /// The entries of the party directory in the fields of this change, or of the change that it
    /// proposes or approves.
    #[must_use]
    pub fn named_parties(&self) -> &[PartyBinding] {
        if let Self::Propose(proposal) = self {
            return proposal.change.named_parties();
        }
        if let Self::AssignParties(change) = self.decided() {
            return &change.parties;
        }
        let Self::RegisterParties(change) = self.decided() else { return &[] };
        &change.parties
    }

    /// The same, to change them.
    pub fn named_parties_mut(&mut self) -> &mut [PartyBinding] {
        if self.named_parties().is_empty() {
            return &mut [];
        }
        if let Self::Propose(proposal) = self {
            return Arc::make_mut(&mut proposal.change).named_parties_mut();
        }
        if let Self::ApproveProposal(approval) = self {
            return Arc::make_mut(&mut approval.change).named_parties_mut();
        }
        if let Self::AssignParties(change) = self {
            return &mut change.parties;
        }
        let Self::RegisterParties(change) = self else { return &mut [] };
        &mut change.parties
    }

    /// Whether this change, or the proposed one, is about a party that an FSP serves or served.
    pub(crate) fn is_about_party_of(&self, name: &FspName) -> bool {
        self.fsps_of_parties().any(|fsp| fsp.matches(name))
    }

    /// The FSP that serves or served all parties of this change, or of the proposed one; `None`
    /// without parties, and with those of several FSPs.
    pub(crate) fn only_fsp_of_parties(&self) -> Option<&FspName> {
        let mut fsps = self.fsps_of_parties();
        let first = fsps.next()?;
        fsps.all(|fsp| fsp.matches(first)).then_some(first)
    }

    fn fsps_of_parties(&self) -> impl Iterator<Item = &FspName> {
        let change = match self {
            Self::Propose(proposal) => &proposal.change,
            other => other,
        };
        let former = change.party_change().map_or(&[][..], |change| change.former);
        let served = change.named_parties().iter().map(|party| &party.fsp);
        served.chain(former.iter().map(|owner| &owner.fsp))
    }

    /// The entries of the party directory that this change sets or releases.
    pub(crate) fn party_change(&self) -> Option<PartyChangeView<'_>> {
        if let Self::AssignParties(change) = self.decided() {
            return Some(PartyChangeView {
                form: change.form,
                parties: &change.parties,
                source: None,
                ownership: Some(PartyOwnership::LatestWins),
                former: &change.former,
            });
        }
        let Self::RegisterParties(change) = self.decided() else { return None };
        Some(PartyChangeView {
            form: PartyChangeForm::Batch,
            parties: &change.parties,
            source: None,
            ownership: None,
            former: &[],
        })
    }
}

/// Changes that cannot be proposed. The switch records the first ones by itself, and needs no
/// operator for them.
const NOT_PROPOSABLE: [&ChangeDeclaration; 7] = [
    &Configure::DECLARATION,
    &CheckLiquidity::DECLARATION,
    &FinishAlerts::DECLARATION,
    &Propose::DECLARATION,
    &ApproveProposal::DECLARATION,
    &RejectProposal::DECLARATION,
    &RecordAudit::DECLARATION,
];

impl Change {
    /// The change that is decided: the proposed one for an approval, this one otherwise.
    #[must_use]
    pub fn decided(&self) -> &Self {
        match self {
            Self::ApproveProposal(approval) => &approval.change,
            other => other,
        }
    }

    /// Whether changes with this number can be proposed, and can need a second person.
    #[must_use]
    pub fn is_proposable(number: u8) -> bool {
        Self::TABLE.iter().any(|(_, known)| *known == number)
            && NOT_PROPOSABLE.iter().all(|declared| declared.number != number)
    }
}

/// Whether `explain` can show all of these.
const fn are_explained(outcomes: &[AdminOutcome]) -> bool {
    let mut at = 0;
    while at < outcomes.len() {
        if ExplainedOutcome::of(outcomes[at].outcome()).is_none() {
            return false;
        }
        at += 1;
    }
    true
}

/// Whether a change touches a part.
const fn names(parts: &[StatePart], part: StatePart) -> bool {
    let mut at = 0;
    while at < parts.len() {
        if parts[at] as u8 == part as u8 {
            return true;
        }
        at += 1;
    }
    false
}

/// Passes the refusals of changes, each with its number, to a macro. The kernel's `Outcome` and
/// `AdminOutcome` are built from them. A number is never reused for another outcome.
macro_rules! admin_outcomes {
    ($with:ident { $($given:tt)* }) => {
        $with! { { $($given)* } {
            /// Admin: the named participant does not exist.
            ParticipantNotFound = 80,
            /// Admin: the participant already has accounts in the currency.
            ParticipantCurrencyExists = 81,
            /// Admin: the hub has no accounts in the currency yet.
            HubAccountsMissing = 82,
            /// Admin: no settlement model serves the currency.
            SettlementModelMissing = 83,
            /// Admin: only the hub can have this account.
            AccountKindNotForHub = 84,
            /// Admin: the account exists.
            AccountExists = 85,
            /// Admin: the participant has no such account.
            AccountNotFound = 86,
            /// Admin: the account is of another type than the action needs.
            AccountKindWrong = 87,
            /// Admin: the account is disabled.
            AccountInactive = 88,
            /// Admin: net debit cap and initial position are already set.
            LimitsExist = 89,
            /// Admin: no net debit cap is set yet.
            LimitsMissing = 90,
            /// Admin: the amount's currency is not the account's.
            CurrencyMismatch = 91,
            /// Admin: the settlement model exists.
            SettlementModelExists = 92,
            /// Admin: no such settlement model.
            SettlementModelNotFound = 93,
            /// Admin: no such outflow, or it is already final.
            FundsOutNotReserved = 95,
            /// Admin: the outflow exceeds the available funds; recorded as aborted.
            FundsInsufficient = 96,
            /// Admin: no such dead letter.
            DeadLetterNotFound = 97,
            /// Admin: the rules version is unknown to this binary, or older than the active one.
            RulesVersionRefused = 98,
            /// Admin: a limit on counts is reached.
            RegistryFull = 99,
            /// Admin: identical to a recorded movement of funds, or end of one; nothing moved.
            FundsRepeated = 110,
            /// Admin: a transfer with that id and different content exists.
            FundsModified = 111,
            /// Admin: an oracle of that type and currency exists.
            OracleExists = 112,
            /// Admin: no such oracle.
            OracleNotFound = 113,
            /// Admin: an account type of that name exists.
            LedgerAccountTypeExists = 114,
            /// Admin: funds of a disabled participant; decided before its account is checked.
            ParticipantInactive = 115,
            /// Admin: the participant has the maximum number of public keys.
            KeysFull = 120,
            /// Admin: the participant has no such public key.
            KeyNotFound = 121,
            /// Admin: no such settlement window.
            WindowNotFound = 130,
            /// Admin: the window is closed already.
            WindowNotOpen = 131,
            /// Admin: the window has no transfers to settle.
            WindowEmpty = 132,
            /// Admin: the model settles each transfer at once.
            SettlementModelGross = 133,
            /// Admin: a window is open, settled, or has nothing for the model.
            WindowsInapplicable = 134,
            /// Admin: no such settlement.
            SettlementNotFound = 135,
            /// Admin: the settlement is final and archived.
            SettlementArchived = 136,
            /// Admin: the settlement can no longer be aborted.
            SettlementCommitted = 137,
            /// Admin: an account of the settlement is committed already.
            SettlementAccountCommitted = 138,
            /// Admin: the position has not crossed the threshold of its alarm.
            LiquidityUnchanged = 139,
            /// Admin: a fee rule of that name exists.
            FeeRuleExists = 140,
            /// Admin: no such fee rule.
            FeeRuleNotFound = 141,
            /// Admin: no role of that name is defined.
            RoleNotFound = 142,
            /// Admin: an operator or a token has the role.
            RoleInUse = 143,
            /// Admin: no such operator.
            OperatorNotFound = 144,
            /// Admin: a token with that id exists.
            TokenExists = 145,
            /// Admin: no such token.
            TokenNotFound = 146,
            /// Admin: a change of this kind is decided as part of an approval only. Precedes every
            /// declared outcome.
            ApprovalRequired = 160,
            /// Admin: a list of kinds of changes that is not ascending, or names a kind that cannot
            /// be proposed.
            FourEyesRefused = 161,
            /// Admin: a change of this kind needs no second person.
            ProposalNotNeeded = 162,
            /// Admin: the change is too large to be proposed.
            ProposalTooLarge = 163,
            /// Admin: the same operator has proposed the same change, and it is open.
            ProposalRepeated = 164,
            /// Admin: no such proposal, or one that was removed long after its end.
            ProposalNotFound = 165,
            /// Admin: the proposal was decided before.
            ProposalEnded = 166,
            /// Admin: the proposal was not decided in time.
            ProposalExpired = 167,
            /// Admin: the operator who proposed the change cannot approve it.
            ProposerCannotApprove = 168,
            /// Admin: the approved change is not the proposed one.
            ProposalDiffers = 169,
            /// Admin: the participant has the maximum number of open enrolments.
            EnrolmentsFull = 175,
            /// Admin: the participant has no such enrolment, or it was removed long after its end.
            EnrolmentNotFound = 176,
            /// Admin: the enrolment has a certificate, or was rejected.
            EnrolmentEnded = 177,
            /// Admin: the erasure names no records, or not in order, or records after it.
            ErasureInvalid = 199,
        } }
    };
}
pub(crate) use admin_outcomes;

changes! {
    /// A change by an operator.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Change: u8 {
        /// Settings that decide about money or notices.
        1 Configure {
            /// The settings.
            settings: Settings,
        } touches [Settings] => [Accepted],
        /// From the next batch on, this version of the rules decides.
        2 Activate {
            /// Version of the rules.
            rules_version: u32,
        } touches [Rules, Windows, Accounts] => [RulesVersionRefused, Accepted]
            windows "Opens the first window, under rules with settlement.",
        /// `POST /participants/Hub/accounts`.
        3 CreateHubAccount {
            /// Currency of the account.
            currency: Currency,
            /// `HUB_RECONCILIATION` or `HUB_MULTILATERAL_SETTLEMENT`.
            kind: AccountKind,
        } touches [Accounts] => [AccountKindNotForHub, RegistryFull, AccountExists, Accepted],
        /// `POST /settlementModels`.
        4 CreateSettlementModel {
            /// The model.
            model: SettlementModel,
        } touches [SettlementModels, Accounts] => [
            SettlementModelExists, AccountKindWrong, RegistryFull, Accepted,
        ],
        /// `PUT /settlementModels/{name}`.
        5 SetSettlementModelActive {
            /// The model.
            name: String as Text<SHORT>,
            /// Whether new participants get its accounts.
            active: bool,
        } touches [SettlementModels] => [SettlementModelNotFound, Accepted],
        /// `POST /participants`.
        6 CreateParticipant {
            /// The participant's name.
            name: FspName,
            /// Currency of its first, or next, pair of accounts.
            currency: Currency,
        } touches [Participants, Accounts] => [
            ParticipantCurrencyExists, HubAccountsMissing, SettlementModelMissing, RegistryFull,
            Accepted,
        ],
        /// `PUT /participants/{name}`.
        7 SetParticipantActive {
            /// The participant.
            name: FspName,
            /// Whether it may send and receive.
            active: bool,
        } touches [Participants] => [ParticipantNotFound, Accepted],
        /// `PUT /participants/{name}/accounts/{id}`.
        8 SetAccountActive {
            /// The participant.
            name: FspName,
            /// The account; only POSITION accounts can be toggled.
            account: AccountId,
            /// Whether it may be used.
            active: bool,
        } touches [Accounts] => [ParticipantNotFound, AccountNotFound, AccountKindWrong, Accepted],
        /// `POST /participants/{name}/initialPositionAndLimits`.
        9 SetInitialPositionAndLimits {
            /// The participant.
            name: FspName,
            /// Currency of the accounts.
            currency: Currency,
            /// Net debit cap.
            net_debit_cap: Amount as BoundedAmount,
            /// Initial position, posted against a hub account.
            position: Amount as BoundedAmount,
        } touches [Limits, Accounts, Balances] => [
            ParticipantNotFound, AccountNotFound, LimitsExist, Accepted,
        ]
            posts "The position to start from, against the hub's opening account.",
        /// `PUT /participants/{name}/limits`.
        10 SetLimit {
            /// The participant.
            name: FspName,
            /// Currency of the cap.
            currency: Currency,
            /// Net debit cap.
            net_debit_cap: Amount as BoundedAmount,
            /// Share of the cap at which the operator is warned, in ten-thousandths of a percent.
            alarm_percentage: Amount as BoundedAmount,
        } touches [Limits, Settlements, Alerts] => [
            ParticipantNotFound, AccountNotFound, LimitsMissing, Accepted,
        ],
        /// `POST /participants/{name}/endpoints`: sets or overwrites.
        11 SetEndpoint {
            /// The participant.
            name: FspName,
            /// Endpoint type, for example `FSPIOP_CALLBACK_URL_TRANSFER_POST`.
            endpoint: String as Text<SHORT>,
            /// Template or base URL.
            value: String as Text<LONG>,
        } touches [Participants] => [ParticipantNotFound, RegistryFull, Accepted],
        /// `POST /participants/{name}/keys`: adds a public key that verifies its messages.
        20 AddKey {
            /// The participant.
            name: FspName,
            /// SHA-256 of `key`.
            id: Digest,
            /// The `SubjectPublicKeyInfo`, in DER; at most
            /// [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX) bytes.
            key: Vec<u8> as Bytes<KEY_BYTES_MAX>,
        } touches [Participants] => [ParticipantNotFound, KeysFull, Accepted],
        /// `DELETE /participants/{name}/keys/{id}`.
        21 RemoveKey {
            /// The participant.
            name: FspName,
            /// The key.
            id: Digest,
        } touches [Participants] => [ParticipantNotFound, KeyNotFound, Accepted],
        /// `recordFundsIn`, `recordFundsOutPrepareReserve`.
        40 MoveFunds {
            /// The transfer that records the movement.
            id: TransferId,
            /// The participant.
            name: FspName,
            /// Its SETTLEMENT account.
            account: AccountId,
            /// Direction.
            direction: FundsDirection,
            /// Currency of the amount.
            currency: Currency,
            /// The amount, above zero.
            amount: Amount as NonNegative,
            /// Digest of the request: distinguishes a resend from another movement with this id.
            hash: Digest,
        } touches [Balances, Transfers] => [
            ParticipantNotFound, ParticipantInactive, AccountNotFound, AccountKindWrong,
            AccountInactive, CurrencyMismatch, FundsRepeated, FundsModified, HubAccountsMissing,
            FundsInsufficient, Accepted,
        ]
            posts "Funds between the participant and the hub's reconciliation account."
            about "The movement.",
        /// `recordFundsOutCommit`, `recordFundsOutAbort`.
        41 EndFundsOut {
            /// The transfer that recorded the reservation.
            id: TransferId,
            /// The participant.
            name: FspName,
            /// Its SETTLEMENT account.
            account: AccountId,
            /// True to commit, false to return the funds.
            commit: bool,
            /// Digest of the request, like [`MoveFunds::hash`].
            hash: Digest,
        } touches [Balances, Transfers] => [
            ParticipantNotFound, ParticipantInactive, AccountNotFound, AccountKindWrong,
            AccountInactive, FundsRepeated, FundsOutNotReserved, Accepted,
        ]
            posts "Reserved funds, on to the reconciliation account or back."
            about "The movement that ends.",
        /// Sends a dead letter again.
        14 Redeliver {
            /// The notice.
            notice: NoticeId,
        } touches [Notices] => [DeadLetterNotFound, Accepted]
            about "The transfer of the notice, if it has one.",
        /// Drops a dead letter, which is not sent again.
        84 DropDeadLetter {
            /// The notice.
            notice: NoticeId,
        } touches [Notices] => [DeadLetterNotFound, Accepted]
            about "The transfer of the notice, if it has one."
            since 4,
        /// `POST /oracles`.
        42 CreateOracle {
            /// The oracle.
            oracle: Oracle,
        } touches [Oracles] => [OracleExists, RegistryFull, Accepted],
        /// `PUT /oracles/{id}`.
        43 UpdateOracle {
            /// The oracle.
            id: OracleId,
            /// The new values.
            update: OracleUpdate,
        } touches [Oracles] => [OracleNotFound, OracleExists, Accepted],
        /// `DELETE /oracles/{id}`.
        44 DeleteOracle {
            /// The oracle.
            id: OracleId,
        } touches [Oracles] => [Accepted],
        /// `POST /ledgerAccountTypes`.
        45 CreateLedgerAccountType {
            /// The type.
            account_type: LedgerAccountType,
        } touches [LedgerAccountTypes] => [LedgerAccountTypeExists, RegistryFull, Accepted],
        /// `POST /settlementWindows/{id}`: closes the open window and opens the next one.
        50 CloseWindow {
            /// The window.
            window: WindowId,
            /// The reason.
            reason: String as Text<LONG>,
        } touches [Windows] => [WindowNotFound, WindowNotOpen, WindowEmpty, RegistryFull, Accepted]
            windows "Closes a window and opens the next one."
            since 2,
        /// `POST /settlements`: nets the contents of windows that a model serves.
        51 CreateSettlement {
            /// Name of the model.
            model: String as Text<SHORT>,
            /// The reason.
            reason: String as Text<LONG>,
            /// The windows.
            windows: Vec<WindowId> as List<WINDOWS_MAX>,
        } touches [Windows, Settlements] => [
            SettlementModelNotFound, SettlementModelGross, WindowsInapplicable, RegistryFull,
            Accepted,
        ]
            windows "Takes contents of closed windows."
            since 2,
        /// `PUT /settlements/{id}` and its longer paths: moves accounts to their next state. An
        /// account that cannot move does not refuse the others.
        52 AdvanceSettlement {
            /// The settlement.
            settlement: SettlementId,
            /// The accounts, in the order of the request.
            steps: Vec<AccountStep> as List<ACCOUNTS_MAX>,
        } touches [Windows, Settlements, Balances, Limits, Alerts] => [
            SettlementNotFound, SettlementArchived, Accepted,
        ]
            posts "Positions of net recipients, then of net senders, back towards zero."
            since 2,
        /// `PUT /settlements/{id}` with ABORTED.
        53 AbortSettlement {
            /// The settlement.
            settlement: SettlementId,
            /// The reason.
            reason: String as Text<LONG>,
        } touches [Windows, Settlements, Balances, Limits, Alerts] => [
            SettlementNotFound, SettlementArchived, SettlementCommitted,
            SettlementAccountCommitted, Accepted,
        ]
            posts "Positions of net recipients as they were before."
            since 2,
        /// Raises or clears the liquidity alarm of a participant.
        54 CheckLiquidity {
            /// The participant.
            name: FspName,
            /// The currency.
            currency: Currency,
        } touches [Alerts] => [
            ParticipantNotFound, AccountNotFound, LimitsMissing, LiquidityUnchanged, Accepted,
        ]
            since 2,
        /// Ends alerts that were sent, or that have no receiver.
        55 FinishAlerts {
            /// The alerts.
            alerts: Vec<AlertId> as List<ALERTS_MAX>,
        } touches [Alerts] => [Accepted]
            since 2,
        /// `POST /participants/{name}/accounts/{id}/adjustments`: corrects a balance.
        56 AdjustBalance {
            /// The transfer that records the adjustment.
            id: TransferId,
            /// The participant.
            name: FspName,
            /// Its POSITION or SETTLEMENT account.
            account: AccountId,
            /// Currency of the amount.
            currency: Currency,
            /// The amount that is added to the balance.
            amount: Amount as BoundedAmount,
            /// Digest of the request, like [`MoveFunds::hash`].
            hash: Digest,
        } touches [Balances, Transfers] => [
            ParticipantNotFound, AccountNotFound, AccountKindWrong, CurrencyMismatch,
            FundsRepeated, FundsModified, HubAccountsMissing, Accepted,
        ]
            posts "The amount, between the account and the hub's reconciliation account."
            about "The adjustment."
            since 2,
        /// `POST /interchangeFeeRules`.
        57 CreateFeeRule {
            /// The rule.
            rule: Box<FeeRule>,
        } touches [FeeRules] => [FeeRuleExists, SettlementModelMissing, RegistryFull, Accepted]
            since 3,
        /// `PUT /interchangeFeeRules/{id}`.
        58 SetFeeRuleActive {
            /// The rule.
            rule: FeeRuleId,
            /// Whether it applies to new transfers.
            active: bool,
        } touches [FeeRules] => [FeeRuleNotFound, Accepted]
            since 3,
        /// `PUT /roles/{name}`: defines a role, or changes its permissions.
        60 SetRole {
            /// The role.
            role: OperatorRole,
        } touches [Operators] => [RegistryFull, Accepted]
            since 4,
        /// `DELETE /roles/{name}`.
        61 RemoveRole {
            /// The role.
            name: String as Text<SHORT>,
        } touches [Operators] => [RoleNotFound, RoleInUse, Accepted]
            since 4,
        /// `PUT /operators/{name}`: adds an operator, or changes it. Disabling an operator ends its
        /// sessions.
        62 SetOperator {
            /// The operator.
            name: String as Text<SHORT>,
            /// Names of its roles.
            roles: Vec<String> as List<GRANTED_ROLES_MAX, Text<SHORT>>,
            /// Whether it may use the admin API.
            active: bool,
        } touches [Operators] => [RegistryFull, Accepted]
            since 4,
        /// `POST /tokens`.
        63 CreateToken {
            /// Its id.
            id: OperatorTokenId,
            /// The operator.
            operator: String as Text<SHORT>,
            /// Roles to which the token is restricted; empty for all roles of the operator.
            roles: Vec<String> as List<GRANTED_ROLES_MAX, Text<SHORT>>,
            /// Hash of the secret.
            hash: Digest as Secret<Plain>,
            /// Purpose of the token.
            description: String as Text<SHORT>,
            /// From this time on it is refused.
            expires: Stamp,
        } touches [Operators] => [OperatorNotFound, TokenExists, RegistryFull, Accepted]
            since 4,
        /// `DELETE /tokens/{id}`.
        64 RevokeToken {
            /// The token.
            id: OperatorTokenId,
        } touches [Operators] => [TokenNotFound, Accepted]
            since 4,
        /// `PUT /operators/{name}/password`: sets or removes the password, and ends the sessions.
        65 SetPassword {
            /// The operator.
            operator: String as Text<SHORT>,
            /// Hash of the password; empty to remove it.
            hash: String as Secret<Text<SHORT>>,
        } touches [Operators] => [OperatorNotFound, Accepted]
            since 4,
        /// `PUT /operators/{name}/secondFactor`: sets or removes it, and ends the sessions.
        66 SetSecondFactor {
            /// The operator.
            operator: String as Text<SHORT>,
            /// Its encrypted secret; empty to remove it.
            secret: Vec<u8> as Secret<Bytes<SHORT>>,
        } touches [Operators] => [OperatorNotFound, Accepted]
            since 4,
        /// `PUT /fourEyes`: the kinds of changes that need a second person.
        70 SetFourEyes {
            /// Numbers of changes, ascending.
            changes: Vec<u8> as ChangeNumbers,
        } touches [Proposals] => [FourEyesRefused, Accepted]
            since 4,
        /// A request for a change that needs a second person.
        71 Propose {
            /// The operator.
            by: String as Text<SHORT>,
            /// The reason.
            reason: String as Text<PROPOSAL_TEXT_MAX>,
            /// The request, as the admin API describes it.
            request: String as Text<PROPOSAL_TEXT_MAX>,
            /// Time for which the proposal is open, in seconds.
            seconds: u32 as AtMost<PROPOSAL_SECONDS_MAX>,
            /// The change.
            change: Arc<Change> as ProposableChange,
        } touches [Proposals] => [
            ProposalNotNeeded, ProposalTooLarge, ProposalRepeated, RegistryFull, Accepted,
        ]
            since 4,
        /// `POST /proposals/{id}/approve`: decides the proposed change. It also touches the parts
        /// of that change, and has its outcomes.
        72 ApproveProposal {
            /// The proposal.
            proposal: ProposalId,
            /// The operator.
            by: String as Text<SHORT>,
            /// The reason.
            reason: String as Text<PROPOSAL_TEXT_MAX>,
            /// The proposed change, as the operator saw it.
            change: Arc<Change> as ProposableChange,
        } touches [Proposals] => [
            ProposalNotFound, ProposalEnded, ProposalExpired, ProposerCannotApprove,
            ProposalDiffers, Accepted,
        ]
            since 4,
        /// `POST /proposals/{id}/reject`: rejects a proposal, or withdraws the operator's own one.
        73 RejectProposal {
            /// The proposal.
            proposal: ProposalId,
            /// The operator.
            by: String as Text<SHORT>,
            /// The reason.
            reason: String as Text<PROPOSAL_TEXT_MAX>,
        } touches [Proposals] => [ProposalNotFound, ProposalEnded, ProposalExpired, Accepted]
            since 4,
        /// A request to the admin API that was refused, or that read guarded data. It changes no
        /// state: the log itself is the list.
        74 RecordAudit {
            /// Its method.
            method: String as Text<SHORT>,
            /// Its path, without the query.
            path: String as Text<SHORT>,
            /// HTTP status of its response.
            status: u16,
            /// Error code of its response, 0 without one.
            code: u16,
            /// Description of the error; empty without one.
            detail: String as Text<SHORT>,
            /// Number of requests that the record counts, of which this is the last one.
            requests: u32,
            /// The record of the change that was refused; 0 without one.
            record: LogIndex,
        } touches [] => [Accepted] since 4,
        /// `POST /api/dfsps/{dfspId}/enrollments/inbound`: a participant asks for a certificate.
        80 BeginEnrolment {
            /// The participant.
            name: FspName,
            /// The certificate signing request, in DER.
            csr: Vec<u8> as Bytes<CSR_BYTES_MAX>,
        } touches [Enrolments] => [ParticipantNotFound, EnrolmentsFull, RegistryFull, Accepted]
            since 4,
        /// A certificate was issued for an enrolment, or the enrolment was rejected.
        81 EndEnrolment {
            /// The participant.
            name: FspName,
            /// The record that began the enrolment.
            enrolment: LogIndex,
            /// The certificate, then those of authorities below the root, in DER; `None` if the
            /// enrolment is rejected.
            certificate: Option<Vec<u8>> as Optional<Bytes<CERTIFICATE_BYTES_MAX>>,
        } touches [Enrolments] => [EnrolmentNotFound, EnrolmentEnded, Accepted]
            since 4,
        /// `POST /parties`: registers entries of the party directory, which is no part of the
        /// state.
        82 RegisterParties {
            /// The entries.
            parties: Vec<PartyBinding> as List<ENTRIES_MAX>,
        } touches [] => [ParticipantNotFound, Accepted] since 4,
        /// `POST /parties` and `DELETE /parties/{Type}/{ID}`: an operator registers or releases
        /// entries of the party directory, regardless of their owners.
        86 AssignParties {
            /// Whether the entries are registered (`Batch`) or released (`Delete`).
            form: PartyChangeForm,
            /// The entries.
            parties: Vec<PartyBinding> as List<ENTRIES_MAX>,
            /// The FSPs that lose an entry.
            former: Vec<FormerOwner> as List<ENTRIES_MAX>,
        } touches [Notices] => [ParticipantNotFound, Accepted] since 4,
        /// `POST /erasures`: erases the contents (headers and bodies) of recorded messages from the
        /// log, its archives and its backups. The fields that the kernel reads stay.
        85 Erase {
            /// How the records were selected.
            form: ErasureForm,
            /// The selected transfer or time, or the type of the party's identifier, or the
            /// participant and a time.
            subject: String as Text<SHORT>,
            /// The records, ascending and apart.
            records: Vec<RecordRange> as List<ERASED_RANGES_MAX>,
            /// Number of contents that were stored when the erasure was requested.
            contents: u32,
        } touches [Erasures] => [ErasureInvalid, RegistryFull, Accepted] since 4,
    }
}

stored! {
    /// One account of an [`AdvanceSettlement`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AccountStep {
        /// Number of the participant in the settlement API.
        pub participant: u32,
        /// The account.
        pub account: AccountId,
        /// The state to which it moves.
        pub state: SettlementState,
        /// The reason.
        pub reason: String as Text<LONG>,
        /// The operator's reference of the payment, empty without one.
        pub external_reference: String as Text<SHORT>,
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
        /// `PUT /transfers/{id}` with ABORTED aborts the transfer, instead of leaving it to time
        /// out.
        pub put_aborted_aborts: bool,
        /// Funds out check the position too, not only the SETTLEMENT balance.
        pub funds_out_covers_position: bool,
        /// Number of notices owed to one FSP beyond which prepares for it are refused.
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
    /// A settlement model: how transfers of an account type and currency are settled.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SettlementModel {
        /// Name, 2 to 30 characters.
        pub name: String as Text<SHORT>,
        /// Whether it settles net (otherwise gross).
        pub net: bool,
        /// Whether it settles with all participants at once (otherwise pairwise).
        pub multilateral: bool,
        /// Whether settlement is deferred (otherwise with each transfer).
        pub deferred: bool,
        /// The only currency it serves; `None` makes it the default.
        pub currency: Option<Currency>,
        /// Raises a net debit cap that a settlement would exceed.
        pub liquidity_check: bool,
        /// Settlement moves positions back towards zero.
        pub auto_position_reset: bool,
        /// Account type that it settles.
        pub ledger_account: AccountKind,
        /// Account type of the liquidity cover.
        pub settlement_account: AccountKind,
        /// Whether participants created from now on get its accounts.
        pub active: bool,
    }
}

numbered! {
    /// The direction of a movement of funds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FundsDirection: u8 {
        /// Deposited with the scheme.
        In = 0,
        /// Taken out of the scheme.
        Out = 1,
    }
}

stored! {
    /// A service that finds the FSP of a party, kept as a record (hub-semantics 6.1).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Oracle {
        /// Type of its identifiers, for example `MSISDN`.
        pub id_type: String as Text<SHORT>,
        /// Its base URL.
        pub endpoint: String as Text<LONG>,
        /// The only currency it serves, if it serves only one.
        pub currency: Option<Currency>,
        /// Whether it is preferred among several oracles of its type.
        pub default: bool,
    }
}

stored! {
    /// New values for members of an oracle; absent members stay.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct OracleUpdate {
        /// Type of its identifiers.
        pub id_type: Option<String> as Optional<Text<SHORT>>,
        /// Its base URL.
        pub endpoint: Option<String> as Optional<Text<LONG>>,
        /// Its only currency.
        pub currency: Option<Currency>,
        /// Whether it is the default one.
        pub default: Option<bool>,
    }
}

stored! {
    /// An account type besides the kernel's own: a name without accounts (hub-semantics 4.1).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LedgerAccountType {
        /// Name, 2 to 30 characters.
        pub name: String as Text<SHORT>,
        /// Purpose of the account type.
        pub description: String as Text<LONG>,
        /// Whether it is in use.
        pub active: bool,
        /// Whether a settlement model can settle it.
        pub settleable: bool,
    }
}
