//! A run that once found something, as a small text that can be committed and played again.
//!
//! Lines are `seed N`, `transfers N`, `without KIND...`, `without-transfers RANGES`,
//! `without-faults RANGES` and `without-acts RANGES`, where a range is `4` or `4-9`. Lines that
//! begin with `#` describe the failure.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::{Reduction, RunOptions};

/// A run to be played again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regression {
    /// The description of the failure, in lines.
    pub failure: String,
    /// Its seed.
    pub seed: u64,
    /// How it is made.
    pub options: RunOptions,
}

impl fmt::Display for Regression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RunOptions { transfers, without, .. } = &self.options;
        self.failure.lines().try_for_each(|line| writeln!(f, "# {line}"))?;
        writeln!(f, "seed {}\ntransfers {transfers}", self.seed)?;
        if !without.kinds.is_empty() {
            let kinds: Vec<String> = without.kinds.iter().map(ToString::to_string).collect();
            writeln!(f, "without {}", kinds.join(" "))?;
        }
        for (word, numbers) in [
            ("transfers", &without.transfers),
            ("faults", &without.faults),
            ("acts", &without.acts),
        ] {
            if !numbers.is_empty() {
                writeln!(f, "without-{word} {}", ranges(numbers))?;
            }
        }
        Ok(())
    }
}

impl FromStr for Regression {
    type Err = String;

    /// Reads such a text.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut without = Reduction::default();
        let (mut failure, mut seed, mut transfers) = (Vec::new(), None, None);
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let wrong = |what: &dyn fmt::Display| format!("line {line:?}: {what}");
            if let Some(description) = line.strip_prefix('#') {
                failure.push(description.trim());
                continue;
            }
            let (word, rest) = line.split_once(' ').ok_or_else(|| wrong(&"a value is missing"))?;
            match word {
                "seed" => seed = Some(rest.parse().map_err(|error| wrong(&error))?),
                "transfers" => transfers = Some(rest.parse().map_err(|error| wrong(&error))?),
                "without" => {
                    let kinds: Result<BTreeSet<_>, String> =
                        rest.split(' ').map(str::parse).collect();
                    without.kinds = kinds.map_err(|error| wrong(&error))?;
                }
                "without-transfers" => {
                    without.transfers = numbers(rest).map_err(|error| wrong(&error))?;
                }
                "without-faults" => {
                    without.faults = numbers(rest).map_err(|error| wrong(&error))?;
                }
                "without-acts" => without.acts = numbers(rest).map_err(|error| wrong(&error))?,
                _ => return Err(wrong(&"no such word")),
            }
        }
        let seed = seed.ok_or("there is no line \"seed N\"")?;
        let transfers = transfers.ok_or("there is no line \"transfers N\"")?;
        let options = RunOptions { transfers, without, ..RunOptions::default() };
        Ok(Self { failure: failure.join("\n"), seed, options })
    }
}

fn ranges(numbers: &BTreeSet<u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let shown = runs.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn numbers(text: &str) -> Result<BTreeSet<u32>, String> {
    let mut all = BTreeSet::new();
    for range in text.split(' ').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number =
            |text: &str| text.parse::<u32>().map_err(|_| format!("{range:?} is not a range"));
        all.extend(number(first)?..=number(last)?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_text_round_trips() {
        let text = "# it broke\n# twice\nseed 7\ntransfers 20\nwithout crash outcomes\n\
                    without-transfers 0-3 5\nwithout-faults 2\nwithout-acts 0-1 7-9\n";
        let read: Regression = text.parse().expect("it is well formed");
        assert_eq!(read.to_string(), text);
        assert_eq!(read.options.without.transfers.iter().sum::<u32>(), 11);
    }

    #[test]
    fn invalid_regressions_name_the_error() {
        for (text, why) in [
            ("transfers 3", "there is no line \"seed N\""),
            ("seed 3", "there is no line \"transfers N\""),
            ("seed", "line \"seed\": a value is missing"),
            ("seed x", "line \"seed x\": invalid digit found in string"),
            ("without-acts 1-x", "line \"without-acts 1-x\": \"1-x\" is not a range"),
            ("without rain", "line \"without rain\": unknown part of a run: \"rain\""),
        ] {
            assert_eq!(text.parse::<Regression>(), Err(why.to_owned()), "{text}");
        }
    }
}
