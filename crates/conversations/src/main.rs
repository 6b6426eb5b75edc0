//! Plays golden conversations against a hub: the switch built next to this program, or another.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use conversations::{RunOptions, Target};

/// Plays golden conversations against a hub.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// Files, or directories that are searched; all of ./conversations when none is named.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Start this switch binary on a temporary directory. Its log is verified at the end. Default
    /// without --hub: `upesi` in the directory of this program.
    #[arg(long, value_name = "FILE", conflicts_with = "hub")]
    switch: Option<PathBuf>,
    /// FSPIOP address of a running hub, `http://host:port`; needs --admin, and --token where its
    /// admin API asks for one.
    #[arg(long, value_name = "URL", requires = "admin")]
    hub: Option<String>,
    /// Its admin address, with --hub.
    #[arg(long, value_name = "URL", requires = "hub")]
    admin: Option<String>,
    /// File with the bearer token of its admin API.
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// Host under which the hub reaches this machine.
    #[arg(long, default_value = "127.0.0.1")]
    callback_host: String,
    /// Conversations played at once.
    #[arg(long, default_value_t = 12)]
    jobs: usize,
    /// Seconds within which a message must come, its expiry not counted.
    #[arg(long, default_value_t = 20)]
    patience: u64,
    /// Directory of the conversations, with rows.txt.
    #[arg(long, value_name = "DIR", default_value = "conversations")]
    directory: PathBuf,
    /// Write index.md: each row with the conversations that cover it.
    #[arg(long)]
    write_index: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match conversations::run(&options(arguments)) {
        Ok(report) => {
            print!("{report}");
            if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(failure) => {
            eprintln!("conversations: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn options(arguments: Arguments) -> RunOptions {
    let target = match (arguments.switch, arguments.hub, arguments.admin) {
        (None, Some(fspiop), Some(admin)) => Target::Hub { fspiop, admin, token: arguments.token },
        (switch, _, _) => Target::Switch(switch.unwrap_or_else(beside)),
    };
    RunOptions {
        target,
        directory: arguments.directory,
        paths: arguments.paths,
        callback_host: arguments.callback_host,
        jobs: arguments.jobs,
        patience: Duration::from_secs(arguments.patience),
        write_index: arguments.write_index,
    }
}

/// The switch that was built into the same directory.
fn beside() -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name("upesi")
}
