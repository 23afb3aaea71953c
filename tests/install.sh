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

# Nothing but the documented names leaves the library, each with its version.
strangers=$(nm -D --defined-only "$library/libtrivet.so" | awk '$2 != "A" && $3 !~ /^tv_.*@@TRIVET_/' | head)
if [ -n "$strangers" ]; then
    echo "exported without a version or without the prefix: $strangers"
    exit 1
fi
echo "1 passed, 0 failed"
