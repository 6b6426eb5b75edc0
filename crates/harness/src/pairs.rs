//! Who pays whom: lanes of FSPs, each with the order in which its payers and payees take turns.
//!
//! Uniform: FSPs pay each other in pairs, each pair a lane of its own, so that positions stay near
//! zero and an FSP that hangs holds up its own pair only. Skewed: one lane, the first half pays
//! the second; the first payer carries 70% of the load and the first payee receives 49% of it,
//! all from that payer, as in the published runs of the reference hub. Hot accounts are the normal
//! case of a scheme.

use std::str::FromStr;

use serde::Serialize;

/// How load is spread over FSPs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pairs {
    /// Pairs that pay each other in turn, all alike.
    #[default]
    Uniform,
    /// 70% from one payer, 49% into one payee.
    Skewed,
}

/// A payer and a payee, by their places among the FSPs.
pub type Route = (usize, usize);

/// FSPs that share a concurrency, and the routes they take in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairPlan {
    /// Places of the FSPs.
    pub members: Vec<usize>,
    /// The routes in order; after the last comes the first.
    pub routes: Vec<Route>,
}

/// FSPs that a skewed lane takes at most: its table grows with their square.
pub const SKEWED_MAX: usize = 64;
const SLOTS: usize = 10_000;
const LARGEST_PAIR: f64 = 0.49;
const LARGEST_PAYER: f64 = 0.70;

/// The lanes of `fsps` FSPs; an even number, for [`Pairs::Skewed`] 4 to [`SKEWED_MAX`].
pub fn lanes(pairs: Pairs, fsps: usize) -> Vec<PairPlan> {
    match pairs {
        Pairs::Uniform => {
            let pair = |index: usize| {
                let (one, other) = (2 * index, 2 * index + 1);
                PairPlan { members: vec![one, other], routes: vec![(one, other), (other, one)] }
            };
            (0..fsps / 2).map(pair).collect()
        }
        Pairs::Skewed => {
            let routes = spread(&skewed_weights(fsps / 2));
            vec![PairPlan { members: (0..fsps).collect(), routes }]
        }
    }
}

impl Pairs {
    /// The word for it on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Skewed => "skewed",
        }
    }

    /// The part of all transfers that the busiest FSP has a side in.
    pub fn largest_share(self, fsps: usize) -> f64 {
        match self {
            Self::Uniform => 2.0 / fsps as f64,
            Self::Skewed => LARGEST_PAYER,
        }
    }
}

impl FromStr for Pairs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "uniform" => Ok(Self::Uniform),
            "skewed" => Ok(Self::Skewed),
            _ => Err(format!("'{text}' is no spread: uniform or skewed")),
        }
    }
}

/// Each route with its share of the load; `half` payers pay `half` payees.
fn skewed_weights(half: usize) -> Vec<(Route, f64)> {
    let others = (half - 1) as f64;
    let mut weights = Vec::with_capacity(half * half);
    for payer in 0..half {
        for payee in 0..half {
            let weight = match (payer, payee) {
                (0, 0) => LARGEST_PAIR,
                (0, _) => (LARGEST_PAYER - LARGEST_PAIR) / others,
                (_, 0) => continue,
                _ => (1.0 - LARGEST_PAYER) / (others * others),
            };
            weights.push(((payer, half + payee), weight));
        }
    }
    weights
}

/// An order in which every route occurs in proportion to its weight, as evenly as possible: each
/// turn goes to the route with the most credit.
fn spread(weights: &[(Route, f64)]) -> Vec<Route> {
    let mut credits = vec![0.0; weights.len()];
    let turn = |_| {
        let mut best = 0;
        for (index, &(_, weight)) in weights.iter().enumerate() {
            credits[index] += weight;
            if credits[index] > credits[best] {
                best = index;
            }
        }
        credits[best] -= 1.0;
        weights[best].0
    };
    (0..SLOTS).map(turn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(routes: &[Route], wanted: impl Fn(&Route) -> bool) -> f64 {
        routes.iter().filter(|route| wanted(route)).count() as f64 / routes.len() as f64
    }

    #[test]
    fn uniform_pairs_pay_each_other() {
        let lanes = lanes(Pairs::Uniform, 4);
        assert_eq!(lanes.len(), 2);
        assert_eq!(lanes[1].routes, [(2, 3), (3, 2)]);
    }

    #[test]
    fn skewed_load_has_the_published_shares() {
        for fsps in [4, 8, 26] {
            let lanes = lanes(Pairs::Skewed, fsps);
            let [lane] = &lanes[..] else { panic!("one lane") };
            let payee = fsps / 2;
            for (what, found, wanted) in [
                ("largest payer", share(&lane.routes, |route| route.0 == 0), 0.70),
                ("largest payee", share(&lane.routes, |route| route.1 == payee), 0.49),
                ("largest pair", share(&lane.routes, |route| *route == (0, payee)), 0.49),
            ] {
                assert!((found - wanted).abs() < 0.003, "{fsps}: {what}: {found}");
            }
            assert!(lane.routes.iter().all(|&(payer, to)| payer < payee && payee <= to));
        }
    }

    #[test]
    fn turns_are_spread_evenly() {
        let lanes = lanes(Pairs::Skewed, 8);
        for part in lanes[0].routes.chunks(100) {
            let found = share(part, |route| route.0 == 0);
            assert!((found - 0.70).abs() < 0.03, "{found}");
        }
    }
}
