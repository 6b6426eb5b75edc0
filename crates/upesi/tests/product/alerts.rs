//! Alerts about liquidity reach a real webhook receiver and a real mail server: once per crossing,
//! after faults of the receivers, and after a restart.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::message::Transfer;
use crate::support::namespaces::run;
use crate::support::receivers::{Receivers, SECRET};
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, PROGRAM, Printed, finish};

const USER: &str = "upesi";
const PASSWORD: &str = "not-a-secret-outside-of-this-test";

/// Files of a configuration, and its text.
struct Settings {
    directory: TempDir,
    text: String,
}

impl Settings {
    fn new() -> Self {
        Self { directory: TempDir::new().unwrap(), text: "[alerts]\n".into() }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn secret(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn with(mut self, lines: &str) -> Self {
        self.text += lines;
        self
    }

    fn with_webhook(self, url: &str) -> Self {
        let secret = self.secret("secret", &format!("{SECRET}\n"));
        self.with(&format!("webhook_url = \"{url}\"\nwebhook_secret_file = \"{secret}\"\n"))
    }

    fn with_mail(self, relay: &str) -> Self {
        self.with(&format!(
            "smtp_relay = \"{relay}\"\nmail_from = \"upesi@hub.example\"\n\
             mail_to = [\"ops@hub.example\"]\n"
        ))
    }

    fn with_receivers(self, receivers: &Receivers) -> Self {
        let Receivers { webhook, smtp, .. } = receivers;
        self.with_webhook(&format!("http://127.0.0.1:{webhook}/alerts?from=upesi"))
            .with_mail(&format!("127.0.0.1:{smtp}"))
            .with("smtp_tls = \"none\"\n")
    }

    fn scheme(&self) -> Scheme {
        Scheme::configured(&self.text)
    }
}

fn set_email(admin: &Admin, name: &str, kind: &str, address: &str) {
    let body = json!({ "type": kind, "value": address }).to_string();
    admin.must("POST", &format!("/participants/{name}/endpoints"), &body, 201);
}

/// Pays back to the payer.
fn pay_back(scheme: &Scheme, amount: &str) {
    let (payer, payee) = ("payeefsp".into(), "payerfsp".into());
    let transfer = Transfer { payer, payee, ..Transfer::of(amount) };
    scheme.send(&transfer.prepare(), 202);
    scheme.send(&transfer.fulfil("COMMITTED"), 200);
}

/// Waits until the switch has looked at all positions: it sends the alert about a changed cap after
/// that.
fn see_next_check(scheme: &Scheme, receivers: &mut Receivers, cap: &str) {
    scheme.admin.set_limit("otherfsp", cap);
    assert_eq!(fact(&receivers.webhook()), "net debit cap changed: otherfsp 0 USD");
    receivers.mails(1);
}

fn wait_until_finished(admin: &Admin) {
    admin.wait_for("upesi_alerts_owed", |owed| owed == 0);
}

/// Kind, participant and position of a webhook.
#[track_caller]
fn fact(webhook: &Value) -> String {
    let body = &webhook["body"];
    let text = |name: &str| body[name].as_str().unwrap();
    assert_eq!(webhook["path"], "/alerts?from=upesi");
    assert_eq!(webhook["id"], format!("alert-{}-{}", body["logIndex"], body["id"]));
    format!("{}: {} {} {}", text("kind"), text("participant"), body["position"], text("currency"))
}

#[test]
fn each_crossing_is_reported_once_to_all_receivers() {
    let mut receivers = Receivers::start(&json!({}));
    let scheme = Settings::new().with_receivers(&receivers).scheme();
    let admin = &scheme.admin;
    let breach = "NET_DEBIT_CAP_THRESHOLD_BREACH_EMAIL";
    set_email(admin, "payerfsp", breach, "payer@payer.example");
    set_email(admin, "Hub", breach, "hub@hub.example");

    scheme.pay("99");
    scheme.pay("2");
    let reached = receivers.webhook();
    assert_eq!(fact(&reached), "alarm threshold reached: payerfsp 101 USD");
    assert_eq!(reached["body"]["percent"].to_string(), "10.1");
    assert_eq!(reached["body"]["netDebitCap"].to_string(), "1000");
    let mails = receivers.mails(3);
    let to: Vec<_> = mails.iter().map(|mail| mail["to"][0].as_str().unwrap()).collect();
    assert_eq!(to, ["hub@hub.example", "ops@hub.example", "payer@payer.example"]);
    for mail in &mails {
        assert_eq!(mail["from"], "upesi@hub.example");
        assert_eq!(mail["subject"], "payerfsp: position is 10.1 % of the USD net debit cap");
        assert!(mail["text"].as_str().unwrap().contains("Position:      101 USD"), "{mail}");
        let headers = mail["headers"].as_array().unwrap();
        let expected = ["from", "message-id", "subject", "content-type", "to"];
        assert!(expected.iter().all(|it| headers.contains(&json!(it))), "{mail}");
    }
    let row = &admin.json("/liquidity?participant=payerfsp")[0];
    assert_eq!(row["alarmSince"], reached["body"]["at"]);

    // The alarm stays raised above 95 % of the threshold, and is not raised twice.
    pay_back(&scheme, "5");
    see_next_check(&scheme, &mut receivers, "901");
    scheme.pay("60");
    see_next_check(&scheme, &mut receivers, "902");
    pay_back(&scheme, "62");
    assert_eq!(fact(&receivers.webhook()), "alarm threshold cleared: payerfsp 94 USD");
    receivers.mails(3);
    wait_until_finished(admin);
    assert_eq!(admin.metric("upesi_liquidity_alarms"), 0);
    assert_eq!(admin.metric("upesi_alert_webhooks_sent_total"), 4);
    assert_eq!(admin.metric("upesi_alert_mails_sent_total"), 8);
    receivers.received_nothing_more();
    scheme.end();
}

#[test]
fn changed_caps_and_settled_positions_are_reported() {
    let mut receivers = Receivers::start(&json!({}));
    let scheme = Settings::new().with_receivers(&receivers).scheme();
    let admin = &scheme.admin;
    let (cap, position) =
        ("NET_DEBIT_CAP_ADJUSTMENT_EMAIL", "SETTLEMENT_TRANSFER_POSITION_CHANGE_EMAIL");
    set_email(admin, "payerfsp", cap, "caps@payer.example");
    set_email(admin, "payeefsp", position, "settlement@payee.example");

    admin.set_limit("payerfsp", "1500.5");
    let changed = receivers.webhook();
    assert_eq!(fact(&changed), "net debit cap changed: payerfsp 0 USD");
    assert_eq!(changed["body"]["netDebitCap"].to_string(), "1500.5");
    let mails = receivers.mails(2);
    assert_eq!(mails[0]["to"][0], "caps@payer.example");
    assert_eq!(mails[1]["subject"], "payerfsp: net debit cap is now 1500.5 USD");

    scheme.pay("80");
    scheme.wait_until_delivered();
    let mut settle = Command::new(PROGRAM);
    settle.args(["settlement", "run", "--admin", &format!("http://{}", scheme.switch.admin)]);
    settle.arg("--token").arg(scheme.home.data().join("admin-token"));
    finish(settle).succeeds();
    let mut facts = [receivers.webhook(), receivers.webhook()].map(|webhook| fact(&webhook));
    facts.sort();
    assert_eq!(
        facts,
        [
            "position changed by a settlement: payeefsp 0 USD",
            "position changed by a settlement: payerfsp 0 USD"
        ]
    );
    let mails = receivers.mails(3);
    assert_eq!(mails[2]["to"][0], "settlement@payee.example");
    assert_eq!(mails[2]["subject"], "payeefsp: settlement changed the position to 0 USD");
    wait_until_finished(admin);
    receivers.received_nothing_more();
    scheme.end();
}

#[test]
fn alerts_wait_for_a_receiver_that_is_down_and_survive_a_restart() {
    // The port of a receiver that has ended.
    let webhook = Receivers::start(&json!({})).webhook;
    let mut mail = Receivers::start(&json!({ "rejected": "full@payer.example" }));
    let settings = Settings::new()
        .with_webhook(&format!("http://127.0.0.1:{webhook}/alerts?from=upesi"))
        .with_mail(&format!("127.0.0.1:{}", mail.smtp))
        .with("smtp_tls = \"none\"\n");
    let mut scheme = settings.scheme();
    let cap = "NET_DEBIT_CAP_ADJUSTMENT_EMAIL";
    set_email(&scheme.admin, "payerfsp", cap, "full@payer.example");
    scheme.admin.set_limit("payerfsp", "900");
    scheme.admin.set_limit("payeefsp", "800");
    let subjects = mail.mails(2).iter().map(|mail| mail["subject"].to_string()).collect::<String>();
    assert!(subjects.contains("900 USD") && subjects.contains("800 USD"), "{subjects}");
    scheme.admin.wait_for("upesi_alert_webhooks_failed_total", |failed| 2 <= failed);
    scheme.admin.wait_for("upesi_alert_mails_failed_total", |failed| 1 <= failed);
    assert_eq!(scheme.admin.metric("upesi_alerts_owed"), 2);

    let ports = scheme.switch.ports();
    scheme.switch.signal(Signal::TERM);
    let (status, complaints) = scheme.switch.end();
    assert!(status.success(), "{status}: {complaints}");
    assert!(complaints.contains("error=cannot connect"), "{complaints}");
    for channel in ["channel=\"webhook\"", "channel=\"e-mail\""] {
        assert!(complaints.contains(channel), "{complaints}");
    }
    assert!(complaints.contains("no such mailbox"), "{complaints}");
    scheme.switch = scheme.home.serve_on(ports);
    scheme.admin = Admin::new(&scheme.home, &scheme.switch);
    // Without a record, the e-mails are sent again.
    mail.mails(2);

    let mut receivers = Receivers::start(&json!({ "webhookPort": webhook }));
    receivers.answer(503);
    receivers.webhook();
    receivers.answer(200);
    let accepted = |webhook: &Value| webhook["status"] == 200;
    let mut facts = Vec::new();
    while facts.len() < 2 {
        let webhook = receivers.webhook();
        facts.extend(accepted(&webhook).then(|| fact(&webhook)));
    }
    facts.sort();
    assert_eq!(
        facts,
        ["net debit cap changed: payeefsp 0 USD", "net debit cap changed: payerfsp 0 USD"]
    );
    set_email(&scheme.admin, "payerfsp", cap, "caps@payer.example");
    assert_eq!(mail.mails(1)[0]["to"][0], "caps@payer.example");
    wait_until_finished(&scheme.admin);
    receivers.received_nothing_more();
    mail.received_nothing_more();
    let messages = scheme.switch.messages();
    assert!(messages.contains("alerts are sent again channel=\"webhook\""), "{messages}");
    scheme.switch.signal(Signal::TERM);
    let (status, complaints) = scheme.switch.end();
    assert!(status.success(), "{status}: {complaints}");
    scheme.home.verify().succeeds();
}

#[test]
fn alerts_without_receiver_are_finished_at_once() {
    let scheme = Scheme::start();
    scheme.admin.set_limit("payerfsp", "900");
    scheme.pay("91");
    scheme.admin.wait_for("upesi_liquidity_alarms", |raised| raised == 1);
    wait_until_finished(&scheme.admin);
    for sent in ["webhooks_sent", "webhooks_failed", "mails_sent", "mails_failed"] {
        assert_eq!(scheme.admin.metric(&format!("upesi_alert_{sent}_total")), 0);
    }
    scheme.wait_until_delivered();
    scheme.end();
}

#[test]
fn alerts_are_given_up_at_the_horizon() {
    let mut receivers = Receivers::start(&json!({}));
    receivers.answer(500);
    let settings = Settings::new().with_receivers(&receivers).with("horizon_seconds = 1\n");
    let scheme = settings.scheme();
    scheme.admin.set_limit("payerfsp", "900");
    receivers.mails(1);
    scheme.admin.wait_for("upesi_alerts_given_up_total", |given_up| given_up == 1);
    wait_until_finished(&scheme.admin);
    scheme.switch.signal(Signal::TERM);
    let (status, complaints) = scheme.switch.end();
    assert!(status.success(), "{status}: {complaints}");
    assert!(complaints.contains("answered 500 Internal Server Error"), "{complaints}");
    let given_up = "given up alert=1 channel=\"webhook\" after_seconds=1";
    assert!(complaints.contains(given_up), "{complaints}");
}

#[test]
fn certificates_and_passwords_are_checked() {
    let settings = Settings::new();
    let directory = settings.directory.path();
    certify(directory, "ca", "server");
    certify(directory, "other-ca", "other");
    let options = json!({
        "key": settings.path("server.key"), "cert": settings.path("server.crt"),
        "user": USER, "password": PASSWORD,
    });
    let mut receivers = Receivers::start(&options);
    let password = settings.secret("password", &format!("{PASSWORD}\n"));
    let wrong = settings.secret("wrong", "another\n");
    let (right_ca, other_ca) = (settings.path("ca.pem"), settings.path("other-ca.pem"));
    let settings = settings
        .with_webhook(&format!("https://localhost:{}/alerts?from=upesi", receivers.webhook))
        .with_mail(&format!("localhost:{}", receivers.smtp));
    let scheme_with = |ca: &str, password: &str| {
        let login = format!("smtp_user = \"{USER}\"\nsmtp_password_file = \"{password}\"\n");
        Scheme::configured(&format!("{}ca = \"{ca}\"\n{login}", settings.text))
    };

    let scheme = scheme_with(&right_ca, &password);
    scheme.admin.set_limit("payerfsp", "900");
    assert_eq!(fact(&receivers.webhook()), "net debit cap changed: payerfsp 0 USD");
    let mail = &receivers.mails(1)[0];
    assert_eq!((&mail["secure"], &mail["user"]), (&json!(true), &json!(USER)));
    wait_until_finished(&scheme.admin);
    scheme.end();

    for (ca, password, channel, expected) in [
        (
            &other_ca,
            &password,
            "webhooks",
            "error=TLS: the certificate was not issued by a trusted",
        ),
        (&other_ca, &password, "mails", "invalid peer certificate"),
        (&right_ca, &wrong, "mails", "wrong password"),
    ] {
        let scheme = scheme_with(ca, password);
        scheme.admin.set_limit("payerfsp", "900");
        let failed = format!("upesi_alert_{channel}_failed_total");
        scheme.admin.wait_for(&failed, |failed| 0 < failed);
        scheme.switch.signal(Signal::TERM);
        let (status, complaints) = scheme.switch.end();
        assert!(status.success(), "{status}: {complaints}");
        assert!(complaints.contains(expected), "{complaints}");
        let is_secret = complaints.contains(PASSWORD) || complaints.contains("whsec_");
        assert!(!is_secret, "{complaints}");
    }
}

/// Creates a CA, and a key with a certificate for this machine.
fn certify(directory: &Path, ca: &str, name: &str) {
    fs::write(directory.join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    let line = format!(
        "cd '{}' && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={ca} -keyout \
         {ca}.key -out {ca}.pem && openssl req -newkey rsa:2048 -nodes -subj /CN={name} -keyout \
         {name}.key -out {name}.csr && openssl x509 -req -in {name}.csr -CA {ca}.pem -CAkey \
         {ca}.key -CAcreateserial -days 2 -extfile names -out {name}.crt",
        directory.display()
    );
    run("sh", &["-c", &line]);
}

#[test]
fn wrong_receivers_prevent_the_start() {
    let settings = Settings::new().with_webhook("ftp://receiver.example");
    let refused = Home::configured(&settings.text).serve_or_not().err().unwrap();
    assert!(refused.contains("alerts.webhook_url: \"ftp://receiver.example\""), "{refused}");
}

/// Nodes of a shared log: each alert is sent by the node that serves its participant, and by the
/// other one once that node has stopped.
#[cfg(feature = "real-brokers")]
#[test]
fn one_of_two_nodes_sends_each_alert() {
    use kafka_testkit::{Cluster, ClusterOptions};

    use crate::kafka::{cluster_of, owner, play};

    let directory = TempDir::new().unwrap();
    let options = ClusterOptions::new(1, directory.path());
    let cluster = Cluster::start(options, &mut |line| println!("{line}")).unwrap();
    let mut receivers = Receivers::start(&json!({}));
    let settings = Settings::new().with_receivers(&receivers);
    let log = format!("kafka://{}/scheme", cluster.bootstrap());
    let home =
        |node| Home::configured(&settings.text).with_arguments(&["--log", &log, "--node", node]);
    let scheme = Scheme::at(home("a"));
    let b_home = home("b");
    let b = b_home.serve();
    let b_admin = Admin::new(&b_home, &b);
    cluster_of(&scheme.admin, 2);
    let owners = ["payerfsp", "payeefsp", "otherfsp"].map(|name| owner(&b_admin, name, 2));
    assert!(owners.contains(&"a".to_owned()) && owners.contains(&"b".to_owned()), "{owners:?}");

    play(&scheme, [scheme.switch.fspiop, b.fspiop], "150");
    assert_eq!(fact(&receivers.webhook()), "alarm threshold reached: payerfsp 150 USD");
    for name in ["payeefsp", "otherfsp"] {
        b_admin.set_limit(name, "900");
        let changed = fact(&receivers.webhook());
        assert!(changed.starts_with(&format!("net debit cap changed: {name} ")), "{changed}");
    }
    receivers.mails(3);
    let sent = |admin: &Admin| admin.metric("upesi_alert_webhooks_sent_total");
    for admin in [&scheme.admin, &b_admin] {
        wait_until_finished(admin);
    }
    assert_eq!(sent(&scheme.admin) + sent(&b_admin), 3);
    receivers.received_nothing_more();

    b.stop(Signal::TERM);
    for name in ["payerfsp", "payeefsp", "otherfsp"] {
        scheme.admin.set_limit(name, "901");
        let changed = fact(&receivers.webhook());
        assert!(changed.starts_with(&format!("net debit cap changed: {name} ")), "{changed}");
    }
    receivers.mails(3);
    wait_until_finished(&scheme.admin);
    receivers.received_nothing_more();
    scheme.end();
    b_home.verify().succeeds();
}
