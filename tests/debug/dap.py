#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drives `trivet debug --dap` over pipes as an editor does, on the three machines; then sends invalid input.

    dap.py TRIVET"""
import base64
import json
import os
import select
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from suite import ROOT, Suite, parse_arguments  # noqa: E402

WAIT = 200


class Client:
    def __init__(self, trivet):
        self.process = subprocess.Popen([trivet, "debug", "--dap"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.seq, self.events, self.buffer = 0, [], b""

    def send(self, command, **arguments):
        self.seq += 1
        self.raw(json.dumps({"seq": self.seq, "type": "request", "command": command, "arguments": arguments}).encode())
        return self.seq

    def raw(self, body):
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def receive(self):
        end = time.time() + WAIT
        while True:
            head, mark, rest = self.buffer.partition(b"\r\n\r\n")
            if mark:
                size = int(head.split(b":")[1])
                if len(rest) >= size:
                    self.buffer = rest[size:]
                    return json.loads(rest[:size])
            if not select.select([self.process.stdout], [], [], max(0, end - time.time()))[0]:
                raise AssertionError("no response")
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise AssertionError("the process ended: " + self.process.stderr.read().decode())
            self.buffer += data

    def answer(self, seq):
        while True:
            message = self.receive()
            if message["type"] == "event":
                self.events.append(message)
            elif message["request_seq"] == seq:
                return message

    def ask(self, command, **arguments):
        message = self.answer(self.send(command, **arguments))
        assert message["success"], "%s: %s" % (command, message)
        return message.get("body", {})

    def rejected(self, command, **arguments):
        message = self.answer(self.send(command, **arguments))
        assert not message["success"], "%s is not rejected" % command
        return message["message"]

    def event(self, name):
        while True:
            for i, event in enumerate(self.events):
                if event["event"] == name:
                    return self.events.pop(i).get("body", {})
            message = self.receive()
            assert message["type"] == "event", message
            self.events.append(message)

    def begin(self, program, **arguments):
        assert self.ask("initialize", adapterID="trivet", linesStartAt1=True)["supportsStepBack"]
        self.ask("launch", program=program, **arguments)
        self.event("initialized")

    def frame(self):
        frames = self.ask("stackTrace", threadId=1)["stackFrames"]
        assert len(frames) == 1
        return frames[0]

    def index(self):
        return int(self.frame()["instructionPointerReference"], 16)

    def scope(self, name):
        return [s for s in self.ask("scopes", frameId=1)["scopes"] if s["name"] == name][0]

    def variables(self, reference, **arguments):
        return self.ask("variables", variablesReference=reference, **arguments)["variables"]

    def end(self):
        self.ask("disconnect")
        self.process.stdin.close()
        assert self.process.wait(WAIT) == 0, self.process.stderr.read()


def line_of(path, text):
    with open(path) as f:
        return [i for i, line in enumerate(f, 1) if text in line][0]


def session(trivet, program, launch, line, mnemonic, space, addr, reads_at):
    """Breakpoint by line, steps both ways, variables, memory, disassembly; `addr` of `space` holds data from the start."""
    c = Client(trivet)
    c.begin(program, stopOnEntry=True, **launch)
    found = c.ask("setBreakpoints", source={"path": program}, breakpoints=[{"line": line}, {"line": 100000}])["breakpoints"]
    assert found[0]["verified"] and found[0]["line"] == line and not found[1]["verified"], found
    assert not c.ask("setBreakpoints", source={"path": "/nowhere.s"}, breakpoints=[{"line": 1}])["breakpoints"][0]["verified"]
    c.ask("setExceptionBreakpoints", filters=[])
    c.ask("configurationDone")
    assert c.event("stopped")["reason"] == "entry"
    assert c.index() == 0
    assert c.ask("threads")["threads"][0]["id"] == 1

    c.ask("continue", threadId=1)
    stop = c.event("stopped")
    assert stop["reason"] == "breakpoint" and stop["hitBreakpointIds"] == [found[0]["id"]], stop
    frame = c.frame()
    assert frame["line"] == line and os.path.samefile(frame["source"]["path"], program), frame
    at = c.index()
    text = c.ask("disassemble", memoryReference=hex(at), instructionOffset=-1, instructionCount=3)["instructions"]
    assert [int(i["address"], 16) for i in text] == [at - 1, at, at + 1] and text[1]["instruction"].startswith(mnemonic), text
    assert text[1]["line"] == line
    assert c.ask("disassemble", memoryReference="0x0", instructionOffset=-5, instructionCount=5)["instructions"][0]["presentationHint"] == "invalid"

    before = c.ask("evaluate", expression="info engines", context="repl")["result"]
    c.ask("next", threadId=1, granularity="instruction")
    assert c.event("stopped")["reason"] == "step" and c.index() == at + 1
    c.ask("stepBack", threadId=1, granularity="instruction")
    assert c.event("stopped")["reason"] == "step" and c.index() == at
    assert c.ask("evaluate", expression="info engines", context="repl")["result"] == before
    c.ask("next", threadId=1)
    c.event("stopped")
    c.ask("stepBack", threadId=1)
    c.event("stopped")
    assert c.frame()["line"] == line

    names = [s["name"] for s in c.ask("scopes", frameId=1)["scopes"]]
    assert "Registers" in names and "Engines" in names and space in names, names
    assert c.variables(c.scope("Registers")["variablesReference"])
    engines = c.variables(c.scope("Engines")["variablesReference"])
    assert engines[0]["name"] == "cycles" and int(engines[0]["value"]) > 0
    units = c.variables(c.scope(space)["variablesReference"], start=addr, count=3, filter="indexed")
    assert [u["name"] for u in units] == ["[%d]" % (addr + i) for i in range(3)], units
    lanes = c.variables(units[0]["variablesReference"], start=0, count=2) if units[0]["variablesReference"] else units[:1]
    assert lanes[0]["value"] == units[0]["value"].split()[0]

    memory = c.ask("readMemory", memoryReference="%s:%s" % (space, reads_at), offset=1, count=5)
    data = base64.b64decode(memory["data"])
    assert len(data) == 5 and any(data)
    wanted = bytes([1, 2, 3, 4, 5])
    assert c.ask("writeMemory", memoryReference="%s:%s" % (space, reads_at), offset=1, data=base64.b64encode(wanted).decode())["bytesWritten"] == 5
    assert base64.b64decode(c.ask("readMemory", memoryReference="%s:%s" % (space, reads_at), offset=1, count=5)["data"]) == wanted
    c.ask("stepBack", threadId=1, granularity="instruction")  # before the write
    c.event("stopped")
    back = base64.b64decode(c.ask("readMemory", memoryReference="%s:%s" % (space, reads_at), offset=1, count=5)["data"])
    assert back != wanted

    c.rejected("stepOut", threadId=1)
    c.rejected("variables", variablesReference=123456)
    assert "did you mean 'step'" in c.rejected("evaluate", expression="stpe", context="repl")
    targets = c.ask("completions", text="disa", column=5)["targets"]
    assert {t["label"] for t in targets} == {"disable", "disas"}, targets

    c.ask("setBreakpoints", source={"path": program}, breakpoints=[])
    c.ask("setInstructionBreakpoints", breakpoints=[{"instructionReference": hex(at), "offset": 1}])
    c.ask("continue", threadId=1)
    assert c.event("stopped")["reason"] == "breakpoint" and c.index() == at + 1
    c.ask("setInstructionBreakpoints", breakpoints=[])
    c.ask("setFunctionBreakpoints", breakpoints=[{"name": "opcode " + mnemonic}, {"name": "nowhere"}])
    c.ask("reverseContinue", threadId=1)
    assert c.event("stopped")["reason"] == "breakpoint" and c.index() <= at
    c.ask("setFunctionBreakpoints", breakpoints=[])
    c.ask("continue", threadId=1)
    assert "ended" in c.event("stopped")["description"]
    end = c.frame()
    assert end["name"] == "end of the program"
    c.ask("restart")
    c.event("stopped")
    assert c.index() == 0
    c.ask("continue", threadId=1)
    c.event("stopped")
    c.ask("continue", threadId=1)
    assert c.event("exited")["exitCode"] == 0
    c.event("terminated")
    c.end()


def machines(trivet):
    pccx = os.path.join(ROOT, "examples", "pccx", "softmax.s")
    session(trivet, pccx, {}, line_of(pccx, "gemv    l2[Z]"), "gemv", "l2", 0, "0")
    opennpu = os.path.join(ROOT, "examples", "opennpu", "relu.s")
    session(trivet, opennpu, {"config": "test"}, line_of(opennpu, "vmax"), "vmax", "mem", 0, "0")
    cmdq = os.path.join(ROOT, "examples", "cmdq", "prefetch.json")
    session(trivet, cmdq, {}, line_of(cmdq, '"id": 3'), "TE_GEMM_TILE", "dram", 4096, "4096")


def data_breakpoints(trivet):
    c = Client(trivet)
    c.begin(os.path.join(ROOT, "examples", "pccx", "softmax.s"), stopOnEntry=False)
    info = c.ask("dataBreakpointInfo", name="l2:8")
    assert set(info["accessTypes"]) == {"read", "write", "readWrite"}
    assert c.ask("dataBreakpointInfo", name="nowhere:8")["dataId"] is None
    answer = c.ask("setDataBreakpoints", breakpoints=[{"dataId": info["dataId"], "accessType": "write"}, {"dataId": "x", "accessType": "read"}])["breakpoints"]
    assert answer[0]["verified"] and not answer[1]["verified"]
    c.ask("configurationDone")
    assert c.event("stopped")["reason"] == "data breakpoint"
    assert c.ask("disassemble", memoryReference=c.frame()["instructionPointerReference"], instructionCount=1)["instructions"][0]["instruction"].startswith("cvo.reduce_sum")
    c.end()


def conditions(trivet):
    c = Client(trivet)
    c.begin(os.path.join(ROOT, "examples", "cmdq", "prefetch.json"))
    c.ask("setFunctionBreakpoints", breakpoints=[{"name": "opcode TE_GEMM_TILE", "condition": "dram:0x4000:s8 != 0"}])
    c.ask("configurationDone")
    c.event("stopped")
    c.ask("continue", threadId=1)
    c.event("stopped")
    assert c.index() == 6  # the first result is stored before that
    c.end()


def pausing(trivet):
    """A long run is interrupted, and its state can be read."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "long.s")
        with open(path, "w") as f:
            f.write("        .target opennpu\nhere:\n" + "mma.reset\n" * 3000000)
        c = Client(trivet)
        c.begin(path, stopOnEntry=True)
        c.ask("configurationDone")
        c.event("stopped")
        # a watchpoint is checked at each instruction, which keeps the run slow enough to be paused
        answer = c.ask("setDataBreakpoints", breakpoints=[{"dataId": "mem 0 1", "accessType": "read"}])["breakpoints"]
        assert answer[0]["verified"]
        c.send("continue", threadId=1)
        c.ask("threads")
        c.ask("pause", threadId=1)
        assert c.event("stopped")["reason"] == "pause"
        assert c.index() < 3000000
        assert c.frame()["name"].startswith("here")
        seq = c.send("evaluate", expression="continue", context="repl")  # the same for a run started by a console command
        c.event("continued")
        c.ask("pause", threadId=1)
        assert c.answer(seq)["success"]
        assert c.event("stopped")["reason"] == "pause"
        assert c.index() < 3000000
        assert "standard input" in c.rejected("evaluate", expression="source -", context="repl")
        c.end()


def faults(trivet):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "fault.s")
        with open(path, "w") as f:
            f.write("        .target pccx\n        memset fmap_shape[0], 8, 1, 1\n        .word64 0xf000000000000000\n")
        c = Client(trivet)
        c.begin(path, stopOnEntry=False)
        c.ask("configurationDone")
        stop = c.event("stopped")
        assert stop["reason"] == "exception" and "TV-P" in stop["text"], stop
        assert c.ask("exceptionInfo", threadId=1)["exceptionId"].startswith("TV-P")
        c.ask("stepBack", threadId=1)
        c.event("stopped")
        assert c.index() == 0
        c.rejected("exceptionInfo", threadId=1)
        c.end()


def without_sources(trivet):
    """Programs without readable sources are shown as generated listings, one per program."""
    with tempfile.TemporaryDirectory() as folder:
        for name, word in (("first", "1"), ("second", "2")):
            source = os.path.join(folder, "step.s")
            with open(source, "w") as f:
                f.write("        .target pccx\n        memset fmap_shape[0], 8, %s, 1\nend:    memset fmap_shape[1], 8, %s, 1\n" % (word, word))
            subprocess.run([trivet, "asm", source, "-o", os.path.join(folder, name + ".elf")], check=True, timeout=WAIT)
            os.remove(source)
        c = Client(trivet)
        c.begin(None, programs=["first.elf", "second.elf"], cwd=folder)
        c.ask("configurationDone")
        c.event("stopped")
        source = c.frame()["source"]
        assert source["name"] == "first.elf (instructions)" and "path" not in source and c.frame()["line"] == 1, source
        lines = c.ask("source", source=source, sourceReference=source["sourceReference"])["content"].splitlines()
        assert len(lines) == 2 and lines[1].split() == ["end:", "memset", "fmap_shape[1],", "8,", "1,", "1"], lines
        c.rejected("source", source={"sourceReference": 3}, sourceReference=3)
        other = {"sourceReference": 2}
        found = c.ask("setBreakpoints", source=other, breakpoints=[{"line": 2}, {"line": 3}])["breakpoints"]
        assert found[0]["verified"] and found[0]["line"] == 2 and not found[1]["verified"], found
        c.ask("continue", threadId=1)
        assert c.event("stopped")["hitBreakpointIds"] == [found[0]["id"]]
        frame = c.frame()
        assert frame["line"] == 2 and frame["source"]["sourceReference"] == 2, frame
        # an instruction reference also names its program
        text = c.ask("disassemble", memoryReference=frame["instructionPointerReference"], instructionOffset=-2, instructionCount=4)["instructions"]
        assert [t["address"] for t in text] == ["-1", hex(int(frame["instructionPointerReference"], 16) - 1), frame["instructionPointerReference"], "-1"], text
        assert text[2]["instruction"] == "memset fmap_shape[1], 8, 2, 1"
        c.ask("setBreakpoints", source=other, breakpoints=[])
        assert c.ask("setInstructionBreakpoints", breakpoints=[{"instructionReference": "0x1"}])["breakpoints"][0]["verified"]
        c.ask("reverseContinue", threadId=1)
        assert c.event("stopped")["reason"] == "breakpoint" and c.frame()["source"]["sourceReference"] == 1
        c.end()


def launches(trivet):
    """Launch arguments besides the program."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "relu.s"), "w") as f:
            f.write("        .target opennpu\n        ld.vr vr0, 0(vr7)\n")
        with open(os.path.join(folder, "data.bin"), "wb") as f:
            f.write(bytes([7, 8, 9]))
        c = Client(trivet)
        c.begin("relu.s", cwd=folder, config="test", load={"mem:4": "data.bin"})
        c.ask("configurationDone")
        c.event("stopped")
        assert base64.b64decode(c.ask("readMemory", memoryReference="mem:4", count=3)["data"]) == bytes([7, 8, 9])
        c.end()
        c = Client(trivet)
        c.ask("initialize", adapterID="trivet")
        assert "none.bin" in c.rejected("launch", program="relu.s", cwd=folder, load={"mem:4": "none.bin"})
        assert "TV-M001" in c.rejected("launch", program="relu.s", cwd=folder, load={"nowhere:4": "data.bin"})
        # each error goes to the console with its line, and the first ones into the response
        wrong = os.path.join(folder, "wrong.s")
        with open(wrong, "w") as f:
            f.write("        .target opennpu\n" + "        nothing\n" * 7)
        c.events = []
        message = c.rejected("launch", program="wrong.s", cwd=folder)
        assert message.count("TV-A002") == 5 and message.endswith("and 2 more"), message
        outputs = [c.event("output") for _ in range(7)]
        assert [o["line"] for o in outputs] == list(range(2, 9)) and outputs[0]["source"]["path"] == wrong, outputs
        assert "1.5" in c.rejected("launch", program="relu.s", cwd=folder, parameters={"vector.k": 1.5})
        assert "TV-C004" in c.rejected("launch", program="relu.s", cwd=folder, config=["test", "nothing"])
        assert "profile" in c.rejected("launch", program="relu.s", cwd=folder, config=5)
        for event in list(c.events):
            assert event["event"] == "output"
        c.events = []
        # without debugging: nothing stops the run, and the end is reported
        c.ask("launch", program="relu.s", cwd=folder, noDebug=True)
        c.event("initialized")
        c.ask("configurationDone")
        assert "1 instruction" in c.event("output")["output"]
        assert c.event("exited")["exitCode"] == 0
        c.event("terminated")
        c.end()


def changing_variables(trivet):
    c = Client(trivet)
    c.begin(os.path.join(ROOT, "examples", "pccx", "softmax.s"))
    c.ask("configurationDone")
    c.event("stopped")
    units = c.scope("l2")["variablesReference"]
    assert c.ask("setVariable", variablesReference=units, name="[3]", value="1 2.5")["value"].split()[:3] == ["1", "2.5", "0"]
    unit = c.variables(units, start=3, count=1)[0]
    assert unit["value"].split()[:3] == ["1", "2.5", "0"]
    assert c.ask("setVariable", variablesReference=unit["variablesReference"], name="[2]", value="-4")["value"] == "-4"
    assert c.variables(units, start=3, count=1)[0]["value"].split()[:4] == ["1", "2.5", "-4", "0"]
    assert "TV-" in c.rejected("setVariable", variablesReference=units, name="[3]", value="one")
    c.rejected("setVariable", variablesReference=units, name="[3]", value=" ".join("1" * 100))
    c.rejected("setVariable", variablesReference=unit["variablesReference"], name="[8]", value="1")
    for name in ("[0]x", "[0", "0]", "[]", "[0] "):
        c.rejected("setVariable", variablesReference=units, name=name, value="1")
    c.rejected("setVariable", variablesReference=c.scope("Registers")["variablesReference"], name="e_max", value="1")
    assert "more" in c.variables(units)[-1]["value"]  # no page was requested
    c.ask("next", threadId=1)
    c.event("stopped")
    c.scope("l2")
    c.rejected("variables", variablesReference=unit["variablesReference"])  # reference of an earlier stop
    targets = c.ask("completions", text="x bf16 l2", column=10)["targets"]
    assert targets == [{"label": "l2:", "start": 8, "length": 2}], targets
    c.end()


def hit_counts(trivet):
    c = Client(trivet)
    path = os.path.join(ROOT, "examples", "cmdq", "prefetch.json")
    c.begin(path)
    answer = c.ask("setFunctionBreakpoints", breakpoints=[{"name": "opcode TE_GEMM_TILE", "hitCondition": "3"}, {"name": "0", "hitCondition": "often"}])["breakpoints"]
    assert answer[0]["verified"] and not answer[1]["verified"] and "often" in answer[1]["message"], answer
    c.ask("configurationDone")
    c.event("stopped")
    with open(path) as f:
        third = [e["id"] for e in json.load(f)["cmdq"] if e["opcode"] == "TE_GEMM_TILE"][2]
    c.ask("continue", threadId=1)
    assert c.event("stopped")["reason"] == "breakpoint" and c.index() == third
    c.end()


def counting_from_zero(trivet):
    path = os.path.join(ROOT, "examples", "pccx", "softmax.s")
    line = line_of(path, "gemv    l2[Z]")
    c = Client(trivet)
    c.ask("initialize", adapterID="trivet", linesStartAt1=False, columnsStartAt1=False)
    c.ask("launch", program=path, stopOnEntry=False)
    found = c.ask("setBreakpoints", source={"path": path}, breakpoints=[{"line": line - 1}])["breakpoints"]
    assert found[0]["line"] == line - 1, found
    c.ask("configurationDone")
    c.event("stopped")
    assert (c.frame()["line"], c.frame()["column"]) == (line - 1, 0)
    c.end()


def an_editor_that_exits(trivet):
    """The run ends with the editor."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "long.s")
        with open(path, "w") as f:
            f.write("        .target opennpu\n" + "mma.reset\n" * 4000000)
        c = Client(trivet)
        c.begin(path)
        c.ask("setDataBreakpoints", breakpoints=[{"dataId": "mem 0 1", "accessType": "read"}])
        c.ask("configurationDone")
        c.event("stopped")
        c.ask("continue", threadId=1)
        c.process.stdin.close()
        c.process.stdout.close()
        assert c.process.wait(WAIT) == 0
        c.process.stderr.close()


def started(trivet, program, **launch):
    c = Client(trivet)
    c.begin(program, **launch)
    c.ask("configurationDone")
    c.event("stopped")
    return c


def memory_references(trivet):
    """Offsets count bytes in both directions; what is outside of the space or no base64 is rejected."""
    c = started(trivet, os.path.join(ROOT, "examples", "pccx", "softmax.s"))
    wanted = bytes(range(1, 33))
    c.ask("writeMemory", memoryReference="l2 4", data=base64.b64encode(wanted).decode())
    for reference, offset in (("l2:4", 0), ("l2 4", 0), ("l2:5", -16), ("l2:0", 64), ("l2 0x4", 0)):
        found = c.ask("readMemory", memoryReference=reference, offset=offset, count=32)
        assert base64.b64decode(found["data"]) == wanted, (reference, offset, found)
    assert base64.b64decode(c.ask("readMemory", memoryReference="l2:5", offset=3, count=1)["data"]) == bytes([20])
    assert not c.ask("readMemory", memoryReference="l2:131072", count=4).get("data")
    assert len(base64.b64decode(c.ask("readMemory", memoryReference="l2:131071", count=400)["data"])) == 16
    for reference in ("l2 x", "nowhere 0", "nowhere:0", "l2:0:4", "l2:131073", "l2", "l2:" + "0" * 200):
        c.rejected("readMemory", memoryReference=reference, count=1)
        c.rejected("writeMemory", memoryReference=reference, data="AAAA")
    c.rejected("readMemory", memoryReference="l2:0", offset=-1, count=1)
    c.rejected("readMemory", memoryReference="l2:0", count=-1)
    for data in ("!!!!", "AAAA=A", None, 5):
        c.rejected("writeMemory", memoryReference="l2:0", data=data)
    c.rejected("writeMemory", memoryReference="l2:131072", offset=16, data="AAAA")
    for reference, arguments in (("x", {}), ("0x0", {"instructionCount": -1}), ("0x0", {"instructionCount": 1 << 40}), ("0x0", {"instructionOffset": 1 << 62}),
                                 ("0x0", {"instructionOffset": -(1 << 62)}), ("0x0", {"offset": 1 << 62}), ("0x0", {"offset": -(1 << 62)}), (hex(1 << 60), {})):
        c.rejected("disassemble", memoryReference=reference, **dict({"instructionCount": 1}, **arguments))
    c.end()


def ranges_to_watch(trivet):
    """Data breakpoints on variables, lanes (as their unit) and addresses."""
    c = started(trivet, os.path.join(ROOT, "examples", "pccx", "softmax.s"))
    space = c.scope("l2")["variablesReference"]
    unit = c.variables(space, start=3, count=1)[0]["variablesReference"]
    registers = c.scope("Registers")["variablesReference"]

    def data_id(**arguments):
        return c.ask("dataBreakpointInfo", **arguments)["dataId"]

    assert data_id(variablesReference=space, name="[3]") == "l2 3 16"
    assert data_id(variablesReference=unit, name="[2]") == "l2 3 16"
    assert data_id(name="l2:8") == "l2 8 16"
    assert data_id(name="l2:8:48") == "l2 8 48"
    assert data_id(name="l2:8", bytes=32) == "l2 8 32"
    for arguments in ({}, {"variablesReference": registers, "name": "e_max"}, {"variablesReference": 99999, "name": "[0]"}, {"variablesReference": space, "name": "more"},
                      {"variablesReference": space, "name": "[131072]"}, {"name": "l2:131072"}, {"name": "l2:8:x"}, {"name": "l2:8:0"}, {"name": "l2:131071:17"}):
        assert data_id(**arguments) is None, arguments
    answer = c.ask("setDataBreakpoints", breakpoints=[{"dataId": "l2 8 16", "accessType": "readWrite"}, {"dataId": "l2 8 16"}, {"dataId": "l2 8"}, {"dataId": "l2 8 16 x"},
                                                      {"dataId": "nowhere 8 16"}, {}])["breakpoints"]
    assert [b["verified"] for b in answer] == [True, True, False, False, False, False], answer
    c.ask("continue", threadId=1)
    stop = c.event("stopped")
    assert stop["reason"] == "data breakpoint" and len(stop["hitBreakpointIds"]) == 2, stop
    c.end()


def breakpoints_that_cannot_be_set(trivet):
    c = started(trivet, os.path.join(ROOT, "examples", "pccx", "softmax.s"))
    answer = c.ask("setInstructionBreakpoints", breakpoints=[{"instructionReference": "zzz"}, {}, {"instructionReference": "0x1", "offset": -2},
                                                             {"instructionReference": "0x1", "offset": 1}, {"instructionReference": "0x99"}])["breakpoints"]
    assert [b["verified"] for b in answer] == [False, False, False, True, False], answer
    answer = c.ask("setFunctionBreakpoints", breakpoints=[{}, {"name": 5}, {"name": "1", "hitCondition": ">= 2"}, {"name": "2", "hitCondition": "0"},
                                                          {"name": "3", "condition": "l2:0 ="}, {"name": "4", "condition": "nowhere:0 == 1"}])["breakpoints"]
    assert [b["verified"] for b in answer] == [False, False, True, False, False, False], answer
    for command in ("setBreakpoints", "setFunctionBreakpoints", "setDataBreakpoints", "setInstructionBreakpoints"):
        c.rejected(command, source={"path": "x.s"}, breakpoints=[{}] * 100000)
    assert not c.ask("setBreakpoints", source={"path": os.path.join(ROOT, "examples", "pccx", "softmax.s")}, breakpoints=[{"line": -1}])["breakpoints"][0]["verified"]
    c.end()


def expressions(trivet):
    """Hover, watch and console; a command that changes memory invalidates the variables shown."""
    c = Client(trivet)
    c.ask("initialize", adapterID="trivet", supportsInvalidatedEvent=True)
    c.ask("launch", program=os.path.join(ROOT, "examples", "opennpu", "relu.s"))
    c.ask("configurationDone")
    c.event("stopped")
    for context in ("hover", "watch", "variables"):
        assert c.ask("evaluate", expression="column * 0 + 7", context=context)["result"] == "column * 0 + 7 = 7 = 0x7"
        assert c.rejected("evaluate", expression="nothing", context=context) == "not available"
    c.ask("evaluate", expression="set vx:0:s8 = 1 2 3", context="repl")
    assert c.event("invalidated")["areas"] == ["variables"]
    assert c.ask("evaluate", expression="vx0[1] + 5", context="hover")["result"] == "vx0[1] + 5 = 7 = 0x7"
    labels = [t["label"] for t in c.ask("completions", text="disable", column=4)["targets"]]
    assert labels == ["disable", "display", "disas"], labels
    assert c.ask("completions", text="stepx", column=100)["targets"] == []
    c.ask("completions", text="step", column=0)
    space = c.scope("vx")["variablesReference"]
    assert c.variables(space, filter="named") == []
    engines = c.scope("Engines")["variablesReference"]
    assert c.variables(engines, filter="indexed") == []
    assert len([e for e in c.variables(engines) if e["value"] == "0 busy, 0 idle"]) == 4  # VALU, MMA, PORT, ISSUE
    reasons = c.variables(c.variables(engines)[1]["variablesReference"])
    assert reasons and all(r["value"] == "0" for r in reasons), reasons
    for arguments in ({"value": "1"}, {"name": "[0]"}, {"name": "0", "value": "1"}, {"name": "[0", "value": "1"}, {"name": "[0]", "value": ""},
                      {"name": "[99999999]", "value": "1"}):
        c.rejected("setVariable", variablesReference=space, **arguments)
    assert c.ask("setVariable", variablesReference=space, name="[0]", value="4 5 …")["value"].split()[:3] == ["4", "5", "3"]
    assert c.ask("stackTrace", threadId=1, startFrame=1)["stackFrames"] == []
    c.ask("evaluate", expression="quit", context="repl")
    c.event("terminated")
    c.end()


def lines_of_several_instructions(trivet):
    """A step by line executes all instructions of the line, a step back undoes all of them."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "lines.s")
        with open(path, "w") as f:
            two = "        .word64 0x3000020000100010, 0x3001020000100010\n"  # memset fmap_shape[0] and [16], 32, 1, 1
            f.write("        .target pccx\n" + two + "        memset fmap_shape[2], 8, 1, 1\n" + two + "        memset fmap_shape[3], 8, 1, 1\n")
        c = started(trivet, path)
        indices = []
        for _ in range(3):
            c.ask("next", threadId=1)
            c.event("stopped")
            indices.append(c.index())
        assert indices == [2, 3, 5], indices
        c.ask("stepBack", threadId=1)
        c.event("stopped")
        assert c.index() == 3
        c.ask("next", threadId=1, granularity="instruction")
        c.event("stopped")
        assert c.index() == 4
        c.ask("stepBack", threadId=1, granularity="line")
        c.event("stopped")
        assert c.index() == 2
        c.end()


def ends(trivet):
    """How a run ends without a stop there, and with a fault."""
    program = os.path.join(ROOT, "examples", "pccx", "softmax.s")
    c = Client(trivet)
    c.begin(program, stopOnEntry=False, stopOnEnd=False, functional=True, snapshotMemory=4096)
    c.ask("configurationDone")
    assert c.event("exited")["exitCode"] == 0
    c.event("terminated")
    c.end()
    c = Client(trivet)
    c.begin(os.path.join(ROOT, "tests", "debug", "fault.s"), noDebug=True)
    c.ask("configurationDone")
    assert c.event("exited")["exitCode"] == 1
    c.event("terminated")
    c.end()


def rejected_launches(trivet):
    program = os.path.join(ROOT, "examples", "opennpu", "relu.s")
    c = Client(trivet)
    c.ask("initialize", adapterID="trivet")
    for arguments in ({"programs": []}, {"programs": [5]}, {"programs": ["-"]}, {"program": ""}, {"program": "-"}, {"programs": [program] * 5000},
                      {"program": program, "config": "-"}, {"program": program, "config": [5]}, {"program": program, "config": "nothing"},
                      {"program": program, "load": {"vx:0": "-"}}, {"program": program, "load": {"vx:0": 5}}, {"program": program, "parameters": {"vector.k": None}},
                      {"program": program, "parameters": {"vector.k": "x"}}, {"programs": [program, os.path.join(ROOT, "examples", "pccx", "softmax.s")]}):
        assert "TV-" in c.rejected("launch", **arguments), arguments
    c.ask("launch", program=program, config=None, parameters=None, load=None)
    c.end()


def rejections(trivet):
    c = Client(trivet)
    c.rejected("stackTrace", threadId=1)
    c.rejected("teleport")
    assert "TV-" in c.rejected("launch", program="/no/such/file.s")
    assert "TV-C001" in c.rejected("launch", program=os.path.join(ROOT, "examples", "pccx", "softmax.s"), parameters={"nothing": 1})
    c.rejected("launch")
    for body in (b"{", b"[]", b"{}", b'{"seq": "x", "type": "request", "command": "threads"}', b'{"seq": 1, "type": "request", "command": 5}', b""):
        c.raw(body)
        assert not c.receive()["success"]
    c.begin(os.path.join(ROOT, "examples", "pccx", "softmax.s"))
    c.rejected("launch", program="x")
    for command in ("setBreakpoints", "disassemble", "readMemory", "writeMemory", "evaluate", "variables"):
        c.rejected(command)
    for command in ("setFunctionBreakpoints", "setDataBreakpoints", "setInstructionBreakpoints", "scopes", "completions"):
        c.ask(command)
    c.end()


def broken(trivet):
    """Invalid framing ends the session with an error status, and uses no more memory than the largest message."""
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"Content-Length: 99999999999\r\n\r\n", b"Content-Length: -1\r\n\r\n", b"x" * 10000,
                 b"Content-Length: 10\r\nContent-Length: 10\r\n\r\n0123456789", b"Content-Length: 100\r\n\r\n{", b"\0" * 5000):
        p = subprocess.run([trivet, "debug", "--dap"], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=WAIT)
        assert p.returncode == 2 and b"TV-D007" in p.stderr, (data[:40], p)
    p = subprocess.run([trivet, "debug", "--dap"], input=b"", stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=WAIT)
    assert p.returncode == 0 and not p.stderr


def main():
    options = parse_arguments(__doc__, "trivet")
    t = Suite(options.trivet, options)
    t.run_tests((machines, data_breakpoints, conditions, pausing, faults, without_sources, launches, changing_variables, hit_counts, counting_from_zero, an_editor_that_exits, memory_references,
                 ranges_to_watch, breakpoints_that_cannot_be_set, expressions, lines_of_several_instructions, ends, rejected_launches, rejections, broken), t.trivet)
    return t.finish()


sys.exit(main())
