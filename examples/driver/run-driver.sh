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
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The sources and flags of the compiler, one a line.
find "$upstream" -name '*.c' | sort > "$folder/all"
: > "$folder/sources"
while IFS= read -r file; do
    grep -q 'uca_hal_init *(void) *$' "$file" || grep -q 'uca_hal_init *(void) *{' "$file" || printf '%s\n' "$file" >> "$folder/sources"
done < "$folder/all"
[ -s "$folder/sources" ] || { echo "run-driver.sh: $upstream has no .c files besides the hardware functions" >&2; exit 2; }
if [ -n "${TRIVET_BUILD:-}" ]; then
    printf '%s\n' "-I$here/../../include" "-L$TRIVET_BUILD/src" "-Wl,-rpath,$TRIVET_BUILD/src" -ltrivet > "$folder/flags"
else
    pkg-config --cflags --libs trivet | tr -s ' ' '\n' > "$folder/flags"
fi
program=
while IFS= read -r file; do
    if grep -Eq '(^|[^A-Za-z0-9_])main *\(' "$file"; then program=yes; fi
done < "$folder/sources"

compile() {
    while IFS= read -r word; do set -- "$@" "$word"; done < "$folder/sources"
    set -- "$@" "$here/hal.c" "-I$upstream" "-I$upstream/include" "-I$upstream/../include"
    while IFS= read -r word; do set -- "$@" "$word"; done < "$folder/flags"
    ${CC:-cc} -o "$folder/driver" "$@" -lm
}

if [ -z "$program" ]; then
    compile -shared -fPIC
    echo "run-driver.sh: $upstream has no main function; it compiles" >&2
    exit 0
fi
compile
"$folder/driver" "$@"
