//! The scheme file: its fields, and their checks.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use fspiop::endpoint::{self, EndpointType};
use fspiop::is_known_currency;
use jws::VerificationKey;
use ledger::{Amount, Currency, FspName};

use super::document::{FileFault, Node, Value};
use super::fields::{Faults, Fields, flag, one_of, text};

/// Accounts of the hub that every currency needs.
pub(in crate::operate) const HUB_ACCOUNTS: [&str; 2] =
    ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"];
pub(super) const HUB_ACCOUNTS_ALL: [&str; 3] =
    ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT", "HUB_FEE"];
/// The alarm percentage of a new cap.
pub(in crate::operate) const ALARM_PERCENTAGE: Amount = Amount::from_units(100_000);
const ALARM_PERCENTAGE_MAX: Amount = Amount::from_units(1_000_000);
/// Longest value of an endpoint, in bytes.
const ENDPOINT_BYTES_MAX: usize = 1_024;

/// A scheme as a file describes it.
#[derive(Debug, Default)]
pub(in crate::operate) struct Scheme {
    pub(in crate::operate) currencies: Vec<Currency>,
    pub(in crate::operate) hub_accounts: Vec<&'static str>,
    pub(in crate::operate) models: Vec<Model>,
    pub(in crate::operate) participants: Vec<Participant>,
}

/// A settlement model.
#[derive(Debug)]
pub(in crate::operate) struct Model {
    pub(super) name: String,
    pub(super) granularity: &'static str,
    pub(super) interchange: &'static str,
    pub(super) delay: &'static str,
    pub(super) currency: Option<Currency>,
    pub(super) liquidity_check: bool,
    pub(super) auto_position_reset: bool,
    pub(super) ledger_account: &'static str,
    pub(super) settlement_account: &'static str,
}

/// A participant.
#[derive(Debug)]
pub(in crate::operate) struct Participant {
    pub(in crate::operate) name: FspName,
    pub(in crate::operate) currencies: Vec<InCurrency>,
    /// Endpoint types and values, by type.
    pub(in crate::operate) endpoints: Vec<(String, String)>,
    pub(in crate::operate) keys: Vec<VerificationKey>,
    /// Whether its messages are accepted.
    pub(in crate::operate) active: bool,
}

/// A participant's accounts in one currency.
#[derive(Debug)]
pub(in crate::operate) struct InCurrency {
    pub(in crate::operate) currency: Currency,
    /// `None` leaves the accounts inactive.
    pub(in crate::operate) net_debit_cap: Option<Amount>,
    pub(in crate::operate) initial_position: Amount,
    pub(in crate::operate) alarm_percentage: Amount,
    pub(in crate::operate) funds_in: Option<Amount>,
}

impl Scheme {
    /// Reads a scheme. Paths of key files are relative to `directory`.
    ///
    /// # Errors
    /// All faults, by line.
    pub(super) fn read(document: &Node, directory: &Path) -> Result<Self, Vec<FileFault>> {
        let faults = Faults::default();
        let scheme = read_scheme(document, directory, &faults).unwrap_or_default();
        let found = faults.sorted();
        if found.is_empty() { Ok(scheme) } else { Err(found) }
    }
}

fn read_scheme(document: &Node, directory: &Path, faults: &Faults) -> Option<Scheme> {
    let mut fields = Fields::of(document, String::new(), faults)?;
    let hub = fields.required("hub", Ok);
    let hub = hub.and_then(|node| Fields::of(node, "hub".to_owned(), faults));
    let (currencies, hub_accounts) = hub.map(read_hub).unwrap_or_default();
    let mut names = BTreeSet::new();
    let models = fields.tables("settlement_models").into_iter();
    let models = models.filter_map(|model| read_model(model, &mut names)).collect();
    let mut names = BTreeSet::new();
    let participants = fields.tables("participants").into_iter();
    let participants = participants.filter_map(|participant| {
        read_participant(participant, (directory, &currencies), &mut names)
    });
    let participants = participants.collect();
    fields.end();
    Some(Scheme { currencies, hub_accounts, models, participants })
}

fn read_hub(mut hub: Fields<'_>) -> (Vec<Currency>, Vec<&'static str>) {
    let currencies = hub.list("currencies", currency);
    if currencies.is_empty() {
        hub.fault(hub.line, "currencies", "must name at least one currency");
    }
    let mut accounts = hub.list("accounts", |node| one_of(&HUB_ACCOUNTS_ALL, node));
    if accounts.is_empty() {
        accounts = HUB_ACCOUNTS.map(|kind| (0, kind)).to_vec();
    }
    hub.end();
    let (_, currencies) = currencies.into_iter().unzip::<_, _, Vec<_>, _>();
    (currencies, accounts.into_iter().map(|(_, kind)| kind).collect())
}

fn read_model<'n>(mut model: Fields<'n>, names: &mut BTreeSet<&'n str>) -> Option<Model> {
    let name = model.required("name", |node| {
        let name = text(node)?;
        let is_legal =
            (2..=30).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric());
        match (is_legal, names.insert(name)) {
            (false, _) => Err("must have 2 to 30 letters and digits".to_owned()),
            (true, false) => Err(format!("{name} is described twice")),
            (true, true) => Ok(name.to_owned()),
        }
    });
    let line = model.line;
    let granularity = model.required("granularity", |node| one_of(&["GROSS", "NET"], node));
    let interchange =
        model.required("interchange", |node| one_of(&["BILATERAL", "MULTILATERAL"], node));
    let delay = model.required("delay", |node| one_of(&["IMMEDIATE", "DEFERRED"], node));
    let legal = [
        "IMMEDIATE GROSS BILATERAL",
        "DEFERRED GROSS BILATERAL",
        "DEFERRED NET BILATERAL",
        "DEFERRED NET MULTILATERAL",
    ];
    if let (Some(granularity), Some(interchange), Some(delay)) = (granularity, interchange, delay)
        && !legal.contains(&&*format!("{delay} {granularity} {interchange}"))
    {
        model.fault(line, "granularity", &format!("must be one of {}", legal.join(", ")));
    }
    let currency = model.optional("currency", currency);
    let liquidity_check = model.optional("liquidity_check", flag).unwrap_or(true);
    let auto_position_reset = model.optional("auto_position_reset", flag).unwrap_or(true);
    let ledger_account =
        model.optional("ledger_account", |node| one_of(&["POSITION", "INTERCHANGE_FEE"], node));
    let settlement_account = model.optional("settlement_account", |node| {
        one_of(&["SETTLEMENT", "INTERCHANGE_FEE_SETTLEMENT"], node)
    });
    model.end();
    Some(Model {
        name: name?,
        granularity: granularity?,
        interchange: interchange?,
        delay: delay?,
        currency,
        liquidity_check,
        auto_position_reset,
        ledger_account: ledger_account.unwrap_or("POSITION"),
        settlement_account: settlement_account.unwrap_or("SETTLEMENT"),
    })
}

fn read_participant<'n>(
    mut fields: Fields<'n>,
    (directory, currencies): (&Path, &[Currency]),
    names: &mut BTreeSet<&'n str>,
) -> Option<Participant> {
    let name = fields.required("name", |node| {
        let name = text(node)?;
        if !names.insert(name) {
            return Err(format!("{name} is described twice"));
        }
        participant_name(name)
    });
    let mut seen = BTreeSet::new();
    let tables = fields.tables("currencies");
    if tables.is_empty() {
        fields.fault(fields.line, "currencies", "must have at least one table");
    }
    let in_currency = |it| read_currency(it, currencies, &mut seen);
    let in_currencies = tables.into_iter().filter_map(in_currency).collect();
    let base = fields.optional("callbacks", |node| callable(text(node)?));
    let mut endpoints: Vec<(String, String)> = base.map(expanded).unwrap_or_default();
    for (kind, node) in fields.members("endpoints") {
        match text(node).and_then(|value| endpoint_value(kind, value)) {
            Ok(value) => {
                endpoints.retain(|(known, _)| known != kind);
                endpoints.push((kind.to_owned(), value));
            }
            Err(fault) => fields.fault(node.line, &format!("endpoints.{kind}"), &fault),
        }
    }
    let keys = fields.list("public_keys", |node| key_of(text(node)?.as_bytes()));
    let mut keys: Vec<_> = keys.into_iter().map(|(_, key)| key).collect();
    keys.extend(fields.optional("public_key_file", |node| key_in(&directory.join(text(node)?))));
    let active = fields.optional("active", flag).unwrap_or(true);
    fields.end();
    endpoints.sort();
    Some(Participant { name: name?, currencies: in_currencies, endpoints, keys, active })
}

fn read_currency(
    mut fields: Fields<'_>,
    known: &[Currency],
    seen: &mut BTreeSet<Currency>,
) -> Option<InCurrency> {
    let currency = fields.required("currency", |node| {
        let currency = currency(node)?;
        match (known.contains(&currency), seen.insert(currency)) {
            (false, _) => Err(format!("{currency} is not in hub.currencies")),
            (true, false) => Err(format!("{currency} is described twice")),
            (true, true) => Ok(currency),
        }
    });
    let cap = fields.optional("net_debit_cap", |node| cap_of(digits(node)?));
    let position = fields.optional("initial_position", |node| decimal(digits(node)?));
    let alarm = fields.optional("alarm_percentage", |node| percentage_of(digits(node)?));
    let funds = fields.optional("funds_in", |node| amount_of(digits(node)?));
    fields.end();
    Some(InCurrency {
        currency: currency?,
        net_debit_cap: cap,
        initial_position: position.unwrap_or(Amount::ZERO),
        alarm_percentage: alarm.unwrap_or(ALARM_PERCENTAGE),
        funds_in: funds,
    })
}

/// The name of a participant.
pub(in crate::operate) fn participant_name(name: &str) -> Result<FspName, String> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let legal = (2..=30).contains(&name.len()) && name.bytes().all(is_legal);
    let parsed = FspName::new(name).filter(|_| legal);
    parsed.ok_or_else(|| "must have 2 to 30 letters, digits or -_.~".to_owned())
}

fn currency(node: &Node) -> Result<Currency, String> {
    currency_of(text(node)?)
}

/// A code of a currency.
pub(in crate::operate) fn currency_of(code: &str) -> Result<Currency, String> {
    let known = Currency::parse(code).filter(|_| is_known_currency(code));
    known.ok_or_else(|| format!("{code} is not a currency of ISO 4217"))
}

const DECIMAL_FORM: &str = "must be a decimal with at most 18 digits and 4 decimals";

/// The digits of an amount, a number or a text.
fn digits(node: &Node) -> Result<&str, String> {
    match &node.value {
        Value::Number(digits) | Value::Text(digits) => Ok(digits),
        _ => Err(DECIMAL_FORM.to_owned()),
    }
}

fn decimal(digits: &str) -> Result<Amount, String> {
    Amount::parse_decimal(digits).ok_or_else(|| DECIMAL_FORM.to_owned())
}

fn decimal_from(least: Amount, digits: &str) -> Result<Amount, String> {
    let amount = decimal(digits)?;
    if amount < least { Err(format!("must be at least {least}")) } else { Ok(amount) }
}

/// A net debit cap.
pub(in crate::operate) fn cap_of(digits: &str) -> Result<Amount, String> {
    decimal_from(Amount::ZERO, digits)
}

/// An amount of funds.
pub(in crate::operate) fn amount_of(digits: &str) -> Result<Amount, String> {
    decimal_from(Amount::from_units(1), digits)
}

/// An alarm percentage.
pub(in crate::operate) fn percentage_of(digits: &str) -> Result<Amount, String> {
    let alarm = decimal_from(Amount::ZERO, digits)?;
    if alarm <= ALARM_PERCENTAGE_MAX { Ok(alarm) } else { Err("must be 0 to 100".to_owned()) }
}

/// The address of a callback. The switch checks it further, by its own configuration.
pub(in crate::operate) fn callable(value: &str) -> Result<&str, String> {
    let host = ["http://", "https://"].iter().find_map(|scheme| value.strip_prefix(scheme));
    if host.is_none_or(|host| host.is_empty() || host.starts_with('/')) {
        return Err("must be an address such as http://10.0.0.7:4040".to_owned());
    }
    single_line(value)
}

fn single_line(value: &str) -> Result<&str, String> {
    if value.is_empty() || ENDPOINT_BYTES_MAX < value.len() || value.chars().any(char::is_control) {
        return Err(format!("must be one line with 1 to {ENDPOINT_BYTES_MAX} bytes"));
    }
    Ok(value)
}

/// An endpoint as `TYPE=VALUE`.
pub(in crate::operate) fn endpoint_of(text: &str) -> Result<(String, String), String> {
    let (kind, value) = text.split_once('=').ok_or_else(|| "must be TYPE=VALUE".to_owned())?;
    Ok((kind.to_owned(), endpoint_value(kind, value)?))
}

fn endpoint_value(kind: &str, value: &str) -> Result<String, String> {
    if !endpoint::is_accepted_name(kind) {
        return Err("unknown endpoint type".to_owned());
    }
    let value = if endpoint::is_called(kind) { callable(value) } else { single_line(value) };
    value.map(str::to_owned)
}

/// The endpoints of all callbacks below a base address.
pub(in crate::operate) fn expanded(base: &str) -> Vec<(String, String)> {
    let base = base.trim_end_matches('/');
    let of = |kind: &EndpointType| {
        let path = kind.path_below_base()?;
        Some((kind.as_str().to_owned(), format!("{base}{path}")))
    };
    EndpointType::ALL.iter().filter_map(of).collect()
}

/// The key in a PEM file.
pub(in crate::operate) fn key_in(path: &Path) -> Result<VerificationKey, String> {
    let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    key_of(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn key_of(pem: &[u8]) -> Result<VerificationKey, String> {
    VerificationKey::from_pem(pem).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::document;
    use super::*;

    const GOOD: &str = "\
[hub]
currencies = ['USD']
[[settlement_models]]
name = 'DEFERREDNETUSD'
granularity = 'NET'
interchange = 'MULTILATERAL'
delay = 'DEFERRED'
currency = 'USD'
[[participants]]
name = 'greenbank'
callbacks = 'http://10.0.0.7:4040/'
endpoints = { ALARM_NOTIFICATION_URL = 'x' }
currencies = [{ currency = 'USD', net_debit_cap = 10.5, funds_in = '20' }]
";

    fn faults_of(text: &str) -> Vec<String> {
        let document = document::from_toml(text).expect("valid TOML");
        let faults = Scheme::read(&document, Path::new("/nowhere")).err().unwrap_or_default();
        faults.into_iter().map(|FileFault { line, text }| format!("{line}: {text}")).collect()
    }

    #[test]
    fn each_fault_is_named_with_its_line() {
        assert_eq!(faults_of(GOOD), [""; 0]);
        for (good, bad, expected) in [
            ("[hub]", "[hubs]", "1: hub: missing"),
            (
                "['USD']",
                "['USD', 'XXQ']",
                "2: hub.currencies[1]: XXQ is not a currency of ISO 4217",
            ),
            ("['USD']", "[]", "1: hub.currencies: must name at least one currency"),
            ("['USD']", "'USD'", "2: hub.currencies: must be a list"),
            (
                "'DEFERREDNETUSD'",
                "'DEFERRED_NET'",
                "4: settlement_models[0].name: must have 2 to 30 letters and digits",
            ),
            ("'NET'", "'GROSSO'", "5: settlement_models[0].granularity: must be one of GROSS, NET"),
            (
                "'NET'",
                "'GROSS'",
                "3: settlement_models[0].granularity: must be one of IMMEDIATE \
                GROSS BILATERAL, DEFERRED GROSS BILATERAL, DEFERRED NET BILATERAL, DEFERRED NET \
                MULTILATERAL",
            ),
            ("delay = 'DEFERRED'\n", "", "3: settlement_models[0].delay: missing"),
            (
                "delay",
                "auto_position_reset = 1\ndelay",
                "7: settlement_models[0].auto_position_reset: must be true or false",
            ),
            (
                "'greenbank'",
                "'green bank'",
                "10: participants[0].name: must have 2 to 30 letters, digits or -_.~",
            ),
            ("'greenbank'", "7", "10: participants[0].name: must be a text"),
            (
                "http:",
                "ftp:",
                "11: participants[0].callbacks: must be an address such as http://10.0.0.7:4040",
            ),
            (
                "ALARM_",
                "LARM_",
                "12: participants[0].endpoints.LARM_NOTIFICATION_URL: unknown endpoint type",
            ),
            (
                "'USD', net",
                "'KES', net",
                "13: participants[0].currencies[0].currency: KES is not in hub.currencies",
            ),
            (
                "10.5",
                "1e3",
                "13: participants[0].currencies[0].net_debit_cap: must be a decimal \
                with at most 18 digits and 4 decimals",
            ),
            ("10.5", "-1", "13: participants[0].currencies[0].net_debit_cap: must be at least 0"),
            ("'20'", "0", "13: participants[0].currencies[0].funds_in: must be at least 0.0001"),
            ("funds_in", "founds_in", "13: participants[0].currencies[0].founds_in: unknown field"),
            (
                "funds_in = '20'",
                "alarm_percentage = 101",
                "13: participants[0].currencies[0].alarm_percentage: must be 0 to 100",
            ),
            (
                "callbacks = 'http://10.0.0.7:4040/'",
                "public_key_file = 'k.pem'",
                "11: participants[0].public_key_file: /nowhere/k.pem: No such file or directory \
                 (os error 2)",
            ),
        ] {
            let text = GOOD.replacen(good, bad, 1);
            assert!(faults_of(&text).contains(&expected.to_owned()), "{:?}", faults_of(&text));
        }
    }

    #[test]
    fn all_faults_are_listed_by_line_and_doubles_are_refused() {
        let participants = GOOD.find("[[participants]]").expect("it has one");
        let twice = format!("{GOOD}{}typo = 1\n", &GOOD[participants..]);
        assert_eq!(
            faults_of(&twice),
            [
                "15: participants[1].name: greenbank is described twice",
                "19: participants[1].typo: unknown field",
            ]
        );
    }

    #[test]
    fn callbacks_expand_and_single_endpoints_replace() {
        let text = GOOD.replace(
            "ALARM_NOTIFICATION_URL = 'x'",
            "FSPIOP_CALLBACK_URL_TRANSFER_POST = 'http://10.0.0.8/in'",
        );
        let document = document::from_toml(&text).expect("valid TOML");
        let scheme = Scheme::read(&document, Path::new("")).expect("no fault");
        let endpoints = &scheme.participants[0].endpoints;
        assert_eq!(endpoints.len(), 25);
        for (kind, value) in [
            ("FSPIOP_CALLBACK_URL_TRANSFER_POST", "http://10.0.0.8/in"),
            ("FSPIOP_CALLBACK_URL_TRANSFER_PUT", "http://10.0.0.7:4040/transfers/{{transferId}}"),
            ("FSPIOP_CALLBACK_URL_QUOTES", "http://10.0.0.7:4040"),
        ] {
            assert!(endpoints.contains(&(kind.to_owned(), value.to_owned())), "{kind}");
        }
    }
}
