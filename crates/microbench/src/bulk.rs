//! Bulks and single transfers, decided by the kernel alone: the ceilings of `upesi-bench bulk`.

use ledger::{Command, Eviction, Stamp};

use crate::BATCH_LARGE;
use crate::kernel::Kernel;
use crate::measure::{median, time};
use crate::workload::{Spread, Workload, delivered};

/// Measurements of each kind, of which the median counts.
const ROUNDS: usize = 5;

/// Transfers that the kernel reserves and commits per second, on one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelRates {
    /// Items of bulks.
    pub items_per_s: f64,
    /// Single transfers, in batches of thousands.
    pub singles_per_s: f64,
}

/// Decides bulks of this many items, and single transfers, between one payer and one payee.
///
/// # Panics
///
/// The kernel refuses a transfer.
#[must_use]
pub fn decide_bulks(items: u16) -> KernelRates {
    let mut workload = Workload::new(Spread::Hot, 0);
    let mut kernel = Kernel::new(&workload);
    let bulks = (2 * BATCH_LARGE).div_ceil(usize::from(items));
    let (mut of_bulks, mut of_singles) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (prepares, fulfils): (Vec<_>, Vec<_>) =
            (0..bulks).map(|_| workload.next_bulk(items)).unzip();
        let batches = prepares.into_iter().chain(fulfils).map(|command| vec![command]).collect();
        of_bulks.push(rate(&mut kernel, batches, bulks * usize::from(items)));
        let pairs = 2 * BATCH_LARGE;
        of_singles.push(rate(&mut kernel, workload.batches(pairs, BATCH_LARGE), pairs));
    }
    KernelRates { items_per_s: median(of_bulks), singles_per_s: median(of_singles) }
}

/// Transfers per second of these batches, which commit this many.
fn rate(kernel: &mut Kernel, batches: Vec<Vec<Command>>, transfers: usize) -> f64 {
    let before = kernel.state.counters().committed;
    let mut owed = Vec::new();
    let took = time(|| batches.iter().for_each(|batch| kernel.apply_and_deliver(batch, &mut owed)));
    kernel.apply(&[Command::FinishDeliveries(delivered(&owed))]);
    let counters = kernel.state.counters();
    let committed = counters.committed - before;
    assert!(counters.refused == 0 && committed == transfers as u64, "{counters:?}");
    let visible = kernel.state.log_index();
    let completed_before = Stamp(u64::MAX);
    kernel.state.evict(Eviction { visible, completed_before, rows_max: usize::MAX }, &mut |_| {});
    transfers as f64 / took.wall.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_commits_all_items() {
        let rates = decide_bulks(100);
        assert!(0.0 < rates.items_per_s && 0.0 < rates.singles_per_s, "{rates:?}");
    }
}
