//! `upesi conformance`: checks the FSPIOP server of a DFSP against the specification.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use adapter::conformance::{CheckResult, Conformance, ConformanceOptions, TargetKind, Verdict};
use ledger::{Amount, Currency};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::CliError;
use crate::cli::stdout::{print_json, print_message};
use crate::cli::units::counted;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi conformance --dfsp mybank --url http://mybank.example:4000 --party MSISDN/222
  upesi conformance --dfsp mybank --hub http://hub.example:4000 --as testbank --party MSISDN/222
In the first form the program takes the place of the hub: set the address of the hub in the
configuration of the DFSP to that of --listen. In the second form it is the participant testbank of
a real hub, whose callbacks go to --listen.
Exit codes: 0 no check failed, 1 at least one failed.";

/// Arguments of `conformance`.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("target").required(true).args(["url", "hub"])))]
pub(crate) struct ConformanceArguments {
    /// Name of the DFSP that is checked.
    #[arg(long, value_name = "NAME")]
    dfsp: String,
    /// Base URL of its FSPIOP server; the program takes the place of the hub.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Base URL of a hub, which forwards the messages.
    #[arg(long, value_name = "URL", requires = "payer")]
    hub: Option<String>,
    /// Name of the paying DFSP; with --hub, one whose callbacks go to --listen.
    #[arg(long = "as", id = "payer", value_name = "NAME", default_value = "conformance")]
    payer: String,
    /// Address for the callbacks of the DFSP.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4100")]
    listen: SocketAddr,
    /// A party of the DFSP.
    #[arg(long, value_name = "TYPE/ID", value_parser = party)]
    party: (String, String),
    /// An identifier of the same type that the DFSP does not know.
    #[arg(long, value_name = "ID", default_value = "000000000")]
    unknown: String,
    /// Amount of each payment.
    #[arg(long, value_name = "DECIMAL", default_value = "10", value_parser = amount)]
    amount: String,
    /// Currency of each payment.
    #[arg(long, value_name = "CODE", default_value = "USD", value_parser = currency)]
    currency: String,
    /// Private key in PEM that signs the requests; adds checks of signatures.
    #[arg(long, value_name = "FILE")]
    signing_key: Option<PathBuf>,
    /// Directory with public keys, NAME.pem, that verify the callbacks.
    #[arg(long, value_name = "DIR")]
    keys: Option<PathBuf>,
    /// Longest wait for a callback, in seconds.
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=600))]
    wait: u64,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

fn party(text: &str) -> Result<(String, String), String> {
    let (kind, id) = text.split_once('/').ok_or("expected TYPE/ID, such as MSISDN/222")?;
    if fspiop::PartyIdType::parse(kind).is_none() {
        return Err(format!("unknown type {kind:?}"));
    }
    match fspiop::is_identifier(id) {
        true => Ok((kind.to_owned(), id.to_owned())),
        false => Err(format!("invalid identifier {id:?}")),
    }
}

fn amount(text: &str) -> Result<String, String> {
    let amount = Amount::parse(text).ok_or("expected an amount, such as 10 or 12.5")?;
    Ok(amount.to_string())
}

fn currency(text: &str) -> Result<String, String> {
    let currency = Currency::parse(text).ok_or("expected a currency code")?;
    Ok(currency.as_str().to_owned())
}

/// Plays all checks and prints their results.
pub(crate) fn conformance(arguments: &ConformanceArguments) -> Result<(), CliError> {
    let of = |why: String| CliError::new(format!("conformance: {why}"));
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| of(error.to_string()))?;
    let results = runtime.block_on(async {
        let run = Conformance::start(options(arguments)).await.map_err(of)?;
        if !arguments.json {
            let address = run.address().map_err(|error| of(error.to_string()))?;
            print_message(format!("conformance: expects callbacks on {address}"));
        }
        Ok::<_, CliError>(run.run().await)
    })?;
    let count = |verdict| results.iter().filter(|row| row.verdict == verdict).count();
    let [passed, failed, skipped] = [Verdict::Passed, Verdict::Failed, Verdict::Skipped].map(count);
    if arguments.json {
        let checks: Vec<_> = results.iter().map(shown).collect();
        print_json(&json!({
            "dfsp": arguments.dfsp, "specification": "FSPIOP 1.1",
            "passed": passed, "failed": failed, "skipped": skipped, "checks": checks,
        }))?;
    } else {
        results.iter().for_each(print);
        println!("{passed} passed, {failed} failed, {skipped} skipped");
    }
    match failed {
        0 => Ok(()),
        count => {
            let failed = counted(count as u64, "check");
            Err(CliError::new(format!("conformance: {failed} failed")))
        }
    }
}

fn options(arguments: &ConformanceArguments) -> ConformanceOptions {
    let (url, target) = match (&arguments.url, &arguments.hub) {
        (_, Some(hub)) => (hub.clone(), TargetKind::Hub),
        (url, None) => (url.clone().unwrap_or_default(), TargetKind::Dfsp),
    };
    ConformanceOptions {
        url,
        target,
        dfsp: arguments.dfsp.clone(),
        payer: arguments.payer.clone(),
        listen: arguments.listen,
        party: arguments.party.clone(),
        unknown: arguments.unknown.clone(),
        amount: arguments.amount.clone(),
        currency: arguments.currency.clone(),
        signing_key: arguments.signing_key.clone(),
        keys: arguments.keys.clone(),
        wait: Duration::from_secs(arguments.wait),
    }
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "failed",
        Verdict::Skipped => "skipped",
    }
}

/// A result as JSON.
fn shown(row: &CheckResult) -> Value {
    json!({
        "check": row.name, "result": word(row.verdict), "sent": row.sent,
        "required": row.required, "section": row.section,
        "received": row.received, "why": row.why,
    })
}

fn print(row: &CheckResult) {
    println!("{:<7}  {:<17} {}", word(row.verdict), row.name, row.sent);
    println!("{:26} required: {} ({})", "", row.required, row.section);
    if !row.received.is_empty() {
        println!("{:26} received: {}", "", row.received);
    }
    if !row.why.is_empty() {
        println!("{:26} why: {}", "", row.why);
    }
}
