#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gguf-convert as a user runs it: no output replaces an input, wrong arguments are rejected, types are converted.

    convert.py GGUF_CONVERT MODEL
"""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from suite import Suite, parse_arguments  # noqa: E402


class Convert(Suite):
    def __init__(self, options):
        super().__init__(None, options)
        self.program, self.model = os.path.abspath(options.program), os.path.abspath(options.model)

    def path(self, name):
        return os.path.join(self.folder, name)

    def reject(self, name, words, *arguments, status=2):
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True, check=False)
        self.check(name, (done.returncode != status or words not in done.stderr) and (done.returncode, done.stderr))

    def convert(self, *arguments):
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True, check=False)
        self.check("gguf-convert " + " ".join(arguments), done.returncode and done.stderr)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def no_output_replaces_an_input(t):
    model, tokenizer = t.path("m.gguf"), t.path("tokenizer.bin")
    shutil.copy(t.model, model)
    t.convert(model, t.path("m.bin"), "-k", tokenizer)
    os.symlink("m.gguf", t.path("soft.gguf"))
    os.link(model, t.path("hard.gguf"))
    os.symlink("tokenizer.bin", t.path("soft.bin"))
    before = read(model), read(tokenizer)
    for name in ("m.gguf", "./m.gguf", "soft.gguf", "hard.gguf"):
        t.reject("over the model: " + name, "would overwrite", model, t.path(name))
        t.reject("from a link: " + name, "would overwrite", t.path(name), model, "-t", "F32")
    for name in ("tokenizer.bin", "./tokenizer.bin", "soft.bin"):
        t.reject("over the tokenizer: " + name, "would overwrite", t.path("m.bin"), t.path(name), "-k", tokenizer)
    t.check("the inputs are as before", (read(model), read(tokenizer)) != before and "they changed")


def types_are_converted_and_back(t):
    """F32 holds every value of the model's type, so that the way back gives the same bytes."""
    wide, back, again = t.path("wide.gguf"), t.path("back.gguf"), t.path("again.gguf")
    t.convert("-t", "F32", t.model, wide)
    t.convert("-t", "Q8_0", wide, back)
    t.convert("-t", "F32", back, again)
    t.check("F32 is larger", os.path.getsize(wide) <= os.path.getsize(back) and "it is not")
    t.convert("-t", "Q8_0", again, t.path("last.gguf"))
    t.check("Q8_0 of its own values is the same", read(back) != read(t.path("last.gguf")) and "the files differ")


def wrong_arguments_are_rejected(t):
    out = t.path("x.gguf")
    t.reject("an unknown type", "unknown type 'Q9'", "-t", "Q9", t.model, out)
    t.reject("an unknown version", "unknown checkpoint version '1'", "-c", "1", t.model, out)
    t.reject("an unknown option", "--help", "--nothing", t.model, out)
    t.reject("one file", "usage: ", t.model)
    t.reject("a missing file", "[TV-F001]", t.path("none"), out)
    t.reject("a file that is no model", "TV-L001", os.path.abspath(__file__), out)
    t.reject("a folder that does not exist", "TV-F002", t.model, t.path("none/x.gguf"), "-t", "F32", status=3)
    t.check("nothing was written", os.path.exists(out) and "x.gguf exists")


def main():
    options = parse_arguments(__doc__, "program", "model")
    t = Convert(options)
    t.run_tests([no_output_replaces_an_input, types_are_converted_and_back, wrong_arguments_are_rejected], t)
    sys.exit(t.finish())


if __name__ == "__main__":
    main()
