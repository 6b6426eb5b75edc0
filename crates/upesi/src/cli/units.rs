//! Numbers for people: counts with separated thousands, bytes and durations with units.

use std::fmt::{self, Display, Formatter};

/// A count with separated thousands: 3,600,000.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count(pub(crate) u64);

impl Display for Count {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0 < 1_000 {
            return write!(f, "{}", self.0);
        }
        write!(f, "{},{:03}", Self(self.0 / 1_000), self.0 % 1_000)
    }
}

/// A count and its noun, in the plural unless the count is 1: `1 problem`, `2 batches`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let ending = match noun {
        _ if count == 1 => "",
        _ if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {noun}{ending}", Count(count))
}

/// A size in the largest binary unit of which there is at least one: 812 B, 1.5 GiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes(pub(crate) u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.into_iter().find(|(shift, _)| 0 < self.0 >> shift) {
            None => write!(f, "{} B", self.0),
            Some((shift, unit)) => {
                let tenths = (u128::from(self.0) * 10) >> shift;
                write!(f, "{}.{} {unit}", tenths / 10, tenths % 10)
            }
        }
    }
}

/// A duration in milliseconds, in the largest unit of which there are at least two: 90 s, 42 days.
/// One decimal, unless it is zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Milliseconds(pub(crate) u64);

impl Display for Milliseconds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const MINUTE: u64 = 60_000;
        let units = [(1_440 * MINUTE, "days"), (60 * MINUTE, "h"), (MINUTE, "min"), (1_000, "s")];
        let unit = units.into_iter().find(|(unit, _)| 2 * unit <= self.0);
        let Some((unit, name)) = unit else { return write!(f, "{} ms", Count(self.0)) };
        match (self.0 / unit, self.0 % unit * 10 / unit) {
            (whole, 0) => write!(f, "{} {name}", Count(whole)),
            (whole, tenths) => write!(f, "{}.{tenths} {name}", Count(whole)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_separated_thousands() {
        for (count, expected) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (3_600_000, "3,600,000")]
        {
            assert_eq!(Count(count).to_string(), expected);
        }
    }

    #[test]
    fn nouns_of_one_are_in_the_singular() {
        for (count, noun, expected) in [
            (0, "problem", "0 problems"),
            (1, "problem", "1 problem"),
            (1_000, "batch", "1,000 batches"),
        ] {
            assert_eq!(counted(count, noun), expected);
        }
    }

    #[test]
    fn bytes_have_binary_units() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_536, "1.5 KiB"),
            (256 << 20, "256.0 MiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), expected);
        }
    }

    #[test]
    fn durations_have_the_largest_suitable_unit() {
        for (milliseconds, expected) in [
            (0, "0 ms"),
            (250, "250 ms"),
            (20_250, "20.2 s"),
            (119_900, "119.9 s"),
            (300_000, "5 min"),
            (5_400_000, "90 min"),
            (86_400_000, "24 h"),
            (86_425_250, "24 h"),
            (3_620_864_000, "41.9 days"),
            (3_628_800_000, "42 days"),
        ] {
            assert_eq!(Milliseconds(milliseconds).to_string(), expected);
        }
    }
}
