//! The kernel alone: applies batches of commands to the state, without a log.

use ledger::{Batch, Command, Effects, LogIndex, Outcome, Stamp, State};

use crate::measure::{Case, take_turns, time};
use crate::report::Section;
use crate::workload::{Spread, Workload, delivered};
use crate::{BATCH_LARGE, CoreOptions, Error};

/// Transfers per round and case.
const PAIRS: usize = 4 * BATCH_LARGE;

/// A state with its stamp and sequence number.
pub(crate) struct Kernel {
    pub(crate) state: State,
    effects: Effects,
    stamp: u64,
    sequence: u64,
}

impl Kernel {
    /// A scheme that is onboarded for the workload.
    pub(crate) fn new(workload: &Workload) -> Self {
        let mut kernel =
            Self { state: State::new(), effects: Effects::default(), stamp: 1, sequence: 1 };
        workload.onboard(|commands, look| {
            kernel.apply(&commands);
            let accepted = |outcome: &Outcome| *outcome == Outcome::Accepted;
            assert!(kernel.effects.outcomes.iter().all(accepted), "{:?}", kernel.effects);
            look(&kernel.state);
        });
        kernel
    }

    /// Decides one batch.
    pub(crate) fn apply(&mut self, commands: &[Command]) {
        self.stamp += 1;
        let (node, epoch, sequence) = (1, 1, self.sequence);
        self.sequence += commands.len() as u64;
        let first = LogIndex(self.state.log_index().0 + 1);
        let batch = Batch { first, stamp: Stamp(self.stamp), node, epoch, sequence };
        self.effects.clear();
        self.state.apply(&batch, commands, &mut self.effects);
    }

    /// Outcomes of the last batch.
    pub(crate) fn outcomes(&self) -> &[Outcome] {
        &self.effects.outcomes
    }

    /// Decides a batch, and later the record of its deliveries.
    pub(crate) fn apply_and_deliver(
        &mut self,
        commands: &[Command],
        owed: &mut Vec<ledger::Notice>,
    ) {
        self.apply(commands);
        owed.extend_from_slice(&self.effects.notices);
        if owed.len() >= DELIVERIES {
            for part in owed.chunks(ledger::ENTRIES_MAX) {
                self.apply(&[Command::FinishDeliveries(delivered(part))]);
            }
            owed.clear();
        }
    }
}

/// Number of finished deliveries that are recorded together.
const DELIVERIES: usize = 64;

pub(crate) fn measure(options: &CoreOptions) -> Result<Section, Error> {
    let mut cases = Vec::new();
    for spread in [Spread::Hot, Spread::Uniform] {
        for size in [1, 64, BATCH_LARGE] {
            let mut workload = Workload::new(spread, 0);
            let mut kernel = Kernel::new(&workload);
            let name = format!("{}, batches of {size}", spread.name());
            let round = Box::new(move || Ok(round(&mut workload, &mut kernel, size)));
            cases.push(Case { name, round });
        }
    }
    Ok(Section {
        name: "kernel",
        about: "Kernel alone, one thread: prepare and fulfil, three notices to a pair, and the \
                record that they were delivered."
            .into(),
        columns: vec!["commands/s", "CPU ns/command"],
        rows: take_turns(cases, options.rounds)?,
    })
}

fn round(workload: &mut Workload, kernel: &mut Kernel, size: usize) -> Vec<f64> {
    let batches = workload.batches(PAIRS, size);
    let commands = batches.iter().map(Vec::len).sum::<usize>() as f64;
    let mut owed = Vec::new();
    let took = time(|| batches.iter().for_each(|batch| kernel.apply_and_deliver(batch, &mut owed)));
    kernel.apply(&[Command::FinishDeliveries(delivered(&owed))]);
    let counters = kernel.state.counters();
    assert!(counters.refused == 0 && counters.reserved == counters.committed, "{counters:?}");
    vec![commands / took.wall.as_secs_f64(), took.cpu.as_nanos() as f64 / commands]
}
