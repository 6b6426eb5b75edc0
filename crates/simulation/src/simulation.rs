//! One run: the hub, its disk, the FSPs, the operator and the faults, in virtual time.
//!
//! # Phases
//! 1. Onboarding: the operator makes accounts, participants, limits and funds, one at a time.
//! 2. Chaos: payers make transfers at the plan's pace; faults happen all the while.
//! 3. Calm: no more faults. Whoever does not know how a transfer ended keeps asking. Within a
//!    bounded time everything must have ended, and everybody must agree.
//! 4. The process ends and starts once more: the log alone must give the same state.
//!
//! In every fourth run snapshots are taken beside the log, and each start that finds one goes on
//! from it; the log alone is read as well, and must give the same.

use std::sync::Arc;

use journal::{FileLog, MemoryDisk, OpenError, Options as LogOptions, Verify};
use ledger::{Command, Digest, FspName, Genesis, LogIndex, State, TransferId};
use node::latency_trace::{LatencyTrace, TracedLog};
use ports::{ColdStore, Log};
use record::frame::LogIdentity;
use sequencer::{ColdTier, Quarantine, ReplayError, ReplayStart, Sequencer, is_of_log};
use snapshots::{FrozenState, NewestSnapshot, WriteError, keep, newest, unpaced};

use crate::Options;
use crate::archive::{Archiver, HubDisk};
use crate::env::{CallbackBehaviour, SimEnv};
use crate::event::{Event, HubEvent};
use crate::external_view::ExternalView;
use crate::faults::FaultSchedule;
use crate::faulty_store::FaultyStore;
use crate::hub::{Hub, HubSequencer, Stopped};
use crate::parameters::{Parameters, SECOND};
use crate::random::{Random, mix, spread16};
use crate::reduction::{Kind, Reduction};
use crate::report::Tally;
use crate::transfers::{Actors, Draw, MessageVariant, Request, TransferPlan, administer};
use crate::workload_currencies::CurrencyWorkload;
use crate::workload_fsp::{PAUSE_MAX_US, Parties};
use crate::workload_operator::OperatorWorkload;
use crate::workload_outcomes::OutcomeWorkload;
use crate::workload_registry::RegistryWorkload;

/// How long after the last deadline, pause or time-out everything must be at rest.
const REST_MARGIN_US: u64 = 60 * SECOND;
/// Snapshots that are tried in the time of the faults, on average.
const SNAPSHOTS: u64 = 6;
/// Notices that one transfer causes after the faults stopped, resends included.
const NOTICES_PER_TRANSFER: u64 = 16;

pub(crate) struct SimulationRun {
    pub(crate) desk: SimEnv,
    pub(crate) cast: Actors,
    pub(crate) scripts: Vec<TransferPlan>,
    pub(crate) parties: Vec<Parties>,
    pub(crate) operator: OperatorWorkload,
    pub(crate) clerk: RegistryWorkload,
    pub(crate) examiner: OutcomeWorkload,
    pub(crate) treasurer: CurrencyWorkload,
    pub(crate) without: Reduction,
    pub(crate) archiver: Archiver,
    pub(crate) disk: MemoryDisk,
    /// The disk as the process that runs, or ran last, sees it.
    pub(crate) tiers: Option<HubDisk>,
    pub(crate) shelf: FaultyStore,
    pub(crate) hub: Option<Hub>,
    pub(crate) witness: ExternalView,
    pub(crate) lives: u32,
    pub(crate) fuses: FaultSchedule,
    pub(crate) final_hash: Digest,
    pub(crate) seed: u64,
    transfers: u32,
    calm_since: u64,
    /// Notices that may have to be delivered after the faults stopped.
    backlog: u64,
    finished: bool,
}

impl SimulationRun {
    pub(crate) fn new(seed: u64, options: &Options) -> Self {
        let mut random = Random::new(mix(seed));
        let mut plan = Parameters::draw(&mut random, options.transfers);
        options.without.bend(&mut plan);
        let cast = Actors::new(random.next(), &plan);
        let disk = MemoryDisk::new(random.next());
        let manners = vec![CallbackBehaviour::Fine; usize::from(plan.fsps)];
        let window = plan.policy.window;
        let desk = SimEnv {
            now: 0,
            random,
            queue: Default::default(),
            plan,
            calm: false,
            manners,
            skew_us: 0,
            slow_until: 0,
            slow_us: 0,
            tally: Tally::default(),
            tries: Default::default(),
            outcomes: vec![0; OUTCOMES],
            changed: Default::default(),
            trace: seed,
            verbose: options.verbose,
        };
        let mut clerk = RegistryWorkload::new(seed, desk.plan.chaos_us);
        if options.without.kinds.contains(&Kind::Clerk) {
            clerk.visits.leave();
        }
        let mut examiner = OutcomeWorkload::new(seed, desk.plan.chaos_us);
        if options.without.kinds.contains(&Kind::Examiner) {
            examiner.visits.leave();
        }
        let mut treasurer = CurrencyWorkload::new(seed, desk.plan.chaos_us);
        if options.without.kinds.contains(&Kind::Treasurer) {
            treasurer.visits.leave();
        }
        Self {
            operator: OperatorWorkload::new(&cast),
            clerk,
            examiner,
            treasurer,
            without: options.without.clone(),
            desk,
            cast,
            scripts: Vec::new(),
            parties: Vec::new(),
            archiver: Archiver::new(seed),
            disk,
            tiers: None,
            shelf: FaultyStore::new(mix(seed ^ 3)),
            hub: None,
            witness: ExternalView::new(window),
            lives: 0,
            fuses: FaultSchedule::default(),
            final_hash: Digest::default(),
            seed,
            transfers: options.transfers,
            calm_since: 0,
            backlog: 0,
            finished: false,
        }
    }

    /// Runs to rest. Panics where something is wrong.
    pub(crate) fn run(&mut self) {
        self.desk.after(0, Event::Start);
        self.desk.after(0, Event::Operate);
        if self.desk.random.chance(300) {
            self.arm_faults();
        }
        while !self.finished {
            let (now, event) = self.desk.queue.pop().expect("a run ends by looking around");
            assert!(self.desk.now <= now, "time never runs backwards");
            self.desk.now = now;
            self.desk.tally.events += 1;
            self.desk.mark(now ^ kind_of(&event) << 56);
            if self.desk.verbose {
                println!("{now:>12} {event:?}");
            }
            self.handle(event);
        }
    }

    pub(crate) fn state(&self) -> Option<&State> {
        self.hub.as_ref().map(|hub| hub.sequencer().state())
    }

    /// Before a question about a transfer: the kernel may have let go of it.
    pub(crate) fn warm(&mut self, id: &TransferId) {
        if let Some(hub) = &mut self.hub {
            hub.node.sequencer_mut().prefetch(id).expect("a store in memory is read");
        }
    }

    /// The operator has brought everybody in: payers begin.
    pub(crate) fn begin_traffic(&mut self) {
        self.arm_faults();
        self.seat_clerk();
        if self.has_snapshots() {
            self.desk.after(0, Event::Snapshot);
        }
        self.seat_examiner();
        self.seat_treasurer();
        self.seat_archiver();
        self.desk.after(0, Event::NewTransfer);
        let wait = self.desk.plan.chaos_us;
        self.desk.after(wait, Event::Look);
    }

    /// Nothing of the process is left. It starts again after a while.
    pub(crate) fn end_life(&mut self, pause: (u64, u64)) {
        self.hub = None;
        let wait = self.desk.random.between(pause);
        self.desk.after(wait, Event::Start);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive(request) => self.arrive(request),
            Event::Answer(request, result) => self.answered(request, result),
            Event::Callback(fsp, callback) => self.callback(fsp, &callback),
            Event::NewTransfer => self.new_transfer(),
            Event::PayerTimer(transfer) => self.payer_timer(transfer),
            Event::PayeeTimer(transfer) => self.payee_timer(transfer),
            Event::Operate => self.operate(),
            Event::Clerk => self.clerk_acts(),
            Event::Examine => self.examine(),
            Event::Treasurer => self.treasurer_acts(),
            Event::Fault(fault) => self.fault(fault),
            Event::Mend(fault) => self.mend(fault),
            Event::Start => self.start(),
            Event::Snapshot => {
                self.snapshot();
                let wait = self.desk.random.around(self.desk.plan.chaos_us / SNAPSHOTS);
                self.desk.after(wait.max(1), Event::Snapshot);
            }
            Event::Archive => self.archive(),
            Event::Hub(life, event) => self.within_hub(life, event),
            Event::Look => self.look(),
        }
    }

    fn arrive(&mut self, request: Request) {
        let Some(hub) = &mut self.hub else { return };
        let command = match request.what {
            MessageVariant::Prepare { transfer, .. } => {
                self.cast.prepare(&self.scripts[transfer as usize], request)
            }
            MessageVariant::Answer { transfer, .. } => {
                self.cast.answer(&self.scripts[transfer as usize], request)
            }
            MessageVariant::Change(number) => administer(self.operator.change(number)),
            MessageVariant::Stray(number) => self.examiner.stray(number),
            MessageVariant::Ask { transfer } => return self.asked(request.from, transfer),
        };
        hub.request(&mut self.desk, request, command);
    }

    fn within_hub(&mut self, life: u32, event: HubEvent) {
        let Some(hub) = self.hub.as_mut().filter(|hub| hub.life == life) else { return };
        let end = hub.handle(&mut self.desk, &mut self.witness, event);
        if let Err(Stopped) = end {
            self.stopped();
        }
    }

    /// The log stopped, and the process with it.
    fn stopped(&mut self) {
        self.desk.tally.stops += 1;
        assert!(!self.desk.calm || self.disk.is_down(), "the log stopped on a sound disk");
        match self.disk.is_down() {
            true => self.desk.tally.cut_within += 1,
            false => self.desk.tally.syncs_failed += 1,
        }
        if self.disk.is_down() || self.desk.random.chance(300) {
            self.desk.tally.power_cuts += 1;
            self.disk = self.disk.crash();
            self.shelf.lose_power();
        } else {
            self.desk.tally.kills += 1;
            self.disk = self.disk.kill();
        }
        self.end_life((1_000, SECOND));
    }

    /// A pure function of the seed, so that the other runs are as they are without snapshots.
    fn has_snapshots(&self) -> bool {
        self.seed.is_multiple_of(4)
    }

    /// What the thread that takes snapshots does, in two visits: the state is set aside, and stored
    /// once the log is durable and the store complete up to there, while the living one has gone
    /// on. Whatever fails harms nobody, unless the power goes off.
    fn snapshot(&mut self) {
        let (Some(hub), Some(disk)) = (&mut self.hub, self.tiers.clone()) else { return };
        let tail = hub.sequencer().log().tail();
        let store = Arc::new(self.shelf.clone());
        let reached = tail.durable.min(store.mark().log_index);
        if hub.aside.is_none() {
            hub.aside = Some(FrozenState { tail, state: hub.sequencer().state().freeze() });
        }
        let Some(aside) = hub.aside.take_if(|aside| aside.tail.end <= reached) else { return };
        self.strike_snapshot();
        let Some(hub) = &mut self.hub else { return };
        let beside = (Some(&*store as &dyn ColdStore), hub.stored.as_ref());
        match keep(&disk, aside, beside, &mut unpaced) {
            Ok(None) => {}
            Ok(Some(taken)) => {
                self.desk.tally.snapshots += 1;
                self.desk.mark(taken.file.log_index.0);
                hub.stored = Some(taken.file);
            }
            Err(WriteError::Disk(_)) => self.desk.tally.snapshots_failed += 1,
            Err(_) if self.disk.is_down() => self.desk.tally.snapshots_failed += 1,
            Err(error) => panic!("a state that was set aside is stored: {error}"),
        }
    }

    /// The process starts: the log is recovered and read, and continued if that went well.
    fn start(&mut self) {
        if self.hub.is_some() {
            return;
        }
        self.lay_out_damage();
        self.echo();
        self.tempt();
        let sequencer = match self.recover() {
            Ok(sequencer) => sequencer,
            Err(reason) => return self.start_failed(&reason),
        };
        self.lives += 1;
        let is_new = sequencer.state().log_index() == LogIndex(0);
        let now = self.desk.now;
        let mut hub = Hub::new(&mut self.desk, self.lives, now, sequencer);
        if is_new {
            hub.begin_log(self.genesis());
        }
        self.hub = Some(hub);
        self.strike_early();
    }

    fn genesis(&self) -> Command {
        let hub = FspName::new("Hub").expect("a short name");
        Command::Genesis(Genesis { seed: spread16(self.seed ^ 1), hub })
    }

    fn start_failed(&mut self, reason: &str) {
        assert!(
            !self.desk.calm || self.disk.is_down(),
            "the hub does not start on a sound disk: {reason}"
        );
        self.desk.tally.failed_starts += 1;
        self.disk = match self.disk.is_down() || self.desk.random.chance(300) {
            true => {
                self.shelf.lose_power();
                self.disk.crash()
            }
            false => self.disk.kill(),
        };
        self.end_life((1_000, SECOND));
    }

    pub(crate) fn log_options(&self) -> LogOptions {
        let Parameters { segment_bytes, room_bytes, .. } = self.desk.plan;
        LogOptions { segment_bytes, room_bytes, ..LogOptions::default() }
    }

    fn recover(&mut self) -> Result<HubSequencer, String> {
        let identity = LogIdentity(spread16(self.seed ^ 2));
        let disk = self.archiver.tiers(&self.disk).map_err(|error| error.to_string())?;
        self.tiers = Some(disk.clone());
        // As the switch opens it: the replay that follows checks the rest.
        let options = LogOptions { verify: Verify::LastSegment, ..self.log_options() };
        let opened = FileLog::open_or_create(disk.clone(), identity, options);
        let (mut log, _) = opened.map_err(|error| match error {
            OpenError::Disk(error) => error.to_string(),
            // A crash never leaves a log that has to be refused.
            damage => panic!("{damage}"),
        })?;
        self.desk.tally.records_lost += self.witness.seen().saturating_sub(log.tail().end.0);
        let is_of_log =
            is_of_log(&mut log, &self.shelf.mark()).map_err(|error| error.to_string())?;
        assert!(is_of_log, "the store is ahead of the log, or of another one");
        let from = self.newest_snapshot(&disk, &log)?;
        let last_look = self.finished;
        if last_look {
            self.check_alone(&mut log);
        }
        let mut reopening = self.witness.reopen(log.tail().end.0, last_look);
        let now = self.desk.clock(self.desk.now);
        // Where a snapshot is, the whole log is read too, but beside a copy of the store.
        let cold = match &from {
            Some(_) => self.shelf.copy().side(),
            None => self.shelf.side(),
        };
        let whole = beside(State::new(), cold);
        let opened = Sequencer::open_from(watched(log), whole, (0, now), &mut |applied| {
            reopening.observe(applied);
        });
        match opened.map_err(|failed| failed.1) {
            Ok(mut sequencer) => {
                reopening.finish(&mut sequencer);
                match from {
                    Some(from) => self.go_on_from((disk, from), sequencer.state().hash()),
                    None => Ok(sequencer),
                }
            }
            Err(ReplayError::Log(error)) if self.disk.is_down() => Err(error.to_string()),
            Err(error) => panic!("the log does not replay: {error}"),
        }
    }

    /// The newest snapshot that the store is not behind, if there is one.
    fn newest_snapshot(
        &self,
        disk: &HubDisk,
        log: &FileLog<HubDisk>,
    ) -> Result<Option<State>, String> {
        let stored = Some(self.shelf.mark().log_index);
        let found = newest(disk, &log.frames(), stored, &mut unpaced);
        let NewestSnapshot { start, passed_over, .. } = found.map_err(|error| error.to_string())?;
        if !passed_over.iter().all(is_ahead) {
            // A crash never leaves a snapshot that has to be passed over for its own sake.
            assert!(self.disk.is_down(), "{passed_over:?}");
            return Err(passed_over.concat());
        }
        Ok(start.map(|start| start.state))
    }

    /// A start from a snapshot gives the state that the whole log gives.
    fn go_on_from(
        &mut self,
        (disk, from): (HubDisk, State),
        hash: Digest,
    ) -> Result<HubSequencer, String> {
        let options = LogOptions { verify: Verify::LastSegment, ..self.log_options() };
        let opened = FileLog::open(disk, options);
        let (log, _) = opened.map_err(|error| error.to_string())?;
        let now = self.desk.clock(self.desk.now);
        let start = beside(from, self.shelf.side_as_it_is());
        let opened = Sequencer::open_from(watched(log), start, (0, now), &mut |_| {});
        let sequencer = match opened.map_err(|failed| failed.1) {
            Err(ReplayError::Log(error)) if self.disk.is_down() => return Err(error.to_string()),
            opened => opened.expect("what follows a snapshot replays"),
        };
        assert_eq!(sequencer.state().hash(), hash, "a start from a snapshot gives another state");
        self.desk.tally.snapshot_starts += 1;
        Ok(sequencer)
    }

    /// The log with no store beside it gives the state that everybody came to rest with.
    fn check_alone(&self, log: &mut FileLog<HubDisk>) {
        let replayed = sequencer::replay(log, &mut |_| ()).expect("a sound log is replayed");
        let hash = replayed.state.hash();
        assert_eq!(hash, self.final_hash, "the log without a store gives another state");
    }

    fn new_transfer(&mut self) {
        if self.scripts.len() as u32 == self.transfers {
            return;
        }
        let draw = Draw {
            number: self.scripts.len() as u32,
            now_ms: self.desk.true_ms(),
            lifetime_ms: self.desk.plan.lifetime_ms,
            amount: self.desk.plan.amount,
            odd_per_mille: self.desk.plan.odd_per_mille,
        };
        let mut script = TransferPlan::draw(&mut self.desk.random, &self.cast, &draw);
        self.move_to_edge(&mut script);
        self.desk.tally.transfers += 1;
        self.scripts.push(script);
        self.parties.push(Parties::default());
        if !self.without.transfers.contains(&draw.number) {
            self.pay(draw.number);
        }
        let wait = self.desk.random.around(self.desk.plan.interval_us);
        self.desk.after(wait, Event::NewTransfer);
    }

    /// Faults stop at the first look; the run ends when everything is at rest.
    fn look(&mut self) {
        if !self.desk.calm {
            self.calm_down();
        } else if self.hub.is_some() && self.disk.is_down() {
            // The power went off while something else than the log was written.
            self.stopped();
        } else if self.is_at_rest() {
            return self.finish();
        }
        let longest = self.longest_wait();
        assert!(
            self.desk.now < self.calm_since + longest,
            "nothing is at rest {longest} microseconds after the faults stopped: {}",
            self.unrest()
        );
        self.desk.after(SECOND / 2, Event::Look);
    }

    fn calm_down(&mut self) {
        self.desk.calm = true;
        self.calm_since = self.desk.now;
        self.backlog = self.state().map_or(0, |state| state.notices_owed_count() as u64)
            + NOTICES_PER_TRANSFER * self.scripts.len() as u64;
        self.mend_everything();
        for transfer in 0..self.scripts.len() as u32 {
            if self.is_payer_waiting(transfer) {
                let wait = self.desk.random.below(SECOND);
                self.desk.after(wait, Event::PayerTimer(transfer));
            }
            if self.is_payee_waiting(transfer) {
                let wait = self.desk.random.below(SECOND);
                self.desk.after(wait, Event::PayeeTimer(transfer));
            }
        }
    }

    /// Deadlines, pauses, time-outs, and the backlog of the slowest lane are all there is to wait
    /// for.
    fn longest_wait(&self) -> u64 {
        let Parameters { lifetime_ms, policy, attempt_us, network_us, commit_us, .. } =
            &self.desk.plan;
        let once = lifetime_ms.1 * 1_000
            + 4 * policy.backoff_max_micros.max(policy.probe_max_micros)
            + 4 * attempt_us
            + 4 * PAUSE_MAX_US
            + REST_MARGIN_US;
        let turn = 2 * network_us.1 + 4 * commit_us.1;
        once + self.backlog * turn / u64::from(policy.window)
    }

    fn is_at_rest(&self) -> bool {
        let Some(hub) = &self.hub else { return false };
        let state = hub.sequencer().state();
        let waiting = |transfer| self.is_payer_waiting(transfer) || self.is_payee_waiting(transfer);
        hub.is_idle()
            && state.transfers_in_flight() == 0
            && state.notices_owed_count() == 0
            && !(0..self.scripts.len() as u32).any(waiting)
    }

    fn unrest(&self) -> String {
        let waiting = |role: fn(&Self, u32) -> bool| {
            let all = 0..self.scripts.len() as u32;
            all.filter(|transfer| role(self, *transfer)).take(5).collect::<Vec<_>>()
        };
        let (payers, payees) = (waiting(Self::is_payer_waiting), waiting(Self::is_payee_waiting));
        let hub = self.hub.as_ref().map(|hub| {
            let state = hub.sequencer().state();
            let mut owed: Vec<_> = state.notices_owed().map(|notice| notice.id).collect();
            owed.sort_unstable();
            owed.truncate(5);
            let lanes: Vec<_> =
                hub.edges.iter().flat_map(|edge| edge.io.outbox.delivery().lane_states()).collect();
            format!(
                "{} in flight, {} owed from {owed:?}, idle {}, lanes {lanes:?}",
                state.transfers_in_flight(),
                state.notices_owed_count(),
                hub.is_idle()
            )
        });
        format!("payers of {payers:?} and payees of {payees:?} wait; hub: {hub:?}")
    }

    /// Everything is at rest: everybody agrees, and the log alone says the same.
    fn finish(&mut self) {
        let hub = self.hub.as_mut().expect("a hub at rest is up");
        let sequencer = hub.node.sequencer_mut();
        sequencer.flush(self.desk.clock(self.desk.now)).expect("a sound disk syncs");
        self.witness.check_rest(sequencer);
        let hash = sequencer.state().hash();
        self.check_agreement();
        assert_eq!(self.state().map(State::hash), Some(hash), "reading changes nothing");
        if self.has_snapshots() {
            // One that was set aside before, and one of now.
            self.snapshot();
            self.snapshot();
        }
        self.desk.tally.kills += 1;
        self.hub = None;
        self.disk = self.disk.kill();
        (self.final_hash, self.finished) = (hash, true);
        let again = self.recover().expect("a sound disk is read");
        assert_eq!(again.state().hash(), hash, "the log read again gives another state");
        let now = self.desk.now;
        self.hub = Some(Hub::new(&mut self.desk, self.lives + 1, now, again));
    }
}

/// More than the highest number of an outcome.
const OUTCOMES: usize = 128;

/// A number per kind of event, for the trace.
fn kind_of(event: &Event) -> u64 {
    match event {
        Event::Arrive(_) => 1,
        Event::Answer(..) => 2,
        Event::Callback(..) => 3,
        Event::NewTransfer => 4,
        Event::PayerTimer(_) => 5,
        Event::PayeeTimer(_) => 6,
        Event::Operate => 7,
        Event::Fault(_) => 8,
        Event::Mend(_) => 9,
        Event::Start => 10,
        Event::Hub(..) => 11,
        Event::Look => 12,
        Event::Clerk => 13,
        Event::Snapshot => 14,
        Event::Examine => 15,
        Event::Archive => 16,
        Event::Treasurer => 17,
    }
}

/// A log as a node takes it, not observed.
fn watched<L>(log: L) -> TracedLog<L> {
    TracedLog::new(log, Arc::new(LatencyTrace::new(1)))
}

/// What a start goes on from, with no record in quarantine.
fn beside(state: State, cold: ColdTier) -> ReplayStart {
    ReplayStart { state, quarantine: Quarantine::default(), cold: Some(cold) }
}

/// Whether a snapshot was passed over only because the store lost what it had.
fn is_ahead(why: impl AsRef<str>) -> bool {
    why.as_ref().contains("the cold store ends at record")
}
