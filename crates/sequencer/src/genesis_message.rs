//! The first message of a shared log.

use ledger::{Command, Genesis, RULES_VERSION, Stamp};
use record::bundle::{self, BundleHeader, StateClaim};
use record::frame::{FrameBuilder, LogIdentity};

use crate::encode;

/// The content of the first message of a shared log.
#[derive(Clone, Debug)]
pub struct GenesisMessage {
    /// The log's identity. It must be random: no participant may guess it.
    pub identity: LogIdentity,
    /// Its first record.
    pub genesis: Genesis,
    /// The number of the node that creates it.
    pub node: u32,
    /// That node's wall clock.
    pub wall: Stamp,
}

impl GenesisMessage {
    /// The bundle of the node with this name. It is valid only as the first of its topic.
    ///
    /// # Panics
    /// With a name longer than [`bundle::NODE_NAME_MAX`].
    #[must_use]
    pub fn bundle(&self, name: &str) -> Vec<u8> {
        let command = Command::Genesis(self.genesis.clone());
        let record = encode(&command, None).expect("a genesis record is short");
        let mut builder = FrameBuilder::new();
        builder.push(&record).expect("an empty frame has room for any record");
        let header = BundleHeader {
            identity: self.identity,
            creates_log: true,
            node: self.node,
            epoch: 1,
            sequence: 1,
            wall: self.wall,
            instance: 0,
            claim: StateClaim::default(),
            rules: RULES_VERSION,
            name,
        };
        let mut bytes = Vec::new();
        bundle::write(&header, builder.count(), builder.records(), &mut bytes);
        bytes
    }
}
