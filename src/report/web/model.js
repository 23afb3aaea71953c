// SPDX-License-Identifier: Apache-2.0
// The run: lanes with their blocks in order of time, and sums over bins of time for low zoom; transfers by path;
// accesses by space; work and stalls of each instruction. Typed arrays, because there may be two million of each.

import {pathColor} from "./palette.js";

export const BINS = 4096;

// Rows in the order of `key`; not sorted again if they are in order.
function order(key, rows) {
  let sorted = true;
  for (let i = 1; i < rows.length && sorted; i++) sorted = key[rows[i - 1]] <= key[rows[i]];
  return sorted ? rows : rows.sort((a, b) => key[a] - key[b]);
}

function rowsWhere(count, test) {
  const rows = new Uint32Array(count);
  let n = 0;
  for (let i = 0; i < count; i++)
    if (test(i)) rows[n++] = i;
  return rows.slice(0, n);
}

// Blocks of one lane, path or space by start; `reach[i]` is the latest end among the first i + 1, so that a search
// finds the first visible block even when blocks overlap.
export class Blocks {
  constructor(count) {
    this.start = new Float64Array(count);
    this.end = new Float64Array(count);
    this.reach = new Float64Array(count);
    this.kind = new Uint8Array(count);   // 0: work; otherwise 1 + index of the stall reason
    this.insn = new Uint32Array(count);  // + 1; 0: none
    this.row = new Uint32Array(count);
    this.length = count;
  }

  finish() {
    let reach = 0;
    for (let i = 0; i < this.length; i++) {
      reach = Math.max(reach, this.end[i]);
      this.reach[i] = reach;
    }
    return this;
  }

  // The first block that may end after `t`.
  firstAfter(t) {
    let low = 0, high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.reach[middle] > t)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }

  firstStartingAt(t) {
    let low = 0, high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.start[middle] >= t)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
}

// Running sums of an amount over BINS bins of time: between(t0, t1) is the amount in between.
export class Sums {
  constructor(total) {
    this.width = total / BINS;
    this.sums = new Float64Array(BINS + 1);
    this.total = total;
  }

  add(start, end, amount) {
    const last = BINS - 1;
    end = Math.max(end, start + 1e-9);
    const a = Math.min(last, Math.floor(start / this.width)), b = Math.min(last, Math.floor(end / this.width));
    if (a === b) {
      this.sums[a + 1] += amount;
      return;
    }
    const each = amount / (end - start);
    for (let i = a; i <= b; i++) {
      const from = Math.max(start, i * this.width), to = Math.min(end, (i + 1) * this.width);
      if (to > from) this.sums[i + 1] += each * (to - from);
    }
  }

  finish() {
    for (let i = 0; i < BINS; i++) this.sums[i + 1] += this.sums[i];
  }

  upTo(t) {
    const x = Math.max(0, Math.min(BINS, t / this.width)), i = Math.floor(x);
    return i >= BINS ? this.sums[BINS] : this.sums[i] + (this.sums[i + 1] - this.sums[i]) * (x - i);
  }

  between(from, to) {
    return this.upTo(to) - this.upTo(from);
  }
}

export class Model {
  constructor({head, texts, tables}) {
    Object.assign(this, {head, texts, tables});
    this.total = head.stats.cycles || Math.max(1, head.last_cycle);
    this.detailEnd = head.detail_end ?? Infinity;
    this.stallReasons = [...head.stats.stall_reasons];
    this.insns = tables.insn.rows;
    this.numberOf = new Map(texts.map((t, i) => [t, i]));
    this.makeWork();
    this.makeWaits();
    this.makeLanes();
    this.makePaths();
    this.makeEnergy();
    this.makeSpaces();
    this.makeBands();
  }

  text(number) {
    return this.texts[number] || "";
  }

  reasonIndex(textNumber) {
    const name = this.text(textNumber);
    let i = this.stallReasons.indexOf(name);
    if (i < 0) i = this.stallReasons.push(name) - 1;
    return i;
  }

  // First row of table work, and its time, of each instruction; the issue where there is no work.
  makeWork() {
    const {work, issue} = this.tables;
    this.workRow = new Int32Array(this.insns).fill(-1);
    this.start = new Float64Array(this.insns).fill(-1);
    this.end = new Float64Array(this.insns).fill(-1);
    this.lane = new Uint32Array(this.insns);
    for (let i = work.rows - 1; i >= 0; i--) {
      const n = work.insn[i] - 1;
      if (n < 0) continue;
      this.workRow[n] = i;
      this.start[n] = work.start[i];
      this.end[n] = work.start[i] + work.cycles[i];
      this.lane[n] = work.lane[i];
    }
    for (let i = 0; i < issue.rows; i++) {
      const n = issue.insn[i] - 1;
      if (n < 0 || this.start[n] >= 0) continue;
      this.start[n] = issue.start[i];
      this.end[n] = issue.start[i] + issue.cycles[i];
      this.lane[n] = issue.lane[i];
    }
  }

  // Stalled cycles of each instruction, and the reason of its longest stall. A stall may be recorded for the scheduler
  // and for the engine: the larger counts.
  makeWaits() {
    const {stall} = this.tables;
    const byScheduler = new Float64Array(this.insns), byEngine = new Float64Array(this.insns),
          most = new Float64Array(this.insns);
    this.waitReason = new Uint8Array(this.insns);
    for (let i = 0; i < stall.rows; i++) {
      const n = stall.insn[i] - 1;
      if (n < 0) continue;
      (stall.scheduler[i] ? byScheduler : byEngine)[n] += stall.cycles[i];
      if (stall.cycles[i] > most[n]) {
        most[n] = stall.cycles[i];
        this.waitReason[n] = 1 + this.reasonIndex(stall.reason[i]);
      }
    }
    this.timed = this.start.reduce((sum, t) => sum + (t >= 0 ? 1 : 0), 0);
    this.waited = byEngine;
    for (let n = 0; n < this.insns; n++) this.waited[n] = Math.max(byEngine[n], byScheduler[n]);
  }

  laneNames() {
    const names = this.head.stats.engines.map((e) => e.name);
    for (const table of [this.tables.work, this.tables.stall])
      for (let i = 0, last = -1; i < table.rows; i++) {
        if (table.lane[i] === last) continue;
        last = table.lane[i];
        if (!names.includes(this.text(last))) names.push(this.text(last));
      }
    return names;
  }

  makeLanes() {
    const {work, stall, issue} = this.tables;
    this.lanes = this.laneNames().map((name) => {
      const number = this.numberOf.get(name) ?? -1;
      let source = work, works = rowsWhere(work.rows, (i) => work.lane[i] === number);
      if (works.length === 0) {
        source = issue;  // the dispatcher's work is to issue
        works = rowsWhere(issue.rows, (i) => issue.lane[i] === number);
      }
      works = order(source.start, works);
      const stalls = order(stall.start, rowsWhere(stall.rows, (i) => stall.lane[i] === number));
      const lane = {name, number, issues: source === issue, blocks: this.mergeBlocks(source, works, stalls)};
      lane.sums = this.laneSums(lane);
      return lane;
    });
  }

  mergeBlocks(source, works, stalls) {
    const {stall} = this.tables;
    const blocks = new Blocks(works.length + stalls.length);
    for (let n = 0, w = 0, s = 0; n < blocks.length; n++) {
      const takeWork = s === stalls.length || (w < works.length && source.start[works[w]] <= stall.start[stalls[s]]);
      const table = takeWork ? source : stall, row = takeWork ? works[w++] : stalls[s++];
      blocks.start[n] = table.start[row];
      blocks.end[n] = table.start[row] + table.cycles[row];
      blocks.kind[n] = takeWork ? 0 : 1 + this.reasonIndex(stall.reason[row]);
      blocks.insn[n] = table.insn[row];
      blocks.row[n] = row;
    }
    this.trimWork(blocks);
    return blocks.finish();
  }

  // Work that ends with a stall (a late stream) is drawn up to the start of the stall.
  trimWork(blocks) {
    for (let i = 0; i < blocks.length; i++) {
      if (blocks.kind[i] === 0) continue;
      for (let k = i - 1; k >= 0 && k > i - 4; k--)
        if (
          blocks.kind[k] === 0 && blocks.insn[k] === blocks.insn[i] && blocks.end[k] === blocks.end[i] &&
          blocks.start[k] < blocks.start[i])
          blocks.end[k] = blocks.start[i];
    }
  }

  laneSums(lane) {
    const sums = Array.from({length: this.stallReasons.length + 1}, () => new Sums(this.total));
    const {blocks} = lane;
    for (let i = 0; i < blocks.length; i++) {
      const end = Math.min(blocks.end[i], this.detailEnd);
      if (end > blocks.start[i]) sums[blocks.kind[i]].add(blocks.start[i], end, end - blocks.start[i]);
    }
    this.addWindows(
      lane.issues ? [2, 3] : [1, 2], lane.number, (reason) => sums[reason ? 1 + this.reasonIndex(reason) : 0]);
    sums.forEach((s) => s.finish());
    return sums;
  }

  // Events beyond the limit are only in the windows of the whole run.
  addWindows(kinds, number, sumsOf) {
    const {window: w} = this.tables;
    if (this.detailEnd === Infinity) return;
    for (let i = 0; i < w.rows; i++) {
      const start = w.window[i] * this.head.window, end = start + this.head.window;
      const from = Math.max(start, this.detailEnd), share = (end - from) / this.head.window;
      if (share > 0 && kinds.includes(w.kind[i]) && w.name[i] === number)
        sumsOf(w.reason[i])?.add(from, end, (share * w.amount[i]) / 16);
    }
  }

  makePaths() {
    const {transfer} = this.tables;
    const {paths} = this.head.stats;
    this.paths = paths.map((path) => {
      const number = this.numberOf.get(path.name) ?? -1;
      const rows = order(transfer.start, rowsWhere(transfer.rows, (i) => transfer.path[i] === number));
      const blocks = new Blocks(rows.length), sums = new Sums(this.total);
      rows.forEach((row, i) => {
        blocks.start[i] = transfer.start[row];
        blocks.end[i] = transfer.start[row] + Math.max(1, transfer.cycles[row]);
        blocks.insn[i] = transfer.insn[row];
        blocks.row[i] = row;
        const kept = Math.min(blocks.end[i], this.detailEnd) - blocks.start[i];
        if (kept > 0)
          sums.add(
            blocks.start[i], blocks.start[i] + kept, (transfer.bytes[row] * kept) / (blocks.end[i] - blocks.start[i]));
      });
      this.addWindows([0], number, () => sums);
      sums.finish();
      return {
        ...path,
        number,
        color: () => pathColor(0),
        blocks: blocks.finish(),
        sums,
        recorded: rows.length > 0 || this.detailEnd !== Infinity
      };
    });
  }

  // Femtojoules over time, one sum for each end of the interval: low, nominal, high.
  makeEnergy() {
    const names = ["energy_low", "energy", "energy_high"];
    this.energySums = names.map((name, end) => {
      const sums = new Sums(this.total);
      for (const table of [this.tables.work, this.tables.issue])
        for (let i = 0; i < table.rows; i++) {
          const cycles = Math.max(1, table.cycles[i]), kept = Math.min(cycles, this.detailEnd - table.start[i]);
          if (kept > 0 && table[name][i])
            sums.add(table.start[i], table.start[i] + kept, (table[name][i] * kept) / cycles);
        }
      this.addWindows([4], 0, (reason) => (reason === end ? sums : null));
      sums.finish();
      return sums;
    });
  }

  // Of instruction `n` in joules; null if it is unknown.
  energyOf(n) {
    const {work, issue} = this.tables;
    const row = this.workRow[n];
    const table = row >= 0 ? work : issue, at = row >= 0 ? row : issue.insn.indexOf(n + 1);
    if (at < 0 || !table.energy_high[at]) return null;
    return {low: table.energy_low[at] * 1e-15, nominal: table.energy[at] * 1e-15, high: table.energy_high[at] * 1e-15};
  }

  makeSpaces() {
    const {access} = this.tables;
    this.spaces = this.head.spaces
                    .map((space) => {
                      const number = this.numberOf.get(space.name) ?? -1;
                      const rows = rowsWhere(
                        access.rows,
                        (i) => access.space[i] === number && access.insn[i] > 0 && this.start[access.insn[i] - 1] >= 0);
                      return {...space, rows};
                    })
                    .filter((s) => s.rows.length);
  }

  // Intervals of the model's steps, and of layers or labels: consecutive instructions of one layer.
  makeBands() {
    const {token, insn, marker} = this.tables;
    this.steps = Array.from({length: token.rows}, (_, i) => ({
                                                    op: this.text(token.op[i]),
                                                    position: token.position[i],
                                                    tokens: token.tokens[i],
                                                    start: token.start[i],
                                                    end: token.start[i] + token.cycles[i],
                                                  }));
    this.markers =
      Array.from({length: marker.rows}, (_, i) => ({text: this.text(marker.text[i]), start: marker.start[i]}));
    this.layers = [];
    let last = null;
    for (let n = 0; n < this.insns; n++) {
      if (this.start[n] < 0 || !insn.layer[n]) continue;
      if (!last || last.layer !== insn.layer[n]) {
        last = {
          layer: insn.layer[n],
          name: this.text(insn.layer[n]),
          start: this.start[n],
          end: this.end[n],
          first: n,
          last: n
        };
        this.layers.push(last);
      }
      last.start = Math.min(last.start, this.start[n]);
      last.end = Math.max(last.end, this.end[n]);
      last.last = n;
    }
    this.layers.sort((a, b) => a.start - b.start);
    this.hasModel = this.layers.some((l) => /^(layer|blk)\W?\d/.test(l.name)) || this.steps.length > 0;
    this.layerWord = this.hasModel || this.head.target === "cmdq" ? "layer" : "label";
  }

  // Stalls of instruction `n`, longest first.
  stallsOf(n) {
    const {stall} = this.tables;
    const found = [];
    for (let i = 0; i < stall.rows; i++)
      if (stall.insn[i] === n + 1)
        found.push({
          lane: this.text(stall.lane[i]),
          reason: this.text(stall.reason[i]),
          start: stall.start[i],
          cycles: stall.cycles[i],
          waitsFor: stall.waits_for[i] - 1
        });
    return found.sort((a, b) => b.cycles - a.cycles);
  }

  // Instructions that waited for instruction `n`, with their longest stall.
  waitersOf(n, most = 20) {
    const {stall} = this.tables;
    const found = new Map();
    for (let i = 0; i < stall.rows; i++)
      if (stall.waits_for[i] === n + 1 && stall.insn[i] !== n + 1 && stall.insn[i] > 0)
        found.set(stall.insn[i] - 1, Math.max(found.get(stall.insn[i] - 1) || 0, stall.cycles[i]));
    return [...found].sort((a, b) => b[1] - a[1]).slice(0, most);
  }

  index(n) {
    return this.head.first + n;
  }

  line(n) {
    const {insn} = this.tables;
    return this.text(insn.text[n]) || this.text(insn.op[n]) || "(no text)";
  }

  sourceLocation(n) {
    const {insn} = this.tables;
    return insn.file[n] ? this.text(insn.file[n]).replace(/^.*\//, "") + ":" + insn.line[n] : "";
  }

  // Instructions whose op, text, label, source or number match; null for an empty query.
  search(query) {
    query = query.trim().toLowerCase();
    if (!query) return null;
    const {insn} = this.tables;
    const found = new Uint8Array(this.insns);
    const numbered = /^#?(\d+)$/.exec(query);
    const hit = new Uint8Array(this.texts.length);
    for (let i = 1; i < this.texts.length; i++) hit[i] = this.texts[i].toLowerCase().includes(query) ? 1 : 0;
    for (let n = 0; n < this.insns; n++)
      if (
        this.start[n] >= 0 &&
        (hit[insn.op[n]] || hit[insn.text[n]] || hit[insn.layer[n]] || hit[insn.source[n]] || hit[this.lane[n]]))
        found[n] = 1;
    if (numbered) {
      const n = Number(numbered[1]) - this.head.first;
      if (query[0] === "#") found.fill(0);
      if (n >= 0 && n < this.insns) found[n] = 1;
    }
    return found;
  }

  // Sums by op (text), by layer, …: table group folded by `key`.
  fold(key) {
    const {group} = this.tables;
    const sums = new Map();
    for (let i = 0; i < group.rows; i++) {
      const k = key(group, i);
      let s = sums.get(k);
      if (!s)
        sums.set(k, (s = {
                   key: k,
                   count: 0,
                   busy: 0,
                   stalled: 0,
                   bytes: 0,
                   macs: 0,
                   low: 0,
                   nominal: 0,
                   high: 0,
                   lanes: new Map()
                 }));
      for (const name of ["count", "busy", "stalled", "bytes", "macs"]) s[name] += group[name][i];
      s.low += group.energy_low[i] * 1e-15;
      s.nominal += group.energy[i] * 1e-15;
      s.high += group.energy_high[i] * 1e-15;
      const lane = this.text(group.lane[i]);
      s.lanes.set(lane, (s.lanes.get(lane) || 0) + group.busy[i]);
    }
    return [...sums.values()];
  }
}
