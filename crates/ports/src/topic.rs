//! A topic: the order in which several nodes are heard.

use ledger::Stamp;

/// One partition of a replicated topic, for whoever sends to it. What it has to say comes as
/// [`Arrival`]s by the driver's own means.
///
/// # Contract
/// 1. **One order.** Every reader is given the same messages at the same offsets, which rise, each
///    with the same time of arrival. A message given to a reader is never taken back.
/// 2. **In order and once.** Messages of one sender come in the order in which they were sent,
///    each at most once; one may be missing.
/// 3. **Every message has an end.** It arrives, or there is an [`Arrival::Lost`] for it, after
///    which it may arrive all the same.
/// 4. **An end asked for is at least as far** as any message that had arrived anywhere when it was
///    asked for.
/// 5. Nothing blocks.
pub trait Topic: Send {
    /// Sends a message. `tag` names it in an [`Arrival::Lost`].
    ///
    /// # Errors
    /// Why it was not taken, in words; it will not arrive.
    fn send(&mut self, message: &[u8], tag: u64) -> Result<(), String>;

    /// Asks where the topic ends; the answer is an [`Arrival::End`] with the same number.
    fn ask_end(&mut self, number: u64);
}

/// What a topic says to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next message.
    Message {
        /// Its place.
        offset: i64,
        /// When the brokers appended it.
        at: Stamp,
        /// The message.
        bytes: Vec<u8>,
    },
    /// A message that was sent is not known to have arrived within the time it was given.
    Lost {
        /// Which.
        tag: u64,
        /// Why, in words.
        reason: String,
    },
    /// Where the topic ended when it was asked: behind its last message. `None` when nobody
    /// answered.
    End {
        /// The number of the question.
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
