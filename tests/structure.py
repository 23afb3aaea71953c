#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The layers of the source, and no cycles between files.

    structure.py ROOT BUILD [--figures]

A file includes and calls only its own folder and lower layers (docs/architecture.md); the command uses only the public
headers; a machine or a lowering does not see another one. Files of one folder form no cycle of includes or calls. Includes
are read from the sources; calls come from the symbol tables of the library's object files in BUILD, as `nm` prints them.
"""

import collections
import json
import os
import re
import subprocess
import sys

# Lowest first; folders of one layer do not see each other, except queue, which makes programs and so sees program.
LAYERS = [["base"], ["num"], ["kernels"], ["isa"], ["program", "queue"], ["asm", "sim"], ["machine"], ["trace"], ["graph"], ["import"],
          ["lower"], ["report"], ["llm", "infer"], ["sweep", "cosim", "debug"], ["lib"], ["cli", "lsp"]]
LAYER = {name: i for i, names in enumerate(LAYERS) for name in names}
SAME_LAYER = {("queue", "program")}
# Pairs of files that may depend on each other, with the reason.
JUSTIFIED_CYCLES = {}
# Folders inside a folder: siblings that must not see each other.
SEPARATE = re.compile(r"^(machine|lower)/(pccx|opennpu|cmdq)/|^debug/(console|dap)/")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.M)


def top(path):
    return path.split("/")[0]


def upward(user, used):
    """Why `user` must not use `used` (paths below src), or None."""
    a, b = top(user), top(used)
    if a == b:
        first, second = SEPARATE.match(user), SEPARATE.match(used)
        if second and (first and first[0]) != second[0]:
            return "%s is not for other folders" % second[0]
        return None
    if LAYER[b] > LAYER[a]:
        return "layer %d uses layer %d" % (LAYER[a], LAYER[b])
    if LAYER[b] == LAYER[a] and (a, b) not in SAME_LAYER:
        return "folders of one layer do not see each other"
    other = SEPARATE.match(used)
    if other and other[1] in ("machine", "lower") and a != "lib":
        return "%s is private to its machine" % other[0]
    return None


def stem(path):
    """A source and its header are one thing; a table of rows is not part of either."""
    return path if path.endswith(".def") else os.path.splitext(path)[0]


def sources(root):
    for directory, _, names in sorted(os.walk(os.path.join(root, "src"))):
        for name in sorted(names):
            if name.endswith((".c", ".h", ".def")):
                yield os.path.relpath(os.path.join(directory, name), os.path.join(root, "src"))


def read_includes(root, files):
    """Edges of includes, and what is wrong with each file by itself."""
    edges, problems = collections.defaultdict(set), collections.defaultdict(list)
    for path in files:
        with open(os.path.join(root, "src", path), encoding="utf-8") as file:
            text = file.read()
        lines = text.count("\n")
        if "SPDX-License-Identifier: Apache-2.0" not in text.split("\n", 1)[0]:
            problems[path].append("no SPDX line")
        if lines > 800:
            problems[path].append("%d lines: is it one thing?" % lines)
        for name in INCLUDE.findall(text):
            if name.startswith("trivet/") or name == "targets.def":
                continue
            if top(path) in ("cli", "lsp") and top(name) != top(path):
                problems[path].append("the command includes %s" % name)
                continue
            edges[path].add(name)
            why = upward(path, name) if top(name) in LAYER else "includes %s of no layer" % name
            if why:
                problems[path].append("includes %s: %s" % (name, why))
    return edges, problems


def read_calls(build):
    """Edges between source files: a file uses a symbol that another one defines."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        commands = json.load(file)
    paths = {}  # of sources, by object
    for command in commands:
        if not re.search(r"libtrivet\.(so|a)[^/]*\.p/", command["output"]) or "libtrivet.a" in command["output"]:
            continue
        source = os.path.normpath(os.path.join(command["directory"], command["file"]))
        inside = source.split(os.sep + "src" + os.sep)
        if len(inside) > 1 and not source.startswith(os.path.abspath(build) + os.sep):
            paths[command["output"]] = inside[-1]
    if not paths:
        sys.exit("no objects of the library in %s: build it first" % build)
    symbols = subprocess.run(["nm", "-A", "-f", "posix", *paths], cwd=build, stdout=subprocess.PIPE, text=True, check=True).stdout
    defines, uses = {}, collections.defaultdict(set)
    for row in symbols.splitlines():
        output, symbol = row.split(": ", 1)
        name, kind = symbol.split()[:2]
        if kind in "TDRBV":
            defines[name] = paths[output]
        elif kind == "U":
            uses[paths[output]].add(name)
    edges = collections.defaultdict(dict)
    for path, names in uses.items():
        for name in sorted(names):
            used = defines.get(name)
            if used and used != path:
                edges[path].setdefault(used, name)
    return edges, len(uses)


def cycles(edges):
    """Groups of files of one folder that reach each other (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if os.path.dirname(other) != os.path.dirname(node) or frozenset((node, other)) in JUSTIFIED_CYCLES:
                continue
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = []
            while not group or group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def main():
    root, build = sys.argv[1:3]
    files = list(sources(root))
    includes, problems = read_includes(root, files)
    calls, objects = read_calls(build)
    for path, used in sorted(calls.items()):
        for other, symbol in sorted(used.items()):
            why = upward(path, other)
            if why:
                problems[path].append("calls %s of %s: %s" % (symbol, other, why))
    joined = collections.defaultdict(set)
    for edges in (includes, calls):
        for path, used in list(edges.items()):
            joined[stem(path)] |= {stem(other) for other in used} - {stem(path)}
    groups = cycles(joined)
    for path in sorted(problems):
        for text in problems[path]:
            print("src/%s: %s" % (path, text))
    for group in groups:
        print("cycle: " + ", ".join(group))
        for path in sorted(calls):
            for other in sorted(calls[path]):
                if {stem(path), stem(other)} <= set(group):
                    print("    %s calls %s of %s" % (path, calls[path][other], other))
    if objects < 100:
        print("only %d object files of the library in %s" % (objects, build))
    if "--figures" in sys.argv:
        print("files %d, upward uses %d, cycles %d" % (len(files), sum(map(len, problems.values())), len(groups)))
    failed = len([p for p in problems if problems[p]]) + len(groups) + (objects < 100)
    print("%d passed, %d failed" % (len(files) - len(problems), failed))
    return 1 if failed else 0


sys.exit(main())
