//! The state machine over all lanes of a thread.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque, btree_map};

use ledger::{DeliveryResult, NoticeId, ParticipantIndex, TransferId};

use crate::lane::{Lane, LaneMode, LaneProgress, LaneState};
use crate::notice::{
    Attempt, AttemptResult, Consequence, DeliveryProgress, DeliveryReport, EndedAttempt, Enqueued,
    NoticePriority, QueuedNotice, Verdict, WaitReason, Withdrawal,
};
use crate::policy::{Jitter, MonotonicTime, Policy};
use crate::slab::{EntryStage, LaneIndex, Slab, SlabEntry, Slot};

/// The lanes of one I/O thread. `M` is a cheap handle on a message, cloned per attempt.
#[derive(Debug)]
pub struct Delivery<M> {
    policy: Policy,
    jitter: Jitter,
    /// The latest time seen. Time never runs backwards here.
    now: MonotonicTime,
    entries: Slab<M>,
    /// Trees here and in `tails`: a growing hash table moves all its entries at once.
    by_notice: BTreeMap<NoticeId, Slot>,
    /// The last unfinished entry of each transfer in each lane.
    tails: BTreeMap<(LaneIndex, TransferId), Slot>,
    lanes: Vec<Lane>,
    lane_of: BTreeMap<ParticipantIndex, LaneIndex>,
    /// Lanes that may have something to send, polled in turn.
    runnable: VecDeque<LaneIndex>,
    /// Lanes that may have a patient entry to send, polled in turn when no other may.
    runnable_patient: VecDeque<LaneIndex>,
    /// Patient attempts that hold back others, with the time until which they do.
    patient: VecDeque<(MonotonicTime, NoticeId)>,
    timers: BinaryHeap<Reverse<(MonotonicTime, Timer)>>,
    /// Entries with a failure or without an address, by the time at which they are given up.
    horizons: BTreeSet<(MonotonicTime, Slot)>,
    /// Deliveries that were given up because their time was over, in order.
    lapsed: VecDeque<DeliveryReport>,
    starved_lanes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// An entry's pause is over.
    Retry(Slot),
    /// A probing or paused lane may send again. A stale timer, of a lane that has opened since, is
    /// harmless.
    Probe(LaneIndex),
}

impl<M: Clone> Delivery<M> {
    /// Starts without lanes. A lane is added with its first entry. The seed feeds the jitter.
    ///
    /// # Panics
    /// If [`Policy::fault`] finds a fault: the reader of the configuration must check it first.
    #[must_use]
    pub fn new(policy: Policy, seed: u64) -> Self {
        assert_eq!(policy.fault(), None, "the reader of the configuration checks the policy");
        Self {
            policy,
            jitter: Jitter::new(seed),
            now: MonotonicTime::default(),
            entries: Slab::new(),
            by_notice: BTreeMap::new(),
            tails: BTreeMap::new(),
            lanes: Vec::new(),
            lane_of: BTreeMap::new(),
            runnable: VecDeque::new(),
            runnable_patient: VecDeque::new(),
            patient: VecDeque::new(),
            timers: BinaryHeap::new(),
            horizons: BTreeSet::new(),
            lapsed: VecDeque::new(),
            starved_lanes: 0,
        }
    }

    /// Queues a notice. A notice is never refused. If the lane's bytes are used up, its message is
    /// dropped.
    pub fn enqueue(&mut self, entry: QueuedNotice<M>) -> Enqueued {
        if self.by_notice.contains_key(&entry.notice) {
            return Enqueued::Repeated;
        }
        let lane = self.lane_at(entry.recipient);
        let notice = entry.notice;
        let (slot, enqueued) = self.insert_entry(lane, entry);
        self.by_notice.insert(notice, slot);
        self.lanes[lane.0 as usize].state.waiting += 1;
        self.join(slot);
        self.refresh(lane);
        enqueued
    }

    /// The next attempt to make, or `None` if nothing can be sent at `now`. Call it until `None`
    /// after every other call and at [`Delivery::next_deadline`]. Lanes take turns, and patient
    /// entries are sent when no others can be.
    pub fn poll(&mut self, now: MonotonicTime) -> Option<Attempt<M>> {
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

    /// The next delivery that has ended because its time was over, without an attempt in flight. It
    /// must be recorded. Call it until `None` after [`Delivery::poll`].
    pub fn next_lapsed(&mut self) -> Option<DeliveryReport> {
        self.lapsed.pop_front()
    }

    /// Takes the result of an attempt and decides what follows. A report must be recorded; its
    /// window slot is free only after [`Delivery::recorded`].
    ///
    /// # Panics
    /// If no attempt of this notice is in flight: each attempt has exactly one result.
    pub fn finished(
        &mut self,
        notice: NoticeId,
        result: AttemptResult,
        now: MonotonicTime,
    ) -> Verdict {
        self.now = self.now.max(now);
        let slot = *self.by_notice.get(&notice).expect("a result belongs to a known notice");
        let SlabEntry { stage, lane, .. } = self.entries[slot];
        assert!(
            matches!(stage, EntryStage::InFlight | EntryStage::Probe),
            "a result belongs to an attempt in flight, {notice:?} is {stage:?}"
        );
        self.lanes[lane.0 as usize].state.in_flight -= 1;
        self.lanes[lane.0 as usize].results += 1;
        self.patient.retain(|(_, other)| *other != notice);
        self.record_result(slot, result);
        let verdict = match result.consequence() {
            Consequence::Deliver => Verdict::Ended(self.conclude(slot, DeliveryResult::Delivered)),
            Consequence::GiveUp => Verdict::Ended(self.conclude(slot, self.loss(slot))),
            _ if self.lanes[lane.0 as usize].lost => {
                self.delay_probe(slot);
                self.forget(slot);
                Verdict::LaneLost
            }
            Consequence::Retry => self.after_failure(slot),
            Consequence::Wait | Consequence::Park if self.entries[slot].unwanted => {
                Verdict::Ended(self.lapse(slot))
            }
            // Only the entry waits. Its recipient was not reached, and the lane continues with
            // other entries.
            Consequence::Wait => {
                let pause = self.policy.backoff_micros(self.entries[slot].unsent, &mut self.jitter);
                Verdict::RetryAt(self.back_off(slot, self.now.after_micros(pause)))
            }
            Consequence::Park => self.park(slot),
        };
        self.refresh(lane);
        verdict
    }

    /// The recipient asked for a pause (`Retry-After`). Its lane sends nothing for that time, at
    /// most for the longest pause.
    pub fn pause_asked(&mut self, recipient: ParticipantIndex, micros: u64, now: MonotonicTime) {
        self.now = self.now.max(now);
        let at = self.lane_at(recipient);
        let until = self.now.after_micros(micros.min(self.policy.backoff_max_micros));
        let state = &mut self.lanes[at.0 as usize].state;
        if state.paused_until < until {
            state.paused_until = until;
            self.timers.push(Reverse((until, Timer::Probe(at))));
        }
    }

    /// Frees the window slots of deliveries whose reports are durable. Other ids, such as those of
    /// an earlier run, are ignored.
    pub fn recorded(&mut self, notices: &[NoticeId]) {
        for notice in notices {
            let btree_map::Entry::Occupied(found) = self.by_notice.entry(*notice) else { continue };
            let slot = *found.get();
            let SlabEntry { stage, lane, .. } = self.entries[slot];
            if !matches!(stage, EntryStage::Unrecorded | EntryStage::Lapsed) {
                continue;
            }
            found.remove();
            self.entries.release(slot);
            let unrecorded = &mut self.lanes[lane.0 as usize].state.unrecorded;
            *unrecorded -= u32::from(stage == EntryStage::Unrecorded);
            self.refresh(lane);
        }
    }

    /// The transfer of a prepare is final: it is not sent, or not sent again. One that was
    /// attempted may have reached its recipient, which is notified of the end like any other.
    pub fn withdraw(&mut self, notice: NoticeId) -> Withdrawal {
        let Some(&slot) = self.by_notice.get(&notice) else { return Withdrawal::Unknown };
        let SlabEntry { stage, lane, purpose, .. } = self.entries[slot];
        if purpose != NoticePriority::Prepare {
            return Withdrawal::Kept;
        }
        self.entries[slot].unwanted = true;
        if !stage.waits() {
            return Withdrawal::Kept;
        }
        self.stop_timers(&[slot]);
        self.leave_list(slot);
        let report = self.lapse(slot);
        self.refresh(lane);
        Withdrawal::Ended(report)
    }

    /// Another node sends to these participants from now on. Waiting entries are dropped, and
    /// attempts in flight are not retried. Costs a pass over all entries of all lanes.
    pub fn lose_lanes(&mut self, recipients: &[ParticipantIndex]) {
        let lanes: Vec<_> =
            recipients.iter().filter_map(|one| self.lane_of.get(one)).copied().collect();
        lanes.iter().for_each(|lane| self.lanes[lane.0 as usize].lost = true);
        let is_lost = |slot: &Slot| lanes.contains(&self.entries[*slot].lane);
        let mut slots: Vec<_> = self.by_notice.values().copied().filter(is_lost).collect();
        // The order of slots does not depend on that of the table.
        slots.sort_unstable();
        self.drop_all(&slots);
        lanes.into_iter().for_each(|lane| self.refresh(lane));
    }

    /// This node sends to these participants from now on.
    pub fn gain_lanes(&mut self, recipients: &[ParticipantIndex]) {
        for recipient in recipients {
            if let Some(lane) = self.lane_of.get(recipient) {
                self.lanes[lane.0 as usize].lost = false;
            }
        }
    }

    /// Another node has delivered these notices. Waiting ones are dropped; unknown ids are ignored.
    pub fn delivered_elsewhere(&mut self, notices: &[NoticeId]) {
        let known = notices.iter().filter_map(|notice| self.by_notice.get(notice));
        let slots: Vec<_> = known.copied().collect();
        self.drop_all(&slots);
        for slot in slots {
            let lane = self.entries[slot].lane;
            self.refresh(lane);
        }
    }

    /// The participant has a new address, or its first one. Failures at the old address no longer
    /// count: its pauses end, its lane opens, and parked entries are queued again. Attempts made
    /// are kept. Costs a pass over all entries of all lanes, so it is meant for changes by people.
    pub fn address_changed(&mut self, recipient: ParticipantIndex, now: MonotonicTime) {
        self.now = self.now.max(now);
        let Some(&at) = self.lane_of.get(&recipient) else { return };
        self.lanes[at.0 as usize].open();
        self.lanes[at.0 as usize].state.paused_until = MonotonicTime::default();
        // In the order of their ids, which is the order within a transfer.
        let own: Vec<_> = self.by_notice.values().copied().collect();
        let own = own.into_iter().filter(|slot| self.entries[*slot].lane == at);
        let (waiting, others): (Vec<_>, Vec<_>) =
            own.partition(|slot| self.entries[*slot].stage.waits());
        self.stop_timers(&waiting);
        for slot in &waiting {
            self.leave_list(*slot);
            self.unchain(*slot);
        }
        for slot in others {
            // A probe of the old address has no effect on a lane that probes the new one.
            let stage = &mut self.entries[slot].stage;
            if *stage == EntryStage::Probe {
                *stage = EntryStage::InFlight;
            }
        }
        self.lanes[at.0 as usize].state.waiting += waiting.len() as u32;
        waiting.into_iter().for_each(|slot| self.join(slot));
        self.refresh(at);
    }

    /// Time of the next call of [`Delivery::poll`] if nothing else happens before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<MonotonicTime> {
        let timer = self.timers.peek().map(|Reverse((moment, _))| *moment);
        let held_back = (!self.runnable_patient.is_empty()).then(|| self.patient.front());
        let room = held_back.flatten().map(|(until, _)| *until);
        let horizon = self.horizons.first().map(|(until, _)| *until);
        let lapsed = (!self.lapsed.is_empty()).then_some(self.now);
        timer.into_iter().chain(room).chain(horizon).chain(lapsed).min()
    }

    /// Whether a lane has entries to send but a full window, at least half of it unrecorded
    /// deliveries. The driver then makes its reports durable at once.
    #[must_use]
    pub fn starved(&self) -> bool {
        0 < self.starved_lanes
    }

    /// Whether nothing is left: every notice ended and is recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_notice.is_empty()
    }

    /// The progress of a notice at `now`; `None` if it was recorded or never queued.
    #[must_use]
    pub fn progress(&self, notice: NoticeId, now: MonotonicTime) -> Option<DeliveryProgress> {
        let entry = &self.entries[*self.by_notice.get(&notice)?];
        let lane = &self.lanes[entry.lane.0 as usize];
        let waits = match entry.stage {
            EntryStage::Vacant => return None,
            EntryStage::Blocked => WaitReason::Earlier,
            EntryStage::InFlight | EntryStage::Probe => WaitReason::Result,
            EntryStage::BackingOff => WaitReason::Until(entry.pause_end),
            EntryStage::Parked => WaitReason::Address,
            EntryStage::Unrecorded | EntryStage::Lapsed => WaitReason::Record,
            EntryStage::Fresh | EntryStage::Resumed => lane.turn_at(now),
        };
        let first_attempt = (0 < entry.attempts).then_some(entry.first_attempt);
        Some(DeliveryProgress { attempts: entry.attempts, first_attempt, last: entry.last, waits })
    }

    /// The ended attempts of a notice, oldest first: the newest [`crate::ENDED_ATTEMPTS_MAX`] since
    /// this object was created. Empty if the first attempt delivered the notice, and once its end
    /// is recorded.
    pub fn ended_attempts(&self, notice: NoticeId) -> &[EndedAttempt] {
        self.by_notice.get(&notice).map_or(&[], |slot| &self.entries[*slot].ended_attempts)
    }

    /// The notices that wait for an address, ordered by id. Costs a pass over all entries.
    pub fn parked(&self) -> impl Iterator<Item = NoticeId> + '_ {
        let is_parked = |slot: Slot| self.entries[slot].stage == EntryStage::Parked;
        self.by_notice.iter().filter(move |(_, slot)| is_parked(**slot)).map(|(notice, _)| *notice)
    }

    /// Every lane that ever had an entry, in order of first use.
    pub fn lane_states(&self) -> impl Iterator<Item = LaneState> + '_ {
        self.lanes.iter().map(|lane| lane.state)
    }

    /// The due action of each lane at `now`, in the order of [`Delivery::lane_states`]. With timely
    /// calls of [`Delivery::poll`], no lane has an attempt due for longer than such a call takes.
    pub fn work(&self, now: MonotonicTime) -> impl Iterator<Item = LaneProgress> + '_ {
        let now = self.now.max(now);
        self.lanes.iter().map(move |lane| lane.work(&self.policy, now))
    }

    fn lane_at(&mut self, recipient: ParticipantIndex) -> LaneIndex {
        *self.lane_of.entry(recipient).or_insert_with(|| {
            let at = u32::try_from(self.lanes.len()).expect("fewer lanes than participants");
            self.lanes.push(Lane::new(recipient));
            LaneIndex(at)
        })
    }

    fn insert_entry(&mut self, lane: LaneIndex, entry: QueuedNotice<M>) -> (Slot, Enqueued) {
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
        let slot = self.entries.insert(SlabEntry {
            notice: entry.notice,
            transfer: entry.transfer,
            lane,
            purpose: entry.purpose,
            stage: EntryStage::Blocked,
            bytes: entry.bytes,
            attempts: 0,
            unsent: 0,
            until: entry.until,
            watched: false,
            unwanted: false,
            first_attempt: MonotonicTime::default(),
            began: MonotonicTime::default(),
            ended_attempts: Vec::new(),
            last: None,
            pause_end: MonotonicTime::default(),
            reserved_at: entry.reserved_at,
            message,
            before: None,
            after: None,
            previous: None,
            next: None,
        });
        (slot, enqueued)
    }

    /// Advances the time to `now` and handles due timers.
    fn advance(&mut self, now: MonotonicTime) {
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
                    assert_eq!(
                        self.entries[slot].stage,
                        EntryStage::BackingOff,
                        "one timer per pause"
                    );
                    let lane = self.entries[slot].lane;
                    self.lanes[lane.0 as usize].state.backing_off -= 1;
                    self.lanes[lane.0 as usize].state.waiting += 1;
                    self.resume(slot);
                    self.refresh(lane);
                }
            }
        }
        self.lapse_due();
    }

    /// Gives up waiting entries whose time is over. An entry whose message cannot be read is kept,
    /// because that is not the recipient's fault.
    fn lapse_due(&mut self) {
        while let Some((_, slot)) = self.horizons.first().filter(|(until, _)| *until <= self.now) {
            let slot = *slot;
            self.unwatch(slot);
            let SlabEntry { stage, lane, last, .. } = self.entries[slot];
            if stage.waits()
                && stage != EntryStage::BackingOff
                && last != Some(AttemptResult::Unsent)
            {
                self.lapse_waiting(slot);
                self.refresh(lane);
            }
        }
    }

    /// The same for entries of a lane that were never attempted. They are in the order in which
    /// they became owed.
    fn lapse_fresh(&mut self, at: LaneIndex) {
        while let Some(slot) = self.lanes[at.0 as usize].fresh.first()
            && self.entries[slot].until <= self.now
        {
            self.lapse_waiting(slot);
        }
    }

    fn lapse_waiting(&mut self, slot: Slot) {
        self.leave_list(slot);
        let report = self.lapse(slot);
        self.lapsed.push_back(report);
    }

    /// Takes the next entry out of its list. Before the time of the next probe that is a new entry,
    /// which does not count as a turn.
    fn next_hurried(&mut self, at: LaneIndex) -> Slot {
        let lane = &mut self.lanes[at.0 as usize];
        let in_turn = lane.probe_is_due(self.now);
        let slot = if in_turn && lane.takes_turns() && lane.resumed_next {
            lane.resumed.pop(&mut self.entries).or_else(|| lane.fresh.pop(&mut self.entries))
        } else {
            lane.fresh.pop(&mut self.entries).or_else(|| lane.resumed.pop(&mut self.entries))
        };
        lane.resumed_next ^= in_turn;
        slot.expect("a lane that may send has an entry to send")
    }

    fn attempt(&mut self, at: LaneIndex, slot: Slot) -> Attempt<M> {
        let lane = &mut self.lanes[at.0 as usize];
        lane.state.waiting -= 1;
        lane.state.in_flight += 1;
        assert!(
            lane.state.in_flight + lane.state.unrecorded <= self.policy.window,
            "a lane stays within its window"
        );
        let entry = &mut self.entries[slot];
        entry.stage = if lane.state.mode == LaneMode::Open {
            EntryStage::InFlight
        } else {
            EntryStage::Probe
        };
        if entry.attempts == 0 {
            entry.first_attempt = self.now;
        }
        entry.began = self.now;
        entry.attempts += 1;
        let attempt = Attempt {
            notice: entry.notice,
            recipient: lane.state.recipient,
            transfer: entry.transfer,
            number: entry.attempts,
            reserved_at: entry.reserved_at,
            message: entry.message.clone(),
        };
        self.refresh(at);
        attempt
    }

    /// Records the result of an attempt and its effect on the lane. A delivery or a final refusal
    /// opens the lane; consecutive failures of enough different notices close it. If nothing was
    /// sent, it does not count as an attempt.
    fn record_result(&mut self, slot: Slot, result: AttemptResult) {
        let consequence = result.consequence();
        let entry = &mut self.entries[slot];
        let (notice, at) = (entry.notice, entry.lane);
        entry.last = Some(result);
        let state = &mut self.lanes[at.0 as usize].state;
        state.last = Some(result);
        state.delivered += u64::from(consequence == Consequence::Deliver);
        entry.unsent = match consequence {
            Consequence::Wait => entry.unsent.saturating_add(1),
            _ => 0,
        };
        match consequence {
            Consequence::Wait | Consequence::Park => return entry.attempts -= 1,
            Consequence::Deliver if entry.attempts == 1 => (),
            _ => entry.add_ended_attempt(self.now, result),
        }
        let new = entry.attempts == 1;
        let lane = &mut self.lanes[at.0 as usize];
        if consequence != Consequence::Retry {
            return lane.open();
        }
        lane.new_failed |= new;
        lane.answers = result.status().is_some();
        if lane.note_failure(notice, &self.policy) {
            lane.probes_failed = 0;
            self.arm_probe(at);
            self.watch_all(at);
        }
    }

    /// A lane is no longer open: its waiting entries may run out of time. Entries that were never
    /// attempted need no watching, see [`Self::lapse_fresh`].
    fn watch_all(&mut self, at: LaneIndex) {
        let lane = &self.lanes[at.0 as usize];
        for first in [lane.resumed.first(), lane.patient.first()] {
            let mut next = first;
            while let Some(slot) = next {
                self.watch(slot);
                next = self.entries[slot].next;
            }
        }
    }

    /// Schedules another attempt, unless it would be too late or is no longer needed.
    fn after_failure(&mut self, slot: Slot) -> Verdict {
        let SlabEntry { lane, attempts, until, unwanted, .. } = self.entries[slot];
        let probe = self.delay_probe(slot);
        let own = self.now.after_micros(self.policy.backoff_micros(attempts, &mut self.jitter));
        // An entry that is refused has its own pause. After silence the failed probe is queued
        // after the other entries, and only its lane holds it back.
        let probe = probe.filter(|_| !self.lanes[lane.0 as usize].answers);
        let again = probe.unwrap_or(own);
        if unwanted || until <= again {
            return Verdict::Ended(self.conclude(slot, self.loss(slot)));
        }
        if probe.is_none() {
            return Verdict::RetryAt(self.back_off(slot, own));
        }
        self.lanes[lane.0 as usize].state.waiting += 1;
        self.resume(slot);
        Verdict::RetryAt(again)
    }

    /// Sets an entry's timer.
    fn back_off(&mut self, slot: Slot, until: MonotonicTime) -> MonotonicTime {
        self.entries[slot].stage = EntryStage::BackingOff;
        self.entries[slot].pause_end = until;
        self.lanes[self.entries[slot].lane.0 as usize].state.backing_off += 1;
        self.timers.push(Reverse((until, Timer::Retry(slot))));
        until
    }

    /// Parks an entry without an address. It delays nothing else.
    fn park(&mut self, slot: Slot) -> Verdict {
        let SlabEntry { lane, until, .. } = self.entries[slot];
        if until <= self.now {
            return Verdict::Ended(self.lapse(slot));
        }
        self.unchain(slot);
        self.entries[slot].stage = EntryStage::Parked;
        self.lanes[lane.0 as usize].state.parked += 1;
        self.watch(slot);
        Verdict::Parked
    }

    /// Gives the entry up at its time from now on, even if it only waits.
    fn watch(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot];
        if !entry.watched {
            entry.watched = true;
            self.horizons.insert((entry.until, slot));
        }
    }

    fn unwatch(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot];
        if std::mem::take(&mut entry.watched) {
            self.horizons.remove(&(entry.until, slot));
        }
    }

    /// The result of an undelivered entry. Responses to registrations and prepares of final
    /// transfers do not become dead letters.
    fn loss(&self, slot: Slot) -> DeliveryResult {
        let entry = &self.entries[slot];
        match entry.transfer {
            Some(_) if !entry.unwanted => DeliveryResult::Dead,
            _ => DeliveryResult::GivenUp,
        }
    }

    /// If `slot` was the probe of a lane that still probes, sets and returns the time of the next
    /// one.
    fn delay_probe(&mut self, slot: Slot) -> Option<MonotonicTime> {
        let lane = self.entries[slot].lane;
        let open = self.lanes[lane.0 as usize].state.mode == LaneMode::Open;
        if open || self.entries[slot].stage != EntryStage::Probe {
            return None;
        }
        Some(self.arm_probe(lane))
    }

    /// Pauses between probes grow with the failures of the lane, not with those of the entry sent.
    fn arm_probe(&mut self, at: LaneIndex) -> MonotonicTime {
        let lane = &mut self.lanes[at.0 as usize];
        lane.probes_failed = lane.probes_failed.saturating_add(1);
        let pause = self.policy.probe_micros(lane.probes_failed, lane.answers, &mut self.jitter);
        let next = self.now.after_micros(pause);
        lane.state.mode = LaneMode::Probing { next };
        self.timers.push(Reverse((next, Timer::Probe(at))));
        self.lapse_fresh(at);
        next
    }

    /// Ends a delivery with its attempt. Its successor may be sent; its window slot stays taken
    /// until the report is durable.
    fn conclude(&mut self, slot: Slot, result: DeliveryResult) -> DeliveryReport {
        let report = self.end(slot, result);
        let entry = &mut self.entries[slot];
        entry.stage = EntryStage::Unrecorded;
        self.lanes[entry.lane.0 as usize].state.unrecorded += 1;
        report
    }

    /// Ends a delivery without an attempt in flight. It has no window slot.
    fn lapse(&mut self, slot: Slot) -> DeliveryReport {
        let SlabEntry { attempts, unwanted, .. } = self.entries[slot];
        let result = match unwanted && attempts == 0 {
            true => DeliveryResult::Withdrawn,
            false => self.loss(slot),
        };
        let report = self.end(slot, result);
        self.entries[slot].stage = EntryStage::Lapsed;
        report
    }

    fn end(&mut self, slot: Slot, result: DeliveryResult) -> DeliveryReport {
        self.drop_message(slot);
        self.unchain(slot);
        self.unwatch(slot);
        let entry = &self.entries[slot];
        DeliveryReport {
            notice: entry.notice,
            recipient: self.lanes[entry.lane.0 as usize].state.recipient,
            transfer: entry.transfer,
            result,
            attempts: entry.attempts,
            last: entry.last,
            first_attempt: (0 < entry.attempts).then_some(entry.first_attempt),
            finished: self.now,
        }
    }

    /// Ends the pauses of those entries that have one.
    fn stop_timers(&mut self, slots: &[Slot]) {
        let entries = &self.entries;
        let is_paused = |slot: &Slot| entries[*slot].stage == EntryStage::BackingOff;
        let paused: BTreeSet<_> = slots.iter().copied().filter(is_paused).collect();
        if !paused.is_empty() {
            self.timers.retain(
                |Reverse((_, timer))| !matches!(timer, Timer::Retry(slot) if paused.contains(slot)),
            );
        }
    }

    /// Drops the waiting entries among these.
    fn drop_all(&mut self, slots: &[Slot]) {
        self.stop_timers(slots);
        for slot in slots {
            if self.entries[*slot].stage.waits() {
                self.leave_list(*slot);
                self.forget(*slot);
            }
        }
    }

    /// Removes a waiting entry from its list and from the lane's counts.
    fn leave_list(&mut self, slot: Slot) {
        let SlabEntry { stage, lane, purpose, .. } = self.entries[slot];
        let at = &mut self.lanes[lane.0 as usize];
        if let Some(list) = at.list(stage, purpose) {
            list.remove(&mut self.entries, slot);
        }
        match stage {
            EntryStage::BackingOff => at.state.backing_off -= 1,
            EntryStage::Parked => at.state.parked -= 1,
            _ => at.state.waiting -= 1,
        }
        self.entries[slot].stage = EntryStage::Blocked;
    }

    /// Removes an entry that is in no list and has no timer.
    fn forget(&mut self, slot: Slot) {
        self.drop_message(slot);
        self.unchain(slot);
        self.unwatch(slot);
        let notice = self.entries[slot].notice;
        self.by_notice.remove(&notice);
        self.entries.release(slot);
    }

    fn drop_message(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot];
        let state = &mut self.lanes[entry.lane.0 as usize].state;
        match entry.message.take() {
            Some(_) => state.bytes -= u64::from(entry.bytes),
            None => state.spilled -= 1,
        }
    }

    /// Queues an entry after earlier ones of its transfer, or makes it sendable.
    fn join(&mut self, slot: Slot) {
        let SlabEntry { lane, transfer, last, .. } = self.entries[slot];
        let earlier = transfer.and_then(|transfer| self.tails.insert((lane, transfer), slot));
        match earlier {
            Some(earlier) => {
                self.entries[earlier].after = Some(slot);
                self.entries[slot].before = Some(earlier);
                self.entries[slot].stage = EntryStage::Blocked;
            }
            None if last.is_none() => self.make_sendable(slot, EntryStage::Fresh),
            None => self.resume(slot),
        }
    }

    /// Removes an entry from its transfer's chain, and makes the next one sendable if it was the
    /// first.
    fn unchain(&mut self, slot: Slot) {
        let SlabEntry { lane, transfer, before, after, .. } = self.entries[slot];
        (self.entries[slot].before, self.entries[slot].after) = (None, None);
        if let Some(before) = before {
            self.entries[before].after = after;
        }
        if let Some(after) = after {
            assert_eq!(self.entries[after].stage, EntryStage::Blocked, "only the first may go");
            self.entries[after].before = before;
            if before.is_none() {
                self.resume(after);
            }
            return;
        }
        let Some(transfer) = transfer else { return };
        let is_last = self.tails.get(&(lane, transfer)) == Some(&slot);
        match before {
            Some(before) => drop(self.tails.insert((lane, transfer), before)),
            None if is_last => drop(self.tails.remove(&(lane, transfer))),
            // It left its chain earlier, when it was parked.
            None => {}
        }
    }

    /// Makes an entry sendable after its pause or its predecessor.
    fn resume(&mut self, slot: Slot) {
        self.make_sendable(slot, EntryStage::Resumed);
        if 0 < self.entries[slot].attempts {
            self.watch(slot);
        }
    }

    /// Adds an entry to the list of those that can be sent.
    fn make_sendable(&mut self, slot: Slot, stage: EntryStage) {
        let SlabEntry { lane, purpose, .. } = self.entries[slot];
        self.entries[slot].stage = stage;
        let list = self.lanes[lane.0 as usize].list(stage, purpose);
        list.expect("a sendable entry is in a list").push(&mut self.entries, slot);
        // In an open lane it is attempted, even if its time is over.
        let is_open = self.lanes[lane.0 as usize].state.mode == LaneMode::Open;
        if !is_open && (stage == EntryStage::Resumed || purpose == NoticePriority::Patient) {
            self.watch(slot);
        }
    }

    /// Updates the queues and the starved count after any change of a lane.
    fn refresh(&mut self, at: LaneIndex) {
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
