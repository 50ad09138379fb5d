#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Brings what the build and the tests need and this machine lacks: C libraries, the Python test
# packages, and a ROCm compiler. Run by make; does nothing, quietly, when everything is there.
# Usage: tools/setup.sh [build|compile|pip]
# With `build` it brings what building and installing need, and nothing that tests alone do: no test
# packages, no clang-format; with `compile`, also what test programs are compiled with, so that the
# rest can come while they are; with `pip`, that alone, for what is on the Python package index.
# With DEVICE=cuda in the environment it brings only the C libraries.
#
#   build/deps/usr      C libraries and headers, when they are not installed and cannot be
#   build/deps/python   pip, pytest, hypothesis and numpy, likewise
#   build/deps/nginx    a web server for one test
#   build/deps/swift    an S3 object store for another, with the Python packages that it needs
#   build/deps/format   the one version of clang-format that the tree is formatted with
#   build/rocm          hipRTC and comgr with their own C library, when no ROCm 6 or 7 is installed
#
# As root, Debian packages are installed; otherwise they are only unpacked under build/. Each of the
# directories is made under another name and renamed when whole, so that an interrupted run
# leaves nothing that the next one would mistake for the real thing. What one long test alone wants,
# a browser, is fetched by tools/browser.sh.
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.."
top=$(pwd)
tests=yes
case ${1:-} in
build | pip) tests= ;;
compile | '') ;;
*)
    echo "setup: what is '$1'? Usage: tools/setup.sh [build|compile|pip]" >&2
    exit 2
    ;;
esac
cc=${CC:-gcc} # maybe of two words, "ccache gcc": the first is what must be there
libdir=usr/lib/x86_64-linux-gnu
work=$top/build/setup.tmp

say() { echo "setup: $*" >&2; }
die() {
    say "$*"
    exit 1
}

# ---- what is there -------------------------------------------------------------------------------

have() { command -v "$1" >/dev/null 2>&1; }

# Whether a program on standard input compiles, and links with these libraries.
links() {
    have "${cc%% *}" || return 1
    # shellcheck disable=SC2086
    $cc -isystem build/deps/usr/include -x c - -o /dev/null -Lbuild/deps/$libdir "$@" -pthread \
        2>/dev/null
}

have_libraries() {
    links -ljansson -lzstd -l:libsodium.a -l:libpcre2-8.a <<'C'
#include <stdint.h>
#include <jansson.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <sodium.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>
int main(void)
{
    return !json_null() + (int)XXH3_64bits("", 0) + (int)ZSTD_versionNumber() +
           sodium_init() + pcre2_config(PCRE2_CONFIG_VERSION, NULL);
}
C
}

have_cmocka() {
    links -lcmocka <<'C'
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
int main(void)
{
    return !cmocka_set_message_output;
}
C
}

have_all_libraries() { have_libraries && { [ -z "$tests" ] || have_cmocka; }; }

python() { PYTHONPATH=$top/build/deps/python${PYTHONPATH:+:$PYTHONPATH} python3 "$@"; }

have_python() { python -c 'import pytest, hypothesis, numpy' 2>/dev/null; }

# Versions of clang-format differ in what they make of the same file, so exactly this one is used.
format_version=19.1.7

have_format() {
    sh tools/format.sh --version 2>/dev/null | grep -qF " version $format_version"
}

have_pip() { sh tools/pip.sh --version >/dev/null 2>&1; }

# Whether one of the usual places below $1 holds hipRTC of ROCm 6 or 7, its built-ins, and comgr.
have_rocm_in() {
    for d in "$1" "$1/lib" "$1/lib64" "$1/lib/x86_64-linux-gnu" "$1/$libdir"; do
        for f in "$d"/libhiprtc.so.[67]*; do
            [ -e "$f" ] || continue
            for g in "$d"/libamd_comgr.so*; do
                [ -e "$g" ] && return 0
            done
        done
    done
    return 1
}

have_rocm() {
    for root in "${QUERN_ROCM_PATH:-}" "${ROCM_PATH:-}" /opt/rocm /opt/rocm-* /usr \
        "$top/build/rocm"; do
        [ -n "$root" ] && have_rocm_in "$root" && return 0
    done
    return 1
}

# ---- Debian packages -----------------------------------------------------------------------------

# "URI keyring" of each package source of this machine that offers the suite $1, in order:
# deb822 .sources files and one-line .list files. No keyring named: "-".
sources_of() {
    for f in /etc/apt/sources.list.d/*.sources; do
        [ -r "$f" ] || continue
        awk -v suite="$1" '
            function flush(   i, j) {
                if ((" " types " ") ~ / deb / && enabled !~ /^no/ &&
                    (" " suites " ") ~ (" " suite " "))
                    for (i = 1; i <= split(uris, u, " "); i++)
                        print u[i], (key ~ /^\// ? key : "-")
                types = uris = suites = key = enabled = ""
            }
            /^[ \t]*$/ { flush(); next }
            /^#/ { next }
            /^[A-Za-z-]+:/ {
                field = tolower($1); sub(/:.*/, "", field)
                value = $0; sub(/^[^:]*:[ \t]*/, "", value)
                if (field == "types") types = value
                if (field == "uris") uris = value
                if (field == "suites") suites = value
                if (field == "signed-by") key = value
                if (field == "enabled") enabled = tolower(value)
            }
            END { flush() }' "$f"
    done
    for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -r "$f" ] || continue
        awk -v suite="$1" '
            $1 == "deb" {
                key = "-"
                if (match($0, /\[[^]]*\]/)) {
                    options = substr($0, RSTART + 1, RLENGTH - 2)
                    $0 = substr($0, 1, RSTART - 1) substr($0, RSTART + RLENGTH)
                    for (i = 1; i <= split(options, o, " "); i++)
                        if (o[i] ~ /^signed-by=\//) key = substr(o[i], 11)
                }
                if ($3 == suite) print $2, key
            }' "$f"
    done
}

# Makes a private apt in $1, which needs no privilege and touches nothing outside. $2 and $3 are the
# sources.list and the directory of more sources. The machine's proxies and credentials apply.
private_apt() {
    mkdir -p "$1/etc/apt.conf.d" "$1/etc/preferences.d" "$1/lists/partial" \
        "$1/cache/archives/partial"
    : >"$1/status"
    apt-config dump | grep -E '^Acquire::(http|https|ftp|socks|Retries|By-Hash)' >"$1/apt.conf" || :
    cat >>"$1/apt.conf" <<C
Dir "$1";
Dir::State "$1";
Dir::State::Lists "$1/lists";
Dir::State::status "$1/status";
Dir::Cache "$1/cache";
Dir::Etc "$1/etc";
Dir::Etc::sourcelist "$2";
Dir::Etc::sourceparts "$3";
Dir::Etc::trusted "/etc/apt/trusted.gpg";
Dir::Etc::trustedparts "/etc/apt/trusted.gpg.d";
Dir::Etc::netrc "/etc/apt/auth.conf";
Dir::Etc::netrcparts "/etc/apt/auth.conf.d";
Dir::Log "$1";
APT::Architecture "amd64";
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Debug::NoLocking "true";
C
}

# apt-get with a private apt; its output is kept for the case that it matters.
quiet_apt() {
    conf=$1
    shift
    APT_CONFIG=$conf/apt.conf apt-get -qq -y "$@" >>"$work/log" 2>&1
}

unpack_all() {
    mkdir -p "$2"
    for deb in "$1"/*.deb; do
        [ -e "$deb" ] || return 1
        dpkg-deb -x "$deb" "$2" || return 1
        rm -f "$deb"
    done
}

need_apt() {
    have apt-get && have dpkg-deb && [ "$(dpkg --print-architecture)" = amd64 ]
}

show_log() { tail -n 15 "$work/log" 2>/dev/null | sed 's/^/setup:   /' >&2; }

# Installs packages as root; a failure is not the end: the caller looks again.
install_as_root() {
    [ "$(id -u)" = 0 ] && need_apt || return 1
    say "installing $*"
    if [ ! -e "$work/updated" ]; then
        apt-get -qq -o Acquire::Check-Valid-Until=false update >>"$work/log" 2>&1 || :
        : >"$work/updated"
    fi
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=120 \
        install --no-install-recommends "$@" >>"$work/log" 2>&1
}

# Downloads exactly these packages of the machine's own release into $work/debs.
download_own() {
    need_apt || return 1
    rm -rf "$work/debs"
    mkdir -p "$work/debs"
    if [ ! -e "$work/own/updated" ]; then
        private_apt "$work/own" /etc/apt/sources.list /etc/apt/sources.list.d
        quiet_apt "$work/own" update || :
        : >"$work/own/updated"
    fi
    (cd "$work/debs" && quiet_apt "$work/own" download "$@")
}

# ---- the three things ----------------------------------------------------------------------------

get_libraries() {
    install_as_root gcc libc6-dev make python3 libxxhash-dev libjansson-dev libzstd-dev \
        libsodium-dev libpcre2-dev ${tests:+libcmocka-dev} || :
    have_all_libraries && return 0
    have "${cc%% *}" || die "no C compiler '$cc': install gcc (or set CC)"
    say "unpacking C libraries into build/deps"
    if download_own libxxhash-dev libxxhash0 libjansson-dev libjansson4 \
        ${tests:+libcmocka-dev libcmocka0} \
        libzstd-dev libzstd1 libsodium-dev libsodium23 libpcre2-dev libpcre2-8-0 &&
        unpack_all "$work/debs" "$work/deps"; then
        mkdir -p build/deps
        rm -rf build/deps/usr
        mv "$work/deps/usr" build/deps/usr
    fi
    have_all_libraries && return 0
    show_log
    die "cannot get xxhash, jansson,${tests:+ cmocka,} zstd, sodium and pcre2 with headers:" \
        "install libxxhash-dev libjansson-dev ${tests:+libcmocka-dev }libzstd-dev libsodium-dev" \
        "libpcre2-dev, or give this machine a reachable package mirror"
}

# Replaces build/deps/python with a copy of it that also has what is in $1. Times are kept:
# a compiled module names its source's, and Python would compile one of another at each start.
add_python() {
    rm -rf "$work/python"
    mkdir -p "$work/python" build/deps
    if [ -d build/deps/python ]; then
        cp -Rp build/deps/python/. "$work/python"
    fi
    cp -Rp "$1/." "$work/python"
    rm -rf build/deps/python
    mv "$work/python" build/deps/python
}

# pip is packaged as a wheel too, which needs no installation; it wants certificates in one file.
get_pip() {
    install_as_root python3-pip ca-certificates || :
    have_pip && return 0
    say "unpacking pip into build/deps/python"
    download_own python3-pip-whl ca-certificates && unpack_all "$work/debs" "$work/pip" || return 1
    for wheel in "$work"/pip/usr/share/python-wheels/pip-*.whl; do
        python3 -m zipfile -e "$wheel" "$work/pip/python" || return 1
    done
    if [ ! -e /etc/ssl/certs/ca-certificates.crt ]; then
        cat "$work"/pip/usr/share/ca-certificates/mozilla/*.crt >"$work/ca.pem"
        mkdir -p build/deps
        mv "$work/ca.pem" build/deps/ca.pem
    fi
    add_python "$work/pip/python"
    have_pip
}

get_numpy() {
    sh tools/pip.sh install --quiet --no-warn-script-location --no-deps --only-binary=:all: \
        --target "$work/numpy" numpy >>"$work/log" 2>&1 && add_python "$work/numpy"
    have_python
}

get_python() {
    have_pip || get_pip || no_pip
    have_python && return 0
    install_as_root python3-pytest python3-hypothesis python3-numpy || :
    have_python && return 0
    say "installing pytest, hypothesis and numpy into build/deps/python"
    # a Python that is not Debian's has numpy from its index only: it is not pure Python
    python -c 'import pytest, hypothesis' 2>/dev/null && get_numpy && return 0
    if download_own python3-pytest python3-hypothesis python3-attr python3-iniconfig \
        python3-packaging python3-pluggy python3-sortedcontainers python3-pygments &&
        unpack_all "$work/debs" "$work/pytest"; then
        # The packages have no compiled modules and tests may write none (PYTHONDONTWRITEBYTECODE),
        # so that each start of pytest would compile them again, half a second.
        python3 -m compileall -q "$work/pytest/usr/lib/python3/dist-packages" || :
        add_python "$work/pytest/usr/lib/python3/dist-packages"
    fi
    get_numpy && return 0
    sh tools/pip.sh install --quiet --no-warn-script-location --target "$work/wheels" \
        pytest hypothesis numpy >>"$work/log" 2>&1 && add_python "$work/wheels"
    have_python && return 0
    show_log
    die "cannot get the Python packages pytest, hypothesis and numpy: install python3-pytest" \
        "python3-hypothesis python3-numpy, or make 'python3 -m pip install' work here"
}

# Only `make format` and one test want it: without it the rest goes on, and the test is skipped.
get_format() {
    say "installing clang-format $format_version into build/deps/format"
    rm -rf "$work/format"
    if sh tools/pip.sh install --quiet --no-deps --only-binary=:all: --target "$work/format" \
        "clang-format==$format_version" >>"$work/log" 2>&1; then
        mkdir -p build/deps
        rm -rf build/deps/format
        mv "$work/format" build/deps/format
    fi
    have_format || say "no clang-format $format_version: formatting is not checked"
}

# One test's: a web server that takes PUT, unpacked and never installed, as its package would start
# it. Without it the test is skipped.
have_nginx() {
    [ -x build/deps/nginx/usr/sbin/nginx ] && build/deps/nginx/usr/sbin/nginx -v 2>/dev/null
}

get_nginx() {
    say "unpacking nginx into build/deps/nginx"
    rm -rf "$work/nginx"
    if download_own nginx && unpack_all "$work/debs" "$work/nginx"; then
        mkdir -p build/deps
        rm -rf build/deps/nginx
        mv "$work/nginx" build/deps/nginx
    fi
    have_nginx || say "no nginx: a remote cache is not tested with it"
}

# Another's: OpenStack Swift, as Python's package index has it, with all that it needs. Without it
# the test is skipped.
have_swift() {
    PYTHONPATH=$top/build/deps/swift python3 -S -c 'import swift, lxml.etree, pyeclib.ec_iface' \
        2>/dev/null
}

get_swift() {
    say "installing Swift into build/deps/swift"
    rm -rf "$work/swift"
    if sh tools/pip.sh install --quiet --no-warn-script-location --only-binary=:all: \
        --target "$work/swift" swift pyeclib >>"$work/log" 2>&1; then
        mkdir -p build/deps
        rm -rf build/deps/swift
        mv "$work/swift" build/deps/swift
    fi
    have_swift || say "no Swift: a remote cache is not tested with an object store"
}

# Debian packages of hipRTC 6 and comgr are newer than the release that this machine runs, and so is
# the C library they need: all of it is unpacked, and only the compiler worker ever runs on it.
get_rocm() {
    suite=forky
    hint="install ROCm 6 or 7 and set QUERN_ROCM_PATH to its directory"
    need_apt || die "no ROCm compiler found, and one can be fetched on Debian (amd64) only: $hint"
    codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release | tr -d '"')
    sources_of "${codename:-stable}" >"$work/sources"
    [ -s "$work/sources" ] || sources_of stable >"$work/sources"
    [ -s "$work/sources" ] ||
        die "no ROCm compiler found, and no Debian mirror in /etc/apt to fetch one from: $hint"
    say "unpacking the ROCm compiler into build/rocm (about 65 MB to download)"
    while read -r mirror keyring; do
        rm -rf "$work/rocm"
        mkdir -p "$work/rocm"
        [ "$keyring" = - ] && keyring=/usr/share/keyrings/debian-archive-keyring.gpg
        echo "deb [signed-by=$keyring] $mirror $suite main" >"$work/rocm/sources.list"
        private_apt "$work/rocm" "$work/rocm/sources.list" /dev/null
        quiet_apt "$work/rocm" update || continue
        builtins=$(APT_CONFIG=$work/rocm/apt.conf apt-cache pkgnames libhiprtc-builtins |
            sort | tail -n 1)
        quiet_apt "$work/rocm" install --download-only libamdhip64-dev libamd-comgr-dev \
            "${builtins:-libhiprtc-builtins6}" || continue
        unpack_all "$work/rocm/cache/archives" "$work/rocm/root" || continue
        have_rocm_in "$work/rocm/root" || continue
        rm -rf build/rocm
        mv "$work/rocm/root" build/rocm
        return 0
    done <"$work/sources"
    show_log
    die "cannot fetch the ROCm compiler from the mirrors in /etc/apt (suite $suite): check the" \
        "network, or $hint"
}

# ---- all of it -----------------------------------------------------------------------------------

if [ -n "${QUERN_ROCM_PATH:-}" ] && ! have_rocm_in "$QUERN_ROCM_PATH"; then
    die "QUERN_ROCM_PATH=$QUERN_ROCM_PATH holds no libhiprtc.so.6 or .7 with libamd_comgr.so:" \
        "correct it, or unset it to have a compiler found or fetched"
fi
if [ "${1:-}" = pip ]; then
    all_there() { have_pip; }
elif [ "${DEVICE:-}" = cuda ]; then
    all_there() { have_all_libraries; }
elif [ $# != 0 ]; then
    all_there() { have_all_libraries && have python3 && have_rocm; }
else
    all_there() {
        have_all_libraries && have_python && have_pip && have_format && have_nginx && have_swift &&
            have_rocm
    }
fi
if all_there; then
    exit 0
fi
mkdir -p build
# one at a time: two makes may start together
if have flock; then
    exec 9>build/.setup.lock
    flock 9
fi
rm -rf "$work"
mkdir "$work"
trap 'wait; rm -rf "$work"' EXIT # what runs in the background writes there
trap 'exit 130' INT
trap 'exit 143' TERM HUP

no_pip() { say "no pip: what is on the Python package index cannot be fetched"; }

have python3 || install_as_root python3 || die "no python3: install it"
if [ "${1:-}" = pip ]; then
    get_pip || no_pip
    exit 0
fi
have_all_libraries || get_libraries
[ "${DEVICE:-}" != cuda ] || exit 0
if [ $# = 0 ]; then
    have_python && have_pip || get_python
    # Swift takes longest, and the others need nothing of it
    { have_swift || get_swift; } &
    swift=$!
    have_format || get_format
    have_nginx || get_nginx
    wait "$swift"
fi
have_rocm || get_rocm
