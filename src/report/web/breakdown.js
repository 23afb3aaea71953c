// SPDX-License-Identifier: Apache-2.0
// Totals by instruction class, by layer or label, and by step of a model.

import {Chart, clip, gutter} from "./canvas.js";
import {byId, el, fill, table} from "./dom.js";
import {amount, energy, number, percent, short, trim} from "./format.js";
import {color, ink} from "./palette.js";
import {showTooltip} from "./timeline.js";

const MOST = 200;

function share(part, total) {
  const s = total ? part / total : 0;
  return el("div.share", {}, el("span", {style: `width:${Math.min(100, s * 100)}%`}), el("em", {}, percent(s)));
}

function columns(model, name, nameOf) {
  const {cycles} = model.head.stats;
  return [
    {title: name, mono: true, value: nameOf},
    {title: "Times", right: true, value: (g) => number(g.count)},
    {title: "Engine cycles", right: true, value: (g) => number(g.busy)},
    {title: "of engines’ time", value: (g) => share(g.busy, cycles * g.lanes.size)},
    {title: "Cycles each", right: true, value: (g) => (g.count ? trim(g.busy / g.count) : "")},
    {
      title: "Engines",
      value: (g) => [...g.lanes]
                      .filter(([, c]) => c)
                      .sort((a, b) => b[1] - a[1])
                      .map(([l, c]) => (g.busy ? `${l} ${percent(c / g.busy)}` : l))
                      .join(", ")
    },
    {title: "Bytes", right: true, value: (g) => (g.bytes ? amount(g.bytes) : "")},
    {title: "MACs", right: true, value: (g) => (g.macs ? short(g.macs) : "")},
    {title: "Energy (interval)", right: true, value: (g) => (g.high ? energy(g) : "")},
    {title: "MACs/cycle", right: true, value: (g) => (g.macs && g.busy ? trim(g.macs / g.busy) : "")},
  ];
}

function more(list) {
  return list.length > MOST ? el("p.quiet", {}, `… and ${number(list.length - MOST)} more, with less work`) : null;
}

export function showClasses(model, go) {
  const list = model.fold((g, i) => g.op[i]).filter((g) => g.count).sort((a, b) => b.busy - a.busy);
  byId("classes").hidden = !list.length;
  fill(
    byId("class-table"),
    table(
      columns(model, "Instruction", (g) => model.text(g.key) || "(other)"), list.slice(0, MOST),
      {onclick: (g) => go.search(model.text(g.key))}),
    more(list));
}

export function showLayers(model, go) {
  const list = model.fold((g, i) => g.layer[i]).filter((g) => g.count && g.key);
  const natural = model.hasModel && list.every((g) => list.length <= MOST);
  if (list.length < 2) return;  // one label says nothing
  if (natural)
    list.sort((a, b) => model.text(a.key).localeCompare(model.text(b.key), "en", {numeric: true}));
  else
    list.sort((a, b) => b.busy - a.busy);
  byId("layers").hidden = false;
  document.querySelector('nav a[href="#layers"]').hidden = false;
  document.querySelector('nav a[href="#layers"]').textContent = model.layerWord === "layer" ? "Layers" : "Labels";
  byId("layers-title").textContent = "By " + model.layerWord;
  const name = model.layerWord[0].toUpperCase() + model.layerWord.slice(1);
  fill(
    byId("layer-table"), table(columns(model, name, (g) => model.text(g.key)), list.slice(0, MOST), {
      onclick: (g) => go.search(model.text(g.key))
    }),
    more(list));
}

export function showTokens(model, go, tooltip) {
  const {steps} = model;
  if (!steps.length) return null;
  byId("tokens").hidden = false;
  document.querySelector('nav a[href="#tokens"]').hidden = false;
  const {cycles} = model.head.stats;
  fill(
    byId("token-table"),
    table(
      [
        {title: "Step", mono: true, value: (s) => s.op},
        {title: "Position", right: true, value: (s) => number(s.position)},
        {title: "Tokens", right: true, value: (s) => number(s.tokens)},
        {title: "Cycles", right: true, value: (s) => number(s.end - s.start)},
        {title: "Cycles a token", right: true, value: (s) => trim((s.end - s.start) / Math.max(1, s.tokens))},
        {title: "of the run", value: (s) => share(s.end - s.start, cycles)},
        {title: "Busiest", value: (s) => busiest(model, s)},
      ],
      steps.slice(0, MOST), {onclick: (s) => go.show(s.start, s.end)}),
    steps.length > MOST ? el("p.quiet", {}, `… and ${number(steps.length - MOST)} more steps`) : null);
  return tokenChart(model, go, tooltip);
}

function busiest(model, step) {
  const span = Math.max(1, step.end - step.start);
  return model.lanes.map((l) => [l.name, l.sums[0].between(step.start, step.end) / span])
    .sort((a, b) => b[1] - a[1])
    .slice(0, 2)
    .map(([n, s]) => `${n} ${percent(Math.min(1, s))}`)
    .join(", ");
}

// A bar for each step: its cycles a token.
function tokenChart(model, go, tooltip) {
  const {steps} = model;
  const canvas = byId("token-chart");
  const value = (s) => (s.end - s.start) / Math.max(1, s.tokens);
  const most = Math.max(...steps.map(value));
  const kinds = [...new Set(steps.map((s) => s.op))];
  const legend = el("ul.legend", {"aria-label": "Colours of the steps"});
  canvas.after(legend);
  const chart = new Chart(canvas, () => 120, (c, width, height) => {
    fill(
      legend,
      ...kinds.map(
        (op) => el("li", {}, el("i", {style: `background:${color(op === "prefill" ? "prefill" : "work")}`}), op)));
    const left = gutter(), each = (width - left) / steps.length;
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    c.fillStyle = ink("quiet");
    c.fillText(short(most), 4, 12);
    c.fillText(clip("cycles/token", left - 4, 6), 4, 28);
    c.fillStyle = ink("track");
    c.fillRect(left, 4, width - left, height - 8);
    steps.forEach((s, i) => {
      const h = (value(s) / most) * (height - 12);
      c.fillStyle = color(s.op === "prefill" ? "prefill" : "work");
      c.fillRect(left + i * each, height - 4 - h, Math.max(0.7, each - (each > 3 ? 1 : 0)), h);
    });
  });
  const at = (e) => steps[Math.floor(((e.offsetX - gutter()) / (canvas.clientWidth - gutter())) * steps.length)];
  canvas.addEventListener("pointermove", (e) => {
    const s = at(e);
    if (s)
      showTooltip(
        tooltip,
        [
          `${s.op} at position ${s.position}`,
          `${number(s.end - s.start)} cycles for ${s.tokens} token${s.tokens === 1 ? "" : "s"}`
        ],
        e.clientX, e.clientY);
  });
  canvas.addEventListener("pointerleave", () => (tooltip.hidden = true));
  canvas.addEventListener("click", (e) => at(e) && go.show(at(e).start, at(e).end));
  return chart;
}
