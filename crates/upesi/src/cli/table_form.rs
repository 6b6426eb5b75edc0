//! `--output wide` of the commands that print tables.
//!
//! The option is added to each command against a running switch that has no option `--output` for
//! a file. It means the same as `--wide`.

use clap::{Arg, ArgMatches, Command};

use crate::cli::terminal::show_wide_tables;

const ID: &str = "table_form";
/// The option that the commands against a running switch share.
const WIDE: &str = "wide";

/// Adds the option to a command and those below it.
pub(crate) fn with_table_form(command: Command) -> Command {
    with_form(command, false)
}

/// The same. `is_below` if a command above has `--wide`, which those below it share.
fn with_form(command: Command, is_below: bool) -> Command {
    let has = |name: &str| command.get_arguments().any(|it| it.get_long() == Some(name));
    let prints_tables = is_below || has(WIDE);
    // An option for a file that is shared with the commands below.
    let has_file = has("output");
    let is_leaf = !command.has_subcommands();
    let command = match prints_tables && is_leaf && !has_file {
        true => command.arg(form()),
        false => command,
    };
    match has_file {
        true => command,
        false => command.mut_subcommands(|below| with_form(below, prints_tables)),
    }
}

fn form() -> Arg {
    let help = "Form of tables: wide, complete whatever the width of the terminal";
    Arg::new(ID).long("output").value_name("FORM").value_parser([WIDE]).help(help)
}

/// Applies the option.
pub(crate) fn apply(matches: &ArgMatches) {
    let mut deepest = matches;
    while let Some((_, below)) = deepest.subcommand() {
        deepest = below;
    }
    if matches!(deepest.try_contains_id(ID), Ok(true)) && deepest.contains_id(ID) {
        show_wide_tables();
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::cli::commands::command_line;

    fn takes_a_form(words: &[&str]) -> bool {
        let words = ["upesi"].iter().chain(words).chain(&["--output", "wide"]);
        let matches = command_line().try_get_matches_from(words);
        let matches = matches.unwrap_or_else(|error| panic!("{error}"));
        let mut deepest = &matches;
        while let Some((_, below)) = deepest.subcommand() {
            deepest = below;
        }
        let file = deepest.try_get_one::<PathBuf>("output").ok().flatten();
        assert_ne!(file.is_some(), deepest.try_contains_id(ID).is_ok());
        file.is_none()
    }

    #[test]
    fn tables_take_a_form_and_files_a_name() {
        for words in [
            &["participant", "list"][..],
            &["transfer", "list"],
            &["callback", "list"],
            &["funds", "list"],
            &["status"],
            &["token", "list"],
            &["certificate", "list", "bank"],
        ] {
            assert!(takes_a_form(words), "{words:?}");
        }
        for words in [&["token", "create", "anna"][..], &["export"], &["statement", "window", "1"]]
        {
            assert!(!takes_a_form(words), "{words:?}");
        }
        let wrong = ["upesi", "participant", "list", "--output", "narrow"];
        assert!(command_line().try_get_matches_from(wrong).is_err());
    }
}
