//! The board of positions, caps and covers, and of the alerts about them.

use super::Unit::{Amount, Count, PerSecond, Seconds, Share};
use super::Width::{Half, Third};
use super::{Board, Panel, Section, Variable, query};

pub(super) fn board() -> Board {
    Board {
        name: "liquidity-and-settlement",
        title: "Upesi: liquidity and settlement",
        help: "Positions, net debit caps and covers of the participants, what limits them, and how \
               a settlement moves them. Amounts are in units of the currency.",
        variables: &[Variable::Currency],
        sections: vec![
            Section { title: "Now", panels: now() },
            Section { title: "Participants", panels: participants() },
            Section { title: "Settlement", panels: settlement() },
            Section { title: "Refusals and alerts", panels: refusals() },
        ],
    }
}

/// Nodes of one log have the same positions: the highest value of the nodes.
fn of(gauge: &str) -> String {
    format!("max by (participant) ({gauge}{{@currency}})")
}

/// The position in relation to the cap or the cover, whichever is lower. Without `other`, whose
/// position is a sum and whose headroom is the lowest one.
fn used() -> String {
    let of = |gauge| format!("max by (participant) ({gauge}{{@currency, participant!=\"other\"}})");
    let (position, headroom) = (of("upesi_position"), of("upesi_liquidity_headroom"));
    format!("{position} / clamp_min({position} + {headroom}, 0.0001)")
}

fn now() -> Vec<Panel> {
    let sum = |gauge: &str| format!("sum({})", of(gauge));
    vec![
        Panel::number("Alarms", Count, "max(upesi_liquidity_alarms{@job})")
            .help("Positions at or above the alarm percentage of their cap, of all currencies.")
            .yellow_and_red(1.0, 10.0),
        Panel::number("Highest use", Share, format!("max({})", used()))
            .help(
                "The highest position in relation to its cap or cover, whichever is lower, of the \
                 first 500 participants. The lowest headroom is that of all.",
            )
            .yellow_and_red(0.8, 0.95),
        Panel::number(
            "Lowest headroom",
            Amount,
            format!("min({})", of("upesi_liquidity_headroom")),
        )
        .help("The amount that the participant with the lowest headroom can still send."),
        Panel::number("To settle", Amount, format!("sum({} > 0)", of("upesi_position"))).help(
            "The sum of the positions above zero: what debtors owe until a settlement. After \
                 the first 500 participants all others are one, with the sum of their positions.",
        ),
        Panel::number("Cover", Amount, sum("upesi_liquidity_cover"))
            .help("The liquidity cover of all participants together."),
        Panel::number(
            "Refused",
            PerSecond,
            "max(rate(upesi_transfers_refused_total{@job}[@rate]))",
        )
        .help("Prepares per second that the ledger refused, mostly for lack of liquidity."),
    ]
}

fn participants() -> Vec<Panel> {
    let named = |expression: String| query(expression, "{{participant}}");
    let lines = |gauge| [named(format!("topk(15, {})", of(gauge)))];
    vec![
        Panel::lines("Positions", Amount, lines("upesi_position"))
            .help(
                "The 15 highest positions. Above zero the participant owes. A settlement moves \
                   the positions of its windows towards zero.",
            )
            .width(Half),
        Panel::lines(
            "Headroom",
            Amount,
            [named(format!("bottomk(15, {})", of("upesi_liquidity_headroom")))],
        )
        .help(
            "The 15 lowest amounts that participants can still send: the lower of cap and cover, \
               less the position.",
        )
        .width(Half),
        Panel::ranking("Use of the limit", Share, named(format!("topk(10, {})", used()))).help(
            "The ten highest positions in relation to their cap or cover, whichever is lower, of \
             the first 500 participants.",
        ),
        Panel::ranking(
            "Largest creditors",
            Amount,
            named(format!("topk(10, -{} > 0)", of("upesi_position"))),
        )
        .help("The ten participants that the scheme owes most: positions below zero."),
        Panel::lines("Net debit caps", Amount, lines("upesi_net_debit_cap"))
            .help("The 15 highest caps. A step is a change by an operator or a settlement."),
        Panel::lines("Covers", Amount, lines("upesi_liquidity_cover"))
            .help("The 15 highest covers. Funds in and out and settlements change them."),
    ]
}

/// Nodes of one log have the same windows and settlements.
fn settlement() -> Vec<Panel> {
    let by_state = |gauge: &str| query(format!("max by (state) ({gauge}{{@job}})"), "{{state}}");
    let ages = [
        query("max(upesi_settlement_window_open_seconds{@job})", "open window"),
        query("max(upesi_settlement_window_unsettled_seconds{@job})", "oldest unsettled window"),
    ];
    vec![
        Panel::lines("Windows", Count, [by_state("upesi_settlement_windows")])
            .help("Settlement windows by state. Settled ones are left out.")
            .width(Third),
        Panel::lines("Settlements", Count, [by_state("upesi_settlements")])
            .help("Settlements that have begun and are neither settled nor aborted.")
            .width(Third),
        Panel::lines("Age of windows", Seconds, ages)
            .help(
                "Since the open window was opened, and since the oldest window that is not settled \
                 was closed.",
            )
            .width(Third),
    ]
}

fn refusals() -> Vec<Panel> {
    let sent = [
        query("sum(rate(upesi_alert_webhooks_sent_total{@job}[@rate]))", "webhooks accepted"),
        query("sum(rate(upesi_alert_webhooks_failed_total{@job}[@rate]))", "webhooks failed"),
        query("sum(rate(upesi_alert_mails_sent_total{@job}[@rate]))", "e-mails accepted"),
        query("sum(rate(upesi_alert_mails_failed_total{@job}[@rate]))", "e-mails failed"),
    ];
    let owed = [
        query("sum(upesi_alerts_owed{@job})", "owed"),
        query("sum(increase(upesi_alerts_given_up_total{@job}[1h]))", "given up in an hour"),
        query("sum(increase(upesi_alerts_dropped_total{@job}[1h]))", "dropped in an hour"),
    ];
    let age = [query("max(upesi_alerts_oldest_seconds{@job})", "oldest alert")];
    vec![
        Panel::lines("Alerts sent", PerSecond, sent)
            .help("Alerts about liquidity to webhooks and mail relays.")
            .width(Third),
        Panel::lines("Alerts owed", Count, owed)
            .help("Alerts that no receiver has accepted yet, and those that were lost.")
            .width(Third),
        Panel::lines("Age of the oldest alert", Seconds, age)
            .help("If it rises, the webhook or the mail relay does not accept alerts.")
            .width(Third),
    ]
}
