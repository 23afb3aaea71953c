#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every relative link of the Markdown files below a folder leads to a file in it, and to a heading if it names one.

usage: links.py FOLDER"""
import os
import re
import sys

FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchor_of(heading):
    """The name of a heading in links, as the common renderers derive it."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def read_text(path):
    with open(path, encoding="utf-8") as f:
        return FENCE.sub("", f.read())


def anchors_of(path):
    """The anchors of a file. The second heading of a name ends in -1, the third in -2."""
    counts, anchors = {}, set()
    for line in read_text(path).splitlines():
        if line.startswith("#"):
            name = anchor_of(line.lstrip("#"))
            anchors.add(f"{name}-{counts[name]}" if name in counts else name)
            counts[name] = counts.get(name, 0) + 1
    return anchors


def broken_links(root):
    for folder, _, names in os.walk(root):
        for path in (os.path.join(folder, n) for n in names if n.endswith(".md")):
            for link in LINK.findall(read_text(path)):
                if re.match(r"[a-z]+:", link):
                    continue
                name, _, anchor = link.partition("#")
                target = os.path.normpath(os.path.join(folder, name)) if name else path
                inside = os.path.relpath(target, root)[:2] != ".."
                if not inside or not os.path.exists(target):
                    yield path, link
                elif anchor and target.endswith(".md") and anchor not in anchors_of(target):
                    yield path, link


def main():
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        sys.exit(__doc__)
    broken = list(broken_links(os.path.abspath(sys.argv[1])))
    for path, link in broken:
        print(f"{os.path.relpath(path, sys.argv[1])}: the link {link} leads nowhere")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
