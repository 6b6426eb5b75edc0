//! The delivery attempts in the payload of the record that ends deliveries. The kernel does not
//! read it; `explain` shows it.
//!
//! A byte for the version; then for each delivery that took more than one attempt, or was given up:
//! the notice (8 bytes), the number of attempts (1) and each attempt: its start in milliseconds
//! since the epoch (8), its duration in milliseconds (4) and its result (2): the HTTP status of the
//! response, or 0, 1 or 2 without one.

use alloc::vec::Vec;

use ledger::NoticeId;

use ledger::field::{Field, FieldError, Reader};

const VERSION: u8 = 1;

/// The lowest valid status.
const STATUS_MIN: u16 = 100;

/// A finished attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryAttempt {
    /// Start time, in milliseconds since the epoch.
    pub began_ms: u64,
    /// Duration in milliseconds; at most `u32::MAX`, seven weeks.
    pub took_ms: u32,
    /// The result.
    pub end: AttemptEnd,
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// A response with this HTTP status, from 100.
    Status(u16),
    /// No response in time.
    TimedOut,
    /// The connection could not be opened.
    ConnectFailed,
    /// The connection broke before the response was complete.
    Broken,
}

/// Writes the attempts of deliveries, at most 255 each, oldest first.
///
/// # Panics
/// If there are more, or a status is below 100.
#[must_use]
pub fn write(deliveries: &[(NoticeId, Vec<DeliveryAttempt>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    VERSION.write(&mut bytes);
    for (notice, attempts) in deliveries {
        notice.write(&mut bytes);
        let count = u8::try_from(attempts.len()).expect("a delivery has at most 255 attempts");
        count.write(&mut bytes);
        for one in attempts {
            one.began_ms.write(&mut bytes);
            one.took_ms.write(&mut bytes);
            number_of(one.end).write(&mut bytes);
        }
    }
    bytes
}

fn number_of(end: AttemptEnd) -> u16 {
    match end {
        AttemptEnd::TimedOut => 0,
        AttemptEnd::ConnectFailed => 1,
        AttemptEnd::Broken => 2,
        AttemptEnd::Status(status) => {
            assert!(STATUS_MIN <= status, "a status has three digits");
            status
        }
    }
}

/// Reads the attempts.
///
/// # Errors
/// [`FieldError`] if the bytes were not written by [`write()`].
pub fn read(bytes: &[u8]) -> Result<Vec<(NoticeId, Vec<DeliveryAttempt>)>, FieldError> {
    let mut reader = Reader(bytes);
    if reader.value::<u8>()? != VERSION {
        return Err(FieldError::Value);
    }
    let mut deliveries = Vec::new();
    while !reader.0.is_empty() {
        let notice = reader.value::<NoticeId>()?;
        let count = reader.value::<u8>()?;
        let attempts = (0..count).map(|_| read_one(&mut reader)).collect::<Result<_, _>>()?;
        deliveries.push((notice, attempts));
    }
    Ok(deliveries)
}

fn read_one(reader: &mut Reader<'_>) -> Result<DeliveryAttempt, FieldError> {
    let (began_ms, took_ms) = (reader.value()?, reader.value()?);
    let end = match reader.value::<u16>()? {
        0 => AttemptEnd::TimedOut,
        1 => AttemptEnd::ConnectFailed,
        2 => AttemptEnd::Broken,
        status @ STATUS_MIN.. => AttemptEnd::Status(status),
        _ => return Err(FieldError::Value),
    };
    Ok(DeliveryAttempt { began_ms, took_ms, end })
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const SAMPLE: [u8; 38] = [
        1, // version
        7, 0, 0, 0, 0, 0, 0, 0, 2, // notice 7, two attempts
        0xe8, 3, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0xf7, 1, // at 1000, 5 ms: 503
        0xd0, 7, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 1, 0, // at 2000, 6 ms: no connection
    ];

    #[test]
    fn the_stored_form_is_the_one_described() {
        let attempts = vec![
            DeliveryAttempt { began_ms: 1_000, took_ms: 5, end: AttemptEnd::Status(503) },
            DeliveryAttempt { began_ms: 2_000, took_ms: 6, end: AttemptEnd::ConnectFailed },
        ];
        let deliveries = vec![(NoticeId(7), attempts)];
        assert_eq!(write(&deliveries), SAMPLE);
        assert_eq!(read(&SAMPLE), Ok(deliveries));
        assert_eq!(read(&[1]), Ok(Vec::new()));
    }

    #[test]
    fn every_end_is_read_back() {
        use AttemptEnd::*;
        for end in [Status(100), Status(u16::MAX), TimedOut, ConnectFailed, Broken] {
            let deliveries =
                vec![(NoticeId(1), vec![DeliveryAttempt { began_ms: 1, took_ms: 2, end }])];
            assert_eq!(read(&write(&deliveries)), Ok(deliveries));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for length in 0..SAMPLE.len() {
            let expected = if length == 1 { Ok(Vec::new()) } else { Err(FieldError::Short) };
            assert_eq!(read(&SAMPLE[..length]), expected, "{length} bytes");
        }
        for (at, byte) in [(0, 2), (36, 3), (36, 99)] {
            let mut changed = SAMPLE;
            changed[at] = byte;
            assert_eq!(read(&changed), Err(FieldError::Value), "byte {at}");
        }
    }
}
