//! The session that `upesi login` stores for an admin API: one file per address, so that a token is
//! sent only to the address that gave it. And the environment variable that has a token instead.

use std::env;
use std::path::PathBuf;

/// The environment variable with a token, for scripts and for containers.
pub(crate) const TOKEN_VARIABLE: &str = "UPESI_TOKEN";

/// The content of the variable `UPESI_TOKEN`; `None` if it is not set, or empty.
#[must_use]
pub fn token_of_environment() -> Option<String> {
    let value = env::var_os(TOKEN_VARIABLE).filter(|value| !value.is_empty())?;
    Some(value.to_string_lossy().into_owned())
}

/// The file of the session with an admin API, such as `http://127.0.0.1:3001`: below
/// `$XDG_CONFIG_HOME`, or `~/.config`. `None` if neither variable names a directory.
#[must_use]
pub fn session_file(url: &str) -> Option<PathBuf> {
    let named = |variable| env::var_os(variable).filter(|value| !value.is_empty());
    let configuration = named("XDG_CONFIG_HOME").map(PathBuf::from);
    let configuration =
        configuration.or_else(|| named("HOME").map(|home| PathBuf::from(home).join(".config")))?;
    Some(configuration.join("upesi").join("sessions").join(file_name(url)))
}

/// The address, with a `_` for each character that a file name should not have.
fn file_name(url: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-.".contains(character);
    let host = url.trim_end_matches('/');
    let host = host.split_once("://").map_or(host, |(_, host)| host).to_ascii_lowercase();
    host.chars().map(|character| if is_plain(character) { character } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_files_of_their_own() {
        for (url, expected) in [
            ("http://127.0.0.1:3001", "127.0.0.1_3001"),
            ("http://Hub.example:3001/", "hub.example_3001"),
            ("hub.example:3001", "hub.example_3001"),
            ("http://[::1]:3001", "___1__3001"),
            ("http://a/../b", "a_.._b"),
        ] {
            assert_eq!(file_name(url), expected, "{url}");
        }
    }
}
