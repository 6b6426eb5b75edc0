//! The queries of the published boards of the reference, asked of a real Prometheus.
//!
//! `published_queries.txt` states for each whether it is answered. The page in the manual is written
//! from what Prometheus answers: UPDATE_EXPECT=1 writes it again.

use std::fmt::Write;

use expect_test::expect_file;
use serde_json::Value;

use super::{Monitored, deploy, replaced, until};

/// Queries of the list.
const QUERIES: &str = include_str!("published_queries.txt");
const ANSWERED: &str = "answered";

/// A line of the list.
struct PublishedQuery {
    board: &'static str,
    panel: &'static str,
    expression: &'static str,
    /// `answered`, or the reason why not.
    expected: &'static str,
}

fn queries() -> Vec<PublishedQuery> {
    let lines = QUERIES.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let query = |line: &'static str| match line.split(" | ").collect::<Vec<_>>()[..] {
        [board, panel, expression, expected] => {
            PublishedQuery { board, panel, expression, expected }
        }
        _ => panic!("four fields: {line}"),
    };
    lines.map(query).collect()
}

/// Whether a query finds a number. Some panels ask other sources than Prometheus: not answered.
fn is_answered(monitored: &Monitored, query: &PublishedQuery) -> bool {
    let Ok(found) = monitored.prometheus.try_query(&replaced(query.expression)) else {
        return false;
    };
    let is_number = |series: &Value| series["value"][1].as_str().is_some_and(|it| it != "NaN");
    found.iter().any(is_number)
}

/// Each query is answered, or has the stated reason why not.
pub(super) fn queries_are_answered_as_listed(monitored: &Monitored) {
    let queries = queries();
    until("published queries", || {
        monitored.send_each_message();
        let is_wrong =
            |query: &&PublishedQuery| is_answered(monitored, query) != (query.expected == ANSWERED);
        let wrong: Vec<_> = queries.iter().filter(is_wrong).collect();
        let line = |it: &&PublishedQuery| format!("{}: {}\n", it.expected, it.expression);
        wrong.is_empty().then_some(()).ok_or_else(|| wrong.iter().map(line).collect())
    });
    let page = deploy("grafana").join("../../docs/operating/published-boards.md");
    expect_file![page].assert_eq(&page_of(&queries));
}

/// The page of the manual.
fn page_of(queries: &[PublishedQuery]) -> String {
    let answered = |queries: &[PublishedQuery]| {
        queries.iter().filter(|query| query.expected == ANSWERED).count()
    };
    let mut page = format!(
        "# Queries of the published boards\n\n\
         Boards of the Mojaloop test harness and of its performance white paper work with Upesi:\n\
         `GET /metrics` has their series under both prefixes\n\
         ([their meaning here](mojaloop-metrics.md)). This page is written by a test, which asks a real\n\
         Prometheus that scrapes a switch under load: {} of {} queries are answered\n\
         (`upesi/tests/product/monitoring/published.rs`).\n",
        answered(queries),
        queries.len()
    );
    for board in queries.chunk_by(|one, next| one.board == next.board) {
        let name = board[0].board;
        write!(page, "\n## {name}\n\n{} of {} are answered.\n\n", answered(board), board.len())
            .unwrap();
        page += "| Panel | Query | Answer |\n|---|---|---|\n";
        for PublishedQuery { panel, expression, expected, .. } in board {
            // A `|` would end the cell of a table.
            let expression = expression.replace('|', "\\|");
            writeln!(page, "| {panel} | `{expression}` | {expected} |").unwrap();
        }
    }
    page
}
