// SPDX-License-Identifier: Apache-2.0
// The page of a sweep: reads the embedded points, draws every part, and keeps the two chosen points.

import {byId, el, fill} from "../../report/web/dom.js";
import {number} from "../../report/web/format.js";
import {onTheme, startTheme} from "../../report/web/palette.js";

import {FrontChart, ParallelChart} from "./charts.js";
import {readSweep} from "./model.js";
import {PointTable, quantity, showComparison, showSensitivity} from "./tables.js";

function tile(label, value, note) {
  return el("div.tile", {}, el("div.label", {}, label), el("div.value", {}, value), el("div.note", {}, note || ""));
}

function showSummary(sweep) {
  byId("title").textContent = sweep.title;
  byId("search").textContent = [sweep.search, sweep.version && `Trivet ${sweep.version}`].filter(Boolean).join(" · ");
  const best = sweep.objectives.map((o, m) => {
    const i = sweep.evaluated.reduce((k, n) => (k === null || sweep.costs[n][m] < sweep.costs[k][m] ? n : k), null);
    return tile(
      `best ${o.name}`, i === null ? "none" : quantity(sweep.points[i].objectives[m]),
      i === null ? "" : `${o.unit || ""} at point ${sweep.points[i].id}`);
  });
  const failed = sweep.count - sweep.evaluated.length;
  fill(
    byId("tiles"),
    tile(
      "points", number(sweep.count),
      failed ? `${number(failed)} failed`
        : sweep.total ? `of ${number(sweep.total)} of the space`
                      : ""),
    tile("front", number(sweep.front.length), "points that no other dominates"), ...best);
}

function start(sweep) {
  for (const id of ["summary", "front", "parallel", "sensitivity", "points", "compare"]) byId(id).hidden = false;
  byId("loading").hidden = true;
  let a = sweep.front.length ? sweep.front[0] : null,
      b = sweep.front.length > 1 ? sweep.front[sweep.front.length - 1] : null;
  const update = () => {
    charts.forEach((chart) => chart.select(a, b));
    showComparison(sweep, a, b);
  };
  const choose = (i, second) => {
    if (second)
      b = i;
    else
      a = i;
    update();
  };
  const changed = () => {
    front.refresh();
    parallel.chart.draw();
    points.refresh();
    showSensitivity(sweep);
  };
  showSummary(sweep);
  const front = new FrontChart(sweep, choose), parallel = new ParallelChart(sweep, changed),
        points = new PointTable(sweep, choose);
  const charts = [front, parallel, points];
  showSensitivity(sweep);
  update();
  onTheme(() => {
    front.refresh();
    parallel.chart.draw();
    showComparison(sweep, a, b);
  });
  byId("page").removeAttribute("aria-busy");
  window.trivetSweep = {sweep, front, parallel, points, chosen: () => [a, b]};
}

startTheme(byId("theme"));
readSweep(byId("data").textContent).then(start).catch((error) => {
  byId("loading").textContent =
    "The sweep cannot be shown: " + error.message + ". It needs a browser of 2023 or newer.";
  byId("loading").className = "note bad";
  throw error;
});
