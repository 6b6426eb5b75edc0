//! `/api/dfsps/{dfspId}/enrollments/inbound`, `/api/hub/ca`: certificates with which participants
//! call the hub. Paths and members are those of the community's connection manager.
//!
//! Requests and certificates are records of the log. The admin API verifies a request, signs it
//! with the authority of the configuration, or checks a certificate that another authority signed.

use std::sync::Arc;

use fspiop::{ErrorCode, Refusal};
use jws::pem;
use ledger::{
    AdminOutcome, BeginEnrolment, CERTIFICATE_BYTES_MAX, CSR_BYTES_MAX, ChangeResult, EndEnrolment,
    Enrolment, FspName, LogIndex, Stamp,
};
use tls::{
    EnrolmentFault, ParticipantAuthority, ServerTls, SigningRequest, split_chain, summarize,
};

use crate::body::{Described, Text, body};
use crate::body_reader::refuse;
use crate::outcome_errors;
use crate::request::{AdminRequest, participant_name};
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::Timestamp;
use crate::route::{Parameter, routes};
use crate::schema::{self, response_type};

/// Longest request in PEM, in characters.
const CSR_TEXT_MAX: usize = 8_192;
/// Longest certificate with its chain in PEM, in characters.
const CERTIFICATE_TEXT_MAX: usize = 32_768;

/// The states of an enrolment.
const STATES: [&str; 3] = ["CSR_LOADED", "CERT_SIGNED", "INVALID"];

/// How participants get certificates.
#[derive(Clone, Debug)]
pub struct EnrolmentOptions {
    /// The authority that signs requests, if the hub has its key.
    pub authority: Option<Arc<ParticipantAuthority>>,
    /// The listener that must accept the certificates, if it requires some.
    pub listener: Option<Arc<ServerTls>>,
    /// Days for which a certificate is valid.
    pub days: u32,
    /// The name in a certificate, with `{fsp}` for the participant.
    pub name_pattern: String,
}

impl Default for EnrolmentOptions {
    fn default() -> Self {
        Self { authority: None, listener: None, days: 365, name_pattern: "{fsp}".to_owned() }
    }
}

impl EnrolmentOptions {
    /// The name that the certificate of a participant must have.
    fn name_of(&self, participant: &FspName) -> String {
        self.name_pattern.replace("{fsp}", participant.as_str())
    }
}

/// The participant in a path.
pub(crate) const DFSP: Parameter<FspName> =
    Parameter::new("dfspId", "The participant.", schema::some_text, participant_name)
        .example("\"payerfsp\"");

/// The enrolment in a path. A text that is not a number names none.
const ENROLMENT: Parameter<Option<LogIndex>> =
    Parameter::new("enId", "The enrolment's id.", schema::some_text, |text| {
        Ok(text.parse().ok().map(LogIndex))
    })
    .example("\"1\"");

const STATE: Parameter<&str> = Parameter::new(
    "state",
    "Only enrolments in this state.",
    || schema::one_of(&STATES),
    |text| {
        let known = STATES.into_iter().find(|state| *state == text);
        let what = "must be CSR_LOADED, CERT_SIGNED or INVALID";
        known.ok_or_else(|| refuse(ErrorCode::VALIDATION, "state", what))
    },
);

routes! {
    "/api/dfsps/{dfspId}/enrollments/inbound" [DFSP] {
        guarded GET listEnrolments = list, "List requests for certificates of a participant" {
            query: [STATE],
            responses: [200: Vec<EnrolmentResponse> = "Enrolments, oldest first, at most 8."],
            refusals: [400 ID_NOT_FOUND, 400 VALIDATION],
        }
        change POST beginEnrolment = begin(NewEnrolment), "Request a certificate" {
            records: BeginEnrolment,
            text: "\
                The certificate signing request must be signed with its own key (RSA with at least \
                2048 bits, P-256 or P-384) and have the name of the participant as its only common \
                name. Everything else in it is ignored. At most 4 requests of a participant are \
                open; the same request again gets the same id. Ended ones are kept, at most 8 of \
                a participant.",
            example: {"clientCSR": concat!(
                "-----BEGIN CERTIFICATE REQUEST-----\n",
                "MIHNMHUCAQAwEzERMA8GA1UEAwwIcGF5ZXJmc3AwWTATBgcqhkjOPQIBBggqhkjO\n",
                "PQMBBwNCAAQ8/sZsc78o5GYfs6Rg6KqEWayf1HUu04Dy50UHrk0O9H/N3JrzN9AN\n",
                "km7D4cbtW1senNmZlB0Ph541/+MLhyvNoAAwCgYIKoZIzj0EAwIDSAAwRQIhAPX/\n",
                "i2MIsNfsuO3DFHx3hXibO8dqWJtF97rVNwp9iMavAiBEz4VwoSvIEcwKbLF3wwQc\n",
                "6XU8CzWzg+cu2EaesIZ2jw==\n",
                "-----END CERTIFICATE REQUEST-----\n",
            )},
            responses: [200: CreatedResponse = "The id of the enrolment."],
            refusals: [400 VALIDATION],
        }
    }
    "/api/dfsps/{dfspId}/enrollments/inbound/{enId}" [DFSP, ENROLMENT] {
        guarded GET showEnrolment = show, "Show a request for a certificate" {
            responses: [200: EnrolmentResponse = "The enrolment, with its certificate."],
            refusals: [400 ID_NOT_FOUND],
        }
        change DELETE rejectEnrolment = reject, "Reject a request for a certificate" {
            permission: Security,
            records: EndEnrolment,
            text: "An addition to the reference. Never needs a second operator.",
            responses: [200: EnrolmentResponse = "The rejected enrolment."],
        }
    }
    "/api/dfsps/{dfspId}/enrollments/inbound/{enId}/sign" [DFSP, ENROLMENT] {
        change POST signEnrolment = sign, "Sign a request with the hub's authority" {
            permission: Security,
            records: EndEnrolment,
            text: "\
                Issues a certificate for clients with the name of the participant as its only \
                name, valid for `enrolment.days`. Gets 3100 if the hub has no authority \
                (`enrolment.ca_key_file`): upload a certificate then. Needs no body.",
            responses: [200: EnrolmentResponse = "The enrolment with its certificate."],
            refusals: [400 VALIDATION],
        }
    }
    "/api/dfsps/{dfspId}/enrollments/inbound/{enId}/certificate" [DFSP, ENROLMENT] {
        change POST uploadCertificate = upload(NewCertificate), "Upload a signed certificate" {
            permission: Security,
            records: EndEnrolment,
            text: "\
                For certificates of an authority outside the hub. The certificate must be of the \
                key of the request, for clients, of the participant's name only, and issued by an \
                authority of `fspiop.tls_client_ca_file`; certificates of authorities below the \
                root follow it. Otherwise 3100.",
            example: {"certificate": concat!(
                "-----BEGIN CERTIFICATE-----\n",
                "MIIBijCCATCgAwIBAgIUHJbV/OpJFjRjUdTo0opTWV04Bb0wCgYIKoZIzj0EAwIw\n",
                "EzERMA8GA1UEAwwIcGF5ZXJmc3AwHhcNMjYxMTI3MDEzOTQyWhcNMzYxMTI0MDEz\n",
                "OTQyWjATMREwDwYDVQQDDAhwYXllcmZzcDBZMBMGByqGSM49AgEGCCqGSM49AwEH\n",
                "A0IABDz+xmxzvyjkZh+zpGDoqoRZrJ/UdS7TgPLnRQeuTQ70f83cmvM30A2SbsPh\n",
                "xu1bWx6c2ZmUHQ+HnjX/4wuHK82jYjBgMB0GA1UdDgQWBBQe6dPIVt/rTsCUeJI3\n",
                "UlTlBJj5UDAfBgNVHSMEGDAWgBQe6dPIVt/rTsCUeJI3UlTlBJj5UDATBgNVHSUE\n",
                "DDAKBggrBgEFBQcDAjAJBgNVHRMEAjAAMAoGCCqGSM49BAMCA0gAMEUCIQCpo2zz\n",
                "Ra544r7ePTmrW0USjEL2Sr0xhGgCDZ7HXPaX6wIgEgtcB0CPkzLJ4kQk2wZhXBNx\n",
                "3fGNJtn0Zr/rfJTGlsk=\n",
                "-----END CERTIFICATE-----\n",
            )},
            responses: [200: EnrolmentResponse = "The enrolment with its certificate."],
            refusals: [400 VALIDATION],
        }
    }
    "/api/hub/ca" {
        read GET showHubAuthority = authority, "Show the authority of participants' certificates" {
            text: "Gets 3200 if neither an authority nor `fspiop.tls_client_ca_file` is set.",
            responses: [200: AuthorityResponse = "Its certificates."],
            refusals: [400 ID_NOT_FOUND],
        }
    }
}

body! {
    Open NewEnrolment {
        client_csr as "clientCSR": String =
            Described(Text(CSR_TEXT_MAX), "Certificate signing request in PEM."),
    }
}

body! {
    Open NewCertificate {
        certificate: String = Described(
            Text(CERTIFICATE_TEXT_MAX),
            "Certificate in PEM, then those of authorities below the root.",
        ),
    }
}

response_type! {
    /// The id of a new enrolment.
    struct CreatedResponse as "EnrolmentCreated" {
        id: u64,
    }
}

response_type! {
    /// A request of a participant for a certificate.
    struct EnrolmentResponse as "Enrolment" {
        id: u64,
        dfsp_id: String,
        state: &'static str = schema::one_of(&STATES),
        csr: String,
        csr_info: RequestInfo,
        #[serde(skip_serializing_if = "Option::is_none")]
        certificate: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cert_info: Option<CertificateInfo>,
        created_date: Timestamp,
        #[serde(skip_serializing_if = "Option::is_none")]
        ended_date: Option<Timestamp>,
    }
}

response_type! {
    struct RequestInfo {
        /// The common name of its subject.
        name: String,
        /// The kind of its key, such as `RSA 2048`.
        key: String,
    }
}

response_type! {
    struct CertificateInfo {
        subject: String,
        issuer: String,
        serial_number: String,
        not_before: Timestamp,
        not_after: Timestamp,
    }
}

response_type! {
    struct AuthorityResponse as "HubAuthority" {
        root_certificate: String,
        /// Authorities below the root, in PEM.
        intermediate_chain: String,
    }
}

impl EnrolmentResponse {
    fn of(row: &Enrolment) -> Result<Self, Refusal> {
        let request = SigningRequest::from_der(row.csr.clone()).map_err(|it| damaged(&it))?;
        let end = row.end.as_ref();
        let chain = end.and_then(|end| end.certificate.as_deref());
        Ok(Self {
            id: row.id.0,
            dfsp_id: row.name.to_string(),
            state: state_of(row),
            csr: pem("CERTIFICATE REQUEST", &row.csr),
            csr_info: RequestInfo {
                name: request.common_name().to_owned(),
                key: request.key().to_owned(),
            },
            certificate: chain.map(chain_pem).transpose()?,
            cert_info: chain.map(CertificateInfo::of).transpose()?,
            created_date: Timestamp(row.began),
            ended_date: end.map(|end| Timestamp(end.at)),
        })
    }
}

impl CertificateInfo {
    fn of(chain: &[u8]) -> Result<Self, Refusal> {
        let facts = summarize(chain).map_err(|it| damaged(&it))?;
        let time = |seconds: i64| {
            Timestamp(Stamp::from_millis(seconds.max(0).cast_unsigned().saturating_mul(1_000)))
        };
        Ok(Self {
            subject: facts.subject,
            issuer: facts.issuer,
            serial_number: facts.serial,
            not_before: time(facts.not_before),
            not_after: time(facts.not_after),
        })
    }
}

fn state_of(row: &Enrolment) -> &'static str {
    let [loaded, signed, invalid] = STATES;
    match &row.end {
        None => loaded,
        Some(end) if end.certificate.is_some() => signed,
        Some(_) => invalid,
    }
}

/// `GET /api/dfsps/{dfspId}/enrollments/inbound`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let name = request.path(&DFSP)?;
    let state = request.query(&STATE)?;
    let found = request.query_participant(name, move |all, _| {
        all.enrolments().of(name).cloned().collect::<Vec<_>>()
    });
    let rows = found.await?;
    let wanted = rows.iter().filter(|row| state.is_none_or(|state| state_of(row) == state));
    let all = wanted.map(EnrolmentResponse::of).collect::<Result<Vec<_>, _>>()?;
    Ok(AdminResponse::ok(&all))
}

/// `GET /api/dfsps/{dfspId}/enrollments/inbound/{enId}`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    Ok(AdminResponse::ok(&EnrolmentResponse::of(&find(request).await?)?))
}

/// `POST /api/dfsps/{dfspId}/enrollments/inbound`.
async fn begin(request: &AdminRequest<'_>, body: NewEnrolment) -> HandlerResult {
    const MEMBER: &str = "clientCSR";
    let name = request.path(&DFSP)?;
    let csr = SigningRequest::from_pem(&body.client_csr).map_err(|it| invalid(MEMBER, &it))?;
    if CSR_BYTES_MAX < csr.der().len() {
        let what = format!("has more than {CSR_BYTES_MAX} bytes");
        return Err(refuse(ErrorCode::VALIDATION, MEMBER, &what));
    }
    if request.query_state(|state| *state.hub()).await? == name {
        let detail = "the hub's own certificates are set by its configuration";
        return Err(Refusal::new(ErrorCode::VALIDATION, detail));
    }
    let expected = request.options.enrolment.name_of(&name);
    if csr.common_name() != expected {
        let what = format!("must have the common name \"{expected}\"");
        return Err(refuse(ErrorCode::VALIDATION, MEMBER, &what));
    }
    let change = BeginEnrolment { name, csr: csr.der().to_vec() };
    match request.decide(request.identity.reason.clone(), change).await? {
        (AdminOutcome::Accepted, Some(ChangeResult::Enrolment(id))) => {
            Ok(AdminResponse::ok(&CreatedResponse { id: id.0 }))
        }
        (outcome, _) => Err(outcome_errors::of_result(outcome)),
    }
}

/// `POST /api/dfsps/{dfspId}/enrollments/inbound/{enId}/sign`.
async fn sign(request: &AdminRequest<'_>) -> HandlerResult {
    let row = find_open(request).await?;
    let options = &request.options.enrolment;
    let authority = options.authority.as_ref().ok_or_else(|| {
        let detail = "the hub has no signing authority: upload a certificate, or set \
                      enrolment.ca_certificate_file";
        Refusal::new(ErrorCode::VALIDATION, detail)
    })?;
    let csr = SigningRequest::from_der(row.csr.clone()).map_err(|it| damaged(&it))?;
    let name = options.name_of(&row.name);
    let chain = authority.issue(&csr, (&name, options.days)).map_err(|fault| {
        Refusal::new(ErrorCode::VALIDATION, &format!("the authority of the hub {fault}"))
    })?;
    if let Some(listener) = &options.listener {
        listener.verify_chain(&chain).map_err(|fault| {
            let text = fault.text();
            let detail = format!("fspiop.tls_client_ca_file does not fit the authority: {text}");
            Refusal::new(ErrorCode::VALIDATION, &detail)
        })?;
    }
    end(request, &row, Some(chain)).await
}

/// `POST /api/dfsps/{dfspId}/enrollments/inbound/{enId}/certificate`.
async fn upload(request: &AdminRequest<'_>, body: NewCertificate) -> HandlerResult {
    const MEMBER: &str = "certificate";
    let row = find_open(request).await?;
    let options = &request.options.enrolment;
    let csr = SigningRequest::from_der(row.csr.clone()).map_err(|it| damaged(&it))?;
    let name = options.name_of(&row.name);
    let chain = csr.chain_from_pem(&body.certificate, &name).map_err(|it| invalid(MEMBER, &it))?;
    if CERTIFICATE_BYTES_MAX < chain.len() {
        let what = format!("has more than {CERTIFICATE_BYTES_MAX} bytes");
        return Err(refuse(ErrorCode::VALIDATION, MEMBER, &what));
    }
    let listener = options.listener.as_ref().ok_or_else(|| {
        let detail = "no authority of participants is trusted: set fspiop.tls_client_ca_file";
        Refusal::new(ErrorCode::VALIDATION, detail)
    })?;
    listener.verify_chain(&chain).map_err(|fault| {
        refuse(ErrorCode::VALIDATION, MEMBER, &format!("is refused: {}", fault.text()))
    })?;
    end(request, &row, Some(chain)).await
}

/// `DELETE /api/dfsps/{dfspId}/enrollments/inbound/{enId}`.
async fn reject(request: &AdminRequest<'_>) -> HandlerResult {
    let row = find_open(request).await?;
    end(request, &row, None).await
}

/// `GET /api/hub/ca`.
async fn authority(request: &AdminRequest<'_>) -> HandlerResult {
    let options = &request.options.enrolment;
    let own = options.authority.as_ref().map(|authority| authority.pem().to_owned());
    let listener = options.listener.as_ref();
    let pem = own.or_else(|| listener.and_then(|listener| listener.client_authorities()));
    let pem = pem.ok_or_else(|| {
        Refusal::new(ErrorCode::ID_NOT_FOUND, "the hub has no authority of participants")
    })?;
    let (below_root, root) = divided(&pem);
    let shown = AuthorityResponse { root_certificate: root, intermediate_chain: below_root };
    Ok(AdminResponse::ok(&shown))
}

/// The certificates before the last one, and the last one.
fn divided(pem: &str) -> (String, String) {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    let first = pem.find(BEGIN).unwrap_or_default();
    let last = pem.rfind(BEGIN).unwrap_or_default();
    (pem[first..last].to_owned(), pem[last..].to_owned())
}

/// Records the end of an enrolment, and shows it.
async fn end(
    request: &AdminRequest<'_>,
    row: &Enrolment,
    certificate: Option<Vec<u8>>,
) -> HandlerResult {
    request.change(EndEnrolment { name: row.name, enrolment: row.id, certificate }).await?;
    show(request).await
}

async fn find(request: &AdminRequest<'_>) -> Result<Enrolment, Refusal> {
    let unknown = || outcome_errors::of_result(AdminOutcome::EnrolmentNotFound);
    let name = request.path(&DFSP)?;
    let id = request.path(&ENROLMENT)?.ok_or_else(unknown)?;
    let found =
        request.query_participant(name, move |state, _| state.enrolments().get(&name, id).cloned());
    found.await?.ok_or_else(unknown)
}

/// The enrolment, if it has not ended.
async fn find_open(request: &AdminRequest<'_>) -> Result<Enrolment, Refusal> {
    match find(request).await? {
        row if row.end.is_some() => Err(outcome_errors::of_result(AdminOutcome::EnrolmentEnded)),
        row => Ok(row),
    }
}

fn invalid(member: &str, fault: &EnrolmentFault) -> Refusal {
    refuse(ErrorCode::VALIDATION, member, &fault.to_string())
}

/// A stored request or certificate that this program does not accept any more.
fn damaged(fault: &EnrolmentFault) -> Refusal {
    Refusal::internal(&format!("the enrolment {fault}"))
}

fn chain_pem(chain: &[u8]) -> Result<String, Refusal> {
    let chain = split_chain(chain).map_err(|it| damaged(&it))?;
    Ok(chain.iter().map(|der| pem("CERTIFICATE", der)).collect())
}
