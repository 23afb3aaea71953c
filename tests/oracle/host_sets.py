# SPDX-License-Identifier: Apache-2.0
"""Random programs run with each of the host's sets of kernels in turn, and with one thread and two: what the oracle says
holds for all of them."""

import os
import re
import subprocess

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "pccx", "softmax.s")


class HostSets:
    def __init__(self, trivet):
        p = subprocess.run([trivet, "run", PROGRAM, "--kernels", "?"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        found = re.search(r"this host has ([a-z0-9 ]+)", p.stderr.decode("utf-8", "replace"))
        if not found:
            raise SystemExit("%s run --kernels ? does not say which kernels there are" % trivet)
        self.names = found.group(1).split()

    def arguments(self, seed):
        return ["--kernels", self.names[seed % len(self.names)], "--threads", str(1 + seed // len(self.names) % 2)]
