//! `POST /login`, and the bounds on what logins cost.
//!
//! A password takes 19 MiB and about 20 ms of a core. [`COMPUTED_MAX`] are computed at a time, on
//! the blocking pool. At most [`WAITING_MAX`] logins wait, [`WAITING_PER_NETWORK_MAX`] of them from
//! one network; one more gets 429.
//!
//! Failed logins are slowed down like failed tokens, per address (`failed_tokens`), and per name:
//! after [`NAME_FAILURES_MAX`] recent failures, each login under the name takes [`NAME_DELAY`]
//! longer, with the right password too. No number of failures locks an operator out.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fspiop::admission::network_of;
use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use identity::{
    PASSWORD_CHARACTERS, PasswordHash, SecretsKey, Session, TotpSecret, verify_password,
};
use ledger::{Operator, Stamp};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::auth::{self, unauthorized};
use crate::backend::ChangeAuthor;
use crate::body::{AnyText, Optional, Text, body};
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::Timestamp;
use crate::route::routes;
use crate::schema::response_type;

/// Maximum number of passwords that are computed at a time.
const COMPUTED_MAX: usize = 2;
/// Maximum number of logins and changes of passwords that wait.
const WAITING_MAX: usize = 64;
/// Maximum number of them from one network.
const WAITING_PER_NETWORK_MAX: usize = 4;
/// Recent failures of a name from which on its logins are delayed.
const NAME_FAILURES_MAX: u32 = 20;
/// Places for the failures of names.
const NAMES_MAX: usize = 4_096;
/// Time in which one failure of a name is forgotten.
const NAME_FAILURE_TIME: Duration = Duration::from_secs(6);
/// Delay of a login under a name with many failures.
const NAME_DELAY: Duration = Duration::from_secs(1);
/// Lifetime of a session, in seconds: 12 h.
const SESSION_SECONDS: u64 = 12 * 3_600;
/// Longest name and code in a login, in characters.
const LOGIN_TEXT_MAX: usize = 64;

routes! {
    "/login" {
        anonymous POST logIn = log_in(Login), "Log in with a password" {
            text: "\
                The response contains the bearer token of a session, which lasts for 12 h. It ends \
                earlier if the operator is disabled, or its password or second factor is changed. \
                `code` is needed if the operator has a second factor; each code is valid once. An \
                unknown name, a wrong password and a wrong code get the same 401. Only where \
                operators have roles; otherwise 3100.",
            example: {"name": "anna", "password": "correct horse battery staple", "code": "123456"},
            responses: [201: SessionResponse = "The session."],
            refusals: [400 VALIDATION],
        }
    }
}

body! {
    Closed Login {
        name: String = Text(LOGIN_TEXT_MAX),
        password: String = Text(*PASSWORD_CHARACTERS.end()),
        code: Option<String> = Optional(AnyText(LOGIN_TEXT_MAX)),
    }
}

response_type! {
    /// A session of an operator.
    struct SessionResponse as "Session" {
        /// The bearer token.
        token: String,
        name: String,
        expiration_date: Timestamp,
    }
}

/// Logins in progress, failures by name, and used codes.
pub(crate) struct Logins {
    computing: Semaphore,
    waiting: Mutex<HashMap<IpAddr, usize>>,
    /// Failures of names, of operators or not, by a keyed hash of the name. Names that share a
    /// place are slowed down together.
    failures: Mutex<Vec<NameFailures>>,
    hashes: RandomState,
    /// Step of the last used code, by name of an operator.
    used_codes: Mutex<HashMap<String, u64>>,
}

impl Default for Logins {
    fn default() -> Self {
        Self {
            computing: Semaphore::new(COMPUTED_MAX),
            waiting: Mutex::default(),
            failures: Mutex::new(vec![NameFailures::default(); NAMES_MAX]),
            hashes: RandomState::new(),
            used_codes: Mutex::default(),
        }
    }
}

/// The recent failures of a name.
#[derive(Clone, Copy, Default)]
struct NameFailures {
    count: u32,
    /// Time of the last failure.
    last: Option<Instant>,
}

impl NameFailures {
    /// Failures that are not forgotten yet.
    fn recent(&self, now: Instant) -> u32 {
        let since = self.last.map_or(Duration::MAX, |last| now.duration_since(last));
        let forgotten = since.as_secs() / NAME_FAILURE_TIME.as_secs();
        self.count.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }
}

/// A place among the waiting logins.
pub(crate) struct WaitingPermit<'a> {
    logins: &'a Logins,
    network: IpAddr,
}

impl Drop for WaitingPermit<'_> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.logins.waiting);
        if let Some(count) = waiting.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.network);
            }
        }
    }
}

impl Logins {
    /// Hashes a new password.
    pub(crate) async fn hash(&self, peer: IpAddr, password: String) -> Result<String, Refusal> {
        let _waiting = self.wait(peer)?;
        let hash = self.compute(move || PasswordHash::new(&password)).await?;
        hash.map(|hash| hash.0).map_err(|error| internal(&error.to_string()))
    }

    /// Takes a place among the waiting logins.
    pub(crate) fn wait(&self, peer: IpAddr) -> Result<WaitingPermit<'_>, Refusal> {
        let network = network_of(peer);
        let mut waiting = lock(&self.waiting);
        let all: usize = waiting.values().sum();
        let own = waiting.get(&network).copied().unwrap_or_default();
        if WAITING_MAX <= all || WAITING_PER_NETWORK_MAX <= own {
            let detail = "too many logins at once; retry after 1 s";
            let refusal = Refusal::new(ErrorCode::GENERIC_CLIENT, detail);
            return Err(Refusal { status: StatusCode::TOO_MANY_REQUESTS, ..refusal });
        }
        waiting.insert(network, own + 1);
        Ok(WaitingPermit { logins: self, network })
    }

    async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let stopped = || internal("the hub is stopping");
        let _permit = self.computing.acquire().await.map_err(|_| stopped())?;
        spawn_blocking(work).await.map_err(|_| stopped())
    }

    /// Whether the name, the password and the code are those of an active operator.
    async fn verify(
        &self,
        operator: Option<&Operator>,
        login: Login,
        secrets: &SecretsKey,
    ) -> Result<bool, Refusal> {
        let Login { name, password, code } = login;
        if self.is_slowed(&name) {
            tokio::time::sleep(NAME_DELAY).await;
        }
        let stored = operator.map_or_else(String::new, |operator| operator.password.clone());
        let is_right = self.compute(move || verify_password(&password, &stored)).await?;
        let is_valid = match operator {
            Some(operator) => {
                let code = code.as_deref().unwrap_or_default();
                is_right && operator.active && self.has_code(operator, code, secrets)?
            }
            None => false,
        };
        if !is_valid {
            self.count_failure(&name);
        }
        Ok(is_valid)
    }

    fn is_slowed(&self, name: &str) -> bool {
        let failures = lock(&self.failures)[self.place_of(name)];
        NAME_FAILURES_MAX <= failures.recent(Instant::now())
    }

    fn count_failure(&self, name: &str) {
        let now = Instant::now();
        let failures = &mut lock(&self.failures)[self.place_of(name)];
        *failures = NameFailures { count: failures.recent(now).saturating_add(1), last: Some(now) };
    }

    fn place_of(&self, name: &str) -> usize {
        self.hashes.hash_one(name) as usize % NAMES_MAX
    }

    /// Whether the code is valid now, or the operator has no second factor. Uses the code up.
    fn has_code(
        &self,
        operator: &Operator,
        code: &str,
        secrets: &SecretsKey,
    ) -> Result<bool, Refusal> {
        if operator.second_factor.is_empty() {
            return Ok(true);
        }
        let secret = secrets.open(&operator.name, &operator.second_factor);
        let secret = secret.map_err(|error| internal(&error.to_string()))?;
        let Some(secret) = TotpSecret::from_bytes(&secret) else { return Ok(false) };
        let mut used_codes = lock(&self.used_codes);
        let used = used_codes.get(&operator.name).copied();
        let step = secret.verify(code, auth::now().0 / 1_000_000, used);
        if let Some(step) = step {
            used_codes.insert(operator.name.clone(), step);
        }
        Ok(step.is_some())
    }
}

/// `POST /login`.
async fn log_in(request: &AdminRequest<'_>, body: Login) -> HandlerResult {
    let secrets = request.secrets()?;
    let _waiting = request.logins.wait(request.peer)?;
    let book = request.backend.operators();
    let operator = book.operator(&body.name);
    let is_valid = request.logins.verify(operator, body, secrets).await?;
    let Some(operator) = operator.filter(|_| is_valid) else {
        return Err(unauthorized("invalid name, password or code"));
    };
    let actor = format!("{} (login) {}", operator.name, request.peer);
    request.audit.identified(&ChangeAuthor { actor, reason: String::new() });
    let session = Session {
        operator: operator.name.clone(),
        generation: operator.generation,
        expires: auth::now().0 + SESSION_SECONDS * 1_000_000,
    };
    let response = SessionResponse {
        token: session.token(secrets),
        name: session.operator,
        expiration_date: Timestamp(Stamp(session.expires)),
    };
    Ok(AdminResponse::json(StatusCode::CREATED, &response))
}

fn internal(detail: &str) -> Refusal {
    Refusal::new(ErrorCode::INTERNAL_SERVER, detail)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn waiting_logins_are_bounded_per_network_and_together() {
        let logins = Logins::default();
        let address = |number: u8| IpAddr::from(Ipv4Addr::new(10, 0, 0, number));
        let mut held: Vec<_> = (0..4).map(|_| logins.wait(address(1)).ok().unwrap()).collect();
        assert_eq!(logins.wait(address(1)).err().map(|it| it.status.as_u16()), Some(429));
        let others = (2..=200).filter_map(|number| logins.wait(address(number)).ok());
        held.extend(others);
        assert_eq!(held.len(), WAITING_MAX);
        held.clear();
        assert!(logins.wait(address(1)).is_ok());
        assert!(lock(&logins.waiting).is_empty());
    }

    #[test]
    fn failures_of_a_name_are_forgotten() {
        let logins = Logins::default();
        (0..NAME_FAILURES_MAX).for_each(|_| logins.count_failure("anna"));
        assert!(logins.is_slowed("anna") && !logins.is_slowed("bert"));
        let later = Instant::now() + NAME_FAILURE_TIME;
        let failures = lock(&logins.failures)[logins.place_of("anna")];
        assert_eq!(failures.recent(later), NAME_FAILURES_MAX - 1);
        assert_eq!(failures.recent(later + NAME_FAILURE_TIME * NAME_FAILURES_MAX), 0);
    }
}
