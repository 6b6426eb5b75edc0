//! A request to pay, its quote and its transfer are explained together, by each of their ids.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::message::{CONDITION, Message, Transfer, uuid};
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::Printed;

const RECORDED: &str = "[quotes]\npersist = true\n";

/// A running scheme whose participants take requests to pay.
fn scheme(configuration: &str) -> Scheme {
    let scheme = Scheme::configured(configuration);
    for fsp in [&scheme.payer, &scheme.payee, &scheme.other] {
        let base = format!("http://{}", fsp.address());
        scheme.admin.set_endpoint(&fsp.name, "TRX_REQ_SERVICE", &base);
    }
    scheme
}

/// The ids of one payment. The payee's FSP asks.
struct Payment {
    request: String,
    quote: String,
    transfer: Transfer,
}

impl Payment {
    fn new() -> Self {
        Self { request: uuid(), quote: uuid(), transfer: Transfer::of("10") }
    }

    fn ids(&self) -> [&str; 3] {
        [&self.request, &self.quote, &self.transfer.id]
    }

    fn asks(&self) -> Message {
        let body = json!({
            "transactionRequestId": self.request,
            "payee": party("payeefsp"),
            "payer": party("payerfsp")["partyIdInfo"],
            "amount": {"amount": "10", "currency": "USD"},
            "transactionType": transaction_type(),
        });
        let message = Message::new("POST", "/transactionRequests", "payeefsp");
        message.to("payerfsp").body(body.to_string())
    }

    /// An answer to the request from any FSP.
    fn state(&self, source: &str, state: &str, transaction: Option<&str>) -> Message {
        let mut body = json!({"transactionRequestState": state});
        if let Some(transaction) = transaction {
            body["transactionId"] = json!(transaction);
        }
        let message = Message::new("PUT", &self.request_path(), source);
        message.to("payeefsp").body(body.to_string())
    }

    fn request_path(&self) -> String {
        format!("/transactionRequests/{}", self.request)
    }

    /// A quote of this payment, from any FSP to the payee's.
    fn quote(&self, quote: &str, source: &str) -> Message {
        let body = json!({
            "quoteId": quote,
            "transactionId": self.transfer.id,
            "transactionRequestId": self.request,
            "payer": party(source),
            "payee": party("payeefsp"),
            "amountType": "RECEIVE",
            "amount": {"amount": "10", "currency": "USD"},
            "transactionType": transaction_type(),
        });
        Message::new("POST", "/quotes", source).to("payeefsp").body(body.to_string())
    }

    fn offer(&self) -> Message {
        let body = json!({
            "transferAmount": {"amount": "10", "currency": "USD"},
            "expiration": self.transfer.expiration,
            "ilpPacket": self.transfer.packet,
            "condition": CONDITION,
        });
        let message = Message::new("PUT", &format!("/quotes/{}", self.quote), "payeefsp");
        message.to("payerfsp").body(body.to_string())
    }

    /// Sends everything from the answer to the request on.
    fn follow(&self, scheme: &Scheme) {
        let accepted = self.state("payerfsp", "ACCEPTED", Some(&self.transfer.id));
        scheme.send(&accepted, 200);
        scheme.payee.wait("PUT", &self.request_path());
        scheme.send(&self.quote(&self.quote, "payerfsp"), 202);
        scheme.payee.wait("POST", "/quotes");
        scheme.send(&self.offer(), 200);
        scheme.payer.wait("PUT", &format!("/quotes/{}", self.quote));
        scheme.send(&self.transfer.prepare(), 202);
        scheme.send(&self.transfer.fulfil("COMMITTED"), 200);
        scheme.wait_until_delivered();
    }

    /// Checks an explanation by any of the ids.
    fn check(&self, history: &Value) {
        let expected = json!({
            "transaction_request": self.request,
            "transaction_request_state": "ACCEPTED",
            "quotes": [self.quote],
            "transaction": self.transfer.id,
            "transfer": self.transfer.id,
        });
        assert_eq!(history["payment"], expected, "{history:#}");
        assert_eq!(
            (&history["transfer"], &history["state"]),
            (&json!(self.transfer.id), &json!("COMMITTED"))
        );
        let mut taken = messages(history);
        taken.retain(|(_, outcome)| !outcome.starts_with("TransactionRequest"));
        let taken: Vec<_> = taken.iter().map(|(request, _)| &**request).collect();
        let expected = [
            "POST /transactionRequests",
            "PUT /transactionRequests/{id}",
            "POST /quotes",
            "PUT /quotes/{id}",
            "POST /transfers",
            "PUT /transfers/{id}",
        ];
        assert_eq!(taken, expected, "{history:#}");
    }
}

fn party(fsp: &str) -> Value {
    json!({"partyIdInfo": {"partyIdType": "MSISDN", "partyIdentifier": "1", "fspId": fsp}})
}

fn transaction_type() -> Value {
    json!({"scenario": "TRANSFER", "initiator": "PAYEE", "initiatorType": "BUSINESS"})
}

/// The messages of a history, with their outcomes.
fn messages(history: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let events = history["events"].as_array().unwrap().iter();
    let messages = events.filter(|event| event["event"] == "message");
    let both =
        messages.map(|it| (text(&it["message"]["request"]), text(&it["decision"]["outcome"])));
    both.collect()
}

/// The request is restored from a snapshot, and answered after the restart.
#[test]
fn a_payment_is_explained_by_each_of_its_ids() {
    let scheme = scheme(RECORDED);
    let payment = Payment::new();
    scheme.send(&payment.asks(), 202);
    scheme.payer.wait("POST", "/transactionRequests");
    // An answer of an FSP that was not asked, and a quote of it for the same payment.
    scheme.send(&payment.state("otherfsp", "REJECTED", None), 200);
    let error = scheme.other.wait("PUT", &format!("{}/error", payment.request_path()));
    assert!(error.text().contains("3206"), "{}", error.text());
    let stranger = uuid();
    scheme.send(&payment.quote(&stranger, "otherfsp"), 202);
    scheme.payee.wait("POST", "/quotes");
    scheme.admin.must("POST", "/snapshots", "", 202);
    scheme.admin.wait_for("upesi_snapshots_taken_total", |taken| 0 < taken);

    let ports = scheme.switch.ports();
    let Scheme { switch, home, payer, payee, other, .. } = scheme;
    switch.kill();
    let switch = home.serve_on(ports);
    assert!(switch.greeting.contains("continued from the snapshot"), "{}", switch.greeting);
    let admin = Admin::new(&home, &switch);
    let scheme = Scheme { switch, home, admin, payer, payee, other };
    payee_forgets(&scheme);
    payment.follow(&scheme);
    // Another answer after the final one is refused.
    scheme.send(&payment.state("payerfsp", "REJECTED", None), 200);
    let error = scheme.payer.wait("PUT", &format!("{}/error", payment.request_path()));
    assert!(error.text().contains("3106"), "{}", error.text());

    let live = payment.ids().map(|id| scheme.admin.explain(id));
    let of_stranger = scheme.admin.explain(&stranger);
    assert_eq!(messages(&of_stranger).len(), 1, "{of_stranger:#}");
    assert_eq!(of_stranger["payment"]["quotes"], json!([stranger]));
    scheme.switch.stop(Signal::TERM);
    for (id, live) in payment.ids().into_iter().zip(&live) {
        payment.check(live);
        let mut refused = messages(live);
        refused.retain(|(_, outcome)| outcome.starts_with("TransactionRequest"));
        let outcomes: Vec<_> = refused.iter().map(|(_, outcome)| &**outcome).collect();
        assert_eq!(outcomes, ["TransactionRequestNotFound", "TransactionRequestModified"]);
        for more in [&["--json"][..], &["--json", "--replay"]] {
            let offline = [&["explain", id], more].concat();
            let offline = scheme.home.offline(&offline).succeeds().json();
            assert_eq!(messages(&offline), messages(live), "{id} {more:?}");
            assert_eq!(offline["payment"], live["payment"], "{id} {more:?}");
        }
        let text = scheme.home.offline(&["explain", id]).succeeds().out();
        let heading = format!(
            "transfer {0}: COMMITTED\npayment: transaction request {1}: ACCEPTED; quote {2}; \
             transaction {0}; transfer {0}\n",
            payment.transfer.id, payment.request, payment.quote
        );
        assert!(text.starts_with(&heading), "{text}");
    }
    let verified = scheme.home.verify();
    assert!(verified.status.success(), "{verified:?}");
}

/// Takes the callbacks so far, so that later ones are found by the same path.
fn payee_forgets(scheme: &Scheme) {
    let count = scheme.payee.received().len();
    scheme.payee.take(count);
}

/// Before there is a transfer, the heading names the message whose id was given, and without a
/// quote the transaction request. Without recorded quotes nothing is kept.
#[test]
fn a_request_without_a_transfer_is_explained() {
    let scheme = scheme(RECORDED);
    let payment = Payment::new();
    scheme.send(&payment.asks(), 202);
    scheme.send(&payment.state("payerfsp", "PENDING", None), 200);
    scheme.payee.wait("PUT", &payment.request_path());
    let text = |id: &str| scheme.admin.get(&format!("/transfers/{id}/explanation?format=text"));
    let heading = format!(
        "transaction request {0}\npayment: transaction request {0}: PENDING\n",
        payment.request
    );
    let found = text(&payment.request);
    assert!(found.starts_with(&heading), "{found}");
    scheme.send(&payment.quote(&payment.quote, "payerfsp"), 202);
    scheme.payee.wait("POST", "/quotes");
    for (id, noun) in [
        (&payment.quote, "quote"),
        (&payment.request, "transaction request"),
        (&payment.transfer.id, "transaction"),
    ] {
        let found = text(id);
        let heading = format!(
            "{noun} {id}\npayment: transaction request {}: PENDING; quote {}; transaction {}\n",
            payment.request, payment.quote, payment.transfer.id
        );
        assert!(found.starts_with(&heading), "{found}");
    }
    scheme.end();

    let scheme = self::scheme("");
    let before = scheme.admin.quiet_state();
    scheme.send(&payment.asks(), 202);
    scheme.payer.wait("POST", "/transactionRequests");
    scheme.send(&payment.state("otherfsp", "REJECTED", None), 200);
    scheme.payee.wait("PUT", &payment.request_path());
    assert_eq!(scheme.admin.quiet_state()["logIndex"], before["logIndex"]);
    scheme.end();
}
