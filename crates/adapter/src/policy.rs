//! Settings that change decisions: `[dfsp.flow]` of the configuration, which the machines read.

use serde::{Deserialize, Deserializer};

/// Longest time of a setting in seconds: one day.
const SECONDS_MAX: u64 = 86_400;

/// The settings of one DFSP that its transfers follow. The defaults are those of the reference
/// adapter, whose names are given.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Name of the DFSP.
    #[serde(skip)]
    pub fsp_id: String,
    /// Whether a party that was found needs no acceptance: AUTO_ACCEPT_PARTY.
    pub auto_accept_party: bool,
    /// Whether a quote needs no acceptance: AUTO_ACCEPT_QUOTES.
    pub auto_accept_quotes: bool,
    /// Whether a payer that was found for a request to pay needs no acceptance:
    /// AUTO_ACCEPT_R2P_PARTY.
    pub auto_accept_r2p_party: bool,
    /// Whether the quote of a transfer that a business asked for needs no acceptance:
    /// AUTO_ACCEPT_R2P_BUSINESS_QUOTES.
    pub auto_accept_r2p_business_quotes: bool,
    /// Whether an entered password needs no acceptance: AUTO_ACCEPT_R2P_DEVICE_OTP.
    pub auto_accept_r2p_device_otp: bool,
    /// Life of quotes and transfers, in milliseconds: EXPIRY_SECONDS.
    #[serde(rename = "expiry_seconds", deserialize_with = "milliseconds")]
    pub expiry_ms: u64,
    /// Longest wait of the back end for each step, in milliseconds:
    /// REQUEST_PROCESSING_TIMEOUT_SECONDS.
    #[serde(rename = "timeout_seconds", deserialize_with = "milliseconds")]
    pub timeout_ms: u64,
    /// Whether a look-up waits for the answers of several DFSPs, of which the back end chooses one:
    /// MULTIPLE_PARTIES_RESPONSE.
    pub multiple_parties_response: bool,
    /// Time for these answers, in milliseconds: MULTIPLE_PARTIES_RESPONSE_SECONDS.
    #[serde(rename = "multiple_parties_response_seconds", deserialize_with = "milliseconds")]
    pub multiple_parties_ms: u64,
    /// Whether packets, conditions and fulfilments are compared: CHECK_ILP.
    pub check_ilp: bool,
    /// Whether a quote that arrives after its expiration fails the transfer:
    /// REJECT_EXPIRED_QUOTE_RESPONSES.
    pub reject_expired_quotes: bool,
    /// Whether the payee refuses a transfer after the expiration of its quote:
    /// REJECT_TRANSFERS_ON_EXPIRED_QUOTES.
    pub reject_transfers_on_expired_quotes: bool,
    /// Whether the transfer names the sender of the quote as the payee's DFSP:
    /// USE_QUOTE_SOURCE_FSP_AS_TRANSFER_PAYEE_FSP.
    pub pay_quote_source: bool,
    /// Whether the payee fulfils with RESERVED and waits for the notice of the hub:
    /// RESERVE_NOTIFICATION.
    pub reserve_notification: bool,
    /// Time for the hub's notice before the hub is asked, in milliseconds:
    /// PATCH_NOTIFICATION_GRACE_TIME_MS.
    pub notice_grace_ms: u64,
    /// Whether a transfer without a known quote is accepted: ALLOW_TRANSFER_WITHOUT_QUOTE.
    pub allow_transfer_without_quote: bool,
    /// Extension of an error whose value becomes `statusCode`:
    /// OUTBOUND_ERROR_STATUSCODE_EXTENSION_KEY.
    pub status_code_extension_key: Option<String>,
    /// Whether a repeated `homeTransactionId` returns the transfer that it began.
    pub idempotent_home_transaction_id: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            fsp_id: String::new(),
            auto_accept_party: true,
            auto_accept_quotes: true,
            auto_accept_r2p_party: false,
            auto_accept_r2p_business_quotes: false,
            auto_accept_r2p_device_otp: false,
            expiry_ms: 20_000,
            timeout_ms: 30_000,
            multiple_parties_response: false,
            multiple_parties_ms: 30_000,
            check_ilp: true,
            reject_expired_quotes: false,
            reject_transfers_on_expired_quotes: false,
            pay_quote_source: false,
            reserve_notification: false,
            notice_grace_ms: 15_000,
            allow_transfer_without_quote: false,
            status_code_extension_key: None,
            idempotent_home_transaction_id: true,
        }
    }
}

impl Policy {
    /// Longest time of a look-up.
    pub(crate) const fn look_up_ms(&self) -> u64 {
        if self.multiple_parties_response { self.multiple_parties_ms } else { self.timeout_ms }
    }
}

#[cfg(test)]
impl Policy {
    /// The defaults, for a DFSP of tests.
    pub(crate) fn of_tests(fsp: &str) -> Self {
        Self { fsp_id: fsp.to_owned(), ..Self::default() }
    }
}

/// Reads a number of seconds.
fn milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let seconds = u64::deserialize(deserializer)?;
    match (1..=SECONDS_MAX).contains(&seconds) {
        true => Ok(seconds * 1_000),
        false => {
            Err(serde::de::Error::custom(format!("expected 1 to {SECONDS_MAX}, not {seconds}")))
        }
    }
}
