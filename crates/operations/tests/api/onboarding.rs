//! The order in which every scheme sets itself up (hub-semantics 4.3), with exact shapes.

use expect_test::{Expect, expect};

use crate::conversation::Server;

const MODEL: &str = r#"{"name":"DEFERREDNETUSD","settlementGranularity":"NET",
    "settlementInterchange":"MULTILATERAL","settlementDelay":"DEFERRED","currency":"USD",
    "requireLiquidityCheck":true,"ledgerAccountType":"POSITION","autoPositionReset":true,
    "settlementAccountType":"SETTLEMENT"}"#;
const FUNDS_IN: &str = r#"{"transferId":"b51ec534-ee48-4575-b6a9-ead2955b8069",
    "externalReference":"ref","action":"recordFundsIn","reason":"first deposit",
    "amount":{"amount":"10000.00","currency":"USD"},
    "extensionList":{"extension":[{"key":"k","value":"v"}]}}"#;

#[tokio::test]
async fn a_scheme_is_set_up_step_by_step() {
    let server = Server::start().await;
    let hub_account = |kind: &str| format!(r#"{{"currency":"USD","type":"{kind}"}}"#);
    let mail = r#"{"type":"NET_DEBIT_CAP_ADJUSTMENT_EMAIL","value":"a@example.com"}"#;
    let limits = r#"{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":5000},
        "initialPosition":0}"#;
    let cap = r#"{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":1234.5678,
        "alarmPercentage":7.5}}"#;
    let endpoint = r#"{"type":"FSPIOP_CALLBACK_URL_TRANSFER_PUT",
        "value":"http://dfsp1/transfers/{{transferId}}"}"#;
    let steps: Vec<(&str, String, Expect)> = vec![
        (
            "POST /participants/Hub/accounts",
            hub_account("HUB_RECONCILIATION"),
            expect![[
                r#"201 {"name":"Hub","id":"http://central-ledger/participants/Hub","created":"2026-01-01T10:00:00.000Z","isActive":1,"links":{"self":"http://central-ledger/participants/Hub"},"accounts":[{"id":4,"ledgerAccountType":"HUB_RECONCILIATION","currency":"USD","isActive":1,"createdDate":null,"createdBy":"unknown"}],"isProxy":0}"#
            ]],
        ),
        (
            "POST /participants/Hub/accounts",
            hub_account("HUB_MULTILATERAL_SETTLEMENT"),
            expect![[
                r#"201 {"name":"Hub","id":"http://central-ledger/participants/Hub","created":"2026-01-01T10:00:00.000Z","isActive":1,"links":{"self":"http://central-ledger/participants/Hub"},"accounts":[{"id":4,"ledgerAccountType":"HUB_RECONCILIATION","currency":"USD","isActive":1,"createdDate":null,"createdBy":"unknown"},{"id":5,"ledgerAccountType":"HUB_MULTILATERAL_SETTLEMENT","currency":"USD","isActive":1,"createdDate":null,"createdBy":"unknown"}],"isProxy":0}"#
            ]],
        ),
        ("POST /participants/Hub/endpoints", mail.into(), expect!["201"]),
        ("POST /settlementModels", MODEL.into(), expect!["201"]),
        (
            "GET /settlementModels/DEFERREDNETUSD",
            "".into(),
            expect![[
                r#"200 {"settlementModelId":2,"name":"DEFERREDNETUSD","isActive":true,"settlementGranularity":"NET","settlementInterchange":"MULTILATERAL","settlementDelay":"DEFERRED","currency":"USD","requireLiquidityCheck":true,"ledgerAccountTypeId":"POSITION","settlementAccountType":"SETTLEMENT","autoPositionReset":true}"#
            ]],
        ),
        (
            "PUT /settlementModels/DEFERREDNETUSD",
            r#"{"isActive":false}"#.into(),
            expect![[
                r#"200 {"settlementModelId":2,"name":"DEFERREDNETUSD","isActive":false,"settlementGranularity":"NET","settlementInterchange":"MULTILATERAL","settlementDelay":"DEFERRED","currency":"USD","requireLiquidityCheck":true,"ledgerAccountTypeId":"POSITION","settlementAccountType":"SETTLEMENT","autoPositionReset":true}"#
            ]],
        ),
        (
            "GET /settlementModels",
            "".into(),
            expect![[
                r#"200 [{"settlementModelId":1,"name":"DEFAULTDEFERREDNET","isActive":true,"settlementGranularity":"NET","settlementInterchange":"MULTILATERAL","settlementDelay":"DEFERRED","currency":null,"requireLiquidityCheck":true,"ledgerAccountTypeId":"POSITION","settlementAccountType":"SETTLEMENT","autoPositionReset":true},{"settlementModelId":2,"name":"DEFERREDNETUSD","isActive":false,"settlementGranularity":"NET","settlementInterchange":"MULTILATERAL","settlementDelay":"DEFERRED","currency":"USD","requireLiquidityCheck":true,"ledgerAccountTypeId":"POSITION","settlementAccountType":"SETTLEMENT","autoPositionReset":true}]"#
            ]],
        ),
        (
            "POST /participants",
            r#"{"name":"dfsp1","currency":"USD"}"#.into(),
            expect![[
                r#"201 {"name":"dfsp1","id":"http://central-ledger/participants/dfsp1","created":"2026-01-01T10:00:00.006Z","isActive":1,"links":{"self":"http://central-ledger/participants/dfsp1"},"accounts":[{"id":6,"ledgerAccountType":"POSITION","currency":"USD","isActive":0,"createdDate":null,"createdBy":"unknown"},{"id":7,"ledgerAccountType":"SETTLEMENT","currency":"USD","isActive":0,"createdDate":null,"createdBy":"unknown"}],"isProxy":0}"#
            ]],
        ),
        ("POST /participants/dfsp1/initialPositionAndLimits", limits.into(), expect!["201"]),
        ("POST /participants/dfsp1/accounts/7", FUNDS_IN.into(), expect!["202"]),
        ("POST /participants/dfsp1/endpoints", endpoint.into(), expect!["201"]),
        (
            "GET /participants/dfsp1",
            "".into(),
            expect![[
                r#"200 {"name":"dfsp1","id":"http://central-ledger/participants/dfsp1","created":"2026-01-01T10:00:00.006Z","isActive":1,"links":{"self":"http://central-ledger/participants/dfsp1"},"accounts":[{"id":6,"ledgerAccountType":"POSITION","currency":"USD","isActive":1,"createdDate":null,"createdBy":"unknown"},{"id":7,"ledgerAccountType":"SETTLEMENT","currency":"USD","isActive":1,"createdDate":null,"createdBy":"unknown"}],"isProxy":0}"#
            ]],
        ),
        (
            "GET /participants/dfsp1/endpoints",
            "".into(),
            expect![[
                r#"200 [{"type":"FSPIOP_CALLBACK_URL_TRANSFER_PUT","value":"http://dfsp1/transfers/{{transferId}}"}]"#
            ]],
        ),
        (
            "GET /participants/dfsp1/endpoints?type=FSPIOP_CALLBACK_URL_TRANSFER_PUT",
            "".into(),
            expect![[
                r#"200 {"type":"FSPIOP_CALLBACK_URL_TRANSFER_PUT","value":"http://dfsp1/transfers/{{transferId}}"}"#
            ]],
        ),
        ("GET /participants/dfsp1/endpoints?type=OTHER", "".into(), expect!["200 {}"]),
        (
            "GET /participants/dfsp1/accounts",
            "".into(),
            expect![[
                r#"200 [{"id":6,"ledgerAccountType":"POSITION","currency":"USD","isActive":1,"value":0,"reservedValue":0,"changedDate":"2026-01-01T10:00:00.006Z"},{"id":7,"ledgerAccountType":"SETTLEMENT","currency":"USD","isActive":1,"value":-10000,"reservedValue":0,"changedDate":"2026-01-01T10:00:00.008Z"}]"#
            ]],
        ),
        (
            "GET /participants/Hub/accounts",
            "".into(),
            expect![[
                r#"200 [{"id":4,"ledgerAccountType":"HUB_RECONCILIATION","currency":"USD","isActive":1,"value":10000,"reservedValue":0,"changedDate":"2026-01-01T10:00:00.008Z"},{"id":5,"ledgerAccountType":"HUB_MULTILATERAL_SETTLEMENT","currency":"USD","isActive":1,"value":0,"reservedValue":0,"changedDate":"2026-01-01T10:00:00.002Z"}]"#
            ]],
        ),
        (
            "GET /participants/dfsp1/positions",
            "".into(),
            expect![[
                r#"200 [{"currency":"USD","value":0,"changedDate":"2026-01-01T10:00:00.006Z"}]"#
            ]],
        ),
        (
            "GET /participants/dfsp1/positions?currency=USD",
            "".into(),
            expect![[
                r#"200 {"currency":"USD","value":0,"changedDate":"2026-01-01T10:00:00.006Z"}"#
            ]],
        ),
        ("GET /participants/dfsp1/positions?currency=EUR", "".into(), expect!["200 {}"]),
        (
            "GET /participants/dfsp1/limits",
            "".into(),
            expect![[
                r#"200 [{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":5000,"alarmPercentage":10}}]"#
            ]],
        ),
        (
            "PUT /participants/dfsp1/limits",
            cap.into(),
            expect![[
                r#"200 {"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":1234.5678,"alarmPercentage":7.5}}"#
            ]],
        ),
        (
            "GET /participants/dfsp1/limits?currency=USD&type=NET_DEBIT_CAP",
            "".into(),
            expect![[
                r#"200 [{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":1234.5678,"alarmPercentage":7.5}}]"#
            ]],
        ),
        ("GET /participants/dfsp1/limits?currency=EUR", "".into(), expect!["200 []"]),
        ("GET /participants/dfsp1/limits?type=OTHER", "".into(), expect!["200 []"]),
        (
            "GET /participants/limits",
            "".into(),
            expect![[
                r#"200 [{"name":"dfsp1","currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":1234.5678,"alarmPercentage":7.5}}]"#
            ]],
        ),
        ("PUT /participants/dfsp1/accounts/6", r#"{"isActive":false}"#.into(), expect!["200"]),
        (
            "PUT /participants/dfsp1",
            r#"{"isActive":false}"#.into(),
            expect![[
                r#"200 {"name":"dfsp1","id":"http://central-ledger/participants/dfsp1","created":"2026-01-01T10:00:00.006Z","isActive":0,"links":{"self":"http://central-ledger/participants/dfsp1"},"accounts":[{"id":6,"ledgerAccountType":"POSITION","currency":"USD","isActive":0,"createdDate":null,"createdBy":"unknown"},{"id":7,"ledgerAccountType":"SETTLEMENT","currency":"USD","isActive":1,"createdDate":null,"createdBy":"unknown"}],"isProxy":0}"#
            ]],
        ),
        ("GET /participants?isProxy=true", "".into(), expect!["200 []"]),
        (
            "GET /participants",
            "".into(),
            expect![[
                r#"200 [{"name":"Hub","id":"http://central-ledger/participants/Hub","created":"2026-01-01T10:00:00.000Z","isActive":1,"links":{"self":"http://central-ledger/participants/Hub"},"accounts":[{"id":4,"ledgerAccountType":"HUB_RECONCILIATION","currency":"USD","isActive":1,"createdDate":null,"createdBy":"unknown"},{"id":5,"ledgerAccountType":"HUB_MULTILATERAL_SETTLEMENT","currency":"USD","isActive":1,"createdDate":null,"createdBy":"unknown"}],"isProxy":0},{"name":"dfsp1","id":"http://central-ledger/participants/dfsp1","created":"2026-01-01T10:00:00.006Z","isActive":0,"links":{"self":"http://central-ledger/participants/dfsp1"},"accounts":[{"id":6,"ledgerAccountType":"POSITION","currency":"USD","isActive":0,"createdDate":null,"createdBy":"unknown"},{"id":7,"ledgerAccountType":"SETTLEMENT","currency":"USD","isActive":1,"createdDate":null,"createdBy":"unknown"}],"isProxy":0}]"#
            ]],
        ),
    ];
    for (request, body, expected) in steps {
        server.check(request, &body, expected).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn what_is_fixed_is_shown() {
    let server = Server::start().await;
    let fee = r#"{"name":"HUB_FEE","description":"d","isActive":true,"isSettleable":false}"#;
    server.check("GET /ledgerAccountTypes", "", expect![[r#"200 [{"id":1,"name":"POSITION","description":"What a participant owes, or is owed when below zero","isActive":1,"isSettleable":1},{"id":2,"name":"SETTLEMENT","description":"Funds on deposit, below zero: the cover","isActive":1,"isSettleable":0},{"id":3,"name":"HUB_RECONCILIATION","description":"The hub's counterpart of funds in and out","isActive":1,"isSettleable":0},{"id":4,"name":"HUB_MULTILATERAL_SETTLEMENT","description":"The hub's counterpart of net settlement","isActive":1,"isSettleable":0},{"id":5,"name":"INTERCHANGE_FEE","description":"Fees between participants","isActive":1,"isSettleable":1},{"id":6,"name":"INTERCHANGE_FEE_SETTLEMENT","description":"Settlement of fees between participants","isActive":1,"isSettleable":0},{"id":7,"name":"HUB_FEE","description":"Fees of the hub","isActive":1,"isSettleable":0}]"#]]).await;
    server.check("POST /ledgerAccountTypes", fee, expect![[r#"201 {"id":7,"name":"HUB_FEE","description":"Fees of the hub","isActive":1,"isSettleable":0}"#]]).await;
    server.check("GET /enums", "", expect![[r#"200 {"bulkProcessingState":{"ACCEPTED":4,"COMPLETED":8,"EXPIRED":10,"FULFIL_DUPLICATE":6,"FULFIL_INVALID":7,"PROCESSING":5,"RECEIVED":1,"RECEIVED_DUPLICATE":2,"RECEIVED_INVALID":3,"REJECTED":9},"bulkTransferState":{"ABORTING":"ABORTING","ACCEPTED":"ACCEPTED","COMPLETED":"COMPLETED","EXPIRED":"EXPIRED","EXPIRING":"EXPIRING","INVALID":"INVALID","PENDING_FULFIL":"PENDING_FULFIL","PENDING_INVALID":"PENDING_INVALID","PENDING_PREPARE":"PENDING_PREPARE","PROCESSING":"PROCESSING","RECEIVED":"RECEIVED","REJECTED":"REJECTED"},"bulkTransferStateEnum":{"ABORTING":"PROCESSING","ACCEPTED":"ACCEPTED","COMPLETED":"COMPLETED","EXPIRED":"COMPLETED","EXPIRING":"PROCESSING","INVALID":"REJECTED","PENDING_FULFIL":"PROCESSING","PENDING_INVALID":"PENDING","PENDING_PREPARE":"PENDING","PROCESSING":"PROCESSING","RECEIVED":"RECEIVED","REJECTED":"REJECTED"},"endpointType":{"ALARM_NOTIFICATION_TOPIC":30,"ALARM_NOTIFICATION_URL":29,"FSPIOP_CALLBACK_URL_AUTHORIZATIONS":18,"FSPIOP_CALLBACK_URL_BULK_QUOTES":16,"FSPIOP_CALLBACK_URL_BULK_TRANSFER_ERROR":28,"FSPIOP_CALLBACK_URL_BULK_TRANSFER_POST":26,"FSPIOP_CALLBACK_URL_BULK_TRANSFER_PUT":27,"FSPIOP_CALLBACK_URL_FX_QUOTES":17,"FSPIOP_CALLBACK_URL_FX_TRANSFER_ERROR":25,"FSPIOP_CALLBACK_URL_FX_TRANSFER_POST":23,"FSPIOP_CALLBACK_URL_FX_TRANSFER_PUT":24,"FSPIOP_CALLBACK_URL_PARTICIPANT_BATCH_PUT":7,"FSPIOP_CALLBACK_URL_PARTICIPANT_BATCH_PUT_ERROR":8,"FSPIOP_CALLBACK_URL_PARTICIPANT_DELETE":3,"FSPIOP_CALLBACK_URL_PARTICIPANT_PUT":1,"FSPIOP_CALLBACK_URL_PARTICIPANT_PUT_ERROR":2,"FSPIOP_CALLBACK_URL_PARTICIPANT_SUB_ID_DELETE":6,"FSPIOP_CALLBACK_URL_PARTICIPANT_SUB_ID_PUT":4,"FSPIOP_CALLBACK_URL_PARTICIPANT_SUB_ID_PUT_ERROR":5,"FSPIOP_CALLBACK_URL_PARTIES_GET":9,"FSPIOP_CALLBACK_URL_PARTIES_PUT":10,"FSPIOP_CALLBACK_URL_PARTIES_PUT_ERROR":11,"FSPIOP_CALLBACK_URL_PARTIES_SUB_ID_GET":12,"FSPIOP_CALLBACK_URL_PARTIES_SUB_ID_PUT":13,"FSPIOP_CALLBACK_URL_PARTIES_SUB_ID_PUT_ERROR":14,"FSPIOP_CALLBACK_URL_QUOTES":15,"FSPIOP_CALLBACK_URL_TRANSFER_ERROR":22,"FSPIOP_CALLBACK_URL_TRANSFER_POST":20,"FSPIOP_CALLBACK_URL_TRANSFER_PUT":21,"FSPIOP_CALLBACK_URL_TRX_REQ_SERVICE":19,"NET_DEBIT_CAP_ADJUSTMENT_EMAIL":32,"NET_DEBIT_CAP_THRESHOLD_BREACH_EMAIL":31,"SETTLEMENT_TRANSFER_POSITION_CHANGE_EMAIL":33},"hubParticipant":{"createdBy":"unknown","createdDate":"2026-01-01T10:00:00.000Z","description":"The hub itself","isActive":1,"isProxy":0,"name":"Hub","participantId":1},"ledgerAccountType":{"HUB_FEE":7,"HUB_MULTILATERAL_SETTLEMENT":4,"HUB_RECONCILIATION":3,"INTERCHANGE_FEE":5,"INTERCHANGE_FEE_SETTLEMENT":6,"POSITION":1,"SETTLEMENT":2},"ledgerEntryType":{"HUB_FEE":3,"INTERCHANGE_FEE":2,"PRINCIPLE_VALUE":1},"participantLimitType":{"NET_DEBIT_CAP":1},"settlementDelay":{"DEFERRED":2,"IMMEDIATE":1},"settlementGranularity":{"GROSS":1,"NET":2},"settlementInterchange":{"BILATERAL":1,"MULTILATERAL":2},"transferParticipantRoleType":{"HUB":3,"PAYEE_DFSP":2,"PAYER_DFSP":1},"transferState":{"ABORTED_ERROR":"ABORTED_ERROR","ABORTED_REJECTED":"ABORTED_REJECTED","COMMITTED":"COMMITTED","EXPIRED_PREPARED":"EXPIRED_PREPARED","EXPIRED_RESERVED":"EXPIRED_RESERVED","FAILED":"FAILED","INVALID":"INVALID","RECEIVED_ERROR":"RECEIVED_ERROR","RECEIVED_FULFIL":"RECEIVED_FULFIL","RECEIVED_FULFIL_DEPENDENT":"RECEIVED_FULFIL_DEPENDENT","RECEIVED_PREPARE":"RECEIVED_PREPARE","RECEIVED_REJECT":"RECEIVED_REJECT","RESERVED":"RESERVED","RESERVED_FORWARDED":"RESERVED_FORWARDED","RESERVED_TIMEOUT":"RESERVED_TIMEOUT","SETTLED":"SETTLED"},"transferStateEnum":{"ABORTED_ERROR":"ABORTED","ABORTED_REJECTED":"ABORTED","COMMITTED":"COMMITTED","EXPIRED_PREPARED":"ABORTED","EXPIRED_RESERVED":"ABORTED","FAILED":"ABORTED","INVALID":"ABORTED","RECEIVED_ERROR":"RESERVED","RECEIVED_FULFIL":"RESERVED","RECEIVED_FULFIL_DEPENDENT":"RESERVED","RECEIVED_PREPARE":"RECEIVED","RECEIVED_REJECT":"RESERVED","RESERVED":"RESERVED","RESERVED_FORWARDED":"RESERVED_FORWARDED","RESERVED_TIMEOUT":"RESERVED","SETTLED":"SETTLED"}}"#]]).await;
    server
        .check(
            "GET /enums?id=settlementDelay",
            "",
            expect![[r#"200 {"DEFERRED":2,"IMMEDIATE":1}"#]],
        )
        .await;
    server.stop().await;
}
