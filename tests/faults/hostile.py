#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names and texts that a terminal would obey, in every kind of file: no output of any command has them raw.

    hostile.py TRIVET MODEL
"""

import json
import os
import pty
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from suite import ROOT, Suite, is_left_out, parse_arguments, sample  # noqa: E402

# A color, a cleared screen, a reversed direction, a C1 control, DEL; in bytes also what is not UTF-8.
HOSTILE = "h\x1b[31m\x1b[2J\u202eo\x9bs\x7ft\r\x07\x08"
HOSTILE_BYTES = HOSTILE.encode() + b"\xff\xc0\x80\xed\xa0\x80"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


class Hostile(Suite):
    def run_hostile(self, name, *arguments, data=None):
        """Runs a command and checks its text."""
        if not {"-o", "--trace"} & set(arguments) and is_left_out(name):
            return
        arguments = [a if isinstance(a, str) else os.fsdecode(a) for a in arguments]
        for extra in ([], ["--json"]):
            if extra and arguments[0] in ("asm",) and "-" in arguments:
                continue
            status, out, _ = self.call(*arguments, *extra, data=data)
            self.check_text("%s%s: standard output" % (name, " --json" if extra else ""), out)
            self.expect("%s: exit status" % name, status in (0, 1, 2, 3), status)
            if extra and out and arguments[0] != "debug":
                json.loads(out)
        self.check_errors(name, *arguments, data=data)

    def check_errors(self, name, *arguments, data=None):
        p = subprocess.run([self.trivet, *arguments], cwd=self.folder, input=data or b"", stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, check=False, timeout=60)
        self.check_text(name + ": standard error", p.stderr)

    def check_text(self, name, data):
        try:
            found = RAW.search(data.decode("utf-8"))
            self.check(name, found and "%r in %r" % (found[0], data.decode()[max(0, found.start() - 80):found.end() + 40]))
        except UnicodeDecodeError as error:
            self.check(name, "%s in %r" % (error, data[max(0, error.start - 80):error.end + 40]))

    def write_bytes_named(self, name, data):
        path = os.path.join(os.fsencode(self.folder), name)
        with open(path, "wb") as file:
            file.write(data)
        return path


def sources(t):
    source = b".target pccx\nl: ; " + HOSTILE_BYTES + b"\n  cvo.exp l2[0x40], l2[0], len=64\n  .data\n  .ascii \"" + HOSTILE.encode() + b"\"\n"
    good = t.write("good.s", source)
    for command in (["asm", "-o", "-", "--format", "hex", "-l", "l.lst"], ["check"], ["dis"], ["run"], ["debug"], ["run", "--report", "r.html"]):
        t.run_hostile("source: " + " ".join(command), *command, good, data=b"list\nwhere\nstep\n" + HOSTILE_BYTES + b"\n")
    if os.path.exists(t.path("l.lst")):
        with open(t.path("l.lst"), "rb") as file:
            t.check_text("source: listing", file.read())
    for number, line in enumerate((HOSTILE_BYTES, b"  cvo.exp " + HOSTILE_BYTES, b'.include "' + HOSTILE_BYTES + b'"', b".error \"" + HOSTILE_BYTES + b"\"",
                                   b".target " + HOSTILE_BYTES, b"  cvo." + HOSTILE_BYTES + b" l2[0], l2[0], len=1", b"x" + HOSTILE_BYTES + b": cvo.exp")):
        bad = t.write("bad%d.s" % number, b".target pccx\n" + line + b"\n")
        for command in ("asm", "check", "run"):
            t.run_hostile("bad source %d: %s" % (number, command), command, bad)


def file_names(t):
    name = t.write_bytes_named(HOSTILE_BYTES + b".s", b".target pccx\n  bad\n")
    good = t.write_bytes_named(HOSTILE_BYTES + b"good.s", b".target pccx\nl: cvo.exp l2[0x40], l2[0], len=64\n")
    for command in ("asm", "check", "run", "dis", "debug"):
        t.run_hostile("file name: " + command, command, name)
        t.run_hostile("good file name: " + command, command, good, data=b"list\nwhere\n")
        t.run_hostile("no such file: " + command, command, b"none" + HOSTILE_BYTES)
    t.run_hostile("file name: verbose", "asm", "-v", good, "-o", HOSTILE_BYTES + b".hex")
    t.run_hostile("file name: output", "asm", good, "-o", b"none/" + HOSTILE_BYTES)
    for command in (["llm"], ["trace"], ["trace", "diff", name], ["config"], ["isa"], ["help"], [HOSTILE_BYTES], ["run", good, "--dump"], ["run", good, "-D"],
                    ["run", good, "-c"], ["run", good, "--load"], ["run", "--" + HOSTILE[1:]], ["asm", good, "-d"], ["dis", "-t", "pccx", "--word"], ["run", good, "-t"]):
        t.run_hostile("argument of " + str(command[0]), *command, HOSTILE_BYTES)


def queues(t):
    with open(os.path.join(ROOT, "examples/cmdq/ffn.json"), encoding="utf-8") as file:
        queue = json.load(file)
    for entry in queue["cmdq"]:
        entry["layer_id"] = HOSTILE
    for i, ensure in enumerate((True, False)):
        good = t.write("q%d.json" % i, json.dumps(queue, ensure_ascii=ensure))
        for command in (["dis"], ["check"], ["run"], ["run", "--trace", "t.json"], ["debug"], ["asm", "-o", "q.jsonl"]):
            t.run_hostile("queue: " + " ".join(command), *command, good, data=b"list\nwhere\nstep\nwhy\ninfo engines\n")
    for command in (["trace"], ["trace", "diff", "t.json"]):
        t.run_hostile("trace of a queue: " + " ".join(command), *command, "t.json")
    t.equal("queue: conversion", t.call("trace", "convert", "t.json", "-o", "t.csv")[0], 0)
    with open(t.path("t.csv"), "rb") as file:
        t.check_text("queue: CSV", file.read().replace(b"\r\n", b"\n"))
    for key in ("metadata", "cmdq"):
        bad = json.loads(json.dumps(queue))
        (bad[key] if key == "metadata" else bad[key][0])[HOSTILE] = HOSTILE
        bad["cmdq"][-1]["opcode"] = HOSTILE
        for command in ("check", "run", "dis"):
            t.run_hostile("bad queue, %s: %s" % (key, command), command, t.write("bad.json", json.dumps(bad)))


def traces(t):
    t.call("run", os.path.join(ROOT, "examples/pccx/softmax.s"), "--trace", "s.json")
    with open(t.path("s.json"), encoding="utf-8") as file:
        text = file.read()
    names = sorted(set(re.findall(r'"([^"\\]+)"', text)))
    for name in sample(names, 4):
        t.write("h.json", text.replace('"%s"' % name, json.dumps(HOSTILE)))
        for command in (["trace"], ["trace", "diff", "s.json"]):
            t.run_hostile("trace, %s: %s" % (name[:40], " ".join(command)), *command, "h.json")


def binaries(t):
    source = ".target pccx\nsymbolsymbolsymbol:\n cvo.exp l2[0x40], l2[0], len=64\n cvo.exp l2[0x40], l2[0], len=0\n"
    t.call("asm", t.write("symbolsymbolsymbols.s", source), "-o", "a.elf")
    with open(t.path("a.elf"), "rb") as file:
        elf = file.read()
    evil = HOSTILE_BYTES[:18]
    hostile = t.write("h.elf", elf.replace(b"symbolsymbolsymbol", evil))
    for command in ("dis", "check", "run", "debug"):
        t.run_hostile("ELF: " + command, command, hostile, data=b"list\nwhere\ninfo symbols\nstep\nwhere\nstep\n")
    with open(t.model, "rb") as file:
        model = file.read()
    for name in (b"general.name", b"general.architecture", b"blk.0.attn_q.weight", b"token_embd.weight", b"tokenizer.ggml.model", b"llama.block_count"):
        changed = model.replace(name, (HOSTILE_BYTES * 2)[:len(name)])
        hostile = t.write("h.gguf", changed)
        for options in (["--info"], ["--dump-graph"], ["-p", "A", "-n", "1"]):
            t.run_hostile("model, %s: %s" % (name.decode(), options[0]), "llm", hostile, *options)
    profile = t.write("h.ini", b"[pccx]\n" + HOSTILE_BYTES.replace(b"\r", b"") + b" = 1\nname = " + HOSTILE_BYTES + b"\n")
    t.run_hostile("profile", "config", "pccx", "-c", profile)
    t.run_hostile("profile of a run", "run", "symbolsymbolsymbols.s", "-c", profile)


def generated_text(t):
    """On a terminal the text is made safe; into a pipe it goes as it is."""
    with open(t.model, "rb") as file:
        model = file.read()
    changed = model.replace(b"the", b"\x1b[m").replace(b"you", b"\x9b[m")
    hostile = t.write("t.gguf", changed)
    arguments = [t.trivet, "llm", hostile, "-p", "A", "-n", "200", "--temperature", "0", "-q"]
    master, slave = pty.openpty()
    with subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.DEVNULL) as process:
        os.close(slave)
        text = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            text += piece
        process.wait(60)
    os.close(master)
    t.expect("generated text has the tokens", b"\\x1b[m" in text, text[:300])
    t.check_text("generated text on a terminal", text.replace(b"\r\n", b"\n"))
    status, piped, _ = t.call(*arguments[1:])
    t.expect("generated text in a pipe", status == 0 and b"\x1b[m" in piped, piped[:300])


def main():
    options = parse_arguments(__doc__, "trivet", "model")
    t = Hostile(options.trivet, options)
    t.model = os.path.abspath(options.model)
    t.run_tests([sources, file_names, queues, traces, binaries, generated_text], t)
    return t.finish()


if __name__ == "__main__":
    sys.exit(main())
