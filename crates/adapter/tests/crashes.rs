//! One payment through the machines of two adapters and the kernel of the hub, with crashes between
//! any two steps, lost messages and lost power.
//!
//! In the end all agree: the money has moved at the hub, the payer's adapter reports COMPLETED and
//! the payee's back end keeps its credit, or none of these. Every choice comes from a seed.

use adapter::BackendError;
use adapter::inbound::{InboundEffect, InboundEvent, InboundPhase, InboundTransfer};
use adapter::outbound::{
    Callback, CallbackKind, Effect, Event, HubRequest, OutboundTransfer, Phase, RequestKind,
};
use adapter::policy::Policy;
use fspiop::ilp::{condition, push_base64};
use ledger::{
    Abort, AccountKind, Administer, Amount, Batch, Change, Command, CreateHubAccount,
    CreateParticipant, Currency, Digest, Effects, FspName, Fulfil, FulfilState, Fulfilment,
    FundsDirection, Genesis, LogIndex, LookupResult, MoveFunds, Notice, NoticeKind, Outcome,
    Prepare, SetInitialPositionAndLimits, Stamp, State, TransferId, TransferState,
};
use serde_json::{Value, json};

/// Thursday, 1 January 2026.
const BEGIN_MS: u64 = 1_767_225_600_000;
const SEEDS: u64 = 3_000;
const STEPS_MAX: u32 = 20_000;
const CRASHES_MAX: u32 = 4;
const SECRET: [u8; 32] = [42; 32];
const TRANSFER: &str = "7f5a3c1e-0000-4000-8000-000000000001";

/// A sequence of choices (splitmix64).
struct Choices(u64);

impl Choices {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.draw() as usize % bound
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.draw() % 100 < percent
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Payer,
    Payee,
}

/// Something that can happen next.
#[derive(Clone, Debug)]
enum Step {
    /// The rest of a machine's effects, in their order.
    Payer(Vec<Effect>),
    Payee(Vec<InboundEffect>),
    /// A request of an adapter reaches the hub.
    FromPayer(RequestKind, HubRequest),
    FromPayee(PayeeRequest),
    /// A message reaches an adapter.
    ToPayer(Event),
    ToPayee(InboundEvent),
    /// The hub's callbacks, which it repeats until they are taken.
    CallPayer(Callback),
    Prepare(Value),
    Notice(InboundEvent),
    /// The back end of the payee gets a request.
    Credit(Value),
    Final(Value),
}

#[derive(Clone, Debug)]
enum PayeeRequest {
    Response(bool, Value),
    Status,
}

/// The credit in the books of the payee's back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Credit {
    None,
    Credited,
    Reversed,
}

/// A machine in memory and its rows on disk.
struct Node<M> {
    memory: Option<M>,
    /// The row that is left after a kill.
    written: Option<M>,
    /// The row that is left after a loss of power.
    synced: Option<M>,
    policy: Policy,
}

impl<M: Clone> Node<M> {
    fn new(name: &str) -> Self {
        let mut policy = Policy { allow_transfer_without_quote: true, ..Policy::default() };
        policy.fsp_id = name.to_owned();
        Self { memory: None, written: None, synced: None, policy }
    }

    fn save(&mut self, is_synced: bool) {
        self.written.clone_from(&self.memory);
        if is_synced {
            self.synced.clone_from(&self.memory);
        }
    }

    fn crash(&mut self, loses_power: bool) {
        if loses_power {
            self.written.clone_from(&self.synced);
        }
        self.synced.clone_from(&self.written);
        self.memory.clone_from(&self.written);
    }
}

/// The kernel of the hub, whose log is durable.
struct Hub {
    state: State,
    /// Bodies of the payer's and the payee's messages, by their records.
    bodies: Vec<(LogIndex, Value)>,
}

fn name(text: &str) -> FspName {
    FspName::new(text).expect("a name")
}

fn usd() -> Currency {
    Currency::parse("USD").expect("a currency")
}

fn transfer_id() -> TransferId {
    TransferId::parse(TRANSFER).expect("an id")
}

fn base64(bytes: &[u8; 32]) -> String {
    let mut out = Vec::new();
    push_base64(&mut out, bytes);
    String::from_utf8(out).expect("it is ASCII")
}

fn digest(body: &Value) -> Digest {
    Digest(fspiop::body_hash(body.to_string().as_bytes()))
}

fn administer(change: Change) -> Command {
    let (actor, reason) = ("test".into(), String::new());
    Command::Administer(Box::new(Administer { actor, reason, change }))
}

impl Hub {
    fn new() -> Self {
        let mut hub = Self { state: State::new(), bodies: Vec::new() };
        let currency = usd();
        hub.apply(&Command::Genesis(Genesis { seed: [7; 16], hub: name("Hub") }), BEGIN_MS);
        for kind in [AccountKind::HubReconciliation, AccountKind::HubMultilateralSettlement] {
            let change = Change::CreateHubAccount(CreateHubAccount { currency, kind });
            hub.apply(&administer(change), BEGIN_MS);
        }
        let amount = Amount::parse("1000").expect("an amount");
        for (at, name) in [name("payer"), name("payee")].into_iter().enumerate() {
            let create = Change::CreateParticipant(CreateParticipant { name, currency });
            hub.apply(&administer(create), BEGIN_MS);
            let limits = SetInitialPositionAndLimits {
                name,
                currency,
                net_debit_cap: amount,
                position: Amount::ZERO,
            };
            hub.apply(&administer(Change::SetInitialPositionAndLimits(limits)), BEGIN_MS);
            let found = hub.state.registry().find(&name).expect("it was created");
            let holding = found.1.accounts_in(currency).expect("it has accounts");
            let id = format!("7f5a3c1e-0000-4000-8000-00000000010{at}");
            let funds = MoveFunds {
                hash: Digest([0; 32]),
                id: TransferId::parse(&id).expect("an id"),
                name,
                account: holding.settlement,
                direction: FundsDirection::In,
                currency,
                amount,
            };
            hub.apply(&administer(Change::MoveFunds(funds)), BEGIN_MS);
        }
        hub
    }

    fn apply(&mut self, command: &Command, now_ms: u64) -> (LogIndex, Vec<Notice>) {
        let first = LogIndex(self.state.log_index().0 + 1);
        let stamp = Stamp::from_millis(now_ms);
        let batch = Batch { first, stamp, node: 1, epoch: 1, sequence: first.0 };
        let mut effects = Effects::default();
        self.state.apply(&batch, [command], &mut effects);
        (first, effects.notices)
    }

    /// Decides on a message. Returns the hub's callbacks.
    fn decide(&mut self, command: &Command, body: &Value, now_ms: u64) -> Vec<Step> {
        let (index, notices) = self.apply(command, now_ms);
        self.bodies.push((index, body.clone()));
        notices.iter().map(|notice| self.callback(notice)).collect()
    }

    fn expire(&mut self, now_ms: u64) -> Vec<Step> {
        let (_, notices) = self.apply(&Command::Tick, now_ms);
        notices.iter().map(|notice| self.callback(notice)).collect()
    }

    fn prepare(&mut self, body: &Value, now_ms: u64) -> Vec<Step> {
        let parsed = fspiop::body::Prepare::parse(body.to_string().as_bytes()).expect("valid");
        let prepare = Prepare {
            id: parsed.transfer,
            source: parsed.payer,
            payer: parsed.payer,
            payee: parsed.payee,
            currency: parsed.amount.currency,
            amount: parsed.amount.amount,
            condition: parsed.condition,
            expiration_ms: parsed.expiration_ms,
            hash: digest(body),
            trace: [7; 16],
            fee_rule: None,
            quote_terms: None,
        };
        self.decide(&Command::Prepare(Box::new(prepare)), body, now_ms)
    }

    fn respond(&mut self, is_error: bool, body: &Value, now_ms: u64) -> Vec<Step> {
        let (id, source, destination) = (transfer_id(), name("payee"), Some(name("payer")));
        let (hash, trace) = (digest(body), [8; 16]);
        let command = if is_error {
            let code_is_known = true;
            Command::Abort(Box::new(Abort { id, source, destination, code_is_known, hash, trace }))
        } else {
            let fulfilment = body["fulfilment"].as_str().and_then(fspiop::ilp::read_digest);
            let fulfilment = fulfilment.map_or(Fulfilment::Absent, Fulfilment::Present);
            let state = match body["transferState"].as_str() {
                Some("RESERVED") => FulfilState::Reserved,
                Some("ABORTED") => FulfilState::Aborted,
                _ => FulfilState::Committed,
            };
            let fulfil = Fulfil { id, source, destination, state, fulfilment, hash, trace };
            Command::Fulfil(Box::new(fulfil))
        };
        self.decide(&command, body, now_ms)
    }

    /// The answer to `GET /transfers/{ID}`: whether it is an error, and its body.
    fn report(&self, asker: &str) -> (bool, Value) {
        match self.state.look_up(&name(asker), &transfer_id()) {
            LookupResult::Found(view) => (false, self.state_body(view.state)),
            _ => (true, error("3208")),
        }
    }

    fn state_body(&self, state: TransferState) -> Value {
        match state {
            TransferState::Reserved => json!({ "transferState": "RESERVED" }),
            TransferState::Aborted => json!({ "transferState": "ABORTED" }),
            TransferState::Committed => {
                json!({ "transferState": "COMMITTED", "fulfilment": base64(&SECRET) })
            }
        }
    }

    fn callback(&self, notice: &Notice) -> Step {
        let source = || {
            let found = self.bodies.iter().find(|(index, _)| *index == notice.source);
            found.map_or(Value::Null, |(_, body)| body.clone())
        };
        let (is_error, body) = match notice.kind {
            NoticeKind::Prepare => return Step::Prepare(source()),
            NoticeKind::PatchCommitted => return patch("COMMITTED"),
            NoticeKind::PatchAborted => return patch("ABORTED"),
            NoticeKind::Fulfil | NoticeKind::FulfilCopy => (false, source()),
            NoticeKind::Abort | NoticeKind::AbortCopy => (true, source()),
            NoticeKind::Committed => (false, self.state_body(TransferState::Committed)),
            NoticeKind::Reserved => (false, self.state_body(TransferState::Reserved)),
            NoticeKind::AbortedState => (false, self.state_body(TransferState::Aborted)),
            NoticeKind::Error if notice.outcome == Outcome::Expired => (true, error("3303")),
            NoticeKind::Error => (true, error("3100")),
            NoticeKind::PartiesChanged
            | NoticeKind::BulkPrepare
            | NoticeKind::BulkResult
            | NoticeKind::BulkError => panic!("{notice:?} is not about a transfer"),
        };
        let payer = self.state.registry().find(&name("payer")).expect("it was created").0;
        if notice.recipient == payer {
            return Step::CallPayer(callback(is_error, body));
        }
        Step::Notice(InboundEvent::Notice { is_patch: false, is_error, body })
    }
}

fn patch(state: &str) -> Step {
    let body = json!({ "transferState": state });
    Step::Notice(InboundEvent::Notice { is_patch: true, is_error: false, body })
}

fn error(code: &str) -> Value {
    json!({ "errorInformation": { "errorCode": code, "errorDescription": "text" } })
}

fn callback(is_error: bool, body: Value) -> Callback {
    Callback { kind: CallbackKind::Transfers, is_error, headers: Value::Null, body }
}

/// The scheme, with everything that is under way.
struct Scheme {
    choices: Choices,
    now_ms: u64,
    hub: Hub,
    payer: Node<OutboundTransfer>,
    payee: Node<InboundTransfer>,
    steps: Vec<Step>,
    credit: Credit,
    /// The prepare until the payee's adapter has it on disk.
    untaken: Option<Value>,
    /// Whether the payee's back end refuses the transfer.
    refuses: bool,
    crashes: u32,
    history: Vec<String>,
}

impl Scheme {
    fn new(seed: u64) -> Self {
        let mut choices = Choices(seed);
        let (mut payer, mut payee) = (Node::new("payer"), Node::new("payee"));
        payee.policy.reserve_notification = choices.percent(50);
        let life = 1 + choices.below(30) as u64;
        let body = json!({
            "transferId": TRANSFER, "payerFsp": "payer", "payeeFsp": "payee",
            "amount": { "amount": "10", "currency": "USD" }, "ilpPacket": "abcd",
            "condition": base64(&condition(&SECRET)),
            "expiration": date_time(BEGIN_MS + life * 1_000),
        });
        let (transfer, effects) =
            OutboundTransfer::simple(body, "payee", [7; 16], &payer.policy, BEGIN_MS);
        payer.memory = Some(transfer);
        let refuses = choices.percent(20);
        Self {
            choices,
            now_ms: BEGIN_MS,
            hub: Hub::new(),
            payer,
            payee,
            steps: vec![Step::Payer(effects)],
            credit: Credit::None,
            untaken: None,
            refuses,
            crashes: 0,
            history: Vec::new(),
        }
    }

    fn run(&mut self) {
        for _ in 0..STEPS_MAX {
            if self.crashes < CRASHES_MAX && self.choices.percent(4) {
                self.crash();
            }
            if self.choices.percent(3) {
                let pause = 1 + self.choices.draw() % 8_000;
                self.pass(self.now_ms + pause);
            }
            if self.steps.is_empty() {
                let Some(next) = self.next_deadline() else { return };
                self.pass(next.max(self.now_ms + 1));
                continue;
            }
            let at = self.choices.below(self.steps.len());
            let step = self.steps.remove(at);
            self.history.push(format!("{} {step:?}", self.now_ms - BEGIN_MS));
            self.now_ms += 1;
            self.take(step);
        }
        panic!("it does not end");
    }

    fn next_deadline(&self) -> Option<u64> {
        let payer = self.payer.memory.as_ref().and_then(|it| it.deadline_ms);
        let payee = self.payee.memory.as_ref().and_then(|it| it.deadline_ms);
        let hub = self.hub.state.next_deadline().map(|at| at.millis() + 1);
        [payer, payee, hub].into_iter().flatten().min()
    }

    /// Lets time pass, and lets deadlines pass with it.
    fn pass(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        let callbacks = self.hub.expire(now_ms);
        self.steps.extend(callbacks);
        if self.payer.memory.as_ref().is_some_and(|it| is_due(it.deadline_ms, now_ms)) {
            self.steps.push(Step::ToPayer(Event::Deadline));
        }
        if self.payee.memory.as_ref().is_some_and(|it| is_due(it.deadline_ms, now_ms)) {
            self.steps.push(Step::ToPayee(InboundEvent::Deadline));
        }
    }

    /// Ends a process: its memory, its unfinished effects and the answers to its requests are gone.
    fn crash(&mut self) {
        self.crashes += 1;
        let side = if self.choices.percent(50) { Side::Payer } else { Side::Payee };
        let loses_power = self.choices.percent(30);
        self.history.push(format!("crash of {side:?}, power lost: {loses_power}"));
        match side {
            Side::Payer => {
                self.steps.retain(|it| !matches!(it, Step::Payer(_) | Step::ToPayer(_)));
                self.payer.crash(loses_power);
                if self.payer.memory.as_ref().is_some_and(|it| it.phase == Phase::Prepared) {
                    self.steps.push(Step::ToPayer(Event::Restarted));
                }
            }
            Side::Payee => {
                let of_payee = |it: &Step| {
                    matches!(
                        it,
                        Step::Payee(_) | Step::ToPayee(_) | Step::Credit(_) | Step::Final(_)
                    )
                };
                // The back end may have got the request.
                let asked: Vec<_> =
                    self.steps.iter().filter(|it| matches!(it, Step::Credit(_))).cloned().collect();
                self.steps.retain(|it| !of_payee(it));
                if !asked.is_empty() && self.choices.percent(50) {
                    self.book_credit();
                }
                self.payee.crash(loses_power);
                self.steps.extend(self.untaken.take().map(Step::Prepare));
                let is_open = |it: &InboundTransfer| it.phase != InboundPhase::Ended;
                if self.payee.memory.as_ref().is_some_and(is_open) {
                    self.steps.push(Step::ToPayee(InboundEvent::Restarted));
                }
            }
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Payer(effects) => self.payer_effects(effects),
            Step::Payee(effects) => self.payee_effects(effects),
            Step::FromPayer(kind, request) => self.carry_from_payer(kind, &request),
            Step::FromPayee(request) => self.carry_from_payee(request),
            Step::CallPayer(callback) => self.payer_event(Event::Callback(callback)),
            Step::ToPayer(event) => self.payer_event(event),
            Step::Notice(event) | Step::ToPayee(event) => self.payee_event(event),
            Step::Prepare(body) => self.prepared(body),
            Step::Credit(body) => self.asked_to_credit(&body),
            Step::Final(body) => {
                if body["currentState"] == "ABORTED" && self.credit == Credit::Credited {
                    self.credit = Credit::Reversed;
                }
                let is_heard = !self.choices.percent(20);
                self.steps.push(Step::ToPayee(InboundEvent::Notified(is_heard)));
            }
        }
    }

    fn payer_event(&mut self, event: Event) {
        let is_deadline = matches!(event, Event::Deadline);
        let Some(machine) = &mut self.payer.memory else { return };
        if machine.is_final() || is_deadline && !is_due(machine.deadline_ms, self.now_ms) {
            return;
        }
        let effects = machine.handle(event, &self.payer.policy, self.now_ms);
        self.payer_effects(effects);
    }

    /// Carries out the first effect; a crash may come before the others.
    fn payer_effects(&mut self, mut effects: Vec<Effect>) {
        if effects.is_empty() {
            return;
        }
        match effects.remove(0) {
            Effect::Save(is_synced) => self.payer.save(is_synced),
            Effect::Send(kind, request) => self.steps.push(Step::FromPayer(kind, request)),
            Effect::Answer(_) => {}
        }
        if !effects.is_empty() {
            // Nothing of the same adapter comes between.
            self.steps.push(Step::Payer(effects));
            self.finish(Side::Payer);
        }
    }

    /// Carries out the rest of an adapter's effects, unless it crashes.
    fn finish(&mut self, side: Side) {
        if self.crashes < CRASHES_MAX && self.choices.percent(5) {
            return self.crash();
        }
        let is_rest = |it: &Step| match side {
            Side::Payer => matches!(it, Step::Payer(_)),
            Side::Payee => matches!(it, Step::Payee(_)),
        };
        if let Some(at) = self.steps.iter().position(is_rest) {
            let rest = self.steps.remove(at);
            self.take(rest);
        }
    }

    fn carry_from_payer(&mut self, kind: RequestKind, request: &HubRequest) {
        if self.choices.percent(10) {
            return self.steps.push(Step::ToPayer(Event::Unanswered(kind, "lost".to_owned())));
        }
        if kind == RequestKind::Prepare {
            let body = request.body.as_ref().expect("a prepare has a body");
            let callbacks = self.hub.prepare(body, self.now_ms);
            self.steps.extend(callbacks);
        } else {
            let (is_error, body) = self.hub.report("payer");
            self.steps.push(Step::CallPayer(callback(is_error, body)));
        }
        let answer = match self.choices.percent(10) {
            true => Event::Unanswered(kind, "the answer is lost".to_owned()),
            false => Event::Accepted(kind),
        };
        self.steps.push(Step::ToPayer(answer));
    }

    fn prepared(&mut self, body: Value) {
        let Some(known) = &mut self.payee.memory else {
            self.untaken = Some(body.clone());
            let policy = &self.payee.policy;
            let (transfer, effects) =
                InboundTransfer::begin((json!({}), body), None, [8; 16], policy, self.now_ms);
            self.payee.memory = Some(transfer);
            return self.payee_effects(effects);
        };
        let effects = known.handle(InboundEvent::PreparedAgain, &self.payee.policy, self.now_ms);
        self.payee_effects(effects);
    }

    fn payee_event(&mut self, event: InboundEvent) {
        let is_deadline = matches!(event, InboundEvent::Deadline);
        let Some(machine) = &mut self.payee.memory else { return };
        if is_deadline && !is_due(machine.deadline_ms, self.now_ms) {
            return;
        }
        let effects = machine.handle(event, &self.payee.policy, self.now_ms);
        self.payee_effects(effects);
    }

    fn payee_effects(&mut self, mut effects: Vec<InboundEffect>) {
        if effects.is_empty() {
            return;
        }
        match effects.remove(0) {
            InboundEffect::Save(is_synced) => {
                self.payee.save(is_synced);
                self.untaken = None;
            }
            InboundEffect::AskBackend(body) => self.steps.push(Step::Credit(body)),
            InboundEffect::Respond(is_error, body) => {
                self.steps.push(Step::FromPayee(PayeeRequest::Response(is_error, body)));
            }
            InboundEffect::AskHub => self.steps.push(Step::FromPayee(PayeeRequest::Status)),
            InboundEffect::Notify(body) => self.steps.push(Step::Final(body)),
        }
        if !effects.is_empty() {
            self.steps.push(Step::Payee(effects));
            self.finish(Side::Payee);
        }
    }

    fn carry_from_payee(&mut self, request: PayeeRequest) {
        let undelivered = Step::ToPayee(InboundEvent::Undelivered { may_be_retried: true });
        match request {
            PayeeRequest::Response(..) if self.choices.percent(10) => self.steps.push(undelivered),
            PayeeRequest::Response(is_error, body) => {
                let callbacks = self.hub.respond(is_error, &body, self.now_ms);
                self.steps.extend(callbacks);
                self.steps.push(match self.choices.percent(10) {
                    true => undelivered,
                    false => Step::ToPayee(InboundEvent::Delivered),
                });
            }
            PayeeRequest::Status if self.choices.percent(10) => {}
            PayeeRequest::Status => {
                let (is_error, body) = self.hub.report("payee");
                let event = InboundEvent::Notice { is_patch: false, is_error, body };
                self.steps.push(Step::Notice(event));
            }
        }
    }

    fn book_credit(&mut self) {
        if self.credit == Credit::None && !self.refuses {
            self.credit = Credit::Credited;
        }
    }

    fn asked_to_credit(&mut self, body: &Value) {
        assert_eq!(body["transferId"], TRANSFER);
        self.book_credit();
        let failed = |code: &str, is_certain| BackendError {
            code: code.to_owned(),
            message: "text".to_owned(),
            is_certain,
        };
        let answer = match self.credit {
            Credit::None => Err(failed("5105", true)),
            Credit::Reversed => Err(failed("5105", true)),
            Credit::Credited if self.choices.percent(10) => Err(failed("2001", false)),
            Credit::Credited => {
                Ok(Some(json!({ "homeTransactionId": "payee-1", "fulfilment": base64(&SECRET) })))
            }
        };
        self.steps.push(Step::ToPayee(InboundEvent::BackendAnswered(answer)));
    }

    /// Whether hub, payer and payee agree.
    fn check(&self, seed: u64) {
        let hub = self.hub.state.view(&transfer_id()).map(|view| view.state);
        let payer = self.payer.memory.as_ref().map(|it| it.phase);
        let payee = self.payee.memory.as_ref().map(|it| it.phase);
        let is_committed = hub == Some(TransferState::Committed);
        let agrees = match payer {
            None => hub.is_none(),
            Some(phase) => phase == if is_committed { Phase::Completed } else { Phase::Failed },
        };
        let is_settled = matches!(payee, None | Some(InboundPhase::Ended))
            && is_committed == (self.credit == Credit::Credited);
        assert!(
            agrees && is_settled,
            "seed {seed}: hub {hub:?}, payer {payer:?}, payee {payee:?}, {:?}\n{}",
            self.credit,
            self.history.join("\n")
        );
    }
}

fn is_due(deadline_ms: Option<u64>, now_ms: u64) -> bool {
    deadline_ms.is_some_and(|at| at <= now_ms)
}

fn date_time(millis: u64) -> String {
    let text = fspiop::time::date_time_whole_seconds(millis);
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn hub_and_adapters_agree_after_crashes_at_every_step() {
    let mut ends = [0; 2];
    for seed in 0..SEEDS {
        let mut scheme = Scheme::new(seed);
        scheme.run();
        scheme.check(seed);
        let view = scheme.hub.state.view(&transfer_id());
        ends[usize::from(view.is_some_and(|it| it.state == TransferState::Committed))] += 1;
    }
    assert!(ends.iter().all(|count| SEEDS / 20 < *count), "one end is rare: {ends:?}");
}
