// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.

export const number = (n) => Math.round(n).toLocaleString("en-US");

function scaled(n, units, base) {
  let u = 0;
  while (Math.abs(n) >= base && u < units.length - 1) {
    n /= base;
    u++;
  }
  return (u ? n.toFixed(
                n < 10      ? 2
                  : n < 100 ? 1
                            : 0)
            : trim(n)) +
    "\u00a0" + units[u];  // not parted at the end of a line
}

export const short = (n) => scaled(n, ["", "k", "M", "G", "T", "P"], 1000).trim();

export const amount = (bytes) => scaled(bytes, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);

export const cycles = (n) => number(n) + (n === 1 ? " cycle" : " cycles");

export function trim(n) {
  return Number.isInteger(n) ? number(n) : n >= 100 ? number(n) : n >= 10 ? n.toFixed(1) : n.toFixed(2);
}

export function time(seconds) {
  if (seconds <= 0) return "0 s";
  const units = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
  const [scale, unit] = units.find(([s]) => seconds >= s) || units[3];
  return Number((seconds / scale).toPrecision(4)) + " " + unit;
}

export function percent(share) {
  const p = share * 100;
  return (p === 0     ? "0"
            : p < 0.1 ? "<0.1"
            : p < 10  ? p.toFixed(1)
                      : p.toFixed(0)) +
    "\u00a0%";  // never apart at the end of a line
}

function prefixed(values, unit) {
  const units = [[1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"], [1e-15, "f"]];
  const [scale, prefix] = units.find(([s]) => values[0] >= s) || units[5];
  return [...values.map((v) => Number((v / scale).toPrecision(4))), prefix + unit];
}

// "12.3 (6.1 to 24.6) nJ"
export function energy({nominal, low, high}) {
  const [a, b, c, unit] = prefixed([nominal, low, high], "J");
  return `${a} (${b} to ${c})\u00a0${unit}`;
}

export function power(watts) {
  const [value, unit] = prefixed([watts], "W");
  return `${value}\u00a0${unit}`;
}

export const hex = (n) => "0x" + n.toString(16);
