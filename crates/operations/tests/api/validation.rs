//! Bodies and parameters that are refused before anything is asked of the hub.

use expect_test::{Expect, expect};

use crate::conversation::Server;

#[tokio::test]
async fn bodies_are_refused_at_their_first_failure() {
    let server = Server::start().await;
    let participants = "POST /participants";
    let endpoints = "POST /participants/Hub/endpoints";
    let initial = "POST /participants/Hub/initialPositionAndLimits";
    let limits = "PUT /participants/Hub/limits";
    let funds = "POST /participants/Hub/accounts/1";
    let end = "PUT /participants/Hub/accounts/1/transfers/01HV0000000000000000000000";
    let models = "POST /settlementModels";
    let long_name = format!(r#"{{"name":"{}","currency":"USD"}}"#, "n".repeat(31));
    let long_value =
        format!(r#"{{"type":"ALARM_NOTIFICATION_TOPIC","value":"{}"}}"#, "v".repeat(1_025));
    let cap = |value: &str| {
        format!(r#"{{"currency":"USD","limit":{{"type":"NET_DEBIT_CAP","value":{value}}}}}"#)
    };
    let fund = |from: &str, to: &str| {
        r#"{"transferId":"01HV0000000000000000000000","externalReference":"r",
            "action":"recordFundsIn","reason":"r","amount":{"amount":1,"currency":"USD"}}"#
            .replace(from, to)
    };
    let model = |from: &str, to: &str| {
        r#"{"name":"CGS","settlementGranularity":"GROSS","settlementInterchange":"BILATERAL",
            "settlementDelay":"IMMEDIATE","requireLiquidityCheck":true,
            "ledgerAccountType":"POSITION","autoPositionReset":false,
            "settlementAccountType":"SETTLEMENT"}"#
            .replace(from, to)
    };
    let extensions =
        format!(r#""r","extensionList":{{"extension":[{}]}},"amount""#, vec!["{}"; 17].join(","));
    let cases: Vec<(&str, String, Expect)> = vec![
        (
            participants,
            "".into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - the body is not JSON"}}"#
            ]],
        ),
        (
            participants,
            "{".into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - the body is not JSON"}}"#
            ]],
        ),
        (
            participants,
            "[]".into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"value\" must be of type object"}}"#
            ]],
        ),
        (
            participants,
            "{}".into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"name\" is required"}}"#
            ]],
        ),
        (
            participants,
            r#"{"name":""}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"name\" is not allowed to be empty"}}"#
            ]],
        ),
        (
            participants,
            r#"{"name":null}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"name\" must be a string"}}"#
            ]],
        ),
        (
            participants,
            r#"{"name":12}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"name\" must be a string"}}"#
            ]],
        ),
        (
            participants,
            r#"{"name":"a"}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"name\" must have 2 to 30 characters"}}"#
            ]],
        ),
        (
            participants,
            r#"{"name":"a b","currency":"USD"}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"name\" contains a character that is not allowed"}}"#
            ]],
        ),
        (
            participants,
            long_name,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"name\" must have 2 to 30 characters"}}"#
            ]],
        ),
        (
            participants,
            r#"{"name":"aa"}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"currency\" is required"}}"#
            ]],
        ),
        (
            participants,
            r#"{"name":"aa","currency":"usd"}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"currency\" must be a currency code of ISO 4217"}}"#
            ]],
        ),
        (
            participants,
            r#"{"name":"aa","currency":"QQQ"}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"currency\" must be a currency code of ISO 4217"}}"#
            ]],
        ),
        (
            participants,
            r#"{"name":"aa","currency":7}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"currency\" must be a currency code of ISO 4217"}}"#
            ]],
        ),
        (
            participants,
            r#"{"name":"aa","currency":"USD","isProxy":1}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"isProxy\" must be a boolean"}}"#
            ]],
        ),
        (
            participants,
            r#"{"name":"aa","currency":"USD","b":1,"a":1}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3103","errorDescription":"Too many elements - \"a\" is not allowed"}}"#
            ]],
        ),
        (
            "PUT /participants/Hub",
            "{}".into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"isActive\" is required"}}"#
            ]],
        ),
        (
            "PUT /participants/Hub",
            r#"{"isActive":"yes"}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"isActive\" must be a boolean"}}"#
            ]],
        ),
        (
            "PUT /participants/Hub",
            r#"{"isActive":1}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"isActive\" must be a boolean"}}"#
            ]],
        ),
        (
            endpoints,
            r#"{"value":"v"}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"type\" is required"}}"#
            ]],
        ),
        (
            endpoints,
            r#"{"type":"ALARM_NOTIFICATION_TOPIC"}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"value\" is required"}}"#
            ]],
        ),
        (
            endpoints,
            r#"{"type":"T-T","value":"v"}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"type\" must be one of the known types of endpoint; /openapi/admin.json has them"}}"#
            ]],
        ),
        (
            endpoints,
            r#"{"type":"ALARM_NOTIFICATION_TOPIC","value":"a\nb"}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"value\" contains a character that is not allowed"}}"#
            ]],
        ),
        (
            endpoints,
            long_value,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"value\" must have 1 to 1024 characters"}}"#
            ]],
        ),
        (
            initial,
            r#"{"currency":"USD"}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"limit\" is required"}}"#
            ]],
        ),
        (
            initial,
            r#"{"currency":"USD","limit":5}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"limit\" must be of type object"}}"#
            ]],
        ),
        (
            initial,
            r#"{"currency":"USD","limit":{"value":5}}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"limit.type\" is required"}}"#
            ]],
        ),
        (
            initial,
            r#"{"currency":"USD","limit":{"type":"CAP","value":5}}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"limit.type\" must be one of [NET_DEBIT_CAP]"}}"#
            ]],
        ),
        (
            initial,
            r#"{"currency":"USD","limit":{"type":"NET_DEBIT_CAP"}}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"limit.value\" is required"}}"#
            ]],
        ),
        (
            initial,
            cap("-1"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"limit.value\" must be greater than or equal to 0"}}"#
            ]],
        ),
        (
            initial,
            cap("true"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"limit.value\" must be a number"}}"#
            ]],
        ),
        (
            initial,
            cap("\"\""),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"limit.value\" must be a number"}}"#
            ]],
        ),
        (
            initial,
            cap("1.00001"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"limit.value\" must be a decimal of at most 18 digits, 4 after the point"}}"#
            ]],
        ),
        (
            initial,
            cap("1e3"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"limit.value\" must be a decimal of at most 18 digits, 4 after the point"}}"#
            ]],
        ),
        (
            initial,
            cap("1234567890123456789"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"limit.value\" must be a decimal of at most 18 digits, 4 after the point"}}"#
            ]],
        ),
        (
            initial,
            cap("123456789012345.6789"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"limit.value\" must be a decimal of at most 18 digits, 4 after the point"}}"#
            ]],
        ),
        (
            initial,
            cap("1,\"alarmPercentage\":10"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3103","errorDescription":"Too many elements - \"limit.alarmPercentage\" is not allowed"}}"#
            ]],
        ),
        (
            limits,
            cap("1"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"limit.alarmPercentage\" is required"}}"#
            ]],
        ),
        (
            "POST /participants/Hub/accounts",
            r#"{"type":"HUB_FEE"}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"currency\" is required"}}"#
            ]],
        ),
        (
            "POST /participants/Hub/accounts",
            r#"{"currency":"USD","type":"IN_FLIGHT"}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"type\" must be one of [POSITION, SETTLEMENT, HUB_RECONCILIATION, HUB_MULTILATERAL_SETTLEMENT, INTERCHANGE_FEE"}}"#
            ]],
        ),
        (
            funds,
            fund("transferId", "id"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"transferId\" is required"}}"#
            ]],
        ),
        (
            funds,
            fund("01HV", "01hI"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"transferId\" must be a UUID in lower case or a ULID"}}"#
            ]],
        ),
        (
            funds,
            fund("externalReference", "reference"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"externalReference\" is required"}}"#
            ]],
        ),
        (
            funds,
            fund("recordFundsIn", "recordFundsOutCommit"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"action\" must be one of [recordFundsIn, recordFundsOutPrepareReserve]"}}"#
            ]],
        ),
        (
            funds,
            fund("\"reason\":\"r\",", ""),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"reason\" is required"}}"#
            ]],
        ),
        (
            funds,
            fund("\"amount\":1,", ""),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"amount.amount\" is required"}}"#
            ]],
        ),
        (
            funds,
            fund(":1,", ":0,"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"amount.amount\" must be a positive number"}}"#
            ]],
        ),
        (
            funds,
            fund(":1,", ":-1,"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"amount.amount\" must be a positive number"}}"#
            ]],
        ),
        (
            funds,
            fund(",\"currency\":\"USD\"", ""),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"amount.currency\" is required"}}"#
            ]],
        ),
        (
            funds,
            fund("\"r\",\"amount\"", &extensions),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"extensionList.extension\" must contain at most 16 items"}}"#
            ]],
        ),
        (
            "POST /participants/Hub/accounts/x",
            fund("", ""),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"id\" must be an integer"}}"#
            ]],
        ),
        (
            "PUT /participants/Hub/accounts/+1",
            r#"{"isActive":true}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"id\" must be an integer"}}"#
            ]],
        ),
        (
            end,
            r#"{"reason":"r"}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"action\" is required"}}"#
            ]],
        ),
        (
            end,
            r#"{"action":"recordFundsOutCommit"}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"reason\" is required"}}"#
            ]],
        ),
        (
            "PUT /participants/Hub/accounts/1/transfers/x",
            r#"{"action":"recordFundsOutCommit","reason":"r"}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"transferId\" must be a UUID in lower case or a ULID"}}"#
            ]],
        ),
        (
            models,
            model("CGS", "C_G_S"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"name\" contains a character that is not allowed"}}"#
            ]],
        ),
        (
            models,
            model("\"GROSS", "\"NETTO"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"settlementGranularity\" must be one of [GROSS, NET]"}}"#
            ]],
        ),
        (
            models,
            model("\"GROSS", "\"NET"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - this combination of granularity, interchange and delay does not exist"}}"#
            ]],
        ),
        (
            models,
            model("BILATERAL", "MULTILATERAL"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - this combination of granularity, interchange and delay does not exist"}}"#
            ]],
        ),
        (
            models,
            model("\"POSITION", "\"SETTLEMENT"),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"ledgerAccountType\" must be one of [INTERCHANGE_FEE, POSITION]"}}"#
            ]],
        ),
        (
            "POST /ledgerAccountTypes",
            r#"{"name":"A B"}"#.into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"name\" contains a character that is not allowed"}}"#
            ]],
        ),
        (
            "GET /participants/Hub/limits?currency=dollar",
            "".into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"currency\" must be a currency code of ISO 4217"}}"#
            ]],
        ),
        (
            "GET /participants/Hub/positions?currency=",
            "".into(),
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"currency\" must be a currency code of ISO 4217"}}"#
            ]],
        ),
    ];
    for (request, body, expected) in cases {
        server.check(request, &body, expected).await;
    }
    assert_eq!(server.hub.inner().recorded, []);
    server.stop().await;
}

#[tokio::test]
async fn numbers_and_booleans_may_come_as_text() {
    let server = Server::start().await;
    for (body, expected) in [
        (r#"{"isActive":"False"}"#, 0),
        (r#"{"isActive":true}"#, 1),
        (r#" { "isActive" : false } "#, 0),
        (r#"{"isActive":"true"}"#, 1),
    ] {
        let answer = server.ask("PUT /participants/Hub", body).await;
        assert!(answer.contains(&format!("\"isActive\":{expected},\"links\"")), "{answer}");
    }
    server.stop().await;
}
