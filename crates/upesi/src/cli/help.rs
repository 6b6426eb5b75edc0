//! The command list of `--help`, grouped by task. `clap` itself lists all commands under one
//! heading.

use clap::Command;

/// A heading of the command list, with the names of its commands in order.
pub type HelpGroup = (&'static str, &'static [&'static str]);

/// Returns the command with a help text that lists its subcommands by group.
///
/// # Panics
///
/// A group names a command that does not exist.
#[must_use]
pub fn with_command_groups(command: Command, groups: &[HelpGroup]) -> Command {
    let names = groups.iter().flat_map(|(_, names)| names.iter());
    let width = names.map(|name| name.len()).max().unwrap_or_default();
    let (heading, literal) =
        (*command.get_styles().get_header(), *command.get_styles().get_literal());
    let mut list = String::new();
    for (title, names) in groups {
        list += &format!("\n{heading}{title}:{heading:#}\n");
        for name in *names {
            let listed = command.find_subcommand(name).expect("a group lists existing commands");
            let about = listed.get_about().map(ToString::to_string).unwrap_or_default();
            list += &format!("  {literal}{name:<width$}{literal:#}  {about}\n");
        }
    }
    let program = command.get_name().to_owned();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{list}\n\
         Run `{program} COMMAND --help` for the details of a command.\n\n\
         {heading}Options:{heading:#}\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}
