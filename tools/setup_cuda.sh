#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Brings NVRTC, NVIDIA's compiler, for kernels for NVIDIA's GPUs: only when it is asked for, as it
# is under NVIDIA's licence (CUDA Toolkit EULA), which nobody can accept for another. It is fetched
# from the Python package index as NVIDIA publishes it there, and unpacked below build/cuda; nothing
# of it is installed, passed on or put into a cache or bundle. Does nothing, quietly, when this
# machine has CUDA 12.9 or later. Usage: tools/setup_cuda.sh (make setup-cuda)
#
# With CI=true the version that tests know, and cuobjdump and the driver's header, which tests
# compare with, are brought whatever else is there. The directory appears under its name only when
# it is whole.
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.."
nvrtc='nvidia-cuda-nvrtc-cu12==12.9.86
    --hash=sha256:210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4'
cuobjdump='nvidia-cuda-cuobjdump==13.5.37
    --hash=sha256:38780fee50863252a0b8926357faa91615ca1c8346490563f33a06100cd73f58'
runtime='nvidia-cuda-runtime-cu12==12.9.79
    --hash=sha256:25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3'
cuda=$PWD/build/cuda
work=$PWD/build/cuda.$$

die() {
    echo "setup_cuda: $*" >&2
    exit 1
}

# Whether NVRTC of CUDA 12.9 or later is in one of the usual places below $1.
have_nvrtc_in() {
    for d in "$1" "$1/lib64" "$1/lib" "$1/cu13/lib" "$1/cuda_nvrtc/lib" "$1/nvidia/cu13/lib" \
        "$1/nvidia/cuda_nvrtc/lib" "$1/targets/x86_64-linux/lib"; do
        for f in "$d"/libnvrtc-builtins.so.12.9 "$d"/libnvrtc-builtins.so.1[3-9].*; do
            [ -e "$f" ] && return 0
        done
    done
    return 1
}

have_nvrtc() {
    for root in "${QUERN_CUDA_PATH:-}" "${CUDA_PATH:-}" /usr/local/cuda /usr/local/cuda-* \
        "$cuda"; do
        [ -n "$root" ] && have_nvrtc_in "$root" && return 0
    done
    return 1
}

if [ -n "${QUERN_CUDA_PATH:-}" ] && ! have_nvrtc_in "$QUERN_CUDA_PATH"; then
    die "QUERN_CUDA_PATH=$QUERN_CUDA_PATH holds no NVRTC of CUDA 12.9 or later: correct it, or" \
        "unset it to have one found or fetched"
fi
if [ "${CI:-}" = true ]; then
    have_nvrtc_in "$cuda" && [ -x "$cuda/bin/cuobjdump" ] && [ -e "$cuda/include/cuda.h" ] &&
        exit 0
else
    have_nvrtc && exit 0
    cuobjdump=
    runtime=
fi
[ "$(uname -m)" = x86_64 ] || die "NVRTC can be fetched for x86-64 only"

mkdir -p "$work/wheels" "$work/cuda/lib" "$work/cuda/bin"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
sh tools/setup.sh pip
echo "setup_cuda: downloading NVRTC 12.9 (90 MB), which is under NVIDIA's CUDA Toolkit EULA" >&2
printf '%s\n%s\n%s\n' "$nvrtc" "$cuobjdump" "$runtime" | tr -s '\n ' ' ' |
    sed 's/ nvidia/\nnvidia/g' >"$work/requirements"
sh tools/pip.sh download --quiet --no-deps --only-binary=:all: --require-hashes \
    --dest "$work/wheels" --requirement "$work/requirements" >"$work/log" 2>&1 || {
    tail -n 5 "$work/log" >&2
    die "cannot download NVRTC from the Python package index; check the network and pip, or" \
        "install CUDA 12.9 or later and set QUERN_CUDA_PATH to its directory"
}
for wheel in "$work"/wheels/*.whl; do
    python3 -m zipfile -e "$wheel" "$work/all" || die "the package $wheel is damaged"
done
mv "$work"/all/nvidia/cuda_nvrtc/lib/libnvrtc.so.12 \
    "$work"/all/nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.9 "$work/cuda/lib/"
mv "$work"/all/nvidia_cuda_nvrtc*.dist-info/licenses/License.txt "$work/cuda/EULA.txt"
if [ -n "$cuobjdump" ]; then
    mv "$work"/all/nvidia/cu13/bin/cuobjdump "$work/cuda/bin/"
    chmod +x "$work/cuda/bin/cuobjdump"
    mkdir "$work/cuda/include"
    mv "$work/all/nvidia/cuda_runtime/include/cuda.h" "$work/cuda/include/"
fi
rm -rf "$cuda"
# another run may have been faster: its copy is as good
mv -T "$work/cuda" "$cuda" 2>/dev/null || [ -d "$cuda" ] || die "cannot create $cuda"
