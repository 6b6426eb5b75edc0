//! The workload of the party directory: participants and operators register, release and take
//! identifiers, and look them up.
//!
//! A run has one rule of ownership. Few identifiers are shared by all participants, with several
//! currencies and sub-identifiers, so that most changes meet entries of others. The simulated edge
//! names the FSPs that lose an entry, as the directory shows it; most requests that the rule
//! forbids go no further, but some do, as if two had come at the same time. Look-ups are compared
//! with the model, and all entries after each start and at rest. In half of all runs the edge
//! records hashes of identifiers.
//!
//! The workload exists in some runs only, and has its own RNG stream. A run without it is the same,
//! event for event, as before the workload existed.

use ledger::{
    AssignParties, ChangeParties, Command, FormerOwner, FspName, PartyBinding, PartyChangeForm,
    PartyOwnership, PartyRule,
};
use record::party_names::PartyKey;

use crate::event::Event;
use crate::random::{Arrivals, Random, mix, spread16};
use crate::simulation::{SimulationRun, genesis_seed};

/// Separates the RNG stream of this workload from that of the run. With this number, no seed that
/// had found a bug before gets the workload, so those seeds still find it.
const STREAM: u64 = 0x7061_7274_693e;
/// Runs with this workload, in a thousand.
const PER_MILLE: u32 = 300;
/// Separates the choice of hashes from the streams.
const HASHES: u64 = 0x6861_7368_6573;
const IDENTIFIERS: u64 = 6;
const RULES: [PartyOwnership; 3] =
    [PartyOwnership::OwnerOnly, PartyOwnership::OwnerPerCurrency, PartyOwnership::LatestWins];

/// The participants and operators that change the directory.
#[derive(Debug)]
pub(crate) struct PartyWorkload {
    random: Random,
    pub(crate) arrivals: Arrivals,
    rule: PartyOwnership,
    /// The key with which the edge of this run hashes identifiers, if it does.
    key: Option<PartyKey>,
}

impl PartyWorkload {
    pub(crate) fn new(seed: u64, chaos_us: u64) -> Self {
        let mut random = Random::new(mix(seed ^ STREAM));
        let arrivals = Arrivals::draw(&mut random, PER_MILLE, (20, 120), chaos_us);
        let rule = random.pick(&RULES);
        let is_hashed = mix(seed ^ HASHES).is_multiple_of(2);
        let key = is_hashed.then(|| PartyKey::of_seed(&genesis_seed(seed)));
        Self { random, arrivals, rule, key }
    }

    /// Replaces the identifiers of a change as the edge does.
    pub(crate) fn conceal(&self, parties: &mut [PartyBinding]) {
        if let Some(key) = &self.key {
            // The simulated messages have no contents with identifiers.
            let _names = key.conceal(parties);
        }
    }
}

impl SimulationRun {
    /// Schedules the next act, if the run has this workload.
    pub(crate) fn schedule_parties(&mut self) {
        if let Some(wait) = self.party_workload.arrivals.next(&mut self.party_workload.random) {
            self.env.after(wait, Event::Parties);
        }
    }

    /// Requests the next change, or looks an identifier up.
    pub(crate) fn run_party_step(&mut self) {
        if self.env.calm {
            return;
        }
        if self.hub.is_some() {
            match self.party_workload.random.below(10) {
                0..4 => self.change_party(PartyChangeForm::Single),
                4 => self.change_party(PartyChangeForm::Batch),
                5 | 6 => self.change_party(PartyChangeForm::Delete),
                7 => self.assign_party(),
                _ => self.check_directory(),
            }
        }
        self.schedule_parties();
    }

    /// A participant registers or releases identifiers.
    fn change_party(&mut self, form: PartyChangeForm) {
        let from = self.draw_fsp();
        let source = self.actors.name(from);
        let count = if form == PartyChangeForm::Batch { 3 } else { 1 };
        let mut parties: Vec<_> = (0..count).map(|_| self.draw_party(source)).collect();
        let rule = self.party_workload.rule;
        // If the latest registration counts, an FSP can register another one.
        if rule == PartyOwnership::LatestWins && self.party_workload.random.chance(200) {
            let other = self.draw_fsp();
            parties[0].fsp = self.actors.name(other);
        }
        let is_racing = self.party_workload.random.chance(250);
        let entries: Vec<_> = parties.iter().map(|party| self.entries_of(party)).collect();
        let is_foreign = |fsp: &FspName| *fsp != source;
        let has_owners = rule != PartyOwnership::LatestWins;
        if has_owners && !is_racing && entries.iter().flatten().any(is_foreign) {
            return;
        }
        let mut former = Vec::new();
        for (party, (lost, named)) in (0..).zip(entries.iter().zip(&parties)) {
            let is_kept = |fsp: &FspName| {
                !is_foreign(fsp) || (form != PartyChangeForm::Delete && *fsp == named.fsp)
            };
            let lost = lost.iter().filter(|fsp| !has_owners && !is_kept(fsp));
            former.extend(lost.map(|fsp| FormerOwner { party, fsp: *fsp }));
        }
        self.env.counts.entries_lost += former.len() as u64;
        let trace = spread16(self.party_workload.random.next());
        let rule = Some(PartyRule { ownership: rule, former });
        let change = ChangeParties { source, form, parties, trace, rule };
        self.send_unplanned(from, Command::ChangeParties(Box::new(change)));
    }

    /// An operator registers or releases an identifier, regardless of its owner.
    fn assign_party(&mut self) {
        let fsp = self.draw_fsp();
        let party = self.draw_party(self.actors.name(fsp));
        let form = match self.party_workload.random.chance(500) {
            true => PartyChangeForm::Batch,
            false => PartyChangeForm::Delete,
        };
        let lost = self.entries_of(&party);
        let is_lost = |fsp: &FspName| (form == PartyChangeForm::Delete) == (*fsp == party.fsp);
        let lost = lost.into_iter().filter(is_lost);
        let former: Vec<_> = lost.map(|fsp| FormerOwner { party: 0, fsp }).collect();
        self.env.counts.entries_lost += former.len() as u64;
        self.ask_for_change(AssignParties { form, parties: vec![party], former }.into());
    }

    fn draw_fsp(&mut self) -> u8 {
        self.party_workload.random.below(u64::from(self.env.parameters.fsps)) as u8
    }

    fn draw_party(&mut self, fsp: FspName) -> PartyBinding {
        let random = &mut self.party_workload.random;
        let (id, sub_id) = (format!("77{}", random.below(IDENTIFIERS)), random.chance(200));
        let at = random.below(self.actors.currencies.len() as u64 + 1) as usize;
        PartyBinding {
            id_type: "MSISDN".into(),
            id,
            sub_id: sub_id.then(|| "shop".into()),
            currency: self.actors.currencies.get(at).copied(),
            fsp,
        }
    }

    /// The FSPs that serve a party in its currency, as the directory shows it now.
    fn entries_of(&self, party: &PartyBinding) -> Vec<FspName> {
        let handle = self.hub.as_ref().expect("it is up").node.handle();
        let found = handle.find_party(&party.id_type, &party.id, party.sub_id.as_deref());
        let found = found.expect("a store in memory is read");
        found.serving(party.currency).map(|entry| entry.fsp).collect()
    }

    /// The directory has the entries that the model has.
    pub(crate) fn check_directory(&mut self) {
        let Some(hub) = &self.hub else { return };
        let handle = hub.node.handle();
        for ((id_type, id, sub_id), entries) in self.external.model.directory() {
            let found = handle.find_party(id_type, id, sub_id.as_deref());
            let found = found.expect("a store in memory is read");
            let found: Vec<_> = found.entries.iter().map(|it| (it.currency, it.fsp)).collect();
            assert_eq!(found, entries, "entries of {id_type} {id} {sub_id:?}");
            self.env.counts.look_ups += 1;
        }
    }
}
