//! A real S3 server for tests: `s3s-fs`, which stores buckets as directories and checks signatures.
//! It is installed with cargo on first use, as a separate program, so that this workspace does not
//! depend on its packages. A [`Wire`] to the server can be cut.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs, io};

const PACKAGE: &str = "s3s-fs";
const VERSION: &str = "0.14.1";
/// Environment variable: directory of programs for tests, instead of `~/.cache/upesi`.
const CACHE: &str = "UPESI_S3_CACHE";
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Another process may take a free port before the server does.
const ATTEMPTS: usize = 5;

/// Access key of the only user.
pub const KEY: &str = "UPESITESTKEY";
/// Secret key of the only user.
pub const SECRET: &str = "a-secret-that-no-message-holds";

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: SocketAddr,
    root: PathBuf,
}

impl Server {
    /// Installs the server if necessary, and starts it on a directory.
    ///
    /// # Errors
    /// A text that describes the failed installation or start.
    pub fn start(root: &Path) -> Result<Self, String> {
        let program = installed()?;
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            match Self::attempt(&program, root) {
                Ok(server) => return Ok(server),
                Err(error) => last = error,
            }
        }
        Err(format!("{PACKAGE} does not start: {last}"))
    }

    fn attempt(program: &Path, root: &Path) -> Result<Self, String> {
        let address = free_address().map_err(|error| error.to_string())?;
        let child = Command::new(program)
            .args(["--host", "127.0.0.1", "--port", &address.port().to_string()])
            .args(["--access-key", KEY, "--secret-key", SECRET])
            .arg(root)
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let mut server = Self { child, address, root: root.to_owned() };
        let until = Instant::now() + READY_WITHIN;
        while Instant::now() < until {
            if server.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return Err(server.complaint());
            }
            if TcpStream::connect(address).is_ok() {
                return Ok(server);
            }
            thread::sleep(Duration::from_millis(10));
        }
        Err("it does not listen".to_owned())
    }

    fn complaint(&mut self) -> String {
        let lines =
            self.child.stderr.take().into_iter().flat_map(|out| BufReader::new(out).lines());
        lines.map_while(Result::ok).collect::<Vec<_>>().join(" ")
    }

    /// The address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Creates a bucket.
    ///
    /// # Errors
    /// Any error of the file system.
    pub fn make_bucket(&self, name: &str) -> io::Result<()> {
        fs::create_dir(self.root.join(name))
    }

    /// Environment variables for a client that connects through this address.
    #[must_use]
    pub fn environment(by_way_of: SocketAddr) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT", format!("http://{by_way_of}")),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ]
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // No test needs its data any more.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// A connection to a server that breaks after a number of bytes, until it is restored.
#[derive(Debug)]
pub struct Wire {
    address: SocketAddr,
    /// Bytes that may still pass to the server.
    budget: Arc<AtomicI64>,
}

impl Wire {
    /// An intact connection to a server. Its threads end with the process.
    ///
    /// # Errors
    /// If no port can be opened.
    pub fn to(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let budget = Arc::new(AtomicI64::new(i64::MAX));
        let shared = Arc::clone(&budget);
        thread::spawn(move || {
            for incoming in listener.incoming().map_while(Result::ok) {
                if 0 < shared.load(Ordering::SeqCst)
                    && let Ok(outgoing) = TcpStream::connect(server)
                {
                    // A failed connection counts as broken.
                    let _joined = join(&incoming, &outgoing, &shared);
                }
            }
        });
        Ok(Self { address, budget })
    }

    /// The address to which clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Breaks after this many more bytes to the server.
    pub fn cut_after(&self, bytes: u32) {
        self.budget.store(i64::from(bytes), Ordering::SeqCst);
    }

    /// Restores the connection.
    pub fn mend(&self) {
        self.budget.store(i64::MAX, Ordering::SeqCst);
    }
}

fn join(client: &TcpStream, server: &TcpStream, budget: &Arc<AtomicI64>) -> io::Result<()> {
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    let (from_server, to_client) = (server.try_clone()?, client.try_clone()?);
    let (counted, free) = (Arc::clone(budget), Arc::new(AtomicI64::new(i64::MAX)));
    thread::spawn(move || pass(from_client, to_server, &counted));
    thread::spawn(move || pass(from_server, to_client, &free));
    Ok(())
}

/// Copies until the end of the stream, or until the budget is spent; then closes both ends.
fn pass(mut from: TcpStream, mut to: TcpStream, budget: &AtomicI64) {
    let mut buffer = [0; 16_384];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let left = budget.fetch_sub(read as i64, Ordering::SeqCst);
        if left < read as i64 || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    for end in [&from, &to] {
        // It may already be closed.
        let _closed = end.shutdown(Shutdown::Both);
    }
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Path of the program; the first call builds it, which takes a few minutes.
fn installed() -> Result<PathBuf, String> {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/upesi"));
    let cache = env::var_os(CACHE).map(PathBuf::from).or_else(home);
    let cache = cache.ok_or_else(|| format!("set {CACHE} to a directory"))?;
    let root = cache.join(format!("{PACKAGE}-{VERSION}"));
    let program = root.join("bin").join(PACKAGE);
    if program.exists() {
        return Ok(program);
    }
    fs::create_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    eprintln!("installing {PACKAGE} {VERSION} into {}", root.display());
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["install", PACKAGE, "--version", VERSION, "--locked", "--features", "binary"])
        .args(["--root".as_ref(), root.as_os_str()])
        .arg("--target-dir")
        .arg(root.join("build"))
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    // Keep only the built program.
    let _room = fs::remove_dir_all(root.join("build"));
    match status.success() && program.exists() {
        true => Ok(program),
        false => {
            Err(format!("cargo install {PACKAGE} {VERSION}: {status}; is crates.io reachable?"))
        }
    }
}
