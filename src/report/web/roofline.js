// SPDX-License-Identifier: Apache-2.0
// The roofline: MACs per byte of host memory traffic against MACs per cycle, both logarithmic; each instruction class
// that multiplies and has traffic of its own is a point, and so is the whole run. The table lists the other classes.

import {el, fill, table} from "./dom.js";
import {percent, short, trim} from "./format.js";
import {pathColor} from "./palette.js";

const NS = "http://www.w3.org/2000/svg";

function svg(tag, attributes, text) {
  const node = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

// A path within the machine is no traffic with host memory.
const inside = (path) => path.name === "l2_to_l2";

function points(model) {
  const {stats} = model.head;
  const bytes = stats.paths.filter((p) => !inside(p)).reduce((sum, p) => sum + p.bytes, 0);
  const run = bytes ? stats.macs / bytes : 0;
  const list =
    model.fold((g, i) => g.op[i]).filter((g) => g.macs > 0 && g.busy > 0).map((g) => ({
                                                                                name: model.text(g.key) || "(other)",
                                                                                x: g.bytes ? g.macs / g.bytes : 0,
                                                                                y: g.macs / g.busy,
                                                                                own: g.bytes > 0,
                                                                                share: g.busy,
                                                                                macs: g.macs,
                                                                              }));
  if (stats.macs && run && stats.cycles)
    list.push({name: "whole run", x: run, y: stats.macs / stats.cycles, own: true, whole: true, macs: stats.macs});
  return list;
}

export function drawRoofline(model, node) {
  const {stats} = model.head;
  const rows = points(model), list = rows.filter((p) => p.own);
  if (!list.length) {
    fill(
      node,
      el(
        "p.quiet", {},
        stats.macs ? "No bytes moved, so there is no roofline."
                   : "No instruction of this run multiplies, so there is no roofline."));
    return;
  }
  const above = (p) => p.y > stats.peak_macs * 1.001;  // on another engine than the peak's
  const paths = stats.paths.filter((p) => p.bytes > 0 && p.peak > 0 && !inside(p));
  const width =
          Math.min(860, Math.max(320, node.clientWidth > 640 ? node.clientWidth * 0.58 : node.clientWidth || 640)),
        height = width < 480 ? 300 : 360, left = 66, bottom = 44, right = 16, top = 16;
  const knee = paths.map((p) => stats.peak_macs / p.peak);
  const xs = [...list.map((p) => p.x), ...knee], ys = [...list.map((p) => p.y), stats.peak_macs];
  const lowX = 10 ** Math.floor(Math.log10(Math.min(...xs)) - 0.3),
        highX = 10 ** Math.ceil(Math.log10(Math.max(...xs)) + 0.3);
  const lowY = 10 ** Math.floor(Math.log10(Math.min(...ys)) - 0.1),
        highY = 10 ** Math.ceil(Math.log10(Math.max(...ys)) + 0.05);
  const X = (v) =>
    left + ((Math.log10(v) - Math.log10(lowX)) / (Math.log10(highX) - Math.log10(lowX))) * (width - left - right);
  const Y = (v) => height - bottom -
    ((Math.log10(v) - Math.log10(lowY)) / (Math.log10(highY) - Math.log10(lowY))) * (height - bottom - top);
  const root = svg("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label":
      "Roofline: " + list.map((p) => `${p.name} ${trim(p.y)} MACs a cycle at ${trim(p.x)} MACs a byte`).join("; ")
  });
  axes(root, {X, Y, lowX, highX, lowY, highY, width, height, left, bottom, right, top});
  roofs(root, {X, Y, lowX, highX, lowY, stats, paths, width, right});
  marks(root, list, X, Y, width, height - bottom);
  fill(
    node, root,
    table(
      [
        {title: "Class", mono: true, value: (p) => p.name},
        {title: "MACs", right: true, value: (p) => short(p.macs)},
        {title: "MACs/byte", right: true, value: (p) => (p.own ? trim(p.x) : "–")},
        {title: "MACs/cycle", right: true, value: (p) => trim(p.y)},
        {title: "of peak", right: true, value: (p) => (above(p) ? "–" : percent(p.y / stats.peak_macs))},
      ],
      rows),
    legend(paths, rows.some(above)));
}

function axes(root, a) {
  for (let e = Math.ceil(Math.log10(a.lowX)); e <= Math.log10(a.highX) + 1e-9; e++) {
    const x = a.X(10 ** e);
    root.append(svg("line", {x1: x, x2: x, y1: a.top, y2: a.height - a.bottom, class: "grid"}));
    root.append(svg("text", {x, y: a.height - a.bottom + 16, "text-anchor": "middle"}, trim(10 ** e)));
  }
  for (let e = Math.ceil(Math.log10(a.lowY)); e <= Math.log10(a.highY) + 1e-9; e++) {
    const y = a.Y(10 ** e);
    root.append(svg("line", {x1: a.left, x2: a.width - a.right, y1: y, y2: y, class: "grid"}));
    root.append(svg("text", {x: a.left - 6, y: y + 4, "text-anchor": "end"}, trim(10 ** e)));
  }
  root.append(
    svg("text", {x: (a.left + a.width) / 2, y: a.height - 8, "text-anchor": "middle"}, "MACs a byte of traffic"));
  root.append(svg(
    "text", {x: 14, y: a.height / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${a.height / 2})`},
    "MACs a cycle"));
}

function roofs(root, {X, Y, lowX, highX, lowY, stats, paths, width, right}) {
  const top = stats.peak_macs;
  const first = Math.min(...paths.map((p) => top / p.peak), highX);
  root.append(
    svg("line", {x1: X(Math.max(lowX, Math.min(first, highX))), x2: X(highX), y1: Y(top), y2: Y(top), class: "roof"}));
  root.append(svg(
    "text", {x: width - right - 4, y: Y(top) - 6, "text-anchor": "end", class: "peak"},
    `peak ${trim(top)} MACs a cycle`));
  paths.forEach((p, i) => {
    // paths of the same peak share a line: dashes of each color in turn
    const same = paths.filter((q) => q.peak === p.peak).length;
    const rank = paths.slice(0, i).filter((q) => q.peak === p.peak).length;
    const x0 = Math.max(lowX, lowY / p.peak), x1 = Math.min(highX, top / p.peak);
    if (x1 > x0)
      root.append(svg("line", {
        x1: X(x0),
        y1: Y(x0 * p.peak),
        x2: X(x1),
        y2: Y(x1 * p.peak),
        class: "roof path",
        style: `stroke:${pathColor(i)}` +
          (same > 1 ? `;stroke-dasharray:9 ${9 * (same - 1)};stroke-dashoffset:${- 9 * rank}` : "")
      }));
  });
}

// Places a label of `text` beside or below (x, y) where it covers no other label or mark; `taken` are [left, top,
// right, bottom]. Rows further away are tried until one is free.
function placeLabel(text, x, y, taken, bounds) {
  const w = text.length * 6.8, h = 14;
  const free = ([l, t, r, b]) => taken.every(([tl, tt, tr, tb]) => r <= tl || l >= tr || b <= tt || t >= tb) &&
    l >= bounds.left && r <= bounds.right && t >= bounds.top;
  for (let row = 0; row < 24; row++)
    for (const side of [11, -11 - w])
      for (const up of [1, -1]) {
        const left = x + side, top = y - h / 2 + up * row * 8, box = [left, top, left + w, top + h];
        if (free(box)) return box;
      }
  return [x + 11, y - h / 2, x + 11 + w, y + h / 2];
}

function marks(root, list, X, Y, width, floor) {
  const places = list.map((p) => [X(p.x), Math.min(floor, Y(p.y))]);
  const taken = places.map(([x, y]) => [x - 7, y - 7, x + 7, y + 7]);
  for (const text of root.querySelectorAll("text.peak")) {
    const right = Number(text.getAttribute("x")), y = Number(text.getAttribute("y"));
    taken.push([right - text.textContent.length * 6.8, y - 11, right, y + 3]);
  }
  for (const [i, p] of list.entries()) {
    const [x, y] = places[i];
    const mark = p.whole
      ? svg(
          "rect", {x: x - 6, y: y - 6, width: 12, height: 12, class: "point whole", transform: `rotate(45 ${x} ${y})`})
      : svg("circle", {cx: x, cy: y, r: 6, class: "point"});
    mark.append(svg("title", {}, `${p.name}: ${trim(p.y)} MACs a cycle, ${trim(p.x)} MACs a byte`));
    const box = placeLabel(p.name, x, y, taken, {left: 66, right: width - 4, top: 2});
    taken.push(box);
    const end = box[0] < x;
    root.append(
      mark,
      svg(
        "text", {x: end ? x - 11 : x + 11, y: box[1] + 11, "text-anchor": end ? "end" : "start", class: "name"},
        p.name));
  }
}

function legend(paths, above) {
  const items = paths.map(
    (p, i) => el(
      "li", {}, el("i", {style: `background:${pathColor(i)}`}),
      `${p.name}: ${trim(p.peak)} bytes a cycle` + (p.limitedBy ? `, limited by ${p.limitedBy}` : "")));
  if (above)
    items.push(el("li", {}, "The peak is that of the engine with most MACs; a class above it runs on another."));
  return el("ul.legend", {}, ...items);
}
