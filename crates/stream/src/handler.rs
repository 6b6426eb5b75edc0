//! Calls of a handler: attempts, pauses, dead letters.

use std::slice;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::consumer::Consumer;
use crate::message::ReceivedMessage;
use crate::producer::Record;
use crate::{HandlerError, StreamError};

/// A batch whose handler has ended.
pub(crate) struct Finished<'c> {
    pub(crate) lane: usize,
    pub(crate) batch: Vec<ReceivedMessage<'c>>,
    pub(crate) outcome: Result<(), Unfinished>,
}

/// Why the messages of a batch are not done.
pub(crate) enum Unfinished {
    /// The consumer stops.
    Stopped,
    /// The consumer must end.
    Failed(StreamError),
}

/// A handler's last error, and how often it was called.
struct Refusal {
    error: HandlerError,
    attempts: u32,
}

impl Consumer {
    /// Calls the handler until each message of the batch is done.
    pub(crate) async fn attempt<H>(
        &self,
        handler: &H,
        batch: &[ReceivedMessage<'_>],
    ) -> Result<(), Unfinished>
    where
        H: AsyncFn(&[ReceivedMessage<'_>]) -> Result<(), HandlerError>,
    {
        let Err(refusal) = self.with_retries(handler, batch).await? else { return Ok(()) };
        if let [message] = batch {
            return self.refuse(message, refusal).await;
        }
        // One message of the batch may be the cause: each gets attempts of its own.
        for message in batch {
            let single = slice::from_ref(message);
            if let Err(refusal) = self.with_retries(handler, single).await? {
                self.refuse(message, refusal).await?;
            }
        }
        Ok(())
    }

    /// Calls the handler until it succeeds or has failed too often.
    async fn with_retries<H>(
        &self,
        handler: &H,
        batch: &[ReceivedMessage<'_>],
    ) -> Result<Result<(), Refusal>, Unfinished>
    where
        H: AsyncFn(&[ReceivedMessage<'_>]) -> Result<(), HandlerError>,
    {
        let retries = &self.settings.retries;
        let mut attempts = 1;
        loop {
            let Err(error) = self.call(handler, batch).await else { return Ok(Ok(())) };
            let is_last =
                matches!(error, HandlerError::Poison(_)) || retries.attempts_max < attempts;
            if is_last {
                return Ok(Err(Refusal { error, attempts }));
            }
            self.wait(retries.pause(attempts)).await?;
            attempts += 1;
            self.shared.progress.retries.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn call<H>(&self, handler: &H, batch: &[ReceivedMessage<'_>]) -> Result<(), HandlerError>
    where
        H: AsyncFn(&[ReceivedMessage<'_>]) -> Result<(), HandlerError>,
    {
        self.shared.progress.calls.fetch_add(1, Ordering::Relaxed);
        let Some(limit) = self.settings.handler_timeout else { return handler(batch).await };
        let timed = tokio::time::timeout(limit, handler(batch)).await;
        timed.unwrap_or_else(|_| Err(HandlerError::Failed(format!("not done within {limit:?}"))))
    }

    /// Waits, unless the consumer stops.
    async fn wait(&self, pause: Duration) -> Result<(), Unfinished> {
        let stopped = self.shared.stopped.notified();
        if self.shared.is_stopping.load(Ordering::SeqCst) {
            return Err(Unfinished::Stopped);
        }
        tokio::select! {
            () = stopped => Err(Unfinished::Stopped),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }

    /// Writes a message that cannot be handled to the dead-letter topic, or ends the consumer.
    async fn refuse(
        &self,
        message: &ReceivedMessage<'_>,
        refusal: Refusal,
    ) -> Result<(), Unfinished> {
        let Some((topic, producer)) = &self.dead_letters else {
            return Err(Unfinished::Failed(StreamError::Poison {
                topic: message.topic().to_owned(),
                partition: message.partition(),
                offset: message.offset(),
                attempts: refusal.attempts,
                reason: refusal.error.to_string(),
            }));
        };
        let record = dead_letter(topic, message, &refusal);
        let mut tries = 1;
        while producer.send(&record).await.is_err() {
            self.wait(self.settings.retries.pause(tries)).await?;
            tries += 1;
        }
        self.shared.progress.dead_letters.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// The unchanged message, with headers that name its origin and the reason.
fn dead_letter(topic: &str, message: &ReceivedMessage<'_>, refusal: &Refusal) -> Record {
    let mut record = Record::to(topic, message.bytes().to_vec());
    record.key = message.key().map(<[u8]>::to_vec);
    record.headers =
        message.headers().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
    let added = [
        ("dead-letter-topic", message.topic().to_owned()),
        ("dead-letter-partition", message.partition().to_string()),
        ("dead-letter-offset", message.offset().to_string()),
        ("dead-letter-attempts", refusal.attempts.to_string()),
        ("dead-letter-reason", refusal.error.to_string()),
    ];
    record.headers.extend(added.map(|(name, value)| (name.to_owned(), value.into_bytes())));
    record
}
