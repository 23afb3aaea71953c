#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Line and branch coverage of the library by its tests, with Clang's source-based coverage.

    coverage.py [--build FOLDER] [--test NAME]... [--markdown] [--uncovered FOLDER]

Builds into FOLDER (build-coverage) with -fprofile-instr-generate, runs the tests (all, or those named), merges the profiles and
prints a table: a row for each folder of src, with its goal for branches, and the number of lines and branches covered.
--uncovered FOLDER lists the functions and lines of a folder of src that no test reaches. --markdown prints the table for the
manual. Needs clang and llvm (llvm-profdata, llvm-cov).
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
        status = run(["meson", "setup", folder, "--buildtype=debugoptimized", "-Db_lundef=false", "-Dc_args=" + flags, "-Dc_link_args=" + flags],
                     env=dict(os.environ, CC="clang"), stdout=subprocess.DEVNULL)
        if status:
            sys.exit("coverage: meson setup failed")
    if run(["ninja", "-C", folder], stdout=subprocess.DEVNULL):
        sys.exit("coverage: the build failed")


def measure(folder, tests):
    profiles = os.path.join(folder, "profiles")
    shutil.rmtree(profiles, ignore_errors=True)
    os.mkdir(profiles)
    # %m: processes of one program share a file, which they merge into.
    environment = dict(os.environ, LLVM_PROFILE_FILE=os.path.join(profiles, "%m.profraw"))
    status = run(["meson", "test", "-C", folder, "--no-rebuild", "--num-processes", "2", "--timeout-multiplier", "4", *tests],
                 env=environment, stdout=subprocess.DEVNULL)
    if status:
        print("coverage: some tests failed; their coverage counts all the same", file=sys.stderr)
    merged = os.path.join(folder, "merged.profdata")
    if run(["llvm-profdata", "merge", "-sparse", "-o", merged, *glob.glob(os.path.join(profiles, "*.profraw"))]):
        sys.exit("coverage: llvm-profdata failed")
    return merged


def export(folder, merged):
    library = glob.glob(os.path.join(folder, "src", "libtrivet.so.?.*.?"))[0]
    objects = [library, os.path.join(folder, "src", "trivet")] + [p for p in glob.glob(os.path.join(folder, "tests", "unit", "test_*")) if os.path.isfile(p) and os.access(p, os.X_OK)]
    command = ["llvm-cov", "export", "-instr-profile", merged, "-skip-expansions", objects[0]] + ["-object=" + p for p in objects[1:]]
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


def print_table(data, markdown):
    rows = {}
    for file in data["files"]:
        name = folder_of(file["filename"])
        if name:
            row = rows.setdefault(name, collections.Counter())
            for kind in ("lines", "branches"):
                row[kind] += file["summary"][kind]["count"]
                row[kind + " covered"] += file["summary"][kind]["covered"]
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


def print_uncovered(data, folder):
    for file in data["files"]:
        if folder_of(file["filename"]) != folder:
            continue
        open_lines = sorted({s[0] for s in file["segments"] if s[3] and s[2] == 0 and s[4]})
        if open_lines:
            print("%s: %s" % (os.path.relpath(file["filename"], ROOT), " ".join(map(str, open_lines))))


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--build", default=os.path.join(ROOT, "build-coverage"))
    ap.add_argument("--test", action="append", default=[], help="only this test")
    ap.add_argument("--markdown", action="store_true")
    ap.add_argument("--uncovered", metavar="FOLDER", help="list what no test reaches in this folder of src")
    ap.add_argument("--no-run", action="store_true", help="use the profiles of the last run")
    options = ap.parse_args()
    folder = os.path.abspath(options.build)
    if not options.no_run:
        build(folder)
    merged = os.path.join(folder, "merged.profdata") if options.no_run else measure(folder, options.test)
    data = export(folder, merged)
    if options.uncovered:
        print_uncovered(data, options.uncovered)
        return 0
    missed = print_table(data, options.markdown)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
