//! Erasures of the identifiers of registered parties with the real program: the directory serves
//! the others, and a second operator decides about a proposal before its contents go.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::http::{Client, Headers, PATIENCE, Request, Response};

use crate::operators::{Office, read};
use crate::support::message::{Message, uuid};
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{PROGRAM, Printed, files, finish};

const FIRST: &str = "254700000001";
const FIRST_WITH_SIGN: &str = "+254700000001";
const SECOND: &str = "254700000002";
const THIRD: &str = "254700000003";

fn run(scheme: &Scheme, arguments: &[&str]) -> Output {
    let mut command = std::process::Command::new(PROGRAM);
    command.args(arguments).arg("--admin").arg(format!("http://{}", scheme.switch.admin));
    command.arg("--token").arg(scheme.home.data().join("admin-token"));
    finish(command)
}

/// The files of a directory that contain a text.
pub(crate) fn holders(directory: &Path, text: &str) -> Vec<PathBuf> {
    let has = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    files(directory).into_iter().filter(has).collect()
}

/// Waits until all erasures are done. Each round makes a change, whose record lets the switch close
/// the segment that it writes.
fn wait_until_erased(admin: &Admin) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let all = admin.json("/erasures");
        let mut each = all.as_array().unwrap().iter();
        if each.all(|it| it["state"] == "DONE") {
            return;
        }
        assert!(Instant::now() < deadline, "{all}");
        admin.set_limit("payerfsp", "1000");
        thread::sleep(Duration::from_millis(200));
    }
}

/// A batch of parties, and its answer.
fn register_batch(scheme: &Scheme, parties: &[(&str, Option<&str>)]) -> Value {
    let request = uuid();
    let list: Vec<_> = parties
        .iter()
        .map(|(id, sub_id)| {
            let (id_type, fsp) = ("MSISDN", "payeefsp");
            let mut party = json!({"partyIdType": id_type, "partyIdentifier": id, "fspId": fsp});
            if let Some(sub_id) = sub_id {
                party["partySubIdOrType"] = (*sub_id).into();
            }
            party
        })
        .collect();
    let body = json!({"requestId": request, "partyList": list}).to_string();
    scheme.send(&Message::new("POST", "/participants", "payeefsp").body(body), 200);
    let answer = scheme.payee.wait("PUT", &format!("/participants/{request}"));
    scheme.wait_until_delivered();
    serde_json::from_str(&answer.text()).unwrap()
}

/// The answer to a request for the FSP of a party.
fn served(scheme: &Scheme, path: &str) -> String {
    scheme.payer.take(0);
    scheme.send(&Message::new("GET", path, "payerfsp"), 202);
    scheme.payer.take(1)[0].text()
}

/// One of a batch is erased. Its record has no identifiers any more, and the directory still serves
/// the others, also when it is made again from the log.
#[test]
fn the_directory_serves_the_other_parties_of_an_erased_batch() {
    let scheme = Scheme::start();
    let data = scheme.home.data();
    let batch = [(FIRST_WITH_SIGN, None), (SECOND, None), (THIRD, Some("till-4"))];
    let answer = register_batch(&scheme, &batch);
    let named: Vec<_> = answer["partyList"].as_array().unwrap().iter().collect();
    assert_eq!(named.len(), 3, "{answer}");
    assert!(answer.to_string().contains(FIRST_WITH_SIGN), "{answer}");
    run(&scheme, &["party", "release", "MSISDN", FIRST_WITH_SIGN]).succeeds();
    scheme.wait_until_delivered();
    let party = ["erase", "--party", "MSISDN", FIRST_WITH_SIGN];
    let plan = run(&scheme, &[&party[..], &["--dry-run", "--json"]].concat()).succeeds().json();
    // The batch and the release.
    assert_eq!((&plan["contents"], &plan["isRegistered"]), (&2.into(), &false.into()), "{plan}");
    run(&scheme, &[&party[..], &["--reason", "request 50"]].concat()).succeeds();
    wait_until_erased(&scheme.admin);
    for id in [FIRST, SECOND, THIRD] {
        assert_eq!(holders(&data, id), Vec::<PathBuf>::new(), "{id}");
    }

    let Scheme { home, switch, payer, payee, other, .. } = scheme;
    switch.stop(Signal::TERM);
    home.verify().succeeds();
    fs::remove_dir_all(data.join("store")).unwrap();
    for entry in
        files(&data).into_iter().filter(|it| it.extension().is_some_and(|it| it == "snapshot"))
    {
        fs::remove_file(entry).unwrap();
    }
    let switch = home.serve();
    let admin = Admin::new(&home, &switch);
    let scheme = Scheme { home, switch, admin, payer, payee, other };
    let path = |id: &str| format!("/participants/MSISDN/{id}");
    assert!(served(&scheme, &path(SECOND)).contains("payeefsp"));
    assert!(served(&scheme, &path("254700000003/till-4")).contains("payeefsp"));
    assert!(served(&scheme, &path(FIRST)).contains("3204"));
    register_batch(&scheme, &[(FIRST, None)]);
    assert!(served(&scheme, &path("%2B254700000001")).contains("payeefsp"));
    scheme.switch.stop(Signal::TERM);
}

/// Two operators who may do everything, also erase.
pub(crate) struct Pair {
    pub(crate) office: Office,
    amina: PathBuf,
    benta: PathBuf,
    pub(crate) admin: Admin,
}

impl Pair {
    pub(crate) fn start() -> Self {
        let office = Office::configured("");
        let [amina, benta] =
            ["amina", "benta"].map(|name| office.add(name, "admin --role privacy"));
        let admin = Admin::new(&office.home, &office.switch);
        admin.prepare_hub();
        admin.onboard("payerfsp", "http://127.0.0.1:9", "1000", "1000");
        office.run(&amina, "four-eyes set parties roles").succeeds();
        Self { office, amina, benta, admin }
    }

    fn call(&self, token: &Path, method: &str, path: &str, body: &str) -> Response {
        let authorization = format!("Bearer {}", read(token));
        let headers = [
            ("host", "localhost"),
            ("authorization", &*authorization),
            ("content-type", "application/json"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (method, path) = (method.to_owned(), path.to_owned());
        let (headers, body) = (Headers(headers.to_vec()), body.as_bytes().to_vec());
        let mut client = Client::new(self.office.switch.admin, PATIENCE);
        client.call(&Request { method, path, headers, body }).unwrap()
    }

    pub(crate) fn propose_party(&self, id: &str) -> String {
        let body = json!({"parties": [{
            "partyIdType": "MSISDN", "partyIdentifier": id, "partySubIdOrType": "till-4",
            "fspId": "payerfsp",
        }]});
        let proposed = self.call(&self.amina, "POST", "/parties", &body.to_string());
        assert_eq!(proposed.status, 202, "{}", proposed.text());
        proposed.text()
    }

    pub(crate) fn proposal(&self, number: u32) -> String {
        self.call(&self.amina, "GET", &format!("/proposals/{number}"), "").text()
    }

    pub(crate) fn approve(&self, number: u32) {
        self.office.run(&self.benta, &format!("proposal approve {number}")).succeeds();
    }

    /// Erases everything; the proposal of it has this number.
    fn order_erasure(&self, number: u32) {
        let order = "erase --before 2100-01-01T00:00:00Z --reason retention";
        assert_eq!(self.office.run(&self.amina, order).status.code(), Some(3));
        self.approve(number);
    }

    pub(crate) fn found(&self, id: &str) -> String {
        self.call(&self.amina, "GET", &format!("/parties/MSISDN/{id}?subId=till-4"), "").text()
    }

    fn values(&self) -> String {
        self.call(&self.amina, "GET", "/audit?limit=1000&values=true", "").text()
    }
}

/// Contents of an open proposal stay, and go after its end.
#[test]
fn contents_of_a_proposal_stay_until_it_has_ended() {
    let pair = Pair::start();
    let data = pair.office.home.data();
    let proposed = pair.propose_party(FIRST);
    assert!(proposed.contains("party MSISDN **********01 of payerfsp"), "{proposed}");
    let shown = pair.proposal(1);
    assert!(shown.contains(&format!("party MSISDN {FIRST} of payerfsp")), "{shown}");
    pair.approve(1);
    assert!(pair.found(FIRST).contains("payerfsp"));
    pair.propose_party(SECOND);
    let values = pair.values();
    for text in [FIRST, SECOND, "till-4"] {
        assert!(values.contains(text), "{text}: {values}");
    }
    assert!(!values.contains("\\u0001"), "{values}");

    pair.order_erasure(3);
    let deadline = Instant::now() + PATIENCE;
    while !holders(&data, FIRST).is_empty() {
        assert!(Instant::now() < deadline, "the first one is erased");
        pair.admin.set_limit("payerfsp", "1000");
        thread::sleep(Duration::from_millis(200));
    }
    let erased = pair.proposal(1);
    assert!(erased.contains("party MSISDN (erased, hash "), "{erased}");
    let open = pair.proposal(2);
    assert!(open.contains(&format!("party MSISDN {SECOND} of payerfsp")), "{open}");
    pair.approve(2);
    assert!(pair.found(SECOND).contains("payerfsp"));
    wait_until_erased(&pair.admin);
    pair.order_erasure(4);
    wait_until_erased(&pair.admin);
    for text in [FIRST, SECOND, "till-4"] {
        assert_eq!(holders(&data, text), Vec::<PathBuf>::new(), "{text}");
    }
    let values = pair.values();
    assert!(values.contains("(erased, hash ") && !values.contains("\\u0001"), "{values}");
    assert!(pair.found(FIRST).contains("payerfsp") && pair.found(SECOND).contains("payerfsp"));
    let home = pair.office.end(Signal::TERM);
    home.verify().succeeds();
}
