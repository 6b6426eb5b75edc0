// Draws each board as a page: reads its JSON, runs its queries against a real Prometheus, and draws
// the panels with ECharts. Headless Chromium makes the pictures.
//
//   node render.mjs PROMETHEUS DIRECTORY SECONDS BOARD [NAME=VALUE ...]
//
// BOARD is the JSON of a board; its picture goes to DIRECTORY. SECONDS is the length of the shown
// period, which ends now. NAME=VALUE sets a variable of the board.

import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { execFileSync } from "node:child_process";
import * as echarts from "echarts";
import sharp from "sharp";

const [prometheus, directory, seconds, file, ...settings] = process.argv.slice(2);
const WIDTH = 1200;
const ROW = 30; // pixels of one unit of a panel's height
const GAP = 6;
const POINTS = 180;
const NAMES = 6; // in a legend
const end = Math.floor(Date.now() / 1000);
const start = end - Number(seconds);
const step = Math.max(1, Math.ceil(Number(seconds) / POINTS));
const variables = new Map([
  ["job", "upesi"],
  ["instance", ".+"],
  ["__rate_interval", "20s"],
  ...settings.map((setting) => setting.split("=")),
]);

const replaced = (expression) =>
  [...variables].reduce((text, [name, value]) => text.replaceAll("$" + name, value), expression);

async function ask(route, form) {
  const body = new URLSearchParams(form);
  const answer = await fetch(`${prometheus}/api/v1/${route}`, { method: "POST", body });
  const value = await answer.json();
  if (value.status !== "success") throw new Error(`${form.query}: ${value.error}`);
  return value.data.result;
}

// The series of a panel: name, and points of time and value.
async function series(panel) {
  const found = [];
  for (const target of panel.targets) {
    const query = replaced(target.expr);
    const name = (metric) =>
      target.legendFormat.replace(/{{(\w+)}}/g, (_, label) => metric[label] ?? "");
    if (target.range) {
      const result = await ask("query_range", { query, start, end, step });
      found.push(...result.map((it) => ({ name: name(it.metric), points: points(it.values) })));
    } else {
      const result = await ask("query", { query, time: end });
      found.push(...result.map((it) => ({ name: name(it.metric), points: points([it.value]) })));
    }
  }
  return found.filter((it) => it.points.length);
}

const points = (values) =>
  values.map(([time, value]) => [time * 1000, Number(value)]).filter((it) => Number.isFinite(it[1]));

const scaled = (value, [...units]) => {
  let unit = units.shift();
  while (units.length && Math.abs(value) >= 999.5) [value, unit] = [value / 1000, units.shift()];
  return `${digits(value)}${unit}`;
};
const digits = (value) =>
  Math.abs(value) >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)) || 0);
const time = (value) =>
  value === 0 ? "0 s"
  : value < 0.001 ? `${digits(value * 1e6)} µs`
  : value < 1 ? `${digits(value * 1e3)} ms`
  : `${digits(value)} s`;
const COLORS = ["#3366c4", "#d9822b", "#2e9b5f", "#c23b5a", "#7a55b3", "#2b9eb3", "#8a8a3a",
  "#555555", "#b36b2b", "#5b8bd0"];
const FORMATS = {
  s: time,
  h: (value) => `${digits(value)} h`,
  percentunit: (value) => `${digits(value * 100)} %`,
  decbytes: (value) => scaled(value, [" B", " kB", " MB", " GB", " TB"]),
  Bps: (value) => scaled(value, [" B/s", " kB/s", " MB/s", " GB/s"]),
  cps: (value) => scaled(value, ["/s", "k/s", "M/s"]),
  reqps: (value) => scaled(value, ["/s", "k/s", "M/s"]),
  short: (value) => scaled(value, ["", " k", " M", " G"]),
};
const format = (panel) => {
  const unit = panel.fieldConfig.defaults.unit;
  if (!FORMATS[unit]) throw new Error(`${panel.title}: unknown unit ${unit}`);
  return FORMATS[unit];
};

function svg(option, width, height) {
  const chart = echarts.init(null, null, { renderer: "svg", ssr: true, width, height });
  chart.setOption({ animation: false, textStyle: { fontFamily: "sans-serif" }, ...option });
  const text = chart.renderToSVGString();
  chart.dispose();
  return text;
}

function lines(panel, found, width, height) {
  const shown = format(panel);
  const last = (it) => it.points.at(-1)[1];
  found.sort((a, b) => last(b) - last(a));
  const names = found.slice(0, NAMES).map((it, index) =>
    `<span><i style="background:${COLORS[index]}"></i>${escaped(it.name)} ` +
    `<b>${shown(last(it))}</b></span>`);
  if (NAMES < found.length) names.push(`<span>and ${found.length - NAMES} more</span>`);
  const legend = 34;
  const drawn = svg(
    {
      color: COLORS,
      grid: { left: 62, right: 12, top: 8, bottom: 22 },
      xAxis: { type: "time", min: start * 1000, max: end * 1000, splitNumber: 4,
        axisLabel: { fontSize: 10, formatter: "{HH}:{mm}", hideOverlap: true } },
      yAxis: { type: "value", min: (it) => (it.min < 0 ? null : 0), splitNumber: 4,
        axisLabel: { fontSize: 10, formatter: shown } },
      series: found.map((it) => ({ type: "line", data: it.points, showSymbol: false,
        lineStyle: { width: 1.4 } })),
    },
    width, height - legend,
  );
  return `${drawn}<div class="legend">${names.join("")}</div>`;
}

function bars(panel, found, width, height) {
  const shown = format(panel);
  const values = found.map((it) => ({ name: it.name, value: it.points.at(-1)[1] }));
  values.sort((a, b) => a.value - b.value);
  return svg(
    {
      grid: { left: 80, right: 70, top: 6, bottom: 22 },
      xAxis: { type: "value", min: 0, axisLabel: { fontSize: 10, formatter: shown }, splitNumber: 4 },
      yAxis: { type: "category", data: values.map((it) => it.name), axisLabel: { fontSize: 10 } },
      series: [{ type: "bar", data: values.map((it) => it.value), itemStyle: { color: "#3d8b5f" },
        label: { show: true, position: "right", fontSize: 10, formatter: (it) => shown(it.value) } }],
    },
    width, height,
  );
}

function number(panel, found, width, height) {
  const value = found[0].points.at(-1)[1];
  const steps = panel.fieldConfig.defaults.thresholds.steps;
  const color = steps.filter((it) => it.value === null || it.value <= value).at(-1).color;
  const colors = { green: "#2e7d4f", yellow: "#b07d00", red: "#c4302b" };
  const area = svg(
    {
      grid: { left: 0, right: 0, top: 4, bottom: 0 },
      xAxis: { type: "time", show: false }, yAxis: { type: "value", show: false, min: 0 },
      series: [{ type: "line", data: found[0].points, showSymbol: false, color: colors[color],
        lineStyle: { width: 1 }, areaStyle: { opacity: 0.12 } }],
    },
    width, Math.floor(height / 2),
  );
  return `<div class="number" style="color:${colors[color]}">${format(panel)(value)}</div>${area}`;
}

const DRAWN = { timeseries: lines, bargauge: bars, stat: number };
const escaped = (text) => text.replace(/[&<>]/g, (it) => `&#${it.charCodeAt(0)};`);
const empty = [];

async function box(board, panel) {
  const { x, y, w, h } = panel.gridPos;
  const place = { left: (x * WIDTH) / 24, top: y * ROW, width: (w * WIDTH) / 24, height: h * ROW };
  const style = `left:${place.left}px;top:${place.top}px;width:${place.width - GAP}px;` +
    `height:${place.height - GAP}px`;
  if (panel.type === "row") return `<h2 style="${style}">${escaped(panel.title)}</h2>`;
  const found = await series(panel);
  if (!found.length) empty.push(`${board.title}: ${panel.title}`);
  const inner = [place.width - GAP - 2, place.height - GAP - 26];
  const drawn = found.length
    ? DRAWN[panel.type](panel, found, ...inner)
    : `<div class="number none">no data</div>`;
  return `<section style="${style}"><h3>${escaped(panel.title)}</h3>${drawn}</section>`;
}

const STYLE = `
  body { margin: 0; background: #f4f5f5; font-family: sans-serif; position: relative; }
  h1 { font-size: 17px; margin: 0; padding: 8px 10px; height: 24px; }
  h1 small { font-weight: normal; color: #555; font-size: 12px; margin-left: 12px; }
  main { position: relative; left: 6px; }
  h2, section { position: absolute; box-sizing: border-box; margin: 0; }
  h2 { font-size: 13px; padding: 6px 4px; }
  section { background: #fff; border: 1px solid #d8d9da; overflow: hidden; }
  h3 { font-size: 12px; margin: 0; padding: 4px 8px; height: 16px; }
  .number { font-size: 24px; text-align: center; height: 34px; line-height: 34px; }
  .none { color: #888; font-size: 16px; }
  .legend { font-size: 10px; line-height: 15px; padding: 0 8px; color: #444; }
  .legend span { margin-right: 12px; white-space: nowrap; display: inline-block; }
  .legend i { display: inline-block; width: 10px; height: 5px; margin: 0 4px 2px 0; }
  svg { display: block; }`;

const board = JSON.parse(fs.readFileSync(file));
const boxes = [];
for (const panel of board.panels) boxes.push(await box(board, panel));
const height = Math.max(...board.panels.map((it) => it.gridPos.y + it.gridPos.h)) * ROW + 46;
const chosen = board.templating.list.filter((it) => variables.has(it.name) && it.name !== "job");
const about = chosen.map((it) =>
  `${it.label}: ${variables.get(it.name) === ".+" ? "All" : variables.get(it.name)}`);
const page = `<!doctype html><meta charset="utf-8"><style>${STYLE}</style>` +
  `<h1>${escaped(board.title)}<small>${escaped(about.join(" · "))}</small></h1>` +
  `<main>${boxes.join("\n")}</main>`;
const name = path.basename(file, ".json");
const [html, large] = ["html", "png"].map((kind) => path.join(os.tmpdir(), `${name}-${end}.${kind}`));
const png = path.resolve(directory, `board-${name}.png`);
fs.writeFileSync(html, page);
execFileSync(process.env.CHROMIUM ?? "chromium", [
  "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
  `--screenshot=${large}`, `--window-size=${WIDTH + 12},${height}`, `file://${html}`,
], { stdio: "ignore" });
await sharp(large).png({ palette: true, colours: 64, effort: 10 }).toFile(png);
[html, large].forEach((it) => fs.rmSync(it));
console.log(`${png}: ${Math.ceil(fs.statSync(png).size / 1024)} KiB`);
console.log(empty.length ? `no data: ${empty.join("; ")}` : "every panel has data");
