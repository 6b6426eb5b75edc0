//! The watchdog: checks a few times a second whether every stage with work makes progress, reports
//! stalls on standard error and to `/health`, and exits the process if configured.
//!
//! It runs on the main thread, which has no traffic of participants, and reads counters that the
//! stages maintain anyway ([`node::stall`]).

use std::process::exit;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use node::stall::{Stall, StallDetector};
use node::{Handle, SystemClock};
use ports::Clock;
use switch::{ForwardedMessage, InjectedStall, Traffic};

use crate::cli::stdout;
use crate::config::{self, Health};
use crate::serve::logging;

/// Exit code of the process if the watchdog ends it.
pub(crate) const EXIT_CODE: i32 = 70;

/// A stage that `--inject-stuck` stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StallTarget {
    /// The sequencer's thread.
    Sequencer,
    /// The last I/O thread.
    Io,
    /// Every lane.
    Lane,
    /// The batches without a message, in which transfers expire.
    Expiry,
}

impl StallTarget {
    /// The stall that the I/O threads inject.
    pub(crate) fn injected_stall(self) -> Option<InjectedStall> {
        match self {
            Self::Io => Some(InjectedStall::Thread),
            Self::Lane => Some(InjectedStall::Lanes),
            Self::Sequencer | Self::Expiry => None,
        }
    }

    /// Injects the stall of the node's own stages, and reports it.
    pub(crate) fn stall_node(self, node: &Handle<ForwardedMessage>) {
        stdout::print_message(format_args!(
            "INJECTED: {} will be stuck; only to test",
            self.name()
        ));
        match self {
            Self::Sequencer => {
                // A query that never returns.
                let _refused = node.ask_local(|_| {
                    loop {
                        std::thread::park();
                    }
                });
            }
            Self::Expiry => node.inject_no_ticks(),
            Self::Io | Self::Lane => {}
        }
    }

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sequencer => "sequencer",
            Self::Io => "io",
            Self::Lane => "lane",
            Self::Expiry => "expiry",
        }
    }
}

/// Detects and reports stalls.
pub(crate) struct Watchdog {
    detector: StallDetector,
    exits: bool,
    node: Handle<ForwardedMessage>,
    traffic: Arc<Traffic>,
    clock: SystemClock,
    /// Names of the stalled stages that were reported.
    reported: Vec<String>,
}

impl Watchdog {
    pub(crate) fn new(
        health: &Health,
        node: Handle<ForwardedMessage>,
        traffic: Arc<Traffic>,
        clock: SystemClock,
    ) -> Self {
        Self {
            detector: StallDetector::new(Duration::from_secs(health.stuck_seconds)),
            exits: health.watchdog == config::Watchdog::Exit,
            node,
            traffic,
            clock,
            reported: Vec::new(),
        }
    }

    /// Checks all stages once. Exits the process if a stage is stuck, a restart helps, and the
    /// configuration requests it. Nothing acknowledged is lost: it is in the log.
    pub(crate) fn check(&mut self) {
        let now_us = self.clock.now().monotonic_us;
        let stuck = self.detector.look(now_us, &self.node.progress(), &self.traffic.pulses());
        for name in &self.reported {
            if stuck.iter().all(|one| one.stage != *name) {
                tracing::info!(stage = name, "makes progress again");
            }
        }
        for one in &stuck {
            if !self.reported.contains(&one.stage) {
                let Stall { stage, idle, detail, .. } = one;
                tracing::error!(%stage, seconds = idle.as_secs(), "is stuck: {detail}");
            }
        }
        self.reported = stuck.iter().map(|one| one.stage.clone()).collect();
        let fatal = stuck.iter().find(|one| self.exits && one.restart_helps);
        if let Some(one) = fatal {
            let stage = &one.stage;
            tracing::error!(
                %stage,
                "the process exits because it is stuck; a supervisor should restart it"
            );
            logging::flush();
            exit(EXIT_CODE);
        }
        self.node.publish_faults(stuck, self.detector.is_full());
    }
}
