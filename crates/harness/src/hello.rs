//! What the instrument costs: exchanges with a server that only says 202, on a thread of its own.
//!
//! One exchange is a `POST /transfers` of the usual size, written and answered over HTTP/1.1
//! keep-alive by the same code that the simulated FSPs use. The server reads whole requests and
//! looks at nothing. CPU time is that of each side's thread, kernel included; the two sides share
//! what the loopback costs.
//!
//! Phases: bind, half a second of warm-up, the measured part, join. Bounds: as many connections as
//! exchanges in flight.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use dfsp::links::{Answer, LinkOptions, Links, TICK};
use dfsp::wire;
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use crate::error::HarnessError;
use crate::interrupt::end_when_interrupted;
use crate::machine::{Machine, machine, thread_cpu};
use crate::options::HelloOptions;
use crate::progress::Progress;
use crate::records::{histogram, record};
use crate::report::Latency;

const WARM_UP: Duration = Duration::from_millis(500);
const READ_BYTES: usize = 4 * 1024;
/// As long as the body of a transfer with its packet.
const BODY_BYTES: usize = 1_070;
const ACCEPTED: &[u8] = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";

/// What exchanges cost by themselves.
#[derive(Clone, Debug, Serialize)]
pub struct HelloReport {
    /// Exchanges a second.
    pub exchanges_per_s: f64,
    /// CPU time of the side that asks, per exchange, in microseconds.
    pub client_cpu_us: f64,
    /// CPU time of the side that answers, per exchange, in microseconds.
    pub server_cpu_us: f64,
    /// From the write of a request to the end of its answer.
    pub latency_ms: Latency,
    /// Answers other than 202, and none at all.
    pub failed: u64,
    /// Exchanges in flight, and connections.
    pub concurrency: usize,
    /// Length of the measured part.
    pub seconds: f64,
    /// Length of each body.
    pub body_bytes: usize,
    /// Where the run took place.
    pub machine: Machine,
}

/// Measures exchanges with a server that only says 202, and prints the result.
///
/// # Errors
/// The options make no sense, or sockets cannot be had.
pub fn hello(options: &HelloOptions) -> Result<HelloReport, HarnessError> {
    options.check()?;
    end_when_interrupted(|| ());
    let (tell, told) = sync_channel(1);
    let (stop, stopped) = oneshot::channel();
    let server = std::thread::Builder::new()
        .name("hello".to_owned())
        .spawn(move || serve(&tell, stopped))
        .map_err(|error| HarnessError::Options(format!("no thread: {error}")))?;
    let address = told.recv().map_err(|_| HarnessError::Fleet)?;
    let asked = runtime()?.block_on(ask(address, options));
    // The server may be gone already; then its thread has ended as well.
    let _ = stop.send(());
    let served = server.join().map_err(|_| HarnessError::Fleet)?;
    let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / asked.exchanges.max(1) as f64;
    let share = asked.exchanges as f64 / asked.exchanges_in_all.max(1) as f64;
    Ok(HelloReport {
        exchanges_per_s: asked.exchanges as f64 / asked.seconds,
        client_cpu_us: each(asked.cpu),
        // The server's thread did nothing else, so its warm-up is taken out by its share.
        server_cpu_us: each(served.mul_f64(share)),
        latency_ms: Latency::of(&asked.latency),
        failed: asked.failed,
        concurrency: options.concurrency,
        seconds: asked.seconds,
        body_bytes: BODY_BYTES,
        machine: machine(),
    })
}

/// What the asking side saw.
struct Asked {
    exchanges: u64,
    exchanges_in_all: u64,
    failed: u64,
    seconds: f64,
    cpu: Duration,
    latency: Histogram<u64>,
}

struct Asking {
    links: RefCell<Option<Links<Instant>>>,
    request: Vec<u8>,
    counts: RefCell<Counts>,
}

struct Counts {
    ended: u64,
    failed: u64,
    measured: bool,
    latency: Histogram<u64>,
}

async fn ask(server: SocketAddr, options: &HelloOptions) -> Asked {
    let counts = Counts { ended: 0, failed: 0, measured: false, latency: histogram() };
    let asking = Rc::new(Asking {
        links: RefCell::new(None),
        request: request(server),
        counts: RefCell::new(counts),
    });
    let link_options =
        LinkOptions { connections_max: options.concurrency, ..LinkOptions::default() };
    let owner = Rc::downgrade(&asking);
    let links = Links::new(&[server], link_options, move |sent, answer| {
        if let Some(asking) = owner.upgrade() {
            asking.answered(sent, answer);
        }
    });
    *asking.links.borrow_mut() = Some(links);
    (0..options.concurrency).for_each(|_| asking.send());
    asking.keep(WARM_UP).await;
    let before = asking.counts.borrow().ended;
    asking.counts.borrow_mut().measured = true;
    let (start, cpu) = (Instant::now(), thread_cpu());
    asking.keep(Duration::from_secs_f64(options.seconds)).await;
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), thread_cpu() - cpu);
    let counts = asking.counts.borrow();
    let asked = Asked {
        exchanges: counts.ended - before,
        exchanges_in_all: counts.ended,
        failed: counts.failed,
        seconds,
        cpu,
        latency: counts.latency.clone(),
    };
    drop(counts);
    if let Some(links) = asking.links.take() {
        links.close();
    }
    asked
}

impl Asking {
    fn send(&self) {
        let links = self.links.borrow();
        let Some(links) = &*links else { return };
        let mut message = links.buffer();
        message.extend_from_slice(&self.request);
        if links.send(message, Instant::now()).is_err() {
            self.counts.borrow_mut().failed += 1;
        }
    }

    fn answered(&self, sent: Instant, answer: Answer) {
        let mut counts = self.counts.borrow_mut();
        counts.ended += 1;
        counts.failed += u64::from(answer != Answer::Status(202));
        if counts.measured {
            record(&mut counts.latency, sent.elapsed());
        }
        drop(counts);
        self.send();
    }

    /// Goes on for a while; links want to be looked after, and whoever waits wants to know.
    async fn keep(&self, time: Duration) {
        let start = Instant::now();
        let before = self.counts.borrow().ended;
        let mut progress = Progress::new("exchanges", None);
        while start.elapsed() < time {
            tokio::time::sleep(TICK).await;
            let done = self.counts.borrow().ended - before;
            let share = start.elapsed().as_secs_f64() / time.as_secs_f64();
            progress.expect((done as f64 / share) as u64);
            progress.show(done);
            if let Some(links) = &*self.links.borrow() {
                links.maintain();
            }
        }
    }
}

fn request(server: SocketAddr) -> Vec<u8> {
    let media = "application/vnd.interoperability.transfers+json;version=1.1";
    let mut request = format!(
        "POST /transfers HTTP/1.1\r\nhost: {server}\r\ncontent-type: {media}\r\naccept: {media}\r\n\
         fspiop-source: fsp201\r\nfspiop-destination: fsp202\r\n\
         date: Thu, 01 Jan 2026 10:00:00 GMT\r\n\
         traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\
         content-length: {BODY_BYTES}\r\n\r\n"
    )
    .into_bytes();
    request.resize(request.len() + BODY_BYTES, b'x');
    request
}

/// The body of the server's thread; gives the CPU time it took.
fn serve(tell: &SyncSender<SocketAddr>, stopped: oneshot::Receiver<()>) -> Duration {
    // Without a runtime or an address the sender is dropped, which the asking side reports.
    let Ok(runtime) = runtime() else { return Duration::ZERO };
    runtime.block_on(async {
        let Ok(listener) = TcpListener::bind(("127.0.0.1", 0)).await else { return };
        let Ok(address) = listener.local_addr() else { return };
        let _ = tell.send(address);
        let accepting = spawn_local(async move {
            while let Ok((stream, _)) = listener.accept().await {
                spawn_local(say_accepted(stream));
            }
        });
        // An error means that the other side is gone.
        let _ = stopped.await;
        accepting.abort();
    });
    thread_cpu()
}

async fn say_accepted(mut stream: TcpStream) {
    dfsp::tune(&stream);
    let mut buffer = Vec::with_capacity(READ_BYTES);
    loop {
        match wire::request(&buffer) {
            Ok(Some(request)) => {
                let length = request.length;
                buffer.drain(..length);
                if stream.write_all(ACCEPTED).await.is_err() {
                    return;
                }
            }
            Ok(None) => match stream.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            },
            Err(_) => return,
        }
    }
}

fn runtime() -> Result<LocalRuntime, HarnessError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(|error| HarnessError::Options(format!("no runtime: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanges_are_counted_and_cost_something_on_both_sides() {
        let options = HelloOptions { seconds: 0.2, concurrency: 4, json: None };
        let report = hello(&options).expect("sockets can be had");
        assert_eq!(report.failed, 0);
        assert!(report.exchanges_per_s > 100.0, "{report:?}");
        for cpu in [report.client_cpu_us, report.server_cpu_us] {
            assert!(cpu > 0.1 && cpu < 100_000.0, "{report:?}");
        }
        assert!(report.latency_ms.p50 > 0.0);
    }
}
