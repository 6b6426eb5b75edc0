//! Who sends a request: the names in the client's certificate, in its access token or in a header
//! of its gateway, compared with `FSPIOP-Source`.
//!
//! The names of a certificate are read once per connection. A request is compared after the checks
//! of its headers and before its body is read, so that nothing of an impostor's message is recorded
//! or forwarded. Names are compared byte by byte.
//!
//! A certificate is valid for as long as its connection is open only if it has not expired and a
//! change of the listener's files, such as a new revocation list, still accepts it.
//!
//! Costs: nothing without TLS and without a policy; otherwise a comparison of names, a clock
//! reading, with tokens one hash ([`caller_tokens`](crate::caller_tokens)), and with a policy one
//! look-up of the participant.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use fspiop::Refusal;
use http::HeaderMap;
use identity::KeyRefresh;
use ledger::FspName;
use tls::{HandshakeFault, Peer, ServerTls};

use crate::caller_names::{CertificateNames, refuse};
use crate::caller_tokens::{CallerTokens, Patience, TokenCallers, TokenCheck};
use crate::directory::Directory;
use crate::gateway_names::GatewayCallers;
use crate::thread::Thread;

/// How the hub knows the sender of a request.
#[derive(Clone, Debug, Default)]
pub enum CallerPolicy {
    /// `FSPIOP-Source` is believed.
    #[default]
    Anyone,
    /// `FSPIOP-Source` must be a name in the client's certificate.
    Certificate(CertificateNames),
    /// It must be the name in the request's access token.
    Token(Box<TokenCallers>),
    /// It must be the name in a header of a gateway.
    Gateway(GatewayCallers),
}

/// The client of a connection with a certificate.
pub(crate) struct Caller {
    tls: Arc<ServerTls>,
    peer: RefCell<Peer>,
    /// Names that it may send in.
    names: Vec<FspName>,
}

impl CallerPolicy {
    /// Whether senders are identified.
    pub(crate) fn identifies(&self) -> bool {
        !matches!(self, Self::Anyone)
    }
}

impl Caller {
    pub(crate) fn new(tls: &Arc<ServerTls>, peer: Peer, policy: &CallerPolicy) -> Self {
        let names = match policy {
            CallerPolicy::Certificate(names) => names.read(&peer),
            CallerPolicy::Anyone | CallerPolicy::Token(_) | CallerPolicy::Gateway(_) => Vec::new(),
        };
        Self { tls: Arc::clone(tls), peer: RefCell::new(peer), names }
    }
}

/// The client of a request.
pub(crate) struct Client<'a> {
    /// With a certificate.
    pub(crate) caller: Option<&'a Caller>,
    pub(crate) address: IpAddr,
    /// Its address is in the networks of gateways, if there are any.
    pub(crate) is_gateway: bool,
}

/// The check of senders, of one thread.
pub(crate) struct CallerCheck {
    policy: CallerPolicy,
    /// With tokens.
    tokens: Option<CallerTokens>,
    thread: Rc<Thread>,
    directory: Rc<Directory>,
}

impl CallerCheck {
    pub(crate) fn new(
        policy: CallerPolicy,
        thread: &Rc<Thread>,
        directory: &Rc<Directory>,
    ) -> Self {
        let tokens = match &policy {
            CallerPolicy::Token(settings) => Some(CallerTokens::new((**settings).clone())),
            _ => None,
        };
        Self { policy, tokens, thread: Rc::clone(thread), directory: Rc::clone(directory) }
    }

    /// Whether senders must be participants that are identified.
    pub(crate) fn identifies(&self) -> bool {
        self.policy.identifies()
    }

    /// Compares the sender of a request with its certificate, its token or its gateway's header.
    /// Returns a read of the keys that the request has to wait for before it is checked again.
    ///
    /// # Errors
    /// 403, 3000 if the client may not send in this name, or its certificate is no longer valid;
    /// and the refusals of tokens.
    pub(crate) fn check(
        &self,
        client: &Client<'_>,
        (headers, source): (&HeaderMap, &FspName),
        patience: Patience,
    ) -> Result<Option<KeyRefresh>, Refusal> {
        if let Some(caller) = client.caller {
            self.check_certificate(caller)?;
        }
        let counters = &self.thread.counters;
        match (&self.policy, &self.tokens) {
            (CallerPolicy::Certificate(_), _) => self.compare_certificate(client.caller, source)?,
            (CallerPolicy::Gateway(gateways), _) => {
                let names = gateways.read(headers, client.is_gateway, counters)?;
                self.compare(&names, source, "gateway's header")?;
            }
            (CallerPolicy::Token(_), Some(tokens)) => {
                let time = (self.thread.wall_ms(), patience);
                match tokens.check((headers, client.address), time, counters)? {
                    TokenCheck::Known(name) => self.compare(&[name], source, "token")?,
                    TokenCheck::AfterRefresh(refresh) => return Ok(Some(refresh)),
                }
            }
            (CallerPolicy::Anyone | CallerPolicy::Token(_), _) => {}
        }
        Ok(None)
    }

    /// Removes the header of the gateway, which is not for other participants.
    pub(crate) fn strip(&self, headers: &mut HeaderMap) {
        if let CallerPolicy::Gateway(gateways) = &self.policy {
            headers.remove(&gateways.header);
        }
    }

    fn compare_certificate(
        &self,
        caller: Option<&Caller>,
        source: &FspName,
    ) -> Result<(), Refusal> {
        let Some(caller) = caller else { return Err(refuse("the client has no certificate")) };
        if caller.names.is_empty() {
            self.thread.counters.callers_unknown.add(1);
            let subject = caller.peer.borrow();
            let text = format!("the certificate {} names no participant", subject.subject());
            return Err(refuse(&text));
        }
        self.compare(&caller.names, source, "certificate")
    }

    fn compare(&self, names: &[FspName], source: &FspName, by: &str) -> Result<(), Refusal> {
        if names.contains(source) {
            return Ok(());
        }
        self.thread.counters.callers_refused.add(1);
        let names: Vec<_> = names.iter().map(FspName::as_str).collect();
        let names = names.join(", ");
        Err(refuse(&format!("FSPIOP-Source is {source}, but the {by} is of {names}")))
    }

    /// Refuses a sender that is not a participant. Its name was compared before.
    ///
    /// # Errors
    /// 403, 3000.
    pub(crate) fn check_registered(&self, source: &FspName) -> Result<(), Refusal> {
        if self.directory.sender(source).is_some() {
            return Ok(());
        }
        self.thread.counters.callers_unknown.add(1);
        let by = match &self.policy {
            CallerPolicy::Token(_) => "token",
            CallerPolicy::Gateway(_) => "gateway's header",
            CallerPolicy::Anyone | CallerPolicy::Certificate(_) => "certificate",
        };
        Err(refuse(&format!("the {by} is of {source}, which is not a participant")))
    }

    fn check_certificate(&self, caller: &Caller) -> Result<(), Refusal> {
        let mut peer = caller.peer.borrow_mut();
        let fault = match peer.expires() <= (self.thread.wall_ms() / 1_000).cast_signed() {
            true => Some(HandshakeFault::Expired),
            false => caller.tls.verify_again(&mut peer).err(),
        };
        let Some(fault) = fault else { return Ok(()) };
        self.thread.counters.callers_invalid.add(1);
        Err(refuse(fault.text()))
    }
}
