#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands on a host whose memory, files and disk fail at one call.

    run.py TRIVET INJECT_LIBRARY [--runs N | --all] [--seed S] [-k NAME]

For each command of matrix.txt: the calls of an undisturbed run are counted, then the n-th allocation (through LD_PRELOAD),
or the n-th open, read, write, mmap, close, fsync, rename and so on (through strace) fails. A run passes when its status,
outputs and text are those of the undisturbed run, or when it ends with exit status 3 and a message and has written nothing
and left nothing behind. Nothing else passes. --runs bounds the runs of a command (spread evenly, other ones with another
--seed); --all tries every call. An address-space limit (RLIMIT_AS) is lowered in steps, too.
"""

import collections
import hashlib
import os
import random
import re
import resource
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from suite import ROOT, Suite, parse_arguments  # noqa: E402

# System calls and the error that each fails with.
CALLS = {"openat": "EMFILE", "read": "EIO", "pread64": "EIO", "write": "ENOSPC", "pwrite64": "ENOSPC", "mmap": "ENOMEM",
         "close": "EIO", "fsync": "EIO", "rename": "ENOSPC", "renameat2": "ENOSPC", "linkat": "ENOSPC", "ftruncate": "EIO",
         "newfstatat": "EIO", "mkdir": "ENOSPC", "clone3": "EAGAIN"}
MESSAGE = re.compile(r"error: .+")
LOADER = "error while loading shared libraries"
SECONDS = 120

Outcome = collections.namedtuple("Outcome", "status out err files")


class Faults(Suite):
    def __init__(self, options):
        super().__init__(options.trivet, options)
        self.library = os.path.abspath(options.inject_library)
        self.random = random.Random(options.seed)
        self.inputs, self.output = self.path("inputs"), self.path("outputs")
        self.counts = collections.Counter()
        os.mkdir(self.inputs)
        self.make_inputs()

    def make_inputs(self):
        examples = os.path.join(ROOT, "examples")
        for arguments in (["asm", os.path.join(examples, "pccx/attention.s"), "-o", "a.elf"],
                          ["run", "-q", os.path.join(examples, "pccx/softmax.s"), "--trace", "t.json"],
                          ["run", "-q", os.path.join(examples, "pccx/pipeline.s"), "--trace", "u.json"]):
            self.expect(" ".join(arguments), self.call(*arguments, cwd=self.inputs)[0] == 0)
        with open(os.path.join(self.inputs, "script.txt"), "w", encoding="utf-8") as file:
            file.write("step 3\nwhere\nback\nbreak 5\ncontinue\nwhy\ninfo engines\n")
        with open(os.path.join(self.inputs, "text.txt"), "w", encoding="utf-8") as file:
            file.write("ROMEO:\nWhat light through yonder window breaks\n")

    def start(self, arguments, prefix=(), environment=None, limit=None):
        """Runs a command with an empty output folder."""
        shutil.rmtree(self.output, ignore_errors=True)
        os.mkdir(self.output)
        text = [a.replace("{S}", ROOT).replace("{F}", self.inputs).replace("{O}", self.output) for a in arguments]
        bound = (lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))) if limit else None
        try:
            p = subprocess.run([*prefix, self.trivet, *text], cwd=self.output, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, timeout=SECONDS, env=dict(os.environ, **(environment or {})), preexec_fn=bound,
                               check=False)
        except subprocess.TimeoutExpired:
            return Outcome("timeout", b"", "", {})
        files = {}
        for folder, _, names in os.walk(self.output):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    files[os.path.relpath(os.path.join(folder, name), self.output)] = hashlib.sha256(file.read()).hexdigest()
        return Outcome(p.returncode, p.stdout, p.stderr.decode("utf-8", "replace"), files)

    def find_problem(self, expected, found):
        """What is wrong with a disturbed run, or None."""
        if found.status == 127 and LOADER in found.err:
            self.counts["not started"] += 1
            return None
        if found.status == 3:
            self.counts["exit status 3"] += 1
            if not MESSAGE.search(found.err):
                return "exit status 3 without a message: %r" % found.err[:200]
            return found.files and "exit status 3, but files are left: %s" % sorted(found.files)
        self.counts["as undisturbed"] += 1
        if found.status != expected.status:
            return "exit status %s, undisturbed %s: %s" % (found.status, expected.status, found.err[:300])
        if found.files != expected.files:
            return "the output files differ: %s" % sorted(set(found.files.items()) ^ set(expected.files.items()))[:3]
        if found.out != expected.out:
            return "the text differs"
        return None

    def sample(self, calls, runs):
        """The numbers of the calls to fail: all, or so many, spread evenly."""
        if not runs or calls <= runs:
            return range(1, calls + 1)
        first = self.random.random()
        return sorted({min(calls, 1 + int((first + i) * calls / runs)) for i in range(runs)})

    def allocations(self, name, arguments, expected, runs):
        count_file = self.path("count")
        self.start(arguments, environment={"LD_PRELOAD": self.library, "TRIVET_COUNT_ALLOCATIONS": count_file})
        with open(count_file, encoding="utf-8") as file:
            calls = int(file.read())
        for n in self.sample(calls, runs):
            for sticky in ("", "+"):
                found = self.start(arguments, environment={"LD_PRELOAD": self.library, "TRIVET_FAIL_ALLOCATION": "%d%s" % (n, sticky)})
                self.check("%s: allocation %d%s of %d" % (name, n, sticky, calls), self.find_problem(expected, found))

    def system_calls(self, name, arguments, expected, runs):
        log = self.path("strace")
        self.start(arguments, ["strace", "-f", "--seccomp-bpf", "-qq", "-o", log, "-e", "trace=" + ",".join(CALLS)])
        with open(log, encoding="utf-8", errors="replace") as file:
            counts = collections.Counter(m[1] for m in re.finditer(r"(?m)^\d+ +(\w+)\(", file.read()))
        for call, error in CALLS.items():
            for n in self.sample(counts[call], runs and max(1, runs // 4)):
                found = self.start(arguments, ["strace", "-f", "--seccomp-bpf", "-qq", "-o", os.devnull, "-e", "trace=" + call, "-e",
                                               "inject=%s:error=%s:when=%d" % (call, error, n)])
                self.check("%s: %s %d of %d" % (name, call, n, counts[call]), self.find_problem(expected, found))

    def address_space(self, name, arguments, expected, runs):
        steps = [m << 20 for m in (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 4096)]
        for limit in steps if not runs else self.random.sample(steps, min(len(steps), max(1, runs // 4))):
            found = self.start(arguments, limit=limit)
            if found.status == -6 or found.status == -11 and not found.err:
                found = found._replace(status=127, err=LOADER) if limit <= 8 << 20 else found
            self.check("%s: address space of %d MiB" % (name, limit >> 20), self.find_problem(expected, found))


def read_matrix():
    with open(os.path.join(HERE, "matrix.txt"), encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                name, *arguments = line.split()
                yield name, arguments


def main():
    options = parse_arguments(__doc__, "trivet", "inject_library", extra=[("--runs", 8), ("--all", False), ("--seed", 1)])
    t = Faults(options)
    runs = 0 if options.all else options.runs
    for name, arguments in read_matrix():
        if options.word not in name:
            continue
        expected = t.start(arguments)
        again = t.start(arguments)
        if expected != again or expected.status not in (0, 1, 2):
            t.check(name + ": runs alike twice", "exit status %s: %s" % (expected.status, expected.err[:300]))
            continue
        t.allocations(name, arguments, expected, runs)
        t.system_calls(name, arguments, expected, runs)
        t.address_space(name, arguments, expected, runs)
    print(", ".join("%s: %d" % item for item in sorted(t.counts.items())))
    return t.finish()


if __name__ == "__main__":
    sys.exit(main())
