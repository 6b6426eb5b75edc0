//! Each step of a payee's transfer with each of its failures.

use super::*;

/// Thursday, 1 January 2026.
const NOW: u64 = 1_767_225_600_000;

fn quote_request() -> Value {
    let party = |id: &str| {
        json!({ "partyIdInfo": {
        "partyIdType": "MSISDN", "partyIdentifier": id, "fspId": "bank" } })
    };
    json!({
        "quoteId": "Q", "transactionId": "T", "payer": party("1"), "payee": party("2"),
        "amountType": "SEND", "amount": { "amount": "10", "currency": "USD" },
        "transactionType": {
            "scenario": "TRANSFER", "initiator": "PAYER", "initiatorType": "CONSUMER" },
        "note": "rent",
    })
}

fn record(policy: &Policy) -> QuoteRecord {
    let answer = json!({
        "transferAmount": "10", "transferAmountCurrency": "USD", "payeeFspFeeAmount": "0.5",
    });
    let secret = Secret::new(b"a secret of tests");
    let request = quote_request();
    let internal = backend_quote_request(&request);
    quote_response((&request, internal), answer, &secret, policy, NOW).expect("a quote")
}

struct Payee {
    policy: Policy,
    transfer: InboundTransfer,
    effects: Vec<InboundEffect>,
    now: u64,
}

impl Payee {
    fn start(policy: Policy) -> Self {
        Self::with(policy, |_| {})
    }

    fn with(policy: Policy, change: impl FnOnce(&mut Value)) -> Self {
        let quote = record(&policy);
        let terms = &quote.fspiop_response;
        let mut body = json!({
            "transferId": "T", "payerFsp": "payer", "payeeFsp": "payee",
            "amount": terms["transferAmount"], "ilpPacket": terms["ilpPacket"],
            "condition": terms["condition"], "expiration": date_time(NOW + 20_000),
        });
        change(&mut body);
        let message = (json!({}), body);
        let (transfer, effects) =
            InboundTransfer::begin(message, Some(quote), [7; 16], &policy, NOW);
        Self { policy, transfer, effects, now: NOW }
    }

    fn usual() -> Self {
        Self::start(Policy::of_tests("payee"))
    }

    fn event(&mut self, event: InboundEvent) -> &mut Self {
        self.effects = self.transfer.handle(event, &self.policy, self.now);
        self
    }

    fn accepted(&mut self) -> &mut Self {
        let answer = json!({ "homeTransactionId": "p1" });
        self.event(InboundEvent::BackendAnswered(Ok(Some(answer))))
    }

    fn notice(&mut self, is_patch: bool, is_error: bool, body: Value) -> &mut Self {
        self.event(InboundEvent::Notice { is_patch, is_error, body })
    }

    fn responses(&self) -> Vec<(bool, &Value)> {
        let responses = self.effects.iter().filter_map(|effect| match effect {
            InboundEffect::Respond(is_error, body) => Some((*is_error, body)),
            _ => None,
        });
        responses.collect()
    }

    fn refused_with(&self, code: &str) {
        let [(true, body)] = &*self.responses() else { panic!("{:?}", self.effects) };
        assert_eq!(error_of(body).map(|(code, _)| code), Some(code));
    }

    fn state(&self) -> (InboundPhase, &str) {
        (self.transfer.phase, self.transfer.object["currentState"].as_str().unwrap_or_default())
    }
}

#[test]
fn transfer_is_on_disk_before_the_back_end_is_asked_and_is_fulfilled() {
    let mut payee = Payee::usual();
    let [InboundEffect::Save(true), InboundEffect::AskBackend(body)] = &*payee.effects else {
        panic!("{:?}", payee.effects)
    };
    assert_eq!((&body["transferId"], &body["note"]), (&json!("T"), &json!("rent")));
    assert_eq!(body["ilpPacket"]["data"]["quoteId"], "Q");
    payee.accepted();
    let [(false, body)] = &*payee.responses() else { panic!("{:?}", payee.effects) };
    assert_eq!(body["transferState"], "COMMITTED");
    let fulfilment = body["fulfilment"].as_str().and_then(fspiop::ilp::read_digest);
    let condition = record(&payee.policy).fspiop_response["condition"].clone();
    let condition = condition.as_str().and_then(fspiop::ilp::read_digest);
    assert_eq!(fulfilment.map(|bytes| fspiop::ilp::condition(&bytes)), condition);
    payee.event(InboundEvent::Delivered);
    assert_eq!(payee.state(), (InboundPhase::Ended, "COMPLETED"));
}

#[test]
fn transfers_that_do_not_fit_their_quote_are_refused() {
    let policy = || Policy::of_tests("payee");
    let other = json!({ "amount": "11", "currency": "USD" });
    for (name, value) in [("ilpPacket", json!("x")), ("condition", json!("y")), ("amount", other)] {
        Payee::with(policy(), |body| body[name] = value).refused_with("2001");
    }
    let message = (json!({}), json!({ "transferId": "T" }));
    let (_, effects) = InboundTransfer::begin(message, None, [7; 16], &policy(), NOW);
    assert!(matches!(&effects[..], [InboundEffect::Save(false), InboundEffect::Respond(true, _)]));
}

#[test]
fn back_end_refuses_or_is_silent() {
    let error = |is_certain| {
        let (code, message) = ("5103".to_owned(), "no".to_owned());
        InboundEvent::BackendAnswered(Err(BackendError { code, message, is_certain }))
    };
    let mut payee = Payee::usual();
    payee.event(error(true)).refused_with("5103");
    payee.event(InboundEvent::Delivered);
    assert_eq!(payee.state(), (InboundPhase::Ended, "ABORTED"));

    // A back end that may have credited the payee must reverse it.
    let mut payee = Payee::usual();
    payee.event(error(false)).event(InboundEvent::Delivered);
    assert_eq!(payee.state().0, InboundPhase::Waiting, "an earlier response may have counted");
    payee.now = payee.transfer.deadline_ms.expect("a question");
    assert_eq!(payee.event(InboundEvent::Deadline).effects, [InboundEffect::AskHub]);
    payee.notice(false, false, json!({ "transferState": "ABORTED" }));
    assert_eq!(payee.state(), (InboundPhase::Notifying, "ABORTED"));
    assert!(matches!(&payee.effects[..], [_, InboundEffect::Notify(_)]));

    let mut payee = Payee::usual();
    payee.event(InboundEvent::BackendAnswered(Ok(None)));
    assert_eq!((payee.transfer.phase, payee.responses().len()), (InboundPhase::Ended, 0));
}

#[test]
fn reserved_transfer_waits_for_the_hub_and_notifies_until_it_is_heard() {
    let policy = Policy { reserve_notification: true, ..Policy::of_tests("payee") };
    let mut payee = Payee::start(policy);
    payee.accepted().event(InboundEvent::Delivered);
    assert_eq!(payee.state(), (InboundPhase::Waiting, "RESERVED"));
    payee.now = NOW + 15_000;
    assert_eq!(payee.event(InboundEvent::Deadline).effects, [InboundEffect::AskHub]);
    payee.notice(true, false, json!({ "transferState": "COMMITTED" }));
    assert_eq!(payee.state(), (InboundPhase::Notifying, "COMPLETED"));
    payee.event(InboundEvent::Notified(false));
    let next = payee.transfer.deadline_ms.expect("a repetition");
    payee.now = next;
    payee.event(InboundEvent::Deadline);
    let [InboundEffect::Notify(body)] = &*payee.effects else { panic!("{:?}", payee.effects) };
    assert_eq!(body["finalNotification"]["transferState"], "COMMITTED");
    payee.event(InboundEvent::Notified(true));
    assert_eq!(payee.state(), (InboundPhase::Ended, "COMPLETED"));
}

#[test]
fn hub_that_refuses_a_fulfilment_later_reopens_the_transfer() {
    let mut payee = Payee::usual();
    payee.accepted().event(InboundEvent::Delivered);
    payee.notice(false, true, forms::error_information("3303", "expired"));
    assert_eq!(payee.state(), (InboundPhase::Notifying, "ABORTED"));
    payee.event(InboundEvent::Notified(true));
    assert_eq!(payee.state().0, InboundPhase::Ended);
    // A repeated notice is not passed on again.
    assert_eq!(payee.notice(false, true, forms::error_information("3303", "x")).effects, []);
}

/// After a loss of power the response is made again, with another time. The hub refuses it.
#[test]
fn refused_response_after_a_restart_reverses_nothing() {
    let mut payee = Payee::usual();
    payee.event(InboundEvent::Restarted).accepted().event(InboundEvent::Delivered);
    payee.notice(false, true, forms::error_information("3100", "not RESERVED"));
    assert_eq!(
        (payee.state().0, &*payee.effects),
        (InboundPhase::Waiting, &[InboundEffect::Save(false)][..])
    );
    payee.notice(false, false, json!({ "transferState": "COMMITTED" }));
    assert_eq!(payee.state(), (InboundPhase::Notifying, "COMPLETED"));
}

#[test]
fn undelivered_response_is_repeated_and_an_unclear_refusal_is_asked_about() {
    let mut payee = Payee::usual();
    payee.accepted().event(InboundEvent::Undelivered { may_be_retried: true });
    payee.now = payee.transfer.deadline_ms.expect("a repetition");
    assert_eq!(payee.event(InboundEvent::Deadline).responses().len(), 1);
    // The hub may have decided after the first attempt: its notice is awaited.
    payee.event(InboundEvent::Delivered);
    assert_eq!(payee.state().0, InboundPhase::Waiting);
    payee.notice(false, true, forms::error_information("3100", "not RESERVED"));
    assert_eq!(payee.state().0, InboundPhase::Waiting, "it may be about the second attempt");
    payee.notice(false, false, json!({ "transferState": "COMMITTED" }));
    assert_eq!(payee.state(), (InboundPhase::Notifying, "COMPLETED"));
}

#[test]
fn restart_continues_each_phase() {
    let restart = |payee: &mut Payee| {
        let stored = serde_json::to_vec(&payee.transfer).expect("it can be written");
        payee.transfer = serde_json::from_slice(&stored).expect("it can be read");
        payee.event(InboundEvent::Restarted);
    };
    let mut payee = Payee::usual();
    restart(&mut payee);
    assert!(matches!(&payee.effects[..], [InboundEffect::AskBackend(_)]));
    payee.now = NOW + 21_000;
    restart(&mut payee);
    assert_eq!(payee.effects, [InboundEffect::AskHub], "it expired: the hub has decided");
    payee.notice(false, true, forms::error_information("3303", "expired"));
    assert_eq!(payee.state(), (InboundPhase::Notifying, "ABORTED"));
    restart(&mut payee);
    assert!(matches!(&payee.effects[..], [InboundEffect::Notify(_)]));

    let mut payee = Payee::usual();
    payee.accepted();
    restart(&mut payee);
    assert_eq!(payee.responses().len(), 1);
}

#[test]
fn repeated_prepare_gets_the_same_response() {
    let mut payee = Payee::usual();
    assert_eq!(payee.event(InboundEvent::PreparedAgain).effects, []);
    payee.accepted();
    let first = payee.responses().first().map(|(_, body)| (*body).clone());
    payee.event(InboundEvent::Delivered).event(InboundEvent::PreparedAgain);
    assert_eq!(payee.responses().first().map(|(_, body)| (*body).clone()), first);
}

#[test]
fn quotes_that_cannot_be_used_are_refused() {
    let policy = Policy::of_tests("payee");
    let secret = Secret::new(b"a secret of tests");
    for (answer, expected) in [
        (json!({}), "not an amount"),
        (json!({ "transferAmount": "1.50", "transferAmountCurrency": "USD" }), "not an amount"),
        (json!({ "transferAmount": "1", "transferAmountCurrency": "usd" }), "not a currency"),
    ] {
        let request = quote_request();
        let internal = backend_quote_request(&request);
        let error = quote_response((&request, internal), answer, &secret, &policy, NOW);
        let error = error.err().unwrap_or_default();
        assert!(error.contains(expected), "{error}");
    }
}
