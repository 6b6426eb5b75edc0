//! The registry workload: an operator that maintains oracles, types of accounts and public keys,
//! and repeats earlier requests to move funds.
//!
//! The workload exists in some runs only, and has its own RNG stream. A run without it is the same,
//! event for event, as before the workload existed.

use ledger::{
    AddKey, Amount, Change, CreateLedgerAccountType, CreateOracle, Currency, DeleteOracle, Digest,
    LedgerAccountType, Oracle, OracleId, OracleUpdate, RemoveKey, UpdateOracle,
};

use crate::event::Event;
use crate::random::{Arrivals, Random, mix, spread32};
use crate::simulation::SimulationRun;
use crate::transfers::GHOST;

/// Separates the RNG stream of this workload from that of the run. With this number, no seed that
/// had found a bug before gets the workload, so those seeds still find it.
const STREAM: u64 = 0x0063_6c65_7272;
const ID_TYPES: [&str; 3] = ["MSISDN", "IBAN", "ALIAS"];
/// Names of types; the last is the kernel's own.
const TYPES: [&str; 4] = ["SCHEME_FEE", "TAX", "ESCROW", "POSITION"];
/// Keys that a participant may have: more than there is room for.
const KEYS_EACH: u64 = 7;
/// Participants that get keys: few, so that some have all they may have.
const KEY_HOLDERS: u64 = 2;

#[derive(Debug)]
pub(crate) struct RegistryWorkload {
    random: Random,
    pub(crate) arrivals: Arrivals,
}

impl RegistryWorkload {
    pub(crate) fn new(seed: u64, chaos_us: u64) -> Self {
        let mut random = Random::new(mix(seed ^ STREAM));
        let arrivals = Arrivals::draw(&mut random, 500, (20, 120), chaos_us);
        Self { random, arrivals }
    }
}

impl SimulationRun {
    /// Schedules the next act, if the run has this workload.
    pub(crate) fn schedule_registry(&mut self) {
        if let Some(wait) = self.registry_workload.arrivals.next(&mut self.registry_workload.random)
        {
            self.env.after(wait, Event::Registry);
        }
    }

    /// Requests the next change.
    pub(crate) fn run_registry_step(&mut self) {
        if self.env.calm {
            return;
        }
        let change = match self.registry_workload.random.below(10) {
            0 | 1 => Some(self.create_oracle()),
            2 => Some(self.update_oracle()),
            3 => Some(DeleteOracle { id: self.oracle_id() }.into()),
            4 => Some(self.create_type()),
            5 | 6 => Some(self.add_key()),
            7 => Some(self.remove_key()),
            _ => self.move_again(),
        };
        if let Some(change) = change {
            self.ask_for_change(change);
        }
        self.schedule_registry();
    }

    fn create_oracle(&mut self) -> Change {
        Change::CreateOracle(CreateOracle {
            oracle: Oracle {
                id_type: self.registry_workload.random.pick(&ID_TYPES).into(),
                endpoint: "http://oracle".into(),
                currency: self.any_currency(),
                default: self.registry_workload.random.chance(500),
            },
        })
    }

    fn update_oracle(&mut self) -> Change {
        let id = self.oracle_id();
        let id_type = self.registry_workload.random.pick(&ID_TYPES);
        let update = OracleUpdate {
            id_type: self.registry_workload.random.chance(300).then(|| id_type.into()),
            endpoint: Some("http://oracle-2".into()),
            currency: self.any_currency(),
            default: None,
        };
        UpdateOracle { id, update }.into()
    }

    /// A number that was given out, or nearly.
    fn oracle_id(&mut self) -> OracleId {
        let known = self.state().and_then(|state| state.registry().oracles().last());
        let last = known.map_or(0, |(id, _)| id.0);
        OracleId(self.registry_workload.random.below(u64::from(last) + 2) as u32)
    }

    fn any_currency(&mut self) -> Option<Currency> {
        let number =
            self.registry_workload.random.below(u64::from(self.env.parameters.currencies) + 1)
                as usize;
        self.actors.currencies.get(number).copied()
    }

    fn create_type(&mut self) -> Change {
        Change::CreateLedgerAccountType(CreateLedgerAccountType {
            account_type: LedgerAccountType {
                name: self.registry_workload.random.pick(&TYPES).into(),
                description: "kept as a name".into(),
                active: self.registry_workload.random.chance(500),
                settleable: self.registry_workload.random.chance(500),
            },
        })
    }

    fn add_key(&mut self) -> Change {
        let (fsp, id) = self.key();
        let name = self.actors.name(fsp);
        AddKey { name, id, key: id.0.repeat(3) }.into()
    }

    fn remove_key(&mut self) -> Change {
        let (fsp, id) = self.key();
        RemoveKey { name: self.actors.name(fsp), id }.into()
    }

    fn key(&mut self) -> (u8, Digest) {
        let random = &mut self.registry_workload.random;
        let fsp = if random.chance(50) { GHOST } else { random.below(KEY_HOLDERS) as u8 };
        let number = random.below(KEYS_EACH);
        (fsp, Digest(spread32(self.actors.salt ^ u64::from(fsp) << 32 ^ number)))
    }

    /// A request about funds once more: the same, or another under its id.
    fn move_again(&mut self) -> Option<Change> {
        let is_about_funds =
            |change: &&Change| matches!(change, Change::MoveFunds(_) | Change::EndFundsOut(_));
        let mut known: Vec<Change> =
            self.operator.changes().iter().filter(is_about_funds).cloned().collect();
        let at = self.registry_workload.random.below(known.len().max(1) as u64) as usize;
        let mut change = known.get_mut(at)?.clone();
        if self.registry_workload.random.chance(500) {
            alter(&mut change);
        }
        Some(change)
    }
}

/// Makes another request of it, with a digest of its own.
fn alter(change: &mut Change) {
    let mark = |hash: &mut Digest| hash.0[31] = hash.0[31].wrapping_add(16);
    if let Change::MoveFunds(funds) = change {
        let more = Amount::from_units(1);
        funds.amount = funds.amount.checked_add(more).expect("amounts of funds are small");
        mark(&mut funds.hash);
    }
    if let Change::EndFundsOut(end) = change {
        end.commit = !end.commit;
        mark(&mut end.hash);
    }
}
