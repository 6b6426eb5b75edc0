//! The hash of the logical state: equal on two replicas if and only if they agree about
//! everything, wherever each row happens to live.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::cold::Cold;
use crate::ids::Digest;
use crate::state::State;

/// Two digests of one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateHashes {
    /// Of the whole state, the place in the log included.
    pub state: Digest,
    /// Of what it holds, whichever record was applied last: a refusal that is on record changes
    /// the other one and leaves this as it was.
    pub content: Digest,
}

impl State {
    /// Digest of the whole state. Cost: about a microsecond per transfer kept; for proofs and
    /// comparisons, not for the hot path.
    ///
    /// Tables without an order of their own are added up row by row, so that the order in which
    /// rows came does not matter.
    #[must_use]
    pub fn hash(&self) -> Digest {
        self.hashes().state
    }

    /// [`State::hash`], and the digest of the content alone, in one pass.
    #[must_use]
    pub fn hashes(&self) -> StateHashes {
        let content = self.content_hash();
        let mut hasher = blake3::Hasher::new();
        let log = format!("{:?}", (self.hub, self.position, self.stamp, self.rules_version));
        let decided = format!("{:?}", (self.digest, &self.nodes));
        for part in [log.as_bytes(), decided.as_bytes(), &content.0] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        StateHashes { state: Digest(*hasher.finalize().as_bytes()), content }
    }

    fn content_hash(&self) -> Digest {
        let mut text = String::new();
        let mut hasher = blake3::Hasher::new();
        let mut add = |part: core::fmt::Arguments<'_>| {
            text.clear();
            text.write_fmt(part).expect("writing to a string does not fail");
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        };
        add(format_args!("{:?}", (self.settings, self.counters)));
        add(format_args!("{:?}", self.books));
        for (_, participant) in self.register.iter() {
            add(format_args!("{participant:?}"));
        }
        add(format_args!("{:?}", self.register.models()));
        add(format_args!("{:?}", (self.register.oracles(), self.register.last_oracle())));
        add(format_args!("{:?}", self.register.account_types()));
        add(format_args!("{:?}", sum(self.transfers.iter_active())));
        add(format_args!("{:?}", self.sum_of_ended()));
        add(format_args!("{:?}", self.transfers.iter_outflows().collect::<Vec<_>>()));
        add(format_args!("{:?}", sum(self.outbox.iter())));
        add(format_args!("{:?}", (self.outbox.dead(), self.outbox.last_id())));
        Digest(*hasher.finalize().as_bytes())
    }

    /// Of all rows, hot and cold.
    fn sum_of_ended(&self) -> Cold {
        let mut all = *self.transfers.cold();
        self.transfers.iter_ended().for_each(|row| all.add(row));
        all
    }
}

/// The sum of the rows' digests as four 64-bit lanes: the same for any order of the rows.
fn sum<T: core::fmt::Debug>(rows: impl Iterator<Item = T>) -> [u64; 4] {
    let mut text = String::new();
    let mut sum = [0u64; 4];
    for row in rows {
        text.clear();
        write!(text, "{row:?}").expect("writing to a string does not fail");
        let digest = *blake3::hash(text.as_bytes()).as_bytes();
        for (lane, bytes) in sum.iter_mut().zip(digest.chunks_exact(8)) {
            let bytes = bytes.try_into().expect("a chunk has eight bytes");
            *lane = lane.wrapping_add(u64::from_le_bytes(bytes));
        }
    }
    sum
}
