//! The kernel alone: batches of commands into the state, no log.

use ledger::{Batch, Command, Effects, Outcome, Position, Stamp, State};

use crate::measure::{median, time};
use crate::report::{Row, Section};
use crate::workload::{Spread, Workload, delivered};
use crate::{BATCH_LARGE, Options};

/// Transfers of one round and case.
const PAIRS: usize = 4 * BATCH_LARGE;

/// A state with the numbers that go on with it.
pub(crate) struct Kernel {
    pub(crate) state: State,
    effects: Effects,
    stamp: u64,
    sequence: u64,
}

impl Kernel {
    /// A scheme that is ready for the workload's transfers.
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
        let first = Position(self.state.position().0 + 1);
        let batch = Batch { first, stamp: Stamp(self.stamp), node, epoch, sequence };
        self.effects.clear();
        self.state.apply(&batch, commands, &mut self.effects);
    }

    /// Decides a batch, and later that its notices were delivered.
    fn apply_and_deliver(&mut self, commands: &[Command], owed: &mut Vec<ledger::Notice>) {
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

/// Finished deliveries are noted when there are this many at least.
const DELIVERIES: usize = 64;

struct Case {
    spread: Spread,
    size: usize,
    workload: Workload,
    kernel: Kernel,
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

pub(crate) fn measure(options: &Options) -> Section {
    let mut cases: Vec<Case> = Vec::new();
    for spread in [Spread::Hot, Spread::Uniform] {
        for size in [1, 64, BATCH_LARGE] {
            let workload = Workload::new(spread, 0);
            let kernel = Kernel::new(&workload);
            let (wall, cpu) = Default::default();
            cases.push(Case { spread, size, workload, kernel, wall, cpu });
        }
    }
    for _ in 0..options.rounds {
        cases.iter_mut().for_each(round);
    }
    Section {
        name: "kernel",
        about: "Kernel alone, one thread: prepare and fulfil, three notices to a pair, and the \
                record that they were delivered."
            .into(),
        columns: vec!["commands/s", "CPU ns/command"],
        rows: cases.into_iter().map(row).collect(),
    }
}

fn round(case: &mut Case) {
    let batches = case.workload.batches(PAIRS, case.size);
    let commands = batches.iter().map(Vec::len).sum::<usize>() as f64;
    let mut owed = Vec::new();
    let took = time(|| {
        batches.iter().for_each(|batch| case.kernel.apply_and_deliver(batch, &mut owed));
    });
    case.wall.push(commands / took.wall.as_secs_f64());
    case.cpu.push(took.cpu.as_nanos() as f64 / commands);
    case.kernel.apply(&[Command::FinishDeliveries(delivered(&owed))]);
}

fn row(case: Case) -> Row {
    let counters = case.kernel.state.counters();
    assert!(counters.refused == 0 && counters.reserved == counters.committed, "{counters:?}");
    let name = format!("{}, batches of {}", case.spread.name(), case.size);
    Row { case: name, figures: vec![median(case.wall), median(case.cpu)] }
}
