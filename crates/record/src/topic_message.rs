//! A message of a topic: a node's proposal ([`crate::bundle`]), a node's state hash, or the move of
//! a log to or from the topic.
//!
//! A log is moved to a topic unchanged: frame by frame, each with its log index, stamp and chain,
//! and then an end marker. Proposals count only after the marker, and frames only before it. A
//! message that the log was moved away ends it for the topic.
//!
//! The header is as long as that of a bundle. Programs that only know bundles read that a newer
//! version wrote it, and stop. Kind 4 was added later; programs that do not know it ignore it.
//!
//! Every version keeps the magic, the version, the length at 8 and a header of at least 144 bytes.
//! A message that differs was not written by any version.
//!
//! # Layout, version 2 (all integers little endian)
//! | at | bytes | field |
//! |---:|---:|---|
//! | 0 | 4 | magic `UpBu` |
//! | 4 | 2 | format version, 2 |
//! | 6 | 2 | kind: 1 a frame, 2 end of a moved log, 3 the log was moved away, 4 a state |
//! | 8 | 4 | length of the whole message |
//! | 12 | 4 | CRC-32C of all other bytes |
//! | 16 | 16 | identity of the log |
//! | 32 | 8 | kinds 1 and 2: index of the log's last record so far; 4: of the state's; 3: zero |
//! | 40 | 32 | kinds 1 and 2: chain head there; 4: hash of the state; 3: zero |
//! | 72 | 4 | kind 4: the node; else zero |
//! | 76 | 4 | kind 4: its epoch; else zero |
//! | 80 | 64 | zero |
//! | 144 | | kind 1: the frame ([`crate::frame`]) |

use alloc::vec::Vec;

use ledger::{Digest, LogIndex};

use crate::bundle::{BUNDLE_MAGIC, BUNDLE_VERSION, BUNDLE_VERSION_FIRST, Bundle, BundleError};
use crate::checksum::crc32c;
use crate::frame::{FRAME_BYTES_MAX, Frame, LogIdentity};
use crate::little_endian::{array_at, u16_at, u32_at, u64_at};

/// The format version of all messages but bundles.
pub const TOPIC_MESSAGE_VERSION: u16 = 2;
/// Maximum length of a message with a frame.
pub const MOVED_FRAME_BYTES_MAX: usize = HEAD + FRAME_BYTES_MAX;

const HEAD: usize = 144;
const AT_CRC: usize = 12;
const AFTER_CRC: usize = 16;
const AT_NODE: usize = 72;
const AT_EPOCH: usize = 76;
const AT_ZERO: usize = 80;
const KIND_FRAME: u16 = 1;
const KIND_END_OF_MOVED_LOG: u16 = 2;
const KIND_LOG_MOVED: u16 = 3;
const KIND_STATE: u16 = 4;

/// A node and its epoch.
type NodeEpoch = [u32; 2];
const NO_NODE: NodeEpoch = [0; 2];

/// A validated view of a message's bytes.
#[derive(Clone, Copy, Debug)]
pub enum TopicMessage<'a> {
    /// A node's proposal.
    Bundle(Bundle<'a>),
    /// The next frame of a moved log.
    Frame(Frame<'a>),
    /// The end of a moved log.
    EndOfMovedLog(LogEnd),
    /// The log with this identity was moved away.
    LogMoved(LogIdentity),
    /// The state hash of a node.
    State(StateAttestation),
}

/// The state hash of a node at a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateAttestation {
    /// The log.
    pub identity: LogIdentity,
    /// The node.
    pub node: u32,
    /// The node's epoch.
    pub epoch: u32,
    /// The last record of the state.
    pub log_index: LogIndex,
    /// The hash of the state.
    pub hash: Digest,
}

/// The end of a moved log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The log.
    pub identity: LogIdentity,
    /// Its last record.
    pub log_index: LogIndex,
    /// Chain head there.
    pub chain: Digest,
}

/// Writes a message with a frame into `out`, replacing its content.
pub fn write_frame(frame: &Frame<'_>, out: &mut Vec<u8>) {
    let header = frame.header();
    let end = LogEnd { identity: header.identity, log_index: header.last(), chain: frame.chain() };
    write((KIND_FRAME, NO_NODE), &end, frame.as_bytes(), out);
}

/// Writes the end marker of a moved log into `out`, replacing its content.
pub fn write_end_of_moved_log(end: &LogEnd, out: &mut Vec<u8>) {
    write((KIND_END_OF_MOVED_LOG, NO_NODE), end, &[], out);
}

/// Writes the message that a log was moved away into `out`, replacing its content.
pub fn write_log_moved(identity: LogIdentity, out: &mut Vec<u8>) {
    let empty = LogEnd { identity, log_index: LogIndex(0), chain: Digest([0; 32]) };
    write((KIND_LOG_MOVED, NO_NODE), &empty, &[], out);
}

/// Writes the message with a node's state hash into `out`, replacing its content.
pub fn write_state(attestation: &StateAttestation, out: &mut Vec<u8>) {
    let StateAttestation { identity, node, epoch, log_index, hash } = *attestation;
    write((KIND_STATE, [node, epoch]), &LogEnd { identity, log_index, chain: hash }, &[], out);
}

fn write((kind, node_epoch): (u16, NodeEpoch), end: &LogEnd, rest: &[u8], out: &mut Vec<u8>) {
    let length = HEAD + rest.len();
    out.clear();
    out.extend_from_slice(&BUNDLE_MAGIC);
    out.extend_from_slice(&TOPIC_MESSAGE_VERSION.to_le_bytes());
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&(length as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&end.identity.0);
    out.extend_from_slice(&end.log_index.0.to_le_bytes());
    out.extend_from_slice(&end.chain.0);
    node_epoch.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
    out.extend_from_slice(&[0; HEAD - AT_ZERO]);
    out.extend_from_slice(rest);
    let crc = checksum(out);
    out[AT_CRC..AFTER_CRC].copy_from_slice(&crc.to_le_bytes());
    debug_assert!(TopicMessage::parse(out).is_ok(), "a message that was written is readable");
}

impl<'a> TopicMessage<'a> {
    /// Parses a message, which must take all of `bytes`.
    ///
    /// # Errors
    /// [`BundleError`] for bytes that no version up to this one wrote; never panics.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BundleError> {
        let version = bytes.first_chunk::<6>().filter(|head| head[..4] == BUNDLE_MAGIC);
        match version.map(|head| u16::from_le_bytes([head[4], head[5]])) {
            None | Some(BUNDLE_VERSION | BUNDLE_VERSION_FIRST) => {
                Bundle::parse(bytes).map(Self::Bundle)
            }
            Some(TOPIC_MESSAGE_VERSION) => Self::parse_other(bytes).map_err(BundleError::Foreign),
            Some(version) if is_of_some_version(bytes) => Err(BundleError::Version(version)),
            Some(_) => Err(BundleError::Foreign("it was not written by any known version")),
        }
    }

    fn parse_other(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let (head, rest) =
            bytes.split_first_chunk::<HEAD>().ok_or("it is too short for its kind")?;
        let kind = u16_at(head, 6);
        let is_whole = u32_at(head, 8) as usize == bytes.len();
        if !is_whole || MOVED_FRAME_BYTES_MAX < bytes.len() {
            return Err("its length does not match the message");
        }
        if checksum(bytes) != u32_at(head, AT_CRC) {
            return Err("its checksum is wrong");
        }
        if head[AT_ZERO..] != [0; HEAD - AT_ZERO] {
            return Err("a field of its header is out of range");
        }
        let end = LogEnd {
            identity: LogIdentity(array_at(head, AFTER_CRC)),
            log_index: LogIndex(u64_at(head, 32)),
            chain: Digest(array_at(head, 40)),
        };
        let node_epoch = [AT_NODE, AT_EPOCH].map(|at| u32_at(head, at));
        match (kind, node_epoch, rest) {
            (KIND_FRAME, NO_NODE, _) => framed(&end, rest),
            (KIND_END_OF_MOVED_LOG, NO_NODE, []) => Ok(Self::EndOfMovedLog(end)),
            (KIND_LOG_MOVED, NO_NODE, []) if end.log_index.0 == 0 && end.chain.0 == [0; 32] => {
                Ok(Self::LogMoved(end.identity))
            }
            (KIND_STATE, [node, epoch], []) if node != 0 => {
                let LogEnd { identity, log_index, chain: hash } = end;
                Ok(Self::State(StateAttestation { identity, node, epoch, log_index, hash }))
            }
            _ => Err("a field of its header is out of range"),
        }
    }

    /// The identity of the log.
    #[must_use]
    pub const fn identity(&self) -> LogIdentity {
        match self {
            Self::Bundle(bundle) => bundle.header.identity,
            Self::Frame(frame) => frame.header().identity,
            Self::EndOfMovedLog(end) => end.identity,
            Self::LogMoved(identity) => *identity,
            Self::State(attestation) => attestation.identity,
        }
    }
}

fn framed<'a>(end: &LogEnd, bytes: &'a [u8]) -> Result<TopicMessage<'a>, &'static str> {
    let frame = Frame::parse(bytes).map_err(|_| "its frame is invalid")?;
    let header = frame.header();
    let content = (header.identity, header.last(), frame.chain());
    if frame.as_bytes().len() != bytes.len() || content != (end.identity, end.log_index, end.chain)
    {
        return Err("its frame does not match its header");
    }
    Ok(TopicMessage::Frame(frame))
}

/// Whether an unknown version may have written this.
fn is_of_some_version(bytes: &[u8]) -> bool {
    HEAD <= bytes.len() && u32_at(bytes, 8) as usize == bytes.len()
}

/// CRC-32C of everything but the checksum itself.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c(&bytes[..AT_CRC]) ^ crc32c(&bytes[AFTER_CRC..]).rotate_left(1)
}

#[cfg(test)]
mod tests;
