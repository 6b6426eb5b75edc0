//! Every frame has a digest of the decisions before it, and a replay checks the digest.

use ledger::{Digest, LogIndex, Stamp};
use record::frame::{BatchHeader, Frame, FrameBuilder, Tail};
use sequencer::{Replay, ReplayError};

use crate::fixture::{self, IDENTITY};

/// A replay of a log that a test writes frame by frame.
struct TestReplay {
    replay: Replay,
    tail: Tail,
}

impl TestReplay {
    /// A replay of the scheme's first batch, whose frame has the digest of an empty state.
    fn begun() -> Self {
        let tail = Tail::genesis(IDENTITY);
        let mut test = Self { replay: Replay::new(), tail };
        test.apply(fixture::beginning(), test.digest()).expect("it is sound");
        test
    }

    /// The digest of the decisions so far.
    fn digest(&self) -> (LogIndex, Digest) {
        let state = self.replay.state();
        (state.log_index(), *state.digest())
    }

    /// Applies a frame with another transfer and this digest.
    fn next(&mut self, digest: (LogIndex, Digest)) -> Result<(), ReplayError> {
        let of = self.tail.end.0 as usize;
        self.apply(vec![fixture::prepare(of, fixture::units(1), 1_000_000)], digest)
    }

    fn apply(
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

    /// The number of confirmed batches, and whether the last frame has no digest.
    fn seen(&self) -> (u64, bool) {
        (self.replay.confirmed(), self.replay.last_frame_lacks_digest())
    }
}

#[test]
fn a_batch_is_confirmed_by_the_next_frame() {
    let mut test = TestReplay::begun();
    assert_eq!(test.seen(), (0, false), "there was nothing to confirm");
    for confirmed in 1..4 {
        test.next(test.digest()).expect("the digest is right");
        assert_eq!(test.seen(), (confirmed, false));
    }
}

/// Digests are chained: the next digest also confirms the frames without one.
#[test]
fn a_frame_without_digest_confirms_nothing() {
    let mut test = TestReplay::begun();
    test.next((LogIndex(0), Digest([0; 32]))).expect("a missing digest is no error here");
    assert_eq!(test.seen(), (0, true));
    test.next(test.digest()).expect("the digest is right");
    assert_eq!(test.seen(), (1, false));
}

#[test]
fn another_outcome_is_an_error() {
    let mut test = TestReplay::begun();
    let (end, mut digest) = test.digest();
    digest.0[31] ^= 1;
    let error = test.next((end, digest)).expect_err("it was decided differently");
    assert!(matches!(error, ReplayError::Diverged { log_index } if log_index == end), "{error}");
}

/// Neither with the digest that was right then, nor without one.
#[test]
fn a_digest_of_an_earlier_record_is_an_error() {
    let earlier = TestReplay::begun().digest();
    for digest in [earlier.1, Digest([0; 32])] {
        let mut test = TestReplay::begun();
        test.next(earlier).expect("the digest is right");
        let (end, _) = test.digest();
        let error = test.next((earlier.0, digest)).expect_err("it covers an earlier record");
        let ReplayError::Unconfirmed { log_index, applied } = error else { panic!("{error}") };
        assert_eq!((log_index, applied), (end, earlier.0));
    }
}
