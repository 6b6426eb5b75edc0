//! `GET /storage`: disk space used by log and store, free space, and the time until it is full.

use crate::reports::{DiskStatus, STATUSES};
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;
use crate::schema::{self, response_type};

routes! {
    "/storage" {
        read GET storage = show, "Show disk space: used, free, time until full" {
            text: "\
                `status` is LOW if less than 10 % of the disk is free, or if it will be full \
                within 3 days at the growth of the last day; CRITICAL below 5 % or within 1 day; \
                FULL while commands are refused with 503 because the disk is full; FAILING while \
                log or store cannot be written or read. `failing` gives the reason, here and for \
                an archive or a backup. `/health` shows the same status.",
            responses: [200: StorageResponse = "At most 10 s old."],
        }
    }
}

response_type! {
    struct StorageResponse<'a> as "Storage" {
        status: &'static str = schema::one_of(&STATUSES),
        #[serde(flatten)]
        storage: &'a DiskStatus,
    }
}

/// `GET /storage`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    let storage = &request.backend.storage();
    Ok(AdminResponse::ok(&StorageResponse { status: storage.status(), storage }))
}
