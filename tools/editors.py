#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the editors' files from the instruction sets: editors/vscode and editors/vim.

    editors.py TRIVET FOLDER [--check]

With --check nothing is written: the exit status is 1 when a file in FOLDER is not up to date. All words come from
`trivet isa TARGET --json`, the JSON schema of queues from `trivet isa TARGET --json-schema`.
"""

import argparse
import difflib
import json
import os
import re
import subprocess
import sys

NAME = r"[A-Za-z_.$][A-Za-z0-9_.$]*"
BEGIN, END = r"(?<![A-Za-z0-9_.$])", r"(?![A-Za-z0-9_.$])"  # around a whole word
NUMBER = (r"0[xX][0-9A-Fa-f_]+|0[bB][01_]+|0[oO][0-7_]+|"
          r"(?:[0-9][0-9_]*(?:\.[0-9][0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?")
OPERATOR = r"<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%~!&^|?:<>=(),\[\]]"


class Words:
    """The words of all targets, each kind sorted, longer ones before those they begin with."""

    def __init__(self, trivet):
        ask = lambda *arguments: subprocess.run([trivet] + list(arguments), stdout=subprocess.PIPE,
                                                check=True).stdout.decode()
        self.version = json.loads(ask("version", "--json"))["result"]["version"]
        self.targets, self.schemas, self.kinds, self.registers = [], {}, {}, {}
        for target in ask("targets", "-q").split():
            isa = json.loads(ask("isa", target, "--json"))["result"]
            if not isa["word_bits"]:
                self.schemas[target] = ask("isa", target, "--json-schema")
                continue
            self.targets.append(target)
            words = isa["assembly"]
            self.registers.update(words.pop("registers", {}))
            for kind, list_ in words.items():
                self.kinds.setdefault(kind, set()).update(list_)

    def list(self, kind):
        return sorted(self.kinds.get(kind, ()), key=lambda word: (-len(word), word))

    def any(self, kind):
        return "|".join(re.escape(word) for word in self.list(kind))

    def all_registers(self):
        return "|".join("%s(?:%s)" % (name, "|".join(str(i) for i in reversed(range(count)))) for name,
                        count in sorted(self.registers.items()))

    def dotted(self):
        return [word for word in self.list("directives") if word.startswith(".")]

    def plain(self):
        return [word for word in self.list("directives") if not word.startswith(".")]


# ---- Visual Studio Code

def grammar(words):
    """The first pattern that matches nearest to the left wins, as in every TextMate grammar."""
    def one(scope, match, **captures):
        pattern = {"name": scope + ".trivet", "match": match} if scope else {"match": match}
        if captures:
            pattern["captures"] = {key[1:]: {"name": value + ".trivet"} for key, value in sorted(captures.items())}
        return pattern

    directives = "|".join(re.escape(word) for word in words.dotted())
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "Trivet assembly",
        "scopeName": "source.trivet",
        "patterns": [
            one("comment.line", r"(?:;|#|//).*$"),
            one("string.quoted.double", r'"(?:\\.|[^"\\])*"'),
            one("constant.character", r"'(?:\\.|[^'\\])'"),
            one("variable.parameter.macro", r"\\(?:[A-Za-z_][A-Za-z0-9_]*|@|\(\))"),
            one(None, r"(?<![A-Za-z0-9_$])(\.macro)\s+(%s)" % NAME, _1="keyword.control.directive",
                _2="entity.name.function.macro"),
            one(None, r"(?<![A-Za-z0-9_$])(\.target)\s+(%s)%s" % ("|".join(words.targets), END),
                _1="keyword.control.directive", _2="constant.language.target"),
            one(None, r"%s(%s)\s+(%s)%s" % (BEGIN, "|".join(words.plain()), words.any("streams"), END),
                _1="keyword.control.directive",
                _2="constant.language.stream"),
            one("entity.name.label", r"(?:^|(?<=:))\s*%s\s*(?=:)" % NAME),
            one("keyword.control.directive", r"%s(?:%s)%s" % (BEGIN, directives + "|" + "|".join(words.plain()), END)),
            one("support.function", r"%s(?:%s)(?=\s*\()" % (BEGIN, words.any("functions"))),
            one("keyword.mnemonic", r"%s(?:%s)(?:\.(?:%s))*%s" %
                (BEGIN, words.any("mnemonics"), words.any("suffixes"), END)),
            one("variable.language.register", r"%s(?:%s)%s" % (BEGIN, words.all_registers(), END)),
            one("support.type.space", r"%s(?:%s)(?=\s*\[)" % (BEGIN, words.any("brackets"))),
            one("variable.parameter.keyword", r"%s(?:%s)(?=\s*=(?!=))" % (BEGIN, words.any("keywords"))),
            one("constant.language.operand", r"%s(?:%s)%s" % (BEGIN, words.any("operands"), END)),
            one("storage.modifier.flag", r"%s(?:%s)%s" % (BEGIN, words.any("flags"), END)),
            one("constant.numeric", r"%s(?:%s)%s" % (BEGIN, NUMBER, END)),
            one("variable.other.symbol", NAME),
            one("keyword.operator", OPERATOR),
        ],
    }


def package(words):
    schemas = [{"fileMatch": ["*.%s.json" % target], "url": "./schemas/%s.schema.json" % target}
               for target in sorted(words.schemas)]
    path = {"type": "string"}
    attributes = {
        "program": {"type": "string", "description": "The program: assembly source, ELF, or a command queue.",
                    "default": "${file}"},
        "programs": {"type": "array", "items": path,
                     "description": "Programs that run one after another, instead of one."},
        "target": {"type": "string", "enum": sorted(words.targets + list(words.schemas)),
                   "description": "The machine, where the program does not say it."},
        "config": {"type": ["string", "array"], "items": path,
                   "description": "A machine profile or the path of an INI file, or a list of them."},
        "parameters": {"type": "object",
                       "description": "Single parameters of the machine, such as {\"l2.words\": 65536}."},
        "load": {"type": "object", "additionalProperties": path,
                 "description": "Files that fill memory before the run, such as {\"mem:0\": \"memory.bin\"}."},
        "cwd": {"type": "string", "description": "The folder that relative paths of the launch begin in.",
                "default": "${workspaceFolder}"},
        "stopOnEntry": {"type": "boolean", "description": "Stop before the first instruction.", "default": True},
        "stopOnEnd": {"type": "boolean", "description": "Stop behind the last instruction, to look and to go back.",
                      "default": True},
        "functional": {"type": "boolean", "description": "Data without cycles.", "default": False},
        "snapshotMemory": {"type": "integer", "minimum": 1, "description": "Bytes that may be taken for going back."},
    }
    launch = {"type": "trivet", "request": "launch", "name": "Debug with Trivet", "program": "${file}",
              "cwd": "${workspaceFolder}", "stopOnEntry": True}
    return {
        "name": "trivet",
        "displayName": "Trivet",
        "description": "Assembly of neural processors: colours, a schema for command queues, "
                       "debugging on the simulated machine",
        "version": words.version,
        "publisher": "trivet",
        "license": "Apache-2.0",
        "engines": {"vscode": "^1.75.0"},
        "categories": ["Programming Languages", "Debuggers"],
        "contributes": {
            "languages": [{"id": "trivet", "aliases": ["Trivet assembly", "trivet"], "extensions": [".s"],
                           "firstLine": r"^\s*\.target\s+(?:%s)\b" % "|".join(words.targets),
                           "configuration": "./language-configuration.json"}],
            "grammars": [{"language": "trivet", "scopeName": "source.trivet",
                          "path": "./syntaxes/trivet.tmLanguage.json"}],
            "jsonValidation": schemas,
            "breakpoints": [{"language": "trivet"}, {"language": "json"}],
            # a runtime is looked for in the PATH, a program in the extension's folder
            "debuggers": [{"type": "trivet", "label": "Trivet", "runtime": "trivet", "args": ["debug", "--dap"],
                           "languages": ["trivet", "json"],
                           "configurationAttributes": {"launch": {"properties": attributes}},
                           "initialConfigurations": [launch],
                           "configurationSnippets": [{"label": "Trivet: launch",
                                                      "description": "Debug a program on the simulated machine",
                                                      "body": launch}]}],
        },
    }


def language():
    return {
        "comments": {"lineComment": ";"},
        "brackets": [["(", ")"], ["[", "]"]],
        "autoClosingPairs": [["(", ")"], ["[", "]"], {"open": "\"", "close": "\"", "notIn": ["string", "comment"]}],
        "surroundingPairs": [["(", ")"], ["[", "]"], ["\"", "\""]],
        "wordPattern": NAME + r"|-?[0-9][0-9A-Za-z_.]*",
        "indentationRules": {"increaseIndentPattern": r"^\s*\.(?:macro|rept|if|ifdef|ifndef|else|elseif)\b",
                             "decreaseIndentPattern": r"^\s*\.(?:endm|endr|endif|else|elseif)\b"},
        "folding": {"markers": {"start": r"^\s*\.(?:macro|rept|if|ifdef|ifndef)\b",
                                "end": r"^\s*\.(?:endm|endr|endif)\b"}},
    }


# ---- Vim

def vim_any(list_):
    """Alternatives of a very magic pattern."""
    return "|".join(re.sub(r"([^A-Za-z0-9_])", r"\\\1", word) for word in list_)


def vim_lines(words):
    begin, end = r"[0-9A-Za-z_.$]@1<!", r"[0-9A-Za-z_.$]@!"
    match = lambda group, pattern, more="": 'syn match trivet%s "\\v%s"%s' % (group, pattern, more)
    registers = "|".join("%s%%(%s)" % (name, "|".join(str(i) for i in reversed(range(count)))) for name,
                         count in sorted(words.registers.items()))
    return [
        '" SPDX-License-Identifier: Apache-2.0',
        '" Vim syntax file of Trivet assembly (%s). Made by tools/editors.py from the instruction sets.' %
        ", ".join(words.targets),
        'if exists("b:current_syntax")',
        "  finish",
        "endif",
        "syn case match",
        "",
        "\" A later match wins where two begin at the same place.",
        match("Operator", r"\<\<|\>\>|[<>=!]\=|\&\&|\|\||[-+*/%~!&^|?:<>=]"),
        match("Symbol", r"[A-Za-z_.$][0-9A-Za-z_.$]*"),
        match("Number", begin +
              r"%(0[xX][0-9A-Fa-f_]+|0[bB][01_]+|0[oO][0-7_]+|"
              r"%([0-9][0-9_]*%(\.[0-9][0-9_]*)?|\.[0-9][0-9_]*)%([eE][+-]?[0-9]+)?)" + end),
        match("Flag", "%s%%(%s)%s" % (begin, vim_any(words.list("flags")), end)),
        match("Operand", "%s%%(%s)%s" % (begin, vim_any(words.list("operands")), end)),
        match("Keyword", r"%s%%(%s)%%(\s*\=\=@!)@=" % (begin, vim_any(words.list("keywords")))),
        match("Space", r"%s%%(%s)%%(\s*\[)@=" % (begin, vim_any(words.list("brackets")))),
        match("Register", "%s%%(%s)%s" % (begin, registers, end)),
        match("Mnemonic", r"%s%%(%s)%%(\.%%(%s))*%s" %
              (begin, vim_any(words.list("mnemonics")), vim_any(words.list("suffixes")), end)),
        match("Function", r"%s%%(%s)%%(\s*\()@=" % (begin, vim_any(words.list("functions")))),
        match("Directive", "%s%%(%s)%s" % (begin, vim_any(words.dotted() + words.plain()), end)),
        match("Stream", r"%%(<%%(%s)\s+)@<=%%(%s)%s" % ("|".join(words.plain()), vim_any(words.list("streams")), end)),
        match("Target", r"%%(\.target\s+)@<=%%(%s)%s" % ("|".join(words.targets), end)),
        match("Label", r"%(^|:)@<=\s*[A-Za-z_.$][0-9A-Za-z_.$]*%(\s*:)@="),
        match("Macro", r"%(\.macro\s+)@<=[A-Za-z_.$][0-9A-Za-z_.$]*"),
        match("Parameter", r"\\%([A-Za-z_][0-9A-Za-z_]*|\@|\(\))"),
        match("Character", "'%(\\\\.|[^'\\\\])'"),
        'syn region trivetString start=+"+ skip=+\\\\.+ end=+"+ oneline',
        match("Comment", r"%(;|#|//).*$", " contains=@Spell"),
        "",
    ] + ["hi def link trivet%s %s" % pair for pair in (
        ("Operator", "Operator"), ("Symbol", "Identifier"), ("Number", "Number"), ("Flag", "StorageClass"),
        ("Operand", "Constant"), ("Keyword", "Label"),
        ("Space", "Type"), ("Register", "Special"), ("Mnemonic", "Statement"), ("Function", "Function"),
        ("Directive", "PreProc"), ("Stream", "Constant"),
        ("Target", "Constant"), ("Label", "Label"), ("Macro", "Function"), ("Parameter", "Macro"),
        ("Character", "Character"), ("String", "String"),
        ("Comment", "Comment"))] + ["", 'let b:current_syntax = "trivet"']


def vim_detect(words):
    return ['" SPDX-License-Identifier: Apache-2.0',
            '" Assembly for one of Trivet\'s machines says so in its first lines.', "function! s:Detect() abort",
            "  for line in getline(1, 60)", "    if line =~# '\\v^\\s*\\.target\\s+%%(%s)>'" % "|".join(words.targets),
            "      setlocal filetype=trivet",
            "      setlocal commentstring=;\\ %s comments=:;", "      return", "    endif", "  endfor", "endfunction",
            "", "autocmd BufRead,BufNewFile *.s call s:Detect()"]


def files(words):
    out = {"vscode/package.json": package(words), "vscode/language-configuration.json": language(),
           "vscode/syntaxes/trivet.tmLanguage.json": grammar(words)}
    out = {path: json.dumps(value, indent=2) + "\n" for path, value in out.items()}
    for target, schema in words.schemas.items():
        out["vscode/schemas/%s.schema.json" % target] = schema
    out["vim/syntax/trivet.vim"] = "\n".join(vim_lines(words)) + "\n"
    out["vim/ftdetect/trivet.vim"] = "\n".join(vim_detect(words)) + "\n"
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("trivet")
    ap.add_argument("folder")
    ap.add_argument("--check", action="store_true", help="write nothing; compare")
    options = ap.parse_args()
    different = 0
    for name, text in sorted(files(Words(os.path.abspath(options.trivet))).items()):
        path = os.path.join(options.folder, name)
        old = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                old = f.read()
        if old == text:
            continue
        different += 1
        if options.check:
            sys.stdout.writelines(list(difflib.unified_diff(old.splitlines(True), text.splitlines(True), name,
                                                            "from the tables"))[:40])
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            print("wrote", name)
    if options.check and different:
        print("\n%d files differ: run tools/editors.py BUILD/src/trivet editors" % different)
    return 1 if options.check and different else 0


if __name__ == "__main__":
    sys.exit(main())
