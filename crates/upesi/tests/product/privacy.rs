//! Personal data with the real program: no surface shows them without the permission, and no file
//! has them after an erasure, decrypted with the key at hand.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use encryption::{Keyring, MasterKeys, SourcedKey};
use journal::{RealDisk, TieredDisk};
use ports::Cipher;
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::http::{Client, Headers, PATIENCE, Request};

use crate::archive::text;
use crate::bulk::{noted_answer, noted_bulk};
use crate::support::message::{FULFILMENT, Message, Transfer, date_time, uuid};
use crate::support::scheme::Scheme;
use crate::support::switch::{PROGRAM, Printed, files, finish};

const NAME: &str = "Wanjiru Kamau";
const NOTE: &str = "rent for the flat in Eastleigh";
/// A number in quotes and payments, which no FSP registers.
const NUMBER: &str = "254711223344";
/// A number in the party directory.
const REGISTERED: &str = "254755667788";
/// Numbers of a batch, of the admin API and of the oracle API, and a sub-identifier.
const REGISTERED_OTHERWISE: [&str; 5] =
    ["254755660001", "254755660002", "254755660003", "254755660004", "till-of-wanjiru"];
const ORACLE_API: &str = "[oracle_api]\nlisten = \"127.0.0.1:0\"\n";
const QUOTES: &str = "[quotes]\npersist = true\n";

fn run(scheme: &Scheme, token: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).arg("--admin").arg(format!("http://{}", scheme.switch.admin));
    command.arg("--token").arg(token);
    finish(command)
}

/// A payment with a quote and a registration, which name persons wherever the protocol lets them.
fn pay_person(scheme: &Scheme) -> Transfer {
    let registration = format!("/participants/MSISDN/{REGISTERED}");
    let body = r#"{"fspId":"payeefsp","currency":"USD"}"#;
    scheme.send(&Message::new("POST", &registration, "payeefsp").body(body), 202);
    scheme.payee.wait("PUT", &registration);
    let transfer = Transfer::of("10");
    let party = |fsp: &str| {
        json!({
            "partyIdInfo":
                {"partyIdType": "MSISDN", "partyIdentifier": NUMBER, "fspId": fsp},
            "name": NAME,
        })
    };
    let quote = json!({
        "quoteId": uuid(), "transactionId": transfer.id,
        "payer": party("payerfsp"), "payee": party("payeefsp"),
        "amountType": "RECEIVE", "amount": {"currency": "USD", "amount": "10"},
        "transactionType":
            {"scenario": "TRANSFER", "initiator": "PAYER", "initiatorType": "CONSUMER"},
        "note": NOTE,
    });
    let asked = Message::new("POST", "/quotes", "payerfsp").to("payeefsp");
    scheme.send(&asked.body(quote.to_string()), 202);
    let prepare = transfer.prepare();
    let body = std::str::from_utf8(prepare.bytes()).unwrap();
    let body = body.replace("Amélie Ngũgĩ 王", &format!("{NOTE} {NUMBER} {NAME}"));
    scheme.send(&prepare.body(body), 202);
    let answer = json!({
        "transferState": "COMMITTED", "completedTimestamp": date_time(0),
        "fulfilment": FULFILMENT,
        "extensionList": {"extension": [{"key": "note", "value": NOTE}]},
    });
    scheme.send(&transfer.answer(&answer.to_string()), 200);
    scheme.wait_until_delivered();
    let (bulk, items) = (uuid(), [uuid(), uuid()]);
    let note = format!("{NOTE} {NUMBER} {NAME}");
    scheme.send(&noted_bulk(&bulk, &items, &note), 202);
    scheme.send(&noted_answer(&bulk, &items, &note), 200);
    scheme.wait_until_delivered();
    let refused = Transfer::of("20");
    scheme.send(&refused.prepare(), 202);
    scheme.send(&refused.error("5104", NOTE), 200);
    scheme.wait_until_delivered();
    transfer
}

/// Registrations in a batch, by an operator and by a client of the oracle API.
fn register_persons(scheme: &Scheme) {
    let [first, second, imported, by_oracle, sub_id] = REGISTERED_OTHERWISE;
    let party = |id: &str| {
        json!({"partyIdType": "MSISDN", "partyIdentifier": id, "partySubIdOrType": sub_id,
            "fspId": "payeefsp"})
    };
    let list = [party(first), party(second)];
    let batch = json!({"requestId": uuid(), "partyList": list}).to_string();
    scheme.send(&Message::new("POST", "/participants", "payeefsp").body(batch), 200);
    let body = json!({"parties": [party(imported)]}).to_string();
    scheme.admin.must("POST", "/parties", &body, 200);
    let line = |line: &str| line.strip_prefix("upesi: oracle API on http://")?.parse().ok();
    let address = scheme.switch.greeting.lines().find_map(line).expect("it listens");
    let media = "application/vnd.interoperability.participants+json;version=1.1";
    let headers = [("host", "localhost"), ("fspiop-source", "payerfsp"), ("content-type", media)];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let (method, path) = ("POST".to_owned(), format!("/participants/MSISDN/{by_oracle}"));
    let body = br#"{"fspId":"payerfsp","currency":"USD"}"#.to_vec();
    let request = Request { method, path, headers: Headers(headers.to_vec()), body };
    let answer = Client::new(address, PATIENCE).call(&request).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
    scheme.wait_until_delivered();
}

fn must_have_none(what: &str, shown: &str, secrets: &[&str]) {
    for secret in secrets {
        assert!(!shown.contains(secret), "{what} shows {secret:?}: {shown}");
    }
}

/// The answer to a `GET` with the token of an operator.
fn get(scheme: &Scheme, token: &str, path: &str) -> (u16, String) {
    let headers = [("host", "localhost"), ("authorization", &format!("Bearer {token}"))];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let (method, path) = ("GET".to_owned(), path.to_owned());
    let request = Request { method, path, headers: Headers(headers.to_vec()), body: Vec::new() };
    let answer = Client::new(scheme.switch.admin, PATIENCE).call(&request).unwrap();
    (answer.status, answer.text())
}

/// All routes that only need `read` and have no variable in their path, and those about a payment
/// and a participant.
fn read_paths(document: &Value, transfer: &Transfer) -> Vec<String> {
    let paths = document["paths"].as_object().unwrap();
    let is_read = |item: &Value| {
        let needed = &item["get"]["x-required-permission"];
        item["get"].is_object() && (needed.is_null() || needed == "read")
    };
    let plain = paths.iter().filter(|(path, item)| !path.contains('{') && is_read(item));
    let mut all: Vec<_> = plain.map(|(path, _)| path.clone()).collect();
    assert!(20 < all.len(), "{all:?}");
    let id = &transfer.id;
    all.extend([
        format!("/transfers/{id}"),
        format!("/transfers/{id}/explanation"),
        format!("/transfers/{id}/explanation?format=text"),
        format!("/transfers/{id}/messages"),
        format!("/participants/payerfsp/statement?to={}", date_time(0)),
        "/events?after=0&limit=1000".to_owned(),
        "/events?after=0&limit=1000&kind=quotes".to_owned(),
        "/proposals/1".to_owned(),
    ]);
    all
}

#[test]
fn readers_see_no_names_identifiers_or_notes() {
    let scheme = Scheme::configured(&format!("{QUOTES}[admin]\nauth = \"roles\"\n"));
    let transfer = pay_person(&scheme);
    let root = scheme.home.data().join("admin-token");
    let token = |name: &str, role: &str| {
        run(&scheme, &root, &["operator", "add", name, "--role", role]).succeeds();
        let file = scheme.home.configuration().with_file_name(name);
        run(&scheme, &root, &["token", "create", name, "--output", text(&file)]).succeeds();
        file
    };
    let [chief, _, viewer] = [("amina", "admin"), ("benta", "admin"), ("chen", "viewer")]
        .map(|(name, role)| token(name, role));
    run(&scheme, &chief, &["four-eyes", "set", "parties", "roles"]).succeeds();
    let proposed = run(&scheme, &chief, &["party", "release", "MSISDN", REGISTERED]);
    assert_eq!(proposed.status.code(), Some(3), "{proposed:?}");
    assert!(proposed.fails().contains("proposed as 1, not done yet"));
    let csv = scheme.home.configuration().with_file_name("parties.csv");
    let row = "type,id,sub_id,fsp,currency\nMSISDN,254700000009,,payeefsp,USD\n";
    fs::write(&csv, row).unwrap();
    let imported = run(&scheme, &chief, &["party", "import", text(&csv)]);
    assert_eq!(imported.status.code(), Some(3), "{imported:?}");
    assert!(imported.fails().contains("from line 2: proposed as 2, not done yet"));
    let [of_chief, of_viewer] =
        [&chief, &viewer].map(|file| fs::read_to_string(file).unwrap().trim().to_owned());
    let secrets = [NAME, NOTE, NUMBER, REGISTERED, "Amélie"];
    let (_, document) = get(&scheme, &of_viewer, "/openapi/admin.json");
    let document: Value = serde_json::from_str(&document).unwrap();
    let mut answered = 0;
    for path in read_paths(&document, &transfer) {
        let (status, shown) = get(&scheme, &of_viewer, &path);
        answered += usize::from(status == 200);
        must_have_none(&path, &shown, &secrets);
    }
    assert!(25 < answered, "{answered}");
    for arguments in [
        &["events", "--kind", "transfers"][..],
        &["export"],
        &["proposal", "list"],
        &["explain", &transfer.id, "--messages"],
        &["erase", "list"],
    ] {
        let shown = run(&scheme, &viewer, arguments).succeeds().out();
        must_have_none(&arguments.join(" "), &shown, &secrets);
    }
    // With the permission, the same routes are complete.
    for (path, secret) in [
        ("/proposals/1".to_owned(), REGISTERED),
        (format!("/transfers/{}/messages", transfer.id), NOTE),
    ] {
        let (_, shown) = get(&scheme, &of_chief, &path);
        assert!(shown.contains(secret), "{path}: {shown}");
    }
    let (_, proposal) = get(&scheme, &of_viewer, "/proposals/1");
    assert!(proposal.contains("release party MSISDN **********88 of payeefsp"), "{proposal}");
    scheme.switch.signal(Signal::TERM);
    let (_, complaints) = scheme.switch.end();
    must_have_none("standard error", &complaints, &secrets);
}

/// The files of some directories that contain one of the texts.
fn holders(directories: &[&Path], secrets: &[&str]) -> Vec<PathBuf> {
    let all = directories.iter().flat_map(|directory| files(directory));
    let is_holder = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        secrets.iter().any(|secret| has(&bytes, secret))
    };
    all.filter(is_holder).collect()
}

fn has(bytes: &[u8], secret: &str) -> bool {
    bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
}

/// All frames of a log with its archives, decrypted.
fn decrypted(data: &Path, key: Option<&Path>) -> Vec<u8> {
    let disk = RealDisk::open_live(data).unwrap();
    let cipher = key.map(|key| {
        let current = Arc::new(SourcedKey::from_file(key).unwrap());
        let keys = Keyring::open(disk.clone(), MasterKeys { current, previous: None });
        Arc::new(keys.unwrap()) as Arc<dyn Cipher>
    });
    let log = TieredDisk::open(disk).unwrap().with_cipher(cipher);
    let mut bytes = Vec::new();
    journal::walk(&log, &mut |placed| {
        bytes.extend_from_slice(placed.frame.as_bytes());
        Ok(())
    })
    .unwrap();
    bytes
}

/// Waits until everything is erased, also in the copy.
fn wait_until_erased(scheme: &Scheme) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let all = scheme.admin.json("/erasures");
        if all.as_array().unwrap().iter().all(|it| it["state"] == "DONE") {
            return;
        }
        assert!(Instant::now() < deadline, "{all}");
        scheme.admin.set_limit("payerfsp", "1000");
        thread::sleep(Duration::from_millis(200));
    }
}

fn nothing_is_left_after_erasure(is_encrypted: bool) {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let [archive, copy] = ["archive", "copy"].map(place);
    for path in [&archive, &copy] {
        fs::create_dir(path).unwrap();
    }
    let key = place("master.key");
    fs::write(&key, "1".repeat(64)).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let source = format!("file:{}", key.display());
    let encryption = match is_encrypted {
        true => format!("[encryption]\nkey = \"{source}\"\n"),
        false => String::new(),
    };
    let scheme = Scheme::configured(&format!(
        "{QUOTES}{encryption}{ORACLE_API}[archive]\nto = \"file://{}\"\nkeep_segments = 0\n[backup]\n\
         to = \"file://{}\"\nevery_seconds = 1\n",
        archive.display(),
        copy.display()
    ));
    let transfer = pay_person(&scheme);
    register_persons(&scheme);
    scheme.admin.must("POST", "/snapshots", "", 202);
    scheme.admin.wait_for("upesi_snapshots_taken_total", |taken| 0 < taken);
    let data = scheme.home.data();
    let secrets = [&[NAME, NOTE, NUMBER, REGISTERED], &REGISTERED_OTHERWISE[..]].concat();
    let key = is_encrypted.then_some(&*key);
    let before = decrypted(&data, key);
    assert!(secrets.iter().all(|secret| has(&before, secret)), "the log has them");
    let token = data.join("admin-token");
    let erase = |selection: &[&str]| {
        let arguments = [&["erase"][..], selection, &["--reason", "request 40"]].concat();
        run(&scheme, &token, &arguments).succeeds();
        wait_until_erased(&scheme);
    };
    erase(&["--party", "MSISDN", NUMBER]);
    erase(&["--before", &date_time(60_000)]);
    scheme.admin.must("POST", "/snapshots", "", 202);
    scheme.admin.wait_for("upesi_snapshots_taken_total", |taken| 1 < taken);
    scheme.switch.stop(Signal::TERM);

    let restored = place("restored");
    let offline = |arguments: &[&str], data: &Path| {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).arg("--data").arg(data);
        if is_encrypted {
            command.args(["--encryption-key", &source]);
        }
        finish(command).succeeds().out()
    };
    offline(&["restore", "--from", &format!("file://{}", copy.display())], &restored);
    let places = [&*data, &*archive, &*copy, &*restored];
    assert_eq!(holders(&places, &secrets), Vec::<PathBuf>::new());
    for data in [&data, &restored] {
        let log = decrypted(data, key);
        must_have_none(text(data), &String::from_utf8_lossy(&log), &secrets);
        offline(&["verify"], data);
        let explained = offline(&["explain", &transfer.id], data);
        assert!(explained.contains("because: request 40"), "{explained}");
    }
}

/// Store and snapshots are plain files here, so that a scan reads them too.
#[test]
fn nothing_is_left_after_erasure_of_a_plain_directory() {
    nothing_is_left_after_erasure(false);
}

#[test]
fn nothing_is_left_after_erasure_of_an_encrypted_directory() {
    nothing_is_left_after_erasure(true);
}
