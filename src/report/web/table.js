// SPDX-License-Identifier: Apache-2.0
// The instructions as a table: sorted and filtered as arrays of numbers; only visible rows are elements.

import {el, fill} from "./dom.js";
import {number} from "./format.js";

const HEIGHT = 26, MOST = 1000000;  // browsers end a page's height somewhere above

export class Grid {
  constructor(model, node, {onPick, count, engines}) {
    Object.assign(this, {model, node, onPick, count});
    const {insn, work} = model.tables;
    const of = (name) => (n) => (model.workRow[n] >= 0 ? work[name][model.workRow[n]] : 0);
    const rankOf = (column) => (n) => model.text(column[n]);
    this.columns = [
      {name: "#", width: 76, right: true, key: (n) => n, text: (n) => String(model.index(n))},
      {name: "Instruction", width: 380, mono: true, key: (n) => model.line(n), text: (n) => model.line(n)},
      {name: "Engine", width: 74, key: rankOf(model.lane), text: (n) => model.text(model.lane[n])},
      {name: "Start", width: 92, right: true, key: (n) => model.start[n], text: (n) => number(model.start[n])},
      {
        name: "Cycles",
        width: 80,
        right: true,
        key: (n) => model.end[n] - model.start[n],
        text: (n) => number(model.end[n] - model.start[n])
      },
      {
        name: "Stalled",
        width: 80,
        right: true,
        key: (n) => model.waited[n],
        text: (n) => (model.waited[n] ? number(model.waited[n]) : "")
      },
      {
        name: "Reason",
        width: 112,
        key: (n) => (model.waitReason[n] ? model.stallReasons[model.waitReason[n] - 1] : ""),
        text: (n) => (model.waitReason[n] ? model.stallReasons[model.waitReason[n] - 1] : "")
      },
      {
        name: "Bytes",
        when: work.bytes,
        width: 92,
        right: true,
        key: of("bytes"),
        text: (n) => (of("bytes")(n) ? number(of("bytes")(n)) : "")
      },
      {
        name: "MACs",
        when: work.macs,
        width: 96,
        right: true,
        key: of("macs"),
        text: (n) => (of("macs")(n) ? number(of("macs")(n)) : "")
      },
      {
        name: model.layerWord === "layer" ? "Layer" : "Label",
        when: insn.layer,
        width: 110,
        key: rankOf(insn.layer),
        text: (n) => model.text(insn.layer[n])
      },
      {
        name: "Source",
        when: insn.file,
        width: 150,
        key: (n) => model.text(insn.file[n]) + String(insn.line[n]).padStart(9, "0"),
        text: (n) => model.sourceLocation(n)
      },
    ];
    this.columns = this.columns.filter((c) => !c.when || c.when.some((v) => v > 0));
    this.sort = {column: 0, down: false};
    this.matches = null;
    this.engine = "";
    this.width = this.columns.reduce((sum, c) => sum + c.width, 0);
    this.build(engines);
    this.refresh();
  }

  build(engines) {
    fill(
      engines, el("option", {value: ""}, "all engines"),
      ...this.model.lanes.map((l) => el("option", {value: l.name}, l.name)));
    engines.addEventListener("change", () => {
      this.engine = engines.value;
      this.refresh();
    });
    this.heads = this.columns.map(
      (c, i) => el(
        "button" + (c.right ? ".right" : "") + (c.mono ? ".mono-head" : ""),
        {type: "button", role: "columnheader", style: `flex-basis:${c.width}px`, onclick: () => this.sortBy(i)},
        c.name));
    this.head = el("div.grid-head", {role: "row", style: `min-width:${this.width}px`}, ...this.heads);
    this.body = el("div.grid-body", {style: `min-width:${this.width}px`});
    this.scroller =
      el("div.grid-scroll", {tabindex: 0, role: "grid", "aria-label": "Instructions"}, this.head, this.body);
    this.scroller.addEventListener("scroll", () => this.render(), {passive: true});
    this.scroller.addEventListener("keydown", (e) => this.key(e));
    new ResizeObserver(() => this.render()).observe(this.scroller);
    fill(this.node, this.scroller);
  }

  sortBy(i) {
    this.columns = this.columns.filter((c) => !c.when || c.when.some((v) => v > 0));
    this.sort = {
      column: i,
      down: this.sort.column === i ? !this.sort.down
                                   : ["Cycles", "Stalled", "Bytes", "MACs"].includes(this.columns[i].name)
    };
    this.refresh();
  }

  filter(matches) {
    this.matches = matches;
    this.refresh();
  }

  refresh() {
    const {model} = this;
    const rows = new Uint32Array(model.insns);
    let count = 0;
    for (let n = 0; n < model.insns; n++) {
      if (
        model.start[n] < 0 || (this.matches && !this.matches[n]) ||
        (this.engine && model.text(model.lane[n]) !== this.engine))
        continue;
      rows[count++] = n;
    }
    this.rows = rows.slice(0, count);
    this.order();
    this.shownCount = Math.min(count, MOST);
    this.count.textContent =
      `${number(count)} of ${number(model.timed)}` + (count > MOST ? `, the first ${number(MOST)} shown` : "");
    this.body.style.height = this.shownCount * HEIGHT + "px";
    this.scroller.setAttribute("aria-rowcount", String(count + 1));
    this.heads.forEach((h, i) => {
      h.setAttribute("aria-sort", i === this.sort.column ? (this.sort.down ? "descending" : "ascending") : "none");
      h.dataset.arrow = i === this.sort.column ? (this.sort.down ? "▾" : "▴") : "";
    });
    this.range = null;
    this.render();
  }

  order() {
    const {column, down} = this.sort;
    if (column !== 0) {
      const keys = new Array(this.model.insns), {key} = this.columns[column];
      for (const n of this.rows) keys[n] = key(n);
      const compare = this.rows.length && typeof keys[this.rows[0]] === "string" ? (a, b) =>
                                                                                     (keys[a] < keys[b]     ? -1
                                                                                        : keys[a] > keys[b] ? 1
                                                                                                            : a - b)
                                                                                 : (a, b) => keys[a] - keys[b] || a - b;
      this.rows.sort(down ? (a, b) => compare(b, a) : compare);
    } else if (down) {
      this.rows.reverse();
    }
  }

  render() {
    const top = this.scroller.scrollTop, height = this.scroller.clientHeight || 400;
    const first = Math.max(0, Math.floor(top / HEIGHT) - 6),
          last = Math.min(this.shownCount, Math.ceil((top + height) / HEIGHT) + 6);
    const key = first + ":" + last + ":" + this.selected;
    if (key === this.range) return;
    this.range = key;
    const list = [];
    for (let i = first; i < last; i++) list.push(this.rowNode(i));
    fill(this.body, ...list);
  }

  rowNode(i) {
    const n = this.rows[i];
    const cells = this.columns.map(
      (c) => el(
        "span" + (c.right ? ".right" : "") + (c.mono ? ".mono" : ""),
        {role: "gridcell", style: `flex-basis:${c.width}px`, title: c.mono ? c.text(n) : undefined}, c.text(n)));
    return el(
      "div.grid-row" + (n === this.selected ? ".selected" : ""), {
        role: "row",
        "aria-rowindex": i + 2,
        "aria-selected": String(n === this.selected),
        style: `top:${i * HEIGHT}px`,
        onclick: () => this.onPick(n)
      },
      ...cells);
  }

  select(n) {
    this.selected = n;
    this.render();
  }

  key(e) {
    const move = {ArrowDown: 1, ArrowUp: -1}[e.key];
    if (!move || e.target !== this.scroller || !this.rows.length) return;
    e.preventDefault();
    const at = this.rows.indexOf(this.selected);
    const next = Math.max(0, Math.min(this.shownCount - 1, at < 0 ? 0 : at + move));
    const y = next * HEIGHT;
    if (y < this.scroller.scrollTop)
      this.scroller.scrollTop = y;
    else if (y + 2 * HEIGHT > this.scroller.scrollTop + this.scroller.clientHeight)
      this.scroller.scrollTop = y + 2 * HEIGHT - this.scroller.clientHeight;
    this.onPick(this.rows[next], true);
  }
}
