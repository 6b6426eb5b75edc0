//! A small language for histories. Each line is a command, with its effects below it. A file of
//! such lines is both test and expectation: playing it must reproduce the file.
//!
//! `# title` begins a new log, with only its genesis. `scheme` creates three participants in USD
//! with net debit cap and liquidity cover 1000 each, and `eurofsp` in EUR. Every command is a batch
//! at the time last set by `at 2.5s`, unless `batch` and `end` enclose it. LineWords of the form
//! `key=value` are options. Lines of results (`->`, indented) are written but never read.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use sha2::{Digest as _, Sha256};

use super::touches::PartDigests;
use crate::snapshot::ReservedTransfer;
use crate::*;

/// Start time of every scenario, in milliseconds since the epoch.
const START_MS: u64 = 1_000_000_000;

/// The result of a played text.
pub(super) struct ScenarioResult {
    /// The lines with their results.
    pub(super) transcript: String,
    /// Every outcome of a command, and every outcome that a notice reported.
    pub(super) outcomes: BTreeSet<Outcome>,
    /// Numbers of changes, and the parts of the state that they touched.
    pub(super) touched: Vec<(u8, StatePart)>,
}

/// Plays a text. Panics at a line that is not in the language.
pub(super) fn play(text: &str) -> ScenarioResult {
    let mut runner = ScenarioRunner::new();
    for line in text.lines() {
        let is_result = line.starts_with(' ');
        if !is_result {
            runner.line(line.split(" -> ").next().expect("a split has a first part").trim());
        }
    }
    assert!(runner.batch.is_none(), "a batch was not ended");
    let ScenarioRunner { transcript, outcomes, touched, .. } = runner;
    ScenarioResult { transcript, outcomes, touched }
}

/// Plays lines after `scheme`, and returns the last command's outcome.
pub(super) fn last_outcome(lines: &str) -> Outcome {
    let mut runner = ScenarioRunner::new();
    runner.line("scheme");
    lines.lines().map(str::trim).filter(|line| !line.is_empty()).for_each(|line| runner.line(line));
    runner.last.expect("at least one line is a command")
}

/// A command of an open batch: its text, its line in the transcript, and itself.
struct PendingCommand {
    text: String,
    command: Command,
}

struct ScenarioRunner {
    transcript: String,
    outcomes: BTreeSet<Outcome>,
    touched: Vec<(u8, StatePart)>,
    state: State,
    now_ms: u64,
    origin: RecordOrigin,
    batch: Option<Vec<PendingCommand>>,
    /// Label of each record: its verb, and its ordinal among records of that verb.
    labels: BTreeMap<u64, String>,
    seen: BTreeMap<String, u32>,
    last: Option<Outcome>,
    silent: bool,
}

#[derive(Clone, Copy)]
struct RecordOrigin {
    node: u32,
    epoch: u32,
    sequence: u64,
}

impl ScenarioRunner {
    fn new() -> Self {
        let mut runner = Self {
            transcript: String::new(),
            outcomes: BTreeSet::new(),
            touched: Vec::new(),
            state: State::new(),
            now_ms: START_MS,
            origin: RecordOrigin { node: 1, epoch: 1, sequence: 1 },
            batch: None,
            labels: BTreeMap::new(),
            seen: BTreeMap::new(),
            last: None,
            silent: false,
        };
        runner.begin();
        runner
    }

    /// Starts a new log.
    fn begin(&mut self) {
        self.begin_under(RULES_VERSION);
    }

    /// Starts a new log under a version of the rules.
    fn begin_under(&mut self, rules_version: u32) {
        self.state = State::new();
        self.state.begin_under(rules_version);
        self.now_ms = START_MS;
        self.origin = RecordOrigin { node: 1, epoch: 1, sequence: 1 };
        self.labels.clear();
        self.seen.clear();
        let hub = FspName::new("Hub").expect("a name");
        self.apply_silently(Command::Genesis(Genesis { seed: [7; 16], hub }));
    }

    fn line(&mut self, line: &str) {
        let words = LineWords::new(line);
        match words.verb() {
            "" | "//" => self.print(line),
            "#" => {
                self.print(line);
                self.begin();
            }
            "scheme" => {
                self.print(line);
                self.scheme();
            }
            "rules" => {
                self.print(line);
                self.begin_under(words.at(1).parse().expect("a version"));
            }
            "settle-rounds" => {
                self.print(line);
                self.settle_rounds(words.at(1).parse().expect("a number"));
            }
            "at" => {
                self.print(line);
                self.now_ms = moment_ms(words.at(1));
            }
            "origin" => {
                self.print(line);
                self.origin = RecordOrigin {
                    node: words.option("node", "1").parse().expect("a node"),
                    epoch: words.option("epoch", "1").parse().expect("an epoch"),
                    sequence: words.option("sequence", "1").parse().expect("a sequence"),
                };
            }
            "batch" => {
                self.print(line);
                self.batch = Some(Vec::new());
            }
            "end" => self.end_batch(),
            "show" | "get" | "owed" | "dead" | "counters" | "deadline" | "accounts"
            | "limit-of" | "oracles" | "account-types" | "keys" | "window" | "settlement"
            | "alerts" | "fees" | "operators" | "proposals" | "enrolments" | "quotes"
            | "requests" | "erasures" => {
                let result = self.query(&words);
                self.print(&format!("{line} -> {result}"));
            }
            _ => {
                let pending =
                    PendingCommand { text: line.to_owned(), command: self.command(&words) };
                match &mut self.batch {
                    Some(batch) => batch.push(pending),
                    None => self.apply(Vec::from([pending])),
                }
            }
        }
    }

    fn end_batch(&mut self) {
        let batch = self.batch.take().expect("a batch was begun");
        self.apply(batch);
        self.print("end");
    }

    fn print(&mut self, line: &str) {
        self.transcript.push_str(line);
        self.transcript.push('\n');
    }

    fn scheme(&mut self) {
        self.silent = true;
        for line in [
            "hub-account USD HUB_RECONCILIATION",
            "hub-account USD HUB_MULTILATERAL_SETTLEMENT",
            "hub-account EUR HUB_RECONCILIATION",
            "hub-account EUR HUB_MULTILATERAL_SETTLEMENT",
            "participant dfsp1 USD",
            "participant dfsp2 USD",
            "participant dfsp3 USD",
            "participant eurofsp EUR",
            "initial dfsp1 USD 1000",
            "initial dfsp2 USD 1000",
            "initial dfsp3 USD 1000",
            "initial eurofsp EUR 1000",
            "funds-in f1 dfsp1 SETTLEMENT.USD 1000 USD",
            "funds-in f2 dfsp2 SETTLEMENT.USD 1000 USD",
            "funds-in f3 dfsp3 SETTLEMENT.USD 1000 USD",
            "funds-in f4 eurofsp SETTLEMENT.EUR 1000 EUR",
        ] {
            self.line(line);
            assert_eq!(self.last, Some(Outcome::Accepted), "{line}");
        }
        self.silent = false;
    }

    /// Commits a transfer, closes its window and settles it, again and again, without a transcript.
    fn settle_rounds(&mut self, rounds: u32) {
        self.silent = true;
        for round in 0..rounds {
            let window = self.state.settlement().numbers().window.0;
            let settlement = self.state.settlement().numbers().settlement.0 + 1;
            let mut lines = Vec::from([
                format!("prepare r{round}t dfsp1 dfsp2 1"),
                format!("fulfil r{round}t dfsp2"),
                format!("close {window}"),
                format!("settle DEFAULTDEFERREDNET {window}"),
            ]);
            let states =
                ["RECORDED", "RESERVED", "COMMITTED"].map(|it| format!("PS_TRANSFERS_{it}"));
            for state in states.into_iter().chain(["SETTLED".to_owned()]) {
                lines.push(format!(
                    "advance {settlement} {state} dfsp1/POSITION.USD dfsp2/POSITION.USD"
                ));
            }
            lines.iter().for_each(|line| self.line(line));
            assert_eq!(self.last, Some(Outcome::Accepted), "round {round}");
        }
        self.silent = false;
    }

    fn apply_silently(&mut self, command: Command) {
        self.silent = true;
        self.apply(Vec::from([PendingCommand { text: "genesis".to_owned(), command }]));
        self.silent = false;
    }

    fn apply(&mut self, batch: Vec<PendingCommand>) {
        let first = LogIndex(self.state.log_index().0 + 1);
        for (at, pending) in batch.iter().enumerate() {
            self.label(first.0 + at as u64, &pending.text);
        }
        let RecordOrigin { node, epoch, sequence } = self.origin;
        let stamp = Stamp::from_millis(self.now_ms);
        let header = Batch { first, stamp, node, epoch, sequence };
        let mut effects = Effects::default();
        let is_due = self.state.next_deadline().is_some_and(|due| due <= stamp);
        let before = PartDigests::of(&self.state);
        self.state.apply(&header, batch.iter().map(|pending| &pending.command), &mut effects);
        if let ([PendingCommand { command: Command::Administer(only), .. }], false) =
            (&batch[..], is_due)
        {
            let touched = before.touched(&PartDigests::of(&self.state), &only.change);
            let number = only.change.declaration().number;
            self.touched.extend(touched.into_iter().map(|part| (number, part)));
        }
        self.origin.sequence += batch.len() as u64;
        assert_eq!(effects.outcomes.len(), batch.len(), "one outcome per command");
        self.last = effects.outcomes.last().copied();
        if !self.silent {
            self.outcomes.extend(&effects.outcomes);
            self.outcomes.extend(effects.notices.iter().map(|notice| notice.outcome));
            for (pending, outcome) in batch.iter().zip(&effects.outcomes) {
                self.print(&format!("{} -> {outcome:?}", pending.text));
            }
            self.print_effects(&effects);
        }
    }

    fn print_effects(&mut self, effects: &Effects) {
        for notice in &effects.notices {
            assert_eq!(notice.owed_at, self.state.stamp(), "it is owed from now on");
            let name = self.state.registry().get(notice.recipient).name;
            let late = match notice.at.millis() {
                at if at == self.now_ms => String::new(),
                at => format!(" of {}", seconds(at)),
            };
            let line = format!(
                "  {} to {name}: {:?} {} {:?} from {}{late}",
                notice.id.0,
                notice.kind,
                notice.transfer.map_or_else(|| "-".to_owned(), short_id),
                notice.outcome,
                self.labels[&notice.source.0],
            );
            self.print(&line);
        }
        for (_, result) in &effects.results {
            self.print(&format!("  {}", result_text(result)));
        }
        for (recipient, notice) in &effects.withdrawn {
            let name = self.state.registry().get(*recipient).name;
            self.print(&format!("  {} to {name} withdrawn", notice.0));
        }
    }

    /// Labels a record by its verb and first word: `prepare`, and `prepare'` for the next one.
    fn label(&mut self, log_index: u64, text: &str) {
        let words = LineWords::new(text);
        let key = format!("{} {}", words.verb(), words.plain.get(1).unwrap_or(&""));
        let count = self.seen.entry(key).or_default();
        let label = format!("{}{}", words.verb(), "'".repeat(*count as usize));
        *count += 1;
        self.labels.insert(log_index, label);
    }

    fn query(&self, words: &LineWords<'_>) -> String {
        match words.verb() {
            "show" => self.balances(words.at(1)),
            "get" => self.look_up(words),
            "owed" => {
                let (index, _) = self.state.registry().find(&name(words.at(1))).expect("known");
                let (to, all) =
                    (self.state.notices_owed_to(index), self.state.notices_owed_count());
                format!("{to} of {all}")
            }
            "dead" => {
                let ids: Vec<_> = self.state.dead_letters().map(|dead| dead.notice.id.0).collect();
                format!("{ids:?}")
            }
            "deadline" => match self.state.next_deadline() {
                None => "none".to_owned(),
                Some(stamp) => seconds(stamp.millis()),
            },
            "limit-of" => {
                let (_, participant) =
                    self.state.registry().find(&name(words.at(1))).expect("known");
                let accounts = participant
                    .accounts_in(currency(words.at(2)))
                    .expect("accounts in the currency");
                match accounts.net_debit_cap {
                    None => "none".to_owned(),
                    Some(cap) => format!("{} alarm {}", cap.value, cap.alarm_percentage),
                }
            }
            "alerts" => self.alerts(),
            "fees" => self.fees(),
            "proposals" => self.proposals(),
            "enrolments" => self.enrolments(),
            "erasures" => {
                let rows = self.state.erasures().iter();
                rows.map(|it| it.record.0.to_string()).collect::<Vec<_>>().join(", ")
            }
            "quotes" => self.quotes(),
            "requests" => self.requests(),
            "operators" => self.operators(),
            "window" => self.window(WindowId(words.at(1).parse().expect("a number"))),
            "settlement" => self.settlement(SettlementId(words.at(1).parse().expect("a number"))),
            "oracles" => {
                let texts: Vec<_> =
                    self.state.registry().oracles().iter().map(oracle_text).collect();
                texts.join(", ")
            }
            "account-types" => {
                let names = self.state.registry().account_types().iter();
                names.map(|known| known.name.as_str()).collect::<Vec<_>>().join(", ")
            }
            "keys" => {
                let (_, participant) =
                    self.state.registry().find(&name(words.at(1))).expect("known");
                let text = |key: &PublicKey| String::from_utf8(key.der.clone()).expect("a letter");
                participant.keys.iter().map(text).collect::<Vec<_>>().join(", ")
            }
            "accounts" => {
                let (_, participant) =
                    self.state.registry().find(&name(words.at(1))).expect("known");
                let accounts = self.state.accounts();
                let accounts = participant.accounts.iter().filter_map(|id| accounts.get(*id));
                let texts: Vec<_> = accounts
                    .map(|account| {
                        let kind = account.kind.name().expect("a visible account");
                        let active = if account.active { "on" } else { "off" };
                        format!("{kind}.{} {active}", account.currency)
                    })
                    .collect();
                texts.join(", ")
            }
            _ => {
                let count = self.state.counters();
                let given_up = match count.given_up {
                    0 => String::new(),
                    given_up => format!(" given up {given_up}"),
                };
                format!(
                    "reserved {} refused {} committed {} aborted {} expired {} delivered {}{given_up}",
                    count.reserved,
                    count.refused,
                    count.committed,
                    count.aborted,
                    count.expired,
                    count.delivered
                )
            }
        }
    }

    /// Raised alarms, and alerts that are owed.
    fn alerts(&self) -> String {
        let alerts = self.state.alerts();
        let name = |index| self.state.registry().get(index).name;
        let alarms = alerts.alarms().map(|alarm| {
            let raised = seconds(alarm.raised.millis());
            format!(
                "{} {} at {} since {raised}",
                name(alarm.participant),
                alarm.currency,
                alarm.position
            )
        });
        let owed = alerts.owed().map(|alert| {
            let cap = alert.net_debit_cap.map_or_else(|| "none".to_owned(), |cap| cap.to_string());
            format!(
                "{} {:?} {} {} cap {cap}",
                alert.id.0,
                alert.kind,
                name(alert.participant),
                alert.position
            )
        });
        let both = [alarms.collect::<Vec<_>>(), owed.collect()];
        both.map(|texts| texts.join(", ")).join("; ")
    }

    /// Fee rules, and the fees of transfers in flight.
    fn fees(&self) -> String {
        let fees = self.state.fees();
        let rule = |rule: &FeeRule| {
            let currency = rule.currency.map_or("any".to_owned(), |currency| currency.to_string());
            format!("{} {currency} {}", rule.name, if rule.active { "on" } else { "off" })
        };
        let pending = |transfer: &ReservedTransfer| {
            let fee = fees.pending(&transfer.id)?;
            let (id, from, to) = (short_id(transfer.id), self.owner(fee.from), self.owner(fee.to));
            Some(format!("{id} rule {}: {} from {from} to {to}", fee.rule.0, fee.amount))
        };
        let rules: Vec<_> = fees.rules().iter().map(rule).collect();
        let mut pending: Vec<_> = self.state.in_flight().filter_map(pending).collect();
        pending.sort_unstable();
        [rules, pending].map(|texts| texts.join(", ")).join("; ").trim_end().to_owned()
    }

    /// Roles, operators and tokens.
    fn operators(&self) -> String {
        let book = self.state.operators();
        let role = |role: &OperatorRole| format!("{} {}", role.name, role.permissions.join(","));
        let operator = |it: &Operator| {
            let status = if it.active { "on" } else { "off" };
            let [password, factor] = [&*it.password, text(&it.second_factor)]
                .map(|credential| if credential.is_empty() { "" } else { " *" });
            let roles = it.roles.join(",");
            format!("{} [{roles}] {status} {}{password}{factor}", it.name, it.generation)
        };
        let token = |it: &OperatorToken| {
            let expires = seconds(it.expires.millis());
            format!("{} {} [{}] until {expires}", it.id.0, it.operator, it.roles.join(","))
        };
        let all: [Vec<_>; 3] = [
            book.roles().map(role).collect(),
            book.operators().map(operator).collect(),
            book.tokens().map(token).collect(),
        ];
        all.map(|texts| texts.join(", ")).join("; ").trim_end().to_owned()
    }

    /// Recorded quotes: id, parties, and the record of the answer.
    fn quotes(&self) -> String {
        let party = |index| self.state.registry().get(index).name;
        let row = |it: &QuoteRow| {
            let answer = it.answer.map(|answer| match answer.content {
                QuoteContent::Offer(_) => format!(" offer {}", answer.record.0),
                QuoteContent::Error => format!(" error {}", answer.record.0),
            });
            let answer = answer.unwrap_or_default();
            let id = short_id(it.id);
            format!("{id} {} to {}{answer}", party(it.source), party(it.destination))
        };
        self.state.quotes().map(row).collect::<Vec<_>>().join(", ")
    }

    /// Recorded transaction requests: id, parties, the last answer and its record.
    fn requests(&self) -> String {
        let party = |index| self.state.registry().get(index).name;
        let row = |it: &TransactionRequestRow| {
            let answer = it.answer.map(|answer| {
                let state = answer.status.map_or("error", |status| status.state.name());
                format!(" {state} {}", answer.record.0)
            });
            let answer = answer.unwrap_or_default();
            let id = short_id(it.id);
            format!("{id} {} to {}{answer}", party(it.source), party(it.destination))
        };
        self.state.transaction_requests().map(row).collect::<Vec<_>>().join(", ")
    }

    /// Enrolments: participant, request, and certificate.
    fn enrolments(&self) -> String {
        let row = |it: &Enrolment| {
            let end = it.end.as_ref().map(|end| match &end.certificate {
                Some(certificate) => format!(" has {}", text(certificate)),
                None => " rejected".to_owned(),
            });
            format!("{} {}{}", it.name, text(&it.csr), end.unwrap_or_default())
        };
        self.state.enrolments().iter().map(row).collect::<Vec<_>>().join(", ")
    }

    /// The newest enrolment with this request; a record that began no enrolment, if there is no such one.
    fn enrolment(&self, csr: &str) -> LogIndex {
        let mut same = self.state.enrolments().iter().filter(|it| it.csr == csr.as_bytes());
        same.by_ref().last().map_or(LogIndex(99), |it| it.id)
    }

    /// Kinds of changes that need a second person, and the proposals.
    fn proposals(&self) -> String {
        let proposals = self.state.proposals();
        let name_of = |number: &u8| {
            let mut known = Change::TABLE.iter().filter(|(_, it)| it == number);
            known.next().expect("a kind of change").0
        };
        let listed: Vec<_> = proposals.four_eyes().changes.iter().map(name_of).collect();
        let text = |it: &Proposal| {
            let decided = it.decision.as_ref().map_or_else(String::new, |decision| {
                format!(" by {} as {:?}", decision.by, decision.outcome)
            });
            let (change, state) = (it.change.declaration().name, it.state(self.state.stamp()));
            format!("{} {change} of {} {state:?}{decided}", it.id.0, it.by)
        };
        let texts: Vec<_> = proposals.iter().map(text).collect();
        format!("{}; {}", listed.join(", "), texts.join(", ")).trim_end().to_owned()
    }

    /// State, reason and contents of a window, and its sums.
    fn window(&self, id: WindowId) -> String {
        let book = self.state.settlement();
        let Some(entry) = book.window(id) else {
            return if book.is_archived_window(id) { "archived" } else { "none" }.to_owned();
        };
        let window = &entry.window;
        let content = |it: &WindowContent| {
            let kind = it.kind.name().expect("a visible account");
            let settlement = it.settlement.map_or_else(String::new, |id| format!(" in {}", id.0));
            format!("; {} {kind} {} {}{settlement}", it.id.0, it.currency, it.state.name())
        };
        let contents: String = window.contents.iter().map(content).collect();
        let owner = |id| self.owner(id);
        let sums = book.sums(id).iter().map(|it| {
            let counts = (it.paid_count, it.received_count);
            format!(
                "; {} paid {} in {} received {} in {}",
                owner(it.account),
                it.paid,
                counts.0,
                it.received,
                counts.1
            )
        });
        let pairs = book.pairs(id).iter().map(|it| {
            format!("; {} to {} {} in {}", owner(it.payer), owner(it.payee), it.amount, it.count)
        });
        let sums: String = sums.chain(pairs).collect();
        let (created, changed) =
            (seconds(window.created.millis()), seconds(window.changed.millis()));
        format!("{} {created} {changed} {}{contents}{sums}", window.state.name(), window.reason)
    }

    /// State and reason of a settlement, and its accounts.
    fn settlement(&self, id: SettlementId) -> String {
        let book = self.state.settlement();
        let Some(entry) = book.settlement(id) else {
            return if book.is_archived_settlement(id) { "archived" } else { "none" }.to_owned();
        };
        let accounts = entry.accounts.iter().map(|it| {
            let raise = match it.cap_raise {
                Amount::ZERO => String::new(),
                raise => format!(" cap +{raise}"),
            };
            format!(
                "; {} {} {} {}{raise}",
                self.owner(it.account),
                it.net,
                it.state.name(),
                it.reason
            )
        });
        let accounts: String = accounts.collect();
        format!("{} {}{accounts}", entry.settlement.state.name(), entry.settlement.reason)
    }

    /// The owner of an account, with the kind of account unless it is a POSITION.
    fn owner(&self, id: AccountId) -> String {
        let account = self.state.accounts().get(id).expect("an account");
        let name = self.state.registry().get(account.owner).name;
        match account.kind {
            AccountKind::Position => name.to_string(),
            kind => format!("{name}/{}", kind.name().expect("a visible account")),
        }
    }

    /// The visible balances of a participant; for the hub, the amount in flight.
    fn balances(&self, participant: &str) -> String {
        let (_, participant) = self.state.registry().find(&name(participant)).expect("known");
        let accounts = self.state.accounts();
        let mut parts = Vec::new();
        for account in participant.accounts.iter().filter_map(|id| accounts.get(*id)) {
            let kind = account.kind.name().expect("a visible account");
            if account.kind.is_of_hub() && account.value == Amount::ZERO {
                continue;
            }
            parts.push(format!("{kind} {} {}", account.value, account.currency));
        }
        if participant.name == *self.state.hub() {
            for (currency, _) in accounts.sums() {
                parts.push(format!("in flight {} {currency}", accounts.in_flight(currency)));
            }
        }
        parts.join(", ")
    }

    fn look_up(&self, words: &LineWords<'_>) -> String {
        let view = match self.state.look_up(&name(words.at(2)), &id(words.at(1))) {
            LookupResult::Found(view) => view,
            other => return format!("{other:?}"),
        };
        let cause = match view.cause {
            None => String::new(),
            Some(cause) => {
                format!(" for {:?} of {}", cause.outcome, self.labels[&cause.record.0])
            }
        };
        let response = match view.response {
            None => String::new(),
            Some(response) => format!(" by {}", self.labels[&response.0]),
        };
        let made = &self.labels[&view.prepare.0];
        let changed = seconds(view.changed.millis());
        format!("{:?} at {changed} made by {made}{response}{cause}", view.state)
    }

    fn command(&self, words: &LineWords<'_>) -> Command {
        match words.verb() {
            "tick" => Command::Tick,
            "prepare" => Command::Prepare(Box::new(self.prepare(words))),
            "fulfil" => Command::Fulfil(Box::new(fulfil(words))),
            "abort" => Command::Abort(Box::new(abort(words))),
            "bulk" => Command::PrepareBulk(Box::new(bulk(words))),
            "bulk-fulfil" => Command::FulfilBulk(Box::new(bulk_fulfil(words))),
            "bulk-abort" => Command::AbortBulk(Box::new(bulk_abort(words))),
            "quote" => Command::RecordQuote(Box::new(quote(words))),
            "offer" | "offer-error" => Command::RecordQuoteAnswer(Box::new(quote_answer(words))),
            "request" | "request-state" | "request-error" => {
                Command::RecordRequestToPay(Box::new(request_to_pay(words)))
            }
            "deliver" => Command::FinishDeliveries(deliveries(words)),
            "parties" => Command::ChangeParties(Box::new(ChangeParties {
                source: name(words.at(1)),
                form: PartyChangeForm::Single,
                parties: Vec::new(),
                trace: [3; 16],
                rule: party_rule(words),
            })),
            _ => Command::Administer(Box::new(Administer {
                actor: "operator".to_owned(),
                reason: String::new(),
                change: self.change(words),
            })),
        }
    }

    fn prepare(&self, words: &LineWords<'_>) -> Prepare {
        let (payer, payee) = (words.at(2), words.at(3));
        let expiration = words.option("exp", "60s");
        let body = words.option("body", "");
        let content = [words.at(1), payer, payee, words.at(4), expiration, body].join(" ");
        Prepare {
            id: id(words.at(1)),
            source: name(words.option("source", payer)),
            payer: name(payer),
            payee: name(payee),
            currency: currency(words.option("currency", "USD")),
            amount: amount(words.at(4)),
            condition: Sha256::digest(preimage(words.at(1))).into(),
            expiration_ms: moment_ms(expiration),
            hash: digest(&content),
            trace: [1; 16],
            fee_rule: words.given("fee").map(|rule| FeeRuleId(rule.parse().expect("a number"))),
            quote_terms: words.given("terms").map(|terms| digest(&terms)),
        }
    }

    fn change(&self, words: &LineWords<'_>) -> Change {
        let active = || words.plain.last() == Some(&"on");
        match words.verb() {
            "settings" => Configure { settings: self.settings(words) }.into(),
            "activate" => {
                Activate { rules_version: words.at(1).parse().expect("a version") }.into()
            }
            "hub-account" => Change::CreateHubAccount(CreateHubAccount {
                currency: currency(words.at(1)),
                kind: AccountKind::parse(words.at(2)).expect("a kind"),
            }),
            "model" => CreateSettlementModel { model: model(words) }.into(),
            "model-active" => {
                SetSettlementModelActive { name: words.at(1).to_owned(), active: active() }.into()
            }
            "participant" => Change::CreateParticipant(CreateParticipant {
                name: name(words.at(1)),
                currency: currency(words.at(2)),
            }),
            "participant-active" => {
                SetParticipantActive { name: name(words.at(1)), active: active() }.into()
            }
            "account-active" => Change::SetAccountActive(SetAccountActive {
                name: name(words.at(1)),
                account: self.account(words.at(1), words.at(2)),
                active: active(),
            }),
            "initial" => Change::SetInitialPositionAndLimits(SetInitialPositionAndLimits {
                name: name(words.at(1)),
                currency: currency(words.at(2)),
                net_debit_cap: amount(words.at(3)),
                position: amount(words.option("position", "0")),
            }),
            "limit" => Change::SetLimit(SetLimit {
                name: name(words.at(1)),
                currency: currency(words.at(2)),
                net_debit_cap: amount(words.at(3)),
                alarm_percentage: amount(words.option("alarm", "10")),
            }),
            "endpoint" => Change::SetEndpoint(SetEndpoint {
                name: name(words.at(1)),
                endpoint: words.at(2).to_owned(),
                value: words.at(3).to_owned(),
            }),
            "key" => Change::AddKey(AddKey {
                name: name(words.at(1)),
                id: digest(words.at(2)),
                key: words.at(2).into(),
            }),
            "key-removed" => RemoveKey { name: name(words.at(1)), id: digest(words.at(2)) }.into(),
            "enrol" => BeginEnrolment { name: name(words.at(1)), csr: words.at(2).into() }.into(),
            "enrolled" => EndEnrolment {
                name: name(words.at(1)),
                enrolment: self.enrolment(words.at(2)),
                certificate: words.plain.get(3).map(|word| (*word).into()),
            }
            .into(),
            "funds-in" => self.funds(words, FundsDirection::In),
            "funds-out" => self.funds(words, FundsDirection::Out),
            "funds-commit" | "funds-abort" => Change::EndFundsOut(EndFundsOut {
                id: id(words.at(1)),
                name: name(words.at(2)),
                account: self.account(words.at(2), words.at(3)),
                commit: words.verb() == "funds-commit",
                hash: request_hash(words),
            }),
            "redeliver" => {
                Redeliver { notice: NoticeId(words.at(1).parse().expect("a number")) }.into()
            }
            "drop" => {
                DropDeadLetter { notice: NoticeId(words.at(1).parse().expect("a number")) }.into()
            }
            "oracle" => CreateOracle { oracle: oracle(words) }.into(),
            "oracle-change" => Change::UpdateOracle(UpdateOracle {
                id: oracle_id(words),
                update: OracleUpdate {
                    id_type: words.given("type"),
                    endpoint: words.given("url"),
                    currency: Currency::parse(words.option("currency", "")),
                    default: words.given("default").map(|value| value == "on"),
                },
            }),
            "oracle-delete" => DeleteOracle { id: oracle_id(words) }.into(),
            "account-type" => Change::CreateLedgerAccountType(CreateLedgerAccountType {
                account_type: LedgerAccountType {
                    name: words.at(1).to_owned(),
                    description: "x".to_owned(),
                    active: true,
                    settleable: false,
                },
            }),
            "close" => CloseWindow {
                window: WindowId(words.at(1).parse().expect("a number")),
                reason: words.option("reason", "end-of-day").to_owned(),
            }
            .into(),
            "settle" => CreateSettlement {
                model: words.at(1).to_owned(),
                reason: words.option("reason", "daily").to_owned(),
                windows: words.plain[2..]
                    .iter()
                    .map(|word| WindowId(word.parse().expect("a number")))
                    .collect(),
            }
            .into(),
            "advance" => AdvanceSettlement {
                settlement: SettlementId(words.at(1).parse().expect("a number")),
                steps: words.plain[3..].iter().map(|word| self.step(words, word)).collect(),
            }
            .into(),
            "check" => {
                CheckLiquidity { name: name(words.at(1)), currency: currency(words.at(2)) }.into()
            }
            "finish-alerts" => FinishAlerts {
                alerts: words.plain[1..]
                    .iter()
                    .map(|word| AlertId(word.parse().expect("a number")))
                    .collect(),
            }
            .into(),
            "adjust" => AdjustBalance {
                id: id(words.at(1)),
                name: name(words.at(2)),
                account: self.account(words.at(2), words.at(3)),
                currency: currency(words.at(5)),
                amount: amount(words.at(4)),
                hash: request_hash(words),
            }
            .into(),
            "fee-rule" => CreateFeeRule { rule: Box::new(fee_rule(words)) }.into(),
            "fee-rule-active" => SetFeeRuleActive {
                rule: FeeRuleId(words.at(1).parse().expect("a number")),
                active: active(),
            }
            .into(),
            "role" => {
                let (name, permissions) = (words.at(1).to_owned(), list(Some(words.at(2))));
                SetRole { role: OperatorRole { name, permissions } }.into()
            }
            "role-removed" => RemoveRole { name: words.at(1).to_owned() }.into(),
            "operator" => SetOperator {
                name: words.at(1).to_owned(),
                roles: list(words.plain.get(2).copied().filter(|word| *word != "off")),
                active: words.plain.last() != Some(&"off"),
            }
            .into(),
            "token" => CreateToken {
                id: token_id(words),
                operator: words.at(2).to_owned(),
                roles: list(words.given("roles").as_deref()),
                hash: digest(words.at(1)),
                description: String::new(),
                expires: Stamp::from_millis(moment_ms(words.option("expires", "60s"))),
            }
            .into(),
            "token-revoked" => RevokeToken { id: token_id(words) }.into(),
            "password" => SetPassword {
                operator: words.at(1).to_owned(),
                hash: words.plain.get(2).copied().unwrap_or_default().to_owned(),
            }
            .into(),
            "second-factor" => {
                SetSecondFactor { operator: words.at(1).to_owned(), secret: words.at(2).into() }
                    .into()
            }
            "register-parties" => RegisterParties {
                parties: words.plain[1..].iter().map(|fsp| party_of(fsp)).collect(),
            }
            .into(),
            "assign-parties" => AssignParties {
                form: PartyChangeForm::Batch,
                parties: words.plain[1..].iter().map(|fsp| party_of(fsp)).collect(),
                former: former_owners(words),
            }
            .into(),
            "erase" => {
                let bounds = words.plain[2..].iter().map(|word| word.split_once('-'));
                let number = |text: &str| LogIndex(text.parse().expect("a record"));
                let ranges = bounds.zip(&words.plain[2..]).map(|(bounds, alone)| {
                    let (first, last) = bounds.unwrap_or((alone, alone));
                    RecordRange { first: number(first), last: number(last) }
                });
                let form = match words.at(1) {
                    "retention" => ErasureForm::RetainedPayments,
                    _ => ErasureForm::Transfer,
                };
                Erase {
                    form,
                    subject: words.at(1).to_owned(),
                    records: ranges.collect(),
                    contents: 1,
                }
                .into()
            }
            "audit" => RecordAudit {
                method: "POST".to_owned(),
                path: words.at(1).to_owned(),
                status: words.at(2).parse().expect("a status"),
                code: 3000,
                detail: "refused".to_owned(),
                requests: 1,
                record: LogIndex(0),
            }
            .into(),
            "abort-settlement" => AbortSettlement {
                settlement: SettlementId(words.at(1).parse().expect("a number")),
                reason: words.option("reason", "wrong").to_owned(),
            }
            .into(),
            "four-eyes" | "propose" | "propose-large" | "approve" | "reject" => {
                self.change_of_proposals(words)
            }
            other => panic!("{other} is no command"),
        }
    }

    fn change_of_proposals(&self, words: &LineWords<'_>) -> Change {
        match words.verb() {
            "four-eyes" => {
                SetFourEyes { changes: words.plain[1..].iter().map(kind_of_change).collect() }
                    .into()
            }
            "propose" | "propose-large" => Propose {
                by: words.at(1).to_owned(),
                reason: "month end".to_owned(),
                request: "POST /x".to_owned(),
                seconds: words.option("seconds", "60").parse().expect("seconds"),
                change: Arc::new(self.nested_change(words).unwrap_or_else(large_change)),
            }
            .into(),
            "approve" => {
                let proposal = proposal_id(words);
                let known = self.state.proposals().get(proposal).map(|it| it.change.clone());
                let nested = || self.nested_change(words).map(Arc::new);
                let other = SetParticipantActive { name: name("dfsp1"), active: true };
                let change = nested().or(known).unwrap_or_else(|| Arc::new(other.into()));
                let (by, reason) = (words.at(1).to_owned(), "checked".to_owned());
                ApproveProposal { proposal, by, reason, change }.into()
            }
            _ => RejectProposal {
                proposal: proposal_id(words),
                by: words.at(1).to_owned(),
                reason: "wrong amount".to_owned(),
            }
            .into(),
        }
    }

    /// The change after a colon.
    fn nested_change(&self, words: &LineWords<'_>) -> Option<Change> {
        let (_, nested) = words.line.split_once(" : ")?;
        Some(self.change(&LineWords::new(nested)))
    }

    /// A step of the account `name/KIND.CUR`, with another participant than its owner if asked.
    fn step(&self, words: &LineWords<'_>, account: &str) -> AccountStep {
        let owner = account.split_once('/').expect("name/KIND.CUR").0;
        let participant = words.option("participant", owner);
        let found = self.state.registry().find(&name(participant));
        AccountStep {
            participant: found.map_or(0, |(index, _)| index.0 + 1),
            account: self.account(owner, account),
            state: SettlementState::parse(words.at(2)).expect("a state"),
            reason: words.option("reason", "paid").to_owned(),
            external_reference: String::new(),
        }
    }

    fn settings(&self, words: &LineWords<'_>) -> Settings {
        let mut settings = *self.state.settings();
        for (key, value) in &words.options {
            let on = *value == "on";
            match *key {
                "confirm" => settings.confirm_to_payee = on,
                "on-us" => settings.on_us_transfers = on,
                "put-aborted" => settings.put_aborted_aborts = on,
                "covers-position" => settings.funds_out_covers_position = on,
                "lane" => settings.lane_capacity = value.parse().expect("a number"),
                other => panic!("{other} is no setting"),
            }
        }
        settings
    }

    fn funds(&self, words: &LineWords<'_>, direction: FundsDirection) -> Change {
        Change::MoveFunds(MoveFunds {
            id: id(words.at(1)),
            name: name(words.at(2)),
            account: self.account(words.at(2), words.at(3)),
            direction,
            currency: currency(words.at(5)),
            amount: amount(words.at(4)),
            hash: request_hash(words),
        })
    }

    /// The account `KIND.CUR` of a participant, or `name/KIND.CUR` of another one. A missing
    /// account gives an unused number.
    fn account(&self, owner: &str, word: &str) -> AccountId {
        let (owner, word) = word.split_once('/').unwrap_or((owner, word));
        let (kind, code) = word.split_once('.').expect("KIND.CUR");
        let kind = AccountKind::parse(kind).expect("a kind");
        let accounts = self.state.accounts();
        let registry = self.state.registry();
        let owned = registry.find(&name(owner)).map_or(&[][..], |(_, owner)| &owner.accounts);
        let mut accounts = owned.iter().filter_map(|id| accounts.get(*id));
        let found =
            accounts.find(|account| account.kind == kind && account.currency == currency(code));
        found.map_or(AccountId(u32::MAX), |account| account.id)
    }
}

/// The words of a line: plain ones in order, and options.
struct LineWords<'a> {
    line: &'a str,
    plain: Vec<&'a str>,
    options: Vec<(&'a str, &'a str)>,
}

impl<'a> LineWords<'a> {
    fn new(line: &'a str) -> Self {
        let (options, plain) = line.split_whitespace().partition(|word| word.contains('='));
        let options: Vec<&str> = options;
        let options = options.iter().filter_map(|word| word.split_once('=')).collect();
        Self { line, plain, options }
    }

    fn verb(&self) -> &'a str {
        self.plain.first().copied().unwrap_or("")
    }

    fn at(&self, at: usize) -> &'a str {
        self.plain.get(at).unwrap_or_else(|| panic!("a word is missing in: {}", self.line))
    }

    fn option(&self, key: &str, default: &'a str) -> &'a str {
        let found = self.options.iter().find(|(name, _)| *name == key);
        found.map_or(default, |(_, value)| *value)
    }

    fn given(&self, key: &str) -> Option<String> {
        let found = self.options.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| (*value).to_owned())
    }
}

fn result_text(result: &ChangeResult) -> String {
    match result {
        ChangeResult::Opened(window) => format!("window {} is open", window.0),
        ChangeResult::Proposed(proposal) => format!("proposal {}", proposal.0),
        ChangeResult::Enrolment(record) => format!("enrolment {}", record.0),
        ChangeResult::Created(settlement) => format!("settlement {}", settlement.0),
        ChangeResult::Inapplicable(windows) => {
            let windows: Vec<_> = windows.iter().map(|window| window.0.to_string()).collect();
            format!("inapplicable: {}", windows.join(", "))
        }
        ChangeResult::Advanced(steps) => format!("{steps:?}"),
    }
}

/// The texts of a list with commas.
fn list(words: Option<&str>) -> Vec<String> {
    words.map_or_else(Vec::new, |words| words.split(',').map(ToOwned::to_owned).collect())
}

fn token_id(words: &LineWords<'_>) -> OperatorTokenId {
    OperatorTokenId(words.at(1).parse().expect("a number"))
}

fn text(bytes: &[u8]) -> &str {
    core::str::from_utf8(bytes).expect("a letter")
}

/// The digest of an operator's request: that of its line.
fn request_hash(words: &LineWords<'_>) -> Digest {
    digest(words.line)
}

fn oracle(words: &LineWords<'_>) -> Oracle {
    Oracle {
        id_type: words.at(1).to_owned(),
        endpoint: words.at(2).to_owned(),
        currency: Currency::parse(words.option("currency", "")),
        default: words.option("default", "off") == "on",
    }
}

/// `fee-rule NAME 6000`: a percentage, in parts per million; `fixed=0.25` for a fixed fee.
fn fee_rule(words: &LineWords<'_>) -> FeeRule {
    let fee = match words.given("fixed") {
        Some(fixed) => Fee::Fixed { amount: amount(&fixed) },
        None => Fee::Percentage {
            parts_per_million: words.at(2).parse().expect("a share"),
            decimals: words.option("decimals", "2").parse().expect("a number"),
            rounding: Rounding::HalfUp,
        },
    };
    FeeRule {
        name: words.at(1).to_owned(),
        currency: Currency::parse(words.option("currency", "")),
        conditions: FeeConditions::default(),
        fee,
        payer: match words.option("payer", "payer") {
            "payer" => FeePayer::Payer,
            _ => FeePayer::Payee,
        },
        active: words.option("active", "on") == "on",
    }
}

/// The number of a kind of change, or of a kind with this name.
fn kind_of_change(word: &&str) -> u8 {
    let named = Change::TABLE.iter().find(|(name, _)| name == word);
    named.map_or_else(|| word.parse().expect("a number"), |(_, number)| *number)
}

/// A party that an FSP serves.
/// `former=FSP,FSP`: the FSPs that lose an entry.
fn former_owners(words: &LineWords<'_>) -> Vec<FormerOwner> {
    let named = words.option("former", "");
    let former = named.split(',').filter(|fsp| !fsp.is_empty());
    former.map(|fsp| FormerOwner { party: 0, fsp: name(fsp) }).collect()
}

fn party_rule(words: &LineWords<'_>) -> Option<PartyRule> {
    let former = former_owners(words);
    let ownership = PartyOwnership::LatestWins;
    (!former.is_empty()).then_some(PartyRule { ownership, former })
}

fn party_of(fsp: &str) -> PartyBinding {
    let (id_type, id) = ("MSISDN".to_owned(), "254700000001".to_owned());
    PartyBinding { id_type, id, sub_id: None, currency: None, fsp: name(fsp) }
}

/// `approve PERSON PROPOSAL`, `reject PERSON PROPOSAL`.
fn proposal_id(words: &LineWords<'_>) -> ProposalId {
    ProposalId(words.at(2).parse().expect("a number"))
}

/// A change of more than a mebibyte.
fn large_change() -> Change {
    let step = AccountStep {
        participant: 2,
        account: AccountId(6),
        state: SettlementState::PsTransfersRecorded,
        reason: "x".repeat(62_000),
        external_reference: String::new(),
    };
    AdvanceSettlement { settlement: SettlementId(1), steps: vec![step; 17] }.into()
}

fn oracle_id(words: &LineWords<'_>) -> OracleId {
    OracleId(words.at(1).parse().expect("a number"))
}

fn oracle_text((id, oracle): &(OracleId, Oracle)) -> String {
    let currency = oracle.currency.map_or("any".to_owned(), |currency| currency.to_string());
    let default = if oracle.default { " default" } else { "" };
    format!("{} {} {currency} {}{default}", id.0, oracle.id_type, oracle.endpoint)
}

/// Plays a file and compares the result. `UPDATE_EXPECT=1` rewrites the file.
pub(super) fn check(text: &str, expected: &expect_test::ExpectFile) {
    expected.assert_eq(&play(text).transcript);
}

fn fulfil(words: &LineWords<'_>) -> Fulfil {
    let state = words.option("state", "committed");
    let fulfilment = words.option("fulfilment", "right");
    let content = [words.at(1), state, fulfilment, words.option("body", "")].join(" ");
    Fulfil {
        id: id(words.at(1)),
        source: name(words.at(2)),
        destination: destination(words),
        state: match state {
            "committed" => FulfilState::Committed,
            "reserved" => FulfilState::Reserved,
            "reserved-1.0" => FulfilState::ReservedUnderVersion10,
            "aborted" => FulfilState::Aborted,
            other => panic!("{other} is no state"),
        },
        fulfilment: match fulfilment {
            "right" => Fulfilment::Present(preimage(words.at(1))),
            "wrong" => Fulfilment::Present([9; 32]),
            "absent" => Fulfilment::Absent,
            "undecodable" => Fulfilment::Undecodable,
            other => panic!("{other} is no fulfilment"),
        },
        hash: digest(&content),
        trace: [2; 16],
    }
}

fn abort(words: &LineWords<'_>) -> Abort {
    let code = words.option("code", "known");
    Abort {
        id: id(words.at(1)),
        source: name(words.at(2)),
        destination: destination(words),
        code_is_known: code == "known",
        hash: digest(&[words.at(1), code, words.option("body", "")].join(" ")),
        trace: [2; 16],
    }
}

/// `bulk b1 dfsp1 dfsp2 t1:10 t2:5`: two items.
fn bulk(words: &LineWords<'_>) -> PrepareBulk {
    let expiration = words.option("exp", "60s");
    let content = [&words.plain.join(" "), expiration, words.option("body", "")].join(" ");
    let items = words.plain[4..].iter().map(|word| {
        let (transfer, value) = word.split_once(':').expect("an id and an amount");
        BulkItem {
            id: id(transfer),
            currency: currency(words.option("currency", "USD")),
            amount: amount(value),
            condition: Sha256::digest(preimage(transfer)).into(),
            fee_rule: None,
        }
    });
    PrepareBulk {
        id: id(words.at(1)).as_bulk(),
        source: name(words.option("source", words.at(2))),
        payer: name(words.at(2)),
        payee: name(words.at(3)),
        expiration_ms: moment_ms(expiration),
        hash: digest(&content),
        trace: [1; 16],
        items: items.collect(),
    }
}

/// `bulk-fulfil b1 dfsp2 t1:right t2:wrong t3:absent t4:known t5:unknown`: the last two are errors.
fn bulk_fulfil(words: &LineWords<'_>) -> FulfilBulk {
    let content = [&words.plain.join(" "), words.option("body", "")].join(" ");
    let items = words.plain[3..].iter().map(|word| {
        let (transfer, answer) = word.split_once(':').expect("an id and an answer");
        let answer = match answer {
            "right" => BulkItemAnswer::Fulfilled(Fulfilment::Present(preimage(transfer))),
            "wrong" => BulkItemAnswer::Fulfilled(Fulfilment::Present([9; 32])),
            "absent" => BulkItemAnswer::Fulfilled(Fulfilment::Absent),
            code => BulkItemAnswer::Refused(code == "known"),
        };
        BulkItemResult { id: id(transfer), answer }
    });
    FulfilBulk {
        id: id(words.at(1)).as_bulk(),
        source: name(words.at(2)),
        destination: destination(words),
        hash: digest(&content),
        trace: [2; 16],
        items: items.collect(),
    }
}

fn bulk_abort(words: &LineWords<'_>) -> AbortBulk {
    let Abort { source, destination, code_is_known, hash, trace, .. } = abort(words);
    AbortBulk { id: id(words.at(1)).as_bulk(), source, destination, code_is_known, hash, trace }
}

/// `quote q1 dfsp1 dfsp2 exp=60s keep=90s body=other`.
fn quote(words: &LineWords<'_>) -> RecordQuote {
    let expiration = words.option("exp", "");
    RecordQuote {
        quote: id(words.at(1)),
        transaction: id(words.option("transaction", words.at(1))),
        source: name(words.at(2)),
        destination: name(words.at(3)),
        expiration_ms: (!expiration.is_empty()).then(|| moment_ms(expiration)),
        keep_until_ms: moment_ms(words.option("keep", "600s")),
        hash: digest(&[words.at(1), expiration, words.option("body", "")].join(" ")),
        trace: [3; 16],
        request: words.given("request").map(|request| id(&request)),
    }
}

/// `request r1 dfsp2 dfsp1 exp=60s keep=90s body=other`, `request-state r1 dfsp1 ACCEPTED
/// transaction=t1`, `request-error r1 dfsp1`.
fn request_to_pay(words: &LineWords<'_>) -> RecordRequestToPay {
    let expiration = words.option("exp", "");
    let step = match words.verb() {
        "request" => RequestStep::Requested(RequestTerms {
            destination: name(words.at(3)),
            expiration_ms: (!expiration.is_empty()).then(|| moment_ms(expiration)),
            keep_until_ms: moment_ms(words.option("keep", "600s")),
        }),
        "request-state" => RequestStep::Answered(RequestStatus {
            state: RequestState::parse(words.at(3)).expect("a state"),
            transaction: words.given("transaction").map(|transaction| id(&transaction)),
        }),
        _ => RequestStep::Failed,
    };
    let body = [words.verb(), expiration, words.option("body", ""), &format!("{step:?}")];
    RecordRequestToPay {
        request: id(words.at(1)),
        source: name(words.at(2)),
        step,
        hash: digest(&body.join(" ")),
        trace: [5; 16],
    }
}

/// `offer q1 dfsp2 exp=60s body=other`, `offer-error q1 dfsp2`.
fn quote_answer(words: &LineWords<'_>) -> RecordQuoteAnswer {
    let (terms, expiration) = (words.option("body", ""), words.option("exp", "60s"));
    let offer = || QuoteOffer { terms: digest(terms), expiration_ms: moment_ms(expiration) };
    RecordQuoteAnswer {
        quote: id(words.at(1)),
        source: name(words.at(2)),
        content: match words.verb() {
            "offer" => QuoteContent::Offer(offer()),
            _ => QuoteContent::Error,
        },
        hash: digest(&[words.at(1), expiration, terms].join(" ")),
        trace: [4; 16],
    }
}

fn destination(words: &LineWords<'_>) -> Option<FspName> {
    match words.option("to", "") {
        "" => None,
        text => Some(name(text)),
    }
}

/// `deliver 3 4 dead`: results of the notices 3 and 4; delivered by default.
fn deliveries(words: &LineWords<'_>) -> Vec<FinishedDelivery> {
    let result = match words.plain.last().copied() {
        Some("dead") => DeliveryResult::Dead,
        Some("withdrawn") => DeliveryResult::Withdrawn,
        Some("given-up") => DeliveryResult::GivenUp,
        _ => DeliveryResult::Delivered,
    };
    let numbers = words.plain.iter().filter_map(|word| word.parse().ok());
    numbers
        .map(|number| FinishedDelivery {
            notice: NoticeId(number),
            result,
            attempts: 1,
            status: 200,
            finished_ms: START_MS,
        })
        .collect()
}

fn model(words: &LineWords<'_>) -> SettlementModel {
    let kind = |key, default| AccountKind::parse(words.option(key, default)).expect("a kind");
    let style = words.option("style", "multilateral");
    SettlementModel {
        name: words.at(1).to_owned(),
        net: style != "gross",
        multilateral: style == "multilateral",
        deferred: words.option("delay", "deferred") == "deferred",
        currency: Currency::parse(words.option("currency", "")),
        liquidity_check: words.option("liquidity", "on") == "on",
        auto_position_reset: words.option("reset", "on") == "on",
        ledger_account: kind("ledger", "POSITION"),
        settlement_account: kind("settlement", "SETTLEMENT"),
        active: true,
    }
}

fn name(text: &str) -> FspName {
    FspName::new(text).expect("a name")
}

fn currency(text: &str) -> Currency {
    Currency::parse(text).expect("a currency")
}

fn amount(text: &str) -> Amount {
    Amount::parse_decimal(text).expect("an amount")
}

/// A short name as an id: the name's letters in the last places of a ULID.
fn id(text: &str) -> TransferId {
    TransferId::parse(&format!("{:0>26}", text.to_uppercase())).expect("letters of a ULID")
}

fn short_id(id: TransferId) -> String {
    id.to_string().trim_start_matches('0').to_lowercase()
}

fn preimage(id: &str) -> [u8; 32] {
    digest(id).0
}

fn digest(text: &str) -> Digest {
    Digest(*blake3::hash(text.as_bytes()).as_bytes())
}

/// `2.5s` after the start of the scenario, in milliseconds since the epoch.
fn moment_ms(text: &str) -> u64 {
    let seconds = amount(text.strip_suffix('s').expect("seconds")).units();
    START_MS.checked_add_signed((seconds / 10) as i64).expect("a moment after the epoch")
}

fn seconds(at_ms: u64) -> String {
    let after = i128::from(at_ms) - i128::from(START_MS);
    format!("{}s", Amount::from_units(after * 10))
}
