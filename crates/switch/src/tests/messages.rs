//! Messages that are accepted, refused or ignored, and their records in the log.

use fspiop::Resource;
use fspiop::route_table::{Operation, Segment};
use http::Method;

use super::{BODY, HEALTH, edited, play, prepare, request};

#[test]
fn one_connection_carries_many_requests_good_and_bad() {
    play(async |hub| {
        let bad = edited("date: ", "dat: ");
        let all = [&prepare()[..], &bad, &request("POST /transfers", "{}"), HEALTH.as_bytes()];
        let twice = [all, all].concat().concat();
        let answers = ["202", "400 3102", "400 3102", "200"];
        assert_eq!(hub.converse(&twice).await, [answers, answers].concat());
    });
}

#[test]
fn a_participant_is_recorded_and_an_unknown_sender_is_counted() {
    play(async |hub| {
        let counters = &hub.parts.server.thread.counters;
        let before = hub.records();
        assert_eq!(hub.converse(&prepare()).await, ["202"]);
        assert_eq!((hub.records() - before, counters.unknown_senders.get()), (1, 0));
        let recorded = hub.records();
        let as_stranger = |request: Vec<u8>, name: &str| {
            let text = String::from_utf8(request).expect("text");
            text.replacen("fspiop-source: payerfsp", &format!("fspiop-source: {name}"), 1)
        };
        let id = ID;
        let error = "{\"errorInformation\":{\"errorCode\":\"5000\",\"errorDescription\":\"No\"}}";
        let put = format!("PUT /transfers/{id}");
        let fulfil = "{\"transferState\":\"COMMITTED\"}";
        let strangers = [
            (as_stranger(prepare(), "strangerfsp"), "202"),
            (as_stranger(prepare(), "Hub"), "202"),
            (as_stranger(prepare(), "HUB"), "202"),
            (as_stranger(request(&put, fulfil), "strangerfsp"), "200"),
            (as_stranger(request("PUT /transfers/no-id", fulfil), "strangerfsp"), "200"),
            (as_stranger(request(&format!("{put}/error"), error), "strangerfsp"), "200"),
            (as_stranger(request(&format!("GET /transfers/{id}"), ""), "strangerfsp"), "202"),
        ];
        for (count, (stranger, status)) in (1..).zip(strangers) {
            assert_eq!(hub.converse(stranger.as_bytes()).await, [status], "{stranger}");
            assert_eq!(counters.unknown_senders.get(), count, "{stranger}");
        }
        let bad = as_stranger(request("POST /transfers", "{}"), "strangerfsp");
        assert_eq!(hub.converse(bad.as_bytes()).await, ["400 3102"], "refused as others are");
        assert_eq!((hub.records(), counters.unknown_senders.get()), (recorded, 7));
    });
}

const ID: &str = "b51ec534-ee48-4575-b6a9-ead2955b8069";

const AUTHORIZATION_QUERY: &str = "?authenticationType=OTP&retriesLeft=1&amount=1&currency=USD";

/// A valid body of a request.
fn body_of(operation: Operation) -> String {
    let party = "\"partyIdType\":\"MSISDN\",\"partyIdentifier\":\"1\",\"fspId\":\"payeefsp\"";
    let amount = "{\"currency\":\"USD\",\"amount\":\"1\"}";
    let kind = "{\"scenario\":\"TRANSFER\",\"initiator\":\"PAYER\",\"initiatorType\":\"CONSUMER\"}";
    match operation {
        Operation::ParticipantsBatch => {
            format!("{{\"requestId\":\"{ID}\",\"partyList\":[{{{party}}}]}}")
        }
        Operation::ParticipantsPost | Operation::ParticipantsPut => {
            "{\"fspId\":\"payeefsp\"}".to_owned()
        }
        Operation::PartiesPut => format!("{{\"party\":{{\"partyIdInfo\":{{{party}}}}}}}"),
        Operation::QuotesPost => format!(
            "{{\"quoteId\":\"{ID}\",\"transactionId\":\"{ID}\",\"amountType\":\"SEND\",\
             \"payer\":{{\"partyIdInfo\":{{{party}}}}},\"payee\":{{\"partyIdInfo\":{{{party}}}}},\
             \"amount\":{amount},\"transactionType\":{{\"scenario\":\"TRANSFER\",\
             \"initiator\":\"PAYER\",\"initiatorType\":\"CONSUMER\"}}}}"
        ),
        Operation::QuotesPut => format!(
            "{{\"transferAmount\":{amount},\"expiration\":\"2099-01-01T00:00:00.000Z\",\
             \"ilpPacket\":\"AYIBgQ\",\
             \"condition\":\"BeZFGxq2RPkY0IpxxIBaJSnr7jhPs8hPedGCgk16Uzc\"}}"
        ),
        Operation::BulkQuotesPost => format!(
            "{{\"bulkQuoteId\":\"{ID}\",\"payer\":{{\"partyIdInfo\":{{{party}}}}},\
             \"individualQuotes\":[{{\"quoteId\":\"{ID}\",\"transactionId\":\"{ID}\",\
             \"payee\":{{\"partyIdInfo\":{{{party}}}}},\"amountType\":\"SEND\",\
             \"amount\":{amount},\"transactionType\":{kind}}}]}}"
        ),
        Operation::BulkQuotesPut => "{\"expiration\":\"2099-01-01T00:00:00.000Z\"}".to_owned(),
        Operation::TransactionRequestsPost => format!(
            "{{\"transactionRequestId\":\"{ID}\",\"payer\":{{{party}}},\
             \"payee\":{{\"partyIdInfo\":{{{party}}}}},\"amount\":{amount},\
             \"transactionType\":{kind}}}"
        ),
        Operation::TransactionRequestsPut => {
            "{\"transactionRequestState\":\"RECEIVED\"}".to_owned()
        }
        Operation::AuthorizationsPut => "{\"responseType\":\"ENTERED\"}".to_owned(),
        Operation::TransactionsPut => "{\"transactionState\":\"COMPLETED\"}".to_owned(),
        Operation::BulkTransfersPost => format!(
            "{{\"bulkTransferId\":\"{ID}\",\"bulkQuoteId\":\"{ID}\",\
             \"payerFsp\":\"payerfsp\",\"payeeFsp\":\"payeefsp\",\
             \"expiration\":\"2099-01-01T00:00:00.000Z\",\"individualTransfers\":[{{\
             \"transferId\":\"{ID}\",\"transferAmount\":{amount},\"ilpPacket\":\"AYIBgQ\",\
             \"condition\":\"BeZFGxq2RPkY0IpxxIBaJSnr7jhPs8hPedGCgk16Uzc\"}}]}}"
        ),
        Operation::BulkTransfersPut => "{\"bulkTransferState\":\"COMPLETED\"}".to_owned(),
        Operation::TransfersPost => BODY.to_owned(),
        Operation::TransfersPut => "{\"transferState\":\"COMMITTED\"}".to_owned(),
        Operation::ParticipantsError
        | Operation::PartiesError
        | Operation::QuotesError
        | Operation::BulkQuotesError
        | Operation::TransactionRequestsError
        | Operation::AuthorizationsError
        | Operation::TransactionsError
        | Operation::TransfersError
        | Operation::BulkTransfersError => {
            "{\"errorInformation\":{\"errorCode\":\"5000\",\"errorDescription\":\"No\"}}".to_owned()
        }
        _ => String::new(),
    }
}

/// The responses are those of the reference: some resources refuse at once.
#[test]
fn an_unknown_sender_has_no_effect_on_any_resource() {
    play(async |hub| {
        let thread = &hub.parts.server.thread;
        let (recorded, mut count) = (hub.records(), 0);
        for resource in Resource::ALL {
            let served = resource.routes().iter().filter(|row| row.operation.is_served());
            for row in served {
                let path = row.template(resource).replace("{Type}/{ID}", "MSISDN/1");
                let path = path.replace("{SubId}", "WORK").replace("{ID}", ID);
                let path = path.replace("{SourceCurrency}", "USD");
                let path = path.replace("{TargetCurrency}", "KES");
                let query = match row.operation {
                    Operation::AuthorizationsGet => AUTHORIZATION_QUERY,
                    _ => "",
                };
                let call = format!("{} {path}{query}", row.method);
                let to = "fspiop-source: strangerfsp\r\nfspiop-destination: payeefsp";
                let sent = String::from_utf8(request(&call, body_of(row.operation)));
                let sent = sent.expect("text").replacen("fspiop-source: payerfsp", to, 1);
                let accepted = if row.method == Method::PUT { "200" } else { "202" };
                let has_sub_id = row.tail.contains(&Segment::Identifier("SubId"));
                let expected = match (resource, row.operation) {
                    (Resource::Participants, Operation::ParticipantsError) => accepted,
                    (_, Operation::ParticipantsPost) if has_sub_id => accepted,
                    (Resource::Participants | Resource::Services, _) => "400 3200",
                    (Resource::Parties, Operation::PartiesGet) => "400 3101",
                    (Resource::Parties, _) => "400 3200",
                    (_, _) => accepted,
                };
                count += 1;
                assert_eq!(hub.converse(sent.as_bytes()).await, [expected], "{call}");
                assert_eq!(thread.counters.unknown_senders.get(), count, "{call}");
            }
        }
        assert_eq!(count, 45, "all rows of the table");
        let calls = (thread.counters.forwards.get(), thread.counters.attempts.get());
        assert_eq!((hub.records(), calls), (recorded, (0, 0)));
    });
}

/// A request records its stages only while it is observed.
#[test]
fn stages_of_a_request_are_traced_while_tracing_is_on() {
    play(async |hub| {
        let stages = hub.handle.latency_trace();
        let id = ledger::TransferId::parse("b51ec534-ee48-4575-b6a9-ead2955b8069").expect("an id");
        let labels = || -> Vec<String> {
            let all = stages.of(&id).stages.into_iter().map(|stage| stage.label);
            all.filter_map(|label| Some(label.strip_prefix("prepare: ")?.to_owned())).collect()
        };
        assert_eq!(hub.converse(&prepare()).await, ["202"]);
        assert_eq!(labels(), [""; 0]);
        stages.enable(true);
        assert_eq!(hub.converse(&prepare()).await, ["202"]);
        let found = labels();
        for label in ["receive", "read the body", "parse and check", "apply", "answer"] {
            assert!(found.iter().any(|one| one == label), "{label} is not among {found:?}");
        }
    });
}

#[test]
fn sizes() {
    let (small, large) = (128 * 1024, 5 * 1024 * 1024);
    let party = "{\"party\":{\"partyIdInfo\":{\"partyIdType\":\"MSISDN\",\
                 \"partyIdentifier\":\"1\"}}}";
    let padded = |call: &str, body: &str, length: usize| {
        let mut body = body.as_bytes().to_vec();
        body.resize(length, b' ');
        request(call, body)
    };
    let chunked = |request: Vec<u8>| {
        let end = request.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4;
        let (head, body) = request.split_at(end);
        let head = String::from_utf8(head.to_vec()).expect("text");
        let (before, _) = head.split_once("content-length").expect("a length");
        let mut all = format!("{before}transfer-encoding: chunked\r\n\r\n").into_bytes();
        for piece in body.chunks(4_000) {
            all.extend(format!("{:x}\r\n", piece.len()).bytes());
            all.extend([piece, b"\r\n"].concat());
        }
        all.extend(b"0\r\n\r\n");
        all
    };
    play(async |hub| {
        for (call, body, most, status) in [
            ("POST /transfers", BODY, small, "202"),
            // This payerfsp has no endpoint for the callback: the party comes back as an error.
            ("PUT /parties/MSISDN/1", party, large, "200"),
        ] {
            for form in [std::convert::identity::<Vec<u8>>, chunked] {
                let good = form(padded(call, body, most));
                assert_eq!(hub.converse(&good).await, [status], "{call}");
                let long = form(padded(call, body, most + 1));
                assert_eq!(hub.converse(&long).await, ["400 3104"], "{call}");
            }
        }
        assert_eq!(hub.converse(&padded("POST /quotes", "{}", small + 1)).await, ["400 3104"]);
    });
}

#[test]
fn bodies_that_two_parsers_would_not_read_alike() {
    let body = |from: &str, to: &str| request("POST /transfers", BODY.replacen(from, to, 1));
    let not_utf8: Vec<u8> = BODY.bytes().map(|b| if b == b'[' { 0xff } else { b }).collect();
    let huge = format!("\"amount\":{}", "9".repeat(400));
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let deep_member = format!("{}1{}", "[".repeat(1_000), "]".repeat(1_000));
    let raw = |text: &str| request("POST /transfers", text);
    let cases = [
        ("a byte order mark", raw(&format!("\u{feff}{BODY}")), "400 3101"),
        ("an amount twice", body("\"currency\"", "\"amount\":\"9\",\"currency\""), "400 3101"),
        (
            "a name twice, once in escapes",
            body("\"payeeFsp\"", "\"payee\\u0046sp\":\"otherfsp\",\"payeeFsp\""),
            "400 3101",
        ),
        ("a number out of range", body("\"amount\":\"1\"", "\"amount\":1e999"), "400 3101"),
        ("a number of many digits", body("\"amount\":\"1\"", &huge), "400 3100"),
        ("half a character in a name", body("\"unknown\"", "\"\\udc00\""), "400 3101"),
        ("half a character in a value", body("payeefsp", "\\ud800"), "400 3101"),
        ("a control character", body("payeefsp", "pay\u{1}ee"), "400 3101"),
        ("not UTF-8", request("POST /transfers", not_utf8), "400 3101"),
        ("two objects", raw(&format!("{BODY}{BODY}")), "400 3101"),
        ("something behind", raw(&format!("{BODY}x")), "400 3101"),
        ("nested too deep", raw(&deep), "400 3101"),
        ("half of it", raw(&BODY[..BODY.len() / 2]), "400 3102"),
        ("nothing", raw(""), "400 3102"),
        ("an unknown member of any depth", body("[1,2.50,null]", &deep_member), "202"),
        ("a number of no reading", body("2.50", "1e999"), "202"),
        ("an unknown member twice", body("\"unknown\"", "\"unknown\":1,\"unknown\""), "202"),
    ];
    let signature = edited("host: hub\r\n", "host: hub\r\nfspiop-signature: {}\r\n");
    let signature = String::from_utf8(signature).expect("text");
    play(async |hub| {
        for (name, bytes, expected) in &cases {
            assert_eq!(hub.converse(bytes).await, [*expected], "{name}");
        }
        for header in [
            "content-type: application/json",
            "fspiop-source: otherfsp",
            "date: Tue, 15 Nov 1994 08:12:31 GMT",
            "fspiop-signature: {}",
        ] {
            let twice = signature.replacen("\r\n", &format!("\r\n{header}\r\n"), 1);
            assert_eq!(hub.converse(twice.as_bytes()).await, ["400 3101"], "{header} twice");
        }
        for path in
            ["/parties/ALIAS/..", "/parties/ALIAS/%2e%2E", "/parties/ALIAS/a/.", "/quotes/.."]
        {
            let dots = request(&format!("GET {path}"), "");
            assert_eq!(hub.converse(&dots).await, ["400 3101"], "{path}");
        }
        // A client that sends `Expect: 100-continue` is refused before it sends the body.
        let asks = edited("content-length: ", "expect: 100-continue\r\ncontent-length: 999");
        let head = asks.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4;
        assert_eq!(hub.converse(&asks[..head]).await, ["400 3104"]);
    });
}
