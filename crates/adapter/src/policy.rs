//! Settings that change decisions, for the machines without I/O.

/// The settings of one DFSP that its transfers follow.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Name of the DFSP.
    pub fsp_id: String,
    /// Whether a party that was found needs no acceptance.
    pub auto_accept_party: bool,
    /// Whether a quote needs no acceptance.
    pub auto_accept_quotes: bool,
    /// Life of quotes and transfers, in milliseconds.
    pub expiry_ms: u64,
    /// Longest wait of the back end for each step, in milliseconds.
    pub timeout_ms: u64,
    /// Whether packets, conditions and fulfilments are compared.
    pub check_ilp: bool,
    /// Whether a quote that arrives after its expiration fails the transfer.
    pub reject_expired_quotes: bool,
    /// Whether the payee refuses a transfer after the expiration of its quote.
    pub reject_transfers_on_expired_quotes: bool,
    /// Whether the transfer names the sender of the quote as the payee's DFSP.
    pub pay_quote_source: bool,
    /// Whether the payee fulfils with RESERVED and waits for the hub's notice.
    pub reserve_notification: bool,
    /// Time for the hub's notice before the hub is asked, in milliseconds.
    pub notice_grace_ms: u64,
    /// Whether a transfer without a known quote is accepted.
    pub allow_transfer_without_quote: bool,
    /// Extension of an error whose value becomes `statusCode`.
    pub status_code_extension_key: Option<String>,
}

#[cfg(test)]
impl Policy {
    /// The defaults of the reference, for a DFSP of tests.
    pub(crate) fn of_tests(fsp: &str) -> Self {
        Self {
            fsp_id: fsp.to_owned(),
            auto_accept_party: true,
            auto_accept_quotes: true,
            expiry_ms: 20_000,
            timeout_ms: 30_000,
            check_ilp: true,
            reject_expired_quotes: false,
            reject_transfers_on_expired_quotes: false,
            pay_quote_source: false,
            reserve_notification: false,
            notice_grace_ms: 15_000,
            allow_transfer_without_quote: false,
            status_code_extension_key: None,
        }
    }
}
