//! `upesi explain`: the life of one transfer, from the log alone.
//!
//! One pass that decides everything again, for the numbers of a decision are those of the moment.
//! Of what is not about the transfer nothing is kept or copied; per command it costs a comparison
//! of ids. Around each of its own records the balances are looked at before and after.

use std::time::Instant;

use ledger::{
    AccountKind, Amount, Books, Change, Command, Currency, DeliveryResult, Effects,
    FinishedDelivery, FspName, Fulfilment, FundsDirection, Moment, Notice, Outcome, Position,
    Prepare, Stamp, State, TransferId, TransferState,
};
use record::frame::{Frame, Payload, Record};

use crate::audit::transfer_of;
use crate::explanation::{
    Decimal, Decision, Delivery, Event, Explanation, Leg, Message, Owed, Party, Verdict, What,
    request_of, state_name,
};
use crate::offline::{Go, OfflineLog, moment, print_json};
use crate::{ExplainArguments, Failure};

pub(crate) fn explain(arguments: &ExplainArguments) -> Result<(), Failure> {
    let started = Instant::now();
    let id = TransferId::parse(&arguments.transfer).ok_or_else(|| {
        let text = &arguments.transfer;
        Failure::new(format!("{text:?} is no transfer id: a UUID in lower case, or a ULID"))
    })?;
    let log = OfflineLog::open(&arguments.data)?;
    let mut story = Story::new(id);
    let (replay, walked) = log.replay(&mut |replay, placed| {
        let frame = placed.frame;
        replay.apply(frame, &mut |moment, state, effects| {
            story.watch(moment, frame, state, effects);
        })?;
        Ok(Go::On)
    })?;
    if let Some(torn) = walked.torn {
        let (segment, offset) = (torn.segment, torn.offset);
        eprintln!("upesi: {segment} ends within a frame at byte {offset}; read up to there");
    }
    if story.events.is_empty() {
        let records = replay.records();
        return Err(log.failure(format!("none of the {records} records is about transfer {id}")));
    }
    let state = replay.state();
    let pending = state.notices_owed().filter(|notice| notice.transfer == id);
    let mut notices_pending: Vec<_> = pending.map(|notice| notice.id.0).collect();
    notices_pending.sort_unstable();
    let explanation = Explanation {
        transfer: id.to_string(),
        state: state.view(&id).map(|view| state_name(view.state)),
        events: story.events,
        notices_pending,
        records: replay.records(),
        seconds: started.elapsed().as_secs_f64(),
    };
    if arguments.json {
        return print_json(&explanation);
    }
    println!("{explanation}");
    Ok(())
}

/// What has been learned of one transfer.
struct Story {
    id: TransferId,
    events: Vec<Event>,
    /// Everything that was ever owed about it.
    notices: Vec<Notice>,
    terms: Option<Terms>,
    /// The balances before the decision under way, when it is about the transfer.
    before: Option<Before>,
    /// Notices of this batch that were looked at.
    noticed: usize,
}

/// Who and how much, from the prepare that reserved.
struct Terms {
    payer: FspName,
    payee: FspName,
    currency: Currency,
    expiration_ms: u64,
    reserved: bool,
}

/// The state before a decision.
struct Before {
    values: Vec<Amount>,
    parties: Vec<(FspName, Currency, u32)>,
    expired: u64,
}

impl Story {
    fn new(id: TransferId) -> Self {
        let (events, notices) = (Vec::new(), Vec::new());
        Self { id, events, notices, terms: None, before: None, noticed: 0 }
    }

    fn watch(&mut self, moment: Moment<'_>, frame: &Frame<'_>, state: &State, effects: &Effects) {
        match moment {
            Moment::Opened => {
                self.noticed = 0;
                let due = |terms: &Terms| terms.expiration_ms <= state.stamp().millis();
                if self.terms.as_ref().is_some_and(|terms| terms.reserved && due(terms)) {
                    self.before = Some(self.look(state, self.parties()));
                }
            }
            Moment::DeadlinesFired => {
                if let Some(before) = self.before.take() {
                    self.note_expiry(&before, frame, state, effects);
                }
            }
            Moment::Before(_, command) => {
                if self.is_about(command) {
                    self.before = Some(self.look(state, self.parties_of(command, state)));
                }
                return;
            }
            Moment::After(position, command, outcome) => {
                if let Some(before) = self.before.take() {
                    let decided = (position, command, outcome);
                    self.note_decision(&before, decided, frame, (state, effects));
                }
            }
        }
        self.noticed = effects.notices.len();
    }

    fn is_about(&self, command: &Command) -> bool {
        match command {
            Command::FinishDeliveries(ends) => {
                !self.notices.is_empty() && ends.iter().any(|end| self.notice(end).is_some())
            }
            Command::Administer(administer) => match &administer.change {
                Change::MoveFunds(funds) => funds.id == self.id,
                Change::EndFundsOut(end) => end.id == self.id,
                Change::Redeliver { notice } => self.notices.iter().any(|one| one.id == *notice),
                _ => false,
            },
            _ => transfer_of(command) == Some(self.id),
        }
    }

    fn notice(&self, end: &FinishedDelivery) -> Option<&Notice> {
        self.notices.iter().find(|notice| notice.id == end.notice)
    }

    /// The parties whose numbers matter.
    fn parties_of(&self, command: &Command, state: &State) -> Vec<(FspName, Currency)> {
        match command {
            Command::Prepare(prepare) if self.terms.is_none() => {
                vec![(prepare.payer, prepare.currency), (prepare.payee, prepare.currency)]
            }
            Command::Administer(administer) => match &administer.change {
                Change::MoveFunds(funds) => vec![(funds.name, funds.currency)],
                Change::EndFundsOut(end) => {
                    let account = state.books().get(end.account);
                    account.map(|account| (end.name, account.currency)).into_iter().collect()
                }
                _ => Vec::new(),
            },
            Command::FinishDeliveries(_) => Vec::new(),
            _ => self.parties(),
        }
    }

    fn parties(&self) -> Vec<(FspName, Currency)> {
        let parties =
            |terms: &Terms| vec![(terms.payer, terms.currency), (terms.payee, terms.currency)];
        self.terms.as_ref().map(parties).unwrap_or_default()
    }

    fn look(&self, state: &State, mut parties: Vec<(FspName, Currency)>) -> Before {
        parties.dedup();
        let owed = |name: &FspName| {
            state.register().find(name).map_or(0, |(index, _)| state.notices_owed_to(index))
        };
        Before {
            values: state.books().iter().map(|account| account.value).collect(),
            parties: parties
                .iter()
                .map(|(name, currency)| (*name, *currency, owed(name)))
                .collect(),
            expired: state.counters().expired,
        }
    }

    fn note_expiry(
        &mut self,
        before: &Before,
        frame: &Frame<'_>,
        state: &State,
        effects: &Effects,
    ) {
        let ended = state.view(&self.id).is_none_or(|view| view.state != TransferState::Reserved);
        let Some(terms) = self.terms.as_mut().filter(|_| ended) else { return };
        terms.reserved = false;
        let expiration = moment(Stamp::from_millis(terms.expiration_ms));
        let fired = (state.counters().expired - before.expired) as usize;
        let mut decision = self.decision(before, Outcome::Expired, state, effects);
        decision.deadlines_beside = fired.saturating_sub(1);
        let what = What::Expiry { expiration, decision };
        self.push(frame.header().first, state.stamp(), what);
    }

    fn note_decision(
        &mut self,
        before: &Before,
        (position, command, outcome): (Position, &Command, Outcome),
        frame: &Frame<'_>,
        (state, effects): (&State, &Effects),
    ) {
        if let Command::FinishDeliveries(ends) = command {
            return self.note_deliveries(position, ends, state);
        }
        if let (Command::Prepare(prepare), Outcome::PrepareReserved) = (command, outcome) {
            self.terms = Some(Terms::of(prepare));
        }
        let decision = self.decision(before, outcome, state, effects);
        if let Some(terms) = &mut self.terms {
            let view = state.view(&self.id);
            terms.reserved = view.is_some_and(|view| view.state == TransferState::Reserved);
        }
        let what = match command {
            Command::Administer(administer) => What::Operator {
                actor: administer.actor.clone(),
                reason: administer.reason.clone(),
                change: words_of(&administer.change),
                decision,
            },
            _ => {
                let record = frame.record(position).expect("the frame holds what was decided");
                What::Message { message: message_of(&record, command, state.stamp()), decision }
            }
        };
        self.push(position, state.stamp(), what);
        let expired_at_once = |terms: &&Terms| !terms.reserved;
        if outcome == Outcome::PrepareReserved
            && let Some(terms) = self.terms.as_ref().filter(expired_at_once)
        {
            let expiration = moment(Stamp::from_millis(terms.expiration_ms));
            self.noticed = effects.notices.len();
            let after = self.look(state, self.parties());
            let decision = self.decision(&after, Outcome::Expired, state, effects);
            self.push(position, state.stamp(), What::Expiry { expiration, decision });
        }
    }

    fn note_deliveries(&mut self, position: Position, ends: &[FinishedDelivery], state: &State) {
        for end in ends {
            let Some(notice) = self.notice(end) else { continue };
            let finished = moment(Stamp::from_millis(end.finished_ms));
            let delivery = Delivery {
                notice: end.notice.0,
                recipient: state.register().get(notice.recipient).name.as_str().to_owned(),
                request: request_of(notice.kind),
                result: match end.result {
                    DeliveryResult::Delivered => "delivered",
                    DeliveryResult::Dead => "dead",
                    DeliveryResult::Withdrawn => "withdrawn",
                },
                attempts: end.attempts,
                last_status: (end.status != 0).then_some(end.status),
                finished,
            };
            self.push(position, state.stamp(), What::Delivery(delivery));
        }
    }

    fn push(&mut self, position: Position, stamp: Stamp, what: What) {
        self.events.push(Event { position: position.0, time: moment(stamp), what });
    }

    fn decision(
        &mut self,
        before: &Before,
        outcome: Outcome,
        state: &State,
        effects: &Effects,
    ) -> Decision {
        let new = effects.notices[self.noticed..].iter().filter(|one| one.transfer == self.id);
        let new: Vec<Notice> = new.copied().collect();
        let owes = new.iter().map(|notice| Owed {
            notice: notice.id.0,
            recipient: state.register().get(notice.recipient).name.as_str().to_owned(),
            request: request_of(notice.kind),
            outcome: format!("{:?}", notice.outcome),
        });
        let decision = Decision {
            verdict: Verdict::of(outcome),
            parties: before.parties.iter().filter_map(|one| party(one, before, state)).collect(),
            postings: legs(&before.values, state),
            owes: owes.collect(),
            deadlines_beside: 0,
        };
        // A dead letter that is sent again is known already.
        let known: Vec<_> = self.notices.iter().map(|notice| notice.id).collect();
        self.notices.extend(new.into_iter().filter(|notice| !known.contains(&notice.id)));
        decision
    }
}

impl Terms {
    fn of(prepare: &Prepare) -> Self {
        Self {
            payer: prepare.payer,
            payee: prepare.payee,
            currency: prepare.currency,
            expiration_ms: prepare.expiration_ms,
            reserved: true,
        }
    }
}

fn party(
    (name, currency, owed): &(FspName, Currency, u32),
    before: &Before,
    state: &State,
) -> Option<Party> {
    let (_, participant) = state.register().find(name)?;
    let holding = participant.holding(*currency)?;
    let earlier = |id: ledger::AccountId| {
        let value = before.values.get((id.0 as usize).saturating_sub(1)).copied();
        value.unwrap_or(Amount::ZERO)
    };
    let now = |id| state.books().get(id).map_or(Amount::ZERO, |account| account.value);
    Some(Party {
        name: name.as_str().to_owned(),
        currency: currency.to_string(),
        active: participant.active,
        account_active: state.books().get(holding.position).is_some_and(|one| one.active),
        position_before: Decimal(earlier(holding.position)),
        position_after: Decimal(now(holding.position)),
        cover_before: Decimal(-earlier(holding.settlement)),
        cover_after: Decimal(-now(holding.settlement)),
        cap: holding.limit.map(|limit| Decimal(limit.value)),
        notices_owed: *owed,
        lane_capacity: state.settings().lane_capacity,
    })
}

/// The accounts whose balances changed.
fn legs(before: &[Amount], state: &State) -> Vec<Leg> {
    let books: &Books = state.books();
    let changed = books.iter().zip(before).filter_map(|(account, before)| {
        let change = account.value.checked_sub(*before)?;
        let (side, amount) = match change {
            Amount::ZERO => return None,
            rise if Amount::ZERO < rise => ("debit", rise),
            fall => ("credit", -fall),
        };
        Some(Leg {
            side,
            account: account.id.0,
            kind: name_of(account.kind),
            owner: state.register().get(account.owner).name.as_str().to_owned(),
            amount: Decimal(amount),
            currency: account.currency.to_string(),
            before: Decimal(*before),
            after: Decimal(account.value),
        })
    });
    changed.collect()
}

pub(crate) fn name_of(kind: AccountKind) -> String {
    match (kind.name(), kind) {
        (Some(name), _) => name.to_owned(),
        (None, AccountKind::InFlight) => "IN_FLIGHT".to_owned(),
        (None, AccountKind::Outflow) => "OUTFLOW".to_owned(),
        (None, _) => "OPENING".to_owned(),
    }
}

pub(crate) fn words_of(change: &Change) -> String {
    match change {
        Change::MoveFunds(funds) => {
            let way = match funds.direction {
                FundsDirection::In => "funds in",
                FundsDirection::Out => "funds out, reserved",
            };
            format!("{way}: {} {} of {}", funds.amount, funds.currency, funds.name.as_str())
        }
        Change::EndFundsOut(end) if end.commit => format!("funds out of {}", end.name.as_str()),
        Change::EndFundsOut(end) => format!("funds out of {} given back", end.name.as_str()),
        Change::Redeliver { notice } => format!("dead letter {} sent again", notice.0),
        other => format!("{other:?}"),
    }
}

/// A message as the record holds it.
pub(crate) fn message_of(record: &Record<'_>, command: &Command, stamp: Stamp) -> Message {
    let (kept, sizes) = sizes_of(record);
    let blank = Message {
        request: "",
        sender: String::new(),
        destination: None,
        says: String::new(),
        expiration: None,
        expires_in_ms: None,
        trace: String::new(),
        hash: String::new(),
        kept,
        header_lines: sizes.map(|(lines, _, _)| lines),
        header_bytes: sizes.map(|(_, head, _)| head),
        body_bytes: sizes.map(|(_, _, body)| body),
        digest: (kept != "none").then(|| record.payload_digest.to_string()),
    };
    let name = |name: &FspName| name.as_str().to_owned();
    match command {
        Command::Prepare(prepare) => Message {
            request: "POST /transfers",
            sender: name(&prepare.source),
            says: format!(
                "{} {} from {} to {}, condition {}",
                prepare.amount,
                prepare.currency,
                prepare.payer.as_str(),
                prepare.payee.as_str(),
                hexadecimal(&prepare.condition)
            ),
            expiration: Some(moment(Stamp::from_millis(prepare.expiration_ms))),
            expires_in_ms: Some(prepare.expiration_ms.cast_signed() - stamp.millis().cast_signed()),
            trace: hexadecimal(&prepare.trace),
            hash: prepare.hash.to_string(),
            ..blank
        },
        Command::Fulfil(fulfil) => Message {
            request: "PUT /transfers/{id}",
            sender: name(&fulfil.source),
            destination: fulfil.destination.as_ref().map(name),
            says: format!("{:?}, {}", fulfil.state, words_of_fulfilment(fulfil.fulfilment)),
            trace: hexadecimal(&fulfil.trace),
            hash: fulfil.hash.to_string(),
            ..blank
        },
        Command::Abort(abort) => Message {
            request: "PUT /transfers/{id}/error",
            sender: name(&abort.source),
            destination: abort.destination.as_ref().map(name),
            says: match abort.code_is_known {
                true => "an error of the protocol or of private use".to_owned(),
                false => "an error that the protocol does not know".to_owned(),
            },
            trace: hexadecimal(&abort.trace),
            hash: abort.hash.to_string(),
            ..blank
        },
        _ => blank,
    }
}

/// What is left of a message; header lines, bytes of headers and of the body.
fn sizes_of(record: &Record<'_>) -> (&'static str, Option<(usize, usize, usize)>) {
    let stored = match record.payload {
        Payload::None => return ("none", None),
        Payload::Erased => return ("erased", None),
        Payload::Stored(stored) => stored,
    };
    let read = fspiop::payload::decode(&bytes::Bytes::copy_from_slice(stored));
    let sizes = read.ok().map(|message| {
        let line = |(name, value): (&_, &_)| length_of(name) + length_of(value);
        (message.headers.len(), message.headers.iter().map(line).sum(), message.body.len())
    });
    ("stored", sizes)
}

fn length_of(text: &impl AsRef<[u8]>) -> usize {
    text.as_ref().len()
}

fn words_of_fulfilment(fulfilment: Fulfilment) -> String {
    use sha2::Digest;
    match fulfilment {
        Fulfilment::Absent => "no fulfilment".to_owned(),
        Fulfilment::Undecodable => "a fulfilment that is not 32 bytes".to_owned(),
        Fulfilment::Present(preimage) => {
            let hash = sha2::Sha256::digest(preimage);
            format!("a fulfilment that hashes to {}", hexadecimal(&hash))
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
