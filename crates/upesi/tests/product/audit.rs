//! The audit trail on the log with the real program: refused requests, floods, restarts, snapshots,
//! and the same entries offline.

use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::http::{Client, Headers, PATIENCE, Request};

use crate::operators::{Office, read};
use crate::support::message::Transfer;
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, Printed};

/// Sends a request with a token, or without one.
fn send(office: &Office, token: Option<&Path>, method: &str, path: &str) -> (u16, Value) {
    let mut headers = vec![("host".to_owned(), "localhost".to_owned())];
    if let Some(token) = token {
        headers.push(("authorization".to_owned(), format!("Bearer {}", read(token))));
    }
    let mut client = Client::new(office.switch.admin, PATIENCE);
    let (method, path) = (method.to_owned(), path.to_owned());
    let answer = client.call(&Request { method, path, headers: Headers(headers), body: vec![] });
    let answer = answer.unwrap();
    (answer.status, serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
}

/// All entries, over the admin API.
fn entries(office: &Office, token: &Path, query: &str) -> Vec<Value> {
    let (status, page) = send(office, Some(token), "GET", &format!("/audit?limit=1000{query}"));
    assert_eq!(status, 200, "{page}");
    assert_eq!(page["next"], page["end"], "{page}");
    page["entries"].as_array().unwrap().clone()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn refused_requests_are_on_the_log_and_outlive_a_kill_and_a_snapshot() {
    let office = Office::configured("");
    let anna = office.add("anna", "admin");
    let [viewer, auditor] = ["viewer", "auditor"].map(|role| office.add(role, role));
    assert_eq!(send(&office, None, "POST", "/participants").0, 401);
    assert_eq!(send(&office, Some(&viewer), "POST", "/participants").0, 403);
    assert_eq!(send(&office, Some(&anna), "DELETE", "/participants").0, 405);
    assert_eq!(send(&office, Some(&viewer), "GET", "/audit").0, 403);
    assert_eq!(send(&office, Some(&anna), "POST", "/snapshots").0, 202);
    assert_eq!(send(&office, Some(&anna), "DELETE", "/tokens/0123456789abcdef").0, 400);

    let refused = entries(&office, &auditor, "&outcome=refused");
    let seen: Vec<_> = refused
        .iter()
        .map(|it| {
            let actor = it["actor"].as_str().unwrap().split(' ').next().unwrap().to_owned();
            json!([actor, it["method"], it["path"], it["status"]])
        })
        .collect();
    let expected = [
        json!(["unauthenticated", "POST", "/participants", 401]),
        json!(["viewer", "POST", "/participants", 403]),
        json!(["anna", "DELETE", "/participants", 405]),
        json!(["viewer", "GET", "/audit", 403]),
        json!(["anna", "DELETE", "/tokens/0123456789abcdef", 400]),
    ];
    assert_eq!(seen, expected);
    // The kernel refused the last one: it has a record of its own, too.
    let record = refused[4]["record"].as_u64().unwrap();
    let query = format!("&after={}&actor=anna", record - 1);
    let change = entries(&office, &auditor, &query).swap_remove(0);
    assert_eq!(change["logIndex"], record, "{change}");
    assert_eq!(change["change"], "RevokeToken", "{change}");
    let allowed = entries(&office, &auditor, "&outcome=allowed&path=/snapshots");
    assert_eq!(allowed.len(), 1, "{allowed:?}");

    let before = entries(&office, &auditor, "&to=2100-01-01");
    let office = office.restart(Signal::KILL);
    let after = entries(&office, &auditor, "");
    assert_eq!(after[..before.len()], before);

    // Offline, and over the admin API, the entries are the same.
    let data = office.home.data();
    let online = office.run(&auditor, "audit export").succeeds().out();
    let online = lines(&online);
    let offline = office.home.offline(&["audit", "export"]).succeeds().out();
    assert_eq!(lines(&offline)[..online.len()], online);
    assert_eq!(online[..after.len()], after);
    let table = office.run(&auditor, "audit list --outcome refused").succeeds().out();
    assert!(table.contains("POST /participants: 401"), "{table}");
    let csv = office.run(&auditor, "audit export --csv --outcome refused").succeeds().out();
    assert_eq!(csv.lines().count(), 6, "{csv}");
    let shown = office.run(&auditor, &format!("audit show {record} --json")).succeeds().json();
    assert_eq!(shown["values"]["decision"], "TokenNotFound", "{shown}");
    assert_eq!(shown["values"]["rows"], json!([]), "{shown}");
    assert_eq!(shown["description"], change["description"], "{shown}");
    let none = office.run(&auditor, "audit show 1").fails();
    assert!(none.contains("no administrative request has this record"), "{none}");
    let denied = office.run(&viewer, "audit list").fails();
    assert!(denied.contains("viewer lacks the permission \"audit\""), "{denied}");
    assert!(data.exists());
    let home = office.end(Signal::TERM);
    home.verify().succeeds();
}

#[test]
fn messages_are_masked_for_a_viewer_and_their_reads_are_recorded() {
    let scheme = Scheme::at(Home::configured("[admin]\nauth = \"roles\"\n"));
    let refused = Transfer::of("7");
    scheme.send(&refused.prepare(), 202);
    scheme.send(&refused.error("5104", "Ann Lee is unknown"), 200);
    scheme.wait_until_delivered();
    let Scheme { home, switch, payer, payee, other, .. } = scheme;
    let (office, _banks) = (Office { home, switch }, [payer, payee, other]);
    let [viewer, auditor] = ["viewer", "auditor"].map(|role| office.add(role, role));
    let path = format!("/transfers/{}/messages", refused.id);
    let read = |token: &Path, path: &str| {
        let (status, answer) = send(&office, Some(token), "GET", path);
        assert_eq!(status, 200, "{answer}");
        answer
    };
    let [masked, full] = [&viewer, &auditor].map(|token| read(token, &path));
    for (answer, is_masked, description) in
        [(&masked, true, "*** *** ** *******"), (&full, false, "Ann Lee is unknown")]
    {
        assert_eq!(answer["masked"], is_masked, "{answer}");
        let [prepare, error] = &answer["messages"].as_array().unwrap()[..] else {
            panic!("two messages: {answer}")
        };
        assert_eq!(prepare["request"], "POST /transfers");
        assert_eq!(prepare["body"]["transferId"], refused.id.as_str());
        assert_eq!(prepare["body"]["amount"]["amount"], "7");
        assert_eq!(prepare["body"]["ilpPacket"].as_str().unwrap().contains('*'), is_masked);
        let information = &error["body"]["errorInformation"];
        assert_eq!(information["errorCode"], "5104");
        assert_eq!(information["errorDescription"], description);
    }
    // An explanation shows the description too.
    let explanation = format!("/transfers/{}/explanation", refused.id);
    let [masked, full] = [&viewer, &auditor].map(|token| read(token, &explanation).to_string());
    assert!(!masked.contains("Ann") && full.contains("Ann Lee is unknown"), "{masked} {full}");
    // The command shows the same.
    let command = format!("explain {} --messages", refused.id);
    let [masked, full] =
        [&viewer, &auditor].map(|token| office.run(token, &command).succeeds().out());
    assert!(masked.contains("personal data are masked") && !masked.contains("Ann"), "{masked}");
    assert!(full.contains("\"errorDescription\":\"Ann Lee is unknown\""), "{full}");
    let both = office.run(&auditor, &format!("{command} --json")).succeeds().json();
    assert_eq!(both["contents"]["messages"], read(&auditor, &path)["messages"]);
    assert_eq!(send(&office, None, "GET", &path).0, 401);
    let unknown = "/transfers/00000000-0000-4000-8000-000000000000/messages";
    assert_eq!(send(&office, Some(&viewer), "GET", unknown).0, 404);

    let trail = entries(&office, &auditor, &format!("&path={path}"));
    let readers: Vec<_> =
        trail.iter().map(|it| it["actor"].as_str().unwrap().split(' ').next().unwrap()).collect();
    let expected =
        ["viewer", "auditor", "viewer", "auditor", "auditor", "auditor", "unauthenticated"];
    assert_eq!(readers, expected, "{trail:?}");
    office.end(Signal::TERM);
}

/// With named roles and the audit trail on, payments add no entry to the trail: all entries are of
/// this test's own reads.
#[test]
fn payments_do_not_pass_roles_and_audit() {
    const PAYMENTS: u64 = 25;
    const READS: [&str; 3] = ["/audit", "/metrics", "/participants/limits"];
    let scheme = Scheme::at(Home::configured("[admin]\nauth = \"roles\"\n"));
    let trail = || scheme.admin.json("/audit?limit=1000")["entries"].as_array().unwrap().clone();
    let before = trail();
    for _ in 0..PAYMENTS {
        scheme.pay("1");
    }
    scheme.wait_until_delivered();
    let after = trail();
    assert!(before.len() < after.len() && after[..before.len()] == before, "{after:?}");
    for entry in &after[before.len()..] {
        let is_own = READS.iter().any(|path| entry["path"] == *path);
        assert!(is_own && entry["method"] == "GET", "{entry}");
    }
    scheme.positions("25", "-25");
    let Scheme { home, switch, .. } = scheme;
    Office { home, switch }.end(Signal::TERM);
}

/// The instructions of the switch per payment, with and without roles in turns, as valgrind counts
/// them. Timers and the sizes of batches vary them. No function of roles and audit is among them.
#[cfg(feature = "counted-instructions")]
#[test]
fn payments_take_the_same_instructions_with_roles() {
    let mut counts = [[0; TURNS]; 2];
    for turn in 0..TURNS {
        for (count, auth) in counts.iter_mut().zip(["token", "roles"]) {
            let (instructions, functions) = counted::per_payment(auth);
            println!("turn {turn}: {auth}: {instructions} instructions per payment, {functions:?}");
            assert!(functions.is_empty(), "payments call {functions:?}");
            count[turn] = instructions;
        }
    }
    let [token, roles] = counts.map(|turns| turns.into_iter().sum::<u64>() / TURNS as u64);
    assert!(token.abs_diff(roles) * 20 < token, "more than 5 % apart: {token} and {roles}");
}

#[cfg(feature = "counted-instructions")]
const TURNS: usize = 3;

#[cfg(feature = "counted-instructions")]
mod counted {
    use std::collections::BTreeSet;
    use std::process::Command;

    use crate::support::message::Transfer;
    use crate::support::scheme::Scheme;
    use crate::support::switch::{Home, Ports, Printed, finish};

    const PAYMENTS: u64 = 100;

    /// Code of roles and of the audit trail.
    const ROLES_AND_AUDIT: [&str; 8] = [
        "operations::auth",
        "operations::permissions",
        "operations::roles",
        "operations::operators",
        "operations::audit_log",
        "operations::audit_trail",
        "ledger::operators",
        "identity::",
    ];

    /// Instructions of the switch per payment with this `admin.auth`, without any request to the
    /// admin API meanwhile; and the functions of [`ROLES_AND_AUDIT`] that were called.
    pub(super) fn per_payment(auth: &str) -> (u64, BTreeSet<String>) {
        let home = Home::configured(&format!("[admin]\nauth = \"{auth}\"\n"));
        let dumps = home.data().with_file_name("callgrind");
        let command = home.command(Ports::free());
        // The kernel would give the addresses of a process without valgrind (PR_GET_AUXV). Without
        // that call the program reads those that valgrind shows.
        let mut valgrind = Command::new("strace");
        valgrind.args(["-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"]);
        valgrind.args(["-e", "trace=prctl", "-e", "inject=prctl:error=EINVAL"]);
        valgrind.args(["valgrind", "--tool=callgrind", "--quiet"]);
        valgrind.arg(format!("--callgrind-out-file={}", dumps.display()));
        valgrind.arg(command.get_program()).args(command.get_args());
        let switch = home.started(valgrind);
        let scheme = Scheme::over(home, switch);
        for _ in 0..PAYMENTS / 10 {
            pay(&scheme);
        }
        let process = scheme.switch.id().to_string();
        control(&["--zero", &process]);
        for _ in 0..PAYMENTS {
            pay(&scheme);
        }
        control(&["--dump", &process]);
        let dump = std::fs::read_to_string(dumps.with_file_name("callgrind.1")).unwrap();
        (instructions(&dump) / PAYMENTS, functions(&dump))
    }

    /// A payment up to the last callback.
    fn pay(scheme: &Scheme) {
        let transfer = Transfer::of("1");
        scheme.send(&transfer.prepare(), 202);
        scheme.payee.take(1);
        scheme.send(&transfer.fulfil("COMMITTED"), 200);
        scheme.payer.take(1);
    }

    fn control(arguments: &[&str]) {
        let mut command = Command::new("callgrind_control");
        command.args(arguments);
        finish(command).succeeds();
    }

    /// The total of a dump.
    fn instructions(dump: &str) -> u64 {
        let total = dump.lines().find_map(|line| line.strip_prefix("totals: "));
        total.expect("a total").parse().unwrap()
    }

    /// A dump names each function where it is first mentioned: `fn=(12) name`.
    fn functions(dump: &str) -> BTreeSet<String> {
        let lines = dump.lines().filter(|line| line.starts_with("fn=") || line.starts_with("cfn="));
        let names: Vec<_> = lines.filter_map(|line| line.split_once(") ")).collect();
        assert!(names.iter().any(|(_, name)| name.contains("sequencer::")), "no names");
        // The end of an idle connection to the admin API drops its parts.
        let is_wanted = |name: &&str| {
            !name.contains("drop_in_place")
                && ROLES_AND_AUDIT.iter().any(|part| name.contains(part))
        };
        names.into_iter().map(|(_, name)| name).filter(is_wanted).map(str::to_owned).collect()
    }
}

#[test]
fn a_flood_of_wrong_tokens_adds_few_records() {
    let office = Office::configured("");
    let auditor = office.add("auditor", "auditor");
    let wrong = office.home.configuration().with_file_name("wrong");
    std::fs::write(&wrong, "upesi_0123456789abcdef_wrong").unwrap();
    let (mut refused, mut counted, mut records) = (0, 0, 0);
    for _ in 0..40 {
        // Of these, ten are answered at once.
        refused += u64::from(send(&office, Some(&wrong), "GET", "/participants").0 == 401);
        if refused == 14 {
            break;
        }
    }
    let began = std::time::Instant::now();
    while counted < refused {
        assert!(began.elapsed() < PATIENCE, "{counted} of {refused} requests are recorded");
        let found = entries(&office, &auditor, "&outcome=refused");
        records = found.len() as u64;
        counted = found.iter().map(|it| it["requests"].as_u64().unwrap()).sum();
        std::thread::yield_now();
    }
    assert_eq!(counted, refused);
    assert!((10..=14).contains(&records), "{records} records of {refused} requests");
    office.end(Signal::TERM);
}

#[test]
fn changes_are_shown_with_the_values_before_and_after() {
    let office = Office::configured("");
    let anna = office.add("anna", "admin");
    let bert = office.add("bert", "viewer");
    let admin = Admin::new(&office.home, &office.switch);
    admin.prepare_hub();
    admin.onboard("payerfsp", "http://127.0.0.1:9", "1000", "1000");
    let password = office.home.configuration().with_file_name("password");
    std::fs::write(&password, "correct horse battery staple").unwrap();
    let set = format!("operator password bert --password-file {}", password.display());
    office.run(&anna, &set).succeeds();
    office.run(&anna, "operator roles bert --role operator --role finance").succeeds();
    office.run(&anna, "operator disable bert").succeeds();
    assert_eq!(send(&office, Some(&bert), "GET", "/participants").0, 401);
    office.run(&anna, "four-eyes set limits roles").fails();

    let find = |office: &Office, name: &str| {
        let all = entries(office, &anna, "&outcome=recorded");
        let last = all.iter().rev().find(|it| it["change"] == name).unwrap();
        let shown = office.run(&anna, &format!("audit show {} --json", last["logIndex"]));
        shown.succeeds().json()
    };
    let disabled = find(&office, "SetOperator");
    assert_eq!(disabled["values"]["decision"], "Accepted");
    assert_eq!(
        disabled["values"]["rows"],
        json!([{
            "table": "Operators", "key": {"name": "bert"},
            "before": {"active": true, "generation": 1},
            "after": {"active": false, "generation": 2},
        }])
    );
    let secret = find(&office, "SetPassword");
    let expected = json!([{
        "table": "Operators", "key": {"name": "bert"},
        "before": {"generation": 0, "password": ""},
        "after": {"generation": 1, "password": "(secret)"},
    }]);
    assert_eq!(secret["values"]["rows"], expected);
    let endpoint = find(&office, "SetEndpoint");
    let row = &endpoint["values"]["rows"][0];
    assert_eq!(row["key"], json!({"name": "payerfsp"}), "{endpoint}");
    assert_eq!(row["before"]["endpoints"], json!([]), "{endpoint}");
    let address = row["after"]["endpoints"][0][1].as_str().unwrap();
    assert!(address.starts_with("http://127.0.0.1:9/"), "{endpoint}");
    let funds = find(&office, "MoveFunds");
    let rows = funds["values"]["rows"].as_array().unwrap();
    let cover = rows.iter().find(|row| row["key"]["kind"] == "Settlement").unwrap();
    assert_eq!(cover["key"]["owner"], "payerfsp", "{funds}");
    assert_eq!([&cover["before"]["value"], &cover["after"]["value"]], ["0", "-1000"], "{funds}");

    // Offline, from a snapshot, and after a restart they are the same.
    assert_eq!(send(&office, Some(&anna), "POST", "/snapshots").0, 202);
    office.run(&anna, "operator enable bert").succeeds();
    let enabled = find(&office, "SetOperator");
    assert_eq!(enabled["values"]["rows"][0]["after"]["active"], true, "{enabled}");
    let office = office.restart(Signal::KILL);
    assert_eq!(find(&office, "MoveFunds"), funds);
    let online = lines(&office.run(&anna, "audit export --values").succeeds().out());
    let offline = office.home.offline(&["audit", "export", "--values"]).succeeds().out();
    assert_eq!(lines(&offline)[..online.len()], online);
    let by_index = |it: &&Value| it["logIndex"] == enabled["logIndex"];
    assert_eq!(online.iter().find(by_index), Some(&enabled));
    assert!(!offline.contains("$argon2"), "no hash of a password");
    let all_known = online.iter().filter(|it| it["outcome"] == "recorded");
    for entry in all_known {
        assert!(!entry["values"].is_null(), "{entry}");
    }
    let text = office.run(&anna, &format!("audit show {}", funds["logIndex"])).succeeds().out();
    assert!(text.contains("    value              0 -> -1000\n"), "{text}");
    let none = office.run(&anna, "audit show 999999").fails();
    assert!(none.contains("no administrative request has this record"), "{none}");
    office.end(Signal::TERM);
}
