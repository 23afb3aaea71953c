#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# same_bits.sh HERE COMMAND …: do both programs print the same?
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$1
shift
"$here" >"$work/here"
"$@" >"$work/there"
[ -s "$work/here" ]
diff "$work/here" "$work/there"
echo "$(wc -l <"$work/here") groups of numbers are the same"
