#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples of the manual: every block of README.md and docs/ that begins with `$ ` runs, and shows what its commands print.

    run.py TRIVET BUILD [--rebase] [-k PAGE]

The blocks of a page run one after another in a folder of their own that has the examples, models, data, configs and build of the
source. A block begins with `$ `; each of its lines `$ COMMAND` is followed by what the command prints. Inputs are shown:
    $ cat NAME                  the text below becomes the file NAME, if there is none
    <!-- file: NAME -->         on the line above a block: the block becomes the file NAME
    <!-- not run: REASON -->    on the line above a block: the block does not run. For what a test cannot do, as to install
                                packages; at most NOT_RUN_MAX blocks
A figure in the text of FIGURE_PAGES (with thousands separators, or of cycles, nats, percent, tokens a second) is one that a block shows.
Figures of the computer that runs a command (transcript.py) may differ. --rebase writes the outputs into the pages and shows what changed.
"""

import concurrent.futures
import difflib
import glob
import os
import re
import shutil
import sys
import tempfile

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
import transcript  # noqa: E402
from suite import ROOT, Suite, parse_arguments, sample  # noqa: E402

BLOCK = re.compile(r"^(?:<!-- (file|not run): (.*?) -->\n)?```(\w*)\n(.*?)^```$", re.M | re.S)
NOT_RUN_MAX = 12
# Folders of the build with programs and data that pages name.
BUILT = ("examples", "tools")
# Pages whose text may name a figure only if a block shows it; limits that no output shows.
FIGURE_PAGES = ("docs/getting-started.md", "docs/commands.md")
LIMITS = {"100,000"}
FIGURE = re.compile(r"(?<![\w.-])(?:\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?(?= (?:cycles|nats|%|tokens a second)))")
# Pages that run models or programs of the build, or compile: not with a sanitizer.
LONG_PAGES = ("README.md", "docs/getting-started.md", "docs/commands.md", "docs/llm.md", "docs/gemma3n.md", "docs/digits.md")


class Manual(Suite):
    def __init__(self, options):
        super().__init__(options.trivet, options)
        self.env = transcript.environment(os.path.abspath(options.build))
        self.build = os.path.abspath(options.build)
        self.not_run = []

    def prepare(self, folder):
        """The parts of the source that commands name."""
        for name in ("models", "data", "configs", "docs"):
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
        for name in BUILT:
            os.makedirs(os.path.join(folder, "build", name))
            for path in filter(os.path.isfile, glob.glob(os.path.join(self.build, name, "*"))):
                shutil.copy(path, os.path.join(folder, "build", name))
        shutil.copytree(os.path.join(ROOT, "examples"), os.path.join(folder, "examples"))

    def real_page(self, name, text, folder):
        """The page as it is when its blocks run."""
        def block(match):
            marker, argument, _, body = match.groups()
            if marker == "file":
                with open(os.path.join(folder, argument), "w", encoding="utf-8") as f:
                    f.write(body)
            elif marker == "not run":
                self.not_run.append("%s: %s" % (name, argument))
            elif body.startswith("$ "):
                return match[0][:match.start(4) - match.start()] + transcript.run(body, folder, self.env) + "```"
            return match[0]

        return BLOCK.sub(block, text)

    def page(self, path):
        name = os.path.relpath(path, ROOT)
        with open(path, encoding="utf-8") as f:
            want = f.read()
        with tempfile.TemporaryDirectory() as folder:
            self.prepare(folder)
            try:
                got = self.real_page(name, want, folder)
            except transcript.NotAllowed as e:
                self.check(name, str(e))
                return
        diff = "".join(difflib.unified_diff(want.splitlines(True), got.splitlines(True), name, "found"))
        if diff and self.rebase:
            with open(path, "w", encoding="utf-8") as f:
                f.write(got)
            print(diff)
            diff = ""
        self.check(name, diff)
        if name in FIGURE_PAGES:
            self.equal(name + ": figures that no block shows", figures_without_block(got), [])


def figures_without_block(text):
    """The figures of a page's text that no output in its blocks has, rounded or not."""
    blocks = "\n".join(match[4] for match in BLOCK.finditer(text))
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)", "", BLOCK.sub("", text))
    shown = [float(n.replace(",", "")) for n in re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", blocks)]
    digits = lambda figure: len(figure.partition(".")[2])
    return [figure for figure in FIGURE.findall(prose) if figure not in LIMITS
            and not any(round(n, digits(figure)) == float(figure.replace(",", "")) for n in shown)]


def main():
    options = parse_arguments(__doc__, "trivet", "build")
    t = Manual(options)
    pages = [os.path.join(ROOT, "README.md")] + sorted(glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True))
    names = {path: os.path.relpath(path, ROOT) for path in pages}
    pages = [path for path in pages if options.word in names[path] and not (options.sanitized and names[path] in LONG_PAGES)]
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        list(threads.map(t.page, sample(pages)))
    t.expect("blocks that do not run", len(t.not_run) <= NOT_RUN_MAX, "\n".join(t.not_run))
    sys.exit(t.finish())


if __name__ == "__main__":
    main()
