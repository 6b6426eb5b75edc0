//! Topics: creation.

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::StreamError;
use crate::consumer::refused;
use crate::settings::{Properties, client_config};

/// Creates a topic with this many partitions and copies of each, unless it exists. Returns whether
/// it was created.
///
/// # Errors
/// [`StreamError::Settings`], and [`StreamError::Client`] if the brokers refuse.
pub async fn create_topic(
    brokers: &str,
    properties: &Properties,
    name: &str,
    partitions: i32,
    copies: i32,
) -> Result<bool, StreamError> {
    let config = client_config(brokers, properties);
    let admin: AdminClient<DefaultClientContext> = config.create().map_err(refused)?;
    let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(copies));
    let answers = admin.create_topics(&[topic], &AdminOptions::new()).await;
    let answer = answers.map_err(StreamError::Client)?.into_iter().next();
    match answer {
        Some(Ok(_)) => Ok(true),
        Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(false),
        Some(Err((_, code))) => Err(StreamError::Client(KafkaError::AdminOp(code))),
        None => Ok(false),
    }
}
