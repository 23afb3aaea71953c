#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check docs/conformance.md: every row has all its cells, every file that it names exists and has the named function.

    conformance.py ROOT
"""

import os
import re
import sys

ROOT = sys.argv[1]
NAMED = re.compile(r"`((?:src|tests|examples|docs|include|tools|configs)/[^`\s:]*)(?::([^`]*))?`")
FUNCTION = re.compile(r"`(\w+)` of `([^`]*)`")


def text(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        return f.read()


def problems_of(row):
    cells = [c.strip() for c in re.split(r"(?<!\\)\|", row)[1:-1]]
    if not all(cells):
        yield "a cell is empty"
    named = [(file, name) for file, name in NAMED.findall(row)] + [(file, name) for name, file in FUNCTION.findall(row)]
    for file, name in named:
        if not os.path.exists(os.path.join(ROOT, file)):
            yield "there is no %s" % file
        elif name and name not in text(file):
            yield "%s has no %s" % (file, name)


def main():
    failed = rows = width = 0
    for number, line in enumerate(text("docs/conformance.md").split("\n"), 1):
        if not line.startswith("|"):
            width = 0
            continue
        cells = len(re.split(r"(?<!\\)\|", line)) - 2
        width = width or cells
        found = list(problems_of(line)) + (["%d cells instead of %d" % (cells, width)] if cells != width else [])
        rows += 1
        failed += bool(found)
        for problem in found:
            print("docs/conformance.md:%d: %s" % (number, problem))
    print("%d passed, %d failed" % (rows - failed, failed))
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
