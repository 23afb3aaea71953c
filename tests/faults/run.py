#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands on a host whose memory, files and disk fail at one call.

    run.py TRIVET INJECT_LIBRARY [--runs N | --all] [--seed S] [--jobs J] [-k NAME] [--from NAME] [--only KIND] [--verbose]

For each command of matrix.txt the calls of an undisturbed run are counted. Then runs follow in which
- the n-th allocation fails, and in others all from the n-th on (LD_PRELOAD of INJECT_LIBRARY; KIND allocations);
- the n-th open, read, write, mmap, close, fsync, rename and so on after the start of main fails (strace; KIND calls);
- the address space is limited (RLIMIT_AS), from what the shortest command needs to what this one does, with
  --runs to up to an eighth less (KIND memory).

A run passes when its exit status, standard output, messages and files are those of the undisturbed run, or when it ends
with exit status 3 and a message and has left no file. Nothing else passes. Without memory the message must be the one of
out of memory. --runs bounds the runs of a command and kind, spread evenly, others with another --seed; --all tries all; --from begins at a command.
"""

import collections
import concurrent.futures
import hashlib
import json
import os
import queue
import random
import re
import resource
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "llm")]
import random_model  # noqa: E402
import suite  # noqa: E402
from suite import ROOT, Suite, parse_arguments  # noqa: E402

suite.PROBLEMS_MAX = 1000

# System calls and the error that each fails with: not brk, which returns no errors. A '?' is for those that not every
# architecture has.
CALLS = {"open": "EMFILE", "openat": "EMFILE", "read": "EIO", "pread64": "EIO", "write": "ENOSPC", "pwrite64": "ENOSPC",
         "writev": "ENOSPC", "mmap": "ENOMEM", "mremap": "ENOMEM", "close": "EIO", "fsync": "EIO", "rename": "ENOSPC",
         "renameat": "ENOSPC", "renameat2": "ENOSPC", "linkat": "ENOSPC", "ftruncate": "EIO", "newfstatat": "EIO", "fstat": "EIO",
         "lseek": "EIO", "mkdir": "ENOSPC", "fcntl": "EMFILE", "clone3": "EAGAIN"}
TRACE = ",".join("?" + call for call in CALLS)
NO_MEMORY = re.compile(r"(?m)error: .+ \[TV-F004\]$")
MESSAGE = re.compile(r"(?m)error: .+ \[TV-\w+\]$")
# What differs from run to run.
SECONDS_OF_HOST = re.compile(rb'"(?:prompt_)?host_seconds": [0-9.e-]+')
LOADER = "error while loading shared libraries"  # the command has not started
SECONDS = 120
STEPS = 64  # of a complete sweep of the address space

Outcome = collections.namedtuple("Outcome", "status out err files")
Run = collections.namedtuple("Run", "name kind arguments expected prefix environment limit no_memory", defaults=((), None, None, False))


def frame_session(program, parameters, memory):
    """The messages of an editor: a launch, breakpoints, runs with every request for what is shown, the end."""
    thread = {"threadId": 1}
    path = os.path.join(ROOT, "examples", program)
    requests = [("initialize", {}), ("launch", {"program": path, "parameters": parameters, "stopOnEntry": True}),
                ("setBreakpoints", {"source": {"path": path}, "breakpoints": [{"line": 12, "condition": memory.replace(" ", ":") + " == 0"}]}),
                ("setInstructionBreakpoints", {"breakpoints": [{"instructionReference": "0x3"}]}),
                ("setDataBreakpoints", {"breakpoints": [{"dataId": memory + " 16", "accessType": "write"}]}), ("configurationDone", {}),
                ("threads", {}), ("stackTrace", thread), ("scopes", {"frameId": 1}), ("variables", {"variablesReference": 1}),
                ("variables", {"variablesReference": 2}), ("variables", {"variablesReference": 3}), ("next", thread), ("stackTrace", thread),
                ("disassemble", {"memoryReference": "0x1", "instructionOffset": -1, "instructionCount": 4}),
                ("readMemory", {"memoryReference": memory, "count": 32}),
                ("writeMemory", {"memoryReference": memory, "data": "AQIDBA=="}), ("evaluate", {"expression": "info engines", "context": "repl"}),
                ("completions", {"text": "inf", "column": 4}), ("stepBack", thread), ("continue", thread), ("stackTrace", thread),
                ("continue", thread), ("exceptionInfo", thread), ("disconnect", {})]
    messages = [json.dumps({"seq": i + 1, "type": "request", "command": command, "arguments": arguments})
                for i, (command, arguments) in enumerate(requests)]
    return "".join("Content-Length: %d\r\n\r\n%s" % (len(m), m) for m in messages)


# An ONNX file: y = Relu(x) of four numbers.
RELU = (b"\x08\x07\x12\x00:3\n\x0c\n\x01x\x12\x01y\"\x04Relu\x12\x01gZ\x0f\n\x01x\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x04"
        b"b\x0f\n\x01y\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x04B\x04\n\x00\x10\r")


class SmallModel(random_model.Model):
    """A model with the operators of a larger one; a run takes milliseconds."""

    def __init__(self, arch, options, **dims):
        super().__init__(arch, options, **(dims | {"embedding": 32, "heads": 2, "kv_heads": 1, "head": 16, "ff": 64, "layers": 2}))


def write_model(path):
    random_model.Model = SmallModel
    random_model.write("llama", path, "Q8_0", vocabulary=320)


class Faults(Suite):
    def __init__(self, options):
        super().__init__(options.trivet, options)
        self.library = os.path.abspath(options.inject_library)
        self.random = random.Random(options.seed)
        self.runs = 0 if options.all else options.runs
        self.inputs = self.path("inputs")
        self.counts = collections.Counter()
        self.folders = queue.Queue()
        for i in range(options.jobs):
            self.folders.put(self.path("outputs%d" % i))
        os.mkdir(self.inputs)
        self.make_inputs()
        self.shortest = self.find_limit(["version"], 1 << 20)

    def make_inputs(self):
        examples = os.path.join(ROOT, "examples")
        for arguments in (["asm", os.path.join(examples, "pccx/attention.s"), "-o", "a.elf"],
                          ["asm", os.path.join(examples, "opennpu/gelu.s"), "-o", "g.hex"],
                          ["run", "-q", os.path.join(examples, "pccx/softmax.s"), "--trace", "t.json"],
                          ["run", "-q", os.path.join(examples, "pccx/pipeline.s"), "--trace", "u.json"],
                          ["run", "-q", os.path.join(examples, "pccx/pipeline.s"), "--trace", "u.json.zst"],
                          ["run", "-q", os.path.join(examples, "pccx/pipeline.s"), "--trace", "u.pftrace"],
                          ["run", "-q", os.path.join(examples, "pccx/pipeline.s"), "--perfetto", "p.json"]):
            self.expect(" ".join(arguments), self.call(*arguments, cwd=self.inputs)[0] == 0)
        self.write("inputs/script.txt", "step 3\nwhere\nback\nbreak 5\ncontinue\nwhy\ninfo engines\ninfo registers\ninfo queues\nprint 1 + 2\n")
        self.write("inputs/text.txt", "ROMEO:\nWhat light through yonder window breaks\n")
        self.write("inputs/trace.txt", "trace on t.json\nstep 3\ncontinue\n")
        self.write("inputs/trace-packed.txt", "step 2\ntrace on t.json.zst perfetto\ncontinue\n")
        self.write("inputs/pccx.dap", frame_session("pccx/softmax.s", {"host.bytes": "64Ki"}, "l2 0"))
        self.write("inputs/cmdq.dap", frame_session("cmdq/kv.json", {"dram.bytes": "128Ki"}, "dram 0"))
        write_model(self.path("inputs/model.gguf"))
        with open(self.path("inputs/relu.onnx"), "wb") as file:
            file.write(RELU)
        subprocess.run([self.trivet, "compile", "relu.onnx", "-t", "cmdq", "-o", "net", "-q"], cwd=self.path("inputs"), check=True)
        subprocess.run([self.trivet, "infer", "relu.onnx", "-q", "--output", "y=y.npy"], cwd=self.path("inputs"), check=True)
        self.write("inputs/w.memh", "@1 1234 // another value\n")
        self.write("inputs/m.ini", "[profile]\ntarget = pccx\n[l2]\nwords = 8192\n")
        self.write("inputs/wrong.ini", "[profile]\ntarget = pccx\n[l2]\nword = 8192\n")

    # ---- One run ----

    def start(self, folder, arguments, prefix=(), environment=None, limit=None):
        """Runs a command in an empty folder, which is the one for temporary files, too."""
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        text = [a.replace("{S}", ROOT).replace("{F}", self.inputs) for a in arguments]
        data = subprocess.DEVNULL
        if "<" in text:
            data = os.open(text[-1], os.O_RDONLY)
            text = text[:text.index("<")]
        bound = (lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))) if limit else None
        try:
            p = subprocess.run([*prefix, self.trivet, *text], cwd=folder, stdin=data, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, timeout=SECONDS, env=dict(os.environ, TMPDIR=folder, **(environment or {})),
                               preexec_fn=bound, check=False)
        except subprocess.TimeoutExpired:
            return Outcome("timeout", b"", "", {})
        finally:
            if data != subprocess.DEVNULL:
                os.close(data)
        files = {}
        for path, _, names in os.walk(folder):
            for name in names:
                with open(os.path.join(path, name), "rb") as file:
                    files[os.path.relpath(os.path.join(path, name), folder)] = hashlib.sha256(file.read()).hexdigest()
        return Outcome(p.returncode, SECONDS_OF_HOST.sub(b"", p.stdout), p.stderr.decode("utf-8", "replace"), files)

    def call_in_folder(self, *arguments, **options):
        folder = self.folders.get()
        try:
            return self.start(folder, *arguments, **options)
        finally:
            self.folders.put(folder)

    def find_limit(self, arguments, low, steps=0):
        """The smallest limit of the address space with which a command does what it does without one, to 64 KiB. With `steps` a limit
        with which it does not, in the last of so many steps from `low` to that one."""
        expected = self.call_in_folder(arguments)
        start, size = low, 1 << 20
        while size <= 1 << 36 and self.call_in_folder(arguments, limit=low + size) != expected:
            low, size = low + size, 2 * size
        high = low + size
        self.expect("%s: runs with a limit of 64 GiB" % " ".join(arguments[:2]), size <= 1 << 36)
        while high - low > max(1 << 16, (high - start) // steps if steps else 0):
            middle = (low + high) // 2
            if self.call_in_folder(arguments, limit=middle) == expected:
                high = middle
            else:
                low = middle
        return low if steps else high

    @staticmethod
    def assess(run, found):
        """A word for the outcome of a disturbed run, and what is wrong with it or None."""
        expected = run.expected
        if found.status == 127 and LOADER in found.err:
            return "not started", None
        if found.status == 3:
            other = [line for line in MESSAGE.findall(found.err) if line not in expected.err]
            if len(other) != 1 or run.no_memory and not NO_MEMORY.match(other[0]):
                return "exit status 3", "other messages than the one of the failure: %r" % found.err[-300:]
            return "exit status 3", found.files and "exit status 3, but files are left: %s" % sorted(found.files)
        if found.status != expected.status:
            return "as undisturbed", "exit status %s, undisturbed %s: %s" % (found.status, expected.status, found.err[-300:])
        if found.files != expected.files:
            return "as undisturbed", "the output files differ: %s" % sorted(set(found.files.items()) ^ set(expected.files.items()))[:3]
        if found.out != expected.out:
            return "as undisturbed", "the text on standard output differs"
        return "as undisturbed", found.err != expected.err and "the messages differ: %r, undisturbed %r" % (found.err[-300:], expected.err[-300:])

    def execute(self, run):
        return self.assess(run, self.call_in_folder(run.arguments, run.prefix, run.environment, run.limit))

    # ---- What to run ----

    def sample(self, calls, runs):
        """The numbers of the calls to fail: all, or so many, spread evenly."""
        if not self.runs or calls <= runs:
            return range(1, calls + 1)
        first = self.random.random()
        return sorted({min(calls, 1 + int((first + i) * calls / runs)) for i in range(runs)})

    def allocations(self, name, arguments, expected):
        count_file = self.path("count")
        self.call_in_folder(arguments, environment={"LD_PRELOAD": self.library, "TRIVET_COUNT_ALLOCATIONS": count_file})
        with open(count_file, encoding="utf-8") as file:
            calls = int(file.read())
        self.expect(name + ": allocations are counted", calls > 0, "none")
        for n in self.sample(calls, self.runs):
            for sticky in ("", "+") if not self.runs else [self.random.choice(("", "+"))]:
                yield Run("%s: allocation %d%s of %d" % (name, n, sticky, calls), "allocations", arguments, expected, no_memory=True,
                          environment={"LD_PRELOAD": self.library, "TRIVET_FAIL_ALLOCATION": "%d%s" % (n, sticky)})

    def calls(self, name, arguments, expected):
        log = self.path("strace")
        strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-o"]
        self.call_in_folder(arguments, [*strace, log, "-e", "trace=rt_sigaction," + TRACE])
        with open(log, encoding="utf-8", errors="replace") as file:
            names = re.findall(r"(?m)^\d+ +(\w+)\(", file.read())
        counts, before = collections.Counter(names), collections.Counter(names[:names.index("rt_sigaction")])
        runs = [(call, n) for call in CALLS for n in range(before[call] + 1, counts[call] + 1)]
        for i in self.sample(len(runs), self.runs):
            call, n = runs[i - 1]
            yield Run("%s: %s %d of %d" % (name, call, n, counts[call]), "calls", arguments, expected,
                      [*strace, os.devnull, "-e", "trace=" + call, "-e", "inject=%s:error=%s:when=%d" % (call, CALLS[call], n)])

    def memory(self, name, arguments, expected):
        needed = self.find_limit(arguments, self.shortest - (1 << 16), 8 if self.runs else 0)
        steps = self.sample(STEPS, max(1, self.runs // 2))
        for i in steps:
            limit = self.shortest + (needed - self.shortest) * (i - 1) // STEPS
            yield Run("%s: address space of %d KiB" % (name, limit >> 10), "memory", arguments, expected, limit=limit, no_memory=True)


def read_matrix():
    with open(os.path.join(HERE, "matrix.txt"), encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                name, *arguments = line.split()
                yield name, arguments


def main():
    options = parse_arguments(__doc__, "trivet", "inject_library", extra=[
        ("--runs", 8), ("--all", False), ("--seed", 1), ("--jobs", 1), ("--only", ""), ("--from", ""), ("--verbose", False)])
    t = Faults(options)
    first = getattr(options, "from")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        every = options.all or options.word or first
        for name, arguments in read_matrix() if every else suite.sample(read_matrix()):
            first = "" if name == first else first
            if options.word not in name or first:
                continue
            began = time.monotonic()
            expected = t.call_in_folder(arguments)
            if expected != t.call_in_folder(arguments) or expected.status not in (0, 1, 2):
                t.check(name + ": the same twice", "exit status %s: %s" % (expected.status, expected.err[:300]))
                continue
            runs = [run for make in (t.allocations, t.calls, t.memory) if options.only in make.__name__ for run in make(name, arguments, expected)]
            failed = t.failed
            for run, (word, problem) in zip(runs, pool.map(t.execute, runs)):
                t.counts[run.kind] += 1
                t.counts[word] += 1
                t.check(run.name, problem)
            if options.verbose:
                print("%s: %d runs, %d failed, %d s" % (name, len(runs), t.failed - failed, time.monotonic() - began), flush=True)
    print(", ".join("%s: %d" % item for item in sorted(t.counts.items())))
    return t.finish()


if __name__ == "__main__":
    sys.exit(main())
