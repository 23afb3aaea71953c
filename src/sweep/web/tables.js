// SPDX-License-Identifier: Apache-2.0
// The sensitivities, the sortable table of points, and the comparison of two points.

import {byId, el, fill, table} from "../../report/web/dom.js";
import {number, percent, trim} from "../../report/web/format.js";
import {color} from "../../report/web/palette.js";

import {axisTitle} from "./charts.js";

const HEIGHT = 26, ROWS_MAX = 1000000;  // browsers limit a page's height

export const quantity = (v) => (Math.abs(v) > 0 && Math.abs(v) < 0.01 ? v.toExponential(2) : trim(v));

function sparkline(means) {
  const known = means.map((v, k) => [k, v]).filter(([, v]) => v !== null);
  const low = known.reduce((a, [, v]) => Math.min(a, v), Infinity),
        high = known.reduce((a, [, v]) => Math.max(a, v), -Infinity);
  const make = (name, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const at = ([k, v]) =>
    [(means.length > 1 ? k / (means.length - 1) : 0.5) * 88 + 2,
     high > low ? 26 - ((v - low) / (high - low)) * 24 : 14];
  const svg = make("svg", {viewBox: "0 0 92 28", "aria-hidden": "true"});
  svg.append(make("polyline", {points: known.map((p) => at(p).map((q) => q.toFixed(1)).join(",")).join(" ")}));
  for (const p of known) svg.append(make("circle", {cx: at(p)[0].toFixed(1), cy: at(p)[1].toFixed(1), r: 2}));
  return svg;
}

export function showSensitivity(sweep) {
  const shown = sweep.selected();
  byId("sensitivity-note").textContent =
    "How much of an objective's variance each parameter explains alone (of its logarithm, where it is positive), " +
    `and its mean at each value, over those of ${number(shown.length)} points that have it.`;
  const columns = [
    {title: "Parameter", value: (k) => sweep.parameters[k].name},
    ...sweep.objectives.map(
      (o, m) => ({
        title: axisTitle(o),
        value: (k) => {
          const {share, means} = sweep.sensitivity(k, m, shown);
          const text =
            means.map((v, n) => `${sweep.parameters[k].values[n]}: ${v === null ? "none" : quantity(v)}`).join(", ");
          return el(
            "div.sense", {title: text, "data-share": share.toFixed(4)},
            el(
              "div.share", {}, el("span", {style: `width:${(share * 100).toFixed(1)}%`}), el("em", {}, percent(share))),
            sparkline(means));
        }
      }))
  ];
  fill(byId("sensitivity-table"), table(columns, sweep.parameters.map((p, k) => k)));
}

export class PointTable {
  constructor(sweep, choose) {
    Object.assign(this, {sweep, choose, a: null, b: null, sort: {column: 0, down: false}});
    this.columns = [
      {name: "#", width: 76, key: (i) => sweep.points[i].id, text: (i) => String(sweep.points[i].id)}, {
        name: "Front",
        width: 60,
        key: (i) => (sweep.onFront.has(i) ? 0 : 1),
        text: (i) => (sweep.onFront.has(i) ? "●" : "")
      },
      ...sweep.parameters.map((p, k) => ({
                                name: p.name,
                                width: Math.max(70, 8 * p.name.length + 26),
                                key: (i) => sweep.points[i].values[k],
                                text: (i) => sweep.value(k, i)
                              })),
      ...sweep.objectives.map((o, m) => ({
                                name: axisTitle(o),
                                width: Math.max(100, 7.5 * axisTitle(o).length + 26),
                                right: true,
                                key: (i) => (sweep.costs[i] ? sweep.costs[i][m] : Infinity),
                                text: (i) =>
                                  (sweep.points[i].objectives ? quantity(sweep.points[i].objectives[m])
                                     : m                      ? ""
                                                              : sweep.points[i].failure || "failed")
                              }))
    ];
    const width = this.columns.reduce((sum, c) => sum + c.width, 0);
    this.heads = this.columns.map(
      (c, n) => el(
        "button" + (c.right ? ".right" : ""),
        {type: "button", role: "columnheader", style: `flex-basis:${c.width}px`, onclick: () => this.sortBy(n)},
        c.name));
    this.body = el("div.grid-body", {style: `min-width:${width}px`});
    this.scroller = el(
      "div.grid-scroll", {tabindex: 0, role: "grid", "aria-label": "Points"},
      el("div.grid-head", {role: "row", style: `min-width:${width}px`}, ...this.heads), this.body);
    this.scroller.addEventListener("scroll", () => this.render(), {passive: true});
    new ResizeObserver(() => this.render()).observe(this.scroller);
    byId("only-front").addEventListener("change", () => this.refresh());
    fill(byId("grid"), this.scroller);
    this.refresh();
  }

  sortBy(column) {
    this.sort = {column, down: this.sort.column === column && !this.sort.down};
    this.refresh();
  }

  refresh() {
    const {sweep} = this, {column, down} = this.sort, {key} = this.columns[column];
    const rows = byId("only-front").checked ? sweep.selected().filter((i) => sweep.onFront.has(i))
      : sweep.ranges.size                   ? sweep.selected()
                                            : sweep.points.map((p, i) => i);
    rows.sort((a, b) => ((key(a) > key(b)) - (key(a) < key(b))) * (down ? -1 : 1) || a - b);
    this.rows = rows;
    byId("points-count").textContent = `${number(rows.length)} of ${number(sweep.count)}`;
    this.body.style.height = Math.min(rows.length, ROWS_MAX) * HEIGHT + "px";
    this.heads.forEach((h, n) => {
      h.setAttribute("aria-sort", n === column ? (down ? "descending" : "ascending") : "none");
      h.dataset.arrow = n === column ? (down ? "▾" : "▴") : "";
    });
    this.render();
  }

  render() {
    const top = this.scroller.scrollTop, height = this.scroller.clientHeight || 400;
    const first = Math.max(0, Math.floor(top / HEIGHT) - 6);
    const last = Math.min(this.rows.length, ROWS_MAX, Math.ceil((top + height) / HEIGHT) + 6);
    const list = [];
    for (let n = first; n < last; n++) list.push(this.row(n));
    fill(this.body, ...list);
  }

  row(n) {
    const i = this.rows[n];
    return el(
      "div.grid-row" +
        (i === this.a     ? ".set-a"
           : i === this.b ? ".set-b"
                          : ""),
      {role: "row", "aria-rowindex": n + 2, style: `top:${n * HEIGHT}px`, onclick: (e) => this.choose(i, e.shiftKey)},
      ...this.columns.map(
        (c) =>
          el("span" + (c.right ? ".right" : ""), {role: "gridcell", style: `flex-basis:${c.width}px`}, c.text(i))));
  }

  select(a, b) {
    Object.assign(this, {a, b});
    this.render();
  }
}

// ---- Comparison ----

// "a.b.c" → number or text, of a point's statistics.
function flatten(object, prefix = "", out = new Map()) {
  for (const [name, value] of Object.entries(object || {}))
    if (value !== null && typeof value === "object")
      flatten(value, prefix + name + ".", out);
    else
      out.set(prefix + name, value);
  return out;
}

// The difference in the colour of better or worse, where one of them is; `goal` is min, max or undefined.
function delta(a, b, goal) {
  if (typeof a !== "number" || typeof b !== "number") return a === b ? "" : "differs";
  if (a === b) return el("span.quiet", {}, "equal");
  const sign = b > a ? "+" : "−", worse = goal && b > a === (goal === "min");
  const text = sign + quantity(Math.abs(b - a)) + (a ? ` (${sign}${percent(Math.abs((b - a) / a))})` : "");
  return el(!goal ? "span" : worse ? "span.more" : "span.less", {}, text);
}

const shownValue = (v) => (v === undefined || v === null ? "" : typeof v === "number" ? quantity(v) : String(v));

function comparison(title, names, a, b) {
  const columns = [
    {title, value: (name) => name}, {title: "A", right: true, value: (name) => shownValue(a(name))},
    {title: "B", right: true, value: (name) => shownValue(b(name))},
    {title: "B against A", right: true, value: (name) => delta(a(name), b(name))}
  ];
  const node = table(columns, names);
  node.querySelectorAll("tbody tr").forEach((tr, n) => a(names[n]) !== b(names[n]) && tr.classList.add("differs"));
  return node;
}

// Bars of one engine: busy and the stalls, on a scale of the longer run.
function engineBar(engine, scale) {
  const share = (cycles) => `width:${((cycles * 100) / scale).toFixed(3)}%`;
  const stalls = Object.entries((engine && engine.stalled) || {}).filter(([, cycles]) => cycles > 0);
  return el(
    "div.bar", {}, el("span", {
      style: share((engine && engine.busy) || 0) + `;background:${color("work")}`,
      title: `busy: ${number((engine && engine.busy) || 0)} cycles`
    }),
    ...stalls.map(([name, cycles]) => el("span.stalled", {
                    style: share(cycles) + `;background-color:${color(name)}`,
                    title: `stalled, ${name}: ${number(cycles)} cycles`
                  })));
}

function engines(a, b) {
  const names = [...new Set([...Object.keys(a.engines || {}), ...Object.keys(b.engines || {})])];
  const scale = Math.max(1, a.cycles || 0, b.cycles || 0);
  const figures = (engine) => (engine ? `busy ${percent(engine.busy / scale)} of the longer run` : "");
  return names.flatMap(
    (name) => el(
      "div.pair", {}, el("b", {}, name), el("span", {}, "A"), engineBar((a.engines || {})[name], scale),
      el("span.quiet", {}, figures((a.engines || {})[name])), el("span", {}, "B"),
      engineBar((b.engines || {})[name], scale), el("span.quiet", {}, figures((b.engines || {})[name]))));
}

export function showComparison(sweep, a, b) {
  const body = byId("compare-body");
  if (a === null || b === null) {
    fill(
      body,
      el(
        "p.quiet", {},
        a === null ? "Click a point of the front or of the table: it becomes point A."
                   : "Shift and click another point: it becomes point B."));
    return;
  }
  const value = (i) => (name) => sweep.value(sweep.parameters.findIndex((p) => p.name === name), i);
  const objective = (i) => (name) =>
    (sweep.points[i].objectives || [])[sweep.objectives.findIndex((o) => o.name === name)];
  const goal = (name) => sweep.objectives.find((o) => o.name === name).goal;
  const nodes = [
    comparison("Parameter", sweep.parameters.map((p) => p.name), value(a), value(b)),
    comparison("Objective", sweep.objectives.map((o) => o.name), objective(a), objective(b), goal)
  ];
  const reports = (i) => new Map((sweep.points[i].reports || []).map((r) => [r.workload, r.stats]));
  const [left, right] = [reports(a), reports(b)];
  for (const [workload, stats] of left) {
    const other = right.get(workload);
    if (!stats || !other) continue;
    const [x, y] = [flatten(stats), flatten(other)];
    const names = [...new Set([...x.keys(), ...y.keys()])];
    nodes.push(
      el("h3", {}, workload), ...engines(stats, other),
      comparison("Statistic", names, (name) => x.get(name), (name) => y.get(name)));
  }
  fill(body, ...nodes);
}
