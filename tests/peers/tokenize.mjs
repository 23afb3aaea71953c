// SPDX-License-Identifier: Apache-2.0
// Tokens of texts by llama.cpp, in the format of tokenize.c.
//
// usage: node tokenize.mjs FOLDER (MODEL TEXTS TOKENS)…; FOLDER has node_modules/node-llama-cpp, TEXTS and TOKENS are files
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const SPECIAL = 4;
const [folder, ...files] = process.argv.slice(2);
const entry = path.join(path.resolve(folder), "node_modules/node-llama-cpp/dist/index.js");
const { getLlama, LlamaLogLevel } = await import(pathToFileURL(entry));
const llama = await getLlama({ gpu: false, build: "never", progressLogs: false, logLevel: LlamaLogLevel.disabled });
for (let i = 0; i < files.length; i += 3) {
  const model = await llama.loadModel({ modelPath: files[i], vocabOnly: true });
  const input = fs.readFileSync(files[i + 1]);
  const chunks = [];
  for (let at = 0; at < input.length;) {
    const flags = input.readUInt32LE(at), size = input.readUInt32LE(at + 4);
    const tokens = model.tokenize(input.toString("utf8", at + 8, at + 8 + size), (flags & SPECIAL) !== 0);
    chunks.push(Buffer.from(new Int32Array([tokens.length, ...tokens]).buffer));
    at += 8 + size;
  }
  fs.writeFileSync(files[i + 2], Buffer.concat(chunks));
  await model.dispose();
}
process.exit(0);
