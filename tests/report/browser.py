#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reports in a real browser.

    browser.py TRIVET STEPS FOLDER

For programs of each machine, and for one with a model's steps (STEPS writes it): the report and the JSON trace of the same run
must have the same events; the page must load without an error and without a request, and zoom, pan, search,
filter, selection, theme and memory map must change what is shown. The same for a language model on each machine, with its steps and
layers. Pictures at two widths, light and dark, and reports go to FOLDER. A report of more than 100,000 events is opened; how long that
and the language model's take to open and how many frames a second they pan at is printed, without a limit.

Exit status 77 (skipped) without chromium, unless the environment has CI.
"""

import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import suite  # noqa: E402
import webdriver  # noqa: E402
from report_data import Report  # noqa: E402
from suite import ROOT, parse_arguments  # noqa: E402

PROGRAMS = [("pccx", "examples/pccx/pipeline.s"), ("pccx-attention", "examples/pccx/attention.s"), ("opennpu", "examples/opennpu/gemm64.s"),
            ("cmdq", "examples/cmdq/attention.json"), ("cmdq-prefetch", "examples/cmdq/prefetch.json")]
KINDS = {"ENGINE_EVENT": "work", "STALL_EVENT": "stall", "CMD_EVENT": "issue", "STAT_OUT": "status", "MARKER_EVENT": "marker", "TOKEN_EVENT": "token"}
LARGE = """        .target opennpu
        .rept   3000
        ld.vx   vx4, 0(vr5)
        ld.vx   vx5, 64(vr5)
        mma.keep vx4, vx5
        ld.vx   vx6, 128(vr5)
        vadd    vr2, vr2, vr2
        mma.keep vx4, vx6
        vmul    vr3, vr2, vr2
        st.vr   vr3, 1024(vr5)
        ld.vx   vx7, 192(vr5)
        vmax    vr2, vr3, vr2
        mma.last vr2
        vadd    vr3, vr2, vr2
        .endr
"""
READY = "for (let i = 0; i < 1500 && !window.trivetReport; i++) await new Promise((r) => setTimeout(r, 20));" \
        "if (!window.trivetReport) throw new Error(document.body.innerText.slice(0, 300));"
FRAME = "const frame = () => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));"


class Suite(suite.Suite):
    def __init__(self, options):
        super().__init__(options.trivet, options)
        self.steps, self.folder = os.path.abspath(options.steps), os.path.abspath(options.folder)
        os.makedirs(self.folder, exist_ok=True)

    def path(self, name, suffix):
        return os.path.join(self.folder, name + suffix)

    # -- files -------------------------------------------------------------------------------------------------------

    def write(self, name, *arguments):
        """Report and trace of one run."""
        command = [self.trivet, *arguments, "-q", "--report", self.path(name, ".html"), "--trace", self.path(name, ".json")]
        p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.expect(name + ": is written", p.returncode == 0, p.stdout.decode())

    def run_program(self, name, source):
        self.write(name, "run", source)

    def compare(self, name):
        """The report's data against the trace of the same run."""
        report = Report(self.path(name, ".html"))
        with open(self.path(name, ".json"), encoding="utf-8") as f:
            trace = json.load(f)
        events = trace["timeline_events"]
        counts = {}
        for kind, table in KINDS.items():
            counts[table] = sum(e["type"] == kind for e in events)
            self.expect("%s: rows of %s" % (name, table), report.rows(table) == counts[table], "%d, want %d" % (report.rows(table), counts[table]))
        first = report.head["first"]
        for kind, table in (("ENGINE_EVENT", "work"), ("STALL_EVENT", "stall"), ("CMD_EVENT", "issue")):
            t = report.tables[table]
            got = list(zip(t["insn"], t["start"], t["cycles"]))
            want = [(e["cmdq_id"] - first + 1, e["start_cycle"], e["end_cycle"] - e["start_cycle"]) for e in events if e["type"] == kind]
            self.expect("%s: times of %s" % (name, table), got == want)
        stalls = [(e["details"]["reason"], e["details"].get("waits_for", first - 1) - first + 1) for e in events if e["type"] == "STALL_EVENT"]
        t = report.tables["stall"]
        self.expect(name + ": stall reasons", [(report.text(c), w) for c, w in zip(t["reason"], t["waits_for"])] == stalls)
        self.expect(name + ": bytes and MACs of work", [(b, m) for b, m in zip(report.tables["work"]["bytes"], report.tables["work"]["macs"])] ==
                   [(e["details"].get("bytes", 0), e["details"].get("macs", 0)) for e in events if e["type"] == "ENGINE_EVENT"])
        moved = sum(report.tables["transfer"]["bytes"])
        want = trace["summary_metrics"]["dram_read_bytes"] + trace["summary_metrics"]["dram_write_bytes"]
        self.expect(name + ": transferred bytes", moved == want, "%s, want %s" % (moved, want))
        self.expect(name + ": cycles", report.head["stats"]["cycles"] == trace["summary_metrics"]["cycles_total"])
        self.expect(name + ": accesses", report.rows("access") > 0)
        self.expect(name + ": page within 2 MB", len(report.page) < 2 << 20)
        self.expect(name + ": no foreign markup", "<script>alert" not in report.page and not re.search(r'(?:src|href)="(?!#)', report.page))
        return counts

    # -- the page ----------------------------------------------------------------------------------------------------

    def load(self, browser, name, width=1440, height=900, scheme="light"):
        browser.size(width, height, mobile=width < 640)
        browser.scheme(scheme)
        begin = time.monotonic()
        browser.open(self.path(name, ".html"))
        browser.run(READY)
        return time.monotonic() - begin

    def quiet(self, browser, name):
        messages = browser.console_messages()
        self.expect(name + ": nothing in the console", not messages, str(messages))
        requests = [u for u in browser.requests() if not u.startswith(("file://" + self.path(name, ".html"), "data:", "blob:", "about:"))]
        self.expect(name + ": makes no requests", not requests, str(requests))

    def page(self, browser, name, counts):
        self.load(browser, name)
        got = browser.run("const t = trivetReport.model.tables; return Object.fromEntries(Object.keys(t).map((n) => [n, t[n].rows]));")
        self.expect(name + ": the page reads all rows", all(got[table] == n for table, n in counts.items()), str(got))
        blocks = browser.run("return trivetReport.model.lanes.reduce((sum, l) => sum + l.blocks.length, 0);")
        self.expect(name + ": lanes have blocks", blocks > 0)
        self.zoom(browser, name)
        self.pick(browser, name)
        self.find(browser, name)
        self.memory(browser, name)
        self.theme(browser, name)
        self.pictures(browser, name)
        self.quiet(browser, name)

    def pixels(self, browser, canvas):
        return browser.run(FRAME + "await frame(); return document.getElementById(args[0]).toDataURL();", canvas)

    def view(self, browser):
        return browser.run(FRAME + "await frame(); const v = trivetReport.view; return [v.from, v.to, v.total];")

    def middle(self, browser, canvas):
        return browser.run("const e = document.getElementById(args[0]); e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect(); return [b.left + b.width * 0.6, b.top + b.height * 0.5];", canvas)

    def zoom(self, browser, name):
        whole, before = self.pixels(browser, "lanes"), self.view(browser)
        bandwidth, memory = self.pixels(browser, "bandwidth"), self.pixels(browser, "memory")
        x, y = self.middle(browser, "lanes")
        browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-400)
        time.sleep(0.15)
        after = self.view(browser)
        self.expect(name + ": the wheel zooms in", after[1] - after[0] < before[1] - before[0], str(after))
        self.expect(name + ": the charts follow", self.pixels(browser, "lanes") != whole and self.pixels(browser, "memory") != memory
                   and self.pixels(browser, "bandwidth") != bandwidth)
        browser.mouse("mousePressed", x, y, button="left", clickCount=1)
        browser.mouse("mouseMoved", x - 60, y, button="left", buttons=1)
        browser.mouse("mouseMoved", x - 120, y, button="left", buttons=1)
        browser.mouse("mouseReleased", x - 120, y, button="left", clickCount=1)
        panned = self.view(browser)
        self.expect(name + ": dragging pans", panned[0] > after[0] and abs((panned[1] - panned[0]) - (after[1] - after[0])) < 1e-6 * after[2], str(panned))
        browser.run("document.getElementById('lanes').focus();")
        for key, what in (("+", lambda a, b: b[1] - b[0] < a[1] - a[0]), ("ArrowLeft", lambda a, b: b[0] < a[0]), ("-", lambda a, b: b[1] - b[0] > a[1] - a[0]),
                          ("0", lambda a, b: b[0] == 0 and b[1] == b[2])):
            old = self.view(browser)
            browser.key(key)
            self.expect("%s: key %s" % (name, key), what(old, self.view(browser)), "%s to %s" % (old, self.view(browser)))
        browser.run("const b = document.getElementById('minimap').getBoundingClientRect(); trivetReport.view.zoom(4);")

    def pick(self, browser, name):
        """A click on the block of an instruction that waited for another shows it, and the link leads to the other."""
        n = browser.run("const m = trivetReport.model; for (let i = 0; i < m.insns; i++) if (m.start[i] >= 0 && m.end[i] - m.start[i] > 0 && m.stallsOf(i).some((s) => s.waitsFor >= 0)) return i; return -1;")
        self.expect(name + ": something waits for something", n >= 0)
        if n < 0:
            return
        x, y = browser.run(FRAME + """const {view, model, timeline} = trivetReport; const n = args[0], c = document.getElementById("lanes");
            c.scrollIntoView({block: "center"}); const span = Math.max(24, (model.end[n] - model.start[n]) * 4), mid = (model.start[n] + model.end[n]) / 2;
            view.show(mid - span / 2, mid + span / 2); await frame(); const b = c.getBoundingClientRect();
            return [b.left + timeline.x(mid), b.top + timeline.laneTop(timeline.laneOf(n)) + 16];""", n)
        browser.mouse("mouseMoved", x, y)
        tip = browser.run(FRAME + "await frame(); const t = document.getElementById('tooltip'); return t.hidden ? '' : t.innerText;")
        line, index, waits = browser.run("const m = trivetReport.model, n = args[0]; return [m.line(n), m.index(n), m.stallsOf(n).find((s) => s.waitsFor >= 0).waitsFor];", n)
        self.expect(name + ": hovering describes it", "#%d" % index in tip and line in tip, repr(tip))
        browser.mouse("mousePressed", x, y, button="left", clickCount=1)
        browser.mouse("mouseReleased", x, y, button="left", clickCount=1)
        details = browser.run(FRAME + "await frame(); return document.getElementById('details').innerText;")
        self.expect(name + ": clicking selects", browser.run("return trivetReport.view.selected;") == n and "#%d" % index in details and line in details, details)
        self.expect(name + ": the details name what it waited for", "stalled for" in details and "#%d" % (waits + browser.run("return trivetReport.model.head.first;")) in details, details)
        browser.run(FRAME + "[...document.querySelectorAll('#details .waits a')][0].click(); await frame();")
        self.expect(name + ": the link leads to the producer", browser.run("return trivetReport.view.selected;") != n)
        browser.run("trivetReport.view.fit();")

    def find(self, browser, name):
        plain = self.pixels(browser, "lanes")
        op = browser.run("const m = trivetReport.model; return m.text(m.tables.insn.op[m.tables.work.insn[0] - 1]);")
        found, want = browser.run("""const i = document.getElementById("search"); i.value = args[0]; i.dispatchEvent(new Event("input"));
            const m = trivetReport.model; let n = 0; for (let k = 0; k < m.insns; k++) if (m.start[k] >= 0 && (m.text(m.tables.insn.op[k]) + "\\n" + m.line(k)).includes(args[0])) n++;
            return [document.getElementById("search-count").textContent, n];""", op)
        self.expect(name + ": search finds", int(found.replace(",", "").split()[0]) >= want > 0, "%s of %d for %s" % (found, want, op))
        self.expect(name + ": matches are shown", self.pixels(browser, "lanes") != plain)
        all_rows, filtered, sorted_rows = browser.run("""const g = trivetReport.grid, all = g.rows.length, i = document.getElementById("filter");
            i.value = args[0]; i.dispatchEvent(new Event("input")); const some = g.rows.length;
            document.querySelectorAll(".grid-head button")[4].click(); const m = trivetReport.model, keys = [...g.rows].map((n) => m.end[n] - m.start[n]);
            i.value = ""; i.dispatchEvent(new Event("input")); document.getElementById("search").value = ""; document.getElementById("search").dispatchEvent(new Event("input"));
            return [all, some, keys.every((k, j) => !j || keys[j - 1] >= k)];""", op)
        self.expect(name + ": the filter leaves fewer rows", 0 < filtered < all_rows, "%d of %d" % (filtered, all_rows))
        self.expect(name + ": a heading sorts", sorted_rows)
        rows = browser.run("return document.querySelectorAll('.grid-row').length;")
        self.expect(name + ": few rows are elements", 0 < rows < 80, str(rows))

    def memory(self, browser, name):
        spaces = browser.run(FRAME + """const out = []; for (const b of document.querySelectorAll("#space-tabs button")) { b.click(); await frame();
            const m = trivetReport.memory, c = m.canvas, d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, seen = new Set();
            for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
            out.push([b.textContent, m.shown, seen.size]); } document.querySelector("#space-tabs button").click(); return out;""")
        self.expect(name + ": the memory map has data", spaces and all(shown > 0 and colors > 3 for _, shown, colors in spaces), str(spaces))

    def theme(self, browser, name):
        read = "return [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor];"
        before, lanes = browser.run(read), self.pixels(browser, "lanes")
        browser.run("document.getElementById('theme').click();")
        after = browser.run(read)
        self.expect(name + ": the theme changes", before[0] == "light" and after[0] == "dark" and before[1] != after[1] and self.pixels(browser, "lanes") != lanes)
        browser.run("document.getElementById('theme').click(); localStorage.clear();")

    def pictures(self, browser, name):
        for width, height in ((1440, 900), (390, 844)):
            for scheme in ("light", "dark"):
                self.load(browser, name, width, height, scheme)
                self.expect("%s: follows the system's %s" % (name, scheme), browser.run("return document.documentElement.dataset.theme;") == scheme)
                wide = browser.run(FRAME + "await frame(); return document.documentElement.scrollWidth;")
                self.expect("%s: fits %d pixels" % (name, width), wide <= width, str(wide))
                self.layout(browser, "%s at %d, %s" % (name, width, scheme))
                picture = self.path("%s-%d-%s" % (name, width, scheme), ".png")
                browser.screenshot(picture, whole=True)
                self.expect(name + ": a picture", os.path.getsize(picture) > 20000)

    def layout(self, browser, name):
        """What is to be read does not cover each other: navigation and button, labels of the roofline; wide tables have an
        edge; both roofs are visible; hints have a floor; stalls are paler than work."""
        overlap = browser.run("""const a = document.querySelector("nav").getBoundingClientRect(), b = document.getElementById("theme").getBoundingClientRect();
            return a.right > b.left + 1 && a.left < b.right - 1 && a.bottom > b.top + 1 && a.top < b.bottom - 1;""")
        self.expect(name + ": the button is beside the navigation", not overlap)
        labels = browser.run("""return [...document.querySelectorAll("#roof svg text.name, #roof svg text.peak")].map((t) => { const b = t.getBBox(); return [t.textContent, b.x, b.y, b.x + b.width, b.y + b.height]; });""")
        covered = [(a[0], b[0]) for i, a in enumerate(labels) for b in labels[i + 1:]
                   if a[1] < b[3] - 1 and b[1] < a[3] - 1 and a[2] + 2 < b[4] - 2 and b[2] + 2 < a[4] - 2]
        self.expect(name + ": labels of the roofline do not collide", not covered, str(covered))
        roofs = browser.run("""return [...document.querySelectorAll("#roof line.path")].map((l) => [["x1", "y1", "x2", "y2"].map((k) => l.getAttribute(k)).join(), l.style.strokeDasharray]);""")
        self.expect(name + ": roofs of one place are dashed", all(dash for at, dash in roofs if sum(a == at for a, _ in roofs) > 1), str(roofs))
        plain = browser.run("""return [...document.querySelectorAll(".scroll, .grid-scroll")].filter((n) => n.scrollWidth > n.clientWidth && !getComputedStyle(n).backgroundImage.includes("gradient")).length;""")
        self.expect(name + ": tables that scroll have an edge", plain == 0, str(plain))
        shares = browser.run("""return [...document.querySelectorAll("#hints .hint")].map((h) => (h.innerText.match(/([0-9.]+)[^0-9]{0,2}% of the run/) || [0, "0"])[1]);""")
        self.expect(name + ": hints have a floor of 5 %", all(float(x) >= 4.9 for x in shares), str(shares))
        links = browser.run("""return [...document.querySelectorAll("#hints button")].map((b) => b.textContent);""")
        self.expect(name + ": links of hints are instructions", all(not re.match(r"#|Longest", t) for t in links), str(links))
        colors = browser.run("""const d = (c) => { const m = c.match(/[0-9.]+/g).map(Number), t = getComputedStyle(document.querySelector(".bar")).backgroundColor.match(/[0-9.]+/g).map(Number);
            return Math.hypot(m[0] - t[0], m[1] - t[1], m[2] - t[2]); };
            return [...document.querySelectorAll("#legend i")].slice(0, -1).map((i) => [i.className, d(getComputedStyle(i).backgroundColor)]);""")
        self.expect(name + ": stalls are paler than work", all(x < colors[0][1] for _, x in colors[1:]), str(colors))
        legend = browser.run("""return [document.getElementById("tokens").hidden, [...document.querySelectorAll("#tokens .legend li")].map((l) => l.innerText.trim())];""")
        self.expect(name + ": the bars of steps have a legend", legend[0] or "decode" in legend[1], str(legend))

    def manual(self, browser):
        """The picture of docs/report.md: in a layer of a decode step, the instruction that waited longest for another engine."""
        self.write("manual", "llm", os.path.join(ROOT, "models/shakespeare.gguf"), "-t", "pccx", "-p", "ROMEO:", "-n", "8")
        self.load(browser, "manual", 1280, 1060)
        found = browser.run(FRAME + """const m = trivetReport.model, step = m.steps[2]; let best = -1;
            const other = (n) => m.stallsOf(n).some((s) => s.waitsFor >= 0 && m.lane[s.waitsFor] !== m.lane[n]);
            for (let n = 0; n < m.insns; n++) if (m.start[n] >= step.start && m.end[n] <= step.end && m.end[n] - m.start[n] > 20 && m.waited[n] < 400
                && (best < 0 || m.waited[n] > m.waited[best]) && other(n)) best = n;
            trivetReport.go.select(best); trivetReport.view.show(m.start[best] - 700, m.start[best] + 500); document.activeElement.blur(); await frame();
            return best;""")
        self.expect("manual: something to show", found >= 0)
        browser.size(1280, browser.run("return Math.ceil(document.getElementById('timeline').getBoundingClientRect().bottom + scrollY) + 16;"))
        browser.run(FRAME + "await frame();")
        browser.screenshot(self.path("manual", ".png"))
        self.quiet(browser, "manual")

    def steps_page(self, browser):
        source = os.path.join(ROOT, "examples/cmdq/attention.json")
        status = subprocess.run([self.steps, source, self.path("steps", ".html"), self.path("steps", ".json")]).returncode
        self.expect("steps: is written", status == 0)
        counts = self.compare("steps")
        # one marker of the program, and the completion signal of each END
        self.expect("steps: steps and marks", counts["token"] == 5 and counts["marker"] == 1 + 5, str(counts))
        self.load(browser, "steps")
        text = browser.run("return document.getElementById('tokens').hidden ? '' : document.getElementById('token-table').innerText;")
        self.expect("steps: are listed", text.count("decode") == 4 and text.count("prefill") == 1, text)
        self.expect("steps: the title is text", browser.run("return document.getElementById('title').textContent + document.title;").count("<script>alert(1)</script>") == 2)
        browser.screenshot(self.path("steps", ".png"), whole=True)
        self.quiet(browser, "steps")

    def two_runs(self, browser):
        """The page of `trace diff --report` has the figures of `trace diff --json`, in both schemes and at two widths."""
        traces = []
        for name, options in (("before", []), ("after", ["-D", "stream.bytes_per_cycle=10"])):
            traces.append(self.path("two-" + name, ".json"))
            subprocess.run([self.trivet, "llm", os.path.join(ROOT, "models/shakespeare.gguf"), "-t", "pccx", "-p", "A", "-n", "2", "-q", *options,
                            "--trace", traces[-1]], stdout=subprocess.DEVNULL)
        p = subprocess.run([self.trivet, "trace", "diff", *traces, "--json", "--report", self.path("two", ".html")], stdout=subprocess.PIPE)
        self.expect("two runs: are compared", p.returncode == 0)
        diff = json.loads(p.stdout)["result"]
        tables = {"layers": diff["layers"], "classes": diff["ops"], "reasons": diff["stall_reasons"]}
        backgrounds = set()
        for width, height in ((1440, 900), (390, 844)):
            for scheme in ("light", "dark"):
                browser.size(width, height, mobile=width < 640)
                browser.scheme(scheme)
                browser.open(self.path("two", ".html"))
                title, engines, wide, back, text = browser.run("""return [document.getElementById("total").innerText, document.querySelectorAll(".engine").length,
                    document.documentElement.scrollWidth, getComputedStyle(document.body).backgroundColor, document.body.innerText];""")
                self.expect("two runs: both totals", "{before:,} → {after:,} cycles".format(**diff["cycles"]) in title, title)
                self.expect("two runs: fits %d pixels" % width, wide <= width, str(wide))
                self.expect("two runs: every engine", engines == len(("GEMM", "GEMV", "SFU", "ACP", "DISP")), str(engines))
                self.expect("two runs: reasons and parameters", "stalled: stream" in text and "stream.bytes_per_cycle" in text, text[:2000])
                for table, rows in tables.items():
                    got = browser.run("return [...document.querySelectorAll('#' + args[0] + ' tbody tr')].map((r) => [...r.cells].slice(0, 3).map((c) => c.innerText.trim()));", table)
                    self.expect("two runs: " + table, got and got == [[r["name"], "{:,}".format(r["before"]), "{:,}".format(r["after"])] for r in rows], str(got))
                backgrounds.add(back)
                browser.screenshot(self.path("two-%d-%s" % (width, scheme), ".png"), whole=True)
        self.expect("two runs: light and dark differ", len(backgrounds) == 2, str(backgrounds))
        self.quiet(browser, "two")

    def large(self, browser):
        source = self.path("large", ".s")
        with open(source, "w", encoding="utf-8") as f:
            f.write(LARGE)
        p = subprocess.run([self.trivet, "run", source, "-c", "top", "-q", "--report", self.path("large", ".html")])
        self.expect("large: is written", p.returncode == 0)
        self.expect("large: more than 100,000 events", self.measure(browser, "large") > 100000)
        self.quiet(browser, "large")

    def measure(self, browser, name):
        """Opens a report and pans. Returns the number of its events."""
        seconds = self.load(browser, name)
        count = browser.run("const t = trivetReport.model.tables; return t.work.rows + t.stall.rows + t.issue.rows + t.transfer.rows;")
        frames = browser.run("""const v = trivetReport.view, out = []; document.getElementById("lanes").scrollIntoView();
            for (const zoom of [1.5, 10, 100]) { v.show(0, v.total / zoom); const begin = performance.now(); let n = 0;
              while (performance.now() - begin < 1000) { v.pan(v.span * 0.01); n++; await new Promise((r) => requestAnimationFrame(r)); }
              out.push(Math.round(n * 1000 / (performance.now() - begin))); } return out;""")
        print("%s: %d events, %d accesses, %d KB, opened in %.2f s, panned at %s frames/s (zoom 1.5, 10, 100)" %
              (name, count, browser.run("return trivetReport.model.tables.access.rows;"), os.path.getsize(self.path(name, ".html")) >> 10, seconds,
               "/".join(map(str, frames))))
        return count

    def language_model(self, browser):
        """A short text on each machine: its steps, which end with the run, and the layers of the model."""
        for target in suite.sample(("pccx", "opennpu", "cmdq")):
            name = "llm-" + target
            self.write(name, "llm", os.path.join(ROOT, "models/shakespeare.gguf"), "-t", target, "-p", "A", "-n", "3")
            counts = self.compare(name)
            self.expect(name + ": steps", counts["token"] == 3, str(counts))
            self.page(browser, name, counts)
            self.load(browser, name)
            steps, layers, cycles = browser.run("""const rows = (id) => [...document.querySelectorAll("#" + id + " tbody tr")].map((r) => [...r.cells].map((c) => c.innerText.trim()));
                return [rows("tokens"), rows("layers"), trivetReport.model.head.stats.cycles];""")
            self.expect(name + ": steps are listed", [(s[0], s[1]) for s in steps] == [("prefill", "0"), ("decode", steps[0][2]), ("decode", str(int(steps[0][2]) + 1))], str(steps))
            self.expect(name + ": steps take the whole run", sum(int(s[3].replace(",", "")) for s in steps) == cycles, "%s of %d" % (steps, cycles))
            # Energies of classes, which exceed 32 bits, and those of issuing and of the cycles are that of the run.
            ends, total, rest = browser.run("""const {model} = trivetReport, {energy} = model.head, sums = [...model.fold((g, i) => g.op[i]).values()];
                const scheduler = Object.entries(energy.engines).filter(([n]) => ["DISP", "ISSUE", "control"].includes(n)).map(([, e]) => e);
                return [["low", "nominal", "high"].map((e) => sums.reduce((a, s) => a + s[e], 0)), energy.total, [energy.static, ...scheduler]];""")
            for end, found in zip(("low", "nominal", "high"), ends):
                expected = total[end] - sum(e[end] for e in rest)
                self.expect(name + ": energy of classes, " + end, abs(found - expected) <= 1e-3 * expected, "%g, %g" % (found, expected))
            self.expect(name + ": layers are listed", {"blk.%d" % i for i in range(6)} <= {r[0] for r in layers}, str(layers))
            self.measure(browser, name)
            self.quiet(browser, name)

    def run(self):
        with webdriver.Browser() as browser:
            for name, source in suite.sample(PROGRAMS):
                self.run_program(name, os.path.join(ROOT, source))
                self.page(browser, name, self.compare(name))
            self.manual(browser)
            self.steps_page(browser)
            self.two_runs(browser)
            self.large(browser)
            self.language_model(browser)
        return self.finish()


def main():
    if not webdriver.DRIVER or not webdriver.BROWSER:
        print("no chromium, or no chromedriver")
        return 1 if os.environ.get("CI") else 77
    return Suite(parse_arguments(__doc__, "trivet", "steps", "folder")).run()


sys.exit(main())
