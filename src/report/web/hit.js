// SPDX-License-Identifier: Apache-2.0
// Mouse, touch and keys of a chart over time: wheel and pinch zoom, drags pan, a short press is a click.

import {gutter} from "./canvas.js";

export function timeAt(view, canvas, clientX) {
  const box = canvas.getBoundingClientRect();
  const left = gutter();
  return view.from + ((clientX - box.left - left) / Math.max(1, box.width - left)) * view.span;
}

export function control(view, canvas, handlers) {
  const pointers = new Map();
  let moved = 0;
  const cyclesPerPixel = () => view.span / Math.max(1, canvas.clientWidth - gutter());

  canvas.addEventListener("wheel", (e) => {
    e.preventDefault();
    const lines = e.deltaMode === 1 ? 30 : 1;
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY))
      view.pan((e.deltaX || e.deltaY) * lines * cyclesPerPixel());
    else
      view.zoom(Math.exp(-e.deltaY * lines * 0.002), timeAt(view, canvas, e.clientX));
  }, {passive: false});

  canvas.addEventListener("pointerdown", (e) => {
    if (e.button) return;
    canvas.setPointerCapture(e.pointerId);
    pointers.set(e.pointerId, e.clientX);
    if (pointers.size === 1) moved = 0;
  });

  canvas.addEventListener("pointermove", (e) => {
    const before = pointers.get(e.pointerId);
    if (before === undefined) {
      handlers.hover?.(e);
      return;
    }
    if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== e.pointerId)[1];
      const old = Math.abs(before - other), now = Math.abs(e.clientX - other);
      if (old > 4 && now > 4) view.zoom(now / old, timeAt(view, canvas, (e.clientX + other) / 2));
      moved = 100;
    } else {
      moved += Math.abs(e.clientX - before);
      if (moved > 3) {
        view.pan((before - e.clientX) * cyclesPerPixel());
        handlers.leave?.();
      }
    }
    pointers.set(e.pointerId, e.clientX);
  });

  const end = (e) => {
    const had = pointers.delete(e.pointerId);
    if (had && e.type === "pointerup" && moved <= 3 && pointers.size === 0) handlers.click?.(e);
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("pointerleave", () => handlers.leave?.());
  canvas.addEventListener("dblclick", (e) => view.zoom(4, timeAt(view, canvas, e.clientX)));
}

const keys = {
  "+": (v) => v.zoom(1.6),
  "=": (v) => v.zoom(1.6),
  "-": (v) => v.zoom(1 / 1.6),
  ArrowLeft: (v) => v.pan(-v.span * 0.15),
  ArrowRight: (v) => v.pan(v.span * 0.15),
  PageUp: (v) => v.pan(-v.span * 0.9),
  PageDown: (v) => v.pan(v.span * 0.9),
  Home: (v) => v.show(0, v.span),
  End: (v) => v.show(v.total - v.span, v.total),
  0: (v) => v.fit(),
};

export function controlKeys(view, canvas, more = {}) {
  canvas.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const action = more[e.key] || keys[e.key];
    if (!action) return;
    e.preventDefault();
    action(view);
  });
}
