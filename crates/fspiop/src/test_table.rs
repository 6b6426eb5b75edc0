//! Tests as tables in text files: an input and its expected verdict in each line.

use expect_test::ExpectFile;

/// Each line of a text is an input and its verdict, or begins with `#`. In an input, `\t`, `\r` and
/// `\n` are the control characters.
pub(crate) fn check(text: &ExpectFile, verdict: impl Fn(&str) -> String) {
    let mut lines = String::new();
    for line in text.data().lines() {
        if line.starts_with('#') {
            lines += &format!("{line}\n");
            continue;
        }
        let (input, _) = line.split_once(" => ").expect("an input and its verdict");
        let plain = input.replace("\\t", "\t").replace("\\r", "\r").replace("\\n", "\n");
        lines += &format!("{input} => {}\n", verdict(&plain));
    }
    text.assert_eq(&lines);
}

/// The first word of an input, and the rest.
pub(crate) fn first_word(input: &str) -> (&str, &str) {
    input.split_once(' ').unwrap_or((input, ""))
}
