//! Collects the entries of a statement from the changes of balances.
//!
//! Before and after each step of a replay the collector compares the balances of the participant's
//! accounts and the reserved amount of the transfer that the step concerns. The change of the
//! booked balance is the change of the balance without that of the reserved amount. Its cause is
//! named after the record; an unknown one after the kind of the record.

use std::collections::{BTreeMap, HashMap};

use ledger::{
    AccountId, AccountKind, Amount, ApplyStep, Change, Command, Currency, FundsDirection, LogIndex,
    Outcome, Reservation, SettlementId, Stamp, State, TransferId, WindowId,
};
use operations::{
    AccountStatement, Balance, Entry, EntryDetail, LogPoint, ParticipantStatementRequest,
    STATEMENT_ENTRIES_MAX, Statement, StatementPeriod, StatementRefusal, StatementSubject,
};

/// Follows a replay.
pub(crate) struct Collector<'r> {
    request: ParticipantStatementRequest,
    accounts: BTreeMap<AccountId, TrackedAccount>,
    /// Number of accounts of the participant at the last look.
    known: usize,
    /// The record after which the period begins, once it is reached.
    from: Option<LogPoint>,
    /// The last record seen.
    last: LogPoint,
    is_over: bool,
    /// The reserved amount before the current step.
    before: Option<Reservation>,
    /// Reads the external reference in the record that reserved funds out.
    reference: &'r dyn Fn(LogIndex) -> Option<String>,
    entries: usize,
    /// Maximum number of entries.
    entries_max: usize,
    fault: Option<String>,
}

/// An account of the participant.
struct TrackedAccount {
    kind: AccountKind,
    currency: Currency,
    /// The balance after the last step.
    value: Amount,
    /// The reserved part of it.
    reserved: Amount,
    opening: Balance,
    entries: Vec<Entry>,
    /// The entry of each sum.
    sums: HashMap<(&'static str, Option<WindowId>), usize>,
}

/// The cause of a change.
struct Cause<'a> {
    text: &'a str,
    transfer: Option<TransferId>,
    settlement: Option<SettlementId>,
    reference: Option<String>,
}

impl Cause<'_> {
    fn entry(&self, cause: &str, amount: Amount, at: LogPoint) -> Entry {
        Entry {
            cause: cause.to_owned(),
            amount,
            count: 1,
            at,
            window: None,
            settlement: self.settlement,
            transfer: self.transfer,
            reference: self.reference.clone(),
        }
    }
}

/// The changes of a booked balance by a commit: the transfer itself, and the rest.
#[derive(Clone, Copy, Default)]
struct CommitParts {
    transfer: Amount,
    rest: Amount,
}

impl<'r> Collector<'r> {
    /// A collector for a replay that starts from a state.
    pub(crate) fn new(
        request: ParticipantStatementRequest,
        state: &State,
        reference: &'r dyn Fn(LogIndex) -> Option<String>,
    ) -> Self {
        let mut collector = Self {
            request,
            accounts: BTreeMap::new(),
            known: 0,
            from: None,
            last: LogPoint::of(state),
            is_over: false,
            before: None,
            reference,
            entries: 0,
            entries_max: STATEMENT_ENTRIES_MAX,
            fault: None,
        };
        collector.begin_if(state, |period| match period {
            StatementPeriod::Times { from, .. } => from.is_none(),
            StatementPeriod::Records { after, .. } => after <= state.log_index(),
            StatementPeriod::Window(_) => false,
        });
        collector
    }

    /// Whether the remaining records are irrelevant.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over || self.fault.is_some() || self.entries_max < self.entries
    }

    /// Follows one step.
    pub(crate) fn watch(&mut self, step: ApplyStep<'_>, state: &State) {
        if self.is_over() {
            return;
        }
        match step {
            ApplyStep::Opened => self.open_batch(state),
            ApplyStep::DeadlinesFired => {}
            ApplyStep::Expiring(id) => self.before = state.reservation(&id),
            ApplyStep::Expired(id) => {
                let at =
                    LogPoint { log_index: LogIndex(self.last.log_index.0 + 1), ..self.now(state) };
                self.compare(state, (None, Outcome::Expired), (Some(id), at));
            }
            ApplyStep::Before(_, command) | ApplyStep::ItemBefore(_, command) => {
                self.before = command.rows().next().and_then(|id| state.reservation(id));
            }
            ApplyStep::After(log_index, command, outcome)
            | ApplyStep::ItemAfter(log_index, command, outcome) => {
                let at = LogPoint { log_index, ..self.now(state) };
                let id = command.rows().next().copied();
                self.compare(state, (Some(command), outcome), (id, at));
                self.last = at;
                // A period that begins with the log has the time of its first record.
                let first = self.from.as_mut().filter(|from| from.stamp == Stamp::default());
                first.into_iter().for_each(|from| from.stamp = at.stamp);
                self.pass(state);
            }
        }
    }

    fn now(&self, state: &State) -> LogPoint {
        LogPoint { log_index: self.last.log_index, stamp: state.stamp() }
    }

    /// At the beginning of a batch, which has one stamp.
    fn open_batch(&mut self, state: &State) {
        let stamp = state.stamp();
        if let StatementPeriod::Times { from, to } = self.request.period {
            self.begin_if(state, |_| from.is_none_or(|from| from <= stamp));
            self.end_if(state, to.is_some_and(|to| to <= stamp));
        }
    }

    /// After a record.
    fn pass(&mut self, state: &State) {
        let log_index = self.last.log_index;
        match self.request.period {
            StatementPeriod::Times { .. } => {}
            StatementPeriod::Records { after, until } => {
                self.begin_if(state, |_| after <= log_index);
                self.end_if(state, until.is_some_and(|until| until <= log_index));
            }
            StatementPeriod::Window(id) => {
                let open = state.settlement().numbers().window;
                self.begin_if(state, |_| id <= open);
                self.end_if(state, id < open);
            }
        }
    }

    /// Begins the period, unless it has begun.
    fn begin_if(&mut self, state: &State, is_due: impl FnOnce(StatementPeriod) -> bool) {
        if self.from.is_some() || !is_due(self.request.period) {
            return;
        }
        self.from = Some(self.last);
        self.add_accounts(state);
        for reservation in state.reservations() {
            if let Some(account) = self.accounts.get_mut(&reservation.account) {
                account.reserved = sum(account.reserved, reservation.amount);
            }
        }
        for (id, account) in &mut self.accounts {
            account.value = state.accounts().get(*id).map_or(Amount::ZERO, |it| it.value);
            account.opening = account.balance();
        }
    }

    /// Ends the period, and compares the reserved amounts with those of the state.
    fn end_if(&mut self, state: &State, is_due: bool) {
        if !is_due || self.is_over || self.from.is_none() {
            return;
        }
        self.is_over = true;
        let mut reserved: BTreeMap<AccountId, Amount> = BTreeMap::new();
        for reservation in state.reservations() {
            let amount = reserved.entry(reservation.account).or_default();
            *amount = sum(*amount, reservation.amount);
        }
        for (id, account) in &self.accounts {
            let expected = reserved.get(id).copied().unwrap_or_default();
            if account.reserved != expected {
                let (id, found) = (id.0, account.reserved);
                self.fault = Some(format!(
                    "account {id}: the entries leave {found} reserved, the ledger has {expected}; \
                     please report this defect"
                ));
            }
        }
    }

    /// Adds the accounts that the participant has got.
    fn add_accounts(&mut self, state: &State) {
        let Some((_, participant)) = state.registry().find(&self.request.participant) else {
            return;
        };
        if participant.accounts.len() == self.known {
            return;
        }
        self.known = participant.accounts.len();
        for id in &participant.accounts {
            let Some(account) = state.accounts().get(*id) else { continue };
            let is_wanted = self.request.currency.is_none_or(|it| it == account.currency);
            if is_wanted && account.kind.name().is_some() {
                let tracked = TrackedAccount::new(account.kind, account.currency);
                self.accounts.entry(*id).or_insert(tracked);
            }
        }
    }

    /// Adds the entries of a step.
    fn compare(
        &mut self,
        state: &State,
        (command, outcome): (Option<&Command>, Outcome),
        (id, at): (Option<TransferId>, LogPoint),
    ) {
        let before = self.before.take();
        if self.from.is_none() {
            return;
        }
        self.add_accounts(state);
        let after = id.and_then(|id| state.reservation(&id));
        let committed = before.filter(|_| outcome == Outcome::Committed);
        let mut changes = Vec::new();
        for (account_id, account) in &mut self.accounts {
            let booked = account.update(state, *account_id, (before, after));
            let transfer = committed.map_or(Amount::ZERO, |it| part_of(&it, *account_id));
            let parts = CommitParts { transfer, rest: sum(booked, -transfer) };
            if parts.transfer != Amount::ZERO || parts.rest != Amount::ZERO {
                changes.push((*account_id, parts));
            }
        }
        if changes.is_empty() {
            return;
        }
        let cause = self.cause(command, (id, before));
        match committed {
            Some(_) => self.add_commit(state, &changes, (&cause, at)),
            None => {
                for (account, parts) in changes {
                    self.add(account, cause.entry(cause.text, parts.rest, at));
                }
            }
        }
    }

    fn add_commit(
        &mut self,
        state: &State,
        changes: &[(AccountId, CommitParts)],
        (cause, at): (&Cause<'_>, LogPoint),
    ) {
        let kind = |id: AccountId| self.accounts[&id].kind;
        let is_gross = changes.iter().any(|(id, parts)| {
            parts.rest != Amount::ZERO && kind(*id) != AccountKind::InterchangeFee
        });
        let window = state.settlement().numbers().window;
        let window = (!is_gross && WindowId(0) < window).then_some(window);
        let mut new = Vec::new();
        for (id, parts) in changes {
            let own = match parts.transfer < Amount::ZERO {
                true => "transfers received",
                false => "transfers paid",
            };
            let rest = match kind(*id) {
                AccountKind::InterchangeFee => "interchange fees",
                _ => "gross settlement",
            };
            for (text, amount) in [(own, parts.transfer), (rest, parts.rest)] {
                if amount != Amount::ZERO {
                    let entry = Entry { window, ..cause.entry(text, amount, at) };
                    new.push((*id, text, entry));
                }
            }
        }
        for (id, text, entry) in new {
            match self.request.detail {
                EntryDetail::Each => self.add(id, entry),
                EntryDetail::Summed => self.add_to_sum(id, text, entry),
            }
        }
    }

    fn add(&mut self, account: AccountId, entry: Entry) {
        let account = self.accounts.get_mut(&account).expect("its change was found there");
        account.entries.push(entry);
        self.entries += 1;
    }

    /// Adds to the sum of the same cause and window.
    fn add_to_sum(&mut self, id: AccountId, cause: &'static str, entry: Entry) {
        let account = self.accounts.get_mut(&id).expect("its change was found there");
        let key = (cause, entry.window);
        if let Some(at) = account.sums.get(&key) {
            let known = &mut account.entries[*at];
            known.amount = sum(known.amount, entry.amount);
            known.count += 1;
            known.at = entry.at;
            return;
        }
        account.sums.insert(key, account.entries.len());
        self.add(id, Entry { transfer: None, ..entry });
    }

    fn cause<'c>(
        &self,
        command: Option<&'c Command>,
        (transfer, before): (Option<TransferId>, Option<Reservation>),
    ) -> Cause<'c> {
        let none = Cause { text: "expired transfers", transfer, settlement: None, reference: None };
        match command {
            None => none,
            Some(Command::Administer(administer)) => {
                let own = external_reference(&administer.reason);
                let of_outflow = || (self.reference)(before?.record);
                Cause {
                    text: text_of_change(administer.change.decided()),
                    settlement: settlement_of(administer.change.decided()),
                    reference: own.or_else(of_outflow),
                    ..none
                }
            }
            Some(Command::Fulfil(_)) => Cause { text: "transfers", ..none },
            Some(Command::Prepare(_)) => Cause { text: "prepare", ..none },
            Some(Command::Abort(_)) => Cause { text: "abort", ..none },
            Some(Command::Genesis(_)) => Cause { text: "genesis", ..none },
            Some(Command::FinishDeliveries(_)) => Cause { text: "deliveries", ..none },
            Some(Command::ChangeParties(_)) => Cause { text: "parties", ..none },
            Some(Command::PrepareBulk(_)) => Cause { text: "bulk prepare", ..none },
            Some(Command::FulfilBulk(_)) => Cause { text: "bulk transfers", ..none },
            Some(Command::AbortBulk(_)) => Cause { text: "bulk abort", ..none },
            Some(Command::RecordQuote(_) | Command::RecordQuoteAnswer(_)) => {
                Cause { text: "quotes", ..none }
            }
            Some(Command::RecordRequestToPay(_)) => Cause { text: "requests to pay", ..none },
            Some(Command::Tick) => Cause { text: "tick", ..none },
        }
    }

    /// The statement. `state` is that after the last step.
    pub(crate) fn finish(
        mut self,
        state: &State,
    ) -> Result<Result<Statement, StatementRefusal>, String> {
        if self.entries_max < self.entries {
            return Ok(Err(StatementRefusal::TooLarge));
        }
        if let (StatementPeriod::Window(WindowId(id)), None) = (self.request.period, self.from) {
            return Ok(Err(StatementRefusal::WindowNotFound(id)));
        }
        self.begin_if(state, |_| true);
        self.end_if(state, true);
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let name = self.request.participant.as_str().to_owned();
        let of = |(id, account): (AccountId, TrackedAccount)| account.statement(&name, id);
        let accounts = self.accounts.into_iter().map(of).collect();
        Ok(Ok(Statement {
            subject: StatementSubject::Participant { name: name.clone() },
            from: self.from.unwrap_or(self.last),
            to: self.last,
            accounts,
        }))
    }
}

impl TrackedAccount {
    fn new(kind: AccountKind, currency: Currency) -> Self {
        Self {
            kind,
            currency,
            value: Amount::ZERO,
            reserved: Amount::ZERO,
            opening: Balance::default(),
            entries: Vec::new(),
            sums: HashMap::new(),
        }
    }

    fn balance(&self) -> Balance {
        Balance { booked: sum(self.value, -self.reserved), reserved: self.reserved }
    }

    /// Takes over the balance after a step. Returns the change of the booked balance.
    fn update(
        &mut self,
        state: &State,
        id: AccountId,
        (before, after): (Option<Reservation>, Option<Reservation>),
    ) -> Amount {
        let booked = self.balance().booked;
        let own = |it: Option<Reservation>| {
            it.filter(|it| it.account == id).map_or(Amount::ZERO, |it| it.amount)
        };
        self.value = state.accounts().get(id).map_or(Amount::ZERO, |account| account.value);
        self.reserved = sum(sum(self.reserved, own(after)), -own(before));
        sum(self.balance().booked, -booked)
    }

    fn statement(mut self, participant: &str, account: AccountId) -> AccountStatement {
        self.entries.sort_by_key(|entry| entry.at.log_index);
        AccountStatement {
            participant: participant.to_owned(),
            account,
            kind: self.kind,
            currency: self.currency,
            closing: self.balance(),
            opening: self.opening,
            entries: self.entries,
            part: None,
        }
    }
}

/// The amount that the commit of a transfer adds to an account.
fn part_of(committed: &Reservation, account: AccountId) -> Amount {
    let paid = if committed.account == account { committed.amount } else { Amount::ZERO };
    match committed.payee_account == Some(account) {
        true => sum(paid, -committed.amount),
        false => paid,
    }
}

fn text_of_change(change: &Change) -> &'static str {
    match change {
        Change::MoveFunds(funds) if funds.direction == FundsDirection::In => "funds in",
        Change::MoveFunds(_) | Change::EndFundsOut(_) => "funds out",
        Change::AdjustBalance(_) => "adjustment",
        Change::SetInitialPositionAndLimits(_) => "initial position",
        Change::AdvanceSettlement(_) => "settlement",
        Change::AbortSettlement(_) => "settlement abort",
        other => other.declaration().name,
    }
}

const fn settlement_of(change: &Change) -> Option<SettlementId> {
    if let Change::AdvanceSettlement(change) = change {
        return Some(change.settlement);
    }
    if let Change::AbortSettlement(change) = change {
        return Some(change.settlement);
    }
    None
}

/// The external reference of funds, which the admin API records with the reason.
pub(crate) fn external_reference(reason: &str) -> Option<String> {
    let (_, reference) = reason.rsplit_once(" (externalReference ")?;
    reference.strip_suffix(')').map(str::to_owned)
}

fn sum(left: Amount, right: Amount) -> Amount {
    left.checked_add(right).expect("balances are within the range of the ledger")
}

#[cfg(test)]
mod tests {
    use ledger::{
        Administer, Batch, CreateHubAccount, CreateParticipant, Digest, Effects, FspName, Genesis,
        MoveFunds, SetInitialPositionAndLimits,
    };

    use super::*;

    /// A log with a participant and this number of funds in.
    fn commands(funds: u8) -> Vec<Command> {
        let currency = Currency::parse("USD").expect("a currency");
        let name = FspName::new("dfsp1").expect("a name");
        let hub = FspName::new("Hub").expect("a name");
        let hub_account = |kind| Change::CreateHubAccount(CreateHubAccount { currency, kind });
        let funds_in = |number| {
            let mut id = [0; 17];
            id[16] = number;
            Change::MoveFunds(MoveFunds {
                id: TransferId::from_bytes(id).expect("an id"),
                name,
                account: AccountId(7),
                direction: FundsDirection::In,
                currency,
                amount: Amount::from_units(10_000),
                hash: Digest([number; 32]),
            })
        };
        let changes = [
            hub_account(AccountKind::HubReconciliation),
            hub_account(AccountKind::HubMultilateralSettlement),
            Change::CreateParticipant(CreateParticipant { name, currency }),
            Change::SetInitialPositionAndLimits(SetInitialPositionAndLimits {
                name,
                currency,
                net_debit_cap: Amount::from_units(10_000),
                position: Amount::ZERO,
            }),
        ];
        let administer = |change| {
            let (actor, reason) = ("tester".to_owned(), String::new());
            Command::Administer(Box::new(Administer { actor, reason, change }))
        };
        let changes = changes.into_iter().chain((1..=funds).map(funds_in)).map(administer);
        [Command::Genesis(Genesis { seed: [1; 16], hub })].into_iter().chain(changes).collect()
    }

    /// The statement of the participant over a log with this number of funds in.
    fn statement(funds: u8, entries_max: usize) -> (Result<Statement, StatementRefusal>, bool) {
        let request = ParticipantStatementRequest {
            participant: FspName::new("dfsp1").expect("a name"),
            currency: None,
            detail: EntryDetail::Summed,
            period: StatementPeriod::Times { from: None, to: None },
        };
        let mut state = State::new();
        let mut collector = Collector::new(request, &state, &|_| None);
        collector.entries_max = entries_max;
        for (command, number) in commands(funds).iter().zip(1..) {
            let (first, stamp) = (LogIndex(number), Stamp(1_000_000 * number));
            let batch = Batch { first, stamp, node: 0, epoch: 1, sequence: number };
            let mut effects = Effects::default();
            state.apply_watched(&batch, [command], &mut effects, &mut |step, state, _| {
                collector.watch(step, state);
            });
        }
        let is_over = collector.is_over();
        (collector.finish(&state).expect("the balances are explained"), is_over)
    }

    #[test]
    fn statement_beyond_its_bound_is_refused() {
        let (found, is_over) = statement(3, 3);
        let found = found.expect("it fits");
        let settlement = found.accounts.iter().find(|it| it.kind == AccountKind::Settlement);
        let settlement = settlement.expect("the participant has one");
        assert_eq!((settlement.entries.len(), is_over), (3, false));
        assert_eq!(settlement.closing.booked, Amount::from_units(-30_000));
        // The remaining records are not followed.
        let (found, is_over) = statement(3, 2);
        assert_eq!((found.err(), is_over), (Some(StatementRefusal::TooLarge), true));
    }

    #[test]
    fn references_are_read_from_reasons() {
        for (reason, expected) in [
            ("deposit (externalReference advice 4711)", Some("advice 4711")),
            ("a (externalReference b) (externalReference (c))", Some("(c)")),
            ("deposit", None),
            (" (externalReference )", Some("")),
        ] {
            assert_eq!(external_reference(reason).as_deref(), expected, "{reason}");
        }
    }
}
