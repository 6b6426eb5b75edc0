//! Interchange fees of real transfers: their windows and settlements in histories.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::statements::{account, advance, causes, nets, tie_to_accounts};
use crate::support::message::Transfer;
use crate::support::scheme::Scheme;
use crate::support::switch::Printed;

/// A conversation whose prepare has a transaction object in its packet.
const CONVERSATION: &str = include_str!("../../../../conversations/settlement/fee.txt");

fn packet() -> &'static str {
    let line = |line: &'static str| line.strip_prefix("with ilpPacket = \"")?.strip_suffix('"');
    CONVERSATION.lines().find_map(line).unwrap()
}

/// Creates a settlement model of an account type and its settlement account.
fn create_model(scheme: &Scheme, name: &str, kind: &str, more: Value) {
    let mut model = json!({"name": name, "settlementGranularity": "NET",
        "settlementInterchange": "MULTILATERAL", "settlementDelay": "DEFERRED",
        "requireLiquidityCheck": true, "ledgerAccountType": kind, "autoPositionReset": true});
    model.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    scheme.admin.must("POST", "/settlementModels", &model.to_string(), 201);
}

/// A scheme in which every transfer with a transaction object has a fee of 0.6 %.
fn scheme_with_fees() -> Scheme {
    let scheme = Scheme::start();
    let accounts = json!({"settlementAccountType": "INTERCHANGE_FEE_SETTLEMENT"});
    create_model(&scheme, "INTERCHANGEFEE", "INTERCHANGE_FEE", accounts);
    let rule = json!({"name": "all", "fee": {"percentage": "0.6", "decimals": 2}}).to_string();
    scheme.admin.must("POST", "/interchangeFeeRules", &rule, 201);
    scheme
}

/// A committed transfer with a fee. Returns its id.
fn pay(scheme: &Scheme, amount: &str) -> String {
    let transfer = Transfer { packet: packet().into(), ..Transfer::of(amount) };
    scheme.send(&transfer.prepare(), 202);
    scheme.send(&transfer.fulfil("COMMITTED"), 200);
    transfer.id
}

fn close_window(scheme: &Scheme, id: u32) {
    let body = json!({"state": "CLOSED", "reason": "test"}).to_string();
    scheme.admin.must("POST", &format!("/v2/settlementWindows/{id}"), &body, 200);
}

fn settle(scheme: &Scheme, model: &str, window: u32) {
    let body = json!({"settlementModel": model, "reason": "test",
        "settlementWindows": [{"id": window}]});
    scheme.admin.must("POST", "/v2/settlements", &body.to_string(), 200);
}

#[test]
fn histories_name_the_settlement_of_a_fee() {
    let scheme = scheme_with_fees();
    let [net, free] = [pay(&scheme, "100"), scheme.pay("100").id];
    close_window(&scheme, 1);
    settle(&scheme, "INTERCHANGEFEE", 1);
    let gross = json!({"settlementGranularity": "GROSS", "settlementInterchange": "BILATERAL",
        "settlementDelay": "IMMEDIATE", "settlementAccountType": "SETTLEMENT",
        "currency": "USD"});
    create_model(&scheme, "GROSSUSD", "POSITION", gross);
    let at_once = pay(&scheme, "50");
    scheme.wait_until_delivered();
    let in_first = json!({"kind": "window", "window": 1, "state": "PENDING_SETTLEMENT",
        "settlement": {"id": 1, "model": "INTERCHANGEFEE", "state": "PENDING_SETTLEMENT"}});
    let closed = json!({"kind": "window", "window": 1, "state": "CLOSED"});
    let open = json!({"kind": "window", "window": 2, "state": "OPEN"});
    let expected = [
        (&net, closed.clone(), in_first),
        (&free, closed, Value::Null),
        (&at_once, json!({"kind": "gross"}), open),
    ];
    for (id, transfer, fee) in &expected {
        let live = scheme.admin.explain(id);
        assert_eq!((&live["settlement"], &live["fee_settlement"]), (transfer, fee), "{live:#}");
    }
    scheme.switch.stop(Signal::TERM);
    for (id, transfer, fee) in &expected {
        let histories = [&["--json"][..], &["--json", "--replay"]].map(|more| {
            let arguments = [&["explain", id.as_str()], more].concat();
            let found = scheme.home.offline(&arguments).succeeds().json();
            let both = (&found["settlement"], &found["fee_settlement"]);
            assert_eq!(both, (transfer, fee), "{more:?}");
            found["events"].clone()
        });
        // The recorded decisions equal those of a replay of the whole log, with their fees.
        assert_eq!(histories[0], histories[1]);
        let has_fee = histories[0].to_string().contains("INTERCHANGE_FEE");
        assert_eq!(has_fee, !fee.is_null(), "{:#}", histories[0]);
    }
    let text = |id: &str| scheme.home.offline(&["explain", id]).succeeds().out();
    let fee = "\ninterchange fee: settlement window 1: PENDING_SETTLEMENT; settlement 1 by model \
               INTERCHANGEFEE: PENDING_SETTLEMENT\n";
    let found = text(&net);
    assert!(found.contains(&format!("settlement window 1: CLOSED{fee}")), "{found}");
    assert!(!text(&free).contains("interchange fee"));
    let found = text(&at_once);
    let fee = "settled at once by a gross model, with its commit\n\
               interchange fee: settlement window 2: OPEN\n";
    assert!(found.contains(fee), "{found}");
    let verified = scheme.home.verify().succeeds().out();
    assert!(verified.contains("\"fees\": 2,"), "{verified}");
}

#[test]
fn statements_with_fees_tie_to_the_ledger() {
    let scheme = scheme_with_fees();
    let admin = &scheme.admin;
    pay(&scheme, "100");
    pay(&scheme, "50");
    scheme.pay("7");
    close_window(&scheme, 1);
    settle(&scheme, "INTERCHANGEFEE", 1);
    tie_to_accounts(admin);
    for state in
        ["PS_TRANSFERS_RECORDED", "PS_TRANSFERS_RESERVED", "PS_TRANSFERS_COMMITTED", "SETTLED"]
    {
        advance(admin, 1, state);
    }
    pay(&scheme, "10");
    tie_to_accounts(admin);
    for (name, expected) in [
        ("payerfsp", ["interchange fees 0.9", "settlement -0.9", "interchange fees 0.06"]),
        ("payeefsp", ["interchange fees -0.9", "settlement 0.9", "interchange fees -0.06"]),
    ] {
        let statement = admin.json(&format!("/participants/{name}/statement"));
        assert_eq!(causes(account(&statement, "INTERCHANGE_FEE")), expected, "{name}");
    }
    let window = nets(&admin.json("/v2/settlementWindows/1/statement"));
    let settlement = nets(&admin.json("/v2/settlements/1/statement"));
    let id = |name| admin.account(name, "INTERCHANGE_FEE").id;
    for (name, expected) in [("payerfsp", "0.9"), ("payeefsp", "-0.9")] {
        let nets = [&window, &settlement].map(|nets| nets[&id(name)].to_string());
        assert_eq!(nets, [expected, expected], "{name}");
    }
    assert_eq!((window.len(), settlement.len()), (4, 2));
    scheme.end();
}
