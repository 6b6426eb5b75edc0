//! TLS of the listeners and of calls (docs/security/tls.md), with `openssl s_client` and `curl` as
//! clients.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::process::Signal;
use tempfile::TempDir;
use testkit::http::PATIENCE;
use tls::authority::{Authority, CertificateRequest, Issued, write_at_once};
use tls::{ClientCertificates, MinimumVersion, ServerFiles, ServerTls, TlsStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::message::{Message, Transfer};
use crate::support::scheme::Scheme;
use crate::support::switch::Home;

const HEALTH: &str = "GET /health HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n\r\n";
/// Serial number of the certificate that the revocation list names.
const REVOKED: u64 = 666;

/// A scheme's authority, and a directory with the files of the hub and of clients.
pub(crate) struct Pki {
    directory: TempDir,
    authority: Authority,
}

impl Pki {
    /// With the certificate of the hub, those of three participants, and a revocation list.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let pki = Self { directory, authority: Authority::new("Scheme CA") };
        pki.write("ca.pem", &pki.authority.pem());
        pki.write("crl.pem", &pki.authority.revocation_list(&[REVOKED]));
        pki.issue_hub(1);
        for (at, name) in ["payerfsp", "payeefsp", "otherfsp"].into_iter().enumerate() {
            pki.issue(name, &CertificateRequest::new(name, &[], at as u64 + 10));
        }
        pki
    }

    fn issue_hub(&self, serial: u64) {
        self.issue("hub", &CertificateRequest::new("hub", &["localhost", "127.0.0.1"], serial));
    }

    pub(crate) fn issue(&self, file: &str, request: &CertificateRequest) {
        self.keep(file, &self.authority.issue(request));
    }

    fn keep(&self, file: &str, issued: &Issued) {
        issued.write(self.directory.path(), file).unwrap();
    }

    fn write(&self, file: &str, content: &str) {
        write_at_once(&self.path(file), content).unwrap();
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    /// Settings of a listener, without the name of their section.
    fn settings(&self) -> String {
        let setting = |name: &str, file: &str| {
            format!("tls_{name}_file = \"{}\"\n", self.path(file).display())
        };
        let files = [
            setting("certificate", "hub.pem"),
            setting("key", "hub.key"),
            setting("client_ca", "ca.pem"),
            setting("crl", "crl.pem"),
        ];
        files.concat()
    }

    fn scheme(&self, more: &str) -> Scheme {
        Scheme::configured(&format!("{}callers = \"certificate\"\n{more}", self.settings()))
    }

    /// `openssl s_client` with the certificate of a client, or without one.
    fn client(&self, hub: SocketAddr, client: Option<&str>, more: &[&str]) -> Command {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-quiet", "-verify_return_error"]);
        command.args(["-servername", "localhost", "-CAfile"]).arg(self.path("ca.pem"));
        command.arg("-connect").arg(hub.to_string()).args(more);
        if let Some(client) = client {
            let chain = self.path(&format!("{client}.pem"));
            command.arg("-cert").arg(&chain).arg("-cert_chain").arg(chain);
            command.arg("-key").arg(self.path(&format!("{client}.key")));
        }
        command
    }

    /// Sends a request on a new connection.
    fn send(&self, scheme: &Scheme, client: Option<&str>, request: &[u8]) -> Outcome {
        run(self.client(scheme.switch.fspiop, client, &[]), request)
    }

    fn ask(&self, scheme: &Scheme, client: &str, message: &Message) -> Outcome {
        let message = message.clone().with("connection", "close");
        self.send(scheme, Some(client), &message.render())
    }
}

/// The output of a client.
#[derive(Debug)]
struct Outcome {
    text: String,
    complaints: String,
}

impl Outcome {
    /// The status of the response; 0 without one.
    fn status(&self) -> u16 {
        let at = self.text.find("HTTP/1.1 ").map_or(0, |at| at + "HTTP/1.1 ".len());
        self.text.get(at..at + 3).and_then(|status| status.parse().ok()).unwrap_or_default()
    }

    #[track_caller]
    fn is(&self, status: u16, text: &str) {
        assert_eq!(self.status(), status, "{self:?}");
        assert!(self.text.contains(text), "{text}: {self:?}");
    }
}

/// Runs a client that sends these bytes, until the hub closes the connection.
fn run(mut command: Command, bytes: &[u8]) -> Outcome {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A refused client may have ended.
    let _written = child.stdin.take().unwrap().write_all(bytes);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Outcome { text: text(&output.stdout), complaints: text(&output.stderr) }
}

/// The handshakes of the FSPIOP listener, by result.
fn handshakes(scheme: &Scheme) -> BTreeMap<String, u64> {
    let text = scheme.admin.get("/metrics");
    let prefix = "upesi_tls_handshakes_total{listener=\"fspiop\",result=\"";
    let sample = |line: &str| {
        let (result, count) = line.strip_prefix(prefix)?.split_once("\"} ")?;
        Some((result.to_owned(), count.parse().unwrap()))
    };
    text.lines().filter_map(sample).collect()
}

/// Has the files read again, and waits for the report of the first listener.
#[track_caller]
fn reload(scheme: &mut Scheme, expected: &str) {
    scheme.switch.signal(Signal::HUP);
    let line = scheme.switch.next_line();
    assert!(line.contains(expected), "{line}");
}

#[test]
fn only_valid_certificates_of_the_scheme_are_accepted() {
    let pki = Pki::new();
    let mut scheme = pki.scheme("");
    let before = scheme.admin.state();
    let check = |scheme: &Scheme, client: Option<&str>, more: &[&str], expected: (u16, &str)| {
        let (status, result) = expected;
        let earlier = handshakes(scheme);
        let outcome = run(pki.client(scheme.switch.fspiop, client, more), HEALTH.as_bytes());
        assert_eq!(outcome.status(), status, "{client:?} {result}: {outcome:?}");
        let deadline = Instant::now() + PATIENCE;
        while handshakes(scheme)[result] != earlier[result] + 1 {
            assert!(Instant::now() < deadline, "{result}: {:?} {outcome:?}", handshakes(scheme));
        }
    };
    let request = |name: &str, serial| CertificateRequest::new(name, &[], serial);
    let with_days = |valid_days| CertificateRequest { valid_days, ..request("payerfsp", 20) };
    pki.issue("expired", &with_days(-30..-1));
    pki.issue("early", &with_days(1..30));
    pki.issue("revoked", &request("payerfsp", REVOKED));
    self_signed(&pki, "self");
    let same_name = Authority::new("Scheme CA");
    pki.keep("forged", &same_name.issue(&request("payerfsp", 21)));
    pki.keep("foreign", &Authority::new("Other CA").issue(&request("payerfsp", 22)));
    let below = pki.authority.intermediate("Issuing CA");
    pki.keep("uncovered", &below.issue(&request("payerfsp", 23)));
    let long = pki.authority.issue(&request("payerfsp", 24));
    let chain = format!("{}{}", long.certificate, pki.authority.pem().repeat(200));
    pki.keep("long", &Issued { certificate: chain, ..long });
    // Authorities of one name, of which each could be the issuer. The client also sends its own
    // certificate twice.
    let with_namesakes = |file: &str, serial, count| {
        let issued = pki.authority.issue(&request("payerfsp", serial));
        let namesakes = (0..count).map(|_| Authority::new("Scheme CA").pem());
        let chain = format!("{}{}", issued.certificate, namesakes.collect::<String>());
        pki.keep(file, &Issued { certificate: chain, ..issued });
    };
    with_namesakes("four", 25, 2);
    with_namesakes("five", 26, 3);
    with_namesakes("sixty", 27, 58);

    check(&scheme, Some("payerfsp"), &[], (200, "complete"));
    check(&scheme, None, &[], (0, "no_certificate"));
    check(&scheme, Some("expired"), &[], (0, "expired"));
    check(&scheme, Some("early"), &[], (0, "not_yet_valid"));
    check(&scheme, Some("revoked"), &[], (0, "revoked"));
    check(&scheme, Some("forged"), &[], (0, "untrusted"));
    check(&scheme, Some("foreign"), &[], (0, "untrusted"));
    check(&scheme, Some("self"), &[], (0, "untrusted"));
    check(&scheme, Some("uncovered"), &[], (0, "unknown_revocation"));
    check(&scheme, Some("long"), &[], (0, "malformed"));
    check(&scheme, Some("four"), &[], (200, "complete"));
    check(&scheme, Some("five"), &[], (0, "long_chain"));
    check(&scheme, Some("sixty"), &[], (0, "long_chain"));
    check(&scheme, Some("payerfsp"), &["-tls1_2"], (0, "incompatible"));
    check(
        &scheme,
        Some("payerfsp"),
        &["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"],
        (0, "incompatible"),
    );

    // The authority below the root has published its list.
    let lists = [below.revocation_list(&[]), pki.authority.revocation_list(&[REVOKED])];
    pki.write("crl.pem", &lists.concat());
    reload(&mut scheme, "2 revocation lists loaded");
    check(&scheme, Some("uncovered"), &[], (200, "complete"));
    assert_eq!(scheme.admin.state(), before);
    scheme.end();
}

/// Writes a certificate that its own key has signed, with the name of a participant.
fn self_signed(pki: &Pki, file: &str) {
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=payerfsp"]);
    command.args(["-addext", "subjectAltName=IP:127.0.0.1"]);
    command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    command.arg("-keyout").arg(pki.path(&format!("{file}.key")));
    command.arg("-out").arg(pki.path(&format!("{file}.pem")));
    let outcome = run(command, b"");
    assert!(pki.path(&format!("{file}.pem")).exists(), "{outcome:?}");
}

#[test]
fn sender_must_be_named_by_the_certificate() {
    let pki = Pki::new();
    let scheme = pki.scheme("");
    // A transfer from end to end.
    let transfer = Transfer::of("1");
    pki.ask(&scheme, "payerfsp", &transfer.prepare()).is(202, "");
    scheme.wait_until_delivered();
    pki.ask(&scheme, "payeefsp", &transfer.fulfil("COMMITTED")).is(200, "");
    scheme.wait_until_delivered();
    scheme.payer.take(1);
    scheme.payee.take(2);
    let before = scheme.admin.state();
    let prepare = Transfer::of("1").prepare();
    let foreign = "FSPIOP-Source is payerfsp, but the certificate is of otherfsp";
    pki.ask(&scheme, "otherfsp", &prepare).is(403, foreign);
    pki.ask(&scheme, "otherfsp", &Transfer::of("1").fulfil("COMMITTED")).is(403, "payeefsp, but");
    for path in ["/parties/MSISDN/254700000001", "/participants/MSISDN/254700000001", "/quotes/1"] {
        let message = Message::new("GET", path, "payerfsp");
        pki.ask(&scheme, "otherfsp", &message).is(403, foreign);
    }
    // Names are compared byte by byte.
    pki.ask(&scheme, "otherfsp", &prepare.clone().with("fspiop-source", "OTHERFSP")).is(403, "");
    pki.ask(&scheme, "payerfsp", &prepare.clone().with("fspiop-source", "payerfsp2")).is(403, "");
    // The payee cannot make the hub report an error about the payer's transfer.
    let of_payer = transfer.prepare().with("fspiop-source", "payeefsp");
    let not_the_payer = "/requestBody/payerFsp must be FSPIOP-Source";
    pki.ask(&scheme, "payeefsp", &of_payer).is(400, not_the_payer);
    // The response does not wait for a body.
    let head = prepare.clone().body("").with("connection", "close").render();
    let head = String::from_utf8(head).unwrap();
    let head = head.replace("content-length: 0", "content-length: 1000");
    pki.send(&scheme, Some("otherfsp"), head.as_bytes()).is(403, "\"errorCode\":\"3000\"");
    let refused = "upesi_callers_refused_total{reason=\"wrong_source\"}";
    assert_eq!(scheme.admin.metric(refused), 8);
    // A certificate whose name is not a participant's, and one without a name.
    pki.issue("stranger", &CertificateRequest::new("stranger", &[], 30));
    let message = Message::new("GET", "/parties/MSISDN/254700000001", "stranger");
    pki.ask(&scheme, "stranger", &message).is(403, "of stranger, which is not a participant");
    let long = "a-name-that-is-longer-than-32-bytes";
    pki.issue("long", &CertificateRequest::new(long, &[], 31));
    pki.ask(&scheme, "long", &message).is(403, "names no participant");
    let unknown = "upesi_callers_refused_total{reason=\"unknown_participant\"}";
    assert_eq!(scheme.admin.metric(unknown), 2);
    // The same over HTTP/2.
    over_http2(&pki, &scheme, "payerfsp", "payerfsp").is(202, "");
    over_http2(&pki, &scheme, "otherfsp", "payerfsp").is(403, foreign);
    scheme.payer.take(1);
    assert_eq!(scheme.admin.state(), before);
    scheme.end();
}

/// A look-up by `curl` over HTTP/2, which it must have agreed on by ALPN.
fn over_http2(pki: &Pki, scheme: &Scheme, client: &str, source: &str) -> Outcome {
    let media = "application/vnd.interoperability.parties+json;version=1.1";
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--http2", "--cacert"]).arg(pki.path("ca.pem"));
    command.arg("--cert").arg(pki.path(&format!("{client}.pem")));
    command.arg("--key").arg(pki.path(&format!("{client}.key")));
    command.args(["--write-out", "HTTP/1.1 %{http_code} version %{http_version}"]);
    for header in [
        &format!("accept: {media}"),
        &format!("content-type: {media}"),
        "date: Tue, 15 Nov 1994 08:12:31 GMT",
        &format!("fspiop-source: {source}"),
    ] {
        command.args(["--header", header]);
    }
    let address = scheme.switch.fspiop;
    command.arg(format!("https://{address}/parties/MSISDN/254700000001"));
    let outcome = run(command, b"");
    assert!(outcome.text.ends_with(" version 2"), "{outcome:?}");
    outcome
}

#[test]
fn fields_and_form_of_names_can_be_chosen() {
    let pki = Pki::new();
    let names = "certificate_names = [\"san_dns\", \"san_uri\"]\n\
                 certificate_pattern = \"{fsp}.dfsp.example\"\n";
    let scheme = pki.scheme(names);
    let message = Message::new("GET", "/parties/MSISDN/254700000001", "payerfsp");
    let check = |common_name: &str, hosts: &[&str], uris: &[&str], status: u16| {
        let uris = uris.iter().map(|&uri| uri.to_owned()).collect();
        let request = CertificateRequest::new(common_name, hosts, 40);
        pki.issue("client", &CertificateRequest { uris, ..request });
        pki.ask(&scheme, "client", &message).is(status, "");
    };
    check("payerfsp", &[], &[], 403);
    check("payerfsp.dfsp.example", &[], &[], 403);
    check("x", &["payerfsp"], &[], 403);
    check("x", &["payerfsp.dfsp.example"], &[], 202);
    check("x", &["other.example", "payeefsp.dfsp.example", "payerfsp.dfsp.example"], &[], 202);
    check("x", &["payerfsp.dfsp.example.evil.example"], &[], 403);
    check("x", &[], &["payerfsp.dfsp.example"], 202);
    scheme.payer.take(3);
    scheme.end();
}

/// A client that keeps its connection.
struct Session(Child);

impl Session {
    fn open(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// Sends a request, and reads the response up to its last byte.
    fn ask(&mut self, message: &Message) -> String {
        self.0.stdin.as_mut().unwrap().write_all(&message.render()).unwrap();
        let mut text = Vec::new();
        let output = self.0.stdout.as_mut().unwrap();
        loop {
            let mut byte = [0];
            assert_eq!(output.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&text));
            text.push(byte[0]);
            let shown = String::from_utf8_lossy(&text);
            let Some((head, body)) = shown.split_once("\r\n\r\n") else { continue };
            let length = head.to_ascii_lowercase();
            let length = length.split_once("content-length: ").unwrap().1;
            let length = length.split("\r\n").next().unwrap().parse::<usize>().unwrap();
            if body.len() == length {
                return shown.into_owned();
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

#[test]
fn changed_files_take_effect_without_a_restart() {
    let pki = Pki::new();
    let mut scheme = pki.scheme("");
    let look_up = |name: &str| Message::new("GET", "/parties/MSISDN/254700000001", name);
    let mut payer = Session::open(pki.client(scheme.switch.fspiop, Some("payerfsp"), &[]));
    let mut payee = Session::open(pki.client(scheme.switch.fspiop, Some("payeefsp"), &[]));
    assert!(payer.ask(&look_up("payerfsp")).starts_with("HTTP/1.1 202"));
    assert!(payee.ask(&look_up("payeefsp")).starts_with("HTTP/1.1 202"));
    // A broken file changes nothing.
    pki.write("hub.pem", "half a cert");
    scheme.switch.signal(Signal::HUP);
    let complaint = scheme.switch.wait_for_complaint("fspiop.tls_certificate_file");
    assert!(complaint.contains("hub.pem: contains no certificate in PEM"), "{complaint}");
    let failed = "upesi_tls_files_failed{listener=\"fspiop\"}";
    assert_eq!(scheme.admin.metric(failed), 1);
    pki.ask(&scheme, "payeefsp", &look_up("payeefsp")).is(202, "");
    assert!(payer.ask(&look_up("payerfsp")).starts_with("HTTP/1.1 202"));
    // A new certificate of the hub, and the payer's certificate is revoked.
    pki.issue_hub(2);
    pki.write("crl.pem", &pki.authority.revocation_list(&[REVOKED, 10]));
    reload(&mut scheme, "fspiop: certificate of CN=hub, 1 authorities and 1 revocation lists");
    assert_eq!(scheme.admin.metric(failed), 0);
    pki.ask(&scheme, "payerfsp", &look_up("payerfsp")).is(0, "");
    pki.ask(&scheme, "payeefsp", &look_up("payeefsp")).is(202, "");
    // Open connections stay, except those of a revoked certificate.
    assert!(payee.ask(&look_up("payeefsp")).starts_with("HTTP/1.1 202"));
    let refused = payer.ask(&look_up("payerfsp"));
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    assert!(refused.contains("the certificate is revoked"), "{refused}");
    let reason = "upesi_callers_refused_total{reason=\"invalid_certificate\"}";
    assert_eq!(scheme.admin.metric(reason), 1);
    let expiries = scheme.admin.get("/metrics");
    for (kind, subject) in
        [("certificate", "hub"), ("client_ca", "Scheme CA"), ("crl", "Scheme CA")]
    {
        let name = "upesi_certificate_expires_timestamp_seconds";
        let labels = format!("{{listener=\"fspiop\",kind=\"{kind}\",subject=\"CN={subject}\"}}");
        assert!(expiries.contains(&format!("{name}{labels} ")), "{labels}");
    }
    drop((payer, payee));
    scheme.switch.signal(Signal::TERM);
    let (status, complaints) = scheme.switch.end();
    assert!(status.success() && complaints.lines().count() == 1, "{complaints}");
}

#[test]
fn files_change_under_load_without_a_failed_request() {
    const CLIENTS: usize = 2;
    let pki = Pki::new();
    let scheme = pki.scheme("");
    let look_up = Message::new("GET", "/parties/MSISDN/254700000001", "payerfsp");
    let mut session = Session::open(pki.client(scheme.switch.fspiop, Some("payerfsp"), &[]));
    std::thread::scope(|scope| {
        let (hub, pki) = (scheme.switch.fspiop, &pki);
        let request = look_up.clone().with("connection", "close").render();
        let clients = (0..CLIENTS).map(|_| {
            let request = request.clone();
            let ask = move || run(pki.client(hub, Some("payerfsp"), &[]), &request).is(202, "");
            scope.spawn(move || (0..15).for_each(|_| ask()))
        });
        let clients: Vec<_> = clients.collect();
        let mut serial = 100;
        while clients.iter().any(|client| !client.is_finished()) {
            serial += 1;
            pki.issue_hub(serial);
            scheme.switch.signal(Signal::HUP);
            assert!(session.ask(&look_up).starts_with("HTTP/1.1 202"));
        }
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
}

#[test]
fn sessions_are_resumed_until_files_change() {
    let pki = Pki::new();
    let mut scheme = pki.scheme("");
    let kept = pki.path("session");
    let look_up = Message::new("GET", "/parties/MSISDN/254700000001", "payerfsp");
    let look_up = look_up.with("connection", "close").render();
    let ask = |scheme: &Scheme, option: &str| {
        let kept = [option, kept.to_str().expect("its name is text")];
        run(pki.client(scheme.switch.fspiop, Some("payerfsp"), &kept), &look_up)
    };
    let ask = |scheme: &Scheme, option: &str, result: &str| {
        let earlier = handshakes(scheme);
        ask(scheme, option).is(202, "");
        assert_eq!(handshakes(scheme)[result], earlier[result] + 1, "{result}");
    };
    ask(&scheme, "-sess_out", "complete");
    ask(&scheme, "-sess_in", "resumed");
    pki.issue_hub(2);
    reload(&mut scheme, "certificate of CN=hub");
    ask(&scheme, "-sess_in", "complete");
    scheme.end();
}

#[test]
fn unfinished_handshakes_end_in_time_and_delay_nobody() {
    let pki = Pki::new();
    let scheme = pki.scheme("header_timeout_ms = 1000\ntls_handshakes_per_address = 0\n");
    let look_up = Message::new("GET", "/parties/MSISDN/254700000001", "payerfsp");
    let connect = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(scheme.switch.fspiop).unwrap();
        // The hub may have closed it for a later one.
        let _written = stream.write_all(bytes);
        stream
    };
    // The start of a first message that announces more.
    let started = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    let silent: Vec<_> = (0..1_500).map(|_| connect(b"")).collect();
    let half: Vec<_> = (0..300).map(|_| connect(started)).collect();
    let began = Instant::now();
    pki.ask(&scheme, "payerfsp", &look_up).is(202, "");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    for mut stream in silent.into_iter().chain(half) {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut rest = Vec::new();
        // It is closed, or reset because bytes were not read.
        let ended = stream.read_to_end(&mut rest);
        assert!(!matches!(&ended, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock));
    }
    let counts = handshakes(&scheme);
    assert!(1_800 <= counts["timed_out"] + counts["evicted"] + counts["closed"], "{counts:?}");
    scheme.end();
}

#[test]
fn handshakes_of_an_address_are_limited() {
    let pki = Pki::new();
    let scheme = pki.scheme("tls_handshakes_per_address = 1\n");
    let ask = || run(pki.client(scheme.switch.fspiop, Some("payerfsp"), &[]), HEALTH.as_bytes());
    assert_eq!(ask().status(), 200);
    let deadline = Instant::now() + PATIENCE;
    while handshakes(&scheme)["rate_limited"] == 0 {
        let outcome = ask();
        assert!([0, 200].contains(&outcome.status()), "{outcome:?}");
        assert!(Instant::now() < deadline, "{:?}", handshakes(&scheme));
    }
    // A handshake is possible again as time passes.
    while ask().status() != 200 {
        assert!(Instant::now() < deadline, "{:?}", handshakes(&scheme));
    }
    scheme.end();
}

/// A response of `openssl ocsp` about the hub's certificate, whose state in the authority's index
/// is `V` (valid) or `R` (revoked).
fn write_ocsp_response(pki: &Pki, state: &str) {
    pki.write("ca.key", &pki.authority.key_pem());
    pki.write("index.txt", &format!("{state}\t01\tunknown\t/CN=hub\n"));
    let mut command = Command::new("openssl");
    command.args(["ocsp", "-ndays", "7", "-index"]).arg(pki.path("index.txt"));
    for (option, file) in
        [("-rsigner", "ca.pem"), ("-rkey", "ca.key"), ("-CA", "ca.pem"), ("-issuer", "ca.pem")]
    {
        command.arg(option).arg(pki.path(file));
    }
    command.arg("-cert").arg(pki.path("hub.pem")).arg("-respout").arg(pki.path("ocsp.der"));
    let outcome = run(command, b"");
    assert!(pki.path("ocsp.der").exists(), "{outcome:?}");
}

/// The hub sends the OCSP response of the file with its certificate, and a newer one after it was
/// read again.
#[test]
fn ocsp_response_is_stapled() {
    let pki = Pki::new();
    write_ocsp_response(&pki, "V\t330101000000Z\t");
    let file = pki.path("ocsp.der");
    let mut scheme = pki.scheme(&format!("tls_ocsp_file = \"{}\"\n", file.display()));
    let stapled = |scheme: &Scheme| {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-status", "-servername", "localhost", "-CAfile"]);
        command.arg(pki.path("ca.pem")).arg("-connect").arg(scheme.switch.fspiop.to_string());
        command.arg("-cert").arg(pki.path("payerfsp.pem"));
        command.arg("-key").arg(pki.path("payerfsp.key"));
        run(command, b"").text
    };
    let text = stapled(&scheme);
    assert!(text.contains("OCSP Response Status: successful"), "{text}");
    assert!(text.contains("Cert Status: good"), "{text}");
    write_ocsp_response(&pki, "R\t330101000000Z\t260101000000Z");
    reload(&mut scheme, "loaded");
    let text = stapled(&scheme);
    assert!(text.contains("Cert Status: revoked"), "{text}");
    scheme.end();
}

#[test]
fn client_without_tls_gets_a_readable_answer() {
    let pki = Pki::new();
    let scheme = pki.scheme("");
    let answer = {
        let mut stream = TcpStream::connect(scheme.switch.fspiop).unwrap();
        stream.write_all(HEALTH.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    assert!(answer.contains("this port expects TLS; use https://"), "{answer}");
    assert_eq!(handshakes(&scheme)["plain_http"], 1);
    scheme.end();
}

#[test]
fn older_version_is_a_setting_and_renegotiation_is_not() {
    let pki = Pki::new();
    let scheme = pki.scheme("tls_version_min = \"1.2\"\n");
    let health = |more: &[&str]| {
        run(pki.client(scheme.switch.fspiop, Some("payerfsp"), more), HEALTH.as_bytes()).status()
    };
    assert_eq!(health(&["-tls1_2"]), 200);
    assert_eq!(health(&["-tls1_3"]), 200);
    assert_eq!(health(&["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"]), 0);
    for weak in ["AES128-SHA", "AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA"] {
        assert_eq!(health(&["-tls1_2", "-cipher", weak]), 0, "{weak}");
    }
    // `R` as a line has the client renegotiate.
    let mut command = Command::new("openssl");
    command.args(["s_client", "-tls1_2", "-CAfile"]).arg(pki.path("ca.pem"));
    command.arg("-connect").arg(scheme.switch.fspiop.to_string());
    command.arg("-cert").arg(pki.path("payerfsp.pem")).arg("-key").arg(pki.path("payerfsp.key"));
    let outcome = run(command, b"R\n");
    let (_, after) = outcome.complaints.split_once("RENEGOTIATING").expect("it tried");
    assert!(after.contains(":error:") && !after.contains("verify return"), "{outcome:?}");
    scheme.end();
}

#[test]
fn admin_api_is_served_over_tls() {
    let pki = Pki::new();
    let settings = format!("[admin]\n{}", pki.settings());
    let home = Home::configured(&settings);
    let switch = home.serve();
    let ask = |client: Option<&str>, path: &str| {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--cacert"]).arg(pki.path("ca.pem"));
        if let Some(client) = client {
            command.arg("--cert").arg(pki.path(&format!("{client}.pem")));
            command.arg("--key").arg(pki.path(&format!("{client}.key")));
        }
        command.args(["--write-out", "HTTP/1.1 %{http_code}", "--header"]);
        command.arg(format!("authorization: Bearer {}", home.token()));
        command.arg(format!("https://{}{path}", switch.admin));
        run(command, b"")
    };
    ask(Some("payerfsp"), "/state").is(200, "logIndex");
    ask(Some("payerfsp"), "/metrics")
        .is(200, "upesi_tls_handshakes_total{listener=\"admin\",result=\"complete\"} 2");
    let refused = ask(None, "/participants");
    assert!(refused.status() == 0 && refused.complaints.contains("certificate required"));
    let mut plain = TcpStream::connect(switch.admin).unwrap();
    plain.write_all(HEALTH.as_bytes()).unwrap();
    let mut text = String::new();
    plain.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 400") && text.contains("use https://"), "{text}");
    switch.stop(Signal::TERM);
}

#[test]
fn unusable_files_prevent_the_start_and_are_named_by_the_check() {
    let pki = Pki::new();
    let check = |files: &dyn Fn(), expected: &str| {
        files();
        let settings = format!("[fspiop]\n{}", pki.settings());
        let home = Home::with(&settings);
        let started = home.serve_or_not();
        let reason = started.err().expect("it must not start");
        assert!(reason.contains(expected), "{expected}: {reason}");
        let mut command = Command::new(crate::support::switch::PROGRAM);
        let output = command.arg("check-config").arg(home.configuration()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(expected), "{expected}: {text}");
    };
    let request = CertificateRequest::new("hub", &[], 1);
    let expired = CertificateRequest { valid_days: -30..-1, ..request.clone() };
    check(&|| pki.issue("hub", &expired), "hub.pem: the certificate of CN=hub has expired");
    let other = || {
        pki.issue("other", &request);
        pki.issue_hub(1);
        std::fs::copy(pki.path("other.key"), pki.path("hub.key")).unwrap();
    };
    check(&other, "hub.key: is not the key of the certificate in ");
    let empty = || {
        pki.issue_hub(1);
        pki.write("ca.pem", "");
    };
    check(&empty, "fspiop.tls_client_ca_file: ");
}

/// A payee with a TLS server, which answers every request with 200 and passes it on. Over HTTP/2 it
/// is a service that answers every gRPC call.
struct SecurePayee {
    address: SocketAddr,
    requests: Receiver<String>,
}

impl SecurePayee {
    /// Serves with a certificate, and demands one of the hub.
    fn start(pki: &Pki, certificate: &str) -> Self {
        let files = ServerFiles {
            section: "payee",
            certificate: pki.path(&format!("{certificate}.pem")),
            key: pki.path(&format!("{certificate}.key")),
            client_ca: Some(pki.path("ca.pem")),
            client_certificates: ClientCertificates::Required,
            crl: None,
            ocsp: None,
            minimum: MinimumVersion::Tls13,
            protocols: &[b"h2", b"http/1.1"],
        };
        let tls = Arc::new(ServerTls::open(files).unwrap());
        let (sender, requests) = sync_channel(64);
        let (ready, address) = sync_channel(1);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                ready.send(listener.local_addr().unwrap()).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let (tls, sender) = (Arc::clone(&tls), sender.clone());
                    tokio::spawn(async move {
                        if let Ok(accepted) = tls.accept(stream, PATIENCE).await {
                            let peer = accepted.peer.expect("the hub has a certificate");
                            let name = peer.common_name().unwrap_or_default().to_owned();
                            let stream = accepted.stream;
                            let seen = move |head| drop(sender.send(format!("{name} {head}")));
                            match stream.get_ref().1.alpn_protocol() {
                                Some(b"h2") => answer_grpc(stream, seen).await,
                                _ => answer(stream, seen).await,
                            }
                        }
                    });
                }
            });
        });
        Self { address: address.recv().unwrap(), requests }
    }

    fn next(&self) -> String {
        self.requests.recv_timeout(PATIENCE).expect("a request")
    }
}

/// A server with a certificate that [`ServerTls`] refuses to use.
struct OpensslServer {
    child: Child,
    port: u16,
}

impl OpensslServer {
    fn start(pki: &Pki, certificate: &str) -> Self {
        let mut command = Command::new("openssl");
        command.args(["s_server", "-accept", "127.0.0.1:0", "-cert"]);
        command.arg(pki.path(&format!("{certificate}.pem"))).arg("-key");
        command.arg(pki.path(&format!("{certificate}.key")));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let port = output.lines().find_map(|line| {
            let line = line.unwrap();
            line.strip_prefix("ACCEPT ")?.rsplit_once(':')?.1.parse().ok()
        });
        Self { child, port: port.expect("a port") }
    }
}

impl Drop for OpensslServer {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// Answers each request with 200.
async fn answer<T>(mut stream: TlsStream<tokio::net::TcpStream>, seen: impl Fn(String) -> T) {
    let mut text = Vec::new();
    loop {
        let shown = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = shown.split_once("\r\n\r\n") else {
            match stream.read_buf(&mut text).await {
                Ok(1..) => continue,
                _ => return,
            }
        };
        let lower = head.to_ascii_lowercase();
        let length = lower.split_once("content-length: ").map_or("0", |(_, rest)| rest);
        let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
        if body.len() < length {
            if !matches!(stream.read_buf(&mut text).await, Ok(1..)) {
                return;
            }
            continue;
        }
        seen(head.lines().next().unwrap().to_owned());
        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        if stream.write_all(response).await.is_err() || stream.flush().await.is_err() {
            return;
        }
        text.clear();
    }
}

/// Answers each gRPC call with an empty message.
async fn answer_grpc(
    stream: TlsStream<tokio::net::TcpStream>,
    seen: impl Fn(String) + Clone + Send + 'static,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let seen = seen.clone();
        async move {
            let (path, version) = (request.uri().path(), request.version());
            seen(format!("{} {path} {version:?}", request.method()));
            let _message = request.into_body().collect().await;
            let status = HeaderValue::from_static("0");
            let trailers = HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), status)]);
            let empty = Full::new(Bytes::from_static(&[0; 5]));
            let body = empty.with_trailers(std::future::ready(Some(Ok(trailers))));
            let response = Response::builder().header("content-type", "application/grpc");
            Ok::<_, Infallible>(response.body(body).unwrap())
        }
    });
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let _ended = server.serve_connection(TokioIo::new(stream), service).await;
}

/// Calls over TLS, to payees with good and bad certificates.
#[test]
fn endpoints_are_called_over_tls_with_the_hubs_certificate() {
    let pki = Pki::new();
    let directory = pki.path("trust");
    std::fs::create_dir(&directory).unwrap();
    pki.issue("good", &CertificateRequest::new("payee", &["127.0.0.1"], 50));
    pki.issue("elsewhere", &CertificateRequest::new("payee", &["payee.example"], 51));
    let other = Authority::new("Payee CA");
    pki.keep("own", &other.issue(&CertificateRequest::new("payee", &["127.0.0.1"], 52)));
    let settings = format!(
        "[endpoints]\ntls_certificate_file = \"{}\"\ntls_key_file = \"{}\"\ntls_ca_file = \"{}\"\n\
         tls_ca_directory = \"{}\"\n",
        pki.path("hub.pem").display(),
        pki.path("hub.key").display(),
        pki.path("ca.pem").display(),
        directory.display(),
    );
    let mut scheme = Scheme::configured(&settings);
    let move_to = |scheme: &Scheme, payee: &SecurePayee| {
        let value = format!("https://{}/transfers", payee.address);
        scheme.admin.set_endpoint("payeefsp", "TRANSFER_POST", &value);
    };
    let count = |scheme: &Scheme, result: &str| {
        let labels = format!("{{listener=\"endpoints\",result=\"{result}\"}}");
        scheme.admin.metric(&format!("upesi_tls_handshakes_total{labels}"))
    };
    let good = SecurePayee::start(&pki, "good");
    move_to(&scheme, &good);
    for _ in 0..3 {
        scheme.send(&Transfer::of("1").prepare(), 202);
        assert_eq!(good.next(), "hub POST /transfers HTTP/2.0");
    }
    scheme.wait_until_delivered();
    let complete = count(&scheme, "complete");
    assert!((1..=3).contains(&complete), "connections are kept: {complete}");
    // A certificate of another host, then one of an authority that is not trusted yet.
    move_to(&scheme, &SecurePayee::start(&pki, "elsewhere"));
    scheme.send(&Transfer::of("1").prepare(), 202);
    let complaint = scheme.switch.wait_for_complaint("TLS handshake failed");
    assert!(complaint.contains("does not contain the name of the host"), "{complaint}");
    assert!(complaint.contains("participant=\"payeefsp\""), "{complaint}");
    assert_ne!(count(&scheme, "wrong_name"), 0);
    let own = SecurePayee::start(&pki, "own");
    move_to(&scheme, &own);
    scheme.switch.wait_for_complaint("was not issued by a trusted authority");
    assert!(own.requests.try_recv().is_err() && count(&scheme, "untrusted") != 0);
    let expired = CertificateRequest::new("payee", &["127.0.0.1"], 53);
    pki.issue("old", &CertificateRequest { valid_days: -30..-1, ..expired });
    self_signed(&pki, "self");
    for (certificate, result, reason) in [
        ("old", "expired", "the certificate has expired"),
        ("self", "untrusted", "was not issued by a trusted authority"),
    ] {
        let server = OpensslServer::start(&pki, certificate);
        let before = count(&scheme, result);
        let value = format!("https://127.0.0.1:{}/transfers", server.port);
        scheme.admin.set_endpoint("payeefsp", "TRANSFER_POST", &value);
        let result =
            format!("upesi_tls_handshakes_total{{listener=\"endpoints\",result=\"{result}\"}}");
        scheme.admin.wait_for(&result, |count| before < count);
        scheme.switch.wait_for_complaint(reason);
    }
    move_to(&scheme, &own);
    // It is trusted for this participant alone, and the owed callback is delivered.
    write_at_once(&directory.join("payeefsp.pem"), &other.pem()).unwrap();
    reload(&mut scheme, "endpoints: certificate of CN=hub, 2 authorities");
    assert_eq!(own.next(), "hub POST /transfers HTTP/2.0");
    scheme.wait_until_delivered();
    // The other participant's certificates are not covered by that authority.
    let value = format!("https://{}/transfers", own.address);
    scheme.admin.set_endpoint("otherfsp", "TRANSFER_POST", &value);
    let before = count(&scheme, "untrusted");
    let message = Transfer { payee: "otherfsp".into(), ..Transfer::of("1") }.prepare();
    scheme.send(&message, 202);
    let untrusted = "upesi_tls_handshakes_total{listener=\"endpoints\",result=\"untrusted\"}";
    scheme.admin.wait_for(untrusted, |count| before < count);
}

/// A participant whose server certificate is revoked is not called, also not on a connection that
/// was open before; its callbacks wait until it has another certificate.
#[test]
fn revoked_servers_of_participants_are_not_called() {
    let pki = Pki::new();
    pki.issue("payee", &CertificateRequest::new("payee", &["127.0.0.1"], 50));
    let settings = format!(
        "[endpoints]\ntls_certificate_file = \"{}\"\ntls_key_file = \"{}\"\ntls_ca_file = \"{}\"\n\
         tls_crl_file = \"{}\"\n",
        pki.path("hub.pem").display(),
        pki.path("hub.key").display(),
        pki.path("ca.pem").display(),
        pki.path("crl.pem").display(),
    );
    let mut scheme = Scheme::configured(&settings);
    let payee = SecurePayee::start(&pki, "payee");
    let value = format!("https://{}/transfers", payee.address);
    scheme.admin.set_endpoint("payeefsp", "TRANSFER_POST", &value);
    scheme.send(&Transfer::of("1").prepare(), 202);
    assert_eq!(payee.next(), "hub POST /transfers HTTP/2.0");
    scheme.wait_until_delivered();

    pki.write("crl.pem", &pki.authority.revocation_list(&[REVOKED, 50]));
    reload(&mut scheme, "endpoints: certificate of CN=hub, 1 authorities and 1 revocation lists");
    scheme.send(&Transfer::of("1").prepare(), 202);
    let complaint = scheme.switch.wait_for_complaint("TLS handshake failed");
    assert!(complaint.contains("the certificate is revoked"), "{complaint}");
    assert!(complaint.contains("participant=\"payeefsp\""), "{complaint}");
    let revoked = "upesi_tls_handshakes_total{listener=\"endpoints\",result=\"revoked\"}";
    assert_ne!(scheme.admin.metric(revoked), 0);
    assert_eq!(scheme.admin.metric("upesi_notices_owed"), 1);
    assert!(payee.requests.try_recv().is_err(), "it was called");
    // The lane is stalled after 5 s.
    let deadline = Instant::now() + PATIENCE;
    while !scheme.admin.get("/health").contains("TLS: the certificate is revoked") {
        assert!(Instant::now() < deadline, "{}", scheme.admin.get("/health"));
    }

    // The participant has another certificate.
    pki.issue("renewed", &CertificateRequest::new("payee", &["127.0.0.1"], 51));
    let renewed = SecurePayee::start(&pki, "renewed");
    let value = format!("https://{}/transfers", renewed.address);
    scheme.admin.set_endpoint("payeefsp", "TRANSFER_POST", &value);
    assert_eq!(renewed.next(), "hub POST /transfers HTTP/2.0");
    scheme.wait_until_delivered();
    scheme.switch.signal(Signal::TERM);
    let (status, complaints) = scheme.switch.end();
    assert!(status.success(), "{complaints}");
}

/// A receiver of alerts and a collector of traces, which both demand a certificate, get that of the
/// hub, and a changed one without a restart.
#[test]
fn webhooks_and_traces_present_the_certificate_of_the_hub() {
    let pki = Pki::new();
    pki.issue("server", &CertificateRequest::new("server", &["127.0.0.1"], 60));
    pki.write("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    let (webhook, collector) =
        (SecurePayee::start(&pki, "server"), SecurePayee::start(&pki, "server"));
    let path = |file: &str| pki.path(file).display().to_string();
    let own = format!(
        "tls_certificate_file = \"{}\"\ntls_key_file = \"{}\"\n",
        path("hub.pem"),
        path("hub.key")
    );
    let settings = format!(
        "[alerts]\nwebhook_url = \"https://{}/alerts\"\nwebhook_secret_file = \"{}\"\n\
         ca = \"{}\"\n{own}[traces]\nendpoint = \"https://{}\"\nratio = 1.0\n\
         tls_ca_file = \"{}\"\n{own}",
        webhook.address,
        path("secret"),
        path("ca.pem"),
        collector.address,
        path("ca.pem"),
    );
    let scheme = Scheme::configured(&settings);
    let received = |name: &str, limit: &str| {
        scheme.admin.set_limit("payerfsp", limit);
        assert_eq!(webhook.next(), format!("{name} POST /alerts HTTP/1.1"));
        // Spans of earlier messages may still be exported with the former certificate.
        scheme.send(&Transfer::of("1").prepare(), 202);
        while collector.next() != format!("{name} POST /v1/traces HTTP/1.1") {
            scheme.send(&Transfer::of("1").prepare(), 202);
        }
    };
    received("hub", "900");
    pki.issue("hub", &CertificateRequest::new("renewed", &["localhost", "127.0.0.1"], 61));
    let expires = "upesi_certificate_expires_timestamp_seconds";
    for section in ["alerts", "traces"] {
        let labels = "kind=\"certificate\",subject=\"CN=renewed\"";
        let sample = format!("{expires}{{listener=\"{section}\",{labels}}}");
        scheme.switch.signal(Signal::HUP);
        let deadline = Instant::now() + PATIENCE;
        while !scheme.admin.get("/metrics").contains(&sample) {
            assert!(Instant::now() < deadline, "{sample}");
        }
    }
    received("renewed", "901");
    // A certificate that the hub does not trust is refused, and the alert stays owed.
    pki.write("ca.pem", &Authority::new("Other CA").pem());
    scheme.switch.signal(Signal::HUP);
    scheme.switch.wait_for_messages("reloaded the configuration on SIGHUP", 3);
    let other = "subject=\"CN=Other CA\"";
    let deadline = Instant::now() + PATIENCE;
    while !scheme.admin.get("/metrics").contains(other) {
        assert!(Instant::now() < deadline, "not loaded");
    }
    scheme.admin.set_limit("payerfsp", "902");
    let untrusted = "upesi_tls_handshakes_total{listener=\"alerts\",result=\"untrusted\"}";
    scheme.admin.wait_for(untrusted, |count| 0 < count);
}

/// A collector that demands a certificate gets that of the hub over gRPC too, and a changed one
/// without a restart. A collector of another authority gets nothing.
#[test]
fn spans_are_exported_by_grpc_with_the_certificate_of_the_hub() {
    let pki = Pki::new();
    pki.issue("server", &CertificateRequest::new("server", &["127.0.0.1"], 60));
    let collector = SecurePayee::start(&pki, "server");
    let path = |file: &str| pki.path(file).display().to_string();
    let scheme = Scheme::configured(&format!(
        "[traces]\nprotocol = \"grpc\"\nendpoint = \"https://{}\"\nratio = 1.0\n\
         tls_ca_file = \"{}\"\ntls_certificate_file = \"{}\"\ntls_key_file = \"{}\"\n",
        collector.address,
        path("ca.pem"),
        path("hub.pem"),
        path("hub.key"),
    ));
    let service = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    let received = |name: &str| {
        scheme.send(&Transfer::of("1").prepare(), 202);
        while collector.next() != format!("{name} POST {service} HTTP/2.0") {
            scheme.send(&Transfer::of("1").prepare(), 202);
        }
    };
    let reload = |shown: &str| {
        scheme.switch.signal(Signal::HUP);
        let deadline = Instant::now() + PATIENCE;
        while !scheme.admin.get("/metrics").contains(shown) {
            assert!(Instant::now() < deadline, "{shown}");
        }
    };
    received("hub");
    pki.issue("hub", &CertificateRequest::new("renewed", &["localhost", "127.0.0.1"], 61));
    reload("{listener=\"traces\",kind=\"certificate\",subject=\"CN=renewed\"}");
    received("renewed");
    pki.write("ca.pem", &Authority::new("Other CA").pem());
    reload("subject=\"CN=Other CA\"");
    scheme.send(&Transfer::of("1").prepare(), 202);
    scheme.admin.wait_for("upesi_span_exports_failed_total", |count| 0 < count);
}
