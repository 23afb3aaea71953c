#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every test case of ONNX's backend suite passes on the host, or is rejected by name.

    conformance.py ONNX_CONFORMANCE [--rebase] [--list]

The cases are those of Debian's libonnx-testdata: of single operators, converted from PyTorch, and simple models. rejected.txt lists the operators and
inputs that are rejected, with the number of cases and the reason; a case that is rejected and not listed, or listed and passes, is an error. --rebase
writes the file.
"""

import collections
import glob
import os
import re
import subprocess
import sys

DATA = "/usr/share/libonnx-testdata/data"
SUITES = ("node", "pytorch-converted", "pytorch-operator", "simple")
LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rejected.txt")
PAGE = os.path.join(os.path.dirname(LIST), "..", "..", "docs", "networks.md")
TABLE = os.path.join(os.path.dirname(LIST), "..", "..", "src", "import", "onnx_ops.def")
MARK, END = "<!-- conformance -->\n", "<!-- end -->\n"
HEAD = """# Cases of ONNX's backend suite that are rejected: number of cases, operator, reason. Written by conformance.py --rebase.
"""


def table(counts):
    """The rows of the manual."""
    rows = "\n| cases | number | pass | pass with constants | rejected |\n|---|---:|---:|---:|---:|\n"
    for suite in SUITES:
        c = counts[suite]
        rows += "| %s | %d | %d | %d | %d |\n" % (suite, sum(c.values()), c["passed"], c["bound"], c["rejected"])
    return rows + "\n"


def reason_of(message):
    """The row of a rejection: the operator and the problem, without names of the case."""
    node = re.search(r"\((\w+), opset \d+\): (.*)", message)
    if node:
        return node[1], re.sub(r"'[^']*'", "NAME", node[2])
    graph = re.search(r"', (input|tensor) '.*?': (.*)", message)
    return (graph[1], graph[2]) if graph else ("?", message)


def main():
    folders = sorted(d for suite in SUITES for d in glob.glob("%s/%s/*" % (DATA, suite)))
    done = subprocess.run([sys.argv[1]], input="\n".join(folders) + "\n", stdout=subprocess.PIPE, text=True, check=False)
    lines, failed = done.stdout.split("\n")[:-1], 0
    if done.returncode or len(lines) != len(folders):
        print("the program ended with status %d at %s" % (done.returncode, folders[min(len(lines), len(folders) - 1)]))
        failed += 1
    counts, rejected = collections.defaultdict(collections.Counter), collections.Counter()
    for folder, line in zip(folders, lines):
        result, _, message = line.partition(" ")
        suite, name = folder.split("/")[-2:]
        counts[suite][result] += 1
        if result == "rejected":
            rejected[reason_of(message)] += 1
        if result == "failed" or (result == "rejected" and not re.match("TV-L06[4-7] ", message)):
            failed += 1
            print("%s: %.200s" % (name, line))
        if "--list" in sys.argv:
            print("%s: %.200s" % (name, line))
    text = HEAD + "".join("%d %s: %s\n" % (n, op, reason) for (op, reason), n in sorted(rejected.items()))
    if "--rebase" in sys.argv:
        with open(LIST, "w", encoding="utf-8") as file:
            file.write(text)
    with open(LIST, encoding="utf-8") as file:
        expected = file.read()
    if text != expected:
        failed += 1
        for row in sorted(set(text.split("\n")) ^ set(expected.split("\n"))):
            print("%s rejected.txt: %s" % ("not in" if row in text else "only in", row))
    rows = table(counts)
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    if "--rebase" in sys.argv:
        page = page[:page.index(MARK)] + MARK + rows + page[page.index(END):]
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(page)
    if MARK + rows + END not in page:
        failed += 1
        print("docs/networks.md has other numbers of cases")
    named = set(re.findall(r"\w+", page[page.index("<!-- operators -->"):page.index("<!-- end of operators -->")]))
    with open(TABLE, encoding="utf-8") as file:
        missing = set(re.findall(r'^TV_ONNX_ROW\(\w+, "(\w+)"', file.read(), re.M)) - named
    if missing:
        failed += 1
        print("docs/networks.md does not name %s" % ", ".join(sorted(missing)))
    for suite in SUITES:
        c = counts[suite]
        print("%s: %d cases: %d passed, %d passed with small inputs as constants, %d rejected, %d failed" %
              (suite, sum(c.values()), c["passed"], c["bound"], c["rejected"], c["failed"]))
    print("%d passed, %d failed" % (len(lines) - failed, failed))
    sys.exit(failed > 0 or len(folders) < 1000)


if __name__ == "__main__":
    main()
