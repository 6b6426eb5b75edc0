//! Bulk transfers of the largest size, and messages for other tests.

use serde_json::{Value, json};

use crate::support::message::{CONDITION, FULFILMENT, Message, date_time, uuid};
use crate::support::scheme::Scheme;

const ITEMS_MAX: usize = 10_000;

/// A bulk of a cent per item.
pub(crate) fn bulk(id: &str, transfers: &[String]) -> Message {
    let item = |transfer: &String| {
        json!({
            "transferId": transfer,
            "transferAmount": {"amount": "0.01", "currency": "USD"},
            "ilpPacket": "AQAAAAAAAABkEGcucGF5ZWVmc3AuMTIz",
            "condition": CONDITION,
        })
    };
    let items: Vec<Value> = transfers.iter().map(item).collect();
    let body = json!({
        "bulkTransferId": id,
        "bulkQuoteId": uuid(),
        "payerFsp": "payerfsp",
        "payeeFsp": "payeefsp",
        "expiration": date_time(600_000),
        "individualTransfers": items,
    });
    Message::new("POST", "/bulkTransfers", "payerfsp").to("payeefsp").body(body.to_string())
}

/// A bulk with a note in each list of extensions.
pub(crate) fn noted_bulk(id: &str, transfers: &[String], note: &str) -> Message {
    let message = bulk(id, transfers);
    let mut body: Value = serde_json::from_slice(message.bytes()).unwrap();
    body["extensionList"] = extensions(note);
    for item in body["individualTransfers"].as_array_mut().unwrap() {
        item["extensionList"] = extensions(note);
    }
    message.body(body.to_string())
}

/// The payee commits the first item and refuses the others, each with a note.
pub(crate) fn noted_answer(id: &str, transfers: &[String], note: &str) -> Message {
    let result = |(number, transfer): (usize, &String)| match number {
        0 => json!({
            "transferId": transfer,
            "fulfilment": FULFILMENT,
            "extensionList": extensions(note),
        }),
        _ => json!({
            "transferId": transfer,
            "errorInformation": {"errorCode": "5104", "errorDescription": note},
        }),
    };
    let answer = json!({
        "completedTimestamp": date_time(0),
        "bulkTransferState": "COMPLETED",
        "individualTransferResults": transfers.iter().enumerate().map(result).collect::<Vec<_>>(),
    });
    let path = format!("/bulkTransfers/{id}");
    Message::new("PUT", &path, "payeefsp").to("payerfsp").body(answer.to_string())
}

fn extensions(note: &str) -> Value {
    json!({"extension": [{"key": "note", "value": note}]})
}

/// One item too many changes nothing; the largest bulk is paid as a whole.
#[test]
fn a_bulk_of_10_000_items_is_paid_and_one_of_10_001_refused() {
    let scheme = Scheme::configured("[transfers]\nbulk_items_max = 10000\n");
    let mut transfers: Vec<_> = (0..=ITEMS_MAX).map(|_| uuid()).collect();
    let before = scheme.admin.state();
    let refused = scheme.ask(&bulk(&uuid(), &transfers));
    assert_eq!(refused.status, 400);
    let error: Value = serde_json::from_str(&refused.text()).unwrap();
    assert_eq!(error["errorInformation"]["errorCode"], "3100", "{error}");
    assert_eq!(scheme.admin.state(), before);

    transfers.pop();
    let id = uuid();
    scheme.send(&bulk(&id, &transfers), 202);
    let asked: Value = serde_json::from_slice(&scheme.payee.take(1)[0].body).unwrap();
    assert_eq!(asked["individualTransfers"].as_array().map(Vec::len), Some(ITEMS_MAX));
    let result = |transfer: &String| json!({"transferId": transfer, "fulfilment": FULFILMENT});
    let results: Vec<Value> = transfers.iter().map(result).collect();
    let answer = json!({
        "completedTimestamp": date_time(0),
        "bulkTransferState": "COMPLETED",
        "individualTransferResults": results,
    });
    let path = format!("/bulkTransfers/{id}");
    let answer = Message::new("PUT", &path, "payeefsp").to("payerfsp").body(answer.to_string());
    scheme.send(&answer, 200);
    let paid = scheme.payer.take(1).remove(0);
    let paid_body: Value = serde_json::from_slice(&paid.body).unwrap();
    assert_eq!((&*paid.path, &paid_body["bulkTransferState"]), (&*path, &json!("COMPLETED")));
    scheme.payee.take(1);
    scheme.positions("100", "-100");
    scheme.wait_until_delivered();
    scheme.end();
}
