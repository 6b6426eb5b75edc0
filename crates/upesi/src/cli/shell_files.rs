//! Shell completions and man pages, generated from the command line's declaration.

use std::fs;
use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;

use crate::CliError;

/// Arguments of `completions`.
#[derive(clap::Args)]
pub struct CompletionsArguments {
    /// Shell that will read the script.
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `man`.
#[derive(clap::Args)]
pub struct ManArguments {
    /// Directory for the pages; created if missing.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Prints the completion script of a program.
pub fn print_completions(arguments: &CompletionsArguments, mut command: Command) {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    print!("{}", String::from_utf8_lossy(&script));
}

/// Writes one man page for a program and one for each of its commands.
///
/// # Errors
///
/// The directory cannot be created or written.
pub fn write_man_pages(arguments: &ManArguments, command: Command) -> Result<(), CliError> {
    let written = fs::create_dir_all(&arguments.out)
        .and_then(|()| clap_mangen::generate_to(command, &arguments.out));
    let place = arguments.out.display();
    written.map_err(|error| CliError::new(format!("{place}: cannot write man pages: {error}")))?;
    println!("man pages written to {place}");
    Ok(())
}
