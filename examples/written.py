# SPDX-License-Identifier: Apache-2.0
"""Files that scripts beside the examples make: written, or with --check compared with what stands there."""

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
                    print("%s is not what %s makes" % (os.path.relpath(path), os.path.basename(script)))
                    status = 1
        else:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
    return status


def expectations(script, names, text_of):
    """NAME.expect.json for every function example_NAME of `names`, a module's globals; text_of takes what it returns."""
    folder = os.path.dirname(os.path.abspath(script))
    files = []
    for name, value in sorted(names.items()):
        if name.startswith("example_"):
            text = text_of(*value())
            json.loads(text)
            files.append((os.path.join(folder, name[8:] + ".expect.json"), text))
    return write_all(script, files)
