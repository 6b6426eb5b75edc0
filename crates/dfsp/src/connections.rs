//! Pooled keep-alive connections to one hub: the sending side of a simulator.
//!
//! A message is one buffer. When a connection is free it is written at once, inside the caller, by
//! one system call; else it waits in a bounded queue and is written by the connection that becomes
//! free first. Connections are opened as they are needed, up to a limit, and the most recently
//! used one is taken first, so that few stay busy. A message that got no answer, or a retryable
//! status (408, 425, 429, 5xx), is sent again unchanged after a pause, as FSPIOP allows. Nothing
//! has a timer of its own: the owner calls [`HubConnections::maintain`] every [`TICK`].
//!
//! A hub may have several addresses, one of each of its nodes. The first is home; when a node
//! cannot be reached, leaves a message unanswered or says 503, all goes to the next one, as with
//! a load balancer, and home again after a while, which grows while home is no better.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::{AbortHandle, spawn_local};

use crate::http1;
use crate::socket_options::tune;

/// Period in which the owner calls [`HubConnections::maintain`].
pub const TICK: Duration = Duration::from_millis(20);
const SPARE_BUFFERS_MAX: usize = 256;
const SPARE_BUFFER_BYTES_MAX: usize = 16 * 1024;
const READ_BYTES: usize = 4 * 1024;
/// Bytes of an error answer that are kept.
const TROUBLE_BYTES: usize = 200;
/// How long a node that could not be reached is left alone, in ticks; twice as long each time.
const AWAY: u64 = 50;
/// The same for one that took messages and answered nothing.
const AWAY_SILENT: u64 = 400;
const AWAY_MAX: u64 = 1_600;

/// Bounds of the sending side.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionOptions {
    /// Connections open at once.
    pub connections_max: usize,
    /// Messages waiting for a connection or for their next attempt.
    pub queue_max: usize,
    /// Further attempts after the first.
    pub resends_max: u8,
    /// Pause before each further attempt.
    pub resend_pause: Duration,
    /// Longest wait for an answer.
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

/// How the sending of a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendResult {
    /// The last answer's status.
    Status(u16),
    /// No answer to any attempt.
    Lost,
}

/// No place for another message; nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCapacity;

/// Counts of all connections so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Messages that were answered, whatever the status.
    pub answered: u64,
    /// Attempts after the first.
    pub resent: u64,
    /// Messages given up, without a good answer after all attempts.
    pub lost: u64,
    /// Connections opened.
    pub opened: u64,
    /// Connections that could not be opened.
    pub unreachable: u64,
    /// Attempts that had no answer in time.
    pub silent: u64,
    /// Attempts whose connection ended before an answer had come, or gave none that can be read.
    pub broken: u64,
    /// Answers of 500 and more.
    pub unavailable: u64,
}

/// The first error of each kind, as the hub or the system reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstErrors {
    /// Why a connection could not be opened.
    pub unreachable: String,
    /// An answer of 500 or more: its status, and the begin of its body.
    pub unavailable: String,
    /// Data received instead of a valid answer.
    pub broken: String,
}

/// Connections to one hub; `T` identifies the message that an answer belongs to.
pub struct HubConnections<T>(Rc<Inner<T>>);

struct Inner<T> {
    /// Never empty; the first is home.
    addresses: Vec<SocketAddr>,
    options: ConnectionOptions,
    answered: Box<dyn Fn(T, SendResult)>,
    state: RefCell<State<T>>,
}

struct State<T> {
    links: Vec<HubConnection<T>>,
    idle: Vec<usize>,
    vacant: Vec<usize>,
    queue: VecDeque<Message<T>>,
    later: VecDeque<(u64, Message<T>)>,
    spare: Vec<Vec<u8>>,
    opening: usize,
    /// Connections in a row that could not be opened.
    refused: usize,
    /// Which address is the one at the moment.
    place: usize,
    /// When home is tried again, and how long it was left alone.
    home_tick: u64,
    away: u64,
    ticks: u64,
    counts: ConnectionCounts,
    troubles: FirstErrors,
    /// The last connection that was tried could not be opened.
    is_unreachable: bool,
    closed: bool,
}

/// Why a node is left for the next one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Unreachable,
    Silent,
}

struct HubConnection<T> {
    place: usize,
    write: Option<Rc<OwnedWriteHalf>>,
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
    /// Links to a hub with these addresses; `answered` is called with the result of every accepted
    /// message.
    ///
    /// # Panics
    /// There is no address.
    pub fn new(
        addresses: &[SocketAddr],
        options: ConnectionOptions,
        answered: impl Fn(T, SendResult) + 'static,
    ) -> Self {
        assert!(!addresses.is_empty(), "a hub has an address");
        Self(Rc::new(Inner {
            addresses: addresses.to_vec(),
            options,
            answered: Box::new(answered),
            state: RefCell::new(State {
                links: Vec::new(),
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
                troubles: FirstErrors::default(),
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

    /// Sends one whole request, at once when a connection is free.
    ///
    /// # Errors
    /// [`NoCapacity`] when `queue_max` messages are waiting or the links are closed.
    pub fn send(&self, bytes: Vec<u8>, token: T) -> Result<(), NoCapacity> {
        self.0.dispatch(Message { bytes, token, resends: 0 })
    }

    /// Ends waits that took too long and starts attempts that are due. Call it every [`TICK`].
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
    pub fn troubles(&self) -> FirstErrors {
        self.0.state.borrow().troubles.clone()
    }

    /// Whether connections cannot be opened at the moment.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        self.0.state.borrow().is_unreachable
    }

    /// Messages that have no final answer yet.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        let state = self.0.state.borrow();
        let busy = state.links.iter().filter(|link| link.current.is_some()).count();
        busy + state.queue.len() + state.later.len()
    }

    /// Closes all connections and drops what waits.
    pub fn close(&self) {
        let mut state = self.0.state.borrow_mut();
        state.closed = true;
        state.queue.clear();
        state.later.clear();
        state.idle.clear();
        for link in &mut state.links {
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
        let open = state.links.len() - state.vacant.len() + state.opening;
        if open < self.options.connections_max && state.opening < state.queue.len() {
            state.opening += 1;
            drop(state);
            spawn_local(open_link(Rc::clone(self)));
        }
    }

    /// The connection at `index` has answered; gives it the next message or lets it rest.
    fn answer(self: &Rc<Self>, index: usize, status: u16) {
        let mut state = self.state.borrow_mut();
        let Some(message) = state.links[index].current.take() else { return };
        let place = state.links[index].place;
        match status {
            503 => state.leave(place, Trouble::Unreachable, self.addresses.len()),
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

    /// The connection at `index` is gone.
    fn gone(self: &Rc<Self>, index: usize, trouble: Trouble) {
        let mut state = self.state.borrow_mut();
        let link = &mut state.links[index];
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
            state.leave(place, trouble, self.addresses.len());
            self.finish(state, message, SendResult::Lost);
        }
    }

    /// Ends a message, or puts it aside for its next attempt.
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
            // Another node is asked at once.
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
        let late: Vec<usize> = (0..state.links.len())
            .filter(|&index| {
                let link = &state.links[index];
                link.current.is_some() && link.write.is_some() && now - link.sent_tick > patience
            })
            .collect();
        let mut due = Vec::new();
        while state.later.front().is_some_and(|&(tick, _)| tick <= now) {
            due.extend(state.later.pop_front().map(|(_, message)| message));
        }
        // A connection attempt that failed leaves the queue without anyone who comes for it.
        let stranded = state.opening == 0 && !state.queue.is_empty() && !state.closed;
        let all_gone = state.links.len() == state.vacant.len();
        if stranded && all_gone {
            state.opening += 1;
            spawn_local(open_link(Rc::clone(self)));
        }
        drop(state);
        self.state.borrow_mut().counts.silent += late.len() as u64;
        for index in late {
            let reader = self.state.borrow_mut().links[index].reader.take();
            reader.inspect(AbortHandle::abort);
            self.gone(index, Trouble::Silent);
        }
        for message in due {
            let (token, refused) = (message.token, self.dispatch(message).is_err());
            if refused {
                (self.answered)(token, SendResult::Lost);
            }
        }
    }

    /// Nothing listens at the address. When that is so of all of them, everything that waits has
    /// used up an attempt.
    fn unreachable(self: &Rc<Self>, place: usize, why: Option<std::io::Error>) {
        let mut state = self.state.borrow_mut();
        if state.counts.unreachable == 0 {
            let why = why.map_or("no answer in time".to_owned(), |error| error.to_string());
            state.troubles.unreachable = format!("{}: {why}", self.addresses[place]);
        }
        state.counts.unreachable += 1;
        state.is_unreachable = true;
        state.opening -= 1;
        state.refused += 1;
        state.leave(place, Trouble::Unreachable, self.addresses.len());
        if state.refused < self.addresses.len() {
            drop(state);
            return self.open_more();
        }
        state.refused = 0;
        let all_gone = state.links.len() == state.vacant.len();
        if !all_gone || state.opening > 0 {
            return;
        }
        let waiting = std::mem::take(&mut state.queue);
        drop(state);
        for message in waiting {
            self.finish(self.state.borrow_mut(), message, SendResult::Lost);
        }
    }

    /// Takes a fresh connection into the pool; `None` when the links were closed meanwhile.
    fn install(&self, write_half: OwnedWriteHalf, place: usize) -> Option<usize> {
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
            write: Some(Rc::new(write_half)),
            reader: None,
            current: None,
            sent_tick: state.ticks,
        };
        let index = match state.vacant.pop() {
            Some(index) => {
                state.links[index] = link;
                index
            }
            None => {
                state.links.push(link);
                state.links.len() - 1
            }
        };
        Some(index)
    }
}

impl<T> State<T> {
    /// The hub could not do what it was asked for.
    fn note_unavailable(&mut self, status: u16, body: &[u8]) {
        if self.counts.unavailable == 0 {
            let begin = String::from_utf8_lossy(&body[..body.len().min(TROUBLE_BYTES)]);
            self.troubles.unavailable = format!("{status} {begin}").trim_end().to_owned();
        }
        self.counts.unavailable += 1;
    }

    /// The connection at `index` gave no answer to what it was asked, if it was asked anything.
    fn note_broken(&mut self, index: usize, why: String) {
        if self.links[index].current.is_none() {
            return;
        }
        if self.counts.broken == 0 {
            self.troubles.broken = why;
        }
        self.counts.broken += 1;
    }

    /// Leaves a node for the next one, if it is the one at the moment.
    fn leave(&mut self, place: usize, trouble: Trouble, places: usize) {
        if place != self.place || places == 1 {
            return;
        }
        if place == 0 {
            let least = if trouble == Trouble::Silent { AWAY_SILENT } else { AWAY };
            self.away = (2 * self.away).clamp(least, AWAY_MAX);
            self.home_tick = self.ticks + self.away;
        }
        self.go_to((place + 1) % places);
    }

    /// Connections to other nodes are closed as soon as they wait for nothing.
    fn go_to(&mut self, place: usize) {
        self.place = place;
        for index in std::mem::take(&mut self.idle) {
            self.retire(index);
        }
    }

    /// Closes a connection that waits for nothing.
    fn retire(&mut self, index: usize) {
        let link = &mut self.links[index];
        link.write = None;
        link.reader.take().inspect(AbortHandle::abort);
        self.vacant.push(index);
    }
}

/// Writes a message on a connection that waits for nothing.
fn write<T: 'static>(state: &mut State<T>, index: usize, message: Message<T>) {
    let ticks = state.ticks;
    let link = &mut state.links[index];
    link.sent_tick = ticks;
    let Some(write_half) = &link.write else {
        unreachable!("a connection that is gone is taken out of the idle list at once");
    };
    // An error here shows on the reading side as well, which puts the message aside for a resend.
    let written = write_half.try_write(&message.bytes).unwrap_or(0);
    if written < message.bytes.len() {
        let rest = message.bytes[written..].to_vec();
        spawn_local(write_rest(Rc::clone(write_half), rest));
    }
    link.current = Some(message);
}

async fn write_rest(write_half: Rc<OwnedWriteHalf>, rest: Vec<u8>) {
    let mut at = 0;
    while at < rest.len() && write_half.writable().await.is_ok() {
        match write_half.try_write(&rest[at..]) {
            Ok(written) => at += written,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

async fn open_link<T: Copy + 'static>(inner: Rc<Inner<T>>) {
    let place = inner.state.borrow().place;
    let connecting = TcpStream::connect(inner.addresses[place]);
    let connected = tokio::time::timeout(inner.options.answer_timeout, connecting).await;
    let stream = match connected {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return inner.unreachable(place, Some(error)),
        Err(_) => return inner.unreachable(place, None),
    };
    tune(&stream);
    let (read_half, write_half) = stream.into_split();
    let Some(index) = inner.install(write_half, place) else { return };
    let reader = spawn_local(read_answers(Rc::clone(&inner), index, read_half));
    let mut state = inner.state.borrow_mut();
    state.links[index].reader = Some(reader.abort_handle());
    match state.queue.pop_front() {
        Some(message) => write(&mut state, index, message),
        None if place == state.place => state.idle.push(index),
        None => state.retire(index),
    }
}

async fn read_answers<T: Copy + 'static>(
    inner: Rc<Inner<T>>,
    index: usize,
    mut read_half: OwnedReadHalf,
) {
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
            Err(error) => break format!("invalid HTTP answer: {error}"),
        }
        buffer.reserve(READ_BYTES);
        match read_half.read_buf(&mut buffer).await {
            Ok(0) if buffer.is_empty() => break "it was closed without an answer".to_owned(),
            Ok(0) => break "it was closed in the midst of an answer".to_owned(),
            Err(error) => break error.to_string(),
            Ok(_) => {}
        }
    };
    inner.state.borrow_mut().note_broken(index, why);
    inner.gone(index, Trouble::Unreachable);
}

/// The hub answered and closes the connection.
fn close_after<T: Copy + 'static>(inner: &Rc<Inner<T>>, index: usize, status: u16) {
    let mut state = inner.state.borrow_mut();
    let message = state.links[index].current.take();
    drop(state);
    inner.gone(index, Trouble::Unreachable);
    state = inner.state.borrow_mut();
    if let Some(message) = message {
        inner.finish(state, message, SendResult::Status(status));
    }
}
