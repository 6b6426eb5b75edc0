//! Faults that are injected into nodes and brokers during a run, and their times.

use std::str::FromStr;
use std::time::Duration;

/// A fault that is repaired later, or a step of an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterFault {
    /// A node is killed with `kill -9`, and restarted on its directory.
    Node,
    /// The broker that leads the topic is killed, and restarted.
    Broker,
    /// A node is suspended (SIGSTOP) for longer than its lease, then resumed.
    Pause,
    /// The network between a node and all brokers is interrupted. Participants still reach the
    /// node.
    Cut,
    /// The next node is stopped cleanly and restarted with another program.
    Upgrade,
    /// The newest rules of that program are activated.
    Rules,
}

/// A fault, or its repair, at a time of the measured part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultStep {
    pub at: Duration,
    pub fault: ClusterFault,
    pub phase: FaultPhase,
}

/// Start or end of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPhase {
    Inject,
    Repair,
}

/// Fractions of the measured part: start of the first fault, start of the last one, and duration of
/// each.
const FIRST: f64 = 0.20;
const LAST: f64 = 0.65;
const LASTS: f64 = 0.25;

impl ClusterFault {
    /// All faults that can be injected by name.
    pub const ALL: [Self; 4] = [Self::Node, Self::Broker, Self::Pause, Self::Cut];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Broker => "broker",
            Self::Pause => "pause",
            Self::Cut => "cut",
            Self::Upgrade => "upgrade",
            Self::Rules => "rules",
        }
    }
}

impl FromStr for ClusterFault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|fault| fault.name() == text);
        found.ok_or_else(|| format!("invalid fault '{text}': expected node, broker, pause or cut"))
    }
}

/// Distributes faults evenly over a measured part of this length, each repaired within it. If there
/// are many, one begins before another is repaired.
pub fn spread(faults: &[ClusterFault], length: Duration) -> Vec<FaultStep> {
    let between = (LAST - FIRST) / faults.len().saturating_sub(1).max(1) as f64;
    let mut fault_steps = Vec::new();
    for (index, &fault) in faults.iter().enumerate() {
        let begin = FIRST + between * index as f64;
        for (phase, share) in [(FaultPhase::Inject, begin), (FaultPhase::Repair, begin + LASTS)] {
            fault_steps.push(FaultStep { at: length.mul_f64(share), fault, phase });
        }
    }
    fault_steps.sort_by_key(|step| step.at);
    fault_steps
}

/// Upgrades one node after the other, then activates the rules of the new program.
pub fn upgrade(nodes: u32, length: Duration) -> Vec<FaultStep> {
    let mut fault_steps = spread(&vec![ClusterFault::Upgrade; nodes as usize], length);
    fault_steps.retain(|step| step.phase == FaultPhase::Inject);
    fault_steps.push(FaultStep {
        at: length.mul_f64(LAST + LASTS),
        fault: ClusterFault::Rules,
        phase: FaultPhase::Inject,
    });
    fault_steps
}

/// Kills a node and restarts it, then kills a broker for good.
pub fn demonstration(length: Duration) -> Vec<FaultStep> {
    let mut fault_steps = spread(&[ClusterFault::Node, ClusterFault::Broker], length);
    fault_steps
        .retain(|step| (step.fault, step.phase) != (ClusterFault::Broker, FaultPhase::Repair));
    fault_steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_repaired_before_the_end() {
        let length = Duration::from_secs(100);
        let described = |fault_steps: Vec<FaultStep>| -> Vec<String> {
            let word = |step: &FaultStep| {
                format!("{} {} {:?}", step.at.as_secs(), step.fault.name(), step.phase)
            };
            fault_steps.iter().map(word).collect()
        };
        assert_eq!(
            described(spread(&[ClusterFault::Pause], length)),
            ["20 pause Inject", "45 pause Repair"]
        );
        assert_eq!(
            described(demonstration(length)),
            ["20 node Inject", "45 node Repair", "65 broker Inject"]
        );
        let upgrade_steps =
            ["20 upgrade Inject", "42 upgrade Inject", "65 upgrade Inject", "90 rules Inject"];
        assert_eq!(described(upgrade(3, length)), upgrade_steps);
        let all = spread(&ClusterFault::ALL, length);
        assert_eq!(all.len(), 8);
        assert!(all.iter().all(|step| step.at <= Duration::from_secs(90)), "{all:?}");
    }
}
