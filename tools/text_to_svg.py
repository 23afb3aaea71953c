# SPDX-License-Identifier: Apache-2.0
"""Draws terminal output (standard input) as an SVG picture (standard output), for the manual."""
import html
import sys

WIDTH, HEIGHT, PAD = 8.4, 18, 16


def main():
    lines = [line.rstrip("\n") for line in sys.stdin]
    columns = max(map(len, lines))
    width, height = columns * WIDTH + 2 * PAD, len(lines) * HEIGHT + 2 * PAD
    print('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" '
          'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" '
          'font-size="14" fill="#d7dae0">' % (width, height))
    print('<rect width="100%" height="100%" rx="8" fill="#1d2026"/>')
    for i, line in enumerate(lines):
        if line.strip():
            print('<text x="%d" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs" xml:space="preserve">%s</text>'
                  % (PAD, PAD + 14 + i * HEIGHT, len(line) * WIDTH, html.escape(line)))
    print("</svg>")


main()
