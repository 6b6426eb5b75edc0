//! Faults that are injected into nodes and brokers during a run, and their times.

use std::str::FromStr;
use std::time::Duration;

/// A fault that is repaired later, or a step of an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A node is killed as by `kill -9`, and started again on its directory.
    Node,
    /// The broker that leads the topic is killed, and started again.
    Broker,
    /// A node is suspended (SIGSTOP) for longer than its lease, then resumed.
    Pause,
    /// The network between a node and all brokers is gone; participants still reach it.
    Cut,
    /// The next node leaves in order, and starts again as another program.
    Upgrade,
    /// The newest rules of that program are activated.
    Rules,
}

/// A fault, or its repair, at a time of the measured part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act {
    pub at: Duration,
    pub fault: Fault,
    pub turn: Turn,
}

/// Which side of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Break,
    Mend,
}

/// Shares of the measured part: before the first fault, up to the last one, and how long each
/// lasts.
const FIRST: f64 = 0.20;
const LAST: f64 = 0.65;
const LASTS: f64 = 0.25;

impl Fault {
    /// All that go wrong.
    pub const ALL: [Self; 4] = [Self::Node, Self::Broker, Self::Pause, Self::Cut];

    /// The word for it on a command line.
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

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|fault| fault.name() == text);
        found.ok_or_else(|| format!("'{text}' is none of node, broker, pause, cut"))
    }
}

/// Faults in this order, evenly over a measured part of this length, each mended within it. If
/// there are many, one begins before another is repaired.
pub fn spread(faults: &[Fault], length: Duration) -> Vec<Act> {
    let between = (LAST - FIRST) / faults.len().saturating_sub(1).max(1) as f64;
    let mut acts = Vec::new();
    for (index, &fault) in faults.iter().enumerate() {
        let begin = FIRST + between * index as f64;
        for (turn, share) in [(Turn::Break, begin), (Turn::Mend, begin + LASTS)] {
            acts.push(Act { at: length.mul_f64(share), fault, turn });
        }
    }
    acts.sort_by_key(|act| act.at);
    acts
}

/// One node after the other is upgraded, then the rules of what runs then are activated.
pub fn upgrade(nodes: u32, length: Duration) -> Vec<Act> {
    let mut acts = spread(&vec![Fault::Upgrade; nodes as usize], length);
    acts.retain(|act| act.turn == Turn::Break);
    acts.push(Act { at: length.mul_f64(LAST + LASTS), fault: Fault::Rules, turn: Turn::Break });
    acts
}

/// A node is killed and started again, then a broker is killed for good.
pub fn demonstration(length: Duration) -> Vec<Act> {
    let mut acts = spread(&[Fault::Node, Fault::Broker], length);
    acts.retain(|act| (act.fault, act.turn) != (Fault::Broker, Turn::Mend));
    acts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_mended_before_the_end() {
        let length = Duration::from_secs(100);
        let said = |acts: Vec<Act>| -> Vec<String> {
            let word =
                |act: &Act| format!("{} {} {:?}", act.at.as_secs(), act.fault.name(), act.turn);
            acts.iter().map(word).collect()
        };
        assert_eq!(said(spread(&[Fault::Pause], length)), ["20 pause Break", "45 pause Mend"]);
        assert_eq!(
            said(demonstration(length)),
            ["20 node Break", "45 node Mend", "65 broker Break"]
        );
        let said_of_upgrade =
            ["20 upgrade Break", "42 upgrade Break", "65 upgrade Break", "90 rules Break"];
        assert_eq!(said(upgrade(3, length)), said_of_upgrade);
        let all = spread(&Fault::ALL, length);
        assert_eq!(all.len(), 8);
        assert!(all.iter().all(|act| act.at <= Duration::from_secs(90)), "{all:?}");
    }
}
