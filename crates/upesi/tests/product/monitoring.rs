//! A real Prometheus reads the metrics of a switch and runs the rules, and a real Alertmanager sends
//! the alerts.

use std::path::{Path, PathBuf};

use crate::support::prometheus::program;
use crate::support::switch::{Printed, finish};

/// A directory of `deploy`.
fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

#[test]
fn each_alert_fires_and_is_silent_in_its_cases() {
    for arguments in [
        &["check", "rules", "--lint-fatal", "rules.yaml"][..],
        &["test", "rules", "rules_test.yaml"],
    ] {
        let mut tool = program("promtool");
        tool.args(arguments).current_dir(deploy("prometheus"));
        finish(tool).succeeds();
    }
}
