//! `upesi settlement` against a running switch: dry runs, repeated steps and two runs at once.

use std::process::{Command, Output, Stdio};

use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{PROGRAM, Printed, finish};

/// The words of a command.
type Line<'a> = &'a str;

fn prepared(scheme: &Scheme, line: Line<'_>, more: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    let token = scheme.home.data().join("admin-token");
    command.arg("settlement").args(line.split(' ')).args(more);
    command.args(["--admin", &format!("http://{}", scheme.switch.admin), "--token"]).arg(token);
    command
}

fn command(scheme: &Scheme, line: Line<'_>, more: &[&str]) -> Output {
    finish(prepared(scheme, line, more))
}

fn run(scheme: &Scheme, line: Line<'_>) -> String {
    command(scheme, line, &[]).succeeds().out()
}

/// Everything that settlement changes.
fn world(admin: &Admin) -> Vec<String> {
    const ALL: &str = "fromDateTime=1970-01-01T00:00:00.000Z";
    let mut paths = vec![
        format!("/v2/settlementWindows?{ALL}"),
        format!("/v2/settlements?{ALL}"),
        "/interchangeFeeRules".to_owned(),
    ];
    let names = ["payerfsp", "payeefsp", "otherfsp", "Hub"];
    paths.extend(names.map(|name| format!("/participants/{name}/accounts")));
    paths.iter().map(|path| admin.call("GET", path, "").text()).collect()
}

/// A dry run prints what the switch would refuse, with the exit code of the refusal, and changes
/// nothing. Returns the output of a dry run that would succeed.
fn dry(scheme: &Scheme, line: Line<'_>) -> Result<String, String> {
    let before = world(&scheme.admin);
    let dry = command(scheme, line, &["--dry-run"]);
    assert_eq!(world(&scheme.admin), before, "{line}");
    if dry.status.success() {
        return Ok(dry.out());
    }
    let real = command(scheme, line, &[]);
    assert_eq!((dry.status, dry.err()), (real.status, real.err()), "{line}");
    assert_eq!(world(&scheme.admin), before, "{line}");
    Err(dry.err())
}

#[test]
fn dry_runs_foresee_refusals_and_successes() {
    let scheme = Scheme::start();
    let refused = |line: Line<'_>, expected: &str| {
        let found = dry(&scheme, line).expect_err(line);
        assert!(found.contains(expected), "{line}: {found}");
    };
    let planned = |line: Line<'_>, expected: &[&str]| {
        let found = dry(&scheme, line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(found.lines().collect::<Vec<_>>(), expected, "{line}");
    };
    refused("close", "Window 1 is empty");
    scheme.pay("30.5");
    refused("close 7", "Window 7 does not exist");
    refused("create --model NONE --window 1", "Settlement model not found: NONE");
    refused("create --model DEFAULTDEFERREDNET --window 1", "Inapplicable windows 1");
    refused("abort 1", "Settlement");
    refused("advance 1", "Settlement with ID '1' not found");
    let unsettled = "no active settlement model that is NET and DEFERRED settles INTERCHANGE_FEE \
                     accounts";
    refused("fees add none --percentage 1", unsettled);
    refused("fees add none --amount 1 --currency USD", &format!("{unsettled} in USD"));
    let unknown = "\"conditions.payerFsp\" is not a participant";
    refused("fees add none --amount 1 --payer-fsp nofsp", unknown);
    refused("fees deactivate 1", "interchange fee rule not found");
    planned("close", &["would close window 1"]);
    planned(
        "run",
        &[
            "would close window 1",
            "would create a settlement: DEFAULTDEFERREDNET, window 1",
            "would move settlement 1 to PS_TRANSFERS_RECORDED",
            "would move settlement 1 to PS_TRANSFERS_RESERVED",
            "would move settlement 1 to PS_TRANSFERS_COMMITTED",
            "would move settlement 1 to SETTLED",
        ],
    );
    run(&scheme, "close");
    planned(
        "create --model DEFAULTDEFERREDNET --window 1",
        &["would create a settlement of model DEFAULTDEFERREDNET over windows 1"],
    );
    run(&scheme, "create --model DEFAULTDEFERREDNET --window 1");
    let skipped = "advance 1 --to PS_TRANSFERS_RESERVED --participant payerfsp";
    refused(skipped, "State change not allowed");
    refused("advance 1 --participant otherfsp", "otherfsp has no account in it");
    planned(
        "advance 1 --to PS_TRANSFERS_RESERVED",
        &[
            "would move settlement 1 to PS_TRANSFERS_RECORDED",
            "would move settlement 1 to PS_TRANSFERS_RESERVED",
        ],
    );
    planned("abort 1", &["would abort settlement 1"]);
    run(&scheme, "advance 1 --to SETTLED");
    refused("abort 1", "State change is not allowed for settlement '1' in state 'SETTLED'");
    scheme.end();
}

#[test]
fn repeated_steps_say_that_nothing_changed() {
    let scheme = Scheme::start();
    scheme.pay("30.5");
    run(&scheme, "close");
    run(&scheme, "create --model DEFAULTDEFERREDNET --window 1");
    let recorded = "advance 1 --to PS_TRANSFERS_RECORDED";
    assert_eq!(run(&scheme, recorded), "moved settlement 1 to PS_TRANSFERS_RECORDED\n");
    let expected = "nothing changed: settlement 1 is PS_TRANSFERS_RECORDED already\n";
    assert_eq!(run(&scheme, recorded), expected);
    let one = "advance 1 --to PS_TRANSFERS_RESERVED --participant payerfsp";
    let expected = "moved payerfsp in settlement 1 to PS_TRANSFERS_RESERVED\n";
    assert_eq!(run(&scheme, one), expected);
    let expected = "nothing changed: payerfsp in settlement 1 is PS_TRANSFERS_RESERVED already; \
                    only reason and reference are new\n";
    assert_eq!(run(&scheme, one), expected);
    run(&scheme, "advance 1 --to SETTLED");
    let expected = "nothing changed: settlement 1 is SETTLED already\n";
    assert_eq!(run(&scheme, "advance 1 --to SETTLED"), expected);
    let over = command(&scheme, "advance 1", &[]).fails();
    assert!(over.contains("settlement 1: it is SETTLED and cannot be moved on"), "{over}");
    run(&scheme, "run");
    scheme.pay("1");
    run(&scheme, "close");
    run(&scheme, "create --model DEFAULTDEFERREDNET --window 2");
    run(&scheme, "abort 2");
    let over = command(&scheme, "advance 2 --to SETTLED", &[]).fails();
    assert!(over.contains("settlement 2: it is ABORTED and cannot be moved on"), "{over}");
    scheme.end();
}

#[test]
fn two_runs_at_once_settle_everything_once() {
    let scheme = Scheme::start();
    for number in 1..=5 {
        scheme.pay("30.5");
        let mut first = prepared(&scheme, "run", &[]);
        let first = first.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let second = command(&scheme, "run", &[]);
        let outputs = [first.wait_with_output().unwrap(), second];
        for output in outputs {
            assert!(output.status.success(), "{}{}", output.out(), output.err());
        }
        let settlements = scheme.admin.json("/v2/settlements?fromDateTime=1970-01-01T00:00:00Z");
        let states = settlements.as_array().unwrap().iter().map(|it| &it["state"]);
        assert!(states.eq(vec!["SETTLED"; number]), "{settlements}");
        assert_eq!(scheme.admin.position("payerfsp"), "0");
    }
    scheme.end();
}
