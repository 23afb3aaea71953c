// SPDX-License-Identifier: Apache-2.0
// The points of a sweep: fronts, filters, sensitivities. Nothing here draws.

import {inflate} from "../../report/web/data.js";

export async function readSweep(base64) {
  return new Sweep(JSON.parse(new TextDecoder().decode(await inflate(base64))));
}

// Indices of the points that no other one dominates; rows are arrays of costs, the smaller the better.
export function findFront(rows, candidates) {
  const order = [...candidates].sort((a, b) => {
    for (let m = 0; m < rows[a].length; m++)
      if (rows[a][m] !== rows[b][m]) return rows[a][m] - rows[b][m];
    return a - b;
  });
  const front = [];
  for (const i of order) {
    const dominated = front.some((k) => {
      let smaller = false;
      for (let m = 0; m < rows[i].length; m++) {
        if (rows[k][m] > rows[i][m]) return false;
        smaller ||= rows[k][m] < rows[i][m];
      }
      return smaller;
    });
    if (!dominated) front.push(i);
  }
  return front;
}

const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length;

export class Sweep {
  constructor(data) {
    Object.assign(this, data);
    this.count = this.points.length;
    this.evaluated = [];
    for (let i = 0; i < this.count; i++)
      if (this.points[i].objectives) this.evaluated.push(i);
    this.costs =
      this.points.map((p) => p.objectives && p.objectives.map((v, m) => (this.objectives[m].goal === "max" ? -v : v)));
    this.front = findFront(this.costs, this.evaluated);
    this.onFront = new Set(this.front);
    this.ranges = new Map();  // axis → [first, last], both in
    this.axes = [
      ...this.parameters.map((p, k) => ({
                               name: p.name,
                               values: p.values,
                               of: (i) => this.points[i].values[k],
                             })),
      ...this.objectives.map((o, m) => ({
                               name: o.name,
                               unit: o.unit,
                               goal: o.goal,
                               of: (i) => this.points[i].objectives[m],
                             }))
    ];
  }

  value(parameter, i) {
    return this.parameters[parameter].values[this.points[i].values[parameter]];
  }

  // Evaluated points whose values are in the range of every axis.
  selected() {
    const ranges = [...this.ranges];
    return this.evaluated.filter(
      (i) => ranges.every(([axis, [low, high]]) => this.axes[axis].of(i) >= low && this.axes[axis].of(i) <= high));
  }

  // The front of two objectives alone.
  frontOf(x, y, candidates) {
    return findFront(this.costs.map((c) => c && [c[x], c[y]]), candidates);
  }

  // How much of the variance of an objective's logarithm the mean of each value of a parameter explains (first-order
  // effect): {share, means: [mean objective or null for each value]}.
  sensitivity(parameter, objective, candidates) {
    const positive = candidates.every((i) => this.points[i].objectives[objective] > 0);
    const scale = (i) => {
      const v = this.points[i].objectives[objective];
      return positive ? Math.log(v) : v;
    };
    const {values} = this.parameters[parameter], groups = values.map(() => []);
    // Points of machines without the parameter say nothing about it.
    for (const i of candidates.filter((i) => values[this.points[i].values[parameter]] !== "-"))
      groups[this.points[i].values[parameter]].push(scale(i));
    const all = groups.flat();
    if (!all.length) return {share: 0, means: groups.map(() => null)};
    const center = mean(all), total = mean(all.map((v) => (v - center) ** 2));
    const used = groups.filter((g) => g.length);
    const between = used.reduce((sum, g) => sum + g.length * (mean(g) - center) ** 2, 0) / all.length;
    return {
      share: total > 1e-18 ? Math.min(1, between / total) : 0,
      means: groups.map((g) => (g.length ? (positive ? Math.exp(mean(g)) : mean(g)) : null))
    };
  }
}
