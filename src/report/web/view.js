// SPDX-License-Identifier: Apache-2.0
// State shared by all charts over time: visible cycles, selected instruction, search. Listeners draw at most once a
// frame.

export class View {
  constructor(total) {
    this.total = Math.max(1, total);
    this.from = 0;
    this.to = this.total;
    this.selected = -1;
    this.related = new Set();  // instructions drawn beside the selected one
    this.matches = null;       // Uint8Array by instruction, or null
    this.drawers = [];
    this.selectors = [];
    this.pending = false;
    this.frames = 0;
  }

  get span() {
    return this.to - this.from;
  }

  onDraw(f) {
    this.drawers.push(f);
  }

  onSelect(f) {
    this.selectors.push(f);
  }

  redraw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.frames++;
      this.drawers.forEach((f) => f());
    });
  }

  show(from, to) {
    const minSpan = Math.min(this.total, 12);
    let span = Math.min(this.total, Math.max(minSpan, to - from));
    const middle = (from + to) / 2;
    from = Math.max(0, Math.min(this.total - span, middle - span / 2));
    if (from === this.from && from + span === this.to) return;
    this.from = from;
    this.to = from + span;
    this.redraw();
  }

  zoom(factor, at = (this.from + this.to) / 2) {
    const span = Math.min(this.total, Math.max(Math.min(this.total, 12), this.span / factor));
    const share = (at - this.from) / this.span;
    this.show(at - share * span, at + (1 - share) * span);
  }

  pan(cycles) {
    const from = Math.max(0, Math.min(this.total - this.span, this.from + cycles));
    this.show(from, from + this.span);
  }

  fit() {
    this.show(0, this.total);
  }

  // Pans, and zooms out if necessary, until the cycles are visible.
  reveal(start, end) {
    const margin = (end - start) * 0.5 + 4;
    if (end - start > this.span * 0.9)
      this.show(start - margin, end + margin);
    else if (start < this.from || end > this.to) {
      const middle = (start + end) / 2;
      this.show(middle - this.span / 2, middle + this.span / 2);
    }
  }

  select(insn, related = []) {
    this.selected = insn;
    this.related = new Set(related);
    this.selectors.forEach((f) => f(insn));
    this.redraw();
  }
}
