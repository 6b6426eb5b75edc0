//! Server-sent events: the body of `GET /events` for a client that follows the stream.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use events::Position;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, Interval, interval_at};

use crate::events::EventPage;

/// Interval of the heartbeats, by which a client notices a dead connection.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The events after a page, as they become durable. It ends with the sender of the pages.
#[derive(Debug)]
pub(crate) struct EventStream {
    /// The text of the first page.
    first: Option<Bytes>,
    pages: Receiver<EventPage>,
    /// The position that the client has.
    next: Position,
    heartbeats: Interval,
}

impl EventStream {
    pub(crate) fn new(first: &EventPage, pages: Receiver<EventPage>) -> Self {
        let heartbeats = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        Self { first: Some(text_of(first)), pages, next: first.next, heartbeats }
    }

    fn poll_text(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(text) = self.first.take() {
            return Poll::Ready(Some(text));
        }
        match self.pages.poll_recv(context) {
            Poll::Ready(Some(page)) => {
                self.next = page.next;
                Poll::Ready(Some(text_of(&page)))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                ready!(self.heartbeats.poll_tick(context));
                Poll::Ready(Some(format!(":\nid: {}\n\n", self.next).into()))
            }
        }
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.poll_text(context).map(|text| text.map(|text| Ok(Frame::data(text))))
    }
}

/// The events, and the position after the page, which may have none.
fn text_of(page: &EventPage) -> Bytes {
    let mut text = String::new();
    for event in &page.events {
        write!(text, "id: {}\ndata: {}\n\n", event.position, event.json).expect("text grows");
    }
    write!(text, "id: {}\n\n", page.next).expect("text grows");
    text.into()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use ledger::LogIndex;
    use tokio::sync::mpsc::channel;

    use super::*;
    use crate::events::PagedEvent;

    fn page(records: &[u64], next: u64) -> EventPage {
        let event = |record: &u64| PagedEvent {
            position: Position { record: LogIndex(*record), number: 1 },
            json: format!("{{\"id\":\"{record}.1\"}}"),
        };
        let events = records.iter().map(event).collect();
        EventPage { events, next: Position::after(LogIndex(next)), end: LogIndex(next) }
    }

    #[tokio::test]
    async fn pages_become_events_and_a_pause_a_heartbeat() {
        let (sender, receiver) = channel(1);
        let mut stream = EventStream::new(&page(&[3], 4), receiver);
        stream.heartbeats = tokio::time::interval(Duration::from_millis(20));
        let first = "id: 3.1\ndata: {\"id\":\"3.1\"}\n\nid: 4\n\n";
        for expected in [first, ":\nid: 4\n\n"] {
            let frame = stream.frame().await.expect("it has not ended").expect("it never fails");
            assert_eq!(frame.into_data().expect("data"), expected);
        }
        sender.send(page(&[], 9)).await.expect("it is read");
        drop(sender);
        let rest = stream.collect().await.expect("it never fails").to_bytes();
        let rest = String::from_utf8(rest.to_vec()).expect("text");
        assert_eq!(rest, "id: 9\n\n");
    }
}
