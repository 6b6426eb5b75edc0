//! Boards as JSON of Grafana 11 and later.

use serde_json::{Value, json};

use super::{Board, Exemplars, Panel, PanelKind, Query, Variable, Width};

/// The version of the schema that Grafana 11 writes; later versions convert it when they load it.
const SCHEMA: u32 = 39;
/// Columns of a board.
const COLUMNS: u32 = 24;
const HEIGHT: u32 = 8;
const NUMBER_HEIGHT: u32 = 4;

/// The file of a board.
pub(super) fn json(board: &Board) -> String {
    let value = json!({
        "uid": format!("upesi-{}", board.name),
        "title": board.title,
        "description": board.help,
        "tags": ["upesi"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": { "from": "now-1h", "to": "now" },
        "timezone": "browser",
        "annotations": { "list": [alerts()] },
        "links": links(),
        "templating": { "list": variables(board) },
        "panels": panels(board),
    });
    format!("{value:#}\n")
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

/// Marks the times at which alerts fire.
fn alerts() -> Value {
    json!({
        "name": "Alerts",
        "enable": true,
        "iconColor": "red",
        "datasource": source(),
        "expr": "ALERTS{job=\"$job\", alertstate=\"firing\"}",
        "titleFormat": "{{alertname}}",
        "textFormat": "{{instance}} {{participant}}",
        "step": "30s",
    })
}

/// Links to the other boards, and to the transfer whose id the reader has entered.
fn links() -> Value {
    let link = |title: &str, url: &str| {
        json!({ "type": "link", "title": title, "url": url, "icon": "external link",
            "targetBlank": true, "asDropdown": false, "includeVars": false, "keepTime": false,
            "tags": [], "tooltip": "" })
    };
    let tags = "%7B%22mojaloop.transfer_id%22%3A%22${transfer}%22%7D";
    json!([
        { "type": "dashboards", "title": "Boards", "tags": ["upesi"], "asDropdown": false,
          "includeVars": true, "keepTime": true, "targetBlank": false, "icon": "dashboard",
          "tooltip": "", "url": "" },
        link("Explain the transfer", "${admin}/transfers/${transfer}/explanation"),
        link("Trace of the transfer", &format!(
            "${{jaeger}}/search?service=upesi&lookback=2d&tags={tags}"
        )),
    ])
}

fn variables(board: &Board) -> Vec<Value> {
    let mut list = vec![
        json!({ "name": "datasource", "label": "Data source", "type": "datasource",
            "query": "prometheus", "hide": 0 }),
        labels("job", "Job", "label_values(upesi_log_index, job)", Choice::One),
    ];
    let chosen = board.variables.iter().map(|variable| match variable {
        Variable::Node => {
            let query = "label_values(upesi_log_index{job=\"$job\"}, instance)";
            labels("instance", "Node", query, Choice::Several)
        }
        Variable::Participant => {
            let query = "label_values(upesi_participant_notices_owed{job=\"$job\"}, participant)";
            labels("participant", "Participant", query, Choice::One)
        }
        Variable::Currency => {
            let query = "label_values(upesi_position{job=\"$job\"}, currency)";
            labels("currency", "Currency", query, Choice::One)
        }
    });
    list.extend(chosen);
    list.push(text("admin", "Admin API", "http://127.0.0.1:3001"));
    list.push(text("jaeger", "Jaeger", "http://127.0.0.1:16686"));
    list.push(text("transfer", "Transfer", ""));
    list
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    One,
    Several,
}

/// A variable with the values of a label.
fn labels(name: &str, label: &str, query: &str, choice: Choice) -> Value {
    let several = choice == Choice::Several;
    let current = match several {
        true => json!({ "text": ["All"], "value": ["$__all"] }),
        false => json!({}),
    };
    json!({
        "name": name, "label": label, "type": "query", "datasource": source(),
        "query": { "query": query, "refId": name }, "definition": query,
        "refresh": 2, "sort": 1, "hide": 0, "regex": "",
        "multi": several, "includeAll": several, "current": current,
    })
}

/// A variable that the reader enters.
fn text(name: &str, label: &str, value: &str) -> Value {
    json!({ "name": name, "label": label, "type": "textbox", "query": value, "hide": 0,
        "current": { "text": value, "value": value },
        "options": [{ "text": value, "value": value, "selected": true }] })
}

/// The rows and panels, from left to right and from top to bottom.
fn panels(board: &Board) -> Vec<Value> {
    let (mut list, mut y) = (Vec::new(), 0);
    for section in &board.sections {
        let id = list.len() + 1;
        list.push(json!({ "id": id, "type": "row", "title": section.title, "collapsed": false,
            "gridPos": { "h": 1, "w": COLUMNS, "x": 0, "y": y }, "panels": [] }));
        y += 1;
        let (mut x, mut line_height) = (0, 0);
        for one in &section.panels {
            let (width, height) = (one.width as u32, height(one));
            if COLUMNS < x + width {
                (x, y, line_height) = (0, y + line_height, 0);
            }
            let place = json!({ "h": height, "w": width, "x": x, "y": y });
            list.push(panel(one, list.len() + 1, &place));
            x += width;
            line_height = line_height.max(height);
        }
        y += line_height;
    }
    list
}

fn height(panel: &Panel) -> u32 {
    match panel.kind {
        PanelKind::Number => NUMBER_HEIGHT,
        PanelKind::Lines | PanelKind::Ranking => HEIGHT,
    }
}

fn panel(panel: &Panel, id: usize, place: &Value) -> Value {
    let (kind, options) = match panel.kind {
        PanelKind::Lines => ("timeseries", lines()),
        PanelKind::Number => ("stat", numbers()),
        PanelKind::Ranking => ("bargauge", ranking()),
    };
    let targets = panel.queries.iter().zip('A'..).map(|(query, id)| target(panel, query, id));
    json!({
        "id": id,
        "type": kind,
        "title": panel.title,
        "description": panel.help,
        "gridPos": place,
        "datasource": source(),
        "fieldConfig": { "defaults": defaults(panel), "overrides": [] },
        "options": options,
        "targets": targets.collect::<Vec<_>>(),
    })
}

fn lines() -> Value {
    json!({
        "legend": { "displayMode": "table", "placement": "right", "showLegend": true,
            "calcs": ["lastNotNull", "max"], "sortBy": "Max", "sortDesc": true },
        "tooltip": { "mode": "multi", "sort": "desc" },
    })
}

fn numbers() -> Value {
    json!({ "graphMode": "area", "colorMode": "value", "textMode": "auto",
        "reduceOptions": { "calcs": ["lastNotNull"], "fields": "", "values": false } })
}

fn ranking() -> Value {
    json!({ "displayMode": "basic", "orientation": "horizontal", "showUnfilled": true,
        "reduceOptions": { "calcs": ["lastNotNull"], "fields": "", "values": false } })
}

fn defaults(panel: &Panel) -> Value {
    let mut steps = vec![json!({ "color": "green", "value": null })];
    if let Some((yellow, red)) = panel.limits {
        steps.push(json!({ "color": "yellow", "value": yellow }));
        steps.push(json!({ "color": "red", "value": red }));
    }
    let mut defaults = json!({
        "unit": panel.unit.name(),
        "min": if panel.kind == PanelKind::Lines { Value::Null } else { json!(0) },
        "thresholds": { "mode": "absolute", "steps": steps },
        "color": { "mode": if panel.kind == PanelKind::Lines { "palette-classic" }
            else { "thresholds" } },
        "noValue": "no data",
    });
    if panel.kind == PanelKind::Lines {
        defaults["custom"] = json!({ "drawStyle": "line", "lineWidth": 1, "fillOpacity": 8,
            "showPoints": "never", "spanNulls": false, "axisSoftMin": 0 });
    }
    if panel.exemplars == Exemplars::Shown {
        let url = "${jaeger}/search?service=upesi&start=${__from}000&end=${__to}000\
            &minDuration=${__value.numeric}s";
        defaults["links"] =
            json!([{ "title": "Traces that take as long", "url": url, "targetBlank": true }]);
    }
    defaults
}

fn target(panel: &Panel, query: &Query, id: char) -> Value {
    let is_range = panel.kind != PanelKind::Ranking;
    json!({
        "refId": id.to_string(),
        "datasource": source(),
        "editorMode": "code",
        "expr": expression(&query.expression),
        "legendFormat": if query.legend.is_empty() { "__auto" } else { query.legend },
        "range": is_range,
        "instant": !is_range,
        "exemplar": panel.exemplars == Exemplars::Shown,
    })
}

/// The expression with Grafana's variables.
fn expression(text: &str) -> String {
    text.replace("@node", "job=\"$job\", instance=~\"$instance\"")
        .replace("@participant", "job=\"$job\", participant=\"$participant\"")
        .replace("@currency", "job=\"$job\", currency=\"$currency\"")
        .replace("@job", "job=\"$job\"")
        .replace("@rate", "$__rate_interval")
}

const _: () = assert!(Width::Full as u32 == COLUMNS);
