//! Detects stages that have work but make no progress.
//!
//! A process can answer health checks while a thread blocks for ever or a wake-up was lost.
//! [`StallDetector`] receives samples of the stages' counters a few times a second. It reports each
//! stage that had work and made no progress for the configured time. A stage without work is never
//! stalled.
//!
//! It is a state machine over samples, without clock or thread. Time without samples counts for at
//! most [`GAP_MAX`], because then the whole process was suspended.

use std::time::Duration;

use ledger::Stamp;

/// How much a pause between two samples counts at most.
pub const GAP_MAX: Duration = Duration::from_millis(500);

/// A stage that has work and makes no progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Its name: `sequencer`, `log`, `store`, `expiry`, `io-0`, `lane dfsp1`.
    pub stage: String,
    /// For how long it has made none.
    pub idle: Duration,
    /// What it should be doing.
    pub detail: String,
    /// Whether another start could free it.
    pub restart_helps: bool,
}

impl Stall {
    /// The stage without whose it is: the same for every lane.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.stage.split(' ').next().unwrap_or_default()
    }

    /// Whether it is the log: nothing is taken meanwhile.
    #[must_use]
    pub fn is_log(&self) -> bool {
        self.stage == "log"
    }
}

/// What the sequencer's thread has done, as of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Whether it has work: it does not sleep, or something waits for it.
    pub busy: bool,
    /// How often it has gone round.
    pub turns: u64,
    /// Index of the last record committed.
    pub committed: u64,
    /// Batches refused because the disk was full.
    pub refused_full: u64,
    /// Whether the cold store cannot be written.
    pub store_fails: bool,
    /// Whether the cold store was found damaged; another start builds it anew.
    pub store_is_damaged: bool,
    /// Log index up to which the cold store is written.
    pub stored: u64,
    /// Log index up to which it was given what to write.
    pub offered_to_store: u64,
    /// When the earliest deadline falls due, in microseconds of the node's monotonic clock.
    pub due_us: Option<u64>,
    /// That deadline itself, by the log's time: another one once its transfers have expired.
    pub deadline: Option<Stamp>,
    /// When the last message of a shared log came, by the same clock; this node's own come too, so
    /// that there is one every second.
    pub heard_us: Option<u64>,
}

/// What an I/O thread says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoSample {
    /// How often its loop has turned; rises several times a second even when nothing happens.
    pub turns: u64,
    /// Its lanes that are stuck, found by the thread itself.
    pub lanes: Vec<Stall>,
}

/// How long something has had work without doing any of it.
#[derive(Clone, Copy, Debug)]
pub struct IdleTimer<T> {
    seen: Option<T>,
    idle: Duration,
}

impl<T> Default for IdleTimer<T> {
    fn default() -> Self {
        Self { seen: None, idle: Duration::ZERO }
    }
}

impl<T: PartialEq> IdleTimer<T> {
    /// Looks again, `passed` after the last time; answers for how long it has been still.
    pub fn look(&mut self, has_work: bool, done: T, passed: Duration) -> Duration {
        let moved = self.seen.as_ref() != Some(&done);
        self.idle = match has_work && !moved {
            true => self.idle + passed.min(GAP_MAX),
            false => Duration::ZERO,
        };
        self.seen = Some(done);
        self.idle
    }
}

/// Watches the stages of one node.
#[derive(Debug)]
pub struct StallDetector {
    patience: Duration,
    last_us: Option<u64>,
    sequencer: IdleTimer<(u64, u64)>,
    /// How long nothing has been committed while the disk was full.
    full: IdleTimer<u64>,
    refused_full: u64,
    since_refused: Duration,
    /// The last record at the last refusal; none since the log has taken another.
    full_after: Option<u64>,
    topic: IdleTimer<Option<u64>>,
    store: IdleTimer<u64>,
    expiry: IdleTimer<Option<Stamp>>,
    threads: Vec<IdleTimer<u64>>,
}

impl StallDetector {
    /// Calls a stage stuck after this long.
    #[must_use]
    pub fn new(patience: Duration) -> Self {
        Self {
            patience,
            last_us: None,
            sequencer: IdleTimer::default(),
            full: IdleTimer::default(),
            refused_full: 0,
            since_refused: patience,
            full_after: None,
            topic: IdleTimer::default(),
            store: IdleTimer::default(),
            expiry: IdleTimer::default(),
            threads: Vec::new(),
        }
    }

    /// Looks at a sample taken at `now_us` of the node's monotonic clock; answers with what is
    /// stuck, what is nearest to the log first.
    pub fn look(&mut self, now_us: u64, node: &Progress, pulses: &[IoSample]) -> Vec<Stall> {
        let last_us = self.last_us.replace(now_us).unwrap_or(now_us);
        let passed = Duration::from_micros(now_us.saturating_sub(last_us)).min(GAP_MAX);
        let mut stuck = Vec::new();
        stuck.extend(self.look_at_sequencer(node, passed));
        stuck.extend(self.look_at_disk(node, passed));
        stuck.extend(self.look_at_topic(node, passed));
        stuck.extend(self.look_at_store(node, passed));
        stuck.extend(self.look_at_expiry(node, now_us, passed));
        self.threads.resize(pulses.len(), IdleTimer::default());
        for (number, pulse) in pulses.iter().enumerate() {
            let idle = self.threads[number].look(true, pulse.turns, passed);
            stuck.extend(self.stuck(&format!("io-{number}"), idle, true, || {
                "the loop of this I/O thread does not turn: its connections are not served and \
                 its lanes stand still"
                    .into()
            }));
            stuck.extend(pulse.lanes.iter().cloned());
        }
        stuck
    }

    /// The stage, if it has been idle for too long.
    fn stuck(
        &self,
        stage: &str,
        idle: Duration,
        restart_helps: bool,
        detail: impl FnOnce() -> String,
    ) -> Option<Stall> {
        let is_stuck = self.patience <= idle;
        is_stuck.then(|| Stall { stage: stage.into(), idle, detail: detail(), restart_helps })
    }

    /// Whether the disk has no room for the log, as of the last look: commands were refused for it
    /// lately, and none was taken since.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full_after.is_some()
    }

    fn look_at_sequencer(&mut self, node: &Progress, passed: Duration) -> Option<Stall> {
        let idle = self.sequencer.look(node.busy, (node.turns, node.committed), passed);
        self.stuck("sequencer", idle, true, || {
            format!(
                "work waits, and nothing is committed or answered; the last record is {}",
                node.committed
            )
        })
    }

    /// Commands come and each is refused: the thread turns, but the log index does not advance.
    fn look_at_disk(&mut self, node: &Progress, passed: Duration) -> Option<Stall> {
        let refused = self.refused_full != node.refused_full;
        self.refused_full = node.refused_full;
        self.since_refused = match refused {
            true => Duration::ZERO,
            false => self.since_refused.saturating_add(passed),
        };
        let full = self.since_refused < self.patience;
        self.full_after = match self.full_after {
            _ if refused => Some(node.committed),
            Some(after) if full && after == node.committed => Some(after),
            _ => None,
        };
        let idle = self.full.look(full, node.committed, passed);
        self.stuck("log", idle, false, || {
            format!(
                "the disk is full: every command is refused; the last record is {}",
                node.committed
            )
        })
    }

    /// Without brokers nothing is recorded, and another start would not find them either.
    fn look_at_topic(&mut self, node: &Progress, passed: Duration) -> Option<Stall> {
        let idle = self.topic.look(node.heard_us.is_some(), node.heard_us, passed);
        self.stuck("log", idle, false, || {
            format!(
                "the brokers hand out nothing, not even what this node sends: nothing is \
                 recorded; the last record is {}",
                node.committed
            )
        })
    }

    /// It may be damaged, or fail, where another start would find the same disk, or hang.
    fn look_at_store(&mut self, node: &Progress, passed: Duration) -> Option<Stall> {
        let (damaged, fails) = (node.store_is_damaged, node.store_fails);
        let has_work = damaged || fails || node.stored < node.offered_to_store;
        let idle = self.store.look(has_work, node.stored, passed);
        let what = match (damaged, fails) {
            (true, _) => "is damaged, and built anew from the log by the next start",
            (_, true) => "cannot be written",
            _ => "is not written",
        };
        self.stuck("store", idle, damaged || !fails, || {
            format!(
                "the cold store {what}: what ended stays in memory, and from some point on every \
                 command is refused"
            )
        })
    }

    fn look_at_expiry(&mut self, node: &Progress, now_us: u64, passed: Duration) -> Option<Stall> {
        let overdue = node.due_us.is_some_and(|due| due <= now_us);
        let idle = self.expiry.look(overdue, node.deadline, passed);
        // Nothing expires on a full disk, and a start cannot change that.
        let full = self.since_refused < self.patience;
        self.stuck("expiry", idle, !full, || {
            "a deadline has passed, and its transfer is still reserved".into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Progress = Progress {
        busy: false,
        turns: 1,
        committed: 7,
        refused_full: 0,
        store_fails: false,
        store_is_damaged: false,
        stored: 5,
        offered_to_store: 5,
        due_us: None,
        deadline: None,
        heard_us: None,
    };

    /// Shows a sample every 0.2 s, made for the moment in milliseconds; answers with the stages
    /// that are stuck and since which moment.
    fn check(sample: impl Fn(u64) -> (Progress, u64), expected: &[(&str, u64)]) {
        let mut watch = StallDetector::new(Duration::from_secs(3));
        let mut found: Vec<(String, u64)> = Vec::new();
        for at_ms in (0..20_000).step_by(200) {
            let (node, turns) = sample(at_ms);
            let pulses = [IoSample { turns, lanes: Vec::new() }];
            for stuck in watch.look(at_ms * 1_000, &node, &pulses) {
                assert!(Duration::from_secs(3) <= stuck.idle, "{stuck:?}");
                if found.iter().all(|(stage, _)| *stage != stuck.stage) {
                    found.push((stuck.stage, at_ms));
                }
            }
        }
        let found: Vec<_> = found.iter().map(|(stage, at)| (&**stage, *at)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_has_no_work_or_does_it_is_not_stuck() {
        check(|at| (IDLE, at), &[]);
        // Always at work, and always on.
        check(|at| (Progress { busy: true, turns: at, ..IDLE }, at), &[]);
        // One long round of many batches.
        check(|at| (Progress { busy: true, committed: at, ..IDLE }, at), &[]);
        // Each deadline is met a little late.
        check(
            |at| (Progress { due_us: Some((at / 1_000) * 1_000_000 + 500_000), ..IDLE }, at),
            &[],
        );
        // So many deadlines that one is always late, and each is met.
        let late = |at| Progress { due_us: Some(0), deadline: Some(Stamp(at)), ..IDLE };
        check(|at| (late(at), at), &[]);
        // A store that is always behind, and always at work.
        check(|at| (Progress { stored: at, offered_to_store: at + 9, ..IDLE }, at), &[]);
        // A batch refused now and then, and others taken between.
        let some = |at| Progress { refused_full: at / 1_000, committed: at / 2_000, ..IDLE };
        check(|at| (some(at), at), &[]);
    }

    #[test]
    fn each_stage_that_stands_still_is_named_once_patience_is_over() {
        let stops = |at: u64| at.min(5_000);
        // The sample at 5.0 s is the last in which anything moved, or the first with a late
        // deadline.
        check(
            |at| (Progress { busy: true, turns: stops(at), ..IDLE }, at),
            &[("sequencer", 8_000)],
        );
        check(|at| (IDLE, stops(at)), &[("io-0", 8_000)]);
        let overdue = Progress { due_us: Some(5_000_000), deadline: Some(Stamp(9)), ..IDLE };
        check(|at| (overdue, at), &[("expiry", 7_800)]);
        let late = |at| Progress { due_us: Some(0), deadline: Some(Stamp(stops(at))), ..IDLE };
        check(|at| (late(at), at), &[("expiry", 8_000)]);
        let full = |at| Progress { refused_full: at, ..IDLE };
        check(|at| (full(at), at), &[("log", 3_000)]);
        check(|at| (Progress { store_fails: true, ..IDLE }, at), &[("store", 3_000)]);
        check(|at| (Progress { store_is_damaged: true, ..IDLE }, at), &[("store", 3_000)]);
        let cut_off = |at: u64| Progress { heard_us: Some(1_000 * stops(at)), ..IDLE };
        check(|at| (cut_off(at), at), &[("log", 8_000)]);
        let hangs = |at| Progress { stored: stops(at), offered_to_store: at + 1, ..IDLE };
        check(|at| (hangs(at), at), &[("store", 8_000)]);
    }

    #[test]
    fn a_disk_with_room_again_is_well_again_and_no_restart_is_asked_for() {
        let mut watch = StallDetector::new(Duration::from_secs(3));
        let mut told = Vec::new();
        for at_ms in (0..20_000).step_by(200) {
            let refused_full = at_ms.min(10_000);
            let node = Progress { refused_full, due_us: Some(0), ..IDLE };
            let stuck = watch.look(at_ms * 1_000, &node, &[]);
            if at_ms < 12_000 {
                assert!(stuck.iter().all(|one| !one.restart_helps), "{stuck:?}");
            }
            told.push(stuck.iter().any(|one| one.stage == "log"));
        }
        assert!(told[50] && !told[99], "{told:?}");
    }

    /// Full from the first refusal on, until a command is taken or none was refused for long.
    #[test]
    fn a_disk_is_full_while_commands_are_refused_for_it() {
        let mut watch = StallDetector::new(Duration::from_secs(3));
        let mut look = |at_ms: u64, refused_full, committed| {
            watch.look(at_ms * 1_000, &Progress { refused_full, committed, ..IDLE }, &[]);
            watch.is_full()
        };
        let found = [(0, 0, 7), (200, 0, 7), (400, 1, 7), (600, 1, 7), (800, 2, 7), (1_000, 2, 8)]
            .map(|(at_ms, refused, committed)| look(at_ms, refused, committed));
        assert_eq!(found, [false, false, true, true, true, false]);
        assert!(look(1_200, 3, 8));
        let later: Vec<_> = (7..25).map(|at| look(at * 200, 3, 8)).collect();
        assert!(later[0] && !later[17], "{later:?}");
        let ends = later.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(ends, 1, "{later:?}");
    }

    #[test]
    fn a_process_that_was_suspended_gets_its_chance() {
        let mut watch = StallDetector::new(Duration::from_secs(3));
        let node = Progress { busy: true, ..IDLE };
        assert!(watch.look(0, &node, &[]).is_empty());
        assert!(watch.look(3_600_000_000, &node, &[]).is_empty(), "an hour without a sample");
        let mut watch = StallDetector::new(Duration::from_secs(3));
        let node = Progress { heard_us: Some(0), ..IDLE };
        assert!(watch.look(0, &node, &[]).is_empty());
        assert!(watch.look(60_000_000, &node, &[]).is_empty(), "brokers were not asked meanwhile");
    }
}
