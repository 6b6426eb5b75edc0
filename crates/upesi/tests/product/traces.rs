//! Spans of payments reach a real collector.

use crate::support::collector::{Collector, lines};
use crate::support::message::Transfer;
use crate::support::scheme::Scheme;

/// A configuration that traces every payment.
fn settings(protocol: &str, port: u16) -> String {
    format!(
        "[traces]\nendpoint = \"http://127.0.0.1:{port}\"\nprotocol = \"{protocol}\"\nratio = 1.0\n"
    )
}

#[test]
fn request_is_traced() {
    let collector = Collector::start();
    let scheme = Scheme::configured(&settings("http", collector.ports().http));
    let transfer = Transfer::of("1");
    let prepare = transfer.prepare();
    scheme.send(&prepare, 202);
    let spans = collector.spans(&prepare.trace, 1);
    assert_eq!(
        lines(&spans),
        ["prepare (server) http.request.method=POST http.response.status_code=202 \
          http.route=/transfers mojaloop.payer_fsp=payerfsp"]
    );
    assert_eq!(spans[0].parent(), "00f067aa0ba902b7");
    assert_eq!(spans[0].resource("service.name"), "upesi");
    assert_eq!(spans[0].id().len(), 16);
    assert!(spans[0].start_us() < spans[0].end_us());
    assert!(!spans[0].text().contains("USD"), "{}", spans[0].text());
    scheme.end();
}
