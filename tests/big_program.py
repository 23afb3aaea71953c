#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program of ten million words is run from its file, not from a copy of it.

    big_program.py TRIVET

The peak of resident memory may hold the file's pages once, not twice.
"""

import os
import resource
import subprocess
import sys
import tempfile

WORDS = 10_000_000
VADD = 0x00208090 .to_bytes(4, "little")  # vadd vx1, vx1, vx2


def main():
    trivet = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "big.bin")
        with open(path, "wb") as f:
            f.write(VADD * WORDS)
        p = subprocess.run([trivet, "run", path, "-t", "opennpu", "-c", "test", "--functional"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    text = p.stdout.decode()
    ok = p.returncode == 0 and "10,000,000 instructions" in text and peak < 1.5 * 4 * WORDS + (16 << 20)
    if not ok:
        print("exit %d, peak %d MB: %s" % (p.returncode, peak >> 20, text))
    print("%d passed, %d failed" % (ok, not ok))
    return not ok


sys.exit(main())
