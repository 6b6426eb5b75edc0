//! Load distribution: groups of FSPs, each with the order in which its payers and payees take
//! turns.
//!
//! Uniform: FSPs pay each other in pairs. Each pair is a group, so that positions stay near zero
//! and a stalled FSP affects only its own pair. Skewed: one group, in which the first half pays the
//! second half. The first payer sends 70% of the load and the first payee receives 49%, all from
//! that payer, as in the published runs of the reference hub. Hot accounts are the normal case in a
//! scheme.

use std::str::FromStr;

use serde::Serialize;

/// Distribution of the load over FSPs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pairs {
    /// Pairs that pay each other in turn, with equal load.
    #[default]
    Uniform,
    /// 70% from one payer, 49% into one payee.
    Skewed,
}

/// A payer and a payee, by their indexes among the FSPs.
pub type Route = (usize, usize);

/// FSPs that share a concurrency limit, and the routes they use in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteGroup {
    /// Indexes of the FSPs.
    pub members: Vec<usize>,
    /// The routes in order; after the last comes the first.
    pub routes: Vec<Route>,
}

/// Maximum number of FSPs in a skewed group, whose table grows with the square of the number.
pub const SKEWED_MAX: usize = 64;
const SLOTS: usize = 10_000;
const LARGEST_PAIR: f64 = 0.49;
const LARGEST_PAYER: f64 = 0.70;

/// The groups of `fsps` FSPs: an even number, 4 to [`SKEWED_MAX`] for [`Pairs::Skewed`].
pub fn groups(pairs: Pairs, fsps: usize) -> Vec<RouteGroup> {
    match pairs {
        Pairs::Uniform => {
            let pair = |index: usize| {
                let (one, other) = (2 * index, 2 * index + 1);
                RouteGroup { members: vec![one, other], routes: vec![(one, other), (other, one)] }
            };
            (0..fsps / 2).map(pair).collect()
        }
        Pairs::Skewed => {
            let routes = spread(&skewed_weights(fsps / 2));
            vec![RouteGroup { members: (0..fsps).collect(), routes }]
        }
    }
}

impl Pairs {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Skewed => "skewed",
        }
    }

    /// The share of all transfers in which the busiest FSP is payer or payee.
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
            _ => Err(format!("invalid distribution '{text}': expected uniform or skewed")),
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
/// turn goes to the route with the highest credit.
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
        let groups = groups(Pairs::Uniform, 4);
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[1].routes, [(2, 3), (3, 2)]);
    }

    #[test]
    fn skewed_load_has_the_published_shares() {
        for fsps in [4, 8, 26] {
            let groups = groups(Pairs::Skewed, fsps);
            let [group] = &groups[..] else { panic!("one group") };
            let payee = fsps / 2;
            for (what, found, wanted) in [
                ("largest payer", share(&group.routes, |route| route.0 == 0), 0.70),
                ("largest payee", share(&group.routes, |route| route.1 == payee), 0.49),
                ("largest pair", share(&group.routes, |route| *route == (0, payee)), 0.49),
            ] {
                assert!((found - wanted).abs() < 0.003, "{fsps}: {what}: {found}");
            }
            assert!(group.routes.iter().all(|&(payer, to)| payer < payee && payee <= to));
        }
    }

    #[test]
    fn turns_are_distributed_evenly() {
        let groups = groups(Pairs::Skewed, 8);
        for part in groups[0].routes.chunks(100) {
            let found = share(part, |route| route.0 == 0);
            assert!((found - 0.70).abs() < 0.03, "{found}");
        }
    }
}
