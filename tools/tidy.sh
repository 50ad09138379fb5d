#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs one version of clang-tidy over src and tools, with the checks of .clang-tidy. It is fetched
# into build/deps/tidy when it is first wanted. Exit status 127 where it cannot be had.
# Usage: tools/tidy.sh
set -eu
cd "$(dirname "$0")/.."
version=19.1.0 # each version has checks of its own
tidy=build/deps/tidy-$version
if [ ! -x "$tidy/bin/clang-tidy" ]; then
    echo "tidy.sh: installing clang-tidy $version into $tidy" >&2
    rm -rf "$tidy.tmp"
    if ! sh tools/pip.sh install --quiet --no-deps --only-binary=:all: --target "$tidy.tmp" \
        "clang-tidy==$version" >&2; then
        rm -rf "$tidy.tmp"
        echo "tidy.sh: no clang-tidy $version can be had" >&2
        exit 127
    fi
    mv "$tidy.tmp" "$tidy"
fi
make --no-print-directory compdb
PYTHONPATH=$tidy
export PYTHONPATH
find src tools -name '*.c' -print0 |
    xargs -0 -P "$(nproc)" -n 8 "$tidy/bin/clang-tidy" --quiet -p .
