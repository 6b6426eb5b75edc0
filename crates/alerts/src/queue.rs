//! The owed alerts with their receivers, and when each is tried next. Computes only.
//!
//! Receivers do not wait for each other: each delivery has its own pauses, which double from
//! [`PAUSE_MIN`] to [`PAUSE_MAX`]. Older alerts go first among those that are due.

use std::collections::BTreeMap;
use std::time::Duration;

use ledger::{Alert, AlertId, Stamp};

/// Maximum number of attempts per channel at a time.
pub const ATTEMPTS_MAX: usize = 4;

/// Pause after the first failure.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// How an alert is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// As a webhook.
    Webhook,
    /// As an e-mail.
    Mail,
}

impl Channel {
    /// All channels.
    pub const ALL: [Self; 2] = [Self::Webhook, Self::Mail];
}

/// A receiver of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Receiver {
    /// The configured webhook.
    Webhook,
    /// The configured e-mail addresses of the operator.
    Operator,
    /// The e-mail endpoint of the hub.
    Hub,
    /// The e-mail endpoint of the participant.
    Participant,
}

impl Receiver {
    /// All receivers.
    pub const ALL: [Self; 4] = [Self::Webhook, Self::Operator, Self::Hub, Self::Participant];

    /// How this receiver is reached.
    #[must_use]
    pub const fn channel(self) -> Channel {
        match self {
            Self::Webhook => Channel::Webhook,
            Self::Operator | Self::Hub | Self::Participant => Channel::Mail,
        }
    }
}

/// An attempt to make now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The alert.
    pub alert: Alert,
    /// Its receiver.
    pub receiver: Receiver,
}

/// A delivery that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// The alert.
    pub alert: Alert,
    /// Its receiver.
    pub receiver: Receiver,
}

/// The owed alerts.
#[derive(Debug)]
pub struct Queue {
    horizon: Duration,
    owed: BTreeMap<AlertId, Owed>,
}

#[derive(Debug)]
struct Owed {
    alert: Alert,
    deliveries: Vec<(Receiver, Delivery)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    /// Waits for an attempt at this time, after this number of failures.
    Waiting { due: Stamp, failures: u32 },
    /// An attempt is under way.
    Trying { failures: u32 },
}

impl Queue {
    /// An empty queue. Deliveries are given up when their alert is older than `horizon`.
    #[must_use]
    pub const fn new(horizon: Duration) -> Self {
        Self { horizon, owed: BTreeMap::new() }
    }

    /// Replaces the owed alerts. Known ones keep their deliveries; for a new one `receivers`
    /// returns the receivers, which may be none.
    pub fn replace(
        &mut self,
        owed: impl IntoIterator<Item = Alert>,
        receivers: impl Fn(&Alert) -> Vec<Receiver>,
    ) {
        let mut known = std::mem::take(&mut self.owed);
        for alert in owed {
            let kept = known.remove(&alert.id).unwrap_or_else(|| {
                let due = Delivery::Waiting { due: alert.at, failures: 0 };
                let new = receivers(&alert).into_iter().map(|receiver| (receiver, due));
                Owed { alert, deliveries: new.collect() }
            });
            self.owed.insert(alert.id, kept);
        }
    }

    /// Number of owed alerts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.owed.len()
    }

    /// Whether no alert is owed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }

    /// The attempts to make now, oldest alert first, within the bounds of their channels.
    pub fn due(&mut self, now: Stamp) -> Vec<Attempt> {
        let mut room = Channel::ALL.map(|channel| (channel, ATTEMPTS_MAX - self.trying(channel)));
        let mut attempts = Vec::new();
        for owed in self.owed.values_mut() {
            if room.iter().all(|(_, room)| *room == 0) {
                break;
            }
            for (receiver, delivery) in &mut owed.deliveries {
                let Delivery::Waiting { due, failures } = *delivery else { continue };
                let channel = receiver.channel();
                let free = room.iter_mut().find(|(it, room)| *it == channel && 0 < *room);
                let Some((_, free)) = free.filter(|_| due <= now) else { continue };
                *free -= 1;
                *delivery = Delivery::Trying { failures };
                attempts.push(Attempt { alert: owed.alert, receiver: *receiver });
            }
        }
        attempts
    }

    /// An attempt has succeeded, or there is no address any more.
    pub fn succeeded(&mut self, alert: AlertId, receiver: Receiver) {
        if let Some(owed) = self.owed.get_mut(&alert) {
            owed.deliveries.retain(|(it, _)| *it != receiver);
        }
    }

    /// An attempt has failed; the next one is after a pause.
    pub fn failed(&mut self, alert: AlertId, receiver: Receiver, now: Stamp) {
        let Some(owed) = self.owed.get_mut(&alert) else { return };
        for (_, delivery) in owed.deliveries.iter_mut().filter(|(it, _)| *it == receiver) {
            if let Delivery::Trying { failures } = *delivery {
                let due = Stamp(now.0 + pause(failures).as_micros() as u64);
                *delivery = Delivery::Waiting { due, failures: failures + 1 };
            }
        }
    }

    /// Gives up the deliveries of alerts beyond the horizon, except those under way.
    pub fn give_up(&mut self, now: Stamp) -> Vec<GivenUp> {
        let horizon = self.horizon.as_micros() as u64;
        let mut given_up = Vec::new();
        for owed in self.owed.values_mut().filter(|it| it.alert.at.0 + horizon < now.0) {
            let alert = owed.alert;
            owed.deliveries.retain(|(receiver, delivery)| {
                let is_trying = matches!(delivery, Delivery::Trying { .. });
                if !is_trying {
                    given_up.push(GivenUp { alert, receiver: *receiver });
                }
                is_trying
            });
        }
        given_up
    }

    /// The alerts that need no attempt any more.
    #[must_use]
    pub fn finished(&self) -> Vec<AlertId> {
        let finished = self.owed.iter().filter(|(_, owed)| owed.deliveries.is_empty());
        finished.map(|(id, _)| *id).collect()
    }

    /// Removes alerts that were recorded as finished.
    pub fn remove(&mut self, alerts: &[AlertId]) {
        alerts.iter().for_each(|id| drop(self.owed.remove(id)));
    }

    fn trying(&self, channel: Channel) -> usize {
        let deliveries = self.owed.values().flat_map(|owed| &owed.deliveries);
        let trying = deliveries.filter(|(receiver, delivery)| {
            receiver.channel() == channel && matches!(delivery, Delivery::Trying { .. })
        });
        trying.count()
    }
}

/// The pause after one more failure.
fn pause(failures: u32) -> Duration {
    PAUSE_MIN.saturating_mul(1 << failures.min(16)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use ledger::AlertKind;

    use super::*;
    use crate::message::tests::message;

    const SECOND: u64 = 1_000_000;

    fn alert(id: u64) -> Alert {
        let alert = message(AlertKind::ThresholdReached, "1", Some("1")).alert;
        Alert { id: AlertId(id), at: Stamp(0), ..alert }
    }

    fn queue(ids: &[u64], receivers: &[Receiver]) -> Queue {
        let mut queue = Queue::new(Duration::from_secs(100));
        queue.replace(ids.iter().map(|id| alert(*id)), |_| receivers.to_vec());
        queue
    }

    /// The attempts at a time, as `id receiver`.
    fn due(queue: &mut Queue, second: u64) -> Vec<(u64, Receiver)> {
        let attempts = queue.due(Stamp(second * SECOND));
        attempts.iter().map(|it| (it.alert.id.0, it.receiver)).collect()
    }

    #[test]
    fn alert_is_finished_when_all_receivers_have_it() {
        let mut queue = queue(&[1], &[Receiver::Webhook, Receiver::Operator]);
        assert_eq!(due(&mut queue, 0), [(1, Receiver::Webhook), (1, Receiver::Operator)]);
        assert_eq!(due(&mut queue, 0), [], "both are under way");
        queue.succeeded(AlertId(1), Receiver::Webhook);
        assert_eq!(queue.finished(), []);
        queue.failed(AlertId(1), Receiver::Operator, Stamp(0));
        assert_eq!(due(&mut queue, 0), []);
        assert_eq!(due(&mut queue, 1), [(1, Receiver::Operator)]);
        queue.succeeded(AlertId(1), Receiver::Operator);
        assert_eq!(queue.finished(), [AlertId(1)]);
        queue.replace([], |_| Vec::new());
        assert!(queue.is_empty());
    }

    #[test]
    fn alert_without_receivers_is_finished_at_once() {
        assert_eq!(queue(&[1, 2], &[]).finished(), [AlertId(1), AlertId(2)]);
    }

    #[test]
    fn pauses_double_up_to_five_minutes() {
        let seconds = [0, 1, 2, 7, 8, 9, u32::MAX].map(|failures| pause(failures).as_secs());
        assert_eq!(seconds, [1, 2, 4, 128, 256, 300, 300]);
    }

    #[test]
    fn channels_do_not_wait_for_each_other() {
        let mut queue = queue(&[1, 2, 3, 4, 5, 6], &[Receiver::Webhook]);
        assert_eq!(due(&mut queue, 0).len(), ATTEMPTS_MAX);
        let owed = (1..=7).map(alert);
        queue.replace(owed, |_| vec![Receiver::Webhook, Receiver::Participant]);
        assert_eq!(due(&mut queue, 0), [(7, Receiver::Participant)], "webhooks use all attempts");
        queue.failed(AlertId(1), Receiver::Webhook, Stamp(0));
        assert_eq!(due(&mut queue, 0), [(5, Receiver::Webhook)]);
    }

    #[test]
    fn deliveries_are_given_up_after_the_horizon() {
        let mut queue = queue(&[1], &[Receiver::Webhook, Receiver::Operator]);
        assert_eq!(queue.due(Stamp(0)).len(), 2);
        queue.failed(AlertId(1), Receiver::Webhook, Stamp(0));
        assert_eq!(queue.give_up(Stamp(100 * SECOND)), []);
        let late = Stamp(101 * SECOND);
        let given_up = |receiver| vec![GivenUp { alert: alert(1), receiver }];
        assert_eq!(queue.give_up(late), given_up(Receiver::Webhook));
        assert_eq!(queue.finished(), [], "an attempt is under way");
        queue.failed(AlertId(1), Receiver::Operator, late);
        assert_eq!(queue.give_up(late), given_up(Receiver::Operator));
        assert_eq!(queue.finished(), [AlertId(1)]);
    }
}
