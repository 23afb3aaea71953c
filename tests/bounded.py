# SPDX-License-Identifier: Apache-2.0
"""For tests of damaged and hostile files: runs the command under bounds of time and memory, and counts what was as expected."""

import json
import os
import subprocess
import sys
import threading


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


class Bounded:
    def __init__(self, trivet, folder, seconds, megabytes):
        self.trivet, self.folder = os.path.abspath(trivet), folder
        self.seconds, self.megabytes = seconds, megabytes
        self.passed = self.failed = 0
        self.launcher = subprocess.Popen([sys.executable, os.path.abspath(__file__)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def close(self):
        self.launcher.stdin.close()
        self.launcher.wait()

    def count(self, name, wrong):
        self.passed += not wrong
        self.failed += bool(wrong)
        if wrong and self.failed < 60:
            print("%s: %s" % (name, wrong))

    def run(self, arguments):
        """Exit status, the first MiB of all text, and what is wrong with time or memory."""
        self.launcher.stdin.write(json.dumps([self.seconds, self.folder, self.trivet] + list(arguments)) + "\n")
        self.launcher.stdin.flush()
        status, kilobytes, text = json.loads(self.launcher.stdout.readline())
        wrong = None
        if status < 0:
            wrong = "killed by signal %d" % -status
        elif "Sanitizer" in text or "runtime error" in text:
            wrong = "a sanitizer complains: " + text[:300]
        elif kilobytes > self.megabytes << 10:
            wrong = "%d MB" % (kilobytes >> 10)
        return status, text, wrong


if __name__ == "__main__":
    launch()
