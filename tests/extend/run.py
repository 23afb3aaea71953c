#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adding an instruction, as CONTRIBUTING.md describes it, tried on a copy of the source.

    run.py ROOT BUILD [-k TARGET] [--sample N]

For each machine tests/extend/TARGET.patch adds one instruction. With the three patches the copy builds, passes the tests of
the tables, and programs that use the instructions (TARGET.s or TARGET.json) print TARGET.expect. With any one hunk of a patch
left out, the build or a test of the tables fails: nothing can be forgotten in silence. --sample leaves out N hunks,
spread evenly over all patches, instead of each. Prints the files and lines touched. Where BUILD is a folder of ROOT whose
compiler takes warnings for errors, as ./test makes it, the copy starts with its objects and compiles only what a patch changes.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from suite import Suite, parse_arguments  # noqa: E402

# The tests that read the tables; what a target's instruction must not break.
TABLE_TESTS = {"pccx": ["test_codec"], "opennpu": ["test_codec_opennpu", "test_lanes"], "cmdq": ["test_cmdq"]}
FILES_MAX, LINES_MAX = 4, 40


def every_table_test():
    return sorted(set(sum(TABLE_TESTS.values(), [])))


def hunks(text):
    """(header of the file, hunk) of each hunk of a patch; a new file is one hunk."""
    for part in re.split(r"(?m)^(?=diff --git )", text):
        if not part:
            continue
        pieces = re.split(r"(?m)^(?=@@ )", part)
        for hunk in pieces[1:]:
            yield pieces[0], hunk


def joined(parts):
    out, last = "", None
    for head, hunk in parts:
        out += (head if head != last else "") + hunk
        last = head
    return out


def patch_of(target):
    with open(os.path.join(HERE, target + ".patch"), encoding="utf-8") as file:
        return file.read()


# What a copy of a build folder needs of it, without the tests.
COPIED = (".ninja_deps", ".ninja_log", "build.ninja", "meson-info", "meson-private", "src", "tools")


def can_reuse_objects(root, build):
    """Whether the build folder is in the source, compiles with GCC, checks assertions and takes all warnings for errors; and whether no
    patch needs another build.ninja."""
    if os.path.dirname(build) != root or any("meson.build" in patch_of(target) for target in TABLE_TESTS):
        return False
    with open(os.path.join(build, "meson-info", "intro-buildoptions.json"), encoding="utf-8") as file:
        options = {option["name"]: option["value"] for option in json.load(file)}
    with open(os.path.join(build, "build.ninja"), encoding="utf-8") as file:
        compiler = re.search(r"^rule c_COMPILER\n command = (?:\S*ccache )?(\S+) ", file.read(), re.M)[1]
    expected = {"werror": True, "warning_level": "3", "buildtype": "debugoptimized", "b_ndebug": "if-release", "b_sanitize": "none", "c_args": [],
                "tests": True}
    return os.path.basename(compiler) == "gcc" and expected.items() <= options.items()


class Tree:
    """A copy of the source with a build folder."""

    def __init__(self, root, build, folder):
        self.source = os.path.join(folder, "source")
        self.build = os.path.join(self.source, "build")
        left_out = {name for name in os.listdir(root) if name.startswith(("build", ".git", "node_modules"))}
        shutil.copytree(root, self.source, ignore=lambda path, names: left_out & set(names) if path == root else set())
        if can_reuse_objects(root, build):
            self.copy_objects(root, build)
            return
        status, text = self.run(["meson", "setup", self.build, self.source, "--buildtype=plain", "-Db_ndebug=false",
                                 "-Dc_args=-Werror=switch -Werror=unused -Werror=override-init"], folder)
        if status:
            sys.exit(text)

    def copy_objects(self, root, build):
        """Copies keep the times of files, by which ninja knows what is up to date."""
        for name in COPIED + tuple(os.path.join("tests", "unit", test + ".p") for test in every_table_test()):
            source, copy = os.path.join(build, name), os.path.join(self.build, name)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            if os.path.isdir(source):
                shutil.copytree(source, copy, symlinks=True)
            else:
                shutil.copy2(source, copy)
        path = os.path.join(self.build, "build.ninja")
        status = os.stat(path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(build, self.build).replace(root, self.source))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def run(self, command, cwd=None):
        p = subprocess.run(command, cwd=cwd or self.source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return p.returncode, p.stdout

    def patch(self, text, reverse=False):
        command = ["git", "apply", "-C1", "--recount"] + (["-R"] if reverse else [])
        p = subprocess.run(command, cwd=self.source, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return p.stdout if p.returncode else None

    def make(self, tests):
        """What fails: the end of the compiler's output, or the name of a test of the tables; None when nothing does."""
        targets = ["src/trivet"] + ["tests/unit/" + name for name in tests]
        status, text = self.run(["ninja", "-C", self.build] + targets)
        if status:
            errors = [line for line in text.splitlines() if re.search(r"error|FAILED", line)]
            return "build: " + (errors[-1] if errors else text[-300:])
        for name in tests:
            status, text = self.run([os.path.join(self.build, "tests", "unit", name)])
            if status:
                return "%s: %s" % (name, [line for line in text.splitlines() if "FAILED" in line or "ERROR" in line][-1:])
        return None


def chosen_hunks(sample):
    """(target, number) of each hunk that is left out."""
    every = [(target, i) for target in TABLE_TESTS for i, _ in enumerate(hunks(patch_of(target)))]
    return {every[(2 * i + 1) * len(every) // (2 * sample)] for i in range(sample)} if sample else set(every)


def patches_apply(suite, tree):
    """The patches of all targets together."""
    for target in TABLE_TESTS:
        text = patch_of(target)
        parts = list(hunks(text))
        files = len(set(head for head, _ in parts))
        lines = sum(line.startswith(("+", "-")) for _, hunk in parts for line in hunk.splitlines()[1:])
        print("%s: %d files, %d hunks, %d lines" % (target, files, len(parts), lines))
        suite.expect(target + ": at most %d files and %d lines" % (FILES_MAX, LINES_MAX), files <= FILES_MAX and lines <= LINES_MAX)
        suite.check(target + ": the patch applies", tree.patch(text))


def instruction_works(suite, tree, target):
    program = next(path for path in glob.glob(os.path.join(HERE, target + ".*")) if path.endswith((".s", ".json")))
    with open(os.path.join(HERE, target + ".expect"), encoding="utf-8") as file:
        first, expected = file.read().split("\n", 1)
    arguments = first.lstrip("# ").split()
    status, found = tree.run([os.path.join(tree.build, "src", "trivet"), "run", program] + arguments)
    suite.equal(target + ": the program computes what was worked out by hand", (status, found), (0, expected))


def hunks_are_needed(suite, tree, target, chosen):
    """Without one of the chosen hunks the build or a test of the tables fails. The other targets keep their patches."""
    text = patch_of(target)
    parts = list(hunks(text))
    for i in sorted(chosen):
        where = "%s: without hunk %d (%s)" % (target, i + 1, re.search(r"\+\+\+ b/(\S+)", parts[i][0])[1])
        rest = joined(parts[:i] + parts[i + 1:])
        problem = tree.patch(text, reverse=True) or tree.patch(rest)
        if not problem:
            noticed = tree.make(TABLE_TESTS[target])
            suite.expect(where + " the build or a test of the tables fails", noticed)
            problem = tree.patch(rest, reverse=True) or tree.patch(text)
        suite.check(where + " the rest applies", problem)


def main():
    options = parse_arguments(__doc__, "root", "build", extra=(("--sample", 0),))
    suite = Suite(options=options)
    os.environ["CC"] = "gcc"
    tree = Tree(os.path.abspath(options.root), os.path.abspath(options.build), suite.folder)
    patches_apply(suite, tree)
    suite.check("the copy builds and passes the tests of the tables", tree.make(every_table_test()))
    chosen = chosen_hunks(options.sample)
    targets = [target for target in TABLE_TESTS if options.word in target]
    for target in targets:
        instruction_works(suite, tree, target)
    for target in targets:
        hunks_are_needed(suite, tree, target, {i for name, i in chosen if name == target})
    return suite.finish()


sys.exit(main())
