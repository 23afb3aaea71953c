#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Line and branch coverage of the library by its tests, with Clang's source-based coverage.

    coverage.py [--build FOLDER] [--test NAME]... [--keep] [--faults RUNS] [--markdown] [--uncovered FOLDER]

Builds into FOLDER (build-coverage) with -fprofile-instr-generate and without assertions, runs the tests (all, or those named),
merges the profiles and prints a table: a row for each folder of src, with its goal for branches, and the number of lines and
branches covered. The side of a switch that no case takes does not count where the compiler checks that each value of the
enumeration has one, that is, without `default`. --keep adds the run to the profiles of earlier ones. --faults also runs each command of tests/faults/matrix.txt with RUNS failures. --uncovered FOLDER lists the
branches of a folder of src that no test takes, as FILE:LINE:COLUMN, the side that is not taken, and the line. --markdown prints
the table for the manual. Needs clang and llvm (llvm-profdata, llvm-cov).
"""

import argparse
import collections
import glob
import json
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Branch coverage that a folder must reach; the rest of src: 85 %.
GOALS = collections.defaultdict(lambda: 85.0, dict.fromkeys(["base", "num", "isa", "program", "queue", "graph"], 95.0))


def run(command, **options):
    done = subprocess.run(command, cwd=ROOT, check=False, **options)
    return done.returncode


def build(folder):
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        flags = "-fprofile-instr-generate -fcoverage-mapping"
        status = run(["meson", "setup", folder, "--buildtype=debugoptimized", "-Db_ndebug=true", "-Db_lundef=false", "-Dc_args=" + flags, "-Dc_link_args=" + flags],
                     env=dict(os.environ, CC="clang"), stdout=subprocess.DEVNULL)
        if status:
            sys.exit("coverage: meson setup failed")
    # The build runs the command, too; its profiles do not count.
    if run(["ninja", "-C", folder], env=dict(os.environ, LLVM_PROFILE_FILE=os.devnull), stdout=subprocess.DEVNULL):
        sys.exit("coverage: the build failed")


def measure(folder, tests, faults, keep):
    profiles = os.path.join(folder, "profiles")
    if not keep:
        shutil.rmtree(profiles, ignore_errors=True)
    os.makedirs(profiles, exist_ok=True)
    # %m: processes of one program share a file, which they merge into.
    environment = dict(os.environ, LLVM_PROFILE_FILE=os.path.join(profiles, "%m.profraw"))
    status = run(["meson", "test", "-C", folder, "--no-rebuild", "--num-processes", "2", "--timeout-multiplier", "4",
                  *(tests or ["--no-suite", "house"])],
                 env=environment, stdout=subprocess.DEVNULL)
    if status:
        print("coverage: some tests failed; their coverage counts all the same", file=sys.stderr)
    if faults:
        run([sys.executable, "tests/faults/run.py", os.path.join(folder, "src", "trivet"), fault_library(folder), "--runs", str(faults)],
            env=environment, stdout=subprocess.DEVNULL)
    merged = os.path.join(folder, "merged.profdata")
    if run(["llvm-profdata", "merge", "-sparse", "-o", merged, *glob.glob(os.path.join(profiles, "*.profraw"))]):
        sys.exit("coverage: llvm-profdata failed")
    return merged


def fault_library(folder):
    """The library that tests/faults/run.py preloads, without instrumentation."""
    library = os.path.join(folder, "inject.so")
    if run(["clang", "-shared", "-fPIC", "-O1", "-o", library, "tests/faults/inject.c", "-ldl"]):
        sys.exit("coverage: tests/faults/inject.c does not compile")
    return library


def export(folder, merged):
    library = glob.glob(os.path.join(folder, "src", "libtrivet.so.?.*.?"))[0]
    tests = glob.glob(os.path.join(folder, "tests", "*")) + glob.glob(os.path.join(folder, "tests", "unit", "*"))
    objects = [library, os.path.join(folder, "src", "trivet")]
    objects += [p for p in tests if os.path.isfile(p) and os.access(p, os.X_OK) and not p.endswith(".so")]
    command = ["llvm-cov", "export", "-instr-profile", merged, objects[0]] + ["-object=" + p for p in objects[1:]]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if done.returncode:
        sys.exit("coverage: llvm-cov failed")
    return json.loads(done.stdout)["data"][0]


def folder_of(path):
    """The folder of src that a file counts for, or None."""
    inside = os.path.relpath(path, os.path.join(ROOT, "src"))
    if inside.startswith("..") or "/" not in inside:
        return None
    top = inside.split("/")
    return "/".join(top[:2]) if top[0] in ("machine", "lower") and len(top) > 2 else top[0]


def read_lines(file):
    with open(file, encoding="utf-8") as source:
        return source.read().splitlines()


def is_switch(lines, line, column):
    """Whether a branch is the side of a switch that no case takes, because there is no `default`."""
    return "".join(lines[line - 1:line])[:column - 1].endswith("switch (")


def print_table(data, markdown):
    rows = {}
    for file in data["files"]:
        name = folder_of(file["filename"])
        if name:
            row = rows.setdefault(name, collections.Counter())
            for kind in ("lines", "branches"):
                row[kind] += file["summary"][kind]["count"]
                row[kind + " covered"] += file["summary"][kind]["covered"]
            lines = read_lines(file["filename"])
            checked = [branch for branch in file.get("branches", []) if is_switch(lines, *branch[:2])]
            row["branches"] -= len(checked)
            row["branches covered"] -= sum(branch[4] != 0 for branch in checked)
    print("| folder | lines | covered | branches | covered | goal |\n|---|---|---|---|---|---|" if markdown else
          "%-18s %8s %8s %9s %8s %6s" % ("folder", "lines", "covered", "branches", "covered", "goal"))
    missed = 0
    for name in sorted(rows):
        row, goal = rows[name], GOALS[name.split("/")[0]]
        lines = 100.0 * row["lines covered"] / max(1, row["lines"])
        branches = 100.0 * row["branches covered"] / max(1, row["branches"])
        missed += branches < goal
        form = "| `%s` | %d | %.1f %% | %d | %.1f %% | %.0f %% |" if markdown else "%-18s %8d %7.1f%% %9d %7.1f%% %5.0f%%"
        print(form % (name, row["lines"], lines, row["branches"], branches, goal))
    return missed


def find_uncovered(data):
    """For each source file, (line, column, side, function) of the branches with a side that no run takes. A branch inside a macro counts
    at the line that uses the macro."""
    taken, outer = {}, {}
    for function in data["functions"]:
        files, name = function["filenames"], function["name"].split(":")[-1]
        for line, column, _, _, _, inside, expanded, kind in function["regions"]:
            if kind == 1:  # an expansion
                outer[files[0], name, expanded] = inside, line, column
        for line, column, _, _, yes, no, inside, _, _ in function.get("branches", []):
            sides = taken.setdefault((files[0], name, inside, line, column), [0, 0])
            sides[0], sides[1] = sides[0] + yes, sides[1] + no
    found = collections.defaultdict(set)
    for (file, name, inside, line, column), sides in taken.items():
        while inside and (file, name, inside) in outer:
            inside, line, column = outer[file, name, inside]
        for side, count in zip(("true", "false"), sides):
            if not count:
                found[file].add((line, column, side, name))
    return found


def print_uncovered(data, folder):
    for file, branches in sorted(find_uncovered(data).items()):
        if folder_of(file) != folder:
            continue
        lines = read_lines(file)
        for line, column, side, name in sorted(branches):
            if side == "false" or not is_switch(lines, line, column):
                print("%s:%d:%d: %s: never %s: %s" % (os.path.relpath(file, ROOT), line, column, name, side, lines[line - 1].strip()))


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--build", default=os.path.join(ROOT, "build-coverage"))
    ap.add_argument("--test", action="append", default=[], help="only this test")
    ap.add_argument("--markdown", action="store_true")
    ap.add_argument("--uncovered", metavar="FOLDER", help="list the branches that no test takes in this folder of src")
    ap.add_argument("--faults", type=int, default=0, metavar="RUNS", help="also run the commands of tests/faults with failures")
    ap.add_argument("--keep", action="store_true", help="keep the profiles of earlier runs of the same build")
    ap.add_argument("--no-run", action="store_true", help="use the profiles of the last run")
    options = ap.parse_args()
    folder = os.path.abspath(options.build)
    if not options.no_run:
        build(folder)
    merged = os.path.join(folder, "merged.profdata") if options.no_run else measure(folder, options.test, options.faults, options.keep)
    data = export(folder, merged)
    if options.uncovered:
        print_uncovered(data, options.uncovered)
        return 0
    missed = print_table(data, options.markdown)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
