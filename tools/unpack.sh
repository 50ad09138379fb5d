#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Unpacks Debian packages, with those that they need and this machine lacks, into a directory that
# is made: it appears whole, or not at all. Nothing is installed, and no privilege is needed. For
# programs that one long test alone wants. Exit status 1 when they cannot be had; what apt-get said
# is on stderr. Usage: tools/unpack.sh DIRECTORY PACKAGE...
set -eu
LC_ALL=C
export LC_ALL
to=$1
shift
work=$(realpath -m "$to.tmp")

# A private apt that knows what is installed, so that only what is missing is fetched.
private_apt() {
    apt-get -qq -y -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" \
        -o Dir::Log="$work" -o Debug::NoLocking=true -o APT::Sandbox::User= \
        -o Acquire::Check-Valid-Until=false -o Acquire::Languages=none "$@" >&2
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "Debian packages can be unpacked on Debian only" >&2
    exit 1
fi
trap 'rm -rf "$work"' EXIT
rm -rf "$work"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/tree"
private_apt update || :
private_apt install --no-install-recommends --download-only "$@"
for deb in "$work"/cache/archives/*.deb; do
    dpkg-deb -x "$deb" "$work/tree"
done
rm -rf "$to"
mv "$work/tree" "$to"
