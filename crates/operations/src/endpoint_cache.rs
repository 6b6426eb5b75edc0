//! `DELETE /endpointcache`, which the reference has: there is no such cache here.

use http::StatusCode;

use crate::answer::{Answer, Reply};
use crate::call::Call;
use crate::route::routes;

routes! {
    "/endpointcache" {
        order DELETE dropEndpointCache = drop_all, "Forget cached endpoints" {
            text: "There is no such cache: a changed endpoint is in force with the next message.",
            answers: [202: () = "There is nothing to do."],
        }
    }
}

async fn drop_all(_: &Call<'_>) -> Reply {
    Ok(Answer::empty(StatusCode::ACCEPTED))
}
