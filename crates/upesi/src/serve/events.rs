//! The hub's events, for `GET /events` and for the publisher.
//!
//! The events of the past are not stored. A reader decides the durable log again on a state of its
//! own, from the newest snapshot before the wanted position, and an [`events::EventRecorder`]
//! observes it. The sequencer knows nothing of readers and never waits for one.
//!
//! Costs of a reader: the memory of a state, and the decisions of the kernel once more, on its own
//! thread. Without a reader nothing is decided again. Final transfers are read from the cold store
//! of the switch.

mod end_watch;
mod pages;
#[cfg(feature = "kafka")]
mod publisher;
mod publisher_status;
mod replay;

pub(crate) use self::pages::EventPages;
#[cfg(feature = "kafka")]
pub(crate) use self::publisher::EventPublisher;
pub(crate) use self::publisher_status::PublisherStatus;
pub(crate) use self::replay::EventSource;

/// Without the feature `kafka`, no events are published.
#[cfg(not(feature = "kafka"))]
pub(crate) enum EventPublisher {}

#[cfg(not(feature = "kafka"))]
impl EventPublisher {
    pub(crate) const fn start(
        _config: &crate::config::Config,
        _handle: &node::Handle<switch::ForwardedMessage>,
        _log: (&crate::inspect::live_replay::ReplaySource, node::SystemClock),
        _traffic: &std::sync::Arc<switch::Traffic>,
    ) -> Result<Option<Self>, crate::CliError> {
        Ok(None)
    }

    pub(crate) const fn status(&self) -> std::sync::Arc<PublisherStatus> {
        match *self {}
    }

    pub(crate) const fn stop(self) {
        match self {}
    }
}
