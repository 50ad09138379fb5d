#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the one version of clang-format that the tree is formatted with, which setup.sh fetches.
# Usage: tools/format.sh [clang-format's options]          FILE…
#        tools/format.sh --all [clang-format's options]    every C file and public header
set -eu
cd "$(dirname "$0")/.."
format=$(pwd)/build/deps/format
if [ ! -x "$format/bin/clang-format" ]; then
    echo "format.sh: no clang-format in build/deps/format: run make setup where pip works" >&2
    exit 127
fi
PYTHONPATH=$format
export PYTHONPATH
if [ "${1:-}" = --all ]; then
    shift
    git -c safe.directory="$(pwd)" ls-files -z --cached --others --exclude-standard '*.c' '*.h' \
        'include/*.hpp' |
        xargs -0 "$format/bin/clang-format" "$@"
else
    exec "$format/bin/clang-format" "$@"
fi
