//! The scheme of a run: hub, adapters, back ends, participants and parties.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use adapter::http_client::{HttpClient, Reply, Target};
use harness::error::HarnessError;
use harness::interrupt::Interrupt;
use harness::onboarding::{account, onboard};
use harness::pairs::{Pairs, Route, groups};
use harness::proc_stats::ProcessFigures;
use harness::simulators::BoundFsp;
use harness::switch_process::{Confirm, SwitchCommand, SwitchProcess};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use ledger::{Amount, Currency};
use serde_json::{Value, json};

use super::programs::Program;

/// The payers, then the payees, with the names of the published runs.
const FSPS: [&str; 8] =
    ["fsp201", "fsp203", "fsp205", "fsp207", "fsp202", "fsp204", "fsp206", "fsp208"];
const PAYERS: usize = 4;
/// Parties of each payee.
pub(super) const PARTIES: u64 = 1_000;
/// The first number of the first payee. Later ones follow at a distance, as in the published runs.
const FIRST_NUMBER: u64 = 17_039_811_929;
const DISTANCE: u64 = 10_000_000_000;
/// Currency and amount of each payment.
pub(super) const CURRENCY: &str = "USD";
pub(super) const AMOUNT: &str = "1";
/// Longest time of a call that sets the scheme up.
const CALL_TIME: Duration = Duration::from_secs(60);

/// The processes of a run.
pub(super) struct PublishedScheme {
    hub: Option<SwitchProcess>,
    payers: Program,
    payees: Program,
    back_ends: Program,
    addresses: Addresses,
    /// Payer and payee of each iteration in turn.
    pub(super) routes: Vec<Route>,
}

struct Addresses {
    /// The APIs for back ends.
    payers: SocketAddr,
    payees: SocketAddr,
    repository: SocketAddr,
}

/// The processes by name.
pub(super) const PROCESSES: [&str; 4] = ["hub", "payers_adapter", "payees_adapter", "back_ends"];

/// The resources of one process in the measured part.
pub(super) type Usage = [ProcessFigures; PROCESSES.len()];

/// The data directory of the hub.
pub(super) fn hub_directory(directory: &Path) -> PathBuf {
    directory.join("hub")
}

/// The first number of a payee, by its index.
pub(super) fn first_number(payee: usize) -> u64 {
    FIRST_NUMBER + (payee - PAYERS) as u64 * DISTANCE
}

/// The name of an FSP, by its index.
pub(super) fn name_of(index: usize) -> &'static str {
    FSPS[index]
}

/// The share of each pair, as the published summary shows it.
pub(super) fn shares() -> Vec<Value> {
    let routes = routes();
    let share = |route: Route| {
        let count = routes.iter().filter(|&&other| other == route).count();
        count as f64 / routes.len() as f64
    };
    let pairs = (0..PAYERS).flat_map(|payer| (PAYERS..FSPS.len()).map(move |payee| (payer, payee)));
    let shown = pairs.map(|route| (route, share(route))).filter(|&(_, share)| 0.0 < share);
    let shown = shown.map(|((payer, payee), share)| {
        json!({ "source": FSPS[payer], "dest": FSPS[payee], "weight": share })
    });
    shown.collect()
}

fn routes() -> Vec<Route> {
    groups(Pairs::Skewed, FSPS.len()).remove(0).routes
}

/// A client of the adapters and back ends.
pub(super) fn client() -> HttpClient {
    HttpClient::new(None, CALL_TIME)
}

/// The headers of a request with a JSON body.
pub(super) fn json_headers() -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers
}

fn target(address: SocketAddr, prefix: &str) -> Result<Target, HarnessError> {
    Target::parse(&format!("http://{address}{prefix}")).map_err(HarnessError::Options)
}

impl PublishedScheme {
    pub(super) fn start(
        command: &SwitchCommand,
        directory: &Path,
        interrupt: &Interrupt,
    ) -> Result<Self, HarnessError> {
        let command = command.clone().confirming(Confirm::Off);
        let hub = SwitchProcess::start(&command, &hub_directory(directory))?;
        let nowhere = "http://127.0.0.1:9";
        let simulate = ["adapter", "simulate", "--adapter", nowhere, "--backend", "127.0.0.1:0"];
        let simulate = [&simulate[..], &["--test-api", "127.0.0.1:0"]].concat();
        let errors = directory.join("back-ends.log");
        let back_ends = Program::start(&command.program, &simulate, &errors)?;
        let back_end = back_ends.address("back end on ")?;
        let repository = back_ends.address("test API on ")?;
        let start = |name: &str, fsps: &[&str]| {
            let file = write_config(directory, (name, fsps), hub.fspiop, back_end)?;
            let arguments = ["adapter", "--config", &file.to_string_lossy()];
            let errors = directory.join(format!("{name}.log"));
            Program::start(&command.program, &arguments, &errors)
        };
        let payers = start("payers", &FSPS[..PAYERS])?;
        let payees = start("payees", &FSPS[PAYERS..])?;
        let addresses = Addresses {
            payers: payers.address("back ends on ")?,
            payees: payees.address("back ends on ")?,
            repository,
        };
        let inbound = [payers.address("hub on ")?, payees.address("hub on ")?];
        let bound: Vec<_> = FSPS.iter().enumerate().map(|at| bound(at, inbound)).collect();
        let currency = Currency::parse(CURRENCY).expect("a currency");
        onboard(&mut hub.admin()?, currency, &bound, interrupt)?;
        Ok(Self { hub: Some(hub), payers, payees, back_ends, addresses, routes: routes() })
    }

    /// Creates the parties at the back ends, and registers them with the hub.
    pub(super) async fn register(&self, interrupt: &Interrupt) -> Result<(), HarnessError> {
        let http = client();
        let repository = target(self.addresses.repository, "")?;
        for (index, name) in FSPS.iter().enumerate().skip(PAYERS) {
            let mut accounts = Vec::new();
            for number in first_number(index)..first_number(index) + PARTIES {
                interrupt.check()?;
                let number = number.to_string();
                let party = json!({
                    "idType": "MSISDN", "idValue": number, "type": "CONSUMER",
                    "displayName": format!("Party {number}"), "firstName": "Neema",
                    "middleName": "B", "lastName": "Ali", "dateOfBirth": "1980-01-01",
                });
                post(&http, (&repository, "/repository/parties"), &party).await?;
                let account =
                    json!({ "idType": "MSISDN", "idValue": number, "currency": CURRENCY });
                accounts.push(account);
            }
            let payee = target(self.addresses.payees, &format!("/{name}"))?;
            let reply = post(&http, (&payee, "/accounts"), &Value::from(accounts)).await?;
            let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
            let results = answer["response"].as_array().map_or(&[][..], Vec::as_slice);
            let refused = results.iter().find(|result| !result["error"].is_null());
            if refused.is_some() || results.len() != PARTIES as usize {
                let problem = format!("registered {} parties; {refused:?}", results.len());
                return Err(HarnessError::Simulator { fsp: (*name).to_owned(), problem });
            }
        }
        Ok(())
    }

    /// The API for back ends of each payer.
    pub(super) fn payer_targets(&self) -> Result<Vec<Target>, HarnessError> {
        let payers = FSPS[..PAYERS].iter();
        payers.map(|name| target(self.addresses.payers, &format!("/{name}"))).collect()
    }

    /// The resources of each process so far.
    pub(super) fn figures(&self) -> Usage {
        let hub = self.hub.as_ref().map(SwitchProcess::figures).unwrap_or_default();
        [hub, self.payers.figures(), self.payees.figures(), self.back_ends.figures()]
    }

    /// The resources of each process since then.
    pub(super) fn usage_since(&self, before: &Usage) -> Usage {
        let mut now = self.figures();
        now.iter_mut().zip(before).for_each(|(now, before)| *now = now.since(before));
        now
    }

    /// The transfers that the hub has committed, by the positions of its participants.
    pub(super) fn commits(&self) -> Result<u64, HarnessError> {
        let Some(hub) = &self.hub else { return Ok(0) };
        let currency = Currency::parse(CURRENCY).expect("a currency");
        let amount = Amount::parse(AMOUNT).expect("an amount").units();
        let mut admin = hub.admin()?;
        let mut sums = [0, 0];
        for (index, name) in FSPS.iter().enumerate() {
            let accounts = admin.accounts(name)?;
            let position = account(&accounts, "POSITION", currency);
            let units = position.map_or(0, |account| account.value.units());
            sums[usize::from(PAYERS <= index)] += units;
        }
        match sums[0] + sums[1] == 0 {
            true => Ok(u64::try_from(sums[0] / amount).unwrap_or_default()),
            false => Err(HarnessError::Hub(format!("has positions that do not add up: {sums:?}"))),
        }
    }

    /// Stops the hub.
    pub(super) fn stop(&mut self) -> Result<(), HarnessError> {
        self.hub.take().map_or(Ok(()), SwitchProcess::stop)
    }
}

fn bound((index, name): (usize, &&'static str), [payers, payees]: [SocketAddr; 2]) -> BoundFsp {
    let address = if index < PAYERS { payers } else { payees };
    let endpoints = dfsp::endpoints(&format!("http://{address}/{name}"));
    BoundFsp { name: (*name).to_owned(), address, subscribers: 0..0, endpoints }
}

/// The configuration of the adapter of several FSPs.
fn write_config(
    directory: &Path,
    (name, fsps): (&str, &[&str]),
    hub: SocketAddr,
    back_end: SocketAddr,
) -> Result<PathBuf, HarnessError> {
    let write = |file: &str, text: &str| {
        let path = directory.join(file);
        std::fs::write(&path, text).map_err(HarnessError::file(&path))?;
        Ok::<_, HarnessError>(path)
    };
    let secret = write("ilp-secret", "a secret of measurements, long enough")?;
    let data = directory.join(name);
    let mut text = format!(
        "data = {data:?}\noutbound = \"127.0.0.1:0\"\ninbound = \"127.0.0.1:0\"\n\
         monitoring = \"127.0.0.1:0\"\n[hub]\nurl = \"http://{hub}\"\n"
    );
    for fsp in fsps {
        text += &format!(
            "[[dfsp]]\nid = \"{fsp}\"\nbackend = \"http://{back_end}\"\n\
             ilp_secret_file = {secret:?}\n"
        );
    }
    write(&format!("{name}.toml"), &text)
}

/// A request that must succeed.
async fn post(
    http: &HttpClient,
    (target, path): (&Target, &str),
    body: &Value,
) -> Result<Reply, HarnessError> {
    let failed = |problem: String| HarnessError::Simulator { fsp: path.to_owned(), problem };
    let call = (Method::POST, path);
    let reply = http.call(target, call, json_headers(), body.to_string().into()).await;
    let reply = reply.map_err(|error| failed(error.to_string()))?;
    match reply.status.is_success() {
        true => Ok(reply),
        false => {
            let body = String::from_utf8_lossy(&reply.body);
            Err(failed(format!("{} {body}", reply.status)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_has_the_published_shares() {
        let shares = shares();
        let weight = |at: usize| shares[at]["weight"].as_f64().expect("a number");
        assert_eq!(
            (&shares[0]["source"], &shares[0]["dest"]),
            (&"fsp201".into(), &"fsp202".into())
        );
        assert!((weight(0) - 0.49).abs() < 0.001);
        let first: f64 = (0..4).map(weight).sum();
        assert!((first - 0.70).abs() < 0.001);
        let all: f64 = (0..shares.len()).map(weight).sum();
        assert!((all - 1.0).abs() < 1e-9);
    }
}
