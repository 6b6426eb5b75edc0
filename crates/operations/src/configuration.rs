//! `GET /configuration`: the settings of this switch with their meaning, and warnings. An addition
//! to the reference's API.
//!
//! The content is that of `upesi check-config --json` for the file as of the start. Secrets are in
//! other files and are not shown.

use serde_json::{Value, json};

use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;
use crate::schema::{self, Content, Extent, Schema};

routes! {
    "/configuration" {
        guarded GET showConfiguration = show, "Show the configuration" {
            text: "\
                Every setting with its value, its meaning, its bounds and when a change takes \
                effect; warnings about combinations; and the longest times that follow from the \
                time limits. Same content as `upesi check-config --json`, as of the start of this \
                switch. Addresses that may contain secrets are replaced by `(hidden)`.",
            responses: [200: Configuration = "The configuration."],
        }
    }
}

/// The JSON document of the backend.
struct Configuration;

impl Schema for Configuration {
    const NAME: &'static str = "Configuration";

    const CONTENT: Content = Content::One((Self::NAME, Self::schema));

    fn schema() -> Value {
        let list = || json!({"type": "array", "items": {"type": "object"}});
        let members = ["settings", "warnings", "bounds"];
        schema::object(members.map(|name| (name.to_owned(), true, list())), Extent::Open)
    }
}

async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    Ok(AdminResponse::document(request.backend.configuration()))
}
