// SPDX-License-Identifier: Apache-2.0
// Bytes a cycle over time, a curve for each path that moved anything; aligned with the timeline.

import {Chart, gutter} from "./canvas.js";
import {trim} from "./format.js";
import {control, timeAt} from "./hit.js";
import {ink, pathColor} from "./palette.js";
import {showTooltip} from "./timeline.js";

const HEIGHT = 96;

// Transfers begin and end at whole cycles, so two that share a cycle add up to more than the peak of the path. The
// excess, at most two cycles' worth, moves to the following columns.
function carryOver(rates, peak, pixel) {
  if (!(peak > 0)) return rates;
  const most = (2 * peak) / pixel;
  for (let k = 0, carry = 0; k < rates.length; k++) {
    const sum = rates[k] + carry;
    carry = Math.min(most, Math.max(0, sum - peak));
    rates[k] = sum - carry;
  }
  return rates;
}

export class Bandwidth {
  constructor(model, view, canvas, tooltip) {
    Object.assign(this, {model, view, canvas, tooltip});
    this.paths = model.paths.filter((p) => p.recorded && p.bytes > 0);
    this.paths.forEach((p, i) => (p.color = () => pathColor(i)));
    this.chart = new Chart(canvas, () => (this.paths.length ? HEIGHT : 24), (c, w, h) => this.draw(c, w, h));
    view.onDraw(() => this.chart.draw());
    control(view, canvas, {hover: (e) => this.hover(e), leave: () => (tooltip.hidden = true)});
  }

  // Bytes a cycle of `path` in each column of `plot` pixels.
  rates(path, plot) {
    const {view} = this;
    const columns = Math.ceil(plot), pixel = view.span / plot;
    const out = new Float32Array(columns);
    const first = path.blocks.firstAfter(view.from), end = path.blocks.firstStartingAt(view.to);
    if (pixel >= path.sums.width || end - first > 200000 || view.to > this.model.detailEnd) {
      for (let k = 0; k < columns; k++)
        out[k] = path.sums.between(view.from + k * pixel, view.from + (k + 1) * pixel) / pixel;
      return out;
    }
    const bytes = this.model.tables.transfer.bytes;
    for (let i = first; i < end; i++) {
      const a = Math.max(0, (path.blocks.start[i] - view.from) / pixel),
            b = Math.min(columns, (path.blocks.end[i] - view.from) / pixel);
      const rate = bytes[path.blocks.row[i]] / (path.blocks.end[i] - path.blocks.start[i]);
      for (let k = Math.floor(a); k < b; k++) out[k] += rate * (Math.min(b, k + 1) - Math.max(a, k));
    }
    return carryOver(out, path.peak, pixel);
  }

  draw(c, width, height) {
    const left = gutter(), plot = width - left;
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    c.fillStyle = ink("track");
    c.fillRect(left, 2, plot, height - 4);
    if (!this.paths.length) {
      c.fillStyle = ink("quiet");
      c.fillText("nothing moved between memories", left + 6, height / 2);
      return;
    }
    const curves = this.paths.map((p) => this.rates(p, plot));
    const peak = Math.max(...this.paths.map((p) => p.peak));
    let most = peak;
    for (const curve of curves)
      for (const v of curve)
        if (v > most) most = v;
    const y = (v) => height - 3 - (v / (most * 1.08)) * (height - 8);
    c.strokeStyle = ink("grid");
    c.setLineDash([3, 3]);
    c.beginPath();
    c.moveTo(left, y(peak) + 0.5);
    c.lineTo(width, y(peak) + 0.5);
    c.stroke();
    c.setLineDash([]);
    c.fillStyle = ink("quiet");
    c.fillText(trim(peak) + " B/cyc", 4, Math.max(8, y(peak)));
    c.fillText("0", left - 12, height - 8);
    curves.forEach((curve, i) => this.drawCurve(c, curve, left, y, pathColor(i)));
  }

  drawCurve(c, curve, left, y, stroke) {
    const path = new Path2D();
    path.moveTo(left, y(0));
    for (let k = 0; k < curve.length; k++) {
      path.lineTo(left + k, y(curve[k]));
      path.lineTo(left + k + 1, y(curve[k]));
    }
    path.lineTo(left + curve.length, y(0));
    c.globalAlpha = 0.28;
    c.fillStyle = stroke;
    c.fill(path);
    c.globalAlpha = 1;
    c.strokeStyle = stroke;
    c.lineWidth = 1.2;
    c.stroke(path);
  }

  hover(e) {
    const {view} = this;
    const t = timeAt(view, this.canvas, e.clientX), pixel = view.span / Math.max(1, this.canvas.clientWidth - gutter());
    if (t < view.from || !this.paths.length) return;
    const w = Math.max(pixel, this.model.total / 4096);
    const lines = ["cycle " + Math.round(t).toLocaleString("en-US")];
    for (const p of this.paths)
      lines.push(
        `${p.name}: ${trim(Math.max(0, p.sums.between(t - w / 2, t + w / 2) / w))} of ${trim(p.peak)} bytes a cycle`);
    showTooltip(this.tooltip, lines, e.clientX, e.clientY);
  }

  legend() {
    return this.paths.map((p, i) => ({name: p.name, color: pathColor(i)}));
  }
}
