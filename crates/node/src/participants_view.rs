//! An immutable view of the participants for the edge.
//!
//! The view is replaced before a command that changes it is answered: a change is in force with the
//! next message. Reading takes no lock.

use std::collections::HashMap;
use std::sync::Arc;

use ledger::{
    Currency, FeeRule, FspName, HASHED_PARTIES, OperatorBook, Oracle, OracleId, ParticipantIndex,
    PartyBinding, PublicKey, Settings, State,
};
use record::party_names::{PartyKey, PartyNames};

/// A participant as the edge sees it.
#[derive(Clone, Debug)]
pub struct ParticipantInfo {
    /// Its index in the registry.
    pub index: ParticipantIndex,
    /// Its name.
    pub name: FspName,
    /// Whether it may send and receive.
    pub active: bool,
    /// Currencies in which it has a POSITION account, and whether that is active.
    pub currencies: Vec<(Currency, bool)>,
    /// Endpoint type and value.
    pub endpoints: Vec<(String, String)>,
    /// Its public keys, oldest first.
    pub keys: Vec<PublicKey>,
}

impl ParticipantInfo {
    /// Active, with an active POSITION account in the currency (hub-semantics 2.4).
    #[must_use]
    pub fn is_usable(&self, currency: Currency) -> bool {
        self.active && self.currencies.contains(&(currency, true))
    }
}

/// All participants, the settings in force, the operators, the fee rules, and the oracles.
#[derive(Clone, Debug)]
pub struct ParticipantsView {
    /// The hub's name.
    pub hub: FspName,
    /// Settings in force.
    pub settings: Settings,
    /// Version of the rules in force.
    pub rules_version: u32,
    /// The key of the hashes of parties' identifiers.
    pub party_key: PartyKey,
    /// Operators of the admin API, their roles and tokens.
    pub operators: Arc<OperatorBook>,
    /// All fee rules in order of number; none while no rule is active.
    pub fee_rules: Vec<FeeRule>,
    /// The registered oracles, in order of number.
    pub oracles: Vec<(OracleId, Oracle)>,
    members: Vec<ParticipantInfo>,
    /// Without the hub, which participants do not address.
    by_name: HashMap<FspName, ParticipantIndex>,
    /// The same by the name in lower case.
    senders: HashMap<FspName, ParticipantIndex>,
}

impl ParticipantsView {
    /// Participants whose endpoints differ from those in an earlier view.
    #[must_use]
    pub fn moved_since(&self, earlier: &Self) -> Vec<ParticipantIndex> {
        let moved = |member: &&ParticipantInfo| {
            earlier.get(member.index).is_some_and(|known| known.endpoints != member.endpoints)
        };
        self.members.iter().filter(moved).map(|member| member.index).collect()
    }

    /// Replaces the identifiers in the entries of a change that is recorded next by hashes, and
    /// returns them. `None` before a version of the rules that knows hashes, and if no entry has an
    /// identifier in clear.
    #[must_use]
    pub fn conceal_parties(&self, parties: &mut [PartyBinding]) -> Option<PartyNames> {
        match HASHED_PARTIES <= self.rules_version {
            true => self.party_key.conceal(parties),
            false => None,
        }
    }

    /// Copies what the edge needs.
    #[must_use]
    pub fn of(state: &State) -> Self {
        let members: Vec<_> = state
            .registry()
            .iter()
            .map(|(index, participant)| ParticipantInfo {
                index,
                name: participant.name,
                active: participant.active,
                currencies: participant
                    .by_currency
                    .iter()
                    .map(|accounts| {
                        let account = state.accounts().get(accounts.position);
                        (accounts.currency, account.is_some_and(|account| account.active))
                    })
                    .collect(),
                endpoints: participant.endpoints.clone(),
                keys: participant.keys.clone(),
            })
            .collect();
        let others = || members.iter().filter(|member| member.index != ParticipantIndex::HUB);
        let by_name = others().map(|member| (member.name, member.index)).collect();
        let senders = others().map(|member| (member.name.folded(), member.index)).collect();
        let (hub, settings) = (*state.hub(), *state.settings());
        let rules = state.fees().rules();
        let fee_rules = if rules.iter().any(|rule| rule.active) { rules } else { &[] }.to_vec();
        let operators = Arc::new(state.operators().clone());
        let rules_version = state.rules_version();
        let party_key = PartyKey::of_state(state);
        let oracles = state.registry().oracles().to_vec();
        Self {
            hub,
            settings,
            rules_version,
            party_key,
            operators,
            fee_rules,
            oracles,
            members,
            by_name,
            senders,
        }
    }

    /// The participant, not the hub, of this exact name.
    #[must_use]
    pub fn find(&self, name: &FspName) -> Option<&ParticipantInfo> {
        self.by_name.get(name).map(|index| &self.members[index.at()])
    }

    /// The participant, not the hub, that a message names as its sender. Case is ignored, as the
    /// kernel does ([`ledger::Registry::sender`]).
    #[must_use]
    pub fn sender(&self, name: &FspName) -> Option<&ParticipantInfo> {
        let index = self.senders.get(&name.folded())?;
        Some(&self.members[index.at()])
    }

    /// The participant with this index.
    #[must_use]
    pub fn get(&self, index: ParticipantIndex) -> Option<&ParticipantInfo> {
        self.members.get(index.at())
    }

    /// All participants, the hub first.
    #[must_use]
    pub fn members(&self) -> &[ParticipantInfo] {
        &self.members
    }
}
