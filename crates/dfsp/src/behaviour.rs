//! Behaviour of a simulated FSP as payee, and its command-line syntax.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

/// One of the three legs of a whole transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Leg {
    /// Party look-up.
    Lookup,
    /// Quote.
    Quote,
    /// Transfer.
    Transfer,
}

/// The FSP's reaction to the hub's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behaviour {
    /// Answers everything at once.
    #[default]
    Normal,
    /// Takes this long to answer every HTTP request, then continues as usual.
    Slow(Duration),
    /// Accepts messages of this leg and never sends the callback.
    Silent(Leg),
    /// Answers messages of this leg with an error callback of this FSPIOP code.
    Erroring(Leg, u16),
    /// Fulfils transfers with 32 bytes that do not meet the condition.
    WrongFulfilment,
    /// Refuses connections: no socket listens.
    Dead,
    /// Answers this many further HTTP requests with status 500, then is normal.
    Refusing(u32),
}

/// A behaviour that cannot be parsed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "invalid behaviour '{0}': expected normal, slow:MS, silent[:LEG], error[:LEG]:CODE, \
    wrong-fulfilment, dead or refuse:COUNT, where LEG is lookup, quote or transfer"
)]
pub struct BehaviourError(String);

impl FromStr for Behaviour {
    type Err = BehaviourError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Vec<&str> = text.split(':').collect();
        let behaviour = match parts[..] {
            ["normal"] => Some(Self::Normal),
            ["slow", millis] => millis.parse().ok().map(Duration::from_millis).map(Self::Slow),
            ["silent"] => Some(Self::Silent(Leg::Transfer)),
            ["silent", leg] => leg.parse().ok().map(Self::Silent),
            ["error", code] => fspiop_code(code).map(|code| Self::Erroring(Leg::Transfer, code)),
            ["error", leg, code] => {
                leg.parse().ok().zip(fspiop_code(code)).map(|(leg, code)| Self::Erroring(leg, code))
            }
            ["wrong-fulfilment"] => Some(Self::WrongFulfilment),
            ["dead"] => Some(Self::Dead),
            ["refuse", count] => count.parse().ok().map(Self::Refusing),
            _ => None,
        };
        behaviour.ok_or_else(|| BehaviourError(text.to_owned()))
    }
}

impl FromStr for Leg {
    type Err = BehaviourError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "lookup" => Ok(Self::Lookup),
            "quote" => Ok(Self::Quote),
            "transfer" => Ok(Self::Transfer),
            _ => Err(BehaviourError(text.to_owned())),
        }
    }
}

impl fmt::Display for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lookup => "lookup",
            Self::Quote => "quote",
            Self::Transfer => "transfer",
        })
    }
}

fn fspiop_code(text: &str) -> Option<u16> {
    text.parse().ok().filter(|code| (1_000..=9_999).contains(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaviours_are_parsed() {
        for (text, behaviour) in [
            ("normal", Behaviour::Normal),
            ("slow:500", Behaviour::Slow(Duration::from_millis(500))),
            ("silent", Behaviour::Silent(Leg::Transfer)),
            ("silent:quote", Behaviour::Silent(Leg::Quote)),
            ("error:5104", Behaviour::Erroring(Leg::Transfer, 5104)),
            ("error:lookup:3204", Behaviour::Erroring(Leg::Lookup, 3204)),
            ("wrong-fulfilment", Behaviour::WrongFulfilment),
            ("dead", Behaviour::Dead),
            ("refuse:3", Behaviour::Refusing(3)),
        ] {
            assert_eq!(text.parse(), Ok(behaviour), "{text}");
        }
        for text in ["", "slow", "slow:x", "silent:all", "error:1", "error:x:5104", "refuse"] {
            assert!(text.parse::<Behaviour>().is_err(), "{text}");
        }
    }
}
