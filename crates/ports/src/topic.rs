//! A topic: the total order of the messages of several nodes.

use ledger::Stamp;

/// One partition of a replicated topic, as its senders see it. The driver delivers its events
/// as [`Arrival`]s.
///
/// # Contract
/// 1. **One order.** Every reader is given the same messages at the same offsets, which rise, each
///    with the same time of arrival. A message given to a reader is never taken back.
/// 2. **In order and once.** Messages of one sender come in the order in which they were sent,
///    each at most once; one may be missing.
/// 3. **Every message has an end.** It arrives, or it is reported as [`Arrival::Lost`]. A message
///    reported as lost may still arrive later.
/// 4. **An end asked for is at least as far** as any message that had arrived anywhere when it was
///    asked for.
/// 5. Nothing blocks.
pub trait Topic: Send {
    /// Sends a message. `tag` identifies it in an [`Arrival::Lost`].
    ///
    /// # Errors
    /// The reason why the message was not accepted; it will not arrive.
    fn send(&mut self, message: &[u8], tag: u64) -> Result<(), String>;

    /// Requests the end offset; the result is an [`Arrival::End`] with the same number.
    fn ask_end(&mut self, number: u64);
}

/// An event of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next message.
    Message {
        /// Its offset.
        offset: i64,
        /// When the brokers appended it.
        at: Stamp,
        /// The message.
        bytes: Vec<u8>,
    },
    /// A message was not confirmed within its timeout.
    Lost {
        /// The tag it was sent with.
        tag: u64,
        /// Why, in words.
        reason: String,
    },
    /// The end offset of the topic at the time of the request. `None` when no broker answered.
    End {
        /// The number of the request.
        number: u64,
        /// The offset that the next message gets.
        offset: Option<i64>,
    },
    /// Nothing more can be read or sent.
    Broken {
        /// Why, in words.
        reason: String,
    },
}
