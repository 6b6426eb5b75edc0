//! The result of a check, and what to do.

use serde::Serialize;

/// The gravity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Gravity {
    Ok,
    Warning,
    Problem,
}

/// The result of a check.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) gravity: Gravity,
    pub(super) found: String,
    /// The remedy; absent if there is nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, gravity: Gravity::Ok, found: found.into(), remedy: None }
    }

    pub(super) fn warning(
        check: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let remedy = Some(remedy.into());
        Self { check, gravity: Gravity::Warning, found: found.into(), remedy }
    }

    pub(super) fn problem(
        check: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { gravity: Gravity::Problem, ..Self::warning(check, found, remedy) }
    }
}
