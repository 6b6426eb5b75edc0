//! Texts from outside, as they are shown on a terminal.

use std::borrow::Cow;

/// A text without characters that move the cursor, hide text or change its direction: they are
/// shown as `\u{9b}`. Line ends and tabs are left.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if is_hidden(c) { c.escape_unicode().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

/// Control characters, line and paragraph separators, and marks of direction.
fn is_hidden(c: char) -> bool {
    let is_mark = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{2069}');
    is_mark || c.is_control() && !matches!(c, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_steer_a_terminal_are_shown() {
        let hostile = "a\u{9b}1A\u{1b}[2K\r\u{202e}b\u{2028}\u{2067}\u{200f}";
        let shown = printable(hostile);
        assert_eq!(shown, r"a\u{9b}1A\u{1b}[2K\u{d}\u{202e}b\u{2028}\u{2067}\u{200f}");
        let usual = "Müller ねこ 🐈\n\tnext";
        assert!(matches!(printable(usual), Cow::Borrowed(text) if text == usual));
    }
}
