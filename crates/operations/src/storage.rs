//! `GET /storage`: what log and store take, what is free, and until when it lasts.

use serde::Serialize;

use crate::answer::{Answer, Reply};
use crate::reports::Storage;

#[derive(Serialize)]
struct Shape<'a> {
    status: &'static str,
    #[serde(flatten)]
    storage: &'a Storage,
}

/// `GET /storage`.
pub(crate) fn show(storage: &Storage) -> Reply {
    Ok(Answer::ok(&Shape { status: storage.status(), storage }))
}
