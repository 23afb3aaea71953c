#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every test case of ONNX's backend suite, and every one of generated.py, passes on a machine, within the tolerance of tolerance.h, or is rejected by name.

    machines.py ONNX_MACHINES TARGET [--rebase] [--list]

rejected_TARGET.txt lists the rejected cases with the operator and the reason. With TRIVET_SAMPLE only some of the cases run, and what the
manual says of all is not compared. The manual lists the operators that a machine claims, which are those of the
cases that pass, and its limits: a case of a claimed operator may be rejected for one of these only. --rebase writes the file, and the operators and numbers in
the manual.
"""

import collections
import glob
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import generated  # noqa: E402
from suite import SAMPLE, sample  # noqa: E402

DATA = "/usr/share/libonnx-testdata/data"
SUITES = ("node", "pytorch-converted", "pytorch-operator", "simple", "generated")
HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "..", "..", "docs", "networks.md")
WIDE = 0.5  # a median tolerance above this share of the absmax of the result compares little

Case = collections.namedtuple("Case", "name suite word error width operators message")


def parse(folder, line):
    word, _, rest = line.partition(" ")
    suite, name = folder.split("/")[-2:]
    if word in ("passed", "weights"):
        error, width, operators = rest.split(" ", 2)
        return Case(name, suite, word, float(error), float(width), operators.split(","), "")
    node = re.search(r"\((\w+)\): it has no (.*) \[?", rest + " ") if word == "rejected" else None
    if word == "rejected" and not node:
        return Case(name, suite, "failed", 0, 0, [], rest)
    return Case(name, suite, word, 0, 0, [node[1]] if node else [], node[2].strip() if node else rest)


def run(program, target):
    with tempfile.TemporaryDirectory() as temporary:
        folders = sorted(d for suite in SUITES[:-1] for d in glob.glob("%s/%s/*" % (DATA, suite)))
        folders += generated.write_all(os.path.join(temporary, SUITES[-1]), list(generated.all_cases()))
        if len(folders) < 1400:
            sys.exit("only %d cases" % len(folders))
        folders = sample(folders)
        done = subprocess.run([program, target], input="\n".join(folders) + "\n", stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.split("\n")[:-1]
    if done.returncode or len(lines) != len(folders):
        sys.exit("the program ended with status %d at %s" % (done.returncode, folders[min(len(lines), len(folders) - 1)]))
    return [parse(folder, line) for folder, line in zip(folders, lines)]


def replace(page, target, what, text, rebase):
    """The page with `text` between its marks, and whether it had it."""
    mark, end = "<!-- %s %s -->\n" % (target, what), "<!-- end of %s %s -->" % (target, what)
    at, to = page.index(mark) + len(mark), page.index(end)
    same = page[at:to] == text
    return (page[:at] + text + page[to:] if rebase else page), same or rebase


def paragraph(words):
    lines, line = [], ""
    for word in words:
        if line and len(line) + 1 + len(word) > 120:
            lines.append(line)
            line = ""
        line += (" " if line else "") + word
    return "\n%s\n\n" % "\n".join(lines + [line])


def limits_of(page, target):
    """The limits that the manual names: the first column of a table."""
    text = page[page.index("<!-- %s limits -->" % target):page.index("<!-- end of %s limits -->" % target)]
    return set(re.findall(r"^\| no (.*?) \|", text, re.M))


def numbers(cases, claimed):
    rows = "\n| cases | number | pass | with constants | at a limit | operator not claimed | computed in the import | not imported |\n" + "|---|" + "---:|" * 7 + "\n"
    for suite in SUITES:
        own = [c for c in cases if c.suite == suite]
        count = collections.Counter(c.word for c in own)
        limit = sum(c.word == "rejected" and c.operators[0] in claimed for c in own)
        rows += "| %s | %d | %d | %d | %d | %d | %d | %d |\n" % (suite, len(own), count["passed"], count["weights"], limit, count["rejected"] - limit,
                                                                count["computed"], count["no"])
    widths = sorted(c.width for c in cases if c.word in ("passed", "weights"))
    return rows + "\nThe median tolerance is %.0e of the largest result.\n\n" % widths[len(widths) // 2]


def rejections(target, cases, claimed):
    text = "# Cases of ONNX's backend suite that %s rejects, with the operator and what it lacks. Written by machines.py --rebase.\n" % target
    for title, chosen in (("at a limit of a claimed operator", True), ("operators that are not claimed", False)):
        text += "\n# %s\n" % title
        text += "".join("%s/%s: %s: %s\n" % (c.suite, c.name, c.operators[0], c.message)
                        for c in cases if c.word == "rejected" and (c.operators[0] in claimed) == chosen)
    text += "\n# the tolerance is above half of the largest result: little is compared\n"
    return text + "".join("%s/%s: %s\n" % (c.suite, c.name, ",".join(c.operators)) for c in cases if c.width > WIDE)


def rows_of(text, cases):
    """The rows of a list of rejected cases that are of these, and its comments."""
    own = {"%s/%s" % (c.suite, c.name) for c in cases}
    return {row for row in text.split("\n") if row.startswith("#") or row.split(":")[0] in own}


def main():
    target, rebase, failed = sys.argv[2], "--rebase" in sys.argv, 0
    if rebase and SAMPLE > 1:
        sys.exit("--rebase needs all cases: unset TRIVET_SAMPLE")
    cases = run(sys.argv[1], target)
    claimed = {op for c in cases if c.word in ("passed", "weights") for op in c.operators}
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    limits = limits_of(page, target)
    for c in cases:
        if "--list" in sys.argv:
            print("%s/%s: %s %s %.3f %.2g %s" % (c.suite, c.name, c.word, ",".join(c.operators), c.error, c.width, c.message))
        if c.word == "failed" or (c.word == "rejected" and c.operators[0] in claimed and c.message not in limits):
            failed += 1
            print("%s/%s: %s: %s: %.200s" % (c.suite, c.name, c.word, ",".join(c.operators), c.message))
    path, text = os.path.join(HERE, "rejected_%s.txt" % target), rejections(target, cases, claimed)
    if rebase:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    with open(path, encoding="utf-8") as file:
        expected = file.read()
    for row in sorted(rows_of(text, cases) ^ rows_of(expected, cases)):
        failed += 1
        print("%s %s: %s" % ("not in" if row in text else "only in", os.path.basename(path), row))
    for what, part in () if SAMPLE > 1 else (("cases", numbers(cases, claimed)), ("operators", paragraph((", ".join(sorted(claimed)) + ".").split(" ")))):
        page, same = replace(page, target, what, part, rebase)
        if not same:
            failed += 1
            print("docs/networks.md has other %s of %s" % (what, target))
    if rebase:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(page)
    done = [c for c in cases if c.word in ("passed", "weights")]
    print("%s: %d cases pass; errors reach %.2f of the tolerance" % (target, len(done), max(c.error for c in done)))
    print("%d passed, %d failed" % (len(cases) - failed, failed))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
