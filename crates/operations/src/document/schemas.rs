//! Forms of bodies and answers.

use fspiop::endpoint::{self, EndpointType};
use openapi::schema::reference;
use serde_json::{Map, Value, json};

use crate::accounts::KINDS;
use crate::catalogue::DESCRIPTION_CHARACTERS_MAX;
use crate::form::VERSION_MAX;
use crate::funds;
use crate::oracles;
use crate::participants::{ENDPOINT_VALUE_CHARACTERS_MAX, NAME};
use crate::parties::ROWS_MAX;
use crate::settlement_models as models;
use crate::shapes::NET_DEBIT_CAP;

/// Every named schema: those of `fspiop` for refusals, and our own.
pub(super) fn all() -> Vec<(String, Value)> {
    let shared = ["ErrorInformationObject", "ErrorInformation", "ErrorCode", "ErrorDescription"];
    let lists = ["ExtensionList", "Extension", "Currency"];
    let wanted = |name: &str| shared.contains(&name) || lists.contains(&name);
    let mut all = openapi::schema::of_named_rules();
    all.retain(|(name, _)| wanted(name));
    let own =
        [simple(), requests(), answers(), vec![("Storage", storage()), ("Cluster", cluster())]]
            .concat();
    all.extend(own.into_iter().map(|(name, schema)| (name.to_owned(), schema)));
    all
}

const MOMENT_PATTERN: &str = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$";
const TRANSFER_ID_PATTERN: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[1-7][0-9a-f]{3}\
    -[89ab][0-9a-f]{3}-[0-9a-f]{12}$|^[0-9A-HJKMNP-TV-Z]{26}$";

const NO_CONTROLS: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$";

type Named = (&'static str, Value);

fn simple() -> Vec<Named> {
    let decimal = |number: Value, pattern: &str| {
        json!({
            "description": "At most 18 digits, 4 of them after the point.",
            "anyOf": [number, {"type": "string", "pattern": pattern}],
        })
    };
    let digits = "[0-9]{1,18}(\\.[0-9]{1,4})?";
    vec![
        (
            "Flag",
            json!({"anyOf": [
                {"type": "boolean"},
                {"type": "string", "pattern": "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"},
            ]}),
        ),
        ("Decimal", decimal(json!({"type": "number"}), &format!("^-?{digits}$"))),
        (
            "DecimalFromZero",
            decimal(json!({"type": "number", "minimum": 0}), &format!("^{digits}$")),
        ),
        (
            "DecimalAboveZero",
            decimal(
                json!({"type": "number", "minimum": 0, "exclusiveMinimum": true}),
                &format!("^{digits}$"),
            ),
        ),
        ("Number", json!({"type": "number", "description": "Exact: no digit is lost."})),
        ("Moment", json!({"type": "string", "pattern": MOMENT_PATTERN})),
        ("Switch", json!({"type": "integer", "enum": [0, 1]})),
        (
            "TransferId",
            json!({
                "type": "string",
                "description": "A UUID of version 1 to 7 in lower case, or a ULID.",
                "pattern": TRANSFER_ID_PATTERN,
            }),
        ),
    ]
}

fn requests() -> Vec<Named> {
    [
        requests_of_participants(),
        requests_of_keys(),
        requests_of_caps(),
        requests_of_funds(),
        requests_of_types(),
        requests_of_oracles(),
        requests_of_parties(),
    ]
    .concat()
}

fn requests_of_participants() -> Vec<Named> {
    vec![
        (
            "NewParticipant",
            closed(
                [("name", word(NAME, "^[A-Za-z0-9._~-]+$")), ("currency", reference("Currency"))],
                [("isProxy", reference("Flag"))],
            ),
        ),
        ("Activity", closed([("isActive", reference("Flag"))], [])),
        (
            "NewEndpoint",
            closed(
                [
                    ("type", endpoint_type()),
                    ("value", word(1..=ENDPOINT_VALUE_CHARACTERS_MAX, NO_CONTROLS)),
                ],
                [],
            ),
        ),
        (
            "NewAccount",
            closed([("currency", reference("Currency")), ("type", one_of(&names(&KINDS)))], []),
        ),
    ]
}

/// The enumeration, and the names of the third-party API, which have no end.
fn endpoint_type() -> Value {
    let names: Vec<_> = EndpointType::ALL.iter().map(|kind| kind.as_str()).collect();
    json!({"anyOf": [
        one_of(&names),
        word(1..=endpoint::NAME_BYTES_MAX, endpoint::THIRD_PARTY_NAMES),
    ]})
}

fn requests_of_keys() -> Vec<Named> {
    let pem = with(
        text(1, jws::KEY_TEXT_BYTES_MAX),
        "/description",
        json!("PEM: a public key, or a certificate, of RSA from 2048 bits or of P-256."),
    );
    vec![
        ("NewKey", closed([("publicKey", pem)], [])),
        ("Watch", closed([("enabled", reference("Flag"))], [])),
        ("RulesVersion", closed([("rulesVersion", version())], [])),
    ]
}

fn requests_of_parties() -> Vec<Named> {
    // What is wrong with a row is answered with the row, so that its form is told in words.
    let rows = json!({
        "type": "array",
        "items": {"type": "object"},
        "minItems": 1,
        "maxItems": ROWS_MAX,
    });
    vec![("Registrations", closed([("parties", rows)], []))]
}

fn requests_of_oracles() -> Vec<Named> {
    let endpoint = open(
        [
            ("value", word(1..=oracles::ENDPOINT_CHARACTERS_MAX, NO_CONTROLS)),
            ("endpointType", one_of(&[oracles::URL])),
        ],
        [],
    );
    let id_type = ("oracleIdType", one_of(&oracles::ID_TYPES));
    let endpoint = ("endpoint", endpoint);
    let more = [("currency", currency_or_null()), ("isDefault", reference("Flag"))];
    let [currency, default] = more.clone();
    vec![
        ("NewOracle", open([id_type.clone(), endpoint.clone()], more)),
        ("OracleUpdate", open([endpoint], [id_type, currency, default])),
    ]
}

fn requests_of_caps() -> Vec<Named> {
    let cap = |extra: Option<Named>| {
        let members = [("type", one_of(&[NET_DEBIT_CAP])), ("value", reference("DecimalFromZero"))];
        closed(members.into_iter().chain(extra), [])
    };
    let alarm = ("alarmPercentage", reference("DecimalFromZero"));
    vec![
        ("NewCap", closed([("currency", reference("Currency")), ("limit", cap(Some(alarm)))], [])),
        (
            "InitialPositionAndLimits",
            closed(
                [("currency", reference("Currency")), ("limit", cap(None))],
                [("initialPosition", reference("Decimal"))],
            ),
        ),
    ]
}

fn requests_of_funds() -> Vec<Named> {
    let amount = closed(
        [("amount", reference("DecimalAboveZero")), ("currency", reference("Currency"))],
        [],
    );
    let reason = text(1, funds::REASON_CHARACTERS_MAX);
    let extensions = json!({
        "type": "object",
        "required": ["extension"],
        "additionalProperties": false,
        "properties": {"extension": {"type": "array", "maxItems": funds::EXTENSIONS_MAX}},
        "description": "Checked and let go.",
    });
    let extensions = with(extensions, "/properties/extension/items", json!({}));
    vec![
        (
            "Funds",
            closed(
                [
                    ("transferId", reference("TransferId")),
                    ("externalReference", text(1, funds::REFERENCE_CHARACTERS_MAX)),
                    ("action", one_of(&names(&funds::STARTS))),
                    ("reason", reason.clone()),
                    ("amount", amount),
                ],
                [("extensionList", extensions)],
            ),
        ),
        ("FundsEnd", closed([("action", one_of(&names(&funds::ENDS))), ("reason", reason)], [])),
    ]
}

fn requests_of_types() -> Vec<Named> {
    vec![
        (
            "NewAccountType",
            closed(
                [
                    ("name", word(2..=30, "^[A-Za-z0-9_]+$")),
                    ("description", text(1, DESCRIPTION_CHARACTERS_MAX)),
                    ("isActive", reference("Flag")),
                    ("isSettleable", reference("Flag")),
                ],
                [],
            ),
        ),
        (
            "NewSettlementModel",
            closed(
                [
                    ("name", word(2..=30, "^[A-Za-z0-9]+$")),
                    ("settlementGranularity", one_of(&names(&models::GRANULARITIES))),
                    ("settlementInterchange", one_of(&names(&models::INTERCHANGES))),
                    ("settlementDelay", one_of(&names(&models::DELAYS))),
                    ("requireLiquidityCheck", reference("Flag")),
                    ("ledgerAccountType", one_of(&names(&models::LEDGER_ACCOUNTS))),
                    ("autoPositionReset", reference("Flag")),
                    ("settlementAccountType", one_of(&names(&models::SETTLEMENT_ACCOUNTS))),
                ],
                [("currency", currency_or_null())],
            ),
        ),
    ]
}

/// Forms that many answers hold.
struct Common {
    words: Value,
    integer: Value,
    currency: Value,
    moment: Value,
    switch: Value,
}

impl Common {
    fn new() -> Self {
        Self {
            words: json!({"type": "string"}),
            integer: json!({"type": "integer", "minimum": 0}),
            currency: reference("Currency"),
            moment: reference("Moment"),
            switch: reference("Switch"),
        }
    }
}

fn answers() -> Vec<Named> {
    [
        answers_of_participants(),
        answers_of_keys_and_oracles(),
        answers_of_accounts(),
        answers_of_the_hub(),
        vec![undeliverable()],
        answers_of_measurement(),
    ]
    .concat()
}

fn answers_of_participants() -> Vec<Named> {
    let Common { words, integer, currency, moment, switch } = Common::new();
    let summary = closed(
        [
            ("id", integer.clone()),
            ("ledgerAccountType", words.clone()),
            ("currency", currency.clone()),
            ("isActive", switch.clone()),
            ("createdDate", or_null(words.clone())),
            ("createdBy", words.clone()),
        ],
        [],
    );
    vec![
        (
            "Participant",
            closed(
                [
                    ("name", words.clone()),
                    ("id", words.clone()),
                    ("created", moment.clone()),
                    ("isActive", switch.clone()),
                    ("links", closed([("self", words.clone())], [])),
                    ("accounts", json!({"type": "array", "items": summary})),
                    ("isProxy", switch.clone()),
                ],
                [],
            ),
        ),
        ("Endpoint", closed([("type", words.clone()), ("value", words.clone())], [])),
    ]
}

fn answers_of_keys_and_oracles() -> Vec<Named> {
    let Common { words, integer, currency, moment, .. } = Common::new();
    let texts = json!({"type": "array", "items": words});
    let address = closed([("value", words.clone()), ("endpointType", words.clone())], []);
    let fault = closed([("errorCode", words.clone()), ("errorDescription", words.clone())], []);
    let refused = closed([("row", integer.clone()), ("errorInformation", fault)], []);
    vec![
        (
            "Registered",
            closed(
                [
                    ("registered", integer.clone()),
                    ("refused", json!({"type": "array", "items": refused})),
                ],
                [],
            ),
        ),
        (
            "PartyBinding",
            closed(
                [
                    ("partyIdType", one_of(fspiop::PartyIdType::NAMES)),
                    ("partyIdentifier", words.clone()),
                    ("fspId", words.clone()),
                ],
                [("partySubIdOrType", words.clone()), ("currency", reference("Currency"))],
            ),
        ),
        (
            "Key",
            closed(
                [
                    ("id", word(64..=64, "^[0-9a-f]+$")),
                    ("kind", one_of(&["RSA", "P-256", "other"])),
                    ("algorithms", texts.clone()),
                    ("source", one_of(&["register", "directory", "configuration"])),
                    ("publicKey", words.clone()),
                ],
                [("bits", integer.clone()), ("createdDate", moment)],
            ),
        ),
        (
            "Reload",
            closed(
                [("participants", integer.clone()), ("keys", integer.clone()), ("faults", texts)],
                [],
            ),
        ),
        (
            "Oracle",
            closed(
                [
                    ("oracleId", integer),
                    ("oracleIdType", words),
                    ("endpoint", address),
                    ("isDefault", json!({"type": "integer", "minimum": 0, "maximum": 1})),
                ],
                [("currency", currency)],
            ),
        ),
    ]
}

fn answers_of_measurement() -> Vec<Named> {
    let Common { words, integer, moment, .. } = Common::new();
    let hash = || word(64..=64, "^[0-9a-f]+$");
    let stage = closed(
        [("start", integer.clone()), ("end", integer.clone()), ("label", words.clone())],
        [],
    );
    let snapshot = closed([("position", integer.clone()), ("file", words.clone())], []);
    vec![
        ("Watching", closed([("enabled", json!({"type": "boolean"}))], [])),
        ("Rules", closed([("rulesVersion", version()), ("rulesKnown", version())], [])),
        (
            "Waterfall",
            closed(
                [
                    ("transferId", words.clone()),
                    ("unit", one_of(&["ns"])),
                    ("underWay", json!({"type": "boolean"})),
                    ("events", json!({"type": "array", "items": stage})),
                    ("waits", json!({"type": "array", "items": stage})),
                ],
                [],
            ),
        ),
        (
            "Explanation",
            open(
                [("events", json!({"type": "array", "items": {"type": "object"}}))],
                [
                    ("transfer", json!({"type": "string"})),
                    ("state", one_of(&["RESERVED", "COMMITTED", "ABORTED"])),
                    ("left_out", json!({"type": "integer", "minimum": 1})),
                    ("notices_pending", json!({"type": "array", "items": {"type": "integer"}})),
                    ("dead_letters", json!({"type": "array", "items": {"type": "integer"}})),
                    ("under_way", json!({"type": "array", "items": {"type": "object"}})),
                ],
            ),
        ),
        (
            "Snapshots",
            closed(
                [
                    ("snapshots", json!({"type": "array", "items": snapshot})),
                    ("busy", json!({"type": "boolean"})),
                    ("taken", integer.clone()),
                    ("failed", integer.clone()),
                    ("lastBytes", integer.clone()),
                    ("lastMilliseconds", integer.clone()),
                ],
                [("error", words.clone())],
            ),
        ),
        (
            "State",
            closed(
                [
                    ("position", integer),
                    ("stamp", moment),
                    ("stateHash", hash()),
                    ("contentHash", hash()),
                    ("outcomeDigest", hash()),
                ],
                [],
            ),
        ),
    ]
}

fn answers_of_accounts() -> Vec<Named> {
    let Common { words, integer, currency, moment, switch } = Common::new();
    let limit = closed(
        [
            ("type", one_of(&[NET_DEBIT_CAP])),
            ("value", reference("Number")),
            ("alarmPercentage", reference("Number")),
        ],
        [],
    );
    vec![
        (
            "Cap",
            closed([("currency", currency.clone()), ("limit", limit)], [("name", words.clone())]),
        ),
        (
            "Position",
            closed(
                [
                    ("currency", currency.clone()),
                    ("value", reference("Number")),
                    ("changedDate", moment.clone()),
                ],
                [],
            ),
        ),
        (
            "Account",
            closed(
                [
                    ("id", integer.clone()),
                    ("ledgerAccountType", words.clone()),
                    ("currency", currency.clone()),
                    ("isActive", switch.clone()),
                    ("value", reference("Number")),
                    ("reservedValue", reference("Number")),
                    ("changedDate", moment.clone()),
                ],
                [],
            ),
        ),
    ]
}

fn answers_of_the_hub() -> Vec<Named> {
    let Common { words, integer, moment, switch, .. } = Common::new();
    let service = closed([("name", words.clone()), ("status", one_of(&["OK", "DOWN"]))], []);
    vec![
        (
            "SettlementModel",
            closed(
                [
                    ("settlementModelId", integer.clone()),
                    ("name", words.clone()),
                    ("isActive", json!({"type": "boolean"})),
                    ("settlementGranularity", one_of(&names(&models::GRANULARITIES))),
                    ("settlementInterchange", one_of(&names(&models::INTERCHANGES))),
                    ("settlementDelay", one_of(&names(&models::DELAYS))),
                    ("currency", currency_or_null()),
                    ("requireLiquidityCheck", json!({"type": "boolean"})),
                    ("ledgerAccountTypeId", or_null(words.clone())),
                    ("settlementAccountType", or_null(words.clone())),
                    ("autoPositionReset", json!({"type": "boolean"})),
                ],
                [],
            ),
        ),
        (
            "AccountType",
            closed(
                [
                    ("id", integer.clone()),
                    ("name", words.clone()),
                    ("description", words.clone()),
                    ("isActive", switch.clone()),
                    ("isSettleable", switch),
                ],
                [],
            ),
        ),
        (
            "DeadLetter",
            closed(
                [
                    ("id", integer.clone()),
                    ("recipient", words.clone()),
                    ("transferId", or_null(words.clone())),
                    ("message", words.clone()),
                    ("outcome", integer.clone()),
                    ("logPosition", integer.clone()),
                    ("createdDate", moment.clone()),
                    ("attempts", integer.clone()),
                    ("lastStatus", or_null(integer.clone())),
                    ("lastAttemptDate", moment.clone()),
                ],
                [],
            ),
        ),
        ("Health", health(service, moment, words)),
    ]
}

/// How the hub is, and who of the participants does not answer.
fn health(service: Value, moment: Value, words: Value) -> Value {
    closed(
        [
            ("status", one_of(&["OK", "DOWN"])),
            ("uptime", json!({"type": "number", "description": "Seconds."})),
            ("startTime", moment),
            ("versionNumber", words),
            ("services", json!({"type": "array", "items": service})),
            ("storage", one_of(&["OK", "LOW", "CRITICAL", "FULL", "FAILING"])),
        ],
        [
            ("stuck", stuck_stages()),
            ("stalledLanes", stalled_lanes()),
            ("openBreakers", open_breakers()),
        ],
    )
}

/// Participants that take no notice.
fn stalled_lanes() -> Value {
    let count = json!({"type": "integer", "minimum": 0});
    let lane = closed(
        [
            ("participant", json!({"type": "string"})),
            ("owed", count.clone()),
            ("since", json!({"type": "string", "format": "date-time"})),
            ("seconds", count.clone()),
            ("lastAttempt", json!({"type": "string"})),
        ],
        [],
    );
    let lanes = json!({"type": "array", "maxItems": 100, "items": lane});
    described(
        closed([("count", count.clone()), ("owed", count), ("lanes", lanes)], []),
        "Participants to which notices are owed and none has been delivered for 5 s.",
    )
}

/// Participants to which forwards fail at once.
fn open_breakers() -> Value {
    let count = json!({"type": "integer", "minimum": 0});
    let breaker = closed(
        [
            ("participant", json!({"type": "string"})),
            ("since", json!({"type": "string", "format": "date-time"})),
            ("failures", count.clone()),
        ],
        [],
    );
    let breakers = json!({"type": "array", "maxItems": 100, "items": breaker});
    described(
        closed([("count", count), ("breakers", breakers)], []),
        "Participants that do not answer and to which forwards fail at once.",
    )
}

fn described(mut schema: Value, description: &str) -> Value {
    schema["description"] = description.into();
    schema
}

/// A notice that waits for an address.
fn undeliverable() -> Named {
    let Common { words, integer, moment, .. } = Common::new();
    (
        "Undeliverable",
        closed(
            [
                ("id", integer.clone()),
                ("recipient", words.clone()),
                ("transferId", or_null(words.clone())),
                ("message", words.clone()),
                ("outcome", integer.clone()),
                ("logPosition", integer.clone()),
                ("createdDate", moment.clone()),
                ("reason", words.clone()),
            ],
            [],
        ),
    )
}

/// Stages that have work and make no progress.
fn stuck_stages() -> Value {
    let stage = closed(
        [
            ("stage", json!({"type": "string"})),
            ("seconds", json!({"type": "integer", "minimum": 0})),
            ("detail", json!({"type": "string"})),
        ],
        [],
    );
    let description = "Stages that have work and make no progress.";
    json!({"type": "array", "description": description, "items": stage})
}

/// A version of the rules.
fn version() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": VERSION_MAX})
}

/// What the log takes, and what else is there.
fn storage() -> Value {
    let bytes = json!({"type": "integer", "minimum": 0});
    let bytes = || bytes.clone();
    let task = closed(
        [("position", bytes())],
        [
            ("lastDone", json!({"type": "string", "format": "date-time"})),
            ("failing", json!({"type": "string"})),
        ],
    );
    closed(
        [
            ("status", one_of(&["OK", "LOW", "CRITICAL", "FULL", "FAILING"])),
            ("logBytes", bytes()),
            ("logSegments", bytes()),
            ("archivedBytes", bytes()),
            ("archivedSegments", bytes()),
            ("storeBytes", bytes()),
            ("diskBytes", bytes()),
            ("freeBytes", bytes()),
        ],
        [
            ("growthBytesPerDay", bytes()),
            ("hoursUntilFull", bytes()),
            ("failing", json!({"type": "string"})),
            ("archive", task.clone()),
            ("backup", task),
        ],
    )
}

/// The nodes that share a log.
fn cluster() -> Value {
    let count = || json!({"type": "integer", "minimum": 0});
    let text = || json!({"type": "string"});
    let node = closed(
        [
            ("name", text()),
            ("epoch", count()),
            ("position", count()),
            ("silentMilliseconds", count()),
            ("rulesKnown", count()),
        ],
        [("contradictsAt", count())],
    );
    let lane = closed([("participant", text()), ("node", text())], []);
    let time = json!({"type": "string", "format": "date-time"});
    let gone = json!({"type": "array", "items": text()});
    let takeover = closed([("position", count()), ("time", time), ("gone", gone)], []);
    closed(
        [
            ("node", text()),
            ("position", count()),
            ("behind", count()),
            ("unheardMilliseconds", count()),
            ("heldMilliseconds", count()),
            ("foreignMessages", count()),
            ("nodes", json!({"type": "array", "items": node})),
            ("lanes", json!({"type": "array", "items": lane})),
        ],
        [("sameStateAt", count()), ("lastTakeover", takeover)],
    )
}

/// An object with these members and no other.
fn closed(
    required: impl IntoIterator<Item = Named>,
    optional: impl IntoIterator<Item = Named>,
) -> Value {
    with(open(required, optional), "/additionalProperties", json!(false))
}

/// An object with these members, and any others.
fn open(
    required: impl IntoIterator<Item = Named>,
    optional: impl IntoIterator<Item = Named>,
) -> Value {
    let mut members = Map::new();
    let mut names = Vec::new();
    for (name, schema) in required {
        names.push(name);
        members.insert(name.to_owned(), schema);
    }
    members.extend(optional.into_iter().map(|(name, schema)| (name.to_owned(), schema)));
    let mut object = json!({"type": "object", "properties": members});
    // An empty list is no schema.
    if !names.is_empty() {
        object["required"] = json!(names);
    }
    object
}

fn text(least: usize, most: usize) -> Value {
    json!({"type": "string", "minLength": least, "maxLength": most})
}

fn word(characters: std::ops::RangeInclusive<usize>, pattern: &str) -> Value {
    with(text(*characters.start(), *characters.end()), "/pattern", json!(pattern))
}

fn one_of(names: &[&str]) -> Value {
    json!({"type": "string", "enum": names})
}

fn currency_or_null() -> Value {
    let names = fspiop::known_currencies().map(Value::from).chain([Value::Null]);
    json!({"type": "string", "nullable": true, "enum": names.collect::<Vec<_>>()})
}

fn or_null(schema: Value) -> Value {
    with(schema, "/nullable", json!(true))
}

/// `schema` with a member more, at this path of names.
fn with(mut schema: Value, path: &str, value: Value) -> Value {
    let (parent, name) = path.rsplit_once('/').unwrap_or_default();
    if let Some(members) = schema.pointer_mut(parent).and_then(Value::as_object_mut) {
        members.insert(name.to_owned(), value);
    }
    schema
}

fn names<'n, T>(choices: &[(&'n str, T)]) -> Vec<&'n str> {
    choices.iter().map(|(name, _)| *name).collect()
}
