//! The order in which every scheme sets itself up (hub-semantics 4.3), with exact shapes.

use expect_test::expect_file;

use crate::server::TestServer;

#[tokio::test]
async fn a_scheme_is_set_up_step_by_step() {
    let server = TestServer::start().await;
    server.run_transcript(expect_file!["texts/onboarding.txt"]).await;
    server.stop().await;
}

#[tokio::test]
async fn fixed_lists_are_shown() {
    let server = TestServer::start().await;
    server.run_transcript(expect_file!["texts/fixed.txt"]).await;
    server.stop().await;
}
