#!/bin/sh
# SPDX-License-Identifier: MIT
# Says where an installed command finds AMD's compiler, and if it does not, how it would: the one
# that setup unpacked is in the checkout, where an installed quern does not look. Then what programs
# that are linked with the library need, where pkg-config and the loader would not find it.
# Usage: say_installed.sh COMMAND LIBRARIES
rocm=$(cd "$(dirname "$0")/../.." && pwd)/build/rocm
found() {
    "$@" doctor --device none --cache-mode off 2>/dev/null |
        sed -n 's/^ok       toolchain: //p'
}
there=$(found "$1")
if [ -n "$there" ]; then
    echo "compiler: $there, which $1 finds by itself"
elif [ -n "$(QUERN_ROCM_PATH=$rocm && export QUERN_ROCM_PATH && found "$1")" ]; then
    echo "compiler: $rocm, which must be named: export QUERN_ROCM_PATH=$rocm"
else
    echo "compiler: none; install ROCm 6 or 7, or name one: export QUERN_ROCM_PATH=DIR"
fi
if [ "$(pkg-config --variable=pcfiledir quern 2>/dev/null)" != "$2/pkgconfig" ]; then
    echo "programs: export PKG_CONFIG_PATH=$2/pkgconfig, and link with -Wl,-rpath,$2"
fi
