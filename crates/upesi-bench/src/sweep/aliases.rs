//! The party directory of the growth sweep: look-ups, memory and disk with ten thousand aliases and
//! with millions. A part of [`crate::sweep::stored_transfers`].
//!
//! The aliases are imported with `upesi party import`: first the subscribers of the FSPs, which
//! are then looked up at random, followed by other aliases of the same FSPs.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::bench_report::BenchReport;
use crate::options::BenchOptions;
use crate::prepared_data::onboard_directory;
use crate::sweep::plans::base;
use crate::sweep::report::Step;
use crate::sweep::stored_transfers::{Load, load, median, middle, relative, short};
use crate::sweep::tables::{Goal, Row, Table};
use harness::error::HarnessError;
use harness::footprint::Footprint;
use harness::options::{FspOptions, SUBSCRIBERS_MAX};
use harness::scenario::Scenario;
use harness::simulators::plan;
use harness::switch_process::{SwitchCommand, SwitchProcess, run_json_command};

/// Maximum disk space of an alias, including its line in the import file.
pub(crate) const ALIAS_BYTES: u64 = 350;
/// First number of the aliases that are not subscribers.
const OTHERS: u64 = 99_000_000_000;
const IN_FLIGHT: usize = 64;

/// A directory with a number of aliases, its switch and its measurements.
pub(crate) struct AliasSwitch {
    aliases: u64,
    data: PathBuf,
    fsps: FspOptions,
    footprint: Footprint,
    imported_per_s: f64,
    /// Resident memory after the look-ups.
    resident: u64,
    switch: Option<SwitchProcess>,
    lookups: Vec<BenchReport>,
}

/// The output of the import.
#[derive(Deserialize)]
struct Imported {
    registered: u64,
    rate_per_s: f64,
}

impl AliasSwitch {
    /// Fills the directory and starts its switch.
    pub(crate) fn take(
        aliases: u64,
        place: &Path,
        (quick, command): (bool, &SwitchCommand),
    ) -> Result<Self, HarnessError> {
        let data = place.join(format!("aliases-{aliases}"));
        let standard = base(quick).fsps;
        let subscribers = (aliases / standard.fsps as u64).clamp(1, SUBSCRIBERS_MAX);
        let fsps = FspOptions { subscribers, ..standard };
        eprintln!("importing {} aliases", short(aliases));
        // An interrupted import may have left a partial directory.
        let _ = std::fs::remove_dir_all(&data);
        onboard_directory(&fsps, &data, command)?;
        let switch = SwitchProcess::start(command, &data)?;
        let file = data.with_extension("csv");
        write(&file, aliases, &fsps).map_err(HarnessError::file(&file))?;
        let imported = import(command, &switch, &file);
        // The file is not needed any more, whether the import succeeded or not.
        let _ = std::fs::remove_file(&file);
        let imported = imported?;
        if imported.registered != aliases {
            let problem = format!("import registered {} of {aliases} aliases", imported.registered);
            return Err(HarnessError::Hub(problem));
        }
        switch.stop()?;
        // A restart excludes the memory of the import from the measurement.
        let switch = SwitchProcess::start(command, &data)?;
        Ok(Self {
            aliases,
            footprint: Footprint::of(&data),
            data,
            fsps,
            imported_per_s: imported.rate_per_s,
            resident: 0,
            switch: Some(switch),
            lookups: Vec::new(),
        })
    }

    /// Measures the highest rate of look-ups.
    pub(crate) fn top_rate(
        &self,
        (seconds, quick): (f64, bool),
        command: &SwitchCommand,
    ) -> Result<f64, HarnessError> {
        let options = BenchOptions { concurrency: IN_FLIGHT, ..base(quick) };
        Ok(self.load(options, seconds, command)?.whole_run.rate_per_s)
    }

    /// Measures look-ups at a constant rate.
    pub(crate) fn round(
        &mut self,
        rate: f64,
        (seconds, quick): (f64, bool),
        command: &SwitchCommand,
    ) -> Result<(), HarnessError> {
        let options = BenchOptions { rate: Some(rate), ..base(quick) };
        self.lookups.push(self.load(options, seconds, command)?);
        Ok(())
    }

    fn load(
        &self,
        options: BenchOptions,
        seconds: f64,
        command: &SwitchCommand,
    ) -> Result<BenchReport, HarnessError> {
        let switch = self.switch.as_ref().expect("the switch runs until the end");
        let options = BenchOptions { registered: true, fsps: self.fsps.clone(), ..options };
        load(switch, Load { scenario: Scenario::Lookup, options, seconds }, command)
    }

    /// Stops the switch and verifies its log. Returns the problems.
    pub(crate) fn end(&mut self, command: &SwitchCommand) -> Vec<String> {
        self.resident = self.switch.as_ref().map_or(0, |it| it.figures().resident_bytes);
        let stopped = self.switch.take().map_or(Ok(()), SwitchProcess::stop);
        let stopped = stopped.map_err(|error| error.to_string());
        let unproved = stopped.and_then(|()| command.verify(&self.data)).err();
        // The next sweep recreates the directory, since it must contain only the imported aliases.
        let _ = std::fs::remove_dir_all(&self.data);
        let void = self.lookups.iter().filter(|run| !run.valid);
        let void = void.map(|run| run.invalid_because.first().cloned().unwrap_or_default());
        let problems = void.chain(unproved);
        problems.map(|problem| format!("{} aliases: {problem}", short(self.aliases))).collect()
    }

    pub(crate) fn step(&self) -> Option<Step> {
        let result = middle(&self.lookups)?.clone();
        Some(Step {
            name: format!("{} aliases, look-ups", short(self.aliases)),
            group: "look-ups, by millions of aliases".to_owned(),
            at: self.aliases as f64 / 1e6,
            published: Vec::new(),
            result,
        })
    }

    fn p99(&self) -> Option<f64> {
        median(self.lookups.iter().map(|run| run.whole_run.latency_ms.p99))
    }

    fn disk_bytes(&self) -> f64 {
        (self.footprint.total() - self.footprint.other) as f64
    }
}

pub(crate) fn table(switches: &[AliasSwitch]) -> Option<Table> {
    let first = switches.first()?;
    let columns =
        ["aliases", "disk MB", "bytes each", "RSS MB", "imported/s", "p99 ms", "relative"];
    let row = |switch: &AliasSwitch| Row {
        name: short(switch.aliases),
        figures: vec![
            Some(switch.disk_bytes() / 1e6),
            Some(switch.disk_bytes() / switch.aliases as f64),
            Some(switch.resident as f64 / 1e6),
            Some(switch.imported_per_s),
            switch.p99(),
            relative(switch.p99(), first.p99()),
        ],
    };
    Some(Table {
        title:
            "by aliases in the party directory: disk, memory after the look-ups, import, p99 of \
                look-ups of random subscribers at one rate for all; medians of the rounds"
                .to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: switches.iter().map(row).collect(),
    })
}

/// The limits apply to ten million aliases compared with ten thousand.
pub(crate) fn goals(switches: &[AliasSwitch]) -> Vec<Goal> {
    let [few, .., many] = switches else { return Vec::new() };
    let with = |what: &str| format!("{what}, {} aliases", short(many.aliases));
    let added = (many.resident as f64 - few.resident as f64) / 1e6;
    let against =
        format!("p99 of look-ups, {} compared with {}", short(many.aliases), short(few.aliases));
    vec![
        Goal::new(with("GB on disk"), Some(many.disk_bytes() / 1e9), [1.5, 0.8]),
        Goal::new(with("MB of memory added"), Some(added), [100.0, 50.0]),
        Goal::new(against, relative(many.p99(), few.p99()), [1.2, 1.05]),
    ]
}

/// Writes the subscribers of all FSPs, then other aliases.
fn write(path: &Path, aliases: u64, fsps: &FspOptions) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "type,id,sub_id,fsp,currency")?;
    let simulators = plan(fsps, &[([127, 0, 0, 1], 4_000).into()]);
    let of_fsps = simulators.iter().flat_map(|it| it.subscribers.clone().map(|id| (id, &it.name)));
    let others = (0..).zip(simulators.iter().cycle()).map(|(at, it)| (OTHERS + at, &it.name));
    for (id, name) in of_fsps.chain(others).take(aliases as usize) {
        writeln!(file, "MSISDN,{id},,{name},")?;
    }
    file.into_inner()?.sync_all()
}

fn import(
    command: &SwitchCommand,
    switch: &SwitchProcess,
    file: &Path,
) -> Result<Imported, HarnessError> {
    let admin = format!("http://{}", switch.admin);
    let token = switch.token_file().as_os_str();
    let arguments =
        ["--admin".as_ref(), admin.as_ref(), "--token".as_ref(), token, file.as_os_str()];
    run_json_command(&command.program, "party import", &arguments)
}
