#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `trivet llm` reports beside its text: the work of the host, the error of quantized weights, progress.

    reports.py TRIVET MODEL"""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]

from suite import Suite, parse_arguments  # noqa: E402

OPTIONS = parse_arguments(__doc__, "trivet", "model")
SUITE, MODEL = Suite(OPTIONS.trivet, OPTIONS), OPTIONS.model
expect, equal = SUITE.expect, SUITE.equal


def run(*args, status=0):
    done = subprocess.run([SUITE.trivet, "llm", *args], capture_output=True, text=True, check=False)
    expect(" ".join(args), done.returncode == status, f"exit {done.returncode}: {done.stderr}")
    return done


def as_json(*args):
    return json.loads(run(*args, "--json").stdout)["result"]


def work_of_the_host_is_named():
    """A line in every mode, a table with --host-ops, and JSON name the same operations; a machine without any has no line."""
    names = [op["name"] for op in as_json(MODEL, "-t", "pccx", "-n", "2")["targets"][0]["host_ops"]]
    expect("pccx leaves work to the host", names)
    for args in (["-n", "2"], ["--timing-only", "-n", "2"], ["--verify", "-n", "2"], ["--eval", __file__, "-n", "2"]):
        expect(f"the work of the host with {args}", f"pccx leaves to the host: {', '.join(names)};" in run(MODEL, "-t", "pccx", *args).stdout)
    table = run(MODEL, "-t", "pccx", "-n", "2", "--host-ops").stdout
    expect("the table has each operation", all(name in table for name in names) and "leaves" not in table, table)
    equal("--verify has the same in JSON", [op["name"] for op in as_json(MODEL, "-t", "pccx", "--verify", "-n", "2")["targets"][0]["host_ops"]],
          names)
    for target in ("opennpu", "cmdq"):
        expect(f"{target} leaves nothing to the host", "the host" not in run(MODEL, "-t", target, "-n", "2", "--allow-host-ops").stdout)


SUITE.run_tests((work_of_the_host_is_named,))
sys.exit(SUITE.finish())
