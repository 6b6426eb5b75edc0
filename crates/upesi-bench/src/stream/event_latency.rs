//! How late a hub's events reach a consumer: from the time of the record in the log to the handler.

use std::cell::RefCell;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fspiop::time::parse_date_time;
use harness::histograms::{histogram, record};
use serde::{Deserialize, Serialize};
use stream::{Consumer, ConsumerSettings, HandlerError, ReceivedMessage, StreamError};

/// The time of a CloudEvent.
#[derive(Deserialize)]
struct Timed {
    time: String,
}

/// Latencies of events. Their times have whole milliseconds, so each is up to 1 ms too long.
#[derive(Serialize)]
pub(crate) struct EventLatency {
    events: u64,
    p50_us: u64,
    p99_us: u64,
    max_us: u64,
}

/// Reads the committed events that are published during a time.
pub(crate) async fn measure(
    brokers: &str,
    topic: &str,
    time: Duration,
) -> Result<EventLatency, StreamError> {
    let group = format!("upesi-bench-{}-{:?}", std::process::id(), since_epoch());
    let mut settings = ConsumerSettings::new(brokers, &group, &[topic]);
    let properties = [("auto.offset.reset", "latest"), ("isolation.level", "read_committed")];
    settings.properties.extend(properties.map(|(name, value)| (name.into(), value.into())));
    let consumer = Consumer::connect(settings)?;
    let control = consumer.control();
    let times = RefCell::new(histogram());
    let handler = async |batch: &[ReceivedMessage<'_>]| {
        let now = since_epoch();
        for message in batch {
            let Timed { time } = message.json()?;
            let sent = parse_date_time(&time);
            let sent = sent.ok_or_else(|| HandlerError::Poison(format!("time {time:?}")))?;
            record(&mut times.borrow_mut(), now.saturating_sub(Duration::from_millis(sent)));
        }
        Ok(())
    };
    let end = async {
        tokio::time::sleep(time).await;
        control.stop();
        std::future::pending().await
    };
    tokio::select! {
        ended = consumer.run(handler) => ended.map(drop)?,
        never = end => never,
    }
    let times = times.borrow();
    Ok(EventLatency {
        events: times.len(),
        p50_us: times.value_at_quantile(0.5),
        p99_us: times.value_at_quantile(0.99),
        max_us: times.max(),
    })
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl fmt::Display for EventLatency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |micros: u64| micros as f64 / 1e3;
        let Self { events, p50_us, p99_us, max_us } = *self;
        write!(
            f,
            "{events} events, from the record to the handler: p50 {:.2} ms, p99 {:.2} ms, longest \
             {:.2} ms",
            ms(p50_us),
            ms(p99_us),
            ms(max_us)
        )
    }
}
