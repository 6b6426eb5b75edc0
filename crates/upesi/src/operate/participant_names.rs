//! Names of participants for the completion of a shell.
//!
//! The script of `upesi completions` passes the line up to the cursor. If the word there is a
//! participant, the running switch is asked for all names. A list that is younger than
//! [`FRESH`] comes from a file below `$XDG_CACHE_HOME` instead; so does an older one if the switch
//! gives no answer within [`WAIT_MAX`]. Errors are silent: a shell shows them in the middle of the
//! line.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, fs, thread};

use clap::Parser;
use harness::session_file;

use crate::CliError;
use crate::cli::admin_address::AdminAddress;
use crate::cli::admin_client::{AdminClient, entries, member};

/// Longest wait for the switch.
const WAIT_MAX: Duration = Duration::from_millis(700);
/// Age up to which a stored list is used without a request.
const FRESH: Duration = Duration::from_secs(10);
/// Options that select the switch.
const CONNECTION: [&str; 4] = ["--admin", "--token", "--ca", "--client-certificate"];
/// Options without a value.
const FLAGS: [&str; 7] =
    ["--json", "--wide", "--dry-run", "--group", "--prune", "--yes", "--watch"];
/// Commands whose first argument is a participant.
const COMMANDS: [[&str; 2]; 13] = [
    ["participant", "show"],
    ["participant", "enable"],
    ["participant", "disable"],
    ["participant", "limits"],
    ["participant", "endpoints"],
    ["participant", "keys"],
    ["funds", "in"],
    ["funds", "out"],
    ["statement", "participant"],
    ["certificate", "request"],
    ["certificate", "list"],
    ["certificate", "sign"],
    ["certificate", "show"],
];

/// Arguments of `participant-names`.
#[derive(clap::Args)]
pub(crate) struct NamesArguments {
    /// The line of the shell up to the cursor.
    #[arg(value_name = "LINE")]
    line: String,
}

#[derive(Parser)]
struct Connection {
    #[command(flatten)]
    switch: AdminAddress,
}

/// Prints the names if the word at the end of the line is a participant.
///
/// # Errors
/// It is not, or no names are known.
pub(crate) fn print_names(arguments: &NamesArguments) -> Result<(), CliError> {
    let (is_name, options) = read_line(&arguments.line);
    let unknown = || CliError::new("no names of participants are known");
    if !is_name {
        return Err(CliError::new("the line does not end with a participant"));
    }
    let words = std::iter::once("upesi").chain(options.iter().map(String::as_str));
    let connection = Connection::try_parse_from(words).map_err(|_| unknown())?;
    let file = cache_file(&connection.switch.admin);
    let stored = |age_max| file.as_deref().and_then(|file| stored_names(file, age_max));
    let names = match stored(FRESH) {
        Some(names) => Some(names),
        None => match asked_names(connection.switch) {
            Some(names) => {
                if let Some(file) = &file {
                    store_names(file, &names);
                }
                Some(names)
            }
            None => stored(Duration::MAX),
        },
    };
    println!("{}", names.ok_or_else(unknown)?);
    Ok(())
}

/// Whether the word at the end of a line is a participant, and the options that select the switch.
fn read_line(line: &str) -> (bool, Vec<String>) {
    let mut words: Vec<_> = line.split_whitespace().skip(1).collect();
    let last = if line.ends_with(char::is_whitespace) { "" } else { words.pop().unwrap_or("") };
    let (mut arguments, mut options) = (Vec::new(), Vec::new());
    let mut option = None;
    for word in &words {
        match (option.take(), word.split_once('=')) {
            (Some(name), _) if CONNECTION.contains(&name) => {
                options.extend([name.to_owned(), (*word).to_owned()]);
            }
            (Some(_), _) => {}
            (None, Some((name, _))) if CONNECTION.contains(&name) => {
                options.push((*word).to_owned());
            }
            (None, None) if word.starts_with("--") && !FLAGS.contains(word) => option = Some(*word),
            (None, _) if word.starts_with('-') => {}
            (None, _) => arguments.push(*word),
        }
    }
    let is_name = match option {
        Some(name) => name == "--participant",
        None => !last.starts_with('-') && COMMANDS.iter().any(|command| *command == arguments[..]),
    };
    (is_name, options)
}

/// The names from the switch, one per line.
fn asked_names(switch: AdminAddress) -> Option<String> {
    let (sender, receiver) = mpsc::sync_channel(1);
    // It ends with the process if the switch gives no answer.
    thread::spawn(move || {
        let answer = AdminClient::at(&switch)
            .and_then(|mut client| client.call("GET", "/participants", None));
        let names = answer.ok().map(|answer| {
            let names = entries(&answer.value).iter().map(|it| member(it, "name"));
            names.collect::<Vec<_>>().join("\n")
        });
        let _receiver_may_be_gone = sender.send(names);
    });
    receiver.recv_timeout(WAIT_MAX).ok().flatten()
}

/// The file with the names of a switch.
fn cache_file(url: &str) -> Option<PathBuf> {
    let named = |variable| env::var_os(variable).filter(|value| !value.is_empty());
    let cache = named("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| named("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    Some(cache.join("upesi").join("participants").join(session_file(url)?.file_name()?))
}

fn stored_names(file: &Path, age_max: Duration) -> Option<String> {
    let age = fs::metadata(file).ok()?.modified().ok()?.elapsed().unwrap_or_default();
    if age_max < age {
        return None;
    }
    fs::read_to_string(file).ok()
}

/// Stores a list. Without one, the switch is asked again.
fn store_names(file: &Path, names: &str) {
    if let Some(directory) = file.parent() {
        let _stored = fs::create_dir_all(directory).and_then(|()| fs::write(file, names));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_wanted_after_some_commands_and_options() {
        for (line, expected) in [
            ("upesi participant show ", true),
            ("upesi participant show gre", true),
            ("upesi --admin http://10.0.0.1:3001 participant show ", true),
            ("upesi participant show --json --reason x g", true),
            ("upesi funds in ", true),
            ("upesi transfer list --participant ", true),
            ("upesi participant show greenbank ", false),
            ("upesi participant show --j", false),
            ("upesi participant ", false),
            ("upesi participant show --reason ", false),
            ("upesi", false),
            ("", false),
        ] {
            assert_eq!(read_line(line).0, expected, "{line}");
        }
        let (_, options) = read_line("upesi funds in --token a.txt --admin=http://a:1 ");
        assert_eq!(options, ["--token", "a.txt", "--admin=http://a:1"]);
    }
}
