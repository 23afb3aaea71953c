#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The contracts of the public headers, checked against the declarations.

    contracts.py ROOT

Every public function has a comment of its own that
- names each parameter in backticks. The object that a function belongs to (its first parameter), `sink` and `out` need no
  mention: the rules in trivet.h cover them;
- names nothing else in backticks than its parameters, members and functions of the headers, and literals;
- says which errors a tv_status can be, or refers to another function that does;
- says who frees a heap string or an object that it returns;
- is tested with NULL for each parameter that may be NULL: tests/library/test_nulls.c has a row for it.
trivet.h includes every other header, and each struct that the rules there list begins with its size."""
import os
import re
import sys

COMMENT = r"/\*(?:[^*]|\*(?!/))*\*/"
FUNCTION = re.compile(r"(%s)?\n?TV_API ([^;]+?)(\w+)\(((?:[^()]|\([^()]*\))*)\);" % COMMENT)
STRUCT = re.compile(r"typedef (?:struct|enum) (\w+) \{(.*?)\n?\} \w+;", re.S)
LITERALS = {"_", ".option proposed"}


def parameters(text):
    """[(name, type)] of a parameter list; a function pointer counts as one parameter."""
    found, depth, start = [], 0, 0
    for i, c in enumerate(text + ","):
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            one = " ".join(text[start:i].split())
            start = i + 1
            name = re.search(r"\(\*(\w+)\)", one) or re.search(r"(\w+)(?:\[\w*\])?$", one)
            if one not in ("void", "..."):
                found.append((name.group(1), one[: name.start(1)].strip()))
    return found


def owner(function, params):
    """The first parameter when it is the object that the function belongs to."""
    kind = re.search(r"tv_\w+", params[0][1]) if params else None
    handles = ("tv_codec", "tv_config", "tv_program", "tv_machine", "tv_snapshot", "tv_debug", "tv_llm", "tv_llm_session", "tv_operation", "tv_network", "tv_network_session", "tv_input", "tv_output", "tv_output_group",
               "tv_report_writer", "tv_trace_writer", "tv_json_writer", "tv_trace_summary", "tv_trace_diff")
    return params[0][0] if kind and kind.group(0) in handles and "*" in params[0][1] and "**" not in params[0][1] else None


def problems_of(function, returns, params, comment, known):
    if not comment:
        return ["no comment of its own"]
    text = " ".join(re.sub(r"^\s*\*", " ", comment[2:-2], flags=re.M).split())
    named = set(re.findall(r"`([^`]*)`", text))
    names = {name for name, _ in params}
    found = []
    for name, _ in params:
        if name not in named and name != owner(function, params) and name not in ("sink", "out"):
            found.append("`%s` is not described" % name)
    for name in sorted(named - names - known - LITERALS):
        found.append("`%s` is no parameter, member or function" % name)
    if returns == "tv_status" and not re.search(r"TV_ERR_|TV_FAULT", text):
        found.append("does not say which errors it returns")
    for status in re.findall(r"\bTV_(?:ERR_\w+|OK|FAULT)\b", text):
        if status not in known:
            found.append("%s is no status" % status)
    heap = returns == "char *" or (returns == "tv_status" and params[-1][1].endswith("**") and "const" not in params[-1][1])
    if heap and not re.search(r"\bfrees?\b|tv_\w+_(?:free|finish|commit|abandon|close)|as tv_\w+ does", text):
        found.append("does not say who frees the result")
    return found


def nullable(params, comment):
    """Names of the parameters that the contract allows to be NULL."""
    text = " ".join(re.sub(r"^\s*\*", " ", comment[2:-2], flags=re.M).split())
    allowed = {name for name, kind in params if name == "sink"}
    for sentence in re.split(r"(?<=[.;:]) ", text):
        if re.search(r"\bmay be NULL\b|; NULL ends the trace", sentence):
            head = sentence.split("may be NULL")[0]
            allowed |= {name for name in re.findall(r"`(\w+)`", head)[-1:]}
    return allowed & {name for name, _ in params}


def main():
    root = sys.argv[1]
    folder = os.path.join(root, "include", "trivet")
    headers = sorted(name for name in os.listdir(folder) if name.endswith(".h"))
    texts = {name: open(os.path.join(folder, name), encoding="utf-8").read() for name in headers}
    everything = "\n".join(texts.values())
    known = set(re.findall(r"\b(tv_\w+|TV_\w+)\b", everything))
    for _, body in STRUCT.findall(everything):
        known |= set(re.findall(r"\(\*(\w+)\)", body)) | set(re.findall(r"\b(\w+)(?:\[\w+\])?[,;]", re.sub(COMMENT, "", body)))
    tested = set(re.findall(r'^ +NULL_CASE\((\w+),\s*(\w+)\)', open(os.path.join(root, "tests", "library", "test_nulls.c"), encoding="utf-8").read(), re.M))
    passed = failed = 0

    def result(where, found):
        nonlocal passed, failed
        for text in found:
            print("%s: %s" % (where, text))
        passed += not found
        failed += bool(found)

    allowed = set()
    for name in headers:
        text = texts[name]
        declarations = len(re.findall(r"^TV_API ", text, re.M))
        functions = FUNCTION.findall(text)
        result(name, [] if declarations == len(functions) else ["%d of %d functions can be read" % (len(functions), declarations)])
        for comment, returns, function, arguments in functions:
            params = parameters(arguments)
            returns = " ".join(returns.split())
            result("%s: %s" % (name, function), problems_of(function, returns, params, comment, known))
            if comment:
                allowed |= {(function, p) for p in nullable(params, comment)}
        if name != "trivet.h":
            result("trivet.h", [] if '#include "trivet/%s"' % name in texts["trivet.h"] else ["does not include %s" % name])
    for function, parameter in sorted(allowed ^ tested):
        result("test_nulls.c", ["%s: `%s` %s" % (function, parameter, "is not tested with NULL" if (function, parameter) in allowed else "must not be NULL")])
    passed += len(allowed & tested)
    sized = re.search(r"Structs that may grow \(([^)]*)\)", texts["trivet.h"])
    structs = dict(STRUCT.findall(everything))
    for struct in re.findall(r"tv_\w+", sized.group(1)):
        result(struct, [] if re.match(r"\s*size_t size;", structs.get(struct, "")) else ["does not begin with its size"])
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
