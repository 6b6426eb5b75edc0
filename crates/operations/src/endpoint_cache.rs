//! `DELETE /endpointcache`, for compatibility with the reference: the hub has no such cache.

use http::StatusCode;

use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;

routes! {
    "/endpointcache" {
        action DELETE dropEndpointCache = drop_all, "Clear the endpoint cache" {
            text: "The hub has no such cache: a changed endpoint applies from the next message.",
            responses: [202: () = "Nothing to do."],
        }
    }
}

async fn drop_all(_: &AdminRequest<'_>) -> HandlerResult {
    Ok(AdminResponse::empty(StatusCode::ACCEPTED))
}
