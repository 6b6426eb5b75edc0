//! Looks a few times a second whether every stage that has work gets on with it, says so on
//! standard error and to `/health`, and ends the process when the operator wants that.
//!
//! It runs on the main thread, which carries no traffic of participants; it reads counters that
//! the stages keep anyway ([`node::progress`]).

use std::process::exit;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use node::stall::{Stall, StallDetector};
use node::{Handle, SystemClock};
use ports::Clock;
use switch::{InjectedStall, Message, Traffic};

use crate::cli::stdout;
use crate::config::{self, Health};

/// The process's code when the watchdog ended it.
pub(crate) const EXIT_CODE: i32 = 70;

/// A part that is stopped on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Injected {
    /// The thread that decides.
    Sequencer,
    /// The last I/O thread.
    Io,
    /// Every lane.
    Lane,
    /// The clock's own batches, by which deadlines are met when no message comes.
    Expiry,
}

impl Injected {
    /// What the edge must leave undone.
    pub(crate) fn injected_stall(self) -> Option<InjectedStall> {
        match self {
            Self::Io => Some(InjectedStall::Thread),
            Self::Lane => Some(InjectedStall::Lanes),
            Self::Sequencer | Self::Expiry => None,
        }
    }

    /// Breaks what is the node's, and says so.
    pub(crate) fn break_node(self, node: &Handle<Message>) {
        stdout::print_message(format_args!(
            "INJECTED: {} will be stuck; only to test",
            self.name()
        ));
        match self {
            Self::Sequencer => {
                // A question that has no answer: the thread stays in it.
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

/// The one who looks.
pub(crate) struct Watchdog {
    watch: StallDetector,
    bites: bool,
    node: Handle<Message>,
    traffic: Arc<Traffic>,
    clock: SystemClock,
    told: Vec<String>,
}

impl Watchdog {
    pub(crate) fn new(
        health: &Health,
        node: Handle<Message>,
        traffic: Arc<Traffic>,
        clock: SystemClock,
    ) -> Self {
        Self {
            watch: StallDetector::new(Duration::from_secs(health.stuck_seconds)),
            bites: health.watchdog == config::Watchdog::Exit,
            node,
            traffic,
            clock,
            told: Vec::new(),
        }
    }

    /// Looks once. Does not return when a stage is stuck, a start can free it, and the
    /// configuration says so. Nothing that was acknowledged is lost by that: it is in the log.
    pub(crate) fn look(&mut self) {
        let now_us = self.clock.now().monotonic_us;
        let stuck = self.watch.look(now_us, &self.node.progress(), &self.traffic.pulses());
        for name in &self.told {
            if stuck.iter().all(|one| one.stage != *name) {
                ports::log_line(format_args!("{name} gets on again"));
            }
        }
        for one in &stuck {
            if !self.told.contains(&one.stage) {
                ports::log_line(line(one));
            }
        }
        self.told = stuck.iter().map(|one| one.stage.clone()).collect();
        let victim = stuck.iter().find(|one| self.bites && one.restart_helps);
        if let Some(one) = victim {
            ports::log_line(format_args!(
                "watchdog: ends the process, because {} is stuck; a supervisor should start \
                 it again",
                one.stage
            ));
            exit(EXIT_CODE);
        }
        self.node.publish_faults(stuck, self.watch.is_full());
    }
}

fn line(stuck: &Stall) -> String {
    let Stall { stage, idle, detail, .. } = stuck;
    format!("{stage} is stuck for {} s: {detail}", idle.as_secs())
}
