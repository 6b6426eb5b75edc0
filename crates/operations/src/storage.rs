//! `GET /storage`: what log and store take, what is free, and until when it lasts.

use crate::reports::{DiskStatus, STATUSES};
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;
use crate::schema::{self, shape};

routes! {
    "/storage" {
        read GET storage = show, "Room for the log: used, free, until when" {
            text: "\
                `status` is LOW below a tenth of the disk or three days at the growth of the \
                last day, CRITICAL below a twentieth or one day, FULL while commands are refused \
                with 503 for want of room, and FAILING while log or store cannot be written or \
                read; `failing` gives the reason, here and for an archive or a copy. `/health` \
                shows the same status.",
            answers: [200: StorageResponse = "As of the last ten seconds."],
        }
    }
}

shape! {
    struct StorageResponse<'a> as "Storage" {
        status: &'static str = schema::one_of(&STATUSES),
        #[serde(flatten)]
        storage: &'a DiskStatus,
    }
}

/// `GET /storage`.
async fn show(call: &AdminRequest<'_>) -> HandlerResult {
    let storage = &call.hub.storage();
    Ok(AdminResponse::ok(&StorageResponse { status: storage.status(), storage }))
}
