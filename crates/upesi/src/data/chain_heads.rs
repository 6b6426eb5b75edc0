//! Signed chain heads: statements that let a third party prove that a log was not changed later.
//!
//! A chain head covers every byte of the log before it. Each statement is a compact JWS in an
//! object of its own, `heads/<log index>.jws`, in a blob store that belongs to the log, or in a
//! message of a Kafka topic with the key `<log index>.jws`. Its payload
//! is a [`ChainHead`] in JSON. A statement that exists is never replaced.

use journal::{BlobError, BlobStore};
use jws::{SignError, SigningKey, StatementError, VerificationKey};
use ledger::LogIndex;
use record::frame::Tail;
use serde::{Deserialize, Serialize};

use crate::cli::stdout::moment;

/// The folder of the statements in a blob store.
const FOLDER: &str = "heads";
const EXTENSION: &str = ".jws";

/// The payload of a statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChainHead {
    /// The identity of the log, in hexadecimal.
    pub(crate) log: String,
    /// The last record that the chain head covers.
    pub(crate) log_index: u64,
    /// The stamp of that record.
    pub(crate) stamp: String,
    /// The chain head, in hexadecimal.
    pub(crate) chain_head: String,
}

/// Why a statement is not accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    BlobStore(#[from] BlobError),
    /// No key accepts it; the reason is that of the last key.
    #[error("{0}")]
    Statement(StatementError),
    #[error("its payload is not a chain head: {0}")]
    Payload(serde_json::Error),
    #[error("it is about record {0}, which is not the record in its name")]
    OtherName(u64),
}

/// Publishes the statement about the end of a log, unless it exists.
pub(crate) fn publish(
    store: &dyn BlobStore,
    tail: &Tail,
    statement: &str,
) -> Result<(), BlobError> {
    let name = object_name(tail.end);
    if store.length(&name)?.is_some() {
        return Ok(());
    }
    journal::put(store, &name, statement.as_bytes())
}

/// The key of a statement in a topic: the name of its object in the folder.
pub(crate) fn message_key(tail: &Tail) -> String {
    file_name(tail.end)
}

/// The statement about the end of a log.
pub(crate) fn sign(key: &SigningKey, tail: &Tail) -> Result<String, SignError> {
    let head = ChainHead {
        log: tail.identity.to_string(),
        log_index: tail.end.0,
        stamp: moment(tail.stamp),
        chain_head: tail.chain.to_string(),
    };
    let payload = serde_json::to_vec(&head).expect("texts and a number are JSON");
    jws::sign_statement(&payload, key)
}

/// The names of the published statements, in the order of the log.
pub(crate) fn list(store: &dyn BlobStore) -> Result<Vec<String>, BlobError> {
    let names = store.list(FOLDER)?;
    Ok(names.into_iter().filter(|name| name.ends_with(EXTENSION)).collect())
}

/// Reads a statement that one of the keys signed.
pub(crate) fn read(
    store: &dyn BlobStore,
    name: &str,
    keys: &[VerificationKey],
) -> Result<ChainHead, ReadError> {
    let object = format!("{FOLDER}/{name}");
    let bytes = journal::get(store, &object, jws::STATEMENT_BYTES_MAX as u64)?;
    verify(name, &bytes, keys)
}

/// Reads the bytes of a statement that one of the keys signed.
pub(crate) fn verify(
    name: &str,
    bytes: &[u8],
    keys: &[VerificationKey],
) -> Result<ChainHead, ReadError> {
    let text = String::from_utf8_lossy(bytes);
    let mut verified = Err(StatementError::Wrong);
    for key in keys {
        verified = jws::verify_statement(&text, key);
        if verified.is_ok() {
            break;
        }
    }
    let payload = verified.map_err(ReadError::Statement)?;
    let head: ChainHead = serde_json::from_slice(&payload).map_err(ReadError::Payload)?;
    match name == file_name(LogIndex(head.log_index)) {
        true => Ok(head),
        false => Err(ReadError::OtherName(head.log_index)),
    }
}

fn object_name(log_index: LogIndex) -> String {
    format!("{FOLDER}/{}", file_name(log_index))
}

fn file_name(log_index: LogIndex) -> String {
    format!("{:020}{EXTENSION}", log_index.0)
}
