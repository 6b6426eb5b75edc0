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
    clap_complete::generate(arguments.shell, &mut command, &name, &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if name == "upesi" {
        complete_participants(arguments.shell, &mut script);
    }
    print!("{script}");
}

/// Makes a script complete the names of participants, which `upesi participant-names` prints.
fn complete_participants(shell: Shell, script: &mut String) {
    match shell {
        Shell::Bash => script.push_str(BASH_NAMES),
        Shell::Zsh => {
            let begins = script.rfind("if [ \"$funcstack[1]\"").unwrap_or(script.len());
            let end = script[begins..].replace("_upesi \"$@\"", "_upesi_names \"$@\"");
            let end = end.replace("compdef _upesi upesi", "compdef _upesi_names upesi");
            script.replace_range(begins.., &format!("{ZSH_NAMES}{end}"));
        }
        Shell::Fish => script.push_str(FISH_NAMES),
        _ => {}
    }
}

const BASH_NAMES: &str = r#"
_upesi_names() {
    local names
    if names=$(upesi participant-names -- "${COMP_LINE:0:COMP_POINT}" 2>/dev/null); then
        COMPREPLY=($(compgen -W "${names}" -- "${COMP_WORDS[COMP_CWORD]}"))
    else
        _upesi "$@"
    fi
}
complete -F _upesi_names -o bashdefault -o default upesi
"#;

const ZSH_NAMES: &str = r#"_upesi_names() {
    local names
    if names=$(upesi participant-names -- "${(j: :)words[1,CURRENT]}" 2>/dev/null); then
        compadd -- ${(f)names}
    else
        _upesi "$@"
    fi
}

"#;

const FISH_NAMES: &str = "complete -c upesi -a \
    '(upesi participant-names -- (commandline -cp | string collect) 2>/dev/null)'\n";

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
