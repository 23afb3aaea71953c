# SPDX-License-Identifier: Apache-2.0
"""The data of a report, read as docs/report.md describes them: a second reader, independent of the page."""

import base64
import json
import re
import zlib


def column(data, rows, delta):
    values, at, last = [], 0, 0
    for _ in range(rows):
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if delta:
            last += -((value + 1) >> 1) if value & 1 else value >> 1
            value = last
        values.append(value)
    assert at == len(data), "a column is longer than its rows"
    return values


class Report:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            self.page = f.read()
        packed, = re.findall(r'<script id="data" type="text/plain">([^<]*)</script>', self.page)
        data = zlib.decompress(base64.b64decode(packed, validate=True))
        length = int.from_bytes(data[:4], "little")
        self.head = json.loads(data[4:4 + length])
        at = 4 + length
        self.texts = data[at:at + self.head["text_bytes"]].decode("utf-8", "replace").split("\0")[:-1] or [""]
        at += self.head["text_bytes"]
        self.tables = {}
        for table in self.head["tables"]:
            columns = {}
            for name, size in table["columns"]:
                columns[name.lstrip("+")] = column(data[at:at + size], table["rows"], name.startswith("+"))
                at += size
            self.tables[table["name"]] = columns
        assert at == len(data), "bytes are left over"

    def rows(self, name):
        return next(t["rows"] for t in self.head["tables"] if t["name"] == name)

    def total(self, name):
        return next(t["total"] for t in self.head["tables"] if t["name"] == name)

    def text(self, number):
        return self.texts[number]
