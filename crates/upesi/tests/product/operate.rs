//! The commands of operators against a running switch.

use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::http::PATIENCE;
use testkit::server::Reply;

use crate::support::message::{Transfer, uuid};
use crate::support::scheme::Scheme;
use crate::support::switch::{PROGRAM, Printed, finish};

/// Time between two looks.
const GLANCE: Duration = Duration::from_millis(100);

/// Runs a command against the switch of a scheme, with its token.
fn run(scheme: &Scheme, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).args(["--admin", &format!("http://{}", scheme.switch.admin)]);
    command.arg("--token").arg(scheme.home.data().join("admin-token"));
    finish(command)
}

fn answer(scheme: &Scheme, arguments: &[&str]) -> Value {
    run(scheme, &[arguments, &["--json"]].concat()).succeeds().json()
}

#[test]
fn status_shows_health_rates_and_positions() {
    let scheme = Scheme::start();
    scheme.pay("150.5");
    let deadline = Instant::now() + PATIENCE;
    // The rates and the positions are those of the last second.
    let status = loop {
        let status = answer(&scheme, &["status"]);
        if status["rate"]["committed"].as_f64() != Some(0.0)
            && status["nearCap"][0]["participant"] == "payerfsp"
        {
            break status;
        }
        assert!(Instant::now() < deadline, "{status}");
        std::thread::sleep(GLANCE);
    };
    assert_eq!(status["status"], "OK");
    assert_eq!(status["transfers"]["committed"], 1);
    assert!(0.0 < status["rate"]["commitP50Milliseconds"].as_f64().unwrap(), "{status}");
    let near = &status["nearCap"][0];
    assert_eq!(
        (&near["headroom"].to_string(), &near["limitedBy"]),
        (&"849.5".into(), &"cap".into())
    );
    let screen = run(&scheme, &["status"]).succeeds().out();
    assert!(screen.starts_with("upesi ") && screen.contains(": OK, up "), "{screen}");
    assert!(screen.contains("sequencer ok") && screen.contains("849.5"), "{screen}");
    assert!(!screen.contains('\x1b'), "colours are for terminals");
    let refused = run(&scheme, &["top"]).fails();
    assert!(refused.contains("not a terminal"), "{refused}");
    scheme.end();
}

const KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEqw7TMAN6pcA5jhFhUK9O/eEOeUod\n\
    voJIiIn0GUsAQhOijyMVJb0NahMGw72rZrBIhjU8h4gGfjw+TH7IflGM5w==\n\
    -----END PUBLIC KEY-----\n";

#[test]
fn one_line_adds_a_participant_and_again_changes_nothing() {
    let scheme = Scheme::start();
    let key = scheme.home.configuration().with_file_name("greenbank.pem");
    fs::write(&key, KEY).unwrap();
    let line = ["participant", "add", "greenbank", "--currency", "KES", "--cap", "1000.5"];
    let callbacks = ["--callbacks", "http://127.0.0.1:4999", "--funds-in", "500"];
    let line = [&line[..], &callbacks, &["--public-key", key.to_str().unwrap()]].concat();
    let done = |line: &[&str]| {
        let rows = answer(&scheme, line);
        let rows = rows.as_array().unwrap().clone();
        let changed = rows.iter().filter(|row| row["done"] != "equal");
        changed.map(|row| format!("{}: {}", row["done"], row["wanted"])).collect::<Vec<_>>()
    };
    let content = || scheme.admin.quiet_state()["contentHash"].clone();
    let before = content();
    let planned = done(&[&line[..], &["--dry-run"]].concat());
    assert_eq!(content(), before);
    let created = done(&line);
    assert_eq!(planned.len(), created.len(), "{created:?}");
    assert!(created.iter().all(|row| row.starts_with("\"created\"")), "{created:?}");
    let after = content();
    assert_eq!(done(&line), [""; 0]);
    assert_eq!(content(), after);

    let shown = answer(&scheme, &["participant", "show", "greenbank"]);
    assert_eq!(shown["limits"][0]["limit"]["value"].to_string(), "1000.5");
    let endpoints = shown["endpoints"].as_array().unwrap();
    assert!(18 <= endpoints.len(), "{shown}");
    assert_eq!(shown["keys"].as_array().unwrap().len(), 1, "{shown}");
    let listed = run(&scheme, &["participant", "list"]).succeeds().out();
    let row = listed.lines().find(|line| line.contains("greenbank")).unwrap();
    let row: Vec<_> = row.split_whitespace().collect();
    assert_eq!(row, ["greenbank", "active", "KES", "0", "500", "1000.5", "500"], "{listed}");

    let raised =
        ["participant", "limits", "greenbank", "--cap", "2000", "--alarm-percentage", "80"];
    let limits = answer(&scheme, &raised);
    assert_eq!(
        limits[0]["limit"],
        json!({"type": "NET_DEBIT_CAP", "value": 2000,
        "alarmPercentage": 80})
    );
    let set = "FSPIOP_CALLBACK_URL_TRANSFER_POST=http://127.0.0.1:4998/in";
    let endpoints = answer(&scheme, &["participant", "endpoints", "greenbank", "--set", set]);
    let is_set = |it: &Value| it["value"] == "http://127.0.0.1:4998/in";
    assert!(endpoints.as_array().unwrap().iter().any(is_set), "{endpoints}");
    let tested = run(&scheme, &["participant", "endpoints", "greenbank", "--test"]);
    assert!(tested.fails().contains("no answer from 2 of 2"), "no server listens there");
    let calls = answer(&scheme, &["participant", "endpoints", "payerfsp", "--test"]);
    let calls = calls.as_array().unwrap();
    assert_eq!(calls.len(), 1, "all its endpoints are at one host");
    assert_eq!(calls[0]["address"], json!(scheme.payer.address().to_string()));
    for (command, text) in
        [("disable", "disabled"), ("disable", "disabled already"), ("enable", "active")]
    {
        let out = run(&scheme, &["participant", command, "greenbank"]).succeeds().out();
        assert_eq!(out.trim(), format!("greenbank is {text}"));
    }
    for (wrong, fault) in [
        ("--currency", "XXQ is not a currency"),
        ("--cap", "at most 18 digits"),
        ("--callbacks", "must be an address"),
    ] {
        let mut line = line.clone();
        let at = line.iter().position(|it| *it == wrong).unwrap();
        line[at + 1] = "XXQ";
        let refused = run(&scheme, &line).fails();
        assert!(refused.contains(wrong) && refused.contains(fault), "{refused}");
    }
    scheme.end();
}

#[test]
fn funds_move_once_and_withdrawals_end() {
    let scheme = Scheme::start();
    let cover =
        || scheme.admin.json("/liquidity?participant=payeefsp")[0]["liquidityCover"].to_string();
    let id = "01HV0000000000000000000009";
    for _ in 0..2 {
        run(&scheme, &["funds", "in", "payeefsp", "100.25", "--id", id]).succeeds();
    }
    assert_eq!(cover(), "2100.25");
    let reserved = answer(&scheme, &["funds", "out", "payeefsp", "12.5", "--currency", "USD"]);
    let out = reserved["transferId"].as_str().unwrap();
    assert_eq!(cover(), "2087.75");
    let table = run(&scheme, &["funds", "list"]).succeeds().out();
    let row: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
    let account = scheme.admin.account("payeefsp", "SETTLEMENT").id.to_string();
    assert_eq!(row[..5], [out, "payeefsp", &*account, "12.5", "USD"], "{table}");
    let none = answer(&scheme, &["funds", "list", "--participant", "payerfsp"]);
    assert_eq!(none, json!([]));
    run(&scheme, &["funds", "abort", out]).succeeds();
    assert_eq!(cover(), "2100.25");
    let ended = run(&scheme, &["funds", "commit", out]).fails();
    assert!(ended.contains("the withdrawal of payeefsp was aborted at 20"), "{ended}");
    let unknown = run(&scheme, &["funds", "commit", "01HV0000000000000000000010"]).fails();
    assert!(unknown.contains("it is not a reserved withdrawal"), "{unknown}");
    let paid = answer(&scheme, &["funds", "out", "payeefsp", "100.25"]);
    let paid = paid["transferId"].as_str().unwrap();
    run(&scheme, &["funds", "commit", paid]).succeeds();
    let again = run(&scheme, &["funds", "commit", paid]).succeeds().out();
    assert!(again.contains("of payeefsp: already committed at 20"), "{again}");
    assert_eq!(cover(), "2000");
    let refused = run(&scheme, &["funds", "out", "payeefsp", "1000000"]).fails();
    assert!(refused.contains("was refused"), "{refused}");
    scheme.end();
}

/// Ids of the listed transfers.
fn listed(scheme: &Scheme, filters: &[&str]) -> Vec<String> {
    let list = answer(scheme, &[&["transfer", "list"], filters].concat());
    let rows = list["transfers"].as_array().unwrap().clone();
    rows.iter().map(|row| row["transferId"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn payments_are_found_by_participant_state_time_and_amount() {
    let scheme = Scheme::start();
    // Without a response, the last one stays reserved.
    let paid = scheme.pay("1.5");
    let refused = Transfer::of("5000");
    scheme.send(&refused.prepare(), 202);
    let aborted = Transfer::of("2");
    scheme.send(&aborted.prepare(), 202);
    scheme.send(&aborted.error("5104", "no"), 200);
    let open = Transfer::of("3");
    scheme.send(&open.prepare(), 202);
    let ids = [&open, &aborted, &refused, &paid].map(|transfer| transfer.id.clone());
    let [open, aborted, refused, paid] = &ids;
    let all = |of: &[&String]| of.iter().map(|id| (*id).clone()).collect::<Vec<_>>();
    assert_eq!(listed(&scheme, &[]), all(&[open, aborted, refused, paid]));
    for (filters, expected) in [
        (&["--state", "reserved"][..], &[open][..]),
        (&["--state", "committed"], &[paid]),
        (&["--state", "aborted", "--participant", "payeefsp"], &[aborted, refused]),
        (&["--cause", "refused"], &[refused]),
        (&["--cause", "expired"], &[]),
        (&["--participant", "otherfsp"], &[]),
        (&["--amount-min", "2", "--amount-max", "3.00"], &[open, aborted]),
        (&["--currency", "USD", "--limit", "1"], &[open]),
        (&["--currency", "KES"], &[]),
        (&["--to", "2001-01-01T00:00:00Z"], &[]),
        (&["--from", "2001-01-01T00:00:00Z", "--limit", "3"], &[open, aborted, refused]),
    ] {
        assert_eq!(listed(&scheme, filters), all(expected), "{filters:?}");
    }
    let first = answer(&scheme, &["transfer", "list", "--limit", "2"]);
    let cursor = first["next"].as_str().unwrap();
    assert_eq!(listed(&scheme, &["--cursor", cursor]), all(&[refused, paid]));
    let row = &answer(&scheme, &["transfer", "list", "--cause", "refused"])["transfers"][0];
    assert_eq!((&row["errorCode"], &row["payer"]), (&json!(4001), &json!("payerfsp")), "{row}");
    // The payer got the payee's code, not one of the hub.
    let row = &answer(&scheme, &["transfer", "list", "--cause", "aborted"])["transfers"][0];
    assert_eq!((&row["errorCode"], &row["reason"]), (&Value::Null, &json!("aborted by the payee")));
    let shown = run(&scheme, &["transfer", "show", aborted]).succeeds().out();
    let line = shown.lines().find(|line| line.starts_with("why it failed: aborted by the payee"));
    assert!(line.is_some_and(|line| line.contains("5104 \"no\"")), "{shown}");
    let table = run(&scheme, &["transfer", "list"]).succeeds().out();
    assert!(table.contains("would exceed its liquidity cover"), "{table}");
    let shown = run(&scheme, &["transfer", "show", refused]).succeeds().out();
    assert!(shown.contains("liquidity cover"), "{shown}");
    for (filters, fault) in [
        (["--participant", "stranger"], "participant not found"),
        (["--amount-min", "-1"], "unexpected argument"),
        (["--amount-min", "many"], "must be a decimal number"),
        (["--from", "yesterday"], "must be a date and time"),
        (["--cursor", "1.2.3"], "must be `next` of a page"),
    ] {
        let refused = run(&scheme, &[&["transfer", "list"], &filters[..]].concat()).fails();
        assert!(refused.contains(fault), "{filters:?}: {refused}");
    }
    scheme.end();
}

#[test]
fn owed_callbacks_show_why_they_wait() {
    let scheme = Scheme::start();
    scheme.payer.answer(|callback| match &*callback.method {
        "PUT" => Reply::Status(503),
        _ => Reply::Accept,
    });
    scheme.pay("1");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let owed = answer(&scheme, &["callback", "owed", "--participant", "payerfsp"]);
        let reason = owed["notices"][0]["reason"].as_str().unwrap_or_default();
        if reason.contains("the last one: status 503; waits for the end of a pause") {
            break;
        }
        assert!(Instant::now() < deadline, "{owed}");
        std::thread::sleep(GLANCE);
    }
    scheme.payer.answer(|_| Reply::Accept);
    scheme.wait_until_delivered();
    scheme.end();
}

#[test]
fn the_environment_may_have_the_token() {
    let scheme = Scheme::start();
    let token = fs::read_to_string(scheme.home.data().join("admin-token")).unwrap();
    let admin = format!("http://{}", scheme.switch.admin);
    let list = |token: &str| {
        let mut command = Command::new(PROGRAM);
        command.args(["transfer", "list", "--admin", &admin]);
        command.env("UPESI_TOKEN", token);
        finish(command)
    };
    list(&token).succeeds();
    let refused = list("two words").fails();
    assert!(refused.contains("UPESI_TOKEN: not a bearer token"), "{refused}");
    scheme.end();
    let down = list(&token).fails();
    assert!(down.contains("start the switch, or name its address with --admin"), "{down}");
}

#[test]
fn given_up_callbacks_are_dropped_with_a_reason() {
    let scheme = Scheme::start();
    scheme.payer.answer(|callback| match &*callback.method {
        "PUT" => Reply::Status(400),
        _ => Reply::Accept,
    });
    let transfers = [(); 3].map(|()| scheme.pay("1"));
    scheme.admin.wait_for("upesi_dead_letters", |count| count == 3);
    let letters = answer(&scheme, &["callback", "list"]);
    let id = letters[0]["id"].to_string();
    let refused = run(&scheme, &["callback", "drop", &id]).fails();
    assert!(refused.contains("name the reason with --reason"), "{refused}");
    let because = ["--reason", "confirmed by phone"];
    run(&scheme, &[&["callback", "drop", &id], &because[..]].concat()).succeeds();
    let again = run(&scheme, &[&["callback", "drop", &id], &because[..]].concat()).fails();
    assert!(again.contains("dead letter not found"), "{again}");
    let rest = ["callback", "drop", "--participant", "payerfsp", "--code", "400"];
    assert_eq!(answer(&scheme, &[&rest[..], &["--dry-run"]].concat())["count"], 2);
    assert_eq!(answer(&scheme, &[&rest[..], &because[..]].concat())["count"], 2);
    assert_eq!(answer(&scheme, &["callback", "list"]), json!([]));
    for transfer in &transfers {
        assert_eq!(answer(&scheme, &["explain", &transfer.id])["state"], "COMMITTED");
    }
    let trail = scheme.admin.json("/audit?outcome=recorded&limit=1000");
    let entries = trail["entries"].as_array().unwrap();
    let dropped = entries.iter().filter(|entry| entry["reason"] == because[1]);
    assert!(3 <= dropped.count(), "{trail}");
    scheme.end();
}

#[test]
fn given_up_callbacks_are_counted_shown_and_resent() {
    let scheme = Scheme::start();
    scheme.payer.answer(|callback| match &*callback.method {
        "PUT" => Reply::Status(400),
        _ => Reply::Accept,
    });
    let transfer = scheme.pay("1");
    scheme.admin.wait_for("upesi_dead_letters", |count| count == 1);
    scheme.payer.take(1);
    let groups = answer(&scheme, &["callback", "list", "--group"]);
    assert_eq!((&groups[0]["recipient"], &groups[0]["count"]), (&"payerfsp".into(), &1.into()));
    let filters = ["--participant", "payerfsp", "--code", "400"];
    let listed = answer(&scheme, &[&["callback", "list"], &filters[..]].concat());
    let id = listed[0]["id"].to_string();
    let shown = run(&scheme, &["callback", "show", &id]).succeeds().out();
    assert!(shown.contains(&format!("upesi explain {}", transfer.id)), "{shown}");
    let none = answer(&scheme, &["callback", "list", "--code", "500"]);
    assert_eq!(none, json!([]));
    // The record that gave it up is synced later, and read then.
    let expected = format!("dead letters: {id}; `upesi callback resend");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let explained = run(&scheme, &["explain", &transfer.id]).succeeds().out();
        if explained.contains(&expected) {
            break;
        }
        assert!(Instant::now() < deadline, "{explained}");
    }
    let explained = answer(&scheme, &["explain", &transfer.id]);
    assert_eq!(explained["state"], "COMMITTED");
    let unknown = run(&scheme, &["explain", &uuid()]).fails();
    assert!(unknown.contains("not found"), "{unknown}");

    scheme.payer.answer(|_| Reply::Accept);
    let refused = run(&scheme, &["callback", "resend"]).fails();
    assert!(refused.contains("name callbacks by their ids"), "{refused}");
    let resend = [&["callback", "resend"], &filters[..]].concat();
    assert_eq!(answer(&scheme, &[&resend[..], &["--dry-run"]].concat())["count"], 1);
    assert_eq!(answer(&scheme, &resend)["count"], 1);
    scheme.payer.take(1);
    scheme.wait_until_delivered();
    let gone = run(&scheme, &["callback", "resend", &id]).fails();
    assert!(gone.contains("dead letter not found"), "{gone}");
    scheme.end();
}

#[test]
fn oracles_are_added_once_and_removed() {
    let scheme = Scheme::start();
    let add = ["oracle", "add", "MSISDN", "http://127.0.0.1:4990", "--currency", "USD"];
    for _ in 0..2 {
        let oracles = answer(&scheme, &add);
        assert_eq!(oracles.as_array().unwrap().len(), 1, "{oracles}");
    }
    let id = answer(&scheme, &["oracle", "list"])[0]["oracleId"].to_string();
    assert_eq!(answer(&scheme, &["oracle", "remove", &id]), json!([]));
    let again = run(&scheme, &["oracle", "remove", &id]).fails();
    assert!(again.contains("there is no oracle"), "{again}");
    scheme.end();
}

#[test]
fn a_drill_proves_a_copy_and_measures_the_recovery() {
    let scheme = Scheme::start();
    scheme.pay("150.5");
    scheme.wait_until_delivered();
    scheme.admin.quiet_state();
    let (data, copy) = (scheme.home.data(), scheme.home.data().with_file_name("copy"));
    let scratch = scheme.home.data().with_file_name("scratch");
    fs::create_dir(&scratch).unwrap();
    fs::create_dir(&copy).unwrap();
    let mut backup = Command::new(PROGRAM);
    backup.arg("backup").arg("--data").arg(data).arg("--to").arg(&copy);
    finish(backup).succeeds();
    let [copy, scratch] = [&copy, &scratch].map(|path| path.to_str().unwrap());
    let drill = ["drill", "--from", copy, "--scratch", scratch];
    let report = answer(&scheme, &drill);
    assert_eq!(report["ok"], true, "{report}");
    assert_eq!(report["records_missing"], 0, "{report}");
    assert_eq!(report["recovery_point_seconds"], 0.0, "{report}");
    assert!(0.0 < report["recovery_time_seconds"].as_f64().unwrap(), "{report}");
    assert_eq!(report["state_hash"], scheme.admin.json("/state")["stateHash"]);
    assert_eq!(fs::read_dir(scratch).unwrap().count(), 0, "it is removed");

    scheme.pay("1");
    scheme.wait_until_delivered();
    let late = run(&scheme, &[&drill[..], &["--recovery-point", "0"]].concat());
    assert_eq!(late.status.code(), Some(2), "{}", late.err());
    let bound = late.err().lines().last().unwrap_or_default().to_owned();
    assert!(bound.contains("the recovery point of") && !bound.contains("time"), "{bound}");
    let missing = run(&scheme, &["drill", "--from", "/nowhere", "--scratch", scratch]);
    assert_eq!(missing.status.code(), Some(1), "{}", missing.err());
    assert_eq!(fs::read_dir(scratch).unwrap().count(), 0, "it is removed");
    scheme.end();
}

#[test]
fn the_doctor_names_each_problem_with_its_remedy() {
    let scheme = Scheme::start();
    let data = scheme.home.data();
    let data = data.to_str().unwrap();
    let output = run(&scheme, &["doctor", "--data", data, "--json"]);
    let findings = output.json();
    let gravity = |check: &str| {
        let mut all = findings.as_array().unwrap().iter();
        let found = all.find(|it| it["check"] == check).unwrap_or_else(|| panic!("no {check}"));
        found["gravity"].as_str().unwrap().to_owned()
    };
    assert_eq!(gravity("version"), "OK", "{findings}");
    let all =
        ["configuration", "ports", "limits", "disk", "room", "sync", "memory", "clock", "alarms"];
    for check in all {
        assert!(["OK", "WARNING", "PROBLEM"].contains(&&*gravity(check)), "{check}");
    }
    let config = scheme.home.configuration().with_file_name("wrong.toml");
    fs::write(&config, "[fspiop]\nlisten = 7\n").unwrap();
    let wrong = run(&scheme, &["doctor", "--data", data, "--config", config.to_str().unwrap()]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(wrong.out().contains("PROBLEM  configuration"), "{}", wrong.out());
    scheme.end();
}

#[test]
fn a_shell_completes_the_names_of_participants() {
    let scheme = Scheme::start();
    let script = run_alone(&["completions", "bash"]).out();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("upesi.bash");
    fs::write(&file, script).unwrap();
    let complete = |line: &str| {
        let source = format!(
            "source {}; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=($COMP_LINE); \
             [[ $COMP_LINE == *' ' ]] && COMP_WORDS+=(''); \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _upesi_names upesi \"${{COMP_WORDS[COMP_CWORD]}}\" \
             \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; echo \"${{COMPREPLY[*]}}\"",
            file.display()
        );
        let mut bash = Command::new("bash");
        let programs = std::path::Path::new(PROGRAM).parent().unwrap().display().to_string();
        bash.args(["-c", &source]).env("XDG_CACHE_HOME", directory.path());
        bash.env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()));
        finish(bash).succeeds().out().trim().to_owned()
    };
    let token = scheme.home.data().join("admin-token");
    let at = format!("--token {} --admin http://{}", token.display(), scheme.switch.admin);
    let show = format!("upesi participant show {at} ");
    assert_eq!(complete(&show), "Hub payerfsp payeefsp otherfsp");
    assert_eq!(complete(&format!("{show}pa")), "payerfsp payeefsp");
    assert!(complete("upesi participant sho").contains("show"));
    // The stored names help while the switch is down.
    scheme.end();
    assert_eq!(complete(&format!("{show}o")), "otherfsp");
}

/// Runs a command that needs no switch.
fn run_alone(arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments);
    finish(command).succeeds()
}
