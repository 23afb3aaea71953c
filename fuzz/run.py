# SPDX-License-Identifier: Apache-2.0
"""Runs one libFuzzer target for some seconds, with seeds from the project's examples.

usage: run.py TARGET SOURCE_ROOT TRIVET SECONDS"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile


def seed(kind, root, trivet, folder):
    sources = glob.glob(os.path.join(root, "examples", "pccx", "*.s")) + glob.glob(os.path.join(root, "tests", "golden", "**", "*.s"), recursive=True)
    if kind == "queue":
        for path in glob.glob(os.path.join(root, "tests", "queue", "*.json*")):
            shutil.copy(path, folder)
    elif kind == "config":
        for path in glob.glob(os.path.join(root, "configs", "*.ini")):
            shutil.copy(path, folder)
    elif kind == "asm":
        for i, path in enumerate(sources):
            shutil.copy(path, os.path.join(folder, "%d.s" % i))
    else:
        ending = "elf" if kind == "elf" else "bin"
        for i, path in enumerate(sources):
            subprocess.run([trivet, "asm", "-q", path, "-o", os.path.join(folder, "%d.%s" % (i, ending))],
                           stderr=subprocess.DEVNULL, check=False)


def dictionary(kind, root, folder):
    """libFuzzer's option for the words of a queue, which it would not guess."""
    if kind != "queue":
        return []
    words = set()
    for name in ("fields.def", "opcodes.def", "isa.c"):
        with open(os.path.join(root, "src", "isa", "cmdq", name)) as f:
            words.update(re.findall(r'"([a-z][a-z0-9_]+)"|TV_OPCODE\((\w+)', f.read()))
    path = os.path.join(folder, "words.dict")
    with open(path, "w") as f:
        f.writelines('"\\"%s\\""\n' % (a or b) for a, b in sorted(words))
    return ["-dict=" + path]


def main():
    target, root, trivet = (os.path.abspath(path) for path in sys.argv[1:4])
    seconds = sys.argv[4]
    kind = os.path.basename(target).replace("fuzz_", "")
    corpus, artifacts = tempfile.mkdtemp(prefix="trivet-fuzz-"), tempfile.mkdtemp(prefix="trivet-fuzz-found-")
    seed(kind, root, trivet, corpus)
    seconds = os.environ.get("TRIVET_FUZZ_SECONDS", seconds)
    result = subprocess.run([target, "-max_total_time=" + seconds, "-timeout=20", "-rss_limit_mb=4096", "-max_len=65536", "-print_final_stats=1",
                             "-artifact_prefix=" + artifacts + "/"] + dictionary(kind, root, artifacts) + [corpus],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=corpus)
    text = result.stdout.decode("utf-8", "replace")
    print(text[-6000:] if result.returncode else "\n".join(line for line in text.splitlines() if line.startswith("stat::")))
    shutil.rmtree(corpus, ignore_errors=True)
    if result.returncode:
        print("the input is in", artifacts)
    else:
        shutil.rmtree(artifacts, ignore_errors=True)
    return 1 if result.returncode else 0


sys.exit(main())
