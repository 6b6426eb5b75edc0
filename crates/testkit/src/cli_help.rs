//! Rules for the help texts of command lines: each command has a group and a short summary, each
//! option has help, and no text contains a word that the style guide bans.

use clap::Command;

/// Checks the help of a command and of all its subcommands. Returns one line for each fault: a
/// command without a group, a summary over 80 characters, an option without help.
#[must_use]
pub fn faults(command: &Command, groups: &[(&str, &[&str])]) -> Vec<String> {
    let mut faults = Vec::new();
    for listed in command.get_subcommands().filter(|listed| !listed.is_hide_set()) {
        let name = listed.get_name();
        let count = groups.iter().filter(|(_, names)| names.contains(&name)).count();
        if count != 1 {
            faults.push(format!("{name}: in {count} groups, expected 1"));
        }
    }
    check(command, command.get_name(), &mut faults);
    faults
}

/// Longest first sentence of a command or an option, in characters.
const SUMMARY_CHARS_MAX: usize = 80;

fn check(command: &Command, path: &str, faults: &mut Vec<String>) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    check_summary(path, &about, faults);
    let texts = [command.get_long_about(), command.get_after_help()];
    texts.into_iter().flatten().for_each(|text| check_words(path, &text.to_string(), faults));
    for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
        let path = format!("{path} --{}", option.get_id());
        let help = option.get_help().map(ToString::to_string).unwrap_or_default();
        let first = help.split_once(". ").map_or(help.as_str(), |(first, _)| first);
        check_summary(&path, first, faults);
        let texts = [option.get_help(), option.get_long_help()];
        texts.into_iter().flatten().for_each(|text| check_words(&path, &text.to_string(), faults));
    }
    for inner in command.get_subcommands() {
        check(inner, &format!("{path} {}", inner.get_name()), faults);
    }
}

fn check_summary(path: &str, summary: &str, faults: &mut Vec<String>) {
    match summary.chars().count() {
        0 => faults.push(format!("{path}: no help")),
        1..=SUMMARY_CHARS_MAX => check_words(path, summary, faults),
        count => faults.push(format!("{path}: {count} characters: {summary}")),
    }
}

/// The words that `cargo xtask tidy` counts. It does not count text in backticks.
const BANNED: &str = "\
    `told` `tell` `tells` `said` `say` `says` `hears` `hear` `lets go` `let go` `held against` \
    `stands` `stand` `stood` `beside` `behind` `goes on` `go on` `went on` `going on` `so many` \
    `nobody` `somebody` `everybody` `whoever` `he` `is none` `are none`";

fn check_words(path: &str, text: &str, faults: &mut Vec<String>) {
    let letters = |found: char| !found.is_alphanumeric() && found != '-';
    let words: Vec<_> = text.split(letters).filter(|word| !word.is_empty()).collect();
    let plain = format!(" {} ", words.join(" ").to_lowercase());
    let banned = BANNED.split('`').skip(1).step_by(2);
    for word in banned.filter(|word| plain.contains(&format!(" {word} "))) {
        faults.push(format!("{path}: `{word}` in: {text}"));
    }
}
