#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles an unmodified driver against the model: every .c file of a folder of the public pccx driver but those that
# implement its hardware functions, with hal.c instead of them, and runs the program if the folder has a main function.
#
#     run-driver.sh UPSTREAM_DIR [ARGUMENT...]
#
# UPSTREAM_DIR has the driver's sources; headers may be in it, in ../include or in include. The library is found with
# pkg-config, or in TRIVET_BUILD, a build folder of this repository.
set -eu
[ $# -ge 1 ] || { echo "usage: run-driver.sh UPSTREAM_DIR [ARGUMENT...]" >&2; exit 2; }
upstream=$1
shift
[ -d "$upstream" ] || { echo "run-driver.sh: $upstream is no folder" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
if [ -n "${TRIVET_BUILD:-}" ]; then
    flags="-I$here/../../include -L$TRIVET_BUILD/src -Wl,-rpath,$TRIVET_BUILD/src -ltrivet"
else
    flags=$(pkg-config --cflags --libs trivet)
fi
sources=""
for file in $(find "$upstream" -name '*.c' | sort); do
    grep -q 'uca_hal_init *(void) *$' "$file" || grep -q 'uca_hal_init *(void) *{' "$file" || sources="$sources $file"
done
[ -n "$sources" ] || { echo "run-driver.sh: $upstream has no .c files besides the hardware functions" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# shellcheck disable=SC2086
${CC:-cc} -o "$folder/driver" $sources "$here/hal.c" -I"$upstream" -I"$upstream/include" -I"$upstream/../include" $flags -lm
"$folder/driver" "$@"
