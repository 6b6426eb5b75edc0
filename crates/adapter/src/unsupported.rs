//! Operations of the published documents that the adapter does not serve. Each is answered with
//! 501 and code 2002, before headers and body are read: the hub has no currency conversion, a DFSP
//! has no directory, and `/bulkTransactions` is `POST /bulkQuotes` and `POST /bulkTransfers` in
//! steps.

/// The answer to unsupported operations, by method and path. `*` is any segment.
type Row = (&'static [&'static str], &'static str, &'static str);

const CONVERSION: &str = "currency conversion is not supported: the hub has no fxQuotes, \
                          fxTransfers and services";
const DIRECTORY: &str = "a DFSP has no directory: the hub registers parties";
const UNKNOWN_STATE: &str = "the adapter keeps no transactions and no requests of other DFSPs";
const BULK_STEPS: &str = "bulkTransactions is not supported: use bulkQuotes and bulkTransfers";

/// Operations of the API for back ends.
const OUTBOUND: [Row; 6] = [
    (&["POST"], "fxQuotes", CONVERSION),
    (&["POST"], "fxTransfers", CONVERSION),
    (&["GET"], "services/FXP", CONVERSION),
    (&["GET"], "services/FXP/*/*", CONVERSION),
    (&["POST"], "bulkTransactions", BULK_STEPS),
    (&["GET", "PUT"], "bulkTransactions/*", BULK_STEPS),
];

/// Operations of the hub towards a DFSP.
const INBOUND: [Row; 14] = [
    (&["POST"], "participants", DIRECTORY),
    (&["POST", "DELETE"], "participants/*/*", DIRECTORY),
    (&["POST", "DELETE"], "participants/*/*/*", DIRECTORY),
    (&["GET"], "transactionRequests/*", UNKNOWN_STATE),
    (&["GET", "PUT"], "transactions/*", UNKNOWN_STATE),
    (&["PUT"], "transactions/*/error", UNKNOWN_STATE),
    (&["POST"], "fxQuotes", CONVERSION),
    (&["GET", "PUT"], "fxQuotes/*", CONVERSION),
    (&["PUT"], "fxQuotes/*/error", CONVERSION),
    (&["POST"], "fxTransfers", CONVERSION),
    (&["GET", "PUT", "PATCH"], "fxTransfers/*", CONVERSION),
    (&["PUT"], "fxTransfers/*/error", CONVERSION),
    (&["GET", "PUT"], "services/FXP", CONVERSION),
    (&["GET", "PUT"], "services/FXP/*/*", CONVERSION),
];

/// An unsupported operation, or another method of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsupported {
    /// It is documented. Why it is not served.
    Operation(&'static str),
    /// It may be served: no row has the method of this path.
    Method,
}

/// Whether an operation of the API for back ends is one of those.
pub(crate) fn outbound(method: &str, path: &str) -> Option<Unsupported> {
    find(&OUTBOUND, method, path)
}

/// Whether an operation of the hub is one of those.
pub(crate) fn inbound(method: &str, path: &str) -> Option<Unsupported> {
    find(&INBOUND, method, path)
}

fn find(rows: &[Row], method: &str, path: &str) -> Option<Unsupported> {
    let path = path.trim_matches('/');
    let (methods, _, why) = rows.iter().find(|(_, pattern, _)| matches(pattern, path))?;
    Some(match methods.contains(&method) {
        true => Unsupported::Operation(why),
        false => Unsupported::Method,
    })
}

fn matches(pattern: &str, path: &str) -> bool {
    let mut segments = path.split('/');
    let fits = |wanted| {
        segments.next().is_some_and(|it| wanted == it || (wanted == "*" && !it.is_empty()))
    };
    pattern.split('/').all(fits) && segments.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_operations_differ_from_other_methods_and_paths() {
        let conversion = Some(Unsupported::Operation(CONVERSION));
        assert_eq!(outbound("POST", "/fxQuotes"), conversion);
        assert_eq!(outbound("GET", "/services/FXP/USD/EUR"), conversion);
        assert_eq!(
            outbound("PUT", "/bulkTransactions/1"),
            Some(Unsupported::Operation(BULK_STEPS))
        );
        assert_eq!(outbound("DELETE", "/fxQuotes"), Some(Unsupported::Method));
        assert_eq!(inbound("PATCH", "/fxTransfers/1"), conversion);
        assert_eq!(inbound("PUT", "/fxQuotes/1/error"), conversion);
        for path in ["/", "/fxquotes", "/fxQuotes/", "/fxQuotes/1/other", "/services/PISP"] {
            let expected = (path == "/fxQuotes/").then_some(Unsupported::Operation(CONVERSION));
            assert_eq!(inbound("POST", path), expected, "{path}");
        }
    }
}
