//! `GET /storage`: what log and store take, what is free, and until when it lasts.

use serde::Serialize;

use crate::answer::{Answer, Reply};
use crate::hub::{Storage, Task};
use crate::monitoring::{Figure, Kind};
use crate::shapes::Moment;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StorageShape<'a> {
    status: &'static str,
    log_bytes: u64,
    log_segments: u64,
    archived_bytes: u64,
    archived_segments: u64,
    store_bytes: u64,
    disk_bytes: u64,
    free_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    growth_bytes_per_day: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hours_until_full: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failing: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<TaskShape<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<TaskShape<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskShape<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    last_done: Option<Moment>,
    position: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    failing: Option<&'a str>,
}

impl<'a> From<&'a Task> for TaskShape<'a> {
    fn from(task: &'a Task) -> Self {
        Self {
            last_done: task.last_done.map(Moment),
            position: task.position,
            failing: task.failing.as_deref(),
        }
    }
}

/// `GET /storage`.
pub(crate) fn show(storage: &Storage) -> Reply {
    Ok(Answer::ok(&StorageShape {
        status: storage.status(),
        log_bytes: storage.log_bytes,
        log_segments: storage.log_segments,
        archived_bytes: storage.archived_bytes,
        archived_segments: storage.archived_segments,
        store_bytes: storage.store_bytes,
        disk_bytes: storage.disk_bytes,
        free_bytes: storage.free_bytes,
        growth_bytes_per_day: storage.growth_bytes_per_day,
        hours_until_full: storage.hours_until_full,
        failing: storage.failing.as_deref(),
        archive: storage.archive.as_ref().map(TaskShape::from),
        backup: storage.backup.as_ref().map(TaskShape::from),
    }))
}

/// The same as metrics. What is not known, or not configured, has no sample.
pub(crate) fn figures(now: &Storage) -> Vec<Figure> {
    use Kind::Gauge;
    let mut figures = vec![
        (Gauge, "upesi_log_stored_bytes", "Bytes of the log on its disk.", now.log_bytes),
        (Gauge, "upesi_log_archived_bytes", "Bytes in an archive only.", now.archived_bytes),
        (Gauge, "upesi_disk_bytes", "Bytes of the log's disk.", now.disk_bytes),
        (Gauge, "upesi_disk_free_bytes", "Bytes of it that are free.", now.free_bytes),
        (
            Gauge,
            "upesi_disk_status",
            "How full it is: 0 there is room, 1 low, 2 critical, 3 full.",
            now.fullness as u64,
        ),
    ];
    let help = "Whether log or store cannot be written or read: 0 or 1.";
    figures.push((Gauge, "upesi_storage_failing", help, now.failing.is_some().into()));
    if let Some(hours) = now.hours_until_full {
        let help = "Hours until it is full at the growth of the last day.";
        figures.push((Gauge, "upesi_disk_hours_until_full", help, hours));
    }
    if let Some(task) = &now.archive {
        let help = "Whether archiving does not go well: 0 or 1.";
        figures.push((Gauge, "upesi_archive_failing", help, task.failing.is_some().into()));
    }
    if let Some(task) = &now.backup {
        let help = "Whether the copy does not go well: 0 or 1.";
        figures.push((Gauge, "upesi_backup_failing", help, task.failing.is_some().into()));
        let help = "The last record that is in the copy.";
        figures.push((Gauge, "upesi_backup_position", help, task.position));
    }
    figures
}
