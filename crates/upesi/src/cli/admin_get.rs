//! A GET request to the admin API of a running switch.

use std::path::Path;

use harness::{Admin, HarnessError};

use crate::CliError;

/// Returns the body of `GET path`.
///
/// # Errors
///
/// The request fails or its status is not 200; the error quotes the body.
pub(crate) fn admin_get(admin: &str, token: Option<&Path>, path: &str) -> Result<String, CliError> {
    let failed = |error: HarnessError| CliError::new(error.to_string());
    let mut admin = Admin::at(admin, token).map_err(failed)?;
    let answered = admin.call("GET", path, None).map_err(failed)?;
    let text = String::from_utf8_lossy(&answered.body).into_owned();
    match answered.status {
        200 => Ok(text),
        status => Err(CliError::new(format!("{path}: status {status} from the switch: {text}"))),
    }
}

/// A value of a query, escaped. A query gives two characters another meaning than a path.
pub(crate) fn query_value(text: &str) -> String {
    fspiop::percent_encode(text).replace('+', "%2B").replace('&', "%26")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_values_are_escaped() {
        assert_eq!(query_value("a b+c&d"), "a%20b%2Bc%26d");
    }
}
