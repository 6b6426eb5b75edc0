//! Ports for programs that must know each other's address before they start.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// A port of the loopback interface that is kept free for one program.
///
/// The socket is bound and does not listen. Linux gives its port neither to an outgoing connection
/// nor to a listener on port 0. A program that binds the port itself with `SO_REUSEADDR`, as all
/// servers do, gets it, also after a restart.
pub(crate) struct ReservedPort {
    _socket: TcpSocket,
    pub(crate) address: SocketAddr,
}

impl ReservedPort {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = socket.local_addr().unwrap();
        Self { _socket: socket, address }
    }
}
