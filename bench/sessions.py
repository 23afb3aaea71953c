# SPDX-License-Identifier: Apache-2.0
"""Rows of language models: sessions of Trivet and, between them, llama.cpp on the same weights with as many threads.

A round measures llama.cpp, then Trivet, then llama.cpp again, with one thread and then with two; a ratio relates
Trivet to the mean of what is before and after it, or two threads to one. What a row states is the median over the
rounds, so a moment in which the host is slow affects both. A ceiling of the host is measured in the same process as
the session. Without the peer, a row that is compared with it has neither ratio nor goal."""

import collections
import json
import os
import statistics
import subprocess
import sys
import time

BENCH = os.path.dirname(os.path.abspath(__file__))

# The goals, for one and two threads, are relative to llama.cpp with `peer_model`; those of prefill with pccx, of
# `continue` and of OpenNPU to a ceiling of the host.
Session = collections.namedtuple("Session", "name kind model target bits tokens peer_model goal goal_two")
# Of one number of threads: what the session measured; the seconds of llama.cpp, and those of the ceiling for a byte or
# an instruction. None: there is no such peer or ceiling.
Round = collections.namedtuple("Round", "own peer ceiling")

SESSIONS = [
    Session("decode of 110M, cmdq W8", "decode", "110M Q8_0", "cmdq", 8, 24, "110M Q8_0", 0.9, 0.85),
    Session("decode of 110M, cmdq W4", "decode", "110M Q8_0", "cmdq", 4, 24, "110M Q4_0", 1.05, 0.85),
    Session("decode of 110M, pccx W4", "decode", "110M Q8_0", "pccx", 4, 24, "110M Q4_0", 1.05, 0.85),
    Session("prefill of 256 tokens of 110M, cmdq W4", "prefill", "110M Q8_0", "cmdq", 4, 256, "110M Q4_0", 1.5, 1.2),
    Session("prefill of 256 tokens of 110M, pccx W4", "prefill", "110M Q8_0", "pccx", 4, 256, "110M Q4_0", 0.4, None),
    Session("decode of 1.1B, cmdq W4", "continue", "1.1B Q4_0", "cmdq", 4, 8, None, 0.75, None),
    Session("session of 1.2M, opennpu", "decode", "1.2M", "opennpu", 0, 200, "1.2M", 0.7, None),
]
TWO = ", 2 threads"
SCALING = ": 2 threads against 1"
SCALING_GOAL = 1.6
PEER_SPINS = 0.5  # seconds; after its work ggml's threads poll for a tenth of one, on a processor that is needed next
PARAMETERS_1100M = 22 * (2 * 2048 * 2048 + 2 * 2048 * 256 + 3 * 2048 * 5632) + 32000 * 2048


class Ended(Exception):
    """The process that runs the sessions has ended."""


def selected(word, thread_count=2):
    """The sessions with the numbers of threads, up to `thread_count`, of their rows that `word` selects."""
    for session in SESSIONS:
        names = {1: [session.name]}
        if thread_count >= 2 and session.kind != "continue":  # one thread reads memory at its full bandwidth
            scaling = session.name + SCALING  # needs both
            names = {1: [session.name, scaling], 2: [session.name + TWO, scaling]}
        found = [n for n in names if any(word in name for name in names[n])]
        if found:
            yield session, found


def row_names():
    return [session.name + (TWO if n == 2 else "") for session, threads in selected("") for n in threads]


class Server:
    """A process that answers each line with a line of JSON."""

    def __init__(self, command, environment=None):
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      stderr=subprocess.DEVNULL, env=environment)

    def read(self):
        line = self.child.stdout.readline()
        return json.loads(line) if line.startswith("{") else None

    def ask(self, *words):
        """The answer; None if the process has ended."""
        try:
            self.child.stdin.write("\t".join(map(str, words)) + "\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            return None
        return self.read()

    def close(self):
        try:
            self.child.stdin.close()
        except BrokenPipeError:  # it had ended
            pass
        self.child.stdout.close()
        return self.child.wait()


class Sessions:
    def __init__(self, bench, peer_variant, row):
        self.bench, self.row = bench, row
        self.ours = Server([bench.program("models"), "--serve"], bench.environment)
        self.peer = Server([sys.executable, os.path.join(BENCH, "llama_cpp.py"), bench.build, peer_variant])
        self.peer_about = self.peer.read()

    def close(self):
        self.ours.close()
        self.peer.close()

    def describe(self):
        about = self.peer_about
        return "kernels %s: %s" % (about["variant"], about["simd"]) if about else "not available"

    def ask_ours(self, *words):
        found = self.ours.ask(*words)
        if found is None:
            raise Ended("models --serve failed at: %s" % " ".join(map(str, words)))
        return found

    def measure_peer(self, session, threads):
        """Seconds of llama.cpp, for a token or a prompt; None without it."""
        if not self.peer_about or not session.peer_model:
            return None
        found = self.peer.ask(session.kind, self.bench.model(session.peer_model), threads, session.tokens)
        if threads > 1:
            time.sleep(PEER_SPINS)
        return found and found["seconds"]

    def measure_ceiling(self, session, threads):
        """Seconds for a byte of memory that is read or an instruction of OpenNPU's mix; None: not of this session."""
        request = "read" if session.kind == "continue" else "lanes" if session.target == "opennpu" else None
        return self.ask_ours(request)["seconds"] if request and threads == 1 else None

    def measure(self, session, threads):
        """One number of threads of a round: between llama.cpp, and next to it the ceiling, the session."""
        def mean(before, after):
            return (before + after) / 2 if before and after else None

        peer, ceiling = self.measure_peer(session, threads), self.measure_ceiling(session, threads)
        own = self.ask_ours(session.kind, self.bench.model(session.model), threads, session.tokens, session.target,
                            session.bits)
        ceiling = mean(ceiling, self.measure_ceiling(session, threads))
        return Round(own, mean(peer, self.measure_peer(session, threads)), ceiling)

    def rows_of(self, session, threads, rounds, host):
        name, goal = session.name + (TWO if threads == 2 else ""), session.goal_two if threads == 2 else session.goal
        if session.kind == "prefill" and session.target == "pccx":
            rates = [r.own["macs"] / r.own["seconds"] / 1e9 for r in rounds]
            row = self.row(name, "GMAC/s", rates, better="higher", goal=goal)
            if threads == 2:  # the peak is that of one thread
                return [row]
            if not host.get("u4s8"):
                row.pop("goal")
                return [row]
            return [row | {"of": "u4 x s8 peak", "reached": row["median"] / host["u4s8"]}]
        if session.kind == "continue":
            weight_bytes = PARAMETERS_1100M * (0.5 + 4 / 32)
            rates = [weight_bytes / r.own["seconds"] / 1e9 for r in rounds]
            reached = statistics.median(weight_bytes / r.own["seconds"] * r.ceiling for r in rounds)
            return [self.row(name, "GB/s", rates, better="higher", goal=goal) |
                    {"of": "read bandwidth", "reached": reached}]
        if session.target == "opennpu":
            rates = [r.own["instructions_per_second"] for r in rounds]
            row = self.row(name, "M instructions/s", [rate / 1e6 for rate in rates], better="higher", goal=goal)
            if threads == 2:
                return [row]
            reached = statistics.median(rate * r.ceiling for rate, r in zip(rates, rounds))
            return [row | {"of": "the mix of K = 64", "reached": reached}]
        amount = session.tokens if session.kind == "prefill" else 1
        row = self.row(name, "tokens/s", [amount / r.own["seconds"] for r in rounds], better="higher")
        if not all(r.peer for r in rounds):
            return [row]
        ratio = statistics.median(r.peer / r.own["seconds"] for r in rounds)
        about = "llama.cpp (%s) %s of %s, beside %s W%d%s" % (
            self.peer_about["variant"], session.kind, session.peer_model, session.target, session.bits,
            TWO if threads == 2 else "")
        peer_row = self.row(about, "tokens/s", [amount / r.peer for r in rounds], better="higher")
        return [row | {"of": "llama.cpp " + session.peer_model.split()[1], "reached": ratio, "goal": goal}, peer_row]

    def scaling_row(self, session, one, two):
        """Two threads relative to one, round by round. The goal is set only where llama.cpp reaches it."""
        ratios = [a.own["seconds"] / b.own["seconds"] for a, b in zip(one, two)]
        row = self.row(session.name + SCALING, "times", ratios, better="higher")
        if all(r.peer for r in one + two):
            peer = statistics.median(a.peer / b.peer for a, b in zip(one, two))
            row |= {"of": "1; llama.cpp %.2f" % peer, "reached": row["median"]}
            if peer >= SCALING_GOAL:
                row["goal"] = SCALING_GOAL
        return row

    def rows(self, word, host, thread_count):
        for session, numbers in selected(word, thread_count):
            found = {threads: [] for threads in numbers}
            for i in range(self.bench.options.runs):
                self.bench.note("%s, round %d" % (session.name, i + 1))
                for threads in numbers:
                    found[threads].append(self.measure(session, threads))
            for threads in numbers:
                yield from self.rows_of(session, threads, found[threads], host)
            if len(numbers) == 2:
                yield self.scaling_row(session, found[1], found[2])
