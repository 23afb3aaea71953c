#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples of `trivet explain`: every one runs, prints what it shows, and has its code in it.

    explanations.py TRIVET BUILD [--rebase] [-k CODE]

An example is a transcript (transcript.py) in a folder with the examples, models and configs of the source, and with the
model files of models.py if it names one. Lines that begin with `# ` instead of `$ ` show what a command line cannot; NOT_RUN
says why. docs/codes.md has the causes and fixes. --rebase writes the outputs into src/lib/explain_*.def, and shows what changed.
"""

import ast
import concurrent.futures
import difflib
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
import models  # noqa: E402
import transcript  # noqa: E402
from suite import ROOT, Suite, parse_arguments, sample  # noqa: E402

# Codes whose examples do not run.
NOT_RUN = {
    "TV-F004": "memory runs out at another point on every host; tests/library/test_debug.c limits it",
    "TV-F006": "two million events take seconds; tests/unit/test_report.c has such a run",
    "TV-F007": "only a program that uses the library can make this mistake",
    "TV-O005": "no later version of the program format exists",
    "TV-O006": "the assembler rejects such data; tests/unit/test_object.c writes a file",
    "TV-S008": "it depends on the Slurm of the host; tests/slurm/run.sh has one",
    **{f"TV-X00{i}": "it needs a shared object; tests/extensions/run.py builds some" for i in range(1, 4)},
    **{code: "it needs an extension; tests/extensions/run.py builds some" for code in ("TV-P023", "TV-N012", "TV-Q036")},
    "TV-V003": "the command makes the machine that the log is of",
    "TV-T005": "the commands reject it before; only a program that uses the library can ask for it",
    **{f"TV-L06{i}": "no command writes such a network; tests/unit/test_onnx.c does" for i in range(1, 4)},
    **{f"TV-L07{i}": "the inputs are binary; tests/networks/infer.py and tests/unit/test_infer.c have such files" for i in range(3)},
    **{f"TV-L08{i}": "no command reads arrays yet; tests/unit/test_npy.c has such files" for i in range(4)},
    "TV-L043": "importers build valid graphs only; tests/unit/test_llm.c builds invalid ones",
}
ROW = re.compile(r'^TV_EXPLANATION\(\s*"(TV-\w+)",((?:\s+"(?:\\.|[^"\\])*",?)+)\)$', re.M)
WIDTH = 98  # of a line of a literal, as written in C


def escaped(text):
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def c_string(text):
    """Lines of a C string literal, aligned below the first argument; a long line of the text becomes several."""
    pieces = []
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        while len(escaped(line)) > WIDTH:
            ends = [i for i in range(1, len(line)) if len(escaped(line[:i])) <= WIDTH]
            at = max([i for i in ends if line[i - 1] == " "] or ends)
            pieces.append(line[:at])
            line = line[at:]
        pieces.append(line)
    return "\n".join(" " * 15 + '"%s"' % escaped(p) for p in pieces)


def row_text(code, *texts):
    return 'TV_EXPLANATION("%s",\n%s)' % (code, ",\n".join(c_string(t) for t in texts))


def row_texts(match):
    """The cause, the fix and the example of a row."""
    arguments = re.findall(r'((?:\s*"(?:\\.|[^"\\])*")+)', match[2])
    return ["".join(ast.literal_eval(s) for s in re.findall(r'"(?:\\.|[^"\\])*"', a)) for a in arguments]


class Explanations(Suite):
    def __init__(self, options):
        super().__init__(options.trivet, options)
        self.env = transcript.environment(os.path.abspath(options.build))

    def real_example(self, example):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("models", "configs"):
                os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
            shutil.copytree(os.path.join(ROOT, "examples"), os.path.join(folder, "examples"))
            if "$ #" in example:
                models.write_models(folder)
            return transcript.run(example, folder, self.env).rstrip("\n")

    def example(self, code, example):
        """The example as it is when it runs; reports what differs from it."""
        if code in NOT_RUN:
            self.expect(code, example.startswith("# ") and "[%s]" % code in example, example)
            return example
        try:
            found = self.real_example(example)
        except transcript.NotAllowed as e:
            self.check(code, str(e))
            return example
        self.expect(code + " is in the output", code in found.split("\n$ ")[-1], found)
        diff = "\n".join(difflib.unified_diff(example.splitlines(), found.splitlines(), code, "found", lineterm=""))
        if diff and self.rebase:
            print(diff)
            diff = ""
        self.check(code, diff)
        return found

    def file(self, path):
        with open(path, encoding="utf-8") as f:
            want = f.read()
        rows = [(m[1], *row_texts(m)) for m in ROW.finditer(want)]
        self.equal(os.path.basename(path) + ": rows", len(rows), want.count("TV_EXPLANATION("))
        rows = [row for row in rows if self.word in row[0]]
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            rows = rows if self.rebase else sample(rows)
            found = dict(zip((row[0] for row in rows), threads.map(lambda row: self.example(row[0], row[3]), rows)))
        if self.rebase:
            changed = [row for row in rows if found[row[0]] != row[3]]
            for code, cause, fix, _ in changed:
                want = ROW.sub(lambda m: row_text(code, cause, fix, found[code]) if m[1] == code else m[0], want)
            with open(path, "w", encoding="utf-8") as f:
                f.write(want)

    def page(self):
        """docs/codes.md has the name, meaning, cause and fix of every code."""
        listed = json.loads(subprocess.run([self.trivet, "explain", "--json"], stdout=subprocess.PIPE, check=True).stdout)["result"]
        with open(os.path.join(ROOT, "docs", "codes.md"), encoding="utf-8") as f:
            rows = re.findall(r"^\| (TV-\w+) \| ([^|]*) \| ([^|]*) \| (.*?) \| (.*?) \|$", f.read(), re.M)
        def unlinked(text):
            return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
        self.equal("docs/codes.md: codes", sorted(row[0] for row in rows), sorted(e["code"] for e in listed))
        page = {row[0]: row[1:3] + tuple(map(unlinked, row[3:])) for row in rows}
        for e in listed:
            self.equal("docs/codes.md: " + e["code"], page.get(e["code"]), (e["name"], e["meaning"], e["cause"], e["fix"]))
        self.equal("codes that do not run", sorted(set(NOT_RUN) - {e["code"] for e in listed}), [])


def main():
    options = parse_arguments(__doc__, "trivet", "build")
    t = Explanations(options)
    for path in sorted(glob.glob(os.path.join(ROOT, "src", "lib", "explain_*.def"))):
        t.file(path)
    t.page()
    sys.exit(t.finish())


if __name__ == "__main__":
    main()
