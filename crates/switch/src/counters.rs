//! Counters of the I/O threads, declared once: those of a thread and their sums.

use std::io::Result;
use std::task::Poll;

use metrics::Counter;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one thread.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: Counter,)*
        }

        /// Sums over all threads.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Totals {
            /// Adds the counters of a thread.
            pub(crate) fn add(&mut self, thread: &Counters) {
                $(self.$name += thread.$name.get();)*
            }
        }
    };
}

counters! {
    /// Requests accepted.
    requests,
    /// Requests refused.
    refused,
    /// Messages forwarded without a record.
    forwards,
    /// Of these, messages that could not be delivered.
    forwards_failed,
    /// Attempts to deliver a notice, including those whose message could not be read.
    attempts,
    /// Attempts and forwards that a busy thread lent to a helper thread.
    calls_lent,
    /// Accepted connections from clients.
    connections,
    /// Open connections from clients, as of the last sweep.
    connections_open,
    /// Connections from clients refused because too many were open.
    connections_refused,
    /// Connections evicted for a new one.
    connections_evicted,
    /// Requests that were not HTTP, incomplete, too slow, or ambiguous.
    malformed,
    /// System calls that read data from a socket of a client or a participant.
    socket_reads,
    /// System calls that wrote to one.
    socket_writes,
    /// Bytes read from these sockets.
    socket_read_bytes,
    /// Bytes written to them.
    socket_written_bytes,
    /// Calls to participants not made because their address is not allowed.
    calls_denied,
    /// Calls to oracles.
    oracle_calls,
    /// Of these, calls without an HTTP response.
    oracle_calls_failed,
    /// Responses of oracles that refuse a request or are invalid.
    oracle_errors,
    /// Look-ups that an earlier answer of an oracle served.
    oracle_cache_hits,
    /// Requests refused because too many calls to oracles were in flight.
    oracle_calls_refused,
    /// Requests refused because their participant has too many.
    requests_limited,
    /// Responses to refused requests that waited: their address has too many.
    refusals_delayed,
    /// Messages without effect because their sender is not a participant.
    unknown_senders,
    /// Requests refused because `FSPIOP-Source` is not a name of the client.
    callers_refused,
    /// Requests refused because certificate, token or gateway name no participant.
    callers_unknown,
    /// Requests refused because the certificate expired or was revoked while connected.
    callers_invalid,
    /// Requests refused because the client's address is not that of a gateway.
    callers_outside_gateways,
    /// Requests refused because the gateway's header is missing, repeated or unreadable.
    callers_without_gateway_name,
    /// Requests refused without an access token.
    tokens_missing,
    /// Requests refused because the token is not one, or has another purpose.
    tokens_malformed,
    /// Requests refused because the algorithm is not accepted, or not that of the key.
    tokens_of_other_algorithm,
    /// Requests refused because the issuer has no such key.
    tokens_of_unknown_key,
    /// Requests refused because the token's signature is wrong.
    tokens_with_wrong_signature,
    /// Requests refused because the token is from another issuer.
    tokens_of_other_issuer,
    /// Requests refused because the token is for another audience.
    tokens_for_other_audience,
    /// Requests refused because the token has expired.
    tokens_expired,
    /// Requests refused because the token is not valid yet.
    tokens_not_yet_valid,
    /// Requests refused because the token lacks a scope.
    tokens_without_scope,
    /// Requests refused because too many tokens from the address were refused.
    tokens_limited,
    /// Requests refused because the issuer's keys were never read.
    tokens_without_keys,
    /// Notices that wait for an endpoint, as of the last sweep of the lanes.
    parked,
    /// Valid signatures of participants.
    signatures_verified,
    /// Messages refused because of an invalid or missing signature.
    signatures_refused,
    /// Messages of the hub to be signed.
    signatures_asked,
    /// Of these, signed messages; the others failed or wait.
    signatures_made,
    /// Of these, messages that could not be signed and were not sent.
    signatures_failed,
}

impl Counters {
    /// Counts a call that wrote to a socket.
    pub(crate) fn socket_written(&self, polled: &Poll<Result<usize>>) {
        self.socket_writes.add(u64::from(polled.is_ready()));
        if let Poll::Ready(Ok(bytes)) = polled {
            self.socket_written_bytes.add(*bytes as u64);
        }
    }
}
