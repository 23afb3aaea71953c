# SPDX-License-Identifier: Apache-2.0
"""The table and the comparison of bench/run, from hand-written saved runs; damaged runs; errors. Nothing is measured.

    run.py BENCH_RUN [--rebase]"""

import copy
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from suite import Suite, parse_arguments  # noqa: E402

OPTIONS = parse_arguments(__doc__, "bench_run")
SUITE = Suite(options=OPTIONS)
check = SUITE.check


def run(*arguments, environment=None):
    done = subprocess.run([sys.executable, os.path.abspath(OPTIONS.bench_run), *arguments], cwd=HERE,
                          capture_output=True, text=True, timeout=60, env=environment)
    return done.returncode, done.stdout, done.stderr


# ---- Texts ----

TEXTS = {
    "show.txt": ["--show", "old.json"],
    "against.txt": ["--show", "new.json", "--against", "old.json"],
    "markdown.txt": ["--show", "new.json", "GEMM", "--markdown", "--against", "old.json"],
}


def check_texts():
    for name, arguments in TEXTS.items():
        status, text, errors = run(*arguments)
        check(name + ": exit status", status and "%d: %s" % (status, errors))
        SUITE.golden(name, os.path.join(HERE, name), text)


def check_json(old):
    status, text, _ = run("--show", "old.json", "--json", "-")
    found = json.loads(text) if status == 0 else None
    same = found and {**found, "rows": sorted(found["rows"], key=str)} == {**old, "rows": sorted(old["rows"], key=str)}
    check("JSON is written as it was read", not same)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "again.json")
        status, _, errors = run("--show", "old.json", "--json", path)
        check("JSON into a file", status and errors)
        status, text, _ = run("--show", path, "--against", "old.json")
        first = json.dumps(old).replace(old["format"], "trivet benchmarks 1")
        first = first.replace('"min"', '"least"').replace('"max"', '"most"')
        with open(path, "w", encoding="utf-8") as out:
            out.write(first)
        check("a run of format 1 is read", run("--show", path)[:2] != run("--show", "old.json")[:2])
        check("the same run again differs nowhere",
              "0 better and 0 worse by more than the spread of either run, 7 the same" not in text)


# ---- Comparing ----

def classification(folder, old, new, better):
    """What the comparison says of a row (low, median, high) before and after."""
    paths = []
    for name, (low, median, high) in (("old", old), ("new", new)):
        row = {"name": "x", "unit": "u", "median": median, "min": low, "max": high, "better": better}
        paths.append(os.path.join(folder, name + ".json"))
        with open(paths[-1], "w", encoding="utf-8") as out:
            json.dump({"format": "trivet benchmarks 2", "machine": {}, "host": {}, "rows": [row]}, out)
    status, text, errors = run("--show", paths[1], "--against", paths[0])
    line = next((line for line in reversed(text.splitlines()) if line.startswith("x ")), "")
    return line.split()[-1] if status == 0 and line.split()[-1] in ("better", "worse") else errors or "same"


def check_comparisons():
    cases = [
        ((9, 10, 11), (9, 10, 11), "higher", "same"),
        ((9, 10, 11), (11, 12, 12.5), "higher", "same"),     # as far apart as the old spread
        ((9, 10, 11), (12, 12.1, 12.5), "higher", "better"),
        ((9, 10, 11), (12, 12.1, 12.5), "lower", "worse"),
        ((9, 10, 11), (7.5, 7.9, 8), "higher", "worse"),
        ((9, 10, 11), (7.5, 7.9, 8), "lower", "better"),
        ((10, 10, 10), (12, 15, 18), "higher", "same"),      # within the new spread
        ((10, 10, 10), (10.04, 10.04, 10.04), "higher", "same"),
        ((10, 10, 10), (10.1, 10.1, 10.1), "higher", "better"),
        ((0, 0, 0), (1, 1, 1), "lower", "worse"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for old, new, better, expected in cases:
            found = classification(folder, old, new, better)
            check("%s then %s, %s is better" % (old, new, better),
                  found != expected and "%s instead of %s" % (found, expected))


# ---- Damaged files ----

def changed(old, path, value):
    """A copy with the value at a path of keys replaced, or without it where the value is KeyError."""
    new = copy.deepcopy(old)
    at = new
    for key in path[:-1]:
        at = at[key]
    if value is KeyError:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return json.dumps(new)


def check_damaged(old):
    cases = {
        "empty": "", "no JSON": "pccx 12", "cut off": json.dumps(old)[:-20], "a list": "[]", "a number": "1",
        "no text": b"\xff\xfe\x00", "deep": "[" * 100000,
        "a huge whole number": '{"format": ' + "9" * 10000 + "}", "large": " " * (5 << 20),
        "another format": changed(old, ["format"], "trivet benchmarks 3"),
        "no format": changed(old, ["format"], KeyError),
        "no rows": changed(old, ["rows"], KeyError), "rows that are an object": changed(old, ["rows"], {}),
        "a row that is a text": changed(old, ["rows", 1], "x"),
        "too many rows": changed(old, ["rows"], old["rows"] * 200),
        "a row twice": changed(old, ["rows"], old["rows"] + old["rows"][:1]),
        "no machine": changed(old, ["machine"], KeyError),
        "a machine's list": changed(old, ["machine", "processor"], []),
        "a machine's line end": changed(old, ["machine", "processor"], "a\nb"),
        "a host's text": changed(old, ["host", "read"], "fast"),
        "a host below 0": changed(old, ["host", "read"], -1), "no name": changed(old, ["rows", 0, "name"], KeyError),
        "an escape in a name": changed(old, ["rows", 0, "name"], "\x1b[31mred"),
        "a long name": changed(old, ["rows", 0, "name"], "x" * 1000),
        "a unit that is a number": changed(old, ["rows", 0, "unit"], 3),
        "no median": changed(old, ["rows", 0, "median"], KeyError),
        "a median that is true": changed(old, ["rows", 0, "median"], True),
        "a median that is no number": changed(old, ["rows", 0, "median"], float("nan")),
        "an infinite median": changed(old, ["rows", 0, "median"], float("inf")),
        "a median of 400 digits": changed(old, ["rows", 0, "median"], 10 ** 400),
        "a median above the maximum": changed(old, ["rows", 0, "median"], 3),
        "a negative minimum": changed(old, ["rows", 0, "min"], -1),
        "neither better": changed(old, ["rows", 0, "better"], "faster"),
        "a goal that is a text": changed(old, ["rows", 0, "goal"], "5"),
        "an infinite goal": changed(old, ["rows", 0, "goal"], float("inf")),
        "of without reached": changed(old, ["rows", 2, "reached"], KeyError),
        "reached without of": changed(old, ["rows", 2, "of"], KeyError),
        "a baseline without times": changed(old, ["rows", 6, "times"], KeyError),
        "times that are a list": changed(old, ["rows", 6, "times"], []),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "damaged.json")
        for name, data in cases.items():
            with open(path, "wb") as out:
                out.write(data if isinstance(data, bytes) else data.encode())
            for arguments in (["--show", path], ["--show", "new.json", "--against", path]):
                status, text, errors = run(*arguments)
                message = errors.startswith("bench/run: '%s' is not a saved run: " % path)
                rejected = status == 2 and not text and message and errors.count("\n") == 1 and "\x1b" not in errors
                check("%s, %s" % (name, arguments[0]), not rejected and "status %d: %s%s" % (status, text, errors))


# ---- What cannot be measured ----

def check_rejected_arguments():
    with tempfile.TemporaryDirectory() as folder:
        info = os.path.join(folder, "meson-info")
        os.mkdir(info)
        options = os.path.join(info, "intro-buildoptions.json")

        nothing = dict(os.environ, PATH=folder)
        cases = [
            (["--show", "nowhere.json"], None, 2, "cannot read 'nowhere.json': No such file or directory"),
            (["--against", "nowhere.json"], None, 2, "cannot read 'nowhere.json'"),
            (["--show", "old.json", "no such row"], None, 2, "no row's name contains 'no such row'"),
            (["--show", "old.json", "--json", "nowhere/x.json"], None, 3, "cannot write 'nowhere/x.json'"),
            (["--runs", "0"], None, 2, "a number from 1 to 99"), (["--runs", "100"], None, 2, "a number from 1 to 99"),
            (["--runs", "x"], None, 2, "a number from 1 to 99"),
            (["--runs", "\u0663"], None, 2, "a number from 1 to 99"),
            (["--frobnicate"], None, 2, "unrecognized arguments"),
            (["--with", "perf"], None, 2, "--with goes with --profile"),
            (["--profile", "x", "--json", "-"], None, 2, "--profile goes with neither"),
            (["--build", "nowhere", "--no-build"], None, 3, "is not a build directory"),
            ([], nothing, 3, "meson is not installed"),
        ]
        for arguments, environment, expected, text in cases:
            status, out, errors = run(*arguments, environment=environment)
            check(" ".join(arguments) or "no meson",
                  (status != expected or text not in errors or out) and "status %d: %s%s" % (status, out, errors))
        builds = {"[]": "is not a build directory", "{": "is not a build directory",
                  '[{"name": "buildtype", "value": "debug"}]': "is a debug build, whose speed means nothing",
                  '[{"name": "buildtype", "value": "release"}]': "'bench/bench' is not in"}
        for kind, text in builds.items():
            with open(options, "w", encoding="utf-8") as out:
                out.write(kind)
            status, out, errors = run("--build", folder, "--no-build")
            check("a build with the options " + kind,
                  (status != 3 or text not in errors or out) and "status %d: %s%s" % (status, out, errors))


def main():
    with open(os.path.join(HERE, "old.json"), encoding="utf-8") as f:
        old = json.load(f)
    check_texts()
    check_json(old)
    check_comparisons()
    check_damaged(old)
    check_rejected_arguments()
    return SUITE.finish()


sys.exit(main())
