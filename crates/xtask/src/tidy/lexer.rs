//! Rust source with the contents of comments and literals blanked, so that a search finds code
//! only. Lines and columns (in characters) stay where they are.

/// Blanks everything that is not code.
pub(crate) fn scrub(source: &str) -> String {
    let mut scrubber = Scrubber {
        rest: source.chars().collect(),
        at: 0,
        out: String::with_capacity(source.len()),
    };
    while scrubber.at < scrubber.rest.len() {
        scrubber.token();
    }
    scrubber.out
}

struct Scrubber {
    rest: Vec<char>,
    at: usize,
    out: String,
}

impl Scrubber {
    fn token(&mut self) {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => self.blank_while(|scrubber| scrubber.peek(0) != '\n'),
            ('/', '*') => self.block_comment(),
            ('"', _) => self.string(),
            ('\'', _) => self.quote(),
            ('r', '"' | '#') if !self.in_word() && self.raw_hashes().is_some() => self.raw(),
            ('b' | 'c', 'r') if !self.in_word() => {
                self.keep(1);
                if self.raw_hashes().is_some() {
                    self.raw();
                }
            }
            _ => self.keep(1),
        }
    }

    fn peek(&self, ahead: usize) -> char {
        self.rest.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn in_word(&self) -> bool {
        self.out.chars().next_back().is_some_and(|before| before.is_alphanumeric() || before == '_')
    }

    fn keep(&mut self, count: usize) {
        for _ in 0..count {
            if let Some(kept) = self.rest.get(self.at) {
                self.out.push(*kept);
            }
            self.at += 1;
        }
    }

    fn blank(&mut self, count: usize) {
        for _ in 0..count {
            match self.rest.get(self.at) {
                Some('\n') => self.out.push('\n'),
                Some(_) => self.out.push(' '),
                None => (),
            }
            self.at += 1;
        }
    }

    fn blank_while(&mut self, inside: impl Fn(&Self) -> bool) {
        while self.at < self.rest.len() && inside(self) {
            self.blank(1);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.rest.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.blank(1);
                    continue;
                }
            }
            self.blank(2);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.keep(1);
        while self.at < self.rest.len() && self.peek(0) != '"' {
            self.blank(if self.peek(0) == '\\' { 2 } else { 1 });
        }
        self.keep(1);
    }

    /// A character literal, or the start of a lifetime.
    fn quote(&mut self) {
        if self.peek(1) != '\\' && self.peek(2) != '\'' {
            return self.keep(1);
        }
        self.keep(1);
        self.blank(if self.peek(0) == '\\' { 2 } else { 1 });
        self.blank_while(|scrubber| scrubber.peek(0) != '\'');
        self.keep(1);
    }

    /// Number of `#` between the `r` here and its quote; `None` if it is not a raw string.
    fn raw_hashes(&self) -> Option<usize> {
        let hashes = (1..).take_while(|ahead| self.peek(*ahead) == '#').count();
        (self.peek(hashes + 1) == '"').then_some(hashes)
    }

    fn raw(&mut self) {
        let hashes = self.raw_hashes().expect("the caller saw a raw string");
        self.keep(hashes + 2);
        self.blank_while(|scrubber| {
            let closed = (1..=hashes).all(|ahead| scrubber.peek(ahead) == '#');
            scrubber.peek(0) != '"' || !closed
        });
        self.keep(hashes + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::scrub;

    #[test]
    fn only_code_is_left() {
        for (source, expected) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            ("f(\"a\\\"b\") c", "f(\"    \") c"),
            ("x = r#\"a\"b\"# + y", "x = r#\"   \"# + y"),
            ("x = br\"a\\\" + y", "x = br\"  \" + y"),
            ("fn f<'a>(x: &'a str) -> char { '{' }", "fn f<'a>(x: &'a str) -> char { ' ' }"),
            ("['\\'', '\\u{41}', b'\"', 'z']", "['  ', '      ', b' ', ' ']"),
            ("\"a\nb\" c", "\" \n \" c"),
            ("for r in bar { r# }", "for r in bar { r# }"),
            ("/// f64\nlet x;", "       \nlet x;"),
            ("\"unclosed", "\"        "),
        ] {
            assert_eq!(scrub(source), expected, "of {source:?}");
        }
    }
}
