#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The form of the source: clang-format leaves every C and JavaScript file unchanged, and lines have at most 120 columns.

    format.py ROOT
"""

import os
import shutil
import subprocess
import sys
import unicodedata

# Another version may format otherwise.
FORMATTER = shutil.which("clang-format-14") or "clang-format"
COLUMNS = 120
NARROW = (".c", ".h", ".js", ".def", ".map")  # the formatter counts their columns, but leaves long strings and tables alone


def tracked(root, endings):
    out = subprocess.run(["git", "-C", root, "ls-files"], stdout=subprocess.PIPE, text=True, check=False).stdout.split()
    if not out:  # not a checkout
        out = [os.path.relpath(os.path.join(d, f), root) for d, _, files in os.walk(root) for f in files]
    return [name for name in sorted(out) if name.endswith(endings) and not name.startswith("build") and os.path.isfile(os.path.join(root, name))]


def width(line):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else not unicodedata.combining(c) for c in line)


def main():
    root = sys.argv[1]
    bad = {}
    for name in tracked(root, NARROW):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                line = line.rstrip("\n")
                if width(line) > COLUMNS:
                    bad.setdefault(name, "%d: %d columns" % (number, width(line)))
                elif line != line.rstrip():
                    bad.setdefault(name, "%d: white space at the end" % number)
    files = tracked(root, (".c", ".h", ".js"))
    out = subprocess.run([FORMATTER, "--dry-run"] + files, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
    for line in out.stderr.splitlines():
        if "clang-format-violations" in line:
            name, number = line.split(":")[:2]
            bad.setdefault(name, "%s: clang-format would change it" % number)
    for name in sorted(bad):
        print("%s:%s" % (name, bad[name]))
    print("%d passed, %d failed" % (len(tracked(root, NARROW)) - len(bad), len(bad)))
    return 1 if bad or not files else 0


sys.exit(main())
