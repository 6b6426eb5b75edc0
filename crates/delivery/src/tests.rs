//! Table tests in virtual time. [`model`] compares random histories with a naive model.

mod model;

use std::collections::BTreeMap;

use ledger::{DeliveryResult, NoticeId, ParticipantIndex, Stamp, TransferId};
use ports::ClockReading;

use crate::policy::Jitter;
use crate::{
    Attempt, AttemptResult, Delivery, DeliveryProgress, DeliveryReport, ENDED_ATTEMPTS_MAX,
    EndedAttempt, Enqueued, LaneMode, LaneState, MonotonicTime, NoticePriority, Policy,
    QueuedNotice, Verdict, WaitReason, Withdrawal,
};

const BANK: ParticipantIndex = ParticipantIndex(1);
const WALLET: ParticipantIndex = ParticipantIndex(2);
/// The horizon of a notice that is owed from time 0.
const DAY: MonotonicTime = MonotonicTime(86_400_000_000);
const NO_ANSWER: [AttemptResult; 3] =
    [AttemptResult::TimedOut, AttemptResult::ConnectFailed, AttemptResult::Broken];

fn transfer(number: u8) -> TransferId {
    let mut bytes = [0; 17];
    bytes[16] = number;
    TransferId::from_bytes(bytes).expect("the form of a UUID")
}

fn owed(notice: u64, recipient: ParticipantIndex, about: u8) -> QueuedNotice<u64> {
    QueuedNotice {
        notice: NoticeId(notice),
        recipient,
        transfer: Some(transfer(about)),
        until: DAY,
        purpose: NoticePriority::Owed,
        bytes: 100,
        reserved_at: None,
        message: Some(notice),
    }
}

/// A response to a registration.
fn answer(notice: u64, recipient: ParticipantIndex) -> QueuedNotice<u64> {
    QueuedNotice { transfer: None, ..owed(notice, recipient, 0) }
}

fn prepare(notice: u64, recipient: ParticipantIndex, about: u8) -> QueuedNotice<u64> {
    QueuedNotice { purpose: NoticePriority::Prepare, ..owed(notice, recipient, about) }
}

/// All notices that can be sent at `now`.
fn drain(delivery: &mut Delivery<u64>, now: MonotonicTime) -> Vec<u64> {
    std::iter::from_fn(|| delivery.poll(now)).map(|attempt| attempt.notice.0).collect()
}

fn lane(delivery: &Delivery<u64>, recipient: ParticipantIndex) -> LaneState {
    delivery
        .lane_states()
        .find(|state| state.recipient == recipient)
        .expect("the lane had an entry")
}

fn filled(policy: Policy, entries: impl IntoIterator<Item = QueuedNotice<u64>>) -> Delivery<u64> {
    let mut delivery = Delivery::new(policy, 1);
    for entry in entries {
        assert_ne!(delivery.enqueue(entry), Enqueued::Repeated);
    }
    delivery
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ended(report) => end(&report),
        Verdict::RetryAt(_) => "retry",
        Verdict::Parked => "parked",
        Verdict::LaneLost => "left",
    }
}

/// The time of the next attempt, which must follow.
#[track_caller]
fn again(verdict: Verdict) -> MonotonicTime {
    let Verdict::RetryAt(moment) = verdict else { panic!("{verdict:?}") };
    moment
}

fn end(report: &DeliveryReport) -> &'static str {
    match report.result {
        DeliveryResult::Delivered => "delivered",
        DeliveryResult::Dead => "dead",
        DeliveryResult::Withdrawn => "withdrawn",
        DeliveryResult::GivenUp => "given up",
    }
}

/// Deliveries whose time is over at `now`, with their results.
fn lapsed(delivery: &mut Delivery<u64>, now: MonotonicTime) -> Vec<(u64, &'static str)> {
    assert_eq!(drain(delivery, now), [0; 0], "nothing can be sent");
    std::iter::from_fn(|| delivery.next_lapsed())
        .map(|report| (report.notice.0, end(&report)))
        .collect()
}

#[test]
fn each_result_has_its_verdict() {
    let rows = [
        ("delivered", &[200, 202, 299][..]),
        ("retry", &[100, 300, 304, 307, 401, 403, 404, 408, 409, 421, 425, 429, 500, 502, 503]),
        ("retry", &[504, 599, 600]),
        ("dead", &[400, 402, 405, 406, 407, 410, 413, 415, 420, 422, 424, 426, 428, 431, 499, 501]),
    ];
    let of = |(word, statuses): (&'static str, &'static [u16])| {
        statuses.iter().map(move |status| (AttemptResult::Status(*status), word))
    };
    let unanswered = NO_ANSWER.into_iter().map(|result| (result, "retry"));
    for (result, expected) in rows.into_iter().flat_map(of).chain(unanswered) {
        let mut delivery = filled(Policy::default(), [owed(1, BANK, 1)]);
        delivery.poll(MonotonicTime(10)).expect("one attempt");
        let verdict = delivery.finished(NoticeId(1), result, MonotonicTime(30));
        assert_eq!(word(verdict), expected, "{result:?}");
        let of_registration = match expected {
            "dead" => "given up",
            other => other,
        };
        let mut other = filled(Policy::default(), [answer(1, BANK)]);
        other.poll(MonotonicTime(10)).expect("one attempt");
        let otherwise = other.finished(NoticeId(1), result, MonotonicTime(30));
        assert_eq!(word(otherwise), of_registration, "{result:?}");
        let Verdict::Ended(report) = verdict else { continue };
        assert_eq!((report.attempts, report.last), (1, Some(result)));
        assert_eq!(
            (report.first_attempt, report.finished),
            (Some(MonotonicTime(10)), MonotonicTime(30))
        );
        assert_eq!(report.status(), result.status().unwrap_or(0));
    }
}

#[test]
fn pauses_double_up_to_the_cap_and_a_failure_near_the_horizon_is_a_dead_letter() {
    let entry = QueuedNotice { until: MonotonicTime(26_000_000), ..owed(1, BANK, 1) };
    let mut delivery = filled(Policy::default(), [entry]);
    let mut now = MonotonicTime(0);
    for (attempt, full) in [(1, 200_000), (2, 400_000), (3, 800_000), (4, 1_600_000)]
        .into_iter()
        .chain([(5, 3_200_000), (6, 6_400_000), (7, 12_800_000)])
    {
        assert_eq!(delivery.poll(now).map(|sent| sent.number), Some(attempt));
        let verdict = delivery.finished(NoticeId(1), AttemptResult::Status(503), now);
        let retry_at = again(verdict);
        let pause = retry_at.0 - now.0;
        assert!((full / 2..=full).contains(&pause), "{pause} after attempt {attempt}");
        assert_eq!(delivery.next_deadline(), Some(retry_at));
        assert_eq!(drain(&mut delivery, MonotonicTime(retry_at.0 - 1)), [] as [u64; 0]);
        now = retry_at;
    }
    delivery.poll(now).expect("the eighth attempt");
    // The next pause would be at least 12.8 s, which is too late.
    now = MonotonicTime(now.0.max(13_200_000));
    let verdict = delivery.finished(NoticeId(1), AttemptResult::TimedOut, now);
    let Verdict::Ended(report) = verdict else { panic!("{verdict:?}") };
    assert_eq!((report.attempts, report.first_attempt), (8, Some(MonotonicTime(0))));
    assert_eq!((end(&report), report.finished, report.status()), ("dead", now, 0));
    assert_eq!(delivery.next_deadline(), None);
}

/// A restart does not extend the horizon. After it only one attempt is made.
#[test]
fn the_horizon_counts_from_when_a_notice_became_owed() {
    let policy = Policy::default();
    let now = |wall, monotonic_us| ClockReading { monotonic_us, wall: Stamp(wall) };
    let owed_at = Stamp(1_000);
    assert_eq!(policy.until(owed_at, now(1_000, 50)), MonotonicTime(DAY.0 + 50));
    assert_eq!(policy.until(owed_at, now(61_000_000, 7)), MonotonicTime(DAY.0 - 60_999_000 + 7));
    assert_eq!(policy.until(owed_at, now(DAY.0 + 2_000, 7)), MonotonicTime(7), "it is over");
    assert_eq!(
        policy.until(owed_at, now(0, 7)),
        MonotonicTime(DAY.0 + 7),
        "a clock that went back"
    );

    let late = QueuedNotice { until: MonotonicTime(7), ..owed(1, BANK, 1) };
    let mut delivery = filled(policy, [late]);
    assert_eq!(drain(&mut delivery, MonotonicTime(9)), [1], "one attempt is made all the same");
    let verdict = delivery.finished(NoticeId(1), AttemptResult::Status(503), MonotonicTime(10));
    assert_eq!(word(verdict), "dead");
}

/// 24 hours of failures exceed the recorded number, which then has its maximum.
#[test]
fn recorded_attempts_saturate() {
    let policy = Policy {
        backoff_base_micros: 1,
        backoff_max_micros: 1,
        probe_after: 2,
        ..Policy::default()
    };
    let mut delivery = filled(policy, [owed(1, BANK, 1)]);
    let mut now = MonotonicTime(0);
    for _ in 0..70_000 {
        delivery.poll(now).expect("one more attempt");
        now = again(delivery.finished(NoticeId(1), AttemptResult::Status(500), now));
    }
    delivery.poll(now).expect("one more attempt");
    let verdict = delivery.finished(NoticeId(1), AttemptResult::Status(200), now);
    let Verdict::Ended(report) = verdict else { panic!("{verdict:?}") };
    assert_eq!((report.attempts, report.attempts_recorded()), (70_001, u16::MAX));
}

/// A notice that is retried many times keeps a bounded number of attempts.
#[test]
fn the_newest_attempts_are_kept() {
    let mut delivery = filled(Policy::default(), [owed(1, BANK, 1)]);
    let mut now = MonotonicTime(0);
    for attempts in 1..=2 * ENDED_ATTEMPTS_MAX {
        delivery.poll(now).expect("one more attempt");
        let began = now;
        now = now.after_micros(7);
        let verdict = delivery.finished(NoticeId(1), AttemptResult::Broken, now);
        let tried = delivery.ended_attempts(NoticeId(1));
        assert_eq!(tried.len(), attempts.min(ENDED_ATTEMPTS_MAX));
        let newest = EndedAttempt { began, ended: now, result: AttemptResult::Broken };
        assert_eq!(tried.last(), Some(&newest));
        let Verdict::RetryAt(retry_at) = verdict else { panic!("{verdict:?}") };
        now = retry_at;
    }
}

#[test]
fn a_pause_never_exceeds_the_cap() {
    let policy = Policy::default();
    let mut jitter = Jitter::new(7);
    for failures in [12, 13, 40, 64, 65, u32::MAX] {
        let pause = policy.backoff_micros(failures, &mut jitter);
        assert!(
            (policy.backoff_max_micros / 2..=policy.backoff_max_micros).contains(&pause),
            "{pause} after {failures}"
        );
        let pause = policy.probe_micros(failures, false, &mut jitter);
        assert!((15_000_000..=30_000_000).contains(&pause), "{pause} after {failures}");
    }
}

#[test]
fn entries_that_fail_together_are_retried_apart() {
    let entries = (1..=64).map(|number| owed(number, BANK, number as u8));
    let mut delivery = filled(Policy { probe_after: 65, ..Policy::default() }, entries);
    let sent = drain(&mut delivery, MonotonicTime(0));
    let mut moments: Vec<MonotonicTime> = sent
        .iter()
        .map(|notice| {
            again(delivery.finished(
                NoticeId(*notice),
                AttemptResult::Status(500),
                MonotonicTime(1),
            ))
        })
        .collect();
    moments.sort_unstable();
    moments.dedup();
    assert!(60 < moments.len(), "{} different moments of 64", moments.len());
}

#[test]
fn order_holds_within_a_transfer_only() {
    let mut delivery = filled(
        Policy::default(),
        [
            owed(1, BANK, 1),
            owed(2, BANK, 1),
            owed(3, BANK, 2),
            owed(4, WALLET, 1),
            owed(5, BANK, 1),
        ],
    );
    let now = MonotonicTime(5);
    assert_eq!(drain(&mut delivery, now), [1, 4, 3], "2 and 5 wait, 3 and 4 overtake");

    let later = again(delivery.finished(NoticeId(1), AttemptResult::Broken, now));
    assert_eq!(drain(&mut delivery, now), [] as [u64; 0], "a pause keeps the order");
    assert_eq!(drain(&mut delivery, later), [1]);

    delivery.finished(NoticeId(1), AttemptResult::Status(400), later);
    assert_eq!(drain(&mut delivery, later), [2], "a dead letter lets the next one go");
    delivery.finished(NoticeId(2), AttemptResult::Status(200), later);
    assert_eq!(drain(&mut delivery, later), [5]);
}

#[test]
fn the_window_counts_attempts_and_unrecorded_deliveries() {
    let policy = Policy { window: 3, ..Policy::default() };
    let mut delivery = filled(policy, (1..=6).map(|number| owed(number, BANK, number as u8)));
    let now = MonotonicTime(1);
    assert_eq!(drain(&mut delivery, now), [1, 2, 3]);
    assert!(!delivery.starved(), "attempts in flight fill the window");

    delivery.finished(NoticeId(1), AttemptResult::Status(200), now);
    assert_eq!(drain(&mut delivery, now), [] as [u64; 0], "not durable yet");
    assert!(!delivery.starved(), "one of three is not worth a record");
    delivery.finished(NoticeId(2), AttemptResult::Status(400), now);
    delivery.finished(NoticeId(3), AttemptResult::Status(200), now);
    assert!(delivery.starved(), "nothing but records can help");
    let state = lane(&delivery, BANK);
    assert_eq!((state.waiting, state.in_flight, state.unrecorded), (3, 0, 3));

    delivery.recorded(&[NoticeId(1), NoticeId(3), NoticeId(77)]);
    assert!(!delivery.starved());
    assert_eq!(drain(&mut delivery, now), [4, 5]);
    delivery.recorded(&[NoticeId(1), NoticeId(4)]);
    assert_eq!(lane(&delivery, BANK).in_flight, 2, "a report ahead of its result changes nothing");
}

#[test]
fn a_pause_holds_no_window_slot() {
    let policy = Policy { window: 1, ..Policy::default() };
    let mut delivery = filled(policy, [owed(1, BANK, 1), owed(2, BANK, 2)]);
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [1]);
    delivery.finished(NoticeId(1), AttemptResult::Status(503), MonotonicTime(0));
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [2]);
    assert_eq!(lane(&delivery, BANK).backing_off, 1);
}

/// An unreadable message does not count as an attempt. It waits without limit and delays no other.
#[test]
fn an_unsent_message_is_not_counted() {
    let policy = Policy { probe_after: 1, ..Policy::default() };
    let entries = [prepare(1, BANK, 1), owed(2, BANK, 2), owed(3, BANK, 3)];
    let mut delivery = filled(policy, entries);
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [1, 2, 3]);
    let mut now = MonotonicTime(0);
    let mut pauses = Vec::new();
    for _ in 0..10 {
        let later = again(delivery.finished(NoticeId(1), AttemptResult::Unsent, now));
        assert_eq!(lane(&delivery, BANK).mode, LaneMode::Open);
        let progress = delivery.progress(NoticeId(1), now).expect("it waits");
        assert_eq!((progress.attempts, progress.first_attempt), (0, None));
        assert_eq!(progress.last, Some(AttemptResult::Unsent));
        pauses.push(later.0 - now.0);
        now = later;
        assert_eq!(drain(&mut delivery, now), [1]);
    }
    assert!(pauses[0] <= 200_000 && 50_000_000 <= pauses[9], "{pauses:?}");
    // A real failure is the first attempt, and the next pause a short one again.
    let later = again(delivery.finished(NoticeId(1), AttemptResult::Status(503), now));
    assert!(later.0 - now.0 <= 200_000);
    assert_eq!(delivery.progress(NoticeId(1), now).expect("it waits").attempts, 1);
    // A probing lane soon probes with another entry.
    delivery.finished(NoticeId(2), AttemptResult::TimedOut, now);
    assert_ne!(lane(&delivery, BANK).mode, LaneMode::Open);
    delivery.finished(NoticeId(3), AttemptResult::Unsent, now);
    let next = delivery.next_deadline().expect("an entry waits");
    assert!(next.0 <= now.0 + 200_000, "{next:?}");
}

/// A prepare that waits for its message counts as never attempted.
#[test]
fn an_unsent_prepare_is_withdrawn_during_its_pause() {
    let mut delivery = filled(Policy::default(), [prepare(1, BANK, 1), owed(2, BANK, 1)]);
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [1]);
    delivery.finished(NoticeId(1), AttemptResult::Unsent, MonotonicTime(0));
    assert_eq!(withdraw(&mut delivery, 1), "withdrawn");
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [2]);
    assert_eq!(delivery.next_deadline(), None);
}

fn withdraw(delivery: &mut Delivery<u64>, notice: u64) -> &'static str {
    match delivery.withdraw(NoticeId(notice)) {
        Withdrawal::Ended(report) => end(&report),
        Withdrawal::Kept => "kept",
        Withdrawal::Unknown => "unknown",
    }
}

/// A prepare of a final transfer is not sent or sent again; other notices are.
#[test]
fn only_a_prepare_is_withdrawn() {
    let mut delivery = filled(
        Policy { window: 2, ..Policy::default() },
        [prepare(1, BANK, 1), owed(2, BANK, 1), prepare(3, BANK, 3), prepare(4, BANK, 4)],
    );
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [1, 3]);
    delivery.finished(NoticeId(3), AttemptResult::TimedOut, MonotonicTime(0));
    for (notice, expected) in [
        (1, "kept"),
        (2, "kept"),
        (3, "given up"),
        (3, "kept"),
        (4, "withdrawn"),
        (4, "kept"),
        (9, "unknown"),
    ] {
        assert_eq!(withdraw(&mut delivery, notice), expected, "notice {notice}");
    }
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [] as [u64; 0]);
    delivery.recorded(&[NoticeId(3), NoticeId(4)]);
    assert_eq!(withdraw(&mut delivery, 4), "unknown");
    assert_eq!(
        lane(&delivery, BANK).unrecorded,
        0,
        "an entry without an attempt in flight has no slot"
    );
}

/// If the transfer ends while its prepare is in flight, that attempt is the last one.
#[test]
fn a_prepare_in_flight_is_not_retried_after_its_transfer_ended() {
    for (result, expected, attempts) in [
        (AttemptResult::Status(202), "delivered", 1),
        (AttemptResult::Status(503), "given up", 1),
        (AttemptResult::Status(400), "given up", 1),
        (AttemptResult::TimedOut, "given up", 1),
        (AttemptResult::Unsent, "withdrawn", 0),
        (AttemptResult::NoAddress, "withdrawn", 0),
    ] {
        let entries = [prepare(1, BANK, 1), owed(2, BANK, 1)];
        let mut delivery = filled(Policy { probe_after: 1, ..Policy::default() }, entries);
        assert_eq!(drain(&mut delivery, MonotonicTime(0)), [1]);
        assert_eq!(withdraw(&mut delivery, 1), "kept");
        let verdict = delivery.finished(NoticeId(1), result, MonotonicTime(5));
        assert_eq!(word(verdict), expected, "{result:?}");
        let Verdict::Ended(report) = verdict else { panic!("{verdict:?}") };
        assert_eq!(report.attempts, attempts, "{result:?}");
        let later = match lane(&delivery, BANK).mode {
            LaneMode::Probing { next } => next,
            LaneMode::Open => MonotonicTime(5),
        };
        assert_eq!(drain(&mut delivery, later), [2], "its successor goes, {result:?}");
        delivery.recorded(&[NoticeId(1)]);
        assert_eq!(lane(&delivery, BANK).unrecorded, 0);
    }
}

#[test]
fn a_withdrawn_prepare_unblocks_its_successor() {
    let policy = Policy { window: 1, ..Policy::default() };
    for withdrawn in [[2, 3], [3, 2]] {
        let mut delivery = filled(
            policy.clone(),
            [owed(1, WALLET, 9), owed(10, BANK, 9), prepare(2, BANK, 1), prepare(3, BANK, 1)],
        );
        delivery.enqueue(owed(4, BANK, 1));
        assert_eq!(drain(&mut delivery, MonotonicTime(0)), [1, 10]);
        for notice in withdrawn {
            assert_eq!(withdraw(&mut delivery, notice), "withdrawn");
        }
        delivery.finished(NoticeId(10), AttemptResult::Status(200), MonotonicTime(0));
        delivery.recorded(&[NoticeId(10)]);
        assert_eq!(drain(&mut delivery, MonotonicTime(0)), [4], "withdrawn in order {withdrawn:?}");
    }
}

#[test]
fn beyond_its_bytes_a_lane_keeps_ids_only() {
    let policy = Policy { bytes_max: 250, ..Policy::default() };
    let mut delivery = Delivery::new(policy, 1);
    for (entry, expected) in [
        (owed(1, BANK, 1), Enqueued::Held),
        (QueuedNotice { message: None, ..owed(2, BANK, 2) }, Enqueued::Spilled),
        (owed(3, BANK, 3), Enqueued::Held),
        (owed(4, BANK, 4), Enqueued::Spilled),
        (owed(4, BANK, 4), Enqueued::Repeated),
        (owed(5, WALLET, 5), Enqueued::Held),
        (QueuedNotice { bytes: 50, ..owed(6, BANK, 6) }, Enqueued::Held),
    ] {
        assert_eq!(delivery.enqueue(entry), expected);
    }
    assert_eq!((lane(&delivery, BANK).bytes, lane(&delivery, BANK).spilled), (250, 2));

    let messages: Vec<_> = std::iter::from_fn(|| delivery.poll(MonotonicTime(0)))
        .map(|Attempt { notice, message, .. }| (notice.0, message))
        .collect();
    assert_eq!(
        messages,
        [(1, Some(1)), (5, Some(5)), (2, None), (3, Some(3)), (4, None), (6, Some(6))]
    );
    for (notice, bytes, spilled) in [(1, 150, 2), (4, 150, 1), (6, 100, 1)] {
        delivery.finished(NoticeId(notice), AttemptResult::Status(200), MonotonicTime(0));
        let state = lane(&delivery, BANK);
        assert_eq!((state.bytes, state.spilled), (bytes, spilled), "after {notice}");
    }
}

#[test]
fn a_dead_participant_costs_one_attempt_per_pause() {
    let policy = Policy::default();
    let mut delivery =
        filled(policy.clone(), (1..=80).map(|number| owed(number, BANK, number as u8)));
    for notice in drain(&mut delivery, MonotonicTime(0)) {
        delivery.finished(NoticeId(notice), AttemptResult::ConnectFailed, MonotonicTime(0));
    }
    let mut probes = Vec::new();
    while let Some(now) =
        delivery.next_deadline().filter(|moment| *moment < MonotonicTime(60_000_000))
    {
        for notice in drain(&mut delivery, now) {
            assert_eq!(lane(&delivery, BANK).in_flight, 1);
            delivery.finished(NoticeId(notice), AttemptResult::ConnectFailed, now);
            probes.push((now.0, notice));
        }
    }
    assert!((7..=12).contains(&probes.len()), "{probes:?}");
    let fresh: Vec<u64> = probes.iter().map(|probe| probe.1).collect();
    assert_eq!(fresh[..7], [65, 66, 67, 68, 69, 70, 71], "each probe is another entry");
    assert_eq!(lane(&delivery, BANK).waiting, 80);
}

/// A participant that takes notices, or refuses them for good, works. One that answers every notice
/// with a temporary failure does not.
#[test]
fn a_final_answer_opens_a_lane_at_once() {
    for (status, sent_then) in [(200, 63), (400, 63), (501, 63), (404, 0), (503, 0), (302, 0)] {
        let mut delivery =
            filled(Policy::default(), (1..=80).map(|number| owed(number, BANK, number as u8)));
        for notice in drain(&mut delivery, MonotonicTime(0)) {
            delivery.finished(NoticeId(notice), AttemptResult::TimedOut, MonotonicTime(0));
        }
        let later = MonotonicTime(10_000_000);
        let probe = delivery.poll(later).expect("a probe is due");
        assert!(delivery.poll(later).is_none(), "one at a time");
        delivery.finished(probe.notice, AttemptResult::Status(status), later);
        assert_eq!(lane(&delivery, BANK).mode == LaneMode::Open, 0 < sent_then, "{status}");
        let sent = drain(&mut delivery, later).len();
        assert!((sent_then..=sent_then + 1).contains(&sent), "{sent} after {status}");
    }
}

/// Thousands of notices wait and every attempt fails. A server that answers gets a window, then a
/// steady trickle. A silent one gets one request per pause.
#[test]
fn a_failing_server_is_not_flooded() {
    let answers = [302, 401, 404, 409, 429, 500, 503].map(AttemptResult::Status);
    let answering = answers.into_iter().map(|result| (result, 2_900..=6_100));
    let silent = NO_ANSWER.into_iter().map(|result| (result, 90..=130));
    for (result, expected) in answering.chain(silent) {
        let entries = (1..=5_000).map(|number| owed(number, BANK, (number % 251) as u8));
        let mut delivery = filled(Policy::default(), entries);
        let mut sent = 0;
        let mut now = MonotonicTime(0);
        while now < MonotonicTime(600_000_000) {
            for notice in drain(&mut delivery, now) {
                sent += 1;
                assert_eq!(word(delivery.finished(NoticeId(notice), result, now)), "retry");
            }
            now = delivery.next_deadline().expect("it is tried again");
        }
        assert!(expected.contains(&sent), "{sent} attempts within ten minutes: {result:?}");
    }
}

/// A recipient refuses many notices repeatedly and would take all others. Those arrive within two
/// seconds, whatever the number of refused ones.
#[test]
fn refused_notices_do_not_delay_the_others() {
    let refused = 1..=60;
    let entries = refused.clone().map(|number| owed(number, BANK, number as u8));
    let mut delivery = filled(Policy::default(), entries);
    let mut enqueued = BTreeMap::new();
    let (mut now, mut longest) = (MonotonicTime(0), 0);
    for round in 0..100 {
        let (good, end) = (100 + round, MonotonicTime((round + 1) * 1_000_000));
        delivery.enqueue(QueuedNotice { transfer: None, ..owed(good, BANK, 0) });
        enqueued.insert(good, now);
        while now < end {
            for notice in drain(&mut delivery, now) {
                let result = AttemptResult::Status(if notice < 100 { 500 } else { 200 });
                delivery.finished(NoticeId(notice), result, now);
                delivery.recorded(&[NoticeId(notice)]);
                let since = enqueued.remove(&notice).unwrap_or(now);
                longest = longest.max(now.0 - since.0);
            }
            now = delivery.next_deadline().unwrap_or(end).min(end);
        }
    }
    assert!(longest <= 2_000_000, "{longest} us");
    assert!(enqueued.len() <= 1, "{enqueued:?}");
}

/// Responses to registrations are sent after notices about money.
#[test]
fn responses_to_registrations_do_not_delay_transfers() {
    let registered =
        |number| QueuedNotice { purpose: NoticePriority::Patient, ..answer(number, BANK) };
    let mut delivery = filled(Policy::default(), (1..=1_000).map(registered));
    let mut now = MonotonicTime(0);
    while lane(&delivery, BANK).mode == LaneMode::Open {
        for notice in drain(&mut delivery, now) {
            delivery.finished(NoticeId(notice), AttemptResult::Status(404), now);
        }
        now = delivery.next_deadline().expect("it is tried again");
    }
    delivery.enqueue(owed(2_000, BANK, 1));
    let due = now.after_micros(1_000_000);
    let sent = std::iter::from_fn(|| {
        now = delivery.next_deadline().filter(|next| *next <= due)?.max(now);
        let sent = drain(&mut delivery, now);
        sent.iter().filter(|notice| **notice < 2_000).for_each(|notice| {
            delivery.finished(NoticeId(*notice), AttemptResult::Status(404), now);
        });
        Some(sent)
    });
    assert!(sent.flatten().take(4).any(|notice| notice == 2_000), "it goes with the next probe");
}

/// A notice that is always refused does not delay the others.
#[test]
fn a_notice_that_always_fails_does_not_close_a_lane() {
    let mut delivery = filled(Policy::default(), [answer(1, BANK)]);
    let mut now = MonotonicTime(0);
    for _ in 0..20 {
        assert_eq!(drain(&mut delivery, now), [1]);
        now = again(delivery.finished(NoticeId(1), AttemptResult::Status(500), now));
    }
    assert_eq!(lane(&delivery, BANK).mode, LaneMode::Open);
    delivery.enqueue(answer(2, BANK));
    assert_eq!(drain(&mut delivery, MonotonicTime(now.0 - 1)), [2]);
}

/// In a closed lane a new notice is still sent at once, unless a new one has failed.
#[test]
fn the_first_new_entry_after_a_success_need_not_wait() {
    let policy = Policy { probe_after: 2, ..Policy::default() };
    let mut delivery = filled(policy, [answer(1, BANK), answer(2, BANK), answer(3, BANK)]);
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [1, 2, 3]);
    let failed = AttemptResult::Status(500);
    delivery.finished(NoticeId(1), failed, MonotonicTime(0));
    delivery.finished(NoticeId(2), failed, MonotonicTime(0));
    delivery.finished(NoticeId(3), AttemptResult::Status(200), MonotonicTime(0));
    let mut now = MonotonicTime(1_000_000);
    assert_eq!(drain(&mut delivery, now), [1, 2]);
    delivery.finished(NoticeId(1), failed, now);
    delivery.finished(NoticeId(2), failed, now);
    assert_ne!(lane(&delivery, BANK).mode, LaneMode::Open);
    now = now.after_micros(1);
    assert_eq!(drain(&mut delivery, now), [0; 0]);
    delivery.enqueue(answer(4, BANK));
    delivery.enqueue(answer(5, BANK));
    assert_eq!(drain(&mut delivery, now), [4], "one at a time");
    delivery.finished(NoticeId(4), failed, now);
    assert_eq!(drain(&mut delivery, now), [0; 0], "new ones fail as well");
    // New and failed entries take turns.
    let mut next = now;
    let later = std::iter::from_fn(|| {
        next = delivery.next_deadline()?;
        let sent = drain(&mut delivery, next);
        sent.iter().filter(|notice| **notice != 5).for_each(|notice| {
            delivery.finished(NoticeId(*notice), failed, next);
        });
        Some(sent)
    });
    assert!(later.flatten().take(4).any(|notice| notice == 5));
    delivery.finished(NoticeId(5), AttemptResult::Status(200), next);
    assert_eq!(lane(&delivery, BANK).mode, LaneMode::Open);
}

/// Only a new notice is sent before the next probe's time. A failed one waits for that time even if
/// it is its turn, so that the participant is not probed faster than the policy allows.
#[test]
fn a_notice_that_failed_does_not_take_the_place_of_a_new_one() {
    let policy = Policy { probe_after: 1, ..Policy::default() };
    let mut delivery = filled(policy, [answer(1, BANK), answer(2, BANK), answer(3, BANK)]);
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [1, 2, 3]);
    let failed = AttemptResult::Status(500);
    delivery.finished(NoticeId(1), failed, MonotonicTime(0));
    delivery.finished(NoticeId(2), failed, MonotonicTime(0));
    delivery.finished(NoticeId(3), AttemptResult::Status(200), MonotonicTime(0));
    let now = MonotonicTime(1_000_000);
    assert_eq!(delivery.poll(now).map(|attempt| attempt.notice.0), Some(1));
    delivery.finished(NoticeId(1), failed, now);
    let LaneMode::Probing { next } = lane(&delivery, BANK).mode else { panic!("it probes") };
    assert_eq!(drain(&mut delivery, now), [0; 0], "the second one waits for the next probe");
    delivery.enqueue(answer(4, BANK));
    assert_eq!(drain(&mut delivery, now), [4]);
    delivery.finished(NoticeId(4), failed, now);
    assert_eq!(drain(&mut delivery, MonotonicTime(next.0 - 1)), [0; 0]);
    let LaneMode::Probing { next } = lane(&delivery, BANK).mode else { panic!("it probes") };
    assert_eq!(drain(&mut delivery, next), [2], "it has kept its turn");
}

/// Only its lane holds back a notice whose probe was unanswered. It is sent when the lane opens,
/// before the next probe's time.
#[test]
fn an_unanswered_probe_is_repeated_when_its_lane_opens() {
    let policy = Policy { probe_after: 1, ..Policy::default() };
    let mut delivery = filled(policy, [answer(1, BANK), answer(2, BANK)]);
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [1, 2]);
    delivery.finished(NoticeId(1), AttemptResult::TimedOut, MonotonicTime(0));
    delivery.finished(NoticeId(2), AttemptResult::Status(200), MonotonicTime(0));
    let mut now = MonotonicTime(1_000_000);
    assert_eq!(drain(&mut delivery, now), [1]);
    now = again(delivery.finished(NoticeId(1), AttemptResult::TimedOut, now));
    assert_eq!(drain(&mut delivery, now), [1]);
    let next = again(delivery.finished(NoticeId(1), AttemptResult::TimedOut, now));
    assert_eq!(lane(&delivery, BANK).mode, LaneMode::Probing { next });
    delivery.enqueue(answer(3, BANK));
    assert_eq!(drain(&mut delivery, now), [3], "the one that timed out waits");
    delivery.finished(NoticeId(3), AttemptResult::Status(200), now);
    assert_eq!(drain(&mut delivery, now), [1]);
}

/// `Retry-After`: the whole lane is silent for the requested time, up to the longest pause.
#[test]
fn a_requested_pause_is_kept() {
    for (asked, kept) in [(5_000_000, 5_000_000), (u64::MAX, 300_000_000)] {
        let entries = [owed(1, BANK, 1), owed(2, BANK, 2), owed(3, WALLET, 3)];
        let mut delivery = filled(Policy { window: 1, ..Policy::default() }, entries);
        assert_eq!(drain(&mut delivery, MonotonicTime(0)), [1, 3]);
        delivery.pause_asked(BANK, asked, MonotonicTime(10));
        delivery.finished(NoticeId(1), AttemptResult::Status(429), MonotonicTime(10));
        assert_eq!(lane(&delivery, BANK).paused_until, MonotonicTime(10 + kept));
        delivery.enqueue(owed(4, WALLET, 4));
        delivery.finished(NoticeId(3), AttemptResult::Status(200), MonotonicTime(10));
        delivery.recorded(&[NoticeId(3)]);
        assert_eq!(drain(&mut delivery, MonotonicTime(10)), [4], "no other lane waits");
        delivery.finished(NoticeId(4), AttemptResult::Status(200), MonotonicTime(10));
        let until = WaitReason::Until(MonotonicTime(10 + kept));
        assert_eq!(
            delivery.progress(NoticeId(2), MonotonicTime(11)).map(|progress| progress.waits),
            Some(until)
        );
        assert_eq!(drain(&mut delivery, MonotonicTime(9 + kept)), [0; 0]);
        // A shorter pause does not end a longer one.
        delivery.pause_asked(BANK, 0, MonotonicTime(9 + kept));
        assert_eq!(drain(&mut delivery, MonotonicTime(9 + kept)), [0; 0]);
        assert!(delivery.next_deadline() <= Some(MonotonicTime(10 + kept)));
        assert_eq!(drain(&mut delivery, MonotonicTime(10 + kept)), [2]);
    }
}

/// The success of an attempt in flight does not end the pause; a new address does.
#[test]
fn a_requested_pause_outlives_a_success() {
    let mut delivery = filled(Policy::default(), (1..=3).map(|at| owed(at, BANK, at as u8)));
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [1, 2, 3]);
    delivery.pause_asked(BANK, 5_000_000, MonotonicTime(0));
    delivery.finished(NoticeId(1), AttemptResult::Status(503), MonotonicTime(0));
    delivery.finished(NoticeId(2), AttemptResult::Status(200), MonotonicTime(0));
    delivery.enqueue(owed(4, BANK, 4));
    assert_eq!(drain(&mut delivery, MonotonicTime(4_999_999)), [0; 0]);
    delivery.address_changed(BANK, MonotonicTime(4_999_999));
    assert_eq!(drain(&mut delivery, MonotonicTime(4_999_999)), [4, 1]);
}

/// An entry without an address has no slot and no timer, and delays no other entry, not even a
/// later one of its transfer, which may have another endpoint.
#[test]
fn an_entry_without_an_address_is_parked() {
    let policy = Policy { window: 1, probe_after: 1, ..Policy::default() };
    let entries = [owed(1, BANK, 1), owed(2, BANK, 1), answer(3, BANK), owed(4, BANK, 2)];
    let mut delivery = filled(policy, entries);
    for (notice, result) in [
        (1, AttemptResult::NoAddress),
        (3, AttemptResult::NoAddress),
        (2, AttemptResult::Status(200)),
        (4, AttemptResult::NoAddress),
    ] {
        assert_eq!(drain(&mut delivery, MonotonicTime(0)), [notice]);
        let verdict = delivery.finished(NoticeId(notice), result, MonotonicTime(0));
        assert_eq!(word(verdict), if notice == 2 { "delivered" } else { "parked" });
        delivery.recorded(&[NoticeId(notice)]);
    }
    let state = lane(&delivery, BANK);
    assert_eq!((state.parked, state.waiting, state.in_flight, state.unrecorded), (3, 0, 0, 0));
    assert_eq!(delivery.parked().collect::<Vec<_>>(), [1, 3, 4].map(NoticeId));
    assert_eq!((state.mode, state.consecutive_failures), (LaneMode::Open, 0));
    assert_eq!(delivery.next_deadline(), Some(DAY));
    let progress = delivery.progress(NoticeId(1), MonotonicTime(0)).expect("it is owed");
    assert_eq!((progress.attempts, progress.waits), (0, WaitReason::Address));
    assert_eq!(delivery.ended_attempts(NoticeId(1)), [], "that is no attempt");
    assert_eq!(drain(&mut delivery, MonotonicTime(1_000_000_000)), [0; 0]);

    delivery.address_changed(WALLET, MonotonicTime(1_000_000_000));
    assert_eq!(
        drain(&mut delivery, MonotonicTime(1_000_000_000)),
        [0; 0],
        "another node sends these"
    );
    delivery.address_changed(BANK, MonotonicTime(1_000_000_000));
    for notice in [1, 3, 4] {
        assert_eq!(drain(&mut delivery, MonotonicTime(1_000_000_000)), [notice]);
        delivery.finished(
            NoticeId(notice),
            AttemptResult::Status(200),
            MonotonicTime(1_000_000_000),
        );
        delivery.recorded(&[NoticeId(notice)]);
    }
    assert!(delivery.is_empty());
    assert_eq!(delivery.next_deadline(), None);
}

/// An unparked entry precedes later entries of its transfer, whatever these wait for.
#[test]
fn an_unparked_entry_keeps_its_order() {
    let policy = Policy { window: 3, ..Policy::default() };
    let entries = (1..=4).map(|at| owed(at, BANK, 1)).chain([owed(9, WALLET, 1)]);
    let mut delivery = filled(policy, entries);
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [1, 9]);
    delivery.finished(NoticeId(1), AttemptResult::NoAddress, MonotonicTime(0));
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [2]);
    delivery.finished(NoticeId(2), AttemptResult::Status(500), MonotonicTime(0));
    delivery.enqueue(owed(5, BANK, 1));
    delivery.enqueue(owed(6, BANK, 2));
    delivery.address_changed(BANK, MonotonicTime(10));
    assert_eq!(drain(&mut delivery, MonotonicTime(10)), [1, 6]);
    for notice in 1..=5 {
        delivery.finished(NoticeId(notice), AttemptResult::Status(200), MonotonicTime(10));
        delivery.recorded(&[NoticeId(notice)]);
        let next: &[u64] = if notice < 5 { &[notice + 1] } else { &[] };
        assert_eq!(drain(&mut delivery, MonotonicTime(10)), next);
    }
}

/// Only attempts in flight precede it.
#[test]
fn an_unparked_entry_waits_for_attempts_in_flight() {
    let mut delivery = filled(Policy::default(), [owed(1, BANK, 1), owed(2, BANK, 1)]);
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [1]);
    delivery.finished(NoticeId(1), AttemptResult::NoAddress, MonotonicTime(0));
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [2]);
    delivery.address_changed(BANK, MonotonicTime(0));
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [0; 0]);
    delivery.finished(NoticeId(2), AttemptResult::Status(200), MonotonicTime(0));
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [1]);
}

#[test]
fn a_parked_entry_ends_with_its_horizon_or_its_transfer() {
    let entries = [owed(1, BANK, 1), answer(2, BANK), prepare(3, BANK, 3), prepare(4, BANK, 4)];
    let mut delivery = filled(Policy::default(), entries);
    for notice in drain(&mut delivery, MonotonicTime(0)) {
        delivery.finished(NoticeId(notice), AttemptResult::NoAddress, MonotonicTime(0));
    }
    assert_eq!(withdraw(&mut delivery, 4), "withdrawn");
    assert_eq!(lapsed(&mut delivery, MonotonicTime(DAY.0 - 1)), []);
    let ends = lapsed(&mut delivery, DAY);
    assert_eq!(ends, [(1, "dead"), (2, "given up"), (3, "dead")]);
    assert_eq!(lane(&delivery, BANK).parked, 0);
    delivery.recorded(&[1, 2, 3, 4].map(NoticeId));
    assert!(delivery.is_empty());
    // An entry that is parked after its time is given up at once.
    delivery.enqueue(owed(5, BANK, 5));
    assert_eq!(drain(&mut delivery, DAY), [5]);
    let verdict = delivery.finished(NoticeId(5), AttemptResult::NoAddress, DAY);
    let Verdict::Ended(report) = verdict else { panic!("{verdict:?}") };
    assert_eq!((end(&report), report.attempts, report.first_attempt), ("dead", 0, None));
}

/// After a day of silence every waiting entry ends, attempted or not.
#[test]
fn a_dead_lane_is_empty_after_the_horizon() {
    let until = MonotonicTime(60_000_000);
    let entries = (1..=500).map(|at| QueuedNotice { until, ..owed(at, BANK, (at % 100) as u8) });
    let late = QueuedNotice { until, ..patient(501, BANK, 200) };
    let mut delivery = filled(Policy::default(), entries.chain([late]));
    let mut ended = Vec::new();
    let mut now = MonotonicTime(0);
    while !delivery.is_empty() {
        for notice in drain(&mut delivery, now) {
            let verdict = delivery.finished(NoticeId(notice), AttemptResult::TimedOut, now);
            if let Verdict::Ended(report) = verdict {
                ended.push(report);
            }
        }
        ended.extend(std::iter::from_fn(|| delivery.next_lapsed()));
        let record: Vec<_> = ended.iter().map(|report| report.notice).collect();
        delivery.recorded(&record);
        now = delivery.next_deadline().unwrap_or(now);
        assert!(now < MonotonicTime(150_000_000), "it ends in time");
    }
    assert_eq!(ended.len(), 501);
    assert!(ended.iter().all(|report| end(report) == "dead"));
    let state = lane(&delivery, BANK);
    assert_eq!((state.waiting, state.backing_off, state.spilled, state.bytes), (0, 0, 0, 0));
}

/// After a wrong address is corrected, its failures delay nothing.
#[test]
fn a_changed_address_ends_all_pauses_at_once() {
    let policy = Policy { probe_after: 2, ..Policy::default() };
    let mut delivery = filled(policy, (0..4).map(|notice| owed(notice, BANK, notice as u8)));
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [0, 1, 2, 3]);
    for notice in 0..4 {
        delivery.finished(NoticeId(notice), AttemptResult::ConnectFailed, MonotonicTime(10));
    }
    assert!(matches!(lane(&delivery, BANK).mode, LaneMode::Probing { .. }));
    assert_eq!(drain(&mut delivery, MonotonicTime(20)), []);
    delivery.address_changed(WALLET, MonotonicTime(20));
    assert_eq!(drain(&mut delivery, MonotonicTime(20)), [], "another node sends these");
    delivery.address_changed(BANK, MonotonicTime(30));
    let mut sent = drain(&mut delivery, MonotonicTime(30));
    sent.sort_unstable();
    assert_eq!(sent, [0, 1, 2, 3]);
    assert_eq!(lane(&delivery, BANK).mode, LaneMode::Open);
}

/// The failure of a probe of the old address has no effect on the new one.
#[test]
fn a_probe_of_an_old_address_does_not_affect_the_new_one() {
    let policy = Policy { probe_after: 2, ..Policy::default() };
    let mut delivery = filled(policy, (0..4).map(|notice| owed(notice, BANK, notice as u8)));
    for notice in drain(&mut delivery, MonotonicTime(0)) {
        delivery.finished(NoticeId(notice), AttemptResult::ConnectFailed, MonotonicTime(10));
    }
    let later = MonotonicTime(10_000_000);
    let probe = delivery.poll(later).expect("a probe is due");
    delivery.address_changed(BANK, later);
    for notice in drain(&mut delivery, later) {
        delivery.finished(NoticeId(notice), AttemptResult::ConnectFailed, later);
    }
    let learned = lane(&delivery, BANK).mode;
    assert!(matches!(learned, LaneMode::Probing { .. }), "the new one does not answer either");
    delivery.finished(probe.notice, AttemptResult::ConnectFailed, MonotonicTime(10_000_001));
    assert_eq!(lane(&delivery, BANK).mode, learned);
}

#[test]
fn answers_between_failures_keep_a_lane_open() {
    let mut delivery = Delivery::new(Policy::default(), 1);
    for round in 0..10u64 {
        for (step, result) in NO_ANSWER.into_iter().chain([AttemptResult::Status(400)]).enumerate()
        {
            let notice = round * 4 + step as u64;
            delivery.enqueue(owed(notice, BANK, notice as u8));
            assert_eq!(drain(&mut delivery, MonotonicTime(0)), [notice]);
            delivery.finished(NoticeId(notice), result, MonotonicTime(0));
        }
        assert_eq!(lane(&delivery, BANK).mode, LaneMode::Open);
    }
}

#[test]
fn a_dead_lane_does_not_delay_another() {
    let mut delivery = Delivery::new(Policy::default(), 1);
    let mut next = 1u64;
    for step in 0..2_000 {
        let now = MonotonicTime(step * 1_000);
        delivery.enqueue(owed(next, BANK, next as u8));
        delivery.enqueue(owed(next + 1, WALLET, next as u8));
        let sent: Vec<_> = std::iter::from_fn(|| delivery.poll(now)).collect();
        assert!(
            sent.iter().any(|attempt| attempt.notice.0 == next + 1),
            "the other lane's notice goes at once, step {step}"
        );
        for attempt in sent {
            let alive = attempt.recipient == WALLET;
            let result = if alive { AttemptResult::Status(200) } else { AttemptResult::TimedOut };
            delivery.finished(attempt.notice, result, now);
            delivery.recorded(&[attempt.notice]);
        }
        next += 2;
    }
    assert!(1_900 < lane(&delivery, BANK).waiting);
    assert_eq!(lane(&delivery, WALLET).waiting, 0);
}

#[test]
fn one_entry_that_always_fails_does_not_keep_a_lane_closed() {
    let policy = Policy { probe_after: 2, ..Policy::default() };
    let mut delivery = filled(policy, [owed(1, BANK, 1), owed(2, BANK, 2)]);
    for notice in drain(&mut delivery, MonotonicTime(0)) {
        delivery.finished(NoticeId(notice), AttemptResult::TimedOut, MonotonicTime(0));
    }
    delivery.enqueue(owed(3, BANK, 3));
    let LaneMode::Probing { next } = lane(&delivery, BANK).mode else { panic!("two failures") };
    assert_eq!(drain(&mut delivery, next), [3], "the probe is the entry that has not failed");
}

#[test]
fn a_clock_that_runs_back_loses_no_wake_up() {
    let policy = Policy { probe_after: 1, ..Policy::default() };
    let mut delivery = filled(policy, [owed(1, BANK, 1), owed(2, BANK, 2)]);
    assert_eq!(drain(&mut delivery, MonotonicTime(50)), [1, 2]);
    delivery.finished(NoticeId(1), AttemptResult::TimedOut, MonotonicTime(50));
    delivery.enqueue(owed(3, BANK, 3));
    let LaneMode::Probing { next } = lane(&delivery, BANK).mode else { panic!("a failure") };
    assert!(delivery.poll(next).is_none(), "an earlier attempt is still in flight");
    delivery.finished(NoticeId(2), AttemptResult::TimedOut, MonotonicTime(0));
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [3], "the probe's time has come before");
}

#[test]
#[should_panic(expected = "a result belongs to an attempt in flight")]
fn a_second_result_of_one_attempt_is_a_broken_invariant() {
    let mut delivery = filled(Policy::default(), [owed(1, BANK, 1)]);
    delivery.poll(MonotonicTime(0)).expect("one attempt");
    delivery.finished(NoticeId(1), AttemptResult::Status(200), MonotonicTime(0));
    delivery.finished(NoticeId(1), AttemptResult::Status(200), MonotonicTime(0));
}

/// When a lane is lost, in whatever stage its entries are, nothing more is sent. Attempts in flight
/// end, and the lane can be gained again.
#[test]
fn a_lost_lane_sends_nothing() {
    let policy = Policy { window: 2, ..Policy::default() };
    let entries = [owed(1, BANK, 1), owed(2, BANK, 1), owed(3, BANK, 2), owed(4, BANK, 3)];
    let mut delivery = filled(policy, entries);
    delivery.enqueue(owed(5, WALLET, 4));
    let begun: Vec<_> = drain(&mut delivery, MonotonicTime(0));
    assert_eq!(begun, [1, 5, 3], "2 waits for 1, 4 for room");
    delivery.finished(NoticeId(1), AttemptResult::TimedOut, MonotonicTime(0));
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [4]);
    // 1 waits for its time, 2 for 1; 3 and 4 are in flight.
    delivery.lose_lanes(&[BANK]);
    let verdict = delivery.finished(NoticeId(3), AttemptResult::TimedOut, MonotonicTime(0));
    assert_eq!(verdict, Verdict::LaneLost);
    let verdict = delivery.finished(NoticeId(4), AttemptResult::Status(200), MonotonicTime(0));
    assert_eq!(word(verdict), "delivered");
    assert_eq!(drain(&mut delivery, MonotonicTime(60_000_000)), [0; 0]);
    assert_eq!(delivery.next_lapsed(), None);
    delivery.recorded(&[NoticeId(4)]);
    let left = lane(&delivery, BANK);
    assert_eq!((left.waiting, left.backing_off, left.in_flight, left.unrecorded), (0, 0, 0, 0));
    assert_eq!((left.bytes, left.spilled), (0, 0));

    delivery.gain_lanes(&[BANK]);
    assert_eq!(delivery.enqueue(owed(1, BANK, 1)), Enqueued::Held);
    delivery.enqueue(owed(2, BANK, 1));
    delivery.delivered_elsewhere(&[NoticeId(1), NoticeId(99)]);
    assert_eq!(drain(&mut delivery, MonotonicTime(60_000_000)), [2], "1 is dropped, and 2 may go");
}

#[test]
fn faulty_policies_are_named() {
    let good = Policy::default();
    for (policy, expected) in [
        (good.clone(), None),
        (Policy { window: 0, ..good.clone() }, Some("window")),
        (Policy { horizon_micros: 0, ..good.clone() }, Some("horizon")),
        (Policy { probe_max_micros: 0, ..good.clone() }, Some("probe_max")),
        (Policy { probe_after: 0, ..good.clone() }, Some("probe_after")),
        (Policy { backoff_base_micros: 0, ..good.clone() }, Some("backoff_base")),
        (Policy { backoff_max_micros: 1, ..good.clone() }, Some("backoff_max")),
    ] {
        let named = policy.fault().and_then(|fault| fault.split(' ').next());
        assert_eq!(named, expected, "{policy:?}");
    }
}

#[test]
fn progress_is_reported_at_each_step() {
    let policy = Policy { window: 2, probe_after: 1, ..Policy::default() };
    let two_of_one = [owed(1, BANK, 1), owed(2, BANK, 1), owed(3, BANK, 2), owed(4, BANK, 3)];
    let mut delivery = filled(policy, two_of_one);
    let progress = |delivery: &Delivery<u64>, notice, now| {
        let progress = delivery.progress(NoticeId(notice), MonotonicTime(now))?;
        let DeliveryProgress { attempts, first_attempt, last, waits } = progress;
        Some((attempts, first_attempt.map(|moment| moment.0), last, waits))
    };
    assert_eq!(progress(&delivery, 1, 0), Some((0, None, None, WaitReason::Turn)));
    assert_eq!(progress(&delivery, 2, 0), Some((0, None, None, WaitReason::Earlier)));
    assert_eq!(drain(&mut delivery, MonotonicTime(10)), [1, 3]);
    assert_eq!(progress(&delivery, 1, 10), Some((1, Some(10), None, WaitReason::Result)));
    assert_eq!(progress(&delivery, 4, 10), Some((0, None, None, WaitReason::Turn)), "no room");
    let failed = AttemptResult::Status(500);
    let retry_at = again(delivery.finished(NoticeId(1), failed, MonotonicTime(20)));
    let paused = (1, Some(10), Some(failed), WaitReason::Until(retry_at));
    assert_eq!(progress(&delivery, 1, 20), Some(paused));
    // A silent recipient holds up all of its entries, including the first failed one.
    let broken = AttemptResult::Broken;
    delivery.finished(NoticeId(3), broken, MonotonicTime(30));
    let LaneMode::Probing { next } = lane(&delivery, BANK).mode else { panic!("it probes") };
    assert_eq!(progress(&delivery, 4, 30), Some((0, None, None, WaitReason::Until(next))));
    let Some((1, Some(10), Some(last), WaitReason::Until(_))) = progress(&delivery, 3, 30) else {
        panic!("it is tried again")
    };
    assert_eq!(last, broken);
    assert_eq!(drain(&mut delivery, next), [4]);
    delivery.finished(NoticeId(4), AttemptResult::Status(200), next);
    let (attempts, _, last, waits) = progress(&delivery, 4, next.0).expect("not on record yet");
    assert_eq!((attempts, last, waits), (1, Some(AttemptResult::Status(200)), WaitReason::Record));
    delivery.recorded(&[NoticeId(4)]);
    assert_eq!(progress(&delivery, 4, next.0), None);
    assert_eq!(progress(&delivery, 9, next.0), None);
}

fn patient(notice: u64, recipient: ParticipantIndex, about: u8) -> QueuedNotice<u64> {
    QueuedNotice { purpose: NoticePriority::Patient, ..owed(notice, recipient, about) }
}

#[test]
fn patient_entries_follow_others_and_few_are_in_flight() {
    let policy = Policy { patient_max: 2, patient_micros: 1_000, ..Policy::default() };
    let late = (0..40).map(|at| patient(at, BANK, at as u8));
    let mut delivery = filled(policy, late);
    assert_eq!(delivery.enqueue(owed(90, BANK, 90)), Enqueued::Held);
    assert_eq!(
        drain(&mut delivery, MonotonicTime(0)),
        [90, 0, 1],
        "an awaited notice is sent first"
    );
    delivery.finished(NoticeId(0), AttemptResult::Status(200), MonotonicTime(10));
    assert_eq!(drain(&mut delivery, MonotonicTime(10)), [2], "an end makes room for one");
    assert_eq!(delivery.next_deadline(), Some(MonotonicTime(1_000)));
    assert_eq!(
        drain(&mut delivery, MonotonicTime(1_000)),
        [3],
        "so does a missing answer after some time"
    );
}

#[test]
fn patient_entries_leave_half_of_the_window_to_others() {
    let policy = Policy { window: 4, patient_max: 8, ..Policy::default() };
    let late = (0..10).map(|at| patient(at, BANK, at as u8));
    let mut delivery = filled(policy, late);
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [0, 1]);
    let others = (20..30).map(|at| owed(at, BANK, at as u8));
    others.for_each(|entry| assert_eq!(delivery.enqueue(entry), Enqueued::Held));
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [20, 21]);
}

#[test]
fn a_silent_recipient_delays_patient_entries_of_others_only_briefly() {
    let policy = Policy { patient_max: 1, patient_micros: 500, ..Policy::default() };
    let mut delivery = filled(policy, [patient(1, BANK, 1), patient(2, WALLET, 2)]);
    assert_eq!(drain(&mut delivery, MonotonicTime(0)), [1]);
    assert_eq!(drain(&mut delivery, MonotonicTime(499)), [0; 0]);
    assert_eq!(drain(&mut delivery, MonotonicTime(500)), [2]);
}

#[test]
fn patient_entries_are_dropped_with_their_lane() {
    let late = (0..40).map(|at| patient(at, BANK, at as u8));
    let mut delivery = filled(Policy::default(), late);
    assert_eq!(
        drain(&mut delivery, MonotonicTime(0)).len(),
        Policy::default().patient_max as usize
    );
    delivery.lose_lanes(&[BANK]);
    assert_eq!(
        delivery.finished(NoticeId(0), AttemptResult::TimedOut, MonotonicTime(0)),
        Verdict::LaneLost
    );
    assert_eq!(drain(&mut delivery, MonotonicTime(60_000_000)), [0; 0]);
    delivery.gain_lanes(&[BANK]);
    assert_eq!(delivery.enqueue(patient(90, BANK, 90)), Enqueued::Held);
    assert_eq!(drain(&mut delivery, MonotonicTime(60_000_000)), [90]);
}
