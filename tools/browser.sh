#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Prints the path of a Chromium that runs without a display, for the test that looks at pages. As
# root on Debian, one is installed when there is none: chromium-headless-shell, the lightest of its
# packages. Exit status 1, with the reason on stderr, when none can be had. Usage: tools/browser.sh
set -eu
LC_ALL=C
export LC_ALL

find_browser() {
    for name in chromium-headless-shell headless_shell chromium chromium-browser google-chrome; do
        command -v "$name" 2>/dev/null && return 0
    done
    return 1
}

find_browser && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "no Chromium here, and only root on Debian can install one" >&2
    exit 1
fi
apt-get -qq -o Acquire::Check-Valid-Until=false update >/dev/null 2>&1 || :
DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=120 \
    install --no-install-recommends chromium-headless-shell fonts-dejavu-core >/dev/null 2>&1 || :
find_browser && exit 0
echo "no Chromium here, and apt-get cannot install chromium-headless-shell" >&2
exit 1
