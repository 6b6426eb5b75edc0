//! Where callbacks go: the transfers and calls that wait for each key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

/// Inputs that may wait for one transfer. More are dropped; the protocol repeats what matters.
pub(crate) const INPUTS_MAX: usize = 64;

/// The waiting receivers of one DFSP, by key.
pub(crate) struct Waits<T>(Mutex<Table<T>>);

struct Table<T> {
    next: u64,
    by_key: HashMap<String, Vec<(u64, mpsc::Sender<T>)>>,
}

/// The registration of one receiver. It ends when this is dropped.
pub(crate) struct Wait<T> {
    waits: Arc<Waits<T>>,
    number: u64,
    keys: Vec<String>,
    sender: mpsc::Sender<T>,
}

impl<T> Default for Waits<T> {
    fn default() -> Self {
        Self(Mutex::new(Table { next: 0, by_key: HashMap::new() }))
    }
}

impl<T: Clone> Waits<T> {
    /// Registers a receiver for keys.
    pub(crate) fn register(self: &Arc<Self>, keys: Vec<String>) -> (Wait<T>, mpsc::Receiver<T>) {
        let (sender, receiver) = mpsc::channel(INPUTS_MAX);
        let mut table = self.lock();
        table.next += 1;
        let number = table.next;
        for key in &keys {
            table.by_key.entry(key.clone()).or_default().push((number, sender.clone()));
        }
        drop(table);
        (Wait { waits: Arc::clone(self), number, keys, sender }, receiver)
    }

    /// Registers a receiver for a key that has none; `None` if it has one.
    pub(crate) fn register_first(
        self: &Arc<Self>,
        key: &str,
    ) -> Option<(Wait<T>, mpsc::Receiver<T>)> {
        let (sender, receiver) = mpsc::channel(INPUTS_MAX);
        let mut table = self.lock();
        if table.by_key.contains_key(key) {
            return None;
        }
        table.next += 1;
        let (number, keys) = (table.next, vec![key.to_owned()]);
        table.by_key.insert(key.to_owned(), vec![(number, sender.clone())]);
        drop(table);
        Some((Wait { waits: Arc::clone(self), number, keys, sender }, receiver))
    }

    /// Passes an input to all receivers of a key. Returns their number.
    pub(crate) fn send(&self, key: &str, input: T) -> usize {
        let table = self.lock();
        let Some(waiting) = table.by_key.get(key) else { return 0 };
        let Some(((_, last), others)) = waiting.split_last() else { return 0 };
        let taken = |(_, sender): &&(u64, mpsc::Sender<T>)| sender.try_send(input.clone()).is_ok();
        let count = others.iter().filter(taken).count();
        count + usize::from(last.try_send(input).is_ok())
    }

    /// Whether a receiver waits for a key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.lock().by_key.contains_key(key)
    }

    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.lock().by_key.len()
    }
}

impl<T> Waits<T> {
    fn lock(&self) -> MutexGuard<'_, Table<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Wait<T> {
    /// Sends to the own receiver.
    pub(crate) fn sender(&self) -> mpsc::Sender<T> {
        self.sender.clone()
    }

    /// Registers the same receiver for one more key.
    pub(crate) fn add(&mut self, key: String) {
        let mut table = self.waits.lock();
        table.by_key.entry(key.clone()).or_default().push((self.number, self.sender.clone()));
        drop(table);
        self.keys.push(key);
    }
}

impl<T> Drop for Wait<T> {
    fn drop(&mut self) {
        let mut table = self.waits.lock();
        for key in &self.keys {
            if let Some(waiting) = table.by_key.get_mut(key) {
                waiting.retain(|(number, _)| *number != self.number);
                if waiting.is_empty() {
                    table.by_key.remove(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_receiver_of_a_key_gets_the_input_until_it_ends() {
        let waits = Arc::new(Waits::default());
        let (first, mut to_first) = waits.register(vec!["a".to_owned(), "b".to_owned()]);
        let (_second, mut to_second) = waits.register(vec!["a".to_owned()]);
        assert_eq!((waits.send("a", 1), waits.has("a"), waits.has("c")), (2, true, false));
        assert_eq!((to_first.try_recv(), to_second.try_recv()), (Ok(1), Ok(1)));
        assert!(waits.register_first("b").is_none());
        drop(first);
        assert_eq!((waits.send("a", 2), waits.send("b", 3)), (1, 0));
        assert_eq!(waits.len(), 1);
        assert!(waits.register_first("b").is_some());
    }
}
