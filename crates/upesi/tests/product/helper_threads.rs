//! Helper threads make a part of the calls of I/O threads: with the configuration of these tests
//! half of them at any load.

use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;
use testkit::server::Reply;

use crate::support::message::{Message, Transfer};
use crate::support::scheme::{Admin, Scheme};

#[test]
fn helper_threads_deliver_forwards_and_callbacks() {
    const LOOK_UPS: usize = 64;
    let scheme = Scheme::start();
    for number in 0..LOOK_UPS {
        let path = format!("/parties/MSISDN/{number}");
        scheme.send(&Message::new("GET", &path, "payerfsp").to("payeefsp"), 202);
        scheme.payee.wait("GET", &path);
    }
    let transfers: Vec<_> = (0..32).map(|_| scheme.pay("1")).collect();
    scheme.wait_until_delivered();
    let lent = scheme.admin.metric("upesi_calls_lent_total") as usize;
    assert!((16..LOOK_UPS + 2 * transfers.len()).contains(&lent), "{lent} calls");
    scheme.payee.take_unchecked(LOOK_UPS + transfers.len());
    scheme.payer.take_unchecked(transfers.len());
}

/// A forwarded message that a helper thread could not deliver is answered by its I/O thread.
#[test]
fn senders_get_the_errors_of_lent_forwards() {
    let scheme = Scheme::start();
    scheme.payee.answer(|_| Reply::Status(503));
    for number in 0..16 {
        let path = format!("/parties/MSISDN/{number}");
        scheme.send(&Message::new("GET", &path, "payerfsp").to("payeefsp"), 202);
        let error = scheme.payer.wait("PUT", &format!("{path}/error"));
        assert!(error.text().contains("\"errorCode\":\"1001\""), "{}", error.text());
    }
    assert_eq!(scheme.admin.metric("upesi_forwards_failed_total"), 16);
    scheme.payee.take_unchecked(16);
    scheme.payer.take_unchecked(16);
}

/// A clean stop waits for the answers to callbacks of both kinds of threads and records them, so
/// that none is repeated.
#[test]
fn callbacks_in_progress_at_a_stop_are_not_repeated() {
    let mut scheme = Scheme::start();
    scheme.payee.answer(|_| {
        sleep(Duration::from_millis(200));
        Reply::Accept
    });
    let transfers: Vec<_> = (0..16).map(|_| Transfer::of("1").expiring(600_000)).collect();
    transfers.iter().for_each(|transfer| scheme.send(&transfer.prepare(), 202));
    let ports = scheme.switch.ports();
    scheme.switch.stop(Signal::TERM);
    scheme.switch = scheme.home.serve_on(ports);
    scheme.admin = Admin::new(&scheme.home, &scheme.switch);
    scheme.wait_until_delivered();
    let received = scheme.payee.received();
    assert_eq!(received.len(), transfers.len(), "each once");
    scheme.payee.take_unchecked(transfers.len());
}
