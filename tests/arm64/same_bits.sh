#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# same_bits.sh HOST_PROGRAM COMMAND...: fails unless both print the same text.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
host=$1
shift
"$host" >"$work/host"
"$@" >"$work/target"
[ -s "$work/host" ]
diff "$work/host" "$work/target"
echo "$(wc -l <"$work/host") hashes are the same"
