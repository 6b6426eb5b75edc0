//! HTTP/2 on the same port, by prior knowledge: the same service with limits of its own.
//!
//! A connection may have up to [`STREAMS_MAX`] concurrent requests, each with a window of one body
//! of a transfer; headers are limited as over HTTP/1.1. A client that opens requests only to reset
//! them is disconnected.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::HttpService;
use hyper_util::rt::TokioTimer;
use tokio::task::spawn_local;

use crate::connections::ClientConnection;
use crate::socket::{Socket, Stream};

/// Concurrent requests on one connection.
const STREAMS_MAX: u32 = 128;
const STREAM_WINDOW: u32 = 128 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
const FRAME_BYTES_MAX: u32 = 16 << 10;
const SEND_BYTES_MAX: usize = 64 << 10;
/// Maximum number of unprocessed requests reset by the client, and of invalid requests reset by the
/// hub, before the connection is closed.
const RESETS_MAX: usize = 32;
/// Idle time after which a client is pinged, and the time for its response.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_PATIENCE: Duration = Duration::from_secs(15);

/// Tasks of this thread.
#[derive(Clone, Copy)]
struct LocalTasks;

impl<F: Future + 'static> Executor<F> for LocalTasks {
    fn execute(&self, task: F) {
        spawn_local(async move { drop(task.await) });
    }
}

/// Serves a connection to its end.
pub(crate) async fn serve<S>(socket: Socket<impl Stream>, client: &ClientConnection, service: S)
where
    S: HttpService<Incoming, ResBody = Full<Bytes>, Error = Infallible> + 'static,
    S::Future: 'static,
{
    client.mark_multiplexed();
    let connection = http2::Builder::new(LocalTasks)
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_BYTES_MAX)
        .max_header_list_size(fspiop::headers::HEADER_BYTES_MAX as u32)
        .max_send_buf_size(SEND_BYTES_MAX)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(RESETS_MAX)
        .keep_alive_interval(PROBE_AFTER)
        .keep_alive_timeout(PROBE_PATIENCE)
        .serve_connection(socket, service);
    let mut connection = std::pin::pin!(connection);
    let mut is_draining = false;
    // Errors of a connection concern only its client.
    let _ended = std::future::poll_fn(|context| {
        if client.draining.get() && !std::mem::replace(&mut is_draining, true) {
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(context)
    })
    .await;
}
