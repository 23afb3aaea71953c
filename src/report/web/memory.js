// SPDX-License-Identifier: Apache-2.0
// The addresses of a space that are read and written over time. The rows show only ranges that are used, bank by bank;
// an access is drawn at the time of its instruction's work. Counted in one pass with sums over two dimensions, so many
// small accesses cost no more than few large ones.

import {Chart, clip, gutter} from "./canvas.js";
import {amount, hex} from "./format.js";
import {control, timeAt} from "./hit.js";
import {Blocks} from "./model.js";
import {color, ink, isDark} from "./palette.js";
import {showTooltip} from "./timeline.js";

const ROWS = 72, CELL = 2, STRETCHES = 14;

// Ranges of addresses that are accessed: [from, to), in units, about STRETCHES of them at most; none crosses a bank.
function stretches(model, space) {
  const {access} = model.tables;
  const banks = new Map();
  for (const r of space.rows) {
    const bank = space.bank ? Math.floor(access.addr[r] / space.bank) : 0;
    if (!banks.has(bank)) banks.set(bank, []);
    banks.get(bank).push(r);
  }
  const runs = [...banks].sort((a, b) => a[0] - b[0]).flatMap(([, rows]) => runsOf(access, rows));
  joinSmallGaps(runs, space.bank);
  return runs;
}

// Found in buckets, then extended to the exact first and last address.
function runsOf(access, rows) {
  const endOf = (r) => access.addr[r] + Math.max(1, access.extent[r]);
  let low = Infinity, high = 0;
  for (const r of rows) {
    low = Math.min(low, access.addr[r]);
    high = Math.max(high, endOf(r));
  }
  const buckets = Math.min(32768, Math.max(1, high - low)), width = (high - low) / buckets;
  const marks = new Int32Array(buckets + 1), bucket = (a) => Math.min(buckets - 1, Math.floor((a - low) / width));
  for (const r of rows) {
    marks[bucket(access.addr[r])]++;
    marks[bucket(endOf(r) - 1) + 1]--;
  }
  const runOf = new Int32Array(buckets), runs = [];
  for (let i = 0, depth = 0, before = 0; i < buckets; i++) {
    depth += marks[i];
    if (depth && !before) runs.push({from: Infinity, to: 0});
    runOf[i] = runs.length - 1;
    before = depth;
  }
  for (const r of rows) {
    const run = runs[runOf[bucket(access.addr[r])]];
    run.from = Math.min(run.from, access.addr[r]);
    run.to = Math.max(run.to, endOf(r));
  }
  return runs;
}

function joinSmallGaps(runs, bank) {
  const used = runs.reduce((sum, r) => sum + r.to - r.from, 0);
  const sameBank = (a, b) => !bank || Math.floor(a.from / bank) === Math.floor(b.from / bank);
  for (let least = used / 100;; least *= 4) {
    for (let i = runs.length - 1; i > 0; i--)
      if (sameBank(runs[i - 1], runs[i]) && runs[i].from - runs[i - 1].to <= least)
        runs[i - 1].to = runs.splice(i, 1)[0].to;
    const separable = runs.filter((r, i) => i && sameBank(runs[i - 1], r)).length;
    if (runs.length <= STRETCHES || !separable) return;
  }
}

export class MemoryMap {
  constructor(model, view, canvas, tabs, tooltip) {
    Object.assign(this, {model, view, canvas, tooltip});
    this.space = null;
    this.chart = new Chart(
      canvas, () => (this.space ? ROWS * CELL + 4 + this.space.stretches.length * 2 : 24),
      (c, w, h) => this.draw(c, w, h));
    view.onDraw(() => this.chart.draw());
    control(
      view, canvas, {hover: (e) => this.hover(e), click: (e) => this.click(e), leave: () => (tooltip.hidden = true)});
    for (const space of model.spaces) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = space.name;
      button.title = space.doc;
      button.addEventListener("click", () => this.choose(space, tabs));
      space.button = button;
      tabs.append(button);
    }
    const preferred =
      ["l2", "spm", "mem"].map((n) => model.spaces.find((s) => s.name === n)).find(Boolean) || model.spaces[0];
    if (preferred) this.choose(preferred, tabs);
  }

  choose(space) {
    if (!space.stretches) this.prepare(space);
    this.space = space;
    for (const s of this.model.spaces) s.button.setAttribute("aria-pressed", String(s === space));
    this.chart.draw();
  }

  // Rows of the map for each stretch: by the square root of its size, so that a small one beside a large one is seen.
  prepare(space) {
    space.stretches = stretches(this.model, space);
    const weight = space.stretches.map((s) => Math.sqrt(s.to - s.from));
    const sum = weight.reduce((a, b) => a + b, 0);
    let row = 0;
    space.stretches.forEach((s, i) => {
      s.rows = Math.max(2, Math.round((ROWS * weight[i]) / sum));
      s.row = row;
      row += s.rows;
    });
    space.height = row;
    this.place(space);
  }

  // Accesses in order of time, each with its rows of the map; `reach` as in Blocks.
  place(space) {
    const {model} = this;
    const {access} = model.tables;
    const startOf = (r) => model.start[access.insn[r] - 1];
    if (space.rows.some((r, i) => i && startOf(space.rows[i - 1]) > startOf(r)))
      space.rows.sort((a, b) => startOf(a) - startOf(b));
    const blocks = new Blocks(space.rows.length);
    space.firstRow = new Uint16Array(blocks.length);
    space.lastRow = new Uint16Array(blocks.length);
    space.rows.forEach((r, i) => {
      const n = access.insn[r] - 1;
      blocks.start[i] = model.start[n];
      blocks.end[i] = Math.max(model.end[n], model.start[n] + 1);
      [space.firstRow[i], space.lastRow[i]] =
        this.rowsOf(space, access.addr[r], access.addr[r] + Math.max(1, access.extent[r]));
    });
    space.blocks = blocks.finish();
  }

  // The rows of the map [first, past the last) that the addresses [addr, end) cover.
  rowsOf(space, addr, end) {
    const s = space.stretches.find((x) => addr < x.to) || space.stretches[space.stretches.length - 1];
    const scale = s.rows / (s.to - s.from);
    const first = Math.min(s.rows - 1, Math.max(0, Math.floor((addr - s.from) * scale)));
    return [s.row + first, s.row + Math.min(s.rows, Math.max(first + 1, Math.ceil((end - s.from) * scale - 1e-9)))];
  }

  // Differences over time and rows; their sums are how much is accessed in a cell.
  count(columns) {
    const {model, view, space} = this;
    const {access} = model.tables;
    const stride = columns + 1,
          planes = [new Float64Array(stride * (space.height + 1)), new Float64Array(stride * (space.height + 1))];
    const scale = columns / view.span;
    const {blocks, firstRow, lastRow, rows} = space;
    const first = blocks.firstAfter(view.from), past = blocks.firstStartingAt(view.to);
    for (let i = first; i < past; i++) {
      if (blocks.end[i] <= view.from) continue;
      const r = rows[i], r0 = firstRow[i], r1 = lastRow[i];
      const c0 = Math.max(0, Math.floor((blocks.start[i] - view.from) * scale)),
            c1 = Math.min(columns, Math.max(c0 + 1, Math.ceil((blocks.end[i] - view.from) * scale)));
      const density = access.bytes[r] / ((c1 - c0) * (r1 - r0)), p = planes[access.write[r]];
      p[r0 * stride + c0] += density;
      p[r0 * stride + c1] -= density;
      p[r1 * stride + c0] -= density;
      p[r1 * stride + c1] += density;
    }
    this.shown = past - first;
    for (const p of planes)
      for (let y = 0; y <= space.height; y++)
        for (let x = 0, run = 0; x < stride; x++) {
          run += p[y * stride + x];
          p[y * stride + x] = run + (y ? p[(y - 1) * stride + x] : 0);
        }
    return {planes, stride};
  }

  draw(c, width, height) {
    const left = gutter(), plot = width - left;
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    if (!this.space) {
      c.fillStyle = ink("quiet");
      c.fillText("no accesses were recorded", left + 6, height / 2);
      return;
    }
    const columns = Math.max(1, Math.ceil(plot / CELL));
    const {planes, stride} = this.count(columns);
    c.fillStyle = ink("track");
    c.fillRect(left, 0, plot, height);
    this.paint(c, planes, stride, columns, left);
    this.labels(c, left, width);
  }

  paint(c, [reads, writes], stride, columns, left) {
    const {space} = this;
    let most = 1e-9;
    for (const p of [reads, writes])
      for (const v of p)
        if (v > most) most = v;
    const image = new ImageData(columns, space.height);
    const rgb = (name) => [1, 3, 5].map((i) => parseInt(color(name).slice(i, i + 2), 16));
    const colors = [rgb("read"), rgb("write")], floor = isDark() ? 70 : 60;
    for (let y = 0; y < space.height; y++)
      for (let x = 0; x < columns; x++) {
        const r = reads[y * stride + x], w = writes[y * stride + x], sum = r + w;
        if (sum < most * 1e-9) continue;  // nothing but rounding
        const writeShare = w / sum, at = (y * columns + x) * 4;
        for (let k = 0; k < 3; k++) image.data[at + k] = colors[0][k] * (1 - writeShare) + colors[1][k] * writeShare;
        image.data[at + 3] =
          floor + (255 - floor) * Math.min(1, Math.max(0, 1 + Math.log10(Math.min(1, sum / most)) / 4));
      }
    const buffer = new OffscreenCanvas(columns, space.height);
    buffer.getContext("2d").putImageData(image, 0, 0);
    c.imageSmoothingEnabled = false;
    space.stretches.forEach(
      (s, i) =>
        c.drawImage(buffer, 0, s.row, columns, s.rows, left, 2 + s.row * CELL + i * 2, columns * CELL, s.rows * CELL));
  }

  name(space, addr) {
    return space.bank ? Math.floor(addr / space.bank) + ":" + hex(Math.floor(addr % space.bank))
                      : hex(Math.floor(addr));
  }

  labels(c, left, width) {
    const {space} = this;
    c.fillStyle = ink("quiet");
    let lastY = -20;
    space.stretches.forEach((s, i) => {
      const y = 2 + s.row * CELL + i * 2;
      if (i) {
        c.fillStyle = ink("page");
        c.fillRect(left, y - 2, width - left, 2);
        c.fillStyle = ink("quiet");
      }
      if (y - lastY < 11) return;
      lastY = y;
      c.fillText(clip(this.name(space, s.from), left - 6, 6.4), 4, y + 6);
      const last = y + s.rows * CELL - 6;
      if (last - y < 24) return;
      lastY = last;
      c.fillText(clip("…" + this.name(space, s.to - 1), left - 6, 6.4), 4, last);
    });
  }

  // The address and time under a point.
  at(e) {
    const {space, view} = this;
    const y = e.clientY - this.canvas.getBoundingClientRect().top;
    const i = space.stretches.findLastIndex((s, k) => y >= 2 + s.row * CELL + k * 2);
    const s = space.stretches[Math.max(0, i)];
    const share = (y - 2 - s.row * CELL - Math.max(0, i) * 2) / (s.rows * CELL);
    return {
      t: timeAt(view, this.canvas, e.clientX),
      addr: s.from + Math.max(0, Math.min(0.999, share)) * (s.to - s.from),
      cell: (s.to - s.from) / s.rows
    };
  }

  touching({t, addr, cell}) {
    const {model, space} = this;
    const {access} = model.tables;
    const slack = (model.total ? this.view.span / Math.max(1, this.canvas.clientWidth) : 0) * 2;
    const {blocks, rows} = space, found = [], past = blocks.firstStartingAt(t + slack);
    for (let i = blocks.firstAfter(t - slack); i < past && found.length < 4; i++) {
      const r = rows[i];
      if (
        blocks.end[i] + slack >= t && access.addr[r] <= addr + cell && access.addr[r] + access.extent[r] >= addr - cell)
        found.push(r);
    }
    return found;
  }

  hover(e) {
    if (!this.space || e.offsetX < gutter()) return;
    const {model, space} = this;
    const {access} = model.tables;
    const at = this.at(e);
    const lines = [`${space.name} ${this.name(space, at.addr)}, cycle ${Math.round(at.t).toLocaleString("en-US")}`];
    for (const r of this.touching(at))
      lines.push(`${access.write[r] ? "write" : "read"} ${amount(access.bytes[r])} at ${
        this.name(space, access.addr[r])}: #${model.index(access.insn[r] - 1)} ${model.line(access.insn[r] - 1)}`);
    showTooltip(this.tooltip, lines, e.clientX, e.clientY);
  }

  click(e) {
    if (!this.space) return;
    const found = this.touching(this.at(e));
    if (found.length) this.onPick(this.model.tables.access.insn[found[0]] - 1);
  }
}
