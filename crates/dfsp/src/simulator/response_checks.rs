//! Checks that responses match their requests. The results of a hub that confuses parties, amounts
//! or statuses are worthless, so each mismatch is recorded and fails its unit.

use fspiop::ilp::{condition, read_digest};
use ledger::{Amount, FspName, TransferId};

use super::{
    Cause, Context, End, Inner, Leg, Reaction, SendResult, SimulatorOptions, Status, Token,
};
use crate::observations::Observations;
use crate::received_bodies::{Money, OfferedTerms, PartyFound, QuoteAnswered, TransferPosted};

/// The code with which a payee refuses requests for other FSPs.
pub(super) const NOT_OURS: u16 = 3100;
/// Maximum length of a quoted body.
const QUOTED_BYTES: usize = 100;

impl Inner {
    /// Records a message that the hub accepted with an unexpected status: it should be 202 for
    /// `GET` and `POST`, 200 for `PUT`. The unit continues, and counts as failed at its end.
    pub(super) fn note_wrong_status(&self, token: Token, answer: SendResult) {
        let SendResult::Status(status) = answer else { return };
        let (what, expected) = match token {
            Token::Leg(Leg::Lookup, _) => ("GET /parties", 202),
            Token::Leg(Leg::Quote, _) => ("POST /quotes", 202),
            Token::Leg(Leg::Transfer, _) => ("POST /transfers or /bulkTransfers", 202),
            Token::Callback => ("PUT /parties, /quotes or /bulkTransfers", 200),
            Token::TransferMessage(..) => ("PUT /transfers", 200),
            Token::Registration(_) => return,
        };
        if status == expected {
            return;
        }
        let mut state = self.state.borrow_mut();
        let name = &self.options.name;
        state.observations.note_wrong(format_args!(
            "{what} of {name} was answered {status} instead of {expected}"
        ));
        if let Token::Leg(leg, id) = token
            && let Some(transaction) = state.payer.numbered(id.sequence())
        {
            transaction.wrong.get_or_insert(leg);
        }
    }
}

impl Context<'_> {
    /// Whether a look-up found another party than the requested one, or one at another FSP.
    pub(super) fn is_wrong_party(
        &mut self,
        sequence: u64,
        path: &str,
        found: &PartyFound<'_>,
        fsp: FspName,
    ) -> bool {
        let Some(transaction) = self.state.payer.numbered(sequence) else { return false };
        let asked = transaction.payment.payee_msisdn;
        let mut digits = itoa::Buffer::new();
        let (asked_text, path) = (digits.format(asked), path.split('/').nth(1).unwrap_or(""));
        let owner = owner(self.options, asked);
        if found.number() == asked_text
            && path == asked_text
            && owner.is_none_or(|owner| owner == fsp)
        {
            return false;
        }
        let owner = owner.map_or(String::new(), |owner| format!(" of {}", owner.as_str()));
        self.state.observations.note_wrong(format_args!(
            "PUT /parties contains {} of {} under the path of {path}, expected {asked}{owner}",
            found.number(),
            fsp.as_str(),
        ));
        true
    }

    /// Whether a quote has another amount than the requested one.
    pub(super) fn is_wrong_amount(
        &mut self,
        sequence: u64,
        amount: Amount,
        answered: &Money<'_>,
    ) -> bool {
        let Some(transaction) = self.state.payer.numbered(sequence) else { return false };
        let (asked, currency) = (transaction.payment.amount, self.options.currency);
        if amount == asked && *answered.currency == *currency.as_str() {
            return false;
        }
        self.state.observations.note_wrong(format_args!(
            "PUT /quotes contains {} {}, expected {asked} {currency}",
            answered.amount, answered.currency
        ));
        true
    }

    /// Whether a quote's condition does not match its packet. The payer knows how simulated payees
    /// compute it.
    pub(super) fn are_other_terms(
        &mut self,
        sequence: u64,
        answer: &QuoteAnswered<'_>,
        offered: &[u8; 32],
    ) -> bool {
        let Some(transaction) = self.state.payer.numbered(sequence) else { return false };
        let payee = transaction.payee;
        if !self.options.known.iter().any(|known| known.fsp == payee) {
            return false;
        }
        let packet = answer.ilp_packet.as_bytes();
        if condition(&self.state.terms.secret_of(payee).fulfilment(packet)) == *offered {
            return false;
        }
        self.state.observations.note_wrong(format_args!(
            "PUT /quotes of {} contains the condition '{}', which does not match its packet",
            payee.as_str(),
            answer.condition
        ));
        true
    }

    /// Whether a transfer is for another FSP, in another currency, or has a condition that does not
    /// match its packet.
    pub(super) fn is_strange_transfer(
        &mut self,
        posted: &TransferPosted<'_>,
        fulfilment: &[u8; 32],
    ) -> bool {
        let (name, currency) = (&*self.options.name, self.options.currency);
        let money = &posted.amount;
        if *posted.payee_fsp == *name && *money.currency == *currency.as_str() {
            return self.is_other_condition(posted, fulfilment);
        }
        self.state.observations.note_wrong(format_args!(
            "POST /transfers of {} {} for {} was sent to {name}, whose currency is {currency}",
            money.amount, money.currency, posted.payee_fsp
        ));
        true
    }

    fn is_other_condition(&mut self, posted: &TransferPosted<'_>, fulfilment: &[u8; 32]) -> bool {
        if read_digest(&posted.condition) == Some(condition(fulfilment)) {
            return false;
        }
        self.state.observations.note_wrong(format_args!(
            "POST /transfers to {} contains the condition '{}', which does not match its packet",
            self.options.name, posted.condition
        ));
        true
    }

    /// A message of the hub about a transfer without a final state.
    pub(super) fn no_notice(&mut self, id: TransferId) -> Reaction {
        if self.state.observations.record(id).is_none() {
            return self.unknown(Status::Ok);
        }
        let (name, body) = (&self.options.name, &self.request.body);
        let quoted = String::from_utf8_lossy(&body[..body.len().min(QUOTED_BYTES)]);
        self.state.observations.note_wrong(format_args!(
            "{} /transfers to {name} contains no final state: '{quoted}'",
            self.request.method
        ));
        match self.state.payer.waiting(id, Leg::Transfer).map(|it| it.id.sequence()) {
            Some(sequence) => self.wrong(Leg::Transfer, sequence),
            None => Reaction::only(Status::Ok),
        }
    }

    /// Ends a unit whose response does not match its request.
    pub(super) fn wrong(&mut self, leg: Leg, sequence: u64) -> Reaction {
        let end = End::Failed(leg, Cause::WrongAnswer);
        Reaction::ending(self.state.payer.end(sequence, end))
    }
}

/// Whether a quote request is for an unknown subscriber or in another currency.
pub(super) fn is_strange_quote(
    options: &SimulatorOptions,
    terms: &OfferedTerms<'_>,
    observations: &mut Observations,
) -> bool {
    let (name, currency, ours) = (&*options.name, options.currency, &options.subscribers);
    let number = &terms.payee_number;
    let is_ours = ours.is_empty() || number.parse().is_ok_and(|number| ours.contains(&number));
    let here = terms.payee_fsp.as_deref().is_none_or(|fsp| fsp == name);
    if is_ours && here && terms.currency == currency {
        return false;
    }
    let fsp = terms.payee_fsp.as_deref().unwrap_or("no FSP");
    observations.note_wrong(format_args!(
        "POST /quotes for {number} of {fsp} in {} was sent to {name}, whose currency is {currency}",
        terms.currency
    ));
    true
}

/// The FSP of a subscriber, if known.
fn owner(options: &SimulatorOptions, number: u64) -> Option<FspName> {
    let at = options.known.partition_point(|known| known.numbers.end <= number);
    let known = options.known.get(at)?;
    known.numbers.contains(&number).then_some(known.fsp)
}
