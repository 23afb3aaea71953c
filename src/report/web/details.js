// SPDX-License-Identifier: Apache-2.0
// The selected instruction: times, amounts, accesses, and links to instructions that it waited for and that waited for
// it.

import {el, fill} from "./dom.js";
import {amount, cycles as cyclesText, energy as energyText, hex, number, trim} from "./format.js";
import {color} from "./palette.js";
import {meaning} from "./summary.js";

export function showDetails(model, node, n, go) {
  if (n < 0) {
    fill(
      node,
      el(
        "p.quiet", {},
        "Select an instruction in the timeline or the table to see what it did, what it waited for and which " +
          "instructions waited for it."),
      ...longest(model, go));
    return;
  }
  const {insn, work} = model.tables;
  const row = model.workRow[n], cycles = model.end[n] - model.start[n];
  const facts = [];
  const fact = (name, value) =>
    value !== "" && value !== undefined && facts.push(el("dt", {}, name), el("dd", {}, value));
  fact("Class", model.text(insn.op[n]));
  fact("Engine", model.text(model.lane[n]));
  fact("Cycles", `${number(cycles)}, from ${number(model.start[n])} to ${number(model.end[n])}`);
  if (row >= 0 && work.macs[row])
    fact("MACs", `${number(work.macs[row])}, ${trim(work.macs[row] / Math.max(1, cycles))} a cycle`);
  if (row >= 0 && work.bytes[row])
    fact("Bytes", `${number(work.bytes[row])}, ${trim(work.bytes[row] / Math.max(1, cycles))} a cycle`);
  const energy = model.energyOf(n);
  if (energy) fact("Energy", energyText(energy));
  fact(model.layerWord === "layer" ? "Layer" : "Label", model.text(insn.layer[n]));
  fact("Source", model.sourceLocation(n));
  fill(
    node,
    el(
      "div.head", {}, el("span.index", {}, "#" + model.index(n)),
      el("button", {type: "button", "aria-label": "Close the details", onclick: () => go.select(-1)}, "×")),
    el("code.line", {}, model.line(n)), insn.source[n] ? el("code.source", {}, model.text(insn.source[n])) : null,
    el("dl", {}, ...facts), waits(model, n, go), waiters(model, n, go), accesses(model, n),
    el(
      "div.buttons", {}, el("button", {type: "button", onclick: () => go.zoomTo(n)}, "Zoom to it"),
      el("button", {type: "button", onclick: () => go.step(-1)}, "‹ before"),
      el("button", {type: "button", onclick: () => go.step(1)}, "after ›")));
}

// Shown when nothing is selected. Stalls that repeat in loops, layers and steps are one line, the longest of them.
function longest(model, go) {
  const {insn} = model.tables;
  const places = new Map(), kinds = [];
  for (let n = 0; n < model.insns; n++) {
    if (!model.waited[n]) continue;
    const place = insn.file[n] * 2 ** 32 + insn.line[n], key = insn.op[n] * 256 + model.waitReason[n];
    if (!places.has(place)) places.set(place, new Map());
    const here = places.get(place), kind = here.get(key);
    if (!kind) {
      here.set(key, {n, count: 1});
      kinds.push(here.get(key));
    } else {
      kind.count++;
      if (model.waited[n] > model.waited[kind.n]) kind.n = n;
    }
  }
  const top = kinds.sort((a, b) => model.waited[b.n] - model.waited[a.n]).slice(0, 8);
  if (!top.length) return [];
  return [
    el("h4", {}, "Longest stalls"), el("ul.waits", {}, ...top.map(({n, count}) => {
      const reason = model.stallReasons[model.waitReason[n] - 1];
      return el(
        "li", {}, el("i.stalled", {style: `background-color:${color(reason, model.waitReason[n])}`}),
        el(
          "span", {}, `${cyclesText(model.waited[n])}, ${reason}: `, link(model, n, go),
          count > 1 ? el("div.quiet", {}, `the longest of ${number(count)} like it`) : null));
    }))
  ];
}

function link(model, n, go) {
  const line = model.line(n), shown = line.length > 72 ? line.slice(0, 70) + "…" : line;
  return el(
    "a", {
      href: "#timeline",
      title: line,
      role: "button",
      onclick: (e) => {
        e.preventDefault();
        go.select(n);
      }
    },
    `#${model.index(n)} ${shown}`);
}

function waits(model, n, go) {
  const list = model.stallsOf(n);
  if (!list.length) return el("p.quiet", {}, "It did not wait.");
  const items = list.slice(0, 12).map(
    (s) => el(
      "li", {title: meaning(s.reason)},
      el("i.stalled", {style: `background-color:${color(s.reason, model.stallReasons.indexOf(s.reason) + 1)}`}),
      el(
        "span", {}, `${s.lane} stalled for ${cyclesText(s.cycles)} (${s.reason})`,
        s.waitsFor >= 0 && s.waitsFor < model.insns ? el("div", {}, "for ", link(model, s.waitsFor, go)) : null)));
  return el("div", {}, el("h4", {}, "Waited for"), el("ul.waits", {}, ...items));
}

function waiters(model, n, go) {
  const list = model.waitersOf(n, 8);
  if (!list.length) return null;
  return el(
    "div", {}, el("h4", {}, "Stalled by this"),
    el(
      "ul.waits", {},
      ...list.map(
        ([other, cycles]) => el("li", {}, el("span", {}, link(model, other, go), ` for ${cyclesText(cycles)}`)))));
}

function accesses(model, n) {
  const {access} = model.tables;
  const items = [];
  for (const space of model.spaces)
    for (const r of space.rows)
      if (access.insn[r] === n + 1 && items.length < 12) {
        const at = space.bank ? Math.floor(access.addr[r] / space.bank) + ":" + hex(access.addr[r] % space.bank)
                              : hex(access.addr[r]);
        items.push(el(
          "li", {}, el("i", {style: `background:${color(access.write[r] ? "write" : "read")}`}),
          el("span", {}, `${access.write[r] ? "writes" : "reads"} ${space.name} ${at}, ${amount(access.bytes[r])}`)));
      }
  return items.length ? el("div", {}, el("h4", {}, "Memory"), el("ul.waits", {}, ...items)) : null;
}
