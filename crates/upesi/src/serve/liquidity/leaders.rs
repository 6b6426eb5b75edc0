//! The participants with the longest queues, and those nearest their cap or cover, among all
//! participants. The watcher finds them once a second.

use std::cmp::Reverse;
use std::collections::HashMap;

use ledger::{Amount, Currency, FspName, Notice, Participant, ParticipantIndex, Stamp, State};
use operations::{CapUse, LISTED_MAX, Queue};

/// Percent in the whole.
const WHOLE: i128 = 100;

/// The first ones of two orders.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaders {
    queues: Vec<(u64, ParticipantIndex, FspName)>,
    caps: Vec<Use>,
    oldest: HashMap<ParticipantIndex, Stamp>,
}

/// Use of the lower of net debit cap and liquidity cover.
#[derive(Clone, Copy, Debug)]
struct Use {
    name: FspName,
    currency: Currency,
    position: i128,
    cap: i128,
    is_cover: bool,
}

impl Leaders {
    /// Adds a participant.
    pub(super) fn add(&mut self, state: &State, index: ParticipantIndex, of: &Participant) {
        let owed = u64::from(state.notices_owed_to(index));
        if 0 < owed {
            self.queues.push((owed, index, of.name));
        }
        for accounts in &of.by_currency {
            let value =
                |account| state.accounts().get(account).map(|account| account.value.units());
            let found = (value(accounts.position), value(accounts.settlement));
            let ((Some(position), Some(settlement)), Some(cap)) = (found, accounts.net_debit_cap)
            else {
                continue;
            };
            let (cap, cover) = (cap.value.units(), -settlement);
            let (name, currency) = (of.name, accounts.currency);
            let is_cover = cover < cap;
            self.caps.push(Use { name, currency, position, cap: cap.min(cover), is_cover });
        }
        self.cut();
    }

    /// Adds a notice; the oldest one of a participant comes first.
    pub(super) fn add_notice(&mut self, notice: &Notice) {
        self.oldest.entry(notice.recipient).or_insert(notice.owed_at);
    }

    /// Adds the leaders of other participants.
    pub(super) fn append(&mut self, part: Self) {
        self.queues.extend(part.queues);
        self.caps.extend(part.caps);
        self.oldest.extend(part.oldest);
        self.cut();
    }

    fn cut(&mut self) {
        if LISTED_MAX < self.queues.len() {
            self.queues.sort_by_key(|(owed, index, _)| (Reverse(*owed), index.0));
            self.queues.truncate(LISTED_MAX);
        }
        if LISTED_MAX < self.caps.len() {
            self.caps.sort_by_key(|it| Reverse((it.percent(), it.position)));
            self.caps.truncate(LISTED_MAX);
        }
    }

    /// The longest queues.
    pub(crate) fn queues(&self, now: Stamp) -> Vec<Queue> {
        let mut queues = self.queues.clone();
        queues.sort_by_key(|(owed, index, _)| (Reverse(*owed), index.0));
        let queue = |(owed, index, name): (u64, ParticipantIndex, FspName)| Queue {
            participant: name.to_string(),
            owed,
            oldest_seconds: self.oldest.get(&index).map(|oldest| age_seconds(*oldest, now)),
        };
        queues.into_iter().map(queue).collect()
    }

    /// Those nearest their cap.
    pub(crate) fn near_cap(&self) -> Vec<CapUse> {
        let mut caps = self.caps.clone();
        caps.sort_by_key(|it| Reverse((it.percent(), it.position)));
        let used = |it: Use| CapUse {
            participant: it.name.to_string(),
            currency: it.currency.to_string(),
            position: Amount::from_units(it.position),
            effective_cap: Amount::from_units(it.cap),
            limited_by: if it.is_cover { "cover" } else { "cap" },
            headroom: Amount::from_units(it.cap - it.position),
            percent_used: it.percent(),
        };
        caps.into_iter().map(used).collect()
    }
}

impl Use {
    /// Position in percent of the cap: 0 for a position that is not positive, and 100 for a
    /// positive one without a cap.
    fn percent(&self) -> u64 {
        match (0 < self.position, 0 < self.cap) {
            (false, _) => 0,
            (true, false) => WHOLE as u64,
            (true, true) => {
                let used = self.position.saturating_mul(WHOLE) / self.cap;
                u64::try_from(used).unwrap_or(u64::MAX)
            }
        }
    }
}

/// Age in whole seconds.
pub(super) fn age_seconds(since: Stamp, now: Stamp) -> u64 {
    now.0.saturating_sub(since.0) / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::super::watcher::tests::scheme;
    use super::*;

    #[test]
    fn leaders_are_found_among_all_participants() {
        let state = scheme(2_500, |number| if number % 1_000 == 7 { number as i128 } else { 1 });
        let mut leaders = Leaders::default();
        // In parts, as the watcher reads them.
        for part in 0..3 {
            let mut found = Leaders::default();
            for (index, participant) in state.registry().iter().skip(part * 1_000).take(1_000) {
                found.add(&state, index, participant);
            }
            leaders.append(found);
        }
        let near = leaders.near_cap();
        assert_eq!(near.len(), LISTED_MAX);
        assert_eq!((&*near[0].participant, near[0].limited_by), ("dfsp2007", "cover"));
        assert_eq!(near[0].percent_used, 100, "there is no cover");
        assert!(leaders.queues(Stamp(0)).is_empty());
    }
}
