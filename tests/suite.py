# SPDX-License-Identifier: Apache-2.0
"""What the Python test suites share: arguments, counting, golden texts, commands under bounds of time and memory.

A suite makes one Suite, hands it test functions or single checks, and ends with `sys.exit(suite.finish())`, which prints
`N passed, M failed`. Options that every suite takes: -k WORD (only tests whose names contain WORD), --rebase (write golden
texts and show what changed), --sanitized (wider bounds, because a sanitizer takes more time and memory), --times (suites
that use run_tests: how long each test function took, and how many commands it started).
"""

import argparse
import difflib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zlib

sys.dont_write_bytecode = True
os.environ["LC_ALL"] = "C.UTF-8"  # the commands draw bars of characters that are not ASCII
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROBLEMS_MAX = 60  # printed; all are counted
# Of how many cases of its longest loops a suite runs one: TRIVET_SAMPLE, which ./test sets for the build with sanitizers, or
# TRIVET_SAMPLE_LONG, which it sets for the other one, if meson says that the test is one of the longest (TRIVET_LONG).
SAMPLE = int(os.environ.get("TRIVET_SAMPLE", os.environ.get("TRIVET_SAMPLE_LONG", "1") if "TRIVET_LONG" in os.environ else "1"))
SAMPLE_CALLS = itertools.count()
WITHOUT_LEAKS = ":detect_leaks=0"
LEAKS = os.environ.get("ASAN_OPTIONS", "").replace(WITHOUT_LEAKS, "")  # a suite may have started this one
COMMANDS = [0]  # that this process has started


def hash_of(text):
    return zlib.crc32(text.encode())


def sample(cases, most=None):
    """Every case, or every nth with a sample of n, of at most `most`: each call begins at another of the first n, so that short lists
    do not always run the same one. The cases with GCC, whose samples are at most 8, are others than those with sanitizers."""
    cases = tuple(cases)
    step = min(SAMPLE, most or SAMPLE)
    start = (hash_of("call %d" % next(SAMPLE_CALLS)) + (SAMPLE <= 8)) % min(step, len(cases)) if step > 1 and cases else 0
    return cases[start::step]


def is_left_out(name):
    """Under sanitizers, seven of eight cases. Loops of such cases use sample(cases, 4)."""
    return SAMPLE > 8 and hash_of(name) % 8 != 0


def on_command(event, _):
    """Counts commands. With a sample leaks are looked for in one of five: that takes a third of a short command's time."""
    if event != "subprocess.Popen":
        return
    COMMANDS[0] += 1
    if SAMPLE > 1 and "detect_leaks=1" in LEAKS:
        os.environ["ASAN_OPTIONS"] = LEAKS if COMMANDS[0] % 5 == 0 else LEAKS + WITHOUT_LEAKS


sys.addaudithook(on_command)


def parse_arguments(doc, *positional, rest=None, extra=()):
    """The options of every suite and these positional arguments; `rest` names a list that may follow them; `extra` has
    further options with their defaults: False is a flag, a number takes one."""
    ap = argparse.ArgumentParser(description=doc.strip().split("\n")[0])
    for name in positional:
        ap.add_argument(name)
    if rest:
        ap.add_argument(rest, nargs="*")
    ap.add_argument("-k", dest="word", metavar="WORD", default="", help="only tests whose names contain WORD")
    ap.add_argument("--rebase", action="store_true", help="write the golden texts and show what changed")
    ap.add_argument("--sanitized", action="store_true", help="wider bounds of time and memory")
    ap.add_argument("--times", action="store_true", help="how long each test took, and how many commands it started")
    for name, default in extra:
        if default is False:
            ap.add_argument(name, action="store_true")
        else:
            ap.add_argument(name, type=type(default), default=default)
    return ap.parse_intermixed_args()


class Suite:
    def __init__(self, trivet=None, options=None, bounds=(60, 1500)):
        """`bounds`: seconds and megabytes of a command that run_bounded starts."""
        self.trivet = os.path.abspath(trivet) if trivet else None
        self.rebase = bool(options and options.rebase)
        self.word = options.word if options else ""
        self.times = options.times if options else False
        self.bounds = bounds
        self.passed = self.failed = 0
        self.scratch = tempfile.TemporaryDirectory(prefix="trivet-test-")
        self.folder = self.scratch.name
        self.launcher = None

    # ---- Counting ----

    def check(self, name, problem):
        """Counts a check; `problem` says what is not as it should be, or is false."""
        self.passed += not problem
        self.failed += bool(problem)
        if problem and self.failed <= PROBLEMS_MAX:
            print("FAILED %s: %s" % (name, problem), flush=True)

    def expect(self, name, ok, detail=""):
        self.check(name, not ok and (str(detail) or "no"))

    def equal(self, name, found, expected):
        self.check(name, found != expected and "%.300r, expected %.300r" % (found, expected))

    def run_tests(self, tests, *arguments):
        """Calls each test; one that raises counts as a failure, and the others still run."""
        for test in tests:
            if self.word not in test.__name__:
                continue
            begin, commands = time.monotonic(), COMMANDS[0]
            try:
                test(*arguments)
                self.check(test.__name__, None)
            except Exception:  # pylint: disable=broad-except
                self.check(test.__name__, traceback.format_exc())
            if self.times:
                print("%6.1f s, %5d commands: %s" % (time.monotonic() - begin, COMMANDS[0] - commands, test.__name__), flush=True)

    def finish(self):
        """Prints the counts and returns the exit status."""
        if self.launcher:
            self.launcher.stdin.close()
            self.launcher.wait()
        self.scratch.cleanup()
        print("%d passed, %d failed" % (self.passed, self.failed))
        return 1 if self.failed or not self.passed else 0

    # ---- Files ----

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return self.path(name)

    def golden(self, name, path, found):
        """Compares a text with the file that holds the expected one; --rebase writes the file."""
        expected = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                expected = file.read()
        difference = "".join(difflib.unified_diff(expected.splitlines(True), found.splitlines(True), "expected", "found"))
        if difference and self.rebase:
            with open(path, "w", encoding="utf-8") as file:
                file.write(found)
            print("rebased %s\n%s" % (os.path.relpath(path), difference))
            difference = None
        self.check(name, difference and "\n" + difference)

    # ---- Commands ----

    def call(self, *arguments, data=None, cwd=None, seconds=120):
        """Exit status, standard output and standard error (as bytes and text) of the command."""
        p = subprocess.run([self.trivet, *arguments], cwd=cwd or self.folder, input=data if data is not None else b"",
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds, check=False)
        return p.returncode, p.stdout, p.stderr.decode("utf-8", "replace")

    def run_bounded(self, arguments):
        """Exit status, the first MiB of all text, and what is wrong with the command's time or memory."""
        if not self.launcher:
            self.launcher = subprocess.Popen([sys.executable, os.path.abspath(__file__)], stdin=subprocess.PIPE,
                                             stdout=subprocess.PIPE, text=True)
        COMMANDS[0] += 1
        seconds, megabytes = self.bounds
        self.launcher.stdin.write(json.dumps([seconds, self.folder, self.trivet, *arguments]) + "\n")
        self.launcher.stdin.flush()
        status, kilobytes, text = json.loads(self.launcher.stdout.readline())
        problem = None
        if status < 0:
            problem = "killed by signal %d" % -status
        elif "Sanitizer" in text or "runtime error" in text:
            problem = "a sanitizer reports: " + text[:300]
        elif kilobytes > megabytes << 10:
            problem = "%d MB" % (kilobytes >> 10)
        return status, text, problem


def launch():
    """Runs commands that come a line each, in a process that stays small: the kernel counts the parent's memory as the
    child's until its exec."""
    for row in sys.stdin:
        seconds, folder, *command = json.loads(row)
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder)
        timer = threading.Timer(seconds, p.kill)
        timer.start()
        text = p.stdout.read(1 << 20).decode("utf-8", "replace")
        while p.stdout.read(1 << 20):
            pass
        p.stdout.close()
        _, status, usage = os.wait4(p.pid, 0)
        timer.cancel()
        p.returncode = os.waitstatus_to_exitcode(status)
        print(json.dumps([p.returncode, usage.ru_maxrss, text]), flush=True)


if __name__ == "__main__":
    launch()
