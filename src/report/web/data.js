// SPDX-License-Identifier: Apache-2.0
// Reads the embedded data: base64 of a deflated stream of a JSON head, strings, and table columns as LEB128.

const wide = new Set([
  "start", "cycles", "bytes", "macs", "addr", "extent", "count", "busy", "stalled", "amount", "position", "tokens",
  "energy_low", "energy", "energy_high"
]);

export async function inflate(base64) {
  const text = atob(base64.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// A column of `rows` numbers from `bytes[at…]`; a delta column keeps zigzag differences.
function readColumn(bytes, at, rows, name) {
  const delta = name[0] === "+";
  const out = wide.has(delta ? name.slice(1) : name) ? new Float64Array(rows) : new Uint32Array(rows);
  let last = 0;
  for (let row = 0; row < rows; row++) {
    let byte = bytes[at++], value = byte & 127, scale = 128;
    while (byte > 127) {
      byte = bytes[at++];
      value += (byte & 127) * scale;
      scale *= 128;
    }
    if (delta) {
      last += value % 2 ? -(value + 1) / 2 : value / 2;
      value = last;
    }
    out[row] = value;
  }
  return out;
}

// The statistics of `run --json`, with lists in place of objects.
function listed(stats) {
  const list = (object) => Object.entries(object).map(([name, values]) => ({name, ...values}));
  return {
    ...stats,
    peak_macs: stats.peak_macs_per_cycle,
    stall_reasons: Object.keys(stats.stall_reasons),
    engines: list(stats.engines),
    paths: list(stats.paths)
             .map((p) => ({name: p.name, bytes: p.bytes, peak: p.peak_bytes_per_cycle, limitedBy: p.limited_by}))
  };
}

export async function readData(base64) {
  const bytes = await inflate(base64);
  const headLength = new DataView(bytes.buffer).getUint32(0, true);
  const decoder = new TextDecoder();
  const head = JSON.parse(decoder.decode(bytes.subarray(4, 4 + headLength)));
  head.stats = listed(head.stats);
  let at = 4 + headLength;
  const texts = decoder.decode(bytes.subarray(at, at + Math.max(0, head.text_bytes - 1))).split("\0");
  at += head.text_bytes;
  const tables = {};
  for (const table of head.tables) {
    const columns = {rows: table.rows, total: table.total};
    for (const [name, length] of table.columns) {
      columns[name.replace("+", "")] = readColumn(bytes, at, table.rows, name);
      at += length;
    }
    tables[table.name] = columns;
  }
  return {head, texts, tables};
}
