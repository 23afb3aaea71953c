// SPDX-License-Identifier: Apache-2.0
// The energy of the run, by engine and by action; every figure has its interval.

import {byId, el, fill, table} from "./dom.js";
import {energy as energyText, number, percent} from "./format.js";

export function showEnergy(model) {
  const {energy} = model.head;
  const total = energy.total.nominal;
  byId("energy").hidden = !(energy.total.high > 0);
  if (byId("energy").hidden) return;
  document.querySelector('nav a[href="#energy"]').hidden = false;
  const of = (e) => (total > 0 ? percent(e.nominal / total) : "");
  const engines = [...Object.entries(energy.engines), ["static", energy.static]].filter(([, e]) => e.high > 0);
  const actions = Object.entries(energy.actions).filter(([, a]) => a.energy.high > 0);
  const chip = `${energy.fabric === "fpga" ? "an FPGA" : "an ASIC"} at ${energy.process_nm} nm with ${energy.memory}`;
  fill(
    byId("energy-tables"), el("p", {}, `${energyText(energy.total)}, as ${chip}`),
    table(
      [
        {title: "Engine", mono: true, value: ([name]) => name},
        {title: "Share", right: true, value: ([, e]) => of(e)},
        {title: "Energy (interval)", right: true, value: ([, e]) => energyText(e)},
      ],
      engines),
    table(
      [
        {title: "Action", mono: true, value: ([name]) => name},
        {title: "Count", right: true, value: ([, a]) => number(a.count)},
        {title: "Unit", value: ([, a]) => a.unit},
        {title: "Share", right: true, value: ([, a]) => of(a.energy)},
        {title: "Energy (interval)", right: true, value: ([, a]) => energyText(a.energy)},
      ],
      actions));
}
