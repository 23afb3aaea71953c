#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the golden and cycle programs and the examples of every machine.

    run.py TRIVET [--rebase] [PATTERN]

tests/golden/NAME.s is checked by the files of the same name beside it:
    NAME.hex         the words that `trivet asm` makes
    NAME.dis         the output of `trivet dis --data`, which must assemble back to the same words
    NAME.err         the standard error of `trivet asm`, which must fail
    NAME.warn        the same for an assembly that succeeds
    NAME.uops        the output of `trivet dis --uops`
    NAME.run         the standard error of `trivet run`: the report of a fault
    NAME.check       standard output and error of `trivet check`
    NAME.expect.json {"cycles": N, "dumps": {"SPACE:ADDR:LEN:TYPE": [values]}} of `trivet run`
    NAME.fault.json  the same with {"code": "TV-P...", "index": N} of the fault
tests/cycles/NAME.s carries its expectations in its head: `; cycles: N` and `; engine NAME busy=N idle=N CAUSE=N`.
examples/pccx/NAME.s and examples/opennpu/NAME.s have NAME.expect.json; expected.py beside them works the numbers out and
must agree with it. An OpenNPU program names its profile with `.profile`, or in its head: `; profile: NAME`.
examples/cmdq/NAME.json are queues; their NAME.expect.json has {"cycles": N, "outputs": {"NAME": [values]}} and, where check
must find hazards, "hazards": [[earlier id, later id], ...], and other findings, "findings": [[code, entries it names ...], ...]. make.py beside them must make exactly these queues.
docs/codes.md must list the codes of src.

Every program that is run is run by the independent model in tests/oracle as well, and all cycles, engines, faults and
dumped values must be equal. Lines `; asm: ARGUMENTS` and `; run: ARGUMENTS` at the head of a source add arguments.

--rebase writes the text files (.hex, .dis, .uops, .err, .warn, .run, .check) and shows what changed.
"""

import difflib
import glob
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

from program import FAULT_CODES, Program  # noqa: E402
from suite import ROOT, Suite, parse_arguments, sample  # noqa: E402
import opennpu_oracle  # noqa: E402  (program.py makes its folder known)

SPDX = "# SPDX-License-Identifier: Apache-2.0\n"
# Parameters that the oracle calls otherwise.
ORACLE_NAMES = {"memory.bytes_per_cycle": "mem.bytes_per_cycle"}
TYPE_BYTES = {"bf16": 2, "hex16": 2, "u16": 2, "s16": 2, "u8": 1, "hex8": 1, "s8": 1, "hex32": 4, "f32": 4, "hex64": 8, "f16": 2}


def bf16_bits(value):
    """BF16 bits of a printed value; it has been one before, so that rounding is to the nearest."""
    bits, = struct.unpack("<I", struct.pack("<f", float(value)))
    return 0x7FC0 if value != value else (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def number(value, kind):
    if kind == "bf16":
        return "0x%04x" % bf16_bits(float(value))
    if kind == "f32":
        return struct.pack("<f", float(value))
    return int(value, 0) if isinstance(value, str) else value


class Case:
    def __init__(self, runner, source):
        self.runner = runner
        self.folder, self.file = os.path.split(source)
        self.stem = os.path.splitext(source)[0]
        self.problems = []
        with open(source, encoding="utf-8", errors="surrogateescape") as f:
            self.head = f.read().split("\n")[:20]

    def args(self, name):
        return [a for line in self.head if line.startswith("; %s: " % name) for a in line[len(name) + 4:].split()]

    def trivet(self, *args):
        p = subprocess.run([self.runner.trivet] + list(args), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=120)
        return p.returncode, p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")

    def fail(self, text):
        self.problems.append(text)

    def compare(self, suffix, got):
        path = self.stem + suffix
        with open(path, encoding="utf-8") as f:
            want = f.read()
        if got == want:
            return
        diff = "".join(difflib.unified_diff(want.splitlines(True), got.splitlines(True), "expected " + os.path.basename(path), "found"))
        if self.runner.rebase:
            with open(path, "w", encoding="utf-8") as f:
                f.write(got)
            print("rebased " + os.path.relpath(path, os.getcwd()))
            print(diff)
        else:
            self.fail(diff)

    def has(self, suffix):
        return os.path.exists(self.stem + suffix)

    # -- assembler ---------------------------------------------------------------------------------------------------

    def words(self, source, *args):
        status, out, err = self.trivet("asm", source, "--format", "hex", "-o", "-", "-q", "--color", "never", *args)
        return status, [line for line in out.split("\n") if line and not line.startswith("//")], err

    def check_text(self):
        if self.has(".hex"):
            status, words, err = self.words(self.file, *self.args("asm"))
            if status:
                self.fail("asm: exit %d\n%s" % (status, err))
            self.compare(".hex", SPDX + "".join(w + "\n" for w in words))
        for suffix, wanted in ((".err", 2), (".warn", 0)):
            if self.has(suffix):
                status, _, err = self.trivet("asm", self.file, "--format", "hex", "-o", "-", "--color", "never", *self.args("asm"))
                if status != wanted:
                    self.fail("asm: exit %d, want %d" % (status, wanted))
                self.compare(suffix, err)
        if self.has(".check"):
            status, out, err = self.trivet("check", self.file, "--color", "never", *self.args("run"))
            if status != (1 if ": error: " in err else 0):
                self.fail("check: exit %d" % status)
            self.compare(".check", out + err)
        if self.has(".uops"):
            self.compare(".uops", self.trivet("dis", self.file, "--uops", "--color", "never", *self.args("asm"))[1])
        if self.has(".run"):
            self.compare(".run", self.trivet("run", self.file, "--color", "never", *self.args("run"))[2])
        if self.has(".dis"):
            self.check_disassembly()

    def check_disassembly(self):
        status, out, err = self.trivet("dis", self.file, "--data", "--color", "never", *self.args("asm"))
        if status or err:
            self.fail("dis: exit %d\n%s" % (status, err))
        self.compare(".dis", out)
        with tempfile.TemporaryDirectory() as scratch:
            again = os.path.join(scratch, "again.s")
            with open(again, "w", encoding="utf-8") as f:
                f.write(out)
            want = self.words(self.file, *self.args("asm"))
            got = self.words(again)
            if got[:2] != want[:2]:
                self.fail("the disassembly does not assemble back to the same words\n" + got[2])

    # -- machine -----------------------------------------------------------------------------------------------------

    def run(self, dumps):
        args = ["run", self.file, "--json"] + self.args("asm") + self.args("run")
        for d in dumps:
            args += ["--dump", d]
        status, out, err = self.trivet(*args)
        try:
            return status, json.loads(out)["result"]
        except ValueError:
            self.fail("run: exit %d, no JSON\n%s" % (status, err))
            return status, None

    def oracle(self):
        params = dict(a.split("=") for a in self.args("run") if "=" in a)
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "program.elf")
            status, _, err = self.trivet("asm", self.file, "-q", "-o", path, *self.args("asm"))
            if status:
                self.fail("asm: exit %d\n%s" % (status, err))
                return None
            program = Program(path)
        result, machine = program.run({ORACLE_NAMES.get(k, k): v if v.isalpha() else int(v, 0) for k, v in params.items()})
        return program, result, machine

    def check_oracle(self, got, dumps):
        made = self.oracle()
        if not made:
            return
        program, want, machine = made
        fault = want["fault"] and (FAULT_CODES[want["fault"]["kind"]], want["fault"]["index"])
        if fault != (got["fault"] and (got["fault"]["code"], got["fault"]["index"])):
            self.fail("fault %s, the oracle has %s" % (got["fault"], fault))
        if got["cycles"] != want["cycles"]:
            self.fail("cycles %d, the oracle has %d" % (got["cycles"], want["cycles"]))
        for name, engine in want["engines"].items():
            have = got["engines"][name]
            flat = dict(engine["stalled"], busy=engine["busy"], idle=engine["idle"])
            seen = dict(have["stalled"], busy=have["busy"], idle=have["idle"])
            for key in flat:
                if flat[key] != seen.get(key, 0):
                    self.fail("%s %s is %d, the oracle has %d" % (name, key, seen.get(key, 0), flat[key]))
        for text, have in zip(dumps, got["dumps"]):
            space, addr, count, kind = text.split(":")
            size = TYPE_BYTES[kind]
            count = int(count, 0)
            bits = machine.dump(space, program.address(addr), -(-count * size // 2))
            raw = struct.pack("<%dH" % len(bits), *bits)
            if size == 2:
                values = ["0x%04x" % b for b in bits]
                values = values if kind == "bf16" else [int(v, 16) for v in values]
                if kind == "s16":
                    values = [v - 65536 if v > 32767 else v for v in values]
                if kind == "f16":
                    values = list(struct.unpack("<%de" % count, raw))
            else:
                values = list(struct.unpack("<%d%s" % (count, {"u8": "B", "hex8": "B", "s8": "b", "hex32": "I", "f32": "f",
                                                               "hex64": "Q"}[kind]), raw[:count * size]))
            if [number(v, kind) if size != 2 else v for v in values] != [number(v, kind) for v in have["values"]]:
                self.fail("%s is %s, the oracle has %s" % (text, have["values"], values))

    def check_run(self, want):
        dumps = list(want.get("dumps", {}))
        status, got = self.run(dumps)
        if got is None:
            return
        fault = (want["code"], want["index"]) if "code" in want else None
        have = got["fault"] and (got["fault"]["code"], got["fault"]["index"])
        if have != fault or status != (1 if fault else 0):
            self.fail("fault %s (exit %d), want %s" % (got["fault"], status, fault))
        if "cycles" in want and got["cycles"] != want["cycles"]:
            self.fail("cycles %d, want %d" % (got["cycles"], want["cycles"]))
        for text, d in zip(dumps, got.get("dumps", [])):
            kind = text.split(":")[3]
            seen, wanted = [number(v, kind) for v in d["values"]], [number(v, kind) for v in want["dumps"][text]]
            if seen != wanted:
                bad = [i for i, (a, b) in enumerate(zip(seen, wanted)) if a != b]
                self.fail("%s: %s" % (text, "%d values, want %d" % (len(seen), len(wanted)) if not bad else
                                      "element %d is %s, want %s (%d differ)" % (bad[0], d["values"][bad[0]],
                                                                                 want["dumps"][text][bad[0]], len(bad))))
        if len(got.get("dumps", [])) != len(dumps):
            self.fail("%d dumps, want %d" % (len(got.get("dumps", [])), len(dumps)))
        else:
            self.check_oracle(got, dumps)

    def check_json(self, suffix):
        with open(self.stem + suffix, encoding="utf-8") as f:
            self.check_run(json.load(f))

    def check_cycles(self):
        text = "\n".join(self.head)
        cycles = re.search(r"^; cycles: (\d+)$", text, re.M)
        if not cycles:
            self.fail("no line `; cycles: N` at its head")
            return
        status, got = self.run([])
        if got is None:
            return
        if status or got["cycles"] != int(cycles[1]):
            self.fail("cycles %d (exit %d), want %s" % (got["cycles"], status, cycles[1]))
        for name, rest in re.findall(r"^; engine (\w+) (.*)$", text, re.M):
            engine = got["engines"][name]
            for key, value in re.findall(r"(\w+)=(\d+)", rest):
                have = engine[key] if key in engine else engine["stalled"].get(key, 0)
                if have != int(value):
                    self.fail("%s %s is %d, want %s" % (name, key, have, value))
        self.check_oracle(got, [])


class OpenNpuCase(Case):
    """A program of the OpenNPU: another oracle, and perhaps a profile."""

    LANES = {"test": "8", "top": "64"}
    DATA = 1 << 16  # the examples' data that is not zero ends before this

    def named_profile(self):
        """That of `.profile`, which the command takes from the program, as a list."""
        with open(os.path.join(self.folder, self.file), encoding="utf-8") as f:
            return re.findall(r"^ *\.profile (\S+)", f.read(), re.M)[:1]

    def args(self, name):
        profile = Case.args(self, "profile")
        return Case.args(self, name) + (["-c"] + profile if name == "run" and profile else [])

    def parameters(self):
        given = dict(a.split("=") for a in Case.args(self, "run") if "=" in a)
        lanes = "".join(self.LANES[p] for p in Case.args(self, "profile") or self.named_profile()) or "64"
        return {"K": int(given.get("vector.k", lanes)), "L": int(given.get("vector.l", "32")),
                "mem.bytes": int(given.get("mem.bytes", str(64 << 20)))}

    def check_oracle(self, got, dumps):
        status, words, err = self.words(self.file)
        parameters = self.parameters()
        data = min(self.DATA, parameters["mem.bytes"])
        start = json.loads(self.trivet("run", self.file, "--json", "--until", "0", "--dump", "mem:0:%d:u8" % data, *self.args("run"))[1])["result"]
        machine = opennpu_oracle.Machine(parameters)
        machine.load_mem(0, bytes(start["dumps"][0]["values"]))
        want = machine.run([int(w.split()[0], 16) for w in words])
        if status:
            self.fail("asm: exit %d\n%s" % (status, err))
        fault = want["fault"] and (opennpu_oracle.FAULT_CODES[want["fault"]["kind"]], want["fault"]["index"])
        if fault != (got["fault"] and (got["fault"]["code"], got["fault"]["index"])):
            self.fail("fault %s, the oracle has %s" % (got["fault"], fault))
        if got["cycles"] != want["ticks"]:
            self.fail("cycles %d, the oracle has %d" % (got["cycles"], want["ticks"]))
        for text, d in zip(dumps, got["dumps"]):
            code = {"s8": "b", "u8": "B", "s16": "h", "u16": "H", "s32": "i"}[text.split(":")[3]]
            raw = struct.pack("<%d%s" % (len(d["values"]), code), *d["values"])
            if list(raw) != machine.dump("mem", d["addr"], len(raw)):
                self.fail("%s is not what the oracle has" % text)


class CmdqCase(Case):
    """A queue. The oracle compares data, cycles, engines and hazards by itself."""

    HAZARD = re.compile(r"entries (\d+) \(\w+\) and (\d+) \(\w+\) both touch ")

    def check_run(self, want):
        Case.check_run(self, want)
        _, got = self.run([])
        if got is None:
            return
        outputs = got.get("outputs", {})
        if list(outputs) != list(want["outputs"]):
            self.fail("outputs %s, want %s" % (list(outputs), list(want["outputs"])))
        for name, values in want["outputs"].items():
            seen, wanted = ([struct.pack("<f", v) for v in values] for values in (outputs.get(name, []), values))
            if seen != wanted:
                bad = [i for i, (a, b) in enumerate(zip(seen, wanted)) if a != b]
                self.fail("%s: %d values, want %d; different: %s" % (name, len(seen), len(wanted), bad[:8]))
        found = json.loads(self.trivet("check", self.file, "--json")[1])["diagnostics"]
        others = [[d["code"]] + [int(i) for i in re.findall(r"entry (\d+) \(", d["message"])] for d in found if d["code"] != "TV-Q040"]
        if others != want.get("findings", []):
            self.fail("check: %s, want %s" % (others, want.get("findings", [])))
        found = [d for d in found if d["code"] == "TV-Q040"]
        pairs = [[int(i) for i in m.groups()] for m in (self.HAZARD.match(d["message"]) for d in found) if m]
        if pairs != want.get("hazards", []) or len(found) != len(pairs):
            self.fail("check: %s" % [d["message"] for d in found])

    def check_oracle(self, got, dumps):
        p = subprocess.run([sys.executable, "-B", os.path.join(ROOT, "tests", "oracle", "compare_cmdq.py"), self.runner.trivet, "--jobs", "1",
                            "--file", os.path.join(self.folder, self.file)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        if p.returncode:
            self.fail(p.stdout.decode("utf-8", "replace"))


class Runner(Suite):
    def report(self, name, problems):
        self.check(name, "\n".join(problems))

    def one(self, source, *checks):
        name = os.path.relpath(source, os.path.join(HERE, "..", ".."))
        if self.word and self.word not in name:
            return
        case = Case(self, source)
        if any(re.match(r"\s*\.target\s+opennpu\b", line) for line in case.head):
            case = OpenNpuCase(self, source)
        elif source.endswith(".json"):
            case = CmdqCase(self, source)
        try:
            for check in checks:
                check(case)
        except Exception as e:  # a case must not hide the others
            case.fail("%s: %s" % (type(e).__name__, e))
        self.report(name, case.problems)

    def codes(self):
        """docs/codes.md has every code with its name and meaning, and no other."""
        want = {}
        for path in glob.glob(os.path.join(ROOT, "src", "**", "codes.def"), recursive=True):
            with open(path, encoding="utf-8") as f:
                for code, *rest in re.findall(r'^TV_CODE_ROW\(\w+, "([^"]*)", "([^"]*)",\s+"([^"]*)"\)', f.read(), re.M):
                    want[code] = rest
        with open(os.path.join(ROOT, "docs", "codes.md"), encoding="utf-8") as f:
            got = {code: rest for code, *rest in re.findall(r"^\| (TV-\w+) \| ([^|]*) \| ([^|]*) \|", f.read(), re.M)}
        self.report("docs/codes.md", ["%s: %s, want %s" % (c, got.get(c), want.get(c)) for c in sorted(set(want) | set(got))
                                      if want.get(c) != got.get(c)])

    def chosen(self, folder, pattern):
        found = sorted(glob.glob(os.path.join(folder, pattern)))
        return found if self.word or self.rebase else sample(found)

    def all(self):
        for source in self.chosen(HERE, "*.s"):
            checks = [Case.check_text]
            for suffix in (".expect.json", ".fault.json"):
                if os.path.exists(source[:-2] + suffix):
                    checks.append(lambda case, suffix=suffix: case.check_json(suffix))
            self.one(source, *checks)
        for source in self.chosen(os.path.join(HERE, "..", "cycles"), "*.s"):
            self.one(os.path.abspath(source), Case.check_cycles)
        for machine in ("pccx", "opennpu", "cmdq"):
            examples = os.path.join(ROOT, "examples", machine)
            for source in self.chosen(examples, "*.json" if machine == "cmdq" else "*.s"):
                if not source.endswith(".expect.json"):
                    self.one(source, lambda case: case.check_json(".expect.json"))
            for name in ("expected.py", "make.py"):
                script = os.path.join(examples, name)
                if os.path.exists(script) and not self.word:
                    p = subprocess.run([sys.executable, "-B", script, "--check"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                    self.report("examples/%s/%s" % (machine, name), [p.stdout.decode()] if p.returncode else [])
        if not self.word:
            self.codes()


def main():
    options = parse_arguments(__doc__, "trivet", rest="pattern")
    options.word = options.word or "".join(options.pattern)
    runner = Runner(options.trivet, options)
    runner.all()
    return runner.finish()


if __name__ == "__main__":
    sys.exit(main())
