//! Memory for incomplete bodies of requests, divided among their senders.
//!
//! A body that arrives in one piece, as nearly all do, takes none of it. Each sender has its share
//! by the rule of [`Shares`], in blocks of [`BLOCK_BYTES`], so that bodies that one sender does not
//! complete leave room for those of others. All senders that are not participants are one sender.

use std::cell::RefCell;
use std::collections::HashMap;

use fspiop::Refusal;
use ledger::ParticipantIndex;

use crate::fair_share::Shares;

/// Unit of the shares.
const BLOCK_BYTES: usize = 64 << 10;
/// 256 MiB in total, and at most an eighth of it for one sender.
const SHARES: Shares = Shares { all: 4_096, most: 512 };

/// Blocks that incomplete bodies take, in total and by sender.
#[derive(Debug, Default)]
pub(crate) struct IncompleteBodies {
    taken: RefCell<TakenBlocks>,
}

#[derive(Debug, Default)]
struct TakenBlocks {
    all: usize,
    /// Without an entry for senders that take none.
    each: HashMap<Sender, usize>,
}

/// A participant; `None` for all others.
type Sender = Option<ParticipantIndex>;

impl IncompleteBodies {
    /// A new body of a sender.
    pub(crate) fn begin(&self, sender: Sender) -> IncompleteBody<'_> {
        IncompleteBody { all: self, sender, blocks: 0 }
    }
}

/// The memory of one incomplete body, until it is dropped.
#[derive(Debug)]
pub(crate) struct IncompleteBody<'a> {
    all: &'a IncompleteBodies,
    sender: Sender,
    blocks: usize,
}

impl IncompleteBody<'_> {
    /// Takes the memory for a body that now has this length.
    ///
    /// # Errors
    /// 503, 2003 if the sender has its share, or nothing is free.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        let more = bytes.div_ceil(BLOCK_BYTES).saturating_sub(self.blocks);
        if more == 0 {
            return Ok(());
        }
        let mut taken = self.all.taken.borrow_mut();
        let limit = SHARES.limit(taken.all);
        let free = SHARES.all - taken.all;
        let own = taken.each.entry(self.sender).or_default();
        if limit < *own + more || free < more {
            return Err(Refusal::unavailable());
        }
        *own += more;
        taken.all += more;
        self.blocks += more;
        Ok(())
    }
}

impl Drop for IncompleteBody<'_> {
    fn drop(&mut self) {
        if self.blocks == 0 {
            return;
        }
        let mut taken = self.all.taken.borrow_mut();
        taken.all -= self.blocks;
        if let Some(own) = taken.each.get_mut(&self.sender) {
            *own -= self.blocks;
        }
        taken.each.retain(|_, own| *own != 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY_BYTES: usize = fspiop::BODY_BYTES_MAX;

    /// The largest bodies that a sender can begin.
    fn fill<'a>(bodies: &'a IncompleteBodies, sender: Sender) -> Vec<IncompleteBody<'a>> {
        let mut begun = Vec::new();
        loop {
            let mut body = bodies.begin(sender);
            if body.grow(BODY_BYTES).is_err() {
                return begun;
            }
            begun.push(body);
        }
    }

    #[test]
    fn senders_of_incomplete_bodies_leave_memory_for_others() {
        let bodies = IncompleteBodies::default();
        let greedy: Vec<_> = (0..8).map(|at| fill(&bodies, Some(ParticipantIndex(at)))).collect();
        assert!(greedy.iter().all(|begun| !begun.is_empty()), "each has a share");
        let strangers = fill(&bodies, None);
        let taken = bodies.taken.borrow().all;
        assert!(taken < SHARES.all / 4 * 3, "{taken} blocks are taken");
        let mut other = bodies.begin(Some(ParticipantIndex(9)));
        assert!(other.grow(BODY_BYTES).is_ok(), "another sender finds memory");
        drop((greedy, strangers, other));
        let taken = bodies.taken.borrow();
        assert_eq!((taken.all, taken.each.len()), (0, 0));
    }

    #[test]
    fn a_body_takes_blocks_as_it_grows_and_once() {
        let bodies = IncompleteBodies::default();
        let mut body = bodies.begin(None);
        for (bytes, blocks) in [(0, 0), (1, 1), (BLOCK_BYTES, 1), (BLOCK_BYTES + 1, 2), (5, 2)] {
            assert!(body.grow(bytes).is_ok());
            assert_eq!(bodies.taken.borrow().all, blocks, "{bytes}");
        }
        assert!(body.grow((SHARES.most + 1) * BLOCK_BYTES).is_err());
        assert_eq!(bodies.taken.borrow().all, 2, "a refusal takes nothing");
    }
}
