//! The form, the topic and the key of each event.

use events::{
    Event, EventKind, EventWriter, PersonalData, ReferenceWriter, key_of, reference_key,
    reference_topic,
};
use kafka::Publication;
use ledger::ErrorOutcome;

use crate::CliError;
use crate::config::{Config, Envelope, Events};

/// The media type of CloudEvents in structured mode.
pub(super) const CLOUD_EVENT: &str = "application/cloudevents+json; charset=UTF-8";

/// The media type of messages of the reference.
const JSON: &str = "application/json";

/// Writes events as messages.
pub(super) struct EventForms {
    kinds: Vec<EventKind>,
    settings: Events,
    form: Form,
}

enum Form {
    CloudEvents(EventWriter),
    Reference(ReferenceWriter),
}

/// Memory of one message.
#[derive(Default)]
pub(super) struct MessageBuffer {
    key: String,
    value: Vec<u8>,
}

impl EventForms {
    pub(super) fn new(config: &Config, identity: [u8; 16]) -> Result<Self, CliError> {
        let settings = config.events.clone();
        let personal = match settings.personal_data {
            true => PersonalData::Included,
            false => PersonalData::Omitted,
        };
        let hub = config.hub_name()?;
        let writer = EventWriter::new(&hub, identity, personal);
        let form = match settings.envelope {
            Envelope::CloudEvents => Form::CloudEvents(writer),
            Envelope::Mojaloop => {
                let code = |outcome| ErrorOutcome::of(outcome).map(switch::error_code);
                Form::Reference(ReferenceWriter::new(hub.to_string(), identity, writer, code))
            }
        };
        let kinds = settings.kinds.iter().map(|kind| kind.0).collect();
        Ok(Self { kinds, settings, form })
    }

    /// All topics of the published kinds, and that of counts.
    pub(super) fn topics(&self) -> Vec<String> {
        let mut topics: Vec<_> = self.kinds.iter().map(|kind| self.topic(*kind)).collect();
        topics.extend(
            (0 < self.settings.counts_every_seconds).then_some(&*self.settings.counts_topic),
        );
        topics.sort_unstable();
        topics.dedup();
        topics.into_iter().map(str::to_owned).collect()
    }

    /// Whether an event is published.
    pub(super) fn accepts(&self, event: &Event) -> bool {
        self.kinds.contains(&event.data.kind())
    }

    /// The message of an event.
    pub(super) fn message<'a>(
        &'a self,
        event: &Event,
        buffer: &'a mut MessageBuffer,
    ) -> Publication<'a> {
        buffer.value.clear();
        let content_type = match &self.form {
            Form::CloudEvents(writer) => {
                writer.write(event, &mut buffer.value);
                buffer.key = key_of(&event.data);
                CLOUD_EVENT
            }
            Form::Reference(writer) => {
                writer.write(event, &mut buffer.value);
                buffer.key = reference_key(&event.data);
                JSON
            }
        };
        let topic = self.topic(event.data.kind());
        Publication { topic, key: Some(&buffer.key), value: &buffer.value, content_type }
    }

    fn topic(&self, kind: EventKind) -> &str {
        self.settings.topic_of(kind).unwrap_or_else(|| reference_topic(kind))
    }
}
