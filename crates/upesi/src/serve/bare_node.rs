//! A node without sockets: for tools that write a history into a data directory.

use std::path::Path;
use std::sync::Arc;

use ledger::State;
use node::{Handle, InboxLimits, Mailbox, Node, SystemClock};
use snapshots::Snapshotter;

use crate::CliError;
use crate::cli::stdout;
use crate::config::Config;
use crate::data::layout;
use crate::serve::durable_mark_thread::DurableMarkThread;
use crate::serve::{self, LogOptions, OpenedNode};

/// A data directory whose log was read to its end.
pub struct BareNode {
    config: Config,
    opened: OpenedNode,
    clock: SystemClock,
}

/// A running node that accepts commands.
pub struct RunningBareNode {
    node: Node<()>,
    snapshotter: Snapshotter,
    /// Dropped after the node has stopped, so that the last mark covers the last sync.
    _durable_mark: DurableMarkThread,
}

impl BareNode {
    /// Opens or creates a directory. Payees get no confirmation, as in measurements. Start messages
    /// go to standard error, because standard output is for the result.
    pub fn open(data: &Path, segment_mib: u64, clock: &SystemClock) -> Result<Self, CliError> {
        let mut config = Config::default();
        config.transfers.confirm_to_payee = false;
        config.log.segment_mib = segment_mib;
        stdout::reserve_output_for_script();
        layout::refuse_unfinished(data)?;
        let opened = serve::open(&config, data, &LogOptions::default(), clock)?;
        Ok(Self { config, opened, clock: *clock })
    }

    /// The state at the end of the log.
    #[must_use]
    pub fn state(&self) -> &State {
        self.opened.sequencer.state()
    }

    /// Starts the sequencer's thread, the snapshots and the durable mark.
    pub fn start(self, mailbox: Arc<Mailbox<()>>) -> Result<RunningBareNode, CliError> {
        let Self { config, opened, clock } = self;
        let OpenedNode { sequencer, directory, snapshots, .. } = opened;
        let limits = InboxLimits::default();
        let node = node::start(sequencer, clock, directory, vec![mailbox], limits)
            .map_err(|error| CliError::new(format!("cannot start the sequencer: {error}")))?;
        let durable_mark =
            DurableMarkThread::start(snapshots.disk.clone(), snapshots.frames.clone())?;
        let snapshotter = snapshots.start(&config, node.handle(), |_| ())?;
        Ok(RunningBareNode { node, snapshotter, _durable_mark: durable_mark })
    }
}

impl RunningBareNode {
    /// Submits commands and reads figures.
    #[must_use]
    pub fn handle(&self) -> Handle<()> {
        self.node.handle()
    }

    /// Stops all threads in order.
    pub fn stop(self) -> Result<(), CliError> {
        self.snapshotter.stop();
        self.node.stop().map_err(CliError::new)
    }
}
