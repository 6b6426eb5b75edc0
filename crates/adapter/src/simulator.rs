//! A simulated back end with the test API of the reference simulator: a repository of parties,
//! scenarios that pay through an adapter, and faults by rule.
//!
//! Everything is in memory. It is for tests of adapters and hubs, never for real money.

mod rules;
mod scenarios;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::request::Parts;
use ledger::Amount;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use self::rules::Rule;
use self::rules::{RuleEffect, apply};
use crate::http_client::{HttpClient, Target};
use crate::http_server::{self, Answered, Handler, serve};
use crate::ids::{IdForm, random};

/// First segments of the paths for adapters.
const RESOURCES: [&str; 5] =
    ["parties", "quoterequests", "transfers", "transactionrequests", "otp"];
/// Maximum number of parties.
const PARTIES_MAX: usize = 100_000;
/// Connections of each listener.
const CONNECTIONS: usize = 1_000;
/// Longest wait for the adapter.
const ADAPTER_TIME: Duration = Duration::from_secs(120);
/// Units of the fee's factor: four decimals, as amounts.
const FACTOR_UNITS: i128 = 10_000;

/// The settings of a simulated back end.
#[derive(Clone, Debug)]
pub struct SimulatorOptions {
    /// Address of the API for the adapter.
    pub backend: SocketAddr,
    /// Address of the test API.
    pub test_api: SocketAddr,
    /// URL of the adapter's API for back ends, for scenarios.
    pub adapter: String,
    /// Part of the amount that is the fee, as a decimal; the fee is rounded down to a whole number.
    pub fee_multiplier: String,
    /// Rules, the first that matches counts.
    pub rules: Vec<Rule>,
}

impl Default for SimulatorOptions {
    fn default() -> Self {
        Self {
            backend: SocketAddr::from(([127, 0, 0, 1], 3000)),
            test_api: SocketAddr::from(([127, 0, 0, 1], 3003)),
            adapter: "http://127.0.0.1:4001".to_owned(),
            fee_multiplier: "0".to_owned(),
            rules: rules::published(),
        }
    }
}

/// A simulated back end with open listeners.
pub struct Simulator {
    state: Arc<State>,
    listeners: [TcpListener; 2],
}

/// The state of both listeners.
struct State {
    parties: Mutex<BTreeMap<String, Value>>,
    rules: Vec<Rule>,
    fee_factor: i128,
    http: HttpClient,
    adapter: Target,
}

/// The API for the adapter.
struct BackendApi(Arc<State>);

/// The test API.
struct TestApi(Arc<State>);

type Reply = (u16, Value);

impl Simulator {
    /// Opens the listeners. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The first setting or address that cannot be used, in words.
    pub async fn start(options: SimulatorOptions) -> Result<Self, String> {
        let factor = Amount::parse_decimal(&options.fee_multiplier).map(Amount::units);
        let factor = factor.filter(|factor| (0..=FACTOR_UNITS).contains(factor));
        let fee_factor = factor.ok_or("the fee multiplier must be between 0 and 1")?;
        let state = State {
            parties: Mutex::default(),
            rules: options.rules,
            fee_factor,
            http: HttpClient::new(None, ADAPTER_TIME),
            adapter: Target::parse(&options.adapter)?,
        };
        let listen = async |address: SocketAddr| {
            let listener = TcpListener::bind(address).await;
            listener.map_err(|error| format!("cannot listen on {address}: {error}"))
        };
        let listeners = [listen(options.backend).await?, listen(options.test_api).await?];
        Ok(Self { state: Arc::new(state), listeners })
    }

    /// The addresses of the API for the adapter and of the test API.
    ///
    /// # Errors
    /// Those of the sockets.
    pub fn addresses(&self) -> std::io::Result<[SocketAddr; 2]> {
        let [backend, test_api] = &self.listeners;
        Ok([backend.local_addr()?, test_api.local_addr()?])
    }

    /// Serves until `shutdown` is ready.
    pub async fn run(self, shutdown: impl Future) {
        let Self { state, listeners: [backend, test_api] } = self;
        let (stop, stopped) = watch::channel(false);
        let backend_api = Arc::new(BackendApi(Arc::clone(&state)));
        let backend = serve(backend, None, CONNECTIONS, backend_api, stopped.clone());
        let test_api = serve(test_api, None, CONNECTIONS, Arc::new(TestApi(state)), stopped);
        let serving = [tokio::spawn(backend), tokio::spawn(test_api)];
        shutdown.await;
        // A listener that has ended needs no signal.
        let _heard = stop.send(true);
        for task in serving {
            // A panic was reported when it happened.
            let _ended = task.await;
        }
    }
}

impl Handler for BackendApi {
    async fn handle(&self, head: Parts, body: Bytes) -> Answered {
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let (method, path) = (head.method.as_str(), head.uri.path());
        let fault = apply(&self.0.rules, method, path, &body);
        if let Some(RuleEffect::Slow(time)) = fault {
            tokio::time::sleep(time).await;
        }
        let (status, body) = match fault {
            Some(RuleEffect::Answer(status, body)) => (status, body),
            Some(RuleEffect::Silent) => std::future::pending().await,
            Some(RuleEffect::Dead) => return http_server::close(),
            Some(RuleEffect::Slow(_)) | None => self.0.respond(&head.method, path, body),
        };
        http_server::json(status, &body)
    }

    fn unreadable(&self, _is_too_long: bool) -> Answered {
        malformed()
    }
}

impl Handler for TestApi {
    async fn handle(&self, head: Parts, body: Bytes) -> Answered {
        let segments: Vec<_> = head.uri.path().trim_matches('/').split('/').collect();
        let parsed: Result<Value, _> = serde_json::from_slice(&body);
        let (status, body) = match (&head.method, segments.as_slice()) {
            (&Method::GET, [""]) => (200, Value::Null),
            (&Method::GET, ["repository", "parties"]) => self.0.all_parties(),
            (&Method::GET, ["repository", "parties", id @ ..]) => self.0.party(id),
            (&Method::DELETE, ["repository", "parties", id @ ..]) => self.0.remove_party(id),
            (&Method::POST | &Method::PUT, _) if parsed.is_err() => return malformed(),
            (&Method::POST, ["repository", "parties"]) => {
                self.0.put_party(parsed.unwrap_or_default(), false)
            }
            (&Method::PUT, ["repository", "parties", ..]) => {
                self.0.put_party(parsed.unwrap_or_default(), true)
            }
            (&Method::POST, ["scenarios"]) => {
                let scenarios = parsed.unwrap_or_default();
                scenarios::run(&scenarios, &self.0.http, &self.0.adapter).await
            }
            _ => error(404, "7000", "Not found"),
        };
        http_server::json(status, &body)
    }

    fn unreadable(&self, _is_too_long: bool) -> Answered {
        malformed()
    }
}

fn error(status: u16, code: &str, message: &str) -> Reply {
    (status, json!({ "statusCode": code, "message": message }))
}

fn malformed() -> Answered {
    let (status, body) = error(400, "7003", "Request was malformed");
    http_server::json(status, &body)
}

impl State {
    fn parties(&self) -> MutexGuard<'_, BTreeMap<String, Value>> {
        self.parties.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn respond(&self, method: &Method, path: &str, body: Value) -> Reply {
        let segments: Vec<_> = path.trim_matches('/').split('/').collect();
        // An adapter of several DFSPs puts the name of one before the path.
        let segments = match segments.as_slice() {
            [name, rest @ ..] if !rest.is_empty() && !RESOURCES.contains(name) => rest,
            all => all,
        };
        match (method.as_str(), segments) {
            ("GET", [""] | ["health"]) => (200, Value::Null),
            ("GET", ["parties", id @ ..]) => match self.parties().get(&id.join("/")) {
                Some(party) => (200, party.clone()),
                None => error(404, "3200", "ID not found"),
            },
            ("POST", ["quoterequests"]) => self.quote(&body),
            ("POST", ["transfers"]) => {
                (200, json!({ "homeTransactionId": IdForm::Uuid.generate() }))
            }
            ("PUT", ["transfers", _]) => (200, body),
            ("POST", ["transactionrequests"]) => {
                let id = body["transactionId"].clone();
                (200, json!({ "transactionId": id, "transactionRequestState": "RECEIVED" }))
            }
            ("GET", ["otp", _]) => {
                (200, json!({ "otpValue": format!("{:05}", random() % 100_000) }))
            }
            _ => error(404, "3200", "ID not found"),
        }
    }

    /// The fee is floor(amount × factor), taken from the payee; the commission is the same.
    fn quote(&self, request: &Value) -> Reply {
        let amount = request["amount"].as_str().and_then(Amount::parse);
        let Some(amount) = amount else { return error(500, "2000", "Server error") };
        let whole = amount.units() * self.fee_factor / (FACTOR_UNITS * FACTOR_UNITS);
        let fee = Amount::from_units(whole * FACTOR_UNITS);
        let receive = Amount::from_units(amount.units() - fee.units());
        let currency = &request["currency"];
        let body = json!({
            "quoteId": request["quoteId"], "transactionId": request["transactionId"],
            "transferAmount": request["amount"], "transferAmountCurrency": currency,
            "payeeReceiveAmount": receive.to_string(), "payeeReceiveAmountCurrency": currency,
            "payeeFspFeeAmount": fee.to_string(), "payeeFspFeeAmountCurrency": currency,
            "payeeFspCommissionAmount": fee.to_string(),
            "payeeFspCommissionAmountCurrency": currency,
        });
        (200, body)
    }

    fn all_parties(&self) -> Reply {
        let all: Vec<_> = self.parties().values().cloned().collect();
        match all.is_empty() {
            true => error(404, "3200", "ID not found"),
            false => (200, all.into()),
        }
    }

    fn party(&self, id: &[&str]) -> Reply {
        match self.parties().get(&id.join("/")) {
            Some(party) => (200, party.clone()),
            None => error(404, "3200", "ID not found"),
        }
    }

    fn remove_party(&self, id: &[&str]) -> Reply {
        match self.parties().remove(&id.join("/")) {
            Some(_) => (204, Value::Null),
            None => error(404, "3200", "ID not found"),
        }
    }

    fn put_party(&self, party: Value, may_exist: bool) -> Reply {
        let part = |name: &str| party[name].as_str().filter(|text| !text.is_empty());
        let (Some(kind), Some(id)) = (part("idType"), part("idValue")) else {
            return error(400, "7003", "Request was malformed");
        };
        let key = match part("idSubValue") {
            Some(sub) => format!("{kind}/{id}/{sub}"),
            None => format!("{kind}/{id}"),
        };
        let mut parties = self.parties();
        if !may_exist && parties.contains_key(&key) {
            return error(400, "2000", "ID is already registered");
        }
        if PARTIES_MAX <= parties.len() && !parties.contains_key(&key) {
            return error(500, "2000", "Server error: too many parties");
        }
        parties.insert(key, party);
        (204, Value::Null)
    }
}
