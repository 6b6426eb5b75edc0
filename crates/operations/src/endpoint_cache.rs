//! `DELETE /endpointcache`, which the reference has: there is no such cache here.

use http::StatusCode;

use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;

routes! {
    "/endpointcache" {
        order DELETE dropEndpointCache = drop_all, "Forget cached endpoints" {
            text: "There is no such cache: a changed endpoint is in force with the next message.",
            answers: [202: () = "There is nothing to do."],
        }
    }
}

async fn drop_all(_: &AdminRequest<'_>) -> HandlerResult {
    Ok(AdminResponse::empty(StatusCode::ACCEPTED))
}
