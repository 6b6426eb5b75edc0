//! The scheme that a measurement meets, brought into a data directory beforehand.

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

/// The simulated FSPs of these options, as every measurement has them, whose transfers live for
/// `life`.
///
/// # Errors
/// The options make no sense.
pub(crate) fn correspondents(
    options: &FspOptions,
    life: Duration,
) -> Result<Vec<SimulatorOptions>, HarnessError> {
    options.check()?;
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 4_000));
    let mut simulators = plan(options, &[nowhere]);
    simulators.iter_mut().for_each(|simulator| simulator.expiration_ahead = life);
    Ok(simulators)
}

/// Makes the FSPs known to the switch of a directory as every measurement does, through the admin
/// API of a switch that is started for it and stopped again. May be repeated.
///
/// # Errors
/// The options make no sense, or the switch does not start or refuses.
pub(crate) fn onboard_directory(
    options: &FspOptions,
    data: &Path,
    command: &SwitchCommand,
) -> Result<(), HarnessError> {
    options.check()?;
    let interrupt = Interrupt::listen();
    let switch = SwitchProcess::start(command, data)?;
    // They listen so that their addresses are ones that were had once; nobody calls them yet.
    let (scenario, pairs, load) = (Scenario::Transfer, Pairs::default(), Load::Closed);
    let fleet = SimulatorPlan { scenario, pairs, load, threads: 1, keeps_ends: false };
    let fleets = Simulators::start(&plan(options, &[switch.fspiop]), fleet)?;
    onboard(&mut switch.admin()?, options.currency, &fleets.bound(), &interrupt)?;
    switch.stop()
}
