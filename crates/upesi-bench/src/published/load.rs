//! The iterations of the published k6 script, started at a constant rate.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use adapter::http_client::{HttpClient, Reply, Target};
use adapter::ids::{IdForm, date_time, now_ms, random};
use bytes::Bytes;
use harness::error::HarnessError;
use harness::histograms::{histogram, record};
use harness::interrupt::Interrupt;
use harness::pairs::Route;
use harness::precise_timer::PreciseTimer;
use hdrhistogram::Histogram;
use http::{HeaderValue, Method};
use serde::Deserialize;
use serde_json::{Value, json};

use super::scheme::{
    AMOUNT, CURRENCY, PARTIES, PublishedScheme, client, first_number, json_headers, name_of,
};
use super::{DRAIN, Flow};

/// Life of a transfer, as in the published script.
const LIFE_MS: u64 = 60_000;
/// Pause between looks at the iterations in flight.
const GLANCE: Duration = Duration::from_millis(5);
/// Failures whose reason is kept.
const REASONS_MAX: usize = 5;

/// The load of one part of a run.
pub(super) struct LoadPlan {
    pub(super) flow: Flow,
    pub(super) tps: u32,
    pub(super) iterations: u64,
    pub(super) vus_max: usize,
}

/// The measurements of one part of a run. Times are in microseconds.
pub(super) struct Measurements {
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) dropped: u64,
    /// From the first intended start to the end of the last iteration.
    pub(super) seconds: f64,
    pub(super) requests: Requests,
    pub(super) discovery: Histogram<u64>,
    pub(super) quote: Histogram<u64>,
    pub(super) transfer: Histogram<u64>,
    /// From the intended start of an iteration to its end.
    pub(super) whole: Histogram<u64>,
    /// Reasons of the first failures.
    pub(super) reasons: Vec<String>,
}

/// The requests of all measured steps.
pub(super) struct Requests {
    pub(super) duration: Histogram<u64>,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
}

impl Default for Measurements {
    fn default() -> Self {
        Self {
            completed: 0,
            failed: 0,
            dropped: 0,
            seconds: 0.0,
            requests: Requests { duration: histogram(), succeeded: 0, failed: 0 },
            discovery: histogram(),
            quote: histogram(),
            transfer: histogram(),
            whole: histogram(),
            reasons: Vec::new(),
        }
    }
}

/// Plays iterations against the payers' adapter.
struct Driver {
    flow: Flow,
    http: HttpClient,
    payers: Vec<Target>,
    in_flight: Cell<usize>,
    measured: RefCell<Measurements>,
}

/// Starts all iterations of a plan, and waits for those in flight.
pub(super) async fn run_load(
    plan: &LoadPlan,
    scheme: &PublishedScheme,
    interrupt: &Interrupt,
) -> Result<Measurements, HarnessError> {
    let driver = Rc::new(Driver {
        flow: plan.flow,
        http: client(),
        payers: scheme.payer_targets()?,
        in_flight: Cell::new(0),
        measured: RefCell::default(),
    });
    let timer = PreciseTimer::new().map_err(HarnessError::file("a timer"))?;
    let begin = Instant::now();
    let routes = scheme.routes.iter().cycle();
    for (number, &route) in (0..plan.iterations).zip(routes) {
        let due = begin + Duration::from_nanos(number * 1_000_000_000 / u64::from(plan.tps));
        let wait = timer.wait(due.saturating_duration_since(Instant::now())).await;
        wait.map_err(HarnessError::file("a timer"))?;
        interrupt.check()?;
        if plan.vus_max <= driver.in_flight.get() {
            driver.measured.borrow_mut().dropped += 1;
        } else {
            driver.in_flight.set(driver.in_flight.get() + 1);
            tokio::task::spawn_local(Rc::clone(&driver).iterate(route, due));
        }
        // Late starts must not keep the iterations in flight from their answers.
        tokio::task::yield_now().await;
    }
    let last = Instant::now();
    while 0 < driver.in_flight.get() && last.elapsed() < DRAIN {
        tokio::time::sleep(GLANCE).await;
        interrupt.check()?;
    }
    let mut measured = driver.measured.take();
    measured.failed += driver.in_flight.get() as u64;
    measured.seconds = begin.elapsed().as_secs_f64();
    Ok(measured)
}

/// An iteration that did not complete, with its reason.
struct Failed(String);

/// The terms in the answer to a quote.
#[derive(Deserialize)]
struct Quoted {
    quotes: QuoteMember,
}

#[derive(Deserialize)]
struct QuoteMember {
    body: Terms,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Terms {
    ilp_packet: String,
    condition: String,
}

/// The parties and ids of one iteration.
struct Iteration {
    payer: usize,
    payee: usize,
    number: String,
    transfer_id: String,
    traceparent: HeaderValue,
}

impl Iteration {
    fn new((payer, payee): Route) -> Self {
        let number = first_number(payee) + random() as u64 % PARTIES;
        let trace = format!("00-{:032x}-{:016x}-00", random(), random() as u64);
        let traceparent = HeaderValue::try_from(trace).expect("hexadecimal digits");
        let transfer_id = IdForm::Ulid.generate();
        Self { payer, payee, number: number.to_string(), transfer_id, traceparent }
    }

    fn quote_request(&self) -> Value {
        let party = |id: &str, fsp: usize| {
            let id = json!({
                "partyIdType": "MSISDN", "partyIdentifier": id, "fspId": name_of(fsp) });
            json!({ "partyIdInfo": id })
        };
        json!({
            "fspId": name_of(self.payee),
            "quotesPostRequest": {
                "quoteId": IdForm::Ulid.generate(), "transactionId": self.transfer_id,
                "payer": party("17039811918", self.payer),
                "payee": party(&self.number, self.payee),
                "amountType": "SEND", "amount": { "amount": AMOUNT, "currency": CURRENCY },
                "transactionType": {
                    "scenario": "TRANSFER", "initiator": "PAYER", "initiatorType": "CONSUMER" },
            },
        })
    }

    fn transfer_request(&self, terms: &Terms) -> Value {
        json!({
            "fspId": name_of(self.payee),
            "transfersPostRequest": {
                "transferId": self.transfer_id,
                "payerFsp": name_of(self.payer), "payeeFsp": name_of(self.payee),
                "amount": { "amount": AMOUNT, "currency": CURRENCY },
                "ilpPacket": terms.ilp_packet, "condition": terms.condition,
                "expiration": date_time(now_ms() + LIFE_MS),
            },
        })
    }
}

impl Driver {
    async fn iterate(self: Rc<Self>, route: Route, due: Instant) {
        let result = self.play(&Iteration::new(route), due).await;
        self.in_flight.set(self.in_flight.get() - 1);
        let mut measured = self.measured.borrow_mut();
        match result {
            Ok(()) => measured.completed += 1,
            Err(Failed(why)) => {
                measured.failed += 1;
                if measured.reasons.len() < REASONS_MAX {
                    measured.reasons.push(why);
                }
            }
        }
    }

    async fn play(&self, iteration: &Iteration, due: Instant) -> Result<(), Failed> {
        let mut start = due;
        if self.flow.has_discovery() {
            let path = format!("/parties/MSISDN/{}", iteration.number);
            self.call(iteration, (Method::GET, &path), Bytes::new(), true).await?;
            record(&mut self.measured.borrow_mut().discovery, start.elapsed());
        }
        if self.flow.has_quote() {
            let is_measured = self.flow != Flow::Transfers;
            let begin = if self.flow.has_discovery() { Instant::now() } else { start };
            let body = iteration.quote_request().to_string().into();
            let reply = self.call(iteration, (Method::POST, "/quotes"), body, is_measured).await?;
            if is_measured {
                record(&mut self.measured.borrow_mut().quote, begin.elapsed());
            } else {
                start = Instant::now();
            }
            if self.flow.has_transfer() {
                let begin = Instant::now();
                self.transfer(iteration, &reply.body).await?;
                record(&mut self.measured.borrow_mut().transfer, begin.elapsed());
            }
        }
        record(&mut self.measured.borrow_mut().whole, start.elapsed());
        Ok(())
    }

    async fn transfer(&self, iteration: &Iteration, quoted: &[u8]) -> Result<(), Failed> {
        let quoted: Quoted = serde_json::from_slice(quoted)
            .map_err(|error| Failed(format!("POST /quotes: {error}")))?;
        let body = iteration.transfer_request(&quoted.quotes.body).to_string().into();
        self.call(iteration, (Method::POST, "/simpleTransfers"), body, true).await.map(drop)
    }

    /// A request that must be answered with 200.
    async fn call(
        &self,
        iteration: &Iteration,
        (method, path): (Method, &str),
        body: Bytes,
        is_measured: bool,
    ) -> Result<Reply, Failed> {
        let begin = Instant::now();
        let mut headers = json_headers();
        headers.insert("traceparent", iteration.traceparent.clone());
        let payer = &self.payers[iteration.payer];
        let reply = self.http.call(payer, (method.clone(), path), headers, body).await;
        let result = match reply {
            Ok(reply) if reply.status == 200 => Ok(reply),
            Ok(reply) => {
                let text: String = String::from_utf8_lossy(&reply.body).chars().take(300).collect();
                Err(Failed(format!("{method} {path}: {} {text}", reply.status)))
            }
            Err(error) => Err(Failed(format!("{method} {path}: {error}"))),
        };
        if is_measured {
            let requests = &mut self.measured.borrow_mut().requests;
            record(&mut requests.duration, begin.elapsed());
            match &result {
                Ok(_) => requests.succeeded += 1,
                Err(_) => requests.failed += 1,
            }
        }
        result
    }
}
