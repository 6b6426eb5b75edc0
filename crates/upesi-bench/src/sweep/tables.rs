//! Tables and goals of a sweep, in addition to its runs.

use std::fmt;

use serde::Serialize;
use waterfall::text;

/// Figures in rows and columns.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Table {
    /// Its title.
    pub title: String,
    /// The name of the row key, then the name of each figure with its unit.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// A row of a table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// Its name.
    pub name: String,
    /// Its figures; `null` if not available or not measured.
    pub figures: Vec<Option<f64>>,
}

/// A goal and the measured value.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Goal {
    /// The measured quantity, with its unit.
    pub name: String,
    /// The measured value; `null` if not available or not measured.
    pub value: Option<f64>,
    /// The required value.
    pub must: f64,
    /// The desired value.
    pub aim: f64,
    /// The comparison with both.
    pub verdict: &'static str,
}

impl Goal {
    /// Builds a goal. Lower is better, unless `aim` is greater than `must`.
    pub(crate) fn new(name: String, value: Option<f64>, [must, aim]: [f64; 2]) -> Self {
        let sign = if must < aim { -1.0 } else { 1.0 };
        let within = |value: f64, bound: f64| value * sign <= bound * sign;
        let verdict = match value {
            None => "not offered",
            Some(value) if within(value, aim) => "aim reached",
            Some(value) if within(value, must) => "must reached",
            Some(_) => "MISSED",
        };
        Self { name, value, must, aim, verdict }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |Row { name, figures }: &Row| {
            let figures = figures.iter().map(|figure| text::cell(*figure));
            [name.clone()].into_iter().chain(figures).collect()
        };
        let rows: Vec<Vec<String>> = self.rows.iter().map(row).collect();
        write!(f, "{}\n{}", self.title, text::table(&self.columns, &rows))
    }
}

/// The goals, one below the other.
pub(crate) fn goals(goals: &[Goal]) -> String {
    let row = |goal: &Goal| {
        let [must, aim] = [goal.must, goal.aim].map(text::number);
        vec![goal.name.clone(), text::cell(goal.value), must, aim, goal.verdict.to_owned()]
    };
    let rows: Vec<_> = goals.iter().map(row).collect();
    text::table(&["goal", "value", "must", "aim", "verdict"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goal_direction_follows_from_must_and_aim() {
        for (value, bounds, verdict) in [
            (Some(0.99), [0.92, 0.98], "aim reached"),
            (Some(0.93), [0.92, 0.98], "must reached"),
            (Some(0.91), [0.92, 0.98], "MISSED"),
            (Some(1.0), [1.3, 1.05], "aim reached"),
            (Some(1.3), [1.3, 1.05], "must reached"),
            (Some(1.31), [1.3, 1.05], "MISSED"),
            (None, [1.3, 1.05], "not offered"),
        ] {
            assert_eq!(Goal::new(String::new(), value, bounds).verdict, verdict, "{value:?}");
        }
    }
}
