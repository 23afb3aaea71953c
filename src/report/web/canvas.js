// SPDX-License-Identifier: Apache-2.0
// Canvases in device pixels, and the axis of cycles that the charts share.

export const gutter = () => (innerWidth < 640 ? 58 : 92);

// Calls draw(context, width, height) with CSS pixels; height() may depend on the data.
export class Chart {
  constructor(canvas, height, draw) {
    this.canvas = canvas;
    this.height = height;
    this.drawing = draw;
    this.context = canvas.getContext("2d");
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
  }

  draw() {
    const width = Math.floor(this.canvas.parentElement.clientWidth);
    const height = this.height();
    const ratio = devicePixelRatio || 1;
    if (width <= 0) return;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = width + "px";
      this.canvas.style.height = height + "px";
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, width, height);
    this.drawing(this.context, width, height);
  }
}

// Steps of 1, 2 or 5 times a power of ten, about `pixels` apart.
export function ticks(from, to, width, pixels = 90) {
  const rough = Math.max(1e-9, ((to - from) / width) * pixels);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const list = [];
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) list.push(t);
  return {step, list};
}

export function cyclesLabel(t, step) {
  const [scale, unit] = step >= 1e6 ? [1e6, " M"] : step >= 1000 ? [1000, " k"] : [1, ""];
  return scale > 1 && t ? (t / scale).toLocaleString("en-US") + unit
                        : t.toLocaleString("en-US", {maximumFractionDigits: step < 1 ? 1 : 0});
}

// `text` cut so that it fits into `width`; letters are of about the same width.
export function clip(text, width, letter = 6.2) {
  const most = Math.floor(width / letter);
  return text.length <= most ? text : most < 3 ? "" : text.slice(0, most - 1) + "…";
}
