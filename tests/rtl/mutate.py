#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutants of the designs of examples/rtl, which lockstep must find.

    mutate.py ROOT BUILD [-k DESIGN] [--count N] [--seed S] [--instructions N] [--seconds N] [--proof N] [--goal N] [--reduced N] [--all] [--verbose]
    mutate.py ROOT BUILD --products

All sampled mutants of a design are in one build, and an input selects. N mutants of each design (--count) are sampled over
all pairs of a module and an operator; --all takes every mutant. Each runs until the mismatch, at most the given instructions
and seconds. A survivor is proved equivalent by yosys within the seconds of --proof, in the modules that contain it, or counts
as missed. Of those that are not equivalent --goal percent must be found, and of the found ones --reduced percent must be
reduced to three instructions or fewer; 0: mismatches are not reduced.

--products counts instead in how many matrix products each mutant of the multiplier shows, with inner values.
"""

import collections
import concurrent.futures
import glob
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import mutants as mutation  # noqa: E402  pylint: disable=wrong-import-position
import suite as suites  # noqa: E402  pylint: disable=wrong-import-position

SKIPPED = 77
FLAGS = {"pccx": ("-DSTREAM",), "opennpu": ()}
# What the inputs of a module are, after the checks before it.
ASSUMPTIONS = {"pccx_quantize": "scale_mantissa != 0 && x[14:7] != 8'hFF", "pccx_act_scale": "act_scale < 16'h7F80",
               "pccx_f32_to_bf16": "x[30:0] <= 31'h7F800000 || x == 32'h7FC00000",
               "pccx_post": "sum[31:27] == {5{sum[31]}}"}  # at most 65,535 products of 127 * 8
# Modules that pass a binary32 number to others of them or to pccx_f32_to_bf16, which treat all NaNs alike, so that a proof
# may do so, too: their ports and the wrapper's.
CANONICAL = """
module canonical_%(top)s (input logic [31:0] a, input logic [31:0] b, input logic divide, output logic [31:0] y, output logic [15:0] y_bf16);
    logic [31:0] bits;
    %(top)s inner (.a(a), .b(b), .y(bits)%(more)s);
    assign y = bits[30:0] > 31'h7F800000 ? 32'h7FC00000 : bits;%(rest)s
endmodule
"""
# The bytes of a result that its parent reads.
RESULT_BYTES = """
module canonical_opennpu_cvt (input logic [2:0] source, input logic [2:0] target, input logic saturate, input logic [1:0] mode,
                              input logic e5m2, input logic [31:0] a, output logic [31:0] y);
    logic [31:0] bits;
    opennpu_cvt inner (.source(source), .target(target), .saturate(saturate), .mode(mode), .e5m2(e5m2), .a(a), .y(bits));
    assign y = target == S8 || target == BF8 ? {24'd0, bits[7:0]} : target == S16 || target == BF16 ? {16'd0, bits[15:0]} : bits;
endmodule
"""
CANONICAL_PORTS = {"pccx_f32_scale": ", .divide(divide), .y_bf16(y_bf16)", "pccx_f32_add": ""}
CANONICAL_REST = {"pccx_f32_scale": "", "pccx_f32_add": "\n    assign y_bf16 = 16'd0;"}
# What a design is seeded with, to reduce a mismatch.
STATE = {"pccx": ("l2", "host", "fmap_shape", "weight_shape", "e_max"), "opennpu": ("vx", "mem", "lut_a", "lut_b", "acc", "column")}
STATEFUL = re.compile("_(core|gemv)$")  # too large to prove anything about
# Modules with a state: an assignment of theirs is proved to have the same value in any state that these invariants allow. L2
# has 1024 words: with the checks before the module a vector has at most 8192 elements, and its words are numbered below 1024.
INVARIANTS = {"pccx_sfu": "word[21:6] - 16'd1 < 16'd8192 && position < 14'd1024"}
# The table of a module, and what is read from it, which is anything in a proof.
TABLE = (r"\n *logic \[47:0\] table_rows[^;]*;\n *initial \$readmemh[^;]*;", ""), (r"table_rows\[\{func, x_flushed\}\]", "any_row")
# A module alone does not show what its parents never pass to it: these contain it.
PARENTS = {"pccx": {"fp_round": ("pccx_post", "pccx_f32_scale"), "fp_sum": ("pccx_f32_add",), "f32_unpack": ("pccx_f32_add", "pccx_f32_scale")},
           "opennpu": {"fp_round": ("opennpu_fp", "opennpu_cvt"), "fp_sum": ("opennpu_fp",)}}


def read_modules(root, design):
    rtl = os.path.join(root, "examples", "rtl")
    paths = sorted(glob.glob(os.path.join(rtl, "common", "*.sv")) + glob.glob(os.path.join(rtl, design, "*.sv")))
    package = [p for p in paths if p.endswith("_pkg.sv")][0]
    names = set()
    modules = [mutation.Module(p) for p in paths if p != package]
    for module in modules:
        names.update(re.findall(r"^ +(\w+) (?:#\(|\w+ \()", module.text, re.M))
    return package, [m for m in modules if m.name in names or m.name == design + "_core"]


def sample(rng, found, count):
    """`count` of the mutants, every pair of a module and an operator in turn; those of back-to-back last."""
    groups = collections.defaultdict(list)
    for mutant in found:
        groups[mutant.module, mutant.operator].append(mutant)
    for group in groups.values():
        rng.shuffle(group)
    chosen = []
    while len(chosen) < count and any(groups.values()):
        keys = [k for k in sorted(groups) if groups[k]]
        rng.shuffle(keys)
        chosen += [groups[k].pop() for k in keys[:count - len(chosen)]]
    return sorted(chosen, key=lambda m: m.operator == "back-to-back")


def write_sources(folder, package, modules, design, chosen):
    names = [m.name for m in modules]
    first = next((i for i, m in enumerate(chosen, 1) if m.operator == "back-to-back"), len(chosen) + 1)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    paths = [package]
    for module in modules:
        own = [(i, m) for i, m in enumerate(chosen, 1) if m.module == module.name]
        text = mutation.mutated_text(module, own, names, lambda n: "mutant == %d" % n, design + "_core", first)
        paths.append(os.path.join(folder, module.name + ".sv"))
        with open(paths[-1], "w", encoding="utf-8") as file:
            file.write(text)
    return paths


def compile_mutants(root, build, design, paths, folder):
    here = os.path.dirname(os.path.abspath(__file__))
    libraries = [os.path.join(build, "examples/rtl/liblockstep.a"), os.path.join(build, "src/libtrivet.so")]
    state = os.path.join(folder, "state.vlt")
    with open(state, "w", encoding="utf-8") as file:
        file.write("`verilator_config\n" + "".join('public_flat_rw -module "%s_core" -var "%s"\n' % (design, name) for name in STATE[design]))
    flags = "-I%s/examples/rtl/bench -DTARGET='\"%s\"' %s" % (root, design, " ".join(FLAGS[design]))
    command = ["verilator", "--cc", "--exe", "-O3", "--x-initial", "unique", "-Wno-fatal", "-Wno-lint", "-Wno-style", "-Wno-MULTIDRIVEN",
               "-Wno-UNOPTFLAT", "--output-split", "20000", "--top-module", design + "_core", "--prefix", "design", "--Mdir", folder, "-o",
               "mutants", state, *paths, os.path.join(here, "mutants.cpp"), *libraries, "-CFLAGS", flags, "-LDFLAGS", "-Wl,-rpath,%s/src" % build]
    subprocess.run(command, check=True, stdout=subprocess.PIPE)
    make = ["make", "-s", "-j2", "-C", folder, "-f", "design.mk", "OPT_FAST=-O1", "OPT_SLOW=-O0", "OPT_GLOBAL=-O1"]
    if shutil.which("ccache"):
        make.append("OBJCACHE=ccache")
    subprocess.run(make, check=True, stdout=subprocess.PIPE)
    table = os.path.join(folder, "sfu_table.memh")
    if not os.path.exists(table):
        os.symlink(os.path.join(build, "examples/rtl/sfu_table.memh"), table)


def run_mutants(folder, numbers, options, seed):
    """{number: (instructions until the mismatch or None, what was reported, instructions of the reduced one)}, two processes."""
    half = (len(numbers) + 1) // 2
    processes = []
    for part in (numbers[:half], numbers[half:]):
        if part:
            processes.append(subprocess.Popen(
                ["./mutants", str(options.instructions), str(options.seconds), str(seed), str(part[0]), str(part[-1]),
                 *(["reduce"] if options.reduced else [])], cwd=folder,
                stdout=subprocess.PIPE, text=True))
    results = {}
    for process in processes:
        for line in process.communicate()[0].splitlines():
            m = re.match(r"(\d+) REDUCED (\d+) (.*)", line)
            if m:
                results[int(m[1])] = (*results[int(m[1])][:2], int(m[2]), m[3])
                continue
            m = re.match(r"(\d+) (.*)", line)
            if m:
                at = re.match(r"MISMATCH: instruction (\d+)", m[2])
                results[int(m[1])] = (int(at[1]) if at else None, m[2])
    return results


def constants_of(package):
    """The values of a package, which yosys cannot import."""
    with open(package, encoding="utf-8") as file:
        return dict(re.findall(r"localparam logic (?:\[.*?\] )?(\w+) = ([^;]*);", file.read()))


def without_package(text, package):
    for name, value in constants_of(package).items():
        text = re.sub(r"\b%s\b" % name, value, text)
    return re.sub(r"import \w+::\*;", "", text)


def below(names, modules):
    """These modules and those that they contain."""
    known = {m.name: m for m in modules}
    found = list(names)
    for name in found:
        found += [n for n in re.findall(r"^ +(\w+) (?:#\(|\w+ \()", known[name].text, re.M) if n in known and n not in found]
    return found


def prove(package, modules, mutant, top, folder, seconds):
    """Whether yosys proves that `top`, the mutant's module or one that contains it, is the same with the mutant."""
    texts, assumed = {"gold": "", "gate": ""}, ""
    names = below([top], modules)
    for module in modules:
        if module.name not in names:
            continue
        changed = [(1, mutant)] if module.name == mutant.module else []
        if changed and " clk" not in module.text:
            changed = [(1, mutant._replace(condition=""))]
            assumed = mutation.where_different(module, mutant)
        if changed and module.name in ASSUMPTIONS:
            assumed += "always @* assume (%s);" % ASSUMPTIONS[module.name]
        texts["gold"] += module.text
        texts["gate"] += mutation.mutated_text(module, changed, names, lambda n: "1'b1", None, 0, assumed if changed else "")
    if top in CANONICAL_PORTS:
        for side in texts:
            texts[side] += CANONICAL % {"top": top, "more": CANONICAL_PORTS[top], "rest": CANONICAL_REST[top]}
    if top == "opennpu_cvt":
        for side in texts:
            texts[side] += RESULT_BYTES
    if top in CANONICAL_PORTS or top == "opennpu_cvt":
        top = "canonical_" + top
        names = [*names, top]
    script = ""
    for side, text in texts.items():
        text = without_package(text, package)
        for name in names:
            text = re.sub(r"\b%s\b(?=[ ;])" % name, side + "_" + name, text)
        with open(os.path.join(folder, side + ".sv"), "w", encoding="utf-8") as file:
            file.write(text)
        script += "read_verilog -sv %s/%s.sv; prep -flatten -top %s_%s; memory_map; opt; design -stash %s;" % (
            folder, side, side, top, side)
    for side in texts:
        script += "design -copy-from %s -as %s %s_%s;" % (side, side, side, top)
    script += ("miter -equiv -flatten -make_outputs gold gate miter; hierarchy -top miter; async2sync; opt;"
               "sat -tempinduct -maxsteps 6 -set-init-undef -set-def-inputs -set-assumes -verify -prove trigger 0 miter")
    return run_yosys(script, seconds)


def run_yosys(script, seconds):
    try:
        p = subprocess.run(["yosys", "-q", "-p", script.replace(";", "\n")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds, check=False)
        return p.returncode == 0
    except subprocess.TimeoutExpired:
        return False


def prove_value(package, modules, mutant, folder, seconds):
    """Whether yosys proves that an assignment in a module with a state has the same value with the mutant."""
    module = next(m for m in modules if m.name == mutant.module)
    unchanged = mutation.where_different(module, mutant)
    if "unchanged" not in unchanged or mutant.late or mutant.operator == "back-to-back":
        return False
    claim = unchanged.replace("assume (unchanged != ", "assert (unchanged == ")
    names = below([module.name], modules)
    text = mutation.mutated_text(module, [(1, mutant._replace(condition=""))], names, lambda n: "1'b1", None, 0, "")
    for pattern, replacement in TABLE:
        text = re.sub(pattern, lambda _, r=replacement: r, text)
    text = text.replace("endmodule", "(* anyseq *) logic [47:0] any_row; always @* assume (%s); %s\nendmodule" % (INVARIANTS[module.name], claim))
    with open(os.path.join(folder, "value.sv"), "w", encoding="utf-8") as file:
        file.write(without_package(text + "".join(m.text for m in modules if m.name in names and m is not module), package))
    return run_yosys("read_verilog -formal -sv %s/value.sv; prep -flatten -top %s; opt; async2sync;"
                     "sat -tempinduct -maxsteps 2 -set-init-undef -set-def-inputs -set-assumes -verify -prove-asserts" % (folder, module.name), seconds)


def is_equivalent(package, modules, design, mutant, seconds):
    tops = PARENTS[design].get(mutant.module, (mutant.module,))
    with tempfile.TemporaryDirectory(prefix="trivet-proof-") as folder:
        if mutant.module in INVARIANTS:
            return prove_value(package, modules, mutant, folder, seconds)
        return not STATEFUL.search(mutant.module) and all(prove(package, modules, mutant, top, folder, seconds) for top in tops)


def check_design(suite, options, design):
    root, build = os.path.abspath(options.root), os.path.abspath(options.build)
    folder = os.path.join(build, "rtl", "mutants-" + design)
    package, modules = read_modules(root, design)
    found = [m for module in modules for m in mutation.mutants_of(module)]
    chosen = found if options.all else sample(random.Random("%s %d" % (design, options.seed)), found, options.count)
    chosen = sorted(chosen, key=lambda m: m.operator == "back-to-back")
    start = time.monotonic()
    paths = write_sources(os.path.join(folder, "src"), package, modules, design, chosen)
    compile_mutants(root, build, design, paths, folder)
    built = time.monotonic() - start
    results = run_mutants(folder, list(range(len(chosen) + 1)), options, options.seed)
    suite.expect(design + ": no alarm on the design itself", results[0][1].startswith("PASS"), results[0][1])
    survivors = [n for n in range(1, len(chosen) + 1) if results[n][0] is None]
    lengths = sorted(results[n][0] for n in results if results[n][0] is not None)
    equal, missed = [], []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        proofs = list(pool.map(lambda n: is_equivalent(package, modules, design, chosen[n - 1], options.proof), survivors))
    for n, proved in zip(survivors, proofs):
        mutant = chosen[n - 1]
        (equal if proved else missed).append(n)
        if options.verbose or not proved:
            line = next(m for m in modules if m.name == mutant.module).text.count("\n", 0, mutant.start) + 1
            print("%s: %s:%d %s, %s: %s (%s)" % ("equivalent" if proved else "missed", mutant.module, line, mutant.operator, mutant.detail,
                                                mutant.text, results[n][1]), flush=True)
    short = [n for n in results if results[n][0] is not None and len(results[n]) > 2 and 1 <= results[n][2] <= 3]
    for n in results:
        if options.reduced and results[n][0] is not None and n not in short:
            print("not reduced: %s, %s: %s (%s)" % (*chosen[n - 1][:3], results[n][1]), flush=True)
    real = len(chosen) - len(equal)
    print("%s: %d of %d mutants, %d modules, %d operators, seed %d: %d found, %d equivalent, %d missed; half of them within %d "
          "instructions, 99 %% within %d; built in %.0f s, run in %.0f s" % (
              design, len(chosen), len(found), len({m.module for m in chosen}), len({m.operator for m in chosen}), options.seed,
              len(lengths), len(equal), len(missed), lengths[len(lengths) // 2], lengths[len(lengths) * 99 // 100], built,
              time.monotonic() - start - built), flush=True)
    if options.reduced:
        print("%s: %d of %d mismatches reduced to three instructions or fewer" % (design, len(short), len(lengths)), flush=True)
    return real, len(missed), len(short), len(lengths)


def check_products(suite, options):
    """Each mutant of the multiplier shows in a tenth of the products, but those of a corner or proved equivalent."""
    root, build = os.path.abspath(options.root), os.path.abspath(options.build)
    folder = os.path.join(build, "rtl", "mutants-products")
    package, modules = read_modules(root, "pccx")
    chosen = [m for module in modules if module.name == "pccx_dual_mac" for m in mutation.mutants_of(module)
              if m.operator not in ("corner-only", "back-to-back")]
    compile_mutants(root, build, "pccx", write_sources(os.path.join(folder, "src"), package, modules, "pccx", chosen), folder)
    output = subprocess.run(["./mutants", "2000", str(options.seconds), str(options.seed), "1", str(len(chosen)), "products"], cwd=folder,
                            stdout=subprocess.PIPE, text=True, check=True).stdout
    shares = []
    for number, found, products in re.findall(r"^(\d+) PRODUCTS (\d+) (\d+)$", output, re.M):
        mutant, share = chosen[int(number) - 1], int(found) / max(1, int(products))
        equal = share < 0.1 and is_equivalent(package, modules, "pccx", mutant, options.proof)
        if not equal:
            shares.append(share)
        if options.verbose or (share < 0.1 and not equal):
            print("%s in %.2f of the products: %s, %s: %s" % ("equivalent," if equal else "shows", share, *mutant[1:3], mutant.text), flush=True)
    good = sum(share >= 0.1 for share in shares)
    print("%d of %d mutants of the multiplier show in a tenth of the products or more" % (good, len(shares)), flush=True)
    suite.expect("all show in a tenth of the products", good == len(shares) > 0, "%d of %d" % (good, len(shares)))
    return suite.finish()


def main():
    options = suites.parse_arguments(__doc__, "root", "build", extra=(
        ("--count", 100), ("--seed", 1), ("--instructions", 100000), ("--seconds", 60), ("--proof", 60), ("--goal", 99), ("--reduced", 0), ("--all", False), ("--products", False), ("--verbose", False)))
    for tool in ("verilator", "yosys"):
        if not shutil.which(tool):
            print("skipped: %s is not installed" % tool)
            return SKIPPED
    suite = suites.Suite(options=options)
    if options.products:
        return check_products(suite, options)
    totals = [check_design(suite, options, design) for design in FLAGS if options.word in design]
    suite.expect("a design is chosen", totals, options.word)
    real, missed = sum(t[0] for t in totals), sum(t[1] for t in totals)
    suite.expect("at least %d %% are found" % options.goal, 100 * missed <= (100 - options.goal) * real, "%d of %d missed" % (missed, real))
    if options.reduced:
        short, found = sum(t[2] for t in totals), sum(t[3] for t in totals)
        suite.expect("at least %d %% are reduced" % options.reduced, 100 * short >= options.reduced * found, "%d of %d" % (short, found))
    return suite.finish()


if __name__ == "__main__":
    sys.exit(main())
