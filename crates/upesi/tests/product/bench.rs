//! Short measurements: their output, and the conditions that make a run void.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::faults::fill_up;
use crate::support::namespaces::{Mounted, Need, apart, run};
use crate::support::relay::{Relay, replace_in};
use crate::support::switch::{Home, PROGRAM, Printed, finish, finish_within, laboratory};

/// The members of a result that scripts rely on.
pub(crate) const MEMBERS: [&str; 35] = [
    "rate_per_s",
    "failed",
    "verified",
    "latency_ms",
    "legs_ms",
    "switch_cpu_ms_per_tx",
    "switch_rss_mb",
    "syncs_per_tx",
    "log_bytes_per_tx",
    "cost_per_million",
    "machine",
    "durability",
    "scenario",
    "achieved_per_s",
    "dropped",
    "valid",
    "books_compared",
    "invalid_because",
    "checks",
    "harness_cpu_ms_per_tx",
    "steady",
    "trimmed",
    "whole_run",
    "accepted_ms",
    "distribution_ms",
    "histogram_ms",
    "system_calls",
    "durability_of",
    "security",
    "payload",
    "stored_transfers",
    "environment",
    "spread",
    "configuration",
    "seconds_one_by_one",
];

/// Time limit of a run of twelve seconds on a full disk. Waiting for open transfers would take
/// longer.
const SOON: Duration = Duration::from_secs(40);

/// Time limit of a run, which starts many switches in turn.
const RUN: Duration = Duration::from_secs(300);

fn bench(arguments: &[&str]) -> Output {
    let mut command = laboratory();
    command.args(arguments);
    finish_within(command, RUN)
}

/// Starts a run and waits for its measured part. Returns the run and its further log lines.
fn measuring(arguments: &[&str]) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = laboratory()
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut lines = lines.map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("measuring")), "the measured part never began");
    (child, lines)
}

pub(crate) fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).expect("the results are written");
    serde_json::from_str(&text).expect("the results are JSON")
}

fn text_of(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// Makes a short run of one scenario, which must be valid. Returns its result.
fn measure(scenario: &str, more: &[&str]) -> Value {
    let place = TempDir::new().unwrap();
    let json = place.path().join("out.json");
    let short = ["--warmup", "0.1", "--subscribers", "20", "--json", json.to_str().unwrap()];
    let output = bench(&[&[scenario], &short[..], more].concat());
    assert!(output.status.success(), "{}", text_of(&output));
    read(&json)
}

#[test]
fn every_scenario_gives_a_valid_result() {
    for scenario in ["transfer", "prepare", "fulfil", "lookup", "quote", "whole"] {
        let result = measure(scenario, &["--count", "200", "--concurrency", "8", "--fsps", "4"]);
        for member in MEMBERS {
            assert!(!result[member].is_null(), "{scenario}: {member} is missing: {result}");
        }
        for open in ["ceiling", "ratio_to_ceiling", "offered_per_s"] {
            assert_eq!(result.get(open), Some(&Value::Null), "{scenario}: {open}");
        }
        assert_eq!(result["valid"], Value::from(true), "{scenario}");
        assert_eq!(result["whole_run"]["ended"], Value::from(200), "{scenario}");
        assert_eq!(result["confirm_to_payee"], Value::from(false), "{scenario}");
        let steady = result["steady"]["ended"].as_u64();
        assert!(steady.is_some_and(|ended| (170..=173).contains(&ended)), "{scenario}: {result}");
        for (figure, value) in result["cost_per_million"].as_object().unwrap() {
            // Look-ups and quotes leave no record, and CPU time is counted in ticks of 10 ms.
            let least = if figure == "network_mb" { 1.0 } else { 0.0 };
            assert!(value.as_f64().is_some_and(|it| least <= it), "{scenario} {figure}: {value}");
        }
        // Every message is received, answered and sent; several may share a call.
        for calls in ["socket_reads_per_tx", "socket_writes_per_tx"] {
            let each = result["system_calls"][calls].as_f64();
            assert!(each.is_some_and(|each| (0.5..20.0).contains(&each)), "{scenario}: {result}");
        }
    }
}

#[test]
fn windows_are_closed_and_settled_under_load() {
    let arguments = ["settlement", "--seconds", "6", "--closes", "2", "--warmup", "0.2", "--json"];
    let result = bench(&arguments).succeeds().json();
    assert_eq!((&result["valid"], &result["failed"]), (&true.into(), &0.into()), "{result}");
    let closes = result["closes"].as_array().unwrap();
    assert_eq!(closes.len(), 2, "{closes:?}");
    for (window, close) in (1..).zip(closes) {
        assert_eq!(close["window"], window);
        assert!(0 < close["transfers"].as_u64().unwrap(), "{close}");
        assert!(0.0 < close["ratio"].as_f64().unwrap(), "{close}");
        assert_eq!(close["steps_ms"].as_array().unwrap().len(), 4);
    }
    assert_eq!(result["p99_ratio"]["seconds"], 2);
    let one = bench(&["settlement", "--window-transfers", "10k", "--json"]).succeeds().json();
    assert_eq!((&one["transfers"], &one["accounts"]), (&10_000.into(), &1_000.into()), "{one}");
    assert_eq!(one["steps"].as_array().unwrap().len(), 6);
}

#[test]
fn runs_on_few_cores_name_the_next_limit() {
    let output =
        bench(&["scale", "--cores", "1", "--seconds", "1", "--concurrency", "8", "--json"]);
    let report = json_of(&output);
    assert_eq!(report["valid"], true, "{report}");
    let run = &report["runs"][0];
    let (rate, idle) = (run["rate_per_s"].as_f64(), run["idle"].as_f64());
    assert_eq!((run["cores"].as_u64(), run["per_core_second"].as_f64()), (Some(1), rate));
    assert!(idle.is_some_and(|idle| (0.0..1.0).contains(&idle)), "{run}");
    let threads = run["threads_cpu_us"].as_object().expect("threads by name");
    assert!(threads.contains_key("io") && threads.contains_key("sequencer"), "{threads:?}");
    let computed = report["computed"].as_array().expect("computed rates");
    assert_eq!(computed.len(), 5);
    assert!(report["next_limit"].as_str().is_some_and(|limit| limit.contains("1 core")));
    let refused = bench(&["scale", "--cores", "0"]).err();
    assert!(refused.ends_with("--cores: expected numbers from 1 on\n"), "{refused}");
}

#[test]
fn open_skewed_run_reports_its_shares_and_writes_a_page() {
    let place = TempDir::new().unwrap();
    let page = place.path().join("out.html");
    let page_name = page.to_str().unwrap();
    let result = measure(
        "transfer",
        &["--seconds", "2", "--rate", "300", "--pairs", "skewed", "--report", page_name],
    );
    let share = |name: &str| result["spread"][name].as_f64().unwrap();
    assert!((share("largest_payer") - 0.70).abs() < 0.02, "{result}");
    assert!((share("largest_payee") - 0.49).abs() < 0.02, "{result}");
    assert_eq!(result["offered_per_s"], Value::from(300.0));
    assert_eq!(result["dropped"], Value::from(0));
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("default-src 'none'"), "the page makes no requests");
    let shown = shown_in(&html);
    assert_eq!((&shown["view"], &shown["report"]), (&"bench".into(), &result));
    assert!(shown["texts"][0].as_str().unwrap().contains("valid           yes"), "{shown}");
}

/// The data that a page shows.
fn shown_in(html: &str) -> Value {
    let (_, rest) = html.split_once("id=\"data\">").expect("a page has data");
    let (json, _) = rest.split_once("</script>").expect("the element is closed");
    serde_json::from_str(json).expect("JSON")
}

/// Options of a very short run.
const MOMENT: [&str; 10] =
    ["lookup", "--count", "50", "--fsps", "2", "--warmup", "0", "--subscribers", "20", "--json"];

/// Makes a very short run with this standard output.
fn bench_into(output: impl Into<Stdio>) -> Output {
    let mut command = laboratory();
    let command = command.args(MOMENT).stdin(Stdio::null()).stdout(output);
    command.stderr(Stdio::piped()).output().unwrap()
}

#[test]
fn results_are_appended_to_standard_output() {
    let place = TempDir::new().unwrap();
    let all = place.path().join("all.json");
    std::fs::write(&all, "{\"earlier\": true}\n").unwrap();
    let appended = std::fs::OpenOptions::new().append(true).open(&all).unwrap();
    let output = bench_into(appended);
    assert!(output.status.success(), "{}", text_of(&output));
    let text = std::fs::read_to_string(&all).unwrap();
    let rest = text.strip_prefix("{\"earlier\": true}\n").expect("the earlier content remains");
    let result: Value = serde_json::from_str(rest).unwrap();
    assert_eq!(result["valid"], Value::from(true));

    let (ours, theirs) = UnixStream::pair().unwrap();
    let reader = std::thread::spawn(move || {
        let (mut ours, mut text) = (ours, String::new());
        ours.read_to_string(&mut text).map(|_| text)
    });
    let output = bench_into(OwnedFd::from(theirs));
    assert!(output.status.success(), "{}", text_of(&output));
    let result: Value = serde_json::from_str(&reader.join().unwrap().unwrap()).unwrap();
    assert_eq!(result["valid"], Value::from(true));
}

#[test]
fn refused_options_leave_earlier_results_unchanged() {
    let place = TempDir::new().unwrap();
    let old = place.path().join("old.json");
    let name = old.to_str().unwrap();
    for arguments in [
        &["transfer", "--seconds", "0", "--json", name][..],
        &["sweep", "disk", "--syncs-per-second", "0", "--json", name],
        &["sweep", "batching", "--seconds", "0", "--json", name],
        &["harness", "--seconds", "0", "--json", name],
        &["transfer", "--program", "/nowhere/upesi", "--json", name],
    ] {
        std::fs::write(&old, "earlier").unwrap();
        let output = bench(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "earlier", "{arguments:?}");
    }
}

#[test]
fn run_with_many_dropped_units_is_void() {
    let many = ["--rate", "20000", "--backlog", "1", "--seconds", "0.5"];
    let output = bench(&[&["lookup", "--fsps", "2", "--warmup", "0"], &many[..]].concat());
    let text = text_of(&output);
    assert!(!output.status.success() && text.contains("VOID"), "{text}");
    assert!(text.contains("units were dropped") && text.contains("lower --rate"), "{text}");
}

const TRANSFERS: [&str; 5] = ["transfer", "--count", "500", "--concurrency", "16"];

/// Makes a run through a relay of callbacks. Returns the number of callbacks that the relay lost.
fn measure_through(callbacks: Relay, what: &[&str]) -> (Output, Value, u64) {
    let home = Home::configured("[transfers]\nconfirm_to_payee = false\n");
    let switch = home.serve();
    let admin = Relay::of_admin(switch.admin, callbacks.address());
    let results = TempDir::new().unwrap();
    let (json, token) = (results.path().join("out.json"), home.data().join("admin-token"));
    let (hub, admin_url) =
        (format!("http://{}", switch.fspiop), format!("http://{}", admin.address()));
    let place = ["--hub", &hub, "--admin", &admin_url, "--token", token.to_str().unwrap()];
    let short = ["--fsps", "2", "--subscribers", "20", "--warmup", "0", "--timeout", "2"];
    let json_name = ["--json", json.to_str().unwrap()];
    let output = bench(&[what, &place[..], &short, &json_name].concat());
    let lost = callbacks.lost();
    drop((callbacks, admin));
    (output, read(&json), lost)
}

#[test]
fn run_with_one_percent_lost_callbacks_is_void() {
    let (output, result, lost) = measure_through(Relay::of_callbacks(100), &TRANSFERS);
    assert!(lost >= 5, "{lost} lost; {}", text_of(&output));
    assert!(!output.status.success(), "{}", text_of(&output));
    assert!(output.out().contains("VOID"), "{}", text_of(&output));
    assert_eq!(result["valid"], Value::from(false));
    let failed = |name: &str| {
        let checks = result["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == name).expect(name);
        assert_eq!(check["passed"], Value::from(false), "{check}");
        check["problems"][0].as_str().unwrap().to_owned()
    };
    let hung = failed("each unit received its callback in time");
    assert!(hung.contains(" of 500 units"), "{hung}");
    failed("the hub's counters agree with the FSPs");
}

#[test]
fn run_through_a_lossless_relay_is_valid() {
    let (output, result, lost) = measure_through(Relay::of_callbacks(0), &TRANSFERS);
    assert!(output.status.success(), "{}", text_of(&output));
    assert_eq!((lost, &result["valid"]), (0, &Value::from(true)));
    assert_eq!(result["system_calls"], Value::Null, "the process is not known");
}

/// The last line of standard error of a run, which must be void.
fn last_line(output: &Output) -> String {
    assert!(!output.status.success(), "{}", text_of(output));
    assert!(output.out().contains("VOID"), "{}", text_of(output));
    let errors = output.err();
    errors.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn short_runs_and_sufficient_stocks_are_valid() {
    for arguments in [
        &["lookup", "--seconds", "0.3"][..],
        &["transfer", "--seconds", "0.3", "--rate", "20"],
        &["fulfil", "--seconds", "0.3", "--rate", "20"],
        &["fulfil", "--count", "50", "--rate", "50"],
        &["fulfil", "--count", "50", "--stock", "50"],
    ] {
        let output = bench(&[arguments, &["--fsps", "2", "--subscribers", "20"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", text_of(&output));
    }
}

#[test]
fn exhausted_stock_ends_the_run_and_makes_it_void() {
    let output = bench(&["fulfil", "--stock", "40", "--seconds", "60", "--fsps", "2"]);
    let last = last_line(&output);
    assert!(last.contains("the stock of 40 transfers was used up after"), "{last}");
}

/// The first of two adjacent free ports.
fn free_pair() -> String {
    let pair = || {
        let first = TcpListener::bind("127.0.0.1:0").ok()?;
        let port = first.local_addr().ok()?.port();
        TcpListener::bind(("127.0.0.1", port.checked_add(1)?)).ok().map(|_| port.to_string())
    };
    (0..100).find_map(|_| pair()).expect("two adjacent ports are free")
}

#[test]
fn unreachable_hub_is_the_first_cause_of_a_void_run() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let hub = format!("http://{closed}");
    let port = free_pair();
    let known = ["--existing", "--port", &port];
    let short = ["--timeout", "1", "--seconds", "0.5", "--warmup", "0"];
    let output = bench(&[&["lookup", "--fsps", "2", "--hub", &hub], &known[..], &short].concat());
    let last = last_line(&output);
    assert!(last.contains("connections to the hub could not be opened"), "{last}");
    assert!(last.contains(&closed.to_string()) && last.contains("refused"), "{last}");
    assert!(!text_of(&output).contains("timed out"), "nothing was sent: {}", text_of(&output));
}

#[test]
fn run_with_mismatched_parties_is_void() {
    let home = Home::configured("[transfers]\nconfirm_to_payee = false\n");
    let switch = home.serve();
    let relay = Relay::of_hub(switch.fspiop, |request| {
        if request.method == "GET" {
            request.path = request.path.replace("MSISDN/255202", "MSISDN/255204");
        }
    });
    let (hub, admin) = (format!("http://{}", relay.address()), format!("http://{}", switch.admin));
    let token = home.data().join("admin-token");
    let place = ["--hub", &hub, "--admin", &admin, "--token", token.to_str().unwrap()];
    let size = ["--fsps", "4", "--count", "100", "--warmup", "0", "--subscribers", "20"];
    let output = bench(&[&["lookup"], &place[..], &size].concat());
    let (last, all) = (last_line(&output), text_of(&output));
    drop(relay);
    assert!(all.contains("FAILED  every response matched its request"), "{all}");
    assert!(all.contains("PUT /parties contains 2552040"), "{all}");
    assert!(all.contains(" of fsp202"), "{all}");
    assert!(last.contains(" wrong, such as: PUT /parties contains"), "{last}");
}

#[test]
fn run_with_altered_callbacks_is_void_for_that_reason() {
    let changing = Relay::of_changed_callbacks;
    for (scenario, changed, expected) in [
        (
            "transfer",
            changing(|it| {
                replace_in(it, "POST /transfers", r#""condition":""#, r#""condition":"A"#)
            }),
            " wrong, such as: POST /transfers to fsp20",
        ),
        (
            "transfer",
            changing(|it| replace_in(it, "PUT /transfers/", "COMMITTED", "RESERVED")),
            " wrong, such as: PUT /transfers to fsp20",
        ),
        (
            "quote",
            changing(|it| replace_in(it, "PUT /quotes/", r#""condition":""#, r#""condition":"A"#)),
            ": invalid callback",
        ),
        (
            "quote",
            changing(|it| replace_in(it, "PUT /quotes/", r#""ilpPacket":"A"#, r#""ilpPacket":"B"#)),
            " wrong, such as: PUT /quotes of fsp20",
        ),
        (
            "prepare",
            changing(|it| replace_in(it, "PUT /transfers/", r#""fulfilment":""#, r#""other":""#)),
            ": wrong fulfilments: ",
        ),
        ("lookup", changing(|it| it.headers.set("fspiop-destination", "fsp299")), " for fsp299"),
    ] {
        let (output, result, _) = measure_through(changed, &[scenario, "--count", "200"]);
        let last = last_line(&output);
        let first = result["invalid_because"][0].as_str().unwrap();
        let all = text_of(&output);
        assert!(all.contains(expected), "{scenario}: {all}");
        let is_cause = !expected.starts_with(": ");
        assert!(!is_cause || last.contains(expected), "{scenario}: {last}");
        assert!(!is_cause || first.contains(expected), "{scenario}: {first}");
    }
}

/// Each hung unit blocks its slot until its timeout, and a single one makes the run void.
#[test]
fn counted_run_that_is_already_void_ends_early() {
    let many = ["transfer", "--count", "100000", "--concurrency", "64"];
    let (output, result, lost) = measure_through(Relay::of_callbacks(3), &many);
    assert!(!output.status.success() && 100 <= lost, "{lost} lost; {}", text_of(&output));
    let ended = result["whole_run"]["ended"].as_u64().unwrap();
    assert!(ended < 10_000, "{ended} succeeded");
    assert!(
        last_line(&output).contains("prepares to the hub, payees received"),
        "{}",
        text_of(&output)
    );
    assert!(
        text_of(&output).contains("units timed out without a callback"),
        "{}",
        text_of(&output)
    );
}

/// A run is given up after the timeout if the hub accepts registrations and sends no callbacks.
#[test]
fn unconfirmed_registrations_time_out() {
    let home = Home::configured("");
    let switch = home.serve();
    let callbacks = Relay::of_changed_callbacks(|request| {
        request.path = request.path.replace("/participants", "/elsewhere");
    });
    let admin = Relay::of_admin(switch.admin, callbacks.address());
    let (hub, admin) = (format!("http://{}", switch.fspiop), format!("http://{}", admin.address()));
    let token = home.data().join("admin-token");
    let place = ["--hub", &hub, "--admin", &admin, "--token", token.to_str().unwrap()];
    let began = Instant::now();
    let short = ["--fsps", "2", "--subscribers", "20", "--timeout", "2.5"];
    let output = bench(&[&["lookup"], &place[..], &short].concat());
    assert!(!output.status.success() && began.elapsed().as_secs() < 30, "{}", text_of(&output));
    let expected = "20 of 20 registrations have no callback; none arrived within 2.5s";
    assert!(text_of(&output).contains(expected), "{}", text_of(&output));
    assert!(
        text_of(&output).contains("0 of 40 subscribers registered (0.0%)"),
        "{}",
        text_of(&output)
    );
}

#[test]
fn run_without_an_admin_api_reports_that_no_accounts_were_compared() {
    let home = Home::configured("[transfers]\nconfirm_to_payee = false\n");
    let switch = home.serve();
    let port = free_pair();
    let (hub, admin) = (format!("http://{}", switch.fspiop), format!("http://{}", switch.admin));
    let token = home.data().join("admin-token");
    let size = ["transfer", "--hub", &hub, "--fsps", "2", "--count", "40", "--warmup", "0"];
    let run = |more: &[&str]| {
        let output = bench(&[&size[..], &["--port", &port], more].concat());
        assert!(output.status.success(), "{}", text_of(&output));
        text_of(&output)
    };
    let known = run(&["--admin", &admin, "--token", token.to_str().unwrap()]);
    assert!(known.contains("valid           yes\n"), "{known}");
    let place = TempDir::new().unwrap();
    let json = place.path().join("out.json");
    let unknown = run(&["--existing", "--json", json.to_str().unwrap()]);
    assert!(unknown.contains("valid           yes, without the hub's accounts"), "{unknown}");
    let result = read(&json);
    assert_eq!((&result["valid"], &result["books_compared"]), (&true.into(), &false.into()));
}

#[test]
fn positions_are_compared_in_the_currency_of_the_run() {
    let place = TempDir::new().unwrap();
    let data = place.path().join("data");
    let skewed = ["--pairs", "skewed", "--fsps", "4", "--count", "50", "--warmup", "0"];
    for currency in ["USD", "EUR"] {
        let kept = ["transfer", "--currency", currency, "--data", data.to_str().unwrap()];
        let output = bench(&[&kept[..], &skewed].concat());
        assert!(output.status.success(), "{currency}: {}", text_of(&output));
    }
}

#[test]
fn invalid_options_are_refused_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let closed = "http://127.0.0.1:9";
    for (arguments, expected) in [
        (&["transfer", "--rate", "0"][..], "--rate: expected 0.01 to 1000000 per second"),
        (&["transfer", "--seconds", "0"], "--seconds: expected 0.1 to 86400"),
        (&["transfer", "--program", "/nowhere/upesi"], "/nowhere/upesi"),
        (&["transfer", "--port", &port], "fsp201"),
        (&["transfer", "--hub", closed, "--admin", closed], "refused"),
        (&["transfer", "--hub", closed], "--existing"),
        (&["transfer", "--data", "/proc/nowhere"], "/proc/nowhere"),
        (&["transfer", "--pairs", "skewed", "--fsps", "2"], "4 to 64"),
        (&["fulfil", "--rate", "1000000", "--seconds", "9"], "--stock"),
        (&["fulfil", "--fsps", "2", "--stock", "450000"], "raise --fsps"),
        (&["fulfil", "--count", "100", "--stock", "10"], "--stock 10: too small, --count 100"),
        (&["fulfil", "--rate", "1000", "--seconds", "5", "--stock", "10"], "fulfils 5000"),
        (&["transfer", "--rate", "500", "--ceiling"], "--ceiling: not with --rate"),
        (&["transfer", "--hub", closed, "--existing", "--pid", "4294967295"], "--pid"),
        (&["transfer", "--hub", closed, "--existing"], "--existing: requires --port"),
        (
            &["sweep", "disk", "--syncs-per-second", "0"],
            "--syncs-per-second: expected 1 to 1000000",
        ),
        (&["transfers"], "unrecognized subcommand"),
        (&["sweep", "expiry", "--count", "0"], "--count: expected 1 to 1000000"),
        (&["sweep", "growth", "--sizes", "900M"], "choose smaller --sizes, or --data DIR"),
        (&["sweep", "growth", "--aliases", "10k"], "--aliases: expected 0, or more than 10k"),
        (&["sweep", "growth", "--sizes", "few"], "invalid number 'few'"),
        (&["sweep", "hour", "--rate", "0"], "--rate: expected 0.01 to 1000000 per second"),
        (&["sweep", "coil", "--json", "/nowhere/out.json"], "/nowhere/out.json"),
        (&["transfer", "--pairs", "crooked"], "uniform or skewed"),
        (&["transfer", "--nodes", "3", "--upgrade", "/nowhere/upesi"], "--upgrade /nowhere/upesi"),
    ] {
        let errors = bench(arguments).fails();
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
        let ours = errors.lines().filter(|line| line.starts_with("upesi: ")).count();
        assert!(ours == 1 || errors.contains("error: "), "{arguments:?}: {errors}");
    }
}

#[test]
fn cut_is_refused_in_a_network_with_a_route_out() {
    let test = "bench::cut_is_refused_in_a_network_with_a_route_out";
    apart(test, Need::Network, || {
        run("ip", &["link", "set", "lo", "up"]);
        run("ip", &["link", "add", "out", "type", "veth", "peer", "name", "far"]);
        run("ip", &["link", "set", "out", "up"]);
        let errors = bench(&["transfer", "--nodes", "3", "--kill", "cut"]).fails();
        assert!(errors.contains("unshare --user --map-root-user --net"), "{errors}");
        let routes = std::fs::read_to_string("/proc/self/net/fib_trie").unwrap();
        assert!(!routes.contains("10.77.0."), "addresses were added: {routes}");
    });
}

#[test]
fn sweep_compares_its_runs_with_the_published_figures() {
    let place = TempDir::new().unwrap();
    let (json, page) = (place.path().join("out.json"), place.path().join("out.html"));
    let (json_name, page_name) = (json.to_str().unwrap(), page.to_str().unwrap());
    let files = ["--json", json_name, "--report", page_name];
    let output = bench(&[&["sweep", "coil", "--quick"], &files[..]].concat());
    assert!(output.status.success(), "{}", text_of(&output));
    let result = read(&json);
    assert_eq!((&result["valid"], &result["sweep"]), (&Value::from(true), &Value::from("coil")));
    let steps = result["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 9, "five batch sizes, four concurrencies");
    for step in steps {
        assert_eq!(step["result"]["valid"], Value::from(true), "{step}");
        assert_eq!(step["result"]["whole_run"]["ended"], Value::from(200), "{step}");
    }
    let [single, many] = [&steps[0], &steps[4]];
    assert_eq!(single["name"], "batch 1, 100 in flight");
    assert_eq!(single["published"][1]["rate_per_s"], Value::from(71.0));
    // A prepare and a fulfilment have separate syncs, which recorded deliveries may share.
    let syncs = |step: &Value| step["result"]["syncs_per_tx"].as_f64().unwrap();
    assert!(syncs(single) >= 2.0 && syncs(many) < syncs(single), "{single} {many}");
    for member in ["title", "work", "hardware", "durability", "left_out"] {
        assert!(result["published"][0][member].is_string(), "{member}");
    }
    let shown = shown_in(&std::fs::read_to_string(&page).unwrap());
    assert_eq!((&shown["view"], &shown["report"]), (&"sweep".into(), &result));
    assert_eq!(shown["texts"].as_array().unwrap().len(), 9, "the terminal text of each run");
}

#[test]
fn switch_with_injected_sync_delay_reports_it_at_start() {
    let place = TempDir::new().unwrap();
    let any = "127.0.0.1:0";
    let mut child = Command::new(PROGRAM)
        .args(["serve", "--fspiop", any, "--admin", any, "--inject-sync-delay-us=1500"])
        .args(["--inject-sync-per-second=500", "--data", place.path().to_str().unwrap()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let lines = lines.map_while(Result::ok);
    let greeting: Vec<_> = lines.take_while(|line| !line.contains("ready")).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    let injected = "INJECTED: each sync takes 1.5ms longer, one sync every 2ms at most";
    assert!(greeting.iter().any(|line| line.contains(injected)), "{greeting:?}");
}

#[test]
fn interrupted_run_prints_its_results_and_is_void() {
    let (mut child, errors) =
        measuring(&["quote", "--seconds", "600", "--fsps", "2", "--warmup", "0"]);
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    kill_process(id.expect("a process id"), Signal::INT).unwrap();
    let rest: Vec<String> = errors.collect();
    let status = child.wait().unwrap();
    let mut output = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut output).unwrap();
    assert!(!status.success() && output.contains("VOID"), "{output} {rest:?}");
    assert!(output.contains("interrupted"), "{output}");
}

#[test]
fn run_on_a_full_disk_ends_early_and_names_the_cause() {
    let test = "bench::run_on_a_full_disk_ends_early_and_names_the_cause";
    apart(test, Need::Memory, || {
        let place = TempDir::new().unwrap();
        let disk = place.path().join("disk");
        let _mounted = Mounted::memory(&disk, 256);
        let data = disk.join("data");
        let started = Instant::now();
        // The switch checks its disk every ten seconds.
        let short = ["--seconds", "12", "--warmup", "0.1", "--fsps", "2", "--subscribers", "20"];
        let into = ["--data", data.to_str().unwrap()];
        let (child, lines) = measuring(&[&["transfer"], &short[..], &into].concat());
        fill_up(&disk.join("ballast"));
        let rest: Vec<String> = lines.collect();
        let output = child.wait_with_output().unwrap();
        let text = output.out();
        assert!(!output.status.success() && text.contains("VOID"), "{text} {rest:?}");
        assert!(text.contains("its disk is full"), "{text} {rest:?}");
        assert!(started.elapsed() < SOON, "{:?}: {rest:?}", started.elapsed());
    });
}

#[test]
fn the_ceiling_is_measured_before_and_after() {
    let result = measure("transfer", &["--count", "300", "--concurrency", "8", "--ceiling"]);
    let number = |name: &str| result["ceiling"][name].as_f64().expect("a rate");
    let mean = (number("before_per_s") + number("after_per_s")) / 2.0;
    assert!((number("rate_per_s") - mean).abs() < 1e-6 * mean, "the mean of both");
    let ratio = result["ratio_to_ceiling"].as_f64().expect("a ratio");
    let rate = result["achieved_per_s"].as_f64().expect("a rate");
    assert!((ratio * mean - rate).abs() < 1e-6 * rate, "{ratio} x {mean} is not {rate}");
    // Subscribers are registered, and the callbacks of the registrations must not remain open.
    let whole = measure("whole", &["--count", "100", "--fsps", "2", "--ceiling"]);
    let check =
        |check: &&Value| check["name"] == "the forward-only switch was idle, before and after";
    let idle = whole["checks"].as_array().unwrap().iter().find(check).expect("the check exists");
    assert_eq!(idle["passed"], Value::from(true), "{idle}");
    let refused = bench(&["lookup", "--ceiling"]);
    assert!(!refused.status.success() && text_of(&refused).contains("--ceiling: only for"));
}

/// The figures of a file of events are those of the transfers that it was written from.
#[test]
fn waterfall_is_drawn_from_transfers_and_from_a_file() {
    let place = TempDir::new().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let waterfall = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.arg("waterfall").args(arguments);
        let output = finish(command);
        assert!(output.status.success(), "{}", text_of(&output));
        output.out()
    };
    let (events, page) = (path("one.ndjson"), path("many.html"));
    let one = waterfall(&["--out", &events]);
    for stage in ["prepare: receive", "prepare: sync", "prepare to payee: connect", "fulfil: apply"]
    {
        assert!(one.contains(stage), "{stage} is missing: {one}");
    }
    // All stages of each of several transfers, up to the last notice.
    let twenty = path("twenty.ndjson");
    waterfall(&["--at-once", "20", "--out", &twenty]);
    let drawn = std::fs::read_to_string(&twenty).expect("written");
    for stage in ["prepare to payee: send", "fulfil to payer: send", "fulfil to payer: connect"] {
        assert_eq!(drawn.matches(stage).count(), 20, "{stage}: {drawn}");
    }
    // A transfer waits at least for the sequencer's thread and for its response.
    let gap = one.lines().find(|line| line.trim_start().starts_with("gap: no stage active"));
    let gap = gap.expect("a line for the gap");
    assert!(!gap.contains("p50       0.0 us"), "there was no wait: {one}");
    let at = |label: &str| one.find(label).unwrap_or_else(|| panic!("no {label}: {one}"));
    for wait in ["prepare: wait", "fulfil: wait", "prepare to payee: dispatch"] {
        assert!(at("gap: no stage active") < at(wait), "waits are listed after the gap: {one}");
    }
    let again = waterfall(&[&events, "--unit", "ns", "--out", &path("one.html")]);
    let figures = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("waterfall")).expect("figures");
        line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(figures(&again), figures(&one));
    // Case and the colon are ignored. An excluded event still counts in the total.
    let fewer = waterfall(&[&events, "--unit", "ns", "--exclude", "PREPARE receive"]);
    assert!(fewer.contains("prepare: receive (not counted)"), "{fewer}");
    let parts = |text: &str| figures(text).split(" / ").map(str::to_owned).collect::<Vec<_>>();
    let [all, less] = [&one, &fewer].map(|text| parts(text));
    let count = |parts: &[String]| parts[0].split(' ').next().unwrap().parse::<usize>().unwrap();
    assert_eq!(count(&less), count(&all) - 1, "{fewer}");
    assert_eq!((less[1] == all[1], &less[2]), (false, &all[2]), "{fewer}");
    let many = waterfall(&["--at-once", "5", "--out", &page]);
    assert!(many.starts_with("median"), "{many}");
    let html = std::fs::read_to_string(&page).expect("written");
    let shown = shown_in(&html);
    let median = &shown["median"];
    assert!(median["heading"].as_str().unwrap().starts_with("The median of 5"), "{median}");
    assert!(shown["runs"].to_string().contains("participant's own time"), "{shown}");
    assert_eq!(shown["runs"].as_array().unwrap().len(), 5);
    let other = finish({
        let mut command = Command::new(PROGRAM);
        command.args(["waterfall", "--out", &path("x.pdf")]);
        command
    });
    assert!(!other.status.success() && text_of(&other).contains(".html"));
    let nowhere = finish({
        let mut command = Command::new(PROGRAM);
        command.args(["waterfall", "--out", "/nowhere/x.html"]);
        command
    });
    let errors = text_of(&nowhere);
    assert!(!nowhere.status.success() && errors.contains("/nowhere/x.html"), "{errors}");
    assert!(!errors.contains("starting the switch"), "nothing may be sent first: {errors}");
}

/// Shows progress also during a pause, and ends immediately.
#[test]
fn waterfalls_show_progress_and_can_be_interrupted_in_a_pause() {
    let mut child = Command::new(PROGRAM)
        .args(["waterfall", "--count", "3", "--apart", "60"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().expect("piped")).lines();
    let shown = errors.find(|line| line.as_ref().is_ok_and(|line| line.contains("1 of 3 transf")));
    assert!(shown.is_some(), "no progress line");
    let (asked, id) = (Instant::now(), i32::try_from(child.id()).ok().and_then(Pid::from_raw));
    kill_process(id.expect("a process id"), Signal::INT).unwrap();
    let rest: Vec<String> = errors.map_while(Result::ok).collect();
    assert!(!child.wait().unwrap().success() && asked.elapsed().as_secs() < 20, "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("interrupted")), "{rest:?}");
}

/// Standard output of a successful command, parsed as JSON.
fn json_of(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text_of(output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text_of(output)))
}

fn assert_has_origin(result: &Value) {
    for member in ["/machine/kernel", "/environment/memory_bytes", "/commit", "/configuration"] {
        assert!(result.pointer(member).is_some_and(|it| !it.is_null()), "{member}: {result}");
    }
}

/// Results of the core have their origin and options. Each row of `durable` lasts as requested.
#[test]
fn core_is_measured_for_the_requested_time_with_its_origin() {
    let place = TempDir::new().unwrap();
    let (data, file) = (place.path().to_str().unwrap(), place.path().join("core.json"));
    let core = |more: &[&str]| bench(&[&["core", "--data", data], more].concat());
    let seconds = ["--seconds", "2", "--rounds", "1", "--json", file.to_str().unwrap()];
    let output = core(&[&["--only", "durable"], &seconds[..]].concat());
    assert!(text_of(&output).contains("commit  "), "{}", text_of(&output));
    let result = read(&file);
    assert_has_origin(&result);
    assert_eq!(result["configuration"]["only"], serde_json::json!(["durable"]));
    let section = &result["sections"][0];
    assert_eq!(section["columns"][8], "seconds", "{section}");
    for row in section["rows"].as_array().unwrap() {
        assert!(row["figures"][8].as_f64().is_some_and(|it| it >= 2.0), "{row}");
    }
    let slow = ["--seconds", "3", "--rate", "1000", "--pairs-per-second", "300", "--json"];
    let output = core(&[&["--only", "arrivals,stream"], &slow[..]].concat());
    assert_has_origin(&json_of(&output));
    for shown in ["of 3000 commands (", "of 900 pairs ("] {
        assert!(text_of(&output).contains(shown), "no {shown}: {}", text_of(&output));
    }
    assert!(std::fs::read_dir(data).unwrap().count() == 1, "only the results remain");
}

#[test]
fn harness_measurement_shows_progress_and_origin() {
    let output = bench(&["harness", "--seconds", "2.5", "--concurrency", "4", "--json"]);
    let result = json_of(&output);
    assert_has_origin(&result);
    assert_eq!(result["configuration"]["concurrency"], Value::from(4));
    assert_eq!(result["forwarded"]["machine"], result["exchanges"]["machine"]);
    assert!(text_of(&output).contains(" exchanges ("), "{}", text_of(&output));
}

#[test]
fn demo_prints_results_as_json() {
    let mut command = Command::new(PROGRAM);
    command.args(["demo", "--transactions", "50", "--concurrency", "4", "--fsps", "2", "--json"]);
    assert_eq!(json_of(&finish(command))["verified"], Value::from(true));
}

#[test]
fn growth_compares_sizes_with_the_goals() {
    let place = TempDir::new().unwrap();
    let (json, page) = (place.path().join("out.json"), place.path().join("out.html"));
    let kept = place.path().join("kept");
    let files = ["--json", json.to_str().unwrap(), "--report", page.to_str().unwrap()];
    let size = ["sweep", "growth", "--quick", "--data", kept.to_str().unwrap()];
    let output = bench(&[&size, &files[..]].concat());
    assert!(output.status.success(), "{}", text_of(&output));
    let result = read(&json);
    assert_eq!(result["valid"], Value::from(true), "{result}");
    let rows = result["tables"][0]["rows"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["500", "2k"]);
    for row in rows {
        let figure = |at: usize| row["figures"][at].as_f64().unwrap();
        assert!(figure(0) > 0.0 && figure(2) > 0.0 && figure(7) > 0.0, "{row}");
        assert!((1_500.0..3_200.0).contains(&figure(9)), "bytes of log a transfer: {row}");
    }
    let goals = result["goals"].as_array().unwrap();
    let disk = goals.iter().find(|goal| goal["must"] == 3_200.0).unwrap();
    assert_ne!(disk["verdict"], "not offered", "{disk}");
    for named in ["commands/s of kernel", "the store is rebuilt", "a transfer, archived"] {
        let goal = goals.iter().find(|goal| goal["name"].as_str().unwrap().contains(named));
        assert!(goal.unwrap()["value"].as_f64().unwrap() > 0.0, "{named}: {goals:?}");
    }
    assert_eq!(result["steps"].as_array().unwrap().len(), 8);
    let aliases = result["tables"][1]["rows"].as_array().unwrap();
    assert_eq!((&aliases[0]["name"], &aliases[1]["name"]), (&"200".into(), &"2k".into()));
    let shown = shown_in(&std::fs::read_to_string(&page).unwrap());
    assert_eq!(shown["report"], result, "goals and tables included");
    assert!(result.to_string().contains("ready after kill -9"), "{result}");
    let left: Vec<_> =
        std::fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "filled directories are kept, copies are not: {left:?}");
}
