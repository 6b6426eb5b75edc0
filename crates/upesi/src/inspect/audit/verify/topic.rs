//! Reads the messages of a Kafka topic of signed chain heads.

use std::path::Path;

use crate::CliError;

/// Passes each message of the topic to `visit`: where it is, its key and its bytes. `configuration`
/// has TLS and login in its section `[kafka]`.
#[cfg(feature = "kafka")]
pub(super) fn read(
    topic: &str,
    configuration: Option<&Path>,
    visit: &mut dyn FnMut(&str, &str, &[u8]),
) -> Result<(), CliError> {
    use std::ops::ControlFlow;

    use harness::Progress;

    use crate::config::Config;
    use crate::serve::log_backend::BROKER_TIMEOUT;

    let failed = |error: String| CliError::new(format!("--heads {topic}: {error}"));
    let address = topic.parse::<kafka::Address>();
    let address = address.map_err(|error| failed(error.to_string()))?;
    let config = Config::read(configuration)?;
    let options = kafka::TopicOptions {
        node: "audit".into(),
        patience: BROKER_TIMEOUT,
        copy: journal::LogOptions::default(),
        security: config.kafka.access().security()?,
    };
    let reader = kafka::MessageReader::open(&address, &options);
    let reader = reader.map_err(|error| failed(error.to_string()))?;
    let (mut read, mut progress) = (0, Progress::new("messages", Some(reader.offsets())));
    let whole = reader.read(&mut |message| {
        read += 1;
        progress.show(read);
        let place =
            format!("message at offset {} of partition {}", message.offset, message.partition);
        visit(&place, &String::from_utf8_lossy(message.key), message.bytes);
        ControlFlow::Continue(())
    });
    whole.map_err(|error| failed(error.to_string()))?;
    progress.end();
    match read {
        0 => Err(failed("holds no signed chain heads; see chain_heads.topic".into())),
        _ => Ok(()),
    }
}

/// Fails: this build has no Kafka.
#[cfg(not(feature = "kafka"))]
pub(super) fn read(
    topic: &str,
    _configuration: Option<&Path>,
    _visit: &mut dyn FnMut(&str, &str, &[u8]),
) -> Result<(), CliError> {
    Err(CliError::new(format!(
        "--heads {topic}: this binary was built without Kafka; build it with the feature kafka"
    )))
}
