# SPDX-License-Identifier: Apache-2.0
# Sourced by ./demo and ./test: installs the packages that are missing, and has functions to build. `needs` says which packages:
# those to build (build), those to test, too (test), or those to test the whole program for arm64 (arm64).
set -eu
cd "$(dirname "$0")"

# needed_packages -v|-e: the packages of this architecture, or those of another one.
needed_packages() {
    case "$needs $(uname -m)" in
    build*) sed '/^# To test/,$d; s/#.*//' packages.txt ;;
    arm64*) sed '/^# To test it, besides/,/^# To test it for arm64/d; s/#.*//' packages.txt ;;
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

# install_packages COMMAND PACKAGE …: installs them as root or through sudo, after COMMAND, which may be empty. Without
# rights it says what to do.
install_packages() {
    before=$1
    status=0
    shift
    as_root=""
    if [ "$(id -u)" -ne 0 ]; then
        as_root="sudo"
        if ! sudo -n true 2>/dev/null && { ! command -v sudo >/dev/null 2>&1 || [ ! -t 0 ]; }; then
            echo "Some packages are missing. Install them, then start this again:" >&2
            echo "  ${before:+$before && }apt-get update && apt-get install -y --no-install-recommends $*" >&2
            exit 3
        fi
    fi
    echo "installing: $*"
    # shellcheck disable=SC2086
    {
        ${before:+$as_root} ${before:-:} && $as_root apt-get update -q &&
            $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
    } >/tmp/trivet-apt.$$ 2>&1 || status=$?
    [ "$status" -eq 0 ] || cat /tmp/trivet-apt.$$ >&2
    rm -f /tmp/trivet-apt.$$
    return "$status"
}

missing=$(missing_packages -v)
# shellcheck disable=SC2086
[ -z "$missing" ] || install_packages "" $missing || exit 3
if [ "$needs" = arm64 ] && foreign=$(missing_packages -e) && [ -n "$foreign" ]; then
    had_arm64=$(dpkg --print-foreign-architectures | grep -x arm64 || true)
    # shellcheck disable=SC2086
    install_packages "dpkg --add-architecture arm64" $foreign || {
        [ -n "$had_arm64" ] || $as_root dpkg --remove-architecture arm64 2>/dev/null || true # or other updates would fail
        exit 3
    }
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
