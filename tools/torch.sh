#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Prints a directory for PYTHONPATH that has torch and transformers, for the tests that need them:
# build/torch, which is filled from the Python package index at the first call (about 3 GB, as
# torch's build for Linux needs CUDA's libraries to be imported). Exit status 1, with the reason
# on stderr, when they cannot be had. Usage: tools/torch.sh
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.."
top=$(pwd)
own=$top/build/torch
work=$top/build/torch.tmp
packages="torch==2.11.0 transformers==5.23.0"

if [ ! -d "$own" ]; then
    mkdir -p build
    rm -rf "$work"
    # shellcheck disable=SC2086
    if ! sh tools/pip.sh install --quiet --no-cache-dir --target "$work" $packages \
        >build/torch.log 2>&1; then
        echo "torch cannot be fetched: $(tail -n 1 build/torch.log)" >&2
        exit 1
    fi
    mv "$work" "$own"
fi
echo "$own"
