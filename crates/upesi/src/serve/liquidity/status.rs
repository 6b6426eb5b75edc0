//! The values that the thread publishes for metrics and for `GET /liquidity`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alerts::Channel;

use super::enrolled::EnrolledCertificates;
use super::participant_values::ParticipantValues;
use super::settlement_values::SettlementValues;
use super::trend::Samples;
use crate::serve::recent::RecentActivity;

/// Values that the thread publishes.
#[derive(Debug, Default)]
pub(crate) struct LiquidityStatus {
    raised: AtomicU64,
    owed: AtomicU64,
    oldest_owed_us: AtomicU64,
    dropped: AtomicU64,
    sent: [AtomicU64; 2],
    failed: [AtomicU64; 2],
    given_up: AtomicU64,
    samples: Mutex<Samples>,
    participants: Mutex<Arc<ParticipantValues>>,
    settlement: Mutex<SettlementValues>,
    enrolled: Mutex<EnrolledCertificates>,
    pub(crate) recent: RecentActivity,
}

/// Numbers of alarms and alerts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AlertCounts {
    /// Alarms that are raised.
    pub(crate) raised: u64,
    /// Alerts that are owed.
    pub(crate) owed: u64,
    /// Age of the oldest owed alert, in microseconds.
    pub(crate) oldest_owed_us: u64,
    /// Alerts that were dropped, because too many were owed.
    pub(crate) dropped: u64,
    /// Webhooks that were accepted.
    pub(crate) webhooks_sent: u64,
    /// Attempts to send a webhook that failed.
    pub(crate) webhooks_failed: u64,
    /// E-mails that the relay accepted.
    pub(crate) mails_sent: u64,
    /// Attempts to send an e-mail that failed.
    pub(crate) mails_failed: u64,
    /// Deliveries that were given up.
    pub(crate) given_up: u64,
}

impl LiquidityStatus {
    pub(crate) fn counts(&self) -> AlertCounts {
        let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let of = |values: &[AtomicU64; 2], channel: Channel| read(&values[at(channel)]);
        AlertCounts {
            raised: read(&self.raised),
            owed: read(&self.owed),
            oldest_owed_us: read(&self.oldest_owed_us),
            dropped: read(&self.dropped),
            webhooks_sent: of(&self.sent, Channel::Webhook),
            webhooks_failed: of(&self.failed, Channel::Webhook),
            mails_sent: of(&self.sent, Channel::Mail),
            mails_failed: of(&self.failed, Channel::Mail),
            given_up: read(&self.given_up),
        }
    }

    /// The samples of all positions.
    pub(crate) fn samples(&self) -> MutexGuard<'_, Samples> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The values of participants, as of the last second.
    pub(crate) fn participants(&self) -> Arc<ParticipantValues> {
        Arc::clone(&self.participants.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn publish_participants(&self, values: ParticipantValues) {
        let values = Arc::new(values);
        *self.participants.lock().unwrap_or_else(PoisonError::into_inner) = values;
    }

    /// Windows and settlements, as of the last second.
    pub(crate) fn settlement(&self) -> SettlementValues {
        self.settlement.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn publish_settlement(&self, values: SettlementValues) {
        *self.settlement.lock().unwrap_or_else(PoisonError::into_inner) = values;
    }

    /// The certificates of participants, as of the last second.
    pub(crate) fn enrolled(&self) -> EnrolledCertificates {
        self.enrolled.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn publish_enrolled(&self, certificates: EnrolledCertificates) {
        *self.enrolled.lock().unwrap_or_else(PoisonError::into_inner) = certificates;
    }

    /// Publishes the numbers of the state; of [`AlertCounts`], the other ones are counted here.
    pub(super) fn publish(&self, state: &AlertCounts) {
        self.raised.store(state.raised, Ordering::Relaxed);
        self.owed.store(state.owed, Ordering::Relaxed);
        self.oldest_owed_us.store(state.oldest_owed_us, Ordering::Relaxed);
        self.dropped.store(state.dropped, Ordering::Relaxed);
    }

    pub(super) fn count_sent(&self, channel: Channel) {
        self.sent[at(channel)].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_failed(&self, channel: Channel) {
        self.failed[at(channel)].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_given_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }
}

const fn at(channel: Channel) -> usize {
    match channel {
        Channel::Webhook => 0,
        Channel::Mail => 1,
    }
}
