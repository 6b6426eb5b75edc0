//! A message as a handler sees it.

use std::fmt;

use rdkafka::Message as _;
use rdkafka::message::{BorrowedMessage, Headers};
use serde::de::DeserializeOwned;

use crate::HandlerError;

/// A message of a topic. Its bytes stay in the memory of the client library.
pub struct ReceivedMessage<'a> {
    inner: BorrowedMessage<'a>,
    pub(crate) origin: Origin,
}

/// Which partition a message was taken from, and in which assignment of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Its index in [`crate::assignment::Assignment`].
    pub(crate) partition: usize,
    /// Which assignment of the partition to this consumer, counted from 1.
    pub(crate) epoch: u32,
}

impl<'a> ReceivedMessage<'a> {
    pub(crate) fn new(inner: BorrowedMessage<'a>, origin: Origin) -> Self {
        Self { inner, origin }
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        self.inner.topic()
    }

    /// The partition.
    pub fn partition(&self) -> i32 {
        self.inner.partition()
    }

    /// The offset in the partition.
    pub fn offset(&self) -> i64 {
        self.inner.offset()
    }

    /// When it was sent or appended, in milliseconds since 1970, if the topic has it.
    pub fn timestamp_ms(&self) -> Option<i64> {
        self.inner.timestamp().to_millis()
    }

    /// The key.
    pub fn key(&self) -> Option<&[u8]> {
        self.inner.key()
    }

    /// The value. A message without a value has an empty one.
    pub fn bytes(&self) -> &[u8] {
        self.inner.payload().unwrap_or_default()
    }

    /// The value as UTF-8.
    pub fn text(&self) -> Result<&str, DecodeError> {
        std::str::from_utf8(self.bytes()).map_err(|error| self.fault("UTF-8", &error))
    }

    /// The value as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        serde_json::from_slice(self.bytes()).map_err(|error| self.fault("JSON", &error))
    }

    /// The value as a protobuf message.
    pub fn protobuf<T: prost::Message + Default>(&self) -> Result<T, DecodeError> {
        T::decode(self.bytes()).map_err(|error| self.fault("protobuf", &error))
    }

    fn fault(&self, form: &'static str, error: &dyn fmt::Display) -> DecodeError {
        DecodeError { form, error: error.to_string() }
    }

    /// The headers with their values, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let headers = self.inner.headers();
        let all = headers.into_iter().flat_map(|headers| headers.iter());
        all.map(|header| (header.key, header.value.unwrap_or_default()))
    }

    /// The last header of this name, as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let value = self.headers().filter(|(key, _)| *key == name).last()?.1;
        std::str::from_utf8(value).ok()
    }
}

impl fmt::Debug for ReceivedMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]@{}", self.topic(), self.partition(), self.offset())
    }
}

/// A value that does not have the form that its handler expects. A handler that returns it does not
/// get the message again: see [`crate::Poison`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value is not {form}: {error}")]
pub struct DecodeError {
    form: &'static str,
    error: String,
}

impl From<DecodeError> for HandlerError {
    fn from(error: DecodeError) -> Self {
        HandlerError::Poison(error.to_string())
    }
}
