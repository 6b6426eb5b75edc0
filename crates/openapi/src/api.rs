//! An API as data, and its rendering.

use ::fspiop::ErrorCode;
use serde_json::{Map, Value, json};

/// Version of the OpenAPI specification that documents are written in.
const OPENAPI_VERSION: &str = "3.0.3";
/// Name of the security scheme.
const BEARER: &str = "bearer";

/// A whole API.
#[derive(Debug)]
pub struct Api {
    /// Its name.
    pub title: &'static str,
    /// Introduction; CommonMark.
    pub text: String,
    /// Default address.
    pub server: &'static str,
    /// Groups of operations with a sentence about each, in the order in which they are read.
    pub tags: Vec<(&'static str, &'static str)>,
    /// Schemas that operations refer to, by name.
    pub schemas: Vec<(String, Value)>,
    /// Its operations.
    pub operations: Vec<Operation>,
}

/// One operation: a method on a path.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Method in lower case.
    pub method: String,
    /// Path with `{Name}` for each identifier.
    pub path: String,
    /// The group it belongs to.
    pub tag: &'static str,
    /// Its unique name.
    pub id: String,
    /// Summary in a few words.
    pub summary: String,
    /// Rules for clients; CommonMark.
    pub text: String,
    /// Identifiers, query and headers.
    pub parameters: Vec<Parameter>,
    /// The request body.
    pub body: Option<Body>,
    /// Every response status.
    pub responses: Vec<ApiResponse>,
    /// Callbacks that it causes.
    pub callbacks: Vec<Callback>,
    /// Whether it needs the bearer token.
    pub access: Access,
    /// The permission that it needs, shown as the extension `x-required-permission`.
    pub permission: Option<&'static str>,
    /// The permission without which personal data in its answers are masked, shown as the
    /// extension `x-unmasking-permission`.
    pub unmasks: Option<&'static str>,
}

/// Whether an operation needs the bearer token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It knows no token.
    Open,
    /// It needs the token in some configurations.
    Optional,
    /// It needs the token.
    Token,
}

/// Location of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterLocation {
    /// In the path.
    Path,
    /// In the query.
    Query,
    /// A header.
    Header,
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its location.
    pub location: ParameterLocation,
    /// Whether it is required.
    pub required: bool,
    /// Its description.
    pub text: String,
    /// Its schema.
    pub schema: Value,
    /// An example value; `None` if usual messages omit the parameter.
    pub example: Option<Value>,
    /// Name of the shared component; `None` if it is declared in the operation.
    pub shared: Option<String>,
}

/// A body.
#[derive(Clone, Debug)]
pub struct Body {
    /// Accepted media types, the usual one first.
    pub media: Vec<String>,
    /// Its schema.
    pub schema: Value,
    /// An example.
    pub example: Value,
    /// Whether it must be sent.
    pub is_required: bool,
}

/// A response.
#[derive(Clone, Debug)]
pub struct ApiResponse {
    /// Its status; 0 means any of 200 to 299.
    pub status: u16,
    /// Its description.
    pub text: String,
    /// Media types and schemas of the body; empty without a body.
    pub content: Vec<(String, Value)>,
    /// Possible codes of its error body; empty if it is not an error.
    pub codes: Vec<ErrorCode>,
}

/// A callback to a participant that an operation causes.
#[derive(Clone, Debug)]
pub struct Callback {
    /// Its name within the operation.
    pub name: &'static str,
    /// Its target.
    pub address: String,
    /// The call itself.
    pub operation: Operation,
}

impl ApiResponse {
    /// A response without a body.
    #[must_use]
    pub fn empty(status: u16, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), content: Vec::new(), codes: Vec::new() }
    }

    /// A JSON response.
    #[must_use]
    pub fn json(status: u16, text: impl Into<String>, schema: Value) -> Self {
        let content = vec![("application/json".to_owned(), schema)];
        Self { content, ..Self::empty(status, text) }
    }

    /// An error response with one of the codes.
    #[must_use]
    pub fn refusal(status: u16, mut codes: Vec<ErrorCode>) -> Self {
        codes.sort_unstable();
        codes.dedup();
        let numbers: Vec<String> = codes.iter().map(ToString::to_string).collect();
        let narrowed = json!({"properties": {"errorInformation": {"properties": {
            "errorCode": {"type": "string", "enum": numbers},
        }}}});
        let schema =
            json!({"allOf": [{"$ref": "#/components/schemas/ErrorInformationObject"}, narrowed]});
        let names: Vec<String> =
            codes.iter().map(|code| format!("{code} {}", code.name())).collect();
        let text = format!("Refused: {}.", names.join("; "));
        Self { codes, ..Self::json(status, text, schema) }
    }
}

impl Api {
    /// The OpenAPI document.
    ///
    /// # Panics
    /// If two operations have the same method and path, or two different parameters share a
    /// name: the description is part of the program.
    #[must_use]
    pub fn document(&self) -> Value {
        let mut paths: Map<String, Value> = Map::new();
        let mut shared = Shared::default();
        for operation in &self.operations {
            let path = paths.entry(operation.path.clone()).or_insert_with(|| json!({}));
            let before = path.as_object_mut().and_then(|path| {
                path.insert(
                    operation.method.clone(),
                    operation.render(Security::Included, &mut shared),
                )
            });
            assert!(before.is_none(), "{} {} twice", operation.method, operation.path);
        }
        let tags: Vec<Value> = self
            .tags
            .iter()
            .map(|(name, text)| json!({"name": name, "description": text}))
            .collect();
        let schemas: Map<String, Value> = self.schemas.iter().cloned().collect();
        let mut components = json!({
            "schemas": schemas,
            "parameters": shared.parameters,
            "responses": shared.responses,
        });
        if self.operations.iter().any(|operation| operation.access != Access::Open) {
            components["securitySchemes"] = json!({BEARER: {"type": "http", "scheme": "bearer"}});
        }
        json!({
            "openapi": OPENAPI_VERSION,
            "info": {
                "title": self.title,
                "version": env!("CARGO_PKG_VERSION"),
                "description": self.text,
                "license": {
                    "name": "Apache-2.0",
                    "url": "https://www.apache.org/licenses/LICENSE-2.0",
                },
            },
            "servers": [{"url": self.server}],
            "tags": tags,
            "paths": paths,
            "components": components,
        })
    }
}

/// Shared components, by name.
#[derive(Default)]
struct Shared {
    parameters: Map<String, Value>,
    responses: Map<String, Value>,
}

impl Shared {
    fn parameter(&mut self, parameter: &Parameter) -> Value {
        match &parameter.shared {
            None => parameter.render(),
            Some(name) => share(&mut self.parameters, "parameters", name, parameter.render()),
        }
    }

    /// Refusals are shared: they differ only in status and codes.
    fn response(&mut self, response: &ApiResponse) -> (String, Value) {
        let (status, rendered) = response.render();
        if response.codes.is_empty() {
            return (status, rendered);
        }
        let codes: Vec<String> = response.codes.iter().map(ToString::to_string).collect();
        let name = format!("Refused-{status}-{}", codes.join("-"));
        (status, share(&mut self.responses, "responses", &name, rendered))
    }
}

/// Keeps `value` under its name, and refers to it.
fn share(all: &mut Map<String, Value>, kind: &str, name: &str, value: Value) -> Value {
    let existing = all.entry(name).or_insert_with(|| value.clone());
    assert!(*existing == value, "two different {kind} are called {name}");
    json!({"$ref": format!("#/components/{kind}/{name}")})
}

/// Whether an operation declares its token: callbacks of the hub declare none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Security {
    Included,
    Omitted,
}

impl Operation {
    fn render(&self, security: Security, shared: &mut Shared) -> Value {
        let parameters = self.parameters.iter().map(|one| shared.parameter(one));
        let parameters: Vec<Value> = parameters.collect();
        let responses: Map<_, _> = self.responses.iter().map(|one| shared.response(one)).collect();
        let mut out = json!({
            "tags": [self.tag],
            "operationId": self.id,
            "summary": self.summary,
            "description": self.text,
            "parameters": parameters,
            "responses": responses,
        });
        if let Some(body) = &self.body {
            let entry = json!({"schema": body.schema, "example": body.example});
            let content: Map<String, Value> =
                body.media.iter().map(|media| (media.clone(), entry.clone())).collect();
            out["requestBody"] = json!({"required": body.is_required, "content": content});
        }
        if !self.callbacks.is_empty() {
            out["callbacks"] =
                self.callbacks.iter().map(|call| call.render(shared)).collect::<Map<_, _>>().into();
        }
        if security == Security::Included {
            match self.access {
                Access::Open => {}
                Access::Optional => out["security"] = json!([{}, {BEARER: []}]),
                Access::Token => out["security"] = json!([{BEARER: []}]),
            }
            if let Some(permission) = self.permission {
                out["x-required-permission"] = permission.into();
            }
            if let Some(permission) = self.unmasks {
                out["x-unmasking-permission"] = permission.into();
            }
        }
        out
    }
}

impl Parameter {
    fn render(&self) -> Value {
        let location = match self.location {
            ParameterLocation::Path => "path",
            ParameterLocation::Query => "query",
            ParameterLocation::Header => "header",
        };
        let mut out = json!({
            "name": self.name,
            "in": location,
            "required": self.required,
            "description": self.text,
            "schema": self.schema,
        });
        if let Some(example) = &self.example {
            out["example"] = example.clone();
        }
        out
    }
}

impl ApiResponse {
    fn render(&self) -> (String, Value) {
        let mut out = json!({"description": self.text});
        for (media, schema) in &self.content {
            out["content"][media] = json!({"schema": schema});
        }
        let status = match self.status {
            0 => "2XX".to_owned(),
            status => status.to_string(),
        };
        (status, out)
    }
}

impl Callback {
    fn render(&self, shared: &mut Shared) -> (String, Value) {
        let operation = self.operation.render(Security::Omitted, shared);
        let call = json!({&self.address: {&self.operation.method: operation}});
        (self.name.to_owned(), call)
    }
}

/// A document as it is committed and served: indented, members sorted, one line end at its end.
///
/// # Panics
/// Never: a value can be written.
#[must_use]
pub fn text(document: &Value) -> String {
    let mut text = serde_json::to_string_pretty(document).expect("a value can be written");
    text.push('\n');
    text
}
