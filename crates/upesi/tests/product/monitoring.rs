//! A real Prometheus reads the metrics of a switch under load and runs the rules and the queries of
//! the boards, and a real Alertmanager sends an alert.

mod messages;
mod published;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use testkit::http::PATIENCE;
use testkit::server::{Inbox, Reply, Server};

use crate::support::fsp::serve;
use crate::support::message::Transfer;
use crate::support::prometheus::{Monitor, program};
use crate::support::scheme::Scheme;
use crate::support::switch::{PROGRAM, Printed, finish};

/// Transfers to a silent participant: more notices than the threshold of the alert.
const UNANSWERED: usize = 1_010;
/// Interval at which a test looks again.
const GLANCE: Duration = Duration::from_millis(200);

/// A directory of `deploy`.
fn deploy(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    directory.canonicalize().unwrap()
}

#[test]
fn each_alert_fires_and_is_silent_in_its_cases() {
    for arguments in [
        &["check", "rules", "--lint-fatal", "rules.yaml"][..],
        &["test", "rules", "rules_test.yaml"],
    ] {
        let mut tool = program("promtool");
        tool.args(arguments).current_dir(deploy("prometheus"));
        finish(tool).succeeds();
    }
}

/// Participants that pay each other, as a process. It is killed when this is dropped.
struct Load(Child);

impl Load {
    fn start(scheme: &Scheme) -> Self {
        let mut command = Command::new(PROGRAM);
        let hub = |address| format!("http://{address}");
        command.args(["simulate", "--hub", &hub(scheme.switch.fspiop)]);
        command.args(["--admin", &hub(scheme.switch.admin), "--token"]);
        command.arg(scheme.home.data().join("admin-token"));
        command.args(["--rate", "20", "--fsps", "4", "--subscribers", "10"]);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// A switch under load, with all that looks at it.
struct Monitored {
    scheme: Scheme,
    prometheus: Monitor,
    /// A Prometheus that prefers native histograms.
    native: Monitor,
    alerts: Arc<Inbox<Vec<Value>>>,
    _alertmanager: Monitor,
    _receiver: Server,
    _load: Load,
    _backup: TempDir,
}

impl Monitored {
    fn start() -> Self {
        let backup = tempfile::tempdir().unwrap();
        let scheme = Scheme::configured(&format!(
            "[backup]\nto = \"file://{}\"\nevery_seconds = 1\n",
            backup.path().display()
        ));
        let alerts: Arc<Inbox<Vec<Value>>> = Arc::default();
        let received = Arc::clone(&alerts);
        let receiver = serve(move |webhook| {
            received.put(|all| all.push(serde_json::from_slice(&webhook.body).unwrap()));
            Reply::Status(200)
        });
        let alertmanager = Monitor::alertmanager(&format!(
            "route: {{receiver: test, group_by: [alertname], group_wait: 0s}}\n\
             receivers: [{{name: test, webhook_configs: [{{url: 'http://{}/'}}]}}]\n",
            receiver.address()
        ));
        let scrape = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             scrape_configs: [{{job_name: upesi, static_configs: [{{targets: ['{}']}}]}}]\n",
            scheme.switch.admin
        );
        let rules = format!(
            "{scrape}rule_files: ['{}']\n\
             alerting: {{alertmanagers: [{{static_configs: [{{targets: ['{}']}}]}}]}}\n",
            deploy("prometheus").join("rules.yaml").display(),
            alertmanager.address
        );
        let prometheus = Monitor::prometheus(&rules, "");
        let native = Monitor::prometheus(&scrape, ",native-histograms");
        let load = Load::start(&scheme);
        Self {
            scheme,
            prometheus,
            native,
            alerts,
            _alertmanager: alertmanager,
            _receiver: receiver,
            _load: load,
            _backup: backup,
        }
    }

    /// A transfer with an invalid amount.
    fn send_refused_request(&self) {
        let answer = self.scheme.ask(&Transfer::of("one").prepare());
        assert_eq!(answer.status, 400, "{}", answer.text());
    }

    /// Messages of all kinds, of which the load sends only some.
    fn send_each_message(&self) {
        for message in messages::all() {
            let answer = self.scheme.ask(&message);
            assert!([200, 202].contains(&answer.status), "{message:?}: {}", answer.text());
        }
    }

    /// Owes one participant more notices than it may without an alert.
    fn silence_one_participant(&self) {
        self.scheme.other.answer(|_| Reply::Silence);
        std::thread::scope(|threads| {
            for _ in 0..8 {
                let fspiop = self.scheme.switch.fspiop;
                threads.spawn(move || {
                    let mut connection = testkit::http::Connection::open(fspiop).unwrap();
                    for _ in 0..UNANSWERED.div_ceil(8) {
                        let transfer =
                            Transfer { payee: "otherfsp".into(), ..Transfer::of("0.01") };
                        let answer = connection.exchange(&transfer.prepare().render()).unwrap();
                        assert_eq!(answer.status, 202, "{}", answer.text());
                    }
                });
            }
        });
    }
}

/// Asks until the answer holds.
#[track_caller]
fn until<T>(what: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + 2 * PATIENCE;
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(found) => assert!(Instant::now() < deadline, "{what}: {found}"),
        }
        std::thread::sleep(GLANCE);
    }
}

#[test]
fn prometheus_reads_metrics_and_boards_and_alertmanager_sends_an_alert() {
    let monitored = Monitored::start();
    monitored.silence_one_participant();
    targets_are_up(&monitored);
    boards_have_data(&monitored);
    published::queries_are_answered_as_listed(&monitored);
    exemplars_are_kept(&monitored.prometheus);
    native_histograms_arrive(&monitored.native);
    alert_is_received(&monitored);
    rules_are_evaluated(&monitored.prometheus);
}

fn targets_are_up(monitored: &Monitored) {
    for prometheus in [&monitored.prometheus, &monitored.native] {
        until("targets", || {
            let targets = prometheus.ask("targets", &[]);
            let target = &targets["activeTargets"][0];
            (target["health"] == "up").then_some(()).ok_or(target.to_string())
        });
    }
}

fn exemplars_are_kept(prometheus: &Monitor) {
    let exemplars = |histogram: &str| {
        let form = [("query", histogram), ("start", "0"), ("end", "9999999999")];
        let found = prometheus.ask("query_exemplars", &form);
        let trace = found[0]["exemplars"][0]["labels"]["trace_id"].as_str().map(str::len);
        (trace == Some(32)).then_some(()).ok_or(found.to_string())
    };
    for histogram in ["upesi_request_seconds_bucket", "upesi_transfer_commit_seconds_bucket"] {
        until(histogram, || exemplars(histogram));
    }
}

fn native_histograms_arrive(prometheus: &Monitor) {
    until("a native histogram", || {
        let found = prometheus.query("upesi_request_seconds");
        let is_native = |series: &Value| series["histogram"][1]["buckets"].is_array();
        (!found.is_empty() && found.iter().all(is_native)).then_some(()).ok_or(format!("{found:?}"))
    });
    let median = "histogram_quantile(0.5, sum(rate(upesi_request_seconds[1m]))) > 0";
    until(median, || match prometheus.query(median).as_slice() {
        [_] => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

fn alert_is_received(monitored: &Monitored) {
    let wanted = |notification: &Value| {
        let alerts = notification["alerts"].as_array().unwrap();
        alerts.iter().find(|it| it["labels"]["alertname"] == "UpesiStalledNoticeBacklog").cloned()
    };
    let alert = monitored.alerts.wait(4 * PATIENCE, |all| all.iter().find_map(wanted));
    let alert = alert.unwrap_or_else(|| panic!("{:?}", monitored.alerts.lock()));
    assert_eq!(alert["status"], "firing");
    assert_eq!(alert["labels"]["severity"], "page");
    let summary = alert["annotations"]["summary"].as_str().unwrap();
    assert!(summary.ends_with("callbacks are owed to participants that accept none"), "{summary}");
}

fn rules_are_evaluated(prometheus: &Monitor) {
    let groups = prometheus.ask("rules", &[]);
    let rules: Vec<&Value> = groups["groups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap())
        .collect();
    assert!(30 < rules.len(), "{groups}");
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
}

/// Queries of boards that have no data in this run, by the title of their panel, with the reason.
const WITHOUT_DATA: [(&str, &str); 5] = [
    ("Upesi: log and storage: Time until the disk is full", "the growth is that of a day"),
    ("Upesi: cluster: Live nodes", IN_FILES),
    ("Upesi: cluster: Silence of a node", IN_FILES),
    ("Upesi: cluster: Silence of the brokers", IN_FILES),
    ("Upesi: cluster: Messages not applied", IN_FILES),
];
const IN_FILES: &str = "the log is in files, not on Kafka";

/// Each query of each board.
fn queries() -> Vec<(String, String)> {
    let mut queries = Vec::new();
    for file in deploy("grafana/dashboards").read_dir().unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let board: Value = serde_json::from_str(&text).unwrap();
        for panel in board["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                let title = format!("{}: {}", text(&board["title"]), text(&panel["title"]));
                queries.push((title, text(&target["expr"])));
            }
        }
    }
    queries
}

/// Grafana replaces its variables before it sends a query.
fn replaced(expression: &str) -> String {
    let values = [
        ("$__rate_interval", "1m"),
        ("${__range_s}", "60"),
        ("$job", "upesi"),
        ("$instance", ".+"),
        ("$participant", "fsp202"),
        ("$currency", "USD"),
    ];
    values.iter().fold(expression.to_owned(), |text, (name, value)| text.replace(name, value))
}

fn boards_have_data(monitored: &Monitored) {
    let reasons: BTreeMap<_, _> = WITHOUT_DATA.into_iter().collect();
    let queries = queries();
    assert!(80 < queries.len(), "{}", queries.len());
    until("queries without data", || {
        monitored.send_refused_request();
        let has_data =
            |expression: &str| !monitored.prometheus.query(&replaced(expression)).is_empty();
        let wrong: Vec<_> = queries
            .iter()
            .filter(|(title, expression)| {
                has_data(expression) == reasons.contains_key(title.as_str())
            })
            .collect();
        wrong.is_empty().then_some(()).ok_or(format!("{wrong:#?}"))
    });
}
