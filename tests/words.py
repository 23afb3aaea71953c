#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of docs/glossary.md, enforced.

    words.py ROOT [--list] [PATH...]

Retired words that have no other meaning must not appear in any source, message or page. Words that are good English but
retired as names of a concept must not appear as a part of an identifier; tests/words.allow lists the exceptions, one
identifier (or a pattern with *) and a reason a line. An exception that matches nothing is an error, so the list stays
short. With PATHs only these files or folders are checked. --list prints identifiers with their counts.
"""

import argparse
import collections
import fnmatch
import os
import re
import subprocess
import sys

# Words and phrases that mean nothing else here. Each is a regular expression; case does not matter.
RETIRED = [
    r"settle[sd]?", r"settling", r"foretold", r"anew", r"whoever", r"nobody", r"somebody", r"make_ready", r"likeliest", r"likeness",
    r"put(s|ting)? off", r"surprise[sd]?", r"mend(s|ed|ing)?", r"let(s|ting)? go", r"verdicts?", r"judge[sd]?", r"judging",
    r"refus(e|es|ed|al|als|ing)", r"complain(s|ed|ing)?", r"looked at by", r"who asks", r"is told", r"are told", r"what stands there",
    r"stands? (there|in|behind|beside|before|for itself)", r"lies? (there|in|behind|beside)", r"held by", r"in a piece", r"by itself alone",
    r"borrows", r"carefully", r"npu_\w+", r"least_\w+", r"_told", r"\w+_anew", r"passed over", r"what is wanted", r"what was said",
]
# Parts of identifiers that are retired as names of a concept; the glossary says what to write.
AMBIGUOUS = set("""place places placed shape shapes turn turns turned words least most largest ready mix mixed shares seen later
together recent part parts piece pieces plain careful alone watched circle circles stuck wrong complain tell tells told say says said
hear heard ear judge verdict forget forgotten hold holds held charge charged borrow borrowed settle settled way ways extreme npu
likeness surprise refuse refused refusal wanted anybody nobody mend floor house""".split())
CODE = (".c", ".h", ".def")
TEXT = CODE + (".py", ".md", ".js", ".css", ".html", ".s", ".ini", ".sh", ".build", ".txt", ".map", ".in")
SKIPPED = re.compile(r"^(data/|models/|LICENSE|CHANGELOG\.md|docs/glossary\.md|tests/words\.|packages\.txt|build|.*\.gguf$|src/import/unicode\.def|tests/golden/.*\.s$)")
STRING_OR_COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#[ \t]*include[^\n]*', re.S | re.M)
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def tracked(root, paths):
    names = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], stdout=subprocess.PIPE, text=True, check=False).stdout.split("\n")
    if names == [""]:  # not a checkout, for example an unpacked release
        names = [os.path.relpath(os.path.join(d, f), root) for d, _, files in os.walk(root) for f in files]
    for name in sorted(set(names)):
        if name and not SKIPPED.match(name) and os.path.isfile(os.path.join(root, name)):
            if name.endswith(TEXT) or name in ("demo", "test", "bench/run", ".ci/run"):
                if not paths or any(name == p or name.startswith(p.rstrip("/") + "/") for p in paths):
                    yield name


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def read_allowed(path):
    """Pattern -> reason."""
    allowed = {}
    with open(path, encoding="utf-8") as file:
        for number, row in enumerate(file, 1):
            row = row.split("#", 1)[0].strip()
            if row:
                pattern, _, reason = row.partition(":")
                if not reason.strip():
                    sys.exit("words.allow:%d: an exception needs a reason" % number)
                allowed[pattern.strip()] = reason.strip()
    return allowed


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("root")
    ap.add_argument("--list", action="store_true")
    ap.add_argument("paths", nargs="*")
    options = ap.parse_args()
    allowed = read_allowed(os.path.join(options.root, "tests", "words.allow"))
    retired = re.compile(r"(?<![A-Za-z0-9_])(?:%s)(?![A-Za-z0-9_])" % "|".join(RETIRED), re.I)
    used, counts = set(), collections.Counter()
    passed = failed = 0
    for name in tracked(options.root, options.paths):
        with open(os.path.join(options.root, name), encoding="utf-8", errors="replace") as file:
            text = file.read()
        found = []
        for match in retired.finditer(text):
            pattern = "%s:%s" % (name, match[0].lower())
            hit = next((p for p in allowed if fnmatch.fnmatchcase(match[0].lower(), p) or fnmatch.fnmatchcase(pattern.replace(":", " "), p)), None)
            if hit:
                used.add(hit)
            else:
                found.append((line_of(text, match.start()), "'%s' is retired" % match[0]))
        if name.endswith(CODE):
            code = STRING_OR_COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
            for match in IDENTIFIER.finditer(code):
                parts = AMBIGUOUS.intersection(match[0].lower().split("_"))
                if not parts:
                    continue
                hit = next((p for p in allowed if fnmatch.fnmatchcase(match[0], p)), None)
                if hit:
                    used.add(hit)
                    continue
                counts[match[0]] += 1
                found.append((line_of(code, match.start()), "'%s' has the retired '%s'" % (match[0], "', '".join(sorted(parts)))))
        for line, problem in sorted(set(found)):
            print("%s:%d: %s" % (name, line, problem))
        passed += not found
        failed += bool(found)
    if options.list:
        for identifier, count in counts.most_common():
            print("%6d %s" % (count, identifier))
    if not options.paths:
        for pattern in sorted(set(allowed) - used):
            print("tests/words.allow: '%s' matches nothing" % pattern)
            failed += 1
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
