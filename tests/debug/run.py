#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Transcripts of the debugger, and its terminal.

    run.py TRIVET [--rebase]

NAME.cmd has the commands, and in its first line the arguments of `trivet debug`; NAME.out is the expected output when they are read
from a pipe and echoed (-v). --rebase rewrites the .out files. Then a pseudo-terminal: prompt, completion by Tab, history, Ctrl-C."""
import glob
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from suite import ROOT, SAMPLE, Suite, parse_arguments, sample  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
WAIT = 200


def transcript(trivet, path):
    with open(path) as f:
        commands = f.read()
    args = re.match(r"# args: (.*)\n", commands)[1].split()
    p = subprocess.run([trivet, "debug", "-v"] + args, input=commands.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT, timeout=WAIT)
    text = p.stdout.decode()
    if "--json" in args:
        for line in text.splitlines():
            json.loads(line)
    return text + "exit %d\n" % p.returncode


class Terminal:
    """`trivet debug` on a pseudo-terminal."""

    def __init__(self, trivet, *args):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            # libedit keeps the names of functions that are added to it, which the leak checker counts
            os.execve(trivet, [trivet, "debug"] + list(args), dict(os.environ, TERM="dumb", COLUMNS="200", LSAN_OPTIONS="detect_leaks=0", ASAN_OPTIONS="detect_leaks=0"))
        self.received = ""

    def expect(self, pattern):
        """Reads until `pattern` matches; consumes and returns the text up to the end of the match."""
        end = time.time() + WAIT
        while True:
            found = re.search(pattern, self.received)
            if found:
                text, self.received = self.received[:found.end()], self.received[found.end():]
                return text
            if not select.select([self.fd], [], [], max(0, end - time.time()))[0]:
                raise AssertionError("timeout waiting for %r; received %r" % (pattern, self.received))
            try:
                data = os.read(self.fd, 4096)
            except OSError:
                data = b""
            if not data:
                raise AssertionError("the process ended before %r; received %r" % (pattern, self.received))
            self.received += data.decode("utf-8", "replace")

    def send(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        self.send("quit\r")
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def terminal_has_completion_and_history(trivet):
    t = Terminal(trivet, "examples/pccx/softmax.s")
    t.expect(r"=> 0  memset")
    t.expect(r"\(trivet 0 @0\) ")
    t.send("ste\t2\r")                       # completes the verb and adds a space
    t.expect(r"=> 2  memset")
    t.expect(r"\(trivet 2 @5\) ")
    t.send("\r")                             # an empty line repeats step
    t.expect(r"=> 4  memcpy")
    t.expect(r"\(trivet 4 @7\) ")
    t.send("dis\t\t")                        # the common prefix, then the list of candidates
    t.expect(r"disable display disas")
    t.send("\x15info reg\t\r")
    t.expect(r"e_max +0 \(0x0000\)")
    t.expect(r"\(trivet 4 @7\) ")
    t.send("\x1b[A\r")                       # previous line
    t.expect(r"e_max +0 \(0x0000\)")
    t.expect(r"\(trivet 4 @7\) ")
    t.send("x/1 l2:\t0\r")
    t.expect(r"l2:0x0 +0")
    t.expect(r"\(trivet 4 @7\) ")
    t.send("stpe\r")
    t.expect(r"did you mean 'step'")
    t.expect(r"\(trivet 4 @7\) ")
    t.send("nex\r")                          # also after an abbreviated name
    t.expect(r"=> 5  gemv")
    t.expect(r"@8\) ")
    t.send("\r")
    t.expect(r"=> 6  cvo")
    t.expect(r"@79\) ")
    t.send("where\r\r")                      # but not after other commands
    t.expect(r"=> 6  cvo")
    t.expect(r"@79\) [^=]*@79\) ")
    assert t.end() == 0


def control_c_interrupts_a_run(trivet):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "long.s")
        with open(path, "w") as f:
            f.write("        .target opennpu\n" + "mma.reset\n" * 4000000)
        t = Terminal(trivet, path)
        t.expect(r"@0\) ")
        t.send("rwatch mem:0\r")             # checked at each instruction: takes seconds
        t.expect(r"@0\) ")
        t.send("continue\r")
        time.sleep(0.3)
        os.kill(t.pid, signal.SIGINT)
        t.expect(r"interrupted")
        t.expect(r"\(trivet (\d+) @\d+\) ")
        t.send("back 1000\r")
        t.expect(r"=> \d+  mma.reset")
        t.expect(r"@\d+\) ")
        assert t.end() == 0


def scripts_run_before_the_terminal(trivet):
    with tempfile.TemporaryDirectory() as folder:
        inner, outer, trace = (os.path.join(folder, name) for name in ("inner", "outer", "trace.json"))
        with open(inner, "w") as f:
            f.write("step 2\n")
        with open(outer, "w") as f:
            f.write("source %s\ntrace on %s\nstep 3\nback\n" % (inner, trace))
        p = subprocess.run([trivet, "debug", "examples/pccx/softmax.s", "-x", outer], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, cwd=ROOT, timeout=WAIT)
        text = p.stdout.decode()
        assert "=> 2  memset" in text and "=> 5  gemv" in text, text
        assert p.returncode == 2 and "trace off" in p.stderr.decode(), p
        with open(trace) as f:
            events = json.load(f)
        assert events, events  # an open trace is finished at the end
        with open(inner, "w") as f:
            f.write("source %s\n" % inner)
        p = subprocess.run([trivet, "debug", "examples/pccx/softmax.s", "-x", inner], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, cwd=ROOT, timeout=WAIT)
        assert p.returncode == 2 and b"TV-D006" in p.stderr, p


def long_runs_go_back(trivet):
    """Millions of instructions (a sample has fewer), and little memory for snapshots."""
    every = 1000000 // SAMPLE
    last = 3 * every - 1000
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "long.s")
        with open(path, "w") as f:
            f.write("        .target opennpu\n        .rept %d\n        vadd vx1, vx1, vx2\n        mma vx1, vx1\n        mma.last vr3\n        .endr\n" % every)
        commands = "set vx:2:s8 = 1\nstep %d\nx/2 s8 vx:1\nback 100\nx/2 s8 vx:1\nstep 100\nx/2 s8 vx:1\nback %d\nx/2 s8 vx:1\ninfo history\n" % (last, last // 2)
        for memory in ("1Mi", "1Ki"):
            p = subprocess.run([trivet, "debug", path, "-c", "test", "--snapshot-memory", memory, "--json", "--line-limit", "3000000"], input=commands.encode(), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, timeout=WAIT)
            answers = [json.loads(line) for line in p.stdout.splitlines()]
            positions = [a["stop"]["position"] for a in answers if "stop" in a]
            assert positions == [0, last, last - 100, last, last - last // 2], positions
            # vx1 counts the additions so far, in signed 8 bits
            lanes = [a["memory"]["values"][0] for a in answers if "memory" in a]
            assert lanes == [(((p + 2) // 3 + 128) % 256) - 128 for p in positions[1:]] or lanes == [min((p + 2) // 3, 127) for p in positions[1:]], lanes
            assert answers[-1]["bytes"] <= {"1Mi": 1 << 20, "1Ki": 1 << 10}[memory]


def nothing_is_pending_at_the_end(trivet):
    """The last instruction of each program takes many cycles; before the end it is in flight, at the end nothing is."""
    programs = (("examples/pccx/softmax.s", "info pending\ninfo hazards\n"), ("end.s", "info pending\n"), ("examples/cmdq/prefetch.json", "info pending\n"))
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "end.s"), "w") as f:
            f.write("        .target opennpu\n        ld.vx   vx1, 0(vr7)\n        ld.vx   vx0, 0(vr7)\n")
        for name, questions in programs:
            path = os.path.join(ROOT if "/" in name else folder, name)
            p = subprocess.run([trivet, "debug", "-q", "--json", path], input=("continue\n" + questions).encode(), stdout=subprocess.PIPE, timeout=WAIT)
            answers = [json.loads(line) for line in p.stdout.splitlines()]
            values = [v["text"] for a in answers for group in ("pending", "hazards") for v in a.get(group, [])]
            assert len(values) >= 2 and set(values) <= {"nothing", "none", "none left", "free"}, values


def failed_writes_end_the_debugger(trivet):
    for arguments, commands in ((("-q",), "info registers\n"), (("--json",), "step\n"), (("-v",), "help\n")):
        with open("/dev/full", "w") as full:
            p = subprocess.run([trivet, "debug", *arguments, os.path.join(ROOT, "examples/pccx/softmax.s")], input=commands.encode(), stdout=full,
                               stderr=subprocess.PIPE, timeout=WAIT)
        assert p.returncode == 3 and b"cannot write to standard output [TV-F002]" in p.stderr, (p.returncode, p.stderr)


def main():
    options = parse_arguments(__doc__, "trivet")
    t = Suite(options.trivet, options)
    for path in sample(sorted(glob.glob(os.path.join(HERE, "*.cmd")))):
        if t.word in path:
            t.golden(os.path.basename(path), path[:-4] + ".out", transcript(t.trivet, path))
    t.run_tests((terminal_has_completion_and_history, control_c_interrupts_a_run, scripts_run_before_the_terminal, long_runs_go_back, nothing_is_pending_at_the_end,
                 failed_writes_end_the_debugger), t.trivet)
    return t.finish()


sys.exit(main())
