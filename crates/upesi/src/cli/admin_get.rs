//! A GET request to the admin API of a running switch.

use crate::CliError;
use crate::cli::admin_address::AdminAddress;

/// Returns the body of `GET path`.
///
/// # Errors
///
/// The request fails or its status is not 200; the error quotes the body.
pub(crate) fn admin_get(switch: &AdminAddress, path: &str) -> Result<String, CliError> {
    let answered = switch.client()?.call("GET", path, None)?;
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
