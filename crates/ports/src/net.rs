//! Sending, as the delivery driver needs it.

/// Starts attempts to send a message to a participant.
///
/// # Contract
/// - [`Net::send`] only starts the attempt and returns at once; it cannot fail. Connecting,
///   writing and waiting for the answer happen elsewhere.
/// - Every attempt started ends with exactly one result, which the driver takes from the
///   implementation by its own means and hands to the state machine that asked for the attempt:
///   the status of the answer, or that there was none. An attempt has a time limit, so the result
///   always comes.
/// - A result without an answer does not say whether the participant received the message.
/// - Attempts are independent: no order between them is promised, not even to one participant.
///   Whoever wants order starts the next attempt after the result of the one before.
/// - The number of attempts under way is bounded by the caller (the windows of the lanes), not by
///   the implementation.
pub trait Net {
    /// One attempt: to whom, and what is sent.
    type Attempt;

    /// Starts one attempt.
    fn send(&mut self, attempt: Self::Attempt);
}
