//! Parses the text of a conversation into its steps. The grammar is in `conversations/README.md`.
//! An invalid line is an error with its number.

use std::iter::Peekable;
use std::time::Duration;

use testkit::http::{self, Headers};
use testkit::server::Reply;

use crate::defaults;
use crate::fsp::ResponseMode;
use crate::variables::placeholder;

const SIGNED_WITH: &str = "signed with ";
const KEEP: &str = "keep ";
const KEEP_FORM: &str = "`keep a.b as name` is meant, directly after the status";

/// A file.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    /// Path as it is shown, from the directory of the conversations.
    pub(crate) file: String,
    pub(crate) title: String,
    pub(crate) rows: Vec<Row>,
    /// Whether it needs a hub of its own, on which nothing has happened yet.
    pub(crate) own_hub: bool,
    /// Settings of its own hub that are not the usual ones: `section.name = value`.
    pub(crate) settings: Vec<String>,
    pub(crate) steps: Vec<ConversationStep>,
}

/// A row that is covered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) line: usize,
    /// Name, as in rows.txt: `3.4 "same, COMMITTED"`.
    pub(crate) name: String,
}

/// One step of a conversation.
#[derive(Debug)]
pub(crate) struct ConversationStep {
    /// Line number, from 1.
    pub(crate) line: usize,
    pub(crate) action: Action,
}

#[derive(Debug)]
pub(crate) enum Action {
    Send(SendStep),
    Gets(ExpectedMessage),
    GetsNothing(String),
    Has { fsp: String, account: String, value: String, currency: String },
    BalancesUnchanged,
    Wait(Duration),
    Joins { fsp: String, currency: String, endpoints: bool },
    Answers { fsp: String, mode: ResponseMode },
    Leaves(String),
}

/// A request to the hub and its answer.
#[derive(Debug)]
pub(crate) struct SendStep {
    pub(crate) message: SentMessage,
    /// Name under which the message can be sent again.
    pub(crate) label: Option<String>,
    pub(crate) answer: ExpectedResponse,
}

#[derive(Debug)]
pub(crate) enum SentMessage {
    New(Box<NewMessage>),
    /// A message sent before, byte for byte; the last one without a label.
    Again(Option<String>),
}

#[derive(Debug)]
pub(crate) struct NewMessage {
    /// Whether it goes to the admin API.
    pub(crate) admin: bool,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) version: String,
    pub(crate) headers: Vec<HeaderLine>,
    pub(crate) body: Body,
    pub(crate) signing: Option<Signing>,
}

/// `signed with rsa [in canonical form]`, and the lines after it: changes on the way.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Signing {
    pub(crate) key: String,
    /// Over the body compact and sorted, whatever form is sent.
    pub(crate) canonical: bool,
    pub(crate) headers: Vec<HeaderLine>,
    pub(crate) changes: Vec<Change>,
    /// `no body`: signed with one, sent without.
    pub(crate) bodiless: bool,
}

/// `Name: value`, `+ Name: value` for a further one, or `- Name`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HeaderLine {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
    pub(crate) further: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// The usual one, with members set or taken out.
    Usual(Vec<Change>),
    Given(String),
}

/// `with a.b = value`, or `without a.b`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) path: String,
    pub(crate) value: Option<String>,
}

/// The hub's expected response.
#[derive(Debug)]
pub(crate) struct ExpectedResponse {
    pub(crate) line: usize,
    /// Status and reason phrase.
    pub(crate) status: String,
    pub(crate) headers: Vec<HeaderLine>,
    pub(crate) body: ExpectedBody,
    /// Members of the body that become variables.
    pub(crate) kept: Vec<KeptMember>,
}

/// `keep a.b as name`: the value of a member, for later messages.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeptMember {
    pub(crate) path: String,
    pub(crate) name: String,
}

/// A message that a participant gets.
#[derive(Debug)]
pub(crate) struct ExpectedMessage {
    pub(crate) fsp: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) from: String,
    pub(crate) headers: Vec<HeaderLine>,
    pub(crate) body: ExpectedBody,
    /// The key it must be signed with.
    pub(crate) signed: Option<String>,
}

/// The expected body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ExpectedBody {
    Empty,
    Any,
    /// The body of an earlier message, byte for byte; without a label, of the last one.
    Same(Option<String>),
    Json(String),
}

/// A line that is not understood.
#[derive(Debug)]
pub(crate) struct ParseError {
    pub(crate) line: usize,
    pub(crate) what: String,
}

type Lines<'a> = Peekable<Box<dyn Iterator<Item = (usize, &'a str)> + 'a>>;

/// Reads a file.
pub(crate) fn parse(file: &str, text: &str) -> Result<Conversation, ParseError> {
    let mut conversation = Conversation { file: file.to_owned(), ..Conversation::default() };
    let numbered: Box<dyn Iterator<Item = (usize, &str)>> =
        Box::new(text.lines().enumerate().map(|(at, line)| (at + 1, line.trim_end())));
    let mut lines = numbered.peekable();
    while let Some((line, text)) = lines.next() {
        if let Some(comment) = text.strip_prefix('#') {
            if conversation.title.is_empty() {
                conversation.title = comment.trim().to_owned();
            }
        } else if let Some(name) = text.strip_prefix("row ") {
            conversation.rows.push(Row { line, name: name.trim().to_owned() });
        } else if let Some(setting) = text.strip_prefix("hub with ") {
            conversation.own_hub = true;
            conversation.settings.push(setting.to_owned());
        } else if text == "hub of its own" {
            conversation.own_hub = true;
        } else if !text.is_empty() {
            let action = action(text, &mut lines).map_err(|what| ParseError { line, what })?;
            conversation.steps.push(ConversationStep { line, action });
        }
    }
    let missing = match () {
        () if conversation.title.is_empty() => "a title: `# ...`",
        () if conversation.rows.is_empty() => "a row that it covers: `row 3.4 \"...\"`",
        () if conversation.steps.is_empty() => "a step",
        () => return Ok(conversation),
    };
    Err(ParseError { line: 1, what: format!("the conversation lacks {missing}") })
}

fn action(text: &str, lines: &mut Lines<'_>) -> Result<Action, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let owned = |text: &str| text.to_owned();
    match *words.as_slice() {
        [">", ref rest @ ..] => send(rest, lines, TargetApi::Fspiop),
        ["admin", ref rest @ ..] => send(rest, lines, TargetApi::Admin),
        [fsp, "gets", "nothing"] => Ok(Action::GetsNothing(owned(fsp))),
        [fsp, "gets", method, path, "from", from] => gets([fsp, method, path, from], lines),
        [fsp, "has", account, value, ref currency @ ..] => {
            let currency = owned(currency.first().copied().unwrap_or("USD"));
            let account = account.to_uppercase();
            Ok(Action::Has { fsp: owned(fsp), account, value: owned(value), currency })
        }
        ["balances", "unchanged"] => Ok(Action::BalancesUnchanged),
        ["wait", seconds, "s"] => {
            let seconds: f64 = seconds.parse().map_err(|_| "not a number of seconds")?;
            Ok(Action::Wait(Duration::from_secs_f64(seconds.clamp(0.0, 60.0))))
        }
        [fsp, "joins", ref how @ ..] => {
            let (currency, endpoints) = match *how {
                [] => ("USD", true),
                ["without", "endpoints"] => ("USD", false),
                ["with", currency] => (currency, true),
                _ => return Err(format!("not understood: {text}")),
            };
            Ok(Action::Joins { fsp: owned(fsp), currency: owned(currency), endpoints })
        }
        [fsp, "keeps", "silent"] => {
            let mode = ResponseMode { reply: Reply::Silence, times: None };
            Ok(Action::Answers { fsp: owned(fsp), mode })
        }
        [fsp, "answers", status, ref times @ ..] => answers(fsp, status, times, lines),
        [fsp, "leaves"] => Ok(Action::Leaves(owned(fsp))),
        _ => Err(format!("not understood: {text}")),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TargetApi {
    Fspiop,
    Admin,
}

fn send(words: &[&str], lines: &mut Lines<'_>, api: TargetApi) -> Result<Action, String> {
    let owned = |text: &str| text.to_owned();
    if let ["again", label @ ..] = words {
        let message = SentMessage::Again(label.first().copied().map(owned));
        return Ok(Action::Send(SendStep { message, label: None, answer: answer(lines)? }));
    }
    let [method, path, rest @ ..] = words else { return Err("METHOD /path is missing".into()) };
    let mut message = NewMessage {
        admin: api == TargetApi::Admin,
        method: owned(method),
        path: owned(path),
        from: None,
        to: None,
        version: owned(defaults::VERSION),
        headers: Vec::new(),
        body: Body::Usual(Vec::new()),
        signing: None,
    };
    let mut label = None;
    for pair in rest.chunks(2) {
        match *pair {
            ["from", name] => message.from = Some(owned(name)),
            ["to", name] => message.to = Some(owned(name)),
            ["as", name] => label = Some(owned(name)),
            ["version", version] => message.version = owned(version),
            _ => return Err(format!("not understood: {}", pair.join(" "))),
        }
    }
    let mut changes = Vec::new();
    while let Some((_, line)) = lines.next_if(|(_, line)| !line.is_empty() && !is_answer(line)) {
        if let Some(change) = change(line)? {
            match &mut message.signing {
                None => changes.push(change),
                Some(signing) => signing.changes.push(change),
            }
        } else if let Some(words) = line.strip_prefix(SIGNED_WITH) {
            message.signing = Some(signing(words)?);
        } else if let Some(text) = line.strip_prefix("raw ") {
            message.body = Body::Given(owned(text));
        } else if line == "no body" {
            match &mut message.signing {
                None => message.body = Body::Given(String::new()),
                Some(signing) => signing.bodiless = true,
            }
        } else if is_json(line) {
            message.body = Body::Given(json(line, lines));
        } else {
            match &mut message.signing {
                None => message.headers.push(header(line)?),
                Some(signing) => signing.headers.push(header(line)?),
            }
        }
    }
    if let Body::Usual(usual) = &mut message.body {
        *usual = changes;
    }
    let message = SentMessage::New(Box::new(message));
    Ok(Action::Send(SendStep { message, label, answer: answer(lines)? }))
}

/// `with a.b = value` or `without a.b`; nothing for any other line.
fn change(line: &str) -> Result<Option<Change>, String> {
    if let Some(path) = line.strip_prefix("without ") {
        return Ok(Some(Change { path: path.trim().to_owned(), value: None }));
    }
    let Some(change) = line.strip_prefix("with ") else { return Ok(None) };
    let (path, value) = change.split_once('=').ok_or("`with path = value` is meant")?;
    let (path, value) = (path.trim().to_owned(), Some(value.trim().to_owned()));
    Ok(Some(Change { path, value }))
}

fn signing(words: &str) -> Result<Signing, String> {
    let (key, form) = words.split_once(' ').unwrap_or((words, ""));
    let canonical = match form {
        "" => false,
        "in canonical form" => true,
        _ => return Err("`signed with KEY [in canonical form]` is meant".into()),
    };
    Ok(Signing { key: key.to_owned(), canonical, ..Signing::default() })
}

fn answer(lines: &mut Lines<'_>) -> Result<ExpectedResponse, String> {
    let Some((line, text)) = lines.next_if(|(_, line)| is_answer(line)) else {
        return Err("an answer, `< 202 Accepted`, must follow".into());
    };
    let mut kept = Vec::new();
    while let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with(KEEP)) {
        let (path, name) = line[KEEP.len()..].split_once(" as ").ok_or(KEEP_FORM)?;
        let (path, name) = (path.trim().to_owned(), name.trim().to_owned());
        if placeholder(&format!("{{{name}}}")) != Some(&name) {
            return Err(KEEP_FORM.into());
        }
        kept.push(KeptMember { path, name });
    }
    let (headers, body, signed) = contents(lines)?;
    if signed.is_some() {
        return Err("answers are not signed".into());
    }
    let status = text[1..].trim().to_owned();
    let body = body.unwrap_or(ExpectedBody::Empty);
    Ok(ExpectedResponse { line, status, headers, body, kept })
}

fn gets(words: [&str; 4], lines: &mut Lines<'_>) -> Result<Action, String> {
    let [fsp, method, path, from] = words.map(str::to_owned);
    let (headers, body, signed) = contents(lines)?;
    let Some(body) = body else {
        return Err("missing body: expected `same body`, `error ...`, JSON or `any body`".into());
    };
    Ok(Action::Gets(ExpectedMessage { fsp, method, path, from, headers, body, signed }))
}

/// Headers, what the body is, and the key of the signature.
type Contents = (Vec<HeaderLine>, Option<ExpectedBody>, Option<String>);

/// The lines of an answer or a message.
fn contents(lines: &mut Lines<'_>) -> Result<Contents, String> {
    let (mut headers, mut body, mut signed) = (Vec::new(), None, None);
    while let Some((_, line)) = lines.next_if(|(_, line)| !line.is_empty()) {
        body = Some(match line {
            "any body" => ExpectedBody::Any,
            "empty body" => ExpectedBody::Empty,
            "same body" => ExpectedBody::Same(None),
            _ if line.starts_with("same body as ") => {
                ExpectedBody::Same(line.split_whitespace().last().map(str::to_owned))
            }
            _ if line.starts_with("error ") => ExpectedBody::Json(error(line)?),
            _ if is_json(line) => ExpectedBody::Json(json(line, lines)),
            _ if line.starts_with(SIGNED_WITH) => {
                signed = line.split_whitespace().last().map(str::to_owned);
                continue;
            }
            _ => {
                headers.push(header(line)?);
                continue;
            }
        });
    }
    Ok((headers, body, signed))
}

/// `error 3100 "description"`, or with `...` at the end when an extension list may follow.
fn error(line: &str) -> Result<String, String> {
    let form = "`error 3100 \"description\"` is meant";
    let (code, description) = line["error ".len()..].split_once(' ').ok_or(form)?;
    let (description, more) = match description.strip_suffix(" ...") {
        Some(description) => (description, ", ..."),
        None => (description, ""),
    };
    let code = format!(r#""errorCode": "{code}""#);
    let description = format!(r#""errorDescription": {description}"#);
    Ok(format!(r#"{{"errorInformation": {{{code}, {description}{more}}}}}"#))
}

fn answers(
    fsp: &str,
    status: &str,
    times: &[&str],
    lines: &mut Lines<'_>,
) -> Result<Action, String> {
    let status = status.parse().map_err(|_| "not a status")?;
    let times = match *times {
        [] => None,
        ["once"] => Some(1),
        [count, "times"] => Some(count.parse().map_err(|_| "not a count")?),
        _ => return Err("`once` or `3 times` is meant".into()),
    };
    let mut headers = Headers::default();
    let is_header = |line: &str| !is_json(line) && header(line).is_ok();
    while let Some((_, line)) = lines.next_if(|(_, line)| is_header(line)) {
        let HeaderLine { name, value, .. } = header(line)?;
        let value = value.ok_or("an answer has a header or not: leave it out")?;
        headers.push((name, value));
    }
    let first = lines.next_if(|(_, line)| is_json(line));
    let body = first.map_or(String::new(), |(_, line)| json(line, lines)).into_bytes();
    let reply = Reply::Response(http::Response { headers, body, ..http::Response::of(status) });
    Ok(Action::Answers { fsp: fsp.to_owned(), mode: ResponseMode { reply, times } })
}

fn is_answer(line: &str) -> bool {
    line.starts_with("< ")
}

fn is_json(line: &str) -> bool {
    line.starts_with(['{', '['])
}

/// The lines of a body, up to an empty one, the answer or the signature.
fn json(first: &str, lines: &mut Lines<'_>) -> String {
    let mut text = first.to_owned();
    let ends = |line: &str| line.is_empty() || is_answer(line) || line.starts_with(SIGNED_WITH);
    while let Some((_, line)) = lines.next_if(|(_, line)| !ends(line)) {
        text.push('\n');
        text.push_str(line);
    }
    text
}

fn header(line: &str) -> Result<HeaderLine, String> {
    if let Some(name) = line.strip_prefix("- ") {
        return Ok(HeaderLine { name: name.trim().to_owned(), value: None, further: false });
    }
    let (further, text) = match line.strip_prefix("+ ") {
        Some(text) => (true, text),
        None => (false, line),
    };
    let (name, value) = text.split_once(':').ok_or_else(|| format!("not understood: {line}"))?;
    if name.contains(' ') {
        return Err(format!("not understood: {line}"));
    }
    Ok(HeaderLine { name: name.to_owned(), value: Some(value.trim().to_owned()), further })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"# A title
# More about it.
row 3.4 "same, COMMITTED"

> POST /transfers from dfsp1 to dfsp2 as prepare version 1.1
FSPIOP-Signature: {"signature": "x"}
- Accept
with amount.amount = "1"
without condition
signed with rsa in canonical form
with amount.amount = "2"
< 202 Accepted

dfsp2 gets POST /transfers from dfsp1
- Accept
signed with ec
same body as prepare

> again
< 400 Bad Request
error 3100 "{any}"

dfsp1 has position 100
dfsp2 answers 503 2 times
Retry-After: 1
wait 2 s
"#;

    #[test]
    fn file_parses_into_steps() {
        let conversation = parse("a.txt", EXAMPLE).expect("well formed");
        assert_eq!(conversation.title, "A title");
        assert_eq!(conversation.rows[0].name, "3.4 \"same, COMMITTED\"");
        let lines: Vec<_> = conversation.steps.iter().map(|step| step.line).collect();
        assert_eq!(lines, [5, 14, 19, 23, 24, 26]);
        let Action::Answers { mode, .. } = &conversation.steps[4].action else { panic!() };
        let Reply::Response(answer) = &mode.reply else { panic!("an answer") };
        assert_eq!(answer.headers.get("Retry-After"), Some("1"));
        let Action::Send(send) = &conversation.steps[0].action else { panic!("a message") };
        let SentMessage::New(message) = &send.message else { panic!("a new message") };
        assert_eq!((send.label.as_deref(), &*message.version), (Some("prepare"), "1.1"));
        assert_eq!(message.headers[0].value.as_deref(), Some(r#"{"signature": "x"}"#));
        let Body::Usual(changes) = &message.body else { panic!("the usual body") };
        assert_eq!(changes.len(), 2);
        let signing = message.signing.as_ref().expect("a signature");
        assert_eq!((&*signing.key, signing.canonical, signing.changes.len()), ("rsa", true, 1));
        let Action::Gets(gets) = &conversation.steps[1].action else { panic!("a callback") };
        assert_eq!(gets.body, ExpectedBody::Same(Some("prepare".into())));
        assert_eq!(gets.signed.as_deref(), Some("ec"));
    }

    #[test]
    fn parse_errors_name_the_line() {
        for (text, line) in [
            ("# t\nrow 1 \"a\"\n\nnonsense here\n", 4),
            ("# t\nrow 1 \"a\"\n\n> GET /a from dfsp1\n\n", 4),
            ("# t\nrow 1 \"a\"\n\ndfsp1 gets PUT /a from Hub\n\n", 4),
            ("# t\n\nwait 1 s\n", 1),
            ("# t\nrow 1 \"a\"\n\nadmin GET /a\n< 200 OK\nkeep a as B c\nany body\n", 4),
        ] {
            assert_eq!(parse("a.txt", text).expect_err("a fault").line, line, "{text}");
        }
    }
}
