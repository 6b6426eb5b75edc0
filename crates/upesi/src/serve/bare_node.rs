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
use crate::serve::{self, Opened, Opening};

/// A data directory whose log was read to its end.
pub struct BareNode {
    config: Config,
    opened: Opened,
    clock: SystemClock,
}

/// The same, taking commands.
pub struct RunningBareNode {
    node: Node<()>,
    follower: Snapshotter,
    /// Lives until the node has stopped, so that the last mark is of the last sync.
    _marking: DurableMarkThread,
}

impl BareNode {
    /// Opens a directory, or begins one, with notices as measurements have them: payees get no
    /// confirmation. Start-up messages go to standard error: standard output is for the result.
    pub fn open(data: &Path, segment_mib: u64, clock: &SystemClock) -> Result<Self, CliError> {
        let mut config = Config::default();
        config.transfers.confirm_to_payee = false;
        config.log.segment_mib = segment_mib;
        stdout::reserve_output_for_script();
        layout::refuse_unfinished(data)?;
        let opened = serve::open(&config, data, &Opening::default(), clock)?;
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
        let Opened { sequencer, directory, following, .. } = opened;
        let limits = InboxLimits::default();
        let node = node::start(sequencer, clock, directory, vec![mailbox], limits)
            .map_err(|error| CliError::new(format!("cannot start the sequencer: {error}")))?;
        let marking = DurableMarkThread::start(following.disk.clone(), following.frames.clone())?;
        let follower = following.start(&config, node.handle(), |_| ())?;
        Ok(RunningBareNode { node, follower, _marking: marking })
    }
}

impl RunningBareNode {
    /// Submits commands and reads figures.
    #[must_use]
    pub fn handle(&self) -> Handle<()> {
        self.node.handle()
    }

    /// Ends everything in order.
    pub fn stop(self) -> Result<(), CliError> {
        self.follower.stop();
        self.node.stop().map_err(CliError::new)
    }
}
