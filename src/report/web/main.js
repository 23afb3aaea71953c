// SPDX-License-Identifier: Apache-2.0
// Entry point of the report's page: reads the data, creates the views and connects them. `window.trivetReport` is for
// scripts and tests.

import {Bandwidth} from "./bandwidth.js";
import {showClasses, showLayers, showTokens} from "./breakdown.js";
import {showConfig} from "./config.js";
import {readData} from "./data.js";
import {showDetails} from "./details.js";
import {byId, el, fill} from "./dom.js";
import {showEnergy} from "./energy.js";
import {number} from "./format.js";
import {controlKeys} from "./hit.js";
import {MemoryMap} from "./memory.js";
import {Model} from "./model.js";
import {color, onTheme, startTheme} from "./palette.js";
import {Power} from "./power.js";
import {drawRoofline} from "./roofline.js";
import {showEngines, showPaths, showSummary} from "./summary.js";
import {Grid} from "./table.js";
import {Minimap, rangeText, Timeline} from "./timeline.js";
import {View} from "./view.js";

// Actions that views call on each other.
function makeActions(model, view, hooks) {
  const go = {
    select(n, quiet) {
      const producers =
        n < 0 ? [] : model.stallsOf(n).map((s) => s.waitsFor).filter((p) => p >= 0 && p < model.insns && p !== n);
      view.select(n, producers);
      if (n >= 0 && model.start[n] >= 0 && !quiet) view.reveal(model.start[n], model.end[n]);
    },
    zoomTo(n) {
      const producers = [...view.related].filter((p) => model.start[p] >= 0);
      const from = Math.min(model.start[n] - model.waited[n], ...producers.map((p) => model.start[p]));
      const margin = Math.max(6, (model.end[n] - from) * 0.15);
      view.show(from - margin, model.end[n] + margin);
    },
    step(by) {
      let n = view.selected + by;
      while (n >= 0 && n < model.insns && model.start[n] < 0) n += by;
      if (n >= 0 && n < model.insns) go.select(n);
    },
    toProducer() {
      const first = [...view.related][0];
      if (first !== undefined) go.select(first);
    },
    show(start, end) {
      const margin = (end - start) * 0.03;
      view.show(start - margin, end + margin);
      byId("timeline").scrollIntoView({behavior: "smooth"});
    },
    search(text) {
      byId("search").value = text;
      hooks.search(text);
      byId("filter").value = text;
      hooks.filter(text);
      byId("timeline").scrollIntoView({behavior: "smooth"});
    },
  };
  return go;
}

function setUpSearch(model, view, go, hooks) {
  const input = byId("search"), out = byId("search-count");
  let count = 0;
  hooks.search = (text) => {
    view.matches = model.search(text);
    count = view.matches ? view.matches.reduce((sum, m) => sum + m, 0) : 0;
    out.textContent = view.matches ? (count ? `${number(count)} found` : "none found") : "";
    view.redraw();
  };
  const next = (by) => {
    if (!count) return;
    let n = view.selected;
    do n = (n + by + model.insns) % model.insns;
    while (!view.matches[n]);
    go.select(n);
  };
  input.addEventListener("input", () => hooks.search(input.value));
  input.addEventListener("keydown", (e) => {
    if (e.key === "Enter") next(e.shiftKey ? -1 : 1);
    if (e.key === "Escape") {
      input.value = "";
      hooks.search("");
    }
  });
  byId("search-next").addEventListener("click", () => next(1));
  byId("search-prev").addEventListener("click", () => next(-1));
}

function setUpZoom(model, view, go, lanes) {
  byId("zoom-in").addEventListener("click", () => view.zoom(2));
  byId("zoom-out").addEventListener("click", () => view.zoom(0.5));
  byId("zoom-fit").addEventListener("click", () => view.fit());
  controlKeys(
    view, lanes, {n: () => go.step(1), p: () => go.step(-1), j: () => go.toProducer(), Escape: () => go.select(-1)});
  view.onDraw(() => (byId("range").textContent = rangeText(view, model.head.stats.clock_hz)));
}

function memoryLegend() {
  return el(
    "span.legend-inline", {}, el("i", {style: `background:${color("read")}`}), "read ",
    el("i", {style: `background:${color("write")}`}), "written");
}

function pathLegend(bandwidth) {
  return bandwidth.legend().map((p) => el("span.legend-inline", {}, el("i", {style: `background:${p.color}`}), p.name));
}

function start(data) {
  const model = new Model(data), view = new View(model.total), hooks = {};
  byId("loading").remove();
  for (const id of ["summary", "timeline", "roofline", "instructions", "configuration"]) byId(id).hidden = false;
  const go = makeActions(model, view, hooks), tooltip = byId("tooltip");
  showSummary(model, go);
  const timeline = new Timeline(model, view, byId("lanes"), tooltip),
        minimap = new Minimap(model, view, byId("minimap"));
  const bandwidth = new Bandwidth(model, view, byId("bandwidth"), tooltip);
  byId("power-part").hidden = !(model.head.energy.total.high > 0) || !model.head.stats.cycles;
  const power = new Power(model, view, byId("power"), tooltip);
  const memory = new MemoryMap(model, view, byId("memory"), byId("space-tabs"), tooltip);
  timeline.onPick = memory.onPick = (n) => go.select(n, true);
  const grid = new Grid(
    model, byId("grid"), {onPick: (n) => go.select(n), count: byId("filter-count"), engines: byId("filter-engine")});
  hooks.filter = (text) => grid.filter(model.search(text));
  byId("filter").addEventListener("input", (e) => hooks.filter(e.target.value));
  setUpSearch(model, view, go, hooks);
  setUpZoom(model, view, go, byId("lanes"));
  view.onSelect((n) => {
    showDetails(model, byId("details"), n, go);
    grid.select(n);
  });
  showClasses(model, go);
  showLayers(model, go);
  showEnergy(model);
  const tokens = showTokens(model, go, tooltip);
  showConfig(model, byId("config-table"));
  const legendBox = el("span", {id: "chart-legend"});
  byId("space-tabs").after(legendBox);
  const paint = () => {
    showEngines(model);
    showPaths(model);
    drawRoofline(model, byId("roof"));
    fill(legendBox, memoryLegend());
    fill(byId("bandwidth-legend"), ...pathLegend(bandwidth));
    showDetails(model, byId("details"), view.selected, go);
    tokens?.draw();
    view.redraw();
  };
  onTheme(paint);
  addEventListener("resize", () => drawRoofline(model, byId("roof")));
  paint();
  byId("page").setAttribute("aria-busy", "false");
  window.trivetReport = {model, view, go, timeline, minimap, bandwidth, power, memory, grid, ready: true};
}

startTheme(byId("theme"));
readData(byId("data").textContent).then(start).catch((error) => {
  byId("loading").textContent =
    "The report cannot be shown: " + error.message + ". It needs a browser of 2023 or newer.";
  byId("loading").className = "note bad";
  throw error;
});
