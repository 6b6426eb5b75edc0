//! The board of one participant, and its comparison with the others.

use super::Unit::{Amount, Count, RequestsPerSecond, Seconds, Share};
use super::Width::Third;
use super::{Board, Panel, Section, Variable, percentile, percentiles, query};

pub(super) fn board() -> Board {
    Board {
        name: "participant",
        title: "Upesi: participant",
        help: "How a participant takes its callbacks, look-ups and quotes, compared with others.",
        variables: &[Variable::Participant],
        sections: vec![
            Section { title: "Now", panels: now() },
            Section { title: "Callbacks", panels: callbacks() },
            Section { title: "Look-ups and quotes", panels: forwards() },
            Section { title: "Liquidity", panels: liquidity() },
            Section { title: "All participants", panels: compared() },
        ],
    }
}

/// Attempts of callbacks and forwarded messages, and those that failed, per second.
const CALLBACKS: &str = "sum(rate(upesi_callback_seconds_count{@participant}[@rate]))";
const CALLBACKS_FAILED: &str = "sum(rate(upesi_callbacks_failed_total{@participant}[@rate]))";
const FORWARDS: &str = "sum(rate(upesi_forward_seconds_count{@participant}[@rate]))";
const FORWARDS_FAILED: &str = "sum(rate(upesi_forwards_refused_total{@participant}[@rate]))";

/// A share of two rates; without any attempt it is zero.
fn share(failed: &str, all: &str) -> String {
    format!("{failed} / clamp_min({all}, 0.001)")
}

fn now() -> Vec<Panel> {
    let time = percentile(99, "upesi_callback_seconds", ("sum by (le)", "@participant"));
    let answer = percentile(99, "upesi_forward_seconds", ("sum by (le)", "@participant"));
    vec![
        Panel::number("Callbacks", RequestsPerSecond, CALLBACKS)
            .help("Attempts per second to deliver a notice to the participant."),
        Panel::number("Callbacks not accepted", Share, share(CALLBACKS_FAILED, CALLBACKS))
            .help("Attempts without a 2xx: an error, no answer, or no connection.")
            .yellow_and_red(0.01, 0.5),
        Panel::number("Time of a callback", Seconds, time)
            .help("99 % of the attempts end within this time.")
            .yellow_and_red(1.0, 5.0),
        Panel::number("Look-ups and quotes", RequestsPerSecond, FORWARDS)
            .help("Messages per second forwarded to the participant."),
        Panel::number("Forwards not accepted", Share, share(FORWARDS_FAILED, FORWARDS))
            .help("Forwarded messages without a 2xx: an error, no answer, or no connection.")
            .yellow_and_red(0.01, 0.1),
        Panel::number("Time of a forward", Seconds, answer)
            .help("99 % of the forwarded messages are answered within this time.")
            .yellow_and_red(1.0, 5.0),
    ]
}

fn callbacks() -> Vec<Panel> {
    let attempts = [query(CALLBACKS, "attempts"), query(CALLBACKS_FAILED, "not accepted")];
    let time = percentiles("upesi_callback_seconds", ("sum by (le)", "@participant"));
    let owed = [query("max(upesi_participant_notices_owed{@participant})", "owed")];
    let oldest =
        [query("max(upesi_participant_oldest_notice_seconds{@participant})", "oldest notice")];
    vec![
        Panel::lines("Attempts of callbacks", RequestsPerSecond, attempts)
            .help("Attempts to deliver a notice. An attempt that is not accepted is repeated."),
        Panel::lines("Time of an attempt", Seconds, time).help(
            "To the participant's answer or the failure. A line at the timeout means that the \
             participant does not answer.",
        ),
        Panel::lines("Callbacks owed", Count, owed).help(
            "Notices that the hub owes to the participant. If it rises, the participant is away or \
             slower than its transfers.",
        ),
        Panel::lines("Age of the oldest callback", Seconds, oldest)
            .help("Age of the oldest notice owed to the participant."),
    ]
}

fn forwards() -> Vec<Panel> {
    let messages = "sum by (resource) (rate(upesi_forward_seconds_count{@participant}[@rate]))";
    let by_resource = ("sum by (resource, le)", "@participant");
    vec![
        Panel::lines(
            "Forwarded messages",
            RequestsPerSecond,
            [query(messages, "{{resource}}"), query(FORWARDS_FAILED, "not accepted")],
        )
        .help("Look-ups, quotes and their answers. They are sent once and not recorded."),
        Panel::lines(
            "Time of a forwarded message",
            Seconds,
            [query(percentile(99, "upesi_forward_seconds", by_resource), "{{resource}}")],
        )
        .help("99 % of the messages are answered by the participant within this time."),
    ]
}

fn liquidity() -> Vec<Panel> {
    let money =
        |gauge: &str, legend| query(format!("max by (currency) ({gauge}{{@participant}})"), legend);
    let amounts = [
        money("upesi_position", "position {{currency}}"),
        money("upesi_net_debit_cap", "cap {{currency}}"),
    ];
    let headroom = [money("upesi_liquidity_headroom", "{{currency}}")];
    vec![
        Panel::lines("Position and cap", Amount, amounts).help(
            "In units of the currency. Transfers are refused when the position would exceed \
             the cap, or the cover if that is lower.",
        ),
        Panel::lines("Headroom", Amount, headroom)
            .help("The amount that the participant can still send, in units of the currency."),
    ]
}

fn compared() -> Vec<Panel> {
    let slowest = percentile(99, "upesi_callback_seconds", ("sum by (participant, le)", "@job"));
    let worst = share(
        "sum by (participant) (rate(upesi_callbacks_failed_total{@job}[@rate]))",
        "sum by (participant) (rate(upesi_callback_seconds_count{@job}[@rate]))",
    );
    let owed = "max by (participant) (upesi_participant_notices_owed{@job})";
    vec![
        Panel::ranking(
            "Slowest callbacks",
            Seconds,
            query(format!("topk(10, {slowest})"), "{{participant}}"),
        )
        .help(
            "The ten participants with the slowest callbacks: 99 % need less. After the first \
             500 participants all others are one.",
        )
        .width(Third),
        Panel::ranking(
            "Callbacks not accepted by",
            Share,
            query(format!("topk(10, {worst})"), "{{participant}}"),
        )
        .help("The ten participants that accept the smallest part of their callbacks.")
        .width(Third),
        Panel::ranking(
            "Callbacks owed to",
            Count,
            query(format!("topk(10, {owed})"), "{{participant}}"),
        )
        .help("The ten participants to which the hub owes most notices.")
        .width(Third),
    ]
}
