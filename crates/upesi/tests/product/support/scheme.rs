//! A running switch with three funded participants, and helper functions.

use std::cell::RefCell;
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::process::Signal;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use testkit::http::{Client, Connection, Headers, PATIENCE, Request, Response};
use testkit::server::Reply;

use super::fsp::{Callback, Fsp, line};
use super::message::{Message, Transfer, uuid};
use super::switch::{Home, Switch, set_aside_in};

/// Liquidity cover of each participant. The net debit cap is half of it.
pub(crate) const FUNDS: &str = "2000";
const CAP: &str = "1000";
/// Polling interval of a figure that is expected to change.
const GLANCE: Duration = Duration::from_millis(5);

/// A client of the admin API with its token.
pub(crate) struct Admin {
    token: String,
    client: RefCell<Client>,
}

/// An account in the admin API, with its value as written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Account {
    pub(crate) id: u64,
    ledger_account_type: String,
    value: Box<RawValue>,
    reserved_value: Box<RawValue>,
}

impl Admin {
    pub(crate) fn new(home: &Home, switch: &Switch) -> Self {
        Self { token: home.token(), client: RefCell::new(Client::new(switch.admin, PATIENCE)) }
    }

    pub(crate) fn call(&self, method: &str, path: &str, body: &str) -> Response {
        self.try_call(method, path, body).unwrap()
    }

    /// Sends a request to a switch that may have ended.
    pub(crate) fn try_call(&self, method: &str, path: &str, body: &str) -> io::Result<Response> {
        let headers = [
            ("host", "localhost"),
            ("authorization", &format!("Bearer {}", self.token)),
            ("accept", "*/*"),
            ("content-type", "application/json"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (method, path) = (method.to_owned(), path.to_owned());
        let (headers, body) = (Headers(headers.to_vec()), body.as_bytes().to_vec());
        // The switch closes a connection that is idle for seconds.
        self.client.borrow_mut().call(&Request { method, path, headers, body })
    }

    /// A change that must be answered with this status.
    pub(crate) fn must(&self, method: &str, path: &str, body: &str, status: u16) {
        let answer = self.call(method, path, body);
        assert_eq!(answer.status, status, "{method} {path} {body}: {}", answer.text());
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let answer = self.call("GET", path, "");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path)).unwrap()
    }

    /// `GET /state`, once no record was added for longer than the interval at which the switch
    /// looks for alerts to finish, each of which is a record of its own.
    pub(crate) fn quiet_state(&self) -> Value {
        let mut state = self.json("/state");
        loop {
            std::thread::sleep(Duration::from_millis(1_200));
            let later = self.json("/state");
            if later["logIndex"] == state["logIndex"] {
                return later;
            }
            state = later;
        }
    }

    pub(crate) fn explain(&self, transfer: &str) -> Value {
        self.json(&format!("/transfers/{transfer}/explanation"))
    }

    /// The value of a metric, including all requests answered before.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        // A query of the state passes the sequencer, which publishes its figures first.
        self.get("/participants/limits");
        let text = self.get("/metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("there is no {name}")).parse().unwrap()
    }

    pub(crate) fn wait_for(&self, name: &str, holds: impl Fn(u64) -> bool) -> u64 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let value = self.metric(name);
            if holds(value) {
                return value;
            }
            assert!(Instant::now() < deadline, "{name} stays at {value}");
            std::thread::sleep(GLANCE);
        }
    }

    pub(crate) fn account(&self, name: &str, kind: &str) -> Account {
        let text = self.get(&format!("/participants/{name}/accounts"));
        let accounts: Vec<Account> = serde_json::from_str(&text).unwrap();
        let found = accounts.into_iter().find(|account| account.ledger_account_type == kind);
        found.unwrap_or_else(|| panic!("{name} has no {kind}: {text}"))
    }

    pub(crate) fn position(&self, name: &str) -> String {
        let account = self.account(name, "POSITION");
        assert_eq!(account.reserved_value.get(), "0", "{name}");
        account.value.get().to_owned()
    }

    /// The state that a refused request must not change.
    pub(crate) fn state(&self) -> String {
        self.quiet_state();
        let names = ["payerfsp", "payeefsp", "otherfsp", "Hub"];
        let accounts = names.map(|name| self.get(&format!("/participants/{name}/accounts")));
        format!("{} {}", self.metric("upesi_log_index"), accounts.join("\n"))
    }

    pub(crate) fn set_limit(&self, name: &str, limit: &str) {
        let body = format!(
            "{{\"currency\":\"USD\",\"limit\":{{\"type\":\"NET_DEBIT_CAP\",\"value\":{limit},\
             \"alarmPercentage\":10}}}}"
        );
        self.must("PUT", &format!("/participants/{name}/limits"), &body, 200);
    }

    pub(crate) fn set_endpoint(&self, name: &str, kind: &str, value: &str) {
        let body = format!("{{\"type\":\"FSPIOP_CALLBACK_URL_{kind}\",\"value\":\"{value}\"}}");
        self.must("POST", &format!("/participants/{name}/endpoints"), &body, 201);
    }

    /// Creates the hub's own accounts, which must precede any participant.
    pub(crate) fn prepare_hub(&self) {
        for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"] {
            let body = format!("{{\"currency\":\"USD\",\"type\":\"{kind}\"}}");
            self.must("POST", "/participants/Hub/accounts", &body, 201);
        }
    }

    pub(crate) fn onboard(&self, name: &str, base: &str, funds: &str, cap: &str) {
        let body = format!("{{\"name\":\"{name}\",\"currency\":\"USD\"}}");
        self.must("POST", "/participants", &body, 201);
        let body = format!(
            "{{\"currency\":\"USD\",\"limit\":{{\"type\":\"NET_DEBIT_CAP\",\"value\":{cap}}},\
             \"initialPosition\":0}}"
        );
        self.must("POST", &format!("/participants/{name}/initialPositionAndLimits"), &body, 201);
        let settlement = self.account(name, "SETTLEMENT").id;
        let body = format!(
            "{{\"transferId\":\"{}\",\"externalReference\":\"none\",\"action\":\"recordFundsIn\",\
             \"reason\":\"cover\",\"amount\":{{\"amount\":\"{funds}\",\"currency\":\"USD\"}}}}",
            uuid()
        );
        self.must("POST", &format!("/participants/{name}/accounts/{settlement}"), &body, 202);
        for (kind, path) in testkit::ENDPOINTS {
            self.set_endpoint(name, kind, &format!("{base}{path}"));
        }
    }
}

/// `payerfsp`, `payeefsp` and `otherfsp` with a switch between them.
pub(crate) struct Scheme {
    pub(crate) switch: Switch,
    pub(crate) home: Home,
    pub(crate) admin: Admin,
    pub(crate) payer: Fsp,
    pub(crate) payee: Fsp,
    pub(crate) other: Fsp,
}

impl Scheme {
    pub(crate) fn start() -> Self {
        Self::configured("")
    }

    pub(crate) fn configured(more: &str) -> Self {
        Self::at(Home::configured(more))
    }

    pub(crate) fn at(home: Home) -> Self {
        let switch = home.serve();
        Self::over(home, switch)
    }

    /// Onboards the participants at a running switch.
    pub(crate) fn over(home: Home, switch: Switch) -> Self {
        let admin = Admin::new(&home, &switch);
        admin.prepare_hub();
        let [payer, payee, other] = ["payerfsp", "payeefsp", "otherfsp"].map(Fsp::start);
        for fsp in [&payer, &payee, &other] {
            admin.onboard(&fsp.name, &format!("http://{}", fsp.address()), FUNDS, CAP);
        }
        Self { home, switch, admin, payer, payee, other }
    }

    /// A switch that was killed after the prepare of a transfer, which was then quarantined.
    /// Returns its directory, the payee, which is silent, and the record.
    pub(crate) fn with_prepare_in_quarantine(transfer: &Transfer) -> (Home, Fsp, u64) {
        let scheme = Self::start();
        scheme.wait_until_delivered();
        // No later record is decided.
        scheme.payee.answer(|_| Reply::Silence);
        scheme.send(&transfer.prepare(), 202);
        scheme.switch.kill();
        let Self { home, payee, .. } = scheme;
        let log_index = set_aside_in(&home, &home, &transfer.id);
        fs::remove_dir_all(home.data().join("store")).unwrap();
        (home, payee, log_index)
    }

    /// Sends a message on a new connection.
    pub(crate) fn ask(&self, message: &Message) -> Response {
        Connection::open(self.switch.fspiop).unwrap().exchange(&message.render()).unwrap()
    }

    /// Sends a message that must be accepted with this status and an empty body.
    pub(crate) fn send(&self, message: &Message, status: u16) {
        let answer = self.ask(message);
        assert_eq!(answer.status, status, "{message:?}: {}", answer.text());
        assert_eq!(answer.text(), "", "{message:?}");
    }

    /// Sends the prepare and the fulfilment of a transfer.
    pub(crate) fn pay(&self, amount: &str) -> Transfer {
        let transfer = Transfer::of(amount);
        self.send(&transfer.prepare(), 202);
        self.send(&transfer.fulfil("COMMITTED"), 200);
        transfer
    }

    /// Waits until no notice is owed.
    pub(crate) fn wait_until_delivered(&self) {
        self.admin.wait_for("upesi_notices_owed", |owed| owed == 0);
    }

    /// Asserts that exactly these callbacks have been received by the three participants once no
    /// notice is owed, each in any order; `{}` is replaced by the transfer's path.
    #[track_caller]
    pub(crate) fn received(&self, transfer: &Transfer, expected: [&[&str]; 3]) -> Vec<Callback> {
        self.wait_until_delivered();
        let path = transfer.path();
        let mut all = Vec::new();
        for (fsp, expected) in [&self.payer, &self.payee, &self.other].into_iter().zip(expected) {
            let callbacks = fsp.take(expected.len());
            let mut lines: Vec<_> = callbacks.iter().map(line).collect();
            let mut expected: Vec<_> =
                expected.iter().map(|line| line.replace("{}", &path)).collect();
            lines.sort();
            expected.sort();
            assert_eq!(lines, expected, "{} hears", fsp.name);
            all.extend(callbacks);
        }
        all
    }

    /// Asserts the positions of payer and payee.
    #[track_caller]
    pub(crate) fn positions(&self, payer: &str, payee: &str) {
        let found = [self.admin.position("payerfsp"), self.admin.position("payeefsp")];
        assert_eq!(found, [payer, payee]);
        assert_eq!(self.admin.position("otherfsp"), "0");
    }

    /// Stops the switch, and verifies its log.
    pub(crate) fn end(self) {
        self.switch.stop(Signal::TERM);
        let output = self.home.verify();
        let output_text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{output_text} {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
