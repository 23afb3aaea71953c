# SPDX-License-Identifier: Apache-2.0
"""Rows of benchmarks: their order, tables of them, saved runs and comparisons.

A row is {"name", "unit", "median", "min", "max", "better": "higher" or "lower"} and optionally "of" and "reached" (the
ratio to a ceiling of the host, to another row or to llama.cpp: of the medians, or the median of the rounds' ratios),
"goal" (for "reached", or for the median if there is no "of"), "baseline" and "times" (time per unit relative to simple
work on the same data) with "limit" (the goal for "times"). A saved run is
{"format": FORMAT, "machine": {name: text or number}, "host": {name: number}, "rows": [row, ...]}."""

import json
import math

FORMAT = "trivet benchmarks 2"
FORMAT_1 = "trivet benchmarks 1"  # min and max were called least and most
SIZE_MAX = 4 << 20
ROWS_MAX = 1000
TEXT_MAX = 200

# Order of the rows in a table; others are last.
ORDER = ["pccx GEMV", "pccx GEMM", "CMDQ TE W4A8", "CMDQ TE W8A8", "OpenBLAS", "oneDNN", "opennpu, K = 64: mix",
         "opennpu, K = 64: mma", "cmdq file",
         "cmdq load and timing", "GEMM of 512", "decode of", "prefill of", "session of", "llama.cpp",
         "load and quantize", "memory of", "2 threads", "trivet "]

HOST = {"read": ("reads memory that is in no cache", "GB/s"), "u4s8": ("multiplies u4 x s8", "GMAC/s"),
        "s8s8": ("multiplies s8 x s8", "GMAC/s"),
        "two_threads": ("two threads multiply, times one", "")}


class Damaged(Exception):
    pass


def ordered(rows):
    def rank(row):
        name = row["name"]
        if name.endswith("2 threads") or "2 threads against" in name:
            return ORDER.index("2 threads")
        return next((i for i, start in enumerate(ORDER) if name.startswith(start)), len(ORDER))
    return sorted(rows, key=rank)


def met(row):
    """True or False, or None if there is no goal."""
    if row.get("limit") is not None:
        return row["times"] <= row["limit"]
    if row.get("goal") is None:
        return None
    value = row["reached"] if row.get("of") else row["median"]
    return value <= row["goal"] if row["better"] == "lower" else value >= row["goal"]


# ---- Text ----

def number(x):
    """Three digits, more where the whole part has more."""
    if x == 0 or not math.isfinite(x):
        return "%g" % x
    digits = max(0, 2 - math.floor(math.log10(abs(x))))
    return "%.*f" % (min(digits, 9), x)


def ratio_text(row):
    if row.get("of"):
        return "%s of %s" % (number(row["reached"]), row["of"])
    if row.get("baseline"):
        return "%s times %s" % (number(row["times"]), row["baseline"])
    return ""


def goal_text(row):
    if row.get("limit") is not None:
        return "at most %g times" % row["limit"]
    if row.get("goal") is None:
        return ""
    return "%s %s" % ("at most" if row["better"] == "lower" else "at least", "%g" % row["goal"])


def cells(row):
    result = met(row)
    return [row["name"], number(row["median"]), row["unit"], "%s to %s" % (number(row["min"]), number(row["max"])),
            ratio_text(row), goal_text(row),
            "" if result is None else "met" if result else "NOT MET"]


def layout(head, lines, markdown, right):
    """Columns as wide as their widest cell; those in `right` to the right."""
    if markdown:
        rule = ["---:" if i in right else "---" for i in range(len(head))]
        return "".join("| %s |\n" % " | ".join(cell.replace("|", "\\|") for cell in line) for line in [head, rule] +
                       lines)
    widths = [max(len(line[i]) for line in [head] + lines) for i in range(len(head))]
    return "".join("  ".join(c.rjust(w) if i in right else c.ljust(w) for i,
                             (c, w) in enumerate(zip(line, widths))).rstrip() + "\n" for line in [head] + lines)


def described(run, markdown):
    """The machine and its ceilings, one line each."""
    machine, host = run["machine"], run["host"]
    lines = ["%s: %s" % (key.replace("_", " "), value) for key, value in machine.items()]
    rates = ["%s %s%s" % (HOST[key][0], number(host[key]), " " + HOST[key][1] if HOST[key][1] else "") for key in HOST
             if key in host]
    if rates:
        lines.append("ceilings of the host, one thread: " + "; ".join(rates))
    return "".join(("- " if markdown else "") + line + "\n" for line in lines)


def table(run, markdown=False):
    lines = [cells(row) for row in ordered(run["rows"])]
    if markdown:
        lines = [line[:-1] + [line[-1].replace("NOT MET", "**not met**")] for line in lines]
    head = ["work", "median", "unit", "min to max", "ratio", "goal", ""]
    missed = sum(met(row) is False for row in run["rows"])
    with_goal = sum(met(row) is not None for row in run["rows"])
    return described(run, markdown) + "\n" + layout(head, lines, markdown,
                                                    {1}) + "\n%d of %d goals met\n" % (with_goal - missed, with_goal)


# ---- Comparing ----

def difference(old, new):
    """"same" where the medians differ by no more than either run's spread, else "better" or "worse"."""
    apart = abs(new["median"] - old["median"])
    if apart <= max(old["max"] - old["min"], new["max"] - new["min"]) or apart <= 0.005 * abs(old["median"]):
        return "same"
    return "better" if (new["median"] > old["median"]) == (new["better"] == "higher") else "worse"


def compared(old, new, markdown=False):
    """The new run compared with the old one, row by row."""
    before = {row["name"]: row for row in old["rows"]}
    lines, counts = [], {"same": 0, "better": 0, "worse": 0}
    for key, (name, unit) in HOST.items():
        if old["host"].get(key, 0) > 0 and key in new["host"]:
            lines.append(["host: " + name, number(old["host"][key]), number(new["host"][key]), unit,
                          "%.3f" % (new["host"][key] / old["host"][key]), ""])
    for row in ordered(new["rows"]):
        was = before.pop(row["name"], None)
        if not was or was["unit"] != row["unit"] or was["better"] != row["better"]:
            lines.append([row["name"], "", number(row["median"]), row["unit"], "", "new"])
            continue
        result = difference(was, row)
        counts[result] += 1
        times = "%.3f" % (row["median"] / was["median"]) if was["median"] else ""
        lines.append([row["name"], number(was["median"]), number(row["median"]), row["unit"], times,
                      "" if result == "same" else result])
    lines += [[row["name"], number(row["median"]), "", row["unit"], "", "not run"] for row in ordered(before.values())]
    changed = ["%s%s: %s, now %s\n" %
               ("- " if markdown else "", key.replace("_", " "), old["machine"].get(key, "unknown"),
                new["machine"].get(key, "unknown"))
               for key in list(dict.fromkeys(list(old["machine"]) + list(new["machine"])))
               if old["machine"].get(key) != new["machine"].get(key)]
    head = ["work", "old", "new", "unit", "new / old", ""]
    return ("".join(changed) + ("\n" if changed else "") + layout(head, lines, markdown, {1, 2, 4}) +
            "\n%(better)d better and %(worse)d worse by more than the spread of either run, %(same)d the same\n" %
            counts)


# ---- Saved runs ----

def is_number(x):
    return isinstance(x, (int, float)) and not isinstance(x, bool) and abs(x) < 1e300 and math.isfinite(x)


def is_text(x):
    return isinstance(x, str) and 0 < len(x) <= TEXT_MAX and x.isprintable()


def require(condition, text):
    if not condition:
        raise Damaged(text)


def checked_row(row, where):
    """The row's own entries, checked."""
    require(isinstance(row, dict), "%s is not an object" % where)
    for key in ("name", "unit"):
        require(is_text(row.get(key)), "%s.%s is not a text of 1 to %d printable characters" % (where, key, TEXT_MAX))
    for key in ("median", "min", "max"):
        require(is_number(row.get(key)) and row[key] >= 0, "%s.%s is not a non-negative number" % (where, key))
    require(row["min"] <= row["median"] <= row["max"], "%s: the median is not between min and max" % where)
    require(row.get("better") in ("higher", "lower"), "%s.better is neither \"higher\" nor \"lower\"" % where)
    for text, value in (("of", "reached"), ("baseline", "times")):
        require((text in row) == (value in row), "%s has only one of %s and %s" % (where, text, value))
        require(text not in row or is_text(row[text]) and is_number(row[value]),
                "%s.%s or .%s has the wrong type" % (where, text, value))
    require("goal" not in row or is_number(row["goal"]), "%s.goal is not a number" % where)
    require("limit" not in row or "baseline" in row and is_number(row["limit"]), "%s.limit is not a number" % where)
    keys = ("name", "unit", "median", "min", "max", "better", "of", "reached", "goal", "baseline", "times", "limit")
    return {key: row[key] for key in keys if key in row}


def read_run(data):
    """Reads and checks a saved run of either format. Raises Damaged."""
    require(len(data) <= SIZE_MAX, "it has more than %d bytes" % SIZE_MAX)
    try:
        run = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Damaged("it is not JSON: %s" % str(error)[:TEXT_MAX]) from None
    require(isinstance(run, dict) and run.get("format") in (FORMAT, FORMAT_1), "\"format\" is not \"%s\"" % FORMAT)
    machine, host, rows = run.get("machine"), run.get("host"), run.get("rows")
    require(isinstance(machine, dict) and len(machine) <= 32
            and all(is_text(k) and (is_text(v) or is_number(v)) for k, v in machine.items()),
         "\"machine\" is not an object of texts and numbers")
    require(isinstance(host, dict) and all(is_number(host[k]) and host[k] >= 0 for k in HOST if k in host),
            "\"host\" is not an object of numbers")
    require(isinstance(rows, list) and len(rows) <= ROWS_MAX, "\"rows\" is not a list of at most %d" % ROWS_MAX)
    if run["format"] == FORMAT_1:
        names = {"least": "min", "most": "max"}
        rows = [{names.get(key, key): value for key, value in row.items()} if isinstance(row, dict) else row
                for row in rows]
    rows = [checked_row(row, "rows[%d]" % i) for i, row in enumerate(rows)]
    require(len({row["name"] for row in rows}) == len(rows), "two rows have the same name")
    return {"format": FORMAT, "machine": machine, "host": {k: host[k] for k in HOST if k in host}, "rows": rows}
