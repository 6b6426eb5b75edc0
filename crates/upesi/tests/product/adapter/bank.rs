//! Banks of the tests: a back end, the adapter in front of it, and the hub that joins them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::http::{Connection, Headers, PATIENCE, Request, Response};
use testkit::server::{Inbox, Reply, Server};

pub(super) use crate::support::message::uuid;
use crate::support::message::{Message, date_time};
use crate::support::port::ReservedPort;
use crate::support::scheme::{Admin, FUNDS};
use crate::support::switch::{Home, PROGRAM, Switch};

const CAP: &str = "1000";

/// A time in the near future, for an expiration.
pub(super) fn soon() -> String {
    date_time(30_000)
}

/// A hub with the banks `payerbank` and `payeebank`.
pub(super) struct Scheme {
    home: Home,
    switch: Switch,
    pub(super) admin: Admin,
    pub(super) payer: Bank,
    pub(super) payee: Bank,
}

impl Scheme {
    /// With settings of the two banks' flows.
    pub(super) fn start(payer: &str, payee: &str) -> Self {
        Self::with_settings(Home::new(), &|_| String::new(), [payer, payee], None)
    }

    /// With another back end of the payee.
    pub(super) fn with_payees_backend(payer: &str, backend: SocketAddr) -> Self {
        Self::with_settings(Home::new(), &|_| String::new(), [payer, ""], Some(backend))
    }

    /// With a hub and with more settings of each bank.
    pub(super) fn with_settings(
        home: Home,
        more: &dyn Fn(&str) -> String,
        [payer, payee]: [&str; 2],
        backend: Option<SocketAddr>,
    ) -> Self {
        let settings = |name: &str, flow: &str| format!("{flow}\n{}", more(name));
        Self::of_banks(home, |hub| {
            let payer = Bank::start("payerbank", hub, &settings("payerbank", payer), None);
            let payee = Bank::start("payeebank", hub, &settings("payeebank", payee), backend);
            [payer, payee]
        })
    }

    /// With the payer's and the payee's bank, which know the address of the hub.
    pub(super) fn of_banks(home: Home, start: impl FnOnce(SocketAddr) -> [Bank; 2]) -> Self {
        let scheme = Self::onboarded(home, "http", start);
        for party in ["222", "404"] {
            scheme.register(party);
        }
        scheme
    }

    /// Without parties. The hub calls the banks by `http` or `https`.
    pub(super) fn onboarded(
        home: Home,
        url: &str,
        start: impl FnOnce(SocketAddr) -> [Bank; 2],
    ) -> Self {
        let switch = home.serve();
        let admin = Admin::new(&home, &switch);
        admin.prepare_hub();
        let [payer, payee] = start(switch.fspiop);
        for bank in [&payer, &payee] {
            let base = format!("{url}://{}", bank.adapter.inbound);
            admin.onboard(&bank.name, &base, FUNDS, CAP);
        }
        Self { home, switch, admin, payer, payee }
    }

    /// The address of the hub's FSPIOP server.
    pub(super) fn hub(&self) -> SocketAddr {
        self.switch.fspiop
    }

    /// The hub's process.
    pub(super) fn switch(&self) -> &Switch {
        &self.switch
    }

    /// Registers a party of `payeebank` with the hub.
    fn register(&self, party: &str) {
        let message = Message::new("POST", &format!("/participants/MSISDN/{party}"), "payeebank")
            .body(r#"{"fspId":"payeebank","currency":"USD"}"#);
        let mut connection = Connection::open(self.switch.fspiop).unwrap();
        assert_eq!(connection.exchange(&message.render()).unwrap().status, 202);
        let path = format!("/participants/MSISDN/{party}");
        let question = Message::new("GET", &path, "payerbank");
        assert_eq!(connection.exchange(&question.render()).unwrap().status, 202);
    }

    /// Starts killed adapters again, on the same ports and directories.
    pub(super) fn restart(&mut self) {
        self.payer.restart();
        self.payee.restart();
    }

    /// Stops everything and verifies the hub's log.
    pub(super) fn end(self) {
        self.payer.stop(Signal::TERM);
        self.payee.stop(Signal::TERM);
        self.switch.stop(Signal::TERM);
        let output = self.home.verify();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// The requests of a back end, and its behaviour.
#[derive(Default)]
struct Ledger {
    requests: Vec<(String, Value)>,
    holds_transfers: bool,
    delays_transfers: bool,
}

/// A bank with its adapter.
pub(super) struct Bank {
    pub(super) name: String,
    directory: TempDir,
    pub(super) adapter: Running,
    inbox: Arc<Inbox<Ledger>>,
    _backend: Server,
    /// For a restart: the hub's endpoints do not change.
    _ports: Vec<ReservedPort>,
    /// The cache of a reference adapter.
    _cache: Option<Program>,
}

/// A running adapter. It is killed when this is dropped.
pub(super) struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    outbound: SocketAddr,
    pub(super) inbound: SocketAddr,
    monitoring: SocketAddr,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended before.
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

impl Bank {
    pub(super) fn start(
        name: &str,
        hub: SocketAddr,
        flow: &str,
        other: Option<SocketAddr>,
    ) -> Self {
        Self::start_version("2.0", name, hub, flow, other)
    }

    /// With a version of its messages.
    pub(super) fn start_version(
        version: &str,
        name: &str,
        hub: SocketAddr,
        flow: &str,
        other: Option<SocketAddr>,
    ) -> Self {
        let (backend, inbox) = start_backend();
        let address = other.unwrap_or_else(|| backend.address());
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("secret"), "a secret of tests, long enough").unwrap();
        let ports = [(); 3].map(|()| ReservedPort::new());
        let addresses = ports.each_ref().map(|port| port.address);
        let text = configuration(&directory, name, (version, hub, address), addresses, flow);
        fs::write(directory.path().join("adapter.toml"), text).unwrap();
        let adapter = launch(&directory);
        let name = name.to_owned();
        let ports = ports.into();
        Self { name, directory, adapter, inbox, _backend: backend, _ports: ports, _cache: None }
    }

    /// A bank with another adapter, which prints its addresses as ours does. The command gets the
    /// address of the back end.
    #[cfg(feature = "real-receivers")]
    pub(super) fn with_adapter(
        name: &str,
        (cache, port): (Program, ReservedPort),
        command: impl FnOnce(SocketAddr) -> Command,
    ) -> Self {
        let (backend, inbox) = start_backend();
        let directory = tempfile::tempdir().unwrap();
        let mut command = command(backend.address());
        command.stderr(fs::File::create(directory.path().join("stderr")).unwrap());
        let adapter = wait_for_adapter(&mut command);
        let (name, cache) = (name.to_owned(), Some(cache));
        let ports = vec![port];
        Self { name, directory, adapter, inbox, _backend: backend, _ports: ports, _cache: cache }
    }

    /// Starts the killed adapter again, on the same ports and directory.
    pub(super) fn restart(&mut self) {
        self.adapter = launch(&self.directory);
    }

    /// The address of the API for back ends.
    pub(super) fn api(&self) -> SocketAddr {
        self.adapter.outbound
    }

    /// The address of the server for the hub.
    pub(super) fn fspiop(&self) -> SocketAddr {
        self.adapter.inbound
    }

    /// The answer to an unsigned message in the name of the hub.
    pub(super) fn forge(&self, path: &str) -> Value {
        let error = json!({ "errorInformation": {
            "errorCode": "3303", "errorDescription": "Transfer expired" } });
        let message = Message::new("PUT", path, "Hub").to(&self.name).body(error.to_string());
        let mut connection = Connection::open(self.adapter.inbound).unwrap();
        let answer = connection.exchange(&message.render()).unwrap();
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// The exit code and the findings of `upesi adapter doctor`.
    pub(super) fn doctor(&self) -> (Option<i32>, Value) {
        let mut command = Command::new(PROGRAM);
        command.args(["adapter", "doctor", "--json", "--config"]);
        let output = command.arg(self.directory.path().join("adapter.toml")).output().unwrap();
        (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
    }

    pub(super) fn kill(&mut self) {
        self.adapter.child.kill().unwrap();
        self.adapter.child.wait().unwrap();
    }

    /// Stops the adapter, which must end in order.
    pub(super) fn stop(mut self, signal: Signal) {
        let child = &mut self.adapter.child;
        send_signal(child, signal);
        assert!(child.wait().unwrap().success());
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        call(self.adapter.outbound, "POST", path, body).unwrap()
    }

    pub(super) fn put(&self, path: &str, body: &Value) -> (u16, Value) {
        call(self.adapter.outbound, "PUT", path, body).unwrap()
    }

    pub(super) fn get(&self, path: &str) -> (u16, Value) {
        call(self.adapter.outbound, "GET", path, &Value::Null).unwrap()
    }

    pub(super) fn delete(&self, path: &str) -> (u16, Value) {
        call(self.adapter.outbound, "DELETE", path, &Value::Null).unwrap()
    }

    /// Makes the adapter read its files again, and waits for its report.
    pub(super) fn reload(&mut self, report: &str) {
        send_signal(&self.adapter.child, Signal::HUP);
        let mut line = String::new();
        while !line.contains(report) {
            line.clear();
            assert_ne!(self.adapter.stdout.read_line(&mut line).unwrap(), 0, "it ended");
        }
    }

    /// The status and text of the monitoring port.
    pub(super) fn monitor(&self, path: &str) -> (u16, String) {
        let answer = exchange(self.adapter.monitoring, "GET", path, &Value::Null).unwrap();
        (answer.status, answer.text())
    }

    /// Sends a request whose answer is awaited later; `None` if the connection breaks.
    pub(super) fn begin(&self, path: &str, body: &Value) -> JoinHandle<Option<(u16, Value)>> {
        let (address, path, body) = (self.adapter.outbound, path.to_owned(), body.clone());
        std::thread::spawn(move || call(address, "POST", &path, &body))
    }

    /// Sends a request several times at once. Returns the answers.
    pub(super) fn put_repeatedly(&self, path: &str, body: &Value) -> Vec<(u16, Value)> {
        let address = self.adapter.outbound;
        std::thread::scope(|scope| {
            let calls = [(); 4].map(|()| scope.spawn(|| call(address, "PUT", path, body)));
            calls.map(|it| it.join().unwrap().expect("an answer")).into()
        })
    }

    /// Asks until a transfer has been completed.
    pub(super) fn wait_until_paid(&self, id: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (status, shown) = self.get(&format!("/transfers/{id}"));
            if status == 200 && shown["currentState"] == "COMPLETED" {
                return shown;
            }
            assert!(Instant::now() < deadline, "{shown}");
        }
    }

    /// Requests that the back end has received.
    pub(super) fn requests(&self) -> Vec<(String, Value)> {
        self.inbox.lock().requests.clone()
    }

    /// Waits for a request of the back end, and returns its body.
    pub(super) fn wait_for(&self, line: &str) -> Value {
        let found = self.inbox.wait(PATIENCE, |ledger| {
            let found = ledger.requests.iter().find(|(known, _)| known == line);
            found.map(|(_, body)| body.clone())
        });
        found.unwrap_or_else(|| panic!("{line} is missing: {:?}", self.requests()))
    }

    /// Waits until the back end has received a request this number of times.
    pub(super) fn wait_for_number(&self, line: &str, number: usize) {
        let found = self.inbox.wait(PATIENCE, |ledger| {
            let count = ledger.requests.iter().filter(|(known, _)| known == line).count();
            (number <= count).then_some(())
        });
        found.unwrap_or_else(|| panic!("{line}: {:?}", self.requests()));
    }

    /// Whether the back end answers transfers only after this is `false` again.
    pub(super) fn delay_transfers(&self, delays: bool) {
        self.inbox.put(|ledger| ledger.delays_transfers = delays);
    }

    /// Whether the back end leaves transfers without an answer.
    pub(super) fn hold_transfers(&self, holds: bool) {
        self.inbox.lock().holds_transfers = holds;
    }
}

fn send_signal(child: &Child, signal: Signal) {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    kill_process(id.expect("it has an id"), signal).unwrap();
}

/// A back end in a process of its own. It is killed when this is dropped.
pub(super) struct Program {
    child: Child,
    stdout: BufReader<ChildStdout>,
    line: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended before.
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

impl Program {
    /// Starts a program, and waits for its line with `ready`.
    pub(super) fn start(command: &mut Command) -> Self {
        Self::start_until(command, "ready")
    }

    /// Starts a program, and waits for its line with a text.
    pub(super) fn start_until(command: &mut Command, text: &str) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut program = Self { child, stdout, line: String::new() };
        while !program.line.contains(text) {
            program.line.clear();
            let length = program.stdout.read_line(&mut program.line).unwrap();
            assert_ne!(length, 0, "{command:?} ended");
        }
        program
    }

    /// A simulated back end for an adapter: its API for adapters, and its test API.
    pub(super) fn simulate(adapter: SocketAddr) -> (Self, [SocketAddr; 2]) {
        let mut command = Command::new(PROGRAM);
        command.args(["adapter", "simulate", "--fee-multiplier", "0.1"]);
        command.args(["--backend", "127.0.0.1:0", "--test-api", "127.0.0.1:0"]);
        command.arg("--adapter").arg(format!("http://{adapter}"));
        let program = Self::start(&mut command);
        let address = |label: &str| {
            let (_, rest) = program.line.split_once(label).unwrap();
            rest.split([',', '\n']).next().unwrap().trim().parse().unwrap()
        };
        let addresses = [address("back end on "), address("test API on ")];
        (program, addresses)
    }

    /// The address of a program that prints its port last.
    pub(super) fn address(&self) -> SocketAddr {
        let port = self.line.split_whitespace().last().unwrap().parse().unwrap();
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }
}

fn configuration(
    directory: &TempDir,
    name: &str,
    (version, hub, backend): (&str, SocketAddr, SocketAddr),
    [outbound, inbound, monitoring]: [SocketAddr; 3],
    flow: &str,
) -> String {
    let at = directory.path().display();
    // Programs of 1.x accept UUIDs only.
    let ids = if version == "2.0" { "" } else { "id_form = \"uuid\"\n" };
    let scheme = if flow.contains("[hub.tls]") { "https" } else { "http" };
    format!(
        "data = \"{at}/data\"\noutbound = \"{outbound}\"\ninbound = \"{inbound}\"\n\
         monitoring = \"{monitoring}\"\n[hub]\nurl = \"{scheme}://{hub}\"\n\
         version = \"{version}\"\n\
         [[dfsp]]\nid = \"{name}\"\nbackend = \"http://{backend}\"\n\
         ilp_secret_file = \"{at}/secret\"\n{ids}[dfsp.flow]\n{flow}\n"
    )
}

fn launch(directory: &TempDir) -> Running {
    let mut command = Command::new(PROGRAM);
    command.arg("adapter").arg("--config").arg(directory.path().join("adapter.toml"));
    wait_for_adapter(&mut command)
}

fn start_backend() -> (Server, Arc<Inbox<Ledger>>) {
    let inbox: Arc<Inbox<Ledger>> = Arc::default();
    let received = Arc::clone(&inbox);
    let backend = Server::start(Ipv4Addr::LOCALHOST, move |request| respond(request, &received));
    (backend.unwrap(), inbox)
}

fn wait_for_adapter(command: &mut Command) -> Running {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    while !line.contains("adapter: ready; ") {
        line.clear();
        assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "it ended");
    }
    let address = |label: &str| {
        let (_, rest) = line.split_once(label).unwrap();
        rest.split([',', '\n']).next().unwrap().trim().parse().unwrap()
    };
    let (outbound, inbound) = (address("back ends on "), address("hub on "));
    Running { child, stdout, outbound, inbound, monitoring: address("health on ") }
}

fn exchange(address: SocketAddr, method: &str, path: &str, body: &Value) -> Option<Response> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let headers = Headers(vec![("content-type".to_owned(), "application/json".to_owned())]);
    let (method, path) = (method.to_owned(), path.to_owned());
    let request = Request { method, path, headers, body }.render("adapter");
    Connection::open(address).ok()?.exchange(&request).ok()
}

pub(super) fn call(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &Value,
) -> Option<(u16, Value)> {
    let answer = exchange(address, method, path, body)?;
    Some((answer.status, serde_json::from_slice(&answer.body).unwrap_or(Value::Null)))
}

fn json_reply(status: u16, body: &Value) -> Reply {
    let headers = Headers(vec![("content-type".to_owned(), "application/json".to_owned())]);
    let body = body.to_string().into_bytes();
    Reply::Response(Response { headers, body, ..Response::of(status) })
}

/// The terms of a bulk; an amount of 77 is refused.
fn bulk_terms(body: &Value) -> Value {
    let items = body["individualQuotes"].as_array().unwrap();
    let results = items.iter().map(|item| match item["amount"].as_str() {
        Some("77") => json!({
            "quoteId": item["quoteId"],
            "errorResponse": { "statusCode": "5103", "message": "refused" },
        }),
        _ => json!({
            "quoteId": item["quoteId"],
            "transferAmount": item["amount"], "transferAmountCurrency": item["currency"],
        }),
    });
    let results: Value = results.collect();
    json!({ "bulkQuoteId": body["bulkQuoteId"], "individualQuoteResults": results })
}

/// The results of a bulk; an amount of 123 is refused, one of 66 gets a wrong fulfilment.
fn bulk_results(body: &Value) -> Value {
    let items = body["individualTransfers"].as_array().unwrap();
    let results = items.iter().map(|item| match item["amount"].as_str() {
        Some("123") => json!({
            "transferId": item["transferId"],
            "errorResponse": { "statusCode": "4001", "message": "refused" },
        }),
        Some("66") => json!({ "transferId": item["transferId"], "fulfilment": "A".repeat(43) }),
        _ => json!({ "transferId": item["transferId"] }),
    });
    let results: Value = results.collect();
    json!({ "homeTransactionId": "payee-bulk", "individualTransferResults": results })
}

/// The bank's own system: it knows two parties, takes a fee of 0.50, and refuses two amounts.
fn respond(request: &Request, inbox: &Inbox<Ledger>) -> Reply {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
    let line = format!("{} {}", request.method, request.path);
    let holds = inbox.put(|ledger| {
        ledger.requests.push((line.clone(), body.clone()));
        ledger.holds_transfers
    });
    if line == "POST /transfers" {
        inbox.wait(PATIENCE, |ledger| (!ledger.delays_transfers).then_some(()));
    }
    let error = |code: &str| json_reply(500, &json!({ "statusCode": code, "message": "refused" }));
    match line.as_str() {
        "GET /parties/MSISDN/222" | "GET /parties/MSISDN/555" => json_reply(
            200,
            &json!({
                "idType": "MSISDN", "idValue": &line[line.len() - 3..], "type": "CONSUMER",
                "displayName": "Neema Ali", "firstName": "Neema", "lastName": "Ali",
            }),
        ),
        "POST /quoterequests" if body["amount"] == "77" => error("5103"),
        "POST /quoterequests" => json_reply(
            200,
            &json!({
                "quoteId": body["quoteId"], "transactionId": body["transactionId"],
                "transferAmount": body["amount"], "transferAmountCurrency": body["currency"],
                "payeeFspFeeAmount": "0.5", "payeeFspFeeAmountCurrency": body["currency"],
            }),
        ),
        "POST /transactionrequests" => json_reply(
            200,
            &json!({ "transactionId": uuid(), "transactionRequestState": "RECEIVED" }),
        ),
        line if line.starts_with("GET /otp/") => json_reply(200, &json!({ "otpValue": "1234" })),
        "POST /bulkQuotes" => json_reply(200, &bulk_terms(&body)),
        "POST /transfers" | "POST /bulkTransfers" if holds => Reply::Silence,
        "POST /bulkTransfers" => json_reply(200, &bulk_results(&body)),
        "POST /transfers" if body["amount"] == "123" => error("4001"),
        "POST /transfers" => json_reply(200, &json!({ "homeTransactionId": "payee-1" })),
        line if line.starts_with("GET /parties/") => {
            json_reply(404, &json!({ "statusCode": "3204", "message": "no such party" }))
        }
        _ => Reply::Status(200),
    }
}
