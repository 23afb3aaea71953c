#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs into a temporary folder, then uses what was installed as its users do: an embedding program through
# pkg-config, the command, its manual page and its completion.
set -eu
build=$1
example=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

DESTDIR="$work" meson install -C "$build" --no-rebuild --quiet
pc=$(find "$work" -name trivet.pc)
prefix=$(sed -n 's/^prefix=//p' "$pc")
library=$(dirname "$(find "$work" -name 'libtrivet.so')")
export PKG_CONFIG_SYSROOT_DIR="$work" PKG_CONFIG_PATH="${pc%/*}" LD_LIBRARY_PATH="$library"

# shellcheck disable=SC2046
cc -std=c17 -Wall -Wextra -Werror "$example" -o "$work/embed" $(pkg-config --cflags --libs trivet)
"$work/embed" | grep -q '^88 cycles'
cc -std=c17 -x c -fsyntax-only -include trivet/trivet.h $(pkg-config --cflags trivet) /dev/null
command -v c++ >/dev/null 2>&1 && c++ -x c++ -fsyntax-only -include trivet/trivet.h $(pkg-config --cflags trivet) /dev/null

"$work$prefix/bin/trivet" version | grep -q '^trivet 0'
grep -q 'SH COMMANDS' "$(find "$work" -name trivet.1)"
bash -n "$(find "$work" -path '*bash-completion*' -type f)"
grep -q '^complete -c trivet' "$(find "$work" -path '*vendor_completions.d*' -type f)"

# The converter, the schema, and the manual with what it uses: the commands of the manual work in its folder.
"$work$prefix/bin/gguf-convert" --help >/dev/null
share=$work$prefix/share
python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))["$schema"]' "$share/trivet/schemas/cmdq.schema.json"
manual=$share/doc/trivet
python3 "$(dirname "$0")/links.py" "$manual"
for file in models/shakespeare.gguf editors/vscode/package.json editors/vim/syntax/trivet.vim LICENSE; do
    [ -s "$manual/$file" ] || { echo "not installed: $file"; exit 1; }
done
for file in examples/pccx/attention.s examples/opennpu/relu.s examples/cmdq/ffn.json; do
    (cd "$manual" && "$work$prefix/bin/trivet" run -q "$file" >/dev/null)
done
(cd "$manual" && "$work$prefix/bin/trivet" llm models/shakespeare.gguf -q -n 2 >/dev/null)

# Every global symbol of the static library has a prefix of the project.
strangers=$(nm -g --defined-only "$library/libtrivet.a" 2>/dev/null |
    awk 'NF == 3 && $3 !~ /^(tv|pccx|opennpu|cmdq|onnx_)_/ { print $3 }' | head)
if [ -n "$strangers" ]; then
    echo "global symbols of libtrivet.a without a prefix: $strangers"
    exit 1
fi

# Nothing but the documented names leaves the library, each with its version.
strangers=$(nm -D --defined-only "$library/libtrivet.so" | awk '$2 != "A" && $3 !~ /^tv_.*@@TRIVET_/' | head)
if [ -n "$strangers" ]; then
    echo "exported without a version or without the prefix: $strangers"
    exit 1
fi
echo "1 passed, 0 failed"
