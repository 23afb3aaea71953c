# SPDX-License-Identifier: Apache-2.0
"""Writes the generated files of the examples, or with --check compares them with the existing ones."""

import json
import os
import sys


def write_all(script, files):
    """`files`: paths and texts. Returns the exit status."""
    status = 0
    for path, text in files:
        if sys.argv[1:] == ["--check"]:
            with open(path, encoding="utf-8") as f:
                if f.read() != text:
                    print("%s is not up to date; %s generates it" % (os.path.relpath(path), os.path.basename(script)))
                    status = 1
        else:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
    return status


def expectations(script, names, text_of):
    """Writes NAME.expect.json for each function example_NAME of `names`, a module's globals."""
    folder = os.path.dirname(os.path.abspath(script))
    files = []
    for name, value in sorted(names.items()):
        if name.startswith("example_"):
            text = text_of(*value())
            json.loads(text)
            files.append((os.path.join(folder, name[8:] + ".expect.json"), text))
    return write_all(script, files)
