//! Log messages, the access log and the audit trail of a running switch.

use std::fs;
use std::time::Instant;

use boon::{Compiler, Schemas};
use rustix::process::Signal;
use serde_json::Value;
use testkit::http::{Connection, PATIENCE};

use crate::support::message::{Message, Transfer};
use crate::support::scheme::Scheme;
use crate::support::switch::{Home, Ports, Printed, Switch};

/// The lines of a log, each of which must conform to the published schema.
fn json_lines(text: &str) -> Vec<Value> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/log-message.schema.json");
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    let schema = compiler.compile(file, &mut schemas).unwrap();
    let parse = |line| {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|it| panic!("{line}: {it}"));
        schemas.validate(&line, schema).unwrap_or_else(|error| panic!("{line}: {error}"));
        line
    };
    text.lines().map(parse).collect()
}

/// The messages of a target, once one of them contains `last`.
fn messages_of(switch: &Switch, target: &str, last: &str) -> Vec<Value> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let all = switch.messages();
        let of_target: Vec<_> =
            json_lines(&all).into_iter().filter(|it| it["target"] == target).collect();
        if of_target.iter().any(|message| message.to_string().contains(last)) {
            return of_target;
        }
        assert!(Instant::now() < deadline, "{last} is not logged: {all}");
        std::thread::yield_now();
    }
}

#[test]
fn messages_are_json_and_name_each_request_when_asked() {
    let home = Home::configured("[logging]\nformat = \"json\"\naccess = true\n");
    let scheme = Scheme::at(home);
    let transfer = Transfer::of("1");
    scheme.send(&transfer.prepare(), 202);
    let hostile = Message::new("GET", "/transfers/%0a%22%1b[31m", "payerfsp");
    assert_eq!(scheme.ask(&hostile).status, 400);
    let requests = messages_of(&scheme.switch, "access", "%1b");
    let prepare = requests.iter().find(|it| it["method"] == "POST" && it["path"] == "/transfers");
    let prepare = prepare.unwrap_or_else(|| panic!("{requests:?}"));
    assert_eq!((&prepare["level"], &prepare["status"]), (&"INFO".into(), &202.into()), "{prepare}");
    assert!(prepare["timestamp"].as_str().unwrap().ends_with('Z'), "{prepare}");
    assert_eq!(prepare["trace_id"].as_str().unwrap().len(), 32, "{prepare}");
    let refused = requests.last().unwrap();
    assert_eq!((&refused["status"], &refused["code"]), (&400.into(), &3101.into()), "{refused}");
    scheme.switch.signal(Signal::TERM);
    assert!(scheme.switch.end().0.success());
}

#[test]
fn audit_trail_names_every_change_and_every_refusal() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("audit.log");
    let home = Home::configured(&format!("[logging]\naudit_file = {:?}\n", file.to_str().unwrap()));
    let scheme = Scheme::at(home);
    let before = json_lines(&fs::read_to_string(&file).unwrap());
    assert!(before.iter().any(|it| it["path"] == "/participants" && it["status"] == 201));
    let last = |path: &str| {
        let entries = json_lines(&fs::read_to_string(&file).unwrap());
        entries.into_iter().rfind(|it| it["path"] == path).unwrap()
    };

    scheme.admin.set_limit("otherfsp", "900");
    let changed = last("/participants/otherfsp/limits");
    assert_eq!((&changed["method"], &changed["status"]), (&"PUT".into(), &200.into()), "{changed}");
    assert_eq!(changed["from"], "127.0.0.1", "{changed}");
    assert!(changed["actor"].as_str().unwrap().contains("token:"), "{changed}");
    let state = scheme.admin.quiet_state();
    assert!(changed["log_index"].as_u64().unwrap() <= state["logIndex"].as_u64().unwrap());

    let refused = Connection::open(scheme.switch.admin).unwrap().exchange(
        b"PUT /participants/otherfsp/limits HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n",
    );
    assert_eq!(refused.unwrap().status, 401);
    let refused = last("/participants/otherfsp/limits");
    assert_eq!((&refused["status"], &refused["code"]), (&401.into(), &3000.into()), "{refused}");
    assert!(refused["actor"].is_null() && refused["log_index"].is_null(), "{refused}");

    // The file is renamed by a tool that rotates it; the switch continues in a new one.
    let rotated = directory.path().join("audit.log.1");
    fs::rename(&file, &rotated).unwrap();
    scheme.switch.signal(Signal::HUP);
    let deadline = Instant::now() + PATIENCE;
    while !file.exists() {
        assert!(Instant::now() < deadline, "{}", scheme.switch.messages());
        std::thread::yield_now();
    }
    scheme.admin.set_limit("otherfsp", "901");
    assert_eq!(json_lines(&fs::read_to_string(&file).unwrap()).len(), 1);
    assert!(!scheme.switch.messages().contains(" audit: "), "the trail is in the file alone");
    scheme.switch.stop_after_refused_tokens(Signal::TERM);
}

/// A file that takes no entry, as on a full disk: the changes are answered, and their entries are
/// messages.
#[test]
fn audit_entries_that_the_file_does_not_take_become_messages() {
    let home = Home::configured(
        "[logging]\nformat = \"json\"\nlevel = \"error\"\naudit_file = \"/dev/full\"\n",
    );
    let scheme = Scheme::at(home);
    for limit in ["900", "901", "902"] {
        scheme.admin.set_limit("otherfsp", limit);
    }
    scheme.switch.wait_for_messages("/participants/otherfsp/limits\"", 3);
    let entries = messages_of(&scheme.switch, "audit", "otherfsp/limits");
    let changed = |it: &&Value| it["path"] == "/participants/otherfsp/limits";
    assert!(3 <= entries.iter().filter(changed).count(), "{entries:?}");
    let failed = scheme.admin.metric("upesi_audit_entries_failed_total");
    assert!(entries.len() as u64 <= failed, "{failed}: {entries:?}");
    let errors = messages_of(&scheme.switch, "upesi::serve::logging::audit_file", "/dev/full");
    assert_eq!((errors.len(), &errors[0]["level"]), (1, &"ERROR".into()), "{errors:?}");
    assert!(errors[0]["error"].as_str().unwrap().contains("No space left"), "{errors:?}");
    scheme.switch.signal(Signal::TERM);
    assert!(scheme.switch.end().0.success());
}

/// No level of messages hides the audit trail. Texts of a client are escaped in both formats.
#[test]
fn audit_trail_is_written_at_every_level() {
    for (format, escaped) in [("text", "\\u{9b}31m\\u{202e}"), ("json", "\\u009b31m\\u202e")] {
        for level in ["warn", "off"] {
            let arguments = ["--log-format", format, "--log-level", level];
            let home = Home::new().with_arguments(&arguments);
            let switch = home.serve();
            let request = format!(
                "PUT /participants/otherfsp/limits HTTP/1.1\r\nhost: localhost\r\n\
                 authorization: Bearer {}\r\nx-reason: \u{9b}31m\u{202e}\r\n\
                 content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}",
                home.token()
            );
            let mut connection = Connection::open(switch.admin).unwrap();
            assert_eq!(connection.exchange(request.as_bytes()).unwrap().status, 400);
            let messages = switch.wait_for_messages("/participants/otherfsp/limits", 1);
            assert!(messages.contains(escaped), "{format} {level}: {messages}");
            assert!(!messages.contains(['\u{9b}', '\u{202e}']), "{format} {level}: {messages}");
            switch.signal(Signal::TERM);
            assert!(switch.end().0.success());
        }
    }
    let home = Home::new().with_arguments(&["--log-level", "info,audit=off"]);
    let refused = home.serve_in_vain(Ports::free()).fails();
    assert!(refused.contains("audit has no level"), "{refused}");
}

/// A switch whose levels are changed by its configuration file and SIGHUP.
#[test]
fn levels_are_reloaded() {
    let scheme = Scheme::configured("[logging]\nlevel = \"warn\"\n");
    scheme.switch.signal(Signal::USR1);
    // The thread that answers handles signals too.
    ["900", "901"].iter().for_each(|limit| scheme.admin.set_limit("otherfsp", limit));
    let configuration = scheme.home.configuration();
    let text = fs::read_to_string(&configuration).unwrap();
    fs::write(&configuration, text.replace("\"warn\"", "\"info\"")).unwrap();
    scheme.switch.signal(Signal::HUP);
    scheme.switch.wait_for_messages("reloaded the configuration", 1);
    let messages = scheme.switch.messages();
    assert!(!messages.contains("SIGUSR1"), "{messages}");
    scheme.switch.signal(Signal::USR1);
    scheme.switch.wait_for_messages("SIGUSR1", 1);
    fs::write(&configuration, text.replace("\"warn\"", "\"loud\"")).unwrap();
    scheme.switch.signal(Signal::HUP);
    scheme.switch.wait_for_complaint("settings stay unchanged");
    let text = text.replace("\"warn\"", "\"info\"\naccess = true");
    fs::write(&configuration, text).unwrap();
    scheme.switch.signal(Signal::HUP);
    let messages = scheme.switch.wait_for_messages("take effect at the next start", 1);
    assert!(messages.contains("logging.access"), "{messages}");
    let messages = scheme.switch.wait_for_messages("reloaded the configuration", 2);
    let reloaded = messages.matches("reloaded the configuration").count();
    assert_eq!(reloaded, 2, "the failed one is no success: {messages}");
    scheme.switch.signal(Signal::TERM);
    assert!(scheme.switch.end().0.success());
}

/// A start that fails writes its reason in the chosen format.
#[test]
fn reason_of_a_failed_start_is_json_when_asked() {
    let home = Home::new().with_arguments(&["--log-format", "json"]);
    fs::write(home.configuration(), "[fspiop]\nlisten = 5\n").unwrap();
    let refused = home.serve_in_vain(Ports::free()).fails();
    let lines = json_lines(&refused);
    let message = lines.last().unwrap();
    assert_eq!(message["level"], "ERROR", "{refused}");
    assert!(message["message"].as_str().unwrap().contains("fspiop.listen"), "{refused}");
}
