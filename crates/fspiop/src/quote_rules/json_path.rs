//! The part of JSONPath that rules use: members, elements, wildcards and filters.
//!
//! | Form | Selects |
//! |---|---|
//! | `.name`, `['name']` | a member |
//! | `[0]` | an element |
//! | `[*]`, `.*` | all elements or members |
//! | `[?(@.a == 'b' && @.c > 1)]` | the elements or members for which the filter holds |
//!
//! A filter has comparisons (`==`, `===`, `!=`, `!==`, `<`, `<=`, `>`, `>=`) of a path with a text,
//! a number, `true`, `false` or `null`, or a path alone (it exists), joined by `&&` and `||`. `&&`
//! binds more tightly.

use std::cmp::Ordering;

use serde_json::Value;

use super::values::{compare, loosely_equal};

/// Maximum number of steps of a path.
const STEPS_MAX: usize = 32;

/// A parsed path.
#[derive(Clone, Debug)]
pub(super) struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    Member(String),
    Element(usize),
    All,
    /// Any of the lists, of which all tests hold.
    Filter(Vec<Vec<Test>>),
}

#[derive(Clone, Debug)]
struct Test {
    path: JsonPath,
    /// Absent: the path must exist.
    comparison: Option<(Comparison, Value)>,
}

#[derive(Clone, Copy, Debug)]
enum Comparison {
    Equal,
    NotEqual,
    StrictlyEqual,
    NotStrictlyEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// Longer spellings come before those that they begin with.
const COMPARISONS: [(&str, Comparison); 8] = [
    ("===", Comparison::StrictlyEqual),
    ("!==", Comparison::NotStrictlyEqual),
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

impl JsonPath {
    /// Parses a path that begins with `$`.
    ///
    /// # Errors
    /// A text that names the first part with an unknown form.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader { rest: text.trim() };
        if !reader.skip("$") {
            return Err(format!("{text:?} does not begin with $"));
        }
        let path = reader.steps()?;
        match reader.rest {
            "" => Ok(path),
            rest => Err(format!("{rest:?} in {text:?} is not understood")),
        }
    }

    /// Whether the path can select several values.
    pub(super) fn selects_several(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::All | Step::Filter(_)))
    }

    /// The selected values, in the order of the document.
    pub(super) fn select<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        self.steps.iter().fold(vec![root], |found, step| {
            found.into_iter().flat_map(|value| step.select(value)).collect()
        })
    }
}

impl Step {
    fn select<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Member(name) => value.get(name).into_iter().collect(),
            Self::Element(number) => value.get(number).into_iter().collect(),
            Self::All => children(value),
            Self::Filter(any) => {
                let holds = |child: &&Value| any.iter().any(|all| all_hold(all, child));
                children(value).into_iter().filter(holds).collect()
            }
        }
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(elements) => elements.iter().collect(),
        Value::Object(members) => members.values().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn all_hold(tests: &[Test], child: &Value) -> bool {
    tests.iter().all(|test| {
        let found = test.path.select(child).first().copied();
        match &test.comparison {
            None => found.is_some(),
            Some((comparison, value)) => comparison.holds(found, value),
        }
    })
}

impl Comparison {
    fn holds(self, found: Option<&Value>, value: &Value) -> bool {
        let order = || found.and_then(|found| compare(found, value));
        match self {
            Self::StrictlyEqual => found == Some(value),
            Self::NotStrictlyEqual => found != Some(value),
            Self::Equal => found.is_some_and(|found| loosely_equal(found, value)),
            Self::NotEqual => !found.is_some_and(|found| loosely_equal(found, value)),
            Self::Less => order() == Some(Ordering::Less),
            Self::AtMost => order().is_some_and(Ordering::is_le),
            Self::Greater => order() == Some(Ordering::Greater),
            Self::AtLeast => order().is_some_and(Ordering::is_ge),
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn skip(&mut self, token: &str) -> bool {
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        self.skip_spaces();
        match self.skip(token) {
            true => Ok(()),
            false => Err(format!("expected {token:?} before {:?}", self.rest)),
        }
    }

    /// The text before the first character that ends it, perhaps empty.
    fn until(&mut self, ends: impl Fn(char) -> bool) -> &'a str {
        let (word, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    fn steps(&mut self) -> Result<JsonPath, String> {
        let mut steps = Vec::new();
        while let Some(step) = self.step()? {
            steps.push(step);
            if STEPS_MAX < steps.len() {
                return Err(format!("it has more than {STEPS_MAX} steps"));
            }
        }
        Ok(JsonPath { steps })
    }

    fn step(&mut self) -> Result<Option<Step>, String> {
        if self.skip("[") {
            return self.bracket().map(Some);
        }
        if !self.skip(".") {
            return Ok(None);
        }
        if self.skip("*") {
            return Ok(Some(Step::All));
        }
        let is_end = |one: char| !(one.is_alphanumeric() || "_-$".contains(one));
        match self.until(is_end) {
            "" => Err(format!("a name is missing before {:?}", self.rest)),
            name => Ok(Some(Step::Member(name.to_owned()))),
        }
    }

    /// A step in brackets, of which the first has been read.
    fn bracket(&mut self) -> Result<Step, String> {
        self.skip_spaces();
        let step = if self.skip("?(") {
            let any = self.alternatives()?;
            self.expect(")")?;
            Step::Filter(any)
        } else if self.skip("*") {
            Step::All
        } else if let Some(name) = self.quoted()? {
            Step::Member(name)
        } else {
            let number = self.until(|one| !one.is_ascii_digit());
            let number = number.parse().map_err(|_| {
                format!("{:?} is no element, name or filter: slices are unknown", self.rest)
            })?;
            Step::Element(number)
        };
        self.expect("]")?;
        Ok(step)
    }

    /// A text in single or double quotes; escapes are unknown.
    fn quoted(&mut self) -> Result<Option<String>, String> {
        let Some(quote) = ['\'', '"'].into_iter().find(|quote| self.rest.starts_with(*quote))
        else {
            return Ok(None);
        };
        let inside = &self.rest[1..];
        let (text, rest) = inside.split_once(quote).ok_or("a quote does not end")?;
        self.rest = rest;
        Ok(Some(text.to_owned()))
    }

    fn alternatives(&mut self) -> Result<Vec<Vec<Test>>, String> {
        let mut any = vec![vec![self.test()?]];
        loop {
            self.skip_spaces();
            if self.skip("&&") {
                let test = self.test()?;
                any.last_mut().expect("there is one").push(test);
            } else if self.skip("||") {
                any.push(vec![self.test()?]);
            } else {
                return Ok(any);
            }
        }
    }

    fn test(&mut self) -> Result<Test, String> {
        self.expect("@")?;
        let path = self.steps()?;
        self.skip_spaces();
        let found = COMPARISONS.into_iter().find(|(token, _)| self.skip(token));
        let comparison = match found {
            Some((_, comparison)) => Some((comparison, self.literal()?)),
            None => None,
        };
        Ok(Test { path, comparison })
    }

    fn literal(&mut self) -> Result<Value, String> {
        self.skip_spaces();
        if let Some(text) = self.quoted()? {
            return Ok(Value::String(text));
        }
        let word = self.until(|one| !(one.is_alphanumeric() || "+-.".contains(one)));
        let value: Value = serde_json::from_str(word)
            .map_err(|_| format!("{word:?} is no text, number, true, false or null"))?;
        Ok(value)
    }
}
