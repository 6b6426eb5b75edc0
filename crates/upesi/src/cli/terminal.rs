//! The terminal: its size, colours, and single keys.
//!
//! Colours and fitted tables are for terminals only. Other outputs get the complete text. The
//! environment variable `NO_COLOR` turns colours off, and so does `TERM=dumb`.

use std::env;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

use crate::CliError;

/// Whether `--output wide` asks for complete tables.
static IS_WIDE: AtomicBool = AtomicBool::new(false);

/// The byte of ctrl-c.
const INTERRUPT: u8 = 3;

/// A colour of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Green,
    Yellow,
    Red,
    Bold,
}

/// Shows tables with all columns, whatever the width of the terminal.
pub(crate) fn show_wide_tables() {
    IS_WIDE.store(true, Ordering::Relaxed);
}

/// Columns and rows of the terminal; `None` if standard output is not a terminal.
pub(crate) fn size() -> Option<(usize, usize)> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = tcgetwinsize(&stdout).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (0 < columns && 0 < rows).then_some((columns, rows))
}

/// The width to which tables are fitted; `None` for complete ones.
pub(crate) fn table_width() -> Option<usize> {
    if IS_WIDE.load(Ordering::Relaxed) { None } else { size().map(|(columns, _)| columns) }
}

/// The text in a colour, if standard output shows colours.
pub(crate) fn coloured(text: &str, colour: Colour) -> String {
    if !has_colours() {
        return text.to_owned();
    }
    let code = match colour {
        Colour::Green => 32,
        Colour::Yellow => 33,
        Colour::Red => 31,
        Colour::Bold => 1,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

fn has_colours() -> bool {
    let is_off = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_some_and(|value| value == "dumb");
    !is_off && !is_dumb && io::stdout().is_terminal()
}

/// The width of a text on the screen: its characters without colours.
pub(crate) fn shown_width(text: &str) -> usize {
    let mut width = 0;
    let mut is_escape = false;
    for letter in text.chars() {
        match (is_escape, letter) {
            (false, '\x1b') => is_escape = true,
            (false, _) => width += 1,
            (true, 'm') => is_escape = false,
            (true, _) => {}
        }
    }
    width
}

/// Asks a person to confirm a change.
///
/// # Errors
/// The answer is not `y` or `yes`, or standard input is not a terminal.
pub(crate) fn confirm(question: &str) -> Result<(), CliError> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(CliError::new("nothing was changed; confirm the change with --yes"));
    }
    eprint!("{question}? [y/N] ");
    let mut answer = String::new();
    let read = io::stderr().flush().and_then(|()| stdin.lock().read_line(&mut answer));
    read.map_err(|error| CliError::new(format!("standard input: {error}")))?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(CliError::new("nothing was changed")),
    }
}

/// Single keys of a terminal, without echo. The terminal is restored when this is dropped.
pub(crate) struct Keys(Termios);

impl Keys {
    /// `None` if standard input is not a terminal. A read waits for `tenths` of a second.
    pub(crate) fn read_for(tenths: u8) -> Option<Self> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut single = before.clone();
        // Without signals, ctrl-c is a key, and the terminal is restored.
        single.local_modes &= !(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        single.special_codes[SpecialCodeIndex::VMIN] = 0;
        single.special_codes[SpecialCodeIndex::VTIME] = tenths;
        tcsetattr(&stdin, OptionalActions::Now, &single).ok()?;
        Some(Self(before))
    }

    /// Waits for a key. Whether it asks for the end: `q`, ctrl-c, or the end of the input.
    pub(crate) fn asks_for_end(&self) -> bool {
        let mut key = [0];
        match io::stdin().lock().read(&mut key) {
            Ok(0) => false,
            Ok(_) => matches!(key[0], b'q' | b'Q' | INTERRUPT),
            Err(error) => error.kind() != io::ErrorKind::Interrupted,
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _restored = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_take_no_width() {
        for (text, width) in [("", 0), ("abc", 3), ("\x1b[31mno\x1b[0m!", 3), ("€", 1)] {
            assert_eq!(shown_width(text), width, "{text:?}");
        }
    }
}
