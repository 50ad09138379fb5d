#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Prints the path of a Chromium that runs without a display, for the test that looks at pages. When
# there is none, Debian's lightest one, chromium-headless-shell, is installed as root, and otherwise
# unpacked into build/browser with the libraries that the machine lacks (about 70 MB to download).
# Exit status 1, with the reason on stderr, when none can be had. Usage: tools/browser.sh
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.."
top=$(pwd)
own=$top/build/browser
work=$top/build/browser.whole
packages="chromium-headless-shell fonts-dejavu-core"

find_browser() {
    if [ -x "$own/run" ]; then
        echo "$own/run"
        return 0
    fi
    for name in chromium-headless-shell headless_shell chromium chromium-browser google-chrome; do
        command -v "$name" 2>/dev/null && return 0
    done
    return 1
}

install_as_root() {
    apt-get -qq -o Acquire::Check-Valid-Until=false update || :
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=120 \
        install --no-install-recommends $packages
}

# Fonts and libraries are looked for in the unpacked tree first.
write_start() {
    mkdir -p "$work/cache"
    cat >"$work/fonts.conf" <<C
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig><dir>$own/usr/share/fonts</dir><dir>/usr/share/fonts</dir>
<cachedir>$own/cache</cachedir></fontconfig>
C
    cat >"$work/run" <<C
#!/bin/sh
FONTCONFIG_FILE=$own/fonts.conf
LD_LIBRARY_PATH=$own/usr/lib/x86_64-linux-gnu
export FONTCONFIG_FILE LD_LIBRARY_PATH
exec $own$1 "\$@"
C
    chmod +x "$work/run"
}

unpack() {
    # shellcheck disable=SC2086
    sh tools/unpack.sh "$work" $packages || return 1
    for program in /usr/lib/chromium/chromium-headless-shell /usr/lib/chromium/headless_shell \
        /usr/bin/chromium-headless-shell; do
        [ -x "$work$program" ] || continue
        write_start "$program"
        rm -rf "$own"
        mv "$work" "$own"
        return 0
    done
    return 1
}

find_browser && exit 0
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "no Chromium here, and one can be fetched on Debian only" >&2
    exit 1
fi
mkdir -p build
if [ "$(id -u)" = 0 ]; then
    install_as_root >build/browser.log 2>&1 || :
else
    unpack >build/browser.log 2>&1 || :
fi
find_browser && exit 0
echo "no Chromium here, and apt-get cannot fetch $packages" >&2
exit 1
