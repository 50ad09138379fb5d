#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What `make demo` shows once everything is built: a model's kernels made, verified and found again
# in the cache, then a sentence encoder that runs on such. Every command is printed before it runs.
# With DEVICE=cuda or DEVICE=hip in the environment it is on the GPU of this machine, else on a
# software one.
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
    show quern prewarm --model cache/models/qwen3-4b.json --wq nf4 --group 64 --a bf16 "$@" --m 1-8
}
encoder() {
    show sh tools/fetch_model.sh
    show build/release/examples/encoder "$@" build/models/all-MiniLM-L6-v2 \
        "A quern is a small mill that is turned by hand." \
        "Grain was ground to flour between two stones." \
        "The train to Lisbon leaves at half past nine."
}

# On a software GPU of AMD's.
simulated() {
    say "Qwen3-4B: every linear layer in NF4 for gfx1151, from an empty cache"
    prewarm --target gfx1151 --verify
    say "Once more: nothing is left to compile"
    prewarm --target gfx1151 --verify
    say "A sentence encoder with its 36 linear layers in NF4, on the software gfx1151"
    encoder
}

# On a GPU. A kernel's answers are compared before and while it runs there: with a product in double
# precision on the CPU.
on_gpu() {
    export QUERN_DEVICE="$1"
    say "What is there"
    show quern doctor
    target=$(quern doctor |
        sed -n 's/.* device: 0: .*, \([a-z0-9_:+-]*\), [0-9]* compute.*/\1/p' | head -n 1)
    if [ -z "$target" ]; then
        echo "demo: quern doctor, above, names no GPU for DEVICE=$1" >&2
        exit 1
    fi
    say "Qwen3-4B: every linear layer in NF4 for $target, from an empty cache"
    prewarm --target "$target"
    say "Once more: nothing is left to compile"
    prewarm --target "$target"
    say "One of its layers: what a launch takes"
    show quern time --m 1,8,64 "wq=nf4 n=6144 k=2560 a=bf16"
    say "A sentence encoder with its 36 linear layers in NF4, on the GPU"
    encoder --gpu
}

started=$(date +%s)
case ${DEVICE:-} in
'') simulated ;;
cuda | hip) on_gpu "$DEVICE" ;;
*)
    echo "demo: DEVICE is $DEVICE; expected cuda, hip, or nothing for a software GPU" >&2
    exit 2
    ;;
esac
printf '\n== All of it took %d s\n' $(($(date +%s) - started))
