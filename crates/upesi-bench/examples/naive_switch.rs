//! The least that a switch for transfers can be: one thread, the HTTP library on both sides, no
//! checks, no ledger and no log. It answers 202 or 200, and forwards each message to the FSP in
//! `FSPIOP-Destination`. `docs/performance/naive.sh` compares Upesi with it.
//!
//! ```text
//! naive_switch LISTEN FIRST_PORT FSPS
//! ```
//!
//! FSP `fsp1` is at `FIRST_PORT` of 127.0.0.1, the next ones follow.

use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};

type Sender = SendRequest<Full<Bytes>>;
type Failure = Box<dyn Error>;

/// The FSPs by name, each with its idle connections.
struct Fsps(HashMap<String, Fsp>);

struct Fsp {
    address: SocketAddr,
    idle: RefCell<Vec<Sender>>,
}

impl Fsps {
    fn new(first_port: u16, count: u16) -> Self {
        let fsp = |index: u16| {
            let address = SocketAddr::from(([127, 0, 0, 1], first_port + index));
            (format!("fsp{}", index + 1), Fsp { address, idle: RefCell::default() })
        };
        Self((0..count).map(fsp).collect())
    }

    fn destination(&self, head: &Parts) -> Option<&Fsp> {
        self.0.get(head.headers.get("fspiop-destination")?.to_str().ok()?)
    }

    /// Sends a message over an idle connection, or a new one.
    async fn forward(&self, mut head: Parts, body: Bytes) -> Result<(), Failure> {
        let fsp = self.destination(&head).ok_or("unknown destination")?;
        head.uri = Uri::try_from(head.uri.path())?;
        head.headers.insert("host", HeaderValue::from_str(&fsp.address.to_string())?);
        let idle = fsp.idle.borrow_mut().pop();
        let mut sender = match idle.filter(Sender::is_ready) {
            Some(sender) => sender,
            None => connect(fsp.address).await?,
        };
        let response = sender.send_request(Request::from_parts(head, Full::new(body))).await?;
        response.into_body().collect().await?;
        sender.ready().await?;
        fsp.idle.borrow_mut().push(sender);
        Ok(())
    }
}

async fn connect(address: SocketAddr) -> Result<Sender, Failure> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // Ends when the FSP closes the connection.
    spawn_local(async move { connection.await.ok() });
    Ok(sender)
}

/// Answers as soon as the body is here. The message is forwarded by a task of its own.
async fn answer(
    fsps: Rc<Fsps>,
    request: Request<Incoming>,
) -> Result<Response<Empty<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let mut response = Response::new(Empty::new());
    if head.method == Method::POST {
        *response.status_mut() = StatusCode::ACCEPTED;
    }
    spawn_local(async move {
        if let Err(error) = fsps.forward(head, body).await {
            eprintln!("naive_switch: {error}");
        }
    });
    Ok(response)
}

async fn serve(listen: SocketAddr, fsps: Rc<Fsps>) -> Result<(), Failure> {
    let listener = TcpListener::bind(listen).await?;
    println!("ready on http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let fsps = Rc::clone(&fsps);
        let service = service_fn(move |request| answer(Rc::clone(&fsps), request));
        // Ends when the FSP closes the connection.
        let connection = Builder::new().serve_connection(TokioIo::new(stream), service);
        spawn_local(async move { connection.await.ok() });
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, first_port, fsps] = &arguments[..] else {
        return Err("usage: naive_switch LISTEN FIRST_PORT FSPS".into());
    };
    let fsps = Rc::new(Fsps::new(first_port.parse()?, fsps.parse()?));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, serve(listen.parse()?, fsps))
}
