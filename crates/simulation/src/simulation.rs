//! One run: the hub, its disk, the FSPs, the operator and the faults, in virtual time.
//!
//! # Phases
//! 1. Onboarding: the operator makes accounts, participants, limits and funds, one at a time.
//! 2. Chaos: payers make transfers at the plan's pace; faults happen all the while.
//! 3. Calm: no more faults. A party that does not know how a transfer ended keeps asking. Within a
//!    bounded time every transfer must have ended, and all parties must agree.
//! 4. The process ends and starts once more: the log alone must give the same state.
//!
//! In every fourth run snapshots are taken, and each start that finds one continues from it. The
//! log alone is replayed as well, and must give the same state.

use std::sync::Arc;

use journal::{FileLog, LogOptions, MemoryDisk, OpenError, Verify};
use ledger::{Command, Digest, FspName, Genesis, LogIndex, State, TransferId};
use node::latency_trace::{LatencyTrace, TracedLog};
use ports::{ColdStore, Log};
use record::frame::LogIdentity;
use sequencer::{ColdTier, Quarantine, ReplayError, ReplayStart, Sequencer, is_of_log};
use snapshots::{FrozenState, NewestSnapshot, WriteError, find_newest, store_frozen, unpaced};

use crate::RunOptions;
use crate::archive::{Archiver, HubDisk};
use crate::env::{CallbackBehaviour, SimEnv};
use crate::event::{Event, HubEvent};
use crate::events_check;
use crate::external_view::ExternalView;
use crate::faults::FaultSchedule;
use crate::faulty_store::FaultyStore;
use crate::hub::{HubSequencer, SimHub, Stopped};
use crate::parameters::{Parameters, SECOND};
use crate::random::{Random, mix, spread16};
use crate::reduction::{Reduction, Removal};
use crate::report::RunCounts;
use crate::transfers::{Actors, MessageVariant, Request, TransferDraw, TransferPlan, administer};
use crate::workload::bulks::BulkWorkload;
use crate::workload::currencies::CurrencyWorkload;
use crate::workload::fsp::{PAUSE_MAX_US, Parties};
use crate::workload::operator::OperatorWorkload;
use crate::workload::outcomes::OutcomeWorkload;
use crate::workload::parties::PartyWorkload;
use crate::workload::quotes::QuoteWorkload;
use crate::workload::registry::RegistryWorkload;
use crate::workload::settlement::{self, SettlementCounts, SettlementWorkload};

/// How long after the last deadline, pause or time-out everything must be at rest.
const REST_MARGIN_US: u64 = 60 * SECOND;
/// Snapshots that are tried in the time of the faults, on average.
const SNAPSHOTS: u64 = 6;
/// Runs, in a thousand, with an operator who settles.
const SETTLING_PER_MILLE: u32 = 600;
/// Notices that one transfer causes after the faults stopped, resends included.
const NOTICES_PER_TRANSFER: u64 = 16;

pub(crate) struct SimulationRun {
    pub(crate) env: SimEnv,
    pub(crate) actors: Actors,
    pub(crate) plans: Vec<TransferPlan>,
    pub(crate) parties: Vec<Parties>,
    pub(crate) operator: OperatorWorkload,
    pub(crate) registry_workload: RegistryWorkload,
    pub(crate) outcome_workload: OutcomeWorkload,
    pub(crate) currency_workload: CurrencyWorkload,
    pub(crate) settlement_workload: SettlementWorkload,
    pub(crate) bulk_workload: BulkWorkload,
    pub(crate) party_workload: PartyWorkload,
    pub(crate) quote_workload: QuoteWorkload,
    pub(crate) without: Reduction,
    pub(crate) archiver: Archiver,
    pub(crate) disk: MemoryDisk,
    /// The disk as the process that runs, or ran last, sees it.
    pub(crate) tiers: Option<HubDisk>,
    pub(crate) store: FaultyStore,
    pub(crate) hub: Option<SimHub>,
    pub(crate) external: ExternalView,
    pub(crate) epochs: u32,
    pub(crate) fault_schedule: FaultSchedule,
    pub(crate) final_hash: Digest,
    pub(crate) seed: u64,
    transfers: u32,
    calm_since: u64,
    /// Notices that may have to be delivered after the faults stopped.
    backlog: u64,
    finished: bool,
}

impl SimulationRun {
    pub(crate) fn new(seed: u64, options: &RunOptions) -> Self {
        let mut random = Random::new(mix(seed));
        let mut parameters = Parameters::draw(&mut random, options.transfers);
        options.without.apply(&mut parameters);
        let mut actors = Actors::new(random.next(), &parameters);
        let disk = MemoryDisk::new(random.next());
        let window = parameters.policy.window;
        let env = new_env((seed, random), parameters, options.verbose);
        let mut registry_workload = RegistryWorkload::new(seed, env.parameters.chaos_us);
        if options.without.kinds.contains(&Removal::Registry) {
            registry_workload.arrivals.leave();
        }
        let mut outcome_workload = OutcomeWorkload::new(seed, env.parameters.chaos_us);
        if options.without.kinds.contains(&Removal::Outcomes) {
            outcome_workload.arrivals.leave();
        }
        let mut currency_workload = CurrencyWorkload::new(seed, env.parameters.chaos_us);
        if options.without.kinds.contains(&Removal::Currencies) {
            currency_workload.arrivals.leave();
        }
        let presence = (SETTLING_PER_MILLE, env.parameters.chaos_us);
        let mut settlement_workload = SettlementWorkload::new(seed, settlement::STREAM, presence);
        if options.without.kinds.contains(&Removal::Settlement) {
            settlement_workload.arrivals.leave();
        }
        let (bulk_workload, party_workload, quote_workload) =
            message_workloads(seed, &env.parameters, &options.without);
        actors.has_fees = settlement_workload.arrivals.is_active();
        Self {
            operator: OperatorWorkload::new(&actors),
            registry_workload,
            outcome_workload,
            currency_workload,
            settlement_workload,
            bulk_workload,
            party_workload,
            quote_workload,
            without: options.without.clone(),
            env,
            actors,
            plans: Vec::new(),
            parties: Vec::new(),
            archiver: Archiver::new(seed),
            disk,
            tiers: None,
            store: FaultyStore::new(mix(seed ^ 3)),
            hub: None,
            external: ExternalView::new(window),
            epochs: 0,
            fault_schedule: FaultSchedule::default(),
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
        self.env.after(0, Event::Start);
        self.env.after(0, Event::Operator);
        if self.env.random.chance(300) {
            self.arm_faults();
        }
        while !self.finished {
            let (now, event) = self.env.queue.pop().expect("a run ends with a check");
            assert!(self.env.now <= now, "time never runs backwards");
            self.env.now = now;
            self.env.counts.events += 1;
            self.env.add_to_trace(now ^ kind_of(&event) << 56);
            if self.env.verbose {
                println!("{now:>12} {event:?}");
            }
            self.handle(event);
        }
    }

    pub(crate) fn state(&self) -> Option<&State> {
        self.hub.as_ref().map(|hub| hub.sequencer().state())
    }

    /// Before a question about a transfer: reads a row that the kernel may have evicted.
    pub(crate) fn prefetch(&mut self, id: &TransferId) {
        if let Some(hub) = &mut self.hub {
            hub.node.sequencer_mut().prefetch([id]).expect("a store in memory is read");
        }
    }

    /// Onboarding is complete: payers begin.
    pub(crate) fn begin_traffic(&mut self) {
        self.arm_faults();
        self.schedule_registry();
        if self.has_snapshots() {
            self.env.after(0, Event::Snapshot);
        }
        self.schedule_outcomes();
        self.schedule_currencies();
        self.schedule_settlement();
        self.schedule_bulks();
        self.schedule_parties();
        self.schedule_quotes();
        self.schedule_archiver();
        self.env.after(0, Event::NewTransfer);
        let wait = self.env.parameters.chaos_us;
        self.env.after(wait, Event::CheckRest);
    }

    /// Nothing of the process is left. It starts again after a while.
    pub(crate) fn end_epoch(&mut self, pause: (u64, u64)) {
        self.hub = None;
        let wait = self.env.random.between(pause);
        self.env.after(wait, Event::Start);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive(request) => self.arrive(request),
            Event::Reply(request, result) => self.answered(request, result),
            Event::Callback(fsp, callback) => self.callback(fsp, &callback),
            Event::NewTransfer => self.new_transfer(),
            Event::PayerTimer(transfer) => self.payer_timer(transfer),
            Event::PayeeTimer(transfer) => self.payee_timer(transfer),
            Event::Operator => self.run_operator_step(),
            Event::Registry => self.run_registry_step(),
            Event::Outcomes => self.run_outcome_step(),
            Event::Currencies => self.run_currency_step(),
            Event::Settlement => self.run_settlement_step(),
            Event::Parties => self.run_party_step(),
            Event::Quotes => self.run_quote_step(),
            Event::Bulks => self.new_bulk(),
            Event::BulkPayerTimer(bulk) => self.bulk_payer_timer(bulk),
            Event::BulkPayeeTimer(bulk) => self.bulk_payee_timer(bulk),
            Event::Fault(fault) => self.fault(fault),
            Event::Repair(fault) => self.repair(fault),
            Event::Start => self.start(),
            Event::Snapshot => {
                self.snapshot();
                let wait = self.env.random.around(self.env.parameters.chaos_us / SNAPSHOTS);
                self.env.after(wait.max(1), Event::Snapshot);
            }
            Event::Archive => self.archive(),
            Event::Hub(epoch, event) => self.handle_hub_event(epoch, event),
            Event::CheckRest => self.check_rest(),
        }
    }

    fn arrive(&mut self, request: Request) {
        if self.hub.is_none() {
            return;
        }
        let command = match request.message {
            MessageVariant::Prepare { transfer, .. } => {
                self.actors.prepare(&self.plans[transfer as usize], request)
            }
            MessageVariant::Response { transfer, .. } => {
                self.actors.respond(&self.plans[transfer as usize], request)
            }
            MessageVariant::Change(number) => administer(self.operator.change(number)),
            MessageVariant::Unplanned(number) => self.outcome_workload.unplanned_command(number),
            MessageVariant::GetTransfer { transfer } => return self.asked(request.from, transfer),
            MessageVariant::PrepareBulk { .. } | MessageVariant::RespondBulk { .. } => {
                self.bulk_command(request)
            }
            MessageVariant::GetBulk { bulk } => return self.bulk_asked(request.from, bulk),
        };
        let hub = self.hub.as_mut().expect("it is up");
        hub.request(&mut self.env, request, command);
    }

    fn handle_hub_event(&mut self, epoch: u32, event: HubEvent) {
        let Some(hub) = self.hub.as_mut().filter(|hub| hub.epoch == epoch) else { return };
        let end = hub.handle(&mut self.env, &mut self.external, event);
        if let Err(Stopped) = end {
            self.stopped();
        }
    }

    /// The log stopped, and the process with it.
    fn stopped(&mut self) {
        self.env.counts.stops += 1;
        assert!(!self.env.calm || self.disk.is_down(), "the log stopped on a sound disk");
        match self.disk.is_down() {
            true => self.env.counts.cut_within += 1,
            false => self.env.counts.syncs_failed += 1,
        }
        if self.disk.is_down() || self.env.random.chance(300) {
            self.env.counts.power_cuts += 1;
            self.disk = self.disk.crash();
            self.store.lose_power();
        } else {
            self.env.counts.kills += 1;
            self.disk = self.disk.kill();
        }
        self.end_epoch((1_000, SECOND));
    }

    /// A pure function of the seed, so that the other runs are as they are without snapshots.
    fn has_snapshots(&self) -> bool {
        self.seed.is_multiple_of(4)
    }

    /// The work of the snapshot thread, in two steps. First the state is frozen. It is stored once
    /// the log is durable and the store complete up to there; the live state has advanced
    /// meanwhile. A failure is harmless unless the power goes off.
    fn snapshot(&mut self) {
        let (Some(hub), Some(disk)) = (&mut self.hub, self.tiers.clone()) else { return };
        let tail = hub.sequencer().log().tail();
        let store = Arc::new(self.store.clone());
        let reached = tail.durable.min(store.mark().log_index);
        if hub.frozen.is_none() {
            hub.frozen = Some(FrozenState { tail, state: hub.sequencer().state().snapshot() });
        }
        let Some(frozen) = hub.frozen.take_if(|frozen| frozen.tail.end <= reached) else { return };
        self.maybe_fail_snapshot();
        let Some(hub) = &mut self.hub else { return };
        let store_and_previous = (Some(&*store as &dyn ColdStore), hub.stored.as_ref());
        match store_frozen(&disk, frozen, store_and_previous, &mut unpaced) {
            Ok(None) => {}
            Ok(Some(taken)) => {
                self.env.counts.snapshots += 1;
                self.env.add_to_trace(taken.file.log_index.0);
                hub.stored = Some(taken.file);
            }
            Err(WriteError::Disk(_)) => self.env.counts.snapshots_failed += 1,
            Err(_) if self.disk.is_down() => self.env.counts.snapshots_failed += 1,
            Err(error) => panic!("a frozen state cannot be stored: {error}"),
        }
    }

    /// The process starts: the log is recovered and read, and continued if that went well.
    fn start(&mut self) {
        if self.hub.is_some() {
            return;
        }
        self.open_corrupted_copy();
        self.echo();
        self.maybe_fail_recovery();
        let sequencer = match self.recover() {
            Ok(sequencer) => sequencer,
            Err(reason) => return self.start_failed(&reason),
        };
        self.epochs += 1;
        let is_new = sequencer.state().log_index() == LogIndex(0);
        let now = self.env.now;
        let opened = (sequencer, &self.store);
        let mut hub = SimHub::new(&mut self.env, self.epochs, now, opened);
        if is_new {
            hub.begin_log(self.genesis());
        }
        self.hub = Some(hub);
        self.check_directory();
        self.maybe_crash_after_start();
    }

    fn genesis(&self) -> Command {
        let hub = FspName::new("Hub").expect("a short name");
        Command::Genesis(Genesis { seed: genesis_seed(self.seed), hub })
    }

    fn start_failed(&mut self, reason: &str) {
        assert!(
            !self.env.calm || self.disk.is_down(),
            "the hub does not start on a sound disk: {reason}"
        );
        self.env.counts.failed_starts += 1;
        self.disk = match self.disk.is_down() || self.env.random.chance(300) {
            true => {
                self.store.lose_power();
                self.disk.crash()
            }
            false => self.disk.kill(),
        };
        self.end_epoch((1_000, SECOND));
    }

    pub(crate) fn log_options(&self) -> LogOptions {
        let Parameters { segment_bytes, room_bytes, .. } = self.env.parameters;
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
        self.env.counts.records_lost += self.external.seen().saturating_sub(log.tail().end.0);
        let is_of_log =
            is_of_log(&mut log, &self.store.mark()).map_err(|error| error.to_string())?;
        assert!(is_of_log, "the store is ahead of the log, or of another one");
        let from = self.newest_snapshot(&disk, &log)?;
        let is_last_check = self.finished;
        if is_last_check {
            self.check_alone(&mut log);
        }
        let mut reopening = self.external.reopen(log.tail().end.0, is_last_check);
        let now = self.env.clock(self.env.now);
        // If there is a snapshot, the whole log is replayed too, with a copy of the store.
        let cold = match &from {
            Some(_) => self.store.copy().side(),
            None => self.store.side(),
        };
        let whole = replay_start(State::new(), cold);
        let opened = Sequencer::open_from(traced(log), whole, (0, now), &mut |applied| {
            reopening.observe(applied);
        });
        match opened.map_err(|failed| failed.1) {
            Ok(mut sequencer) => {
                reopening.finish(&mut sequencer);
                match from {
                    Some(from) => self.continue_from((disk, from), sequencer.state().hash()),
                    None => Ok(sequencer),
                }
            }
            Err(ReplayError::Log(error)) if self.disk.is_down() => Err(error.to_string()),
            Err(error) => panic!("the log does not replay: {error}"),
        }
    }

    /// The newest snapshot that the store covers, if there is one.
    fn newest_snapshot(
        &self,
        disk: &HubDisk,
        log: &FileLog<HubDisk>,
    ) -> Result<Option<State>, String> {
        let stored = Some(self.store.mark().log_index);
        let found = find_newest(disk, &log.frames(), stored, &mut unpaced);
        let NewestSnapshot { start, skipped, .. } = found.map_err(|error| error.to_string())?;
        if !skipped.iter().all(is_ahead) {
            // A crash never leaves a snapshot that has to be passed over for its own sake.
            assert!(self.disk.is_down(), "{skipped:?}");
            return Err(skipped.concat());
        }
        Ok(start.map(|start| start.state))
    }

    /// A start from a snapshot gives the state that the whole log gives.
    fn continue_from(
        &mut self,
        (disk, from): (HubDisk, State),
        hash: Digest,
    ) -> Result<HubSequencer, String> {
        let options = LogOptions { verify: Verify::LastSegment, ..self.log_options() };
        let opened = FileLog::open(disk, options);
        let (log, _) = opened.map_err(|error| error.to_string())?;
        let now = self.env.clock(self.env.now);
        let start = replay_start(from, self.store.cold_tier_as_is());
        let opened = Sequencer::open_from(traced(log), start, (0, now), &mut |_| {});
        let sequencer = match opened.map_err(|failed| failed.1) {
            Err(ReplayError::Log(error)) if self.disk.is_down() => return Err(error.to_string()),
            opened => opened.expect("the log after a snapshot replays"),
        };
        assert_eq!(sequencer.state().hash(), hash, "a start from a snapshot gives another state");
        self.env.counts.snapshot_starts += 1;
        Ok(sequencer)
    }

    /// A replay of the log without a store gives the state that the run ended with.
    fn check_alone(&self, log: &mut FileLog<HubDisk>) {
        let replayed = sequencer::replay(log, &mut |_| ()).expect("a sound log is replayed");
        let hash = replayed.state.hash();
        assert_eq!(hash, self.final_hash, "the log without a store gives another state");
        events_check::check(log);
    }

    fn new_transfer(&mut self) {
        if self.plans.len() as u32 == self.transfers {
            return;
        }
        let draw = TransferDraw {
            number: self.plans.len() as u32,
            now_ms: self.env.true_ms(),
            lifetime_ms: self.env.parameters.lifetime_ms,
            amount: self.env.parameters.amount,
            odd_per_mille: self.env.parameters.odd_per_mille,
        };
        let mut plan = TransferPlan::draw(&mut self.env.random, &self.actors, &draw);
        self.move_to_edge(&mut plan);
        self.env.counts.transfers += 1;
        self.plans.push(plan);
        self.parties.push(Parties::default());
        if !self.without.transfers.contains(&draw.number) {
            self.pay(draw.number);
        }
        let wait = self.env.random.around(self.env.parameters.interval_us);
        self.env.after(wait, Event::NewTransfer);
    }

    /// Faults stop at the first look; the run ends when everything is at rest.
    fn check_rest(&mut self) {
        if !self.env.calm {
            self.stop_faults_and_wait();
        } else if self.hub.is_some() && self.disk.is_down() {
            // The power went off while something else than the log was written.
            self.stopped();
        } else if self.is_at_rest() {
            return self.finish();
        }
        let longest = self.longest_wait();
        assert!(
            self.env.now < self.calm_since + longest,
            "nothing is at rest {longest} microseconds after the faults stopped: {}",
            self.describe_unrest()
        );
        self.env.after(SECOND / 2, Event::CheckRest);
    }

    fn stop_faults_and_wait(&mut self) {
        self.env.calm = true;
        self.calm_since = self.env.now;
        self.backlog = self.state().map_or(0, |state| state.notices_owed_count() as u64)
            + NOTICES_PER_TRANSFER * (self.plans.len() + self.bulk_workload.plans.len()) as u64;
        self.stop_faults();
        for transfer in 0..self.plans.len() as u32 {
            if self.is_payer_waiting(transfer) {
                let wait = self.env.random.below(SECOND);
                self.env.after(wait, Event::PayerTimer(transfer));
            }
            if self.is_payee_waiting(transfer) {
                let wait = self.env.random.below(SECOND);
                self.env.after(wait, Event::PayeeTimer(transfer));
            }
        }
        self.wake_bulk_parties();
    }

    /// Deadlines, pauses, time-outs, and the backlog of the slowest lane are all there is to wait
    /// for.
    fn longest_wait(&self) -> u64 {
        let Parameters { lifetime_ms, policy, attempt_us, network_us, commit_us, .. } =
            &self.env.parameters;
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
            && state.reserved_transfer_count() == 0
            && state.notices_owed_count() == 0
            && !(0..self.plans.len() as u32).any(waiting)
            && !self.bulk_workload.is_waiting()
    }

    fn describe_unrest(&self) -> String {
        let waiting = |role: fn(&Self, u32) -> bool| {
            let all = 0..self.plans.len() as u32;
            all.filter(|transfer| role(self, *transfer)).take(5).collect::<Vec<_>>()
        };
        let (payers, payees) = (waiting(Self::is_payer_waiting), waiting(Self::is_payee_waiting));
        let hub = self.hub.as_ref().map(|hub| {
            let state = hub.sequencer().state();
            let mut owed: Vec<_> = state.notices_owed().map(|notice| notice.id).collect();
            owed.sort_unstable();
            owed.truncate(5);
            let lanes: Vec<_> = hub
                .io_threads
                .iter()
                .flat_map(|thread| thread.outbox_driver.outbox.delivery().lane_states())
                .collect();
            format!(
                "{} in flight, {} owed from {owed:?}, idle {}, lanes {lanes:?}",
                state.reserved_transfer_count(),
                state.notices_owed_count(),
                hub.is_idle()
            )
        });
        format!("payers of {payers:?} and payees of {payees:?} wait; hub: {hub:?}")
    }

    /// Everything is at rest: all parties agree, and the log alone gives the same state.
    fn finish(&mut self) {
        let hub = self.hub.as_mut().expect("a hub at rest is up");
        let sequencer = hub.node.sequencer_mut();
        sequencer.flush(self.env.clock(self.env.now)).expect("a sound disk syncs");
        self.external.check_rest(sequencer);
        let hash = sequencer.state().hash();
        self.env.counts.settlement = SettlementCounts::of(sequencer.state(), &self.external.model);
        self.check_agreement();
        self.check_bulk_agreement();
        self.check_directory();
        assert_eq!(self.state().map(State::hash), Some(hash), "reading changes nothing");
        if self.has_snapshots() {
            // One that was set aside before, and one of now.
            self.snapshot();
            self.snapshot();
        }
        self.env.counts.kills += 1;
        self.hub = None;
        self.disk = self.disk.kill();
        (self.final_hash, self.finished) = (hash, true);
        let again = self.recover().expect("a sound disk is read");
        self.check_archive();
        assert_eq!(again.state().hash(), hash, "the log read again gives another state");
        let now = self.env.now;
        let again = (again, &self.store);
        self.hub = Some(SimHub::new(&mut self.env, self.epochs + 1, now, again));
        self.check_directory();
    }
}

/// The environment at the start of a run.
fn new_env((seed, random): (u64, Random), parameters: Parameters, verbose: bool) -> SimEnv {
    let behaviours = vec![CallbackBehaviour::Fine; usize::from(parameters.fsps)];
    SimEnv {
        now: 0,
        random,
        queue: Default::default(),
        parameters,
        calm: false,
        behaviours,
        skew_us: 0,
        slow_until: 0,
        slow_us: 0,
        counts: RunCounts::default(),
        attempts: Default::default(),
        outcomes: vec![0; OUTCOMES],
        changed: Default::default(),
        trace: seed,
        verbose,
    }
}

/// The workloads of participants that send other messages than transfers.
fn message_workloads(
    seed: u64,
    Parameters { chaos_us, .. }: &Parameters,
    without: &Reduction,
) -> (BulkWorkload, PartyWorkload, QuoteWorkload) {
    let mut bulks = BulkWorkload::new(seed, *chaos_us);
    let mut parties = PartyWorkload::new(seed, *chaos_us);
    let mut quotes = QuoteWorkload::new(seed, *chaos_us);
    for (removal, arrivals) in [
        (Removal::Bulks, &mut bulks.arrivals),
        (Removal::Parties, &mut parties.arrivals),
        (Removal::Quotes, &mut quotes.arrivals),
    ] {
        if without.kinds.contains(&removal) {
            arrivals.leave();
        }
    }
    (bulks, parties, quotes)
}

/// More than the highest number of an outcome.
const OUTCOMES: usize = 208;

/// A number per kind of event, for the trace.
fn kind_of(event: &Event) -> u64 {
    match event {
        Event::Arrive(_) => 1,
        Event::Reply(..) => 2,
        Event::Callback(..) => 3,
        Event::NewTransfer => 4,
        Event::PayerTimer(_) => 5,
        Event::PayeeTimer(_) => 6,
        Event::Operator => 7,
        Event::Fault(_) => 8,
        Event::Repair(_) => 9,
        Event::Start => 10,
        Event::Hub(..) => 11,
        Event::CheckRest => 12,
        Event::Registry => 13,
        Event::Snapshot => 14,
        Event::Outcomes => 15,
        Event::Archive => 16,
        Event::Currencies => 17,
        Event::Settlement => 18,
        Event::Bulks => 19,
        Event::BulkPayerTimer(_) => 20,
        Event::BulkPayeeTimer(_) => 21,
        Event::Parties => 22,
        Event::Quotes => 23,
    }
}

/// A log as a node takes it, not observed.
fn traced<L>(log: L) -> TracedLog<L> {
    TracedLog::new(log, Arc::new(LatencyTrace::new(1)))
}

/// The state from which a start continues, with no record in quarantine.
fn replay_start(state: State, cold: ColdTier) -> ReplayStart {
    ReplayStart { state, quarantine: Quarantine::default(), cold_tier: Some(cold) }
}

/// Whether a snapshot was passed over only because the store lost what it had.
fn is_ahead(why: impl AsRef<str>) -> bool {
    why.as_ref().contains("the cold store ends at record")
}

/// The seed in the genesis record of a run.
pub(crate) fn genesis_seed(seed: u64) -> [u8; 16] {
    spread16(seed ^ 1)
}
