//! Each step of a payer's transfer with each of its failures.

use super::*;

/// Thursday, 1 January 2026.
const NOW: u64 = 1_767_225_600_000;
const FULFILMENT: &str = "dGhlIHNlY3JldCBvZiBldmVyeSB0ZXN0LCAzMiBieS4";
const CONDITION: &str = "BeZFGxq2RPkY0IpxxIBaJSnr7jhPs8hPedGCgk16Uzc";

struct Payer {
    policy: Policy,
    transfer: OutboundTransfer,
    effects: Vec<Effect>,
    now: u64,
}

impl Payer {
    fn start(policy: Policy) -> Self {
        let request = json!({
            "homeTransactionId": "h1",
            "from": { "idType": "MSISDN", "idValue": "1" },
            "to": { "idType": "MSISDN", "idValue": "2" },
            "amountType": "SEND", "currency": "USD", "amount": "10",
            "transactionType": "TRANSFER",
        });
        let ids = NewIds { transfer: "T".to_owned(), quote: "Q".to_owned(), trace: [7; 16] };
        let (transfer, effects) =
            OutboundTransfer::begin(forms::object(&request), ids, &policy, NOW);
        Self { policy, transfer, effects, now: NOW }
    }

    fn usual() -> Self {
        Self::start(Policy::of_tests("payer"))
    }

    fn event(&mut self, event: Event) -> &mut Self {
        self.effects = self.transfer.handle(event, &self.policy, self.now);
        self
    }

    fn callback(&mut self, kind: CallbackKind, is_error: bool, body: Value) -> &mut Self {
        let headers = json!({ "fspiop-source": "payee" });
        self.event(Event::Callback(Callback { kind, is_error, headers, body }))
    }

    fn found(&mut self) -> &mut Self {
        let id = json!({ "partyIdType": "MSISDN", "partyIdentifier": "2", "fspId": "payee" });
        let party = json!({ "party": { "partyIdInfo": id, "name": "Neema" } });
        self.callback(CallbackKind::Parties, false, party)
    }

    fn quoted(&mut self) -> &mut Self {
        let terms = json!({
            "transferAmount": { "amount": "10", "currency": "USD" }, "ilpPacket": "abc",
            "condition": CONDITION, "expiration": "2026-01-01T00:01:00.000Z",
        });
        self.callback(CallbackKind::Quotes, false, terms)
    }

    fn fulfilled(&mut self, fulfilment: &str) -> &mut Self {
        let body = json!({ "transferState": "COMMITTED", "fulfilment": fulfilment });
        self.callback(CallbackKind::Transfers, false, body)
    }

    fn error(&mut self, kind: CallbackKind, code: &str) -> &mut Self {
        self.callback(kind, true, forms::error_information(code, "text"))
    }

    fn at(&mut self, now: u64) -> &mut Self {
        self.now = now;
        self.event(Event::Deadline)
    }

    fn prepared() -> Self {
        let mut payer = Self::usual();
        payer.found().quoted();
        assert_eq!(payer.transfer.phase, Phase::Prepared);
        payer
    }

    fn answer(&self) -> &BackendReply {
        let answers: Vec<_> = self.effects.iter().filter_map(answer_of).collect();
        assert_eq!(answers.len(), 1, "{:?}", self.effects);
        answers[0]
    }

    fn sent(&self) -> Vec<(RequestKind, String)> {
        let sent = self.effects.iter().filter_map(|effect| match effect {
            Effect::Send(asked, request) => Some((*asked, request.path.clone())),
            _ => None,
        });
        sent.collect()
    }

    fn failed_with(&self, status: u16, code: &str) {
        assert_eq!(self.transfer.phase, Phase::Failed);
        assert_eq!(self.transfer.deadline_ms, None);
        let answer = self.answer();
        assert_eq!((answer.status, &answer.body["statusCode"]), (status, &json!(code)));
        assert_eq!(answer.body["transferState"]["currentState"], "ERROR_OCCURRED");
    }
}

fn answer_of(effect: &Effect) -> Option<&BackendReply> {
    match effect {
        Effect::Answer(answer) => Some(answer),
        _ => None,
    }
}

#[test]
fn payment_takes_three_steps_and_is_on_disk_before_the_prepare() {
    let mut payer = Payer::usual();
    assert_eq!(payer.sent(), [(RequestKind::Party, "/parties/MSISDN/2".to_owned())]);
    assert_eq!(payer.transfer.awaited(), ["transfers/T", "quotes/Q", "parties/MSISDN/2"]);
    payer.found();
    assert_eq!(payer.sent(), [(RequestKind::Quote, "/quotes".to_owned())]);
    payer.quoted();
    assert_eq!(payer.effects[0], Effect::Save(true));
    assert_eq!(payer.sent(), [(RequestKind::Prepare, "/transfers".to_owned())]);
    payer.fulfilled(FULFILMENT);
    assert_eq!(payer.answer().status, 200);
    assert_eq!(payer.answer().body["currentState"], "COMPLETED");
    assert_eq!(payer.answer().body["to"]["displayName"], "Neema");
    // A repeated callback changes nothing.
    assert_eq!(payer.fulfilled(FULFILMENT).effects, []);
}

#[test]
fn look_up_fails_without_moving_money() {
    Payer::usual().error(CallbackKind::Parties, "3204").failed_with(500, "3204");
    Payer::usual().at(NOW + 30_000).failed_with(504, "2004");
    Payer::usual()
        .event(Event::Unanswered(RequestKind::Party, "no".to_owned()))
        .failed_with(500, "1001");
    let body = forms::error_information("3101", "text");
    Payer::usual().event(Event::Refused(RequestKind::Party, 400, body)).failed_with(500, "3101");
    let nameless = json!({ "party": { "partyIdInfo": {} } });
    Payer::usual().callback(CallbackKind::Parties, false, nameless).failed_with(500, "2001");
    Payer::usual().event(Event::Restarted).failed_with(500, "2001");
}

#[test]
fn quote_fails_without_moving_money() {
    Payer::usual().found().error(CallbackKind::Quotes, "5103").failed_with(500, "5103");
    Payer::usual().found().at(NOW + 30_000).failed_with(504, "2004");
    let mut strict = Payer::start(Policy { reject_expired_quotes: true, ..Policy::of_tests("a") });
    strict.found().now = NOW + 61_000;
    strict.quoted().failed_with(500, "3302");
    let mut payer = Payer::usual();
    payer
        .found()
        .event(Event::Unanswered(RequestKind::Quote, "no".to_owned()))
        .failed_with(500, "1001");
}

#[test]
fn outcomes_of_the_hub_end_a_prepared_transfer() {
    Payer::prepared().error(CallbackKind::Transfers, "4001").failed_with(500, "4001");
    Payer::prepared().error(CallbackKind::Transfers, "3303").failed_with(500, "3303");
    let aborted = json!({ "transferState": "ABORTED" });
    Payer::prepared().callback(CallbackKind::Transfers, false, aborted).failed_with(500, "2001");
    let body = forms::error_information("3100", "text");
    Payer::prepared()
        .event(Event::Refused(RequestKind::Prepare, 400, body))
        .failed_with(500, "3100");
}

#[test]
fn states_that_are_no_outcome_do_not_end_it() {
    let mut payer = Payer::prepared();
    let reserved = json!({ "transferState": "RESERVED" });
    assert_eq!(payer.callback(CallbackKind::Transfers, false, reserved).effects, []);
    payer.error(CallbackKind::Transfers, "2001");
    assert_eq!(payer.answer().status, 500);
    assert_eq!(payer.transfer.phase, Phase::Prepared, "a fault of the hub is no outcome");
    payer.fulfilled(FULFILMENT);
    assert_eq!(payer.transfer.phase, Phase::Completed);
    assert!(payer.effects.iter().all(|effect| answer_of(effect).is_none()), "it was answered");
}

#[test]
fn wrong_fulfilment_of_a_committed_transfer_is_reported() {
    let mut payer = Payer::prepared();
    payer.fulfilled("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    assert_eq!(payer.answer().body["currentState"], "COMPLETED");
    let error = &payer.answer().body["lastError"]["mojaloopError"];
    assert_eq!(error_of(error).map(|(code, _)| code), Some("3100"));
}

#[test]
fn unanswered_prepare_is_resent_until_it_expires_then_the_hub_is_asked() {
    let mut payer = Payer::prepared();
    payer.event(Event::Unanswered(RequestKind::Prepare, "no".to_owned()));
    assert_eq!(payer.effects, []);
    let next = payer.transfer.deadline_ms.expect("a deadline");
    assert!(next < NOW + 20_000);
    assert_eq!(payer.at(next).sent(), [(RequestKind::Prepare, "/transfers".to_owned())]);
    // A refusal of a repetition is no outcome of the first attempt.
    payer.event(Event::Refused(RequestKind::Prepare, 400, Value::Null));
    assert_eq!(payer.transfer.phase, Phase::Prepared);
    payer.at(NOW + 31_000);
    assert_eq!(payer.answer().status, 504);
    assert_eq!(payer.sent(), [(RequestKind::Status, "/transfers/T".to_owned())]);
    payer.error(CallbackKind::Transfers, "3208");
    assert_eq!(payer.transfer.phase, Phase::Failed, "it expired and the hub does not know it");
}

/// The hub's answer may have no body; the back end gets no null.
#[test]
fn refusal_without_a_body_leaves_the_error_of_the_hub_out() {
    let mut payer = Payer::prepared();
    payer.event(Event::Refused(RequestKind::Prepare, 400, Value::Null));
    let state = &payer.answer().body["transferState"];
    assert_eq!(state["lastError"], json!({ "httpStatusCode": 400 }));
}

#[test]
fn prepare_that_the_hub_does_not_know_is_sent_again_before_it_expires() {
    let mut payer = Payer::prepared();
    payer.error(CallbackKind::Transfers, "3208");
    assert_eq!(payer.sent(), [(RequestKind::Prepare, "/transfers".to_owned())]);
    payer.now = NOW + 21_000;
    payer.error(CallbackKind::Transfers, "3208");
    assert_eq!((payer.transfer.phase, payer.sent().len()), (Phase::Prepared, 0));
}

#[test]
fn late_outcome_completes_a_timed_out_transfer() {
    let mut payer = Payer::prepared();
    payer.event(Event::Accepted(RequestKind::Prepare)).at(NOW + 30_000);
    assert_eq!(payer.answer().status, 504);
    assert_eq!(payer.transfer.current_state(), "ERROR_OCCURRED");
    payer.fulfilled(FULFILMENT);
    assert_eq!(payer.transfer.current_state(), "COMPLETED");
}

#[test]
fn restarted_transfer_goes_to_the_hub_again() {
    let mut payer = Payer::prepared();
    let stored = serde_json::to_vec(&payer.transfer).expect("it can be written");
    payer.transfer = serde_json::from_slice(&stored).expect("it can be read");
    payer.event(Event::Restarted);
    assert_eq!(payer.transfer.deadline_ms, Some(NOW));
    assert_eq!(payer.at(NOW).sent(), [(RequestKind::Prepare, "/transfers".to_owned())]);
    payer.event(Event::Restarted);
    assert_eq!(payer.at(NOW + 25_000).sent(), [(RequestKind::Status, "/transfers/T".to_owned())]);
}

#[test]
fn back_end_accepts_or_refuses_at_each_pause() {
    let careful =
        Policy { auto_accept_party: false, auto_accept_quotes: false, ..Policy::of_tests("payer") };
    let accept = |name: &str| forms::object(&json!({ name: true }));
    let mut payer = Payer::start(careful.clone());
    payer.found();
    assert_eq!(payer.answer().body["currentState"], "WAITING_FOR_PARTY_ACCEPTANCE");
    payer.event(Event::Resume(accept("acceptParty"))).quoted();
    assert_eq!(payer.answer().body["currentState"], "WAITING_FOR_QUOTE_ACCEPTANCE");
    payer.event(Event::Resume(accept("acceptQuoteOrConversion"))).fulfilled(FULFILMENT);
    assert_eq!(payer.answer().body["currentState"], "COMPLETED");

    let mut payer = Payer::start(careful);
    payer.found().event(Event::Resume(accept("acceptQuote")));
    assert_eq!(payer.answer().body["currentState"], "ABORTED");
    payer.event(Event::Resume(accept("acceptParty")));
    assert_eq!(payer.answer().body["currentState"], "ABORTED");
}

/// The payment is in progress, so a state would mislead: the answer is that of the first request.
#[test]
fn repeated_acceptance_gets_the_answer_of_the_first() {
    let careful =
        Policy { auto_accept_party: false, auto_accept_quotes: false, ..Policy::of_tests("payer") };
    let accept = |name: &str| Event::Resume(forms::object(&json!({ name: true })));
    let mut payer = Payer::start(careful);
    payer.found().event(accept("acceptParty"));
    assert!(payer.event(accept("acceptParty")).effects.is_empty());
    payer.quoted().event(accept("acceptQuote"));
    assert!(payer.event(accept("acceptQuote")).effects.is_empty());
    payer.fulfilled(FULFILMENT);
    assert_eq!(payer.answer().body["currentState"], "COMPLETED");
}

/// After its answer with 504, a repeated request waits for the outcome, and gets 504 once more.
#[test]
fn repeated_acceptance_of_a_transfer_in_doubt_is_answered() {
    let mut payer = Payer::prepared();
    let until = payer.transfer.answer_by_ms;
    assert_eq!(payer.at(until).answer().status, 504);
    let accept = forms::object(&json!({ "acceptQuote": true }));
    assert!(payer.event(Event::Resume(accept)).effects.is_empty());
    let next = payer.transfer.deadline_ms.expect("the outcome is unknown");
    assert_eq!(payer.at(next).answer().status, 504);
}

#[test]
fn known_party_is_not_looked_up() {
    let mut request = forms::object(&Payer::usual().transfer.object.clone().into());
    request.insert("skipPartyLookup".to_owned(), true.into());
    request["to"]["fspId"] = "payee".into();
    let ids = NewIds { transfer: "T".to_owned(), quote: "Q".to_owned(), trace: [7; 16] };
    let policy = Policy::of_tests("payer");
    let (transfer, effects) = OutboundTransfer::begin(request, ids, &policy, NOW);
    assert_eq!(transfer.phase, Phase::Quote);
    let [Effect::Send(RequestKind::Quote, request)] = &*effects else { panic!("{effects:?}") };
    assert_eq!(request.destination.as_deref(), Some("payee"));
}

#[test]
fn extension_may_replace_the_status_code() {
    let key = Some("code".to_owned());
    let policy = Policy { status_code_extension_key: key, ..Policy::of_tests("payer") };
    let mut payer = Payer::start(policy);
    let body = json!({ "errorInformation": {
        "errorCode": "5000", "errorDescription": "no",
        "extensionList": { "extension": [{ "key": "code", "value": "77" }] },
    } });
    payer.callback(CallbackKind::Parties, true, body).failed_with(500, "77");
}

fn several() -> Policy {
    Policy {
        auto_accept_party: false,
        multiple_parties_response: true,
        multiple_parties_ms: 5_000,
        ..Policy::of_tests("payer")
    }
}

/// Answers are collected until the time is over; with several, the back end names one.
#[test]
fn back_end_chooses_one_of_several_parties() {
    let mut payer = Payer::start(several());
    for fsp in ["payee", "other"] {
        let id = json!({ "partyIdType": "MSISDN", "partyIdentifier": "2", "fspId": fsp });
        let party = json!({ "party": { "partyIdInfo": id } });
        payer.callback(CallbackKind::Parties, false, party);
        assert_eq!(payer.effects, []);
    }
    payer.error(CallbackKind::Parties, "3204").at(NOW + 5_000);
    assert_eq!(payer.transfer.phase, Phase::PartyPause);
    let answers = &payer.answer().body["getPartiesResponse"];
    assert_eq!(answers.as_array().map(Vec::len), Some(2));
    let accept = |to: Value| {
        let mut accept = forms::object(&json!({ "acceptParty": true }));
        put(&mut accept, "to", &to);
        Event::Resume(accept)
    };
    payer.event(accept(Value::Null));
    assert_eq!((payer.answer().status, payer.transfer.phase), (400, Phase::PartyPause));
    payer.event(accept(json!({ "idType": "MSISDN", "idValue": "2", "fspId": "other" })));
    assert_eq!(payer.transfer.phase, Phase::Quote);
    assert_eq!(payer.sent(), [(RequestKind::Quote, "/quotes".to_owned())]);
}

/// One answer is merged as usual. Without one, the error or the time-out is reported.
#[test]
fn one_answer_or_none_when_several_are_awaited() {
    let mut payer = Payer::start(several());
    payer.found().at(NOW + 5_000);
    assert_eq!(payer.answer().body["to"]["fspId"], "payee");
    assert_eq!(payer.transfer.phase, Phase::PartyPause);
    let mut payer = Payer::start(several());
    payer.error(CallbackKind::Parties, "3204").at(NOW + 5_000).failed_with(500, "3204");
    let mut payer = Payer::start(several());
    payer.at(NOW + 5_000).failed_with(504, "2004");
}
