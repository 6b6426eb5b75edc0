//! Ids of transfers and quotes, and the clock.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;

const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The form of new ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdForm {
    /// 26 characters, ascending in time; hubs of FSPIOP 2.0 accept it.
    #[default]
    Ulid,
    /// A random UUID; every hub accepts it.
    Uuid,
}

impl IdForm {
    /// A new id.
    #[must_use]
    pub fn generate(self) -> String {
        match self {
            Self::Ulid => ulid(now_ms(), random()),
            Self::Uuid => uuid(random()),
        }
    }
}

/// Milliseconds since 1970.
#[must_use]
pub fn now_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| elapsed.as_millis() as u64)
}

/// A time as FSPIOP `DateTime` with milliseconds.
#[must_use]
pub fn date_time(millis: u64) -> String {
    let mut text = fspiop::time::date_time_whole_seconds(millis);
    let part = (millis % 1_000) as u16;
    for (digit, power) in text[20..23].iter_mut().zip([100, 10, 1]) {
        *digit = b'0' + (part / power % 10) as u8;
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Random bits.
///
/// # Panics
/// If the system has no random numbers.
#[must_use]
pub fn random() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    u128::from_be_bytes(bytes)
}

fn ulid(millis: u64, random: u128) -> String {
    let bits = u128::from(millis) << 80 | random >> 48;
    (0..26).rev().map(|at| CROCKFORD[(bits >> (5 * at)) as usize & 31] as char).collect()
}

fn uuid(random: u128) -> String {
    let bits = random & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    let hex = format!("{bits:032x}");
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use ledger::TransferId;

    use super::*;

    #[test]
    fn ids_are_accepted_by_the_hub_and_distinct() {
        for form in [IdForm::Ulid, IdForm::Uuid] {
            let ids = [form.generate(), form.generate()];
            assert_ne!(ids[0], ids[1]);
            assert!(ids.iter().all(|id| TransferId::parse(id).is_some()), "{ids:?}");
        }
    }

    #[test]
    fn times_have_milliseconds() {
        assert_eq!(date_time(1_767_261_600_007), "2026-01-01T10:00:00.007Z");
    }
}
