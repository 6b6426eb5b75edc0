//! The state machine over all lanes of a thread.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque, btree_map};

use ledger::{NoticeId, ParticipantIndex, TransferId};
use ports::Net;

use crate::lane::{Lane, LaneMode, LaneState, LaneWork};
use crate::notice::{
    Attempt, AttemptResult, Consequence, Course, Enqueued, Entry, Purpose, Report, Tried, Verdict,
    Waits, Withdrawal,
};
use crate::policy::{Jitter, Moment, Policy};
use crate::slab::{Held, LaneAt, Slab, Slot, Stage};

/// The lanes of one I/O thread. `M` is a cheap handle on a message, cloned per attempt.
#[derive(Debug)]
pub struct Delivery<M> {
    policy: Policy,
    jitter: Jitter,
    /// The latest moment seen: time never runs backwards in here.
    now: Moment,
    entries: Slab<M>,
    /// Trees, like that of the transfers: a table that grows moves all of its entries at once.
    by_notice: BTreeMap<NoticeId, Slot>,
    /// The last unfinished entry of each transfer in each lane.
    tails: BTreeMap<(LaneAt, TransferId), Slot>,
    lanes: Vec<Lane>,
    lane_of: BTreeMap<ParticipantIndex, LaneAt>,
    /// Lanes that may have something to send, polled in turn.
    runnable: VecDeque<LaneAt>,
    /// Lanes that may have a patient entry to send, polled in turn when no other may.
    runnable_patient: VecDeque<LaneAt>,
    /// Patient attempts that hold back others, and until when.
    patient: VecDeque<(Moment, NoticeId)>,
    timers: BinaryHeap<Reverse<(Moment, Timer)>>,
    starved_lanes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// An entry's pause is over.
    Retry(Slot),
    /// A probing lane may send again. Stale ones, of a lane opened since, do no harm.
    Probe(LaneAt),
}

impl<M: Clone> Delivery<M> {
    /// No lanes yet; they appear with their first entry. The seed feeds the jitter.
    ///
    /// # Panics
    /// When [`Policy::fault`] finds one: whoever reads a configuration checks it first.
    #[must_use]
    pub fn new(policy: Policy, seed: u64) -> Self {
        assert_eq!(policy.fault(), None, "the policy was checked where it was read");
        Self {
            policy,
            jitter: Jitter::new(seed),
            now: Moment::default(),
            entries: Slab::new(),
            by_notice: BTreeMap::new(),
            tails: BTreeMap::new(),
            lanes: Vec::new(),
            lane_of: BTreeMap::new(),
            runnable: VecDeque::new(),
            runnable_patient: VecDeque::new(),
            patient: VecDeque::new(),
            timers: BinaryHeap::new(),
            starved_lanes: 0,
        }
    }

    /// Queues a notice. It is never refused; beyond the lane's bytes its message is dropped.
    pub fn enqueue(&mut self, entry: Entry<M>) -> Enqueued {
        if self.by_notice.contains_key(&entry.notice) {
            return Enqueued::Repeated;
        }
        let lane = self.lane_at(entry.recipient);
        let (notice, transfer) = (entry.notice, entry.transfer);
        let (slot, enqueued) = self.hold(lane, entry);
        self.by_notice.insert(notice, slot);
        self.lanes[lane.0 as usize].state.waiting += 1;
        match self.tails.insert((lane, transfer), slot) {
            Some(earlier) => {
                self.entries[earlier].after = Some(slot);
                self.entries[slot].before = Some(earlier);
            }
            None => {
                self.line_up(slot, Stage::Fresh);
                self.refresh(lane);
            }
        }
        enqueued
    }

    /// Starts every attempt that can be made at `now`. To be called after every other call and at
    /// [`Delivery::next_deadline`].
    pub fn send_due(&mut self, now: Moment, net: &mut impl Net<Attempt = Attempt<M>>) {
        while let Some(attempt) = self.poll(now) {
            net.send(attempt);
        }
    }

    /// The next attempt to make, or `None` when nothing can be sent at `now`. To be called until
    /// `None` after every other call and at [`Delivery::next_deadline`]. Lanes take turns, and
    /// patient entries go when no others can.
    pub fn poll(&mut self, now: Moment) -> Option<Attempt<M>> {
        self.advance(now);
        self.poll_hurried().or_else(|| self.poll_patient())
    }

    fn poll_hurried(&mut self) -> Option<Attempt<M>> {
        while let Some(lane) = self.runnable.pop_front() {
            self.lanes[lane.0 as usize].queued = false;
            if self.lanes[lane.0 as usize].may_send_at(&self.policy, self.now) {
                let slot = self.next_hurried(lane);
                return Some(self.attempt(lane, slot));
            }
        }
        None
    }

    fn poll_patient(&mut self) -> Option<Attempt<M>> {
        while self.patient.len() < self.policy.patient_max as usize {
            let lane = self.runnable_patient.pop_front()?;
            let at = &mut self.lanes[lane.0 as usize];
            at.queued_patient = false;
            if at.may_send_patient_at(&self.policy, self.now) {
                let slot = at.patient.pop(&mut self.entries);
                let slot = slot.expect("a lane that may send a patient entry has one");
                let until = self.now.after_micros(self.policy.patient_micros);
                self.patient.push_back((until, self.entries[slot].notice));
                return Some(self.attempt(lane, slot));
            }
        }
        None
    }

    /// Takes the result of an attempt and decides what follows. A report must be recorded; its
    /// window slot is free only after [`Delivery::recorded`].
    ///
    /// # Panics
    /// When no attempt of this notice is under way: each attempt has exactly one result.
    pub fn finished(&mut self, notice: NoticeId, result: AttemptResult, now: Moment) -> Verdict {
        self.now = self.now.max(now);
        let slot = *self.by_notice.get(&notice).expect("a result belongs to a known notice");
        let Held { stage, lane, attempts, .. } = self.entries[slot];
        assert!(
            matches!(stage, Stage::InFlight | Stage::Probe),
            "a result belongs to an attempt under way, {notice:?} is {stage:?}"
        );
        self.entries[slot].last = Some(result);
        self.lanes[lane.0 as usize].state.in_flight -= 1;
        self.lanes[lane.0 as usize].results += 1;
        self.patient.retain(|(_, other)| *other != notice);
        let consequence = result.consequence();
        let state = &mut self.lanes[lane.0 as usize].state;
        state.last = Some(result);
        state.delivered += u64::from(consequence == Consequence::Deliver);
        if consequence != Consequence::Wait && (consequence != Consequence::Deliver || 1 < attempts)
        {
            self.entries[slot].note_tried(self.now, result);
        }
        match consequence {
            Consequence::Wait => {
                self.entries[slot].attempts -= 1;
                self.entries[slot].unsent = self.entries[slot].unsent.saturating_add(1);
            }
            _ => {
                self.entries[slot].unsent = 0;
                self.note_health(lane, result);
            }
        }
        let verdict = match consequence {
            Consequence::Deliver => Verdict::Delivered(self.conclude(slot, result)),
            Consequence::Retry | Consequence::Wait if self.lanes[lane.0 as usize].left => {
                self.delay_probe(slot);
                self.forget(slot);
                Verdict::Left
            }
            // The entry alone waits: its lane was not answered, and goes on with others.
            Consequence::Wait => Verdict::RetryAt(self.back_off(slot, self.entries[slot].unsent)),
            Consequence::Retry if attempts < self.policy.attempts_max => {
                Verdict::RetryAt(self.pause(slot))
            }
            Consequence::Retry => {
                self.delay_probe(slot);
                Verdict::Dead(self.conclude(slot, result))
            }
            Consequence::GiveUp => Verdict::Dead(self.conclude(slot, result)),
        };
        self.refresh(lane);
        verdict
    }

    /// Frees the window slots of deliveries whose reports are durable. Ids that are not waiting
    /// for it (withdrawn, or of an earlier run) are passed over.
    pub fn recorded(&mut self, notices: &[NoticeId]) {
        for notice in notices {
            let btree_map::Entry::Occupied(found) = self.by_notice.entry(*notice) else { continue };
            let slot = *found.get();
            if self.entries[slot].stage != Stage::Unrecorded {
                continue;
            }
            found.remove();
            let lane = self.entries[slot].lane;
            self.entries.release(slot);
            self.lanes[lane.0 as usize].state.unrecorded -= 1;
            self.refresh(lane);
        }
    }

    /// Drops a prepare that was never attempted, because its transfer is final.
    pub fn withdraw(&mut self, notice: NoticeId) -> Withdrawal {
        let Some(&slot) = self.by_notice.get(&notice) else { return Withdrawal::Unknown };
        let Held { stage, lane, purpose, attempts, .. } = self.entries[slot];
        let ended = matches!(stage, Stage::InFlight | Stage::Probe | Stage::Unrecorded);
        if purpose != Purpose::Prepare || ended || 0 < attempts {
            return Withdrawal::Kept;
        }
        self.drop_all(&[slot]);
        self.refresh(lane);
        Withdrawal::Dropped
    }

    /// Another node sends to these participants from now on: whatever waits is dropped, and what
    /// is under way is not tried again. Costs a pass over all entries of all lanes.
    pub fn leave(&mut self, recipients: &[ParticipantIndex]) {
        let lanes: Vec<_> =
            recipients.iter().filter_map(|one| self.lane_of.get(one)).copied().collect();
        lanes.iter().for_each(|lane| self.lanes[lane.0 as usize].left = true);
        let is_left = |slot: &Slot| lanes.contains(&self.entries[*slot].lane);
        let mut slots: Vec<_> = self.by_notice.values().copied().filter(is_left).collect();
        // In an order of their own, whatever that of the table is.
        slots.sort_unstable();
        self.drop_all(&slots);
        lanes.into_iter().for_each(|lane| self.refresh(lane));
    }

    /// This node sends to these participants from now on.
    pub fn take(&mut self, recipients: &[ParticipantIndex]) {
        for recipient in recipients {
            if let Some(lane) = self.lane_of.get(recipient) {
                self.lanes[lane.0 as usize].left = false;
            }
        }
    }

    /// Another node has delivered these: those that wait are dropped. Ids that are not known are
    /// passed over.
    pub fn delivered_elsewhere(&mut self, notices: &[NoticeId]) {
        let known = notices.iter().filter_map(|notice| self.by_notice.get(notice));
        let slots: Vec<_> = known.copied().collect();
        self.drop_all(&slots);
        for slot in slots {
            let lane = self.entries[slot].lane;
            self.refresh(lane);
        }
    }

    /// The participant is reached elsewhere from now on: what was learned about the old address
    /// counts no more. Its pauses end and its lane opens; attempts made are kept. Costs a pass
    /// over all entries of all lanes, so it is for changes by people.
    pub fn address_changed(&mut self, recipient: ParticipantIndex, now: Moment) {
        self.now = self.now.max(now);
        let Some(&at) = self.lane_of.get(&recipient) else { return };
        let state = &mut self.lanes[at.0 as usize].state;
        (state.consecutive_failures, state.mode) = (0, LaneMode::Open);
        let due = self.now;
        let timers = std::mem::take(&mut self.timers).into_vec();
        let hurried = timers.into_iter().map(|Reverse((moment, timer))| {
            let own = matches!(timer, Timer::Retry(slot) if self.entries[slot].lane == at);
            Reverse((if own { moment.min(due) } else { moment }, timer))
        });
        self.timers = hurried.collect();
        for slot in self.by_notice.values() {
            let held = &mut self.entries[*slot];
            // A probe of the old address says nothing about a lane that probes the new one.
            if held.lane == at && held.stage == Stage::Probe {
                held.stage = Stage::InFlight;
            }
        }
        self.refresh(at);
    }

    /// When [`Delivery::poll`] must be called again though nothing else happens.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        let timer = self.timers.peek().map(|Reverse((moment, _))| *moment);
        let held_back = (!self.runnable_patient.is_empty()).then(|| self.patient.front());
        let room = held_back.flatten().map(|(until, _)| *until);
        timer.into_iter().chain(room).min()
    }

    /// Whether some lane has entries to send but no window, at least half of which is unrecorded
    /// deliveries: the driver then makes its reports durable without waiting for company.
    #[must_use]
    pub fn starved(&self) -> bool {
        0 < self.starved_lanes
    }

    /// Whether nothing is left: every notice ended and is recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_notice.is_empty()
    }

    /// How far a notice is at `now`; `None` once it is done with, or was never queued.
    #[must_use]
    pub fn course(&self, notice: NoticeId, now: Moment) -> Option<Course> {
        let held = &self.entries[*self.by_notice.get(&notice)?];
        let waits = match (held.stage, self.lanes[held.lane.0 as usize].state.mode) {
            (Stage::Vacant, _) => return None,
            (Stage::Blocked, _) => Waits::Earlier,
            (Stage::InFlight | Stage::Probe, _) => Waits::Result,
            (Stage::BackingOff, _) => Waits::Until(held.pause_end),
            (Stage::Unrecorded, _) => Waits::Record,
            (Stage::Fresh | Stage::Resumed, LaneMode::Probing { next }) if now < next => {
                Waits::Until(next)
            }
            (Stage::Fresh | Stage::Resumed, _) => Waits::Turn,
        };
        let first_attempt = (0 < held.attempts).then_some(held.first_attempt);
        Some(Course { attempts: held.attempts, first_attempt, last: held.last, waits })
    }

    /// The attempts of a notice that have ended, oldest first: the newest [`crate::TRIED_MAX`]
    /// since this machine began. None of one that the first attempt delivered, and none once its
    /// end is recorded.
    pub fn tried(&self, notice: NoticeId) -> &[Tried] {
        self.by_notice.get(&notice).map_or(&[], |slot| &self.entries[*slot].tried)
    }

    /// Every lane that ever had an entry, in order of first use.
    pub fn lane_states(&self) -> impl Iterator<Item = LaneState> + '_ {
        self.lanes.iter().map(|lane| lane.state)
    }

    /// What each lane has to do at `now`, in the order of [`Delivery::lane_states`]. Whoever calls
    /// [`Delivery::poll`] as it asks for finds no lane with an attempt due for longer than that
    /// takes.
    pub fn work(&self, now: Moment) -> impl Iterator<Item = LaneWork> + '_ {
        let now = self.now.max(now);
        self.lanes.iter().map(move |lane| lane.work(&self.policy, now))
    }

    fn lane_at(&mut self, recipient: ParticipantIndex) -> LaneAt {
        *self.lane_of.entry(recipient).or_insert_with(|| {
            let at = u32::try_from(self.lanes.len()).expect("fewer lanes than participants");
            self.lanes.push(Lane::new(recipient));
            LaneAt(at)
        })
    }

    fn hold(&mut self, lane: LaneAt, entry: Entry<M>) -> (Slot, Enqueued) {
        let state = &mut self.lanes[lane.0 as usize].state;
        let bytes = state.bytes + u64::from(entry.bytes);
        let message = entry.message.filter(|_| bytes <= self.policy.bytes_max);
        let enqueued = if message.is_some() {
            state.bytes = bytes;
            Enqueued::Held
        } else {
            state.spilled += 1;
            Enqueued::Spilled
        };
        let slot = self.entries.insert(Held {
            notice: entry.notice,
            transfer: entry.transfer,
            lane,
            purpose: entry.purpose,
            stage: Stage::Blocked,
            bytes: entry.bytes,
            attempts: 0,
            unsent: 0,
            first_attempt: Moment::default(),
            began: Moment::default(),
            tried: Vec::new(),
            last: None,
            pause_end: Moment::default(),
            message,
            before: None,
            after: None,
            previous: None,
            next: None,
        });
        (slot, enqueued)
    }

    /// Moves on to `now` and acts on the timers that are due.
    fn advance(&mut self, now: Moment) {
        self.now = self.now.max(now);
        while self.patient.front().is_some_and(|(until, _)| *until <= self.now) {
            self.patient.pop_front();
        }
        while let Some(Reverse((moment, timer))) = self.timers.peek().copied() {
            if self.now < moment {
                break;
            }
            self.timers.pop();
            match timer {
                Timer::Probe(lane) => self.refresh(lane),
                Timer::Retry(slot) => {
                    assert_eq!(self.entries[slot].stage, Stage::BackingOff, "one timer per pause");
                    let lane = self.entries[slot].lane;
                    self.lanes[lane.0 as usize].state.backing_off -= 1;
                    self.lanes[lane.0 as usize].state.waiting += 1;
                    self.resume(slot);
                    self.refresh(lane);
                }
            }
        }
    }

    fn next_hurried(&mut self, at: LaneAt) -> Slot {
        let lane = &mut self.lanes[at.0 as usize];
        let slot = if lane.state.mode == LaneMode::Open {
            lane.resumed.pop(&mut self.entries).or_else(|| lane.fresh.pop(&mut self.entries))
        } else {
            // Entries that failed come last, so that one the recipient cannot digest does not
            // keep a lane shut that would open for any other.
            lane.fresh.pop(&mut self.entries).or_else(|| lane.resumed.pop(&mut self.entries))
        };
        slot.expect("a lane that may send has an entry to send")
    }

    fn attempt(&mut self, at: LaneAt, slot: Slot) -> Attempt<M> {
        let lane = &mut self.lanes[at.0 as usize];
        lane.state.waiting -= 1;
        lane.state.in_flight += 1;
        assert!(
            lane.state.in_flight + lane.state.unrecorded <= self.policy.window,
            "a lane stays within its window"
        );
        let held = &mut self.entries[slot];
        held.stage = if lane.state.mode == LaneMode::Open { Stage::InFlight } else { Stage::Probe };
        if held.attempts == 0 {
            held.first_attempt = self.now;
        }
        held.began = self.now;
        held.attempts += 1;
        let attempt = Attempt {
            notice: held.notice,
            recipient: lane.state.recipient,
            transfer: held.transfer,
            number: held.attempts,
            message: held.message.clone(),
        };
        self.refresh(at);
        attempt
    }

    /// Any HTTP answer shows that someone lives there and opens the lane; enough results in a
    /// row without one close it.
    fn note_health(&mut self, at: LaneAt, result: AttemptResult) {
        let state = &mut self.lanes[at.0 as usize].state;
        if result.status().is_some() {
            state.consecutive_failures = 0;
            state.mode = LaneMode::Open;
            return;
        }
        state.consecutive_failures = state.consecutive_failures.saturating_add(1);
        if state.mode == LaneMode::Open && self.policy.probe_after <= state.consecutive_failures {
            self.lanes[at.0 as usize].probes_failed = 0;
            self.arm_probe(at);
        }
    }

    /// Sets the time of an entry's next attempt. A failed probe queues behind the others and is
    /// held back by its lane alone; any other entry has its own timer.
    fn pause(&mut self, slot: Slot) -> Moment {
        if let Some(next) = self.delay_probe(slot) {
            self.lanes[self.entries[slot].lane.0 as usize].state.waiting += 1;
            self.resume(slot);
            return next;
        }
        self.back_off(slot, self.entries[slot].attempts)
    }

    /// Sets an entry's timer, after so many failures of one kind.
    fn back_off(&mut self, slot: Slot, failures: u32) -> Moment {
        let retry_at =
            self.now.after_micros(self.policy.backoff_micros(failures, &mut self.jitter));
        self.entries[slot].stage = Stage::BackingOff;
        self.entries[slot].pause_end = retry_at;
        self.lanes[self.entries[slot].lane.0 as usize].state.backing_off += 1;
        self.timers.push(Reverse((retry_at, Timer::Retry(slot))));
        retry_at
    }

    /// When `slot` was the probe of a lane that still probes: sets and returns the time of the
    /// next one.
    fn delay_probe(&mut self, slot: Slot) -> Option<Moment> {
        let lane = self.entries[slot].lane;
        let open = self.lanes[lane.0 as usize].state.mode == LaneMode::Open;
        if open || self.entries[slot].stage != Stage::Probe {
            return None;
        }
        Some(self.arm_probe(lane))
    }

    /// The pauses between probes grow with the lane's failures, not with those of whichever
    /// entry is sent.
    fn arm_probe(&mut self, at: LaneAt) -> Moment {
        let lane = &mut self.lanes[at.0 as usize];
        lane.probes_failed = lane.probes_failed.saturating_add(1);
        let pause = self.policy.backoff_micros(lane.probes_failed, &mut self.jitter);
        let next = self.now.after_micros(pause);
        lane.state.mode = LaneMode::Probing { next };
        self.timers.push(Reverse((next, Timer::Probe(at))));
        next
    }

    /// Ends a delivery: its successor may go, its slot stays taken until the report is durable.
    fn conclude(&mut self, slot: Slot, last: AttemptResult) -> Report {
        self.drop_message(slot);
        self.unchain(slot);
        let held = &mut self.entries[slot];
        held.stage = Stage::Unrecorded;
        let state = &mut self.lanes[held.lane.0 as usize].state;
        state.unrecorded += 1;
        Report {
            notice: held.notice,
            recipient: state.recipient,
            transfer: held.transfer,
            attempts: held.attempts,
            last,
            first_attempt: held.first_attempt,
            finished: self.now,
        }
    }

    /// Drops those of the entries for which no attempt is under way or has ended.
    fn drop_all(&mut self, slots: &[Slot]) {
        let entries = &self.entries;
        let is_paused = |slot: &Slot| entries[*slot].stage == Stage::BackingOff;
        let paused: Vec<_> = slots.iter().copied().filter(is_paused).collect();
        if !paused.is_empty() {
            self.timers.retain(
                |Reverse((_, timer))| !matches!(timer, Timer::Retry(slot) if paused.contains(slot)),
            );
        }
        for slot in slots {
            let is_waiting = matches!(
                self.entries[*slot].stage,
                Stage::Blocked | Stage::Fresh | Stage::Resumed | Stage::BackingOff
            );
            if is_waiting {
                self.drop_waiting(*slot);
            }
        }
    }

    /// Takes an entry that waits out of its lane.
    fn drop_waiting(&mut self, slot: Slot) {
        let Held { stage, lane, purpose, .. } = self.entries[slot];
        let at = &mut self.lanes[lane.0 as usize];
        if let Some(list) = at.list(stage, purpose) {
            list.remove(&mut self.entries, slot);
        }
        match stage {
            Stage::BackingOff => at.state.backing_off -= 1,
            _ => at.state.waiting -= 1,
        }
        self.forget(slot);
    }

    /// Lets go of an entry that is in no list and has no timer.
    fn forget(&mut self, slot: Slot) {
        self.drop_message(slot);
        self.unchain(slot);
        let notice = self.entries[slot].notice;
        self.by_notice.remove(&notice);
        self.entries.release(slot);
    }

    fn drop_message(&mut self, slot: Slot) {
        let held = &mut self.entries[slot];
        let state = &mut self.lanes[held.lane.0 as usize].state;
        match held.message.take() {
            Some(_) => state.bytes -= u64::from(held.bytes),
            None => state.spilled -= 1,
        }
    }

    /// Takes an entry out of its transfer's chain and lets the next one go if it was the first.
    fn unchain(&mut self, slot: Slot) {
        let Held { lane, transfer, before, after, .. } = self.entries[slot];
        (self.entries[slot].before, self.entries[slot].after) = (None, None);
        if let Some(before) = before {
            self.entries[before].after = after;
        }
        match (before, after) {
            (None, None) => {
                self.tails.remove(&(lane, transfer));
            }
            (Some(before), None) => {
                self.tails.insert((lane, transfer), before);
            }
            (before, Some(after)) => {
                assert_eq!(self.entries[after].stage, Stage::Blocked, "only the first may go");
                self.entries[after].before = before;
                if before.is_none() {
                    self.resume(after);
                }
            }
        }
    }

    fn resume(&mut self, slot: Slot) {
        self.line_up(slot, Stage::Resumed);
    }

    /// Puts an entry into the list of those that can be sent.
    fn line_up(&mut self, slot: Slot, stage: Stage) {
        let Held { lane, purpose, .. } = self.entries[slot];
        self.entries[slot].stage = stage;
        let list = self.lanes[lane.0 as usize].list(stage, purpose);
        list.expect("what can be sent is in a list").push(&mut self.entries, slot);
    }

    /// After any change of a lane: queues it when it may send, and counts it when starved.
    fn refresh(&mut self, at: LaneAt) {
        let lane = &mut self.lanes[at.0 as usize];
        if !lane.queued && lane.can_send(&self.policy) {
            lane.queued = true;
            self.runnable.push_back(at);
        }
        if !lane.queued_patient && lane.can_send_patient(&self.policy) {
            lane.queued_patient = true;
            self.runnable_patient.push_back(at);
        }
        let starved = lane.is_starved(&self.policy);
        match (lane.starved, starved) {
            (false, true) => self.starved_lanes += 1,
            (true, false) => self.starved_lanes -= 1,
            (true, true) | (false, false) => (),
        }
        lane.starved = starved;
    }
}
