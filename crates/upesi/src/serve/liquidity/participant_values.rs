//! Values of the state per participant, for metrics. The watcher copies them once a second.
//!
//! Bounds: the first [`PARTICIPANTS_MAX`] participants have values of their own. Those of [`OTHER`]
//! are the sums of the others, but their lowest headroom and the age of their oldest notice. The
//! hub has no values and takes no place.

use std::collections::BTreeMap;

use ledger::{
    Currency, CurrencyAccounts, FspName, Notice, Participant, ParticipantIndex, Stamp, State,
};
use metrics::{Labels, Number, OTHER, PARTICIPANTS_MAX, participant_label, participant_place};

use super::leaders::{Leaders, age_seconds};

/// Notices of which the oldest one of each participant is found. Reading them delays the sequencer
/// by less than 1 ms.
const NOTICES_READ_MAX: usize = 10_000;

/// Values of participants.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParticipantValues {
    /// By [`participant_place`]; the last one is [`OTHER`].
    rows: BTreeMap<usize, Row>,
    leaders: Leaders,
}

/// Values of a participant, or of several.
#[derive(Clone, Debug, Default)]
struct Row {
    /// `None` for several participants.
    name: Option<FspName>,
    notices_owed: u64,
    oldest_notice: Option<Stamp>,
    by_currency: BTreeMap<Currency, Balances>,
}

/// Amounts of a participant in a currency, in ten-thousandths of its unit.
#[derive(Clone, Copy, Debug)]
struct Balances {
    position: i128,
    cover: i128,
    cap: i128,
    /// The lowest one of several participants: a sum would hide one at its limit.
    headroom: i128,
}

/// The samples of the metrics.
#[derive(Debug, Default)]
pub(crate) struct ParticipantSamples {
    pub(crate) notices_owed: Vec<(Labels, Number)>,
    pub(crate) oldest_notice: Vec<(Labels, Number)>,
    pub(crate) positions: Vec<(Labels, Number)>,
    pub(crate) covers: Vec<(Labels, Number)>,
    pub(crate) caps: Vec<(Labels, Number)>,
    pub(crate) headrooms: Vec<(Labels, Number)>,
}

impl ParticipantValues {
    /// Adds a participant.
    pub(super) fn add(&mut self, state: &State, index: ParticipantIndex, of: &Participant) {
        if index == ParticipantIndex::HUB {
            return;
        }
        self.leaders.add(state, index, of);
        let row = self.row(index);
        row.name = (place_of(index) < PARTICIPANTS_MAX).then_some(of.name);
        row.notices_owed += u64::from(state.notices_owed_to(index));
        for accounts in &of.by_currency {
            let Some(balances) = Balances::of(state, accounts) else { continue };
            row.add_balances(accounts.currency, balances);
        }
    }

    /// Adds the oldest notices, of which `owed` are the first.
    pub(super) fn add_notices<'a>(&mut self, owed: impl Iterator<Item = &'a Notice>) {
        for notice in owed.take(NOTICES_READ_MAX) {
            self.leaders.add_notice(notice);
            let oldest = &mut self.row(notice.recipient).oldest_notice;
            *oldest = Some(oldest.map_or(notice.owed_at, |oldest| oldest.min(notice.owed_at)));
        }
    }

    fn row(&mut self, index: ParticipantIndex) -> &mut Row {
        self.rows.entry(place_of(index)).or_default()
    }

    /// Adds the values of a later part of the participants.
    pub(super) fn append(&mut self, part: Self) {
        self.leaders.append(part.leaders);
        for (key, more) in part.rows {
            let row = self.rows.entry(key).or_default();
            row.name = more.name;
            row.add(more);
        }
    }

    /// The participants with the longest queues, and those nearest their cap.
    pub(crate) const fn leaders(&self) -> &Leaders {
        &self.leaders
    }

    /// The age of the oldest notice, in whole seconds; 0 without notices.
    pub(crate) fn oldest_notice_seconds(&self, now: Stamp) -> u64 {
        let oldest = self.rows.values().filter_map(|row| row.oldest_notice).min();
        oldest.map_or(0, |oldest| age_seconds(oldest, now))
    }

    /// The samples of the metrics at a time.
    pub(crate) fn samples(&self, now: Stamp) -> ParticipantSamples {
        let mut samples = ParticipantSamples::default();
        for row in self.rows.values() {
            let name = row.name.as_ref().map(|name| participant_label(name.as_str()));
            samples.add(name.unwrap_or(OTHER), row, now);
        }
        samples
    }
}

impl Row {
    /// Adds values. The name stays.
    fn add(&mut self, more: Self) {
        self.notices_owed += more.notices_owed;
        self.oldest_notice = [self.oldest_notice, more.oldest_notice].into_iter().flatten().min();
        for (currency, balances) in more.by_currency {
            self.add_balances(currency, balances);
        }
    }

    fn add_balances(&mut self, currency: Currency, balances: Balances) {
        let of_currency = self.by_currency.entry(currency).or_insert_with(Balances::of_none);
        of_currency.add(balances);
    }
}

impl ParticipantSamples {
    fn add(&mut self, name: &str, row: &Row, now: Stamp) {
        let labels: Labels = vec![("participant", name.to_owned().into())];
        let age = row.oldest_notice.map_or(0, |oldest| age_seconds(oldest, now));
        self.notices_owed.push((labels.clone(), Number::Integer(row.notices_owed.into())));
        self.oldest_notice.push((labels.clone(), Number::Integer(age.into())));
        for (currency, balances) in &row.by_currency {
            let mut labels = labels.clone();
            labels.push(("currency", currency.to_string().into()));
            self.add_balances(&labels, *balances);
        }
    }

    fn add_balances(&mut self, labels: &Labels, balances: Balances) {
        for (samples, value) in [
            (&mut self.positions, balances.position),
            (&mut self.covers, balances.cover),
            (&mut self.caps, balances.cap),
            (&mut self.headrooms, balances.headroom),
        ] {
            samples.push((labels.clone(), Number::TenThousandths(value)));
        }
    }
}

impl Balances {
    /// `None` without a net debit cap: the accounts were never activated.
    fn of(state: &State, accounts: &CurrencyAccounts) -> Option<Self> {
        let value = |account| state.accounts().get(account).map(|account| account.value.units());
        let cap = accounts.net_debit_cap?.value.units();
        let (position, cover) = (value(accounts.position)?, -value(accounts.settlement)?);
        Some(Self { position, cover, cap, headroom: cap.min(cover) - position })
    }

    /// Of no participant.
    const fn of_none() -> Self {
        Self { position: 0, cover: 0, cap: 0, headroom: i128::MAX }
    }

    fn add(&mut self, other: Self) {
        self.position += other.position;
        self.cover += other.cover;
        self.cap += other.cap;
        self.headroom = self.headroom.min(other.headroom);
    }
}

fn place_of(index: ParticipantIndex) -> usize {
    participant_place(index.at())
}

#[cfg(test)]
mod tests {
    use ledger::{LogIndex, NoticeId, NoticeKind, Outcome, TraceId};

    use super::super::watcher::tests::scheme;
    use super::*;

    fn shown(samples: &[(Labels, Number)]) -> Vec<String> {
        let line = |(labels, value): &(Labels, Number)| {
            let values: Vec<_> = labels.iter().map(|(_, value)| &**value).collect();
            format!("{} {value}", values.join(" "))
        };
        samples.iter().map(line).collect()
    }

    #[test]
    fn participants_beyond_the_limit_are_added_up() {
        let state = scheme(PARTICIPANTS_MAX + 3, |number| number as i128);
        let mut values = ParticipantValues::default();
        // In two parts, as the watcher reads them.
        for (from, to) in [(0, 400), (400, usize::MAX)] {
            let mut part = ParticipantValues::default();
            for (index, participant) in state.registry().iter().skip(from).take(to - from) {
                part.add(&state, index, participant);
            }
            values.append(part);
        }
        let samples = values.samples(Stamp(0));
        let positions = shown(&samples.positions);
        // The hub is the first participant of the registry, and has no position.
        assert_eq!(positions.len(), PARTICIPANTS_MAX + 1);
        assert_eq!(positions[0], "dfsp1 USD 1.0000");
        assert_eq!(positions[PARTICIPANTS_MAX - 1], "dfsp500 USD 500.0000");
        let others: usize = (PARTICIPANTS_MAX + 1..=PARTICIPANTS_MAX + 3).sum();
        assert_eq!(positions[PARTICIPANTS_MAX], format!("other USD {others}.0000"));
        assert_eq!(shown(&samples.caps)[PARTICIPANTS_MAX], "other USD 3000.0000");
        let headrooms = shown(&samples.headrooms);
        assert_eq!(headrooms[0], "dfsp1 USD -1.0000", "there is no cover");
        assert_eq!(headrooms[PARTICIPANTS_MAX], "other USD -503.0000", "the lowest one");
        let notices = shown(&samples.notices_owed);
        assert_eq!((notices.len(), &*notices[0]), (PARTICIPANTS_MAX + 1, "dfsp1 0"));
    }

    /// A name of the label's value for several participants.
    #[test]
    fn participant_named_other_has_values_of_its_own() {
        let state = scheme(PARTICIPANTS_MAX + 1, |number| number as i128);
        let mut values = ParticipantValues::default();
        for (index, participant) in state.registry().iter() {
            values.add(&state, index, participant);
        }
        values.rows.get_mut(&1).expect("the second participant").name = FspName::new(OTHER);
        let positions = shown(&values.samples(Stamp(0)).positions);
        assert_eq!(positions.len(), PARTICIPANTS_MAX + 1);
        assert_eq!(positions[1], "other (participant) USD 2.0000");
        let last = PARTICIPANTS_MAX + 1;
        assert_eq!(positions.last(), Some(&format!("other USD {last}.0000")));
    }

    #[test]
    fn age_is_that_of_the_oldest_notice() {
        let mut values = ParticipantValues::default();
        assert_eq!(values.oldest_notice_seconds(Stamp(9_000_000)), 0);
        let notice = |recipient, owed_at| Notice {
            id: NoticeId(1),
            recipient: ParticipantIndex(recipient),
            transfer: None,
            kind: NoticeKind::Prepare,
            source: LogIndex(1),
            outcome: Outcome::Accepted,
            at: Stamp(owed_at),
            owed_at: Stamp(owed_at),
            trace: TraceId::default(),
        };
        values
            .add_notices([notice(1, 5_000_000), notice(2, 3_500_000), notice(1, 4_000_000)].iter());
        assert_eq!(values.oldest_notice_seconds(Stamp(9_000_000)), 5);
        for (index, name) in [(0, "dfsp1"), (1, "dfsp2")] {
            values.rows.get_mut(&index).expect("it has notices").name = FspName::new(name);
        }
        let ages = shown(&values.samples(Stamp(9_000_000)).oldest_notice);
        assert_eq!(ages, ["dfsp1 5", "dfsp2 5"]);
    }
}
