// SPDX-License-Identifier: Apache-2.0
// Loads a trace into Perfetto's trace processor and prints the rows of queries as JSON.
//
//     node trace_processor.js PACKAGE TRACE QUERY...
//
// The engine of the package is a worker of a page: over a port it speaks a stream of Protocol Buffers.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [folder, trace] = process.argv.slice(2, 4).map((name) => path.resolve(name));
const queries = process.argv.slice(4);
const bytes = fs.readFileSync(trace);
const CHUNK = 1 << 20;

// Methods and fields of the engine's requests and answers.
const APPEND = 1, FINALIZE = 2, QUERY = 3;
const MESSAGE = 1, SEQ = 1, METHOD = 2, DATA = 101, SQL = 103, RESULT = 203;
const COLUMN = 1, PROBLEM = 2, BATCH = 3;
const CELLS = 1, INTEGERS = 2, REALS = 3, TEXTS = 5, IS_LAST = 6;
const INTEGER_CELL = 2n, REAL_CELL = 3n, TEXT_CELL = 4n;

// ---- Protocol Buffers

function number(value)
{
    const out = [];
    let v = BigInt(value);
    for (; v >= 128n; v >>= 7n)
        out.push(Number(v & 127n) | 128);
    return Buffer.from([...out, Number(v) ]);
}

const field = (n, value) => Buffer.concat([ number(n << 3), number(value) ]);
const block = (n, value) => Buffer.concat([ number(n << 3 | 2), number(value.length), value ]);

// The number at an offset and the offset behind it; undefined: it is cut off.
function readNumber(buffer, at)
{
    let value = 0n;
    for (let shift = 0n; at < buffer.length; shift += 7n) {
        const byte = buffer[at++];
        value |= BigInt(byte & 127) << shift;
        if (byte < 128)
            return [ BigInt.asIntN(64, value), at ];
    }
    return undefined;
}

function numbers(buffer)
{
    const out = [];
    for (let at = 0, value; at < buffer.length; out.push(value))
        [value, at] = readNumber(buffer, at);
    return out;
}

// Pairs of a number and a value: a number, or bytes.
function fields(buffer)
{
    const out = [];
    for (let at = 0; at < buffer.length;) {
        let tag, value, start;
        [tag, at] = readNumber(buffer, at);
        const kind = Number(tag & 7n);
        if (kind === 0) {
            [value, at] = readNumber(buffer, at);
        } else {
            if (kind === 2)
                [value, start] = readNumber(buffer, at);
            else
                [value, start] = [ kind === 1 ? 8 : 4, at ];
            at = start + Number(value);
            value = buffer.subarray(start, at);
        }
        out.push([ Number(tag >> 3n), value ]);
    }
    return out;
}

const all = (pairs, n) => pairs.filter(([ name ]) => name === n).map(([, value ]) => value);

// ---- The engine

let received = Buffer.alloc(0), answered = () => {};
const port = {
    onmessage : null,
    postMessage(data) {
        received = Buffer.concat([ received, Buffer.from(data) ]);
        for (let head; received.length > 1 && (head = readNumber(received, 1)) !== undefined;) {
            const [length, start] = head, end = start + Number(length);
            if (received.length < end)
                return;
            const message = received.subarray(start, end);
            received = received.subarray(end);
            answered(fields(message));
        }
    },
};

let seq = 0;
const request = (method, args, isLast) => new Promise((resolve) => {
    answered = (answer) => {
        if (isLast(answer))
            resolve();
    };
    const message = Buffer.concat([ field(SEQ, seq++), field(METHOD, method), ...args ]);
    port.onmessage({data : new Uint8Array(block(MESSAGE, message))});
});

// A query's rows, of which each is an object.
async function query(sql)
{
    const cells = [];
    let columns = null, problem = null;
    const isLast = (answer) => {
        let last = false;
        for (const result of all(answer, RESULT).map(fields)) {
            columns = columns ?? all(result, COLUMN).map(String);
            problem = all(result, PROBLEM).map(String)[0] ?? problem;
            for (const batch of all(result, BATCH).map(fields)) {
                const of = (n) => Buffer.concat(all(batch, n));
                const integers = numbers(of(INTEGERS)), texts = of(TEXTS).toString().split("\0"), reals = of(REALS);
                let real = 0;
                for (const kind of numbers(of(CELLS)))
                    cells.push(kind === INTEGER_CELL ? Number(integers.shift())
                               : kind === REAL_CELL  ? reals.readDoubleLE(8 * real++)
                               : kind === TEXT_CELL  ? texts.shift()
                                                     : null);
                last = last || all(batch, IS_LAST)[0] === 1n;
            }
        }
        return last || problem !== null;
    };
    await request(QUERY, [ block(SQL, block(1, Buffer.from(sql))) ], isLast);
    if (problem !== null)
        throw new Error(problem);
    const rows = [];
    for (let at = 0; at < cells.length; at += columns.length)
        rows.push(Object.fromEntries(columns.map((name, i) => [name, cells[at + i]])));
    return rows;
}

async function main()
{
    process.chdir(folder); // where the engine finds its code
    const engine = path.join(folder, "engine_bundle.js");
    Object.assign(global, {self : global, require, __dirname : folder, __filename : engine});
    console.log = console.warn = () => {};
    let instantiated;
    const instantiate = WebAssembly.instantiate;
    WebAssembly.instantiate = (...args) => instantiated = instantiate(...args);
    vm.runInThisContext(fs.readFileSync(engine, "utf8"), engine);
    global.onmessage({data : {enginePort : port}});
    await instantiated;
    await new Promise((resolve) => setTimeout(resolve, 0)); // the engine has heard of it
    for (let at = 0; at < bytes.length; at += CHUNK)
        await request(APPEND, [ block(DATA, bytes.subarray(at, at + CHUNK)) ], () => true);
    await request(FINALIZE, [], () => true);
    const found = [];
    for (const sql of queries)
        found.push(await query(sql));
    process.stdout.write(JSON.stringify(found) + "\n", () => process.exit(0)); // the engine keeps the process alive
}

main().catch((error) => {
    process.stderr.write(`${error.stack ?? error}\n`);
    process.exit(1);
});
