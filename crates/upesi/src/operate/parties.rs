//! `upesi party`: imports a CSV file of parties into the party directory of a running switch, and
//! looks up the FSP of a party.
//!
//! The file is read line by line and checked locally, so that a fault is reported with its line and
//! column before anything is sent. Valid lines are sent to `POST /parties` in sequential batches.
//! Each batch is one record of the log and durable when it is answered. Memory is bounded by one
//! batch, whatever the length of the file or of a line.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use fspiop::{IDENTIFIER_CHARS_MAX, PartyIdType, is_identifier, is_known_currency};
use harness::{Admin, AdminResponse, Interrupt, Progress};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::CliError;
use crate::cli::admin_address::AdminAddress;
use crate::cli::admin_client::proposed;
use crate::cli::admin_get::{admin_get, query_value};
use crate::cli::units::counted;

/// The first line of a file, and with it the order of its columns.
const HEADER: &str = "type,id,sub_id,fsp,currency";
/// Registrations of one request.
const BATCH: usize = 1_000;
/// Longest line, in bytes, its end included.
const LINE_BYTES_MAX: usize = 4_096;
/// Between two attempts to reach a switch that is away.
const PAUSE: Duration = Duration::from_millis(250);

/// Arguments of `party`.
#[derive(clap::Args)]
pub(crate) struct PartyArguments {
    #[command(subcommand)]
    command: PartyCommand,
}

#[derive(clap::Subcommand)]
enum PartyCommand {
    /// Register the parties of a CSV file with a running switch.
    ///
    /// The first line of the file must be
    ///
    ///   type,id,sub_id,fsp,currency
    ///
    /// type: MSISDN, EMAIL, PERSONAL_ID, BUSINESS, DEVICE, ACCOUNT_ID, IBAN, ALIAS, CONSENT or
    /// THIRD_PARTY_LINK. id: the identifier. sub_id: the sub-identifier, or empty. fsp: the name of
    /// a participant. currency: an ISO 4217 code, or empty. A value with a comma or a quote must be
    /// quoted, with quotes in it doubled. Values have no line breaks, and no characters after the
    /// closing quote.
    ///
    /// An invalid line is reported with its number and column and skipped. The other lines are
    /// registered. If a party occurs twice, the last line wins. The import can be repeated safely.
    /// Participants are not notified.
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(ImportArguments),
    /// Show the FSPs that serve a party, as look-ups see them.
    #[command(after_help = FIND_EXAMPLES)]
    Find(FindArguments),
    /// Remove registrations of a party, regardless of their FSPs.
    ///
    /// Each FSP that loses a registration gets a callback.
    #[command(after_help = RELEASE_EXAMPLES)]
    Release(ReleaseArguments),
}

const IMPORT_EXAMPLES: &str = "\
Examples:
  upesi party import parties.csv --dry-run                  check the file, register nothing
  upesi party import parties.csv --token /var/lib/upesi/admin-token --rejects bad.csv
  upesi party import parties.csv --token FILE --from-line 4120001   resume there
Shows the rate and the remaining time. Waits for a switch that is unreachable (--wait).";

const FIND_EXAMPLES: &str = "\
Examples:
  upesi party find MSISDN 254700000001 --token /var/lib/upesi/admin-token
  upesi party find ACCOUNT_ID 0012345 --sub-id SAVINGS --token FILE --json";

const RELEASE_EXAMPLES: &str = "\
Examples:
  upesi party release MSISDN 254700000001 --token FILE --reason 'number reassigned'
  upesi party release MSISDN 254700000001 --fsp payerfsp --currency XOF --token FILE";

#[derive(clap::Args)]
struct ImportArguments {
    /// CSV file with the parties.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    switch: AdminAddress,
    /// Only check all lines against the rules and the switch's participants.
    #[arg(long)]
    dry_run: bool,
    /// Line of the file to start from; the header is line 1.
    #[arg(long, value_name = "LINE", default_value_t = 2,
        value_parser = clap::value_parser!(u64).range(2..))]
    from_line: u64,
    /// File for rejected lines, with a header, to correct and import again.
    ///
    /// With --from-line they are appended to it.
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// Number of invalid lines after which the import stops.
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    errors_max: u64,
    /// Longest wait for an unreachable or overloaded switch, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u64,
    /// Name of the operator, for the audit trail.
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Reason for the import, for the audit trail.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct FindArguments {
    /// Type of the identifier, such as MSISDN.
    #[arg(value_name = "TYPE",
        value_parser = clap::builder::PossibleValuesParser::new(PartyIdType::NAMES))]
    kind: String,
    /// Identifier of the party.
    #[arg(value_name = "ID")]
    id: String,
    /// Sub-identifier of the party.
    #[arg(long, value_name = "SUB_ID")]
    sub_id: Option<String>,
    #[command(flatten)]
    switch: AdminAddress,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct ReleaseArguments {
    #[command(flatten)]
    party: FindArguments,
    /// Remove only the registrations of this FSP.
    #[arg(long, value_name = "NAME")]
    fsp: Option<String>,
    /// Remove only the registrations that serve this currency.
    #[arg(long, value_name = "CODE")]
    currency: Option<String>,
    /// Name of the operator, for the audit trail.
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Reason for the removal, for the audit trail.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// A registration as it is sent.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    party_id_type: String,
    party_identifier: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    party_sub_id_or_type: Option<String>,
    fsp_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<String>,
}

/// The answer of the switch to a batch.
#[derive(Deserialize)]
struct BatchResponse {
    registered: u64,
    refused: Vec<RejectedRow>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RejectedRow {
    row: usize,
    error_information: ErrorInformation,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorInformation {
    error_description: String,
}

/// An answer that refuses everything.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorResponse {
    error_information: ErrorInformation,
}

pub(crate) fn party(arguments: &PartyArguments) -> Result<(), CliError> {
    match &arguments.command {
        PartyCommand::Import(arguments) => import(arguments),
        PartyCommand::Find(arguments) => find(arguments),
        PartyCommand::Release(arguments) => release(arguments),
    }
}

fn import(arguments: &ImportArguments) -> Result<(), CliError> {
    let mut source = CsvFile::open(&arguments.file)?;
    source.skip_to(arguments.from_line)?;
    let mut import = Import::new(arguments, &source)?;
    let interrupt = Interrupt::listen();
    let ended = import.carry_out(&mut source, &interrupt);
    import.progress.end();
    let saved = import.rejects.as_mut().map_or(Ok(()), Rejects::save);
    import.summary(arguments.json);
    ended.and(saved)?;
    match import.refused {
        0 if import.proposed.is_empty() => Ok(()),
        0 => Err(CliError::proposed(import.proposed.join("\n"))),
        refused => Err(CliError::new(format!(
            "rejected {}, see above; the others are {}",
            counted(refused, "line"),
            if arguments.dry_run { "valid" } else { "registered" }
        ))),
    }
}

/// An import under way.
struct Import<'a> {
    arguments: &'a ImportArguments,
    admin: Admin,
    fsps: BTreeSet<String>,
    rejects: Option<Rejects>,
    progress: Progress,
    batch: Vec<(Line, Row)>,
    /// Lines rejected since the last batch; at most one batch together with it.
    left_out: Vec<Line>,
    /// Lines read; of these the registered ones, or the valid ones with --dry-run.
    lines: u64,
    registered: u64,
    refused: u64,
    /// Batches that wait for another operator.
    proposed: Vec<String>,
    /// All lines before this one are processed.
    next_line: u64,
}

impl<'a> Import<'a> {
    fn new(arguments: &'a ImportArguments, source: &CsvFile) -> Result<Self, CliError> {
        let rejects = arguments.rejects.as_deref();
        rejects.map_or(Ok(()), |path| source.keep_from(path))?;
        let mut admin = arguments.switch.client()?;
        name_author(&mut admin, (&arguments.by, &arguments.reason))?;
        let first = ask_patiently(&mut admin, arguments.wait, ("GET", "/participants", None));
        first.map_err(CliError::new)?;
        let fsps = admin.participants()?;
        let rejects = rejects.map(|path| Rejects::begin(path, arguments.from_line)).transpose()?;
        Ok(Self {
            arguments,
            admin,
            fsps: fsps.into_iter().collect(),
            rejects,
            progress: Progress::new("lines", None),
            batch: Vec::with_capacity(BATCH),
            left_out: Vec::new(),
            lines: 0,
            registered: 0,
            refused: 0,
            proposed: Vec::new(),
            next_line: arguments.from_line,
        })
    }

    fn carry_out(&mut self, source: &mut CsvFile, interrupt: &Interrupt) -> Result<(), CliError> {
        let start = source.bytes;
        while let Some(line) = source.next()? {
            self.lines += 1;
            match row(&line.text, &self.fsps) {
                Ok(row) => self.batch.push((line, row)),
                Err(fault) => self.refuse(line, &fault),
            }
            if self.batch.len() + self.left_out.len() < BATCH && !self.has_too_many() {
                continue;
            }
            self.send(source.line)?;
            let (read, all) = (source.bytes - start, source.length.saturating_sub(start));
            self.progress.expect((self.lines as f64 * all as f64 / read.max(1) as f64) as u64);
            self.progress.show(self.lines);
            if interrupt.seen() {
                return Err(self.unfinished("interrupted"));
            }
        }
        self.send(source.line)
    }

    /// Sends what is gathered; `line` is the next one to be read.
    fn send(&mut self, line: u64) -> Result<(), CliError> {
        let batch = std::mem::take(&mut self.batch);
        if !batch.is_empty() && self.arguments.dry_run {
            self.registered += batch.len() as u64;
        } else if !batch.is_empty() {
            let rows: Vec<_> = batch.iter().map(|(_, row)| row).collect();
            let body = json!({ "parties": rows }).to_string();
            let first = batch.first().map_or(line, |(line, _)| line.number);
            let answer = self.register(&body, first)?;
            self.registered += answer.registered;
            let mut lines: Vec<_> = batch.into_iter().map(|(line, _)| Some(line)).collect();
            for RejectedRow { row, error_information } in answer.refused {
                if let Some(line) = lines.get_mut(row).and_then(Option::take) {
                    self.refuse(line, &error_information.error_description);
                }
            }
        }
        self.next_line = line;
        self.keep_refused()?;
        if self.has_too_many() {
            let most = self.arguments.errors_max;
            return Err(self.unfinished(&format!("more than {most} invalid lines (--errors-max)")));
        }
        Ok(())
    }

    fn has_too_many(&self) -> bool {
        self.arguments.errors_max < self.refused
    }

    /// Appends the rejected lines to their file, once a resumed import would start after them.
    fn keep_refused(&mut self) -> Result<(), CliError> {
        let refused = std::mem::take(&mut self.left_out);
        let Some(rejects) = &mut self.rejects else { return Ok(()) };
        refused.iter().try_for_each(|line| rejects.add(&line.text))
    }

    /// Has a batch registered, waiting for a switch that is away or full.
    /// Under the control by two operators, the batch is proposed.
    fn register(&mut self, body: &str, first: u64) -> Result<BatchResponse, CliError> {
        let batch = ("POST", "/parties", Some(body));
        let answered = ask_patiently(&mut self.admin, self.arguments.wait, batch);
        let answered = answered.map_err(|problem| self.unfinished(&problem))?;
        if let Some(text) = proposal_in(&answered) {
            self.proposed.push(format!("from line {first}: {text}"));
            return Ok(BatchResponse { registered: 0, refused: Vec::new() });
        }
        match answered.status {
            200 => serde_json::from_slice(&answered.body)
                .map_err(|error| self.unfinished(&format!("/parties: invalid answer: {error}"))),
            _ => Err(self.unfinished(&problem(&answered))),
        }
    }

    /// Rejects a line.
    fn refuse(&mut self, line: Line, fault: &str) {
        self.refused += 1;
        eprintln!("{}, line {}: {fault}", self.arguments.file.display(), line.number);
        self.left_out.push(line);
    }

    fn unfinished(&self, why: &str) -> CliError {
        CliError::new(format!(
            "{why}. All lines before {} are imported; continue with --from-line {}, or repeat the \
             whole import, which is safe",
            self.next_line, self.next_line
        ))
    }

    fn summary(&self, as_json: bool) {
        let seconds = self.progress.elapsed().as_secs_f64();
        let rate = self.lines as f64 / seconds.max(1e-9);
        let Self { lines, registered, refused, next_line, .. } = self;
        let dry_run = self.arguments.dry_run;
        if as_json {
            let summary = json!({
                "lines": lines, "registered": if dry_run { &0 } else { registered },
                "good": registered, "refused": refused, "dry_run": dry_run,
                "next_line": next_line, "seconds": seconds, "rate_per_s": rate,
            });
            println!("{summary}");
            return;
        }
        let done = if dry_run { "valid" } else { "registered" };
        println!(
            "{} in {seconds:.1} s ({rate:.0}/s): {registered} {done}, {refused} rejected",
            counted(*lines, "line")
        );
    }
}

/// Repeats a request while the switch is unreachable or overloaded, up to a time limit.
fn ask_patiently(
    admin: &mut Admin,
    wait: u64,
    (method, path, body): (&str, &str, Option<&str>),
) -> Result<AdminResponse, String> {
    let give_up = Instant::now() + Duration::from_secs(wait);
    loop {
        let problem = match admin.call(method, path, body) {
            Ok(answered) if answered.status == 503 => problem(&answered),
            Ok(answered) => return Ok(answered),
            Err(error) => CliError::from(error).to_string(),
        };
        if give_up <= Instant::now() {
            return Err(problem);
        }
        thread::sleep(PAUSE);
    }
}

/// The error text of a refused request.
fn problem(answered: &AdminResponse) -> String {
    let error = serde_json::from_slice::<ErrorResponse>(&answered.body);
    let error = error.map(|error| error.error_information.error_description);
    let hint = if answered.status == 401 { "; name the token file with --token" } else { "" };
    format!("the switch answered {} {}{hint}", answered.status, error.unwrap_or_default())
}

/// The lines of the file that were refused.
struct Rejects {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Rejects {
    /// Creates the file, or appends to it if the import is resumed.
    fn begin(path: &Path, from_line: u64) -> Result<Self, CliError> {
        let is_resumed = 2 < from_line;
        let opened = File::options()
            .create(true)
            .write(true)
            .append(is_resumed)
            .truncate(!is_resumed)
            .open(path)
            .and_then(|file| Ok((file.metadata()?.len() == 0, file)));
        let (is_empty, file) = opened.map_err(cannot("write", path))?;
        let mut rejects = Self { path: path.to_owned(), file: BufWriter::new(file) };
        if is_empty {
            rejects.add(HEADER.as_bytes())?;
        }
        Ok(rejects)
    }

    fn add(&mut self, line: &[u8]) -> Result<(), CliError> {
        let written = self.file.write_all(line).and_then(|()| self.file.write_all(b"\n"));
        written.map_err(cannot("write", &self.path))
    }

    fn save(&mut self) -> Result<(), CliError> {
        self.file.flush().map_err(cannot("write", &self.path))
    }
}

/// A line without its end.
struct Line {
    number: u64,
    text: Vec<u8>,
}

/// The file, line by line.
struct CsvFile {
    path: PathBuf,
    reader: BufReader<File>,
    /// Number of the next line, the first being 1.
    line: u64,
    bytes: u64,
    length: u64,
}

impl CsvFile {
    /// Opens the file and checks its header.
    fn open(path: &Path) -> Result<Self, CliError> {
        let file = File::open(path).map_err(cannot("read", path))?;
        let length = file.metadata().map_err(cannot("read", path))?.len();
        let reader = BufReader::with_capacity(1 << 20, file);
        let mut source = Self { path: path.to_owned(), reader, line: 1, bytes: 0, length };
        let first = source.next()?.map(|line| line.text).unwrap_or_default();
        // Spreadsheets put a mark of the encoding before the text.
        let first = first.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&first);
        if first == HEADER.as_bytes() {
            return Ok(source);
        }
        Err(CliError::new(format!(
            "{}, line 1: the first line must be {HEADER} and name the columns in this order; it \
             is \"{}\"",
            path.display(),
            String::from_utf8_lossy(first).chars().take(80).collect::<String>()
        )))
    }

    /// Refuses to write the rejects to the file that is read.
    fn keep_from(&self, rejects: &Path) -> Result<(), CliError> {
        let own = self.reader.get_ref().metadata().map_err(cannot("read", &self.path))?;
        // A file that does not exist or is not accessible is another file than the open one.
        let Ok(other) = fs::metadata(rejects) else { return Ok(()) };
        if (own.dev(), own.ino()) != (other.dev(), other.ino()) {
            return Ok(());
        }
        Err(CliError::new(format!(
            "--rejects {}: is the imported file, {}, and would be overwritten; name another file",
            rejects.display(),
            self.path.display()
        )))
    }

    fn skip_to(&mut self, line: u64) -> Result<(), CliError> {
        while self.line < line {
            if self.next()?.is_none() {
                return Err(CliError::new(format!(
                    "{}: has only {}; --from-line is {line}",
                    self.path.display(),
                    counted(self.line - 1, "line")
                )));
            }
        }
        Ok(())
    }

    /// The next line; if it is too long, only its beginning, which is rejected.
    fn next(&mut self) -> Result<Option<Line>, CliError> {
        let mut text = Vec::with_capacity(96);
        let limit = LINE_BYTES_MAX as u64;
        let read = (&mut self.reader).take(limit).read_until(b'\n', &mut text);
        let mut read = read.map_err(cannot("read", &self.path))?;
        if read == 0 {
            return Ok(None);
        }
        if text.last() == Some(&b'\n') {
            text.pop();
            text.pop_if(|last| *last == b'\r');
        } else if read == LINE_BYTES_MAX {
            read += self.skip_rest()?;
        }
        self.bytes += read as u64;
        self.line += 1;
        Ok(Some(Line { number: self.line - 1, text }))
    }

    /// Skips the rest of a line.
    fn skip_rest(&mut self) -> Result<usize, CliError> {
        self.reader.skip_until(b'\n').map_err(cannot("read", &self.path))
    }
}

/// Parses a line. The error names the wrong column and the allowed values.
fn row(line: &[u8], fsps: &BTreeSet<String>) -> Result<Row, String> {
    if LINE_BYTES_MAX <= line.len() {
        return Err(format!("longer than {LINE_BYTES_MAX} bytes"));
    }
    check_ends(line)?;
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .buffer_capacity(line.len().max(1))
        .from_reader(line);
    let mut record = csv::StringRecord::new();
    match reader.read_record(&mut record) {
        Err(_) => return Err("not UTF-8".to_owned()),
        Ok(false) => return Err("empty".to_owned()),
        Ok(true) => {}
    }
    let columns = HEADER.split(',').count();
    if record.len() != columns {
        return Err(format!("{} columns, where {HEADER} are {columns}", record.len()));
    }
    let wrong = |column: &str, what: &str| Err(format!("column {column}: {what}"));
    let [kind, id, sub_id, fsp, currency] = [0, 1, 2, 3, 4].map(|at| &record[at]);
    let Some(known) = PartyIdType::parse(kind) else {
        let names = PartyIdType::NAMES.join(", ");
        return wrong("type", &format!("'{}' is not one of {names}", excerpt(kind)));
    };
    let form = "must have no blanks, controls or any of {}<>`\\, and 1 to 128 characters";
    let fits = |text: &str| is_identifier(text) && text.chars().count() <= IDENTIFIER_CHARS_MAX;
    if !fits(id) {
        return wrong("id", &format!("'{}' {form}", excerpt(id)));
    }
    if !known.allows(id) {
        return wrong("id", &format!("'{}' as {kind} {}", excerpt(id), known.form()));
    }
    if !sub_id.is_empty() && !fits(sub_id) {
        return wrong("sub_id", &format!("'{}' {form}, or be empty", excerpt(sub_id)));
    }
    if !fsps.contains(fsp) {
        return wrong("fsp", &format!("'{}' is not a participant of this switch", excerpt(fsp)));
    }
    if !currency.is_empty() && !is_known_currency(currency) {
        let what =
            format!("'{}' is neither an ISO 4217 currency code nor empty", excerpt(currency));
        return wrong("currency", &what);
    }
    let optional = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Ok(Row {
        party_id_type: kind.to_owned(),
        party_identifier: id.to_owned(),
        party_sub_id_or_type: optional(sub_id),
        fsp_id: fsp.to_owned(),
        currency: optional(currency),
    })
}

/// The context of a byte in a line.
#[derive(Clone, Copy)]
enum CsvState {
    /// At the start of a value.
    Begin,
    /// In a value without quotes.
    Bare,
    /// Within quotes.
    Quoted,
    /// After a quote in a quoted value: the closing quote, or the first of a doubled one.
    Closed,
}

/// Rejects characters that the CSV reader would take as the end of a row: a line is one row.
fn check_ends(line: &[u8]) -> Result<(), String> {
    if let Some(at) = line.iter().position(|byte| *byte == b'\r') {
        return Err(format!(
            "a carriage return at byte {}: a line ends with a line feed, or with both",
            at + 1
        ));
    }
    let (mut place, mut column) = (CsvState::Begin, 0);
    for byte in line {
        place = match (place, byte) {
            (CsvState::Begin | CsvState::Closed, b'"') => CsvState::Quoted,
            (CsvState::Quoted, b'"') => CsvState::Closed,
            (CsvState::Quoted, _) => CsvState::Quoted,
            (_, b',') => {
                column += 1;
                CsvState::Begin
            }
            (CsvState::Closed, _) => {
                let name = HEADER.split(',').nth(column).unwrap_or("after the last");
                return Err(format!("column {name}: text after the closing quote"));
            }
            (CsvState::Begin | CsvState::Bare, _) => CsvState::Bare,
        };
    }
    Ok(())
}

/// The beginning of a value, escaped for an error.
fn excerpt(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}

fn cannot(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> CliError {
    let path = path.to_owned();
    move |error| CliError::new(format!("cannot {what} {}: {error}", path.display()))
}

fn find(arguments: &FindArguments) -> Result<(), CliError> {
    let path = arguments.path(&[]);
    let text = admin_get(&arguments.switch, &path)?;
    arguments.print(&text, "no FSP serves this party")
}

/// Removes registrations, and shows them.
fn release(arguments: &ReleaseArguments) -> Result<(), CliError> {
    let ReleaseArguments { party, fsp, currency, by, reason } = arguments;
    let path = party.path(&[("fspId", fsp.as_deref()), ("currency", currency.as_deref())]);
    let mut client = party.switch.client()?;
    name_author(&mut client, (by, reason))?;
    let answered = client.must("DELETE", &path, None, &[200, 202])?;
    if let Some(text) = proposal_in(&answered) {
        return Err(CliError::proposed(text));
    }
    let text = String::from_utf8_lossy(&answered.body).into_owned();
    party.print(&text, "no such registration")
}

/// The sentence about the proposal that a change became, if it did.
fn proposal_in(answered: &AdminResponse) -> Option<String> {
    let body = serde_json::from_slice(&answered.body).ok().filter(|_| answered.status == 202)?;
    proposed(&body)
}

/// Adds the operator and the reason to all requests.
fn name_author(
    client: &mut Admin,
    (by, reason): (&Option<String>, &Option<String>),
) -> Result<(), CliError> {
    for (name, text) in [("x-actor", by), ("x-reason", reason)] {
        let Some(text) = text else { continue };
        if text.chars().any(char::is_control) {
            return Err(CliError::new("--by and --reason take one line of text"));
        }
        client.with(name, text);
    }
    Ok(())
}

impl FindArguments {
    /// The path of the party, with the sub-identifier and these members of the query.
    fn path(&self, query: &[(&str, Option<&str>)]) -> String {
        let mut path = format!("/parties/{}/{}", self.kind, fspiop::percent_encode(&self.id));
        let all = [("subId", self.sub_id.as_deref())];
        for (name, value) in all.iter().chain(query) {
            if let Some(value) = value {
                let mark = if path.contains('?') { '&' } else { '?' };
                path += &format!("{mark}{name}={}", query_value(value));
            }
        }
        path
    }

    /// Prints these registrations.
    fn print(&self, text: &str, none: &str) -> Result<(), CliError> {
        let found: Vec<serde_json::Value> = serde_json::from_str(text)
            .map_err(|error| CliError::new(format!("the answer: {error}")))?;
        if self.json {
            println!("{text}");
            return Ok(());
        }
        if found.is_empty() {
            return Err(CliError::new(format!("{} {}: {none}", self.kind, self.id)));
        }
        for found in &found {
            let member = |name: &str| found[name].as_str().unwrap_or("-").to_owned();
            println!("fsp       {}", member("fspId"));
            println!("currency  {}", member("currency"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_line_is_reported_with_its_column() {
        let fsps = BTreeSet::from(["payerfsp".to_owned()]);
        let long = format!("MSISDN,{},,payerfsp,", "1".repeat(5_000));
        for (line, expected) in [
            ("MSISDN,254700000001,,payerfsp,", Ok("MSISDN 254700000001 - payerfsp -")),
            ("MSISDN,+254700000001,,payerfsp,XOF", Ok("MSISDN +254700000001 - payerfsp XOF")),
            ("ALIAS,\"a,\"\"b\"\"\",x,payerfsp,", Ok("ALIAS a,\"b\" x payerfsp -")),
            ("PHONE,1,,payerfsp,", Err("column type: 'PHONE' is not one of MSISDN, EMAIL")),
            ("MSISDN,12a,,payerfsp,", Err("column id: '12a' as MSISDN must be 1 to 30 digits")),
            ("ALIAS,a b,,payerfsp,", Err("column id: 'a b' must have no blanks")),
            ("ALIAS,,,payerfsp,", Err("column id: '' must have no blanks")),
            ("ALIAS,a,b c,payerfsp,", Err("column sub_id: 'b c' must have no blanks")),
            ("ALIAS,a,,otherfsp,", Err("column fsp: 'otherfsp' is not a participant")),
            ("ALIAS,a,,payerfsp,XXQ", Err("column currency: 'XXQ' is neither an ISO 4217")),
            ("ALIAS,a,payerfsp,", Err("4 columns, where type,id,sub_id,fsp,currency are 5")),
            ("ALIAS,\"a,,payerfsp,", Err("2 columns")),
            ("ALIAS,a,,payerfsp,\rALIAS,b,,payerfsp,", Err("a carriage return at byte 19: ")),
            ("ALIAS,a,,payerfsp,\r", Err("a carriage return at byte 19: ")),
            ("ALIAS,\"a\rb\",,payerfsp,", Err("a carriage return at byte 9: ")),
            ("ALIAS,\"ab\"cd,,payerfsp,", Err("column id: text after the closing quote")),
            ("ALIAS,a,,payerfsp,\"\" ", Err("column currency: text after the closing quote")),
            ("\"ALIAS\",\"a\"\"\",,\"payerfsp\",\"\"", Ok("ALIAS a\" - payerfsp -")),
            ("", Err("empty")),
            (&long, Err("longer than 4096 bytes")),
        ] {
            let read = row(line.as_bytes(), &fsps).map(|row| {
                let or_none = |text: Option<String>| text.unwrap_or("-".to_owned());
                let (sub_id, currency) = (or_none(row.party_sub_id_or_type), or_none(row.currency));
                let (kind, id) = (row.party_id_type, row.party_identifier);
                format!("{kind} {id} {sub_id} {} {currency}", row.fsp_id)
            });
            match (&read, expected) {
                (Ok(read), Ok(expected)) => assert_eq!(read, expected, "{line}"),
                (Err(fault), Err(expected)) => {
                    assert!(fault.starts_with(expected), "{line}: {fault}");
                }
                _ => panic!("{line}: {read:?}", read = read),
            }
        }
        assert_eq!(row(b"ALIAS,\xff,,payerfsp,", &fsps).err().as_deref(), Some("not UTF-8"));
    }
}
