# SPDX-License-Identifier: Apache-2.0
"""Draws losses.csv of the trainer as an SVG: plot.py LOSSES.csv OUT.svg

Loss per token over tokens processed: of the training text (with dropout, so slightly high) and of the held-out text.
The right-hand scale is the held-out loss in bits per character."""
import csv
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 64, 64, 40, 52
LINES = [("train_loss", "training", "#8a8f98"), ("held_out_loss", "held out", "#0b62c4")]


def ticks(low, high, step):
    value = -(-low // step) * step + 0.0
    while value <= high + 1e-9:
        yield value
        value += step


def text(x, y, label, anchor="middle", more=""):
    return '<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>' % (x, y, anchor, more, label)


def draw(rows):
    tokens = [float(r["tokens"]) / 1e6 for r in rows]
    losses = {name: [float(r[name]) for r in rows] for name, _, _ in LINES}
    low = min(min(v) for v in losses.values()) // 0.5 * 0.5
    high = min(max(max(v) for v in losses.values()), low + 3.0)
    ratio = float(rows[-1]["held_out_bits_per_character"]) / float(rows[-1]["held_out_loss"])

    def x(value):
        return LEFT + (WIDTH - LEFT - RIGHT) * value / tokens[-1]

    def y(value):
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - min(value, high)) / (high - low)

    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" '
           'font-family="sans-serif" font-size="12" fill="#333">' % (WIDTH, HEIGHT),
           '<rect width="100%" height="100%" fill="#fff"/>']
    for value in ticks(low, high, 0.5):
        out.append('<path d="M%d %.1fH%d" stroke="#ddd"/>' % (LEFT, y(value), WIDTH - RIGHT))
        out.append(text(LEFT - 8, y(value) + 4, "%.1f" % value, "end"))
    for value in ticks(low * ratio, high * ratio, 0.5):
        out.append(text(WIDTH - RIGHT + 8, y(value / ratio) + 4, "%.1f" % value, "start"))
    for value in ticks(0, tokens[-1], 2.0 if tokens[-1] > 5 else 0.5):
        out.append(text(x(value), HEIGHT - BOTTOM + 18, "%g" % value))
    for k, (name, label, colour) in enumerate(LINES):
        points = " ".join("%.1f,%.1f" % (x(t), y(v)) for t, v in zip(tokens, losses[name]))
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>' % (points, colour))
        out.append('<path d="M%d %dh24" stroke="%s" stroke-width="2"/>' %
                   (WIDTH - RIGHT - 170, TOP + 16 + 20 * k, colour))
        out.append(text(WIDTH - RIGHT - 140, TOP + 20 + 20 * k, "%s: %.3f" % (label, losses[name][-1]), "start"))
    out.append(text(LEFT, 22, "loss, nats per token", "start"))
    out.append(text(WIDTH - RIGHT + 40, 22, "held out, bits per character", "end"))
    out.append(text(WIDTH / 2, HEIGHT - 12, "million tokens"))
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: plot.py LOSSES.csv OUT.svg")
    with open(sys.argv[1], encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f))
    if len(rows) < 2:
        sys.exit("plot.py: %s has fewer than two rows" % sys.argv[1])
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write(draw(rows))


if __name__ == "__main__":
    main()
