# SPDX-License-Identifier: Apache-2.0
"""Writes src/import/unicode.def, the letters and numbers of Unicode as ranges, from Python's own tables.

usage: unicode.py > src/import/unicode.def"""
import unicodedata


def ranges(kind):
    start = None
    for code in range(0x110001):
        inside = code < 0x110000 and unicodedata.category(chr(code))[0] == kind
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            yield start, code - 1
            start = None


def main():
    print("/* SPDX-License-Identifier: Apache-2.0 */")
    print("/* Letters (category L) and numbers (N) of Unicode %s, first and last code point of each range, ascending." %
          unicodedata.unidata_version)
    print(" * Written by tools/unicode.py. TV_LETTERS(first, last), TV_NUMBERS(first, last). */")
    for kind, name in (("L", "TV_LETTERS"), ("N", "TV_NUMBERS")):
        print()
        line = ""
        for first, last in ranges(kind):
            item = "%s(0x%X, 0x%X)" % (name, first, last)
            if len(line) + len(item) > 120:
                print(line)
                line = ""
            line += (" " if line else "") + item
        print(line)


main()
