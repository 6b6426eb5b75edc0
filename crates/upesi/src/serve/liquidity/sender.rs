//! Sends the owed alerts, and records those that need no attempt any more.

use std::sync::Arc;

use alerts::{AlertMessage, Attempt, Channel, GivenUp, Queue, Receiver};
use fspiop::endpoint::EndpointType;
use ledger::{Alert, AlertId, AlertKind, FinishAlerts, ParticipantIndex, Stamp, State};
use node::ParticipantsView;
use ports::Clock;
use tokio::task::JoinSet;

use super::node_access::{read, record};
use super::status::AlertCounts;
use crate::config::AlertReceivers;
use crate::serve::admin_backend::NodeBackend;

/// Alerts that one record finishes at most.
const FINISHED_MAX: usize = 1_000;

/// The sender of alerts.
pub(super) struct Sender {
    backend: Arc<NodeBackend>,
    receivers: AlertReceivers,
    owed: Vec<Alert>,
    /// Number of the newest alert, and number of owed ones, when `owed` was copied.
    copied: (AlertId, usize),
    queue: Queue,
    attempts: JoinSet<Ended>,
    /// The error of each channel's last attempt, if it failed.
    failing: [Option<String>; 2],
}

/// The end of an attempt.
struct Ended {
    attempt: Attempt,
    result: Result<Sent, String>,
}

/// A successful attempt.
enum Sent {
    Accepted,
    /// There is no address any more.
    NoAddress,
}

/// The alerts that the state owes.
struct OwedAlerts {
    raised: usize,
    dropped: u64,
    at: (AlertId, usize),
    /// `None` if they have not changed.
    alerts: Option<Vec<Alert>>,
}

impl Sender {
    pub(super) fn new(backend: Arc<NodeBackend>, receivers: AlertReceivers) -> Self {
        Self {
            backend,
            owed: Vec::new(),
            copied: (AlertId(0), 0),
            queue: Queue::new(receivers.horizon),
            receivers,
            attempts: JoinSet::new(),
            failing: [None, None],
        }
    }

    /// Reads the alerts that the state owes.
    pub(super) async fn read(&mut self) {
        let known = self.copied;
        let found = read(&self.backend, move |state| OwedAlerts::of(state, known)).await;
        let Some(OwedAlerts { raised, dropped, at, alerts }) = found else { return };
        self.copied = at;
        self.owed = alerts.unwrap_or_else(|| std::mem::take(&mut self.owed));
        let oldest = self.owed.first().map_or(0, |alert| self.now().0.saturating_sub(alert.at.0));
        self.backend.liquidity.publish(&AlertCounts {
            raised: raised as u64,
            owed: self.owed.len() as u64,
            oldest_owed_us: oldest,
            dropped,
            ..AlertCounts::default()
        });
        if self.owed.is_empty() && self.queue.is_empty() {
            return;
        }
        let view = self.backend.handle.view();
        let served = self.backend.handle.served();
        let is_served = |alert: &Alert| match (&served, view.get(alert.participant)) {
            (Some(served), Some(participant)) => served.contains(&participant.name),
            _ => true,
        };
        let mine = self.owed.iter().filter(|alert| is_served(alert)).copied();
        self.queue.replace(mine, |alert| receivers_of(alert, &self.receivers, &view));
    }

    /// Waits for the end of an attempt; for ever if none is under way.
    pub(super) async fn next_end(&mut self) {
        match self.attempts.join_next().await {
            Some(Ok(ended)) => self.note_end(ended),
            // A defect of this program: the thread ends, and with it the switch.
            Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
            None => std::future::pending().await,
        }
    }

    /// Starts the attempts that are due, and records finished alerts.
    pub(super) async fn work(&mut self) {
        let now = self.now();
        for given_up in self.queue.give_up(now) {
            self.note_given_up(&given_up);
        }
        for attempt in self.queue.due(now) {
            self.begin(attempt, now);
        }
        let finished = self.queue.finished();
        for some in finished.chunks(FINISHED_MAX) {
            let finish = FinishAlerts { alerts: some.to_vec() };
            // Alerts that were not recorded as finished are recorded with the next ones.
            let Ok(_) = record(&self.backend, finish, "alerts sent or without receiver").await
            else {
                return;
            };
            self.queue.remove(some);
            self.owed.retain(|alert| some.binary_search(&alert.id).is_err());
        }
    }

    fn begin(&mut self, attempt: Attempt, now: Stamp) {
        let view = self.backend.handle.view();
        let Attempt { alert, receiver } = attempt;
        let participant = view.get(alert.participant).map(|it| it.name.to_string());
        let participant = participant.unwrap_or_default();
        let message = AlertMessage { alert, hub: view.hub.to_string(), participant };
        let to = addresses(&attempt, &self.receivers, &view);
        let AlertReceivers { webhook, mailer, .. } = self.receivers.clone();
        self.attempts.spawn(async move {
            let sent = match (receiver.channel(), webhook, mailer) {
                (Channel::Webhook, Some(webhook), _) => {
                    webhook.send(&message, now.millis() / 1_000).await
                }
                (Channel::Mail, _, Some(mailer)) if !to.is_empty() => {
                    mailer.send(&message, &to).await
                }
                _ => return Ended { attempt, result: Ok(Sent::NoAddress) },
            };
            Ended { attempt, result: sent.map(|()| Sent::Accepted) }
        });
    }

    fn note_end(&mut self, Ended { attempt, result }: Ended) {
        let Attempt { alert, receiver } = attempt;
        let channel = receiver.channel();
        match result {
            Ok(Sent::NoAddress) => self.queue.succeeded(alert.id, receiver),
            Ok(Sent::Accepted) => {
                self.queue.succeeded(alert.id, receiver);
                self.backend.liquidity.count_sent(channel);
                if self.failing[channel as usize].take().is_some() {
                    tracing::info!(channel = name(channel), "alerts are sent again");
                }
            }
            Err(error) => {
                self.queue.failed(alert.id, receiver, self.now());
                self.backend.liquidity.count_failed(channel);
                self.note_failure(alert.id, channel, error);
            }
        }
    }

    /// Logs an error unless the channel's last attempt had the same.
    fn note_failure(&mut self, alert: AlertId, channel: Channel, error: String) {
        let failing = &mut self.failing[channel as usize];
        if failing.as_ref() != Some(&error) {
            tracing::warn!(
                alert = alert.0,
                channel = name(channel),
                %error,
                retried_seconds = self.receivers.horizon.as_secs(),
                "an alert is not sent; it is retried"
            );
            *failing = Some(error);
        }
    }

    fn note_given_up(&self, GivenUp { alert, receiver }: &GivenUp) {
        self.backend.liquidity.count_given_up();
        tracing::error!(
            alert = alert.id.0,
            channel = name(receiver.channel()),
            after_seconds = self.receivers.horizon.as_secs(),
            "an alert was not sent and is given up"
        );
    }

    fn now(&self) -> Stamp {
        self.backend.clock.now().wall
    }
}

impl OwedAlerts {
    fn of(state: &State, known: (AlertId, usize)) -> Self {
        let owed = state.alerts().owed();
        let at = (state.alerts().numbers().last, owed.len());
        let alerts = (at != known).then(|| owed.copied().collect());
        let dropped = state.alerts().numbers().dropped;
        Self { raised: state.alerts().alarms().count(), dropped, at, alerts }
    }
}

/// The receivers that have an address now.
fn receivers_of(
    alert: &Alert,
    receivers: &AlertReceivers,
    view: &ParticipantsView,
) -> Vec<Receiver> {
    let is_reachable = |receiver: &Receiver| match receiver.channel() {
        Channel::Webhook => receivers.webhook.is_some(),
        Channel::Mail => {
            let attempt = Attempt { alert: *alert, receiver: *receiver };
            receivers.mailer.is_some() && !addresses(&attempt, receivers, view).is_empty()
        }
    };
    Receiver::ALL.into_iter().filter(is_reachable).collect()
}

/// The e-mail addresses of a receiver; empty for a webhook.
fn addresses(
    Attempt { alert, receiver }: &Attempt,
    receivers: &AlertReceivers,
    view: &ParticipantsView,
) -> Vec<String> {
    let kind = match alert.kind {
        AlertKind::ThresholdReached | AlertKind::ThresholdCleared => EndpointType::CapBreachEmail,
        AlertKind::NetDebitCapChanged => EndpointType::CapAdjustmentEmail,
        AlertKind::SettlementPositionChange => EndpointType::SettlementEmail,
    };
    let endpoint_of = |index: ParticipantIndex| {
        let endpoints = view.get(index).map_or(&[][..], |participant| &participant.endpoints);
        let own = endpoints.iter().filter(|(name, _)| name == kind.as_str());
        own.map(|(_, address)| address.clone()).collect()
    };
    match receiver {
        Receiver::Webhook => Vec::new(),
        Receiver::Operator => receivers.mail_to.clone(),
        Receiver::Hub => endpoint_of(ParticipantIndex::HUB),
        Receiver::Participant => endpoint_of(alert.participant),
    }
}

const fn name(channel: Channel) -> &'static str {
    match channel {
        Channel::Webhook => "webhook",
        Channel::Mail => "e-mail",
    }
}
