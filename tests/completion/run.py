#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completion in bash, zsh and fish, as far as they are installed: what each of them offers for the beginning of a command.

    run.py TRIVET
"""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from suite import ROOT, Suite, parse_arguments, sample  # noqa: E402

# The beginning of a command line; words that are offered; words that are not.
CASES = (
    ("trivet ", "run llm trace completion", "gemv.cores= pccx --help"),
    ("trivet tr", "trace", "run"),
    ("trivet run --ti", "--timing-only", "--trace"),
    ("trivet run -t ", "pccx opennpu cmdq", "host all run program.s"),
    ("trivet run --target ", "pccx opennpu cmdq", "host all run"),
    ("trivet llm m.gguf -t ", "pccx opennpu cmdq host all", "run"),
    ("trivet llm m.gguf --weight-bits ", "4 8", "16"),
    ("trivet trace d", "diff", "convert"),
    ("trivet trace ", "diff convert program.s", "run pccx"),
    ("trivet trace convert a --to ", "json perfetto csv", "diff"),
    ("trivet config -t pccx -D gemv.", "gemv.cores= gemv.parallel_lane=", "dma.count="),
    ("trivet run program.s -D gemv.co", "gemv.cores=", "gemv.setup="),
    ("trivet run queue.json -D dma.c", "dma.count=", "gemv.cores="),
    ("trivet run -c kv260 -D gemv.co", "gemv.cores=", "dma.count="),
    ("trivet run program.s -D gemv.parallel_lane=", "gemv.parallel_lane=cores gemv.parallel_lane=lanes", ""),
    ("trivet run program.s -D gemv.parallel_lane=l", "gemv.parallel_lane=lanes", "gemv.parallel_lane=cores"),
    ("trivet run program.s -D gemv.cores=", "gemv.cores=4", ""),
    ("trivet run program.s --dump ", "host: l2:", "dram: host:numbers:"),
    ("trivet run program.s --dump host:n", "host:numbers:", "host:other: host:N:"),
    ("trivet run program.s --load host:n", "host:numbers=", "host:other="),
    ("trivet run program.s --until ", "middle", "numbers N program.s"),
    ("trivet run --report prog", "program.s", "queue.json"),
    ("trivet isa ", "pccx opennpu cmdq", "cvo.exp"),
    ("trivet isa pccx cvo.e", "cvo.exp", "cvo.sin pccx"),
    ("trivet isa cmdq VE_S", "VE_SILU_TILE", "DMA_LOAD_TILE"),
    ("trivet explain TV-P010", "TV-P010", "TV-P011"),
    ("trivet explain l2-r", "l2-range", "TV-P010"),
    ("trivet help c", "check config completion", "run"),
    ("trivet completion ", "bash zsh fish man", "run"),
    ("trivet run --color ", "auto always never", "pccx"),
    ("trivet run prog", "program.s", "queue.json run"),
    ("trivet config -c ", "pccx-kv260 cmdq-edge", "--help"),
)

PROGRAM = """        .target pccx
        .equ    N, 16
        memset  fmap_shape[0], N, 1, 1
middle: memcpy  l2[0], host[numbers], shape=0
        .data
numbers: .zero N * 2
other:  .zero   N * 2
"""


def bash_candidates(t, line):
    """The function that bash calls, in the variables that readline sets."""
    script = """source <(trivet completion bash)
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
_trivet
printf '%s\\n' "${COMPREPLY[@]}"
"""
    p = subprocess.run(["bash", "--norc", "-c", script, "bash", line], cwd=t.folder, env=t.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                       timeout=60, check=False)
    t.equal("bash: %s: standard error" % line, p.stderr, "")
    word = line.rpartition(" ")[2]
    before = word[:max(word.rfind("="), word.rfind(":")) + 1]  # readline replaces what follows
    return {before + found for found in p.stdout.split()}


class Zsh:
    """An interactive zsh, whose compadd records what is added."""

    SETUP = """PS1='ready> '; unsetopt beep zle_bracketed_paste 2>/dev/null
autoload -U compinit && compinit -u -D
source <(trivet completion zsh)
compadd() { local -a found; builtin compadd -O found "$@"; print -rl -- $found >> found.txt; builtin compadd "$@" }
_finish() { BUFFER=; print -r -- end >> found.txt; zle reset-prompt }
zle -N _finish; bindkey '^X' _finish
print -r -- set''up
"""

    def __init__(self, t):
        self.t = t
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(t.folder)
            os.execvpe("zsh", ["zsh", "-f", "-i"], dict(t.env, TERM="dumb", COLUMNS="200"))
        t.write("setup.zsh", self.SETUP)
        self.send(". ./setup.zsh\n")
        self.expect("setup")
        self.expect("ready> ")

    def send(self, text):
        os.write(self.fd, text.encode())

    def expect(self, word):
        text, end = "", time.time() + 60
        while word not in text:
            if not select.select([self.fd], [], [], max(0, end - time.time()))[0]:
                raise AssertionError("timeout waiting for %r: %r" % (word, text))
            text += os.read(self.fd, 4096).decode("utf-8", "replace")

    def candidates(self, line):
        path, end = self.t.path("found.txt"), time.time() + 60
        if os.path.exists(path):
            os.unlink(path)
        self.send(line + "\t\x18")
        words = []
        while "end" not in words and time.time() < end:
            select.select([self.fd], [], [], 0.02) and os.read(self.fd, 65536)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as f:
                    words = f.read().split()
        return set(words) - {"end"}

    def close(self):
        self.send("exit\n")
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def fish_candidates(t, line):
    p = subprocess.run(["fish", "--no-config", "-c", "source (trivet completion fish | psub); complete -C $argv[1]", line], cwd=t.folder, env=t.env,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    t.equal("fish: %s: standard error" % line, p.stderr, "")
    return {found.split("\t")[0] for found in p.stdout.splitlines()}


def check_case(t, shell, case, found):
    line, offered, others = case
    t.expect("%s: %s" % (shell, line), set(offered.split()) <= found and not set(others.split()) & found and len(found) < 200, sorted(found)[:60])


def bash_completes(t):
    for case in sample(CASES):
        check_case(t, "bash", case, bash_candidates(t, case[0]))


def zsh_completes(t):
    if not shutil.which("zsh"):
        return
    shell = Zsh(t)
    for case in sample(CASES):
        check_case(t, "zsh", case, shell.candidates(case[0]))
    shell.close()


def fish_completes(t):
    for case in sample(CASES) if shutil.which("fish") else ():
        check_case(t, "fish", case, fish_candidates(t, case[0]))


def scripts_know_every_option(t):
    """Each script has each command and each of its options, also where the shell is not installed."""
    commands = re.findall(r"^  ([a-z]+) ", t.call("help")[1].decode(), re.M)
    scripts = {shell: t.call("completion", shell)[1].decode() for shell in ("bash", "zsh", "fish")}
    for command in sample(commands):
        options = re.findall(r"^ +(?:-\w, )?--([\w-]+)", t.call("help", command)[1].decode(), re.M)
        for shell, script in scripts.items():
            if shell == "fish":
                part = "\n".join(line for line in script.splitlines() if "'__trivet_command %s'" % command in line)
                missing = [o for o in options if " -l %s " % o not in part]
            else:
                part = script[script.index("    %s%s)" % ("(" if shell == "zsh" else "", command)):]
                part = part[:part.index(";;\n    ") if shell == "zsh" and ";;\n    " in part else None]
                missing = [o for o in options if "--" + o not in part]
            t.equal("%s: %s" % (shell, command), missing, [])
    for kind in ("", "NOTHING"):
        t.equal("values of no kind: '%s'" % kind, t.call("completion", "values", kind, "--", "trivet")[0], 2)
    for kind in sample(("SETTING", "RANGE", "FILL", "LABEL", "INSTRUCTION", "PROFILE")):
        for words in ((), ("trivet",), ("trivet", "run", "missing.s", "--dump", "x:"), ("trivet", "run", "found.bin", "-t", "vax", "-D", "=")):
            code, _, error = t.call("completion", "values", kind, "--", *words)
            t.equal("no message: %s %s" % (kind, " ".join(words)), (code, error), (0, ""))


def main():
    options = parse_arguments(__doc__, "trivet")
    t = Suite(os.path.abspath(options.trivet), options)
    t.env = dict(os.environ, PATH=os.path.dirname(t.trivet) + os.pathsep + os.environ["PATH"], HOME=t.folder, XDG_CONFIG_HOME=t.folder,
                 XDG_DATA_HOME=t.folder, ASAN_OPTIONS="detect_leaks=0")
    t.write("program.s", PROGRAM)
    shutil.copy(os.path.join(ROOT, "examples/cmdq/ffn.json"), t.path("queue.json"))
    t.run_tests((bash_completes, zsh_completes, fish_completes, scripts_know_every_option), t)
    sys.exit(t.finish())


if __name__ == "__main__":
    main()
