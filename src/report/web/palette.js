// SPDX-License-Identifier: Apache-2.0
// Colors that are distinguishable with any color vision (after Okabe and Ito). A stall reason has the same color on
// every machine, and is always named in text, too. Stalls are mixed with the color of an empty lane, so that the work,
// which mostly is what they wait for, stands out.

const light = {
  work: "#0072b2",
  work2: "#3a8fc4",
  sync: "#969696",
  raw: "#d55e00",
  war: "#b5568f",
  waw: "#b8a500",
  frontend: "#009e73",
  resource: "#e69f00",
  stream: "#9a78d3",
  mma: "#009e73",
  port: "#e69f00",
  dependency: "#d55e00",
  barrier: "#969696",
  group: "#b5568f",
  read: "#0072b2",
  write: "#d55e00",
  prefill: "#009e73",
};
const dark = {
  work: "#56b4e9",
  work2: "#3f93c4",
  sync: "#a0a0a0",
  raw: "#ef7a2a",
  war: "#df8fc0",
  waw: "#f0e442",
  frontend: "#22c08f",
  resource: "#f5b52e",
  stream: "#ab86e0",
  mma: "#22c08f",
  port: "#f5b52e",
  dependency: "#ef7a2a",
  barrier: "#a0a0a0",
  group: "#df8fc0",
  read: "#56b4e9",
  write: "#ef7a2a",
  prefill: "#22c08f",
};
const others = ["#e69f00", "#d55e00", "#cc79a7", "#009e73", "#7a4fb0", "#8b5e3c"];
const pathColors = [
  ["#0072b2", "#56b4e9"], ["#d55e00", "#ef7a2a"], ["#009e73", "#22c08f"], ["#b5568f", "#df8fc0"],
  ["#e69f00", "#f5b52e"], ["#7a4fb0", "#ab86e0"]
];

let forced = null;
try {
  forced = localStorage.getItem("trivet-theme");
} catch {
  // a page from disk may have no storage
}
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = [];
let printing = false;

export const isDark = () => !printing && (forced ? forced === "dark" : system.matches);

const inks = new Map();

function apply() {
  inks.clear();
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  listeners.forEach((f) => f());
}

export function startTheme(button) {
  const show = () => (button.textContent = isDark() ? "Light" : "Dark");
  button.addEventListener("click", () => {
    forced = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("trivet-theme", forced);
    } catch {
      // not kept
    }
    apply();
  });
  system.addEventListener("change", apply);
  addEventListener("beforeprint", () => {
    printing = true;
    apply();
  });
  addEventListener("afterprint", () => {
    printing = false;
    apply();
  });
  listeners.push(show);
  apply();
}

export const onTheme = (f) => listeners.push(f);

const SATURATED = ["work", "work2", "read", "write", "prefill"], STALL_SHARE = 0.45;

// Both are "#rrggbb", as is the result: `share` of the first.
function mix(a, b, share) {
  const part = (hex, i) => parseInt(hex.slice(i, i + 2), 16);
  const bytes = [1, 3, 5].map((i) => Math.round(part(a, i) * share + part(b, i) * (1 - share)));
  return "#" + bytes.map((x) => x.toString(16).padStart(2, "0")).join("");
}

export function color(name, fallback = 0) {
  const full = (isDark() ? dark : light)[name] || others[fallback % others.length];
  return SATURATED.includes(name) ? full : mix(full, ink("track"), STALL_SHARE);
}

export const pathColor = (i) => pathColors[i % pathColors.length][isDark() ? 1 : 0];

// Colours of the page itself, from the style sheet.
export function ink(name) {
  let value = inks.get(name);
  if (value === undefined)
    inks.set(name, (value = getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim()));
  return value;
}
