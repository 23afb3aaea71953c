#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What ./demo and ./test ask for where nothing is installed: copies of them run among commands that have no package and no rights.
set -eu
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

expect() {
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$1: '$2', expected '$3'" >&2
    fi
}

mkdir "$work/tools" "$work/bin"
cp "$root/demo" "$root/test" "$root/packages.txt" "$work"
cp "$root/tools/setup.sh" "$work/tools"
for name in dpkg-query sudo apt-get meson ninja; do
    printf '#!/bin/sh\nexit 1\n' >"$work/bin/$name"
done
printf '#!/bin/sh\necho 1000\n' >"$work/bin/id"
printf '#!/bin/sh\necho "$PROCESSOR"\n' >"$work/bin/uname"
chmod +x "$work/bin"/*

# asked SCRIPT [PROCESSOR [ARGUMENT]]: the packages that it says to install, in one line.
asked() {
    status=0
    PROCESSOR=${2:-x86_64} PATH="$work/bin:$PATH" "$work/$1" ${3:+"$3"} </dev/null >"$work/out" 2>&1 || status=$?
    expect "exit status of ./$1" "$status" 3
    sed -n 's/.*--no-install-recommends *//p' "$work/out" | tr -s ' ' | sed 's/ *$//'
}

all=$(grep -v '^#\|:arm64' "$root/packages.txt" | tr '\n' ' ' | sed 's/ *$//')
asked test >"$work/test.list"
asked demo >"$work/demo.list"
expect "./test asks for all" "$(cat "$work/test.list")" "$all"
for package in gcc meson ninja-build esbuild libyajl-dev libedit-dev; do
    expect "./demo asks for $package" "$(tr ' ' '\n' <"$work/demo.list" | grep -cx "$package")" 1
done
for package in chromium chromium-driver clang libcmocka-dev libelf-dev strace libmpfr-dev libgmp-dev; do
    expect "./demo asks for $package" "$(tr ' ' '\n' <"$work/demo.list" | grep -cx "$package")" 0
    expect "./test asks for $package" "$(tr ' ' '\n' <"$work/test.list" | grep -cx "$package")" 1
done
asked test aarch64 >"$work/arm64.list"
expect "./test on arm64 asks for all but the cross compiler" "$(cat "$work/arm64.list")" "${all% gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user}"
expect "./test elsewhere asks for the cross compiler" "$(tr ' ' '\n' <"$work/test.list" | grep -cx gcc-aarch64-linux-gnu)" 1
asked test x86_64 arm64 >"$work/programs.list"
build=$(sed '/^# To test/,$d' "$root/packages.txt" | grep -v '^#' | tr '\n' ' ')
expect "./test arm64 asks for those to build and the cross compiler" "$(cat "$work/programs.list")" "${build}gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
printf '#!/bin/sh\ncase "$*" in *:arm64*) exit 1 ;; esac\necho "install ok installed"\n' >"$work/bin/dpkg-query"
printf '#!/bin/sh\nexit 1\n' >"$work/bin/dpkg"
chmod +x "$work/bin/dpkg"
asked test x86_64 arm64 >"$work/foreign.list"
expect "./test arm64 asks for the libraries for arm64" "$(cat "$work/foreign.list")" "$(grep ':arm64' "$root/packages.txt" | tr '\n' ' ' | sed 's/ *$//')"

# rejected PROCESSOR ARGUMENT …: before anything is installed.
rejected() {
    processor=$1
    shift
    status=0
    PROCESSOR=$processor PATH="$work/bin:$PATH" "$work/test" "$@" </dev/null >"$work/out" 2>&1 || status=$?
    expect "exit status of ./test $* on $processor" "$status" 2
}
rejected x86_64 foo
rejected x86_64 arm64 foo
rejected aarch64 arm64
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
