#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile assembly sources: each ends in its error, or assembles, in bounded time and memory.

    run.py TRIVET [--sanitized] [-k WORD]

A few lines of a source can expand to any number, and a source can name any file. With --sanitized the bounds are wider:
a sanitizer takes more time and memory.
"""

import os
import resource
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from suite import SAMPLE, Suite, is_left_out, parse_arguments  # noqa: E402

TARGET = ".target pccx\n"
MILLION = 1000000
LINES = MILLION // SAMPLE  # the limit of sources that take long to reach it
LIMIT_LINES = ("--line-limit", str(LINES)) if SAMPLE > 1 else ()


def assemble(suite, name, text, *options):
    """Exit status and text of `trivet asm`, within the bounds."""
    suite.write(name + ".s", TARGET + text)
    status, output, problem = suite.run_bounded(["asm", name + ".s", "-o", name + ".elf", *options])
    suite.check(name + ": bounds", problem)
    return status, output


def rejects(suite, name, text, *parts, options=()):
    """The source is rejected; the first error has all of `parts`, and the whole output stays small."""
    if len(text) > 100000 and is_left_out(name):
        return ""
    status, output = assemble(suite, name, text, *options)
    suite.equal(name + ": status", status, 2)
    first = output.split(" error: ", 1)[-1].split("\n", 1)[0]
    for part in parts:
        suite.expect(name + ": " + part, part in first, first[:200])
    suite.expect(name + ": output", len(output) < 300000, len(output))
    return output


def accepts(suite, name, text, *options):
    status, output = assemble(suite, name, text, *options)
    suite.expect(name, status == 0, output[:300])


def repeats(suite):
    """Repeats end with the limit on lines and its value; counts that cannot end are rejected at their line."""
    limit = "more than 1000000 lines [TV-A014]"
    first = rejects(suite, "count", ".rept 10000000\n\n.endr\n", limit)
    suite.expect("count: location", first.startswith("count.s:2:7: "), first[:40])
    rejects(suite, "billions", ".rept 9223372036854775807\n.set i, 1\n.endr\n", limit)
    rejects(suite, "nested", ".rept 10000\n.rept 10000\n memset fmap_shape[0], 1, 1, 1\n.endr\n.endr\n", "more than %d lines [TV-A014]" % LINES, options=LIMIT_LINES)
    rejects(suite, "empty", ".rept 100000\n.rept 100000\n\n.endr\n.endr\n", limit)
    rejects(suite, "calls", ".macro m\n.set i, 1\n.endm\n.rept 500001\n m\n.endr\n", limit)
    rejects(suite, "bytes", ".rept 2\n.set i, 1" + "+1" * 20 * MILLION + "\n.endr\n", "more than 1000000 lines of 64 bytes [TV-A014]")
    rejects(suite, "lower", ".rept 11\n.set i, 1\n.endr\n", "more than 10 lines [TV-A014]", options=("--line-limit", "10"))
    accepts(suite, "exact", ".rept 10\n.set i, 1\n.endr\n", "--line-limit", "10")
    accepts(suite, "raised", ".rept 1000001\n\n.endr\n", "--line-limit", "1000001")
    accepts(suite, "file", "\n" * (2 * MILLION))  # lines of the file itself have no limit
    status, _, error = suite.call("asm", "file.s", "--line-limit", "0")
    suite.expect("zero limit", status == 2 and "--line-limit cannot be '0'" in error, error)
    rejects(suite, "unclosed", ".rept 2\n" * 100000, ".rept without .endr")


def macros(suite):
    depth = "nested deeper than 128 [TV-A012]"
    rejects(suite, "recursion", ".macro m\n m\n m\n.endm\n m\n", depth)
    rejects(suite, "mutual", ".macro a\n b\n.endm\n.macro b\n a\n.endm\n a\n", depth)
    rejects(suite, "guarded", ".macro m d\n.if \\d < 100\n m \\d+1\n m \\d+1\n.endif\n.endm\n m 0\n", "expand to more than", "[TV-A014]", options=LIMIT_LINES)
    rejects(suite, "definitions", ".macro m\n.macro n\\@\n.set i, 1\n.endm\n n\\@\n.endm\n.rept 300000\n m\n.endr\n", "more than %d lines" % LINES, options=LIMIT_LINES)
    rejects(suite, "growth", ".macro m a\n m \\a\\a\n.endm\n m x\n", "more than 1048576 bytes [TV-A014]")
    rejects(suite, "arguments", ".macro m a\n.endm\n m " + "1," * MILLION + "\n", "takes 1 arguments, not 1000001 [TV-A004]")
    many = ",".join("p%d" % i for i in range(65))
    rejects(suite, "parameters", ".macro m %s\n.endm\n" % many, "at most 64 parameters [TV-A014]")
    full = ",".join("p%d" % i for i in range(64))
    rejects(suite, "too-many", ".macro m %s\n.endm\n m %s\n" % (full, ",".join("1" * 65)), "takes 64 arguments, not 65 [TV-A004]")
    # a hint for each of 20,000 misspelt calls would compare 8 * 10^8 names
    rejects(suite, "hints", "".join(".macro macro_of_a_long_name_%d\n.endm\n" % i for i in range(40000)) +
            ".rept 20000\n makro_of_a_long_nam\n.endr\n", "unknown instruction or directive")


def user_seconds(suite, name, text):
    """The least processor time of three runs."""
    suite.write(name, TARGET + text)
    least = None
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run([suite.trivet, "asm", suite.path(name), "-o", suite.path("o.elf")], check=True)
        seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        least = seconds if least is None else min(least, seconds)
    return least


def look_up_is_linear(suite):
    """Eight times as many definitions take less than 24 times as long; a list that is searched takes 64 times."""
    kinds = {"macros": lambda i: ".macro m%d\n.endm\n m%d\n" % (i, i), "symbols": lambda i: ".equ s%d, %d\n.set x, s%d\n" % (i, i, i)}
    for name, line in kinds.items():
        few = user_seconds(suite, name + ".s", "".join(line(i) for i in range(20000)))
        many = user_seconds(suite, name + ".s", "".join(line(i) for i in range(160000)))
        suite.expect(name, many < 24 * max(few, 0.01), "%.3f s, then %.3f s" % (few, many))


def lines(suite):
    """Lines of 10 MB."""
    long = 10 * MILLION // SAMPLE
    rejects(suite, "name", "a" * long + " 1\n", "unknown instruction or directive 'aaa", "[...]", "[TV-A002]")
    rejects(suite, "suffixes", "a." * (long // 2) + "\n", "unknown instruction", "[TV-A002]")
    rejects(suite, "labels", "a:" * (long // 2) + "\n", "'a' is already defined [TV-A008]")
    rejects(suite, "values", ".data\n.byte " + "1," * (long // 2) + " @\n", "expected a value, found '@' [TV-A009]")
    rejects(suite, "parentheses", ".set i, " + "(" * long + "\n", "nested deeper than 200 [TV-A009]")
    rejects(suite, "signs", ".equ i, " + "-" * long + "a\n", "nested deeper than 200 [TV-A009]")
    rejects(suite, "sums", ".equ i, a" + "+a" * (long // 2) + "\n", "more than 2000 operators", "[TV-A009]")
    rejects(suite, "string", ".data\n.ascii \"" + "a" * long + "\n", "the string is not closed")
    rejects(suite, "operands", " memset " + "1," * (long // 2) + "\n", "no instruction has so many operands")
    accepts(suite, "text", ".data\n.ascii \"" + "a" * long + "\"\n")
    accepts(suite, "comment", ";" + "a" * long + "\n")


def definitions(suite):
    rejects(suite, "chain", "".join(".equ a%d, a%d + a%d\n" % (i, i + 1, i + 1) for i in range(5000)), "more than 8000 levels deep [TV-A009]")
    accepts(suite, "doubling", "".join(".equ a%d, a%d + a%d\n" % (i, i + 1, i + 1) for i in range(60)) + ".equ a60, 1\n")
    rejects(suite, "circle", ".equ a, b\n.equ b, a\n", "depends on itself [TV-A009]")
    rejects(suite, "conditions", ".if 1\n" * MILLION, "nested deeper than 256 [TV-A012]")
    output = rejects(suite, "overlaps", ".data\n.rept %d\n.org 0\n.byte 1\n.endr\n" % (300000 // SAMPLE), "overlaps", "[TV-A020]")
    suite.expect("overlaps: stop", "more than 200 errors" in output, output[-200:])
    rejects(suite, "undefined", ".data\n" + "".join("symbol_of_a_long_name_%d:\n" % i for i in range(200000)) +
            "".join(".word simbol_of_a_long_nam_%d\n" % i for i in range(300)), "is not defined [TV-A007]")
    rejects(suite, "address", ".data\n.zero 1 << 47\n.zero 1 << 47\n.byte 9\n", "past the end of the address space")


def warnings(suite):
    status, output = assemble(suite, "warnings", ".macro k\n.warning \"number \\@\"\n.endm\n.rept %d\n k\n.endr\n" % (400000 // SAMPLE))
    suite.equal("warnings: status", status, 0)
    suite.equal("warnings: shown", output.count(" warning: number "), 200)
    suite.expect("warnings: last", "more than 200 warnings; the others are not shown" in output, output[-300:])


def inclusions(suite):
    suite.write("blank.inc", "\n")
    suite.write("self.inc", '.include "self.inc"\n.include "self.inc"\n')
    rejects(suite, "rept-include", '.rept 500000\n.include "blank.inc"\n.endr\n', "more than 16384 files are included [TV-A014]")
    rejects(suite, "self", '.include "self.inc"\n', "nested deeper than 128 [TV-A012]")
    suite.write("lines.inc", "\n" * 600000)
    accepts(suite, "once", '.include "lines.inc"\n')
    rejects(suite, "again", '.include "lines.inc"\n' * 3, "more than 1000000 lines [TV-A014]")
    with open(suite.path("large.inc"), "wb") as file:
        file.truncate(300 << 20)
    rejects(suite, "large", '.include "large.inc"\n', "more than 268435456 bytes [TV-A014]")


def paths(suite):
    """Files outside the folder of the including file need -I or --allow-paths, also through links, `..` and '/'."""
    for folder in ("source/inner", "other/below", "sourceless"):
        os.makedirs(suite.path(folder))
    for name in ("source/own.bin", "source/inner/own.bin", "other/secret.bin", "other/below/secret.bin", "sourceless/secret.bin"):
        suite.write(name, b"1234")
    os.symlink("../other/secret.bin", suite.path("source/link.bin"))
    os.symlink("../other", suite.path("source/linked"))
    os.symlink("own.bin", suite.path("source/inside.bin"))
    outside = "outside the folder of this file and the -I folders [TV-A013]"

    def attempt(name, path, *options):
        suite.write("source/paths.s", TARGET + '.data\n.incbin "%s"\n' % path)
        status, _, error = suite.call("asm", suite.path("source/paths.s"), "-o", suite.path("o.elf"), *options)
        return name, status, error

    for path in ("own.bin", "inner/own.bin", "inner/../own.bin", "inside.bin", suite.path("source/own.bin"), "../source/own.bin"):
        name, status, error = attempt("inside " + path, path)
        suite.expect(name, status == 0, error)
    for path in ("../other/secret.bin", "link.bin", "linked/secret.bin", "../sourceless/secret.bin", "inner/../../other/secret.bin",
                 suite.path("other/secret.bin")):
        name, status, error = attempt("outside " + path, path)
        suite.expect(name, status == 2 and outside in error and "-I" in error and "--allow-paths" in error, error)
        name, status, error = attempt("all " + path, path, "--allow-paths")
        suite.expect(name, status == 0, error)
    for path in ("../other/secret.bin", "link.bin", "../other/below/secret.bin", suite.path("other/below/secret.bin")):
        name, status, error = attempt("with -I " + path, path, "-I", suite.path("other"))
        suite.expect(name, status == 0, error)
    name, status, error = attempt("another -I", "../sourceless/secret.bin", "-I", suite.path("source"))
    suite.expect(name, status == 2 and outside in error, error)
    # an included file may read below its own folder, and not above it
    suite.write("source/inner/up.inc", '.incbin "../own.bin"\n')
    suite.write("source/up.s", TARGET + '.data\n.include "inner/up.inc"\n')
    status, _, error = suite.call("asm", suite.path("source/up.s"), "-o", suite.path("o.elf"))
    suite.expect("up from an included file", status == 2 and "up.inc:1:9" in error and outside in error, error)
    suite.write("source/main.s", TARGET + '.data\n.include "/etc/passwd"\n')
    status, _, error = suite.call("check", suite.path("source/main.s"))
    suite.expect("check", status == 2 and outside in error and "root" not in error, error)


def large_files(suite):
    """Limits count the bytes of files before they are copied; large files are copied whole and in part."""
    with open(suite.path("sparse.bin"), "wb") as f:
        f.truncate(300 << 20)
    suite.write("repeated.s", TARGET + '.data\n.rept 20\n.incbin "sparse.bin"\n.endr\n')
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    status, output, problem = suite.run_bounded(["asm", "repeated.s", "-o", "repeated.elf"])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    suite.check("a large file in a repeat: bounds", problem)
    suite.expect("a large file in a repeat: error", status == 2 and "more than 2147483648 bytes" in output, output[:300])
    suite.expect("a large file in a repeat: a second", seconds < 1, seconds)
    data = bytes(i * i * 7 % 251 for i in range(3000)) * 1000
    suite.write("large.bin", data)
    accepts(suite, "large", '.data\n.word 7\nstart: .word end\n.incbin "large.bin"\n.byte 1\n.incbin "large.bin", 5, 2000000\nend:\n.byte 3\n',
            "-l", suite.path("large.lst"))
    end = 8 + len(data) + 1 + 2000000
    want = (7).to_bytes(4, "little") + end.to_bytes(4, "little") + data + b"\x01" + data[5:2000005] + b"\x03"
    with open(suite.path("large.elf"), "rb") as f:
        suite.expect("large files are in the program", want in f.read())
    with open(suite.path("large.lst"), encoding="utf-8") as f:
        suite.expect("large files are in the listing", data[:4].hex() in f.read().replace(" ", ""))


def main():
    options = parse_arguments(__doc__, "trivet")
    suite = Suite(options.trivet, options, bounds=(300, 3000) if options.sanitized else (60, 600))
    tests = [repeats, macros, lines, definitions, warnings, inclusions, paths, large_files]
    suite.run_tests(tests + ([] if options.sanitized else [look_up_is_linear]), suite)
    return suite.finish()


if __name__ == "__main__":
    sys.exit(main())
