#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""trivet validate against Python's statistics, on programs of every machine; plots; hostile tables.

    run.py TRIVET
"""

import glob
import json
import math
import os
import random
import re
import statistics
import sys
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import suite as suites  # noqa: E402  pylint: disable=wrong-import-position

PROGRAMS = {"pccx": "pccx/*.s", "opennpu": "opennpu/*.s", "cmdq": "cmdq/*[a-z].json"}


def programs_of(machine):
    paths = sorted(glob.glob(os.path.join(suites.ROOT, "examples", PROGRAMS[machine])))
    return [p for p in paths if not re.search("expect|missing|gemm64", p)]  # gemm64 has another profile than the others


def result_of(t, *arguments):
    code, out, err = t.call(*arguments, "--json")
    t.expect(" ".join(arguments), code == 0, err)
    return json.loads(out)["result"]


def write_table(t, machine, seed):
    """A table with made-up cycles around those of `trivet run`, and the model's figures."""
    rng, rows, modelled = random.Random(seed), [], []
    for path in programs_of(machine):
        run = result_of(t, "run", path, "--no-hazards")
        modelled.append((run["cycles"], sum(run["bytes"].values())))
        rows.append((path, round(run["cycles"] * rng.uniform(0.7, 1.4), 3), rng.choice(["", max(1, rng.randrange(100000))])))
    text = "\n".join("%s,%s,%s" % row for row in rows)
    return t.write(machine + ".csv", "program,cycles,bytes\n" + text + "\n"), rows, modelled


def ranks(values):
    return [statistics.mean(i + 1 for i, v in enumerate(sorted(values)) if v == value) for value in values]


def close(a, b):
    return math.isclose(a, b, rel_tol=1e-7, abs_tol=1e-7)


def compare_accuracy(t, name, found, measured, modelled):
    errors = [100 * (b - a) / a for a, b in zip(measured, modelled)]
    t.equal(name + ": cases", found["cases"], len(errors))
    t.expect(name + ": mean", close(found["mean_error"], statistics.mean(errors)), found)
    t.expect(name + ": absolute", close(found["mean_absolute_error"], statistics.mean(map(abs, errors))), found)
    t.expect(name + ": worst", close(found["worst_error"], max(errors, key=abs)), found)
    a, b = ranks(measured), ranks(modelled)
    if len(set(a)) > 1 and len(set(b)) > 1:
        t.expect(name + ": ranks", close(found["rank_correlation"], statistics.correlation(a, b)), found)
    else:
        t.equal(name + ": no ranks", found["rank_correlation"], None)
    for limit in (5, 10, 15):
        t.equal("%s: within %d" % (name, limit), found["within_%d" % limit], sum(abs(e) <= limit for e in errors))


def errors_are_those_of_python(t):
    for machine in PROGRAMS:
        table, rows, modelled = write_table(t, machine, 1)
        found = result_of(t, "validate", table)
        t.equal(machine + ": target", (found["target"], found["kind"]), (machine, "validation"))
        for row, (cycles, _), case in zip(rows, modelled, found["cases"]):
            t.equal(row[0], case["modelled_cycles"], cycles)
        compare_accuracy(t, machine, found["cycles"], [r[1] for r in rows], [m[0] for m in modelled])
        moved = [(r[2], m[1]) for r, m in zip(rows, modelled) if r[2] != ""]
        compare_accuracy(t, machine + " bytes", found["bytes"], [m[0] for m in moved], [m[1] for m in moved])
        t.equal(machine + ": no fit", found["fit"], None)


def halves_alternate(t):
    table, rows, modelled = write_table(t, "opennpu", 2)
    found = result_of(t, "validate", table, "--fit", "core.hz", "--tries", "2")
    order = sorted(range(len(rows)), key=lambda i: rows[i][1])
    for k, i in enumerate(order):
        t.equal("half of %d" % i, found["cases"][i]["half"], ("fitted", "reported")[k % 2])
    for k, name in enumerate(("fitted_before", "reported_before")):
        compare_accuracy(t, name, found["fit"][name], [rows[i][1] for i in order[k::2]], [modelled[i][0] for i in order[k::2]])


def fits_repeat_and_lower_the_error(t):
    table, _, _ = write_table(t, "cmdq", 3)
    arguments = ("validate", table, "--fit", "dma.peak_bw,te.init", "--tries", "200")
    found = result_of(t, *arguments)
    t.equal("the same again", result_of(t, *arguments), found)
    t.expect("tries", 1 < found["fit"]["configurations"] <= 200)
    profile, plot = t.path("f.ini"), t.path("f.svg")
    result_of(t, *arguments, "-o", profile, "--svg", plot)
    again = result_of(t, "validate", table, "-c", profile)
    t.equal("the profile has the fitted values", [c["modelled_cycles"] for c in again["cases"]], [c["modelled_cycles"] for c in found["cases"]])
    points = [e for e in xml.etree.ElementTree.parse(plot).iter("{http://www.w3.org/2000/svg}circle") if list(e)]
    t.equal("points", len(points), len(found["cases"]))
    validated = result_of(t, "config", profile)["validated"]
    t.equal("against", validated["against"], "cmdq.csv")
    t.equal("validated cases", validated["cases"], found["fit"]["reported_after"]["cases"])


def runs_outside_of_a_validation_give_a_warning(t):
    head = "[profile]\ntarget = pccx\n[validated]\nagainst = m.csv\ncases = 3\nmean_error = 1\nworst_error = -2\n"
    path = programs_of("pccx")[0]
    cycles = result_of(t, "run", path)["cycles"]
    for low, high, arguments, warns in ((cycles, cycles, (), False), (cycles + 1, cycles + 9, (), True), (0, cycles - 1, (), True),
                                        (0, cycles, ("-D", "acp.setup=64"), False), (0, cycles * 2, ("-D", "acp.setup=65"), True),
                                        (cycles + 1, cycles + 9, ("--until", "1"), False), (cycles + 1, cycles + 9, ("--functional",), False)):
        profile = t.write("p.ini", head + "min_cycles = %d\nmax_cycles = %d\n" % (low, high))
        code, _, err = t.call("run", "-q", path, "-c", profile, *arguments)
        t.equal("%d to %d %s" % (low, high, arguments), (code, "TV-S004" in err), (0, warns))


def names_in_plots_are_escaped(t):
    source = programs_of("pccx")[0]
    table = t.write("n.csv", 'program,cycles,name\n%s,100,"<b>&amp;""\x1b[31m"\n' % source)
    code, out, err = t.call("validate", table, "--svg", t.path("n.svg"))
    t.expect("validate", code == 0, err)
    t.expect("no escape sequences", b"\x1b[31m" not in out)
    titles = [e.text for e in xml.etree.ElementTree.parse(t.path("n.svg")).iter("{http://www.w3.org/2000/svg}title")]
    t.expect("name", any("<b>&amp;\"" in title for title in titles), titles)


def options_and_tables_are_checked(t):
    source = programs_of("pccx")[0]
    good = t.write("g.csv", "program,cycles\n%s,100\n%s,200\n" % (source, source))
    mixed = t.write("x.csv", "program,cycles\n%s,100\n%s,200\n" % (source, programs_of("opennpu")[0]))
    missing = t.write("y.csv", "program,cycles\nnone.s,100\n")
    for arguments, want, error in (
            ((good,), 0, ""), ((good, "--limit", "1"), 1, "TV-S005"), ((good, "--limit", "x"), 2, "TV-U004"), ((good, "--limit", "-1"), 2, "TV-U004"),
            ((good, "--tries", "5"), 2, "TV-U006"), ((good, "--fit", "acp.setup", "--tries", "0"), 2, "TV-U004"), ((good, "--fit", ""), 2, "TV-S003"),
            ((good, "--fit", "acp.setup,acp.setup"), 2, "TV-S003"), ((good, "--fit", ",".join(["a"] * 99)), 2, "TV-S003"),
            ((good, "--consistency", "-o", t.path("o.ini")), 2, "TV-U006"), ((good, "-o", good), 2, "TV-U007"),
            ((good, "--svg", source), 2, "TV-U007"), ((good, "-o", t.path("z"), "--svg", t.path("z")), 2, "TV-U007"),
            ((mixed,), 2, "TV-M003"), ((missing,), 2, "TV-F"), ((t.path("none.csv"),), 2, "TV-F"), ((source,), 2, "TV-S001")):
        code, _, err = t.call("validate", *arguments)
        t.expect(" ".join(arguments)[:200], code == want and error in err and "Traceback" not in err, (code, err[:300]))
    code, out, _ = t.call("validate", "-q", good, "--consistency")
    t.expect("consistency", code == 0 and b"consistency of pccx" in out and b"validation" not in out, out)


def main():
    options = suites.parse_arguments(__doc__, "trivet")
    suite = suites.Suite(options.trivet, options)
    suite.run_tests([errors_are_those_of_python, halves_alternate, fits_repeat_and_lower_the_error, runs_outside_of_a_validation_give_a_warning,
                     names_in_plots_are_escaped, options_and_tables_are_checked], suite)
    return suite.finish()


if __name__ == "__main__":
    sys.exit(main())
