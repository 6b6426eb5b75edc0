//! Signatures between participants and the hub (hub-semantics 1.7), beyond the conversations in
//! `conversations/jws`: directories of keys, signals, restarts, many concurrent messages.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use jws::VerificationKey;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::http::Connection;

use crate::operations::assert_refuses;
use crate::support::fsp::Callback;
use crate::support::message::{Message, Transfer, sign_with, verifies, verify_with};
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, Ports, Printed};

/// A test key, by name and form.
pub(crate) fn pem(key: &str, form: &str) -> String {
    let text = include_str!("../../../jws/tests/vectors/vectors.json");
    let vectors: Value = serde_json::from_str(text).unwrap();
    vectors["keys"][key][form].as_str().unwrap().to_owned()
}

/// A directory of keys, next to the configuration that names it.
struct Keys(TempDir);

impl Keys {
    fn of(files: &[(&str, &str)]) -> Self {
        let keys = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|(file, key)| keys.write(file, &pem(key, "public")));
        keys
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.path(file), text).unwrap();
    }

    fn configuration(&self) -> String {
        let path = self.0.path().display();
        format!("[jws]\nvalidate = [\"transfers\"]\nkeys = \"{path}\"\n")
    }
}

fn add_key(admin: &Admin, name: &str, key: &str) {
    let body = json!({ "publicKey": pem(key, "public") }).to_string();
    admin.must("POST", &format!("/participants/{name}/keys"), &body, 201);
}

/// Sends a prepare signed with a key. It is accepted, or refused without a state change.
#[track_caller]
fn check(scheme: &Scheme, key: &str, accepted: bool) {
    let transfer = Transfer::of("1");
    let message = sign_with(transfer.prepare().to("payeefsp"), key);
    if accepted {
        scheme.send(&message, 202);
        scheme.payee.wait("POST", "/transfers");
        scheme.wait_until_delivered();
        scheme.payee.take(1);
        return;
    }
    scheme.wait_until_delivered();
    let before = scheme.admin.state();
    let answer = scheme.ask(&message);
    assert_eq!(answer.status, 400, "{message:?}: {}", answer.text());
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(body["errorInformation"]["errorCode"], "3105", "{body}");
    assert_eq!(scheme.admin.state(), before, "{message:?}");
    for fsp in [&scheme.payer, &scheme.payee, &scheme.other] {
        assert_eq!(fsp.take(0), [], "{} received something", fsp.name);
    }
}

#[test]
fn keys_in_a_directory_are_reloaded_without_a_restart() {
    let keys = Keys::of(&[("payerfsp.pem", "rsa")]);
    let mut scheme = Scheme::configured(&keys.configuration());
    check(&scheme, "rsa", true);
    check(&scheme, "ec", false);

    // By a signal, with an invalid file in the directory.
    keys.write("payerfsp.2.pem", &pem("ec", "public"));
    keys.write("payerfsp.pem", "half a k");
    scheme.switch.signal(Signal::HUP);
    assert_eq!(scheme.switch.next_line(), "upesi: jws.keys: loaded 2 keys of 1 participant");
    scheme.switch.wait_for_complaint("payerfsp.pem");
    check(&scheme, "ec", true);
    check(&scheme, "rsa", true);

    // By the admin API. The file of the old key was removed.
    fs::remove_file(keys.path("payerfsp.pem")).unwrap();
    let answer = scheme.admin.call("POST", "/keyDirectory/reload", "");
    assert_eq!(answer.text(), r#"{"participants":1,"keys":1,"faults":[]}"#);
    check(&scheme, "rsa", false);
    check(&scheme, "ec", true);

    // The register's keys are used in addition to those of the directory.
    add_key(&scheme.admin, "payerfsp", "rsa");
    check(&scheme, "rsa", true);
    check(&scheme, "ec", true);
    let shown = scheme.admin.json("/participants/payerfsp/keys");
    let sources: Vec<_> = shown.as_array().unwrap().iter().map(|key| &key["source"]).collect();
    assert_eq!(sources, ["register", "directory"]);
    let id = shown[1]["id"].as_str().unwrap();
    let refusal = scheme.admin.call("DELETE", &format!("/participants/payerfsp/keys/{id}"), "");
    assert!(refusal.text().contains("remove its file"), "{}", refusal.text());
    scheme.switch.signal(Signal::TERM);
    let (status, complaints) = scheme.switch.end();
    assert!(status.success(), "{status}");
    assert_eq!(complaints.lines().count(), 1, "nothing but the broken file: {complaints}");
}

/// A body that is parsed and written again for its signature costs much more than its bytes, so it
/// counts as many requests of its sender, whether the signature is valid then or not.
#[test]
fn rewritten_bodies_count_as_many_requests() {
    let keys = Keys::of(&[("payerfsp.pem", "rsa"), ("otherfsp.pem", "rsa")]);
    let limits = "participant_rate_max = 20\n";
    let scheme = Scheme::configured(&format!("{limits}{}", keys.configuration()));
    let next = |fsp: &str| scheme.ask(&Transfer::of("1").get(fsp)).status;
    let with_blanks = |message: Message| {
        let body = [message.bytes(), &[b' '; 12 << 10]].concat();
        message.body(body)
    };
    // Signed as sent: four requests. Signed without the blanks, or not at all: 28.
    let signed = sign_with(with_blanks(Transfer::of("1").prepare().to("payeefsp")), "rsa");
    assert_eq!(scheme.ask(&signed).status, 202);
    assert_eq!(next("payerfsp"), 202);
    let prepare = Transfer::of("1").prepare().to("payeefsp");
    let canonical = jws::canonical(prepare.bytes()).unwrap();
    let rewritten = with_blanks(sign_with(prepare.body(canonical), "rsa"));
    assert_eq!(scheme.ask(&rewritten).status, 202);
    assert_eq!(next("payerfsp"), 429);
    let path = format!("{}/error", Transfer::of("1").path());
    let of_other = Message::new("PUT", &path, "otherfsp").to("payeefsp");
    let wrong = with_blanks(sign_with(of_other.body("{}"), "rsa")).body([b'0'; 12 << 10]);
    assert_eq!(scheme.ask(&wrong).status, 400);
    assert_eq!(next("otherfsp"), 429);
}

#[test]
fn keys_in_the_register_survive_a_crash() {
    let configuration = "[jws]\nvalidate = [\"transfers\"]\n";
    let scheme = Scheme::configured(configuration);
    check(&scheme, "rsa", false);
    add_key(&scheme.admin, "payerfsp", "rsa");
    add_key(&scheme.admin, "payerfsp", "ec");
    check(&scheme, "rsa", true);
    let keys = scheme.admin.get("/participants/payerfsp/keys");
    let id = serde_json::from_str::<Value>(&keys).unwrap()[0]["id"].as_str().unwrap().to_owned();
    scheme.admin.must("DELETE", &format!("/participants/payerfsp/keys/{id}"), "", 204);
    let keys = scheme.admin.get("/participants/payerfsp/keys");

    let Scheme { switch, home, payer, payee, other, .. } = scheme;
    switch.kill();
    let switch = home.serve();
    let admin = Admin::new(&home, &switch);
    assert_eq!(admin.get("/participants/payerfsp/keys"), keys);
    let scheme = Scheme { switch, home, admin, payer, payee, other };
    check(&scheme, "rsa", false);
    check(&scheme, "ec", true);
    scheme.end();
}

/// A signed message that is sent again is a duplicate. With another destination, date, sender or
/// path it is refused, and changes nothing.
#[test]
fn replayed_signatures_are_duplicates_or_refused() {
    let scheme = Scheme::configured("[jws]\nvalidate = [\"transfers\"]\n");
    add_key(&scheme.admin, "payerfsp", "rsa");
    add_key(&scheme.admin, "otherfsp", "ec");
    let message = sign_with(Transfer::of("1").prepare().to("payeefsp"), "rsa");
    scheme.send(&message, 202);
    scheme.payee.wait("POST", "/transfers");
    scheme.wait_until_delivered();
    scheme.payee.take(1);
    let position = scheme.admin.position("payerfsp");
    // The payer gets the state of the transfer again, and the payee nothing.
    scheme.send(&message, 202);
    scheme.wait_until_delivered();
    let state = String::from_utf8(scheme.payer.take(1)[0].body.clone()).unwrap();
    assert!(state.contains("RESERVED"), "{state}");
    assert_eq!(scheme.admin.position("payerfsp"), position);
    let before = scheme.admin.state();
    for (header, value) in [
        ("fspiop-destination", "otherfsp"),
        ("date", "Tue, 15 Nov 1994 08:12:32 GMT"),
        ("fspiop-source", "otherfsp"),
        ("fspiop-uri", "/quotes"),
        ("fspiop-http-method", "PUT"),
    ] {
        let answer = scheme.ask(&message.clone().with(header, value));
        assert_eq!(answer.status, 400, "{header}: {}", answer.text());
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(body["errorInformation"]["errorCode"], "3105", "{header}: {body}");
    }
    assert_eq!(scheme.admin.state(), before);
    for fsp in [&scheme.payer, &scheme.payee, &scheme.other] {
        assert_eq!(fsp.take(0), [], "{} received something", fsp.name);
    }
    scheme.end();
}

/// More concurrent responses than one signing thread has room for: each is signed, and none is
/// lost.
#[test]
fn many_concurrent_responses_are_all_signed() {
    const ANSWERS: usize = 600;
    let key = private_file("rsa", 0o600);
    let path = key.0.path().join("hub.pem");
    let scheme = Scheme::configured(&format!(
        "[jws]\nsign = [\"transfers\"]\nsigning_threads = 1\nsigning_key = \"{}\"\n",
        path.display()
    ));
    for _ in 0..ANSWERS {
        scheme.send(&Transfer::of("1").get("payerfsp"), 202);
    }
    let admin = &scheme.admin;
    admin.wait_for("upesi_signatures_made_total", |made| made == ANSWERS as u64);
    admin.wait_for("upesi_signatures_waiting", |waiting| waiting == 0);
    assert_eq!(admin.metric("upesi_signatures_failed_total"), 0);
    let received: Vec<Callback> = scheme.payer.take_unchecked(ANSWERS);
    received.iter().for_each(|callback| verifies(callback, "rsa"));
    scheme.end();
}

/// The keys that the hub publishes, as a participant fetches them.
fn published(admin: &Admin) -> Vec<VerificationKey> {
    let keys = admin.json("/participants/Hub/keys");
    let keys = keys.as_array().unwrap().iter();
    let keys = keys.map(|key| key["publicKey"].as_str().unwrap().as_bytes());
    keys.map(|key| VerificationKey::from_pem(key).unwrap()).collect()
}

/// A participant that fetches the published keys before each step of a rotation verifies every
/// message of the hub, while it sends without a pause.
#[test]
fn key_of_the_hub_is_rotated_under_load_without_a_failed_verification() {
    const CALLBACKS: usize = 40;
    let file = private_file("rsa", 0o600);
    let path = file.path("hub.pem");
    let mut scheme = Scheme::configured(&format!(
        "[jws]\nsign = [\"transfers\"]\nsigning_key = \"{}\"\n",
        path.display()
    ));
    let [rsa, ec] = ["rsa", "ec"].map(|key| [pem(key, "private"), pem(key, "public")]);
    let steps = [
        ("announced", format!("{}{}", rsa[0], ec[1]), 2),
        ("changed", format!("{}{}", ec[0], rsa[1]), 2),
        ("withdrawn", ec[0].clone(), 1),
        // Replaced without an announcement: the former key stays published.
        ("replaced", rsa[0].clone(), 2),
    ];
    let of = |key: &str| VerificationKey::from_pem(pem(key, "public").as_bytes()).unwrap();
    let signed_by = |callback: &Callback, key: &str| verify_with(callback, &[of(key)]).is_ok();
    let stop = AtomicBool::new(false);
    let Scheme { switch, admin, payer, .. } = &mut scheme;
    let hub = switch.fspiop;
    std::thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        let message = Transfer::of("1").get("payerfsp").render();
        let stop = &stop;
        scope.spawn(move || {
            let mut connection = Connection::open(hub).unwrap();
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(connection.exchange_or_reopen(&message).unwrap().status, 202);
            }
        });
        for (step, text, count) in &steps {
            let known = published(admin);
            write_key(&path, text);
            switch.signal(Signal::HUP);
            let line = switch.next_line();
            assert!(line.contains(&format!("signs, {count} keys are published")), "{line}");
            let key = if ["announced", "replaced"].contains(step) { "rsa" } else { "ec" };
            // Callbacks that were signed before wait at the payer.
            let is_changed = (0..1_000).any(|_| {
                let received = payer.take_unchecked(CALLBACKS);
                // A key that was not announced is unknown to those who have not fetched it.
                if *step != "replaced" {
                    let failed = received.iter().filter(|it| verify_with(it, &known).is_err());
                    assert_eq!(failed.count(), 0, "{step}");
                }
                received.last().is_some_and(|last| signed_by(last, key))
            });
            assert!(is_changed, "{step}");
        }
    });
    let ids: Vec<_> = published(&scheme.admin).iter().map(VerificationKey::fingerprint).collect();
    assert_eq!(ids, [of("rsa").fingerprint(), of("ec").fingerprint()]);
    assert_eq!(scheme.admin.metric("upesi_signatures_failed_total"), 0);
}

/// Stops a thread, also when a test fails.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn write_key(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&new, path).unwrap();
}

#[test]
fn a_broken_file_keeps_the_key_of_the_hub() {
    let file = private_file("rsa", 0o600);
    let path = file.path("hub.pem");
    let scheme = Scheme::configured(&format!(
        "[jws]\nsign = [\"transfers\"]\nsigning_key = \"{}\"\n",
        path.display()
    ));
    let check = || {
        scheme.send(&Transfer::of("1").get("payerfsp"), 202);
        verifies(&scheme.payer.take_unchecked(1)[0], "rsa");
    };
    check();
    assert_eq!(scheme.admin.metric("upesi_signing_key_failed"), 0);
    for (text, reason) in [("half a k", "holds no PEM block PRIVATE KEY"), ("", "no PEM block")] {
        write_key(&path, text);
        scheme.switch.signal(Signal::HUP);
        let complaint = scheme.switch.wait_for_complaint("the key read before stays in use");
        assert!(complaint.contains("jws.signing_key") && complaint.contains(reason), "{complaint}");
        scheme.admin.wait_for("upesi_signing_key_failed", |failed| failed == 1);
        check();
    }
    let configuration = scheme.home.configuration();
    let doctor = scheme.home.offline(&["doctor", "--config", configuration.to_str().unwrap()]);
    assert!(doctor.out().contains("jws.signing_key"), "{doctor:?}");
    write_key(&path, &pem("rsa", "private"));
    scheme.switch.signal(Signal::HUP);
    scheme.admin.wait_for("upesi_signing_key_failed", |failed| failed == 0);
    check();
}

/// A private key `hub.pem` in a separate directory.
fn private_file(key: &str, mode: u32) -> Keys {
    let keys = Keys::of(&[]);
    keys.write("hub.pem", &pem(key, "private"));
    fs::set_permissions(keys.path("hub.pem"), fs::Permissions::from_mode(mode)).unwrap();
    keys
}

#[test]
fn unusable_keys_are_reported() {
    let open = private_file("rsa", 0o644);
    let short = private_file("short", 0o600);
    let private = Keys::of(&[]);
    private.write("payerfsp.pem", &pem("rsa", "private"));
    let setting = |name: &str, path: &Path| format!("[jws]\n{name} = \"{}\"\n", path.display());
    let nowhere = Path::new("no-such-place");
    for (text, named) in [
        (setting("keys", nowhere), &["jws.keys", "no-such-place", "<fspId>.pem"][..]),
        (setting("keys", private.0.path()), &["payerfsp.pem", "private key"]),
        (setting("signing_key", nowhere), &["jws.signing_key", "no-such-place"]),
        (setting("signing_key", &open.path("hub.pem")), &["chmod 600", "hub.pem"]),
        (setting("signing_key", &short.path("hub.pem")), &["hub.pem", "2048 to 8192 bits"]),
        ("[jws]\nsign = [\"quotes\"]\n".into(), &["jws.sign", "jws.signing_key"]),
        ("[jws]\nvalidate = [\"quote\"]\n".into(), &["upesi.toml", "quote"]),
        ("[jws]\nverify = true\n".into(), &["upesi.toml", "verify"]),
    ] {
        assert_refuses(&Home::configured(&text).serve_in_vain(Ports::free()), named);
    }
}
