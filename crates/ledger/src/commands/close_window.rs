//! `POST /settlementWindows/{id}`: closes a window (hub-semantics 5.2).
//!
//! One decision closes the window with its sums and opens the next one. No transfer is between two
//! windows, and no window waits for its sums.

use crate::change::CloseWindow;
use crate::context::{Context, Decide};
use crate::outcome::AdminOutcome;
use crate::settlement::{WINDOWS_MAX, WindowState};
use crate::state::ChangeResult;

impl Decide for CloseWindow {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let state = &mut *context.state;
        let book = &mut state.settlement;
        match book.window(self.window) {
            None if book.is_archived_window(self.window) => return AdminOutcome::WindowNotOpen,
            None => return AdminOutcome::WindowNotFound,
            Some(entry) if entry.window.state != WindowState::Open => {
                return AdminOutcome::WindowNotOpen;
            }
            Some(_) if book.open_accounts().is_empty() => return AdminOutcome::WindowEmpty,
            Some(_) if WINDOWS_MAX <= book.windows.len() => return AdminOutcome::RegistryFull,
            Some(_) => {}
        }
        let (stamp, record) = (state.stamp, context.log_index);
        book.close_window(&state.accounts, (&self.reason, stamp, record));
        for sums in book.window(self.window).into_iter().flat_map(|entry| &*entry.accounts) {
            let [paid, received] = [sums.paid, sums.received].map(|sum| sum.units().to_le_bytes());
            state.batch_digest.note::<36>(&[&sums.account.0.to_le_bytes(), &paid, &received]);
        }
        book.open_window(self.reason.clone(), stamp, record);
        let opened = book.numbers().window;
        context.effects.results.push((record, ChangeResult::Opened(opened)));
        AdminOutcome::Accepted
    }
}
