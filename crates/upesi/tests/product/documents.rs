//! The API documents and the running switch: printed, served and committed documents are equal,
//! every example is accepted, every message that breaks a described rule is refused, and every
//! response is as described.

use std::process::Command;

use openapi::generate::{ExampleMessage, OperationMessages, operations, response_fault};
use serde_json::Value;
use testkit::http::Connection;

use crate::support::scheme::Scheme;
use crate::support::switch::{PROGRAM, Printed, finish};

const APIS: [&str; 2] = ["fspiop", "admin"];

pub(crate) fn printed(api: &str) -> String {
    let mut command = Command::new("sh");
    // Through a file, since an unread pipe holds less than a document.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("document.json");
    command.arg("-c").arg(format!("{PROGRAM} openapi {api} > {}", path.display()));
    finish(command).succeeds();
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn documents_in_the_repository_are_those_of_the_code() {
    for api in APIS {
        let path = format!("{}/../../docs/openapi/{api}.json", env!("CARGO_MANIFEST_DIR"));
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == printed(api),
            "docs/openapi/{api}.json is not what the code describes: run cargo xtask openapi"
        );
    }
}

#[test]
fn switch_conforms_to_its_openapi_document() {
    let scheme = Scheme::start();
    for api in APIS {
        let served = scheme.admin.get(&format!("/openapi/{api}.json"));
        assert!(served == printed(api), "{api}");
    }
    let document: Value = serde_json::from_str(&printed("fspiop")).unwrap();
    let mut client = Connection::open(scheme.switch.fspiop).unwrap();
    for entry in operations(&document) {
        let status = play(&mut client, &document, &entry, &entry.good);
        let is_served = entry.operation["responses"].get("501").is_none();
        assert_eq!((200..300).contains(&status), is_served, "{}: {status}", entry.id);
        for message in &entry.bad {
            let status = play(&mut client, &document, &entry, message);
            let refused = if is_served { 400..500 } else { 400..502 };
            assert!(refused.contains(&status), "{} when {}: {status}", entry.id, message.what);
        }
    }
    scheme.wait_until_delivered();
    scheme.end();
}

/// Sends a message and returns the status. The whole response must be as described.
#[track_caller]
fn play(
    client: &mut Connection,
    document: &Value,
    entry: &OperationMessages<'_>,
    message: &ExampleMessage,
) -> u16 {
    let answer = client.exchange(render(message).as_bytes()).unwrap();
    let media = answer.headers.get("content-type");
    let text = answer.text();
    let fault = response_fault(document, entry.operation, answer.status, media, &text);
    assert_eq!(fault, None, "{} when {}: {text}", entry.id, message.what);
    answer.status
}

fn render(message: &ExampleMessage) -> String {
    let mut text = format!("{} {} HTTP/1.1\r\nhost: hub\r\n", message.method, message.path);
    for (name, value) in &message.headers {
        text += &format!("{name}: {value}\r\n");
    }
    let body = message.body.as_ref().map_or("", |(_, text)| text);
    text + &format!("content-length: {}\r\n\r\n{body}", body.len())
}
