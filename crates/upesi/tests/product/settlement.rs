//! Settlement when the switch is killed, when several operators act at once, and after a long
//! time.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};

use crate::support::message::Transfer;
use crate::support::scheme::{Admin, Scheme};

const ALL: &str = "fromDateTime=1970-01-01T00:00:00.000Z";
const NAMES: [&str; 4] = ["payerfsp", "payeefsp", "otherfsp", "Hub"];
const STATES: [&str; 4] =
    ["PS_TRANSFERS_RECORDED", "PS_TRANSFERS_RESERVED", "PS_TRANSFERS_COMMITTED", "SETTLED"];
/// Windows that are settled in the test of old windows: more than stay in memory.
const OLD_WINDOWS: u32 = 105;
/// Operators who act at the same time.
const CALLERS: usize = 8;

/// A step of an operator.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Close {
        window: u32,
    },
    Create {
        window: u32,
    },
    /// Moves one account, by its place in the settlement, or all.
    Move {
        settlement: u32,
        account: Option<usize>,
        state: &'static str,
    },
    Abort {
        settlement: u32,
    },
}

impl Deed {
    /// The request of this step.
    fn request(self, admin: &Admin) -> (&'static str, String, String) {
        let (method, path, body) = match self {
            Self::Close { window } => {
                let body = json!({"state": "CLOSED", "reason": "test"});
                ("POST", format!("/v2/settlementWindows/{window}"), body)
            }
            Self::Create { window } => ("POST", "/v2/settlements".to_owned(), creation(window)),
            Self::Move { settlement, account, state } => {
                let body = movement(admin, settlement, account, state);
                ("PUT", format!("/v2/settlements/{settlement}"), body)
            }
            Self::Abort { settlement } => {
                let body = json!({"state": "ABORTED", "reason": "test"});
                ("PUT", format!("/v2/settlements/{settlement}"), body)
            }
        };
        (method, path, body.to_string())
    }

    /// Carries it out: it must be answered 200, and no account has a fault.
    fn perform(self, admin: &Admin) {
        let (method, path, body) = self.request(admin);
        let answer = admin.call(method, &path, &body);
        assert_eq!(answer.status, 200, "{self:?}: {}", answer.text());
        assert!(!answer.text().contains("errorInformation"), "{self:?}: {}", answer.text());
    }

    /// Carries it out once more: the answer of a step that was done already.
    fn repeat(self, admin: &Admin) {
        let (method, path, body) = self.request(admin);
        let answer = admin.call(method, &path, &body);
        let expected = match self {
            Self::Close { window } => (400, format!("Window {window} is not open")),
            Self::Create { window } => (400, format!("Inapplicable windows {window}")),
            Self::Move { .. } | Self::Abort { .. } => (200, "\"state\"".to_owned()),
        };
        let text = answer.text();
        assert!(answer.status == expected.0 && text.contains(&expected.1), "{self:?}: {text}");
    }
}

fn creation(window: u32) -> Value {
    json!({
        "settlementModel": "DEFAULTDEFERREDNET",
        "reason": "test",
        "settlementWindows": [{"id": window}],
    })
}

fn movement(admin: &Admin, settlement: u32, account: Option<usize>, state: &str) -> Value {
    let shown = admin.json(&format!("/v2/settlements/{settlement}"));
    let participants = shown["participants"].as_array().unwrap().iter();
    let chosen = participants.enumerate().filter(|(at, _)| account.is_none_or(|it| it == *at));
    let steps = chosen.map(|(_, participant)| {
        let id = &participant["accounts"][0]["id"];
        json!({
            "id": participant["id"],
            "accounts": [{"id": id, "state": state, "reason": "test"}],
        })
    });
    json!({ "participants": steps.collect::<Vec<_>>() })
}

/// A list of the settlement API, without entries if nothing was found.
fn list(admin: &Admin, path: &str) -> Vec<Value> {
    let answer = admin.call("GET", path, "");
    if answer.status == 400 && answer.text().contains("not found") {
        return Vec::new();
    }
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    serde_json::from_str::<Vec<Value>>(&answer.text()).unwrap()
}

/// Everything that settlement changes: balances, caps, states of windows and settlements. Without
/// times.
fn world(admin: &Admin) -> Vec<String> {
    let mut lines = Vec::new();
    for name in NAMES {
        for account in admin.json(&format!("/participants/{name}/accounts")).as_array().unwrap() {
            lines.push(format!("{name} {}: {}", account["ledgerAccountType"], account["value"]));
        }
        lines.push(format!("{name} {}", admin.get(&format!("/participants/{name}/limits"))));
    }
    let mut windows: Vec<_> = list(admin, &format!("/v2/settlementWindows?{ALL}"))
        .iter()
        .map(|window| format!("window {} {}", window["settlementWindowId"], window["state"]))
        .collect();
    windows.sort();
    lines.extend(windows);
    for settlement in list(admin, &format!("/v2/settlements?{ALL}")) {
        lines.push(format!("settlement {} {}", settlement["id"], settlement["state"]));
        for participant in settlement["participants"].as_array().unwrap() {
            let account = &participant["accounts"][0];
            let net = &account["netSettlementAmount"]["amount"];
            lines.push(format!("  {} {net} {}", account["id"], account["state"]));
        }
    }
    lines
}

/// Sends transfers that are committed, from `payerfsp` to the two others.
fn pay(scheme: &Scheme, amounts: [&str; 2]) {
    for (payee, amount) in ["payeefsp", "otherfsp"].into_iter().zip(amounts) {
        let transfer = Transfer { payee: payee.to_owned(), ..Transfer::of(amount) };
        scheme.send(&transfer.prepare(), 202);
        scheme.send(&transfer.fulfil("COMMITTED"), 200);
    }
    scheme.wait_until_delivered();
}

/// Two windows: one settled DFSP by DFSP, and one settled after an aborted settlement.
fn day() -> Vec<Deed> {
    let mut deeds = vec![Deed::Close { window: 1 }, Deed::Create { window: 1 }];
    for state in STATES {
        let step = |at| Deed::Move { settlement: 1, account: Some(at), state };
        deeds.extend((0..3).map(step));
    }
    let all = |settlement, state| Deed::Move { settlement, account: None, state };
    deeds.extend([
        Deed::Close { window: 2 },
        Deed::Create { window: 2 },
        all(2, STATES[0]),
        Deed::Move { settlement: 2, account: Some(1), state: STATES[1] },
        Deed::Abort { settlement: 2 },
        Deed::Create { window: 2 },
    ]);
    deeds.extend(STATES.map(|state| all(3, state)));
    deeds
}

/// Transfers that precede a step.
fn prepare(scheme: &Scheme, deed: Deed) {
    match deed {
        Deed::Close { window: 1 } => pay(scheme, ["30", "12"]),
        Deed::Close { window: 2 } => pay(scheme, ["0.5", "900"]),
        _ => {}
    }
}

/// Kills the switch, and starts it again.
fn killed(scheme: Scheme) -> Scheme {
    let Scheme { switch, home, payer, payee, other, .. } = scheme;
    switch.kill();
    let switch = home.serve();
    let admin = Admin::new(&home, &switch);
    Scheme { switch, home, admin, payer, payee, other }
}

/// Sends a request without waiting for its answer.
fn begin(scheme: &Scheme, (method, path, body): (&str, String, String)) -> TcpStream {
    let mut stream = TcpStream::connect(scheme.switch.admin).unwrap();
    let token = scheme.home.token();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    stream
}

/// Each step is interrupted by a kill in the middle of its call, and again after its answer. On
/// request, the switch continues with the step that was not done. A step that was done moves
/// nothing again.
#[test]
fn settlement_continues_after_a_kill_at_each_step() {
    let undisturbed = Scheme::start();
    let mut worlds = Vec::new();
    for deed in day() {
        prepare(&undisturbed, deed);
        let before = world(&undisturbed.admin);
        deed.perform(&undisturbed.admin);
        worlds.push((before, world(&undisturbed.admin)));
    }
    undisturbed.end();
    let mut scheme = Scheme::start();
    for (at, (deed, (before, after))) in day().into_iter().zip(&worlds).enumerate() {
        prepare(&scheme, deed);
        let call = begin(&scheme, deed.request(&scheme.admin));
        // The kill comes right after the request, or some requests later.
        (0..at % 4).for_each(|_| drop(scheme.admin.get("/participants/limits")));
        scheme = killed(scheme);
        drop(call);
        let found = world(&scheme.admin);
        assert!(found == *before || found == *after, "{deed:?}: {found:#?}");
        match found == *after {
            false => deed.perform(&scheme.admin),
            true => deed.repeat(&scheme.admin),
        }
        assert_eq!(world(&scheme.admin), *after, "{deed:?}");
        scheme = killed(scheme);
        assert_eq!(world(&scheme.admin), *after, "{deed:?}");
        deed.repeat(&scheme.admin);
        assert_eq!(world(&scheme.admin), *after, "{deed:?}");
    }
    scheme.end();
}

/// The oldest windows and settlements are not in memory any more, and are shown as before.
#[test]
fn old_windows_are_shown_from_the_cold_store() {
    let mut scheme = Scheme::start();
    let mut first = Vec::new();
    for window in 1..=OLD_WINDOWS {
        let transfer = Transfer::of("1");
        scheme.send(&transfer.prepare(), 202);
        scheme.send(&transfer.fulfil("COMMITTED"), 200);
        Deed::Close { window }.perform(&scheme.admin);
        Deed::Create { window }.perform(&scheme.admin);
        for state in STATES {
            Deed::Move { settlement: window, account: None, state }.perform(&scheme.admin);
        }
        if window == 1 {
            first = shown(&scheme.admin);
        }
    }
    scheme.wait_until_delivered();
    // The answers come from the cold store, also after a kill.
    for _ in 0..2 {
        let admin = &scheme.admin;
        let (method, path, body) = Deed::Abort { settlement: 1 }.request(admin);
        let refused = admin.call(method, &path, &body);
        let text = refused.text();
        assert_eq!(refused.status, 400, "{text}");
        let expected = "State change is not allowed for settlement '1' in state 'SETTLED'";
        assert!(text.contains(expected), "{text}");
        assert_eq!(shown(admin), first);
        for query in
            ["state=SETTLED", "state=SETTLED&participantId=2", "state=SETTLED&currency=USD"]
        {
            let windows = list(admin, &format!("/v2/settlementWindows?{query}"));
            assert_eq!(windows.len(), OLD_WINDOWS as usize, "{query}");
            assert_eq!(windows.last().unwrap()["settlementWindowId"], 1, "{query}");
        }
        let settlements = list(admin, "/v2/settlements?settlementWindowId=1");
        assert_eq!(settlements.len(), 1);
        assert_eq!(settlements[0]["id"], 1);
        scheme = killed(scheme);
    }
    scheme.end();
}

/// The first window and settlement, as shown and as listed.
fn shown(admin: &Admin) -> Vec<String> {
    ["/v2/settlementWindows/1", "/v2/settlements/1", "/v2/settlements/1/participants/2"]
        .map(|path| admin.get(path))
        .to_vec()
}

/// A settlement is finished, or aborted, although a participant and an account were deactivated
/// meanwhile. All other actions of inactive participants and accounts are refused.
#[test]
fn deactivated_participant_and_account_are_settled() {
    let scheme = Scheme::start();
    let admin = &scheme.admin;
    pay(&scheme, ["30", "12"]);
    Deed::Close { window: 1 }.perform(admin);
    Deed::Create { window: 1 }.perform(admin);
    let all = |settlement, state| Deed::Move { settlement, account: None, state };
    all(1, STATES[0]).perform(admin);
    let before = world(admin);
    all(1, STATES[1]).perform(admin);
    activate(admin, "/participants/payeefsp", false);
    let account = admin.account("payerfsp", "POSITION").id;
    activate(admin, &format!("/participants/payerfsp/accounts/{account}"), false);
    Deed::Abort { settlement: 1 }.perform(admin);
    let balances = |world: &[String]| world[..10].to_vec();
    assert_eq!(balances(&world(admin)), balances(&before));
    Deed::Create { window: 1 }.perform(admin);
    STATES.into_iter().for_each(|state| all(2, state).perform(admin));
    for name in ["payerfsp", "payeefsp", "otherfsp"] {
        assert_eq!(admin.position(name), "0", "{name}");
    }
    let funds = admin.account("payeefsp", "SETTLEMENT").id;
    let body = json!({
        "transferId": crate::support::message::uuid(),
        "externalReference": "none",
        "action": "recordFundsIn",
        "reason": "settlement",
        "amount": {"amount": "30", "currency": "USD"},
    });
    let path = format!("/participants/payeefsp/accounts/{funds}");
    let refused = admin.call("POST", &path, &body.to_string());
    assert!(refused.text().contains("Participant is currently set inactive"), "{}", refused.text());
    activate(admin, "/participants/payeefsp", true);
    admin.must("POST", &path, &body.to_string(), 202);
    scheme.end();
}

fn activate(admin: &Admin, path: &str, is_active: bool) {
    admin.must("PUT", path, &json!({ "isActive": is_active }).to_string(), 200);
}

/// Sends the same request from several operators at once. Returns status and text of each answer.
fn at_once(scheme: &Scheme, request: &(&'static str, String, String)) -> Vec<(u16, String)> {
    let start = Barrier::new(CALLERS);
    let (method, path, body) = request;
    let callers = (0..CALLERS).map(|_| Admin::new(&scheme.home, &scheme.switch));
    let callers: Vec<_> = callers.collect();
    thread::scope(|scope| {
        let call = |caller: Admin| {
            let start = &start;
            scope.spawn(move || {
                // Each has its connection before any of them calls.
                caller.get("/participants/limits");
                start.wait();
                let answer = caller.call(method, path, body);
                (answer.status, answer.text())
            })
        };
        let threads: Vec<_> = callers.into_iter().map(call).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Exactly one of the answers is 200; all others are this refusal.
fn one_wins(answers: &[(u16, String)], refusal: &str) {
    let won = answers.iter().filter(|(status, _)| *status == 200).count();
    let refused = |(status, text): &&(u16, String)| *status == 400 && text.contains(refusal);
    let lost = answers.iter().filter(refused).count();
    assert_eq!((won, lost), (1, CALLERS - 1), "{answers:#?}");
}

/// Of several operators who close one window, or settle it, one succeeds. The others change
/// nothing.
#[test]
fn one_of_several_operators_closes_and_settles_a_window() {
    let scheme = Scheme::start();
    let admin = &scheme.admin;
    for window in 1..=6 {
        pay(&scheme, ["1", "2"]);
        let close = Deed::Close { window }.request(admin);
        one_wins(
            &at_once(&scheme, &close),
            &format!(
                "3100\",\"errorDescription\":\"Generic \
            validation error - Window {window} is not open"
            ),
        );
        let create = Deed::Create { window }.request(admin);
        one_wins(&at_once(&scheme, &create), &format!("Inapplicable windows {window}"));
        let all = Deed::Move { settlement: window, account: None, state: STATES[0] }.request(admin);
        assert!(at_once(&scheme, &all).iter().all(|(status, _)| *status == 200));
    }
    let before = world(admin);
    for (window, refusal) in [
        (7, "Window 7 is empty"),
        (3, "Window 3 is not open"),
        (8, "Window 8 does not exist"),
        (4_000_000_000, "Window 4000000000 does not exist"),
    ] {
        let answers = at_once(&scheme, &Deed::Close { window }.request(admin));
        let is_refused = |(status, text): &(u16, String)| *status == 400 && text.contains(refusal);
        assert!(answers.iter().all(is_refused), "{answers:#?}");
        assert_eq!(world(admin), before);
    }
    scheme.end();
}

/// The window is closed again and again while transfers are committed: each transfer is in one
/// window, and the nets of every window sum to zero.
#[test]
fn windows_that_are_closed_under_load_have_each_transfer_once() {
    const PAYERS: usize = 3;
    const TRANSFERS: usize = 40;
    let scheme = Scheme::start();
    let (fspiop, admin) = (scheme.switch.fspiop, &scheme.admin);
    let mut closed = Vec::new();
    thread::scope(|scope| {
        let pay = || {
            for _ in 0..TRANSFERS {
                let transfer = Transfer::of("0.25");
                for (message, status) in
                    [(transfer.prepare(), 202), (transfer.fulfil("COMMITTED"), 200)]
                {
                    let mut connection = testkit::http::Connection::open(fspiop).unwrap();
                    let answer = connection.exchange(&message.render()).unwrap();
                    assert_eq!(answer.status, status, "{}", answer.text());
                }
            }
        };
        let payers: Vec<_> = (0..PAYERS).map(|_| scope.spawn(pay)).collect();
        while !payers.iter().all(thread::ScopedJoinHandle::is_finished) {
            let window = u32::try_from(closed.len()).unwrap() + 1;
            let (method, path, body) = Deed::Close { window }.request(admin);
            match admin.call(method, &path, &body) {
                answer if answer.status == 200 => closed.push(window),
                answer => assert!(answer.text().contains("is empty"), "{}", answer.text()),
            }
        }
    });
    let last = u32::try_from(closed.len()).unwrap() + 1;
    let (method, path, body) = Deed::Close { window: last }.request(admin);
    if admin.call(method, &path, &body).status == 200 {
        closed.push(last);
    }
    assert!(3 <= closed.len(), "{closed:?}");
    let mut paid = 0.0;
    for (settlement, window) in (1..).zip(&closed) {
        Deed::Create { window: *window }.perform(admin);
        let shown = admin.json(&format!("/v2/settlements/{settlement}"));
        let nets = shown["participants"].as_array().unwrap().iter().map(|participant| {
            let net = &participant["accounts"][0]["netSettlementAmount"]["amount"];
            net.as_f64().unwrap()
        });
        let nets: Vec<_> = nets.collect();
        assert_eq!(nets.iter().sum::<f64>(), 0.0, "quarters are exact: {nets:?}");
        paid += nets.iter().filter(|net| 0.0 < **net).sum::<f64>();
    }
    assert_eq!(paid, 0.25 * (PAYERS * TRANSFERS) as f64);
    scheme.wait_until_delivered();
    scheme.end();
}

#[test]
fn windows_and_settlements_have_gauges() {
    let scheme = Scheme::start();
    let admin = &scheme.admin;
    let windows = |state: &str| format!("upesi_settlement_windows{{state=\"{state}\"}}");
    let settlements = |state: &str| format!("upesi_settlements{{state=\"{state}\"}}");
    admin.wait_for("upesi_settlement_window_unsettled_seconds", |seconds| seconds == 0);
    pay(&scheme, ["30", "12"]);
    admin.wait_for(&windows("OPEN"), |open| open == 1);
    Deed::Close { window: 1 }.perform(admin);
    admin.wait_for(&windows("CLOSED"), |closed| closed == 1);
    Deed::Create { window: 1 }.perform(admin);
    admin.wait_for(&windows("PENDING_SETTLEMENT"), |pending| pending == 1);
    admin.wait_for(&settlements("PENDING_SETTLEMENT"), |pending| pending == 1);
    admin.wait_for("upesi_settlement_window_unsettled_seconds", |seconds| 1 <= seconds);
    for state in STATES {
        Deed::Move { settlement: 1, account: None, state }.perform(admin);
    }
    admin.wait_for(&windows("PENDING_SETTLEMENT"), |pending| pending == 0);
    admin.wait_for(&settlements("PENDING_SETTLEMENT"), |pending| pending == 0);
    admin.wait_for("upesi_settlement_window_unsettled_seconds", |seconds| seconds == 0);
    assert_eq!(admin.metric(&windows("OPEN")), 1);
}
