//! All automation of the repository: `cargo xtask <command>`.
//!
//! `ci` runs the checks that a merge must pass, `nightly` the proofs that take longer, `tidy` the
//! project's own rules. Nothing lives only in a CI system's own files.

mod advisories;
mod ci;
mod console;
mod counts;
mod coverage;
mod deployment;
mod fuzz;
mod kafka;
mod mutants;
mod openapi_documents;
mod package;
mod proof_totals;
mod tidy;
mod tools;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The automation of this repository")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything a merge must pass, with a table of timings at the end.
    Ci,
    /// Known vulnerabilities of the packages in Cargo.lock (needs cargo-deny and its database).
    Advisories {
        /// Fail if the tool or the database is missing.
        #[arg(long)]
        require: bool,
    },
    /// The rules of the house: rings, codemap, bans, sizes, licences, links.
    Tidy {
        /// List the places of banned words whose area, path or word contains the text.
        #[arg(long, value_name = "TEXT", num_args = 0..=1, default_missing_value = "")]
        words: Option<String>,
        /// Write lower counts of banned words to crates/xtask/words.toml.
        #[arg(long, conflicts_with = "words")]
        lower: bool,
    },
    /// Instructions per operation of the core, counted by callgrind.
    Counts {
        /// Compare with docs/performance/counts.md instead of writing it.
        #[arg(long)]
        check: bool,
    },
    /// Builds the operators' console into console/dist (needs node and npm).
    Console {
        /// Compare with console/dist, and test it in Chromium with target/debug/upesi.
        #[arg(long)]
        check: bool,
    },
    /// Which lines of the kernel its tests and the simulator run; fails when one is never run.
    Coverage,
    /// Longer proofs within a time budget, with a table of timings at the end.
    Nightly {
        /// Minutes that all steps together should take, the builds not counted. Each run adds to
        /// the ones before; the sums are printed against their goals at the end.
        #[arg(long, visible_alias = "minutes", default_value_t = 30, value_name = "MINUTES")]
        budget: u32,
    },
    /// The files of `deploy` against what reads them: the chart rendered and compared with what is
    /// kept, Kubernetes' schemas, compose, the image's definition, the unit, the rules of alerts
    /// (needs Go, python3).
    Deployment {
        /// Write deploy/kubernetes anew from the chart instead of comparing.
        #[arg(long)]
        write: bool,
    },
    /// Fuzz targets under libFuzzer, with a table of what each one did at the end.
    Fuzz(fuzz::FuzzOptions),
    /// Golden conversations, against the switch built here or, with --hub, any other hub.
    Conversations {
        /// Arguments of the runner: files, --hub, --admin, --token, --write-index and others.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<String>,
    },
    /// Writes docs/openapi/*.json anew from the code.
    Openapi,
    /// The files of a release: static program, Debian package, list of contents, checksums.
    Package(package::PackageOptions),
    /// Compares docs/openapi/*.json with the published documents (needs python3 and npm).
    Published,
    /// Plays the API documents against a switch and adapters (needs python3 and npm).
    Schemathesis {
        /// Seconds for all documents together.
        #[arg(long, default_value_t = 120)]
        seconds: u64,
        /// Which messages are made: the same seed makes the same ones.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Only documents whose name holds this: "ours", "admin", "FSPIOP 2.0".
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
    },
    /// Mutation tests: small changes of the kernel, the stored forms and the log, each of which
    /// tests must detect. Continues from the last run.
    Mutants(mutants::MutantOptions),
    /// Deterministic simulation: one seed is one run, repeated exactly. Of a single one the digest
    /// of its events and the hash of its state are shown: the same seed has the same.
    Simulate {
        /// The first seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Runs with the seeds that follow, for this many minutes.
        #[arg(long)]
        #[arg(value_parser = clap::value_parser!(u64).range(1..))]
        minutes: Option<u64>,
    },
    /// Plants each deliberate bug and shows how the simulator catches it.
    Bugs,
    /// A real Kafka cluster on this machine, to try the switch on (needs Java 17 and Maven).
    #[command(subcommand)]
    Kafka(kafka::Command),
}

fn main() -> ExitCode {
    if coverage::is_compiling() {
        return coverage::compile();
    }
    let root = root();
    let passed = match Arguments::parse().command {
        Command::Ci => ci::run(&root, ci::ci()),
        Command::Advisories { require } => {
            let required = require || advisories::is_required();
            advisories::check(&root, required) != ci::StepResult::Failed
        }
        Command::Tidy { words: Some(text), .. } => tidy::list_words(&root, &text),
        Command::Tidy { lower: true, .. } => tidy::lower_words(&root),
        Command::Tidy { .. } => tidy::run(&root),
        Command::Counts { check } => counts::run(&root, check),
        Command::Console { check: true } => console::check(&root),
        Command::Console { check: false } => console::build(&root),
        Command::Coverage => coverage::run(&root),
        Command::Deployment { write } => {
            let kept = if write {
                deployment::RenderingMode::Written
            } else {
                deployment::RenderingMode::Compared
            };
            deployment::check(&root, kept)
        }
        Command::Openapi => openapi_documents::write(&root),
        Command::Package(options) => package::run_command(&root, &options),
        Command::Published => openapi_documents::compare(&root),
        Command::Schemathesis { seconds, seed, only } => {
            openapi_documents::play(&root, &openapi_documents::Play { seconds, seed, only })
        }
        Command::Fuzz(options) => fuzz::run(&root, &options),
        Command::Conversations { arguments } => ci::run(&root, ci::conversations(&arguments)),
        Command::Simulate { seed, minutes } => {
            let mut arguments = vec!["--seed".to_owned(), seed.to_string()];
            match minutes {
                Some(minutes) => {
                    arguments.extend(["--seconds".to_owned(), (60 * minutes).to_string()]);
                }
                None => arguments.push("--each".to_owned()),
            }
            ci::run(&root, ci::simulate(&arguments))
        }
        Command::Mutants(options) => mutants::run(&root, &options),
        Command::Bugs => ci::run(&root, ci::bugs()),
        Command::Nightly { budget } => {
            let passed = ci::run(&root, ci::nightly(budget));
            print!("\n{}", proof_totals::table(&root, &fuzz::names(&root).unwrap_or_default()));
            passed
        }
        Command::Kafka(command) => kafka::run(&root, &command),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The root of the repository, from the directory from which Cargo runs this crate. The path at
/// compile time may be that of another clone with the same build directory.
fn root() -> PathBuf {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest)
        .ancestors()
        .nth(2)
        .expect("xtask is two levels below the root")
        .to_path_buf()
}
