//! Every frame says what was decided before it; a replay holds it to that.

use ledger::{Digest, LogIndex, Stamp};
use record::frame::{BatchHeader, Frame, FrameBuilder, Tail};
use sequencer::{Replay, ReplayError};

use crate::fixture::{self, IDENTITY};

/// A replay of a log that a test writes frame by frame.
struct Told {
    replay: Replay,
    tail: Tail,
}

impl Told {
    /// The scheme has begun: what the first frame says is of a state without any record.
    fn begun() -> Self {
        let tail = Tail::genesis(IDENTITY);
        let mut told = Self { replay: Replay::new(), tail };
        told.hear(fixture::beginning(), told.decided()).expect("it is sound");
        told
    }

    /// What was decided up to here.
    fn decided(&self) -> (LogIndex, Digest) {
        let state = self.replay.state();
        (state.log_index(), *state.digest())
    }

    /// Another transfer, in a frame that says this of what was before.
    fn next(&mut self, said: (LogIndex, Digest)) -> Result<(), ReplayError> {
        let of = self.tail.end.0 as usize;
        self.hear(vec![fixture::prepare(of, fixture::units(1), 1_000_000)], said)
    }

    fn hear(
        &mut self,
        commands: Vec<ledger::Command>,
        (applied, outcome_digest): (LogIndex, Digest),
    ) -> Result<(), ReplayError> {
        let mut builder = FrameBuilder::new();
        for one in fixture::submissions(commands) {
            builder.push(&one.record).expect("it fits");
        }
        let header = BatchHeader {
            stamp: Stamp(self.tail.stamp.0 + 1),
            epoch: 1,
            sequence: self.tail.next().0,
            applied,
            outcome_digest,
            ..BatchHeader::default()
        };
        let sealed = builder.seal(&self.tail, &header);
        self.tail = sealed.tail;
        let frame = Frame::parse(sealed.bytes).expect("it is a frame");
        self.replay.apply(&frame, &mut |_, _, _| {})
    }

    /// How many batches were confirmed, and whether the last frame said nothing.
    fn seen(&self) -> (u64, bool) {
        (self.replay.confirmed(), self.replay.last_frame_lacks_digest())
    }
}

#[test]
fn a_batch_is_confirmed_by_the_frame_behind_it() {
    let mut told = Told::begun();
    assert_eq!(told.seen(), (0, false), "there was nothing to confirm");
    for confirmed in 1..4 {
        told.next(told.decided()).expect("it says what was decided");
        assert_eq!(told.seen(), (confirmed, false));
    }
}

/// Digests are chained: the next frame that speaks speaks for those that were silent.
#[test]
fn a_frame_that_says_nothing_confirms_nothing() {
    let mut told = Told::begun();
    told.next((LogIndex(0), Digest([0; 32]))).expect("silence is no fault here");
    assert_eq!(told.seen(), (0, true));
    told.next(told.decided()).expect("it says what was decided");
    assert_eq!(told.seen(), (1, false));
}

#[test]
fn another_outcome_is_a_fault() {
    let mut told = Told::begun();
    let (end, mut digest) = told.decided();
    digest.0[31] ^= 1;
    let error = told.next((end, digest)).expect_err("it was decided differently");
    assert!(matches!(error, ReplayError::Diverged { log_index } if log_index == end), "{error}");
}

/// Not even with the digest that was right then, and not with none.
#[test]
fn a_frame_that_speaks_of_an_earlier_moment_is_a_fault() {
    let earlier = Told::begun().decided();
    for digest in [earlier.1, Digest([0; 32])] {
        let mut told = Told::begun();
        told.next(earlier).expect("it says what was decided");
        let (end, _) = told.decided();
        let error = told.next((earlier.0, digest)).expect_err("of an earlier moment");
        let ReplayError::Unconfirmed { log_index, applied } = error else { panic!("{error}") };
        assert_eq!((log_index, applied), (end, earlier.0));
    }
}
