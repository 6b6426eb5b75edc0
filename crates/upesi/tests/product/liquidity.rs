//! `upesi liquidity` against a running switch, and alarms across a restart.

use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::message::uuid;
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{PROGRAM, Printed, Switch, finish};

/// Time between two looks.
const GLANCE: Duration = Duration::from_millis(100);

fn liquidity(switch: &Switch, more: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["liquidity", "--admin", &format!("http://{}", switch.admin)]).args(more);
    finish(command)
}

#[test]
fn command_shows_positions_and_raised_alarms() {
    let mut scheme = Scheme::start();
    scheme.pay("150.5");
    scheme.admin.wait_for("upesi_liquidity_alarms", |raised| raised == 1);
    let table = liquidity(&scheme.switch, &[]).succeeds().out();
    let rows: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    let expected = ["payerfsp", "USD", "150.5", "0", "2000", "1000", "849.5", "cap", "15.05", "%"];
    assert_eq!(rows.len(), 4, "{table}");
    assert_eq!(rows[1][..10], expected, "{table}");
    assert!(table.contains("[###.................]"), "{table}");

    let listed = liquidity(&scheme.switch, &["--participant", "payerfsp", "--json"]).succeeds();
    let row: Value = listed.json()[0].clone();
    let since = row["alarmSince"].as_str().unwrap();
    assert!(rows[1].contains(&since), "{table}");
    let payee = liquidity(&scheme.switch, &["--participant", "payeefsp", "--json"]).succeeds();
    assert_eq!(payee.json()[0]["position"].to_string(), "-150.5");
    assert_eq!(payee.json()[0]["alarmSince"], Value::Null);
    let other = liquidity(&scheme.switch, &["--currency", "KES"]).succeeds().out();
    assert_eq!(other, "no participant has a net debit cap\n");
    let unknown = liquidity(&scheme.switch, &["--participant", "a&limit=1"]).fails();
    assert!(unknown.contains("participant not found"), "{unknown}");
    assert!(liquidity(&scheme.switch, &["--limit", "0"]).fails().contains("--limit"));

    scheme.wait_until_delivered();
    scheme.admin.wait_for("upesi_alerts_owed", |owed| owed == 0);
    scheme.switch.stop(Signal::TERM);
    scheme.switch = scheme.home.serve();
    scheme.admin = Admin::new(&scheme.home, &scheme.switch);
    assert_eq!(scheme.admin.json("/liquidity?participant=payerfsp")[0]["alarmSince"], since);
    scheme.end();
}

/// The trend of two samples, which a node takes a minute apart. An adjustment between them is no
/// trend.
#[test]
fn a_trend_of_transfers_leads_to_a_forecast() {
    let mut scheme = Scheme::start();
    // The first sample after a start has all participants.
    scheme.switch.stop(Signal::TERM);
    scheme.switch = scheme.home.serve();
    scheme.admin = Admin::new(&scheme.home, &scheme.switch);
    let deadline = Instant::now() + Duration::from_secs(120);
    while !scheme.admin.get("/metrics").contains("participant=\"payerfsp\"") {
        assert!(Instant::now() < deadline, "the watcher has looked at no position");
        thread::sleep(GLANCE);
    }
    let admin = &scheme.admin;
    let row = || admin.json("/liquidity?participant=payerfsp")[0].clone();
    scheme.pay("30.5");
    let account = admin.account("payerfsp", "POSITION").id;
    let path = format!("/participants/payerfsp/accounts/{account}/adjustments");
    let body = json!({"transferId": uuid(), "amount": {"amount": "400", "currency": "USD"},
        "reason": "test"});
    admin.must("POST", &path, &body.to_string(), 202);
    assert_eq!(admin.position("payerfsp"), "430.5");
    assert_eq!(row()["capReachedAt"], Value::Null);
    while row()["trendPerHour"] == Value::Null {
        assert!(Instant::now() < deadline, "{}", row());
        thread::sleep(GLANCE);
    }
    let found = row();
    // 30.5 in a minute and a little.
    let per_hour = found["trendPerHour"].as_f64().unwrap();
    assert!((1_500.0..=1_830.0).contains(&per_hour), "{found}");
    assert!(found["capReachedAt"].is_string(), "{found}");
    let table = liquidity(&scheme.switch, &["--participant", "payerfsp"]).succeeds().out();
    assert!(table.contains("Z, in ") && table.contains(" min"), "{table}");
    scheme.end();
}
