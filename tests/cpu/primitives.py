#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whether the CPU's multiprocessor does what an NVIDIA GPU does, primitive by primitive.

    primitives.py make DIR   with a C++ compiler: inputs, the CPU's outputs, the source
    primitives.py run DIR    on a machine with a GPU, a driver and NVRTC: compares bit for bit

`run` needs nothing but DIR and this file. Sums of matrix products are not compared bit for bit: a
GPU cuts where the CPU rounds, and the largest difference is printed, in units of the last place of
the largest of the numbers that are added. Exit status 1: a primitive differs; 77: no GPU here.
"""
import array
import ctypes
import glob
import math
import os
import random
import re
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
THREADS, WORDS, SHARED = 64, 16, 8192
BLOCKS = 4  # of a cluster
WARPGROUP = "sm_90"  # which GPU has the primitives of four warps, in code for its "a" form
UNWRITTEN = 0xABABABAB
# Inputs that are floats of ordinary size, for each: how many bits a number has.
MATRICES = {"matrix_bf16": "bf16", "matrix_f16": "f16"}
SPECIAL = [0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x00800000, 0x38800000, 0x477FEFFF,
           0x477FF000, 0x33000000, 0x33000001, 0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x387FE000]


def names():
    with open(os.path.join(HERE, "primitives.cu"), encoding="utf-8") as f:
        return re.findall(r"^(?:WARPGROUP_|CLUSTER_)?PROBE\((\w+)\)", f.read(), re.M)


def threads_of(name):
    """Of a block."""
    return 128 if name.startswith("warpgroup_") else THREADS


def blocks_of(name):
    return BLOCKS if name.startswith("cluster_") else 1


def words_of(name):
    return threads_of(name) * blocks_of(name) * WORDS


def bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def number(word):
    return struct.unpack("<f", struct.pack("<I", word))[0]


def half(kind, value):
    if kind == "bf16":
        return bits(value) >> 16
    return struct.unpack("<H", struct.pack("<e", value))[0]


def widen(kind, word):
    if kind == "bf16":
        return number(word << 16)
    return struct.unpack("<e", struct.pack("<H", word))[0]


def inputs(name):
    """The same on every machine."""
    r = random.Random(name)
    words = array.array("I")
    for i in range(words_of(name)):
        if "_whole_" in name:
            words.append(half("bf16", r.randrange(-8, 9)) | half("bf16", r.randrange(-8, 9)) << 16)
        elif name in MATRICES and i % WORDS < 6:
            kind = MATRICES[name]
            words.append(half(kind, r.gauss(0, 1)) | half(kind, r.gauss(0, 1)) << 16)
        elif name in MATRICES:
            words.append(bits(r.gauss(0, 4)))
        elif r.random() < 0.2:
            words.append(r.choice(SPECIAL))
        elif name in ("sums", "roundings") and r.random() < 0.7:
            words.append(bits(math.ldexp(r.gauss(0, 1), r.randrange(-24, 16))))
        else:
            words.append(r.getrandbits(32))
    return words


def save(path, words):
    with open(path, "wb") as f:
        f.write(words.tobytes())


def load(path):
    words = array.array("I")
    with open(path, "rb") as f:
        words.frombytes(f.read())
    return words


def make(directory):
    os.makedirs(directory, exist_ok=True)
    # of sm_90 and later
    source = "constexpr unsigned SHARED_START = 1024;\nconstexpr bool EARLY = true;\n"
    for path in ("templates/cuda/prelude/ptx.cu", "templates/cuda/prelude/warpgroup.cu",
                 "tests/cpu/primitives.cu"):
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            text = f.read()
        source += f"#ifdef HAS_WARPGROUP\n{text}#endif\n" if "warpgroup" in path else text
    with open(os.path.join(directory, "source.cu"), "w", encoding="utf-8") as f:
        f.write(source)
    whole = os.path.join(directory, "whole.cpp")
    with open(whole, "w", encoding="utf-8") as f:
        f.write('#include "machine.hpp"\n#include "source.cu"\n#include "machine_main.hpp"\n')
    compiler = [os.environ.get("CXX", "c++"), "-std=c++17", "-w", "-O1", "-ffp-contract=off",
                "-I", os.path.join(ROOT, "src/cpu"), "-o"]
    machine = os.path.join(directory, "machine.o")
    subprocess.run([*compiler, machine, "-c", os.path.join(ROOT, "src/cpu/machine.cpp")],
                   check=True)
    for name in names():
        base = os.path.join(directory, name)
        save(base + ".in", inputs(name))
        save(base + ".out", array.array("I", [UNWRITTEN] * words_of(name)))
        with open(base + ".launch", "w", encoding="utf-8") as f:
            f.write(f"grid 1 {blocks_of(name)}\nthreads {threads_of(name)}\nshared {SHARED}\n"
                    "seed 1\n"
                    f"operand in {base}.in read\noperand out {base}.out write\n")
        subprocess.run([*compiler, base, f"-DSYMBOL={name}", f"-DCLUSTER={blocks_of(name)}",
                        "-DHAS_WARPGROUP", whole, machine], check=True)
        said = subprocess.run([base, base + ".launch"], stdout=subprocess.PIPE, text=True,
                              check=False).stdout
        os.remove(base)
        if said != "done\n":
            sys.exit(f"primitives.py: {name} on the CPU: {said}")
    print(f"{len(names())} primitives in {directory}")


# ---- On a GPU ------------------------------------------------------------------------------------

def library(patterns):
    for pattern in patterns:
        for path in sorted(glob.glob(pattern), reverse=True):
            try:
                return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            except OSError:
                continue
    return None


def find_nvrtc():
    roots = [os.environ.get("QUERN_CUDA_PATH", "/usr/local/cuda"), "/usr/local/cuda"]
    roots += [os.path.join(p, "nvidia", "*") for p in sys.path if p]
    return library([os.path.join(r, d, "libnvrtc.so.1[23]")
                    for r in roots for d in ("lib64", "lib")])


def check(result, what):
    if result:
        sys.exit(f"primitives.py: {what}: error {result}")


def compile_source(nvrtc, source, arch, blocks):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    which = [f"-arch={arch}a", "-DHAS_WARPGROUP"] if arch == WARPGROUP else [f"-arch={arch}"]
    options = [*which, f"-DCLUSTER={blocks}", "-std=c++17", "--minimal", "-default-device",
               "-diag-error=1097"]
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"primitives.cu", 0, None, None),
          "NVRTC")
    texts = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
    failed = nvrtc.nvrtcCompileProgram(program, len(options), texts)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if failed:
        sys.exit("primitives.py: " + log.value.decode())
    check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "the size of the cubin")
    code = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetCUBIN(program, code), "the cubin")
    return code.raw


def ulp_of(value):
    return math.ldexp(1.0, math.frexp(value)[1] - 24) if value else 0.0


def matrix_difference(kind, words, got, want):
    """The largest, in units of the last place of the largest number added."""
    worst = 0.0
    for t in range(THREADS):
        warp, lane = t // 32 * 32, t % 32
        for j in range(4):
            row, column = lane // 4 + j // 2 * 8, lane % 4 * 2 + j % 2
            largest = abs(number(words[t * WORDS + 6 + j]))
            for k in range(16):
                a = words[(warp + row % 8 * 4 + k % 8 // 2) * WORDS + row // 8 + k // 8 * 2]
                b = words[(warp + column * 4 + k % 8 // 2) * WORDS + 4 + k // 8]
                largest = max(largest, abs(widen(kind, a >> 16 * (k % 2) & 0xFFFF) *
                                           widen(kind, b >> 16 * (k % 2) & 0xFFFF)))
            at = t * WORDS + j
            worst = max(worst, abs(number(got[at]) - number(want[at])) / ulp_of(largest))
    return worst


def same(name, got, want):
    """Equal, or both NaN where arithmetic made them: which NaN, a GPU and a CPU see differently."""
    nans = math.isnan(number(got)) and math.isnan(number(want))
    return got == want or (nans and name in ("sums", "roundings"))


def compare(name, words, got, want):
    if name in MATRICES:
        worst = matrix_difference(MATRICES[name], words, got, want)
        exact = sum(g == w for g, w in zip(got, want))
        print(f"{name}: at most {worst:.2f} units in the last place of the largest term; "
              f"{exact} of {len(got)} words equal")
        return worst <= 16
    wrong = [i for i in range(len(got)) if not same(name, got[i], want[i])]
    for i in wrong[:4]:
        print(f"{name}: thread {i // WORDS} word {i % WORDS}: {got[i]:#010x} on the GPU, "
              f"{want[i]:#010x} on the CPU")
    print(f"{name}: {len(got) - len(wrong)} of {len(got)} words equal")
    return not wrong


def open_device(cuda):
    device, context = ctypes.c_int(), ctypes.c_void_p()
    major, minor = ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0):
        print("primitives.py: no GPU")
        sys.exit(77)
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "the context")
    check(cuda.cuCtxPushCurrent_v2(context), "the context")
    cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device)
    cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
    return f"sm_{major.value}{minor.value}"


def run_probe(cuda, module, name, words):
    function, a, b = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()
    threads = threads_of(name)
    size = words_of(name) * 4
    out = (ctypes.c_uint32 * words_of(name))(*[UNWRITTEN] * words_of(name))
    check(cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode()), name)
    check(cuda.cuMemAlloc_v2(ctypes.byref(a), ctypes.c_size_t(size)), "memory")
    check(cuda.cuMemAlloc_v2(ctypes.byref(b), ctypes.c_size_t(size)), "memory")
    check(cuda.cuMemcpyHtoD_v2(a, words.tobytes(), ctypes.c_size_t(size)), "a copy")
    check(cuda.cuMemcpyHtoD_v2(b, out, ctypes.c_size_t(size)), "a copy")
    arguments = (ctypes.c_void_p * 2)(ctypes.addressof(a), ctypes.addressof(b))
    check(cuda.cuLaunchKernel(function, 1, blocks_of(name), 1, threads, 1, 1, SHARED, None,
                              arguments, None), name)
    check(cuda.cuCtxSynchronize(), name)
    check(cuda.cuMemcpyDtoH_v2(out, b, ctypes.c_size_t(size)), "a copy")
    cuda.cuMemFree_v2(a)
    cuda.cuMemFree_v2(b)
    return array.array("I", out)


def run(directory):
    try:
        cuda = library(["/usr/lib/wsl/lib/libcuda.so.1"]) or ctypes.CDLL("libcuda.so.1")
    except OSError:
        print("primitives.py: no libcuda.so.1")
        sys.exit(77)
    arch, nvrtc, modules = open_device(cuda), find_nvrtc(), {}
    if not nvrtc:
        sys.exit("primitives.py: no NVRTC; QUERN_CUDA_PATH says where one is")
    with open(os.path.join(directory, "source.cu"), "rb") as f:
        source = f.read()
    for blocks in (1, BLOCKS):
        modules[blocks] = ctypes.c_void_p()
        code = compile_source(nvrtc, source, arch, blocks)
        check(cuda.cuModuleLoadData(ctypes.byref(modules[blocks]), code), "the module")
    right = True
    for path in sorted(glob.glob(os.path.join(directory, "*.in"))):
        name = os.path.basename(path)[:-3]
        if threads_of(name) != THREADS and arch != WARPGROUP:
            continue
        words = load(path)
        got, want = run_probe(cuda, modules[blocks_of(name)], name, words), load(path[:-3] + ".out")
        right = compare(name, words, got, want) and right
    print(f"{arch}: {'as on the CPU' if right else 'DIFFERENT'}")
    sys.exit(not right)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("make", "run"):
        sys.exit(__doc__)
    (make if sys.argv[1] == "make" else run)(sys.argv[2])
