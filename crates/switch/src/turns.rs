//! A queue in which keys take turns. The items of one key keep their order, and however many it
//! has, an item of another key waits for at most one of them.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Items that wait, by key.
pub(crate) struct Turns<K, T> {
    /// No key has an empty list.
    waiting: HashMap<K, VecDeque<T>>,
    /// The keys with items, next one first.
    order: VecDeque<K>,
}

impl<K, T> Default for Turns<K, T> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Copy + Eq + Hash, T> Turns<K, T> {
    pub(crate) fn push(&mut self, key: K, item: T) {
        let own = self.waiting.entry(key).or_default();
        if own.is_empty() {
            self.order.push_back(key);
        }
        own.push_back(item);
    }

    /// The next item.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let key = self.order.pop_front()?;
        let own = self.waiting.get_mut(&key)?;
        let item = own.pop_front();
        match own.is_empty() {
            true => drop(self.waiting.remove(&key)),
            false => self.order.push_back(key),
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_many_items_delays_others_by_one() {
        let mut turns = Turns::default();
        (0..1_000).for_each(|number| turns.push('a', number));
        assert_eq!(turns.pop(), Some(0));
        turns.push('b', 5_000);
        turns.push('b', 5_001);
        let next: Vec<_> = (0..5).filter_map(|_| turns.pop()).collect();
        assert_eq!(next, [1, 5_000, 2, 5_001, 3]);
        let rest: Vec<_> = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(rest, (4..1_000).collect::<Vec<_>>());
        assert!(turns.waiting.is_empty() && turns.order.is_empty());
    }
}
