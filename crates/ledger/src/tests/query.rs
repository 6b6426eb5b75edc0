//! Counts and queries of a state, compared with values counted by hand.

use alloc::vec;
use alloc::vec::Vec;

use super::history::{Act, AnswerAct, PrepareAct, START_MS, Says, World};
use super::snapshot::put_together;
use crate::*;

fn prepare(id: u8, expires_ms: u64) -> Act {
    Act::Prepare(PrepareAct { id, source: 0, payer: 0, payee: 1, units: 10_000, expires_ms })
}

fn commit(id: u8) -> Act {
    let says = Says::Committed { right: true };
    Act::Answer(AnswerAct { id, sender: 1, to: None, says, body: 0 })
}

/// A world after these acts, one by one.
fn after(acts: impl IntoIterator<Item = Act>) -> World {
    let mut world = World::new();
    for act in acts {
        let command = world.command(&act);
        world.apply(&[command]);
    }
    world
}

#[test]
fn final_transfers_are_counted_hot_and_evicted() {
    assert_eq!(State::new().transfers_ended(), 0);
    let mut world = after([prepare(1, 1_000), prepare(2, 1_000), commit(2)]);
    // The initial deposits of the participants are final too.
    assert_eq!((world.state.transfers_ended(), world.state.transfers_in_flight()), (4, 1));
    let all = Eviction {
        visible: LogIndex(u64::MAX),
        completed_before: Stamp(u64::MAX),
        rows_max: usize::MAX,
    };
    assert_eq!(world.state.evict(all, &mut |_| ()), 4);
    assert_eq!((world.state.transfers_ended(), world.state.transfers_hot()), (4, 0));
}

#[test]
fn nth_deadline_counts_from_the_earliest() {
    let world = after([prepare(1, 6_000), prepare(2, 1_000), prepare(3, 2_500), prepare(4, 2_500)]);
    let due = |ms| Some(Stamp::from_millis(START_MS + ms));
    assert_eq!(world.state.next_deadline(), due(1_000));
    let expected = [due(1_000), due(2_500), due(2_500), due(6_000), None];
    assert_eq!([1, 2, 3, 4, 5].map(|count| world.state.nth_deadline(count)), expected);
    assert_eq!(State::new().nth_deadline(1), None);
}

#[test]
fn start_withdraws_prepares_of_final_transfers() {
    let world = after([prepare(1, 60_000), prepare(2, 60_000), commit(2)]);
    let resumed: Vec<_> = world
        .state
        .notices_to_resume()
        .into_iter()
        .map(|(notice, is_stale)| (notice.id.0, notice.kind, is_stale))
        .collect();
    let expected = [
        (1, NoticeKind::Prepare, false),
        (2, NoticeKind::Prepare, true),
        (3, NoticeKind::Fulfil, false),
        (4, NoticeKind::FulfilCopy, false),
    ];
    assert_eq!(resumed, expected);
}

#[test]
fn dead_letters_are_counted_until_requeued() {
    let given_up = Act::Deliver { which: vec![1, 2], result: 0 };
    let delivered = Act::Deliver { which: vec![3], result: 2 };
    let acts = [prepare(1, 60_000), prepare(2, 60_000), prepare(3, 60_000), given_up, delivered];
    let mut world = after(acts);
    let dead = |state: &State| {
        let numbers: Vec<_> = state.dead_letters().map(|letter| letter.notice.id.0).collect();
        (state.dead_letter_count(), numbers)
    };
    assert_eq!(dead(&world.state), (2, vec![1, 2]));
    assert_eq!(world.state.notices_owed_count(), 0);
    let command = world.command(&Act::Redeliver { which: 1 });
    world.apply(&[command]);
    assert_eq!(dead(&world.state), (1, vec![2]));
    assert_eq!(dead(&State::new()), (0, vec![]));
}

/// A snapshot evicts its own rows, in portions, and none of the state.
#[test]
fn snapshot_evicts_rows_in_portions() {
    let world = after([prepare(1, 60_000), commit(1)]);
    let mut aside = world.state.freeze();
    assert_eq!(aside.let_go(0), 0);
    for (rows_max, went, left) in [(1, 1, 3), (2, 2, 1), (5, 1, 0), (5, 0, 0)] {
        assert_eq!(aside.let_go(rows_max), went, "of {rows_max}");
        let hot = put_together(aside.parts()).expect("its parts are sound").transfers_hot();
        assert_eq!(hot, left);
        assert_eq!(aside.parts().head().evicted.rows, 4 - left as u64);
    }
    assert_eq!(world.state.transfers_hot(), 4);
}

/// Buffers are reused for the next batch, so nothing may remain in them.
#[test]
fn cleared_effects_equal_new_ones() {
    let mut world = after([prepare(1, 60_000), prepare(2, 1_000)]);
    world.wait(2_000);
    let acts = [commit(1), Act::Participant { party: 2, active: false }];
    let commands = acts.map(|act| world.command(&act));
    let mut effects = world.apply(&commands);
    effects.results.push((LogIndex(1), ChangeResult::Opened(WindowId(2))));
    effects
        .archived
        .extend(world.state.settlement().windows().cloned().map(ArchivedSettlement::Window));
    let Effects { outcomes, notices, withdrawn, ended, archived, results, register_changed } =
        &effects;
    assert!(*register_changed && archived.len() == 1 && results.len() == 1);
    let counts = [outcomes.len(), notices.len(), withdrawn.len(), ended.len()];
    assert_eq!(counts, [2, 4, 2, 2]);
    effects.clear();
    let Effects { outcomes, notices, withdrawn, ended, archived, results, register_changed } =
        effects;
    assert!(outcomes.is_empty() && notices.is_empty() && withdrawn.is_empty());
    assert!(ended.is_empty() && !register_changed && archived.is_empty() && results.is_empty());
}
