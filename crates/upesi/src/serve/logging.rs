//! Log messages and the audit trail of the admin API.
//!
//! Messages go to standard error, as text or as JSON. A thread of its own writes them from a
//! bounded buffer: if standard error is slow or blocked, messages are dropped and counted, and the
//! switch does not wait. Levels state what a person must do: `error` act now, `warn` look at it,
//! `info` and `debug` nothing.
//!
//! The audit trail has one line of JSON per request to the admin API. With `logging.audit_file` it
//! is appended to that file before the request is answered; otherwise it is part of the messages,
//! with the target `audit`, at every level of messages.

mod audit_file;
mod escaped_json;

use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use tracing::Subscriber;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{FilterExt, LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Registry, fmt, reload};

use crate::CliError;
use crate::config::{self, LogFormat, LogLevels};
use crate::serve::logging::audit_file::AuditFile;
use crate::serve::logging::escaped_json::EscapedJson;

pub(crate) use crate::serve::logging::audit_file::failed as audit_entries_failed;

/// Maximum number of messages that wait to be written.
const WAITING_MAX: usize = 8_192;
/// Target of the audit trail.
const AUDIT: &str = "audit";

/// Writes the waiting messages when it is dropped.
static WRITER: Mutex<Option<WorkerGuard>> = Mutex::new(None);
static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// The parts of the logging that can be reloaded.
pub(crate) struct Logging {
    levels: reload::Handle<Targets, Registry>,
    audit: Option<AuditFile>,
}

impl Logging {
    /// Starts logging for this process.
    pub(crate) fn start(config: &config::Logging) -> Result<Self, CliError> {
        let (levels, handle) = reload::Layer::new(config.level.targets());
        let (stderr, guard) =
            NonBlockingBuilder::default().buffered_lines_limit(WAITING_MAX).finish(io::stderr());
        let audit = config.audit_file.as_deref();
        let audit = audit.map(|path| AuditFile::open(path, stderr.clone())).transpose()?;
        let _only_one = DROPPED.set(stderr.error_counter());
        *writer() = Some(guard);
        let has_file = audit.is_some();
        // The levels do not apply to the audit trail.
        let trail = filter_fn(|about| about.target() == AUDIT);
        let messages = levels.or(trail.with_max_level_hint(LevelFilter::INFO));
        let messages = messages.and(filter_fn(move |about| !(has_file && about.target() == AUDIT)));
        let trail = audit.clone().map(|file| {
            let only = Targets::new().with_target(AUDIT, LevelFilter::INFO);
            json(file).with_filter(only)
        });
        let layers = Registry::default().with(messages_to(stderr, config.format, messages));
        tracing::subscriber::set_global_default(layers.with(trail))
            .map_err(|error| CliError::new(format!("cannot start logging: {error}")))?;
        Ok(Self { levels: handle, audit })
    }

    /// Takes over the levels, and opens the audit file again, which may have been renamed.
    pub(crate) fn reload(&self, levels: &LogLevels) {
        if let Err(error) = self.levels.reload(levels.targets()) {
            tracing::error!(%error, "logging.level: cannot be changed");
        }
        if let Some(Err(error)) = self.audit.as_ref().map(AuditFile::reopen) {
            tracing::error!(%error, "logging.audit_file: cannot be opened; the old one is used");
        }
    }

    /// Logs that the audit file could not be written, if so.
    pub(crate) fn report_failures(&self) {
        self.audit.iter().for_each(AuditFile::report);
    }
}

/// The layer of the messages. Its filter is applied here, because the two formats have different
/// types.
fn messages_to<F>(stderr: NonBlocking, format: LogFormat, filter: F) -> impl Layer<Registry>
where
    F: tracing_subscriber::layer::Filter<Registry> + Send + Sync + 'static,
{
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Text => Box::new(fmt::layer().with_ansi(false).with_writer(stderr)),
        LogFormat::Json => Box::new(json(stderr)),
    };
    layer.with_filter(filter)
}

/// One JSON object per line, with time, level, target and the fields side by side.
fn json<S, W>(to: W) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let layer = fmt::layer().json().flatten_event(true);
    layer.with_current_span(false).with_span_list(false).with_writer(EscapedJson(to))
}

/// Logs warnings of a command that is not the switch, as lines for people.
pub(crate) fn start_for_command() {
    let lines = fmt::layer().with_ansi(false).without_time().with_target(false);
    let lines = lines.with_writer(io::stderr).with_filter(LevelFilter::WARN);
    // A test may have started it already.
    let _started = tracing::subscriber::set_global_default(Registry::default().with(lines));
}

/// Writes the waiting messages when it is dropped.
pub(crate) struct FlushAtEnd;

impl Drop for FlushAtEnd {
    fn drop(&mut self) {
        flush();
    }
}

/// Number of messages that were dropped because too many waited.
pub(crate) fn dropped() -> u64 {
    DROPPED.get().map_or(0, |counter| counter.dropped_lines() as u64)
}

/// Writes the waiting messages before the process exits.
pub(crate) fn flush() {
    drop(writer().take());
}

fn writer() -> std::sync::MutexGuard<'static, Option<WorkerGuard>> {
    WRITER.lock().unwrap_or_else(PoisonError::into_inner)
}
