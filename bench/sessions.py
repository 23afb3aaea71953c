# SPDX-License-Identifier: Apache-2.0
"""Rows of language models: sessions of Trivet and, between them, llama.cpp on the same weights with as many threads.

A round measures llama.cpp, then Trivet, then llama.cpp again; its ratio relates Trivet to the mean of the two. What a
row states is the median over the rounds, so a moment in which the host is slow affects both. Without the peer, a row
that is compared with it has neither ratio nor goal."""

import json
import os
import statistics
import subprocess
import sys
import time

BENCH = os.path.dirname(os.path.abspath(__file__))

# name, kind, model, target, weight bits, tokens, type of the peer's weights, goals for one and two threads
SESSIONS = [
    ("decode of 110M, cmdq W8", "decode", "110M", "cmdq", 8, 24, "Q8_0", 0.9, 0.85),
    ("decode of 110M, cmdq W4", "decode", "110M", "cmdq", 4, 24, "Q4_0", 1.05, 0.85),
    ("decode of 110M, pccx W4", "decode", "110M", "pccx", 4, 24, "Q4_0", 1.05, 0.85),
    ("prefill of 256 tokens of 110M, cmdq W4", "prefill", "110M", "cmdq", 4, 256, "Q4_0", 1.5, 1.2),
    ("prefill of 256 tokens of 110M, pccx W4", "prefill", "110M", "pccx", 4, 256, None, 0.4, None),
    ("decode of 1.1B, cmdq W4", "continue", "1.1B", "cmdq", 4, 8, None, 0.75, None),
    ("session of 1.2M, opennpu", "decode", "1.2M", "opennpu", 0, 200, None, 0.7, None),
]
TWO = ", 2 threads"
SCALING = ": 2 threads against 1"
SCALING_GOAL = 1.6
PEER_SPINS = 0.5  # seconds; after its work ggml's threads poll for a tenth of one, on a processor that the next row needs
PARAMETERS_1100M = 22 * (2 * 2048 * 2048 + 2 * 2048 * 256 + 3 * 2048 * 5632) + 32000 * 2048


def selected(word):
    """The sessions with the numbers of threads of their rows that `word` selects."""
    for session in SESSIONS:
        names = {1: [session[0]], 2: [session[0] + TWO, session[0] + SCALING]}
        if session[1] == "continue":  # one thread reads memory at its full bandwidth
            names = {1: names[1]}
        found = [n for n in names if any(word in name for name in names[n])]
        if found:
            yield session, found


def row_names():
    return [session[0] + (TWO if n == 2 else "") for session, threads in selected("") for n in threads]


class Server:
    """A process that answers each line with a line of JSON."""

    def __init__(self, command, environment=None):
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      stderr=subprocess.DEVNULL, env=environment)

    def read(self):
        line = self.child.stdout.readline()
        return json.loads(line) if line.startswith("{") else None

    def ask(self, *words):
        self.child.stdin.write("\t".join(map(str, words)) + "\n")
        self.child.stdin.flush()
        return self.read()

    def close(self):
        self.child.stdin.close()
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

    def measure_peer(self, session, threads):
        """Seconds of llama.cpp, or of an instruction of OpenNPU's mix. None: the session has no peer."""
        _, kind, _, target, _, tokens, weights = session[:7]
        if target == "opennpu" and threads == 1:
            return self.ours.ask("lanes")["seconds"]
        if not self.peer_about or not weights:
            return None
        found = self.peer.ask(kind, self.bench.model("110M " + weights), threads, tokens)
        if threads > 1:
            time.sleep(PEER_SPINS)
        return found and found["seconds"]

    def measure(self, session, threads):
        """Rounds of (result of ours, seconds of the peer or None, seconds per byte of reading memory or None)."""
        name, kind, model, target, bits, tokens = session[:6]
        path = self.bench.model({"110M": "110M Q8_0", "1.1B": "1.1B Q4_0"}.get(model, model))
        rounds, before = [], self.measure_peer(session, threads)
        for _ in range(self.bench.options.runs):
            read = self.ours.ask("read")["seconds"] if kind == "continue" else None
            own = self.ours.ask(kind, path, threads, tokens, target, bits)
            if own is None:
                raise RuntimeError(name + " failed")
            after = self.measure_peer(session, threads)
            rounds.append((own, (before + after) / 2 if before and after else None, read))
            before = after
        return rounds

    def rows_of(self, session, threads, host):
        name, kind, _, _, _, tokens, weights, goal, goal_two = session
        rounds = self.measure(session, threads)
        full, seconds = name + (TWO if threads == 2 else ""), [own["seconds"] for own, _, _ in rounds]
        goal = goal_two if threads == 2 else goal
        if kind == "prefill" and not weights:
            rates = [own["macs"] / own["seconds"] / 1e9 for own, _, _ in rounds]
            row = self.row(full, "GMAC/s", rates, better="higher", goal=goal)
            if threads == 2:  # the peak is that of one thread
                return [row]
            if not host.get("u4s8"):
                row.pop("goal")
                return [row]
            return [row | {"of": "u4 x s8 peak", "reached": row["median"] / host["u4s8"]}]
        if kind == "continue":
            weight_bytes = PARAMETERS_1100M * (0.5 + 4 / 32)
            rates = [weight_bytes / s / 1e9 for s in seconds]
            reached = statistics.median(weight_bytes / own["seconds"] * read for own, _, read in rounds)
            return [self.row(full, "GB/s", rates, better="higher", goal=goal) |
                    {"of": "read bandwidth", "reached": reached}]
        if not weights:
            rates = [own["instructions_per_second"] for own, _, _ in rounds]
            row = self.row(full, "M instructions/s", [rate / 1e6 for rate in rates], better="higher", goal=goal)
            if threads == 2:
                return [row]
            reached = statistics.median(rate * lanes for rate, (_, lanes, _) in zip(rates, rounds))
            return [row | {"of": "the mix of K = 64", "reached": reached}]
        amount = tokens if kind == "prefill" else 1
        row = self.row(full, "tokens/s", [amount / s for s in seconds], better="higher")
        if rounds[0][1] is None:
            return [row]
        with_kernels = "llama.cpp (%s)" % self.peer_about["variant"]
        ratio = statistics.median(peer / own["seconds"] for own, peer, _ in rounds)
        about = "%s %s of 110M %s, beside %s W%d%s" % (with_kernels, kind, weights, session[3], session[4],
                                                        TWO if threads == 2 else "")
        peer_row = self.row(about, "tokens/s", [amount / peer for _, peer, _ in rounds], better="higher")
        return [row | {"of": "llama.cpp " + weights, "reached": ratio, "goal": goal},
                peer_row]

    def scaling_row(self, name, one, two):
        """Two threads relative to one. The goal is set only where llama.cpp reaches it."""
        value = two[0]["median"] / one[0]["median"]
        row = self.row(name + SCALING, "times", [value], better="higher")
        if len(one) > 1 and len(two) > 1:
            peer = two[1]["median"] / one[1]["median"]
            row |= {"of": "1; llama.cpp %.2f" % peer, "reached": value}
            if peer >= SCALING_GOAL:
                row["goal"] = SCALING_GOAL
        return row

    def rows(self, word, host, thread_count):
        for session, numbers in selected(word):
            found = {}
            for threads in numbers:
                if threads <= thread_count:
                    self.bench.note("%s, %d threads" % (session[0], threads))
                    found[threads] = self.rows_of(session, threads, host)
                    yield from found[threads]
            if 1 in found and 2 in found:
                yield self.scaling_row(session[0], found[1], found[2])
