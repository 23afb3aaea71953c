#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How good the evolutionary search is, on the spaces of examples/sweeps.

    quality.py TRIVET

Every point of each space is evaluated once. Then NSGA-II and the random search get 5 % of the points with each of 20 seeds, or a
sample of them. The hypervolume of what they find, computed here, is compared with that of all points: below the greatest value that each
objective has in the front, in units of the front's range. The median of NSGA-II is at least 98 % and above that of the random
search.
"""

import csv
import os
import re
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from suite import ROOT, Suite, parse_arguments, sample  # noqa: E402

SEEDS = 20


def hypervolume(points, reference):
    """Below `reference`, by slices along the last objective, and stairs of two objectives."""
    points = sorted({tuple(p) for p in points if all(x < r for x, r in zip(p, reference))}, key=lambda p: p[-1])
    if len(reference) == 2:
        volume, left = 0.0, reference[0]
        for x, y in points:  # from the smallest second objective on
            if x < left:
                volume += (left - x) * (reference[1] - y)
                left = x
        return volume
    volume = 0.0
    for i, p in enumerate(points):
        end = points[i + 1][-1] if i + 1 < len(points) else reference[-1]
        if end > p[-1]:
            volume += (end - p[-1]) * hypervolume([q[:-1] for q in points[:i + 1]], reference[:-1])
    return volume


def front_of(points):
    found = []
    for p in sorted(set(points)):
        if not any(all(a <= b for a, b in zip(q, p)) for q in found):
            found.append(p)
    return found


class Quality(Suite):
    def run_space(self, name):
        with open(os.path.join(ROOT, "examples", "sweeps", name), encoding="utf-8") as file:
            text = file.read().replace("../", os.path.join(ROOT, "examples") + "/")
        objectives = [o.strip() for o in re.search(r"^objectives = (.*)$", text, re.M).group(1).split(",")]
        parameters = len(re.findall(r"^[a-z]+\.[a-z_]+ = ", text, re.M))
        everything = self.sweep(name, text, "exhaustive", 0, 0, objectives)
        total = len(everything)
        self.expect("%s: at least 10,000 points and 5 parameters" % name, total >= 10000 and parameters >= 5, (total, parameters))
        front = front_of(everything)
        low, high = [min(p[m] for p in front) for m in range(len(objectives))], [max(p[m] for p in front) for m in range(len(objectives))]
        scale = lambda p: tuple((v - a) / (b - a) for v, a, b in zip(p, low, high))
        reference = [1 + 1e-9] * len(objectives)
        best = hypervolume([scale(p) for p in front], reference)
        medians, seeds = {}, sample(range(1, SEEDS + 1))
        for search in ("nsga2", "random"):
            reached = [hypervolume([scale(p) for p in front_of(self.sweep(name, text, search, total // 20, seed, objectives))], reference) / best
                       for seed in seeds]
            medians[search] = statistics.median(reached)
            print("%s: %s, %d of %d points: median %.2f %%, least %.2f %% of the front's hypervolume (%d points)" %
                  (name, search, total // 20, total, 100 * medians[search], 100 * min(reached), len(front)))
        self.expect("%s: NSGA-II reaches 98 %%" % name, medians["nsga2"] >= 0.98, medians)
        self.expect("%s: and more than the random search" % name, medians["nsga2"] > medians["random"], medians)

    def sweep(self, name, text, search, budget, seed, objectives):
        text = re.sub(r"^search = .*$", "search = " + search, text, flags=re.M)
        for key, value in (("budget", budget), ("seed", seed)):
            text = re.sub(r"^%s = .*$" % key, "%s = %d" % (key, value) if search != "exhaustive" else "", text, flags=re.M)
        spec, table = os.path.join(self.folder, name), os.path.join(self.folder, "points.csv")
        with open(spec, "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run([self.trivet, "sweep", spec, "-q", "-o", os.path.join(self.folder, name + ".db"), "--csv", table], check=True, stdout=subprocess.DEVNULL)
        with open(table, encoding="utf-8", newline="") as file:
            return [tuple(float(row[o]) for o in objectives) for row in csv.DictReader(file) if row["outcome"] == "ok"]


def main():
    options = parse_arguments(__doc__, "trivet")
    suite = Quality(options.trivet, options)
    for name in ("cmdq.ini", "pccx.ini"):
        suite.run_space(name)
    return suite.finish()


sys.exit(main())
