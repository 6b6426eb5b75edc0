//! Plays one conversation: each step in order, up to the first difference.
//!
//! Apart from the lines of a conversation, some checks always apply: the usual headers of every
//! received message, the limits of an error body, an unchanged state after a refusal (`unchanged`),
//! and no unexpected message.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::http::{self, Client, Headers, Request};
use testkit::server::Reply;

use crate::defaults::{self, Call};
use crate::expect::{self, Difference, compare, matches};
use crate::fsp::{Fsp, ResponseMode};
use crate::hub::{Account, Operator, RESPONSE_TIMEOUT, TestedHub};
use crate::keys;
use crate::parse::{
    Action, Body, Change, Conversation, ConversationStep, ExpectedBody, ExpectedMessage,
    ExpectedResponse, HeaderLine, KeptMember, NewMessage, SendStep, SentMessage, Signing,
};
use crate::unchanged::{
    AfterRefusal, HubReading, ReservedAmount, UnchangedCounts, ends_transfer, is_amount_returned,
    sum,
};
use crate::variables::Variables;

/// Time without a message after which none is expected any more.
const QUIET: Duration = Duration::from_millis(250);
/// Time before a refused message after which the state differed is sent again: deliveries and the
/// clock change it too. Doubled each time up to the second value.
const RESEND_AFTER: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(320));
/// Headers of one connection, which no hub forwards unchanged.
const HOP_BY_HOP: [&str; 9] = [
    "host",
    "content-length",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "transfer-encoding",
    "expect",
];

/// The first difference, and the line of the conversation that it contradicts.
#[derive(Debug)]
pub(crate) struct Mismatch {
    pub(crate) line: usize,
    pub(crate) what: String,
}

/// Shared by all conversations of a run.
pub(crate) struct RunContext<'a> {
    pub(crate) hub: &'a TestedHub,
    /// Held for writing while a refusal is checked, so that no other conversation moves the log.
    pub(crate) quiet: &'a RwLock<()>,
    pub(crate) tally: &'a UnchangedCounts,
    pub(crate) callback_host: &'a str,
    pub(crate) patience: Duration,
}

struct ConversationRunner<'a> {
    context: &'a RunContext<'a>,
    scope: Variables,
    fsps: BTreeMap<String, Fsp>,
    joined: Vec<String>,
    client: Client,
    operator: Operator,
    sent: Vec<SentRequest>,
    /// All balances before the last transfer message.
    before: Vec<Account>,
    /// All balances before the last message, or after the operator's last change.
    latest: Vec<Account>,
}

/// A message as it was sent.
#[derive(Clone)]
struct SentRequest {
    label: Option<String>,
    admin: bool,
    from: Option<String>,
    request: Request,
}

/// Plays a conversation to its end or to the first difference.
pub(crate) fn play(context: &RunContext<'_>, conversation: &Conversation) -> Result<(), Mismatch> {
    let mut runner = ConversationRunner {
        context,
        scope: Variables::new(),
        fsps: BTreeMap::new(),
        joined: Vec::new(),
        client: Client::new(context.hub.fspiop, RESPONSE_TIMEOUT),
        operator: context.hub.operator(),
        sent: Vec::new(),
        before: Vec::new(),
        latest: Vec::new(),
    };
    let result = runner.play(&conversation.steps);
    result.map_err(|Mismatch { line, what }| Mismatch { line, what: runner.scope.shown(&what) })
}

impl ConversationRunner<'_> {
    fn play(&mut self, steps: &[ConversationStep]) -> Result<(), Mismatch> {
        let first = steps.first().map_or(1, |step| step.line);
        for name in ["dfsp1", "dfsp2"] {
            let joined = self.join(name, "USD", Endpoints::Registered);
            joined.map_err(|what| Mismatch { line: first, what: format!("{name}: {what}") })?;
        }
        for step in steps {
            self.step(step)?;
        }
        let last = steps.last().map_or(1, |step| step.line);
        thread::sleep(QUIET);
        let names: Vec<String> = self.fsps.keys().cloned().collect();
        for name in names {
            self.check_nothing_received(&name).map_err(|what| Mismatch { line: last, what })?;
        }
        Ok(())
    }

    fn step(&mut self, step: &ConversationStep) -> Result<(), Mismatch> {
        let line = step.line;
        let result = match &step.action {
            Action::Send(send) => return self.send(line, send),
            Action::Gets(gets) => self.gets(gets),
            Action::GetsNothing(fsp) => {
                thread::sleep(QUIET);
                self.check_nothing_received(fsp)
            }
            Action::Has { fsp, account, value, currency } => {
                self.has(fsp, (account, currency), value)
            }
            Action::BalancesUnchanged => self.balances_unchanged(),
            Action::Wait(time) => {
                thread::sleep(*time);
                Ok(())
            }
            Action::Joins { fsp, currency, endpoints: true } => {
                self.join(fsp, currency, Endpoints::Registered)
            }
            Action::Joins { fsp, currency, endpoints: false } => {
                self.join(fsp, currency, Endpoints::Missing)
            }
            Action::Answers { fsp, mode } => self.set_response_mode(fsp, mode.clone()),
            Action::Leaves(fsp) => {
                self.fsps.remove(fsp);
                Ok(())
            }
        };
        result.map_err(|what| Mismatch { line, what })
    }

    fn join(&mut self, name: &str, currency: &str, endpoints: Endpoints) -> Result<(), String> {
        let host = self.context.callback_host;
        let fsp = Fsp::start(self.scope.real(name), host == "127.0.0.1")
            .map_err(|error| error.to_string())?;
        let base = format!("http://{host}:{}", fsp.port());
        let base = (endpoints == Endpoints::Registered).then_some(base.as_str());
        if currency != "USD" {
            self.context.hub.create_accounts(currency).map_err(|error| error.to_string())?;
        }
        let _shared = self.context.quiet.read().unwrap_or_else(PoisonError::into_inner);
        self.operator.onboard(&self.scope.real(name), currency, base)?;
        self.scope.set(&format!("base.{name}"), format!("http://{host}:{}", fsp.port()));
        self.fsps.insert(name.to_owned(), fsp);
        self.joined.push(name.to_owned());
        Ok(())
    }

    fn send(&mut self, line: usize, send: &SendStep) -> Result<(), Mismatch> {
        let at = |line: usize| move |what: String| Mismatch { line, what };
        let sent = match &send.message {
            SentMessage::Again(label) => self.find_sent(label.as_deref()).map_err(at(line))?,
            SentMessage::New(message) => {
                let request = self.request(message).map_err(at(line))?;
                if let Some(label) = &send.label {
                    self.remember_signature(label, &request);
                }
                let (admin, from) = (message.admin, message.from.clone());
                SentRequest { label: send.label.clone(), admin, from, request }
            }
        };
        if !sent.admin {
            self.latest = self.balances().map_err(at(line))?;
            if sent.request.method != "GET" && sent.request.path.contains("transfers") {
                self.before.clone_from(&self.latest);
            }
        }
        let refused = send.answer.status.starts_with(['4', '5']);
        let answer = match refused {
            true => self.call_refused(&sent).map_err(at(line))?,
            false => {
                let _shared = self.context.quiet.read().unwrap_or_else(PoisonError::into_inner);
                self.call(&sent).map_err(at(line))?
            }
        };
        if sent.admin && sent.request.method != "GET" {
            self.latest = self.balances().map_err(at(line))?;
        }
        self.sent.push(sent);
        self.check_answer(&send.answer, &answer).map_err(at(send.answer.line))?;
        self.keep_members(&send.answer.kept, &answer.body).map_err(at(send.answer.line))
    }

    /// Gives variables the values of members of an answer.
    fn keep_members(&mut self, kept: &[KeptMember], body: &[u8]) -> Result<(), String> {
        for KeptMember { path, name } in kept {
            let body: Value = serde_json::from_slice(body).unwrap_or_default();
            let value = match body.pointer(&format!("/{}", path.replace('.', "/"))) {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Number(number)) => number.to_string(),
                other => return Err(differ(&format!("{path}: a value"), &format!("{other:?}"))),
            };
            self.scope.set(name, value);
        }
        Ok(())
    }

    fn call(&mut self, sent: &SentRequest) -> Result<http::Response, String> {
        let client = if sent.admin { &mut self.operator.client } else { &mut self.client };
        client.call(&sent.request).map_err(|error| error.to_string())
    }

    /// Sends a message that is refused, and sees that the hub stays as it was. Deliveries and the
    /// clock change it too: then the message is sent again, until patience ends.
    fn call_refused(&mut self, sent: &SentRequest) -> Result<http::Response, String> {
        let _alone = self.context.quiet.write().unwrap_or_else(PoisonError::into_inner);
        let deadline = Instant::now() + self.context.patience;
        let (mut pause, pause_max) = RESEND_AFTER;
        loop {
            let before = self.reading()?;
            let answer = self.call(sent)?;
            let after = self.reading()?;
            if answer.status < 400 {
                return Ok(answer);
            }
            if let Some(left) = before.left(&after, sent.admin) {
                self.context.tally.count(left);
                return Ok(answer);
            }
            if deadline < Instant::now() {
                let moved = format!("{before:?}\nthen:     {after:?}");
                return Err(differ("a refusal leaves the hub as it was", &moved));
            }
            thread::sleep(pause);
            pause = pause_max.min(2 * pause);
        }
    }

    fn reading(&mut self) -> Result<HubReading, String> {
        match self.operator.state() {
            Some(state) => Ok(HubReading::State(state)),
            None => self.balances().map(HubReading::Balances),
        }
    }

    /// An error that the hub sends: it moved nothing, or ended a transfer and gave its amount back.
    /// The payee's own error comes back to it as it was, or in the form in which the hub signs.
    fn check_refused(&mut self, gets: &ExpectedMessage, error: &Request) -> Result<(), String> {
        let now = self.balances()?;
        if now == self.latest {
            self.context.tally.count(AfterRefusal::Callback);
            return Ok(());
        }
        let is_own = |sent: &SentRequest| {
            // The error about a bulk is sent to the payer by the hub, too.
            (sent.from.as_ref() == Some(&gets.fsp) || error.path.starts_with("/bulkTransfers/"))
                && sent.request.path == error.path
                && same_value(&sent.request.body, &error.body)
        };
        let ends = ends_transfer(&error.body) || self.sent.iter().any(is_own);
        let reserved = ends.then(|| self.reserved(&error.path)).flatten();
        if reserved.is_some_and(|reserved| is_amount_returned(&self.latest, &now, &reserved)) {
            self.context.tally.count(AfterRefusal::Ended);
            return Ok(());
        }
        Err(differ(&values(&self.latest), &values(&now)))
    }

    /// The transfer, or the items of the bulk, that an error is about, as they were asked for.
    fn reserved(&self, path: &str) -> Option<ReservedAmount> {
        let path = path.strip_suffix("/error")?;
        let (resource, id) = path.rsplit_once('/')?;
        let member = match resource {
            "/transfers" => "transferId",
            "/bulkTransfers" => "bulkTransferId",
            _ => return None,
        };
        let bodies = self.sent.iter().filter(|sent| sent.request.path == resource);
        let mut bodies =
            bodies.filter_map(|sent| serde_json::from_slice::<Value>(&sent.request.body).ok());
        let body = bodies.find(|body| body[member] == id)?;
        let amounts: Vec<&Value> = match body["individualTransfers"].as_array() {
            Some(items) => items.iter().map(|item| &item["transferAmount"]).collect(),
            None => vec![&body["amount"]],
        };
        let name = self.joined.iter().find(|name| body["payerFsp"] == self.scope.real(name))?;
        let accounts = self.context.hub.operator().accounts(&self.scope.real(name)).ok()?;
        let currency = amounts.first()?["currency"].as_str()?;
        let wanted = |one: &&Account| one.kind == "POSITION" && one.currency == currency;
        let account = accounts.iter().find(wanted)?.id.clone();
        let amount = sum(amounts.iter().filter_map(|money| money["amount"].as_str()))?;
        Some(ReservedAmount { account, amount })
    }

    fn check_answer(
        &mut self,
        expected: &ExpectedResponse,
        found: &http::Response,
    ) -> Result<(), String> {
        let status = format!("{} {}", found.status, found.reason);
        if status != expected.status {
            let body = String::from_utf8_lossy(&found.body);
            return Err(differ(&expected.status, &format!("{status} {body}")));
        }
        self.check_lines(&expected.headers, &found.headers)?;
        self.check_body(&expected.body, &found.body)
    }

    fn gets(&mut self, gets: &ExpectedMessage) -> Result<(), String> {
        let path = self.fill(&gets.path)?;
        let method = gets.method.as_str();
        let taken = self.fsp(&gets.fsp)?.take(method, &path, self.context.patience);
        let Some(message) = taken else {
            let kept = self.fsp(&gets.fsp)?.received().join("\n          ");
            let kept = if kept.is_empty() { "nothing".to_owned() } else { kept };
            return Err(differ(&format!("{method} {path}"), &kept));
        };
        self.check_usual(gets, &message)?;
        match &gets.signed {
            Some(key) => keys::verify(&message, key)?,
            None if gets.from == "Hub" => {
                if let Some(value) = message.headers.get("fspiop-signature") {
                    return Err(header_differs("fspiop-signature", "none", Some(value)));
                }
            }
            None => (),
        }
        self.check_lines(&gets.headers, &message.headers)?;
        self.check_body(&gets.body, &message.body)?;
        match gets.from == "Hub" && path.ends_with("/error") {
            true => self.check_refused(gets, &message),
            false => Ok(()),
        }
    }

    /// Checks of the headers of every message, unless the conversation overrides them.
    fn check_usual(&self, gets: &ExpectedMessage, message: &Request) -> Result<(), String> {
        let trace = format!("00-{}-{{any}}", self.scope.fill("{trace}")?);
        let mut usual = vec![
            ("fspiop-source", self.scope.real(&gets.from)),
            ("fspiop-destination", self.scope.real(&gets.fsp)),
            ("date", "{http-date}".to_owned()),
            ("fspiop-uri", message.path.clone()),
            ("fspiop-http-method", gets.method.clone()),
            ("traceparent", trace),
            ("tracestate", "{any}".to_owned()),
        ];
        if gets.from == "Hub" {
            let resource = message.path.split('/').nth(1).unwrap_or_default();
            let version = defaults::VERSION;
            let media =
                format!("application/vnd.interoperability.{resource}+json;version={version}");
            usual.push(("content-type", media));
        } else {
            let headers = self.sent_headers(gets, message);
            usual.retain(|(name, _)| headers.iter().all(|(known, _)| known != name));
            usual.extend(headers);
        }
        let is_overridden =
            |name: &str| gets.headers.iter().any(|it| it.name.eq_ignore_ascii_case(name));
        for (name, pattern) in usual.into_iter().filter(|(name, _)| !is_overridden(name)) {
            match message.headers.get(name) {
                Some(value) if matches(&pattern, value) => (),
                value => return Err(header_differs(name, &pattern, value)),
            }
        }
        match message.headers.get("accept") {
            Some(value)
                if gets.method != "GET" && gets.method != "POST" && !is_overridden("accept") =>
            {
                Err(header_differs("accept", "no such header", Some(value)))
            }
            _ => Ok(()),
        }
    }

    /// The headers of the message that is forwarded, as far as they go from end to end.
    fn sent_headers(&self, gets: &ExpectedMessage, message: &Request) -> Vec<(&str, String)> {
        let resource = |path: &str| path.split('/').nth(1).map(str::to_owned);
        let forwarded = self.sent.iter().rev().find(|sent| {
            sent.from.as_deref() == Some(&gets.from)
                && sent.request.method == gets.method
                && resource(&sent.request.path) == resource(&message.path)
        });
        let headers = forwarded.map(|sent| sent.request.headers.as_slice()).unwrap_or_default();
        let names = ["traceparent", "fspiop-destination"];
        let end_to_end = |name: &str| {
            !HOP_BY_HOP.contains(&name)
                && !names.contains(&name)
                && (name != "accept" || gets.method == "GET" || gets.method == "POST")
        };
        let kept = headers.iter().filter(|(name, _)| end_to_end(name));
        kept.map(|(name, value)| (name.as_str(), value.clone())).collect()
    }

    fn check_lines(&self, lines: &[HeaderLine], found: &Headers) -> Result<(), String> {
        for HeaderLine { name, value, .. } in lines {
            let found = found.get(&name.to_ascii_lowercase());
            match (value, found) {
                (None, None) => (),
                (None, found) => return Err(header_differs(name, "no such header", found)),
                (Some(pattern), found) => {
                    let pattern = self.fill_pattern(pattern)?;
                    if !found.is_some_and(|value| matches(&pattern, value)) {
                        return Err(header_differs(name, &pattern, found));
                    }
                }
            }
        }
        Ok(())
    }

    fn check_body(&mut self, expected: &ExpectedBody, found: &[u8]) -> Result<(), String> {
        let text = String::from_utf8_lossy(found);
        check_error_form(found)?;
        match expected {
            ExpectedBody::Any => Ok(()),
            ExpectedBody::Empty if found.is_empty() => Ok(()),
            ExpectedBody::Empty => Err(differ("an empty body", &text)),
            ExpectedBody::Same(label) => {
                let sent = self.find_sent(label.as_deref())?.request.body;
                match sent == found {
                    true => Ok(()),
                    false => Err(differ(&String::from_utf8_lossy(&sent), &text)),
                }
            }
            ExpectedBody::Json(pattern) => {
                let pattern = expect::parse(&self.fill(pattern)?)?;
                let Ok(value) = serde_json::from_slice(found) else {
                    return Err(differ("a body of JSON", &text));
                };
                match compare(&pattern, &value) {
                    None => Ok(()),
                    Some(Difference { path, expected, found }) => {
                        let place = if path.is_empty() { String::new() } else { path + " = " };
                        let whole = format!("{place}{found}\nin:       {text}");
                        Err(differ(&format!("{place}{expected}"), &whole))
                    }
                }
            }
        }
    }

    fn request(&mut self, message: &NewMessage) -> Result<Request, String> {
        let path = self.fill(&message.path)?;
        let mut headers = Headers::default();
        let mut body = String::new();
        if message.admin {
            headers = self.operator.headers();
        } else if let Some(from) = &message.from {
            let (to, method) = (message.to.as_deref(), message.method.as_str());
            let call = Call { method, path: &path, from, to, version: &message.version };
            headers = defaults::headers(&call);
            body = defaults::body(&call);
        }
        let mut filled = Headers::default();
        for (name, value) in headers.0 {
            filled.push((name.to_ascii_lowercase(), self.fill(&value)?));
        }
        self.set_headers(&mut filled, &message.headers)?;
        let body = match &message.body {
            Body::Given(text) => self.fill(text)?,
            Body::Usual(changes) => self.changed(&body, changes)?,
        };
        let method = message.method.clone();
        let request = Request { method, path, headers: filled, body: body.into_bytes() };
        match &message.signing {
            None => Ok(request),
            Some(signing) => self.signed(request, signing),
        }
    }

    /// The request with its signature, and what is changed after it was signed.
    fn signed(&mut self, mut request: Request, signing: &Signing) -> Result<Request, String> {
        let uri = request.path.clone();
        for (name, value) in [("fspiop-uri", uri), ("fspiop-http-method", request.method.clone())] {
            if !request.headers.has(name) {
                request.headers.push((name.to_owned(), value));
            }
        }
        let form = signing.canonical.then(|| jws::canonical(&request.body)).flatten();
        let body = form.as_deref().unwrap_or(&request.body);
        let value = keys::sign(&request, body, &signing.key)?;
        request.headers.push(("fspiop-signature".to_owned(), value));
        self.set_headers(&mut request.headers, &signing.headers)?;
        if !signing.changes.is_empty() {
            let text = String::from_utf8(request.body).map_err(|error| error.to_string())?;
            request.body = self.changed(&text, &signing.changes)?.into_bytes();
        }
        if signing.bodiless {
            request.body.clear();
        }
        Ok(request)
    }

    fn set_headers(&mut self, headers: &mut Headers, lines: &[HeaderLine]) -> Result<(), String> {
        for line in lines {
            let name = line.name.to_ascii_lowercase();
            if !line.further {
                headers.retain(|(known, _)| *known != name);
            }
            if let Some(value) = &line.value {
                headers.push((name, self.fill(value)?));
            }
        }
        Ok(())
    }

    /// Gives the parts of a signature names, for messages that misuse it.
    fn remember_signature(&mut self, label: &str, request: &Request) {
        let Some(value) = request.headers.get("fspiop-signature") else { return };
        let parts: Value = serde_json::from_str(value).unwrap_or_default();
        let part = |name: &str| parts[name].as_str().unwrap_or_default().to_owned();
        self.scope.set(&format!("signature.{label}"), part("signature"));
        self.scope.set(&format!("protected-header.{label}"), part("protectedHeader"));
    }

    /// The usual body with some members set or taken out.
    fn changed(&mut self, usual: &str, changes: &[Change]) -> Result<String, String> {
        let text = self.fill(usual)?;
        if changes.is_empty() {
            return Ok(text);
        }
        let mut body: Value =
            serde_json::from_str(&text).map_err(|_| "this message has no usual body".to_owned())?;
        for Change { path, value } in changes {
            let mut names: Vec<&str> = path.split('.').collect();
            let last = names.pop().unwrap_or_default();
            let mut place = &mut body;
            for name in names {
                place = &mut place[name];
            }
            match (value, place.as_object_mut()) {
                (None, Some(members)) => drop(members.remove(last)),
                (Some(value), _) => {
                    let value = self.fill(value)?;
                    let value = serde_json::from_str(&value);
                    place[last] = value.map_err(|error| format!("{path}: not JSON: {error}"))?;
                }
                (None, None) => return Err(format!("the body has no member {path}")),
            }
        }
        Ok(body.to_string())
    }

    fn has(
        &mut self,
        fsp: &str,
        (kind, currency): (&str, &str),
        value: &str,
    ) -> Result<(), String> {
        let accounts = self.operator.accounts(&self.scope.real(fsp))?;
        let wanted = |one: &&Account| one.kind == kind && one.currency == currency;
        let found = accounts.iter().find(wanted).ok_or("there is no such account")?;
        match found.value.parse::<f64>().ok() == value.parse::<f64>().ok() {
            true => Ok(()),
            false => Err(differ(&format!("{kind} {value}"), &format!("{kind} {}", found.value))),
        }
    }

    fn balances(&mut self) -> Result<Vec<Account>, String> {
        let mut all = Vec::new();
        for name in &self.joined {
            all.extend(self.operator.accounts(&self.scope.real(name))?);
        }
        Ok(all)
    }

    fn balances_unchanged(&mut self) -> Result<(), String> {
        let now = self.balances()?;
        match now == self.before {
            true => Ok(()),
            false => Err(differ(&values(&self.before), &values(&now))),
        }
    }

    fn check_nothing_received(&self, name: &str) -> Result<(), String> {
        match self.fsp(name)?.received().as_slice() {
            [] => Ok(()),
            kept => Err(differ(&format!("nothing more for {name}"), &kept.join("\n          "))),
        }
    }

    /// Sets how a participant answers, with the variables and names of this conversation.
    fn set_response_mode(&mut self, fsp: &str, mut mode: ResponseMode) -> Result<(), String> {
        if let Reply::Response(response) = &mut mode.reply {
            let body = self.scope.fill(&String::from_utf8_lossy(&response.body))?;
            response.body = body.into_bytes();
        }
        self.fsp(fsp).map(|fsp| fsp.set_response_mode(mode))
    }

    fn fsp(&self, name: &str) -> Result<&Fsp, String> {
        self.fsps.get(name).ok_or_else(|| format!("{name} has not joined"))
    }

    fn find_sent(&self, label: Option<&str>) -> Result<SentRequest, String> {
        let wanted = |sent: &&SentRequest| match label {
            Some(label) => sent.label.as_deref() == Some(label),
            None => !sent.admin,
        };
        let found = self.sent.iter().rev().find(wanted);
        found.cloned().ok_or_else(|| "no such message was sent".to_owned())
    }

    /// Fills in all words; `{account.dfsp1.POSITION}` is asked of the hub.
    fn fill(&mut self, text: &str) -> Result<String, String> {
        for (at, _) in text.match_indices("{account.") {
            let name = crate::variables::placeholder(&text[at..]).unwrap_or_default();
            let words: Vec<&str> = name.split('.').collect();
            let (fsp, kind, currency) = match *words.as_slice() {
                [_, fsp, kind] => (fsp, kind, "USD"),
                [_, fsp, kind, currency] => (fsp, kind, currency),
                _ => return Err("`{account.dfsp1.POSITION}` is meant".to_owned()),
            };
            let accounts = self.operator.accounts(&self.scope.real(fsp))?;
            let wanted = |one: &&Account| one.kind == kind && one.currency == currency;
            let account = accounts.iter().find(wanted).ok_or("there is no such account")?;
            self.scope.set(name, account.id.clone());
        }
        self.scope.fill(text)
    }

    fn fill_pattern(&self, pattern: &str) -> Result<String, String> {
        self.scope.fill(pattern)
    }
}

/// Whether a participant has registered its endpoints.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Endpoints {
    Registered,
    Missing,
}

fn values(accounts: &[Account]) -> String {
    let one = |one: &Account| format!("{} {}", one.kind, one.value);
    accounts.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The limits of an error body (hub-semantics 1.4), whatever its content.
fn check_error_form(body: &[u8]) -> Result<(), String> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let error = &body["errorInformation"];
    if error.is_null() {
        return Ok(());
    }
    let length = |value: &Value| value.as_str().map_or(0, |text| text.chars().count());
    let extensions = error["extensionList"]["extension"].as_array();
    let fits = |one: &Value| {
        (1..=32).contains(&length(&one["key"])) && (1..=128).contains(&length(&one["value"]))
    };
    let whole = length(&error["errorCode"]) == 4
        && (1..=128).contains(&length(&error["errorDescription"]))
        && extensions.is_none_or(|list| (1..=16).contains(&list.len()) && list.iter().all(fits));
    match whole {
        true => Ok(()),
        false => Err(differ("an error within its bounds", &error.to_string())),
    }
}

/// Whether two bodies are the same JSON value.
fn same_value(one: &[u8], other: &[u8]) -> bool {
    let value = |body| serde_json::from_slice::<Value>(body).ok();
    value(one).is_some_and(|one| value(other) == Some(one))
}

fn differ(expected: &str, found: &str) -> String {
    format!("expected: {expected}\nfound:    {found}")
}

fn header_differs(name: &str, expected: &str, found: Option<&str>) -> String {
    differ(&format!("{name}: {expected}"), &format!("{name}: {}", found.unwrap_or("(absent)")))
}
