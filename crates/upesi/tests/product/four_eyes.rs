//! Four eyes with the real program: commands, approvals at the same time, a kill, and expiry.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use testkit::http::{Client, Headers, PATIENCE, Request, Response};

use crate::operators::{Office, read};
use crate::support::message::uuid;
use crate::support::scheme::Admin;
use crate::support::switch::Printed;

/// Two operators, and a participant with 1000 USD on deposit.
struct Treasury {
    office: Office,
    amina: PathBuf,
    benta: PathBuf,
}

impl Treasury {
    fn start(more: &str) -> Self {
        let office = Office::configured(more);
        let [amina, benta] = ["amina", "benta"].map(|name| office.add(name, "admin"));
        let admin = Admin::new(&office.home, &office.switch);
        admin.prepare_hub();
        admin.onboard("payerfsp", "http://127.0.0.1:9", "1000", "1000");
        let listed = office.run(&amina, "four-eyes set funds roles").succeeds().out();
        assert!(listed.contains("funds, roles"), "{listed}");
        Self { office, amina, benta }
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

    /// Amina proposes to move 500 USD. Returns the transfer and the proposal.
    fn propose(&self, action: &str) -> (String, u64) {
        let admin = Admin::new(&self.office.home, &self.office.switch);
        let account = admin.account("payerfsp", "SETTLEMENT").id;
        let transfer = uuid();
        let body = format!(
            "{{\"transferId\":\"{transfer}\",\"externalReference\":\"advice\",\"action\":\
             \"{action}\",\"reason\":\"r\",\"amount\":{{\"amount\":500,\"currency\":\"USD\"}}}}"
        );
        let path = format!("/participants/payerfsp/accounts/{account}");
        let answer = self.call(&self.amina, "POST", &path, &body);
        assert_eq!(answer.status, 202, "{}", answer.text());
        let proposal: Value = serde_json::from_str(&answer.text()).unwrap();
        (transfer, proposal["proposalId"].as_u64().unwrap())
    }

    fn cover(&self) -> String {
        let accounts = self.call(&self.amina, "GET", "/participants/payerfsp/accounts", "").text();
        let accounts: Value = serde_json::from_str(&accounts).unwrap();
        let mut all = accounts.as_array().unwrap().iter();
        let settlement = all.find(|it| it["ledgerAccountType"] == "SETTLEMENT").unwrap();
        settlement["value"].to_string()
    }

    fn restart(self, signal: Signal) -> Self {
        Self { office: self.office.restart(signal), ..self }
    }
}

#[test]
fn a_killed_switch_keeps_a_proposal_and_two_approvals_move_funds_once() {
    let treasury = Treasury::start("");
    let chen = treasury.office.run(&treasury.amina, "operator add chen --role admin");
    assert_eq!(chen.status.code(), Some(3), "{chen:?}");
    assert!(chen.err().contains("proposed as 1, not done yet"), "{chen:?}");
    let (transfer, id) = treasury.propose("recordFundsIn");
    assert_eq!(treasury.cover(), "-1000");
    let approve = format!("proposal approve {id} --reason checked");
    let own = treasury.office.run(&treasury.amina, &approve).fails();
    assert!(own.contains("the operator who proposed the change cannot approve it"), "{own}");
    let treasury = treasury.restart(Signal::KILL);
    let listed = treasury.office.run(&treasury.benta, "proposal list").succeeds().out();
    assert!(listed.contains("funds in: 500 USD of payerfsp"), "{listed}");
    let path = format!("/proposals/{id}/approve");
    let root = treasury.office.home.data().join("admin-token");
    let answers = thread::scope(|scope| {
        let tokens = [&treasury.benta, &root];
        let approving = tokens.map(|token| {
            let (treasury, path) = (&treasury, &path);
            scope.spawn(move || treasury.call(token, "POST", path, "{}"))
        });
        approving.map(|thread| thread.join().unwrap())
    });
    let mut statuses = answers.each_ref().map(|answer| answer.status);
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 400], "{:?}", answers.map(|answer| answer.text()));
    assert_eq!(treasury.cover(), "-1500");
    let treasury = treasury.restart(Signal::TERM);
    assert_eq!(treasury.cover(), "-1500");
    let shown = treasury.office.run(&treasury.amina, &format!("proposal show {id}")).succeeds();
    assert!(shown.out().contains("APPROVED"), "it is kept");
    let home = treasury.office.end(Signal::TERM);
    home.verify().succeeds();
    let explained = home.offline(&["explain", &transfer]).succeeds().out();
    assert!(explained.contains(&format!("(approval of proposal {id} by ")), "{explained}");
}

#[test]
fn an_approval_beyond_the_cover_is_refused_and_changes_nothing() {
    let treasury = Treasury::start("");
    let proposals = [0; 3].map(|_| treasury.propose("recordFundsOutPrepareReserve").1);
    for id in &proposals[..2] {
        treasury.office.run(&treasury.benta, &format!("proposal approve {id}")).succeeds();
    }
    assert_eq!(treasury.cover(), "0");
    let approve = format!("proposal approve {}", proposals[2]);
    let refused = treasury.office.run(&treasury.benta, &approve).fails();
    assert!(refused.contains("the amount exceeds the participant's available"), "{refused}");
    assert_eq!(treasury.cover(), "0");
    treasury.office.end(Signal::TERM).verify().succeeds();
}

#[test]
fn a_proposal_expires_without_a_decision() {
    let treasury = Treasury::start("proposal_seconds = 1\n");
    let (_, id) = treasury.propose("recordFundsIn");
    let until = Instant::now() + Duration::from_secs(20);
    let path = format!("/proposals/{id}");
    while !treasury.call(&treasury.benta, "GET", &path, "").text().contains("\"EXPIRED\"") {
        assert!(Instant::now() < until, "it expires after a second");
        thread::yield_now();
    }
    let refused = treasury.office.run(&treasury.benta, &format!("proposal approve {id}")).fails();
    assert!(refused.contains("the proposal has expired"), "{refused}");
    assert_eq!(treasury.cover(), "-1000");
    treasury.office.end(Signal::TERM).verify().succeeds();
}

#[test]
fn rights_are_taken_away_by_one_operator_and_granted_by_two() {
    let treasury = Treasury::start("");
    let run = |arguments: &str| treasury.office.run(&treasury.amina, arguments);
    let status = |token| treasury.call(token, "GET", "/participants", "").status;
    assert_eq!(status(&treasury.benta), 200);
    run("operator disable benta").succeeds();
    assert_eq!(status(&treasury.benta), 401);
    let granted = run("operator enable benta");
    assert_eq!(granted.status.code(), Some(3), "{granted:?}");
    assert_eq!(status(&treasury.benta), 401);
    // A decision needs no body.
    let rejected = treasury.call(&treasury.amina, "POST", "/proposals/1/reject", "");
    assert_eq!(rejected.status, 200, "{}", rejected.text());
    assert!(rejected.text().contains("\"WITHDRAWN\""), "{}", rejected.text());
    treasury.office.end(Signal::TERM).verify().succeeds();
}

#[test]
fn an_onboarding_that_is_only_proposed_says_so() {
    let treasury = Treasury::start("");
    run_four_eyes(&treasury, "funds roles participants");
    let file = treasury.office.home.configuration().with_file_name("scheme.toml");
    let text = "[hub]\ncurrencies = [\"USD\"]\n[[participants]]\nname = \"greenbank\"\n\
        currencies = [{ currency = \"USD\", net_debit_cap = 100 }]\n";
    std::fs::write(&file, text).unwrap();
    let arguments = format!("apply {}", file.display());
    let proposed = treasury.office.run(&treasury.amina, &arguments);
    assert_eq!(proposed.status.code(), Some(3), "{proposed:?}");
    assert!(proposed.err().contains("must approve proposal "), "{proposed:?}");
    let found = treasury.call(&treasury.amina, "GET", "/participants/greenbank", "");
    assert_eq!(found.status, 400, "{}", found.text());
    treasury.office.end(Signal::TERM);
}

#[test]
fn adding_a_participant_continues_after_each_approval() {
    let treasury = Treasury::start("");
    run_four_eyes(&treasury, "funds limits roles participants");
    let add = "participant add greenbank --currency USD --cap 100 --funds-in 60 --callbacks \
        http://127.0.0.1:9";
    let add = || treasury.office.run(&treasury.amina, add);
    let waiting = |output: &std::process::Output| {
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let text = output.err();
        let (_, rest) = text.split_once("must approve proposal").unwrap();
        let (ids, _) = rest.split_once(" (`").unwrap();
        let ids = ids.trim_start_matches('s').replace(" and", ",");
        ids.split(',').map(|id| id.trim().parse::<u64>().unwrap()).collect::<Vec<_>>()
    };
    let approve = |id: &u64| {
        let approve = format!("proposal approve {id}");
        treasury.office.run(&treasury.benta, &approve).succeeds();
    };
    let first = add();
    let accounts = waiting(&first);
    assert_eq!(accounts.len(), 1, "the rest needs the accounts: {first:?}");
    assert!(first.out().contains("waits"), "{first:?}");
    assert!(!first.err().contains("continues"), "{first:?}");
    assert_eq!(waiting(&add()), accounts, "it is proposed once");
    approve(&accounts[0]);
    let second = add();
    let continues = format!("greenbank: continues; approved: proposal {}\n", accounts[0]);
    assert!(second.err().contains(&continues), "{second:?}");
    let rest = waiting(&second);
    assert!(2 <= rest.len(), "cap and funds do not wait for each other: {second:?}");
    assert_eq!(waiting(&add()), rest, "each is proposed once");
    rest.iter().for_each(approve);
    let third = add();
    assert!(third.status.success(), "{third:?}");
    let last = add();
    assert!(last.status.success() && last.err().is_empty(), "{last:?}");
    let listed = treasury.office.run(&treasury.amina, "liquidity --participant greenbank --json");
    let listed = listed.succeeds().out();
    assert!(listed.contains("\"liquidityCover\":60"), "{listed}");
    treasury.office.end(Signal::TERM);
}

/// Changes the list of groups, which needs both operators.
fn run_four_eyes(treasury: &Treasury, groups: &str) {
    let proposed = treasury.office.run(&treasury.amina, &format!("four-eyes set {groups}"));
    let text = proposed.err();
    let (_, rest) = text.split_once("proposed as ").unwrap();
    let (id, _) = rest.split_once(',').unwrap();
    treasury.office.run(&treasury.benta, &format!("proposal approve {id}")).succeeds();
}

#[test]
fn tokens_parties_and_rules_versions_wait_for_a_second_operator() {
    let treasury = Treasury::start("");
    let (office, amina, benta) = (&treasury.office, &treasury.amina, &treasury.benta);
    let approve = |id: u64| {
        let answer = treasury.call(benta, "POST", &format!("/proposals/{id}/approve"), "{}");
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    let changed = office.run(amina, "four-eyes set funds parties rules roles");
    assert_eq!(changed.status.code(), Some(3), "{changed:?}");
    approve(1);

    let file = office.home.configuration().with_file_name("second.token");
    let created = office.run(amina, &format!("token create benta --output {}", file.display()));
    assert_eq!(created.status.code(), Some(3), "{created:?}");
    assert!(created.err().contains("proposed as 2, not done yet"), "{created:?}");
    assert_eq!(treasury.call(&file, "GET", "/identity", "").status, 401);
    approve(2);
    assert_eq!(treasury.call(&file, "GET", "/identity", "").status, 200);
    let factor = office.run(amina, "operator second-factor benta");
    assert_eq!(factor.status.code(), Some(3), "{factor:?}");
    assert!(String::from_utf8_lossy(&factor.stdout).starts_with("otpauth://"), "{factor:?}");

    let rows = r#"{"parties":[{"partyIdType":"MSISDN","partyIdentifier":"254700000001",
        "fspId":"payerfsp"}]}"#;
    let proposed = treasury.call(amina, "POST", "/parties", rows);
    assert_eq!(proposed.status, 202, "{}", proposed.text());
    let party = || treasury.call(amina, "GET", "/parties/MSISDN/254700000001", "").text();
    assert_eq!(party(), "[]");
    approve(4);
    assert!(party().contains("payerfsp"), "{}", party());
    let proposed = treasury.call(amina, "PUT", "/rules", r#"{"rulesVersion":5}"#);
    assert_eq!(proposed.status, 202, "{}", proposed.text());
    approve(5);

    let treasury = treasury.restart(Signal::KILL);
    let found = treasury.call(&treasury.amina, "GET", "/parties/MSISDN/254700000001", "");
    assert!(found.text().contains("payerfsp"), "{}", found.text());
    let home = treasury.office.end(Signal::TERM);
    home.verify().succeeds();
}
