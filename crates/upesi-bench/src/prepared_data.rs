//! Prepares a data directory with the participants of a measurement.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use dfsp::SimulatorOptions;

use harness::error::HarnessError;
use harness::interrupt::Interrupt;
use harness::load::Load;
use harness::onboarding::onboard;
use harness::options::FspOptions;
use harness::pairs::Pairs;
use harness::scenario::Scenario;
use harness::simulators::{SimulatorPlan, Simulators, plan};
use harness::switch_process::{SwitchCommand, SwitchProcess};

/// Returns the simulated FSPs of these options, whose transfers expire after `lifetime`.
///
/// # Errors
///
/// The options are invalid.
pub(crate) fn simulated_fsps(
    options: &FspOptions,
    lifetime: Duration,
) -> Result<Vec<SimulatorOptions>, HarnessError> {
    options.check()?;
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 4_000));
    let mut simulators = plan(options, &[nowhere]);
    simulators.iter_mut().for_each(|simulator| simulator.expiration_ahead = lifetime);
    Ok(simulators)
}

/// Onboards the FSPs of a measurement in a data directory, through the admin API of a switch that
/// is started for it and stopped again. Idempotent.
///
/// # Errors
///
/// The options are invalid, the switch does not start, or it refuses the onboarding.
pub(crate) fn onboard_directory(
    options: &FspOptions,
    data: &Path,
    command: &SwitchCommand,
) -> Result<(), HarnessError> {
    options.check()?;
    let interrupt = Interrupt::listen();
    let switch = SwitchProcess::start(command, data)?;
    // The endpoints of the FSPs must be real addresses, so the simulators listen while they are
    // onboarded. They receive no callbacks yet.
    let (scenario, pairs, load) = (Scenario::Transfer, Pairs::default(), Load::Closed);
    let simulator_plan = SimulatorPlan { scenario, pairs, load, threads: 1, keeps_ends: false };
    let simulators = Simulators::start(&plan(options, &[switch.fspiop]), simulator_plan)?;
    onboard(&mut switch.admin()?, options.currency, &simulators.bound(), &interrupt)?;
    switch.stop()
}
