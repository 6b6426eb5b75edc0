//! The consumer's decisions between two events: what to take, to handle, to commit, to release.

use std::future;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rdkafka::Message as _;
use rdkafka::consumer::{CommitMode, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::TopicPartitionList;
use tokio::task::JoinHandle;

use crate::StreamError;
use crate::assignment::Assignment;
use crate::consumer::Consumer;
use crate::context::{Rebalance, accept, release};
use crate::handler::{Finished, Unfinished};
use crate::health::Seen;
use crate::lanes::Lanes;
use crate::message::{Origin, ReceivedMessage};
use crate::settings::{Commit, Mode, Order};

/// Messages that are taken at most before handlers get some.
const TAKEN_AT_ONCE: usize = 1_000;
/// Interval of observations for [`crate::Health`].
const LOOK: Duration = Duration::from_millis(250);
/// A consumer that is full for this long stops fetching, so that it notices changes of the group.
const FULL: Duration = Duration::from_secs(1);
/// A commit without an answer for this long does not delay the next one.
const COMMIT_PATIENCE: Duration = Duration::from_secs(1);

/// Whether an error remains until partitions are assigned again.
fn is_lasting(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownPartition
            | RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::GroupAuthorizationFailed
    )
}

pub(crate) struct Work<'c> {
    consumer: &'c Consumer,
    assignment: Assignment,
    lanes: Lanes<ReceivedMessage<'c>>,
    /// The batch of each lane's handler.
    busy: Vec<Option<Busy>>,
    commits: Commits,
    /// Partitions that are released when their handlers are done.
    revocation: Option<Revocation>,
    /// Events of the client library that were looked at.
    served: u64,
    /// Fetching is stopped.
    is_held: bool,
    full_since: Option<Instant>,
    idle_until: Option<Instant>,
    next_tick: Instant,
    next_look: Instant,
    stop_deadline: Option<Instant>,
    /// The last error of a connection or a commit.
    error: Option<String>,
    /// A topic, or the group, that cannot be used.
    refusal: Option<String>,
    failure: Option<StreamError>,
}

struct Busy {
    origins: Vec<Origin>,
    /// Partition and offset of the first message.
    first: (Origin, i64),
    since: Instant,
}

struct Revocation {
    partitions: TopicPartitionList,
    deadline: Instant,
}

#[derive(Default)]
struct Commits {
    /// Something was done since the last commit.
    is_due: bool,
    requested: u64,
    last: Option<Instant>,
    /// The commit for which lanes wait.
    task: Option<JoinHandle<(TopicPartitionList, KafkaResult<()>)>>,
    /// Lanes that wait for `task`, and for the one after it.
    waiting: Vec<usize>,
    next: Vec<usize>,
}

impl<'c> Work<'c> {
    pub(crate) fn new(consumer: &'c Consumer) -> Self {
        let settings = &consumer.settings;
        let now = Instant::now();
        Self {
            consumer,
            assignment: Assignment::default(),
            lanes: Lanes::new(settings.concurrency, settings.batch_max(), settings.fill_timeout()),
            busy: (0..settings.concurrency).map(|_| None).collect(),
            commits: Commits::default(),
            revocation: None,
            served: u64::MAX,
            is_held: false,
            full_since: None,
            idle_until: None,
            next_tick: now,
            next_look: now,
            stop_deadline: None,
            error: None,
            refusal: None,
            failure: None,
        }
    }

    /// Does all that can be done without waiting for a message or a handler.
    pub(crate) async fn step(&mut self) -> Result<(), StreamError> {
        let now = Instant::now();
        self.consumer.shared.progress.ran(now);
        if !self.is_stopping(now) {
            self.hold(now)?;
            self.take(now)?;
        }
        self.serve(now).await?;
        self.commit(now)?;
        if self.next_look <= now {
            self.look(now);
        }
        Ok(())
    }

    fn is_stopping(&mut self, now: Instant) -> bool {
        let is_stopping = self.consumer.shared.is_stopping.load(Ordering::SeqCst);
        if is_stopping && self.stop_deadline.is_none() {
            self.stop_deadline = Some(now + self.consumer.settings.drain_timeout);
            let assignment = &self.assignment;
            self.lanes.retain(|message| assignment.is_before_started(message));
        }
        is_stopping
    }

    /// Takes messages from the client library while there is room.
    fn take(&mut self, now: Instant) -> Result<(), StreamError> {
        if self.idle_until.is_some_and(|until| now < until) {
            return Ok(());
        }
        for _ in 0..TAKEN_AT_ONCE {
            if self.is_full() && !self.is_held {
                return Ok(());
            }
            match self.consumer.client.next() {
                None => {
                    self.found_nothing(now);
                    return Ok(());
                }
                Some(Ok(message)) => self.push(message, now),
                Some(Err(fatal @ KafkaError::MessageConsumptionFatal(_))) => {
                    return Err(StreamError::Client(fatal));
                }
                Some(Err(error)) => self.note(&error),
            }
        }
        self.consumer.shared.wake.notify_one();
        Ok(())
    }

    /// Keeps an error for [`crate::Health`].
    fn note(&mut self, error: &KafkaError) {
        match error.rdkafka_error_code().is_some_and(is_lasting) {
            true => self.refusal = Some(error.to_string()),
            false => {
                self.error = Some(error.to_string());
                self.consumer.client.context().disconnected();
            }
        }
    }

    fn is_full(&self) -> bool {
        self.consumer.settings.waiting_max <= self.lanes.waiting()
    }

    fn found_nothing(&mut self, now: Instant) {
        let wait = self.consumer.settings.idle_wait;
        let is_idle = self.lanes.waiting() == 0 && self.busy.iter().all(Option::is_none);
        self.idle_until = (is_idle && !wait.is_zero()).then(|| now + wait);
    }

    fn push(&mut self, message: BorrowedMessage<'c>, now: Instant) {
        let (topic, partition, offset) = (message.topic(), message.partition(), message.offset());
        let Some(origin) = self.assignment.take(topic, partition, offset) else { return };
        let lane = self.lane(message.key(), origin);
        self.lanes.push(lane, ReceivedMessage::new(message, origin), now);
    }

    fn lane(&self, key: Option<&[u8]>, origin: Origin) -> usize {
        let settings = &self.consumer.settings;
        match (settings.concurrency, settings.order, key) {
            (1, ..) => 0,
            (lanes, Order::Key, Some(key)) => {
                let hash = BuildHasherDefault::<DefaultHasher>::new().hash_one(key);
                usize::try_from(hash % lanes as u64).expect("the number of lanes is a usize")
            }
            (lanes, ..) => origin.partition % lanes,
        }
    }

    /// Stops and resumes fetching.
    fn hold(&mut self, now: Instant) -> Result<(), StreamError> {
        let settings = &self.consumer.settings;
        match (self.is_full(), self.full_since) {
            (true, None) => self.full_since = Some(now),
            (false, Some(_)) if self.lanes.waiting() <= settings.waiting_max / 2 => {
                self.full_since = None;
            }
            _ => {}
        }
        let is_long = self.full_since.is_some_and(|since| FULL <= now.duration_since(since));
        let should_hold = is_long || self.consumer.shared.is_paused.load(Ordering::SeqCst);
        if should_hold == self.is_held {
            return Ok(());
        }
        self.is_held = should_hold;
        let (client, partitions) = (&self.consumer.client, self.assignment.list());
        let changed = match should_hold {
            true => client.pause(&partitions),
            false => client.resume(&partitions),
        };
        changed.map_err(StreamError::Client)
    }

    /// Acts on what the client library has reported.
    async fn serve(&mut self, now: Instant) -> Result<(), StreamError> {
        let reports = self.consumer.client.context();
        let served = reports.served();
        if served != self.served {
            self.served = served;
            while let Some((partitions, error)) = reports.next_commit_failure() {
                self.commit_failed(&partitions, &error);
            }
        }
        loop {
            if !self.end_revocation(now).await? {
                return Ok(());
            }
            match reports.next_rebalance() {
                None => return Ok(()),
                Some(Rebalance::Assigned(partitions)) => self.assign(&partitions)?,
                Some(Rebalance::Revoked(partitions)) => self.revoke(partitions, now),
            }
        }
    }

    fn assign(&mut self, partitions: &TopicPartitionList) -> Result<(), StreamError> {
        self.consumer.shared.progress.rebalances.fetch_add(1, Ordering::Relaxed);
        self.assignment.add(partitions);
        if 0 < partitions.count() {
            self.refusal = None;
        }
        let client = &self.consumer.client;
        accept(client, partitions).map_err(StreamError::Client)?;
        match self.is_held {
            true => client.pause(partitions).map_err(StreamError::Client),
            false => Ok(()),
        }
    }

    fn revoke(&mut self, partitions: TopicPartitionList, now: Instant) {
        self.consumer.shared.progress.rebalances.fetch_add(1, Ordering::Relaxed);
        self.assignment.revoke(&partitions);
        let assignment = &self.assignment;
        self.lanes.retain(|message| {
            assignment.is_assigned(message.origin) || assignment.is_before_started(message)
        });
        // A lost partition has a new owner already: its messages are handled there again.
        let is_lost = self.consumer.client.assignment_lost();
        let patience = self.consumer.settings.drain_timeout;
        let deadline = if is_lost { now } else { now + patience };
        self.revocation = Some(Revocation { partitions, deadline });
    }

    /// Releases revoked partitions once no handler works on them. Returns whether none is left.
    async fn end_revocation(&mut self, now: Instant) -> Result<bool, StreamError> {
        let Some(revocation) = &self.revocation else { return Ok(true) };
        if now < revocation.deadline && self.has_revoked_work() {
            return Ok(false);
        }
        let assignment = &self.assignment;
        self.lanes.retain(|message| !assignment.is_revoked(message.origin));
        if !self.consumer.client.assignment_lost() {
            self.commit_all().await?;
        }
        let revocation = self.revocation.take().expect("checked above");
        release(&self.consumer.client, &revocation.partitions);
        self.assignment.remove(&revocation.partitions);
        Ok(true)
    }

    /// Whether handlers work on revoked partitions, or must.
    fn has_revoked_work(&self) -> bool {
        let is_revoked = |origin: &Origin| self.assignment.is_revoked(*origin);
        let mut busy = self.busy.iter().flatten().flat_map(|busy| &busy.origins);
        busy.any(is_revoked) || self.lanes.iter().any(|message| is_revoked(&message.origin))
    }

    /// A batch for an idle lane.
    pub(crate) fn next_batch(&mut self) -> Option<(usize, Vec<ReceivedMessage<'c>>)> {
        let now = Instant::now();
        if now < self.next_tick {
            return None;
        }
        let Some((lane, batch)) = self.lanes.take(now) else {
            if let Mode::Poll { every } = self.consumer.settings.mode {
                self.next_tick = now + every;
            }
            return None;
        };
        for message in &batch {
            self.assignment.start(message);
        }
        let mut origins: Vec<Origin> = batch.iter().map(|message| message.origin).collect();
        origins.dedup();
        let first = (batch[0].origin, batch[0].offset());
        self.busy[lane] = Some(Busy { origins, first, since: now });
        Some((lane, batch))
    }

    /// Records the end of a handler.
    pub(crate) fn finish(&mut self, finished: Finished<'c>) {
        let Finished { lane, batch, outcome } = finished;
        self.busy[lane] = None;
        match outcome {
            Ok(()) => {
                for message in &batch {
                    self.assignment.done(message.origin, message.offset());
                }
                self.consumer.shared.progress.done(batch.len(), Instant::now());
                self.refusal = None;
                self.commits.is_due = true;
                if self.consumer.settings.commit == Commit::Sync {
                    return self.commits.next.push(lane);
                }
            }
            Err(Unfinished::Stopped) => {}
            Err(Unfinished::Failed(failure)) => {
                self.failure.get_or_insert(failure);
                self.consumer.control().stop();
            }
        }
        self.lanes.finish(lane);
    }

    /// Requests a commit if one is due.
    fn commit(&mut self, now: Instant) -> Result<(), StreamError> {
        if !self.commits.is_due {
            return Ok(());
        }
        let since_last = self.commits.last.map(|last| now.duration_since(last));
        let is_time = match self.consumer.settings.commit {
            Commit::Sync => self.commits.task.is_none(),
            Commit::Async => {
                let answered = self.consumer.client.context().commits_answered();
                self.commits.requested <= answered
                    || since_last.is_some_and(|since| COMMIT_PATIENCE <= since)
            }
            Commit::Interval(interval) => since_last.is_none_or(|since| interval <= since),
        };
        if !is_time {
            return Ok(());
        }
        self.commits.is_due = false;
        let positions = self.assignment.take_positions().map_err(StreamError::Client)?;
        if self.consumer.settings.commit == Commit::Sync {
            self.commits.waiting = std::mem::take(&mut self.commits.next);
        }
        match positions {
            Some(positions) => self.request(positions, now),
            None => self.release_waiting(),
        }
        Ok(())
    }

    fn request(&mut self, positions: TopicPartitionList, now: Instant) {
        self.commits.last = Some(now);
        self.consumer.shared.progress.commits.fetch_add(1, Ordering::Relaxed);
        if self.consumer.settings.commit == Commit::Sync {
            self.commits.task = Some(self.commit_and_wait(positions));
            return;
        }
        self.commits.requested += 1;
        if let Err(error) = self.consumer.client.commit(&positions, CommitMode::Async) {
            self.commits.requested -= 1;
            self.commit_failed(&positions, &error);
        }
    }

    fn commit_and_wait(
        &self,
        positions: TopicPartitionList,
    ) -> JoinHandle<(TopicPartitionList, KafkaResult<()>)> {
        let client = Arc::clone(&self.consumer.client);
        tokio::task::spawn_blocking(move || {
            let result = client.commit(&positions, CommitMode::Sync);
            (positions, result)
        })
    }

    fn commit_failed(&mut self, positions: &TopicPartitionList, error: &KafkaError) {
        self.consumer.shared.progress.commit_failures.fetch_add(1, Ordering::Relaxed);
        self.assignment.commit_failed(positions);
        self.commits.is_due = true;
        self.error = Some(format!("commit: {error}"));
    }

    fn release_waiting(&mut self) {
        for lane in std::mem::take(&mut self.commits.waiting) {
            self.lanes.finish(lane);
        }
    }

    /// Returns when the commit for which lanes wait was answered.
    pub(crate) async fn committed(&mut self) {
        let Some(task) = &mut self.commits.task else { return future::pending().await };
        let answer = task.await.expect("a commit does not panic");
        self.commits.task = None;
        if let (positions, Err(error)) = answer {
            self.commit_failed(&positions, &error);
        }
        self.release_waiting();
    }

    /// Commits all that is done, and waits for the answer.
    async fn commit_all(&mut self) -> Result<(), StreamError> {
        // Commits of two threads could arrive in another order.
        if self.commits.task.is_some() {
            self.committed().await;
        }
        let positions = self.assignment.take_positions().map_err(StreamError::Client)?;
        let Some(positions) = positions else { return Ok(()) };
        self.consumer.shared.progress.commits.fetch_add(1, Ordering::Relaxed);
        let answer = self.commit_and_wait(positions).await.expect("a commit does not panic");
        if let (positions, Err(error)) = answer {
            self.commit_failed(&positions, &error);
        }
        Ok(())
    }

    /// Whether the consumer has stopped.
    pub(crate) fn is_over(&self, is_idle: bool) -> bool {
        let Some(deadline) = self.stop_deadline else { return false };
        (is_idle && self.lanes.waiting() == 0) || deadline <= Instant::now()
    }

    /// Commits the positions of all finished work.
    pub(crate) async fn end(mut self) -> Result<(), StreamError> {
        self.commit_all().await?;
        self.failure.map_or(Ok(()), Err)
    }

    /// When something is to be done without an event.
    pub(crate) fn next_timer(&self) -> Instant {
        let has_waiting = 0 < self.lanes.waiting();
        let due = self.lanes.next_due().filter(|_| has_waiting);
        let tick = Some(self.next_tick).filter(|_| has_waiting);
        let first_due = due.map(|due| tick.map_or(due, |tick| due.max(tick)));
        let commit = match self.consumer.settings.commit {
            Commit::Interval(interval) if self.commits.is_due => {
                self.commits.last.map(|last| last + interval)
            }
            _ => None,
        };
        let deadline = self.revocation.as_ref().map(|revocation| revocation.deadline);
        let timers = [first_due, commit, deadline, self.idle_until, self.stop_deadline];
        timers.into_iter().flatten().fold(self.next_look, Instant::min)
    }

    /// Updates the observations for [`crate::Health`].
    fn look(&mut self, now: Instant) {
        self.next_look = now + LOOK;
        let reports = self.consumer.client.context();
        if let Some(error) = reports.take_error() {
            self.error = Some(error);
        }
        if reports.is_connected() {
            self.error = None;
        }
        let lag = self.lag();
        if lag.is_none_or(|lag| lag == 0) {
            self.consumer.shared.progress.idle(now);
        }
        let oldest = self.busy.iter().flatten().min_by_key(|busy| busy.since);
        self.consumer.shared.progress.see(Seen {
            partitions: self.assignment.count(),
            lag,
            paused: self.consumer.shared.is_paused.load(Ordering::SeqCst),
            oldest: oldest.map(|busy| (busy.since, self.name(busy))),
            error: self.refusal.clone().or_else(|| self.error.clone()),
        });
    }

    /// Messages that are not done: those in the topics, and those here.
    fn lag(&self) -> Option<i64> {
        let here = i64::try_from(self.assignment.unfinished()).unwrap_or(i64::MAX);
        let unread = self.consumer.client.context().unread();
        unread.or_else(|| (0 < here).then_some(0)).map(|unread| unread.saturating_add(here))
    }

    fn name(&self, busy: &Busy) -> String {
        let (topic, partition) = self.assignment.name(busy.first.0);
        format!("message {} of {topic}[{partition}]", busy.first.1)
    }
}
