# SPDX-License-Identifier: Apache-2.0
"""Mutants of SystemVerilog sources: every statement of a module and every operator that applies to it.

A Mutant replaces one assignment. `build` writes sources in which the input `mutant` of the top module selects one of the
given mutants; 0 is the unchanged design. The sources follow the style of examples/rtl: one statement a line or on several
lines up to the semicolon, declarations of the form `logic [signed] [hi:lo] names;`.
"""

import collections
import re

Mutant = collections.namedtuple("Mutant", "module operator detail start end text condition late")
OPERATORS = ("stuck", "swapped", "off-by-one", "width", "polarity", "lost-write", "extra-write", "misplaced-write", "corner-only",
             "back-to-back", "late", "hang")
STATEMENT = re.compile(r"^(?P<indent> +)(?P<label>(?:[\w']+(?:, \w+)*): +)?(?P<assign>assign )?"
                       r"(?P<left>(?!for\b|if\b|logic\b|localparam\b|input\b|output\b|parameter\b|initial\b|import\b)\w+(?:\[[^;=]*?\])*) "
                       r"(?P<op><?=) (?P<right>[^;]*);", re.M)
CONDITION = re.compile(r"^(?P<indent> +)if \(", re.M)
DECLARATION = re.compile(r"^ +(?:(?:input|output) +)?logic +(signed +)?(\[[^\]]*\])? *([\w, ]+?) *[;,]?(?: *//.*)?$", re.M)
PROPOSED = ("logic", "signed")


def closing(text, at):
    """The index after the parenthesis that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    raise ValueError("no closing parenthesis")


class Module:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        self.name = re.search(r"^module (\w+)", self.text, re.M)[1]
        header = re.search(r"^module \w+ (#\()?", self.text, re.M)
        at = closing(self.text, header.end() - 1) if header[1] else header.end()
        self.ports = self.text.index("(", at) + 1
        self.body = self.text.index(");", self.ports)
        self.types = {}
        for m in DECLARATION.finditer(self.text):
            for name in m[3].split(","):
                self.types[name.strip()] = (m[1] or "", m[2] or "")
        initial = re.search(r"^    initial begin.*?^    end\n", self.text, re.M | re.S)
        self.skip = initial.span() if initial else (0, 0)

    def width(self, left):
        """The bits of an assigned variable as text, "1", or None: a part, or an array."""
        if "[" in left or left not in self.types:
            return None
        bits = self.types[left][1]
        return "(%s)" % bits[1:-1].replace(":", ") - (") + " + 1" if bits else "1"

    def statements(self):
        fixed = [m.span() for m in re.finditer(r"^ +localparam [^;]*;", self.text, re.M)]
        for m in STATEMENT.finditer(self.text, self.body):
            if not any(start <= m.start() < end for start, end in fixed + [self.skip]):
                yield m

    def conditions(self):
        for m in CONDITION.finditer(self.text, self.body):
            if not self.skip[0] <= m.start() < self.skip[1]:
                end = closing(self.text, m.end() - 1)
                yield m.end(), end - 1


def swaps(right):
    """Texts in which one operator or the branches of the choice are exchanged."""
    for old, new in ((" + ", " - "), (" - ", " + "), (" && ", " || "), (" || ", " && "), (" >> ", " << "), (" << ", " >> "),
                     (" > ", " < "), (" < ", " > "), (" & ", " | "), (" | ", " & "), (" ^ ", " & "), (" * ", " + ")):
        for m in re.finditer(re.escape(old), right):
            yield right[:m.start()] + new + right[m.end():]
    m = re.fullmatch(r"([^?]*) \? ([^?:]*) : ([^?]*)", right)
    if m and all(part.count(a) == part.count(b) for part in m.groups() for a, b in ("()", "{}", "[]")):
        yield "%s ? %s : %s" % (m[1], m[3], m[2])
    m = re.fullmatch(r"(\w+) (-|/|>|>=|<) (\w+)", right)
    if m:
        yield "%s %s %s" % (m[3], m[2], m[1])


def constants(right):
    """Texts in which one constant is larger by one, or a range of bits is moved by one."""
    for m in re.finditer(r"\b(\d+)'(s?[dh])([0-9A-Fa-f]+)\b", right):
        base = 16 if "h" in m[2] else 10
        value = (int(m[3], base) + 1) % (1 << int(m[1]))
        yield right[:m.start(3)] + ("%X" if base == 16 else "%d") % value + right[m.end():]
    for m in re.finditer(r"\[(\d+):(\d+)\]", right):
        if int(m[2]) > 0:
            yield right[:m.start()] + "[%d:%d]" % (int(m[1]) - 1, int(m[2]) - 1) + right[m.end():]
    for old, new in ((" >= ", " > "), (" <= ", " < "), (" > ", " >= "), (" < ", " <= ")):
        for m in re.finditer(re.escape(old), right):
            yield right[:m.start()] + new + right[m.end():]


def narrowed(right):
    """Texts in which a range of bits has lost its top bit, or is without the sign."""
    for m in re.finditer(r"\b(\w+)\[(\d+):(\d+)\]", right):
        if int(m[2]) > int(m[3]):
            yield right[:m.start()] + "{1'b0, %s[%d:%s]}" % (m[1], int(m[2]) - 1, m[3]) + right[m.end():]
    for m in re.finditer(r"\$signed\((\w+)\)", right):
        yield right[:m.start()] + "$unsigned(%s)" % m[1] + right[m.end():]


def data_signals(module, text):
    """Wide variables that the statement reads: their extreme values are the corners."""
    names = []
    for name in re.findall(r"\b[a-z]\w*\b", text):
        bits = module.types.get(name, ("", ""))[1]
        m = re.fullmatch(r"\[(\d+):0\]", bits)
        if m and int(m[1]) >= 7 and name not in names:
            names.append(name)
    return names[:1]


def other_index(left):
    """The assigned element, or part, with a neighbour's index."""
    start, depth = left.index("["), 0
    for i in range(start, len(left)):
        depth += {"[": 1, "]": -1}.get(left[i], 0)
        if depth == 0:
            break
    inner, colon, bits = left[start + 1:i].partition(" +: ")
    return "%s[(%s) ^ %s%s%s]%s" % (left[:start], inner, bits or "1", colon, bits, left[i + 1:])


def statement_mutants(module, m):
    left, op, right = m["left"], m["op"], re.sub(r"\s*//[^\n]*|\s+", " ", m["right"]).strip()
    base, width = left.split("[")[0], module.width(left)
    one_bit = width == "1"

    if base in ("write_addr", "write_data") and re.fullmatch(r"\d+'d0", right):
        return  # defaults, which every write replaces

    def make(operator, detail, text, condition="", late=None):
        return Mutant(module.name, operator, detail, m.start(), m.end(), text, condition, late)

    def assign(value, target=left):
        return "%s %s %s;" % (target, op, value)

    if base == "write_valid":
        yield make("lost-write", "never", assign("1'b0"))
        yield make("extra-write", "always", assign("1'b1"))
    elif base in ("done", "retire_valid"):
        yield make("hang", "%s never" % base, assign("1'b0"))
    elif base == "state" and op == "<=":
        yield make("hang", "no transition", ";")
        yield make("off-by-one", "next state", assign("(%s) + 1'b1" % right))
    elif base == "write_addr" or (op == "<=" and "[" in left):
        if base == "write_addr":
            yield make("misplaced-write", "address", assign("(%s) ^ 1'b1" % right))
        else:
            yield make("misplaced-write", "index", assign(right, other_index(left)))
            yield make("lost-write", "dropped", ";")
    elif op == "<=":
        yield make("lost-write", "dropped", ";")
    if base == "write_mask":
        yield make("extra-write", "mask", assign("16'hFFFF"))
        yield make("lost-write", "mask", assign("(%s) & 16'hFFFE" % right))
    for value in ("'0", "'1"):
        if re.fullmatch(r"(\d+)'[dbh]%s|'%s" % ((("0+", "0") if value == "'0" else ("(?!)", "1"))), right):
            continue
        if base not in ("write_valid", "state"):
            yield make("stuck", value, assign(value))
    if one_bit:
        yield make("polarity", "inverted", assign("!(%s)" % right))
    elif base != "state":
        yield make("polarity", "all bits", assign("~(%s)" % right))
        yield make("off-by-one", "result", assign("(%s) + 1'b1" % right))
    for text in swaps(right):
        yield make("swapped", "operator", assign(text))
    for text in constants(right):
        yield make("off-by-one", "constant", assign(text))
    for text in narrowed(right):
        yield make("width", "range", assign(text))
    if width and not one_bit and base != "state" and not re.fullmatch(r"\w+'\w+|'0|0", right):
        yield make("width", "top bit", assign("((%s) & ({(%s){1'b1}} >> 1))" % (right, width)))
    wrong = assign("!(%s)" % right if one_bit else "(%s) ^ 1'b1" % right)
    if base != "state":
        for name in data_signals(module, right):
            for corner in ("'1", "'0") if int(module.types[name][1][1:-1].split(":")[0]) < 16 else ("'0",):
                yield make("corner-only", "%s is %s" % (name, corner), wrong, "%s == %s" % (name, corner))
        yield make("back-to-back", "lowest bit", wrong)
        if op == "<=" and width and not re.fullmatch(r"\w+'\w+|'[01]", right):
            yield make("late", "one execution", "%s <= late_%%d;" % left, late=right)


def condition_mutants(module, start, end):
    text = re.sub(r"\s+", " ", module.text[start:end])

    def make(operator, detail, new):
        return Mutant(module.name, operator, detail, start, end, new, None, None)

    yield make("polarity", "condition", "!(%s)" % text)
    yield make("stuck", "condition", "1'b0")
    for new in swaps(text):
        yield make("swapped", "condition", new)
    for new in constants(text):
        yield make("off-by-one", "condition", new)


def mutants_of(module):
    for m in module.statements():
        unchanged = "%s %s %s;" % (m["left"], m["op"], re.sub(r"\s*//[^\n]*|\s+", " ", m["right"]).strip())
        yield from (x for x in statement_mutants(module, m) if x.text.replace("128'd0", "'0") != unchanged.replace("128'd0", "'0"))
    for start, end in module.conditions():
        yield from condition_mutants(module, start, end)


def connect_instances(text, names):
    """Passes `mutant` to every instance of the modules `names`."""
    pattern = re.compile(r"^ +(?:%s) (#\()?" % "|".join(names), re.M)
    at = 0
    while True:
        m = pattern.search(text, at)
        if not m:
            return text
        after = closing(text, m.end() - 1) if m[1] else m.end()
        at = text.index("(", after) + 1
        text = text[:at] + ".mutant(mutant), " + text[at:]


def statement_text(module, m, chosen, selects):
    """A statement with its mutants: [(number, Mutant)]."""
    assignment = "%s %s %s;" % (m["left"], m["op"], m["right"])
    lines, declarations = [], ""
    for number, mutant in chosen:
        condition = selects(number) + (" && (%s)" % mutant.condition if mutant.condition else "")
        lines.append("if (%s) begin %s end else" % (condition, mutant.text % number if mutant.late else mutant.text))
        if mutant.late:
            signed, bits = module.types[m["left"]]
            declarations += "logic %s%s late_%d; " % (signed, bits, number)
            assignment += " late_%d <= %s;" % (number, m["right"])
    body = "begin %s begin %s end end" % (" ".join(lines), assignment)
    if m["assign"]:
        body = "always @* " + body
    return "%s%s%s" % (m["indent"], m["label"] or "", body), declarations


def where_different(module, mutant):
    """An assumption for a proof about a module without state: that the mutant gives its variable another value."""
    text = "always @* assume (%s); " % mutant.condition if mutant.condition else ""
    m = next((m for m in module.statements() if m.span() == (mutant.start, mutant.end)), None)
    if m and m["assign"] and module.width(m["left"]):
        text += "logic %s%s unchanged; always @* unchanged = %s; always @* assume (unchanged != %s);" % (
            *module.types[m["left"]], m["right"], m["left"])
    return text


def mutated_text(module, chosen, names, selects, top, back_to_back, more=""):
    """The module with the mutants `chosen` of it, [(number, Mutant)]; without a selecting input if `top` is None."""
    edits, declarations = [], more
    groups = collections.defaultdict(list)
    for number, mutant in chosen:
        groups[mutant.start, mutant.end].append((number, mutant))
    statements = {m.span(): m for m in module.statements()}
    for span, group in groups.items():
        if span in statements:
            text, needed = statement_text(module, statements[span], group, selects)
            declarations += needed
        else:
            text = module.text[slice(*span)]
            for number, mutant in group:
                text = "(%s ? (%s) : (%s))" % (selects(number), mutant.text, text)
        edits.append((span, text))
    if top is not None:
        port = "mutant_input" if module.name == top else "mutant"
        edits.append(((module.ports, module.ports), "\n    input logic [15:0] %s," % port))
        if module.name == top:  # a mutant of the last numbers acts on an instruction that directly follows another one
            declarations += ("logic [15:0] mutant; logic follows, ended; assign mutant = mutant_input >= %d && !follows ? 0 : mutant_input;"
                             "always @(posedge clk) begin ended <= retire_valid; if (instr_valid) follows <= ended; end") % back_to_back
    edits.append(((module.body + 2, module.body + 2), "\n    " + declarations))
    text = module.text
    for (start, end), new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    if top is not None:
        text = connect_instances(text, names)
    return text
