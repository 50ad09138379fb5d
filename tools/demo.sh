#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What `make demo` shows once everything is built: a model's kernels made, verified and found again
# in the cache, then a sentence encoder that runs on such. Every command is printed before it runs.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/build/release/bin:$PATH
QUERN_CACHE_DIR=$(mktemp -d)
export PATH QUERN_CACHE_DIR
trap 'rm -rf "$QUERN_CACHE_DIR"' EXIT

say() { printf '\n== %s\n' "$*"; }
show() {
    printf '\n$'
    for word; do
        case $word in
        *[!A-Za-z0-9_./=,:-]*) printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    "$@"
}
prewarm() {
    show quern prewarm --model cache/models/qwen3-4b.json --wq nf4 --group 64 --a bf16 \
        --target gfx1151 --m 1-8 --verify
}

started=$(date +%s)
say "Qwen3-4B: every linear layer in NF4 for gfx1151, from an empty cache"
prewarm
say "Once more: nothing is left to compile"
prewarm
say "A sentence encoder with its 36 linear layers in NF4, on the software gfx1151"
show sh tools/fetch_model.sh
show build/release/examples/encoder build/models/all-MiniLM-L6-v2 \
    "A quern is a small mill that is turned by hand." \
    "Grain was ground to flour between two stones." \
    "The train to Lisbon leaves at half past nine."
printf '\n== All of it took %d s\n' $(($(date +%s) - started))
