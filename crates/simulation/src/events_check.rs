//! Compares the events of a log with the state that the log leads to.

use std::collections::{BTreeMap, BTreeSet};

use events::{Event, EventData, EventRecorder, QuoteStep, TransferStep};
use ledger::{Amount, DeliveryResult, LogIndex, State};
use ports::Log;
use sequencer::Replay;

/// Asserts that the events of a sound log follow from its state: positions rise, each transfer has
/// one beginning and at most one end, their numbers are those of the kernel's counters, and the
/// changes of each balance add up to it. A recorder that starts at the state after half of the log
/// makes the same events.
pub(crate) fn check(log: &mut impl Log) {
    let half = LogIndex(log.tail().end.0 / 2);
    let mut replay = Replay::new();
    let mut recorder = EventRecorder::new(replay.state());
    let (mut events, mut later) = (Vec::new(), None);
    log.replay(LogIndex(1), &mut |frame| {
        let mut second = later.take();
        if second.is_none() && half <= replay.state().log_index() {
            second = Some((EventRecorder::new(replay.state()), Vec::new()));
        }
        let applied = replay.apply(frame, &mut |step, state, effects| {
            recorder.observe(step, state, effects);
            if let Some((second, _)) = &mut second {
                second.observe(step, state, effects);
            }
        });
        applied.expect("a sound log is replayed");
        events.extend(recorder.take());
        if let Some((second, its)) = &mut second {
            its.extend(second.take());
        }
        later = second;
        Ok(())
    })
    .expect("a sound log is read");
    check_events(&events, replay.state());
    let its: Vec<Event> = later.map_or_else(Vec::new, |(_, its)| its);
    assert!(events.ends_with(&its), "a later start makes the same events");
}

fn check_events(events: &[Event], state: &State) {
    assert!(events.is_sorted_by(|one, next| one.position < next.position), "positions rise");
    let (mut steps, mut results) = (BTreeMap::new(), BTreeMap::new());
    let (mut begun, mut ended) = (BTreeSet::new(), BTreeSet::new());
    let (mut balances, mut quotes) = (BTreeMap::new(), BTreeSet::new());
    for event in events {
        match &event.data {
            EventData::Transfer(it) => {
                *steps.entry(it.step as u8).or_insert(0) += 1;
                let is_end = it.step != TransferStep::Reserved;
                let is_begin = matches!(it.step, TransferStep::Reserved | TransferStep::Refused);
                assert!(!is_begin || begun.insert(it.transfer), "{event:?} begins again");
                assert!(!is_end || ended.insert(it.transfer), "{event:?} ends again");
                assert!(begun.contains(&it.transfer), "{event:?} has not begun");
            }
            EventData::Delivery(it) => *results.entry(it.result.number()).or_insert(0) += 1,
            EventData::Position(it) => {
                let known = balances.insert(it.account, it.after).unwrap_or(Amount::ZERO);
                assert_eq!(known, it.before, "{event:?} follows the last balance");
            }
            EventData::Quote(it) => {
                let is_known = !quotes.insert(it.quote);
                assert!(it.step == QuoteStep::Requested || is_known, "{event:?} has no request");
            }
            EventData::Funds(_)
            | EventData::Notice(_)
            | EventData::Window(_)
            | EventData::Settlement(_)
            | EventData::Change(_)
            | EventData::AdminRequest(_) => {}
        }
    }
    let counters = state.counters();
    let step = |step: TransferStep| steps.get(&(step as u8)).copied().unwrap_or(0);
    let result = |result: DeliveryResult| results.get(&result.number()).copied().unwrap_or(0);
    for (name, counted, expected) in [
        ("reserved", step(TransferStep::Reserved), counters.reserved),
        ("refused", step(TransferStep::Refused), counters.refused),
        ("committed", step(TransferStep::Committed), counters.committed),
        ("aborted", step(TransferStep::Aborted), counters.aborted),
        ("expired", step(TransferStep::Expired), counters.expired),
        ("delivered", result(DeliveryResult::Delivered), counters.delivered),
        ("given up", result(DeliveryResult::GivenUp), counters.given_up),
    ] {
        assert_eq!(counted, expected, "events of kind {name}, and the kernel's counter");
    }
    for account in state.accounts().iter().filter(|account| !account.kind.is_of_hub()) {
        let last = balances.get(&account.id).copied().unwrap_or(Amount::ZERO);
        assert_eq!(last, account.value, "the events of account {}", account.id.0);
    }
}
