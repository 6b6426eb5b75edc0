//! The longest time that a message waits in a client: sums of its timers.

use serde::Serialize;

use super::client::{Client, Mode, Role};

/// One timer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Wait {
    pub(super) milliseconds: u64,
    pub(super) setting: &'static str,
    pub(super) when: &'static str,
}

/// The timers of a client, in the order in which a message meets them.
pub(super) fn waits(client: &Client) -> Vec<Wait> {
    let wait = |milliseconds, setting, when| Wait { milliseconds, setting, when };
    let mut waits = Vec::new();
    if client.role == Role::Producer {
        let linger = client.number_of("queue.buffering.max.ms", client.number_of("linger.ms", 5));
        waits.push(wait(linger, "queue.buffering.max.ms", "for others that share its request"));
    } else {
        if 1 < client.number_of("fetch.min.bytes", 1) {
            let longest = client.number_of("fetch.wait.max.ms", 500);
            waits.push(wait(longest, "fetch.wait.max.ms", "until fetch.min.bytes are there"));
        }
        waits.extend(match client.mode() {
            Mode::Flow => None,
            Mode::Poll => {
                let every = client.option_number("pollFrequency", 10);
                Some(wait(every, "pollFrequency", "until the next fetch"))
            }
            Mode::Recursive => {
                let idle = client.option_number("recursiveTimeout", 100);
                Some(wait(idle, "recursiveTimeout", "after a fetch that found nothing"))
            }
        });
        if 1 < client.batch() {
            let fill = client.option_number("consumeTimeout", 1_000);
            waits.push(wait(fill, "consumeTimeout", "while its batch is not full"));
        }
    }
    waits.retain(|wait| 0 < wait.milliseconds);
    waits
}
