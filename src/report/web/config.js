// SPDX-License-Identifier: Apache-2.0
// The machine's parameters: value, unit, where each comes from.

import {table} from "./dom.js";

export function showConfig(model, node) {
  const rows = model.head.config;
  const set = (row) => row[3] !== "default";
  const t = table(
    [
      {title: "Parameter", mono: true, value: (r) => r[0]},
      {title: "Value", right: true, mono: true, value: (r) => r[1]},
      {title: "Unit", value: (r) => r[2]},
      {title: "From", value: (r) => r[3]},
      {title: "Meaning", value: (r) => r[4]},
    ],
    rows);
  t.querySelectorAll("tbody tr").forEach((tr, i) => tr.classList.toggle("set", set(rows[i])));
  node.replaceChildren(t);
}
