#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""trivet sweep against single runs of `trivet run`, `llm` and `infer`; any number of threads, interruptions and slices.

    run.py TRIVET
"""

import csv
import itertools
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import suite as suites  # noqa: E402  pylint: disable=wrong-import-position

PROGRAM = os.path.join(suites.ROOT, "examples", "pccx", "softmax.s")
QUEUE = os.path.join(suites.ROOT, "examples", "cmdq", "ffn.json")
NETWORK = os.path.join(suites.ROOT, "examples", "networks", "vit-block.onnx")
DIMS = {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2,
        "vocab_size": 1000, "max_position_embeddings": 512}
SPEC = """[sweep]
objectives = cycles, bytes
[workload softmax]
program = %s
[workload ffn]
program = %s
[workload decode]
model = dims.json
position = 100
tokens = 2
context = 128
[target pccx]
gemv.cores = 1..4 * 2
acp.bytes_per_cycle = 8, 32/3
cvo.tail = 2..8 step 3
constraint = gemv.cores * (cvo.tail + 1) <= 24 and gemv.cores %% 2 <= 1
[target cmdq]
dma.count = 1, 2
npu.te = 1, 2
"""


def write_spec(t, name="space.ini", text=SPEC):
    t.write("dims.json", json.dumps(DIMS))
    return t.write(name, text % (PROGRAM, QUEUE) if "%s" in text else text)


def read_points(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def points_are_those_of_single_runs(t):
    """Every valid point in order, with the cycles of the same run alone."""
    spec, out = write_spec(t), t.path("points.csv")
    t.equal("exit status", t.call("sweep", spec, "--csv", out, "-q")[0], 0)
    points = read_points(out)
    expected = [(str(c), a, str(v)) for c, a, v in itertools.product((1, 2, 4), ("8", "32/3"), (2, 5, 8)) if c * (v + 1) <= 24]
    found = [(p["gemv.cores"], p["acp.bytes_per_cycle"], p["cvo.tail"]) for p in points if p["target"] == "pccx"]
    t.equal("points of pccx", found, expected)
    t.equal("points of cmdq", [(p["dma.count"], p["npu.te"]) for p in points if p["target"] == "cmdq"],
            list(itertools.product("12", "12")))
    for p in random.Random(1).sample(points, 4) + points[-1:]:
        keys = [k for k in p if "." in k and p[k]]
        sets = [a for k in keys for a in ("-D", k + "=" + p[k])]
        program = PROGRAM if p["target"] == "pccx" else QUEUE
        alone = json.loads(t.call("run", program, "--timing-only", "--no-hazards", "--json", *sets)[1])["result"]
        name = "softmax" if p["target"] == "pccx" else "ffn"
        t.equal("runs alone, and in the sweep", alone is None, p["outcome"] != "ok")
        if alone is None:
            continue
        t.equal("cycles of %s %s" % (name, sets), p["cycles:" + name], str(alone["cycles"]))
        # alone after a prompt, whose end the first token overlaps
        model = json.loads(t.call("llm", t.path("dims.json"), "-t", p["target"], "--timing-only", "--prompt-tokens", "100", "-n", "2",
                                  "--context", "128", "--json", *sets)[1])["result"]
        run = model["targets"][0]
        t.expect("cycles of decode %s" % sets, abs(int(p["cycles:decode"]) / run["cycles"] - 1) < 0.005, (p["cycles:decode"], run["cycles"]))
        t.equal("sum", float(p["cycles"]), float(p["cycles:" + name]) + float(p["cycles:decode"]))


def front_is_that_of_all_pairs(t):
    spec, out = write_spec(t), t.path("front.csv")
    t.call("sweep", spec, "--csv", out, "-q")
    rows = [(float(p["cycles"]), float(p["bytes"]), p["front"]) for p in read_points(out) if p["outcome"] == "ok"]
    for a in rows:
        dominated = any(b[0] <= a[0] and b[1] <= a[1] and b[:2] != a[:2] for b in rows)
        t.expect("front", (a[2] == "0") == dominated, a)


def exports_do_not_depend_on_how_a_sweep_ran(t):
    """Threads, a second run, slices that are collected, JSON specifications: the same bytes."""
    spec, whole = write_spec(t), t.path("whole.csv")
    t.call("sweep", spec, "--csv", whole, "-q", "--threads", "1")
    for threads in ("2", "5"):
        t.call("sweep", spec, "--csv", t.path("other.csv"), "-q", "--threads", threads)
        t.equal(threads + " threads", read_bytes(t.path("other.csv")), read_bytes(whole))
    for i in range(3):
        t.equal("slice", t.call("sweep", spec, "--slice", "%d/3" % i, "--folder", t.path("."), "-q")[0], 0)
    files = [t.path(n) for n in sorted(os.listdir(t.path("."))) if n.startswith("slice-")]
    t.equal("files", len(files), 3)
    t.equal("collect", t.call("sweep", "collect", *files, "-o", t.path("all.db"))[0], 0)
    out = t.call("sweep", spec, "-o", t.path("all.db"), "--csv", t.path("other.csv"), "-q")[1].decode()
    t.expect("nothing is computed again", "; 0 results computed" in out, out)
    t.equal("slices", read_bytes(t.path("other.csv")), read_bytes(whole))
    again = t.call("sweep", spec, "--slice", "1/3", "--folder", t.path("."), "-q")[1].decode()
    t.expect("a slice continues", "; 0 results computed" in again, again)
    document = {"objectives": ["cycles", "bytes"],
                "workloads": {"softmax": {"program": PROGRAM}, "ffn": {"program": QUEUE},
                              "decode": {"model": "dims.json", "position": 100, "tokens": 2, "context": 128}},
                "targets": {"pccx": {"parameters": {"gemv.cores": [1, 2, 4], "acp.bytes_per_cycle": [8, "32/3"], "cvo.tail": "2..8 step 3"},
                                     "constraints": ["gemv.cores * (cvo.tail + 1) <= 24"]},
                            "cmdq": {"parameters": {"dma.count": [1, 2], "npu.te": "1, 2"}}}}
    t.call("sweep", t.write("space.json", json.dumps(document)), "--csv", t.path("other.csv"), "-q")
    t.equal("JSON", read_bytes(t.path("other.csv")), read_bytes(whole))


def expressions_are_objectives(t):
    text = SPEC.replace("objectives = cycles, bytes", "objectives = cost, max rate").replace("[target cmdq]\ndma.count = 1, 2\nnpu.te = 1, 2\n", "")
    text = text.replace("[workload ffn]\nprogram = %s\n", "") + "[expressions]\ncost = gemv.cores * 100 + cycles / 8\nrate = bytes / (cycles + 1)\n"
    t.write("dims.json", json.dumps(DIMS))
    code, _, err = t.call("sweep", t.write("own.ini", text % PROGRAM), "--csv", t.path("own.csv"), "-q")
    t.equal("exit status", (code, err), (0, ""))
    points = read_points(t.path("own.csv"))
    for p in points:
        cycles = int(p["cycles:softmax"]) + int(p["cycles:decode"])
        t.equal("cost", float(p["cost"]), int(p["gemv.cores"]) * 100 + cycles / 8)
        better = any(float(q["cost"]) <= float(p["cost"]) and float(q["rate"]) >= float(p["rate"]) and (q["cost"], q["rate"]) != (p["cost"], p["rate"])
                     for q in points)
        t.equal("front", p["front"], "0" if better else "1")


def killed_sweeps_resume(t):
    """kill -9 at random moments, of a sweep and of a slice: nothing is lost, doubled or different."""
    text = SPEC.replace("cvo.tail = 2..8 step 3", "cvo.tail = 1..40").replace("<= 24", "<= 1000")
    spec, whole, rng = write_spec(t, "big.ini", text), t.path("whole.csv"), random.Random(7)
    t.call("sweep", spec, "--csv", whole, "-q")
    for command, name in ((["-o", t.path("killed.db")], "sweep"), (["--slice", "0/1", "--folder", t.path("."), "--seconds", "0.01"], "slice")):
        for _ in range(6):
            p = subprocess.Popen([t.trivet, "sweep", spec, "-q", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            time.sleep(rng.uniform(0.02, 0.3))
            p.send_signal(signal.SIGKILL)
            p.communicate()
        code, _, err = t.call("sweep", spec, "-q", *command)
        t.expect(name + " resumes", code == 0, err)
    files = [t.path(n) for n in sorted(os.listdir(t.path("."))) if n.startswith("slice-0-of-1")]
    t.equal("collect", t.call("sweep", "collect", *files, "-o", t.path("slices.db"))[0], 0)
    points = len(read_points(whole))
    for database in ("killed.db", "slices.db"):
        out = t.call("sweep", spec, "-o", t.path(database), "--csv", t.path("other.csv"), "-q")[1].decode()
        t.expect(database + ": nothing is missing", "; 0 results computed" in out, out)
        t.equal(database, read_bytes(t.path("other.csv")), read_bytes(whole))
        with sqlite3.connect(t.path(database)) as db:
            t.equal(database + ": rows", db.execute("select count(*) from result").fetchone()[0], 2 * points)


def searches_are_repeatable(t):
    for search in ("random", "nsga2"):
        text = SPEC.replace("[sweep]\n", "[sweep]\nsearch = %s\nbudget = 10\nseed = 3\n" % search)
        spec = write_spec(t, search + ".ini", text.replace("%s\n[workload ffn]", "%s\n[workload ffn]"))
        outputs = []
        for threads in ("1", "3"):
            t.equal("exit status", t.call("sweep", spec, "--csv", t.path("s.csv"), "-q", "--threads", threads)[0], 0)
            outputs.append(read_bytes(t.path("s.csv")))
        t.equal(search, outputs[0], outputs[1])
        points = read_points(t.path("s.csv"))
        t.expect(search + ": budget of each target", len([p for p in points if p["target"] == "pccx"]) == 10, len(points))


def networks_and_failures_are_points(t):
    """A network on all machines; a configuration that is inconsistent has a reason and no figures."""
    spec = t.write("net.ini", "[sweep]\nobjectives = seconds\n[workload vit]\nnetwork = %s\n[target pccx]\nl2.words = 64, 131072\n"
                              "[target opennpu]\nmem.bytes = 4096, 64Mi\n[target cmdq]\nnpu.te = 1, 2\n" % NETWORK)
    code, _, err = t.call("sweep", spec, "--csv", t.path("net.csv"), "-q")
    points = read_points(t.path("net.csv")) if code == 0 else []
    t.expect("runs", code == 0 and len(points) == 6, err)
    t.equal("outcomes", [p["outcome"] for p in points], ["invalid", "ok", "invalid", "ok", "ok", "ok"])
    for p in points:
        t.expect("reason or figures", bool(p["reason"]) == (not p["seconds"]), p)
    ok = next(p for p in points if p["target"] == "cmdq")
    alone = json.loads(t.call("infer", NETWORK, "-t", "cmdq", "--timing-only", "--json", "-D", "npu.te=1")[1])["result"]
    t.equal("cycles alone", ok["cycles:vit"], str(alone["targets"][0]["cycles"]))
    envelope = json.loads(t.call("sweep", spec, "--json", "-q")[1])
    t.equal("JSON", [p["outcome"] for p in envelope["result"]["points"]], [p["outcome"] for p in points])


def bad_specifications_are_rejected(t):
    head = "[workload a]\nprogram = %s\n[target pccx]\ncvo.tail = 6\n" % PROGRAM
    for text, expected in (("", "has no target"), (head.replace("target pccx", "target riscv"), "names no machine"),
                           (head + "gemv.core = 1", "did you mean gemv.cores"), (head + "gemv.cores = 1, 0", "cannot be '0'"),
                           (head + "gemv.cores = 4..2", "does not grow"), (head + "gemv.cores = 1, 1", "twice"),
                           (head + "gemv.cores = 1..8 * 1", "not a step"), (head + "constraint = gemv.cores", "expected <"),
                           (head + "constraint = (gemv.cores < 3", "expected ')'"), (head + "constraint = gemv.parallel_lane < 2", "not"),
                           (head + "constraint = 1 < 2 or 2 < 3", "character 7"), (head + "[sweep]\nsearch = best", "no search"),
                           (head + "[sweep]\nsearch = random", "needs a budget"), (head + "[sweep]\nobjectives = joules", "no objective"),
                           (head + "[sweep]\nobjectives = tokens/s", "no tokens"), (head + "[workload b]\nprompt = 3", "has no file"),
                           (head.replace("program", "prompt = 1\nprogram"), "does not apply"), ("{", "not JSON"), ('{"targets": 3}', "must be an object"),
                           ('{"targets": {"pccx": {"parameters": {"l2.words": []}}}}', "has no values"), (head + "x" * 300, "too long")):
        code, _, err = t.call("sweep", t.write("bad.ini", text), "-q")
        t.expect("rejected: " + text[-40:], code == 2 and expected in err and "bad.ini" in err, err)
    spec = t.write("good.ini", head + "gemv.cores = 1, 2")
    for arguments, expected in ((("--slice", "2/2", "--folder", "."), "--slice"), (("--slice", "0/2"), "--folder"), (("--threads", "0"), "1 to 256"),
                                (("-o", t.write("text.db", "this is no database")), "not a database"), (("-o", spec), "overwrite")):
        code, _, err = t.call("sweep", spec, "-q", *arguments)
        t.expect("rejected: %s" % (arguments,), code == 2 and expected in err, err)
    damaged = t.write("slice.jsonl", '{"key": "1"}\n')
    t.expect("damaged results", t.call("sweep", "collect", damaged, "-o", t.path("x.db"))[0] == 2)


def main():
    options = suites.parse_arguments(__doc__, "trivet")
    suite = suites.Suite(options.trivet, options)
    suite.run_tests([points_are_those_of_single_runs, front_is_that_of_all_pairs, exports_do_not_depend_on_how_a_sweep_ran, expressions_are_objectives, killed_sweeps_resume,
                     searches_are_repeatable, networks_and_failures_are_points, bad_specifications_are_rejected], suite)
    return suite.finish()


if __name__ == "__main__":
    sys.exit(main())
