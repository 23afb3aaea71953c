#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Outputs and inputs of commands that a signal, a full disk or another process disturbs.

    signals.py TRIVET FILES_LIBRARY MODEL

FILES_LIBRARY (files.c) takes abilities from the file system: the ways of a command around them leave nothing behind either.
"""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from suite import ROOT, Suite, parse_arguments  # noqa: E402

SOFTMAX = os.path.join(ROOT, "examples/pccx/softmax.s")
MACROS = os.path.join(ROOT, "tests/golden/macros.s")
NAMED = {"TRIVET_NO_UNNAMED_FILES": "1"}
SECONDS = 60


NUMBERS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGQUIT, signal.SIGXCPU, signal.SIGXFSZ]


class Signals(Suite):
    def __init__(self, options):
        super().__init__(options.trivet, options)
        self.library = os.path.abspath(options.files_library)
        self.model = os.path.abspath(options.model)
        self.folders = 0
        self.long_program = self.write("long.s", ".target opennpu\n" + "vmin vx3, vx0, vx1\n" * 1000000)
        self.expect("the long program", self.call("asm", self.long_program, "-o", "long.bin")[0] == 0)
        self.long_program = self.path("long.bin")

    def new_folder(self):
        self.folders += 1
        path = self.path("out%d" % self.folders)
        os.mkdir(path)
        return path

    def start(self, *arguments, environment=None, prepare=None, **streams):
        def set_signals():
            for number in NUMBERS:  # a suite that runs in the background inherits ignored ones
                signal.signal(number, signal.SIG_DFL)
            if prepare:
                prepare()

        preload = {"LD_PRELOAD": self.library} if environment else {}
        streams = dict({"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}, **streams)
        return subprocess.Popen([self.trivet, *arguments], cwd=self.folder, env=dict(os.environ, **preload, **(environment or {})),
                                preexec_fn=set_signals, **streams)

    def finish_process(self, process):
        out, err = process.communicate(timeout=SECONDS)
        return process.returncode, out, err.decode("utf-8", "replace")


def wait_for_output(process, folder):
    """Until the process writes a file in the folder, with or without a name."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        for fd in os.listdir("/proc/%d/fd" % process.pid):
            try:
                link = os.readlink("/proc/%d/fd/%s" % (process.pid, fd))
            except OSError:
                continue
            if link.startswith(folder + "/") and os.stat("/proc/%d/fd/%s" % (process.pid, fd)).st_size > 100000:
                return
        time.sleep(0.01)
    raise AssertionError("the command wrote nothing: %s" % (process.poll(),))


def signals_leave_nothing(t):
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGQUIT, signal.SIGXCPU]
    for number in numbers + [signal.SIGKILL]:
        for environment in ({}, NAMED) if number != signal.SIGKILL else ({},):
            name = "%s%s" % (number.name, ", named temporary files" if environment else "")
            folder = t.new_folder()
            no_core = lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # noqa: E731
            p = t.start("run", t.long_program, "-t", "opennpu", "--trace", folder + "/t.json", "--report", folder + "/r.html",
                        environment=environment, prepare=no_core)
            wait_for_output(p, folder)
            p.send_signal(number)
            status, _, err = t.finish_process(p)
            t.equal(name + ": ends by it", status, -number)
            t.equal(name + ": what is left", os.listdir(folder), [])
            if number not in (signal.SIGPIPE, signal.SIGKILL):
                pattern = r"^trivet: stopped by %s while running, \d+ of 1000000 \(\d+ %%\), after \d+ s\n$" % number.name
                t.expect(name + ": says how far it came", re.search(pattern, err), err)


def old_files_survive(t):
    for environment in ({}, NAMED):
        folder = t.new_folder()
        for name in ("t.json", "r.html"):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write("old")
        p = t.start("run", t.long_program, "-t", "opennpu", "--trace", folder + "/t.json", "--report", folder + "/r.html",
                    environment=environment)
        wait_for_output(p, folder)
        p.send_signal(signal.SIGTERM)
        t.finish_process(p)
        t.equal("old files: names", sorted(os.listdir(folder)), ["r.html", "t.json"])
        t.equal("old files: contents", read_all(folder), {"r.html": b"old", "t.json": b"old"})


def ignored_signals_stay_ignored(t):
    folder = t.new_folder()
    p = t.start("run", t.long_program, "-t", "opennpu", "--trace", folder + "/t.json",
                prepare=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_for_output(p, folder)
    p.send_signal(signal.SIGHUP)
    status, _, err = t.finish_process(p)
    t.equal("SIGHUP under nohup", (status, os.listdir(folder)), (0, ["t.json"]))
    t.equal("SIGHUP under nohup: stderr", err, "")


def file_size_limit(t):
    for environment in ({}, NAMED):
        folder = t.new_folder()
        p = t.start("run", t.long_program, "-t", "opennpu", "--trace", folder + "/t.json", environment=environment,
                    prepare=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
        status, _, err = t.finish_process(p)
        t.equal("a file size limit", (status, os.listdir(folder)), (3, []))
        t.expect("a file size limit: message", "t.json': File too large [TV-F002]" in err, err)


def closed_output(t):
    folder = t.new_folder()
    arguments = ["asm", SOFTMAX, "-o", folder + "/a.hex", "-l", "/dev/stdout"]
    reader, writer = os.pipe()
    os.close(reader)
    p = t.start(*arguments, stdout=writer)
    t.equal("a closed pipe", (t.finish_process(p)[0], os.listdir(folder)), (-signal.SIGPIPE, []))
    p = t.start(*arguments, stdout=writer, prepare=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN))
    os.close(writer)
    status, _, err = t.finish_process(p)
    t.equal("a closed pipe, SIGPIPE ignored", (status, os.listdir(folder)), (3, []))
    t.expect("a closed pipe, SIGPIPE ignored: message", "Broken pipe" in err, err)
    for command in (["isa", "pccx"], ["config", "pccx-kv260"], ["help"], ["dis", SOFTMAX], ["check", SOFTMAX, "--json"]):
        p = t.start(*command, prepare=lambda: os.close(1), stdout=None)
        status, _, err = t.finish_process(p)
        t.equal("%s without standard output" % command[0], status, 3)
        t.expect("%s without standard output: message" % command[0], "cannot write to standard output" in err, err)


def long_names(t):
    for environment in ({}, NAMED):
        folder = t.new_folder()
        names = [c * (255 - len(end)) + end for c, end in (("a", ".elf"), ("l", ".lst"), ("t", ".json"), ("r", ".html"))]
        paths = [os.path.join(folder, name) for name in names]
        for attempt in ("new", "existing"):
            p = t.start("asm", SOFTMAX, "-o", paths[0], "-l", paths[1], environment=environment)
            t.equal("names of 255 bytes, %s: asm" % attempt, t.finish_process(p)[::2], (0, ""))
            p = t.start("run", "-q", paths[0], "--trace", paths[2], "--report", paths[3], environment=environment)
            t.equal("names of 255 bytes, %s: run" % attempt, t.finish_process(p)[::2], (0, ""))
            t.equal("names of 255 bytes, %s" % attempt, sorted(os.listdir(folder)), sorted(names))
        p = t.start("asm", SOFTMAX, "-o", os.path.join(folder, "a" * 256), environment=environment)
        status, _, err = t.finish_process(p)
        t.expect("a name of 256 bytes", status == 3 and "File name too long" in err, err)


def links_are_followed(t):
    folder = t.new_folder()
    os.mkdir(folder + "/there")
    os.symlink("there/a.hex", folder + "/new.hex")
    os.symlink("new.hex", folder + "/chain.hex")
    for name in ("new.hex", "chain.hex"):
        t.equal("a link: " + name, t.call("asm", SOFTMAX, "-o", os.path.join(folder, name))[0], 0)
    t.expect("a link stays a link", os.path.islink(folder + "/new.hex") and os.path.isfile(folder + "/there/a.hex"))
    t.equal("a link: files", os.listdir(folder + "/there"), ["a.hex"])
    os.symlink("loop", folder + "/loop")
    status, _, err = t.call("asm", SOFTMAX, "-o", folder + "/loop", "--format", "hex")
    t.expect("a loop of links", status == 3 and "Too many levels" in err, err)


def read_all(folder):
    found = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = file.read()
    return found


def all_or_none(t):
    """Each step of putting several files in place fails once."""
    commands = {"asm": ["asm", MACROS, "-o", "{O}/a.hex", "-l", "{O}/a.lst"],
                "run": ["run", "-q", SOFTMAX, "--trace", "{O}/t.json", "--perfetto", "{O}/p.json", "--report", "{O}/r.html"]}
    for kind, command in commands.items():
        for setting in ({}, NAMED, {"TRIVET_NO_EXCHANGE": "1"}, dict(NAMED, TRIVET_NO_EXCHANGE="1")):
            for existing in ([], ["a.lst", "p.json"], ["a.hex", "a.lst", "t.json", "p.json", "r.html"]):
                place_files(t, kind, command, setting, existing)


def place_files(t, kind, command, setting, existing):
    name = "%s, %s, existing %s" % (kind, sorted(setting), existing)
    expected = None
    for n in range(60):
        folder = t.new_folder()
        for old in existing:
            with open(os.path.join(folder, old), "wb") as file:
                file.write(b"old")
        before = read_all(folder)
        p = t.start(*[a.replace("{O}", folder) for a in command], environment=dict(setting, TRIVET_FAIL_NAME=str(n)))
        status, _, err = t.finish_process(p)
        found = read_all(folder)
        if n == 0:
            t.equal(name + ": undisturbed", status, 0)
            t.expect(name + ": writes all files", len(found) >= 2 and b"old" not in
                     [data for file, data in found.items() if kind == ("asm" if file.startswith("a.") else "run")])
            expected = found
        elif status == 0:
            t.equal(name + ": all files, step %d" % n, found, expected)
            t.expect(name + ": steps", n > 2, n)
            return
        else:
            t.equal("%s: step %d" % (name, n), status, 3)
            t.expect("%s: message of step %d" % (name, n), "No space left" in err, err)
            t.equal("%s: files of step %d" % (name, n), found, before)
    t.check(name, "never succeeds")


def shrink(t, kind, path, fifo, *arguments):
    """Runs a command that maps `path` and then waits for the other end of `fifo`; meanwhile the file shrinks."""
    p = t.start(*arguments)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and p.poll() is None and path not in read_maps(p.pid):
        time.sleep(0.01)
    time.sleep(0.2)
    os.truncate(path, 0)
    end = os.open(fifo, os.O_RDWR)
    os.write(end, b"to be or not to be")
    if "llm" in arguments:
        time.sleep(0.5)  # until the command has opened its end
        os.close(end)
    status, _, err = t.finish_process(p)
    t.equal(kind + " that shrinks", status, 3)
    t.expect(kind + " that shrinks: message", "%s': it became shorter while it was read [TV-F001]" % path in err, err)


def read_maps(pid):
    try:
        with open("/proc/%d/maps" % pid, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def shrunk_inputs(t):
    model, queue, fifo = t.path("model.gguf"), t.path("q.json"), t.path("fifo")
    shutil.copy(t.model, model)
    shutil.copy(os.path.join(ROOT, "examples/cmdq/ffn.json"), queue)
    os.mkfifo(fifo)
    shrink(t, "a model", model, fifo, "llm", model, "--eval", fifo, "-n", "4")
    shrink(t, "a queue", queue, fifo, "asm", queue, "-o", fifo, "--format", "json")


def main():
    options = parse_arguments(__doc__, "trivet", "files_library", "model")
    t = Signals(options)
    t.run_tests([signals_leave_nothing, old_files_survive, ignored_signals_stay_ignored, file_size_limit, closed_output, long_names,
                 links_are_followed, all_or_none, shrunk_inputs], t)
    return t.finish()


if __name__ == "__main__":
    sys.exit(main())
