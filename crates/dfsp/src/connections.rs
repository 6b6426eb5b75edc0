//! Pooled keep-alive connections to one hub: the sending side of a simulator.
//!
//! A message is one buffer. When a connection is free it is written at once, inside the caller, by
//! one system call; else it waits in a bounded queue and is written by the connection that becomes
//! free first. Connections are opened as they are needed, up to a limit, and the most recently
//! used one is taken first, so that few stay busy. A message that got no answer, or a retryable
//! status (408, 425, 429, 5xx), is sent again unchanged after a pause, as FSPIOP allows. Nothing
//! has a timer of its own: the owner calls [`HubConnections::maintain`] every [`TICK`].
//!
//! A hub may have several addresses, one per node. The first one is the home node. If a node cannot
//! be reached, does not respond, or returns 503, all messages go to the next one, as with a load
//! balancer. The home node is tried again after a while, which grows with each failure.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, spawn_local};

use crate::http1;
use crate::security::{FspTls, call};
use crate::socket_options::tune;
use crate::wire::SharedWire;

/// Period in which the owner calls [`HubConnections::maintain`].
pub const TICK: Duration = Duration::from_millis(20);
const SPARE_BUFFERS_MAX: usize = 256;
const SPARE_BUFFER_BYTES_MAX: usize = 16 * 1024;
const READ_BYTES: usize = 4 * 1024;
/// Maximum bytes of an error response that are kept.
const ERROR_BYTES_MAX: usize = 200;
/// Time in ticks for which an unreachable node is not used. It doubles with each failure.
const AWAY: u64 = 50;
/// The same for a node that accepted messages without responding.
const AWAY_SILENT: u64 = 400;
const AWAY_MAX: u64 = 1_600;

/// Bounds of the sending side.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionOptions {
    /// Maximum number of open connections.
    pub connections_max: usize,
    /// Maximum number of messages that wait for a connection or for their next attempt.
    pub queue_max: usize,
    /// Attempts after the first one.
    pub resends_max: u8,
    /// Pause before each further attempt.
    pub resend_pause: Duration,
    /// Timeout of a response.
    pub answer_timeout: Duration,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            connections_max: 16,
            queue_max: 16_384,
            resends_max: 20,
            resend_pause: Duration::from_millis(250),
            answer_timeout: Duration::from_secs(10),
        }
    }
}

/// Result of sending a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendResult {
    /// The status of the last response.
    Status(u16),
    /// No response to any attempt.
    Lost,
}

/// The queue is full; nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCapacity;

/// Counts of all connections so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Messages with a response of any status.
    pub answered: u64,
    /// Attempts after the first.
    pub resent: u64,
    /// Messages given up without a successful response.
    pub lost: u64,
    /// Connections opened.
    pub opened: u64,
    /// Connections that could not be opened.
    pub unreachable: u64,
    /// Attempts without a response in time.
    pub silent: u64,
    /// Attempts whose connection ended before a response, or with an invalid one.
    pub broken: u64,
    /// Responses with a status of 500 or higher.
    pub unavailable: u64,
}

/// The first error of each kind, as the hub or the system reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstErrors {
    /// The reason why a connection could not be opened.
    pub unreachable: String,
    /// A response of 500 or higher: its status, and the start of its body.
    pub unavailable: String,
    /// Data received instead of a valid response.
    pub broken: String,
}

/// Connections to one hub; `T` identifies the message that a response belongs to.
pub struct HubConnections<T>(Rc<Inner<T>>);

struct Inner<T> {
    /// Never empty; the first one is the home node.
    addresses: Vec<SocketAddr>,
    tls: Option<FspTls>,
    options: ConnectionOptions,
    answered: Box<dyn Fn(T, SendResult)>,
    state: RefCell<State<T>>,
}

struct State<T> {
    connections: Vec<HubConnection<T>>,
    idle: Vec<usize>,
    vacant: Vec<usize>,
    queue: VecDeque<Message<T>>,
    later: VecDeque<(u64, Message<T>)>,
    spare: Vec<Vec<u8>>,
    opening: usize,
    /// Number of consecutive failed attempts to open a connection.
    refused: usize,
    /// Index of the current address.
    place: usize,
    /// The tick at which the home node is tried again, and the length of the pause before it.
    home_tick: u64,
    away: u64,
    ticks: u64,
    counts: ConnectionCounts,
    first_errors: FirstErrors,
    /// Whether the last connection attempt failed.
    is_unreachable: bool,
    closed: bool,
}

/// The reason for switching to the next node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeFailure {
    Unreachable,
    Silent,
}

struct HubConnection<T> {
    place: usize,
    write: Option<SharedWire>,
    reader: Option<AbortHandle>,
    current: Option<Message<T>>,
    sent_tick: u64,
}

struct Message<T> {
    bytes: Vec<u8>,
    token: T,
    resends: u8,
}

impl<T: Copy + 'static> HubConnections<T> {
    /// Connections to a hub with these addresses; `answered` is called with the result of every
    /// accepted message.
    ///
    /// # Panics
    ///
    /// If `addresses` is empty.
    pub fn new(
        addresses: &[SocketAddr],
        options: ConnectionOptions,
        answered: impl Fn(T, SendResult) + 'static,
    ) -> Self {
        Self::over(None, addresses, options, answered)
    }

    /// The same, over TLS if it is given. The certificate of a hub must contain its host.
    ///
    /// # Panics
    ///
    /// If `addresses` is empty.
    pub fn over(
        tls: Option<FspTls>,
        addresses: &[SocketAddr],
        options: ConnectionOptions,
        answered: impl Fn(T, SendResult) + 'static,
    ) -> Self {
        assert!(!addresses.is_empty(), "a hub has an address");
        Self(Rc::new(Inner {
            addresses: addresses.to_vec(),
            tls,
            options,
            answered: Box::new(answered),
            state: RefCell::new(State {
                connections: Vec::new(),
                idle: Vec::new(),
                vacant: Vec::new(),
                queue: VecDeque::new(),
                later: VecDeque::new(),
                spare: Vec::new(),
                opening: 0,
                refused: 0,
                place: 0,
                home_tick: 0,
                away: 0,
                ticks: 0,
                counts: ConnectionCounts::default(),
                first_errors: FirstErrors::default(),
                is_unreachable: false,
                closed: false,
            }),
        }))
    }

    /// An empty buffer to build the next message in.
    #[must_use]
    pub fn buffer(&self) -> Vec<u8> {
        let spare = self.0.state.borrow_mut().spare.pop();
        spare.unwrap_or_else(|| Vec::with_capacity(4 * 1024))
    }

    /// Sends one whole request, immediately if a connection is free.
    ///
    /// # Errors
    ///
    /// [`NoCapacity`] if `queue_max` messages are waiting or the connections are closed.
    pub fn send(&self, bytes: Vec<u8>, token: T) -> Result<(), NoCapacity> {
        self.0.dispatch(Message { bytes, token, resends: 0 })
    }

    /// Times out late responses and starts due attempts. Call it every [`TICK`].
    pub fn maintain(&self) {
        self.0.maintain();
    }

    /// Counts so far.
    #[must_use]
    pub fn counts(&self) -> ConnectionCounts {
        self.0.state.borrow().counts
    }

    /// The first error of each kind.
    #[must_use]
    pub fn first_errors(&self) -> FirstErrors {
        self.0.state.borrow().first_errors.clone()
    }

    /// Whether connections currently cannot be opened.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        self.0.state.borrow().is_unreachable
    }

    /// Messages without a final response.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        let state = self.0.state.borrow();
        let busy = state.connections.iter().filter(|link| link.current.is_some()).count();
        busy + state.queue.len() + state.later.len()
    }

    /// Closes all connections and drops waiting messages.
    pub fn close(&self) {
        let mut state = self.0.state.borrow_mut();
        state.closed = true;
        state.queue.clear();
        state.later.clear();
        state.idle.clear();
        for link in &mut state.connections {
            if let Some(reader) = link.reader.take() {
                reader.abort();
            }
            link.write = None;
            link.current = None;
        }
    }
}

impl<T: Copy + 'static> Inner<T> {
    fn dispatch(self: &Rc<Self>, message: Message<T>) -> Result<(), NoCapacity> {
        let mut state = self.state.borrow_mut();
        if state.closed {
            return Err(NoCapacity);
        }
        if let Some(index) = state.idle.pop() {
            write(&mut state, index, message);
            return Ok(());
        }
        if state.queue.len() + state.later.len() >= self.options.queue_max {
            return Err(NoCapacity);
        }
        state.queue.push_back(message);
        drop(state);
        self.open_more();
        Ok(())
    }

    /// Opens another connection if a message waits for one.
    fn open_more(self: &Rc<Self>) {
        let mut state = self.state.borrow_mut();
        let open = state.connections.len() - state.vacant.len() + state.opening;
        if open < self.options.connections_max && state.opening < state.queue.len() {
            state.opening += 1;
            drop(state);
            spawn_local(open_connection(Rc::clone(self)));
        }
    }

    /// Handles a response on the connection at `index`: writes the next message or makes it idle.
    fn answer(self: &Rc<Self>, index: usize, status: u16) {
        let mut state = self.state.borrow_mut();
        let Some(message) = state.connections[index].current.take() else { return };
        let place = state.connections[index].place;
        match status {
            503 => state.leave(place, NodeFailure::Unreachable, self.addresses.len()),
            _ if place == 0 => state.away = 0,
            _ => {}
        }
        let mut retired = false;
        if place != state.place {
            retired = true;
            state.retire(index);
        } else if let Some(next) = state.queue.pop_front() {
            write(&mut state, index, next);
        } else {
            state.idle.push(index);
        }
        self.finish(state, message, SendResult::Status(status));
        if retired {
            self.open_more();
        }
    }

    /// Handles the end of the connection at `index`.
    fn gone(self: &Rc<Self>, index: usize, failure: NodeFailure) {
        let mut state = self.state.borrow_mut();
        let link = &mut state.connections[index];
        // A retired connection may still report its end.
        if link.write.take().is_none() {
            return;
        }
        let place = link.place;
        link.reader = None;
        let message = link.current.take();
        state.idle.retain(|&idle| idle != index);
        state.vacant.push(index);
        if let Some(message) = message {
            state.leave(place, failure, self.addresses.len());
            self.finish(state, message, SendResult::Lost);
        }
    }

    /// Ends a message, or queues it for its next attempt.
    fn finish(
        &self,
        mut state: std::cell::RefMut<'_, State<T>>,
        mut message: Message<T>,
        answer: SendResult,
    ) {
        let again = match answer {
            SendResult::Lost => true,
            SendResult::Status(status) => {
                state.counts.answered += 1;
                matches!(status, 408 | 425 | 429) || status >= 500
            }
        };
        if again && message.resends < self.options.resends_max {
            message.resends += 1;
            state.counts.resent += 1;
            let pause = self.options.resend_pause.as_millis() / TICK.as_millis();
            // Another node is tried immediately.
            let next =
                answer == SendResult::Lost && usize::from(message.resends) < self.addresses.len();
            let due = state.ticks + if next { 1 } else { pause as u64 };
            let at = state.later.partition_point(|&(tick, _)| tick <= due);
            state.later.insert(at, (due, message));
            return;
        }
        state.counts.lost += u64::from(again);
        let Message { mut bytes, token, .. } = message;
        if state.spare.len() < SPARE_BUFFERS_MAX && bytes.capacity() <= SPARE_BUFFER_BYTES_MAX {
            bytes.clear();
            state.spare.push(bytes);
        }
        drop(state);
        (self.answered)(token, answer);
    }

    fn maintain(self: &Rc<Self>) {
        let mut state = self.state.borrow_mut();
        state.ticks += 1;
        let now = state.ticks;
        if state.place != 0 && state.home_tick <= now {
            state.go_to(0);
        }
        let patience = (self.options.answer_timeout.as_millis() / TICK.as_millis()) as u64;
        let late: Vec<usize> = (0..state.connections.len())
            .filter(|&index| {
                let link = &state.connections[index];
                link.current.is_some() && link.write.is_some() && now - link.sent_tick > patience
            })
            .collect();
        let mut due = Vec::new();
        while state.later.front().is_some_and(|&(tick, _)| tick <= now) {
            due.extend(state.later.pop_front().map(|(_, message)| message));
        }
        // After a failed connection attempt, no connection is being opened for the queue.
        let stranded = state.opening == 0 && !state.queue.is_empty() && !state.closed;
        let all_gone = state.connections.len() == state.vacant.len();
        if stranded && all_gone {
            state.opening += 1;
            spawn_local(open_connection(Rc::clone(self)));
        }
        drop(state);
        self.state.borrow_mut().counts.silent += late.len() as u64;
        for index in late {
            let reader = self.state.borrow_mut().connections[index].reader.take();
            reader.inspect(AbortHandle::abort);
            self.gone(index, NodeFailure::Silent);
        }
        for message in due {
            let (token, refused) = (message.token, self.dispatch(message).is_err());
            if refused {
                (self.answered)(token, SendResult::Lost);
            }
        }
    }

    /// Handles an address at which nothing listens. If this is so for all addresses, every waiting
    /// message has used up one attempt.
    fn unreachable(self: &Rc<Self>, place: usize, why: Option<std::io::Error>) {
        let mut state = self.state.borrow_mut();
        if state.counts.unreachable == 0 {
            let why = why.map_or("no answer in time".to_owned(), |error| error.to_string());
            state.first_errors.unreachable = format!("{}: {why}", self.addresses[place]);
        }
        state.counts.unreachable += 1;
        state.is_unreachable = true;
        state.opening -= 1;
        state.refused += 1;
        state.leave(place, NodeFailure::Unreachable, self.addresses.len());
        if state.refused < self.addresses.len() {
            drop(state);
            return self.open_more();
        }
        state.refused = 0;
        let all_gone = state.connections.len() == state.vacant.len();
        if !all_gone || state.opening > 0 {
            return;
        }
        let waiting = std::mem::take(&mut state.queue);
        drop(state);
        for message in waiting {
            self.finish(self.state.borrow_mut(), message, SendResult::Lost);
        }
    }

    /// Adds a new connection to the pool; `None` if the pool was closed meanwhile.
    fn install(&self, wire: SharedWire, place: usize) -> Option<usize> {
        let mut state = self.state.borrow_mut();
        state.opening -= 1;
        if state.closed {
            return None;
        }
        state.refused = 0;
        state.is_unreachable = false;
        state.counts.opened += 1;
        let link = HubConnection {
            place,
            write: Some(wire),
            reader: None,
            current: None,
            sent_tick: state.ticks,
        };
        let index = match state.vacant.pop() {
            Some(index) => {
                state.connections[index] = link;
                index
            }
            None => {
                state.connections.push(link);
                state.connections.len() - 1
            }
        };
        Some(index)
    }
}

impl<T> State<T> {
    /// Records a response of the hub that reports a failure.
    fn note_unavailable(&mut self, status: u16, body: &[u8]) {
        if self.counts.unavailable == 0 {
            let begin = String::from_utf8_lossy(&body[..body.len().min(ERROR_BYTES_MAX)]);
            self.first_errors.unavailable = format!("{status} {begin}").trim_end().to_owned();
        }
        self.counts.unavailable += 1;
    }

    /// Records a connection that ended without a response, if a request was in flight.
    fn note_broken(&mut self, index: usize, why: String) {
        if self.connections[index].current.is_none() {
            return;
        }
        if self.counts.broken == 0 {
            self.first_errors.broken = why;
        }
        self.counts.broken += 1;
    }

    /// Switches from a node to the next one, if it is the current one.
    fn leave(&mut self, place: usize, failure: NodeFailure, places: usize) {
        if place != self.place || places == 1 {
            return;
        }
        if place == 0 {
            let least = if failure == NodeFailure::Silent { AWAY_SILENT } else { AWAY };
            self.away = (2 * self.away).clamp(least, AWAY_MAX);
            self.home_tick = self.ticks + self.away;
        }
        self.go_to((place + 1) % places);
    }

    /// Selects a node. Idle connections to other nodes are closed.
    fn go_to(&mut self, place: usize) {
        self.place = place;
        for index in std::mem::take(&mut self.idle) {
            self.retire(index);
        }
    }

    /// Closes an idle connection.
    fn retire(&mut self, index: usize) {
        let link = &mut self.connections[index];
        link.write = None;
        link.reader.take().inspect(AbortHandle::abort);
        self.vacant.push(index);
    }
}

/// Writes a message on an idle connection.
fn write<T: 'static>(state: &mut State<T>, index: usize, message: Message<T>) {
    let ticks = state.ticks;
    let link = &mut state.connections[index];
    link.sent_tick = ticks;
    let Some(wire) = &link.write else {
        unreachable!("a connection that is gone is taken out of the idle list at once");
    };
    // A write error also ends the reading side, which queues the message for a resend.
    let (written, is_flushed) = wire.write_now(&message.bytes);
    if written < message.bytes.len() || !is_flushed {
        let rest = message.bytes[written..].to_vec();
        spawn_local(write_rest(wire.clone(), rest));
    }
    link.current = Some(message);
}

async fn write_rest(mut wire: SharedWire, rest: Vec<u8>) {
    // The reading side notices an error.
    if wire.write_all(&rest).await.is_ok() {
        let _ = wire.flush().await;
    }
}

async fn open_connection<T: Copy + 'static>(inner: Rc<Inner<T>>) {
    let place = inner.state.borrow().place;
    let connecting = async {
        let stream = TcpStream::connect(inner.addresses[place]).await?;
        tune(&stream);
        call(stream, inner.tls.as_ref()).await
    };
    let connected = tokio::time::timeout(inner.options.answer_timeout, connecting).await;
    let wire = match connected {
        Ok(Ok(wire)) => SharedWire::new(wire),
        Ok(Err(error)) => return inner.unreachable(place, Some(error)),
        Err(_) => return inner.unreachable(place, None),
    };
    let Some(index) = inner.install(wire.clone(), place) else { return };
    let reader = spawn_local(read_answers(Rc::clone(&inner), index, wire));
    let mut state = inner.state.borrow_mut();
    state.connections[index].reader = Some(reader.abort_handle());
    match state.queue.pop_front() {
        Some(message) => write(&mut state, index, message),
        None if place == state.place => state.idle.push(index),
        None => state.retire(index),
    }
}

async fn read_answers<T: Copy + 'static>(inner: Rc<Inner<T>>, index: usize, mut wire: SharedWire) {
    let mut buffer = Vec::with_capacity(READ_BYTES);
    let why = loop {
        match http1::response(&buffer) {
            Ok(Some(response)) => {
                let (status, length) = (response.status, response.length);
                if status >= 500 {
                    inner.state.borrow_mut().note_unavailable(status, &response.body);
                }
                if !response.keep_alive {
                    close_after(&inner, index, status);
                    return;
                }
                buffer.drain(..length);
                inner.answer(index, status);
                continue;
            }
            Ok(None) => {}
            Err(error) => break format!("invalid HTTP response: {error}"),
        }
        buffer.reserve(READ_BYTES);
        match wire.read_buf(&mut buffer).await {
            Ok(0) if buffer.is_empty() => break "closed without a response".to_owned(),
            Ok(0) => break "closed in the middle of a response".to_owned(),
            Err(error) => break error.to_string(),
            Ok(_) => {}
        }
    };
    inner.state.borrow_mut().note_broken(index, why);
    inner.gone(index, NodeFailure::Unreachable);
}

/// The hub has responded and closes the connection.
fn close_after<T: Copy + 'static>(inner: &Rc<Inner<T>>, index: usize, status: u16) {
    let mut state = inner.state.borrow_mut();
    let message = state.connections[index].current.take();
    drop(state);
    inner.gone(index, NodeFailure::Unreachable);
    state = inner.state.borrow_mut();
    if let Some(message) = message {
        inner.finish(state, message, SendResult::Status(status));
    }
}
