//! The thread that exports spans: it takes them from the queue, converts them, and sends them in
//! batches to a collector.
//!
//! A failed batch is dropped, because later ones are of more use. The thread wakes every
//! [`INTERVAL`]; the I/O threads never wake it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};
use hyper_rustls::HttpsConnectorBuilder;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;
use tls::ClientTls;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::options::{ExportOptions, ExportProtocol, InvalidSetting};
use crate::queue::{ExportResult, WaitingSpans};
use crate::span_data::{ClockPair, span_data};

/// Spans in one export.
const BATCH_MAX: usize = 512;
/// Time between two looks into the empty queue.
const INTERVAL: Duration = Duration::from_millis(250);
/// Time limit of an export with its retries.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time that a stop gives to the last spans.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// The running thread.
#[derive(Debug)]
pub struct ExportThread {
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

/// Starts the thread. It connects to the collector with the first spans. When the files of `tls`
/// have changed, it connects again.
///
/// # Errors
/// [`InvalidSetting`]: the collector cannot be called with these options, or the thread cannot be
/// started.
pub fn start(
    options: &ExportOptions,
    tls: Arc<ClientTls>,
    waiting: WaitingSpans,
) -> Result<ExportThread, InvalidSetting> {
    let cannot_start = |error: io::Error| InvalidSetting(error.to_string());
    let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot_start)?;
    let exporter = runtime.block_on(async { Exporter::new(options.clone(), tls) })?;
    let (stop, stopping) = watch::channel(false);
    let work = move || run(&runtime, exporter, waiting, stopping);
    let thread = std::thread::Builder::new().name("traces".into()).spawn(work);
    Ok(ExportThread { stop, thread: thread.map_err(cannot_start)? })
}

impl ExportThread {
    /// Exports the waiting spans for up to 2 s, and ends the thread.
    pub fn stop(self) {
        self.stop.send_replace(true);
        // A panic was logged; spans are lost then.
        let _ended = self.thread.join();
    }
}

fn run(
    runtime: &Runtime,
    mut exporter: Exporter,
    waiting: WaitingSpans,
    stopping: watch::Receiver<bool>,
) {
    let mut limit = stopping.clone();
    let until = async {
        // A dropped sender is a stop too.
        let _stopped = limit.wait_for(|stop| *stop).await;
        tokio::time::sleep(LAST_SPANS).await;
    };
    runtime.block_on(async {
        tokio::select! {
            () = export_all(&mut exporter, &waiting, stopping) => {}
            () = until => {}
        }
    });
}

/// Exports until a stop is requested and the queue is empty.
async fn export_all(
    exporter: &mut Exporter,
    waiting: &WaitingSpans,
    mut stopping: watch::Receiver<bool>,
) {
    loop {
        let spans = waiting.take(BATCH_MAX);
        if !spans.is_empty() {
            let count = spans.len();
            waiting.count_export(count, exporter.export(spans).await);
        } else if *stopping.borrow() {
            return;
        } else {
            // Either way, the queue is read again.
            let _elapsed = tokio::time::timeout(INTERVAL, stopping.wait_for(|stop| *stop)).await;
        }
    }
}

/// Sends batches.
struct Exporter {
    exporter: SpanExporter,
    scope: InstrumentationScope,
    options: ExportOptions,
    tls: Arc<ClientTls>,
    /// Of the TLS files that the exporter uses.
    generation: u64,
    /// Whether the last export failed.
    is_failing: bool,
}

impl Exporter {
    fn new(options: ExportOptions, tls: Arc<ClientTls>) -> Result<Self, InvalidSetting> {
        let generation = tls.generation();
        let exporter = built(&options, &tls)?;
        let scope = InstrumentationScope::builder("upesi").with_version(options.service_version);
        let scope = scope.build();
        Ok(Self { exporter, scope, options, tls, generation, is_failing: false })
    }

    /// Uses the TLS files as last read. If that fails, the exporter of earlier ones stays.
    fn renew(&mut self) {
        let generation = self.tls.generation();
        if generation == self.generation {
            return;
        }
        self.generation = generation;
        match built(&self.options, &self.tls) {
            Ok(exporter) => self.exporter = exporter,
            Err(error) => tracing::warn!(%error, "the TLS files of the trace export are not used"),
        }
    }

    async fn export(&mut self, spans: Vec<crate::SpanRecord>) -> ExportResult {
        self.renew();
        let monotonic_ns = (self.options.monotonic_ns)();
        let clocks = ClockPair { monotonic_ns, wall: SystemTime::now() };
        let spans = spans.into_iter().map(|span| span_data(span, clocks, &self.scope)).collect();
        let sent = tokio::time::timeout(TIMEOUT, self.exporter.export(spans)).await;
        let failure = match sent {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {} s", TIMEOUT.as_secs())),
        };
        self.report(failure.as_deref());
        if failure.is_none() { ExportResult::Accepted } else { ExportResult::Failed }
    }

    /// Logs the first failure, and the first success after failures.
    fn report(&mut self, failure: Option<&str>) {
        let was_failing = std::mem::replace(&mut self.is_failing, failure.is_some());
        match failure {
            Some(error) if !was_failing => {
                tracing::warn!(error, "the trace collector does not take spans; they are dropped");
            }
            None if was_failing => tracing::info!("the trace collector takes spans again"),
            _ => {}
        }
    }
}

type Built = Result<SpanExporter, opentelemetry_otlp::ExporterBuildError>;

fn built(options: &ExportOptions, tls: &ClientTls) -> Result<SpanExporter, InvalidSetting> {
    let built = match options.protocol {
        ExportProtocol::Http => http_exporter(options, tls),
        ExportProtocol::Grpc => grpc_exporter(options, tls)?,
    };
    let mut exporter =
        built.map_err(|error| InvalidSetting(format!("{}: {error}", options.endpoint)))?;
    exporter.set_resource(&resource(options));
    Ok(exporter)
}

fn http_exporter(options: &ExportOptions, tls: &ClientTls) -> Built {
    let config = Arc::unwrap_or_clone(tls.shared_config());
    let connector = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http();
    let client = HyperClient::new(connector.enable_http1().build(), TIMEOUT, None);
    let headers: HashMap<_, _> = options.headers.iter().cloned().collect();
    SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(&options.endpoint)
        .with_headers(headers)
        .build()
}

/// tonic makes the handshakes with the same files.
fn grpc_tls(tls: &ClientTls) -> ClientTlsConfig {
    let pem = tls.pem();
    let config = match pem.ca {
        None => ClientTlsConfig::new().with_native_roots(),
        Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca)),
    };
    match pem.certificate {
        None => config,
        Some((chain, key)) => config.identity(Identity::from_pem(chain, key)),
    }
}

fn grpc_exporter(options: &ExportOptions, tls: &ClientTls) -> Result<Built, InvalidSetting> {
    let failed = |name: &str| InvalidSetting(format!("{name}: not a header"));
    let mut headers = HeaderMap::new();
    for (name, value) in &options.headers {
        let value = HeaderValue::from_str(value).map_err(|_| failed(name))?;
        headers.insert(HeaderName::try_from(name).map_err(|_| failed(name))?, value);
    }
    let builder = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(&options.endpoint)
        .with_metadata(MetadataMap::from_headers(headers));
    Ok(match options.endpoint.starts_with("https:") {
        true => builder.with_tls_config(grpc_tls(tls)).build(),
        false => builder.build(),
    })
}

/// The program, as the collector names it. `OTEL_RESOURCE_ATTRIBUTES` adds to it.
fn resource(options: &ExportOptions) -> Resource {
    Resource::builder()
        .with_service_name(options.service_name.clone())
        .with_attributes([
            KeyValue::new("service.version", options.service_version),
            KeyValue::new("service.instance.id", options.instance.clone()),
        ])
        .build()
}
