#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The editors' files are those of the tables, and colour what they should.

    run.py TRIVET [--rebase]

The grammar is run as a TextMate engine would, line by line, over every word of every instruction set and over every example;
a second reading of the lines, after docs/assembler.md, says what each token is.  --rebase writes the files.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from suite import ROOT, Suite, parse_arguments  # noqa: E402

EDITORS = os.path.join(ROOT, "editors")
TOKEN = re.compile(r"""(?P<space>\s+)|(?P<comment>(?:;|\#|//).*)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<character>'(?:[^'\\]|\\.)')|(?P<parameter>\\\w+|\\@|\\\(\))|
                       (?P<number>(?:[0-9]|\.[0-9])(?:[eE][+-](?=[0-9])|[0-9A-Za-z_.])*)|(?P<name>[A-Za-z_.$][\w.$]*)|(?P<operator><<|>>|<=|>=|==|!=|&&|\|\||[^\w\s])""", re.X)


class Grammar:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            self.patterns = [(re.compile(p["match"]), p) for p in json.load(f)["patterns"]]

    def scopes(self, line):
        """The scope of every character; None where no pattern has it."""
        out, at = [None] * len(line), 0
        while at < len(line):
            found = [(m.start(), i, m) for i, (pattern, _) in enumerate(self.patterns) for m in [pattern.search(line, at)] if m and m.end() > m.start()]
            if not found:
                break
            _, i, m = min(found, key=lambda f: f[:2])
            rule = self.patterns[i][1]
            for k in range(m.start(), m.end()):
                out[k] = rule.get("name")
            for group, capture in rule.get("captures", {}).items():
                for k in range(*m.span(int(group))):
                    out[k] = capture["name"]
            at = m.end()
        return out


class Tests(Suite):
    def __init__(self, options):
        super().__init__(options.trivet, options)
        self.grammar = Grammar(os.path.join(EDITORS, "vscode", "syntaxes", "trivet.tmLanguage.json"))
        self.words = {}
        for target in ("pccx", "opennpu"):
            out = subprocess.run([self.trivet, "isa", target, "--json"], stdout=subprocess.PIPE, check=True).stdout
            self.words[target] = json.loads(out)["result"]["assembly"]

    def scope(self, line, word, wanted):
        """`word`'s first place in `line` has one scope, which begins with `wanted`."""
        at = line.index(word)
        found = set(self.grammar.scopes(line)[at:at + len(word)])
        self.check(line, (len(found) != 1 or not str(next(iter(found))).startswith(wanted)) and "'%s' is %s, expected %s" % (word, sorted(map(str, found)), wanted))


def committed_files_are_made_from_the_tables(t):
    p = subprocess.run([sys.executable, "-B", os.path.join(ROOT, "tools", "editors.py"), t.trivet, EDITORS] + ([] if t.rebase else ["--check"]), stdout=subprocess.PIPE)
    if t.rebase:
        print(p.stdout.decode(), end="")
    t.check("editors/", p.returncode and p.stdout.decode())


def words_have_their_colours(t):
    for target, words in t.words.items():
        for word in words["mnemonics"]:
            t.scope("        %s 1" % word, word, "keyword.mnemonic")
            t.scope("x: %s" % word, word, "keyword.mnemonic")
            t.scope("        %s_ 1" % word, word + "_", "variable.other")
            for suffix in words.get("suffixes", []):
                t.scope("        %s.%s vx1" % (word, suffix), "%s.%s" % (word, suffix), "keyword.mnemonic")
        for word in words["directives"]:
            t.scope("        %s 1" % word, word, "keyword.control.directive")
        for word in words["functions"]:
            t.scope("        .byte 1 + %s(2)" % word, word, "support.function")
            t.scope("        .byte my%s(2)" % word, "my" + word, "variable.other")
        for word in words.get("brackets", []):
            t.scope("        memcpy %s[3], x" % word, word, "support.type")
        for word in words.get("keywords", []):
            t.scope("        gemv a, %s=3" % word, word, "variable.parameter.keyword")
            t.scope("        .if %s == 3" % word, word, "variable.other")
        for word in words.get("flags", []):
            t.scope("        gemv a, %s, b" % word, word, "storage.modifier")
        for word in words.get("operands", []):
            t.scope("        gemv %s, b" % word, word, "constant.language.operand")
        for word in words.get("streams", []):
            t.scope("        wstream %s, w" % word, word, "constant.language.stream")
        for word, count in words.get("registers", {}).items():
            t.scope("        vadd %s%d, x" % (word, count - 1), "%s%d" % (word, count - 1), "variable.language.register")
            t.scope("        vadd %s%d, x" % (word, count), "%s%d" % (word, count), "variable.other")
            t.scope("        ld.vx x, 4(%s0)" % word, word + "0", "variable.language.register")
        t.scope("        .target %s" % target, target, "constant.language.target")
    for text in ("42", "0x2a", "0b101010", "0o52", "131_072", "1.5", ".5", "1e-3", "2.5e10"):
        t.scope("        .f32 %s, x" % text, text, "constant.numeric")
    for line, word, wanted in (('  .asciz "a;b\\"#c" ; d', '"a;b\\"#c"', "string"), ('  .asciz "a" ; "d"', '; "d"', "comment"), ("  .byte ';', 1", "';'", "constant.character"),
                               ("# .byte", "# .byte", "comment"), ("a: b: nop // x", "// x", "comment"), ("a: b: nop", "b", "entity.name.label"),
                               ("  .byte c ? d : e", "d", "variable.other"), ("  .macro put x, y=1", "put", "entity.name.function.macro"),
                               ("  load \\x, \\@", "\\x", "variable.parameter.macro"), ("  load \\x, \\@", "\\@", "variable.parameter.macro"),
                               (".Lend: nop", ".Lend", "entity.name.label")):
        t.scope(line, word, wanted)


def expected(words, tokens):
    """What each token of a line is: (text, scope)."""
    rest = [k for k in tokens if k[0] != "space"]
    out, first, statement = [], True, None
    for i, (kind, text) in enumerate(rest):
        follows = rest[i + 1][1] if i + 1 < len(rest) else ""
        before = rest[i - 1][1] if i else ""
        scope = {"comment": "comment", "string": "string", "character": "constant.character", "parameter": "variable.parameter.macro", "number": "constant.numeric",
                 "operator": "keyword.operator"}.get(kind)
        if kind == "name" and first and follows == ":":
            scope = "entity.name.label"
        elif kind == "name" and first:
            first, statement = False, text
            base = text
            while base not in words["mnemonics"] and "." in base[1:] and base.rsplit(".", 1)[1] in words.get("suffixes", []):
                base = base.rsplit(".", 1)[0]
            scope = "keyword.control.directive" if text in words["directives"] else "keyword.mnemonic" if base in words["mnemonics"] else "variable.other"
        elif kind == "name":
            register = re.fullmatch(r"(v[xer])([0-9]+)", text)
            scope = ("constant.language.target" if statement == ".target" else "constant.language.stream" if before == "wstream" else
                     "entity.name.function.macro" if before == ".macro" else "keyword.control.directive" if text in words["directives"] else
                     "support.function" if text in words["functions"] and follows == "(" else
                     "variable.language.register" if register and int(register[2]) < words.get("registers", {}).get(register[1], 0) else
                     "support.type" if text in words.get("brackets", []) and follows == "[" else
                     "variable.parameter.keyword" if text in words.get("keywords", []) and follows == "=" else
                     "constant.language.operand" if text in words.get("operands", []) else
                     "storage.modifier" if text in words.get("flags", []) else "variable.other")
        out.append((text, scope))
    return out


def every_token_of_the_examples_is_coloured(t):
    sources = glob.glob(os.path.join(ROOT, "examples", "**", "*.s"), recursive=True) + [os.path.join(ROOT, "tests", "golden", "%s.s" % n) for n in (
        "instructions", "macros", "expressions", "directives", "uops")]
    t.check("examples", len(sources) < 12 and "only %d" % len(sources))
    for path in sorted(sources):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        target = re.search(r"^\s*\.target\s+(\w+)", text, re.M)
        words, wrong = t.words[target[1] if target else "pccx"], []
        for number, line in enumerate(text.splitlines(), 1):
            scopes, at = t.grammar.scopes(line), 0
            tokens = [(m.lastgroup, m[0]) for m in TOKEN.finditer(line)]
            for token, scope in expected(words, tokens):
                at = line.index(token, at)
                found = set(scopes[at:at + len(token)])
                at += len(token)
                if len(found) != 1 or not str(next(iter(found))).startswith(str(scope)):
                    wrong.append("line %d: '%s' is %s, expected %s" % (number, token, sorted(map(str, found)), scope))
        t.check(os.path.relpath(path, ROOT), "; ".join(wrong[:5]))


def the_extension_is_whole(t):
    folder = os.path.join(EDITORS, "vscode")
    with open(os.path.join(folder, "package.json"), encoding="utf-8") as f:
        package = json.load(f)
    parts = package["contributes"]
    paths = [p["path"] for p in parts["grammars"]] + [p["configuration"] for p in parts["languages"]] + [p["url"] for p in parts["jsonValidation"]]
    for path in paths:
        try:
            with open(os.path.join(folder, path), encoding="utf-8") as f:
                json.load(f)
            wrong = None
        except (OSError, ValueError) as e:
            wrong = str(e)
        t.check(path, wrong)
    debugger = parts["debuggers"][0]
    # a "program" would be looked for in the extension's folder, a runtime is in the PATH
    t.check("debugger", ("program" in debugger or (debugger["runtime"], debugger["args"]) != ("trivet", ["debug", "--dap"])) and "starts %s" % debugger)
    with open(os.path.join(folder, "language-configuration.json"), encoding="utf-8") as f:
        language = json.load(f)
    for rule in list(language["indentationRules"].values()) + [language["wordPattern"], *language["folding"]["markers"].values(), parts["languages"][0]["firstLine"]]:
        re.compile(rule)
    t.check("line comments", language["comments"]["lineComment"] != ";" and "not ;")


VIM = r"""set nocompatible
filetype on
syntax on
function! Dump(out) abort
  let rows = []
  for l in range(1, line('$'))
    let row = []
    for c in range(1, col([l, '$']) - 1)
      call add(row, synIDattr(synID(l, c, 1), 'name'))
    endfor
    call add(rows, join(row, ','))
  endfor
  call writefile(rows, a:out)
endfunction
"""


def vim_colours_the_same(t):
    """Where a Vim with syntax files is installed: its groups against the same reading of the lines."""
    vim = shutil.which("vim")
    if not vim or b"+syntax" not in subprocess.run([vim, "--version"], stdout=subprocess.PIPE).stdout:
        print("no vim with +syntax: its file is compared with the tables alone")
        return
    groups = {"comment": "Comment", "string": "String", "constant.character": "Character", "variable.parameter.macro": "Parameter", "constant.numeric": "Number",
              "keyword.operator": "Operator", "entity.name.label": "Label", "keyword.control.directive": "Directive", "keyword.mnemonic": "Mnemonic",
              "variable.other": "Symbol", "constant.language.target": "Target", "constant.language.stream": "Stream", "entity.name.function.macro": "Macro",
              "support.function": "Function", "variable.language.register": "Register", "support.type": "Space", "variable.parameter.keyword": "Keyword",
              "constant.language.operand": "Operand", "storage.modifier": "Flag"}
    with tempfile.TemporaryDirectory() as folder:
        rc = os.path.join(folder, "rc.vim")
        with open(rc, "w") as f:
            f.write("set runtimepath^=%s\n%s" % (os.path.join(EDITORS, "vim"), VIM))
        for path in ("examples/pccx/attention.s", "examples/opennpu/softmax.s", "tests/golden/macros.s", "tests/golden/instructions.s"):
            dump = os.path.join(folder, "dump")
            source = os.path.join(ROOT, path)
            # Vim takes 25 times as long where malloc fills memory, as meson wants it.
            subprocess.run([vim, "-Nu", rc, "-i", "NONE", "-n", "-es", "-c", "edit " + source, "-c", "call Dump('%s')" % dump, "-c", "qa!"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=120,
                           env=dict(os.environ, MALLOC_PERTURB_="0"))
            with open(source, encoding="utf-8") as f:
                lines = f.read().splitlines()
            with open(dump) as f:
                rows = [row.split(",") for row in f.read().splitlines()]
            target, wrong = re.search(r"^\s*\.target\s+(\w+)", "\n".join(lines), re.M), []
            for number, (line, row) in enumerate(zip(lines, rows), 1):
                if not line.isascii():
                    continue
                at = 0
                for token, scope in expected(t.words[target[1]], [(m.lastgroup, m[0]) for m in TOKEN.finditer(line)]):
                    at = line.index(token, at)
                    found = set(row[at:at + len(token)])
                    at += len(token)
                    if found != {"trivet" + groups[scope]} and token not in "()[],.":
                        wrong.append("line %d: '%s' is %s, expected %s" % (number, token, sorted(found), groups[scope]))
            t.check("vim " + path, "; ".join(wrong[:5]))


def main():
    t = Tests(parse_arguments(__doc__, "trivet"))
    t.run_tests((committed_files_are_made_from_the_tables, words_have_their_colours, every_token_of_the_examples_is_coloured,
                 the_extension_is_whole, vim_colours_the_same), t)
    return t.finish()


sys.exit(main())
