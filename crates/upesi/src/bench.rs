//! `upesi bench`: measurements, one subcommand each.

use clap::Subcommand;
use harness::{BenchOptions, HelloOptions, Scenario, Sweep, SwitchCommand};

use crate::Failure;

/// Arguments of `bench`.
#[derive(clap::Args)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    what: What,
}

/// What is measured.
#[derive(Subcommand)]
enum What {
    /// Transfers: POST /transfers to the notice of the commit at the payer.
    Transfer(Box<BenchOptions>),
    /// Prepares: POST /transfers until the payee has received it.
    Prepare(Box<BenchOptions>),
    /// Fulfilments: PUT /transfers by the payee to the notice of the commit at the payer.
    Fulfil(Box<BenchOptions>),
    /// Look-ups: GET /parties to the party's callback.
    Lookup(Box<BenchOptions>),
    /// Quotes: POST /quotes to the quote's callback.
    Quote(Box<BenchOptions>),
    /// Whole transactions: look-up, quote and transfer.
    Whole(Box<BenchOptions>),
    /// The tables of the field: several runs that answer one question, beside published figures.
    Sweep(SweepArguments),
    /// The instrument itself: exchanges with a server that only says 202, and whole transactions
    /// through a hub that only forwards.
    Harness(HelloOptions),
    /// The core without sockets: kernel, log, stored forms, FSPIOP messages, signatures.
    Core(microbench::Options),
}

/// Arguments of `bench sweep`.
#[derive(clap::Args)]
struct SweepArguments {
    #[command(subcommand)]
    sweep: Sweep,
}

pub(crate) fn bench(arguments: &BenchArguments) -> Result<(), Failure> {
    let (scenario, options) = match &arguments.what {
        What::Transfer(options) => (Scenario::Transfer, options),
        What::Prepare(options) => (Scenario::Prepare, options),
        What::Fulfil(options) => (Scenario::Fulfil, options),
        What::Lookup(options) => (Scenario::Lookup, options),
        What::Quote(options) => (Scenario::Quote, options),
        What::Whole(options) => (Scenario::Whole, options),
        What::Sweep(arguments) => return sweep(&arguments.sweep),
        What::Core(options) => return core(options),
        What::Harness(options) => {
            return harness::bench_harness(options)
                .map_err(|error| Failure::new(error.to_string()));
        }
    };
    measure(scenario, options)
}

fn measure(scenario: Scenario, options: &BenchOptions) -> Result<(), Failure> {
    let report = harness::bench(scenario, options, &switch_command()?)
        .map_err(|error| Failure::new(error.to_string()))?;
    verdict("run", report.valid, &report.invalid_because)
}

fn sweep(sweep: &Sweep) -> Result<(), Failure> {
    let report = harness::sweep(sweep, &switch_command()?)
        .map_err(|error| Failure::new(error.to_string()))?;
    verdict("sweep", report.valid, &report.invalid_because)
}

fn switch_command() -> Result<SwitchCommand, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find this program's own file: {error}")))?;
    Ok(SwitchCommand::standard(program))
}

fn verdict(what: &str, valid: bool, invalid_because: &[String]) -> Result<(), Failure> {
    if valid {
        return Ok(());
    }
    let why = invalid_because.first().map_or("see above", |why| why);
    Err(Failure::new(format!("the {what} is VOID: {why}")))
}

fn core(options: &microbench::Options) -> Result<(), Failure> {
    let report = microbench::run(options).map_err(|error| Failure::new(error.to_string()))?;
    if options.json {
        let text = serde_json::to_string_pretty(&report);
        println!("{}", text.map_err(|error| Failure::new(error.to_string()))?);
    } else {
        print!("{report}");
    }
    Ok(())
}
