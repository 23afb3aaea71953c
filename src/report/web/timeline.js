// SPDX-License-Identifier: Apache-2.0
// The lanes of the engines, and the map of the whole run above them. At low zoom each column of pixels shows the
// fraction of its time that went to work and to each stall reason; at high zoom each event is a block.

import {Chart, clip, cyclesLabel, gutter, ticks} from "./canvas.js";
import {cycles as cyclesText, number, percent, time} from "./format.js";
import {control, controlKeys, timeAt} from "./hit.js";
import {color, ink} from "./palette.js";

const AXIS = 22, BAND = 18, LANE = 34, STALL = 17, GAP = 8;

// "#rrggbb" as a pixel of an image.
function opaque(hex) {
  const bytes = new Uint8Array([1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).concat(255));
  return new Uint32Array(bytes.buffer)[0];
}

export class Timeline {
  constructor(model, view, canvas, tooltip) {
    Object.assign(this, {model, view, canvas, tooltip});
    this.bands = [];
    if (model.steps.length) this.bands.push({name: "step", list: model.steps, label: (s) => s.op + " " + s.position});
    if (model.layers.length > 1) this.bands.push({name: model.layerWord, list: model.layers, label: (l) => l.name});
    this.top = AXIS + this.bands.length * BAND + 4;
    this.chart = new Chart(canvas, () => this.top + model.lanes.length * (LANE + GAP), (c, w, h) => this.draw(c, w, h));
    view.onDraw(() => this.chart.draw());
    control(
      view, canvas, {hover: (e) => this.hover(e), click: (e) => this.click(e), leave: () => (tooltip.hidden = true)});
  }

  laneTop(i) {
    return this.top + i * (LANE + GAP);
  }

  draw(c, width, height) {
    const {view, model} = this;
    const left = gutter(), plot = width - left;
    this.left = left;
    this.scale = plot / view.span;
    this.drawn = 0;
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    this.drawAxis(c, width, height);
    this.bands.forEach((band, i) => this.drawBand(c, width, band, AXIS + i * BAND));
    model.lanes.forEach((lane, i) => {
      const y = this.laneTop(i);
      c.fillStyle = ink("ink");
      c.fillText(clip(lane.name, left - 8, 7), 4, y + LANE / 2);
      c.fillStyle = ink("track");
      c.fillRect(left, y, plot, LANE);
      c.save();
      c.beginPath();
      c.rect(left, y - 3, plot, LANE + 6);
      c.clip();
      this.drawLane(c, lane, y, left, plot);
      c.restore();
    });
    this.drawLinks(c, width);
    this.drawMarkers(c, width, height);
    if (model.detailEnd < view.to) this.drawCut(c, width, height);
  }

  x(t) {
    return this.left + (t - this.view.from) * this.scale;
  }

  drawAxis(c, width, height) {
    const {view} = this;
    const {step, list} = ticks(view.from, view.to, width - this.left);
    c.fillStyle = ink("quiet");
    c.strokeStyle = ink("grid");
    c.lineWidth = 1;
    c.beginPath();
    for (const t of list) {
      const x = Math.round(this.x(t)) + 0.5;
      c.moveTo(x, AXIS - 6);
      c.lineTo(x, height);
      const label = cyclesLabel(t, step);
      if (x + label.length * 6 < width) c.fillText(label, x + 3, 9);
    }
    c.stroke();
    c.fillText("cycle", 4, 9);
  }

  drawBand(c, width, band, y) {
    const {view} = this;
    c.fillStyle = ink("quiet");
    c.fillText(clip(band.name, this.left - 8), 4, y + BAND / 2);
    c.save();
    c.beginPath();
    c.rect(this.left, y, width - this.left, BAND);
    c.clip();
    let lastX = -1;
    for (let i = 0; i < band.list.length; i++) {
      const b = band.list[i];
      if (b.end < view.from) continue;
      if (b.start > view.to) break;
      const x0 = Math.max(this.left, this.x(b.start)), x1 = Math.min(width, this.x(b.end));
      if (x1 - lastX < 0.7) continue;
      lastX = x1;
      c.fillStyle = i % 2 ? ink("band2") : ink("band1");
      c.fillRect(x0, y + 1, Math.max(0.7, x1 - x0 - 0.5), BAND - 3);
      const label = clip(band.label(b), x1 - x0 - 6);
      c.fillStyle = ink("ink");
      if (label) c.fillText(label, x0 + 4, y + BAND / 2);
    }
    c.restore();
  }

  drawLane(c, lane, y, left, plot) {
    const {view} = this;
    const first = lane.blocks.firstAfter(view.from), end = lane.blocks.firstStartingAt(view.to), count = end - first;
    const pixel = view.span / plot;
    if (count <= plot / 2 && view.to <= this.model.detailEnd)
      this.drawBlocks(c, lane, y, first, end);
    else if (pixel >= lane.sums[0].width || view.to > this.model.detailEnd)
      this.drawShares(c, y, left, plot, (kind, a, b) => lane.sums[kind].between(a, b), lane.sums.length);
    else
      this.drawShares(c, y, left, plot, this.countShares(lane, first, end, plot), lane.sums.length);
    if (view.matches) this.drawMatches(c, lane, y, first, end, plot);
  }

  drawBlocks(c, lane, y, first, end) {
    const {view, model} = this;
    const {blocks} = lane;
    this.drawn += end - first;
    for (let i = first; i < end; i++) {
      if (blocks.end[i] <= view.from) continue;
      const x0 = Math.max(this.left - 2, this.x(blocks.start[i])),
            x1 = Math.min(this.left + view.span * this.scale + 2, this.x(blocks.end[i]));
      const w = Math.max(0.8, x1 - x0 - (x1 - x0 > 3 ? 0.8 : 0));
      const kind = blocks.kind[i], n = blocks.insn[i] - 1;
      const dim = view.matches && !(n >= 0 && view.matches[n]);
      c.globalAlpha = dim ? 0.22 : 1;
      if (kind === 0) {
        c.fillStyle = n % 2 ? color("work2") : color("work");
        c.fillRect(x0, y, w, LANE);
        this.label(c, x0, y, w, n >= 0 ? model.text(model.tables.insn.op[n]) : "", ink("on-work"));
      } else {
        const reason = model.stallReasons[kind - 1];
        c.fillStyle = color(reason, kind);
        c.fillRect(x0, y + LANE - STALL, w, STALL);
        if (w > 6) this.hatch(c, x0, y + LANE - STALL, w, STALL);
        this.label(c, x0, y + LANE - STALL, w, reason, ink("on-stall"), STALL);
      }
      if (n >= 0 && (n === view.selected || view.related.has(n))) {
        c.lineWidth = 2;
        c.strokeStyle = n === view.selected ? ink("ink") : ink("accent");
        c.strokeRect(x0 + 0.5, y - 1, Math.max(2, w - 1), LANE + 2);
      }
    }
    c.globalAlpha = 1;
  }

  label(c, x, y, w, text, ink, height = LANE) {
    if (w < 24) return;
    const shown = clip(text, w - 8, 7.3);
    if (!shown) return;
    c.fillStyle = ink;
    c.fillText(shown, x + 4, y + height / 2 + 0.5);
  }

  hatch(c, x, y, w, h) {
    c.save();
    c.beginPath();
    c.rect(x, y, w, h);
    c.clip();
    c.strokeStyle = ink("hatch");
    c.lineWidth = 1;
    c.beginPath();
    for (let i = x - h; i < x + w; i += 7) {
      c.moveTo(i, y + h);
      c.lineTo(i + h, y);
    }
    c.stroke();
    c.restore();
  }

  // Fractions of each column of pixels, counted from the visible events.
  countShares(lane, first, end, plot) {
    const columns = Math.ceil(plot) + 1, kinds = lane.sums.length, pixel = this.view.span / plot;
    const {blocks} = lane;
    const counts = new Float32Array(columns * kinds);
    this.drawn += end - first;
    for (let i = first; i < end; i++) {
      let a = (blocks.start[i] - this.view.from) / pixel, b = (blocks.end[i] - this.view.from) / pixel;
      if (b <= 0) continue;
      a = Math.max(0, a);
      b = Math.min(columns, b);
      for (let k = Math.floor(a); k < b; k++)
        counts[k * kinds + blocks.kind[i]] += (Math.min(b, k + 1) - Math.max(a, k)) * pixel;
    }
    const from = this.view.from;
    return (kind, a) => counts[Math.round((a - from) / pixel) * kinds + kind];
  }

  // Painted as pixels: thousands of small rectangles in each frame cost too much without graphics hardware.
  drawShares(c, y, left, plot, amount, kinds) {
    const {view, model} = this;
    const pixel = view.span / plot, columns = Math.ceil(plot), rows = Math.round(LANE * (devicePixelRatio || 1));
    const image = new ImageData(columns, rows), words = new Uint32Array(image.data.buffer);
    const heights = new Float32Array(columns);
    for (let kind = 0; kind < kinds; kind++) {
      const word = opaque(kind ? color(model.stallReasons[kind - 1], kind) : color("work"));
      for (let k = 0; k < plot; k++) {
        const a = view.from + k * pixel, share = amount(kind, a, a + pixel) / pixel;
        if (share <= 0.002) continue;
        const low = Math.round(heights[k]),
              high = Math.min(rows, Math.max(low + 1, Math.round(heights[k] + share * rows)));
        heights[k] = Math.min(rows, Math.max(heights[k] + share * rows, heights[k] + 0.6));
        for (let row = low; row < high; row++) words[(rows - 1 - row) * columns + k] = word;
      }
    }
    this.strip ??= new OffscreenCanvas(1, 1);
    this.strip.width = columns;  // which clears it
    this.strip.height = rows;
    this.strip.getContext("2d").putImageData(image, 0, 0);
    c.imageSmoothingEnabled = false;
    c.drawImage(this.strip, left, y, columns, LANE);
  }

  drawMatches(c, lane, y, first, end, plot) {
    const {view} = this;
    const {blocks} = lane;
    const seen = new Uint8Array(Math.ceil(plot) + 2);
    c.fillStyle = ink("match");
    for (let i = first; i < end; i++) {
      if (blocks.kind[i] || !blocks.insn[i] || !view.matches[blocks.insn[i] - 1]) continue;
      const k = Math.max(0, Math.floor((blocks.start[i] - view.from) * this.scale));
      if (seen[k]) continue;
      seen[k] = 1;
      c.fillRect(this.left + k, y - 3, Math.max(2, (blocks.end[i] - blocks.start[i]) * this.scale - 1), 3);
    }
  }

  laneOf(n) {
    return this.model.lanes.findIndex((l) => l.number === this.model.lane[n]);
  }

  // An arrow from the end of each instruction that the selected one waited for.
  drawLinks(c, width) {
    const {view, model} = this;
    if (view.selected < 0) return;
    for (const n of [...view.related, view.selected])
      this.outline(c, n, n === view.selected ? ink("ink") : ink("accent"), width);
    const to = this.laneOf(view.selected);
    for (const n of view.related) {
      const from = this.laneOf(n);
      if (from < 0 || to < 0) continue;
      const x0 = this.x(model.end[n]), x1 = this.x(model.start[view.selected]);
      const y0 = this.laneTop(from) + LANE / 2, y1 = this.laneTop(to) + LANE / 2;
      c.save();
      c.beginPath();
      c.rect(this.left, 0, width - this.left, 1e4);
      c.clip();
      c.strokeStyle = c.fillStyle = ink("accent");
      c.lineWidth = 2;
      c.beginPath();
      c.moveTo(x0, y0);
      const bow = Math.max(14, Math.abs(x1 - x0) / 2);
      c.bezierCurveTo(x0 + bow, y0, x1 - bow, y1, x1, y1);
      c.stroke();
      c.beginPath();
      c.moveTo(x1, y1);
      c.lineTo(x1 - 7, y1 - 4);
      c.lineTo(x1 - 7, y1 + 4);
      c.fill();
      c.restore();
    }
  }

  outline(c, n, stroke, width) {
    const {view, model} = this;
    const i = this.laneOf(n);
    if (i < 0 || model.end[n] < view.from || model.start[n] > view.to) return;
    const x0 = Math.max(this.left, this.x(model.start[n])), x1 = Math.min(width, this.x(model.end[n]));
    c.strokeStyle = stroke;
    c.lineWidth = 2;
    c.strokeRect(x0 - 1, this.laneTop(i) - 2, Math.max(4, x1 - x0 + 1), LANE + 4);
  }

  drawMarkers(c, width, height) {
    c.strokeStyle = c.fillStyle = ink("accent");
    c.lineWidth = 1;
    for (const m of this.model.markers) {
      const x = Math.round(this.x(m.start)) + 0.5;
      if (x < this.left || x > width) continue;
      c.beginPath();
      c.moveTo(x, AXIS - 4);
      c.lineTo(x, height);
      c.stroke();
      const label = clip(m.text, Math.min(200, width - x - 8));
      c.fillStyle = ink("card");
      c.fillRect(x + 1, 1, c.measureText(label).width + 6, 15);
      c.fillStyle = ink("accent");
      c.fillText(label, x + 4, 9);
    }
  }

  drawCut(c, width, height) {
    const x = Math.max(this.left, this.x(this.model.detailEnd));
    c.strokeStyle = c.fillStyle = ink("accent");
    c.setLineDash([4, 3]);
    c.beginPath();
    c.moveTo(x, AXIS);
    c.lineTo(x, height);
    c.stroke();
    c.setLineDash([]);
    if (width - x > 120) c.fillText("totals only from here on", x + 4, AXIS + 2);
  }

  // The block under a point: work before stalls.
  blockAt(clientX, clientY) {
    const y = clientY - this.canvas.getBoundingClientRect().top;
    const i = Math.floor((y - this.top) / (LANE + GAP));
    const lane = this.model.lanes[i];
    if (!lane || y - this.laneTop(i) > LANE) return null;
    const t = timeAt(this.view, this.canvas, clientX), slack = 2 / this.scale;
    let best = -1, bestDistance = Infinity;
    for (let k = lane.blocks.firstAfter(t - slack); k < lane.blocks.length && lane.blocks.start[k] <= t + slack; k++) {
      const distance = t < lane.blocks.start[k] ? lane.blocks.start[k] - t
        : t >= lane.blocks.end[k]               ? t - lane.blocks.end[k]
                                                : 0;
      if (distance < bestDistance) {
        best = k;
        bestDistance = distance;
      }
    }
    return {lane, block: best};
  }

  hover(e) {
    const at = this.blockAt(e.clientX, e.clientY);
    const {tooltip, model} = this;
    if (!at) {
      tooltip.hidden = true;
      return;
    }
    const {lane, block} = at;
    const lines = [];
    if (block >= 0) {
      const {blocks} = lane;
      const n = blocks.insn[block] - 1, cycles = blocks.end[block] - blocks.start[block];
      const what = blocks.kind[block] ? `stalled (${model.stallReasons[blocks.kind[block] - 1]})`
        : lane.issues ? "issues"
                      : "works";
      lines.push(n >= 0 ? "#" + model.index(n) + "  " + model.line(n) : lane.name);
      lines.push(`${lane.name} ${what}, ${cyclesText(cycles)} from ${number(blocks.start[block])}`);
      if (!blocks.kind[block] && model.workRow[n] >= 0) {
        const {work} = model.tables, row = model.workRow[n];
        if (work.macs[row])
          lines.push(
            number(work.macs[row]) + " MACs, " + (work.macs[row] / Math.max(1, work.cycles[row])).toFixed(1) +
            " a cycle");
        if (work.bytes[row]) lines.push(number(work.bytes[row]) + " bytes");
      }
      if (blocks.kind[block]) {
        const by = model.tables.stall.waits_for[blocks.row[block]] - 1;
        if (by >= 0 && by < model.insns) lines.push("waits for #" + model.index(by) + "  " + model.line(by));
      }
      if (n >= 0 && model.sourceLocation(n))
        lines.push(model.sourceLocation(n) + "  " + model.text(model.tables.insn.source[n]));
    } else {
      lines.push(lane.name + " is idle");
    }
    const pixel = this.view.span / (this.canvas.clientWidth - gutter());
    if (pixel > 2) {
      const t = timeAt(this.view, this.canvas, e.clientX), width = pixel * 4;
      const parts =
        lane.sums
          .map((s, k) => [k ? model.stallReasons[k - 1] : "work", s.between(t - width / 2, t + width / 2) / width])
          .filter(([, s]) => s > 0.005);
      if (parts.length)
        lines.push("around here: " + parts.map(([name, s]) => name + " " + percent(Math.min(1, s))).join(", "));
    }
    showTooltip(tooltip, lines, e.clientX, e.clientY);
  }

  click(e) {
    const at = this.blockAt(e.clientX, e.clientY);
    const n = at && at.block >= 0 ? at.lane.blocks.insn[at.block] - 1 : -1;
    this.onPick(n);
  }
}

export function showTooltip(tooltip, lines, x, y) {
  tooltip.replaceChildren(...lines.map((line, i) => {
    const div = document.createElement("div");
    div.textContent = line;
    if (i === 0) div.className = "strong";
    return div;
  }));
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  tooltip.style.left = Math.max(4, Math.min(innerWidth - box.width - 8, x + 14)) + "px";
  tooltip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18) + "px";
}

// The whole run in a strip, with the visible interval framed.
export class Minimap {
  constructor(model, view, canvas) {
    Object.assign(this, {model, view, canvas});
    this.chart = new Chart(canvas, () => 48, (c, w, h) => this.draw(c, w, h));
    view.onDraw(() => this.chart.draw());
    const move = (e) => {
      const box = canvas.getBoundingClientRect(), left = gutter();
      const t = ((e.clientX - box.left - left) / (box.width - left)) * view.total;
      view.show(t - view.span / 2, t + view.span / 2);
    };
    canvas.addEventListener("pointerdown", (e) => {
      canvas.setPointerCapture(e.pointerId);
      this.dragging = true;
      move(e);
    });
    canvas.addEventListener("pointermove", (e) => this.dragging && move(e));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => (this.dragging = false));
    controlKeys(view, canvas);
  }

  // The picture of the lanes does not change with the zoom: drawn once a size and theme.
  picture(width, height, left) {
    const key = [width, height, ink("track")].join();
    if (this.key === key) return this.cache;
    const {model} = this;
    const ratio = devicePixelRatio || 1;
    this.cache = new OffscreenCanvas(width * ratio, height * ratio);
    this.key = key;
    const c = this.cache.getContext("2d");
    c.scale(ratio, ratio);
    const row = (height - 4) / model.lanes.length, plot = width - left, pixel = model.total / plot;
    model.lanes.forEach((lane, i) => {
      const y = 2 + i * row, h = Math.max(1, row - 1);
      c.fillStyle = ink("track");
      c.fillRect(left, y, plot, h);
      for (let k = 0; k < plot; k++) {
        const a = k * pixel;
        let x = 0;
        for (let kind = 0; kind < lane.sums.length; kind++) {
          const share = Math.min(1 - x, lane.sums[kind].between(a, a + pixel) / pixel);
          if (share <= 0.01) continue;
          c.fillStyle = kind ? color(model.stallReasons[kind - 1], kind) : color("work");
          c.fillRect(left + k, y + h * (1 - x - share), 1.15, h * share);
          x += share;
        }
      }
    });
    return this.cache;
  }

  draw(c, width, height) {
    const {view} = this;
    const left = gutter(), plot = width - left;
    c.drawImage(this.picture(width, height, left), 0, 0, width, height);
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    c.fillStyle = ink("quiet");
    c.fillText(clip("whole run", left - 6), 4, height / 2);
    const x0 = left + (view.from / view.total) * plot, x1 = left + (view.to / view.total) * plot;
    c.fillStyle = ink("veil");
    c.fillRect(left, 0, x0 - left, height);
    c.fillRect(x1, 0, width - x1, height);
    c.strokeStyle = ink("accent");
    c.lineWidth = 2;
    c.strokeRect(x0 + 1, 1, Math.max(3, x1 - x0 - 2), height - 2);
    this.canvas.setAttribute("aria-valuenow", String(Math.round(((view.from + view.to) / 2 / view.total) * 100)));
    this.canvas.setAttribute("aria-valuetext", `cycles ${Math.round(view.from)} to ${Math.round(view.to)}`);
  }
}

export const rangeText = (view, hz) => `cycles ${number(view.from)} – ${number(view.to)} of ${number(view.total)}` +
  (hz ? ` · ${time(view.span / hz)}` : "");
