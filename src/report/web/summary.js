// SPDX-License-Identifier: Apache-2.0
// The head of the report: program, duration, bottleneck, the time of each engine, and where to look first.

import {byId, el, fill, table} from "./dom.js";
import {amount, cycles as cyclesText, number, percent, time, trim} from "./format.js";
import {color, ink} from "./palette.js";

function tile(label, value, note) {
  return el("div.tile", {}, el("div.label", {}, label), el("div.value", {}, value), el("div.note", {}, note || ""));
}

export function showSummary(model, go) {
  const {head} = model;
  const {stats} = head;
  byId("machine").textContent =
    `${head.target_title || head.target} · Trivet ${head.version} · ${trim(stats.clock_hz / 1e6)} MHz`;
  byId("title").textContent = head.title;
  byId("bottleneck").textContent =
    stats.bottleneck ? stats.bottleneck[0].toUpperCase() + stats.bottleneck.slice(1) + "." : "Nothing was timed.";
  const bytes = stats.paths.reduce((sum, p) => sum + p.bytes, 0);
  const rate = stats.cycles ? stats.macs / stats.cycles : 0;
  fill(
    byId("tiles"), tile("Cycles", number(stats.cycles), ""),
    tile("Time", time(stats.seconds), `at ${trim(stats.clock_hz / 1e6)} MHz`),
    tile(
      "Instructions", number(stats.instructions),
      stats.instructions ? trim(stats.cycles / stats.instructions) + " cycles each" : ""),
    tile(
      "MACs a cycle", trim(rate),
      stats.peak_macs ? `${percent(rate / stats.peak_macs)} of ${trim(stats.peak_macs)}` : ""),
    tile("Bytes moved", amount(bytes), stats.cycles ? trim(bytes / stats.cycles) + " bytes a cycle" : ""),
    ...(
      model.steps.length
        ? [tile("Tokens", number(model.steps.reduce((s, t) => s + t.tokens, 0)), model.steps.length + " steps")]
        : []));
  fill(byId("notes"), ...notes(model));
  fill(byId("hints"), ...hints(model, go));
}

function notes(model) {
  const {head} = model;
  const list = [];
  if (head.fault)
    list.push(el(
      "p.note.bad", {},
      `The machine faulted at instruction ${head.fault.index}: ${head.fault.message} [${head.fault.code}]`));
  for (const f of head.findings) {
    const where = [f.source, f.index === undefined ? "" : `instruction ${f.index}`].filter(Boolean).join(", ");
    list.push(el("p.note", {}, `${where ? where + ": " : ""}${f.message} [${f.code}]`));
  }
  if (head.finding_count > head.findings.length)
    list.push(el("p.note", {}, `And ${number(head.finding_count - head.findings.length)} more warnings.`));
  const lost = head.tables.filter((t) => t.total > t.rows);
  if (lost.length) {
    const what = lost.map((t) => `${number(t.rows)} of ${number(t.total)} ${t.name} events`).join(", ");
    const until = head.detail_end === null ? "" : ` from cycle ${number(head.detail_end)} on`;
    list.push(el(
      "p.note", {},
      `This run has more events than a report keeps one by one: ${
        what}. Totals cover the whole run; single instructions are missing${until}.`));
  }
  if (head.texts_missing) list.push(el("p.note", {}, "The text of some instructions is omitted."));
  return list;
}

// A bar for each engine: work, each stall reason, idle.
export function showEngines(model) {
  const {stats} = model.head;
  const total = Math.max(1, stats.cycles);
  const rows = stats.engines.map((engine) => {
    const parts = engine.busy ? [["work", engine.busy, color("work")]] : [];
    stats.stall_reasons.forEach(
      (reason, i) => engine.stalled[reason] && parts.push([reason, engine.stalled[reason], color(reason, i + 1)]));
    const bar = el("div.bar", {
      role: "img",
      "aria-label": engine.name + ": " + parts.map(([name, c]) => `${name} ${percent(c / total)}`).join(", ")
    });
    for (const [name, cycles, fillColor] of parts) {
      const share = cycles / total;
      const part = el("span" + (name === "work" ? "" : ".stalled"), {
        style: `width:${share * 100}%;background-color:${fillColor}`,
        title: `${name}: ${number(cycles)} cycles, ${percent(share)}`
      });
      if (share > 0.13) part.textContent = share > 0.16 ? `${percent(share)} ${name}` : percent(share);
      bar.append(part);
    }
    const stalled = parts.filter(([name]) => name !== "work")
                      .map(([name, cycles]) => `${name} ${percent(cycles / total)}`)
                      .join(", ");
    return el(
      "div.engine", {}, el("div.name", {}, engine.name), bar,
      el(
        "div.figures", {}, el("b", {}, percent(engine.busy / total)),
        stalled ? ` busy · stalled: ${stalled}` : " busy"));
  });
  fill(byId("engines"), ...rows);
  const used = stats.stall_reasons.filter((c) => stats.engines.some((e) => e.stalled[c]));
  fill(
    byId("legend"), el("li", {}, el("i", {style: `background:${color("work")}`}), "work"),
    ...used.map(
      (c) => el(
        "li", {}, el("i.stalled", {style: `background-color:${color(c, stats.stall_reasons.indexOf(c) + 1)}`}),
        "stalled: " + c)),
    el("li", {}, el("i", {style: `background:${ink("track")};outline:1px solid ${ink("grid")}`}), "idle"));
}

// Bytes and cycles by the role of tensors, if the program states several.
function roleTable({roles}) {
  const rows = Object.entries(roles || {}).map(([name, r]) => ({name, ...r}));
  if (rows.length < 2) return [];
  return [
    el("h3", {}, "Tensor roles"),
    table(
      [
        {title: "Role", value: (r) => r.name},
        {title: "Bytes", right: true, value: (r) => amount(r.bytes)},
        {title: "Engine cycles", right: true, value: (r) => trim(r.active_cycles)},
        {title: "Stalled", right: true, value: (r) => trim(r.stalled_cycles)},
      ],
      rows)
  ];
}

// The traffic of each path against its peak.
export function showPaths(model) {
  const {stats} = model.head;
  const paths = stats.paths.filter((p) => p.bytes > 0 && p.peak > 0);
  if (!paths.length || !stats.cycles) return;
  const rows = model.paths.filter((p) => p.bytes > 0 && p.peak > 0).map((p) => {
    const rate = p.bytes / stats.cycles, share = rate / p.peak, fillColor = p.color();
    const bar = el(
      "div.bar", {role: "img", "aria-label": `${p.name}: ${percent(share)} of its peak`},
      el("span", {style: `width:${Math.min(100, share * 100)}%;background-color:${fillColor}`}));
    return el(
      "div.engine", {}, el("div.name", {}, p.name), bar,
      el(
        "div.figures", {}, el("b", {}, percent(share)),
        ` of peak · ${amount(p.bytes)}, ${trim(rate)} of ${trim(p.peak)} bytes a cycle`));
  });
  fill(byId("paths"), el("h3", {}, "Traffic"), ...rows, ...roleTable(stats));
}

function laneNames(op) {
  const names = [...op.lanes.keys()];
  return names.length > 3 ? `${names.length} engines` : names.join(" and ");
}

const FLOOR = 0.05;  // of the run; less is not worth a look

// The classes with the most work, the largest stalls and the longest one, each as [link text, action, rest, note].
function hintGroups(model, go) {
  const {stats} = model.head;
  const total = Math.max(1, stats.cycles), work = [], stalled = [], longest = [];
  const ops = model.fold((g, i) => g.op[i]).filter((g) => g.busy > 0 && g.count > 0).sort((a, b) => b.busy - a.busy);
  for (const op of ops.slice(0, 3)) {
    const name = model.text(op.key) || "(other)", part = op.busy / total / op.lanes.size;
    if (part < FLOOR) continue;
    work.push([
      name, () => go.search(name), ` occupies ${laneNames(op)} for ${percent(part)} of the run`,
      op.count === 1
        ? `once, ${cyclesText(op.busy)}`
        : `${number(op.count)} times, ${trim(op.busy / op.count)} ${op.busy === op.count ? "cycle" : "cycles"} each`
    ]);
  }
  const stalls =
    stats.engines
      .flatMap((e) => Object.entries(e.stalled).map(([reason, cycles]) => ({engine: e.name, reason, cycles})))
      .sort((a, b) => b.cycles - a.cycles);
  for (const h of stalls.slice(0, 2))
    if (h.cycles / total >= FLOOR)
      stalled.push([
        "", null, `${h.engine} is stalled (${h.reason}) for ${percent(h.cycles / total)} of the run`, meaning(h.reason)
      ]);
  let worst = -1;
  for (let n = 0; n < model.insns; n++)
    if (worst < 0 || model.waited[n] > model.waited[worst]) worst = n;
  if (worst >= 0 && model.waited[worst] / total >= FLOOR)
    longest.push([
      model.line(worst), () => go.select(worst),
      ` waits ${cyclesText(model.waited[worst])}, ${percent(model.waited[worst] / total)} of the run`,
      `#${model.index(worst)}, stalled (${model.stallReasons[model.waitReason[worst] - 1]})`
    ]);
  return [["Most work", work], ["Most stalls", stalled], ["Longest stall", longest]].filter(([, list]) => list.length);
}

function hints(model, go) {
  const groups = hintGroups(model, go);
  if (!groups.length)
    return [el(
      "p.quiet", {}, `Nothing stands out: no class of instructions and no stall takes ${percent(FLOOR)} of the run.`)];
  return groups.map(
    ([title, list]) => el(
      "section.hints", {"aria-label": title}, el("h4", {}, title),
      ...list.map(
        ([text, action, rest, note]) => el(
          "div.hint", {}, action ? el("button.link", {type: "button", onclick: action}, text) : null, rest,
          el("div.note", {}, note)))));
}

export function meaning(reason) {
  return {
    sync: "a synchronous instruction waits until the one before has ended",
    raw: "it reads what an earlier instruction has not written yet",
    war: "it writes what an earlier instruction still reads",
    waw: "it writes what an earlier instruction still writes",
    frontend: "the issue slot or the scheduler is not free",
    resource: "the engine still works on an earlier instruction",
    stream: "weights come later than they are used up",
    mma: "the matrix array has not delivered its sums yet",
    port: "the memory port still moves an earlier transfer",
    dependency: "an entry that it names as a dependency has not ended",
    barrier: "a barrier has not been passed",
    group: "a group of entries has not ended",
  }[reason] ||
    "";
}
