//! Simulators through a hub that only forwards: `cargo run --release --example baseline -- --help`.

use std::process::ExitCode;

use clap::Parser;
use harness::{BaselineOptions, baseline};

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: BaselineOptions,
}

fn main() -> ExitCode {
    match baseline(&Arguments::parse().options) {
        Ok(report) if report.failed == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
