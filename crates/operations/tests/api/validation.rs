//! Bodies and parameters that are refused before the backend is called.

use expect_test::{expect, expect_file};

use crate::server::TestServer;

#[tokio::test]
async fn bodies_are_refused_at_their_first_failure() {
    let server = TestServer::start().await;
    server.run_transcript(expect_file!["texts/validation.txt"]).await;
    let value = "v".repeat(1_025);
    let long = format!(r#"{{"type":"ALARM_NOTIFICATION_TOPIC","value":"{value}"}}"#);
    server.check("POST /participants/Hub/endpoints", &long, expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"value\" must have 1 to 1024 characters"}}"#]]).await;
    assert_eq!(server.backend.inner().recorded, []);
    server.stop().await;
}

#[tokio::test]
async fn numbers_and_booleans_may_come_as_text() {
    let server = TestServer::start().await;
    server.run_transcript(expect_file!["texts/coerced.txt"]).await;
    server.stop().await;
}
