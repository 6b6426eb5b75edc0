//! External oracles: services that know the FSPs of identifiers of one type, and of one currency or
//! all (hub-semantics 6). Identifiers without an oracle are in the hub's own directory.
//!
//! **Choice.** With a currency, the oracle of the type and the currency; otherwise one of the type
//! without a currency. Without a currency, the only oracle of the type, or the default one of
//! several, or the one without a currency.
//!
//! **Calls.** `GET`, `POST`, `PUT` and `DELETE {endpoint}/participants/{Type}/{ID}`, and batches by
//! `POST {endpoint}/participants`. A look-up that
//! got no HTTP response is repeated once on another connection. An oracle that does not respond is
//! called only by probes ([`Breakers`]). Its answer is checked as a whole, and FSPs that are not
//! participants are dropped.
//!
//! **Bounds.** Oracles have connections of their own, [`OracleOptions::calls_max`] calls in flight
//! per I/O thread, and [`ANSWER_ENTRIES_MAX`] entries of an answer. Beyond, requests are refused at
//! once with 503, so that an oracle that does not respond delays nothing but its own look-ups. The
//! cache has [`OracleOptions::cache_entries`] answers; the oldest one is dropped first.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use delivery::MonotonicTime;
use fspiop::body::ErrorInformation;
use fspiop::egress_policy::CallTarget;
use fspiop::{ErrorCode, PartyPath, Refusal, TraceContext, oracle, percent_encode};
use http::header::{ACCEPT, CONTENT_TYPE, DATE};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::Full;
use ledger::{
    ChangeParties, Currency, FspName, Oracle, OracleId, PARTICIPANTS_MAX, ParticipantIndex,
    PartyBinding, PartyChangeForm,
};
use ports::PartyEntry;

use crate::breaker::{BreakerChange, Breakers};
use crate::counters::Counters;
use crate::directory::{Directory, PartyError};
use crate::failure::Failure;
use crate::pool::{OutboundRequest, PeerResponse, Pools, RequestClass};
use crate::thread::Thread;

/// Maximum number of FSPs that one answer may name; each of them is asked.
const ANSWER_ENTRIES_MAX: usize = 16;

const MEDIA_TYPE: &str = "application/vnd.interoperability.participants+json;version=1.1";

/// Limits of the calls to oracles.
#[derive(Clone, Copy, Debug)]
pub struct OracleOptions {
    /// Whether oracles are called at all.
    pub is_on: bool,
    /// Time to connect.
    pub connect: Duration,
    /// Time from sending a request to its complete response.
    pub answer: Duration,
    /// Maximum number of calls in flight per I/O thread.
    pub calls_max: usize,
    /// Maximum number of connections to one oracle per I/O thread.
    pub connections_max: usize,
    /// Time for which an answer with entries is used again; zero for never.
    pub cache: Duration,
    /// The same for an answer without entries.
    pub negative_cache: Duration,
    /// Maximum number of cached answers.
    pub cache_entries: usize,
}

impl Default for OracleOptions {
    fn default() -> Self {
        Self {
            is_on: true,
            connect: Duration::from_secs(2),
            answer: Duration::from_secs(5),
            calls_max: 1_000,
            connections_max: 64,
            cache: Duration::from_secs(30),
            negative_cache: Duration::from_secs(5),
            cache_entries: 100_000,
        }
    }
}

/// The state of oracles that all I/O threads share.
#[derive(Debug)]
pub(crate) struct OracleState {
    breakers: Arc<Breakers>,
    cache: Mutex<AnswerCache>,
}

/// Answers by oracle and request, the oldest first in `order`.
#[derive(Debug, Default)]
struct AnswerCache {
    answers: HashMap<CacheKey, CachedAnswer>,
    order: VecDeque<(CacheKey, MonotonicTime)>,
}

/// The oracle, and the identifier with its sub-identifier.
type CacheKey = (OracleId, Arc<[u8]>);

#[derive(Debug)]
struct CachedAnswer {
    until: MonotonicTime,
    /// By the currency of the request.
    entries: Vec<(Option<Currency>, Vec<PartyEntry>)>,
}

impl Default for OracleState {
    fn default() -> Self {
        Self { breakers: Arc::new(Breakers::default()), cache: Mutex::default() }
    }
}

impl OracleState {
    pub(crate) fn breakers(&self) -> &Arc<Breakers> {
        &self.breakers
    }

    fn cache(&self) -> MutexGuard<'_, AnswerCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AnswerCache {
    fn get(
        &self,
        key: &CacheKey,
        currency: Option<Currency>,
        now: MonotonicTime,
    ) -> Option<Vec<PartyEntry>> {
        let found = self.answers.get(key).filter(|found| now < found.until)?;
        found.entries.iter().find(|(of, _)| *of == currency).map(|(_, entries)| entries.clone())
    }

    /// Keeps an answer until a time, and drops those that are too many or too old.
    fn insert(
        &mut self,
        key: CacheKey,
        (currency, entries): (Option<Currency>, Vec<PartyEntry>),
        (now, until): (MonotonicTime, MonotonicTime),
        entries_max: usize,
    ) {
        while let Some((oldest, since)) = self.order.front()
            && (entries_max <= self.order.len() || *since <= now)
        {
            if self.answers.get(oldest).is_some_and(|found| found.until <= *since) {
                self.answers.remove(oldest);
            }
            self.order.pop_front();
        }
        if entries_max == 0 {
            return;
        }
        self.order.push_back((key.clone(), until));
        let kept = self.answers.entry(key).or_insert(CachedAnswer { until, entries: Vec::new() });
        if kept.until <= now {
            kept.entries.clear();
        }
        kept.until = until;
        kept.entries.retain(|(of, _)| *of != currency);
        kept.entries.push((currency, entries));
    }
}

/// A party, as it is looked up after its request has been answered.
#[derive(Clone, Debug)]
pub(crate) struct PartyQuery {
    id_type: &'static str,
    id: String,
    sub_id: Option<String>,
    pub(crate) currency: Option<Currency>,
}

impl PartyQuery {
    pub(crate) fn of(path: &PartyPath<'_>) -> Self {
        Self {
            id_type: path.kind.as_str(),
            id: path.id.text.to_string(),
            sub_id: path.sub_id.as_ref().map(|sub_id| sub_id.text.to_string()),
            currency: path.currency,
        }
    }

    fn key(&self) -> Arc<[u8]> {
        record::cold_rows::party_key(self.id_type, &self.id, self.sub_id.as_deref()).into()
    }

    /// The path and query of a call, after the oracle's base path.
    fn path(&self, base: &str, filters: Filters) -> String {
        let base = base.trim_end_matches('/');
        let mut path = format!("{base}/participants/{}/{}", self.id_type, percent_encode(&self.id));
        let mut mark = '?';
        if let Some(currency) = self.currency {
            path += &format!("{mark}currency={currency}");
            mark = '&';
        }
        if let (Some(sub_id), Filters::WithSubId) = (&self.sub_id, filters) {
            let sub_id = percent_encode(sub_id).replace('&', "%26").replace('+', "%2B");
            path += &format!("{mark}partySubIdOrType={sub_id}");
        }
        path
    }
}

/// The members of a call's query.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filters {
    WithSubId,
    CurrencyOnly,
}

/// The oracles of one I/O thread.
pub(crate) struct Oracles {
    thread: Rc<Thread>,
    directory: Rc<Directory>,
    pools: Pools,
    shared: Arc<OracleState>,
    options: OracleOptions,
    in_flight: Cell<usize>,
}

/// An oracle and the place of a call in flight, until it is dropped.
pub(crate) struct OracleCall {
    oracles: Rc<Oracles>,
    id: OracleId,
    target: CallTarget,
}

impl Drop for OracleCall {
    fn drop(&mut self) {
        self.oracles.in_flight.update(|count| count - 1);
    }
}

impl Oracles {
    pub(crate) fn new(
        (thread, directory): (&Rc<Thread>, &Rc<Directory>),
        pools: Pools,
        (shared, options): (Arc<OracleState>, OracleOptions),
    ) -> Rc<Self> {
        Rc::new(Self {
            thread: Rc::clone(thread),
            directory: Rc::clone(directory),
            pools,
            shared,
            options,
            in_flight: Cell::new(0),
        })
    }

    /// Closes the connections whose request has timed out.
    pub(crate) fn sweep(&self) {
        self.pools.sweep();
    }

    /// Whether no call is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.get() == 0
    }

    /// The place for a call to the oracle of an identifier; `None` if the hub's own directory has
    /// it.
    ///
    /// # Errors
    /// 503 if too many calls are in flight.
    pub(crate) fn call(
        self: &Rc<Self>,
        id_type: &str,
        currency: Option<Currency>,
    ) -> Result<Option<OracleCall>, Refusal> {
        self.place((id_type, currency), |_| false)
    }

    /// The place for a look-up, as [`Self::call`]. A look-up that the cache answers has one even if
    /// too many calls are in flight.
    ///
    /// # Errors
    /// 503 if too many calls are in flight.
    pub(crate) fn look_up(
        self: &Rc<Self>,
        path: &PartyPath<'_>,
    ) -> Result<Option<OracleCall>, Refusal> {
        self.place((path.kind.as_str(), path.currency), |id| {
            let query = PartyQuery::of(path);
            let key = (id, query.key());
            self.shared.cache().get(&key, query.currency, self.thread.moment()).is_some()
        })
    }

    fn place(
        self: &Rc<Self>,
        (id_type, currency): (&str, Option<Currency>),
        is_cached: impl FnOnce(OracleId) -> bool,
    ) -> Result<Option<OracleCall>, Refusal> {
        if !self.options.is_on {
            return Ok(None);
        }
        let view = self.directory.view();
        let Some((id, oracle)) = choose(&view.oracles, id_type, currency) else { return Ok(None) };
        let Ok(target) = CallTarget::parse(&oracle.endpoint) else {
            return Err(Refusal::internal("the address of an oracle was checked before"));
        };
        if self.options.calls_max <= self.in_flight.get() && !is_cached(id) {
            self.thread.counters.oracle_calls_refused.add(1);
            return Err(Refusal::unavailable());
        }
        self.in_flight.update(|count| count + 1);
        Ok(Some(OracleCall { oracles: Rc::clone(self), id, target }))
    }
}

/// The oracle of a type and a currency.
fn choose<'a>(
    oracles: &'a [(OracleId, Oracle)],
    id_type: &str,
    currency: Option<Currency>,
) -> Option<(OracleId, &'a Oracle)> {
    let of_type = || oracles.iter().filter(|(_, oracle)| oracle.id_type == id_type);
    let general = || of_type().find(|(_, oracle)| oracle.currency.is_none());
    let chosen = match currency {
        Some(_) => of_type().find(|(_, oracle)| oracle.currency == currency).or_else(general),
        None if of_type().nth(1).is_none() => of_type().next(),
        None => of_type().find(|(_, oracle)| oracle.default).or_else(general),
    };
    chosen.map(|(id, oracle)| (*id, oracle))
}

impl OracleCall {
    /// The entries of a party that its oracle knows, of participants only.
    ///
    /// # Errors
    /// The error for the sender of the look-up.
    pub(crate) async fn find(
        &self,
        query: &PartyQuery,
        (source, trace): (&FspName, TraceContext),
    ) -> Result<Vec<PartyEntry>, PartyError> {
        let Oracles { shared, options, thread, .. } = &*self.oracles;
        let key = (self.id, query.key());
        let is_cached = !options.cache.is_zero() || !options.negative_cache.is_zero();
        if is_cached && let Some(found) = shared.cache().get(&key, query.currency, thread.moment())
        {
            thread.counters.oracle_cache_hits.add(1);
            return Ok(found);
        }
        let path = query.path(&self.target.path, Filters::WithSubId);
        let answer = match self.send((&Method::GET, &path), Bytes::new(), (source, trace)).await {
            // One more attempt: a connection may have been lost.
            Err(Failure::Connect | Failure::Broken | Failure::Unanswered | Failure::Http2(_)) => {
                self.send((&Method::GET, &path), Bytes::new(), (source, trace)).await
            }
            answer => answer,
        };
        let entries = self.read(answer, query)?;
        let kept = if entries.is_empty() { options.negative_cache } else { options.cache };
        if !kept.is_zero() {
            let now = thread.moment();
            let until = now.after_micros(kept.as_micros().try_into().unwrap_or(u64::MAX));
            let answer = (query.currency, entries.clone());
            shared.cache().insert(key, answer, (now, until), options.cache_entries);
        }
        Ok(entries)
    }

    /// Makes a change at the oracle.
    ///
    /// # Errors
    /// The error for the sender of the change.
    pub(crate) async fn change(
        &self,
        query: &PartyQuery,
        change: &ChangeParties,
        (method, trace): (&Method, TraceContext),
    ) -> Result<(), PartyError> {
        let (code, expected) = match *method {
            Method::DELETE => (ErrorCode::DELETE_PARTY, StatusCode::NO_CONTENT),
            Method::PUT => (ErrorCode::ADD_PARTY, StatusCode::OK),
            _ => (ErrorCode::ADD_PARTY, StatusCode::CREATED),
        };
        let is_delete = change.form == PartyChangeForm::Delete;
        let currency = query.currency.filter(|_| is_delete);
        let query = PartyQuery { currency, ..query.clone() };
        let body = match change.parties.first().filter(|_| !is_delete) {
            None => Bytes::new(),
            Some(party) => {
                oracle::registration(&party.fsp, party.currency, query.sub_id.as_deref()).into()
            }
        };
        // The sub-identifier is not lost, as in the reference, but sent as for a look-up.
        let filters = if is_delete { Filters::WithSubId } else { Filters::CurrencyOnly };
        let path = query.path(&self.target.path, filters);
        let answer = self.send((method, &path), body, (&change.source, trace)).await;
        // Whatever the result, the oracle may have changed.
        self.oracles.shared.cache().answers.remove(&(self.id, query.key()));
        match answer {
            Ok(answer) if answer.status == expected => Ok(()),
            Ok(answer) => {
                self.counters().oracle_errors.add(1);
                Err((code, code.describe(&reason(&answer))))
            }
            Err(failure) => Err((code, code.describe(failure_text(failure)))),
        }
    }

    /// Registers parties at the oracle, in calls of up to [`oracle::ORACLE_BATCH_MAX`] parties.
    /// Returns the error of each party that was not registered, in their order.
    pub(crate) async fn register_batch(
        &self,
        (request, currency): (&str, Option<Currency>),
        parties: &[&PartyBinding],
        (source, trace): (&FspName, TraceContext),
    ) -> Vec<Option<PartyError>> {
        let path = format!("{}/participants", self.target.path.trim_end_matches('/'));
        let mut results = Vec::with_capacity(parties.len());
        for parties in parties.chunks(oracle::ORACLE_BATCH_MAX) {
            let body = oracle::batch(request, parties, currency).into();
            let answer = self.send((&Method::POST, &path), body, (source, trace)).await;
            let mut cache = self.oracles.shared.cache();
            for party in parties {
                let PartyBinding { id_type, id, sub_id, .. } = party;
                let key = record::cold_rows::party_key(id_type, id, sub_id.as_deref());
                // Whatever the result, the oracle may have changed.
                cache.answers.remove(&(self.id, key.into()));
            }
            drop(cache);
            results.extend(self.batch_results(answer, parties));
        }
        results
    }

    /// The results in the answer to a batch, in the order of its parties.
    fn batch_results(
        &self,
        answer: Result<PeerResponse, Failure>,
        parties: &[&PartyBinding],
    ) -> Vec<Option<PartyError>> {
        let code = ErrorCode::ADD_PARTY;
        let all = |text: &str| vec![Some((code, code.describe(text))); parties.len()];
        let answer = match answer {
            Ok(answer) if answer.status == StatusCode::CREATED => answer,
            Ok(answer) => {
                self.counters().oracle_errors.add(1);
                return all(&reason(&answer));
            }
            Err(failure) => return all(failure_text(failure)),
        };
        let found = match oracle::parse_batch_results(&answer.body) {
            Ok(found) => found.into_iter().map(|one| (one.party, one.error)),
            Err(what) => {
                self.counters().oracle_errors.add(1);
                return all(&format!("the oracle's answer is invalid: {what}"));
            }
        };
        let mut found: HashMap<_, _> = found.collect();
        let missing = || Some((code, code.describe("the oracle's answer lacks the party")));
        let mut result = |party: &&PartyBinding| {
            let name = (party.id_type.clone(), party.id.clone(), party.sub_id.clone());
            found.remove(&name).unwrap_or_else(missing)
        };
        parties.iter().map(&mut result).collect()
    }

    fn counters(&self) -> &Counters {
        &self.oracles.thread.counters
    }

    async fn send(
        &self,
        (method, path): (&Method, &str),
        body: Bytes,
        (source, trace): (&FspName, TraceContext),
    ) -> Result<PeerResponse, Failure> {
        let Oracles { thread, shared, pools, .. } = &*self.oracles;
        let to = self.index();
        let permit = shared.breakers.admit(to, thread.moment()).ok_or(Failure::NotAnswering)?;
        thread.counters.oracle_calls.add(1);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method.clone();
        *request.uri_mut() = path.parse().map_err(|_| Failure::Unsent)?;
        *request.headers_mut() = self.headers(source, trace)?;
        let mut request = OutboundRequest::new(request);
        let class = if permit.is_probe() { RequestClass::Probe } else { RequestClass::Notice };
        let result = pools.send((to, &self.target), class, &mut request).await;
        match &result {
            Ok(_) => self.report(shared.breakers.answered(to)),
            Err(Failure::TooLong) => {
                thread.counters.oracle_errors.add(1);
                self.report(shared.breakers.answered(to));
            }
            Err(failure) if failure.is_silence() => self.report(permit.failed(thread.moment())),
            Err(_) => {}
        }
        let is_unanswered = !matches!(result, Ok(_) | Err(Failure::TooLong));
        thread.counters.oracle_calls_failed.add(u64::from(is_unanswered));
        result
    }

    fn headers(&self, source: &FspName, trace: TraceContext) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        let date = fspiop::time::date_header(self.oracles.thread.wall_ms());
        headers.insert(ACCEPT, HeaderValue::from_static(MEDIA_TYPE));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        headers.insert(DATE, date);
        let source = HeaderValue::from_str(source.as_str()).map_err(|_| Failure::Unsent)?;
        headers.insert("fspiop-source", source);
        let span = self.oracles.thread.unique();
        headers.insert(&fspiop::headers::TRACEPARENT, trace.child(span));
        Ok(headers)
    }

    /// The number of the oracle in tables that have as many places as participants.
    fn index(&self) -> ParticipantIndex {
        ParticipantIndex((self.id.0 as usize % PARTICIPANTS_MAX) as _)
    }

    fn report(&self, change: BreakerChange) {
        let (oracle, address) = (self.id.0, &*self.target.authority);
        match change {
            BreakerChange::None => {}
            BreakerChange::Opened => tracing::warn!(oracle, address, "the oracle does not respond"),
            BreakerChange::Closed => tracing::info!(oracle, address, "the oracle responds again"),
        }
    }

    /// The entries of an answer that match the request.
    fn read(
        &self,
        answer: Result<PeerResponse, Failure>,
        query: &PartyQuery,
    ) -> Result<Vec<PartyEntry>, PartyError> {
        let invalid = |what: &str| {
            self.counters().oracle_errors.add(1);
            let code = ErrorCode::DESTINATION_COMMUNICATION;
            (code, code.describe(&format!("the oracle's answer is invalid: {what}")))
        };
        let answer = answer.map_err(|failure| {
            let code = ErrorCode::DESTINATION_COMMUNICATION;
            (code, code.describe(failure_text(failure)))
        })?;
        if answer.status != StatusCode::OK {
            self.counters().oracle_errors.add(1);
            return Err(refused(&answer));
        }
        let found = oracle::parse_party_list(&answer.body).map_err(invalid)?;
        let view = self.oracles.directory.view();
        let mut entries = Vec::new();
        for entry in found {
            let is_wanted = entry.sub_id.as_deref() == query.sub_id.as_deref()
                && view.find(&entry.fsp).is_some();
            let entry = PartyEntry { currency: entry.currency, fsp: entry.fsp };
            if is_wanted && entry.serves(query.currency) {
                entries.push(entry);
            }
        }
        if ANSWER_ENTRIES_MAX < entries.len() {
            return Err(invalid("it names too many FSPs"));
        }
        Ok(entries)
    }
}

/// The error for a look-up that the oracle refused, as in the reference (hub-semantics 2.3).
fn refused(answer: &PeerResponse) -> PartyError {
    let code = match answer.status {
        StatusCode::BAD_REQUEST => ErrorCode::PARTY_NOT_FOUND,
        StatusCode::NOT_FOUND => ErrorCode::DESTINATION_FSP,
        status if status.is_client_error() => ErrorCode::GENERIC_CLIENT,
        _ => ErrorCode::DESTINATION_COMMUNICATION,
    };
    (code, code.describe(&reason(answer)))
}

/// The description in the oracle's error, or the status.
fn reason(answer: &PeerResponse) -> String {
    match ErrorInformation::parse(&answer.body) {
        Ok(error) => error.effective().1.into_owned(),
        Err(_) => format!("the oracle answered {}", answer.status.as_u16()),
    }
}

fn failure_text(failure: Failure) -> &'static str {
    match failure {
        Failure::NotAnswering | Failure::TimedOut => "The oracle is not answering",
        Failure::Crowded => "Too many requests wait for the oracle",
        Failure::Denied => "The address of the oracle may not be called",
        Failure::TooLong => "the oracle's answer is invalid: it is longer than 65536 bytes",
        Failure::Connect
        | Failure::Tls(_)
        | Failure::Broken
        | Failure::Unanswered
        | Failure::Http2(_)
        | Failure::Unsent => "Failed to send HTTP request to the oracle",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracles_are_chosen_by_type_and_currency() {
        let oracle = |id: u32, text: &str| {
            let words: Vec<_> = text.split(' ').collect();
            let oracle = Oracle {
                id_type: words[0].to_owned(),
                endpoint: format!("http://o{id}.example"),
                currency: Currency::parse(words[1]),
                default: words.get(2) == Some(&"default"),
            };
            (OracleId(id), oracle)
        };
        let two = ["MSISDN USD", "MSISDN KES default", "IBAN EUR"];
        let general = ["MSISDN USD", "MSISDN -", "ALIAS USD", "ALIAS KES"];
        for (oracles, id_type, currency, expected) in [
            (&two[..], "MSISDN", "USD", Some(0)),
            (&two, "MSISDN", "KES", Some(1)),
            (&two, "MSISDN", "EUR", None),
            (&two, "MSISDN", "", Some(1)),
            (&two, "IBAN", "", Some(2)),
            (&two, "IBAN", "USD", None),
            (&two, "ALIAS", "", None),
            (&general, "MSISDN", "USD", Some(0)),
            (&general, "MSISDN", "EUR", Some(1)),
            (&general, "MSISDN", "", Some(1)),
            (&general, "ALIAS", "", None),
            (&[], "MSISDN", "USD", None),
        ] {
            let oracles: Vec<_> = (0..).zip(oracles).map(|(id, text)| oracle(id, text)).collect();
            let chosen = choose(&oracles, id_type, Currency::parse(currency));
            assert_eq!(chosen.map(|(id, _)| id.0), expected, "{id_type} {currency}");
        }
    }

    #[test]
    fn cached_answers_end_and_are_bounded() {
        let mut cache = AnswerCache::default();
        let key = |number: u32| (OracleId(1), Arc::from(number.to_be_bytes()));
        let fsp = FspName::new("dfsp1").expect("a name");
        let entries = vec![PartyEntry { currency: None, fsp }];
        let (usd, second) =
            (Currency::parse("USD"), |seconds: u64| MonotonicTime(seconds * 1_000_000));
        cache.insert(key(1), (None, entries.clone()), (second(0), second(30)), 3);
        cache.insert(key(1), (usd, Vec::new()), (second(1), second(5)), 3);
        assert_eq!(cache.get(&key(1), usd, second(4)), Some(Vec::new()));
        assert_eq!(cache.get(&key(1), None, second(4)), Some(entries.clone()));
        assert_eq!(cache.get(&key(1), None, second(5)), None, "the shorter time counts for both");
        for number in 2..10 {
            cache.insert(key(number), (None, entries.clone()), (second(6), second(36)), 3);
            assert!(cache.answers.len() <= 3 && cache.order.len() <= 3);
        }
        assert_eq!(cache.get(&key(9), None, second(7)), Some(entries));
        assert_eq!(cache.get(&key(2), None, second(7)), None, "the oldest are dropped");
        cache.insert(key(1), (None, Vec::new()), (second(40), second(45)), 0);
        assert!(cache.answers.is_empty(), "all have ended, and none is kept");
    }
}
