# SPDX-License-Identifier: Apache-2.0
# Sourced by ./demo and ./test: installs the packages that are missing, and names the build folders. `needs` says which packages:
# those to build (build), all of this architecture (test), or those of arm64, too (arm64).
set -eu
cd "$(dirname "$0")"

# needed_packages -v|-e: the packages of this architecture, or those of another one, whose tests can be left out.
needed_packages() {
    case "$needs $(uname -m)" in
    build*) sed '/^# To test/,$d; s/#.*//' packages.txt ;;
    *aarch64) sed '/^# To test it for arm64/,$d; s/#.*//' packages.txt ;;
    *) sed 's/#.*//' packages.txt ;;
    esac | grep "$1" ':arm64$'
}

# missing_packages -v|-e: those of them that are not installed.
missing_packages() {
    needed_packages "$1" | while read -r package; do
        [ -n "$package" ] || continue
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' && continue
        dpkg-query -S "/usr/bin/$package" >/dev/null 2>&1 && continue # another package has the command: npm of newer nodejs
        printf '%s ' "$package"
    done
}

# install_packages PACKAGE …: leaves what it printed in /tmp/trivet-apt.$$.
install_packages() {
    { $as_root apt-get update -q && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"; } >/tmp/trivet-apt.$$ 2>&1
}

missing=$(missing_packages -v)
foreign=""
[ "$needs" != arm64 ] || foreign=$(missing_packages -e)
if [ -n "$missing" ]; then
    as_root=""
    if [ "$(id -u)" -ne 0 ]; then
        as_root="sudo"
        if ! sudo -n true 2>/dev/null && { ! command -v sudo >/dev/null 2>&1 || [ ! -t 0 ]; }; then
            echo "Some packages are missing. Install them, then start this again:" >&2
            echo "  apt-get update && apt-get install -y --no-install-recommends $missing" >&2
            exit 3
        fi
    fi
    echo "installing: $missing"
    # shellcheck disable=SC2086
    install_packages $missing || { cat /tmp/trivet-apt.$$ >&2; exit 3; }
    rm -f /tmp/trivet-apt.$$
fi
if [ -n "$foreign" ]; then
    as_root=""
    [ "$(id -u)" -eq 0 ] || as_root="sudo -n"
    echo "installing: $foreign"
    had_arm64=$(dpkg --print-foreign-architectures | grep -x arm64 || true)
    # shellcheck disable=SC2086
    $as_root dpkg --add-architecture arm64 && install_packages $foreign || {
        [ -n "$had_arm64" ] || $as_root dpkg --remove-architecture arm64 2>/dev/null || true # or other updates would fail
        [ ! -f /tmp/trivet-apt.$$ ] || cat /tmp/trivet-apt.$$ >&2
        rm -f /tmp/trivet-apt.$$
        echo "They cannot be installed. Install them, then start this again:" >&2
        echo "  dpkg --add-architecture arm64 && apt-get update && apt-get install -y --no-install-recommends $foreign" >&2
        exit 3
    }
    rm -f /tmp/trivet-apt.$$
fi

# configure FOLDER OPTION …: sets a build folder up once; CC decides the compiler.
configure() {
    folder=$1
    shift
    [ -f "$folder/build.ninja" ] || meson setup "$folder" "$@" >"$folder.log" 2>&1 || { cat "$folder.log" >&2; exit 3; }
    rm -f "$folder.log"
}

# compile FOLDER: prints only what matters.
compile() {
    ninja -C "$1" >"$1/compile.log" 2>&1 || { cat "$1/compile.log" >&2; exit 3; }
}
