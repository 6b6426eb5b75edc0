//! The files of `deploy` with the real program: it starts with exactly the rendered arguments and
//! configuration, in a container as described, answers the configured probes, and stops cleanly.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::http::Connection;

use crate::init::NewScheme;
use crate::support::container::{Container, Mount};
use crate::support::namespaces::{Need, apart, run};
use crate::support::scheme::Admin;
use crate::support::switch::{Home, Ports, Printed};

const TOKEN: &str = "a-token-that-an-operator-has-made";
/// Address of the container in its network.
const ADDRESS: &str = "10.23.0.5";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two levels up")
}

fn read(path: &str) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A list of words in one line, such as `args: ["serve", ...]`.
fn lists(text: &str, name: &str) -> Vec<Vec<String>> {
    let lists = text.lines().filter_map(|line| line.trim_start().strip_prefix(name));
    lists.map(|list| serde_json::from_str(list).expect(list)).collect()
}

/// The block scalar of a name, without its indentation.
fn block(text: &str, name: &str) -> String {
    let mut lines = text.lines().skip_while(|line| line.trim() != format!("{name}: |"));
    let indentation = lines.next().expect(name).find(|c| c != ' ').unwrap() + 2;
    let inside =
        |line: &&str| line.trim().is_empty() || line.find(|c| c != ' ') >= Some(indentation);
    let lines = lines.take_while(inside).map(|line| line.get(indentation..).unwrap_or(""));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The arguments without the location of the log, since there are no brokers here.
fn with_log_in_files(arguments: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--log" | "--node" => drop(arguments.next()),
            _ => kept.push(argument.clone()),
        }
    }
    kept
}

#[test]
fn rendered_chart_starts_is_probed_and_stops() {
    let test = "deployment::rendered_chart_starts_is_probed_and_stops";
    apart(test, Need::Container, || {
        run("ip", &["link", "set", "lo", "up"]);
        run("ip", &["address", "add", &format!("{ADDRESS}/32"), "dev", "lo"]);
        for topology in ["one", "cluster", "thousand"] {
            prove_rendered(topology);
        }
    });
}

/// Files of `upesi init` that a deployment has.
const SCHEME_FILES: [&str; 7] = [
    "tls/ca.pem",
    "tls/server.pem",
    "tls/server.key",
    "tls/client.pem",
    "tls/client.key",
    "jws/hub.key",
    "master.key",
];
/// Names and addresses of a certificate for all deployments.
const HOSTS: &str = "localhost,127.0.0.1,10.23.0.5,upesi-admin,node-a";

fn prove_rendered(topology: &str) {
    let text = read(&format!("deploy/kubernetes/{topology}.yaml"));
    let configuration = block(&text, "upesi.toml");
    let scheme = NewScheme::new(&["--hosts", HOSTS, "--participant", "bank-a"]);
    let files = SCHEME_FILES.map(|path| {
        let name = path.rsplit('/').next().unwrap();
        (name, fs::read_to_string(scheme.file(path)).unwrap())
    });
    let token = [("admin-token", TOKEN.to_owned())];
    let mut mounts = vec![
        ("/etc/upesi", Mount::Text { name: "upesi.toml", text: &configuration }),
        ("/var/lib/upesi", Mount::Data),
        ("/run/upesi-scheme", Mount::Secret(&files)),
    ];
    let is_given = configuration.contains("token_file");
    assert_eq!(is_given, topology != "one", "several nodes have one token");
    if is_given {
        mounts.push(("/run/upesi", Mount::Secret(&token)));
    }
    for (at, _) in &mounts {
        assert!(text.contains(&format!("mountPath: {at}\n")), "{at} is mounted");
    }
    // The Secret has no directory for the keys of participants, which the admin API takes.
    let others = ["jws.keys", "logging.audit_file"];
    assert_has_settings_of_init(&configuration, "/run/upesi-scheme", (&scheme, &others));
    let container = Container::new(&mounts);
    let arguments = lists(&text, "args: ").remove(0);
    let has_brokers = arguments.iter().any(|argument| argument == "--log");
    assert_eq!(has_brokers, topology != "one");
    let probes = lists(&text, "command: ");
    assert_eq!(probes.len(), 1, "the program itself asks whether it is alive");
    let token_file = match is_given {
        true => "/run/upesi/admin-token",
        false => "/var/lib/upesi/data/admin-token",
    };
    let hosts: &[&str] = &["upesi-admin", "upesi-0.upesi-nodes.upesi.svc:3001"];
    let paths = text.lines().filter_map(|line| line.trim().strip_prefix("path: "));
    let paths: Vec<_> = paths.filter(|path| path.starts_with('/')).collect();
    assert_eq!(paths, ["/startup", "/ready"]);
    let arguments = with_log_in_files(&arguments);
    let files = |name: &str| scheme.file(name);
    let master_key = "/run/upesi-scheme/master.key";
    let pod = Pod { arguments, probes, token_file, master_key, hosts, paths, files: &files };
    let grace =
        text.lines().find_map(|line| line.trim().strip_prefix("terminationGracePeriodSeconds: "));
    pod.prove(&container, Duration::from_secs(grace.unwrap().parse().unwrap()));
}

/// Asserts that a deployment has each setting that `upesi init` writes, with files below `at`, apart
/// from addresses, files of one node, and `others`.
fn assert_has_settings_of_init(
    configuration: &str,
    at: &str,
    (scheme, others): (&NewScheme, &[&str]),
) {
    let wanted = fs::read_to_string(scheme.file("upesi.toml")).unwrap();
    let wanted: toml::Table = wanted.parse().unwrap();
    let found: toml::Table = configuration.parse().unwrap();
    let mut compared = 0;
    for (section, settings) in wanted {
        for (setting, value) in settings.as_table().unwrap() {
            let name = format!("{section}.{setting}");
            let is_own = ["listen", "hosts"].contains(&&**setting)
                || ["chain_heads", "enrolment"].contains(&&*section);
            if is_own || others.contains(&&*name) {
                continue;
            }
            let place = scheme.file("").display().to_string();
            let (kind, text) = match value.as_str().map(|text| (text.strip_prefix("file:"), text)) {
                Some((Some(path), _)) if section == "encryption" => ("file:", Some(path)),
                other => ("", other.map(|(_, text)| text)),
            };
            let expected = match text.and_then(|text| text.strip_prefix(&place)) {
                // In a Secret, a file has no directory.
                Some(path) if at.starts_with("/run/") => {
                    format!("{kind}{at}/{}", path.rsplit('/').next().unwrap()).into()
                }
                Some(path) => format!("{kind}{at}/{path}").into(),
                None => value.clone(),
            };
            assert_eq!(found[&section].get(setting), Some(&expected), "{name}");
            compared += 1;
        }
    }
    assert!(15 < compared, "{compared}");
}

#[test]
fn compose_deployment_starts_is_probed_and_stops() {
    let test = "deployment::compose_deployment_starts_is_probed_and_stops";
    apart(test, Need::Container, || {
        run("ip", &["link", "set", "lo", "up"]);
        run("ip", &["address", "add", &format!("{ADDRESS}/32"), "dev", "lo"]);
        let text = read("deploy/compose/compose.yaml");
        let configuration = read("deploy/compose/upesi.toml");
        let scheme = NewScheme::new(&[]);
        let others = ["logging.audit_file"];
        assert_has_settings_of_init(&configuration, "/etc/upesi/scheme", (&scheme, &others));
        let all = lists(&text, "command: ");
        let nodes: Vec<_> = all.iter().filter(|command| command[0] == "serve").collect();
        let names: BTreeSet<_> = nodes.iter().map(|command| command.last().unwrap()).collect();
        assert_eq!(names.len(), 3, "three nodes, each with a name of its own");
        let container = Container::new(&[
            ("/etc/upesi", Mount::Text { name: "upesi.toml", text: &configuration }),
            ("/var/lib/upesi", Mount::Data),
            ("/etc/upesi/scheme", Mount::Data),
        ]);
        let mut init = all.iter().find(|command| command[0] == "init").unwrap().clone();
        let hosts = init.last_mut().unwrap();
        assert!(hosts.contains("node-a,node-b,node-c"), "{hosts}");
        // For the address of this container, and a participant that calls it.
        *hosts += &format!(",{ADDRESS}");
        init.extend(["--participant", "bank-a"].map(str::to_owned));
        let init: Vec<_> = init.iter().map(String::as_str).collect();
        container.run(&init).succeeds();
        // The arguments of the image.
        let image = read("deploy/container/Dockerfile");
        let files = |name: &str| container.inside("/etc/upesi/scheme").join(name);
        let pod = Pod {
            arguments: with_log_in_files(nodes[0]),
            probes: lists(&image, "CMD ").into_iter().take(1).collect(),
            token_file: "/etc/upesi/scheme/data/admin-token",
            master_key: "/etc/upesi/scheme/master.key",
            hosts: &["node-a:3001"],
            paths: Vec::new(),
            files: &files,
        };
        pod.prove(&container, Duration::from_secs(60));
    });
}

/// The defaults of the brokers in the compose file meet the requirements for the topic.
#[test]
fn brokers_of_compose_are_safe() {
    let text = read("deploy/compose/compose.yaml");
    let value = |name: &str| {
        let lines =
            text.lines().filter_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": "));
        lines.map(|value| value.trim_matches('"').to_owned()).next().expect(name)
    };
    for (name, wanted) in [
        ("KAFKA_DEFAULT_REPLICATION_FACTOR", "3"),
        ("KAFKA_MIN_INSYNC_REPLICAS", "2"),
        ("KAFKA_UNCLEAN_LEADER_ELECTION_ENABLE", "false"),
        ("KAFKA_LOG_CLEANUP_POLICY", "delete"),
        ("KAFKA_LOG_RETENTION_MS", "-1"),
        ("KAFKA_LOG_RETENTION_BYTES", "-1"),
        ("KAFKA_LOG_MESSAGE_TIMESTAMP_TYPE", "LogAppendTime"),
        ("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false"),
    ] {
        assert_eq!(value(name), wanted, "{name}");
    }
    for name in ["KAFKA_MESSAGE_MAX_BYTES", "KAFKA_REPLICA_FETCH_MAX_BYTES"] {
        let most: usize = value(name).parse().unwrap();
        assert!(record::frame::FRAME_BYTES_MAX < most, "{name} holds the largest frame");
    }
}

/// The credentials and headers of a request.
#[derive(Clone, Copy)]
struct Caller<'a> {
    /// A certificate and its key.
    files: Option<[&'a str; 2]>,
    host: Option<&'a str>,
    token: Option<&'a str>,
}

const ANYONE: Caller<'static> = Caller { files: None, host: None, token: None };

/// Properties of a container that runs the switch.
struct Pod<'a> {
    arguments: Vec<String>,
    /// Commands that must succeed while it runs.
    probes: Vec<Vec<String>>,
    token_file: &'a str,
    master_key: &'a str,
    /// Host names of admin API requests.
    hosts: &'a [&'a str],
    /// Paths of the probes by HTTP.
    paths: Vec<&'a str>,
    /// The path of a file of `upesi init`, with the participant `bank-a`.
    files: &'a dyn Fn(&str) -> PathBuf,
}

impl Pod<'_> {
    fn prove(&self, container: &Container, grace: Duration) {
        container.run(&["check-config", "/etc/upesi/upesi.toml"]).succeeds();
        for probe in &self.probes {
            assert!(!self.probe(container, probe), "nobody lives yet: {probe:?}");
        }
        let output_text = container.run(&["serve", "--data", "/elsewhere"]).err();
        assert!(output_text.contains("Read-only file system"), "{output_text}");
        let home = Home::new();
        let switch = home.started(container.command(&self.arguments));
        assert_eq!(switch.fspiop.to_string(), "0.0.0.0:4000");
        for probe in &self.probes {
            assert!(self.probe(container, probe), "{probe:?}: {}", switch.complaints());
        }
        for path in &self.paths {
            assert_eq!(ask(&format!("{ADDRESS}:3002"), &format!("GET {path}"), ADDRESS, ""), 200);
        }
        let participant =
            ["participants/bank-a/certificate.pem", "participants/bank-a/certificate.key"];
        assert_eq!(
            self.call("GET", 4000, "/health", Caller { files: Some(participant), ..ANYONE }),
            200
        );
        assert_eq!(self.call("GET", 4000, "/health", ANYONE), 0, "a certificate is needed");
        let token = fs::read_to_string(container.inside(self.token_file)).unwrap();
        let operator = Caller { token: Some(token.trim_end()), ..ANYONE };
        let admin = format!("{ADDRESS}:3001");
        for host in self.hosts.iter().chain([&&*admin, &ADDRESS]) {
            let caller = Caller { host: Some(host), ..operator };
            assert_eq!(self.call("GET", 3001, "/metrics", caller), 200, "{host}");
        }
        for host in ["10.23.0.6:3001", "evil.example"] {
            let caller = Caller { host: Some(host), ..operator };
            assert_eq!(self.call("GET", 3001, "/metrics", caller), 403, "{host}");
        }
        for (caller, expected) in [(ANYONE, 401), (operator, 202)] {
            assert_eq!(self.call("POST", 3001, "/snapshots", caller), expected);
        }
        assert_eq!(ask(&format!("{ADDRESS}:4000"), "GET /health", "any", ""), 400, "not encrypted");
        let started = Instant::now();
        switch.signal(Signal::TERM);
        let (status, output_text) = switch.end();
        assert!(status.success(), "{status}: {output_text}");
        let expected = [
            "\"level\":\"INFO\"",
            "the break-glass token was used",
            "admin requests without a valid token",
        ];
        let is_expected = |line: &str| expected.iter().any(|part| line.contains(part));
        assert!(output_text.lines().all(is_expected), "{output_text}");
        assert!(started.elapsed() < grace, "{:?}", started.elapsed());
        let data = &self.arguments[2];
        container.belongs_to_nobody(data);
        container.run(&["verify", "--data", data]).fails();
        let key = format!("file:{}", self.master_key);
        container.run(&["verify", "--data", data, "--encryption-key", &key]).succeeds();
    }

    /// The status of a request by `curl` over TLS; 0 without a response.
    fn call(&self, method: &str, port: u16, path: &str, caller: Caller<'_>) -> u16 {
        let mut curl = std::process::Command::new("curl");
        curl.args(["--silent", "--max-time", "20", "--output", "/dev/null"]);
        curl.args(["--write-out", "%{http_code}", "--request", method]);
        curl.arg("--cacert").arg((self.files)("tls/ca.pem"));
        if let Some([certificate, key]) = caller.files {
            curl.arg("--cert").arg((self.files)(certificate));
            curl.arg("--key").arg((self.files)(key));
        }
        if let Some(host) = caller.host {
            curl.args(["--header", &format!("Host: {host}")]);
        }
        if let Some(token) = caller.token {
            curl.args(["--header", &format!("Authorization: Bearer {token}")]);
        }
        curl.arg(format!("https://{ADDRESS}:{port}{path}"));
        let output = curl.output().unwrap();
        String::from_utf8(output.stdout).unwrap().parse().unwrap()
    }

    fn probe(&self, container: &Container, probe: &[String]) -> bool {
        assert_eq!(probe[0], "/usr/local/bin/upesi", "the image has no other program");
        crate::support::switch::finish(container.command(&probe[1..])).status.success()
    }
}

/// The status of a response.
fn ask(address: &str, request: &str, host: &str, more: &str) -> u16 {
    let text = format!("{request} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\n{more}\r\n");
    let mut connection = Connection::open(address.parse().unwrap()).unwrap();
    connection.exchange(text.as_bytes()).unwrap().status
}

/// The switch makes only system calls that the unit allows, and maps no memory that is writable and
/// executable, from its start over a payment to its end.
#[test]
fn system_calls_of_the_switch_pass_the_filter_of_the_unit() {
    let Some(sets) = output_of("systemd-analyze", &["syscall-filter"]) else {
        return println!("not checked: there is no systemd-analyze on this machine");
    };
    if output_of("strace", &["-V"]).is_none() {
        return println!("not checked: there is no strace on this machine");
    }
    let unit = read("deploy/systemd/upesi.service");
    let filters: Vec<_> =
        unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")).collect();
    let [allowed, removed] = filters[..] else { panic!("{filters:?}") };
    let removed = calls_of(&sets, removed.strip_prefix('~').unwrap());
    let mut allowed = calls_of(&sets, allowed);
    allowed.retain(|call| !removed.contains(call));
    allowed.extend(calls_of(&sets, "@default"));

    let home = Home::new();
    let (trace, command) = (home.data().with_file_name("trace"), home.command(Ports::free()));
    let mut traced = std::process::Command::new("strace");
    traced.args(["-D", "-f", "-qq", "-o"]).arg(&trace).arg(command.get_program());
    traced.args(command.get_args());
    let switch = home.started(traced);
    let admin = Admin::new(&home, &switch);
    admin.prepare_hub();
    switch.signal(Signal::TERM);
    let (status, complaints) = switch.end();
    assert!(status.success(), "{complaints}");

    let text = fs::read_to_string(&trace).unwrap();
    let calls = text.lines().filter_map(|line| {
        let (_, call) = line.split_once(char::is_whitespace)?;
        let (name, arguments) = call.trim_start().split_once('(')?;
        Some((name, arguments))
            .filter(|_| name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_'))
    });
    let (mut seen, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for (name, arguments) in calls {
        seen.insert(name);
        let is_code = arguments.contains("PROT_WRITE|PROT_EXEC");
        if is_code || !allowed.contains(name) {
            refused.insert(name);
        }
    }
    assert!(seen.contains("fdatasync") && seen.contains("accept4"), "{seen:?}");
    assert!(refused.is_empty(), "{refused:?}");
}

/// The output of a program; `None` if this machine does not have it.
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = std::process::Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

/// The user of the unit sets a scheme up in the directory of the unit, and the drop-in starts it.
#[test]
fn secure_unit_starts_a_scheme_of_init() {
    let test = "deployment::secure_unit_starts_a_scheme_of_init";
    apart(test, Need::Container, || {
        let container = Container::new(&[("/var/lib/upesi", Mount::Data)]);
        let scheme = "/var/lib/upesi/scheme";
        let file = |name: &str| format!("{scheme}/{name}");
        container.run(&["init", "--scheme", "kes", "--to", scheme]).succeeds();
        let unit = read("deploy/systemd/secure.conf");
        let start = unit.lines().rev().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let words = start.split(' ').filter(|word| !word.starts_with('$'));
        let mut words: Vec<_> = words.map(str::to_owned).collect();
        assert_eq!(words.remove(0), "/usr/local/bin/upesi");
        let home = Home::new();
        let switch = home.started(container.command(&words));
        assert_eq!(switch.fspiop.to_string(), "0.0.0.0:4000");
        container.run(&["health"]).succeeds();
        let (ca, token) = (file("tls/ca.pem"), file("administrator.token"));
        let admin = ["--admin", "https://127.0.0.1:3001", "--ca", &ca, "--token", &token];
        let operators = container.run(&[&["operator", "list"], &admin[..]].concat());
        assert!(operators.succeeds().out().contains("administrator"));
        switch.signal(Signal::TERM);
        assert!(switch.end().0.success());
        container.belongs_to_nobody(scheme);
        let (data, heads) = (file("data"), format!("file://{}", file("chain-heads")));
        let key = file("jws/chain-heads.pem");
        let master = format!("file:{}", file("master.key"));
        let heads = ["--heads", &heads, "--key", &key, "--encryption-key", &master];
        container.run(&[&["audit", "verify", "--data", &data], &heads[..]].concat()).succeeds();
    });
}

/// The system calls of a set, and of the sets in it, in the list of systemd.
fn calls_of(sets: &str, set: &str) -> BTreeSet<String> {
    let lines = sets.lines().skip_while(|line| *line != set).skip(1);
    let lines = lines.take_while(|line| line.starts_with(' ')).map(str::trim);
    let mut calls = BTreeSet::new();
    for line in lines.filter(|line| !line.starts_with('#')) {
        match line.starts_with('@') {
            true => calls.extend(calls_of(sets, line)),
            false => drop(calls.insert(line.to_owned())),
        }
    }
    assert!(!calls.is_empty(), "no set {set}");
    calls
}

#[test]
fn health_exit_code_informs_supervisors() {
    let home = Home::configured("[health]\nstuck_seconds = 2\n").with_stalled_stage("sequencer");
    let switch = home.serve();
    let url = format!("http://{}", switch.admin);
    let ask = |more: &[&str]| {
        let mut command = std::process::Command::new(crate::support::switch::PROGRAM);
        command.args(["health", "--admin", &url]).args(more);
        crate::support::switch::finish(command)
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    let ill = loop {
        let output = ask(&[]);
        if !output.status.success() {
            break output;
        }
        assert!(Instant::now() < deadline, "it stays well");
        std::thread::sleep(Duration::from_millis(50));
    };
    let output_text = ill.err();
    assert_eq!(output_text, "upesi: switch: unhealthy (502): sequencer DOWN\n");
    assert!(ask(&["--alive"]).status.success(), "an ill switch lives");
    drop(switch);
    let gone = ask(&["--alive"]);
    assert!(!gone.status.success());
    crate::operations::assert_refuses(&gone, &["/health", &url]);
}

#[test]
fn given_token_is_used_and_none_is_generated() {
    let home = Home::new();
    let token = home.configuration().with_file_name("token");
    let text = format!("[admin]\ntoken_file = {:?}\n", token.display().to_string());
    fs::write(home.configuration(), text).unwrap();
    let refused = home.serve_in_vain(crate::support::switch::Ports::free());
    crate::operations::assert_refuses(&refused, &["admin.token_file", "token", "No such file"]);
    fs::write(&token, TOKEN).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs::set_permissions(&token, open).unwrap();
    let refused = home.serve_in_vain(crate::support::switch::Ports::free());
    crate::operations::assert_refuses(&refused, &["admin.token_file", "accessible to others"]);
    let given = std::os::unix::fs::PermissionsExt::from_mode(0o440);
    fs::set_permissions(&token, given).unwrap();
    let switch = home.serve();
    let known = format!("authorization: Bearer {TOKEN}\r\n");
    let admin = switch.admin.to_string();
    assert_eq!(ask(&admin, "POST /snapshots", "localhost", &known), 202);
    assert!(!home.data().join("admin-token").exists());
    switch.stop(Signal::TERM);
}

/// Every alert has a section in the manual, a link to it, and a case in which it fires and one in
/// which it is silent. `promtool` runs the cases (`monitoring.rs`).
#[test]
fn every_alert_has_a_section_a_link_and_two_cases() {
    const PAGE: &str = "https://upesi.example/docs/operating/alerts.md#";
    let rules = read("deploy/prometheus/rules.yaml");
    let after = |text: &str, prefix: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix(prefix));
        lines.map(str::to_owned).collect()
    };
    let alerts = after(&rules, "- alert: ");
    assert_eq!(after(&read("docs/operating/alerts.md"), "## "), alerts);
    let linked = alerts.iter().map(|alert| format!("\"{PAGE}{}\"", alert.to_lowercase()));
    assert_eq!(after(&rules, "runbook_url: "), linked.collect::<Vec<_>>());
    let cases = after(&read("deploy/prometheus/rules_test.yaml"), "- name: ");
    let both = |alert: &String| [format!("{alert} fires"), format!("{alert} is silent")];
    assert_eq!(cases, alerts.iter().flat_map(both).collect::<Vec<_>>());
}

/// The lines of one alert, without their indentation.
fn alert<'a>(rules: &'a str, name: &str) -> Vec<&'a str> {
    let wanted = format!("- alert: {name}");
    let lines = rules.lines().map(str::trim).skip_while(|line| *line != wanted);
    lines
        .enumerate()
        .take_while(|(at, line)| *at == 0 || !line.starts_with("- "))
        .map(|it| it.1)
        .collect()
}

/// The alert for notices that no participant accepts fires before 10,000 are owed.
#[test]
fn stalled_lane_alert_fires_before_many_notices_are_owed() {
    const OWED_MAX: u64 = 10_000;
    /// A lane counts as stalled after 5 s. Scrape and evaluation intervals are 5 s each.
    const SECONDS_UNTIL_SEEN: u64 = 15;
    const OWED_PER_SECOND: u64 = 600;
    let rules = read("deploy/prometheus/rules.yaml");
    let page = alert(&rules, "UpesiStalledNoticeBacklog");
    assert!(page.contains(&"labels: {severity: page}"), "{page:?}");
    assert!(page.iter().all(|line| !line.starts_with("for:")), "{page:?}");
    let prefix = "expr: sum by (job) (upesi_lanes_stalled_notices) > ";
    let threshold = page.iter().find_map(|line| line.strip_prefix(prefix)).expect("its expression");
    let threshold: u64 = threshold.parse().unwrap();
    let until_seen = threshold.max(OWED_PER_SECOND * SECONDS_UNTIL_SEEN);
    assert!(until_seen < OWED_MAX, "{until_seen}");
}

/// The build context of the image must contain every compiled-in file.
#[test]
fn image_build_receives_all_compiled_in_files() {
    let given = read("deploy/container/Dockerfile.dockerignore");
    let given: Vec<_> = given.lines().filter_map(|line| line.strip_prefix('!')).collect();
    let mut looked_at = 0;
    for file in sources(&root().join("crates")) {
        let text = fs::read_to_string(&file).unwrap();
        for included in text.split("include_str!(\"").skip(1) {
            let Some((path, _)) = included.split_once('"') else { continue };
            let Ok(path) = file.parent().unwrap().join(path).canonicalize() else { continue };
            let path = path.strip_prefix(root().canonicalize().unwrap()).unwrap().to_owned();
            let is_given = given.iter().any(|under| path.starts_with(under));
            assert!(is_given, "{} is not given", path.display());
            looked_at += 1;
        }
    }
    assert!(0 < looked_at);
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let files = crate::support::switch::files(directory);
    // Not part of the program.
    let others = ["xtask", "fuzzing", "tests", "tests.rs"];
    let is_source = |file: &PathBuf| {
        file.extension().is_some_and(|it| it == "rs")
            && !file.iter().any(|part| others.iter().any(|other| part == *other))
    };
    files.into_iter().filter(is_source).collect()
}
