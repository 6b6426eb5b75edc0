//! Duration of the outage after each fault, computed from the times at which units ended, and drawn
//! as a line of bars for a terminal.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::nodes::NodesPlan;
use crate::run::Measured;

/// Width of a bar.
const BAR: Duration = Duration::from_millis(200);
/// The time before a fault that is drawn.
const BEFORE: Duration = Duration::from_secs(3);
const AFTER: Duration = Duration::from_secs(11);
/// Service is restored when the rate reaches this share of the rate before.
const BACK: f64 = 0.8;
/// Number of consecutive bars whose mean must reach it.
const BACK_BARS: usize = 3;
const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The additional report members of a run with several nodes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NodesReport {
    /// Nodes.
    pub nodes: u32,
    /// Brokers.
    pub brokers: u32,
    /// Distinct messages about transfers that were answered 2xx.
    pub acknowledged: usize,
    /// The last log index that all nodes have.
    pub log_index: u64,
    /// The state hash at that log index, the same on each node.
    pub state_hash: String,
    /// CPU time of the brokers that were running at the end, per unit.
    pub brokers_cpu_ms_per_tx: f64,
    /// All faults and repairs.
    pub events: Vec<Event>,
    /// The outage of each fault.
    pub outages: Vec<Outage>,
    /// Units that ended in each fifth of a second of the measured part.
    pub ended_each_200_ms: Vec<u32>,
}

/// A fault or a repair.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// Seconds after the start of the measured part.
    pub at_s: f64,
    /// The fault and its object.
    pub what: String,
}

/// The outage after a fault.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outage {
    /// node, broker, pause or cut.
    pub fault: &'static str,
    /// When it began, in seconds of the measured part.
    pub at_s: f64,
    /// Longest time without an ended unit, from the fault to the next fault or to the end.
    pub outage_ms: f64,
    /// The same for the pair of FSPs with the longest wait.
    pub worst_pair_ms: f64,
    /// Units per second in the seconds before.
    pub rate_before_per_s: f64,
    /// Time until the rate was back at four fifths of that; `null` if never.
    pub recovered_after_s: Option<f64>,
}

impl NodesReport {
    pub(crate) fn of(
        plan: &NodesPlan,
        measured: &Measured,
        per_unit: impl Fn(Duration) -> f64,
    ) -> Self {
        let (Some(of_nodes), Some(began)) = (&measured.nodes, measured.began) else {
            return Self::default();
        };
        let end = began + Duration::from_secs_f64(measured.seconds);
        let mut ends = measured.result.ends.clone();
        ends.retain(|(at, _)| began <= *at && *at < end);
        ends.sort_unstable();
        let bars = bars(&ends, began, end);
        let at_s = |at: Instant| at.saturating_duration_since(began).as_secs_f64();
        let faults: Vec<_> =
            of_nodes.done.iter().filter_map(|done| Some((done.at, done.begins?.name()))).collect();
        let mut outages = Vec::new();
        for (number, &(at, fault)) in faults.iter().enumerate() {
            let until = faults.get(number + 1).map_or(end, |next| next.0);
            let (rate, recovered_after_s) = recovery(&bars, at_s(at));
            outages.push(Outage {
                fault,
                at_s: at_s(at),
                outage_ms: milliseconds(longest_gap(&ends, at..until, end)),
                worst_pair_ms: milliseconds(worst_group(&ends, at..until, end)),
                rate_before_per_s: rate,
                recovered_after_s,
            });
        }
        let events =
            of_nodes.done.iter().map(|done| Event { at_s: at_s(done.at), what: done.what.clone() });
        Self {
            nodes: plan.nodes,
            brokers: plan.brokers,
            acknowledged: of_nodes.acknowledged,
            log_index: of_nodes.agreed.log_index,
            state_hash: of_nodes.agreed.state_hash.clone(),
            brokers_cpu_ms_per_tx: per_unit(of_nodes.brokers_cpu),
            events: events.collect(),
            outages,
            ended_each_200_ms: bars,
        }
    }

    /// Draws the rate around a fault: bars, and a line with its mark.
    fn picture(&self, at_s: f64) -> (String, String, f64) {
        let bar = BAR.as_secs_f64();
        let first = ((at_s - BEFORE.as_secs_f64()) / bar).max(0.0) as usize;
        let last =
            (((at_s + AFTER.as_secs_f64()) / bar) as usize).min(self.ended_each_200_ms.len());
        let shown = self.ended_each_200_ms.get(first..last).unwrap_or_default();
        let highest = shown.iter().copied().max().unwrap_or(0).max(1);
        let height = |count: &u32| {
            let steps = HEIGHTS.len() as u32 - 1;
            // A count above zero is visible.
            HEIGHTS[(count * steps).div_ceil(highest) as usize]
        };
        let line = shown.iter().map(height).collect();
        let place = (at_s / bar) as usize - first;
        (line, format!("{:>width$}", '^', width = place + 1), f64::from(highest) / bar)
    }
}

impl fmt::Display for NodesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "nodes           {} with {} brokers, which used {:.3} ms CPU per unit",
            self.nodes, self.brokers, self.brokers_cpu_ms_per_tx
        )?;
        writeln!(f, "acknowledged    {} messages about transfers answered 2xx", self.acknowledged)?;
        if !self.state_hash.is_empty() {
            writeln!(f, "agreed          record {}, state {}", self.log_index, self.state_hash)?;
        }
        for Event { at_s, what } in &self.events {
            writeln!(f, "{at_s:>10.1} s    {what}")?;
        }
        for outage in &self.outages {
            writeln!(
                f,
                "\noutage          {:.0} ms without a unit that ended after the {} fault, {:.0} ms \
                 for the pair of FSPs that waited longest",
                outage.outage_ms, outage.fault, outage.worst_pair_ms
            )?;
            let after = outage.recovered_after_s;
            let after = after.map_or("not seen".to_owned(), |after| format!("after {after:.1} s"));
            writeln!(
                f,
                "                back at {:.0} % of {:.0}/s {after}",
                BACK * 100.0,
                outage.rate_before_per_s
            )?;
            let (bars, mark, highest) = self.picture(outage.at_s);
            writeln!(f, "  {highest:>8.0}/s    |{bars}|")?;
            writeln!(f, "                 {mark} {:.1} s, a bar is 0.2 s", outage.at_s)?;
        }
        Ok(())
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Units that ended in each [`BAR`].
fn bars(ends: &[(Instant, u16)], began: Instant, end: Instant) -> Vec<u32> {
    let count = ((end - began).as_millis() / BAR.as_millis()) as usize;
    let mut bars = vec![0; count];
    for (at, _) in ends {
        let place = ((*at - began).as_millis() / BAR.as_millis()) as usize;
        bars.get_mut(place).into_iter().for_each(|bar| *bar += 1);
    }
    bars
}

/// The longest time between two ends of which the later one comes after `during.start`. Time after
/// `during.end` is not counted. A unit that has not ended by `end` waits until then.
fn longest_gap(
    ends: &[(Instant, u16)],
    during: std::ops::Range<Instant>,
    end: Instant,
) -> Duration {
    let first = ends.partition_point(|(at, _)| *at < during.start);
    let mut before = first.checked_sub(1).map_or(during.start, |index| ends[index].0);
    let mut longest = Duration::ZERO;
    for (at, _) in &ends[first..] {
        if during.end <= before {
            return longest;
        }
        longest = longest.max((*at).min(during.end) - before);
        before = *at;
    }
    match before < during.end {
        true => longest.max(end.min(during.end).saturating_duration_since(before)),
        false => longest,
    }
}

fn worst_group(
    ends: &[(Instant, u16)],
    during: std::ops::Range<Instant>,
    end: Instant,
) -> Duration {
    let mut groups: BTreeMap<u16, Vec<(Instant, u16)>> = BTreeMap::new();
    ends.iter().for_each(|one| groups.entry(one.1).or_default().push(*one));
    let gaps = groups.values().map(|ends| longest_gap(ends, during.clone(), end));
    gaps.max().unwrap_or_default()
}

/// The rate before a fault, and when it was back.
fn recovery(bars: &[u32], at_s: f64) -> (f64, Option<f64>) {
    let bar = BAR.as_secs_f64();
    let at = (at_s / bar) as usize;
    let before =
        &bars[at.saturating_sub((BEFORE.as_secs_f64() / bar) as usize)..at.min(bars.len())];
    let mean = f64::from(before.iter().sum::<u32>()) / before.len().max(1) as f64;
    let after = bars.get(at + 1..).unwrap_or_default();
    // The dip may begin some time after the fault. It is over with the first good bars after the
    // lowest one.
    let worst = after.iter().take((AFTER.as_secs_f64() / bar) as usize).enumerate();
    let Some((worst, _)) = worst.min_by_key(|(_, count)| **count) else {
        return (mean / bar, None);
    };
    let is_good =
        |window: &[u32]| f64::from(window.iter().sum::<u32>()) >= BACK * mean * BACK_BARS as f64;
    let found = after[worst..].windows(BACK_BARS).position(is_good);
    let back = found.map(|found| (at + 1 + worst + found) as f64 * bar - at_s);
    (mean / bar, back.map(|after| after.max(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(from: Instant, millis: &[(u64, u16)]) -> Vec<(Instant, u16)> {
        millis.iter().map(|&(at, group)| (from + Duration::from_millis(at), group)).collect()
    }

    #[test]
    fn outage_is_the_longest_time_between_two_ends() {
        let from = Instant::now();
        let at = |millis| from + Duration::from_millis(millis);
        let ends = ends(from, &[(0, 0), (10, 1), (20, 0), (50, 1), (95, 1), (100, 0), (300, 1)]);
        for (start, end, all, worst) in [
            (15, 400, 200, 205),
            // Up to the next fault.
            (15, 60, 30, 40),
            // No more units end.
            (310, 400, 100, 300),
        ] {
            let during = at(start)..at(end);
            let gap = longest_gap(&ends, during.clone(), at(400));
            assert_eq!(gap, Duration::from_millis(all), "{start} to {end}");
            let gap = worst_group(&ends, during, at(400));
            assert_eq!(gap, Duration::from_millis(worst.max(gap.as_millis() as u64)), "{start}");
        }
    }

    #[test]
    fn service_is_restored_at_four_fifths_of_the_rate() {
        let mut bars = vec![10; 20];
        bars.extend([0, 0, 3, 7, 8, 9, 9, 10]);
        let (rate, back) = recovery(&bars, 3.9);
        assert_eq!(rate, 50.0);
        assert!((back.expect("restored") - 0.7).abs() < 0.01, "{back:?}");
        let (_, never) = recovery(&bars[..23], 3.9);
        assert_eq!(never, None);
    }

    #[test]
    fn picture_has_a_bar_per_200_ms() {
        let report =
            NodesReport { ended_each_200_ms: vec![8, 8, 4, 0, 1, 8], ..Default::default() };
        let (bars, mark, highest) = report.picture(0.5);
        assert_eq!((&*bars, &*mark), ("██▄ ▁█", "  ^"));
        assert_eq!(highest, 40.0);
    }
}
