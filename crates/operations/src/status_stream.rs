//! The status as server-sent events: `GET /status` for a client that follows it.
//!
//! All followers share one text per second, so that ten cost little more than one. A stream ends
//! after [`STREAM_TIME`], and its client connects again: a revoked token, or a session that has
//! ended, is noticed then. It also ends when the hub stops. Bounds: [`FOLLOWERS_MAX`] streams; a
//! client that does not read gets the newest text when it reads again.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc::{self, Receiver};
use tokio::sync::{Semaphore, watch};
use tokio::time::interval;

use crate::backend::{AdminBackend, Unavailable};
use crate::status;

/// Maximum number of clients that follow the status.
const FOLLOWERS_MAX: usize = 32;
/// Time between two texts.
const INTERVAL: Duration = Duration::from_secs(1);
/// Age from which a text is made anew: a little less than the interval of the followers.
const AGE_MAX: Duration = Duration::from_millis(900);
/// Time after which a client connects again.
const STREAM_TIME: Duration = Duration::from_secs(60);

/// The texts that followers share.
#[derive(Debug)]
pub(crate) struct StatusFeed {
    newest: Mutex<Option<(Instant, Bytes)>>,
    permits: Arc<Semaphore>,
    /// Ends all streams.
    stop: watch::Sender<bool>,
}

impl Default for StatusFeed {
    fn default() -> Self {
        let permits = Arc::new(Semaphore::new(FOLLOWERS_MAX));
        Self { newest: Mutex::default(), permits, stop: watch::Sender::new(false) }
    }
}

impl StatusFeed {
    /// Begins a stream, whose first text comes at once.
    ///
    /// # Errors
    /// [`Unavailable::StatusFollowed`], if too many clients follow.
    pub(crate) fn follow(
        self: &Arc<Self>,
        backend: &Arc<dyn AdminBackend>,
    ) -> Result<StatusStream, Unavailable> {
        let permits = Arc::clone(&self.permits);
        let permit = permits.try_acquire_owned().map_err(|_| Unavailable::StatusFollowed)?;
        let (sender, texts) = mpsc::channel(1);
        let (feed, backend) = (Arc::clone(self), Arc::clone(backend));
        let mut stop = self.stop.subscribe();
        tokio::spawn(async move {
            let end = Instant::now() + STREAM_TIME;
            let mut ticks = interval(INTERVAL);
            while Instant::now() < end && !*stop.borrow_and_update() {
                tokio::select! {
                    _ = ticks.tick() => {}
                    _ = stop.changed() => break,
                    () = sender.closed() => break,
                }
                // A client that has not read the text before it gets a later one.
                let Ok(place) = sender.try_reserve() else { continue };
                place.send(feed.text(&*backend));
            }
            drop(permit);
        });
        Ok(StatusStream { texts })
    }

    /// Ends all streams: the hub stops.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// The newest text.
    fn text(&self, backend: &dyn AdminBackend) -> Bytes {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match &*newest {
            Some((at, text)) if now.duration_since(*at) < AGE_MAX => text.clone(),
            _ => {
                let text = Bytes::from([b"data: ", &*status::text(backend), b"\n\n"].concat());
                *newest = Some((now, text.clone()));
                text
            }
        }
    }
}

/// The body of a response that follows the status.
#[derive(Debug)]
pub(crate) struct StatusStream {
    texts: Receiver<Bytes>,
}

impl Body for StatusStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let text = ready!(self.texts.poll_recv(context));
        Poll::Ready(text.map(|text| Ok(Frame::data(text))))
    }
}
