//! Socket options. They only save time, so failures are ignored.

use socket2::SockRef;
use tokio::net::TcpStream;

/// Sends small messages at once; on the loopback also without pacing.
///
/// A pacing congestion control such as BBR sets a kernel timer for nearly every message, which on
/// the loopback is a tenth of the cost of an exchange and protects nothing.
pub fn tune(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    if stream.peer_addr().is_ok_and(|peer| peer.ip().is_loopback()) {
        let _ = SockRef::from(stream).set_tcp_congestion(b"reno");
    }
}
