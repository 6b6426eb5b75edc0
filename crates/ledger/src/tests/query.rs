//! Counts and queries of a state, compared with values counted by hand.

use alloc::vec;
use alloc::vec::Vec;

use super::history::{
    Action, PrepareAction, ResponseAction, ResponseContent, START_MS, TestKernel,
};
use super::snapshot::restore;
use crate::*;

fn prepare(id: u8, expires_ms: u64) -> Action {
    Action::Prepare(PrepareAction {
        id,
        source: 0,
        payer: 0,
        payee: 1,
        units: 10_000,
        expires_ms,
        fee_rule: None,
        offer: None,
    })
}

fn commit(id: u8) -> Action {
    let content = ResponseContent::Committed { right: true };
    Action::Response(ResponseAction { id, sender: 1, to: None, content, body: 0 })
}

/// A kernel after these actions, one by one.
fn after(actions: impl IntoIterator<Item = Action>) -> TestKernel {
    let mut kernel = TestKernel::new();
    for action in actions {
        let command = kernel.command(&action);
        kernel.apply(&[command]);
    }
    kernel
}

#[test]
fn final_transfers_are_counted_hot_and_evicted() {
    assert_eq!(State::new().final_transfer_count(), 0);
    let mut kernel = after([prepare(1, 1_000), prepare(2, 1_000), commit(2)]);
    // The initial deposits of the participants are final too.
    assert_eq!(
        (kernel.state.final_transfer_count(), kernel.state.reserved_transfer_count()),
        (4, 1)
    );
    let all = Eviction {
        visible: LogIndex(u64::MAX),
        completed_before: Stamp(u64::MAX),
        rows_max: usize::MAX,
    };
    assert_eq!(kernel.state.evict(all, &mut |_| ()), 4);
    assert_eq!((kernel.state.final_transfer_count(), kernel.state.hot_transfer_count()), (4, 0));
}

#[test]
fn nth_deadline_counts_from_the_earliest() {
    let kernel =
        after([prepare(1, 6_000), prepare(2, 1_000), prepare(3, 2_500), prepare(4, 2_500)]);
    let due = |ms| Some(Stamp::from_millis(START_MS + ms));
    assert_eq!(kernel.state.next_deadline(), due(1_000));
    let expected = [due(1_000), due(2_500), due(2_500), due(6_000), None];
    assert_eq!([1, 2, 3, 4, 5].map(|count| kernel.state.nth_deadline(count)), expected);
    assert_eq!(State::new().nth_deadline(1), None);
}

#[test]
fn start_withdraws_prepares_of_final_transfers() {
    let kernel = after([prepare(1, 60_000), prepare(2, 60_000), commit(2)]);
    let resumed: Vec<_> = kernel
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
    let given_up = Action::Deliver { which: vec![1, 2], result: 0 };
    let delivered = Action::Deliver { which: vec![3], result: 2 };
    let actions = [prepare(1, 60_000), prepare(2, 60_000), prepare(3, 60_000), given_up, delivered];
    let mut kernel = after(actions);
    let dead = |state: &State| {
        let numbers: Vec<_> = state.dead_letters().map(|letter| letter.notice.id.0).collect();
        (state.dead_letter_count(), numbers)
    };
    assert_eq!(dead(&kernel.state), (2, vec![1, 2]));
    assert_eq!(kernel.state.notices_owed_count(), 0);
    let command = kernel.command(&Action::Redeliver { which: 1 });
    kernel.apply(&[command]);
    assert_eq!(dead(&kernel.state), (1, vec![2]));
    assert_eq!(dead(&State::new()), (0, vec![]));
}

/// A snapshot evicts its own rows, in portions, and none of the state.
#[test]
fn snapshot_evicts_rows_in_portions() {
    let kernel = after([prepare(1, 60_000), commit(1)]);
    let mut snapshot = kernel.state.snapshot();
    assert_eq!(snapshot.evict(0), 0);
    for (rows_max, went, left) in [(1, 1, 3), (2, 2, 1), (5, 1, 0), (5, 0, 0)] {
        assert_eq!(snapshot.evict(rows_max), went, "of {rows_max}");
        let hot = restore(snapshot.tables()).expect("its tables are sound").hot_transfer_count();
        assert_eq!(hot, left);
        assert_eq!(snapshot.tables().header().evicted.rows, 4 - left as u64);
    }
    assert_eq!(kernel.state.hot_transfer_count(), 4);
}

/// Buffers are reused for the next batch, so nothing may remain in them.
#[test]
fn cleared_effects_equal_new_ones() {
    let mut kernel = after([prepare(1, 60_000), prepare(2, 1_000)]);
    kernel.wait(2_000);
    let actions = [commit(1), Action::Participant { party: 2, active: false }];
    let commands = actions.map(|action| kernel.command(&action));
    let mut effects = kernel.apply(&commands);
    effects.position_jumps.push((AccountId(6), Amount::from_units(1)));
    effects.results.push((LogIndex(1), ChangeResult::Opened(WindowId(2))));
    effects
        .archived
        .extend(kernel.state.settlement().windows().cloned().map(ArchivedSettlement::Window));
    let Effects {
        outcomes,
        notices,
        withdrawn,
        final_rows,
        archived,
        results,
        committed,
        position_jumps,
        registry_changed,
    } = &effects;
    assert!(*registry_changed && archived.len() == 1 && results.len() == 1);
    let counts = [outcomes.len(), notices.len(), withdrawn.len(), final_rows.len()];
    assert_eq!(counts, [2, 4, 2, 2]);
    assert_eq!((committed.len(), position_jumps.len()), (1, 1));
    effects.clear();
    let Effects {
        outcomes,
        notices,
        withdrawn,
        final_rows,
        archived,
        results,
        committed,
        position_jumps,
        registry_changed,
    } = effects;
    assert!(outcomes.is_empty() && notices.is_empty() && withdrawn.is_empty());
    assert!(
        final_rows.is_empty() && !registry_changed && archived.is_empty() && results.is_empty()
    );
    assert!(committed.is_empty() && position_jumps.is_empty());
}
