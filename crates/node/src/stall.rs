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

/// Maximum time that counts between two samples.
pub const GAP_MAX: Duration = Duration::from_millis(500);

/// A stage that has work and makes no progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Its name: `sequencer`, `log`, `store`, `expiry`, `io-0`, `lane dfsp1`.
    pub stage: String,
    /// How long it has made no progress.
    pub idle: Duration,
    /// The work that it should do.
    pub detail: String,
    /// Whether a restart may help.
    pub restart_helps: bool,
}

impl Stall {
    /// The stage without its number or owner: the same for every lane.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.stage.split(' ').next().unwrap_or_default()
    }

    /// Whether the log is stalled: no command is accepted then.
    #[must_use]
    pub fn is_log(&self) -> bool {
        self.stage == "log"
    }
}

/// The progress of the sequencer's thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Whether it has work: it does not sleep, or work is waiting.
    pub busy: bool,
    /// Number of its turns.
    pub turns: u64,
    /// Index of the last record committed.
    pub committed: u64,
    /// Batches refused because the disk was full.
    pub refused_full: u64,
    /// Whether the cold store cannot be written.
    pub store_fails: bool,
    /// Whether the cold store was found damaged. The next start rebuilds it.
    pub store_is_damaged: bool,
    /// Log index up to which the cold store is written.
    pub stored: u64,
    /// Log index up to which rows were offered to the cold store.
    pub offered_to_store: u64,
    /// Due time of the earliest deadline, in microseconds of the node's monotonic clock.
    pub due_us: Option<u64>,
    /// That deadline in log time. It changes once its transfers have expired.
    pub deadline: Option<Stamp>,
    /// Arrival time of the last message of a shared log, on the same clock. The node's own messages
    /// count, so that one arrives every second.
    pub last_message_us: Option<u64>,
}

/// A sample of an I/O thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoSample {
    /// Number of turns of its loop. It rises several times a second even without work.
    pub turns: u64,
    /// Its stalled lanes, detected by the thread itself.
    pub lanes: Vec<Stall>,
}

/// Measures how long a stage has had work without progress.
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
    /// Adds a sample, `passed` after the previous one. Returns how long there was no progress.
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

/// Detects stalled stages of a node.
#[derive(Debug)]
pub struct StallDetector {
    patience: Duration,
    last_us: Option<u64>,
    sequencer: IdleTimer<(u64, u64)>,
    /// How long nothing was committed while the disk was full.
    full: IdleTimer<u64>,
    refused_full: u64,
    since_refused: Duration,
    /// The last record at the last refusal; `None` once the log has accepted another record.
    full_after: Option<u64>,
    topic: IdleTimer<Option<u64>>,
    store: IdleTimer<u64>,
    expiry: IdleTimer<Option<Stamp>>,
    threads: Vec<IdleTimer<u64>>,
}

impl StallDetector {
    /// Reports stages that made no progress for `patience`.
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

    /// Adds a sample taken at `now_us` of the node's monotonic clock. Returns the stalls, starting
    /// with those nearest to the log.
    pub fn look(&mut self, now_us: u64, node: &Progress, threads: &[IoSample]) -> Vec<Stall> {
        let last_us = self.last_us.replace(now_us).unwrap_or(now_us);
        let passed = Duration::from_micros(now_us.saturating_sub(last_us)).min(GAP_MAX);
        let mut stalls = Vec::new();
        stalls.extend(self.look_at_sequencer(node, passed));
        stalls.extend(self.look_at_disk(node, passed));
        stalls.extend(self.look_at_topic(node, passed));
        stalls.extend(self.look_at_store(node, passed));
        stalls.extend(self.look_at_expiry(node, now_us, passed));
        self.threads.resize(threads.len(), IdleTimer::default());
        for (number, sample) in threads.iter().enumerate() {
            let idle = self.threads[number].look(true, sample.turns, passed);
            stalls.extend(self.stalled(&format!("io-{number}"), idle, true, || {
                "the loop of this I/O thread does not turn: its connections are not served and its \
                 lanes make no progress"
                    .into()
            }));
            stalls.extend(sample.lanes.iter().cloned());
        }
        stalls
    }

    /// Returns the stage if it has been idle for too long.
    fn stalled(
        &self,
        stage: &str,
        idle: Duration,
        restart_helps: bool,
        detail: impl FnOnce() -> String,
    ) -> Option<Stall> {
        let is_stalled = self.patience <= idle;
        is_stalled.then(|| Stall { stage: stage.into(), idle, detail: detail(), restart_helps })
    }

    /// Whether the log's disk was full at the last sample: commands were refused for it recently,
    /// and none has been accepted since.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full_after.is_some()
    }

    fn look_at_sequencer(&mut self, node: &Progress, passed: Duration) -> Option<Stall> {
        let idle = self.sequencer.look(node.busy, (node.turns, node.committed), passed);
        self.stalled("sequencer", idle, true, || {
            format!(
                "work waits, and nothing is committed or answered; the last record is {}",
                node.committed
            )
        })
    }

    /// Detects that every command is refused: the thread turns, but the log index does not advance.
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
        self.stalled("log", idle, false, || {
            format!(
                "the disk is full: every command is refused; the last record is {}",
                node.committed
            )
        })
    }

    /// Without brokers nothing is recorded. A restart would not find them either.
    fn look_at_topic(&mut self, node: &Progress, passed: Duration) -> Option<Stall> {
        let idle = self.topic.look(node.last_message_us.is_some(), node.last_message_us, passed);
        self.stalled("log", idle, false, || {
            format!(
                "the brokers hand out nothing, not even what this node sends: nothing is \
                 recorded; the last record is {}",
                node.committed
            )
        })
    }

    /// The store may be damaged, fail or hang. If it fails, a restart would find the same disk.
    fn look_at_store(&mut self, node: &Progress, passed: Duration) -> Option<Stall> {
        let (damaged, fails) = (node.store_is_damaged, node.store_fails);
        let has_work = damaged || fails || node.stored < node.offered_to_store;
        let idle = self.store.look(has_work, node.stored, passed);
        let what = match (damaged, fails) {
            (true, _) => "is damaged; the next start rebuilds it from the log",
            (_, true) => "cannot be written",
            _ => "is not written",
        };
        self.stalled("store", idle, damaged || !fails, || {
            format!(
                "the cold store {what}: final transfers stay in memory; when too many wait, every \
                 command is refused"
            )
        })
    }

    fn look_at_expiry(&mut self, node: &Progress, now_us: u64, passed: Duration) -> Option<Stall> {
        let overdue = node.due_us.is_some_and(|due| due <= now_us);
        let idle = self.expiry.look(overdue, node.deadline, passed);
        // On a full disk nothing expires, and a restart does not help.
        let full = self.since_refused < self.patience;
        self.stalled("expiry", idle, !full, || {
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
        last_message_us: None,
    };

    /// Feeds a sample every 0.2 s, made from the time in milliseconds. Compares the stalled stages
    /// and the times at which they were first reported.
    fn check(sample: impl Fn(u64) -> (Progress, u64), expected: &[(&str, u64)]) {
        let mut watch = StallDetector::new(Duration::from_secs(3));
        let mut found: Vec<(String, u64)> = Vec::new();
        for at_ms in (0..20_000).step_by(200) {
            let (node, turns) = sample(at_ms);
            let threads = [IoSample { turns, lanes: Vec::new() }];
            for stall in watch.look(at_ms * 1_000, &node, &threads) {
                assert!(Duration::from_secs(3) <= stall.idle, "{stall:?}");
                if found.iter().all(|(stage, _)| *stage != stall.stage) {
                    found.push((stall.stage, at_ms));
                }
            }
        }
        let found: Vec<_> = found.iter().map(|(stage, at)| (&**stage, *at)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn working_and_idle_stages_are_not_stalled() {
        check(|at| (IDLE, at), &[]);
        // Always at work, and always progressing.
        check(|at| (Progress { busy: true, turns: at, ..IDLE }, at), &[]);
        // One long turn of many batches.
        check(|at| (Progress { busy: true, committed: at, ..IDLE }, at), &[]);
        // Each deadline is met a little late.
        check(
            |at| (Progress { due_us: Some((at / 1_000) * 1_000_000 + 500_000), ..IDLE }, at),
            &[],
        );
        // Many deadlines, so that one is always late; each is met.
        let late = |at| Progress { due_us: Some(0), deadline: Some(Stamp(at)), ..IDLE };
        check(|at| (late(at), at), &[]);
        // The store always lags, and always progresses.
        check(|at| (Progress { stored: at, offered_to_store: at + 9, ..IDLE }, at), &[]);
        // A batch is refused now and then, and others are accepted.
        let some = |at| Progress { refused_full: at / 1_000, committed: at / 2_000, ..IDLE };
        check(|at| (some(at), at), &[]);
    }

    #[test]
    fn each_stalled_stage_is_reported_after_the_patience() {
        let stops = |at: u64| at.min(5_000);
        // The sample at 5.0 s is the last one with progress, or the first one with a late deadline.
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
        let cut_off = |at: u64| Progress { last_message_us: Some(1_000 * stops(at)), ..IDLE };
        check(|at| (cut_off(at), at), &[("log", 8_000)]);
        let hangs = |at| Progress { stored: stops(at), offered_to_store: at + 1, ..IDLE };
        check(|at| (hangs(at), at), &[("store", 8_000)]);
    }

    #[test]
    fn a_full_disk_recovers_and_asks_for_no_restart() {
        let mut watch = StallDetector::new(Duration::from_secs(3));
        let mut reported = Vec::new();
        for at_ms in (0..20_000).step_by(200) {
            let refused_full = at_ms.min(10_000);
            let node = Progress { refused_full, due_us: Some(0), ..IDLE };
            let stalls = watch.look(at_ms * 1_000, &node, &[]);
            if at_ms < 12_000 {
                assert!(stalls.iter().all(|one| !one.restart_helps), "{stalls:?}");
            }
            reported.push(stalls.iter().any(|one| one.stage == "log"));
        }
        assert!(reported[50] && !reported[99], "{reported:?}");
    }

    /// The disk is full from the first refusal until a command is accepted or no more are refused.
    #[test]
    fn a_disk_is_full_while_commands_are_refused() {
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
    fn time_without_samples_does_not_count_as_stall() {
        let mut watch = StallDetector::new(Duration::from_secs(3));
        let node = Progress { busy: true, ..IDLE };
        assert!(watch.look(0, &node, &[]).is_empty());
        assert!(watch.look(3_600_000_000, &node, &[]).is_empty(), "an hour without a sample");
        let mut watch = StallDetector::new(Duration::from_secs(3));
        let node = Progress { last_message_us: Some(0), ..IDLE };
        assert!(watch.look(0, &node, &[]).is_empty());
        assert!(watch.look(60_000_000, &node, &[]).is_empty(), "no sample was taken meanwhile");
    }
}
