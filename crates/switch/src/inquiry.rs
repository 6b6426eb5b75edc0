//! How far notices are whose delivery has not ended. Operators ask; the I/O threads answer, for the
//! lanes are their own. A question is a line in a list and one wake-up: nothing of it is on the way
//! of a message. Bound: who asks is answered, or gives up, before he asks again.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use delivery::{AttemptResult, Moment, Waits};
use ledger::NoticeId;
use node::outbox;
use ports::Clock as _;
use record::tried::Tried;

use crate::Traffic;
use crate::edge::Edge;

/// A notice on its way, as of now. Attempts are those since this switch started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Underway {
    /// The notice.
    pub notice: NoticeId,
    /// Attempts begun.
    pub attempts: u32,
    /// When the first one began, in milliseconds since the epoch.
    pub first_attempt_ms: Option<u64>,
    /// How the last one ended.
    pub last: Option<AttemptResult>,
    /// Those that have ended, oldest first; the newest of many.
    pub tried: Vec<Tried>,
    /// What it waits for.
    pub waits: Waits,
    /// When the next attempt may begin, if it waits for that; in milliseconds since the epoch.
    pub next_attempt_ms: Option<u64>,
}

/// Questions to one thread.
#[derive(Debug, Default)]
pub(crate) struct Inquiries(Mutex<Vec<Inquiry>>);

#[derive(Debug)]
enum Inquiry {
    /// How far these are.
    Underway { notices: Arc<[NoticeId]>, answer: SyncSender<Vec<Underway>> },
    /// Which wait for an address, so many at most.
    Parked { most: usize, answer: SyncSender<Vec<NoticeId>> },
}

impl Inquiries {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Inquiry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Traffic {
    /// How far these notices are. Those that ended, or are another node's to send, are left out; so
    /// are those of a thread that has not answered when `patience` ends. Blocks.
    #[must_use]
    pub fn underway(&self, notices: &[NoticeId], patience: Duration) -> Vec<Underway> {
        let deadline = Instant::now() + patience;
        let notices: Arc<[NoticeId]> = notices.into();
        let mut found = self.ask_all(deadline, |answer| Inquiry::Underway {
            notices: Arc::clone(&notices),
            answer,
        });
        found.sort_by_key(|underway| underway.notice);
        found
    }

    /// Notices that wait for an address, the oldest `most` of them. Those of a thread that has not
    /// answered when `patience` ends are left out. Blocks.
    #[must_use]
    pub fn parked(&self, most: usize, patience: Duration) -> Vec<NoticeId> {
        let deadline = Instant::now() + patience;
        let mut found = self.ask_all(deadline, |answer| Inquiry::Parked { most, answer });
        found.sort_unstable();
        found.truncate(most);
        found
    }

    /// Asks each thread, which answers once.
    fn ask_all<T>(
        &self,
        deadline: Instant,
        inquiry: impl Fn(SyncSender<Vec<T>>) -> Inquiry,
    ) -> Vec<T> {
        let (answer, answers) = sync_channel(self.threads.len());
        for (shown, mail) in self.threads.iter().zip(&self.mail) {
            shown.inquiries.lock().push(inquiry(answer.clone()));
            mail.notify_one();
        }
        drop(answer);
        let mut found = Vec::new();
        for _ in &self.threads {
            let left = deadline.saturating_duration_since(Instant::now());
            match answers.recv_timeout(left) {
                Ok(some) => found.extend(some),
                Err(_) => break,
            }
        }
        found
    }
}

/// Answers what this thread was asked.
pub(crate) fn answer(edge: &Edge) {
    let asked = std::mem::take(&mut *edge.shown.inquiries.lock());
    for inquiry in asked {
        // The one who asked may have given up.
        match inquiry {
            Inquiry::Underway { notices, answer } => {
                let found = notices.iter().filter_map(|notice| look(edge, *notice)).collect();
                drop(answer.send(found));
            }
            Inquiry::Parked { most, answer } => {
                drop(answer.send(edge.outbox.borrow().delivery().parked().take(most).collect()));
            }
        }
    }
}

fn look(edge: &Edge, notice: NoticeId) -> Option<Underway> {
    let (outbox, now) = (edge.outbox.borrow(), edge.clock.now());
    let delivery = outbox.delivery();
    let course = delivery.course(notice, Moment(now.monotonic_us))?;
    let at_ms = |moment| outbox::wall_ms(moment, now);
    let next_attempt_ms = match course.waits {
        Waits::Until(moment) => Some(at_ms(moment)),
        _ => None,
    };
    Some(Underway {
        notice,
        attempts: course.attempts,
        first_attempt_ms: course.first_attempt.map(at_ms),
        last: course.last,
        tried: outbox::recorded_attempts(delivery.tried(notice), now),
        waits: course.waits,
        next_attempt_ms,
    })
}
