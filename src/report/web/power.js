// SPDX-License-Identifier: Apache-2.0
// Power over time with its interval: the energy of each instruction spread over the cycles of its engine. Aligned with
// the timeline. Static power is part of it.

import {Chart, gutter} from "./canvas.js";
import {power as powerText} from "./format.js";
import {control, timeAt} from "./hit.js";
import {color, ink} from "./palette.js";
import {showTooltip} from "./timeline.js";

const HEIGHT = 96;

export class Power {
  constructor(model, view, canvas, tooltip) {
    Object.assign(this, {model, view, canvas, tooltip});
    const {stats, energy} = model.head;
    this.hz = stats.clock_hz;
    const seconds = stats.cycles / this.hz;
    this.fixed = ["low", "nominal", "high"].map((end) => (seconds > 0 ? energy.static[end] / seconds : 0));
    this.chart = new Chart(canvas, () => HEIGHT, (c, w, h) => this.draw(c, w, h));
    view.onDraw(() => this.chart.draw());
    control(view, canvas, {hover: (e) => this.hover(e), leave: () => (tooltip.hidden = true)});
  }

  // Watts of one end of the interval (0 low, 1 nominal, 2 high) between two cycles.
  watts(end, from, to) {
    const joules = this.model.energySums[end].between(from, to) * 1e-15;
    return this.fixed[end] + Math.max(0, (joules * this.hz) / (to - from));
  }

  draw(c, width, height) {
    const {view} = this;
    const left = gutter(), plot = width - left, columns = Math.ceil(plot), pixel = view.span / plot;
    // a column of less than a bin of the sums shows the whole bin
    const wide = Math.max(pixel, this.model.energySums[0].width);
    const curves = [0, 1, 2].map((end) => Float64Array.from({length: columns}, (_, k) => {
      const middle = view.from + (k + 0.5) * pixel;
      return this.watts(end, middle - wide / 2, middle + wide / 2);
    }));
    let most = 0;
    for (const v of curves[2]) most = Math.max(most, v);
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    c.fillStyle = ink("track");
    c.fillRect(left, 2, plot, height - 4);
    if (most === 0) return;
    const y = (v) => height - 3 - (v / (most * 1.05)) * (height - 8);
    this.fillBand(c, curves[0], curves[2], left, y);
    this.drawLine(c, curves[1], left, y);
    c.fillStyle = ink("quiet");
    c.fillText(powerText(most), 4, 10);
    c.fillText("0", left - 12, height - 8);
  }

  fillBand(c, low, high, left, y) {
    c.beginPath();
    high.forEach((v, k) => c.lineTo(left + k, y(v)));
    for (let k = low.length - 1; k >= 0; k--) c.lineTo(left + k, y(low[k]));
    c.closePath();
    c.globalAlpha = 0.25;
    c.fillStyle = color("work");
    c.fill();
    c.globalAlpha = 1;
  }

  drawLine(c, curve, left, y) {
    c.beginPath();
    curve.forEach((v, k) => c.lineTo(left + k, y(v)));
    c.strokeStyle = color("work");
    c.lineWidth = 1.2;
    c.stroke();
  }

  hover(e) {
    const {view} = this;
    const t = timeAt(view, this.canvas, e.clientX), pixel = view.span / Math.max(1, this.canvas.clientWidth - gutter());
    if (t < view.from) return;
    const w = Math.max(pixel, this.model.energySums[0].width);
    const [low, nominal, high] = [0, 1, 2].map((end) => powerText(this.watts(end, t - w / 2, t + w / 2)));
    showTooltip(
      this.tooltip, ["cycle " + Math.round(t).toLocaleString("en-US"), `${nominal} (${low} to ${high})`], e.clientX,
      e.clientY);
  }
}
