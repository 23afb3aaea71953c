// SPDX-License-Identifier: Apache-2.0
// Writes src/import/unicode.def, the kinds of Unicode's characters as ranges, from the npm package of one version.
//
// usage: npm install @unicode/unicode-15.1.0 && node tools/unicode.mjs > src/import/unicode.def
const VERSION = "15.1.0";
const FOLDER = `file://${process.cwd()}/node_modules/@unicode/unicode-${VERSION}`;
const points = async (path) => (await import(`${FOLDER}/${path}/code-points.mjs`)).default;
const KINDS = [
  ["LETTER", "General_Category/Letter"], ["NUMBER", "General_Category/Number"], ["MARK", "General_Category/Mark"],
  ["PUNCTUATION", "General_Category/Punctuation"], ["SYMBOL", "General_Category/Symbol"],
  ["SPACE", "Binary_Property/White_Space"],
];

const kinds = new Array(0x110001);
for (const [name, path] of KINDS) for (const code of await points(path)) kinds[code] = name;
const rows = [];
for (let code = 0x80, first = 0x80; code < kinds.length; code++)
  if (code === 0x110000 || kinds[code] !== kinds[first]) {
    if (kinds[first]) rows.push(`TV_CHARS(${kinds[first]}, 0x${first.toString(16).toUpperCase()}, 0x${(code - 1).toString(16).toUpperCase()})`);
    first = code;
  }
console.log(`/* SPDX-License-Identifier: Apache-2.0 */
/* Unicode ${VERSION} above ASCII: letters (general category L), numbers (N), marks (M), punctuation (P), symbols (S) and
 * White_Space, first and last code point of each range, ascending. Written by tools/unicode.mjs.
 * TV_CHARS(KIND, first, last). */
/* clang-format off */
`);
let line = "";
for (const row of rows) {
  if (line && line.length + 1 + row.length > 120) {
    console.log(line);
    line = "";
  }
  line += (line ? " " : "") + row;
}
console.log(line);
