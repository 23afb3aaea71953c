#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of a sweep in a real browser.

    page.py WRITER FOLDER

For points of a synthetic machine: the front, the shares of variance and the sorted table that the page shows against those
computed here from their definitions; selection, filters, comparison and themes; no message of the console and no
request. Names that look like markup are shown as text. A sweep without points, and one in which each point failed, are
shown, too. Pictures at two widths, light and dark, go to FOLDER.

Exit status 77 (skipped) without chromium, unless the environment has CI.
"""

import json
import math
import os
import random
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "report"), os.path.dirname(HERE)]

import suite  # noqa: E402
import webdriver  # noqa: E402

WAIT = "for (let i = 0; i < 1500 && !window.trivetSweep; i++) await new Promise((r) => setTimeout(r, 20));" \
       "if (!window.trivetSweep) throw new Error(document.body.innerText.slice(0, 300)); const t = window.trivetSweep;"
PARAMETERS = {"array.rows": [4, 8, 16, 32, 64], "array.columns": [4, 8, 16, 32, 64], "l2.kib": [64, 128, 256, 512, 1024], "dram.gbps": [8, 16, 32, 64],
              "<b>name</b>": ["x<y", "\"q\""]}


def stats(cycles, compute, memory):
    return {"target": "opennpu", "cycles": cycles, "instructions": 1307, "macs": 1048576,
            "engines": {"MMA": {"busy": min(cycles, compute), "idle": cycles - min(cycles, compute), "stalled": {}},
                        "PORT": {"busy": min(cycles, memory) - 100, "idle": cycles - min(cycles, memory), "stalled": {"raw": 60, "<i>odd</i>": 40}}},
            "bytes": {"load": 32780, "store": 65536}, "bottleneck": "bound by MMA" if compute > memory else "bound by PORT"}


def make_sweep(count, seed=3):
    """Cycles are the greater one of two bounds; the cost grows with what moves them."""
    rng = random.Random(seed)
    sizes = [len(v) for v in PARAMETERS.values()]
    total = math.prod(sizes)
    points = []
    for number in sorted(rng.sample(range(total), count)):
        rest, values = number, []
        for size in reversed(sizes):
            values.insert(0, rest % size)
            rest //= size
        rows, columns, l2, bandwidth = [list(PARAMETERS.values())[k][values[k]] for k in range(4)]
        compute = 4_000_000 // (rows * columns)
        memory = (2_000_000 + 40_000_000 // l2) // bandwidth
        cycles = max(compute, memory) + 1000
        cost = rows * columns * 0.75 + l2 * 2.5 + bandwidth * 30
        energy = 1e-6 * (0.5 * cycles + 40_000_000 / l2 + cost * 0.01 * cycles)
        failed = rng.random() < 0.02
        points.append({"id": number, "values": values, "objectives": None if failed else [cycles, cost, 1e9 / cycles, energy],
                       "failure": "TV-X001 does not fit" if failed else None,
                       "reports": [] if failed else [{"workload": "gemm <64>.s", "stats": stats(cycles, compute, memory)}]})
    return {"format": 1, "version": "0.1.0", "title": "A <sweep>", "search": "random, %d points, seed %d" % (count, seed), "total": total,
            "parameters": [{"name": k, "values": [str(x) for x in v]} for k, v in PARAMETERS.items()],
            "objectives": [{"name": "cycles", "unit": "cycles", "goal": "min"}, {"name": "cost", "unit": "units", "goal": "min"},
                           {"name": "runs", "unit": "1/s", "goal": "max"}, {"name": "energy", "unit": "mJ", "goal": "min"}], "points": points}


def costs_of(sweep, columns):
    signs = [-1 if o["goal"] == "max" else 1 for o in sweep["objectives"]]
    return {p["id"]: [signs[m] * p["objectives"][m] for m in columns] for p in sweep["points"] if p["objectives"]}


def front_of(costs):
    """Identifiers of the points that no other one dominates, by the definition."""
    def dominates(a, b):
        return all(x <= y for x, y in zip(a, b)) and any(x < y for x, y in zip(a, b))
    return sorted(i for i, a in costs.items() if not any(dominates(b, a) for b in costs.values()))


def explained(sweep, parameter, objective):
    """Share of the variance of the objective's logarithm between the values of a parameter."""
    groups = {}
    for p in sweep["points"]:
        if p["objectives"] and sweep["parameters"][parameter]["values"][p["values"][parameter]] != "-":
            groups.setdefault(p["values"][parameter], []).append(math.log(p["objectives"][objective]))
    everything = [v for g in groups.values() for v in g]
    center = statistics.fmean(everything)
    between = sum(len(g) * (statistics.fmean(g) - center) ** 2 for g in groups.values())
    return between / sum((v - center) ** 2 for v in everything)


class Suite(suite.Suite):
    def __init__(self, options):
        super().__init__(options=options)
        self.writer, self.pictures = os.path.abspath(options.writer), os.path.abspath(options.folder)
        os.makedirs(self.pictures, exist_ok=True)
        self.browser = None

    def open(self, name, sweep):
        data, page = os.path.join(self.folder, name + ".json"), os.path.join(self.pictures, name + ".html")
        with open(data, "w", encoding="utf-8") as f:
            json.dump(sweep, f)
        subprocess.run([self.writer, data, page], check=True)
        self.browser.size(1360, 900)
        self.browser.scheme("light")
        self.browser.open(page)
        return page

    def js(self, script, *arguments):
        return self.browser.run(WAIT + script, *arguments)

    def check_quiet(self, name, page):
        self.equal(name + ": no console message", self.browser.console_messages(), [])
        self.equal(name + ": no request", [u for u in self.browser.requests() if u != "file://" + page and not u.startswith("data:")], [])

    def check_values(self, sweep):
        ids = self.js("return t.sweep.front.map((i) => t.sweep.points[i].id).sort((a, b) => a - b)")
        self.equal("the front of all objectives", ids, front_of(costs_of(sweep, range(4))))
        for x, y in ((0, 1), (1, 3), (2, 1)):
            shown = self.js("""for (const [id, v] of [["front-x", args[0]], ["front-y", args[1]]]) {
                document.getElementById(id).value = String(v); document.getElementById(id).dispatchEvent(new Event("change")); }
                return [t.front.stairs.map((i) => t.sweep.points[i].id).sort((a, b) => a - b), document.getElementById("front-count").textContent]""", x, y)
            expected = front_of(costs_of(sweep, [x, y]))
            self.equal("the front of objectives %d and %d" % (x, y), shown[0], expected)
            self.expect("its count is shown", shown[1].startswith("%d of %d " % (len(expected), len(costs_of(sweep, [0])))), shown[1])
        self.js("document.getElementById('front-x').value = '0'; document.getElementById('front-y').value = '1';"
                "document.getElementById('front-x').dispatchEvent(new Event('change'))")
        rows = self.js("return [...document.querySelectorAll('#sensitivity-table tbody tr')].map((r) => [...r.querySelectorAll('.sense')].map((c) => Number(c.dataset.share)))")
        self.equal("a row for each parameter", [len(r) for r in rows], [4] * 5)
        for parameter, row in enumerate(rows):
            for objective, share in enumerate(row):
                self.expect("sensitivity of %d to %d" % (objective, parameter), abs(share - explained(sweep, parameter, objective)) < 1e-3, share)

    def check_table(self, sweep):
        texts = "return [...document.querySelectorAll('.grid-row')].sort((a, b) => parseFloat(a.style.top) - parseFloat(b.style.top))" \
                ".slice(0, 5).map((r) => Number(r.firstChild.textContent))"
        press = "document.querySelectorAll('.grid-head button')[args[0]].click();"
        self.equal("by identifier", self.js(texts), [p["id"] for p in sweep["points"]][:5])
        good = [p for p in sweep["points"] if p["objectives"]]
        by_cost = sorted(good, key=lambda p: (p["objectives"][1], p["id"]))
        self.equal("by cost", self.js(press + texts, 2 + 5 + 1), [p["id"] for p in by_cost][:5])
        runs = sorted(good, key=lambda p: (-p["objectives"][2], p["id"]))
        self.equal("by an objective of which more is better", self.js(press + texts, 2 + 5 + 2), [p["id"] for p in runs][:5])
        failed = self.js(press + press + texts, 2 + 5)
        self.equal("failed points are last, or first in reverse order", failed[0], [p["id"] for p in sweep["points"] if not p["objectives"]][0])
        self.expect("with the reason", "does not fit" in self.js("return document.querySelector('.grid-body').innerText"))
        self.js(press, 0)
        front = self.js("document.getElementById('only-front').click(); return document.getElementById('points-count').textContent")
        self.expect("only the front", front.startswith("%d of" % len(front_of(costs_of(sweep, range(4))))), front)
        self.js("document.getElementById('only-front').click()")

    def check_choice(self, sweep):
        by_id = {p["id"]: p for p in sweep["points"]}
        box = self.js("""const c = document.getElementById("front-chart"); c.scrollIntoView({block: "center"}); const b = c.getBoundingClientRect();
            const s = t.front.stairs; const at = (i) => [b.left + t.front.px(i), b.top + t.front.py(i)];
            return [at(s[0]), at(s[s.length - 1]), t.sweep.points[s[0]].id, t.sweep.points[s[s.length - 1]].id]""")
        for (x, y), modifiers in ((box[0], 0), (box[1], 8)):
            self.browser.mouse("mousePressed", x, y, button="left", clickCount=1, modifiers=modifiers)
            self.browser.mouse("mouseReleased", x, y, button="left", clickCount=1, modifiers=modifiers)
        self.equal("clicks choose", self.js("return t.chosen().map((i) => t.sweep.points[i].id)"), box[2:])
        a, b = by_id[box[2]], by_id[box[3]]
        text = self.js("return document.getElementById('compare-body').innerText")
        for part in ("gemm <64>.s", "bytes.load", "engines.PORT.stalled.<i>odd</i>", "bottleneck"):
            self.expect("the comparison has " + part, part in text, text[:400])
        change = (b["objectives"][0] - a["objectives"][0]) / a["objectives"][0] * 100
        row = self.js("return [...document.querySelectorAll('#compare-body tr')].find((r) => r.firstChild.textContent === 'cycles').innerText")
        self.expect("its difference in percent", abs(change) >= 10 and "%d\u00a0%%" % round(abs(change)) in row, (row, change))
        self.equal("bars of both", self.js("return document.querySelectorAll('#compare-body .pair .bar').length"), 4)
        self.js("document.getElementById('front-chart').focus()")
        self.browser.key("ArrowRight")
        self.equal("keys step along the front", self.js("return t.front.stairs.indexOf(t.chosen()[0])"), 1)
        self.browser.key("b")
        self.expect("b makes it the second point", self.js("return t.chosen()[0] === t.chosen()[1]"))

    def check_filter(self, sweep):
        before = self.js("return document.getElementById('parallel-count').textContent")
        where = self.js("""const c = document.getElementById("parallel-chart"); c.scrollIntoView({block: "center"}); const b = c.getBoundingClientRect();
            return [b.left + t.parallel.left, b.top + t.parallel.scales[0].at(1.4), b.top + t.parallel.scales[0].at(2.6)]""")
        x, low, high = where
        self.browser.mouse("mousePressed", x, low, button="left", clickCount=1)
        self.browser.mouse("mouseMoved", x, (low + high) / 2, button="left", buttons=1)
        self.browser.mouse("mouseMoved", x, high, button="left", buttons=1)
        self.browser.mouse("mouseReleased", x, high, button="left", clickCount=1)
        expected = sum(1 for p in sweep["points"] if p["objectives"] and p["values"][0] == 2)
        shown = self.js("return [document.getElementById('parallel-count').textContent, document.getElementById('points-count').textContent]")
        self.expect("one value is selected", shown[0].startswith("%d of" % expected), (shown, expected))
        self.expect("in the table, too", shown[1].startswith("%d of" % expected), shown)
        self.browser.screenshot(os.path.join(self.pictures, "filtered.png"))
        self.equal("and cleared", self.js("document.getElementById('parallel-clear').click(); return document.getElementById('parallel-count').textContent"), before)

    def check_texts(self, name):
        self.equal(name + ": title", self.js("return document.title"), "A <sweep> & \"its\" title – Trivet sweep")
        self.equal(name + ": no markup from names", self.js("return document.querySelectorAll('main b b, main i i, th b, td b').length"), 0)

    def pictures_of(self, name):
        self.js("window.scrollTo(0, 0)")
        for width in (1360, 400):
            self.browser.size(width, 900, mobile=width < 600)
            for scheme in ("light", "dark"):
                self.browser.scheme(scheme)
                self.js("await new Promise((r) => setTimeout(r, 300))")
                self.browser.screenshot(os.path.join(self.pictures, "%s-%d-%s.png" % (name, width, scheme)), whole=True)
                inside = self.js("return document.documentElement.scrollWidth <= innerWidth + 1")
                self.expect("%s: no horizontal scrolling at %d" % (name, width), inside)
                theme = self.js("return document.documentElement.dataset.theme")
                self.equal("%s: follows the scheme" % name, theme, scheme)

    def run(self):
        sweep = make_sweep(600)
        empty, failed = make_sweep(0), make_sweep(30)
        for p in failed["points"]:
            p.update(objectives=None, failure="TV-X001 <does> not fit", reports=[])
        with webdriver.Browser() as self.browser:
            page = self.open("sweep", sweep)
            self.check_texts("sweep")
            self.pictures_of("sweep")
            self.browser.size(1360, 900)
            self.browser.scheme("light")
            self.run_tests([self.check_values, self.check_table, self.check_choice, self.check_filter], sweep)
            self.check_quiet("sweep", page)
            for name, other in (("empty", empty), ("failed", failed)):
                page = self.open(name, other)
                self.equal(name + ": is shown", self.js("return document.getElementById('points-count').textContent"), "%d of %d" % ((len(other["points"]),) * 2))
                self.browser.screenshot(os.path.join(self.pictures, name + ".png"), whole=True)
                self.check_quiet(name, page)
        return self.finish()


def main():
    if not webdriver.DRIVER or not webdriver.BROWSER:
        print("no chromium, or no chromedriver")
        return 1 if os.environ.get("CI") else 77
    return Suite(suite.parse_arguments(__doc__, "writer", "folder")).run()


sys.exit(main())
