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


def make(root, build, target, *variables):
    command = ["make", "-s", "-C", os.path.join(root, "examples", "rtl"), "BUILD=" + build, *variables, target]
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return p.returncode, p.stdout


def run(folder, *command):
    p = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    return p.returncode, p.stdout


def check_verilator(suite, root, build, design):
    """The benches in C++ and over DPI-C: no mismatch, and the same counts."""
    results = []
    for bench, arguments in ((design, ("100000", "1")), (design + "-dpi", ("+count=100000", "+seed=1"))):
        status, text = make(root, build, bench)
        suite.expect(bench + " builds", status == 0, text)
        status, text = run(os.path.join(build, "rtl", bench), "./bench", *arguments)
        suite.expect(bench + " equals the model", status == 0 and "PASS: 100000 instructions" in text, text)
        environment = {**os.environ, "LOCKSTEP_SELF_TEST": "1"}
        found = subprocess.run(["./bench", *(arguments if "-dpi" in bench else ("1000", "1"))], cwd=os.path.join(build, "rtl", bench), env=environment,
                              stdout=subprocess.PIPE, timeout=300, check=False).stdout.decode()
        suite.expect(bench + " reports the planted bug", "MISMATCH" in found and "PASS" not in found, found)
        results.append(re.findall(r"^PASS.*", text, re.M))
    suite.equal(design + ": both benches count alike", results[1], results[0])


def check_icarus(suite, root, build, design):
    """The log of a simulator without DPI, and a log in which one digit is another."""
    folder = os.path.join(build, "rtl", design + "-icarus")
    tool, arguments = os.path.join(build, "examples", "rtl", "lockstep_log"), (design, "500", "1")
    status, text = make(root, build, design + "-icarus")
    suite.expect(design + " compiles with Icarus", status == 0, text)
    with open(os.path.join(folder, "events.hex"), "wb") as file:
        subprocess.run([tool, "events", *arguments], stdout=file, check=True)
    status, text = run(folder, "vvp", "bench")
    suite.expect(design + " runs with Icarus", status == 0, text)
    with open(os.path.join(folder, "commits.log"), "rb") as file:
        log = file.read()
    writes = log.index(b"W ", len(log) // 2)
    digit = log.index(b"\n", writes) - 6
    changed = log[:digit] + (b"1" if log[digit:digit + 1] == b"0" else b"0") + log[digit + 1:]
    for name, bytes_, word in (("its log", log, "PASS: 500"), ("a changed log", changed, "MISMATCH"), ("a cut log", log[:writes], "MISMATCH")):
        text = subprocess.run([tool, "compare", *arguments], input=bytes_, stdout=subprocess.PIPE, check=False).stdout.decode()
        suite.expect("%s with Icarus: %s" % (design, name), word in text, text)


# A write of what L2 has already, in the cycle after the end of an instruction, unless the next one begins.
LATE = (("            default:\n                write_valid = 1'b0;\n",
         "            default: begin\n                write_valid = ended && !instr_valid;\n                write_data = first;\n            end\n"),
        ("    always @* begin\n        write_valid = 1'b0;\n",
         "    logic ended;\n    logic [127:0] first;\n    assign first = l2[0];\n    always_ff @(posedge clk) ended <= retire_valid && !rst;\n"
         "    always @* begin\n        write_valid = 1'b0;\n"))


def check_late_writes(suite, root, build):
    """A write between instructions is reported by each bench, in the same words."""
    copy = os.path.join(build, "rtl", "late")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(os.path.join(root, "examples", "rtl"), os.path.join(copy, "examples", "rtl"))
    core = os.path.join(copy, "examples", "rtl", "pccx", "pccx_core.sv")
    with open(core, encoding="utf-8") as file:
        text = file.read()
    for before, after in LATE:
        suite.expect("the place of the error", text.count(before) == 1, before)
        text = text.replace(before, after)
    with open(core, "w", encoding="utf-8") as file:
        file.write(text)
    benches = ["pccx", "pccx-dpi"] + (["pccx-icarus"] if shutil.which("iverilog") else [])
    found = []
    for bench in benches:
        status, text = make(copy, build, bench, "OUT=" + copy)
        suite.expect("late: %s builds" % bench, status == 0, text)
        folder, tool = os.path.join(copy, bench), os.path.join(build, "examples", "rtl", "lockstep_log")
        if bench == "pccx-icarus":
            with open(os.path.join(folder, "events.hex"), "wb") as file:
                subprocess.run([tool, "events", "pccx", "200", "1"], stdout=file, check=True)
            run(folder, "vvp", "bench")
            with open(os.path.join(folder, "commits.log"), "rb") as file:
                text = subprocess.run([tool, "compare", "pccx", "200", "1"], stdin=file, stdout=subprocess.PIPE, check=False).stdout.decode()
        else:
            text = run(folder, "./bench", *(("200", "1") if bench == "pccx" else ("+count=200", "+seed=1")))[1]
        found.append(re.findall(r"^MISMATCH.*", text, re.M)[:1])
    suite.expect("late writes are found", found[0] and ": late-write/" in found[0][0], found[0])
    for bench, lines in zip(benches[1:], found[1:]):
        suite.equal("late writes with " + bench, lines, found[0])


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
        check_verilator(suite, options.root, build, design)
        if shutil.which("iverilog"):
            check_icarus(suite, options.root, build, design)
    check_late_writes(suite, options.root, build)
    return suite.finish()


if __name__ == "__main__":
    sys.exit(main())
