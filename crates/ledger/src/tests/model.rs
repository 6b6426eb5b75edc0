//! A second opinion: transfers, cover, cap and funds written down as naively as can be from the
//! documents (hub-semantics 3.3 to 3.6, 3.10, 4.4 and the rulings). It shares no type and no
//! line with the kernel; outcomes are predicted by name.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::history::{
    Act, AnswerAct, CAP, DEPOSIT, PrepareAct, START_MS, Says, answer_body, prepare_body,
};

/// Where a transfer, or a movement of funds, stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stands {
    Reserved,
    Committed,
    Aborted,
}

/// The party that never is a participant.
const NOBODY: usize = 3;

/// A participant.
#[derive(Clone, Debug)]
struct Party {
    active: bool,
    account_active: bool,
    position: i64,
    settlement: i64,
    cap: i64,
}

/// Whatever has an id.
#[derive(Clone, Debug)]
struct Item {
    id: u8,
    /// Body of the prepare; none for a movement of funds.
    body: Option<String>,
    /// Request of a movement of funds, and the one that ended it.
    funds: Option<String>,
    funds_end: Option<String>,
    payer: usize,
    payee: Option<usize>,
    units: i64,
    expires_ms: u64,
    stands: Stands,
    expired: bool,
    told_late: bool,
    /// Whether it was an error, and the body.
    answer: Option<(bool, String)>,
}

/// The model of the hub.
#[derive(Clone, Debug)]
pub(super) struct Model {
    now_ms: u64,
    parties: Vec<Party>,
    items: Vec<Item>,
    on_us: bool,
    put_aborted: bool,
    covers_position: bool,
}

impl Model {
    pub(super) fn new() -> Self {
        let party = Party {
            active: true,
            account_active: true,
            position: 0,
            settlement: -DEPOSIT,
            cap: CAP,
        };
        Self {
            now_ms: START_MS,
            parties: Vec::from([party.clone(), party.clone(), party]),
            items: Vec::new(),
            on_us: false,
            put_aborted: false,
            covers_position: true,
        }
    }

    /// Time passes; whatever has met its deadline ends.
    pub(super) fn wait(&mut self, ms: u64) {
        self.now_ms += ms;
        self.expire();
    }

    pub(super) fn balances(&self, party: usize) -> (i128, i128) {
        let party = &self.parties[party];
        (i128::from(party.position), i128::from(party.settlement))
    }

    pub(super) fn stands(&self, id: u8) -> Option<Stands> {
        self.items.iter().find(|item| item.id == id).map(|item| item.stands)
    }

    /// What will become of an act; none for those the model knows nothing about.
    pub(super) fn predict(&mut self, act: &Act) -> Option<&'static str> {
        match act {
            Act::Prepare(act) => Some(self.prepare(act)),
            Act::Answer(act) => Some(self.answer(act)),
            Act::Participant { party, active } => {
                Some(self.change(*party, |party| party.active = *active))
            }
            Act::Account { party, active } => {
                Some(self.change(*party, |party| party.account_active = *active))
            }
            Act::Cap { party, units } => Some(self.change(*party, |party| party.cap = *units)),
            Act::FundsIn { id, party, units } => Some(self.funds_in(*id, *party, *units)),
            Act::FundsOut { id, party, units } => Some(self.funds_out(*id, *party, *units)),
            Act::EndFundsOut { id, party, commit } => Some(self.end_out(*id, *party, *commit)),
            Act::Settings { on_us, put_aborted, covers_position } => {
                self.on_us = *on_us;
                self.put_aborted = *put_aborted;
                self.covers_position = *covers_position;
                Some("Accepted")
            }
            Act::Tick => Some("Accepted"),
            Act::Deliver { .. } | Act::Redeliver { .. } => None,
        }
    }

    fn expire(&mut self) {
        for item in &mut self.items {
            let transfer = item.body.is_some() && item.stands == Stands::Reserved;
            if transfer && item.expires_ms <= self.now_ms {
                item.stands = Stands::Aborted;
                item.expired = true;
                self.parties[item.payer].position -= item.units;
            }
        }
    }

    fn prepare(&mut self, act: &PrepareAct) -> &'static str {
        if act.source == NOBODY {
            return "SenderNotFound";
        }
        let body = prepare_body(act);
        if let Some(known) = self.items.iter().find(|item| item.id == act.id) {
            return match (known.body == Some(body), known.stands) {
                (false, _) => "PrepareModified",
                (true, Stands::Reserved) => "PrepareResentReserved",
                (true, Stands::Committed) => "PrepareResentCommitted",
                (true, Stands::Aborted) => "PrepareResentAborted",
            };
        }
        let refusal = self.refusal(act);
        let stands = if refusal.is_none() { Stands::Reserved } else { Stands::Aborted };
        self.items.push(Item {
            id: act.id,
            body: Some(body),
            funds: None,
            funds_end: None,
            payer: act.payer,
            payee: Some(act.payee),
            units: act.units,
            expires_ms: START_MS + act.expires_ms,
            stands,
            expired: false,
            told_late: false,
            answer: None,
        });
        if let Some(refusal) = refusal {
            return refusal;
        }
        self.parties[act.payer].position += act.units;
        self.expire();
        "PrepareReserved"
    }

    fn refusal(&self, act: &PrepareAct) -> Option<&'static str> {
        let (payer, payee) = (self.parties.get(act.payer), self.parties.get(act.payee));
        if act.source != act.payer {
            return Some("PrepareSourceNotPayer");
        }
        let Some(payer) = payer else { return Some("PreparePayerNotFound") };
        if !payer.active {
            return Some("PreparePayerInactive");
        }
        let Some(payee) = payee else { return Some("PreparePayeeNotFound") };
        if !payee.active {
            return Some("PreparePayeeInactive");
        }
        if START_MS + act.expires_ms < self.now_ms {
            return Some("PrepareExpirationPast");
        }
        if act.payer == act.payee && !self.on_us {
            return Some("PreparePayerIsPayee");
        }
        if !payer.account_active {
            return Some("PreparePayerAccountInactive");
        }
        if !payee.account_active {
            return Some("PreparePayeeAccountInactive");
        }
        let available_by_liquidity = -payer.settlement - payer.position;
        let available_by_cap = payer.cap - payer.position;
        if available_by_liquidity < act.units {
            return Some("PrepareLiquidityInsufficient");
        }
        if available_by_cap < act.units {
            return Some("PrepareCapExceeded");
        }
        None
    }

    fn answer(&mut self, act: &AnswerAct) -> &'static str {
        if act.says == Says::ReservedUnderVersion10 {
            return "FulfilVersionIgnored";
        }
        if act.sender == NOBODY {
            return "SenderNotFound";
        }
        let now_error = matches!(act.says, Says::Error { .. });
        let body = answer_body(act);
        let Some(item) = self.items.iter_mut().find(|item| item.id == act.id) else {
            return "AnswerTransferNotFound";
        };
        if item.body.is_none() && item.stands == Stands::Reserved {
            return "AnswerTransferNotFound";
        }
        if item.payee != Some(act.sender) {
            return "AnswerFromStranger";
        }
        if item.stands != Stands::Reserved {
            if item.expired {
                let first = !item.told_late;
                item.told_late = true;
                return if first { "AnswerExpired" } else { "AnswerStateNotReserved" };
            }
            return match &item.answer {
                Some((error, _)) if *error != now_error => "AnswerStateNotReserved",
                Some((_, known)) if *known != body => "AnswerModified",
                Some(_) => "AnswerResent",
                None => "AnswerStateNotReserved",
            };
        }
        let outcome = match act.says {
            _ if act.to.is_some_and(|to| to != item.payer) => "AnswerToStranger",
            Says::Aborted if !self.put_aborted => return "FulfilAbortedIgnored",
            Says::Aborted => "AbortedByPut",
            Says::Committed { right: true } | Says::Reserved { right: true } => "Committed",
            Says::Error { known: true } => "Aborted",
            Says::Error { known: false } => "AbortedWithUnknownCode",
            _ => "FulfilmentInvalid",
        };
        item.answer = Some((now_error, body));
        if outcome == "Committed" {
            item.stands = Stands::Committed;
            self.parties[act.sender].position -= item.units;
        } else {
            item.stands = Stands::Aborted;
            self.parties[item.payer].position -= item.units;
        }
        outcome
    }

    fn change(&mut self, party: usize, change: impl FnOnce(&mut Party)) -> &'static str {
        match self.parties.get_mut(party) {
            None => "ParticipantNotFound",
            Some(party) => {
                change(party);
                "Accepted"
            }
        }
    }

    /// Why a movement of funds cannot begin.
    fn no_movement(&self, id: u8, party: usize, request: &String) -> Option<&'static str> {
        match self.parties.get(party) {
            None => return Some("ParticipantNotFound"),
            Some(known) if !known.active => return Some("ParticipantInactive"),
            Some(_) => {}
        }
        let known = self.items.iter().find(|item| item.id == id)?;
        let same = known.funds.as_ref() == Some(request);
        Some(if same { "FundsRepeated" } else { "FundsModified" })
    }

    fn funds_in(&mut self, id: u8, party: usize, units: i64) -> &'static str {
        let request = format!("in {id} {party} {units}");
        if let Some(refusal) = self.no_movement(id, party, &request) {
            return refusal;
        }
        self.parties[party].settlement -= units;
        self.record_funds((id, party, units), request, Stands::Committed);
        "Accepted"
    }

    fn funds_out(&mut self, id: u8, party: usize, units: i64) -> &'static str {
        let request = format!("out {id} {party} {units}");
        if let Some(refusal) = self.no_movement(id, party, &request) {
            return refusal;
        }
        let entry = &self.parties[party];
        let owed = if self.covers_position && entry.position > 0 { entry.position } else { 0 };
        if units > -entry.settlement - owed {
            self.record_funds((id, party, units), request, Stands::Aborted);
            return "FundsInsufficient";
        }
        self.parties[party].settlement += units;
        self.record_funds((id, party, units), request, Stands::Reserved);
        "Accepted"
    }

    fn end_out(&mut self, id: u8, party: usize, commit: bool) -> &'static str {
        match self.parties.get(party) {
            None => return "ParticipantNotFound",
            Some(known) if !known.active => return "ParticipantInactive",
            Some(_) => {}
        }
        let request = format!("end {id} {party} {commit}");
        let resent = |item: &Item| item.id == id && item.funds_end.as_ref() == Some(&request);
        if self.items.iter().any(resent) {
            return "FundsRepeated";
        }
        let flow = self.items.iter_mut().find(|item| {
            let outflow = item.body.is_none() && item.stands == Stands::Reserved;
            outflow && item.id == id && item.payer == party
        });
        let Some(flow) = flow else { return "FundsOutNotReserved" };
        flow.funds_end = Some(request);
        if commit {
            flow.stands = Stands::Committed;
        } else {
            flow.stands = Stands::Aborted;
            self.parties[party].settlement -= flow.units;
        }
        "Accepted"
    }

    fn record_funds(
        &mut self,
        (id, party, units): (u8, usize, i64),
        request: String,
        stands: Stands,
    ) {
        self.items.push(Item {
            id,
            body: None,
            funds: Some(request),
            funds_end: None,
            payer: party,
            payee: None,
            units,
            expires_ms: u64::MAX,
            stands,
            expired: false,
            told_late: false,
            answer: None,
        });
    }
}
