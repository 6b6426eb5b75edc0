//! How the I/O threads behave.

use std::sync::Arc;
use std::time::Duration;

use fspiop::egress_policy::{EgressPolicy, Network};

use crate::connections::ConnectionLimits;
use crate::driver::InjectedStall;
use crate::passthrough::TransferMode;
use crate::pool::PoolLimits;
use crate::signatures::Signatures;

/// How the edge behaves, and its bounds; per thread where threads have one each.
#[derive(Clone, Debug)]
pub struct Options {
    /// How owed notices are delivered.
    pub policy: delivery::Policy,
    /// Bounds of the connections to participants.
    pub pool: PoolLimits,
    /// Which addresses of participants may be called.
    pub reach: Arc<EgressPolicy>,
    /// Bounds of the connections from clients.
    pub connections: ConnectionLimits,
    /// Where gateways connect from: `X-Client-Id` is ignored from any other address. Empty
    /// believes it from all.
    pub gateways: Arc<[Network]>,
    /// Look-ups, quotes and answers being forwarded.
    pub forwards_max: usize,
    /// How far ahead a transfer may expire; `None` for no limit.
    pub expiration_max: Option<Duration>,
    /// Whether transfers are decided.
    pub decisions: TransferMode,
    /// Signatures that are demanded and made.
    pub signatures: Signatures,
    /// How long a lane may have work and do none of it before it is called stuck.
    pub patience: Duration,
    /// What is broken on purpose.
    pub wedge: Option<InjectedStall>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policy: delivery::Policy::default(),
            pool: PoolLimits::default(),
            reach: Arc::default(),
            connections: ConnectionLimits::default(),
            gateways: Arc::default(),
            forwards_max: 8_192,
            expiration_max: None,
            decisions: TransferMode::Real,
            signatures: Signatures::default(),
            patience: Duration::from_secs(10),
            wedge: None,
        }
    }
}
