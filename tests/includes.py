# SPDX-License-Identifier: Apache-2.0
"""The house keeps its floors: a file includes only from its own folder's floor or below, the command line only the
public headers. Prints `N passed, M failed` over the files read."""
import os
import re
import sys

FLOORS = [["base"], ["num", "kernels"], ["isa"], ["asm", "object"], ["sim"], ["machine"], ["report", "debug"], ["llm"], ["cli"]]
FLOOR = {name: i for i, names in enumerate(FLOORS) for name in names}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
MACHINE = re.compile(r"machine/(\w+)/")


def problems(path, folder):
    text = open(path, encoding="utf-8").read()
    found = []
    lines = text.count("\n")
    if "SPDX-License-Identifier: Apache-2.0" not in text.split("\n", 2)[0]:
        found.append("no SPDX line")
    if lines > 800:
        found.append("%d lines: is it one thing?" % lines)
    own_machine = MACHINE.search(path)
    for name in INCLUDE.findall(text):
        top = name.split("/")[0]
        if top in ("trivet", "targets.def"):
            continue
        if folder == "cli" and top != "cli":
            found.append("the command line includes %s" % name)
        elif FLOOR.get(top, 0) > FLOOR[folder]:
            found.append("floor %d includes %s of floor %d" % (FLOOR[folder], name, FLOOR[top]))
        other = MACHINE.search(name)
        if other and (not own_machine or own_machine.group(1) != other.group(1)):
            found.append("reaches into the machine %s" % other.group(1))
    return found


def main():
    root = os.path.join(sys.argv[1], "src")
    passed = failed = 0
    for directory, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            path = os.path.join(directory, name)
            folder = os.path.relpath(path, root).split(os.sep)[0]
            if folder not in FLOOR or not name.endswith((".c", ".h", ".def")):
                continue
            found = problems(path, folder)
            for text in found:
                print("%s: %s" % (os.path.relpath(path, root), text))
            passed += not found
            failed += bool(found)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


sys.exit(main())
