//! `upesi certificate`: certificates with which participants call a running switch.

use std::fs;
use std::path::{Path, PathBuf};
use std::slice;

use serde_json::{Value, json};

use crate::CliError;
use crate::cli::admin_client::{AdminClient, AdminConnection, entries, member};
use crate::cli::table::{Align, Table};

pub(crate) const EXAMPLES: &str = "\
Examples:
  openssl req -new -newkey rsa:2048 -noenc -keyout bank-a.key -subj /CN=bank-a -out bank-a.csr
  upesi certificate request bank-a bank-a.csr
  upesi certificate list bank-a
  upesi certificate sign bank-a 41 --output bank-a.pem
  upesi certificate upload bank-a 41 bank-a.pem
  upesi certificate reject bank-a 41 --reason 'unknown key'
  upesi certificate authority --output ca.pem";

/// Arguments of `certificate`.
#[derive(clap::Args)]
pub(crate) struct CertificateArguments {
    #[command(subcommand)]
    command: CertificateCommand,
    #[command(flatten)]
    connection: AdminConnection,
}

#[derive(clap::Subcommand)]
enum CertificateCommand {
    /// List requests of a participant, and the issued certificates.
    List(ListArguments),
    /// Record a certificate signing request of a participant.
    Request(FileArguments),
    /// Show a request, or write its certificate to a file.
    Show(OutputArguments),
    /// Sign a request with the authority of the hub.
    Sign(OutputArguments),
    /// Upload a certificate that another authority has signed.
    Upload(UploadArguments),
    /// Reject a request.
    Reject(EnrolmentArguments),
    /// Show the authority of the participants' certificates.
    Authority(OutputArgument),
}

#[derive(clap::Args)]
struct ListArguments {
    /// The participant.
    #[arg(value_name = "PARTICIPANT")]
    participant: String,
    /// Only requests in this state.
    #[arg(long, value_name = "STATE", value_parser = ["CSR_LOADED", "CERT_SIGNED", "INVALID"])]
    state: Option<String>,
}

#[derive(clap::Args)]
struct FileArguments {
    /// The participant.
    #[arg(value_name = "PARTICIPANT")]
    participant: String,
    /// Certificate signing request, in PEM.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(clap::Args)]
struct EnrolmentArguments {
    /// The participant.
    #[arg(value_name = "PARTICIPANT")]
    participant: String,
    /// Id of the request, as `list` shows it.
    #[arg(value_name = "ID")]
    id: u64,
}

#[derive(clap::Args)]
struct OutputArguments {
    #[command(flatten)]
    enrolment: EnrolmentArguments,
    #[command(flatten)]
    output: OutputArgument,
}

#[derive(clap::Args)]
struct OutputArgument {
    /// Write the certificate in PEM to this file.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(clap::Args)]
struct UploadArguments {
    #[command(flatten)]
    enrolment: EnrolmentArguments,
    /// Certificate in PEM, then those of authorities below the root.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn certificate(arguments: &CertificateArguments) -> Result<(), CliError> {
    let CertificateArguments { command, connection } = arguments;
    let mut client = AdminClient::new(connection)?;
    let (answer, output) = match command {
        CertificateCommand::List(ListArguments { participant, state }) => {
            let filter = state.as_deref().map(|state| format!("?state={state}"));
            let path = format!("{}{}", requests(participant), filter.unwrap_or_default());
            let answer = client.call("GET", &path, None)?;
            connection.print(&answer.text, || print!("{}", table(entries(&answer.value))));
            return Ok(());
        }
        CertificateCommand::Request(FileArguments { participant, file }) => {
            let body = json!({"clientCSR": read(file)?});
            let created = client.call("POST", &requests(participant), Some(&body))?;
            let path = format!("{}/{}", requests(participant), created.value["id"]);
            (client.call("GET", &path, None)?, None)
        }
        CertificateCommand::Authority(OutputArgument { output }) => {
            let answer = client.call("GET", "/api/hub/ca", None)?;
            let pem = ["intermediateChain", "rootCertificate"].map(|it| member(&answer.value, it));
            if let Some(output) = output {
                write(output, &pem.concat())?;
            }
            connection.print(&answer.text, || print!("{}", pem.concat()));
            return Ok(());
        }
        CertificateCommand::Show(OutputArguments { enrolment, output }) => {
            (client.call("GET", &enrolment.path(""), None)?, output.output.as_deref())
        }
        CertificateCommand::Sign(OutputArguments { enrolment, output }) => {
            let signed = client.call("POST", &enrolment.path("/sign"), Some(&json!({})))?;
            (signed, output.output.as_deref())
        }
        CertificateCommand::Reject(it) => (client.call("DELETE", &it.path(""), None)?, None),
        CertificateCommand::Upload(UploadArguments { enrolment, file }) => {
            let body = json!({"certificate": read(file)?});
            (client.call("POST", &enrolment.path("/certificate"), Some(&body))?, None)
        }
    };
    if let Some(output) = output {
        let certificate = answer.value["certificate"].as_str();
        let missing = || CliError::new("the request has no certificate; nothing was written");
        write(output, certificate.ok_or_else(missing)?)?;
    }
    let one = slice::from_ref(&answer.value);
    connection.print(&answer.text, || print!("{}", table(one)));
    Ok(())
}

impl EnrolmentArguments {
    fn path(&self, end: &str) -> String {
        format!("{}/{}{end}", requests(&self.participant), self.id)
    }
}

fn requests(participant: &str) -> String {
    format!("/api/dfsps/{}/enrollments/inbound", fspiop::percent_encode(participant))
}

fn read(file: &Path) -> Result<String, CliError> {
    fs::read_to_string(file).map_err(|error| CliError::new(format!("{}: {error}", file.display())))
}

fn write(file: &Path, pem: &str) -> Result<(), CliError> {
    fs::write(file, pem).map_err(|error| CliError::new(format!("{}: {error}", file.display())))
}

fn table(requests: &[Value]) -> String {
    if requests.is_empty() {
        return "no such requests\n".to_owned();
    }
    let mut table = Table::new([
        ("id", Align::Right),
        ("participant", Align::Left),
        ("state", Align::Left),
        ("key", Align::Left),
        ("requested", Align::Left),
        ("valid until", Align::Left),
    ]);
    for it in requests {
        table.add([
            member(it, "id"),
            member(it, "dfspId"),
            member(it, "state"),
            member(&it["csrInfo"], "key"),
            member(it, "createdDate"),
            member(&it["certInfo"], "notAfter"),
        ]);
    }
    table.to_string()
}
