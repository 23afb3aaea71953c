#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The designs of examples/rtl are free of lint and equal to the model in lockstep.

    run.py ROOT BUILD

Builds into BUILD/rtl. Skipped, with the reason, where a simulator is missing.
"""

import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import suite as suites  # noqa: E402  pylint: disable=wrong-import-position

SKIPPED = 77
DESIGNS = ("pccx", "opennpu")


def make(root, build, target):
    command = ["make", "-s", "-C", os.path.join(root, "examples", "rtl"), "BUILD=" + build, target]
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return p.returncode, p.stdout


def run(folder, *command):
    p = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    return p.returncode, p.stdout


def main():
    options = suites.parse_arguments(__doc__, "root", "build")
    if not shutil.which("verilator"):
        print("skipped: verilator is not installed")
        return SKIPPED
    suite = suites.Suite(options=options)
    build = os.path.abspath(options.build)
    status, text = make(options.root, build, "lint")
    suite.expect("lint", status == 0 and "%Warning" not in text, text)
    for design in DESIGNS:
        status, text = make(options.root, build, design)
        suite.expect(design + " builds", status == 0, text)
        status, text = run(os.path.join(build, "rtl", design), "./bench", "100000", "1")
        suite.expect(design + " equals the model", status == 0 and re.match(r"PASS: 100000 instructions", text), text)
    return suite.finish()


if __name__ == "__main__":
    sys.exit(main())
