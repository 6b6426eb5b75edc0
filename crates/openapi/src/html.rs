//! One HTML page of documents: contents at the side, then each operation with its parameters,
//! body, answers and the calls that follow it. No scripts and nothing from elsewhere; what folds
//! does so by `details`, and prints unfolded.

use std::fmt::Write;

use ::fspiop::ErrorCode;
use serde_json::Value;

use crate::validate::resolve;

const STYLE: &str = include_str!("page.css");

/// Renders the page; each document comes with a short name for its links.
#[must_use]
pub fn render(title: &str, documents: &[(&str, &Value)]) -> String {
    let mut page = Page { out: String::with_capacity(1 << 20) };
    page.put("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.put("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    // The policy disables scripts and external content, regardless of the documents.
    page.put("<meta http-equiv=\"Content-Security-Policy\" ");
    page.put("content=\"default-src 'none'; style-src 'unsafe-inline'\">");
    page.put(&format!("<title>{}</title><style>{STYLE}</style></head><body>", escaped(title)));
    page.put(&format!("<nav><h1>{}</h1>", escaped(title)));
    for (key, document) in documents {
        page.contents(key, document);
    }
    page.put("<h2><a href=\"#codes\">Error codes</a></h2></nav><main>");
    for (key, document) in documents {
        page.document(key, document);
    }
    page.codes();
    page.put("</main></body></html>\n");
    page.out
}

struct Page {
    out: String,
}

/// Method, path and description of an operation.
type Entry<'d> = (&'d str, &'d str, &'d Value);

/// The operations of one group, by path.
fn of_tag<'d>(document: &'d Value, tag: &str) -> Vec<Entry<'d>> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let all = paths.flat_map(|(path, operations)| {
        let operations = operations.as_object().into_iter().flatten();
        operations.map(move |(method, operation)| (method.as_str(), path.as_str(), operation))
    });
    all.filter(|(_, _, operation)| operation["tags"][0] == *tag).collect()
}

fn tags(document: &Value) -> impl Iterator<Item = (&str, &str)> {
    let tags = document["tags"].as_array().into_iter().flatten();
    tags.map(|tag| (word(&tag["name"]), word(&tag["description"])))
}

impl Page {
    fn put(&mut self, text: &str) {
        self.out += text;
    }

    fn contents(&mut self, key: &str, document: &Value) {
        let title = escaped(word(&document["info"]["title"]));
        self.put(&format!("<h2><a href=\"#{key}\">{title}</a></h2>"));
        for (tag, _) in tags(document) {
            self.put(&format!("<h3>{tag}</h3><ul>"));
            for (method, path, operation) in of_tag(document, tag) {
                let id = word(&operation["operationId"]);
                let badge = badge(method);
                let path = escaped(path);
                self.put(&format!("<li><a href=\"#{key}-{id}\">{badge}<span>{path}</span></a>"));
            }
            self.put("</ul>");
        }
    }

    fn document(&mut self, key: &str, document: &Value) {
        let info = &document["info"];
        let title = escaped(word(&info["title"]));
        let version = escaped(word(&info["version"]));
        self.put(&format!("<section><h1 id=\"{key}\">{title} <small>{version}</small></h1>"));
        self.prose(word(&info["description"]));
        let server = escaped(word(&document["servers"][0]["url"]));
        self.put(&format!("<p>By default at <code>{server}</code>. As OpenAPI: "));
        self.put(&format!("<a href=\"/openapi/{key}.json\">/openapi/{key}.json</a></p>"));
        for (tag, text) in tags(document) {
            self.put(&format!("<h2 id=\"{key}-tag-{tag}\">{tag}</h2><p>{}</p>", escaped(text)));
            for entry in of_tag(document, tag) {
                self.operation(key, document, entry);
            }
        }
        self.schemas(key, document);
        self.put("</section>");
    }

    fn operation(&mut self, key: &str, document: &Value, (method, path, operation): Entry<'_>) {
        let id = word(&operation["operationId"]);
        let summary = escaped(word(&operation["summary"]));
        let badge = badge(method);
        let path = escaped(path);
        self.put(&format!("<article id=\"{key}-{id}\"><h3><a href=\"#{key}-{id}\">{badge}"));
        self.put(&format!("<code>{path}</code></a> <em>{summary}</em></h3>"));
        self.prose(word(&operation["description"]));
        if operation.get("security").is_some() {
            self.put("<p class=\"token\">Needs the bearer token.</p>");
        }
        self.parameters(key, document, operation);
        if let Some(content) = operation["requestBody"]["content"].as_object() {
            self.body(key, document, content);
        }
        self.responses(key, document, operation);
        if let Some(calls) = operation["callbacks"].as_object() {
            self.put("<h4>Calls that follow</h4>");
            for (name, call) in calls {
                self.call(key, document, name, call);
            }
        }
        self.put("</article>");
    }

    fn parameters(&mut self, key: &str, document: &Value, operation: &Value) {
        let all = operation["parameters"].as_array().into_iter().flatten();
        let all: Vec<&Value> = all.map(|one| resolve(document, one)).collect();
        for (location, title) in [("path", "Path"), ("query", "Query"), ("header", "Headers")] {
            let rows: Vec<_> = all.iter().filter(|one| one["in"] == location).collect();
            if rows.is_empty() {
                continue;
            }
            let count = rows.iter().filter(|one| one["required"] == true).count();
            let open = if location == "header" { "" } else { " open" };
            self.put(&format!("<details{open}><summary>{title} <small>{count} required of "));
            self.put(&format!("{}</small></summary><table>", rows.len()));
            for row in rows {
                let name = escaped(word(&row["name"]));
                let need = need(row["required"] == true);
                self.put(&format!("<tr><td><code>{name}</code>{need}<td>"));
                let form = form(key, document, &row["schema"]);
                let text = paired(&escaped(word(&row["description"])), "`", "code");
                self.put(&format!("{form}<td>{text}"));
                if let Some(example) = row.get("example") {
                    self.put(&format!(
                        " <code class=\"example\">{}</code>",
                        escaped(&shown(example))
                    ));
                }
            }
            self.put("</table></details>");
        }
    }

    fn body(&mut self, key: &str, document: &Value, content: &serde_json::Map<String, Value>) {
        let Some(entry) = content.values().next() else { return };
        let media: Vec<String> =
            content.keys().map(|media| format!("<code>{}</code>", escaped(media))).collect();
        let media = media.join("<br>");
        self.put(&format!("<h4>Body</h4><p class=\"media\">{media}</p>"));
        self.members(key, document, &entry["schema"]);
        let example = serde_json::to_string_pretty(&entry["example"]).unwrap_or_default();
        self.put(&format!(
            "<details><summary>Example</summary><pre>{}</pre></details>",
            escaped(&example)
        ));
    }

    fn responses(&mut self, key: &str, document: &Value, operation: &Value) {
        self.put("<h4>Answers</h4><table class=\"answers\">");
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            let response = resolve(document, response);
            let class = status.chars().next().unwrap_or('0');
            let text = linked_codes(word(&response["description"]));
            self.put(&format!("<tr><td><b class=\"s{class}\">{status}</b><td>{text}"));
            let content = response["content"].as_object().and_then(|content| content.iter().next());
            let Some((media, entry)) = content else { continue };
            if class == '2' || status == "502" {
                let form = form(key, document, &entry["schema"]);
                self.put(&format!(" {form} <small>{}</small>", escaped(media)));
            }
        }
        self.put("</table>");
    }

    fn call(&mut self, key: &str, document: &Value, name: &str, call: &Value) {
        for (address, methods) in call.as_object().into_iter().flatten() {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                let badge = badge(method);
                let (name, address) = (escaped(name), escaped(address));
                let path = word(&operation["summary"]).split_once(' ').unwrap_or_default().1;
                self.put(&format!(
                    "<div class=\"call\"><p>{badge}<code>{}</code> <b>{name}</b>",
                    escaped(path)
                ));
                self.put(&format!(", to <code>{address}</code></p>"));
                self.prose(word(&operation["description"]));
                if let Some(content) = operation["requestBody"]["content"].as_object() {
                    self.body(key, document, content);
                }
                self.put("</div>");
            }
        }
    }

    /// The members of an object, or what else the schema is.
    fn members(&mut self, key: &str, document: &Value, schema: &Value) {
        let resolved = resolve(document, schema);
        let Some(members) = resolved["properties"].as_object() else {
            self.put(&format!("<p>{}</p>", form(key, document, schema)));
            return;
        };
        if let Some(name) = reference_name(schema) {
            self.put(&format!("<p><a href=\"#{key}-schema-{name}\"><code>{name}</code></a>"));
            if resolved["additionalProperties"] == false {
                self.put(", and no other members");
            }
            self.put("</p>");
        }
        let required: Vec<&str> =
            resolved["required"].as_array().into_iter().flatten().map(word).collect();
        self.put("<table>");
        for (name, member) in members {
            let need = need(required.contains(&name.as_str()));
            let form = form(key, document, member);
            self.put(&format!("<tr><td><code>{}</code>{need}<td>{form}", escaped(name)));
        }
        self.put("</table>");
    }

    fn schemas(&mut self, key: &str, document: &Value) {
        self.put(&format!("<h2 id=\"{key}-schemas\">Forms</h2>"));
        for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
            self.put(&format!("<article id=\"{key}-schema-{name}\"><h3><code>{name}</code></h3>"));
            if schema.get("properties").is_none() {
                self.put(&format!("<p>{}</p>", form(key, document, schema)));
            } else {
                self.members(key, document, schema);
            }
            self.put("</article>");
        }
    }

    fn codes(&mut self) {
        self.put("<section><h1 id=\"codes\">Error codes</h1><table>");
        for code in ErrorCode::ALL {
            let (name, status) = (code.name(), code.status().as_u16());
            write!(
                self.out,
                "<tr id=\"code-{code}\"><td><code>{code}</code><td>{name}<td>{status}"
            )
            .expect("writing to memory cannot fail");
        }
        self.put("</table></section>");
    }

    /// Paragraphs, with **strong** words, *stressed* ones and `code`.
    fn prose(&mut self, text: &str) {
        for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
            let strong = paired(&escaped(paragraph), "**", "b");
            let stressed = paired(&strong, "*", "i");
            self.put(&format!("<p>{}</p>", paired(&stressed, "`", "code")));
        }
    }
}

/// Short description of a value's schema.
fn form(key: &str, document: &Value, schema: &Value) -> String {
    if let Some(name) = reference_name(schema) {
        let link = format!("<a href=\"#{key}-schema-{name}\">{name}</a>");
        let resolved = resolve(document, schema);
        return match resolved["type"].as_str() {
            Some("object") | None => link,
            Some(kind) => format!("{link} <small>{kind}</small>"),
        };
    }
    for (combination, word) in [("anyOf", " or "), ("allOf", " and ")] {
        if let Some(all) = schema[combination].as_array() {
            let forms: Vec<_> = all.iter().map(|one| form(key, document, one)).collect();
            let text = schema["description"].as_str().map(|text| format!(" {}", escaped(text)));
            return forms.join(word) + &text.unwrap_or_default() + null(schema);
        }
    }
    let mut out = match schema["type"].as_str() {
        Some("array") => format!("list of {}", form(key, document, &schema["items"])),
        Some(kind) => kind.to_owned(),
        None => "anything".to_owned(),
    };
    for (least, most, unit) in [
        ("minLength", "maxLength", "characters"),
        ("minItems", "maxItems", "items"),
        ("minimum", "maximum", ""),
    ] {
        match (schema.get(least), schema.get(most)) {
            (Some(least), Some(most)) if least == most => {
                out += &format!(", {} {unit}", shown(least));
            }
            (Some(least), Some(most)) => {
                out += &format!(", {} to {} {unit}", shown(least), shown(most));
            }
            (Some(least), None) => out += &format!(", at least {} {unit}", shown(least)),
            (None, Some(most)) => out += &format!(", at most {} {unit}", shown(most)),
            (None, None) => (),
        }
    }
    if let Some(names) = schema["enum"].as_array() {
        let names: Vec<_> =
            names.iter().map(|name| format!("<code>{}</code>", escaped(&shown(name)))).collect();
        out += &format!(
            "<details><summary>one of {}</summary>{}</details>",
            names.len(),
            names.join(" ")
        );
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        out += &format!("<br><code class=\"pattern\">{}</code>", escaped(pattern));
    }
    if let Some(text) = schema["description"].as_str() {
        out += &format!(" {}", escaped(text));
    }
    out + null(schema)
}

fn null(schema: &Value) -> &'static str {
    if schema["nullable"] == true { " or null" } else { "" }
}

fn need(required: bool) -> &'static str {
    if required { "<b class=\"need\" title=\"required\">*</b>" } else { "" }
}

fn badge(method: &str) -> String {
    format!("<b class=\"m {method}\">{}</b>", method.to_ascii_uppercase())
}

fn reference_name(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

/// A refusal's text, each code a link to its row.
fn linked_codes(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for (at, part) in escaped(text).split(' ').enumerate() {
        if at > 0 {
            out.push(' ');
        }
        let is_code = part.len() == 4 && part.bytes().all(|byte| byte.is_ascii_digit());
        match is_code {
            true => out += &format!("<a href=\"#code-{part}\">{part}</a>"),
            false => out += part,
        }
    }
    out
}

/// Text between two marks becomes an element.
fn paired(text: &str, mark: &str, element: &str) -> String {
    let parts: Vec<&str> = text.split(mark).collect();
    let mut out = String::with_capacity(text.len());
    for (at, part) in parts.iter().enumerate() {
        match at % 2 {
            1 if at + 1 < parts.len() => out += &format!("<{element}>{part}</{element}>"),
            1 => out += &format!("{mark}{part}"),
            _ => out += part,
        }
    }
    out
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_link_leads_somewhere_and_nothing_is_fetched() {
        let document = crate::fspiop::document();
        let page = render("APIs", &[("fspiop", &document)]);
        let after = |mark: &'static str| {
            let found = page.match_indices(mark);
            found.map(|(at, _)| page[at + mark.len()..].split('"').next().expect("an end"))
        };
        let targets: BTreeSet<&str> = after(" id=\"").collect();
        for link in after("href=\"#") {
            assert!(targets.contains(link), "#{link} leads nowhere");
        }
        for outside in ["<script", "<img", "<link", "url(", "http-equiv=\"refresh"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert_eq!(page.matches("<details").count(), page.matches("</details>").count());
    }

    #[test]
    fn text_is_escaped_and_marked() {
        let mut page = Page { out: String::new() };
        page.prose("**a** < `b`\n\nc *d* * e");
        assert_eq!(page.out, "<p><b>a</b> &lt; <code>b</code></p><p>c <i>d</i> * e</p>");
        assert_eq!(linked_codes("Refused: 3100 x"), "Refused: <a href=\"#code-3100\">3100</a> x");
    }
}
