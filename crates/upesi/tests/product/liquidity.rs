//! `upesi liquidity` against a running switch, and alarms across a restart.

use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{PROGRAM, Printed, Switch, finish};

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
    let expected = ["payerfsp", "USD", "150.5", "0", "2000", "1000", "849.5", "15.05", "%"];
    assert_eq!(rows.len(), 4, "{table}");
    assert_eq!(rows[1][..9], expected, "{table}");
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
