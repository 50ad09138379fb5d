#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints, for thousands of kernels, a hash of their instructions, so that a change to the generator
# can be shown to move none: run it on the tree before and after, and compare the two outputs.
#
#   tests/bench/kernel_text.sh > before.txt       (in the top directory, after make all tests)
#
# The kernels are those of the covering array (tests/unit/test_covering.c), of every layer, type,
# target and M of docs/sweep.csv, and of the layers below, which have every weight format, layout,
# scale and zero point, on every target with a row in tests/regress/kernels.csv. KERNEL_TEXT_CACHE
# names a cache directory that is kept from run to run (default build/kernel-text), so that only
# kernels whose source changed are compiled. The first run takes some 20 minutes of two cores.
set -eu
cd "$(dirname "$0")/../.."
B=${B:-build/release}
cache=${KERNEL_TEXT_CACHE:-build/kernel-text}
lists=$(mktemp -d)
trap 'rm -rf "$lists"' EXIT

list() {
    T_LIST_CASES=1 "$B/tests/unit/test_covering"
    awk -F, 'NR > 1 {print $6, $8, "wq=" $1, "n=" $4, "k=" $5, "a=" $7}' docs/sweep.csv
    for target in gfx906 gfx908 gfx90a gfx942 gfx950 gfx1030 gfx1100 gfx1151 gfx1201; do
        while read -r problem; do
            case $problem in
            op=dequant*) echo "$target 1 $problem" ;;
            *) for m in 1 2 4 8 16 32 64 128 512 4096; do echo "$target $m $problem"; done ;;
            esac
        done <<'P'
wq=nf4 n=4096 k=4096 a=f16
wq=nf4 n=4096 k=4096 a=bf16 bias=1
wq=nf4 n=4096 k=4096 a=f32
wq=nf4 n=2560 k=9728 a=bf16 scale=nested c=f32
wq=fp4 n=1024 k=2560 a=f16 group=128
wq=mxfp4 n=5760 k=2880 a=bf16 bias=1
wq=mxfp4 n=2880 k=2880 a=f16
wq=int4 n=4096 k=4096 a=f16
wq=int4 n=4096 k=4096 a=bf16
wq=int4 n=2560 k=4096 a=f16 zero=u8
wq=int4 n=2560 k=4096 a=bf16 zero=u8
wq=int4 n=2560 k=4096 a=bf16 zero=scaled group=32
wq=int4 n=2560 k=4096 a=f16 zero=scaled group=32
wq=int4 n=4096 k=4096 a=bf16 layout=ck round=trunc
wq=int4 n=4096 k=4096 a=f16 layout=exl group=channel
wq=int4 n=1024 k=1024 a=f32 zero=u8
wq=none n=4096 k=4096 a=f16
wq=none n=4096 k=4096 a=bf16 bias=1
wq=none n=1024 k=1000 a=f32
wq=fp8 n=4096 k=4096 a=fp8
wq=fp8 n=4096 k=4096 a=bf16
wq=fp8fnuz n=4096 k=4096 a=fp8fnuz
wq=fp8fnuz n=4096 k=4096 a=f16
wq=fp8 n=4096 k=4096 a=fp8 scale=block128
wq=fp8 n=576 k=7168 a=bf16 scale=block128
op=dequant wq=nf4 n=4096 k=4096 c=bf16
op=dequant wq=fp4 n=4096 k=4096 c=f16 scale=nested
op=dequant wq=mxfp4 n=4096 k=4096 c=f32
op=dequant wq=int4 n=4096 k=4096 c=bf16 zero=u8
op=dequant wq=int4 n=4096 k=4096 c=f16 layout=exl
op=dequant wq=fp8 n=4096 k=4096 c=bf16
op=dequant wq=fp8fnuz n=4096 k=4096 c=f16
op=dequant wq=fp8 n=4096 k=4096 c=bf16 scale=block128
P
    done
}

# Two processes, each with every other kernel: neighbours on the list often share one.
list | sort -u | awk -v d="$lists" '{print > (d "/" int(NR / 64) % 2)}'
mkdir -p "$cache"
for half in 0 1; do
    QUERN_CACHE_MAX_SIZE=4G "$B/tests/bench/kernel_text" "$cache" <"$lists/$half" \
        >"$lists/$half.out" &
    eval "pid$half=$!"
done
wait "$pid0"
wait "$pid1"
sort "$lists/0.out" "$lists/1.out"
