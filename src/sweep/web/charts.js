// SPDX-License-Identifier: Apache-2.0
// The two canvases: points by two objectives, and parallel coordinates.

import {Chart, clip} from "../../report/web/canvas.js";
import {byId, el, fill} from "../../report/web/dom.js";
import {short, trim} from "../../report/web/format.js";
import {color, ink} from "../../report/web/palette.js";

const SPACE = {
  left: 74,
  right: 18,
  top: 14,
  bottom: 46
};

// Positions of values between `from` and `to` pixels.
export class Scale {
  constructor(values, log, from, to) {
    let low = values.reduce((a, b) => Math.min(a, b), Infinity),
        high = values.reduce((a, b) => Math.max(a, b), -Infinity);
    this.log = log && low > 0;
    const forward = this.log ? Math.log10 : (v) => v;
    [low, high] = [forward(low), forward(high)];
    if (!(high > low)) [low, high] = [low - 0.5, high + 0.5];
    const margin = (high - low) * 0.04;
    Object.assign(this, {low: low - margin, high: high + margin, from, to, forward});
  }

  at(v) {
    return this.from + ((this.forward(v) - this.low) / (this.high - this.low)) * (this.to - this.from);
  }

  ticks() {
    const list = [];
    if (this.log) {
      const dense = this.high - this.low < 3;
      for (let p = Math.floor(this.low); p <= this.high; p++)
        for (const m of dense ? [1, 2, 5] : [1]) list.push(m * 10 ** p);
      return list.filter((v) => Math.log10(v) >= this.low && Math.log10(v) <= this.high);
    }
    const rough = (this.high - this.low) / 6, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    for (let t = Math.ceil(this.low / step) * step; t <= this.high; t += step)
      list.push(Math.abs(t) < step / 1e6 ? 0 : t);
    return list;
  }
}

export const axisTitle = (objective) =>
  objective.name + (objective.unit && objective.unit !== objective.name ? `, ${objective.unit}` : "");

// Colours of a parameter's values, from pale to full.
function rampColor(index, count) {
  const share = count > 1 ? index / (count - 1) : 1;
  return `color-mix(in oklab, ${color("work")} ${Math.round(100 - 100 * share)}%, ${color("write")})`;
}

export class FrontChart {
  constructor(sweep, choose) {
    Object.assign(this, {sweep, choose, a: null, b: null});
    const options = () => sweep.objectives.map((o, m) => el("option", {value: m}, o.name));
    fill(byId("front-x"), ...options());
    fill(byId("front-y"), ...options());
    byId("front-y").value = String(Math.min(1, sweep.objectives.length - 1));
    fill(
      byId("front-color"), el("option", {value: -1}, "front"),
      ...sweep.parameters.map((p, k) => el("option", {value: k}, p.name)));
    byId("front-log").checked = sweep.evaluated.every((i) => sweep.points[i].objectives.every((v) => v > 0));
    for (const id of ["front-x", "front-y", "front-color", "front-log"])
      byId(id).addEventListener("change", () => this.refresh());
    this.canvas = byId("front-chart");
    this.chart = new Chart(this.canvas, () => (innerWidth < 640 ? 320 : 460), (c, w, h) => this.draw(c, w, h));
    this.canvas.addEventListener("click", (e) => {
      const i = this.find(e);
      if (i !== null) this.choose(i, e.shiftKey);
    });
    this.canvas.addEventListener("pointermove", (e) => this.point(e));
    this.canvas.addEventListener("pointerleave", () => (byId("tooltip").hidden = true));
    this.canvas.addEventListener("keydown", (e) => this.key(e));
    this.refresh();
  }

  refresh() {
    this.x = Number(byId("front-x").value);
    this.y = Number(byId("front-y").value);
    this.shown = this.sweep.selected();
    this.stairs = this.sweep.frontOf(this.x, this.y, this.shown);
    const {sweep} = this;
    this.stairs.sort(
      (a, b) => sweep.costs[a][this.x] - sweep.costs[b][this.x] || sweep.costs[a][this.y] - sweep.costs[b][this.y]);
    byId("front-count").textContent = `${this.stairs.length} of ${this.shown.length} points in the front of these two`;
    this.legend();
    this.chart.draw();
  }

  legend() {
    const k = Number(byId("front-color").value);
    const item = (c, text) => el("li", {}, el("i", {style: `background:${c}`}), text);
    const items = k < 0 ? [item(color("write"), "front of all objectives"), item(color("work"), "other points")]
                        : this.sweep.parameters[k].values.map(
                            (v, n, all) => item(rampColor(n, all.length), `${this.sweep.parameters[k].name} = ${v}`));
    fill(byId("front-legend"), ...items, item(ink("accent"), "point A"), item(ink("ink"), "point B"));
  }

  draw(c, width, height) {
    const {sweep, shown} = this;
    const values = (m) => shown.map((i) => sweep.points[i].objectives[m]);
    const log = byId("front-log").checked;
    this.across = new Scale(values(this.x), log, SPACE.left, width - SPACE.right);
    this.up = new Scale(values(this.y), log, height - SPACE.bottom, SPACE.top);
    this.axes(c, width, height);
    if (!shown.length) return;
    const k = Number(byId("front-color").value);
    const radius = shown.length > 5000 ? 2 : 3.2;
    const drawPoint = (i, size, fillColor) => {
      c.fillStyle = fillColor;
      c.beginPath();
      c.arc(this.px(i), this.py(i), size, 0, 7);
      c.fill();
    };
    const line = this.stairs;
    c.strokeStyle = color("write");
    c.lineWidth = 1.5;
    c.beginPath();
    line.forEach((i, n) => {
      if (n) c.lineTo(this.px(i), this.py(line[n - 1]));
      c[n ? "lineTo" : "moveTo"](this.px(i), this.py(i));
    });
    c.stroke();
    c.globalAlpha = 0.55;
    for (const i of shown)
      if (!sweep.onFront.has(i))
        drawPoint(
          i, radius, k < 0 ? color("work") : rampColor(sweep.points[i].values[k], sweep.parameters[k].values.length));
    c.globalAlpha = 1;
    for (const i of shown)
      if (sweep.onFront.has(i))
        drawPoint(
          i, radius + 1,
          k < 0 ? color("write") : rampColor(sweep.points[i].values[k], sweep.parameters[k].values.length));
    for (const [name, i, tint] of [["B", this.b, ink("ink")], ["A", this.a, ink("accent")]]) {
      if (i === null || !shown.includes(i)) continue;
      c.strokeStyle = tint;
      c.lineWidth = 2.5;
      c.beginPath();
      c.arc(this.px(i), this.py(i), 8, 0, 7);
      c.stroke();
      c.fillStyle = tint;
      c.font = "600 13px system-ui, sans-serif";
      c.textAlign = "left";
      c.fillText(name, this.px(i) + 11, this.py(i) - 6);
    }
  }

  px(i) {
    return this.across.at(this.sweep.points[i].objectives[this.x]);
  }

  py(i) {
    return this.up.at(this.sweep.points[i].objectives[this.y]);
  }

  axes(c, width, height) {
    c.font = "11.5px system-ui, sans-serif";
    c.strokeStyle = ink("grid");
    c.fillStyle = ink("quiet");
    c.lineWidth = 1;
    if (this.shown.length) {
      let last = -Infinity;
      c.textAlign = "center";
      for (const t of this.across.ticks()) {
        const x = Math.round(this.across.at(t)) + 0.5;
        c.beginPath();
        c.moveTo(x, SPACE.top);
        c.lineTo(x, height - SPACE.bottom);
        c.stroke();
        if (x - last < 52) continue;
        last = x;
        c.fillText(short(t), x, height - SPACE.bottom + 16);
      }
      c.textAlign = "right";
      for (const t of this.up.ticks()) {
        const y = Math.round(this.up.at(t)) + 0.5;
        c.beginPath();
        c.moveTo(SPACE.left, y);
        c.lineTo(width - SPACE.right, y);
        c.stroke();
        c.fillText(short(t), SPACE.left - 8, y + 4);
      }
    }
    const title = (m) => axisTitle(this.sweep.objectives[m]) +
      (this.sweep.objectives[m].goal === "max" ? " (more is better)" : " (less is better)");
    c.textAlign = "center";
    c.fillText(title(this.x), (SPACE.left + width) / 2, height - 8);
    c.save();
    c.translate(14, (height - SPACE.bottom) / 2);
    c.rotate(-Math.PI / 2);
    c.fillText(title(this.y), 0, 0);
    c.restore();
  }

  // The point within 14 pixels of a pointer; of several the nearest, those of the front first.
  find(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    let best = null, distance = 14 ** 2;
    for (const i of this.shown) {
      const d = (this.px(i) - x) ** 2 + (this.py(i) - y) ** 2 - (this.sweep.onFront.has(i) ? 9 : 0);
      if (d < distance) [best, distance] = [i, d];
    }
    return best;
  }

  point(event) {
    const i = this.find(event), tooltip = byId("tooltip");
    tooltip.hidden = i === null;
    if (i === null) return;
    const {sweep} = this;
    fill(
      tooltip, el("div.strong", {}, sweep.parameters.map((p, k) => `${p.name}=${sweep.value(k, i)}`).join(" ")),
      ...sweep.objectives.map(
        (o, m) =>
          el("div", {}, `${o.name}: ${trim(sweep.points[i].objectives[m])} ${o.unit === o.name ? "" : o.unit || ""}`)));
    const box = tooltip.getBoundingClientRect();
    tooltip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
    tooltip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 8)) + "px";
  }

  key(event) {
    const move = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (event.key === "b" && this.a !== null) this.choose(this.a, true);
    if (!move || !this.stairs.length) return;
    event.preventDefault();
    const at = this.stairs.indexOf(this.a);
    this.choose(this.stairs[at < 0 ? 0 : Math.max(0, Math.min(this.stairs.length - 1, at + move))], false);
  }

  select(a, b) {
    Object.assign(this, {a, b});
    this.chart.draw();
  }
}

export class ParallelChart {
  constructor(sweep, changed) {
    Object.assign(this, {sweep, changed, a: null, b: null, drag: null});
    this.canvas = byId("parallel-chart");
    this.chart = new Chart(this.canvas, () => (innerWidth < 640 ? 300 : 360), (c, w, h) => this.draw(c, w, h));
    this.canvas.addEventListener("pointerdown", (e) => this.start(e));
    this.canvas.addEventListener("pointermove", (e) => this.move(e));
    this.canvas.addEventListener("pointerup", (e) => this.end(e));
    this.canvas.addEventListener("pointercancel", () => (this.drag = null));
    byId("parallel-clear").addEventListener("click", () => {
      sweep.ranges.clear();
      changed();
    });
  }

  layout(width, height) {
    const {axes} = this.sweep, left = 44, right = 44;
    this.top = 40;
    this.bottom = height - 26;
    this.step = axes.length > 1 ? (width - left - right) / (axes.length - 1) : 0;
    this.left = left;
    this.scales = axes.map((axis) => {
      if (axis.values) return new Scale([0, axis.values.length - 1], false, this.bottom, this.top);
      return new Scale(this.sweep.evaluated.map((i) => axis.of(i)), true, this.bottom, this.top);
    });
  }

  draw(c, width, height) {
    const {sweep} = this, {axes} = sweep;
    this.layout(width, height);
    const shown = sweep.selected(), inside = new Set(shown);
    byId("parallel-count").textContent = `${shown.length} of ${sweep.evaluated.length} points`;
    const trace = (i) => {
      c.beginPath();
      axes.forEach((axis, n) => c[n ? "lineTo" : "moveTo"](this.left + n * this.step, this.scales[n].at(axis.of(i))));
      c.stroke();
    };
    c.lineWidth = 1;
    c.strokeStyle = color("work");
    const stride = Math.max(1, Math.ceil(shown.length / 6000));  // of more points not every one is drawn
    c.globalAlpha = Math.max(0.04, Math.min(0.5, 60 / shown.length));
    for (let n = 0; n < shown.length; n += stride) trace(shown[n]);
    c.globalAlpha = 0.75;
    c.strokeStyle = color("write");
    for (const i of sweep.front)
      if (inside.has(i)) trace(i);
    c.globalAlpha = 1;
    c.lineWidth = 2.5;
    for (const [i, tint] of [[this.b, ink("ink")], [this.a, ink("accent")]]) {
      c.strokeStyle = tint;
      if (i !== null) trace(i);
    }
    axes.forEach((axis, n) => this.axis(c, axis, n));
  }

  axis(c, axis, n) {
    const x = this.left + n * this.step, range = this.sweep.ranges.get(n);
    c.strokeStyle = ink("quiet");
    c.lineWidth = 1;
    c.beginPath();
    c.moveTo(x, this.top);
    c.lineTo(x, this.bottom);
    c.stroke();
    if (range) {
      const half = axis.values ? 0.3 : 0, scale = this.scales[n];
      const y0 = axis.values ? scale.at(range[0] - half) : scale.at(range[0]),
            y1 = axis.values ? scale.at(range[1] + half) : scale.at(range[1]);
      c.fillStyle = ink("accent");
      c.globalAlpha = 0.35;
      c.fillRect(x - 6, Math.min(y0, y1), 12, Math.abs(y1 - y0));
      c.globalAlpha = 1;
    }
    c.font = "11px system-ui, sans-serif";
    c.textAlign = "center";
    c.fillStyle = ink("ink");
    const space = Math.max(40, this.step - 8);
    c.fillText(clip(axis.name, space), x, n % 2 && this.step < 90 ? 26 : 14);
    c.textAlign = "left";
    const label = (v, text) => {
      const y = this.scales[n].at(v) + 4, shownText = clip(text, space - 4);
      c.fillStyle = ink("card");
      c.globalAlpha = 0.75;
      c.fillRect(x + 4, y - 10, c.measureText(shownText).width + 4, 13);
      c.globalAlpha = 1;
      c.fillStyle = ink("quiet");
      c.fillText(shownText, x + 6, y);
    };
    if (axis.values) {
      const stride = Math.ceil(axis.values.length / 12);
      axis.values.forEach((v, k) => k % stride === 0 && label(k, v));
    } else {
      let last = Infinity;
      for (const t of this.scales[n].ticks())
        if (last - this.scales[n].at(t) > 22) {
          label(t, short(t));
          last = this.scales[n].at(t);
        }
    }
  }

  locate(event) {
    const box = this.canvas.getBoundingClientRect();
    const n = this.step ? Math.round((event.clientX - box.left - this.left) / this.step) : 0;
    return {n: Math.max(0, Math.min(this.sweep.axes.length - 1, n)), y: event.clientY - box.top};
  }

  start(event) {
    const {n, y} = this.locate(event);
    this.drag = {n, y};
    this.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    if (this.drag && Math.abs(this.locate(event).y - this.drag.y) > 3) this.apply(this.locate(event).y);
  }

  end(event) {
    if (!this.drag) return;
    const {y} = this.locate(event);
    if (Math.abs(y - this.drag.y) > 3) {
      this.apply(y);
    } else {
      this.sweep.ranges.delete(this.drag.n);
      this.changed();
    }
    this.drag = null;
  }

  // Values between the pixels where the drag began and `y`; of a parameter those whose position is covered.
  apply(y) {
    const scale = this.scales[this.drag.n], axis = this.sweep.axes[this.drag.n];
    const back = (p) => scale.low + ((p - scale.from) / (scale.to - scale.from)) * (scale.high - scale.low);
    let [low, high] = [back(Math.max(y, this.drag.y)), back(Math.min(y, this.drag.y))];
    if (axis.values)
      [low, high] = [Math.ceil(low - 0.3), Math.floor(high + 0.3)];
    else if (scale.log)
      [low, high] = [10 ** low, 10 ** high];
    this.sweep.ranges.set(this.drag.n, [low, high]);
    this.changed();
  }

  select(a, b) {
    Object.assign(this, {a, b});
    this.chart.draw();
  }
}
