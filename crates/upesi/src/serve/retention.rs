//! Orders erasures by age, as `[retention]` sets it.
//!
//! Each kind of contents has a setting in days. Once a day, the job orders the erasure of the
//! records that have become older; [`crate::serve::erasure`] carries it out. The order is a record
//! with the author `retention` and the setting as its reason. No second person approves it: the
//! operator who made the setting has the configuration of the switch.
//!
//! # Costs and bounds
//! A binary search of the log for each kind and one pass over the records that have become too old,
//! and at most one order of each kind per day. Records without contents of the kind get no order; a
//! job remembers them, and reads them once more after a restart. Nodes of
//! a cluster may order the same erasure twice, which erases nothing more.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use journal::{DurableFrames, RealDisk, TieredDisk};
use ledger::{
    Administer, Change, Command, Erase, ErasureForm, LogIndex, RecordRange, Stamp, State,
};
use node::{Handle, ReplyTo, SubmissionContext, SystemClock};
use operations::{ErasurePlan, RetentionOverride, RetentionReport};
use ports::Clock;
use sequencer::{Durability, Submission};
use switch::ForwardedMessage;

use crate::cli::stdout::moment;
use crate::config::Config;
use crate::inspect::audit::entries::last_before;
use crate::serve::content_scan::ContentScan;
use crate::serve::erasure::{ErasureStatus, read_order};
use crate::serve::segments::JobFailure;

/// Interval of the checks for contents that have become too old.
pub(crate) const RETENTION_INTERVAL: Duration = Duration::from_mins(10);
/// Minimum time between two orders of a kind, in microseconds.
const ORDER_PAUSE_US: u64 = 24 * 3_600 * 1_000_000;
const DAY_US: u64 = 24 * 3_600 * 1_000_000;
/// The author of the orders.
const AUTHOR: &str = "retention";
/// Longest wait for an answer of the sequencer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The setting of one kind of contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetentionRule {
    form: ErasureForm,
    kind: &'static str,
    setting: &'static str,
    /// 0: contents are kept.
    days: u32,
}

/// The settings.
pub(crate) fn rules_of(config: &Config) -> [RetentionRule; 2] {
    let settings = &config.retention;
    [
        RetentionRule {
            form: ErasureForm::RetainedPayments,
            kind: "payments",
            setting: "retention.payments_days",
            days: settings.payments_days,
        },
        RetentionRule {
            form: ErasureForm::RetainedRegistrations,
            kind: "registrations",
            setting: "retention.registrations_days",
            days: settings.registrations_days,
        },
    ]
}

/// The newest order of a kind.
#[derive(Clone, Copy, Debug, Default)]
struct LastOrder {
    at: Option<Stamp>,
    /// The last record that it names.
    through: LogIndex,
}

/// The log and the rules.
#[derive(Clone)]
pub(crate) struct RetentionView {
    rules: [RetentionRule; 2],
    handle: Handle<ForwardedMessage>,
    frames: LogFrames,
    status: Arc<ErasureStatus>,
}

/// The durable frames of the log.
type LogFrames = DurableFrames<TieredDisk<RealDisk>>;

impl RetentionView {
    pub(crate) fn new(
        config: &Config,
        (handle, frames): (Handle<ForwardedMessage>, LogFrames),
        status: Arc<ErasureStatus>,
    ) -> Self {
        Self { rules: rules_of(config), handle, frames, status }
    }

    /// The contents of the kind in some records.
    fn scan(&self, rule: RetentionRule, range: RecordRange) -> Result<ContentScan<'_>, String> {
        let mut scan = ContentScan::new(rule.form, "");
        let (reader, never) = (self.handle.reader(), AtomicBool::new(false));
        let read = scan.read((&self.frames, &*reader), &[range], &never);
        read.map_err(|error| error.to_string()).map(|()| scan)
    }

    /// The contents that each rule would erase now. Blocks on the disk.
    pub(crate) fn plan(
        &self,
        other: &RetentionOverride,
        now: Stamp,
    ) -> Result<Vec<RetentionReport>, String> {
        let orders = self.orders()?;
        let report = |rule: &RetentionRule| {
            let days = other.days(rule.kind).unwrap_or(rule.days);
            self.report(RetentionRule { days, ..*rule }, &orders, now)
        };
        self.rules.iter().map(report).collect()
    }

    fn report(
        &self,
        rule: RetentionRule,
        orders: &[(Stamp, Erase)],
        now: Stamp,
    ) -> Result<RetentionReport, String> {
        let last = last_of(rule, orders);
        let (mut extent, mut oldest) = (ErasurePlan::default(), None);
        if let Some(range) = self.due(rule, last, now)? {
            let scan = self.scan(rule, range)?;
            if 0 < scan.contents {
                (extent.contents, extent.records) = (scan.contents, vec![range]);
                extent = self.status.plan(extent)?;
            }
            oldest = scan.oldest;
        }
        let before = cutoff(rule, now);
        let next = last.at.map_or(now, |at| now.max(Stamp(at.0.saturating_add(ORDER_PAUSE_US))));
        Ok(RetentionReport {
            kind: rule.kind,
            setting: rule.setting,
            days: rule.days,
            before,
            oldest,
            extent,
            erased_through: last.through.0,
            next: before.map(|_| next),
        })
    }

    /// The records that have become too old since the last order.
    fn due(
        &self,
        rule: RetentionRule,
        last: LastOrder,
        now: Stamp,
    ) -> Result<Option<RecordRange>, String> {
        let Some(before) = cutoff(rule, now) else { return Ok(None) };
        let (reader, end) = (self.handle.reader(), self.handle.committed());
        let through = last.through.min(end);
        let found = last_before(&*reader, (through, end), before);
        let found = found.map_err(|error| error.to_string())?;
        let range = RecordRange { first: LogIndex(through.0 + 1), last: found };
        Ok((through < found).then_some(range))
    }

    /// The orders by settings, newest first. The state has them in order.
    fn orders(&self) -> Result<Vec<(Stamp, Erase)>, String> {
        let (answer, answered) = sync_channel(1);
        let all = |state: &State| state.erasures().iter().rev().copied().collect::<Vec<_>>();
        // The requester may be gone.
        let ask = move |state: &State| drop(answer.send(all(state)));
        let stopped = "the switch stops";
        self.handle.ask_local(ask).map_err(|_| stopped)?;
        let all = answered.recv_timeout(ANSWER_TIMEOUT).map_err(|_| stopped)?;
        let reader = self.handle.reader();
        let mut orders: Vec<(Stamp, Erase)> = Vec::new();
        for erasure in all {
            let Some((administer, _)) = read_order(&*reader, erasure.record)? else { continue };
            let Change::Erase(order) = administer.change.decided() else { continue };
            let is_known = orders.iter().any(|(_, known)| known.form == order.form);
            if order.form.is_retention() && !is_known {
                orders.push((erasure.at, order.clone()));
            }
            if orders.len() == self.rules.len() {
                break;
            }
        }
        Ok(orders)
    }

    /// Orders the erasure of this number of contents.
    fn order(
        &self,
        (rule, contents): (RetentionRule, u64),
        range: RecordRange,
        now: Stamp,
    ) -> Result<(), JobFailure> {
        let erase = Erase {
            form: rule.form,
            subject: moment(cutoff(rule, now).unwrap_or_default()),
            records: vec![range],
            contents: u32::try_from(contents).unwrap_or(u32::MAX),
        };
        let change = Administer {
            actor: AUTHOR.to_owned(),
            reason: format!("{} = {}", rule.setting, rule.days),
            change: erase.into(),
        };
        let command = Command::Administer(Box::new(change));
        let record = sequencer::encode(&command, None);
        let record = record.map_err(|error| JobFailure::Failed(error.to_string()))?;
        let ticket = ReplyTo::Call(Box::new(|_| {}));
        let attached = SubmissionContext { ticket, message: None };
        let submission = Submission { command, record, durability: Durability::Synced, attached };
        // A full inbox: the next run orders it.
        let _refused = self.handle.submit(&mut vec![submission]);
        tracing::info!(kind = rule.kind, through = range.last.0, "an erasure by age was ordered");
        Ok(())
    }
}

fn last_of(rule: RetentionRule, orders: &[(Stamp, Erase)]) -> LastOrder {
    let last = orders.iter().find(|(_, order)| order.form == rule.form);
    last.map_or_else(LastOrder::default, |(at, order)| LastOrder {
        at: Some(*at),
        through: order.records.last().map_or(LogIndex(0), |range| range.last),
    })
}

/// The time before which contents are erased; `None` if they are kept.
fn cutoff(rule: RetentionRule, now: Stamp) -> Option<Stamp> {
    let age = u64::from(rule.days) * DAY_US;
    (rule.days != 0).then(|| Stamp(now.0.saturating_sub(age)))
}

/// The job.
pub(crate) struct RetentionJob {
    view: RetentionView,
    /// For each rule, the last record without contents after the last order.
    empty_through: [LogIndex; 2],
}

impl RetentionJob {
    pub(crate) fn new(view: RetentionView) -> Self {
        Self { view, empty_through: Default::default() }
    }

    /// Whether a setting makes it necessary.
    pub(crate) fn is_needed(config: &Config) -> bool {
        rules_of(config).iter().any(|rule| rule.days != 0)
    }

    /// Orders the erasures that are due.
    pub(crate) fn run(&mut self) -> Result<Option<LogIndex>, JobFailure> {
        let view = self.view.clone();
        // Earlier rules of the log know no erasures.
        if view.handle.view().rules_version < Erase::DECLARATION.rules {
            return Ok(None);
        }
        let now = SystemClock::new().now().wall;
        let orders = view.orders().map_err(JobFailure::Failed)?;
        for (rule, empty_through) in view.rules.into_iter().zip(&mut self.empty_through) {
            let last = last_of(rule, &orders);
            let last = LastOrder { through: last.through.max(*empty_through), ..last };
            let is_early = last.at.is_some_and(|at| now.0 < at.0.saturating_add(ORDER_PAUSE_US));
            if is_early {
                continue;
            }
            let Some(range) = view.due(rule, last, now).map_err(JobFailure::Failed)? else {
                continue;
            };
            match view.scan(rule, range).map_err(JobFailure::Failed)?.contents {
                0 => *empty_through = range.last,
                contents => view.order((rule, contents), range, now)?,
            }
        }
        Ok(None)
    }
}
