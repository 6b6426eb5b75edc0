//! Import of parties into a running switch: valid lines are served, invalid ones are reported with
//! line and column, and an interrupted import continues.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::message::Message;
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, PROGRAM, Printed, Switch, finish};

const HEADER: &str = "type,id,sub_id,fsp,currency";

/// A file with this text, next to the data directory.
fn file(home: &Home, name: &str, text: &str) -> PathBuf {
    let path = home.configuration().with_file_name(name);
    fs::write(&path, text).unwrap();
    path
}

fn command(home: &Home, switch: &Switch, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("party").args(arguments);
    command.arg("--admin").arg(format!("http://{}", switch.admin));
    command.arg("--token").arg(home.data().join("admin-token"));
    command
}

fn import(home: &Home, switch: &Switch, file: &Path, more: &[&str]) -> Output {
    let file = file.to_str().unwrap();
    finish(command(home, switch, &[&["import", file, "--json"], more].concat()))
}

/// The FSP of a party, as printed by the command.
fn served_by(home: &Home, switch: &Switch, arguments: &[&str]) -> Value {
    let output =
        finish(command(home, switch, &[&["find", "--json"], arguments].concat())).succeeds();
    output.json()
}

#[test]
fn valid_lines_are_imported_and_invalid_ones_reported() {
    let scheme = Scheme::start();
    let (home, switch) = (&scheme.home, &scheme.switch);
    let path = file(
        home,
        "parties.csv",
        &format!(
            "\u{feff}{HEADER}\r\n\
             MSISDN,254700000001,,payeefsp,\r\n\
             MSISDN,254700000002,,nobody,\n\
             ACCOUNT_ID,0012,SAVINGS,otherfsp,USD\n\
             PHONE,1,,payeefsp,\n\
             EMAIL,\"a,b\",,payeefsp,\n\
             MSISDN,254700000003,payeefsp\n\
             MSISDN,254700000004,,Hub,\n\
             MSISDN,254700000001,,otherfsp,USD\n\
             MSISDN,254700000005,,payeefsp,KES"
        ),
    );
    let checked = import(home, switch, &path, &["--dry-run"]);
    assert_eq!(checked.json()["registered"], json!(0));
    assert_eq!(served_by(home, switch, &["MSISDN", "254700000001"]), json!([]));

    let rejects = path.with_file_name("bad.csv");
    let more = ["--rejects", rejects.to_str().unwrap(), "--by", "A. Odhiambo", "--reason", "go"];
    let imported = import(home, switch, &path, &more);
    assert!(!imported.status.success(), "some lines were refused");
    let errors = imported.err();
    for (line, fault) in [
        (3, "column fsp: 'nobody' is not a participant of this switch"),
        (5, "column type: 'PHONE' is not one of MSISDN, EMAIL"),
        (6, "column id: 'a,b' as EMAIL must be an e-mail address"),
        (7, "3 columns, where type,id,sub_id,fsp,currency are 5"),
        (8, "\"fspId\" Hub is not a participant"),
    ] {
        assert!(errors.contains(&format!("parties.csv, line {line}: ")), "{line}: {errors}");
        assert!(errors.contains(fault), "{fault}: {errors}");
    }
    let output_text = imported.json();
    assert_eq!(
        (&output_text["lines"], &output_text["registered"], &output_text["refused"]),
        (&json!(9), &json!(4), &json!(5))
    );
    assert_eq!(output_text["next_line"], json!(11));
    let left = fs::read_to_string(&rejects).unwrap();
    let first: Vec<_> = left.lines().take(2).collect();
    assert_eq!(
        (left.lines().count(), &first[..]),
        (6, &[HEADER, "MSISDN,254700000002,,nobody,"][..])
    );
    let again = import(home, switch, &path, &[&["--from-line", "8"], &more[..2]].concat());
    assert_eq!(again.json()["refused"], json!(1), "{}", again.err());
    let left = fs::read_to_string(&rejects).unwrap();
    assert_eq!(left.lines().count(), 7, "what goes on adds to the rejects: {left}");

    let twice = served_by(home, switch, &["MSISDN", "254700000001"]);
    assert_eq!(twice[0]["fspId"], "otherfsp", "the last line of a party holds");
    let part = served_by(home, switch, &["ACCOUNT_ID", "0012", "--sub-id", "SAVINGS"]);
    assert_eq!((&part[0]["fspId"], &part[0]["currency"]), (&json!("otherfsp"), &json!("USD")));
    assert_eq!(served_by(home, switch, &["ACCOUNT_ID", "0012"]), json!([]));

    // A look-up is forwarded to the FSP of the file. No message was sent to it before.
    let asked = Message::new("GET", "/parties/MSISDN/254700000001", "payerfsp");
    scheme.send(&asked, 202);
    assert_eq!(scheme.other.take(1)[0].path, "/parties/MSISDN/254700000001");
    scheme.wait_until_delivered();
    scheme.end();
}

#[test]
fn unusable_import_file_is_reported_at_once() {
    let home = Home::new();
    let switch = home.serve();
    Admin::new(&home, &switch).prepare_hub();
    let good = file(&home, "good.csv", &format!("{HEADER}\nMSISDN,1,,x,\nMSISDN,2,,x,\n"));
    let wrong = file(&home, "wrong.csv", "id,type,fsp\n1,MSISDN,x\n");
    let none = good.with_file_name("none.csv");
    let link = good.with_file_name("link.csv");
    fs::hard_link(&good, &link).unwrap();
    let whole = fs::read(&good).unwrap();
    for (path, more, output_text) in [
        (&wrong, &[][..], "line 1: the first line must be type,id,sub_id,fsp,currency"),
        (&none, &[], "cannot read"),
        (&good, &["--errors-max", "1"], "more than 1 invalid lines (--errors-max)"),
        (&good, &["--from-line", "9"], "has only 3 lines; --from-line is 9"),
        (&good, &["--rejects", "/nowhere/bad.csv"], "cannot write /nowhere/bad.csv"),
        (&good, &["--rejects", good.to_str().unwrap()], "is the imported file"),
        (&good, &["--rejects", link.to_str().unwrap()], "is the imported file"),
    ] {
        let errors = import(&home, &switch, path, more).fails();
        assert!(errors.contains(output_text), "{more:?}: {errors}");
    }
    assert_eq!(fs::read(&good).unwrap(), whole, "what is imported is never written");
    let stranger = finish(command(&home, &switch, &["find", "PHONE", "1"]));
    assert!(stranger.err().contains("possible values: MSISDN"), "{}", stranger.err());
    let unserved = finish(command(&home, &switch, &["find", "MSISDN", "1"]));
    assert!(unserved.err().contains("MSISDN 1: no FSP serves"), "{}", unserved.err());
    switch.stop(Signal::TERM);
}

/// With too many invalid lines the import stops after the last one of the limit. Following its
/// advice completes the import and reports each invalid line once.
#[test]
fn import_stops_after_too_many_invalid_lines() {
    let home = Home::new();
    let switch = home.serve();
    let admin = Admin::new(&home, &switch);
    admin.prepare_hub();
    admin.onboard("dfsp1", "http://127.0.0.1:9", "1000", "1000");
    let mut text = format!("{HEADER}\n");
    for number in 0..25 {
        let fsp = if number % 5 == 0 { "dfsp1" } else { "nobody" };
        writeln!(text, "MSISDN,{},,{fsp},", 100_000_000 + number).unwrap();
    }
    let path = file(&home, "bad.csv", &text);
    let rejects = path.with_file_name("rejects.csv");
    let mut line = "2".to_owned();
    for (next, registered) in [(11, 2), (20, 2), (27, 1)] {
        let more =
            ["--errors-max", "6", "--rejects", rejects.to_str().unwrap(), "--from-line", &line];
        let imported = import(&home, &switch, &path, &more);
        let output_text = imported.json();
        assert_eq!(
            (&output_text["next_line"], &output_text["registered"]),
            (&json!(next), &json!(registered)),
            "{}",
            imported.err()
        );
        line = next.to_string();
    }
    let left = fs::read_to_string(&rejects).unwrap();
    let bad: Vec<_> = text.lines().filter(|line| line.contains("nobody")).collect();
    assert_eq!(left.lines().skip(1).collect::<Vec<_>>(), bad);
    switch.stop(Signal::TERM);
}

/// A file with this number of parties, all of `dfsp1`, which the switch knows.
fn many(home: &Home, admin: &Admin, lines: usize) -> PathBuf {
    admin.prepare_hub();
    admin.onboard("dfsp1", "http://127.0.0.1:9", "1000", "1000");
    let mut text = format!("{HEADER}\n");
    for number in 0..lines {
        writeln!(text, "MSISDN,{},,dfsp1,", 100_000_000 + number).unwrap();
    }
    file(home, "many.csv", &text)
}

/// Asserts that the parties of the first and the last line, and of the lines before and at
/// `next_line` if they exist, are served.
fn check_many(home: &Home, switch: &Switch, (next_line, lines): (u64, usize)) {
    let last = lines as u64 - 1;
    for number in [0, next_line - 3, (next_line - 2).min(last), last] {
        let id = (100_000_000 + number).to_string();
        let found = served_by(home, switch, &["MSISDN", &id]);
        assert_eq!(found[0]["fspId"], "dfsp1", "line {}", number + 2);
    }
}

#[test]
fn import_continues_after_a_full_disk() {
    const LINES: usize = 20_000;
    let home = Home::new();
    let switch = home.serve();
    let path = many(&home, &Admin::new(&home, &switch), LINES);
    switch.stop(Signal::TERM);
    let switch = home.serve_within(1_024);
    let full = import(&home, &switch, &path, &["--wait", "0"]);
    let next_line = full.json()["next_line"].as_u64().unwrap();
    assert!((1_000..20_000).contains(&next_line), "{}", full.err());
    let from = format!("continue with --from-line {next_line}");
    for output_text in ["the switch answered 503", "disk", &from] {
        assert!(full.err().contains(output_text), "{output_text}: {}", full.err());
    }
    // Acknowledged parties are served, before and after a kill.
    check_many(&home, &switch, (next_line, next_line as usize - 2));
    drop(switch);
    let switch = home.serve();
    check_many(&home, &switch, (next_line, next_line as usize - 2));
    import(&home, &switch, &path, &["--from-line", &next_line.to_string()]).succeeds();
    check_many(&home, &switch, (next_line, LINES));
    switch.stop(Signal::TERM);
    assert!(home.verify().status.success());
}

/// The command retries until the switch is running.
#[test]
fn import_waits_for_the_first_response() {
    let home = Home::new();
    let switch = home.serve();
    let path = many(&home, &Admin::new(&home, &switch), 10);
    let mut import = command(&home, &switch, &["import", path.to_str().unwrap(), "--json"]);
    let (ports, place) = (switch.ports(), switch.admin);
    switch.stop(Signal::TERM);
    let listener = TcpListener::bind(place).unwrap();
    let import = import.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It has sent one request, which is not answered.
    drop(listener.accept().unwrap());
    drop(listener);
    let switch = home.serve_on(ports);
    let imported = import.wait_with_output().unwrap().succeeds();
    assert_eq!(imported.json()["registered"], json!(10));
    switch.stop(Signal::TERM);
}

#[test]
fn import_continues_after_the_switch_was_killed() {
    const LINES: usize = 60_000;
    let home = Home::new();
    let switch = home.serve();
    let admin = Admin::new(&home, &switch);
    let path = many(&home, &admin, LINES);
    let before = admin.metric("upesi_log_index");
    let name = path.to_str().unwrap();
    let mut first = command(&home, &switch, &["import", name, "--json", "--wait", "0"]);
    let first = first.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    admin.wait_for("upesi_log_index", |log_index| before + 3 <= log_index);
    let ports = switch.ports();
    switch.kill();
    let first = first.wait_with_output().unwrap();
    let next_line = first.json()["next_line"].as_u64().unwrap();
    assert!((2_000..60_000).contains(&next_line), "{}", first.err());
    let from = format!("--from-line {next_line}");
    assert!(!first.status.success() && first.err().contains(&from), "{}", first.err());

    let switch = home.serve_on(ports);
    let rest = import(&home, &switch, &path, &["--from-line", &next_line.to_string()]).succeeds();
    let lines = LINES as u64 + 2 - next_line;
    assert_eq!(rest.json()["registered"], json!(lines));
    check_many(&home, &switch, (next_line, LINES));
    switch.stop(Signal::TERM);
    assert!(home.verify().status.success());
}

/// With `latest-wins`, an FSP takes the identifier of another one. The audit trail names it.
#[test]
fn change_of_owner_by_an_fsp_is_audited() {
    let scheme = Scheme::configured("[parties]\nownership = \"latest-wins\"\n");
    let path = "/participants/MSISDN/254700000001";
    for fsp in [&scheme.payer, &scheme.other] {
        let body = format!("{{\"fspId\":\"{}\",\"currency\":\"USD\"}}", fsp.name);
        scheme.send(&Message::new("POST", path, &fsp.name).body(body), 202);
        fsp.wait("PUT", path);
    }
    scheme.payer.wait("PUT", path);
    let trail = scheme.admin.json("/audit?limit=1000");
    let of_fsps = trail["entries"].as_array().unwrap().iter();
    let of_fsps = of_fsps.filter(|entry| entry["actor"].as_str().unwrap().starts_with("fsp:"));
    let shown: Vec<_> = of_fsps
        .map(|entry| ["actor", "outcome", "change", "description"].map(|name| &entry[name]))
        .collect();
    let party = "party MSISDN 254700000001 of otherfsp";
    assert_eq!(shown, [["fsp:otherfsp", "recorded", "AssignParties", party]]);
    scheme.end();
}
